//! The `callbacks` engine: one thread, many sockets, and a table with the function to call on the next event of each.
//!
//! Nothing here blocks except [`Poller::wait`] and the short sleep before it that coalesces wake-ups. Code that would
//! have to wait stores its state in the table, together with the function that continues from there, and returns. When
//! the kernel reports that the socket is ready, or a deadline passes, the loop calls that function with the token of the
//! entry. The function finds its state in the table and continues.
//!
//! This is cheap: a waiting fetch takes only its state, without a stack or a task. The drawback is readability. One
//! function with local variables becomes several functions that share a struct. The code does not show the order in
//! which they run, and a stack trace does not show the steps before, because it always starts in the loop. The
//! `coroutines` engine costs the same and keeps the order visible.
//!
//! Invariant: an entry of the table holds the whole state of its connection and exactly one callback that continues it.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use argiope_core::Time;
use argiope_core::base::job::Job;
use argiope_core::crawl::fetcher::StopMode;
use argiope_core::crawl::session::{Completed, Session, SlotKey, slot_key};
use argiope_core::crawl::visit::Visit;
use argiope_core::http::conn::Step;
use slab::Slab;

use crate::connecting::{ConnectStep, Connecting};
use crate::epoll::{Interest, Poller};
use crate::resources::Resources;
use crate::socket;
use crate::worker::{JOB_BUFFER_CAPACITY, READ_BUFFER_SIZE, Worker};

// anchor: callbacks-run
/// Runs a worker until it is told to stop.
pub fn run(worker: Worker) -> io::Result<()> {
    let mut table = Table::new(worker)?;
    table.worker.report_ready();
    let (mut events, mut late_tokens, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        // 1. Everything that can be done without waiting is done. Send the visits to the keeper, then wait.
        table.worker.visit_sender.send();
        let next_alarm = table.alarms.first().map_or(Time::NEVER, |(time, _)| *time);
        let timeout = table.resources.before_wait(next_alarm, std::mem::take(&mut table.has_more));
        table.poller.wait(&mut events, timeout)?;

        // 2. Sockets that are ready: continue where each of them stopped.
        for event in events.drain(..) {
            table.call(event.token as usize, Cause::Ready);
        }

        // 3. Deadlines that have passed.
        let now = table.worker.clock.now();
        late_tokens.extend(table.alarms.range(..=(now, usize::MAX)).map(|(_, token)| *token));
        for token in late_tokens.drain(..) {
            table.clear_alarm(token);
            table.call(token, Cause::Late);
        }
        table.evict_if_short(now);

        // 4. New jobs. They come after step 2, so that a new connection does not get the token of an event that is not
        //    handled yet. (A retry during step 2 can get such a token. The event is then spurious, which is harmless.)
        let stop = table.worker.job_queue.take(&mut jobs);
        if stop == Some(StopMode::Now) {
            return Ok(());
        }
        for job in jobs.drain(..) {
            table.in_flight += 1;
            table.start(Box::new(job));
        }
        jobs.shrink_to(JOB_BUFFER_CAPACITY);
        if stop == Some(StopMode::Drain) && table.in_flight == 0 {
            table.worker.visit_sender.send();
            return Ok(());
        }
    }
}
// end: callbacks-run

/// Why a callback is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The engine calls it directly, without an event.
    Direct,
    /// The socket is ready.
    Ready,
    /// The alarm has passed.
    Late,
}

// anchor: callbacks-entry
/// The function that continues an entry.
type Callback = fn(&mut Table, usize, Cause);

/// One connection.
struct Entry {
    callback: Callback,
    state: State,
    /// When the callback runs even without an event; [`Time::NEVER`] if no alarm is set.
    alarm: Time,
}
// end: callbacks-entry

/// The state of a connection.
enum State {
    /// Boxed to keep the other states small: this state is large, and it does not last long.
    Connecting(Box<Connecting<TcpStream>>),
    Open(Open),
    /// A callback holds the state.
    Taken,
}

/// An established connection.
struct Open {
    stream: TcpStream,
    /// The registered interest of the stream; `None` while the session is paused.
    interest: Option<Interest>,
    session: Session,
    /// The slot under which the connection is in the pool.
    pooled: Option<SlotKey>,
}

/// All connections of one worker. The key of an entry is its epoll token.
struct Table {
    worker: Worker,
    poller: Poller,
    entries: Slab<Entry>,
    /// The alarms of all entries: time and token.
    alarms: BTreeSet<(Time, usize)>,
    /// The limits on connections, and the pool of connections with room for a job. The pool stores tokens.
    resources: Resources<usize>,
    /// Jobs without a visit yet.
    in_flight: usize,
    /// A read filled the buffer, so more bytes are available. The next wait must not sleep.
    has_more: bool,
    buffer: Box<[u8]>,
}

impl Table {
    fn new(worker: Worker) -> io::Result<Self> {
        let poller = Poller::new()?;
        let waker = poller.waker();
        worker.job_queue.set_waker(move || waker.wake());
        Ok(Self {
            resources: Resources::new(&worker),
            worker,
            poller,
            entries: Slab::new(),
            alarms: BTreeSet::new(),
            in_flight: 0,
            has_more: false,
            buffer: vec![0; READ_BUFFER_SIZE].into_boxed_slice(),
        })
    }

    /// Calls the callback of an entry. A token without an entry is ignored.
    fn call(&mut self, token: usize, cause: Cause) {
        if let Some(entry) = self.entries.get(token) {
            (entry.callback)(self, token, cause);
        }
    }

    /// Starts a job on the pooled connection of its slot, if that has the same origin. Otherwise the job waits for the
    /// connection that is being opened in its slot, or gets a new connection.
    fn start(&mut self, mut job: Box<Job>) {
        let now = self.worker.clock.now();
        if let Some(token) = self.resources.pool().remove(slot_key(&job))
            && let Some(Entry { state: State::Open(open), .. }) = self.entries.get_mut(token)
        {
            open.pooled = None;
            match open.session.accept(job, &self.worker.rules, now) {
                Ok(()) => return self.drive(token, Cause::Direct),
                Err(refused) => job = refused,
            }
            // The session refused the job: the job has another origin, or the session has no room or has just closed.
            // Close the connection unless other jobs still use it.
            if open.session.is_idle() || open.session.slot().is_none() {
                self.remove(token);
            }
        }
        let Some(job) = self.resources.wait_for_connection(job) else { return };
        let state = State::Connecting(Box::new(Connecting::new(&self.worker, job, now)));
        let token = self.entries.insert(Entry { callback: Self::connect, state, alarm: Time::NEVER });
        self.connect(token, Cause::Direct);
    }

    /// Called when the job starts, when a connection attempt has ended, and when the next attempt may start.
    /// [`Connecting::step`] detects which of these is the case.
    fn connect(&mut self, token: usize, _cause: Cause) {
        let Some(State::Connecting(mut connecting)) = self.take_state(token) else { return };
        let Self { worker, poller, resources, entries, alarms, .. } = self;
        let open = |address| {
            let stream = socket::begin_connect(address)?;
            poller.add(&stream, token as u64, Interest::Writable)?;
            Ok(stream)
        };
        let evict = || {
            let evicted = resources.evict(|token| is_idle(entries, *token));
            evicted.map(|token| remove(entries, alarms, token)).is_some()
        };
        match connecting.step(worker, open, socket::connected, evict) {
            ConnectStep::Wait(until) => {
                self.put_state(token, State::Connecting(connecting), Self::connect);
                self.set_alarm(token, until);
            }
            ConnectStep::Connected(peer, stream) => {
                let mut waiting = resources.end_connecting(connecting.slot());
                let session = connecting.into_session(worker, peer, &mut waiting);
                match session {
                    Ok(session) => {
                        let open = Open { stream, interest: Some(Interest::Writable), session, pooled: None };
                        self.put_state(token, State::Open(open), Self::drive);
                        self.drive(token, Cause::Direct);
                    }
                    Err(visit) => self.fail(token, vec![visit]),
                }
                waiting.into_iter().for_each(|job| self.start(job));
            }
            ConnectStep::Failed(failure) => {
                let waiting = resources.end_connecting(connecting.slot());
                let visits = connecting.into_failures(worker, &failure, waiting);
                self.fail(token, visits);
            }
        }
    }

    // anchor: callbacks-drive
    /// Does what the session needs, as far as possible without waiting, then arranges to be called again.
    fn drive(&mut self, token: usize, cause: Cause) {
        let Some(State::Open(mut open)) = self.take_state(token) else { return };
        let now = self.worker.clock.now();
        let Open { stream, interest, session, pooled } = &mut open;
        // One read per event. epoll reports the remaining bytes again, and other connections are served in between.
        let mut is_readable = cause != Cause::Direct && *interest == Some(Interest::Readable);
        let mut is_late = cause == Cause::Late;
        let wanted = loop {
            while let Some(completed) = session.finished(now) {
                self.deliver(completed);
            }
            let waits_for = match session.step() {
                Step::Write(bytes) => match stream.write(bytes) {
                    Ok(count) => {
                        session.wrote(count, now);
                        continue;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Some(Interest::Writable),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => {
                        session.broke(socket::io_failure(&error));
                        continue;
                    }
                },
                Step::Read if !is_readable => Some(Interest::Readable),
                Step::Read => {
                    match stream.read(&mut self.buffer) {
                        Ok(0) => session.closed(now),
                        Ok(count) => {
                            is_readable = false;
                            self.has_more |= count == READ_BUFFER_SIZE;
                            session.feed(&self.buffer[..count], now);
                        }
                        Err(error) if error.kind() == ErrorKind::WouldBlock => is_readable = false,
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) => session.broke(socket::io_failure(&error)),
                    }
                    continue;
                }
                Step::Pause => None,
                Step::Done => return self.close(token, *pooled),
            };
            if !is_late {
                break waits_for;
            }
            // Check the deadline only after reading: bytes that arrived while this thread was busy with another page
            // must not count as a timeout.
            is_late = false;
            session.expire(now);
            session.resume(now);
        };
        if let Err(error) = register(&self.poller, stream, token, interest, wanted) {
            session.broke(socket::io_failure(&error));
            return self.drive_again(token, open);
        }
        let deadline = session.deadline();
        let deadline = if wanted.is_none() { deadline.min(now + session.pause_duration()) } else { deadline };
        if !self.update_pool(token, session, pooled, now) {
            return self.close(token, *pooled);
        }
        self.put_state(token, State::Open(open), Self::drive);
        self.set_alarm(token, deadline);
    }
    // end: callbacks-drive

    /// Continues a session whose socket can no longer be registered.
    fn drive_again(&mut self, token: usize, open: Open) {
        self.put_state(token, State::Open(open), Self::drive);
        self.drive(token, Cause::Direct);
    }

    /// Adds a session with room to the pool, or removes one without room. Returns whether the connection stays open.
    fn update_pool(&mut self, token: usize, session: &Session, pooled: &mut Option<SlotKey>, now: Time) -> bool {
        if session.free_capacity() == 0 {
            if let Some(slot) = pooled.take() {
                self.resources.pool().remove(slot);
            }
            return true;
        }
        // Nothing to add: the session is in the pool already, or it is closed and has no slot.
        let Some(slot) = session.slot().filter(|_| pooled.is_none()) else { return pooled.is_some() };
        let Self { resources, entries, alarms, .. } = self;
        match resources.keep(slot, token, now, |token| is_idle(entries, *token)) {
            Ok(evicted) => {
                evicted.into_iter().for_each(|token| remove(entries, alarms, token));
                *pooled = Some(slot);
                true
            }
            // The pool does not accept the connection: it stays open while it has jobs.
            Err(_) => !session.is_idle(),
        }
    }

    /// Sends a visit to the keeper, or starts a job again.
    fn deliver(&mut self, completed: Completed) {
        match completed {
            Completed::Visit(visit) => self.report(visit),
            Completed::Retry(job) => self.start(job),
        }
    }

    fn report(&mut self, visit: Box<Visit>) {
        self.in_flight -= 1;
        self.resources.record_fetch(&visit, self.in_flight);
        self.worker.visit_sender.push(visit);
    }

    /// Removes an entry whose connection could not be opened, and reports its visits.
    fn fail(&mut self, token: usize, visits: Vec<Box<Visit>>) {
        self.remove(token);
        visits.into_iter().for_each(|visit| self.report(visit));
    }

    /// Removes an entry, also from the pool. The socket is closed when the caller drops it.
    fn close(&mut self, token: usize, pooled: Option<SlotKey>) {
        if let Some(slot) = pooled {
            self.resources.pool().remove(slot);
        }
        self.remove(token);
    }

    /// Takes the state out of an entry, for the time of a callback. [`Self::put_state`] stores it again.
    fn take_state(&mut self, token: usize) -> Option<State> {
        self.entries.get_mut(token).map(|entry| std::mem::replace(&mut entry.state, State::Taken))
    }

    fn put_state(&mut self, token: usize, state: State, callback: Callback) {
        if let Some(entry) = self.entries.get_mut(token) {
            entry.state = state;
            entry.callback = callback;
        }
    }

    fn remove(&mut self, token: usize) {
        remove(&mut self.entries, &mut self.alarms, token);
    }

    /// Sets the alarm of an entry, or moves it to an earlier time. It is never moved to a later time. An early alarm is
    /// harmless, because the callback checks the deadline and sets the alarm again. So a busy connection, whose
    /// deadline moves with every byte, needs no timer work.
    fn set_alarm(&mut self, token: usize, time: Time) {
        if let Some(entry) = self.entries.get_mut(token)
            && time < entry.alarm
        {
            self.alarms.remove(&(entry.alarm, token));
            self.alarms.insert((time, token));
            entry.alarm = time;
        }
    }

    fn clear_alarm(&mut self, token: usize) {
        if let Some(entry) = self.entries.get_mut(token) {
            self.alarms.remove(&(entry.alarm, token));
            entry.alarm = Time::NEVER;
        }
    }

    /// Closes idle connections while file descriptors are short: another worker may need them.
    fn evict_if_short(&mut self, now: Time) {
        let Self { resources, entries, alarms, .. } = self;
        while let Some(token) = resources.evict_if_short(now, |token| is_idle(entries, *token)) {
            remove(entries, alarms, token);
        }
    }
}

/// Whether a connection may be evicted.
fn is_idle(entries: &Slab<Entry>, token: usize) -> bool {
    matches!(entries.get(token), Some(Entry { state: State::Open(open), .. }) if open.session.is_idle())
}

/// Removes an entry with its alarm and its socket.
fn remove(entries: &mut Slab<Entry>, alarms: &mut BTreeSet<(Time, usize)>, token: usize) {
    if let Some(entry) = entries.try_remove(token) {
        alarms.remove(&(entry.alarm, token));
    }
}

/// Registers the wanted event of a stream with the kernel, if it has changed.
fn register(
    poller: &Poller,
    stream: &TcpStream,
    token: usize,
    current: &mut Option<Interest>,
    wanted: Option<Interest>,
) -> io::Result<()> {
    if *current != wanted {
        match (*current, wanted) {
            (Some(_), Some(interest)) => poller.modify(stream, token as u64, interest)?,
            (None, Some(interest)) => poller.add(stream, token as u64, interest)?,
            (_, None) => poller.remove(stream)?,
        }
        *current = wanted;
    }
    Ok(())
}
