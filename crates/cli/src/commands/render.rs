//! `argiope render DIR`: runs the scripts of an archived crawl, without a network.
//!
//! It is a crawl whose requests the archive answers, in virtual time. Only what the archive has is followed; what is
//! missing is listed.

use std::collections::{BTreeSet, HashSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use argiope::Replay;
use argiope_core::base::escape::visible;
use argiope_core::base::job::{Job, Purpose};
use argiope_core::base::time::WallClock;
use argiope_core::crawl::response::WholeResponse;
use argiope_core::crawl::rules::{Config, ProgramSettings, RenderMode};
use argiope_core::crawl::schedule::run_record::RunRecord;
use argiope_core::crawl::settings::RENDER;
use argiope_core::crawl::transport::Transport;
use argiope_core::http::address::DnsResult;
use argiope_core::page::follow::{LinkFilter, LinkJudge, LinkPage, LinkVerdict};
use argiope_core::{Failure, Time};
use argiope_runtime::fetchers::Fetchers;
use clap::Args;

use super::crawl;
use crate::flags::SettingFlags;
use crate::flags::config_file::UsageError;
use crate::flags::settings::{CommandSettings, MessageSettings};
use crate::locale::localized;
use crate::records;
use crate::results::Results;
use crate::wording;

/// Limit on the missing URLs that are remembered. All further ones are counted only.
const MAX_REMEMBERED: usize = 100_000;
/// How many missing URLs are printed.
const MAX_PRINTED: usize = 20;

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  argiope crawl https://app.example/ --warc -d app.crawl\n  \
                        argiope render app.crawl -d rendered.crawl\n  \
                        argiope export rendered.crawl --format markdown -o pages/\n\n\
                        Nothing is requested. URLs that are not in the archive are listed. An interrupted command\n\
                        resumes if it is run again. Exit codes: those of argiope crawl.")]
pub struct RenderArgs {
    /// A crawl directory that was made with --warc
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    #[command(flatten)]
    settings: SettingFlags<Config, RENDER>,
    #[command(flatten)]
    messages: SettingFlags<MessageSettings, RENDER>,
}

/// Renders the pages of an archive into a new crawl directory.
pub fn run(args: &RenderArgs) -> Result<ExitCode, UsageError> {
    let archived = settings_of(&args.directory)?;
    let replay = Replay::from_warc(&args.directory).map_err(|error| UsageError(error.to_string()))?;
    let urls: HashSet<Box<str>> = replay.urls().map(Box::from).collect();
    let mut settings = CommandSettings { crawl: archived, ..CommandSettings::default() };
    args.settings.apply_to(&mut settings.crawl)?;
    args.messages.apply_to(&mut settings.messages)?;
    settings.crawl.roots = roots_in(&settings, &urls)?;
    let out = settings.crawl.out.get_or_insert_with(|| default_directory(&args.directory));
    check_directory(&args.directory, out)?;
    let missing = Arc::new(Mutex::new(Missing::default()));
    let urls = Arc::new(urls);
    let filter = ArchivedLinks { urls: Arc::clone(&urls), missing: Arc::clone(&missing) };
    let program = ProgramSettings { link_filter: Some(Arc::new(filter)), ..ProgramSettings::default() };
    let rules = settings.rules(program)?;
    let transport = ArchiveTransport { replay, urls, missing: Arc::clone(&missing) };
    let fetchers = Fetchers::transport(Box::new(transport)).with_browser(&rules);
    let fetchers = fetchers.map_err(|why| UsageError(wording::browser(&why)))?;
    let code = match crawl::crawl_in_directory(&settings, rules, fetchers) {
        Ok(code) => code,
        Err(error) => return Ok(crawl::fail_with(settings.messages, &error)),
    };
    if !settings.messages.quiet {
        let text = lock(&missing).to_text();
        // Ignored: if standard error is closed, the message has no reader.
        let _ = write!(std::io::stderr(), "{}", localized(&text));
    }
    Ok(code)
}

/// The settings of the last run of a crawl, without those that need the machine or the network of that run.
fn settings_of(directory: &Path) -> Result<Config, UsageError> {
    let results = Results::at(directory);
    let runs =
        results.check().and_then(|()| results.tracer()?.runs()).map_err(|error| UsageError(error.to_string()))?;
    let settings = runs.iter().rev().find_map(|run| records::settings_of(&RunRecord::read(run)?));
    let Some(archived) = settings else {
        let shown = visible(&directory.display().to_string()).into_owned();
        return Err(UsageError(format!("{shown}: the settings of the crawl cannot be read")));
    };
    Ok(Config {
        render: RenderMode::Always,
        warc: true,
        out: None,
        fresh: false,
        recrawl: false,
        jsonl: None,
        // Whatever the limits were, the archive has what they allowed.
        max_pages: None,
        max_pages_per_host: None,
        max_bytes: None,
        max_time: None,
        max_disk: None,
        cookies: None,
        proxy: None,
        ca_cert: None,
        cert: None,
        key: None,
        insecure: false,
        ..archived
    })
}

/// The roots as URLs. One without a scheme was tried as https, then http; the archive says which of them answered.
fn roots_in(settings: &CommandSettings, urls: &HashSet<Box<str>>) -> Result<Vec<String>, UsageError> {
    let rules = settings.rules(ProgramSettings::default())?;
    let url_of = |candidates: &[argiope_core::Url]| {
        let archived = candidates.iter().find(|url| urls.contains(url.as_str()));
        archived.or(candidates.first()).map(ToString::to_string)
    };
    Ok(rules.roots.iter().filter_map(|root| url_of(&root.candidates)).collect())
}

/// `example.com.crawl` becomes `example.com.rendered.crawl`, beside it.
fn default_directory(archive: &Path) -> PathBuf {
    let name = archive.file_name().map_or_else(|| "crawl".into(), |name| name.to_string_lossy().into_owned());
    let stem = name.strip_suffix(".crawl").unwrap_or(&name);
    archive.with_file_name(format!("{stem}.rendered.crawl"))
}

/// Refuses a directory with a crawl that was not made by this command: it would be continued from the archive.
fn check_directory(archive: &Path, out: &Path) -> Result<(), UsageError> {
    let shown = visible(&out.display().to_string()).into_owned();
    let is_same = archive.canonicalize().is_ok_and(|archive| out.canonicalize().is_ok_and(|out| archive == out));
    if is_same {
        return Err(UsageError(format!("--out: {shown} is the archive; name another directory")));
    }
    if !out.join("crawl.json").exists() {
        return Ok(());
    }
    let rendered = settings_before(out).is_some_and(|config| config.render == RenderMode::Always && config.warc);
    match rendered {
        true => Ok(()),
        false => Err(UsageError(format!("--out: {shown} has another crawl; name another directory"))),
    }
}

/// The settings of the last run in a directory, if they can be read.
fn settings_before(directory: &Path) -> Option<Config> {
    let runs = Results::at(directory).tracer().and_then(|mut tracer| tracer.runs()).ok()?;
    runs.iter().rev().find_map(|run| records::settings_of(&RunRecord::read(run)?))
}

/// What was wanted and is not in the archive.
#[derive(Debug, Default)]
struct Missing {
    urls: BTreeSet<Box<str>>,
    /// How many were not remembered.
    further: u64,
}

impl Missing {
    fn note(&mut self, url: &str) {
        if self.urls.contains(url) {
            return;
        }
        if self.urls.len() < MAX_REMEMBERED {
            self.urls.insert(url.into());
        } else {
            self.further += 1;
        }
    }

    /// The list for the user; empty if nothing is missing.
    fn to_text(&self) -> String {
        if self.urls.is_empty() {
            return String::new();
        }
        let total = self.urls.len() as u64 + self.further;
        let mut text = format!("not in the archive: {}\n", wording::plural(total, "URL"));
        for url in self.urls.iter().take(MAX_PRINTED) {
            text += &format!("  {}\n", visible(url));
        }
        let more = total.saturating_sub(MAX_PRINTED as u64);
        if more > 0 {
            text += &format!("  and {} more\n", wording::count(more));
        }
        text
    }
}

fn lock(missing: &Mutex<Missing>) -> std::sync::MutexGuard<'_, Missing> {
    missing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Follows the links that the archive has.
#[derive(Debug)]
struct ArchivedLinks {
    urls: Arc<HashSet<Box<str>>>,
    missing: Arc<Mutex<Missing>>,
}

impl LinkFilter for ArchivedLinks {
    fn open<'a>(&'a self, _page: LinkPage<'a>) -> LinkJudge<'a> {
        Box::new(|link| {
            if self.urls.contains(link.url.as_str()) {
                return LinkVerdict::With(0);
            }
            lock(&self.missing).note(link.url.as_str());
            LinkVerdict::Skip
        })
    }

    fn name(&self) -> &'static str {
        "render"
    }
}

/// Answers requests from the archive, and notes those that it cannot answer.
struct ArchiveTransport {
    replay: Replay,
    urls: Arc<HashSet<Box<str>>>,
    missing: Arc<Mutex<Missing>>,
}

impl Transport for ArchiveTransport {
    fn respond(&mut self, job: &Job, now: Time) -> Result<WholeResponse, (Failure, Duration)> {
        let url = job.link.url.as_str();
        let is_wanted = matches!(job.purpose, Purpose::Page | Purpose::Part(_));
        if is_wanted && !self.urls.contains(url) {
            lock(&self.missing).note(url);
        }
        self.replay.respond(job, now)
    }

    fn resolve(&self, host: &str) -> DnsResult {
        self.replay.resolve(host)
    }

    fn wall_clock(&self) -> WallClock {
        self.replay.wall_clock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_the_rendered_crawl_is_beside_the_archive() {
        for (archive, expected) in [
            ("h.example.crawl", "h.example.rendered.crawl"),
            ("/a/b.crawl", "/a/b.rendered.crawl"),
            ("/a/b", "/a/b.rendered.crawl"),
        ] {
            assert_eq!(default_directory(Path::new(archive)), Path::new(expected));
        }
    }

    #[test]
    fn each_missing_url_is_listed_once() {
        let mut missing = Missing::default();
        assert_eq!(missing.to_text(), "");
        (0..3).for_each(|_| missing.note("http://h/a"));
        assert_eq!(missing.to_text(), "not in the archive: 1 URL\n  http://h/a\n");
        (0..30).for_each(|number| missing.note(&format!("http://h/{number}")));
        assert!(missing.to_text().ends_with("  and 11 more\n"));
    }
}
