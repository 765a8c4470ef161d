//! The frontier without a store: events of the threads, and what it sends them.

use std::sync::mpsc::channel;

use argiope_core::Url;
use argiope_core::crawl::lease::Lease;

use super::super::client::TakenHost;
use super::super::host_note::HostNews;
use super::*;

fn settings(max_bytes: Option<u64>) -> FleetSettings {
    FleetSettings {
        version: String::new(),
        key: 7,
        round: 1,
        buckets: 1,
        max_pages: None,
        max_bytes,
        rate: None,
        per_ip: None,
        max_pages_per_host: None,
        max_time_ms: None,
        created: 0,
        out: String::new(),
        config: String::new(),
    }
}

const WALL: WallClock = WallClock { start: 0 };

fn root() -> Link {
    Link::root(Url::parse("http://h.example/").expect("a URL"), 5)
}

#[test]
fn bytes_of_retried_attempts_count_for_the_byte_limit() {
    let (to_leases, _commands) = channel();
    let lease = Lease::until(Time::NEVER);
    let shared = Shared::new(Box::new(|| Time::ZERO), lease, to_leases, Box::new(|_| ()));
    let mut frontier = FleetFrontier::new(Arc::clone(&shared), &settings(Some(10_000)), WALL);
    let mut news = Vec::new();
    frontier.apply_event(LeaseEvent::Acquired { bucket: 0, epoch: 1 }, &mut news);
    frontier.apply_event(LeaseEvent::MaxReceived(10_000), &mut news);
    frontier.attempt_failed(&root(), 6_000).expect("counted");
    let record = br#"{"url":"http://h.example/","bytes_wire":3000}"#;
    frontier.send_record("h.example", record, RecordParts { is_page: true, ..RecordParts::default() });
    assert_eq!(shared.outgoing().settled.first().map(|record| record.received), Some(9_000));
    assert!(frontier.news(Time::ZERO).expect("news").events.is_empty());
    frontier.attempt_failed(&root(), 1_000).expect("counted");
    assert!(matches!(frontier.news(Time::ZERO).expect("news").events[..], [FrontierNews::Hold(true)]));
}

#[test]
fn lanes_of_released_buckets_are_removed() {
    let (to_leases, commands) = channel();
    let lease = Lease::until(Time::NEVER);
    let shared = Shared::new(Box::new(|| Time::ZERO), lease, to_leases, Box::new(|_| ()));
    let mut frontier = FleetFrontier::new(shared, &settings(None), WALL);
    for epoch in 1..=100 {
        let url = Url::parse("http://h.example/").expect("a URL");
        let links = vec![TakenLink { link: Link::root(url, 5), earlier: None }];
        let host = TakenHost { host: "h.example".into(), left: 0, news: HostNews::default(), links };
        let mut news = Vec::new();
        frontier.apply_event(LeaseEvent::Acquired { bucket: 0, epoch }, &mut news);
        frontier
            .apply_event(LeaseEvent::Taken { bucket: 0, epoch, host, at: Time::ZERO, earlier: Vec::new() }, &mut news);
        let lane = frontier.lane_of("h.example").expect("a lane");
        let link = frontier.take(lane, 1).expect("a link").pop().expect("a link");
        frontier.apply_event(LeaseEvent::Leaving { bucket: 0 }, &mut news);
        // The request in flight may still add to the note about the host.
        assert_eq!(frontier.lane(lane).map(|lane| lane.name), Some("h.example"));
        frontier.give_back(vec![link], ReturnTo::End).expect("it was leased");
        let is_release = |command| matches!(command, LeaseCommand::Release { .. });
        assert!(!commands.try_iter().any(is_release), "a robots.txt may be in flight");
        frontier.left(lane);
        assert!(commands.try_iter().any(|command| matches!(command, LeaseCommand::Release { bucket: 0 })));
        assert_eq!(frontier.lane(lane), None);
        assert!(frontier.lanes.is_empty() && frontier.by_host.is_empty(), "after {epoch} hand-overs");
    }
}

#[test]
fn links_that_are_put_back_can_be_taken_again() {
    let settings = settings(None);
    let (to_leases, commands) = channel();
    let lease = Lease::until(Time::NEVER);
    let shared = Shared::new(Box::new(|| Time::ZERO), lease, to_leases, Box::new(|_| ()));
    let mut frontier = FleetFrontier::new(shared, &settings, WALL);
    let taken = |path: &str| TakenLink {
        link: Link::root(Url::parse(&format!("http://h.example/{path}")).expect("a URL"), 5),
        earlier: None,
    };
    let host =
        TakenHost { host: "h.example".into(), left: 0, news: HostNews::default(), links: vec![taken("a"), taken("b")] };
    let mut news = Vec::new();
    frontier.apply_event(LeaseEvent::Acquired { bucket: 0, epoch: 1 }, &mut news);
    frontier
        .apply_event(LeaseEvent::Taken { bucket: 0, epoch: 1, host, at: Time::ZERO, earlier: Vec::new() }, &mut news);
    let lane = frontier.lane_of("h.example").expect("a lane");
    let links = frontier.take(lane, 2).expect("two links");
    let queued = |frontier: &FleetFrontier| frontier.lane(lane).map_or(0, |lane| lane.queued);
    assert_eq!((links.len(), queued(&frontier)), (2, 0));
    frontier.give_back(links.clone(), ReturnTo::OldPlace).expect("they were leased");
    assert_eq!((queued(&frontier), frontier.ahead), (2, 2));
    assert_eq!(frontier.take(lane, 9).expect("two links"), links);
    // While the bucket is being released, the store queues the link again.
    frontier.apply_event(LeaseEvent::Leaving { bucket: 0 }, &mut news);
    frontier.give_back(links, ReturnTo::OldPlace).expect("they were leased");
    frontier.left(lane);
    assert_eq!((queued(&frontier), frontier.ahead), (0, 0));
    assert!(commands.try_iter().any(|command| matches!(command, LeaseCommand::Release { bucket: 0 })));
}
