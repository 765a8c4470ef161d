//! Flow control: receive windows, and the limit on frames without content.
//!
//! A stream's window limits how much the server may send before the consumer has processed earlier bytes: it bounds the
//! memory of a stream whose consumer pauses. It starts small and doubles while the consumer keeps up, until the body's
//! size limit is reached: a body that is too large stalls for lack of window instead of arriving.
//!
//! The connection's window is replenished as bytes arrive, whether they were consumed or not. So a stream that is not
//! consumed never starves the others.

use std::time::Duration;

use crate::time::Time;

/// The receive window of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamWindow {
    /// Bytes that the server may still send.
    open: u32,
    /// Bytes that arrived and are not consumed yet.
    unread: u32,
    /// Maximum of `open + unread`.
    size: u32,
    /// Bytes that may still be granted to the whole body.
    allowance: u64,
}

impl StreamWindow {
    /// `initial` is the initial window of every stream; `most` is the limit on the body.
    pub(super) fn new(initial: u32, most: u64) -> Self {
        Self { open: initial, unread: 0, size: initial, allowance: most.saturating_sub(u64::from(initial)) }
    }

    /// Changes the limit on the body. Window that was granted before stays granted.
    pub(super) fn allow(&mut self, most: u64, received: u64) {
        self.allowance = most.saturating_sub(received).saturating_sub(u64::from(self.open));
    }

    /// Counts received bytes. False if the server exceeded its window.
    #[must_use]
    pub(super) fn receive(&mut self, bytes: u32) -> bool {
        let Some(open) = self.open.checked_sub(bytes) else { return false };
        self.open = open;
        self.unread = self.unread.saturating_add(bytes);
        true
    }

    /// Counts bytes that were consumed.
    pub(super) fn consume(&mut self, bytes: u32) {
        self.unread = self.unread.saturating_sub(bytes);
    }

    /// Counts bytes of padding, which do not use up the limit on the body.
    pub(super) fn consume_padding(&mut self, bytes: u32) {
        self.consume(bytes);
        self.allowance = self.allowance.saturating_add(u64::from(bytes));
    }

    /// Bytes that the server may still send.
    pub(super) fn open(&self) -> u32 {
        self.open
    }

    /// How much to grant now, if it is worth a frame. `largest` bounds the window.
    pub(super) fn grant(&mut self, largest: u32) -> Option<u32> {
        if self.open + self.unread > self.size / 2 || self.allowance == 0 {
            return None;
        }
        self.size = self.size.saturating_mul(2).min(largest).max(self.size);
        let room = u64::from(self.size.saturating_sub(self.open + self.unread));
        let grant = room.min(self.allowance);
        self.allowance -= grant;
        self.open += grant as u32;
        Some(grant as u32)
    }

    /// Whether the server may send this many bytes without another grant.
    pub(super) fn covers(&self, bytes: u64) -> bool {
        u64::from(self.open) >= bytes
    }
}

/// The receive window of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnWindow {
    open: u32,
    size: u32,
}

impl ConnWindow {
    pub(super) fn new(size: u32) -> Self {
        Self { open: size, size }
    }

    /// Counts received bytes. False if the server exceeded its window.
    #[must_use]
    pub(super) fn receive(&mut self, bytes: u32) -> bool {
        let Some(open) = self.open.checked_sub(bytes) else { return false };
        self.open = open;
        true
    }

    /// How much to grant now, if it is worth a frame.
    pub(super) fn grant(&mut self) -> Option<u32> {
        let grant = self.size - self.open;
        (grant > self.size / 2).then(|| {
            self.open = self.size;
            grant
        })
    }
}

/// Frames per second without content: SETTINGS, PING, PRIORITY, RST_STREAM, WINDOW_UPDATE, empty DATA,
/// unknown ones. Servers normally send a handful.
const MAX_IDLE_FRAMES: u32 = 500;

/// Limits frames without content.
#[derive(Clone, Copy, Debug)]
pub(super) struct FloodGuard {
    since: Time,
    count: u32,
}

impl FloodGuard {
    pub(super) fn new(now: Time) -> Self {
        Self { since: now, count: 0 }
    }

    /// Counts one more frame. False if there were too many within a second.
    #[must_use]
    pub(super) fn count(&mut self, now: Time) -> bool {
        if now.since(self.since) >= Duration::from_secs(1) {
            *self = Self::new(now);
        }
        self.count += 1;
        self.count <= MAX_IDLE_FRAMES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_doubles_while_it_is_consumed_up_to_the_limit_of_the_body() {
        let mut window = StreamWindow::new(100, 1_000);
        let mut received = 0;
        for grant in [150, 300, 200] {
            // Receive bytes until half of the window is left.
            let bytes = window.open - window.size / 2;
            assert!(window.receive(bytes));
            received += bytes;
            window.consume(bytes);
            assert_eq!(window.grant(400), Some(grant), "after {received} bytes");
        }
        assert_eq!(received + window.open, 750);
        let open = window.open;
        assert!(window.receive(open));
        window.consume(open);
        assert_eq!(window.grant(400), Some(250), "the rest of the body's limit");
        assert!(window.receive(250));
        window.consume(250);
        assert_eq!(window.grant(400), None, "the limit is reached");
        assert!(!window.receive(1));
    }

    #[test]
    fn what_is_not_consumed_is_not_granted_again() {
        let mut window = StreamWindow::new(100, 1_000);
        assert!(window.receive(100));
        assert_eq!(window.grant(400), None);
        window.consume(40);
        assert_eq!(window.grant(400), None);
        window.consume(20);
        assert_eq!(window.grant(400), Some(160), "40 bytes are still unread");
        window.allow(120, 100);
        assert_eq!(window.allowance, 0);
    }

    #[test]
    fn the_connection_window_is_replenished_as_bytes_arrive() {
        let mut window = ConnWindow::new(1_000);
        assert!(window.receive(500));
        assert_eq!(window.grant(), None);
        assert!(window.receive(1));
        assert_eq!(window.grant(), Some(501));
        assert!(!window.receive(1_001));
    }

    #[test]
    fn floods_are_counted_by_the_second() {
        let start = Time::from_micros(5_000_000);
        let mut guard = FloodGuard::new(start);
        assert!((0..MAX_IDLE_FRAMES).all(|_| guard.count(start)));
        assert!(!guard.count(start + Duration::from_millis(999)));
        assert!(guard.count(start + Duration::from_secs(1)), "a new second");
    }
}
