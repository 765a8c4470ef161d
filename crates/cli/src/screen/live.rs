//! The live view: on a terminal a few lines, redrawn in place; otherwise a plain line every few seconds.
//!
//! Invariant: one frame is one write, so it does not flicker; the cursor is never hidden, so an abrupt end cannot lose it;
//! all other output goes through [`LiveView::say`], so it cannot garble the view.

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use argiope_core::status::Status;

use super::view::ScreenSize;
use super::{json_log, view};

/// Eight frames per second.
const FRAME: Duration = Duration::from_millis(125);
/// Interval between plain lines.
const LINE: Duration = Duration::from_secs(5);
/// Maximum number of queued lines; beyond that, the sender waits for the terminal (backpressure).
const BACKLOG: usize = 1_024;

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
    pub fn choose(progress: bool, json: bool) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if !progress {
            Self::None
        } else if json {
            Self::Json
        } else if std::io::stderr().is_terminal() && !dumb {
            Self::Terminal { colour: !set("NO_COLOR") }
        } else {
            Self::Plain
        }
    }
}

/// The thread that shows progress. Dropping it clears the view. With [`View::None`] there is no thread.
pub struct LiveView {
    messages: Option<SyncSender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl LiveView {
    /// Shows what `snapshot` returns until stopped.
    pub fn start(view: View, snapshot: impl FnMut() -> Status + Send + 'static) -> std::io::Result<Self> {
        if view == View::None {
            return Ok(Self { messages: None, thread: None });
        }
        let (messages, inbox) = sync_channel(BACKLOG);
        let thread =
            std::thread::Builder::new().name("live view".into()).spawn(move || show(view, snapshot, &inbox))?;
        Ok(Self { messages: Some(messages), thread: Some(thread) })
    }

    /// Prints a line above the view. The line must already be escaped.
    pub fn say(&self, mut line: String) {
        match &self.messages {
            // An error means that the thread has ended.
            Some(messages) => drop(messages.send(line)),
            // No view to garble. If standard error is closed, the crawl continues.
            None => {
                line.push('\n');
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
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

fn show(view: View, mut snapshot: impl FnMut() -> Status, inbox: &Receiver<String>) {
    let pause = match view {
        View::Terminal { .. } => FRAME,
        View::Plain | View::Json | View::None => LINE,
    };
    let mut screen = Screen::default();
    let mut said = Vec::new();
    let mut last = Instant::now();
    loop {
        let left = pause.saturating_sub(last.elapsed());
        let open = match inbox.recv_timeout(left) {
            Ok(line) => {
                said.push(line);
                said.extend(inbox.try_iter().take(BACKLOG));
                // On a terminal, lines wait for the next frame; elsewhere they are printed at once.
                if matches!(view, View::Terminal { .. }) && last.elapsed() < pause && said.len() < BACKLOG {
                    continue;
                }
                true
            }
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => false,
        };
        let due = open && last.elapsed() >= pause;
        let frame = match view {
            View::Terminal { colour } if open => {
                let (height, width) = console::Term::stderr().size();
                let size = ScreenSize { width: usize::from(width), height: usize::from(height.saturating_sub(1)) };
                screen.frame(&said, view::lines(&snapshot(), size, colour).into_iter())
            }
            View::Terminal { .. } => screen.frame(&said, std::iter::empty()),
            View::Plain if due => {
                said.push(view::plain(&snapshot()));
                screen.frame(&said, std::iter::empty())
            }
            View::Json if due => {
                said.push(json_log::progress(&snapshot()));
                screen.frame(&said, std::iter::empty())
            }
            View::Plain | View::Json | View::None => screen.frame(&said, std::iter::empty()),
        };
        said.clear();
        if due || matches!(view, View::Terminal { .. }) {
            last = Instant::now();
        }
        // If standard error is closed, the crawl continues: its records matter more.
        let _ = std::io::stderr().write_all(frame.as_bytes());
        if !open {
            return;
        }
    }
}

/// How many lines of the view are on the terminal; the cursor is below them.
#[derive(Default)]
struct Screen {
    drawn: usize,
}

impl Screen {
    /// The bytes that print `said` in place of the view, and the new view below.
    fn frame(&mut self, said: &[String], lines: impl Iterator<Item = String>) -> String {
        let mut frame = String::new();
        if self.drawn > 0 {
            // Move to the first line of the view.
            frame.push_str(&format!("\x1b[{}A\r", self.drawn));
        }
        if !said.is_empty() && self.drawn > 0 {
            frame.push_str("\x1b[J");
        }
        for line in said {
            frame.push_str(line);
            frame.push('\n');
        }
        let before = self.drawn;
        self.drawn = 0;
        for line in lines {
            frame.push_str(&line);
            // Erase the rest of a longer previous line.
            frame.push_str("\x1b[K\n");
            self.drawn += 1;
        }
        if before > 0 {
            frame.push_str("\x1b[J");
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_drawn_over_the_last_one() {
        let lines = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>().into_iter();
        let mut screen = Screen::default();
        assert_eq!(screen.frame(&[], lines(&["a", "b"])), "a\x1b[K\nb\x1b[K\n");
        assert_eq!(screen.frame(&[], lines(&["c"])), "\x1b[2A\rc\x1b[K\n\x1b[J");
        assert_eq!(screen.frame(&["said".into()], lines(&["d"])), "\x1b[1A\r\x1b[Jsaid\nd\x1b[K\n\x1b[J");
        assert_eq!(screen.frame(&[], lines(&[])), "\x1b[1A\r\x1b[J");
        assert_eq!(screen.frame(&["end".into()], lines(&[])), "end\n");
    }

    #[test]
    fn stopping_ends_the_thread() {
        for view in [View::None, View::Plain] {
            let live = LiveView::start(view, Status::default).unwrap();
            live.stop();
        }
    }
}
