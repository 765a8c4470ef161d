//! Sessions of a fleet on a real server, without a crawl: what the frontier of one process leaves for the next.

use std::time::{Duration, Instant};

use argiope_core::base::time::WallClock;
use argiope_core::crawl::lease::Lease;
use argiope_core::crawl::schedule::carryover::{LaneNote, unix_millis};
use argiope_core::crawl::schedule::frontier::FrontierNews;
use argiope_core::{Frontier, History, LaneId, Link, LinkRef, Time, Url};
use argiope_fleet::cluster::{
    FleetClient, FleetFrontier, FleetSession, FleetSettings, LeaseTimes, Nodes, QueuedLink, SessionSetup, bucket_of,
};
use argiope_fleet::segments::SegmentStore;
use argiope_testkit::redis_cluster::RedisCluster;

const BUCKETS: u32 = 4;
const KEY: u64 = 7;
/// Ten minutes, in microseconds.
const TEN_MINUTES: i64 = 600_000_000;

fn settings() -> FleetSettings {
    FleetSettings {
        version: String::new(),
        key: KEY,
        round: 1,
        buckets: BUCKETS,
        max_pages: None,
        max_bytes: None,
        rate: None,
        per_ip: None,
        max_pages_per_host: None,
        max_time_ms: None,
        created: 0,
        out: String::new(),
        config: String::new(),
    }
}

/// A process with this wall clock.
fn join(
    cluster: &RedisCluster,
    folder: &std::path::Path,
    owner: &str,
    wall: WallClock,
) -> (FleetSession, FleetFrontier) {
    let client =
        || FleetClient::new(Nodes::open(&cluster.address(), None).expect("the server responds"), "clocks", owner);
    let started = Instant::now();
    let times = LeaseTimes { lease: Duration::from_secs(30), renew_every: Duration::from_secs(10) };
    let setup = SessionSetup {
        clients: [client(), client()],
        settings: settings(),
        generation: String::new(),
        segments: SegmentStore::open(folder),
        times,
        session: 1,
        now: Box::new(move || Time::ZERO + started.elapsed()),
        wall,
        lease: Lease::until(Time::ZERO + times.lease),
        notice: Box::new(|_| ()),
        archive_start: Box::new(|_| Vec::new()),
        default_per_ip: None,
        watcher: Box::new(|_| ()),
    };
    FleetSession::start(setup).expect("the threads start")
}

/// Waits until the frontier has work, and returns its lane.
fn wait_for_work(frontier: &mut FleetFrontier) -> LaneId {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let news = frontier.news(Time::ZERO).expect("the lease holds").events;
        let lane = news.into_iter().find_map(|news| match news {
            FrontierNews::TakenOver(lane) => Some(lane),
            _ => None,
        });
        match lane {
            Some(lane) => return lane,
            None => assert!(Instant::now() < deadline, "no host was leased"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_wait_is_the_same_for_processes_whose_clocks_differ() {
    let cluster = RedisCluster::single();
    let folder = tempfile::tempdir().expect("a folder");
    let mut client = FleetClient::new(Nodes::open(&cluster.address(), None).expect("a server"), "clocks", "roots");
    let link = Link::root(Url::parse("http://h.example/").expect("a URL"), 5);
    let queued = QueuedLink::new(LinkRef::from(&link), KEY);
    client.put(&[(bucket_of("h.example", BUCKETS), vec![queued])]).expect("put");
    let now = 1_800_000_000_000_000;
    // The clock of the first process is ten minutes ahead, and that of the second ten minutes behind.
    let (ahead, behind) = (WallClock { start: now + TEN_MINUTES }, WallClock { start: now - TEN_MINUTES });
    let (session, mut frontier) = join(&cluster, folder.path(), "first", ahead);
    let lane = wait_for_work(&mut frontier);
    assert_eq!(frontier.note(Some(lane)).expect("readable"), None, "the host had no owner");
    let note = LaneNote { rest: Some(unix_millis(ahead, Time::ZERO) + 100_000), ..LaneNote::default() };
    frontier.keep_note(Some(lane), &serde_json::to_vec(&note).expect("JSON")).expect("kept");
    session.close().expect("released");
    let (session, mut frontier) = join(&cluster, folder.path(), "second", behind);
    let lane = wait_for_work(&mut frontier);
    let note = frontier.note(Some(lane)).expect("readable").expect("the first process has left a note");
    let note: LaneNote = serde_json::from_slice(&note).expect("a note");
    let left = note.rest.expect("a wait") - unix_millis(behind, Time::ZERO);
    assert!((50_000..=101_000).contains(&left), "{left} ms of 100,000 are left");
    let asked = unix_millis(behind, Time::ZERO) - note.asked.expect("the first process may have asked");
    assert!((-10_000..50_000).contains(&asked), "the release was {asked} ms ago");
    session.close().expect("released");
}
