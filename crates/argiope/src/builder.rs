//! [`CrawlBuilder`]: the settings of a crawl, and how it is started.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::http::hooks::{OutgoingRequest, RequestHook, ResponseHook, ResponseStart};
use argiope_core::page::follow::{LinkFilter, PageLink};
use argiope_core::page::reader::DeliveredBodies;
use argiope_core::rules::{
    BadValue, Config, ConfigError, HeaderLine, Pace, RobotsPolicy, Rules, ScopeKind, Size, Span,
};
use tokio::sync::oneshot;

use crate::sink::{Sink, SinkConsumer};
use crate::{Crawl, Error, Pages, Summary};

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
    header: Vec<(String, String)>,
    bodies: DeliveredBodies,
    hooks: Hooks,
}

/// The closures of a crawl.
#[derive(Clone, Debug, Default)]
struct Hooks {
    filter: Option<Filter>,
    request: Option<OnRequest>,
    response: Option<OnResponse>,
}

#[derive(Clone)]
struct OnRequest(Arc<dyn Fn(&mut OutgoingRequest<'_>) + Send + Sync>);

impl std::fmt::Debug for OnRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnRequest")
    }
}

impl RequestHook for OnRequest {
    fn before_request(&self, request: &mut OutgoingRequest<'_>) {
        (self.0)(request);
    }
}

#[derive(Clone)]
struct OnResponse(Arc<dyn Fn(&ResponseStart<'_>) -> bool + Send + Sync>);

impl std::fmt::Debug for OnResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnResponse")
    }
}

impl ResponseHook for OnResponse {
    fn wants_body(&self, response: &ResponseStart<'_>) -> bool {
        (self.0)(response)
    }
}

#[derive(Clone)]
struct Filter(Arc<dyn Fn(&PageLink<'_>) -> bool + Send + Sync>);

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Filter")
    }
}

impl LinkFilter for Filter {
    fn follows(&self, link: &PageLink<'_>) -> bool {
        (self.0)(link)
    }
}

/// Settings that the [`Config`] does not contain, because only the library has them: delivered bodies and closures.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    bodies: DeliveredBodies,
    hooks: Hooks,
}

impl Extras {
    /// The defaults of the library: HTML bodies are delivered, and there are no closures.
    pub(crate) fn library_defaults() -> Self {
        Self { bodies: DeliveredBodies::Html, hooks: Hooks::default() }
    }

    /// Adds these settings to compiled rules.
    pub(crate) fn apply(self, rules: &mut Rules) {
        rules.bodies.delivered = self.bodies;
        let Hooks { filter, request, response } = self.hooks;
        rules.link_filter = filter.map(|filter| Arc::new(filter) as _);
        rules.request_hook = request.map(|hook| Arc::new(hook) as _);
        rules.response_hook = response.map(|hook| Arc::new(hook) as _);
    }
}

impl CrawlBuilder {
    pub(crate) fn new(root: String) -> Self {
        let config = Config { roots: vec![root], ..Config::default() };
        Self { config, header: Vec::new(), bodies: DeliveredBodies::Html, hooks: Hooks::default() }
    }

    fn set(mut self, set: impl FnOnce(&mut Config)) -> Self {
        set(&mut self.config);
        self
    }

    /// Adds a root: a URL, or a host name, which is tried as https, then http.
    #[must_use]
    pub fn root(self, root: impl Into<String>) -> Self {
        self.set(|config| config.roots.push(root.into()))
    }

    /// Stores the crawl in a directory. It can resume after an interruption, and pages are delivered once they are
    /// durable.
    #[must_use]
    pub fn directory(self, directory: impl Into<PathBuf>) -> Self {
        self.set(|config| config.out = Some(directory.into()))
    }

    /// Starts over if the directory contains an earlier crawl.
    #[must_use]
    pub fn fresh(self) -> Self {
        self.set(|config| config.fresh = true)
    }

    /// Requests all pages again if the directory contains a finished crawl.
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

    /// Also reads `/sitemap.xml` if robots.txt names no sitemap.
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

    /// Sets how fast requests are sent to a host.
    #[must_use]
    pub fn pace(self, pace: Pace) -> Self {
        self.set(|config| config.pace = pace)
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

    /// Calls `follow` for every link that is in scope. A link for which it returns `false` is not followed. It runs on
    /// the worker threads while a page is read, so it must be quick.
    ///
    /// ```
    /// # fn run(root: &str) {
    /// let crawl = argiope::Crawl::builder(root).follow(|link| link.text != "Log out" && !link.rel.contains("tag"));
    /// # }
    /// ```
    #[must_use]
    pub fn follow(mut self, follow: impl Fn(&PageLink<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.hooks.filter = Some(Filter(Arc::new(follow)));
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
    /// read, and the record has `"truncated":"hook"`. It runs on the worker threads, so it must be quick.
    ///
    /// ```
    /// # fn run(root: &str) {
    /// let crawl = argiope::Crawl::builder(root)
    ///     .on_response(|response| response.header("content-type").is_some_and(|kind| kind.starts_with("text/html")));
    /// # }
    /// ```
    #[must_use]
    pub fn on_response(mut self, hook: impl Fn(&ResponseStart<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.hooks.response = Some(OnResponse(Arc::new(hook)));
        self
    }

    /// Changes any other setting of the crawl.
    #[must_use]
    pub fn configure(self, set: impl FnOnce(&mut Config)) -> Self {
        self.set(set)
    }

    /// Adds the headers to the configuration, and separates it from the other settings.
    fn prepare(mut self) -> Result<(Config, Extras), Error> {
        for (name, value) in std::mem::take(&mut self.header) {
            let line: HeaderLine = format!("{name}: {value}").parse().map_err(|error: BadValue| ConfigError {
                key: "header",
                value: name,
                problem: error.to_string(),
            })?;
            self.config.header.push(line);
        }
        Ok((self.config, Extras { bodies: self.bodies, hooks: self.hooks }))
    }

    /// Starts the crawl. Files are opened on a separate thread, so that the async executor is not blocked.
    ///
    /// # Errors
    ///
    /// A setting cannot be used or has no effect, or the crawl directory cannot be opened.
    pub async fn start(self) -> Result<Crawl, Error> {
        let (config, extras) = self.prepare()?;
        off_executor(move || Crawl::open(&config, extras)).await
    }

    /// Starts the crawl and returns its pages as an ordinary iterator, for programs without async.
    ///
    /// # Errors
    ///
    /// As [`CrawlBuilder::start`].
    pub fn start_blocking(self) -> Result<Pages, Error> {
        let (config, extras) = self.prepare()?;
        Crawl::open(&config, extras).map(Pages::new)
    }

    /// Runs the crawl to its end and passes every page to `sink`. Blocks.
    ///
    /// # Errors
    ///
    /// As [`CrawlBuilder::start`], and errors that end the crawl early.
    pub fn run(self, sink: impl Sink + 'static) -> Result<Summary, Error> {
        let (config, extras) = self.prepare()?;
        let rules = extras.rules(&config)?;
        crate::crawl::run(&config, rules, SinkConsumer(sink))
    }

    /// As [`CrawlBuilder::run`], with a frontier of your own, which stores all known and queued URLs. Unstable: the
    /// trait [`Frontier`](crate::Frontier) may change in any release.
    ///
    /// # Errors
    ///
    /// As [`CrawlBuilder::run`]; a directory cannot be combined with a custom frontier.
    pub fn run_with_frontier<F>(self, frontier: F, sink: impl Sink + 'static) -> Result<Summary, Error>
    where
        F: argiope_core::Frontier + Send + 'static,
    {
        let (config, extras) = self.prepare()?;
        if config.out.is_some() {
            return Err(crate::crawl::no_effect(
                "out",
                "a frontier of your own stores the crawl; leave the directory out",
            ));
        }
        let rules = extras.rules(&config)?;
        crate::crawl::run_on(&config, rules, crate::sink::OwnFrontier(frontier), SinkConsumer(sink))
    }
}

impl Extras {
    /// Checks and compiles a configuration, with these settings added.
    pub(crate) fn rules(self, config: &Config) -> Result<Rules, Error> {
        crate::crawl::check(config)?;
        let mut rules = argiope_runtime::rules(config)?;
        self.apply(&mut rules);
        Ok(rules)
    }
}

/// Runs blocking work on a separate thread.
pub(crate) async fn off_executor<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("argiope-start".into());
    thread.spawn(move || {
        // This fails if the future that waits for the result was dropped.
        let _ = sender.send(work());
    })?;
    receiver.await.unwrap_or_else(|_| Err(Error::internal("the thread that starts the crawl died")))
}
