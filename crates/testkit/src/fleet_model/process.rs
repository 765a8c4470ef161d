//! A simulated process. It has two tasks per bucket, one that works and one that renews the lease, and one task that
//! detects the end of the crawl.
//!
//! If a request is refused or the lease has ended, the process forgets its state of the bucket and acquires it again,
//! as a new process would.

use std::collections::VecDeque;

use super::store::{BucketCounts, ModelPage, ModelRequest, ModelToken, ModelVersion, ProcessId, Reply};
use super::{FleetProtocol, TTL};

/// The task of a process that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Work(usize),
    Renew(usize),
    End,
}

/// The effect of a step on the world.
pub enum Effect {
    Send {
        task: Task,
        call: u64,
        request: ModelRequest,
    },
    /// A request to a host of the bucket goes out.
    Start {
        bucket: usize,
        token: ModelToken,
    },
    /// Links are put for the first time.
    BeginPut {
        pages: Vec<ModelPage>,
    },
    /// A record becomes durable.
    Write {
        bucket: usize,
        token: ModelToken,
        number: u32,
        page: ModelPage,
    },
}

/// The part of the world that a step can see.
pub struct Turn<'a> {
    pub now: u64,
    pub links: &'a [Vec<ModelPage>],
    pub protocol: FleetProtocol,
    pub max_pages: Option<u32>,
    pub out: Vec<Effect>,
}

/// A simulated process.
pub struct Process {
    pub id: ProcessId,
    pub paused: bool,
    /// Pages of the puts answered since the last check, and whether they were new.
    pub put_answers: Vec<(ModelPage, bool)>,
    calls: u64,
    /// Number of puts that were begun.
    puts: u32,
    work: Vec<Work>,
    end: EndTask,
}

/// The two tasks of a bucket.
#[derive(Default)]
struct Work {
    /// The lease of the bucket, if the process holds it.
    own: Option<Own>,
    step: Step,
    /// The request that the working task waits for, and the number of its call.
    call: Option<(u64, ModelRequest)>,
    renewal: Option<Renewal>,
    renewal_call: Option<(u64, ModelRequest)>,
    /// Release the bucket when nothing is in progress.
    release: bool,
    /// How many takes were answered.
    turns: u32,
}

/// A leased bucket.
struct Own {
    token: ModelToken,
    until: u64,
    /// The number of the last settle.
    number: u32,
    /// The number of the last answered take.
    takes: u32,
    /// Leased pages that are not fetched yet.
    taken: VecDeque<ModelPage>,
}

/// A renewal in progress: when it was sent, and its version once the store has answered.
struct Renewal {
    sent: u64,
    version: Option<ModelVersion>,
}

/// What the working task of a bucket does next. A step that ends with `Wait` waits for replication.
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
    Fetch(ModelPage),
    /// Only without `links_first`: settled, but its links are not put yet.
    Fetched(ModelPage),
    /// Only without `record_first`: settled, but its record is not written yet.
    LateWrite(ModelPage),
    Put {
        page: ModelPage,
        targets: Vec<(usize, Vec<ModelPage>)>,
        /// The number of the put to the first target, once it was sent.
        number: Option<u32>,
    },
    PutWait {
        page: ModelPage,
        targets: Vec<(usize, Vec<ModelPage>)>,
        number: Option<u32>,
        answer: Vec<bool>,
        version: ModelVersion,
    },
    Write(ModelPage),
    Settle(ModelPage),
    SettleWait {
        page: ModelPage,
        version: ModelVersion,
    },
    Quota(Quota),
}

/// The steps that move quota between the pool and the bucket.
#[derive(Clone, Copy)]
enum Quota {
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
struct EndTask {
    call: Option<(u64, ModelRequest)>,
    /// The counts of the first pass.
    first: Vec<BucketCounts>,
    /// The counts of the second pass.
    second: Vec<BucketCounts>,
    version: Option<ModelVersion>,
    found: bool,
}

impl Process {
    pub fn new(id: ProcessId, buckets: usize) -> Self {
        let work = (0..buckets).map(|_| Work::default()).collect();
        Self { id, paused: false, put_answers: Vec::new(), calls: 0, puts: 0, work, end: EndTask::default() }
    }

    pub fn has_found_end(&self) -> bool {
        self.end.found
    }

    /// Marks one bucket for release as soon as nothing is in progress. It stands for a bucket above the fair share.
    pub fn release_soon(&mut self) {
        let at = self.calls as usize % self.work.len();
        self.work[at].release = true;
    }

    fn send(&mut self, task: Task, request: ModelRequest, turn: &mut Turn<'_>) {
        self.calls += 1;
        let call = Some((self.calls, request.clone()));
        match task {
            Task::Work(bucket) => self.work[bucket].call = call,
            Task::Renew(bucket) => self.work[bucket].renewal_call = call,
            Task::End => self.end.call = call,
        }
        turn.out.push(Effect::Send { task, call: self.calls, request });
    }

    /// One step of one task. With `resend`, the pending reply counts as lost and the request is sent again.
    pub fn step(&mut self, number: usize, resend: bool, turn: &mut Turn<'_>) {
        let buckets = self.work.len();
        match number {
            n if n < buckets => self.step_work(n, resend, turn),
            n if n < 2 * buckets => self.step_renewal(n - buckets, resend, turn),
            _ => self.step_end(resend, turn),
        }
    }

    fn step_work(&mut self, bucket: usize, resend: bool, turn: &mut Turn<'_>) {
        let (task, buckets) = (Task::Work(bucket), self.work.len());
        let work = &mut self.work[bucket];
        if work.own.as_ref().is_some_and(|own| turn.now >= own.until) {
            work.forget();
        }
        if let Some((_, request)) = &work.call {
            if !resend {
                return;
            }
            match request {
                // Without numbers, it is unknown whether links were leased. Acquiring the bucket again requeues them.
                ModelRequest::Take { .. } if !turn.protocol.number_takes => work.forget(),
                ModelRequest::Acquire { .. } => work.step = Step::Idle,
                request => {
                    let request = request.clone();
                    self.send(task, request, turn);
                    return;
                }
            }
            work.call = None;
        }
        let Some(own) = &mut work.own else {
            match work.step {
                Step::AcquireWait { version, .. } => self.send(task, ModelRequest::Wait { bucket, version }, turn),
                _ => {
                    work.step = Step::Acquire { sent: turn.now };
                    let owner = self.id;
                    self.send(task, ModelRequest::Acquire { bucket, owner }, turn);
                }
            }
            return;
        };
        let token = own.token;
        match work.step.clone() {
            Step::Idle if own.taken.is_empty() && work.release => {
                work.step = Step::Release;
                self.send(task, ModelRequest::Release { bucket, token }, turn);
            }
            Step::Idle => match own.taken.pop_front() {
                Some(page) => {
                    work.step = Step::Fetch(page);
                    turn.out.push(Effect::Start { bucket, token });
                }
                None => {
                    work.step = Step::Take;
                    let number = own.takes + 1;
                    self.send(task, ModelRequest::Take { bucket, token, number }, turn);
                }
            },
            Step::Fetch(page) if !turn.protocol.links_first => work.step = Step::Write(page),
            Step::Fetch(page) | Step::Fetched(page) => work.step = work.put(page, turn, buckets),
            Step::Put { targets, page, number } => match targets.first() {
                Some((target, pages)) => {
                    let number = number.unwrap_or_else(|| {
                        turn.out.push(Effect::BeginPut { pages: pages.clone() });
                        self.puts += 1;
                        self.puts
                    });
                    let (target, pages) = (*target, pages.clone());
                    work.step = Step::Put { targets, page, number: Some(number) };
                    let request = ModelRequest::Put { bucket: target, from: (self.id, bucket), number, pages };
                    self.send(task, request, turn);
                }
                None => work.step = if turn.protocol.links_first { Step::Write(page) } else { Step::Idle },
            },
            Step::PutWait { targets, version, .. } => {
                let Some((target, _)) = targets.first() else { return };
                self.send(task, ModelRequest::Wait { bucket: *target, version }, turn);
            }
            Step::Write(page) => {
                own.number += 1;
                let number = own.number;
                if turn.protocol.record_first {
                    turn.out.push(Effect::Write { bucket, token, number, page });
                }
                work.step = Step::Settle(page);
            }
            Step::Settle(page) => {
                let number = own.number;
                self.send(task, ModelRequest::Settle { bucket, token, number, page }, turn);
            }
            Step::LateWrite(page) => {
                let number = own.number;
                turn.out.push(Effect::Write { bucket, token, number, page });
                work.step = if turn.protocol.links_first { Step::Idle } else { Step::Fetched(page) };
            }
            Step::TakeWait { version, .. } | Step::SettleWait { version, .. } => {
                self.send(task, ModelRequest::Wait { bucket, version }, turn);
            }
            Step::Quota(quota) => {
                let request = match quota {
                    Quota::Grant => ModelRequest::Grant { bucket },
                    Quota::GrantWait(.., version) | Quota::AcceptWait(.., version) => {
                        ModelRequest::WaitGrant { version }
                    }
                    Quota::Credit(number, amount) => ModelRequest::Credit { bucket, number, amount },
                    Quota::CreditWait(.., version) | Quota::RefundWait(.., version) => {
                        ModelRequest::Wait { bucket, version }
                    }
                    Quota::Clear(number) => ModelRequest::Clear { bucket, number },
                    Quota::Refund => ModelRequest::Refund { bucket, token },
                    Quota::Accept(number, amount) => ModelRequest::Accept { bucket, number, amount },
                    Quota::ClearRefund(number) => ModelRequest::ClearRefund { bucket, number },
                };
                self.send(task, request, turn);
            }
            Step::Acquire { .. } | Step::AcquireWait { .. } | Step::Take | Step::Release => work.forget(),
        }
    }

    fn step_renewal(&mut self, bucket: usize, resend: bool, turn: &mut Turn<'_>) {
        let task = Task::Renew(bucket);
        let work = &mut self.work[bucket];
        let Some(own) = work.own.as_ref().filter(|own| turn.now < own.until) else {
            (work.renewal, work.renewal_call) = (None, None);
            return;
        };
        if work.renewal_call.is_some() && !resend {
            return;
        }
        if let Some(Renewal { version: Some(version), .. }) = work.renewal {
            self.send(task, ModelRequest::Wait { bucket, version }, turn);
        } else if own.until < turn.now + TTL * 2 / 3 {
            let token = own.token;
            work.renewal = Some(Renewal { sent: turn.now, version: None });
            self.send(task, ModelRequest::Renew { bucket, token }, turn);
        }
    }

    fn step_end(&mut self, resend: bool, turn: &mut Turn<'_>) {
        let buckets = self.work.len();
        if self.end.call.is_some() {
            if resend {
                self.end = EndTask::default();
            }
            return;
        }
        if self.end.first.len() < buckets {
            self.send(Task::End, ModelRequest::Survey { bucket: self.end.first.len() }, turn);
            return;
        }
        let is_end = |counts: &[BucketCounts]| {
            let pages: u32 = counts.iter().map(|counts| counts.pages).sum();
            counts.iter().all(|counts| counts.open == 0) || turn.max_pages.is_some_and(|most| pages >= most)
        };
        if !is_end(&self.end.first) {
            self.end = EndTask::default();
        } else if !turn.protocol.second_pass {
            self.end.found = true;
        } else if let Some(version) = self.end.version {
            self.send(Task::End, ModelRequest::Wait { bucket: self.end.second.len() - 1, version }, turn);
        } else if self.end.second.len() < buckets {
            self.send(Task::End, ModelRequest::Confirm { bucket: self.end.second.len() }, turn);
        } else {
            let same = self.end.first.iter().zip(&self.end.second).all(|(first, second)| first.known == second.known);
            let is_spent = turn.max_pages.is_some();
            let found = is_end(&self.end.second) && (same || is_spent || !turn.protocol.count_known);
            self.end = EndTask { found, ..EndTask::default() };
        }
    }

    /// Handles a reply. Replies to earlier calls are ignored.
    pub fn receive(&mut self, task: Task, call: u64, reply: Reply, now: u64, protocol: FleetProtocol) {
        match task {
            Task::Work(bucket) => {
                let work = &mut self.work[bucket];
                if work.call.take_if(|(expected, _)| *expected == call).is_some() {
                    work.receive(reply, now, protocol, &mut self.put_answers);
                }
            }
            Task::Renew(bucket) => {
                let work = &mut self.work[bucket];
                if work.renewal_call.take_if(|(expected, _)| *expected == call).is_some() {
                    work.renewed(reply, now, protocol);
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

impl EndTask {
    fn receive(&mut self, reply: Reply, protocol: FleetProtocol) {
        match reply {
            Reply::Counts(counts) => self.first.push(counts),
            Reply::Confirmed(counts, version) => {
                self.second.push(counts);
                self.version = protocol.wait.then_some(version);
            }
            Reply::Replicated(Some(true)) => self.version = None,
            Reply::Replicated(Some(false)) => {}
            _ => *self = Self::default(),
        }
    }
}

impl Work {
    /// Forgets all state of the bucket. Acquiring it again requeues the leased links.
    fn forget(&mut self) {
        let release = self.release;
        *self = Self { release, ..Self::default() };
    }

    /// The links of a page, grouped by bucket.
    fn put(&self, page: ModelPage, turn: &Turn<'_>, buckets: usize) -> Step {
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

    fn renewed(&mut self, reply: Reply, now: u64, protocol: FleetProtocol) {
        let (Some(renewal), Some(own)) = (&mut self.renewal, &mut self.own) else { return };
        let from = if protocol.lease_from_request { renewal.sent } else { now };
        match reply {
            Reply::Renewed(version) if protocol.wait => {
                renewal.version = Some(version);
                return;
            }
            Reply::Renewed(_) | Reply::Replicated(Some(true)) => own.until = own.until.max(from + TTL),
            Reply::Replicated(Some(false)) => return,
            Reply::Refused => self.forget(),
            _ => {}
        }
        self.renewal = None;
    }

    /// Continues after a reply. Writes that a failover lost before replication are sent again.
    fn receive(&mut self, reply: Reply, now: u64, protocol: FleetProtocol, put_answers: &mut Vec<(ModelPage, bool)>) {
        if let (None, false) = (&self.own, matches!(self.step, Step::Acquire { .. } | Step::AcquireWait { .. })) {
            return;
        }
        let again = matches!(reply, Reply::Replicated(Some(false)));
        let replicated = matches!(reply, Reply::Replicated(Some(true)));
        self.step = match (std::mem::take(&mut self.step), reply) {
            (step, _) if again => step,
            (Step::Acquire { sent }, Reply::Acquired(token, version)) => {
                let sent = if protocol.lease_from_request { sent } else { now };
                if protocol.wait { Step::AcquireWait { token, sent, version } } else { self.acquired(token, sent) }
            }
            (Step::AcquireWait { token, sent, .. }, _) if replicated => self.acquired(token, sent),
            (Step::Take, Reply::Taken(pages, version)) => {
                if protocol.wait {
                    Step::TakeWait { pages, version }
                } else {
                    self.taken(pages)
                }
            }
            (Step::TakeWait { pages, .. }, _) if replicated => self.taken(pages),
            (Step::Put { page, targets, number }, Reply::Put(answer, version)) => {
                if protocol.wait {
                    Step::PutWait { page, targets, number, answer, version }
                } else {
                    next_target(page, targets, &answer, put_answers)
                }
            }
            (Step::PutWait { page, targets, answer, .. }, _) if replicated => {
                next_target(page, targets, &answer, put_answers)
            }
            (Step::PutWait { page, targets, number, .. }, _) => Step::Put { page, targets, number },
            (Step::Settle(page), Reply::Done(version)) => {
                if protocol.wait {
                    Step::SettleWait { page, version }
                } else {
                    settled(page, protocol)
                }
            }
            (Step::SettleWait { page, .. }, _) if replicated => settled(page, protocol),
            (Step::SettleWait { page, .. }, _) => Step::Settle(page),
            (Step::Quota(_), Reply::Refused) => return self.forget(),
            (Step::Quota(quota), reply) => quota.receive(&reply, protocol.wait).map_or(Step::Idle, Step::Quota),
            _ => {
                self.release &= self.own.is_none();
                self.forget();
                return;
            }
        };
    }

    fn acquired(&mut self, token: ModelToken, sent: u64) -> Step {
        self.own = Some(Own { token, until: sent + TTL, number: 0, takes: 0, taken: VecDeque::new() });
        Step::Idle
    }

    /// Continues after a take. If no links were taken, the bucket may need quota, or have quota that it does not need.
    fn taken(&mut self, pages: Vec<ModelPage>) -> Step {
        let Some(own) = &mut self.own else { return Step::Idle };
        own.takes += 1;
        own.taken.extend(pages);
        self.turns += 1;
        match own.taken.is_empty() {
            false => Step::Idle,
            true if self.turns.is_multiple_of(2) => Step::Quota(Quota::Grant),
            true => Step::Quota(Quota::Refund),
        }
    }
}

/// Continues with the next bucket after a put was answered.
fn next_target(
    page: ModelPage,
    mut targets: Vec<(usize, Vec<ModelPage>)>,
    answer: &[bool],
    put_answers: &mut Vec<(ModelPage, bool)>,
) -> Step {
    let (_, pages) = targets.remove(0);
    put_answers.extend(pages.into_iter().zip(answer.iter().copied()));
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

impl Quota {
    /// The next step; `None` if the transfer is complete or not needed.
    fn receive(self, reply: &Reply, wait: bool) -> Option<Self> {
        let lost = matches!(reply, Reply::Replicated(None));
        Some(match (self, reply) {
            (Self::Grant, Reply::Granted { number, amount, version }) if wait => {
                Self::GrantWait(*number, *amount, *version)
            }
            (Self::Grant, Reply::Granted { number, amount, .. }) => Self::Credit(*number, *amount),
            (Self::GrantWait(..), _) if lost => Self::Grant,
            (Self::GrantWait(number, amount, _), _) => Self::Credit(number, amount),
            (Self::Credit(number, amount), Reply::Done(version)) if wait => Self::CreditWait(number, amount, *version),
            (Self::CreditWait(number, amount, _), _) if lost => Self::Credit(number, amount),
            (Self::Credit(number, _) | Self::CreditWait(number, ..), _) => Self::Clear(number),
            (Self::Refund, Reply::Granted { number, amount, version }) if wait => {
                Self::RefundWait(*number, *amount, *version)
            }
            (Self::Refund, Reply::Granted { number, amount, .. }) => Self::Accept(*number, *amount),
            (Self::RefundWait(..), _) if lost => Self::Refund,
            (Self::RefundWait(number, amount, _), _) => Self::Accept(number, amount),
            (Self::Accept(number, amount), Reply::Done(version)) if wait => Self::AcceptWait(number, amount, *version),
            (Self::AcceptWait(number, amount, _), _) if lost => Self::Accept(number, amount),
            (Self::Accept(number, _) | Self::AcceptWait(number, ..), _) => Self::ClearRefund(number),
            (Self::Grant | Self::Refund | Self::Clear(_) | Self::ClearRefund(_), _) => return None,
        })
    }
}
