//! A crawl with `--warc --assets` as a folder that opens offline, and as WACZ.

mod readers;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use serde_json::Value;

fn argiope(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_argiope")).args(arguments).output().expect("the command was built")
}

fn succeed(arguments: &[&str]) -> Output {
    let output = argiope(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A GIF image of one pixel.
const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// Two hosts with pages and the assets that they use, referenced in many ways. Returns the root, and the second
/// host as a URL without path.
fn web() -> (RunningWeb, String, String) {
    let image = || Response::bytes(PIXEL).content_type("image/gif");
    let css = |text: &str| Response::text(text.to_owned()).content_type("text/css");
    let other = Site::http("127.5.9.2:0").expect("a socket");
    let cdn = other.url("");
    let other = other
        .page("/cdn.css", css("@import 'more.css'; .a{background:url(deep/bg.gif)}"))
        .page("/more.css", css(".b{background:url(\"/more.gif\")}"))
        .page("/deep/bg.gif", image())
        .page("/more.gif", image())
        .page("/far.gif", image());
    let site = Site::http("127.5.9.1:0").expect("a socket");
    let root = site.url("/");
    let start = format!(
        "<!doctype html><html><head><title>Start</title><base href='/sub/'>\
         <link rel=stylesheet href='{cdn}/cdn.css' integrity=sha384-x crossorigin=anonymous>\
         <link rel=preconnect href='{cdn}'><link rel=manifest href=/app.webmanifest>\
         <meta property=og:image content=/og.gif><meta http-equiv=Content-Security-Policy content=\"default-src 'self'\">\
         <style>.c{{background:url(/in-style.gif)}}</style></head>\
         <body style=\"background:url(/in-attribute.gif)\"><a id=top href=page?a=1&amp;b=2#part>page</a>\
         <a href=/Case>upper</a><a href=/case>lower</a><a href=/moved>moved</a><a href='https://elsewhere.test/x'>away</a>\
         <a href=#top>here</a>\
         <img src=../one.gif srcset='/two.gif 1x, /three.gif 2x'><img src='{cdn}/far.gif'>\
         <img src='data:,' data-src=/lazy.gif><video poster=/poster.gif></video>\
         <table background=/table.gif><tr><td background=/cell.gif></table>\
         <iframe srcdoc='&lt;img src=&quot;/nested.gif&quot;&gt;&lt;a href=/nested&gt;x&lt;/a&gt;'></iframe>\
         <svg style='fill:url(/drawn.gif)'><use href=/shapes.svg#s /></svg><img lowsrc=/old.gif><script src=/gone.js></script><img src=/gone.gif></body></html>"
    );
    let page = |body: &str| Response::html(format!("<title>t</title>{body}"));
    let names = [
        "one",
        "two",
        "three",
        "og",
        "in-style",
        "in-attribute",
        "lazy",
        "poster",
        "icon",
        "table",
        "cell",
        "nested",
        "old",
        "drawn",
    ];
    let site = names.iter().fold(site, |site, name| site.page(&format!("/{name}.gif"), image()));
    let site = site
        .page("/", Response::html(start))
        .page("/sub/page?a=1&b=2", page("<h2 id=part>caf\u{e9}</h2><a href=/>back</a>"))
        .page("/Case", page("upper"))
        .page("/case", page("lower"))
        .page("/nested", page("nested"))
        .redirect("/moved", "/sub/page?a=1&b=2", 302)
        .page(
            "/shapes.svg",
            Response::text("<svg xmlns='http://www.w3.org/2000/svg'><style>a{b:url(one.gif)}</style></svg>")
                .content_type("image/svg+xml"),
        )
        .page(
            "/app.webmanifest",
            Response::text("{\"icons\":[{\"src\":\"icon.gif\"}]}").content_type("application/manifest+json"),
        )
        .fallback(Response::status(404));
    let web = PracticeWeb::new().site(site).site(other).start().expect("the web is served");
    (web, root, cdn)
}

fn crawl(root: &str, directory: &Path, more: &[&str]) -> Vec<Value> {
    let base = ["crawl", root, "-d", text(directory), "-q", "--allow-private", "--warc", "--assets", "--jsonl", "-"];
    let output = succeed(&[&base[..], more].concat());
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    records.filter(|record| record["type"] == "page").collect()
}

/// The paths of the records whose URLs begin with `base`.
fn fetched(records: &[Value], base: &str) -> BTreeSet<String> {
    let urls = records.iter().filter_map(|record| record["url"].as_str()?.strip_prefix(base));
    urls.map(str::to_owned).collect()
}

#[test]
fn assets_are_found_in_many_kinds_of_references() {
    let (_web, root, cdn) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let records = crawl(&root, &folder.path().join("c"), &[]);
    let own = fetched(&records, root.trim_end_matches('/'));
    for path in [
        "/one.gif",
        "/two.gif",
        "/three.gif",
        "/og.gif",
        "/in-style.gif",
        "/in-attribute.gif",
        "/lazy.gif",
        "/poster.gif",
        "/table.gif",
        "/cell.gif",
        "/nested.gif",
        "/old.gif",
        "/drawn.gif",
        "/icon.gif",
        "/shapes.svg",
        "/app.webmanifest",
        "/gone.js",
    ] {
        assert!(own.contains(path), "{path} is missing in {own:?}");
    }
    assert!(!own.contains("/nested"), "a link of a page in srcdoc was followed: {own:?}");
    let other: Vec<String> = fetched(&records, &cdn).into_iter().collect();
    assert_eq!(other, ["/cdn.css", "/deep/bg.gif", "/far.gif", "/more.css", "/more.gif"]);

    let records = crawl(&root, &folder.path().join("d"), &["--assets-scope", "host"]);
    assert!(fetched(&records, &cdn).is_empty(), "{records:?}");
    // The assets of a page are fetched even at the depth limit.
    let records = crawl(&root, &folder.path().join("e"), &["--depth", "0"]);
    let own = fetched(&records, root.trim_end_matches('/'));
    assert!(own.contains("/one.gif") && !own.contains("/Case"), "{own:?}");
    assert!(fetched(&records, &cdn).contains("/more.gif"));
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found
}

#[test]
fn an_exported_site_has_relative_links_and_placeholders() {
    let (web, root, cdn) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let (directory, out) = (folder.path().join("c"), folder.path().join("site"));
    crawl(&root, &directory, &[]);
    let target = format!("{}/", text(&out));
    let requests = web.log().len();
    let output = succeed(&["export", text(&directory), "--format", "site", "-o", &target]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    // `/gone.gif`. Scripts are not part of a copy.
    assert!(stderr.contains("1 resource is not in the archive"), "{stderr}");
    assert_eq!(web.log().len(), requests, "nothing is fetched");

    let host = root.trim_start_matches("http://").trim_end_matches('/').replace(':', "_");
    let other = cdn.trim_start_matches("http://").replace(':', "_");
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let start = read(&format!("{host}/index.html"));
    assert!(
        start.starts_with(
            "\u{feff}<!doctype html><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'"
        ),
        "{start}"
    );
    for expected in [
        &format!("<link rel=\"stylesheet\" href=\"../{other}/cdn.css\">"),
        "url('in-style.gif')",
        "href=\"sub/page@a=1_b=2.html#part\"",
        "<a href=\"sub/page@a=1_b=2.html\">moved</a>",
        "<a href=\"https://elsewhere.test/x\">",
        // With a `base` element, a fragment-only link points to the base.
        &format!("<a href=\"{root}sub/#top\">here</a>"),
        "<img src=\"one.gif\" srcset=\"two.gif 1x, three.gif 2x\">",
        &format!("<img src=\"../{other}/far.gif\">"),
        "data-src=\"lazy.gif\"",
        "<use href=\"shapes.svg#s\"></use>",
        "<table background=\"table.gif\"><tr><td background=\"cell.gif\"></table>",
        &format!(
            "&lt;img src=&quot;nested.gif&quot;&gt;&lt;a href=&quot;{root}nested&quot;&gt;x&lt;/a&gt;\"></iframe>"
        ),
        "<img src=\"data:image/gif;base64,",
    ] {
        assert!(start.contains(expected), "{expected} is missing in:\n{start}");
    }
    for left_out in [&format!("{root}gone"), "<script", "<base", "preconnect", "integrity"] {
        assert!(!start.contains(left_out), "{start}");
    }
    let css = read(&format!("{other}/cdn.css"));
    assert_eq!(css, "\u{feff}@import 'more.css'; .a{background:url('deep/bg.gif')}");
    assert!(read(&format!("{other}/more.css")).contains("url('more.gif')"));
    let page = read(&format!("{host}/sub/page@a=1_b=2.html"));
    assert!(
        page.starts_with('\u{feff}') && page.contains("caf\u{e9}") && page.contains("href=\"../index.html\""),
        "{page}"
    );
    assert!(read("index.html").contains(&format!("url={host}/index.html")));
    let names: Vec<String> = files(&out).iter().map(|path| text(path).to_lowercase()).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "no two names differ in case only: {names:?}");

    // Exporting into the same folder again works; a folder with other files is refused, and so is standard output.
    succeed(&["export", text(&directory), "--format", "site", "-o", &target]);
    let mine = folder.path().join("mine");
    std::fs::create_dir(&mine).expect("a folder");
    std::fs::write(mine.join("precious"), "x").expect("a file");
    let refused = argiope(&["export", text(&directory), "--format", "site", "-o", text(&mine)]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert_eq!(argiope(&["export", text(&directory), "--format", "site"]).status.code(), Some(2));
    assert_eq!(files(&mine).len(), 1);
}

#[test]
fn an_interrupted_export_of_a_site_can_be_repeated() {
    let (_web, root, _) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let (directory, out) = (folder.path().join("c"), folder.path().join("site"));
    crawl(&root, &directory, &[]);
    let archives: Vec<PathBuf> =
        files(&directory).into_iter().filter(|file| text(file).ends_with(".warc.gz")).collect();
    let [archive] = archives.as_slice() else { panic!("one archive: {archives:?}") };
    let archive = directory.join(archive);
    let bytes = std::fs::read(&archive).expect("an archive");
    let export = ["export", text(&directory), "--format", "site", "-o", text(&out)];
    std::fs::write(&archive, &bytes[..bytes.len() / 2]).expect("a shorter archive");
    let failed = argiope(&export);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(!files(&out).is_empty(), "the export ended after the first files");
    std::fs::write(&archive, &bytes).expect("the whole archive");
    succeed(&export);
    let list = std::fs::read_to_string(out.join("argiope-site.jsonl")).expect("a list");
    assert!(list.contains(&root), "{list}");
}

#[test]
fn a_site_is_not_exported_into_a_file() {
    let (_web, root, _) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let (directory, out) = (folder.path().join("c"), folder.path().join("file"));
    crawl(&root, &directory, &[]);
    std::fs::write(&out, "x").expect("a file");
    let refused = argiope(&["export", text(&directory), "--format", "site", "-o", text(&out)]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("is not a folder; --format site writes one"), "{stderr}");
    assert_eq!(std::fs::read_to_string(&out).expect("a file"), "x");
}

/// The markdown export, without the times.
fn markdown(directory: &Path) -> Vec<(String, String)> {
    let lines = String::from_utf8(succeed(&["export", text(directory), "--format", "markdown"]).stdout).expect("UTF-8");
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut pages: Vec<_> = lines.map(|page| (page["url"].to_string(), page["markdown"].to_string())).collect();
    pages.sort();
    pages
}

/// The entries of a ZIP file without compression, by name. Each begins with a header of 30 bytes, which has the length of the
/// name at offset 26 and that of the extra field at 28. The sizes are in the extra field of ZIP64, from offset 4.
fn zip_entries(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let number = |at: usize, length: usize| {
        bytes[at..at + length].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)) as usize
    };
    let (mut at, mut entries) = (0, BTreeMap::new());
    while bytes[at..].starts_with(b"PK\x03\x04") {
        let (name, extra) = (at + 30, at + 30 + number(at + 26, 2));
        let content = extra + number(at + 28, 2);
        let end = content + number(extra + 4, 8);
        entries.insert(String::from_utf8_lossy(&bytes[name..extra]).into_owned(), bytes[content..end].to_vec());
        at = end;
    }
    entries
}

#[test]
fn zstd_archives_are_exported_like_gzip_archives() {
    let (_web, root, _) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let [gzip, zstd] = ["gzip", "zstd"].map(|name| folder.path().join(name));
    // One request at a time: of two names that differ only in case, the second one fetched gets another name.
    crawl(&root, &gzip, &["-c", "1"]);
    let records = crawl(&root, &zstd, &["-c", "1", "--warc-compression", "zstd"]);
    let in_archive = records.iter().filter(|record| record["warc"]["file"] == "archive/00001.warc.zst");
    assert!(in_archive.count() > 10);
    assert!(!zstd.join("archive/00001.warc.gz").exists());
    let expected = markdown(&gzip);
    assert!(expected.len() > 2, "{expected:?}");
    assert_eq!(markdown(&zstd), expected);
    let sites = [&gzip, &zstd].map(|directory| {
        let out = folder.path().join(format!("{}-site", directory.file_name().expect("a name").display()));
        succeed(&["export", text(directory), "--format", "site", "-o", &format!("{}/", text(&out))]);
        let name = |file: &PathBuf| file.strip_prefix(&out).expect("in the folder").to_owned();
        let mut all: Vec<_> =
            files(&out).iter().map(|file| (name(file), std::fs::read(file).expect("a file"))).collect();
        all.sort();
        all
    });
    let names = sites.each_ref().map(|site| site.iter().map(|(name, _)| name).collect::<Vec<_>>());
    assert_eq!(names[0], names[1]);
    // The list of files is in the order of the crawl.
    let pairs = sites[0].iter().zip(&sites[1]).filter(|((name, _), _)| name != Path::new("argiope-site.jsonl"));
    for ((name, first), (_, second)) in pairs {
        assert!(first == second, "{}: {}", name.display(), String::from_utf8_lossy(second));
    }
    let export = |directory: &Path, format: &str| {
        let out = folder.path().join(format);
        succeed(&["export", text(directory), "--format", format, "-o", text(&out)]);
        std::fs::read(&out).expect("a file")
    };
    assert!(export(&zstd, "cdxj").windows(14).any(|window| window == b"00001.warc.zst"));
    // Replay programs read gzip only, so the records of a WACZ are gzip members, and its index has their places.
    let wacz = export(&zstd, "wacz");
    let has = |what: &[u8]| wacz.windows(what.len()).any(|window| window == what);
    assert!(has(b"archive/00001-zst.warc.gz") && !has(b"00001.warc.zst"));
    let mut zip = zip_entries(&wacz);
    let archive = zip.remove("archive/00001-zst.warc.gz").expect("the archive");
    let index = String::from_utf8(zip.remove("indexes/index.cdx").expect("the index")).expect("UTF-8");
    assert!(index.lines().count() > 10, "{index}");
    for line in index.lines() {
        let entry: Value = serde_json::from_str(line.splitn(3, ' ').nth(2).expect("three parts")).expect("JSON");
        let number = |key: &str| entry[key].as_str().expect("text").parse::<usize>().expect("a number");
        let member = &archive[number("offset")..][..number("length")];
        let mut record = Vec::new();
        flate2::read::GzDecoder::new(member).read_to_end(&mut record).expect("gzip");
        let record = String::from_utf8_lossy(&record);
        let target = format!("WARC-Target-URI: {}\r\n", entry["url"].as_str().expect("a URL"));
        assert!(record.starts_with("WARC/1.1\r\n") && record.contains(&target), "{line}: {record}");
    }
    let table = succeed(&["export", text(&zstd), "--format", "csv", "--extract", "heading=h2"]);
    assert!(String::from_utf8_lossy(&table.stdout).contains(",caf\u{e9}\r\n"));
}

#[test]
#[ignore = "needs python, zstd"]
fn other_programs_read_a_zstd_archive() {
    let (_web, root, _) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let records = crawl(&root, &directory, &["--warc-compression", "zstd"]);
    let expected = folder.path().join("expected.json");
    let places: Vec<&Value> = records.iter().filter(|record| record["warc"]["file"].is_string()).collect();
    std::fs::write(&expected, serde_json::to_vec(&places).expect("JSON")).expect("a file");
    readers::run("zstd.py", &[&directory, &expected]);
}

#[test]
fn site_and_wacz_need_an_archive() {
    let (_web, root, _) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    succeed(&["crawl", &root, "-d", text(&directory), "-q", "--allow-private"]);
    let out = folder.path().join("out");
    for format in ["site", "wacz"] {
        let refused = argiope(&["export", text(&directory), "--format", format, "-o", text(&out)]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("--warc"), "{refused:?}");
    }
}

#[test]
#[ignore = "needs python"]
fn other_programs_validate_and_replay_the_wacz() {
    let (_web, root, _) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let records = crawl(&root, &directory, &[]);
    let wacz = folder.path().join("crawl.wacz");
    succeed(&["export", text(&directory), "--format", "wacz", "-o", text(&wacz)]);
    let expected = folder.path().join("expected.json");
    let urls: Vec<&str> =
        records.iter().filter(|record| record["status"] == 200).filter_map(|r| r["url"].as_str()).collect();
    std::fs::write(&expected, serde_json::to_vec(&urls).expect("JSON")).expect("a file");
    readers::run("replay_wacz.py", &[&wacz, &expected]);
}

#[test]
#[ignore = "needs chromium, python"]
fn a_browser_opens_the_site_without_network_requests() {
    let (web, root, _) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let (directory, out) = (folder.path().join("c"), folder.path().join("site"));
    crawl(&root, &directory, &[]);
    succeed(&["export", text(&directory), "--format", "site", "-o", &format!("{}/", text(&out))]);
    let requests = web.log().len();
    readers::run("browser.py", &[&out]);
    assert_eq!(web.log().len(), requests, "the browser requested the web");
}

#[test]
fn an_export_says_that_pages_of_a_round_without_an_archive_are_left_out() {
    let site = Site::http("127.5.9.21:0").expect("a socket");
    let root = site.url("/");
    let page = |title: &str, body: &str| Response::html(format!("<title>{title}</title><p>{body}"));
    let site = site.page("/", page("Start", "<a href=/two>two</a>")).page("/two", page("Two", "A sentence."));
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let directory = text(&directory);
    succeed(&["crawl", "-q", &root, "-d", directory, "--warc"]);
    let export = |format: &str, name: &str| {
        let output = succeed(&["export", directory, "--format", format, "-o", text(&folder.path().join(name))]);
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    for (format, name) in [("site", "site1"), ("text", "text1/"), ("markdown", "pages.jsonl")] {
        let message = export(format, name);
        assert!(!message.contains("left out"), "{format}: {message}");
    }
    succeed(&["crawl", "-q", &root, "-d", directory, "--recrawl"]);
    for (format, name) in [("site", "site2"), ("text", "text2/"), ("markdown", "again.jsonl")] {
        let message = export(format, name);
        assert!(message.contains("left out: 2 pages of the last round"), "{format}: {message}");
    }
}
