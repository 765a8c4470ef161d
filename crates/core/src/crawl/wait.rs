//! [`WaitReason`]: why the next request to a host is not due yet.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why the next request to a host is not due yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// `Crawl-delay` in robots.txt.
    CrawlDelay,
    /// `--delay`, or the pace controller.
    Delay,
    /// Not reported: a `Retry-After` header is a reason for [`WaitReason::BackOff`].
    RetryAfter,
    /// The host answered 429 or 503, with or without `Retry-After`, or failed.
    BackOff,
    /// An attempt failed; the next one is due later.
    Retry,
    /// `--rate`.
    Rate,
    /// All connections to the host wait for a response.
    Responses,
    /// The host name is being resolved.
    Dns,
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CrawlDelay => "Crawl-delay",
            Self::Delay => "delay between requests",
            Self::RetryAfter => "Retry-After",
            Self::BackOff => "backing off",
            Self::Retry => "before the next try",
            Self::Rate => "limited by --rate",
            Self::Responses => "its responses",
            Self::Dns => "looking up its address",
        })
    }
}
