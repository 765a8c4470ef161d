//! Certificates and handshakes that must not be accepted, or not be waited for.

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    Vec::new()
}
