//! [`WaitReason`]: why the next request to a host is not due yet. [`WidthReason`]: why a host gets no more requests at
//! once.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why the next request to a host is not due yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// `Crawl-delay` in robots.txt.
    CrawlDelay,
    /// The setting `delay`, or the pace controller.
    Delay,
    /// Not reported: a `Retry-After` header is a reason for [`WaitReason::BackOff`].
    RetryAfter,
    /// The host answered 429 or 503, with or without `Retry-After`, or failed.
    BackOff,
    /// An attempt failed; the next one is due later.
    Retry,
    /// The setting `rate`.
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
            Self::Rate => "limited by the rate",
            Self::Responses => "its responses",
            Self::Dns => "looking up its address",
        })
    }
}

/// Why the number of requests in flight to a host is limited as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WidthReason {
    /// The width is still growing.
    #[default]
    Opening,
    /// The width has reached the setting `per_host`.
    Limit,
    /// The setting `pace` is `gentle`.
    Gentle,
    /// robots.txt has a `Crawl-delay`.
    CrawlDelay,
    /// More requests would make this machine the bottleneck.
    Machine,
    /// A wider window made the host slower.
    NoGain,
    /// The host became slower, and a narrower window helps.
    Slower,
    /// A wider window was refused with 429 or 503.
    Refused,
    /// There were resets or timeouts.
    Errors,
}

impl fmt::Display for WidthReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening => "opening",
            Self::Limit => "at the limit for one host",
            Self::Gentle => "gentle pace",
            Self::CrawlDelay => "Crawl-delay: one request at a time",
            Self::Machine => "this machine is the bottleneck",
            Self::NoGain => "more requests at once make the host slower",
            Self::Slower => "the host became slower",
            Self::Refused => "the host refused more (429 or 503)",
            Self::Errors => "after resets or time-outs",
        })
    }
}
