//! A site: a listening address and its pages.
//!
//! A [`Site`] is bound when it is created, so its address is known while pages are written and sites can link to each
//! other. Pages are looked up by path and query, exactly as requested. A path that starts with `//` names a host as well
//! (`//b.test/x`), so that one address can serve several hosts. A path that ends in `?*` matches every query.
//!
//! Invariant: a site responds to every request: with a scripted page, a page of its graph, or the fallback (by default
//! a 404).

use crate::graph::{Graph, PageId};
use crate::http2_settings::{DEFAULT_MAX_STREAMS, Http2};
use crate::request::ReceivedRequest;
use crate::response::Response;
use crate::script::ResponseScript;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Which certificate a site presents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateKind {
    /// Signed by the authority, for the site's own names and address.
    Good,
    /// Self-signed.
    SelfSigned,
    /// Signed by the authority, expired years ago.
    Expired,
    /// Signed by the authority, not valid before 2090.
    NotYetValid,
    /// Signed by the authority, for another name.
    WrongName,
}

/// One listening address with its pages.
///
/// ```
/// # use argiope_practice::{Response, Site, PracticeWeb};
/// # fn main() -> std::io::Result<()> {
/// let site = Site::http("127.0.0.1:0")?
///     .page("/", Response::links(["/a", "/old"]))
///     .page("/a", Response::html("<title>A</title>"))
///     .redirect("/old", "/a", 301)
///     .robots("User-agent: *\nDisallow: /secret/\n");
/// let root = site.url("/");
/// let web = PracticeWeb::new().site(site).start()?;
/// # drop(root); drop(web);
/// # Ok(()) }
/// ```
pub struct Site {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<CertificateKind>,
    /// Whether clients can resume TLS sessions.
    pub(crate) allows_resumption: bool,
    /// Whether TLS clients must present a certificate.
    pub(crate) requires_client_certificate: bool,
    pub(crate) http2: Option<Http2>,
    /// Names in the certificate, besides the address.
    pub(crate) names: Vec<String>,
    /// The responses of each path, which are sent in turn.
    pages: HashMap<Box<str>, Vec<Response>>,
    /// Responses to requests that match. They are tried before `pages`.
    conditional: Vec<(RequestMatch, Response)>,
    /// The response for all other paths.
    fallback: Response,
    graph: Option<Arc<Graph>>,
}

impl Site {
    /// A plain HTTP site at this address; port 0 picks a free one. The address is a loopback address, or `0.0.0.0` for all
    /// of 127.0.0.0/8. Clients with other addresses are rejected.
    pub fn http(address: &str) -> io::Result<Site> {
        Site::bind(address, None)
    }

    /// An HTTPS site with this kind of certificate.
    pub fn https(address: &str, certificate: CertificateKind) -> io::Result<Site> {
        Site::bind(address, Some(certificate))
    }

    fn bind(address: &str, tls: Option<CertificateKind>) -> io::Result<Site> {
        let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{address}: {why}"));
        let requested: SocketAddr =
            address.parse().map_err(|_| invalid("not an address with a port, as in 127.0.0.1:0"))?;
        if !requested.ip().is_loopback() && requested.ip() != IpAddr::V4(Ipv4Addr::UNSPECIFIED) {
            return Err(invalid("a practice site listens on loopback addresses only"));
        }
        let listener =
            listen(requested).map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
        let address = listener.local_addr()?;
        Ok(Site {
            listener,
            address,
            tls,
            allows_resumption: true,
            requires_client_certificate: false,
            http2: None,
            names: Vec::new(),
            pages: HashMap::new(),
            conditional: Vec::new(),
            fallback: Response::status(404),
            graph: None,
        })
    }

    /// The address on which the site listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// An absolute URL on this site. The host is its address, or 127.0.0.1 if it listens on all of them.
    pub fn url(&self, path: &str) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => format!("{scheme}://127.0.0.1:{}{path}", self.address.port()),
            _ => format!("{scheme}://{}{path}", self.address),
        }
    }

    /// An absolute URL on this site with another host name. The client must be able to resolve that name.
    pub fn url_as(&self, host: &str, path: &str) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{host}:{}{path}", self.address.port())
    }

    /// Adds a name to the site's certificate.
    pub fn name(mut self, name: &str) -> Site {
        self.names.push(name.to_owned());
        self
    }

    /// Offers HTTP/2: with TLS if ALPN selects it, in clear text if the client starts with the HTTP/2 preface.
    pub fn http2(mut self) -> Site {
        self.http2 = Some(Http2 { allows_http1: true, max_streams: DEFAULT_MAX_STREAMS });
        self
    }

    /// Like [`Site::http2`], but ALPN does not offer HTTP/1.1. Clients without ALPN can still use HTTP/1.1.
    pub fn only_http2(mut self) -> Site {
        self.http2 = Some(Http2 { allows_http1: false, max_streams: DEFAULT_MAX_STREAMS });
        self
    }

    /// Limits the number of concurrent streams on an HTTP/2 connection. Has no effect before [`Site::http2`] or
    /// [`Site::only_http2`].
    pub fn max_streams(mut self, streams: u32) -> Site {
        if let Some(http2) = &mut self.http2 {
            http2.max_streams = streams;
        }
        self
    }

    /// Never resumes TLS sessions.
    pub fn without_resumption(mut self) -> Site {
        self.allows_resumption = false;
        self
    }

    /// Refuses TLS clients without a certificate. Any certificate is accepted.
    pub fn requiring_client_certificate(mut self) -> Site {
        self.requires_client_certificate = true;
        self
    }

    /// Adds a page that always sends the same response.
    pub fn page(self, path: &str, response: Response) -> Site {
        self.sequence(path, [response])
    }

    /// Adds a response for requests that match. It is used before any page. Of several matches the first is used.
    pub fn when(mut self, request: RequestMatch, response: Response) -> Site {
        self.conditional.push((request, response));
        self
    }

    /// Adds a page that sends these responses in turn; the last one repeats.
    pub fn sequence(mut self, path: &str, responses: impl IntoIterator<Item = Response>) -> Site {
        self.pages.insert(path.into(), responses.into_iter().collect());
        self
    }

    /// Adds a page that fails `times` times with this response and then succeeds.
    pub fn fail_times(self, path: &str, times: usize, failure: Response, success: Response) -> Site {
        let failures = std::iter::repeat_n(failure, times);
        self.sequence(path, failures.chain([success]))
    }

    /// Adds a page that redirects.
    pub fn redirect(self, path: &str, target: &str, status: u16) -> Site {
        self.page(path, Response::redirect(target, status))
    }

    /// Sets the content of robots.txt. For other behaviour, script `/robots.txt` as a page.
    pub fn robots(self, text: &str) -> Site {
        self.page("/robots.txt", Response::text(text))
    }

    /// Sets the response for all other paths (default: 404).
    pub fn fallback(mut self, response: Response) -> Site {
        self.fallback = response;
        self
    }

    /// Serves a graph at all paths that are not scripted.
    pub fn graph(mut self, graph: &Arc<Graph>) -> Site {
        self.graph = Some(Arc::clone(graph));
        self
    }

    /// Scripted paths, and the link and redirect targets of the last response of each.
    #[cfg(test)]
    pub(crate) fn hrefs(&self) -> impl Iterator<Item = (String, Vec<String>)> {
        use crate::response::ResponseBody;
        self.pages.iter().map(|(path, responses)| {
            let response = responses.last().unwrap();
            let location = response.headers.iter().find(|(name, _)| name == "Location");
            let mut hrefs: Vec<String> =
                location.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).into_iter().collect();
            let (ResponseBody::Bytes(html) | ResponseBody::Filled { start: html, .. }) = &response.body;
            let html = String::from_utf8_lossy(html);
            hrefs.extend(html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
            (path.to_string(), hrefs)
        })
    }

    /// Compiles all responses to scripts.
    pub(crate) fn content(&self) -> SiteContent {
        let has_host_names = self.pages.keys().any(|path| path.starts_with("//"));
        let scripted_page = |responses: &Vec<Response>| ScriptedPage {
            scripts: responses.iter().map(|response| Arc::new(ResponseScript::of(response))).collect(),
            requests: AtomicUsize::new(0),
        };
        let conditional = self.conditional.iter();
        SiteContent {
            conditional: conditional
                .map(|(wanted, response)| (wanted.clone(), Arc::new(ResponseScript::of(response))))
                .collect(),
            pages: self.pages.iter().map(|(path, responses)| (path.clone(), scripted_page(responses))).collect(),
            has_host_names,
            has_any_query: self.pages.keys().any(|path| path.ends_with("?*")),
            fallback: Arc::new(ResponseScript::of(&self.fallback)),
            graph: self.graph.clone(),
        }
    }
}

/// A condition on requests: method, path, and the cookie and body text if given. All must match.
#[derive(Clone, Debug)]
pub struct RequestMatch {
    method: &'static str,
    path: Box<str>,
    cookie: Option<Box<str>>,
    body: Option<Box<str>>,
}

impl RequestMatch {
    /// Requests with GET for a path.
    pub fn get(path: &str) -> Self {
        Self { method: "GET", path: path.into(), cookie: None, body: None }
    }

    /// Requests with POST for a path.
    pub fn post(path: &str) -> Self {
        Self { method: "POST", ..Self::get(path) }
    }

    /// Requires this cookie: `name=value`.
    #[must_use]
    pub fn cookie(mut self, cookie: &str) -> Self {
        self.cookie = Some(cookie.into());
        self
    }

    /// Requires a body that contains this text.
    #[must_use]
    pub fn body(mut self, text: &str) -> Self {
        self.body = Some(text.into());
        self
    }

    fn matches(&self, request: &ReceivedRequest<'_>) -> bool {
        let has_cookie = |wanted: &str| {
            request.header("cookie").is_some_and(|cookies| cookies.split("; ").any(|cookie| cookie == wanted))
        };
        let has_text = |text: &str| memchr::memmem::find(request.body, text.as_bytes()).is_some();
        request.method == self.method
            && request.target == &*self.path
            && self.cookie.as_deref().is_none_or(has_cookie)
            && self.body.as_deref().is_none_or(has_text)
    }
}

/// A listening socket with a backlog large enough for thousands of simultaneous clients.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    // Loopback loses no packets, so congestion control only costs time. BBR, the default on some systems, sets a timer
    // per packet. If Reno is not available, the default remains.
    let _ = rustix::net::sockopt::set_tcp_congestion(&socket, "reno");
    rustix::net::listen(&socket, 16_384)?;
    Ok(TcpListener::from(socket))
}

/// The responses of a page, which are sent in turn.
struct ScriptedPage {
    scripts: Vec<Arc<ResponseScript>>,
    /// The number of requests so far; not counted if the page has only one response.
    requests: AtomicUsize,
}

impl ScriptedPage {
    fn next_script(&self) -> Option<&Arc<ResponseScript>> {
        match &self.scripts[..] {
            [] => None,
            [only] => Some(only),
            several => {
                let index = self.requests.fetch_add(1, Ordering::Relaxed);
                several.get(index).or(several.last())
            }
        }
    }
}

/// The content of a site, ready to be served.
pub(crate) struct SiteContent {
    conditional: Vec<(RequestMatch, Arc<ResponseScript>)>,
    pages: HashMap<Box<str>, ScriptedPage>,
    /// Whether a page is scripted for one host name (`//b.test/x`).
    has_host_names: bool,
    /// Whether a page is scripted for every query (`/x?*`).
    has_any_query: bool,
    fallback: Arc<ResponseScript>,
    graph: Option<Arc<Graph>>,
}

/// The source of a response.
pub(crate) enum ResponseSource {
    ScriptedPage(Arc<ResponseScript>),
    /// A page of a graph.
    Page(Arc<Graph>, PageId),
}

impl SiteContent {
    pub(crate) fn find(&self, request: &ReceivedRequest<'_>) -> ResponseSource {
        if let Some((_, script)) = self.conditional.iter().find(|(wanted, _)| wanted.matches(request)) {
            return ResponseSource::ScriptedPage(Arc::clone(script));
        }
        let mut page = None;
        if self.has_host_names {
            page = self.pages.get(format!("//{}{}", request.host_name(), request.target).as_str());
        }
        page = page.or_else(|| self.pages.get(request.target));
        if self.has_any_query && page.is_none() {
            page = request.target.split_once('?').and_then(|(path, _)| self.pages.get(format!("{path}?*").as_str()));
        }
        if let Some(script) = page.and_then(ScriptedPage::next_script) {
            return ResponseSource::ScriptedPage(Arc::clone(script));
        }
        if let Some(graph) = &self.graph
            && let Some(id) = graph.page_at(request.host_name(), request.target)
        {
            return ResponseSource::Page(Arc::clone(graph), id);
        }
        ResponseSource::ScriptedPage(Arc::clone(&self.fallback))
    }
}
