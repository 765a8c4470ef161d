//! Hooks: code of the library's user that is called with requests before they are sent, and with the heads of
//! responses.

use std::fmt::Debug;

use crate::base::custom_request::Method;
use crate::base::link::Link;
use crate::base::outcome::Failure;
use crate::base::url::Url;
use crate::http::conn::request::{is_fixed, is_name, is_value};
use crate::http::conn::{Head, Headers};

/// Is called with every request for a page or a sitemap before it is sent, on the keeper thread. A crawl has one such
/// hook.
pub trait RequestHook: Debug + Send + Sync {
    /// May change or abort the request.
    fn before_request(&self, request: &mut OutgoingRequest<'_>);
}

/// Is called with the head of every response to the request for a page, except redirects, on the worker thread. All
/// workers share one hook.
pub trait ResponseHook: Debug + Send + Sync {
    /// Whether the body must be read.
    fn wants_body(&self, response: &ResponseStart<'_>) -> bool;

    /// Where the body is written while it arrives, with content codings decoded; `None` to treat it like every other.
    fn open_body(&self, _response: &ResponseStart<'_>) -> Option<BodyWriter> {
        None
    }
}

/// Is called after every attempt at a page, on the keeper thread. A crawl has one such hook.
pub trait RetryHook: Debug + Send + Sync {
    /// Whether to try again.
    fn after_attempt(&self, attempt: &PageAttempt<'_>) -> RetryChoice;
}

/// Whether to try again after an attempt: the result of a [`RetryHook`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryChoice {
    /// As without the closure: after failures that may pass.
    #[default]
    AsUsual,
    /// Try again after the usual wait, unless this was the last attempt that is allowed. A request that must not be
    /// repeated, such as a POST, is not.
    Again,
    /// Do not try again.
    GiveUp,
}

/// An attempt at a page.
#[derive(Clone, Copy)]
pub struct PageAttempt<'a> {
    pub(crate) link: &'a Link,
    pub(crate) status: Option<u16>,
    pub(crate) error: Option<&'a Failure>,
    pub(crate) title: Option<&'a str>,
}

impl Debug for PageAttempt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageAttempt({} {})", self.number(), self.url())
    }
}

impl<'a> PageAttempt<'a> {
    /// The address.
    pub fn url(&self) -> &'a Url {
        &self.link.url
    }

    /// The link that was requested: its page, depth and user data.
    pub fn link(&self) -> &'a Link {
        self.link
    }

    /// The number of the attempt, from 1.
    pub fn number(&self) -> u8 {
        self.link.tries
    }

    /// The status code; `None` without a response.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Why there is no usable response; `None` if there is one.
    pub fn error(&self) -> Option<&'a Failure> {
        self.error
    }

    /// The title of the page, with white space collapsed.
    pub fn title(&self) -> Option<&'a str> {
        self.title
    }
}

/// Takes a body while it arrives.
pub type BodyWriter = Box<dyn std::io::Write + Send>;

/// A request that is about to be sent.
pub struct OutgoingRequest<'a> {
    link: &'a Link,
    /// The headers that the hook has set.
    headers: Vec<(Box<str>, Box<str>)>,
    /// The target that the hook has set.
    target: Option<Box<str>>,
    /// Why the hook aborted the request; `None` if it did not.
    abort_reason: Option<Box<str>>,
}

/// What a hook has changed about a request.
pub(crate) struct RequestChanges {
    pub headers: Headers,
    pub target: Option<Box<str>>,
    pub abort_reason: Option<Box<str>>,
}

/// A path and query that cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidTarget;

impl std::fmt::Display for InvalidTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the target of a request begins with / and has only ASCII characters that may stand in a URL")
    }
}

impl std::error::Error for InvalidTarget {}

impl Debug for OutgoingRequest<'_> {
    /// Values of headers may be secrets: they are not shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("OutgoingRequest")
            .field("link", self.link)
            .field("headers", &names)
            .field("has_target", &self.target.is_some())
            .field("abort_reason", &self.abort_reason)
            .finish()
    }
}

/// A header that cannot be sent: its name or value is malformed, or it routes or frames the message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidHeader {
    /// Its name.
    pub name: Box<str>,
}

impl std::fmt::Display for InvalidHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if is_fixed(&self.name) {
            write!(f, "the header {:?} cannot be set: it routes or frames the message", self.name)
        } else {
            write!(f, "the header {:?} has a malformed name or value", self.name)
        }
    }
}

impl std::error::Error for InvalidHeader {}

/// Checks a header that the user sets.
///
/// # Errors
///
/// The header cannot be sent.
pub fn check_header(name: &str, value: &str) -> Result<(), InvalidHeader> {
    if is_name(name) && is_value(value.as_bytes()) && !is_fixed(name) {
        return Ok(());
    }
    Err(InvalidHeader { name: name.into() })
}

impl<'a> OutgoingRequest<'a> {
    pub(crate) fn new(link: &'a Link) -> Self {
        Self { link, headers: Vec::new(), target: None, abort_reason: None }
    }

    pub(crate) fn into_changes(self) -> RequestChanges {
        let Self { headers, target, abort_reason, .. } = self;
        RequestChanges { headers, target, abort_reason }
    }

    /// The address.
    pub fn url(&self) -> &Url {
        &self.link.url
    }

    /// The link that is requested: its page, depth, attempts so far, and user data.
    pub fn link(&self) -> &Link {
        self.link
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.link.request.as_ref().map_or(Method::Get, |request| request.method)
    }

    /// The body; empty if there is none.
    pub fn body(&self) -> &[u8] {
        self.link.request.as_ref().map_or(&[], |request| &request.body)
    }

    /// Sets a header, and replaces an earlier one of the same name. A header that the crawl sends by default is
    /// replaced too.
    ///
    /// # Errors
    ///
    /// The header cannot be sent.
    pub fn set_header(&mut self, name: &str, value: &str) -> Result<(), InvalidHeader> {
        check_header(name, value)?;
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.headers.push((name.into(), value.into()));
        Ok(())
    }

    /// Requests this path and query from the host, for example with a signature or an expiry. The page keeps its URL: links,
    /// records, archives and robots.txt are about the URL without this change.
    ///
    /// # Errors
    ///
    /// The target cannot be sent: it does not begin with `/`, or has a space, a `#`, a control or a non-ASCII character.
    pub fn set_target(&mut self, path_and_query: &str) -> Result<(), InvalidTarget> {
        let is_sent = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        if !path_and_query.starts_with('/') || !path_and_query.bytes().all(is_sent) {
            return Err(InvalidTarget);
        }
        self.target = Some(path_and_query.into());
        Ok(())
    }

    /// Does not send the request: the page is settled as refused, for this reason.
    pub fn abort(&mut self, reason: &str) {
        self.abort_reason = Some(reason.into());
    }
}

/// The start of a response: its status and headers.
#[derive(Clone, Copy)]
pub struct ResponseStart<'a> {
    link: &'a Link,
    head: &'a Head,
}

impl std::fmt::Debug for ResponseStart<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ResponseStart({} {})", self.status(), self.url())
    }
}

impl<'a> ResponseStart<'a> {
    pub(crate) fn new(link: &'a Link, head: &'a Head) -> Self {
        Self { link, head }
    }

    /// The address.
    pub fn url(&self) -> &'a Url {
        &self.link.url
    }

    /// The link that was requested: its page, depth and user data.
    pub fn link(&self) -> &'a Link {
        self.link
    }

    /// The status code.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The first value of a header; the case of its name is ignored. `None` without such a header, or if its value is
    /// not UTF-8.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.head.get(name)?).ok()
    }
}
