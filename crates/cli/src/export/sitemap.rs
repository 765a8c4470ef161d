//! A sitemap of the crawled pages, for search engines.
//!
//! It lists every document with status 2xx or 304, without `noindex`, and without a `canonical` that names another URL. The
//! protocol allows 50,000 URLs and 50 MiB per file. A larger sitemap is split into several files and an index.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use argiope_core::{Outcome, UrlRef};

use super::Xml;
use crate::records::{ReadError, StoredRecord};
use crate::results::Results;
use crate::sorted::Sorted;
use crate::ticker::Ticker;
use argiope_runtime::atomic_file::AtomicFile;

/// Maximum number of URLs in one file.
const MAX_URLS: u64 = 50_000;
/// Maximum bytes of one file.
const MAX_BYTES: u64 = 50 << 20;
/// Bytes that are reserved for the markup around the entries.
const MARKUP_BYTES: u64 = 1_024;
const NAMESPACE: &str = "http://www.sitemaps.org/schemas/sitemap/0.9";

/// Writes the sitemap to `out`. If it needs several files, they are written next to `file`, and `out` receives the index;
/// without a `file` that is an error.
pub fn sitemap(results: &Results, out: &mut dyn Write, file: Option<&Path>) -> Result<(), ReadError> {
    // Sorted by URL, then by the number of the record. If a URL was fetched again, its last record is used.
    let mut sorted = Sorted::default();
    let mut number = 0u64;
    let mut ticker = Ticker::start();
    results.pages(|record| {
        ticker.advance();
        if !record.is_plain_get() {
            return Ok(());
        }
        number += 1;
        // The record of a 304 usually repeats the facts of the page. If it does not, it gets rank 0 and sorts before all
        // other records of the URL. So an earlier record of the page is used, if there is one.
        let has_facts = record.outcome != Some(Outcome::NotModified) || record.content_type.is_some();
        let rank = if has_facts { number } else { 0 };
        let entry = if is_listed(record) { entry(record) } else { String::new() };
        Ok(sorted.push(format!("{}\t{rank:016}\t{entry}", record.url).as_bytes())?)
    })?;
    let mut size = FileSize::default();
    let mut parts = 1;
    let mut first = None;
    each_entry(&mut sorted, |url, entry| {
        parts += u64::from(size.add_or_start_new(entry));
        first.get_or_insert_with(|| url.to_owned());
        Ok(())
    })?;
    if parts == 1 {
        begin(out, "urlset")?;
        each_entry(&mut sorted, |_, entry| Ok(out.write_all(entry)?))?;
        end(out, "urlset")?;
        return Ok(());
    }
    let Some(file) = file else {
        let why = format!("a sitemap of this crawl takes {parts} files and an index: name the index with -o FILE");
        return Err(ReadError::Refused(why));
    };
    // The index needs absolute URLs. They assume that the files are published at the origin of the first page.
    let origin = first.as_deref().and_then(UrlRef::from_normal).map(|url| url.to_url().origin().to_string());
    let origin = origin.unwrap_or_default();
    begin(out, "sitemapindex")?;
    let (mut size, mut part_number) = (FileSize::default(), 1);
    let (mut part, name) = open_part(file, part_number)?;
    writeln!(out, "<sitemap><loc>{}/{}</loc></sitemap>", Xml(&origin), Xml(&name))?;
    each_entry(&mut sorted, |_, entry| {
        if size.add_or_start_new(entry) {
            part_number += 1;
            let (next, name) = open_part(file, part_number)?;
            close_part(std::mem::replace(&mut part, next))?;
            writeln!(out, "<sitemap><loc>{}/{}</loc></sitemap>", Xml(&origin), Xml(&name))?;
        }
        Ok(part.write_all(entry)?)
    })?;
    close_part(part)?;
    Ok(end(out, "sitemapindex")?)
}

/// Whether the sitemap lists this page.
fn is_listed(record: &StoredRecord) -> bool {
    const NOT_DOCUMENTS: [&str; 8] = [
        "image/",
        "audio/",
        "video/",
        "font/",
        "text/css",
        "text/javascript",
        "application/javascript",
        "application/font",
    ];
    let kind = record.content_type.as_deref().unwrap_or_default();
    let is_document = !NOT_DOCUMENTS.iter().any(|other| kind.starts_with(other));
    let is_canonical = record.canonical.as_deref().is_none_or(|canonical| canonical == record.url);
    let is_ok = matches!(record.outcome, Some(Outcome::Ok | Outcome::NotModified));
    is_ok && is_document && !record.noindex && is_canonical
}

/// The XML element of a page.
fn entry(record: &StoredRecord) -> String {
    let modified = record.last_modified.as_deref().and_then(|date| {
        // HTTP dates are RFC 2822 dates except for the name of the zone.
        jiff::fmt::rfc2822::parse(&date.replace("GMT", "+0000")).ok().map(|time| time.timestamp())
    });
    let modified = modified.map(|time| format!("<lastmod>{time:.0}</lastmod>")).unwrap_or_default();
    format!("<url><loc>{}</loc>{modified}</url>", Xml(&record.url))
}

/// Calls `each` with every URL to list and its entry, which ends with a line feed.
fn each_entry(
    sorted: &mut Sorted,
    mut each: impl FnMut(&str, &[u8]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut last: Option<(String, String)> = None;
    // An entry of one byte is only the line feed: the page is not listed.
    let mut emit = |(url, entry): (String, String)| if entry.len() > 1 { each(&url, entry.as_bytes()) } else { Ok(()) };
    sorted.each(|line| {
        let line = String::from_utf8_lossy(line);
        let mut fields = line.splitn(3, '\t');
        let (url, _, entry) = (fields.next().unwrap_or_default(), fields.next(), fields.next().unwrap_or_default());
        let next = (url.to_owned(), format!("{entry}\n"));
        match last.replace(next) {
            Some(previous) if previous.0 != url => emit(previous),
            _ => Ok::<_, ReadError>(()),
        }
    })?;
    last.map_or(Ok(()), emit)
}

/// The size of the file that is being written.
#[derive(Default)]
struct FileSize {
    urls: u64,
    bytes: u64,
}

impl FileSize {
    /// Adds an entry. If it does not fit, it is counted as the first entry of the next file, and the result is `true`.
    fn add_or_start_new(&mut self, entry: &[u8]) -> bool {
        let is_full = self.urls == MAX_URLS || self.bytes + entry.len() as u64 + MARKUP_BYTES > MAX_BYTES;
        if is_full {
            *self = Self::default();
        }
        self.urls += 1;
        self.bytes += entry.len() as u64;
        is_full
    }
}

/// Creates one of several files. Returns it and its name.
fn open_part(file: &Path, number: u32) -> Result<(BufWriter<AtomicFile>, String), ReadError> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-{number}.xml");
    let path: PathBuf = file.with_file_name(&name);
    let mut part = BufWriter::new(AtomicFile::create_output(&path)?);
    begin(&mut part, "urlset")?;
    Ok((part, name))
}

fn close_part(mut part: BufWriter<AtomicFile>) -> Result<(), ReadError> {
    end(&mut part, "urlset")?;
    let part = part.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    Ok(part.rename_into_place()?)
}

/// Writes the XML declaration and the start tag.
fn begin(out: &mut dyn Write, element: &str) -> std::io::Result<()> {
    write!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{element} xmlns=\"{NAMESPACE}\">\n")
}

/// Writes the end tag.
fn end(out: &mut dyn Write, element: &str) -> std::io::Result<()> {
    writeln!(out, "</{element}>")?;
    out.flush()
}
