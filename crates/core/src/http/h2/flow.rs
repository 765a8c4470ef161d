//! Flow control: receive windows, and the limit on frames without content.
//!
//! A stream's window limits how much the server may send before the consumer has processed earlier bytes. So it bounds
//! the memory of a stream whose consumer pauses. The window starts small and doubles while the consumer keeps up. The
//! sum of all granted bytes is limited by the size limit of the body, so most of a body that is too large is never
//! sent.
//!
//! The connection's window is replenished as bytes arrive, whether they were consumed or not. So a stream that is not
//! consumed never starves the others.

use std::time::Duration;

use crate::base::time::Time;

/// The receive window of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamWindow {
    /// Bytes that the server may still send.
    available: u32,
    /// Bytes that arrived and are not consumed yet.
    unread: u32,
    /// Maximum of `available + unread`.
    size: u32,
    /// Bytes that may still be granted to the whole body.
    allowance: u64,
}

impl StreamWindow {
    /// `initial` is the initial window of every stream.
    pub(super) fn new(initial: u32, body_limit: u64) -> Self {
        let allowance = body_limit.saturating_sub(u64::from(initial));
        Self { available: initial, unread: 0, size: initial, allowance }
    }

    /// Changes the limit on the body. `received` is how much of the body has arrived. What was granted before stays
    /// granted.
    pub(super) fn set_body_limit(&mut self, body_limit: u64, received: u64) {
        self.allowance = body_limit.saturating_sub(received).saturating_sub(u64::from(self.available));
    }

    /// Counts received bytes. False if the server exceeded its window.
    #[must_use]
    pub(super) fn receive(&mut self, bytes: u32) -> bool {
        let Some(available) = self.available.checked_sub(bytes) else { return false };
        self.available = available;
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
    pub(super) fn available(&self) -> u32 {
        self.available
    }

    /// Grants more bytes if that is worth a frame, and returns how many. The window does not grow beyond `max_size`.
    pub(super) fn grant(&mut self, max_size: u32) -> Option<u32> {
        if self.available + self.unread > self.size / 2 || self.allowance == 0 {
            return None;
        }
        self.size = self.size.saturating_mul(2).min(max_size).max(self.size);
        let room = u64::from(self.size.saturating_sub(self.available + self.unread));
        let grant = room.min(self.allowance);
        self.allowance -= grant;
        self.available += grant as u32;
        Some(grant as u32)
    }

    /// Whether the server may send this many bytes without another grant.
    pub(super) fn covers(&self, bytes: u64) -> bool {
        u64::from(self.available) >= bytes
    }
}

/// The receive window of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnWindow {
    /// Bytes that the server may still send.
    available: u32,
    size: u32,
}

impl ConnWindow {
    pub(super) fn new(size: u32) -> Self {
        Self { available: size, size }
    }

    /// Counts received bytes. False if the server exceeded its window.
    #[must_use]
    pub(super) fn receive(&mut self, bytes: u32) -> bool {
        let Some(available) = self.available.checked_sub(bytes) else { return false };
        self.available = available;
        true
    }

    /// Grants more bytes if that is worth a frame, and returns how many.
    pub(super) fn grant(&mut self) -> Option<u32> {
        let grant = self.size - self.available;
        (grant > self.size / 2).then(|| {
            self.available = self.size;
            grant
        })
    }
}

/// Limit on frames per second without content. These are all frames except DATA and CONTINUATION with content, DATA
/// that ends a stream, HEADERS on open streams, and WINDOW_UPDATE for data that we sent. Servers normally send a
/// handful.
const MAX_CONTENTLESS_FRAMES: u32 = 500;

/// Limits frames without content.
#[derive(Clone, Copy, Debug)]
pub(super) struct FloodGuard {
    /// When the current second of counting began.
    since: Time,
    /// Frames since then.
    count: u32,
}

impl FloodGuard {
    pub(super) fn new(now: Time) -> Self {
        Self { since: now, count: 0 }
    }

    /// Counts one more frame. False if there were too many within a second.
    #[must_use]
    pub(super) fn count_frame(&mut self, now: Time) -> bool {
        if now.since(self.since) >= Duration::from_secs(1) {
            *self = Self::new(now);
        }
        self.count += 1;
        self.count <= MAX_CONTENTLESS_FRAMES
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
            let bytes = window.available - window.size / 2;
            assert!(window.receive(bytes));
            received += bytes;
            window.consume(bytes);
            assert_eq!(window.grant(400), Some(grant), "after {received} bytes");
        }
        assert_eq!(received + window.available, 750);
        let available = window.available;
        assert!(window.receive(available));
        window.consume(available);
        assert_eq!(window.grant(400), Some(250), "the rest of the body's limit");
        assert!(window.receive(250));
        window.consume(250);
        assert_eq!(window.grant(400), None, "the limit is reached");
        assert!(!window.receive(1));
    }

    #[test]
    fn bytes_that_are_not_consumed_are_not_granted_again() {
        let mut window = StreamWindow::new(100, 1_000);
        assert!(window.receive(100));
        assert_eq!(window.grant(400), None);
        window.consume(40);
        assert_eq!(window.grant(400), None);
        window.consume(20);
        assert_eq!(window.grant(400), Some(160), "40 bytes are still unread");
        window.set_body_limit(120, 100);
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
    fn contentless_frames_are_limited_per_second() {
        let start = Time::from_micros(5_000_000);
        let mut guard = FloodGuard::new(start);
        assert!((0..MAX_CONTENTLESS_FRAMES).all(|_| guard.count_frame(start)));
        assert!(!guard.count_frame(start + Duration::from_millis(999)));
        assert!(guard.count_frame(start + Duration::from_secs(1)), "a new second");
    }
}
