//! Measures the keeper without a network. Prints one line of JSON.
//!
//! `keeper PAGES LINKS FOLDER [ONE_OF]` crawls PAGES pages with LINKS links each, one in ten of them to another host, with
//! a frontier in FOLDER. One of ONE_OF links is new; by default all are, which is the most expensive case for the keeper.
//! Pages and their links are made outside of the measured time. The result is CPU time of the keeper's thread: `finish`
//! processes the results of the pages with their links, `next` hands out jobs, `commit` seals commits.

#![allow(clippy::print_stdout, reason = "it prints figures")]

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::job::Job;
use argiope_core::base::time::WallClock;
use argiope_core::crawl::rules::{Config, Pace, RobotsPolicy};
use argiope_core::crawl::schedule::keeper::{Keeper, Next};
use argiope_core::crawl::visit::Visit;
use argiope_core::{FollowList, LinkKind, Outcome, Time, UrlRef};
use argiope_rigs::{CommitWriter, kernel};
use argiope_store::disk::{self, CrawlSettings};
use serde_json::{Value, json};

/// Hosts of the crawl. Each has its own address.
const HOSTS: u64 = 200;
/// Jobs that are handed out before their results are processed.
const BATCH: usize = 64;
/// Batches between two commits.
const BATCHES_PER_COMMIT: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (pages, links, folder, one_of) = match &arguments[..] {
        [pages, links, folder] => (pages, links, folder, 1),
        [pages, links, folder, one_of] => (pages, links, folder, one_of.parse()?),
        _ => return Err("usage: keeper PAGES LINKS FOLDER [ONE_OF]".into()),
    };
    println!("{}", crawl(pages.parse()?, links.parse()?, one_of, Path::new(folder))?);
    Ok(())
}

/// Crawls, and returns the figures.
fn crawl(pages: u64, links: u64, one_of: u64, folder: &Path) -> Result<Value, Box<dyn std::error::Error>> {
    let config = Config {
        roots: (0..HOSTS).map(|host| format!("http://{}/", host_name(host))).collect(),
        robots: RobotsPolicy::Ignore,
        pace: Pace::Full,
        per_host: Some(4),
        concurrency: BATCH,
        ..Config::default()
    };
    let memory_limit = usize::MAX;
    let opened = disk::open(folder, &CrawlSettings::new(), memory_limit)?;
    let key = opened.frontier.key();
    let rules = Arc::new(config.compile(key)?);
    let mut writer = CommitWriter::start(opened.writer);
    let mut keeper = Keeper::new(opened.frontier, rules, WallClock { start: 0 });
    let mut now = Time::from_micros(1_000);
    keeper.begin(now)?;
    let [mut next, mut finish, mut commit] = [Duration::ZERO; 3];
    let mut web = Web { key, links, one_of, known_pages: [1; HOSTS as usize], found: 0 };
    let mut fetched = 0;
    for round in 1.. {
        now += Duration::from_millis(1);
        let mut jobs = Vec::with_capacity(BATCH);
        let started = kernel::thread_time();
        while jobs.len() < BATCH {
            match keeper.next(now)? {
                Next::Fetch(job) => jobs.push(job),
                Next::Resolve(lane, _) => {
                    // An IPv6 address with the number of the lane.
                    let address = IpAddr::from(u128::from(lane.0).to_be_bytes());
                    keeper.resolved(lane, Ok((vec![address], Duration::from_secs(86_400))), now);
                }
                Next::Wait(_) | Next::Done(_) => break,
            }
        }
        next += kernel::thread_time() - started;
        if jobs.is_empty() || fetched >= pages {
            break;
        }
        fetched += jobs.len() as u64;
        let mut visits = Vec::with_capacity(jobs.len());
        for job in jobs {
            visits.push(Box::new(web.visit(job, now)));
        }
        let started = kernel::thread_time();
        for visit in visits {
            keeper.finished(visit, now)?;
        }
        finish += kernel::thread_time() - started;
        // In a crawl, the writer's thread drops the settled visits.
        drop(keeper.take_settled());
        if round % BATCHES_PER_COMMIT == 0 {
            let started = kernel::thread_time();
            writer.commit(keeper.frontier_mut())?;
            commit += kernel::thread_time() - started;
        }
    }
    writer.wait(keeper.frontier_mut())?;
    writer.end()?;
    let nanoseconds = |time: Duration, count: u64| time.as_nanos() as f64 / count.max(1) as f64;
    let counts = argiope_core::Frontier::counts(keeper.frontier());
    Ok(json!({
        "pages": fetched, "offered": web.found, "known": counts.known,
        "finish_ns_per_page": nanoseconds(finish, fetched),
        "next_ns_per_page": nanoseconds(next, fetched),
        "commit_ns_per_page": nanoseconds(commit, fetched),
        "ns_per_link": nanoseconds(finish + commit, web.found),
        "pages_per_second": 1e9 / nanoseconds(finish + next + commit, fetched),
    }))
}

fn host_name(host: u64) -> String {
    format!("www.host-{host}.example")
}

/// The pages of all hosts.
struct Web {
    /// The key of the fingerprints.
    key: u64,
    /// Links per page.
    links: u64,
    /// One of this number of links is new.
    one_of: u64,
    /// How many pages of each host are known.
    known_pages: [u64; HOSTS as usize],
    /// The number of links of all pages.
    found: u64,
}

impl Web {
    /// The result of a job: a page with links.
    fn visit(&mut self, job: Job, now: Time) -> Visit {
        let digits: String = job.link.url.host().chars().filter(char::is_ascii_digit).collect();
        let own_host: u64 = digits.parse().unwrap_or(0);
        let redirects = 10;
        let mut list = FollowList::new(self.key, job.link.depth + 1, redirects);
        for number in 0..self.links {
            self.found += 1;
            let host = if number % 10 == 9 { self.found * 7 % HOSTS } else { own_host };
            let known = &mut self.known_pages[host as usize];
            // A known page is chosen by multiplying with a large odd number.
            let page = if self.found.is_multiple_of(self.one_of) {
                *known += 1;
                *known - 1
            } else {
                self.found.wrapping_mul(0x9E37_79B9_7F4A_7C15) % *known
            };
            let url = format!("http://{}/section-{}/page-{page}.html", host_name(host), page % 100);
            if let Some(url) = UrlRef::from_normal(&url) {
                list.push(url, LinkKind::Anchor);
            }
        }
        list.shrink();
        let mut visit = Visit::requested(job, Outcome::Ok, now);
        visit.for_keeper.set_found(list);
        (visit.facts.status, visit.facts.bytes_wire) = (Some(200), 20_000);
        visit
    }
}
