//! [`BrowserFetcher`]: continues complete pages in a browser, as the rules of the crawl say.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use argiope_core::base::job::{Job, Purpose};
use argiope_core::crawl::fetcher::{Fetcher, FetcherContext, StopMode};
use argiope_core::crawl::visit::Visit;
use argiope_core::render::{BrowserAnswer, RenderReason};
use argiope_core::{Outcome, Time};

use crate::launch::BrowserProgram;
use crate::shared::{SharedState, lock, template};
use crate::worker::{self, ToWorker};

/// Continues pages in a browser. All their requests go back to the keeper.
pub struct BrowserFetcher {
    program: BrowserProgram,
    is_auto: bool,
    shared: Arc<SharedState>,
    worker: Option<(Sender<ToWorker>, JoinHandle<()>)>,
}

impl BrowserFetcher {
    /// A fetcher for a crawl whose rules say that pages are rendered.
    pub fn new(program: BrowserProgram) -> Self {
        Self { program, is_auto: false, shared: Arc::default(), worker: None }
    }

    /// Whether this page is rendered, and why.
    fn decide(&self, visit: &Visit) -> Option<RenderReason> {
        let is_html = matches!(visit.findings.content_type.as_deref(), Some("text/html" | "application/xhtml+xml"));
        let has_body = visit.body.as_ref().is_some_and(|body| !body.bytes.is_empty());
        let is_plain = visit.link.request_identity(0) == 0;
        if visit.facts.outcome != Outcome::Ok || !visit.is_page() || !is_html || !has_body || !is_plain {
            return None;
        }
        if lock(&self.shared.gave_up).is_some() {
            return None;
        }
        if !self.is_auto {
            return Some(RenderReason::Always);
        }
        lock(&self.shared.evidence).decide(template(visit), visit.looks_empty())
    }
}

impl Fetcher for BrowserFetcher {
    fn start(&mut self, crawl: &FetcherContext) -> io::Result<()> {
        let Some(render) = &crawl.rules.render else { return Ok(()) };
        self.is_auto = render.is_auto;
        lock(&self.shared.notices).extend(self.program.missing());
        let (sender, inbox) = channel();
        let (program, crawl, shared) = (self.program.clone(), crawl.clone(), Arc::clone(&self.shared));
        let to_itself = sender.clone();
        let (ready, started) = channel();
        let body = move || worker::run(program, crawl, shared, to_itself, &inbox, &ready);
        let thread = thread::Builder::new().name("browser".into()).spawn(body)?;
        self.worker = Some((sender, thread));
        // A browser that does not start is an error of the crawl. One that ends later is not.
        started.recv().unwrap_or_else(|_| Err(io::Error::other("the thread of the browser ended")))
    }

    fn accept(&mut self, job: Job, _now: Time) -> Result<(), Job> {
        Err(job)
    }

    fn resume(&mut self, visit: Box<Visit>, _now: Time) -> Result<(), Box<Visit>> {
        let Some((sender, _)) = &self.worker else { return Err(visit) };
        let Some(reason) = self.decide(&visit) else { return Err(visit) };
        let Err(unsent) = sender.send(ToWorker::Page(visit, reason)) else { return Ok(()) };
        if let ToWorker::Page(visit, _) = unsent.0 { Err(visit) } else { Ok(()) }
    }

    fn take_part(&mut self, visit: &mut Visit, _now: Time) {
        let (Purpose::Part(part), Some((sender, _))) = (&visit.purpose, &self.worker) else { return };
        let (tab, request) = (part.tab, part.request);
        let answer = answer_of(visit);
        // If the worker has ended, the answer has no reader.
        let _ = sender.send(ToWorker::Part { tab, request, answer });
    }

    fn notices(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.shared.notices))
    }

    fn stop(&mut self, _: StopMode) {
        // Pages that are being rendered stay queued: the next run fetches them again.
        if let Some((sender, thread)) = self.worker.take() {
            let _ = sender.send(ToWorker::Stop);
            // The worker never waits for the browser, only for the end of its processes.
            let _ = thread.join();
        }
    }
}

impl Drop for BrowserFetcher {
    fn drop(&mut self) {
        self.stop(StopMode::Now);
    }
}

/// What a page gets for the visit of one of its requests.
fn answer_of(visit: &mut Visit) -> BrowserAnswer {
    if matches!(visit.facts.outcome, Outcome::Robots | Outcome::Refused) {
        return BrowserAnswer::Refused;
    }
    let is_complete = is_complete(visit);
    match (visit.facts.status, visit.body.take()) {
        (Some(status), Some(body)) if is_complete && visit.facts.outcome != Outcome::Failed => {
            let body = *body;
            BrowserAnswer::Response { status, headers: body.headers, body: body.bytes }
        }
        _ => BrowserAnswer::Failed,
    }
}

/// Whether the page gets all that it asked for. For a browser a body that was cut is an error of the network, and a part
/// of a file too unless the page asked for a part.
fn is_complete(visit: &Visit) -> bool {
    let asks_for_range = || {
        let headers = visit.link.request.as_ref().map_or(&[][..], |request| &request.headers);
        headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("range"))
    };
    let is_part = visit.facts.status == Some(206) && asks_for_range();
    visit.facts.error.is_none() && (visit.facts.truncated.is_none() || is_part)
}
