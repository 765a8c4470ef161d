//! Sitemaps that are bombs, loops or lies.

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    Vec::new()
}
