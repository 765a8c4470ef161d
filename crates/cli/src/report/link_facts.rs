//! [`LinkFacts`]: what the link graph says about the pages of a crawl.

use std::path::Path;

use argiope_core::LinkKind;
use argiope_store::disk::{GraphRound, HistoryEvent, LinkGraph};

use super::Top;
use crate::records::{self, ReadError, StoredRecord};

/// Pages listed.
const LISTED: usize = 10;

/// Numbers of links, the pages that most pages link to, and orphans.
#[derive(Clone, Debug)]
pub struct LinkFacts {
    /// Links on all pages, distinct by page, URL and kind.
    pub links: u64,
    /// Pages with links.
    pub sources: u64,
    /// The pages with the most pages that link to them.
    pub most_linked: Top<u32>,
    /// Pages below the roots that no page links or redirects to. They were found in a sitemap or in an earlier round.
    pub orphans: u64,
    pub first_orphans: Vec<Box<str>>,
}

impl LinkFacts {
    /// Reads the pages of the latest round and the graph. Takes about 20 bytes of memory for each page.
    pub fn of_directory(directory: &Path) -> Result<Self, ReadError> {
        let mut graph = LinkGraph::open(directory, GraphRound::Latest)?;
        let (mut urls, mut resources, mut rounds) = (Vec::new(), Vec::new(), 0_u64);
        records::walk(directory, |event| {
            match event {
                HistoryEvent::Round => {
                    rounds += 1;
                    urls.clear();
                }
                HistoryEvent::Link { url, kind: LinkKind::Asset, .. } => resources.push(graph.url_key(url)),
                HistoryEvent::FinalOutcome { line, .. } | HistoryEvent::Line { line } => {
                    let record = StoredRecord::read(line)?;
                    if record.is_page() && record.is_success() {
                        urls.push(graph.url_key(&record.url));
                    }
                }
                HistoryEvent::Link { .. } | HistoryEvent::Note { .. } => {}
            }
            Ok(())
        })?;
        resources.sort_unstable();
        urls.retain(|key| resources.binary_search(key).is_err());
        let inlinks = graph.inlinks(urls)?;
        let mut facts = Self {
            links: inlinks.links,
            sources: inlinks.pages,
            most_linked: Top::new(LISTED),
            orphans: 0,
            first_orphans: Vec::new(),
        };
        records::walk_latest(directory, |event| {
            match event {
                HistoryEvent::Round => rounds = rounds.saturating_sub(1),
                HistoryEvent::FinalOutcome { line, .. } | HistoryEvent::Line { line } if rounds == 0 => {
                    let record = StoredRecord::read(line)?;
                    if record.is_page() && record.is_success() {
                        facts.add(&record, inlinks.of(&record.url));
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(facts)
    }

    fn add(&mut self, page: &StoredRecord, inlinks: Option<u32>) {
        match inlinks {
            Some(0) if page.depth > 0 => {
                self.orphans += 1;
                if self.first_orphans.len() < LISTED {
                    self.first_orphans.push(page.url.as_str().into());
                }
            }
            Some(count @ 1..) => self.most_linked.offer(count, &page.url),
            _ => {}
        }
    }
}
