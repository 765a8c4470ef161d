//! [`WarcLocation`]: where an archive holds a visit.

use serde::{Deserialize, Serialize};

/// The position of a visit in an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarcLocation {
    pub file: String,
    /// The start of the WARC record of the response in the file.
    pub offset: u64,
    /// The compressed length of this WARC record.
    pub length: u64,
    /// Where the body is, if it is not in this WARC record: the response was a 304, or the same body was archived
    /// before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<WarcPayload>>,
}

/// The archived response that holds the body of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarcPayload {
    /// The URL of that response. It may be another page with the same body.
    pub url: Box<str>,
    /// When it was fetched: its WARC-Date.
    pub date: Box<str>,
    pub file: String,
    pub offset: u64,
    pub length: u64,
}
