//! The archive index as CDXJ: key, time and position of each response, sorted for binary search by replay tools.

use std::io::{self, Read, Write};

use argiope_core::base::escape::write_json;
use argiope_core::crawl::warc::WarcLocation;
use argiope_core::{StoreError, StoreErrorKind, UrlRef};
use serde::Serialize;

use super::archive_files::ArchiveFiles;
use super::archived::{ArchivedPages, decompress, own_and_body_locations};
use super::surt::surt;
use crate::records::{self, ReadError};
use crate::results::Results;
use crate::sorted::Sorted;

/// How many bytes of a WARC record are read for its fields and the head of the response.
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// Stands for an unknown media type.
const UNKNOWN_TYPE: &str = "unk";
/// Number of digits of a time such as `20260102030405`.
const TIME_DIGITS: usize = 14;

/// The JSON object of a line.
#[derive(Serialize)]
struct Entry<'a> {
    url: &'a str,
    mime: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    digest: &'a str,
    length: String,
    offset: String,
    filename: &'a str,
}

/// Writes one line per archived response to a plain GET request.
pub fn cdxj(results: &Results, out: &mut dyn Write) -> Result<(), ReadError> {
    // Fails with a message for the user if the crawl has no archive.
    ArchivedPages::open(results)?;
    cdxj_of_copy(results, out, |_| None)
}

/// Writes the index of a copy of the archive, such as the copy in a WACZ file. `location_in_copy` returns the new
/// location of a WARC record that is at another place in the copy.
pub fn cdxj_of_copy(
    results: &Results,
    out: &mut dyn Write,
    location_in_copy: impl Fn(&WarcLocation) -> Option<WarcLocation>,
) -> Result<(), ReadError> {
    let mut sorted = Sorted::default();
    let mut archive = ArchiveFiles::new(results.location());
    results.lines(|line| {
        let record = records::read(line)?;
        if !record.is_plain_get() {
            // Replay requests URLs with GET, and must not get the response to a form.
            return Ok(());
        }
        for location in record.warc.iter().flat_map(|location| own_and_body_locations(location)) {
            let head = read_head(&mut archive, &location)?;
            let target = head.field("WARC-Target-URI").unwrap_or(&record.url);
            let Some(url) = UrlRef::from_normal(target) else { continue };
            let is_revisit = head.field("WARC-Type") == Some("revisit");
            let digest = head.field("WARC-Payload-Digest").unwrap_or("-");
            let date = head.field("WARC-Date").unwrap_or_default();
            // `2026-01-02T03:04:05Z` becomes `20260102030405`.
            let time: String = date.chars().filter(char::is_ascii_digit).take(TIME_DIGITS).collect();
            let mime = head.content_type().or(record.content_type.as_deref()).unwrap_or(UNKNOWN_TYPE);
            let location = location_in_copy(&location).unwrap_or(location);
            let entry = Entry {
                url: target,
                mime: if is_revisit { "warc/revisit" } else { mime },
                status: head.status().or(record.status).filter(|_| !is_revisit).map(|status| status.to_string()),
                digest: digest.strip_prefix("sha1:").unwrap_or(digest),
                length: location.length.to_string(),
                offset: location.offset.to_string(),
                filename: location.file.rsplit('/').next().unwrap_or(&location.file),
            };
            let mut line = format!("{} {time} ", surt(url)).into_bytes();
            write_json(&mut line, &entry).map_err(io::Error::other)?;
            sorted.push(&line)?;
        }
        Ok(())
    })?;
    // Several pages may refer to the WARC record with their common body. It is listed once.
    let mut last = Vec::new();
    sorted.each(|line| {
        if line != last {
            out.write_all(line)?;
            out.write_all(b"\n")?;
        }
        last.clear();
        last.extend_from_slice(line);
        Ok::<(), io::Error>(())
    })?;
    Ok(out.flush()?)
}

/// The start of a WARC record.
struct RecordHead {
    /// The header of the WARC record.
    fields: String,
    /// Status line and header of the response.
    response_head: String,
}

fn read_head(archive: &mut ArchiveFiles, location: &WarcLocation) -> Result<RecordHead, ReadError> {
    let member = archive.read(&location.file, location.offset, location.length.min(MAX_HEAD_BYTES))?;
    Ok(parse_head(&member, location)
        .map_err(|error| StoreError::new(StoreErrorKind::File, format!("{} cannot be read: {error}", location.file)))?)
}

fn parse_head(member: &[u8], location: &WarcLocation) -> io::Result<RecordHead> {
    let mut text = Vec::new();
    // A long record is cut, so decompression may fail at its end. What was read before that is sufficient.
    let read = decompress(member)?.take(MAX_HEAD_BYTES).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    match text.split_once("\r\n\r\n") {
        Some((fields, rest)) if fields.starts_with("WARC/1.") => {
            let end = rest.find("\r\n\r\n").or_else(|| rest.find("\n\n")).unwrap_or(rest.len());
            Ok(RecordHead { fields: fields.into(), response_head: rest.get(..end).unwrap_or_default().into() })
        }
        _ => Err(read.err().unwrap_or_else(|| io::Error::other(format!("no record at byte {}", location.offset)))),
    }
}

impl RecordHead {
    /// A field of the WARC record.
    fn field(&self, name: &str) -> Option<&str> {
        field(&self.fields, name)
    }

    /// The status of the response.
    fn status(&self) -> Option<u16> {
        self.response_head.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// The media type that the response declares.
    fn content_type(&self) -> Option<&str> {
        field(&self.response_head, "content-type")?.split([';', ' ', '\t']).next().filter(|kind| !kind.is_empty())
    }
}

/// The value of a header field. The first line of `head` is not a field.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}
