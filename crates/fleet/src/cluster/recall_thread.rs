//! The thread that adds to each leased link its record of the previous round. It runs only in a recrawl, between the
//! lease thread and the keeper.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use argiope_core::Time;

use super::client::TakenHost;
use super::shared::{LeaseEvent, Shared};
use crate::segments::{EarlierPlace, SegmentStore};

/// Maximum size of the cache of groups, in bytes. A group is a part of a segment: the records that were settled
/// together (see `segments`).
const CACHE_BYTES: usize = 32 << 20;
/// No more groups are read for the links of a host when those read for it have this size. The store chooses which
/// groups the links refer to; those of a fleet have a few megabytes.
const MAX_HOST_BYTES: usize = 256 << 20;
/// How many groups are read in parallel, because object storage has a high latency.
const PARALLEL_READS: usize = 8;
/// Time between two attempts to read a group.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A group of records: the index of its segment, its offset and its length.
type GroupKey = (u32, u64, u64);

/// Leased links of a host that are sent to the keeper.
pub struct TakenLinks {
    pub bucket: u32,
    pub epoch: u64,
    pub host: TakenHost,
    /// When the store's reply arrived.
    pub at: Time,
}

/// The state of the recall thread: a FIFO cache of groups.
pub struct RecallThread {
    shared: Arc<Shared>,
    results: SegmentStore,
    /// The names of the segments of the previous round. Empty until a link refers to one.
    segments: Vec<String>,
    /// The cached groups: their records, one per line.
    groups: HashMap<GroupKey, Arc<Vec<u8>>>,
    /// The keys of `groups`, in the order in which they were read. The oldest is evicted first.
    order: VecDeque<GroupKey>,
    /// Size of all cached groups.
    bytes: usize,
}

impl RecallThread {
    pub fn new(shared: Arc<Shared>, results: SegmentStore) -> Self {
        let (groups, order) = (HashMap::new(), VecDeque::new());
        Self { shared, results, segments: Vec::new(), groups, order, bytes: 0 }
    }

    /// The loop of the thread: passes each host's links on, together with their earlier records.
    pub fn run(mut self, incoming: &Receiver<TakenLinks>) {
        let mut has_warned = false;
        for TakenLinks { bucket, epoch, host, at } in incoming {
            let earlier = loop {
                match self.recall(&host, MAX_HOST_BYTES) {
                    Ok(earlier) => break earlier,
                    Err(error) => {
                        if !std::mem::replace(&mut has_warned, true) {
                            self.shared.notify_user(&format!("records of the previous round cannot be read: {error}"));
                        }
                        // The links stay unsettled, so another process will lease them.
                        if self.shared.has_lease_ended() || self.shared.is_ending() {
                            return;
                        }
                        std::thread::sleep(RETRY_PAUSE);
                    }
                }
            };
            has_warned = false;
            self.shared.send_event(LeaseEvent::Taken { bucket, epoch, host, at, earlier });
        }
    }

    /// The earlier record of each link, in order; `None` for a new link. Empty if all links are new. If the groups have
    /// more than `limit` bytes, the links of the rest count as new.
    fn recall(&mut self, host: &TakenHost, limit: usize) -> io::Result<Vec<Option<Box<[u8]>>>> {
        let places = host.links.iter().map(|taken| taken.earlier);
        if places.clone().all(|place| place.is_none()) {
            return Ok(Vec::new());
        }
        if self.segments.is_empty() {
            self.segments = self.results.earlier_segments()?;
        }
        let key = |place: EarlierPlace| (place.segment, place.offset, place.length);
        let mut missing: Vec<GroupKey> =
            places.clone().flatten().map(key).filter(|key| !self.groups.contains_key(key)).collect();
        missing.sort_unstable();
        missing.dedup();
        // Evict before reading, not while reading: all groups of this host are needed below.
        self.evict();
        let mut read_bytes = 0;
        for chunk in missing.chunks(PARALLEL_READS) {
            if read_bytes > limit {
                break;
            }
            for (key, lines) in chunk.iter().zip(self.read(chunk)) {
                let lines = lines?;
                read_bytes += lines.len();
                self.bytes += lines.len();
                self.groups.insert(*key, Arc::new(lines));
                self.order.push_back(*key);
            }
        }
        let line_of = |place: EarlierPlace| {
            let lines = self.groups.get(&key(place))?;
            lines.split(|byte| *byte == b'\n').nth(place.line as usize).map(Box::from)
        };
        Ok(places.map(|place| place.and_then(line_of)).collect())
    }

    /// Reads groups in parallel.
    fn read(&self, groups: &[GroupKey]) -> Vec<io::Result<Vec<u8>>> {
        let read = |(segment, offset, length): GroupKey| {
            let name = self.segments.get(segment as usize);
            let name = name.ok_or_else(|| io::Error::other("a link refers to a segment that does not exist"))?;
            self.results.group_lines(name, offset, length)
        };
        if let [group] = groups {
            return vec![read(*group)];
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = groups.iter().map(|group| scope.spawn(move || read(*group))).collect();
            let panicked = || Err(io::Error::other("a read failed"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
        })
    }

    /// Evicts the oldest groups until the cache is within its limit.
    fn evict(&mut self) {
        while self.bytes > CACHE_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.groups.remove(&oldest).map_or(0, |lines| lines.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::host_note::HostNews;
    use super::*;
    use crate::cluster::codec::TakenLink;
    use crate::segments::SegmentGroup;
    use argiope_core::crawl::lease::Lease;
    use argiope_core::{Link, Time, Url};
    use std::sync::mpsc::channel;

    /// As many groups as three parallel reads have.
    const GROUPS: u64 = 3 * PARALLEL_READS as u64;

    #[test]
    fn the_groups_of_a_host_are_read_up_to_a_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = SegmentStore::create(folder.path(), 1, "{}").expect("created");
        let group = |sequence| SegmentGroup {
            bucket: 1,
            epoch: 1,
            sequence,
            lines: format!("{sequence:099}\n").into_bytes(),
            ..SegmentGroup::default()
        };
        first.write("me", "one", &(1..=GROUPS).map(group).collect::<Vec<_>>()).expect("written");
        first.write_positions("one", &[(1, 1, "me".into(), GROUPS)]).expect("written");
        let second = SegmentStore::create(folder.path(), 2, "{}").expect("created");
        let mut links = Vec::new();
        let names = second.earlier_segments().expect("read");
        let add = |record: crate::segments::PlacedRecord<'_>| {
            let link = Link::root(Url::parse("http://h.example/").expect("a URL"), 0);
            links.push(TakenLink { link, earlier: Some(record.place) });
            Ok(())
        };
        first.placed_records(&names, add).expect("read");
        let host = TakenHost { host: "h.example".into(), left: 0, news: HostNews::default(), links };
        let recalled = |limit| {
            let shared = Shared::new(Box::new(|| Time::ZERO), Lease::until(Time::NEVER), channel().0, Box::new(|_| ()));
            let earlier = RecallThread::new(shared, second.clone()).recall(&host, limit).expect("recalled");
            assert_eq!(earlier.len() as u64, GROUPS);
            earlier.iter().flatten().count()
        };
        assert_eq!(recalled(MAX_HOST_BYTES) as u64, GROUPS);
        assert_eq!(recalled(PARALLEL_READS * 100), 2 * PARALLEL_READS);
        assert_eq!(recalled(0), PARALLEL_READS);
    }
}
