//! The HTML report: its links and lists, and the page in headless Chromium.

#[path = "../../dashboard/tests/dashboard/browser.rs"]
#[allow(dead_code, reason = "the dashboard's tests use the rest")]
mod browser;

use std::path::Path;
use std::process::Command;

use argiope_practice::{PracticeWeb, audit_sites};
use browser::Browser;

fn argiope(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    let output = command.current_dir(folder).args(arguments).output().expect("the command was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Crawls the site with the cases of the audit into `d.crawl`. Returns its root.
fn crawl(folder: &Path) -> String {
    let [https_site, http_site] = audit_sites().expect("sockets");
    let root = https_site.url("/");
    let web = PracticeWeb::new().site(https_site).site(http_site).start().expect("a server");
    std::fs::write(folder.join("ca.pem"), web.ca_pem()).expect("a file");
    let arguments = ["crawl", "-q", "-d", "d.crawl", "--ca-cert", "ca.pem", "--allow-private", "--assets", &root];
    argiope(folder, &arguments);
    root
}

#[test]
fn every_number_links_to_its_urls_and_to_a_command_that_lists_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = crawl(folder.path());
    let html = argiope(folder.path(), &["report", "d.crawl", "--html", "-"]);
    let host = root.trim_start_matches("https://").trim_end_matches('/');
    let version = format!(" with argiope {}, --", env!("CARGO_PKG_VERSION"));
    for expected in [&format!("<title>Crawl of {host}</title>"), "<p>Started 20", &version, "--assets"] {
        assert!(html.contains(expected), "{expected} is missing in {}", html.split("<main>").next().unwrap_or(""));
    }
    let commands = html.split("argiope report d.crawl --list '").skip(1);
    let commands: Vec<&str> = commands.filter_map(|rest| rest.split('\'').next()).collect();
    assert!(commands.len() > 20, "{commands:?}");
    let json: serde_json::Value =
        serde_json::from_str(&argiope(folder.path(), &["report", "d.crawl", "--json"])).expect("JSON");
    for group in commands {
        let urls = argiope(folder.path(), &["report", "d.crawl", "--list", group]);
        let count = urls.lines().count() as u64;
        assert!(count > 0 && urls.lines().all(|url| url.starts_with("http")), "{group}: {urls}");
        assert_eq!(json["groups"][group]["urls"].as_u64(), Some(count), "{group}");
    }
    let gone = argiope(folder.path(), &["report", "d.crawl", "--list", "status:404"]);
    assert!(gone.contains(&format!("{root}broken-link/gone\n")), "{gone}");
    for target in html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(html.contains(&format!("id=\"{target}\"")), "#{target} leads nowhere");
    }
}

#[test]
#[ignore = "needs chromedriver"]
fn the_page_is_read_sorted_and_filtered_in_a_browser() {
    let browser = Browser::start();
    let folder = tempfile::tempdir().expect("a folder");
    crawl(folder.path());
    argiope(folder.path(), &["report", "d.crawl", "--html", "r.html"]);
    browser.open(&format!("file://{}/r.html", folder.path().display()));
    assert_eq!(browser.run("return document.querySelectorAll('svg').length > 5"), true);
    // A click on a number opens the list of its URLs.
    browser.click(".tiles a");
    browser.wait(
        "location.hash.startsWith('#g') && document.getElementById(location.hash.slice(1)).closest('details').open",
    );
    // Numbers are sorted by value, not as text.
    let first = "document.querySelector('table[aria-label=Sections] tbody tr td:nth-child(2)').dataset.v";
    let sort = "document.querySelector('table[aria-label=Sections] th:nth-child(2) button').click()";
    browser.run(sort);
    let largest = browser.run(&format!("return Number({first})"));
    browser.run(sort);
    let smallest = browser.run(&format!("return Number({first})"));
    assert!(largest.as_u64() > smallest.as_u64(), "{largest} {smallest}");
    browser.write("input[aria-label='Filter Sections']", "hreflang");
    browser.wait(
        "[...document.querySelectorAll('table[aria-label=Sections] tbody tr')].filter(row => !row.hidden).length === 2",
    );
    assert_eq!(browser.log_messages(), Vec::<String>::new());
}

#[test]
#[ignore = "needs chromedriver, axe"]
fn the_page_is_accessible() {
    let browser = Browser::start();
    let folder = tempfile::tempdir().expect("a folder");
    crawl(folder.path());
    argiope(folder.path(), &["report", "d.crawl", "--html", "r.html"]);
    browser.open(&format!("file://{}/r.html", folder.path().display()));
    // With an open list.
    browser.click(".tiles a");
    browser.wait(
        "location.hash.startsWith('#g') && document.getElementById(location.hash.slice(1)).closest('details').open",
    );
    assert_eq!(browser.accessibility_violations(), Vec::<String>::new());
}
