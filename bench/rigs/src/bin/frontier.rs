//! Measures a frontier without a network. Prints one line of JSON.
//!
//! `frontier KIND DISTINCT TIMES [FOLDER [ROOM]]` offers DISTINCT URLs, each TIMES times on average. KIND is `keys`
//! (the URLs are only generated), `std` (their fingerprints are put into a set of the standard library), `bare` (into
//! our own set), `batch` (the same, 64 at a time, after a prefetch), `memory` or `disk` (the URLs are put into a
//! frontier). ROOM limits the memory of the disk frontier, in MB.
//!
//! `frontier again FOLDER [ROOM]` opens the directory that `disk` wrote, takes and settles some links, and opens it
//! again, as after a kill. Measure one kind per process: the figure is the growth of the process, and a second kind
//! would reuse memory of the first.

#![allow(clippy::print_stdout, reason = "it prints figures")]

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::Path;
use std::time::{Duration, Instant};

use argiope_core::base::link::link_fingerprint;
use argiope_core::crawl::schedule::frontier::{NewHosts, Settlement};
use argiope_core::{FinalOutcome, Frontier, Outcome, StoreError};
use argiope_rigs::{AddressGenerator, BATCH, CommitWriter, kernel};
use argiope_store::disk::{self, CrawlSettings};
use argiope_store::{Commits as _, MemoryFrontier, SeenSet};
use serde_json::{Value, json};

const FINGERPRINT_KEY: u64 = 7;
/// Links that `again` takes and settles at most, and how many of them between two commits.
const MAX_TAKEN: u64 = 150_000;
const SETTLED_PER_COMMIT: u64 = 500;
/// Number of batches between two commits, about the links of a few hundred pages.
const BATCHES_PER_COMMIT: u64 = 300;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let figures = match arguments[..] {
        ["again", folder] => reopen(Path::new(folder), usize::MAX)?,
        ["again", folder, memory_limit] => reopen(Path::new(folder), memory_limit.parse::<usize>()? << 20)?,
        [kind, distinct, times, ref rest @ ..] => {
            let addresses = AddressGenerator::new(distinct.parse()?, times.parse()?);
            match (kind, rest) {
                ("disk", [folder]) => on_disk(&addresses, Path::new(folder), usize::MAX)?,
                ("disk", [folder, memory_limit]) => {
                    on_disk(&addresses, Path::new(folder), memory_limit.parse::<usize>()? << 20)?
                }
                _ => in_memory(kind, &addresses)?,
            }
        }
        _ => return Err("usage: frontier KIND DISTINCT TIMES [FOLDER [ROOM]], or frontier again FOLDER [ROOM]".into()),
    };
    println!("{figures}");
    Ok(())
}

/// Measures wall time, CPU time of this thread, and growth of resident memory, from `start` to `end`.
struct Measure {
    started: Instant,
    cpu_before: Duration,
    resident_before: u64,
}

impl Measure {
    fn start() -> Self {
        Self { resident_before: kernel::resident(), cpu_before: kernel::thread_time(), started: Instant::now() }
    }

    fn end(&self) -> Value {
        json!({
            "wall": self.started.elapsed().as_secs_f64(),
            "processor": (kernel::thread_time() - self.cpu_before).as_secs_f64(),
            "resident": kernel::resident().saturating_sub(self.resident_before),
        })
    }
}

/// Measures a kind that does not use the disk.
fn in_memory(kind: &str, addresses: &AddressGenerator) -> Result<Value, Box<dyn std::error::Error>> {
    let measure = Measure::start();
    let (known, mut figures) = match kind {
        "keys" => {
            // The total length of the URLs takes the place of the number of known URLs.
            let mut length = 0;
            addresses.each(|link| {
                length += link.url.as_str().len() as u64;
                Ok::<(), Infallible>(())
            })?;
            (length, measure.end())
        }
        "std" => {
            let mut set = HashSet::new();
            addresses.each(|link| {
                set.insert(link_fingerprint(link.url, link.kind, FINGERPRINT_KEY));
                Ok::<(), Infallible>(())
            })?;
            (set.len() as u64, measure.end())
        }
        "bare" => {
            let mut set = SeenSet::default();
            addresses.each(|link| {
                set.insert(link_fingerprint(link.url, link.kind, FINGERPRINT_KEY));
                Ok::<(), Infallible>(())
            })?;
            (set.len(), measure.end())
        }
        "batch" => {
            let (mut set, mut batch) = (SeenSet::default(), Vec::with_capacity(BATCH));
            addresses.each(|link| {
                batch.push(link_fingerprint(link.url, link.kind, FINGERPRINT_KEY));
                if batch.len() == BATCH {
                    set.prefetch(batch.iter().copied());
                    for fingerprint in batch.drain(..) {
                        set.insert(fingerprint);
                    }
                }
                Ok::<(), Infallible>(())
            })?;
            for fingerprint in batch.drain(..) {
                set.insert(fingerprint);
            }
            (set.len(), measure.end())
        }
        "memory" => {
            let mut frontier = MemoryFrontier::new(FINGERPRINT_KEY);
            addresses.batches(|links| frontier.put(links, NewHosts::GetLanes, &mut |_, _| true).map(drop))?;
            (frontier.counts().known, measure.end())
        }
        _ => return Err(format!("{kind}: no such kind, or a folder is missing").into()),
    };
    (figures["kind"], figures["known"]) = (kind.into(), known.into());
    Ok(figures)
}

/// Measures a disk frontier with regular commits, as in a crawl, until the last one is durable. Then measures the
/// commits at the end of a run, which write a snapshot.
fn on_disk(addresses: &AddressGenerator, folder: &Path, memory_limit: usize) -> Result<Value, StoreError> {
    let measure = Measure::start();
    let opened = disk::open(folder, &CrawlSettings::new(), memory_limit)?;
    let mut frontier = opened.frontier;
    let mut writer = CommitWriter::start(opened.writer);
    let mut offered = 0_u64;
    addresses.batches(|links| {
        frontier.put(links, NewHosts::GetLanes, &mut |_, _| true)?;
        offered += 1;
        if offered.is_multiple_of(BATCHES_PER_COMMIT) { writer.commit(&mut frontier) } else { Ok(()) }
    })?;
    writer.commit(&mut frontier)?;
    writer.wait(&mut frontier)?;
    let mut figures = measure.end();
    let started = Instant::now();
    writer.commit_at_end(&mut frontier)?;
    figures["last_commit"] = started.elapsed().as_secs_f64().into();
    figures["longest_commit"] = writer.longest.as_secs_f64().into();
    figures["longest_commit_processor"] = writer.longest_cpu.as_secs_f64().into();
    figures["longest_write"] = writer.end()?.as_secs_f64().into();
    let size = |path: &Path| path.metadata().map_or(0, |data| data.len());
    let logs = std::fs::read_dir(folder.join("log")).into_iter().flatten().flatten();
    (figures["kind"], figures["known"]) = ("disk".into(), frontier.counts().known.into());
    figures["own"] = frontier.bytes().into();
    figures["log"] = logs.map(|file| size(&file.path())).sum::<u64>().into();
    figures["snapshot"] = size(&folder.join("snapshot")).into();
    figures["peak"] = kernel::peak().into();
    Ok(figures)
}

/// Measures opening a directory, taking and settling links, and opening it again without a last commit.
fn reopen(folder: &Path, memory_limit: usize) -> Result<Value, StoreError> {
    let open = || -> Result<(disk::OpenedDirectory, [f64; 2]), StoreError> {
        let (started, cpu_before) = (Instant::now(), kernel::process_time());
        let opened = disk::open(folder, &CrawlSettings::new(), memory_limit)?;
        Ok((opened, [started.elapsed(), kernel::process_time() - cpu_before].map(|time| time.as_secs_f64())))
    };
    let (opened, after_end) = open()?;
    let mut frontier = opened.frontier;
    let mut writer = CommitWriter::start(opened.writer);
    // About the length of a usual record.
    let record = [b'x'; 600];
    let final_outcome =
        FinalOutcome { outcome: Outcome::Ok, status: Some(200), record: &record, is_fetched_page: true };
    let (started, mut taken) = (Instant::now(), 0_u64);
    for lane in frontier.lanes_with_work() {
        while taken < MAX_TAKEN {
            let links = frontier.take(lane, 16)?;
            if links.is_empty() {
                break;
            }
            for link in &links {
                frontier.settle(&mut [Settlement::of(link, final_outcome)])?;
                taken += 1;
                if taken.is_multiple_of(SETTLED_PER_COMMIT) {
                    writer.commit(&mut frontier)?;
                }
            }
        }
    }
    writer.wait(&mut frontier)?;
    let rate = taken as f64 / started.elapsed().as_secs_f64();
    writer.end()?;
    drop((frontier, opened.lock));
    let (opened, after_kill) = open()?;
    let counts = opened.frontier.counts();
    Ok(json!({
        "kind": "again", "known": counts.known, "settled": counts.settled, "taken_a_second": rate,
        "opened_after_end": {"wall": after_end[0], "processor": after_end[1]},
        "opened_after_kill": {"wall": after_kill[0], "processor": after_kill[1]},
        "peak": kernel::peak(),
    }))
}
