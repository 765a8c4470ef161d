//! What tries to get out of the output files and onto the terminal.

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    Vec::new()
}
