//! Sends the records of pages to a receiver over HTTP, in batches, each until the receiver has acknowledged it.
//!
//! A record has an id that never changes: the id of the crawl and the position of the record in its log. The position up
//! to which the receiver has the records is stored after each batch. A process that dies in between sends that batch
//! again, with the same ids, so a receiver that keeps one record for each id has every record exactly once.

mod control;
mod place;
mod receiver;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use argiope_core::crawl::rules::{Config, HeaderLine};
use argiope_core::crawl::schedule::keeper::Change;
use argiope_core::{StoreError, StoreErrorKind};
use argiope_store::disk::RecordLog;
use xxhash_rust::xxh3::xxh3_64;

use crate::export::has_change;
use crate::flags::config_file::UsageError;
use crate::flags::settings::PushFormat;
use crate::records::{self, ReadError};
use crate::wording;

pub use control::PushControl;
use place::{PlaceFile, ReceiverPlace};
use receiver::{ReceiverAnswer, RecordReceiver};

/// Maximum number of records in a batch.
const MAX_BATCH_RECORDS: usize = 500;
/// A batch ends with the record that makes it larger than this.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// How often a batch is sent before the receiver is given up on.
const MAX_TRIES: u32 = 10;
/// The wait before the second try; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait, unless the receiver demands another.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The longest wait that the receiver can demand.
const MAX_DEMANDED_WAIT: Duration = Duration::from_secs(300);

/// Sends the records of a crawl directory to a receiver.
pub struct Push {
    directory: PathBuf,
    receiver: RecordReceiver,
    format: PushFormat,
    /// Only pages with one of these changes; all if it is empty.
    changes: Vec<Change>,
    place: PlaceFile,
    /// Where this process continues to read the log; `None` before it has read it.
    next: Option<u64>,
    control: Arc<PushControl>,
}

/// Why not all records were sent.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The receiver did not take a record.
    #[error("{0}")]
    Receiver(String),
    /// The user has stopped the crawl while the receiver did not take records.
    #[error("stopped before the receiver took them")]
    Stopped,
}

impl From<StoreError> for PushError {
    fn from(error: StoreError) -> Self {
        Self::Read(error.into())
    }
}

/// Refuses a URL and settings with which nothing can be sent.
pub fn check(to: &str, format: PushFormat, headers: &[HeaderLine], crawl: &Config) -> Result<(), UsageError> {
    RecordReceiver::new(to, format, headers, crawl).map(drop)
}

fn hash_of(line: &[u8]) -> String {
    format!("{:016x}", xxh3_64(line))
}

/// A record and its position in the log.
type Entry = (u64, Vec<u8>);

impl Push {
    /// Prepares sending to a URL. `crawl` has the settings of the network.
    pub fn open(
        directory: &Path,
        to: &str,
        format: PushFormat,
        headers: &[HeaderLine],
        changes: &[Change],
        crawl: &Config,
    ) -> Result<Self, PushError> {
        let usage = |UsageError(why): UsageError| ReadError::Usage(why);
        let receiver = RecordReceiver::new(to, format, headers, crawl).map_err(usage)?;
        // With other changes, other records before the same position were left out.
        let key = hash_of(format!("{} {changes:?} {}", format.as_str(), receiver.url()).as_bytes());
        let shown = receiver.url().split(['?', '#']).next().unwrap_or_default().to_owned();
        let place = PlaceFile::open(directory, &shown, key)?;
        let (directory, changes) = (directory.to_owned(), changes.to_vec());
        Ok(Self { directory, receiver, format, changes, place, next: None, control: Arc::default() })
    }

    /// Stops and observes the sending from other threads.
    pub fn control(&self) -> Arc<PushControl> {
        Arc::clone(&self.control)
    }

    /// The receiver, as messages name it.
    pub fn name(&self) -> &str {
        &self.place.place.to
    }

    /// Sends the records that are committed now and that the receiver does not have.
    pub fn send_new(&mut self) -> Result<(), PushError> {
        let log = RecordLog::open(&self.directory)?;
        self.place.belongs_to(log.crawl());
        if self.next.is_none() && !self.has_last_sent(&log)? {
            self.place.restart();
        }
        let (from, after) = (self.next.unwrap_or(self.place.place.from), self.place.place.after);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let end = log.read(from, |position, line| {
            if position <= after || !self.is_sent(line)? {
                return Ok(());
            }
            bytes += line.len();
            batch.push((position, line.to_vec()));
            if batch.len() >= MAX_BATCH_RECORDS || bytes >= MAX_BATCH_BYTES {
                bytes = 0;
                self.deliver(&std::mem::take(&mut batch))?;
            }
            Ok::<(), PushError>(())
        })?;
        self.deliver(&batch)?;
        if self.place.place.after > after {
            // The last record that was sent is after this position, where the next process looks for it.
            self.place.place.from = from;
            self.place.save()?;
        }
        self.next = Some(end);
        Ok(())
    }

    /// Whether the last record that the receiver has is still in the log, or was removed by a compaction. It is not after
    /// a power cut that came before the record was durable: the resumed crawl has other records at these positions.
    fn has_last_sent(&self, log: &RecordLog) -> Result<bool, PushError> {
        let ReceiverPlace { from, after, check, .. } = &self.place.place;
        if *after == 0 || *after < log.first() {
            return Ok(true);
        }
        let mut is_found = false;
        let read = log.read(*from, |position, line| {
            is_found |= position == *after && hash_of(line) == *check;
            Ok::<(), StoreError>(())
        });
        match read {
            Ok(_) => Ok(is_found),
            // Reading cannot begin at this position any more. Real damage is found when the log is read from its beginning.
            Err(error) if error.kind == StoreErrorKind::Damaged => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a record is among those that are sent: the final outcome of a URL.
    fn is_sent(&self, line: &[u8]) -> Result<bool, PushError> {
        let record = records::read_lazily(line)?;
        Ok(record.is_page() && has_change(&record, &self.changes))
    }

    /// Sends records until the receiver has them. If they are too many for it, sends them in two parts.
    fn deliver(&mut self, entries: &[Entry]) -> Result<(), PushError> {
        let Some((last, line)) = entries.last() else { return Ok(()) };
        let mut tries = 0;
        loop {
            let answer = self.receiver.post(self.body(entries)).map_err(|UsageError(why)| ReadError::Usage(why))?;
            let (why, demanded) = match answer {
                ReceiverAnswer::Accepted => break,
                ReceiverAnswer::Refused(why) => return Err(PushError::Receiver(why)),
                ReceiverAnswer::TooLarge if entries.len() > 1 => {
                    let (first, second) = entries.split_at(entries.len() / 2);
                    self.deliver(first)?;
                    return self.deliver(second);
                }
                ReceiverAnswer::TooLarge => {
                    let size = entries.iter().map(|(_, line)| line.len()).sum::<usize>();
                    let why = format!("it answered 413 to a record of {size} bytes; let it accept larger bodies");
                    return Err(PushError::Receiver(why));
                }
                ReceiverAnswer::Later(why, demanded) => (why, demanded),
            };
            tries += 1;
            if tries >= MAX_TRIES {
                return Err(PushError::Receiver(format!(
                    "{why}; given up after {}",
                    wording::plural(u64::from(tries), "try")
                )));
            }
            let wait = FIRST_WAIT.saturating_mul(1 << (tries - 1)).min(MAX_WAIT);
            let demanded = demanded.unwrap_or_default().min(MAX_DEMANDED_WAIT);
            if !self.control.pause(wait.max(demanded)) {
                return Err(PushError::Stopped);
            }
        }
        (self.place.place.after, self.place.place.check) = (*last, hash_of(line));
        self.place.save()?;
        self.control.add_sent(entries.len() as u64);
        Ok(())
    }

    fn body(&self, entries: &[Entry]) -> Vec<u8> {
        let crawl = &self.place.place.crawl;
        let mut body = Vec::with_capacity(entries.iter().map(|(_, line)| line.len() + 64).sum());
        for (position, line) in entries {
            match self.format {
                // A record is an object with fields, so a comma follows.
                PushFormat::Ndjson => {
                    body.extend(format!("{{\"id\":\"{crawl}-{position}\",").bytes());
                    body.extend(line.strip_prefix(b"{").unwrap_or(line));
                }
                PushFormat::Bulk => {
                    body.extend(format!("{{\"index\":{{\"_id\":\"{crawl}-{position}\"}}}}\n").bytes());
                    body.extend(line);
                }
            }
            body.push(b'\n');
        }
        body
    }

    /// Sends records while a crawl runs, until [`PushControl::finish`] was called and the receiver has all of them.
    pub fn follow(mut self) -> Result<(), PushError> {
        loop {
            let work = self.control.next_work();
            self.send_new()?;
            self.control.has_sent_up_to(work.delivered);
            if work.is_last {
                return Ok(());
            }
        }
    }
}
