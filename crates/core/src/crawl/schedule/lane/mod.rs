//! [`Lane`]: the unit of politeness, one host name.
//!
//! A lane determines how many requests may be in flight to its host (`width`) and when the next one may start (`due`),
//! from the state of pace and back-off. It holds the part of the host's queue that is on the workbench, the host's
//! addresses, and the robots rules of each of its origins.
//!
//! Invariant: `in_flight <= width` whenever a job is handed out, and no job starts before `due`.

mod measured;
mod pace;
mod rate;
mod site_queue;
mod width;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::base::job::{LaneHttp, Purpose};
use crate::base::link::Link;
use crate::base::outcome::{Failure, Outcome};
use crate::base::time::Time;
use crate::base::url::{Origin, Url};
use crate::crawl::rules::{HttpVersion, Rules};
use crate::crawl::visit::Visit;
use crate::page::robots::Robots;

pub use self::measured::Measured;
pub use self::pace::{Flight, LanePace, LoadSignal};
pub use self::site_queue::SiteQueue;
pub use self::width::page_kind;

/// Limit on the origins of one host (schemes and ports) whose robots.txt is held. A host that needs more is likely a
/// trap.
pub const MAX_ORIGINS: usize = 64;
/// A robots.txt is cached for a day (RFC 9309, 2.4).
pub const ROBOTS_LIFE: Duration = Duration::from_secs(24 * 3600);

/// A request that holds its slot for longer than this is slow. When slots are scarce, its lane gets no further slot.
const SLOW_SLOT: Duration = Duration::from_secs(2);

/// One host name and the state that politeness needs.
#[derive(Debug)]
pub struct Lane {
    pub name: Arc<str>,
    /// Links on the workbench, breadth first.
    pub queue: VecDeque<Link>,
    /// Links that wait for another attempt, earliest first.
    pub retries: BinaryHeap<Reverse<PendingRetry>>,
    /// What is requested before pages: parts of rendered pages, and robots.txt files at the user's request or as targets
    /// of redirects.
    pub site_files: SiteQueue,
    /// How many more links the frontier holds for this lane.
    pub backlog: u64,
    pub addresses: Addresses,
    pub robots: Vec<(Origin, RobotsState)>,
    pub pace: LanePace,
    /// The HTTP version of the host's origins, except those in `http1_ports`.
    pub http: LaneHttp,
    /// Ports of the HTTPS origins that require HTTP/1.1, or that use it although other origins of the host use HTTP/2.
    /// Empty for nearly all hosts.
    http1_ports: Box<[(u16, Http1Reason)]>,
    /// How many concurrent requests the host's HTTP/2 connection accepts.
    max_streams: u32,
    slots: Slots,
}

/// Why an origin uses HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Http1Reason {
    /// The handshake selected HTTP/1.1. HTTP/2 is offered on new connections.
    Negotiated,
    /// The origin requires it. HTTP/2 is not offered again.
    Required,
}

/// A link that waits for its next attempt.
#[derive(Debug)]
pub struct PendingRetry {
    pub due: Time,
    /// A sequence number. It orders retries that are due at the same time.
    pub seq: u64,
    pub link: Link,
    pub purpose: Purpose,
}

/// The state of the host's addresses.
#[derive(Debug)]
pub enum Addresses {
    Unknown,
    /// A DNS lookup is in progress since this time. `tries` counts the lookups that failed before it.
    Resolving {
        since: Time,
        tries: u8,
    },
    /// The addresses are known, and valid until `until`. The first job after the lookup may use them even if they have
    /// expired. Otherwise a lane that waits long for a free slot would repeat the lookup. `took` is the duration of the
    /// lookup. The first job reports it, and then it is unknown.
    Known {
        list: Arc<[IpAddr]>,
        until: Time,
        took: Measured,
    },
    /// The lookup failed with a transient error. It is repeated at this time. `tries` counts the failed lookups.
    RetryAt {
        at: Time,
        tries: u8,
    },
    /// The host was given up, because its name cannot be resolved or it never responds. Until `until`, its links end
    /// with this failure.
    Failed {
        failure: Failure,
        tries: u8,
        until: Time,
    },
}

/// The state of one origin's robots.txt.
#[derive(Debug)]
pub enum RobotsState {
    /// The robots.txt is being fetched, and the origin's links wait. If the fetch fails, the old rules stay in force
    /// (RFC 9309, 2.4).
    Requested { old: Option<Arc<Robots>> },
    /// The rules are known.
    Rules {
        rules: Arc<Robots>,
        /// When the robots.txt must be fetched again.
        until: Time,
        /// The rules of a busy lane are not evicted before this time. Rules that are stored in the frontier's notes may
        /// be evicted at once. Others stay for a while, because they have to be fetched again after an eviction.
        evictable_from: Time,
    },
    /// The robots.txt could not be fetched. Every link of the origin ends with this outcome.
    Failed { failure: Failure, outcome: Outcome, tries: u8, until: Time },
    /// The rules were evicted. They are loaded from the frontier's notes if stored there, otherwise fetched again.
    Evicted,
}

impl RobotsState {
    /// Memory of its rules, in bytes.
    pub fn weight(&self) -> usize {
        match self {
            Self::Requested { old: Some(rules) } | Self::Rules { rules, .. } => rules.weight(),
            Self::Requested { old: None } | Self::Failed { .. } | Self::Evicted => 0,
        }
    }
}

impl Lane {
    pub fn new(name: Arc<str>, rules: &Rules) -> Self {
        Self {
            name,
            queue: VecDeque::new(),
            retries: BinaryHeap::new(),
            site_files: SiteQueue::default(),
            backlog: 0,
            addresses: Addresses::Unknown,
            robots: Vec::new(),
            pace: LanePace::new(rules),
            http: LaneHttp::default(),
            http1_ports: Box::default(),
            max_streams: u32::MAX,
            slots: Slots::default(),
        }
    }

    pub fn in_flight(&self) -> usize {
        self.slots.taken
    }

    /// Whether one more request may be in flight.
    pub fn has_room(&self) -> bool {
        self.slots.taken < self.pace.width().min(self.max_streams.max(1) as usize)
    }

    /// Updates the host's HTTP version after a visit. If an origin requires HTTP/1.1, that is final for this origin.
    pub fn update_http(&mut self, visit: &Visit) {
        let url = &visit.link.url;
        let (http, streams) = match (visit.for_keeper.http, visit.facts.status) {
            // HTTP/1.1 in clear text does not show what TLS would negotiate.
            (None | Some(LaneHttp::Serial), Some(_)) if url.is_https() => (LaneHttp::Serial, None),
            (None | Some(LaneHttp::Serial | LaneHttp::Unknown), _) => return,
            (Some(http), _) => (http, visit.for_keeper.streams),
        };
        let known_index = self.http1_ports.iter().position(|(port, _)| *port == url.port());
        if self.http1_reason(url) == Some(Http1Reason::Required) {
            return;
        }
        let reason = match (http, self.http) {
            (LaneHttp::Http1Only, _) => Some(Http1Reason::Required),
            (LaneHttp::Serial, LaneHttp::Multiplexed) => Some(Http1Reason::Negotiated),
            _ => None,
        };
        // The origin is not an exception any more, or it gets another reason below.
        if let Some(index) = known_index.filter(|_| reason != Some(Http1Reason::Negotiated)) {
            let mut ports = std::mem::take(&mut self.http1_ports).into_vec();
            ports.swap_remove(index);
            self.http1_ports = ports.into();
        }
        if let Some(reason) = reason {
            // A host with more origins than this is likely a trap; HTTP/2 is offered to the others each time.
            let is_new = known_index.is_none() || reason == Http1Reason::Required;
            if is_new && self.http1_ports.len() < MAX_ORIGINS {
                let mut ports = std::mem::take(&mut self.http1_ports).into_vec();
                ports.push((url.port(), reason));
                self.http1_ports = ports.into();
            }
            if reason == Http1Reason::Required {
                // The known version may come from this origin. The next response of another origin sets it again.
                (self.http, self.max_streams) = (LaneHttp::Unknown, u32::MAX);
            }
            return;
        }
        self.http = http;
        self.max_streams = match self.http {
            LaneHttp::Multiplexed => streams.unwrap_or(self.max_streams),
            _ => u32::MAX,
        };
    }

    /// Why the origin of this URL uses HTTP/1.1, if that is an exception among the origins of its host.
    fn http1_reason(&self, url: &Url) -> Option<Http1Reason> {
        let mut ports = self.http1_ports.iter().filter(|(port, _)| url.is_https() && *port == url.port());
        ports.next().map(|(_, reason)| *reason)
    }

    /// The HTTP version for a job with this URL.
    pub fn http_for(&self, url: &Url, rules: &Rules) -> LaneHttp {
        let is_http2_offered = match rules.http {
            HttpVersion::Http1 => false,
            HttpVersion::Auto => url.is_https(),
            // A forwarding proxy gets requests in HTTP/1.1.
            HttpVersion::Http2 => {
                let url = url.as_ref();
                !rules.proxies.of(url).is_some_and(|proxy| proxy.relays(url))
            }
        };
        match (self.http1_reason(url), self.http) {
            (Some(Http1Reason::Required), _) => LaneHttp::Http1Only,
            (Some(Http1Reason::Negotiated), _) => LaneHttp::Serial,
            (None, LaneHttp::Unknown | LaneHttp::Multiplexed) if !is_http2_offered || !rules.can_multiplex => {
                LaneHttp::Serial
            }
            (None, http) => http,
        }
    }

    /// Takes a slot, for a request that may connect to any of these addresses.
    pub fn take_slot(&mut self, url: Url, addresses: Arc<[IpAddr]>, now: Time) -> u16 {
        let in_flight = u16::try_from(self.slots.taken + 1).unwrap_or(u16::MAX);
        self.slots.take(SlotHolder { url, addresses, flight: Flight { started: now, in_flight } })
    }

    /// The requests in flight, and when they started.
    pub fn flights(&self) -> impl Iterator<Item = (&Url, Time)> {
        self.slots.all.iter().flatten().map(|holder| (&holder.url, holder.flight.started))
    }

    /// Releases a slot; returns the request that held it.
    pub fn free_slot(&mut self, slot: u16) -> Option<SlotHolder> {
        self.slots.free(slot)
    }

    /// Whether recent requests of the lane held their slots for long, or a request in flight does.
    pub fn is_slow(&self, now: Time) -> bool {
        let is_long = |slot_time: Duration| slot_time > SLOW_SLOT;
        let oldest = self.slots.all.iter().flatten().map(|holder| holder.flight.started).min();
        self.pace.slot_time().is_some_and(is_long) || oldest.is_some_and(|started| is_long(now - started))
    }

    /// Whether recent requests of the lane held their slots for a short time. False if there were none.
    pub fn is_fast(&self) -> bool {
        self.pace.slot_time().is_some_and(|mean| mean <= SLOW_SLOT)
    }

    /// Releases the memory that an idle lane does not need: its queues are empty, and its slots are free.
    pub fn release_memory(&mut self) {
        self.queue.shrink_to_fit();
        self.retries.shrink_to_fit();
        if self.slots.taken == 0 {
            self.slots = Slots::default();
        }
    }

    /// Number of links that are queued or wait for a retry, with the robots.txt files in `site_files`.
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.retries.len() + self.site_files.len()
    }

    /// Whether a part of a rendered page is queued or waits for a retry.
    pub fn has_parts(&self) -> bool {
        self.site_files.has_parts() || self.retries.iter().any(|Reverse(retry)| retry.purpose.is_part())
    }

    /// Whether the lane has work on the workbench, now or later.
    pub fn has_work(&self) -> bool {
        !self.queue.is_empty() || !self.retries.is_empty() || !self.site_files.is_empty()
    }

    /// Whether the host has requests in flight, or links on the workbench or in the frontier.
    pub fn is_busy(&self) -> bool {
        self.has_work() || self.backlog > 0 || self.in_flight() > 0
    }

    /// Whether the next link must wait until evicted rules are loaded again.
    pub fn is_without_rules(&self) -> bool {
        let has_evicted_rules = |link: &Link| {
            let mut evicted = self.robots.iter().filter(|(_, state)| matches!(state, RobotsState::Evicted));
            evicted.any(|(origin, _)| link.url.has_origin(origin))
        };
        self.site_files.is_empty() && self.queue.front().is_some_and(has_evicted_rules)
    }

    /// Number of known links that are not requested yet.
    pub fn left(&self) -> u64 {
        self.backlog.saturating_add(self.queue.len() as u64)
    }

    /// When the next request could start, without regard to other lanes. With `may_start_pages`, new pages may be
    /// requested.
    pub fn due(&self, may_start_pages: bool) -> Time {
        if !self.has_room() {
            return Time::NEVER;
        }
        let has_begun = |link: &Link| link.tries > 0;
        if !self.site_files.is_empty()
            || (may_start_pages && !self.queue.is_empty())
            || self.queue.iter().any(has_begun)
        {
            return self.pace.due();
        }
        self.retries.peek().map_or(Time::NEVER, |Reverse(retry)| retry.due.max(self.pace.due()))
    }

    /// Whether a page of the lane was already tried and is to be tried again.
    pub fn has_begun_pages(&self) -> bool {
        self.queue.iter().any(|link| link.tries > 0)
            || self.retries.iter().any(|Reverse(retry)| retry.purpose == Purpose::Page)
    }

    /// The state of an origin's robots.txt, if there is one.
    pub fn robots_of(&self, origin: &Origin) -> Option<&RobotsState> {
        self.robots.iter().find(|(known, _)| known == origin).map(|(_, state)| state)
    }

    /// Records that an origin's robots.txt is about to be fetched.
    pub fn ask_robots(&mut self, origin: &Origin) {
        let old = match self.robots_of(origin) {
            Some(RobotsState::Rules { rules, .. }) => Some(Arc::clone(rules)),
            _ => None,
        };
        self.set_robots(origin, RobotsState::Requested { old });
    }

    /// Sets the state of an origin's robots.txt. Beyond [`MAX_ORIGINS`], the oldest one is removed.
    pub fn set_robots(&mut self, origin: &Origin, state: RobotsState) {
        match self.robots.iter_mut().find(|(known, _)| known == origin) {
            Some((_, old)) => *old = state,
            None => {
                // Most hosts have one origin. Without this, the vector would allocate space for four.
                self.robots.reserve_exact(1);
                let host = if *origin.host == *self.name { Arc::clone(&self.name) } else { Arc::clone(&origin.host) };
                self.robots.push((Origin { host, ..*origin }, state));
            }
        }
        if self.robots.len() > MAX_ORIGINS {
            // Remove the oldest one that is not being fetched.
            let first = self.robots.iter().position(|(_, state)| !matches!(state, RobotsState::Requested { .. }));
            if let Some(first) = first {
                self.robots.remove(first);
            }
        }
    }

    /// Removes the robots.txt of an origin.
    pub fn forget_robots(&mut self, origin: &Origin) {
        self.robots.retain(|(known, _)| known != origin);
    }

    /// Memory of the rules of all origins, in bytes.
    pub fn robots_weight(&self) -> usize {
        self.robots.iter().map(|(_, state)| state.weight()).sum()
    }
}

/// The request that holds a slot.
#[derive(Debug)]
pub struct SlotHolder {
    pub url: Url,
    /// The addresses that the request may connect to. It counts towards the limit (`--per-ip`) of each.
    pub addresses: Arc<[IpAddr]>,
    pub flight: Flight,
}

/// The numbered slots of a lane. The lowest free one is taken first, so that a lane that needs few connections keeps
/// using the same few.
#[derive(Debug, Default)]
struct Slots {
    /// How many slots are in use.
    taken: usize,
    /// By number; `None` if the slot is free.
    all: Vec<Option<SlotHolder>>,
}

impl Slots {
    /// Takes the lowest free slot; returns its number.
    fn take(&mut self, holder: SlotHolder) -> u16 {
        let has_free = self.taken < self.all.len();
        self.taken += 1;
        if has_free && let Some((free, number)) = self.all.iter_mut().zip(0..).find(|(slot, _)| slot.is_none()) {
            *free = Some(holder);
            return number;
        }
        self.all.reserve_exact(1);
        self.all.push(Some(holder));
        // The settings limit the width of a lane to 16 bits.
        u16::try_from(self.all.len() - 1).unwrap_or(u16::MAX)
    }

    /// Frees a slot; returns its holder.
    fn free(&mut self, slot: u16) -> Option<SlotHolder> {
        let holder = self.all.get_mut(usize::from(slot))?.take()?;
        self.taken -= 1;
        Some(holder)
    }
}

impl PartialEq for PendingRetry {
    fn eq(&self, other: &Self) -> bool {
        self.seq == other.seq
    }
}

impl Eq for PendingRetry {}

impl PartialOrd for PendingRetry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PendingRetry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.seq).cmp(&(other.due, other.seq))
    }
}

#[cfg(test)]
mod tests;
