//! [`ZipWriter`]: a ZIP file without compression, written in one pass.
//!
//! Entries are not compressed, so that readers can seek within them, as WACZ requires for archives. Sizes and checksums are
//! known before an entry is written, so no data descriptors are needed. Every entry has ZIP64 fields, because archives may
//! be larger than 4 GiB.

use std::io::{self, Read, Write};

use flate2::Crc;
use sha2::{Digest, Sha256};

/// The MS-DOS date of all entries, 1980-01-01. It is constant, so that the same crawl gives the same bytes.
const DOS_DATE: u16 = 0x21;
/// Version 4.5 of the format, which readers need for ZIP64.
const VERSION: u16 = 45;
/// The system and version that made an entry: UNIX, so that readers apply the permissions.
const MADE_BY: u16 = 3 << 8 | VERSION;
/// The id of the ZIP64 field.
const ZIP64_ID: u16 = 1;
/// Bytes of the id and the length of the ZIP64 field. The length counts only the values after them, of 8 bytes each.
const ZIP64_HEADER: u16 = 4;
/// The value of a 32-bit field whose real value is in the ZIP64 field.
const IN_ZIP64: u32 = u32::MAX;

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
struct WrittenEntry {
    name: String,
    digest: EntryDigest,
    /// Where its local header starts.
    offset: u64,
}

/// Writes a ZIP file.
pub struct ZipWriter<W> {
    out: W,
    /// Bytes written so far.
    position: u64,
    entries: Vec<WrittenEntry>,
}

impl<W: Write> ZipWriter<W> {
    pub fn new(out: W) -> Self {
        Self { out, position: 0, entries: Vec::new() }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.position += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Adds an entry whose content has this digest.
    pub fn add(&mut self, name: &str, digest: EntryDigest, content: impl Read) -> io::Result<()> {
        let offset = self.position;
        let mut head = Vec::with_capacity(64 + name.len());
        // The local header of the entry.
        head.extend(b"PK\x03\x04");
        append_common_fields(&mut head, &digest, name, ZIP64_HEADER + 16);
        head.extend(name.as_bytes());
        // The ZIP64 field: id, length, size, compressed size.
        head.extend(ZIP64_ID.to_le_bytes());
        head.extend(16u16.to_le_bytes());
        head.extend(digest.bytes.to_le_bytes());
        head.extend(digest.bytes.to_le_bytes());
        self.write(&head)?;
        let copied = io::copy(&mut content.take(digest.bytes), &mut self.out)?;
        self.position += copied;
        if copied != digest.bytes {
            return Err(io::Error::other(format!("{name} became shorter while it was read")));
        }
        self.entries.push(WrittenEntry { name: name.to_owned(), digest, offset });
        Ok(())
    }

    /// Writes the central directory. Returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        let start = self.position;
        let entries = std::mem::take(&mut self.entries);
        for entry in &entries {
            let mut head = Vec::with_capacity(96 + entry.name.len());
            head.extend(b"PK\x01\x02");
            head.extend(MADE_BY.to_le_bytes());
            append_common_fields(&mut head, &entry.digest, &entry.name, ZIP64_HEADER + 24);
            // No comment, the first disk, no internal attributes.
            head.extend([0; 6]);
            // A regular file with the permissions 0644.
            head.extend((0o100_644u32 << 16).to_le_bytes());
            // The offset of the local header.
            head.extend(IN_ZIP64.to_le_bytes());
            head.extend(entry.name.as_bytes());
            // The ZIP64 field: id, length, size, compressed size, offset.
            head.extend(ZIP64_ID.to_le_bytes());
            head.extend(24u16.to_le_bytes());
            for value in [entry.digest.bytes, entry.digest.bytes, entry.offset] {
                head.extend(value.to_le_bytes());
            }
            self.write(&head)?;
        }
        let (length, end) = (self.position - start, self.position);
        let count = entries.len() as u64;
        let mut tail = Vec::with_capacity(128);
        // The ZIP64 end of the central directory: length of the rest of this record, versions, disk
        // numbers, counts, length and offset of the central directory.
        tail.extend(b"PK\x06\x06");
        tail.extend(44u64.to_le_bytes());
        tail.extend(MADE_BY.to_le_bytes());
        tail.extend(VERSION.to_le_bytes());
        tail.extend([0; 8]);
        for value in [count, count, length, start] {
            tail.extend(value.to_le_bytes());
        }
        // The locator of that record: disk, offset, number of disks.
        tail.extend(b"PK\x06\x07");
        tail.extend(0u32.to_le_bytes());
        tail.extend(end.to_le_bytes());
        tail.extend(1u32.to_le_bytes());
        // The end of the central directory, for readers without ZIP64: disk numbers, counts, length, offset, no comment.
        tail.extend(b"PK\x05\x06");
        tail.extend([0; 4]);
        let short_count = u16::try_from(count).unwrap_or(u16::MAX);
        tail.extend(short_count.to_le_bytes());
        tail.extend(short_count.to_le_bytes());
        tail.extend(u32::try_from(length).unwrap_or(IN_ZIP64).to_le_bytes());
        tail.extend(u32::try_from(start).unwrap_or(IN_ZIP64).to_le_bytes());
        tail.extend(0u16.to_le_bytes());
        self.write(&tail)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Writes the fields that the local and the central header of an entry share: version, flags, method, time, checksum,
/// sizes, length of the name, length of the ZIP64 field.
fn append_common_fields(head: &mut Vec<u8>, digest: &EntryDigest, name: &str, zip64_length: u16) {
    const UTF8_NAMES: u16 = 1 << 11;
    const STORED: u16 = 0;
    const MIDNIGHT: u16 = 0;
    for value in [VERSION, UTF8_NAMES, STORED, MIDNIGHT, DOS_DATE] {
        head.extend(value.to_le_bytes());
    }
    head.extend(digest.crc.to_le_bytes());
    head.extend(IN_ZIP64.to_le_bytes());
    head.extend(IN_ZIP64.to_le_bytes());
    head.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes());
    head.extend(zip64_length.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_content_are_where_the_specification_puts_them() {
        let content = b"hello";
        let digest = EntryDigest::of(&content[..]).unwrap();
        assert_eq!((digest.bytes, digest.crc), (5, 0x3610_a686));
        assert!(digest.sha256.starts_with("2cf24dba5fb0a30e"));
        // Lengths without name: local header 30, its ZIP64 field 20, central header 46, end of the central directory 22.
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
        assert!(
            short.add("b", digest, &b"hi"[..]).is_err(),
            "content that is shorter than in its digest must be an error"
        );
    }
}
