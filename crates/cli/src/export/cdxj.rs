//! The archive index as CDXJ: key, time and position of each response, sorted for binary search by replay tools.

use std::collections::HashSet;
use std::io::{self, Read, Write};

use argiope_core::base::escape::write_json;
use argiope_core::crawl::warc::{RENDERED_SCHEME, SCREENSHOT_SCHEME, WarcLocation};
use argiope_core::{StoreError, StoreErrorKind, UrlRef};
use serde::Serialize;

use super::archive_files::ArchiveFiles;
use super::archive_scan::{ArchiveScan, MemberPlace, RecordStart, archives};
use super::archived::{ArchivedPages, all_locations, decompress};
use super::surt::surt;
use crate::records::{self, ReadError, StoredRecord};
use crate::results::Results;
use crate::sorted::Sorted;
use crate::ticker::Ticker;

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
    let mut index = Index { sorted: Sorted::default(), location_in_copy };
    let mut archive = ArchiveFiles::new(results.location());
    // Records of the archive that the scan leaves out: it would list them, or list them in another way.
    let (mut known, mut has_parts) = (HashSet::new(), false);
    let mut ticker = Ticker::start();
    results.lines(|line| {
        ticker.advance();
        let record = records::read(line)?;
        has_parts |= record.render.is_some();
        let is_plain_get = record.is_plain_get();
        for location in record.warc.iter().flat_map(|location| all_locations(location)) {
            if !is_plain_get {
                // Replay requests URLs with GET, and must not get the response to a form.
                known.insert((location.file, location.offset));
                continue;
            }
            let head = read_head(&mut archive, &location)?;
            if head.mime().is_none() {
                known.insert((location.file.clone(), location.offset));
            }
            index.add(&head, Some(&record), location)?;
        }
        Ok(())
    })?;
    if has_parts {
        index.add_parts(results, &archive, &known)?;
    }
    let mut sorted = index.sorted;
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

/// The lines of the index.
struct Index<F> {
    sorted: Sorted,
    location_in_copy: F,
}

impl<F: Fn(&WarcLocation) -> Option<WarcLocation>> Index<F> {
    /// Adds a record of the archive. `page` is the record of the crawl that refers to it.
    fn add(&mut self, head: &RecordHead, page: Option<&StoredRecord>, location: WarcLocation) -> Result<(), ReadError> {
        let target = head.field("WARC-Target-URI").or(page.map(|page| &*page.url)).unwrap_or_default();
        let Some(key) = UrlRef::from_normal(target).map(surt).or_else(|| key_of_view(target)) else {
            return Ok(());
        };
        let has_head = head.field("WARC-Type") == Some("response");
        let is_revisit = head.field("WARC-Type") == Some("revisit");
        let digest = head.field("WARC-Payload-Digest").unwrap_or("-");
        let date = head.field("WARC-Date").unwrap_or_default();
        // `2026-01-02T03:04:05Z` becomes `20260102030405`.
        let time: String = date.chars().filter(char::is_ascii_digit).take(TIME_DIGITS).collect();
        let mime = head.mime().or_else(|| page?.content_type.as_deref()).unwrap_or(UNKNOWN_TYPE);
        let status = head.status().or_else(|| page?.status).filter(|_| has_head);
        let location = (self.location_in_copy)(&location).unwrap_or(location);
        let entry = Entry {
            url: target,
            mime: if is_revisit { "warc/revisit" } else { mime },
            status: status.map(|status| status.to_string()),
            digest: digest.strip_prefix("sha1:").unwrap_or(digest),
            length: location.length.to_string(),
            offset: location.offset.to_string(),
            filename: location.file.rsplit('/').next().unwrap_or(&location.file),
        };
        let mut line = format!("{key} {time} ").into_bytes();
        write_json(&mut line, &entry).map_err(io::Error::other)?;
        Ok(self.sorted.push(&line)?)
    }

    /// Adds the responses to requests of rendered pages, of which the crawl has no records unless the user wants them.
    fn add_parts(
        &mut self,
        results: &Results,
        archive: &ArchiveFiles,
        known: &HashSet<(String, u64)>,
    ) -> Result<(), ReadError> {
        for (file, length) in archives(results)? {
            let mut records = ArchiveScan::new(archive.open_whole(&file)?.take(length));
            // The id of the response that the last request belongs to, if the request was a GET.
            let mut requested = None;
            loop {
                let mut start = RecordStart::of(MAX_HEAD_BYTES as usize);
                let Some(MemberPlace { offset, length }) = records.next_record(&mut start)? else { break };
                let Some(head) = RecordHead::of(&start.bytes) else { continue };
                let kind = head.field("WARC-Type");
                let is_answer = matches!(kind, Some("response" | "revisit"))
                    && requested.as_deref().is_some_and(|id| head.field("WARC-Record-ID") == Some(id));
                if kind == Some("request") {
                    let is_get = head.response_head.starts_with("GET ");
                    requested = head.field("WARC-Concurrent-To").filter(|_| is_get).map(str::to_owned);
                } else if is_answer && !known.contains(&(file.clone(), offset)) {
                    self.add(&head, None, WarcLocation::of_record(file.clone(), offset, length))?;
                }
            }
        }
        Ok(())
    }
}

/// The key of a rendered document, or of a picture.
fn key_of_view(target: &str) -> Option<String> {
    let is_view = [RENDERED_SCHEME, SCREENSHOT_SCHEME].iter().any(|scheme| target.starts_with(scheme));
    is_view.then(|| target.to_owned())
}

/// The start of a WARC record.
struct RecordHead {
    /// The header of the WARC record.
    fields: String,
    /// Status line and header of the response, or the request line and header.
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
    RecordHead::of(&text)
        .ok_or_else(|| read.err().unwrap_or_else(|| io::Error::other(format!("no record at byte {}", location.offset))))
}

impl RecordHead {
    /// Reads the beginning of a record.
    fn of(record: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(record);
        let (fields, rest) = text.split_once("\r\n\r\n").filter(|(fields, _)| fields.starts_with("WARC/1."))?;
        let end = rest.find("\r\n\r\n").or_else(|| rest.find("\n\n")).unwrap_or(rest.len());
        Some(Self { fields: fields.into(), response_head: rest.get(..end).unwrap_or_default().into() })
    }

    /// A field of the WARC record.
    fn field(&self, name: &str) -> Option<&str> {
        field(&self.fields, name)
    }

    /// The status of the response.
    fn status(&self) -> Option<u16> {
        self.response_head.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// The media type that the response declares, or that of a resource.
    fn mime(&self) -> Option<&str> {
        let of = if self.field("WARC-Type") == Some("resource") { &self.fields } else { &self.response_head };
        field(of, "content-type")?.split([';', ' ', '\t']).next().filter(|kind| !kind.is_empty())
    }
}

/// The value of a header field. The first line of `head` is not a field.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}
