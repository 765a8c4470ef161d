//! A crawl that is killed repeatedly at random moments records every page exactly once, on every engine.
//!
//! The site is generated from a plan, so every expected record is known. The server counts every request. With
//! `ARGIOPE_LONG=1` there are five hundred kills.

mod durable_kit;

use argiope_practice::GraphPlan;
use durable_kit::{CrawlFixture, GraphWeb, SeededRng, TIMEOUT, is_long, signal, wait};
use rustix::process::Signal;

/// Kills a crawl `kills` times, lets it finish, and checks everything.
fn kill_and_resume(engine: &str, kills: u64, seed: u64) {
    let hosts = 5;
    // Enough pages for a crawl that does not finish before the last kill.
    let pages = u32::try_from(kills * 24).expect("few kills");
    let plan = GraphPlan {
        seed,
        hosts,
        pages,
        links: 8,
        cross: 150,
        missing: 40,
        redirects: 60,
        latency_us: (1_000, 30_000),
        ..GraphPlan::default()
    };
    let practice = GraphWeb::serve(plan);
    let fixture = CrawlFixture::new(&practice.roots, &["--engine", engine]);
    let mut rng = SeededRng::new(seed);
    let mut killed = 0;
    let mut is_finished = false;
    while killed < kills {
        // The time of a kill is counted in requests, so that a fast machine does not finish the crawl before enough
        // kills. One kill in five comes before the first request; a few random milliseconds are added.
        let target = practice.web.requests() + rng.below(120).saturating_sub(24);
        let mut crawl = fixture.spawn(&[]);
        practice.wait_for(target, &mut crawl);
        rng.pause(15);
        if let Some(status) = crawl.try_wait().expect("the state of the process can be read") {
            assert!(status.success(), "after {killed} kills: {status}");
            is_finished = true;
            break;
        }
        crawl.kill().expect("the process is killed");
        wait(&mut crawl);
        killed += 1;
    }
    assert!(killed > kills / 2, "only {killed} kills before the crawl finished: the site is too small");

    let before = practice.web.requests();
    let mut crawl = fixture.spawn(&[]);
    assert!(is_finished || practice.web.wait_requests(before + 1, TIMEOUT), "the crawl is resumed without a request");
    assert!(wait(&mut crawl).success());
    let records = fixture.records();
    practice.check(&records);
    // A kill may hit a page that is being processed. It is a suspect then, but it is not the cause of the deaths.
    assert!(records.iter().all(|record| record["error"]["kind"] != "internal"));
    let most_requested = practice.requests().into_iter().max_by_key(|(_, count)| *count).expect("pages were requested");
    assert!(
        most_requested.1 <= 1 + killed,
        "{} was requested {} times in {killed} kills",
        most_requested.0,
        most_requested.1
    );
    // Another run finds the crawl finished and adds nothing.
    let (records, requests) = (fixture.records().len(), practice.web.requests());
    fixture.succeed(&[]);
    assert_eq!((fixture.records().len(), practice.web.requests()), (records, requests));
}

/// The number of kills: `short`, or more in a long test.
fn kills(short: u64) -> u64 {
    if is_long() { 500 } else { short }
}

#[test]
fn tokio_survives_random_kills() {
    kill_and_resume("tokio", kills(20), 1);
}

#[test]
fn coroutines_survive_random_kills() {
    kill_and_resume("coroutines", kills(5), 2);
}

#[test]
fn callbacks_survive_random_kills() {
    kill_and_resume("callbacks", kills(5), 3);
}

#[test]
fn threads_survive_random_kills() {
    kill_and_resume("threads", kills(5), 4);
}

/// In a module, so that `./test` can skip it on a system without io_uring.
mod uring {
    #[test]
    fn survives_random_kills() {
        super::kill_and_resume("uring", super::kills(5), 5);
    }
}

/// One signal drains the crawl, two end it at once; in both cases the same command resumes.
#[test]
fn a_crawl_that_is_interrupted_at_random_moments_loses_no_page() {
    let practice = GraphWeb::serve(GraphPlan {
        seed: 9,
        hosts: 3,
        pages: 150,
        latency_us: (5_000, 60_000),
        ..GraphPlan::default()
    });
    let fixture = CrawlFixture::new(&practice.roots, &["--per-host", "3"]);
    let mut rng = SeededRng::new(9);
    let mut interrupted = 0;
    for run in 0..if is_long() { 60 } else { 8 } {
        let (kind, code) = if run % 2 == 0 { (Signal::INT, 130) } else { (Signal::TERM, 143) };
        let mut crawl = fixture.spawn(&[]);
        // Wait until the signal handler is installed: before that a signal kills the process.
        practice.wait_for(practice.web.requests() + 1 + rng.below(30), &mut crawl);
        signal(&crawl, kind);
        // Half of the runs, with both kinds of signals, get a second signal.
        if run % 4 >= 2 {
            rng.pause(20);
            signal(&crawl, kind);
        }
        // Requests in flight take at most 60 ms. `wait` fails if the crawl does not end.
        let status = wait(&mut crawl);
        if status.success() {
            break;
        }
        assert_eq!(status.code(), Some(code), "run {run}");
        interrupted += 1;
    }
    assert!(interrupted >= 4, "{interrupted}");
    fixture.succeed(&[]);
    practice.check(&fixture.records());
}
