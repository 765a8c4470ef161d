//! [`BlockingHttp`]: the HTTP transport of the object storage client, on the protocol code of the crawler.
//!
//! One operation runs at a time and its caller waits for it, so every request blocks on its socket.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use argiope_core::http::conn::{Conn, Head, Limits, Receiver, Step, TlsSource, Trust, Want, authorities};
use argiope_core::{ErrorKind, Failure, Time};
use async_trait::async_trait;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};

use crate::segments::MAX_FILE;

/// The connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may be silent.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long one request may take.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(300);
const READ_BUFFER: usize = 64 << 10;

/// HTTP for one client of object storage, with the connections that it keeps alive.
#[derive(Clone)]
pub struct BlockingHttp {
    shared: Arc<Transport>,
}

/// The state that all clones of a [`BlockingHttp`] share.
struct Transport {
    tls: TlsSource,
    limits: Arc<Limits>,
    /// The time zero of [`Transport::now`].
    start: Instant,
    /// Idle connections, at most one for each server.
    idle: Mutex<HashMap<ServerKey, OpenConn>>,
}

/// Whether the scheme is https, the host, and the port.
type ServerKey = (bool, String, u16);

/// A connection that is open.
struct OpenConn {
    socket: TcpStream,
    conn: Conn,
}

impl fmt::Debug for BlockingHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlockingHttp")
    }
}

impl BlockingHttp {
    /// Trusts the authorities of the system, and those in this PEM text.
    pub fn new(pem: Option<Vec<u8>>) -> Self {
        let tls = TlsSource::new(move || {
            let mut roots = pem.map_or_else(|| Ok(Vec::new()), |pem| authorities(&pem))?;
            roots.extend(rustls_native_certs::load_native_certs().certs.into_iter().map(|der| der.to_vec()));
            let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            Trust { roots, ..Trust::default() }.compile(now)
        });
        let limits = Limits {
            max_body: MAX_FILE,
            max_wire: MAX_FILE,
            idle: IDLE_TIMEOUT,
            connect: CONNECT_TIMEOUT,
            total: TOTAL_TIMEOUT,
            ..Limits::default()
        };
        let (limits, start, idle) = (Arc::new(limits), Instant::now(), Mutex::default());
        Self { shared: Arc::new(Transport { tls, limits, start, idle }) }
    }
}

impl HttpConnector for BlockingHttp {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for BlockingHttp {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        if parts.method == Method::HEAD {
            // The protocol code would wait for the body that the response to a HEAD request announces.
            return Err(error_of_kind(HttpErrorKind::Unknown, "HEAD requests are not supported"));
        }
        let origin = origin_of(&parts.uri)?;
        let mut bytes = request_head(&parts, body.len());
        bytes.extend_from_slice(&body);
        self.shared.exchange(&origin, bytes)
    }
}

impl Transport {
    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, HashMap<ServerKey, OpenConn>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request over an idle connection if there is one, otherwise over a new one.
    fn exchange(&self, origin: &ServerKey, request: Vec<u8>) -> Result<HttpResponse, HttpError> {
        let idle = self.idle().remove(origin);
        if let Some(idle) = idle {
            match self.send(idle, origin, request.clone()) {
                // The server had closed the idle connection before the request arrived. Retry on a new connection.
                Err(ExchangeError { is_stale: true, .. }) => {}
                result => return result.map_err(|failed| failed.error),
            }
        }
        let opened = self.open(origin)?;
        self.send(opened, origin, request).map_err(|failed| failed.error)
    }

    /// Connects to the first address that accepts the connection.
    fn open(&self, (https, host, port): &ServerKey) -> Result<OpenConn, HttpError> {
        let unreachable = |error: io::Error| {
            error_of_kind(HttpErrorKind::Connect, &format!("{host}:{port} cannot be reached: {error}"))
        };
        // Brackets around an IPv6 address are not part of the name.
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (bare, *port).to_socket_addrs().map_err(unreachable)? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(socket) => {
                    let _ = socket.set_nodelay(true);
                    socket.set_write_timeout(Some(IDLE_TIMEOUT)).map_err(unreachable)?;
                    let (limits, now) = (Arc::clone(&self.limits), self.now());
                    let conn = if *https {
                        // `false`: without a client certificate.
                        let config =
                            self.tls.config(false).map_err(|why| error_of_kind(HttpErrorKind::Unknown, why))?;
                        Conn::tls(Arc::clone(config), host, limits, now).map_err(|failure| http_error(&failure))?
                    } else {
                        Conn::plain(limits, now)
                    };
                    return Ok(OpenConn { socket, conn });
                }
                Err(error) => last = error,
            }
        }
        Err(unreachable(last))
    }

    /// Sends a request over this connection and reads the response. A reusable connection becomes idle.
    fn send(&self, open: OpenConn, origin: &ServerKey, request: Vec<u8>) -> Result<HttpResponse, ExchangeError> {
        let OpenConn { mut socket, mut conn } = open;
        let mut answer = ReceivedAnswer::default();
        let mut buffer = vec![0; READ_BUFFER];
        conn.request(request, self.now() + TOTAL_TIMEOUT, self.now());
        loop {
            match conn.step() {
                Step::Write(bytes) => match socket.write(bytes) {
                    Ok(written) => conn.wrote(written, self.now()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => conn.broke(socket_failure(&error), &mut answer),
                },
                Step::Read => {
                    let left = conn.deadline().min(self.now() + IDLE_TIMEOUT).since(self.now());
                    // At least a millisecond, because a timeout of zero is an error.
                    let _ = socket.set_read_timeout(Some(left.max(Duration::from_millis(1))));
                    match socket.read(&mut buffer) {
                        Ok(0) => conn.closed(self.now(), &mut answer),
                        Ok(read) => conn.feed(&buffer[..read], self.now(), &mut answer),
                        Err(error) => match error.kind() {
                            io::ErrorKind::Interrupted => {}
                            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                                conn.expire(self.now(), &mut answer);
                            }
                            _ => conn.broke(socket_failure(&error), &mut answer),
                        },
                    }
                }
                // This connection is never paused.
                Step::Pause | Step::Done => break,
            }
        }
        let end = conn.end();
        if let Some(failure) = &end.failure {
            return Err(ExchangeError { error: http_error(failure), is_stale: end.stale });
        }
        if end.reusable {
            self.idle().insert(origin.clone(), OpenConn { socket, conn });
        }
        answer.into_response().map_err(|error| ExchangeError { error, is_stale: false })
    }
}

/// Why there is no response.
struct ExchangeError {
    error: HttpError,
    /// Whether the server had closed the kept-alive connection.
    is_stale: bool,
}

/// A response while it is received.
#[derive(Default)]
struct ReceivedAnswer {
    status: u16,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

impl Receiver for ReceivedAnswer {
    fn head(&mut self, head: &Head, _now: Time) -> Want {
        self.status = head.status;
        self.headers = head.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        Want::Body
    }

    fn wire(&mut self, _raw: &[u8]) {}

    fn body(&mut self, decoded: &[u8]) {
        self.body.extend_from_slice(decoded);
    }
}

impl ReceivedAnswer {
    fn into_response(self) -> Result<HttpResponse, HttpError> {
        let malformed = || error_of_kind(HttpErrorKind::Decode, "the response has a malformed head");
        let body = Full::new(self.body.into()).map_err(|never: std::convert::Infallible| match never {});
        let mut response = Response::new(HttpResponseBody::new(body));
        *response.status_mut() = StatusCode::from_u16(self.status).map_err(|_| malformed())?;
        for (name, value) in self.headers {
            let name = HeaderName::from_bytes(&name).map_err(|_| malformed())?;
            response.headers_mut().append(name, HeaderValue::from_bytes(&value).map_err(|_| malformed())?);
        }
        Ok(response)
    }
}

fn origin_of(uri: &Uri) -> Result<ServerKey, HttpError> {
    let https = uri.scheme_str() == Some("https");
    let host = uri.host().ok_or_else(|| error_of_kind(HttpErrorKind::Unknown, "the address has no host"))?;
    Ok((https, host.to_owned(), uri.port_u16().unwrap_or(if https { 443 } else { 80 })))
}

/// The head of a request whose body has this length.
fn request_head(parts: &http::request::Parts, length: usize) -> Vec<u8> {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut head = format!("{} {target} HTTP/1.1\r\n", parts.method).into_bytes();
    let mut add = |name: &str, value: &[u8]| {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    };
    if !parts.headers.contains_key(HOST) {
        add("host", parts.uri.authority().map_or("", |authority| authority.as_str()).as_bytes());
    }
    // The length is added below. `connection` is left out, so that the connection is kept alive.
    for (name, value) in parts.headers.iter().filter(|(name, _)| **name != CONTENT_LENGTH && **name != CONNECTION) {
        add(name.as_str(), value.as_bytes());
    }
    if length > 0 || parts.method == Method::PUT || parts.method == Method::POST {
        add("content-length", length.to_string().as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The failure of a connection with this error.
fn socket_failure(error: &io::Error) -> Failure {
    Failure::new(ErrorKind::Reset, error.to_string())
}

/// Converts a failure of the protocol code.
fn http_error(failure: &Failure) -> HttpError {
    let kind = match failure.kind {
        ErrorKind::TimeoutTotal | ErrorKind::TimeoutIdle | ErrorKind::TimeoutFirstByte => HttpErrorKind::Timeout,
        ErrorKind::ConnectTimeout | ErrorKind::Reset => HttpErrorKind::Connect,
        _ => HttpErrorKind::Unknown,
    };
    error_of_kind(kind, &failure.message)
}

fn error_of_kind(kind: HttpErrorKind, why: &str) -> HttpError {
    let source: Box<dyn Error + Send + Sync> = why.into();
    HttpError::new_boxed(kind, source)
}
