//! What `check` and `audit` say about the page with its scripts and the page without them.

use std::collections::BTreeMap;

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use serde_json::Value;

use super::{argiope, crawl};

/// The response has a title, a canonical and a broken link. Its script replaces all of them and adds a link with a text.
const PAGE: &str = r#"<!doctype html><title>Static</title><link rel=canonical href=/static>
<h1 id=old>Page</h1><a href="/gone">gone</a> <a href="/good#added">to a part that a script adds</a>
<script>
document.title = 'Rendered';
document.querySelector('[rel=canonical]').href = '/rendered';
document.head.insertAdjacentHTML('beforeend', '<meta name=robots content=noindex>');
document.querySelector('h1').remove();
document.body.insertAdjacentHTML('beforeend', '<p>' + 'word '.repeat(30) + '</p><a href="/good">here</a>'
  + '<a href="/gone-by-script">later</a> <a href="./gone">again</a> <a href="/#old">up</a>');
</script>"#;
const GOOD: &str =
    "<title>Good</title><body><script>document.body.innerHTML = '<p id=added>x</p><a href=/>home</a>'</script>";

fn start() -> (RunningWeb, String) {
    let site = Site::http("127.0.0.1:0").expect("a socket").robots("User-agent: *\nDisallow:\n");
    let root = site.url("/");
    let page = |name: &str| Response::html(format!("<title>{name}</title>"));
    let site = site.page("/", Response::html(PAGE)).page("/good", Response::html(GOOD));
    let site = site.page("/static", page("static")).page("/rendered", page("rendered"));
    (PracticeWeb::new().site(site).start().expect("a server"), root)
}

#[test]
#[ignore = "needs headless-shell"]
fn check_reads_the_links_that_only_scripts_add() {
    let folder = tempfile::tempdir().expect("a folder");
    let (web, root) = start();
    let found = |more: &[&str]| {
        let output = argiope(folder.path(), &[&["check", &*root, "--format", "json"], more].concat());
        assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = document["findings"].as_array().expect("findings").clone();
        let path = |finding: &Value| finding["url"].as_str().expect("a URL").replacen(&root, "/", 1);
        findings.iter().map(|finding| (path(finding), finding["on"].clone())).collect::<BTreeMap<String, Value>>()
    };
    let plain = found(&[]);
    assert_eq!(plain.keys().collect::<Vec<_>>(), ["/gone", "/good#added"]);
    let begun = web.log().len();
    let rendered = found(&["--render", "always"]);
    assert_eq!(rendered.keys().collect::<Vec<_>>(), ["/gone", "/gone-by-script"]);
    assert_eq!(rendered["/gone"], plain["/gone"], "one place, at its line in the HTML");
    let by_script = &rendered["/gone-by-script"];
    assert_eq!((&by_script[0]["line"], &by_script[0]["text"]), (&0.into(), &"later".into()));
    let pages = web.log()[begun..].iter().filter(|request| request.path == "/").count();
    assert_eq!(pages, 1, "the page is requested once");
    // A resource of the rendered page that leads nowhere is not asked for without the flag.
    let text = argiope(folder.path(), &["check", &root, "--render", "always"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains(&format!("        {root}  \"later\"\n")), "without a line: {text}");
}

#[test]
fn check_without_a_browser_is_an_error_of_usage_and_creates_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_web, root) = start();
    let arguments = ["check", &root, "--render", "always", "--browser", "/nonexistent", "-d", "a.crawl"];
    let output = argiope(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("/nonexistent is not a program"), "{message}");
    assert!(!folder.path().join("a.crawl").exists());
}

#[test]
#[ignore = "needs headless-shell"]
fn audit_compares_rendered_pages_with_their_responses() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_web, root) = start();
    let by_script =
        ["title-by-script", "canonical-by-script", "noindex-by-script", "links-by-script", "text-by-script"];
    let audit = |directory: &str| {
        let output = argiope(folder.path(), &["audit", directory, "--format", "json"]);
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    crawl(folder.path(), &[&root, "-d", "plain.crawl"]);
    let unjudged = audit("plain.crawl")["not_judged"].clone();
    let of_scripts =
        |entry: &&Value| entry["ids"].as_array().is_some_and(|ids| ids.contains(&"links-by-script".into()));
    let entry = unjudged.as_array().expect("a list").iter().find(of_scripts).expect("not judged without a browser");
    assert_eq!(entry["ids"].as_array().map(Vec::len), Some(by_script.len()));
    crawl(folder.path(), &[&root, "-d", "a.crawl", "--render", "always"]);
    let found = audit("a.crawl");
    assert!(!found["not_judged"].to_string().contains("by-script"), "{found}");
    let pages = |id: &str| {
        let finding = found["findings"].as_array().expect("findings").iter().find(|finding| finding["id"] == id);
        let pages = finding.unwrap_or_else(|| panic!("{id} in {found}"))["pages"].as_array().expect("pages").clone();
        let page = |page: &Value| {
            let detail = page["detail"].as_str().expect("a detail").replace(&root, "/");
            (page["url"].as_str().expect("a URL").replacen(&root, "/", 1), detail)
        };
        pages.iter().map(page).collect::<BTreeMap<String, String>>()
    };
    let one = |detail: &str| BTreeMap::from([("/".to_owned(), detail.to_owned())]);
    assert_eq!(pages("title-by-script"), one("\"Rendered\", in the HTML \"Static\""));
    assert_eq!(pages("canonical-by-script"), one("\"/rendered\", in the HTML \"/static\""));
    assert_eq!(pages("noindex-by-script"), one("added"));
    assert_eq!(pages("text-by-script").keys().collect::<Vec<_>>(), ["/"]);
    assert_eq!(pages("links-by-script").keys().collect::<Vec<_>>(), ["/", "/good"]);
}
