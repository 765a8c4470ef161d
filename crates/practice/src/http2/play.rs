//! Runs a script on a stream: the bytes of HTTP/1.1 become HTTP/2 frames.
//!
//! A script that HTTP/2 cannot express (raw bytes that are not a response) resets the stream.

use crate::filler;
use crate::script::Step;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use std::future::poll_fn;

/// The client disconnected, or the script cannot be expressed.
struct Stop;

/// Runs the steps. Returns whether the response was sent as scripted.
pub(super) async fn play(steps: &[Step], respond: SendResponse<Bytes>, head_only: bool) -> bool {
    let mut reply = Reply { respond, stream: None, head: Vec::new(), framing: Framing::Rest, head_only, ended: false };
    match run(steps, &mut reply).await {
        Ok(()) => true,
        Err(Stop) => {
            reply.reset(Reason::INTERNAL_ERROR);
            false
        }
    }
}

async fn run(steps: &[Step], reply: &mut Reply) -> Result<(), Stop> {
    for step in steps {
        match step {
            Step::Send(bytes) => reply.send(bytes).await?,
            Step::Fill(total) => {
                let mut at = 0;
                while at < *total {
                    let piece = filler::slice_at(at, *total - at);
                    reply.send(piece).await?;
                    at += piece.len() as u64;
                }
            }
            Step::Drip(bytes, size, every) => {
                for (number, piece) in bytes.chunks((*size).max(1)).enumerate() {
                    if number > 0 {
                        tokio::time::sleep(*every).await;
                    }
                    reply.send(piece).await?;
                }
            }
            Step::Wait(span) => tokio::time::sleep(*span).await,
            Step::Close => return reply.finish(true).await,
            Step::SilentClose => return reply.finish(false).await,
            Step::Reset => {
                reply.flush().await;
                reply.reset(Reason::CANCEL);
                return Ok(());
            }
            Step::Hang | Step::Hold => {
                // Until the client resets the stream or leaves.
                let _ = match &mut reply.stream {
                    Some(stream) => poll_fn(|cx| stream.poll_reset(cx)).await,
                    None => poll_fn(|cx| reply.respond.poll_reset(cx)).await,
                };
                return Ok(());
            }
        }
    }
    reply.finish(true).await
}

/// The remaining part of a body.
enum Framing {
    /// This many bytes.
    Length(u64),
    Chunked(Chunk),
    /// Everything up to the end of the connection.
    Rest,
}

/// The position in a chunked body.
enum Chunk {
    Line(Vec<u8>),
    Data(usize),
    /// After the last chunk.
    Over,
}

struct Reply {
    respond: SendResponse<Bytes>,
    stream: Option<SendStream<Bytes>>,
    /// The incomplete head of the response.
    head: Vec<u8>,
    framing: Framing,
    head_only: bool,
    ended: bool,
}

impl Reply {
    async fn send(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let mut rest = bytes;
        while self.stream.is_none() && !rest.is_empty() && !self.ended {
            let before = self.head.len();
            self.head.extend_from_slice(rest);
            let Some(end) = memchr::memmem::find(&self.head, b"\r\n\r\n") else { return Ok(()) };
            rest = &rest[end + 4 - before..];
            let head = std::mem::take(&mut self.head);
            self.send_head(&head[..end + 2])?;
        }
        if !rest.is_empty() && !self.ended { self.send_body(rest).await } else { Ok(()) }
    }

    fn send_head(&mut self, head: &[u8]) -> Result<(), Stop> {
        let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5)).ok_or(Stop)?;
        let status = http::StatusCode::from_bytes(status).map_err(|_| Stop)?;
        let mut response = http::Response::builder().status(status);
        for line in lines {
            let Some(colon) = memchr::memchr(b':', line) else { continue };
            let (name, value) = (line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii());
            match &name[..] {
                b"connection" | b"keep-alive" => continue,
                b"transfer-encoding" => {
                    self.framing = Framing::Chunked(Chunk::Line(Vec::new()));
                    continue;
                }
                b"content-length" => {
                    let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or(Stop)?;
                    self.framing = Framing::Length(length);
                }
                _ => {}
            }
            response = response.header(&name[..], value);
        }
        let response = response.body(()).map_err(|_| Stop)?;
        if status.is_informational() {
            return self.respond.send_informational(response).map_err(|_| Stop);
        }
        let is_empty =
            self.head_only || matches!(self.framing, Framing::Length(0)) || matches!(status.as_u16(), 204 | 304);
        self.stream = Some(self.respond.send_response(response, is_empty).map_err(|_| Stop)?);
        self.ended = is_empty;
        Ok(())
    }

    async fn send_body(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let some = match &mut self.framing {
                Framing::Rest => rest.len(),
                // A body that is longer than declared is sent unchanged.
                Framing::Length(left) => {
                    *left = left.saturating_sub(rest.len() as u64);
                    rest.len()
                }
                Framing::Chunked(Chunk::Over) => return Ok(()),
                Framing::Chunked(Chunk::Data(left)) => {
                    let some = rest.len().min(*left);
                    *left -= some;
                    if *left == 0 {
                        self.framing = Framing::Chunked(Chunk::Line(Vec::new()));
                    }
                    some
                }
                Framing::Chunked(Chunk::Line(line)) => {
                    let (byte, after) = (rest[0], &rest[1..]);
                    rest = after;
                    line.push(byte);
                    // The line break after a chunk's data appears here as an empty line.
                    if byte == b'\n' && line.len() > 2 {
                        let text = std::str::from_utf8(line).map_err(|_| Stop)?;
                        let size = text.trim().split(';').next().unwrap_or_default().trim();
                        let size = usize::from_str_radix(size, 16).map_err(|_| Stop)?;
                        self.framing = Framing::Chunked(if size == 0 { Chunk::Over } else { Chunk::Data(size) });
                    } else if byte == b'\n' {
                        line.clear();
                    }
                    continue;
                }
            };
            let (piece, after) = rest.split_at(some);
            rest = after;
            self.send_data(piece).await?;
        }
        Ok(())
    }

    /// Sends bytes as far as the flow-control windows allow.
    async fn send_data(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let Some(stream) = &mut self.stream else { return Err(Stop) };
        let mut rest = Bytes::copy_from_slice(bytes);
        while !rest.is_empty() {
            stream.reserve_capacity(rest.len());
            let Some(Ok(room)) = poll_fn(|cx| stream.poll_capacity(cx)).await else { return Err(Stop) };
            stream.send_data(rest.split_to(room.min(rest.len())), false).map_err(|_| Stop)?;
        }
        Ok(())
    }

    /// Ends the response. `cleanly`: whether the script closes the connection cleanly, which ends a body without a
    /// declared length.
    async fn finish(&mut self, cleanly: bool) -> Result<(), Stop> {
        if self.ended {
            return Ok(());
        }
        let is_whole = match &self.framing {
            Framing::Length(left) => *left == 0,
            Framing::Chunked(chunk) => matches!(chunk, Chunk::Over),
            Framing::Rest => cleanly,
        };
        match &mut self.stream {
            Some(stream) if is_whole => {
                self.ended = true;
                stream.send_data(Bytes::new(), true).map_err(|_| Stop)
            }
            _ => {
                self.flush().await;
                self.reset(Reason::INTERNAL_ERROR);
                Ok(())
            }
        }
    }

    /// Lets the connection's task send queued data, which a reset would discard.
    async fn flush(&mut self) {
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }

    fn reset(&mut self, reason: Reason) {
        if !std::mem::replace(&mut self.ended, true) {
            match &mut self.stream {
                Some(stream) => stream.send_reset(reason),
                None => self.respond.send_reset(reason),
            }
        }
    }
}
