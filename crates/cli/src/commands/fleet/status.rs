//! `argiope fleet status` and `argiope fleet remove`.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use argiope_core::base::escape::{json_line, visible, visible_lines};
use argiope_fleet::cluster::{BucketState, CrawlRound, FleetClient, FleetSettings, FleetState, MemberInfo, Members};
use argiope_fleet::segments::SegmentStore;
use clap::Args;
use serde::Serialize;

use super::{FleetCommandError, FleetLocation, connect, finish, login};
use crate::commands::standard_output;
use crate::wording;

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  argiope fleet status redis://db.example:6379 --name news --json")]
pub struct FleetStatusArgs {
    #[command(flatten)]
    location: FleetLocation,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  argiope fleet remove redis://db.example:6379 --name news --yes")]
pub struct FleetRemoval {
    #[command(flatten)]
    location: FleetLocation,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Remove the crawl even if it is not finished: queued URLs are lost
    #[arg(long)]
    unfinished: bool,
}

/// Connects to the current round of a shared crawl and reads its settings.
fn open(location: &FleetLocation) -> Result<(FleetClient, FleetSettings), FleetCommandError> {
    // This command leases no buckets, so the name of the owner (`status`) has no effect.
    let address = login::address_with_password(&location.address, location.frontier_password_file.as_deref())?;
    let mut client = connect(&address, &location.name, "status", location.ca_cert.as_deref())?;
    let round = CrawlRound::read(&mut client)?;
    let mut client = client.with_name(CrawlRound::store_name(&location.name, round));
    match FleetSettings::read(&mut client)? {
        Some(settings) => Ok((client, settings)),
        None => Err(FleetCommandError::Failed(format!("{}: there is no such crawl", location.name))),
    }
}

/// A reason why the crawl makes no progress, or may soon make none.
#[derive(Debug, Serialize)]
struct FleetWarning {
    /// A fixed name of the reason, for programs that read the JSON output.
    kind: &'static str,
    message: String,
}

/// A warning is given for a process that has sent no heartbeat for this long.
const SILENT_MS: u64 = 3_000;
/// A warning is given for a node of the store that uses at least this percentage of its memory limit.
const NEARLY_FULL_PERCENT: u64 = 90;

/// Everything that the command reads from the store.
struct FleetView {
    state: FleetState,
    buckets: Vec<BucketState>,
    /// The processes of the fleet.
    members: Vec<MemberInfo>,
    /// The time by the clock of the store, in milliseconds since the Unix epoch.
    now: u64,
    /// Used memory and memory limit of each node, in bytes; the limit is 0 if there is none.
    memory: Vec<(u64, u64)>,
}

impl FleetView {
    fn read(client: &mut FleetClient, settings: &FleetSettings) -> Result<Self, FleetCommandError> {
        Ok(Self {
            state: FleetState::read(client)?,
            buckets: client.survey(settings.buckets)?,
            members: Members::all(client)?,
            now: FleetSettings::store_time(client)?,
            memory: client.memory(settings.buckets)?,
        })
    }

    /// The sum of a count over all buckets.
    fn sum(&self, count: impl Fn(&BucketState) -> u64) -> u64 {
        self.buckets.iter().map(count).sum()
    }

    /// URLs that a process has leased.
    fn leased_by(&self, id: &str) -> u64 {
        self.buckets.iter().filter(|bucket| bucket.owner == id).map(|bucket| bucket.leased).sum()
    }

    /// Whether a bucket has no owner, or its lease has expired.
    fn is_free(&self, bucket: &BucketState) -> bool {
        bucket.owner.is_empty() || bucket.until <= self.now
    }

    /// Milliseconds since the last heartbeat of a process.
    fn heartbeat_age(&self, member: &MemberInfo) -> u64 {
        self.now.saturating_sub(member.at)
    }

    /// The reasons why the crawl makes no progress, or may soon make none.
    fn warnings(&self) -> Vec<FleetWarning> {
        let mut warnings = Vec::new();
        let mut add = |kind, message| warnings.push(FleetWarning { kind, message });
        for (used, limit) in &self.memory {
            if *limit > 0 && used.saturating_mul(100) >= limit.saturating_mul(NEARLY_FULL_PERCENT) {
                let (used, limit) = (used >> 20, limit >> 20);
                add(
                    "store_memory",
                    format!("a node of the store uses {used} MB of {limit} MB: new links wait when it is full"),
                );
            }
        }
        if self.state.is_over() {
            return warnings;
        }
        let free: Vec<&BucketState> =
            self.buckets.iter().filter(|bucket| self.is_free(bucket) && bucket.queued > 0).collect();
        let queued: u64 = free.iter().map(|bucket| bucket.queued).sum();
        if !free.is_empty() {
            let buckets = wording::plural(free.len() as u64, "bucket");
            add("no_owner", format!("{buckets} with {} queued have no owner", wording::plural(queued, "URL")));
        }
        let first_lease_end =
            |id: &str| self.buckets.iter().filter(|bucket| bucket.owner == id).map(|bucket| bucket.until).min();
        let seconds = |ms: u64| ms.div_ceil(1_000);
        for member in &self.members {
            let id = &member.id;
            if self.heartbeat_age(member) >= SILENT_MS {
                let end = first_lease_end(id).map_or_else(String::new, |until| {
                    format!(
                        "; its leases end in {} s, then others take its hosts",
                        seconds(until.saturating_sub(self.now))
                    )
                });
                let silent = seconds(self.heartbeat_age(member));
                add("silent_process", format!("process {id} has sent no heartbeat for {silent} s{end}"));
            }
            if let Some(why) = &member.stalled {
                add("results_stalled", format!("process {id}: {why}"));
            }
            if let Some((host, wait_ms)) = &member.longest_rest {
                let hosts = wording::plural(member.resting as u64, "host");
                let wait = seconds(*wait_ms);
                add("resting_hosts", format!("process {id}: {hosts} in back-off; {host} waits {wait} s more"));
            }
        }
        let has_gone_owner = |bucket: &&BucketState| {
            !self.is_free(bucket) && !self.members.iter().any(|member| member.id == bucket.owner)
        };
        let abandoned: Vec<&BucketState> = self.buckets.iter().filter(has_gone_owner).collect();
        if let Some(last) = abandoned.iter().map(|bucket| bucket.until).max() {
            let buckets = wording::plural(abandoned.len() as u64, "bucket");
            let wait = seconds(last.saturating_sub(self.now));
            add("owner_gone", format!("{buckets} belong to a process that is gone, for {wait} s more"));
        }
        warnings
    }
}

/// The state for users. Also the value of `state` in JSON.
fn state_words(state: FleetState) -> &'static str {
    match state {
        FleetState::Created => "being started",
        FleetState::Running => "running",
        FleetState::Finished => "finished",
        FleetState::MaxPages => "finished: the limit of pages is reached",
        FleetState::MaxBytes => "finished: the limit of bytes is reached",
    }
}

/// Prints the status of a shared crawl.
pub fn status(args: &FleetStatusArgs) -> Result<ExitCode, FleetCommandError> {
    let location = &args.location;
    let (mut client, settings) = open(location)?;
    let view = FleetView::read(&mut client, &settings)?;
    let warnings = view.warnings();
    let owned = view.buckets.iter().filter(|bucket| !view.is_free(bucket)).count();
    // Not `sum`, which returns -0.0 for an empty iterator.
    let rate = view.members.iter().fold(0.0, |sum, member| sum + member.pages_per_second);
    if args.json {
        let processes: Vec<_> = view
            .members
            .iter()
            .map(|member| {
                serde_json::json!({
                    "id": member.id,
                    "version": member.version,
                    "buckets": member.buckets,
                    "leased": view.leased_by(&member.id),
                    "pages": member.pages,
                    "pages_per_second": member.pages_per_second,
                    "seen_ms": member.at,
                    "silent_ms": view.heartbeat_age(member),
                    "lease_ms": member.lease_ms,
                    "resting_hosts": member.resting,
                    "stalled": member.stalled,
                })
            })
            .collect();
        let memory: Vec<_> =
            view.memory.iter().map(|(used, limit)| serde_json::json!({ "used": used, "limit": limit })).collect();
        let json = serde_json::json!({
            "name": location.name,
            "round": settings.round,
            "state": state_words(view.state),
            "known": view.sum(|bucket| bucket.known),
            "queued": view.sum(|bucket| bucket.queued),
            "leased": view.sum(|bucket| bucket.leased),
            "settled": view.sum(|bucket| bucket.settled),
            "pages": view.sum(|bucket| bucket.pages),
            "pages_per_second": rate,
            "buckets": settings.buckets,
            "owned": owned,
            "single_copy": client.nodes.single_copy,
            "out": settings.out,
            "processes": processes,
            "stuck": warnings,
            "store_memory": memory,
        });
        // The store may have been written by others, so control characters are escaped.
        return Ok(standard_output::print(&json_line(&json)));
    }
    let round = if settings.round > 1 { format!(" (round {})", settings.round) } else { String::new() };
    let mut text = format!("{}{round}: {}\n", location.name, state_words(view.state));
    text += &format!(
        "URLs: {} known, {} queued, {} leased, {} settled, {} of them pages; {rate:.1} pages a second\n",
        view.sum(|bucket| bucket.known),
        view.sum(|bucket| bucket.queued),
        view.sum(|bucket| bucket.leased),
        view.sum(|bucket| bucket.settled),
        view.sum(|bucket| bucket.pages)
    );
    text += &format!("buckets: {owned} of {} have an owner\nresults: {}\n", settings.buckets, settings.out);
    for member in &view.members {
        let MemberInfo { id, version, buckets, pages, pages_per_second, .. } = member;
        let (leased, silent) = (view.leased_by(id), view.heartbeat_age(member) as f64 / 1_000.0);
        text += &format!(
            "process {id}: {buckets} buckets, {leased} URLs leased, {pages} pages, {pages_per_second:.1} pages a second, \
             last heartbeat {silent:.1} s ago, version {version}\n"
        );
    }
    for warning in &warnings {
        text += &format!("attention: {}\n", warning.message);
    }
    let text = visible_lines(text.trim_end()) + "\n";
    Ok(standard_output::print_text(&text))
}

/// Removes a shared crawl from the store.
pub fn remove(removal: &FleetRemoval) -> Result<ExitCode, FleetCommandError> {
    let name = &removal.location.name;
    let (mut client, settings) = open(&removal.location)?;
    let is_over = FleetState::read(&mut client)?.is_over();
    if !is_over && !removal.unfinished {
        return Err(FleetCommandError::Failed(format!(
            "{name} is not finished; --unfinished removes it, and its queued URLs are lost"
        )));
    }
    // Readers of the results need the final positions, which are about to be removed from the store.
    let segments = SegmentStore::open(Path::new(&settings.out)).of_round(settings.round);
    finish(&mut client, &settings, &segments)?;
    if !removal.yes {
        let _ = write!(
            std::io::stderr(),
            "remove {name} from the store? Its results in {} stay. [y/N] ",
            visible(&settings.out)
        );
        let mut answer = String::new();
        let _ = std::io::stdin().read_line(&mut answer);
        if !answer.trim().eq_ignore_ascii_case("y") {
            return Err(FleetCommandError::Failed("nothing was removed".into()));
        }
    }
    // The first round is removed last, because its data contains the number of the current round. So an interrupted removal
    // can be repeated.
    for round in (1..=settings.round).rev() {
        client = client.with_name(CrawlRound::store_name(name, round));
        client.remove(settings.buckets)?;
    }
    Ok(ExitCode::SUCCESS)
}
