//! A root without a scheme, with every way in which TLS can fail on its port. The built binary must ask over http only
//! if the port is closed or what answers does not speak TLS.
//!
//! The server of a case tells TLS and plain HTTP on one port apart by the first byte, so that an https URL and an http
//! URL with the same port lead to it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use argiope_practice::{CertificateKind, PracticeWeb, Response, RunningWeb, Site, TestAuthority};
use serde_json::Value;

/// The first byte of a TLS connection: the type of a handshake record.
const HANDSHAKE: u8 = 0x16;

/// A port that answers plain HTTP with a page, and leaves TLS to a case.
struct Port {
    address: SocketAddr,
    http_requests: Arc<AtomicUsize>,
}

impl Port {
    fn open(address: &str, on_tls: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((address, 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let http_requests = Arc::new(AtomicUsize::new(0));
        let (counter, on_tls) = (Arc::clone(&http_requests), Arc::new(on_tls));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (counter, on_tls) = (Arc::clone(&counter), Arc::clone(&on_tls));
                std::thread::spawn(move || {
                    let mut first = [0];
                    match stream.peek(&mut first) {
                        Ok(1) if first == [HANDSHAKE] => on_tls(stream),
                        Ok(1) => answer_http(stream, &counter),
                        _ => {}
                    }
                });
            }
        });
        Self { address, http_requests }
    }

    fn has_http_requests(&self) -> bool {
        self.http_requests.load(Ordering::SeqCst) > 0
    }
}

fn answer_http(mut stream: TcpStream, requests: &AtomicUsize) {
    requests.fetch_add(1, Ordering::SeqCst);
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(n) => request.extend_from_slice(&buffer[..n]),
        }
    }
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 21\r\nConnection: close\r\n\r\n";
    let _ = stream.write_all(format!("{head}<title>plain</title>\n").as_bytes());
}

/// Passes a TLS connection on to a site.
fn relay_to(site: SocketAddr) -> impl Fn(TcpStream) + Send + Sync {
    move |client| {
        let Ok(server) = TcpStream::connect(site) else { return };
        let copy = |mut from: TcpStream, mut to: TcpStream| {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        };
        let (from, to) = (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
        let upstream = std::thread::spawn(move || copy(from, to));
        copy(server, client);
        let _ = upstream.join();
    }
}

/// Reads the ClientHello, and sends these bytes.
fn reply(bytes: Vec<u8>) -> impl Fn(TcpStream) + Send + Sync {
    move |mut stream| {
        let mut hello = [0; 16 << 10];
        let _ = stream.read(&mut hello);
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        // Until the client closes, so that the bytes arrive.
        let _ = stream.read(&mut hello);
    }
}

/// A ServerHello of this version, with this cipher.
fn server_hello(minor: u8, cipher: [u8; 2]) -> Vec<u8> {
    let mut hello = vec![HANDSHAKE, 3, minor, 0, 42, 2, 0, 0, 38, 3, minor];
    hello.extend([7; 32]);
    hello.extend([0, cipher[0], cipher[1], 0]);
    hello
}

fn secure_site(address: &str, certificate: CertificateKind) -> Site {
    Site::https(&format!("{address}:0"), certificate).expect("a loopback address").fallback(Response::html("safe"))
}

/// A port in front of a site with this certificate.
fn port_of(site: Site, address: &str) -> (Port, RunningWeb) {
    let port = Port::open(address, relay_to(site.address()));
    (port, PracticeWeb::new().site(site).start().expect("the practice web starts"))
}

fn crawl(folder: &Path, address: SocketAddr, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_argiope"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .args(["crawl", &address.to_string(), "-d", "out", "--jsonl", "-", "--no-progress"])
        .args(["--max-tries", "2", "--retry-wait", "10ms", "--connect-timeout", "1s"])
        .args(more)
        .output()
        .expect("the binary runs")
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

fn pages(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).expect("records are UTF-8");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a record is JSON"));
    records.filter(|record| record["type"] == "page").collect()
}

/// Crawls a port and checks that the crawl stops with this fault of TLS, without a request over http.
#[track_caller]
fn check_stops(port: &Port, more: &[&str], fault: &str, words: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = crawl(folder.path(), port.address, more);
    let messages = stderr_of(&output);
    assert_eq!(output.status.code(), Some(4), "{messages}");
    assert!(!port.has_http_requests(), "asked over http: {messages}");
    let pages = pages(&output);
    assert_eq!(pages.len(), 1, "{pages:?}");
    assert_eq!((&pages[0]["outcome"], &pages[0]["error"]["tls"]), (&"failed".into(), &fault.into()), "{pages:?}");
    for word in words {
        assert!(messages.contains(word), "{word:?} is missing in: {messages}");
    }
    // The saved report of the directory says the same.
    let report = std::fs::read_to_string(folder.path().join("out/report.txt")).expect("a report");
    assert!(report.contains("Roots") && report.contains(words[0]), "{report}");
}

/// Crawls a port and checks that the root is asked over http, and that the report says so.
#[track_caller]
fn check_falls_back(port: &Port) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = crawl(folder.path(), port.address, &[]);
    let messages = stderr_of(&output);
    assert_eq!(output.status.code(), Some(0), "{messages}");
    assert!(port.has_http_requests());
    let pages = pages(&output);
    assert_eq!(pages.last().expect("a page")["url"], format!("http://{}/", port.address));
    assert_eq!(pages.last().expect("a page")["title"], "plain");
    assert!(messages.contains("so http was tried. An attacker who can reset connections can force this"), "{messages}");
}

/// Checks that the crawl stops at this certificate.
#[track_caller]
fn check_certificate(address: &str, certificate: CertificateKind, trusts: bool, fault: &str, words: &[&str]) {
    let (port, web) = port_of(secure_site(address, certificate), address);
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), web.ca_pem()).expect("the file is written");
    let path = file.path().display().to_string();
    let more = ["--ca-cert", path.as_str()];
    let words = [words, &["--ca-cert", "-k"]].concat();
    check_stops(&port, if trusts { &more } else { &[] }, fault, &words);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let messages = stderr_of(&crawl(folder.path(), port.address, &[]));
    assert!(!messages.contains("run the same command"), "{messages}");
    assert_eq!(crawl(folder.path(), port.address, &["-k"]).status.code(), Some(0), "-k accepts it");
    assert!(!port.has_http_requests());
}

#[test]
fn an_expired_certificate_stops_the_crawl() {
    check_certificate("127.6.40.1", CertificateKind::Expired, true, "invalid", &["certificate expired since 2002"]);
}

#[test]
fn a_certificate_of_the_future_stops_the_crawl() {
    check_certificate("127.6.40.2", CertificateKind::NotYetValid, true, "invalid", &["not valid before 2090"]);
}

#[test]
fn a_certificate_for_another_name_stops_the_crawl() {
    check_certificate("127.6.40.3", CertificateKind::WrongName, true, "invalid", &["name mismatch"]);
}

#[test]
fn a_self_signed_certificate_stops_the_crawl() {
    check_certificate("127.6.40.4", CertificateKind::SelfSigned, true, "untrusted", &["self-signed"]);
}

#[test]
fn a_certificate_of_an_unknown_authority_stops_the_crawl() {
    check_certificate("127.6.40.5", CertificateKind::Good, false, "untrusted", &["unknown issuer"]);
}

#[test]
fn a_tls_alert_stops_the_crawl() {
    // handshake_failure
    let port = Port::open("127.6.40.6", reply(vec![0x15, 3, 3, 0, 2, 2, 40]));
    check_stops(&port, &[], "handshake", &["refused the handshake"]);
}

#[test]
fn an_old_version_of_tls_stops_the_crawl() {
    let port = Port::open("127.6.40.7", reply(server_hello(1, [0, 0x2f])));
    check_stops(&port, &[], "handshake", &["version"]);
}

#[test]
fn an_end_in_the_middle_of_the_handshake_stops_the_crawl() {
    let port = Port::open("127.6.40.8", reply(server_hello(3, [0xc0, 0x2f])));
    check_stops(&port, &[], "handshake", &["closed the connection during the TLS handshake"]);
}

#[test]
fn an_end_in_the_middle_of_a_message_of_tls_stops_the_crawl() {
    for length in [2, 5, 20] {
        let begun = server_hello(3, [0xc0, 0x2f])[..length].to_vec();
        let port = Port::open("127.6.40.16", reply(begun));
        check_stops(&port, &[], "handshake", &["closed the connection during the TLS handshake"]);
    }
}

/// Sends these bytes, and then nothing until the client gives up.
fn stall(bytes: Vec<u8>) -> impl Fn(TcpStream) + Send + Sync {
    move |mut stream| {
        let _ = stream.write_all(&bytes);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

#[test]
fn a_handshake_that_stalls_stops_the_crawl() {
    let port = Port::open("127.6.40.9", stall(server_hello(3, [0xc0, 0x2f])));
    check_stops(&port, &[], "handshake", &["TLS handshake not complete"]);
}

#[test]
fn a_server_that_waits_for_the_end_of_a_request_line_is_crawled_over_http() {
    check_falls_back(&Port::open("127.6.40.15", stall(Vec::new())));
}

#[test]
fn a_server_that_requires_a_client_certificate_stops_the_crawl_or_gets_one_of_any_version() {
    let site = secure_site("127.6.40.10", CertificateKind::Good).requiring_client_certificate();
    let (port, web) = port_of(site, "127.6.40.10");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the file is written");
        path.display().to_string()
    };
    let ca = write("ca.pem", web.ca_pem());
    check_stops(&port, &["--ca-cert", &ca], "handshake", &["requires a client certificate (settings cert and key)"]);
    let modern = web.authority().issue(vec!["me.example".to_owned()]).expect("a certificate");
    let version1 = TestAuthority::issue_version1().expect("a certificate");
    for (name, (certificate, key)) in [("modern", modern), ("version1", version1)] {
        let (certificate, key) = (write("cert.pem", certificate), write("key.pem", key));
        let directory = tempfile::tempdir().expect("a temporary folder");
        let more = ["--ca-cert", &ca, "--cert", &certificate, "--key", &key];
        let output = crawl(directory.path(), port.address, &more);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr_of(&output));
    }
    assert!(!port.has_http_requests());
}

#[test]
fn a_plain_http_server_is_crawled_over_http() {
    let answer = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    check_falls_back(&Port::open("127.6.40.11", reply(answer.into())));
}

#[test]
fn a_server_that_closes_or_resets_at_the_first_byte_of_tls_is_crawled_over_http() {
    check_falls_back(&Port::open("127.6.40.12", reply(Vec::new())));
    // Unread input makes the kernel reset the connection.
    check_falls_back(&Port::open("127.6.40.13", drop));
}

#[test]
fn a_closed_port_is_asked_over_http_as_well() {
    let address = TcpListener::bind("127.6.40.14:0").and_then(|listener| listener.local_addr()).expect("a port");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = crawl(folder.path(), address, &[]);
    let urls: Vec<String> = pages(&output).iter().map(|page| page["url"].as_str().unwrap_or("").to_owned()).collect();
    assert_eq!(urls, [format!("https://{address}/"), format!("http://{address}/")]);
    let messages = stderr_of(&output);
    assert_eq!(output.status.code(), Some(4), "{messages}");
    assert!(messages.contains("run the same command to try them again"), "{messages}");
}

#[test]
fn a_proxy_that_makes_no_connection_is_not_a_reason_for_http() {
    let closed = TcpListener::bind("127.6.40.16:0").and_then(|listener| listener.local_addr()).expect("a port");
    let listener = TcpListener::bind("127.6.40.17:0").expect("a port");
    let refusing = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
        }
    });
    for proxy in [closed, refusing] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = crawl(folder.path(), closed, &["--proxy", &format!("http://{proxy}")]);
        let pages = pages(&output);
        assert_eq!(pages.len(), 1, "{pages:?}");
        assert_eq!(pages[0]["url"], format!("https://{closed}/"));
        assert_eq!(output.status.code(), Some(4), "{}", stderr_of(&output));
    }
}
