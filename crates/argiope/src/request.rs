//! [`Request`]: an address to fetch, and how it came about.

use argiope_core::page::link::LinkKind;
use argiope_core::{BadUrl, Link, Url};

use crate::Page;

/// An address to fetch, for [`Crawl::feed`](crate::Crawl::feed).
///
/// ```
/// # fn run(crawl: &argiope::Crawl, page: &argiope::Page) -> Result<(), argiope::Error> {
/// crawl.feed(["https://example.com/a"])?;
/// crawl.feed([argiope::Request::get("https://example.com/b")?.found_on(page)])?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    url: Url,
    via: Option<Url>,
    depth: u32,
}

impl Request {
    /// A request for an address.
    ///
    /// # Errors
    ///
    /// The address is not an http or https one.
    pub fn get(address: &str) -> Result<Self, BadUrl> {
        Ok(Self { url: Url::parse(address)?, via: None, depth: 0 })
    }

    /// Says on which page the address was found: the record names it, and the depth is one more than that page's.
    #[must_use]
    pub fn found_on(mut self, page: &Page) -> Self {
        self.via = Some(page.url().clone());
        self.depth = page.depth().saturating_add(1);
        self
    }

    /// Sets the depth.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// The address.
    pub fn url(&self) -> &Url {
        &self.url
    }

    pub(crate) fn into_link(self, max_redirects: u8) -> Link {
        let Self { url, via, depth } = self;
        Link { via, depth, kind: LinkKind::Root, ..Link::root(url, max_redirects) }
    }
}

/// What can be fed to a crawl: addresses as text, [`Url`]s and [`Request`]s.
pub trait IntoRequest {
    /// # Errors
    ///
    /// The address is not an http or https one.
    fn into_request(self) -> Result<Request, BadUrl>;
}

impl IntoRequest for Request {
    fn into_request(self) -> Result<Request, BadUrl> {
        Ok(self)
    }
}

impl IntoRequest for Url {
    fn into_request(self) -> Result<Request, BadUrl> {
        Ok(Request { url: self, via: None, depth: 0 })
    }
}

impl IntoRequest for &str {
    fn into_request(self) -> Result<Request, BadUrl> {
        Request::get(self)
    }
}

impl IntoRequest for String {
    fn into_request(self) -> Result<Request, BadUrl> {
        Request::get(&self)
    }
}

impl IntoRequest for &String {
    fn into_request(self) -> Result<Request, BadUrl> {
        Request::get(self)
    }
}
