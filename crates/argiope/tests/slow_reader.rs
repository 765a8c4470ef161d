//! Backpressure: a slow reader slows the crawl down, and the memory of the crawl stays limited.

use std::process::Command;
use std::time::{Duration, Instant};

use argiope::{Crawl, DeliveredBodies};
use argiope_core::crawl::rules::RobotsPolicy;
use argiope_practice::{PracticeWeb, Response, Site};

const PAGES: usize = 30;
const PAGE_BYTES: u64 = 10 << 20;
const MAX_MEMORY: u64 = 64 << 20;
const PAUSE: Duration = Duration::from_millis(100);
const ROOT: &str = "ARGIOPE_SLOW_READER_ROOT";
const LONG_BODY_ROOT: &str = "ARGIOPE_LONG_BODY_ROOT";
const LONG_BODY_MEMORY: u64 = 256 << 20;

/// The largest memory use of this process so far, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    let kilobytes: u64 = line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number");
    kilobytes << 10
}

/// The child process of the next test: reads pages slowly and prints its peak memory. Returns at once if the test
/// runner calls it.
#[test]
fn reader() {
    let Ok(root) = std::env::var(ROOT) else { return };
    let pages = Crawl::builder(root)
        .robots(RobotsPolicy::Ignore)
        .max_memory(MAX_MEMORY)
        .max_size(2 * PAGE_BYTES)
        .bodies(DeliveredBodies::All)
        .configure(|config| config.per_host = Some(PAGES))
        .start_blocking()
        .expect("it starts");
    let mut bytes = 0;
    for page in pages {
        std::thread::sleep(PAUSE);
        bytes += page.body().len() as u64;
    }
    assert!(bytes > PAGES as u64 * PAGE_BYTES, "{bytes} bytes were read");
    #[allow(clippy::print_stdout)]
    {
        println!("peak {}", peak_memory());
    }
}

#[test]
fn memory_stays_limited_with_a_slow_reader() {
    let paths: Vec<String> = (0..PAGES).map(|number| format!("/{number}")).collect();
    let mut site = Site::http("127.5.1.11:0").expect("a loopback address").page("/", Response::links(&paths));
    for path in &paths {
        site = site.page(path, Response::filled("x", PAGE_BYTES).content_type("application/octet-stream"));
    }
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let program = std::env::current_exe().expect("this program has a path");
    let started = Instant::now();
    let output = Command::new(program).args(["--exact", "reader", "--nocapture"]).env(ROOT, root).output();
    let output = output.expect("this program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(started.elapsed() >= PAUSE * PAGES as u32);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let peak_memory =
        printed.lines().find_map(|line| line.split_once("peak ")?.1.parse::<u64>().ok()).expect("a number");
    // In addition to the limit: the program itself, the page that the reader holds, the one page that may exceed the
    // limit, and buffers that are copied when they grow. On a busy machine several of them are copied at the same time.
    assert!(
        peak_memory < MAX_MEMORY + 11 * PAGE_BYTES,
        "{} MB for {} MB of pages",
        peak_memory >> 20,
        (PAGES as u64 * PAGE_BYTES) >> 20
    );
}

/// The child process of the next test: prints what was kept of the long body, and its peak memory.
#[test]
fn reader_of_a_long_body() {
    let Ok(root) = std::env::var(LONG_BODY_ROOT) else { return };
    let mut pages = Crawl::builder(root)
        .robots(RobotsPolicy::Ignore)
        .max_memory(LONG_BODY_MEMORY)
        .max_size(4 << 30)
        .bodies(DeliveredBodies::All)
        .start_blocking()
        .expect("it starts");
    let page = pages.next().expect("a page");
    assert!(page.is_ok() && page.truncated().is_some(), "{:?}", page.error());
    assert_eq!(page.error().map(|error| error.kind), Some(argiope::ErrorKind::TooLarge));
    assert!(pages.next().is_none());
    pages.close().expect("it ends well");
    #[allow(clippy::print_stdout)]
    {
        println!("kept {}", page.body().len());
        println!("peak {}", peak_memory());
    }
}

#[test]
fn one_body_that_is_longer_than_the_memory_limit_is_cut() {
    let site = Site::http("127.5.1.13:0").expect("a loopback address");
    let site = site.page("/", Response::filled("x", 600 << 20).content_type("application/octet-stream"));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    let output = command.args(["--exact", "reader_of_a_long_body", "--nocapture"]).env(LONG_BODY_ROOT, root).output();
    let output = output.expect("this program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |name: &str| {
        let found = printed.lines().find_map(|line| line.split_once(name)?.1.parse::<u64>().ok());
        found.unwrap_or_else(|| panic!("{name} in {printed}"))
    };
    assert!(number("kept ") > LONG_BODY_MEMORY / 16, "{printed}");
    assert!(number("peak ") < LONG_BODY_MEMORY / 10 * 11 + (16 << 20), "{printed}");
}

/// The reader pauses for longer than the timeout of a fetch, while the memory budget is full. No body may be truncated.
#[test]
fn a_pause_of_the_reader_does_not_truncate_bodies() {
    let paths: Vec<String> = (0..24).map(|number| format!("/{number}")).collect();
    let mut site = Site::http("127.5.1.12:0").expect("a loopback address").page("/", Response::links(&paths));
    for path in &paths {
        site = site.page(path, Response::filled("x", 2 << 20).content_type("application/octet-stream"));
    }
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let mut pages = Crawl::builder(root)
        .robots(RobotsPolicy::Ignore)
        .max_memory(16 << 20)
        .timeout(Duration::from_secs(2))
        .bodies(DeliveredBodies::All)
        .configure(|config| config.per_host = Some(24))
        .start_blocking()
        .expect("it starts");
    pages.next().expect("the root");
    // The pause itself is tested, so there is no event to wait for.
    std::thread::sleep(Duration::from_secs(3));
    let bodies: Vec<usize> = pages.by_ref().map(|page| page.body().len()).collect();
    assert_eq!(bodies, vec![2 << 20; 24]);
    pages.close().expect("it ends well");
}
