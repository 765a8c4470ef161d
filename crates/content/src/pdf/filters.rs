//! The filters of streams, and [`Held`]: bytes whose memory is charged as long as they exist.

use std::io::Read;
use std::ops::Deref;

use argiope_core::page::page_budget::PageBudget;
use flate2::read::ZlibDecoder;

/// The most bytes of one decoded stream.
const MAX_STREAM: usize = 16 << 20;
/// How many bytes are decoded before they are charged.
const CHUNK: usize = 16 << 10;

/// Bytes whose memory is charged. Vectors grow by doubling, so each byte is charged twice.
pub(super) struct Held<'a> {
    bytes: Vec<u8>,
    held: usize,
    budget: &'a PageBudget,
}

impl<'a> Held<'a> {
    pub(super) fn new(budget: &'a PageBudget) -> Self {
        Self { bytes: Vec::new(), held: 0, budget }
    }

    /// Appends bytes. False: the work or the memory is refused, or there are too many bytes.
    pub(super) fn extend(&mut self, bytes: &[u8]) -> bool {
        let is_allowed = self.bytes.len() + bytes.len() <= MAX_STREAM
            && self.budget.spend(bytes.len())
            && self.budget.hold(bytes.len() * 2);
        if is_allowed {
            self.held += bytes.len() * 2;
            self.bytes.extend_from_slice(bytes);
        }
        is_allowed
    }
}

impl Deref for Held<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.budget.release(self.held);
    }
}

/// Decompresses, as far as the stream is intact and the budget allows.
pub(super) fn inflate<'a>(bytes: &[u8], budget: &'a PageBudget) -> Held<'a> {
    let mut out = Held::new(budget);
    let mut decoder = ZlibDecoder::new(bytes);
    let mut buffer = [0; CHUNK];
    // A decoder reads some bytes without a result: they are charged before.
    let mut is_allowed = budget.spend(bytes.len() + CHUNK);
    while is_allowed {
        let Ok(read) = decoder.read(&mut buffer) else { break };
        is_allowed = read > 0 && budget.spend(read) && out.extend(buffer.get(..read).unwrap_or_default());
    }
    out
}

/// How the rows of a stream are predicted.
pub(super) struct PredictedRows {
    pub(super) colors: f64,
    pub(super) bits: f64,
    pub(super) columns: f64,
}

/// Undoes the prediction of PNG rows, which streams of positions and objects use.
pub(super) fn predicted<'a>(bytes: &[u8], rows: &PredictedRows, budget: &'a PageBudget) -> Held<'a> {
    let mut out = Held::new(budget);
    let colors = rows.colors.clamp(1.0, 32.0) as usize;
    let bits = rows.bits.clamp(1.0, 16.0) as usize;
    let pixel = (colors * bits).div_ceil(8);
    let width = (rows.columns.clamp(1.0, 1e6) as usize * colors * bits).div_ceil(8);
    // A row that is longer than the stream is not one.
    if width > bytes.len() || !budget.spend(bytes.len() * 8) {
        return out;
    }
    let mut above = vec![0u8; width];
    for row in bytes.chunks(width + 1) {
        let (Some(&kind), Some(data)) = (row.first(), row.get(1..)) else { break };
        let mut line = data.to_vec();
        line.resize(width, 0);
        for index in 0..width {
            let left = index.checked_sub(pixel).and_then(|at| line.get(at)).copied().unwrap_or(0);
            let up = above.get(index).copied().unwrap_or(0);
            let corner = index.checked_sub(pixel).and_then(|at| above.get(at)).copied().unwrap_or(0);
            let predicted = match kind {
                1 => left,
                2 => up,
                3 => u16::midpoint(u16::from(left), u16::from(up)) as u8,
                4 => paeth(left, up, corner),
                _ => 0,
            };
            if let Some(byte) = line.get_mut(index) {
                *byte = byte.wrapping_add(predicted);
            }
        }
        if !out.extend(&line) {
            break;
        }
        above = line;
    }
    out
}

fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let (a, b, c) = (i16::from(left), i16::from(up), i16::from(corner));
    let estimate = a + b - c;
    let (to_left, to_up, to_corner) = ((estimate - a).abs(), (estimate - b).abs(), (estimate - c).abs());
    if to_left <= to_up && to_left <= to_corner {
        left
    } else if to_up <= to_corner {
        up
    } else {
        corner
    }
}

/// Decodes base 85.
pub(super) fn ascii85<'a>(bytes: &[u8], budget: &'a PageBudget) -> Held<'a> {
    let mut out = Held::new(budget);
    let (mut group, mut count) = (0u32, 0);
    if !budget.spend(bytes.len() * 4) {
        return out;
    }
    for &byte in bytes {
        match byte {
            b'z' if count == 0 && !out.extend(&[0; 4]) => return out,
            b'z' => {}
            b'!'..=b'u' => {
                group = group.wrapping_mul(85).wrapping_add(u32::from(byte - b'!'));
                count += 1;
                if count == 5 {
                    if !out.extend(&group.to_be_bytes()) {
                        return out;
                    }
                    (group, count) = (0, 0);
                }
            }
            b'~' => break,
            _ => {}
        }
    }
    if count > 1 {
        for _ in count..5 {
            group = group.wrapping_mul(85).wrapping_add(84);
        }
        out.extend(group.to_be_bytes().get(..count - 1).unwrap_or_default());
    }
    out
}
