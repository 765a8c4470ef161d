//! `argiope fleet status` and `argiope fleet remove`.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use argiope_core::base::escape::{json_line, visible, visible_lines};
use argiope_fleet::cluster::{
    BucketState, CrawlHead, CrawlOrders, CrawlRound, FleetClient, FleetSettings, FleetState, MemberInfo, Members,
    NodeState,
};
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
    pub location: FleetLocation,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
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
pub fn open(location: &FleetLocation) -> Result<(FleetClient, FleetSettings), FleetCommandError> {
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
/// A warning is given if one process has this many times as many hosts with work as the mean, and the processes have this
/// many of them on average.
const MAX_IMBALANCE: f64 = 1.5;
const MIN_HOSTS_PER_PROCESS: usize = 10;
/// A warning is given if the replicas of a node are behind by this many seconds.
const REPLICA_LAG_SECONDS: u64 = 5;
/// A warning is given if the clocks of two nodes differ by this much.
const MAX_CLOCK_SKEW_MS: u64 = 1_000;
/// A warning is given for a node of the store that uses at least this percentage of its memory limit.
const NEARLY_FULL_PERCENT: u64 = 90;

/// Everything that the command reads from the store.
struct FleetView {
    state: FleetState,
    orders: CrawlOrders,
    buckets: Vec<BucketState>,
    /// The processes of the fleet.
    members: Vec<MemberInfo>,
    /// The time by the clock of the store, in milliseconds since the Unix epoch.
    now: u64,
    /// The nodes of the store.
    nodes: Vec<NodeState>,
    /// Whether the nodes form a cluster.
    is_cluster: bool,
}

impl FleetView {
    fn read(client: &mut FleetClient, settings: &FleetSettings) -> Result<Self, FleetCommandError> {
        let head = CrawlHead::read(client)?;
        let (members, now) = (Members::all(client)?, FleetSettings::store_time(client)?);
        let has_processes = members.iter().any(|member| now.saturating_sub(member.at) < SILENT_MS);
        // The last process may have been killed before it could store the end.
        let end = FleetState::end_without_processes(&head, settings, settings.age(client)?);
        Ok(Self {
            state: end.filter(|_| !has_processes).unwrap_or(head.state),
            orders: head.orders,
            buckets: client.survey(settings.buckets)?,
            members,
            now,
            nodes: client.node_states(settings.buckets)?,
            is_cluster: client.nodes.is_cluster(),
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

    /// Whether a process has sent a heartbeat recently. The others are not in the totals.
    fn is_live(&self, member: &MemberInfo) -> bool {
        self.heartbeat_age(member) < SILENT_MS
    }

    /// The hosts with work of all live processes, and the number of these processes.
    fn hosts_of_live(&self) -> (usize, usize) {
        let live = || self.members.iter().filter(|member| self.is_live(member));
        (live().map(|member| member.hosts).sum(), live().count())
    }

    /// How many times as many hosts with work as the mean the process with the most of them has; `None` without such
    /// hosts.
    fn imbalance(&self) -> Option<f64> {
        let (hosts, live) = self.hosts_of_live();
        let most = self.members.iter().filter(|member| self.is_live(member)).map(|member| member.hosts).max()?;
        (hosts > 0).then(|| most as f64 * live as f64 / hosts as f64)
    }

    /// The reasons why the crawl makes no progress, or may soon make none.
    fn warnings(&self) -> Vec<FleetWarning> {
        let mut warnings = Vec::new();
        let mut add = |kind, message| warnings.push(FleetWarning { kind, message });
        for node in &self.nodes {
            let (used, limit) = (node.used_memory, node.max_memory);
            if limit > 0 && used.saturating_mul(100) >= limit.saturating_mul(NEARLY_FULL_PERCENT) {
                let (used, limit) = (used >> 20, limit >> 20);
                add(
                    "store_memory",
                    format!("a node of the store uses {used} MB of {limit} MB: new links wait when it is full"),
                );
            }
            if let Some(lag) = node.replica_lag.filter(|lag| *lag >= REPLICA_LAG_SECONDS) {
                add("replica_lag", format!("the replicas of a node of the store are {lag} s behind"));
            }
        }
        let alone = self.nodes.iter().filter(|node| node.replica_lag.is_none()).count();
        if alone > 0 {
            let what = match self.is_cluster {
                true => format!("{alone} of {} nodes of the store have no replica", self.nodes.len()),
                false => "the store is one server without a replica".to_owned(),
            };
            add("no_replica", format!("{what}: if its disk is lost, fleet restore continues from the results"));
        }
        let clocks = || self.nodes.iter().map(|node| node.clock_ms).filter(|clock| *clock > 0);
        if let (Some(first), Some(last)) = (clocks().min(), clocks().max())
            && last - first >= MAX_CLOCK_SKEW_MS
        {
            let seconds = (last - first) as f64 / 1_000.0;
            add(
                "clock_skew",
                format!("the clocks of the nodes of the store differ by {seconds:.1} s; leases allow 2 s"),
            );
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
            if let Some(why) = member.stalled.as_ref().filter(|_| self.is_live(member)) {
                add("results_stalled", format!("process {id}: {why}"));
            }
            if let Some((host, wait_ms)) = &member.longest_rest {
                let hosts = wording::plural(member.resting as u64, "host");
                let wait = seconds(*wait_ms);
                add("resting_hosts", format!("process {id}: {hosts} in back-off; {host} waits {wait} s more"));
            }
        }
        let (hosts, live) = self.hosts_of_live();
        if let Some(imbalance) = self.imbalance().filter(|imbalance| *imbalance >= MAX_IMBALANCE)
            && hosts >= live * MIN_HOSTS_PER_PROCESS
        {
            let message = format!("one process has {imbalance:.1} times as many hosts with work as the mean");
            add("imbalance", message);
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
        FleetState::Restoring => "being restored",
        FleetState::Running => "running",
        FleetState::Finished => "finished",
        FleetState::MaxPages => "finished: the limit of pages is reached",
        FleetState::MaxBytes => "finished: the limit of bytes is reached",
        FleetState::MaxTime => "finished: the limit of time is reached",
        FleetState::Stopped => "stopped",
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
    let live = view.members.iter().filter(|member| view.is_live(member));
    let rate = live.fold(0.0, |sum, member| sum + member.pages_per_second);
    if args.json {
        let processes: Vec<_> = view
            .members
            .iter()
            .map(|member| {
                serde_json::json!({
                    "id": member.id,
                    "version": member.version,
                    "is_live": view.is_live(member),
                    "buckets": member.buckets,
                    "hosts": member.hosts,
                    "backlog": member.backlog,
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
        let memory: Vec<_> = view
            .nodes
            .iter()
            .map(|node| serde_json::json!({ "used": node.used_memory, "limit": node.max_memory }))
            .collect();
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
            "imbalance": view.imbalance(),
            "orders": view.orders,
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
    if view.orders != CrawlOrders::default() {
        text += &format!("changed since the start: {}\n", serde_json::to_string(&view.orders).unwrap_or_default());
    }
    for member in &view.members {
        let MemberInfo { id, version, buckets, hosts, backlog, pages, pages_per_second, .. } = member;
        let (leased, silent) = (view.leased_by(id), view.heartbeat_age(member) as f64 / 1_000.0);
        let speed = match view.is_live(member) {
            true => format!("{pages_per_second:.1} pages a second"),
            false => "not responding".to_owned(),
        };
        let lease = member.lease_ms.saturating_sub(view.heartbeat_age(member)) as f64 / 1_000.0;
        text += &format!(
            "process {id}: {buckets} buckets, {hosts} hosts with work, {leased} URLs leased, {pages} pages, {speed}, \
             {backlog} records not settled, lease for {lease:.1} s, last heartbeat {silent:.1} s ago, version {version}\n"
        );
    }
    for warning in &warnings {
        text += &format!("attention: {}\n", warning.message);
    }
    let text = visible_lines(text.trim_end()) + "\n";
    Ok(standard_output::print_text(&text))
}

/// Asks a question; an error if the answer is not yes.
pub fn confirm(question: &str) -> Result<(), FleetCommandError> {
    let _ = write!(std::io::stderr(), "{} [y/N] ", visible(question));
    let mut answer = String::new();
    let _ = std::io::stdin().read_line(&mut answer);
    match answer.trim().eq_ignore_ascii_case("y") {
        true => Ok(()),
        false => Err(FleetCommandError::Failed("nothing was removed".into())),
    }
}

/// Removes a shared crawl from the store.
pub fn remove(removal: &FleetRemoval) -> Result<ExitCode, FleetCommandError> {
    let name = &removal.location.name;
    let (mut client, settings) = open(&removal.location)?;
    let is_over = FleetState::read(&mut client)?.is_over();
    // A crawl at a limit is over, and has queued URLs with which it can be continued.
    let queued: u64 = client.survey(settings.buckets)?.iter().map(|state| state.queued + state.leased).sum();
    if (!is_over || queued > 0) && !removal.unfinished {
        let urls = wording::plural(queued, "queued URL");
        return Err(FleetCommandError::Failed(format!(
            "{name} is not finished: it has {urls}. --unfinished removes it nevertheless, and they are lost"
        )));
    }
    // Readers of the results need the final positions, which are about to be removed from the store.
    let segments = SegmentStore::open(Path::new(&settings.out)).of_round(settings.round);
    finish(&mut client, &settings, &segments)?;
    if !removal.yes {
        confirm(&format!("remove {name} from the store? Its results in {} stay.", settings.out))?;
    }
    // The first round is removed last, because its data contains the number of the current round. So an interrupted removal
    // can be repeated.
    for round in (1..=settings.round).rev() {
        client = client.with_name(CrawlRound::store_name(name, round));
        client.remove(settings.buckets)?;
    }
    Ok(ExitCode::SUCCESS)
}
