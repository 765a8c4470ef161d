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
    /// The compressed length of the WARC record with the rendered document, which follows that of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered: Option<u64>,
    /// The same for the picture of the page, which follows these two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<u64>,
}

impl WarcLocation {
    /// The place of a WARC record alone.
    pub fn of_record(file: String, offset: u64, length: u64) -> Self {
        Self { file, offset, length, payload: None, rendered: None, screenshot: None }
    }

    /// Where the rendered document of the page is; `None` if there is none. If the response was a 304, it is that of the
    /// response with the body.
    pub fn rendered_document(&self) -> Option<Self> {
        let own = self.after(self.offset, self.length, self.rendered);
        let of_body =
            || self.payload.as_ref().and_then(|body| body.location().after(body.offset, body.length, body.rendered));
        own.or_else(of_body)
    }

    /// Where the picture of the page is. See [`WarcLocation::rendered_document`].
    pub fn screenshot(&self) -> Option<Self> {
        let end = |length: u64, rendered: Option<u64>| length.saturating_add(rendered.unwrap_or(0));
        let own = self.after(self.offset, end(self.length, self.rendered), self.screenshot);
        let of_body = || {
            let body = self.payload.as_ref()?;
            body.location().after(body.offset, end(body.length, body.rendered), body.screenshot)
        };
        own.or_else(of_body)
    }

    /// The record of this length that follows what is at an offset.
    fn after(&self, offset: u64, length: u64, next: Option<u64>) -> Option<Self> {
        Some(Self::of_record(self.file.clone(), offset.checked_add(length)?, next?))
    }
}

impl WarcPayload {
    /// Its WARC record.
    pub fn location(&self) -> WarcLocation {
        WarcLocation::of_record(self.file.clone(), self.offset, self.length)
    }
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
    /// As in [`WarcLocation`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered: Option<u64>,
    /// As in [`WarcLocation`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<u64>,
}
