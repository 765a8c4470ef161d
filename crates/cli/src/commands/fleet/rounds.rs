//! `--recrawl` of a shared crawl: which round this process takes part in, and how a round begins.
//!
//! A round begins when a process creates `rounds/N.json` beside the results. Only one process succeeds; the others join
//! with the settings in that file. Each of them then creates the round in the shared store, unless it exists there.

use std::path::Path;

use argiope_core::crawl::schedule::keeper::End;
use argiope_fleet::cluster::{CrawlRound, FleetClient, FleetSettings, FleetState};
use argiope_fleet::segments::{SegmentStore, redacted_place};

use super::settings::{lost_crawl, next_round, results_location};
use super::{FleetCommandError, finish};
use crate::commands::crawl::{NO_EARLIER_ROUND, needs_earlier_round, print_line};
use crate::flags::settings::CommandSettings;
use crate::results::segments::{CrawlEnd, CrawlStart};

/// Returns the client for the round that this process takes part in: the current one. With `--recrawl`, begins the next
/// round if the current one is finished. `first` is the client of the first round, whose data in the store also contains
/// the number of the current round.
pub fn join_round(
    own_settings: &CommandSettings,
    mut first: FleetClient,
    name: &str,
) -> Result<FleetClient, FleetCommandError> {
    if !own_settings.crawl.recrawl {
        let round = CrawlRound::read(&mut first)?;
        if round <= 1 && needs_earlier_round(own_settings) {
            return Err(FleetCommandError::Usage(NO_EARLIER_ROUND.to_owned()));
        }
        return Ok(first.with_name(CrawlRound::store_name(name, round)));
    }
    let out = results_location(&own_settings.crawl)?;
    let failed = |error: std::io::Error| FleetCommandError::Failed(format!("{}: {error}", redacted_place(&out)));
    let results = SegmentStore::open(&out);
    let rounds = results.rounds().map_err(failed)?;
    if rounds == 0 {
        // There are no results yet: this is the first round.
        return Ok(first);
    }
    let latest = results.of_round(rounds);
    let start = CrawlStart::read(&out, &latest)?;
    if start.fleet != name {
        let why = format!("{} holds the crawl {}, not {name}", redacted_place(&out), start.fleet);
        return Err(FleetCommandError::Usage(why));
    }
    let damaged =
        || FleetCommandError::Failed(format!("{}: the settings of the crawl cannot be read", redacted_place(&out)));
    let settings = start.settings;
    let mut client = first.with_name(CrawlRound::store_name(name, rounds));
    if !latest.is_final().map_err(failed)? {
        // The round is not finished: join it. It may be missing in the store, if the process that began it has crashed.
        if FleetState::read(&mut client)? != FleetState::Finished {
            if FleetSettings::read(&mut client)?.is_none() && latest.has_records().map_err(failed)? {
                return Err(FleetCommandError::Failed(lost_crawl(name, &redacted_place(&out))));
            }
            return create_in_store(client, &settings, name);
        }
        // The round is finished, but every process exited before it could write the end.
        finish(&mut client, &settings, &latest)?;
    }
    let end: Option<CrawlEnd> =
        latest.end().map_err(failed)?.map(|end| serde_json::from_str(&end)).transpose().map_err(|_| damaged())?;
    if end.as_ref().and_then(|end| End::from_name(&end.reason)) != Some(End::Finished) {
        let queued = end.map_or(0, |end| end.queued);
        let why = format!("{name}: the crawl ended with {queued} queued URLs; a finished crawl can be recrawled");
        return Err(FleetCommandError::Failed(why));
    }
    let next = next_round(&own_settings.crawl, &settings)?;
    let next = FleetSettings { created: FleetSettings::store_time(&mut client)?, ..next };
    // The settings of the process that created the file of the round, which may be another process.
    let begun = latest.of_round(next.round).begin_round(&round_description(name, &next)).map_err(failed)?;
    let begun: CrawlStart = serde_json::from_str(&begun).map_err(|_| damaged())?;
    let begun = begun.settings;
    // Equal settings mean that this process began the round, and not another one at the same time.
    if begun == next {
        print_line(own_settings.messages, &format!("{name}: recrawling, round {}", next.round));
        // The notes about hosts (Retry-After, robots.txt) still apply. The URLs of the previous round are in its
        // segments, so its buckets can be removed from the store.
        client.copy_notes(settings.buckets, &CrawlRound::store_name(name, next.round))?;
        client.remove_buckets(settings.buckets)?;
    }
    create_in_store(client.with_name(CrawlRound::store_name(name, begun.round)), &begun, name)
}

/// The content of `fleet.json` (first round) or `rounds/N.json`, which describes a round.
pub fn round_description(name: &str, settings: &FleetSettings) -> String {
    let started = jiff::Timestamp::from_millisecond(i64::try_from(settings.created).unwrap_or(0)).unwrap_or_default();
    let start = CrawlStart { fleet: name.to_owned(), started: format!("{started:.3}"), settings: settings.clone() };
    serde_json::to_string(&start).unwrap_or_default()
}

/// Creates a round in the store, unless it exists there, and makes it the current one.
fn create_in_store(
    mut client: FleetClient,
    settings: &FleetSettings,
    name: &str,
) -> Result<FleetClient, FleetCommandError> {
    settings.create(&mut client)?;
    let mut first = client.with_name(name.to_owned());
    CrawlRound::raise(&mut first, settings.round)?;
    Ok(first.with_name(CrawlRound::store_name(name, settings.round)))
}

/// Opens the results of the round that these settings belong to.
pub fn open_results(name: &str, settings: &FleetSettings) -> Result<SegmentStore, FleetCommandError> {
    let out = Path::new(&settings.out);
    SegmentStore::create(out, settings.round, &round_description(name, settings))
        .map_err(|error| FleetCommandError::Failed(format!("{}: {error}", redacted_place(out))))
}
