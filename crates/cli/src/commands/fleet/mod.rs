//! `argiope crawl --frontier`, `argiope fleet` and `argiope merge`: one crawl on many machines.

mod control;
mod login;
mod merge;
mod process;
mod restore;
mod rounds;
mod settings;
mod status;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use argiope_core::base::escape::visible;
use argiope_core::crawl::schedule::frontier::StoreError;
use argiope_fleet::cluster::{FleetClient, FleetSettings, FleetState, LeaseTimes, MAX_BUCKETS, Nodes, Unreachable};
use argiope_fleet::segments::SegmentStore;
use clap::{Args, Subcommand};

use argiope_core::crawl::schedule::keeper::End;

use super::{FAILED, USAGE, print_error};
use crate::flags::config_file::UsageError;
use crate::flags::settings::FleetFlags;
use crate::results::segments::CrawlEnd;
use crate::wording;

pub use control::{FleetCtl, control};
pub use merge::{MergeArgs, merge};
pub use process::crawl;
use restore::FleetRestoration;
use status::{FleetRemoval, FleetStatusArgs};

/// Connection attempts are repeated for this long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two attempts to reach the store or to join the crawl.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

impl FleetFlags {
    /// Whether the crawl is shared.
    pub fn is_set(&self) -> bool {
        self.frontier.is_some()
    }

    /// Checks that `--frontier` and `--name` are given together, and the numbers.
    pub fn check(&self) -> Result<(), UsageError> {
        match (&self.frontier, &self.name) {
            (Some(_), None) => Err(UsageError("--frontier needs --name, the name of the shared crawl".into())),
            (None, Some(_)) => Err(UsageError("--name is the name of a shared crawl and needs --frontier".into())),
            (None, None) if self.frontier_password_file.is_some() => {
                Err(UsageError("--frontier-password-file has no effect without --frontier".into()))
            }
            _ if !(1..=MAX_BUCKETS).contains(&self.buckets) => {
                Err(UsageError(format!("--buckets: write a number from 1 to {MAX_BUCKETS}")))
            }
            _ if !(1..=600).contains(&self.lease) => Err(UsageError("--lease: write a number from 1 to 600".into())),
            _ => Ok(()),
        }
    }

    fn lease_times(&self) -> LeaseTimes {
        let lease = Duration::from_secs(self.lease);
        // Two renewals in a row may fail before the lease expires.
        LeaseTimes { lease, renew_every: lease / 3 }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  argiope fleet status redis://db.example:6379 --name news
      the processes of a shared crawl, what they do, and what is queued
  argiope fleet remove redis://db.example:6379 --name news
      removes the crawl from the store; the results stay
  argiope fleet restore redis://db.example:6379 --name news --out s3://bucket/news
      continues a crawl that the store has lost")]
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
    /// Put a crawl that the store has lost into the store again, from its results
    Restore(FleetRestoration),
}

// Where a shared crawl is stored. Not a doc comment: clap would use it as the description of the commands.
#[derive(Args, Debug)]
pub struct FleetLocation {
    /// The servers, as for --frontier
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Read the password of the store from a file, as for --frontier
    #[arg(long, value_name = "FILE")]
    frontier_password_file: Option<PathBuf>,
    /// The name of the shared crawl
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
}

/// Why a command for a shared crawl failed. The variant determines the exit code.
#[derive(Debug)]
pub enum FleetCommandError {
    Failed(String),
    /// The store does not respond now; a later attempt may succeed.
    Unreachable(String),
    Usage(String),
    /// A signal interrupted the command. The process exits with this code.
    Interrupted(u8),
}

impl From<Unreachable> for FleetCommandError {
    fn from(error: Unreachable) -> Self {
        let remedy = error.remedy.map(wording::access_remedy).unwrap_or_default();
        let why = format!("the store of the fleet: {}{remedy}", error.message);
        if error.is_final { Self::Failed(why) } else { Self::Unreachable(why) }
    }
}

impl From<StoreError> for FleetCommandError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.message.into())
    }
}

impl std::fmt::Display for FleetCommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(why) | Self::Unreachable(why) | Self::Usage(why) => f.write_str(why),
            Self::Interrupted(_) => f.write_str("interrupted"),
        }
    }
}

impl FleetCommandError {
    /// Prints the message and returns the exit code.
    fn print(self) -> ExitCode {
        let (why, code) = match self {
            Self::Failed(why) | Self::Unreachable(why) => (why, FAILED),
            Self::Usage(why) => (why, USAGE),
            Self::Interrupted(code) => return ExitCode::from(code),
        };
        print_error(&visible(&why));
        ExitCode::from(code)
    }
}

/// `argiope fleet status` and `argiope fleet remove`.
pub fn run(args: &FleetArgs) -> Result<ExitCode, UsageError> {
    let result = match &args.action {
        FleetAction::Status(args) => status::status(args),
        FleetAction::Remove(removal) => status::remove(removal),
        FleetAction::Restore(restoration) => restore::run(restoration),
    };
    Ok(result.unwrap_or_else(FleetCommandError::print))
}

/// Connects to the store as the process `owner`. Repeats attempts for [`CONNECT_TIMEOUT`].
fn connect(address: &str, name: &str, owner: &str, ca_cert: Option<&Path>) -> Result<FleetClient, FleetCommandError> {
    let ca_pem = match ca_cert {
        Some(path) => Some(
            std::fs::read(path).map_err(|error| FleetCommandError::Failed(format!("{}: {error}", path.display())))?,
        ),
        None => None,
    };
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    loop {
        match Nodes::open(address, ca_pem.as_deref()) {
            Ok(nodes) => return Ok(FleetClient::new(nodes, name, owner)),
            Err(error) if error.is_final || Instant::now() >= deadline => return Err(error.into()),
            Err(_) => std::thread::sleep(RETRY_PAUSE),
        }
    }
}

/// Writes to the results how the crawl ended, and up to which position each segment is valid. Does nothing if the results
/// are final already.
fn finish(
    client: &mut FleetClient,
    settings: &FleetSettings,
    segments: &SegmentStore,
) -> Result<(), FleetCommandError> {
    let unreadable = |error: std::io::Error| FleetCommandError::Failed(format!("{segments} cannot be read: {error}"));
    let unwritable =
        |error: std::io::Error| FleetCommandError::Failed(format!("{segments} cannot be written: {error}"));
    if segments.is_final().map_err(unreadable)? {
        return Ok(());
    }
    let reason = match FleetState::read(client)? {
        FleetState::Finished => End::Finished,
        FleetState::MaxPages => End::MaxPages,
        FleetState::MaxBytes => End::MaxBytes,
        FleetState::MaxTime => End::MaxTime,
        FleetState::Stopped => End::Stopped,
        FleetState::Created | FleetState::Restoring | FleetState::Running => End::Interrupted,
    };
    let queued = client.survey(settings.buckets)?.iter().map(|state| state.queued + state.leased).sum();
    let seconds = settings.age(client)?.as_secs_f64();
    let end = CrawlEnd { reason: reason.as_str().to_owned(), queued, seconds };
    segments.write_end(&serde_json::to_string(&end).unwrap_or_default()).map_err(unwritable)?;
    // The positions are written last, because they mark the results as final.
    let positions = client.positions(settings.buckets)?;
    segments.write_final_positions(&positions).map_err(unwritable)
}
