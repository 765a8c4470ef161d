//! The receiving half of [`H2Conn`]: parses the server's frames.
//!
//! Frames are parsed incrementally, from pieces of any size. DATA is passed on without being stored; other payloads
//! need a few bytes; only a header block that is split across reads or frames needs a buffer.

use crate::budget::BudgetCharge;
use crate::http::fetch::FREE_HEAD;
use crate::outcome::{ErrorKind, Failure};
use crate::time::Time;

use super::conn::{ConnFault, H2Conn, MAX_OUT, StreamEvents, StreamFault, WAITING};
use super::frame::{self, FrameHeader, HEADER, MAX_PAYLOAD, MAX_WINDOW, code, flag, kind, setting};
use super::translate::{self, HeadFault};

/// The frames of a stream may have twice the bytes of its content, and this many more for heads and padding.
const MAX_OVERHEAD: u64 = 1 << 20;

/// The progress of parsing.
#[derive(Default)]
pub(super) struct Reader {
    header: [u8; HEADER],
    /// Bytes of `header` received so far.
    have: u8,
    frame: Option<Frame>,
    /// A header block that is not complete yet.
    block: Option<Box<Block>>,
}

/// A frame whose payload is being read.
#[derive(Clone, Copy)]
struct Frame {
    header: FrameHeader,
    /// Bytes of the payload that are still to come.
    left: u32,
    /// Bytes of padding at its end, once known.
    padding: u32,
    /// Bytes still to come of the fields before the content: padding length and priority.
    prefix: u8,
    /// The first bytes of a payload that is not passed on.
    small: [u8; 8],
    small_len: u8,
}

/// A header block that is not complete yet.
struct Block {
    stream: u32,
    ends_stream: bool,
    bytes: Vec<u8>,
    /// Bytes that were skipped because the block is too long, or because its stream has ended.
    skipped: usize,
    /// The charge of `bytes` to the budget, if the block is long.
    held: Option<BudgetCharge>,
}

impl Reader {
    pub(super) fn heap_bytes(&self) -> usize {
        self.block.as_ref().map_or(0, |block| size_of::<Block>() + block.bytes.capacity())
    }

    /// False if an incomplete header block waits for memory.
    pub(super) fn may_grow(&mut self) -> bool {
        self.block.as_mut().and_then(|block| block.held.as_mut()).is_none_or(BudgetCharge::may_grow)
    }
}

/// A result whose error ends the connection.
type Checked<T = ()> = Result<T, ConnFault>;

fn fault<T>(code: u32, why: &'static str) -> Checked<T> {
    Err(ConnFault { code, kind: ErrorKind::Protocol, why, stream: None, is_other_protocol: false })
}

impl Frame {
    fn small(&self) -> &[u8] {
        self.small.get(..usize::from(self.small_len)).unwrap_or_default()
    }

    /// The 32-bit number at this position of the payload.
    fn number(&self, from: usize) -> u32 {
        let bytes = self.small.get(from..from + 4).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
        u32::from_be_bytes(bytes)
    }
}

impl H2Conn {
    /// Parses frames until the bytes end.
    pub(super) fn read(&mut self, bytes: &[u8], now: Time, into: &mut dyn StreamEvents) -> Checked {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_over {
            let Some(mut frame) = self.reader.frame.take() else {
                rest = self.read_header(rest, now, into)?;
                continue;
            };
            let (piece, after) = rest.split_at(rest.len().min(frame.left as usize));
            rest = after;
            self.payload(&mut frame, piece, now, into)?;
            if frame.left > 0 {
                self.reader.frame = Some(frame);
            } else {
                self.frame_end(&frame, now, into)?;
            }
        }
        Ok(())
    }

    fn read_header<'a>(&mut self, bytes: &'a [u8], now: Time, into: &mut dyn StreamEvents) -> Checked<&'a [u8]> {
        let have = usize::from(self.reader.have);
        let (piece, rest) = bytes.split_at(bytes.len().min(HEADER - have));
        for (place, byte) in self.reader.header.iter_mut().skip(have).zip(piece) {
            *place = *byte;
        }
        self.reader.have += piece.len() as u8;
        if usize::from(self.reader.have) < HEADER {
            self.check_opening()?;
            return Ok(rest);
        }
        self.reader.have = 0;
        let header = FrameHeader::parse(self.reader.header);
        let frame = self.frame_begin(header, now)?;
        if frame.left == 0 {
            self.frame_end(&frame, now, into)?;
        } else {
            self.reader.frame = Some(frame);
        }
        Ok(rest)
    }

    /// Detects an HTTP/1 response at its first bytes, without waiting for the rest of a frame header.
    fn check_opening(&self) -> Checked {
        let have = self.reader.header.get(..usize::from(self.reader.have)).unwrap_or_default();
        if !self.is_settled && have.len() >= 4 && have.starts_with(b"HTTP") {
            return Err(other_protocol());
        }
        Ok(())
    }

    /// Checks the header of a frame.
    fn frame_begin(&mut self, header: FrameHeader, now: Time) -> Checked<Frame> {
        let FrameHeader { length, kind, stream, .. } = header;
        if !self.is_settled && (kind != kind::SETTINGS || header.has(flag::ACK) || length as usize > MAX_PAYLOAD) {
            return Err(other_protocol());
        }
        if length as usize > MAX_PAYLOAD {
            return fault(code::FRAME_SIZE_ERROR, "a frame that is longer than allowed");
        }
        if let Some(block) = &self.reader.block {
            if kind != kind::CONTINUATION || stream != block.stream {
                return fault(code::PROTOCOL_ERROR, "another frame in the middle of a header block");
            }
        } else if kind == kind::CONTINUATION {
            return fault(code::PROTOCOL_ERROR, "CONTINUATION without HEADERS");
        }
        let is_of_connection = matches!(kind, kind::SETTINGS | kind::PING | kind::GOAWAY);
        let is_of_stream =
            matches!(kind, kind::DATA | kind::HEADERS | kind::PRIORITY | kind::RST_STREAM | kind::CONTINUATION);
        if (is_of_connection && stream != 0) || (is_of_stream && stream == 0) {
            return fault(code::PROTOCOL_ERROR, "a frame on a stream where its kind cannot be");
        }
        let is_active = matches!(kind, kind::DATA | kind::HEADERS | kind::RST_STREAM);
        let is_idle = stream != 0 && !self.was_opened(stream);
        if is_idle && (is_active || kind == kind::WINDOW_UPDATE) {
            return fault(code::PROTOCOL_ERROR, "a frame on a stream that was never opened");
        }
        let size = match kind {
            kind::PRIORITY => length == 5,
            kind::RST_STREAM | kind::WINDOW_UPDATE => length == 4,
            kind::PING => length == 8,
            kind::GOAWAY => length >= 8,
            kind::SETTINGS if header.has(flag::ACK) => length == 0,
            kind::SETTINGS => length % 6 == 0,
            _ => true,
        };
        if !size {
            return fault(code::FRAME_SIZE_ERROR, "a frame of the wrong length");
        }
        if kind == kind::PUSH_PROMISE {
            return fault(code::PROTOCOL_ERROR, "PUSH_PROMISE, although push is disabled");
        }
        let is_open = self.find(stream).is_some();
        let carries_nothing = match kind {
            // All others are limited by the windows, also on closed streams.
            kind::DATA => length == 0 && !(is_open && header.has(flag::END_STREAM)),
            kind::HEADERS => !is_open,
            kind::CONTINUATION => length == 0,
            // The answer to a body that we sent.
            kind::WINDOW_UPDATE if self.update_credit > 0 => {
                self.update_credit -= 1;
                false
            }
            _ => true,
        };
        if carries_nothing {
            self.count_idle_frame(stream, now)?;
        }
        let is_padded = header.has(flag::PADDED) && matches!(kind, kind::DATA | kind::HEADERS);
        let has_priority = header.has(flag::PRIORITY) && kind == kind::HEADERS;
        let prefix = u8::from(is_padded) + if has_priority { 5 } else { 0 };
        if length < u32::from(prefix) {
            return fault(code::FRAME_SIZE_ERROR, "a frame that is too short for its flags");
        }
        if let Some(open) = self.find(stream).and_then(|at| self.streams.get_mut(at)) {
            open.wire += (HEADER + length as usize) as u64;
        }
        if kind == kind::DATA {
            self.receive(stream, length)?;
        }
        if kind == kind::HEADERS {
            let ends_stream = header.has(flag::END_STREAM);
            self.reader.block =
                Some(Box::new(Block { stream, ends_stream, bytes: Vec::new(), skipped: 0, held: None }));
        }
        Ok(Frame { header, left: length, padding: 0, prefix, small: [0; 8], small_len: 0 })
    }

    /// Counts a frame without content.
    fn count_idle_frame(&mut self, stream: u32, now: Time) -> Checked {
        if self.guard.count(now) && self.out.len() <= MAX_OUT {
            return Ok(());
        }
        let stream = Some(stream).filter(|stream| *stream != 0);
        let why = "a flood of frames that carry nothing";
        Err(ConnFault {
            code: code::ENHANCE_YOUR_CALM,
            kind: ErrorKind::Protocol,
            why,
            stream,
            is_other_protocol: false,
        })
    }

    /// Charges a whole DATA frame to the flow-control windows.
    fn receive(&mut self, stream: u32, length: u32) -> Checked {
        if !self.window.receive(length) {
            return fault(code::FLOW_CONTROL_ERROR, "more data than the connection's window allows");
        }
        if let Some(grant) = self.window.grant() {
            frame::push_window_update(&mut self.out, 0, grant);
        }
        let Some(open) = self.find(stream).and_then(|at| self.streams.get_mut(at)) else {
            let Some(stray) = self.stray.checked_sub(u64::from(length)) else {
                let (code, kind, why) = (code::STREAM_CLOSED, ErrorKind::Protocol, "data on a stream that has ended");
                return Err(ConnFault { code, kind, why, stream: Some(stream), is_other_protocol: false });
            };
            self.stray = stray;
            return Ok(());
        };
        if !open.window.receive(length) {
            let why = "more data than the stream's window allows";
            let stream = Some(stream);
            let code = code::FLOW_CONTROL_ERROR;
            return Err(ConnFault { code, kind: ErrorKind::Protocol, why, stream, is_other_protocol: false });
        }
        Ok(())
    }

    /// Processes a piece of a frame's payload.
    fn payload(&mut self, frame: &mut Frame, piece: &[u8], now: Time, into: &mut dyn StreamEvents) -> Checked {
        let mut piece = piece;
        frame.left -= piece.len() as u32;
        // Padding length and priority come first.
        while frame.prefix > 0
            && let Some((byte, rest)) = piece.split_first()
        {
            let is_length = frame.header.has(flag::PADDED) && frame.small_len == 0;
            frame.small_len = 1;
            frame.prefix -= 1;
            piece = rest;
            if is_length {
                frame.padding = u32::from(*byte);
                let after = u32::from(frame.prefix) + frame.padding;
                if after > frame.left + piece.len() as u32 {
                    return fault(code::PROTOCOL_ERROR, "padding that is longer than its frame");
                }
                if frame.header.kind == kind::DATA {
                    self.consume_padding(frame.header.stream, frame.padding + 1)?;
                    if frame.padding + 1 == frame.header.length && !frame.header.has(flag::END_STREAM) {
                        self.count_idle_frame(frame.header.stream, now)?;
                    }
                }
            }
        }
        match frame.header.kind {
            kind::DATA => {
                let content = content_of(frame, piece);
                self.data(frame.header.stream, content, now, into);
                Ok(())
            }
            kind::HEADERS | kind::CONTINUATION => {
                let content = content_of(frame, piece);
                if frame.left == 0 && frame.header.has(flag::END_HEADERS) {
                    return self.header_block(content, now, into);
                }
                self.extend_block(content, into)
            }
            kind::SETTINGS => self.settings(frame, piece),
            _ => {
                for byte in piece {
                    let Some(place) = frame.small.get_mut(usize::from(frame.small_len)) else { break };
                    *place = *byte;
                    frame.small_len += 1;
                }
                Ok(())
            }
        }
    }

    /// Ends a frame whose payload is complete.
    fn frame_end(&mut self, frame: &Frame, now: Time, into: &mut dyn StreamEvents) -> Checked {
        let FrameHeader { kind, stream, length, .. } = frame.header;
        match kind {
            kind::DATA => {
                if let Some(at) = self.find(stream) {
                    if frame.header.has(flag::END_STREAM) {
                        self.finish(at, now, into);
                    } else {
                        self.grant(at);
                    }
                }
            }
            // A frame with an empty payload does not pass through `payload`.
            kind::HEADERS | kind::CONTINUATION if length == 0 && frame.header.has(flag::END_HEADERS) => {
                self.header_block(&[], now, into)?;
            }
            kind::RST_STREAM => self.on_reset(stream, frame.number(0), now, into),
            kind::SETTINGS => self.settings_end(frame),
            kind::PING if !frame.header.has(flag::ACK) => {
                frame::push(&mut self.out, kind::PING, flag::ACK, 0, frame.small());
            }
            kind::GOAWAY => self.on_goaway(frame.number(0) & MAX_WINDOW, frame.number(4), now, into),
            kind::WINDOW_UPDATE => self.on_window_update(stream, frame.number(0) & MAX_WINDOW, now, into)?,
            _ => {}
        }
        Ok(())
    }

    /// Returns padding to the stream's window, unless most of the stream is padding.
    fn consume_padding(&mut self, stream: u32, bytes: u32) -> Checked {
        let Some(open) = self.find(stream).and_then(|at| self.streams.get_mut(at)) else { return Ok(()) };
        open.window.consume_padding(bytes);
        if open.key.is_none() || open.wire <= open.received.saturating_mul(2).saturating_add(MAX_OVERHEAD) {
            return Ok(());
        }
        let (code, kind, why) = (code::ENHANCE_YOUR_CALM, ErrorKind::Protocol, "a stream that is mostly padding");
        Err(ConnFault { code, kind, why, stream: Some(stream), is_other_protocol: false })
    }

    fn data(&mut self, id: u32, content: &[u8], now: Time, into: &mut dyn StreamEvents) {
        if content.is_empty() {
            return;
        }
        let Some(at) = self.find(id) else { return };
        let Some(stream) = self.streams.get_mut(at) else { return };
        if !stream.has_head {
            let failure = Failure::new(ErrorKind::Protocol, "a body before its head");
            return self.fail_stream(at, StreamFault::Failed(failure), Some(code::PROTOCOL_ERROR), now, into);
        }
        let expected = stream.left().map_or(content.len(), |left| usize::try_from(left).unwrap_or(usize::MAX));
        let fitting = content.get(..expected).unwrap_or(content);
        stream.received += fitting.len() as u64;
        stream.set_left(stream.left().map(|left| left - fitting.len() as u64));
        let taken = match stream.key {
            Some(key) if !fitting.is_empty() => into.data(key, fitting, now).min(fitting.len()),
            _ => fitting.len(),
        };
        stream.window.consume(taken as u32);
        self.note_satisfied(at, into);
        if fitting.len() < content.len() {
            let failure = Failure::new(ErrorKind::Protocol, "more bytes than the content-length");
            self.fail_stream(at, StreamFault::Failed(failure), Some(code::PROTOCOL_ERROR), now, into);
        }
    }

    /// Detaches a stream from its receiver if that needs nothing more of it.
    fn note_satisfied(&mut self, at: usize, into: &mut dyn StreamEvents) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let is_complete = stream.left() == Some(0);
        if stream.key.is_some_and(|key| into.is_satisfied(key, stream.wire, is_complete)) {
            stream.key = None;
            (self.has_unwanted, self.has_served) = (true, true);
        }
    }

    /// Handles the end of a stream.
    fn finish(&mut self, at: usize, now: Time, into: &mut dyn StreamEvents) {
        if at >= self.streams.len() {
            return;
        }
        let stream = self.streams.remove(at);
        if stream.has_unsent_body() {
            // The answer is complete: the server does not need the rest.
            frame::push_reset(&mut self.out, stream.id, code::CANCEL);
        }
        if let Some(key) = stream.key {
            match stream.left() {
                _ if !stream.has_head => {
                    let failure = Failure::new(ErrorKind::Protocol, "a stream that ended without a final head");
                    into.failed(key, stream.wire, StreamFault::Failed(failure), now);
                }
                Some(left @ 1..) => {
                    let message = format!("the stream ended {left} bytes before the content-length");
                    let fault = StreamFault::Failed(Failure::new(ErrorKind::Protocol, message));
                    into.failed(key, stream.wire, fault, now);
                }
                _ => into.end(key, stream.wire, now),
            }
        }
        self.has_served = true;
        self.open_waiting();
    }

    /// Stores a part of a header block. Skips it if the block is too long, or if its stream needs no head.
    fn extend_block(&mut self, content: &[u8], into: &mut dyn StreamEvents) -> Checked {
        let most = self.limits.max_head;
        let Some(id) = self.reader.block.as_ref().map(|block| block.stream) else { return Ok(()) };
        let key = self.find(id).and_then(|at| self.streams.get(at)).and_then(|stream| stream.key);
        let Some(block) = &mut self.reader.block else { return Ok(()) };
        if let Some(key) = key
            && block.skipped == 0
            && block.bytes.len() + content.len() <= most
        {
            block.bytes.extend_from_slice(content);
            if block.bytes.len() > FREE_HEAD {
                if block.held.is_none() {
                    block.held = into.new_head_charge(key);
                }
                if let Some(held) = &mut block.held {
                    held.resize(block.bytes.capacity());
                }
            }
            return Ok(());
        }
        block.skipped += content.len() + block.bytes.len();
        (block.bytes, block.held) = (Vec::new(), None);
        if block.skipped <= most.saturating_mul(2) {
            return Ok(());
        }
        let stream = Some(block.stream);
        let (code, kind) = (code::ENHANCE_YOUR_CALM, ErrorKind::HeaderTooLarge);
        let why = "a header block that does not end";
        Err(ConnFault { code, kind, why, stream, is_other_protocol: false })
    }

    /// Handles a complete header block; `last` is the part of it that was not stored.
    fn header_block(&mut self, last: &[u8], now: Time, into: &mut dyn StreamEvents) -> Checked {
        let mut is_kept = false;
        if self.reader.block.as_ref().is_some_and(|block| !block.bytes.is_empty() || block.skipped > 0) {
            self.extend_block(last, into)?;
            is_kept = true;
        }
        let Some(block) = self.reader.block.take() else { return Ok(()) };
        let bytes = if is_kept { &block.bytes } else { last };
        let Some(at) = self.find(block.stream) else {
            // We reset this stream. Decoding has no state, so the block can be skipped.
            return Ok(());
        };
        let limit = self.limits.max_head;
        let Some(stream) = self.streams.get_mut(at) else { return Ok(()) };
        if stream.key.is_none() {
            if block.ends_stream {
                self.finish(at, now, into);
            }
            return Ok(());
        }
        let is_too_long = block.skipped > 0 || bytes.len() > limit;
        let parsed = if is_too_long {
            Err(HeadFault::Stream(translate::too_large()))
        } else if stream.has_head {
            match translate::trailers(bytes, limit) {
                Ok(()) if !block.ends_stream => Err(malformed("a second head that does not end the stream")),
                result => result.map(|()| None),
            }
        } else {
            match translate::response(bytes, limit) {
                Ok(head) if head.status < 200 && block.ends_stream => {
                    Err(malformed("an interim head that ends the stream"))
                }
                result => result.map(Some),
            }
        };
        match parsed {
            Ok(head) => {
                if let Some(head) = head {
                    stream.has_head = head.status >= 200;
                    stream.set_left(head.content_length);
                    if let Some(key) = stream.key {
                        into.head(key, &head.text, now);
                    }
                }
                if block.ends_stream {
                    self.finish(at, now, into);
                } else {
                    self.note_satisfied(at, into);
                }
                Ok(())
            }
            Err(HeadFault::Stream(failure)) => {
                // If the server has already ended the stream, no reset is sent.
                let code = if failure.kind == ErrorKind::Protocol { code::PROTOCOL_ERROR } else { code::CANCEL };
                let reset = (!block.ends_stream).then_some(code);
                self.fail_stream(at, StreamFault::Failed(failure), reset, now, into);
                Ok(())
            }
            Err(HeadFault::Compression(why)) => {
                let (code, kind, stream) = (code::COMPRESSION_ERROR, ErrorKind::Protocol, Some(block.stream));
                Err(ConnFault { code, kind, why, stream, is_other_protocol: false })
            }
        }
    }

    /// Parses settings, six bytes each, however they are split.
    fn settings(&mut self, frame: &mut Frame, piece: &[u8]) -> Checked {
        for byte in piece {
            if let Some(place) = frame.small.get_mut(usize::from(frame.small_len)) {
                *place = *byte;
            }
            frame.small_len += 1;
            if frame.small_len == 6 {
                frame.small_len = 0;
                let [high, low, ..] = frame.small;
                self.setting(u16::from_be_bytes([high, low]), frame.number(2))?;
            }
        }
        Ok(())
    }

    fn setting(&mut self, id: u16, value: u32) -> Checked {
        match id {
            setting::ENABLE_PUSH if value != 0 => {
                return fault(code::PROTOCOL_ERROR, "a server that says it accepts pushes");
            }
            setting::MAX_CONCURRENT_STREAMS => self.max_streams = value,
            setting::INITIAL_WINDOW_SIZE if value > MAX_WINDOW => {
                return fault(code::FLOW_CONTROL_ERROR, "an initial window that is too large");
            }
            setting::INITIAL_WINDOW_SIZE => {
                let most = self.streams.iter().map(|stream| stream.send_delta).max().unwrap_or(0);
                if i64::from(value) + i64::from(most) > i64::from(MAX_WINDOW) {
                    return fault(code::FLOW_CONTROL_ERROR, "a window that becomes too large by a setting");
                }
                self.initial_send = value;
            }
            setting::MAX_FRAME_SIZE if !(16_384..=16_777_215).contains(&value) => {
                return fault(code::PROTOCOL_ERROR, "a maximum frame size that is not allowed");
            }
            // Unknown settings are ignored. Those about what we send have no effect: no frame is longer than the smallest
            // limit.
            _ => {}
        }
        Ok(())
    }

    fn settings_end(&mut self, frame: &Frame) {
        if frame.header.has(flag::ACK) {
            return;
        }
        self.is_settled = true;
        frame::push(&mut self.out, kind::SETTINGS, flag::ACK, 0, &[]);
        self.open_waiting();
    }

    fn on_reset(&mut self, id: u32, code: u32, now: Time, into: &mut dyn StreamEvents) {
        let Some(at) = self.find(id) else { return };
        let is_repeatable = self.streams.get(at).is_some_and(|stream| stream.is_repeatable);
        let message = format!("the server reset the stream: {}", frame::code_name(code));
        let fault = match code {
            // A repeatable request fails instead: its retry waits, which relieves the server.
            code::REFUSED_STREAM if !is_repeatable => StreamFault::Unprocessed(Failure::new(ErrorKind::Reset, message)),
            code::HTTP_1_1_REQUIRED => StreamFault::Http1(Failure::new(ErrorKind::Protocol, message)),
            code::NO_ERROR | code::INTERNAL_ERROR | code::REFUSED_STREAM | code::CANCEL | code::ENHANCE_YOUR_CALM => {
                StreamFault::Failed(Failure::new(ErrorKind::Reset, message))
            }
            _ => StreamFault::Failed(Failure::new(ErrorKind::Protocol, message)),
        };
        self.fail_stream(at, fault, None, now, into);
    }

    /// The server will not process streams after `last`.
    fn on_goaway(&mut self, last: u32, code: u32, now: Time, into: &mut dyn StreamEvents) {
        self.is_closing = true;
        self.last_processed = Some(self.last_processed.map_or(last, |before| before.min(last)));
        let words = format!("the server ended the connection: {}", frame::code_name(code));
        // Those that were never opened have the largest identifier.
        let from = self.streams.partition_point(|stream| stream.id <= last && stream.id != WAITING);
        for stream in self.streams.split_off(from) {
            let Some(key) = stream.key else { continue };
            let fault = match code {
                code::HTTP_1_1_REQUIRED => StreamFault::Http1(Failure::new(ErrorKind::Protocol, words.clone())),
                // The server is overloaded: the retry waits, and the host's lane slows down.
                code::ENHANCE_YOUR_CALM if stream.is_repeatable => {
                    StreamFault::Failed(Failure::new(ErrorKind::Reset, words.clone()))
                }
                _ => StreamFault::Unprocessed(Failure::new(ErrorKind::Protocol, words.clone())),
            };
            into.failed(key, stream.wire, fault, now);
        }
    }

    fn on_window_update(&mut self, id: u32, increment: u32, now: Time, into: &mut dyn StreamEvents) -> Checked {
        if id == 0 {
            return match self.send_window.checked_add(increment) {
                _ if increment == 0 => fault(code::PROTOCOL_ERROR, "a window update of 0"),
                Some(window) if window <= MAX_WINDOW => {
                    self.send_window = window;
                    self.send_bodies();
                    Ok(())
                }
                _ => fault(code::FLOW_CONTROL_ERROR, "a window that is too large"),
            };
        }
        let initial = self.initial_send;
        let Some(at) = self.find(id) else { return Ok(()) };
        let Some(stream) = self.streams.get_mut(at) else { return Ok(()) };
        let delta = i64::from(stream.send_delta) + i64::from(increment);
        let (code, why) = if increment == 0 {
            (code::PROTOCOL_ERROR, "a window update of 0")
        } else if i64::from(initial) + delta > i64::from(MAX_WINDOW) {
            (code::FLOW_CONTROL_ERROR, "a window that is too large")
        } else {
            stream.send_delta = i32::try_from(delta).unwrap_or(i32::MAX);
            self.send_bodies();
            return Ok(());
        };
        let fault = StreamFault::Failed(Failure::new(ErrorKind::Protocol, why));
        self.fail_stream(at, fault, Some(code), now, into);
        Ok(())
    }
}

/// The piece without padding. Padding is at the end of the payload; `left` bytes of the payload follow this piece.
fn content_of<'a>(frame: &Frame, piece: &'a [u8]) -> &'a [u8] {
    let padding = (frame.padding.saturating_sub(frame.left) as usize).min(piece.len());
    piece.get(..piece.len() - padding).unwrap_or(piece)
}

fn malformed(why: &'static str) -> HeadFault {
    HeadFault::Stream(Failure::new(ErrorKind::Protocol, why))
}

fn other_protocol() -> ConnFault {
    ConnFault {
        code: code::PROTOCOL_ERROR,
        kind: ErrorKind::Protocol,
        why: "the server does not begin with SETTINGS: this is not HTTP/2",
        stream: None,
        is_other_protocol: true,
    }
}
