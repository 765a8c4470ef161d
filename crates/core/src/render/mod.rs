//! Rendering: a headless browser as a state machine. It gets bytes and time, and nothing else.
//!
//! The browser has no network and no clock. [`DevTools`] is the client of its debugging protocol: bytes from the
//! browser go in, bytes for the browser come out. A page is opened with the response that the crawl already has. Every
//! further request of the page is a [`RenderEvent::Request`], which the caller answers. Virtual time stands still while a
//! request is unanswered, and otherwise passes as fast as the page can be computed. At the end the document, with its
//! shadow roots and frames, is written as HTML ([`RenderedPage`]).
//!
//! Nothing here starts a process, reads a clock or decides whether a request may be sent.

mod devtools;
mod evidence;
mod page_life;
mod pipe;
mod protocol;
mod rendered_page;
mod request;
mod snapshot;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use crate::base::value::Interact;
pub use devtools::{DevTools, RenderEvent};
pub use evidence::{Evidence, RenderReason, TemplateId};
pub use protocol::TabId;
pub use rendered_page::{PageInput, RenderedPage};
pub use request::{BrowserAnswer, BrowserRequest, RequestKind};

/// The limits of one rendered page, and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderLimits {
    /// Virtual time that a page gets.
    pub virtual_time: Duration,
    /// Wall-clock time that a page gets while it does not wait for responses. With the waits, it gets ten times that.
    pub busy_time: Duration,
    /// Requests that a page may make, with those of its frames.
    pub requests: u32,
    /// What is done after the load to find more.
    pub interact: Interact,
    /// Whether images, fonts and media are requested.
    pub with_images: bool,
    /// Whether a picture of the page is taken.
    pub screenshot: bool,
    /// Limit on the document as HTML, in bytes. The rest is cut off.
    pub document: usize,
}

/// A message of the browser may be this many times as long as the largest document: it has a few numbers for each node.
const MESSAGE_FACTOR: usize = 4;
/// Limits on the length of a message from the browser, in bytes.
const MIN_MESSAGE: usize = 8 << 20;
const MAX_MESSAGE: usize = 64 << 20;

impl RenderLimits {
    /// Limit on the length of a message from the browser, in bytes.
    fn message(&self) -> usize {
        self.document.saturating_mul(MESSAGE_FACTOR).clamp(MIN_MESSAGE, MAX_MESSAGE)
    }
}

impl Default for RenderLimits {
    fn default() -> Self {
        Self {
            virtual_time: Duration::from_secs(10),
            busy_time: Duration::from_secs(30),
            requests: 1_000,
            interact: Interact::Scroll,
            with_images: false,
            screenshot: false,
            document: 10 << 20,
        }
    }
}

/// Why the rendering of a page ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RenderEnd {
    /// Nothing more can happen on the page.
    Idle,
    /// The virtual time is used up.
    Budget,
    /// The wall-clock time is used up.
    Timeout,
    /// The page wanted more requests than it may make.
    Requests,
    /// The page wanted more memory than it may use, or its document is too large.
    Memory,
    /// The browser or a part of it ended.
    Crash,
    /// The browser did not accept the document.
    Refused,
}

impl RenderEnd {
    /// The name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Budget => "budget",
            Self::Timeout => "timeout",
            Self::Requests => "requests",
            Self::Memory => "memory",
            Self::Crash => "crash",
            Self::Refused => "refused",
        }
    }
}
