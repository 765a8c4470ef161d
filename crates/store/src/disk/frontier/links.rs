//! Records of links: how the [`DiskFrontier`] writes them to the log and reads them.

use super::DiskFrontier;
use crate::disk::fault::damaged;
use crate::disk::log::FOLDER;
use crate::disk::record::{LinkRecord, Record};
use crate::memory::after_host;
use argiope_core::page::custom_request::CustomRequest;
use argiope_core::{LaneId, Link, LinkRef, StoreError, UrlRef};
use std::sync::Arc;

/// How the record of a link relates to an earlier record of the same link. The default is a new link.
#[derive(Clone, Copy, Default)]
pub(super) struct LinkChange {
    /// The position of the record that is replaced.
    pub replaces: Option<u64>,
    /// Whether the link was settled and is queued again.
    pub again: bool,
    /// Whether the replaced record is that of a deferred link.
    pub was_deferred: bool,
}

impl DiskFrontier {
    /// Queues a settled link again.
    pub(super) fn append_again(&mut self, lane: LaneId, link: LinkRef<'_>) -> Result<(), StoreError> {
        self.append_record(lane, link, None, true)?;
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
        self.append_record(lane, link, replaces, false)
    }

    /// Appends the record of a link to the journal, and queues it.
    fn append_record(
        &mut self,
        lane: LaneId,
        link: LinkRef<'_>,
        replaces: Option<u64>,
        again: bool,
    ) -> Result<(), StoreError> {
        let rest = after_host(link.url);
        let position = self.write_link(lane, link, rest, LinkChange { replaces, again, ..LinkChange::default() })?;
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
        let LinkChange { replaces, again, was_deferred } = change;
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
        self.journal.append(&Record::Link(LinkRecord {
            lane,
            depth: link.depth,
            redirects: link.redirects,
            tries: link.tries,
            kind: link.kind,
            https: link.url.is_https(),
            via,
            replaces,
            again,
            was_deferred,
            request: request.as_deref(),
            rest,
        }))
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
                    let host = names.name(record.lane)?;
                    let link = Link {
                        url: UrlRef::from_normal(&url_text(&record, host))?.to_url(),
                        via: None,
                        depth: record.depth,
                        redirects: record.redirects,
                        tries: record.tries,
                        kind: record.kind,
                        request: match record.request {
                            None => None,
                            Some(request) => Some(Arc::new(CustomRequest::decode(request)?)),
                        },
                    };
                    Some((link, record.via))
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

/// The URL of a link record, as text.
fn url_text(record: &LinkRecord<'_>, host: &str) -> String {
    [if record.https { "https://" } else { "http://" }, host, record.rest].concat()
}
