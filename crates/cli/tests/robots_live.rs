//! The 22 points of RFC 9309 in live crawls, each with its own practice site, checked by the requests that the server
//! received.
//!
//! The names are those of docs/conformance.md. R20 (a copy is at most a day old) is tested in virtual time.

use std::collections::BTreeSet;
use std::time::Duration;

use argiope_core::crawl::rules::{Config, EngineName, RobotsPolicy, ScopeKind, Span};
use argiope_core::{ErrorKind, Outcome};
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use argiope_testkit::crawling::{Crawled, config, crawl};

fn site(address: &str) -> Site {
    Site::http(&format!("{address}:0")).expect("a loopback address")
}

fn serve(sites: impl IntoIterator<Item = Site>) -> RunningWeb {
    sites.into_iter().fold(PracticeWeb::new(), PracticeWeb::site).start().expect("the practice web starts")
}

/// Settings that obey robots.txt.
fn obeying(root: &str) -> Config {
    let mut config = config(EngineName::Tokio, &[root]);
    config.robots = RobotsPolicy::Obey;
    config
}

/// The links that a crawl requests with this robots.txt.
fn requested_links(robots: Response, links: &[&str]) -> BTreeSet<String> {
    let site = site("127.6.0.1")
        .page("/robots.txt", robots)
        .page("/", Response::links(links))
        .fallback(Response::html("<title>page</title>"));
    let root = site.url("/");
    let web = serve([site]);
    crawl(&obeying(&root));
    let log = web.log();
    assert_eq!(log.first().map(|seen| seen.path.as_str()), Some("/robots.txt"), "robots.txt is requested first");
    log.into_iter().map(|seen| seen.path).filter(|path| path != "/robots.txt" && path != "/").collect()
}

/// Asserts that exactly these links are requested.
#[track_caller]
fn expect(robots: &str, links: &[&str], requested: &[&str]) {
    let expected: BTreeSet<String> = requested.iter().map(|path| (*path).to_owned()).collect();
    assert_eq!(requested_links(Response::text(robots), links), expected, "{robots:?}");
}

/// The outcome of a URL, and the kind of its error.
fn outcome_of(crawled: &Crawled, url: &str) -> (Outcome, Option<ErrorKind>) {
    let page = crawled.page(url);
    (page.facts.outcome, page.facts.error.as_ref().map(|failure| failure.kind))
}

#[test]
fn r01_rules_before_the_first_user_agent_line_are_ignored() {
    expect("Disallow: /a\nUser-agent: *\nDisallow: /b\n", &["/a", "/b"], &["/a"]);
}

#[test]
fn r02_other_records_do_not_end_a_group() {
    expect("User-agent: argiope\nCrawl-delay: 0\nNonsense: 1\nDisallow: /a\n", &["/a", "/b"], &["/b"]);
    expect("User-agent: argiope\nSitemap: /none\nUser-agent: x\nDisallow: /a\n", &["/a", "/b"], &["/b", "/none"]);
}

#[test]
fn r03_names_in_any_case_any_line_end_and_comments() {
    expect("USER-AGENT: *\rdisallow: /a # no\r\nDisAllow:/b\n#Disallow: /c\n", &["/a", "/b", "/c"], &["/c"]);
}

#[test]
fn r04_the_product_token_is_matched_whole_in_any_case() {
    let robots =
        "User-agent: ARGIOPE\nDisallow: /a\n\nUser-agent: argiopes\nDisallow: /b\n\nUser-agent: argi\nDisallow: /c\n";
    expect(robots, &["/a", "/b", "/c"], &["/b", "/c"]);
}

#[test]
fn r05_the_token_is_part_of_the_user_agent() {
    let site = site("127.6.0.5")
        .robots("User-agent: mybot\nDisallow: /a\n\nUser-agent: argiope\nDisallow: /\n")
        .page("/", Response::links(["/a", "/b"]))
        .fallback(Response::html("page"));
    let root = site.url("/");
    let web = serve([site]);
    let mut config = obeying(&root);
    config.user_agent = Some("MyBot/2.0 (+https://h/)".to_owned());
    // The key of fingerprints, which does not matter here.
    let key = 0;
    let rules = config.compile(key).expect("good settings");
    assert!(rules.user_agent.contains(&*rules.agent_token), "the token is a part of the User-Agent header");
    crawl(&config);
    let paths: BTreeSet<String> = web.log().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, BTreeSet::from(["/", "/b", "/robots.txt"].map(str::to_owned)));
    assert!(web.log().iter().all(|seen| seen.user_agent == "MyBot/2.0 (+https://h/)"));
    config.user_agent = Some("(nameless)".to_owned());
    let error = config.compile(key).expect_err("a user agent without a product token");
    assert_eq!(error.key, "user-agent");
}

#[test]
fn r06_groups_that_name_the_crawler_are_merged() {
    let robots =
        "User-agent: argiope\nDisallow: /a\n\nUser-agent: *\nDisallow: /c\n\nUser-agent: Argiope\nDisallow: /b\n";
    expect(robots, &["/a", "/b", "/c"], &["/c"]);
}

#[test]
fn r07_the_group_for_all_applies_if_none_names_the_crawler() {
    expect("User-agent: x\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n", &["/a", "/b"], &["/a"]);
    expect("User-agent: argiope\nDisallow:\n\nUser-agent: *\nDisallow: /\n", &["/a"], &["/a"]);
    expect("User-agent: x\nDisallow: /\n", &["/a"], &["/a"]);
}

#[test]
fn r08_paths_match_from_the_start_with_query_and_case() {
    let links = ["/a/1", "/A/1", "/x/a/1", "/q?s=1", "/q?t=1"];
    expect("User-agent: *\nDisallow: /a\nDisallow: /q?s\n", &links, &["/A/1", "/x/a/1", "/q?t=1"]);
}

#[test]
fn r09_the_longest_rule_wins_and_allow_wins_ties() {
    let robots = "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c\nDisallow: /t\nAllow: /t\n";
    expect(robots, &["/a/x", "/a/b/x", "/a/b/c/x", "/t/x", "/none"], &["/a/b/x", "/t/x", "/none"]);
}

#[test]
fn r10_robots_txt_itself_is_allowed() {
    let site =
        site("127.6.0.10").robots("User-agent: *\nDisallow: /robots.txt\n").page("/", Response::links(["/robots.txt"]));
    let (root, file) = (site.url("/"), site.url("/robots.txt"));
    let web = serve([site]);
    assert_eq!(crawl(&obeying(&root)).page(&file).facts.outcome, Outcome::Ok);
    assert_eq!(
        web.log().iter().filter(|seen| seen.path == "/robots.txt").count(),
        2,
        "once for its rules and once as a page"
    );
}

#[test]
fn r11_decoded_bytes_are_compared() {
    let robots = "User-agent: *\nDisallow: /\u{30c4}\nDisallow: /%61b\nDisallow: /c%2Fd\n";
    let links = ["/%E3%83%84", "/%e3%83%84x", "/ab", "/a%62c", "/c/d", "/c%2fd"];
    expect(robots, &links, &["/c/d"]);
}

#[test]
fn r12_star_dollar_and_hash_are_special_unless_encoded() {
    let robots = "User-agent: *\nDisallow: /*.pdf$ # all\nDisallow: /x*y\nDisallow: /m%2An\nDisallow: /p%24\n";
    let links = ["/a.pdf", "/a.pdf?b", "/x12y3", "/xz", "/m*n", "/m1n", "/p$", "/p"];
    expect(robots, &links, &["/a.pdf?b", "/xz", "/m1n", "/p"]);
}

#[test]
fn r13_sitemap_records_count_in_every_group() {
    let site = site("127.6.0.13");
    let map = site.url("/map.xml");
    let site = site
        .robots(&format!("User-agent: otherbot\nDisallow: /\nSitemap: {map}\n"))
        .page("/", Response::html("no links"))
        .page("/map.xml", Response::text("/listed\n"))
        .fallback(Response::html("page"));
    let (root, listed) = (site.url("/"), site.url("/listed"));
    let web = serve([site]);
    assert_eq!(crawl(&obeying(&root)).page(&listed).facts.outcome, Outcome::Ok);
    assert!(web.log().iter().any(|seen| seen.path == "/map.xml"));
}

#[test]
fn r14_one_file_for_each_scheme_host_and_port() {
    let other = site("127.6.0.14").robots("User-agent: *\nDisallow: /a\n").fallback(Response::html("page"));
    let (a, b) = (other.url("/a"), other.url("/b"));
    let first = site("127.6.0.14")
        .page("/ROBOTS.TXT", Response::text("User-agent: *\nDisallow: /\n"))
        .robots("User-agent: *\nDisallow: /b\n")
        .page("/", Response::links(["/a", "/b", &a, &b]))
        .fallback(Response::html("page"));
    let root = first.url("/");
    let web = serve([first, other]);
    let mut config = obeying(&root);
    config.allow_private = true;
    crawl(&config);
    let seen: BTreeSet<(usize, String)> = web.log().into_iter().map(|seen| (seen.site, seen.path)).collect();
    let expected = [(0, "/"), (0, "/a"), (0, "/robots.txt"), (1, "/b"), (1, "/robots.txt")];
    assert_eq!(seen, expected.into_iter().map(|(site, path)| (site, path.to_owned())).collect());
}

#[test]
fn r15_rules_of_a_2xx_response_are_obeyed_with_any_content_type() {
    let rules = "User-agent: *\nDisallow: /a\n";
    for robots in [Response::html(rules), Response::text(rules).gzip(), Response::bytes(rules).with_status(203)] {
        assert_eq!(requested_links(robots, &["/a", "/b"]), BTreeSet::from(["/b".to_owned()]));
    }
}

#[test]
fn r16_five_redirects_are_followed_across_hosts() {
    for (hops, is_obeyed) in [(5, true), (6, false)] {
        let far = site("127.6.1.16").robots("User-agent: *\nDisallow: /b\n").fallback(Response::html("page"));
        let mut far = far.page("/rules", Response::text("User-agent: *\nDisallow: /a\n"));
        for hop in 1..hops {
            let next = if hop + 1 == hops { "/rules".to_owned() } else { format!("/hop{}", hop + 1) };
            far = far.redirect(&format!("/hop{hop}"), &next, 302);
        }
        let near = site("127.6.0.16")
            .redirect("/robots.txt", &far.url("/hop1"), 301)
            .page("/", Response::links(["/a", "/b"]))
            .fallback(Response::html("page"));
        let (root, a, b) = (near.url("/"), near.url("/a"), near.url("/b"));
        let web = serve([near, far]);
        let mut config = obeying(&root);
        config.allow_private = true;
        let crawled = crawl(&config);
        if is_obeyed {
            assert_eq!(
                outcome_of(&crawled, &a),
                (Outcome::Robots, None),
                "the rules apply to the host that redirected"
            );
            assert_eq!(outcome_of(&crawled, &b), (Outcome::Ok, None), "the rules of the other host do not apply");
        } else {
            assert_eq!(outcome_of(&crawled, &root), (Outcome::Robots, Some(ErrorKind::RobotsUnreachable)));
        }
        let pages = web.log().into_iter().filter(|seen| matches!(&*seen.path, "/" | "/a" | "/b")).count();
        assert_eq!(pages, if is_obeyed { 2 } else { 0 });
    }
}

#[test]
fn r17_a_missing_file_allows_everything() {
    for status in [400, 401, 403, 404, 410, 418, 451] {
        assert_eq!(requested_links(Response::status(status), &["/a"]), BTreeSet::from(["/a".to_owned()]), "{status}");
    }
}

#[test]
fn r18_an_unreachable_file_disallows_everything_and_is_retried() {
    // Links wait until the file can be fetched; then its rules apply.
    for failure in [Response::status(503), Response::status(429), Response::reset(), Response::close()] {
        let site = site("127.6.0.18")
            .fail_times("/robots.txt", 2, failure, Response::text("User-agent: *\nDisallow: /a\n"))
            .page("/", Response::links(["/a", "/b"]))
            .fallback(Response::html("page"));
        let root = site.url("/");
        let web = serve([site]);
        crawl(&obeying(&root));
        let paths: Vec<String> = web.log().into_iter().map(|seen| seen.path).collect();
        assert_eq!(paths, ["/robots.txt", "/robots.txt", "/robots.txt", "/", "/b"]);
    }
    // After the last attempt every link is settled: as `robots` if there was a response, otherwise as a failure.
    let cut = Response::text("User-agent: *\nDisallow: /a\n").truncate_at(10).close_after();
    for (failure, expected) in [
        (Response::status(500), (Outcome::Robots, Some(ErrorKind::RobotsUnreachable))),
        (Response::status(599), (Outcome::Robots, Some(ErrorKind::RobotsUnreachable))),
        (Response::status(429), (Outcome::Robots, Some(ErrorKind::RobotsUnreachable))),
        (Response::redirect("/robots.txt", 302), (Outcome::Robots, Some(ErrorKind::RobotsUnreachable))),
        (Response::hang(), (Outcome::Failed, Some(ErrorKind::TimeoutFirstByte))),
        (Response::reset(), (Outcome::Failed, Some(ErrorKind::Reset))),
        (cut, (Outcome::Failed, Some(ErrorKind::Reset))),
    ] {
        let site = site("127.6.0.18").page("/robots.txt", failure).fallback(Response::html("page"));
        let root = site.url("/");
        let web = serve([site]);
        let mut config = obeying(&root);
        config.max_tries = 2;
        if expected.1 == Some(ErrorKind::TimeoutFirstByte) {
            config.idle_timeout = Span(Duration::from_millis(300));
        }
        assert_eq!(outcome_of(&crawl(&config), &root), expected);
        assert!(web.log().iter().all(|seen| seen.path == "/robots.txt"), "only robots.txt is requested");
    }
}

#[test]
fn r18_retry_after_is_obeyed_for_robots_txt_too() {
    let busy = Response::status(503).header("Retry-After", "1");
    let site =
        site("127.6.1.18").fail_times("/robots.txt", 1, busy, Response::text("")).fallback(Response::html("page"));
    let root = site.url("/");
    let web = serve([site]);
    assert_eq!(crawl(&obeying(&root)).page(&root).facts.outcome, Outcome::Ok);
    let log = web.log();
    // The log has the times of the server: 10 ms are tolerated.
    assert!(log[1].start - log[0].start >= Duration::from_millis(990), "{log:?}");
}

#[test]
fn r19_each_line_is_parsed_on_its_own() {
    let robots = "\u{0}\u{1}\nUser-agent *\n<b>\nDisallow: /a\n:::\nDisallow /b\nAllow\n\u{7f}Disallow: /c\n";
    expect(robots, &["/a", "/b", "/c"], &["/c"]);
}

#[test]
fn r21_half_a_megabyte_is_read_and_a_cut_line_is_dropped() {
    const LIMIT: usize = 500 * 1024;
    let last = "Disallow: /a\n";
    let mut robots = String::from("User-agent: *\n");
    while robots.len() < LIMIT - 2 * last.len() - 100 {
        robots.push_str("# nothing to see here\n");
    }
    robots.push_str(last);
    let missing = LIMIT - robots.len() - "Disallow: /b".len();
    robots.push_str(&format!("#{}\n", "x".repeat(missing - 2)));
    // The size limit truncates this line to `Disallow: /b`, which would disallow more than the full line.
    robots.push_str("Disallow: /bcd\n");
    robots.push_str("Disallow: /\n".repeat(10_000).as_str());
    expect(&robots, &["/a", "/b", "/c"], &["/b", "/c"]);
}

#[test]
fn r22_malicious_files_are_parsed_safely() {
    let wide: Vec<u8> = "\u{feff}User-agent: *\nDisallow: /a\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert_eq!(requested_links(Response::bytes(wide), &["/a", "/b"]), BTreeSet::from(["/b".to_owned()]), "UTF-16");
    let binary: Vec<u8> = (0..600_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert_eq!(requested_links(Response::bytes(binary), &["/a"]), BTreeSet::from(["/a".to_owned()]));
    let stars = format!("User-agent: *\nDisallow: /b\n{}", "Disallow: /*$*$*$*$*$\n".repeat(20_000));
    let long = format!("/{}", "a".repeat(1_000));
    assert_eq!(requested_links(Response::text(stars), &["/b", &long]).len(), 1);
    let line = format!("User-agent: *\nDisallow: /a\nDisallow: /{}\n", "x".repeat(1 << 20));
    assert_eq!(requested_links(Response::text(line), &["/a", "/b"]), BTreeSet::from(["/b".to_owned()]));
    let huge = Response::filled("User-agent: *\nDisallow: /a\n", 30 << 20);
    assert_eq!(
        requested_links(huge, &["/a", "/b"]),
        BTreeSet::from(["/b".to_owned()]),
        "larger than the size limit of pages"
    );
}

#[test]
fn a_redirect_of_robots_txt_to_a_private_address_is_refused() {
    let secret = site("127.6.1.23").fallback(Response::text("User-agent: *\nAllow: /\n"));
    let site = site("127.6.0.23").redirect("/robots.txt", &secret.url("/x"), 302).fallback(Response::html("page"));
    let root = site.url("/");
    let web = serve([site, secret]);
    let mut config = obeying(&root);
    config.scope = ScopeKind::Any;
    assert_eq!(outcome_of(&crawl(&config), &root), (Outcome::Robots, Some(ErrorKind::RobotsUnreachable)));
    assert!(web.log().iter().all(|seen| seen.site == 0));
}

#[test]
fn a_redirect_of_robots_txt_to_another_protocol_is_reported() {
    let site = site("127.6.0.24").redirect("/robots.txt", "ftp://ftp.example/robots.txt", 302);
    let root = site.url("/");
    let _web = serve([site.fallback(Response::html("page"))]);
    let crawled = crawl(&obeying(&root));
    assert_eq!(outcome_of(&crawled, &root), (Outcome::Robots, Some(ErrorKind::RobotsUnreachable)));
    let page = crawled.pages.iter().find(|page| page.link.url.as_str() == root).expect("a record");
    let message = &page.facts.error.as_ref().expect("a failure").message;
    assert!(message.contains("redirect that cannot be followed") && message.contains("ftp://ftp.example"), "{message}");
}
