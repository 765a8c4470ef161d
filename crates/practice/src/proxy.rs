//! A test proxy: HTTP (requests with an absolute URL, and `CONNECT`) or SOCKS 5, with one thread per connection.
//!
//! It resolves only the names that it was given. It records the heads of requests, including `Proxy-Authorization` and
//! other headers that only a proxy may receive. It forwards requests with an absolute URL as GET without a body.
//!
//! Invariant: it connects to loopback addresses only.

use crate::raw::RawConnection;
use crate::raw::RawServer;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// A proxy to be started.
#[derive(Default)]
pub struct PracticeProxy {
    is_socks: bool,
    login: Option<(String, String)>,
    /// The host names that the proxy can resolve.
    names: Vec<(String, IpAddr)>,
    /// Bytes that are sent in response to every HTTP request or SOCKS greeting.
    fixed_response: Option<Vec<u8>>,
}

/// A proxy that runs until it is dropped.
pub struct RunningProxy {
    server: RawServer,
    requests: Arc<Mutex<Vec<String>>>,
}

impl PracticeProxy {
    pub fn http() -> PracticeProxy {
        PracticeProxy::default()
    }

    pub fn socks5() -> PracticeProxy {
        PracticeProxy { is_socks: true, ..PracticeProxy::default() }
    }

    /// Requires these credentials.
    pub fn login(mut self, name: &str, password: &str) -> PracticeProxy {
        self.login = Some((name.to_owned(), password.to_owned()));
        self
    }

    /// Adds a host name that the proxy can resolve.
    pub fn name(mut self, name: &str, address: IpAddr) -> PracticeProxy {
        self.names.push((name.to_owned(), address));
        self
    }

    /// Sends these bytes in response to every HTTP request or SOCKS greeting, then closes.
    pub fn always_responding(mut self, response: impl Into<Vec<u8>>) -> PracticeProxy {
        self.fixed_response = Some(response.into());
        self
    }

    pub fn start(self, address: &str) -> io::Result<RunningProxy> {
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&requests);
        let server = RawServer::start(TcpListener::bind((address, 0))?, move |connection| {
            self.serve(connection, |request| log.lock().unwrap_or_else(PoisonError::into_inner).push(request))
        })?;
        Ok(RunningProxy { server, requests })
    }

    /// Serves one client; calls `record` with each request.
    pub(crate) fn serve(&self, connection: &RawConnection, record: impl Fn(String)) -> io::Result<()> {
        if self.is_socks { self.serve_socks(connection, record) } else { self.serve_http(connection, record) }
    }

    fn serve_http(&self, connection: &RawConnection, record: impl Fn(String)) -> io::Result<()> {
        let mut client = connection.stream();
        let head = read_head(client)?;
        record(head.clone());
        if let Some(response) = &self.fixed_response {
            client.write_all(response)?;
            return client.shutdown(Shutdown::Write);
        }
        let is_authorized = self.login.as_ref().is_none_or(|(name, password)| {
            let expected = format!("Proxy-Authorization: Basic {}", base64(format!("{name}:{password}").as_bytes()));
            head.lines().any(|line| line == expected)
        });
        if !is_authorized {
            return client.write_all(
                b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if method == "CONNECT" {
            return match self.connect(target) {
                Ok(host) => {
                    client.write_all(b"HTTP/1.1 200 Connected\r\nVia: 1.1 practice\r\n\r\n")?;
                    relay(client, &host)
                }
                Err(_) => client.write_all(b"HTTP/1.1 502 No such host\r\nContent-Length: 0\r\n\r\n"),
            };
        }
        let rest = target.strip_prefix("http://").unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let port = if authority.contains(':') { "" } else { ":80" };
        let Ok(mut host) = self.connect(&format!("{authority}{port}")) else {
            return client.write_all(b"HTTP/1.1 502 No such host\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        };
        let fields = head.lines().skip(1).filter(|line| !line.is_empty() && !line.starts_with("Proxy-"));
        let fields: String = fields.map(|line| format!("{line}\r\n")).collect();
        host.write_all(format!("GET {path} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n").as_bytes())?;
        io::copy(&mut host, &mut client).map(drop)
    }

    fn serve_socks(&self, connection: &RawConnection, record: impl Fn(String)) -> io::Result<()> {
        let mut client = connection.stream();
        // Greeting: version, number of methods, methods.
        let [_, count] = read(client)?;
        let mut methods = vec![0; usize::from(count)];
        client.read_exact(&mut methods)?;
        if let Some(response) = &self.fixed_response {
            client.write_all(response)?;
            return client.shutdown(Shutdown::Write);
        }
        match &self.login {
            // Method 0: no authentication. Method 2: name and password. 0xff: no acceptable method.
            None => client.write_all(&[5, 0])?,
            Some(_) if !methods.contains(&2) => return client.write_all(&[5, 0xff]),
            Some((name, password)) => {
                client.write_all(&[5, 2])?;
                // RFC 1929: version 1, length, name, length, password. The reply is the version and 0 for success.
                let [_, length] = read(client)?;
                let given_name = read_text(client, length)?;
                let [length] = read(client)?;
                let is_authorized = (&given_name, &read_text(client, length)?) == (name, password);
                client.write_all(&[1, u8::from(!is_authorized)])?;
                if !is_authorized {
                    return Ok(());
                }
            }
        }
        // Request: version, command, reserved byte, address type, address, port.
        let [_, _, _, address_type] = read(client)?;
        let host = match address_type {
            1 => Ipv4Addr::from(read::<4>(client)?).to_string(),
            4 => format!("[{}]", Ipv6Addr::from(read::<16>(client)?)),
            // 3: a host name.
            _ => {
                let [length] = read(client)?;
                read_text(client, length)?
            }
        };
        let target = format!("{host}:{}", u16::from_be_bytes(read(client)?));
        record(format!("SOCKS {target}"));
        match self.connect(&target) {
            Ok(host) => {
                // 0: connected. The address and port that follow are not used.
                client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
                relay(client, &host)
            }
            // 4: host unreachable.
            Err(_) => client.write_all(&[5, 4, 0, 1, 0, 0, 0, 0, 0, 0]),
        }
    }

    /// Connects to `host:port`.
    fn connect(&self, target: &str) -> io::Result<TcpStream> {
        let not_found = || io::Error::from(io::ErrorKind::NotFound);
        let (host, port) = target.rsplit_once(':').ok_or_else(not_found)?;
        let ip_text = host.trim_matches(['[', ']']);
        let resolved = self.names.iter().find(|(name, _)| name == host).map(|(_, address)| *address);
        let address = resolved.or_else(|| ip_text.parse().ok()).filter(IpAddr::is_loopback).ok_or_else(not_found)?;
        TcpStream::connect(SocketAddr::new(address, port.parse().map_err(|_| not_found())?))
    }
}

impl RunningProxy {
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// The requests: heads of HTTP requests, or `SOCKS host:port`.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Copies bytes in both directions until the client closes.
fn relay(mut client: &TcpStream, mut host: &TcpStream) -> io::Result<()> {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // If the host closes first, the client reads end of stream and closes too, which ends the other direction.
            let _ = io::copy(&mut host, &mut client);
            let _ = client.shutdown(Shutdown::Write);
        });
        let _ = io::copy(&mut client, &mut host);
        host.shutdown(Shutdown::Both)
    })
}

/// Reads a head with its empty line, byte by byte, so that nothing after it is read.
fn read_head(stream: &TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let [byte] = read(stream)?;
        head.push(byte);
    }
    String::from_utf8(head).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Reads exactly `N` bytes.
fn read<const N: usize>(mut stream: &TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_text(mut stream: &TcpStream, length: u8) -> io::Result<String> {
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes)?;
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Encodes bytes in base64.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // Three bytes, or fewer at the end, become four digits.
    let encode = |bytes: &[u8]| {
        let number = bytes.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - bytes.len()));
        let digit = |at: usize| char::from(DIGITS[(number >> (18 - 6 * at) & 63) as usize]);
        (0..4).map(|at| if at <= bytes.len() { digit(at) } else { '=' }).collect::<String>()
    };
    bytes.chunks(3).map(encode).collect()
}
