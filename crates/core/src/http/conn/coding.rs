//! [`Decoder`]: streaming decompression of content codings.
//!
//! A body may have several codings, one on top of the other. Each of them is a layer of the decoder.
//!
//! Invariant: the output of every layer stays within the ceiling ([`DecodeQuota`]), which bounds the work for a
//! decompression bomb. No layer buffers output; scratch space is on the stack during a call. A call stops once its
//! slice of output is used up: a layer that could produce more keeps its unread input until [`Decoder::resume`].
//!
//! | fault | treated as |
//! |---|---|
//! | `x-gzip`; upper case in names | as gzip; as lower case |
//! | `deflate` with or without zlib's wrapper | both are decoded |
//! | several gzip members or zstd frames in a row | one body |
//! | bytes after the end of the stream | ignored, and reported |
//! | plain text labelled gzip or zstd | passed on unchanged, and reported |
//! | a label that is a charset, `none`, `binary`, `8bit` or `7bit` | ignored, and reported |
//! | an empty body with a coding | an empty body |
//! | a wrong checksum, a stream that is malformed or ends early | broken: the output before the fault is kept |
//! | a zstd window above 8 MiB (RFC 9659), brotli's large windows | broken |
//! | windows above 256 KiB in more than one layer | broken |

use std::cell::Cell;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, InBuffer, Operation, OutBuffer};

use super::framing::{MAX_QUOTED, list_elements};
use super::head::Head;
use super::limits::Limits;

/// Compressed bytes given to a decoder in its first call. Later calls adapt the size to the expansion ratio.
pub(super) const FIRST_DECODE_INPUT: usize = 512;

/// Decodes the content codings of one body.
pub(super) struct Decoder {
    /// In the order of decoding.
    layers: Vec<Layer>,
    /// Input bytes for the next call, adapted to the expansion ratio of the previous ones.
    pub(super) input_size: usize,
}

/// Why decoding stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodeStop {
    /// The stream is malformed.
    Broken(String),
    /// There is more output than the ceiling allows.
    Full,
}

/// Defects of a body that was decoded in spite of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodingDefects {
    /// The body was labelled with a coding and was plain text, or the label does not name a coding.
    pub mislabelled: bool,
    /// Bytes after the end of the compressed stream were ignored.
    pub garbage: bool,
}

impl CodingDefects {
    pub(super) fn merge(&mut self, other: Self) {
        self.mislabelled |= other.mislabelled;
        self.garbage |= other.garbage;
    }
}

/// How much output may be produced.
pub(super) struct DecodeQuota {
    /// Limit of each layer for the whole body. Exceeding it is an error.
    ceiling: u64,
    /// What all layers together may still produce in this call. Reaching zero ends the call.
    slice: Cell<u64>,
}

impl DecodeQuota {
    pub(super) fn new(ceiling: u64, slice: u64) -> Self {
        Self { ceiling, slice: Cell::new(slice) }
    }

    fn is_used_up(&self) -> bool {
        self.slice.get() == 0
    }
}

/// Receives decoded bytes.
pub(super) type Emit<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), DecodeStop>;

/// Size of the output buffer for input of up to [`SMALL_INPUT`] bytes.
const SMALL_SCRATCH: usize = 16 << 10;
const SMALL_INPUT: usize = 2 << 10;
/// Size of the output buffer for more input. A large buffer saves calls, but it is zeroed for each input, which is too
/// expensive for a small one.
const LARGE_SCRATCH: usize = 32 << 10;
/// Windows of up to this size are not charged to the budget. The window of gzip is 32 KiB, and small pages declare
/// small windows.
const SMALL_WINDOW: usize = 256 << 10;
/// Base-2 logarithm of the largest window size in bytes that deflate and gzip allow (32 KiB).
const MAX_DEFLATE_WINDOW_BITS: u8 = 15;
/// Base-2 logarithm of the largest zstd window in bytes that RFC 9659 allows for web content (8 MiB).
pub(crate) const ZSTD_WINDOW_LOG: u32 = 23;

impl Decoder {
    /// The decoder for the content codings that a head declares; `None` if there are none. The flag is true if a label
    /// was ignored because it does not name a coding. Fails with a message if a coding is not supported.
    pub(super) fn of(head: &Head, limits: &Limits) -> Result<(Option<Box<Self>>, bool), String> {
        if head.get("content-encoding").is_none() {
            return Ok((None, false));
        }
        let (mut layers, mut mislabelled) = (Vec::new(), false);
        for token in list_elements(head, "content-encoding") {
            if token.is_empty() || token.eq_ignore_ascii_case(b"identity") {
                continue;
            }
            let Some((_, coding)) = NAMES.iter().find(|(name, _)| token.eq_ignore_ascii_case(name.as_bytes())) else {
                if is_not_a_coding(token) {
                    mislabelled = true;
                    continue;
                }
                let name = String::from_utf8_lossy(token.get(..MAX_QUOTED).unwrap_or(token));
                return Err(format!("content coding {name:?} is not supported"));
            };
            if layers.len() >= usize::from(limits.max_codings) {
                return Err(format!("more than {} content codings", limits.max_codings));
            }
            layers.push(Layer::new(*coding));
        }
        // The header lists codings in the order in which they were applied.
        layers.reverse();
        let decoder = (!layers.is_empty()).then(|| Box::new(Self { layers, input_size: FIRST_DECODE_INPUT }));
        Ok((decoder, mislabelled))
    }

    /// Decodes bytes, or keeps them for [`Decoder::resume`] if the slice is used up.
    pub(super) fn push(&mut self, bytes: &[u8], quota: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        push(&mut self.layers, bytes, quota, out)
    }

    /// True if kept input can produce more output.
    pub(super) fn has_more(&self) -> bool {
        self.layers.iter().any(|layer| layer.unread.is_some())
    }

    /// Memory that must be charged before decoding continues; 0 if none.
    pub(super) fn memory_needed(&self) -> usize {
        self.layers.iter().map(|layer| layer.memory_needed).sum()
    }

    /// The needed memory is charged: decoding can continue.
    pub(super) fn grant_memory(&mut self) {
        for layer in &mut self.layers {
            layer.memory_granted += std::mem::take(&mut layer.memory_needed);
        }
    }

    /// Refuses chains with more than one large window. They multiply memory, and ordinary servers do not send them.
    pub(super) fn check_windows(&self) -> Result<(), DecodeStop> {
        let large = self.layers.iter().filter(|layer| layer.memory_needed > 0 || layer.memory_granted > 0).count();
        if large > 1 { Err(DecodeStop::Broken("two content codings with large windows".to_owned())) } else { Ok(()) }
    }

    /// Continues with kept input. The last layer is resumed first, because its input belongs to an earlier part of the
    /// body.
    pub(super) fn resume(&mut self, quota: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        for index in (0..self.layers.len()).rev() {
            if let Some((layer, rest)) = self.layers.get_mut(index..).and_then(<[_]>::split_first_mut) {
                layer.resume(quota, &mut |bytes| push(rest, bytes, quota, out))?;
            }
        }
        Ok(())
    }

    /// Ends the body: flushes all layers and reports an incomplete stream.
    ///
    /// Does not wait for the memory budget, because the decoder is dropped right after this call.
    pub(super) fn finish(&mut self, quota: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        self.check_windows()?;
        for layer in &mut self.layers {
            layer.memory_needed = 0;
            layer.memory_granted = usize::MAX;
        }
        self.resume(quota, out)?;
        let mut layers = self.layers.as_mut_slice();
        while let Some((first, rest)) = layers.split_first_mut() {
            first.finish(quota, &mut |bytes| push(rest, bytes, quota, out))?;
            layers = rest;
        }
        Ok(())
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let unread: usize = self.layers.iter().map(|layer| layer.unread.as_ref().map_or(0, Vec::capacity)).sum();
        size_of::<Self>() + self.layers.capacity() * size_of::<Layer>() + unread
    }

    pub(super) fn coding_defects(&self) -> CodingDefects {
        CodingDefects {
            mislabelled: self.layers.iter().any(|layer| layer.state == State::Plain),
            garbage: self.layers.iter().any(|layer| layer.has_garbage),
        }
    }
}

/// True for labels that servers put into Content-Encoding by mistake: charsets, and transfer encodings of MIME.
fn is_not_a_coding(token: &[u8]) -> bool {
    ["none", "binary", "8bit", "7bit"].iter().any(|name| token.eq_ignore_ascii_case(name.as_bytes()))
        || encoding_rs::Encoding::for_label(token).is_some()
}

/// Decodes bytes with the first layer, and passes its output to the next one.
fn push(layers: &mut [Layer], bytes: &[u8], quota: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
    match layers.split_first_mut() {
        Some((first, rest)) => first.push(bytes, quota, &mut |bytes| push(rest, bytes, quota, out)),
        None => out(bytes),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

const NAMES: [(&str, Coding); 5] = [
    ("gzip", Coding::Gzip),
    ("x-gzip", Coding::Gzip),
    ("deflate", Coding::Deflate),
    ("br", Coding::Brotli),
    ("zstd", Coding::Zstd),
];

/// The decoder of one coding.
struct Layer {
    coding: Coding,
    state: State,
    decompressor: Decompressor,
    /// The first bytes of a stream, until they suffice to identify it, and their number.
    peek: [u8; PEEK],
    peeked: u8,
    /// Whether a stream has ended. What follows is then another stream or garbage.
    has_ended_stream: bool,
    has_garbage: bool,
    /// Output bytes so far.
    output_bytes: u64,
    /// Memory charged for the window.
    memory_granted: usize,
    /// Memory that must be charged before the stream can start. Windows of up to [`SMALL_WINDOW`] bytes need none.
    memory_needed: usize,
    /// Unread input. `Some` if the layer must be resumed, because it waits for memory or its slice was used up. May be
    /// empty: the decompressor can have more output for input that it has read.
    unread: Option<Vec<u8>>,
}

/// The largest number of bytes that is needed to identify a stream.
const PEEK: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a stream: its first bytes are collected.
    Peek,
    /// Within a stream.
    Stream,
    /// The label is wrong: plain text.
    Plain,
    /// After the last stream: all further input is garbage.
    Ended,
}

/// The decompressor of the current stream.
enum Decompressor {
    None,
    Inflate(Decompress),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(zstd::stream::raw::Decoder<'static>),
}

/// The result of one call of a decompressor.
struct Progress {
    read: usize,
    written: usize,
    /// An error if the stream is malformed.
    stream: Result<StreamState, ()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamState {
    Continues,
    Ended,
}

impl Layer {
    fn new(coding: Coding) -> Self {
        Self {
            coding,
            state: State::Peek,
            decompressor: Decompressor::None,
            peek: [0; PEEK],
            peeked: 0,
            has_ended_stream: false,
            has_garbage: false,
            output_bytes: 0,
            memory_granted: 0,
            memory_needed: 0,
            unread: None,
        }
    }

    fn push(&mut self, mut bytes: &[u8], quota: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        while !bytes.is_empty() && !self.keep_if_waiting(bytes) {
            match self.state {
                State::Peek => {
                    bytes = self.fill_peek(bytes);
                    if usize::from(self.peeked) >= self.bytes_to_identify() {
                        self.start(quota, out)?;
                    }
                }
                State::Stream => {
                    let used = self.run(bytes, quota, out)?;
                    bytes = bytes.get(used..).unwrap_or_default();
                }
                State::Plain => {
                    self.emit(bytes, quota, out)?;
                    bytes = &[];
                }
                State::Ended => {
                    self.has_garbage = true;
                    bytes = &[];
                }
            }
        }
        Ok(())
    }

    /// Keeps `bytes` for later if the layer waits to be resumed. Returns whether it kept them.
    fn keep_if_waiting(&mut self, bytes: &[u8]) -> bool {
        let Some(unread) = &mut self.unread else { return false };
        unread.extend_from_slice(bytes);
        true
    }

    fn resume(&mut self, quota: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        if self.memory_needed > 0 {
            return Ok(());
        }
        let Some(unread) = self.unread.take() else { return Ok(()) };
        let used = if self.state == State::Peek {
            // The stream waited for memory.
            self.start(quota, out)?;
            0
        } else {
            self.run(&unread, quota, out)?
        };
        self.push(unread.get(used..).unwrap_or_default(), quota, out)
    }

    fn finish(&mut self, quota: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        if self.state == State::Peek && self.peeked > 0 {
            self.start(quota, out)?;
        }
        match self.state {
            State::Stream => Err(DecodeStop::Broken(format!("the {} stream ends early", self.name()))),
            _ => Ok(()),
        }
    }

    fn name(&self) -> &'static str {
        match self.coding {
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// The number of bytes needed to identify a stream. The first stream may be plain text, which needs more bytes than
    /// a magic number. A zstd stream always needs more, because its window size comes after the magic number.
    fn bytes_to_identify(&self) -> usize {
        match (self.coding, self.has_ended_stream) {
            (Coding::Gzip, false) | (Coding::Zstd, _) => PEEK,
            (Coding::Gzip, true) | (Coding::Deflate, _) => 2,
            (Coding::Brotli, _) => 1,
        }
    }

    /// Buffers the bytes that are needed to identify the stream. Returns the rest.
    fn fill_peek<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let missing = self.bytes_to_identify().saturating_sub(usize::from(self.peeked));
        let (first, rest) = bytes.split_at(missing.min(bytes.len()));
        for (slot, byte) in self.peek.iter_mut().skip(usize::from(self.peeked)).zip(first) {
            *slot = *byte;
        }
        self.peeked += first.len() as u8;
        rest
    }

    /// Identifies a stream by its first bytes and decodes them. If its window needs memory first, only records how
    /// much, and waits to be resumed.
    fn start(&mut self, quota: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        let peek = self.peek;
        let mut bytes = peek.get(..usize::from(self.peeked)).unwrap_or_default();
        let window = match self.coding {
            Coding::Brotli => brotli_window(bytes),
            Coding::Zstd => zstd_window(bytes),
            // At most 32 KiB, which is not charged.
            Coding::Gzip | Coding::Deflate => 0,
        };
        if window > SMALL_WINDOW && window > self.memory_granted {
            self.memory_needed = window - self.memory_granted;
            self.unread = Some(Vec::new());
            return Ok(());
        }
        self.peeked = 0;
        self.state = match self.coding {
            // A body of one byte may be the start of a gzip stream that ends early.
            Coding::Gzip if bytes.starts_with(&[0x1f, 0x8b]) || bytes == [0x1f] => {
                self.decompressor = Decompressor::Inflate(Decompress::new_gzip(MAX_DEFLATE_WINDOW_BITS));
                State::Stream
            }
            Coding::Zstd if is_zstd(bytes) => {
                if matches!(self.decompressor, Decompressor::None) {
                    self.decompressor = zstd_decompressor()?;
                }
                State::Stream
            }
            Coding::Gzip | Coding::Zstd if self.has_ended_stream => {
                self.has_garbage = true;
                State::Ended
            }
            Coding::Gzip | Coding::Zstd if is_text(bytes) => State::Plain,
            Coding::Gzip | Coding::Zstd => {
                return Err(DecodeStop::Broken(format!("the body is labelled {0} but is not {0}", self.name())));
            }
            Coding::Deflate => {
                self.decompressor = Decompressor::Inflate(Decompress::new(is_zlib(bytes)));
                State::Stream
            }
            Coding::Brotli => {
                let alloc = StandardAlloc::default;
                let mut state = Box::new(BrotliState::new(alloc(), alloc(), alloc()));
                state.large_window = false;
                self.decompressor = Decompressor::Brotli(state);
                State::Stream
            }
        };
        while !bytes.is_empty() && self.state == State::Stream && !self.keep_if_waiting(bytes) {
            let used = self.run(bytes, quota, out)?;
            bytes = bytes.get(used..).unwrap_or_default();
        }
        match self.state {
            State::Plain => self.emit(bytes, quota, out),
            // The stream was shorter than the bytes needed to identify it: the other bytes are the next stream, or
            // garbage.
            State::Peek | State::Ended if !bytes.is_empty() => self.push(bytes, quota, out),
            _ => Ok(()),
        }
    }

    /// Runs the decompressor until all input is read, the stream ends, or the slice is used up. Returns how much was
    /// read.
    fn run(&mut self, bytes: &[u8], quota: &DecodeQuota, out: Emit<'_>) -> Result<usize, DecodeStop> {
        if bytes.len() <= SMALL_INPUT {
            self.run_with(&mut [0; SMALL_SCRATCH], bytes, quota, out)
        } else {
            self.run_with(&mut [0; LARGE_SCRATCH], bytes, quota, out)
        }
    }

    fn run_with(
        &mut self,
        scratch: &mut [u8],
        bytes: &[u8],
        quota: &DecodeQuota,
        out: Emit<'_>,
    ) -> Result<usize, DecodeStop> {
        let mut used = 0;
        loop {
            if quota.is_used_up() {
                self.unread = Some(Vec::new());
                return Ok(used);
            }
            let rest = bytes.get(used..).unwrap_or_default();
            let progress = self.decompressor.step(rest, scratch);
            used += progress.read;
            self.emit(scratch.get(..progress.written).unwrap_or_default(), quota, out)?;
            let broken = || DecodeStop::Broken(format!("the {} stream is broken", self.name()));
            match progress.stream.map_err(|()| broken())? {
                StreamState::Ended => {
                    self.has_ended_stream = true;
                    self.state = match self.coding {
                        Coding::Gzip | Coding::Zstd => State::Peek,
                        Coding::Deflate | Coding::Brotli => State::Ended,
                    };
                    // The zstd decompressor is used again for the next frame.
                    if !matches!(self.coding, Coding::Zstd) {
                        self.decompressor = Decompressor::None;
                    }
                    return Ok(used);
                }
                // The buffer has free space, so there is no more output for this input.
                StreamState::Continues if used == bytes.len() && progress.written < scratch.len() => return Ok(used),
                // Without this, a decompressor that makes no progress would loop for ever.
                StreamState::Continues if progress.read == 0 && progress.written == 0 => return Err(broken()),
                StreamState::Continues => {}
            }
        }
    }

    /// Passes output on, up to the ceiling.
    fn emit(&mut self, bytes: &[u8], quota: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        if bytes.is_empty() {
            return Ok(());
        }
        let room = usize::try_from(quota.ceiling.saturating_sub(self.output_bytes)).unwrap_or(usize::MAX);
        let fitting = bytes.get(..room).unwrap_or(bytes);
        self.output_bytes += fitting.len() as u64;
        quota.slice.set(quota.slice.get().saturating_sub(fitting.len() as u64));
        if !fitting.is_empty() {
            out(fitting)?;
        }
        if fitting.len() < bytes.len() { Err(DecodeStop::Full) } else { Ok(()) }
    }
}

impl Decompressor {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Progress {
        match self {
            Self::None => Progress { read: 0, written: 0, stream: Err(()) },
            Self::Inflate(inflate) => {
                let (in_before, out_before) = (inflate.total_in(), inflate.total_out());
                let status = inflate.decompress(input, output, FlushDecompress::None);
                Progress {
                    read: (inflate.total_in() - in_before) as usize,
                    written: (inflate.total_out() - out_before) as usize,
                    stream: match status {
                        Ok(Status::StreamEnd) => Ok(StreamState::Ended),
                        Ok(Status::Ok | Status::BufError) => Ok(StreamState::Continues),
                        Err(_) => Err(()),
                    },
                }
            }
            Self::Brotli(state) => {
                let (mut left, mut read) = (input.len(), 0);
                let (mut free, mut written, mut total) = (output.len(), 0, 0);
                let result = BrotliDecompressStream(
                    &mut left,
                    &mut read,
                    input,
                    &mut free,
                    &mut written,
                    output,
                    &mut total,
                    state,
                );
                let stream = match result {
                    BrotliResult::ResultSuccess => Ok(StreamState::Ended),
                    BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => Ok(StreamState::Continues),
                    BrotliResult::ResultFailure => Err(()),
                };
                Progress { read, written, stream }
            }
            Self::Zstd(decoder) => {
                let mut input = InBuffer::around(input);
                let mut output = OutBuffer::around(output);
                let stream = match decoder.run(&mut input, &mut output) {
                    Ok(0) => Ok(StreamState::Ended),
                    Ok(_) => Ok(StreamState::Continues),
                    Err(_) => Err(()),
                };
                Progress { read: input.pos(), written: output.pos(), stream }
            }
        }
    }
}

fn zstd_decompressor() -> Result<Decompressor, DecodeStop> {
    let unavailable = |error: std::io::Error| DecodeStop::Broken(format!("no zstd decoder: {error}"));
    let mut decoder = zstd::stream::raw::Decoder::new().map_err(unavailable)?;
    decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)).map_err(unavailable)?;
    Ok(Decompressor::Zstd(decoder))
}

/// True if a zstd frame or a skippable frame may begin here (RFC 8878, 3.1). Fewer bytes than a magic number count as
/// yes: the stream then ends early.
fn is_zstd(bytes: &[u8]) -> bool {
    let begins = |bytes: &[u8], magic: &[u8]| bytes.iter().zip(magic).all(|(have, want)| have == want);
    let is_skippable = match bytes {
        [first, rest @ ..] => first & 0xf0 == 0x50 && begins(rest, &[0x2a, 0x4d, 0x18]),
        [] => false,
    };
    begins(bytes, &[0x28, 0xb5, 0x2f, 0xfd]) || is_skippable
}

/// The window size of the zstd frame that begins here (RFC 8878, 3.1.1.1), at most what the decoder accepts. A frame in
/// a single segment has no window field; its window is the size of its content.
fn zstd_window(bytes: &[u8]) -> usize {
    const MAX: u64 = 1 << ZSTD_WINDOW_LOG;
    let [0x28, 0xb5, 0x2f, 0xfd, descriptor, rest @ ..] = bytes else { return 0 };
    let is_single_segment = descriptor & 0x20 != 0;
    let size = if is_single_segment {
        let dictionary_id_len = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let (length, offset) = [(1, 0), (2, 256), (4, 0), (8, 0)][usize::from(descriptor >> 6)];
        let content_size = rest.get(dictionary_id_len..dictionary_id_len + length);
        content_size.map(|bytes| bytes.iter().rev().fold(0, |size: u64, byte| size << 8 | u64::from(*byte)) + offset)
    } else {
        rest.first().map(|window| {
            let base = 1u64 << (10 + (window >> 3));
            base + base / 8 * u64::from(window & 7)
        })
    };
    usize::try_from(size.unwrap_or(MAX).min(MAX)).unwrap_or(usize::MAX)
}

/// The window size of the brotli stream that begins here (RFC 7932, 9.1).
fn brotli_window(bytes: &[u8]) -> usize {
    let first = bytes.first().copied().unwrap_or_default();
    let bits = match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, ..) => 16,
        (_, 0, 0) => 17,
        (_, 0, bits) => 8 + bits,
        (_, bits, _) => 17 + bits,
    };
    1 << bits
}

/// True for the header of a zlib stream (RFC 1950), as opposed to raw deflate.
fn is_zlib(bytes: &[u8]) -> bool {
    match *bytes {
        [first, second, ..] => {
            first & 0x0f == 8 && first >> 4 <= 7 && u16::from_be_bytes([first, second]) % 31 == 0 && second & 0x20 == 0
        }
        _ => false,
    }
}

/// True if this looks like the start of a text: it has no control characters except white space.
fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte >= b' ' && *byte != 0x7f || matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c))
}
