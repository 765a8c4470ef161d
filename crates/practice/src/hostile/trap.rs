//! Endless webs: what a crawler can walk into and never come out of.

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    Vec::new()
}
