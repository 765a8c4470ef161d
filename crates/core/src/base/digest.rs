//! [`BodyDigest`]: the digest of a body, with the name of its algorithm.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::Xxh3;

use super::value::DigestAlgorithm;

/// The digest of a decoded body. Its text is the algorithm, a colon, and lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyDigest {
    /// A digest with [`DigestAlgorithm::Xxh3`].
    Xxh3([u8; 16]),
    /// A digest with [`DigestAlgorithm::Sha256`].
    Sha256([u8; 32]),
}

impl BodyDigest {
    /// The algorithm.
    pub fn algorithm(&self) -> DigestAlgorithm {
        match self {
            Self::Xxh3(_) => DigestAlgorithm::Xxh3,
            Self::Sha256(_) => DigestAlgorithm::Sha256,
        }
    }

    /// The bytes, without the name of the algorithm.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Xxh3(bytes) => bytes,
            Self::Sha256(bytes) => bytes,
        }
    }

    /// The first eight bytes as a number, for tables of many digests.
    pub fn short(&self) -> u64 {
        self.bytes().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    /// Writes the text into `buffer`, and returns it.
    fn write<'b>(&self, buffer: &'b mut [u8; MAX_TEXT]) -> &'b str {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let name = self.algorithm().as_str().as_bytes();
        let length = name.len() + 1 + 2 * self.bytes().len();
        let text = buffer.get_mut(..length).unwrap_or_default();
        if let Some((head, digits)) = text.split_at_mut_checked(name.len() + 1) {
            head[..name.len()].copy_from_slice(name);
            head[name.len()] = b':';
            for (pair, byte) in digits.chunks_exact_mut(2).zip(self.bytes()) {
                pair[0] = HEX[usize::from(byte >> 4)];
                pair[1] = HEX[usize::from(byte & 15)];
            }
        }
        std::str::from_utf8(text).unwrap_or_default()
    }
}

/// The length of the longest text of a digest.
const MAX_TEXT: usize = "sha256:".len() + 64;

impl fmt::Display for BodyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.write(&mut [0; MAX_TEXT]))
    }
}

impl FromStr for BodyDigest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("not a digest: {text:?}");
        let (name, digits) = text.split_once(':').ok_or_else(bad)?;
        match name.parse().map_err(|_| bad())? {
            DigestAlgorithm::Xxh3 => from_hex(digits).map(Self::Xxh3),
            DigestAlgorithm::Sha256 => from_hex(digits).map(Self::Sha256),
        }
        .ok_or_else(bad)
    }
}

fn from_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if digits.len() != 2 * N || !digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
}

impl Serialize for BodyDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.write(&mut [0; MAX_TEXT]))
    }
}

impl<'de> Deserialize<'de> for BodyDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Computes a [`BodyDigest`] while the body arrives.
pub enum BodyHasher {
    Xxh3(Box<Xxh3>),
    Sha256(Sha256),
}

impl BodyHasher {
    pub fn new(algorithm: DigestAlgorithm) -> Self {
        match algorithm {
            DigestAlgorithm::Xxh3 => Self::Xxh3(Box::default()),
            DigestAlgorithm::Sha256 => Self::Sha256(Sha256::new()),
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Xxh3(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
        }
    }

    pub fn finish(self) -> BodyDigest {
        match self {
            Self::Xxh3(hasher) => BodyDigest::Xxh3(hasher.digest128().to_be_bytes()),
            Self::Sha256(hasher) => BodyDigest::Sha256(hasher.finalize().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_reference_implementations() {
        for (algorithm, text) in [
            (DigestAlgorithm::Xxh3, "xxh3:06b05ab6733a618578af5f94892f3950"),
            (DigestAlgorithm::Sha256, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            let mut hasher = BodyHasher::new(algorithm);
            hasher.update(b"a");
            hasher.update(b"bc");
            let digest = hasher.finish();
            assert_eq!(digest.to_string(), text);
            assert_eq!(text.parse::<BodyDigest>(), Ok(digest));
            assert_eq!(digest.algorithm(), algorithm);
        }
    }

    #[test]
    fn only_valid_digests_are_parsed() {
        let digits = "0f".repeat(32);
        assert_eq!(format!("sha256:{digits}").parse::<BodyDigest>(), Ok(BodyDigest::Sha256([15; 32])));
        let (capitals, accents) = (digits.to_uppercase(), "é".repeat(32));
        for bad in ["", "sha256:", "xxh3:0f", &format!("md5:{digits}"), &format!("xxh3:{digits}"), &digits] {
            assert!(bad.parse::<BodyDigest>().is_err(), "{bad}");
        }
        for digits in [capitals, accents] {
            assert!(format!("sha256:{digits}").parse::<BodyDigest>().is_err(), "{digits}");
        }
    }
}
