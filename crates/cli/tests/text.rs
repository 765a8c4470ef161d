//! The text of pages is the same whatever command reads them, and says which part of the page it has.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use serde_json::Value;

const WORDS: &str = "An orb weaver builds a new web every night, and eats the old one before it begins. ";

fn argiope(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_argiope")).args(arguments).output().expect("the command was built")
}

fn stdout(arguments: &[&str]) -> String {
    let output = argiope(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A site of three pages, two of them linked to each other, with its root.
fn web(address: &str) -> (RunningWeb, String) {
    let page = |title: &str, body: &str| {
        Response::html(format!(
            "<!doctype html><html lang=en><title>{title}</title><nav><a href=/>Home</a> <a href=/a/webs.html>Webs</a></nav>\
             <main><h1>{title}</h1>{body}</main><footer>Imprint and so\u{ad}ft hyphens\u{202e}</footer><script>x()</script>"
        ))
    };
    let body = WORDS.repeat(5);
    let site = Site::http(address).expect("a socket");
    let site = site
        .page("/", page("Weavers", &format!("<p>{body}<a href='/a/webs.html#silk'>Silk</a> <a href=/gone>gone</a>")))
        .page(
            "/a/webs.html",
            page("Webs", &format!("<p>so\u{ad}ft\u{202e} {body}<a href=/>Weavers</a><pre>x = 1</pre>")),
        )
        .page("/empty", page("Empty", "<a href=/a/webs.html>only a link</a>"))
        .fallback(Response::html("gone").with_status(404));
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("the web is served"), root)
}

/// Text, Markdown and kept share of each page of JSON Lines.
fn texts(lines: &str) -> BTreeMap<String, [Value; 3]> {
    let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let pages = records.filter(|record| record["kept"].is_number());
    let field = |record: &Value, name: &str| record[name].clone();
    pages
        .map(|page| {
            let url = page["url"].as_str().expect("an address").to_owned();
            (url, [field(&page, "text"), field(&page, "markdown"), field(&page, "kept")])
        })
        .collect()
}

#[test]
fn crawl_export_and_fetch_give_the_same_text_for_each_part_of_a_page() {
    let (_web, root) = web("127.5.34.1:0");
    let folder = tempfile::tempdir().expect("a folder");
    for part in ["main", "full", "p, pre"] {
        let directory = folder.path().join(part.get(..1).expect("a letter")).display().to_string();
        let flags = ["--text", "--markdown", "--content", part];
        let empty = format!("{root}empty");
        let crawled = texts(&stdout(
            &[&["crawl", &root, &empty, "-d", &directory, "--warc", "-q", "--jsonl", "-"], &flags[..]].concat(),
        ));
        assert_eq!(crawled.len(), 3, "{crawled:?}");
        for (format, at) in [("text", 0), ("markdown", 1)] {
            let lines = stdout(&["export", &directory, "--format", format, "--content", part]);
            for (url, exported) in texts(&lines) {
                assert_eq!((&exported[at], &exported[2]), (&crawled[&url][at], &crawled[&url][2]), "{url} {part}");
            }
        }
        let fetched = stdout(&[&["fetch", &root], &flags[..]].concat());
        let (_, record) = fetched.split_once("\nRecord\n").expect("a record");
        let record: Value = serde_json::from_str(record).expect("JSON");
        assert_eq!([&record["text"], &record["markdown"], &record["kept"]], crawled[&root].each_ref(), "{part}");
        let [text, _, kept] = &crawled[&format!("{root}a/webs.html")];
        let (text, kept) = (text.as_str().expect("a text"), kept.as_f64().expect("a share"));
        assert!(text.contains("soft An orb") && text.contains("x = 1"), "{text}");
        assert_eq!(text.contains("Imprint and soft hyphens"), part == "full", "{text}");
        assert_eq!((kept - 1.0).abs() < 1e-9, part == "full", "{kept}");
        assert!((0.8..=1.0).contains(&kept), "{kept}");
    }
    let refused = argiope(&["crawl", &root, "--text", "--content", "p["]);
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
}

#[test]
fn links_of_a_folder_of_markdown_lead_to_its_other_files() {
    let (_web, root) = web("127.5.34.2:0");
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (directory, out) = (at("c"), at("pages/"));
    stdout(&["crawl", &root, "-d", &directory, "--warc", "-q"]);
    stdout(&["export", &directory, "--format", "markdown", "-o", &out]);
    let host = std::fs::read_dir(&out).expect("a folder").flatten().next().expect("a host").path();
    let read = |name: &str| std::fs::read_to_string(host.join(name)).expect("a file");
    let home = read("index.md");
    assert!(home.starts_with(&format!("---\nurl: \"{root}\"\ntitle: \"Weavers\"\n")), "{home}");
    assert!(home.contains("\nlanguage: \"en\"\n") && home.contains("\nstatus: 200\n---\n\n# Weavers\n"), "{home}");
    assert!(home.contains("[Silk](a/webs.md#silk)") && home.contains(&format!("[gone]({root}gone)")), "{home}");
    assert!(read("a/webs.md").contains("[Weavers](../index.md)"));
}

#[test]
fn documents_that_are_not_html_have_text_in_records_and_exports() {
    let pdf = "1 0 obj <</Pages 2 0 R>> endobj 2 0 obj <</Kids [3 0 R]>> endobj 3 0 obj <</Contents 4 0 R \
        /Resources <</Font <</F <</Subtype/Type1>>>>>>>> endobj 4 0 obj <<>> stream\nBT /F 9 Tf (Orb weavers) Tj ET\nendstream \
        endobj trailer <</Root 1 0 R>>";
    let site = Site::http("127.5.34.3:0").expect("a socket");
    let site = site
        .page("/", Response::links(["/a.pdf", "/b.txt", "/c.json", "/d.png"]))
        .page("/a.pdf", Response::bytes(pdf).content_type("application/pdf"))
        .page("/b.txt", Response::text("so *it* is\n"))
        .page("/c.json", Response::bytes("{\"a\": 1}").content_type("application/json"))
        .page("/d.png", Response::bytes("\u{89}PNG").content_type("image/png"));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c").display().to_string();
    let crawled =
        texts(&stdout(&["crawl", &root, "-d", &directory, "--warc", "-q", "--text", "--markdown", "--jsonl", "-"]));
    let exported = texts(&stdout(&["export", &directory, "--format", "markdown"]));
    for (name, text, markdown) in [
        ("a.pdf", "Orb weavers\n", "Orb weavers\n"),
        ("b.txt", "so *it* is\n", "```\nso *it* is\n```\n"),
        ("c.json", "{\"a\": 1}", "```json\n{\"a\": 1}\n```\n"),
    ] {
        let url = format!("{root}{name}");
        assert_eq!((&crawled[&url][0], &crawled[&url][1]), (&Value::from(text), &Value::from(markdown)), "{name}");
        assert_eq!(exported[&url][1], markdown, "{name}");
    }
    assert!(!crawled.contains_key(&format!("{root}d.png")));
}
