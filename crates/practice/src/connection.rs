//! One client connection: parses requests, looks up the response and sends it step by step.
//!
//! A connection is a small state machine. Its thread calls it when bytes have arrived, when the socket is writable
//! again, or when its timer has expired. It does as much as it can without blocking. It then waits for a time
//! (`wake_at`), for a writable socket (`is_blocked`), or else for bytes from the client or for the test to release the
//! held responses (`Action::Hold`).
//! While it waits for the latency of a generated page it owns no buffer, because the page is rendered only when it is
//! due. A client that closes its side is treated as disconnected, even in the middle of a response.
//!
//! Invariant: `begin` logs the start of a request. Its end is logged exactly once, by `continue_response` or on drop.

use crate::filler;
use crate::graph::{Graph, PageId, PageKind, ROBOTS};
use crate::http2_settings::{HandedOver, PREFACE};
use crate::log::{HostState, RequestEnd, RequestIndex, RequestLog};
use crate::request::{ParsedRequest, ReceivedRequest, parse};
use crate::script::{ResponseScript, ResponseStep};
use crate::site::{ResponseSource, SiteContent};
use crate::web_state::WebState;
use crate::wire::{ClientStream, Handshake, Received};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Limit on unprocessed input: an incomplete request, or further requests while a response is in progress. If a client
/// sends more, the connection is closed.
const MAX_INPUT: usize = 1 << 20;

/// Limit on bytes sent per call, so that other connections of the thread do not wait until a large page is sent.
const MAX_BYTES_PER_TURN: usize = 1 << 20;

/// State of the thread that a connection borrows for one call.
pub(crate) struct ConnectionContext<'a> {
    pub(crate) shared: &'a WebState,
    pub(crate) now: Instant,
    /// Receives bytes from the socket.
    pub(crate) buffer: &'a mut [u8],
    /// Generated pages are rendered here.
    pub(crate) page: &'a mut Vec<u8>,
}

/// What the thread does with the connection next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    Keep,
    Drop,
    /// The client uses HTTP/2: see [`ClientConnection::hand_over`].
    HandOver,
}

/// One client connection.
pub(crate) struct ClientConnection {
    /// `None` after it was handed over to the HTTP/2 thread.
    stream: Option<ClientStream>,
    /// The number of the connection in the log.
    id: u64,
    /// The index of the site in the web.
    site: usize,
    /// Received bytes that are not processed yet.
    input: Vec<u8>,
    response: Option<ActiveResponse>,
    /// The counters of the host of the last request. The next request is usually for the same host.
    host: Option<Arc<HostState>>,
    log: Arc<RequestLog>,
    /// The time of the next call to `on_timer`.
    pub(crate) wake_at: Option<Instant>,
    /// Whether bytes wait for the socket to become writable.
    pub(crate) is_blocked: bool,
}

/// A response in progress.
struct ActiveResponse {
    source: Source,
    /// The index of the current step.
    step: usize,
    /// Bytes of this step already sent.
    sent: u64,
    /// Whether the timer of this step has expired.
    timer_expired: bool,
    /// Close after this response, because the client requested it.
    close_after: bool,
    host: Arc<HostState>,
    log_index: RequestIndex,
}

/// Where the steps of a response come from.
pub(crate) enum Source {
    /// All steps of a script.
    Full(Arc<ResponseScript>),
    /// The response of a script to HEAD.
    Head(Arc<ResponseScript>),
    /// The 304 of a script.
    Unchanged(Arc<ResponseScript>),
    /// A generated page.
    Page(Box<GraphPage>),
}

/// A generated page whose response is in progress.
pub(crate) struct GraphPage {
    graph: Arc<Graph>,
    id: PageId,
    head_only: bool,
    rendered: Vec<u8>,
    /// The index in `rendered` from which bytes are sent one at a time.
    drip_at: usize,
    /// Bytes of filler text, sent after `rendered[..drip_at]`.
    fill: u64,
}

/// The next action of a response.
enum Action<'a> {
    Send(&'a [u8]),
    /// Send this many bytes of filler.
    Fill(u64),
    /// Send these bytes in pieces of this size, with this time between them.
    Drip(&'a [u8], usize, Duration),
    /// Wait this long.
    Wait(Duration),
    /// Render a generated page.
    Render,
    /// End the connection, with TLS `close_notify`.
    Close,
    /// End the connection, without `close_notify`.
    SilentClose,
    Reset,
    /// Send nothing more, and keep the connection open.
    Hang,
    /// Wait until the test releases the held responses.
    Hold,
    /// The response has no further steps.
    Done,
}

/// The state of a response.
enum ResponseState {
    /// Complete; the connection is free for the next request.
    Complete,
    /// It waits: for the timer, for a writable socket, for the release of the web, or for the client to disconnect.
    Waiting,
    /// The connection is closed.
    Closed,
}

/// The result of an action.
enum Progress {
    /// The step is complete.
    Next,
    /// This many bytes were sent; continue when the socket is writable.
    Blocked(u64),
    /// This many bytes were sent; continue after this time.
    Sleep(u64, Duration),
    /// The response does not continue by itself.
    Stalled,
    /// The last step is complete.
    Finished,
    /// The script ends the connection here.
    Closed,
}

impl ClientConnection {
    pub(crate) fn new(stream: ClientStream, site: usize, log: &Arc<RequestLog>) -> ClientConnection {
        let id = log.count_opened(site);
        let log = Arc::clone(log);
        ClientConnection {
            stream: Some(stream),
            id,
            site,
            input: Vec::new(),
            response: None,
            host: None,
            log,
            wake_at: None,
            is_blocked: false,
        }
    }

    pub(crate) fn stream(&self) -> Option<&ClientStream> {
        self.stream.as_ref()
    }

    /// Moves out the parts that the HTTP/2 thread needs. That thread records the end of the connection in the log.
    pub(crate) fn hand_over(&mut self) -> Option<HandedOver> {
        let (socket, tls) = self.stream.take()?.into_parts();
        Some(HandedOver { socket, tls, input: std::mem::take(&mut self.input), id: self.id, site: self.site })
    }

    /// Whether the client uses HTTP/2: by ALPN, or because `bytes` are the start of the connection preface.
    fn uses_http2(&self, bytes: &[u8], context: &ConnectionContext<'_>) -> bool {
        let Some(stream) = &self.stream else { return false };
        let is_offered = context.shared.sites.get(self.site).is_some_and(|site| site.http2.is_some());
        is_offered
            && (stream.has_negotiated_http2()
                || (!stream.is_tls()
                    // Enough to distinguish the preface from a request with PUT or POST.
                    && bytes.len() >= 4
                    && PREFACE.starts_with(&bytes[..bytes.len().min(PREFACE.len())])))
    }

    /// Reads from the socket, which is readable or was closed by the client.
    pub(crate) fn on_readable(&mut self, context: &mut ConnectionContext<'_>) -> Disposition {
        let mut decrypted = Vec::new();
        let Some(stream) = &mut self.stream else { return Disposition::Drop };
        let (received, handshake) = stream.receive(context.buffer, &mut decrypted);
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

    /// Continues when the socket is writable again.
    pub(crate) fn on_writable(&mut self, context: &mut ConnectionContext<'_>) -> Disposition {
        self.proceed(context, &[])
    }

    /// Continues when the timer has expired.
    pub(crate) fn on_timer(&mut self, context: &mut ConnectionContext<'_>) -> Disposition {
        self.wake_at = None;
        if let Some(response) = &mut self.response {
            response.timer_expired = true;
        }
        self.proceed(context, &[])
    }

    /// Continues a held response when the test releases the held responses.
    pub(crate) fn on_released(&mut self, context: &mut ConnectionContext<'_>) -> Disposition {
        if self.response.is_some() { self.proceed(context, &[]) } else { Disposition::Keep }
    }

    /// Continues the response in progress, then handles further requests, as far as possible without blocking.
    /// `received`: bytes that have just arrived.
    fn proceed(&mut self, context: &mut ConnectionContext<'_>, received: &[u8]) -> Disposition {
        self.is_blocked = false;
        let mut input = std::mem::take(&mut self.input);
        let mut rest = received;
        if !input.is_empty() {
            input.extend_from_slice(received);
            rest = &input;
        }
        // A client chooses HTTP/2 before its first request.
        if self.host.is_none() && self.uses_http2(rest, context) {
            self.input = rest.to_vec();
            return Disposition::HandOver;
        }
        loop {
            if self.response.is_some() {
                match self.continue_response(context) {
                    Ok(ResponseState::Complete) => {}
                    Ok(ResponseState::Waiting) => break,
                    Ok(ResponseState::Closed) | Err(_) => return Disposition::Drop,
                }
            }
            if rest.is_empty() {
                match self.flush() {
                    Ok(is_flushed) => self.is_blocked = !is_flushed,
                    Err(_) => return Disposition::Drop,
                }
                break;
            }
            match parse(rest) {
                ParsedRequest::Whole(request, used) => {
                    self.begin(&request, context);
                    rest = &rest[used..];
                }
                ParsedRequest::Partial => break,
                ParsedRequest::Malformed => {
                    let _ = self.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                    self.close_gracefully();
                    return Disposition::Drop;
                }
            }
        }
        if rest.len() > MAX_INPUT {
            return Disposition::Drop;
        }
        if rest.len() == input.len() {
            // Nothing was consumed: keep the buffer.
            self.input = input;
        } else if !rest.is_empty() {
            self.input = rest.to_vec();
        }
        Disposition::Keep
    }

    /// Starts the response to a complete request.
    fn begin(&mut self, request: &ReceivedRequest<'_>, context: &mut ConnectionContext<'_>) {
        // The thread may have been busy since it woke up. With the old time, the latency would be too short.
        context.now = Instant::now();
        let name = request.host_name();
        let host = match self.host.take() {
            Some(host) if *host.name == *name => host,
            _ => self.log.host(name),
        };
        let (source, status, is_violation) = select(&context.shared.sites[self.site].content, request);
        let log_index = self.log.begin(&host, request, (self.id, self.site), (status, is_violation), context.now);
        self.host = Some(Arc::clone(&host));
        self.response = Some(ActiveResponse {
            source,
            step: 0,
            sent: 0,
            timer_expired: false,
            close_after: request.is_last,
            host,
            log_index,
        });
    }

    /// Continues the response, as far as possible without blocking.
    fn continue_response(&mut self, context: &mut ConnectionContext<'_>) -> io::Result<ResponseState> {
        let Some(mut response) = self.response.take() else { return Ok(ResponseState::Complete) };
        loop {
            let progress = match self.do_next_action(&mut response, context) {
                Ok(progress) => progress,
                Err(error) => {
                    self.response = Some(response);
                    return Err(error);
                }
            };
            match progress {
                Progress::Next => {
                    response.step += 1;
                    response.sent = 0;
                    response.timer_expired = false;
                }
                Progress::Blocked(sent) => {
                    response.sent += sent;
                    self.is_blocked = true;
                    self.response = Some(response);
                    return Ok(ResponseState::Waiting);
                }
                Progress::Sleep(sent, duration) => {
                    response.sent += sent;
                    response.timer_expired = false;
                    // If the timer is already set, it has not expired: bytes from the client or the release of held
                    // responses caused this call. Keep the deadline.
                    self.wake_at.get_or_insert(context.now + duration);
                    self.response = Some(response);
                    return Ok(ResponseState::Waiting);
                }
                Progress::Stalled => {
                    self.response = Some(response);
                    return Ok(ResponseState::Waiting);
                }
                Progress::Finished if response.close_after => {
                    self.close_gracefully();
                    self.log.end(&response.host, self.site, response.log_index, RequestEnd::Complete, Instant::now());
                    return Ok(ResponseState::Closed);
                }
                Progress::Finished => {
                    self.log.end(&response.host, self.site, response.log_index, RequestEnd::Complete, context.now);
                    return Ok(ResponseState::Complete);
                }
                Progress::Closed => {
                    self.log.end(&response.host, self.site, response.log_index, RequestEnd::Complete, Instant::now());
                    return Ok(ResponseState::Closed);
                }
            }
        }
    }

    /// Performs the next action of the response, as far as possible without blocking.
    fn do_next_action(
        &mut self,
        response: &mut ActiveResponse,
        context: &mut ConnectionContext<'_>,
    ) -> io::Result<Progress> {
        // Not in the `match`, because `render` changes the response.
        if matches!(response.next_action(), Action::Render) {
            return self.render(response, context);
        }
        Ok(match response.next_action() {
            Action::Send(bytes) => {
                let rest = bytes.get(response.sent as usize..).unwrap_or_default();
                let sent = self.send(&rest[..rest.len().min(MAX_BYTES_PER_TURN)])?;
                if sent == rest.len() { Progress::Next } else { Progress::Blocked(sent as u64) }
            }
            Action::Fill(total) => {
                let mut sent = 0;
                while response.sent + sent < total {
                    let piece = filler::slice_at(response.sent + sent, total - response.sent - sent);
                    let n = self.send(piece)?;
                    sent += n as u64;
                    if n < piece.len() || sent >= MAX_BYTES_PER_TURN as u64 {
                        return Ok(Progress::Blocked(sent));
                    }
                }
                Progress::Next
            }
            Action::Drip(bytes, size, every) => {
                let at = response.sent as usize;
                // After each piece, wait for the timer.
                if at > 0 && at.is_multiple_of(size) && !response.timer_expired {
                    return Ok(Progress::Sleep(0, every));
                }
                // A piece may have been sent in part.
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
            Action::Wait(_) if response.timer_expired => Progress::Next,
            Action::Wait(duration) => Progress::Sleep(0, duration),
            // Handled above.
            Action::Render => Progress::Next,
            Action::Done | Action::Close | Action::SilentClose if !self.flush()? => Progress::Blocked(0),
            Action::Done => Progress::Finished,
            Action::Close => {
                self.close_gracefully();
                Progress::Closed
            }
            Action::SilentClose => Progress::Closed,
            Action::Reset => {
                if let Some(stream) = &self.stream {
                    stream.make_reset();
                }
                Progress::Closed
            }
            Action::Hold if *context.shared.released.borrow() => Progress::Next,
            Action::Hang | Action::Hold => Progress::Stalled,
        })
    }

    /// Renders a page into the thread's buffer and sends it from there. Bytes that the socket does not accept are
    /// copied into the response. If the page drips, nothing is sent yet and all bytes are copied.
    fn render(&mut self, response: &mut ActiveResponse, context: &mut ConnectionContext<'_>) -> io::Result<Progress> {
        let Source::Page(page) = &mut response.source else { return Ok(Progress::Next) };
        context.page.clear();
        let (drip_at, fill) = page.render(context.page);
        let drips = drip_at < context.page.len();
        let sent = if drips { 0 } else { self.send(context.page)? };
        if sent < context.page.len() {
            page.rendered = context.page[sent..].to_vec();
        }
        page.drip_at = drip_at - sent;
        page.fill = fill;
        Ok(Progress::Next)
    }

    /// Sends pending TLS records. Returns whether none are left.
    fn flush(&mut self) -> io::Result<bool> {
        self.stream.as_mut().map_or(Ok(true), ClientStream::flush)
    }

    fn close_gracefully(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.close_gracefully();
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.stream.as_mut().map_or(Ok(0), |stream| stream.send(bytes))?;
        self.log.bytes_sent.fetch_add(sent as u64, Relaxed);
        Ok(sent)
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        if let Some(response) = self.response.take() {
            self.log.end(&response.host, self.site, response.log_index, RequestEnd::Incomplete, Instant::now());
        }
        if self.stream.is_some() {
            self.log.count_closed(self.site);
        }
    }
}

impl ActiveResponse {
    fn next_action(&self) -> Action<'_> {
        let steps = match &self.source {
            Source::Full(script) => &script.steps,
            Source::Head(script) => &script.head,
            Source::Unchanged(script) => &script.unchanged,
            Source::Page(page) => return page.action(self.step),
        };
        match steps.get(self.step) {
            None => Action::Done,
            Some(ResponseStep::Send(bytes)) => Action::Send(bytes),
            Some(ResponseStep::Fill(length)) => Action::Fill(*length),
            Some(ResponseStep::Drip(bytes, size, every)) => Action::Drip(bytes, *size, *every),
            Some(ResponseStep::Wait(duration)) => Action::Wait(*duration),
            Some(ResponseStep::Close) => Action::Close,
            Some(ResponseStep::SilentClose) => Action::SilentClose,
            Some(ResponseStep::Reset) => Action::Reset,
            Some(ResponseStep::Hang) => Action::Hang,
            Some(ResponseStep::Hold) => Action::Hold,
        }
    }
}

impl GraphPage {
    /// Renders the response into `out`, which is empty. Returns `drip_at` and `fill`. The response is `out[..drip_at]`,
    /// then `fill` bytes of filler, then the rest of `out`, which drips.
    fn render(&self, out: &mut Vec<u8>) -> (usize, u64) {
        let mut fill = self.graph.render(self.id, out);
        if self.head_only {
            let head = memchr::memmem::find(out, b"\r\n\r\n").map_or(0, |at| at + 4);
            out.truncate(head);
            fill = 0;
        }
        let drip_length = u64::from(self.graph.plan().drip.0);
        // If filler is left, the last bytes of the response are filler.
        let fill_before_drip = fill.saturating_sub(drip_length);
        filler::append_range(out, fill_before_drip..fill);
        (out.len().saturating_sub(drip_length as usize), fill_before_drip)
    }

    /// The response as a list of steps, for HTTP/2, whose streams do not share a buffer.
    pub(crate) fn steps(&self) -> Vec<ResponseStep> {
        let plan = self.graph.plan();
        let mut steps = Vec::new();
        if self.graph.kind(self.id) == PageKind::Dead {
            return vec![ResponseStep::Hang];
        }
        if plan.latency_us.1 > 0 {
            steps.push(ResponseStep::Wait(self.graph.latency(self.id)));
        }
        let mut rendered = Vec::new();
        let (drip_at, fill) = self.render(&mut rendered);
        let dripped = rendered.split_off(drip_at);
        steps.push(ResponseStep::Send(rendered.into()));
        steps.push(ResponseStep::Fill(fill));
        if !dripped.is_empty() {
            steps.push(ResponseStep::Drip(dripped.into(), 1, Duration::from_micros(plan.drip.1)));
        }
        steps
    }

    /// The action of a step. The script of a generated page is not stored: it has the same six steps for every page.
    fn action(&self, step: usize) -> Action<'_> {
        let plan = self.graph.plan();
        let (sent_at_once, dripped) = self.rendered.split_at(self.drip_at);
        match step {
            0 if self.graph.kind(self.id) == PageKind::Dead => Action::Hang,
            // Without latency, this step does nothing.
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

/// Selects the response to a request. Returns its source, its status (0 if there is none), and `is_violation`: whether
/// the crawler should not have sent the request, for example because robots.txt disallows it
/// ([`Response::counts_as_violation`](crate::Response::counts_as_violation)).
pub(crate) fn select(content: &SiteContent, request: &ReceivedRequest<'_>) -> (Source, u16, bool) {
    let head_only = request.method == "HEAD";
    let (source, status, is_violation) = match content.find(request) {
        ResponseSource::ScriptedPage(script) => {
            let (mut status, is_violation) = (script.status, script.is_violation);
            let source = if head_only && !script.head.is_empty() {
                status = script.head_status;
                Source::Head(script)
            } else if !script.unchanged.is_empty() && is_unchanged(&script, request) {
                Source::Unchanged(script)
            } else {
                Source::Full(script)
            };
            (source, status, is_violation)
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
                Source::Page(Box::new(GraphPage { graph, id, head_only, rendered: Vec::new(), drip_at: 0, fill: 0 })),
                status,
                false,
            )
        }
    };
    let status = if matches!(source, Source::Unchanged(_)) { 304 } else { status };
    (source, status, is_violation)
}

/// Whether a validator in the request matches the page.
fn is_unchanged(script: &ResponseScript, request: &ReceivedRequest<'_>) -> bool {
    if let (Some(tag), Some(wanted)) = (&script.etag, request.header("if-none-match")) {
        return wanted == "*" || wanted.contains(&format!("\"{tag}\""));
    }
    script.last_modified.is_some() && script.last_modified.as_deref() == request.header("if-modified-since")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphPlan;

    #[test]
    fn a_page_has_the_same_bytes_for_every_length_of_the_drip() {
        let response = |drip_length: u32| {
            let plan = GraphPlan { size: 200_000, drip: (drip_length, 0), ..GraphPlan::default() };
            let (port, is_https) = (80, false);
            let graph = Arc::new(Graph::new(plan, port, is_https));
            let id = PageId { host: 0, page: 0 };
            let page = GraphPage { graph, id, head_only: false, rendered: Vec::new(), drip_at: 0, fill: 0 };
            let mut rendered = Vec::new();
            let (drip_at, fill) = page.render(&mut rendered);
            let dripped = rendered.split_off(drip_at);
            assert_eq!(dripped.len(), drip_length as usize);
            filler::append(&mut rendered, fill);
            [rendered, dripped].concat()
        };
        let expected = response(0);
        // 190,000 bytes are the whole filler and a part of the markup.
        for drip_length in [20, 190_000] {
            assert!(response(drip_length) == expected, "the last {drip_length} bytes drip");
        }
    }
}
