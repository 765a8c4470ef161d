//! [`PageReader`]: processing of whole pages, on the worker that fetched them.
//!
//! The core examines bodies as they arrive and does not keep them. If content of a page (fields, text) or the body
//! itself is requested, [`BodyRules`] decide that the fetch holds the body. Its bytes are charged to the memory budget.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use encoding_rs::{Encoding, UTF_8};
use serde_json::{Map, Value};

use crate::base::budget::BudgetCharge;
use crate::base::custom_request::size_of_value;
use crate::base::url::Url;

/// Which bodies are held, and which reader they are passed to.
#[derive(Clone, Debug, Default)]
pub struct BodyRules {
    /// Bodies that are delivered with the visit.
    pub delivered: DeliveredBodies,
    /// Whether HTML pages with a 2xx status may be rendered. Their bodies are delivered for that.
    pub rendered: bool,
    /// Whether links are chosen by the elements of HTML pages that contain them.
    pub picked: bool,
    /// Reads the HTML pages with a 2xx status.
    pub reader: Option<Arc<dyn PageReader>>,
}

/// Which bodies are delivered with visits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveredBodies {
    /// None: bodies are not held for delivery.
    #[default]
    None,
    /// Bodies of HTML and XHTML pages.
    Html,
    /// Bodies of any text type: HTML, plain text, JSON, XML, scripts and styles.
    Text,
    /// All bodies.
    All,
}

/// Reads whole pages. One reader serves all workers.
pub trait PageReader: Debug + Send + Sync {
    /// Whether the page at this address is read. If not, its body is not held.
    fn should_read(&self, url: &Url) -> bool;

    /// Reads a page, decoded to text. `charset` is that of the page: the queries of its links are encoded in it.
    fn read(&self, url: &Url, html: &str, charset: Option<&str>) -> PageContent;

    /// Whether bodies of this type, which is not HTML, are read by [`PageReader::read_body`].
    fn reads_type(&self, _content_type: &str) -> bool {
        false
    }

    /// Reads a body of a type that is not HTML.
    fn read_body(&self, _content_type: &str, _body: &[u8], _charset: Option<&str>) -> PageContent {
        PageContent::default()
    }

    /// How often each field was looked for and found, for the report.
    fn counts(&self) -> Vec<FieldCount> {
        Vec::new()
    }
}

/// The result of a [`PageReader`]. It becomes part of the page's record.
#[derive(Debug, Default)]
pub struct PageContent {
    /// Extracted fields.
    pub data: Option<Map<String, Value>>,
    /// The main text.
    pub text: Option<Box<str>>,
    /// The main text as Markdown.
    pub markdown: Option<Box<str>>,
    /// The share of the words of the page that are in the text, from 0 to 1.
    pub kept: Option<f32>,
    /// What the page declares about itself: dates, author and so on.
    pub about: Option<Map<String, Value>>,
    /// Why something may be missing: a limit was reached, or the reader panicked.
    pub limited: Option<&'static str>,
    /// Charges the bytes of this content to the budget until the content is dropped.
    pub charge: Option<BudgetCharge>,
}

impl PageContent {
    /// The approximate memory use in bytes.
    pub fn bytes(&self) -> usize {
        let size = |map: &Option<Map<String, Value>>| -> usize {
            map.as_ref().map_or(0, |map| map.values().map(size_of_value).sum())
        };
        let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
        size(&self.data) + size(&self.about) + text(&self.text) + text(&self.markdown)
    }
}

/// How often a field was looked for and found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldCount {
    /// The name of the field. A field inside a repeated item has the name of the item before it, as in `product.price`.
    pub name: String,
    /// Pages in which the field was looked for.
    pub tried: u64,
    /// Pages in which it was found.
    pub matched: u64,
    /// Pages in which something matched, but nothing had the form or type that the rule requires.
    pub unusable: u64,
}

/// The buffer of a body doubles up to this length. A longer one grows by a quarter.
const DOUBLING_LIMIT: usize = 256 << 10;

/// The number of buffers that a thread keeps for bodies that are read and not delivered.
const MAX_SPARE_BUFFERS: usize = 4;
/// The largest buffer that is kept, in bytes.
const MAX_SPARE_CAPACITY: usize = 256 << 10;

thread_local! {
    /// Buffers of earlier bodies. The kernel maps the memory pages of a new buffer one by one, which costs as much CPU
    /// time as the extraction of a field.
    static SPARE_BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// The body and the headers of a response, and the bytes of the body that are charged to the budget.
#[derive(Debug)]
pub struct HeldBody {
    /// The body, decoded from its content codings. Empty if only the headers are delivered.
    pub bytes: Vec<u8>,
    /// The response headers, in order.
    pub headers: crate::http::conn::Headers,
    /// The bytes that are charged to the memory budget.
    pub charge: BudgetCharge,
}

impl HeldBody {
    /// An empty body, to be filled.
    pub(crate) fn new(charge: BudgetCharge) -> Self {
        Self { bytes: Vec::new(), headers: Vec::new(), charge }
    }

    /// Like [`HeldBody::new`], with the buffer of an earlier body of this thread if there is one.
    pub(crate) fn reusing(mut charge: BudgetCharge) -> Self {
        let bytes = SPARE_BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
        charge.grow(bytes.capacity());
        Self { bytes, headers: Vec::new(), charge }
    }

    /// Keeps the buffer for the next body, unless it is large.
    pub(crate) fn recycle(self) {
        let mut bytes = self.bytes;
        if bytes.capacity() == 0 || bytes.capacity() > MAX_SPARE_CAPACITY {
            return;
        }
        bytes.clear();
        SPARE_BUFFERS.with_borrow_mut(|spare| {
            if spare.len() < MAX_SPARE_BUFFERS {
                spare.push(bytes);
            }
        });
    }

    pub(crate) fn extend(&mut self, decoded: &[u8]) {
        let before = self.bytes.capacity();
        // The allocated capacity is charged to the budget, so a long body grows in smaller steps.
        if self.bytes.len() >= DOUBLING_LIMIT && before - self.bytes.len() < decoded.len() {
            self.bytes.reserve_exact(decoded.len().max(self.bytes.len() / 4));
        }
        self.bytes.extend_from_slice(decoded);
        self.charge.grow(self.bytes.capacity() - before);
    }
}

/// Decodes a body with the charset that the examiner found.
pub fn decode<'a>(bytes: &'a [u8], charset: Option<&str>) -> Cow<'a, str> {
    let encoding = charset.and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(UTF_8);
    encoding.decode(bytes).0
}

/// Whether a declared type is HTML. True without a declared type, because the body may be HTML.
fn is_html(declared: Option<&str>) -> bool {
    declared.is_none_or(|essence| matches!(essence, "" | "text/html" | "application/xhtml+xml"))
}

/// Whether a declared type is text. True without a declared type, as for [`is_html`].
fn is_text(declared: Option<&str>) -> bool {
    declared.is_none_or(|essence| {
        let subtype = essence.rsplit(['/', '+']).next().unwrap_or("");
        essence.starts_with("text/") || matches!(subtype, "" | "json" | "xml" | "xhtml" | "javascript" | "ecmascript")
    })
}

impl BodyRules {
    /// Whether the body of this response is held. `declared` is the essence of the declared type.
    pub(crate) fn should_hold(&self, url: &Url, status: u16, declared: Option<&str>) -> bool {
        let may_deliver = match self.delivered {
            DeliveredBodies::None => false,
            DeliveredBodies::Html => is_html(declared),
            DeliveredBodies::Text => is_text(declared),
            DeliveredBodies::All => true,
        };
        let has_reader = || self.reader.as_ref().is_some_and(|reader| reader.should_read(url));
        let is_read = || match (&self.reader, declared) {
            (Some(reader), Some(declared)) if !is_html(Some(declared)) => reader.reads_type(declared),
            _ => is_html(declared) && (self.rendered || self.picked || has_reader()),
        };
        may_deliver || ((200..300).contains(&status) && is_read())
    }

    /// Whether a held body is delivered with the visit. `content_type` is the type that the examiner found.
    pub(crate) fn should_deliver(&self, content_type: Option<&str>) -> bool {
        self.delivers_to_user(content_type) || (self.rendered && content_type.is_some() && is_html(content_type))
    }

    /// Whether the body of a page is delivered to the user. Bodies that are only rendered are not.
    pub fn delivers_to_user(&self, content_type: Option<&str>) -> bool {
        match self.delivered {
            DeliveredBodies::None => false,
            DeliveredBodies::Html => content_type.is_some() && is_html(content_type),
            DeliveredBodies::Text => content_type.is_some() && is_text(content_type),
            DeliveredBodies::All => true,
        }
    }

    /// Passes a complete page to the reader, and adds the bytes of the content to `charge`. If the reader panics, the
    /// page keeps its outcome, and the record gives the panic as the reason for the missing content.
    pub(crate) fn read(
        &self,
        url: &Url,
        status: u16,
        content_type: Option<&str>,
        charset: Option<&str>,
        body: &HeldBody,
        mut charge: BudgetCharge,
    ) -> Option<Box<PageContent>> {
        let reader = self.reader.as_ref()?;
        let content_type = content_type.filter(|_| (200..300).contains(&status))?;
        let read = if is_html(Some(content_type)) && reader.should_read(url) {
            let html = decode(&body.bytes, charset);
            catch_unwind(AssertUnwindSafe(|| reader.read(url, &html, charset)))
        } else if !is_html(Some(content_type)) && reader.reads_type(content_type) {
            catch_unwind(AssertUnwindSafe(|| reader.read_body(content_type, &body.bytes, charset)))
        } else {
            return None;
        };
        let mut content = read.unwrap_or_else(|_| PageContent {
            limited: Some("a fault in Argiope while it read the content"),
            ..PageContent::default()
        });
        charge.grow(content.bytes());
        content.charge = Some(charge);
        Some(Box::new(content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_decide_which_bodies_are_held() {
        let rules = |delivered| BodyRules { delivered, rendered: false, picked: false, reader: None };
        let url = Url::parse("http://h/").expect("an address");
        for (declared, html, text) in [
            (Some("text/html"), true, true),
            (None, true, true),
            (Some("application/json"), false, true),
            (Some("image/svg+xml"), false, true),
            (Some("image/png"), false, false),
        ] {
            assert_eq!(rules(DeliveredBodies::Html).should_hold(&url, 404, declared), html, "{declared:?}");
            assert_eq!(rules(DeliveredBodies::Text).should_hold(&url, 200, declared), text, "{declared:?}");
            assert!(rules(DeliveredBodies::All).should_hold(&url, 200, declared));
            assert!(!rules(DeliveredBodies::None).should_hold(&url, 200, declared));
        }
        assert!(!rules(DeliveredBodies::Html).should_deliver(None), "without a detected type, a body is not HTML");
    }

    #[test]
    fn a_small_buffer_is_reused_and_charged() {
        let budget = crate::base::budget::Budget::new(1 << 30);
        let mut body = HeldBody::reusing(budget.hold());
        body.extend(&[7; 50_000]);
        let capacity = body.bytes.capacity();
        body.recycle();
        assert_eq!(budget.response_bytes(), 0);
        let again = HeldBody::reusing(budget.hold());
        assert_eq!((again.bytes.len(), again.bytes.capacity()), (0, capacity));
        assert_eq!(budget.response_bytes(), capacity as u64);
        let mut large = HeldBody::reusing(budget.hold());
        large.extend(&vec![7; MAX_SPARE_CAPACITY + 1]);
        large.recycle();
        assert_eq!(HeldBody::reusing(budget.hold()).bytes.capacity(), 0, "a large buffer is freed");
    }

    #[test]
    fn a_body_is_decoded_by_its_charset() {
        assert_eq!(decode(b"caf\xe9", Some("windows-1252")), "caf\u{e9}");
        assert_eq!(decode(b"\xef\xbb\xbfa\xff", None), "a\u{fffd}");
    }
}
