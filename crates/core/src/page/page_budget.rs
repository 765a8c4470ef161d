//! [`PageBudget`]: what may be spent on one page after it has arrived.
//!
//! Everything that is done with a page (parsing, selectors, regular expressions, structured data, text, Markdown,
//! rewriting, checking) takes its time and its memory from one budget in proportion to the page. Time is counted in
//! steps of our own, not measured, so a page has the same result on every machine. Work is charged before it is done. A
//! reader that is refused stops, keeps what it has, and marks its result as cut.
//!
//! A step is the work for one byte of text, about a nanosecond. So the charge for
//!
//! - a text that is copied, decoded, escaped, compared or searched is its length in bytes;
//! - a node of a tree, a token or an entry of a table that is visited is [`VISIT`];
//! - a search with a regular expression is [`REGEX`] for each byte;
//! - sorting is [`VISIT`] for each entry, times the binary logarithm of their number.
//!
//! Invariant: once a charge was refused, all further ones are refused. So the order of charges decides what is cut, and
//! a loop that ignores one refusal still ends at the next.

use std::cell::Cell;

/// The steps of visiting one node, token or entry.
pub const VISIT: usize = 8;
/// The steps of searching one byte with a regular expression.
pub const REGEX: usize = 8;

/// The steps for each byte of a page.
pub(crate) const STEPS_PER_BYTE: u64 = 64;
/// The steps that a page gets, however short it is.
pub(crate) const MIN_STEPS: u64 = 4 << 20;
/// The steps that a page gets, however long it is.
pub(crate) const MAX_STEPS: u64 = 384 << 20;
/// The bytes of memory for each byte of a page.
pub(crate) const MEMORY_PER_BYTE: u64 = 10;
/// The bytes of memory that a page gets, however short it is.
pub(crate) const MIN_MEMORY: u64 = 4 << 20;
/// The bytes of memory that a page gets, however long it is.
pub(crate) const MAX_MEMORY: u64 = 64 << 20;

/// The steps and the memory that may be spent on one page. All work on the page takes from the same value.
///
/// ```
/// use argiope_core::page::page_budget::PageBudget;
///
/// fn words_of<'a>(page: &'a str, budget: &PageBudget) -> (Vec<&'a str>, bool) {
///     let mut words = Vec::new();
///     for word in page.split(' ') {
///         // A step for each byte that is read, and the memory of what is kept: both before it is done.
///         if !budget.spend(word.len()) || !budget.hold(size_of::<&str>()) {
///             break;
///         }
///         words.push(word);
///     }
///     (words, budget.is_used_up())
/// }
///
/// let page = "orb weaver";
/// assert_eq!(words_of(page, &PageBudget::for_page(page.len())), (vec!["orb", "weaver"], false));
/// assert_eq!(words_of(page, &PageBudget::new(5, 1000)), (vec!["orb"], true));
/// ```
#[derive(Debug)]
pub struct PageBudget {
    max_steps: u64,
    steps: Cell<u64>,
    max_memory: u64,
    /// The bytes that are held now.
    memory: Cell<u64>,
    /// The most bytes that were held at once.
    peak_memory: Cell<u64>,
    is_used_up: Cell<bool>,
    /// The first limit of a reader that cut its result.
    cut: Cell<Option<&'static str>>,
}

impl PageBudget {
    /// A budget of this many steps and bytes of memory.
    pub fn new(max_steps: u64, max_memory: u64) -> Self {
        Self {
            max_steps,
            steps: Cell::new(0),
            max_memory,
            memory: Cell::new(0),
            peak_memory: Cell::new(0),
            is_used_up: Cell::new(false),
            cut: Cell::new(None),
        }
    }

    /// The budget of a page whose decoded body has this many bytes.
    pub fn for_page(bytes: usize) -> Self {
        let bytes = bytes as u64;
        let steps = bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(MIN_STEPS).min(MAX_STEPS);
        let memory = bytes.saturating_mul(MEMORY_PER_BYTE).saturating_add(MIN_MEMORY).min(MAX_MEMORY);
        Self::new(steps, memory)
    }

    /// A budget that counts and never refuses. It is for measuring, and for input that the user wrote.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX, u64::MAX)
    }

    /// Charges work before it is done. False: it must not be done.
    #[must_use]
    pub fn spend(&self, steps: usize) -> bool {
        let sum = self.steps.get().saturating_add(steps as u64);
        let fits = sum <= self.max_steps && !self.is_used_up.get();
        if fits {
            self.steps.set(sum);
        } else {
            self.is_used_up.set(true);
        }
        fits
    }

    /// Charges the visit of one node, token or entry.
    #[must_use]
    pub fn visit(&self) -> bool {
        self.spend(VISIT)
    }

    /// Charges memory before it is allocated, until [`PageBudget::release`]. False: it must not be allocated.
    #[must_use]
    pub fn hold(&self, bytes: usize) -> bool {
        let sum = self.memory.get().saturating_add(bytes as u64);
        let fits = sum <= self.max_memory && !self.is_used_up.get();
        if fits {
            self.memory.set(sum);
            self.peak_memory.set(self.peak_memory.get().max(sum));
        } else {
            self.is_used_up.set(true);
        }
        fits
    }

    /// Gives back memory that was charged and is freed.
    pub fn release(&self, bytes: usize) {
        self.memory.set(self.memory.get().saturating_sub(bytes as u64));
    }

    /// Whether a charge was refused, so that results are cut.
    pub fn is_used_up(&self) -> bool {
        self.is_used_up.get()
    }

    /// Records that a reader left something out because of a limit of its own. The first reason is kept.
    pub fn mark_cut(&self, reason: &'static str) {
        self.cut.set(self.cut.get().or(Some(reason)));
    }

    /// The limit of a reader that cut its result.
    pub fn cut(&self) -> Option<&'static str> {
        self.cut.get()
    }

    /// The steps that were charged.
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// The bytes that are held.
    pub fn memory(&self) -> u64 {
        self.memory.get()
    }

    /// The most bytes that were held at once.
    pub fn peak_memory(&self) -> u64 {
        self.peak_memory.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_refusal_everything_is_refused() {
        let budget = PageBudget::new(10, 10);
        assert!(budget.spend(10) && budget.hold(10));
        budget.release(4);
        assert!(budget.hold(4) && !budget.is_used_up());
        assert!(!budget.spend(1) && budget.is_used_up());
        budget.release(10);
        assert!(!budget.spend(0) && !budget.hold(0) && !budget.visit());
        assert_eq!((budget.steps(), budget.peak_memory()), (10, 10), "what was refused is not charged");
    }

    #[test]
    fn a_budget_is_in_proportion_to_the_page_and_bounded() {
        let [small, large, huge] = [0, 1 << 20, usize::MAX].map(PageBudget::for_page);
        assert_eq!((small.max_steps, small.max_memory), (MIN_STEPS, MIN_MEMORY));
        assert_eq!(large.max_steps - small.max_steps, STEPS_PER_BYTE << 20);
        assert_eq!(large.max_memory - small.max_memory, MEMORY_PER_BYTE << 20);
        assert_eq!((huge.max_steps, huge.max_memory), (MAX_STEPS, MAX_MEMORY));
    }

    #[test]
    fn an_unlimited_budget_counts() {
        let budget = PageBudget::unlimited();
        assert!(budget.spend(usize::MAX) && budget.spend(usize::MAX) && budget.hold(7));
        assert_eq!((budget.steps(), budget.peak_memory()), (u64::MAX, 7));
    }
}
