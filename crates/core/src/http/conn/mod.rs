//! [`Conn`]: one connection without its socket, with TLS and HTTP/1.1 inside.
//!
//! Whoever waits asks [`Conn::step`] what is needed next, does it, and says so: `wrote`, `feed`, `closed`, `broke`,
//! `expire`. What the answer brings goes to a [`Receiver`], piece by piece, as slices of what was fed.
//!
//! ```
//! use argiope_core::Time;
//! use argiope_core::http::conn::{Conn, Head, Limits, Receiver, Step, Want};
//!
//! struct Page(Vec<u8>);
//!
//! impl Receiver for Page {
//!     fn head(&mut self, head: &Head, _now: Time) -> Want {
//!         if head.status == 200 { Want::Body } else { Want::Nothing }
//!     }
//!     fn wire(&mut self, _raw: &[u8]) {}
//!     fn body(&mut self, decoded: &[u8]) {
//!         self.0.extend_from_slice(decoded);
//!     }
//! }
//!
//! let (now, limits) = (Time::ZERO, Limits::default());
//! let (deadline, mut page) = (now + limits.total, Page(Vec::new()));
//! let mut conn = Conn::plain(limits.into(), now);
//! conn.ask(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".to_vec(), deadline, now);
//! let mut socket = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".chunks(7);
//! loop {
//!     match conn.step() {
//!         Step::Write(bytes) => {
//!             let written = bytes.len(); // to the socket, as many as it takes
//!             conn.wrote(written, now);
//!         }
//!         Step::Read => match socket.next() {
//!             Some(bytes) => conn.feed(bytes, now, &mut page),
//!             None => conn.closed(now, &mut page),
//!         },
//!         Step::Pause | Step::Done => break,
//!     }
//! }
//! assert!(conn.end().reusable);
//! assert_eq!(page.0, b"hello");
//! ```
//!
//! Invariant: no bytes from outside make a `Conn` panic, wait without a deadline or keep more than its [`Limits`]
//! allow; and however the bytes of an answer are cut into reads, the result is the same.

mod answer;
mod coding;
mod deadline;
mod framing;
mod head;
mod limits;
pub mod request;
mod tls;
mod tunnel;

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use crate::outcome::{ErrorKind, Failure, Truncated};
use crate::time::Time;

use answer::DECODE_SLICE;
#[cfg(test)]
pub(crate) use answer::MAX_DRAIN;
pub use coding::Oddities;
#[cfg(test)]
pub(crate) use coding::ZSTD_WINDOW_LOG;
pub use head::{Head, Version};
pub use limits::Limits;
#[cfg(test)]
pub(crate) use tls::MAX_INTERMEDIATES;
pub use tls::certificate::CertificateSummary;
pub use tls::trust::{ClientIdentity, ClientIdentityError, TimeOfDay, TlsConfigs, TlsSource, Trust, authorities};
pub use tls::{TlsConfig, TlsInfo};
#[cfg(test)]
pub(crate) use tunnel::MAX_PROXY_HEAD;
pub use tunnel::Tunnel;
pub(crate) use tunnel::refused as refused_by_proxy;

use answer::too_slow;
use coding::Decoder;
use deadline::{Expired, ReadDeadlines};
use framing::BodyFraming;
use tls::Tls;

/// Who takes in an answer.
pub trait Receiver {
    /// The head of the final answer is there. Is its body wanted?
    fn head(&mut self, head: &Head, now: Time) -> Want;

    /// Bytes of the answer exactly as received, after TLS: head, framing and body. Interim (1xx) heads, and what
    /// comes after the answer, are no part of it.
    fn wire(&mut self, raw: &[u8]);

    /// Bytes of the body, decoded.
    fn body(&mut self, decoded: &[u8]);

    /// For those who unpack the body themselves: how many bytes they made of it so far.
    fn unpacked(&self) -> Option<u64> {
        None
    }
}

/// Is a body wanted?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    Body,
    /// It is, up to so many bytes in place of the usual limit: some files are larger than pages.
    UpTo(u64),
    /// It is thrown away: read where that is cheap and saves the connection, otherwise not even read.
    Nothing,
}

/// What a connection needs next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Write these bytes, or some of them, and tell `wrote`.
    Write(&'a [u8]),
    /// Wait for bytes, and `feed` them.
    Read,
    /// Do not read for now: see [`Conn::hold`].
    Pause,
    /// Nothing: the exchange is over (ask `end` for its result), or none was begun.
    Done,
}

/// How an exchange ended.
///
/// No failure: the answer is whole. A failure and `truncated`: there is an answer, its body was kept up to there. A
/// failure alone: there is no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeEnd {
    pub failure: Option<Failure>,
    pub truncated: Option<Truncated>,
    /// The whole answer as received, head and framing included, after TLS.
    pub bytes_wire: u64,
    /// The body, decoded.
    pub bytes_body: u64,
    /// May the next request go over this connection?
    pub reusable: bool,
    /// A kept-alive connection turned out to be of no use before its answer began: ask again on a new one.
    pub stale: bool,
    /// When the first byte came.
    pub ttfb: Option<Time>,
    /// When the TLS handshake was over (which may be before this exchange began).
    pub tls_done: Option<Time>,
    pub oddities: Oddities,
}

/// One connection without its socket.
///
/// # The state machine
///
/// ```text
///         ask            1xx
///          |            +---+
///          v            |   v
/// Idle --------------> Head ------> Body -----> Done
///  ^                    |                        ^ |
///  |                    +--- no body, failure ---+ |
///  +------------------------ end ------------------+
/// ```
///
/// The server moves `Head` to `Body` to `Done` by what it sends; only `ask` leaves `Idle`, only `end` leaves `Done`.
/// Everything that goes wrong calls `stop`, which goes to `Done` from anywhere and stays there: the first failure is
/// the one that counts, later events change nothing but `spoiled`. A TLS handshake is no phase: it is more writing
/// and reading under `Head` (or under `Idle`, for whoever wants to shake hands early). So is what is said to a proxy
/// before it makes the connection.
///
/// Whether the connection may be used again is two flags: `keep` is what head and framing promised, `spoiled` that
/// something came, or the peer went, when nothing was due.
pub struct Conn {
    /// Whom it leads to, where that is known.
    pub peer: Option<IpAddr>,
    limits: Arc<Limits>,
    tls: Option<Box<Tls>>,
    /// What is still to be agreed with a proxy, before anything else.
    tunnel: Option<Box<Tunnel>>,
    /// What is not written yet of the request; with TLS it waits inside the session instead.
    out: Vec<u8>,
    /// The beginning of a head that was cut between two reads. Few are: most connections wait without it.
    partial: Option<Box<Partial>>,
    phase: Phase,
    usage: Usage,
    decoder: Option<Box<Decoder>>,
    clock: ReadDeadlines,
    first_byte: Time,
    bytes_wire: u64,
    bytes_body: u64,
    /// Bytes of the body before decoding, without framing.
    payload: u64,
    /// The limit on this body, where it is not the usual one.
    up_to: Option<NonZeroU64>,
    failure: Option<Box<Failure>>,
    truncated: Option<Truncated>,
    oddities: Oddities,
    /// Interim answers so far.
    interim: u8,
    /// Is the request still on its way out?
    sending: bool,
    /// Since when it is held; never, where it is not.
    held: Time,
    keep: bool,
    spoiled: bool,
    /// Is this not the first exchange?
    reused: bool,
    stale: bool,
}

/// The beginning of a head.
#[derive(Default)]
struct Partial {
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Head,
    Body(BodyFraming),
    Done,
}

/// What happens to the bytes of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    /// They are decoded and handed on.
    Decode,
    /// They cannot be decoded: only `wire` sees them.
    Raw,
    /// They are not wanted.
    Drop,
}

impl Conn {
    /// A connection in plain text.
    pub fn plain(limits: Arc<Limits>, now: Time) -> Self {
        Self {
            peer: None,
            limits,
            tls: None,
            tunnel: None,
            out: Vec::new(),
            partial: None,
            phase: Phase::Idle,
            usage: Usage::Decode,
            decoder: None,
            clock: ReadDeadlines::new(Time::NEVER, now),
            first_byte: Time::NEVER,
            bytes_wire: 0,
            bytes_body: 0,
            payload: 0,
            up_to: None,
            failure: None,
            truncated: None,
            oddities: Oddities::default(),
            interim: 0,
            sending: false,
            held: Time::NEVER,
            keep: false,
            spoiled: false,
            reused: false,
            stale: false,
        }
    }

    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Begins an exchange, on a fresh connection or on one whose last exchange ended `reusable`.
    pub fn ask(&mut self, request: Vec<u8>, deadline_total: Time, now: Time) {
        self.clock = ReadDeadlines::new(deadline_total, now);
        if self.phase == Phase::Done {
            // The handshake has failed already.
            return;
        }
        self.phase = Phase::Head;
        self.sending = true;
        match &mut self.tls {
            Some(tls) => tls.send(&request),
            None => self.out = request,
        }
        if self.spoiled {
            let failure = Failure::new(ErrorKind::Reset, "the kept connection was closed or spoiled while it waited");
            self.stale = self.reused;
            self.stop(Some(failure), None);
        }
    }

    /// What is needed next.
    pub fn step(&self) -> Step<'_> {
        let pending = match (&self.tunnel, &self.tls) {
            (Some(tunnel), _) => tunnel.pending(),
            (None, Some(tls)) => tls.pending(),
            (None, None) => &self.out,
        };
        match self.phase {
            Phase::Done => Step::Done,
            _ if !pending.is_empty() => Step::Write(pending),
            Phase::Idle if !self.is_handshaking() => Step::Done,
            Phase::Body(_) if self.is_held() => Step::Pause,
            Phase::Idle | Phase::Head | Phase::Body(_) => Step::Read,
        }
    }

    /// So many of the bytes of [`Step::Write`] were written.
    pub fn wrote(&mut self, bytes: usize, now: Time) {
        if let Some(tunnel) = &mut self.tunnel {
            return tunnel.wrote(bytes);
        }
        match &mut self.tls {
            Some(tls) => tls.wrote(bytes),
            None => {
                if bytes >= self.out.len() {
                    self.out = Vec::new();
                } else {
                    self.out.drain(..bytes);
                }
            }
        }
        self.note_sent(now);
    }

    /// While held, a connection in its body says [`Step::Pause`], and its idle and rate clocks stand still. For those
    /// who have no room for more bytes just now. The total clock goes on.
    pub fn hold(&mut self, held: bool, now: Time) {
        match (self.is_held(), held) {
            (false, true) => self.held = now,
            (true, false) => {
                if matches!(self.phase, Phase::Body(_)) {
                    self.clock.stood_still(self.held, now);
                }
                self.held = Time::NEVER;
            }
            (true, true) | (false, false) => {}
        }
    }

    fn is_held(&self) -> bool {
        !self.held.is_never()
    }

    /// These bytes were read from the socket.
    pub fn feed(&mut self, bytes: &[u8], now: Time, into: &mut dyn Receiver) {
        let mut rest = bytes;
        loop {
            let used = self.feed_some(rest, now, into);
            rest = rest.get(used..).unwrap_or_default();
            if rest.is_empty() && !self.has_more() {
                return;
            }
        }
    }

    /// The same, but no further than to where the body has unpacked to much: a few bytes may become millions, and others
    /// are waiting. Says how many bytes were taken; the others are to be fed again, and so is nothing at all where
    /// [`Conn::has_more`] says so.
    pub fn feed_some(&mut self, bytes: &[u8], now: Time, into: &mut dyn Receiver) -> usize {
        if let Some(tunnel) = &mut self.tunnel {
            match tunnel.feed(bytes) {
                Ok(None) => {}
                Ok(Some(rest)) => {
                    self.tunnel = None;
                    self.clock.restart(now);
                    if let Some(tls) = &mut self.tls {
                        tls.set_deadline(now + self.limits.connect);
                    }
                    if !rest.is_empty() {
                        self.feed(&rest, now, into);
                    }
                }
                Err(failure) => self.cut(failure),
            }
            return bytes.len();
        }
        let until = self.made(into) + DECODE_SLICE;
        self.unpack_more(until, into);
        match self.tls.take() {
            None => self.answer(bytes, until, now, into),
            Some(mut tls) => {
                let used = self.decrypt(&mut tls, bytes, until, now, into);
                let closed = tls.is_closed_cleanly();
                self.tls = Some(tls);
                self.note_sent(now);
                match used {
                    Err(failure) => self.cut(failure),
                    Ok(used) if used < bytes.len() || self.has_more() => return used,
                    Ok(_) if closed => self.ended(true, into),
                    Ok(_) => {}
                }
                bytes.len()
            }
        }
    }

    /// Whether there is more to unpack of what was fed already.
    pub fn has_more(&mut self) -> bool {
        self.has_more_to_unpack() || self.tls.as_mut().is_some_and(|tls| tls.plaintext().is_some())
    }

    /// The peer closed its side: no more bytes will come.
    pub fn closed(&mut self, _now: Time, into: &mut dyn Receiver) {
        if self.is_handshaking() && self.phase != Phase::Done {
            let words = if self.tunnel.is_some() {
                "the proxy closed the connection before it had made ours"
            } else {
                "the server closed the connection during the TLS handshake"
            };
            self.stop(Some(Failure::new(ErrorKind::Reset, words)), None);
        }
        self.ended(!self.is_tls(), into);
    }

    /// The socket failed.
    pub fn broke(&mut self, failure: Failure, _into: &mut dyn Receiver) {
        self.cut(failure);
    }

    /// When to call `expire`, if nothing else happens until then.
    pub fn deadline(&self) -> Time {
        if let (Some(tunnel), true) = (&self.tunnel, self.phase != Phase::Done) {
            return self.clock.total().min(tunnel.deadline);
        }
        match (self.phase, &self.tls) {
            (Phase::Done, _) => Time::NEVER,
            (_, Some(tls)) if tls.is_handshaking() => self.clock.total().min(tls.deadline()),
            (Phase::Idle, _) => Time::NEVER,
            (Phase::Head, _) => self.clock.head(&self.limits),
            (Phase::Body(_), _) if self.is_held() => self.clock.total(),
            (Phase::Body(_), _) => self.clock.body(&self.limits),
        }
    }

    /// Time has passed. Nothing happens where the deadline is not reached.
    pub fn expire(&mut self, now: Time, _into: &mut dyn Receiver) {
        if now < self.deadline() {
            return;
        }
        let limits = &self.limits;
        let in_body = matches!(self.phase, Phase::Body(_));
        let expired = if self.is_handshaking() {
            (self.clock.total() <= now).then_some(Expired::Total)
        } else if in_body && self.is_held() {
            Some(Expired::Total)
        } else if in_body {
            self.clock.body_expired(now, limits)
        } else {
            self.clock.head_expired(now, limits)
        };
        let (kind, words) = match expired {
            Some(Expired::Total) => (ErrorKind::TimeoutTotal, format!("not over after {:?}", limits.total)),
            Some(Expired::Slow) => return self.stop(too_slow(limits), Some(Truncated::Time)),
            Some(Expired::Idle) if in_body => (ErrorKind::TimeoutIdle, format!("nothing came for {:?}", limits.idle)),
            Some(Expired::Idle) => (ErrorKind::TimeoutFirstByte, format!("no whole head after {:?}", limits.idle)),
            None if self.tunnel.is_some() => {
                (ErrorKind::ConnectTimeout, format!("the proxy made no connection within {:?}", limits.connect))
            }
            None => (ErrorKind::ConnectTimeout, format!("TLS handshake not over after {:?}", limits.connect)),
        };
        let failure = Failure::new(kind, words);
        if in_body {
            self.stop(Some(failure), Some(Truncated::Time));
        } else {
            self.lose_head(failure);
            // A server that keeps silent is not a connection that is gone.
            self.stale = false;
        }
    }

    /// After [`Step::Done`]: how the exchange ended. The connection is ready for the next `ask`, if it is `reusable`.
    pub fn end(&mut self) -> ExchangeEnd {
        let tls_done = self.tls.as_ref().and_then(|tls| tls.done());
        let idle = !self.sending && self.phase == Phase::Done;
        let end = ExchangeEnd {
            failure: self.failure.take().map(|failure| *failure),
            truncated: self.truncated.take(),
            bytes_wire: std::mem::take(&mut self.bytes_wire),
            bytes_body: std::mem::take(&mut self.bytes_body),
            reusable: self.keep && !self.spoiled && idle,
            stale: std::mem::take(&mut self.stale),
            ttfb: (!self.first_byte.is_never()).then_some(self.first_byte),
            tls_done,
            oddities: std::mem::take(&mut self.oddities),
        };
        self.phase = Phase::Idle;
        self.usage = Usage::Decode;
        self.first_byte = Time::NEVER;
        self.payload = 0;
        self.interim = 0;
        self.held = Time::NEVER;
        self.keep = false;
        self.reused = true;
        self.spoiled |= !end.reusable;
        end
    }

    /// Bytes on the heap that this connection keeps while it waits. What a TLS session or a decoder keeps inside itself
    /// is not known here.
    pub fn heap_bytes(&self) -> usize {
        let tls = self.tls.as_ref().map_or(0, |tls| size_of_val(&**tls) + tls.pending().len());
        let decoder = self.decoder.as_ref().map_or(0, |decoder| decoder.heap_bytes());
        let partial = self.partial.as_ref().map_or(0, |partial| size_of::<Partial>() + partial.bytes.capacity());
        self.out.capacity() + partial + tls + decoder
    }

    fn is_handshaking(&self) -> bool {
        self.tunnel.is_some() || self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Once the request is out, the server's time begins.
    fn note_sent(&mut self, now: Time) {
        let pending = match &self.tls {
            _ if self.tunnel.is_some() => true,
            Some(tls) => tls.is_handshaking() || !tls.pending().is_empty(),
            None => !self.out.is_empty(),
        };
        if self.sending && !pending {
            self.sending = false;
            if self.phase == Phase::Head {
                self.clock.restart(now);
            }
        }
    }

    /// Says how many bytes were taken.
    fn decrypt(
        &mut self,
        tls: &mut Tls,
        ciphertext: &[u8],
        until: u64,
        now: Time,
        into: &mut dyn Receiver,
    ) -> Result<usize, Failure> {
        let mut bytes = ciphertext;
        loop {
            while let Some(plaintext) = tls.plaintext() {
                let (len, used) = (plaintext.len(), self.answer(plaintext, until, now, into));
                tls.consume(used);
                if used < len {
                    return Ok(ciphertext.len() - bytes.len());
                }
            }
            // What was decrypted before a failure has been taken in: records are read one by one.
            if bytes.is_empty() || !tls.read(&mut bytes)? {
                return Ok(ciphertext.len());
            }
            if tls.note_done(now) {
                self.clock.restart(now);
            }
        }
    }
}
