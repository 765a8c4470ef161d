//! `argiope explain` and `argiope report` on finished crawls and on a running one.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};

fn argiope(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_argiope")).args(arguments).output().expect("the command was built")
}

fn stdout(arguments: &[&str]) -> String {
    let output = argiope(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn as_text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn web() -> (RunningWeb, String) {
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    let site = site
        .robots("User-agent: *\nCrawl-delay: 0\nDisallow: /secret\nAllow: /\n")
        .page("/", Response::links(["/one", "/secret/x", "/skip/me", "http://other.example/"]))
        .page("/one", Response::links(["/two"]))
        .redirect("/two", "/three", 301)
        .page("/three", Response::links(["/missing"]))
        .fallback(Response::status(404));
    (PracticeWeb::new().site(site).start().expect("the web is served"), root)
}

#[test]
fn an_explanation_has_all_its_parts() {
    let (_web, root) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = as_text(folder.path());
    argiope(&["crawl", &root, "-d", directory, "-q", "--exclude", "/skip/"]);
    let base = root.trim_end_matches('/');
    let explain = |url: &str| stdout(&["explain", directory, url]);

    let missing = explain(&format!("{base}/./missing#part"));
    for part in [
        format!("url         {base}/missing\n"),
        "verdict     http_error\n".into(),
        ", 404 ".into(),
        "; requested once, last at 2".into(),
        "in scope (--scope host)\n".into(),
        "allowed by line 4: ".into(),
        ": 6 URLs known, 6 finished, 0 queued".into(),
        format!("found       {base}/: a root, links (anchor) to\n"),
        format!("            {base}/one: links (anchor) to\n"),
        format!("            {base}/two: redirects to\n"),
        format!("            {base}/three: links (anchor) to\n"),
        format!("            {base}/missing: this URL\n"),
        format!("linked from 1 page\n            {base}/three\n"),
    ] {
        assert!(missing.contains(&part), "{part:?} is missing:\n{missing}");
    }
    assert_eq!(explain("/missing"), missing, "a path alone is on the host of the first root");
    let secret = explain(&format!("{base}/secret/x"));
    assert!(secret.contains("verdict     robots\n") && secret.contains("disallowed by line 3: "), "{secret}");
    let excluded = explain(&format!("{base}/skip/me"));
    assert!(excluded.contains("verdict     out_of_scope\n"), "{excluded}");
    assert!(excluded.contains("rule exclude: matches an --exclude pattern: /skip/;"), "{excluded}");
    let other = explain("other.example");
    assert!(other.contains("url         https://other.example/\n") && other.contains("rule host: "), "{other}");
    assert!(other.contains("this host was never seen"), "{other}");
    let unseen = explain(&format!("{base}/secret/unseen"));
    assert!(unseen.contains("verdict     never_seen\n") && unseen.contains("disallowed by line 3: "), "{unseen}");
    assert!(unseen.contains("in scope (--scope host)\n"), "{unseen}");

    let bad = argiope(&["explain", directory, "mailto://"]);
    assert_eq!(bad.status.code(), Some(2), "{}", String::from_utf8_lossy(&bad.stderr));
    let file = folder.path().join("afile");
    std::fs::write(&file, "x").expect("written");
    for command in [vec!["report"], vec!["explain"]] {
        let mut arguments = command.clone();
        arguments.push(file.to_str().expect("UTF-8"));
        arguments.extend((command == ["explain"]).then_some("/x"));
        let stderr = String::from_utf8(argiope(&arguments).stderr).expect("UTF-8");
        assert!(stderr.ends_with("afile is a file, not a crawl directory\n"), "{stderr}");
    }
    let nowhere = argiope(&["explain", "/nonexistent", &root]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("is not a crawl directory: it does not exist"));
}

/// Why links are not followed, at which depth, and where redirects lead.
#[test]
fn nofollow_depth_and_redirect_loops_are_explained() {
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    let site = site
        .page(
            "/",
            Response::html("<a href=/one>1</a><a rel=nofollow href=/shy>2</a><img src=/pic.png><a href=/a>l</a>"),
        )
        .page("/one", Response::html("<a href=/two>2</a>"))
        .page("/two", Response::html("<a href=/three>3</a>"))
        .redirect("/a", "/b", 302)
        .redirect("/b", "/c", 302)
        .redirect("/c", "/a", 302)
        .fallback(Response::status(404));
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = as_text(folder.path());
    argiope(&["crawl", &root, "-d", directory, "-q", "--depth", "2"]);
    let explain = |url: &str| stdout(&["explain", directory, url]);
    let deep = explain("/three");
    assert!(deep.contains("verdict     out_of_scope\n") && deep.contains("rule depth"), "{deep}");
    let shy = explain("/shy");
    assert!(
        shy.contains("verdict     never_seen\n") && shy.contains("links       not followed: marked nofollow;"),
        "{shy}"
    );
    let image = explain("/pic.png");
    assert!(image.contains("not followed: images") && image.contains("--assets"), "{image}");
    let unlinked = explain("/nowhere");
    assert!(!unlinked.contains("not followed:"), "{unlinked}");
    let first = explain("/a");
    let base = root.trim_end_matches('/');
    let words = format!("redirects   to {base}/b, then to {base}/c, and back to {base}/a: a loop");
    assert!(first.contains(&words), "{first}");
}

#[test]
fn an_entry_of_a_sitemap_is_explained_by_the_scope_that_rejected_it() {
    let site = Site::http("127.7.3.200:0").expect("a socket");
    let root = site.url("/");
    let base = root.trim_end_matches('/').to_owned();
    let list =
        format!("<urlset><url><loc>{base}/listed</loc></url><url><loc>http://other.example/x</loc></url></urlset>");
    let site = site
        .robots(&format!("Sitemap: {base}/s.xml\n"))
        .page("/s.xml", Response::text(list).content_type("application/xml"))
        .page("/", Response::html("x"));
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = as_text(folder.path());
    argiope(&["crawl", &root, "-d", directory, "-q", "--scope", "page"]);
    let listed = stdout(&["explain", directory, "/listed"]);
    assert!(listed.contains("out of scope, rule page: not one of the roots"), "{listed}");
    assert!(!listed.contains("another site"), "{listed}");
    let foreign = stdout(&["explain", directory, "http://other.example/x"]);
    assert!(foreign.contains("another site"), "{foreign}");
}

#[test]
fn the_report_can_be_printed_again_as_text_and_html() {
    let (_web, root) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("site.crawl");
    let crawl = argiope(&["crawl", &root, "-d", as_text(&directory), "--no-progress", "-vv"]);
    let report = stdout(&["report", as_text(&directory)]);
    assert!(report.starts_with("Finished after ") && report.contains(": 6 pages from 1 host, "), "{report}");
    // Times are rounded in records, so only lists without times are compared.
    let lists_of = |text: &str| {
        let lists = text.lines().skip_while(|line| !line.starts_with("Broken links"));
        lists.take_while(|line| !line.starts_with("Slowest pages")).collect::<Vec<_>>().join("\n")
    };
    let at_the_end = lists_of(&String::from_utf8_lossy(&crawl.stderr));
    assert_eq!(lists_of(&report), at_the_end, "the same lists as at the crawl's end");
    let page = folder.path().join("r.html");
    stdout(&["report", as_text(&directory), "--html", as_text(&page)]);
    let page = std::fs::read_to_string(&page).expect("a page");
    let title = format!("<title>Crawl of {}</title>", root.trim_start_matches("http://").trim_end_matches('/'));
    assert!(page.starts_with("<!doctype html>") && page.contains(&title), "{page}");
    assert!(page.contains("/missing</a></td><td>404 Not Found</td>"), "{page}");
}

/// The live view shows only the busiest hosts. `explain` shows the pace of any host.
#[test]
fn the_pace_of_any_host_of_a_running_crawl_is_explained() {
    let busy: Vec<Site> = (1..=60)
        .map(|number| {
            let site = Site::http(&format!("127.7.3.{number}:0")).expect("a socket").robots("");
            site.page("/", Response::links(["/a", "/b"])).fallback(Response::hang())
        })
        .collect();
    let quiet = Site::http("127.7.4.1:0").expect("a socket").robots("");
    let quiet_root = quiet.url("/");
    let quiet = quiet.page("/", Response::hang());
    let roots: Vec<String> = busy.iter().map(|site| site.url("/")).chain([quiet_root.clone()]).collect();
    let web = busy.into_iter().fold(PracticeWeb::new().site(quiet), PracticeWeb::site);
    let web = web.start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = as_text(folder.path());
    let mut crawl = Command::new(env!("CARGO_BIN_EXE_argiope"))
        .args(["crawl", "-d", directory, "-q", "--pace", "full", "--allow-private"])
        .args(&roots)
        .spawn()
        .expect("the command was built");
    // robots.txt, the root and two pages of each busy host; robots.txt and the root of the other one.
    assert!(web.wait_requests(60 * 4 + 2, Duration::from_secs(20)), "{} requests", web.requests());
    // The first commit creates the directory.
    let is_committed = || folder.path().join("crawl.json").exists();
    assert!(web.wait_until(Duration::from_secs(20), |_| is_committed()), "nothing was committed");
    // The server may see a request before the crawl's status counts it.
    let mut explanation = String::new();
    let is_explained = web.wait_until(Duration::from_secs(20), |_| {
        explanation = stdout(&["explain", directory, &quiet_root]);
        explanation.contains("\npace        1 of ")
    });
    crawl.kill().expect("the process is killed");
    crawl.wait().expect("the process ends");
    assert!(is_explained, "{explanation}");
}

#[test]
fn a_directory_that_is_being_crawled_can_be_read() {
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    let site =
        site.page("/", Response::links(["/slow"])).page("/slow", Response::hang()).fallback(Response::status(404));
    let web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = as_text(folder.path());
    let mut crawl = Command::new(env!("CARGO_BIN_EXE_argiope"))
        .args(["crawl", &root, "-d", directory, "-q"])
        .spawn()
        .expect("the command was built");
    // Requests: robots.txt, the root, the page that hangs. By then the commit with the root has started.
    assert!(web.wait_requests(3, Duration::from_secs(20)), "{:?}", web.log());
    let slow = format!("{}slow", root);
    let is_queued = web.wait_until(Duration::from_secs(20), |_| {
        let explanation = argiope(&["explain", directory, &slow]);
        explanation.status.success() && String::from_utf8_lossy(&explanation.stdout).contains("verdict     queued\n")
    });
    let explanation = stdout(&["explain", directory, &slow]);
    assert!(is_queued && explanation.contains(&format!("process {} on ", crawl.id())), "{explanation}");
    let report = stdout(&["report", directory]);
    assert!(report.starts_with("Still running after ") && report.contains("1 URL still queued"), "{report}");
    let lines = stdout(&["export", directory, "--format", "jsonl"]);
    assert!(lines.lines().count() >= 3 && lines.ends_with('\n'), "{lines}");
    crawl.kill().expect("the process is killed");
    crawl.wait().expect("the process ends");
    let report = stdout(&["report", directory]);
    assert!(report.starts_with("Interrupted after "), "{report}");
}

#[test]
fn links_beyond_a_limit_and_pages_beyond_a_limit_are_explained() {
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    let site = site
        .page("/", Response::links(["/one", "/two", "/three"]))
        .page("/one", Response::html("one"))
        .fallback(Response::status(404));
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let (cut, stopped) = (folder.path().join("cut"), folder.path().join("stopped"));
    argiope(&["crawl", &root, "-d", as_text(&cut), "-q", "--max-links", "1"]);
    let explained = stdout(&["explain", as_text(&cut), "/three"]);
    let line = format!(
        "links       1 page with more links than --max-links allows; one of those links may lead here:\n            {root}\n"
    );
    assert!(explained.contains(&line), "{explained}");
    argiope(&["crawl", &root, "-d", as_text(&stopped), "-q", "--max-pages", "2"]);
    let explained = stdout(&["explain", as_text(&stopped), "/three"]);
    let line = "queued: found, not requested yet; the last run ended: stopped at the page limit\n";
    assert!(explained.contains(line), "{explained}");
}
