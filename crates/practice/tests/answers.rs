//! The behaviours that a page can have, tested over a plain socket.

mod client;

use argiope_practice::{PolitenessLimits, PracticeWeb, Response, ResponseEnd, Site};
use client::*;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

fn site() -> Site {
    Site::http("127.0.0.1:0").unwrap()
}

#[test]
fn pages_and_redirects_are_served_and_other_paths_are_404() {
    let (_web, address) = serve(site().page("/", Response::links(["/a", "/b?x=1&y=2"])).redirect("/old", "/a", 301));
    let (head, body) = get(address, "/");
    assert_eq!((status(&head), header(&head, "content-type")), (200, Some("text/html; charset=utf-8")));
    let text = String::from_utf8(body).unwrap();
    assert!(text.contains("href=\"/a\"") && text.contains("href=\"/b?x=1&amp;y=2\""), "{text}");
    let (head, _) = get(address, "/old");
    assert_eq!((status(&head), header(&head, "location")), (301, Some("/a")));
    assert_eq!(status(&get(address, "/nowhere").0), 404);
}

#[test]
fn pipelined_requests_are_served_in_order_on_one_connection() {
    let (web, address) =
        serve(site().page("/a", Response::text("A")).page("/b", Response::text("B").delay(Duration::from_millis(5))));
    let mut stream = connect(address);
    for path in ["/a", "/b", "/a"] {
        send_get(&mut stream, path);
    }
    let bodies: Vec<Vec<u8>> = (0..3).map(|_| read_response(&mut stream).1).collect();
    assert_eq!(bodies, [b"A", b"B", b"A"]);
    assert_eq!(web.stats().connections, 1);
    assert_eq!(web.requests(), 3);
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let (_web, address) = serve(site().page("/", Response::text("patient")));
    let mut stream = connect(address);
    for byte in b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(read_response(&mut stream).1, b"patient");
}

#[test]
fn a_delayed_response_does_not_block_others() {
    let (slow, endless) = (Duration::from_millis(50), Duration::from_secs(3_600));
    let site =
        site().page("/endless", Response::text("e").delay(endless)).page("/slow", Response::text("s").delay(slow));
    let (_web, address) = serve(site);
    let mut waiting = connect(address);
    send_get(&mut waiting, "/endless");
    let started = Instant::now();
    get(address, "/slow");
    assert!(started.elapsed() >= slow);
}

#[test]
fn the_head_is_sent_before_a_delayed_body() {
    // The delay is longer than the pauses between the two reads below, even on a loaded machine.
    let (_web, address) = serve(site().page("/", Response::text("late").body_delay(Duration::from_secs(1))));
    let mut stream = connect(address);
    send_get(&mut stream, "/");
    read_head(&mut stream);
    stream.set_nonblocking(true).unwrap();
    let mut body = [0; 4];
    assert_eq!(stream.read(&mut body).unwrap_err().kind(), ErrorKind::WouldBlock, "the head arrives without the body");
    stream.set_nonblocking(false).unwrap();
    stream.read_exact(&mut body).unwrap();
    assert_eq!(&body, b"late");
}

#[test]
fn a_body_is_sent_in_pieces_with_pauses() {
    let (_web, address) = serve(site().page("/", Response::text("0123456789").drip(3, Duration::from_millis(20))));
    let started = Instant::now();
    assert_eq!(get(address, "/").1, b"0123456789");
    assert!(started.elapsed() >= Duration::from_millis(60), "three pauses between four pieces");
}

#[test]
fn a_head_can_be_sent_in_pieces_too() {
    let (_web, address) = serve(site().page("/", Response::text("x").drip_all(20, Duration::from_millis(5))));
    let started = Instant::now();
    assert_eq!(get(address, "/").1, b"x");
    assert!(
        started.elapsed() >= Duration::from_millis(10),
        "at least two pauses, because the head has more than 40 bytes"
    );
}

#[test]
fn raw_bytes_are_sent_unchanged() {
    let (_web, address) = serve(
        site()
            .page("/close", Response::raw("HTTP/1.1 200 Fine\nX: y\n\nhm"))
            .page("/stay", Response::raw("??").ending(ResponseEnd::Hang)),
    );
    let mut stream = connect(address);
    send_get(&mut stream, "/close");
    assert_eq!(read_to_end(&mut stream).unwrap(), b"HTTP/1.1 200 Fine\nX: y\n\nhm");
    let mut stream = connect(address);
    send_get(&mut stream, "/stay");
    let mut two = [0; 2];
    stream.read_exact(&mut two).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
    let kind = stream.read(&mut two).unwrap_err().kind();
    assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{kind}");
}

#[test]
fn hang_reset_and_close_send_no_response() {
    let (web, address) = serve(
        site().page("/hang", Response::hang()).page("/reset", Response::reset()).page("/close", Response::close()),
    );
    let mut stream = connect(address);
    send_get(&mut stream, "/close");
    assert_eq!(read_to_end(&mut stream).unwrap(), b"");
    let mut stream = connect(address);
    send_get(&mut stream, "/reset");
    assert_eq!(read_to_end(&mut stream).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let mut stream = connect(address);
    send_get(&mut stream, "/hang");
    assert!(web.wait_requests(3, TIMEOUT));
    assert!(web.wait_open(1, TIMEOUT));
    drop(stream);
    assert!(web.wait_open(0, TIMEOUT), "the server notices that a client disconnected");
    assert!(web.log().iter().all(|seen| seen.status == 0));
    let ends: Vec<bool> = web.log().iter().map(|seen| seen.end.is_some()).collect();
    assert_eq!(ends, [true, true, false]);
}

#[test]
fn bodies_end_by_chunks_by_close_or_too_early() {
    let (_web, address) = serve(
        site()
            .page("/chunked", Response::text("hello world").chunked([5, 1]).close_after())
            .page("/until-close", Response::text("the end").until_close())
            .page("/old", Response::text("ten").http10())
            .page("/cut", Response::text("0123456789").truncate_at(4))
            .page("/false", Response::text("abc").false_length(100).close_after()),
    );
    let complete_response = |path: &str| {
        let mut stream = connect(address);
        send_get(&mut stream, path);
        String::from_utf8(read_to_end(&mut stream).unwrap()).unwrap()
    };
    let chunked = complete_response("/chunked");
    assert!(
        chunked.contains("Transfer-Encoding: chunked")
            && chunked.contains("\r\n\r\n5\r\nhello\r\n1\r\n \r\n1\r\nw\r\n"),
        "{chunked}"
    );
    let until_close = complete_response("/until-close");
    assert!(until_close.ends_with("\r\n\r\nthe end") && !until_close.contains("Content-Length"), "{until_close}");
    assert!(complete_response("/old").starts_with("HTTP/1.0 200 OK\r\n"));
    let cut = complete_response("/cut");
    assert!(cut.contains("Content-Length: 10\r\n") && cut.ends_with("\r\n\r\n0123"), "{cut}");
    assert!(complete_response("/false").contains("Content-Length: 100\r\n"));
}

#[test]
fn a_connection_can_be_closed_despite_keep_alive() {
    let (_web, address) = serve(site().page("/", Response::text("soon gone").keep_alive_then_close()));
    let mut stream = connect(address);
    send_get(&mut stream, "/");
    let (head, _) = read_response(&mut stream);
    assert_eq!(header(&head, "connection"), Some("keep-alive"));
    assert_eq!(read_to_end(&mut stream).unwrap(), b"");
}

#[test]
fn a_page_fails_the_given_number_of_times_and_then_succeeds() {
    let unavailable = Response::status(503).header("Retry-After", "1");
    let (_web, address) = serve(site().fail_times("/flaky", 2, unavailable, Response::text("ok")));
    let seen: Vec<u16> = (0..4).map(|_| status(&get(address, "/flaky").0)).collect();
    assert_eq!(seen, [503, 503, 200, 200]);
}

#[test]
fn interim_responses_and_huge_heads_are_sent() {
    let (_web, address) = serve(
        site()
            .page("/early", Response::text("x").interim(103, &[("Link", "</s.css>; rel=preload")]).interim(102, &[]))
            .page("/huge", Response::text("x").huge_head(300, 1000)),
    );
    let mut stream = connect(address);
    send_get(&mut stream, "/early");
    assert_eq!((status(&read_head(&mut stream)), status(&read_head(&mut stream))), (103, 102));
    assert_eq!(read_response(&mut stream).1, b"x");
    assert!(get(address, "/huge").0.len() > 300_000);
}

#[test]
fn charsets_codings_and_types_are_sent_as_scripted() {
    let (_web, address) = serve(
        site()
            .page("/latin", Response::html("<title>Fuß</title>").encoded("iso-8859-1"))
            .page("/gz", Response::html("packed ".repeat(100)).gzip())
            .page("/br", Response::bytes([0x21, 0x00]).content_encoding("br").content_type("text/plain"))
            .page("/none", Response::html("x").content_type(None)),
    );
    let (head, body) = get(address, "/latin");
    assert_eq!(header(&head, "content-type"), Some("text/html; charset=iso-8859-1"));
    assert_eq!(body, b"<title>Fu\xdf</title>");
    let (head, body) = get(address, "/gz");
    assert_eq!(header(&head, "content-encoding"), Some("gzip"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, "packed ".repeat(100));
    assert_eq!(header(&get(address, "/br").0, "content-encoding"), Some("br"));
    assert_eq!(header(&get(address, "/none").0, "content-type"), None);
}

#[test]
fn a_page_of_many_megabytes_is_exact() {
    let (_web, address) = serve(site().page("/big", Response::filled("<title>big</title>", 30_000_000)));
    let (_, body) = get(address, "/big");
    assert_eq!(body.len(), 30_000_000);
    assert!(body.starts_with(b"<title>big</title>"));
}

#[test]
fn a_matching_validator_gets_a_304() {
    let (_web, address) =
        serve(site().page("/", Response::text("v").etag("one").last_modified("Sat, 01 Jan 2000 00:00:00 GMT")));
    let mut stream = connect(address);
    let mut status_with = |line: &str| {
        write!(stream, "GET / HTTP/1.1\r\nHost: h\r\n{line}\r\n\r\n").unwrap();
        status(&read_response(&mut stream).0)
    };
    assert_eq!(status_with("If-None-Match: \"one\""), 304);
    assert_eq!(status_with("If-None-Match: \"two\""), 200);
    assert_eq!(status_with("If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT"), 304);
    assert_eq!(status_with("X: y"), 200);
}

#[test]
fn head_requests_get_a_response_without_a_body() {
    let (_web, address) = serve(site().page("/", Response::text("body")));
    let mut stream = connect(address);
    write!(stream, "HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let text = String::from_utf8(read_to_end(&mut stream).unwrap()).unwrap();
    assert!(text.contains("Content-Length: 4\r\n") && text.ends_with("\r\n\r\n"), "{text}");
}

#[test]
fn one_address_can_serve_several_host_names() {
    let (_web, address) = serve(site().page("//b.test/", Response::text("b")).page("/", Response::text("anyone")));
    let get_from = |host: &str| {
        let mut stream = connect(address);
        write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        read_response(&mut stream).1
    };
    assert_eq!(get_from("b.test:80"), b"b");
    assert_eq!(get_from("c.test"), b"anyone");
}

#[test]
fn a_page_can_match_every_query() {
    let (_web, address) = serve(site().page("/find?*", Response::text("any")).page("/find?q=1", Response::text("one")));
    assert_eq!(get(address, "/find?q=2").1, b"any");
    assert_eq!(get(address, "/find?q=1").1, b"one");
    assert_eq!(status(&get(address, "/find").0), 404);
}

#[test]
fn the_log_records_client_path_and_time_of_requests() {
    let site = site().page("/x?y", Response::text("x").delay(Duration::from_millis(20)));
    let address = site.address();
    let web = PracticeWeb::new().site(site).keep_headers().start().unwrap();
    get(address, "/x?y");
    assert!(web.wait_answered(1, TIMEOUT));
    let log = web.log();
    let [seen] = &log[..] else { panic!("{log:?}") };
    assert_eq!((seen.host.as_str(), seen.path.as_str(), seen.status), ("practice.test", "/x?y", 200));
    assert_eq!((seen.method.as_str(), seen.user_agent.as_str(), seen.connection), ("GET", "tester/1", 0));
    assert!(seen.headers.contains(&("Host".to_owned(), "practice.test".to_owned())));
    assert!(seen.end.unwrap() - seen.start >= Duration::from_millis(20));
    web.stop().unwrap();
}

#[test]
fn too_many_too_early_and_forbidden_requests_are_violations() {
    let site = site()
        .page("/", Response::text("x"))
        .page("/secret", Response::text("x").counts_as_violation())
        .page("/hang", Response::hang());
    let address = site.address();
    let politeness = PolitenessLimits { min_gap: Some(Duration::from_secs(3600)), max_at_once: Some(2) };
    let web = PracticeWeb::new().site(site).politeness(politeness).start().unwrap();
    get(address, "/");
    assert_eq!(web.stats().violations, 0);
    get(address, "/secret");
    assert_eq!(web.stats().violations, 2, "too early, and forbidden");
    let hanging: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = connect(address);
            send_get(&mut stream, "/hang");
            stream
        })
        .collect();
    assert!(web.wait_requests(5, TIMEOUT));
    let stats = web.stats();
    let host = &stats.hosts["practice.test"];
    // Four requests were too early, one was forbidden, and one was the third in flight.
    assert_eq!((host.requests, host.max_at_once, host.violations), (5, 3, 6));
    assert!(host.min_gap_us.is_some());
    assert_eq!((stats.max_at_once, stats.peak_open >= 3), (3, true));
    assert_eq!((stats.sites[0].requests, stats.sites[0].max_at_once), (5, 3));
    drop(hanging);
}

#[test]
fn input_that_is_not_http_is_refused() {
    let (web, address) = serve(site());
    let mut stream = connect(address);
    stream.write_all(b"SSH-2.0-hello\r\n\r\n").unwrap();
    assert!(read_to_end(&mut stream).unwrap().starts_with(b"HTTP/1.1 400 "));
    assert!(web.wait_open(0, TIMEOUT));
}

#[test]
fn only_loopback_addresses_are_served() {
    assert!(Site::http("192.0.2.1:0").is_err());
    assert!(Site::http("localhost").is_err());
    assert!(Site::http("127.3.4.5:0").is_ok());
}

#[test]
#[ignore = "needs ipv6"]
fn ipv6_loopback_is_served() {
    let site = Site::http("[::1]:0").expect("IPv6 loopback").page("/", Response::text("six"));
    assert!(site.url("/").starts_with("http://[::1]:"));
    let (_web, address) = serve(site);
    assert_eq!(get(address, "/").1, b"six");
}

#[test]
fn several_threads_serve_one_site() {
    let site = site().page("/", Response::text("x").delay(Duration::from_millis(1)));
    let address = site.address();
    let web = PracticeWeb::new().site(site).threads(3).start().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut stream = connect(address);
                for _ in 0..50 {
                    send_get(&mut stream, "/");
                    assert_eq!(read_response(&mut stream).1, b"x");
                }
            });
        }
    });
    assert!(web.wait_answered(400, TIMEOUT));
    assert!(web.wait_open(0, TIMEOUT));
    web.stop().unwrap();
}
