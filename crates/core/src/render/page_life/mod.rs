//! The life of one rendered page: from an empty tab to the document.
//!
//! A page is always in one [`Phase`]. Most phases send commands and end when all of them are answered. The order is
//! fixed, so that what scripts see does not depend on when answers arrive:
//!
//! 1. Virtual time runs until its slice is used up, or until the page makes a request.
//! 2. It is then stopped. A round trip through the page shows all requests that were made up to there.
//! 3. When all of them have an answer, the answers are delivered in the order of the requests, and time runs again.
//!
//! After a slice, the page is asked what it still waits for. If it waits for a frame, it gets one.
//!
//! When nothing more happens, the page is scrolled, and then its document is read. A picture follows if one is wanted. If elements are to be clicked, that is
//! done after it: a click may remove what was there. What clicks lead to are links and requests.

mod picture;
mod requests;

use std::time::Duration;

use serde_json::{Value, json};

use super::protocol::{Outbox, Probe, Reply, TabId};
use super::rendered_page::{PageInput, Phase, RenderedPage};
use super::request::{BrowserAnswer, BrowserRequest, Frames};
use super::snapshot::Html;
use super::{Interact, RenderEnd, RenderLimits};
use crate::base::time::Time;

/// How many messages of script errors are kept, and how long each may be.
const MAX_ERRORS: usize = 5;
const MAX_ERROR_LENGTH: usize = 300;
/// Limit on the links that scripts opened.
const MAX_LINKS: usize = 1_000;
/// Limit on the elements of a document.
const MAX_NODES: u64 = 500_000;
/// The lengths of the slices of virtual time: the first ones are short, because most pages are complete soon.
const SLICES: [u64; 4] = [100, 100, 200, 300];
const LONG_SLICE: u64 = 500;
/// How often the page must be found idle before it counts as complete.
const IDLE_PROBES: u32 = 2;
/// The same for a page with frames, whose timers are not counted.
const FRAMED_IDLE_PROBES: u32 = 4;
/// How many screens are scrolled, and how many slices each one gets at most.
const MAX_SCREENS: u32 = 5;
const SLICES_PER_SCREEN: u32 = 3;
/// How many slices the page gets after a click at most.
const SLICES_PER_CLICK: u32 = 3;
/// How long a page may take for its document at least, and a page that was stopped at most.
const SNAPSHOT_TIME: Duration = Duration::from_secs(3);
/// The wait for responses may take this many times the busy time.
const WAIT_FACTOR: u32 = 10;
/// A transparent image of one pixel, in place of the images that are not requested.
const NO_IMAGE: &[u8] =
    b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x01D\0;";
/// Limit on the bodies of the requests of a page together, in bytes.
const MAX_REQUEST_BYTES: usize = 4 << 20;

/// A request that has no answer yet, or one that is not delivered.
#[derive(Debug)]
struct HeldRequest {
    id: u64,
    fetch_id: String,
    /// The request with its frame, until its cookies are known and it is passed on.
    unsent: Option<Box<(String, BrowserRequest)>>,
    answer: Option<BrowserAnswer>,
}

/// The state of one rendered page.
#[derive(Debug)]
pub(super) struct PageLife {
    tab: TabId,
    limits: RenderLimits,
    input: PageInput,
    phase: Phase,
    pub(super) context: Option<String>,
    pub(super) target: Option<String>,
    pub(super) session: Option<String>,
    /// The main frame, once the first document has begun.
    main_frame: Option<String>,
    is_document_sent: bool,
    frames: Frames,
    /// Commands that the phase waits for.
    steps: u32,
    /// In the order in which the page made them.
    held: Vec<HeldRequest>,
    /// Requests to be passed on to the caller.
    ready: Vec<BrowserRequest>,
    probe: Probe,
    /// The browser's clock at virtual time zero.
    ticks: f64,
    slices: u32,
    idle_probes: u32,
    screens: u32,
    slices_of_screen: u32,
    /// Whether elements are being clicked. The document was read before.
    is_clicking: bool,
    /// Elements when the last screen was scrolled.
    nodes_before: u64,
    end: Option<RenderEnd>,
    opened: Time,
    busy_since: Time,
    busy: Duration,
    reading_until: Time,
    requests: u32,
    refused: u32,
    /// The length of the bodies of all requests.
    body_bytes: usize,
    /// The length of the answers that are held.
    answer_bytes: usize,
    errors: Vec<String>,
    links: Vec<String>,
    /// Where requests that could change something were refused after the load.
    refused_links: Vec<String>,
    document: Option<String>,
    screenshot: Option<Vec<u8>>,
}

impl PageLife {
    pub(super) fn new(tab: TabId, input: PageInput, limits: RenderLimits, now: Time) -> Self {
        Self {
            tab,
            limits,
            input,
            phase: Phase::Opening,
            context: None,
            target: None,
            session: None,
            main_frame: None,
            is_document_sent: false,
            frames: Frames::default(),
            steps: 0,
            held: Vec::new(),
            ready: Vec::new(),
            probe: Probe::default(),
            ticks: 0.0,
            slices: 0,
            idle_probes: 0,
            screens: 0,
            slices_of_screen: 0,
            is_clicking: false,
            nodes_before: 0,
            end: None,
            opened: now,
            busy_since: now,
            busy: Duration::ZERO,
            reading_until: Time::NEVER,
            requests: 0,
            refused: 0,
            body_bytes: 0,
            answer_bytes: 0,
            errors: Vec::new(),
            links: Vec::new(),
            refused_links: Vec::new(),
            document: None,
            screenshot: None,
        }
    }

    pub(super) fn begin(&mut self, out: &mut Outbox) {
        let params = json!({ "disposeOnDetach": true });
        out.send(self.tab, None, "Target.createBrowserContext", params, Some(Reply::Context));
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// An estimate of the memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.input.body.len() + self.body_bytes + self.answer_bytes
    }

    /// Whether the next progress depends on the caller, who owes answers.
    fn awaits_answers(&self) -> bool {
        self.phase == Phase::Waiting && self.steps == 0
    }

    /// When [`PageLife::expire`] must be called.
    pub(super) fn deadline(&self) -> Time {
        let whole = self.opened + self.limits.busy_time * WAIT_FACTOR;
        match self.phase {
            Phase::Over => Time::NEVER,
            Phase::Reading | Phase::Picturing => self.reading_until,
            _ if self.awaits_answers() => whole,
            _ => whole.min(self.busy_since + self.limits.busy_time.saturating_sub(self.busy)),
        }
    }

    /// Ends the page if its time is used up.
    pub(super) fn expire(&mut self, now: Time, out: &mut Outbox) {
        if now < self.deadline() {
            return;
        }
        match self.phase {
            Phase::Over => {}
            // The page has no picture then.
            Phase::Picturing => self.finish(now),
            Phase::Reading => {
                self.end = Some(RenderEnd::Timeout);
                self.finish(now);
            }
            Phase::Opening | Phase::Preparing | Phase::Loading => {
                self.end = Some(RenderEnd::Timeout);
                self.finish(now);
            }
            _ => self.stop(RenderEnd::Timeout, now, out),
        }
    }

    /// Stops the page wherever it is, and reads its document.
    fn stop(&mut self, end: RenderEnd, now: Time, out: &mut Outbox) {
        if self.is_clicking {
            return self.finish(now);
        }
        self.end.get_or_insert(end);
        out.forget(self.tab);
        self.command(out, "Runtime.terminateExecution", json!({}), None);
        self.command(out, "Emulation.setVirtualTimePolicy", json!({ "policy": "pause" }), None);
        for request in std::mem::take(&mut self.held) {
            self.fail(out, &request.fetch_id, "AccessDenied", None);
        }
        self.ready.clear();
        self.read_document(now, out);
    }

    fn command(&self, out: &mut Outbox, method: &str, params: Value, reply: Option<Reply>) {
        out.send(self.tab, self.session.as_deref(), method, params, reply);
    }

    fn step(&mut self, out: &mut Outbox, method: &str, params: Value) {
        self.steps += 1;
        self.command(out, method, params, Some(Reply::Step));
    }

    fn fail(&self, out: &mut Outbox, fetch_id: &str, reason: &str, reply: Option<Reply>) {
        self.command(out, "Fetch.failRequest", json!({ "requestId": fetch_id, "errorReason": reason }), reply);
    }

    /// The tab exists: prepares it, and loads the page.
    pub(super) fn attached(&mut self, session: String, doors: &str, out: &mut Outbox) {
        self.session = Some(session);
        self.phase = Phase::Preparing;
        self.step(out, "Page.enable", json!({}));
        self.step(out, "Runtime.enable", json!({}));
        let auto_attach = json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true });
        self.step(out, "Target.setAutoAttach", auto_attach);
        let seed = format!("const SEED = {};", self.input.seed);
        let clicks = format!("const CLICKS = {};", self.limits.interact == Interact::Click);
        let source = doors.replacen("const SEED = 0;", &seed, 1).replacen("const CLICKS = false;", &clicks, 1);
        self.step(out, "Page.addScriptToEvaluateOnNewDocument", json!({ "source": source }));
        self.step(out, "Fetch.enable", json!({ "patterns": [{ "urlPattern": "*" }] }));
        self.steps += 1;
        let clock = json!({ "policy": "pause", "initialVirtualTime": self.input.wall_seconds });
        self.command(out, "Emulation.setVirtualTimePolicy", clock, Some(Reply::Clock));
    }

    /// Virtual time zero is known.
    pub(super) fn clock_set(&mut self, ticks: f64, now: Time, out: &mut Outbox) {
        self.ticks = ticks;
        self.step_done(now, out);
    }

    /// The tab is prepared: loads the page. This ends with the answers to two commands.
    fn load(&mut self, out: &mut Outbox) {
        self.phase = Phase::Loading;
        self.steps = 2;
        let url = self.input.url.as_str();
        self.command(out, "Page.navigate", json!({ "url": url }), Some(Reply::Navigation));
    }

    /// The browser has begun or refused the document.
    pub(super) fn navigated(&mut self, frame: String, error: Option<String>, now: Time, out: &mut Outbox) {
        self.main_frame = Some(frame);
        match error {
            Some(error) => {
                self.note_error(&error);
                self.end = Some(RenderEnd::Refused);
                self.finish(now);
            }
            None => self.step_done(now, out),
        }
    }

    /// The page has a frame more.
    pub(super) fn frame_attached(&mut self, frame: String, parent: &str) {
        self.frames.attached(frame, parent);
    }

    /// Delivers the answers if all are there. Otherwise the page waits.
    fn wait_for_answers(&mut self, now: Time, out: &mut Outbox) {
        self.phase = Phase::Waiting;
        self.steps = 0;
        if self.held.iter().any(|held| held.answer.is_none()) {
            self.busy += now - self.busy_since;
            self.busy_since = now;
            return;
        }
        self.phase = Phase::Delivering;
        self.answer_bytes = 0;
        for held in std::mem::take(&mut self.held) {
            self.steps += 1;
            match held.answer {
                Some(BrowserAnswer::Response { status, headers, body }) => {
                    self.fulfill(out, &held.fetch_id, status, headers, &body, Some(Reply::Step));
                }
                Some(BrowserAnswer::Refused) => {
                    self.refused += 1;
                    self.fail(out, &held.fetch_id, "AccessDenied", Some(Reply::Step));
                }
                Some(BrowserAnswer::Failed) | None => {
                    self.fail(out, &held.fetch_id, "ConnectionFailed", Some(Reply::Step));
                }
            }
        }
        if self.steps == 0 {
            self.run(out);
        }
    }

    /// Virtual time has reached the end of its slice.
    pub(super) fn slice_ended(&mut self, out: &mut Outbox) {
        // An event in another phase belongs to a slice that a request has interrupted.
        if self.phase == Phase::Running {
            self.ask(out, "probe");
        }
    }

    /// A command that the phase waits for is answered.
    pub(super) fn step_done(&mut self, now: Time, out: &mut Outbox) {
        self.steps = self.steps.saturating_sub(1);
        if self.steps > 0 {
            return;
        }
        match self.phase {
            Phase::Preparing => self.load(out),
            Phase::Loading | Phase::Framing => self.run(out),
            Phase::Stopping => self.settle(out),
            Phase::Waiting => self.wait_for_answers(now, out),
            Phase::Delivering => {
                self.phase = Phase::Delivered;
                self.round_trip(out);
            }
            Phase::Delivered if self.held.is_empty() => self.run(out),
            Phase::Delivered => self.settle(out),
            Phase::Picturing => self.draw(out),
            Phase::Opening | Phase::Running | Phase::Probing | Phase::Reading | Phase::Over => {}
        }
    }

    /// Waits until all requests that the page has made up to now are known.
    fn settle(&mut self, out: &mut Outbox) {
        self.phase = Phase::Waiting;
        self.round_trip(out);
    }

    fn round_trip(&mut self, out: &mut Outbox) {
        self.steps = 0;
        self.step(out, "Runtime.evaluate", json!({ "expression": "0" }));
    }

    /// Lets virtual time run for the next slice.
    fn run(&mut self, out: &mut Outbox) {
        if !self.held.is_empty() {
            return self.settle(out);
        }
        self.phase = Phase::Running;
        let slice = SLICES.get(self.slices as usize).copied().unwrap_or(LONG_SLICE);
        self.slices += 1;
        let params = json!({ "policy": "pauseIfNetworkFetchesPending", "budget": slice });
        self.command(out, "Emulation.setVirtualTimePolicy", params, None);
    }

    /// Asks the page what it waits for.
    fn ask(&mut self, out: &mut Outbox, question: &str) {
        self.phase = Phase::Probing;
        // Time may still run if the event was that of an interrupted slice.
        self.command(out, "Emulation.setVirtualTimePolicy", json!({ "policy": "pause" }), None);
        let end = self.limits.virtual_time.as_millis();
        let argument = if question == "probe" { end.to_string() } else { String::new() };
        let expression = format!("globalThis[Symbol.for('argiope')].{question}({argument})");
        self.command(out, "Runtime.evaluate", json!({ "expression": expression }), Some(Reply::Probe));
    }

    /// The page has said what it waits for; `None` if its answer makes no sense.
    pub(super) fn probed(&mut self, probe: Option<Probe>, now: Time, out: &mut Outbox) {
        if self.phase != Phase::Probing {
            return;
        }
        if self.is_clicking {
            return self.clicked(probe, now, out);
        }
        let Some(probe) = probe else {
            // A document without scripts, such as plain text or XML.
            self.end.get_or_insert(RenderEnd::Idle);
            return self.read_document(now, out);
        };
        let has_advanced = probe.now > self.probe.now;
        self.probe = probe;
        if self.probe.nodes > MAX_NODES {
            return self.stop(RenderEnd::Memory, now, out);
        }
        let is_idle = self.probe.loaded && self.probe.pending == 0 && !self.probe.frame;
        self.idle_probes = if is_idle { self.idle_probes + u32::from(has_advanced) } else { 0 };
        let needed = if self.probe.framed { FRAMED_IDLE_PROBES } else { IDLE_PROBES };
        let is_complete = self.idle_probes >= needed;
        self.slices_of_screen += 1;
        let is_spent = if self.screens > 0 {
            self.slices_of_screen > SLICES_PER_SCREEN
        } else {
            self.probe.now >= self.limits.virtual_time.as_secs_f64() * 1_000.0
        };
        if is_complete || is_spent {
            let end = if is_complete { RenderEnd::Idle } else { RenderEnd::Budget };
            return self.complete(end, now, out);
        }
        self.give_frame(out);
    }

    /// The load is complete, or a screen is: scrolls on, or reads the document.
    fn complete(&mut self, end: RenderEnd, now: Time, out: &mut Outbox) {
        self.end.get_or_insert(end);
        let has_more = self.probe.bottom + 1.0 < self.probe.height;
        let is_new = self.screens == 0 || self.probe.nodes > self.nodes_before || has_more;
        if self.limits.interact != Interact::None && has_more && is_new && self.screens < MAX_SCREENS {
            self.screens += 1;
            self.nodes_before = self.probe.nodes;
            (self.idle_probes, self.slices_of_screen, self.slices) = (0, 0, 0);
            return self.ask(out, "scroll");
        }
        self.read_document(now, out);
    }

    /// Gives the page a frame if it waits for one, and lets time run.
    fn give_frame(&mut self, out: &mut Outbox) {
        if !self.probe.frame {
            return self.run(out);
        }
        self.phase = Phase::Framing;
        self.steps = 0;
        let ticks = self.ticks + self.probe.now;
        self.step(out, "HeadlessExperimental.beginFrame", json!({ "frameTimeTicks": ticks, "noDisplayUpdates": true }));
    }

    fn read_document(&mut self, now: Time, out: &mut Outbox) {
        self.phase = Phase::Reading;
        let left = self.limits.busy_time.saturating_sub(self.busy + (now - self.busy_since));
        let is_stopped = self.end.is_some_and(|end| !matches!(end, RenderEnd::Idle | RenderEnd::Budget));
        self.reading_until = now + if is_stopped { SNAPSHOT_TIME } else { left.max(SNAPSHOT_TIME) };
        self.command(out, "DOMSnapshot.captureSnapshot", json!({ "computedStyles": [] }), Some(Reply::Snapshot));
    }

    /// The page has said what follows from a click, or that there is nothing left to click.
    fn clicked(&mut self, probe: Option<Probe>, now: Time, out: &mut Outbox) {
        let Some(probe) = probe.filter(|probe| probe.clicked != Some(false) && probe.nodes <= MAX_NODES) else {
            return self.finish(now);
        };
        self.slices_of_screen = if probe.clicked.is_some() { 0 } else { self.slices_of_screen + 1 };
        let is_idle = self.slices_of_screen > 0 && probe.pending == 0 && !probe.frame;
        self.probe = probe;
        if is_idle || self.slices_of_screen >= SLICES_PER_CLICK {
            self.slices = 0;
            return self.ask(out, "click");
        }
        self.give_frame(out);
    }

    /// The document was read.
    pub(super) fn document_read(&mut self, document: Option<Html>, now: Time, out: &mut Outbox) {
        if document.as_ref().is_some_and(|html| html.is_cut) {
            self.end = Some(RenderEnd::Memory);
        }
        self.document = document.map(|html| html.text);
        if self.limits.screenshot && self.document.is_some() && self.is_done() {
            return self.begin_picture(now, out);
        }
        self.click_or_finish(now, out);
    }

    /// Whether the page has ended by itself.
    fn is_done(&self) -> bool {
        matches!(self.end, Some(RenderEnd::Idle | RenderEnd::Budget))
    }

    /// Document and picture are there: clicks, if that is wanted.
    fn click_or_finish(&mut self, now: Time, out: &mut Outbox) {
        if self.limits.interact == Interact::Click && self.is_done() && self.document.is_some() {
            (self.is_clicking, self.slices) = (true, 0);
            return self.ask(out, "click");
        }
        self.finish(now);
    }

    /// The tab or the browser has ended.
    pub(super) fn crashed(&mut self, end: RenderEnd, now: Time) {
        self.end = Some(end);
        self.finish(now);
    }

    fn finish(&mut self, now: Time) {
        if !self.awaits_answers() {
            self.busy += now - self.busy_since;
        }
        self.phase = Phase::Over;
    }

    /// Notes an error of a script.
    pub(super) fn note_error(&mut self, text: &str) {
        if self.errors.len() < MAX_ERRORS {
            let first_line = text.lines().next().unwrap_or_default();
            self.errors.push(first_line.chars().take(MAX_ERROR_LENGTH).collect());
        }
    }

    fn note_link(&mut self, link: String) {
        if self.links.len() < MAX_LINKS && !self.links.contains(&link) {
            self.links.push(link);
        }
    }

    pub(super) fn into_rendered(mut self) -> RenderedPage {
        for link in std::mem::take(&mut self.probe.links) {
            self.note_link(link);
        }
        let is_limited = self.requests >= self.limits.requests && self.refused > 0;
        let end = self.end.unwrap_or(RenderEnd::Crash);
        RenderedPage {
            end: if is_limited && matches!(end, RenderEnd::Idle | RenderEnd::Budget) {
                RenderEnd::Requests
            } else {
                end
            },
            document: self.document,
            busy: self.busy,
            virtual_time: Duration::try_from_secs_f64(self.probe.now / 1_000.0).unwrap_or_default(),
            requests: self.requests,
            refused: self.refused.saturating_add(self.probe.closed),
            errors: self.errors,
            links: self.links,
            refused_links: self.refused_links,
            screenshot: self.screenshot,
        }
    }
}
