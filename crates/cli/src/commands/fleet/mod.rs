//! `argiope crawl --frontier`, `argiope fleet` and `argiope merge`: one crawl on many machines.

mod merge;
mod process;
mod rounds;
mod settings;
mod status;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use argiope_core::output::escape::visible;
use argiope_core::schedule::frontier::StoreError;
use argiope_store::cluster::{FleetClient, FleetSettings, FleetState, LeaseTimes, Nodes, Unreachable};
use argiope_store::segments::SegmentStore;
use clap::{Args, Subcommand};

use argiope_core::schedule::keeper::End;

use super::{FAILED, USAGE, print_error};
use crate::flags::config_file::UsageError;
use crate::results::CrawlEnd;

pub use merge::{MergeArgs, merge};
pub use process::crawl;
use status::{FleetRemoval, FleetStatusArgs};

/// At the start, connection attempts are repeated for this long.
const CONNECT: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Many machines")]
pub struct FleetFlags {
    /// Share the crawl with other processes through a Redis or Valkey server or cluster
    ///
    /// Written redis://HOST:PORT[,HOST:PORT...], or rediss:// for TLS. Without roots, the process joins an existing
    /// crawl.
    #[arg(long, value_name = "ADDRESS")]
    frontier: Option<String>,
    /// The name of the shared crawl
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Number of groups into which hosts are divided
    #[arg(long, value_name = "N", hide = true, default_value_t = 4096,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    buckets: u32,
    /// How long a lease lasts, in seconds
    #[arg(long, value_name = "SECONDS", hide = true, default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=600))]
    lease: u64,
}

impl FleetFlags {
    /// Whether the crawl is shared.
    pub fn is_set(&self) -> bool {
        self.frontier.is_some()
    }

    /// Applies a key of the configuration file, unless its flag is given.
    pub fn set_default(&mut self, key: &str, value: &str) {
        let place = if key == "frontier" { &mut self.frontier } else { &mut self.name };
        place.get_or_insert_with(|| value.to_owned());
    }

    pub fn check(&self) -> Result<(), UsageError> {
        match (&self.frontier, &self.name) {
            (Some(_), None) => Err(UsageError("--frontier needs --name, the name of the shared crawl".into())),
            (None, Some(_)) => Err(UsageError("--name is the name of a shared crawl and needs --frontier".into())),
            _ => Ok(()),
        }
    }

    fn times(&self) -> LeaseTimes {
        let lease = Duration::from_secs(self.lease);
        LeaseTimes { lease, renew_every: lease / 3 }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  argiope fleet status redis://db.example:6379 --name news
      the processes of a shared crawl, what they do, and what is queued
  argiope fleet remove redis://db.example:6379 --name news
      removes the crawl from the store; the results stay")]
pub struct FleetArgs {
    #[command(subcommand)]
    action: FleetAction,
}

#[derive(Subcommand, Debug)]
enum FleetAction {
    /// Show the processes and the progress of a shared crawl
    Status(FleetStatusArgs),
    /// Remove a shared crawl from the store; its results stay
    Remove(FleetRemoval),
}

#[derive(Args, Debug)]
pub struct FleetPlace {
    /// The servers, as for --frontier
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// The name of the shared crawl
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
}

/// Why a command for a shared crawl failed. The variant determines the exit code.
#[derive(Debug)]
pub enum Refusal {
    Failed(String),
    /// The store does not answer now.
    Unreachable(String),
    Usage(String),
}

impl From<Unreachable> for Refusal {
    fn from(fault: Unreachable) -> Self {
        let why = format!("the store of the fleet: {}", fault.message);
        if fault.is_final { Self::Failed(why) } else { Self::Unreachable(why) }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.message.into())
    }
}

impl Refusal {
    /// Prints why, and gives the exit code.
    fn print(self) -> ExitCode {
        let (why, code) = match self {
            Self::Failed(why) | Self::Unreachable(why) => (why, FAILED),
            Self::Usage(why) => (why, USAGE),
        };
        print_error(&visible(&why));
        ExitCode::from(code)
    }
}

/// `argiope fleet status` and `argiope fleet remove`.
pub fn run(args: &FleetArgs) -> Result<ExitCode, UsageError> {
    let done = match &args.action {
        FleetAction::Status(args) => status::status(args),
        FleetAction::Remove(removal) => status::remove(removal),
    };
    Ok(done.unwrap_or_else(|refusal| refusal.print()))
}

fn connect(address: &str, name: &str, owner: &str, ca_cert: Option<&Path>) -> Result<FleetClient, Refusal> {
    let authority = match ca_cert {
        Some(path) => {
            Some(std::fs::read(path).map_err(|error| Refusal::Failed(format!("{}: {error}", path.display())))?)
        }
        None => None,
    };
    let until = Instant::now() + CONNECT;
    loop {
        match Nodes::open(address, authority.as_deref()) {
            Ok(nodes) => return Ok(FleetClient::new(nodes, name, owner)),
            Err(fault) if fault.is_final || Instant::now() >= until => return Err(fault.into()),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Writes how the crawl ended, and up to which positions the segments count, beside the results. Does nothing if that
/// was done before.
fn finish(client: &mut FleetClient, settings: &FleetSettings, segments: &SegmentStore) -> Result<(), Refusal> {
    let unreadable = |error: std::io::Error| Refusal::Failed(format!("{segments} cannot be read: {error}"));
    let unwritable = |error: std::io::Error| Refusal::Failed(format!("{segments} cannot be written: {error}"));
    if segments.is_final().map_err(unreadable)? {
        return Ok(());
    }
    let reason = match FleetState::read(client)? {
        FleetState::Finished => End::Finished,
        FleetState::MaxPages => End::MaxPages,
        FleetState::MaxBytes => End::MaxBytes,
        FleetState::Created | FleetState::Running => End::Interrupted,
    };
    let queued = client.survey(settings.buckets)?.iter().map(|state| state.queued + state.leased).sum();
    let seconds = settings.age(client)?.as_secs_f64();
    let end = CrawlEnd { reason: reason.as_str().to_owned(), queued, seconds };
    segments.write_end(&serde_json::to_string(&end).unwrap_or_default()).map_err(unwritable)?;
    let positions = client.positions(settings.buckets)?;
    segments.write_final_positions(&positions).map_err(unwritable)
}
