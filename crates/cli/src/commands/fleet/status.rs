//! `argiope fleet status` and `argiope fleet remove`.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use argiope_store::cluster::{BucketState, CrawlRound, FleetClient, FleetSettings, FleetState, MemberInfo, Members};
use argiope_store::segments::SegmentStore;
use clap::Args;
use serde::Serialize;

use super::{FleetPlace, Refusal, connect, finish};
use crate::screen::wording;

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  argiope fleet status redis://db.example:6379 --name news --json")]
pub struct FleetStatusArgs {
    #[command(flatten)]
    place: FleetPlace,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  argiope fleet remove redis://db.example:6379 --name news --yes")]
pub struct FleetRemoval {
    #[command(flatten)]
    place: FleetPlace,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Remove the crawl even if it is not finished: queued URLs are lost
    #[arg(long)]
    unfinished: bool,
}

fn open(place: &FleetPlace) -> Result<(FleetClient, FleetSettings), Refusal> {
    let mut client = connect(&place.address, &place.name, "status", place.ca_cert.as_deref())?;
    let round = CrawlRound::read(&mut client)?;
    let mut client = client.with_name(CrawlRound::store_name(&place.name, round));
    match FleetSettings::read(&mut client)? {
        Some(settings) => Ok((client, settings)),
        None => Err(Refusal::Failed(format!("{}: there is no such crawl", place.name))),
    }
}

/// Something that needs attention.
#[derive(Debug, Serialize)]
struct StuckPart {
    kind: &'static str,
    message: String,
}

/// A process without a heartbeat for this long is silent.
const SILENT_MS: u64 = 3_000;
/// A node of the store is nearly full from this percentage of its memory limit on.
const NEARLY_FULL: u64 = 90;

/// Everything that the command reads from the store.
struct FleetView {
    state: FleetState,
    buckets: Vec<BucketState>,
    members: Vec<MemberInfo>,
    /// The time of the store, in milliseconds.
    now: u64,
    /// Used memory and limit of each node, in bytes.
    memory: Vec<(u64, u64)>,
}

impl FleetView {
    fn read(client: &mut FleetClient, settings: &FleetSettings) -> Result<Self, Refusal> {
        Ok(Self {
            state: FleetState::read(client)?,
            buckets: client.survey(settings.buckets)?,
            members: Members::all(client)?,
            now: FleetSettings::store_time(client)?,
            memory: client.memory(settings.buckets)?,
        })
    }

    fn sum(&self, of: impl Fn(&BucketState) -> u64) -> u64 {
        self.buckets.iter().map(of).sum()
    }

    /// URLs that a process has leased.
    fn leased_by(&self, id: &str) -> u64 {
        self.buckets.iter().filter(|state| state.owner == id).map(|state| state.leased).sum()
    }

    /// Whether a bucket has no owner, or its lease has expired.
    fn is_free(&self, state: &BucketState) -> bool {
        state.owner.is_empty() || state.until <= self.now
    }

    /// The time since the last heartbeat of a process.
    fn silence(&self, member: &MemberInfo) -> u64 {
        self.now.saturating_sub(member.at)
    }

    /// What keeps the crawl from making progress, or soon will.
    fn stuck(&self) -> Vec<StuckPart> {
        let mut stuck = Vec::new();
        let mut add = |kind, message| stuck.push(StuckPart { kind, message });
        for (used, limit) in &self.memory {
            if *limit > 0 && used.saturating_mul(100) >= limit.saturating_mul(NEARLY_FULL) {
                let (used, limit) = (used >> 20, limit >> 20);
                add(
                    "store_memory",
                    format!("a node of the store uses {used} MB of {limit} MB: new links wait when it is full"),
                );
            }
        }
        if self.state.is_over() {
            return stuck;
        }
        let free: Vec<&BucketState> =
            self.buckets.iter().filter(|state| self.is_free(state) && state.queued > 0).collect();
        let queued: u64 = free.iter().map(|state| state.queued).sum();
        if !free.is_empty() {
            let buckets = wording::plural(free.len() as u64, "bucket");
            add("no_owner", format!("{buckets} with {} queued have no owner", wording::plural(queued, "URL")));
        }
        let left = |id: &str| self.buckets.iter().filter(|state| state.owner == id).map(|state| state.until).min();
        let seconds = |ms: u64| ms.div_ceil(1_000);
        for member in &self.members {
            let id = &member.id;
            if self.silence(member) >= SILENT_MS {
                let end = left(id).map_or_else(String::new, |until| {
                    format!(
                        "; its leases end in {} s, then others take its hosts",
                        seconds(until.saturating_sub(self.now))
                    )
                });
                let silent = seconds(self.silence(member));
                add("silent_process", format!("process {id} has sent no heartbeat for {silent} s{end}"));
            }
            if let Some(why) = &member.stalled {
                add("results_stalled", format!("process {id}: {why}"));
            }
            if let Some((host, ms)) = &member.longest_rest {
                let hosts = wording::plural(member.resting as u64, "host");
                let wait = seconds(*ms);
                add("resting_hosts", format!("process {id}: {hosts} in back-off; {host} waits {wait} s more"));
            }
        }
        let gone =
            |state: &&BucketState| !self.is_free(state) && !self.members.iter().any(|member| member.id == state.owner);
        let of_gone: Vec<&BucketState> = self.buckets.iter().filter(gone).collect();
        if let Some(last) = of_gone.iter().map(|state| state.until).max() {
            let buckets = wording::plural(of_gone.len() as u64, "bucket");
            let wait = seconds(last.saturating_sub(self.now));
            add("owner_gone", format!("{buckets} belong to a process that is gone, for {wait} s more"));
        }
        stuck
    }
}

fn state_words(state: FleetState) -> &'static str {
    match state {
        FleetState::Created => "being started",
        FleetState::Running => "running",
        FleetState::Finished => "finished",
        FleetState::MaxPages => "finished: the limit of pages is reached",
        FleetState::MaxBytes => "finished: the limit of bytes is reached",
    }
}

pub fn status(args: &FleetStatusArgs) -> Result<ExitCode, Refusal> {
    let place = &args.place;
    let (mut client, settings) = open(place)?;
    let view = FleetView::read(&mut client, &settings)?;
    let stuck = view.stuck();
    let owned = view.buckets.iter().filter(|state| !view.is_free(state)).count();
    // Not `sum`: the sum of no numbers is -0.0.
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
                    "silent_ms": view.silence(member),
                    "lease_ms": member.lease_ms,
                    "resting_hosts": member.resting,
                    "stalled": member.stalled,
                })
            })
            .collect();
        let memory: Vec<_> =
            view.memory.iter().map(|(used, limit)| serde_json::json!({ "used": used, "limit": limit })).collect();
        let json = serde_json::json!({
            "name": place.name,
            "round": settings.round,
            "state": state_words(view.state),
            "known": view.sum(|state| state.known),
            "queued": view.sum(|state| state.queued),
            "leased": view.sum(|state| state.leased),
            "settled": view.sum(|state| state.settled),
            "pages": view.sum(|state| state.pages),
            "pages_per_second": rate,
            "buckets": settings.buckets,
            "owned": owned,
            "single_copy": client.nodes.single_copy,
            "out": settings.out,
            "processes": processes,
            "stuck": stuck,
            "store_memory": memory,
        });
        let _ = writeln!(std::io::stdout(), "{json}");
        return Ok(ExitCode::SUCCESS);
    }
    let round = if settings.round > 1 { format!(" (round {})", settings.round) } else { String::new() };
    let mut text = format!("{}{round}: {}\n", place.name, state_words(view.state));
    text += &format!(
        "URLs: {} known, {} queued, {} leased, {} settled, {} of them pages; {rate:.1} pages a second\n",
        view.sum(|state| state.known),
        view.sum(|state| state.queued),
        view.sum(|state| state.leased),
        view.sum(|state| state.settled),
        view.sum(|state| state.pages)
    );
    text += &format!("buckets: {owned} of {} have an owner\nresults: {}\n", settings.buckets, settings.out);
    for member in &view.members {
        let MemberInfo { id, version, buckets, pages, pages_per_second, .. } = member;
        let (leased, silent) = (view.leased_by(id), view.silence(member) as f64 / 1_000.0);
        text += &format!(
            "process {id}: {buckets} buckets, {leased} URLs leased, {pages} pages, {pages_per_second:.1} pages a second, \
             last heartbeat {silent:.1} s ago, version {version}\n"
        );
    }
    for part in &stuck {
        text += &format!("attention: {}\n", part.message);
    }
    // Ignored: if standard output is closed, the text has no reader.
    let _ = writeln!(std::io::stdout(), "{}", argiope_core::output::escape::visible_lines(text.trim_end()));
    Ok(ExitCode::SUCCESS)
}

pub fn remove(removal: &FleetRemoval) -> Result<ExitCode, Refusal> {
    let name = &removal.place.name;
    let (mut client, settings) = open(&removal.place)?;
    let is_over = FleetState::read(&mut client)?.is_over();
    if !is_over && !removal.unfinished {
        return Err(Refusal::Failed(format!(
            "{name} is not over; --unfinished removes it, and what is queued is lost"
        )));
    }
    // Readers of the results need the final positions, which are about to be removed from the store.
    let segments = SegmentStore::open(Path::new(&settings.out)).of_round(settings.round);
    finish(&mut client, &settings, &segments)?;
    if !removal.yes {
        let _ = write!(std::io::stderr(), "remove {name} from the store? Its results in {} stay. [y/N] ", settings.out);
        let mut answer = String::new();
        let _ = std::io::stdin().read_line(&mut answer);
        if !answer.trim().eq_ignore_ascii_case("y") {
            return Err(Refusal::Failed("nothing was removed".into()));
        }
    }
    for round in (1..=settings.round).rev() {
        client = client.with_name(CrawlRound::store_name(name, round));
        client.remove(settings.buckets)?;
    }
    Ok(ExitCode::SUCCESS)
}
