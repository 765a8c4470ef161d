//! [`Budget`]: one account for everything in memory that grows.
//!
//! The account has two kinds of entries. *State* is what the crawl keeps: frontier, lanes, robots rules, cookies, idle
//! connections. Each of these has a limit of its own and evicts or spills beyond it; its owner reports its size
//! ([`Budget::set`]). *Responses* are data on the way from a socket to the disk: heads, decoder windows, bodies, link
//! lists, records. They are charged as they grow ([`BudgetCharge`]), and may use the part of the limit that state does
//! not use. When that part is used up, reading from sockets pauses: TCP backpressure makes the hosts wait, and nothing
//! fails.
//!
//! Several crawls can share a *parent* account: what is charged to a crawl is charged to the parent too, and both limits
//! apply.
//!
//! Invariant: while responses are at their limit, at most one charge may grow further. It has the *overdraft*. So there
//! is always one response that can finish and release its bytes. Crawls that share a parent share one overdraft: with
//! one for each crawl, two charges could wait for each other's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// A part of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(usize)]
pub enum MemoryPart {
    /// Host names, queues, fingerprints of known URLs, and the previous round of a recrawl.
    Frontier,
    /// Hosts that are being worked on, with the links that are next.
    Lanes,
    /// The rules of robots.txt files.
    Robots,
    Cookies,
    /// Idle connections.
    Connections,
    /// Bodies of responses, archive records and sitemaps.
    Bodies,
    /// Windows of decoders.
    Windows,
    /// Heads of responses.
    Heads,
    /// Links of pages, and pages that wait to be written.
    Pages,
}

impl MemoryPart {
    pub const ALL: [Self; 9] = [
        Self::Frontier,
        Self::Lanes,
        Self::Robots,
        Self::Cookies,
        Self::Connections,
        Self::Bodies,
        Self::Windows,
        Self::Heads,
        Self::Pages,
    ];

    /// The name in JSON and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Frontier => "frontier",
            Self::Lanes => "lanes",
            Self::Robots => "robots",
            Self::Cookies => "cookies",
            Self::Connections => "connections",
            Self::Bodies => "bodies",
            Self::Windows => "windows",
            Self::Heads => "heads",
            Self::Pages => "pages",
        }
    }

    /// True if the owner reports the size with [`Budget::set`]; all other parts are charged through [`BudgetCharge`].
    fn is_state(self) -> bool {
        matches!(self, Self::Frontier | Self::Lanes | Self::Robots | Self::Cookies | Self::Connections)
    }
}

/// Responses may always use the limit divided by this number, however large the state is.
const MIN_RESPONSES_DIVISOR: u64 = 8;
/// One body that is held in memory may have as many bytes as the limit divided by this number. Its buffers, its copy
/// for the archive and the bodies of other responses need the rest.
const HELD_BODY_DIVISOR: u64 = 8;
/// One body that is held may have this many bytes, however low the limit is.
pub(crate) const MIN_HELD_BODY: u64 = 10 << 20;

/// The limit in bytes, and how many bytes are in use.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    /// Limit on responses in bytes. It applies even if state leaves more room.
    max_responses: u64,
    response_bytes: AtomicU64,
    state_bytes: AtomicU64,
    /// The bytes of each part, in the order of [`MemoryPart::ALL`].
    parts: [AtomicU64; MemoryPart::ALL.len()],
    /// Whether a charge has the overdraft.
    is_overdraft_taken: AtomicBool,
    /// The account that other crawls share.
    parent: Option<Arc<Budget>>,
}

/// Bytes that are charged to the budget. Dropping the value releases them.
#[derive(Debug)]
pub struct BudgetCharge {
    budget: Arc<Budget>,
    part: MemoryPart,
    bytes: u64,
    /// Whether this is the one charge that may grow at the limit.
    has_overdraft: bool,
}

impl Budget {
    pub fn new(limit: u64) -> Arc<Self> {
        Self::with_response_limit(limit, limit)
    }

    /// A budget whose limit on responses is lower than the limit of the whole account.
    pub fn with_response_limit(limit: u64, max_responses: u64) -> Arc<Self> {
        Arc::new(Self {
            limit,
            max_responses,
            response_bytes: AtomicU64::new(0),
            state_bytes: AtomicU64::new(0),
            parts: Default::default(),
            is_overdraft_taken: AtomicBool::new(false),
            parent: None,
        })
    }

    /// An account with the same limits, whose bytes are also charged to `parent`.
    #[must_use]
    pub fn within(&self, parent: Arc<Self>) -> Arc<Self> {
        Arc::new(Self {
            limit: self.limit,
            max_responses: self.max_responses,
            response_bytes: AtomicU64::new(0),
            state_bytes: AtomicU64::new(0),
            parts: Default::default(),
            is_overdraft_taken: AtomicBool::new(false),
            parent: Some(parent),
        })
    }

    /// A new charge of zero bytes, for a body.
    pub fn hold(self: &Arc<Self>) -> BudgetCharge {
        self.hold_for(MemoryPart::Bodies)
    }

    /// A new charge of zero bytes.
    pub fn hold_for(self: &Arc<Self>, part: MemoryPart) -> BudgetCharge {
        BudgetCharge { budget: Arc::clone(self), part, bytes: 0, has_overdraft: false }
    }

    /// The bytes that responses use now.
    pub fn response_bytes(&self) -> u64 {
        self.response_bytes.load(Ordering::Relaxed)
    }

    /// Reports the size of a part of the state. Only the owner of the part calls this. A part that is not state is
    /// ignored.
    pub fn set(&self, part: MemoryPart, bytes: u64) {
        if let Some(cell) = self.parts.get(part as usize).filter(|_| part.is_state()) {
            let before = cell.swap(bytes, Ordering::Relaxed);
            // Atomic additions wrap, so a decrease is the addition of a large number.
            let change = bytes.wrapping_sub(before);
            self.state_bytes.fetch_add(change, Ordering::Relaxed);
            if let Some(parent) = &self.parent {
                parent.state_bytes.fetch_add(change, Ordering::Relaxed);
                parent.add(part, change);
            }
        }
    }

    /// The bytes of a part.
    pub fn part(&self, part: MemoryPart) -> u64 {
        self.parts.get(part as usize).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    /// The limit of the whole account.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How many bytes of one body may be held. The rest of a longer body is cut off: without this limit, the response
    /// with the overdraft could grow to `--max-size`.
    pub fn max_held_body(&self) -> u64 {
        let limit = self.parent.as_ref().map_or(self.limit, |parent| parent.limit.min(self.limit));
        (limit / HELD_BODY_DIVISOR).max(MIN_HELD_BODY)
    }

    /// How many bytes responses may use now.
    fn response_limit(&self) -> u64 {
        let left = self.limit.saturating_sub(self.state_bytes.load(Ordering::Relaxed));
        left.max(self.limit / MIN_RESPONSES_DIVISOR).min(self.max_responses)
    }

    /// Whether more may be read without the overdraft.
    fn has_room(&self) -> bool {
        self.response_bytes() < self.response_limit() && self.parent.as_ref().is_none_or(|parent| parent.has_room())
    }

    /// Whether responses use at most three quarters of their limit.
    fn has_much_room(&self) -> bool {
        let has_much_room = self.response_bytes() <= self.response_limit() / 4 * 3;
        has_much_room && self.parent.as_ref().is_none_or(|parent| parent.has_much_room())
    }

    /// The flag of the overdraft, which crawls with the same parent share.
    fn overdraft(&self) -> &AtomicBool {
        self.parent.as_ref().map_or(&self.is_overdraft_taken, |parent| parent.overdraft())
    }

    /// Charges bytes of responses. A decrease is a large number, because atomic additions wrap.
    fn charge(&self, part: MemoryPart, bytes: u64) {
        self.response_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.add(part, bytes);
        self.parent.iter().for_each(|parent| parent.charge(part, bytes));
    }

    /// Charges bytes of responses if there is room in this account and its parent.
    fn try_charge(&self, part: MemoryPart, bytes: u64) -> bool {
        let limit = self.response_limit();
        let add_within_limit = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        let used = &self.response_bytes;
        if used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add_within_limit).is_err() {
            return false;
        }
        if self.parent.as_ref().is_some_and(|parent| !parent.try_charge(part, bytes)) {
            used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.add(part, bytes);
        true
    }

    fn add(&self, part: MemoryPart, bytes: u64) {
        if let Some(cell) = self.parts.get(part as usize) {
            cell.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Budget {
    /// Takes what a crawl keeps out of the account that it shares. Its charges are released, because each has a share of
    /// this account.
    fn drop(&mut self) {
        if self.parent.is_some() {
            MemoryPart::ALL.into_iter().for_each(|part| self.set(part, 0));
        }
    }
}

impl BudgetCharge {
    /// Adds bytes that have already arrived, even beyond the limit; [`BudgetCharge::may_grow`] decides about reading more.
    pub fn grow(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.budget.charge(self.part, bytes as u64);
    }

    /// Sets the number of bytes. If a charge with the overdraft shrinks, and responses use at most three quarters of
    /// their limit, the charge gives the overdraft back. Without this, it would have the overdraft until its bytes are
    /// written.
    pub fn resize(&mut self, bytes: usize) {
        let (before, bytes) = (self.bytes, bytes as u64);
        let change = bytes.wrapping_sub(before);
        if change != 0 {
            self.bytes = bytes;
            self.budget.charge(self.part, change);
        }
        if self.has_overdraft && bytes < before && self.budget.has_much_room() {
            self.has_overdraft = false;
            self.budget.overdraft().store(false, Ordering::Release);
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Charges memory before it is allocated. False if there is no room: then nothing is charged.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let is_charged = self.budget.try_charge(self.part, bytes as u64);
        if is_charged {
            self.bytes += bytes as u64;
        }
        is_charged
    }

    /// Whether this is the one charge that may grow at the limit.
    pub fn has_overdraft(&self) -> bool {
        self.has_overdraft
    }

    /// Whether more may be read now. At the limit, this takes the overdraft if it is free.
    pub fn may_grow(&mut self) -> bool {
        if self.has_overdraft || self.budget.has_room() {
            return true;
        }
        self.try_overdraft()
    }

    /// Takes the overdraft unless another charge has it. Returns whether this charge has it now.
    pub fn try_overdraft(&mut self) -> bool {
        self.has_overdraft = self.has_overdraft || !self.budget.overdraft().swap(true, Ordering::AcqRel);
        self.has_overdraft
    }
}

impl Drop for BudgetCharge {
    fn drop(&mut self) {
        self.resize(0);
        if self.has_overdraft {
            self.budget.overdraft().store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_charge_exceeds_the_limit_and_dropped_charges_are_released() {
        let budget = Budget::new(10);
        let (mut a, mut b, mut c) = (budget.hold(), budget.hold(), budget.hold());
        a.grow(6);
        assert!(a.may_grow() && b.may_grow());
        b.grow(6);
        assert!(a.may_grow(), "the first charge takes the overdraft");
        assert!(!b.may_grow() && !c.may_grow());
        a.grow(100);
        assert!(a.may_grow());
        drop(a);
        assert!(b.may_grow() && c.may_grow());
        drop(b);
        drop(c);
        assert_eq!(budget.response_bytes(), 0);
    }

    #[test]
    fn a_charge_that_shrinks_gives_the_overdraft_back() {
        let budget = Budget::new(100);
        let (mut a, mut b) = (budget.hold(), budget.hold());
        a.grow(110);
        assert!(a.may_grow() && a.has_overdraft());
        a.resize(120);
        b.grow(60);
        assert!(!b.may_grow());
        a.resize(30);
        assert!(a.has_overdraft(), "more than three quarters of the limit are in use");
        a.resize(10);
        assert!(!a.has_overdraft() && b.may_grow() && !b.has_overdraft());
        b.grow(60);
        assert!(b.may_grow() && b.has_overdraft() && !a.may_grow());
    }

    #[test]
    fn responses_may_use_what_state_leaves() {
        let budget = Budget::with_response_limit(800, 500);
        let mut body = budget.hold();
        assert!(!body.try_grow(501) && body.try_grow(500), "responses stay within their own limit");
        body.resize(0);
        budget.set(MemoryPart::Frontier, 400);
        budget.set(MemoryPart::Lanes, 200);
        assert!(!body.try_grow(201) && body.try_grow(200));
        budget.set(MemoryPart::Frontier, 1_000);
        budget.set(MemoryPart::Frontier, 790);
        body.resize(0);
        assert!(!body.try_grow(101) && body.try_grow(100), "an eighth is always left for responses");
        budget.set(MemoryPart::Frontier, 0);
        budget.set(MemoryPart::Pages, 7);
        assert_eq!(budget.part(MemoryPart::Pages), 0, "a charged part ignores `set`");
        assert_eq!((budget.part(MemoryPart::Lanes), budget.part(MemoryPart::Bodies)), (200, 100));
        let mut window = budget.hold_for(MemoryPart::Windows);
        assert!(window.try_grow(400) && !window.try_grow(1));
        window.resize(30);
        drop(body);
        assert_eq!((budget.response_bytes(), budget.part(MemoryPart::Windows)), (30, 30));
    }
    #[test]
    fn crawls_with_one_parent_share_its_limit_and_its_overdraft() {
        let parent = Budget::new(100);
        let (first, second) =
            (Budget::new(80).within(Arc::clone(&parent)), Budget::new(80).within(Arc::clone(&parent)));
        let (mut a, mut b) = (first.hold(), second.hold());
        assert!(a.try_grow(70) && !b.try_grow(40) && b.try_grow(20));
        assert_eq!((first.response_bytes(), second.response_bytes(), parent.response_bytes()), (70, 20, 90));
        a.grow(20);
        assert!(a.may_grow() && a.has_overdraft(), "the first crawl is at its own limit");
        b.grow(5);
        assert!(!b.may_grow(), "the parent is at its limit, and the other crawl has the overdraft");
        drop(a);
        assert!(b.may_grow() && !b.has_overdraft());
        second.set(MemoryPart::Lanes, 30);
        first.set(MemoryPart::Lanes, 10);
        assert_eq!(parent.part(MemoryPart::Lanes), 40);
        drop(first);
        assert_eq!((parent.part(MemoryPart::Lanes), parent.part(MemoryPart::Bodies)), (30, 25));
        drop((b, second));
        assert_eq!((parent.part(MemoryPart::Lanes), parent.response_bytes()), (0, 0));
    }
}
