//! [`Outbox`]: settled visits on their way to the writer, and the places of their exchanges in the archive.

use super::Settled;
use crate::crawl::rules::Rules;
use crate::crawl::visit::Visit;
use crate::crawl::warc::{ArchiveChunk, ArchiveLayout, WarcLocation, WarcPayload};

/// Settled visits that were not taken yet.
pub(super) struct Outbox {
    /// The position of the next response in the archive, if there is an archive.
    layout: Option<ArchiveLayout>,
    settled: Vec<Settled>,
}

impl Outbox {
    pub fn new(rules: &Rules) -> Self {
        Self { layout: rules.archive.then(|| ArchiveLayout::new(rules)), settled: Vec::new() }
    }

    /// Continues the archive of an earlier run. `outputs` are the files of the crawl directory and their lengths.
    pub fn resume<'a>(&mut self, outputs: impl IntoIterator<Item = (&'a str, u64)>) {
        if let Some(layout) = &mut self.layout {
            layout.resume(outputs);
        }
    }

    /// The file of the archive that this visit begins when it is settled; `None` if it begins none.
    pub fn next_file(&self, visit: &Visit) -> Option<String> {
        let (layout, exchange) = self.layout.as_ref().zip(visit.for_keeper.archive())?;
        layout.next_file(exchange)
    }

    /// Takes the exchange of a visit, and gives it a place in the archive. `earlier` is the same body from before.
    pub fn archive(&mut self, visit: &mut Visit, earlier: Option<WarcPayload>) -> Option<(WarcLocation, ArchiveChunk)> {
        let exchange = visit.for_keeper.archive.take();
        self.layout.as_mut().zip(exchange).map(|(layout, exchange)| layout.place(*exchange, earlier))
    }

    pub fn push(&mut self, settled: Settled) {
        self.settled.push(settled);
    }

    /// Takes the settled visits, in order of completion.
    pub fn take(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.settled)
    }
}
