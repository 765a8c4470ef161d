//! Records of links: how the [`DiskFrontier`] writes them to the log and reads them.

use super::DiskFrontier;
use crate::disk::fault::damaged;
use crate::disk::log::FOLDER;
use crate::disk::record::{LinkRecord, QueuedAs, Record};
use crate::link_codec::{BareLink, after_host};
use argiope_core::{LaneId, Link, LinkRef, StoreError, UrlRef};

/// How the record of a link relates to an earlier record of the same link. The default is a new link.
#[derive(Clone, Copy, Default)]
pub(super) struct LinkChange {
    /// The position of the record that is replaced.
    pub replaces: Option<u64>,
    pub queued_as: QueuedAs,
}

impl DiskFrontier {
    /// Queues a settled link again.
    pub(super) fn append_again(&mut self, lane: LaneId, link: LinkRef<'_>) -> Result<(), StoreError> {
        self.append_record(lane, link, LinkChange { replaces: None, queued_as: QueuedAs::Again })?;
        self.state.settled -= 1;
        Ok(())
    }

    /// Queues a link that is new, or that replaces its earlier record.
    pub(super) fn append_link(
        &mut self,
        lane: LaneId,
        link: LinkRef<'_>,
        replaces: Option<u64>,
    ) -> Result<(), StoreError> {
        self.append_record(lane, link, LinkChange { replaces, queued_as: QueuedAs::Found })
    }

    /// Appends the record of a link to the journal, and queues it.
    fn append_record(&mut self, lane: LaneId, link: LinkRef<'_>, change: LinkChange) -> Result<(), StoreError> {
        let position = self.write_link(lane, link, after_host(link.url), change)?;
        self.state.queue(lane, link.rank(), position);
        self.queued += 1;
        Ok(())
    }

    /// Appends the record of a link. `rest` is the part of its URL after the name of the lane. Returns the position.
    pub(super) fn write_link(
        &mut self,
        lane: LaneId,
        link: LinkRef<'_>,
        rest: &str,
        change: LinkChange,
    ) -> Result<u64, StoreError> {
        let LinkChange { replaces, queued_as } = change;
        let via = match (link.via, &self.page_written) {
            (None, _) => None,
            (Some(via), Some((url, position))) if url == via => Some(*position),
            (Some(via), _) => {
                let position = self.journal.append(&Record::Page { url: via.as_str() })?;
                self.page_written = Some((via.clone(), position));
                Some(position)
            }
        };
        let request = link.request.map(|request| request.encode());
        let link = BareLink { rest, ..BareLink::new(link, request.as_deref()) };
        self.journal.append(&Record::Link(LinkRecord { lane, via, replaces, queued_as, link }))
    }

    /// Reads the link at a log position. Returns an error if there is no link, or if it belongs to another lane. `None`
    /// accepts any lane.
    pub(super) fn read_link(&mut self, lane: Option<LaneId>, position: u64) -> Result<Link, StoreError> {
        let wrong = |what: &str| damaged(&*self.files, FOLDER, &format!("position {position} does not hold a {what}"));
        let names = &self.state.names;
        let (mut link, via) = self
            .journal
            .read(position, |record| match record {
                Record::Link(record) if lane.is_none_or(|lane| record.lane == lane) => {
                    Some((record.link.to_link(names.name(record.lane)?, None)?, record.via))
                }
                _ => None,
            })?
            .ok_or_else(|| wrong("link"))?;
        if let Some(via) = via {
            link.via = match &self.page_read {
                Some((position, url)) if *position == via => Some(url.clone()),
                _ => {
                    let page = self.journal.read(via, |record| match record {
                        Record::Page { url } => Some(UrlRef::from_normal(url)?.to_url()),
                        _ => None,
                    })?;
                    let page = page.ok_or_else(|| wrong("link whose page is known"))?;
                    self.page_read = Some((via, page.clone()));
                    Some(page)
                }
            };
        }
        Ok(link)
    }
}
