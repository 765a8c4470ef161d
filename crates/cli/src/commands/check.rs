//! `argiope check TARGET...`: broken links of sites, folders and files.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use argiope_check::output::{TextOptions, json_document, summary_line};
use argiope_check::{
    BadStatusRanges, CHECK_FILE, CheckCache, CheckLimits, CheckOptions, CheckProgress, CheckReport, DocumentType,
    FolderCheck, LIST_NAME, WebCheck, read_ignore_file,
};
use argiope_core::Url;
use argiope_core::base::escape::{json_line, visible};
use argiope_core::crawl::rules::{Config, ConfigError, Size, Span};
use argiope_core::crawl::settings::CHECK;
use argiope_runtime::Error;
use argiope_runtime::atomic_file::AtomicFile;
use clap::Args;
use regex::{Regex, RegexSet};

use super::output::Output;
use super::{FAILED, print_error, warn_insecure};
use crate::flags::config_file::{UsageError, check_settings};
use crate::flags::settings::MessageSettings;
use crate::flags::{CheckFormat, CheckSettings, SettingFlags};
use crate::formats::Audience;
use crate::locale::localized;
use crate::wording;

/// The targets of links may use `--max-memory` divided by this.
const TARGET_MEMORY_DIVISOR: u64 = 4;
/// Exit code: something is broken.
const BROKEN: u8 = 3;
/// Exit code: nothing could be checked.
const NOTHING_CHECKED: u8 = 4;
/// The file in the current folder with further patterns for `--ignore`.
const IGNORE_FILE: &str = ".argiopeignore";
/// A check that takes longer than this shows its progress.
const FIRST_PROGRESS: Duration = Duration::from_secs(2);
/// Interval between updates of the progress on a terminal.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
/// Interval between lines of progress in a log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Moves the cursor of a terminal to the start of the line and erases the line.
const ERASE_LINE: &str = "\r\x1b[K";

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  argiope check https://example.com/\n  argiope check ./public\n  \
                  argiope check README.md docs/ --external no\n  \
                  argiope check ./public --base-url https://example.com/ --format github\n  \
                  argiope check https://app.example/ --render auto\n  \
                  argiope check - < urls.txt\n\n\
                  Findings are grouped by target, with three places of each; --all and --format json have every place.\n\
                  All flags: argiope check --help\n\
                  Exit codes: 0 nothing is broken (unknown targets do not count), 1 could not continue, 2 bad usage,\n\
                  3 something is broken, 4 nothing could be checked.",
    allow_negative_numbers = true,
    mut_arg("fresh", |arg| arg.requires("out"))
)]
pub struct CheckArgs {
    /// Sites (URLs), folders of HTML, HTML and Markdown files; - reads a list of URLs from standard input
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,
    #[command(flatten)]
    check: SettingFlags<CheckSettings, CHECK>,
    /// Read settings from a TOML file
    ///
    /// Its keys are the long flags of this command and of argiope crawl. Flags on the command line override it.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingFlags<Config, CHECK>,
    #[command(flatten)]
    messages: SettingFlags<MessageSettings, CHECK>,
}

/// The targets of the command line by kind.
#[derive(Debug, Default, PartialEq, Eq)]
struct CheckTargets {
    sites: Vec<String>,
    paths: Vec<PathBuf>,
    /// Whether a list of URLs is read from standard input.
    reads_list: bool,
}

/// Checks the targets and writes the findings.
pub fn run(args: &CheckArgs) -> Result<ExitCode, UsageError> {
    let targets = CheckTargets::of(&args.targets)?;
    let (mut file, mut settings) = match &args.config {
        Some(path) => check_settings(path)?,
        None => Default::default(),
    };
    args.check.apply_to(&mut settings)?;
    args.messages.apply_to(&mut file.messages)?;
    let is_quiet = file.messages.quiet;
    let config = config(args, file.crawl, &targets)?;
    let options = options(&settings, &config)?;
    let directory = config.out.clone();
    let judging = judging_settings(&settings, &config);
    let mut cache = match settings.cache {
        None => None,
        Some(Span(lifetime)) => Some(CheckCache::read(&settings.cache_file, lifetime, &judging).map_err(|error| {
            UsageError(format!("--cache-file: {}: {error}", visible(&settings.cache_file.display().to_string())))
        })?),
    };
    let started = Instant::now();
    let progress = Arc::new(CheckProgress::default());
    let display = (!is_quiet).then(|| ProgressDisplay::start(Arc::clone(&progress)));
    let checked = check(&targets, config, &options, &progress, cache.as_mut());
    drop(display);
    let mut report = match checked {
        Ok(report) => report,
        Err(error) => {
            if let Some(error) = error.as_config() {
                return Err(error.clone().into());
            }
            // Such as a browser that is not there.
            if error.is_input() {
                return Err(UsageError(error.to_string()));
            }
            print_error(&visible(&wording::error(&error).to_string()));
            return Ok(ExitCode::from(FAILED));
        }
    };
    if let Some(cache) = cache
        && let Err(error) = cache.write(&settings.cache_file)
    {
        print_error(&visible(&format!("{} cannot be written: {error}", settings.cache_file.display())));
        return Ok(ExitCode::from(FAILED));
    }
    report.summary.milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    if let Some(directory) = &directory {
        let document = json_line(&json_document(&report));
        let file = directory.join(CHECK_FILE);
        if let Err(error) = AtomicFile::write(&file, document) {
            print_error(&visible(&format!("{} cannot be written: {error}", file.display())));
            return Ok(ExitCode::from(FAILED));
        }
    }
    write_report(&settings, is_quiet, &targets, &report)
}

/// Reads folders and files, crawls sites, then requests the external URLs that were found in any of them.
fn check(
    targets: &CheckTargets,
    config: Config,
    options: &CheckOptions,
    progress: &Arc<CheckProgress>,
    cache: Option<&mut CheckCache>,
) -> Result<CheckReport, Error> {
    let folders = match targets.paths.as_slice() {
        [] => None,
        paths => Some(FolderCheck::scan(paths, options, progress).map_err(Error::system)?),
    };
    let remote = folders.as_ref().map(FolderCheck::remote_targets).unwrap_or_default();
    let mut report = CheckReport::default();
    if targets.sites.is_empty() && !targets.reads_list && remote.is_empty() {
        // No network request is needed, so there are no faults of remote targets.
        if let Some(folders) = folders {
            report.merge(folders.finish(&Default::default()));
        }
        return Ok(report);
    }
    if config.insecure {
        warn_insecure();
    }
    let mut web = WebCheck::new(config, options.clone(), Arc::clone(progress)).map_err(Error::system)?;
    if targets.reads_list {
        let mut list = Vec::new();
        std::io::stdin().lock().read_to_end(&mut list).map_err(Error::system)?;
        web.add_list(&String::from_utf8_lossy(&list)).map_err(Error::system)?;
    }
    if !targets.sites.is_empty() {
        web.crawl()?;
    }
    let faults = web.request(&remote, cache)?;
    if let Some(folders) = folders {
        report.merge(folders.finish(&faults));
    }
    report.merge(web.finish(&faults).map_err(Error::system)?);
    (report.summary.external, report.summary.cached) = (faults.requested, faults.cached);
    report.is_network_down = faults.is_network_down;
    report.notes.extend(faults.notes);
    Ok(report)
}

/// The settings of the crawler, for sites and for external URLs.
fn config(args: &CheckArgs, file: Config, targets: &CheckTargets) -> Result<Config, UsageError> {
    let mut config = Config {
        roots: targets.sites.clone(),
        // A check writes a crawl directory only if the command line names it, and no other output of a crawl.
        out: None,
        fresh: false,
        recrawl: false,
        jsonl: None,
        warc: false,
        ..file
    };
    args.settings.apply_to(&mut config)?;
    if let Some(directory) = &config.out {
        let name = visible(&directory.display().to_string()).into_owned();
        if targets.sites.is_empty() {
            return Err(UsageError("--out: only a site is crawled; give a URL".into()));
        }
        if directory.exists() && !config.fresh {
            // Pages of an earlier run are not read again, so their links would not be checked.
            return Err(UsageError(format!("--out: {name} exists; --fresh starts over")));
        }
    }
    Ok(config)
}

impl CheckTargets {
    /// Whether nothing but the list on standard input is checked.
    fn is_only_a_list(&self) -> bool {
        self.reads_list && self.sites.is_empty() && self.paths.is_empty()
    }

    fn of(targets: &[String]) -> Result<Self, UsageError> {
        let mut by_kind = Self::default();
        for target in targets {
            let path = PathBuf::from(target);
            if target == LIST_NAME {
                by_kind.reads_list = true;
            } else if target.contains("://") {
                by_kind.sites.push(target.clone());
            } else if path.exists() {
                by_kind.paths.push(path);
            } else if is_host(target) {
                by_kind.sites.push(target.clone());
            } else {
                let shown = visible(target);
                return Err(UsageError(format!("{shown}: no such file or folder; a site begins with https://")));
            }
        }
        Ok(by_kind)
    }
}

/// Whether a target that is not an existing file names a host: `example.com/docs` does, `./docs` and `READMEE.md` do not.
fn is_host(target: &str) -> bool {
    let host = target.split('/').next().unwrap_or("");
    let name = host.split(':').next().unwrap_or("");
    // Without a path, a name such as `READMEE.md` is more likely a mistyped file than a host.
    (name.contains('.') || name == "localhost")
        && !name.starts_with('.')
        && (host != target || DocumentType::of_name(name).is_none())
}

fn options(args: &CheckSettings, config: &Config) -> Result<CheckOptions, UsageError> {
    let accept = args.accept.parse().map_err(|bad: BadStatusRanges| ConfigError {
        key: "accept",
        value: args.accept.clone(),
        problem: bad.to_string(),
    })?;
    let mut patterns = args.ignore.clone();
    let file = Path::new(IGNORE_FILE);
    if file.exists() {
        let more = read_ignore_file(file);
        patterns.extend(more.map_err(|error| UsageError(format!("{IGNORE_FILE} cannot be read: {error}")))?);
    }
    let ignore = RegexSet::new(&patterns)
        .map_err(|error| UsageError(visible(&ignore_error(&patterns, args.ignore.len(), &error)).into_owned()))?;
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
        external: args.external.0,
        fragments: args.fragments.0,
        assets: args.assets.0,
        ignore,
        root_dir: args.root_dir.clone(),
        base_url,
        accept,
        timeouts_unknown: args.timeouts_unknown,
        limits: CheckLimits {
            page_urls: config.max_links,
            host_urls: args.max_external_per_host,
            external_urls: args.max_external,
            memory: config
                .max_memory
                .map_or(CheckLimits::default().memory, |Size(bytes)| bytes / TARGET_MEMORY_DIVISOR),
        },
        advice_words: wording::advice,
    })
}

/// A message that names the pattern that cannot be parsed, and where it comes from: the first `flag_count` patterns are
/// flags, the others are lines of the file. `set_error` is the error of the whole set.
fn ignore_error(patterns: &[String], flag_count: usize, set_error: &regex::Error) -> String {
    let faulty = patterns.iter().enumerate().find_map(|(at, pattern)| Some((at, pattern, Regex::new(pattern).err()?)));
    let Some((at, pattern, error)) = faulty else { return format!("--ignore: {set_error}") };
    let source = if at < flag_count { "--ignore" } else { IGNORE_FILE };
    let error = error.to_string();
    // The last line of an error names the cause; the lines before it show the pattern.
    let cause = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
    format!("{source}: {pattern:?} is not a regular expression: {cause}")
}

/// The settings that decide whether an external URL is good, as text. Of secrets, only their names and whether they are
/// given.
fn judging_settings(settings: &CheckSettings, config: &Config) -> String {
    let headers: Vec<&str> = config.header.iter().map(|header| &*header.name).collect();
    let (has_user, has_proxy) = (config.user.is_some(), config.proxy.is_some());
    format!("{} {} {has_user} {has_proxy} {}", settings.accept, config.insecure, headers.join(" "))
}

/// Writes the report and returns the exit code.
fn write_report(
    args: &CheckSettings,
    is_quiet: bool,
    targets: &CheckTargets,
    report: &CheckReport,
) -> Result<ExitCode, UsageError> {
    if !is_quiet {
        for note in &report.notes {
            let _ = writeln!(std::io::stderr(), "note: {}", localized(&visible(note)));
        }
    }
    let output = Output::of(args.output.as_deref());
    let CheckFormat(format) = args.format;
    let is_file = output.file().is_some();
    // A file has no colours, and is not limited to a screen.
    let options = TextOptions {
        coloured: !is_file && console::colors_enabled(),
        all: args.all || is_file,
        all_hint: "; --all lists everything",
    };
    match output.write_all(format.audience, &(format.write)(report, options)) {
        Ok(true) => {}
        Ok(false) => return Ok(ExitCode::SUCCESS),
        Err(fault) => return fault.print(),
    }
    // The text format on standard output ends with the summary.
    let has_summary = format.audience == Audience::Terminal && !is_file;
    if !is_quiet && !has_summary {
        let _ = writeln!(std::io::stderr(), "{}", summary_line(&report.summary));
    }
    Ok(ExitCode::from(if report.has_broken() {
        BROKEN
    } else if report.summary.pages == 0 {
        print_error("nothing could be checked: no page was read");
        NOTHING_CHECKED
    } else if report.is_all_unknown() && (report.is_network_down || targets.is_only_a_list()) {
        print_error("nothing could be checked: all links are unknown");
        NOTHING_CHECKED
    } else {
        0
    }))
}

/// Shows how far a check is. On a terminal, one line is overwritten; in a log, lines are added.
///
/// Dropping it stops its thread and erases the line on the terminal.
struct ProgressDisplay {
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressDisplay {
    fn start(progress: Arc<CheckProgress>) -> Self {
        let (stop, stopped) = channel();
        let show = move || {
            let is_terminal = std::io::stderr().is_terminal();
            let mut pause = FIRST_PROGRESS;
            let mut is_shown = false;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let (done, total) = (progress.done(), progress.total());
                let line = if total > done { format!("{done} of {total} checked") } else { format!("{done} checked") };
                let _ = match is_terminal {
                    true => write!(std::io::stderr(), "{ERASE_LINE}{line}"),
                    false => writeln!(std::io::stderr(), "{line}"),
                };
                is_shown = true;
                pause = if is_terminal { TERMINAL_INTERVAL } else { LOG_INTERVAL };
            }
            if is_shown && is_terminal {
                let _ = write!(std::io::stderr(), "{ERASE_LINE}");
            }
        };
        let thread = std::thread::Builder::new().name("argiope-progress".into()).spawn(show).ok();
        Self { stop, thread }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        // An error means that the thread has ended already.
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_site_a_path_or_the_list() {
        let of = |targets: &[&str]| CheckTargets::of(&targets.iter().map(ToString::to_string).collect::<Vec<_>>());
        let found = of(&["https://h.example/", "example.com/docs", "localhost:8080", "-", "src"]).expect("targets");
        assert_eq!(found.sites, ["https://h.example/", "example.com/docs", "localhost:8080"]);
        assert_eq!((found.paths, found.reads_list), (vec![PathBuf::from("src")], true));
        for missing in ["READMEE.md", "./public", "docss", "/no/such/folder", "docss/"] {
            assert!(of(&[missing]).is_err(), "{missing}");
        }
    }
}
