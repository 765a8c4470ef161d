//! The simulated store: one primary and one replica per bucket, with asynchronous replication and failover.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::names::{ModelPage, ModelToken, ProcessId};
use super::politeness::{HOSTS, HostId, ModelHostNews, ModelNote};
use super::{FleetProtocol, LEASE_TICKS, MARGIN_TICKS};

/// The state of one bucket.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    pub owner: Option<ProcessId>,
    pub epoch: u32,
    /// When the lease expires.
    pub until: u64,
    /// The latest time at which an earlier owner may have sent a request, and the node whose clock this is.
    pub asked: Option<(u64, u64)>,
    pub notes: BTreeMap<HostId, ModelNote>,
    pub known: BTreeSet<ModelPage>,
    pub queued: VecDeque<ModelPage>,
    /// Leased pages, with the number of the take.
    pub leased: BTreeMap<ModelPage, u32>,
    /// The number of the last take of this epoch.
    pub taken: u32,
    /// By sender (the process, and the bucket of its task): the number of the last put, and its reply.
    pub put_replies: BTreeMap<(ProcessId, usize), (u32, Vec<bool>)>,
    /// The number of the last settle of every token that settled anything.
    pub positions: BTreeMap<ModelToken, u32>,
    /// Number of pages that were settled.
    pub pages: u32,
    /// Number of pages that may still be settled here.
    pub quota: u32,
    /// The number of the last transfer of quota that was credited.
    pub credited: u32,
    /// The number and the amount of a refund, while quota is in transit back to the pool.
    pub refund: Option<(u32, u32)>,
    /// The number of the last refund.
    pub last_refund: u32,
}

/// The part of `--max-pages` that no bucket has, and the transfers that are not yet credited.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// Number of pages that no bucket has as quota.
    pub left: u32,
    /// Transfers in progress, by bucket: number and amount.
    pub transfers: BTreeMap<usize, (u32, u32)>,
    /// By bucket, the number of the last transfer.
    pub last_transfer: BTreeMap<usize, u32>,
    /// By bucket, the number of the last refund that was accepted.
    pub last_refund: BTreeMap<usize, u32>,
}

/// A node: a value and its replica, which lags behind.
#[derive(Clone, Debug, Default)]
pub struct ModelNode<T> {
    pub value: T,
    pub replica: T,
    /// Number of the last write.
    version: u64,
    /// Number of the last write that the replica has.
    replicated: u64,
    /// Writes that the replica does not have yet: number and resulting value.
    unreplicated: VecDeque<(u64, T)>,
    /// Number of failovers. Versions of different generations cannot be compared.
    generation: u64,
}

/// The position of a write in a node's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelVersion {
    generation: u64,
    number: u64,
}

impl<T: Clone> ModelNode<T> {
    pub fn new(value: T) -> Self {
        Self { replica: value.clone(), value, version: 0, replicated: 0, unreplicated: VecDeque::new(), generation: 0 }
    }

    /// Changes the primary; the replica receives the change later.
    pub fn write<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> (R, ModelVersion) {
        let result = change(&mut self.value);
        self.version += 1;
        self.unreplicated.push_back((self.version, self.value.clone()));
        (result, ModelVersion { generation: self.generation, number: self.version })
    }

    /// Applies the next write to the replica. Returns whether there was one.
    pub fn replicate(&mut self) -> bool {
        let Some((version, value)) = self.unreplicated.pop_front() else { return false };
        self.replica = value;
        self.replicated = version;
        true
    }

    /// Models the Redis command `WAIT 1`: whether the replica has a write. `None` if the primary failed since the write.
    pub fn is_replicated(&self, version: ModelVersion) -> Option<bool> {
        (version.generation == self.generation).then_some(self.replicated >= version.number)
    }

    /// The clock of the node. After a failover it is that of another node, which differs by at most [`MARGIN_TICKS`].
    fn clock(&self, now: u64) -> u64 {
        now + self.generation * 5 % (MARGIN_TICKS + 1)
    }

    /// Replaces the primary by the replica. Unreplicated writes are lost.
    pub fn fail_over(&mut self) {
        self.value = self.replica.clone();
        self.version = self.replicated;
        self.unreplicated.clear();
        self.generation += 1;
    }
}

/// A request to the store. Each reads or writes one node.
#[derive(Clone, Debug)]
pub enum ModelRequest {
    Acquire {
        bucket: usize,
        owner: ProcessId,
    },
    Renew {
        bucket: usize,
        token: ModelToken,
    },
    Release {
        bucket: usize,
        token: ModelToken,
    },
    Put {
        bucket: usize,
        /// The process, and the bucket of the task that sends the put.
        from: (ProcessId, usize),
        /// Equal for all attempts of one put.
        number: u32,
        pages: Vec<ModelPage>,
    },
    Take {
        bucket: usize,
        token: ModelToken,
        number: u32,
        /// The clock of the process; used only without the rule [`FleetProtocol::send_durations`].
        clock: u64,
    },
    /// Stores what the owner knows about a host.
    Note {
        bucket: usize,
        token: ModelToken,
        host: HostId,
        delay: u64,
        wait: u64,
        /// The end of the wait by the clock of the process; used only without the rule `send_durations`.
        until: u64,
    },
    Settle {
        bucket: usize,
        token: ModelToken,
        number: u32,
        page: ModelPage,
    },
    /// The counts of a bucket, for the first pass over all buckets.
    Survey {
        bucket: usize,
    },
    /// The same for the second pass. It is also a write, so that a `Wait` for it covers all earlier writes.
    Confirm {
        bucket: usize,
    },
    /// Requests whether the replica has a write to a bucket (Redis `WAIT`).
    Wait {
        bucket: usize,
        version: ModelVersion,
    },
    /// Takes quota for a bucket out of the pool.
    Grant {
        bucket: usize,
    },
    /// Like `Wait`, for a write to the pool.
    WaitGrant {
        version: ModelVersion,
    },
    /// Adds granted quota to the bucket.
    Credit {
        bucket: usize,
        number: u32,
        amount: u32,
    },
    /// Removes a grant that was credited.
    Clear {
        bucket: usize,
        number: u32,
    },
    /// Takes the unused quota out of an idle bucket.
    Refund {
        bucket: usize,
        token: ModelToken,
    },
    /// Adds refunded quota to the pool.
    Accept {
        bucket: usize,
        number: u32,
        amount: u32,
    },
    /// Removes a refund that was accepted.
    ClearRefund {
        bucket: usize,
        number: u32,
    },
}

/// A reply of the store.
#[derive(Clone, Debug)]
pub enum ModelReply {
    Acquired(ModelToken, ModelVersion),
    Renewed(ModelVersion),
    Done(ModelVersion),
    Taken(Vec<ModelPage>, Vec<ModelHostNews>, ModelVersion),
    /// For each page, whether it is new.
    Put(Vec<bool>, ModelVersion),
    /// Another lease holds the bucket, or the request has a wrong number, or its page is not leased.
    Refused,
    Counts(BucketCounts),
    Confirmed(BucketCounts, ModelVersion),
    /// The reply to `Wait` and `WaitGrant`: see [`ModelNode::is_replicated`].
    Replicated(Option<bool>),
    /// The reply to `Grant` and `Refund`.
    Granted {
        number: u32,
        amount: u32,
        version: ModelVersion,
    },
    /// There is no quota to grant or refund.
    Empty,
}

/// The counts that detect the end of the crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketCounts {
    /// Queued or leased pages.
    pub open: usize,
    pub known: usize,
    /// Settled pages.
    pub pages: u32,
}

/// All nodes: one per bucket, and one for the pool.
#[derive(Clone)]
pub struct ModelStore {
    pub buckets: Vec<ModelNode<Bucket>>,
    pub pool: ModelNode<Pool>,
    pub protocol: FleetProtocol,
}

impl ModelStore {
    /// Executes one request atomically.
    pub fn execute(&mut self, request: &ModelRequest, now: u64) -> ModelReply {
        let protocol = self.protocol;
        match *request {
            ModelRequest::Acquire { bucket, owner } => {
                let node = &mut self.buckets[bucket];
                let (now, id) = (node.clock(now), node.generation);
                let is_free = node.value.owner.is_none_or(|holder| holder == owner || node.value.until <= now);
                if !is_free {
                    return ModelReply::Refused;
                }
                let (epoch, version) = node.write(|bucket| {
                    if bucket.owner.is_some() {
                        bucket.asked = Some((bucket.until.min(now), id));
                    }
                    bucket.owner = Some(owner);
                    bucket.epoch += 1;
                    bucket.until = now + LEASE_TICKS + MARGIN_TICKS;
                    bucket.requeue();
                    bucket.taken = 0;
                    bucket.epoch
                });
                ModelReply::Acquired(ModelToken { epoch, owner }, version)
            }
            ModelRequest::Renew { bucket, token } => {
                let node = &mut self.buckets[bucket];
                if !node.value.is_held_by(token, protocol) {
                    return ModelReply::Refused;
                }
                let now = node.clock(now);
                ModelReply::Renewed(node.write(|bucket| bucket.until = now + LEASE_TICKS + MARGIN_TICKS).1)
            }
            ModelRequest::Release { bucket, token } => {
                let node = &mut self.buckets[bucket];
                if !node.value.is_held_by(token, protocol) {
                    return ModelReply::Refused;
                }
                let asked = (node.clock(now), node.generation);
                let release = |bucket: &mut Bucket| {
                    bucket.requeue();
                    (bucket.owner, bucket.asked) = (None, Some(asked));
                };
                ModelReply::Done(node.write(release).1)
            }
            ModelRequest::Put { bucket, from, number, ref pages } => {
                let put = |bucket: &mut Bucket| {
                    if let (true, Some((last, is_new_flags))) = (protocol.remember_puts, bucket.put_replies.get(&from))
                        && *last >= number
                    {
                        return is_new_flags.clone();
                    }
                    let mut is_new_flags = Vec::new();
                    for page in pages {
                        let is_new = bucket.known.insert(*page);
                        if is_new {
                            bucket.queued.push_back(*page);
                        }
                        is_new_flags.push(is_new);
                    }
                    bucket.put_replies.insert(from, (number, is_new_flags.clone()));
                    is_new_flags
                };
                let (is_new_flags, version) = self.buckets[bucket].write(put);
                ModelReply::Put(is_new_flags, version)
            }
            ModelRequest::Note { bucket, token, host, delay, wait, until } => {
                let node = &mut self.buckets[bucket];
                if !node.value.is_held_by(token, protocol) {
                    return ModelReply::Refused;
                }
                let due = if protocol.send_durations { node.clock(now) + wait } else { until };
                let note = ModelNote { delay, due, span: wait, node: node.generation };
                ModelReply::Done(node.write(|bucket| bucket.notes.insert(host, note)).1)
            }
            ModelRequest::Take { bucket, token, number, clock } => {
                let node = &mut self.buckets[bucket];
                if !node.value.is_held_by(token, protocol) {
                    return ModelReply::Refused;
                }
                if protocol.number_takes && number < node.value.taken {
                    return ModelReply::Refused;
                }
                let (taken, version) = node.write(|bucket| {
                    if protocol.number_takes && number == bucket.taken {
                        let repeated = bucket.leased.iter().filter(|(_, taken)| **taken == number);
                        return repeated.map(|(page, _)| *page).collect();
                    }
                    bucket.taken = number;
                    // A take returns at most two pages.
                    let free_quota = (bucket.quota as usize).saturating_sub(bucket.leased.len()).min(2);
                    let count = free_quota.min(bucket.queued.len());
                    let taken: Vec<ModelPage> = bucket.queued.drain(..count).collect();
                    bucket.leased.extend(taken.iter().map(|page| (*page, number)));
                    taken
                });
                let clock = if protocol.send_durations { node.clock(now) } else { clock };
                let hosts = (0..HOSTS)
                    .map(|host| node.value.news_of(host, node.generation, (node.clock(now), clock), protocol));
                ModelReply::Taken(taken, hosts.collect(), version)
            }
            ModelRequest::Settle { bucket, token, number, page } => {
                let node = &mut self.buckets[bucket];
                if !node.value.is_held_by(token, protocol) {
                    return ModelReply::Refused;
                }
                let last = node.value.positions.get(&token).copied().unwrap_or(0);
                if number == last {
                    // A repeated settle: the reply needs a version to wait for.
                    return ModelReply::Done(node.write(|_| ()).1);
                }
                let is_next = number == last + 1 || !protocol.next_number_only;
                if !is_next || !node.value.leased.contains_key(&page) {
                    return ModelReply::Refused;
                }
                let settle = |bucket: &mut Bucket| {
                    bucket.leased.remove(&page);
                    bucket.quota = bucket.quota.saturating_sub(1);
                    bucket.pages += 1;
                    bucket.positions.insert(token, number);
                };
                ModelReply::Done(node.write(settle).1)
            }
            ModelRequest::Survey { bucket } => ModelReply::Counts(self.buckets[bucket].value.counts()),
            ModelRequest::Confirm { bucket } => {
                let (counts, version) = self.buckets[bucket].write(|bucket| bucket.counts());
                ModelReply::Confirmed(counts, version)
            }
            ModelRequest::Wait { bucket, version } => {
                ModelReply::Replicated(self.buckets[bucket].is_replicated(version))
            }
            ModelRequest::WaitGrant { version } => ModelReply::Replicated(self.pool.is_replicated(version)),
            ModelRequest::Grant { bucket } => {
                let node = &mut self.pool;
                if !node.value.transfers.contains_key(&bucket) && node.value.left == 0 {
                    return ModelReply::Empty;
                }
                let ((number, amount), version) = node.write(|pool| {
                    if let Some(transfer) = pool.transfers.get(&bucket) {
                        return *transfer;
                    }
                    // A transfer moves at most two pages.
                    let amount = pool.left.min(2);
                    pool.left -= amount;
                    let number = pool.last_transfer.entry(bucket).or_default();
                    *number += 1;
                    pool.transfers.insert(bucket, (*number, amount));
                    (*number, amount)
                });
                ModelReply::Granted { number, amount, version }
            }
            ModelRequest::Credit { bucket, number, amount } => {
                let credit = |bucket: &mut Bucket| {
                    if bucket.credited < number || !protocol.number_transfers {
                        bucket.credited = number;
                        bucket.quota += amount;
                    }
                };
                ModelReply::Done(self.buckets[bucket].write(credit).1)
            }
            ModelRequest::Clear { bucket, number } => {
                let clear = |pool: &mut Pool| {
                    if pool.transfers.get(&bucket).is_some_and(|(pending, _)| *pending == number) {
                        pool.transfers.remove(&bucket);
                    }
                };
                ModelReply::Done(self.pool.write(clear).1)
            }
            ModelRequest::Refund { bucket, token } => {
                let node = &mut self.buckets[bucket];
                if !node.value.is_held_by(token, protocol) {
                    return ModelReply::Refused;
                }
                let is_idle = node.value.queued.is_empty() && node.value.leased.is_empty();
                if node.value.refund.is_none() && (!is_idle || node.value.quota == 0) {
                    return ModelReply::Empty;
                }
                let ((number, amount), version) = node.write(|bucket| {
                    if bucket.refund.is_none() {
                        bucket.last_refund += 1;
                        bucket.refund = Some((bucket.last_refund, std::mem::take(&mut bucket.quota)));
                    }
                    bucket.refund.unwrap_or_default()
                });
                ModelReply::Granted { number, amount, version }
            }
            ModelRequest::Accept { bucket, number, amount } => {
                let accept = |pool: &mut Pool| {
                    let last = pool.last_refund.entry(bucket).or_default();
                    if *last < number || !protocol.number_transfers {
                        *last = number;
                        pool.left += amount;
                    }
                };
                ModelReply::Done(self.pool.write(accept).1)
            }
            ModelRequest::ClearRefund { bucket, number } => {
                let clear = |bucket: &mut Bucket| {
                    bucket.refund.take_if(|(pending, _)| *pending == number);
                };
                ModelReply::Done(self.buckets[bucket].write(clear).1)
            }
        }
    }
}

impl Bucket {
    /// Whether this token holds the lease; always true without the rule `fence`.
    fn is_held_by(&self, token: ModelToken, protocol: FleetProtocol) -> bool {
        !protocol.fence || (self.owner == Some(token.owner) && self.epoch == token.epoch)
    }

    /// Requeues all leased pages, at the front.
    fn requeue(&mut self) {
        for page in std::mem::take(&mut self.leased).into_keys().rev() {
            self.queued.push_front(page);
        }
    }

    /// What the next owner must know about a host. `clock` is the clock of the node, and the one that waits are compared
    /// with.
    fn news_of(&self, host: HostId, node: u64, clock: (u64, u64), protocol: FleetProtocol) -> ModelHostNews {
        let is_comparable = |stored: u64| stored == node || !protocol.count_again_after_failover;
        let asked = self.asked.filter(|_| protocol.keep_asked);
        let note = self.notes.get(&host);
        ModelHostNews {
            host,
            delay: note.map(|note| note.delay),
            wait: note.map_or(
                0,
                |note| {
                    if is_comparable(note.node) { note.due.saturating_sub(clock.1) } else { note.span }
                },
            ),
            asked_ago: asked.map(|(at, by)| if is_comparable(by) { clock.0.saturating_sub(at) } else { 0 }),
        }
    }

    fn counts(&self) -> BucketCounts {
        BucketCounts { open: self.queued.len() + self.leased.len(), known: self.known.len(), pages: self.pages }
    }
}
