//! robots.txt that is missing, endless, hostile or in the way.

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    Vec::new()
}
