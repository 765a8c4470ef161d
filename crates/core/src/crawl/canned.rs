//! [`CannedWeb`]: pages by URL, a [`Transport`] for tests.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::base::job::Job;
use crate::base::outcome::{ErrorKind, Failure};
use crate::base::time::Time;
use crate::base::url::Url;
use crate::crawl::response::WholeResponse;
use crate::crawl::transport::{Transport, placeholder_address};
use crate::http::address::DnsResult;

/// How long an address stays valid.
const ADDRESS_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// A web for tests: responses by URL, without a network and in virtual time.
///
/// Other URLs of its hosts have the status 404, also `/robots.txt`. Other hosts do not exist.
#[derive(Clone, Debug, Default)]
pub struct CannedWeb {
    pages: HashMap<Box<str>, CannedPage>,
    hosts: HashSet<Box<str>>,
}

/// The responses to the requests for one URL.
#[derive(Clone, Debug, Default)]
struct CannedPage {
    responses: Vec<CannedResponse>,
    /// How often the URL was requested.
    requests: usize,
}

/// A response of a [`CannedWeb`].
#[derive(Clone, Debug)]
pub struct CannedResponse {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    latency: Duration,
    failure: Option<Failure>,
}

impl CannedWeb {
    /// A web without pages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a page. A URL that is added several times answers its first request with the first response, and so on; the
    /// last response is repeated.
    #[must_use]
    pub fn page(mut self, url: &str, response: CannedResponse) -> Self {
        // A text that is not a URL is never requested.
        if let Ok(url) = Url::parse(url) {
            self.hosts.insert(url.host().into());
            self.pages.entry(url.as_str().into()).or_default().responses.push(response);
        }
        self
    }
}

impl<U: AsRef<str>> FromIterator<(U, CannedResponse)> for CannedWeb {
    fn from_iter<I: IntoIterator<Item = (U, CannedResponse)>>(pages: I) -> Self {
        pages.into_iter().fold(Self::new(), |web, (url, response)| web.page(url.as_ref(), response))
    }
}

impl<U: AsRef<str>, const N: usize> From<[(U, CannedResponse); N]> for CannedWeb {
    fn from(pages: [(U, CannedResponse); N]) -> Self {
        pages.into_iter().collect()
    }
}

impl CannedResponse {
    /// A response with this status and without a body.
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), latency: Duration::ZERO, failure: None }
    }

    /// An HTML page.
    pub fn html(body: impl Into<Vec<u8>>) -> Self {
        Self::status(200).header("Content-Type", "text/html; charset=utf-8").body(body)
    }

    /// A plain text, such as a robots.txt.
    pub fn text(body: impl Into<Vec<u8>>) -> Self {
        Self::status(200).header("Content-Type", "text/plain; charset=utf-8").body(body)
    }

    /// A redirect with the status 302.
    pub fn redirect(target: &str) -> Self {
        Self::status(302).header("Location", target)
    }

    /// No response, for this reason.
    pub fn failure(kind: ErrorKind) -> Self {
        Self { failure: Some(Failure::new(kind, "the test gives no response")), ..Self::status(0) }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets how long the response takes, in virtual time.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// The response to a job that begins now.
    ///
    /// # Errors
    ///
    /// There is no response, for this reason and after this time.
    pub fn answer(self, job: &Job, now: Time) -> Result<WholeResponse, (Failure, Duration)> {
        let (head, ip) = (self.head(), job.addresses.first().copied());
        if let Some(failure) = self.failure {
            return Err((failure, self.latency));
        }
        let arrived = now + self.latency;
        Ok(WholeResponse { head, body: self.body, truncated: None, ip, started: now, arrived, ended: arrived })
    }

    fn head(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {:03} \r\nContent-Length: {}\r\n", self.status, self.body.len());
        for (name, value) in &self.headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

impl Transport for CannedWeb {
    fn respond(&mut self, job: &Job, now: Time) -> Result<WholeResponse, (Failure, Duration)> {
        let page = self.pages.get_mut(job.link.url.as_str());
        let response = page.and_then(|page| {
            page.requests += 1;
            page.responses.get(page.requests - 1).or(page.responses.last()).cloned()
        });
        response.unwrap_or_else(|| CannedResponse::status(404)).answer(job, now)
    }

    fn resolve(&self, host: &str) -> DnsResult {
        if self.hosts.contains(host) {
            return Ok((vec![placeholder_address(host)], ADDRESS_LIFE));
        }
        Err(Failure::new(ErrorKind::DnsNxdomain, format!("the test has no host {host}")))
    }
}
