//! [`Page`]: a visit with its headers and body, and access to the parsed content.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use argiope_content::{DataPath, Document, Element, Extraction, PageText, SelectError, Selector, TextRequest};
use argiope_core::base::custom_request::Method;
use argiope_core::crawl::record::CrawlRecord;
use argiope_core::crawl::visit::{Facts, PageFindings, Visit};
use argiope_core::page::page_budget::PageBudget;
use argiope_core::page::reader::decode;
use argiope_core::{Advice, Failure, Link, Outcome, Truncated, Url};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::Error;
use crate::library_messages::advice_words;
use crate::page_links::{self, LinkRules, LinkedUrl};

/// A page of a crawl: the facts of the exchange, headers, body, and access to the parsed content.
///
/// The body is kept for HTML by default, see [`CrawlBuilder::bodies`](crate::CrawlBuilder::bodies). It is parsed on
/// first use. A clone is cheap: it shares everything with the page. [`Page::facts`] and [`Page::findings`] have everything that has no method of its own, such as timings.
///
/// ```
/// # async fn run(root: &str) -> Result<(), argiope::Error> {
/// let mut crawl = argiope::Crawl::builder(root).max_pages(10).start().await?;
/// while let Some(page) = crawl.next().await {
///     let prices: Vec<String> = page.select(".price")?.iter().map(|price| price.text()).collect();
///     println!("{} {:?} {prices:?}", page.url(), page.title());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Page {
    parts: Arc<PageParts>,
}

#[derive(Debug)]
struct PageParts {
    visit: Box<Visit>,
    /// The line of the record.
    record_line: Vec<u8>,
    /// The body; empty if it was not kept.
    bytes: Vec<u8>,
    headers: Vec<(Box<str>, Box<str>)>,
    link_rules: Arc<LinkRules>,
    /// The parsed body, once it is needed.
    document: OnceLock<Document>,
    /// The links, once they are needed.
    links: OnceLock<Vec<LinkedUrl>>,
}

impl Page {
    pub(crate) fn new(mut visit: Box<Visit>, record_line: Vec<u8>, link_rules: Arc<LinkRules>) -> Self {
        // From here on the user of the library owns the body. `take` releases its share of the memory budget, so that
        // the crawl can continue.
        let body = visit.body.take();
        let (bytes, headers) = body.map_or_else(Default::default, |body| (body.bytes, body.headers));
        // A crawl that refuses private roots cannot be told to allow private addresses.
        let is_usable = |failure: &&mut Failure| {
            !(link_rules.refuses_private_roots && failure.advice() == Some(Advice::AllowPrivate))
        };
        if let Some(failure) = visit.facts.error.as_mut().filter(is_usable) {
            failure.message = failure.advised(advice_words).into();
        }
        let (document, links) = (OnceLock::new(), OnceLock::new());
        Self { parts: Arc::new(PageParts { visit, record_line, bytes, headers, link_rules, document, links }) }
    }

    /// The record of the page, as the command writes it with `--jsonl` and as a table has it (docs/records.md). It can be
    /// serialized.
    ///
    /// ```
    /// # fn run(page: argiope::Page) {
    /// let record = page.record();
    /// println!("{} has {} words", record.url, record.words.unwrap_or(0));
    /// # }
    /// ```
    pub fn record(&self) -> CrawlRecord<'static> {
        // The crawler has encoded the record itself.
        CrawlRecord::read(&self.parts.record_line).unwrap_or_default()
    }

    /// The URL.
    pub fn url(&self) -> &Url {
        &self.parts.visit.link.url
    }

    /// The status code; `None` if there was no response.
    pub fn status(&self) -> Option<u16> {
        self.parts.visit.facts.status
    }

    /// The final state of the URL.
    pub fn outcome(&self) -> Outcome {
        self.parts.visit.facts.outcome
    }

    /// Whether the page was fetched with a 2xx status.
    pub fn is_ok(&self) -> bool {
        self.outcome() == Outcome::Ok
    }

    /// Why there was no usable response, or why it is incomplete.
    pub fn error(&self) -> Option<&Failure> {
        self.parts.visit.facts.error.as_ref()
    }

    /// The target, if the response is a redirect. The target is a page of its own.
    pub fn redirect(&self) -> Option<&Url> {
        self.parts.visit.facts.redirect.as_ref()
    }

    /// Why the body is incomplete; `None` if it is complete.
    pub fn truncated(&self) -> Option<Truncated> {
        self.parts.visit.facts.truncated
    }

    /// The media type without parameters, such as `text/html`.
    pub fn content_type(&self) -> Option<&str> {
        self.parts.visit.findings.content_type.as_deref()
    }

    /// The IP address that answered.
    pub fn ip(&self) -> Option<IpAddr> {
        self.parts.visit.facts.ip
    }

    /// The title, with white space collapsed.
    pub fn title(&self) -> Option<&str> {
        self.parts.visit.findings.title.as_deref()
    }

    /// The number of links from a root to this page.
    pub fn depth(&self) -> u32 {
        self.parts.visit.link.depth
    }

    /// The page on which the link to this one was found.
    pub fn referrer(&self) -> Option<&Url> {
        self.parts.visit.link.via.as_ref()
    }

    /// The method of the request.
    pub fn method(&self) -> Method {
        self.parts.visit.link.request.as_ref().map_or(Method::Get, |request| request.method)
    }

    /// The value that was set with [`Request::user_data`](crate::Request::user_data); null if none was set.
    pub fn user_data(&self) -> &Value {
        self.parts.visit.link.request.as_ref().map_or(&Value::Null, |request| &request.data)
    }

    /// The first value of a response header. The case of `name` does not matter.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.parts.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// All response headers, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parts.headers.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The body, with content codings decoded. Empty if it was not kept.
    pub fn body(&self) -> &[u8] {
        &self.parts.bytes
    }

    /// Takes the body. It is copied if the page has clones.
    pub fn into_body(self) -> Vec<u8> {
        Arc::try_unwrap(self.parts).map_or_else(|parts| parts.bytes.clone(), |parts| parts.bytes)
    }

    /// The body as JSON. Bodies of JSON are kept with [`DeliveredBodies::Text`](crate::DeliveredBodies::Text) or `All`.
    ///
    /// ```
    /// # fn run(page: argiope::Page) -> Result<(), argiope::Error> {
    /// let prices: std::collections::HashMap<String, f64> = page.json()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// It is not JSON, or does not have the structure of `T`: the message names the URL, line and column. Or the body
    /// was not kept.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let url = self.url();
        if self.parts.bytes.is_empty() && self.parts.visit.facts.bytes_body > 0 {
            let advice = "set `bodies(DeliveredBodies::Text)` or `All`";
            return Err(Error::input(format!("{url}: the body was not kept; {advice}")));
        }
        // Without the byte order mark.
        let text = self.parts.bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&self.parts.bytes);
        serde_json::from_slice(text).map_err(|error| Error::input_from(format!("{url}: JSON: {error}"), error))
    }

    /// The body as text, in the declared or detected charset.
    pub fn html(&self) -> Cow<'_, str> {
        decode(&self.parts.bytes, self.parts.visit.findings.charset)
    }

    /// The parsed page. Parsing happens once.
    pub fn document(&self) -> &Document {
        self.parts.document.get_or_init(|| {
            Document::parse(self.html()).with_charset(self.parts.visit.findings.charset).with_url(self.url())
        })
    }

    /// The links of the page, distinct by URL and kind, in page order: found as the crawl finds them, also those that it
    /// does not follow. Empty if the body is not [kept](crate::CrawlBuilder::bodies).
    ///
    /// ```
    /// # fn run(page: argiope::Page) {
    /// for link in page.links().iter().filter(|link| link.in_scope) {
    ///     println!("{} {:?}", link.url, link.text);
    /// }
    /// # }
    /// ```
    pub fn links(&self) -> &[LinkedUrl] {
        let PageParts { visit, bytes, link_rules, links, .. } = &*self.parts;
        links.get_or_init(|| page_links::find(visit, bytes, self.header("content-type"), link_rules))
    }

    /// All elements that a CSS selector matches.
    ///
    /// # Errors
    ///
    /// `css` is not a selector.
    pub fn select(&self, css: &str) -> Result<Vec<Element<'_>>, SelectError> {
        self.document().select(css)
    }

    /// The first element that a CSS selector matches.
    ///
    /// # Errors
    ///
    /// `css` is not a selector.
    pub fn select_first(&self, css: &str) -> Result<Option<Element<'_>>, SelectError> {
        Ok(self.document().first(&Selector::parse(css)?))
    }

    /// The text of the first element that a CSS selector matches.
    ///
    /// # Errors
    ///
    /// `css` is not a selector.
    pub fn select_text(&self, css: &str) -> Result<Option<String>, SelectError> {
        Ok(self.select_first(css)?.map(|element| element.text()))
    }

    /// The values at a path in the page's JSON-LD, such as `Product.offers.price`. Empty if the path is not valid.
    pub fn json_ld(&self, path: &str) -> Vec<Value> {
        let Ok(path) = DataPath::parse(path) else { return Vec::new() };
        self.document().json_ld_at(&path)
    }

    /// The content of a `meta` element by its name; OpenGraph properties are named `og:title` and so on.
    pub fn meta(&self, name: &str) -> Option<String> {
        self.document().meta(name)
    }

    /// Extracts fields from the page by rules.
    pub fn extract(&self, rules: &Extraction) -> Map<String, Value> {
        let budget = PageBudget::for_page(self.parts.bytes.len());
        rules.apply(self.document(), self.url().as_str(), &budget, &mut rules.tally()).data
    }

    /// The main text: the article without navigation and footers.
    pub fn text(&self) -> String {
        self.read_text(&TextRequest { plain: true, ..TextRequest::default() }).plain.unwrap_or_default()
    }

    /// The main text as Markdown, with absolute links.
    pub fn markdown(&self) -> String {
        self.read_text(&TextRequest { markdown: true, ..TextRequest::default() }).markdown.unwrap_or_default()
    }

    /// The text of a part of the page, as `argiope crawl --content` records it: the main content, the whole page, or
    /// what a selector matches.
    pub fn read_text(&self, request: &TextRequest) -> PageText {
        PageText::of(self.document(), request, &PageBudget::for_page(self.body().len()))
    }

    /// The link that led here, with the request.
    pub fn link(&self) -> &Link {
        &self.parts.visit.link
    }

    /// Everything that is known about the exchange: times, sizes, protocol.
    pub fn facts(&self) -> &Facts {
        &self.parts.visit.facts
    }

    /// Everything that was found in the page while it was read: charset, canonical URL, robots directives, numbers of
    /// links.
    pub fn findings(&self) -> &PageFindings {
        &self.parts.visit.findings
    }
}
