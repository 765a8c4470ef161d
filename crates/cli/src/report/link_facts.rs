//! [`LinkFacts`]: figures of the link graph of a crawl.

use argiope_core::LinkKind;
use argiope_store::disk::{GraphRound, HistoryEvent};

use super::Top;
use crate::records::{self, ReadError, StoredRecord};
use crate::results::Results;

/// Maximum number of pages in each list.
const MAX_LISTED: usize = 10;

/// Numbers of links, the pages that most pages link to, and orphans.
#[derive(Clone, Debug)]
pub struct LinkFacts {
    /// Links on all pages, distinct by page, URL and kind.
    pub links: u64,
    /// Pages with links.
    pub sources: u64,
    /// The pages with the most inlinks, with the number of pages that link to them.
    pub most_linked: Top<u32>,
    /// Pages below the roots that no page links or redirects to. They were found in a sitemap or in an earlier round.
    pub orphans: u64,
    /// The URLs of the first orphans.
    pub first_orphans: Vec<Box<str>>,
}

impl LinkFacts {
    /// Reads the pages of the latest round and the graph. Takes about 20 bytes of memory for each page.
    pub fn of(results: &Results) -> Result<Self, ReadError> {
        let mut graph = results.graph(GraphRound::Latest)?;
        // The first pass counts the rounds after the first in `rounds_left`. The second pass counts them down to find the last
        // one.
        let (mut page_keys, mut asset_keys, mut rounds_left) = (Vec::new(), Vec::new(), 0_u64);
        results.walk(|event| {
            match event {
                HistoryEvent::Round => {
                    rounds_left += 1;
                    page_keys.clear();
                }
                HistoryEvent::Link { url, kind: LinkKind::Asset, .. } => asset_keys.push(graph.url_key(url)),
                HistoryEvent::FinalOutcome { line, .. } | HistoryEvent::Line { line } => {
                    let record = records::read(line)?;
                    if record.is_page() && record.is_success() {
                        page_keys.push(graph.url_key(&record.url));
                    }
                }
                HistoryEvent::Link { .. } | HistoryEvent::Note { .. } => {}
            }
            Ok(())
        })?;
        // Images and other files are not pages.
        asset_keys.sort_unstable();
        page_keys.retain(|key| asset_keys.binary_search(key).is_err());
        let inlinks = graph.inlinks(page_keys)?;
        let mut facts = Self {
            links: inlinks.links,
            sources: inlinks.pages,
            most_linked: Top::new(MAX_LISTED),
            orphans: 0,
            first_orphans: Vec::new(),
        };
        results.walk_latest(|event| {
            match event {
                HistoryEvent::Round => rounds_left = rounds_left.saturating_sub(1),
                HistoryEvent::FinalOutcome { line, .. } | HistoryEvent::Line { line } if rounds_left == 0 => {
                    let record = records::read(line)?;
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
            Some(0) if page.depth() > 0 => {
                self.orphans += 1;
                if self.first_orphans.len() < MAX_LISTED {
                    self.first_orphans.push((*page.url).into());
                }
            }
            Some(count @ 1..) => self.most_linked.add(count, &page.url),
            _ => {}
        }
    }
}
