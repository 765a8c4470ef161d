//! A TLS server in memory for a [`Conn`], with generated certificates and a fixed date.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use argiope_core::Failure;
use argiope_core::http::conn::{Conn, ExchangeEnd, Step, TlsConfig, Trust};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ServerConfig, ServerConnection};

use crate::conn_kit::*;

/// 2026-01-02, for both sides.
pub fn date() -> Duration {
    Duration::from_secs(1_767_312_000)
}

/// A clock that always returns [`date`].
#[derive(Debug)]
pub struct Date;

impl TimeProvider for Date {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(date()))
    }
}

/// A certificate authority, and a client that trusts it.
pub struct Authority {
    pub issuer: Issuer<'static, KeyPair>,
    pub root: CertificateDer<'static>,
    pub client: Arc<TlsConfig>,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap().der().clone();
        let client = Trust { roots: vec![root.to_vec()], ..Trust::default() }.compile(date).unwrap().anonymous;
        Self { issuer: Issuer::new(params, key), root, client }
    }

    /// A server with a certificate of this authority for these names. `change` edits the certificate.
    pub fn server(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let mut params = params(names);
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        serve(certificate.der().clone(), &key, rustls::ALL_VERSIONS)
    }
}

/// The parameters of a certificate for these names.
pub fn params(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
}

/// The configuration of a server with one certificate.
pub fn serve(
    certificate: CertificateDer<'static>,
    key: &KeyPair,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Arc<ServerConfig> {
    serve_chain(vec![certificate], key, versions)
}

/// The configuration of a server with this certificate chain.
pub fn serve_chain(
    chain: Vec<CertificateDer<'static>>,
    key: &KeyPair,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_details(Arc::new(default_provider()), Arc::new(Date))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    Arc::new(config)
}

/// How a server behaves after its handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CloseBehaviour {
    /// Sends the response and keeps the connection open.
    Stays,
    /// Sends the response and a close_notify alert.
    Closes,
    /// Sends the response and closes the socket without an alert.
    HangsUp,
}

/// Exchanges bytes between a connection and a server, in pieces of this size, until the exchange ends or both wait.
pub fn run_exchange_with(
    conn: &mut Conn,
    server: &mut ServerConnection,
    response: &[u8],
    close_behaviour: CloseBehaviour,
    piece: usize,
    recorder: &mut Recorder,
) {
    let now = at(10);
    let mut received_request = Vec::new();
    let mut has_responded = false;
    loop {
        let written = write_all(conn, now);
        let mut has_progress = !written.is_empty();
        let mut rest = written.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            if server.process_new_packets().is_err() {
                break;
            }
        }
        let mut buffer = [0; 1_000];
        if let Ok(count) = server.reader().read(&mut buffer) {
            received_request.extend_from_slice(&buffer[..count]);
        }
        if received_request.ends_with(b"\r\n\r\n") && !has_responded {
            assert_eq!(received_request, REQUEST);
            server.writer().write_all(response).unwrap();
            if close_behaviour == CloseBehaviour::Closes {
                server.send_close_notify();
            }
            has_responded = true;
        }
        let mut sent = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut sent).unwrap();
        }
        has_progress |= !sent.is_empty();
        for bytes in sent.chunks(piece) {
            conn.feed(bytes, now, recorder);
        }
        if conn.step() == Step::Done || !has_progress {
            if has_responded && close_behaviour != CloseBehaviour::Stays {
                conn.closed(now, recorder);
            }
            return;
        }
    }
}

/// A connection to this name, with a request that waits to be sent.
pub fn connect(client: &Arc<TlsConfig>, name: &str) -> Conn {
    let mut conn = Conn::tls(Arc::clone(client), name, Arc::new(limits()), at(0)).unwrap();
    conn.request(REQUEST.to_vec(), at(8_000), at(0));
    conn
}

pub const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// Runs one exchange with a server. The failure becomes the error.
pub fn try_once(
    client: &Arc<TlsConfig>,
    server: &Arc<ServerConfig>,
    name: &str,
) -> Result<(Conn, ExchangeEnd, Recorder), Failure> {
    let mut conn = connect(client, name);
    assert!(conn.is_tls());
    let mut session = ServerConnection::new(Arc::clone(server)).unwrap();
    let mut recorder = Recorder::default();
    run_exchange_with(&mut conn, &mut session, HELLO, CloseBehaviour::Stays, usize::MAX, &mut recorder);
    assert_eq!(conn.step(), Step::Done);
    let end = conn.end();
    match &end.failure {
        Some(failure) => Err(failure.clone()),
        None => Ok((conn, end, recorder)),
    }
}
