//! `argiope check`, run as the built command: folders, files, sites, lists; formats and exit codes.

mod external;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use argiope_practice::{CertificateKind, PracticeWeb, Response, Site};
use serde_json::Value;

fn argiope(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.current_dir(folder).arg("check").args(arguments).env_remove("NO_COLOR");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the command was built");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    child.wait_with_output().expect("the process ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, content) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("a file");
    }
}

/// Type, kind and URL of each finding.
fn findings(output: &Output) -> BTreeSet<(String, String, String)> {
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let all = document["findings"].as_array().expect("findings").iter();
    all.map(|finding| (text(finding, "type"), text(finding, "kind"), text(finding, "url"))).collect()
}

fn expected(list: &[(&str, &str, &str)]) -> BTreeSet<(String, String, String)> {
    list.iter().map(|(verdict, kind, url)| ((*verdict).into(), (*kind).into(), (*url).into())).collect()
}

/// The files of a site with good and faulty links: name and content.
const SITE: &[(&str, &str)] = &[
    (
        "public/index.html",
        "<!DOCTYPE html><title>t</title>\n<a href=\"about\">About</a> <a href=\"/guide/\">Guide</a>\n\
         <a href=\"missing.html\">The <b>missing</b> page</a>\n<a href=\"guide/#start\">ok</a>\n\
         <a href=\"guide/index.html#strat\">Start here</a> <a href=\"#top\">up</a> <a href=\"#nowhere\">x</a>\n\
         <a href=\"#/route\">app</a> <a href=\"about.html#:~:text=and%20Down\">text</a> <a href=\"about#caf%C3%A9\">é</a>\n\
         <a href=\"mailto:me\">m</a> <a href=\"mailto:me@example.com\">m</a> <a href=\"file:///C:/x\">f</a>\n\
         <a href=\"http://[bad/\">b</a> <a href=\"tel:123\">t</a> <img src=\"a.png\" srcset=\"a.png 1x, b.png 2x\">\n\
         <a href=\"assets/\">listing</a> <a href=\"About.html\">case</a>",
    ),
    (
        "public/about.html",
        "<p id=\"caf&eacute;\"><a href=\"/\">home</a><a href=\"../public/index.html\">up and down</a>",
    ),
    (
        "public/guide/index.html",
        "<h1 id=start>x</h1><a name=old></a><a href=\"../about.html#\">a</a><a href=\"#old\">o</a>",
    ),
    ("public/a.png", ""),
    ("public/assets/x.css", ""),
];

/// The document is valid, and has more references than are read. The last one is broken.
#[test]
fn a_document_that_is_not_read_to_its_end_is_a_finding_in_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let links = "<a href=b.html>b</a>".repeat(300_000);
    write(
        folder.path(),
        &[("a.html", &format!("{links}<p id=end><a href=missing.html>")), ("b.html", "<a href=a.html#end>")],
    );
    for (format, words) in [
        ("text", "not read to its end"),
        ("json", "\"not_read\""),
        ("junit", "not read"),
        ("sarif", "not_read"),
        ("github", "not read"),
    ] {
        let output = argiope(folder.path(), &[".", "--external", "no", "--format", format], "");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let shown = text(&output.stdout);
        assert!(shown.contains(words) && !shown.contains("no element"), "{format}: {shown}");
    }
}

#[test]
fn a_folder_is_checked_with_clean_urls_and_fragments() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), SITE);
    let output = argiope(folder.path(), &["public", "--format", "json"], "");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(
        findings(&output),
        expected(&[
            ("broken", "missing_file", "public/missing.html"),
            ("broken", "missing_file", "public/b.png"),
            ("broken", "missing_file", "public/About.html"),
            ("broken", "fragment", "public/guide/index.html#strat"),
            ("broken", "fragment", "public/index.html#nowhere"),
            ("broken", "malformed", "mailto:me"),
            ("broken", "malformed", "file:///C:/x"),
            ("broken", "malformed", "http://[bad/"),
            ("unknown", "fragment", "public/index.html#/route"),
            ("unknown", "missing_file", "public/assets/"),
        ])
    );
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = document["findings"].as_array().expect("findings");
    let of = |url: &str| all.iter().find(|finding| finding["url"] == url).expect(url);
    let missing = of("public/missing.html");
    assert_eq!(
        missing["on"],
        serde_json::json!([{ "page": "public/index.html", "line": 3, "column": 10, "text": "The missing page" }])
    );
    assert_eq!(of("public/About.html")["suggestion"], "did you mean public/about.html?");
    assert_eq!(of("public/guide/index.html#strat")["suggestion"], "did you mean #start?");
    assert_eq!(document["summary"]["pages"], 3);
    assert_eq!(document["summary"]["broken"], 8);
    assert_eq!(document["summary"]["unknown"], 2);
}

#[test]
fn options_exclude_findings() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), SITE);
    write(folder.path(), &[(".argiopeignore", "# known\nmissing\\.html$\n\n^file:")]);
    let ignored =
        ["--ignore", "About", "--ignore", "bad", "--ignore", "^mailto:me$", "--fragments", "no", "--assets", "no"];
    let output = argiope(folder.path(), &[&["public", "--format", "json"], &ignored[..]].concat(), "");
    assert_eq!(findings(&output), expected(&[("unknown", "missing_file", "public/assets/")]));
    assert_eq!(output.status.code(), Some(0), "unknown targets do not count: {}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["summary"]["ignored"], 5);
}

#[test]
fn markdown_files_are_checked_from_the_current_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        &[
            (
                "README.md",
                "---\ntitle: x\n---\n# My Project\n\n[docs](docs/) [guide](docs/guide.md#first-steps) [root](/docs/guide.md)\n\n\
                 [bad][ref] ![logo](img/logo.png)\n\n[up](#my-project) [wrong](#my-projects)\n\n[ref]: docs/gone.md\n",
            ),
            (
                "docs/guide.md",
                "# Guide\n\n## First steps!\n\n[back](../README.md#my-project) <a href=\"../README.md#no\">x</a>\n",
            ),
        ],
    );
    let output = argiope(folder.path(), &["README.md", "docs", "--format", "json"], "");
    assert_eq!(
        findings(&output),
        expected(&[
            ("broken", "missing_file", "docs/gone.md"),
            ("broken", "missing_file", "img/logo.png"),
            ("broken", "fragment", "README.md#my-projects"),
            ("broken", "fragment", "README.md#no"),
        ]),
        "{}",
        text(&output.stderr)
    );
    // The documents that a single file points to are read for their anchors.
    write(folder.path(), &[("one.md", "[a](docs/guide.md#first-steps) [b](docs/guide.md#second-steps)")]);
    let output = argiope(folder.path(), &["one.md", "--format", "json"], "");
    assert_eq!(findings(&output), expected(&[("broken", "fragment", "docs/guide.md#second-steps")]));
}

#[test]
fn exit_codes_reflect_the_result() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), &[("good/a.html", "<a href=a.html>"), ("empty/x.txt", ""), ("bad/a.html", "<a href=b.html>")]);
    for (arguments, code) in [
        (&["good"][..], 0),
        (&["bad"], 3),
        (&["good", "bad"], 3),
        (&["empty"], 4),
        (&["no-such-folder"], 2),
        (&["good", "--accept", "x"], 2),
        (&["good", "--ignore", "("], 2),
        (&["good", "--external", "perhaps"], 2),
        (&[], 2),
        (&["good", "-o", "no/such/folder/x"], 1),
    ] {
        let output = argiope(folder.path(), arguments, "");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = argiope(folder.path(), &["empty/x.txt"], "");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("argiope check - < FILE"), "{}", text(&output.stderr));
}

#[test]
fn every_format_reports_the_finding_and_escapes_control_characters() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = "<a href=\"gone\u{1b}[2J.html\">x|<i>y</i> &lt;script&gt; \u{202e}</a>\n<a href='x.html'>fine, 100%</a>";
    write(folder.path(), &[("a.html", page)]);
    for (format, parts) in [
        ("text", &["a.html:1:10", "broken  x.html  no such file\n", "2 links"][..]),
        ("json", &["\"findings\"", "\"missing_file\"", "\"line\":2"]),
        ("jsonl", &["{\"type\":\"broken\"", "\"missing_file\"", "\"line\":2"]),
        ("junit", &["<testsuites", "failures=\"2\"", "type=\"missing_file\"", "2:10 x.html"]),
        ("github", &["::error file=a.html,line=2,col=10,title=Broken link::x.html: no such file"]),
        ("sarif", &["\"ruleId\":\"missing_file\"", "\"startLine\":2", "2.1.0"]),
        ("markdown", &["| x.html | no such file | a.html:2:10 fine, 100% |", "&lt;script&gt;"]),
    ] {
        let output = argiope(folder.path(), &["a.html", "--format", format], "");
        assert_eq!(output.status.code(), Some(3), "{format}");
        let shown = text(&output.stdout);
        for part in parts {
            assert!(shown.contains(part), "{format} lacks {part}: {shown}");
        }
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{format}: {shown}");
        let summary = if format == "text" { shown } else { text(&output.stderr) };
        assert!(summary.contains("1 page, 2 links: 2 broken targets in 2 places, 0 unknown"), "{format}: {summary}");
    }
    let output = argiope(folder.path(), &["a.html", "--format", "junit", "-q", "-o", "out.xml"], "");
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    assert!(std::fs::read_to_string(folder.path().join("out.xml")).expect("a file").contains("</testsuites>"));
}

#[test]
fn links_to_the_base_url_of_a_folder_are_checked_as_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = "<link rel=canonical href=https://h.example/docs/a.html><a href=/docs/b.html>x</a>\
                <a href=https://h.example/docs/c.html>y</a><a href=/elsewhere>z</a>";
    write(folder.path(), &[("a.html", page)]);
    let arguments = [".", "--base-url", "https://h.example/docs/", "--external", "no", "--format", "json"];
    let output = argiope(folder.path(), &arguments, "");
    assert_eq!(
        findings(&output),
        expected(&[
            ("broken", "missing_file", "https://h.example/docs/b.html"),
            ("broken", "missing_file", "https://h.example/docs/c.html"),
        ])
    );
}

#[test]
fn the_message_for_a_bad_ignore_pattern_names_its_source() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), &[("a.html", "<a href=x>x</a>"), (".argiopeignore", "fine\n[bad(\n")]);
    let output = argiope(folder.path(), &["a.html"], "");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains(".argiopeignore: \"[bad(\" is not a regular expression: unclosed character class"),
        "{stderr}"
    );
    let stderr = text(&argiope(folder.path(), &["a.html", "--ignore", "("], "").stderr);
    assert!(stderr.contains("--ignore: \"(\" is not a regular expression: unclosed group"), "{stderr}");
}

#[test]
fn the_twelve_faults_of_the_tutorial_are_found() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faulty_docs");
    let output = argiope(&folder, &[".", "--format", "json"], "");
    assert_eq!(
        findings(&output),
        expected(&[
            ("broken", "missing_file", "guide/instal.md"),
            ("broken", "missing_file", "guide/Config.md"),
            ("broken", "fragment", "guide/install.md#first-step"),
            ("broken", "fragment", "guide/install.md#Build-it"),
            ("broken", "missing_file", "upgrade.md"),
            ("broken", "missing_file", "img/logo.svg"),
            ("broken", "malformed", "mailto:docs.example.com"),
            ("broken", "malformed", "file:///home/me/notes.html"),
            ("broken", "malformed", "https://[schema.example/"),
            ("broken", "fragment", "guide/config.md#end"),
            ("broken", "missing_file", "img/cover.png"),
            ("broken", "missing_file", "img/large.png"),
        ])
    );
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let with_advice = document["findings"].as_array().expect("findings").iter().filter(|f| f["suggestion"].is_string());
    assert!(with_advice.count() >= 5, "{document:#}");
}

#[test]
fn files_whose_names_are_not_utf8_are_checked() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let name = |bytes: &[u8]| folder.path().join(std::ffi::OsStr::from_bytes(bytes));
    std::fs::write(name(b"b\xff.html"), "<a href=gone.html>x</a>").expect("a file");
    std::fs::write(name(b"index.html"), "<a href=\"b%FF.html\">x</a><a href=\"bb.html\">y</a>").expect("a file");
    let output = argiope(folder.path(), &[".", "--format", "json"], "");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let missing = expected(&[("broken", "missing_file", "bb.html"), ("broken", "missing_file", "gone.html")]);
    assert_eq!(findings(&output), missing, "{}", text(&output.stdout));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(document["notes"].is_null(), "{document}");
    assert!(!text(&output.stdout).contains("did you mean b\u{fffd}"), "{}", text(&output.stdout));
}

#[test]
fn documents_that_must_not_be_read_are_findings_and_are_never_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        &[
            ("docs/index.md", "[pipe](pipe.md#x) [out](out.md) [shared](shared/a.html#x) [logo](logo.png)\n"),
            ("docs/sub/inside.md", "# Inside\n"),
            ("shared/a.html", "<p id=x>"),
            ("shared/secret.md", "[broken](nowhere.md)"),
            ("shared/logo.png", ""),
        ],
    );
    let at = |path: &str| folder.path().join(path);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("docs/pipe.md"), rustix::fs::Mode::RWXU).expect("a pipe");
    std::fs::File::create(at("docs/sparse.md")).and_then(|file| file.set_len(20 << 30)).expect("a sparse file");
    for (target, link) in [
        ("../shared/secret.md", "docs/out.md"),
        ("../shared", "docs/shared"),
        ("../shared/logo.png", "docs/logo.png"),
        ("sub/inside.md", "docs/alias.md"),
        ("/dev/zero", "docs/zero.html"),
    ] {
        std::os::unix::fs::symlink(target, at(link)).expect("a symbolic link");
    }
    let output = argiope(folder.path(), &["docs", "--format", "json"], "");
    assert_eq!(
        findings(&output),
        expected(&[
            ("unknown", "not_read", "docs/pipe.md"),
            ("unknown", "not_read", "docs/pipe.md#x"),
            ("unknown", "not_read", "docs/sparse.md"),
            ("unknown", "not_read", "docs/out.md"),
            ("unknown", "not_read", "docs/shared"),
            ("unknown", "not_read", "docs/zero.html"),
        ])
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let alone = argiope(folder.path(), &["docs/pipe.md"], "");
    assert_eq!(alone.status.code(), Some(4), "{}", text(&alone.stderr));
}

#[test]
fn an_encoded_slash_does_not_lead_out_of_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        &[
            (
                "site/index.html",
                "<a href='/%2f..%2fetc/passwd'>a</a><a href='..%2fsecret.html'>b</a><a href='/a%2Fb.html'>c</a>",
            ),
            ("site/a/b.html", "x"),
            ("secret.html", "x"),
        ],
    );
    for flags in [["--root-dir", "site"], ["--base-url", "https://h.example/"]] {
        let output = argiope(folder.path(), &[&["site", "--format", "json"], &flags[..]].concat(), "");
        let found = findings(&output);
        assert_eq!(found.len(), 3, "{flags:?}: {found:?}");
        assert!(found.iter().all(|(_, kind, _)| kind == "missing_file"), "{found:?}");
    }
}

#[test]
fn text_fragments_are_checked_against_the_text_of_the_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let links = |page: &str| {
        format!(
            "<a href='{page}#:~:text=Two%20words'>a</a><a href='{page}#:~:text=other,-words'>b</a>\
             <a href='{page}#part:~:text=Start,end'>c</a><a href='{page}#gone:~:text=two'>d</a>"
        )
    };
    let target = "<p id=part>two <b>words</b>, <i>st</i>art\nand end<script>other words</script>";
    let target = format!("{target}{}", "<p>more text</p>".repeat(100));
    let target = target.as_str();
    let missing = |page: &str| {
        expected(&[
            ("broken", "fragment", &format!("{page}#:~:text=other,-words")),
            ("broken", "fragment", &format!("{page}#gone:~:text=two")),
        ])
    };
    write(
        folder.path(),
        &[("index.html", &links("page.html")), ("page.html", target), ("other.html", &links(&site.url("/page")))],
    );
    let local = argiope(folder.path(), &["index.html", "page.html", "--format", "json"], "");
    assert_eq!(findings(&local).len(), 2, "{}", text(&local.stdout));
    let page = site.url("/page");
    let root = site.url("/");
    let site = site.page("/", Response::html(links("page"))).page("/page", Response::html(target.to_owned()));
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    for arguments in [[root.as_str(), "--format", "json"], ["other.html", "--format", "json"]] {
        let output = argiope(folder.path(), &[&arguments[..], &["--allow-private"]].concat(), "");
        assert_eq!(findings(&output), missing(&page), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn what_a_check_found_is_in_the_report_and_the_audit_of_its_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let (site, other) = (Site::http("127.0.0.1:0").expect("a socket"), Site::http("127.0.0.2:0").expect("a socket"));
    let (root, gone) = (site.url("/"), other.url("/gone"));
    let page = format!("<title>A page with a title</title><a href='{gone}'>x</a><a href='/about#part'>y</a>");
    let site = site.page("/", Response::html(page)).page("/about", Response::html("<title>About</title><p id=p>"));
    let _web = PracticeWeb::new().site(site).site(other).start().expect("a server");
    let output = argiope(folder.path(), &[&root, "-d", "a.crawl", "--allow-private", "-q"], "");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        let output = command.current_dir(folder.path()).args(arguments).output().expect("the command was built");
        text(&output.stdout)
    };
    let audit: Value = serde_json::from_str(&run(&["audit", "a.crawl", "--format", "json"])).expect("JSON");
    let found: BTreeSet<(&str, &str)> = audit["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .flat_map(|finding| {
            let urls = finding["pages"].as_array().expect("pages").iter();
            urls.map(|page| (finding["id"].as_str().expect("an id"), page["url"].as_str().expect("a URL")))
        })
        .filter(|(id, _)| matches!(*id, "external-broken" | "fragment-missing" | "broken-link"))
        .collect();
    let fragment = format!("{root}about#part");
    assert_eq!(found, BTreeSet::from([("external-broken", gone.as_str()), ("fragment-missing", fragment.as_str())]));
    let report = run(&["report", "a.crawl"]);
    assert!(report.contains(&gone) && report.contains("2 broken, 0 unknown"), "{report}");
    let report: Value = serde_json::from_str(&run(&["report", "a.crawl", "--json"])).expect("JSON");
    assert_eq!(report["check"]["broken"], 2, "{report}");
    let again = argiope(folder.path(), &[&root, "-d", "a.crawl", "--fresh", "--allow-private", "-q"], "");
    assert_eq!(again.status.code(), Some(3), "{}", text(&again.stderr));
}

#[test]
fn settings_come_from_a_configuration_file_and_flags_override_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = "ignore = [\"gone\"]\nfragments = \"no\"\nexternal = false\nformat = \"json\"\naccept = \"200-299,404\"\nmax-tries = 1\n";
    write(
        folder.path(),
        &[
            ("a.html", "<a href=gone.html>x</a><a href='#y'>y</a><a href=z.html>z</a>"),
            ("check.toml", settings),
            ("bad.toml", "extrenal = false\n"),
        ],
    );
    let output = argiope(folder.path(), &["a.html", "--config", "check.toml"], "");
    assert_eq!(findings(&output), expected(&[("broken", "missing_file", "z.html")]), "{}", text(&output.stderr));
    let flags = ["a.html", "--config", "check.toml", "--fragments", "yes", "--ignore", "^z"];
    let both = [("broken", "missing_file", "gone.html"), ("broken", "fragment", "a.html#y")];
    assert_eq!(findings(&argiope(folder.path(), &flags, "")), expected(&both));
    let bad = argiope(folder.path(), &["a.html", "--config", "bad.toml"], "");
    assert_eq!(bad.status.code(), Some(2));
    assert!(text(&bad.stderr).contains("did you mean `external`?"), "{}", text(&bad.stderr));
}

#[test]
fn a_text_fragment_of_a_page_that_scripts_fill_is_unknown() {
    let folder = tempfile::tempdir().expect("a folder");
    let shell = "<title>App</title><div id=root></div><script src=app.js></script>";
    let links = "<a href='app.html#:~:text=welcome'>a</a><a href='plain.html#:~:text=welcome'>b</a>";
    write(folder.path(), &[("index.html", links), ("app.html", shell), ("plain.html", "<p>text"), ("app.js", "")]);
    let output = argiope(folder.path(), &[".", "--format", "json"], "");
    let faults =
        [("unknown", "fragment", "app.html#:~:text=welcome"), ("broken", "fragment", "plain.html#:~:text=welcome")];
    assert_eq!(findings(&output), expected(&faults), "{}", text(&output.stderr));
}

#[test]
fn fragments_beyond_the_search_budget_of_a_page_are_over_the_limits() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = format!("<p>{}", "some text ".repeat(1 << 20));
    let links = |page: &str| -> String {
        (0..10).map(|number| format!("<a href='{page}#:~:text=some&text=text{number}'>x</a>")).collect()
    };
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    let site = site.page("/", Response::html(links("page.html"))).page("/page.html", Response::html(page.clone()));
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    write(folder.path(), &[("index.html", &links("page.html")), ("page.html", &page)]);
    for target in [".", &root] {
        let arguments = [target, "--format", "json", "--max-size", "20MB"];
        let output = argiope(folder.path(), &arguments, "");
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        // A search takes 10 MiB of 64 MiB.
        assert_eq!(
            (findings(&output).len(), &document["summary"]["over_limits"]),
            (3, &7.into()),
            "{target}: {document}"
        );
    }
}
