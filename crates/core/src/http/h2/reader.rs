//! [`Reader`]: how far the frames of the server are parsed.

use crate::base::budget::BudgetCharge;

use super::frame::{FrameHeader, HEADER};

/// The progress of parsing.
#[derive(Default)]
pub(super) struct Reader {
    /// The header of the next frame, and how many bytes of it have arrived.
    pub(super) header: [u8; HEADER],
    pub(super) header_len: u8,
    /// The frame whose payload is being read.
    pub(super) frame: Option<Frame>,
    /// A header block that is not complete yet.
    pub(super) block: Option<Box<Block>>,
}

/// A frame whose payload is being read.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) header: FrameHeader,
    /// Bytes of the payload that are still to come.
    pub(super) left: u32,
    /// Bytes of padding at the end of the payload; 0 until that is known.
    pub(super) padding: u32,
    /// Bytes still to come of the fields before the content: padding length and priority.
    pub(super) prefix: u8,
    /// The first bytes of the payload of a control frame. In SETTINGS, the bytes of an incomplete setting.
    pub(super) small: [u8; 8],
    /// How many bytes of `small` have arrived. In DATA and HEADERS frames, it only says whether the first byte of the
    /// payload was read: 0 if it was not.
    pub(super) small_len: u8,
}

/// A header block that is not complete yet.
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    pub(super) bytes: Vec<u8>,
    /// Bytes that were skipped because the block is too long, or because its stream has ended or is unwanted.
    pub(super) skipped: usize,
    /// The memory charge for `bytes`, if they are more than [`UNCHARGED_HEAD`].
    pub(super) charge: Option<BudgetCharge>,
}

impl Reader {
    pub(super) fn heap_bytes(&self) -> usize {
        self.block.as_ref().map_or(0, |block| size_of::<Block>() + block.bytes.capacity())
    }

    /// False if an incomplete header block must not grow, because the budget has no room for it.
    pub(super) fn may_grow(&mut self) -> bool {
        self.block.as_mut().and_then(|block| block.charge.as_mut()).is_none_or(BudgetCharge::may_grow)
    }
}

impl Frame {
    pub(super) fn small(&self) -> &[u8] {
        self.small.get(..usize::from(self.small_len)).unwrap_or_default()
    }

    /// The 32-bit number at this position of the payload.
    pub(super) fn u32_at(&self, from: usize) -> u32 {
        let bytes = self.small.get(from..from + 4).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
        u32::from_be_bytes(bytes)
    }
}
