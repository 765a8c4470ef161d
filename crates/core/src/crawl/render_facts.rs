//! [`RenderFacts`]: what the record of a rendered page says about its rendering.

use serde::{Deserialize, Serialize};

use crate::render::{RenderEnd, RenderReason};

/// The field `render` of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderFacts {
    /// Why the page was rendered.
    pub reason: RenderReason,
    /// Why the rendering ended.
    pub end: RenderEnd,
    /// Wall-clock milliseconds without the waits for responses.
    pub ms: u64,
    /// Virtual milliseconds.
    pub virtual_ms: u64,
    /// Requests of the page.
    pub requests: u32,
    /// Those that were answered from the cache of the crawl.
    pub cached: u32,
    /// Those that were refused, with the doors that scripts tried.
    pub refused: u32,
    /// Words that rendering added.
    pub words: u64,
    /// Links to follow that rendering added.
    pub links: u32,
    /// Errors of scripts: the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// What the page has without its scripts; `None` if there is no rendered document.
    #[serde(default, rename = "static", skip_serializing_if = "Option::is_none")]
    pub without_scripts: Option<StaticFacts>,
}

/// What a rendered page has without its scripts: the findings of its response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticFacts {
    /// The title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// The canonical address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canonical: Option<Box<str>>,
    /// Whether search engines are asked not to index it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub noindex: bool,
    /// Words of its text.
    pub words: u64,
    /// Links to follow.
    pub links: u32,
}
