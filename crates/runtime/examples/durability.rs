//! Measures what durability costs: the same crawl with the frontier in memory and with a crawl directory, alternately.
//!
//! `cargo build --release -p argiope-practice && cargo run --release -p argiope-runtime --example durability -- [PAGES]
//! [ROUNDS]`
//!
//! The practice server runs in a process of its own. Both kinds write the same records to a file. Wall time depends on
//! what else the machine does, so the best round of each kind counts; CPU time is that of this process alone.

#![allow(clippy::print_stdout, reason = "it prints figures")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use argiope_core::crawl::rules::{Config, ProgramSettings, Rules};
use argiope_core::crawl::schedule::keeper::Settled;
use argiope_engine::Clock;
use argiope_practice::spawn_child;
use argiope_runtime::directory::{Directory, DirectoryParts};
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{CrawlSetup, KeeperHandle, VisitConsumer};
use argiope_runtime::writer_thread::OutputTarget;
use argiope_store::MemoryFrontier;

type Fault = Box<dyn std::error::Error>;

fn main() -> Result<(), Fault> {
    let mut arguments = std::env::args().skip(1);
    let pages = arguments.next().unwrap_or_else(|| "30000".to_owned());
    let rounds: u32 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let server = std::env::current_exe()?.with_file_name("../argiope-practice");
    let hosts = "16";
    let per_host = (pages.parse::<u64>()? / hosts.parse::<u64>()?).to_string();
    let flags = ["serve", "--hosts", hosts, "--pages", &per_host, "--size", "10240", "--links", "50", "--cross", "100"];
    let child = spawn_child(&server, flags)?;
    let mut config = Config { roots: child.ready().roots.clone(), allow_private: true, ..Config::default() };
    (config.scope, config.pace) = ("any".parse()?, "full".parse()?);
    (config.concurrency, config.per_ip) = (64, Some(0));
    // The best wall time and the best CPU time: in memory, and in a directory.
    let mut best = [(Duration::MAX, Duration::MAX); 2];
    for round in 0..rounds {
        for (kind, name) in ["in memory", "in a directory"].into_iter().enumerate() {
            let folder = tempfile::tempdir_in(".")?;
            let (begin, cpu) = (Instant::now(), cpu_time());
            let settled = if kind == 0 { in_memory(&config, folder.path())? } else { durable(&config, folder.path())? };
            let (wall, cpu) = (begin.elapsed(), cpu_time() - cpu);
            println!(
                "round {round}, {name}: {settled} pages, {:.2} s, {:.2} s of CPU",
                wall.as_secs_f64(),
                cpu.as_secs_f64()
            );
            best[kind] = (best[kind].0.min(wall), best[kind].1.min(cpu));
        }
    }
    let [(wall, cpu), (durable_wall, durable_cpu)] = best;
    let more = |with: Duration, without: Duration| (with.as_secs_f64() / without.as_secs_f64() - 1.0) * 100.0;
    println!(
        "durability costs {:.1} % of wall time and {:.1} % of CPU",
        more(durable_wall, wall),
        more(durable_cpu, cpu)
    );
    Ok(())
}

fn in_memory(config: &Config, folder: &Path) -> Result<u64, Fault> {
    let rules = argiope_runtime::rules(config, ProgramSettings::default())?;
    let consumer = Lines(Some(BufWriter::with_capacity(64 << 10, File::create(folder.join("pages.jsonl"))?)));
    crawl(config, MemoryFrontier::new(rules.fingerprint_key), OutputTarget::default(), consumer, rules)
}

fn durable(config: &Config, folder: &Path) -> Result<u64, Fault> {
    let rules = argiope_runtime::rules(config, ProgramSettings::default())?;
    let directory = Directory::open(&folder.join("d.crawl"), &rules, config)?;
    let jsonl = directory.open_output(&folder.join("pages.jsonl"))?;
    let DirectoryParts { frontier, target, rules } = directory.into_parts(rules, Some(jsonl), b"{}\n".to_vec())?;
    crawl(config, frontier, target, Lines(None), rules)
}

fn crawl<F: argiope_store::Store + Send + 'static>(
    config: &Config,
    frontier: F,
    target: OutputTarget,
    consumer: Lines,
    rules: Rules,
) -> Result<u64, Fault> {
    let (fetchers, clock) = (Fetchers::engine(config.engine), Clock::start());
    let setup =
        CrawlSetup { frontier, rules: Arc::new(rules), fetchers, clock, consumer, target, accepts_links: false };
    Ok(KeeperHandle::start(setup)?.join()?.tally.pages())
}

/// Records as a crawl without a directory writes them.
struct Lines(Option<BufWriter<File>>);

impl VisitConsumer for Lines {
    fn take(&mut self, settled: Settled) {
        if let Some(file) = &mut self.0 {
            file.write_all(&settled.line).expect("room on the disk");
        }
    }

    fn flush(&mut self) {
        if let Some(file) = &mut self.0 {
            file.flush().expect("room on the disk");
        }
    }
}

/// The CPU time of this process so far, of all threads.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
