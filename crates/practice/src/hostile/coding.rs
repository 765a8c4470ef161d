//! Content codings: bombs, broken streams and labels that are not true.

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    Vec::new()
}
