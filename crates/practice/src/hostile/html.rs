//! Pages that are expensive, broken or misleading to read.

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    Vec::new()
}
