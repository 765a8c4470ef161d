//! Sessions of HTTP/2 without sockets. Except in one test, they are in clear text.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::base::job::Purpose;
use crate::base::link::Link;
use crate::base::outcome::{Outcome, Truncated};
use crate::base::url::Url;
use crate::crawl::rules::{Config, RuleValues};
use crate::http::conn::{Limits, TlsSource, Trust};
use crate::http::h2::{frame, hpack};

fn rules(edit: impl FnOnce(&mut RuleValues)) -> Arc<Rules> {
    let config = Config { roots: vec!["http://h/".into()], http: HttpVersion::Http2, ..Config::default() };
    Arc::new(config.compile(1).expect("valid settings").edited(edit))
}

fn job(slot: u16) -> Box<Job> {
    let link = Link::root(Url::parse(&format!("http://h/{slot}")).expect("a valid URL"), 1);
    let job = Job::detached(link, Purpose::Page, [IpAddr::from([127, 0, 0, 1])]);
    Box::new(Job { lane: LaneId(7), slot, http: LaneHttp::Multiplexed, ..job })
}

fn write_all(session: &mut Session) -> Vec<u8> {
    let mut all = Vec::new();
    while let Step::Write(bytes) = session.step() {
        all.extend_from_slice(bytes);
        let count = bytes.len();
        session.wrote(count, Time::ZERO);
    }
    all
}

fn visit(session: &mut Session) -> Box<Visit> {
    match session.finished(Time::ZERO) {
        Some(Completed::Visit(visit)) => visit,
        Some(Completed::Retry(_)) => panic!("expected a visit, not a job to retry"),
        None => panic!("no completed job"),
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text).expect("writing to memory cannot fail");
    encoder.finish().expect("writing to memory cannot fail")
}

/// A session with this many jobs that has received the server's settings. The streams are 1, 3, 5 and so on, for the
/// jobs with the slots 0, 1, 2 and so on.
fn multiplexed(jobs: u16, edit: impl FnOnce(&mut RuleValues)) -> Session {
    multiplexed_with((0..jobs).map(job).collect(), edit)
}

fn multiplexed_with(jobs: Vec<Box<Job>>, edit: impl FnOnce(&mut RuleValues)) -> Session {
    let rules = rules(edit);
    let mut jobs = jobs.into_iter();
    let first = jobs.next().expect("a job");
    let opened = Session::open(first, &rules, Time::ZERO, [127, 0, 0, 1].into(), Time::ZERO);
    let mut session = opened.unwrap_or_else(|visit| panic!("{:?}", visit.facts.error));
    assert!(session.finished(Time::ZERO).is_none());
    for job in jobs {
        assert!(session.free_capacity() > 0);
        assert!(session.accept(job, &rules, Time::ZERO).is_ok());
    }
    let written = write_all(&mut session);
    assert!(written.starts_with(frame::PREFACE));
    feed(&mut session, |out| frame::push_settings(out, &[(frame::setting::MAX_CONCURRENT_STREAMS, 50)]));
    write_all(&mut session);
    session
}

fn feed(session: &mut Session, frames: impl FnOnce(&mut Vec<u8>)) {
    feed_at(session, Time::ZERO, frames);
}

fn feed_at(session: &mut Session, now: Time, frames: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    frames(&mut bytes);
    session.feed(&bytes, now);
}

fn push_head(out: &mut Vec<u8>, stream: u32, fields: &[(&str, &str)]) {
    let mut block = Vec::new();
    for (name, value) in fields {
        hpack::encode(&mut block, name.as_bytes(), value.as_bytes());
    }
    frame::push(out, frame::kind::HEADERS, frame::flag::END_HEADERS, stream, &block);
}

fn push_page(out: &mut Vec<u8>, stream: u32, body: &[u8]) {
    push_head(out, stream, &[(":status", "200"), ("content-type", "text/html")]);
    let mut pieces = body.chunks(frame::MAX_PAYLOAD).peekable();
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_none() { frame::flag::END_STREAM } else { 0 };
        frame::push(out, frame::kind::DATA, flags, stream, piece);
    }
}

/// The payload of GOAWAY: the last stream that is processed, and an error code (0: no error).
fn goaway(last: u32, code: u32) -> Vec<u8> {
    [last.to_be_bytes(), code.to_be_bytes()].concat()
}

#[test]
fn a_handshake_that_fails_ends_its_jobs_and_the_session() {
    let trust = || Trust { insecure: true, ..Trust::default() }.compile(|| Duration::ZERO);
    let rules = rules(|rules| (rules.settings.http, rules.tls) = (HttpVersion::Auto, TlsSource::new(trust)));
    let job = |slot: u16| {
        let mut job = job(slot);
        job.link = Link::root(Url::parse(&format!("https://h/{slot}")).expect("a valid URL"), 1);
        job
    };
    let opened = Session::open(job(0), &rules, Time::ZERO, [127, 0, 0, 1].into(), Time::ZERO);
    let mut session = opened.unwrap_or_else(|visit| panic!("{:?}", visit.facts.error));
    assert!(session.accept(job(1), &rules, Time::ZERO).is_ok());
    session.feed(b"not a TLS record at all", Time::ZERO);
    for _ in 0..2 {
        let failure = visit(&mut session).facts.error.expect("a failure");
        assert_eq!(failure.kind, ErrorKind::Tls, "{}", failure.message);
    }
    assert!(session.finished(Time::ZERO).is_none());
    assert_eq!((session.free_capacity(), session.step()), (0, Step::Done));
}

#[test]
fn several_jobs_share_a_connection() {
    let mut session = multiplexed(3, |_| {});
    assert!(session.free_capacity() > 0 && !session.is_idle());
    feed(&mut session, |out| {
        push_page(out, 5, b"<title>third</title>");
        push_page(out, 1, b"<title>first</title>");
    });
    let mut titles: Vec<_> = [visit(&mut session), visit(&mut session)]
        .into_iter()
        .map(|visit| {
            assert_eq!((visit.facts.http, visit.facts.outcome), (Some("2"), Outcome::Ok));
            assert_eq!((visit.for_keeper.http, visit.for_keeper.streams), (Some(LaneHttp::Multiplexed), Some(50)));
            (visit.for_keeper.slot.map(|(_, slot)| slot), visit.findings.title.as_deref().map(str::to_owned))
        })
        .collect();
    titles.sort();
    assert_eq!(titles, [(Some(0), Some("first".into())), (Some(2), Some("third".into()))]);
    assert!(!session.is_idle());
    feed(&mut session, |out| push_page(out, 3, b"<title>second</title>"));
    assert_eq!(visit(&mut session).findings.title.as_deref(), Some("second"));
    assert!(session.is_idle() && session.deadline() == Time::ZERO + KEEP_ALIVE);
    // Control frames are handled while the session is idle, and it stays open.
    feed(&mut session, |out| frame::push(out, frame::kind::PING, 0, 0, &[0; 8]));
    assert!(!write_all(&mut session).is_empty());
    assert!(session.is_idle());
    session.closed(Time::ZERO);
    assert_eq!((session.free_capacity(), session.step()), (0, Step::Done));
}

#[test]
fn unprocessed_requests_are_retried() {
    let mut session = multiplexed(2, |_| {});
    feed(&mut session, |out| frame::push(out, frame::kind::GOAWAY, 0, 0, &goaway(1, 0)));
    let Some(Completed::Retry(mut job)) = session.finished(Time::ZERO) else { panic!("expected a job to retry") };
    assert_eq!((job.slot, job.unprocessed), (1, 0), "not counted, because the server processes another request");
    assert_eq!(session.free_capacity(), 0);
    feed(&mut session, |out| push_page(out, 1, b"x"));
    assert_eq!(visit(&mut session).facts.outcome, Outcome::Ok, "the other request finishes");
    write_all(&mut session);
    assert_eq!(session.step(), Step::Done);
    // If the server processes no request, the number of retries is limited. A second GOAWAY with a higher number does
    // not change that.
    for unprocessed in 1..=3 {
        let mut session = multiplexed_with(vec![job], |_| {});
        feed(&mut session, |out| {
            frame::push(out, frame::kind::GOAWAY, 0, 0, &goaway(0, 0));
            frame::push(out, frame::kind::GOAWAY, 0, 0, &goaway(7, 0));
        });
        let Some(Completed::Retry(retried)) = session.finished(Time::ZERO) else { panic!("expected a job to retry") };
        assert_eq!(retried.unprocessed, unprocessed);
        job = retried;
    }
    let mut session = multiplexed_with(vec![job], |_| {});
    feed(&mut session, |out| frame::push(out, frame::kind::GOAWAY, 0, 0, &goaway(0, 0)));
    let visit = visit(&mut session);
    assert_eq!(visit.facts.error.map(|failure| failure.kind), Some(ErrorKind::Protocol));
}

#[test]
fn jobs_fall_back_to_http1_unless_http2_is_required() {
    let misdirected = |out: &mut Vec<u8>| push_head(out, 1, &[(":status", "421")]);
    let required = |out: &mut Vec<u8>| frame::push_reset(out, 1, frame::code::HTTP_1_1_REQUIRED);
    for response in [&misdirected as &dyn Fn(&mut Vec<u8>), &required] {
        let mut session = multiplexed(1, |_| {});
        feed(&mut session, response);
        feed(&mut session, |out| frame::push(out, frame::kind::DATA, frame::flag::END_STREAM, 1, b""));
        let visit = visit(&mut session);
        assert_ne!(visit.facts.outcome, Outcome::Ok);
        let mut session = multiplexed(1, |_| {});
        if let State::Http2(streams) = &mut session.0 {
            streams.allow_fallback();
        }
        feed(&mut session, response);
        let Some(Completed::Retry(job)) = session.finished(Time::ZERO) else {
            panic!("expected a job to retry over HTTP/1.1")
        };
        assert_eq!(job.http, LaneHttp::Http1Only);
    }
}

#[test]
fn limits_and_timeouts_are_those_of_http1() {
    // A body that is too large is cut at the limit, and its stream reset.
    let limits = Limits { max_body: 1_000, max_wire: 1_000, ..Limits::default() };
    let mut session = multiplexed(2, |rules| rules.limits = Arc::new(limits));
    feed(&mut session, |out| {
        push_head(out, 1, &[(":status", "200")]);
        frame::push(out, frame::kind::DATA, 0, 1, &[b'x'; 5_000]);
    });
    let cut = visit(&mut session);
    assert_eq!((cut.facts.bytes_body, cut.facts.truncated), (1_000, Some(Truncated::Length)));
    let sent = write_all(&mut session);
    // The start of a frame: the length of the payload in three bytes, then the kind.
    assert!(sent.windows(4).any(|bytes| bytes == [0, 0, 4, frame::kind::RST_STREAM]), "{sent:?}");
    // The other stream has its own timeout, whatever else arrives on the connection.
    let mut now = Time::ZERO;
    let late = loop {
        if let Some(Completed::Visit(visit)) = session.finished(now) {
            break visit;
        }
        now += Duration::from_secs(5);
        feed_at(&mut session, now, |out| frame::push(out, frame::kind::PING, 0, 0, &[0; 8]));
        write_all(&mut session);
        session.expire(now);
        assert!(now < Time::ZERO + Duration::from_secs(60));
    };
    assert_eq!(late.facts.error.map(|failure| failure.kind), Some(ErrorKind::TimeoutFirstByte));
}

#[test]
fn a_paused_stream_does_not_block_others() {
    let page = "<p>0</p>".repeat(1 << 18);
    let packed = gzip(page.as_bytes());
    let mut session = multiplexed(2, |_| {});
    feed(&mut session, |out| {
        push_head(out, 1, &[(":status", "200"), ("content-type", "text/html"), ("content-encoding", "gzip")]);
        frame::push(out, frame::kind::DATA, frame::flag::END_STREAM, 1, &packed);
        push_page(out, 3, b"<title>quick</title>");
    });
    assert_eq!(visit(&mut session).findings.title.as_deref(), Some("quick"), "before the large one");
    let mut slices = 1;
    let large = loop {
        if let Some(Completed::Visit(visit)) = session.finished(Time::ZERO) {
            break visit;
        }
        write_all(&mut session);
        assert_eq!(session.deadline(), Time::ZERO, "it continues at once");
        session.expire(Time::ZERO);
        slices += 1;
        assert!(slices < 1_000);
    };
    assert!(slices > 3);
    assert_eq!((large.facts.bytes_body, large.facts.truncated), (page.len() as u64, None));
}

#[test]
fn bytes_are_counted_per_stream() {
    let mut session = multiplexed(1, |_| {});
    let mut bytes = Vec::new();
    push_page(&mut bytes, 1, &[b'x'; 40_000]);
    session.feed(&bytes, Time::ZERO);
    let visit = visit(&mut session);
    assert_eq!((visit.facts.bytes_wire, visit.facts.bytes_body), (bytes.len() as u64, 40_000));
}

#[test]
fn a_response_to_head_ends_with_its_head() {
    let length = [(":status", "200"), ("content-type", "text/html"), ("content-length", "5000")];
    // The head ends the stream; the head alone, and nothing after it; a body that must not be there.
    for (flags, body) in [(frame::flag::END_STREAM, &b""[..]), (0, b""), (0, b"12345")] {
        let mut session = multiplexed(1, |rules| rules.head_first = true);
        feed(&mut session, |out| {
            let mut block = Vec::new();
            for (name, value) in length {
                hpack::encode(&mut block, name.as_bytes(), value.as_bytes());
            }
            frame::push(out, frame::kind::HEADERS, flags | frame::flag::END_HEADERS, 1, &block);
            if !body.is_empty() {
                frame::push(out, frame::kind::DATA, frame::flag::END_STREAM, 1, body);
            }
        });
        let visit = visit(&mut session);
        assert_eq!((visit.facts.status, visit.facts.truncated), (Some(200), None));
        assert!(visit.facts.error.is_none(), "{:?}", visit.facts.error);
    }
}

#[test]
fn a_body_longer_than_its_content_length_is_truncated() {
    let mut session = multiplexed(1, |_| {});
    feed(&mut session, |out| {
        push_head(out, 1, &[(":status", "200"), ("content-length", "5")]);
        frame::push(out, frame::kind::DATA, frame::flag::END_STREAM, 1, b"1234567890");
    });
    let visit = visit(&mut session);
    assert_eq!((visit.facts.bytes_body, visit.facts.truncated), (5, Some(Truncated::Disconnect)));
    assert_eq!(visit.facts.error.map(|failure| failure.kind), Some(ErrorKind::Protocol));
}

#[test]
fn a_request_that_waits_for_a_stream_does_not_time_out() {
    let mut session = multiplexed_with((0..2).map(job).collect(), |rules| {
        rules.limits = Arc::new(Limits { idle: Duration::from_secs(3), ..Limits::default() });
    });
    feed(&mut session, |out| frame::push_settings(out, &[(frame::setting::MAX_CONCURRENT_STREAMS, 1)]));
    write_all(&mut session);
    let rules = rules(|_| {});
    assert!(session.accept(job(2), &rules, Time::ZERO).is_ok());
    let two_seconds = Time::ZERO + Duration::from_secs(2);
    feed_at(&mut session, two_seconds, |out| push_page(out, 1, b"one"));
    visit(&mut session);
    session.expire(Time::ZERO + Duration::from_secs(4));
    let late = visit(&mut session);
    assert_eq!(late.facts.error.as_ref().map(|error| error.kind), Some(ErrorKind::TimeoutFirstByte));
    assert!(session.finished(Time::ZERO).is_none(), "the third request was not sent yet");
}

#[test]
fn continuous_input_does_not_suspend_deadlines() {
    let mut session = multiplexed(1, |rules| {
        rules.limits = Arc::new(Limits { idle: Duration::from_secs(3), ..Limits::default() });
    });
    for second in 1..10 {
        let now = Time::ZERO + Duration::from_secs(second);
        feed_at(&mut session, now, |out| frame::push(out, frame::kind::PING, 0, 0, &[0; 8]));
        write_all(&mut session);
        if let Some(Completed::Visit(visit)) = session.finished(now) {
            assert_eq!(visit.facts.error.as_ref().map(|error| error.kind), Some(ErrorKind::TimeoutFirstByte));
            // The timeout is 3 s. Continuous input delays its check by up to 2 s.
            assert!((3..=5).contains(&second), "{second}");
            return;
        }
    }
    panic!("it never timed out");
}

/// Appends frames of a server.
type PushFrames<'a> = &'a dyn Fn(&mut Vec<u8>);

/// The parts of a visit that must not depend on the sizes of reads: slot, outcome, status, body bytes, wire bytes,
/// truncation and error.
type Summary = (u16, Outcome, Option<u16>, u64, u64, Option<Truncated>, Option<ErrorKind>);

fn summary(visit: &Visit) -> Summary {
    let facts = &visit.facts;
    let slot = visit.for_keeper.slot.map_or(u16::MAX, |(_, slot)| slot);
    let error = facts.error.as_ref().map(|failure| failure.kind);
    (slot, facts.outcome, facts.status, facts.bytes_body, facts.bytes_wire, facts.truncated, error)
}

/// The results of four jobs if these bytes of the server are received in pieces of the given sizes.
fn results_in_pieces(bytes: &[u8], mut size: impl FnMut() -> usize) -> Vec<Summary> {
    let limits = Limits { max_body: 1_000, max_wire: 1_000, ..Limits::default() };
    let mut session = multiplexed(4, |rules| rules.limits = Arc::new(limits));
    let mut all = Vec::new();
    let mut collect = |session: &mut Session| {
        while let Some(result) = session.finished(Time::ZERO) {
            match result {
                Completed::Visit(visit) => all.push(summary(&visit)),
                Completed::Retry(job) => all.push((job.slot, Outcome::Failed, None, 0, 0, None, None)),
            }
        }
    };
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(size().clamp(1, rest.len()));
        session.feed(piece, Time::ZERO);
        collect(&mut session);
        write_all(&mut session);
        rest = after;
    }
    session.closed(Time::ZERO);
    collect(&mut session);
    all.sort_by_key(|(slot, ..)| *slot);
    assert_eq!(all.len(), 4, "{all:?}");
    all
}

#[test]
fn results_do_not_depend_on_how_the_bytes_are_split_into_reads() {
    let ok = [(":status", "200"), ("content-type", "text/html")];
    let length = |length| [(":status", "200"), ("content-type", "text/html"), ("content-length", length)];
    let data = |out: &mut Vec<u8>, flags, stream, length: usize| {
        frame::push(out, frame::kind::DATA, flags, stream, &vec![b'x'; length]);
    };
    let end = frame::flag::END_STREAM;
    // Small pieces beyond the limit of 1,000 bytes.
    let push_excess = |out: &mut Vec<u8>, stream| {
        for _ in 0..700 {
            frame::push(out, frame::kind::DATA, 0, stream, b"excess");
        }
    };
    let cases: [(&str, PushFrames<'_>); 9] = [
        ("more than announced, in one frame", &|out| {
            push_head(out, 1, &length("500"));
            data(out, end, 1, 600);
        }),
        ("more than announced, in another frame", &|out| {
            push_head(out, 1, &length("500"));
            data(out, 0, 1, 500);
            data(out, end, 1, 100);
        }),
        ("more than the limit, and more than announced", &|out| {
            push_head(out, 1, &length("2000"));
            data(out, 0, 1, 1_500);
            data(out, end, 1, 900);
        }),
        ("many small frames beyond the limit", &|out| {
            push_head(out, 1, &ok);
            data(out, 0, 1, 990);
            push_excess(out, 1);
            data(out, end, 1, 1);
        }),
        ("beyond the limit, then a reset", &|out| {
            push_head(out, 1, &ok);
            data(out, 0, 1, 5_000);
            frame::push_reset(out, 1, frame::code::PROTOCOL_ERROR);
        }),
        ("beyond the limit, then trailers that cannot be decoded", &|out| {
            push_head(out, 1, &ok);
            data(out, 0, 1, 5_000);
            frame::push(out, frame::kind::HEADERS, end | frame::flag::END_HEADERS, 1, &[0xff, 0xff, 0xff, 0xff, 0xff]);
        }),
        ("a redirect with a body that is not read", &|out| {
            push_head(out, 1, &[(":status", "302"), ("location", "/x")]);
            data(out, 0, 1, 400);
            data(out, end, 1, 400);
        }),
        ("a body where there can be none", &|out| {
            push_head(out, 1, &[(":status", "204")]);
            data(out, end, 1, 40);
        }),
        ("a complete body without an end, then GOAWAY", &|out| {
            push_head(out, 1, &length("300"));
            data(out, 0, 1, 300);
            frame::push(out, frame::kind::GOAWAY, 0, 0, &goaway(5, 0));
        }),
    ];
    let mut random = 7_u64;
    for (name, case) in cases {
        let mut bytes = Vec::new();
        case(&mut bytes);
        push_page(&mut bytes, 3, b"<title>another</title>");
        push_page(&mut bytes, 5, &[b'y'; 3_000]);
        let whole = results_in_pieces(&bytes, || usize::MAX);
        assert_eq!(whole[1].1, Outcome::Ok, "{name}: {whole:?}");
        assert_eq!(results_in_pieces(&bytes, || 1), whole, "{name}: byte by byte");
        for _ in 0..40 {
            let largest = 1 << (random % 13);
            let size = || {
                // A linear congruential generator. Its higher bits are used, because they are more random.
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) as usize % largest + 1
            };
            assert_eq!(results_in_pieces(&bytes, size), whole, "{name}: pieces of up to {largest} bytes");
        }
    }
}

#[test]
fn an_incomplete_header_block_is_charged_and_waits_for_memory() {
    let budget = crate::base::budget::Budget::new(64 << 10);
    let mut session = multiplexed(1, |rules| {
        rules.budget = Arc::clone(&budget);
        rules.limits = Arc::new(Limits { max_head: 256 << 10, ..Limits::default() });
    });
    let more = |session: &mut Session, kind: u8| {
        feed(session, |out| frame::push(out, kind, 0, 1, &[0x90; 16 << 10]));
        write_all(session);
    };
    more(&mut session, frame::kind::HEADERS);
    assert!(budget.response_bytes() >= 16 << 10, "{} bytes", budget.response_bytes());
    more(&mut session, frame::kind::CONTINUATION);
    assert_eq!(session.step(), Step::Read);
    // Another response exceeds the budget.
    let mut other = budget.hold();
    other.grow(64 << 10);
    assert!(other.try_overdraft());
    assert_eq!(session.step(), Step::Pause);
    assert!(session.pause_duration() > Duration::ZERO);
    drop(other);
    assert_eq!(session.step(), Step::Read);
    more(&mut session, frame::kind::CONTINUATION);
    session.closed(Time::ZERO);
    visit(&mut session);
    assert_eq!(budget.response_bytes(), 0, "everything is released");
}

#[test]
fn a_form_on_a_lost_connection_is_not_sent_again() {
    use crate::base::custom_request::{CustomRequest, Method};
    let form = |slot: u16| {
        let mut job = job(slot);
        let request = CustomRequest { method: Method::Post, body: b"a=b".to_vec().into(), ..CustomRequest::default() };
        job.link.request = Some(Arc::new(request));
        assert!(!job.link.is_repeatable());
        job
    };
    let rules = rules(|_| {});
    let idle = || {
        let mut session = multiplexed(1, |_| {});
        feed(&mut session, |out| push_page(out, 1, b"x"));
        visit(&mut session);
        assert!(session.is_idle());
        session
    };
    // The connection is lost: the server may have processed the form.
    let mut session = idle();
    assert!(session.accept(form(1), &rules, Time::ZERO).is_ok());
    write_all(&mut session);
    session.closed(Time::ZERO);
    let lost = visit(&mut session);
    assert_eq!(lost.facts.outcome, Outcome::Failed);
    let (tries, max_tries, wait) = (1, 5, Duration::from_secs(1));
    let verdict = crate::crawl::schedule::retry::judge(&lost, tries, max_tries, wait);
    assert!(matches!(verdict, crate::crawl::schedule::retry::RetryVerdict::GiveUp));
    // A request for a page in the same situation is retried.
    let mut session = idle();
    assert!(session.accept(job(1), &rules, Time::ZERO).is_ok());
    write_all(&mut session);
    session.closed(Time::ZERO);
    assert!(matches!(session.finished(Time::ZERO), Some(Completed::Retry(_))));
    // The server says that it did not process the form.
    let refused = |out: &mut Vec<u8>| frame::push_reset(out, 3, frame::code::REFUSED_STREAM);
    let shutting_down = |out: &mut Vec<u8>| frame::push(out, frame::kind::GOAWAY, 0, 0, &goaway(1, 0));
    for unprocessed in [&refused as &dyn Fn(&mut Vec<u8>), &shutting_down] {
        let mut session = idle();
        assert!(session.accept(form(1), &rules, Time::ZERO).is_ok());
        write_all(&mut session);
        feed(&mut session, unprocessed);
        assert!(matches!(session.finished(Time::ZERO), Some(Completed::Retry(_))));
    }
}

#[test]
fn the_times_of_a_queued_job_start_at_the_end_of_the_handshake() {
    let rules = rules(|_| {});
    let opened = Session::open(job(0), &rules, Time::ZERO, [127, 0, 0, 1].into(), Time::ZERO);
    let mut session = opened.unwrap_or_else(|visit| panic!("{:?}", visit.facts.error));
    assert!(session.accept(job(1), &rules, Time::ZERO).is_ok(), "while the version is not decided");
    let ready = Time::ZERO + Duration::from_secs(3);
    assert!(session.finished(ready).is_none());
    write_all(&mut session);
    let answered = ready + Duration::from_secs(1);
    feed_at(&mut session, answered, |out| {
        frame::push_settings(out, &[]);
        push_page(out, 1, b"x");
    });
    write_all(&mut session);
    feed_at(&mut session, answered, |out| push_page(out, 3, b"x"));
    let mut totals: Vec<_> = std::iter::from_fn(|| session.finished(answered))
        .map(|result| match result {
            Completed::Visit(visit) => (visit.for_keeper.slot.map(|(_, slot)| slot), visit.facts.timings.total),
            Completed::Retry(_) => panic!("expected a visit, not a job to retry"),
        })
        .collect();
    totals.sort();
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(totals, [(Some(0), seconds(4)), (Some(1), seconds(1))]);
}
