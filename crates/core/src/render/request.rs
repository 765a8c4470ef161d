//! The requests of a page: what they are for, and what they may do.
//!
//! A page must not act with what the crawl has for others. A request of the page's own origin may do everything. One to
//! another origin may only read, and gets no login. A frame that another origin has filled counts as another origin, also
//! where it asks for an address of the page's origin: it must not act in the name of the page either.

use hashbrown::HashMap;
use serde_json::Value;

use crate::base::custom_request::Method;
use crate::base::job::PartAccess;
use crate::base::url::Url;

/// A request of a page, to be answered with [`DevTools::answer`](super::DevTools::answer).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserRequest {
    /// Its number in the browser.
    pub id: u64,
    pub url: Url,
    pub method: Method,
    /// Header fields that scripts or elements set. Cookies are in `cookies`.
    pub headers: Vec<(Box<str>, Box<str>)>,
    pub body: Vec<u8>,
    pub kind: RequestKind,
    /// What it may use of what the crawl has for its target.
    pub access: PartAccess,
    /// The cookies of the page for this URL.
    pub cookies: Vec<(String, String)>,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// The document of a frame.
    Document,
    Style,
    Script,
    Image,
    Media,
    Font,
    /// `fetch` and `XMLHttpRequest`.
    Xhr,
    Other,
}

impl RequestKind {
    /// The names in records.
    pub const NAMES: &[&str] = &["document", "style", "script", "image", "media", "font", "xhr", "other"];

    /// The name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Style => "style",
            Self::Script => "script",
            Self::Image => "image",
            Self::Media => "media",
            Self::Font => "font",
            Self::Xhr => "xhr",
            Self::Other => "other",
        }
    }

    /// The kind of a resource type of the protocol. `None` if such requests are refused.
    pub(super) fn of(resource_type: &str) -> Option<Self> {
        Some(match resource_type {
            "Document" => Self::Document,
            "Stylesheet" => Self::Style,
            "Script" => Self::Script,
            "Image" => Self::Image,
            "Media" | "TextTrack" => Self::Media,
            "Font" => Self::Font,
            "XHR" | "Fetch" => Self::Xhr,
            "Manifest" | "Other" => Self::Other,
            _ => return None,
        })
    }
}

/// The answer to a request of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrowserAnswer {
    Response {
        status: u16,
        headers: Vec<(Box<str>, Box<str>)>,
        /// The body, decoded from its content codings.
        body: Vec<u8>,
    },
    /// The rules of the crawl forbid the request.
    Refused,
    /// There was no response.
    Failed,
}

impl BrowserAnswer {
    /// An estimate of the memory in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Response { headers, body, .. } => {
                body.len() + headers.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>()
            }
            Self::Refused | Self::Failed => 0,
        }
    }
}

/// Limit on the frames of a page that are told apart. All further ones count as those of another origin.
const MAX_FRAMES: usize = 10_000;

/// Which frames have been filled by the origin of the page only.
#[derive(Debug, Default)]
pub(super) struct Frames {
    is_own: HashMap<String, bool>,
}

impl Frames {
    /// The frame of the page itself.
    pub(super) fn main(&mut self, frame: &str) {
        self.is_own.insert(frame.to_owned(), true);
    }

    /// A new frame, empty at first: its content is that of its parent until it requests a document.
    pub(super) fn attached(&mut self, frame: String, parent: &str) {
        if self.is_own.len() < MAX_FRAMES {
            let is_own = self.is_own.get(parent).copied().unwrap_or(false);
            self.is_own.insert(frame, is_own);
        }
    }

    pub(super) fn knows(&self, frame: &str) -> bool {
        self.is_own.contains_key(frame) || self.is_own.len() >= MAX_FRAMES
    }

    /// What a request of this frame may use. A frame that requests the document of another origin is not the page's own
    /// from then on.
    pub(super) fn access(&mut self, frame: &str, page: &Url, request: &BrowserRequest) -> PartAccess {
        let own = page.origin().to_string();
        // Sandboxed frames have the origin `null`.
        let names_other = origin_of(request).is_some_and(|origin| origin != own);
        let access = match self.is_own.get(frame) {
            Some(true) if !names_other => PartAccess::between(page, &request.url),
            _ => PartAccess::Other,
        };
        if request.kind == RequestKind::Document
            && access != PartAccess::SameOrigin
            && let Some(is_own) = self.is_own.get_mut(frame)
        {
            *is_own = false;
        }
        access
    }
}

/// Whether a request may be sent at all with this access. A request that may change something names its origin.
pub(super) fn may_be_sent(request: &BrowserRequest, access: PartAccess, page: &Url) -> bool {
    let is_read = matches!(request.method, Method::Get | Method::Head);
    let is_named = || origin_of(request).is_some_and(|origin| origin == page.origin().to_string());
    is_read || (access == PartAccess::SameOrigin && is_named())
}

fn origin_of(request: &BrowserRequest) -> Option<&str> {
    request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("origin")).map(|(_, value)| &**value)
}

/// Whether a header field of a response is passed to the page. The body is decoded already, and the rest would make the
/// browser send requests of its own.
pub(super) fn is_for_page(name: &str) -> bool {
    const DROPPED: [&str; 13] = [
        "content-encoding",
        "content-length",
        "transfer-encoding",
        "connection",
        "alt-svc",
        "clear-site-data",
        "nel",
        "report-to",
        "reporting-endpoints",
        "refresh",
        "strict-transport-security",
        "service-worker-allowed",
        "link",
    ];
    !DROPPED.iter().any(|dropped| name.eq_ignore_ascii_case(dropped))
}

/// The header fields of a request that scripts and elements determine. All others are those of the crawl.
pub(super) fn request_headers(all: &serde_json::Map<String, Value>) -> Vec<(Box<str>, Box<str>)> {
    let is_own = |name: &str| {
        let name = name.to_ascii_lowercase();
        let is_of_crawl = ["user-agent", "cookie", "host", "content-length", "connection", "accept-encoding", "dnt"]
            .contains(&name.as_str());
        let is_of_browser = name.starts_with("sec-") || name.starts_with("if-") || name.starts_with("proxy-");
        !is_of_crawl && !is_of_browser && name != "upgrade-insecure-requests" && name != "purpose"
    };
    all.iter()
        .filter(|(name, _)| is_own(name))
        .filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(url: &str, method: Method, kind: RequestKind, origin: Option<&str>) -> BrowserRequest {
        BrowserRequest {
            id: 1,
            url: Url::parse(url).expect("a URL"),
            method,
            headers: origin.map(|origin| ("Origin".into(), origin.into())).into_iter().collect(),
            body: Vec::new(),
            kind,
            access: PartAccess::Other,
            cookies: Vec::new(),
        }
    }

    /// The access of a frame, and whether the request may be sent.
    fn decide(frames: &mut Frames, frame: &str, request: &BrowserRequest) -> (PartAccess, bool) {
        let page = Url::parse("https://wiki.corp.example/").expect("a URL");
        let access = frames.access(frame, &page, request);
        (access, may_be_sent(request, access, &page))
    }

    #[test]
    fn only_the_origin_of_the_page_may_change_something() {
        let mut frames = Frames::default();
        frames.main("main");
        let own = Some("https://wiki.corp.example");
        for (url, origin, expected) in [
            ("https://wiki.corp.example/api", own, (PartAccess::SameOrigin, true)),
            ("https://wiki.corp.example/api", None, (PartAccess::SameOrigin, false)),
            ("https://wiki.corp.example/api", Some("null"), (PartAccess::Other, false)),
            ("https://wiki.corp.example:8443/api", own, (PartAccess::SameSite, false)),
            ("https://api.corp.example/", own, (PartAccess::SameSite, false)),
            ("https://other.example/", own, (PartAccess::Other, false)),
        ] {
            for method in [Method::Post, Method::Put, Method::Patch, Method::Delete] {
                let asked = request(url, method, RequestKind::Xhr, origin);
                assert_eq!(decide(&mut frames, "main", &asked), expected, "{method:?} {url} from {origin:?}");
            }
            let asked = request(url, Method::Get, RequestKind::Xhr, origin);
            assert_eq!(decide(&mut frames, "main", &asked), (expected.0, true), "GET {url}");
        }
    }

    #[test]
    fn a_frame_of_another_origin_and_its_frames_have_no_access_to_the_origin_of_the_page() {
        let mut frames = Frames::default();
        frames.main("main");
        frames.attached("frame".into(), "main");
        let own = request("https://wiki.corp.example/x", Method::Get, RequestKind::Xhr, None);
        assert_eq!(decide(&mut frames, "frame", &own).0, PartAccess::SameOrigin, "about:blank is the page's own");
        let document = request("https://other.example/ad", Method::Get, RequestKind::Document, None);
        assert_eq!(decide(&mut frames, "frame", &document).0, PartAccess::Other);
        frames.attached("inner".into(), "frame");
        for frame in ["frame", "inner", "unknown"] {
            assert_eq!(decide(&mut frames, frame, &own).0, PartAccess::Other, "{frame}");
            let post = request(
                "https://wiki.corp.example/x",
                Method::Post,
                RequestKind::Xhr,
                Some("https://wiki.corp.example"),
            );
            assert!(!decide(&mut frames, frame, &post).1, "{frame}");
        }
        assert_eq!(decide(&mut frames, "main", &own).0, PartAccess::SameOrigin);
    }
}
