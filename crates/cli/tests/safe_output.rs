//! Output files are not written through symbolic links; messages about bad certificates; the output of `fetch`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use argiope_practice::{CertificateKind, PracticeWeb, Response, RunningWeb, Site};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().expect("the binary runs")
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

fn serve(site: Site) -> RunningWeb {
    PracticeWeb::new().site(site).start().expect("the practice web starts")
}

#[test]
fn no_file_is_written_through_a_symbolic_link() {
    let site = Site::http("127.6.7.1:0").expect("a loopback address").page("/", Response::html("<title>x</title>"));
    let root = site.url("/");
    let _web = serve(site);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("precious"), "precious").expect("written");
    for name in ["pages.jsonl", "page.html", "table.csv", "table.csv.part", "page.html.part"] {
        symlink(at("precious"), at(name)).expect("a link");
    }
    let refused = run(folder.path(), &["crawl", &root, "-q", "--out", "d", "--jsonl", "pages.jsonl"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr_of(&refused).contains("pages.jsonl cannot be written: it is a symbolic link"),
        "{}",
        stderr_of(&refused)
    );

    assert_eq!(run(folder.path(), &["crawl", &root, "-q", "--out", "e"]).status.code(), Some(0));
    for arguments in
        [vec!["report", "e", "--html", "page.html"], vec!["export", "e", "--format", "csv", "-o", "table.csv"]]
    {
        let output = run(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    }
    assert_eq!(fs::read_to_string(at("precious")).expect("there"), "precious");
    assert!(fs::read_to_string(at("page.html")).expect("there").starts_with("<!doctype html>"));
    assert!(!at("table.csv").is_symlink());
    // A device or a pipe may be written to through a symbolic link, such as `/dev/stdout`.
    let output = run(folder.path(), &["report", "e", "--html", "/dev/stdout"]);
    assert!(output.stdout.starts_with(b"<!doctype html>"));
}

#[test]
fn man_pages_replace_no_file_of_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("precious"), "precious").expect("written");
    symlink(at("precious"), at("argiope-crawl.1")).expect("a link");
    let refused = run(folder.path(), &["man", "."]);
    assert_eq!(refused.status.code(), Some(1), "a link");
    fs::remove_file(at("argiope-crawl.1")).expect("removed");
    fs::write(at("argiope-crawl.1"), "mine").expect("written");
    let refused = run(folder.path(), &["man", "."]);
    assert_eq!(refused.status.code(), Some(1), "a file of others");
    assert_eq!(fs::read_to_string(at("argiope-crawl.1")).expect("there"), "mine");
    assert_eq!(fs::read_to_string(at("precious")).expect("there"), "precious");
    fs::remove_file(at("argiope-crawl.1")).expect("removed");
    for _ in 0..2 {
        let written = run(folder.path(), &["man", "."]);
        assert_eq!(written.status.code(), Some(0), "own pages are replaced: {}", stderr_of(&written));
    }
}

#[test]
fn a_file_in_place_of_the_crawl_directory_is_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("f"), "x").expect("written");
    for more in [&["--out", "f"][..], &["--out", "f", "--fresh"]] {
        let output = run(folder.path(), &[&["crawl", "http://127.0.0.1:1/", "-q"][..], more].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(
            stderr_of(&output).contains("f is a file, and a crawl directory must be a directory"),
            "{}",
            stderr_of(&output)
        );
    }
    assert_eq!(fs::read_to_string(folder.path().join("f")).expect("there"), "x");
}

#[test]
fn an_invalid_client_certificate_is_reported_with_its_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("junk.pem"), "\u{1b}[2Jjunk").expect("written");
    let output = run(folder.path(), &["fetch", "https://127.0.0.1:1/", "--cert", "junk.pem", "--key", "junk.pem"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr_of(&output).contains("junk.pem") && stderr_of(&output).contains("no certificate in PEM"),
        "{}",
        stderr_of(&output)
    );
    let output = run(folder.path(), &["fetch", "https://127.0.0.1:1/", "--ca-cert", "junk.pem"]);
    assert!(stderr_of(&output).contains("no certificate in PEM"), "{}", stderr_of(&output));
    // PEM, but not a certificate.
    let hollow = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(folder.path().join("hollow.pem"), hollow).expect("written");
    let output = run(folder.path(), &["fetch", "https://127.0.0.1:1/", "--ca-cert", "hollow.pem"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = stderr_of(&output);
    assert!(stderr.contains("hollow.pem") && stderr.contains("certificate 1 of 1 in it is not valid"), "{stderr}");
    let output = run(folder.path(), &["crawl", "https://127.0.0.1:1/", "--ca-cert", "absent.pem"]);
    assert_eq!(
        (output.status.code(), stderr_of(&output).contains("absent.pem")),
        (Some(2), true),
        "{}",
        stderr_of(&output)
    );
}

#[test]
fn fetch_shows_the_certificate_and_that_it_was_not_verified() {
    let site = Site::https("127.6.7.2:0", CertificateKind::Expired).expect("a loopback address");
    let site = site.page("/", Response::html("x"));
    let root = site.url("/");
    let _web = serve(site);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let shown = |arguments: &[&str]| {
        let output = run(folder.path(), arguments);
        (String::from_utf8(output.stdout.clone()).expect("UTF-8"), stderr_of(&output))
    };
    let (text, stderr) = shown(&["fetch", &root, "--insecure"]);
    for part in [
        "secured     TLS 1.3, ",
        "certificate of Argiope practice site, by Argiope practice authority",
        "for 127.6.7.2",
        "from 2001-01-01T00:00:00Z to 2002-01-01T00:00:00Z",
        "NOT VERIFIED",
        "\"insecure\": true",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(stderr.contains("WARNING: certificates are NOT verified"), "{stderr}");
    let (text, stderr) = shown(&["fetch", &root]);
    assert!(text.contains("unknown issuer") || text.contains("expired since"), "{text}");
    assert!(!text.contains("insecure") && stderr.is_empty(), "{text}{stderr}");
    let (_, stderr) = shown(&["check", &root, "--allow-private"]);
    assert!(stderr.contains("failed: tls: ") && stderr.contains("-k skips the verification"), "{stderr}");
}

#[test]
fn a_header_with_bare_line_feeds_is_printed_without_the_body() {
    let site = Site::http("127.6.7.3:0").expect("a loopback address");
    let site = site.page("/", Response::raw("HTTP/1.1 200 OK\nContent-Length: 6\nX-Last: 1\n\nsecret"));
    let root = site.url("/");
    let _web = serve(site);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = run(folder.path(), &["fetch", &root]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("< X-Last: 1\n") && !text.contains("secret"), "{text}");
}

#[test]
fn a_report_opens_no_link_no_pipe_and_no_huge_file_in_place_of_the_findings_of_a_check() {
    let site = Site::http("127.6.7.4:0").expect("a loopback address").page("/", Response::html("<title>x</title>"));
    let root = site.url("/");
    let _web = serve(site);
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(run(folder.path(), &["crawl", &root, "-q", "--out", "d"]).status.code(), Some(0));
    let findings = folder.path().join("d/check.json");
    let foreign = folder.path().join("foreign.json");
    let valid = r#"{"findings":[],"summary":{"links":0,"external":0,"broken":0,"broken_places":0,"unknown":0}}"#;
    fs::write(&findings, valid).expect("written");
    assert_eq!(run(folder.path(), &["report", "d"]).status.code(), Some(0));
    fs::rename(&findings, &foreign).expect("moved");
    let plants: [&dyn Fn(); 3] = [
        &|| symlink(&foreign, &findings).expect("a link"),
        &|| {
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
            rustix::fs::mknodat(rustix::fs::CWD, &findings, kind, mode, 0).expect("a pipe");
        },
        &|| fs::File::create(&findings).and_then(|file| file.set_len(300 << 20)).expect("a sparse file"),
    ];
    for plant in plants {
        plant();
        let output = run(folder.path(), &["report", "d"]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr_of(&output));
        assert!(stderr_of(&output).contains("check.json cannot be read"), "{}", stderr_of(&output));
        fs::remove_file(&findings).expect("removed");
    }
}

#[test]
fn a_locale_that_is_not_utf_8_gets_ascii() {
    let site = Site::http("127.6.7.9:0").expect("a loopback address");
    let site = site
        .page("/", Response::html("<title>Größe</title><a href=/moved>x</a><a href=/gone>Größe</a>"))
        .page("/moved", Response::redirect("/", 301));
    let root = site.url("/");
    let _web = serve(site);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run_in = |locale: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        command.args(arguments).env("LC_ALL", locale).current_dir(folder.path()).stdin(Stdio::null());
        let output = command.output().expect("the binary runs");
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("UTF-8"))
    };
    let crawl = ["crawl", &root, "--out", "d", "--fresh"];
    for arguments in [&crawl[..], &["report", "d"], &["audit", "d"], &["explain", "d", &root], &["fetch", &root]] {
        for text in run_in("C", arguments) {
            assert!(text.is_ascii(), "{arguments:?}: {text}");
        }
    }
    let [report, _] = run_in("C", &["report", "d"]);
    assert!(report.contains("1 x 301 Moved Permanently") && report.contains("/moved -> "), "{report}");
    let [report, _] = run_in("de_DE.UTF-8", &["report", "d"]);
    assert!(report.contains("1 × 301 Moved Permanently"), "{report}");
    // Data for programs is the same in every locale.
    let [in_c, _] = run_in("C", &["export", "d", "--format", "jsonl"]);
    assert!(in_c.contains("\"title\":\"Größe\""), "{in_c}");
}
