//! State that the threads of a fleet process share, and the channels between them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use argiope_core::crawl::lease::Lease;
use argiope_core::crawl::schedule::frontier::FrontierNews;
use argiope_core::crawl::warc::WarcLocation;
use argiope_core::{LinkList, StoreError, Time};

use super::client::{LeaseToken, TakenHost};
use super::codec::QueuedLink;
use super::host_note::WireNote;
use crate::segments::LinkOrigin;

/// State shared by the frontier and the lease, settle and recall threads.
pub struct Shared {
    /// The lease of this process, which may start requests until the lease ends.
    pub lease: Lease,
    /// The clock of the crawl.
    pub now: Box<dyn Fn() -> Time + Send + Sync>,
    outgoing: Mutex<Outgoing>,
    /// Notified when the settle thread has something to do.
    pub outgoing_changed: Condvar,
    /// Whether results cannot be stored at the moment. Meanwhile, no links are leased in advance, and no request starts.
    pub stalled: AtomicBool,
    /// Whether the session was closed or dropped.
    pub has_closed: AtomicBool,
    /// Pages that this process has fetched.
    pub pages: AtomicU64,
    /// Received bytes of the links that this process has settled; counted only with a byte limit.
    pub settled_bytes: AtomicU64,
    /// Records that the settle thread has and that are not settled, for `fleet status`.
    pub unsettled: AtomicU64,
    /// Why results cannot be stored, for `fleet status`.
    stall: Mutex<Option<String>>,
    /// Hosts in back-off, and when it ends.
    backoffs: Mutex<BTreeMap<Box<str>, Time>>,
    /// Events that the frontier has not taken yet.
    events: Mutex<Vec<LeaseEvent>>,
    /// Wakes the keeper.
    waker: Mutex<Option<Box<dyn Fn() + Send>>>,
    /// The queue of the lease thread.
    to_leases: Mutex<Sender<LeaseCommand>>,
    /// Called with messages for the user.
    notice: Box<dyn Fn(&str) + Send + Sync>,
}

/// Work that the keeper left for the settle thread.
#[derive(Default)]
pub struct Outgoing {
    /// Found links, by bucket.
    pub links: HashMap<u32, Vec<QueuedLink>>,
    pub settled: Vec<SettledRecord>,
    /// Notes about hosts, in the order in which they were made.
    pub notes: Vec<OutgoingNote>,
    /// Leased links whose requests are about to be sent or have failed, by bucket and epoch.
    pub marks: Vec<(LeaseToken, QueuedLink)>,
    /// Write and settle everything immediately.
    pub flush: bool,
    /// Like `flush`, then end.
    pub close: bool,
    /// Discard everything, then end.
    pub abandon: bool,
}

impl Outgoing {
    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.settled.is_empty() && self.marks.is_empty() && self.notes.is_empty()
    }
}

/// A note about a host, for the next owner of its bucket and for the results.
pub struct OutgoingNote {
    pub token: LeaseToken,
    pub note: WireNote,
    /// When the wait of the note ends.
    pub until: Time,
    /// The note with the times of this process: an encoded `LaneNote`.
    pub text: Vec<u8>,
}

/// A record, and the link that it settles.
pub struct SettledRecord {
    pub bucket: u32,
    pub epoch: u64,
    /// `None` for a robots.txt, which is not a link of the frontier.
    pub fingerprint: Option<u64>,
    /// Whether the link counts towards the page limit.
    pub is_page: bool,
    /// Bytes received, if the crawl has a byte limit.
    pub received: u64,
    /// Facts about the link that the record does not contain.
    pub origin: Option<LinkOrigin>,
    /// The record with its line feed.
    pub line: Vec<u8>,
    /// The links of its page.
    pub links: Option<PageLinks>,
    /// The archived exchange that the record refers to.
    pub archive: Option<ArchivedExchange>,
}

impl SettledRecord {
    /// Approximate memory use.
    pub fn bytes(&self) -> usize {
        let links = self.links.as_ref().map_or(0, |links| links.links.bytes());
        self.line.len() + links + self.archive.as_ref().map_or(0, |archive| archive.bytes.len())
    }
}

/// The links of a page or of a sitemap, until they are encoded.
pub struct PageLinks {
    pub source: Box<str>,
    pub is_sitemap: bool,
    /// How many links were dropped because of a limit.
    pub cut: u32,
    pub links: LinkList,
}

/// The WARC records of an exchange (the response is the last one), and the position of the response as the page's
/// record states it.
pub struct ArchivedExchange {
    pub place: WarcLocation,
    pub bytes: Vec<u8>,
}

/// Events from the lease, settle and recall threads to the frontier.
pub enum LeaseEvent {
    /// A bucket was leased.
    Acquired {
        bucket: u32,
        epoch: u64,
    },
    /// Links of a host were leased in advance.
    Taken {
        bucket: u32,
        epoch: u64,
        host: TakenHost,
        /// When the store's reply arrived.
        at: Time,
        /// In a recrawl, the record of each link in the previous round. Empty if all links are new.
        earlier: Vec<Option<Box<[u8]>>>,
    },
    /// This number of marked links and notes is replicated.
    Marked(u64),
    /// A bucket is to be released when its links in progress are settled.
    Leaving {
        bucket: u32,
    },
    /// This number of records of a bucket was settled.
    Settled {
        bucket: u32,
        count: u64,
    },
    Totals(FleetTotals),
    /// This process's share of the limit on pages per second; `None` if there is no limit any more.
    Rate(Option<f64>),
    /// This process's share of the limit on requests in flight to one IP address.
    PerIp(usize),
    /// This process may receive this many bytes in total, counted since it joined.
    MaxReceived(u64),
    /// The crawl is over. The news names the limit that ended it, if one did.
    Over(Option<FrontierNews>),
    /// The lease is lost, and why.
    Lost(String),
    /// Results cannot be stored.
    Failed(StoreError),
}

/// The totals of the fleet at the last survey.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetTotals {
    pub known: u64,
    pub queued: u64,
    pub leased: u64,
    pub settled: u64,
    pub processes: u64,
}

/// Commands to the lease thread.
pub enum LeaseCommand {
    /// The keeper took this number of links of a host.
    Consumed { bucket: u32, host: Box<str>, count: usize },
    /// A host of a bucket has work, or has none any more.
    Busy { bucket: u32, is_busy: bool },
    /// After a put, this number of links is queued in a bucket.
    Queued { bucket: u32, queued: u64 },
    /// No link of this bucket is in progress or unsettled any more.
    Release { bucket: u32 },
    /// Release all buckets, then end.
    Close,
    /// End without notifying the store.
    Abandon,
}

impl Shared {
    pub fn new(
        now: Box<dyn Fn() -> Time + Send + Sync>,
        lease: Lease,
        to_leases: Sender<LeaseCommand>,
        notice: Box<dyn Fn(&str) + Send + Sync>,
    ) -> Arc<Self> {
        Arc::new(Self {
            lease,
            now,
            outgoing: Mutex::default(),
            outgoing_changed: Condvar::new(),
            stalled: AtomicBool::new(false),
            has_closed: AtomicBool::new(false),
            pages: AtomicU64::new(0),
            settled_bytes: AtomicU64::new(0),
            unsettled: AtomicU64::new(0),
            stall: Mutex::default(),
            backoffs: Mutex::default(),
            events: Mutex::default(),
            waker: Mutex::default(),
            to_leases: Mutex::new(to_leases),
            notice,
        })
    }

    pub fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets why results cannot be stored; `None` if they can be stored again. Wakes the keeper if that changes whether
    /// requests may start.
    pub fn set_stall(&self, why: Option<String>) {
        let was_stalled = self.stalled.swap(why.is_some(), Ordering::AcqRel);
        let is_stalled = why.is_some();
        *self.stall.lock().unwrap_or_else(PoisonError::into_inner) = why;
        if was_stalled != is_stalled {
            self.wake();
        }
    }

    /// Wakes the keeper.
    fn wake(&self) {
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker();
        }
    }

    /// Why results cannot be stored, if so.
    pub fn stall(&self) -> Option<String> {
        self.stall.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets when the back-off of a host ends.
    pub fn set_backoff(&self, host: &str, until: Time) {
        self.backoffs.lock().unwrap_or_else(PoisonError::into_inner).insert(host.into(), until);
    }

    /// The number of hosts in back-off, and the host whose back-off ends last with its remaining milliseconds.
    pub fn hosts_in_backoff(&self) -> (usize, Option<(String, u64)>) {
        let now = (self.now)();
        let mut backoffs = self.backoffs.lock().unwrap_or_else(PoisonError::into_inner);
        backoffs.retain(|_, until| *until > now);
        let longest = backoffs.iter().max_by_key(|(_, until)| **until);
        let longest = longest.map(|(host, until)| (host.to_string(), (*until - now).as_millis() as u64));
        (backoffs.len(), longest)
    }

    /// Whether this process is ending its session.
    pub fn is_ending(&self) -> bool {
        let outgoing = self.outgoing();
        outgoing.close || outgoing.abandon || self.has_closed.load(Ordering::Acquire)
    }

    /// Sends a command to the lease thread.
    pub fn send_command(&self, command: LeaseCommand) {
        // This fails only if the thread has ended.
        let _ = self.to_leases.lock().unwrap_or_else(PoisonError::into_inner).send(command);
    }

    /// Sends an event to the frontier, and wakes the keeper.
    pub fn send_event(&self, event: LeaseEvent) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        self.wake();
    }

    /// Passes a message to the user.
    pub fn notify_user(&self, message: &str) {
        (self.notice)(message);
    }

    pub fn take_events(&self) -> Vec<LeaseEvent> {
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn set_waker(&self, waker: Box<dyn Fn() + Send>) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    /// Whether the lease of this process has expired.
    pub fn has_lease_ended(&self) -> bool {
        self.lease.has_ended((self.now)())
    }
}
