//! `argiope merge`: converts the results of many machines into one crawl directory.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use argiope_core::crawl::rules::{Config, ProgramSettings};
use argiope_core::crawl::schedule::frontier::{Settlement, StoreError, StoreErrorKind, put_all};
use argiope_core::{FinalOutcome, FoundEdges, Frontier as _, History as _, Link, LinkKind, LinkList, Url};
use argiope_fleet::segments::{SegmentStore, graph_of, redacted_place};
use argiope_runtime::atomic_file::AtomicFile;
use argiope_runtime::directory::Directory;
use argiope_store::disk::{GraphRound, HistoryEvent};
use clap::Args;

use super::FleetCommandError;
use crate::flags::config_file::UsageError;
use crate::records::{self, ReadError};
use crate::results::Results;
use crate::results::segments::{self, CrawlStart};
use crate::wording;

/// How many records, or pages of the link graph, are added between two commits.
const RECORDS_PER_COMMIT: u64 = 1_000;
/// Interval between progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  argiope merge /mnt/shared/example example.crawl
  argiope merge s3://bucket/example example.crawl
  argiope merge --allow-missing /mnt/shared/example example.crawl
      merges the rest of results whose files were deleted

If it is interrupted, run the same command again.")]
pub struct MergeArgs {
    /// The folder with the results, or s3://BUCKET/PREFIX
    #[arg(value_name = "PREFIX")]
    results: PathBuf,
    /// The crawl directory to make
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Merge the rest if segments of the results were deleted: their records are lost
    #[arg(long)]
    allow_missing: bool,
}

/// Converts the results of a fleet into a crawl directory.
pub fn merge(args: &MergeArgs) -> Result<ExitCode, UsageError> {
    Ok(match merge_results(args) {
        Ok(records) => {
            let message = format!("{} in {}", wording::plural(records, "record"), args.directory.display());
            // Ignored: if standard error is closed, the message has no reader.
            let _ = writeln!(std::io::stderr(), "{message}");
            ExitCode::SUCCESS
        }
        Err(error) => error.print(),
    })
}

impl From<ReadError> for FleetCommandError {
    fn from(error: ReadError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Returns the number of merged records.
fn merge_results(args: &MergeArgs) -> Result<u64, FleetCommandError> {
    let MergeArgs { results, directory: target, allow_missing } = args;
    let fleet = Results::at(results);
    let results = fleet.fleet()?;
    // Not `exists`, which follows a symbolic link.
    if target.symlink_metadata().is_ok() {
        return Err(FleetCommandError::Failed(format!("{} exists already; name another directory", target.display())));
    }
    let round = last_finished(results)?.allowing_missing(*allow_missing);
    let config = CrawlStart::read(results, &round)?.config(results)?;
    let rules = argiope_runtime::rules(&config, ProgramSettings::default())
        .map_err(|error| FleetCommandError::Failed(format!("{}: {error}", results.display())))?;
    // The directory has another name until it is complete, so that a part of the results does not look like a crawl. The
    // leftovers of an interrupted merge are removed.
    let mut partial = target.clone().into_os_string();
    partial.push(".merging");
    let partial = PathBuf::from(partial);
    refuse_link(&partial)?;
    let config = Config { fresh: partial.exists(), ..config };
    let mut directory = Directory::open(&partial, &rules, &config)?;
    add_links(&mut directory, results, &round)?;
    let (mut records, mut archives, mut last_progress) = (0_u64, BTreeSet::new(), Instant::now());
    // The kind of the link whose record comes next.
    let mut kind = LinkKind::Anchor;
    segments::walk_round(results, &round, |event| {
        let line = match event {
            HistoryEvent::Link { kind: next_kind, .. } => {
                kind = next_kind;
                return Ok(());
            }
            HistoryEvent::Round => return Ok(()),
            HistoryEvent::Note { host, note } => {
                let lane = directory.frontier.lane_of(host)?;
                return Ok(directory.frontier.keep_note(Some(lane), note)?);
            }
            HistoryEvent::FinalOutcome { line, .. } | HistoryEvent::Line { line } => line,
        };
        records += 1;
        archives.extend(add_record(&mut directory, line, kind, rules.max_redirects)?);
        if records.is_multiple_of(RECORDS_PER_COMMIT) {
            directory.commit()?;
        }
        if last_progress.elapsed() >= PROGRESS_INTERVAL {
            last_progress = Instant::now();
            let _ = writeln!(std::io::stderr(), "{} merged", wording::plural(records, "record"));
        }
        Ok(())
    })?;
    for file in archives {
        copy_archive(&mut directory, results, &partial, &file)?;
    }
    directory.commit()?;
    drop(directory);
    std::fs::rename(&partial, target).map_err(|error| {
        FleetCommandError::Failed(format!("{} cannot be renamed to {}: {error}", partial.display(), target.display()))
    })?;
    Ok(records)
}

/// Refuses to write through a symbolic link.
fn refuse_link(path: &Path) -> Result<(), FleetCommandError> {
    match path.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
        true => Err(FleetCommandError::Failed(format!("{} is a symbolic link; remove it", path.display()))),
        false => Ok(()),
    }
}

/// The last round that is finished, or the only round even if it is not finished.
fn last_finished(results: &Path) -> Result<SegmentStore, FleetCommandError> {
    let describe = |error: std::io::Error| FleetCommandError::Failed(format!("{}: {error}", redacted_place(results)));
    let latest = SegmentStore::latest(results).map_err(describe)?;
    if latest.round() == 1 || latest.is_final().map_err(describe)? {
        return Ok(latest);
    }
    let round = latest.round() - 1;
    let _ = writeln!(std::io::stderr(), "round {} is not finished; merging round {round}", latest.round());
    Ok(latest.of_round(round))
}

/// Copies the link graph.
fn add_links(directory: &mut Directory, results: &Path, round: &SegmentStore) -> Result<(), FleetCommandError> {
    let latest = round.rounds().map_err(|error| FleetCommandError::Failed(error.to_string()))?;
    let graph_round = if round.round() == latest { GraphRound::Latest } else { GraphRound::Previous };
    let mut graph = graph_of(results, round.clone(), graph_round)?;
    let mut pages = 0_u64;
    graph.pages(|page| {
        let Ok(source) = Url::parse(page.source) else { return Ok(()) };
        let mut links = LinkList::default();
        for (number, edge) in page.edges().enumerate() {
            links.push(edge.target, edge.kind, edge.nofollow);
            if let Some(anchor) = edge.anchor {
                links.set_anchor(number, anchor);
            }
        }
        let found = FoundEdges { source: &source, is_sitemap: page.is_sitemap, links: &links, cut: page.cut };
        directory.frontier.keep_edges(&found)?;
        pages += 1;
        if pages.is_multiple_of(RECORDS_PER_COMMIT) { directory.commit() } else { Ok(()) }
    })?;
    Ok(())
}

/// Adds one record to a crawl directory, as if it had been crawled there. Returns the archive files that it refers to.
fn add_record(
    directory: &mut Directory,
    line: &[u8],
    kind: LinkKind,
    max_redirects: u8,
) -> Result<Vec<String>, StoreError> {
    let record = records::read(line)?;
    let archived = record.warc.as_ref();
    // The body may be in another file, if an earlier page had the same one.
    let body_file = archived.and_then(|archived| archived.payload.as_ref()).map(|payload| payload.file.clone());
    let files = archived.map(|archived| archived.file.clone()).into_iter().chain(body_file).collect();
    let frontier = &mut directory.frontier;
    // The record of a robots.txt or of a probe, and a record without a URL, does not settle a link.
    let is_link = record.r#type != "aux" || record.r#for.as_deref() == Some("sitemap");
    let (Ok(url), Some(outcome), true) = (Url::parse(&record.url), record.outcome, is_link) else {
        frontier.settle(&mut [Settlement::line(line)])?;
        return Ok(files);
    };
    let via = record.via.as_deref().and_then(|via| Url::parse(via).ok());
    // The record does not contain how many redirects the link may still follow, and a settled link does not need it.
    let link =
        Link { url, via, depth: record.depth(), redirects: max_redirects, tries: record.tries(), kind, request: None };
    let Some(&lane) = put_all(frontier, [&link])?.lanes.first() else {
        return Err(StoreError::new(StoreErrorKind::Damaged, format!("{} has two records", record.url)));
    };
    // The lane has only this link, because all links before it are settled.
    for taken in frontier.take(lane, usize::MAX)? {
        let final_outcome =
            FinalOutcome { outcome, status: record.status, record: line, is_fetched_page: record.is_page() };
        frontier.settle(&mut [Settlement::of(&taken, final_outcome)])?;
    }
    Ok(files)
}

/// Copies one file of the archive into the directory `target`.
fn copy_archive(directory: &mut Directory, results: &Path, target: &Path, file: &str) -> Result<(), FleetCommandError> {
    let describe = |error: std::io::Error| FleetCommandError::Failed(format!("{file} cannot be copied: {error}"));
    let content = SegmentStore::open(results).archive(file).map_err(describe)?;
    let path = target.join(file);
    let folder = path.parent().unwrap_or(target);
    refuse_link(folder)?;
    std::fs::create_dir_all(folder).map_err(describe)?;
    // Committed before the file exists, so that starting over after a crash removes it.
    directory.frontier.record_created(file)?;
    directory.commit()?;
    AtomicFile::write(&path, content).map_err(describe)
}
