//! A model of the protocol with which the processes of a fleet share one crawl: buckets, leases with fencing tokens,
//! numbered settles, quotas, and termination detection by counting. The links of a page are put before the page is
//! settled.
//!
//! A simulated network delays, reorders, duplicates and drops messages. Nodes fail over and lose unreplicated writes.
//! Processes are killed, or paused until their leases have expired and then continued. A seed determines the schedule.
//! The oracle checks that no page is lost, that every record exists once, that no process starts a request after
//! another one has acquired the bucket, that the end is not detected too early, that the limit on pages is exact, and that
//! hosts which change hands are asked no sooner than their delay and their demands allow (`politeness.rs`).
//!
//! [`FleetProtocol`] can disable single rules. `tests/fleet_model.rs` disables some of the rules, one at a time, and checks
//! that the oracle then finds a broken guarantee. This shows that the rule is necessary.

mod names;
mod politeness;
mod process;
mod store;

use std::collections::BTreeMap;

use names::{ModelPage, ModelToken, ProcessId};
use politeness::{HostLogs, MAX_PROCESS_SKEW, demanded_wait, host_of};
use process::{Process, Task};
use store::{Bucket, ModelNode, ModelReply, ModelRequest, ModelStore, Pool};

use crate::sim::rng::SimRng;

/// Duration of a lease, in ticks.
pub const LEASE_TICKS: u64 = 30;
/// The store keeps a lease this many ticks longer than its owner does.
pub const MARGIN_TICKS: u64 = 6;

/// The rules of the protocol. Each can be disabled.
#[derive(Clone, Copy, Debug)]
pub struct FleetProtocol {
    /// The store refuses `take`, `settle`, `renew`, `release` and `refund` if another process or epoch holds the
    /// bucket.
    pub fence: bool,
    /// A page is settled after its links are in their buckets.
    pub links_first: bool,
    /// A page is settled after its record is durable.
    pub record_first: bool,
    /// A process continues after a write only when the replica has it.
    pub wait: bool,
    /// A record is identified by the process that wrote it, in addition to epoch and number.
    pub owner_in_token: bool,
    /// A settle is refused unless it has the next number.
    pub next_number_only: bool,
    /// For the owner, a lease starts when the request for it was sent, not when the reply arrives.
    pub lease_from_request: bool,
    /// The end is detected only if both passes over the buckets count the same number of known pages.
    pub count_known: bool,
    /// The end is detected only after a second pass over the buckets.
    pub second_pass: bool,
    /// A transfer of quota is credited only once.
    pub number_transfers: bool,
    /// A repeated put gets the same reply as the first attempt.
    pub remember_puts: bool,
    /// A repeated take gets the same links as the first attempt.
    pub number_takes: bool,
    /// The store keeps when the last owner of a bucket may have sent a request: the time of its release, or the end of
    /// its lease.
    pub keep_asked: bool,
    /// Waits are sent as durations. Without the rule, they are times by the clock of the process.
    pub send_durations: bool,
    /// The first page of a host with a delay of its own waits until the note about it is stored.
    pub note_first: bool,
    /// A demand to wait is stored before anything else is done for the bucket.
    pub note_waits: bool,
    /// Times that another node has stored are not compared with the clock of this one: the delay and the wait count
    /// from now.
    pub count_again_after_failover: bool,
}

impl FleetProtocol {
    /// The protocol as it is implemented.
    pub const FULL: Self = Self {
        fence: true,
        links_first: true,
        record_first: true,
        wait: true,
        owner_in_token: true,
        next_number_only: true,
        lease_from_request: true,
        count_known: true,
        second_pass: true,
        number_transfers: true,
        remember_puts: true,
        number_takes: true,
        keep_asked: true,
        send_durations: true,
        note_first: true,
        note_waits: true,
        count_again_after_failover: true,
    };
}

/// The parameters of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct ModelSetup {
    pub buckets: usize,
    pub pages: u32,
    pub processes: u32,
    pub max_pages: Option<u32>,
    /// Number of events in the first phase of a schedule, in which faults occur.
    pub events: usize,
    /// How many events happen in a tick on average. With more, messages are faster.
    pub events_per_tick: usize,
    pub protocol: FleetProtocol,
}

impl ModelSetup {
    /// A small fleet, which is fast enough for thousands of schedules.
    pub const SMALL: Self = Self {
        buckets: 3,
        pages: 14,
        processes: 3,
        max_pages: None,
        events: 4_000,
        events_per_tick: 12,
        protocol: FleetProtocol::FULL,
    };
}

/// The result of a schedule.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScheduleReport {
    pub events: usize,
    pub kills: usize,
    pub failovers: usize,
    pub fetches: usize,
}

/// Runs the schedule of a seed. `Err` describes the broken guarantee.
pub fn run(setup: ModelSetup, seed: u64) -> Result<ScheduleReport, String> {
    World::new(setup, seed).run_to_end()
}

/// A record in a results file (segment). Token and number identify the settle that makes it valid.
struct SegmentRecord {
    bucket: usize,
    token: ModelToken,
    number: u32,
    page: ModelPage,
}

/// A request or a reply in transit.
struct Message {
    process: ProcessId,
    task: Task,
    /// Number of the call that the message belongs to.
    call: u64,
    content: MessageContent,
}

enum MessageContent {
    Request(ModelRequest),
    Reply(ModelReply),
}

/// The state of a simulation.
struct World {
    setup: ModelSetup,
    rng: SimRng,
    now: u64,
    store: ModelStore,
    processes: Vec<Process>,
    /// Messages in transit.
    in_transit: Vec<Message>,
    segments: Vec<SegmentRecord>,
    /// The token that most recently started a request, per bucket.
    started: BTreeMap<usize, ModelToken>,
    report: ScheduleReport,
    /// The links of each page.
    links: Vec<Vec<ModelPage>>,
    tallies: Vec<PutTally>,
    /// How long the next request for each page is told to wait.
    waits: Vec<u64>,
    hosts: HostLogs,
}

/// How often a page was put.
#[derive(Clone, Copy, Debug, Default)]
struct PutTally {
    /// Puts that were begun.
    begun: u32,
    /// Puts whose reply the process has received (and, with the rule `wait`, that are replicated).
    replied: u32,
    /// Puts with the reply that the page is new.
    new: u32,
}

impl World {
    fn new(setup: ModelSetup, seed: u64) -> Self {
        let mut rng = SimRng::new(seed);
        let links = (0..setup.pages)
            .map(|page| {
                let mut links: Vec<ModelPage> = (0..2).map(|_| rng.below(setup.pages as usize) as ModelPage).collect();
                // A chain of links makes every page reachable from the first.
                links.push((page + 1) % setup.pages);
                links
            })
            .collect();
        // Without a limit on pages, every bucket has more quota than there are pages.
        let quota = if setup.max_pages.is_some() { 0 } else { 10_000 };
        let bucket = Bucket { quota, ..Bucket::default() };
        let mut buckets = vec![bucket; setup.buckets];
        buckets[0].known.insert(0);
        buckets[0].queued.push_back(0);
        let pool = Pool { left: setup.max_pages.unwrap_or(0), ..Pool::default() };
        let store = ModelStore {
            buckets: buckets.into_iter().map(ModelNode::new).collect(),
            pool: ModelNode::new(pool),
            protocol: setup.protocol,
        };
        let skew = rng.below(MAX_PROCESS_SKEW) as u64;
        let processes = (0..setup.processes).map(|id| Process::new(id, setup.buckets, u64::from(id) * skew)).collect();
        Self {
            setup,
            rng,
            now: 0,
            store,
            processes,
            in_transit: Vec::new(),
            segments: Vec::new(),
            started: BTreeMap::new(),
            report: ScheduleReport::default(),
            links,
            tallies: vec![PutTally::default(); setup.pages as usize],
            waits: (0..setup.pages).map(demanded_wait).collect(),
            hosts: HostLogs::default(),
        }
    }

    /// Runs the schedule until a process detects the end, and checks the results.
    fn run_to_end(mut self) -> Result<ScheduleReport, String> {
        let faulty_events = self.setup.events;
        let max_events = faulty_events + 400_000;
        loop {
            self.report.events += 1;
            if self.report.events > max_events {
                return Err("the crawl does not end once faults have stopped".into());
            }
            let is_faulty = self.report.events < faulty_events;
            self.now += u64::from(self.rng.below(self.setup.events_per_tick) == 0);
            match self.rng.below(100) {
                0..35 => self.step_process()?,
                35..75 => self.deliver(is_faulty),
                75..92 => self.replicate(),
                // About one fault in a tick.
                _ if is_faulty && self.rng.below(self.setup.events_per_tick / 12) == 0 => self.fault(),
                92..96 if !is_faulty => self.continue_all(),
                _ => {}
            }
            if self.processes.iter().any(Process::has_found_end) {
                self.check_end()?;
                return Ok(self.report);
            }
        }
    }

    /// Replicates the next write of a random node.
    fn replicate(&mut self) {
        let nodes = self.store.buckets.len() + 1;
        match self.rng.below(nodes) {
            0 => self.store.pool.replicate(),
            bucket => self.store.buckets[bucket - 1].replicate(),
        };
    }

    /// Delivers a random message, drops it, or delivers it and keeps a duplicate in transit.
    fn deliver(&mut self, is_faulty: bool) {
        if self.in_transit.is_empty() {
            return;
        }
        let at = self.rng.below(self.in_transit.len());
        let message = self.in_transit.swap_remove(at);
        // 0 drops the message, 1 duplicates a request.
        let fault_roll = if is_faulty { self.rng.below(40) } else { 2 };
        if fault_roll == 0 {
            return;
        }
        match message.content {
            MessageContent::Request(request) => {
                let reply = self.store.execute(&request, self.now);
                let (process, task, call) = (message.process, message.task, message.call);
                self.in_transit.push(Message { process, task, call, content: MessageContent::Reply(reply) });
                if fault_roll == 1 {
                    self.in_transit.push(Message { process, task, call, content: MessageContent::Request(request) });
                }
            }
            MessageContent::Reply(reply) => {
                if let Some(process) = self.processes.iter_mut().find(|process| process.id == message.process) {
                    process.receive(message.task, message.call, reply, self.now, self.setup.protocol);
                    for (page, is_new) in process.put_replies.drain(..) {
                        let tally = &mut self.tallies[page as usize];
                        tally.replied += 1;
                        tally.new += u32::from(is_new);
                    }
                    for (bucket, host) in process.stored_notes.drain(..) {
                        self.hosts.stored(process.id, bucket, host);
                    }
                }
            }
        }
    }

    /// Injects a random fault, continues all paused processes, or does nothing.
    fn fault(&mut self) {
        let pick = self.rng.below(self.processes.len());
        match self.rng.below(12) {
            0 => {
                // Killed; a new process is started in its place.
                let id = self.processes.iter().map(|process| process.id).max().unwrap_or(0) + 1;
                self.processes[pick] = Process::new(id, self.setup.buckets, self.rng.below(MAX_PROCESS_SKEW) as u64);
                self.report.kills += 1;
            }
            1 => self.processes[pick].is_paused = true,
            2..5 => self.continue_all(),
            5 => {
                self.report.failovers += 1;
                match self.rng.below(self.store.buckets.len() + 1) {
                    0 => self.store.pool.fail_over(),
                    bucket => self.store.buckets[bucket - 1].fail_over(),
                }
            }
            // Time passes, perhaps more than a lease.
            6 => self.now += self.rng.below(LEASE_TICKS as usize + 10) as u64,
            7 => self.processes[pick].release_soon(),
            _ => {}
        }
    }

    fn continue_all(&mut self) {
        for process in &mut self.processes {
            process.is_paused = false;
        }
    }

    /// Lets a random process make one step, and applies its effects.
    fn step_process(&mut self) -> Result<(), String> {
        let pick = self.rng.below(self.processes.len());
        if self.processes[pick].is_paused {
            return Ok(());
        }
        let ModelSetup { protocol, max_pages, .. } = self.setup;
        let (links, waits) = (&*self.links, &*self.waits);
        let mut turn = process::Turn { now: self.now, links, waits, protocol, max_pages, effects: Vec::new() };
        // A process has two tasks per bucket (work, renewal of the lease) and one that detects the end.
        let task_index = self.rng.below(self.setup.buckets * 2 + 1);
        let resend = self.rng.below(20) == 0;
        self.processes[pick].step(task_index, resend, &mut turn);
        let effects = turn.effects;
        let id = self.processes[pick].id;
        for effect in effects {
            match effect {
                process::Effect::Send { task, call, request } => {
                    self.in_transit.push(Message {
                        process: id,
                        task,
                        call,
                        content: MessageContent::Request(request),
                    });
                }
                process::Effect::BeginPut { pages } => {
                    for page in pages {
                        self.tallies[page as usize].begun += 1;
                    }
                }
                process::Effect::Start { bucket, token, host, page } => {
                    self.check_start(bucket, token)?;
                    let wait = page.map_or(0, |page| std::mem::take(&mut self.waits[page as usize]));
                    self.hosts.request((bucket, host), token, page.is_some(), wait, self.now)?;
                }
                process::Effect::Write { bucket, token, number, page } => {
                    let token =
                        if self.setup.protocol.owner_in_token { token } else { ModelToken { owner: 0, ..token } };
                    self.segments.push(SegmentRecord { bucket, token, number, page });
                }
            }
        }
        Ok(())
    }

    /// Checks the start of a request to a host: none may have been started before with a later lease of the bucket, or
    /// with another lease of the same epoch.
    fn check_start(&mut self, bucket: usize, token: ModelToken) -> Result<(), String> {
        self.report.fetches += 1;
        match self.started.insert(bucket, token) {
            Some(last) if last != token && last.epoch >= token.epoch => {
                Err(format!("bucket {bucket}: {token:?} started a request after {last:?} had taken over"))
            }
            _ => Ok(()),
        }
    }

    /// Checks the results, as computed from replicated data only.
    fn check_end(&self) -> Result<(), String> {
        let mut records_of = vec![0_u32; self.setup.pages as usize];
        for SegmentRecord { bucket, token, number, page } in &self.segments {
            let positions = &self.store.buckets[*bucket].replica.positions;
            let is_settled = positions.iter().any(|(settled, last)| {
                let settled =
                    if self.setup.protocol.owner_in_token { *settled } else { ModelToken { owner: 0, ..*settled } };
                settled == *token && last >= number
            });
            records_of[*page as usize] += u32::from(is_settled);
        }
        let records: u32 = records_of.iter().sum();
        let expected = self.setup.max_pages.unwrap_or(u32::MAX).min(self.setup.pages);
        if let Some(page) = records_of.iter().position(|records| *records > 1) {
            return Err(format!("page {page} has {} records", records_of[page]));
        }
        if records != expected {
            return Err(format!("the end was found with {records} of {expected} records"));
        }
        // Exactly one put of a page is told that the page is new. That reply may be missing if a process was killed before
        // it arrived. Page 0 is the root, which is known from the start.
        for (page, PutTally { begun, replied, new }) in self.tallies.iter().enumerate().skip(1) {
            if *new > 1 || (*new == 0 && *replied > 0 && replied == begun) {
                return Err(format!("page {page} was put {begun} times, with {replied} replies, {new} times as new"));
            }
        }
        let all_known: usize = self.store.buckets.iter().map(|node| node.replica.known.len()).sum();
        if self.setup.max_pages.is_none() && all_known != self.setup.pages as usize {
            return Err(format!("{all_known} of {} pages are known at the end", self.setup.pages));
        }
        Ok(())
    }
}
