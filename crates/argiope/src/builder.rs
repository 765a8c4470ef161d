//! [`CrawlBuilder`]: the settings of a crawl, and how it is started.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use argiope_core::crawl::rules::{
    BadValue, Config, ConfigError, HeaderLine, Pace, ProgramSettings, RenderMode, RobotsPolicy, Root, Rules, ScopeKind,
    Size, Span,
};
use argiope_core::crawl::transport::Transport;
use argiope_core::page::reader::DeliveredBodies;
use argiope_core::{Link, Url};
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::{SharedParts, SharedThreads};
use tokio::sync::oneshot;

use crate::crawl::Means;
use crate::hooks::Hooks;
use crate::library_messages::in_library_words;
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
#[derive(Clone)]
#[must_use = "a crawl does nothing until it is started"]
pub struct CrawlBuilder {
    config: Config,
    /// Headers by name and value. They are checked when the crawl starts.
    header: Vec<(String, String)>,
    /// Roots that are requests.
    requests: Vec<Request>,
    bodies: DeliveredBodies,
    pub(crate) hooks: Hooks,
    /// Answers the requests in place of the network.
    pub(crate) transport: Option<SharedTransport>,
    /// See [`CrawlBuilder::refuse_private_roots`].
    refuse_private_roots: bool,
    /// The parts of the [`Crawler`](crate::Crawler) to which the crawl belongs.
    shared: Option<SharedParts>,
}

impl fmt::Debug for CrawlBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrawlBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A transport. It is taken by the first crawl that the builder or one of its clones starts.
#[derive(Clone)]
pub(crate) struct SharedTransport(pub Arc<Mutex<Option<Box<dyn Transport>>>>);

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
        Self { config, header, requests, bodies, hooks, transport, refuse_private_roots, shared: None }
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
    pub fn roots<R: Into<Seed>>(self, roots: impl IntoIterator<Item = R>) -> Self {
        roots.into_iter().fold(self, Self::root)
    }

    /// Stores the crawl in a directory. It can resume after an interruption, and results are durable before pages are
    /// delivered. Pages that your program had not processed when an earlier run ended are fetched and delivered again,
    /// except those of requests that must not be repeated, such as a POST.
    /// A directory with a finished crawl delivers nothing, unless there are new roots or requests, or
    /// [`recrawl`](Self::recrawl) is set.
    pub fn directory(self, directory: impl Into<PathBuf>) -> Self {
        self.set(|config| config.out = Some(directory.into()))
    }

    /// Starts over if the directory contains an earlier crawl. Cannot be combined with [`recrawl`](Self::recrawl).
    pub fn fresh(self) -> Self {
        self.set(|config| config.fresh = true)
    }

    /// Requests all pages again if the directory contains a finished crawl. An interrupted crawl is resumed, and a new
    /// directory gets its first crawl, so that the same program can run every day.
    pub fn recrawl(self) -> Self {
        self.set(|config| config.recrawl = true)
    }

    /// Sets which links are followed. The default is the host of each root.
    pub fn scope(self, scope: ScopeKind) -> Self {
        self.set(|config| config.scope = scope)
    }

    /// Follows only URLs that match this regular expression, or another one added with this method.
    pub fn include(self, pattern: impl Into<String>) -> Self {
        self.set(|config| config.include.push(pattern.into()))
    }

    /// Does not follow URLs that match this regular expression.
    pub fn exclude(self, pattern: impl Into<String>) -> Self {
        self.set(|config| config.exclude.push(pattern.into()))
    }

    /// On pages that this CSS selector matches, follows only the links in matching elements, or in those of another
    /// selector added with this method. Pages without a match are not limited.
    pub fn pick(self, css: impl Into<String>) -> Self {
        self.set(|config| config.pick.push(css.into()))
    }

    /// Follows links at most this many steps from a root.
    pub fn depth(self, depth: u32) -> Self {
        self.set(|config| config.depth = Some(depth))
    }

    /// Fetches at most this number of pages. The limit is exact, and counts the pages of all runs in a crawl directory.
    pub fn max_pages(self, pages: u64) -> Self {
        self.set(|config| config.max_pages = Some(pages))
    }

    /// Ends the crawl after this time.
    pub fn max_time(self, time: Duration) -> Self {
        self.set(|config| config.max_time = Some(Span(time)))
    }

    /// Limits the time of one fetch. Time in which the crawl itself pauses, because pages are read slowly, does not
    /// count.
    pub fn timeout(self, time: Duration) -> Self {
        self.set(|config| config.timeout = Span(time))
    }

    /// Sets how often a URL is tried, including the first attempt.
    pub fn max_tries(self, tries: u8) -> Self {
        self.set(|config| config.max_tries = tries)
    }

    /// Follows at most this many redirects in a row.
    pub fn max_redirects(self, redirects: u8) -> Self {
        self.set(|config| config.max_redirects = redirects)
    }

    /// Also follows links into private networks. A root may always be in one.
    pub fn allow_private(self) -> Self {
        self.set(|config| config.allow_private = true)
    }

    /// Refuses roots in private networks too, such as `http://127.0.0.1/` or a host name that leads there. Use it if
    /// strangers name the roots: otherwise they could reach your own network through your program. The page of such a
    /// root has the error [`ErrorKind::PrivateAddress`](crate::ErrorKind::PrivateAddress). Cannot be combined with
    /// [`allow_private`](Self::allow_private).
    pub fn refuse_private_roots(mut self) -> Self {
        self.refuse_private_roots = true;
        self
    }

    /// Reads at most this many bytes of a body.
    pub fn max_size(self, bytes: u64) -> Self {
        self.set(|config| config.max_size = Size(bytes))
    }

    /// Limits the memory of the crawl. Responses that are not written yet take at most 256 MiB of it.
    pub fn max_memory(self, bytes: u64) -> Self {
        self.set(|config| config.max_memory = Some(Size(bytes)))
    }

    /// Also reads `/sitemap.xml`, even if robots.txt does not name it.
    pub fn sitemap(self) -> Self {
        self.set(|config| config.sitemap = true)
    }

    /// Reads no sitemaps, not even those that robots.txt names.
    pub fn no_sitemap(self) -> Self {
        self.set(|config| config.no_sitemap = true)
    }

    /// Limits the number of fetches in flight over all hosts.
    pub fn concurrency(self, fetches: usize) -> Self {
        self.set(|config| config.concurrency = fetches)
    }

    /// Sets the minimum time between the starts of two requests to one host.
    pub fn delay(self, delay: Duration) -> Self {
        self.set(|config| config.delay = Span(delay))
    }

    /// Sets how fast requests are sent to a host. [`Pace::Gentle`] uses one connection, so it cannot be combined with
    /// more than one in `per_host` of the configuration.
    pub fn pace(self, pace: Pace) -> Self {
        self.set(|config| config.pace = pace)
    }

    /// Sets whether the scripts of pages are run in a headless browser. The default is [`RenderMode::Never`]. The links of
    /// the rendered document are followed, and [`Page::body`], [`Page::title`] and what is read from them are those of it.
    /// Without a browser, the crawl does not start. More settings are those of the command, in
    /// [`CrawlBuilder::configure`].
    ///
    /// ```no_run
    /// use argiope::{Crawl, RenderMode};
    ///
    /// let pages = Crawl::builder("https://app.example/").render(RenderMode::Auto).start_blocking()?;
    /// pages.for_each(|page| println!("{} {}", page.url(), page.title().unwrap_or_default()));
    /// # Ok::<(), argiope::Error>(())
    /// ```
    pub fn render(self, mode: RenderMode) -> Self {
        self.set(|config| config.render = mode)
    }

    /// Sets whether robots.txt is obeyed. The default is to obey it.
    pub fn robots(self, policy: RobotsPolicy) -> Self {
        self.set(|config| config.robots = policy)
    }

    /// Sets the `User-Agent` header. Its first product name is the name looked up in robots.txt.
    pub fn user_agent(self, agent: impl Into<String>) -> Self {
        self.set(|config| config.user_agent = Some(agent.into()))
    }

    /// Sends a header to the origins of the roots.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.header.push((name.into(), value.into()));
        self
    }

    /// Sets which bodies are delivered with pages. The default is HTML only. With [`DeliveredBodies::None`], pages have
    /// no headers either.
    pub fn bodies(mut self, bodies: DeliveredBodies) -> Self {
        self.bodies = bodies;
        self
    }

    /// The fetchers of the crawl: its engine, on threads of its own or shared ones, or the transport.
    fn fetchers(&self, threads: Option<&SharedThreads>) -> Result<Fetchers, Error> {
        let fetchers = self.connecting_fetchers(threads)?;
        let fetchers = match &self.hooks.answers {
            Some(answers) => fetchers.preceded_by(Box::new(answers.clone())),
            None => fetchers,
        };
        Ok(match &self.hooks.resolve {
            Some(resolver) => fetchers.preceded_by(Box::new(resolver.clone())),
            None => fetchers,
        })
    }

    fn connecting_fetchers(&self, threads: Option<&SharedThreads>) -> Result<Fetchers, Error> {
        let Some(SharedTransport(shared)) = &self.transport else {
            let engine = self.config.engine;
            let own = || Ok(Fetchers::engine(engine));
            return threads
                .map_or_else(own, |threads| Fetchers::shared_engine(engine, threads))
                .map_err(Error::no_thread);
        };
        let transport = shared.lock().unwrap_or_else(PoisonError::into_inner).take();
        let used = || Error::input("the transport is used by another crawl of this builder: set one for each crawl");
        transport.map(Fetchers::transport).ok_or_else(used)
    }

    /// The crawl shares these parts with others.
    pub(crate) fn sharing(self, shared: &SharedParts) -> Self {
        Self { shared: Some(shared.clone()), ..self }
    }

    /// The threads that the crawl shares with others. A browser and a store of the user may block, so a crawl with one
    /// of them has threads of its own.
    fn shared_threads(&self) -> Option<SharedThreads> {
        let shared = self.shared.as_ref().filter(|_| self.config.render == RenderMode::Never);
        shared.map(|shared| shared.threads.clone())
    }

    /// Changes any other setting of the crawl.
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
        if self.hooks.pem.identity.is_some() && (self.config.cert.is_some() || self.config.key.is_some()) {
            return Err(settings::no_effect("cert", "", "contradicts `client_certificate`; set one of them"));
        }
        let pem = Arc::clone(&self.hooks.pem);
        let request_urls: Vec<String> = self.requests.iter().map(|request| request.url().to_string()).collect();
        let program = ProgramSettings {
            roots: roots_with_requests(&self.config, self.requests)?,
            delivered_bodies: self.bodies,
            refuse_private_roots: self.refuse_private_roots,
            ..self.hooks.into_program_settings()
        };
        // The scope and the stored settings include the URLs of the requests.
        self.config.roots.extend(request_urls);
        let rules = argiope_runtime::rules_with(&self.config, program, &pem, self.shared.as_ref())?;
        Ok((self.config, rules))
    }

    /// Starts the crawl. Files are opened on a separate thread, so that the async executor is not blocked.
    ///
    /// # Errors
    ///
    /// A setting cannot be used, has no effect or contradicts another one, or the crawl directory cannot be opened.
    pub async fn start(self) -> Result<Crawl, Error> {
        // A crawl in memory starts within milliseconds. One with a directory may have much to read.
        let threads = self.shared_threads().filter(|_| self.config.out.is_none());
        off_executor(threads.as_ref(), move || self.open()).await
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
        let fetchers = self.fetchers(self.shared_threads().as_ref())?;
        let hosts = self.shared.as_ref().map(|shared| shared.hosts.clone());
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
        let fetchers = self.fetchers(None)?;
        let hosts = self.shared.as_ref().map(|shared| shared.hosts.clone());
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

/// Runs blocking work on a thread of its own, or on that of a crawler.
pub(crate) async fn off_executor<T: Send + 'static>(
    threads: Option<&SharedThreads>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (sender, receiver) = oneshot::channel();
    let run = move || {
        // Ignored: the future that waits for this may have been dropped.
        let _ = sender.send(work());
    };
    let started = match threads {
        Some(threads) => threads.run_blocking(run),
        None => std::thread::Builder::new().name("argiope-start".into()).spawn(run).map(drop),
    };
    started.map_err(Error::no_thread)?;
    receiver.await.unwrap_or_else(|_| Err(Error::internal("the thread that starts the crawl died")))
}
