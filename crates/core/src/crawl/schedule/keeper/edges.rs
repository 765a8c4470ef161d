//! Adds the links of settled visits to the link graph.

use super::Keeper;
use crate::base::job::Purpose;
use crate::base::link::LinkKind;
use crate::base::link_list::LinkList;
use crate::base::outcome::Outcome;
use crate::crawl::schedule::frontier::{FoundEdges, Frontier, StoreError};
use crate::crawl::visit::Visit;

impl<F: Frontier> Keeper<F> {
    /// Stores the links of a visit that is settled.
    ///
    /// A 304 response leaves the links of the last full response in place. Any other response replaces them.
    pub(super) fn keep_edges(&mut self, visit: &mut Visit) -> Result<(), StoreError> {
        let found = visit.for_keeper.edges.take();
        let links = match (visit.facts.outcome, found, &visit.facts.redirect) {
            _ if matches!(visit.purpose, Purpose::Robots(_)) => return Ok(()),
            (Outcome::NotModified, ..) => return Ok(()),
            (Outcome::Ok, Some(links), _) => links,
            (Outcome::Redirect, _, Some(target)) => {
                let mut links = LinkList::default();
                // The last argument: a redirect is not `nofollow`.
                links.push(target.as_str(), LinkKind::Redirect, false);
                Box::new(links)
            }
            _ => Box::default(),
        };
        let cut = visit.findings.links_cut;
        // An empty list is needed only in a recrawl, where it replaces the links of the previous round.
        if links.is_empty() && cut == 0 && !self.frontier.is_recrawl() {
            return Ok(());
        }
        let is_sitemap = visit.purpose == Purpose::Sitemap;
        self.frontier.keep_edges(&FoundEdges { source: &visit.link.url, is_sitemap, links: &links, cut })
    }
}
