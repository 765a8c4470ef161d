//! The keeper and the file of marks: a suspect of an earlier run waits to be alone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::job::{Job, PageCookies, PagePart, PartAccess};
use argiope_core::base::link::Link;
use argiope_core::base::time::WallClock;
use argiope_core::crawl::marks::{MarkStore, MarkedPage};
use argiope_core::crawl::rules::{Config, Pace, RobotsPolicy};
use argiope_core::crawl::schedule::keeper::{End, Keeper, Next};
use argiope_core::crawl::visit::Visit;
use argiope_core::{Frontier, LaneId, Outcome, Time, Url};
use argiope_store::MemoryFrontier;
use argiope_store::disk::MarkFile;

const FINGERPRINT_KEY: u64 = 1;
const SUSPECT: &str = "http://h.example/suspect";
const ROOTS: [&str; 3] = ["http://h.example/first", SUSPECT, "http://h.example/last"];

fn marks(folder: &Path) -> MarkFile {
    MarkFile::open(folder, FINGERPRINT_KEY).expect("a file")
}

fn suspect() -> MarkedPage {
    let link = Link::root(Url::parse(SUSPECT).expect("a URL"), 0);
    MarkedPage { fingerprint: link.fingerprint(FINGERPRINT_KEY), lane: LaneId(7) }
}

/// A crawl in memory that finds the suspect only later, because its frontier is new.
fn keeper(folder: &Path) -> (Keeper<MemoryFrontier>, Arc<MarkFile>) {
    // The run ends before the mark is removed.
    marks(folder).begin(suspect()).expect("a place");
    let store = Arc::new(marks(folder));
    let config = Config {
        roots: ROOTS.map(str::to_owned).to_vec(),
        robots: RobotsPolicy::Ignore,
        no_sitemap: true,
        allow_private: true,
        per_host: Some(4),
        pace: Pace::Full,
        ..Config::default()
    };
    let rules = config.compile(FINGERPRINT_KEY).expect("the settings are valid").with_marks(store.clone());
    let mut keeper = Keeper::new(MemoryFrontier::new(FINGERPRINT_KEY), Arc::new(rules), WallClock { start: 0 });
    keeper.begin(Time::ZERO).expect("the crawl begins");
    (keeper, store)
}

/// The jobs that are handed out now, and why the crawl ended.
fn jobs(keeper: &mut Keeper<MemoryFrontier>) -> (Vec<Job>, Option<End>) {
    let mut jobs = Vec::new();
    loop {
        match keeper.next(Time::ZERO).expect("the frontier works") {
            Next::Resolve(lane, _) => {
                keeper.resolved(lane, Ok((vec![[203, 0, 113, 1].into()], Duration::from_secs(9_999))), Time::ZERO);
            }
            Next::Fetch(job) => jobs.push(job),
            Next::Wait(_) => return (jobs, None),
            Next::Done(end) => return (jobs, Some(end)),
        }
    }
}

/// Ends the only job; returns its path.
fn finish(keeper: &mut Keeper<MemoryFrontier>, mut jobs: Vec<Job>) -> String {
    let job = jobs.pop().expect("a job");
    assert!(jobs.is_empty(), "one job at a time");
    let path = job.link.url.path().to_owned();
    keeper.finished(Box::new(Visit::requested(job, Outcome::Ok, Time::ZERO)), Time::ZERO).expect("the frontier works");
    path
}

#[test]
fn a_suspect_waits_for_the_end_of_other_requests_and_delays_the_next_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut keeper, _) = keeper(folder.path());
    for expected in ["/first", "/suspect", "/last"] {
        let (handed_out, end) = jobs(&mut keeper);
        assert_eq!(end, None);
        assert_eq!(finish(&mut keeper, handed_out), expected);
    }
    assert_eq!(jobs(&mut keeper).1, Some(End::Finished));
}

#[test]
fn a_crawl_that_stops_while_a_suspect_waits_ends_and_leaves_it_queued() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut keeper, _) = keeper(folder.path());
    let (handed_out, end) = jobs(&mut keeper);
    assert_eq!((handed_out.len(), end), (1, None), "the suspect waits for the end of the first request");
    keeper.stop(End::Interrupted);
    assert_eq!(jobs(&mut keeper).1, None, "the first request is in flight");
    finish(&mut keeper, handed_out);
    let (handed_out, end) = jobs(&mut keeper);
    assert_eq!((handed_out.len(), end), (0, Some(End::Interrupted)));
    let counts = keeper.frontier().counts();
    assert_eq!((counts.settled, counts.queued, counts.leased), (1, 2, 0), "the suspect is queued again");
}

#[test]
fn a_suspect_that_waits_does_not_start_while_the_crawl_is_paused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut keeper, _) = keeper(folder.path());
    let first = jobs(&mut keeper).0;
    keeper.bench_mut().set_paused(true);
    finish(&mut keeper, first);
    assert_eq!(jobs(&mut keeper).0.len(), 0);
    keeper.bench_mut().set_paused(false);
    let suspect = jobs(&mut keeper).0;
    assert_eq!(finish(&mut keeper, suspect), "/suspect");
}

#[test]
fn a_suspect_is_alone_until_its_rendered_document_is_examined() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut keeper, store) = keeper(folder.path());
    let first = jobs(&mut keeper).0;
    finish(&mut keeper, first);
    let mut handed_out = jobs(&mut keeper).0;
    let job = handed_out.pop().expect("the suspect");
    assert_eq!((job.link.url.as_str(), handed_out.len()), (SUSPECT, 0));
    // The page goes on to the browser, which requests a part of it.
    let visit = Box::new(Visit::requested(job, Outcome::Ok, Time::ZERO));
    let visit = keeper.received(visit, Time::ZERO).expect("the frontier works").expect("it is not tried again");
    let mut rendered = None;
    assert!(keeper.postpone(visit, |visit| rendered.replace(visit)).is_none());
    assert_eq!(jobs(&mut keeper).0.len(), 0, "the other page waits");
    let (access, cookies) = (PartAccess::SameOrigin, PageCookies::default());
    let part = PagePart { tab: 1, request: 1, kind: "script", access, cookies };
    let script = Link::root(Url::parse("http://h.example/script").expect("a URL"), 0);
    keeper.ask_part(script, part, Time::ZERO).expect("the frontier works");
    let parts = jobs(&mut keeper).0;
    assert_eq!(finish(&mut keeper, parts), "/script");
    assert_eq!(jobs(&mut keeper).0.len(), 0, "the other page waits");
    // The process dies while the rendered document is examined.
    keeper.received(rendered.expect("it is being rendered"), Time::ZERO).expect("the frontier works");
    store.begin(suspect()).expect("a place");
    let suspects = marks(folder.path()).suspects();
    assert_eq!(suspects.iter().map(|suspect| suspect.deaths).collect::<Vec<_>>(), [1]);
}
