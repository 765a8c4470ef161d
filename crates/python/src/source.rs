//! `Source`: a crawl as `argiope.Crawl` reads it. Each call returns at once; a file descriptor says when to call again.
//!
//! Invariant: nothing here runs Python code while a lock is held, and no thread of the crawl uses Python.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use argiope::{Crawl, CrawlHandle, Delivery, Error, FeedReport, Feeding, Summary};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use serde_json::Value;

use crate::errors::{forked, raised};
use crate::page::PyPage;
use crate::questions::Questions;
use crate::request::PyRequest;
use crate::settings;
use crate::values::to_python;
use crate::wake_event::WakeEvent;

type Pending<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// Where a crawl is in its life.
enum Stage {
    Starting(Pending<Crawl>),
    Running(Box<Crawl>),
    Ending(Pending<Summary>),
    Ended(Box<Result<Summary, Error>>),
}

/// A crawl. For `argiope.Crawl`.
#[pyclass(frozen, name = "Source", module = "argiope._argiope")]
pub struct PySource {
    /// `None` while a call changes it.
    stage: Mutex<Option<Stage>>,
    handle: Mutex<Option<CrawlHandle>>,
    event: Arc<WakeEvent>,
    /// What the threads of the crawl ask the functions of the program.
    questions: Questions,
    /// How many threads are blocked in `wait`.
    blocked: AtomicUsize,
    /// Whether this process has inherited the crawl by a fork: it does not have the crawl's threads.
    is_inherited: AtomicBool,
}

/// What a crawl can deliver now.
enum Next {
    Page(PyPage),
    Later,
    /// No work is left but pages that are held.
    Idle,
    Over,
}

impl PySource {
    /// Fails in a process that has inherited the crawl.
    fn check_process(&self) -> PyResult<()> {
        if self.is_inherited.load(Ordering::Relaxed) { Err(forked()) } else { Ok(()) }
    }

    fn stage(&self) -> MutexGuard<'_, Option<Stage>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running_handle(&self) -> PyResult<CrawlHandle> {
        self.check_process()?;
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let not_running = || raised(&Error::input("the crawl is not running: it has not been started, or has ended"));
        handle.clone().ok_or_else(not_running)
    }

    /// Goes on with the start or the end of the crawl, and polls for a page if it runs.
    fn poll(&self) -> Result<Next, Error> {
        let waker = self.event.waker();
        let mut context = Context::from_waker(&waker);
        let mut guard = self.stage();
        loop {
            let stage = guard.take();
            let (stage, next) = match stage {
                Some(Stage::Starting(mut start)) => match start.as_mut().poll(&mut context) {
                    Poll::Pending => (Stage::Starting(start), Some(Ok(Next::Later))),
                    Poll::Ready(Ok(crawl)) => {
                        *self.handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(crawl.handle());
                        (Stage::Running(Box::new(crawl)), None)
                    }
                    Poll::Ready(Err(error)) => (Stage::Ended(Box::new(Err(error.clone()))), Some(Err(error))),
                },
                Some(Stage::Running(mut crawl)) => {
                    let delivery = std::pin::pin!(crawl.next_or_idle()).poll(&mut context);
                    match delivery {
                        Poll::Pending => (Stage::Running(crawl), Some(Ok(Next::Later))),
                        Poll::Ready(Delivery::Page(page, ack)) => {
                            (Stage::Running(crawl), Some(Ok(Next::Page(PyPage::new(page, ack)))))
                        }
                        Poll::Ready(Delivery::Idle) => (Stage::Running(crawl), Some(Ok(Next::Idle))),
                        // The end, with its error if there is one.
                        Poll::Ready(_) => (Stage::Ending(Box::pin(crawl.close())), None),
                    }
                }
                Some(Stage::Ending(mut end)) => match end.as_mut().poll(&mut context) {
                    Poll::Pending => (Stage::Ending(end), Some(Ok(Next::Later))),
                    Poll::Ready(Ok(summary)) => (Stage::Ended(Box::new(Ok(summary))), Some(Ok(Next::Over))),
                    // The error is raised once.
                    Poll::Ready(Err(error)) => (Stage::Ended(Box::new(Err(error.clone()))), Some(Err(error))),
                },
                Some(Stage::Ended(result)) => (Stage::Ended(result), Some(Ok(Next::Over))),
                None => return Err(Error::internal("the crawl is used while it changes")),
            };
            *guard = Some(stage);
            if let Some(next) = next {
                return next;
            }
        }
    }
}

#[pymethods]
impl PySource {
    #[new]
    fn new(roots: Vec<Bound<'_, PyAny>>, settings: &Bound<'_, PyDict>, functions: Vec<String>) -> PyResult<Self> {
        let builder = settings::builder(&roots, settings)?;
        let event = WakeEvent::new().map_err(PyOSError::new_err)?;
        let (builder, questions) = Questions::of(builder, &functions, &event);
        let stage = Mutex::new(Some(Stage::Starting(Box::pin(builder.start()))));
        let (handle, blocked, is_inherited) = Default::default();
        Ok(Self { stage, handle, event, questions, blocked, is_inherited })
    }

    /// Raises if this process has inherited the crawl by a fork.
    fn check(&self) -> PyResult<()> {
        self.check_process()
    }

    /// This process has inherited the crawl by a fork.
    fn disown(&self) {
        self.is_inherited.store(true, Ordering::Relaxed);
        // Its threads and its directory belong to the parent process, and a lock may have been held during the fork.
        if let Ok(mut stage) = self.stage.try_lock() {
            std::mem::forget(stage.take());
        }
        if let Ok(mut handle) = self.handle.try_lock() {
            std::mem::forget(handle.take());
        }
    }

    /// The file descriptor that is readable when `take` may return something else than None.
    fn fileno(&self) -> i32 {
        self.event.number()
    }

    /// Makes the file descriptor not readable. Call it before `take`.
    fn clear(&self) {
        self.event.clear();
    }

    /// Blocks until the file descriptor is readable, a signal arrives, or the time is over; then clears it.
    #[pyo3(signature = (seconds = None))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<()> {
        self.check_process()?;
        let time = seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        self.blocked.fetch_add(1, Ordering::SeqCst);
        let result = py.detach(|| self.event.wait(time));
        self.blocked.fetch_sub(1, Ordering::SeqCst);
        self.event.clear();
        py.check_signals()?;
        result.map(drop).map_err(PyOSError::new_err)
    }

    /// Answers what the crawl asks these functions.
    fn answer(&self, functions: &Bound<'_, PyDict>) -> PyResult<()> {
        self.questions.answer(functions.py(), functions)
    }

    /// Starts the crawl if it is not started. Returns whether it is.
    fn start(&self) -> PyResult<bool> {
        self.check_process()?;
        if !matches!(&*self.stage(), Some(Stage::Starting(_))) {
            return Ok(true);
        }
        // No page is taken: only the first poll after the start does that.
        let waker = self.event.waker();
        let mut guard = self.stage();
        let Some(Stage::Starting(start)) = &mut *guard else { return Ok(true) };
        match start.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(crawl)) => {
                *self.handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(crawl.handle());
                *guard = Some(Stage::Running(Box::new(crawl)));
                Ok(true)
            }
            Poll::Ready(Err(error)) => {
                *guard = Some(Stage::Ended(Box::new(Err(error.clone()))));
                Err(raised(&error))
            }
        }
    }

    /// The next page; None if there is none yet, and False if no work is left but pages that are held.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.check_process()?;
        let next = self.poll().map_err(|error| raised(&error))?;
        // Another thread that waits may find more.
        if !matches!(next, Next::Later) && self.blocked.load(Ordering::SeqCst) > 0 {
            self.event.set();
        }
        match next {
            Next::Page(page) => Ok(Bound::new(py, page)?.into_any()),
            Next::Later => Ok(py.None().into_bound(py)),
            Next::Idle | Next::Over => Ok(PyBool::new(py, false).to_owned().into_any()),
        }
    }

    /// Begins to end the crawl: fetches in flight are delivered to nobody, or given up if `now` is true.
    fn close(&self, now: bool) -> PyResult<()> {
        self.check_process()?;
        let mut guard = self.stage();
        let end =
            |crawl: Crawl| -> Pending<Summary> { if now { Box::pin(crawl.abort()) } else { Box::pin(crawl.close()) } };
        *guard = match guard.take() {
            Some(Stage::Running(crawl)) => Some(Stage::Ending(end(*crawl))),
            Some(Stage::Starting(start)) => Some(Stage::Ending(Box::pin(async move { start.await?.abort().await }))),
            other => other,
        };
        Ok(())
    }

    /// Whether the crawl has ended. Raises the error that ended it, unless `take` has raised it.
    fn ended(&self) -> PyResult<bool> {
        self.check_process()?;
        if matches!(&*self.stage(), Some(Stage::Ended(_))) {
            return Ok(true);
        }
        self.poll().map(|next| matches!(next, Next::Over)).map_err(|error| raised(&error))
    }

    /// Whether the crawl has ended.
    fn is_over(&self) -> bool {
        matches!(&*self.stage(), Some(Stage::Ended(_)))
    }

    /// The summary as a dict; None until the crawl has ended.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let guard = self.stage();
        let Some(Stage::Ended(ended)) = &*guard else { return Ok(None) };
        let Ok(summary) = &**ended else { return Ok(None) };
        let value = summary_value(summary);
        drop(guard);
        to_python(py, &value).map(Some)
    }

    /// Adds requests.
    fn feed(&self, requests: &Bound<'_, PyAny>) -> PyResult<PyFeeding> {
        let handle = self.running_handle()?;
        let feeding = handle.feed(PyRequest::all_of(requests)?).map_err(|error| raised(&error))?;
        Ok(PyFeeding { feeding: Mutex::new(Some(feeding)), event: Arc::clone(&self.event) })
    }

    fn pause(&self) -> PyResult<()> {
        self.running_handle()?.pause();
        Ok(())
    }

    fn resume(&self) -> PyResult<()> {
        self.running_handle()?.resume();
        Ok(())
    }

    fn stop(&self) -> PyResult<()> {
        self.running_handle()?.stop();
        Ok(())
    }

    /// The state of the crawl now, as a dict. Meanwhile these functions answer: the thread that knows the state may wait
    /// for an answer.
    fn status<'py>(&self, py: Python<'py>, functions: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        let handle = self.running_handle()?;
        let (sender, receiver) = channel();
        let event = Arc::clone(&self.event);
        let ask = move || {
            // Ignored: the caller may have been interrupted.
            let _ = sender.send(handle.status());
            event.set();
        };
        let status = if functions.is_empty() {
            ask();
            receiver.recv().ok()
        } else {
            std::thread::Builder::new().name("argiope-status".into()).spawn(ask).map_err(PyOSError::new_err)?;
            loop {
                match receiver.try_recv() {
                    Err(TryRecvError::Empty) => {
                        self.questions.answer(py, functions)?;
                        py.check_signals()?;
                    }
                    answer => break answer.ok(),
                }
            }
        };
        let status = status.unwrap_or_else(|| Err(Error::internal("the state of the crawl is unknown")));
        let status = status.map_err(|error| raised(&error))?;
        to_python(py, &serde_json::to_value(status).unwrap_or_default())
    }
}

fn summary_value(summary: &Summary) -> Value {
    let tally = &summary.tally;
    let outcomes: serde_json::Map<String, Value> = tally
        .outcomes
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(outcome, count)| (outcome.as_str().to_owned(), count.into()))
        .collect();
    serde_json::json!({
        "end": summary.end.as_str(),
        "left": summary.left,
        "unread": summary.unread,
        "elapsed": summary.elapsed.as_secs_f64(),
        "bytes": tally.bytes,
        "outcomes": outcomes,
        "errors": serde_json::to_value(&tally.error_kinds).unwrap_or_default(),
        "notices": summary.notices,
    })
}

/// Requests that are being added. For `argiope.Feeding`.
#[pyclass(frozen, name = "SourceFeeding", module = "argiope._argiope")]
pub struct PyFeeding {
    feeding: Mutex<Option<Feeding>>,
    event: Arc<WakeEvent>,
}

#[pymethods]
impl PyFeeding {
    /// What became of each request: "added", "known" or "refused". None if that is not known yet.
    fn poll(&self) -> Option<Vec<&'static str>> {
        let waker = self.event.waker();
        let mut guard = self.feeding.lock().unwrap_or_else(PoisonError::into_inner);
        match Pin::new(guard.as_mut()?).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => None,
            Poll::Ready(report) => {
                *guard = None;
                Some(words(&report))
            }
        }
    }
}

fn words(report: &FeedReport) -> Vec<&'static str> {
    let word = |fed: &argiope::Fed| match fed {
        argiope::Fed::Added => "added",
        argiope::Fed::Known => "known",
        _ => "refused",
    };
    report.requests().iter().map(word).collect()
}
