//! [`Marks`]: which responses are being processed, kept where the death of the process does not erase it.
//!
//! A worker marks a response before it processes a part of it, and removes the mark afterwards. If the process dies in
//! between, the page is a *suspect*: the next run processes it alone, see `crawl::schedule::keeper::suspects`. Waiting
//! for a response is not marked, because it cannot end the process.
//!
//! The core has no files. A crawl directory sets the [`MarkStore`]; a crawl without one has no marks.

use std::fmt;
use std::sync::Arc;

use crate::base::job::LaneId;
use crate::base::link::Link;

/// A page, as marks identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkedPage {
    /// The fingerprint of its link.
    pub fingerprint: u64,
    /// The lane of its host. A later run may use the number for another host, so it is only a hint.
    pub lane: LaneId,
}

/// A page that was being processed when an earlier run died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    pub page: MarkedPage,
    /// How many runs died while it was the only page that they processed.
    pub deaths: u8,
}

/// Where the marks of a crawl are kept. Errors are not reported: without marks the crawl goes on as well.
pub trait MarkStore: Send + Sync {
    /// Stores that the processing of this page begins. Returns the place of the mark; `None` if no place is free.
    fn begin(&self, page: MarkedPage) -> Option<usize>;
    /// Removes the mark at this place.
    fn end(&self, place: usize);
    /// The suspects that earlier runs left.
    fn suspects(&self) -> Vec<Suspect>;
    /// Stores which suspect is processed alone; `None` if there is none.
    fn set_alone(&self, page: Option<MarkedPage>);
    /// Removes a suspect that was processed.
    fn clear(&self, fingerprint: u64);
}

/// The marks of a crawl; none without a crawl directory.
#[derive(Clone, Default)]
pub struct Marks(pub(crate) Option<Arc<dyn MarkStore>>);

/// The mark of a response that is being processed. Dropping it removes the mark.
pub struct Mark {
    store: Arc<dyn MarkStore>,
    place: usize,
}

impl Marks {
    /// Marks the response of this link. `key` is the key of the fingerprints.
    pub(crate) fn begin(&self, link: &Link, lane: LaneId, key: u64) -> Option<Mark> {
        let store = self.0.as_ref()?;
        let place = store.begin(MarkedPage::of(link, lane, key))?;
        Some(Mark { store: Arc::clone(store), place })
    }
}

impl MarkedPage {
    pub(crate) fn of(link: &Link, lane: LaneId, key: u64) -> Self {
        Self { fingerprint: link.fingerprint(key), lane }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.store.end(self.place);
    }
}

impl fmt::Debug for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Marks")
    }
}
