//! [`ArchiveLayout`]: files and offsets of the archive, and the payloads it contains.

use hashbrown::HashMap;

use crate::base::budget::BudgetCharge;
use crate::base::digest::BodyDigest;
use crate::crawl::rules::{RobotsPolicy, Rules, WarcCompression};
use crate::crawl::warc::{WarcLocation, WarcPayload};

use super::read::TIMES_FIELD;
use super::record::{Sha1Sum, WarcId, WarcRecord, WarcType};
use super::{Payload, WarcExchange};

/// Limit on the payloads of one generation. There are two generations, so the last 50,000 to 100,000 payloads are known.
const MAX_PAYLOADS: usize = 50_000;

/// Bytes to append to a file of the archive.
#[derive(Debug)]
pub struct ArchiveChunk {
    /// The name of the file, relative to the crawl directory.
    pub file: Box<str>,
    pub bytes: Vec<u8>,
    /// Charges the bytes to the memory budget until the chunk is dropped.
    _charge: BudgetCharge,
}

/// Assigns every exchange its location in the archive.
///
/// The number of known payloads is bounded, and they are not stored across runs. So a payload that was last archived
/// long ago, or before an interruption, is written in full again. That costs only space.
#[derive(Debug)]
pub struct ArchiveLayout {
    /// The number of the current file; zero if there is none yet.
    number: u32,
    /// The compression of all records in the current file.
    compression: WarcCompression,
    /// The length of the current file.
    offset: u64,
    /// No record is added to a file of this size or more.
    file_size: u64,
    /// Whether the files are segments of a fleet. The store writes the `warcinfo` record of a segment.
    is_segmented: bool,
    /// The block of `warcinfo` records.
    about: String,
    payloads: Payloads,
}

impl ArchiveLayout {
    pub fn new(rules: &Rules) -> Self {
        Self {
            number: 0,
            compression: rules.archive_compression,
            offset: 0,
            file_size: rules.archive_size,
            is_segmented: rules.archive_segments,
            about: about(rules),
            payloads: Payloads::default(),
        }
    }

    /// Continues the archive of an earlier run. `outputs` are the output files of the crawl with their lengths.
    pub fn resume<'a>(&mut self, outputs: impl IntoIterator<Item = (&'a str, u64)>) {
        let numbered = outputs.into_iter().filter_map(|(name, length)| Some((file_number(name)?, length)));
        if let Some(((number, compression), offset)) = numbered.max_by_key(|((number, _), _)| *number) {
            (self.number, self.compression, self.offset) = (number, compression, offset);
        }
    }

    /// The file that this exchange begins; `None` if it continues the current file.
    pub fn next_file(&self, exchange: &WarcExchange) -> Option<String> {
        self.begins_file(exchange).then(|| file_name(self.number + 1, exchange.compression))
    }

    fn begins_file(&self, exchange: &WarcExchange) -> bool {
        self.number == 0 || self.offset >= self.file_size || self.compression != exchange.compression
    }

    /// Assigns the next location in the archive to this exchange. `unchanged` is the archived body of the page, if the
    /// response was a 304.
    pub fn place(&mut self, exchange: WarcExchange, unchanged: Option<WarcPayload>) -> (WarcLocation, ArchiveChunk) {
        if self.begins_file(&exchange) {
            self.number += 1;
            self.offset = 0;
            self.compression = exchange.compression;
        }
        let file = file_name(self.number, self.compression);
        let length = |record: &[u8]| (!record.is_empty()).then_some(record.len() as u64);
        let mut bytes = Vec::new();
        if self.offset == 0 && !self.is_segmented {
            bytes = warcinfo(&self.about, exchange.key, &exchange.date, &file, exchange.compression);
        }
        let is_unchanged = unchanged.is_some();
        let known = unchanged.or_else(|| self.payloads.original(&exchange).map(Original::payload));
        let response = match &known {
            Some(original) => revisit(&exchange, original, is_unchanged),
            None => exchange.response,
        };
        bytes.extend_from_slice(&exchange.request);
        let location = WarcLocation {
            file: file.clone(),
            offset: self.offset + bytes.len() as u64,
            length: response.len() as u64,
            payload: known.map(Box::new),
            rendered: length(&exchange.rendered),
            screenshot: length(&exchange.screenshot),
        };
        bytes.extend_from_slice(&response);
        bytes.extend_from_slice(&exchange.rendered);
        bytes.extend_from_slice(&exchange.screenshot);
        // A segment may still be discarded, so no other record may refer to it.
        if location.payload.is_none() && exchange.payload.is_referable && !self.is_segmented {
            let Self { number, compression, .. } = *self;
            let (offset, length) = (location.offset, location.length);
            let original = Original { url: exchange.url, date: exchange.date, number, compression, offset, length };
            self.payloads.insert(exchange.payload, original);
        }
        self.offset += bytes.len() as u64;
        (location, ArchiveChunk { file: file.into(), bytes, _charge: exchange.charge })
    }
}

/// The `warcinfo` record at the start of a segment of the archive.
pub fn segment_start(rules: &Rules, date: &str, file: &str) -> Vec<u8> {
    warcinfo(&about(rules), rules.fingerprint_key, date, file, rules.archive_compression)
}

/// The description of the crawl in `warcinfo` records.
fn about(rules: &Rules) -> String {
    let robots = match rules.robots {
        RobotsPolicy::Obey => "obey",
        RobotsPolicy::Ignore => "ignore",
    };
    format!(
        "software: argiope/{}\r\nformat: WARC File Format 1.1\r\n\
         conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n\
         robots: {robots}\r\nhttp-header-user-agent: {}\r\n",
        env!("CARGO_PKG_VERSION"),
        rules.user_agent,
    )
}

fn warcinfo(about: &str, key: u64, date: &str, file: &str, compression: WarcCompression) -> Vec<u8> {
    let id = WarcId::new(key, &["warcinfo", file, date]);
    let mut info = WarcRecord::new(WarcType::Warcinfo, id, date);
    info.add_field("WARC-Filename", file.rsplit('/').next().unwrap_or(file));
    info.compress("application/warc-fields", &[about.as_bytes()], compression)
}

/// A revisit record: the head of the response and a reference to the response that holds the body.
fn revisit(exchange: &WarcExchange, original: &WarcPayload, is_unchanged: bool) -> Vec<u8> {
    let mut record = WarcRecord::new(WarcType::Revisit, exchange.id, &exchange.date);
    record.add_target(&exchange.url, exchange.ip);
    record.add_protocol(exchange.is_http2);
    record.add_field(TIMES_FIELD, &exchange.times.to_string());
    if is_unchanged {
        record.add_field("WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/server-not-modified");
    } else {
        record.add_field("WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest");
        record.add_field("WARC-Payload-Digest", &exchange.payload.sum.to_string());
    }
    record.add_field("WARC-Refers-To", &WarcId::of_response(exchange.key, &original.url, &original.date).to_string());
    record.add_field("WARC-Refers-To-Target-URI", &original.url);
    record.add_field("WARC-Refers-To-Date", &original.date);
    if !is_unchanged {
        // Required by the profile: the block is a response without its payload.
        record.add_field("WARC-Truncated", "length");
    }
    record.compress("application/http; msgtype=response", &[&exchange.head], exchange.compression)
}

fn file_name(number: u32, compression: WarcCompression) -> String {
    format!("archive/{number:05}{}", suffix(compression))
}

fn suffix(compression: WarcCompression) -> &'static str {
    match compression {
        WarcCompression::Gzip => ".warc.gz",
        WarcCompression::Zstd => ".warc.zst",
    }
}

/// Number and compression of an archive file by its name; `None` for other files.
fn file_number(name: &str) -> Option<(u32, WarcCompression)> {
    let base = name.strip_prefix("archive/")?;
    WarcCompression::ALL.iter().find_map(|&compression| {
        let number = base.strip_suffix(suffix(compression))?.parse().ok()?;
        (file_name(number, compression) == name).then_some((number, compression))
    })
}

/// A response that revisit records refer to.
#[derive(Debug)]
struct Original {
    url: Box<str>,
    date: Box<str>,
    /// The number of its file.
    number: u32,
    compression: WarcCompression,
    offset: u64,
    length: u64,
}

impl Original {
    fn payload(&self) -> WarcPayload {
        let file = file_name(self.number, self.compression);
        WarcPayload {
            url: self.url.clone(),
            date: self.date.clone(),
            file,
            offset: self.offset,
            length: self.length,
            rendered: None,
            screenshot: None,
        }
    }
}

/// Recently archived payloads in two generations: when the recent one is full, it replaces the older one.
#[derive(Debug, Default)]
struct Payloads {
    recent: HashMap<Sha1Sum, (Payload, Original)>,
    older: HashMap<Sha1Sum, (Payload, Original)>,
}

impl Payloads {
    /// The archived response with the payload of this exchange.
    fn original(&self, exchange: &WarcExchange) -> Option<&Original> {
        // Other digests can be forged, and so can SHA-1.
        if !matches!(exchange.payload.digest, Some(BodyDigest::Sha256(_))) {
            return None;
        }
        let sum = &exchange.payload.sum;
        let (payload, original) = self.recent.get(sum).or_else(|| self.older.get(sum))?;
        (*payload == exchange.payload).then_some(original)
    }

    fn insert(&mut self, payload: Payload, original: Original) {
        if self.recent.len() >= MAX_PAYLOADS {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(payload.sum, (payload, original));
    }
}
