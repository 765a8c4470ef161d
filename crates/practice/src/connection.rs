//! One client connection: parses requests, looks up the response and sends it step by step.
//!
//! A connection is a small state machine. Its thread calls it when bytes have arrived, when the socket is writable
//! again, or when its timer has expired. It does as much as it can without blocking, and then says what it waits for:
//! `wake` (a time), `blocked` (a writable socket), or neither (bytes from the client). While it waits for a timer it
//! owns no buffer, because generated pages are rendered only when they are due. A client that closes its side is
//! treated as disconnected, even in the middle of a response.
//!
//! Invariant: `begin` logs the start of a request, and its end is logged exactly once: by `play`, or on drop.

use crate::filler;
use crate::graph::{Graph, PageId, PageKind, ROBOTS};
use crate::http2::{self, HandedOver};
use crate::log::{HostState, LogIndex, RequestLog};
use crate::request::{ParsedHead, Request, parse};
use crate::script::{Script, Step};
use crate::site::{ResponseSource, SiteContent};
use crate::web::WebState;
use crate::wire::{ClientStream, Handshake, Received};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Limit on unprocessed input: an incomplete request head, or further requests while a response is in progress. Above
/// it, the connection is closed.
const MAX_INPUT: usize = 1 << 20;

/// Limit on bytes sent per call, so that other connections of the thread do not wait until a large page is sent.
const MAX_BYTES_PER_TURN: usize = 1 << 20;

/// State of the thread that a connection borrows for one call. `buffer` receives bytes; pages are rendered into `page`.
pub(crate) struct ConnectionContext<'a> {
    pub(crate) shared: &'a WebState,
    pub(crate) now: Instant,
    pub(crate) buffer: &'a mut [u8],
    pub(crate) page: &'a mut Vec<u8>,
}

/// What the thread does with the connection next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    Keep,
    Drop,
    /// The client speaks HTTP/2: see [`ClientConnection::hand_over`].
    HandOver,
}

/// One client connection.
pub(crate) struct ClientConnection {
    /// `None` after it was handed over.
    wire: Option<ClientStream>,
    id: u64,
    site: usize,
    input: Vec<u8>,
    play: Option<Playback>,
    /// The counters of the host of the last request. The next request is usually for the same host.
    host: Option<Arc<HostState>>,
    log: Arc<RequestLog>,
    /// When to be called again.
    pub(crate) wake: Option<Instant>,
    /// Call again when the socket is writable.
    pub(crate) blocked: bool,
}

/// A response in progress.
struct Playback {
    source: Source,
    step: usize,
    /// Bytes of this step already sent.
    at: u64,
    /// Whether the timer of this step has expired.
    timer_expired: bool,
    /// Close after this response, because the client asked for it.
    last: bool,
    host: Arc<HostState>,
    entry: LogIndex,
}

/// Where the steps of a response come from.
pub(crate) enum Source {
    /// All steps of a script.
    Full(Arc<Script>),
    /// The answer of a script to HEAD.
    Head(Arc<Script>),
    /// The 304 of a script.
    Unchanged(Arc<Script>),
    /// A generated page.
    Page(Box<Page>),
}

/// A generated page whose response is in progress.
pub(crate) struct Page {
    graph: Arc<Graph>,
    id: PageId,
    head_only: bool,
    rendered: Vec<u8>,
    /// Where the part that is sent slowly starts in `rendered`.
    drip_at: usize,
    /// Bytes of filler text after `rendered`.
    fill: u64,
}

/// The next action of a response. `Close` ends the connection with `close_notify` and FIN, `Cut` with FIN only.
enum Action<'a> {
    Send(&'a [u8]),
    Fill(u64),
    Drip(&'a [u8], usize, Duration),
    Wait(Duration),
    /// Render a generated page.
    Render,
    Close,
    Cut,
    Reset,
    /// Never continue.
    Hang,
    /// Wait until the web is released.
    Hold,
    Done,
}

/// The state of a response.
enum PlaybackState {
    /// Complete; the connection is free for the next request.
    Complete,
    /// It waits for the timer, for a writable socket, or forever.
    Waiting,
    /// The connection is closed.
    Closed,
}

/// The result of an action.
enum Progress {
    Next,
    /// This many bytes were sent; the socket is full.
    Blocked(u64),
    /// This many bytes were sent; continue after this time.
    Sleep(u64, Duration),
    Hang,
    Finished,
    /// The connection ends here. `true` if the response was sent as scripted.
    Over(bool),
}

impl ClientConnection {
    pub(crate) fn new(wire: ClientStream, site: usize, log: &Arc<RequestLog>) -> ClientConnection {
        let id = log.opened(site);
        let log = Arc::clone(log);
        ClientConnection {
            wire: Some(wire),
            id,
            site,
            input: Vec::new(),
            play: None,
            host: None,
            log,
            wake: None,
            blocked: false,
        }
    }

    pub(crate) fn wire(&self) -> Option<&ClientStream> {
        self.wire.as_ref()
    }

    /// The parts that the HTTP/2 thread needs. That thread records the end of the connection in the log.
    pub(crate) fn hand_over(&mut self) -> Option<HandedOver> {
        let (socket, tls) = self.wire.take()?.into_parts();
        Some(HandedOver { socket, tls, read: std::mem::take(&mut self.input), id: self.id, site: self.site })
    }

    /// Whether the first bytes, or the handshake, indicate HTTP/2. More bytes may be needed.
    fn speaks_http2(&self, bytes: &[u8], context: &ConnectionContext<'_>) -> bool {
        let Some(wire) = &self.wire else { return false };
        let is_offered = context.shared.sites.get(self.site).is_some_and(|site| site.http2.is_some());
        is_offered
            && (wire.agreed_on_http2()
                || (!wire.is_tls()
                    && bytes.len() >= 4
                    && http2::PREFACE.starts_with(&bytes[..bytes.len().min(http2::PREFACE.len())])))
    }

    /// The socket is readable, or the client has closed it.
    pub(crate) fn readable(&mut self, context: &mut ConnectionContext<'_>) -> Disposition {
        let mut decrypted = Vec::new();
        let Some(wire) = &mut self.wire else { return Disposition::Drop };
        let (received, handshake) = wire.receive(context.buffer, &mut decrypted);
        if let Some(handshake) = handshake {
            let count = match handshake {
                Handshake::Full => &self.log.handshakes_full,
                Handshake::Resumed => &self.log.handshakes_resumed,
                Handshake::Failed => &self.log.handshakes_failed,
            };
            count.fetch_add(1, Relaxed);
        }
        match received {
            Received::Gone => Disposition::Drop,
            Received::Nothing => self.proceed(context, &[]),
            Received::Decrypted => self.proceed(context, &decrypted),
            Received::Plain(n) => {
                // `proceed` borrows the whole context, so the buffer with the bytes is moved out of it meanwhile.
                let buffer = std::mem::take(&mut context.buffer);
                let disposition = self.proceed(context, &buffer[..n]);
                context.buffer = buffer;
                disposition
            }
        }
    }

    /// The socket is writable again.
    pub(crate) fn writable(&mut self, context: &mut ConnectionContext<'_>) -> Disposition {
        self.proceed(context, &[])
    }

    /// The timer expired.
    pub(crate) fn timer_expired(&mut self, context: &mut ConnectionContext<'_>) -> Disposition {
        self.wake = None;
        if let Some(play) = &mut self.play {
            play.timer_expired = true;
        }
        self.proceed(context, &[])
    }

    /// The web was released: a held response continues.
    pub(crate) fn released(&mut self, bench: &mut ConnectionContext<'_>) -> Disposition {
        if self.play.is_some() { self.proceed(bench, &[]) } else { Disposition::Keep }
    }

    /// Continues the response in progress, then handles further requests, as far as possible without blocking.
    fn proceed(&mut self, context: &mut ConnectionContext<'_>, fresh: &[u8]) -> Disposition {
        self.blocked = false;
        let mut held = std::mem::take(&mut self.input);
        let mut rest = fresh;
        if !held.is_empty() {
            held.extend_from_slice(fresh);
            rest = &held;
        }
        if self.host.is_none() && self.speaks_http2(rest, context) {
            self.input = rest.to_vec();
            return Disposition::HandOver;
        }
        loop {
            if self.play.is_some() {
                match self.play(context) {
                    Ok(PlaybackState::Complete) => {}
                    Ok(PlaybackState::Waiting) => break,
                    Ok(PlaybackState::Closed) | Err(_) => return Disposition::Drop,
                }
            }
            if rest.is_empty() {
                match self.flush() {
                    Ok(flushed) => self.blocked = !flushed,
                    Err(_) => return Disposition::Drop,
                }
                break;
            }
            match parse(rest) {
                ParsedHead::Whole(request, used) => {
                    self.begin(&request, context);
                    rest = &rest[used..];
                }
                ParsedHead::Partial => break,
                ParsedHead::Malformed => {
                    let _ = self.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                    self.close_gracefully();
                    return Disposition::Drop;
                }
            }
        }
        if rest.len() > MAX_INPUT {
            return Disposition::Drop;
        }
        if rest.len() == held.len() {
            self.input = held;
        } else if !rest.is_empty() {
            self.input = rest.to_vec();
        }
        Disposition::Keep
    }

    /// Handles a complete request: looks up the response.
    fn begin(&mut self, request: &Request<'_>, context: &mut ConnectionContext<'_>) {
        // The thread may have been busy since it woke up; use the current time so that latencies are not shortened.
        context.now = Instant::now();
        let name = request.host_name();
        let host = match self.host.take() {
            Some(host) if *host.name == *name => host,
            _ => self.log.host(name),
        };
        let (source, status, forbidden) = select(&context.shared.sites[self.site].content, request);
        let entry = self.log.begin(&host, request, (self.id, self.site), (status, forbidden), context.now);
        self.host = Some(Arc::clone(&host));
        self.play = Some(Playback { source, step: 0, at: 0, timer_expired: false, last: request.last, host, entry });
    }

    /// Continues the response, as far as possible without blocking.
    fn play(&mut self, context: &mut ConnectionContext<'_>) -> io::Result<PlaybackState> {
        let Some(mut play) = self.play.take() else { return Ok(PlaybackState::Complete) };
        loop {
            let progress = match self.act(&mut play, context) {
                Ok(progress) => progress,
                Err(error) => {
                    self.play = Some(play);
                    return Err(error);
                }
            };
            match progress {
                Progress::Next => {
                    play.step += 1;
                    play.at = 0;
                    play.timer_expired = false;
                }
                Progress::Blocked(sent) => {
                    play.at += sent;
                    self.blocked = true;
                    self.play = Some(play);
                    return Ok(PlaybackState::Waiting);
                }
                Progress::Sleep(sent, duration) => {
                    play.at += sent;
                    play.timer_expired = false;
                    // If the timer is already set, this call was caused by bytes of the client: keep its deadline.
                    self.wake.get_or_insert(context.now + duration);
                    self.play = Some(play);
                    return Ok(PlaybackState::Waiting);
                }
                Progress::Hang => {
                    self.play = Some(play);
                    return Ok(PlaybackState::Waiting);
                }
                Progress::Finished if play.last => {
                    self.close_gracefully();
                    self.log.end(&play.host, self.site, play.entry, true, Instant::now());
                    return Ok(PlaybackState::Closed);
                }
                Progress::Finished => {
                    self.log.end(&play.host, self.site, play.entry, true, context.now);
                    return Ok(PlaybackState::Complete);
                }
                Progress::Over(whole) => {
                    self.log.end(&play.host, self.site, play.entry, whole, Instant::now());
                    return Ok(PlaybackState::Closed);
                }
            }
        }
    }

    /// Performs the next action of the response, as far as possible without blocking.
    fn act(&mut self, play: &mut Playback, context: &mut ConnectionContext<'_>) -> io::Result<Progress> {
        if matches!(play.next(), Action::Render) {
            return self.render(play, context);
        }
        Ok(match play.next() {
            Action::Send(bytes) => {
                let rest = bytes.get(play.at as usize..).unwrap_or_default();
                let sent = self.send(&rest[..rest.len().min(MAX_BYTES_PER_TURN)])?;
                if sent == rest.len() { Progress::Next } else { Progress::Blocked(sent as u64) }
            }
            Action::Fill(total) => {
                let mut sent = 0;
                while play.at + sent < total {
                    let piece = filler::slice_at(play.at + sent, total - play.at - sent);
                    let n = self.send(piece)?;
                    sent += n as u64;
                    if n < piece.len() || sent >= MAX_BYTES_PER_TURN as u64 {
                        return Ok(Progress::Blocked(sent));
                    }
                }
                Progress::Next
            }
            Action::Drip(bytes, size, every) => {
                let at = play.at as usize;
                // After each piece, wait for the timer.
                if at > 0 && at.is_multiple_of(size) && !play.timer_expired {
                    return Ok(Progress::Sleep(0, every));
                }
                let end = (at - at % size + size).min(bytes.len());
                let piece = bytes.get(at..end).unwrap_or_default();
                let sent = self.send(piece)?;
                if sent < piece.len() {
                    Progress::Blocked(sent as u64)
                } else if end == bytes.len() {
                    Progress::Next
                } else {
                    Progress::Sleep(sent as u64, every)
                }
            }
            Action::Wait(_) if play.timer_expired => Progress::Next,
            Action::Wait(duration) => Progress::Sleep(0, duration),
            Action::Render => Progress::Next,
            Action::Done | Action::Close | Action::Cut if !self.flush()? => Progress::Blocked(0),
            Action::Done => Progress::Finished,
            Action::Close => {
                self.close_gracefully();
                Progress::Over(true)
            }
            Action::Cut => Progress::Over(true),
            Action::Reset => {
                if let Some(wire) = &self.wire {
                    wire.make_reset();
                }
                Progress::Over(true)
            }
            Action::Hold if context.shared.released.load(Relaxed) => Progress::Next,
            Action::Hang | Action::Hold => Progress::Hang,
        })
    }

    /// Renders a page into the thread's buffer and sends it from there. Only bytes that the socket does not take are
    /// kept.
    fn render(&mut self, play: &mut Playback, context: &mut ConnectionContext<'_>) -> io::Result<Progress> {
        let Source::Page(page) = &mut play.source else { return Ok(Progress::Next) };
        context.page.clear();
        page.fill = page.graph.render(page.id, context.page);
        let drip = page.graph.plan().drip.0 as usize;
        if page.head_only {
            let head = memchr::memmem::find(context.page, b"\r\n\r\n").map_or(0, |at| at + 4);
            context.page.truncate(head);
            page.fill = 0;
        }
        let sent = if drip > 0 { 0 } else { self.send(context.page)? };
        if sent < context.page.len() {
            page.rendered = context.page[sent..].to_vec();
        }
        page.drip_at = page.rendered.len() - drip.min(page.rendered.len());
        Ok(Progress::Next)
    }

    fn flush(&mut self) -> io::Result<bool> {
        self.wire.as_mut().map_or(Ok(true), ClientStream::flush)
    }

    fn close_gracefully(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.close_gracefully();
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.wire.as_mut().map_or(Ok(0), |wire| wire.send(bytes))?;
        self.log.bytes_sent.fetch_add(sent as u64, Relaxed);
        Ok(sent)
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        if let Some(play) = self.play.take() {
            self.log.end(&play.host, self.site, play.entry, false, Instant::now());
        }
        if self.wire.is_some() {
            self.log.closed(self.site);
        }
    }
}

impl Playback {
    fn next(&self) -> Action<'_> {
        let steps = match &self.source {
            Source::Full(script) => &script.steps,
            Source::Head(script) => &script.head,
            Source::Unchanged(script) => &script.unchanged,
            Source::Page(page) => return page.next(self.step),
        };
        match steps.get(self.step) {
            None => Action::Done,
            Some(Step::Send(bytes)) => Action::Send(bytes),
            Some(Step::Fill(length)) => Action::Fill(*length),
            Some(Step::Drip(bytes, size, every)) => Action::Drip(bytes, *size, *every),
            Some(Step::Wait(duration)) => Action::Wait(*duration),
            Some(Step::Close) => Action::Close,
            Some(Step::SilentClose) => Action::Cut,
            Some(Step::Reset) => Action::Reset,
            Some(Step::Hang) => Action::Hang,
            Some(Step::Hold) => Action::Hold,
        }
    }
}

impl Page {
    /// The response as a list of steps, for HTTP/2, whose streams do not share a buffer.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let plan = self.graph.plan();
        let mut steps = Vec::new();
        if self.graph.kind(self.id) == PageKind::Dead {
            return vec![Step::Hang];
        }
        if plan.latency_us.1 > 0 {
            steps.push(Step::Wait(self.graph.latency(self.id)));
        }
        let mut rendered = Vec::new();
        let fill = self.graph.render(self.id, &mut rendered);
        let drip = (plan.drip.0 as usize).min(rendered.len());
        let dripped = rendered.split_off(rendered.len() - drip);
        steps.push(Step::Send(rendered.into()));
        steps.push(Step::Fill(fill));
        if drip > 0 {
            steps.push(Step::Drip(dripped.into(), 1, Duration::from_micros(plan.drip.1)));
        }
        steps
    }

    /// The action of a step. The script of a generated page is not stored; each step follows from its number.
    fn next(&self, step: usize) -> Action<'_> {
        let plan = self.graph.plan();
        let (sent_at_once, dripped) = self.rendered.split_at(self.drip_at);
        match step {
            0 if self.graph.kind(self.id) == PageKind::Dead => Action::Hang,
            // Without latency, skip the timer and send nothing in this step.
            0 if plan.latency_us.1 == 0 => Action::Send(&[]),
            0 => Action::Wait(self.graph.latency(self.id)),
            1 => Action::Render,
            2 => Action::Send(sent_at_once),
            3 => Action::Fill(self.fill),
            4 => Action::Drip(dripped, 1, Duration::from_micros(plan.drip.1)),
            5 if plan.close => Action::Close,
            _ => Action::Done,
        }
    }
}

/// Selects the response to a request. Returns its source, its status, and whether the request was forbidden.
pub(crate) fn select(content: &SiteContent, request: &Request<'_>) -> (Source, u16, bool) {
    let head_only = request.method == "HEAD";
    let (source, status, forbidden) = match content.find(request) {
        ResponseSource::ScriptedPage(script) => {
            let (mut status, forbidden) = (script.status, script.forbidden);
            let source = if head_only && !script.head.is_empty() {
                status = script.head_status;
                Source::Head(script)
            } else if !script.unchanged.is_empty() && is_unchanged(&script, request) {
                Source::Unchanged(script)
            } else {
                Source::Full(script)
            };
            (source, status, forbidden)
        }
        ResponseSource::Page(graph, id) => {
            let status = match graph.kind(id) {
                PageKind::Dead => 0,
                _ if id.page == ROBOTS => 404,
                PageKind::Page => 200,
                PageKind::Error(status) => status,
                PageKind::Redirect(_) => 302,
            };
            (
                Source::Page(Box::new(Page { graph, id, head_only, rendered: Vec::new(), drip_at: 0, fill: 0 })),
                status,
                false,
            )
        }
    };
    let status = if matches!(source, Source::Unchanged(_)) { 304 } else { status };
    (source, status, forbidden)
}

fn is_unchanged(script: &Script, request: &Request<'_>) -> bool {
    if let (Some(tag), Some(wanted)) = (&script.etag, request.header("if-none-match")) {
        return wanted == "*" || wanted.contains(&format!("\"{tag}\""));
    }
    script.last_modified.is_some() && script.last_modified.as_deref() == request.header("if-modified-since")
}
