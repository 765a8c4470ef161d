use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::base::outcome::ErrorKind;

fn allows(file: &str, target: &str) -> bool {
    Robots::parse(file.as_bytes(), "argiope").allows(target)
}

#[test]
fn rules_before_the_first_user_agent_line_are_ignored() {
    assert!(allows("Disallow: /\nUser-agent: *\nAllow: /", "/x"));
    assert!(allows("Disallow: /", "/x"));
}

#[test]
fn other_records_do_not_end_a_group() {
    assert!(!allows(
        "User-agent: argiope\nSitemap: /s.xml\nCrawl-delay: 1\nFoo: bar\nUser-agent: b\nDisallow: /",
        "/x"
    ));
    assert!(!allows("User-agent: *\n\n\nDisallow: /", "/x"));
}

#[test]
fn case_line_ends_and_comments_do_not_matter() {
    for end in ["\n", "\r", "\r\n", "\n\r"] {
        let file = ["# hello", "uSeR-AGENT:argiope # me", "  DISALLOW\t:\t/a#b", "", "disallow: /c"].join(end);
        let robots = Robots::parse(file.as_bytes(), "argiope");
        assert!(!robots.allows("/a"), "{end:?}");
        assert!(!robots.allows("/c"), "{end:?}");
        assert!(robots.allows("/b"), "{end:?}");
    }
}

#[test]
fn the_product_token_is_matched_whole_in_any_case() {
    for (line, is_named) in [
        ("argiope", true),
        ("ARGIOPE", true),
        ("Argiope/2.0", true),
        ("argiope bot", true),
        ("argiopebot", false),
        ("argi", false),
        ("argiope-images", false),
        ("x argiope", false),
        ("argiope2", false),
    ] {
        assert_eq!(!allows(&format!("User-agent: {line}\nDisallow: /"), "/x"), is_named, "{line}");
    }
    assert_eq!(product_token("argiope/1.0 (+https://example.com)"), "argiope");
    assert_eq!(product_token("My_Bot-x (y)"), "My_Bot-x");
    assert_eq!(product_token(""), "");
}

#[test]
fn all_groups_that_name_the_crawler_apply() {
    let robots = Robots::parse(b"User-agent: argiope\nDisallow: /a\n\nUser-agent: b\nDisallow: /c\n\nUser-agent: x\nUser-agent: argiope\nDisallow: /d", "argiope");
    assert!(!robots.allows("/a") && !robots.allows("/d") && robots.allows("/c"));
    assert!(robots.has_own_group());
    assert_eq!(robots.len(), 2);
}

#[test]
fn the_group_of_the_crawler_replaces_the_group_for_all() {
    let file = "User-agent: *\nDisallow: /\nUser-agent: argiope\nDisallow: /a\n";
    assert!(allows(file, "/x"));
    assert!(!Robots::parse(file.as_bytes(), "other").allows("/x"));
    assert!(allows("User-agent: *\nDisallow: /\nUser-agent: argiope", "/x"), "an empty group counts");
    assert!(allows("User-agent: other\nDisallow: /", "/x"));
}

#[test]
fn paths_match_from_the_start_with_their_query_and_case() {
    let file = "User-agent: *\nDisallow: /a?q=1";
    assert!(!allows(file, "/a?q=12"));
    assert!(allows(file, "/b/a?q=1"));
    assert!(allows(file, "/A?q=1"));
    assert!(allows(file, "/a"));
}

#[test]
fn the_longest_rule_wins_and_allow_wins_ties() {
    assert!(allows("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c"));
    assert!(!allows("User-agent: *\nAllow: /a\nDisallow: /a/b", "/a/b/c"));
    assert!(allows("User-agent: *\nDisallow: /a\nAllow: /a", "/a"));
    assert!(allows("User-agent: *\nDisallow: /a*\nAllow: /ab", "/ab"), "3 octets each");
    assert!(allows("User-agent: *\nDisallow: /ab\nAllow: /a*", "/ab"));
    assert!(!allows("User-agent: *\nAllow: /\nDisallow: /*", "/"), "wildcards count");
    assert!(allows("User-agent: *\nDisallow:\nAllow:", "/"));
}

#[test]
fn robots_txt_itself_is_always_allowed() {
    assert!(allows("User-agent: *\nDisallow: /", "/robots.txt"));
    assert!(allows("User-agent: *\nDisallow: /", "/robots.txt?x"));
    assert!(!allows("User-agent: *\nDisallow: /", "/robots.txt/x"));
}

#[test]
fn different_encodings_of_an_octet_match() {
    assert!(!allows("User-agent: *\nDisallow: /b\u{fc}cher/", "/b%c3%bccher/x"));
    assert!(!allows("User-agent: *\nDisallow: /%7ejoe", "/~joe"));
    assert!(allows("User-agent: *\nDisallow: /a%2Fb", "/a/b"), "an encoded slash is not a slash");
    assert!(!allows("User-agent: *\nDisallow: /a b", "/a%20b"));
}

#[test]
fn stars_and_dollars_are_special_unless_encoded() {
    assert!(!allows("User-agent: *\nDisallow: /*.php$", "/a/b.php"));
    assert!(allows("User-agent: *\nDisallow: /*.php$", "/a/b.php?x"));
    assert!(!allows("User-agent: *\nDisallow: /*/b*d", "/a/bcd"));
    assert!(allows("User-agent: *\nDisallow: /%2A", "/a"));
    assert!(!allows("User-agent: *\nDisallow: /%2A", "/*"));
    assert!(!allows("User-agent: *\nDisallow: /%24", "/$"));
    assert!(!allows("User-agent: *\nDisallow: /a$b", "/a$bc"), "a dollar sign in the middle is literal");
    assert!(!allows("User-agent: *\nDisallow: *.gif$", "/x.gif"));
}

#[test]
fn a_verdict_quotes_the_deciding_line_as_received() {
    let robots = Robots::parse(
        "\u{feff}# x\r\nUser-agent: *\r\nDisallow: /b\u{fc}  # no\r\nAllow : /*.text.txt$".as_bytes(),
        "a",
    );
    let line = |target| robots.judge(target).line;
    assert_eq!(line("/b%C3%BC/x"), Some((3, "Disallow: /b\u{fc}".into())));
    assert_eq!(line("/b%C3%BC.text.txt"), Some((4, "Allow: /*.text.txt$".into())));
    assert_eq!(robots.judge("/"), RobotsVerdict { allowed: true, line: None });
}

#[test]
fn crawl_delays_may_have_a_fraction_and_apply_to_the_names_before_them() {
    let delay = |file: &str| Robots::parse(file.as_bytes(), "argiope").crawl_delay();
    assert_eq!(delay("User-agent: *\nCrawl-delay: 0.5"), Some(Duration::from_millis(500)));
    assert_eq!(delay("User-agent: *\nCrawl-delay: 10 # s"), Some(Duration::from_secs(10)));
    assert_eq!(delay("User-agent: argiope\nUser-agent: b\nDisallow: /x\nCrawl-delay: 2"), Some(Duration::from_secs(2)));
    assert_eq!(
        delay("User-agent: argiope\nCrawl-delay: 1\nUser-agent: b\nCrawl-delay: 9"),
        Some(Duration::from_secs(1))
    );
    for nonsense in ["", "-1", "soon", "1.2.3", "99999999999999999999999999"] {
        assert_eq!(delay(&format!("User-agent: *\nCrawl-delay: {nonsense}")), None, "{nonsense}");
    }
}

#[test]
fn sitemaps_of_all_groups_are_listed_once() {
    let robots = Robots::parse(
        b"Sitemap: https://a/S.xml\nUser-agent: b\nDisallow: /\nSITEMAP: /rel.xml\nsitemap: https://a/S.xml",
        "argiope",
    );
    assert_eq!(robots.sitemaps(), [Box::from("https://a/S.xml"), "/rel.xml".into()]);
    assert!(robots.is_empty());
}

#[test]
fn common_mistakes_are_understood() {
    for line in ["Dissallow: /a", "disalow: /a", "Disallow /a", "disallow : /a", "desallow:/a"] {
        assert!(!allows(&format!("useragent *\n{line}"), "/a"), "{line}");
    }
    assert!(allows("User-agent: *\nDisallow a b", "/a"), "a line of three words is ignored");
    for names in ["one, Argiope, three", "one,argiope/2", "one, *"] {
        assert!(!allows(&format!("User-agent: {names}\nDisallow: /a"), "/a"), "{names}");
    }
    assert!(allows("User-agent: one argiope\nDisallow: /a", "/a"), "text after a space is ignored");
}

#[test]
fn rules_inside_an_html_page_are_found() {
    assert!(!allows("<html><body>\nUser-agent: *<br>\nDisallow: /a<br>\n", "/a/b"));
    assert!(allows("<!DOCTYPE html><html><title>Not found</title><p>Disallow: /</p>", "/a"));
}

#[test]
fn byte_order_marks_and_utf16_are_decoded() {
    let text = "User-agent: *\nDisallow: /\u{fc}\n";
    let utf16: Vec<u16> = text.encode_utf16().collect();
    let le: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let be: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    let with = |mark: &[u8], bytes: &[u8]| [mark, bytes].concat();
    for bytes in
        [with(&[0xff, 0xfe], &le), with(&[0xfe, 0xff], &be), le, be, with(&[0xef, 0xbb, 0xbf], text.as_bytes())]
    {
        assert!(!Robots::parse(&bytes, "a").allows("/\u{fc}x"));
    }
}

#[test]
fn five_hundred_kibibytes_are_read_and_a_cut_line_is_dropped() {
    let filler = "#".repeat(99) + "\n";
    let mut file = "User-agent: *\n".to_owned() + &filler.repeat(5118);
    assert!(file.len() < MAX_ROBOTS_BYTES && MAX_ROBOTS_BYTES - file.len() < 200);
    file += "Disallow: /kept\n";
    let left = MAX_ROBOTS_BYTES - file.len();
    file += &format!("Allow: /kept/{}\nDisallow: /late\n", "x".repeat(left));
    let robots = Robots::parse(file.as_bytes(), "a");
    assert!(!robots.allows("/kept"));
    assert!(!robots.allows(&format!("/kept/{}", "x".repeat(left))), "the cut line does not count");
    assert!(robots.allows("/late"));
}

#[test]
fn long_lines_are_cut_and_the_next_line_is_read() {
    let file = format!("User-agent: *\nDisallow: /{}\nDisallow: /b\n", "a".repeat(400_000));
    assert!(!allows(&file, "/b"));
    assert!(allows(&file, "/aa"));
    assert!(!allows(&file, &format!("/{}", "a".repeat(MAX_LINE))), "the first bytes of the long line are a rule");
}

/// The time limit is generous: it only catches work that grows faster than linearly.
#[test]
#[allow(clippy::disallowed_methods, reason = "the time that the work takes is what is tested")]
fn hostile_files_cost_linear_time() {
    let start = Instant::now();
    let path = format!("/{}", "a".repeat(4095));
    assert!(allows(&format!("User-agent: *\nDisallow: /{}b$", "*a".repeat(8000)), &path));
    assert!(allows(&format!("User-agent: *\nDisallow: {}$x", "*".repeat(16_000)), &path));
    let many: String = (0..40_000).map(|n| format!("Disallow:/{n:x}\n")).collect();
    let robots = Robots::parse(format!("User-agent:*\n{many}").as_bytes(), "a");
    let denied = (0..10_000).filter(|n| !robots.allows(&format!("/{n:x}/page"))).count();
    assert_eq!(denied, 10_000);
    let nested: String = (1..900).map(|n| format!("Disallow: /{}\n", "a".repeat(n))).collect();
    let robots = Robots::parse(format!("User-agent:*\n{nested}").as_bytes(), "a");
    assert!((0..10_000).all(|_| !robots.allows("/ab")));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn the_status_or_error_decides_what_may_be_fetched() {
    let meaning = |status| RobotsAnswer::from_status(status, b"User-agent: *\nDisallow: /", "argiope");
    assert!(matches!(meaning(200), RobotsAnswer::Rules(robots) if !robots.allows("/")));
    for status in [400, 401, 403, 404, 408, 410, 451] {
        assert_eq!(meaning(status), RobotsAnswer::AllowAll, "{status}");
    }
    for status in [429, 500, 502, 503, 504, 599] {
        assert_eq!(meaning(status), RobotsAnswer::Unreachable { retry: true }, "{status}");
        assert!(!meaning(status).allows("/"));
    }
    for status in [0, 100, 301, 302, 304, 600, 999] {
        assert_eq!(meaning(status), RobotsAnswer::Unreachable { retry: false }, "{status}");
    }
    for kind in ErrorKind::ALL {
        assert!(!RobotsAnswer::from_failure(*kind).allows("/"), "{kind}");
    }
    assert_eq!(RobotsAnswer::from_failure(ErrorKind::ConnectTimeout), RobotsAnswer::Unreachable { retry: true });
    assert_eq!(RobotsAnswer::from_failure(ErrorKind::PrivateAddress), RobotsAnswer::Unreachable { retry: false });
}

proptest! {
    #[test]
    fn any_bytes_can_be_read_and_judged(bytes: Vec<u8>, target: String) {
        let robots = Robots::parse(&bytes, "argiope");
        prop_assert_eq!(robots.judge(&target).allowed, robots.allows(&target));
    }

    #[test]
    fn the_sorted_tables_agree_with_a_scan_of_all_rules(
        rules in prop::collection::vec((any::<bool>(), "/[ab*]{0,4}\\$?"), 0..12),
        target in "/[ab]{0,6}",
    ) {
        let lines: String = rules.iter().map(|(allow, path)| format!("{}: {path}\n", if *allow { "Allow" } else { "Disallow" })).collect();
        let robots = Robots::parse(format!("User-agent: *\n{lines}").as_bytes(), "a");
        let best = rules
            .iter()
            .filter(|(_, path)| {
                let pattern = RobotsPattern::new(path.as_bytes());
                pattern::matches(&pattern.normal, pattern.anchored, target.as_bytes())
            })
            .max_by_key(|(allow, path)| (path.len(), *allow));
        prop_assert_eq!(robots.allows(&target), best.is_none_or(|(allow, _)| *allow));
    }
}
