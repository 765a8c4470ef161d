//! Two requests on the coroutine engine, with a log of which task runs and which waits.
//!
//! The executor reports events to an observer ([`TaskEvent`]). This module turns them into text.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::job::{Job, LaneId, Purpose};
use argiope_core::crawl::rules::{Config, ProgramSettings};
use argiope_core::crawl::visit::Visit;
use argiope_core::{Link, Time, Url};
use argiope_engine::coroutines::executor::TaskEvent;
use argiope_engine::coroutines::run_observed;
use argiope_engine::coroutines::run_queue::TaskId;
use argiope_engine::{Clock, FileShortage, IdleLimit, JobQueue, Notices, StopMode, VisitSender, Worker};
use argiope_practice::{PracticeWeb, Response, Site};

use argiope_runtime::Error;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// Time since the start.
    pub at: Duration,
    /// Whether the event happened inside a running coroutine.
    pub is_inside_task: bool,
    pub text: String,
}

/// Fetches two pages on one thread. The first host responds after `slow`, the second after a third of that time.
pub fn trace(slow: Duration) -> Result<Vec<TraceLine>, Error> {
    let page = |title: &str| format!("<title>{title}</title>");
    let slow_site =
        Site::http("127.0.0.1:0").map_err(Error::system)?.page("/1", Response::html(page("one")).delay(slow));
    let fast_site =
        Site::http("127.0.0.1:0").map_err(Error::system)?.page("/2", Response::html(page("two")).delay(slow / 3));
    let urls = [slow_site.url("/1"), fast_site.url("/2")];
    let web = PracticeWeb::new().site(slow_site).site(fast_site).start().map_err(Error::system)?;
    let config = Config { roots: urls.to_vec(), ..Config::default() };
    let rules = Arc::new(argiope_runtime::rules(&config, ProgramSettings::default())?);
    let clock = Clock::start();
    let writer = Rc::new(RefCell::new(TraceWriter::new(clock)));
    let job_queue = JobQueue::new();
    let mut jobs = Vec::new();
    for (lane, url) in (0..).zip(&urls) {
        let url = Url::parse(url)?;
        let addresses: Arc<[IpAddr]> = url.host().parse::<IpAddr>().into_iter().collect();
        let redirects = 0;
        jobs.push(Job { lane: LaneId(lane), ..Job::detached(Link::root(url, redirects), Purpose::Page, addresses) });
    }
    job_queue.send(&mut jobs);
    job_queue.stop(StopMode::Drain);
    let visit_sender = VisitSender::new(|_: &mut Vec<Box<Visit>>| {});
    let (notices, file_shortage) = (Notices::default(), FileShortage::default());
    let idle_limit = IdleLimit::new(&rules);
    // The worker runs on this thread, so no other thread waits for it to be ready.
    let (ready, _) = std::sync::mpsc::channel();
    let worker = Worker { rules, clock, job_queue, visit_sender, notices, file_shortage, idle_limit, ready };
    let observer = Rc::clone(&writer);
    run_observed(worker, Some(move |event| observer.borrow_mut().handle(event))).map_err(Error::system)?;
    web.stop().map_err(Error::system)?;
    let mut writer = writer.borrow_mut();
    writer.push_executor_line("all fetches are finished: the run is over".to_owned());
    Ok(std::mem::take(&mut writer.lines))
}

/// Turns events into lines.
struct TraceWriter {
    clock: Clock,
    started: Time,
    lines: Vec<TraceLine>,
    /// The fetches in the order of their start, and what each of them waits for.
    tasks: Vec<(TaskId, &'static str)>,
    /// The engine's own tasks, which were spawned before the receiver first ran. They are not shown.
    internal_tasks: Vec<TaskId>,
    /// Whether the receiver has run: the engine's task that receives jobs and starts fetches.
    has_received: bool,
    /// Whether the thread was just woken.
    was_woken: bool,
}

impl TraceWriter {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            started: clock.now(),
            lines: Vec::new(),
            tasks: Vec::new(),
            internal_tasks: Vec::new(),
            has_received: false,
            was_woken: false,
        }
    }

    /// Adds a line about what a running task does.
    fn push_task_line(&mut self, text: String) {
        self.push_line(true, text);
    }

    /// Adds a line about what happens between the tasks.
    fn push_executor_line(&mut self, text: String) {
        self.push_line(false, text);
    }

    fn push_line(&mut self, is_inside_task: bool, text: String) {
        self.lines.push(TraceLine { at: self.clock.now() - self.started, is_inside_task, text });
    }

    /// The name of a task, and what it waits for.
    fn name(&self, id: TaskId) -> (String, &'static str) {
        match self.tasks.iter().position(|(known, _)| *known == id) {
            Some(at) => (format!("fetch {}", at + 1), self.tasks[at].1),
            None => ("the receiver".to_owned(), "waiting for jobs"),
        }
    }

    /// Whether an event belongs to a task of the engine itself.
    fn is_internal(&mut self, event: TaskEvent) -> bool {
        let id = match event {
            TaskEvent::Sleeps | TaskEvent::Wakes => return false,
            TaskEvent::Spawned(id) if !self.has_received => {
                self.internal_tasks.push(id);
                return true;
            }
            TaskEvent::Spawned(id) | TaskEvent::Runs(id) | TaskEvent::Waits(id, _) => id,
            TaskEvent::Finished(id) | TaskEvent::Cancelled(id) => id,
        };
        let is_internal = self.internal_tasks.contains(&id);
        self.has_received |= !is_internal;
        is_internal
    }

    fn handle(&mut self, event: TaskEvent) {
        if self.is_internal(event) {
            return;
        }
        match event {
            TaskEvent::Spawned(id) => {
                self.tasks.push((id, ""));
                let (name, _) = self.name(id);
                self.push_task_line(format!("starts {name}, which runs later"));
            }
            TaskEvent::Runs(id) => {
                let (name, waits_for) = self.name(id);
                if std::mem::take(&mut self.was_woken) || waits_for == "reading" {
                    let event = match waits_for {
                        "connecting" => format!("event: {name}'s socket can be written, so it is connected"),
                        "reading" => format!("event: bytes for {name}"),
                        "" => format!("{name} has its turn"),
                        _ => format!("event for {name}"),
                    };
                    self.push_executor_line(event);
                }
                self.push_executor_line(format!("enter {name}"));
            }
            TaskEvent::Waits(id, waits_for) => {
                if let Some((_, known)) = self.tasks.iter_mut().find(|(known, _)| *known == id) {
                    *known = waits_for;
                }
                let (name, _) = self.name(id);
                let explanation = match waits_for {
                    "connecting" => "connect: the kernel says EINPROGRESS; await until it can be written",
                    "reading" => "the request is written; await until there is something to read",
                    "writing" => "the socket is full; await until it accepts more",
                    "idle" => "the page is complete and its visit is sent; await the next job, connection kept",
                    other => other,
                };
                self.push_task_line(explanation.to_owned());
                self.push_executor_line(format!("pause {name}"));
            }
            TaskEvent::Finished(id) => {
                let (name, _) = self.name(id);
                self.push_executor_line(format!("finish {name}"));
            }
            TaskEvent::Cancelled(id) => {
                let (name, _) = self.name(id);
                self.push_executor_line(format!("cancel {name}: its data is dropped"));
            }
            TaskEvent::Sleeps => {
                self.push_executor_line("all tasks are paused: the thread sleeps in epoll_wait".to_owned());
            }
            TaskEvent::Wakes => self.was_woken = true,
        }
    }
}
