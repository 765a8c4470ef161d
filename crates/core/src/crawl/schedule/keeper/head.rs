//! [`HeadAnswers`]: which hosts answer HEAD as they answer GET.
//!
//! With `head_first`, a GET follows a HEAD that failed, because some hosts answer HEAD wrongly. On a host that answers HEAD
//! well, a missing page would then be requested twice.

use std::collections::HashMap;

use crate::base::job::LaneId;
use crate::crawl::visit::Visit;

/// What the requests of each lane have shown so far.
#[derive(Debug, Default)]
pub(super) struct HeadAnswers(HashMap<LaneId, bool>);

impl HeadAnswers {
    /// Notes the answer to the first (HEAD) or a later attempt (GET) at a page.
    pub fn note(&mut self, visit: &Visit) {
        let (Some((lane, _)), Some(status)) = (visit.for_keeper.slot, visit.facts.status) else { return };
        let (is_good, is_head) = ((200..300).contains(&status), visit.link.tries <= 1);
        match (is_head, is_good) {
            // A good answer to HEAD, or a GET that confirms that the page is missing.
            (true, true) => {
                self.0.entry(lane).or_insert(true);
            }
            (false, false) if is_missing(status) => {
                self.0.entry(lane).or_insert(true);
            }
            // The HEAD failed and the GET did not. This holds for the rest of the run.
            (false, true) => {
                self.0.insert(lane, false);
            }
            _ => {}
        }
    }

    /// Whether this answer to a HEAD says that the page is missing, and the host answers HEAD well.
    pub fn is_final(&self, visit: &Visit) -> bool {
        let is_trusted = visit.for_keeper.slot.is_some_and(|(lane, _)| self.0.get(&lane) == Some(&true));
        is_trusted && visit.facts.status.is_some_and(is_missing)
    }
}

fn is_missing(status: u16) -> bool {
    matches!(status, 404 | 410)
}
