//! The robots.txt tests of google/robotstxt and crawler-commons.

use std::time::Duration;

use argiope_core::crawl::schedule::{lane, workbench};
use argiope_core::page::robots::{
    Robots, RobotsAnswer, RobotsField, RobotsLine, RobotsLines, RobotsPattern, is_product_token, prepare,
    product_token, target_of,
};
use argiope_core::{ErrorKind, Url};
use serde_json::Value;

use crate::tally::{Deviations, Tally};
use crate::{bytes, cases, read, text};

const GOOGLE_DEVIATIONS: Deviations = &[
    ("percent-encoded unreserved octets are decoded before comparing, as RFC 9309 2.2.2 says", &["g066"]),
    ("a URL is normalized before it is matched, so raw and encoded bytes are the same", &["g063", "g065"]),
    (
        "`index.html` in a rule does not also match the directory: an extension of Google that is not in the RFC",
        &["g078"],
    ),
    (
        "the name of the crawler is reduced to its product token, like names in the file, so `Foo Bar` is `Foo`",
        &["g040"],
    ),
];

#[test]
#[ignore = "needs vectors/google_robotstxt.json"]
fn google_robotstxt() {
    google();
}

pub fn google() -> Tally {
    let vectors = read("google_robotstxt.json");
    let mut tally = Tally::new("google_robotstxt.json", GOOGLE_DEVIATIONS);
    for case in cases(&vectors, "allow_cases") {
        let robots = Robots::parse(&bytes(case, "robots_txt"), text(case, "user_agent"));
        let target = target_of(text(case, "url")).unwrap();
        tally.case(text(case, "id"), Some(robots.judge(&target).allowed), case["allowed"].as_bool());
    }
    for case in cases(&vectors, "valid_user_agent_token") {
        tally.case("token", Some(is_product_token(text(case, "token"))), case["valid"].as_bool());
    }
    for case in cases(&vectors, "parse_stats") {
        let file = bytes(case, "robots_txt");
        let file = prepare(&file);
        let lines: Vec<_> = RobotsLines::new(&file).collect();
        let unknown = lines.iter().filter(|line| line.field == RobotsField::Unknown).count();
        let expect = &case["expect"];
        let mut right = true;
        if let Some(valid) = expect["valid_directives"].as_u64() {
            right &= lines.len() - unknown == usize::try_from(valid).unwrap();
        }
        if let Some(count) = expect["unknown_directives"].as_u64() {
            right &= unknown == usize::try_from(count).unwrap();
        }
        if let Some(last) = expect["last_line_seen"].as_u64() {
            right &= lines.last().map(|line| u64::from(line.number)) == Some(last);
        }
        if let Some(sitemap) = expect["sitemap"].as_str() {
            right &= Robots::parse(&file, "foo").sitemaps() == [Box::from(sitemap)];
        }
        tally.case(text(case, "id"), right, true);
    }
    for case in cases(&vectors, "path_extraction") {
        tally.case("path", target_of(text(case, "url")).as_deref(), case["path"].as_str());
    }
    for case in cases(&vectors, "pattern_escape") {
        let pattern = RobotsPattern::new(text(case, "pattern").as_bytes());
        tally.case("escape", &*pattern.normal, text(case, "escaped").as_bytes());
    }
    tally.finish(191)
}

const COMMONS_DEVIATIONS: Deviations = &[
    (
        "the bytes of a rule are counted as written, including a trailing `*`, as Google does, which is stricter",
        &["cc0419"],
    ),
    (
        "a name ends at the first character that a product token cannot have; text after a space is ignored \
         (crawler-commons has a mode from before the RFC)",
        &["cc0227", "cc0230", "cc0239", "cc0248", "cc0308", "cc0445", "cc0446"],
    ),
    ("a long Crawl-delay is capped by a setting and reported; it forbids nothing", &["cc0364"]),
];

#[test]
#[ignore = "needs vectors/crawler_commons_robots.json"]
fn crawler_commons_robots() {
    commons();
}

pub fn commons() -> Tally {
    let vectors = read("crawler_commons_robots.json");
    let mut tally = Tally::new("crawler_commons_robots.json", COMMONS_DEVIATIONS);
    for case in cases(&vectors, "cases") {
        let (got, expected) = (check(case), &case["expected"]);
        tally.case(text(case, "id"), &got, expected);
    }
    tally.finish(563)
}

/// The result of one check, in the terms of the file.
fn check(case: &Value) -> Value {
    if let Some(status) = case["http_status"].as_u64() {
        let answer = RobotsAnswer::from_status(u16::try_from(status).unwrap(), b"", "argiope");
        return match text(case, "check") {
            "allowed" => answer.allows("/index.html").into(),
            "defer" => matches!(answer, RobotsAnswer::Unreachable { .. }).into(),
            other => panic!("{other}"),
        };
    }
    let file = bytes(case, "robots_txt");
    let robots = parse_for(&file, &case["agents"]);
    match text(case, "check") {
        "allowed" => allows(&file, &case["agents"], &target_of(text(case, "url")).unwrap()).into(),
        "crawl_delay_ms" => robots.crawl_delay().map(|delay| u64::try_from(delay.as_millis()).unwrap()).into(),
        "sitemaps" => robots.sitemaps().iter().map(|text| &**text).collect(),
        "sitemaps_count" => robots.sitemaps().len().into(),
        "sitemaps_at" => {
            let at = usize::try_from(case["arg"].as_u64().unwrap()).unwrap();
            robots.sitemaps().get(at).map(|text| &**text).into()
        }
        "rules_count" => robots.len().into(),
        "matched_wildcard" => (!robots.has_own_group()).into(),
        "warnings" => {
            let file = prepare(&file);
            // Fields of enabled extensions cause no warning.
            let enabled: Vec<&str> = match &case["extensions_enabled"] {
                // A string instead of a list enables all extensions.
                Value::String(_) => vec!["llm-policy", "content-signals"],
                names => names.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
            };
            let is_enabled = |name: &[u8]| enabled.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
            let is_unknown = |line: &RobotsLine<'_>| line.field == RobotsField::Unknown && !is_enabled(line.name);
            RobotsLines::new(&file).filter(is_unknown).count().into()
        }
        "defer" => false.into(),
        question => extension(case, question, &file),
    }
}

/// The result of a check about fields that are not in the standard. crawler-commons reads them only as an option.
fn extension(case: &Value, question: &str, file: &[u8]) -> Value {
    let enabled = case.get("extensions_enabled").is_some();
    let agent = case["agents"][0].as_str().unwrap_or("");
    let records = if enabled { Robots::other_records(file, agent) } else { Vec::new() };
    let arg = &case["arg"];
    let name = arg["ext"].as_str().or(arg.as_str()).unwrap_or("").to_ascii_lowercase();
    let values: Vec<&str> =
        records.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.as_str()).collect();
    match question {
        "ext" => values.first().copied().into(),
        "exts_empty" => records.is_empty().into(),
        "exts_count" => records.len().into(),
        "ext_values_count" => values.len().into(),
        "ext_values_at" => values.get(usize::try_from(arg["index"].as_u64().unwrap()).unwrap()).copied().into(),
        _ => panic!("unknown check {question}"),
    }
}

/// Whether a crawler with several names may fetch a target. A target is disallowed if it is disallowed for one of the
/// names. A single text may contain several names; of several texts, only the first counts.
fn allows(file: &[u8], agents: &Value, target: &str) -> bool {
    let agents: Vec<&str> = agents.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let names: Vec<&str> = match agents.as_slice() {
        [one] => one.split([' ', ',']).collect(),
        many => many.iter().take(1).copied().collect(),
    };
    let mut named: Vec<Robots> =
        names.iter().map(|name| Robots::parse(file, product_token(name))).filter(Robots::has_own_group).collect();
    if named.is_empty() || names.contains(&"*") {
        named.push(Robots::parse(file, ""));
    }
    named.iter().all(|robots| robots.allows(target))
}

/// The rules for a crawler with several names, separated by white space or commas. As in crawler-commons, the first name
/// that has a group counts.
fn parse_for(file: &[u8], agents: &Value) -> Robots {
    let agents: Vec<&str> = agents.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let names: Vec<&str> = match agents.as_slice() {
        [one] => one.split([' ', ',']).collect(),
        many => many.iter().take(1).copied().collect(),
    };
    let all = names.iter().map(|name| Robots::parse(file, product_token(name)));
    all.reduce(|first, next| if first.has_own_group() { first } else { next })
        .unwrap_or_else(|| Robots::parse(file, ""))
}

#[test]
#[ignore = "needs vectors/robots_conflicts.json"]
fn robots_conflicts() {
    conflicts();
}

/// Checks the cases in which the two sets of vectors contradict each other. The file proposes a behaviour for each.
pub fn conflicts() -> Tally {
    let vectors = read("robots_conflicts.json");
    let mut tally = Tally::new("robots_conflicts.json", &[]);
    for case in cases(&vectors, "conflicts") {
        let rules = |rules: &str| Robots::parse(format!("User-agent: Foo Bar\n{rules}").as_bytes(), "foo");
        let as_proposed = match text(case, "id") {
            "percent-encoded unreserved" => !rules("Disallow: /%62%61%7A").allows("/baz"),
            "unencoded non-ASCII URL" => !rules("Disallow: /%E3%83%84").allows("/\u{30c4}"),
            "index.html" => !rules("Disallow: /\nAllow: /a/index.html").allows("/a/"),
            "trailing wildcard length" => !rules("Allow: /\nDisallow: /*").allows("/"),
            "huge crawl-delay" => {
                let robots = rules("Crawl-delay: 3600\nDisallow:");
                robots.allows("/") && robots.crawl_delay() == Some(std::time::Duration::from_secs(3600))
            }
            "UA line with spaces" => rules("Disallow: /").has_own_group(),
            other => panic!("unknown conflict {other}"),
        };
        tally.case(text(case, "id"), as_proposed, true);
    }
    tally.finish(6)
}

#[test]
#[ignore = "needs vectors/rfc9309_checklist.json"]
fn rfc9309_checklist() {
    checklist();
}

/// Checks what the core decides for each requirement. Tests with crawls check that it is obeyed (docs/conformance.md).
pub fn checklist() -> Tally {
    let vectors = read("rfc9309_checklist.json");
    let mut tally = Tally::new("rfc9309_checklist.json", &[]);
    for case in cases(&vectors, "requirements") {
        tally.case(text(case, "id"), is_met(text(case, "id")), true);
    }
    tally.finish(22)
}

/// Whether a requirement of RFC 9309 is met. The numbers are those of the file.
fn is_met(point: &str) -> bool {
    let origin = |url: &str| Url::parse(url).unwrap().origin();
    let allows = |file: &str, target: &str| Robots::parse(file.as_bytes(), "argiope").allows(target);
    let all = |rules: &str, target: &str| allows(&format!("User-agent: *\n{rules}"), target);
    let status = |status: u16| RobotsAnswer::from_status(status, b"User-agent: *\nDisallow: /x", "argiope");
    match point {
        "R01" => allows("Disallow: /\nUser-agent: a\nUser-agent: *\nAllow: /", "/x"),
        "R02" => !allows("User-agent: argiope\nSitemap: /s\nFoo: x\nUser-agent: b\nDisallow: /", "/x"),
        "R03" => !allows("uSER-agent: *\rDISALLOW: /x # no\r\nallow: /y\n", "/x"),
        "R04" => {
            !allows("User-agent: ARGIOPE/9\nDisallow: /", "/x") && allows("User-agent: argiope-x\nDisallow: /", "/x")
        }
        "R05" => "argiope/1.0 (+https://example.com)".contains(product_token("argiope/1.0 (+https://example.com)")),
        "R06" => !allows(
            "User-agent: argiope\nDisallow: /a\nUser-agent: b\nDisallow: /\nUser-agent: argiope\nDisallow: /x",
            "/x",
        ),
        "R07" => !all("Disallow: /", "/x") && allows("User-agent: b\nDisallow: /", "/x"),
        "R08" => !all("Disallow: /x?q", "/x?q=1") && all("Disallow: /x", "/a/x") && all("Disallow: /X", "/x"),
        "R09" => all("Disallow: /x\nAllow: /x/y", "/x/y") && all("Disallow: /x\nAllow: /x", "/x") && all("", "/x"),
        "R10" => all("Disallow: /", "/robots.txt"),
        "R11" => !all("Disallow: /\u{fc}", "/%C3%BC") && !all("Disallow: /%61", "/a"),
        "R12" => !all("Disallow: /*x$", "/yx") && all("Disallow: /*x$", "/xy") && !all("Disallow: /%2A%24#", "/*$"),
        "R13" => Robots::parse(b"Sitemap: https://a/s.xml", "argiope").sitemaps().len() == 1,
        "R14" => Url::robots_of(&origin("https://H:8443/x")).as_str() == "https://h:8443/robots.txt",
        "R15" => !status(200).allows("/x") && status(206).allows("/y"),
        "R16" => workbench::ROBOTS_REDIRECTS == 5,
        "R17" => [400, 401, 403, 404, 410].into_iter().all(|code| status(code).allows("/x")),
        "R18" => {
            [500, 503, 599].into_iter().all(|code| !status(code).allows("/y"))
                && ErrorKind::ALL.iter().all(|kind| !RobotsAnswer::from_failure(*kind).allows("/y"))
        }
        "R19" => !all("\u{0}\u{1}garbage\n: : :\nDisallow: /x\n=====", "/x"),
        "R20" => lane::ROBOTS_LIFE <= Duration::from_secs(24 * 3600),
        // Comments up to just below 500 KiB.
        "R21" => !all(&format!("{}Disallow: /x\n", "#\n".repeat(500 * 512 - 20)), "/x"),
        "R22" => all(&"\u{fffd}\u{0}".repeat(1 << 18), "/x"),
        _ => false,
    }
}
