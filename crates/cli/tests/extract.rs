//! Extraction, text and Markdown from the command line: while crawling, on one page, and from a finished crawl.

use std::path::Path;
use std::process::{Command, Output};

use argiope_practice::shop::{PRODUCTS, price_text, product, shop};
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use serde_json::{Value, json};

/// Number of pages of the shop: products, three list pages, the guide and the terms.
const SHOP_PAGES: usize = PRODUCTS + 5;

fn argiope(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_argiope")).args(arguments).output().expect("the command was built")
}

fn stdout(arguments: &[&str]) -> String {
    let output = argiope(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Serves the shop. Returns its root.
fn start() -> (RunningWeb, String) {
    let site = shop("127.5.1.1:0").expect("a loopback address");
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("the web is served"), root)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn pages(lines: &str) -> Vec<Value> {
    let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    records.filter(|record| record["type"] == "page").collect()
}

#[test]
fn records_have_extracted_data_and_the_report_lists_fields_that_never_matched() {
    let (_web, root) = start();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let rules = ["--extract", "name=h1", "--extract", "price=.price", "--extract", "none=.nothing"];
    let output = argiope(&[&["crawl", &root, "-d", text(&directory), "--jsonl", "-"], &rules[..]].concat());
    assert!(output.status.success());
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(report.contains(&format!("Extraction: \"none\" matched nothing; tried on {SHOP_PAGES} pages")), "{report}");
    let pages = pages(&String::from_utf8(output.stdout).expect("UTF-8"));
    let ninth = pages.iter().find(|page| page["url"] == format!("{root}product/9")).expect("the ninth product");
    let (name, cents) = product(9);
    assert_eq!(ninth["data"], json!({"name": name, "price": price_text(cents)}));

    let csv = stdout(&["export", text(&directory), "--format", "csv"]);
    let head = csv.lines().next().expect("a head");
    assert!(head.ends_with(",inlinks,data_name,data_price,data_none"), "{head}");
    assert!(csv.contains(&format!(",{name},{}", price_text(cents))), "{csv}");
}

#[test]
fn a_list_becomes_one_row_per_item_from_the_archive() {
    let (_web, root) = start();
    let folder = tempfile::tempdir().expect("a folder");
    let (directory, rules) = (folder.path().join("c"), folder.path().join("rules.toml"));
    std::fs::write(
        &rules,
        "urls = '/(page/\\d+)?$'\n[fields]\nheading = 'h1'\n[fields.products]\nselect = 'li.product'\n\
         fields.name = 'h3'\nfields.price = { select = '.price', type = 'number' }\nfields.link = 'a@href'\n",
    )
    .expect("a file");
    stdout(&["crawl", &root, "-d", text(&directory), "-q", "--warc"]);
    let csv = stdout(&["export", text(&directory), "--format", "csv", "--extract-file", text(&rules)]);
    let head = csv.lines().next().expect("a head");
    assert!(head.ends_with(",data_heading,data_products_name,data_products_price,data_products_link"), "{head}");
    let (name, cents) = product(17);
    let price = cents as f64 / 100.0;
    assert!(csv.contains(&format!(",Webs,{name},{price},{root}product/17\r\n")), "{csv}");
    let rows = csv.lines().filter(|row| row.contains(",Webs,") && row.contains(&format!(",{root}product/")));
    assert_eq!(rows.count(), PRODUCTS);

    let jsonl = stdout(&["export", text(&directory), "--format", "jsonl", "--extract", "h=h1"]);
    let found = pages(&jsonl);
    assert!(found.iter().all(|page| page["data"]["h"].is_string()), "{jsonl}");
    let parquet = folder.path().join("p.parquet");
    stdout(&["export", text(&directory), "--format", "parquet", "--extract-file", text(&rules), "-o", text(&parquet)]);
    assert!(std::fs::metadata(&parquet).expect("a file").len() > 1000);
}

#[test]
fn wrong_rules_are_refused_before_the_first_request() {
    let (web, root) = start();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    for (arguments, expected) in [
        (vec!["--extract", "price=.price >"], "expected a selector, found the end at character 9"),
        (vec!["--extract", "price"], "expected NAME=SELECTOR"),
        (vec!["--extract-file", "/nonexistent/rules.toml"], "the file cannot be read"),
    ] {
        let output = argiope(&[vec!["crawl", &root, "-d", text(&directory)], arguments].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
    assert_eq!(web.requests(), 0);
    assert!(!directory.exists());
}

#[test]
fn fetch_prints_extracted_data_and_text() {
    let (_web, root) = start();
    let shown =
        stdout(&["fetch", &format!("{root}product/3"), "--extract", "price=jsonld:Product.offers.price", "--text"]);
    let (_, cents) = product(3);
    assert!(shown.contains(&format!("\"price\": \"{}.{:02}\"", cents / 100, cents % 100)), "{shown}");
    assert!(shown.contains("\"text\": \""), "{shown}");
}

#[test]
fn fetch_keeps_fragments_and_counts_no_links() {
    let site = Site::http("127.5.1.3:0").expect("a loopback address").page(
        "/a/",
        Response::html(
            "<a class=x href='page.html?q=1#part 1'>a</a><a class=y href=#\u{e9}>b</a><img src=i.png#v><a class=z href=p#>c</a>",
        ),
    );
    let root = site.url("/a/");
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    // The last selector needs a tree of the page, the others do not.
    let rules = ["x=.x@href", "y=.y@href", "i=img@src", "z=.z@href", "tree=a:last-of-type@href"];
    let rules: Vec<&str> = rules.iter().flat_map(|rule| ["--extract", rule]).collect();
    let shown = stdout(&[&["fetch", &root], &rules[..]].concat());
    for (name, end) in
        [("x", "page.html?q=1#part%201"), ("y", "#%C3%A9"), ("i", "i.png#v"), ("z", "p#"), ("tree", "p#")]
    {
        assert!(shown.contains(&format!("\"{name}\": \"{root}{end}\"")), "{shown}");
    }
    assert!(shown.contains("\"words\"") && !shown.contains("links\":"), "{shown}");
}

#[test]
fn pages_become_markdown_files_and_lines() {
    let (_web, root) = start();
    let folder = tempfile::tempdir().expect("a folder");
    let (directory, out) = (folder.path().join("c"), folder.path().join("md"));
    stdout(&["crawl", &root, "-d", text(&directory), "-q", "--warc", "--markdown"]);
    let target = format!("{}/", text(&out));
    stdout(&["export", text(&directory), "--format", "markdown", "-o", &target]);
    let host = root.trim_start_matches("http://").trim_end_matches('/').replace(':', "_");
    let guide = std::fs::read_to_string(out.join(&host).join("guide.md")).expect("the guide");
    assert!(
        guide.starts_with("---\nurl: ") && guide.contains("\n---\n\n# How to hang a web\n\nA web that hangs"),
        "{guide}"
    );
    assert!(guide.contains("| radii | 30 |") && guide.contains("(product/1.md)"), "{guide}");
    // Elsewhere, the text has no front matter, and its links are absolute.
    let guide =
        guide.split_once("---\n\n").expect("front matter").1.replace("(product/1.md)", &format!("({root}product/1)"));
    let lines = stdout(&["export", text(&directory), "--format", "markdown"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), SHOP_PAGES);
    let line = lines.iter().find(|line| line["url"] == format!("{root}guide")).expect("the guide");
    assert_eq!((line["title"].as_str(), line["markdown"].as_str()), (Some("How to hang a web"), Some(guide.as_str())));
    assert!(line["fetched"].is_string());
    // The crawl wrote the same text to its records.
    let recorded = stdout(&["export", text(&directory), "--format", "jsonl"]);
    let recorded = pages(&recorded);
    let page = recorded.iter().find(|page| page["url"] == format!("{root}guide")).expect("the guide");
    assert_eq!(page["markdown"].as_str(), Some(guide.as_str()));
}

#[test]
fn the_message_for_a_missing_archive_names_the_flag() {
    let (_web, root) = start();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    stdout(&["crawl", &root, "-d", text(&directory), "-q", "--max-pages", "2"]);
    for more in [&["--format", "text"][..], &["--format", "csv", "--extract", "a=b"]] {
        let output = argiope(&[&["export", text(&directory)], more].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("--warc"));
    }
}

#[test]
fn one_command_gives_a_table_of_products() {
    let (_web, root) = start();
    let folder = tempfile::tempdir().expect("a folder");
    let (directory, table) = (folder.path().join("c"), folder.path().join("products.csv"));
    let fields = ["--extract", "name=h1", "--extract", "price=.price", "--extract", "none=.nothing"];
    let rules = [&fields[..], &["--include", "/product/|/page/"]].concat();
    let table_only = ["crawl", &root, "-d", text(&directory), "-q", "--csv"];
    stdout(&[&table_only[..], &[text(&table)], &rules].concat());
    let csv = std::fs::read_to_string(&table).expect("the table");
    let (header, rows) = csv.split_once("\r\n").expect("a header");
    assert!(header.ends_with("data_name,data_price,data_none"), "{header}");
    for number in [1, PRODUCTS] {
        let (name, cents) = product(number);
        let price = price_text(cents);
        let end = if price.contains(',') { format!(",{name},\"{price}\",") } else { format!(",{name},{price},") };
        assert!(
            rows.lines().any(|row| row.starts_with(&format!("{root}product/{number},200,")) && row.ends_with(&end))
        );
    }
    // The crawl is finished, but the same command with another target still writes the table there.
    assert_eq!(stdout(&[&table_only[..], &["-"], &rules].concat()), csv);
    let both = argiope(&[&table_only[..], &["-", "--jsonl", "-"]].concat());
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn hostile_pages_are_recorded_with_the_limit_they_reached() {
    let many = "<p class=x>y".repeat(300_000);
    let site = Site::http("127.5.1.2:0")
        .expect("a loopback address")
        .page("/", Response::html("<title>t</title><a href=/many>m</a><a href=/deep>d</a><a href=/broken>b</a><a href=/big>b</a><a href=/ld>l</a>"))
        .page("/many", Response::html(many))
        .page("/big", Response::filled("<b class=x>big</b>", 100 << 20))
        .page("/ld", Response::filled("<b class=x>ld</b><script type=application/ld+json>{\"name\":\"", 50 << 20))
        .page("/deep", Response::html("<div>".repeat(100_000) + "<b class=x>in</b>"))
        .page("/broken", Response::html(b"<b class=x>\xff\xfe caf\xc3\xa9 \x1b[2J</b>".to_vec()).charset("utf-8"));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let lines = stdout(&[
        "crawl",
        &root,
        "-d",
        text(&directory),
        "-q",
        "--jsonl",
        "-",
        "--extract",
        "x=.x",
        "--extract",
        "all[]=p",
        "--extract",
        &format!("long={}", "div ".repeat(2_500) + "b"),
        "--extract",
        "name=jsonld:name",
    ]);
    assert!(!lines.contains('\x1b'), "no escape sequence reaches a terminal");
    let pages = pages(&lines);
    let page = |path: &str| pages.iter().find(|page| page["url"] == format!("{root}{path}")).expect("a record");
    assert_eq!(pages.len(), 6);
    for (path, found) in [("big", "big"), ("ld", "ld")] {
        assert_eq!((&page(path)["truncated"], &page(path)["data"]["x"]), (&json!("length"), &json!(found)), "{path}");
        assert_eq!(page(path)["error"]["kind"], "too_large", "{path}");
    }
    assert_eq!(page("many")["content_limit"], "the page has more elements than are parsed");
    assert_eq!(page("many")["data"]["all"].as_array().map(Vec::len), Some(10_000));
    assert_eq!(page("deep")["data"]["x"], "in");
    assert_eq!(page("broken")["data"]["x"], "\u{fffd}\u{fffd} caf\u{e9} \u{1b}[2J");
}

#[test]
fn a_missing_directory_is_reported_by_exports() {
    for format in ["csv", "markdown", "text", "site"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (missing, out) = (folder.path().join("missing.crawl"), folder.path().join("out/"));
        let output = argiope(&["export", text(&missing), "--format", format, "-o", text(&out)]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("is not a crawl directory: it does not exist"), "{format}: {stderr}");
        assert_eq!(output.status.code(), Some(1), "{format}: {stderr}");
    }
}

/// Extracted data, Markdown and the site copy contain the URL that the crawl requests for a link: with the query in the
/// charset of the page, as in browsers.
#[test]
fn exported_links_are_the_urls_that_the_crawl_requests_in_any_charset() {
    let page = b"<title>t</title><article><p>A text with a link that is long enough to be a text, <a href=\"caf\xe9.html?q=\xe9\">\
                 a page</a> and more words after the link.</p></article>";
    let site = Site::http("127.5.1.9:0").expect("a loopback address");
    let root = site.url("/");
    let site = site
        .page("/", Response::html(page.to_vec()).charset("iso-8859-1"))
        .page("/caf%C3%A9.html?q=%E9", Response::html("<h1>found</h1>"))
        .fallback(Response::status(404));
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let target = format!("{root}caf%C3%A9.html?q=%E9");
    let crawl = ["crawl", &root, "-d", text(&directory), "-q", "--warc", "--jsonl", "-", "--extract", "a=a@href"];
    let records = pages(&stdout(&[&crawl[..], &["--markdown", "--extract", "b=article:has(a) a@href"]].concat()));
    assert!(records.iter().any(|record| record["url"] == target && record["outcome"] == "ok"), "{records:?}");
    let first = records.iter().find(|record| record["url"] == root).expect("the root");
    assert_eq!((&first["data"]["a"], &first["data"]["b"]), (&json!(target), &json!(target)), "{first}");
    assert!(first["markdown"].as_str().expect("Markdown").contains(&format!("]({target})")), "{first}");
    let markdown = stdout(&["export", text(&directory), "--format", "markdown"]);
    assert!(markdown.contains(&target), "{markdown}");
    let csv = stdout(&["export", text(&directory), "--format", "csv", "--extract", "link=a@href"]);
    assert!(csv.contains(&target), "{csv}");
    let out = folder.path().join("site");
    stdout(&["export", text(&directory), "--format", "site", "-o", &format!("{}/", text(&out))]);
    let list = std::fs::read_to_string(out.join("argiope-site.jsonl")).expect("the list of files");
    let file_of = |url: &str| {
        let entry = list.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        entry.into_iter().find(|entry| entry["url"] == url).expect("a file")["file"]
            .as_str()
            .expect("a name")
            .to_owned()
    };
    let copy = std::fs::read_to_string(out.join(file_of(&root))).expect("the root");
    let name = file_of(&target).rsplit('/').next().expect("a name").replace('%', "%25");
    assert!(copy.contains(&format!("href=\"{name}\"")), "{name}: {copy}");
}
