//! [`CertificateSummary`]: subject, issuer, names and validity of a certificate, for messages and display.
//!
//! Invariant: whether a server's certificate is accepted does not depend on this module. Fields that cannot be parsed are
//! absent.
//!
//! The parser is written by hand, because x509-parser would add a dozen crates (nom, asn1-rs, der-parser, oid-registry,
//! ...) to every build for the five fields that `argiope fetch` prints.

/// Subject, issuer, names and validity of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateSummary {
    /// The common name of the subject, or its organisation.
    pub subject: Option<String>,
    /// The common name of the issuer, or its organisation.
    pub issuer: Option<String>,
    /// The host names and IP addresses that the certificate is valid for.
    pub names: Vec<String>,
    /// Start and end of the validity, as in `2026-01-02T03:04:05Z`.
    pub not_before: Option<String>,
    pub not_after: Option<String>,
}

/// Context tags within a certificate: the version before the serial number, the extensions at the end.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// Universal tags. A BMPString is text in UTF-16.
const OCTET_STRING: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const BMP_STRING: u8 = 0x1e;
const SEQUENCE: u8 = 0x30;
/// Context tags within a list of alternative names.
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;
/// Object identifiers, encoded.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANISATION: &[u8] = &[0x55, 4, 10];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 29, 17];

/// The parts of a certificate that are used here.
struct Parts<'a> {
    issuer: &'a [u8],
    validity: &'a [u8],
    subject: &'a [u8],
    /// The public key, and what follows it.
    rest: &'a [u8],
}

/// Splits a certificate (RFC 5280, 4.1): version, serial number, algorithm, issuer, validity, subject, and more.
fn parts(certificate: &[u8]) -> Option<Parts<'_>> {
    let (_, certificate, _) = element(certificate)?;
    let (_, body, _) = element(certificate)?;
    let (tag, _, after_version) = element(body)?;
    let (_, _serial_number, rest) = element(if tag == VERSION { after_version } else { body })?;
    let (_, _algorithm, rest) = element(rest)?;
    let (_, issuer, rest) = element(rest)?;
    let (_, validity, rest) = element(rest)?;
    let (_, subject, rest) = element(rest)?;
    Some(Parts { issuer, validity, subject, rest })
}

/// True if issuer and subject of a certificate are the same.
pub(super) fn is_self_issued(certificate: &[u8]) -> bool {
    parts(certificate).is_some_and(|parts| parts.issuer == parts.subject)
}

/// Whether a certificate, of any version, is for this public key (a SubjectPublicKeyInfo); `None` if it is not a
/// certificate.
pub(super) fn is_for_key(certificate: &[u8], public_key: &[u8]) -> Option<bool> {
    let (_, own_key, _) = element(parts(certificate)?.rest)?;
    let (_, public_key, _) = element(public_key)?;
    Some(own_key == public_key)
}

impl CertificateSummary {
    /// Parses DER, as far as possible.
    pub fn read(der: &[u8]) -> Self {
        let Some(parts) = parts(der) else {
            return Self::default();
        };
        let mut times = Elements(parts.validity).map(|(tag, digits)| rfc3339_time(tag, digits));
        Self {
            subject: display_name(parts.subject),
            issuer: display_name(parts.issuer),
            names: alternative_names(parts.rest).unwrap_or_default(),
            not_before: times.next().flatten(),
            not_after: times.next().flatten(),
        }
    }
}

/// The common name in a distinguished name, or else the organisation.
fn display_name(name: &[u8]) -> Option<String> {
    let attributes = || {
        Elements(name).flat_map(|(_, set)| Elements(set)).filter_map(|(_, pair)| {
            let (_, kind, rest) = element(pair)?;
            let (tag, value, _) = element(rest)?;
            Some((kind, text(tag, value)))
        })
    };
    let find = |wanted: &[u8]| attributes().find(|(kind, _)| *kind == wanted).map(|(_, text)| text);
    find(COMMON_NAME).or_else(|| find(ORGANISATION)).filter(|text| !text.is_empty())
}

fn text(tag: u8, bytes: &[u8]) -> String {
    if tag == BMP_STRING {
        let units: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
        String::from_utf16_lossy(&units)
    } else {
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// The host names and IP addresses in the extension that lists them.
fn alternative_names(rest: &[u8]) -> Option<Vec<String>> {
    let (_, extensions) = Elements(rest).find(|(tag, _)| *tag == EXTENSIONS)?;
    let (_, list, _) = element(extensions)?;
    let lists_names = |extension: &[u8]| element(extension).is_some_and(|(_, kind, _)| kind == ALTERNATIVE_NAMES);
    let (_, extension) = Elements(list).find(|(_, extension)| lists_names(extension))?;
    let (_, octets) = Elements(extension).find(|(tag, _)| *tag == OCTET_STRING)?;
    let (_, names, _) = element(octets).filter(|(tag, ..)| *tag == SEQUENCE)?;
    Some(Elements(names).filter_map(|(tag, bytes)| alternative_name(tag, bytes)).collect())
}

fn alternative_name(tag: u8, bytes: &[u8]) -> Option<String> {
    match (tag, bytes.len()) {
        (DNS_NAME, _) => Some(String::from_utf8_lossy(bytes).into_owned()),
        (IP_ADDRESS, 4) => <[u8; 4]>::try_from(bytes).ok().map(|octets| std::net::Ipv4Addr::from(octets).to_string()),
        (IP_ADDRESS, 16) => <[u8; 16]>::try_from(bytes).ok().map(|octets| std::net::Ipv6Addr::from(octets).to_string()),
        _ => None,
    }
}

/// Formats `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ` as RFC 3339.
fn rfc3339_time(tag: u8, digits: &[u8]) -> Option<String> {
    let digits = digits.strip_suffix(b"Z").filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let digits = std::str::from_utf8(digits).ok()?;
    let (year, rest) = match tag {
        // RFC 5280: two-digit years from 50 on belong to the 20th century.
        UTC_TIME => digits.split_at_checked(2).map(|(year, rest)| (if year < "50" { "20" } else { "19" }, year, rest)),
        GENERALIZED_TIME => digits.split_at_checked(4).map(|(year, rest)| ("", year, rest)),
        _ => None,
    }
    .map(|(century, year, rest)| (format!("{century}{year}"), rest))?;
    let two_digits = |at: usize| rest.get(at..at + 2);
    let (month, day) = (two_digits(0)?, two_digits(2)?);
    Some(format!("{year}-{month}-{day}T{}:{}:{}Z", two_digits(4)?, two_digits(6)?, two_digits(8)?))
}

/// Iterates over DER elements up to the first malformed one.
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (tag, content, rest) = element(self.0)?;
        self.0 = rest;
        Some((tag, content))
    }
}

/// The first DER element of `bytes`: its tag, its content, and the bytes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    // Below 0x80, `first` is the length itself. Otherwise its lower seven bits are the number of length bytes.
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        // Certificates are much shorter than 4 GiB.
        if digits.len() > 4 {
            return None;
        }
        (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    /// A self-signed certificate, after `change` of its parameters.
    fn certificate(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a.example".into(), "127.0.0.1".into(), "::1".into()]).unwrap();
        params.not_before = date_time_ymd(1999, 12, 31);
        params.not_after = date_time_ymd(2051, 2, 3);
        change(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn subject_names_and_validity_are_read() {
        let der = certificate(|params| {
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::OrganizationName, "Spiders");
            params.distinguished_name.push(DnType::CommonName, "Nép\u{1b}");
        });
        let read = CertificateSummary::read(&der);
        assert_eq!((read.subject.as_deref(), read.issuer.as_deref()), (Some("Nép\u{1b}"), Some("Nép\u{1b}")));
        assert_eq!(read.names, ["a.example", "127.0.0.1", "::1"]);
        assert_eq!(read.not_before.as_deref(), Some("1999-12-31T00:00:00Z"));
        assert_eq!(read.not_after.as_deref(), Some("2051-02-03T00:00:00Z"));
        assert!(is_self_issued(&der));
    }

    #[test]
    fn the_organisation_is_shown_if_there_is_no_common_name() {
        let der = certificate(|params| {
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::OrganizationName, "Spiders");
        });
        assert_eq!(CertificateSummary::read(&der).subject.as_deref(), Some("Spiders"));
    }

    #[test]
    fn malformed_certificates_do_not_panic() {
        let der = certificate(|_| {});
        for cut in 0..der.len() {
            CertificateSummary::read(&der[..cut]);
        }
        for at in 0..der.len() {
            for byte in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut broken = der.clone();
                broken[at] = byte;
                CertificateSummary::read(&broken);
            }
        }
        assert_eq!(CertificateSummary::read(b"\x30\x84\xff\xff\xff\xff"), CertificateSummary::default());
    }
}
