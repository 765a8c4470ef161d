//! [`CrawlBuilder`]: the settings of a crawl, and how it is started.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use argiope_core::crawl::hooks::{BodyWriter, OutgoingRequest, ResponseStart};
use argiope_core::crawl::rules::{
    BadValue, Config, ConfigError, HeaderLine, Pace, ProgramSettings, RenderMode, RobotsPolicy, Root, Rules, ScopeKind,
    Size, Span,
};
use argiope_core::crawl::transport::Transport;
use argiope_core::page::follow::{LinkVerdict, PageLink};
use argiope_core::page::reader::DeliveredBodies;
use argiope_core::{Link, Url};
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::shared_hosts::SharedHosts;
use tokio::sync::oneshot;

use crate::crawl::Means;
use crate::hooks::{Filter, Hooks, LinkingPage, OnRequest};
use crate::library_messages::in_library_words;
use crate::own_resolver::OwnResolver;
use crate::settings;
use crate::sink::{self, CLOSURE_INTERVAL, ClosureSink, Sink, SinkError};
use crate::{Crawl, CrawlHandle, Error, Page, Pages, Request, Store, Summary};

/// The settings of a crawl. Created by [`Crawl::builder`].
///
/// ```
/// # async fn run() -> Result<(), argiope::Error> {
/// let mut crawl = argiope::Crawl::builder("https://example.com/docs/")
///     .max_pages(100)
///     .exclude(r"\.pdf$")
///     .start()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CrawlBuilder {
    config: Config,
    /// Headers by name and value. They are checked when the crawl starts.
    header: Vec<(String, String)>,
    /// Roots that are requests.
    requests: Vec<Request>,
    bodies: DeliveredBodies,
    hooks: Hooks,
    /// Answers the requests in place of the network.
    transport: Option<SharedTransport>,
    /// See [`CrawlBuilder::refuse_private_roots`].
    refuse_private_roots: bool,
    /// The hosts of the [`Crawler`](crate::Crawler) to which the crawl belongs.
    hosts: Option<SharedHosts>,
}

/// A transport. It is taken by the first crawl that the builder or one of its clones starts.
#[derive(Clone)]
struct SharedTransport(Arc<Mutex<Option<Box<dyn Transport>>>>);

impl fmt::Debug for SharedTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedTransport")
    }
}

/// Where a crawl begins: a URL, a host name or a [`Request`]. A host name is tried with https first, then with http.
///
/// Methods such as [`Crawl::builder`] take all types that convert to it: text, [`Url`]s and requests.
#[derive(Clone, Debug)]
pub struct Seed(SeedKind);

#[derive(Clone, Debug)]
enum SeedKind {
    Text(String),
    Request(Box<Request>),
}

impl From<String> for Seed {
    fn from(text: String) -> Self {
        Self(SeedKind::Text(text))
    }
}

impl From<&str> for Seed {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&String> for Seed {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

impl From<Url> for Seed {
    fn from(url: Url) -> Self {
        url.as_str().into()
    }
}

impl From<Request> for Seed {
    fn from(request: Request) -> Self {
        Self(SeedKind::Request(Box::new(request)))
    }
}

impl Crawl {
    /// Returns the settings of a crawl that begins at `root`: a URL, a host name or a [`Request`](crate::Request). A
    /// host name is tried with https first, then with http.
    pub fn builder(root: impl Into<Seed>) -> CrawlBuilder {
        CrawlBuilder::new(root.into())
    }

    /// Starts a crawl with a given configuration, for example from a file. The crawl is stored in the crawl directory
    /// `config.out`, which is created or resumed, or in memory if `out` is not set.
    ///
    /// # Errors
    ///
    /// A setting cannot be used or has no effect, or the crawl directory cannot be opened.
    pub async fn start(config: &Config) -> Result<Self, Error> {
        CrawlBuilder::from_config(config.clone()).start().await
    }
}

impl CrawlBuilder {
    pub(crate) fn new(root: Seed) -> Self {
        Self::from_config(Config::default()).root(root)
    }

    /// The settings of a given configuration, and the defaults of the library: HTML bodies are delivered, and there are
    /// no hooks.
    pub(crate) fn from_config(config: Config) -> Self {
        let (header, requests, hooks) = (Vec::new(), Vec::new(), Hooks::default());
        let (bodies, transport, refuse_private_roots) = (DeliveredBodies::Html, None, false);
        Self { config, header, requests, bodies, hooks, transport, refuse_private_roots, hosts: None }
    }

    /// Applies a change to the configuration.
    fn set(mut self, set: impl FnOnce(&mut Config)) -> Self {
        set(&mut self.config);
        self
    }

    /// Adds a root: a URL, a host name or a [`Request`]. A host name is tried with https first, then with http.
    ///
    /// ```
    /// # fn run() -> Result<(), argiope::Error> {
    /// use argiope::{Crawl, Request};
    ///
    /// let search = Request::post("https://example.com/search")?.form([("q", "orb web")]).user_data("search");
    /// let crawl = Crawl::builder("https://example.com/").root(search).root("example.org");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn root(mut self, root: impl Into<Seed>) -> Self {
        match root.into().0 {
            SeedKind::Text(text) => self.config.roots.push(text),
            SeedKind::Request(request) => self.requests.push(*request),
        }
        self
    }

    /// Adds several roots.
    ///
    /// ```
    /// let crawl = argiope::Crawl::builder("https://example.com/").roots(["example.org", "example.net"]);
    /// ```
    #[must_use]
    pub fn roots<R: Into<Seed>>(self, roots: impl IntoIterator<Item = R>) -> Self {
        roots.into_iter().fold(self, Self::root)
    }

    /// Stores the crawl in a directory. It can resume after an interruption, and results are durable before pages are
    /// delivered. Pages that your program had not processed when an earlier run ended are fetched and delivered again,
    /// except those of requests that must not be repeated, such as a POST.
    /// A directory with a finished crawl delivers nothing, unless there are new roots or requests, or
    /// [`recrawl`](Self::recrawl) is set.
    #[must_use]
    pub fn directory(self, directory: impl Into<PathBuf>) -> Self {
        self.set(|config| config.out = Some(directory.into()))
    }

    /// Starts over if the directory contains an earlier crawl. Cannot be combined with [`recrawl`](Self::recrawl).
    #[must_use]
    pub fn fresh(self) -> Self {
        self.set(|config| config.fresh = true)
    }

    /// Requests all pages again if the directory contains a finished crawl. An interrupted crawl is resumed, and a new
    /// directory gets its first crawl, so that the same program can run every day.
    #[must_use]
    pub fn recrawl(self) -> Self {
        self.set(|config| config.recrawl = true)
    }

    /// Sets which links are followed. The default is the host of each root.
    #[must_use]
    pub fn scope(self, scope: ScopeKind) -> Self {
        self.set(|config| config.scope = scope)
    }

    /// Follows only URLs that match this regular expression, or another one added with this method.
    #[must_use]
    pub fn include(self, pattern: impl Into<String>) -> Self {
        self.set(|config| config.include.push(pattern.into()))
    }

    /// Does not follow URLs that match this regular expression.
    #[must_use]
    pub fn exclude(self, pattern: impl Into<String>) -> Self {
        self.set(|config| config.exclude.push(pattern.into()))
    }

    /// On pages that this CSS selector matches, follows only the links in matching elements, or in those of another
    /// selector added with this method. Pages without a match are not limited.
    #[must_use]
    pub fn pick(self, css: impl Into<String>) -> Self {
        self.set(|config| config.pick.push(css.into()))
    }

    /// Follows links at most this many steps from a root.
    #[must_use]
    pub fn depth(self, depth: u32) -> Self {
        self.set(|config| config.depth = Some(depth))
    }

    /// Fetches at most this number of pages. The limit is exact, and counts the pages of all runs in a crawl directory.
    #[must_use]
    pub fn max_pages(self, pages: u64) -> Self {
        self.set(|config| config.max_pages = Some(pages))
    }

    /// Ends the crawl after this time.
    #[must_use]
    pub fn max_time(self, time: Duration) -> Self {
        self.set(|config| config.max_time = Some(Span(time)))
    }

    /// Limits the time of one fetch. Time in which the crawl itself pauses, because pages are read slowly, does not
    /// count.
    #[must_use]
    pub fn timeout(self, time: Duration) -> Self {
        self.set(|config| config.timeout = Span(time))
    }

    /// Sets how often a URL is tried, including the first attempt.
    #[must_use]
    pub fn max_tries(self, tries: u8) -> Self {
        self.set(|config| config.max_tries = tries)
    }

    /// Follows at most this many redirects in a row.
    #[must_use]
    pub fn max_redirects(self, redirects: u8) -> Self {
        self.set(|config| config.max_redirects = redirects)
    }

    /// Also follows links into private networks. A root may always be in one.
    #[must_use]
    pub fn allow_private(self) -> Self {
        self.set(|config| config.allow_private = true)
    }

    /// Refuses roots in private networks too, such as `http://127.0.0.1/` or a host name that leads there. Use it if
    /// strangers name the roots: otherwise they could reach your own network through your program. The page of such a
    /// root has the error [`ErrorKind::PrivateAddress`](crate::ErrorKind::PrivateAddress). Cannot be combined with
    /// [`allow_private`](Self::allow_private).
    #[must_use]
    pub fn refuse_private_roots(mut self) -> Self {
        self.refuse_private_roots = true;
        self
    }

    /// Reads at most this many bytes of a body.
    #[must_use]
    pub fn max_size(self, bytes: u64) -> Self {
        self.set(|config| config.max_size = Size(bytes))
    }

    /// Limits the memory of the crawl. Responses that are not written yet take at most 256 MiB of it.
    #[must_use]
    pub fn max_memory(self, bytes: u64) -> Self {
        self.set(|config| config.max_memory = Some(Size(bytes)))
    }

    /// Also reads `/sitemap.xml`, even if robots.txt does not name it.
    #[must_use]
    pub fn sitemap(self) -> Self {
        self.set(|config| config.sitemap = true)
    }

    /// Reads no sitemaps, not even those that robots.txt names.
    #[must_use]
    pub fn no_sitemap(self) -> Self {
        self.set(|config| config.no_sitemap = true)
    }

    /// Limits the number of fetches in flight over all hosts.
    #[must_use]
    pub fn concurrency(self, fetches: usize) -> Self {
        self.set(|config| config.concurrency = fetches)
    }

    /// Sets the minimum time between the starts of two requests to one host.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        self.set(|config| config.delay = Span(delay))
    }

    /// Sets how fast requests are sent to a host. [`Pace::Gentle`] uses one connection, so it cannot be combined with
    /// more than one in `per_host` of the configuration.
    #[must_use]
    pub fn pace(self, pace: Pace) -> Self {
        self.set(|config| config.pace = pace)
    }

    /// Sets whether the scripts of pages are run in a headless browser. The default is [`RenderMode::Never`]. The links of
    /// the rendered document are followed, and [`Page::title`] and [`Page::record`] are those of it. What is read from the
    /// body is that of the response. Without a browser, the crawl does not start. More settings are those of the command,
    /// in [`CrawlBuilder::configure`].
    ///
    /// ```no_run
    /// use argiope::{Crawl, RenderMode};
    ///
    /// let pages = Crawl::builder("https://app.example/").render(RenderMode::Auto).start_blocking()?;
    /// pages.for_each(|page| println!("{} {}", page.url(), page.title().unwrap_or_default()));
    /// # Ok::<(), argiope::Error>(())
    /// ```
    #[must_use]
    pub fn render(self, mode: RenderMode) -> Self {
        self.set(|config| config.render = mode)
    }

    /// Sets whether robots.txt is obeyed. The default is to obey it.
    #[must_use]
    pub fn robots(self, policy: RobotsPolicy) -> Self {
        self.set(|config| config.robots = policy)
    }

    /// Sets the `User-Agent` header. Its first product name is the name looked up in robots.txt.
    #[must_use]
    pub fn user_agent(self, agent: impl Into<String>) -> Self {
        self.set(|config| config.user_agent = Some(agent.into()))
    }

    /// Sends a header to the origins of the roots.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.header.push((name.into(), value.into()));
        self
    }

    /// Sets which bodies are delivered with pages. The default is HTML only. With [`DeliveredBodies::None`], pages have
    /// no headers either.
    #[must_use]
    pub fn bodies(mut self, bodies: DeliveredBodies) -> Self {
        self.bodies = bodies;
        self
    }

    /// Calls `follow` for every URL in scope that a page links to. If it returns `false`, this page does not add the
    /// URL to the crawl; another page may. It runs on the worker threads while a page is read, so it must be quick.
    ///
    /// It is called once for each URL of a page, with the text and `rel` of the first link that has them. If a URL must
    /// be judged by all its links, refuse all links here and [`feed`](Crawl::feed) those that
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
    #[must_use]
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
    #[must_use]
    pub fn judge(
        mut self,
        judge: impl Fn(&PageLink<'_>, &LinkingPage<'_>) -> LinkVerdict + Send + Sync + 'static,
    ) -> Self {
        self.hooks.filter = Some(Filter::Judge(Arc::new(judge)));
        self
    }

    /// Calls `hook` before each request for a page or a sitemap, also before a retry. It can set headers, for example
    /// to sign the request, or abort the request. It runs on the scheduling thread, so it must be quick.
    ///
    /// ```
    /// # fn run(root: &str) {
    /// let crawl = argiope::Crawl::builder(root).on_request(|request| {
    ///     if request.url().path().ends_with(".zip") {
    ///         request.abort("archives are too large");
    ///     }
    ///     let token = format!("{:x}", request.url().path().len());
    ///     request.set_header("X-Token", &token).expect("a header that can be sent");
    /// });
    /// # }
    /// ```
    #[must_use]
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
    #[must_use]
    pub fn on_response(mut self, hook: impl Fn(&ResponseStart<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.hooks.response.wants_body = Some(Arc::new(hook));
        self
    }

    /// Calls `open` with the status and the headers of each page's response. If it returns a writer, such as a file, the
    /// body is written to it while it arrives, with content codings decoded, and is not held in memory. So it may be
    /// larger than memory: set [`max_size`](Self::max_size) and [`timeout`](Self::timeout) to what you expect. The page
    /// is delivered when the writer has been flushed, without a body, but with its length
    /// ([`Facts::bytes_body`](crate::Facts::bytes_body)) and digest, and with [`truncated`](Page::truncated) if the body
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
    #[must_use]
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
    #[must_use]
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
    #[must_use]
    pub fn resolve_with(mut self, resolve: impl Fn(&str) -> Option<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        self.hooks.resolve = Some(OwnResolver(Arc::new(resolve)));
        self
    }

    /// The fetchers of the crawl: its engine, or the transport.
    fn fetchers(&self) -> Result<Fetchers, Error> {
        let fetchers = self.connecting_fetchers()?;
        Ok(match &self.hooks.resolve {
            Some(resolver) => fetchers.preceded_by(Box::new(resolver.clone())),
            None => fetchers,
        })
    }

    fn connecting_fetchers(&self) -> Result<Fetchers, Error> {
        let Some(SharedTransport(shared)) = &self.transport else { return Ok(Fetchers::engine(self.config.engine)) };
        let transport = shared.lock().unwrap_or_else(PoisonError::into_inner).take();
        let used = || Error::input("the transport is used by another crawl of this builder: set one for each crawl");
        transport.map(Fetchers::transport).ok_or_else(used)
    }

    /// The crawl shares these hosts with others.
    pub(crate) fn sharing(self, hosts: &SharedHosts) -> Self {
        Self { hosts: Some(hosts.clone()), ..self }
    }

    /// Changes any other setting of the crawl.
    #[must_use]
    pub fn configure(self, set: impl FnOnce(&mut Config)) -> Self {
        self.set(set)
    }

    /// Checks all settings and compiles them to rules. Of the user's files, only those that the settings name are read.
    fn prepare(mut self) -> Result<(Config, Rules), Error> {
        for (name, value) in std::mem::take(&mut self.header) {
            let line: HeaderLine = format!("{name}: {value}").parse().map_err(|error: BadValue| ConfigError {
                key: "header",
                value: name,
                problem: error.to_string(),
            })?;
            self.config.header.push(line);
        }
        settings::check(&self.config)?;
        if self.refuse_private_roots && self.config.allow_private {
            let why = "it contradicts `refuse_private_roots`";
            return Err(settings::no_effect("allow_private", "", why));
        }
        let request_urls: Vec<String> = self.requests.iter().map(|request| request.url().to_string()).collect();
        let program = ProgramSettings {
            roots: roots_with_requests(&self.config, self.requests)?,
            delivered_bodies: self.bodies,
            refuse_private_roots: self.refuse_private_roots,
            ..self.hooks.into_program_settings()
        };
        // The scope and the stored settings include the URLs of the requests.
        self.config.roots.extend(request_urls);
        let rules = argiope_runtime::rules(&self.config, program)?;
        Ok((self.config, rules))
    }

    /// Starts the crawl. Files are opened on a separate thread, so that the async executor is not blocked.
    ///
    /// # Errors
    ///
    /// A setting cannot be used, has no effect or contradicts another one, or the crawl directory cannot be opened.
    pub async fn start(self) -> Result<Crawl, Error> {
        off_executor(move || self.open()).await
    }

    /// Starts the crawl and returns its pages as an ordinary iterator, for programs without async.
    ///
    /// # Errors
    ///
    /// As [`CrawlBuilder::start`].
    pub fn start_blocking(self) -> Result<Pages, Error> {
        self.open().map(Pages::new)
    }

    fn open(self) -> Result<Crawl, Error> {
        let (fetchers, hosts) = (self.fetchers()?, self.hosts.clone());
        let (config, rules) = self.prepare().map_err(in_library_words)?;
        let fetchers = with_browser(fetchers, &rules)?;
        Crawl::open(&config, rules, Means { fetchers, hosts })
    }

    /// Runs the crawl to its end and passes every page to `sink`, on this thread.
    ///
    /// # Errors
    ///
    /// As [`CrawlBuilder::start`], and errors that end the crawl early. If `sink` returns an error, the crawl ends, and
    /// the result is an error with [`Error::is_sink`] and that error as its source. The next run in the same directory
    /// delivers the page again.
    pub fn run(self, sink: &mut (impl Sink + ?Sized)) -> Result<Summary, Error> {
        sink::run(self.open()?, sink)
    }

    /// Runs the crawl to its end and calls `each` with every page, on this thread: [`CrawlBuilder::run`] for closures.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), argiope::Error> {
    /// let mut titles = Vec::new();
    /// argiope::Crawl::builder("https://example.com/").for_each(|page, _| {
    ///     titles.extend(page.title().map(str::to_owned));
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`CrawlBuilder::run`].
    pub fn for_each(self, each: impl FnMut(Page, &CrawlHandle) -> Result<(), SinkError>) -> Result<Summary, Error> {
        sink::run_with_interval(self.open()?, &mut ClosureSink(each), CLOSURE_INTERVAL)
    }

    /// As [`CrawlBuilder::run`], with a store of your own, which has all known and queued URLs. Unstable: the traits of a
    /// [`Store`] may change in any release.
    ///
    /// # Errors
    ///
    /// As [`CrawlBuilder::run`]; a directory cannot be combined with a store of your own.
    pub fn run_with_store<S>(self, store: S, sink: &mut (impl Sink + ?Sized)) -> Result<Summary, Error>
    where
        S: Store + Send + 'static,
    {
        if let Some(directory) = &self.config.out {
            let why = "a store of your own has the crawl; leave the directory out";
            return Err(settings::no_effect("directory", directory.display(), why));
        }
        let (fetchers, hosts) = (self.fetchers()?, self.hosts.clone());
        let (_, rules) = self.prepare().map_err(in_library_words)?;
        let fetchers = with_browser(fetchers, &rules)?;
        sink::run(Crawl::open_on(rules, Means { fetchers, hosts }, store)?, sink)
    }
}

/// Adds a browser to the fetchers, if pages are rendered.
fn with_browser(fetchers: Fetchers, rules: &Rules) -> Result<Fetchers, Error> {
    fetchers.with_browser(rules).map_err(|why| Error::input(why.to_string()))
}

/// The roots of the settings, and the roots that are requests. `None` if there are no requests.
fn roots_with_requests(config: &Config, requests: Vec<Request>) -> Result<Option<Vec<Root>>, Error> {
    if requests.is_empty() {
        return Ok(None);
    }
    let max_redirects = config.max_redirects;
    let mut roots = Root::parse_all(&config.roots, config.max_url)?;
    let first_candidate = |(index, root): (usize, &Root)| Some((root.candidates.first()?.clone(), index));
    let mut by_url: HashMap<Url, usize> = roots.iter().enumerate().filter_map(first_candidate).collect();
    for request in requests {
        let url = request.url().clone();
        let link = request.into_link(max_redirects)?;
        match by_url.get(&url).and_then(|index| roots.get_mut(*index)) {
            Some(root) => {
                // This root is given as text, so it is fetched with GET too.
                if root.requests.is_empty() {
                    root.requests.push(Link::root(url, max_redirects));
                }
                root.requests.push(link);
            }
            None => {
                by_url.insert(url.clone(), roots.len());
                roots.push(Root { candidates: vec![url], requests: vec![link] });
            }
        }
    }
    Ok(Some(roots))
}

/// Runs blocking work on a separate thread.
pub(crate) async fn off_executor<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("argiope-start".into());
    let run = move || {
        // Ignored: the future that waits for this may have been dropped.
        let _ = sender.send(work());
    };
    thread.spawn(run).map_err(Error::no_thread)?;
    receiver.await.unwrap_or_else(|_| Err(Error::internal("the thread that starts the crawl died")))
}
