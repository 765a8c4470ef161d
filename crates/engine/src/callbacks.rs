//! The `callbacks` engine: one thread, many sockets, and a table that says what to call when something happens.
//!
//! Nothing here waits except [`Poller::wait`], and before it [`WakeDelay::delay`], for a moment. Whoever would have to wait
//! writes down what it was doing, in the table, together with the function that goes on from there, and returns. When
//! the kernel says that the socket is ready, or the clock that it is late, that function is called with the token, finds
//! its state in the table, and goes on.
//!
//! This is cheap: a fetch that waits costs its state and nothing else, no stack, no task. The price is paid by the
//! reader. What was one function with local variables is torn into several with a struct between them; the order in
//! which they run is nowhere in the text; and an error has forgotten how the program came here, because the stack
//! above it is always the same: the loop. The `coroutines` engine has the same cost and gives the order back.
//!
//! Invariant: an entry of the table holds all that its fetch is, and exactly one callback that goes on with it.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};

use argiope_core::http::conn::{Conn, Step};
use argiope_core::http::fetch::{Fetch, Finished};
use argiope_core::schedule::job::Job;
use argiope_core::visit::Visit;
use argiope_core::{Race, RaceStep, Time};
use slab::Slab;

use crate::channel::StopMode;
use crate::epoll::{Interest, Poller};
use crate::idle_pool::IdlePool;
use crate::socket::{self, Attempts};
use crate::wake_batcher::{WakeBatcher, WakeDelay};
use crate::worker::{
    ConnKey, IDLE_CHECK_INTERVAL, JOB_BUFFER_CAPACITY, KEEP_ALIVE, READ_BUFFER_SIZE, SHORTAGE_RETRY, SlotKey, Worker,
    pause, slot_key,
};

// anchor: callbacks-run
/// Runs a worker until it is told to end.
pub fn run(worker: Worker) -> io::Result<()> {
    let mut table = Table::new(worker)?;
    table.worker.is_ready();
    let (mut events, mut late, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        // 1. Nothing is left to do but wait. What was found out goes to the keeper first.
        table.worker.visit_sender.send();
        let next = table.alarms.first().map_or(Time::NEVER, |(time, _)| *time);
        if !std::mem::take(&mut table.has_more) {
            table.moment.delay(table.worker.clock, next);
        }
        let timeout = table.worker.clock.until(next);
        let glance = (!table.idle.is_empty()).then_some(IDLE_CHECK_INTERVAL);
        table.poller.wait(&mut events, timeout.into_iter().chain(glance).min())?;

        // 2. Sockets that are ready: go on where each of them stopped.
        for event in events.drain(..) {
            table.call(event.token as usize, Why::Ready);
        }

        // 3. Those that are late.
        let now = table.worker.clock.now();
        late.extend(table.alarms.range(..=(now, usize::MAX)).map(|(_, token)| *token));
        for token in late.drain(..) {
            table.silence(token);
            table.call(token, Why::Late);
        }

        while table.worker.file_shortage.is_active(now) && table.evict_idle() {}

        // 4. New jobs. They come last: an event of step 2 never finds another connection under its token.
        let ending = table.worker.job_queue.take(&mut jobs);
        if ending == Some(StopMode::Now) {
            return Ok(());
        }
        for job in jobs.drain(..) {
            table.start(Box::new(job));
        }
        jobs.shrink_to(JOB_BUFFER_CAPACITY);
        if ending == Some(StopMode::Drain) && table.in_flight == 0 {
            table.worker.visit_sender.send();
            return Ok(());
        }
    }
}
// end: callbacks-run

/// Why a callback is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Begin,
    Ready,
    Late,
}

// anchor: callbacks-entry
/// How a fetch goes on.
type Callback = fn(&mut Table, usize, Why);

struct Entry {
    callback: Callback,
    state: State,
    /// When it wants to be called even if nothing happens; [`Time::NEVER`] where no alarm is set.
    alarm: Time,
}
// end: callbacks-entry

enum State {
    /// Large, and soon over: in a box, so that the others need not be as large.
    Connecting(Box<Connecting>),
    Fetching(Fetching),
    IdleConn(IdleConn),
    /// Only while a callback has the state in its hands.
    Away,
}

struct Connecting {
    job: Box<Job>,
    started: Time,
    race: Race,
    /// Attempts under way, all of them under the token of this entry.
    attempts: Attempts<TcpStream>,
}

struct Fetching {
    stream: TcpStream,
    /// What the kernel was asked about the stream; none while the fetch is paused.
    interest: Option<Interest>,
    fetch: Fetch,
}

/// A connection between two requests.
struct IdleConn {
    stream: TcpStream,
    slot_key: SlotKey,
    conn_key: ConnKey,
    conn: Box<Conn>,
}

struct Table {
    worker: Worker,
    poller: Poller,
    entries: Slab<Entry>,
    alarms: BTreeSet<(Time, usize)>,
    /// Which entry is the connection that rests in a slot_key.
    idle: IdlePool<usize>,
    /// Jobs that have no visit yet.
    in_flight: usize,
    wake_batcher: WakeBatcher,
    moment: WakeDelay,
    /// A read filled the buffer: there is more where that came from.
    has_more: bool,
    buffer: Box<[u8]>,
}

impl Table {
    fn new(worker: Worker) -> io::Result<Self> {
        let poller = Poller::new()?;
        let bell = poller.bell();
        worker.job_queue.set_waker(move || bell.wake());
        let wake_batcher = WakeBatcher::default();
        Ok(Self {
            worker,
            poller,
            entries: Slab::new(),
            alarms: BTreeSet::new(),
            idle: IdlePool::default(),
            in_flight: 0,
            moment: wake_batcher.moment(),
            wake_batcher,
            has_more: false,
            buffer: vec![0; READ_BUFFER_SIZE].into_boxed_slice(),
        })
    }

    /// Calls what an entry has written down for this moment.
    fn call(&mut self, token: usize, why: Why) {
        if let Some(entry) = self.entries.get(token) {
            (entry.callback)(self, token, why);
        }
    }

    /// A job begins: on the connection that rests in its slot_key, where there is one that leads to the same conn_key.
    fn start(&mut self, job: Box<Job>) {
        self.in_flight += 1;
        let now = self.worker.clock.now();
        let kept = self.idle.remove(slot_key(&job)).and_then(|token| Some((token, self.take(token)?)));
        match kept {
            Some((token, State::IdleConn(rest))) if rest.conn_key == ConnKey::of(&job) => {
                let fetch = self.worker.begin_again(job, *rest.conn, now);
                let fetching = Fetching { stream: rest.stream, interest: Some(Interest::Readable), fetch };
                self.put(token, State::Fetching(fetching), Self::drive);
                self.drive(token, Why::Begin);
            }
            kept => {
                if let Some((token, _)) = kept {
                    self.remove(token);
                }
                let entry = Entry { callback: Self::connect, state: State::Away, alarm: Time::NEVER };
                let token = self.entries.insert(entry);
                self.connect_anew(token, job, now);
            }
        }
    }

    fn connect_anew(&mut self, token: usize, job: Box<Job>, started: Time) {
        let race = self.worker.race(&job, started);
        let connecting = Box::new(Connecting { job, started, race, attempts: Attempts::default() });
        self.put(token, State::Connecting(connecting), Self::connect);
        self.connect(token, Why::Begin);
    }

    /// Called when the job begins, when an attempt has ended, and when the next address is due: what it is this time
    /// can only be found out by looking.
    fn connect(&mut self, token: usize, _why: Why) {
        let Some(State::Connecting(mut connecting)) = self.take(token) else { return };
        let now = self.worker.clock.now();
        let Connecting { job, started, race, attempts } = &mut *connecting;
        if let Some((peer, stream)) = attempts.winner(race, now, socket::connected) {
            // The other attempts are closed here, by being dropped.
            return self.connected(token, connecting.job, connecting.started, peer.ip(), stream);
        }
        let wait_until = loop {
            match race.next(now) {
                RaceStep::Connect(address) => match socket::begin_connect(address) {
                    Ok(stream) => match self.poller.add(&stream, token as u64, Interest::Writable) {
                        Ok(()) => attempts.push(address, stream),
                        Err(error) => race.failed(address, socket::connect_failure(address, &error), now),
                    },
                    Err(error) if socket::is_shortage(&error) && attempts.is_empty() => {
                        // Not the host's fault: the race begins anew when a file may be free.
                        let again = if self.evict_idle() { now } else { now + SHORTAGE_RETRY };
                        *started = again;
                        *race = self.worker.race(job, again);
                        self.worker.out_of_files(now);
                    }
                    Err(error) => race.failed(address, socket::connect_failure(address, &error), now),
                },
                RaceStep::Wait(until) => break until,
                RaceStep::Lost(failure) => {
                    let visit = self.worker.lost(connecting.job, failure, connecting.started);
                    self.remove(token);
                    return self.report(visit);
                }
            }
        };
        self.put(token, State::Connecting(connecting), Self::connect);
        self.set_alarm(token, wait_until);
    }

    fn connected(&mut self, token: usize, job: Box<Job>, started: Time, ip: IpAddr, stream: TcpStream) {
        let now = self.worker.clock.now();
        match self.worker.begin(job, started, ip, now) {
            Ok(fetch) => {
                let fetching = Fetching { stream, interest: Some(Interest::Writable), fetch };
                self.put(token, State::Fetching(fetching), Self::drive);
                self.drive(token, Why::Begin);
            }
            Err(visit) => {
                self.remove(token);
                self.report(visit);
            }
        }
    }

    // anchor: callbacks-drive
    /// Does what the fetch wants, as far as that goes without waiting, then leaves word to be called again.
    fn drive(&mut self, token: usize, why: Why) {
        let Some(State::Fetching(mut fetching)) = self.take(token) else { return };
        let now = self.worker.clock.now();
        let Fetching { stream, interest, fetch } = &mut fetching;
        // Readiness is good for one read. What is left is announced again; meanwhile the others have their turn.
        let mut readable = why != Why::Begin && *interest == Some(Interest::Readable);
        let mut late = why == Why::Late;
        let wanted = loop {
            let waits_for = match fetch.step() {
                Step::Write(bytes) => match stream.write(bytes) {
                    Ok(count) => {
                        fetch.wrote(count, now);
                        continue;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Some(Interest::Writable),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => {
                        fetch.broke(socket::broken(&error));
                        continue;
                    }
                },
                Step::Read if !readable => Some(Interest::Readable),
                Step::Read => {
                    match stream.read(&mut self.buffer) {
                        Ok(0) => fetch.closed(now),
                        Ok(count) => {
                            readable = false;
                            self.has_more |= count == READ_BUFFER_SIZE;
                            fetch.feed(&self.buffer[..count], now);
                        }
                        Err(error) if error.kind() == ErrorKind::WouldBlock => readable = false,
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) => fetch.broke(socket::broken(&error)),
                    }
                    continue;
                }
                Step::Pause => None,
                Step::Done => return self.finish(token, fetching),
            };
            if !late {
                break waits_for;
            }
            // Only now: what had come while this thread was busy with another page is not the host's silence.
            late = false;
            fetch.expire(now);
            fetch.resume(now);
        };
        let registered = register(&self.poller, stream, token, interest, wanted);
        if let Err(error) = registered {
            fetch.broke(socket::broken(&error));
            return self.finish(token, fetching);
        }
        let deadline = if wanted.is_none() { fetch.deadline().min(now + pause(fetch)) } else { fetch.deadline() };
        self.put(token, State::Fetching(fetching), Self::drive);
        self.set_alarm(token, deadline);
    }
    // end: callbacks-drive

    /// The fetch is over: its visit goes to the keeper, its connection stays for the next one, or is closed.
    fn finish(&mut self, token: usize, fetching: Fetching) {
        let now = self.worker.clock.now();
        let Fetching { stream, mut interest, fetch } = fetching;
        let (slot_key, conn_key) = (slot_key(fetch.job()), ConnKey::of(fetch.job()));
        match fetch.finish(now) {
            Finished::Visit(visit, conn) => {
                let kept = conn.filter(|_| self.worker.may_keep_idle(now));
                let watched = register(&self.poller, &stream, token, &mut interest, Some(Interest::Readable));
                match (kept, watched) {
                    (Some(conn), Ok(())) => {
                        if self.worker.is_full(self.idle.len()) {
                            self.evict_idle();
                        }
                        let idle = IdleConn { stream, slot_key, conn_key, conn };
                        self.put(token, State::IdleConn(idle), Self::rest);
                        self.set_alarm(token, now + KEEP_ALIVE);
                        self.idle.insert(slot_key, token);
                    }
                    _ => self.remove(token),
                }
                self.report(visit);
            }
            Finished::Again(job) => {
                drop(stream);
                self.connect_anew(token, job, now);
            }
        }
    }

    /// Something happened on a connection that nobody uses: the host closed it, or it has waited long enough.
    fn rest(&mut self, token: usize, _why: Why) {
        if let Some(State::IdleConn(idle)) = self.take(token)
            && self.idle.get(idle.slot_key) == Some(&token)
        {
            self.idle.remove(idle.slot_key);
        }
        self.remove(token);
    }

    fn report(&mut self, visit: Box<Visit>) {
        self.in_flight -= 1;
        self.wake_batcher.note(&visit, self.in_flight, self.worker.clock.now());
        self.worker.visit_sender.push(visit);
    }

    fn take(&mut self, token: usize) -> Option<State> {
        self.entries.get_mut(token).map(|entry| std::mem::replace(&mut entry.state, State::Away))
    }

    fn put(&mut self, token: usize, state: State, callback: Callback) {
        if let Some(entry) = self.entries.get_mut(token) {
            entry.state = state;
            entry.callback = callback;
        }
    }

    fn remove(&mut self, token: usize) {
        self.silence(token);
        self.entries.try_remove(token);
    }

    /// An alarm that rings too early does no harm: the callback looks, and sets it anew. So it is moved only to an
    /// earlier time, and a busy connection, whose deadline moves away with every byte, costs no timer work.
    fn set_alarm(&mut self, token: usize, time: Time) {
        if let Some(entry) = self.entries.get_mut(token)
            && time < entry.alarm
        {
            self.alarms.remove(&(entry.alarm, token));
            self.alarms.insert((time, token));
            entry.alarm = time;
        }
    }

    fn silence(&mut self, token: usize) {
        if let Some(entry) = self.entries.get_mut(token) {
            self.alarms.remove(&(entry.alarm, token));
            entry.alarm = Time::NEVER;
        }
    }

    fn evict_idle(&mut self) -> bool {
        let longest = self.idle.longest(|_| true).and_then(|slot_key| self.idle.remove(slot_key));
        if let Some(token) = longest {
            self.remove(token);
        }
        longest.is_some()
    }
}

/// Asks the kernel about something else than before; nothing to do where it is the same.
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
