//! `argiope audit` on a site that has every problem, each next to a page without it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use argiope_practice::{AUDIT_CASES, PracticeWeb, Response, Site, audit_sites};
use serde_json::Value;

fn argiope(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.current_dir(folder).args(arguments).output().expect("the command was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Crawls the site with every problem into `d.crawl`. Returns its root.
fn crawl_site(folder: &Path, more: &[&str]) -> String {
    let [https_site, http_site] = audit_sites().expect("sockets");
    let root = https_site.url("/");
    let web = PracticeWeb::new().site(https_site).site(http_site).start().expect("a server");
    std::fs::write(folder.join("ca.pem"), web.ca_pem()).expect("a file");
    let usual = ["crawl", "-q", "-d", "d.crawl", "--ca-cert", "ca.pem", "--allow-private", &root];
    let output = argiope(folder, &[&usual, more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    root
}

/// The findings of the crawl as JSON; null if they were written to a file.
fn audit(folder: &Path, more: &[&str]) -> Value {
    // The slow page of the site takes longer than this.
    let usual = ["audit", "d.crawl", "--format", "json", "--slow", "600ms"];
    let output = argiope(folder, &[&usual, more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    if output.stdout.is_empty() { Value::Null } else { serde_json::from_slice(&output.stdout).expect("JSON") }
}

#[test]
fn every_problem_is_found_and_clean_pages_have_no_findings() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = crawl_site(folder.path(), &["--sitemap", "--assets"]);
    let found = audit(folder.path(), &[]);
    let mut pages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for finding in found["findings"].as_array().expect("findings") {
        let urls = finding["pages"].as_array().expect("pages").iter();
        let urls = urls.map(|page| page["url"].as_str().expect("a URL").replacen(&root, "/", 1)).collect();
        pages.insert(finding["id"].as_str().expect("an id").to_owned(), urls);
    }
    let unjudged: BTreeSet<&str> = found["not_judged"]
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(|entry| entry["ids"].as_array().expect("ids"))
        .filter_map(Value::as_str)
        .collect();
    for case in AUDIT_CASES.iter().filter(|case| !unjudged.contains(case.id)) {
        let found = pages.get(case.id).cloned().unwrap_or_default();
        for path in case.faulty {
            assert!(found.contains(*path), "{}: {path} is not found among {found:?}", case.id);
        }
        for path in case.clean {
            assert!(!found.contains(*path), "{}: {path} is found", case.id);
        }
    }
    // Every finding that the command knows has a page that shows it, or is listed as not judged. The findings of `check` are
    // tested with that command.
    let of_check = ["external-broken", "fragment-missing"];
    // Those that need a browser are tested with rendered pages.
    let of_scripts =
        ["title-by-script", "canonical-by-script", "noindex-by-script", "links-by-script", "text-by-script"];
    let listed = text(&argiope(folder.path(), &["audit", "--list"]).stdout);
    for id in listed.lines().filter_map(|line| line.split_whitespace().next()) {
        let is_tested = AUDIT_CASES.iter().any(|case| case.id == id) || of_check.contains(&id);
        assert!(is_tested || unjudged.contains(id), "{id} has no page");
    }
    let unread = ["orphan", "sitemap-missing"];
    let expected: BTreeSet<&str> = of_scripts.into_iter().chain(of_check).chain(unread).collect();
    assert_eq!(unjudged, expected, "a page answers with an error, a sitemap is cut, and links were not checked");
    let faulty_robots = format!("{root}robots.txt");
    let robots = found["findings"].as_array().expect("findings").iter().find(|finding| finding["id"] == "robots-fault");
    let files: Vec<&str> = robots.expect("found")["pages"]
        .as_array()
        .expect("pages")
        .iter()
        .filter_map(|page| page["url"].as_str())
        .collect();
    assert_eq!(files, [faulty_robots.as_str()], "robots.txt of the http site has no fault");
    for case in AUDIT_CASES.iter().filter(|case| case.id != "robots-fault") {
        assert!(!case.faulty.is_empty() && !case.clean.is_empty(), "{} lacks a page", case.id);
    }
    let near = found["findings"].as_array().expect("findings").iter().find(|finding| finding["id"] == "near-duplicate");
    let near = &near.expect("found")["pages"];
    assert_eq!(near[0]["detail"], format!("like {}", near[1]["url"].as_str().expect("a URL")));
}

#[test]
fn findings_that_cannot_be_judged_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    crawl_site(folder.path(), &["--no-sitemap"]);
    let unjudged = audit(folder.path(), &[])["not_judged"].to_string();
    for word in ["orphan", "broken-resource", "--assets", "sitemap-error", "--sitemap"] {
        assert!(unjudged.contains(word), "{word}: {unjudged}");
    }
}

#[test]
fn findings_outside_of_the_baseline_give_exit_code_3() {
    let folder = tempfile::tempdir().expect("a folder");
    crawl_site(folder.path(), &[]);
    let code = |more: &[&str]| argiope(folder.path(), &[&["audit", "d.crawl"], more].concat()).status.code();
    assert_eq!(code(&[]), Some(0));
    assert_eq!(code(&["--fail-on", "redirect-loop,title-missing"]), Some(3));
    assert_eq!(code(&["--fail-on", "error"]), Some(3));
    assert_eq!(code(&["--fail-on", "image-large"]), Some(0), "no images were fetched");
    assert_eq!(code(&["--fail-on", "no-such-thing"]), Some(2));
    assert_eq!(code(&["--only", "error", "--fail-on", "error"]), Some(2), "--only takes no severity");
    std::fs::write(folder.path().join("known.json"), audit(folder.path(), &[]).to_string()).expect("a file");
    let all = ["--fail-on", "notice", "--baseline", "known.json", "--slow", "600ms"];
    assert_eq!(code(&all), Some(0));
    assert_eq!(code(&["--baseline", "missing.json"]), Some(2));
    let mut known = audit(folder.path(), &[]);
    known["findings"][0]["pages"] = Value::Array(Vec::new());
    std::fs::write(folder.path().join("known.json"), known.to_string()).expect("a file");
    assert_eq!(code(&all), Some(3));
    assert_eq!(code(&["--baseline", "d.crawl/crawl.json"]), Some(2));
    assert_eq!(argiope(folder.path(), &["audit", "nowhere"]).status.code(), Some(1));
}

#[test]
fn a_baseline_contains_all_pages_of_a_finding() {
    let folder = tempfile::tempdir().expect("a folder");
    // More pages than the audit lists for a finding by default.
    let links: Vec<String> = (0..1_050).map(|page| format!("/{page}")).collect();
    let site = Site::http("127.0.0.1:0").expect("a socket").page("/", Response::links(links));
    let site = site.fallback(Response::html("<p>no title</p>"));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    let output =
        argiope(folder.path(), &["crawl", "-q", "-d", "d.crawl", "--pace", "full", "--robots", "ignore", &root]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = audit(folder.path(), &["-o", "known.json"]);
    assert!(found.is_null(), "it is in the file");
    let known = ["audit", "d.crawl", "--baseline", "known.json", "--fail-on", "title-missing"];
    let again = argiope(folder.path(), &known);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stdout));
    let listed = argiope(folder.path(), &["audit", "--list"]);
    assert!(listed.status.success() && text(&listed.stdout).contains("near-duplicate"), "no directory is needed");
}

#[test]
fn text_csv_and_markdown_list_the_findings() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = crawl_site(folder.path(), &[]);
    let gone = format!("{root}broken-link/gone");
    for format in ["text", "csv", "markdown"] {
        let output = argiope(folder.path(), &["audit", "d.crawl", "--format", format]);
        // Markdown shows URLs as text and not as links.
        let shown = text(&output.stdout).replace(":&#47;/", "://");
        assert!(shown.contains("broken-link") && shown.contains(&gone), "{format}: {shown}");
    }
    let only =
        text(&argiope(folder.path(), &["audit", "d.crawl", "--only", "title-missing", "--format", "csv"]).stdout);
    assert_eq!(only.lines().count(), 2, "{only}");
    for (format, code) in [("csv", 0), ("json", 2)] {
        let output = argiope(folder.path(), &["audit", "d.crawl", "--raw-csv", "--format", format]);
        assert_eq!(output.status.code(), Some(code), "{format}: {}", text(&output.stderr));
    }
}

/// All entries of sitemaps are in the link graph, and faulty sitemaps are in report and audit.
#[test]
fn sitemaps_are_in_the_link_graph_and_their_faults_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let (root, at) = (site.url("/"), |path: &str| site.url(path));
    let index = format!(
        "<sitemapindex><sitemap><loc>{}</loc></sitemap><sitemap><loc>{}</loc></sitemap></sitemapindex>",
        at("/good.xml"),
        at("/cut.xml")
    );
    let good =
        format!("<urlset><url><loc>{}</loc></url><url><loc>http://other.invalid/x</loc></url></urlset>", at("/listed"));
    let cut = format!("<urlset><url><loc>{}</loc></url><url><loc>http:", at("/part"));
    let xml = |text: String| Response::bytes(text.into_bytes()).content_type("application/xml");
    let rows = [
        format!("{},{},sitemap_file,false", at("/sitemap.xml"), at("/good.xml")),
        format!("{},{},sitemap,false", at("/good.xml"), at("/listed")),
        format!("{},http://other.invalid/x,sitemap,false", at("/good.xml")),
        format!("{},{},sitemap,false", at("/cut.xml"), at("/part")),
    ];
    let cut_url = at("/cut.xml");
    let site = site
        .page("/", Response::html("<title>A root</title>"))
        .page("/listed", Response::html("<title>A page of the sitemap</title>"))
        .page("/part", Response::html("<title>A page of the other one</title>"))
        .page("/sitemap.xml", xml(index))
        .page("/good.xml", xml(good))
        .page("/cut.xml", xml(cut))
        .fallback(Response::status(404));
    let web = PracticeWeb::new().site(site).start().expect("a server");
    let crawl = ["crawl", &root, "-d", "d.crawl", "--sitemap", "--with", "links", "--jsonl", "-"];
    let done = argiope(folder.path(), &crawl);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let fault = "the XML is incomplete; the part before it was used";
    let expected_section = format!("Sitemaps with faults (1)\n  {cut_url}: {fault}\n");
    assert!(text(&done.stderr).contains(&expected_section), "{}", text(&done.stderr));
    let records = text(&done.stdout);
    let good = records.lines().find(|line| line.contains("good.xml\",\"status\"")).expect("a record");
    assert!(good.contains("http://other.invalid/x"), "{good}");
    let links = text(&argiope(folder.path(), &["export", "d.crawl", "--format", "links"]).stdout);
    for row in rows {
        assert!(links.contains(&row), "{row} is missing:\n{links}");
    }
    let report = text(&argiope(folder.path(), &["report", "d.crawl"]).stdout);
    assert!(report.contains(&expected_section), "{report}");
    let found = audit(folder.path(), &["--only", "sitemap-fault"]);
    let pages = found["findings"][0]["pages"].as_array().expect("pages");
    let urls: Vec<&str> = pages.iter().filter_map(|page| page["url"].as_str()).collect();
    assert_eq!(urls, [cut_url.as_str()], "{found}");
    assert_eq!(pages[0]["detail"], fault, "{found}");
    let explained = text(&argiope(folder.path(), &["explain", "d.crawl", &cut_url]).stdout);
    assert!(explained.contains("verdict     ok") && !explained.contains("not followed"), "{explained}");
    // Another scope does not let a sitemap add pages of other sites.
    let requests = web.requests();
    let more = ["crawl", &root, "-d", "d.crawl", "--sitemap", "--scope", "any", "--retry-wait", "1ms"];
    let stderr = text(&argiope(folder.path(), &more).stderr);
    assert!(stderr.contains("0 more are queued"), "{stderr}");
    assert_eq!(web.requests(), requests);
}

/// A site whose sitemap lists a page that only the last page of a chain links to, and one that is linked by a redirect.
fn crawl_chain(folder: &Path, more: &[&str]) {
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    let listed = ["/far", "/moved-here", "/alone"].map(|path| format!("<url><loc>{}</loc></url>", site.url(path)));
    let xml = Response::bytes(format!("<urlset>{}</urlset>", listed.concat())).content_type("application/xml");
    let page = |link: &str| Response::html(format!("<title>A page of the chain</title><a href='{link}'>next</a>"));
    let site = site
        .page("/", page("/1"))
        .page("/1", page("/2"))
        .page("/2", page("/3"))
        .page("/3", Response::html("<title>The last page</title><a href=/far>far</a><a href=/old>old</a>"))
        .page("/far", page("/"))
        .page("/alone", page("/"))
        .page("/moved-here", page("/"))
        .redirect("/old", "/moved-here", 301)
        .page("/sitemap.xml", xml)
        .fallback(Response::status(404));
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    let output = argiope(folder, &[&["crawl", "-q", "-d", "d.crawl", "--sitemap", &root], more].concat());
    assert!(output.status.code() != Some(2), "{}", text(&output.stderr));
}

#[test]
fn orphans_are_judged_only_if_every_page_was_read() {
    let judged = |more: &[&str]| {
        let folder = tempfile::tempdir().expect("a folder");
        crawl_chain(folder.path(), more);
        let found = audit(folder.path(), &["--only", "orphan"]);
        let pages = found["findings"][0]["pages"].as_array().cloned().unwrap_or_default();
        let urls: Vec<String> = pages.iter().map(|page| page["url"].as_str().unwrap_or("").to_owned()).collect();
        (urls, found["not_judged"].to_string())
    };
    let (orphans, not_judged) = judged(&[]);
    assert!(orphans.len() == 1 && orphans[0].ends_with("/alone"), "{orphans:?}");
    assert!(!not_judged.contains("orphan"), "{not_judged}");
    for (more, why) in [
        (&["--max-pages", "4"][..], "not finished"),
        (&["--depth", "2"], "left out pages"),
        (&["--exclude", "/3$"], "left out pages"),
    ] {
        let (orphans, not_judged) = judged(more);
        assert!(orphans.is_empty(), "{more:?}: {orphans:?}");
        assert!(not_judged.contains("orphan") && not_judged.contains(why), "{more:?}: {not_judged}");
    }
}

/// Crawls a site whose sitemap lists `/lonely`, to which only the page `/hub` links, and whose `/hub` answers so. Returns
/// the orphans, and what was not judged.
fn orphans_with_hub(hub: Response, robots: &str, more: &[&str]) -> (String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    let xml = format!("<urlset><url><loc>{}</loc></url></urlset>", site.url("/lonely"));
    let site = site
        .robots(robots)
        .page("/", Response::html("<title>The first page</title><a href=/hub>hub</a>"))
        .page("/hub", hub)
        .page("/lonely", Response::html("<title>A page that one page links to</title>"))
        .page("/sitemap.xml", Response::bytes(xml).content_type("application/xml"))
        .fallback(Response::status(404));
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    let usual = ["crawl", "-q", "-d", "d.crawl", "--sitemap", "--max-tries", "1", &root];
    argiope(folder.path(), &[&usual, more].concat());
    let found = audit(folder.path(), &["--only", "orphan"]);
    (found["findings"].to_string(), found["not_judged"].to_string())
}

#[test]
fn orphans_are_not_judged_if_a_page_could_not_be_read_whole() {
    let page =
        || Response::html("<title>The hub</title><a href=/>first</a> <a href=/2>two</a> <a href=/lonely>lonely</a>");
    let (orphans, not_judged) = orphans_with_hub(page(), "", &[]);
    assert_eq!((orphans.as_str(), not_judged.contains("orphan")), ("[]", false), "{not_judged}");
    // Links on pages that robots.txt forbids do not count.
    let closed = "User-agent: *\nDisallow: /hub\n";
    for (hub, robots) in [(Response::status(404), ""), (Response::status(410), ""), (page(), closed)] {
        let (orphans, not_judged) = orphans_with_hub(hub, robots, &[]);
        assert!(orphans.contains("/lonely") && !not_judged.contains("orphan"), "{orphans} {not_judged}");
    }
    let application = Response::html("<title>The hub</title><div id=app></div><script src=/app.js></script>");
    for (hub, more, cause) in [
        (Response::status(500), &[][..], "1 answered with an error"),
        (Response::status(403), &[], "1 answered with an error"),
        (page(), &["--max-links", "2"], "1 cut"),
        (page(), &["--max-size", "60"], " cut"),
        (application, &[], "1 empty without scripts"),
    ] {
        let (orphans, not_judged) = orphans_with_hub(hub, "", more);
        assert_eq!(orphans, "[]", "{cause}");
        assert!(not_judged.contains("orphan") && not_judged.contains(cause), "{cause}: {not_judged}");
    }
}

#[test]
fn pages_are_missing_from_a_sitemap_only_if_all_sitemaps_were_read() {
    let index = |urls: &[String]| {
        let listed: String = urls.iter().map(|url| format!("<sitemap><loc>{url}</loc></sitemap>")).collect();
        Response::bytes(format!("<sitemapindex>{listed}</sitemapindex>")).content_type("application/xml")
    };
    let list = |url: &str| {
        Response::bytes(format!("<urlset><url><loc>{url}</loc></url></urlset>")).content_type("application/xml")
    };
    let judged = |second: &dyn Fn(&Site) -> Response| {
        let folder = tempfile::tempdir().expect("a folder");
        let site = Site::http("127.0.0.1:0").expect("a socket");
        let root = site.url("/");
        let (both, deeper) = ([site.url("/a.xml"), site.url("/b.xml")], [site.url("/c.xml")]);
        let (first, second) = (list(&site.url("/one")), second(&site));
        let site = site
            .robots("")
            .page("/", Response::html("<title>The first page</title><a href=/one>1</a> <a href=/two>2</a>"))
            .page("/one", Response::html("<title>The page in the first sitemap</title>"))
            .page("/two", Response::html("<title>The page in the second sitemap</title>"))
            .page("/sitemap.xml", index(&both))
            .page("/a.xml", first)
            .page("/b.xml", second)
            .page("/c.xml", index(&deeper))
            .fallback(Response::status(404));
        let _web = PracticeWeb::new().site(site).start().expect("a server");
        argiope(folder.path(), &["crawl", "-q", "-d", "d.crawl", "--sitemap", "--max-tries", "1", &root]);
        let found = audit(folder.path(), &[]);
        let has = |list: &str, id: &str| found[list].to_string().contains(id);
        (has("findings", "sitemap-missing"), has("not_judged", "sitemap-missing"), has("findings", "sitemap-fault"))
    };
    assert_eq!(judged(&|site| list(&site.url("/two"))), (false, false, false));
    assert_eq!(judged(&|site| list(&site.url("/other"))), (true, false, false));
    assert_eq!(judged(&|_| Response::status(500)), (false, true, true));
    assert_eq!(judged(&|_| Response::status(404)), (true, false, true), "what does not exist lists nothing");
    assert_eq!(judged(&|_| Response::html("log in")), (false, true, true));
    // An index in an index is read, one that is deeper is not.
    assert_eq!(judged(&|site| index(&[site.url("/c.xml")])), (false, true, true));
}
