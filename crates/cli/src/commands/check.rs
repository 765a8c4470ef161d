//! `argiope check TARGET...`: broken links of sites, folders and files.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use argiope_check::{
    CheckOptions, CheckProgress, CheckReport, FolderCheck, RemoteFaults, StatusRanges, output, read_ignore_file,
};
use argiope_core::Url;
use argiope_core::output::escape::{self, visible};
use argiope_runtime::atomic_file::AtomicFile;
use clap::{Args, ValueEnum};
use regex::RegexSet;

use super::{FAILED, print_error, standard_output};
use crate::flags::config_file::UsageError;

/// Something is broken.
const BROKEN: u8 = 3;
/// Nothing could be checked.
const NOTHING: u8 = 4;
/// The file of patterns in the current folder.
const IGNORE_FILE: &str = ".argiopeignore";
/// A check that takes longer shows its progress.
const QUIET_TIME: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  argiope check ./public\n  argiope check README.md docs/ --external no\n  \
                  argiope check ./public --base-url https://example.com/ --format github\n\n\
                  Findings are grouped by page; --format json has every occurrence with line, column and link text.\n\
                  Exit codes: 0 nothing is broken (unknown targets do not count), 1 could not continue, 2 bad usage,\n\
                  3 something is broken, 4 nothing could be checked.")]
pub struct CheckArgs {
    /// Folders of HTML, and HTML and Markdown files
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,
    /// Check URLs outside of the site or folder, once each
    #[arg(long, value_name = "yes|no", default_value = "yes", value_parser = yes_or_no, action = clap::ArgAction::Set)]
    pub external: bool,
    /// Check that the part of the page that a link names exists
    #[arg(long, value_name = "yes|no", default_value = "yes", value_parser = yes_or_no, action = clap::ArgAction::Set)]
    pub fragments: bool,
    /// Check images, styles, scripts and media
    #[arg(long, value_name = "yes|no", default_value = "yes", value_parser = yes_or_no, action = clap::ArgAction::Set)]
    pub assets: bool,
    /// Status codes that count as good
    #[arg(long, value_name = "CODES", default_value = "200..=299")]
    pub accept: StatusRanges,
    /// Leave out links that match this regular expression (repeatable); also one pattern a line in .argiopeignore
    #[arg(long, value_name = "RE")]
    pub ignore: Vec<String>,
    /// A time-out after all tries is unknown, not broken
    #[arg(long)]
    pub timeouts_unknown: bool,
    /// How to write the findings
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CheckFormat::Text)]
    pub format: CheckFormat,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// For folders: where links that begin with / lead (default: the folder itself; for files the current folder)
    #[arg(long, value_name = "DIR")]
    pub root_dir: Option<PathBuf>,
    /// For folders: the URL that the root folder will have; links to it are looked up in the folder
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// No progress and no summary on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    Text,
    Json,
    Jsonl,
    Junit,
    Github,
    Sarif,
    Markdown,
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    }
}

/// Checks the targets and writes the findings.
pub fn run(args: &CheckArgs) -> Result<ExitCode, UsageError> {
    let options = options(args)?;
    let paths = paths(&args.targets)?;
    let started = Instant::now();
    let progress = Arc::new(CheckProgress::default());
    let display = (!args.quiet).then(|| ProgressDisplay::start(Arc::clone(&progress)));
    let checked = FolderCheck::scan(&paths, &options, &progress).map(|check| check.finish(&RemoteFaults::default()));
    drop(display);
    let mut report = match checked {
        Ok(report) => report,
        Err(error) => {
            print_error(&visible(&format!("the files cannot be read: {error}")));
            return Ok(ExitCode::from(FAILED));
        }
    };
    report.summary.milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(conclude(args, &report))
}

fn options(args: &CheckArgs) -> Result<CheckOptions, UsageError> {
    let mut patterns = args.ignore.clone();
    let file = Path::new(IGNORE_FILE);
    if file.exists() {
        let more = read_ignore_file(file);
        patterns.extend(more.map_err(|error| UsageError(format!("{IGNORE_FILE} cannot be read: {error}")))?);
    }
    let ignore = RegexSet::new(&patterns)
        .map_err(|error| UsageError(visible(&format!("--ignore: {error}").replace('\n', " ")).into_owned()))?;
    let base_url = match &args.base_url {
        None => None,
        Some(text) => Some(
            Url::parse(text)
                .map_err(|error| UsageError(format!("invalid value '{}' for '--base-url': {error}", visible(text))))?,
        ),
    };
    if let Some(root) = args.root_dir.as_ref().filter(|root| !root.is_dir()) {
        return Err(UsageError(format!("--root-dir: {} is not a folder", visible(&root.display().to_string()))));
    }
    Ok(CheckOptions {
        external: args.external,
        fragments: args.fragments,
        assets: args.assets,
        ignore,
        root_dir: args.root_dir.clone(),
        base_url,
        accept: args.accept.clone(),
        timeouts_unknown: args.timeouts_unknown,
    })
}

fn paths(targets: &[String]) -> Result<Vec<PathBuf>, UsageError> {
    let path = |target: &String| {
        let path = PathBuf::from(target);
        if path.exists() {
            return Ok(path);
        }
        Err(UsageError(format!("{}: no such file or folder", visible(target))))
    };
    targets.iter().map(path).collect()
}

/// Writes the report and says how the command ends.
fn conclude(args: &CheckArgs, report: &CheckReport) -> ExitCode {
    let summary = output::summary_line(&report.summary);
    if !args.quiet {
        for note in &report.notes {
            let _ = writeln!(std::io::stderr(), "note: {}", visible(note));
        }
    }
    let written = match &args.output {
        None => standard_output::write(&rendered(args, report)),
        Some(file) => AtomicFile::write(file, &String::from_utf8_lossy(&rendered(args, report))),
    };
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Err(error) => {
            let name = args.output.as_ref().map_or("standard output".into(), |file| file.display().to_string());
            print_error(&visible(&format!("{name} cannot be written: {error}")));
            return ExitCode::from(FAILED);
        }
        Ok(()) => {}
    }
    let is_in_output = args.format == CheckFormat::Text && args.output.is_none();
    if !args.quiet && !is_in_output {
        let _ = writeln!(std::io::stderr(), "{summary}");
    }
    if report.is_broken() {
        ExitCode::from(BROKEN)
    } else if report.summary.pages == 0 {
        print_error("nothing could be checked: no HTML or Markdown was found");
        ExitCode::from(NOTHING)
    } else {
        ExitCode::SUCCESS
    }
}

fn rendered(args: &CheckArgs, report: &CheckReport) -> Vec<u8> {
    let mut out = Vec::new();
    match args.format {
        CheckFormat::Text => {
            let coloured = args.output.is_none() && console::colors_enabled();
            out.extend_from_slice(output::text(report, coloured).as_bytes());
            out.extend_from_slice(output::summary_line(&report.summary).as_bytes());
            out.push(b'\n');
        }
        CheckFormat::Json => write_json(&mut out, &output::json_document(report)),
        CheckFormat::Jsonl => output::json_lines(report).for_each(|line| write_json(&mut out, &line)),
        CheckFormat::Junit => out.extend_from_slice(output::junit(report).as_bytes()),
        CheckFormat::Github => out.extend_from_slice(output::annotations(report).as_bytes()),
        CheckFormat::Sarif => write_json(&mut out, &output::sarif(report)),
        CheckFormat::Markdown => out.extend_from_slice(output::markdown(report).as_bytes()),
    }
    out
}

fn write_json(out: &mut Vec<u8>, value: &serde_json::Value) {
    // Writing to memory cannot fail.
    let _ = escape::write_json(&mut *out, value);
    out.push(b'\n');
}

/// Shows how far a check is, on a terminal in one line that is overwritten.
struct ProgressDisplay {
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressDisplay {
    fn start(progress: Arc<CheckProgress>) -> Self {
        let (stop, stopped) = channel();
        let show = move || {
            let is_terminal = std::io::stderr().is_terminal();
            let mut pause = QUIET_TIME;
            let mut is_shown = false;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let line = format!("{} of {} checked", progress.done(), progress.total());
                let _ = match is_terminal {
                    true => write!(std::io::stderr(), "\r\x1b[K{line}"),
                    false => writeln!(std::io::stderr(), "{line}"),
                };
                is_shown = true;
                pause = if is_terminal { Duration::from_millis(200) } else { Duration::from_secs(10) };
            }
            if is_shown && is_terminal {
                let _ = write!(std::io::stderr(), "\r\x1b[K");
            }
        };
        let thread = std::thread::Builder::new().name("argiope-progress".into()).spawn(show).ok();
        Self { stop, thread }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        // Ignored: the thread has ended already.
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
