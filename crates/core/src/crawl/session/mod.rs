//! [`Session`]: one connection to a host and the jobs it carries. Engines drive sessions.
//!
//! An engine owns a socket per session and repeats these steps. The session handles HTTP, TLS and proxies:
//!
//! 1. Drain [`Session::finished`]: a visit goes to the keeper, a job to retry gets a new connection.
//! 2. Call [`Session::step`] and do what it returns: write these bytes and report how many were written (`wrote`); or
//!    wait until the socket is readable and pass on what was read (`feed`, `closed`); or pause, then `resume`; or close
//!    the socket.
//! 3. When [`Session::deadline`] has passed, call `expire`. Bytes that arrived before the deadline are fed first.
//! 4. While [`Session::free_capacity`] is above zero, hand over further jobs for the same origin ([`Session::accept`]).
//!    This may happen at any time, also while other jobs are in flight.
//!
//! An HTTP/1.1 connection has room for one job while it is idle (keep-alive), and for none while it awaits a response.
//! An HTTP/2 connection has room as long as the server accepts streams. While a TLS handshake decides between the two,
//! jobs are queued. If it selects HTTP/1.1, all jobs but the first are returned to be retried. Engines do not depend on
//! the version.
//!
//! Bytes and deadlines pass through these layers. Each has `feed`, `deadline` and `expire`, because each adds something
//! of its own. They have no common trait: nothing is generic over them, and what they pass on differs.
//!
//! | layer | what `feed` takes, and what it adds | what `deadline` adds |
//! |---|---|---|
//! | `Session` | bytes of the socket, for the state of the connection | how long it may be idle |
//! | `Undecided` | bytes of the handshake; keeps those of the version of HTTP that it selects | |
//! | `Fetch` | bytes of one exchange: catches panics, and yields to other connections | |
//! | `Streams` | bytes of many exchanges, with a budget of memory for each | the earliest of all exchanges |
//! | `H2Conn` | frames, which become events of streams | the rest of a cancelled stream |
//! | `Conn` | the response; before it what `Tls` or `Tunnel` makes of the bytes | the limits of one response |
//! | `Tls`, `Tunnel` | records; the answers of a proxy | the handshake |
//!
//! Invariant: every accepted job comes back exactly once from `finished`, as a visit or as a job to retry.

mod streams;
mod undecided;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::base::job::{Job, LaneHttp, LaneId};
use crate::base::outcome::{ErrorKind, Failure};
use crate::base::time::Time;
use crate::crawl::fetch::{Exchange, Fetch, FetchStart, Finished};
use crate::crawl::rules::{HttpVersion, Rules};
use crate::crawl::visit::Visit;
use crate::http::conn::{Conn, Step, Tunnel};
use crate::http::race::Race;

use streams::Streams;
use undecided::{Decision, Undecided};

/// How long an idle connection waits for its next request before it is closed. Most servers close idle connections
/// after 5 to 75 seconds; if the server closes earlier, the session detects it.
pub const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// How long a session that may not read because of backpressure waits before it checks again.
pub(super) const BACKPRESSURE_POLL: Duration = Duration::from_millis(50);

/// Identifies a connection by lane and slot: a lane has at most one connection per slot.
pub type SlotKey = (LaneId, u32);

/// Flag in the slot number of connections that several jobs of an origin share. The port is in the bits below it, where
/// other connections have the slot of their job.
const SHARED: u32 = 1 << 16;

/// The slot of a job's connection. Jobs that may share a connection use one slot per port, in place of their own.
pub fn slot_key(job: &Job) -> SlotKey {
    let slot = if job.shares_connection() { SHARED | u32::from(job.link.url.port()) } else { u32::from(job.slot) };
    (job.lane, slot)
}

/// What a job and a kept-alive connection of the same lane must have in common.
///
/// The lane identifies the host; together with scheme and port it is the origin. Within one crawl everything else that
/// distinguishes connections follows from the origin: proxy, credentials, trusted certificates, client certificate.
/// Crawls share neither connections nor TLS sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnKey {
    pub https: bool,
    pub port: u16,
    /// The host requires HTTP/1.1: an HTTP/2 connection cannot be used.
    pub is_http1_only: bool,
}

impl ConnKey {
    pub fn of(job: &Job) -> Self {
        let is_http1_only = job.http == LaneHttp::Http1Only;
        Self { https: job.link.url.is_https(), port: job.link.url.port(), is_http1_only }
    }
}

/// The result of a job.
pub enum Completed {
    Visit(Box<Visit>),
    /// Send the request again over a new connection; this does not count as an attempt. The connection was closed
    /// before the response began, or it cannot carry this job.
    Retry(Box<Job>),
}

/// One connection and the jobs it carries. It takes only two machine words, because engines hold many waiting sessions.
pub struct Session(State);

enum State {
    /// HTTP/1.1 with a request in flight.
    Busy(Fetch),
    /// HTTP/1.1 between two requests.
    Idle(Box<Idle>),
    /// The TLS handshake will select the version of HTTP.
    Undecided(Box<Undecided>),
    /// HTTP/2.
    Http2(Box<Streams>),
    Closed,
}

struct Idle {
    conn: Box<Conn>,
    slot: SlotKey,
    key: ConnKey,
    /// When the connection is closed for lack of a request.
    expires: Time,
}

impl Session {
    /// Sends the first request over a new connection to `peer`. `started` is when the worker started the job, before
    /// the connection was opened. On error, returns the visit of the failed job.
    pub fn open(job: Box<Job>, rules: &Arc<Rules>, started: Time, peer: IpAddr, now: Time) -> Result<Self, Box<Visit>> {
        let ip = target_address(&job, rules, peer);
        match new_conn(&job, rules, ip, now) {
            Ok(conn) => {
                let start = FetchStart { started, connected: Some(now) };
                Ok(Self(if offers_http2(&job, rules) {
                    State::Undecided(Box::new(Undecided::new(job, conn, rules, start, now)))
                } else {
                    State::Busy(Fetch::new(job, conn, Arc::clone(rules), start, now))
                }))
            }
            Err(failure) => Err(Box::new(Visit::failed(*job, failure, started, now))),
        }
    }

    /// How many more jobs the connection accepts now.
    pub fn free_capacity(&self) -> usize {
        match &self.0 {
            State::Busy(_) | State::Closed => 0,
            State::Idle(_) => 1,
            State::Undecided(undecided) => undecided.free_capacity(),
            State::Http2(streams) => streams.free_capacity(),
        }
    }

    /// Whether the connection is open and no job is in flight.
    pub fn is_idle(&self) -> bool {
        match &self.0 {
            State::Idle(_) => true,
            State::Http2(streams) => streams.is_idle(),
            State::Busy(_) | State::Undecided(_) | State::Closed => false,
        }
    }

    /// Whether this is an HTTP/2 connection. Bytes that arrive while it is idle are control frames, not an error.
    pub fn is_http2(&self) -> bool {
        matches!(self.0, State::Http2(_))
    }

    /// The slot of the connection; `None` once it is closed.
    pub fn slot(&self) -> Option<SlotKey> {
        match &self.0 {
            State::Busy(fetch) => Some(slot_key(fetch.job())),
            State::Idle(idle) => Some(idle.slot),
            State::Undecided(undecided) => Some(undecided.slot),
            State::Http2(streams) => streams.slot(),
            State::Closed => None,
        }
    }

    /// The key of the connection; `None` once it is closed.
    pub fn key(&self) -> Option<ConnKey> {
        match &self.0 {
            State::Busy(fetch) => Some(ConnKey::of(fetch.job())),
            State::Idle(idle) => Some(idle.key),
            State::Undecided(undecided) => Some(undecided.key),
            State::Http2(streams) => streams.key(),
            State::Closed => None,
        }
    }

    /// Takes on a job for the same [`ConnKey`]. If there is no room, returns the job, to be sent elsewhere. An idle
    /// HTTP/1.1 connection also returns a request that must not be repeated, and closes: such a request needs a new
    /// connection.
    pub fn accept(&mut self, job: Box<Job>, rules: &Arc<Rules>, now: Time) -> Result<(), Box<Job>> {
        let is_same_key = self.key() == Some(ConnKey::of(&job));
        let start = FetchStart { started: now, connected: None };
        match &mut self.0 {
            State::Undecided(undecided) if is_same_key && undecided.free_capacity() > 0 => {
                undecided.accept(job, rules, start);
                return Ok(());
            }
            State::Http2(streams) if is_same_key && streams.free_capacity() > 0 => {
                streams.begin(Exchange::new(job, Arc::clone(rules), start), now);
                return Ok(());
            }
            _ => {}
        }
        match std::mem::replace(&mut self.0, State::Closed) {
            // The server may close the idle connection at the same time. Then the request would have to be repeated.
            State::Idle(_) if !job.link.is_repeatable() => Err(job),
            State::Idle(idle) if is_same_key => {
                self.0 = State::Busy(Fetch::new(job, *idle.conn, Arc::clone(rules), start, now));
                Ok(())
            }
            state => {
                self.0 = state;
                Err(job)
            }
        }
    }

    /// The next completed job. Drain after every input, before the next [`Session::step`].
    pub fn finished(&mut self, now: Time) -> Option<Completed> {
        if let State::Undecided(undecided) = &mut self.0
            && let Some(result) = undecided.next_rejected(now)
        {
            return Some(result);
        }
        self.apply_decision(now);
        let fetch = match &mut self.0 {
            State::Busy(fetch) => fetch,
            State::Http2(streams) => return streams.finished(),
            State::Undecided(_) | State::Idle(_) | State::Closed => return None,
        };
        if fetch.step() != Step::Done {
            return None;
        }
        let State::Busy(fetch) = std::mem::replace(&mut self.0, State::Closed) else { return None };
        let (slot, key) = (slot_key(fetch.job()), ConnKey::of(fetch.job()));
        Some(match fetch.finish(now) {
            Finished::Visit(visit, conn) => {
                if let Some(conn) = conn {
                    self.0 = State::Idle(Box::new(Idle { conn, slot, key, expires: now + KEEP_ALIVE }));
                }
                Completed::Visit(visit)
            }
            Finished::Retry(job) => Completed::Retry(job),
        })
    }

    /// Switches to the protocol that the handshake selected, once all surplus jobs were returned.
    fn apply_decision(&mut self, now: Time) {
        let State::Undecided(undecided) = &self.0 else { return };
        let Some(decision) = undecided.decision() else { return };
        let State::Undecided(undecided) = std::mem::replace(&mut self.0, State::Closed) else { return };
        let Undecided { conn, exchange, queue, rest, slot, key, .. } = *undecided;
        // The failure of the first job was returned: the session stays closed.
        let Some(mut exchange) = exchange else { return };
        if decision == Decision::Http1 {
            exchange.set_http(LaneHttp::Serial);
        }
        self.0 = match decision {
            Decision::Http1 => State::Busy(Fetch::begin(exchange, conn, now)),
            Decision::Http2 => {
                let mut streams = Streams::new(conn, exchange.rules(), (slot, key), now);
                streams.begin(exchange, now);
                for mut exchange in queue {
                    // Its times do not include the wait for the handshake.
                    exchange.restart(now);
                    streams.begin(exchange, now);
                }
                State::Http2(Box::new(streams))
            }
            Decision::Failed => State::Closed,
        };
        if !rest.is_empty() {
            self.feed(&rest, now);
        }
    }

    /// What the connection needs next. `Read` also while idle, because the server may close the connection. `Done`:
    /// close the socket.
    pub fn step(&mut self) -> Step<'_> {
        match &mut self.0 {
            // A response that waited for memory may have received it since the last call of `finished`. The next call
            // returns the visit, so the socket must not be closed yet.
            State::Busy(fetch) => match fetch.step() {
                Step::Done => Step::Pause,
                step => step,
            },
            State::Undecided(undecided) => undecided.conn.step(),
            State::Http2(streams) => streams.step(),
            State::Idle(_) => Step::Read,
            State::Closed => Step::Done,
        }
    }

    /// Reports that this many bytes of [`Step::Write`] were written.
    pub fn wrote(&mut self, count: usize, now: Time) {
        match &mut self.0 {
            State::Busy(fetch) => fetch.wrote(count, now),
            State::Undecided(undecided) => undecided.conn.wrote(count, now),
            State::Http2(streams) => streams.wrote(count, now),
            State::Idle(_) | State::Closed => {}
        }
    }

    /// Processes bytes that were read. An idle HTTP/1.1 connection expects none and is closed.
    pub fn feed(&mut self, bytes: &[u8], now: Time) {
        match &mut self.0 {
            State::Busy(fetch) => fetch.feed(bytes, now),
            State::Undecided(undecided) => undecided.feed(bytes, now),
            State::Http2(streams) => streams.feed(bytes, now),
            State::Idle(_) | State::Closed => self.0 = State::Closed,
        }
    }

    /// The peer closed its side.
    pub fn closed(&mut self, now: Time) {
        match &mut self.0 {
            State::Busy(fetch) => fetch.closed(now),
            State::Undecided(undecided) => undecided.with_exchange(|conn, exchange| conn.closed(now, exchange)),
            State::Http2(streams) => streams.closed(now),
            State::Idle(_) | State::Closed => self.0 = State::Closed,
        }
    }

    /// The socket failed.
    pub fn broke(&mut self, failure: Failure) {
        match &mut self.0 {
            State::Busy(fetch) => fetch.broke(failure),
            State::Undecided(undecided) => undecided.with_exchange(|conn, exchange| conn.broke(failure, exchange)),
            State::Http2(streams) => streams.broke(&failure),
            State::Idle(_) | State::Closed => self.0 = State::Closed,
        }
    }

    /// When to call [`Session::expire`] if no other event comes first.
    pub fn deadline(&self) -> Time {
        match &self.0 {
            State::Busy(fetch) => fetch.deadline(),
            State::Undecided(undecided) => undecided.conn.deadline(),
            State::Http2(streams) => streams.deadline(),
            State::Idle(idle) => idle.expires,
            State::Closed => Time::NEVER,
        }
    }

    pub fn expire(&mut self, now: Time) {
        match &mut self.0 {
            State::Busy(fetch) => fetch.expire(now),
            State::Undecided(undecided) => undecided.with_exchange(|conn, exchange| conn.expire(now, exchange)),
            State::Http2(streams) => streams.expire(now),
            State::Idle(idle) if now < idle.expires => {}
            State::Idle(_) | State::Closed => self.0 = State::Closed,
        }
    }

    /// How long [`Step::Pause`] lasts. Zero if the session only yields to other sessions.
    pub fn pause_duration(&self) -> Duration {
        match &self.0 {
            State::Busy(fetch) if !fetch.is_yielding() => BACKPRESSURE_POLL,
            State::Http2(streams) => streams.pause_duration(),
            _ => Duration::ZERO,
        }
    }

    /// Resumes after a pause, if the memory budget allows it.
    pub fn resume(&mut self, now: Time) {
        // HTTP/2 continues its paused streams in `expire`.
        if let State::Busy(fetch) = &mut self.0 {
            fetch.resume(now);
        }
    }
}

/// The connection attempts for a job: to the host, or to its proxy.
pub fn race(job: &Job, rules: &Rules, started: Time) -> Race {
    let (addresses, port) = match rules.proxies.of(job.link.url.as_ref()) {
        Some(proxy) => (Arc::clone(&proxy.addresses), proxy.port),
        None => (Arc::clone(&job.addresses), job.link.url.port()),
    };
    Race::new(addresses, port, started, rules.connect_timeout)
}

/// The failed visit of a job for which no connection could be opened.
pub fn unconnected_visit(job: Job, rules: &Rules, mut failure: Failure, started: Time, now: Time) -> Box<Visit> {
    if let Some(proxy) = rules.proxies.of(job.link.url.as_ref()) {
        failure.message = format!("the proxy {proxy}: {}", failure.message).into();
    }
    Box::new(Visit::failed(job, failure, started, now))
}

/// The address of the host, for a socket connected to `peer`; `None` if a proxy resolves the name.
fn target_address(job: &Job, rules: &Rules, peer: IpAddr) -> Option<IpAddr> {
    match rules.proxies.of(job.link.url.as_ref()) {
        None => Some(peer),
        Some(proxy) if proxy.resolves() => None,
        // The proxy connects to one address. Each further attempt at the URL uses the next one.
        Some(_) => job.addresses.iter().copied().cycle().nth(usize::from(job.link.tries)),
    }
}

/// Whether a connection for this job may use HTTP/2.
fn offers_http2(job: &Job, rules: &Rules) -> bool {
    let url = job.link.url.as_ref();
    match rules.http {
        HttpVersion::Http1 => false,
        HttpVersion::Auto => job.link.url.is_https() && job.http != LaneHttp::Http1Only,
        // A forwarding proxy gets requests in HTTP/1.1.
        HttpVersion::Http2 => !rules.proxies.of(url).is_some_and(|proxy| proxy.relays(url)),
    }
}

/// The protocol state of a new connection: proxy, TLS with or without a client certificate, or plain text.
fn new_conn(job: &Job, rules: &Arc<Rules>, ip: Option<IpAddr>, now: Time) -> Result<Conn, Failure> {
    let url = &job.link.url;
    let protocols: &[&[u8]] = match rules.http {
        HttpVersion::Http1 => &[],
        HttpVersion::Auto if job.http == LaneHttp::Http1Only => &[b"http/1.1"],
        HttpVersion::Auto => &[b"h2", b"http/1.1"],
        HttpVersion::Http2 => &[b"h2"],
    };
    let conn = if url.is_https() {
        let config = rules
            .tls
            .config(rules.sends_client_certificate_to(url))
            .map_err(|why| Failure::new(ErrorKind::Tls, why))?;
        Conn::tls_offering(protocols, Arc::clone(config), url.host(), Arc::clone(&rules.limits), now)?
    } else {
        Conn::plain(Arc::clone(&rules.limits), now)
    };
    let proxy = rules.proxies.of(url.as_ref());
    let tunnel = proxy.and_then(|proxy| Tunnel::new(proxy, url.as_ref(), ip, now + rules.connect_timeout));
    let mut conn = conn.through(tunnel);
    conn.peer = ip;
    Ok(conn)
}

#[cfg(test)]
mod http2_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::job::Purpose;
    use crate::base::link::Link;
    use crate::base::url::Url;
    use crate::crawl::rules::Config;

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";

    fn rules() -> Arc<Rules> {
        let config = Config { roots: vec!["http://h/".into()], ..Config::default() };
        Arc::new(config.compile(0).unwrap())
    }

    fn job(url: &str) -> Box<Job> {
        let link = Link::root(Url::parse(url).unwrap(), 1);
        Box::new(Job { lane: LaneId(7), slot: 2, ..Job::detached(link, Purpose::Page, [IpAddr::from([192, 0, 2, 1])]) })
    }

    fn open(rules: &Arc<Rules>) -> Session {
        let opened = Session::open(job("http://h/"), rules, Time::ZERO, [192, 0, 2, 1].into(), Time::ZERO);
        opened.unwrap_or_else(|visit| panic!("{:?}", visit.facts.error))
    }

    /// Sends the request, receives [`OK`], and returns the completed job.
    fn exchange(session: &mut Session, now: Time) -> Option<Completed> {
        while let Step::Write(bytes) = session.step() {
            let count = bytes.len();
            session.wrote(count, now);
        }
        session.feed(OK, now);
        session.finished(now)
    }

    #[test]
    fn a_session_is_two_words() {
        assert_eq!(size_of::<Session>(), 2 * size_of::<usize>());
    }

    #[test]
    fn a_connection_has_room_for_one_job_while_it_is_idle() {
        let (rules, now) = (rules(), Time::ZERO);
        let mut session = open(&rules);
        assert_eq!((session.free_capacity(), session.slot()), (0, Some((LaneId(7), 2))));
        assert!(session.accept(job("http://h/2"), &rules, now).is_err(), "HTTP/1.1 carries one request at a time");
        assert!(matches!(exchange(&mut session, now), Some(Completed::Visit(_))));
        assert!(session.finished(now).is_none());
        assert_eq!(session.free_capacity(), 1);
        assert_eq!(session.step(), Step::Read);
        assert!(session.accept(job("http://h:81/"), &rules, now).is_err(), "the connection is for another port");
        assert!(session.accept(job("http://h/2"), &rules, now).is_ok());
        assert!(matches!(exchange(&mut session, now), Some(Completed::Visit(_))));
    }

    #[test]
    fn an_idle_connection_closes_on_timeout_input_close_and_failure() {
        let rules = rules();
        let ends: [fn(&mut Session); 4] = [
            |session| session.expire(session.deadline()),
            |session| session.feed(b"?", Time::ZERO),
            |session| session.closed(Time::ZERO),
            |session| session.broke(Failure::new(ErrorKind::Reset, "")),
        ];
        for end in ends {
            let mut session = open(&rules);
            assert!(exchange(&mut session, Time::ZERO).is_some());
            session.expire(Time::ZERO);
            assert!(session.is_idle());
            end(&mut session);
            assert_eq!((session.free_capacity(), session.slot()), (0, None));
            assert_eq!(session.step(), Step::Done);
        }
    }

    #[test]
    fn a_job_on_a_closed_kept_alive_connection_is_retried() {
        let (rules, now) = (rules(), Time::ZERO);
        let mut session = open(&rules);
        assert!(exchange(&mut session, now).is_some());
        assert!(session.accept(job("http://h/2"), &rules, now).is_ok());
        session.closed(now);
        assert!(matches!(session.finished(now), Some(Completed::Retry(job)) if job.link.url.path() == "/2"));
        assert_eq!(session.step(), Step::Done);
    }

    #[test]
    fn a_page_that_gets_memory_between_two_calls_is_not_lost() {
        let budget = crate::base::budget::Budget::new(1 << 20);
        let config = Config { roots: vec!["http://h/".into()], ..Config::default() };
        let rules = config.compile(0).expect("valid settings").edited(|rules| rules.budget = Arc::clone(&budget));
        let (rules, now) = (Arc::new(rules), Time::ZERO);
        // Another response takes all of the budget, and is the one that may exceed it.
        let mut other = budget.hold();
        other.grow(2 << 20);
        assert!(other.try_overdraft());
        let mut session = open(&rules);
        while let Step::Write(bytes) = session.step() {
            let count = bytes.len();
            session.wrote(count, now);
        }
        let links: String = (0..1_000).map(|number| format!("<a href={number}>")).collect();
        let body = format!("<base href='/{}/'>{links}", "b".repeat(1_000));
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", body.len());
        session.feed(&[head, body].concat().into_bytes(), now);
        // At first the session pauses only to yield; once the body is read, it waits for memory.
        let mut waits_for_memory = false;
        while !waits_for_memory {
            assert!(session.finished(now).is_none(), "a megabyte of links does not fit");
            assert_eq!(session.step(), Step::Pause);
            waits_for_memory = session.pause_duration() > Duration::ZERO;
            session.resume(now);
        }
        assert!(session.finished(now).is_none());
        // The other response was written, and its bytes are released.
        drop(other);
        assert_eq!(session.step(), Step::Pause, "the socket must not be closed before the visit is delivered");
        session.resume(now);
        assert!(matches!(session.finished(now), Some(Completed::Visit(visit)) if visit.findings.links == 1_000));
    }
}
