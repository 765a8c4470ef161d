//! `argiope robots` with a file, standard input or a URL: verdict, deciding line and exit code.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use argiope_practice::{PracticeWeb, Response, Site};

const FILE: &str =
    "# ours\nUser-agent: mybot\nDisallow: /private/\nAllow: /private/open\n\nUser-agent: *\nDisallow: /\n";

fn argiope(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.arg("robots").args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    argiope(arguments).output().expect("the command was built")
}

/// The lines of standard output, with exit code 0.
fn lines(output: &Output) -> Vec<String> {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Runs the command, expects exit code 2, and returns the error message.
fn usage_error(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn site(address: &str) -> Site {
    Site::http(&format!("{address}:0")).expect("a loopback address")
}

#[test]
fn each_url_is_printed_with_the_deciding_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("robots.txt");
    std::fs::write(&path, FILE).expect("the file is written");
    let path = path.to_str().expect("a plain path");
    let urls = ["https://h/private/x", "/private/open/y", "https://h/", "/robots.txt"];
    let mut arguments = vec![path, "--agent", "mybot/1.0"];
    arguments.extend(urls);
    assert_eq!(
        lines(&run(&arguments)),
        [
            "disallowed\thttps://h/private/x\tline 3: Disallow: /private/",
            "allowed\t/private/open/y\tline 4: Allow: /private/open",
            "allowed\thttps://h/\tno rule matches",
            "allowed\t/robots.txt\trobots.txt itself is always allowed",
        ]
    );
    assert_eq!(lines(&run(&[path, "/"])), ["disallowed\t/\tline 7: Disallow: /"], "the default agent is argiope");
}

#[test]
fn robots_txt_is_read_from_standard_input() {
    let mut child = argiope(&["-", "--agent", "MYBOT", "/private/"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command was built");
    child.stdin.take().expect("a pipe").write_all(FILE.as_bytes()).expect("it is read");
    let output = child.wait_with_output().expect("the process ends");
    assert_eq!(lines(&output), ["disallowed\t/private/\tline 3: Disallow: /private/"]);
}

#[test]
fn a_url_is_fetched_as_a_crawl_would() {
    let second = site("127.5.0.2").page("/rules", Response::text(FILE));
    let first = site("127.5.0.1").redirect("/robots.txt", &second.url("/rules"), 301);
    // A host that `--resolve` names may have a private address.
    let (root, resolve) = (first.url("/"), format!("127.5.0.2:{}:127.5.0.2", second.address().port()));
    let web = PracticeWeb::new().site(first).site(second).start().expect("the practice web starts");
    let output = run(&[&root, "--agent", "mybot", "--resolve", &resolve, "/private/"]);
    assert_eq!(lines(&output), ["disallowed\t/private/\tline 3: Disallow: /private/"]);
    let paths: Vec<String> = web.log().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/robots.txt", "/rules"], "and nothing else");
}

#[test]
fn a_response_without_rules_is_described() {
    let missing = site("127.5.0.3");
    let broken = site("127.5.0.4").page("/robots.txt", Response::status(501));
    let gone = site("127.5.0.5");
    let (missing_root, broken_root, gone_root) = (missing.url("/"), broken.url("/robots.txt"), gone.url("/"));
    // Nothing listens on this port from now on.
    drop(gone);
    let _web = PracticeWeb::new().site(missing).site(broken).start().expect("the practice web starts");
    let one = |root: &str| lines(&run(&[root, "--max-tries", "1", "/x"])).remove(0);
    let line = one(&missing_root);
    assert!(line.starts_with("allowed\t/x\t") && line.contains("responded with 404: no robots.txt"), "{line}");
    let line = one(&broken_root);
    assert!(line.starts_with("disallowed\t/x\t") && line.contains("responded with 501; nothing is allowed"), "{line}");
    let line = one(&gone_root);
    assert!(line.starts_with("disallowed\t/x\t") && line.contains("could not be fetched"), "{line}");
}

#[test]
fn bad_input_is_refused() {
    assert!(usage_error(&["/nowhere/robots.txt", "/x"]).contains("cannot be read"));
    assert!(usage_error(&["/", "/x"]).contains("cannot be read"));
    assert!(usage_error(&["-", "http://"]).contains("cannot be parsed"));
    assert!(usage_error(&["-", "--agent", "!", "/"]).contains("--agent"));
    assert!(usage_error(&["ftp://h/robots.txt", "/"]).contains("neither http nor https"));
    assert!(usage_error(&["-"]).contains("<URL>"));
}

/// The rules of a malicious file that can be read are obeyed.
#[test]
fn malicious_files_are_parsed() {
    let folder = tempfile::tempdir().expect("a folder");
    let judge = |name: &str, bytes: &[u8], url: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("the file is written");
        let line = lines(&run(&[path.to_str().expect("a plain path"), url])).remove(0);
        line.split('\t').next().unwrap_or_default().to_owned()
    };
    let rule = b"User-agent: *\nDisallow: /x\n";
    let comments = b"# nothing\n".repeat(60_000);
    assert_eq!(judge("large", &[rule, &comments[..]].concat(), "/x"), "disallowed");
    assert_eq!(judge("beyond", &[&comments[..], rule].concat(), "/x"), "allowed", "after 500 KiB nothing counts");
    let stars = format!("User-agent: *\nDisallow: {}\n", "*$".repeat(8_000)).repeat(30);
    assert_eq!(judge("stars", stars.as_bytes(), &"/a".repeat(2_000)), "allowed");
    let line = [b"User-agent: *\nDisallow: /", &b"a".repeat(1 << 20)[..], b"\n"].concat();
    assert_eq!(judge("line", &line, "/x"), "allowed");
    let binary: Vec<u8> = (0..600_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert_eq!(judge("binary", &binary, "/x"), "allowed");
    let wide: Vec<u8> = "\u{feff}User-agent: *\nDisallow: /x\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(judge("wide", &wide, "/x"), "disallowed", "UTF-16");
    assert_eq!(judge("mark", &[b"\xef\xbb\xbf", &rule[..]].concat(), "/x"), "disallowed");
}
