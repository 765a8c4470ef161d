//! The closures of a crawl, as the core calls them.

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

use argiope_content::{Article, Document};
use argiope_core::Url;
use argiope_core::crawl::hooks::{
    BodyWriter, OutgoingRequest, PageAttempt, RequestHook, ResponseHook, ResponseStart, RetryChoice, RetryHook,
};
use argiope_core::crawl::rules::ProgramSettings;
use argiope_core::page::follow::{LinkFilter, LinkJudge, LinkPage, LinkVerdict, PageLink};
use argiope_core::page::reader::decode;
use argiope_runtime::TrustedPem;
use serde_json::Value;

use crate::own_answers::OwnAnswers;
use crate::own_resolver::OwnResolver;

/// The closures of a crawl.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub filter: Option<Filter>,
    pub request: Option<OnRequest>,
    pub retry: Option<OnRetry>,
    /// Values of `User-Agent` by host.
    pub agents: Vec<(String, String)>,
    /// Certificates from memory.
    pub pem: Arc<TrustedPem>,
    /// Answers requests in place of the network.
    pub answers: Option<OwnAnswers>,
    pub response: OnResponse,
    /// Looks host names up.
    pub resolve: Option<OwnResolver>,
}

impl Hooks {
    /// The settings of a program that has these closures, and defaults otherwise.
    pub fn into_program_settings(self) -> ProgramSettings {
        let Self { filter, request, retry, agents, response, .. } = self;
        ProgramSettings {
            link_filter: filter.map(|filter| Arc::new(filter) as _),
            request_hook: request.map(|hook| Arc::new(hook) as _),
            retry_hook: retry.map(|hook| Arc::new(hook) as _),
            host_agents: agents,
            response_hook: response.is_used().then(|| Arc::new(response) as _),
            ..ProgramSettings::default()
        }
    }
}

#[derive(Clone)]
pub(crate) struct OnRequest(pub Arc<dyn Fn(&mut OutgoingRequest<'_>) + Send + Sync>);

impl fmt::Debug for OnRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnRequest")
    }
}

impl RequestHook for OnRequest {
    fn before_request(&self, request: &mut OutgoingRequest<'_>) {
        (self.0)(request);
    }
}

/// The closure that is asked after an attempt.
#[derive(Clone)]
pub(crate) struct OnRetry(pub Arc<dyn Fn(&PageAttempt<'_>) -> RetryChoice + Send + Sync>);

impl fmt::Debug for OnRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnRetry")
    }
}

impl RetryHook for OnRetry {
    fn after_attempt(&self, attempt: &PageAttempt<'_>) -> RetryChoice {
        (self.0)(attempt)
    }
}

/// The closures that get the start of a response.
#[derive(Clone, Default)]
pub(crate) struct OnResponse {
    /// Whether the body must be read.
    pub wants_body: Option<Arc<WantsBody>>,
    /// Where the body is written.
    pub stream_body: Option<Arc<OpenBody>>,
}

type WantsBody = dyn Fn(&ResponseStart<'_>) -> bool + Send + Sync;
type OpenBody = dyn Fn(&ResponseStart<'_>) -> Option<BodyWriter> + Send + Sync;

impl OnResponse {
    fn is_used(&self) -> bool {
        self.wants_body.is_some() || self.stream_body.is_some()
    }
}

impl fmt::Debug for OnResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnResponse")
    }
}

impl ResponseHook for OnResponse {
    fn wants_body(&self, response: &ResponseStart<'_>) -> bool {
        self.wants_body.as_ref().is_none_or(|wants_body| wants_body(response))
    }

    fn open_body(&self, response: &ResponseStart<'_>) -> Option<BodyWriter> {
        self.stream_body.as_ref().and_then(|stream_body| stream_body(response))
    }
}

/// The closures that decide about links.
#[derive(Clone)]
pub(crate) enum Filter {
    Follow(Arc<dyn Fn(&PageLink<'_>) -> bool + Send + Sync>),
    Judge(Arc<JudgeClosure>),
}

pub(crate) type JudgeClosure = dyn Fn(&PageLink<'_>, &LinkingPage<'_>) -> LinkVerdict + Send + Sync;

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Filter")
    }
}

impl LinkFilter for Filter {
    fn open<'a>(&'a self, page: LinkPage<'a>) -> LinkJudge<'a> {
        match self {
            Self::Follow(follow) => {
                Box::new(|link| if follow(link) { LinkVerdict::With(0) } else { LinkVerdict::Skip })
            }
            Self::Judge(judge) => {
                let page = LinkingPage { page, document: OnceCell::new(), text: OnceCell::new() };
                Box::new(move |link| judge(link, &page))
            }
        }
    }

    fn ranks(&self) -> bool {
        matches!(self, Self::Judge(_))
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Follow(_) => "follow",
            Self::Judge(_) => "judge",
        }
    }
}

/// The page that contains a link, as passed to the closure of [`CrawlBuilder::judge`](crate::CrawlBuilder::judge).
pub struct LinkingPage<'a> {
    page: LinkPage<'a>,
    document: OnceCell<Document>,
    text: OnceCell<String>,
}

impl fmt::Debug for LinkingPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkingPage").field("url", self.url()).finish_non_exhaustive()
    }
}

impl LinkingPage<'_> {
    /// The URL.
    pub fn url(&self) -> &Url {
        &self.page.link.url
    }

    /// The number of links from a root to this page.
    pub fn depth(&self) -> u32 {
        self.page.link.depth
    }

    /// The title, with white space collapsed.
    pub fn title(&self) -> Option<&str> {
        self.page.title
    }

    /// The value that was set with [`Request::user_data`](crate::Request::user_data); null if none was set.
    pub fn user_data(&self) -> &Value {
        self.page.link.request.as_ref().map_or(&Value::Null, |request| &request.data)
    }

    /// The main text, as [`Page::text`](crate::Page::text). It is computed once. Empty if the body is not
    /// [kept](crate::CrawlBuilder::bodies).
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| Article::of(self.document()).text())
    }

    /// The parsed page. Parsing happens once.
    pub fn document(&self) -> &Document {
        let LinkPage { link, body, charset, .. } = self.page;
        let parse = || Document::parse(decode(body, charset)).with_charset(charset).with_url(&link.url);
        self.document.get_or_init(parse)
    }
}
