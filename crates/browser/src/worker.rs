//! The thread of a browser: starts the process, moves bytes, and begins, answers and ends pages.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use argiope_core::base::budget::BudgetCharge;
use argiope_core::base::custom_request::CustomRequest;
use argiope_core::base::job::{PageCookies, PagePart};
use argiope_core::crawl::fetcher::{FetcherContext, PartRequest};
use argiope_core::crawl::visit::Visit;
use argiope_core::render::{
    BrowserAnswer, BrowserRequest, DevTools, PageInput, RenderEnd, RenderEvent, RenderReason, RenderedPage,
    RequestKind, TabId,
};
use argiope_core::{Link, LinkKind, Time};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::cache::{CacheKey, ResponseCache};
use crate::launch::BrowserProgram;
use crate::lock::BrowserLock;
use crate::shared::{SharedState, lock, template};
use crate::suspects::Suspects;

/// What the worker gets to do.
pub(crate) enum ToWorker {
    Page(Box<Visit>, RenderReason),
    Part {
        tab: u64,
        request: u64,
        answer: BrowserAnswer,
    },
    /// Bytes of the browser with this number; none at its end.
    Bytes(u64, Vec<u8>),
    Stop,
}

/// A browser is replaced after this many pages.
const PAGES_PER_BROWSER: u32 = 500;
/// How often a page is rendered after it or the browser ended, with the first time.
const MAX_TRIES: u8 = 2;
/// How long a browser may take to start.
const START_TIME: Duration = Duration::from_secs(20);
const READ_BUFFER: usize = 64 << 10;
/// How many buffers from the browser may wait. Then the browser waits too.
const MAX_UNREAD: usize = 32;
const SECONDS_PER_DAY: i64 = 86_400;

/// A page that waits for a tab, or is being rendered.
struct Work {
    visit: Box<Visit>,
    reason: RenderReason,
    tries: u8,
    cached: u32,
    /// Whether it was open when a browser ended with several pages. It is then rendered alone, so that a page which ends
    /// browsers is known.
    is_suspect: bool,
}

/// A running browser process.
struct BrowserProcess {
    number: u64,
    child: Child,
    /// To the thread that writes to the browser.
    writer: Sender<Vec<u8>>,
    /// Lets the reading thread read once more.
    permits: Sender<()>,
    /// The bytes that wait for the writing thread.
    unwritten: Arc<AtomicUsize>,
    pages: u32,
    lock: BrowserLock,
}

impl Drop for BrowserProcess {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

struct Worker {
    program: BrowserProgram,
    crawl: FetcherContext,
    shared: Arc<SharedState>,
    to_itself: Sender<ToWorker>,
    devtools: DevTools,
    process: Option<BrowserProcess>,
    last_number: u64,
    suspects: Suspects,
    max_tabs: usize,
    waiting: VecDeque<Work>,
    tabs: HashMap<TabId, Work>,
    cache: ResponseCache,
    /// For what is held for the browser.
    charge: BudgetCharge,
    /// Requests on their way whose response may be shared, and the pages that also wait for it.
    shared_requests: HashMap<CacheKey, Vec<(TabId, BrowserRequest)>>,
    /// The requests on their way whose responses may be kept.
    sent: HashMap<(TabId, u64), (CacheKey, RequestKind)>,
    clock: Instant,
}

/// Runs until [`ToWorker::Stop`]. Reports on `ready` whether the browser starts.
pub(crate) fn run(
    program: BrowserProgram,
    crawl: FetcherContext,
    shared: Arc<SharedState>,
    to_itself: Sender<ToWorker>,
    inbox: &Receiver<ToWorker>,
    ready: &Sender<io::Result<()>>,
) {
    let Some(render) = crawl.rules.render.clone() else { return };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut worker = Worker {
        program,
        shared,
        to_itself,
        devtools: DevTools::new(render.limits.clone()),
        process: None,
        last_number: 0,
        suspects: Suspects::default(),
        max_tabs: render.tabs.unwrap_or(cores).max(1),
        waiting: VecDeque::new(),
        tabs: HashMap::new(),
        cache: ResponseCache::new(&crawl.rules.budget),
        charge: crawl.rules.budget.hold(),
        shared_requests: HashMap::new(),
        sent: HashMap::new(),
        clock: Instant::now(),
        crawl,
    };
    // The client that was made with the worker belongs to the first browser.
    let started = worker.start_browser().and_then(|()| worker.await_greeting(inbox));
    let is_started = started.is_ok();
    let _ = ready.send(started);
    while is_started && worker.turn(inbox) {}
}

impl Worker {
    fn now(&self) -> Time {
        Time::ZERO + self.clock.elapsed()
    }

    /// Starts a browser, with threads that move its bytes.
    fn start_browser(&mut self) -> io::Result<()> {
        self.last_number += 1;
        let number = self.last_number;
        let browser_lock = BrowserLock::prepare()?;
        let mut child = self.program.start(browser_lock.profile(), &self.crawl.rules.user_agent)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (writer, to_write) = channel::<Vec<u8>>();
        let (permits, permitted) = channel();
        let unwritten = Arc::new(AtomicUsize::new(0));
        let written = Arc::clone(&unwritten);
        let process = BrowserProcess { number, child, writer, permits, unwritten, pages: 0, lock: browser_lock };
        process.lock.write(process.child.id())?;
        let (Some(mut stdin), Some(mut stdout)) = (stdin, stdout) else {
            return Err(io::Error::other("the browser has no pipes"));
        };
        let write = move || {
            while let Ok(bytes) = to_write.recv() {
                if stdin.write_all(&bytes).is_err() {
                    return;
                }
                written.fetch_sub(bytes.len(), Ordering::Relaxed);
            }
        };
        thread::Builder::new().name("browser-write".into()).spawn(write)?;
        let to_worker = self.to_itself.clone();
        let read = move || {
            let mut buffer = vec![0; READ_BUFFER];
            while permitted.recv().is_ok() {
                let count = stdout.read(&mut buffer).unwrap_or(0);
                let bytes = buffer.get(..count).unwrap_or_default().to_vec();
                if to_worker.send(ToWorker::Bytes(number, bytes)).is_err() || count == 0 {
                    return;
                }
            }
        };
        thread::Builder::new().name("browser-read".into()).spawn(read)?;
        for _ in 0..MAX_UNREAD {
            let _ = process.permits.send(());
        }
        if number > 1 {
            self.devtools.restart();
        }
        self.process = Some(process);
        self.flush();
        Ok(())
    }

    /// Waits until the browser has answered.
    fn await_greeting(&mut self, inbox: &Receiver<ToWorker>) -> io::Result<()> {
        let fault = |what: &str| {
            io::Error::other(format!(
                "the browser {} {what}; try to start it by hand, or name another one",
                self.program.path().display()
            ))
        };
        let (ended, silent) = (fault("ended at once"), fault("did not answer in time"));
        let garbage = fault("does not speak the debugging protocol");
        let until = self.clock.elapsed() + START_TIME;
        while !self.devtools.is_ready() {
            let left = until.saturating_sub(self.clock.elapsed());
            match inbox.recv_timeout(left) {
                Ok(ToWorker::Bytes(_, bytes)) if bytes.is_empty() => return Err(ended),
                Ok(ToWorker::Bytes(_, bytes)) => {
                    let now = self.now();
                    self.feed(&bytes, now);
                    if self.devtools.is_broken() {
                        return Err(garbage);
                    }
                }
                Ok(_) => {}
                Err(_) => return Err(silent),
            }
        }
        Ok(())
    }

    /// Waits for one event, and does what follows from it. Returns false at the end.
    fn turn(&mut self, inbox: &Receiver<ToWorker>) -> bool {
        let deadline = self.devtools.deadline();
        let message = if deadline.is_never() {
            inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            inbox.recv_timeout(deadline - self.now())
        };
        let now = self.now();
        match message {
            Ok(ToWorker::Page(visit, reason)) => {
                self.waiting.push_back(Work { visit, reason, tries: 0, cached: 0, is_suspect: false });
            }
            Ok(ToWorker::Part { tab, request, answer }) => self.answered(TabId(tab), request, answer, now),
            Ok(ToWorker::Bytes(number, bytes)) => {
                let is_current = self.process.as_ref().is_some_and(|process| process.number == number);
                if is_current && bytes.is_empty() {
                    self.end_browser(now);
                } else if is_current {
                    self.feed(&bytes, now);
                }
            }
            Ok(ToWorker::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        // Also while messages arrive: a page that sends them without end has a deadline too.
        self.devtools.expire(now);
        self.pump();
        true
    }

    /// Passes bytes of the browser on, and lets it send more.
    fn feed(&mut self, bytes: &[u8], now: Time) {
        self.devtools.feed(bytes, now);
        if let Some(process) = &self.process {
            // If the reading thread has ended, its last message says so.
            let _ = process.permits.send(());
        }
    }

    /// Handles events, ends a broken browser, and begins pages, until nothing is left to do.
    fn pump(&mut self) {
        loop {
            while let Some(event) = self.devtools.next_event() {
                match event {
                    RenderEvent::Request(tab, request) => self.request(tab, request),
                    RenderEvent::Done(tab, rendered) => self.done(tab, *rendered),
                }
            }
            if self.devtools.is_broken() && self.process.is_some() {
                let now = self.now();
                self.end_browser(now);
                continue;
            }
            let is_worn = self.process.as_ref().is_some_and(|process| process.pages >= PAGES_PER_BROWSER);
            if is_worn && self.tabs.is_empty() {
                self.process = None;
            }
            if !self.has_room(is_worn) || !self.open_next() {
                break;
            }
        }
        self.flush();
        let unwritten = self.process.as_ref().map_or(0, |process| process.unwritten.load(Ordering::Relaxed));
        self.charge.resize(self.devtools.bytes() + unwritten);
        self.crawl.visits.send();
    }

    /// Whether the next page may be opened now.
    fn has_room(&self, is_worn: bool) -> bool {
        let Some(next) = self.waiting.front() else { return false };
        let must_be_alone = is_worn || next.is_suspect || self.tabs.values().any(|work| work.is_suspect);
        self.tabs.len() < if must_be_alone { 1 } else { self.max_tabs }
    }

    /// Ends the browser, if it still runs. Its pages are rendered again.
    fn end_browser(&mut self, now: Time) {
        self.process = None;
        let is_one = self.tabs.len() == 1;
        for work in self.tabs.values_mut() {
            work.tries += u8::from(is_one);
            work.is_suspect = true;
            if work.tries >= MAX_TRIES {
                let notice = self.suspects.ended_browser(&work.visit.link.url);
                lock(&self.shared.notices).extend(notice);
            }
        }
        // Pages that have ended wait for nothing. Their own requests are answered later, which is good for the cache.
        self.shared_requests.values_mut().for_each(Vec::clear);
        self.devtools.closed(now);
    }

    /// Begins the next page. Returns false if there is none, or no browser.
    fn open_next(&mut self) -> bool {
        if self.waiting.front().is_some_and(|work| self.suspects.is_given_up(&work.visit.link.url)) {
            let work = self.waiting.pop_front();
            work.into_iter().for_each(|work| self.crawl.visits.push(work.visit));
            return true;
        }
        if self.process.is_none() && !self.restart() {
            return false;
        }
        let Some(work) = self.waiting.pop_front() else { return false };
        let input = input(&work.visit);
        let now = self.now();
        let tab = self.devtools.open(input, now);
        if let Some(process) = &mut self.process {
            process.pages += 1;
        }
        self.tabs.insert(tab, work);
        true
    }

    /// Starts another browser. If that is not possible, all pages stay static from then on.
    fn restart(&mut self) -> bool {
        let failure = match self.suspects.all_fail() {
            false => match self.start_browser() {
                Ok(()) => return true,
                Err(error) => error.to_string(),
            },
            true => "it ended again and again".to_owned(),
        };
        lock(&self.shared.notices).push(format!("pages are not rendered any more: the browser failed: {failure}"));
        *lock(&self.shared.gave_up) = Some(failure);
        for work in std::mem::take(&mut self.waiting) {
            self.crawl.visits.push(work.visit);
        }
        false
    }

    /// Sends bytes to the browser.
    fn flush(&mut self) {
        let bytes = self.devtools.take();
        if let Some(process) = self.process.as_ref().filter(|_| !bytes.is_empty()) {
            process.unwritten.fetch_add(bytes.len(), Ordering::Relaxed);
            // If the browser has ended, the reader says so.
            let _ = process.writer.send(bytes);
        }
    }

    /// A page makes a request: answers it from the cache, or passes it on.
    fn request(&mut self, tab: TabId, mut request: BrowserRequest) {
        let now = self.now();
        let Some(work) = self.tabs.get_mut(&tab) else { return };
        let key = ResponseCache::key(&work.visit.link.url, &request);
        if let Some(key) = &key {
            if let Some(answer) = self.cache.get(key, now) {
                work.cached += 1;
                self.devtools.answer(tab, request.id, answer.clone(), now);
                return;
            }
            if let Some(others) = self.shared_requests.get_mut(key) {
                others.push((tab, request));
                return;
            }
            self.shared_requests.insert(key.clone(), Vec::new());
            request.headers.extend(self.cache.validators(key));
        }
        self.send_part(tab, request, key);
    }

    /// Passes a request to the keeper, if its page still exists.
    fn send_part(&mut self, tab: TabId, request: BrowserRequest, key: Option<CacheKey>) {
        let Some(work) = self.tabs.get(&tab) else { return };
        let BrowserRequest { id, url, method, headers, body, kind, access, cookies } = request;
        let page = &work.visit.link;
        let custom = CustomRequest { method, headers, body: body.into(), ..CustomRequest::default() };
        let link = Link {
            url,
            via: Some(page.url.clone()),
            depth: page.depth,
            redirects: 0,
            tries: 0,
            kind: LinkKind::Other,
            request: Some(Arc::new(custom)),
        };
        if let Some(key) = key {
            self.sent.insert((tab, id), (key, kind));
        }
        let part = PagePart { tab: tab.0, request: id, kind: kind.as_str(), access, cookies: PageCookies(cookies) };
        self.crawl.parts.send(PartRequest { link, part });
    }

    /// The keeper has a response, or has refused the request. The page may have ended in the meantime.
    fn answered(&mut self, tab: TabId, request: u64, mut answer: BrowserAnswer, now: Time) {
        if let Some((key, kind)) = self.sent.remove(&(tab, request)) {
            let others = self.shared_requests.remove(&key).unwrap_or_default();
            let is_kept = match self.cache.confirmed(&key, kind, &answer, now) {
                Some(kept) => {
                    answer = kept;
                    true
                }
                None => self.cache.put(key, kind, &answer, now),
            };
            for (other, waiting) in others {
                if is_kept {
                    if let Some(work) = self.tabs.get_mut(&other) {
                        work.cached += 1;
                    }
                    self.devtools.answer(other, waiting.id, answer.clone(), now);
                } else {
                    self.send_part(other, waiting, None);
                }
            }
        }
        self.devtools.answer(tab, request, answer, now);
    }

    /// A page is complete: returns its visit, or renders it again.
    fn done(&mut self, tab: TabId, rendered: RenderedPage) {
        let Some(mut work) = self.tabs.remove(&tab) else { return };
        self.crawl.parts.page_ended(tab.0);
        if rendered.end == RenderEnd::Crash {
            // The end of the browser was counted there.
            work.tries += u8::from(self.process.is_some());
            if work.tries < MAX_TRIES {
                self.waiting.push_front(work);
                return;
            }
        }
        if rendered.document.is_some() {
            self.suspects.has_document();
        }
        let Work { mut visit, reason, cached, .. } = work;
        let template = template(&visit);
        let words_before = visit.findings.facts.as_ref().map_or(0, |facts| facts.words);
        visit.add_rendered(rendered, reason, cached, &self.crawl.rules);
        if let Some(facts) = &visit.findings.render {
            lock(&self.shared.evidence).note(template, facts.links, facts.words, words_before);
        }
        self.crawl.visits.push(visit);
    }
}

/// What the browser gets of a page. What scripts see as time and chance depends on the response only.
fn input(visit: &Visit) -> PageInput {
    let (headers, body) = match &visit.body {
        Some(body) => (body.headers.clone(), body.bytes.clone()),
        None => Default::default(),
    };
    let date = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("date"));
    let seconds = date.and_then(|(_, value)| argiope_core::http::retry_after::http_date(value));
    let wall_seconds = seconds.unwrap_or(SECONDS_PER_DAY * 20_000);
    let seed = visit.link.url.fingerprint(0) as u32;
    let wall_seconds = wall_seconds - wall_seconds.rem_euclid(SECONDS_PER_DAY);
    PageInput { url: visit.link.url.clone(), headers, body, wall_seconds, seed }
}
