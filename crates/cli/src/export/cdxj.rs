//! The archive index as CDXJ: key, time and position of each response, sorted for binary search by replay tools.

use std::io::{self, Read, Write};
use std::path::Path;

use argiope_core::output::escape::write_json;
use argiope_core::output::record::WarcLocation;
use argiope_core::{StoreError, StoreErrorKind, UrlRef};
use serde::Serialize;

use super::archive_files::ArchiveFiles;
use super::archived::{decompressed, locations};
use super::sorted::Sorted;
use super::surt::surt;
use crate::records::{self, ReadError, StoredRecord};

/// How much of a WARC record is read for its fields and the response head.
const OPENING: u64 = 64 << 10;

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

/// One line per response in the archive.
pub fn cdxj(directory: &Path, out: &mut dyn Write) -> Result<(), ReadError> {
    let mut sorted = Sorted::default();
    let mut archive = ArchiveFiles::new(directory);
    records::lines(directory, |line| {
        let line = StoredRecord::read(line)?;
        if !line.is_plain_get() {
            // Replay asks with GET: the response to a form must not be found under the form's URL.
            return Ok(());
        }
        for place in line.warc.iter().flat_map(locations) {
            let opening = read_opening(&mut archive, &place)?;
            let target = opening.field("WARC-Target-URI").unwrap_or(&line.url);
            let Some(url) = UrlRef::from_normal(target) else { continue };
            let is_revisit = opening.field("WARC-Type") == Some("revisit");
            let digest = opening.field("WARC-Payload-Digest").unwrap_or("-");
            let date = opening.field("WARC-Date").unwrap_or_default();
            let time: String = date.chars().filter(char::is_ascii_digit).take(14).collect();
            let mime = opening.content_type().or(line.content_type.as_deref()).unwrap_or("unk");
            let entry = Entry {
                url: target,
                mime: if is_revisit { "warc/revisit" } else { mime },
                status: opening.status().or(line.status).filter(|_| !is_revisit).map(|status| status.to_string()),
                digest: digest.strip_prefix("sha1:").unwrap_or(digest),
                length: place.length.to_string(),
                offset: place.offset.to_string(),
                filename: place.file.rsplit('/').next().unwrap_or(&place.file),
            };
            let mut record = format!("{} {time} ", surt(url)).into_bytes();
            write_json(&mut record, &entry).map_err(io::Error::other)?;
            sorted.push(&record)?;
        }
        Ok(())
    })?;
    // A body that several records refer to is listed once.
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

/// The start of a WARC record: its fields and the response head.
struct Opening {
    fields: String,
    head: String,
}

fn read_opening(archive: &mut ArchiveFiles, place: &WarcLocation) -> Result<Opening, ReadError> {
    let member = archive.read(&place.file, place.offset, place.length.min(OPENING))?;
    Ok(opening_of(&member, place)
        .map_err(|error| StoreError::new(StoreErrorKind::File, format!("{} cannot be read: {error}", place.file)))?)
}

fn opening_of(member: &[u8], place: &WarcLocation) -> io::Result<Opening> {
    let mut text = Vec::new();
    // A long record is cut here; the part before the cut is sufficient.
    let read = decompressed(member)?.take(OPENING).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    match text.split_once("\r\n\r\n") {
        Some((fields, rest)) if fields.starts_with("WARC/1.") => {
            let end = rest.find("\r\n\r\n").or_else(|| rest.find("\n\n")).unwrap_or(rest.len());
            Ok(Opening { fields: fields.into(), head: rest.get(..end).unwrap_or_default().into() })
        }
        _ => Err(read.err().unwrap_or_else(|| io::Error::other(format!("no record at byte {}", place.offset)))),
    }
}

impl Opening {
    fn field(&self, name: &str) -> Option<&str> {
        field(&self.fields, name)
    }

    fn status(&self) -> Option<u16> {
        self.head.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// The media type that the response declares.
    fn content_type(&self) -> Option<&str> {
        field(&self.head, "content-type")?.split([';', ' ', '\t']).next().filter(|kind| !kind.is_empty())
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}
