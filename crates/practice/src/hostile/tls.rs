//! Certificates and handshakes that must be rejected, or must time out.

use super::report::{CaseReport, CaseVerdict};
use super::{Case, CaseBuilder, Expect, demand};
use crate::raw::RawConnection;
use crate::response::Response;
use crate::site::CertificateKind;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CrlDistributionPoint, DnType, IsCa, Issuer, KeyPair,
    PKCS_RSA_SHA256, RsaKeySize, SanType, SerialNumber,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const TLS: Expect = Expect::error("tls");
const CONNECT_TIMEOUT: Expect = Expect::error("connect_timeout");

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("TLS01", "a certificate that has expired", TLS, |case| {
            let root = bad_site(case, CertificateKind::Expired, "expired since 2002-01-01")?;
            case.check("fetched only with --insecure, and marked", move |report| {
                let fetched = report.run(&["fetch", "--insecure", &root]).map_err(|error| error.to_string())?;
                let printed = String::from_utf8_lossy(&fetched.stdout).into_owned();
                demand(printed.contains("NOT VERIFIED") && printed.contains("\"insecure\": true"), printed)?;
                let warned = String::from_utf8_lossy(&fetched.stderr).into_owned();
                demand(warned.contains("WARNING"), warned)
            });
            Ok(())
        }),
        Case::new("TLS03", "a self-signed certificate", TLS, |case| {
            bad_site(case, CertificateKind::SelfSigned, "self-signed").map(|_| ())
        }),
        Case::new("TLS04", "an untrusted authority", TLS, |case| {
            let stranger = CaseAuthority::new("Stranger")?;
            expect_rejected_chain(case, "unknown issuer", move |ip| {
                Ok((vec![stranger.leaf(ip)?], stranger.leaf_key()?))
            })
        }),
        Case::new("TLS05", "a certificate that was revoked", Expect::Ok, |case| {
            let (connections, authority) = (Arc::new(AtomicUsize::new(0)), CaseAuthority::new("Known")?);
            let crl_server = {
                let connections = Arc::clone(&connections);
                case.raw(move |conn| {
                    connections.fetch_add(1, SeqCst);
                    conn.wait_until_closed()
                })?
            };
            case.check("the revocation list is not fetched", move |_| {
                demand(connections.load(SeqCst) == 0, "it was fetched")
            });
            case.trust(authority.root.pem());
            let address = serve_tls(case, move |ip| {
                let mut params = authority.params(ip)?;
                params.crl_distribution_points =
                    vec![CrlDistributionPoint { uris: vec![format!("http://{crl_server}/crl")] }];
                Ok((vec![authority.sign(&params)?], authority.leaf_key()?))
            })?;
            case.root(format!("https://{address}/"));
            Ok(())
        })
        .choosing(
            "revocation is not checked, as in curl and wget: lists and OCSP would tell third parties what is crawled, and \
             an attacker can suppress them",
        ),
        Case::new("TLS07", "a chain with a gap", TLS, |case| {
            let authority = CaseAuthority::new("Known")?;
            case.trust(authority.root.pem());
            expect_rejected_chain(case, "unknown issuer", move |ip| {
                // The certificate of the intermediate authority is not sent.
                let intermediate_ca = authority.intermediate("Middle", KeyPair::generate().map_err(other_error)?)?;
                let leaf = authority.params(ip)?.signed_by(&authority.key, &intermediate_ca).map_err(other_error)?;
                Ok((vec![leaf.der().clone()], authority.leaf_key()?))
            })
        })
        .choosing(
            "missing intermediate certificates are not fetched from the URL in the others: that would be an additional \
             request to an address that the server chooses",
        ),
        Case::new("TLS08", "an authority signed with SHA-1", TLS, |case| {
            let authority = CaseAuthority::with_key("Known", rsa_key()?)?;
            case.trust(authority.root.pem());
            expect_rejected_chain(case, "SHA-1", move |ip| {
                let intermediate_ca = authority.intermediate("Middle", KeyPair::generate().map_err(other_error)?)?;
                let leaf = authority.params(ip)?.signed_by(&authority.key, &intermediate_ca).map_err(other_error)?;
                Ok((vec![leaf.der().clone(), with_sha1(intermediate_ca.der())], authority.leaf_key()?))
            })
        }),
        Case::new("TLS09", "a certificate for ten thousand names", Expect::Ok, |case| {
            let authority = CaseAuthority::new("Known")?;
            case.trust(authority.root.pem());
            let address = serve_tls(case, move |ip| {
                let mut params = authority.params(ip)?;
                for n in 0..9_999u32 {
                    // Addresses, which are shorter than host names: a handshake message has at most 64 KiB.
                    let [_, a, b, c] = n.to_be_bytes();
                    params.subject_alt_names.push(SanType::IpAddress(IpAddr::from([198, 18 + a, b, c])));
                }
                Ok((vec![authority.sign(&params)?], authority.leaf_key()?))
            })?;
            case.root(format!("https://{address}/"));
            Ok(())
        }),
        Case::new("TLS10", "TLS 1.0 and nothing else", TLS, |case| {
            // The ServerHello of a TLS 1.0 server: version, 32 random bytes, no session, one cipher.
            let mut hello = vec![0x16, 3, 1, 0, 42, 2, 0, 0, 38, 3, 1];
            hello.extend([7; 32]);
            hello.extend([0, 0, 0x2f, 0]);
            let address = case.raw(move |conn| {
                conn.send(&hello)?;
                conn.wait_until_closed()
            })?;
            expect_handshake_error(case, address, "version")
        }),
        Case::new("TLS13", "a handshake that stalls", CONNECT_TIMEOUT, |case| {
            let address = case.raw(RawConnection::wait_until_closed)?;
            expect_handshake_error(case, address, "TLS handshake")
        }),
        Case::new("TLS14", "a handshake that drips", CONNECT_TIMEOUT, |case| {
            let address = case.raw(|conn| {
                // The start of a ServerHello.
                for byte in [0x16, 3, 3, 0, 90, 2, 0, 0, 86, 3, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9] {
                    conn.send([byte])?;
                    conn.pause(Duration::from_millis(500))?;
                }
                conn.wait_until_closed()
            })?;
            expect_handshake_error(case, address, "TLS handshake")
        }),
        Case::new("TLS15", "plain HTTP where TLS is expected", TLS, |case| {
            let address = case.raw(|conn| {
                conn.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
                conn.wait_until_closed()
            })?;
            expect_handshake_error(case, address, "does not use TLS")
        }),
        Case::new("TLS17", "a name that the server does not know", TLS, |case| {
            let address = case.raw(|conn| {
                // The alert unrecognized_name.
                conn.send([0x15, 3, 3, 0, 2, 2, 112])?;
                conn.wait_until_closed()
            })?;
            expect_handshake_error(case, address, "does not know this name")
        }),
        Case::new("TLS18", "an end without close_notify", Expect::truncated("disconnect", "reset"), |case| {
            let authority = CaseAuthority::new("Known")?;
            case.trust(authority.root.pem());
            let address = serve_tls(case, move |ip| Ok((vec![authority.leaf(ip)?], authority.leaf_key()?)))?;
            case.root(format!("https://{address}/until-close"));
            let with_length = format!("https://{address}/");
            case.expect_at(format!("https://{address}/until-close"));
            case.root(with_length.as_str());
            case.check("a body with a length is complete without close_notify", move |report| {
                report.judge(&with_length, Expect::Ok)
            });
            Ok(())
        })
        .choosing(
            "a body that is delimited by the end of the connection is complete only with a close_notify alert: otherwise an \
             attacker could have truncated it",
        ),
        Case::new("TLS19", "a certificate chain with many paths", TLS, |case| {
            let authority = CaseAuthority::new("Maze")?;
            let any_message = "";
            expect_rejected_chain(case, any_message, move |ip| {
                // Forty authorities with the same name and key, so that each could have signed every other.
                let mut chain = vec![authority.leaf(ip)?];
                for number in 0..40u64 {
                    let mut params = authority_params("Maze");
                    params.serial_number = Some(SerialNumber::from(number + 1));
                    let certificate = params.signed_by(authority.root.key(), &authority.root).map_err(other_error)?;
                    chain.push(certificate.der().clone());
                }
                Ok((chain, authority.leaf_key()?))
            })
        }),
    ]
}

fn other_error(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

/// A site with one of the usual bad certificates. Its front page is judged. Checks that the message contains `expected`.
fn bad_site(case: &mut CaseBuilder, certificate: CertificateKind, expected: &'static str) -> io::Result<String> {
    let site = case.secure_site(certificate)?.page("/", Response::html("here"));
    let root = site.url("/");
    case.root(root.as_str());
    case.add_site(site);
    expect_message(case, root.clone(), expected);
    case.check("no request is sent", |report| demand(report.requests.is_empty(), "a request was sent"));
    Ok(root)
}

/// A server at this address whose handshake fails. Checks that the message contains `expected`.
fn expect_handshake_error(case: &mut CaseBuilder, address: SocketAddr, expected: &'static str) -> io::Result<()> {
    let root = format!("https://{address}/");
    case.set("robots", "ignore");
    case.root(root.as_str());
    expect_message(case, root, expected);
    Ok(())
}

/// Checks that the error message of a URL contains `expected`.
fn expect_message(case: &mut CaseBuilder, url: String, expected: &'static str) {
    case.check("the reason is named", move |report: &CaseReport| -> CaseVerdict {
        let record = report.record(&url).ok_or("no record")?;
        let message = record["error"]["message"].as_str().unwrap_or_default();
        demand(message.contains(expected), format!("the message is {message:?}"))
    });
}

/// A certificate chain, and the key of its first certificate.
type ChainAndKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// A server with this chain, which is rejected. Checks that the message contains `expected`.
fn expect_rejected_chain(
    case: &mut CaseBuilder,
    expected: &'static str,
    make_chain: impl Fn(IpAddr) -> io::Result<ChainAndKey> + Send + Sync + 'static,
) -> io::Result<()> {
    let address = serve_tls(case, make_chain)?;
    expect_handshake_error(case, address, expected)
}

/// A TLS server with this chain, which is created for the server's address. It never sends close_notify.
fn serve_tls(
    case: &mut CaseBuilder,
    make_chain: impl Fn(IpAddr) -> io::Result<ChainAndKey> + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    case.set("robots", "ignore");
    let config_cell = std::sync::OnceLock::new();
    case.raw(move |conn| {
        let address = conn.stream().local_addr()?.ip();
        let config: &Result<Arc<ServerConfig>, String> = config_cell.get_or_init(|| {
            let (chain, key) = make_chain(address).map_err(|error| error.to_string())?;
            let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .with_no_client_auth();
            builder.with_single_cert(chain, key).map(Arc::new).map_err(|error| error.to_string())
        });
        let config = config.as_ref().map_err(|why| io::Error::other(why.as_str()))?;
        let mut session = ServerConnection::new(Arc::clone(config)).map_err(other_error)?;
        let mut socket = conn.stream();
        let mut stream = rustls::Stream::new(&mut session, &mut socket);
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        while !request.ends_with(b"\r\n\r\n") {
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                n => request.extend_from_slice(&buffer[..n]),
            }
        }
        let body = "<title>here</title>";
        let framing = if request.starts_with(b"GET /until-close ") {
            "Connection: close\r\n".to_owned()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{framing}\r\n{body}").as_bytes())?;
        stream.flush()
    })
}

/// A certificate authority, and the key of its leaf certificates.
pub(super) struct CaseAuthority {
    pub(super) root: CertifiedIssuer<'static, KeyPair>,
    key: KeyPair,
}

/// Parameters of an authority's certificate.
fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

impl CaseAuthority {
    pub(super) fn new(name: &str) -> io::Result<CaseAuthority> {
        CaseAuthority::with_key(name, KeyPair::generate().map_err(other_error)?)
    }

    /// An authority that signs with this key.
    fn with_key(name: &str, key: KeyPair) -> io::Result<CaseAuthority> {
        let root = CertifiedIssuer::self_signed(authority_params(name), key).map_err(other_error)?;
        Ok(CaseAuthority { root, key: KeyPair::generate().map_err(other_error)? })
    }

    /// An intermediate authority signed by this one.
    fn intermediate(&self, name: &str, key: KeyPair) -> io::Result<CertifiedIssuer<'static, KeyPair>> {
        CertifiedIssuer::signed_by(authority_params(name), key, &self.root).map_err(other_error)
    }

    /// Parameters of a certificate for this address.
    fn params(&self, ip: IpAddr) -> io::Result<CertificateParams> {
        CertificateParams::new(vec![ip.to_string()]).map_err(other_error)
    }

    fn sign(&self, params: &CertificateParams) -> io::Result<CertificateDer<'static>> {
        let issuer: &Issuer<'static, KeyPair> = &self.root;
        Ok(params.signed_by(&self.key, issuer).map_err(other_error)?.der().clone())
    }

    /// A certificate for a server at this address.
    pub(super) fn leaf(&self, ip: IpAddr) -> io::Result<CertificateDer<'static>> {
        self.sign(&self.params(ip)?)
    }

    /// The private key of all leaf certificates.
    pub(super) fn leaf_key(&self) -> io::Result<PrivateKeyDer<'static>> {
        Ok(PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der())))
    }
}

fn rsa_key() -> io::Result<KeyPair> {
    KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).map_err(other_error)
}

/// The same certificate, declared as signed with SHA-1, to catch verifiers that check the signature before the algorithm.
fn with_sha1(certificate: &CertificateDer<'_>) -> CertificateDer<'static> {
    const SHA256_WITH_RSA: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11];
    let mut der = certificate.to_vec();
    for at in 0..der.len().saturating_sub(SHA256_WITH_RSA.len()) {
        if der[at..].starts_with(&SHA256_WITH_RSA) {
            // The last byte of the identifier is 5 for SHA-1.
            der[at + SHA256_WITH_RSA.len() - 1] = 5;
        }
    }
    CertificateDer::from(der)
}
