//! Numbers of variable length (*varints*): seven bits per byte, low ones first, with the high bit set on all bytes but the
//! last. A small number takes one byte.

use argiope_core::LaneId;

/// The maximum length of a varint: 64 bits, seven in each byte.
pub const MAX_VARINT: usize = 10;

/// Appends a varint.
pub fn write_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The bytes of a varint, in a buffer of the caller.
pub fn varint_bytes(mut number: u64, buffer: &mut [u8; MAX_VARINT]) -> &[u8] {
    let mut length = 0;
    for byte in buffer.iter_mut() {
        *byte = number as u8 | 0x80;
        (number, length) = (number >> 7, length + 1);
        if number == 0 {
            *byte &= 0x7F;
            break;
        }
    }
    &buffer[..length]
}

/// A cursor over bytes.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    /// Reads a varint.
    pub fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Reads bytes that follow their length.
    pub fn sized(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.bytes(length)
    }

    pub fn lane(&mut self) -> Option<LaneId> {
        u32::try_from(self.varint()?).ok().map(LaneId)
    }
}
