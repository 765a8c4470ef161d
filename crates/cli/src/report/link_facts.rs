//! [`LinkFacts`]: what the link graph says about the pages of a crawl.

use std::path::Path;

use argiope_core::LinkKind;
use argiope_store::disk::{GraphRound, HistoryEvent, LinkGraph};

use super::Top;
use crate::records::{self, ReadError};

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
    /// Pages to which no other page links, roots left out: a sitemap, a redirect of a root or an earlier round led there.
    pub orphans: u64,
    pub first_orphans: Vec<Box<str>>,
}

impl LinkFacts {
    /// Reads the pages of the latest round and the graph. Takes about 20 bytes of memory for each page.
    pub fn of_directory(directory: &Path) -> Result<Self, ReadError> {
        let mut graph = LinkGraph::open(directory, GraphRound::Latest)?;
        let (mut urls, mut resources) = (Vec::new(), Vec::new());
        records::walk(directory, |event| {
            if let HistoryEvent::Link { url, kind: LinkKind::Asset, .. } = event {
                resources.push(graph.url_key(url));
            }
            Ok(())
        })?;
        resources.sort_unstable();
        records::latest_pages(directory, |record| {
            let key = graph.url_key(&record.url);
            if record.is_success() && resources.binary_search(&key).is_err() {
                urls.push(key);
            }
            Ok(())
        })?;
        let inlinks = graph.inlinks(urls)?;
        let mut facts = Self {
            links: inlinks.links,
            sources: inlinks.pages,
            most_linked: Top::new(LISTED),
            orphans: 0,
            first_orphans: Vec::new(),
        };
        records::latest_pages(directory, |record| {
            match inlinks.of(&record.url) {
                Some(0) if record.depth > 0 => {
                    facts.orphans += 1;
                    if facts.first_orphans.len() < LISTED {
                        facts.first_orphans.push(record.url.as_str().into());
                    }
                }
                Some(count @ 1..) => facts.most_linked.offer(count, &record.url),
                _ => {}
            }
            Ok(())
        })?;
        Ok(facts)
    }
}
