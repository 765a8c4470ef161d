//! Extraction of content from pages: CSS selectors, structured data, main text and Markdown.
//!
//! All functions are pure, and take linear or bounded time for any input. [`Document`] is the parsed page, [`Selector`]
//! finds elements, [`Extraction`] extracts named fields by rules, [`Article`] is the main content, [`rewrite_page`]
//! replaces the URLs of a page.

mod document;
mod extract;
mod main_text;
mod rewrite;
mod select;
mod structured;

pub use argiope_core::page::reader::FieldCount;
pub use document::{Document, Element, ParseLimits};
pub use extract::{Extracted, Extraction, RuleError, Tally};
pub use main_text::Article;
pub use rewrite::{PageRewriter, ReferenceUse, Replacement, rewrite_css, rewrite_page};
pub use select::{Matches, SelectError, Selector, Steps};
pub use structured::DataPath;
