//! Tests of how a lane reacts to its host.

use super::*;
use crate::base::job::{Job, LaneId};
use crate::base::outcome::ErrorKind;
use crate::crawl::rules::{Config, Pace, Span};
use crate::crawl::wait::WidthReason;

const MS: Duration = Duration::from_millis(1);

fn lane(pace: Pace, edit: impl FnOnce(&mut Config)) -> Lane {
    let mut config = Config { roots: vec!["http://h.example/".into()], pace, ..Config::default() };
    edit(&mut config);
    Lane::new("h.example".into(), &config.compile(0).expect("the settings are valid"))
}

fn at(millis: u64) -> Time {
    Time::ZERO + MS * u32::try_from(millis).expect("a small number")
}

const RETRY_WAIT: Duration = Duration::from_secs(1);

fn answer(millis: u32, local_wait: u32) -> LoadSignal {
    LoadSignal::Answer { first: MS * millis, whole: MS * millis, local_wait: MS * local_wait, kind: Some(1) }
}

fn quick() -> LoadSignal {
    answer(10, 1)
}

fn slow() -> LoadSignal {
    answer(5_000, 1)
}

/// Ends a request that started at `started`, when all slots were in use.
fn end(pace: &mut LanePace, signal: LoadSignal, started: Time, now: Time) {
    let in_flight = u16::try_from(pace.width()).expect("a small number");
    pace.ended(signal, Flight { started, in_flight }, RETRY_WAIT, now);
}

#[test]
fn a_steady_window_opens_to_its_limit_with_slow_and_fast_pages() {
    let mut pace = lane(Pace::Steady, |_| {}).pace;
    assert_eq!(pace.width(), 2);
    for (moment, signal) in [quick(), slow(), slow(), quick()].into_iter().enumerate() {
        end(&mut pace, signal, at(moment as u64), at(moment as u64 + 10));
    }
    assert_eq!((pace.width(), pace.width_reason()), (6, WidthReason::Limit));
}

#[test]
fn responses_without_a_kind_do_not_open_the_window() {
    let mut pace = lane(Pace::Steady, |_| {}).pace;
    for moment in 0..100 {
        let signal = LoadSignal::Answer { first: MS, whole: MS, local_wait: Duration::ZERO, kind: None };
        end(&mut pace, signal, at(moment), at(moment + 1));
    }
    assert_eq!(pace.width(), 2);
}

#[test]
fn a_refused_width_is_avoided_and_tried_again_later() {
    let mut pace = lane(Pace::Steady, |_| {}).pace;
    for moment in 0..4 {
        end(&mut pace, quick(), at(moment), at(moment + 10));
    }
    assert_eq!(pace.width(), 6);
    pace.ended(LoadSignal::Overload(None), Flight { started: at(100), in_flight: 5 }, RETRY_WAIT, at(110));
    pace.ended(LoadSignal::Overload(None), Flight { started: at(100), in_flight: 6 }, RETRY_WAIT, at(110));
    assert_eq!((pace.width(), pace.width_reason()), (4, WidthReason::Refused));
    assert!(pace.rate_cap().is_some());
    for moment in 0..200 {
        end(&mut pace, quick(), at(2_000 + moment * 30), at(2_010 + moment * 30));
    }
    assert_eq!(pace.width(), 4, "not within ten seconds");
    for moment in 0..200 {
        end(&mut pace, quick(), at(11_000 + moment * 30), at(11_010 + moment * 30));
    }
    assert_eq!(pace.width(), 5);
}

#[test]
fn pages_of_one_template_are_of_one_kind() {
    assert_eq!(page_kind("/item/17"), page_kind("/item/18"));
    assert_eq!(page_kind("/2024/05/item-1.html"), page_kind("/2023/11/other.html"));
    assert_ne!(page_kind("/item/17"), page_kind("/static/17"));
    assert_ne!(page_kind("/item/17"), page_kind("/item/17?page=2"));
    assert_ne!(page_kind("/a/x.css"), page_kind("/a/x.html"));
}

#[test]
fn the_local_limit_shrinks_when_responses_wait_here() {
    // Ends `count` requests. The host takes `host_millis`; then the response waits here for `waited_millis`.
    let answers = |pace: &mut LanePace, count: u64, host_millis: u32, waited_millis: u32| {
        for moment in 0..count {
            end(pace, answer(host_millis, waited_millis), at(moment), at(moment));
        }
    };
    let mut pace = lane(Pace::Steady, |_| {}).pace;
    // While the machine keeps up, only the host limits the width.
    answers(&mut pace, 96, 1, 0);
    assert_eq!(pace.width(), 6);
    let spacing = pace.spacing();
    // A few responses that waited long change nothing; eight of them remove one connection.
    answers(&mut pace, 7, 1, 2);
    assert_eq!(pace.width(), 6);
    answers(&mut pace, 9, 1, 2);
    assert_eq!(pace.width(), 4);
    answers(&mut pace, 1_000, 1, 2);
    assert_eq!((pace.width(), pace.spacing()), (1, spacing), "one connection is left, and the spacing is as before");
    // No change while the machine takes about as long as the host; the full width again when it has time.
    answers(&mut pace, 1_000, 3, 2);
    assert_eq!(pace.width(), 1);
    answers(&mut pace, 16, 10, 2);
    assert_eq!(pace.width(), 3);
    answers(&mut pace, 100, 10, 2);
    assert_eq!(pace.width(), 6);

    // A slower host keeps all its connections.
    let mut slow = lane(Pace::Steady, |_| {}).pace;
    answers(&mut slow, 1_000, 10, 2);
    assert_eq!(slow.width(), 6);
    // `--pace full` ignores the local limit.
    let mut full = lane(Pace::Full, |config| config.per_host = Some(8)).pace;
    answers(&mut full, 1_000, 1, 5);
    assert_eq!(full.width(), 8);
}

#[test]
fn the_count_of_responses_does_not_overflow() {
    let mut pace = lane(Pace::Full, |config| config.per_host = Some(8)).pace;
    for moment in 0..200_000 {
        end(&mut pace, quick(), at(moment), at(moment));
    }
    assert_eq!(pace.width(), 8);
}

#[test]
fn a_full_window_grows_again_after_failures() {
    let mut pace = lane(Pace::Full, |config| config.per_host = Some(8)).pace;
    assert_eq!(pace.width(), 8);
    for _ in 0..8 {
        end(&mut pace, LoadSignal::NoResponse, at(0), at(10));
    }
    assert_eq!(pace.width(), 4, "eight concurrent failures count as one");
    for moment in 0..40 {
        end(&mut pace, slow(), at(moment + 20), at(moment + 30));
    }
    assert_eq!(pace.width(), 8);
}

#[test]
fn the_gentle_pause_is_five_response_times_and_at_least_a_second() {
    let mut pace = lane(Pace::Gentle, |_| {}).pace;
    pace.started(at(0));
    end(&mut pace, quick(), at(0), at(10));
    assert_eq!((pace.width(), pace.due()), (1, at(1_010)));
    pace.started(at(2_000));
    end(&mut pace, slow(), at(2_000), at(7_000));
    assert_eq!(pace.due(), at(32_000));
    end(&mut pace, LoadSignal::NoResponse, at(40_000), at(40_000));
    assert_eq!(pace.due(), at(41_000));
}

#[test]
fn delay_is_from_start_to_start() {
    let mut pace = lane(Pace::Steady, |config| config.delay = Span::from_millis(500)).pace;
    assert_eq!(pace.due(), Time::ZERO);
    pace.started(at(100));
    assert_eq!(pace.due(), at(600));
    end(&mut pace, quick(), at(100), at(300));
    assert_eq!(pace.due(), at(600));
}

#[test]
fn crawl_delay_allows_one_connection_and_counts_from_the_robots_txt() {
    let mut pace = lane(Pace::Full, |_| {}).pace;
    pace.started(at(100));
    end(&mut pace, quick(), at(100), at(110));
    assert!(pace.width() > 1);
    pace.obey_crawl_delay(Duration::ZERO);
    assert!(!pace.has_crawl_delay());
    pace.obey_crawl_delay(MS * 2_000);
    assert_eq!((pace.width(), pace.due(), pace.has_crawl_delay()), (1, at(2_100), true));
    pace.obey_crawl_delay(MS * 1_000);
    assert_eq!(pace.due(), at(2_100), "another origin of the host has a shorter Crawl-delay");
}

#[test]
fn retry_after_is_obeyed_and_overload_without_it_backs_off_twice_as_long_each_time() {
    let mut pace = lane(Pace::Full, |_| {}).pace;
    end(&mut pace, LoadSignal::Overload(Some(MS * 90_000)), at(0), at(10));
    assert_eq!((pace.due(), pace.backs_off_until()), (at(90_010), at(90_010)));
    let mut pace = lane(Pace::Full, |_| {}).pace;
    end(&mut pace, LoadSignal::Overload(Some(Duration::ZERO)), at(0), at(10));
    assert_eq!(pace.due(), at(1_010), "a Retry-After of zero still backs off");
    end(&mut pace, LoadSignal::Overload(None), at(2_000), at(2_000));
    assert_eq!(pace.due(), at(4_000));
    end(&mut pace, LoadSignal::Overload(None), at(5_000), at(5_000));
    assert_eq!(pace.due(), at(9_000));
    for moment in 6..60 {
        end(&mut pace, LoadSignal::Overload(None), at(moment * 1_000), at(moment * 1_000));
    }
    assert_eq!(pace.due(), at(59_000) + Duration::from_secs(60));
}

#[test]
fn repeated_failures_back_off_and_then_give_up_the_host() {
    let mut pace = lane(Pace::Steady, |_| {}).pace;
    for moment in 0..3 {
        end(&mut pace, LoadSignal::NoResponse, at(moment), at(moment));
    }
    assert_eq!(pace.backs_off_until(), Time::ZERO);
    end(&mut pace, LoadSignal::NoResponse, at(3), at(3));
    assert_eq!(pace.backs_off_until(), at(8_003));
    for moment in 4..9 {
        end(&mut pace, LoadSignal::NoResponse, at(moment), at(moment));
    }
    assert!(!pace.is_given_up());
    end(&mut pace, LoadSignal::NoResponse, at(9), at(9));
    assert!(pace.is_given_up());
    end(&mut pace, LoadSignal::Overload(None), at(10), at(10));
    assert!(!pace.is_given_up(), "a host that refuses requests is reachable");
}

#[test]
fn huge_times_do_not_overflow() {
    let mut pace = lane(Pace::Gentle, |_| {}).pace;
    let now = Time::from_micros(u64::MAX - 5);
    pace.started(now);
    let endless =
        LoadSignal::Answer { first: Duration::MAX, whole: Duration::MAX, local_wait: Duration::MAX, kind: Some(1) };
    for signal in [
        endless,
        LoadSignal::NoResponse,
        LoadSignal::Overload(None),
        LoadSignal::Overload(Some(Duration::MAX)),
        endless,
    ] {
        end(&mut pace, signal, now, now);
    }
    assert_eq!(pace.due(), Time::NEVER);
}

#[test]
fn the_lowest_free_slot_is_taken_first_and_slots_are_freed_once() {
    let mut lane = lane(Pace::Full, |_| {});
    let ips: Arc<[IpAddr]> = Arc::from(["192.0.2.1".parse().expect("an address")]);
    let url = Url::parse("http://h.example/").expect("a URL");
    let take = |lane: &mut Lane, moment| lane.take_slot(url.clone(), Arc::clone(&ips), at(moment));
    let slots: Vec<u16> = (0..4).map(|moment| take(&mut lane, moment)).collect();
    assert_eq!(slots, [0, 1, 2, 3]);
    for slot in [2, 1] {
        let taken = lane.free_slot(slot).expect("it was taken");
        assert_eq!((taken.addresses, taken.flight.started), (Arc::clone(&ips), at(u64::from(slot))));
    }
    assert!(lane.free_slot(1).is_none() && lane.free_slot(99).is_none());
    assert_eq!(lane.in_flight(), 2);
    assert_eq!([take(&mut lane, 9), take(&mut lane, 9), take(&mut lane, 9)], [1, 2, 4]);
}

#[test]
fn the_old_robots_txt_is_kept_while_it_is_fetched_again() {
    let mut lane = lane(Pace::Full, |_| {});
    let origin = crate::Url::parse("https://h.example/").expect("a URL").origin();
    let rules = Arc::new(Robots::parse(b"User-agent: *\nDisallow: /", "argiope"));
    lane.ask_robots(&origin);
    assert!(matches!(lane.robots_of(&origin), Some(RobotsState::Requested { old: None })));
    lane.set_robots(&origin, RobotsState::Rules { rules, until: at(1), evictable_from: at(0) });
    lane.ask_robots(&origin);
    assert!(matches!(lane.robots_of(&origin), Some(RobotsState::Requested { old: Some(_) })));
    assert_eq!(lane.robots.len(), 1);
}

#[test]
fn a_delay_counts_from_the_moment_of_sending() {
    let mut pace = lane(Pace::Full, |config| config.delay = Span(MS * 100)).pace;
    pace.started(at(0));
    pace.await_send(0);
    assert!(pace.due().is_never(), "the connection is not open yet");
    pace.sent(1, None);
    assert!(pace.due().is_never(), "another request ended");
    pace.sent(0, Some(at(300)));
    assert_eq!(pace.due(), at(400));
    // A request that ends without being sent counts from its start.
    pace.started(at(400));
    pace.await_send(2);
    pace.sent(2, None);
    assert_eq!(pace.due(), at(500));
}

/// A visit whose response used this HTTP version.
fn visit_over(url: &str, http: LaneHttp, streams: Option<u32>) -> Visit {
    let link = Link::root(Url::parse(url).expect("a URL"), 1);
    let job = Job { lane: LaneId(1), http, ..Job::detached(link, Purpose::Page, []) };
    let mut visit = Visit::failed(job, Failure::new(ErrorKind::Reset, "reset"), Time::ZERO, Time::ZERO);
    (visit.facts.status, visit.for_keeper.http, visit.for_keeper.streams) = (Some(200), Some(http), streams);
    visit
}

#[test]
fn http1_required_by_one_origin_does_not_apply_to_others_of_its_host() {
    let config = Config { roots: vec!["https://h.example/".into()], ..Config::default() };
    let rules = config.compile(0).expect("the settings are valid");
    let mut lane = Lane::new("h.example".into(), &rules);
    let url = |url: &str| Url::parse(url).expect("a URL");
    let (one, other) = (url("https://h.example/"), url("https://h.example:8443/"));
    lane.update_http(&visit_over(one.as_str(), LaneHttp::Multiplexed, Some(1)));
    assert_eq!((lane.http_for(&one, &rules), lane.max_streams), (LaneHttp::Multiplexed, 1));
    lane.update_http(&visit_over(one.as_str(), LaneHttp::Http1Only, None));
    assert_eq!((lane.http_for(&one, &rules), lane.max_streams), (LaneHttp::Http1Only, u32::MAX));
    assert_eq!(lane.http_for(&other, &rules), LaneHttp::Unknown);
    lane.update_http(&visit_over(other.as_str(), LaneHttp::Multiplexed, Some(100)));
    assert_eq!(lane.http_for(&other, &rules), LaneHttp::Multiplexed);
    // A response over HTTP/2 that was in flight does not undo this.
    lane.update_http(&visit_over(one.as_str(), LaneHttp::Multiplexed, Some(7)));
    assert_eq!((lane.http_for(&one, &rules), lane.max_streams), (LaneHttp::Http1Only, 100));
    assert_eq!(lane.http_for(&url("http://h.example/"), &rules), LaneHttp::Serial, "clear text");
}

#[test]
fn an_http1_port_beside_an_http2_port_keeps_its_connections() {
    let config = Config { roots: vec!["https://h.example/".into()], ..Config::default() };
    let rules = config.compile(1).expect("settings");
    let mut lane = Lane::new("h.example".into(), &rules);
    let url = |text: &str| Url::parse(text).expect("a URL");
    let (one, other) = (url("https://h.example/"), url("https://h.example:8443/"));
    lane.update_http(&visit_over(one.as_str(), LaneHttp::Multiplexed, Some(100)));
    assert_eq!(lane.http_for(&other, &rules), LaneHttp::Multiplexed, "not known yet");
    lane.update_http(&visit_over(other.as_str(), LaneHttp::Serial, None));
    assert_eq!((lane.http_for(&one, &rules), lane.http_for(&other, &rules)), (LaneHttp::Multiplexed, LaneHttp::Serial));
    lane.update_http(&visit_over(other.as_str(), LaneHttp::Serial, None));
    assert_eq!((lane.http1_ports.len(), lane.max_streams), (1, 100));
    // The origin may switch to HTTP/2, or require HTTP/1.1.
    lane.update_http(&visit_over(other.as_str(), LaneHttp::Multiplexed, Some(50)));
    assert_eq!(lane.http_for(&other, &rules), LaneHttp::Multiplexed);
    lane.update_http(&visit_over(other.as_str(), LaneHttp::Serial, None));
    lane.update_http(&visit_over(other.as_str(), LaneHttp::Http1Only, None));
    assert_eq!((lane.http_for(&other, &rules), lane.http1_ports.len()), (LaneHttp::Http1Only, 1));
}

#[test]
fn a_forwarding_proxy_gets_a_connection_for_each_slot() {
    let mut config = Config { roots: vec!["http://h.example/".into()], ..Config::default() };
    config.http = HttpVersion::Http2;
    let direct = config.compile(1).expect("settings");
    let lane = Lane::new("h.example".into(), &direct);
    let url = |text: &str| Url::parse(text).expect("a URL");
    assert_eq!(lane.http_for(&url("http://h.example/"), &direct), LaneHttp::Unknown, "clear text with prior knowledge");
    config.proxy = Some("http://127.0.0.1:3128".into());
    let proxied = config.compile(1).expect("settings");
    assert_eq!(lane.http_for(&url("http://h.example/"), &proxied), LaneHttp::Serial);
    assert_eq!(lane.http_for(&url("https://h.example/"), &proxied), LaneHttp::Unknown, "through a tunnel");
}
