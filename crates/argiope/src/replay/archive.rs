//! [`Archive`]: the files of a web archive, and the records in them.
//!
//! Invariant: what a file says about lengths is not trusted. No more than [`MAX_BLOCK`] of a record is held.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use argiope_core::Truncated;
use argiope_core::base::custom_request::Method;
use argiope_core::crawl::warc::{WarcHeader, WarcTimes};
use flate2::bufread::GzDecoder;

/// Limit on the header of a record.
const MAX_HEADER: u64 = 64 << 10;
/// Limit on the bytes that are read of a block.
const MAX_BLOCK: u64 = 1 << 30;
/// Limit on the bytes that are read of a request, for its method.
const MAX_METHOD: u64 = 32;
/// What ends a record.
const RECORD_END: &[u8] = b"\r\n\r\n";

/// The files of an archive.
#[derive(Debug)]
pub(super) struct Archive {
    files: Vec<PathBuf>,
    /// The file that was read last.
    open: Option<(usize, BufReader<File>)>,
}

/// Where a record begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordPlace {
    file: usize,
    offset: u64,
}

/// What a record with a response contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordedKind {
    /// Head and body.
    Response,
    /// A head. The body is that of another record.
    SamePayload,
    /// The head of a 304. The page is in another record.
    NotModified,
}

/// A record with a response.
#[derive(Debug)]
pub(super) struct Recorded {
    pub kind: RecordedKind,
    pub place: RecordPlace,
    pub url: Box<str>,
    /// When it was requested.
    pub date: Box<str>,
    pub method: Method,
    pub ip: Option<IpAddr>,
    pub times: WarcTimes,
    pub truncated: Option<Truncated>,
    /// URL and date of the record with the body.
    pub refers_to: Option<(Box<str>, Box<str>)>,
    /// The id of the record.
    id: Box<str>,
}

impl Recorded {
    /// URL and date, by which other records refer to this one.
    pub fn name(&self) -> (Box<str>, Box<str>) {
        (self.url.clone(), self.date.clone())
    }

    /// Reads the header of a record. `None` if the record has no response.
    fn of(header: &WarcHeader, place: RecordPlace) -> Option<Self> {
        let kind = match header.field("WARC-Type")? {
            "response" => RecordedKind::Response,
            "revisit" if header.field("WARC-Profile")?.ends_with("/server-not-modified") => RecordedKind::NotModified,
            "revisit" => RecordedKind::SamePayload,
            _ => return None,
        };
        let is_http = header.field("Content-Type").is_none_or(|kind| kind.starts_with("application/http"));
        let url = header.uri_field("WARC-Target-URI").filter(|_| is_http)?.into();
        let refers_to = header.uri_field("WARC-Refers-To-Target-URI").zip(header.field("WARC-Refers-To-Date"));
        let truncated = match header.field("WARC-Truncated") {
            // A revisit always has this field, because it has no body.
            _ if kind != RecordedKind::Response => None,
            Some("length") => Some(Truncated::Length),
            Some("time") => Some(Truncated::Time),
            Some("disconnect") => Some(Truncated::Disconnect),
            _ => None,
        };
        Some(Self {
            kind,
            place,
            url,
            date: header.field("WARC-Date").unwrap_or_default().into(),
            method: Method::Get,
            ip: header.field("WARC-IP-Address").and_then(|ip| ip.parse().ok()),
            times: header.times().unwrap_or_default(),
            truncated,
            refers_to: refers_to.map(|(url, date)| (url.into(), date.into())),
            id: header.uri_field("WARC-Record-ID").unwrap_or_default().into(),
        })
    }
}

impl Archive {
    /// The files at this path, in the order of their names.
    pub fn open(path: &Path) -> io::Result<Self> {
        if !path.is_dir() {
            return Ok(Self { files: vec![path.to_owned()], open: None });
        }
        let in_directory = path.join("archive");
        let folder = if in_directory.is_dir() { &in_directory } else { path };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name();
            let is_warc = |name: &str| [".warc", ".warc.gz", ".warc.zst"].iter().any(|end| name.ends_with(end));
            if name.to_str().is_some_and(is_warc) {
                files.push(folder.join(name));
            }
        }
        if files.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the folder has no WARC file"));
        }
        files.sort();
        Ok(Self { files, open: None })
    }

    /// Reads all files, and lists their responses in order.
    pub fn index(&mut self) -> io::Result<Vec<Recorded>> {
        let (mut found, mut methods) = (Vec::new(), HashMap::new());
        for file in 0..self.files.len() {
            let reader = self.reader_at(RecordPlace { file, offset: 0 })?;
            loop {
                let place = RecordPlace { file, offset: reader.stream_position()? };
                if reader.fill_buf()?.is_empty() {
                    break;
                }
                // A file that is still written, or that was cut, ends with a part of a record.
                let Some(mut record) = unless_cut(Record::read(reader))? else { break };
                if record.header.field("WARC-Type") == Some("request") {
                    let response = record.header.uri_field("WARC-Concurrent-To").map(Box::<str>::from);
                    let method = method_of(&record.block(MAX_METHOD)?);
                    methods.extend(response.zip(method).filter(|(_, method)| *method != Method::Get));
                }
                let recorded = Recorded::of(&record.header, place);
                if unless_cut(record.skip_rest())?.is_none() {
                    break;
                }
                found.extend(recorded);
            }
        }
        for recorded in &mut found {
            recorded.method = methods.get(&recorded.id).copied().unwrap_or_default();
        }
        Ok(found)
    }

    /// The block of a record.
    pub fn block(&mut self, place: RecordPlace) -> io::Result<Vec<u8>> {
        Record::read(self.reader_at(place)?)?.block(MAX_BLOCK)
    }

    fn reader_at(&mut self, place: RecordPlace) -> io::Result<&mut BufReader<File>> {
        if self.open.as_ref().is_none_or(|(file, _)| *file != place.file) {
            let path = self.files.get(place.file).ok_or(io::ErrorKind::NotFound)?;
            self.open = Some((place.file, BufReader::new(File::open(path)?)));
        }
        let (_, reader) = self.open.as_mut().ok_or(io::ErrorKind::NotFound)?;
        reader.seek(SeekFrom::Start(place.offset))?;
        Ok(reader)
    }
}

/// The method of a request.
fn method_of(request: &[u8]) -> Option<Method> {
    let name = request.split(|byte| *byte == b' ').next()?;
    Method::ALL.into_iter().find(|method| method.as_str().as_bytes() == name)
}

/// A record that is being read.
struct Record<'a> {
    header: WarcHeader,
    content: Box<dyn BufRead + 'a>,
    /// How many bytes of the block are not read.
    left: u64,
    /// Whether other records may follow in `content`.
    is_plain: bool,
}

impl<'a> Record<'a> {
    /// Reads the header of the record at the position of the reader.
    fn read(file: &'a mut BufReader<File>) -> io::Result<Self> {
        let start = file.fill_buf()?;
        let is_plain = start.starts_with(b"WARC/");
        let is_zstd = start.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]);
        let mut content: Box<dyn BufRead + 'a> = if is_plain {
            Box::new(file)
        } else if is_zstd {
            Box::new(BufReader::new(zstd::stream::read::Decoder::with_buffer(file)?.single_frame()))
        } else {
            Box::new(BufReader::new(GzDecoder::new(file)))
        };
        let mut header = Vec::new();
        let mut lines = content.by_ref().take(MAX_HEADER);
        while !header.ends_with(RECORD_END) {
            if lines.read_until(b'\n', &mut header)? == 0 {
                return Err(not_a_record());
            }
        }
        let header = WarcHeader::parse(&header).ok_or_else(not_a_record)?;
        let left = header.length();
        Ok(Self { header, content, left, is_plain })
    }

    /// The block, or what is left of it, up to a limit.
    fn block(&mut self, limit: u64) -> io::Result<Vec<u8>> {
        let mut block = Vec::new();
        let read = self.content.by_ref().take(self.left.min(limit)).read_to_end(&mut block)?;
        self.left -= read as u64;
        Ok(block)
    }

    /// Reads to the end of the record.
    fn skip_rest(mut self) -> io::Result<()> {
        let skipped = io::copy(&mut self.content.by_ref().take(self.left), &mut io::sink())?;
        let end_length = RECORD_END.len() as u64;
        let end_limit = if self.is_plain { end_length } else { end_length + 1 };
        let end = io::copy(&mut self.content.take(end_limit), &mut io::sink())?;
        if skipped < self.left {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a record is cut off"));
        }
        if end > end_length {
            return Err(io::Error::other("it is compressed as a whole, and not each record by itself"));
        }
        Ok(())
    }
}

/// `None` if the file ends too early.
fn unless_cut<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        read => read.map(Some),
    }
}

fn not_a_record() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not a WARC file, or it is damaged")
}
