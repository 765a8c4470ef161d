//! [`DevTools`]: the client of the debugging protocol of one browser, with the pages that it renders.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use serde_json::json;

use super::page_life::PageLife;
use super::pipe::{Message, MessageSplitter};
use super::protocol::{
    self, Attached, Cookies, CreatedContext, CreatedTarget, DrawnFrame, Envelope, Evaluated, ExceptionThrown,
    FrameAttached, Navigated, Outbox, Probe, Reply, RequestPaused, TabId, TargetCrashed, VirtualTime,
};
use super::rendered_page::{HEIGHT, PageInput, RenderedPage, WIDTH};
use super::request::{BrowserAnswer, BrowserRequest};
use super::{RenderEnd, RenderLimits, snapshot};
use crate::base::time::Time;

/// Runs before all scripts of a page.
const DOORS: &str = include_str!("doors.js");

/// What the caller must know about.
#[derive(Clone, Debug, PartialEq)]
pub enum RenderEvent {
    /// A page makes a request, to be answered with [`DevTools::answer`].
    Request(TabId, BrowserRequest),
    /// A page is complete.
    Done(TabId, Box<RenderedPage>),
}

/// How long the browser may take to close a tab, before it is ended.
const CLOSE_TIME: Duration = Duration::from_secs(10);

/// The client of one browser, and of those that replace it.
///
/// The numbers of tabs and requests are never used twice, so an answer that comes after the end of its browser reaches
/// no page of the next one.
#[derive(Debug)]
pub struct DevTools {
    limits: RenderLimits,
    splitter: MessageSplitter,
    out: Outbox,
    pages: BTreeMap<TabId, PageLife>,
    /// Tabs whose pages are over, and until when the browser must have closed them.
    closing: BTreeMap<TabId, Time>,
    sessions: HashMap<String, TabId>,
    events: VecDeque<RenderEvent>,
    last_tab: u64,
    last_request: u64,
    is_ready: bool,
    is_broken: bool,
}

impl DevTools {
    /// A client for a browser that has just started.
    pub fn new(limits: RenderLimits) -> Self {
        let mut client = Self {
            splitter: MessageSplitter::new(limits.message()),
            limits,
            out: Outbox::default(),
            pages: BTreeMap::new(),
            closing: BTreeMap::new(),
            sessions: HashMap::new(),
            events: VecDeque::new(),
            last_tab: 0,
            last_request: 0,
            is_ready: false,
            is_broken: false,
        };
        client.greet();
        client
    }

    fn greet(&mut self) {
        self.out.send(TabId(0), None, "Browser.setDownloadBehavior", json!({ "behavior": "deny" }), None);
        self.out.send(TabId(0), None, "Browser.getVersion", json!({}), Some(Reply::Greeting));
    }

    /// Continues with another browser, which has just started. [`DevTools::closed`] was called for the last one.
    pub fn restart(&mut self) {
        let Self { last_tab, last_request, .. } = *self;
        let events = std::mem::take(&mut self.events);
        *self = Self { last_tab, last_request, events, ..Self::new(self.limits.clone()) };
    }

    /// Whether the browser has answered.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Begins to render a page.
    pub fn open(&mut self, input: PageInput, now: Time) -> TabId {
        self.last_tab += 1;
        let tab = TabId(self.last_tab);
        let mut page = PageLife::new(tab, input, self.limits.clone(), now);
        page.begin(&mut self.out);
        self.pages.insert(tab, page);
        tab
    }

    /// An estimate of the memory that is held for the browser, in bytes.
    pub fn bytes(&self) -> usize {
        let pages = self.pages.values().map(PageLife::bytes).sum::<usize>();
        self.splitter.bytes() + self.out.bytes.capacity() + pages
    }

    /// The number of pages that are being rendered.
    pub fn open_pages(&self) -> usize {
        self.pages.len()
    }

    /// Answers a request of a page. An answer to a page that has ended is ignored.
    pub fn answer(&mut self, tab: TabId, request: u64, answer: BrowserAnswer, now: Time) {
        if let Some(page) = self.pages.get_mut(&tab) {
            page.answer(request, answer, now, &mut self.out);
            self.collect(tab, now);
        }
    }

    /// Bytes from the browser.
    pub fn feed(&mut self, bytes: &[u8], now: Time) {
        let mut splitter = std::mem::replace(&mut self.splitter, MessageSplitter::new(0));
        splitter.feed(bytes, |message| match message {
            Message::Whole(message) => self.message(message, now),
            Message::TooLong(beginning) => self.too_long(beginning, now),
        });
        self.splitter = splitter;
    }

    /// Bytes for the browser.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out.bytes)
    }

    /// What has happened, in order.
    pub fn next_event(&mut self) -> Option<RenderEvent> {
        self.events.pop_front()
    }

    /// When [`DevTools::expire`] must be called.
    pub fn deadline(&self) -> Time {
        let pages = self.pages.values().map(PageLife::deadline);
        pages.chain(self.closing.values().copied()).min().unwrap_or(Time::NEVER)
    }

    /// Ends what has taken too long.
    pub fn expire(&mut self, now: Time) {
        let due: Vec<TabId> =
            self.pages.iter().filter(|(_, page)| page.deadline() <= now).map(|(tab, _)| *tab).collect();
        for tab in due {
            if let Some(page) = self.pages.get_mut(&tab) {
                page.expire(now, &mut self.out);
                // Without a context, there is nothing that could be closed.
                self.is_broken |= page.is_over() && page.context.is_none();
                self.collect(tab, now);
            }
        }
        self.is_broken |= self.closing.values().any(|until| *until <= now);
    }

    /// Whether the browser does not follow the protocol, or did not answer in time: it must be ended.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The browser has ended: all its pages end.
    pub fn closed(&mut self, now: Time) {
        self.is_broken = true;
        let tabs: Vec<TabId> = self.pages.keys().copied().collect();
        for tab in tabs {
            if let Some(page) = self.pages.get_mut(&tab) {
                page.crashed(RenderEnd::Crash, now);
            }
            self.collect(tab, now);
        }
        self.closing.clear();
    }

    /// A message was too long. If it answers a command of a page, the page wants too much memory.
    fn too_long(&mut self, beginning: &[u8], now: Time) {
        let digits = beginning.strip_prefix(b"{\"id\":").unwrap_or_default();
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        let id = digits.get(..end).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let Some((tab, _)) = id.and_then(|id| self.out.answered(id)) else { return };
        if let Some(page) = self.pages.get_mut(&tab) {
            match page.is_picturing() {
                true => page.picture_taken(None, now, &mut self.out),
                false => page.crashed(RenderEnd::Memory, now),
            }
            self.collect(tab, now);
        }
    }

    fn message(&mut self, message: &[u8], now: Time) {
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(message) else {
            self.is_broken = true;
            return;
        };
        let tab = match (envelope.id, envelope.method) {
            (Some(id), _) => self.out.answered(id).map(|(tab, reply)| {
                match envelope.error {
                    Some(error) => self.refused(tab, reply, &error.message, now),
                    None => self.reply(tab, reply, message, now),
                }
                tab
            }),
            (None, Some(method)) => {
                let tab = envelope.session.and_then(|session| self.sessions.get(&*session).copied());
                self.event(tab, &method, message, now)
            }
            (None, None) => {
                self.is_broken = true;
                None
            }
        };
        if let Some(tab) = tab {
            self.collect(tab, now);
        }
    }

    /// Applies the answer to a command.
    fn reply(&mut self, tab: TabId, reply: Reply, message: &[u8], now: Time) {
        self.is_ready |= reply == Reply::Greeting;
        if reply == Reply::Closed {
            self.closing.remove(&tab);
        }
        let Some(page) = self.pages.get_mut(&tab) else { return };
        let out = &mut self.out;
        match reply {
            Reply::Context => {
                let Some(CreatedContext { browser_context_id }) = protocol::result(message) else { return };
                let params = json!({
                    "url": "about:blank", "browserContextId": browser_context_id, "width": WIDTH, "height": HEIGHT,
                    "enableBeginFrameControl": true,
                });
                page.context = Some(browser_context_id);
                out.send(tab, None, "Target.createTarget", params, Some(Reply::Target));
            }
            Reply::Target => {
                let Some(CreatedTarget { target_id }) = protocol::result(message) else { return };
                let params = json!({ "targetId": target_id, "flatten": true });
                page.target = Some(target_id);
                out.send(tab, None, "Target.attachToTarget", params, Some(Reply::Session));
            }
            Reply::Session => {
                let Some(Attached { session_id }) = protocol::result(message) else { return };
                self.sessions.insert(session_id.clone(), tab);
                page.attached(session_id, DOORS, out);
            }
            Reply::Clock => {
                if let Some(VirtualTime { virtual_time_ticks_base }) = protocol::result(message) {
                    page.clock_set(virtual_time_ticks_base, now, out);
                }
            }
            Reply::Navigation => {
                let Some(Navigated { frame_id, error_text }) = protocol::result(message) else { return };
                page.navigated(frame_id, error_text, now, out);
            }
            Reply::Greeting | Reply::Closed => {}
            Reply::Step => page.step_done(now, out),
            Reply::Probe => {
                let text = protocol::result::<Evaluated>(message).and_then(|evaluated| evaluated.result.value);
                let probe = text.and_then(|text| serde_json::from_str::<Probe>(&text).ok());
                page.probed(probe, now, out);
            }
            Reply::Cookies(request) => {
                let cookies = protocol::result::<Cookies>(message).map(|result| result.cookies).unwrap_or_default();
                page.pass_on(request, cookies.into_iter().map(|cookie| (cookie.name, cookie.value)).collect());
            }
            Reply::Frame(request) => page.decide(request, out),
            Reply::Picture => {
                let frame = protocol::result::<DrawnFrame<'_>>(message);
                page.picture_taken(frame.and_then(|frame| frame.screenshot_data).as_deref(), now, out);
            }
            Reply::Snapshot => {
                let limit = self.limits.document;
                let document = protocol::result(message).and_then(|read| snapshot::to_html(read, limit));
                page.document_read(document, now, out);
            }
        }
    }

    /// The browser has refused a command.
    fn refused(&mut self, tab: TabId, reply: Reply, error: &str, now: Time) {
        if reply == Reply::Closed {
            self.closing.remove(&tab);
        }
        let Some(page) = self.pages.get_mut(&tab) else { return };
        match reply {
            Reply::Context | Reply::Target | Reply::Session | Reply::Clock | Reply::Navigation => {
                page.note_error(error);
                page.crashed(RenderEnd::Refused, now);
            }
            Reply::Greeting | Reply::Closed => {}
            // A request may have ended before its answer.
            Reply::Step => page.step_done(now, &mut self.out),
            Reply::Probe => page.probed(None, now, &mut self.out),
            Reply::Cookies(request) => page.pass_on(request, Vec::new()),
            Reply::Frame(request) => page.decide(request, &mut self.out),
            Reply::Snapshot => page.document_read(None, now, &mut self.out),
            Reply::Picture => page.picture_taken(None, now, &mut self.out),
        }
    }

    /// Applies an event. Returns the page that it belongs to.
    fn event(&mut self, tab: Option<TabId>, method: &str, message: &[u8], now: Time) -> Option<TabId> {
        if method == "Target.targetCrashed" {
            let crashed = protocol::params::<TargetCrashed>(message)?;
            let is_it = |page: &PageLife| page.target.as_ref() == Some(&crashed.target_id);
            let (tab, page) = self.pages.iter_mut().find(|(_, page)| is_it(page))?;
            page.crashed(if crashed.status.contains("oom") { RenderEnd::Memory } else { RenderEnd::Crash }, now);
            return Some(*tab);
        }
        let page = self.pages.get_mut(&tab?)?;
        match method {
            "Fetch.requestPaused" => {
                let paused = protocol::params::<RequestPaused>(message)?;
                self.last_request += 1;
                page.request(self.last_request, paused, now, &mut self.out);
            }
            "Page.frameAttached" => {
                let FrameAttached { frame_id, parent_frame_id } = protocol::params(message)?;
                page.frame_attached(frame_id, &parent_frame_id);
            }
            "Emulation.virtualTimeBudgetExpired" => page.slice_ended(&mut self.out),
            "Runtime.exceptionThrown" => {
                let details = protocol::params::<ExceptionThrown>(message)?.exception_details;
                let description = details.exception.and_then(|exception| exception.description);
                page.note_error(description.as_deref().unwrap_or(&details.text));
            }
            "Page.javascriptDialogOpening" => {
                let (tab, session) = (tab?, page.session.clone());
                let params = json!({ "accept": false });
                self.out.send(tab, session.as_deref(), "Page.handleJavaScriptDialog", params, None);
            }
            "Inspector.targetCrashed" => page.crashed(RenderEnd::Crash, now),
            _ => return None,
        }
        tab
    }

    /// Passes on what a page has for the caller, and closes its tab if it is over.
    fn collect(&mut self, tab: TabId, now: Time) {
        let Some(page) = self.pages.get_mut(&tab) else { return };
        self.events.extend(page.take_ready().into_iter().map(|request| RenderEvent::Request(tab, request)));
        if !page.is_over() {
            return;
        }
        if let Some(mut page) = self.pages.remove(&tab) {
            self.out.forget(tab);
            self.sessions.retain(|_, other| *other != tab);
            if let Some(context) = page.context.take() {
                let params = json!({ "browserContextId": context });
                self.out.send(tab, None, "Target.disposeBrowserContext", params, Some(Reply::Closed));
                self.closing.insert(tab, now + CLOSE_TIME);
            }
            self.events.push_back(RenderEvent::Done(tab, Box::new(page.into_rendered())));
        }
    }
}
