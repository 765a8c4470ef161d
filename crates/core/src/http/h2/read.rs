//! The receiving half of [`H2Conn`]: parses the server's frames.
//!
//! Frames are parsed incrementally, from pieces of any size. DATA is passed on without being buffered. A header block
//! that is split across reads or frames is buffered. Of other payloads, at most eight bytes are buffered.

use crate::base::outcome::{ErrorKind, Failure};
use crate::base::time::Time;
use crate::http::conn::UNCHARGED_HEAD;

use super::conn::{ConnFault, H2Conn, MAX_OUT, StreamEvents, StreamFault, WAITING};
use super::frame::{self, FrameHeader, HEADER, LOWER_31_BITS, MAX_PAYLOAD, MAX_WINDOW, code, flag, kind, setting};
use super::heads::{self, HeadFault, ResponseHead};
use super::reader::{Block, Frame};

/// The frames of a stream may take twice as many bytes as its body, and this many more for heads and padding.
const MAX_OVERHEAD: u64 = 1 << 20;

/// A result whose error ends the connection.
type Checked<T = ()> = Result<T, ConnFault>;

/// A fault of the whole connection.
fn fault<T>(code: u32, why: &'static str) -> Checked<T> {
    Err(ConnFault { code, kind: ErrorKind::Protocol, why, stream: None, is_other_protocol: false })
}

impl H2Conn {
    /// Parses frames until the bytes end.
    pub(super) fn read(&mut self, bytes: &[u8], now: Time, events: &mut dyn StreamEvents) -> Checked {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_over {
            let Some(mut frame) = self.reader.frame.take() else {
                rest = self.read_header(rest, now, events)?;
                continue;
            };
            let (piece, after) = rest.split_at(rest.len().min(frame.left as usize));
            rest = after;
            self.read_payload(&mut frame, piece, now, events)?;
            if frame.left > 0 {
                self.reader.frame = Some(frame);
            } else {
                self.end_frame(&frame, now, events)?;
            }
        }
        Ok(())
    }

    /// Reads bytes of a frame header. Returns the bytes after it.
    fn read_header<'a>(&mut self, bytes: &'a [u8], now: Time, events: &mut dyn StreamEvents) -> Checked<&'a [u8]> {
        let received = usize::from(self.reader.header_len);
        let (piece, rest) = bytes.split_at(bytes.len().min(HEADER - received));
        for (slot, byte) in self.reader.header.iter_mut().skip(received).zip(piece) {
            *slot = *byte;
        }
        self.reader.header_len += piece.len() as u8;
        if usize::from(self.reader.header_len) < HEADER {
            self.check_opening()?;
            return Ok(rest);
        }
        self.reader.header_len = 0;
        let header = FrameHeader::parse(self.reader.header);
        let frame = self.begin_frame(header, now)?;
        if frame.left == 0 {
            self.end_frame(&frame, now, events)?;
        } else {
            self.reader.frame = Some(frame);
        }
        Ok(rest)
    }

    /// Detects an HTTP/1 response at its first bytes, without waiting for the rest of a frame header.
    fn check_opening(&self) -> Checked {
        let received = self.reader.header.get(..usize::from(self.reader.header_len)).unwrap_or_default();
        if !self.has_settings && received.starts_with(b"HTTP") {
            return Err(other_protocol());
        }
        Ok(())
    }

    /// Checks the header of a frame, and counts the frame towards limits and windows.
    fn begin_frame(&mut self, header: FrameHeader, now: Time) -> Checked<Frame> {
        let FrameHeader { length, kind, stream, .. } = header;
        if !self.has_settings && (kind != kind::SETTINGS || header.has(flag::ACK) || length as usize > MAX_PAYLOAD) {
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
        // "Idle" is the term of RFC 9113, 5.1 for a stream that was never opened.
        let is_idle = stream != 0 && !self.was_opened(stream);
        let needs_opened_stream = matches!(kind, kind::DATA | kind::HEADERS | kind::RST_STREAM | kind::WINDOW_UPDATE);
        if is_idle && needs_opened_stream {
            return fault(code::PROTOCOL_ERROR, "a frame on a stream that was never opened");
        }
        // The lengths of payloads are those of RFC 9113, 6.1 to 6.10.
        let has_valid_length = match kind {
            kind::PRIORITY => length == 5,
            kind::RST_STREAM | kind::WINDOW_UPDATE => length == 4,
            kind::PING => length == 8,
            kind::GOAWAY => length >= 8,
            kind::SETTINGS if header.has(flag::ACK) => length == 0,
            kind::SETTINGS => length % 6 == 0,
            _ => true,
        };
        if !has_valid_length {
            return fault(code::FRAME_SIZE_ERROR, "a frame of the wrong length");
        }
        if kind == kind::PUSH_PROMISE {
            return fault(code::PROTOCOL_ERROR, "PUSH_PROMISE, although push is disabled");
        }
        let is_open = self.index_of(stream).is_some();
        let has_no_content = match kind {
            // DATA with content is limited by the windows, also on closed streams.
            kind::DATA => length == 0 && !(is_open && header.has(flag::END_STREAM)),
            // Heads on closed streams are skipped.
            kind::HEADERS => !is_open,
            kind::CONTINUATION => length == 0,
            // The server acknowledges a body that we sent.
            kind::WINDOW_UPDATE if self.update_credit > 0 => {
                self.update_credit -= 1;
                false
            }
            _ => true,
        };
        if has_no_content {
            self.count_contentless_frame(stream, now)?;
        }
        let is_padded = header.has(flag::PADDED) && matches!(kind, kind::DATA | kind::HEADERS);
        let has_priority = header.has(flag::PRIORITY) && kind == kind::HEADERS;
        // One byte for the length of the padding; five for a stream dependency and a weight.
        let prefix = u8::from(is_padded) + if has_priority { 5 } else { 0 };
        if length < u32::from(prefix) {
            return fault(code::FRAME_SIZE_ERROR, "a frame that is too short for its flags");
        }
        if let Some(open) = self.index_of(stream).and_then(|index| self.streams.get_mut(index)) {
            open.wire += (HEADER + length as usize) as u64;
        }
        if kind == kind::DATA {
            self.charge_windows(stream, length)?;
        }
        if kind == kind::HEADERS {
            let ends_stream = header.has(flag::END_STREAM);
            self.reader.block =
                Some(Box::new(Block { stream, ends_stream, bytes: Vec::new(), skipped: 0, charge: None }));
        }
        Ok(Frame { header, left: length, padding: 0, prefix, small: [0; 8], small_len: 0 })
    }

    /// Counts a frame without content. Fails if there are too many, or if too many replies wait to be written.
    fn count_contentless_frame(&mut self, stream: u32, now: Time) -> Checked {
        if self.flood_guard.count_frame(now) && self.out.len() <= MAX_OUT {
            return Ok(());
        }
        let stream = Some(stream).filter(|stream| *stream != 0);
        let why = "a flood of frames without content";
        Err(ConnFault {
            code: code::ENHANCE_YOUR_CALM,
            kind: ErrorKind::Protocol,
            why,
            stream,
            is_other_protocol: false,
        })
    }

    /// Charges a whole DATA frame to the flow-control windows.
    fn charge_windows(&mut self, stream: u32, length: u32) -> Checked {
        if !self.window.receive(length) {
            return fault(code::FLOW_CONTROL_ERROR, "more data than the connection's window allows");
        }
        if let Some(grant) = self.window.grant() {
            frame::push_window_update(&mut self.out, 0, grant);
        }
        let Some(open) = self.index_of(stream).and_then(|index| self.streams.get_mut(index)) else {
            // The stream has ended, perhaps by our reset.
            let Some(stray_allowance) = self.stray_allowance.checked_sub(u64::from(length)) else {
                let (code, kind, why) = (code::STREAM_CLOSED, ErrorKind::Protocol, "data on a stream that has ended");
                return Err(ConnFault { code, kind, why, stream: Some(stream), is_other_protocol: false });
            };
            self.stray_allowance = stray_allowance;
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
    fn read_payload(&mut self, frame: &mut Frame, piece: &[u8], now: Time, events: &mut dyn StreamEvents) -> Checked {
        let mut piece = piece;
        frame.left -= piece.len() as u32;
        // Padding length and priority come first.
        while frame.prefix > 0
            && let Some((byte, rest)) = piece.split_first()
        {
            let is_padding_length = frame.header.has(flag::PADDED) && frame.small_len == 0;
            frame.small_len = 1;
            frame.prefix -= 1;
            piece = rest;
            if is_padding_length {
                frame.padding = u32::from(*byte);
                let required = u32::from(frame.prefix) + frame.padding;
                if required > frame.left + piece.len() as u32 {
                    return fault(code::PROTOCOL_ERROR, "padding that is longer than its frame");
                }
                if frame.header.kind == kind::DATA {
                    // The byte with the length of the padding counts as padding too.
                    let padding = frame.padding + 1;
                    self.consume_padding(frame.header.stream, padding)?;
                    if padding == frame.header.length && !frame.header.has(flag::END_STREAM) {
                        self.count_contentless_frame(frame.header.stream, now)?;
                    }
                }
            }
        }
        match frame.header.kind {
            kind::DATA => {
                let content = content_of(frame, piece);
                self.on_data(frame.header.stream, content, now, events);
                Ok(())
            }
            kind::HEADERS | kind::CONTINUATION => {
                let content = content_of(frame, piece);
                if frame.left == 0 && frame.header.has(flag::END_HEADERS) {
                    return self.end_block(content, now, events);
                }
                self.extend_block(content, events)
            }
            kind::SETTINGS => self.read_settings(frame, piece),
            _ => {
                for byte in piece {
                    let Some(slot) = frame.small.get_mut(usize::from(frame.small_len)) else { break };
                    *slot = *byte;
                    frame.small_len += 1;
                }
                Ok(())
            }
        }
    }

    /// Ends a frame whose payload is complete.
    fn end_frame(&mut self, frame: &Frame, now: Time, events: &mut dyn StreamEvents) -> Checked {
        let FrameHeader { kind, stream, length, .. } = frame.header;
        match kind {
            kind::DATA => {
                if let Some(index) = self.index_of(stream) {
                    if frame.header.has(flag::END_STREAM) {
                        self.finish(index, now, events);
                    } else {
                        self.grant(index);
                    }
                }
            }
            // `read_payload` is not called for a frame with an empty payload.
            kind::HEADERS | kind::CONTINUATION if length == 0 && frame.header.has(flag::END_HEADERS) => {
                self.end_block(&[], now, events)?;
            }
            kind::RST_STREAM => self.on_reset(stream, frame.u32_at(0), now, events),
            kind::SETTINGS => self.end_settings(frame),
            kind::PING if !frame.header.has(flag::ACK) => {
                frame::push(&mut self.out, kind::PING, flag::ACK, 0, frame.small());
            }
            kind::GOAWAY => self.on_goaway(frame.u32_at(0) & LOWER_31_BITS, frame.u32_at(4), now, events),
            kind::WINDOW_UPDATE => self.on_window_update(stream, frame.u32_at(0) & LOWER_31_BITS, now, events)?,
            _ => {}
        }
        Ok(())
    }

    /// Counts padding as consumed, and not as a part of the body. Fails if most of the stream is padding.
    fn consume_padding(&mut self, stream: u32, bytes: u32) -> Checked {
        let Some(open) = self.index_of(stream).and_then(|index| self.streams.get_mut(index)) else { return Ok(()) };
        open.window.consume_padding(bytes);
        // The window of an unwanted stream, without a key, is not enlarged and so limits the padding.
        if open.key.is_none() || open.wire <= open.received.saturating_mul(2).saturating_add(MAX_OVERHEAD) {
            return Ok(());
        }
        let (code, kind, why) = (code::ENHANCE_YOUR_CALM, ErrorKind::Protocol, "a stream that is mostly padding");
        Err(ConnFault { code, kind, why, stream: Some(stream), is_other_protocol: false })
    }

    /// Handles bytes of a body.
    fn on_data(&mut self, id: u32, content: &[u8], now: Time, events: &mut dyn StreamEvents) {
        if content.is_empty() {
            return;
        }
        let Some(index) = self.index_of(id) else { return };
        let Some(stream) = self.streams.get_mut(index) else { return };
        if !stream.has_head {
            let failure = Failure::new(ErrorKind::Protocol, "a body before its head");
            return self.fail_stream(index, StreamFault::Failed(failure), Some(code::PROTOCOL_ERROR), now, events);
        }
        // Only as many bytes as the content-length declares are passed on. More are an error.
        let expected = stream.body_left().map_or(content.len(), |left| usize::try_from(left).unwrap_or(usize::MAX));
        let fitting = content.get(..expected).unwrap_or(content);
        stream.received += fitting.len() as u64;
        stream.set_body_left(stream.body_left().map(|left| left - fitting.len() as u64));
        let taken = match stream.key {
            Some(key) if !fitting.is_empty() => events.data(key, fitting, now).min(fitting.len()),
            _ => fitting.len(),
        };
        stream.window.consume(taken as u32);
        self.detach_if_satisfied(index, events);
        if fitting.len() < content.len() {
            let failure = Failure::new(ErrorKind::Protocol, "more bytes than the content-length");
            self.fail_stream(index, StreamFault::Failed(failure), Some(code::PROTOCOL_ERROR), now, events);
        }
    }

    /// Removes the key of a stream if its receiver needs nothing more of it.
    fn detach_if_satisfied(&mut self, index: usize, events: &mut dyn StreamEvents) {
        let Some(stream) = self.streams.get_mut(index) else { return };
        let is_complete = stream.body_left() == Some(0);
        if stream.key.is_some_and(|key| events.is_satisfied(key, stream.wire, is_complete)) {
            stream.key = None;
            (self.has_unwanted, self.has_served) = (true, true);
        }
    }

    /// Handles the end of a stream.
    fn finish(&mut self, index: usize, now: Time, events: &mut dyn StreamEvents) {
        if index >= self.streams.len() {
            return;
        }
        let stream = self.streams.remove(index);
        if stream.has_unsent_body() {
            // The response is complete, so the server does not need the rest of the request.
            frame::push_reset(&mut self.out, stream.id, code::CANCEL);
        }
        if let Some(key) = stream.key {
            match stream.body_left() {
                _ if !stream.has_head => {
                    let failure = Failure::new(ErrorKind::Protocol, "a stream that ended without a final head");
                    events.failed(key, stream.wire, StreamFault::Failed(failure), now);
                }
                Some(left @ 1..) => {
                    let message = format!("the stream ended {left} bytes before the content-length");
                    let fault = StreamFault::Failed(Failure::new(ErrorKind::Protocol, message));
                    events.failed(key, stream.wire, fault, now);
                }
                _ => events.end(key, stream.wire, now),
            }
        }
        self.has_served = true;
        self.open_waiting();
    }

    /// Stores a part of a header block. Skips the block if it is too long, or if its stream has ended or is unwanted.
    fn extend_block(&mut self, content: &[u8], events: &mut dyn StreamEvents) -> Checked {
        let limit = self.limits.max_head;
        let Some(id) = self.reader.block.as_ref().map(|block| block.stream) else { return Ok(()) };
        let key = self.index_of(id).and_then(|index| self.streams.get(index)).and_then(|stream| stream.key);
        let Some(block) = &mut self.reader.block else { return Ok(()) };
        if let Some(key) = key
            && block.skipped == 0
            && block.bytes.len() + content.len() <= limit
        {
            block.bytes.extend_from_slice(content);
            if block.bytes.len() > UNCHARGED_HEAD {
                if block.charge.is_none() {
                    block.charge = events.new_head_charge(key);
                }
                if let Some(charge) = &mut block.charge {
                    charge.resize(block.bytes.capacity());
                }
            }
            return Ok(());
        }
        block.skipped += content.len() + block.bytes.len();
        (block.bytes, block.charge) = (Vec::new(), None);
        // Up to twice the limit is skipped, so that only this stream fails. A longer block ends the connection.
        if block.skipped <= limit.saturating_mul(2) {
            return Ok(());
        }
        let stream = Some(block.stream);
        let (code, kind) = (code::ENHANCE_YOUR_CALM, ErrorKind::HeaderTooLarge);
        let why = "a header block that does not end";
        Err(ConnFault { code, kind, why, stream, is_other_protocol: false })
    }

    /// Handles a complete header block. `last` is its last part, which is not stored yet.
    fn end_block(&mut self, last: &[u8], now: Time, events: &mut dyn StreamEvents) -> Checked {
        let has_earlier_part =
            self.reader.block.as_ref().is_some_and(|block| !block.bytes.is_empty() || block.skipped > 0);
        if has_earlier_part {
            self.extend_block(last, events)?;
        }
        let Some(block) = self.reader.block.take() else { return Ok(()) };
        let bytes = if has_earlier_part { &block.bytes } else { last };
        let Some(index) = self.index_of(block.stream) else {
            // This stream was reset or has ended. Decoding has no state, so the block can be skipped.
            return Ok(());
        };
        let limit = self.limits.max_head;
        let Some(stream) = self.streams.get_mut(index) else { return Ok(()) };
        if stream.key.is_none() {
            if block.ends_stream {
                self.finish(index, now, events);
            }
            return Ok(());
        }
        let is_too_long = block.skipped > 0 || bytes.len() > limit;
        let parsed = if is_too_long {
            Err(HeadFault::Stream(heads::too_large()))
        } else if stream.has_head {
            match heads::trailers(bytes, limit) {
                Ok(()) if !block.ends_stream => Err(malformed("a second head that does not end the stream")),
                result => result.map(|()| None),
            }
        } else {
            match heads::response(bytes, limit) {
                Ok(ResponseHead { head, .. }) if head.status < 200 && block.ends_stream => {
                    Err(malformed("an interim head that ends the stream"))
                }
                result => result.map(Some),
            }
        };
        match parsed {
            Ok(head) => {
                if let Some(ResponseHead { head, content_length }) = head {
                    stream.has_head = head.status >= 200;
                    stream.set_body_left(content_length);
                    if let Some(key) = stream.key {
                        events.head(key, &head, now);
                    }
                }
                if block.ends_stream {
                    self.finish(index, now, events);
                } else {
                    self.detach_if_satisfied(index, events);
                }
                Ok(())
            }
            Err(HeadFault::Stream(failure)) => {
                let code = if failure.kind == ErrorKind::Protocol { code::PROTOCOL_ERROR } else { code::CANCEL };
                // If the server has already ended the stream, no reset is sent.
                let reset = (!block.ends_stream).then_some(code);
                self.fail_stream(index, StreamFault::Failed(failure), reset, now, events);
                Ok(())
            }
            Err(HeadFault::Compression(why)) => {
                let (code, kind, stream) = (code::COMPRESSION_ERROR, ErrorKind::Protocol, Some(block.stream));
                Err(ConnFault { code, kind, why, stream, is_other_protocol: false })
            }
        }
    }

    /// Parses settings. Each takes six bytes, which may be split across pieces.
    fn read_settings(&mut self, frame: &mut Frame, piece: &[u8]) -> Checked {
        for byte in piece {
            if let Some(slot) = frame.small.get_mut(usize::from(frame.small_len)) {
                *slot = *byte;
            }
            frame.small_len += 1;
            if frame.small_len == 6 {
                frame.small_len = 0;
                let [high, low, ..] = frame.small;
                self.apply_setting(u16::from_be_bytes([high, low]), frame.u32_at(2))?;
            }
        }
        Ok(())
    }

    fn apply_setting(&mut self, id: u16, value: u32) -> Checked {
        match id {
            setting::ENABLE_PUSH if value != 0 => {
                return fault(code::PROTOCOL_ERROR, "a server that sets ENABLE_PUSH");
            }
            setting::MAX_CONCURRENT_STREAMS => self.max_streams = value,
            setting::INITIAL_WINDOW_SIZE if value > MAX_WINDOW => {
                return fault(code::FLOW_CONTROL_ERROR, "an initial window that is too large");
            }
            setting::INITIAL_WINDOW_SIZE => {
                let largest_delta = self.streams.iter().map(|stream| stream.send_delta).max().unwrap_or(0);
                if i64::from(value) + i64::from(largest_delta) > i64::from(MAX_WINDOW) {
                    return fault(code::FLOW_CONTROL_ERROR, "a window that becomes too large by a setting");
                }
                self.initial_send_window = value;
            }
            // The range of RFC 9113, 6.5.2.
            setting::MAX_FRAME_SIZE if !(16_384..=16_777_215).contains(&value) => {
                return fault(code::PROTOCOL_ERROR, "a maximum frame size that is not allowed");
            }
            // All others are ignored: our frames fit into the least MAX_FRAME_SIZE, our encoder has no dynamic table,
            // MAX_HEADER_LIST_SIZE is advisory, and unknown settings have no meaning.
            _ => {}
        }
        Ok(())
    }

    fn end_settings(&mut self, frame: &Frame) {
        if frame.header.has(flag::ACK) {
            return;
        }
        self.has_settings = true;
        frame::push(&mut self.out, kind::SETTINGS, flag::ACK, 0, &[]);
        self.open_waiting();
    }

    fn on_reset(&mut self, id: u32, code: u32, now: Time, events: &mut dyn StreamEvents) {
        let Some(index) = self.index_of(id) else { return };
        let is_repeatable = self.streams.get(index).is_some_and(|stream| stream.is_repeatable);
        let message = format!("the server reset the stream: {}", frame::code_name(code));
        let fault = match code {
            // A repeatable request fails instead: the retry of a failed request waits, which reduces the server's load.
            code::REFUSED_STREAM if !is_repeatable => StreamFault::Unprocessed(Failure::new(ErrorKind::Reset, message)),
            code::HTTP_1_1_REQUIRED => StreamFault::Http1(Failure::new(ErrorKind::Protocol, message)),
            code::NO_ERROR | code::INTERNAL_ERROR | code::REFUSED_STREAM | code::CANCEL | code::ENHANCE_YOUR_CALM => {
                StreamFault::Failed(Failure::new(ErrorKind::Reset, message))
            }
            _ => StreamFault::Failed(Failure::new(ErrorKind::Protocol, message)),
        };
        self.fail_stream(index, fault, None, now, events);
    }

    /// The server will not process streams after `last`.
    fn on_goaway(&mut self, last: u32, code: u32, now: Time, events: &mut dyn StreamEvents) {
        self.is_closing = true;
        self.last_processed = Some(self.last_processed.map_or(last, |before| before.min(last)));
        let message = format!("the server ended the connection: {}", frame::code_name(code));
        // Waiting streams come last.
        let first_unprocessed = self.streams.partition_point(|stream| stream.id <= last && stream.id != WAITING);
        for stream in self.streams.split_off(first_unprocessed) {
            let Some(key) = stream.key else { continue };
            let fault = match code {
                code::HTTP_1_1_REQUIRED => StreamFault::Http1(Failure::new(ErrorKind::Protocol, message.clone())),
                // The server is overloaded: the retry waits, and the host's lane slows down.
                code::ENHANCE_YOUR_CALM if stream.is_repeatable => {
                    StreamFault::Failed(Failure::new(ErrorKind::Reset, message.clone()))
                }
                _ => StreamFault::Unprocessed(Failure::new(ErrorKind::Protocol, message.clone())),
            };
            events.failed(key, stream.wire, fault, now);
        }
    }

    fn on_window_update(&mut self, id: u32, increment: u32, now: Time, events: &mut dyn StreamEvents) -> Checked {
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
        let initial = self.initial_send_window;
        let Some(index) = self.index_of(id) else { return Ok(()) };
        let Some(stream) = self.streams.get_mut(index) else { return Ok(()) };
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
        self.fail_stream(index, fault, Some(code), now, events);
        Ok(())
    }
}

/// The piece without padding. Padding is at the end of the payload, of which `frame.left` bytes follow this piece.
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
