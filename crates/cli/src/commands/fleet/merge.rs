//! `argiope merge`: converts the results of many machines into one crawl directory.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use argiope_core::schedule::frontier::{StoreError, StoreErrorKind};
use argiope_core::{FinalOutcome, FoundEdges, Frontier as _, Link, LinkKind, LinkList, LinkRef, Url};
use argiope_runtime::atomic_file::AtomicFile;
use argiope_runtime::directory::Directory;
use argiope_store::disk::{GraphRound, HistoryEvent, LinkGraph};
use argiope_store::segments::{SegmentStore, redacted_place};
use clap::Args;

use super::Refusal;
use crate::flags::config_file::UsageError;
use crate::records::{ReadError, StoredRecord};
use crate::results::{self, CrawlStart};
use crate::screen::wording;

/// Records per commit.
const MERGE_COMMIT: u64 = 1_000;
/// Interval between progress messages.
const TELL_EVERY: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  argiope merge /mnt/shared/example example.crawl
  argiope merge s3://bucket/example example.crawl

If it is interrupted, remove the directory and run the same command again.")]
pub struct MergeArgs {
    /// The folder with the results, or s3://BUCKET/PREFIX
    #[arg(value_name = "PREFIX")]
    results: PathBuf,
    /// The crawl directory to make
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Converts the results of a fleet into a crawl directory.
pub fn merge(args: &MergeArgs) -> Result<ExitCode, UsageError> {
    Ok(match merged(args) {
        Ok(records) => {
            let said = format!("{} in {}", wording::plural(records, "record"), args.directory.display());
            // Ignored: if standard error is closed, the message has no reader.
            let _ = writeln!(std::io::stderr(), "{said}");
            ExitCode::SUCCESS
        }
        Err(refusal) => refusal.print(),
    })
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        Self::Failed(error.to_string())
    }
}

fn merged(args: &MergeArgs) -> Result<u64, Refusal> {
    let MergeArgs { results, directory: target } = args;
    if !SegmentStore::is_there(results) {
        let words = format!("{} does not hold the results of many machines", results.display());
        return Err(Refusal::Failed(words));
    }
    if target.exists() {
        return Err(Refusal::Failed(format!("{} exists already; name another directory", target.display())));
    }
    let round = last_finished(results)?;
    let config = CrawlStart::read(results, &round)?.config(results)?;
    let rules =
        argiope_runtime::rules(&config).map_err(|error| Refusal::Failed(format!("{}: {error}", results.display())))?;
    // Under another name until it is complete: a part of the results must not look like a crawl. What an interrupted
    // merge left is removed.
    let mut partial = target.clone().into_os_string();
    partial.push(".merging");
    let partial = PathBuf::from(partial);
    let mut directory = match partial.exists() {
        true => Directory::start_over(&partial, &rules, &config)?.0,
        false => Directory::open(&partial, &rules, &config)?,
    };
    add_links(&mut directory, results, &round)?;
    let (mut records, mut archives, mut told) = (0_u64, BTreeSet::new(), Instant::now());
    let mut kind = LinkKind::Anchor;
    results::walk_round(results, &round, |event| {
        let line = match event {
            HistoryEvent::Link { kind: found, .. } => {
                kind = found;
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
        archives.extend(add(&mut directory, line, kind, rules.max_redirects)?);
        if records.is_multiple_of(MERGE_COMMIT) {
            directory.commit()?;
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
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
        Refusal::Failed(format!("{} cannot be renamed to {}: {error}", partial.display(), target.display()))
    })?;
    Ok(records)
}

/// The last round that is finished, or the only one.
fn last_finished(results: &Path) -> Result<SegmentStore, Refusal> {
    let fault = |error: std::io::Error| Refusal::Failed(format!("{}: {error}", redacted_place(results)));
    let latest = SegmentStore::latest(results).map_err(fault)?;
    if latest.round() == 1 || latest.is_final().map_err(fault)? {
        return Ok(latest);
    }
    let round = latest.round() - 1;
    let _ = writeln!(std::io::stderr(), "round {} is not finished; merging round {round}", latest.round());
    Ok(latest.of_round(round))
}

/// Adds the links of all pages.
fn add_links(directory: &mut Directory, results: &Path, round: &SegmentStore) -> Result<(), Refusal> {
    let latest = SegmentStore::latest(results).map_err(|error| Refusal::Failed(error.to_string()))?;
    let state = if round.round() == latest.round() { GraphRound::Latest } else { GraphRound::Previous };
    let mut graph = LinkGraph::open(results, state)?;
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
        if pages.is_multiple_of(MERGE_COMMIT) { directory.commit() } else { Ok(()) }
    })?;
    Ok(())
}

/// Adds one record to a crawl directory, as if it had been crawled there. Returns the archive files that it refers to.
fn add(directory: &mut Directory, line: &[u8], kind: LinkKind, redirects: u8) -> Result<Vec<String>, StoreError> {
    let record = StoredRecord::read(line)?;
    let place = record.warc.as_ref();
    let body = place.and_then(|place| place.payload.as_ref()).map(|payload| payload.file.clone());
    let archive = place.map(|place| place.file.clone()).into_iter().chain(body).collect();
    let frontier = &mut directory.frontier;
    let is_robots = record.r#for.as_deref() == Some("robots");
    let (Ok(url), Some(outcome), false) = (Url::parse(&record.url), record.outcome, is_robots) else {
        frontier.keep_line(line)?;
        return Ok(archive);
    };
    let via = record.via.as_deref().and_then(|via| Url::parse(via).ok());
    let link = Link { url, via, depth: record.depth, redirects, tries: record.tries, kind, request: None };
    let Some(lane) = frontier.offer(LinkRef::from(&link))? else {
        return Err(StoreError::new(StoreErrorKind::Damaged, format!("{} has two records", record.url)));
    };
    for taken in frontier.take(lane, usize::MAX)? {
        let final_outcome =
            FinalOutcome { outcome, status: record.status, record: line, is_fetched_page: record.is_page() };
        frontier.settle(&taken, final_outcome)?;
    }
    Ok(archive)
}

/// Copies one file of the archive.
fn copy_archive(directory: &mut Directory, results: &Path, target: &Path, file: &str) -> Result<(), Refusal> {
    let failed = |error: std::io::Error| Refusal::Failed(format!("{file} cannot be copied: {error}"));
    let content = SegmentStore::open(results).archive(file).map_err(failed)?;
    let path = target.join(file);
    std::fs::create_dir_all(path.parent().unwrap_or(target)).map_err(failed)?;
    directory.frontier.keep_made(file)?;
    directory.commit()?;
    AtomicFile::write(&path, content).map_err(failed)
}
