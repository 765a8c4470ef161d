//! The messages of the debugging protocol that are used here, and the commands that are on their way.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A page that is being rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TabId(pub u64);

/// What every message of the browser has, without its content.
#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    /// The command that this answers; `None` for an event.
    pub(super) id: Option<u64>,
    /// The name of the event.
    #[serde(borrow)]
    pub(super) method: Option<Cow<'a, str>>,
    /// The page that it belongs to.
    #[serde(borrow, rename = "sessionId")]
    pub(super) session: Option<Cow<'a, str>>,
    pub(super) error: Option<CommandError>,
}

/// Why the browser refused a command.
#[derive(Deserialize)]
pub(super) struct CommandError {
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Deserialize)]
struct WithResult<T> {
    result: T,
}

#[derive(Deserialize)]
struct WithParams<T> {
    params: T,
}

/// The result of a command. `None` if it has another form.
pub(super) fn result<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Option<T> {
    serde_json::from_slice::<WithResult<T>>(message).ok().map(|with| with.result)
}

/// The content of an event. `None` if it has another form.
pub(super) fn params<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Option<T> {
    serde_json::from_slice::<WithParams<T>>(message).ok().map(|with| with.params)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatedContext {
    pub(super) browser_context_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatedTarget {
    pub(super) target_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Attached {
    pub(super) session_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VirtualTime {
    /// Milliseconds of the browser's clock.
    pub(super) virtual_time_ticks_base: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DrawnFrame<'a> {
    /// In base64.
    #[serde(borrow)]
    pub(super) screenshot_data: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Navigated {
    pub(super) frame_id: String,
    pub(super) error_text: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Evaluated {
    pub(super) result: EvaluatedValue,
}

#[derive(Deserialize)]
pub(super) struct EvaluatedValue {
    pub(super) value: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Cookies {
    pub(super) cookies: Vec<BrowserCookie>,
}

#[derive(Deserialize)]
pub(super) struct BrowserCookie {
    pub(super) name: String,
    pub(super) value: String,
}

/// What the page still waits for: see `doors.js`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Probe {
    /// Virtual milliseconds since the start of the page.
    pub(super) now: f64,
    /// Timers that are due before the end of the virtual time.
    pub(super) pending: u32,
    /// Whether the page waits for a frame.
    pub(super) frame: bool,
    /// Whether the page has frames of its own. Their timers are not counted.
    pub(super) framed: bool,
    /// How often the page tried a door that is closed.
    pub(super) closed: u32,
    /// Whether the load event has been sent.
    pub(super) loaded: bool,
    /// The lower edge of what is visible, and the height of the document.
    pub(super) bottom: f64,
    pub(super) height: f64,
    /// Number of elements.
    pub(super) nodes: u64,
    /// Routes that scripts pushed, and windows that they opened. After a click, also the links of the page.
    pub(super) links: Vec<String>,
    /// The answer to `click`: whether there was something to click.
    #[serde(default)]
    pub(super) clicked: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestPaused {
    pub(super) request_id: String,
    pub(super) request: PausedRequest,
    #[serde(default)]
    pub(super) frame_id: String,
    #[serde(default)]
    pub(super) resource_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PausedRequest {
    pub(super) url: String,
    pub(super) method: String,
    #[serde(default)]
    pub(super) headers: serde_json::Map<String, Value>,
    #[serde(default)]
    pub(super) post_data_entries: Vec<PostData>,
    /// Whether there is a body, also where it is not listed here.
    #[serde(default)]
    pub(super) has_post_data: bool,
}

#[derive(Deserialize)]
pub(super) struct PostData {
    /// Base64.
    #[serde(default)]
    pub(super) bytes: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameAttached {
    pub(super) frame_id: String,
    pub(super) parent_frame_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExceptionThrown {
    pub(super) exception_details: ExceptionDetails,
}

#[derive(Deserialize)]
pub(super) struct ExceptionDetails {
    #[serde(default)]
    pub(super) text: String,
    pub(super) exception: Option<ExceptionObject>,
}

#[derive(Deserialize)]
pub(super) struct ExceptionObject {
    pub(super) description: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TargetCrashed {
    pub(super) target_id: String,
    #[serde(default)]
    pub(super) status: String,
}

/// What the answer to a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The browser has started.
    Greeting,
    Context,
    Target,
    Session,
    Clock,
    Navigation,
    /// One of the commands that the current phase waits for.
    Step,
    Probe,
    /// The frame of the request with this number is known by now.
    Frame(u64),
    /// The cookies for the request with this number.
    Cookies(u64),
    Snapshot,
    /// The frame that is drawn as an image.
    Picture,
    /// The tab of a page that is over is closed.
    Closed,
}

/// A command, as sent.
#[derive(Serialize)]
struct Command<'a> {
    id: u64,
    method: &'a str,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    params: &'a Value,
}

/// The parameter that is a body in base64. No other parameter of its commands can contain its name in quotes: quotes in
/// strings are escaped.
const BODY: &str = "body";
const BODY_CHUNK: usize = 48 << 10;

/// Commands for the browser, and those whose answers are awaited.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) bytes: Vec<u8>,
    last_id: u64,
    awaited: HashMap<u64, (TabId, Reply)>,
}

impl Outbox {
    /// Sends a command of a page. `session` is `None` for commands to the browser itself. The answer is of interest only
    /// with `reply`.
    pub(super) fn send(
        &mut self,
        tab: TabId,
        session: Option<&str>,
        method: &str,
        params: Value,
        reply: Option<Reply>,
    ) {
        self.write(tab, session, method, &params, reply);
    }

    /// Sends a command with a body among its parameters, which is written as base64 without a copy in between.
    pub(super) fn send_with_body(
        &mut self,
        tab: TabId,
        session: Option<&str>,
        method: &str,
        mut params: Value,
        body: &[u8],
        reply: Option<Reply>,
    ) {
        // The parameter is the last one in the message, and empty at first.
        let start = self.bytes.len();
        if let Some(fields) = params.as_object_mut() {
            fields.insert(BODY.into(), "".into());
        }
        self.write(tab, session, method, &params, reply);
        let empty = format!("\"{BODY}\":\"\"");
        let message = self.bytes.get(start..).unwrap_or_default();
        let Some(place) = memchr::memmem::find(message, empty.as_bytes()) else { return };
        let rest = self.bytes.split_off(start + place + empty.len() - 1);
        self.bytes.reserve(body.len() / 3 * 4 + 4 + rest.len());
        // The chunks are multiples of three bytes, so their codes can be joined.
        for chunk in body.chunks(BODY_CHUNK) {
            self.bytes.extend_from_slice(STANDARD.encode(chunk).as_bytes());
        }
        self.bytes.extend_from_slice(&rest);
    }

    fn write(&mut self, tab: TabId, session: Option<&str>, method: &str, params: &Value, reply: Option<Reply>) {
        self.last_id += 1;
        let message = Command { id: self.last_id, method, session_id: session, params };
        if serde_json::to_writer(&mut self.bytes, &message).is_ok() {
            self.bytes.push(0);
        }
        if let Some(reply) = reply {
            self.awaited.insert(self.last_id, (tab, reply));
        }
    }

    /// What the answer to this command is for.
    pub(super) fn answered(&mut self, id: u64) -> Option<(TabId, Reply)> {
        self.awaited.remove(&id)
    }

    /// Forgets the commands of a page that has ended.
    pub(super) fn forget(&mut self, tab: TabId) {
        self.awaited.retain(|_, (other, _)| *other != tab);
    }
}
