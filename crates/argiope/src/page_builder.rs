//! [`PageBuilder`]: a page without a crawl, for tests of code that takes pages.

use std::sync::Arc;

use argiope_core::Time;
use argiope_core::base::job::{Job, Purpose};
use argiope_core::crawl::canned::{CannedResponse, CannedWeb};
use argiope_core::crawl::record::CrawlRecord;
use argiope_core::crawl::rules::{Config, Environment, ProgramSettings};
use argiope_core::crawl::transport::Transport as _;
use argiope_core::crawl::visit::Visit;
use argiope_core::page::reader::DeliveredBodies;

use crate::page_links::LinkRules;
use crate::{BadUrl, Error, IntoRequest, Page, Request};

/// Makes a page from a request and a response, without a crawl. Created by [`Page::builder`].
///
/// The page is read by the code that reads the pages of a crawl: headers, charsets, links, `canonical` and so on. Without
/// a call of [`response`](Self::response) it is an empty HTML page.
///
/// ```
/// use argiope::Page;
///
/// /// The function to test.
/// fn price(page: &Page) -> Option<String> {
///     page.select_text(".price").ok()?
/// }
///
/// # fn main() -> Result<(), argiope::Error> {
/// let page = Page::builder("https://shop.example/tea").html("<p class=price>4.20</p>").build()?;
/// assert_eq!(price(&page).as_deref(), Some("4.20"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "`build` makes the page"]
pub struct PageBuilder {
    request: Result<Request, BadUrl>,
    response: CannedResponse,
    config: Config,
}

impl Page {
    /// Returns the builder of a page without a crawl, for tests. `request` is a URL or a [`Request`],
    /// which may have user data, a method and a referring page.
    pub fn builder(request: impl IntoRequest) -> PageBuilder {
        PageBuilder { request: request.into_request(), response: CannedResponse::html(""), config: Config::default() }
    }
}

impl PageBuilder {
    /// Sets the body of an HTML page with the status 200.
    pub fn html(self, body: impl Into<Vec<u8>>) -> Self {
        self.response(CannedResponse::html(body))
    }

    /// Sets the response: status, headers and body, or a failure.
    ///
    /// ```
    /// use argiope::{CannedResponse, Outcome, Page};
    ///
    /// # fn main() -> Result<(), argiope::Error> {
    /// let gone = Page::builder("https://shop.example/old").response(CannedResponse::status(410)).build()?;
    /// assert_eq!((gone.status(), gone.outcome()), (Some(410), Outcome::HttpError));
    /// # Ok(())
    /// # }
    /// ```
    pub fn response(mut self, response: CannedResponse) -> Self {
        self.response = response;
        self
    }

    /// Changes the settings of the crawl to which the page belongs. They decide which links are in its scope. The URL of
    /// the page is a root.
    ///
    /// ```
    /// use argiope::Page;
    ///
    /// # fn main() -> Result<(), argiope::Error> {
    /// let page = Page::builder("https://a.example/")
    ///     .html("<a href=/x.pdf>x</a>")
    ///     .configure(|config| config.exclude.push(r"\.pdf$".into()))
    ///     .build()?;
    /// assert!(!page.links()[0].in_scope);
    /// # Ok(())
    /// # }
    /// ```
    pub fn configure(mut self, set: impl FnOnce(&mut Config)) -> Self {
        set(&mut self.config);
        self
    }

    /// Makes the page.
    ///
    /// # Errors
    ///
    /// The request has no http or https URL or a header that cannot be sent, or a setting cannot be used.
    pub fn build(self) -> Result<Page, Error> {
        let Self { request, response, mut config } = self;
        let request = request?;
        let url = request.url().clone();
        config.roots.push(url.to_string());
        let program = ProgramSettings { delivered_bodies: DeliveredBodies::All, ..ProgramSettings::default() };
        let rules = Arc::new(config.compile_in(Environment::default(), program)?);
        let mut web = CannedWeb::from([(url.as_str(), response)]);
        let wall_clock = web.wall_clock();
        let link = request.into_link(rules.max_redirects)?;
        let addresses = web.resolve(url.host()).map(|(addresses, _)| addresses).unwrap_or_default();
        let job = Job::detached(link, Purpose::Page, addresses);
        let visit = match web.respond(&job, Time::ZERO) {
            Ok(response) => response.into_visit(job, &rules),
            Err((failure, after)) => Box::new(Visit::failed(job, failure, Time::ZERO, Time::ZERO + after)),
        };
        let mut record_line = Vec::new();
        CrawlRecord::of(&visit, wall_clock, rules.fingerprint_key, None).encode(&mut record_line);
        Ok(Page::new(visit, record_line, Arc::new(LinkRules::of(&rules))))
    }
}
