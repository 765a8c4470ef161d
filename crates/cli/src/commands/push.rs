//! `--to`: sends the records of pages to a receiver, of a finished crawl (`argiope export`) or while it runs
//! (`argiope crawl`).

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use argiope_core::base::escape::visible;
use argiope_core::crawl::rules::Config;
use argiope_core::crawl::schedule::keeper::Change;

use super::{FAILED, print_error};
use crate::flags::config_file::UsageError;
use crate::flags::settings::CommandIo;
use crate::locale::localized;
use crate::push::{Push, PushControl, PushError};
use crate::records::ReadError;
use crate::results::Results;
use crate::ticker::Ticker;
use crate::wording;

/// How often the user is told how many records were sent.
const PROGRESS: Duration = Duration::from_secs(2);

/// Prepares sending, if the user wants it.
pub(super) fn open(
    directory: &Path,
    io: &CommandIo,
    changes: &[Change],
    config: &Config,
) -> Result<Option<Push>, PushError> {
    let Some(to) = &io.to else { return Ok(None) };
    Push::open(directory, to, io.to_format, &io.to_header, changes, config).map(Some)
}

/// Refuses settings with which nothing can be sent.
pub(super) fn check(io: &CommandIo, config: &Config) -> Result<(), UsageError> {
    let Some(to) = &io.to else { return Ok(()) };
    crate::push::check(to, io.to_format, &io.to_header, config)
}

/// Sends the records of a crawl directory, for `argiope export --to`.
pub(super) fn export(
    results: &Results,
    io: &CommandIo,
    changes: &[Change],
    config: &Config,
) -> Result<ExitCode, UsageError> {
    let opened =
        results.directory().map_err(PushError::from).and_then(|directory| open(directory, io, changes, config));
    let push = match opened {
        Ok(Some(push)) => push,
        Ok(None) => return Ok(ExitCode::SUCCESS),
        Err(error) => return fail(error, None),
    };
    let sending = match Sending::start(push) {
        Ok(sending) => sending,
        Err(error) => return fail(ReadError::from(error).into(), None),
    };
    let name = sending.name.clone();
    let mut ticker = Ticker::start();
    match sending.finish(|line| ticker.show(line)) {
        Ok(records) => {
            drop(ticker);
            // Ignored: if standard error is closed, the message has no reader.
            let _ = writeln!(std::io::stderr(), "{}", localized(&sent_line(records, &name)));
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            drop(ticker);
            fail(error, Some(&name))
        }
    }
}

/// Prints why not all records were sent, and returns the exit code.
fn fail(error: PushError, name: Option<&str>) -> Result<ExitCode, UsageError> {
    if let PushError::Read(ReadError::Usage(why)) = error {
        return Err(UsageError(why));
    }
    print_error(&visible(&failure(&error, name)));
    Ok(ExitCode::from(FAILED))
}

/// The message about an error.
pub(super) fn failure(error: &PushError, name: Option<&str>) -> String {
    match name {
        Some(name) => {
            format!("not all records were sent to {name}: {error}; run the same command to send the rest")
        }
        None => error.to_string(),
    }
}

pub(super) fn sent_line(records: u64, name: &str) -> String {
    format!("sent {} to {}", wording::plural(records, "record"), visible(name))
}

/// A thread that sends records.
pub(super) struct Sending {
    pub control: Arc<PushControl>,
    /// The receiver, as messages name it.
    pub name: String,
    thread: JoinHandle<Result<(), PushError>>,
}

impl Sending {
    pub fn start(push: Push) -> std::io::Result<Self> {
        Self::start_with(push, || ())
    }

    /// `on_fault` is called if the receiver does not take the records.
    pub fn start_with(push: Push, on_fault: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
        let (control, name) = (push.control(), push.name().to_owned());
        let ended = EndOnDrop(Arc::clone(&control));
        let send = move || {
            let _ended = ended;
            push.follow().inspect_err(|_| on_fault())
        };
        let thread = std::thread::Builder::new().name("push".into()).spawn(send)?;
        Ok(Self { control, name, thread })
    }

    /// Waits until all records are sent, and says how many, now and then. Returns how many this process has sent.
    pub fn finish(self, mut tell: impl FnMut(&str)) -> Result<u64, PushError> {
        self.control.finish();
        while !self.control.wait_for_end(PROGRESS) {
            tell(&format!("{} so far", sent_line(self.control.sent(), &self.name)));
        }
        let panicked = |_| PushError::Receiver("the thread that sends them died".to_owned());
        self.thread.join().map_err(panicked)??;
        Ok(self.control.sent())
    }
}

/// Says that sending has ended, also after a panic.
struct EndOnDrop(Arc<PushControl>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}
