//! [`Decoder`]: content codings undone, piece by piece.
//!
//! Invariant: what is handed on never exceeds the ceiling, in any layer of a chain: a bomb costs the ceiling's worth
//! of work and no more. No layer keeps output; its scratch space lives on the stack while bytes are there. And nothing
//! is made beyond what may be made at once: a layer that could go on keeps what it has not read, and waits for
//! [`Decoder::go_on`].
//!
//! | fault | treated as |
//! |---|---|
//! | `x-gzip`; names in any case | as gzip; as in lower case |
//! | `deflate` with or without zlib's wrapper | both are understood |
//! | several gzip members or zstd frames in a row | one body |
//! | bytes after the end of the stream | ignored, and told |
//! | plain text labelled gzip or zstd | taken as it is, and told |
//! | an empty body with a coding | an empty body |
//! | a wrong checksum, a stream that breaks or ends early | broken: what came before is kept |
//! | a zstd window above 8 MiB (RFC 9659), brotli's large windows | broken |

use std::cell::Cell;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, InBuffer, Operation, OutBuffer};

use super::answer::FIRST_DECODE_INPUT;
use super::framing::list;
use super::head::Head;
use super::limits::Limits;

/// Undoes the codings of one body.
pub(super) struct Decoder {
    /// In the order of undoing.
    layers: Vec<Layer>,
    /// How many bytes may be looked at next, by what became of those before.
    pub(super) input_size: usize,
}

/// Why decoding goes no further.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodeStop {
    /// The stream is not what its label says.
    Broken(String),
    /// The ceiling was reached.
    Full,
}

/// What is odd about a body that could be decoded nevertheless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// The body was labelled with a coding and was plain text.
    pub mislabelled: bool,
    /// There were bytes after the end of the coded stream; they were ignored.
    pub garbage: bool,
}

/// How much may be made.
pub(super) struct DecodeQuota {
    /// Of the whole body.
    ceiling: u64,
    /// At once, by all layers together: a few bytes may become millions, and others are waiting.
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

pub(super) type Emit<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), DecodeStop>;

/// Room for what becomes of a few bytes, ...
const SCRATCH: usize = 16 << 10;
/// ... and of more than these. Larger room makes fewer calls, each of which has its window to put in order; but it is
/// cleared each time, which is too much for little.
const FEW: usize = 2 << 10;
const LARGE_SCRATCH: usize = 32 << 10;
/// RFC 9659: a decoder for the web need not go beyond 8 MiB.
pub(crate) const ZSTD_WINDOW_LOG: u32 = 23;

impl Decoder {
    /// The decoder that a head asks for: none where the body is not coded. Fails, in words, where there is none for it.
    pub(super) fn of(head: &Head, limits: &Limits) -> Result<Option<Box<Self>>, String> {
        if head.get("content-encoding").is_none() {
            return Ok(None);
        }
        let mut layers = Vec::new();
        for token in list(head, "content-encoding") {
            if token.is_empty() || ["identity", "none"].iter().any(|name| token.eq_ignore_ascii_case(name.as_bytes())) {
                continue;
            }
            let Some((_, kind)) = NAMES.iter().find(|(name, _)| token.eq_ignore_ascii_case(name.as_bytes())) else {
                let name = String::from_utf8_lossy(token.get(..40).unwrap_or(token));
                return Err(format!("content coding {name:?} is not known"));
            };
            if layers.len() >= usize::from(limits.max_codings) {
                return Err(format!("more than {} content codings", limits.max_codings));
            }
            layers.push(Layer::new(*kind));
        }
        layers.reverse();
        Ok((!layers.is_empty()).then(|| Box::new(Self { layers, input_size: FIRST_DECODE_INPUT })))
    }

    /// Decodes some more bytes, or keeps them for [`Decoder::go_on`].
    pub(super) fn push(&mut self, bytes: &[u8], room: &DecodeQuota, sink: Emit<'_>) -> Result<(), DecodeStop> {
        push(&mut self.layers, bytes, room, sink)
    }

    /// Whether there was more to make of what has come than there was room for at once.
    pub(super) fn has_more(&self) -> bool {
        self.layers.iter().any(|layer| layer.rest.is_some())
    }

    /// Goes on with what has come: the last layer first, since it waits for nobody.
    pub(super) fn go_on(&mut self, room: &DecodeQuota, sink: Emit<'_>) -> Result<(), DecodeStop> {
        for index in (0..self.layers.len()).rev() {
            if let Some((layer, rest)) = self.layers.get_mut(index..).and_then(<[_]>::split_first_mut) {
                layer.go_on(room, &mut |bytes| push(rest, bytes, room, sink))?;
            }
        }
        Ok(())
    }

    /// The body is over: hands on what was held back, all of it where there is room, and tells a stream that is not whole.
    pub(super) fn finish(&mut self, room: &DecodeQuota, sink: Emit<'_>) -> Result<(), DecodeStop> {
        self.go_on(room, sink)?;
        let mut layers = self.layers.as_mut_slice();
        while let Some((first, rest)) = layers.split_first_mut() {
            first.finish(room, &mut |bytes| push(rest, bytes, room, sink))?;
            layers = rest;
        }
        Ok(())
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let waiting: usize = self.layers.iter().map(|layer| layer.rest.as_ref().map_or(0, Vec::capacity)).sum();
        size_of::<Self>() + self.layers.capacity() * size_of::<Layer>() + waiting
    }

    pub(super) fn oddities(&self) -> Oddities {
        Oddities {
            mislabelled: self.layers.iter().any(|layer| layer.state == State::Plain),
            garbage: self.layers.iter().any(|layer| layer.garbage),
        }
    }
}

fn push(layers: &mut [Layer], bytes: &[u8], room: &DecodeQuota, sink: Emit<'_>) -> Result<(), DecodeStop> {
    match layers.split_first_mut() {
        Some((first, rest)) => first.push(bytes, room, &mut |bytes| push(rest, bytes, room, sink)),
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

/// One coding being undone.
struct Layer {
    kind: Kind,
    state: State,
    engine: Engine,
    /// The first bytes of a stream, until there are enough of them to tell what it is.
    peek: [u8; PEEK],
    peeked: u8,
    /// A stream has ended before this one: what comes may be a further one, or garbage.
    again: bool,
    garbage: bool,
    /// Bytes handed on.
    made: u64,
    /// In the middle of a stream: there is more to make, be it of these bytes or of what the engine has read.
    rest: Option<Vec<u8>>,
}

const PEEK: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a stream.
    Peek,
    /// In a stream.
    Stream,
    /// The label lies: plain text.
    Plain,
    /// After the last stream.
    Spent,
}

enum Engine {
    None,
    Inflate(Decompress),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(zstd::stream::raw::Decoder<'static>),
}

/// How far one call of an engine came.
struct Progress {
    read: usize,
    written: usize,
    state: Result<Flow, ()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
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
            rest: None,
        }
    }

    fn push(&mut self, mut bytes: &[u8], room: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        while !bytes.is_empty() && !self.waits(bytes) {
            match self.state {
                State::Peek => {
                    bytes = self.fill_peek(bytes);
                    if usize::from(self.peeked) >= self.needed() {
                        self.start(room, out)?;
                    }
                }
                State::Stream => {
                    let used = self.run(bytes, room, out)?;
                    bytes = bytes.get(used..).unwrap_or_default();
                }
                State::Plain => {
                    self.emit(bytes, room, out)?;
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

    /// Whether it must not read on yet; then these bytes are kept.
    fn waits(&mut self, bytes: &[u8]) -> bool {
        let Some(rest) = &mut self.rest else { return false };
        rest.extend_from_slice(bytes);
        true
    }

    fn go_on(&mut self, room: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        let Some(rest) = self.rest.take() else { return Ok(()) };
        let used = self.run(&rest, room, out)?;
        self.push(rest.get(used..).unwrap_or_default(), room, out)
    }

    fn finish(&mut self, room: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        if self.state == State::Peek && self.peeked > 0 {
            self.start(room, out)?;
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

    /// How many bytes tell what a stream is.
    fn needed(&self) -> usize {
        match (self.kind, self.again) {
            (Kind::Gzip | Kind::Zstd, false) => PEEK,
            (Kind::Zstd, true) => 4,
            (Kind::Gzip, true) | (Kind::Deflate, _) => 2,
            (Kind::Brotli, _) => 1,
        }
    }

    fn fill_peek<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let room = self.needed().saturating_sub(usize::from(self.peeked));
        let (now, later) = bytes.split_at(room.min(bytes.len()));
        for (slot, byte) in self.peek.iter_mut().skip(usize::from(self.peeked)).zip(now) {
            *slot = *byte;
        }
        self.peeked += now.len() as u8;
        later
    }

    /// Decides what a stream is by its first bytes, and decodes these.
    fn start(&mut self, room: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        let peek = self.peek;
        let mut bytes = peek.get(..usize::from(self.peeked)).unwrap_or_default();
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
            let used = self.run(bytes, room, out)?;
            bytes = bytes.get(used..).unwrap_or_default();
        }
        match self.state {
            State::Plain => self.emit(bytes, room, out),
            // A stream of fewer bytes than it takes to tell what it is: what is left belongs to the next one.
            State::Peek | State::Spent if !bytes.is_empty() => self.push(bytes, room, out),
            _ => Ok(()),
        }
    }

    /// Lets the engine work until it has read all, its stream is over, or there is no room for now. Says how much it has
    /// read.
    fn run(&mut self, bytes: &[u8], room: &DecodeQuota, out: Emit<'_>) -> Result<usize, DecodeStop> {
        if bytes.len() <= FEW {
            self.run_in(&mut [0; SCRATCH], bytes, room, out)
        } else {
            self.run_in(&mut [0; LARGE_SCRATCH], bytes, room, out)
        }
    }

    fn run_in(
        &mut self,
        scratch: &mut [u8],
        bytes: &[u8],
        room: &DecodeQuota,
        out: Emit<'_>,
    ) -> Result<usize, DecodeStop> {
        let mut used = 0;
        loop {
            if room.is_used_up() {
                self.rest = Some(Vec::new());
                return Ok(used);
            }
            let rest = bytes.get(used..).unwrap_or_default();
            let progress = self.engine.step(rest, scratch);
            used += progress.read;
            self.emit(scratch.get(..progress.written).unwrap_or_default(), room, out)?;
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

    fn emit(&mut self, bytes: &[u8], room: &DecodeQuota, out: Emit<'_>) -> Result<(), DecodeStop> {
        if bytes.is_empty() {
            return Ok(());
        }
        let most = usize::try_from(room.ceiling.saturating_sub(self.made)).unwrap_or(usize::MAX);
        let kept = bytes.get(..most).unwrap_or(bytes);
        self.made += kept.len() as u64;
        room.slice.set(room.slice.get().saturating_sub(kept.len() as u64));
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
                let (mut room, mut written, mut total) = (output.len(), 0, 0);
                let result = BrotliDecompressStream(
                    &mut left,
                    &mut read,
                    input,
                    &mut room,
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

/// Does a zstd frame, or one to be skipped, begin here? Fewer bytes than it takes to say count as yes: the stream
/// then ends early.
fn is_zstd(bytes: &[u8]) -> bool {
    let begins = |magic: [u8; 4]| bytes.iter().zip(magic).all(|(have, want)| *have == want);
    let skippable = match bytes {
        [first, rest @ ..] => first & 0xf0 == 0x50 && rest.iter().zip([0x2a, 0x4d, 0x18]).all(|(h, w)| *h == w),
        [] => false,
    };
    begins([0x28, 0xb5, 0x2f, 0xfd]) || skippable
}

/// Is this the header of a zlib stream (RFC 1950), and not raw deflate?
fn is_zlib(bytes: &[u8]) -> bool {
    match *bytes {
        [first, second, ..] => {
            first & 0x0f == 8 && first >> 4 <= 7 && u16::from_be_bytes([first, second]) % 31 == 0 && second & 0x20 == 0
        }
        _ => false,
    }
}

/// Is this how a text begins? No control characters but white space.
fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte >= b' ' && *byte != 0x7f || matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c))
}
