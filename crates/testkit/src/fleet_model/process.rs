//! A simulated process. It has two tasks per bucket, one that works and one that renews the lease, and one task that
//! detects the end of the crawl.
//!
//! If the store refuses a request, or if the lease has expired, the process discards its state of the bucket and acquires
//! the bucket again, as a new process would.

use std::collections::{BTreeMap, VecDeque};

use super::names::{ModelPage, ModelToken, ProcessId};
use super::politeness::{BASE_DELAY, HostId, ModelHost, ModelHostNews, delay_of};
use super::store::{BucketCounts, ModelReply, ModelRequest, ModelVersion};
use super::{FleetProtocol, LEASE_TICKS, host_of};

/// The task of a process that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Works on this bucket.
    Work(usize),
    /// Renews the lease of this bucket.
    Renew(usize),
    /// Detects the end of the crawl.
    End,
}

/// The effect of a step on the world.
pub enum Effect {
    /// A request is sent to the store.
    Send {
        task: Task,
        /// The number of the call.
        call: u64,
        request: ModelRequest,
    },
    /// A request to a host of the bucket goes out: for this page, or for the robots.txt.
    Start { bucket: usize, token: ModelToken, host: HostId, page: Option<ModelPage> },
    /// Links are put for the first time.
    BeginPut { pages: Vec<ModelPage> },
    /// A record becomes durable.
    Write { bucket: usize, token: ModelToken, number: u32, page: ModelPage },
}

/// Input and output of a step.
pub struct Turn<'a> {
    pub now: u64,
    /// The links of each page.
    pub links: &'a [Vec<ModelPage>],
    /// How long the next request for each page is told to wait.
    pub waits: &'a [u64],
    pub protocol: FleetProtocol,
    pub max_pages: Option<u32>,
    /// What the step does.
    pub effects: Vec<Effect>,
}

/// A simulated process.
pub struct Process {
    pub id: ProcessId,
    pub is_paused: bool,
    /// Pages of completed puts that are not in the world's tallies yet, and whether they were new.
    pub put_replies: Vec<(ModelPage, bool)>,
    /// Hosts, with their buckets, whose notes were stored and that the world does not know yet.
    pub stored_notes: Vec<(usize, HostId)>,
    /// How much the clock of this process is ahead.
    skew: u64,
    /// Number of requests that were sent.
    calls: u64,
    /// Number of puts that were begun.
    puts: u32,
    tasks: Vec<BucketTasks>,
    end: EndDetection,
}

/// The two tasks of a bucket: one that works and one that renews the lease.
#[derive(Default)]
struct BucketTasks {
    /// The lease of the bucket, if the process holds it.
    owned: Option<OwnedBucket>,
    step: Step,
    /// The request whose reply the working task waits for, and the number of its call.
    call: Option<(u64, ModelRequest)>,
    renewal: Option<Renewal>,
    /// The request whose reply the task that renews the lease waits for, and the number of its call.
    renewal_call: Option<(u64, ModelRequest)>,
    /// Release the bucket when nothing is in progress.
    should_release: bool,
    /// Number of takes with a reply. After an empty take, quota is requested if this number is even, and refunded if it
    /// is odd.
    replied_takes: u32,
}

/// A leased bucket.
struct OwnedBucket {
    token: ModelToken,
    /// When the lease expires.
    until: u64,
    /// The number of the last settle.
    last_settle: u32,
    /// The number of the last take with a reply.
    last_take: u32,
    /// Leased pages that are not fetched yet.
    taken: VecDeque<ModelPage>,
    hosts: BTreeMap<HostId, ModelHost>,
}

/// A renewal in progress: when it was sent, and the version of the write once the reply has arrived.
struct Renewal {
    sent: u64,
    version: Option<ModelVersion>,
}

/// What the working task of a bucket does next. A step whose name ends with `Wait` waits for replication.
#[derive(Clone, Default)]
enum Step {
    #[default]
    Idle,
    Acquire {
        sent: u64,
    },
    AcquireWait {
        token: ModelToken,
        sent: u64,
        version: ModelVersion,
    },
    Release,
    Take,
    TakeWait {
        pages: Vec<ModelPage>,
        version: ModelVersion,
    },
    /// Stores what the process knows about a host.
    Note(HostId),
    NoteWait {
        host: HostId,
        version: ModelVersion,
    },
    Fetch(ModelPage),
    /// Only without the rule `links_first`: the page is settled, but its links are not put yet.
    Fetched(ModelPage),
    /// Only without the rule `record_first`: the page is settled, but its record is not written yet.
    LateWrite(ModelPage),
    Put {
        page: ModelPage,
        /// Buckets, and the pages to put there.
        targets: Vec<(usize, Vec<ModelPage>)>,
        /// The number of the put to the first target, once it was sent.
        number: Option<u32>,
    },
    PutWait {
        page: ModelPage,
        targets: Vec<(usize, Vec<ModelPage>)>,
        number: Option<u32>,
        /// For each page, whether it is new.
        is_new: Vec<bool>,
        version: ModelVersion,
    },
    Write(ModelPage),
    Settle(ModelPage),
    SettleWait {
        page: ModelPage,
        version: ModelVersion,
    },
    Quota(QuotaStep),
}

/// The steps that move quota between the pool and the bucket. Their values are the number of the transfer, its amount, and
/// the version of the write.
#[derive(Clone, Copy)]
enum QuotaStep {
    Grant,
    GrantWait(u32, u32, ModelVersion),
    Credit(u32, u32),
    CreditWait(u32, u32, ModelVersion),
    Clear(u32),
    Refund,
    RefundWait(u32, u32, ModelVersion),
    Accept(u32, u32),
    AcceptWait(u32, u32, ModelVersion),
    ClearRefund(u32),
}

/// The task that detects the end of the crawl.
#[derive(Default)]
struct EndDetection {
    call: Option<(u64, ModelRequest)>,
    /// The counts of the first pass.
    first: Vec<BucketCounts>,
    /// The counts of the second pass.
    second: Vec<BucketCounts>,
    /// The write of the second pass that must be replicated next.
    version: Option<ModelVersion>,
    is_found: bool,
}

impl Process {
    /// A process whose clock is `skew` ahead.
    pub fn new(id: ProcessId, buckets: usize, skew: u64) -> Self {
        let tasks = (0..buckets).map(|_| BucketTasks::default()).collect();
        let (put_replies, stored_notes) = (Vec::new(), Vec::new());
        let end = EndDetection::default();
        Self { id, is_paused: false, put_replies, stored_notes, skew, calls: 0, puts: 0, tasks, end }
    }

    pub fn has_found_end(&self) -> bool {
        self.end.is_found
    }

    /// Marks one bucket for release as soon as nothing is in progress, as a process does that holds more buckets than its
    /// share.
    pub fn release_soon(&mut self) {
        // A pseudorandom choice.
        let at = self.calls as usize % self.tasks.len();
        self.tasks[at].should_release = true;
    }

    /// Sends a request for a task, and remembers it until the reply arrives.
    fn send(&mut self, task: Task, request: ModelRequest, turn: &mut Turn<'_>) {
        self.calls += 1;
        let call = Some((self.calls, request.clone()));
        match task {
            Task::Work(bucket) => self.tasks[bucket].call = call,
            Task::Renew(bucket) => self.tasks[bucket].renewal_call = call,
            Task::End => self.end.call = call,
        }
        turn.effects.push(Effect::Send { task, call: self.calls, request });
    }

    /// Makes one step of the task with this index. With `resend`, the reply that the task waits for counts as lost, and the
    /// request is sent again.
    pub fn step(&mut self, task_index: usize, resend: bool, turn: &mut Turn<'_>) {
        let buckets = self.tasks.len();
        match task_index {
            n if n < buckets => self.step_work(n, resend, turn),
            n if n < 2 * buckets => self.step_renewal(n - buckets, resend, turn),
            _ => self.step_end(resend, turn),
        }
    }

    /// Makes one step of the working task of a bucket.
    fn step_work(&mut self, bucket: usize, resend: bool, turn: &mut Turn<'_>) {
        let (task, buckets) = (Task::Work(bucket), self.tasks.len());
        let tasks = &mut self.tasks[bucket];
        if tasks.owned.as_ref().is_some_and(|owned| turn.now >= owned.until) {
            tasks.forget();
        }
        if let Some((_, request)) = &tasks.call {
            if !resend {
                return;
            }
            match request {
                // Without numbers, the process cannot know whether links were leased. Acquiring the bucket again requeues
                // them.
                ModelRequest::Take { .. } if !turn.protocol.number_takes => tasks.forget(),
                ModelRequest::Acquire { .. } => tasks.step = Step::Idle,
                request => {
                    let request = request.clone();
                    self.send(task, request, turn);
                    return;
                }
            }
            tasks.call = None;
        }
        let Some(owned) = &mut tasks.owned else {
            match tasks.step {
                Step::AcquireWait { version, .. } => self.send(task, ModelRequest::Wait { bucket, version }, turn),
                _ => {
                    tasks.step = Step::Acquire { sent: turn.now };
                    let owner = self.id;
                    self.send(task, ModelRequest::Acquire { bucket, owner }, turn);
                }
            }
            return;
        };
        let token = owned.token;
        match tasks.step.clone() {
            Step::Idle if owned.taken.is_empty() && tasks.should_release => {
                tasks.step = Step::Release;
                self.send(task, ModelRequest::Release { bucket, token }, turn);
            }
            Step::Idle => match owned.taken.front() {
                Some(page) => tasks.step = owned.request(*page, bucket, buckets, turn),
                None => {
                    tasks.step = Step::Take;
                    let number = owned.last_take + 1;
                    let request = ModelRequest::Take { bucket, token, number, clock: turn.now + self.skew };
                    self.send(task, request, turn);
                }
            },
            Step::Note(host) => {
                let Some(ModelHost { delay, next }) = owned.hosts.get(&host).copied() else { return };
                let (delay, wait) = (delay.unwrap_or(BASE_DELAY), next.saturating_sub(turn.now));
                // The end of the wait by the clock of this process; only without the rule `send_durations`.
                let until = next + self.skew;
                self.send(task, ModelRequest::Note { bucket, token, host, delay, wait, until }, turn);
            }
            Step::NoteWait { version, .. } => self.send(task, ModelRequest::Wait { bucket, version }, turn),
            Step::Fetch(page) if !turn.protocol.links_first => tasks.step = Step::Write(page),
            Step::Fetch(page) | Step::Fetched(page) => tasks.step = tasks.put_links(page, turn, buckets),
            Step::Put { targets, page, number } => match targets.first() {
                Some((target, pages)) => {
                    let number = number.unwrap_or_else(|| {
                        turn.effects.push(Effect::BeginPut { pages: pages.clone() });
                        self.puts += 1;
                        self.puts
                    });
                    let (target, pages) = (*target, pages.clone());
                    tasks.step = Step::Put { targets, page, number: Some(number) };
                    let request = ModelRequest::Put { bucket: target, from: (self.id, bucket), number, pages };
                    self.send(task, request, turn);
                }
                None => tasks.step = if turn.protocol.links_first { Step::Write(page) } else { Step::Idle },
            },
            Step::PutWait { targets, version, .. } => {
                let Some((target, _)) = targets.first() else { return };
                self.send(task, ModelRequest::Wait { bucket: *target, version }, turn);
            }
            Step::Write(page) => {
                owned.last_settle += 1;
                let number = owned.last_settle;
                if turn.protocol.record_first {
                    turn.effects.push(Effect::Write { bucket, token, number, page });
                }
                tasks.step = Step::Settle(page);
            }
            Step::Settle(page) => {
                let number = owned.last_settle;
                self.send(task, ModelRequest::Settle { bucket, token, number, page }, turn);
            }
            Step::LateWrite(page) => {
                let number = owned.last_settle;
                turn.effects.push(Effect::Write { bucket, token, number, page });
                tasks.step = if turn.protocol.links_first { Step::Idle } else { Step::Fetched(page) };
            }
            Step::TakeWait { version, .. } | Step::SettleWait { version, .. } => {
                self.send(task, ModelRequest::Wait { bucket, version }, turn);
            }
            Step::Quota(quota) => {
                let request = match quota {
                    QuotaStep::Grant => ModelRequest::Grant { bucket },
                    QuotaStep::GrantWait(.., version) | QuotaStep::AcceptWait(.., version) => {
                        ModelRequest::WaitGrant { version }
                    }
                    QuotaStep::Credit(number, amount) => ModelRequest::Credit { bucket, number, amount },
                    QuotaStep::CreditWait(.., version) | QuotaStep::RefundWait(.., version) => {
                        ModelRequest::Wait { bucket, version }
                    }
                    QuotaStep::Clear(number) => ModelRequest::Clear { bucket, number },
                    QuotaStep::Refund => ModelRequest::Refund { bucket, token },
                    QuotaStep::Accept(number, amount) => ModelRequest::Accept { bucket, number, amount },
                    QuotaStep::ClearRefund(number) => ModelRequest::ClearRefund { bucket, number },
                };
                self.send(task, request, turn);
            }
            Step::Acquire { .. } | Step::AcquireWait { .. } | Step::Take | Step::Release => tasks.forget(),
        }
    }

    /// Makes one step of the task that renews the lease of a bucket.
    fn step_renewal(&mut self, bucket: usize, resend: bool, turn: &mut Turn<'_>) {
        let task = Task::Renew(bucket);
        let tasks = &mut self.tasks[bucket];
        let Some(owned) = tasks.owned.as_ref().filter(|owned| turn.now < owned.until) else {
            (tasks.renewal, tasks.renewal_call) = (None, None);
            return;
        };
        if tasks.renewal_call.is_some() && !resend {
            return;
        }
        if let Some(Renewal { version: Some(version), .. }) = tasks.renewal {
            self.send(task, ModelRequest::Wait { bucket, version }, turn);
        } else if owned.until < turn.now + LEASE_TICKS * 2 / 3 {
            // More than a third of the lease has passed.
            let token = owned.token;
            tasks.renewal = Some(Renewal { sent: turn.now, version: None });
            self.send(task, ModelRequest::Renew { bucket, token }, turn);
        }
    }

    /// Makes one step of the task that detects the end.
    fn step_end(&mut self, resend: bool, turn: &mut Turn<'_>) {
        let buckets = self.tasks.len();
        if self.end.call.is_some() {
            if resend {
                self.end = EndDetection::default();
            }
            return;
        }
        if self.end.first.len() < buckets {
            self.send(Task::End, ModelRequest::Survey { bucket: self.end.first.len() }, turn);
            return;
        }
        let is_end = |counts: &[BucketCounts]| {
            let pages: u32 = counts.iter().map(|counts| counts.pages).sum();
            counts.iter().all(|counts| counts.open == 0) || turn.max_pages.is_some_and(|max| pages >= max)
        };
        if !is_end(&self.end.first) {
            self.end = EndDetection::default();
        } else if !turn.protocol.second_pass {
            self.end.is_found = true;
        } else if let Some(version) = self.end.version {
            self.send(Task::End, ModelRequest::Wait { bucket: self.end.second.len() - 1, version }, turn);
        } else if self.end.second.len() < buckets {
            self.send(Task::End, ModelRequest::Confirm { bucket: self.end.second.len() }, turn);
        } else {
            let is_same =
                self.end.first.iter().zip(&self.end.second).all(|(first, second)| first.known == second.known);
            // With a limit on pages, more links may become known after the limit is reached.
            let has_limit = turn.max_pages.is_some();
            let is_found = is_end(&self.end.second) && (is_same || has_limit || !turn.protocol.count_known);
            self.end = EndDetection { is_found, ..EndDetection::default() };
        }
    }

    /// Handles a reply. Replies to earlier calls are ignored.
    pub fn receive(&mut self, task: Task, call: u64, reply: ModelReply, now: u64, protocol: FleetProtocol) {
        match task {
            Task::Work(bucket) => {
                let tasks = &mut self.tasks[bucket];
                if tasks.call.take_if(|(expected, _)| *expected == call).is_some() {
                    if let (Step::NoteWait { host, .. }, ModelReply::Replicated(Some(true))) = (&tasks.step, &reply) {
                        self.stored_notes.push((bucket, *host));
                    }
                    tasks.receive(reply, now, protocol, &mut self.put_replies);
                }
            }
            Task::Renew(bucket) => {
                let tasks = &mut self.tasks[bucket];
                if tasks.renewal_call.take_if(|(expected, _)| *expected == call).is_some() {
                    tasks.renewed(reply, now, protocol);
                }
            }
            Task::End => {
                if self.end.call.take_if(|(expected, _)| *expected == call).is_some() {
                    self.end.receive(reply, protocol);
                }
            }
        }
    }
}

impl EndDetection {
    fn receive(&mut self, reply: ModelReply, protocol: FleetProtocol) {
        match reply {
            ModelReply::Counts(counts) => self.first.push(counts),
            ModelReply::Confirmed(counts, version) => {
                self.second.push(counts);
                self.version = protocol.wait.then_some(version);
            }
            ModelReply::Replicated(Some(true)) => self.version = None,
            ModelReply::Replicated(Some(false)) => {}
            _ => *self = Self::default(),
        }
    }
}

impl BucketTasks {
    /// Discards all state of the bucket. Acquiring it again requeues the leased links.
    fn forget(&mut self) {
        let should_release = self.should_release;
        *self = Self { should_release, ..Self::default() };
    }

    /// The step that puts the links of a page, grouped by bucket.
    fn put_links(&self, page: ModelPage, turn: &Turn<'_>, buckets: usize) -> Step {
        let mut targets: Vec<(usize, Vec<ModelPage>)> = Vec::new();
        for link in &turn.links[page as usize] {
            let bucket = *link as usize % buckets;
            match targets.iter_mut().find(|(target, _)| *target == bucket) {
                Some((_, pages)) => pages.push(*link),
                None => targets.push((bucket, vec![*link])),
            }
        }
        Step::Put { page, targets, number: None }
    }

    /// Handles the reply to a renewal.
    fn renewed(&mut self, reply: ModelReply, now: u64, protocol: FleetProtocol) {
        let (Some(renewal), Some(owned)) = (&mut self.renewal, &mut self.owned) else { return };
        let from = if protocol.lease_from_request { renewal.sent } else { now };
        match reply {
            ModelReply::Renewed(version) if protocol.wait => {
                renewal.version = Some(version);
                return;
            }
            ModelReply::Renewed(_) | ModelReply::Replicated(Some(true)) => {
                owned.until = owned.until.max(from + LEASE_TICKS)
            }
            ModelReply::Replicated(Some(false)) => return,
            ModelReply::Refused => self.forget(),
            _ => {}
        }
        self.renewal = None;
    }

    /// Handles the reply to a request of the working task. If a failover lost a put, a settle or a transfer of quota
    /// before its replication, it is sent again. If the failover lost an acquire or a take, the bucket is acquired
    /// again.
    fn receive(
        &mut self,
        reply: ModelReply,
        now: u64,
        protocol: FleetProtocol,
        put_replies: &mut Vec<(ModelPage, bool)>,
    ) {
        // The lease expired before the reply arrived.
        if let (None, false) = (&self.owned, matches!(self.step, Step::Acquire { .. } | Step::AcquireWait { .. })) {
            return;
        }
        let is_not_replicated_yet = matches!(reply, ModelReply::Replicated(Some(false)));
        let is_replicated = matches!(reply, ModelReply::Replicated(Some(true)));
        self.step = match (std::mem::take(&mut self.step), reply) {
            (step, _) if is_not_replicated_yet => step,
            (Step::Acquire { sent }, ModelReply::Acquired(token, version)) => {
                let sent = if protocol.lease_from_request { sent } else { now };
                if protocol.wait { Step::AcquireWait { token, sent, version } } else { self.acquired(token, sent) }
            }
            (Step::AcquireWait { token, sent, .. }, _) if is_replicated => self.acquired(token, sent),
            (Step::Take, ModelReply::Taken(pages, hosts, version)) => {
                self.learn(&hosts, now);
                if protocol.wait { Step::TakeWait { pages, version } } else { self.taken(pages) }
            }
            (Step::TakeWait { pages, .. }, _) if is_replicated => self.taken(pages),
            (Step::Note(host), ModelReply::Done(version)) if protocol.wait => Step::NoteWait { host, version },
            (Step::Note(_), ModelReply::Done(_)) => Step::Idle,
            (Step::NoteWait { .. }, _) if is_replicated => Step::Idle,
            (Step::NoteWait { host, .. }, _) => Step::Note(host),
            (Step::Put { page, targets, number }, ModelReply::Put(is_new, version)) => {
                if protocol.wait {
                    Step::PutWait { page, targets, number, is_new, version }
                } else {
                    next_target(page, targets, &is_new, put_replies)
                }
            }
            (Step::PutWait { page, targets, is_new, .. }, _) if is_replicated => {
                next_target(page, targets, &is_new, put_replies)
            }
            (Step::PutWait { page, targets, number, .. }, _) => Step::Put { page, targets, number },
            (Step::Settle(page), ModelReply::Done(version)) => {
                if protocol.wait {
                    Step::SettleWait { page, version }
                } else {
                    settled(page, protocol)
                }
            }
            (Step::SettleWait { page, .. }, _) if is_replicated => settled(page, protocol),
            (Step::SettleWait { page, .. }, _) => Step::Settle(page),
            (Step::Quota(_), ModelReply::Refused) => return self.forget(),
            (Step::Quota(quota), reply) => quota.receive(&reply, protocol.wait).map_or(Step::Idle, Step::Quota),
            // The store refused the request, lost the write, or released the bucket. A bucket that was owned is not held any
            // more, so it need not be released.
            _ => {
                self.should_release &= self.owned.is_none();
                self.forget();
                return;
            }
        };
    }

    /// The step after the bucket was acquired.
    fn acquired(&mut self, token: ModelToken, sent: u64) -> Step {
        self.owned = Some(OwnedBucket {
            token,
            until: sent + LEASE_TICKS,
            last_settle: 0,
            last_take: 0,
            taken: VecDeque::new(),
            hosts: BTreeMap::new(),
        });
        Step::Idle
    }

    /// Adds the hosts of a take that this process did not know.
    fn learn(&mut self, hosts: &[ModelHostNews], now: u64) {
        let Some(owned) = &mut self.owned else { return };
        for news in hosts {
            owned.hosts.entry(news.host).or_insert_with(|| ModelHost::new(*news, now));
        }
    }

    /// The step after a take. If no links were taken, the bucket may need quota, or have quota that it does not need.
    fn taken(&mut self, pages: Vec<ModelPage>) -> Step {
        let Some(owned) = &mut self.owned else { return Step::Idle };
        owned.last_take += 1;
        owned.taken.extend(pages);
        self.replied_takes += 1;
        match owned.taken.is_empty() {
            false => Step::Idle,
            true if self.replied_takes.is_multiple_of(2) => Step::Quota(QuotaStep::Grant),
            true => Step::Quota(QuotaStep::Refund),
        }
    }
}

impl OwnedBucket {
    /// Requests a page, or first the robots.txt of its host, as soon as the host may be asked. Returns the next step.
    fn request(&mut self, page: ModelPage, bucket: usize, buckets: usize, turn: &mut Turn<'_>) -> Step {
        let (host, token, now) = (host_of(page, buckets), self.token, turn.now);
        let Some(known) = self.hosts.get_mut(&host) else { return Step::Idle };
        if now < known.next {
            return Step::Idle;
        }
        let Some(delay) = known.delay else {
            turn.effects.push(Effect::Start { bucket, token, host, page: None });
            let delay = delay_of(bucket, host);
            (known.delay, known.next) = (Some(delay), now + delay);
            return if turn.protocol.note_first && delay > BASE_DELAY { Step::Note(host) } else { Step::Idle };
        };
        turn.effects.push(Effect::Start { bucket, token, host, page: Some(page) });
        let wait = turn.waits[page as usize];
        known.next = now + delay.max(wait);
        if wait > 0 {
            return if turn.protocol.note_waits { Step::Note(host) } else { Step::Idle };
        }
        self.taken.pop_front();
        Step::Fetch(page)
    }
}

/// The step after a put was replicated: the put to the next bucket.
fn next_target(
    page: ModelPage,
    mut targets: Vec<(usize, Vec<ModelPage>)>,
    is_new: &[bool],
    put_replies: &mut Vec<(ModelPage, bool)>,
) -> Step {
    let (_, pages) = targets.remove(0);
    put_replies.extend(pages.into_iter().zip(is_new.iter().copied()));
    Step::Put { page, targets, number: None }
}

/// The step after a page was settled. With all rules enabled, the page is done.
fn settled(page: ModelPage, protocol: FleetProtocol) -> Step {
    match (protocol.record_first, protocol.links_first) {
        (false, _) => Step::LateWrite(page),
        (true, false) => Step::Fetched(page),
        (true, true) => Step::Idle,
    }
}

impl QuotaStep {
    /// The next step after this reply; `None` if the transfer is complete or not needed. `wait`: the rule
    /// [`FleetProtocol::wait`].
    fn receive(self, reply: &ModelReply, wait: bool) -> Option<Self> {
        let is_lost = matches!(reply, ModelReply::Replicated(None));
        Some(match (self, reply) {
            (Self::Grant, ModelReply::Granted { number, amount, version }) if wait => {
                Self::GrantWait(*number, *amount, *version)
            }
            (Self::Grant, ModelReply::Granted { number, amount, .. }) => Self::Credit(*number, *amount),
            (Self::GrantWait(..), _) if is_lost => Self::Grant,
            (Self::GrantWait(number, amount, _), _) => Self::Credit(number, amount),
            (Self::Credit(number, amount), ModelReply::Done(version)) if wait => {
                Self::CreditWait(number, amount, *version)
            }
            (Self::CreditWait(number, amount, _), _) if is_lost => Self::Credit(number, amount),
            (Self::Credit(number, _) | Self::CreditWait(number, ..), _) => Self::Clear(number),
            (Self::Refund, ModelReply::Granted { number, amount, version }) if wait => {
                Self::RefundWait(*number, *amount, *version)
            }
            (Self::Refund, ModelReply::Granted { number, amount, .. }) => Self::Accept(*number, *amount),
            (Self::RefundWait(..), _) if is_lost => Self::Refund,
            (Self::RefundWait(number, amount, _), _) => Self::Accept(number, amount),
            (Self::Accept(number, amount), ModelReply::Done(version)) if wait => {
                Self::AcceptWait(number, amount, *version)
            }
            (Self::AcceptWait(number, amount, _), _) if is_lost => Self::Accept(number, amount),
            (Self::Accept(number, _) | Self::AcceptWait(number, ..), _) => Self::ClearRefund(number),
            (Self::Grant | Self::Refund | Self::Clear(_) | Self::ClearRefund(_), _) => return None,
        })
    }
}
