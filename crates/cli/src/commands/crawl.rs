//! `argiope crawl`: a crawl from the command line to the exit code.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use crate::report::{CrawlReport, RootNote};
use argiope_core::page::reader::FieldCount;
use argiope_core::rules::Rules;
use argiope_core::schedule::frontier::StoreErrorKind;
use argiope_core::schedule::keeper::{End, Settled};
use argiope_runtime::atomic_file::AtomicFile;
use argiope_runtime::directory::{self, Directory};
use argiope_runtime::keeper_thread::{Clock, CrawlSetup, KeeperHandle, KeeperMessage, VisitConsumer};
use argiope_runtime::writer_thread::{CommitFrontier, OutputTarget};
use argiope_runtime::{Error, content_reader, engine_kind, run_lines};

use super::control_socket::ControlSocket;
use super::handle::{CrawlControl, SharedFleet};
use super::interrupt::Interrupt;
use super::record_stream::{RecordStream, RecordStreamFault};
use super::serve::ServeError;
use super::visit_reporter::{Verbosity, VisitReporter};
use super::{FAILED, FINDINGS, INSECURE, USAGE, export, print_error, report, serve};
use crate::flags::config_file::UsageError;
use crate::flags::settings::{CommandSettings, FailOn, MessageSettings};
use crate::screen::json_log;
use crate::screen::live::{LiveView, View};
use crate::screen::{view, wording};
use argiope_core::output::escape;

/// Exit code: no root led to a page.
const NO_ROOT: u8 = 4;

/// Crawls as configured, in the crawl directory that belongs to the settings.
pub fn run(settings: &CommandSettings) -> Result<ExitCode, UsageError> {
    let rules = settings.rules()?;
    let config = &settings.crawl;
    let directory = directory::directory_path(config, &rules);
    let is_stream = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    if is_stream(&config.csv) && is_stream(&config.jsonl) {
        return Err(UsageError("--csv and --jsonl cannot both write to standard output".to_owned()));
    }
    if let Some(csv) = config.csv.as_deref().filter(|csv| *csv != Path::new("-")) {
        // It is written at the end: a mistake in its name must show before the crawl.
        let folder = csv.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(UsageError(format!("--csv {}: there is no folder {}", csv.display(), folder.display())));
        }
    }
    let code = match in_directory(settings, rules) {
        Ok(code) => code,
        Err(error) => return Ok(refuse(settings.messages, &error)),
    };
    let Some(output) = config.csv.clone() else { return Ok(code) };
    let extraction = content_reader::extraction(&config.extract, config.extract_file.as_deref());
    let args = export::ExportArgs {
        directory,
        format: export::ExportFormat::Csv,
        output: Some(output),
        extract: Vec::new(),
        extract_file: None,
        columns: extraction.map(|rules| rules.columns()).unwrap_or_default(),
    };
    let exported = export::run(&args)?;
    Ok(if exported == ExitCode::SUCCESS { code } else { exported })
}

fn in_directory(settings: &CommandSettings, rules: Rules) -> Result<ExitCode, Error> {
    let CommandSettings { crawl: config, messages } = settings;
    let messages = *messages;
    let path = directory::directory_path(config, &rules);
    let (mut directory, removed) = if config.fresh {
        Directory::start_over(&path, &rules, config)?
    } else {
        (Directory::open(&path, &rules, config)?, Vec::new())
    };
    for name in removed {
        say(messages, &format!("removed {}", path.join(name).display()));
    }
    for note in &directory.notes {
        tell(messages, "note", &format!("{}: {note}", path.display()));
    }
    let counts = directory.counts();
    let finished = directory.is_finished();
    if finished && !config.recrawl {
        // Exit codes describe the state of the crawl directory, not of this run.
        let report = match CrawlReport::from_directory(&path) {
            Ok(report) => report,
            Err(fault) => return Ok(fail(messages, &fault.to_string())),
        };
        let failed = if report.root_answered { 0 } else { directory.requeue_failed_roots()? };
        if failed == 0 {
            let settled = wording::plural(counts.settled, "URL");
            let hint = "use --recrawl to check for changes, or --fresh to start over";
            say(messages, &format!("{}: this crawl is finished, with {settled}; {hint}", path.display()));
            if directory.has_changes {
                directory.commit()?;
            }
            return Ok(state_code(messages, &report));
        }
        let roots = wording::plural(failed, "failed root");
        say(messages, &format!("{}: this crawl is finished; {roots} queued again", path.display()));
    } else if finished {
        let urls = wording::plural(directory.begin_round()?, "URL");
        say(messages, &format!("{}: recrawling {urls}", path.display()));
    } else if directory.resumed {
        let (settled, queued) = (wording::plural(counts.settled, "URL"), wording::count(counts.queued));
        say(messages, &format!("{}: resuming, {settled} finished, {queued} queued", path.display()));
    }
    // A regular file belongs to the crawl directory and is truncated to the last commit on resume. Standard output, devices
    // and pipes cannot be truncated.
    let (output, jsonl) = match config.jsonl.as_deref() {
        None => (None, None),
        Some(jsonl) if RecordStream::is_stream(jsonl) => match RecordStream::open(jsonl) {
            Ok(output) => (Some(output), None),
            Err(why) => return Ok(fail(messages, &why)),
        },
        Some(jsonl) => (None, Some(directory.take_output(jsonl)?)),
    };
    let earlier = if finished && config.recrawl { 0 } else { counts.settled };
    let clock = Clock::start();
    let first_line = first_line(settings, &clock);
    let (frontier, target) = directory.into_parts(jsonl, first_line)?;
    let started = Box::new(|_: &KeeperHandle| ());
    crawl(
        settings,
        rules,
        clock,
        CrawlParts {
            frontier,
            target,
            output,
            report: Some(&path),
            earlier,
            is_shared: false,
            fleet: SharedFleet::default(),
            started,
        },
    )
}

/// The inputs and outputs of a crawl.
pub(super) struct CrawlParts<'a, F> {
    pub frontier: F,
    pub target: OutputTarget,
    /// Where records are printed after they are durable.
    pub output: Option<RecordStream>,
    /// The crawl directory, which also receives the report.
    pub report: Option<&'a Path>,
    /// URLs that earlier runs have finished.
    pub earlier: u64,
    /// Whether other processes work on the same crawl. Then no single process knows which roots answered.
    pub is_shared: bool,
    /// The state of those processes, once it is known.
    pub fleet: SharedFleet,
    /// Called when the crawl has started.
    pub started: Box<dyn FnOnce(&KeeperHandle) + 'a>,
}

/// Above this number of URLs from earlier runs, the final report covers only this run: reading all records again would
/// take too long.
const MAX_REREAD: u64 = 100_000;

/// The `run` record that begins the output.
pub(super) fn first_line(settings: &CommandSettings, clock: &Clock) -> Vec<u8> {
    run_lines::first(settings, &argiope_runtime::keeper_thread::wall_clock(clock).text(argiope_core::Time::ZERO))
}

/// Runs a crawl to its end, with live view, signals, dashboard and control socket. Then prints the report and returns
/// the exit code.
pub(super) fn crawl<F: CommitFrontier + Send + 'static>(
    settings: &CommandSettings,
    rules: Rules,
    clock: Clock,
    places: CrawlParts<'_, F>,
) -> Result<ExitCode, Error> {
    let CommandSettings { crawl: config, messages } = settings;
    let messages = *messages;
    let CrawlParts { frontier, target, output, report: folder, earlier, is_shared, fleet, started: on_start } = places;
    let reader = rules.bodies.reader.clone();
    let rules = Arc::new(rules);
    if config.insecure {
        // A security warning: printed even with --quiet.
        let _ = writeln!(std::io::stderr(), "{}", format_message(messages, "WARNING", INSECURE));
    }
    let handle = CrawlControl::new(folder.map(Path::to_owned), fleet);
    let status_or_last = handle.clone();
    let view = View::choose(!messages.quiet && !messages.no_progress, messages.log_json);
    let live = match LiveView::start(view, move || status_or_last.status_or_last()) {
        Ok(live) => Arc::new(live),
        Err(error) => return Ok(fail(messages, &format!("the live view could not be started: {error}"))),
    };
    let signals = match Interrupt::listen() {
        Ok(signals) => signals,
        Err(error) => return Ok(fail(messages, &format!("signals could not be watched: {error}"))),
    };
    let name = folder.map_or_else(|| "practice web".to_owned(), report::name_of);
    let server = match config.serve {
        None => None,
        Some(address) => {
            let source = Arc::new(handle.clone());
            match serve::start(address, config.serve_token_file.as_deref(), &name, source) {
                Ok(server) => Some(server),
                Err(ServeError::Failed(why)) => return Ok(fail(messages, &why)),
                Err(ServeError::Usage(UsageError(why))) => {
                    fail(messages, &why);
                    return Ok(ExitCode::from(USAGE));
                }
            }
        }
    };
    if let Some(server) = &server {
        live.say(format_message(messages, "", &serve::address_line(server)));
    }
    let stop = handle.clone();
    let verbosity = Verbosity { pages: messages.verbose > 0, skips: messages.verbose > 1, json: messages.log_json };
    let reporter =
        VisitReporter::new(Arc::clone(&rules), output, verbosity, Arc::clone(&live), folder.is_none(), move || {
            stop.send(KeeperMessage::Leave);
        });
    let reporter = Arc::new(Mutex::new(Some(reporter)));
    let started = KeeperHandle::start(CrawlSetup {
        frontier,
        rules,
        engine: engine_kind(config.engine),
        clock,
        consumer: SharedReporter(Arc::clone(&reporter)),
        target,
        open: false,
    });
    let keeping = started?;
    handle.set(&keeping);
    on_start(&keeping);
    let (draining, weak) = (handle.clone(), Arc::downgrade(&live));
    let (quiet, json, resumes) = (messages.quiet, messages.log_json, folder.is_some());
    let drain = move || {
        if let Some(live) = weak.upgrade().filter(|_| !quiet) {
            let line = drain_line(draining.in_flight(), resumes);
            live.say(if json { json_log::message("note", &line) } else { line });
        }
        // An error means that the crawl has ended.
        let _ = draining.send(KeeperMessage::Stop(End::Interrupted));
    };
    let (status_or_last, weak, tone) = (handle.clone(), Arc::downgrade(&live), messages.log_json);
    let say_status = move || {
        if let Some(live) = weak.upgrade() {
            let status = status_or_last.status_or_last();
            live.say(if tone { json_log::progress(&status) } else { view::plain(&status) });
        }
    };
    // Started after the crawl so that the first request does not wait for the thread.
    let interrupt = match Interrupt::watch(signals, drain, say_status) {
        Ok(interrupt) => interrupt,
        Err(error) => return Ok(fail(messages, &format!("signals could not be watched: {error}"))),
    };
    let control = folder.map(|folder| ControlSocket::serve(folder, Arc::new(handle.clone())));
    if let Some(Err(error)) = &control {
        // Some file systems have no sockets. The crawl works without being controlled.
        live.say(format_message(messages, "note", &format!("argiope ctl cannot reach this crawl: {error}")));
    }
    let ended = keeping.join();
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
    for notice in &summary.notices {
        live.say(format_message(messages, "note", notice));
    }
    let (mut report, printed) = reporter.close(summary.elapsed, summary.left, summary.end);
    report.add_cuts(summary.cuts);
    if let Some(counts) = summary.changes {
        report.changes.get_or_insert_default().counts = counts;
    }
    // If earlier runs are not too large, the directory is read again, so that the report covers them too. The exit code
    // describes the directory, so it is also read again if this run alone does not determine the code. Everything is
    // committed at this point, and no other process holds the directory.
    let is_undecided = !report.root_answered || (messages.fail_on == Some(FailOn::Broken) && report.broken_total == 0);
    let is_read_again = earlier > 0 && (earlier <= MAX_REREAD || is_undecided);
    let whole = folder.filter(|_| is_read_again).map(CrawlReport::from_directory);
    let is_whole = earlier == 0 || matches!(whole, Some(Ok(_)));
    if let Some(Ok(whole)) = whole {
        report = whole;
    } else if let Some(folder) = folder {
        // Ignored: the report still names the page on which each broken link was found.
        let _ = report.name_referrers(folder);
    }
    if let Ok(live) = Arc::try_unwrap(live) {
        live.stop();
    }
    let mut text = report::render(&report, messages.verbose > 1);
    text += &never_matched(&reader.map(|reader| reader.counts()).unwrap_or_default());
    if let Some(folder) = folder.filter(|_| !is_whole) {
        let folder = escape::visible(&folder.display().to_string()).into_owned();
        text += &format!(
            "\nThis report covers this run only; earlier runs finished {}. For the whole crawl: argiope report {folder}\n",
            wording::plural(earlier, "URL")
        );
    }
    if let Some(folder) = folder {
        text += &report::next_steps(&report, folder);
    }
    if !messages.quiet && printed != Err(RecordStreamFault::ReaderLeft) {
        let said = if messages.log_json { json_log::summary(&report) + "\n" } else { text.clone() };
        // Ignored: if standard error is closed, the message has no reader.
        let _ = write!(std::io::stderr(), "{said}");
    }
    if let Some(folder) = folder
        && let Err(error) = AtomicFile::write_own(&folder.join(argiope_store::disk::REPORT), &text)
    {
        return Ok(fail(messages, &format!("the report cannot be written to {}: {error}", folder.display())));
    }
    match printed {
        Ok(()) => {}
        // `| head`: what is settled is committed, and the same command resumes.
        Err(RecordStreamFault::ReaderLeft) => return Ok(ExitCode::SUCCESS),
        Err(RecordStreamFault::Failed(why)) => return Ok(fail(messages, &why)),
    }
    report.root_answered |= is_shared;
    Ok(code(messages, &report, summary.end, &interrupt))
}

/// The message at the first Ctrl-C.
fn drain_line(in_flight: usize, resumes: bool) -> String {
    let fetches = match in_flight {
        0 => "stopping".to_owned(),
        1 => "finishing 1 fetch".to_owned(),
        many => format!("finishing {} fetches", wording::count(many as u64)),
    };
    let resume = if resumes { "; run the same command to resume" } else { "" };
    format!("{fetches}; press again to stop at once{resume}")
}

/// Lists the fields that were never found.
fn never_matched(counts: &[FieldCount]) -> String {
    let mut text = String::new();
    for field in counts.iter().filter(|field| field.tried > 0 && field.matched == 0) {
        let tried = wording::plural(field.tried, "page");
        let why = match field.unusable {
            0 => "matched nothing".to_owned(),
            some => {
                format!("matched, but never in the form that the rule asks for ({})", wording::plural(some, "page"))
            }
        };
        text += &format!("\nExtraction: {:?} {why}; tried on {tried}\n", field.name);
    }
    text
}

/// The exit code of a run: that of the signal if one interrupted it, 0 if it was interrupted in another way, otherwise
/// that of the crawl's state.
fn code(messages: MessageSettings, report: &CrawlReport, end: End, interrupt: &Interrupt) -> ExitCode {
    if end == End::Interrupted
        && let Some(code) = interrupt.code()
    {
        return ExitCode::from(code);
    }
    if end == End::Interrupted {
        return ExitCode::SUCCESS;
    }
    state_code(messages, report)
}

/// The exit code that describes the state of a crawl. Prints what explains a code other than 0, even with `--quiet`.
pub(super) fn state_code(messages: MessageSettings, report: &CrawlReport) -> ExitCode {
    if !report.root_answered && report.queued == 0 {
        let mut why = "no root has given a page; run the same command to try them again".to_owned();
        // The report names them all.
        if let (true, Some(RootNote::Dead { url, fault } | RootNote::Refused { url, fault })) =
            (messages.quiet, report.roots.first())
        {
            why += &format!(" ({url}: {})", report::in_words(fault));
        }
        fail(messages, &why);
        return ExitCode::from(NO_ROOT);
    }
    match messages.fail_on {
        Some(FailOn::Broken) if report.broken_total > 0 => {
            if messages.quiet {
                let _ = write!(std::io::stderr(), "{}", report::render_broken(report));
            }
            ExitCode::from(FINDINGS)
        }
        Some(FailOn::NewBroken) if report.changes.as_ref().is_some_and(|changes| changes.counts.newly_broken > 0) => {
            if messages.quiet {
                let _ = write!(std::io::stderr(), "{}", report::render_newly_broken(report));
            }
            ExitCode::from(FINDINGS)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Reports that the crawl directory cannot be used (any more).
pub(super) fn refuse(messages: MessageSettings, error: &Error) -> ExitCode {
    if messages.log_json {
        let _ = writeln!(std::io::stderr(), "{}", json_log::message("error", &error.to_string()));
    } else {
        print_error(&escape::visible_lines(&error.to_string()));
    }
    let is_other_crawl = error.as_store().is_some_and(|error| error.kind == StoreErrorKind::OtherCrawl);
    ExitCode::from(if is_other_crawl { USAGE } else { FAILED })
}

/// Prints a line for the user, unless `--quiet`.
pub(super) fn say(messages: MessageSettings, line: &str) {
    tell(messages, "", line);
}

/// Prints a line with its kind (`note`, `WARNING`), unless `--quiet`.
pub(super) fn tell(messages: MessageSettings, kind: &str, line: &str) {
    if !messages.quiet {
        // Ignored: if standard error is closed, the message has no reader.
        let _ = writeln!(std::io::stderr(), "{}", format_message(messages, kind, line));
    }
}

/// Formats a line as text, or as a JSON object with `--log-json`.
fn format_message(messages: MessageSettings, kind: &str, line: &str) -> String {
    match kind {
        "" if messages.log_json => json_log::message("note", line),
        kind if messages.log_json => json_log::message(&kind.to_lowercase(), line),
        "" => escape::visible(line).into_owned(),
        kind => format!("{kind}: {}", escape::visible(line)),
    }
}

pub(super) fn fail(messages: MessageSettings, why: &str) -> ExitCode {
    if messages.log_json {
        let _ = writeln!(std::io::stderr(), "{}", json_log::message("error", why));
    } else {
        print_error(&escape::visible(why));
    }
    ExitCode::from(FAILED)
}

/// Passes visits to the reporter, which [`crawl`] takes out at the end.
struct SharedReporter(Arc<Mutex<Option<VisitReporter>>>);

impl VisitConsumer for SharedReporter {
    fn take(&mut self, settled: Settled) {
        if let Some(reporter) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            reporter.take(&settled);
        }
    }

    fn line(&mut self, line: &[u8]) {
        if let Some(reporter) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            reporter.line(line);
        }
    }

    fn flush(&mut self) {
        if let Some(reporter) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            reporter.flush();
        }
    }
}
