//! Pages: URLs, links, and the content of responses.
//!
//! [`url`] and [`link`] are the addresses. [`custom_request`] describes requests that are not a plain GET. [`examine`]
//! reads a body as it arrives: charset, links, title, directives. [`reader`] processes whole bodies. [`scope`] decides
//! which links are followed, [`robots`] which the site allows, and [`sitemap`] which it lists. [`follow`] applies the
//! scope to the links of a page, and [`follow_list`] holds the result.

#[deny(missing_docs)]
pub mod custom_request;
pub mod examine;
#[deny(missing_docs)]
pub mod follow;
pub mod follow_list;
#[deny(missing_docs)]
pub mod link;
#[deny(missing_docs)]
pub mod reader;
pub mod robots;
pub mod scope;
pub mod sitemap;
#[deny(missing_docs)]
pub mod url;
