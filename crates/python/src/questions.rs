//! `Questions`: what the threads of a crawl ask the program's functions. A thread waits for the answer; the questions are
//! answered in the thread that reads the crawl, so that the functions of a program never run in parallel.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use argiope::{CrawlBuilder, LinkVerdict, PageLink};
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::wake_event::WakeEvent;

/// How long the questions are answered before the event loop gets its turn.
const TURN: Duration = Duration::from_millis(1);
/// How long to wait for a further question: a thread asks about one link of a page after the other.
const PATIENCE: Duration = Duration::from_micros(100);

/// A question, and where its answer goes. The error of an answer is the message of an exception.
struct Question {
    subject: Subject,
    answer: Sender<Result<Answer, String>>,
}

enum Subject {
    Follow(PyFoundLink),
    Judge(PyFoundLink),
    Request { url: String, method: &'static str },
}

#[derive(Default)]
struct Answer {
    verdict: Option<LinkVerdict>,
    headers: Vec<(String, String)>,
    abort: Option<String>,
}

/// The questions that wait for an answer.
pub struct Questions {
    waiting: Mutex<Receiver<Question>>,
    event: Arc<WakeEvent>,
}

/// Asks questions, in the threads of the crawl.
#[derive(Clone)]
struct Asker {
    questions: Sender<Question>,
    event: Arc<WakeEvent>,
}

impl Asker {
    /// Waits for the answer. An exception becomes a panic, which the crawl reports as a failure of the page.
    fn ask(&self, subject: Subject) -> Answer {
        let (answer, answered) = channel();
        let is_sent = self.questions.send(Question { subject, answer }).is_ok();
        if is_sent {
            self.event.set();
        }
        let over = || Err("the program has left the crawl".to_owned());
        match answered.recv().unwrap_or_else(|_| over()) {
            Ok(answer) => answer,
            // Not `panic!`, which would print a message.
            Err(message) => resume_unwind(Box::new(message)),
        }
    }

    fn verdict(&self, subject: Subject) -> LinkVerdict {
        self.ask(subject).verdict.unwrap_or(LinkVerdict::Skip)
    }
}

impl Questions {
    /// Lets a crawl ask these functions: `follow`, `judge` or `on_request`.
    pub fn of(mut builder: CrawlBuilder, functions: &[String], event: &Arc<WakeEvent>) -> (CrawlBuilder, Self) {
        let (questions, waiting) = channel();
        for function in functions {
            let asker = Asker { questions: questions.clone(), event: Arc::clone(event) };
            builder = match function.as_str() {
                "judge" => builder.judge(move |link, _| asker.verdict(Subject::Judge(PyFoundLink::of(link)))),
                "on_request" => builder.on_request(move |request| {
                    let (url, method) = (request.url().as_str().to_owned(), request.method().as_str());
                    let Answer { headers, abort, .. } = asker.ask(Subject::Request { url, method });
                    for (name, value) in headers {
                        if let Err(error) = request.set_header(&name, &value) {
                            resume_unwind(Box::new(error.to_string()));
                        }
                    }
                    if let Some(reason) = abort {
                        request.abort(&reason);
                    }
                }),
                _ => builder
                    .follow(move |link| asker.verdict(Subject::Follow(PyFoundLink::of(link))) != LinkVerdict::Skip),
            };
        }
        (builder, Self { waiting: Mutex::new(waiting), event: Arc::clone(event) })
    }

    /// Answers the questions that wait, with the functions of the program. Raises what is not an `Exception`.
    pub fn answer(&self, py: Python<'_>, functions: &Bound<'_, PyDict>) -> PyResult<()> {
        let begun = Instant::now();
        loop {
            // The lock is not held while a function runs: another thread may wait for it without the GIL.
            let next = py.detach(|| self.waiting.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(PATIENCE));
            let question = match next {
                Ok(question) => question,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let answer = question.subject.call(py, functions);
            let raised = match &answer {
                Err(error) if !error.is_instance_of::<PyException>(py) => Some(error.clone_ref(py)),
                _ => None,
            };
            // An error says that the crawl does not wait any more.
            let _ = question.answer.send(answer.map_err(|error| error.to_string()));
            if let Some(error) = raised {
                return Err(error);
            }
            if begun.elapsed() > TURN {
                // More questions may wait.
                self.event.set();
                return Ok(());
            }
        }
    }
}

impl Subject {
    fn call(self, py: Python<'_>, functions: &Bound<'_, PyDict>) -> PyResult<Answer> {
        let function = |name: &str| {
            functions.get_item(name)?.ok_or_else(|| PyTypeError::new_err(format!("there is no function {name}")))
        };
        match self {
            Self::Follow(link) => {
                let is_followed = function("follow")?.call1((link,))?.is_truthy()?;
                let verdict = Some(if is_followed { LinkVerdict::With(0) } else { LinkVerdict::Skip });
                Ok(Answer { verdict, ..Answer::default() })
            }
            Self::Judge(link) => {
                let priority = function("judge")?.call1((link,))?;
                let verdict = if priority.is_none() {
                    LinkVerdict::Skip
                } else if priority.is_instance_of::<PyBool>() {
                    return Err(PyTypeError::new_err("judge returns a priority, or None to skip the link"));
                } else {
                    LinkVerdict::With(priority.extract()?)
                };
                Ok(Answer { verdict: Some(verdict), ..Answer::default() })
            }
            Self::Request { url, method } => {
                let request = Bound::new(py, PyOutgoing { url, method, changes: Mutex::default() })?;
                function("on_request")?.call1((&request,))?;
                let mut changes = request.get().changes.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(std::mem::take(&mut *changes))
            }
        }
    }
}

/// A link that the crawl has found, as functions such as `follow` get it.
#[pyclass(frozen, get_all, name = "FoundLink", module = "argiope")]
pub struct PyFoundLink {
    /// The target.
    url: String,
    /// The text of its element, with white space collapsed.
    text: String,
    /// The `rel` attribute of its element.
    rel: String,
    /// The kind of element that contains the link.
    kind: &'static str,
    /// Whether it is marked `rel=nofollow`.
    nofollow: bool,
    /// The URL of the page that it is on.
    page: String,
    /// The number of links from a root to the target, along this path.
    depth: u32,
}

impl PyFoundLink {
    fn of(link: &PageLink<'_>) -> Self {
        Self {
            url: link.url.as_str().to_owned(),
            text: link.text.to_owned(),
            rel: link.rel.to_owned(),
            kind: link.kind.as_str(),
            nofollow: link.nofollow,
            page: link.page.as_str().to_owned(),
            depth: link.depth,
        }
    }
}

/// A request that is about to be sent, as the function `on_request` gets it.
#[pyclass(frozen, name = "OutgoingRequest", module = "argiope")]
pub struct PyOutgoing {
    url: String,
    method: &'static str,
    changes: Mutex<Answer>,
}

#[pymethods]
impl PyOutgoing {
    /// The URL.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// The method.
    #[getter]
    fn method(&self) -> &'static str {
        self.method
    }

    /// Sets a header.
    fn set_header(&self, name: String, value: String) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).headers.push((name, value));
    }

    /// Does not send the request. The page has this reason as its error.
    fn abort(&self, reason: String) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).abort = Some(reason);
    }
}
