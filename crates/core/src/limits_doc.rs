//! Compares the defaults in the tables of `docs/limits.md` with the code.

use std::time::Duration;

use crate::base::budget;
use crate::crawl::fetch;
use crate::crawl::rules;
use crate::crawl::rules::Config;
use crate::crawl::schedule::{lane, workbench};
use crate::crawl::settings::Settings;
use crate::http::conn::{Limits, MAX_DRAIN, MAX_INTERMEDIATES, MAX_PROXY_HEAD, ZSTD_WINDOW_LOG};
use crate::http::cookies;
use crate::http::retry_after::MAX_RETRY_AFTER;
use crate::page::page_budget;
use crate::page::{examine, follow, robots, sitemap};

const PAGE: &str = include_str!("../../../docs/limits.md");

/// The page without the section about `argiope check`, which tests of that command compare.
fn crawl_part() -> String {
    let (before, section) = PAGE.split_once("\n## A check of links\n").expect("the section");
    let (_, after) = section.split_once("\n## ").expect("the next section");
    format!("{before}\n## {after}")
}

/// A size as the page writes it. Sizes below 16 KiB are given in bytes.
fn bytes(count: u64) -> String {
    match count {
        _ if count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        _ if count.is_multiple_of(1 << 10) && count >= 16 << 10 => format!("{} KiB", count >> 10),
        _ => format!("{count} bytes"),
    }
}

fn seconds(span: Duration) -> String {
    format!("{} s", span.as_secs())
}

/// The defaults in the code, under the names that the page uses.
fn defaults() -> Vec<(&'static str, String)> {
    let (limits, config) = (Limits::default(), Config::default());
    let (config_with_root, fingerprint_key) = (Config { roots: vec!["http://h/".into()], ..Config::default() }, 0);
    let compiled = config_with_root.compile(fingerprint_key).expect("the defaults");
    assert_eq!(*compiled.limits, limits, "the default settings give the default limits");
    vec![
        ("response head", bytes(limits.max_head as u64)),
        ("header fields", limits.max_headers.to_string()),
        ("interim responses (1xx)", limits.max_1xx.to_string()),
        ("chunk extensions of a body", bytes(limits.max_extensions.into())),
        ("trailer fields of a body", bytes(limits.max_trailers.into())),
        ("body on the wire", bytes(limits.max_wire)),
        ("body decoded", bytes(limits.max_body)),
        ("content codings in a chain", limits.max_codings.to_string()),
        ("window of zstd", bytes(1 << ZSTD_WINDOW_LOG)),
        ("ETag or Last-Modified that is kept", bytes(fetch::MAX_VALIDATOR as u64)),
        ("message of a failure", bytes(crate::base::outcome::MAX_MESSAGE as u64)),
        ("bytes read only to keep a connection", bytes(MAX_DRAIN)),
        ("certificates beside the server's own", MAX_INTERMEDIATES.to_string()),
        ("redirects in a row", config.max_redirects.to_string()),
        ("attempts at a URL", config.max_tries.to_string()),
        ("Retry-After that is obeyed", seconds(MAX_RETRY_AFTER)),
        ("DNS lookup, connecting, TLS handshake: each", seconds(limits.connect)),
        ("an incomplete head, a body without progress", seconds(limits.idle)),
        ("lowest rate of a body", format!("{} bytes/s", limits.min_rate)),
        ("a whole fetch", seconds(limits.total)),
        ("Crawl-delay that is obeyed", seconds(config.max_crawl_delay.0)),
        ("URL", bytes(config.max_url as u64)),
        ("links of a page", config.max_links.to_string()),
        ("URLs of a page, total", bytes(follow::MAX_FOLLOW_BYTES as u64)),
        ("one tag", bytes(examine::tokenizer::MAX_TAG as u64)),
        ("attributes of a tag", rules::MAX_ATTRIBUTES.to_string()),
        ("title", bytes(examine::MAX_TITLE as u64)),
        ("heading, description, OpenGraph title: each", bytes(examine::MAX_TITLE as u64)),
        ("nesting of SVG and MathML that is followed", examine::MAX_FOREIGN_DEPTH.to_string()),
        ("steps for each byte of a page", page_budget::STEPS_PER_BYTE.to_string()),
        ("steps of a page, at least", page_budget::MIN_STEPS.to_string()),
        ("steps of a page, at most", page_budget::MAX_STEPS.to_string()),
        ("memory for each byte of a page", bytes(page_budget::MEMORY_PER_BYTE)),
        ("memory of a page, at least", bytes(page_budget::MIN_MEMORY)),
        ("memory of a page, at most", bytes(page_budget::MAX_MEMORY)),
        ("robots.txt", bytes(robots::MAX_ROBOTS_BYTES as u64)),
        ("one line of it", bytes(robots::MAX_LINE as u64)),
        ("redirects of robots.txt", workbench::ROBOTS_REDIRECTS.to_string()),
        ("bytes compared for one verdict", bytes(robots::MAX_MATCH_WORK as u64)),
        ("origins of a host whose rules are held", lane::MAX_ORIGINS.to_string()),
        ("rules of all hosts in memory", bytes(workbench::MAX_ROBOTS_MEMORY as u64)),
        ("hosts without work that are held", workbench::IDLE_LANES.to_string()),
        ("sitemap decoded", bytes(sitemap::MAX_BYTES)),
        ("URL in a sitemap", bytes(sitemap::MAX_LOCATION as u64)),
        ("entries of a sitemap", sitemap::SitemapBounds::default().max_entries.to_string()),
        ("nesting of sitemap indexes", sitemap::MAX_INDEX_DEPTH.to_string()),
        ("name and value of a cookie", bytes(cookies::MAX_COOKIE as u64)),
        ("an attribute of a cookie", bytes(cookies::MAX_ATTRIBUTE as u64)),
        ("`Set-Cookie` lines of a response", cookies::MAX_PER_RESPONSE.to_string()),
        ("cookies of a domain", cookies::MAX_PER_DOMAIN.to_string()),
        ("cookies of a registrable domain", cookies::MAX_PER_SITE.to_string()),
        ("all cookies", bytes(cookies::MAX_JAR_BYTES as u64)),
        ("`Cookie` header", bytes(cookies::MAX_HEADER as u64)),
        ("life of a cookie", format!("{} days", cookies::MAX_LIFETIME / 86_400)),
        ("reply of a proxy to `CONNECT`", bytes(MAX_PROXY_HEAD as u64)),
        ("fetches in flight", config.concurrency.to_string()),
        ("bodies and sitemaps that are held", bytes(rules::MAX_HELD_BODIES)),
        ("one body that is held", bytes(budget::MIN_HELD_BODY)),
        ("crawl directory", if config.max_disk.is_some() { "some" } else { "none" }.to_owned()),
        ("pages, bytes, time, depth", {
            let is_set = config.max_pages.is_some() || config.max_bytes.is_some() || config.depth.is_some();
            if is_set || config.max_time.is_some() { "some" } else { "none" }.to_owned()
        }),
    ]
}

#[test]
fn the_documented_defaults_are_those_of_the_code() {
    // The first row of each table, its heading, is left out.
    let page = crawl_part();
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| limit "));
    let rows: Vec<(&str, String)> = rows
        .map(|row| {
            let mut cells = row.trim_matches('|').split(" | ").map(str::trim);
            (cells.next().unwrap_or_default(), cells.next().unwrap_or_default().to_owned())
        })
        .collect();
    let defaults = defaults();
    for (name, default) in &defaults {
        let documented = rows.iter().find(|(row, _)| row == name).map(|(_, documented)| documented);
        assert_eq!(documented, Some(default), "{name}");
    }
    let unknown: Vec<_> = rows.iter().filter(|(row, _)| !defaults.iter().any(|(name, _)| name == row)).collect();
    assert!(unknown.is_empty(), "rows without a value in the code: {unknown:?}");
}

#[test]
fn every_flag_on_the_page_exists() {
    for setting in crawl_part().split('`').filter_map(|word| word.strip_prefix("--")) {
        // The page compares one setting with `--speed-limit` of curl.
        let is_known = <Config as Settings>::keys().contains(&setting) || setting == "speed-limit";
        assert!(is_known, "--{setting} is not a setting");
    }
}
