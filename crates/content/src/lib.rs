//! Extraction of content from pages: CSS selectors, structured data, main text and Markdown.
//!
//! All functions are pure, and take time and memory in proportion to the page for any input: they charge a
//! [`PageBudget`](argiope_core::page::page_budget::PageBudget). [`Document`] is the parsed page, [`Selector`]
//! finds elements, [`Extraction`] extracts named fields by rules, [`Article`] is the main content, [`rewrite_page`]
//! copies a page with other URLs and without scripts.

mod about;
mod body_text;
mod document;
mod extract;
mod main_text;
#[cfg(feature = "pdf")]
mod pdf;
mod rewrite;
mod select;
mod structured;

pub use about::{AboutSource, Declared, PageAbout};
pub use argiope_core::page::reader::FieldCount;
pub use body_text::{has_body_text, read_body_text};
pub use document::{Document, Element, ParseLimits, USED_UP};
pub use extract::{DataColumn, Extracted, Extraction, RuleError, Tally, ValueType};
pub use main_text::{Article, ContentPart, LinkTargets, MainText, PageText, TEXT_CUT, TextFormat, TextRequest};
#[cfg(feature = "pdf")]
pub use pdf::{PDF_ENCRYPTED, PdfText};
pub use rewrite::{PageRewriter, ReferenceUse, Replacement, rewrite_css, rewrite_page, rewrite_svg};
pub use select::{Matches, SelectError, Selector};
pub use structured::DataPath;
