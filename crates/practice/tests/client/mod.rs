//! A client on a plain socket, for tests that check the bytes.

#![allow(dead_code)]

use argiope_practice::{PracticeWeb, RunningWeb, Site, TestAuthority};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// A timeout that a passing test does not reach, even on a slow machine.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Starts a web with one site; returns its address too.
pub fn serve(site: Site) -> (RunningWeb, SocketAddr) {
    let address = site.address();
    (PracticeWeb::new().site(site).start().unwrap(), address)
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    // `write!` writes in pieces, and Nagle's algorithm would delay the second until the first is acknowledged.
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends a GET request for this path.
pub fn send_get(stream: &mut impl Write, path: &str) {
    // In one write: if the server closes the connection after the first piece, a second write would fail.
    let request = format!("GET {path} HTTP/1.1\r\nHost: practice.test\r\nUser-Agent: tester/1\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
}

/// Reads until the end of the connection.
pub fn read_to_end(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads one response with a `Content-Length`; returns head and body.
pub fn read_response(stream: &mut impl Read) -> (String, Vec<u8>) {
    let head = read_head(stream);
    let length = header(&head, "content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (head, body)
}

/// Reads a head byte by byte, so that nothing after it is consumed.
pub fn read_head(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}

pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

pub fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap()
}

/// Sends a request on a new connection and reads the response.
pub fn get(address: SocketAddr, path: &str) -> (String, Vec<u8>) {
    let mut stream = connect(address);
    send_get(&mut stream, path);
    read_response(&mut stream)
}

/// A client's TLS settings that trust only this authority.
pub fn tls_config_trusting(authority: &TestAuthority) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

pub type Tls = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

pub fn connect_tls(address: SocketAddr, config: &Arc<rustls::ClientConfig>, name: &str) -> Tls {
    let name = rustls::pki_types::ServerName::try_from(name.to_owned()).unwrap();
    let client = rustls::ClientConnection::new(Arc::clone(config), name).unwrap();
    rustls::StreamOwned::new(client, connect(address))
}
