//! What the rendering of a page begins with, its phases, and its result.

use std::time::Duration;

use super::RenderEnd;
use crate::base::url::Url;

/// The size of the window.
pub(super) const WIDTH: u32 = 1_280;
pub(super) const HEIGHT: u32 = 800;

/// The page to render: the response that the crawl has.
#[derive(Clone, Debug)]
pub struct PageInput {
    /// The address of the page.
    pub url: Url,
    /// Header fields of the response.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The body, decoded from its content codings.
    pub body: Vec<u8>,
    /// The time of day at which the page begins, in seconds since the Unix epoch.
    pub wall_seconds: i64,
    /// What scripts read as chance is computed from this.
    pub seed: u32,
}

/// The result of a rendering.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedPage {
    pub end: RenderEnd,
    /// The document as HTML; `None` if there is none.
    pub document: Option<String>,
    /// Wall-clock time without the waits for responses.
    pub busy: Duration,
    /// Virtual time that has passed.
    pub virtual_time: Duration,
    /// Requests that were passed on.
    pub requests: u32,
    /// Requests that were refused, and doors that were tried.
    pub refused: u32,
    /// Errors of scripts: the first ones.
    pub errors: Vec<String>,
    /// Routes that scripts pushed, and addresses that they wanted to open or to go to.
    pub links: Vec<String>,
    /// Where requests that could change something would have gone after the load. They were refused.
    pub refused_links: Vec<String>,
    /// A picture of the whole page as PNG, if one was wanted.
    pub screenshot: Option<Vec<u8>>,
}

/// What a page does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The tab is created.
    Opening,
    /// The tab is prepared. The page must not begin before that: its scripts would find the doors open.
    Preparing,
    /// The first document is loaded.
    Loading,
    /// Virtual time runs.
    Running,
    /// Virtual time is being stopped.
    Stopping,
    /// Requests wait for their answers.
    Waiting,
    /// Answers are being delivered.
    Delivering,
    /// The delivered answers reach the page.
    Delivered,
    /// The page is asked what it waits for.
    Probing,
    /// The page gets a frame.
    Framing,
    /// The document is read.
    Reading,
    /// The picture is being taken.
    Picturing,
    /// The rendering is over.
    Over,
}
