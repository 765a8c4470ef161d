//! Charsets and content types that are missing, wrong or absurd.

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    Vec::new()
}
