//! `argiope crawl`: opens the crawl directory, runs the crawl, prints the report and returns the exit code.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use crate::report::CrawlReport;
use crate::results::Results;
use argiope_core::crawl::rules::{ProgramSettings, Rules};
use argiope_core::crawl::schedule::frontier::{History as _, StoreErrorKind};
use argiope_core::crawl::schedule::keeper::{End, Settled};
use argiope_core::page::reader::{FieldCount, PageReader};
use argiope_runtime::atomic_file::AtomicFile;
use argiope_runtime::directory::{self, Beginning, Directory, DirectoryParts, RunKind};
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{Clock, CrawlSetup, KeeperHandle, KeeperMessage, Summary, VisitConsumer};
use argiope_runtime::writer_thread::OutputTarget;
use argiope_runtime::{Error, run_lines};
use argiope_store::Store;

use super::control_socket::ControlSocket;
use super::crawl_control::{CrawlControl, SharedFleet};
use super::interrupt::Interrupt;
use super::output::Output;
use super::record_stream::{RecordStream, RecordStreamFault};
use super::serve::ServeError;
use super::visit_reporter::{Verbosity, VisitReporter};
use super::{FAILED, FINDINGS, INSECURE, USAGE, print_error, push, report, serve};
use crate::export;
use crate::export::csv::Formulas;
use crate::flags::config_file::UsageError;
use crate::flags::settings::{CommandSettings, FailOn, MessageSettings};
use crate::formats::Audience;
use crate::locale::localized;
use crate::push::PushControl;
use crate::screen::json_log;
use crate::screen::live::{LivePrinter, LiveView, View};
use crate::screen::view;
use crate::wording;
use argiope_core::base::escape;

/// Exit code: no root led to a page.
const NO_ROOT: u8 = 4;

/// The error if `--fail-on new-broken` has nothing to compare with. Without this error, such a command would run and
/// never exit with 3.
pub(super) const NO_EARLIER_ROUND: &str =
    "--fail-on new-broken compares with an earlier round, and there is none; add --recrawl, which begins a new round";

/// Whether `--fail-on` compares with an earlier round and this command does not begin a new one.
pub(super) fn needs_earlier_round(settings: &CommandSettings) -> bool {
    settings.messages.fail_on == Some(FailOn::NewBroken) && !settings.crawl.recrawl
}

/// Crawls as configured, in the crawl directory that belongs to the settings.
pub fn run(settings: &CommandSettings) -> Result<ExitCode, UsageError> {
    let rules = settings.rules(ProgramSettings::default())?;
    let CommandSettings { crawl: config, io, .. } = settings;
    // Before anything is created: a missing browser is an error of usage.
    let fetchers =
        Fetchers::engine(config.engine).with_browser(&rules).map_err(|why| UsageError(wording::browser(&why)))?;
    let directory = directory::directory_path(config, &rules);
    let is_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    if config.fresh && config.recrawl {
        let why = "--fresh removes the earlier crawl, and --recrawl compares with it; give one of them";
        return Err(UsageError(why.to_owned()));
    }
    if needs_earlier_round(settings) && config.fresh {
        let why = "--fresh removes the earlier round, with which --fail-on new-broken compares; \
                   give --recrawl instead of --fresh";
        return Err(UsageError(why.to_owned()));
    }
    if needs_earlier_round(settings) && !directory.join("crawl.json").exists() {
        return Err(UsageError(NO_EARLIER_ROUND.to_owned()));
    }
    // A wrong URL is reported before anything is created.
    push::check(io, config)?;
    if is_stdout(&io.csv) && is_stdout(&config.jsonl) {
        return Err(UsageError("--csv and --jsonl cannot both write to standard output".to_owned()));
    }
    if let Some(csv) = io.csv.as_deref().filter(|csv| *csv != Path::new("-")) {
        // The file is written after the crawl. Check its folder now, so that a wrong path is reported before the crawl.
        let folder = csv.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            let why = format!("{} cannot be written: there is no folder {}", csv.display(), folder.display());
            return Ok(fail(settings.messages, &why));
        }
        if csv.is_dir() {
            let why = format!("{} cannot be written: it is a folder; name a file", csv.display());
            return Ok(fail(settings.messages, &why));
        }
        if let Err(error) = AtomicFile::check_output(csv) {
            return Ok(fail(settings.messages, &format!("{} cannot be written: {error}", csv.display())));
        }
    }
    let code = match crawl_in_directory(settings, rules, fetchers) {
        Ok(code) => code,
        Err(error) => return Ok(fail_with(settings.messages, &error)),
    };
    let Some(output) = io.csv.clone() else { return Ok(code) };
    let results = Results::at(&directory);
    let output = Output::of(Some(&output));
    let formulas = Formulas::from_flag(io.raw_csv);
    match output.write(Audience::Program, |out| export::pages_csv(&results, formulas, out)) {
        Ok(_) => Ok(code),
        Err(fault) => fault.print(),
    }
}

/// Opens the crawl directory and crawls in it, or reports that the crawl is finished.
pub(super) fn crawl_in_directory(
    settings: &CommandSettings,
    rules: Rules,
    fetchers: Fetchers,
) -> Result<ExitCode, Error> {
    let CommandSettings { crawl: config, io, messages, notes, .. } = settings;
    let messages = *messages;
    notes.iter().for_each(|note| print_message(messages, "note", note));
    let path = directory::directory_path(config, &rules);
    let open = if io.changes_roots() { Directory::open_with_changed_roots } else { Directory::open };
    let mut directory = open(&path, &rules, config)?;
    for name in &directory.removed {
        print_line(messages, &format!("removed {}", path.join(name).display()));
    }
    if needs_earlier_round(settings) && !directory.frontier.is_recrawl() {
        fail(messages, NO_EARLIER_ROUND);
        return Ok(ExitCode::from(USAGE));
    }
    for note in &directory.messages {
        print_message(messages, "note", &format!("{}: {note}", path.display()));
    }
    let Beginning { run, unreached, settled, queued, pages } = directory.begin(config.recrawl)?;
    let pages = wording::plural(pages, "page");
    let begun = match run {
        RunKind::New => None,
        RunKind::Resumed => Some(format!("resuming, {pages} fetched, {} queued", wording::plural(queued, "URL"))),
        RunKind::Finished => {
            // Exit codes describe the state of the crawl directory, not of this run.
            let report = match CrawlReport::of(&Results::at(&path)) {
                Ok(report) => report,
                Err(error) => return Ok(fail(messages, &error.to_string())),
            };
            let hint = "use --recrawl to check for changes, or --fresh to start over";
            print_line(messages, &format!("{}: this crawl is finished, with {pages}; {hint}", path.display()));
            // Stores the settings of this run if they differ from the stored ones.
            if directory.has_changes {
                directory.commit()?;
            }
            // A run before may have ended before the receiver had all records.
            return Ok(match send_rest(settings, &path) {
                Ok(()) => unreported_state_code(messages, &report),
                Err(why) => fail(messages, &why),
            });
        }
        RunKind::FailedRoots(roots) => {
            Some(format!("this crawl is finished; {} queued again", wording::plural(roots, "failed root")))
        }
        RunKind::Recrawl(urls) => Some(format!("recrawling {}", wording::plural(urls, "URL"))),
    };
    if let Some(begun) = begun {
        print_line(messages, &format!("{}: {begun}", path.display()));
    }
    if unreached > 0 {
        let urls = wording::plural(unreached, "URL");
        print_line(messages, &format!("{}: {urls} of hosts that stopped responding queued again", path.display()));
    }
    // A regular file is written by the writer thread and truncated to the last commit on resume. Standard output, devices
    // and pipes cannot be truncated, so they get only records that are durable.
    let (output, jsonl) = match config.jsonl.as_deref() {
        None => (None, None),
        Some(jsonl) if RecordStream::is_stream(jsonl) => match RecordStream::open(jsonl) {
            Ok(output) => (Some(output), None),
            Err(why) => return Ok(fail(messages, &why)),
        },
        Some(jsonl) => (None, Some(directory.open_output(jsonl)?)),
    };
    let clock = Clock::start();
    let first_line = first_line(settings, &clock);
    let DirectoryParts { frontier, target, rules } = directory.into_parts(rules, jsonl, first_line)?;
    let on_start = Box::new(|_: &KeeperHandle| ());
    let name = report::crawl_title(rules.roots.iter().filter_map(|root| root.candidates.first()), &path);
    crawl(
        settings,
        rules,
        clock,
        CrawlParts {
            frontier,
            fetchers,
            target,
            output,
            directory: Some(&path),
            name,
            settled_before: settled,
            is_shared: false,
            fleet: SharedFleet::default(),
            printer: LivePrinter::default(),
            on_start,
        },
    )
}

/// The inputs and outputs of a crawl.
pub(super) struct CrawlParts<'a, F> {
    pub frontier: F,
    pub fetchers: Fetchers,
    pub target: OutputTarget,
    /// Receives records after they are durable, unless the writer thread writes the file of `--jsonl`.
    pub output: Option<RecordStream>,
    /// The crawl directory, which also receives the report. `None` for a crawl in memory or in a fleet.
    pub directory: Option<&'a Path>,
    /// The name that the dashboard shows.
    pub name: String,
    /// URLs that earlier runs of this round have finished.
    pub settled_before: u64,
    /// Whether other processes work on the same crawl. If so, one process alone cannot tell whether a root gave a page.
    pub is_shared: bool,
    /// The state of the fleet, for the live view and the dashboard.
    pub fleet: SharedFleet,
    /// Prints the messages of threads that the caller has started.
    pub printer: LivePrinter,
    /// Called when the keeper thread has started.
    pub on_start: Box<dyn FnOnce(&KeeperHandle) + 'a>,
}

/// If earlier runs finished more URLs than this, the final report covers only this run, because reading all records again
/// would take too long. They are read nevertheless if the exit code depends on them.
const MAX_REREAD: u64 = 100_000;

/// The `run` record that begins the output.
pub(super) fn first_line(settings: &CommandSettings, clock: &Clock) -> Vec<u8> {
    run_lines::first(settings, &argiope_runtime::keeper_thread::wall_clock(clock).text(argiope_core::Time::ZERO))
}

/// Runs a crawl to its end, with live view, signal handling, dashboard and control socket. Then prints the report and
/// returns the exit code.
pub(super) fn crawl<F: Store + Send + 'static>(
    settings: &CommandSettings,
    rules: Rules,
    clock: Clock,
    parts: CrawlParts<'_, F>,
) -> Result<ExitCode, Error> {
    let CommandSettings { crawl: config, io, messages, .. } = settings;
    let messages = *messages;
    let CrawlParts { output, directory, settled_before, is_shared, fleet, printer, .. } = parts;
    let reader = rules.bodies.reader.clone();
    let rules = Arc::new(rules);
    if config.insecure {
        // A security warning: printed even with --quiet.
        let _ = writeln!(std::io::stderr(), "{}", format_message(messages, "WARNING", INSECURE));
    }
    let handle = CrawlControl::new(directory.map(Path::to_owned), fleet);
    let status_source = handle.clone();
    let view = View::choose(!messages.quiet && !messages.no_progress, messages.log_json);
    let live = match LiveView::start(view, move || status_source.status_or_last()) {
        Ok(live) => Arc::new(live),
        Err(error) => return Ok(fail(messages, &format!("the live view could not be started: {error}"))),
    };
    printer.connect(&live);
    let signals = match Interrupt::listen() {
        Ok(signals) => signals,
        Err(error) => return Ok(fail(messages, &format!("signals could not be watched: {error}"))),
    };
    let server = match io.serve {
        None => None,
        Some(address) => {
            let source = Arc::new(handle.clone());
            match serve::start(address, io.serve_token_file.as_deref(), &parts.name, source) {
                Ok(server) => Some(server),
                Err(ServeError::Failed(why)) => return Ok(fail(messages, &why)),
                Err(ServeError::Usage(UsageError(why))) => {
                    fail(messages, &why);
                    return Ok(ExitCode::from(USAGE));
                }
            }
        }
    };
    // With --quiet, only a port that the system chose is printed: users cannot know it.
    let prints_address = !messages.quiet || io.serve.is_some_and(|address| address.port() == 0);
    if let Some(server) = server.as_ref().filter(|_| prints_address) {
        live.print_line(format_message(messages, "", &serve::address_line(server)));
    }
    let stop = handle.clone();
    let verbosity = Verbosity { pages: messages.verbose > 0, skips: messages.verbose > 1, json: messages.log_json };
    let reporter =
        // Without a directory there is no link graph, so the reporter collects the links.
        VisitReporter::new(Arc::clone(&rules), output, verbosity, Arc::clone(&live), directory.is_none(), move || {
            stop.send(KeeperMessage::EndNow);
        });
    let reporter = Arc::new(Mutex::new(Some(reporter)));
    let sending = match start_sending(settings, directory, &handle) {
        Ok(sending) => sending,
        Err(why) => return Ok(fail(messages, &why)),
    };
    let push = sending.as_ref().map(|sending| Arc::clone(&sending.control));
    let started = KeeperHandle::start(CrawlSetup {
        frontier: parts.frontier,
        rules,
        fetchers: parts.fetchers,
        clock,
        consumer: SharedReporter { reporter: Arc::clone(&reporter), push: push.clone() },
        target: parts.target,
        accepts_links: false,
    });
    let keeper = started?;
    handle.connect(&keeper);
    (parts.on_start)(&keeper);
    let (drain_control, weak_live) = (handle.clone(), Arc::downgrade(&live));
    let (quiet, json, is_resumable) = (messages.quiet, messages.log_json, directory.is_some());
    let drain = move || {
        if let Some(live) = weak_live.upgrade().filter(|_| !quiet) {
            let line = drain_line(drain_control.in_flight(), is_resumable);
            live.print_line(if json { json_log::message("note", &line) } else { line });
        }
        if let Some(push) = &push {
            push.stop();
        }
        // The result is `false` if the crawl has ended.
        let _ = drain_control.send(KeeperMessage::Stop(End::Interrupted));
    };
    let (status_source, weak_live) = (handle.clone(), Arc::downgrade(&live));
    let print_status = move || {
        if let Some(live) = weak_live.upgrade() {
            let status = status_source.status_or_last();
            live.print_line(if json { json_log::progress(&status) } else { view::plain(&status) });
        }
    };
    // The thread for signals is started after the keeper, so that the first request does not wait for it.
    let interrupt = match Interrupt::watch(signals, drain, print_status) {
        Ok(interrupt) => interrupt,
        Err(error) => return Ok(fail(messages, &format!("signals could not be watched: {error}"))),
    };
    let control = directory.map(|directory| ControlSocket::serve(directory, Arc::new(handle.clone())));
    if let Some(Err(error)) = &control {
        // Some file systems do not support sockets. The crawl continues without one.
        live.print_line(format_message(messages, "note", &format!("argiope ctl cannot reach this crawl: {error}")));
    }
    let ended = keeper.join();
    let sent = sending.map(|sending| {
        let name = sending.name.clone();
        let tell = |line: &str| {
            if !messages.quiet {
                live.print_line(format_message(messages, "", line));
            }
        };
        sending
            .finish(tell)
            .map_err(|error| push::failure(&error, Some(&name)))
            .map(|sent| push::sent_line(sent, &name))
    });
    drop(control);
    drop(server);
    let reporter = reporter.lock().unwrap_or_else(PoisonError::into_inner).take();
    let summary = match ended {
        Ok(summary) => summary,
        Err(error) => {
            drop(reporter);
            if let Ok(live) = Arc::try_unwrap(live) {
                live.stop();
            }
            return Err(error);
        }
    };
    let Some(reporter) = reporter else {
        return Ok(fail(messages, "the records were lost"));
    };
    let ended = EndedCrawl { settings, directory, settled_before, summary, reader, sent };
    ended.conclude(reporter, live, is_shared, &interrupt)
}

/// A crawl that has ended, before its report is printed.
struct EndedCrawl<'a> {
    settings: &'a CommandSettings,
    directory: Option<&'a Path>,
    settled_before: u64,
    summary: Summary,
    reader: Option<Arc<dyn PageReader>>,
    /// What was sent to the receiver of `--to`, or why not all of it.
    sent: Option<Result<String, String>>,
}

impl EndedCrawl<'_> {
    /// Prints the report, writes it to the crawl directory, and returns the exit code.
    fn conclude(
        mut self,
        reporter: VisitReporter,
        live: Arc<LiveView>,
        is_shared: bool,
        interrupt: &Interrupt,
    ) -> Result<ExitCode, Error> {
        let messages = self.settings.messages;
        for notice in &self.summary.notices {
            live.print_line(format_message(messages, "note", notice));
        }
        let (mut report, printed) = reporter.close(self.summary.elapsed, self.summary.left, self.summary.end);
        report.add_cuts(std::mem::take(&mut self.summary.cuts));
        if let Some(counts) = self.summary.changes {
            report.changes.get_or_insert_default().counts = counts;
        }
        let is_whole = self.add_earlier_runs(&mut report);
        if let Ok(live) = Arc::try_unwrap(live) {
            live.stop();
        }
        let text = self.text(&report, is_whole);
        if !messages.quiet && printed != Err(RecordStreamFault::PipeClosed) {
            let printed_text = if messages.log_json { json_log::summary(&report) + "\n" } else { text.clone() };
            // Ignored: if standard error is closed, the message has no reader.
            let _ = write!(std::io::stderr(), "{}", localized(&printed_text));
        }
        if let Some(directory) = self.directory
            && let Err(error) = AtomicFile::write_own(&directory.join(argiope_store::disk::REPORT), &text)
        {
            return Ok(fail(messages, &format!("the report cannot be written to {}: {error}", directory.display())));
        }
        match &self.sent {
            Some(Ok(line)) => print_line(messages, line),
            Some(Err(why)) => {
                let Some(code) = interrupt.exit_code() else { return Ok(fail(messages, why)) };
                // The crawl may have been finished, but the receiver does not have all records.
                print_message(messages, "note", why);
                return Ok(ExitCode::from(code));
            }
            None => {}
        }
        match printed {
            Ok(()) => {}
            // `| head`: everything that was settled is committed, and the same command resumes the crawl.
            Err(RecordStreamFault::PipeClosed) => return Ok(ExitCode::SUCCESS),
            Err(RecordStreamFault::Failed(why)) => return Ok(fail(messages, &why)),
        }
        // In a fleet, another process may have fetched the roots.
        report.has_root_page |= is_shared;
        Ok(exit_code(messages, &report, self.summary.end, interrupt))
    }

    /// Reads the whole directory, if earlier runs are not too large, so that the report covers them too. The exit code
    /// describes the whole directory. So a large directory is read as well if this run alone does not determine the
    /// code. Everything is committed at this point, and no other process has locked the directory. Returns whether the
    /// report covers all runs.
    fn add_earlier_runs(&self, report: &mut CrawlReport) -> bool {
        let is_code_open = self.settings.messages.fail_on == Some(FailOn::Broken) && report.broken_total == 0;
        let needs_earlier_runs = !report.has_root_page || is_code_open;
        let should_reread = self.settled_before > 0 && (self.settled_before <= MAX_REREAD || needs_earlier_runs);
        let Some(directory) = self.directory else { return self.settled_before == 0 };
        if should_reread && let Ok(whole) = CrawlReport::of(&Results::at(directory)) {
            *report = whole;
            return true;
        }
        // Ignored: without the other referrers, the report still names the page on which each broken link was found.
        let _ = report.name_referrers(&Results::at(directory));
        self.settled_before == 0
    }

    /// The report as text, with what to do next.
    fn text(&self, report: &CrawlReport, is_whole: bool) -> String {
        let mut text = report::render(report, self.settings.messages.verbose > 1);
        text += &never_matched(&self.reader.as_ref().map(|reader| reader.counts()).unwrap_or_default());
        let Some(directory) = self.directory else { return text };
        if !is_whole {
            text += &format!(
                "\nThis report covers this run only; earlier runs finished {}. For the whole crawl: argiope report {}\n",
                wording::plural(self.settled_before, "URL"),
                escape::visible(&directory.display().to_string())
            );
        }
        text + &report::next_steps(report, directory)
    }
}

/// The message at the first Ctrl-C.
fn drain_line(in_flight: usize, is_resumable: bool) -> String {
    let fetches = match in_flight {
        0 => "stopping".to_owned(),
        1 => "finishing 1 fetch".to_owned(),
        many => format!("finishing {} fetches", wording::count(many as u64)),
    };
    let resume = if is_resumable { "; run the same command to resume" } else { "" };
    format!("{fetches}; press again to stop at once{resume}")
}

/// One line for each field of the extraction rules that no page gave a value for.
fn never_matched(counts: &[FieldCount]) -> String {
    let mut text = String::new();
    for field in counts.iter().filter(|field| field.tried > 0 && field.matched == 0) {
        let tried = wording::plural(field.tried, "page");
        let why = match field.unusable {
            0 => "matched nothing".to_owned(),
            pages => {
                format!("matched, but never in the form that the rule requires ({})", wording::plural(pages, "page"))
            }
        };
        text += &format!("\nExtraction: {:?} {why}; tried on {tried}\n", field.name);
    }
    text
}

/// The exit code of a run:
/// - the code of the signal, if a signal interrupted the run;
/// - 0, if the run was interrupted in another way, such as `argiope ctl stop`;
/// - otherwise the code for the state of the crawl.
fn exit_code(messages: MessageSettings, report: &CrawlReport, end: End, interrupt: &Interrupt) -> ExitCode {
    if end == End::Interrupted
        && let Some(code) = interrupt.exit_code()
    {
        return ExitCode::from(code);
    }
    if matches!(end, End::Interrupted | End::Stopped) {
        return ExitCode::SUCCESS;
    }
    state_code(messages, report)
}

/// The exit code for the state of a crawl after its report. With `--quiet`, no report was printed.
pub(super) fn state_code(messages: MessageSettings, report: &CrawlReport) -> ExitCode {
    if messages.quiet {
        return unreported_state_code(messages, report);
    }
    explained_state_code(messages, report, false)
}

/// The exit code for the state of a crawl whose report was not printed. Prints the broken links for which the code is 3.
pub(super) fn unreported_state_code(messages: MessageSettings, report: &CrawlReport) -> ExitCode {
    explained_state_code(messages, report, true)
}

/// The exit code for the state of a crawl. Prints why the code is 4. If `names_urls`, also prints the URLs that are the
/// reason for code 3.
fn explained_state_code(messages: MessageSettings, report: &CrawlReport, names_urls: bool) -> ExitCode {
    if !report.has_root_page && report.queued == 0 {
        fail(messages, &report.missing_roots.message());
        return ExitCode::from(NO_ROOT);
    }
    match messages.fail_on {
        Some(FailOn::Broken) if report.broken_total > 0 => {
            if names_urls {
                print_list(messages, &report::render_broken(report));
            }
            ExitCode::from(FINDINGS)
        }
        Some(FailOn::NewBroken) if report.changes.as_ref().is_some_and(|changes| changes.counts.newly_broken > 0) => {
            if names_urls {
                print_list(messages, &report::render_newly_broken(report));
            }
            ExitCode::from(FINDINGS)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Prints a list of the report. With `--log-json`, the list is the text of one message.
fn print_list(messages: MessageSettings, list: &str) {
    let text = if messages.log_json { json_log::message("error", list.trim()) + "\n" } else { list.to_owned() };
    // Ignored: if standard error is closed, the message has no reader.
    let _ = write!(std::io::stderr(), "{}", localized(&text));
}

/// Prints an error that prevented or ended the crawl, with what to do about it. Returns its exit code.
pub(super) fn fail_with(messages: MessageSettings, error: &Error) -> ExitCode {
    let text = wording::error(error).message_with_advice();
    if messages.log_json {
        let _ = writeln!(std::io::stderr(), "{}", json_log::message("error", &text));
    } else {
        print_error(&escape::visible_lines(&text));
    }
    let is_other_crawl = error.as_store().is_some_and(|error| error.kind == StoreErrorKind::OtherCrawl);
    ExitCode::from(if is_other_crawl { USAGE } else { FAILED })
}

/// Prints a line for the user, unless `--quiet`.
pub(super) fn print_line(messages: MessageSettings, line: &str) {
    print_message(messages, "", line);
}

/// Prints a line with its kind (`note`, `WARNING`), unless `--quiet`.
pub(super) fn print_message(messages: MessageSettings, kind: &str, line: &str) {
    if !messages.quiet {
        // Ignored: if standard error is closed, the message has no reader.
        let _ = writeln!(std::io::stderr(), "{}", localized(&format_message(messages, kind, line)));
    }
}

/// Formats a line as text, or as a JSON object with `--log-json`. The kind may be empty.
pub(super) fn format_message(messages: MessageSettings, kind: &str, line: &str) -> String {
    match kind {
        "" if messages.log_json => json_log::message("note", line),
        kind if messages.log_json => json_log::message(&kind.to_lowercase(), line),
        "" => escape::visible(line).into_owned(),
        kind => format!("{kind}: {}", escape::visible(line)),
    }
}

/// Prints an error and returns the exit code for a command that cannot start or continue.
pub(super) fn fail(messages: MessageSettings, why: &str) -> ExitCode {
    if messages.log_json {
        let _ = writeln!(std::io::stderr(), "{}", json_log::message("error", why));
    } else {
        print_error(&escape::visible(why));
    }
    ExitCode::from(FAILED)
}

/// Begins to send records to the receiver of `--to`. If it does not take them, the crawl ends. The error is a message.
fn start_sending(
    settings: &CommandSettings,
    directory: Option<&Path>,
    handle: &CrawlControl,
) -> Result<Option<push::Sending>, String> {
    let Some(directory) = directory else { return Ok(None) };
    let opened =
        push::open(directory, &settings.io, &[], &settings.crawl).map_err(|error| push::failure(&error, None))?;
    let Some(push) = opened else { return Ok(None) };
    let stop = handle.clone();
    let on_fault = move || {
        stop.send(KeeperMessage::EndNow);
    };
    push::Sending::start_with(push, on_fault).map(Some).map_err(|error| error.to_string())
}

/// Sends the records of a finished crawl that the receiver of `--to` does not have. The error is a message.
fn send_rest(settings: &CommandSettings, directory: &Path) -> Result<(), String> {
    let opened =
        push::open(directory, &settings.io, &[], &settings.crawl).map_err(|error| push::failure(&error, None))?;
    let Some(push) = opened else { return Ok(()) };
    let sending = push::Sending::start(push).map_err(|error| error.to_string())?;
    let name = sending.name.clone();
    let sent = sending.finish(|line| print_line(settings.messages, line));
    let sent = sent.map_err(|error| push::failure(&error, Some(&name)))?;
    print_line(settings.messages, &push::sent_line(sent, &name));
    Ok(())
}

/// Passes visits to the reporter. [`crawl`] takes the reporter out at the end.
struct SharedReporter {
    reporter: Arc<Mutex<Option<VisitReporter>>>,
    /// What sends records to the receiver of `--to`.
    push: Option<Arc<PushControl>>,
}

impl VisitConsumer for SharedReporter {
    fn take(&mut self, settled: Settled) {
        if let Some(reporter) = &mut *self.reporter.lock().unwrap_or_else(PoisonError::into_inner) {
            reporter.take(&settled);
        }
        if let Some(push) = self.push.as_ref().filter(|_| settled.visit.is_page()) {
            push.add_delivered();
        }
    }

    fn line(&mut self, line: &[u8]) {
        if let Some(reporter) = &mut *self.reporter.lock().unwrap_or_else(PoisonError::into_inner) {
            reporter.write_line(line);
        }
    }

    fn flush(&mut self) {
        if let Some(reporter) = &mut *self.reporter.lock().unwrap_or_else(PoisonError::into_inner) {
            reporter.flush();
        }
        if let Some(push) = &self.push {
            push.wait_for_room();
        }
    }
}
