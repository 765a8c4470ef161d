//! Names and addresses that lead into private networks, or nowhere.

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    Vec::new()
}
