//! Pages: the content of responses, and which links are followed.
//!
//! [`examine`] reads a body as it arrives: charset, links, title, directives. [`reader`] processes whole bodies.
//! [`scope`] decides which links are followed, [`robots`] which the site allows, and [`sitemap`] which it lists.
//! [`follow`] applies the scope to the links of a page, [`prefer`] gives them priorities, and [`follow_list`] holds the
//! result. [`likeness`] recognises pages with the same or nearly the same text. [`page_budget`] limits the work on a page.

pub mod examine;
#[deny(missing_docs)]
pub mod follow;
pub mod follow_list;
pub mod likeness;
pub mod page_budget;
pub mod prefer;
#[deny(missing_docs)]
pub mod reader;
pub mod robots;
pub mod scope;
pub mod sitemap;
pub mod url_shape;
