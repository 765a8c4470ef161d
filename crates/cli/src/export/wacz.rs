//! A crawl as WACZ 1.1.1: archives, index and list of pages in one ZIP file, for replay in a browser.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};

use argiope_core::base::escape::write_json;
use argiope_core::crawl::warc::{RENDERED_SCHEME, WarcLocation};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::archive_files::ArchiveFiles;
use super::archive_scan::{ArchiveScan, MemberPlace, archives};
use super::archived::ArchivedPages;
use super::zip::{EntryDigest, ZipWriter};
use crate::records::ReadError;
use crate::results::Results;
use crate::temporary::TemporaryFile;

/// Stands for a time that is not known.
const UNKNOWN_TIME: &str = "1970-01-01T00:00:00Z";

/// Writes the crawl as one WACZ file.
pub fn wacz(results: &Results, out: &mut dyn Write) -> Result<(), ReadError> {
    // Fails with a message for the user if the crawl has no archive.
    ArchivedPages::open(results)?;
    let mut zip = ZipWriter::new(out);
    let mut resources = Vec::new();
    // Adds the first `length` bytes of a file, or all with `u64::MAX`, to the ZIP file and to the list of resources.
    let mut add = |zip: &mut ZipWriter<&mut dyn Write>, path: &str, content: &mut File, length: u64| {
        content.rewind()?;
        let digest = EntryDigest::of(Read::by_ref(content).take(length))?;
        let name = path.rsplit('/').next().unwrap_or(path);
        let hash = format!("sha256:{}", digest.sha256);
        resources.push(json!({"name": name, "path": path, "hash": hash, "bytes": digest.bytes}));
        content.rewind()?;
        zip.add(path, digest, content)
    };
    let files = ArchiveFiles::new(results.location());
    // The new location of each record that is recompressed, by its file and offset in the crawl directory.
    let mut moved = HashMap::new();
    for (file, length) in archives(results)? {
        let mut content = files.open_whole(&file)?;
        let name = file.rsplit('/').next().unwrap_or(&file);
        match file.strip_suffix(".warc.zst") {
            None => add(&mut zip, &format!("archive/{name}"), &mut content, length)?,
            // Replay programs read gzip only.
            Some(stem) => {
                let gzip_name = format!("{stem}-zst.warc.gz");
                let (mut copy, locations) = recompressed(content.take(length), &gzip_name)?;
                moved.extend(locations.into_iter().map(|(offset, location)| ((file.clone(), offset), location)));
                let name = gzip_name.rsplit('/').next().unwrap_or(&gzip_name);
                add(&mut zip, &format!("archive/{name}"), &mut copy, u64::MAX)?;
            }
        }
    }
    let mut index = BufWriter::new(TemporaryFile::create()?);
    super::cdxj::cdxj_of_copy(results, &mut index, |old| moved.get(&(old.file.clone(), old.offset)).cloned())?;
    let (mut pages, started) = pages(results)?;
    let TemporaryFile(mut index) = index.into_inner().map_err(io::IntoInnerError::into_error)?;
    add(&mut zip, "indexes/index.cdx", &mut index, u64::MAX)?;
    add(&mut zip, "pages/pages.jsonl", &mut pages, u64::MAX)?;
    let package = json!({
        "profile": "data-package",
        "wacz_version": "1.1.1",
        "software": concat!("argiope ", env!("CARGO_PKG_VERSION")),
        "created": started,
        "resources": resources,
    });
    let mut package = serde_json::to_vec_pretty(&package).map_err(io::Error::other)?;
    package.push(b'\n');
    let digest = EntryDigest::of(package.as_slice())?;
    let package_digest = json!({"path": "datapackage.json", "hash": format!("sha256:{}", digest.sha256)});
    let mut package_digest = serde_json::to_vec_pretty(&package_digest).map_err(io::Error::other)?;
    package_digest.push(b'\n');
    zip.add("datapackage.json", digest, package.as_slice())?;
    zip.add("datapackage-digest.json", EntryDigest::of(package_digest.as_slice())?, package_digest.as_slice())?;
    zip.finish()?;
    Ok(())
}

/// Copies an archive to a temporary file in which every record is a gzip member. Returns the file and the new
/// location of each record, by its offset in the original. `name` is the name of the file in these locations.
fn recompressed(archive: impl Read, name: &str) -> io::Result<(File, HashMap<u64, WarcLocation>)> {
    let mut records = ArchiveScan::new(archive);
    let mut out = BufWriter::new(TemporaryFile::create()?);
    let (mut locations, mut end) = (HashMap::new(), 0);
    loop {
        let mut member = GzEncoder::new(Vec::new(), Compression::default());
        let Some(MemberPlace { offset, .. }) = records.next_record(&mut member)? else { break };
        let member = member.finish()?;
        let length = member.len() as u64;
        locations.insert(offset, WarcLocation::of_record(name.to_owned(), end, length));
        end += length;
        out.write_all(&member)?;
    }
    Ok((out.into_inner().map_err(io::IntoInnerError::into_error)?.0, locations))
}

/// The list of pages as JSON Lines, and the time of the earliest request.
fn pages(results: &Results) -> Result<(File, String), ReadError> {
    let mut out = BufWriter::new(TemporaryFile::create()?);
    writeln!(out, "{}", json!({"format": "json-pages-1.0", "id": "pages", "title": "All Pages"}))?;
    let mut earliest: Option<String> = None;
    let mut number = 0_u64;
    results.latest_pages(|record| {
        if record.warc.is_none() || !record.is_html_success() || !record.is_plain_get() {
            return Ok(());
        }
        let started = record.started.as_deref().unwrap_or(UNKNOWN_TIME);
        if earliest.as_deref().is_none_or(|earliest| started < earliest) {
            earliest = Some(started.to_owned());
        }
        number += 1;
        let mut line = Vec::new();
        let mut entry = json!({"id": format!("p{number}"), "url": record.url, "ts": started});
        if let Some(title) = &record.title {
            entry["title"] = (**title).into();
        }
        if record.depth() == 0 {
            entry["seed"] = true.into();
        }
        if record.warc.as_ref().is_some_and(|location| location.rendered_document().is_some()) {
            entry["rendered"] = format!("{RENDERED_SCHEME}{}", record.url).into();
        }
        write_json(&mut line, &entry).map_err(io::Error::other)?;
        line.push(b'\n');
        Ok(out.write_all(&line)?)
    })?;
    let TemporaryFile(file) = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok((file, earliest.unwrap_or_else(|| UNKNOWN_TIME.to_owned())))
}
