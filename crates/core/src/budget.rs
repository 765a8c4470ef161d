//! [`Budget`]: one account for everything in memory that grows.
//!
//! The account has two kinds of entries. *State* is what the crawl knows: frontier, lanes, robots rules, cookies. Each
//! of these has a limit of its own and evicts or spills beyond it; its owner reports its size ([`Budget::set`]).
//! *Responses* are data on the way from a socket to the disk: heads, decoder windows, bodies, link lists, records. They
//! are charged as they grow ([`BudgetCharge`]), and may use the part of the limit that state does not use. When that is used up,
//! reading from sockets pauses: TCP backpressure makes the hosts wait, and nothing fails.
//!
//! Invariant: at most one holder at a time may exceed the room for responses, so that there is always a holder that can
//! finish and release its bytes.

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
const MIN_RESPONSES: u64 = 8;

/// The limit in bytes, and how many bytes are in use.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    /// Limit on responses. It applies even if state leaves more room.
    max_responses: u64,
    /// Bytes of responses.
    held: AtomicU64,
    /// Bytes of state.
    state: AtomicU64,
    parts: [AtomicU64; MemoryPart::ALL.len()],
    /// Whether a holder exceeds the limit to guarantee progress.
    overdrawn: AtomicBool,
}

/// Bytes that are charged to the budget. Dropping the value releases them.
#[derive(Debug)]
pub struct BudgetCharge {
    budget: Arc<Budget>,
    part: MemoryPart,
    bytes: u64,
    /// Whether this is the one holder that may exceed the limit.
    overdraws: bool,
}

impl Budget {
    pub fn new(limit: u64) -> Arc<Self> {
        Self::within(limit, limit)
    }

    /// A budget whose limit on responses is lower than the limit of the whole account.
    pub fn within(limit: u64, max_responses: u64) -> Arc<Self> {
        Arc::new(Self {
            limit,
            max_responses,
            held: AtomicU64::new(0),
            state: AtomicU64::new(0),
            parts: Default::default(),
            overdrawn: AtomicBool::new(false),
        })
    }

    /// A new holder of zero bytes, for a body.
    pub fn hold(self: &Arc<Self>) -> BudgetCharge {
        self.hold_for(MemoryPart::Bodies)
    }

    /// A new holder of zero bytes.
    pub fn hold_for(self: &Arc<Self>, part: MemoryPart) -> BudgetCharge {
        BudgetCharge { budget: Arc::clone(self), part, bytes: 0, overdraws: false }
    }

    /// Bytes of responses.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Reports the size of a part of the state. Only the owner of the part calls this.
    pub fn set(&self, part: MemoryPart, bytes: u64) {
        if let Some(cell) = self.parts.get(part as usize).filter(|_| part.is_state()) {
            let before = cell.swap(bytes, Ordering::Relaxed);
            self.state.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
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

    /// How many bytes responses may use now.
    fn response_limit(&self) -> u64 {
        let left = self.limit.saturating_sub(self.state.load(Ordering::Relaxed));
        left.max(self.limit / MIN_RESPONSES).min(self.max_responses)
    }

    fn add(&self, part: MemoryPart, bytes: u64) {
        if let Some(cell) = self.parts.get(part as usize) {
            cell.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl BudgetCharge {
    /// Adds bytes that have already arrived, even beyond the limit; [`BudgetCharge::may_grow`] decides about reading more.
    pub fn grow(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.budget.held.fetch_add(bytes as u64, Ordering::Relaxed);
        self.budget.add(self.part, bytes as u64);
    }

    /// Sets the number of bytes held. If a holder that may exceed the limit shrinks and the account is well within the
    /// limit, the next one may exceed it, although the first still holds bytes until they are written.
    pub fn resize(&mut self, bytes: usize) {
        let (before, bytes) = (self.bytes, bytes as u64);
        let change = bytes.wrapping_sub(before);
        if change != 0 {
            self.bytes = bytes;
            // Atomic additions wrap, so a decrease is the addition of a large number.
            self.budget.held.fetch_add(change, Ordering::Relaxed);
            self.budget.add(self.part, change);
        }
        if self.overdraws && bytes < before && self.budget.held() <= self.budget.response_limit() / 4 * 3 {
            self.overdraws = false;
            self.budget.overdrawn.store(false, Ordering::Release);
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Charges memory before it is allocated. False if there is no room: then nothing is charged.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let (bytes, limit) = (bytes as u64, self.budget.response_limit());
        let fits = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= limit);
        let fits_limit = self.budget.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        if fits_limit {
            self.bytes += bytes;
            self.budget.add(self.part, bytes);
        }
        fits_limit
    }

    /// Whether this holder is the one that may exceed the limit.
    pub fn overdraws(&self) -> bool {
        self.overdraws
    }

    /// Whether more may be read now.
    pub fn may_grow(&mut self) -> bool {
        if self.overdraws || self.budget.held() < self.budget.response_limit() {
            return true;
        }
        self.overdraw()
    }

    /// Lets this holder exceed the limit, unless another one does.
    pub fn overdraw(&mut self) -> bool {
        self.overdraws = self.overdraws || !self.budget.overdrawn.swap(true, Ordering::AcqRel);
        self.overdraws
    }
}

impl Drop for BudgetCharge {
    fn drop(&mut self) {
        self.resize(0);
        if self.overdraws {
            self.budget.overdrawn.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_goes_beyond_the_budget_and_all_comes_back() {
        let budget = Budget::new(10);
        let (mut a, mut b, mut c) = (budget.hold(), budget.hold(), budget.hold());
        a.grow(6);
        assert!(a.may_grow() && b.may_grow());
        b.grow(6);
        assert!(a.may_grow(), "the first holder may exceed the limit");
        assert!(!b.may_grow() && !c.may_grow());
        a.grow(100);
        assert!(a.may_grow());
        drop(a);
        assert!(b.may_grow() && c.may_grow());
        drop(b);
        drop(c);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn a_holder_that_shrinks_lets_another_exceed_the_limit() {
        let budget = Budget::new(100);
        let (mut a, mut b) = (budget.hold(), budget.hold());
        a.grow(110);
        assert!(a.may_grow() && a.overdraws());
        a.resize(120);
        b.grow(60);
        assert!(!b.may_grow());
        a.resize(30);
        assert!(a.overdraws(), "the account is nearly full");
        a.resize(10);
        assert!(!a.overdraws() && b.may_grow() && !b.overdraws());
        b.grow(60);
        assert!(b.may_grow() && b.overdraws() && !a.may_grow());
    }

    #[test]
    fn responses_may_take_what_state_leaves() {
        let budget = Budget::within(800, 500);
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
        assert_eq!((budget.held(), budget.part(MemoryPart::Windows)), (30, 30));
    }
}
