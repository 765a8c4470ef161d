//! Error pages with status 200 are found by comparison with the answer of their host for a page that does not exist.

use std::path::Path;
use std::process::{Command, Output};

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use serde_json::Value;

const PAGES: usize = 6;

fn argiope(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    let Output { status, stdout, stderr } = command.current_dir(folder).args(arguments).output().expect("it runs");
    assert!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("UTF-8")
}

/// A page whose text depends on its number.
fn page(title: &str, number: usize) -> Response {
    let sentences =
        (0..40).map(|line| format!("<p>Line {} about thing {}.</p>", word(line * 7 + number), word(number)));
    Response::html(format!("<title>{title}</title><h1>{title}</h1>{}", sentences.collect::<String>()))
}

fn word(number: usize) -> String {
    (0..5).map(|place| char::from(b'a' + (number.wrapping_mul(7919) >> (3 * place)) as u8 % 26)).collect()
}

/// A site whose links to `/gone/N` are answered with its welcome page.
fn web(address: &str, robots: &str, fallback: Response) -> (RunningWeb, String) {
    let links = (0..PAGES).flat_map(|number| [format!("/page/{number}"), format!("/gone/{number}")]);
    let mut site = Site::http(address).expect("a socket").page("/", Response::links(links.collect::<Vec<_>>()));
    for number in 0..PAGES {
        site = site.page(&format!("/page/{number}"), page(&format!("Chapter {number}"), number));
    }
    let site = site.robots(robots).fallback(fallback);
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("a server"), root)
}

/// The paths of requests for a page that does not exist.
fn probes(web: &RunningWeb) -> Vec<String> {
    web.log().into_iter().map(|request| request.path).filter(|path| path.contains("/argiope-")).collect()
}

/// The pages of a finding, without their root.
fn found(folder: &Path, root: &str, id: &str) -> Vec<String> {
    let audit: Value = serde_json::from_str(&argiope(folder, &["audit", "d.crawl", "--format", "json"])).expect("JSON");
    let findings = audit["findings"].as_array().expect("findings").iter();
    let pages = findings.filter(|finding| finding["id"] == id).flat_map(|finding| finding["pages"].as_array().unwrap());
    let mut pages: Vec<String> =
        pages.map(|page| page["url"].as_str().expect("a URL").replacen(root, "/", 1)).collect();
    pages.sort();
    pages
}

#[test]
fn pages_like_the_answer_for_a_page_that_does_not_exist_are_found_and_their_host_is_asked_once() {
    let (web, root) = web("127.5.35.1:0", "", page("Welcome", 99));
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    argiope(folder, &["crawl", "-q", &root, "-d", "d.crawl"]);
    let out = argiope(folder, &["report", "d.crawl"]);
    assert!(out.contains("hosts without 404"), "{out}");
    let asked = probes(&web);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].starts_with("/gone/argiope-"), "in the folder of a page: {asked:?}");
    let gone: Vec<String> = (0..PAGES).map(|number| format!("/gone/{number}")).collect();
    assert_eq!(found(folder, &root, "soft-404"), gone);
    let report: Value = serde_json::from_str(&argiope(folder, &["report", "d.crawl", "--json"])).expect("JSON");
    assert_eq!((&report["hosts_without_404"], &report["pages"]), (&1.into(), &(2 * PAGES + 1).into()));
    let lines = argiope(folder, &["export", "d.crawl", "--format", "jsonl"]);
    let of_probe = |line: &&str| line.contains(r#""for":"probe""#);
    let probe: Value = serde_json::from_str(lines.lines().find(of_probe).expect("a record")).expect("JSON");
    assert_eq!((&probe["type"], &probe["status"]), (&"aux".into(), &200.into()), "{probe}");
}

#[test]
fn a_host_is_asked_only_for_a_reason_and_as_robots_txt_allows() {
    let fallback = || Response::html("none").with_status(404);
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let crawl = |root: &str, more: &[&str]| {
        argiope(folder, &[&["crawl", "-q", "--fresh", root, "-d", "d.crawl"], more].concat());
    };
    let (ordinary, root) = web("127.5.35.2:0", "", fallback());
    crawl(&root, &[]);
    assert!(probes(&ordinary).is_empty(), "no two pages are alike");
    crawl(&root, &["--soft-404", "always"]);
    assert_eq!(probes(&ordinary).len(), 1);
    assert!(found(folder, &root, "soft-404").is_empty());
    let (alike, root) = web("127.5.35.3:0", "User-agent: *\nDisallow: /gone/argiope", page("Welcome", 99));
    crawl(&root, &["--soft-404", "never"]);
    crawl(&root, &[]);
    assert!(probes(&alike).is_empty(), "robots.txt disallows it");
    crawl(&root, &["--exclude", "argiope-"]);
    assert!(probes(&alike).is_empty(), "out of scope");
}

#[test]
fn a_page_that_was_cut_is_no_error_page_and_error_pages_are_warnings() {
    let page = |filler: usize| {
        let body = format!("<title>Page not found</title><div id=app></div><script>{}</script>", " ".repeat(filler));
        Response::html(body)
    };
    let site = Site::http("127.5.35.4:0").expect("a socket").page("/", Response::links(["/cut", "/whole"]));
    let site = site.page("/cut", page(9_000)).page("/whole", page(10));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    argiope(folder, &["crawl", "-q", &root, "-d", "d.crawl", "--max-size", "4K"]);
    for id in ["soft-404", "needs-scripts"] {
        assert_eq!(found(folder, &root, id), ["/whole"], "{id}");
    }
    let report: Value = serde_json::from_str(&argiope(folder, &["report", "d.crawl", "--json"])).expect("JSON");
    assert_eq!((&report["soft_404s"], &report["needs_scripts"]), (&1.into(), &1.into()), "{report}");
    argiope(folder, &["audit", "d.crawl", "--fail-on", "error"]);
}
