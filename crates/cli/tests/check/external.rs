//! Links to other hosts: how often they are requested, with which method, and what follows from the answers.

use super::*;

/// A site with broken links, and another site that it links to.
fn sites() -> (Site, Site) {
    let other = Site::http("127.0.0.1:0").expect("a socket");
    let elsewhere = |path: &str| other.url_as("other.test", path);
    let page = format!(
        "<link rel=icon href=/icon.png><a href=/ok>ok</a> <a href=/gone>gone</a> <a rel=nofollow href=/hidden>h</a> <a rel=nofollow href=/aside>a</a>\n\
         <a href=/ok#here>f</a> <a href=/ok#there>f</a> <a href=/moved#here>m</a> <a href=/moved#nope>m</a>\n\
         <a href=/loop1>l</a> <a href=/private>p</a>\n\
         <a href={}>1</a> <a href={}>2</a> <a href={}>3</a> <a href={}>4</a> <a href={}>5</a> <a href={}>6</a>",
        elsewhere("/fine#part"),
        elsewhere("/fine#absent"),
        elsewhere("/dead"),
        elsewhere("/busy"),
        elsewhere("/secret"),
        elsewhere("/fine"),
    );
    let site = Site::http("127.0.0.1:0")
        .expect("a socket")
        .page("/", Response::html(page))
        .page("/ok", Response::html("<p id=here><a href=/>home</a> <a href=/gonee>typo</a>"))
        .redirect("/aside", "/ok", 302)
        .redirect("/moved", "/ok", 301)
        .redirect("/loop1", "/loop2", 302)
        .redirect("/loop2", "/loop1", 302)
        .robots("User-agent: *\nDisallow: /private\n")
        .fallback(Response::status(404));
    let other = other
        .page("/fine", Response::html("<p id=part><a href=/never-requested>x</a>"))
        .page("/busy", Response::status(429))
        .page("/secret", Response::html("x"))
        .robots("User-agent: *\nDisallow: /secret\n")
        .fallback(Response::status(404));
    (site, other)
}

#[test]
fn a_site_is_crawled_and_external_links_are_requested_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (site, other) = sites();
    let root = site.url("/");
    let (port, outside) = (other.address().port(), other.url_as("other.test", ""));
    let web = PracticeWeb::new().site(site).site(other).start().expect("a server");
    let resolve = format!("other.test:{port}:127.0.0.1");
    let usual = ["--format", "json", "--resolve", &resolve, "--retry-wait", "1ms", "--max-tries", "2"];
    let output = argiope(folder.path(), &[&[root.as_str()], &usual[..]].concat(), "");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let at = |path: &str| format!("{root}{path}");
    let away = |path: &str| format!("{outside}{path}");
    let all = [
        ("broken", "http_error", at("gone")),
        ("broken", "http_error", at("gonee")),
        ("broken", "http_error", at("hidden")),
        ("broken", "http_error", at("icon.png")),
        ("broken", "fragment", at("ok#there")),
        ("broken", "fragment", at("moved#nope")),
        ("broken", "redirect_loop", at("loop1")),
        ("unknown", "robots", at("private")),
        ("broken", "fragment", away("/fine#absent")),
        ("broken", "http_error", away("/dead")),
        ("unknown", "http_error", away("/busy")),
        ("unknown", "robots", away("/secret")),
    ];
    let all: Vec<(&str, &str, &str)> = all.iter().map(|(a, b, c)| (*a, *b, c.as_str())).collect();
    assert_eq!(findings(&output), expected(&all), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let gone = document["findings"].as_array().expect("findings").iter().find(|finding| finding["url"] == at("gone"));
    let gone = gone.expect("a finding");
    assert_eq!(
        (&gone["status"], &gone["on"][0]["line"], &gone["on"][0]["text"]),
        (&404.into(), &1.into(), &"gone".into())
    );
    let log = web.log();
    assert!(log.iter().all(|request| request.path != "/never-requested"), "external pages are not descended");
    let methods = |path: &str| {
        let requests = log.iter().filter(|request| request.path == path);
        requests.map(|request| request.method.as_str()).collect::<Vec<&str>>()
    };
    assert_eq!(methods("/dead"), ["HEAD", "GET"], "a failed HEAD is followed by GET");
    // GET follows unless another HEAD of the host has succeeded by then.
    let icon = methods("/icon.png");
    assert!(icon == ["HEAD", "GET"] || icon == ["HEAD"], "{icon:?}");
    assert_eq!(methods("/fine"), ["GET"], "one request serves the page and its fragments");
    assert_eq!(methods("/busy"), ["HEAD", "GET"], "HEAD and GET are the two tries");
    // With `--external no`, external links are not reported.
    let output = argiope(folder.path(), &[root.as_str(), "--external", "no", "--format", "json"], "");
    assert!(findings(&output).iter().all(|(_, _, url)| url.starts_with(&root)), "{}", text(&output.stdout));
}

#[test]
fn a_list_of_urls_is_checked_and_good_results_are_cached() {
    let folder = tempfile::tempdir().expect("a folder");
    let site =
        Site::http("127.0.0.1:0").expect("a socket").page("/a", Response::html("x")).fallback(Response::status(404));
    let (good, bad) = (site.url("/a"), site.url("/b"));
    let web = PracticeWeb::new().site(site).start().expect("a server");
    let list = format!("# a list\n{good}\n  {bad}\n{good}\n");
    let arguments = ["-", "--allow-private", "--cache", "1h", "--format", "json", "--retry-wait", "1ms"];
    for earlier_runs in 0..2 {
        let output = argiope(folder.path(), &arguments, &list);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["findings"][0]["url"], bad);
        assert_eq!(
            document["findings"][0]["on"],
            serde_json::json!([{ "page": "-", "line": 3, "column": 3, "text": "" }])
        );
        let requested = |path: &str| web.log().iter().filter(|request| request.path == path).count();
        assert_eq!(requested("/a"), 1, "good results are reused after {earlier_runs} runs");
        assert!(requested("/b") > earlier_runs, "failures are requested again");
        let expected_requests = 2 - earlier_runs;
        let (external, cached) = (&document["summary"]["external"], &document["summary"]["cached"]);
        assert_eq!((external, cached), (&expected_requests.into(), &earlier_runs.into()), "{document}");
        let plural = if expected_requests == 1 { "" } else { "s" };
        let summary = text(&output.stderr);
        assert!(summary.contains(&format!("{expected_requests} external URL{plural} requested")), "{summary}");
        assert_eq!(summary.contains("1 cached"), earlier_runs == 1, "{summary}");
    }
    // A URL with a private address that the user did not allow is unknown. If all URLs are unknown, the exit code is 4.
    let output = argiope(folder.path(), &["-", "--format", "json"], &bad);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert_eq!(findings(&output), expected(&[("unknown", "private_address", &bad)]));
}

/// Pages that respond differently to HEAD and GET: path, response to HEAD, response to GET, and whether the link is reported
/// as good.
fn head_cases() -> Vec<(&'static str, Response, Response, bool)> {
    let page = || Response::html("<p>fine</p>");
    vec![
        ("/405", Response::status(405), page(), true),
        ("/501", Response::status(501), page(), true),
        ("/403", Response::status(403), page(), true),
        ("/404", Response::status(404), page(), true),
        ("/500", Response::status(500), page(), true),
        ("/closed", Response::close(), page(), true),
        ("/reset", Response::reset(), page(), true),
        ("/nonsense", Response::raw("nonsense\r\n\r\n").close_after(), page(), true),
        // A body in a HEAD response makes the connection unusable, but the status still counts.
        ("/body", Response::raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), page(), true),
        ("/chunked", Response::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), page(), true),
        ("/truly-gone", Response::status(404), Response::status(404), false),
        ("/good", page(), Response::status(404), true),
    ]
}

#[test]
fn head_is_requested_first_and_get_if_head_fails() {
    for (http, site) in [
        ("1.1", Site::http("127.0.0.1:0").expect("a socket")),
        ("1.1", Site::https("127.0.0.1:0", CertificateKind::Good).expect("a socket")),
        ("2", Site::https("127.0.0.1:0", CertificateKind::Good).expect("a socket").only_http2()),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let is_raw = |path: &str| matches!(path, "/nonsense" | "/body" | "/chunked");
        let cases: Vec<_> = head_cases().into_iter().filter(|(path, ..)| http == "1.1" || !is_raw(path)).collect();
        let mut site = site;
        for (path, head, get, _) in &cases {
            site = site.page(path, get.clone().on_head(head.clone()));
        }
        let list: String = cases.iter().map(|(path, ..)| format!("{}\n", site.url(path))).collect();
        let web = PracticeWeb::new().site(site).start().expect("a server");
        let flags = [
            "-",
            "--allow-private",
            "--insecure",
            "--http",
            http,
            "--format",
            "json",
            "--retry-wait",
            "1ms",
            "--max-tries",
            "2",
        ];
        let output = argiope(folder.path(), &flags, &list);
        let found = findings(&output);
        for (path, _, _, is_good) in &cases {
            let is_broken = found.iter().any(|(_, _, url)| url.ends_with(path));
            assert_eq!(is_broken, !is_good, "{path} over HTTP/{http}: {}", text(&output.stdout));
            let log = web.log();
            let methods: Vec<&str> =
                log.iter().filter(|request| request.path == *path).map(|request| request.method.as_str()).collect();
            let is_head_accepted = matches!(*path, "/good" | "/body" | "/chunked");
            let expected = if is_head_accepted { "HEAD" } else { "GET" };
            assert_eq!((methods.first(), methods.last()), (Some(&"HEAD"), Some(&expected)), "{path} over HTTP/{http}");
            // A request that failed because a kept-alive connection was closed is sent once more, unchanged.
            assert!(methods.len() <= 3, "{path} over HTTP/{http}: {methods:?}");
        }
        let max_at_once = web.stats().hosts.values().map(|host| host.max_at_once).max();
        assert_eq!(max_at_once, Some(1), "a host gets one request at a time");
    }
}

/// A page with `count` links to missing pages of another host, and that host. Every tenth page exists.
fn page_of_links(other: &Site, count: usize) -> String {
    let links = (0..count).map(|number| format!("<a href='{}'>x</a>\n", other.url(&format!("/{number}"))));
    format!("<!DOCTYPE html><title>t</title>{}", links.collect::<String>())
}

#[test]
fn the_urls_of_a_page_of_a_host_and_of_the_run_are_limited() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = Site::http("127.0.0.1:0").expect("a socket");
    write(folder.path(), &[("a.html", &page_of_links(&other, 50))]);
    let web = PracticeWeb::new().site(other).start().expect("a server");
    for (flags, requested) in [
        (["--max-links", "10"], 10),
        (["--max-external-per-host", "20"], 20),
        (["--max-external", "30"], 30),
        (["--max-external", "1000"], 50),
    ] {
        let before = web.log().len();
        let arguments = ["a.html", "--allow-private", "--format", "json"];
        let output = argiope(folder.path(), &[&arguments[..], &flags[..]].concat(), "");
        let log = web.log();
        let heads = log.iter().skip(before).filter(|request| request.method == "HEAD").count();
        assert_eq!(heads, requested, "{flags:?}: {}", text(&output.stdout));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["summary"]["over_limits"], 50 - requested, "{flags:?}");
        assert_eq!(document["summary"]["broken_places"], requested, "{flags:?}");
        assert_eq!(document["notes"].is_null(), requested == 50 || requested == 10, "{document}");
    }
}

#[test]
fn a_missing_page_is_requested_once_where_the_host_answers_head_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = Site::http("127.0.0.1:0").expect("a socket");
    let (first, wrong) = (other.url("/0"), other.url("/wrong"));
    let links = format!("{}<a href='{wrong}'>x</a>", page_of_links(&other, 30));
    write(folder.path(), &[("a.html", &links)]);
    let disagreeing = Response::html("x").on_head(Response::status(404));
    let other = other.page("/0", Response::html("<p>fine</p>")).page("/wrong", disagreeing);
    let web = PracticeWeb::new().site(other).start().expect("a server");
    let output = argiope(folder.path(), &["a.html", "--allow-private", "--format", "json"], "");
    let found = findings(&output);
    // The host answered the HEAD for the first page with success, so its 404 to HEAD counts.
    let is_broken = |page: &str| found.iter().any(|(_, _, url)| url == page);
    assert!(found.len() == 30 && !is_broken(&first) && is_broken(&wrong), "{found:?}");
    let log = web.log();
    let gets = log.iter().filter(|request| request.method == "GET" && request.path != "/robots.txt").count();
    assert_eq!(gets, 0, "no GET follows a HEAD on a host that answers HEAD well");
}

#[test]
fn a_page_that_only_a_head_reports_as_missing_is_good_on_a_host_that_is_not_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = Site::http("127.0.0.1:0").expect("a socket");
    write(folder.path(), &[("a.html", &page_of_links(&other, 2))]);
    let (first, second) = (other.url("/0"), other.url("/1"));
    let other = other.page("/0", Response::html("x").on_head(Response::status(404)));
    let _web = PracticeWeb::new().site(other).start().expect("a server");
    let output = argiope(folder.path(), &["a.html", "--allow-private", "--format", "json"], "");
    let broken = [("broken", "http_error", second.as_str())];
    assert_eq!(findings(&output), expected(&broken), "{first} answers a GET with success");
}

#[test]
fn links_are_unknown_if_no_external_host_can_be_reached() {
    let folder = tempfile::tempdir().expect("a folder");
    let links = "<a href=http://a.test/>a</a><a href=http://b.test/x>b</a>";
    write(folder.path(), &[("a.html", links), ("b.html", &format!("{links}<a href=a.html>local</a>"))]);
    // A socket that never answers: the names cannot be resolved.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let dns = silent.local_addr().expect("an address").to_string();
    let flags = ["--dns", &dns, "--connect-timeout", "100ms", "--max-tries", "1", "--format", "json"];
    for (file, code) in [("a.html", 4), ("b.html", 0)] {
        let output = argiope(folder.path(), &[&[file], &flags[..]].concat(), "");
        assert_eq!(output.status.code(), Some(code), "{file}: {}", text(&output.stderr));
        let found = findings(&output);
        assert!(found.len() == 2 && found.iter().all(|(verdict, ..)| verdict == "unknown"), "{found:?}");
        let notes = text(&output.stderr).matches("is the network down?").count();
        assert_eq!(notes, 1, "{}", text(&output.stderr));
        let output = argiope(folder.path(), &[&[file], flags.get(..6).expect("flags")].concat(), "");
        assert!(!text(&output.stdout).contains("a.test"), "the note stands for all: {}", text(&output.stdout));
    }
}

/// Flags with which no name can be resolved: the name server never answers. The socket must stay open.
fn without_names() -> (std::net::UdpSocket, Vec<String>) {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let dns = silent.local_addr().expect("an address").to_string();
    let flags =
        ["--dns", &dns, "--connect-timeout", "100ms", "--max-tries", "1", "--allow-private", "--format", "json"];
    let flags = flags.iter().map(ToString::to_string).collect();
    (silent, flags)
}

#[test]
fn a_dead_host_is_unknown_if_no_external_host_was_reached_and_broken_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_silent, flags) = without_names();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let (root, good) = (site.url("/"), site.url("/good"));
    let dead = "<a href=http://a.test/>a</a><a href=http://b.test/>b</a>";
    let site = site.page("/", Response::html(dead)).page("/good", Response::html("x"));
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    let pages = [("one.html", "<a href=http://a.test/>a</a>"), ("two.html", &format!("{dead}<a href={good}>c</a>"))];
    write(folder.path(), &pages);
    let cached = ["--cache", "1d"];
    for (target, more, (count, expected, code)) in [
        ("one.html", &[][..], (1, "unknown", 4)),
        (&root, &[], (2, "unknown", 4)),
        ("two.html", &cached, (2, "broken", 3)),
        ("two.html", &cached, (2, "broken", 3)),
    ] {
        let output = argiope(folder.path(), &[&[target], &flags[..], more].concat(), "");
        let (found, notes) = (findings(&output), text(&output.stderr));
        assert_eq!((output.status.code(), found.len()), (Some(code), count), "{target}: {notes}");
        assert!(found.iter().all(|(verdict, ..)| verdict == expected), "{target}: {found:?}");
        assert_eq!(notes.matches("is the network down?").count(), usize::from(expected == "unknown"), "{notes}");
    }
}

#[test]
fn the_limits_of_a_crawl_do_not_end_the_requests_for_external_urls() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = Site::http("127.0.0.1:0").expect("a socket");
    let links: String =
        (0..40).map(|number| format!("<a href='{}'>x</a>", other.url(&format!("/{number}#gone")))).collect();
    write(folder.path(), &[("a.html", &links), ("check.toml", "max-bytes = \"1KB\"\nmax-disk = \"1GB\"\n")]);
    let page = Response::html("<p>text</p>".repeat(1000));
    let other = (0..40).fold(other, |other, number| other.page(&format!("/{number}"), page.clone()));
    let _web = PracticeWeb::new().site(other).start().expect("a server");
    let output =
        argiope(folder.path(), &["a.html", "--allow-private", "--format", "json", "--config", "check.toml"], "");
    let broken = findings(&output).iter().filter(|(verdict, ..)| verdict == "broken").count();
    assert_eq!(broken, 40, "{}", text(&output.stderr));
}

#[test]
fn the_targets_of_redirects_count_for_the_limit_of_their_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let victim = Site::http("127.0.0.1:0").expect("a socket").fallback(Response::html("x"));
    let mut source = Site::http("127.0.0.1:0").expect("a socket");
    let (at, port) = (victim.url_as("victim.test", ""), source.address().port());
    let mut links = String::new();
    for number in 0..30 {
        source = source.redirect(&format!("/{number}"), &format!("{at}/{number}"), 302);
        links.push_str(&format!(
            "<a href='{}'>x</a>",
            source.url_as(&format!("s{}.test", number % 3), &format!("/{number}"))
        ));
    }
    write(folder.path(), &[("a.html", &links)]);
    let names = [("victim", victim.address().port()), ("s0", port), ("s1", port), ("s2", port)];
    let resolve: Vec<String> =
        names.iter().flat_map(|(name, port)| ["--resolve".into(), format!("{name}.test:{port}:127.0.0.1")]).collect();
    let web = PracticeWeb::new().site(victim).site(source).start().expect("a server");
    let mut arguments = vec!["a.html", "--allow-private", "--format", "json", "--max-external-per-host", "10"];
    arguments.extend(resolve.iter().map(String::as_str));
    let output = argiope(folder.path(), &arguments, "");
    let log = web.log();
    let heads = |host: &str| log.iter().filter(|r| r.method == "HEAD" && r.host.starts_with(host)).count();
    assert_eq!((heads("victim.test"), heads("s")), (10, 30), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["summary"]["over_limits"], 20, "{document}");
    assert!(
        text(&output.stderr).contains("victim.test: 20 of its URLs were not requested"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_list_may_have_any_number_of_urls_of_a_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = Site::http("127.0.0.1:0").expect("a socket");
    let list: String = (0..40).map(|number| format!("{}\n", other.url(&format!("/{number}")))).collect();
    let _web = PracticeWeb::new().site(other.fallback(Response::status(404))).start().expect("a server");
    let limits = ["--max-external-per-host", "10", "--max-external", "20"];
    let output = argiope(folder.path(), &[&["-", "--allow-private", "--format", "json"], &limits[..]].concat(), &list);
    assert_eq!(findings(&output).len(), 40, "{}", text(&output.stderr));
}

#[test]
fn a_host_that_asks_to_come_back_in_an_hour_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let busy = Response::status(429).header("Retry-After", "3600");
    let site = Site::http("127.0.0.1:0").expect("a socket").fallback(busy);
    let links: String =
        (0..30).map(|number| format!("<a href={}>{number}</a>", site.url(&format!("/{number}")))).collect();
    let web = PracticeWeb::new().site(site.robots("")).start().expect("a server");
    std::fs::write(folder.path().join("page.html"), links).expect("a file");
    let output = argiope(folder.path(), &["page.html", "--allow-private", "--format", "json"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = document["findings"].as_array().expect("findings");
    assert!(findings.len() == 30 && findings.iter().all(|finding| finding["type"] == "unknown"), "{document}");
    let put_off = findings.iter().filter(|finding| finding["message"].to_string().contains("wait for 3600 s")).count();
    assert_eq!((put_off, web.requests()), (29, 2), "robots.txt and one page: {document}");
}
