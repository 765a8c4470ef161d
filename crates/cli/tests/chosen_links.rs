//! Which links of a page are followed: links in the data of scripts, `--pick` and `--next`, `--only` and `--since`.

use std::path::Path;
use std::process::{Command, Output};

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};

fn argiope(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_argiope")).args(arguments).output().expect("the command was built")
}

/// What a command prints.
fn printed(arguments: &[&str]) -> String {
    let output = argiope(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn as_text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The paths of pages that were requested, sorted.
fn requested(web: &RunningWeb) -> Vec<String> {
    let is_page = |path: &String| !path.starts_with("/robots.txt") && !path.starts_with("/sitemap");
    let mut paths: Vec<String> = web.log().into_iter().map(|request| request.path).filter(is_page).collect();
    paths.sort();
    paths
}

/// Serves pages of HTML, and a robots.txt that names a sitemap.
fn serve(pages: &[(&str, &str)], sitemap: Option<&str>) -> (RunningWeb, String) {
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    let site = pages.iter().fold(site, |site, (path, body)| site.page(path, Response::html(*body)));
    let site = match sitemap {
        Some(entries) => site
            .robots(&format!("Sitemap: {root}sitemap.xml\n"))
            .page("/sitemap.xml", Response::bytes(entries.replace("ROOT", &root)).content_type("application/xml")),
        None => site,
    };
    (PracticeWeb::new().site(site.fallback(Response::status(404))).start().expect("the web is served"), root)
}

#[test]
fn links_in_the_data_of_scripts_are_recorded_and_followed_if_asked_for() {
    let home = r#"<a href="/linked">x</a><script type="application/json">{"items":[{"href":"/linked"},{"path":"/a"},
        {"imageUrl":"/b.png"}]}</script><script>window.__STATE__={"more":[{"url":"/b"}]};</script>"#;
    let (web, root) = serve(&[("/", home), ("/linked", ""), ("/a", ""), ("/b", "")], None);
    let folder = tempfile::tempdir().expect("a folder");
    let directory = as_text(folder.path());
    let crawl = ["crawl", &root, "-d", directory, "-q", "--delay", "0s"];
    printed(&crawl);
    assert_eq!(requested(&web), ["/", "/linked"]);
    let links = printed(&["export", directory, "--format", "links"]);
    assert!(links.contains(&format!("{root}a,data")) && links.contains(&format!("{root}b,data")), "{links}");
    assert!(!links.contains("linked,data"), "a link that the page has otherwise is listed once: {links}");
    let explained = printed(&["explain", directory, "/a"]);
    assert!(explained.contains("in the data of scripts; --follow data follows them"), "{explained}");

    // The same directory resumes with the other setting, and the known links are judged again.
    printed(&[&crawl[..], &["--follow", "data"]].concat());
    assert_eq!(requested(&web), ["/", "/a", "/b", "/linked"]);
    let explained = printed(&["explain", directory, "/a"]);
    assert!(explained.contains("links (data) to"), "{explained}");
}

const PAGE_OF_LIST: &str = "<nav><a href=/about>About</a></nav><ul class=items><li><a href=/item/N?x=1&sid=7>item</a></ul>\
    <p class=pager><a href=/list/NEXT>more</a> <a href=/list/1>first</a>";

#[test]
fn a_list_is_followed_from_page_to_page_up_to_a_limit() {
    let list = |page: usize| PAGE_OF_LIST.replace("NEXT", &(page + 1).to_string()).replace('N', &page.to_string());
    let pages: Vec<(String, String)> = (1..=9)
        .flat_map(|page| {
            [(format!("/list/{page}"), list(page)), (format!("/item/{page}?x=1"), "<a href=/deep>".into())]
        })
        .collect();
    let pages: Vec<(&str, &str)> = pages.iter().map(|(path, body)| (&**path, &**body)).collect();
    let (web, root) = serve(&pages, None);
    let folder = tempfile::tempdir().expect("a folder");
    let directory = as_text(folder.path());
    let start = format!("{root}list/1");
    let crawl = ["crawl", &start, "-d", directory, "-q", "--delay", "0s", "--strip-param", "sid"];
    let choice = ["--pick", ".items", "--next", ".pager a", "--max-next", "2", "--exclude", "/deep"];
    let output = argiope(&[&crawl[..], &choice].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = ["/item/1?x=1", "/item/2?x=1", "/item/3?x=1", "/list/1", "/list/2", "/list/3"];
    assert_eq!(requested(&web), expected);
    for path in ["/about", "/list/4"] {
        let explained = printed(&["explain", directory, path]);
        assert!(explained.contains("not among the links that --pick and --next choose"), "{path}: {explained}");
    }
    // The directory keeps the choice.
    printed(&[&crawl[..], &choice].concat());
    assert_eq!(requested(&web), expected);
    let other = argiope(&[&crawl[..], &["--exclude", "/deep"]].concat());
    assert_eq!(other.status.code(), Some(2), "another choice needs another directory");

    let wrong = argiope(&["crawl", &start, "--pick", "a["]);
    let message = String::from_utf8_lossy(&wrong.stderr);
    assert!(wrong.status.code() == Some(2) && message.contains("--pick"), "{message}");
}

#[test]
fn a_crawl_can_be_limited_to_what_sitemaps_list() {
    let sitemap = "<urlset><url><loc>ROOTnew</loc><lastmod>2026-03-01</lastmod></url>\
        <url><loc>ROOTold</loc><lastmod>2025-12-31</lastmod></url><url><loc>ROOTundated</loc></url></urlset>";
    let pages = ["/", "/new", "/old", "/undated", "/linked"].map(|path| (path, "<a href=/linked>x</a>"));
    let (web, root) = serve(&pages, Some(sitemap));
    let folder = tempfile::tempdir().expect("a folder");
    let directory = as_text(folder.path());
    let crawl = ["crawl", &root, "-d", directory, "-q", "--delay", "0s"];
    printed(&[&crawl[..], &["--only", "sitemap", "--since", "2026-01-01"]].concat());
    assert_eq!(requested(&web), ["/", "/new", "/undated"]);
    let explained = printed(&["explain", directory, "/old"]);
    assert!(explained.contains("entries of a sitemap with a date before --since"), "{explained}");
    let explained = printed(&["explain", directory, "/linked"]);
    assert!(explained.contains("rule kind: "), "{explained}");

    let bad = argiope(&["crawl", &root, "--since", "yesterday"]);
    let message = String::from_utf8_lossy(&bad.stderr);
    assert!(bad.status.code() == Some(2) && message.contains("write a date such as 2026-01-31"), "{message}");
    let contrary = argiope(&["crawl", &root, "--only", "sitemap", "--no-sitemap"]);
    assert_eq!(contrary.status.code(), Some(2));
}

#[test]
fn texts_of_new_and_changed_pages_alone_can_be_exported() {
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    let text = |words: &str| Response::html(format!("<main><p>{words} of a spider that weaves an orb</p></main>"));
    let site = site
        .sequence("/", [Response::links(["/same", "/changed"]), Response::links(["/same", "/changed", "/new"])])
        .page("/same", text("the same text"))
        .sequence("/changed", [text("the first text"), text("another text")])
        .page("/new", text("a new text"))
        .fallback(Response::status(404));
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("d.crawl");
    let directory = as_text(&directory);
    let crawl = ["crawl", &root, "-d", directory, "-q", "--delay", "0s", "--warc"];
    let export = |status: &str, more: &[&str]| {
        printed(&[&["export", directory, "--format", "text", "--status", status], more].concat())
    };
    printed(&crawl);
    assert!(export("changed", &[]).is_empty(), "in the first round every page is new");
    printed(&[&crawl[..], &["--recrawl"]].concat());
    let lines = export("new,changed", &[]);
    assert!(lines.contains("another text of") && lines.contains("a new text of"), "{lines}");
    assert!(!lines.contains("the same text"), "{lines}");
    let files = folder.path().join("texts");
    export("new", &["-o", &format!("{}/", as_text(&files))]);
    let written = std::fs::read_to_string(files.join("new.txt")).or_else(|_| {
        let host = std::fs::read_dir(&files).expect("a folder").flatten().next().expect("a folder of the host").path();
        std::fs::read_to_string(host.join("new.txt"))
    });
    assert!(written.expect("the file of the new page").contains("a new text of"));
}
