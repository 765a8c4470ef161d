//! Reads pages from a crawl's archive. The code that decodes responses of a connection also decodes the archived ones.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::Arc;

use argiope_core::base::digest::BodyDigest;
use argiope_core::base::job::{Job, Purpose};
use argiope_core::crawl::response::WholeResponse;
use argiope_core::crawl::rules::{Config, Environment, ProgramSettings, Rules, Size};
use argiope_core::crawl::warc::{WarcHeader, WarcLocation, WarcPayload};
use argiope_core::page::reader::{DeliveredBodies, decode};
use argiope_core::{Link, StoreError, StoreErrorKind, Url};
use flate2::read::MultiGzDecoder;

use super::archive_files::ArchiveFiles;
use crate::records::{self, ANY_FINGERPRINT_KEY, ReadError, StoredRecord};
use crate::results::Results;

/// Maximum number of bytes read from a WARC record, both compressed and decompressed.
const MAX_RECORD_BYTES: u64 = 1 << 30;

/// A response from the archive, decoded.
pub struct ArchivedPage {
    pub url: Url,
    pub body: Vec<u8>,
    pub content_type: Option<Box<str>>,
    pub charset: Option<&'static str>,
    /// Whether this is the document that scripts made, and not the response.
    pub is_rendered: bool,
}

impl ArchivedPage {
    /// The body as text, in its charset.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        decode(&self.body, self.charset)
    }

    /// Whether the content type is HTML or XHTML.
    pub fn is_html(&self) -> bool {
        matches!(self.content_type.as_deref(), Some("text/html" | "application/xhtml+xml"))
    }
}

/// The archive of a crawl directory.
pub struct ArchivedPages {
    results: Results,
    files: ArchiveFiles,
    rules: Arc<Rules>,
    /// By digest: the first WARC record with this body. Built when the first revisit record is read, which has no body.
    originals: Option<HashMap<BodyDigest, WarcLocation>>,
}

impl ArchivedPages {
    /// Opens the archive. An error if the crawl has none.
    pub fn open(results: &Results) -> Result<Self, ReadError> {
        let files = ArchiveFiles::new(results.location());
        if files.is_empty()? {
            results.check()?;
            let why = "has no archive, which this format needs; run the same crawl command with --recrawl --warc";
            return Err(ReadError::Usage(format!("{} {why}", results.location().display())));
        }
        // The crawl rules limit the size of bodies. They need a root, which is never requested.
        let config =
            Config { roots: vec!["http://localhost/".into()], max_size: Size(MAX_RECORD_BYTES), ..Config::default() };
        let environment = Environment { fingerprint_key: ANY_FINGERPRINT_KEY, ..Environment::default() };
        let program = ProgramSettings { delivered_bodies: DeliveredBodies::All, ..ProgramSettings::default() };
        let rules = config.compile_in(environment, program).map_err(|error| ReadError::Refused(error.to_string()))?;
        Ok(Self { results: results.clone(), files, rules: Arc::new(rules), originals: None })
    }

    /// The page of a record. `None` if the archive does not contain it.
    pub fn page(&mut self, record: &StoredRecord) -> Result<Option<ArchivedPage>, ReadError> {
        let (Some(location), Ok(url)) = (&record.warc, Url::parse(&record.url)) else { return Ok(None) };
        // The last location is that of the body.
        let body = own_and_body_locations(location).next_back().unwrap_or_else(|| (**location).clone());
        let mut block = self.block(&body)?;
        if block.is_revisit {
            let Some(original) = self.original(record)? else { return Ok(None) };
            block = self.block(&original)?;
        }
        Ok(self.decode_response(&url, &block.response))
    }

    /// The page of a record as its scripts made it, if it was rendered; otherwise the response. `None` if the archive
    /// contains neither.
    pub fn shown_page(&mut self, record: &StoredRecord) -> Result<Option<ArchivedPage>, ReadError> {
        let document = record.warc.as_ref().and_then(|location| location.rendered_document());
        let (Some(location), Ok(url)) = (document, Url::parse(&record.url)) else { return self.page(record) };
        let body = self.block(&location)?.response;
        let (content_type, charset) = (Some("text/html".into()), Some("utf-8"));
        Ok(Some(ArchivedPage { url, body, content_type, charset, is_rendered: true }))
    }

    /// The picture of the page of a record, as PNG.
    pub fn screenshot(&mut self, record: &StoredRecord) -> Result<Option<Vec<u8>>, ReadError> {
        let Some(location) = record.warc.as_ref().and_then(|location| location.screenshot()) else { return Ok(None) };
        Ok(Some(self.block(&location)?.response))
    }

    /// The location of the first WARC record with the same body as this record.
    fn original(&mut self, record: &StoredRecord) -> Result<Option<WarcLocation>, ReadError> {
        if self.originals.is_none() {
            let mut originals: HashMap<BodyDigest, WarcLocation> = HashMap::new();
            self.results.lines(|line| {
                let record = records::read(line)?;
                if let (Some(digest), Some(location)) = (record.digest, record.warc) {
                    originals.entry(digest).or_insert(location.into_owned());
                }
                Ok(())
            })?;
            self.originals = Some(originals);
        }
        let digest = record.digest.as_ref();
        Ok(digest.and_then(|digest| self.originals.as_ref()?.get(digest).cloned()))
    }

    /// Reads a WARC record.
    fn block(&mut self, location: &WarcLocation) -> Result<Block, ReadError> {
        let member = self.files.read(&location.file, location.offset, location.length.min(MAX_RECORD_BYTES))?;
        Ok(read_block(&member, location).map_err(|error| {
            StoreError::new(StoreErrorKind::File, format!("{} cannot be read: {error}", location.file))
        })?)
    }

    /// Decodes an archived response. The job has no effect.
    fn decode_response(&self, url: &Url, response: &[u8]) -> Option<ArchivedPage> {
        let job = Job::detached(Link::root(url.clone(), 0), Purpose::Page, [IpAddr::from([127, 0, 0, 1])]);
        let (head, body) = (Vec::new(), response.to_vec());
        let visit = WholeResponse { head, body, ..WholeResponse::default() }.into_visit(job, &self.rules);
        let body = visit.body?;
        let content_type = visit.findings.content_type;
        let charset = visit.findings.charset;
        Some(ArchivedPage { url: url.clone(), body: body.bytes, content_type, charset, is_rendered: false })
    }
}

/// The WARC records that a page record refers to: its own, then the one with the body if that is another.
pub(super) fn own_and_body_locations(location: &WarcLocation) -> impl DoubleEndedIterator<Item = WarcLocation> {
    let WarcLocation { file, offset, length, payload, .. } = location;
    let own = WarcLocation::of_record(file.clone(), *offset, *length);
    let body = payload
        .as_deref()
        .map(|WarcPayload { file, offset, length, .. }| WarcLocation::of_record(file.clone(), *offset, *length));
    [Some(own), body].into_iter().flatten()
}

/// As [`own_and_body_locations`], then the rendered document and the picture, if there are any.
pub(super) fn all_locations(location: &WarcLocation) -> impl Iterator<Item = WarcLocation> {
    own_and_body_locations(location).chain(location.rendered_document()).chain(location.screenshot())
}

/// A reader of the decompressed record. `member` is the compressed record: a gzip member or a zstd frame, which differ in
/// their first bytes.
pub(super) fn decompress<'a>(member: &'a [u8]) -> io::Result<Box<dyn Read + 'a>> {
    const ZSTD_MAGIC: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
    if member.starts_with(ZSTD_MAGIC) {
        return Ok(Box::new(zstd::stream::read::Decoder::with_buffer(member)?.single_frame()));
    }
    Ok(Box::new(MultiGzDecoder::new(member)))
}

/// The content of a WARC record.
struct Block {
    /// Whether the record refers to an earlier one that has the body.
    is_revisit: bool,
    /// The HTTP response as received.
    response: Vec<u8>,
}

/// Decompresses a WARC record and splits its header from its content.
fn read_block(member: &[u8], location: &WarcLocation) -> io::Result<Block> {
    let mut record = Vec::new();
    decompress(member)?.take(MAX_RECORD_BYTES).read_to_end(&mut record)?;
    let not_found = || io::Error::other(format!("no record at byte {}", location.offset));
    let end = record.windows(4).position(|window| window == b"\r\n\r\n").ok_or_else(not_found)?;
    let header = WarcHeader::parse(record.get(..end).unwrap_or_default()).ok_or_else(not_found)?;
    let length = usize::try_from(header.length()).map_err(|_| not_found())?;
    let response = record.get(end + 4..).and_then(|rest| rest.get(..length)).ok_or_else(not_found)?;
    Ok(Block { is_revisit: header.field("WARC-Type") == Some("revisit"), response: response.to_vec() })
}
