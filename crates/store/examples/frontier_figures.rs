//! Figures of the frontiers: `cargo run --release -p argiope-store --example frontier_figures -- [MILLIONS] [OFFERS] [ROOM]`.
//!
//! So many million distinct addresses on a tenth as many hosts (few large ones, many small ones), each offered `OFFERS`
//! times on average: to a bare set of fingerprints, to the frontier in memory and to the one on disk. Then the one on
//! disk is opened again, after a clean end and after a kill, and its links are taken and settled. With `ROOM`, in MB, the one
//! on disk has only so much memory, and nothing else is measured.

#![allow(clippy::print_stdout, reason = "it prints figures")]

use argiope_core::frontier::seen_key;
use argiope_core::{Fate, Frontier, LinkKind, LinkRef, Outcome, StoreError, Url, UrlRef};
use argiope_store::disk::{self, Batch, LogWriter, Settings};
use argiope_store::{MemoryFrontier, SeenSet};
use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let millions: f64 = arguments.next().map_or(Ok(10.0), |text| text.parse())?;
    let offers: u64 = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let room = arguments.next().map(|text| text.parse::<usize>()).transpose()?.map(|megabytes| megabytes << 20);
    let web = Web::new((millions * 1e6) as u64, offers);
    println!("{} addresses on {} hosts, {} offers", web.addresses, web.hosts, web.offers());
    let idle = web.each(|_| Ok(()))?;
    println!("making the addresses: {:.2} s, not counted below", idle.as_secs_f64());

    // The one whose memory matters comes first: what is freed stays with the process.
    let folder = tempfile::tempdir_in(".")?;
    fill(&web, folder.path(), idle, room.unwrap_or(usize::MAX))?;
    open_and_take(folder.path(), room.unwrap_or(usize::MAX))?;
    println!("at most {:.1} MB of memory in all", peak() / 1e6);
    if room.is_some() {
        return Ok(());
    }

    let mut theirs = HashSet::new();
    let time = web.each(|link| {
        theirs.insert(seen_key(link.url, link.kind, 7));
        Ok(())
    })?;
    web.tell("std HashSet<u64>", time - idle, None);
    drop(theirs);

    let mut bare = SeenSet::default();
    let time = web.each(|link| {
        bare.insert(seen_key(link.url, link.kind, 7));
        Ok(())
    })?;
    web.tell("bare set of fingerprints", time - idle, Some(bare.bytes() as f64));
    drop(bare);

    let before = resident();
    let mut memory = MemoryFrontier::new(7);
    let time = web.each(|link| memory.offer(link).map(|_| ()))?;
    web.tell("frontier in memory", time - idle, Some(resident() - before));
    Ok(())
}

fn fill(web: &Web, folder: &Path, idle: Duration, room: usize) -> Result<(), StoreError> {
    let before = resident();
    let opened = disk::open(folder, &Settings::new(), room)?;
    let mut frontier = opened.frontier;
    let mut writer = Writer::start(opened.writer);
    let mut offered = 0;
    let time = web.each(|link| {
        frontier.offer(link)?;
        offered += 1;
        if offered % 20_000 == 0 {
            writer.send(frontier.commit(&[])?);
            while let Ok(batch) = writer.done.try_recv() {
                frontier.acknowledge(&batch)?;
            }
        }
        Ok(())
    })?;
    let started = Instant::now();
    writer.send(frontier.commit_at_end(&[])?);
    writer.wait()?;
    println!("last commit, with a snapshot: {:.0} ms", started.elapsed().as_secs_f64() * 1e3);
    web.tell("frontier on disk", time - idle, Some(resident() - before));
    println!("  by its own account {:.1} bytes each", frontier.bytes() as f64 / web.addresses as f64);
    let size = |path: &Path| path.metadata().map_or(0, |data| data.len());
    let logs =
        std::fs::read_dir(folder.join("log")).map_or(0, |files| files.flatten().map(|file| size(&file.path())).sum());
    let per = |bytes: u64| bytes as f64 / web.addresses as f64;
    println!(
        "  on disk {:.1} bytes each in the log, {:.1} in the snapshot",
        per(logs),
        per(size(&folder.join("snapshot")))
    );
    Ok(())
}

fn open_and_take(folder: &Path, room: usize) -> Result<(), StoreError> {
    let (started, used) = (Instant::now(), processor_time());
    let opened = disk::open(folder, &Settings::new(), room)?;
    tell_opening("opened after a clean end", started, used);
    let mut frontier = opened.frontier;
    let mut writer = Writer::start(opened.writer);
    let line = [b'x'; 600];
    let fate = Fate { outcome: Outcome::Ok, status: Some(200), record: &line };
    let (started, mut taken) = (Instant::now(), 0_u64);
    'all: for lane in frontier.lanes_with_work() {
        loop {
            let links = frontier.take(lane, 16)?;
            if links.is_empty() {
                break;
            }
            for link in &links {
                frontier.settle(link, fate)?;
                taken += 1;
                if taken % 500 == 0 {
                    writer.send(frontier.commit(&[])?);
                    while let Ok(batch) = writer.done.try_recv() {
                        frontier.acknowledge(&batch)?;
                    }
                }
            }
            if taken >= 150_000 {
                break 'all;
            }
        }
    }
    writer.wait()?;
    let rate = taken as f64 / started.elapsed().as_secs_f64();
    println!("{taken} links taken, settled with records of 600 bytes, committed by 500: {rate:.0} a second");
    drop((frontier, opened.lock));
    let (started, used) = (Instant::now(), processor_time());
    let opened = disk::open(folder, &Settings::new(), room)?;
    tell_opening("opened after a kill", started, used);
    println!("{:?}", opened.frontier.counts());
    Ok(())
}

fn tell_opening(what: &str, started: Instant, used: Duration) {
    let [time, used] = [started.elapsed(), processor_time() - used].map(|time| time.as_secs_f64() * 1e3);
    println!("{what}: {time:.0} ms, {used:.0} ms of a processor");
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
                let _ = acknowledge.send(batch);
            }
            Ok(())
        });
        Self { batches: Some(batches), done, thread: Some(thread) }
    }

    fn send(&mut self, batch: Option<Batch>) {
        if let (Some(batches), Some(batch)) = (&self.batches, batch) {
            let _ = batches.send(batch);
        }
    }

    fn wait(&mut self) -> Result<(), StoreError> {
        self.batches = None;
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())))
    }
}

/// A web without a network.
struct Web {
    addresses: u64,
    hosts: u64,
    offers: u64,
    via: Url,
}

impl Web {
    fn new(addresses: u64, offers: u64) -> Self {
        let via = Url::parse("https://a.page.example/with/links?in=it").expect("an address");
        Self { addresses, hosts: (addresses / 10).max(1), offers, via }
    }

    fn offers(&self) -> u64 {
        self.addresses * self.offers
    }

    /// Offers every address once, in order, and between them older ones again.
    fn each(&self, mut offer: impl FnMut(LinkRef<'_>) -> Result<(), StoreError>) -> Result<Duration, StoreError> {
        let started = processor_time();
        let mut text = String::new();
        for number in 0..self.addresses {
            for again in 0..self.offers {
                let which = if again == 0 { number } else { mix(number * self.offers + again) % (number + 1) };
                text.clear();
                let random = mix(which);
                // The host of rank r comes up in proportion to 1/r.
                let host = (self.hosts as f64).powf((random >> 11) as f64 / (1_u64 << 53) as f64) as u64;
                let _ = write!(text, "https://www.host-{host}.example/section-{}/page-{which}.html", random % 100);
                let url = UrlRef::from_normal(&text).expect("an address");
                let depth = 1 + (which / (self.addresses / 4 + 1)) as u32;
                offer(LinkRef { url, via: Some(&self.via), depth, redirects: 10, tries: 0, kind: LinkKind::Anchor })?;
            }
        }
        Ok(processor_time() - started)
    }

    fn tell(&self, what: &str, time: Duration, bytes: Option<f64>) {
        let each = time.as_secs_f64() * 1e9 / self.offers() as f64;
        let per = |bytes: f64| format!(", {:.1} bytes of memory an address", bytes / self.addresses as f64);
        let bytes = bytes.map_or(String::new(), per);
        println!("{what}: {each:.0} ns an offer, {:.2} million offers a second{bytes}", 1e3 / each);
    }
}

/// SplitMix64's last step.
fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// What this thread has used of a processor: other programs on the machine do not count.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The most resident memory that there was, as the kernel counts it.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}

/// Resident memory in bytes, as the kernel counts it.
fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * 4096.0
}
