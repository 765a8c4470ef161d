//! [`TaskSlots`]: the hand-over of a job to the task that owns a connection with room for it.
//!
//! Used by the engines `coroutines`, `uring` and `tokio`. They have one task per connection, and reach a task only
//! through its waker.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use argiope_core::Time;
use argiope_core::base::job::Job;
use argiope_core::crawl::session::{ConnKey, Session, SlotKey, slot_key};
use argiope_core::crawl::visit::Visit;

use crate::resources::Resources;
use crate::wake_batcher::WakeDelay;
use crate::worker::Worker;

/// The connections with room for a job, each owned by a task.
pub struct TaskSlots(RefCell<Resources<TaskSlot>>);

/// What the other tasks know about a connection with room.
struct TaskSlot {
    waker: Waker,
    key: ConnKey,
    /// How many jobs the session had room for when its owner began to wait.
    free_capacity: usize,
    /// Jobs that were handed over, and that the owner has not taken yet.
    jobs: VecDeque<Box<Job>>,
    /// Whether the session has no job, and none was handed over.
    is_idle: bool,
    /// The owner must close the connection when it runs next, unless it has received a job meanwhile.
    is_evicted: bool,
}

impl TaskSlot {
    /// Whether the connection may be evicted.
    fn may_evict(&self) -> bool {
        self.is_idle && self.jobs.is_empty() && !self.is_evicted
    }

    /// Makes the owner close its connection when it runs next.
    fn evict(&mut self) {
        self.is_evicted = true;
        self.waker.wake_by_ref();
    }
}

/// An event for the owner of a connection with room.
pub enum SlotEvent {
    Job(Box<Job>),
    /// Close the connection, for example because its file descriptor is needed elsewhere.
    Evicted,
}

impl TaskSlots {
    pub fn new(worker: &Worker) -> Self {
        Self(RefCell::new(Resources::new(worker)))
    }

    /// See [`Resources::wake_delay`].
    pub fn wake_delay(&self) -> WakeDelay {
        self.0.borrow().wake_delay()
    }

    /// The function that a runtime calls before its thread sleeps: it coalesces wake-ups. The runtime does not say when
    /// the next deadline is. So a deadline can be noticed late, by the delay, which is two milliseconds at most.
    pub fn before_sleep(&self) -> impl Fn() + Send + Sync + use<> {
        let wake_delay = self.wake_delay();
        move || {
            wake_delay.sleep(Time::NEVER);
        }
    }

    /// Records the end of a fetch while `in_flight` others are in progress.
    pub fn record_fetch(&self, visit: &Visit, in_flight: usize) {
        self.0.borrow_mut().record_fetch(visit, in_flight);
    }

    /// Hands a job over to the task whose connection has room for it. Returns the job if there is no such task.
    pub fn hand_over(&self, job: Box<Job>) -> Result<(), Box<Job>> {
        let mut resources = self.0.borrow_mut();
        let Some(slot) = resources.pool().get_mut(slot_key(&job)) else { return Err(job) };
        if slot.is_evicted || slot.jobs.len() >= slot.free_capacity {
            return Err(job);
        }
        if slot.key != ConnKey::of(&job) {
            // The host's requests go to another port now, so the old connection is not needed any more.
            if slot.may_evict() {
                slot.evict();
            }
            return Err(job);
        }
        slot.jobs.push_back(job);
        slot.is_idle = false;
        slot.waker.wake_by_ref();
        Ok(())
    }

    /// See [`Resources::wait_for_connection`].
    pub fn wait_for_connection(&self, job: Box<Job>) -> Option<Box<Job>> {
        self.0.borrow_mut().wait_for_connection(job)
    }

    /// See [`Resources::end_connecting`].
    pub fn end_connecting(&self, slot: SlotKey) -> Vec<Box<Job>> {
        self.0.borrow_mut().end_connecting(slot)
    }

    /// For the owner of a session: ready when a job was handed over or the connection was evicted. The first call for a
    /// session with room adds it to the pool and stores its slot in `pooled`.
    pub fn poll(
        &self,
        session: &Session,
        pooled: &mut Option<SlotKey>,
        now: Time,
        cx: &Context<'_>,
    ) -> Poll<SlotEvent> {
        if session.free_capacity() == 0 && pooled.is_none() {
            return Poll::Pending;
        }
        let (Some(key), Some(slot)) = (session.key(), session.slot()) else { return Poll::Pending };
        let mut resources = self.0.borrow_mut();
        if pooled.is_none() {
            if !resources.may_keep(slot, now) {
                return if session.is_idle() { Poll::Ready(SlotEvent::Evicted) } else { Poll::Pending };
            }
            let oldest = resources.next_to_evict_if_full(TaskSlot::may_evict);
            if let Some(oldest) = oldest.and_then(|oldest| resources.pool().get_mut(oldest)) {
                oldest.evict();
            }
            let waker = cx.waker().clone();
            let jobs = VecDeque::new();
            let own_slot = TaskSlot { waker, key, free_capacity: 0, jobs, is_idle: false, is_evicted: false };
            resources.pool().insert(slot, own_slot);
            *pooled = Some(slot);
        }
        let Some(own_slot) = resources.pool().get_mut(slot) else { return Poll::Pending };
        if let Some(job) = own_slot.jobs.pop_front() {
            // The owner accepts this job, and may wait for a write before it polls again. Until then it is not idle.
            own_slot.is_idle = false;
            return Poll::Ready(SlotEvent::Job(job));
        }
        own_slot.is_idle = session.is_idle();
        if own_slot.is_evicted && own_slot.is_idle {
            return Poll::Ready(SlotEvent::Evicted);
        }
        own_slot.is_evicted = false;
        own_slot.free_capacity = session.free_capacity();
        Poll::Pending
    }

    /// Another job that was already handed over to the owner of this slot.
    pub fn next_job(&self, pooled: Option<SlotKey>) -> Option<Box<Job>> {
        let mut resources = self.0.borrow_mut();
        let slot = resources.pool().get_mut(pooled?)?;
        slot.is_idle = false;
        slot.jobs.pop_front()
    }

    /// Removes a session from the pool because it is full or closed. Returns the jobs that it has not accepted.
    pub fn remove(&self, pooled: &mut Option<SlotKey>) -> VecDeque<Box<Job>> {
        let slot = pooled.take().and_then(|slot| self.0.borrow_mut().pool().remove(slot));
        slot.map(|slot| slot.jobs).unwrap_or_default()
    }

    /// Makes the task of the least recently used idle connection close it. Returns whether there is one.
    pub fn evict(&self) -> bool {
        let mut resources = self.0.borrow_mut();
        let oldest = resources.pool().next_to_evict(TaskSlot::may_evict);
        oldest.and_then(|slot| resources.pool().get_mut(slot)).map(TaskSlot::evict).is_some()
    }

    /// Evicts idle connections while file descriptors are short, so that other workers can open sockets.
    pub fn evict_if_short(&self, now: Time) {
        let mut resources = self.0.borrow_mut();
        while let Some(slot) = resources.next_to_evict_if_short(now, TaskSlot::may_evict) {
            if let Some(slot) = resources.pool().get_mut(slot) {
                slot.evict();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use argiope_core::base::job::{LaneId, Purpose};
    use argiope_core::crawl::rules::Config;
    use argiope_core::http::conn::Step;
    use argiope_core::{Link, Url};

    use super::*;
    use crate::worker::{FileShortage, IdleLimit, Notices};
    use crate::{Clock, JobQueue, VisitSender};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn worker() -> Worker {
        let config = Config { roots: vec!["http://h/".into()], concurrency: 1, ..Config::default() };
        let rules = Arc::new(config.compile(0).unwrap());
        Worker {
            idle_limit: IdleLimit::new(&rules),
            rules,
            clock: Clock::start(),
            job_queue: JobQueue::new(),
            visit_sender: VisitSender::new(|visits: &mut Vec<Box<Visit>>| visits.clear()),
            notices: Notices::default(),
            file_shortage: FileShortage::default(),
            ready: std::sync::mpsc::channel().0,
        }
    }

    fn job(lane: u32, port: u16) -> Box<Job> {
        let link = Link::root(Url::parse(&format!("http://h:{port}/")).unwrap(), 1);
        Box::new(Job { lane: LaneId(lane), ..Job::detached(link, Purpose::Page, [IpAddr::from([192, 0, 2, 1])]) })
    }

    /// A session that has just finished its first job.
    fn idle_session(worker: &Worker, lane: u32) -> Session {
        let peer = IpAddr::from([192, 0, 2, 1]);
        let opened = Session::open(job(lane, 80), &worker.rules, Time::ZERO, peer, Time::ZERO);
        let Ok(mut session) = opened else { panic!("a session over plain HTTP cannot fail to open") };
        while let Step::Write(bytes) = session.step() {
            let count = bytes.len();
            session.wrote(count, Time::ZERO);
        }
        session.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Time::ZERO);
        assert!(session.finished(Time::ZERO).is_some() && session.is_idle());
        session
    }

    #[test]
    fn a_job_reaches_the_task_whose_connection_has_room() {
        let (worker, wakes) = (worker(), Arc::new(Wakes::default()));
        let (slots, waker) = (TaskSlots::new(&worker), Waker::from(Arc::clone(&wakes)));
        let cx = Context::from_waker(&waker);
        let (session, mut pooled) = (idle_session(&worker, 1), None);
        assert!(slots.hand_over(job(1, 80)).is_err(), "the connection is not in the pool yet");
        assert!(slots.poll(&session, &mut pooled, Time::ZERO, &cx).is_pending());
        assert!(slots.hand_over(job(2, 80)).is_err(), "the job is for another host");
        assert!(slots.hand_over(job(1, 80)).is_ok());
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        assert!(slots.hand_over(job(1, 80)).is_err(), "there is room for one");
        let event = slots.poll(&session, &mut pooled, Time::ZERO, &cx);
        assert!(matches!(event, Poll::Ready(SlotEvent::Job(_))));
        assert!(slots.remove(&mut pooled).is_empty() && pooled.is_none());
    }

    #[test]
    fn jobs_that_were_not_accepted_are_returned() {
        let worker = worker();
        let (slots, cx) = (TaskSlots::new(&worker), Context::from_waker(Waker::noop()));
        let (session, mut pooled) = (idle_session(&worker, 1), None);
        assert!(slots.poll(&session, &mut pooled, Time::ZERO, &cx).is_pending());
        assert!(slots.hand_over(job(1, 80)).is_ok());
        assert_eq!(slots.remove(&mut pooled).len(), 1);
    }

    #[test]
    fn a_connection_whose_owner_has_just_received_a_job_is_not_evicted() {
        let worker = worker();
        let (slots, cx) = (TaskSlots::new(&worker), Context::from_waker(Waker::noop()));
        let (session, mut pooled) = (idle_session(&worker, 1), None);
        assert!(slots.poll(&session, &mut pooled, Time::ZERO, &cx).is_pending());
        assert!(slots.hand_over(job(1, 80)).is_ok());
        assert!(matches!(slots.poll(&session, &mut pooled, Time::ZERO, &cx), Poll::Ready(SlotEvent::Job(_))));
        assert!(!slots.evict(), "the owner may wait for its write before it polls again");
        assert!(slots.poll(&session, &mut pooled, Time::ZERO, &cx).is_pending());
        assert!(slots.evict(), "idle again");
    }

    #[test]
    fn an_idle_connection_is_evicted_by_a_job_for_another_port() {
        let worker = worker();
        let (slots, cx) = (TaskSlots::new(&worker), Context::from_waker(Waker::noop()));
        let (session, mut pooled) = (idle_session(&worker, 1), None);
        assert!(slots.poll(&session, &mut pooled, Time::ZERO, &cx).is_pending());
        assert!(slots.hand_over(job(1, 81)).is_err());
        let event = slots.poll(&session, &mut pooled, Time::ZERO, &cx);
        assert!(matches!(event, Poll::Ready(SlotEvent::Evicted)));
        assert!(!slots.evict(), "it is already being evicted");
    }

    #[test]
    fn the_least_recently_used_connection_is_evicted_at_the_limit() {
        let worker = worker();
        let (slots, cx) = (TaskSlots::new(&worker), Context::from_waker(Waker::noop()));
        // With one fetch at a time there is room for 256 idle connections.
        let mut sessions: Vec<_> = (0..257).map(|lane| (idle_session(&worker, lane), None)).collect();
        for (session, pooled) in &mut sessions {
            assert!(slots.poll(session, pooled, Time::ZERO, &cx).is_pending());
        }
        let evicted =
            sessions.iter_mut().map(|(session, pooled)| slots.poll(session, pooled, Time::ZERO, &cx).is_ready());
        assert_eq!(evicted.collect::<Vec<_>>(), (0..257).map(|lane| lane == 0).collect::<Vec<_>>());
    }

    #[test]
    fn workers_share_one_limit_of_idle_connections() {
        let (busy, other) = (worker(), worker());
        let other = Worker { idle_limit: busy.idle_limit.clone(), ..other };
        let (busy_slots, other_slots) = (TaskSlots::new(&busy), TaskSlots::new(&other));
        let cx = Context::from_waker(Waker::noop());
        let add_sessions = |slots: &TaskSlots, worker: &Worker, lanes: std::ops::Range<u32>| -> Vec<_> {
            let mut sessions: Vec<_> = lanes.map(|lane| (idle_session(worker, lane), None)).collect();
            for (session, pooled) in &mut sessions {
                assert!(slots.poll(session, pooled, Time::ZERO, &cx).is_pending());
            }
            sessions
        };
        let _kept = add_sessions(&busy_slots, &busy, 0..200);
        let mut sessions = add_sessions(&other_slots, &other, 0..60);
        let evicted = sessions.iter_mut().filter_map(|(session, pooled)| {
            other_slots.poll(session, pooled, Time::ZERO, &cx).is_ready().then(|| other_slots.remove(pooled))
        });
        assert_eq!(evicted.count(), 4, "256 in total");
        assert!(busy.idle_limit.is_full());
        drop((busy_slots, other_slots));
        assert_eq!(busy.idle_limit.bytes(), 0);
    }

    #[test]
    fn no_connection_is_kept_while_file_descriptors_are_short() {
        let worker = worker();
        let (slots, cx) = (TaskSlots::new(&worker), Context::from_waker(Waker::noop()));
        let (kept, mut pooled) = (idle_session(&worker, 1), None);
        assert!(slots.poll(&kept, &mut pooled, Time::ZERO, &cx).is_pending());
        worker.report_file_shortage(Time::ZERO);
        slots.evict_if_short(Time::ZERO);
        assert!(matches!(slots.poll(&kept, &mut pooled, Time::ZERO, &cx), Poll::Ready(SlotEvent::Evicted)));
        let (late, mut pooled) = (idle_session(&worker, 2), None);
        assert!(matches!(slots.poll(&late, &mut pooled, Time::ZERO, &cx), Poll::Ready(SlotEvent::Evicted)));
    }
}
