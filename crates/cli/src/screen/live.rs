//! The live view: on a terminal a few lines, redrawn in place; otherwise a plain line every few seconds.
//!
//! Invariants:
//!
//! - One frame is one write, so the view does not flicker.
//! - The cursor is never hidden, so it is still there if the process is killed.
//! - All other output goes through [`LiveView::print_line`], so it does not overwrite the view. Threads that start before
//!   the view use a [`LivePrinter`].

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use argiope_core::crawl::status::Status;

use super::view::ScreenSize;
use super::{json_log, view};
use crate::locale::localized;

/// Interval between frames on a terminal.
const FRAME_INTERVAL: Duration = Duration::from_millis(125);
/// Interval between plain or JSON lines of progress.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of queued lines. If the queue is full, the sender waits for the terminal (backpressure).
const MAX_QUEUED_LINES: usize = 1_024;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Redrawn in place on a terminal.
    Terminal { colour: bool },
    /// A plain line every few seconds.
    Plain,
    /// A JSON object every few seconds.
    Json,
    /// No progress, only messages.
    None,
}

impl View {
    /// Chooses the view from the flags and the type of standard error.
    pub fn choose(shows_progress: bool, json: bool) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if !shows_progress {
            Self::None
        } else if json {
            Self::Json
        } else if std::io::stderr().is_terminal() && !is_dumb {
            Self::Terminal { colour: !is_set("NO_COLOR") }
        } else {
            Self::Plain
        }
    }
}

/// The thread that shows progress. Dropping it clears the view. With [`View::None`] there is no thread.
pub struct LiveView {
    /// Lines to print above the view.
    messages: Option<SyncSender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl LiveView {
    /// Starts to show the status that `read_status` returns, until the view is stopped or dropped.
    pub fn start(view: View, read_status: impl FnMut() -> Status + Send + 'static) -> std::io::Result<Self> {
        if view == View::None {
            return Ok(Self { messages: None, thread: None });
        }
        let (messages, inbox) = sync_channel(MAX_QUEUED_LINES);
        let thread =
            std::thread::Builder::new().name("live view".into()).spawn(move || show(view, read_status, &inbox))?;
        Ok(Self { messages: Some(messages), thread: Some(thread) })
    }

    /// Prints a line above the view. The line must already be escaped.
    pub fn print_line(&self, line: String) {
        match &self.messages {
            // An error means that the thread has ended.
            Some(messages) => drop(messages.send(line)),
            // Without a thread, the line is printed directly.
            None => print_directly(line),
        }
    }

    /// Prints pending lines, clears the view, and returns when that is done.
    pub fn stop(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        drop(self.messages.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Prints lines of threads that start before the live view: above the view while there is one, directly otherwise.
#[derive(Clone, Default)]
pub struct LivePrinter(Arc<OnceLock<Weak<LiveView>>>);

impl LivePrinter {
    /// Prints later lines above this view, until the view is stopped.
    pub fn connect(&self, live: &Arc<LiveView>) {
        // An error means that a view is connected already. A printer belongs to one crawl, which has one view.
        let _ = self.0.set(Arc::downgrade(live));
    }

    /// Prints a line. The line must already be escaped.
    pub fn print_line(&self, line: String) {
        match self.0.get().and_then(Weak::upgrade) {
            Some(live) => live.print_line(line),
            None => print_directly(line),
        }
    }
}

fn print_directly(mut line: String) {
    line.push('\n');
    // Ignored: if standard error is closed, the crawl continues.
    let _ = std::io::stderr().write_all(localized(&line).as_bytes());
}

/// The loop of the thread: prints lines and frames until the sender of lines is dropped.
fn show(view: View, mut read_status: impl FnMut() -> Status, inbox: &Receiver<String>) {
    let pause = match view {
        View::Terminal { .. } => FRAME_INTERVAL,
        View::Plain | View::Json | View::None => LINE_INTERVAL,
    };
    let mut screen = Screen::default();
    let mut lines_above = Vec::new();
    let mut last_drawn = Instant::now();
    loop {
        let left = pause.saturating_sub(last_drawn.elapsed());
        let is_open = match inbox.recv_timeout(left) {
            Ok(line) => {
                lines_above.push(line);
                lines_above.extend(inbox.try_iter().take(MAX_QUEUED_LINES));
                // On a terminal, lines wait for the next frame; elsewhere they are printed at once.
                if matches!(view, View::Terminal { .. })
                    && last_drawn.elapsed() < pause
                    && lines_above.len() < MAX_QUEUED_LINES
                {
                    continue;
                }
                true
            }
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => false,
        };
        let is_due = is_open && last_drawn.elapsed() >= pause;
        let frame = match view {
            View::Terminal { colour } if is_open => {
                let (height, width) = console::Term::stderr().size();
                // The cursor needs the line below the view.
                let size = ScreenSize { width: usize::from(width), height: usize::from(height.saturating_sub(1)) };
                screen.frame(&lines_above, view::lines(&read_status(), size, colour).into_iter())
            }
            View::Terminal { .. } => screen.frame(&lines_above, std::iter::empty()),
            View::Plain if is_due => {
                lines_above.push(view::plain(&read_status()));
                screen.frame(&lines_above, std::iter::empty())
            }
            View::Json if is_due => {
                lines_above.push(json_log::progress(&read_status()));
                screen.frame(&lines_above, std::iter::empty())
            }
            View::Plain | View::Json | View::None => screen.frame(&lines_above, std::iter::empty()),
        };
        lines_above.clear();
        if is_due || matches!(view, View::Terminal { .. }) {
            last_drawn = Instant::now();
        }
        // Ignored: if standard error is closed, the crawl continues without the view.
        let _ = std::io::stderr().write_all(localized(&frame).as_bytes());
        if !is_open {
            return;
        }
    }
}

/// What is on the terminal.
#[derive(Default)]
struct Screen {
    /// The number of lines of the view. The cursor is below them.
    view_lines: usize,
}

impl Screen {
    /// The text that erases the old view and writes `lines_above` in its place, with the new view (`lines`) below them.
    fn frame(&mut self, lines_above: &[String], lines: impl Iterator<Item = String>) -> String {
        let mut frame = String::new();
        if self.view_lines > 0 {
            // Move to the first line of the view.
            frame.push_str(&format!("\x1b[{}A\r", self.view_lines));
        }
        if !lines_above.is_empty() && self.view_lines > 0 {
            // Erase the view.
            frame.push_str("\x1b[J");
        }
        for line in lines_above {
            frame.push_str(line);
            frame.push('\n');
        }
        let previous_lines = self.view_lines;
        self.view_lines = 0;
        for line in lines {
            frame.push_str(&line);
            // Erase the rest of a longer previous line.
            frame.push_str("\x1b[K\n");
            self.view_lines += 1;
        }
        if previous_lines > 0 {
            // Erase what is left of a taller previous view.
            frame.push_str("\x1b[J");
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_drawn_over_the_previous_one() {
        let lines = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>().into_iter();
        let mut screen = Screen::default();
        assert_eq!(screen.frame(&[], lines(&["a", "b"])), "a\x1b[K\nb\x1b[K\n");
        assert_eq!(screen.frame(&[], lines(&["c"])), "\x1b[2A\rc\x1b[K\n\x1b[J");
        assert_eq!(screen.frame(&["message".into()], lines(&["d"])), "\x1b[1A\r\x1b[Jmessage\nd\x1b[K\n\x1b[J");
        assert_eq!(screen.frame(&[], lines(&[])), "\x1b[1A\r\x1b[J");
        assert_eq!(screen.frame(&["end".into()], lines(&[])), "end\n");
    }

    #[test]
    fn a_printer_that_is_older_than_the_view_prints_above_the_view() {
        let printer = LivePrinter::default();
        let (messages, inbox) = sync_channel(1);
        let live = Arc::new(LiveView { messages: Some(messages), thread: None });
        printer.connect(&live);
        printer.clone().print_line("note: a lease".into());
        assert_eq!(inbox.try_recv().as_deref(), Ok("note: a lease"));
        drop(live);
        printer.print_line("note: the view has ended".into());
        assert!(inbox.try_recv().is_err());
    }

    #[test]
    fn stopping_ends_the_thread() {
        for view in [View::None, View::Plain] {
            let live = LiveView::start(view, Status::default).unwrap();
            live.stop();
        }
    }
}
