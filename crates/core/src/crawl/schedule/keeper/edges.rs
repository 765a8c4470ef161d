//! The links of settled visits, for the link graph.

use crate::base::link::LinkKind;
use crate::base::link_list::LinkList;
use crate::base::outcome::Outcome;
use crate::crawl::visit::Visit;

/// Takes the links of a visit that is settled; `None` if none are stored.
///
/// A 304 response leaves the links of the last full response in place. Any other response replaces them.
pub(super) fn edges_of(visit: &mut Visit, is_recrawl: bool) -> Option<Box<LinkList>> {
    let found = visit.for_keeper.edges.take();
    let links = match (visit.facts.outcome, found, &visit.facts.redirect) {
        _ if !visit.purpose.is_in_frontier() => return None,
        (Outcome::NotModified, ..) => return None,
        (Outcome::Ok, Some(links), _) => links,
        (Outcome::Redirect, _, Some(target)) => {
            let mut links = LinkList::default();
            // The last argument: a redirect is not `nofollow`.
            links.push(target.as_str(), LinkKind::Redirect, false);
            Box::new(links)
        }
        _ => Box::default(),
    };
    // An empty list is needed only in a recrawl, where it replaces the links of the previous round.
    let is_needed = !links.is_empty() || visit.findings.links_cut > 0 || is_recrawl;
    is_needed.then_some(links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::job::Purpose;
    use crate::base::link::Link;
    use crate::base::time::Time;
    use crate::base::url::Url;

    #[test]
    fn links_are_replaced_by_every_response_but_a_304() {
        let url = |path: &str| Url::parse(&format!("http://h.example/{path}")).expect("a URL");
        let edges = |outcome, is_recrawl| {
            let mut visit = Visit::with_outcome(Link::root(url(""), 5), Purpose::Page, outcome, Time::ZERO);
            visit.facts.redirect = Some(url("target"));
            let mut found = LinkList::default();
            found.push("http://h.example/a", LinkKind::Anchor, false);
            visit.for_keeper.edges = Some(Box::new(found));
            edges_of(&mut visit, is_recrawl).map(|links| links.len())
        };
        assert_eq!((edges(Outcome::Ok, false), edges(Outcome::Redirect, false)), (Some(1), Some(1)));
        assert_eq!((edges(Outcome::NotModified, false), edges(Outcome::NotModified, true)), (None, None));
        assert_eq!(edges(Outcome::Failed, false), None, "an empty list needs no place");
        assert_eq!(edges(Outcome::Failed, true), Some(0), "it replaces the links of the previous round");
    }
}
