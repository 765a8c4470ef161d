//! The fields of records: the only place that lists them. docs/records.md, docs/records.schema.json and the columns of
//! tables are made from this list. CONTRIBUTING.md says how to add a field.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::page_state::{Change, PageState};
use super::schema::{About, FieldKind, FieldValue, RecordField, Section, plain_name, record};
use crate::base::digest::BodyDigest;
use crate::base::link::LinkKind;
use crate::base::outcome::{ErrorKind, Failure, Outcome, Truncated, is_requested};
use crate::crawl::render_facts::RenderFacts;
use crate::crawl::visit::Timings;
use crate::crawl::warc::{WarcLocation, WarcPayload};
use crate::page::examine::OpenGraph;
use crate::page::likeness::MinHash;

/// The name and the value of a header field.
type HeaderPair = (Box<str>, Box<str>);

record! {
    /// A record of a URL: a page, a robots.txt, a sitemap, or a link that was not followed.
    ///
    /// The same type is written and read. Fields that are absent from the record have their default value.
    pub struct CrawlRecord<'a>,
    /// A record whose fields are decoded when they are asked for. A field that cannot be read counts as absent.
    LazyRecord;

    /// 1, the version of this format
    v: u8, FieldKind::Integer, Exchange, Kind;
    /// `page`, `aux` or `skip`
    r#type: Cow<'a, str>, FieldKind::Name(&["page", "aux", "skip"]), Exchange, Kind;
    /// what the `aux` record is of: `robots`, `sitemap`, or `probe` (a page that does not exist, see
    /// [audit](audit.md#error-pages-with-status-200))
    r#for: Option<Cow<'a, str>>, FieldKind::Name(&["robots", "sitemap", "probe"]), Exchange, Kind;
    /// the URL in its [normal form](urls.md)
    url: Cow<'a, str>, FieldKind::Text, Exchange, Url;
    /// HTTP status of the last response
    status: Option<u16>, FieldKind::Integer, Exchange, Url;
    /// what became of the URL: see the next table
    outcome: Option<Outcome>, FieldKind::Name(Outcome::NAMES), Exchange, Url;
    /// `kind`, `part` and `tls` (for programs) and `message` (for people) of a failure: see [Error kinds](#error-kinds)
    error: Option<Cow<'a, Failure>>, ERROR, Exchange, Url;
    /// the target, if the status is a redirect
    redirect: Option<Cow<'a, str>>, FieldKind::Text, Exchange, Url;
    /// the page on which the URL was found
    via: Option<Cow<'a, str>>, FieldKind::Text, Exchange, Url;
    /// number of links from a root
    depth: Option<u32>, FieldKind::Integer, Exchange, Url;
    /// number of attempts at this URL: the first, its retries, and repetitions because of a cookie. An attempt that
    /// ends with a failed lookup of the host name counts too. (A URL that redirects to itself and sets a new cookie is
    /// requested again. Each repetition counts as a redirect for `--max-redirects`.)
    tries: Option<u8>, FieldKind::Integer, Exchange, Url;
    /// in a recrawl: how the page compares with the previous round. `new`: it had no record. `changed`: it has a usable
    /// response that differs. `gone`: it had a usable response and has none now. `same`: neither
    change: Option<Change>, FieldKind::Name(&["new", "changed", "gone", "same"]), Exchange, Url;
    /// the method, if a program that uses the library sent another request than GET
    method: Option<Cow<'a, str>>, FieldKind::Text, Page, Url;
    /// if such a request had a body: 16 hexadecimal digits that tell requests with different bodies for the same URL
    /// apart. They depend on a key of the crawl, so that nothing can be guessed from them
    request_id: Option<Cow<'a, str>>, FieldKind::Text, Page, Url;
    /// in a `skip` record: the rule that decided (see above)
    reason: Option<Cow<'a, str>>, FieldKind::Text, Exchange, Kind;
    /// media type
    content_type: Option<Cow<'a, str>>, FieldKind::Text, Page, Content;
    /// character set, by its WHATWG name in lower case
    charset: Option<Cow<'a, str>>, FieldKind::Text, Page, Content;
    /// text of the `title` element
    title: Option<Cow<'a, str>>, FieldKind::Text, Page, Content;
    /// content of `meta name=description`
    description: Option<Cow<'a, str>>, FieldKind::Text, Page, Content;
    /// text of the first `h1` that has text
    h1: Option<Cow<'a, str>>, FieldKind::Text, Page, Content;
    /// number of `h1` elements
    h1_count: Option<u32>, FieldKind::Integer, Page, Content;
    /// `lang` of the `html` element
    lang: Option<Cow<'a, str>>, FieldKind::Text, Page, Content;
    /// directives of `meta name=robots` (or of the crawler's own name), in lower case: `["noindex", "max-snippet: -1"]`
    meta_robots: Cow<'a, [Box<str>]>, FieldKind::List(&FieldKind::Text), Page, Content;
    /// words of the visible text, separated by white space. In UTF-8 pages, one is added for each Chinese or Japanese
    /// character
    words: Option<u64>, FieldKind::Integer, Page, Content;
    /// `title` and `image` of OpenGraph; the image as an absolute URL
    og: Option<Cow<'a, OpenGraph>>, OPEN_GRAPH, Page, Content;
    /// number of `img` elements without an `alt` attribute. `alt=""` marks a decoration and is not counted
    images_without_alt: Option<u32>, FieldKind::Integer, Page, Content;
    /// `true` if the page looks empty without scripts: it has scripts and few words, and it asks for JavaScript in a
    /// `noscript`, has data for scripts (`application/json`), or has an element with an id and no text. The field of a
    /// [rendered page](#rendered-pages) says this of the response, not of the rendered document
    needs_scripts: bool, FieldKind::Flag, Page, Content;
    /// a fingerprint of the visible text, 16 hexadecimal digits. The more text two pages have in common, the more
    /// digits are equal. Absent where a page has little text
    minhash: Option<MinHash>, FieldKind::Text, Page, Content;
    /// bytes of the response as received
    bytes_wire: Option<u64>, FieldKind::Integer, Exchange, Response;
    /// bytes of the body after decompression
    bytes_body: Option<u64>, FieldKind::Integer, Page, Response;
    /// why the body is incomplete: `length` (a size limit), `time` (a time limit), `disconnect` (the connection ended
    /// too early), `decode` (the compressed data or the division into chunks is broken) or `hook` (a program that uses
    /// the library refused it)
    truncated: Option<Truncated>, FieldKind::Name(Truncated::NAMES), Page, Response;
    /// number of distinct links that are in scope and of a kind that is followed. Links that robots.txt disallows are
    /// included
    links: Option<u32>, FieldKind::Integer, Page, Links;
    /// number of these that were not known before
    new_links: Option<u32>, FieldKind::Integer, Exchange, Links;
    /// the page has more links, or a longer tag, than the [limits](limits.md#one-page) allow; the rest was not kept
    capped: bool, FieldKind::Flag, Page, Links;
    /// number of links that a limit cut off (`--max-links`, `--max-url`, 4 MiB of URLs per page). They are neither
    /// followed nor in the link graph
    links_cut: Option<u32>, FieldKind::Integer, Page, Links;
    /// what was wrong with a response that could be read nevertheless: see the next table
    odd: Vec<Cow<'a, str>>, FieldKind::List(&FieldKind::Text), Page, Response;
    /// the page or its `X-Robots-Tag` header asks for it, for all crawlers or for this one by name
    noindex: bool, FieldKind::Flag, Page, Content;
    /// likewise
    nofollow: bool, FieldKind::Flag, Page, Content;
    /// the URL of `link rel=canonical`
    canonical: Option<Cow<'a, str>>, FieldKind::Text, Page, Content;
    /// languages, and the URL of the page in each: `{"de": "https://h/de", "x-default": "https://h/"}`. If a language
    /// occurs twice, the first URL counts
    hreflang: BTreeMap<Cow<'a, str>, Cow<'a, str>>, FieldKind::TextMap, Page, Content;
    /// with `--extract`: the [fields](extraction.md)
    data: Option<Cow<'a, Map<String, Value>>>, FieldKind::Json, Page, Content;
    /// with `--text`: the [main text](extraction.md)
    text: Option<Cow<'a, str>>, FieldKind::Text, Page, Content;
    /// with `--markdown`: the main text as Markdown
    markdown: Option<Cow<'a, str>>, FieldKind::Text, Page, Content;
    /// with `--text` or `--markdown`: the share of the words of the page that are in the text and the title
    /// ([extraction](extraction.md#which-part-of-a-page))
    kept: Option<f32>, FieldKind::Float, Page, Content;
    /// with `--text` or `--markdown`: dates, author, site, breadcrumbs, language, number of words, and pages of a PDF
    /// file, each with its source ([extraction](extraction.md#what-a-page-says-about-itself))
    about: Option<Cow<'a, Map<String, Value>>>, FieldKind::Json, Page, Content;
    /// the [limit](extraction.md#a-rules-file) that was reached while `data`, `text` or `markdown` was extracted
    content_limit: Option<Cow<'a, str>>, FieldKind::Text, Page, Content;
    /// how the page was rendered: see [rendered pages](#rendered-pages)
    render: Option<Cow<'a, RenderFacts>>, RENDER, Page, Content;
    /// milliseconds for `dns`, `connect`, `tls`, `ttfb` (time to the first byte) and `total`
    ms: Option<Millis>, MILLIS, Exchange, Response;
    /// when the fetch started
    started: Option<Cow<'a, str>>, FieldKind::Time, Exchange, Response;
    /// address of the host itself; absent if a proxy resolved the name
    ip: Option<IpAddr>, FieldKind::Text, Exchange, Response;
    /// `1.0`, `1.1` or `2`
    http: Option<Cow<'a, str>>, FieldKind::Text, Exchange, Response;
    /// `true` if the response came over TLS and `--insecure` disabled the check of the certificate
    insecure: bool, FieldKind::Flag, Exchange, Response;
    /// digest of the decoded body: the algorithm, `xxh3` (128 bits) or `sha256`, a colon, and hexadecimal digits. All
    /// records of a crawl directory have the same algorithm: see `--digest`
    digest: Option<BodyDigest>, FieldKind::Text, Page, Response;
    /// header that a later conditional request uses
    etag: Option<Cow<'a, str>>, FieldKind::Text, Exchange, Response;
    /// likewise
    last_modified: Option<Cow<'a, str>>, FieldKind::Text, Exchange, Response;
    /// with `--warc`: file, offset and length of the response in the archive. If the status is 304, or the body is the
    /// same as that of another page, this is a `revisit` record without a body. The field `payload` in `warc` then
    /// describes the response with the body: url, date, file, offset and length
    warc: Option<Cow<'a, WarcLocation>>, WARC, Page, Response;
    /// with `--with headers`: the response headers, each as a list of name and value
    headers: Option<Cow<'a, [HeaderPair]>>, FieldKind::List(&FieldKind::List(&FieldKind::Text)), Exchange,
        Response;
    /// with `--with links`: links of every kind as the page has them (of pages with a 2xx status), with `kind` and
    /// `nofollow`. With `--with links,anchors` each has its text in the field `anchor`. In the `aux` record of a
    /// sitemap these are the entries of the sitemap and the sitemaps that it names. Entries of other sites are
    /// included, although they are not followed
    link_list: Option<Vec<RecordedLink<'a>>>, FieldKind::List(&LINK), Page, Links;
}

/// The type of records of requests that rendered pages made.
pub(super) const PART: &str = "sub";

pub(super) const ERROR: FieldKind = FieldKind::Object(&[
    ("kind", FieldKind::Name(ErrorKind::NAMES)),
    ("message", FieldKind::Text),
    ("part", FieldKind::Text),
    ("tls", FieldKind::Text),
]);
const OPEN_GRAPH: FieldKind = FieldKind::Object(&[("title", FieldKind::Text), ("image", FieldKind::Text)]);
const RENDER: FieldKind = FieldKind::Object(&[
    ("reason", FieldKind::Text),
    ("end", FieldKind::Text),
    ("ms", FieldKind::Integer),
    ("virtual_ms", FieldKind::Integer),
    ("requests", FieldKind::Integer),
    ("cached", FieldKind::Integer),
    ("refused", FieldKind::Integer),
    ("words", FieldKind::Integer),
    ("links", FieldKind::Integer),
    ("errors", FieldKind::List(&FieldKind::Text)),
    ("static", STATIC),
]);
const STATIC: FieldKind = FieldKind::Object(&[
    ("title", FieldKind::Text),
    ("canonical", FieldKind::Text),
    ("noindex", FieldKind::Flag),
    ("words", FieldKind::Integer),
    ("links", FieldKind::Integer),
]);
pub(super) const MILLIS: FieldKind = FieldKind::Object(&[
    ("dns", FieldKind::Integer),
    ("connect", FieldKind::Integer),
    ("tls", FieldKind::Integer),
    ("ttfb", FieldKind::Integer),
    ("total", FieldKind::Integer),
]);
pub(super) const WARC: FieldKind = FieldKind::Object(&[
    ("file", FieldKind::Text),
    ("offset", FieldKind::Integer),
    ("length", FieldKind::Integer),
    ("payload", PAYLOAD),
    ("rendered", FieldKind::Integer),
    ("screenshot", FieldKind::Integer),
]);
const PAYLOAD: FieldKind = FieldKind::Object(&[
    ("url", FieldKind::Text),
    ("date", FieldKind::Time),
    ("file", FieldKind::Text),
    ("offset", FieldKind::Integer),
    ("length", FieldKind::Integer),
    ("rendered", FieldKind::Integer),
    ("screenshot", FieldKind::Integer),
]);
const LINK: FieldKind = FieldKind::Object(&[
    ("url", FieldKind::Text),
    ("kind", FieldKind::Text),
    ("nofollow", FieldKind::Flag),
    ("anchor", FieldKind::Text),
]);

/// The timings in milliseconds. They are rounded up, so that a phase that took time is not shown as zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Millis {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttfb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl From<&Timings> for Millis {
    fn from(timings: &Timings) -> Self {
        let millis = |span: Option<std::time::Duration>| span.map(|s| s.as_micros().div_ceil(1_000) as u64);
        Self {
            dns: millis(timings.dns),
            connect: millis(timings.connect),
            tls: millis(timings.tls),
            ttfb: millis(timings.ttfb),
            total: millis(timings.total),
        }
    }
}

/// A link of a page, if the records contain links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedLink<'a> {
    pub url: Cow<'a, str>,
    pub kind: LinkKind,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nofollow: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Cow<'a, str>>,
}

impl<'a> LazyRecord<'a> {
    /// Finds the fields of a record. `None` if it is not a JSON object.
    pub fn read(record: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(record).ok()
    }

    fn value<T: DeserializeOwned + Default>(&self, name: Name) -> T {
        let raw = self.raw(name as usize);
        raw.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default()
    }

    /// The JSON of a field, by its position in [`CrawlRecord::FIELDS`].
    pub fn raw(&self, position: usize) -> Option<&'a str> {
        self.0.get(position).copied().flatten().map(RawValue::get)
    }

    /// Whether the record has an error.
    pub fn has_error(&self) -> bool {
        self.raw(Name::error as usize).is_some()
    }

    /// Whether this is the record of a page, not of a site file, a run or a link that was not followed.
    pub fn is_page(&self) -> bool {
        self.r#type() == "page"
    }

    /// What [`Visit::is_fetched_page`] says of the visit: whether this is a page that was requested from its host.
    ///
    /// [`Visit::is_fetched_page`]: crate::crawl::visit::Visit::is_fetched_page
    pub fn is_fetched_page(&self) -> bool {
        let was_sent = self.ms().is_some_and(|ms| ms.total.is_some());
        self.is_page() && is_requested(was_sent, self.tries().unwrap_or(0), self.error().as_deref())
    }

    /// Whether this is the record of a link that left the queue without having been fetched.
    pub fn is_skip(&self) -> bool {
        self.r#type() == "skip"
    }
}

impl<'de> Deserialize<'de> for LazyRecord<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = LazyRecord<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a record")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut record = LazyRecord([None; Name::unknown as usize]);
                while let Some(name) = map.next_key::<Name>()? {
                    let value = map.next_value()?;
                    if let Some(field) = record.0.get_mut(name as usize) {
                        *field = Some(value);
                    }
                }
                Ok(record)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl CrawlRecord<'_> {
    /// Reads a record.
    pub fn read(record: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(record)
    }

    /// Takes the fields that describe the page from the record of the last full response, unless this record has them.
    pub fn add_missing(&mut self, mut earlier: Self) {
        if let Some(payload) = earlier.archived_body()
            && let Some(warc) = &mut earlier.warc
        {
            // This record has another start time than the archived response, so it must name that response.
            warc.to_mut().payload = Some(Box::new(payload));
        }
        self.take_missing(earlier);
    }

    /// The number of links from a root; 0 if it is not known.
    pub fn depth(&self) -> u32 {
        self.depth.unwrap_or(0)
    }

    /// The number of attempts; 0 if it is not known.
    pub fn tries(&self) -> u8 {
        self.tries.unwrap_or(0)
    }

    /// The state of the URL, to compare it with another record; `None` if the record has no outcome.
    pub fn state(&self) -> Option<PageState<'_>> {
        Some(PageState {
            outcome: self.outcome?,
            status: self.status,
            has_error: self.error.is_some(),
            digest: self.digest,
            redirect: self.redirect.as_deref(),
        })
    }

    /// Whether this is the record of a page, not of a site file.
    pub fn is_page(&self) -> bool {
        self.r#type == "page"
    }

    /// Whether this is the marker of a URL that was queued and then excluded or out of scope.
    pub fn is_skip(&self) -> bool {
        self.r#type == "skip"
    }

    /// Whether this is the record of a request of a rendered page.
    pub fn is_part(&self) -> bool {
        self.r#type == PART
    }

    /// Whether search engines should not index the page.
    pub fn is_noindex(&self) -> bool {
        self.noindex || self.meta_robots.iter().any(|word| matches!(&**word, "noindex" | "none"))
    }

    /// Whether the response was 2xx, or 304 for a page whose earlier response was 2xx.
    pub fn is_success(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Ok | Outcome::NotModified))
    }

    /// As [`is_success`](Self::is_success), for HTML pages only.
    pub fn is_html_success(&self) -> bool {
        self.is_success() && matches!(self.content_type.as_deref(), Some("text/html" | "application/xhtml+xml"))
    }

    /// Whether the request was a GET without a body, so that the URL alone identifies it.
    pub fn is_plain_get(&self) -> bool {
        self.method.is_none() && self.request_id.is_none()
    }

    /// Where the archive has the body that the record describes; `None` if the record does not say it.
    pub fn archived_body(&self) -> Option<WarcPayload> {
        let WarcLocation { file, offset, length, payload, rendered, screenshot } = self.warc.as_deref()?;
        match payload {
            Some(payload) => Some((**payload).clone()),
            // The crawl that fetched the body had no archive.
            None if self.status == Some(304) => None,
            None => Some(WarcPayload {
                url: (*self.url).into(),
                date: self.started.as_deref()?.into(),
                file: file.clone(),
                offset: *offset,
                length: *length,
                rendered: *rendered,
                screenshot: *screenshot,
            }),
        }
    }
}
