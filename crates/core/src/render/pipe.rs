//! The framing of the debugging protocol over a pipe: JSON messages, each followed by a NUL byte.

use memchr::memchr;

/// How much of a message is kept that is longer than allowed: enough to know what it answers.
const KEPT_OF_LONG: usize = 1 << 10;

/// A message from the browser.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    Whole(&'a [u8]),
    /// The beginning of a message that was longer than allowed. The rest is dropped.
    TooLong(&'a [u8]),
}

/// Splits the bytes from the browser into messages.
#[derive(Debug)]
pub(super) struct MessageSplitter {
    /// Limit on the length of a message in bytes.
    limit: usize,
    /// The beginning of a message that is not complete.
    partial: Vec<u8>,
    /// Whether that message has exceeded the limit.
    is_too_long: bool,
}

impl MessageSplitter {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, partial: Vec::new(), is_too_long: false }
    }

    /// The bytes that are held.
    pub(super) fn bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// Passes every message that is complete with these bytes to `take`.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut take: impl FnMut(Message<'_>)) {
        while let Some(end) = memchr(0, bytes) {
            let (message, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            if self.partial.is_empty() && message.len() <= self.limit {
                take(Message::Whole(message));
                continue;
            }
            self.hold(message);
            let whole = std::mem::take(&mut self.partial);
            take(if std::mem::take(&mut self.is_too_long) { Message::TooLong(&whole) } else { Message::Whole(&whole) });
        }
        self.hold(bytes);
    }

    fn hold(&mut self, bytes: &[u8]) {
        if !self.is_too_long {
            self.partial.extend_from_slice(bytes);
            if self.partial.len() > self.limit {
                self.is_too_long = true;
                self.partial.truncate(KEPT_OF_LONG);
                self.partial.shrink_to_fit();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages that come from these parts: their text, and whether they were too long.
    fn split(limit: usize, parts: &[&[u8]]) -> Vec<(String, bool)> {
        let (mut splitter, mut seen) = (MessageSplitter::new(limit), Vec::new());
        for part in parts {
            splitter.feed(part, |message| {
                let (bytes, is_too_long) = match message {
                    Message::Whole(bytes) => (bytes, false),
                    Message::TooLong(bytes) => (bytes, true),
                };
                seen.push((String::from_utf8_lossy(bytes).into_owned(), is_too_long));
            });
        }
        seen
    }

    #[test]
    fn messages_are_split_at_every_cut() {
        let input = b"{\"a\":1}\0{}\0{\"b\":2}\0";
        let expected = ["{\"a\":1}", "{}", "{\"b\":2}"].map(|text| (text.to_owned(), false));
        for cut in 0..input.len() {
            let (first, second) = input.split_at(cut);
            assert_eq!(split(100, &[first, second]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_message_beyond_the_limit_loses_its_rest_and_the_next_one_is_whole() {
        let long = [&[b'x'; 5_000][..], b"\0{}\0"].concat();
        let expected = [("x".repeat(KEPT_OF_LONG), true), ("{}".to_owned(), false)];
        for cut in [0, 10, 1_999, 2_000, 2_001, 4_999, 5_000, 5_001, 5_002] {
            let (first, second) = long.split_at(cut);
            assert_eq!(split(2_000, &[first, second]), expected, "cut at {cut}");
        }
    }
}
