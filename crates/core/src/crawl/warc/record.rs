//! Encodes one WARC record: version, named fields and block, hashed and compressed.

use std::fmt;
use std::net::IpAddr;

use sha1::{Digest as _, Sha1};

use super::compress::compressed;
use crate::crawl::rules::WarcCompression;

/// The type of a WARC record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarcType {
    Warcinfo,
    Request,
    Response,
    Revisit,
    Resource,
}

impl WarcType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Warcinfo => "warcinfo",
            Self::Request => "request",
            Self::Response => "response",
            Self::Revisit => "revisit",
            Self::Resource => "resource",
        }
    }
}

/// A record under construction.
///
/// Invariant: the values of fields have no line breaks. They are URLs in normal form, or texts that this crate writes.
pub struct WarcRecord {
    header: String,
}

impl WarcRecord {
    pub fn new(kind: WarcType, id: WarcId, date: &str) -> Self {
        let header =
            format!("WARC/1.1\r\nWARC-Type: {}\r\nWARC-Record-ID: {id}\r\nWARC-Date: {date}\r\n", kind.as_str());
        Self { header }
    }

    pub fn add_field(&mut self, name: &str, value: &str) {
        self.header.extend([name, ": ", value, "\r\n"]);
    }

    /// Adds the URL and the address of the host.
    pub fn add_target(&mut self, url: &str, ip: Option<IpAddr>) {
        self.add_field("WARC-Target-URI", url);
        if let Some(ip) = ip {
            self.add_field("WARC-IP-Address", &ip.to_string());
        }
    }

    /// Adds the protocol if it is HTTP/2. Otherwise the syntax of the record shows the protocol.
    pub fn add_protocol(&mut self, is_http2: bool) {
        if is_http2 {
            self.add_field("WARC-Protocol", "h2");
        }
    }

    /// The whole record, compressed. The block is the concatenation of the given pieces.
    pub fn compress(mut self, content_type: &str, block: &[&[u8]], compression: WarcCompression) -> Vec<u8> {
        let length: usize = block.iter().map(|piece| piece.len()).sum();
        self.add_field("WARC-Block-Digest", &Sha1Sum::of(block).to_string());
        self.add_field("Content-Type", content_type);
        self.add_field("Content-Length", &length.to_string());
        self.header.push_str("\r\n");
        let mut pieces = Vec::with_capacity(block.len() + 2);
        pieces.push(self.header.as_bytes());
        pieces.extend_from_slice(block);
        pieces.push(b"\r\n\r\n");
        compressed(&pieces, compression)
    }
}

/// The id of a WARC record. It is derived from the key of the crawl and from texts such as URL and date, so it needs no
/// random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarcId([u8; 16]);

impl WarcId {
    /// The id of the response (or revisit) record of an exchange.
    pub fn of_response(key: u64, url: &str, date: &str) -> Self {
        Self::new(key, &["response", url, date])
    }

    /// A name-based UUID (version 5). `key` is the random key of the crawl.
    pub fn new(key: u64, parts: &[&str]) -> Self {
        let mut hash = Sha1::new();
        hash.update(key.to_le_bytes());
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut id = [0; 16];
        id.iter_mut().zip(hash.finalize()).for_each(|(to, from)| *to = from);
        // Version 5 and the variant of RFC 9562.
        id[6] = (id[6] & 0x0F) | 0x50;
        id[8] = (id[8] & 0x3F) | 0x80;
        Self(id)
    }
}

impl fmt::Display for WarcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<urn:uuid:")?;
        for (at, byte) in self.0.iter().enumerate() {
            // The dashes of a UUID are before these bytes.
            let dash = if [4, 6, 8, 10].contains(&at) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        f.write_str(">")
    }
}

/// SHA-1 in the notation of archives: `sha1:` and base 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sha1Sum([u8; 20]);

impl Sha1Sum {
    pub fn of(pieces: &[&[u8]]) -> Self {
        let mut hash = Sha1::new();
        for piece in pieces {
            hash.update(piece);
        }
        Self(hash.finalize().into())
    }
}

impl fmt::Display for Sha1Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        f.write_str("sha1:")?;
        // Five bytes are eight letters.
        for chunk in self.0.chunks_exact(5) {
            let bits = chunk.iter().fold(0u64, |bits, byte| (bits << 8) | u64::from(*byte));
            for position in (0..8).rev() {
                let letter = ALPHABET[(bits >> (position * 5)) as usize & 31];
                write!(f, "{}", char::from(letter))?;
            }
        }
        Ok(())
    }
}
