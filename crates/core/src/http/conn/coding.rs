//! [`Decoder`]: streaming decompression of content codings.
//!
//! Invariant: the output of every layer of a chain stays within the ceiling, so a decompression bomb costs at most that
//! much work. No layer buffers output; scratch space is on the stack during a call. No call produces more than its
//! slice: a layer that could produce more keeps its unread input until [`Decoder::resume`].
//!
//! | fault | treated as |
//! |---|---|
//! | `x-gzip`; upper case in names | as gzip; as lower case |
//! | `deflate` with or without zlib's wrapper | both are understood |
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

use super::answer::FIRST_DECODE_INPUT;
use super::framing::list;
use super::head::Head;
use super::limits::Limits;

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
    /// The ceiling was reached.
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
    /// For the whole body.
    ceiling: u64,
    /// In this call, by all layers together.
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

/// Scratch space for input of up to [`SMALL_INPUT`] bytes.
const SCRATCH: usize = 16 << 10;
const SMALL_INPUT: usize = 2 << 10;
/// Scratch space for more input. It means fewer calls, but is zeroed each time, which is too expensive for little input.
const LARGE_SCRATCH: usize = 32 << 10;
/// Windows of up to this size are not charged to the budget: gzip has 32 KiB, and small pages declare small ones.
const SMALL_WINDOW: usize = 256 << 10;
/// RFC 9659: web content must not need a window above 8 MiB.
pub(crate) const ZSTD_WINDOW_LOG: u32 = 23;

impl Decoder {
    /// The decoder for the codings that a head declares; none if the body is not coded. The flag says that a label was
    /// ignored because it does not name a coding. Fails with a message if a coding is not supported.
    pub(super) fn of(head: &Head, limits: &Limits) -> Result<(Option<Box<Self>>, bool), String> {
        if head.get("content-encoding").is_none() {
            return Ok((None, false));
        }
        let (mut layers, mut mislabelled) = (Vec::new(), false);
        for token in list(head, "content-encoding") {
            if token.is_empty() || token.eq_ignore_ascii_case(b"identity") {
                continue;
            }
            let Some((_, kind)) = NAMES.iter().find(|(name, _)| token.eq_ignore_ascii_case(name.as_bytes())) else {
                if is_not_a_coding(token) {
                    mislabelled = true;
                    continue;
                }
                let name = String::from_utf8_lossy(token.get(..40).unwrap_or(token));
                return Err(format!("content coding {name:?} is not known"));
            };
            if layers.len() >= usize::from(limits.max_codings) {
                return Err(format!("more than {} content codings", limits.max_codings));
            }
            layers.push(Layer::new(*kind));
        }
        layers.reverse();
        let decoder = (!layers.is_empty()).then(|| Box::new(Self { layers, input_size: FIRST_DECODE_INPUT }));
        Ok((decoder, mislabelled))
    }

    /// Decodes bytes, or keeps them for [`Decoder::resume`] if the slice is used up.
    pub(super) fn push(&mut self, bytes: &[u8], quota: &DecodeQuota, sink: Emit<'_>) -> Result<(), DecodeStop> {
        push(&mut self.layers, bytes, quota, sink)
    }

    /// True if kept input can produce more output.
    pub(super) fn has_more(&self) -> bool {
        self.layers.iter().any(|layer| layer.rest.is_some())
    }

    /// Memory that must be charged before decoding continues; 0 if none.
    pub(super) fn memory_needed(&self) -> usize {
        self.layers.iter().map(|layer| layer.needed).sum()
    }

    /// The needed memory is charged: decoding can continue.
    pub(super) fn grant_memory(&mut self) {
        for layer in &mut self.layers {
            layer.granted += std::mem::take(&mut layer.needed);
        }
    }

    /// Refuses chains with more than one large window: ordinary servers do not send them, and they multiply memory.
    pub(super) fn check_windows(&self) -> Result<(), DecodeStop> {
        let large = self.layers.iter().filter(|layer| layer.needed > 0 || layer.granted > 0).count();
        if large > 1 { Err(DecodeStop::Broken("two content codings with large windows".to_owned())) } else { Ok(()) }
    }

    /// Continues with kept input. The last layer goes first, because its input belongs to an earlier part of the body.
    pub(super) fn resume(&mut self, quota: &DecodeQuota, sink: Emit<'_>) -> Result<(), DecodeStop> {
        for index in (0..self.layers.len()).rev() {
            if let Some((layer, rest)) = self.layers.get_mut(index..).and_then(<[_]>::split_first_mut) {
                layer.resume(quota, &mut |bytes| push(rest, bytes, quota, sink))?;
            }
        }
        Ok(())
    }

    /// Ends the body: flushes all layers and reports an incomplete stream.
    ///
    /// Does not wait for memory: this decoder is dropped right after this call.
    pub(super) fn finish(&mut self, quota: &DecodeQuota, sink: Emit<'_>) -> Result<(), DecodeStop> {
        self.check_windows()?;
        for layer in &mut self.layers {
            layer.needed = 0;
            layer.granted = usize::MAX;
        }
        self.resume(quota, sink)?;
        let mut layers = self.layers.as_mut_slice();
        while let Some((first, rest)) = layers.split_first_mut() {
            first.finish(quota, &mut |bytes| push(rest, bytes, quota, sink))?;
            layers = rest;
        }
        Ok(())
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let waiting: usize = self.layers.iter().map(|layer| layer.rest.as_ref().map_or(0, Vec::capacity)).sum();
        size_of::<Self>() + self.layers.capacity() * size_of::<Layer>() + waiting
    }

    pub(super) fn coding_defects(&self) -> CodingDefects {
        CodingDefects {
            mislabelled: self.layers.iter().any(|layer| layer.state == State::Plain),
            garbage: self.layers.iter().any(|layer| layer.garbage),
        }
    }
}

/// True for labels that servers put into Content-Encoding by mistake: charsets, and transfer encodings of MIME.
fn is_not_a_coding(token: &[u8]) -> bool {
    ["none", "binary", "8bit", "7bit"].iter().any(|name| token.eq_ignore_ascii_case(name.as_bytes()))
        || encoding_rs::Encoding::for_label(token).is_some()
}

fn push(layers: &mut [Layer], bytes: &[u8], quota: &DecodeQuota, sink: Emit<'_>) -> Result<(), DecodeStop> {
    match layers.split_first_mut() {
        Some((first, rest)) => first.push(bytes, quota, &mut |bytes| push(rest, bytes, quota, sink)),
        None => sink(bytes),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

const NAMES: [(&str, Kind); 5] = [
    ("gzip", Kind::Gzip),
    ("x-gzip", Kind::Gzip),
    ("deflate", Kind::Deflate),
    ("br", Kind::Brotli),
    ("zstd", Kind::Zstd),
];

/// The decoder of one coding.
struct Layer {
    kind: Kind,
    state: State,
    engine: Engine,
    /// The first bytes of a stream, until they suffice to identify it.
    peek: [u8; PEEK],
    peeked: u8,
    /// Whether a stream has ended before. What follows is then another stream or garbage.
    again: bool,
    garbage: bool,
    /// Output bytes so far.
    made: u64,
    /// Memory charged for the window, and memory to be charged before the stream can start. Windows of up to
    /// [`SMALL_WINDOW`] bytes are not charged.
    granted: usize,
    needed: usize,
    /// Unread input of a stream that can produce more output. May be empty if the engine itself holds input.
    rest: Option<Vec<u8>>,
}

/// The most bytes that are needed to identify a stream.
const PEEK: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a stream.
    Peek,
    /// Within a stream.
    Stream,
    /// The label is wrong: plain text.
    Plain,
    /// After the last stream.
    Spent,
}

/// The decompressor of the current stream.
enum Engine {
    None,
    Inflate(Decompress),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(zstd::stream::raw::Decoder<'static>),
}

/// The result of one call of a decompression engine.
struct Progress {
    read: usize,
    written: usize,
    state: Result<Flow, ()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// The stream continues.
    On,
    /// The stream has ended.
    End,
}

impl Layer {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            state: State::Peek,
            engine: Engine::None,
            peek: [0; PEEK],
            peeked: 0,
            again: false,
            garbage: false,
            made: 0,
            granted: 0,
            needed: 0,
            rest: None,
        }
    }

    fn push(&mut self, mut bytes: &[u8], quota: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        while !bytes.is_empty() && !self.waits(bytes) {
            match self.state {
                State::Peek => {
                    bytes = self.fill_peek(bytes);
                    if usize::from(self.peeked) >= self.needed() {
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
                State::Spent => {
                    self.garbage = true;
                    bytes = &[];
                }
            }
        }
        Ok(())
    }

    /// Keeps `bytes` for later if earlier input is still waiting. Returns whether it did.
    fn waits(&mut self, bytes: &[u8]) -> bool {
        let Some(rest) = &mut self.rest else { return false };
        rest.extend_from_slice(bytes);
        true
    }

    fn resume(&mut self, quota: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        if self.needed > 0 {
            return Ok(());
        }
        let Some(rest) = self.rest.take() else { return Ok(()) };
        let used = if self.state == State::Peek {
            // The stream waited for memory.
            self.start(quota, out)?;
            0
        } else {
            self.run(&rest, quota, out)?
        };
        self.push(rest.get(used..).unwrap_or_default(), quota, out)
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
        match self.kind {
            Kind::Gzip => "gzip",
            Kind::Deflate => "deflate",
            Kind::Brotli => "br",
            Kind::Zstd => "zstd",
        }
    }

    /// The number of bytes needed to identify a stream.
    fn needed(&self) -> usize {
        match (self.kind, self.again) {
            (Kind::Gzip, false) | (Kind::Zstd, _) => PEEK,
            (Kind::Gzip, true) | (Kind::Deflate, _) => 2,
            (Kind::Brotli, _) => 1,
        }
    }

    /// Buffers the bytes that are needed to identify the stream. Returns the rest.
    fn fill_peek<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let missing = self.needed().saturating_sub(usize::from(self.peeked));
        let (now, later) = bytes.split_at(missing.min(bytes.len()));
        for (slot, byte) in self.peek.iter_mut().skip(usize::from(self.peeked)).zip(now) {
            *slot = *byte;
        }
        self.peeked += now.len() as u8;
        later
    }

    /// Identifies a stream by its first bytes and decodes them.
    fn start(&mut self, quota: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        let peek = self.peek;
        let mut bytes = peek.get(..usize::from(self.peeked)).unwrap_or_default();
        let window = match self.kind {
            Kind::Brotli => brotli_window(bytes),
            Kind::Zstd => zstd_window(bytes),
            Kind::Gzip | Kind::Deflate => 0,
        };
        if window > SMALL_WINDOW && window > self.granted {
            self.needed = window - self.granted;
            self.rest = Some(Vec::new());
            return Ok(());
        }
        self.peeked = 0;
        self.state = match self.kind {
            Kind::Gzip if bytes.starts_with(&[0x1f, 0x8b]) || bytes == [0x1f] => {
                self.engine = Engine::Inflate(Decompress::new_gzip(15));
                State::Stream
            }
            Kind::Zstd if is_zstd(bytes) => {
                if matches!(self.engine, Engine::None) {
                    self.engine = zstd_engine()?;
                }
                State::Stream
            }
            Kind::Gzip | Kind::Zstd if self.again => {
                self.garbage = true;
                State::Spent
            }
            Kind::Gzip | Kind::Zstd if is_text(bytes) => State::Plain,
            Kind::Gzip | Kind::Zstd => {
                return Err(DecodeStop::Broken(format!("the body is labelled {} and is not", self.name())));
            }
            Kind::Deflate => {
                self.engine = Engine::Inflate(Decompress::new(is_zlib(bytes)));
                State::Stream
            }
            Kind::Brotli => {
                let alloc = StandardAlloc::default;
                let mut state = Box::new(BrotliState::new(alloc(), alloc(), alloc()));
                state.large_window = false;
                self.engine = Engine::Brotli(state);
                State::Stream
            }
        };
        while !bytes.is_empty() && self.state == State::Stream && !self.waits(bytes) {
            let used = self.run(bytes, quota, out)?;
            bytes = bytes.get(used..).unwrap_or_default();
        }
        match self.state {
            State::Plain => self.emit(bytes, quota, out),
            // The stream was shorter than the bytes needed to identify it: the rest belongs to the next one.
            State::Peek | State::Spent if !bytes.is_empty() => self.push(bytes, quota, out),
            _ => Ok(()),
        }
    }

    /// Runs the engine until all input is read, the stream ends, or the slice is used up. Returns how much was read.
    fn run(&mut self, bytes: &[u8], quota: &DecodeQuota, out: Emit<'_>) -> Result<usize, DecodeStop> {
        if bytes.len() <= SMALL_INPUT {
            self.run_in(&mut [0; SCRATCH], bytes, quota, out)
        } else {
            self.run_in(&mut [0; LARGE_SCRATCH], bytes, quota, out)
        }
    }

    fn run_in(
        &mut self,
        scratch: &mut [u8],
        bytes: &[u8],
        quota: &DecodeQuota,
        out: Emit<'_>,
    ) -> Result<usize, DecodeStop> {
        let mut used = 0;
        loop {
            if quota.is_used_up() {
                self.rest = Some(Vec::new());
                return Ok(used);
            }
            let rest = bytes.get(used..).unwrap_or_default();
            let progress = self.engine.step(rest, scratch);
            used += progress.read;
            self.emit(scratch.get(..progress.written).unwrap_or_default(), quota, out)?;
            let broken = || DecodeStop::Broken(format!("the {} stream is broken", self.name()));
            match progress.state.map_err(|()| broken())? {
                Flow::End => {
                    self.again = true;
                    self.state = match self.kind {
                        Kind::Gzip | Kind::Zstd => State::Peek,
                        Kind::Deflate | Kind::Brotli => State::Spent,
                    };
                    if !matches!(self.kind, Kind::Zstd) {
                        self.engine = Engine::None;
                    }
                    return Ok(used);
                }
                Flow::On if used == bytes.len() && progress.written < scratch.len() => return Ok(used),
                Flow::On if progress.read == 0 && progress.written == 0 => return Err(broken()),
                Flow::On => {}
            }
        }
    }

    /// Passes output on, up to the ceiling.
    fn emit(&mut self, bytes: &[u8], quota: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        if bytes.is_empty() {
            return Ok(());
        }
        let most = usize::try_from(quota.ceiling.saturating_sub(self.made)).unwrap_or(usize::MAX);
        let kept = bytes.get(..most).unwrap_or(bytes);
        self.made += kept.len() as u64;
        quota.slice.set(quota.slice.get().saturating_sub(kept.len() as u64));
        if !kept.is_empty() {
            out(kept)?;
        }
        if kept.len() < bytes.len() { Err(DecodeStop::Full) } else { Ok(()) }
    }
}

impl Engine {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Progress {
        match self {
            Self::None => Progress { read: 0, written: 0, state: Err(()) },
            Self::Inflate(inflate) => {
                let (read, written) = (inflate.total_in(), inflate.total_out());
                let status = inflate.decompress(input, output, FlushDecompress::None);
                Progress {
                    read: (inflate.total_in() - read) as usize,
                    written: (inflate.total_out() - written) as usize,
                    state: match status {
                        Ok(Status::StreamEnd) => Ok(Flow::End),
                        Ok(Status::Ok | Status::BufError) => Ok(Flow::On),
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
                let state = match result {
                    BrotliResult::ResultSuccess => Ok(Flow::End),
                    BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => Ok(Flow::On),
                    BrotliResult::ResultFailure => Err(()),
                };
                Progress { read, written, state }
            }
            Self::Zstd(decoder) => {
                let mut input = InBuffer::around(input);
                let mut output = OutBuffer::around(output);
                let state = match decoder.run(&mut input, &mut output) {
                    Ok(0) => Ok(Flow::End),
                    Ok(_) => Ok(Flow::On),
                    Err(_) => Err(()),
                };
                Progress { read: input.pos(), written: output.pos(), state }
            }
        }
    }
}

fn zstd_engine() -> Result<Engine, DecodeStop> {
    let unavailable = |error: std::io::Error| DecodeStop::Broken(format!("no zstd decoder: {error}"));
    let mut decoder = zstd::stream::raw::Decoder::new().map_err(unavailable)?;
    decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)).map_err(unavailable)?;
    Ok(Engine::Zstd(decoder))
}

/// True if a zstd frame or a skippable frame may begin here. Too few bytes count as yes: the stream then ends early.
fn is_zstd(bytes: &[u8]) -> bool {
    let begins = |magic: [u8; 4]| bytes.iter().zip(magic).all(|(have, want)| *have == want);
    let skippable = match bytes {
        [first, rest @ ..] => first & 0xf0 == 0x50 && rest.iter().zip([0x2a, 0x4d, 0x18]).all(|(h, w)| *h == w),
        [] => false,
    };
    begins([0x28, 0xb5, 0x2f, 0xfd]) || skippable
}

/// The window of the zstd frame that begins here (RFC 8878, 3.1.1.1), at most what the decoder accepts.
fn zstd_window(bytes: &[u8]) -> usize {
    const MAX: u64 = 1 << ZSTD_WINDOW_LOG;
    let [0x28, 0xb5, 0x2f, 0xfd, descriptor, rest @ ..] = bytes else { return 0 };
    let is_single = descriptor & 0x20 != 0;
    let size = if is_single {
        let dictionary_id = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let (length, offset) = [(1, 0), (2, 256), (4, 0), (8, 0)][usize::from(descriptor >> 6)];
        let digits = rest.get(dictionary_id..dictionary_id + length);
        digits.map(|digits| digits.iter().rev().fold(0, |size: u64, digit| size << 8 | u64::from(*digit)) + offset)
    } else {
        rest.first().map(|window| {
            let base = 1u64 << (10 + (window >> 3));
            base + base / 8 * u64::from(window & 7)
        })
    };
    usize::try_from(size.unwrap_or(MAX).min(MAX)).unwrap_or(usize::MAX)
}

/// The window of the brotli stream that begins here (RFC 7932, 9.1).
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

/// True if this looks like the start of a text: no control characters but white space.
fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte >= b' ' && *byte != 0x7f || matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c))
}
