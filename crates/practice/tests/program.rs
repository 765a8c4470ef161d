//! The server as a child process: ready line, statistics, families, errors.

mod client;

use argiope_practice::{ServerProcess, spawn_child};
use client::*;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_argiope-practice");

fn spawn(line: &str) -> ServerProcess {
    spawn_child(Path::new(BINARY), line.split_whitespace()).unwrap()
}

/// The address of a root URL, parsed and as text.
fn address_of(url: &str) -> (SocketAddr, String) {
    let host = url.split('/').nth(2).unwrap();
    (host.parse().unwrap(), host.to_owned())
}

fn get_root(url: &str) -> (String, Vec<u8>) {
    let (address, host) = address_of(url);
    let mut stream = connect(address);
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    read_response(&mut stream)
}

#[test]
fn a_graph_is_served_and_counted() {
    let mut child = spawn("serve --hosts 5 --pages 7 --seeds 5 --size 3000 --cross 200");
    let ready = child.ready().clone();
    assert_eq!((ready.roots.len(), ready.pages), (5, Some(35)));
    for root in &ready.roots {
        let (head, body) = get_root(root);
        assert_eq!((status(&head), body.len()), (200, 3000));
    }
    let stats = child.stats().unwrap();
    assert_eq!((stats.requests, stats.hosts.len(), stats.violations), (5, 5, 0));
    assert!(child.stop().unwrap().success());
}

#[test]
fn the_authority_and_the_roots_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let (ca, roots) = (dir.path().join("ca.pem"), dir.path().join("roots"));
    let line =
        format!("serve --tls good --hosts 3 --seeds 3 --ca-out {} --roots-out {}", ca.display(), roots.display());
    let child = spawn(&line);
    assert_eq!(child.ready().ca.as_deref(), Some(ca.as_path()));
    assert!(std::fs::read_to_string(&ca).unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    let written = std::fs::read_to_string(&roots).unwrap();
    assert_eq!(written.lines().collect::<Vec<_>>(), child.ready().roots);
    assert!(written.starts_with("https://127.1.0.1:"));
}

#[test]
fn silent_hosts_list_pages_with_held_responses() {
    let mut child = spawn("serve --family silent --hosts 2 --pages 10");
    let root = child.ready().roots[1].clone();
    let (_, body) = get_root(&root);
    assert_eq!(String::from_utf8(body).unwrap().matches("href=\"/p").count(), 10);
    let (address, host) = address_of(&root);
    let mut stream = connect(address);
    write!(stream, "GET /p3 HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    // The server may read the request a moment after its statistics are requested.
    while child.stats().unwrap().requests < 2 {}
    assert_eq!(child.stats().unwrap().answered, 1);
}

#[test]
fn the_demo_is_served() {
    let child = spawn("demo");
    let roots = &child.ready().roots;
    assert_eq!(roots.len(), 8);
    let (head, body) = get_root(&roots[0]);
    assert_eq!(status(&head), 200);
    assert!(String::from_utf8(body).unwrap().contains("<title>The Orb Weaver's Journal</title>"));
}

#[test]
fn the_robots_txt_of_the_shop_can_be_replaced() {
    let robots = |line: &str| {
        let child = spawn(line);
        let (address, host) = address_of(&child.ready().roots[0]);
        let mut stream = connect(address);
        write!(stream, "GET /robots.txt HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        String::from_utf8(read_response(&mut stream).1).unwrap()
    };
    assert!(robots("serve --family shop").contains("/sitemap.xml"));
    assert_eq!(robots("serve --family shop --robots Disallow:/guide"), "Disallow:/guide");
}

#[test]
fn errors_name_the_wrong_argument() {
    for (args, expected) in [
        (vec!["serve", "--hosts", "x"], "--hosts x"),
        (vec!["demo", "--http2"], "--http2"),
        (vec!["dance"], "dance"),
        (vec![], "serve"),
    ] {
        let output = Command::new(BINARY).args(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8(output.stderr).unwrap().contains(expected), "{args:?}");
    }
    let output = Command::new(BINARY).arg("--help").output().unwrap();
    assert!(output.status.success() && String::from_utf8(output.stdout).unwrap().contains("--latency-ms"));
}

#[test]
fn the_server_exits_when_its_input_ends() {
    let output = Command::new(BINARY).arg("serve").stdin(std::process::Stdio::null()).output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
}

/// More clients than file descriptors: waiting clients are served when others disconnect.
#[test]
fn the_server_survives_running_out_of_file_descriptors() {
    let shell = format!("ulimit -n 40; exec {BINARY} serve --pages 3");
    let mut child = spawn_child(Path::new("/bin/sh"), ["-c", &shell]).unwrap();
    let root = child.ready().roots[0].clone();
    let (address, host) = address_of(&root);
    let mut streams: Vec<_> = (0..60).map(|_| connect(address)).collect();
    for stream in &mut streams {
        write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    }
    // Each client disconnects after its response, so that a waiting one can be accepted.
    for mut stream in streams {
        assert_eq!(status(&read_response(&mut stream).0), 200);
    }
    let stats = child.stats().unwrap();
    assert_eq!(stats.requests, 60);
    assert!(stats.peak_open < 40, "{}", stats.peak_open);
}

#[test]
fn the_html_files_of_a_folder_are_served() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    for (file, text) in [("index.html", "<p>one"), ("sub/index.html", "<p>two"), ("style.css", "p {}")] {
        std::fs::write(dir.path().join(file), text).unwrap();
    }
    let mut child = spawn(&format!("serve --family files --folder {}", dir.path().display()));
    let root = child.ready().roots[0].clone();
    let (address, host) = address_of(&root);
    let mut stream = connect(address);
    let mut results = Vec::new();
    for path in ["/", "/index.html", "/sub/", "/style.css", "/sub/index.html", "/"] {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let (head, body) = read_response(&mut stream);
        results.push(if status(&head) == 200 { String::from_utf8(body).unwrap() } else { status(&head).to_string() });
    }
    assert_eq!(results, ["<p>one", "<p>one", "<p>two", "404", "<p>two", "<p>one"]);
    let stats = child.stats().unwrap();
    assert_eq!((stats.requests, stats.pages), (6, 4), "a page counts once, and a 404 does not count");
    assert_ne!(stats.pages_digest, "0000000000000000");
}

#[test]
fn the_ideal_time_is_printed_as_json() {
    let output = Command::new(BINARY).args(["ideal", "--pages", "3", "--latency-ms", "125"]).output().unwrap();
    let line = String::from_utf8(output.stdout).unwrap();
    // robots.txt and three pages in sequence, 125 ms each.
    assert!(output.status.success() && line.contains("\"ideal\":0.5"), "{line}");
}

/// Starts `argiope-practice hostile`. Returns the process and the fields of its first `count` lines.
fn hostile(arguments: &[&str], count: usize) -> (std::process::Child, Vec<Vec<String>>) {
    use std::io::BufRead;
    use std::process::Stdio;
    let mut child = Command::new(BINARY)
        .arg("hostile")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines().take(count);
    let fields = lines.map(|line| line.unwrap().split('\t').map(str::to_owned).collect()).collect();
    (child, fields)
}

#[test]
fn hostile_cases_are_listed_and_served() {
    let (mut listing, listed) = hostile(&["--list", "connection"], usize::MAX);
    assert!(listing.wait().unwrap().success());
    assert!(listed.len() >= 15 && listed.iter().all(|fields| fields.len() == 6 && fields[1] == "connection"));

    let (mut listing, listed) = hostile(&["--list", "ROB09"], usize::MAX);
    assert!(listing.wait().unwrap().success());
    assert_eq!(listed[0][2], "skip", "a robots.txt that stays unreachable disallows its host");

    let (mut child, served) = hostile(&["H126", "H102"], 2);
    let [h102, h126] = &served[..] else { panic!("{served:?}") };
    assert_eq!((&*h102[0], &*h102[2], &*h126[0], &*h126[2]), ("H102", "error:protocol", "H126", "ok"));
    let (head, body) = get_root(&h126[3]);
    assert_eq!((head.lines().next(), body), (Some("HTTP/1.1 200"), b"hello".to_vec()));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());

    let (mut wrong, _) = hostile(&["--lsit"], 0);
    assert_eq!(wrong.wait().unwrap().code(), Some(2));
}

#[test]
fn an_unknown_case_is_refused_and_help_is_printed() {
    let run = |arguments: &[&str]| {
        let output = Command::new(BINARY).args(arguments).output().expect("the program starts");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    for arguments in [&["hostile", "NOPE"][..], &["hostile", "--list", "H126", "NOPE"]] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(stderr.contains("no case is called NOPE; hostile --list names them"), "{stderr}");
    }
    for command in ["hostile", "ideal"] {
        let (code, stdout, stderr) = run(&[command, "--help"]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert!(stdout.contains(&format!("argiope-practice {command}")), "{stdout}");
    }
}
