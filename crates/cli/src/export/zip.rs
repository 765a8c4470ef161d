//! [`ZipWriter`]: a ZIP file without compression, written in one pass.
//!
//! Entries are stored, so that readers can address bytes within them (WACZ demands it for archives). Sizes and checksums
//! are known before an entry is written, so no data descriptors are needed. Every entry has ZIP64 fields: archives may be
//! larger than 4 GiB.

use std::io::{self, Read, Write};

use flate2::Crc;
use sha2::{Digest, Sha256};

/// MS-DOS date and time of all entries, 1980-01-01, so that the same crawl gives the same bytes.
const DOS_DATE: u16 = 0x21;
/// Version 4.5 of the format, which readers need for ZIP64.
const VERSION: u16 = 45;
/// Marks a 32-bit field whose value is in the ZIP64 field instead.
const NO_SIZE: u32 = u32::MAX;

/// Size and checksums of the content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDigest {
    pub bytes: u64,
    pub crc: u32,
    /// SHA-256 as lower-case hexadecimal digits.
    pub sha256: String,
}

impl EntryDigest {
    /// Reads the content to its end.
    pub fn of(mut content: impl Read) -> io::Result<Self> {
        let (mut crc, mut sha, mut bytes) = (Crc::new(), Sha256::new(), 0);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = content.read(&mut buffer)?;
            let piece = buffer.get(..count).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            crc.update(piece);
            sha.update(piece);
            bytes += count as u64;
        }
        let sha256 = sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { bytes, crc: crc.sum(), sha256 })
    }
}

/// An entry that was written, for the central directory.
struct Written {
    name: String,
    digest: EntryDigest,
    offset: u64,
}

pub struct ZipWriter<W> {
    out: W,
    position: u64,
    entries: Vec<Written>,
}

impl<W: Write> ZipWriter<W> {
    pub fn new(out: W) -> Self {
        Self { out, position: 0, entries: Vec::new() }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.position += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Adds an entry whose content has this digest.
    pub fn add(&mut self, name: &str, digest: EntryDigest, content: impl Read) -> io::Result<()> {
        let offset = self.position;
        let mut head = Vec::with_capacity(64 + name.len());
        head.extend(b"PK\x03\x04");
        put_common(&mut head, &digest, name, 20);
        head.extend(name.as_bytes());
        head.extend(1u16.to_le_bytes());
        head.extend(16u16.to_le_bytes());
        head.extend(digest.bytes.to_le_bytes());
        head.extend(digest.bytes.to_le_bytes());
        self.put(&head)?;
        let copied = io::copy(&mut content.take(digest.bytes), &mut self.out)?;
        self.position += copied;
        if copied != digest.bytes {
            return Err(io::Error::other(format!("{name} became shorter while it was read")));
        }
        self.entries.push(Written { name: name.to_owned(), digest, offset });
        Ok(())
    }

    /// Writes the central directory. Returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        let start = self.position;
        let entries = std::mem::take(&mut self.entries);
        for entry in &entries {
            let mut head = Vec::with_capacity(96 + entry.name.len());
            head.extend(b"PK\x01\x02");
            // Made by: UNIX, so that readers apply the permissions below.
            head.extend((3u16 << 8 | VERSION).to_le_bytes());
            put_common(&mut head, &entry.digest, &entry.name, 28);
            // No comment, the first disk, no internal attributes.
            head.extend([0; 6]);
            head.extend((0o100_644u32 << 16).to_le_bytes());
            head.extend(NO_SIZE.to_le_bytes());
            head.extend(entry.name.as_bytes());
            head.extend(1u16.to_le_bytes());
            head.extend(24u16.to_le_bytes());
            for value in [entry.digest.bytes, entry.digest.bytes, entry.offset] {
                head.extend(value.to_le_bytes());
            }
            self.put(&head)?;
        }
        let (length, end) = (self.position - start, self.position);
        let count = entries.len() as u64;
        let mut tail = Vec::with_capacity(128);
        tail.extend(b"PK\x06\x06");
        tail.extend(44u64.to_le_bytes());
        tail.extend((3u16 << 8 | VERSION).to_le_bytes());
        tail.extend(VERSION.to_le_bytes());
        tail.extend([0; 8]);
        for value in [count, count, length, start] {
            tail.extend(value.to_le_bytes());
        }
        tail.extend(b"PK\x06\x07");
        tail.extend(0u32.to_le_bytes());
        tail.extend(end.to_le_bytes());
        tail.extend(1u32.to_le_bytes());
        tail.extend(b"PK\x05\x06");
        tail.extend([0; 4]);
        let few = u16::try_from(count).unwrap_or(u16::MAX);
        tail.extend(few.to_le_bytes());
        tail.extend(few.to_le_bytes());
        tail.extend(u32::try_from(length).unwrap_or(NO_SIZE).to_le_bytes());
        tail.extend(u32::try_from(start).unwrap_or(NO_SIZE).to_le_bytes());
        tail.extend(0u16.to_le_bytes());
        self.put(&tail)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Writes the fields that the local and the central header of an entry share: version, flags, method, time, checksum,
/// sizes, lengths.
fn put_common(head: &mut Vec<u8>, digest: &EntryDigest, name: &str, extra: u16) {
    const UTF8_NAMES: u16 = 1 << 11;
    const STORED: u16 = 0;
    for value in [VERSION, UTF8_NAMES, STORED, 0, DOS_DATE] {
        head.extend(value.to_le_bytes());
    }
    head.extend(digest.crc.to_le_bytes());
    head.extend(NO_SIZE.to_le_bytes());
    head.extend(NO_SIZE.to_le_bytes());
    head.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes());
    head.extend(extra.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_follows_the_specification() {
        let content = b"hello";
        let digest = EntryDigest::of(&content[..]).unwrap();
        assert_eq!((digest.bytes, digest.crc), (5, 0x3610_a686));
        assert!(digest.sha256.starts_with("2cf24dba5fb0a30e"));
        let mut zip = ZipWriter::new(Vec::new());
        zip.add("a.txt", digest.clone(), &content[..]).unwrap();
        let bytes = zip.finish().unwrap();
        assert_eq!(bytes.get(30..35), Some(&b"a.txt"[..]));
        assert_eq!(bytes.get(55..60), Some(&b"hello"[..]));
        let directory = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
        assert_eq!(bytes.get(directory + 46..directory + 51), Some(&b"a.txt"[..]));
        let end = bytes.len() - 22;
        assert_eq!(bytes.get(end..end + 4), Some(&b"PK\x05\x06"[..]));
        let mut short = ZipWriter::new(Vec::new());
        assert!(short.add("b", digest, &b"hi"[..]).is_err(), "content shorter than its digest says must be an error");
    }
}
