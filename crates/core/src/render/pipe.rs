//! The framing of the debugging protocol over a pipe: JSON messages, each followed by a NUL byte.

use memchr::memchr;

/// Limit on the length of a message from the browser, in bytes.
pub const MAX_MESSAGE: usize = 256 << 20;

/// Splits the bytes from the browser into messages.
#[derive(Debug, Default)]
pub(super) struct MessageSplitter {
    /// The beginning of a message that is not complete.
    partial: Vec<u8>,
}

/// A message was longer than [`MAX_MESSAGE`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MessageTooLong;

impl MessageSplitter {
    /// Passes every message that is complete with these bytes to `take`.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), MessageTooLong> {
        while let Some(end) = memchr(0, bytes) {
            let (message, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            if self.partial.is_empty() {
                take(message);
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(message);
                take(&whole);
            }
        }
        if self.partial.len() + bytes.len() > MAX_MESSAGE {
            self.partial = Vec::new();
            return Err(MessageTooLong);
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_split_at_every_cut() {
        let input = b"{\"a\":1}\0{}\0{\"b\":2}\0";
        for cut in 0..input.len() {
            let (first, second) = input.split_at(cut);
            let (mut splitter, mut seen) = (MessageSplitter::default(), Vec::new());
            for part in [first, second] {
                splitter.feed(part, |message| seen.push(String::from_utf8_lossy(message).into_owned())).expect("short");
            }
            assert_eq!(seen, ["{\"a\":1}", "{}", "{\"b\":2}"], "cut at {cut}");
        }
    }
}
