//! The methods of [`CrawlBuilder`] that take closures and other code or data of the program: what happens to links,
//! requests and responses, and what the crawl connects with.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use argiope_core::Url;
use argiope_core::crawl::canned::CannedResponse;
use argiope_core::crawl::hooks::{BodyWriter, OutgoingRequest, PageAttempt, ResponseStart, RetryChoice};
use argiope_core::crawl::transport::Transport;
use argiope_core::page::follow::{LinkVerdict, PageLink};

use crate::CrawlBuilder;
use crate::builder::SharedTransport;
use crate::hooks::{Filter, LinkingPage, OnRequest, OnRetry};
use crate::own_answers::OwnAnswers;
use crate::own_resolver::OwnResolver;

impl CrawlBuilder {
    /// Calls `follow` for every URL in scope that a page links to. If it returns `false`, this page does not add the
    /// URL to the crawl; another page may. It runs on the worker threads while a page is read, so it must be quick.
    ///
    /// It is called once for each URL of a page, with the text and `rel` of the first link that has them. If a URL must
    /// be judged by all its links, refuse all links here and [`feed`](crate::Crawl::feed) those that
    /// [`Page::select`](crate::Page::select) finds. If a page is rendered, it is called for the links of the response, and
    /// again for those of the rendered document.
    ///
    /// If the closure panics, the page fails with [`ErrorKind::Hook`](crate::ErrorKind::Hook), and the message names
    /// the closure and the link. A panic of [`on_response`](Self::on_response) is reported in the same way. If
    /// [`on_request`](Self::on_request) panics, no request is sent, and the page is refused with this kind of error.
    ///
    /// ```
    /// # fn run(root: &str) {
    /// let crawl = argiope::Crawl::builder(root).follow(|link| link.text != "Log out" && !link.rel.contains("tag"));
    /// # }
    /// ```
    pub fn follow(mut self, follow: impl Fn(&PageLink<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.hooks.filter = Some(Filter::Follow(Arc::new(follow)));
        self
    }

    /// Calls `judge` for every URL in scope that a page links to, as [`follow`](Self::follow) does, and fetches links in
    /// the order of their priorities: a host takes the link with the highest priority of all that are known when it can
    /// send a request, and hosts whose next link has a high priority come first. The closure gets the page too, with
    /// its text.
    ///
    /// It replaces `follow`. It runs on the worker threads.
    ///
    /// ```
    /// use argiope::LinkVerdict::{Later, Skip, With};
    ///
    /// # fn run(root: &str) {
    /// let crawl = argiope::Crawl::builder(root).max_pages(60).judge(|link, page| {
    ///     if link.text.contains("Log out") {
    ///         Skip
    ///     } else if link.text.contains("spider") {
    ///         With(10)
    ///     } else if page.text().contains("spider") {
    ///         With(5)
    ///     } else {
    ///         Later
    ///     }
    /// });
    /// # }
    /// ```
    pub fn judge(
        mut self,
        judge: impl Fn(&PageLink<'_>, &LinkingPage<'_>) -> LinkVerdict + Send + Sync + 'static,
    ) -> Self {
        self.hooks.filter = Some(Filter::Judge(Arc::new(judge)));
        self
    }

    /// Calls `hook` before each request for a page or a sitemap, also before a retry. It can set headers or the path and
    /// query that are sent, for example to sign the request, or abort the request. It runs on the scheduling thread, so it
    /// must be quick.
    ///
    /// ```
    /// # fn run(root: &str) {
    /// let crawl = argiope::Crawl::builder(root).on_request(|request| {
    ///     if request.url().path().ends_with(".zip") {
    ///         request.abort("archives are too large");
    ///     }
    ///     let token = format!("{:x}", request.url().path().len());
    ///     request.set_header("X-Token", &token).expect("a header that can be sent");
    ///     let signed = format!("{}?signature={token}", request.url().path());
    ///     request.set_target(&signed).expect("a target that can be sent");
    /// });
    /// # }
    /// ```
    pub fn on_request(mut self, hook: impl Fn(&mut OutgoingRequest<'_>) + Send + Sync + 'static) -> Self {
        self.hooks.request = Some(OnRequest(Arc::new(hook)));
        self
    }

    /// Calls `hook` with the status and the headers of each page's response. If it returns `false`, the body is not
    /// read, and the record has `"truncated":"hook"`. It runs on the worker threads, so it must be quick. It is not called
    /// for the document that rendering makes of a response.
    ///
    /// ```
    /// # fn run(root: &str) {
    /// let crawl = argiope::Crawl::builder(root)
    ///     .on_response(|response| response.header("content-type").is_some_and(|kind| kind.starts_with("text/html")));
    /// # }
    /// ```
    pub fn on_response(mut self, hook: impl Fn(&ResponseStart<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.hooks.response.wants_body = Some(Arc::new(hook));
        self
    }

    /// Calls `open` with the status and the headers of each page's response. If it returns a writer, such as a file, the
    /// body is written to it while it arrives, with content codings decoded, and is not held in memory. So it may be
    /// larger than memory: set [`max_size`](Self::max_size) and [`timeout`](Self::timeout) to what you expect. The page
    /// is delivered when the writer has been flushed, without a body, but with its length
    /// ([`Facts::bytes_body`](crate::Facts::bytes_body)) and digest, and with [`truncated`](crate::Page::truncated) if the body
    /// is incomplete.
    ///
    /// The closure is called once for each attempt. The writer is used on a worker thread, so one that blocks for long
    /// delays other fetches. If it fails, the page fails with [`ErrorKind::Hook`](crate::ErrorKind::Hook).
    ///
    /// ```
    /// # fn run(root: &str) {
    /// let crawl = argiope::Crawl::builder(root).max_size(100 << 30).stream_body(|response| {
    ///     let name = response.url().path().rsplit('/').next().filter(|name| name.ends_with(".iso"))?;
    ///     let file = std::fs::File::create_new(format!("images/{name}")).ok()?;
    ///     Some(Box::new(file))
    /// });
    /// # }
    /// ```
    pub fn stream_body(
        mut self,
        open: impl Fn(&ResponseStart<'_>) -> Option<BodyWriter> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.response.stream_body = Some(Arc::new(open));
        self
    }

    /// Answers all requests of the crawl without a network, in virtual time: from an archive,
    /// or from pages of a test ([`CannedWeb`](crate::CannedWeb)). Delays and slow responses
    /// take no time, and every run is the same.
    ///
    /// ```
    /// # async fn run() -> Result<(), argiope::Error> {
    /// use argiope::{CannedResponse, CannedWeb, Crawl};
    ///
    /// let web = CannedWeb::from([
    ///     ("https://example.com/", CannedResponse::html("<a href=/about>About</a>")),
    ///     ("https://example.com/about", CannedResponse::html("<title>About</title>")),
    /// ]);
    /// let mut crawl = Crawl::builder("https://example.com/").with_transport(web).start().await?;
    /// while let Some(page) = crawl.next().await {
    ///     println!("{} {:?}", page.url(), page.title());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_transport(mut self, transport: impl Transport + 'static) -> Self {
        self.transport = Some(SharedTransport(Arc::new(Mutex::new(Some(Box::new(transport))))));
        self
    }

    /// Asks `resolve` for the addresses of each host name, in place of the system. `None` leaves the name to the system,
    /// and an empty list means that the host does not exist. Addresses of private networks are refused as ever. It runs
    /// on the scheduling thread, so it must be quick: look names up before, or keep them in memory.
    ///
    /// ```
    /// # fn run(root: &str, hosts: std::collections::HashMap<String, std::net::IpAddr>) {
    /// let crawl = argiope::Crawl::builder(root).resolve_with(move |host| hosts.get(host).map(|address| vec![*address]));
    /// # }
    /// ```
    pub fn resolve_with(mut self, resolve: impl Fn(&str) -> Option<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        self.hooks.resolve = Some(OwnResolver(Arc::new(resolve)));
        self
    }

    /// Calls `choose` after every attempt at a page, also after one that succeeded, and tries again or not as it says.
    /// [`max_tries`](Self::max_tries) and the wait between attempts hold, and a request that must not be repeated, such as
    /// a POST, is not sent again. An attempt that is followed by another one is not delivered. It runs on the scheduling
    /// thread, so it must be quick. If it panics, the page fails with [`ErrorKind::Hook`](crate::ErrorKind::Hook).
    ///
    /// ```
    /// use argiope::RetryChoice;
    ///
    /// # fn run(root: &str) {
    /// let crawl = argiope::Crawl::builder(root).retry_if(|attempt| match attempt.status() {
    ///     Some(403) => RetryChoice::Again,
    ///     Some(200) if attempt.title() == Some("One moment, please") => RetryChoice::Again,
    ///     Some(500) => RetryChoice::GiveUp,
    ///     _ => RetryChoice::AsUsual,
    /// });
    /// # }
    /// ```
    pub fn retry_if(mut self, choose: impl Fn(&PageAttempt<'_>) -> RetryChoice + Send + Sync + 'static) -> Self {
        self.hooks.retry = Some(OnRetry(Arc::new(choose)));
        self
    }

    /// Asks `answer` for a response before each GET, also of robots.txt and sitemaps: a response cache of your own. `None`
    /// sends the request. A page that was answered is like every other; fill the cache from [`Page::headers`] and
    /// [`Page::body`]. Delays and DNS are as ever: see [`resolve_with`](Self::resolve_with). It runs on the scheduling
    /// thread and its pages are read there, so it suits caches in memory.
    ///
    /// [`Page::headers`]: crate::Page::headers
    /// [`Page::body`]: crate::Page::body
    ///
    /// ```
    /// # fn run(root: &str, cache: std::collections::HashMap<String, String>) {
    /// use argiope::CannedResponse;
    ///
    /// let crawl = argiope::Crawl::builder(root)
    ///     .answer_with(move |url| cache.get(url.as_str()).map(|html| CannedResponse::html(html.as_str())));
    /// # }
    /// ```
    pub fn answer_with(mut self, answer: impl Fn(&Url) -> Option<CannedResponse> + Send + Sync + 'static) -> Self {
        self.hooks.answers = Some(OwnAnswers::new(Arc::new(answer)));
        self
    }

    /// Sets the `User-Agent` header for one host. Its first product name is the name looked up in the robots.txt of this
    /// host, which is requested with it too. Other hosts get [`user_agent`](Self::user_agent). A browser that renders pages
    /// tells scripts the latter.
    ///
    /// ```
    /// let crawl = argiope::Crawl::builder("https://example.com/").user_agent_for("example.com", "partner/2.0");
    /// ```
    pub fn user_agent_for(mut self, host: impl Into<String>, agent: impl Into<String>) -> Self {
        self.hooks.agents.push((host.into(), agent.into()));
        self
    }

    /// Trusts these authorities too, in PEM, as a file that the setting `ca_cert` names.
    ///
    /// ```
    /// # fn run(root: &str, pem: &[u8]) {
    /// let crawl = argiope::Crawl::builder(root).trust_certificates(pem);
    /// # }
    /// ```
    pub fn trust_certificates(mut self, pem: impl AsRef<[u8]>) -> Self {
        let known = Arc::make_mut(&mut self.hooks.pem);
        known.authorities.extend_from_slice(pem.as_ref());
        known.authorities.push(b'\n');
        self
    }

    /// Identifies the crawl to the hosts of its roots with this certificate and key, both in PEM, as the files that the
    /// settings `cert` and `key` name. Cannot be combined with these.
    ///
    /// ```
    /// # fn run(root: &str, certificate: &[u8], key: &[u8]) {
    /// let crawl = argiope::Crawl::builder(root).client_certificate(certificate, key);
    /// # }
    /// ```
    pub fn client_certificate(mut self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        let identity = (certificate.as_ref().to_vec(), key.as_ref().to_vec());
        Arc::make_mut(&mut self.hooks.pem).identity = Some(identity);
        self
    }
}
