//! [`Resources`]: the limits on a worker's connections, and the reuse of connections, for all engines:
//!
//! - **Idle pool.** Connections with room for another job, by slot ([`IdlePool`]). All workers together have at most
//!   `max(256, --concurrency)`, or fewer if memory or file descriptors are short. At the limit, a worker evicts its
//!   least recently used connection before it adds one.
//! - **Connections being opened.** Jobs that may share a connection wait while it is opened for another job.
//! - **File shortage.** When a socket is refused because the process has no file descriptor left, idle connections of
//!   all workers are closed and the fetch waits ([`FileShortage`]).
//! - **Wake-up coalescing.** With many slow responses outstanding, the worker sleeps a little before it waits for
//!   sockets, so that one wake-up serves several of them ([`WakeBatcher`]).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use argiope_core::Time;
use argiope_core::base::job::Job;
use argiope_core::crawl::session::{SlotKey, slot_key};
use argiope_core::crawl::visit::Visit;

use crate::Clock;
use crate::idle_pool::IdlePool;
use crate::wake_batcher::{WakeBatcher, WakeDelay};
use crate::worker::{FileShortage, IdleLimit, Worker};

/// How often a worker checks whether another worker needs the file descriptors of its idle connections. The `threads`
/// engine has only one worker, which looks for dead idle connections at this interval.
pub const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The idle pool, file shortage and wake-up coalescing of one worker. `C` is the engine's handle for a connection.
///
/// The engines `threads` and `callbacks` evict with [`Resources::keep`] and [`Resources::evict`], which return the
/// connection to close. A connection that belongs to a task can only be closed by that task. `TaskSlots` therefore asks
/// for the slot to evict ([`Resources::next_to_evict_if_full`]), leaves the connection in the pool, and notifies its
/// task.
pub struct Resources<C> {
    pool: IdlePool<C>,
    idle_limit: IdleLimit,
    /// Slots whose connection is being opened, with the other jobs that wait for it.
    connecting: HashMap<SlotKey, Vec<Box<Job>>>,
    file_shortage: FileShortage,
    wake_batcher: WakeBatcher,
    clock: Clock,
}

impl<C> Resources<C> {
    pub fn new(worker: &Worker) -> Self {
        Self {
            pool: IdlePool::new(worker.idle_limit.clone()),
            idle_limit: worker.idle_limit.clone(),
            connecting: HashMap::new(),
            file_shortage: worker.file_shortage.clone(),
            wake_batcher: WakeBatcher::new(worker.clock),
            clock: worker.clock,
        }
    }

    /// The connections with room for a job.
    pub fn pool(&mut self) -> &mut IdlePool<C> {
        &mut self.pool
    }

    /// Makes a job wait for the connection that is being opened in its slot. Returns the job if there is no such
    /// connection, or if the job cannot share one. The caller then opens a connection for the job, and calls
    /// [`Resources::end_connecting`].
    pub fn wait_for_connection(&mut self, job: Box<Job>) -> Option<Box<Job>> {
        if !job.shares_connection() {
            return Some(job);
        }
        match self.connecting.entry(slot_key(&job)) {
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push(job);
                None
            }
            Entry::Vacant(vacant) => {
                vacant.insert(Vec::new());
                Some(job)
            }
        }
    }

    /// Reports that the connection of a slot was opened or has failed. Returns the jobs that waited for it.
    pub fn end_connecting(&mut self, slot: SlotKey) -> Vec<Box<Job>> {
        self.connecting.remove(&slot).unwrap_or_default()
    }

    /// Adds a connection with room for a job to the pool. At the limit, another connection leaves the pool first. It is
    /// returned, and the caller closes it. `Err` returns the connection that was not added ([`Resources::may_keep`]).
    pub fn keep(
        &mut self,
        slot: SlotKey,
        connection: C,
        now: Time,
        may_evict: impl Fn(&C) -> bool,
    ) -> Result<Option<C>, C> {
        if !self.may_keep(slot, now) {
            return Err(connection);
        }
        let evicted = self.next_to_evict_if_full(may_evict).and_then(|oldest| self.pool.remove(oldest));
        self.pool.insert(slot, connection);
        Ok(evicted)
    }

    /// Takes the least recently used connection that may be evicted out of the pool. The caller closes it.
    pub fn evict(&mut self, may_evict: impl Fn(&C) -> bool) -> Option<C> {
        let oldest = self.pool.next_to_evict(may_evict)?;
        self.pool.remove(oldest)
    }

    /// Like [`Resources::evict`], but only while file descriptors are short.
    pub fn evict_if_short(&mut self, now: Time, may_evict: impl Fn(&C) -> bool) -> Option<C> {
        let oldest = self.next_to_evict_if_short(now, may_evict)?;
        self.pool.remove(oldest)
    }

    /// Whether the pool accepts this connection: its slot is free, and file descriptors are not short.
    pub fn may_keep(&self, slot: SlotKey, now: Time) -> bool {
        !self.file_shortage.is_active(now) && self.pool.get(slot).is_none()
    }

    /// The connection to evict before another is kept, if all workers together have reached the limit.
    pub fn next_to_evict_if_full(&mut self, may_evict: impl Fn(&C) -> bool) -> Option<SlotKey> {
        if self.idle_limit.is_full() { self.pool.next_to_evict(may_evict) } else { None }
    }

    /// The next connection to evict while file descriptors are short.
    pub fn next_to_evict_if_short(&mut self, now: Time, may_evict: impl Fn(&C) -> bool) -> Option<SlotKey> {
        if self.file_shortage.is_active(now) { self.pool.next_to_evict(may_evict) } else { None }
    }

    /// Records the end of a fetch while `in_flight` others are in progress.
    pub fn record_fetch(&mut self, visit: &Visit, in_flight: usize) {
        self.wake_batcher.record_fetch(visit, in_flight);
    }

    /// The handle that delays wake-ups, for engines that do not call [`Resources::before_wait`].
    pub fn wake_delay(&self) -> WakeDelay {
        self.wake_batcher.wake_delay().clone()
    }

    /// Sleeps to coalesce wake-ups, unless a socket is already known to be ready. Then returns how long to wait for
    /// sockets: until the next deadline or the next check for a file shortage. `None`: without a limit.
    pub fn before_wait(&self, next_deadline: Time, is_ready: bool) -> Option<Duration> {
        if !is_ready {
            self.wake_batcher.wake_delay().sleep(next_deadline);
        }
        let check_interval = (!self.pool.is_empty()).then_some(IDLE_CHECK_INTERVAL);
        self.clock.until(next_deadline).into_iter().chain(check_interval).min()
    }
}
