//! HTTP/2, served with the crate `h2` on a separate thread.
//!
//! The server threads accept connections and do TLS handshakes. If the client uses HTTP/2 (negotiated by ALPN, or with
//! the preface in clear text), the connection is handed over to this thread with its TLS session and the bytes already
//! read. The connection keeps its number in the log.
//!
//! The server does not use Argiope's HTTP/2 code, because a client should be tested against an independent
//! implementation.
//!
//! Invariant: after `RequestLog::begin`, `RequestLog::end` is called exactly once for a request, however its stream
//! ends.

mod play;
mod stream;

use crate::connection::{Source, select};
use crate::http2_settings::{DEFAULT_MAX_STREAMS, HandedOver};
use crate::log::{HostState, RequestEnd, RequestIndex, RequestLog};
use crate::request::{ParsedRequest, parse};
use crate::web_state::WebState;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use stream::TlsOrPlain;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A handle of the HTTP/2 thread.
pub(crate) struct Http2Thread {
    thread: JoinHandle<io::Result<()>>,
}

impl Http2Thread {
    /// Starts the thread. It ends when the last sender is dropped.
    pub(crate) fn start(shared: &Arc<WebState>, inbox: UnboundedReceiver<HandedOver>) -> io::Result<Http2Thread> {
        let shared = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("practice-h2".into()).spawn(move || run(shared, inbox))?;
        Ok(Http2Thread { thread })
    }

    pub(crate) fn join(self) -> io::Result<()> {
        self.thread.join().map_err(|_| io::Error::other("the HTTP/2 thread of the practice web panicked"))?
    }
}

/// A channel to hand connections over.
pub(crate) fn channel() -> (UnboundedSender<HandedOver>, UnboundedReceiver<HandedOver>) {
    unbounded_channel()
}

fn run(shared: Arc<WebState>, mut inbox: UnboundedReceiver<HandedOver>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        while let Some(connection) = inbox.recv().await {
            if shared.stop.load(std::sync::atomic::Ordering::SeqCst) {
                break;
            }
            // The task runs on; only its handle is dropped.
            drop(tokio::task::spawn_local(serve(Arc::clone(&shared), connection)));
        }
    });
    // The `LocalSet` is dropped with its tasks, which closes their connections.
    Ok(())
}

/// Counts a connection as closed when it is dropped.
struct OpenConnection {
    log: Arc<RequestLog>,
    site: usize,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.log.count_closed(self.site);
    }
}

/// Serves one connection until the client disconnects or violates the protocol.
async fn serve(shared: Arc<WebState>, connection: HandedOver) {
    let HandedOver { socket, tls, input, id, site } = connection;
    let _open = OpenConnection { log: Arc::clone(&shared.log), site };
    let max_streams =
        shared.sites.get(site).and_then(|site| site.http2).map_or(DEFAULT_MAX_STREAMS, |http2| http2.max_streams);
    let Ok(stream) = TlsOrPlain::new(socket, tls, input, Arc::clone(&shared.log)) else { return };
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(max_streams).max_send_buffer_size(64 << 10);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        drop(tokio::task::spawn_local(handle_request(Arc::clone(&shared), request, respond, id, site)));
    }
}

/// A request in the log. Dropping it records the end of the request.
struct LoggedRequest {
    log: Arc<RequestLog>,
    host: Arc<HostState>,
    site: usize,
    log_index: RequestIndex,
    end: RequestEnd,
}

impl Drop for LoggedRequest {
    fn drop(&mut self) {
        self.log.end(&self.host, self.site, self.log_index, self.end, Instant::now());
    }
}

/// Logs one request and sends the response.
async fn handle_request(
    shared: Arc<WebState>,
    request: http::Request<h2::RecvStream>,
    respond: h2::server::SendResponse<Bytes>,
    id: u64,
    site: usize,
) {
    let Some(open_site) = shared.sites.get(site) else { return };
    let mut text = http1_text(&request);
    let mut body = request.into_body();
    while let Some(Ok(piece)) = body.data().await {
        text.extend_from_slice(&piece);
        // Returns flow-control capacity to the client.
        let _ = body.flow_control().release_capacity(piece.len());
    }
    let ParsedRequest::Whole(parsed, _) = parse(&text) else { return };
    let (source, status, is_violation) = select(&open_site.content, &parsed);
    let host = shared.log.host(parsed.host_name());
    let log_index = shared.log.begin(&host, &parsed, (id, site), (status, is_violation), Instant::now());
    let mut logged = LoggedRequest { log: Arc::clone(&shared.log), host, site, log_index, end: RequestEnd::Incomplete };
    let head_only = parsed.method == "HEAD";
    let steps = match source {
        Source::Full(script) => script.steps.clone(),
        Source::Head(script) => script.head.clone(),
        Source::Unchanged(script) => script.unchanged.clone(),
        Source::Page(page) => page.steps(),
    };
    if play::play(&steps, respond, head_only, shared.released.subscribe()).await {
        logged.end = RequestEnd::Complete;
    }
}

/// The request in HTTP/1.1 syntax, for looking up its script.
fn http1_text(request: &http::Request<h2::RecvStream>) -> Vec<u8> {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let host = request.uri().authority().map_or("", |authority| authority.as_str());
    let mut text = format!("{} {target} HTTP/1.1\r\nHost: {host}\r\n", request.method()).into_bytes();
    for (name, value) in request.headers() {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            text.extend_from_slice(part);
        }
    }
    text.extend_from_slice(b"\r\n");
    text
}
