//! A crawl that is killed repeatedly at random moments loses and repeats nothing, on every engine.
//!
//! The site is a pure function of its plan, so an oracle knows every record; the server counts every request. The short
//! form always runs; with `ARGIOPE_LONG=1` there are five hundred kills.

mod durable_kit;

use std::time::{Duration, Instant};

use argiope_practice::GraphPlan;
use durable_kit::{Bench, Dice, PATIENCE, Practice, is_long, signal, wait};
use rustix::process::Signal;

/// Kills a crawl `kills` times, lets it finish, and checks everything.
fn kill_and_go_on(engine: &str, kills: u64, seed: u64) {
    let hosts = 5;
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
    let practice = Practice::serve(plan);
    let bench = Bench::new(&practice.roots, &["--engine", engine]);
    let mut dice = Dice::new(seed);
    let mut killed = 0;
    while killed < kills {
        // The time of a kill is counted in requests, so that a fast machine does not finish the crawl before enough
        // kills. One kill in five comes before the first request; a few random milliseconds are added.
        let target = practice.web.requests() + dice.roll(120).saturating_sub(24);
        let mut crawl = bench.spawn(&[]);
        practice.wait_for(target, &mut crawl);
        dice.pause(15);
        if let Some(status) = crawl.try_wait().expect("it can be waited for") {
            assert!(status.success(), "after {killed} kills: {status}");
            break;
        }
        crawl.kill().expect("it is killed");
        wait(&mut crawl);
        killed += 1;
    }
    assert!(killed > kills / 2, "only {killed} kills before the crawl finished: the site is too small");

    let before = practice.web.requests();
    let begin = Instant::now();
    let mut crawl = bench.spawn(&[]);
    if practice.web.wait_requests(before + 1, Duration::from_secs(5)) {
        // The goal is well under a second; the bound allows for a busy machine.
        assert!(begin.elapsed() < Duration::from_secs(5), "back at work after {:?}", begin.elapsed());
    }
    assert!(wait(&mut crawl).success());
    practice.check(&bench.records());
    let most = practice.requests().into_iter().max_by_key(|(_, count)| *count).expect("pages were asked for");
    assert!(most.1 <= 1 + killed, "{} was asked for {} times in {killed} kills", most.0, most.1);
    // Another run finds the crawl finished and adds nothing.
    let (records, requests) = (bench.records().len(), practice.web.requests());
    bench.succeed(&[]);
    assert_eq!((bench.records().len(), practice.web.requests()), (records, requests));
}

fn kills(short: u64) -> u64 {
    if is_long() { 500 } else { short }
}

#[test]
fn tokio_survives_random_kills() {
    kill_and_go_on("tokio", kills(20), 1);
}

#[test]
fn coroutines_survive_random_kills() {
    kill_and_go_on("coroutines", kills(5), 2);
}

#[test]
fn callbacks_survive_random_kills() {
    kill_and_go_on("callbacks", kills(5), 3);
}

#[test]
fn threads_survive_random_kills() {
    kill_and_go_on("threads", kills(5), 4);
}

mod uring {
    #[test]
    fn survives_random_kills() {
        super::kill_and_go_on("uring", super::kills(5), 5);
    }
}

/// One signal drains the crawl, two end it at once; in both cases the same command resumes.
#[test]
fn signals_at_random_moments_lose_nothing() {
    let practice = Practice::serve(GraphPlan {
        seed: 9,
        hosts: 3,
        pages: 150,
        latency_us: (5_000, 60_000),
        ..GraphPlan::default()
    });
    let bench = Bench::new(&practice.roots, &["--per-host", "3"]);
    let mut dice = Dice::new(9);
    let mut interrupted = 0;
    for round in 0..if is_long() { 60 } else { 8 } {
        let (first, code) = if round % 2 == 0 { (Signal::INT, 130) } else { (Signal::TERM, 143) };
        let mut crawl = bench.spawn(&[]);
        // Wait until the signal handler is installed: before that a signal kills the process.
        practice.wait_for(practice.web.requests() + 1 + dice.roll(30), &mut crawl);
        signal(&crawl, first);
        let begin = Instant::now();
        if round % 4 >= 2 {
            dice.pause(20);
            signal(&crawl, first);
        }
        let status = wait(&mut crawl);
        // Requests in flight take at most 60 ms.
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        if status.success() {
            break;
        }
        assert_eq!(status.code(), Some(code), "round {round}");
        interrupted += 1;
    }
    assert!(interrupted >= 4, "{interrupted}");
    let begin = Instant::now();
    bench.succeed(&[]);
    assert!(begin.elapsed() < PATIENCE);
    practice.check(&bench.records());
}
