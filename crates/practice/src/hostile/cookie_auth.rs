//! Cookies and credentials that somebody wants to see on the wrong host.

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    Vec::new()
}
