//! Processing of response bytes: the part of [`Conn`] that parses heads and decodes bodies.
//!
//! Invariant: each byte is processed once and in order. Bytes are buffered only if a head is split across reads, or if
//! a decoder waits for memory or for its next slice.

use std::num::NonZeroU64;

use super::UNCHARGED_HEAD;
use crate::base::outcome::{ErrorKind, Failure, Truncated};
use crate::base::quota::SlowResponseQuota;
use crate::base::time::Time;

use super::coding::{DecodeQuota, DecodeStop, Decoder, Emit, FIRST_DECODE_INPUT};
use super::deadline::{self, SLOT_RATE};
use super::framing::{BodyFraming, BodyPlan};
use super::head::{self, Head, ParsedHead};
use super::limits::Limits;
use super::{BodyUse, Conn, PartialHead, Phase, Receiver, Want};

/// An unwanted body of up to this size is read so that the connection can be reused.
pub(crate) const MAX_DRAIN: u64 = 64 << 10;
/// Decoded bytes per slice, about a quarter of a millisecond of work. Larger bodies yield between slices.
pub(super) const DECODE_SLICE: u64 = 64 << 10;
/// Bounds of the adaptive input size.
const MIN_DECODE_INPUT: usize = FIRST_DECODE_INPUT / 8;
const MAX_DECODE_INPUT: usize = 8 << 10;
/// Up to this expansion ratio the input size doubles. Above this ratio, the size shrinks to an eighth.
const LOW_EXPANSION: u64 = 32;

impl Conn {
    /// Processes response bytes until the decoded body reaches `until`. Returns how many bytes were consumed.
    pub(super) fn process_response(
        &mut self,
        bytes: &[u8],
        until: u64,
        now: Time,
        receiver: &mut dyn Receiver,
    ) -> usize {
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            used += match self.phase {
                Phase::Idle | Phase::Done => {
                    self.is_unusable = true;
                    return bytes.len();
                }
                Phase::Head => self.take_head(rest, now, receiver),
                Phase::Body(_) if self.decoded_bytes(receiver) >= until || self.has_more_to_decode() => return used,
                Phase::Body(framing) => self.take_body(framing, rest, until, now, receiver),
            };
        }
        used
    }

    /// Decoded bytes of the body so far. Counts what the connection decodes and what the receiver decompresses.
    pub(super) fn decoded_bytes(&self, receiver: &dyn Receiver) -> u64 {
        self.bytes_body + receiver.decompressed_bytes().unwrap_or(0)
    }

    /// True if consumed input can produce more output.
    pub(super) fn has_more_to_decode(&self) -> bool {
        self.decoder.as_ref().is_some_and(|decoder| decoder.has_more())
    }

    /// Continues decoding consumed input until the decoded body reaches `until`.
    pub(super) fn decode_more(&mut self, until: u64, receiver: &mut dyn Receiver) {
        if !self.has_more_to_decode() {
            return;
        }
        self.decode(until, receiver, |decoder, quota, out| decoder.resume(quota, out));
        if let Phase::Body(framing) = self.phase
            && framing.is_complete()
            && !self.has_more_to_decode()
        {
            self.complete_body(receiver);
        }
    }

    /// Processes bytes of a head. Returns how many were consumed.
    fn take_head(&mut self, bytes: &[u8], now: Time, receiver: &mut dyn Receiver) -> usize {
        self.first_byte = self.first_byte.min(now);
        let Some(mut partial) = self.partial.take() else {
            match Head::parse(bytes, &self.limits) {
                Ok(ParsedHead::Whole(head, used)) => {
                    self.on_head(&head, now, receiver);
                    return used;
                }
                Ok(ParsedHead::Partial) => {
                    self.partial = Some(Box::new(PartialHead { bytes: bytes.to_vec(), charge: None }))
                }
                Err(failure) => self.reject_head(failure, bytes),
            }
            return bytes.len();
        };
        // The head is parsed only once its end has been found: parsing it again for each piece would take quadratic
        // time.
        let before = partial.bytes.len();
        partial.bytes.extend_from_slice(bytes);
        if partial.bytes.len() > UNCHARGED_HEAD {
            if partial.charge.is_none() {
                partial.charge = receiver.new_head_charge();
            }
            if let Some(charge) = &mut partial.charge {
                charge.resize(partial.bytes.capacity());
            }
        }
        let Some(end) = head::end_of_head(&partial.bytes, before) else {
            // A head that is too long is refused with the error of the parser.
            let fault = if partial.bytes.len() > self.limits.max_head {
                Head::parse(&partial.bytes, &self.limits).err()
            } else {
                head::check_opening(&partial.bytes).err()
            };
            // The rate of a head is measured from its first byte on, so its age is also the measured time.
            let (received, age) = (self.bytes_wire + partial.bytes.len() as u64, now - self.first_byte);
            match fault {
                Some(failure) => self.reject_head(failure, &partial.bytes),
                None if deadline::must_free_slot(received, age, age, receiver.slow_response_quota()) => {
                    self.reject_head(slot_needed(), &partial.bytes);
                }
                None => self.partial = Some(partial),
            }
            return bytes.len();
        };
        let raw = partial.bytes.get(..end).unwrap_or(&partial.bytes);
        match Head::parse(raw, &self.limits) {
            Ok(ParsedHead::Whole(head, _)) => self.on_head(&head, now, receiver),
            Ok(ParsedHead::Partial) => {
                self.reject_head(Failure::new(ErrorKind::Protocol, "an incomplete head before its empty line"), raw);
            }
            Err(failure) => self.reject_head(failure, raw),
        }
        end.saturating_sub(before)
    }

    /// Ends the exchange within its head, because the head is malformed, or slow while its slot is needed.
    fn reject_head(&mut self, failure: Failure, received: &[u8]) {
        // Bytes on a kept-alive connection that do not look like a head belong to the previous response. The request is
        // repeated on a new connection.
        self.is_stale = self.is_reused && self.bytes_wire == 0 && head::check_opening(received).is_err();
        self.bytes_wire += received.len() as u64;
        self.stop(Some(failure), None);
    }

    /// Handles a complete head, and decides how the body is read.
    pub(super) fn on_head(&mut self, head: &Head, now: Time, receiver: &mut dyn Receiver) {
        self.bytes_wire += head.size() as u64;
        if head.status < 200 {
            if head.status == 101 {
                let message = "101: the server switches to another protocol without a request";
                self.stop(Some(Failure::new(ErrorKind::Protocol, message)), None);
            } else if self.interim_responses >= self.limits.max_1xx {
                let message = format!("more than {} interim responses", self.limits.max_1xx);
                self.stop(Some(Failure::new(ErrorKind::Protocol, message)), None);
            } else {
                self.interim_responses += 1;
            }
            return;
        }
        if receiver.wants_wire() {
            receiver.wire(&head.text());
        }
        let plan = match BodyPlan::of(head, self.is_head_request) {
            Ok(plan) => plan,
            Err(failure) => return self.stop(Some(failure), None),
        };
        self.may_reuse = plan.may_reuse;
        self.phase = Phase::Body(plan.framing);
        // The body has made progress with its head, so the checks of the head do not postpone its first check.
        self.slot_check_delay = 0;
        self.deadlines.restart(now);
        let want = receiver.head(head, now);
        self.body_limit = if let Want::UpTo(limit) = want { NonZeroU64::new(limit.max(1)) } else { None };
        if plan.framing.is_complete() {
            self.complete_body(receiver);
        } else if want == Want::Nothing {
            self.body_use = BodyUse::Drop;
            let is_short = match plan.framing {
                BodyFraming::Length(length) => length <= MAX_DRAIN,
                // The length is not known yet: `take_body` stops at the same limit.
                BodyFraming::Chunked(_) => true,
                BodyFraming::UntilClose => false,
            };
            if !self.may_reuse || !is_short {
                self.stop(None, None);
            }
        } else {
            match Decoder::of(head, &self.limits) {
                Ok((decoder, mislabelled)) => {
                    self.decoder = decoder;
                    self.coding_defects.mislabelled = mislabelled;
                }
                Err(message) => self.stop_decoding(message),
            }
        }
    }

    /// Processes bytes of a body until the decoded body reaches `until`. Returns how many were consumed.
    fn take_body(
        &mut self,
        mut framing: BodyFraming,
        bytes: &[u8],
        until: u64,
        now: Time,
        receiver: &mut dyn Receiver,
    ) -> usize {
        let mut used = 0;
        let is_compressed = self.decoder.is_some() || receiver.decompressed_bytes().is_some();
        let mut input_size = match &self.decoder {
            Some(decoder) => decoder.input_size,
            // The receiver decompresses.
            None if is_compressed => FIRST_DECODE_INPUT,
            None => usize::MAX,
        };
        let mut decoded = self.decoded_bytes(receiver);
        while used < bytes.len() && !framing.is_complete() && decoded < until && !self.has_more_to_decode() {
            let rest = bytes.get(used..).unwrap_or_default();
            let before = framing;
            let mut piece = match framing.take(rest.get(..input_size).unwrap_or(rest), &self.limits) {
                Ok(piece) => piece,
                Err(error) => {
                    used += error.used;
                    let has_usable_body = error.keeps_body && self.bytes_body > 0;
                    self.stop(Some(error.failure), has_usable_body.then_some(Truncated::Decode));
                    break;
                }
            };
            if piece.body.is_empty() {
                used += piece.used;
                continue;
            }
            let limit = match self.body_use {
                BodyUse::Drop => MAX_DRAIN,
                BodyUse::Raw => self.max_wire(),
                BodyUse::Decode if self.decoder.is_some() => self.max_wire(),
                BodyUse::Decode => self.max_wire().min(self.max_body()),
            };
            let room = usize::try_from(limit - self.payload_bytes.min(limit)).unwrap_or(usize::MAX);
            let excess = piece.body.len().saturating_sub(room);
            if excess > 0 && room > 0 {
                // Take only what fits, and decode it first. The next iteration handles the excess.
                framing = before;
                if let Ok(fitting) = framing.take(rest.get(..piece.used - excess).unwrap_or(rest), &self.limits) {
                    piece = fitting;
                }
            } else if excess > 0 {
                used += piece.used - excess;
                self.stop(too_large(limit), Some(Truncated::Length));
                break;
            }
            used += piece.used;
            self.payload_bytes += piece.body.len() as u64;
            self.deliver(piece.body, until, receiver);
            if self.phase == Phase::Done {
                break;
            }
            if is_compressed {
                let output = self.decoded_bytes(receiver) - decoded;
                let is_low_expansion = output <= piece.body.len() as u64 * LOW_EXPANSION;
                input_size = if is_low_expansion {
                    (input_size * 2).min(MAX_DECODE_INPUT)
                } else {
                    (input_size / 8).max(MIN_DECODE_INPUT)
                };
                decoded += output;
            }
        }
        if let Some(decoder) = &mut self.decoder {
            decoder.input_size = input_size;
        }
        self.bytes_wire += used as u64;
        receiver.wire(bytes.get(..used).unwrap_or(bytes));
        if self.phase != Phase::Done {
            self.phase = Phase::Body(framing);
            if framing.is_complete() && !self.has_more_to_decode() {
                self.complete_body(receiver);
            } else if self.deadlines.count_bytes(used, now, &self.limits) {
                self.stop(too_slow(&self.limits), Some(Truncated::Time));
            } else if self.deadlines.must_free_slot(now - self.first_byte, now, receiver.slow_response_quota()) {
                self.stop(Some(slot_needed()), Some(Truncated::Time));
            }
        }
        used
    }

    fn max_wire(&self) -> u64 {
        self.body_limit.map_or(self.limits.max_wire, NonZeroU64::get)
    }

    fn max_body(&self) -> u64 {
        self.body_limit.map_or(self.limits.max_body, NonZeroU64::get)
    }

    /// Passes bytes of the body to the decoder, or to the receiver if the body has no content coding.
    fn deliver(&mut self, payload: &[u8], until: u64, receiver: &mut dyn Receiver) {
        match (self.body_use, &self.decoder) {
            (BodyUse::Drop | BodyUse::Raw, _) => {}
            (BodyUse::Decode, None) => {
                self.bytes_body += payload.len() as u64;
                receiver.body(payload);
            }
            (BodyUse::Decode, Some(_)) => {
                self.decode(until, receiver, |decoder, quota, out| decoder.push(payload, quota, out));
            }
        }
    }

    /// Calls `run` with the decoder and a quota of output that ends when the decoded body reaches `until`. If the
    /// decoder needs memory, charges it and continues; without room in the budget, the decoder keeps its input for
    /// later.
    fn decode(
        &mut self,
        until: u64,
        receiver: &mut dyn Receiver,
        run: impl FnOnce(&mut Decoder, &DecodeQuota, Emit<'_>) -> Result<(), DecodeStop>,
    ) {
        // With a slice of zero, the decoder would not make progress.
        let slice = until.saturating_sub(self.decoded_bytes(receiver)).max(1);
        let quota = DecodeQuota::new(self.max_body(), slice);
        let Some(decoder) = &mut self.decoder else { return };
        let bytes_body = &mut self.bytes_body;
        let mut emit = |receiver: &mut dyn Receiver, decoded: &[u8]| {
            *bytes_body += decoded.len() as u64;
            receiver.body(decoded);
            Ok(())
        };
        let mut result = run(decoder, &quota, &mut |decoded| emit(receiver, decoded));
        while result.is_ok() && decoder.memory_needed() > 0 {
            result = decoder.check_windows();
            if result.is_err() || !receiver.reserve(decoder.memory_needed()) {
                break;
            }
            decoder.grant_memory();
            result = decoder.resume(&quota, &mut |decoded| emit(receiver, decoded));
        }
        self.coding_defects.merge(decoder.coding_defects());
        self.handle_decode_result(result);
    }

    fn handle_decode_result(&mut self, result: Result<(), DecodeStop>) {
        match result {
            Ok(()) => {}
            Err(DecodeStop::Full) => self.stop(too_large(self.max_body()), Some(Truncated::Length)),
            Err(DecodeStop::Broken(message)) => self.stop_decoding(message),
        }
    }

    /// Stops decoding because of an error. The rest of the body is still read, for receivers that keep the raw bytes.
    fn stop_decoding(&mut self, message: String) {
        self.failure = Some(Box::new(Failure::new(ErrorKind::Decode, message)));
        self.truncated = (self.bytes_body > 0).then_some(Truncated::Decode);
        self.body_use = BodyUse::Raw;
        self.decoder = None;
    }

    /// Flushes the decoder at the end of the body, and ends the exchange.
    fn complete_body(&mut self, receiver: &mut dyn Receiver) {
        self.decode(u64::MAX, receiver, |decoder, quota, out| decoder.finish(quota, out));
        self.decoder = None;
        self.phase = Phase::Done;
    }

    /// Handles that the peer closed the connection. `cleanly` is false for a TLS connection without close_notify: then
    /// a body that ends with the connection may be truncated.
    pub(super) fn peer_closed(&mut self, cleanly: bool, receiver: &mut dyn Receiver) {
        match self.phase {
            Phase::Idle | Phase::Done => {}
            Phase::Head => {
                self.fail_head(if self.partial.is_none() && self.bytes_wire == 0 {
                    Failure::new(ErrorKind::EmptyReply, "the server closed the connection without a response")
                } else {
                    Failure::new(ErrorKind::Reset, "the server closed the connection in the middle of the head")
                });
            }
            Phase::Body(framing) if framing.may_end_here() && (cleanly || framing != BodyFraming::UntilClose) => {
                self.complete_body(receiver);
            }
            Phase::Body(framing) => {
                let message = match framing {
                    BodyFraming::Length(left) => {
                        format!("the connection was closed {left} bytes before the end of the body")
                    }
                    BodyFraming::Chunked(_) => "the connection was closed before the last chunk".to_owned(),
                    BodyFraming::UntilClose => {
                        "the connection was closed without a TLS close_notify: the body may be incomplete".to_owned()
                    }
                };
                self.connection_lost(Failure::new(ErrorKind::Reset, message));
            }
        }
        self.is_unusable = true;
    }

    /// Ends an exchange whose head is incomplete. If the bytes received so far are malformed, reports that, otherwise
    /// `failure`.
    pub(super) fn fail_head(&mut self, failure: Failure) {
        let partial = self.partial.take().unwrap_or_default().bytes;
        self.is_stale = self.is_reused && self.bytes_wire == 0 && partial.is_empty();
        self.bytes_wire += partial.len() as u64;
        let fault = match Head::parse(&partial, &self.limits) {
            Err(fault) => Some(fault),
            // The lines before this CR end in a bare LF, so it was hardly meant as the first half of a CRLF.
            Ok(_) if partial.ends_with(b"\n\r") && !partial.ends_with(b"\r\n\r") => {
                Some(Failure::new(ErrorKind::Protocol, "a head that ends in CR without LF"))
            }
            Ok(_) => None,
        };
        self.stop(Some(fault.unwrap_or(failure)), None);
    }

    /// When the next slot check is due. A request that is still being sent is not checked: its server cannot respond yet,
    /// and a request that must not be repeated would be lost.
    pub(super) fn slot_check(&self) -> Time {
        if self.is_sending { Time::NEVER } else { self.deadlines.slot_check(self.slot_check_delay) }
    }

    /// Ends the exchange if it is silent or slow and other requests wait for its slot.
    pub(super) fn check_slot(&mut self, now: Time, quota: Option<&SlowResponseQuota>) {
        self.slot_check_delay = self.deadlines.slot_check_delay(now);
        match self.phase {
            Phase::Head if self.first_byte.is_never() => {
                if self.deadlines.must_free_silent_slot(now, quota) {
                    let message = "no response while others waited for its slot";
                    self.fail_head(Failure::new(ErrorKind::TooSlow, message));
                    self.is_stale = false;
                }
            }
            Phase::Head => {
                let received = self.bytes_wire + self.partial.as_ref().map_or(0, |partial| partial.bytes.len() as u64);
                let age = now - self.first_byte;
                if deadline::must_free_slot(received, age, age, quota) {
                    self.fail_head(slot_needed());
                }
            }
            Phase::Body(_) => {
                if self.deadlines.must_free_slot(now - self.first_byte, now, quota) {
                    self.stop(Some(slot_needed()), Some(Truncated::Time));
                }
            }
            Phase::Idle | Phase::Done => {}
        }
    }

    /// Handles the loss of the connection because of `failure`.
    pub(super) fn connection_lost(&mut self, failure: Failure) {
        match self.phase {
            Phase::Idle if self.is_handshaking() => self.stop(Some(failure), None),
            Phase::Idle | Phase::Done => {}
            Phase::Head => self.fail_head(failure),
            Phase::Body(_) => self.stop(Some(failure), Some(Truncated::Disconnect)),
        }
        self.is_unusable = true;
    }

    /// Ends the exchange early. `truncated` is `None` if there is no usable body. Only the first failure is kept. While
    /// an unwanted body is discarded, failures are ignored.
    pub(super) fn stop(&mut self, failure: Option<Failure>, truncated: Option<Truncated>) {
        if self.failure.is_none() && self.body_use != BodyUse::Drop {
            self.failure = failure.map(Box::new);
            self.truncated = truncated;
        }
        self.phase = Phase::Done;
        self.may_reuse = false;
        self.decoder = None;
        self.partial = None;
        self.out = Vec::new();
    }
}

fn too_large(limit: u64) -> Option<Failure> {
    Some(Failure::new(ErrorKind::TooLarge, format!("the body is larger than {limit} bytes")))
}

/// The failure of a response that ended because its slot was needed.
fn slot_needed() -> Failure {
    let message = format!("fewer than {SLOT_RATE} bytes a second while others waited for its slot");
    Failure::new(ErrorKind::TooSlow, message)
}

pub(super) fn too_slow(limits: &Limits) -> Option<Failure> {
    let message = format!("fewer than {} bytes a second over {:?}", limits.min_rate, limits.idle);
    Some(Failure::new(ErrorKind::TooSlow, message))
}
