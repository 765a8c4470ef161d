//! [`CustomFrontier`]: an adapter for a custom frontier. The runtime requires a [`CommitFrontier`], which can commit to a
//! crawl directory; a custom frontier does not commit.

use argiope_core::base::job::LaneId;
use argiope_core::base::link::LinkRef;
use argiope_core::base::link::{Link, LinkKind};
use argiope_core::base::url::UrlRef;
use argiope_core::crawl::schedule::frontier::{
    Counts, FinalOutcome, FoundEdges, Frontier, FrontierNews, FrontierWaker, Put, StoreError,
};
use argiope_core::crawl::schedule::keeper::ArchiveChunk;
use argiope_core::crawl::warc::WarcLocation;
use argiope_runtime::writer_thread::CommitFrontier;

/// A custom frontier with the default methods of [`CommitFrontier`], which commit nothing.
pub(crate) struct CustomFrontier<F>(pub F);

impl<F: Frontier> Frontier for CustomFrontier<F> {
    fn offer(&mut self, link: LinkRef<'_>) -> Result<Option<LaneId>, StoreError> {
        self.0.offer(link)
    }

    fn prefetch(&self, links: &mut dyn Iterator<Item = LinkRef<'_>>) {
        self.0.prefetch(links);
    }

    fn keep_archive(&mut self, place: &WarcLocation, chunk: &mut ArchiveChunk) {
        self.0.keep_archive(place, chunk);
    }

    fn is_known(&self, url: UrlRef<'_>, kind: LinkKind) -> Result<bool, StoreError> {
        self.0.is_known(url, kind)
    }

    fn take(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError> {
        self.0.take(lane, max_links)
    }

    fn settle(&mut self, link: &Link, final_outcome: FinalOutcome<'_>) -> Result<(), StoreError> {
        self.0.settle(link, final_outcome)
    }

    fn give_back(&mut self, link: Link) -> Result<(), StoreError> {
        self.0.give_back(link)
    }

    fn set_waker(&mut self, waker: FrontierWaker) {
        self.0.set_waker(waker);
    }

    fn mark_sent(&mut self, link: &Link) -> Result<(), StoreError> {
        self.0.mark_sent(link)
    }

    fn put_back(&mut self, link: Link) -> Result<(), StoreError> {
        self.0.put_back(link)
    }

    fn has_lane(&self, host: &str) -> bool {
        self.0.has_lane(host)
    }

    fn keep_edges(&mut self, edges: &FoundEdges<'_>) -> Result<(), StoreError> {
        self.0.keep_edges(edges)
    }

    fn attempt_failed(&mut self, link: &Link, bytes: u64) -> Result<(), StoreError> {
        self.0.attempt_failed(link, bytes)
    }

    fn left(&mut self, lane: LaneId) -> Result<(), StoreError> {
        self.0.left(lane)
    }

    fn news(&mut self) -> Result<Vec<FrontierNews>, StoreError> {
        self.0.news()
    }

    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError> {
        self.0.lane_of(host)
    }

    fn lane_name(&self, lane: LaneId) -> Option<&str> {
        self.0.lane_name(lane)
    }

    fn can_defer(&self) -> bool {
        self.0.can_defer()
    }

    fn defer(&mut self, link: LinkRef<'_>) -> Result<bool, StoreError> {
        self.0.defer(link)
    }

    fn deferred(&self) -> u64 {
        self.0.deferred()
    }

    fn admit_deferred(&mut self, max_links: usize) -> Result<Vec<LaneId>, StoreError> {
        self.0.admit_deferred(max_links)
    }

    fn queued_in(&self, lane: LaneId) -> u64 {
        self.0.queued_in(lane)
    }

    fn lanes_with_work(&self) -> Vec<LaneId> {
        self.0.lanes_with_work()
    }

    fn counts(&self) -> Counts {
        self.0.counts()
    }

    fn keep_note(&mut self, about: Option<LaneId>, note: &[u8]) -> Result<(), StoreError> {
        self.0.keep_note(about, note)
    }

    fn note(&mut self, about: Option<LaneId>) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.note(about)
    }

    fn is_recrawl(&self) -> bool {
        self.0.is_recrawl()
    }

    fn earlier(&mut self, url: UrlRef<'_>, kind: LinkKind) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.earlier(url, kind)
    }

    fn put(&mut self, links: Vec<Link>) -> Result<Put, StoreError> {
        self.0.put(links)
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }
}

impl<F: Frontier> CommitFrontier for CustomFrontier<F> {}
