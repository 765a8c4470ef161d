//! A crawl from the command line, exported in every form, read by other people's programs.

mod readers;

use std::path::Path;
use std::process::{Command, Output};

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use serde_json::Value;

fn argiope(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_argiope")).args(arguments).output().expect("the command was built")
}

fn stdout(arguments: &[&str]) -> String {
    let output = argiope(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A site with a formula for a title, a redirect, a page that nobody should list, and a page that two others link to.
fn web() -> (RunningWeb, String) {
    let page = |title: &str, body: &str| Response::html(format!("<title>{title}</title>{body}"));
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    let site = site
        .robots("User-agent: *\nDisallow: /secret\n")
        .page(
            "/",
            page("Start", "<a href=/formula>f</a><a href=/moved>m</a><a href=/hidden>h</a><a href=/secret>s</a>"),
        )
        .page("/formula", page("=1+1,\"x\"", "<a href=/shared?a=1&amp;b=2>s</a><a rel=nofollow href=/no>n</a>"))
        .page("/hidden", page("Hidden", "<meta name=robots content=noindex><a href=/shared?a=1&amp;b=2>s</a>"))
        .page("/shared?a=1&b=2", page("Shared", "").last_modified("Tue, 15 Nov 1994 12:45:26 GMT"))
        .redirect("/moved", "/shared?a=1&b=2", 302)
        .fallback(Response::status(404));
    (PracticeWeb::new().site(site).start().expect("the web is served"), root)
}

fn crawl(directory: &Path, root: &str, more: &[&str]) {
    let directory = directory.to_str().expect("UTF-8");
    stdout(&[&["crawl", root, "-d", directory, "-q", "--allow-private"], more].concat());
}

#[test]
fn every_form_tells_the_same_crawl() {
    let (_web, root) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let jsonl = folder.path().join("pages.jsonl");
    crawl(&directory, &root, &["--warc", "--with", "links", "--jsonl", jsonl.to_str().expect("UTF-8")]);
    let export = |format: &str| stdout(&["export", directory.to_str().expect("UTF-8"), "--format", format]);
    let base = root.trim_end_matches('/');

    let lines = export("jsonl");
    assert_eq!(lines, std::fs::read_to_string(&jsonl).expect("records"), "all that the crawl wrote");
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let pages: Vec<&Value> = records.iter().filter(|record| record["type"] == "page").collect();
    assert_eq!(pages.len(), 6, "{lines}");

    let csv = export("csv");
    assert!(csv.starts_with("url,status,outcome,"), "{csv}");
    assert_eq!(csv.matches("\r\n").count(), 7);
    assert!(csv.contains(",\"'=1+1,\"\"x\"\"\","), "no formula:\n{csv}");

    let links = export("links");
    assert!(links.contains(&format!("{base}/formula,{base}/shared?a=1&b=2,anchor,false\r\n")), "{links}");
    assert!(links.contains(&format!("{base}/hidden,{base}/shared?a=1&b=2,anchor,false\r\n")), "{links}");
    assert!(links.contains(&format!("{base}/formula,{base}/no,anchor,true\r\n")), "{links}");
    assert!(links.contains(&format!("{base}/moved,{base}/shared?a=1&b=2,redirect,false\r\n")), "{links}");

    let graph = folder.path().join("g.graphml");
    stdout(&["export", directory.to_str().expect("UTF-8"), "--format", "links", "-o", graph.to_str().expect("UTF-8")]);
    let graph_text = std::fs::read_to_string(&graph).expect("GraphML");
    assert_eq!(graph_text, export("graphml"));
    assert_eq!(graph_text.matches("<edge ").count(), links.lines().count() - 1);
    assert_eq!(graph_text.matches(&format!("<node id=\"{base}/shared?a=1&amp;b=2\"/>")).count(), 1);

    let sitemap = export("sitemap");
    let expected = format!("<url><loc>{base}/shared?a=1&amp;b=2</loc><lastmod>1994-11-15T12:45:26Z</lastmod></url>\n");
    assert!(sitemap.contains(&expected), "{sitemap}");
    assert_eq!(sitemap.matches("<url>").count(), 3, "not the redirect, nor what asks to be left out:\n{sitemap}");
}

#[test]
#[ignore = "needs python"]
fn foreign_readers_find_the_same_crawl() {
    let (_web, root) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let jsonl = folder.path().join("pages.jsonl");
    crawl(&directory, &root, &["--warc", "--with", "links", "--jsonl", jsonl.to_str().expect("UTF-8")]);
    let export = |format: &str, name: &str| {
        let file = folder.path().join(name);
        let (directory, target) = (directory.to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
        stdout(&["export", directory, "--format", format, "-o", target]);
        file
    };
    readers::run("tables.py", &[&export("parquet", "pages.parquet"), &jsonl, &export("links", "g.graphml")]);
    readers::run("index.py", &[&directory.join("archive"), &export("cdxj", "index.cdxj")]);
}

#[test]
fn without_all_links_the_graph_is_how_pages_were_found() {
    let (_web, root) = web();
    let folder = tempfile::tempdir().expect("a folder");
    crawl(folder.path(), &root, &[]);
    let links = stdout(&["export", folder.path().to_str().expect("UTF-8"), "--format", "links"]);
    let targets: Vec<&str> = links.lines().skip(1).filter_map(|line| line.split(',').nth(1)).collect();
    assert_eq!(targets.iter().filter(|target| target.ends_with("/hidden")).count(), 1, "{links}");
    assert!(!links.contains("/no,"), "nofollow links were not kept:\n{links}");
}

#[test]
fn what_is_no_crawl_directory_is_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out.csv");
    std::fs::write(&file, "mine").expect("written");
    let (directory, file_name) = (folder.path().to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
    let output = argiope(&["export", directory, "--format", "csv", "-o", file_name]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint.contains("is not a crawl directory"), "{complaint}");
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), "mine");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}
