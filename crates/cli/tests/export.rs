//! Exports of a crawl: records, tables, link graphs and sitemaps. Other programs read some of them.

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

/// A site with a title that looks like a spreadsheet formula, a redirect, a page with noindex, and a page that two
/// others link to.
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
fn link_texts_are_exported_if_the_crawl_recorded_them() {
    let (_web, root) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let base = root.trim_end_matches('/');
    for (name, with, anchor) in [("plain", "links", ""), ("anchors", "links,anchors", ",f")] {
        let directory = folder.path().join(name);
        crawl(&directory, &root, &["--with", with]);
        let export = |format: &str| stdout(&["export", directory.to_str().expect("UTF-8"), "--format", format]);
        let links = export("links");
        assert_eq!(links.starts_with("source,target,kind,nofollow,anchor\r\n"), !anchor.is_empty(), "{links}");
        assert!(links.contains(&format!("{base}/,{base}/formula,anchor,false{anchor}\r\n")), "{links}");
        assert_eq!(export("graphml").contains("<data key=\"anchor\">s</data>"), !anchor.is_empty());
        assert_eq!(export("jsonl").contains("\"anchor\":\"f\""), !anchor.is_empty());
    }
}

#[test]
fn the_report_names_orphans() {
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    let base = root.trim_end_matches('/').to_owned();
    let map = format!("<urlset><url><loc>{base}/alone</loc></url><url><loc>{base}/linked</loc></url></urlset>");
    let site = site
        .robots(&format!("Sitemap: {base}/map.xml\n"))
        .page("/map.xml", Response::text(map).content_type("application/xml"))
        .page("/", Response::links(["/linked"]))
        .page("/linked", Response::links(["/linked", "/"]))
        .page("/alone", Response::links(["/alone"]));
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    crawl(&directory, &root, &[]);
    let report = stdout(&["report", directory.to_str().expect("UTF-8")]);
    let orphans = format!("  orphans, linked from no page: 1\n      {base}/alone\n");
    assert!(report.ends_with(&orphans), "{report}");
    let document = stdout(&["report", directory.to_str().expect("UTF-8"), "--json"]);
    let document: Value = serde_json::from_str(&document).expect("JSON");
    assert_eq!(document["links"]["orphans"]["first"][0], format!("{base}/alone"));
    assert_eq!(document["links"]["most_linked"][0]["inlinks"], 1);
}

#[test]
fn exports_have_the_pages_and_links_of_the_crawl() {
    let (_web, root) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let jsonl = folder.path().join("pages.jsonl");
    crawl(&directory, &root, &["--warc", "--with", "links", "--jsonl", jsonl.to_str().expect("UTF-8")]);
    let export = |format: &str| stdout(&["export", directory.to_str().expect("UTF-8"), "--format", format]);
    let base = root.trim_end_matches('/');

    let lines = export("jsonl");
    assert_eq!(lines, std::fs::read_to_string(&jsonl).expect("records"), "the records that the crawl wrote");
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let pages: Vec<&Value> = records.iter().filter(|record| record["type"] == "page").collect();
    assert_eq!(pages.len(), 6, "{lines}");

    let csv = export("csv");
    assert!(csv.starts_with("url,status,outcome,"), "{csv}");
    assert_eq!(csv.matches("\r\n").count(), 7);
    assert!(csv.contains(",\"'=1+1,\"\"x\"\"\","), "the title must not be a formula:\n{csv}");

    // /formula, /hidden and the redirect /moved lead to it.
    let shared = csv.lines().find(|line| line.starts_with(&format!("{base}/shared?a=1&b=2,"))).expect("a row");
    assert!(csv.lines().next().is_some_and(|names| names.ends_with(",inlinks")), "{csv}");
    assert!(shared.trim_end().ends_with(",3"), "{shared}");
    let report = stdout(&["report", directory.to_str().expect("UTF-8")]);
    assert!(report.contains(&format!("       3  {base}/shared?a=1&b=2")), "{report}");

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
    // A redirect and a page, both at depth 1, lead to this URL. Its depth depends on which is processed first.
    let node = |depth: u8| {
        let facts = format!("<data key=\"depth\">{depth}</data><data key=\"status\">200</data>");
        format!("<node id=\"{base}/shared?a=1&amp;b=2\">{facts}<data key=\"title\">Shared</data></node>")
    };
    assert_eq!(graph_text.matches(&node(1)).count() + graph_text.matches(&node(2)).count(), 1, "{graph_text}");
    assert_eq!(graph_text.matches(&format!("<node id=\"{base}/shared?a=1&amp;b=2\"")).count(), 1);
    assert_eq!(graph_text.matches(&format!("<node id=\"{base}/no\"/>")).count(), 1, "not fetched: {graph_text}");

    let sitemap = export("sitemap");
    let expected = format!("<url><loc>{base}/shared?a=1&amp;b=2</loc><lastmod>1994-11-15T12:45:26Z</lastmod></url>\n");
    assert!(sitemap.contains(&expected), "{sitemap}");
    assert_eq!(sitemap.matches("<url>").count(), 3, "neither the redirect nor the noindex page:\n{sitemap}");
}

#[test]
fn raw_tables_have_the_text_of_formulas() {
    let page = Response::html("<title>=1+1\u{1b}[2J</title><a href=/x>=2</a>");
    let site = Site::http("127.0.0.1:0").expect("a socket").page("/", page).fallback(Response::status(404));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let (directory, other, config) = (folder.path().join("c"), folder.path().join("d"), folder.path().join("raw.toml"));
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let crawl = ["crawl", &root, "-q", "--with", "anchors", "--csv", "-", "-d"];
    let (escaped, raw) = (",\"'=1+1\\x1b[2J\",", ",=1+1\\x1b[2J,");
    let table = stdout(&[&crawl[..], &[&text(&directory)]].concat());
    assert!(table.contains(escaped) && !table.contains(raw), "{table}");
    let raw_table = stdout(&[&crawl[..], &[&text(&directory), "--raw-csv"]].concat());
    assert!(raw_table.contains(raw) && !raw_table.contains(escaped), "{raw_table}");
    std::fs::write(&config, "raw-csv = true\n").expect("written");
    let configured = stdout(&[&crawl[..], &[&text(&other), "--config", &text(&config)]].concat());
    assert!(configured.contains(raw), "{configured}");

    let directory = text(&directory);
    let export = |arguments: &[&str]| stdout(&[&["export", &directory, "--format"], arguments].concat());
    assert_eq!((export(&["csv"]), export(&["csv", "--raw-csv"])), (table, raw_table));
    assert!(export(&["links"]).contains(",false,\"'=2\"\r\n"));
    assert!(export(&["links", "--raw-csv"]).contains(",false,=2\r\n"));
    let graph = text(&folder.path().join("g.graphml"));
    for arguments in [&["jsonl"][..], &["graphml"], &["links", "-o", &graph]] {
        let refused = argiope(&[&["export", &directory, "--raw-csv", "--format"], arguments].concat());
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
#[ignore = "needs python"]
fn other_programs_read_the_exports() {
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
fn the_link_graph_is_complete_without_extra_flags() {
    let (_web, root) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let graph_of = |name: &str, more: &[&str]| {
        let directory = folder.path().join(name);
        crawl(&directory, &root, more);
        let links = stdout(&["export", directory.to_str().expect("UTF-8"), "--format", "links"]);
        let mut edges: Vec<String> = links.lines().skip(1).map(str::to_owned).collect();
        edges.sort_unstable();
        edges
    };
    let edges = graph_of("ordinary", &[]);
    let base = root.trim_end_matches('/');
    let link = |from: &str, to: &str, how: &str| format!("{base}{from},{base}{to},{how}");
    let mut expected = vec![
        link("/", "/formula", "anchor,false"),
        link("/", "/moved", "anchor,false"),
        link("/", "/hidden", "anchor,false"),
        link("/", "/secret", "anchor,false"),
        link("/formula", "/shared?a=1&b=2", "anchor,false"),
        link("/formula", "/no", "anchor,true"),
        link("/hidden", "/shared?a=1&b=2", "anchor,false"),
        link("/moved", "/shared?a=1&b=2", "redirect,false"),
    ];
    expected.sort_unstable();
    assert_eq!(edges, expected);
    assert_eq!(graph_of("with", &["--with", "links"]), expected);
    assert_eq!(graph_of("threads", &["--engine", "threads", "--max-pages", "100"]), expected);
}

#[test]
fn links_that_a_limit_cuts_off_are_counted() {
    let links: Vec<String> = (0..30).map(|number| format!("/{number}")).collect();
    let site = Site::http("127.0.0.1:0").expect("a port").page("/", Response::links(links.iter().map(String::as_str)));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    crawl(folder.path(), &root, &["--max-links", "12"]);
    let directory = folder.path().to_str().expect("UTF-8");
    let records = stdout(&["export", directory, "--format", "jsonl"]);
    let page = records.lines().find(|line| line.contains(&format!("\"url\":\"{root}\""))).expect("a record");
    let page: Value = serde_json::from_str(page).expect("JSON");
    assert_eq!((&page["capped"], &page["links_cut"], &page["links"]), (&true.into(), &18.into(), &12.into()), "{page}");
    assert_eq!(stdout(&["export", directory, "--format", "links"]).lines().count(), 1 + 12);
}

#[test]
fn an_export_that_needs_an_archive_says_how_to_make_one() {
    let site = Site::http("127.6.2.9:0").expect("a loopback address").page("/", Response::html("<p>text"));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    crawl(folder.path(), &root, &[]);
    let directory = folder.path().to_str().expect("UTF-8");
    let output = argiope(&["export", directory, "--format", "wacz"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    let expected = format!("{directory} has no archive, which this format needs; run the same crawl command with");
    assert!(message.contains(&expected) && message.contains("--recrawl --warc"), "{message}");
    crawl(folder.path(), &root, &["--recrawl", "--warc"]);
    assert!(argiope(&["export", directory, "--format", "wacz"]).status.success());
}

#[test]
fn a_folder_that_is_not_a_crawl_directory_is_named_and_left_unchanged() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out.csv");
    std::fs::write(&file, "mine").expect("written");
    let (directory, file_name) = (folder.path().to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
    let output = argiope(&["export", directory, "--format", "csv", "-o", file_name]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("is not a crawl directory: it has no crawl.json"), "{message}");
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), "mine");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
fn outputs_replace_only_files_that_argiope_has_written() {
    let (web, root) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (directory, file) = (at("d.crawl"), at("out"));
    crawl(Path::new(&directory), &root, &[]);
    let requests = web.requests();
    for arguments in [
        &["export", &directory, "--format", "csv", "-o", &file][..],
        &["report", &directory, "--html", &file],
        &["audit", &directory, "--format", "json", "-o", &file],
        &["crawl", &root, "-d", &at("other.crawl"), "-q", "--csv", &file],
    ] {
        let _ = std::fs::remove_file(&file);
        std::fs::write(&file, "precious").expect("written");
        let refused = argiope(arguments);
        let message = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(message.contains("it cannot be told whether Argiope wrote it"), "{arguments:?}: {message}");
        assert_eq!(std::fs::read_to_string(&file).expect("there"), "precious");
        assert_eq!(web.requests(), requests, "it is refused before the crawl");
        if arguments[0] != "crawl" {
            std::fs::remove_file(&file).expect("removed");
            // The second time, the file is that of the first.
            (0..2).for_each(|_| assert!(argiope(arguments).status.success(), "{arguments:?}"));
        }
    }
}

#[test]
fn texts_in_a_folder_do_not_replace_foreign_files_or_follow_links() {
    let (_web, root) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let directory = at("d.crawl");
    crawl(Path::new(&directory), &root, &["--warc"]);
    let export = |out: &str| argiope(&["export", &directory, "--format", "markdown", "-o", out]);
    let out = at("pages/");
    (0..2).for_each(|_| assert!(export(&out).status.success(), "an earlier export is replaced"));
    let mut files = vec![std::path::PathBuf::from(&out)];
    let file = loop {
        let path = files.pop().expect("a file");
        if !path.is_dir() {
            break path;
        }
        files.extend(std::fs::read_dir(&path).expect("a folder").flatten().map(|entry| entry.path()));
    };
    std::fs::write(&file, "precious").expect("written");
    let refused = export(&out);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && message.contains("it was changed after Argiope"), "{message}");
    assert_eq!(std::fs::read_to_string(&file).expect("there"), "precious");
    // Each folder of the export is a link to a foreign folder.
    let (linked, foreign) = (at("linked"), at("foreign"));
    for folder in [&linked, &foreign] {
        std::fs::create_dir(folder).expect("created");
    }
    for entry in std::fs::read_dir(&out).expect("a folder").flatten().filter(|entry| entry.path().is_dir()) {
        std::os::unix::fs::symlink(&foreign, Path::new(&linked).join(entry.file_name())).expect("linked");
    }
    let refused = export(&linked);
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
    assert_eq!(std::fs::read_dir(&foreign).expect("there").count(), 0);
}

#[test]
fn error_pages_have_no_list_of_links() {
    let site = Site::http("127.6.61.1:0").expect("a socket");
    let site = site.page("/", Response::links(["/gone"])).fallback(Response::links(["/never"]).with_status(404));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("d.crawl").display().to_string();
    let lines = stdout(&["crawl", &root, "-d", &directory, "-q", "--with", "links", "--jsonl", "-"]);
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |status: u64| records.iter().find(|record| record["status"] == status && record["type"] == "page");
    assert_eq!(of(200).expect("the root")["link_list"].as_array().map(Vec::len), Some(1));
    assert_eq!(of(404).expect("the error page").get("link_list"), None);
}

const SHOP_RULES: &str = r#"
[fields]
day = { select = "time", type = "date" }
all = { select = "p", many = true }

[fields.products]
select = ".item"
fields.title = "b"
fields.price = { select = "i", type = "number" }
fields.tags = { select = "u", many = true }
"#;

/// A page with items, lists, dates and languages, and a page without any.
fn shop() -> (RunningWeb, String) {
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    let head = "<title>Shop</title><meta name=robots content='nosnippet, noarchive'>\
                <link rel=alternate hreflang=de href=/de><link rel=alternate hreflang=fr href=/fr>";
    let items = "<div class=item><b>One</b><i>1.5</i><u>a</u><u>b</u></div><div class=item><b>Two</b><i>2</i></div>";
    let body = format!(
        "{head}<h1>Shop</h1><time>2 January 2026</time><p>x</p><p>y</p>{items}<a href=/empty>e</a><a href=http://other.example>o</a>"
    );
    let site = site
        .page("/", Response::html(body).header("X-Odd", "\u{1}"))
        .page("/empty", Response::html("<title>Nothing</title>"))
        .fallback(Response::status(404));
    (PracticeWeb::new().site(site).start().expect("the web is served"), root)
}

#[test]
fn tables_have_the_chosen_columns_and_rows_in_the_order_of_the_rules() {
    let (_web, root) = shop();
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("shop.toml");
    std::fs::write(&rules, SHOP_RULES).expect("written");
    let directory = folder.path().join("c");
    crawl(&directory, &root, &["--extract-file", rules.to_str().expect("UTF-8")]);
    let directory = directory.to_str().expect("UTF-8");
    let csv = |more: &[&str]| stdout(&[&["export", directory, "--format", "csv"], more].concat());

    let header = csv(&[]).lines().next().expect("a header").to_owned();
    for name in ["odd", "capped", "links_cut", "content_limit", "text", "headers", "link_list", "warc_payload"] {
        assert!(header.split(',').any(|column| column == name), "{name} is missing in {header}");
    }
    let data = "data_day,data_all,data_products_title,data_products_price,data_products_tags";
    assert!(header.ends_with(&format!(",inlinks,{data}")), "{header}");

    let table = csv(&["--columns", "data.*,title,ms.*,data.none", "--rows", "data"]);
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some(&*format!("{data},title,ms_dns,ms_connect,ms_tls,ms_ttfb,ms_total,data_none")));
    let all = "\"[\"\"x\"\",\"\"y\"\"]\"";
    for item in ["One,1.5,\"[\"\"a\"\",\"\"b\"\"]\"", "Two,2,"] {
        let row = lines.next().expect("a row");
        assert!(row.starts_with(&format!("2026-01-02,{all},{item},Shop,")), "{row}");
    }
    assert_eq!(lines.next(), None, "the page without data is left out: {table}");

    let pages = csv(&["--columns", "title,data.products,meta_robots,hreflang", "--rows", "pages"]);
    let products = r#"[{"price":1.5,"tags":["a","b"],"title":"One"},{"price":2,"title":"Two"}]"#.replace('"', "\"\"");
    let base = root.trim_end_matches('/');
    let languages = format!(r#"{{"de":"{base}/de","fr":"{base}/fr"}}"#).replace('"', "\"\"");
    let row = format!("Shop,\"{products}\",\"[\"\"nosnippet\"\",\"\"noarchive\"\"]\",\"{languages}\"\r\n");
    assert_eq!(pages, format!("title,data_products,meta_robots,hreflang\r\n{row}Nothing,,,\r\n"));

    let refused = argiope(&["export", directory, "--format", "csv", "--columns", "url,titel"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains("there is no column \"titel\"; the most similar name is title"), "{message}");
    assert_eq!(argiope(&["export", directory, "--format", "jsonl", "--columns", "url"]).status.code(), Some(2));
}

#[test]
#[ignore = "needs python"]
fn other_programs_read_nested_values_and_types() {
    let (_web, root) = shop();
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("shop.toml");
    std::fs::write(&rules, SHOP_RULES).expect("written");
    let (directory, jsonl) = (folder.path().join("c"), folder.path().join("records.jsonl"));
    let flags = ["--with", "links,headers", "--log-skips", "--sitemap", "--text", "--extract-file"];
    let jsonl_text = jsonl.to_str().expect("UTF-8");
    crawl(&directory, &root, &[&flags[..], &[rules.to_str().expect("UTF-8"), "--jsonl", jsonl_text]].concat());
    let pages = folder.path().join("pages.parquet");
    let (directory, target) = (directory.to_str().expect("UTF-8"), pages.to_str().expect("UTF-8"));
    stdout(&["export", directory, "--format", "parquet", "--rows", "pages", "-o", target]);
    readers::run("nested.py", &[&pages, &jsonl]);
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records.schema.json");
    readers::run("records.py", &[&schema, Path::new("run,page,aux,skip"), &jsonl]);
}

/// A crawl of the shop in a folder, with its records in a file.
fn crawled_shop(folder: &Path) -> (String, std::path::PathBuf) {
    let (_web, root) = shop();
    let rules = folder.join("shop.toml");
    std::fs::write(&rules, SHOP_RULES).expect("written");
    let (directory, jsonl) = (folder.join("c"), folder.join("records.jsonl"));
    let files = ["--extract-file", rules.to_str().expect("UTF-8"), "--jsonl", jsonl.to_str().expect("UTF-8")];
    crawl(&directory, &root, &[&["--with", "links,headers", "--text"][..], &files].concat());
    (directory.to_str().expect("UTF-8").to_owned(), jsonl)
}

#[test]
#[ignore = "needs python"]
fn other_programs_read_databases_and_arrow_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    let (directory, jsonl) = crawled_shop(folder.path());
    let export = |format: &str| {
        let file = folder.path().join(format);
        stdout(&["export", &directory, "--format", format, "-o", file.to_str().expect("UTF-8")]);
        file
    };
    let piped = argiope(&["export", &directory, "--format", "sqlite"]).stdout;
    assert_eq!(piped, std::fs::read(export("sqlite")).expect("a database"), "standard output has the same bytes");
    readers::run("databases.py", &[&export("sqlite"), &export("arrow"), &jsonl, &export("links")]);
    let (rules, schema) = (folder.path().join("shop.toml"), folder.path().join("schema.json"));
    let rules = rules.to_str().expect("UTF-8");
    stdout(&["export", "--print-schema", "--extract-file", rules, "-o", schema.to_str().expect("UTF-8")]);
    readers::run("data_schema.py", &[&schema, &jsonl]);
}

#[test]
fn a_database_is_whole_or_is_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let (directory, _) = crawled_shop(folder.path());
    let outputs = folder.path().join("outputs");
    let temporary = folder.path().join("temporary");
    for folder in [&outputs, &temporary] {
        std::fs::create_dir(folder).expect("created");
    }
    let file = outputs.join("pages.sqlite");
    let export = |limit: &str| {
        Command::new("sh")
            .args(["-c", &format!("ulimit -f {limit}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_argiope")])
            .args(["export", &directory, "--format", "sqlite", "-o", file.to_str().expect("UTF-8")])
            .env("TMPDIR", &temporary)
            .output()
            .expect("a shell")
    };
    let count = |folder: &Path| std::fs::read_dir(folder).expect("a folder").count();
    // The database does not fit into its temporary file.
    let failed = export("16");
    let message = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{message}");
    assert!(message.contains("a temporary file in") && message.contains("TMPDIR"), "{message}");
    assert_eq!((count(&outputs), count(&temporary)), (0, 0), "nothing is left");
    assert!(export("unlimited").status.success());
    assert!(std::fs::read(&file).expect("a database").starts_with(b"SQLite format 3\0"));
    assert!(export("unlimited").status.success(), "its own file is replaced");
    assert_eq!((count(&outputs), count(&temporary)), (1, 0));
    std::fs::write(&file, "precious").expect("written");
    assert_eq!(export("unlimited").status.code(), Some(1));
    assert_eq!(std::fs::read(&file).expect("there"), b"precious");
}

#[test]
fn tables_of_a_database_have_the_chosen_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let (directory, _) = crawled_shop(folder.path());
    let file = folder.path().join("pages.sqlite");
    let target = file.to_str().expect("UTF-8");
    let columns = "data.products.price,url,data.none,title";
    stdout(&["export", &directory, "--format", "sqlite", "--columns", columns, "--rows", "data", "-o", target]);
    let text = String::from_utf8_lossy(&std::fs::read(&file).expect("a database")).into_owned();
    for table in [
        "CREATE TABLE pages (id INTEGER PRIMARY KEY, \"url\" TEXT, \"title\" TEXT)",
        "CREATE TABLE data (page_id INTEGER NOT NULL, item INTEGER NOT NULL, \"products_price\" REAL, \"none\" TEXT)",
    ] {
        assert!(text.contains(table), "{table}");
    }
    assert!(!text.contains("Nothing"), "the page without data is left out");
}

#[test]
fn the_schema_of_a_rules_file_is_printed_without_a_crawl() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("shop.toml");
    std::fs::write(&rules, SHOP_RULES).expect("written");
    let schema = stdout(&["export", "--print-schema", "--extract-file", rules.to_str().expect("UTF-8")]);
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let item = &schema["properties"]["products"]["items"]["properties"];
    assert_eq!((&item["price"]["type"], &item["tags"]["type"]), (&"number".into(), &"array".into()), "{schema}");
    assert_eq!(argiope(&["export", "--print-schema"]).status.code(), Some(2));
    assert_eq!(argiope(&["export", "--format", "csv"]).status.code(), Some(2));
}

#[test]
fn a_field_without_values_has_the_type_of_its_rule() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = Site::http("127.0.0.1:0").expect("a socket").page("/", Response::html("<h1>Nothing to sell</h1>"));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let rules = folder.path().join("shop.toml");
    std::fs::write(&rules, SHOP_RULES).expect("written");
    let (directory, file) = (folder.path().join("c"), folder.path().join("pages.sqlite"));
    crawl(&directory, &root, &["--extract-file", rules.to_str().expect("UTF-8")]);
    let names = [&directory, &file].map(|path| path.to_str().expect("UTF-8").to_owned());
    stdout(&["export", &names[0], "--format", "sqlite", "-o", &names[1]]);
    let text = String::from_utf8_lossy(&std::fs::read(&file).expect("a database")).into_owned();
    let columns = r#""day" DATE, "all" TEXT, "products_title" TEXT, "products_price" REAL, "products_tags" TEXT)"#;
    assert!(text.contains(columns), "the database has no such columns");
}
