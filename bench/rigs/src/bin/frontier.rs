//! A frontier without a network: `frontier KIND DISTINCT TIMES [FOLDER]` offers so many addresses so many times each.
//!
//! KIND is `keys` (the addresses are made and nothing is done with them), `bare` (their fingerprints go into a set),
//! `memory` or `disk` (they are offered to a frontier). One line of JSON says what it took. One kind a process: memory
//! that one has touched would count for the next.

#![allow(clippy::print_stdout, reason = "it prints figures")]

use std::convert::Infallible;
use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;

use argiope_core::frontier::seen_key;
use argiope_core::{Frontier, StoreError};
use argiope_rigs::Addresses;
use argiope_store::disk::{self, Batch, LogWriter, Settings};
use argiope_store::{MemoryFrontier, SeenSet};

/// Offers between two commits: those of some hundred pages.
const COMMIT: u64 = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, distinct, times, rest @ ..] = &arguments[..] else {
        return Err("say: frontier keys|bare|memory|disk DISTINCT TIMES [FOLDER]".into());
    };
    let addresses = Addresses::new(distinct.parse()?, times.parse()?);
    let before = resident();
    let started = Instant::now();
    let (known, after) = match kind.as_str() {
        "keys" => {
            let mut length = 0;
            addresses.each(|link| {
                length += link.url.as_str().len();
                Ok::<(), Infallible>(())
            })?;
            (length, resident())
        }
        "bare" => {
            let mut set = SeenSet::default();
            addresses.each(|link| {
                set.insert(seen_key(link.url, link.kind, 7));
                Ok::<(), Infallible>(())
            })?;
            (set.len() as usize, resident())
        }
        "memory" => {
            let mut frontier = MemoryFrontier::new(7);
            addresses.each(|link| frontier.offer(link).map(|_| ()))?;
            (frontier.counts().known as usize, resident())
        }
        "disk" => on_disk(&addresses, Path::new(rest.first().ok_or("a folder is needed")?))?,
        _ => return Err(format!("{kind}: no such kind").into()),
    };
    let wall = started.elapsed().as_secs_f64();
    let line = serde_json::json!({
        "kind": kind, "known": known, "wall": wall, "resident": after.saturating_sub(before),
    });
    println!("{line}");
    Ok(())
}

/// With commits all the time, as a crawl makes them, and the last one waited for.
fn on_disk(addresses: &Addresses, folder: &Path) -> Result<(usize, u64), StoreError> {
    let opened = disk::open(folder, &Settings::new(), usize::MAX)?;
    let mut frontier = opened.frontier;
    let mut writer = Writer::start(opened.writer);
    let mut offered = 0_u64;
    addresses.each(|link| {
        frontier.offer(link)?;
        offered += 1;
        if offered.is_multiple_of(COMMIT) {
            writer.send(frontier.commit(&[])?);
            while let Ok(batch) = writer.done.try_recv() {
                frontier.acknowledge(&batch)?;
            }
        }
        Ok::<(), StoreError>(())
    })?;
    writer.send(frontier.commit(&[])?);
    writer.wait()?;
    Ok((frontier.counts().known as usize, resident()))
}

/// The thread that waits for the disk.
struct Writer {
    batches: Option<mpsc::SyncSender<Batch>>,
    done: mpsc::Receiver<Batch>,
    thread: Option<std::thread::JoinHandle<Result<(), StoreError>>>,
}

impl Writer {
    fn start(mut log: LogWriter) -> Self {
        let (batches, incoming) = mpsc::sync_channel::<Batch>(4);
        let (acknowledge, done) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            for batch in incoming {
                log.write(&batch)?;
                // Nobody listens any more at the very end.
                let _ = acknowledge.send(batch);
            }
            Ok(())
        });
        Self { batches: Some(batches), done, thread: Some(thread) }
    }

    fn send(&mut self, batch: Option<Batch>) {
        if let (Some(batches), Some(batch)) = (&self.batches, batch) {
            // A writer that has ended tells why when it is waited for.
            let _ = batches.send(batch);
        }
    }

    fn wait(&mut self) -> Result<(), StoreError> {
        self.batches = None;
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())))
    }
}

/// Resident memory in bytes, as the kernel counts it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
