//! [`PageSource`]: the documents of one page, the response and, if the page was rendered, what its scripts made of it.

use std::collections::HashSet;

use argiope_core::Outcome;
use argiope_core::crawl::visit::Visit;
use argiope_core::page::reader::decode;
use encoding_rs::Encoding;

use crate::document::Reference;

/// The decoded documents of a page.
pub(super) struct PageSource {
    /// What the server sent.
    pub text: String,
    pub encoding: &'static Encoding,
    /// What the scripts of the page made of it, if they were run.
    pub rendered: Option<String>,
}

impl PageSource {
    /// Takes the documents of a visit, if it succeeded with HTML.
    pub fn take(visit: &mut Visit) -> Option<Self> {
        let body = visit.body.take().filter(|_| visit.facts.outcome == Outcome::Ok)?;
        if !matches!(visit.findings.content_type.as_deref(), Some("text/html" | "application/xhtml+xml")) {
            return None;
        }
        let label = visit.findings.charset;
        let text = decode(&body.bytes, label).into_owned();
        Some(match visit.static_page.take() {
            None => Self { text, encoding: encoding(label), rendered: None },
            Some(page) => Self {
                text: decode(&page.body.bytes, page.charset).into_owned(),
                encoding: encoding(page.charset),
                rendered: Some(text),
            },
        })
    }

    /// The documents, each with the encoding in which its addresses are read.
    pub fn documents(&self) -> impl Iterator<Item = (&str, &'static Encoding)> {
        let rendered = self.rendered.iter().map(|text| (text.as_str(), encoding_rs::UTF_8));
        std::iter::once((self.text.as_str(), self.encoding)).chain(rendered)
    }

    /// The length of all documents in bytes.
    pub fn len(&self) -> usize {
        self.documents().map(|(text, _)| text.len()).sum()
    }
}

fn encoding(label: Option<&str>) -> &'static Encoding {
    label.and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(encoding_rs::UTF_8)
}

/// The references that the response of a rendered page has. Those of the rendered document that are not among them come
/// from scripts.
#[derive(Default)]
pub(super) struct StaticReferences {
    hrefs: HashSet<String>,
    targets: HashSet<u32>,
}

impl StaticReferences {
    pub fn add_href(&mut self, reference: &Reference<'_>) {
        self.hrefs.insert(reference.href.clone().into_owned());
    }

    pub fn add_target(&mut self, target: u32) {
        self.targets.insert(target);
    }

    pub fn has_href(&self, reference: &Reference<'_>) -> bool {
        self.hrefs.contains(&*reference.href)
    }

    pub fn has_target(&self, target: u32) -> bool {
        self.targets.contains(&target)
    }
}
