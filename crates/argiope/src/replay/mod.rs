//! [`Replay`]: answers the requests of a crawl from a web archive, with the recorded times.

mod archive;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use argiope_core::base::custom_request::Method;
use argiope_core::base::job::Job;
use argiope_core::base::time::WallClock;
use argiope_core::crawl::response::WholeResponse;
use argiope_core::crawl::transport::{Transport, placeholder_address};
use argiope_core::crawl::warc::WarcTimes;
use argiope_core::http::address::DnsResult;
use argiope_core::{ErrorKind, Failure, Time, Truncated, Url};

use self::archive::{Archive, RecordPlace, Recorded, RecordedKind};
use crate::Error;

/// How long an address stays valid.
const ADDRESS_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Answers the requests of a crawl from a web archive, for [`CrawlBuilder::with_transport`](crate::CrawlBuilder::with_transport).
///
/// The crawl runs in virtual time, which begins when the first response of the archive was recorded. Responses take the
/// time that they took then, if Argiope wrote the archive; those of other archives arrive at once. A URL that was
/// requested several times gets its responses in the order of the archive, and then the last one again. A URL that is
/// not in the archive has the status 404, and a host without a response in it does not exist.
///
/// Requests are recognised by method and URL. An archive has no bodies of requests, so the responses to several forms of
/// one URL are given in the order in which they were recorded.
///
/// ```no_run
/// # fn main() -> Result<(), argiope::Error> {
/// use argiope::{Crawl, Replay};
///
/// // The crawl was: argiope crawl https://example.com/ --warc -o example.crawl
/// let replay = Replay::from_warc("example.crawl")?;
/// let pages = Crawl::builder("https://example.com/").with_transport(replay).start_blocking()?;
/// for page in pages {
///     println!("{} {:?} {:?}", page.url(), page.title(), page.facts().timings.total);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Replay {
    archive: Archive,
    exchanges: HashMap<(Method, Box<str>), RecordedUrl>,
    /// The addresses of the hosts.
    hosts: HashMap<Box<str>, Vec<IpAddr>>,
    wall_clock: Option<WallClock>,
}

/// The responses to the requests for one URL.
#[derive(Debug, Default)]
struct RecordedUrl {
    responses: Vec<RecordedResponse>,
    /// How often the URL was requested.
    requests: usize,
}

/// Where a response is, and how it arrived.
#[derive(Debug)]
struct RecordedResponse {
    head: RecordPlace,
    /// The record with the body, if it is another one.
    body: Option<RecordPlace>,
    ip: Option<IpAddr>,
    times: WarcTimes,
    truncated: Option<Truncated>,
}

impl Replay {
    /// Opens an archive: a WARC file, a folder of such files, or a crawl directory that was made with `--warc`. The files
    /// may be compressed with gzip or zstd, each record by itself, as archives are. They are read once, and their
    /// responses again when they are requested. A record that is cut off at the end of a file is left out.
    ///
    /// # Errors
    ///
    /// A file cannot be read or is not a WARC file, or the archive has no response.
    pub fn from_warc(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let unreadable = |error: std::io::Error| Error::input_from(format!("{}: {error}", path.display()), error);
        let mut archive = Archive::open(path).map_err(unreadable)?;
        let recorded = archive.index().map_err(unreadable)?;
        let first_date =
            recorded.iter().filter_map(|entry| WallClock::starting_at(&entry.date)).map(|at| at.start).min();
        let wall_clock = first_date.map(|start| WallClock { start });
        let mut replay = Self { archive, exchanges: HashMap::new(), hosts: HashMap::new(), wall_clock };
        replay.add_all(recorded);
        if replay.exchanges.is_empty() {
            return Err(Error::input(format!("{}: the archive has no responses", path.display())));
        }
        Ok(replay)
    }

    /// The URLs with a response in the archive, in no particular order.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        let mut seen = HashSet::new();
        self.exchanges.keys().map(|(_, url)| &**url).filter(move |url| seen.insert(*url))
    }

    fn add_all(&mut self, recorded: Vec<Recorded>) {
        let response = |entry: &Recorded| entry.kind == RecordedKind::Response;
        let places: HashMap<(Box<str>, Box<str>), RecordPlace> =
            recorded.iter().filter(|entry| response(entry)).map(|entry| (entry.name(), entry.place)).collect();
        for entry in recorded {
            let Ok(url) = Url::parse(&entry.url) else { continue };
            let original = entry.refers_to.as_ref().and_then(|name| places.get(name)).copied();
            let (head, body) = match (entry.kind, original) {
                (RecordedKind::Response, _) => (entry.place, None),
                (RecordedKind::SamePayload, Some(original)) => (entry.place, Some(original)),
                // The crawl that is replayed need not have the page that was not modified.
                (RecordedKind::NotModified, Some(original)) => (original, None),
                // Without the record that has the body, there is no response.
                (RecordedKind::SamePayload | RecordedKind::NotModified, None) => continue,
            };
            let addresses = self.hosts.entry(url.host().into()).or_default();
            addresses.extend(entry.ip.filter(|ip| !addresses.contains(ip)));
            let Recorded { ip, times, truncated, method, .. } = entry;
            let response = RecordedResponse { head, body, ip, times, truncated };
            self.exchanges.entry((method, url.as_str().into())).or_default().responses.push(response);
        }
    }

    /// Reads a response from the archive.
    fn read(&mut self, method: Method, url: &str, now: Time) -> std::io::Result<Option<WholeResponse>> {
        let Some(exchange) = self.exchanges.get_mut(&(method, url.into())) else { return Ok(None) };
        exchange.requests += 1;
        let responses = &exchange.responses;
        let Some(recorded) = responses.get(exchange.requests - 1).or(responses.last()) else { return Ok(None) };
        let (head, mut body) = split(self.archive.block(recorded.head)?);
        if let Some(place) = recorded.body {
            body = split(self.archive.block(place)?).1;
        }
        let WarcTimes { first, end } = recorded.times;
        let (arrived, ended) = (now + first, now + end.max(first));
        Ok(Some(WholeResponse {
            head,
            body,
            truncated: recorded.truncated,
            ip: recorded.ip,
            started: now,
            arrived,
            ended,
        }))
    }
}

/// Splits a response after its head.
fn split(mut response: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let ends = [&b"\r\n\r\n"[..], b"\n\n"];
    let end = ends.iter().filter_map(|end| Some(memchr::memmem::find(&response, end)? + end.len())).min();
    let body = response.split_off(end.unwrap_or(response.len()));
    (response, body)
}

impl Transport for Replay {
    fn respond(&mut self, job: &Job, now: Time) -> Result<WholeResponse, (Failure, Duration)> {
        let method = job.link.request.as_ref().map_or(Method::Get, |request| request.method);
        match self.read(method, job.link.url.as_str(), now) {
            Ok(Some(response)) => Ok(response),
            Ok(None) => {
                let head = b"HTTP/1.1 404 Not in the archive\r\nContent-Length: 0\r\n\r\n".to_vec();
                Ok(WholeResponse { head, started: now, arrived: now, ended: now, ..WholeResponse::default() })
            }
            Err(error) => {
                let message = format!("the archive cannot be read: {error}");
                Err((Failure::new(ErrorKind::Reset, message), Duration::ZERO))
            }
        }
    }

    fn resolve(&self, host: &str) -> DnsResult {
        match self.hosts.get(host).map(Vec::as_slice) {
            None => Err(Failure::new(ErrorKind::DnsNxdomain, format!("the archive has no host {host}"))),
            Some([]) => Ok((vec![placeholder_address(host)], ADDRESS_LIFE)),
            Some(addresses) => Ok((addresses.to_vec(), ADDRESS_LIFE)),
        }
    }

    fn wall_clock(&self) -> WallClock {
        self.wall_clock.unwrap_or_default()
    }
}
