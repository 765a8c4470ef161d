//! Runs a script on an HTTP/2 stream: the bytes of its HTTP/1.1 response become HTTP/2 frames.
//!
//! If a script sends bytes that are not an HTTP response, the stream is reset.

use crate::filler;
use crate::script::ResponseStep;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use std::future::poll_fn;
use tokio::sync::watch;

/// The error of a script: the client disconnected, or HTTP/2 cannot express the response.
struct Aborted;

/// Arguments of [`Reply::finish`]: whether the script ends in a way that completes a body without a declared length. A
/// connection that is closed without close_notify does not complete it.
const CLEANLY: bool = true;
const NOT_CLEANLY: bool = false;

/// Runs the steps. Returns true if the script came to its end, even if it closes the connection before the response is
/// complete, which resets the stream. Returns false if the client ended the stream earlier, or if HTTP/2 cannot express
/// the response. `head_only`: the request is HEAD. `released`: whether the web is released.
pub(super) async fn play(
    steps: &[ResponseStep],
    respond: SendResponse<Bytes>,
    head_only: bool,
    mut released: watch::Receiver<bool>,
) -> bool {
    let mut reply =
        Reply { respond, stream: None, head: Vec::new(), framing: Framing::UntilClose, head_only, is_ended: false };
    match run(steps, &mut reply, &mut released).await {
        Ok(()) => true,
        Err(Aborted) => {
            reply.reset(Reason::INTERNAL_ERROR);
            false
        }
    }
}

async fn run(steps: &[ResponseStep], reply: &mut Reply, released: &mut watch::Receiver<bool>) -> Result<(), Aborted> {
    for step in steps {
        match step {
            ResponseStep::Send(bytes) => reply.send(bytes).await?,
            ResponseStep::Fill(total) => {
                let mut at = 0;
                while at < *total {
                    let piece = filler::slice_at(at, *total - at);
                    reply.send(piece).await?;
                    at += piece.len() as u64;
                }
            }
            ResponseStep::Drip(bytes, size, every) => {
                for (number, piece) in bytes.chunks((*size).max(1)).enumerate() {
                    if number > 0 {
                        tokio::time::sleep(*every).await;
                    }
                    reply.send(piece).await?;
                }
            }
            ResponseStep::Wait(span) => tokio::time::sleep(*span).await,
            ResponseStep::Close => return reply.finish(CLEANLY).await,
            ResponseStep::SilentClose => return reply.finish(NOT_CLEANLY).await,
            ResponseStep::Reset => {
                reply.flush().await;
                reply.reset(Reason::CANCEL);
                return Ok(());
            }
            ResponseStep::Hang => {
                reply.client_ended().await;
                return Err(Aborted);
            }
            ResponseStep::Hold => tokio::select! {
                _ = released.wait_for(|is_released| *is_released) => {}
                () = reply.client_ended() => return Err(Aborted),
            },
        }
    }
    reply.finish(CLEANLY).await
}

/// The remaining part of a body.
enum Framing {
    /// This many bytes.
    Length(u64),
    Chunked(Chunk),
    /// The body ends with the connection.
    UntilClose,
}

/// The position in a chunked body.
enum Chunk {
    /// In the line with the size of the next chunk: its bytes so far.
    Line(Vec<u8>),
    /// In the data of a chunk: the number of bytes left.
    Data(usize),
    /// After the last chunk.
    End,
}

/// A response in progress.
struct Reply {
    respond: SendResponse<Bytes>,
    /// `None` until the head is sent.
    stream: Option<SendStream<Bytes>>,
    /// The incomplete head of the response.
    head: Vec<u8>,
    framing: Framing,
    head_only: bool,
    /// Whether the last frame of the stream was sent: an END_STREAM or a reset.
    is_ended: bool,
}

impl Reply {
    /// Waits until the client resets the stream or disconnects.
    async fn client_ended(&mut self) {
        // An error means that the client has disconnected.
        let _ = match &mut self.stream {
            Some(stream) => poll_fn(|cx| stream.poll_reset(cx)).await,
            None => poll_fn(|cx| self.respond.poll_reset(cx)).await,
        };
    }

    /// Sends the next bytes of the HTTP/1.1 response. One call may end anywhere, within the head or the body.
    async fn send(&mut self, bytes: &[u8]) -> Result<(), Aborted> {
        let mut rest = bytes;
        while self.stream.is_none() && !rest.is_empty() && !self.is_ended {
            let before = self.head.len();
            self.head.extend_from_slice(rest);
            let Some(end) = memchr::memmem::find(&self.head, b"\r\n\r\n") else { return Ok(()) };
            rest = &rest[end + 4 - before..];
            let head = std::mem::take(&mut self.head);
            // Without the empty line.
            self.send_head(&head[..end + 2])?;
        }
        if !rest.is_empty() && !self.is_ended { self.send_body(rest).await } else { Ok(()) }
    }

    /// Sends a HEADERS frame with the status and fields of an HTTP/1.1 head.
    fn send_head(&mut self, head: &[u8]) -> Result<(), Aborted> {
        let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5)).ok_or(Aborted)?;
        let status = http::StatusCode::from_bytes(status).map_err(|_| Aborted)?;
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
                    let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or(Aborted)?;
                    self.framing = Framing::Length(length);
                }
                _ => {}
            }
            response = response.header(&name[..], value);
        }
        let response = response.body(()).map_err(|_| Aborted)?;
        if status.is_informational() {
            return self.respond.send_informational(response).map_err(|_| Aborted);
        }
        let is_empty =
            self.head_only || matches!(self.framing, Framing::Length(0)) || matches!(status.as_u16(), 204 | 304);
        self.stream = Some(self.respond.send_response(response, is_empty).map_err(|_| Aborted)?);
        self.is_ended = is_empty;
        Ok(())
    }

    /// Sends bytes of the body, without the framing of HTTP/1.1.
    async fn send_body(&mut self, bytes: &[u8]) -> Result<(), Aborted> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = match &mut self.framing {
                Framing::UntilClose => rest.len(),
                // A body that is longer than declared is sent unchanged.
                Framing::Length(left) => {
                    *left = left.saturating_sub(rest.len() as u64);
                    rest.len()
                }
                Framing::Chunked(Chunk::End) => return Ok(()),
                Framing::Chunked(Chunk::Data(left)) => {
                    let count = rest.len().min(*left);
                    *left -= count;
                    if *left == 0 {
                        self.framing = Framing::Chunked(Chunk::Line(Vec::new()));
                    }
                    count
                }
                Framing::Chunked(Chunk::Line(line)) => {
                    let (byte, after) = (rest[0], &rest[1..]);
                    rest = after;
                    line.push(byte);
                    // The line break after a chunk's data appears here as an empty line.
                    if byte == b'\n' && line.len() > 2 {
                        let text = std::str::from_utf8(line).map_err(|_| Aborted)?;
                        let size = text.trim().split(';').next().unwrap_or_default().trim();
                        let size = usize::from_str_radix(size, 16).map_err(|_| Aborted)?;
                        self.framing = Framing::Chunked(if size == 0 { Chunk::End } else { Chunk::Data(size) });
                    } else if byte == b'\n' {
                        line.clear();
                    }
                    continue;
                }
            };
            let (piece, after) = rest.split_at(count);
            rest = after;
            self.send_data(piece).await?;
        }
        Ok(())
    }

    /// Sends bytes in DATA frames, as the flow-control windows allow.
    async fn send_data(&mut self, bytes: &[u8]) -> Result<(), Aborted> {
        let Some(stream) = &mut self.stream else { return Err(Aborted) };
        let mut rest = Bytes::copy_from_slice(bytes);
        while !rest.is_empty() {
            stream.reserve_capacity(rest.len());
            let Some(Ok(capacity)) = poll_fn(|cx| stream.poll_capacity(cx)).await else { return Err(Aborted) };
            stream.send_data(rest.split_to(capacity.min(rest.len())), false).map_err(|_| Aborted)?;
        }
        Ok(())
    }

    /// Ends the response. `cleanly`: whether the script closes the connection cleanly, which completes a body without a
    /// declared length. An incomplete body resets the stream.
    async fn finish(&mut self, cleanly: bool) -> Result<(), Aborted> {
        if self.is_ended {
            return Ok(());
        }
        let is_complete = match &self.framing {
            Framing::Length(left) => *left == 0,
            Framing::Chunked(chunk) => matches!(chunk, Chunk::End),
            Framing::UntilClose => cleanly,
        };
        match &mut self.stream {
            Some(stream) if is_complete => {
                self.is_ended = true;
                stream.send_data(Bytes::new(), true).map_err(|_| Aborted)
            }
            _ => {
                self.flush().await;
                self.reset(Reason::INTERNAL_ERROR);
                Ok(())
            }
        }
    }

    /// Lets the connection's task send queued data, which a reset would discard. A few turns are enough for that task.
    async fn flush(&mut self) {
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }

    /// Resets the stream, unless the response has ended.
    fn reset(&mut self, reason: Reason) {
        if !std::mem::replace(&mut self.is_ended, true) {
            match &mut self.stream {
                Some(stream) => stream.send_reset(reason),
                None => self.respond.send_reset(reason),
            }
        }
    }
}
