//! Messages for TLS failures, for people who run a crawl.

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, OtherError};

use super::verify::{LongChain, SelfSigned};
use crate::base::outcome::{ErrorKind, Failure, TlsFault};

pub(super) fn tls_failure(message: impl Into<Box<str>>) -> Failure {
    Failure::new(ErrorKind::Tls, message)
}

/// Translates a TLS error into a failure with a message for users. `has_record`: the peer has sent a record of TLS before.
pub(super) fn explain(error: &Error, has_record: bool) -> Failure {
    let (fault, message) = match error {
        Error::InvalidCertificate(fault) if is_untrusted(fault) => (TlsFault::Untrusted, certificate_message(fault)),
        Error::InvalidCertificate(fault) => (TlsFault::Invalid, certificate_message(fault)),
        Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion)
            if !has_record =>
        {
            (TlsFault::Absent, "the server does not use TLS on this port".to_owned())
        }
        error => (TlsFault::Handshake, handshake_message(error)),
    };
    tls_failure(message).with_tls(fault)
}

/// Whether another authority would make this certificate valid.
fn is_untrusted(fault: &CertificateError) -> bool {
    match fault {
        CertificateError::UnknownIssuer => true,
        CertificateError::Other(OtherError(why)) => why.is::<SelfSigned>(),
        _ => false,
    }
}

fn handshake_message(error: &Error) -> String {
    match error {
        Error::AlertReceived(alert) => alert_message(*alert),
        Error::InvalidMessage(
            InvalidMessage::HandshakePayloadTooLarge | InvalidMessage::CertificatePayloadTooLarge,
        ) => "a handshake, or a chain of certificates, larger than 64 KiB".to_owned(),
        Error::PeerIncompatible(why) => format!("no common TLS version or cipher: {why:?}"),
        Error::NoCertificatesPresented => "the server presented no certificate".to_owned(),
        other => other.to_string(),
    }
}

fn alert_message(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnrecognisedName => "the server does not know this name".to_owned(),
        AlertDescription::ProtocolVersion => "the server does not support TLS 1.2 or 1.3".to_owned(),
        AlertDescription::CertificateRequired => {
            "the server requires a client certificate (settings cert and key)".to_owned()
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::UnsupportedCertificate => {
            format!("the server does not accept our client certificate: {alert:?}")
        }
        alert => format!("the server refused the handshake: {alert:?}"),
    }
}

fn certificate_message(fault: &CertificateError) -> String {
    match fault {
        CertificateError::ExpiredContext { not_after, .. } => format!("certificate expired since {}", date(*not_after)),
        CertificateError::Expired => "certificate expired".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("certificate not valid before {}", date(*not_before))
        }
        CertificateError::NotValidYet => "certificate not valid yet".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = listed(presented.iter().map(|name| bare_name(name)));
            format!("name mismatch: the certificate is for {names}, not for {}", expected.to_str())
        }
        CertificateError::NotValidForName => "name mismatch: the certificate is for another name".to_owned(),
        CertificateError::UnknownIssuer => {
            "certificate from an unknown issuer: its chain does not lead to a trusted root".to_owned()
        }
        CertificateError::Revoked => "certificate revoked".to_owned(),
        CertificateError::BadSignature => "certificate with a wrong signature".to_owned(),
        CertificateError::BadEncoding => "certificate that cannot be parsed".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate that is not valid for servers".to_owned()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "certificate with an insecure signature (SHA-1, MD5 or a weak key)".to_owned()
        }
        CertificateError::Other(OtherError(why)) if why.is::<SelfSigned>() || why.is::<LongChain>() => why.to_string(),
        CertificateError::Other(why) => format!("bad certificate: {why}"),
        other => format!("bad certificate: {other}"),
    }
}

/// The first few of the names, and the number of the others.
pub(crate) fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 5;
    let rest = names.len().saturating_sub(SHOWN);
    let mut shown: Vec<_> = names.take(SHOWN).map(str::to_owned).collect();
    if shown.is_empty() {
        return "no name at all".to_owned();
    }
    if rest > 0 {
        shown.push(format!("... and {rest} more"));
    }
    shown.join(", ")
}

/// Strips the wrapping from names as the verifier prints them: `DnsName("a.example")`, `IpAddress(192.0.2.1)`.
fn bare_name(name: &str) -> &str {
    let inside = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inside.trim_matches('"')
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| format!("{seconds} s"), |time| time.to_string())
}
