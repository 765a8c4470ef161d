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
}
