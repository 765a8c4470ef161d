//! TLS trust, client certificates, and the session cache with many hosts.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "not the core, only its tests and measurements"
)]

mod conn_kit;
mod tls_kit;

use std::sync::Arc;

use argiope_core::http::conn::{ClientIdentity, ClientIdentityError, Conn, Step, TlsConfig, Trust};
use base64::Engine as _;
use conn_kit::*;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ProducesTickets, WebPkiClientVerifier};
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection};
use tls_kit::*;

/// Runs one exchange and returns both ends of the connection.
fn exchange(client: &Arc<TlsConfig>, server: &Arc<ServerConfig>, name: &str) -> (Conn, ServerConnection) {
    let mut conn = connect(client, name);
    let mut session = ServerConnection::new(Arc::clone(server)).unwrap();
    session.set_buffer_limit(None);
    run_exchange_with(&mut conn, &mut session, HELLO, CloseBehaviour::Stays, usize::MAX, &mut Recorder::default());
    assert_eq!(conn.step(), Step::Done);
    (conn, session)
}

#[test]
fn sessions_of_many_hosts_are_resumed() {
    // Without verification, one certificate serves all names. Sessions are not affected.
    let authority = Authority::new("Known");
    let client = Trust { insecure: true, ..Trust::default() }.compile(date).unwrap().anonymous;
    let key = KeyPair::generate().unwrap();
    let certificate = params(&["h.example"]).signed_by(&key, &authority.issuer).unwrap();
    // The default cache of rustls would hold 32 hosts.
    for (version, hosts) in [(&rustls::version::TLS12, 200), (&rustls::version::TLS13, 2_500)] {
        let server = serve_resuming(certificate.der().clone(), &key, version);
        for resumed in [false, true] {
            for host in 0..hosts {
                let (_, session) = exchange(&client, &server, &format!("{hosts}-{host}.example"));
                assert_eq!(session.handshake_kind() == Some(HandshakeKind::Resumed), resumed, "host {host}");
            }
        }
    }
}

#[test]
fn large_chains_do_not_fill_the_memory_with_sessions() {
    // With a chain of 40 kB, 48 MiB hold 580 hosts with two tickets each, so the oldest of 1,000 are evicted.
    let client = Trust { insecure: true, ..Trust::default() }.compile(date).unwrap().anonymous;
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = (0..2_000).map(|name| format!("n{name}.large.example")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let certificate = params(&names).self_signed(&key).unwrap();
    assert!(certificate.der().len() > 40_000);
    let server = serve_resuming(certificate.der().clone(), &key, &rustls::version::TLS13);
    let resumes = |host: usize| {
        let (_, session) = exchange(&client, &server, &format!("h{host}.example"));
        session.handshake_kind() == Some(HandshakeKind::Resumed)
    };
    for host in 0..1_000 {
        assert!(!resumes(host));
    }
    assert!(resumes(999) && !resumes(0));
}

/// Tickets with the required fields, padded to a length.
#[derive(Debug)]
struct LargeTickets(usize);

impl ProducesTickets for LargeTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        3_600
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut ticket = [&u32::try_from(plain.len()).ok()?.to_be_bytes(), plain].concat();
        ticket.resize(self.0, 0);
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (size, rest) = ticket.split_first_chunk()?;
        rest.get(..usize::try_from(u32::from_be_bytes(*size)).ok()?).map(<[u8]>::to_vec)
    }
}

#[test]
fn large_tickets_do_not_fill_the_memory_with_sessions() {
    // A host has one ticket with TLS 1.2 and two with TLS 1.3. 48 MiB hold at most 840 times 60 kB, so the oldest of
    // 1,000 hosts are evicted.
    let key = KeyPair::generate().unwrap();
    let certificate = params(&["h.example"]).self_signed(&key).unwrap();
    for (version, size) in [(&rustls::version::TLS12, 60_000), (&rustls::version::TLS13, 30_000)] {
        let client = Trust { insecure: true, ..Trust::default() }.compile(date).unwrap().anonymous;
        let mut server = ServerConfig::clone(&serve(certificate.der().clone(), &key, &[version]));
        server.ticketer = Arc::new(LargeTickets(size));
        let server = Arc::new(server);
        let resumes = |host: usize| {
            let (_, session) = exchange(&client, &server, &format!("h{host}.example"));
            session.handshake_kind() == Some(HandshakeKind::Resumed)
        };
        for host in 0..1_000 {
            assert!(!resumes(host));
        }
        assert_eq!((resumes(999), resumes(0)), (true, false), "{version:?}");
    }
}

/// A server that resumes sessions with tickets.
fn serve_resuming(
    certificate: CertificateDer<'static>,
    key: &KeyPair,
    version: &'static rustls::SupportedProtocolVersion,
) -> Arc<ServerConfig> {
    let mut config = ServerConfig::clone(&serve(certificate, key, &[version]));
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    Arc::new(config)
}

#[test]
fn negotiated_parameters_are_reported() {
    let authority = Authority::new("Known");
    let key = KeyPair::generate().unwrap();
    let certificate = params(&["h.example", "127.0.0.1"]).signed_by(&key, &authority.issuer).unwrap();
    for (version, word) in [(&rustls::version::TLS12, "TLS 1.2"), (&rustls::version::TLS13, "TLS 1.3")] {
        let server = serve_resuming(certificate.der().clone(), &key, version);
        for resumed in [false, true] {
            let (conn, _) = exchange(&authority.client, &server, "h.example");
            let tls_info = conn.tls_info().unwrap();
            assert_eq!((tls_info.version, tls_info.resumed), (word, resumed));
            assert!(tls_info.cipher.contains("AES") || tls_info.cipher.contains("CHACHA"), "{}", tls_info.cipher);
            assert_eq!(tls_info.certificate.issuer.as_deref(), Some("Known"));
            assert_eq!(tls_info.certificate.names, ["h.example", "127.0.0.1"]);
        }
    }
    assert_eq!(connect(&authority.client, "h.example").tls_info(), None);
}

#[test]
fn a_client_certificate_is_sent_only_with_the_identified_config() {
    let authority = Authority::new("Known");
    let (key, client_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let certificate = params(&["h.example"]).signed_by(&key, &authority.issuer).unwrap();
    let own = params(&["me.example"]).signed_by(&client_key, &authority.issuer).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(authority.root.clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
    let verifier = verifier.allow_unauthenticated().build().unwrap();
    let server = ServerConfig::builder_with_details(Arc::new(default_provider()), Arc::new(Date))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    let server = Arc::new(server);
    let identity = ClientIdentity::read(own.pem().as_bytes(), client_key.serialize_pem().as_bytes()).unwrap();
    let trust = Trust { roots: vec![authority.root.to_vec()], identity: Some(identity), ..Trust::default() };
    let configs = trust.compile(date).unwrap();
    // The second round is resumed: a session with a client certificate is never resumed without it, nor the reverse.
    for _ in 0..2 {
        let (_, session) = exchange(&configs.anonymous, &server, "h.example");
        assert!(session.peer_certificates().is_none());
        let (_, session) = exchange(&configs.identified, &server, "h.example");
        assert_eq!(session.peer_certificates().unwrap()[0], *own.der());
    }
}

/// The key within PKCS #8: a sequence of version, algorithm, and the key as an octet string.
fn unwrapped(pkcs8: &[u8]) -> &[u8] {
    /// The content of the first DER element, and the bytes after it.
    fn element(bytes: &[u8]) -> (&[u8], &[u8]) {
        let (length, start) = match bytes[1] {
            0x82 => (usize::from(bytes[2]) << 8 | usize::from(bytes[3]), 4),
            0x81 => (usize::from(bytes[2]), 3),
            short => (usize::from(short), 2),
        };
        bytes[start..].split_at(length)
    }
    let (_version, rest) = element(element(pkcs8).0);
    let (_algorithm, rest) = element(rest);
    element(rest).0
}

#[test]
fn client_identities_of_every_format_are_read_and_errors_are_described() {
    let ec = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let ed = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    for key in [&ec, &ed] {
        let chain = params(&["me.example"]).self_signed(key).unwrap().pem();
        assert!(ClientIdentity::read(chain.as_bytes(), key.serialize_pem().as_bytes()).is_ok());
        // Both in one file, as some programs write them.
        let both = chain + &key.serialize_pem();
        assert!(ClientIdentity::read(both.as_bytes(), both.as_bytes()).is_ok());
    }
    // The older formats are the contents of PKCS #8.
    let rsa = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
    for (key, title) in [(&rsa, "RSA PRIVATE KEY"), (&ec, "EC PRIVATE KEY")] {
        let chain = params(&["me.example"]).self_signed(key).unwrap().pem();
        let body = base64::engine::general_purpose::STANDARD.encode(unwrapped(&key.serialize_der()));
        let old = format!("-----BEGIN {title}-----\n{body}\n-----END {title}-----\n");
        assert!(ClientIdentity::read(chain.as_bytes(), old.as_bytes()).is_ok(), "{title}");
        assert!(ClientIdentity::read(chain.as_bytes(), key.serialize_pem().as_bytes()).is_ok(), "{title}");
    }

    let chain = params(&["me.example"]).self_signed(&ec).unwrap().pem();
    let wrong = |chain: &str, key: &str| ClientIdentity::read(chain.as_bytes(), key.as_bytes()).unwrap_err();
    let certificate = |why: &str| ClientIdentityError::Certificate(why.to_owned());
    let key = |why: &str| ClientIdentityError::Key(why.to_owned());
    assert_eq!(wrong("\u{1}\u{2}garbage", &ec.serialize_pem()), certificate("it holds no certificate in PEM"));
    assert_eq!(
        wrong(&chain, "garbage"),
        key("it holds no private key in PEM (an encrypted one has to be decrypted first)")
    );
    assert_eq!(wrong(&chain, &ed.serialize_pem()), key("it is not the key of that certificate"));
    let cut = chain.replace("-----END CERTIFICATE-----", "");
    assert!(
        matches!(wrong(&cut, &ec.serialize_pem()), ClientIdentityError::Certificate(why) if why.starts_with("it is not PEM"))
    );
    let hollow = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(
        wrong(hollow, &ec.serialize_pem()),
        certificate("it holds something that is not an X.509 certificate of version 3")
    );
    let hollow = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(
        matches!(wrong(&chain, hollow), ClientIdentityError::Key(why) if why.starts_with("it holds no key that can be used"))
    );
}
