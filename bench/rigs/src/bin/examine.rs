//! Measures how fast pages are examined, in MB/s, with the HTML files in the given folders.
//!
//! `cargo run --release -p argiope-rigs --bin examine -- /usr/share/doc/python3-doc`

#![allow(clippy::print_stdout, reason = "it prints figures")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use argiope_core::Url;
use argiope_core::base::value::DigestAlgorithm;
use argiope_core::page::examine::tokenizer::{Dialect, Tokenizer};
use argiope_core::page::examine::{ExamineLimits, Examiner};
use argiope_rigs::{TagCounter, kernel};
use sha2::Digest;

fn main() {
    let mut folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                pages.extend(std::fs::read(path));
            }
        }
    }
    let megabytes = pages.iter().map(Vec::len).sum::<usize>() as f64 / 1e6;
    println!("{} pages, {megabytes:.1} MB", pages.len());
    let measure = |name: &str, work: &mut dyn FnMut(&[u8]) -> u64| {
        let mut best = f64::MAX;
        let mut count = 0;
        // The best of five measurements, each of at least 0.3 seconds.
        for _ in 0..5 {
            let (start, clock, mut rounds) = (kernel::thread_time(), Instant::now(), 0.0);
            while rounds == 0.0 || clock.elapsed().as_secs_f64() < 0.3 {
                count = pages.iter().map(|page| work(page)).sum();
                rounds += 1.0;
            }
            best = best.min((kernel::thread_time() - start).as_secs_f64() / rounds);
        }
        println!("{name:<12} {:8.0} MB/s {:8.1} us a page  {count}", megabytes / best, best * 1e6 / pages.len() as f64);
    };
    measure("digest", &mut |page| u64::from(sha2::Sha256::digest(page)[0]));
    measure("tokenizer", &mut |page| {
        let mut tags = TagCounter::default();
        let mut tokenizer = Tokenizer::new(Dialect::Html);
        page.chunks(16384).for_each(|chunk| tokenizer.feed(chunk, &mut tags));
        tags.0
    });
    let address = Url::parse("http://localhost/docs/page.html").expect("a URL");
    let agent: Arc<str> = Arc::from("argiope");
    measure("examiner", &mut |page| {
        let limits = ExamineLimits {
            max_links: 10_000,
            max_url: 4096,
            max_attrs: 256,
            agent: agent.clone(),
            assets: false,
            anchors: false,
            digest: DigestAlgorithm::Xxh3,
        };
        let mut examiner = Examiner::new(&address, Some(b"text/html; charset=utf-8"), limits);
        page.chunks(16384).for_each(|chunk| examiner.feed(chunk));
        examiner.finish().links.len() as u64
    });
}
