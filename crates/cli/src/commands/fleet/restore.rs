//! `argiope fleet restore`: puts a crawl that the store has lost into the store again.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use argiope_core::base::escape::visible;
use argiope_core::crawl::rules::ProgramSettings;
use argiope_core::crawl::schedule::keeper::End;
use argiope_fleet::cluster::{CrawlRound, FleetClient, FleetSettings, LeaseTimes, Members, RequeueError, restore};
use argiope_fleet::segments::{SegmentStore, redacted_place};
use argiope_runtime::keeper_thread::{Clock, wall_clock};
use clap::Args;

use super::status::confirm;
use super::{FleetCommandError, FleetLocation, connect, login};
use crate::results::segments::{CrawlEnd, CrawlStart};
use crate::wording;

#[derive(Args, Debug)]
#[command(after_help = "Example:
  argiope fleet restore redis://db.example:6379 --name news --out s3://bucket/news
      afterwards, start the processes again with their usual command

Settled URLs, and the URLs that their pages link to, are in the results. Priorities of queued URLs and changes
to the running crawl are not: they are lost with the store.")]
pub struct FleetRestoration {
    #[command(flatten)]
    location: FleetLocation,
    /// The results of the crawl, as for crawl --out
    #[arg(long, value_name = "PREFIX")]
    out: PathBuf,
    /// Do not ask for confirmation if the store has a part of the crawl
    #[arg(long)]
    yes: bool,
}

/// Restores the last round of the crawl.
pub fn run(args: &FleetRestoration) -> Result<ExitCode, FleetCommandError> {
    let FleetRestoration { location, out, yes } = args;
    let name = &location.name;
    let shown = redacted_place(out);
    let failed = |error: std::io::Error| FleetCommandError::Failed(format!("{shown}: {error}"));
    let results = SegmentStore::latest(out).map_err(failed)?;
    let start = CrawlStart::read(out, &results)?;
    if start.fleet != *name {
        return Err(FleetCommandError::Usage(format!("{shown} holds the crawl {}, not {name}", start.fleet)));
    }
    let end: Option<CrawlEnd> = results.end().map_err(failed)?.and_then(|end| serde_json::from_str(&end).ok());
    if end.is_some_and(|end| End::from_name(&end.reason) == Some(End::Finished)) {
        return Err(FleetCommandError::Failed(format!("{name} is finished: there is nothing to restore")));
    }
    let rules = argiope_runtime::rules(&start.config(out)?, ProgramSettings::default())
        .map_err(|error| FleetCommandError::Failed(format!("{shown}: {error}")))?;
    let settings = start.settings;
    let rules = rules.with_fingerprint_key(settings.key);
    let address = login::address_with_password(&location.address, location.frontier_password_file.as_deref())?;
    let owner = format!("{:012x}", argiope_runtime::unpredictable() >> 16);
    let client = connect(&address, name, &owner, location.ca_cert.as_deref())?;
    let mut client = client.with_name(CrawlRound::store_name(name, settings.round));
    clear(&mut client, &settings, name, *yes)?;
    let clock = Clock::start();
    let restored =
        restore(&mut client, &settings, &results, &rules, wall_clock(&clock)).map_err(|error| match error {
            RequeueError::Store(fault) => FleetCommandError::from(fault),
            RequeueError::Results(error) => failed(error),
        })?;
    CrawlRound::raise(&mut client.with_name(name.clone()), settings.round)?;
    let (settled, queued) = (wording::plural(restored.settled, "URL"), wording::plural(restored.queued, "URL"));
    let message = format!("{name}: {settled} settled, {queued} queued; start the processes again");
    // Ignored: if standard error is closed, the message has no reader.
    let _ = writeln!(std::io::stderr(), "{}", visible(&message));
    Ok(ExitCode::SUCCESS)
}

/// Removes what the store still has of the round, if no process takes part in it.
fn clear(
    client: &mut FleetClient,
    settings: &FleetSettings,
    name: &str,
    is_confirmed: bool,
) -> Result<(), FleetCommandError> {
    if FleetSettings::read(client)?.is_some() {
        let now = FleetSettings::store_time(client)?;
        let lease = LeaseTimes::default().lease.as_millis() as u64;
        if Members::all(client)?.iter().any(|member| member.at.saturating_add(lease) > now) {
            let why = format!("{name}: processes take part in this crawl; stop them, and wait for {} s", lease / 1_000);
            return Err(FleetCommandError::Failed(why));
        }
        if !is_confirmed {
            confirm(&format!("replace {name} in the store by what its results hold?"))?;
        }
    }
    Ok(client.remove(settings.buckets)?)
}
