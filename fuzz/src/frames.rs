//! Bytes of an HTTP/2 server, read by our client and by that of the crate `h2`, which must agree.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use argiope_core::Time;
use argiope_core::http::conn::Limits;
use argiope_core::http::h2::{H2Conn, H2Request, StreamEvents, StreamFault, request_block};
use h2::client::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{piece, steered};

/// Any bytes as the output of a server: the connection ends within its limits, with the same result for every split
/// into pieces. If both clients accept a response, they read the same one.
///
/// If the first byte is odd, frames with valid headers are built from the rest. Otherwise the rest is used unchanged.
pub fn frames(data: &[u8]) {
    let (input, steer) = steered(data, 1);
    let wire = match input.split_first() {
        Some((first, rest)) if first % 2 == 1 => structured(rest),
        Some((_, rest)) => rest.to_vec(),
        None => Vec::new(),
    };
    // Some receivers need only the first bytes of a body.
    let most = steer.first().filter(|byte| **byte >= 128).map_or(usize::MAX, |byte| usize::from(*byte - 128));
    let whole = ours(&mut std::iter::once(&wire[..]), most);
    let cut = ours(&mut wire.chunks(piece(steer)), most);
    assert_eq!(whole, cut, "in pieces of {}", piece(steer));
    if !whole.is_whole {
        return;
    }
    let theirs = theirs(&wire);
    if theirs.is_whole {
        assert_eq!((whole.status, &whole.body), (theirs.status, &theirs.body));
        assert_eq!(whole.fields, theirs.fields);
    }
}

/// Builds frames from records of kind, flags, stream, length and payload. A SETTINGS frame comes first.
fn structured(data: &[u8]) -> Vec<u8> {
    let mut wire = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
    let mut rest = data;
    while let [kind, flags, stream, length, after @ ..] = rest {
        let length = usize::from(*length).min(after.len());
        let (payload, next) = after.split_at(length);
        wire.extend([0, 0, length as u8, kind % 12, *flags, 0, 0, 0, stream % 4]);
        wire.extend_from_slice(payload);
        rest = next;
    }
    wire
}

/// The response as a client reads it.
#[derive(Default, PartialEq, Eq, Debug)]
struct Seen {
    status: u16,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
    is_whole: bool,
    fault: Option<StreamFault>,
    /// Whether the stream has ended or failed. Later events are a bug.
    is_over: bool,
    /// How many bytes of the body are needed.
    most: usize,
    wire: u64,
}

impl StreamEvents for Seen {
    fn head(&mut self, key: u32, head: &[u8], _now: Time) {
        assert!(key == 7 && !self.is_over);
        let text = std::str::from_utf8(&head[9..12]).expect("digits");
        self.status = text.parse().expect("a status");
        let lines = head.split(|byte| *byte == b'\n').skip(1);
        self.fields = lines
            .filter_map(|line| {
                let colon = line.iter().position(|byte| *byte == b':')?;
                Some((line[..colon].to_vec(), line[colon + 1..].trim_ascii().to_vec()))
            })
            .collect();
        self.fields.sort();
    }

    fn data(&mut self, key: u32, bytes: &[u8], _now: Time) -> usize {
        assert!(key == 7 && !self.is_over && !bytes.is_empty());
        self.body.extend_from_slice(bytes);
        self.body.truncate(self.most);
        bytes.len()
    }

    fn is_satisfied(&mut self, key: u32, wire: u64, _is_complete: bool) -> bool {
        assert!(key == 7 && !self.is_over);
        if self.body.len() == self.most {
            (self.is_over, self.wire) = (true, wire);
        }
        self.is_over
    }

    fn end(&mut self, key: u32, wire: u64, _now: Time) {
        assert!(key == 7 && !self.is_over);
        (self.is_whole, self.is_over, self.wire) = (true, true, wire);
    }

    fn failed(&mut self, key: u32, wire: u64, fault: StreamFault, _now: Time) {
        assert!(key == 7 && !self.is_over);
        (self.fault, self.is_over, self.wire) = (Some(fault), true, wire);
    }
}

/// The response as our client reads it.
fn ours(pieces: &mut dyn Iterator<Item = &[u8]>, most: usize) -> Seen {
    let limits = Limits { max_head: 4_096, max_wire: 1 << 16, ..Limits::default() };
    let mut conn = H2Conn::new(Arc::new(limits), 1 << 16, Time::ZERO);
    let mut seen = Seen { most, ..Seen::default() };
    conn.open(7, H2Request::plain(request_block(false, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")));
    drop(conn.take_output());
    for piece in pieces {
        conn.feed(piece, Time::ZERO, &mut seen);
        drop(conn.take_output());
        assert!(conn.heap_bytes() < 1 << 16, "{} bytes", conn.heap_bytes());
    }
    conn.closed(Time::ZERO, &mut seen);
    assert!(seen.is_over, "a stream without an end");
    seen
}

/// A socket from which these bytes can be read once `is_open` is set. Writes are discarded.
struct Memory<'a> {
    bytes: &'a [u8],
    is_open: Arc<std::sync::atomic::AtomicBool>,
}

impl AsyncRead for Memory<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.is_open.load(std::sync::atomic::Ordering::Relaxed) {
            return Poll::Pending;
        }
        let (some, rest) = self.bytes.split_at(self.bytes.len().min(into.remaining()));
        into.put_slice(some);
        self.bytes = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Memory<'_> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The response as the client of `h2` reads it; empty if it rejects it.
fn theirs(wire: &[u8]) -> Seen {
    let cx = &mut Context::from_waker(Waker::noop());
    let is_open = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut seen = Seen::default();
    let memory = Memory { bytes: wire, is_open: Arc::clone(&is_open) };
    let mut builder = Builder::new();
    builder.header_table_size(0).enable_push(false).max_header_list_size(4_096);
    let mut handshake = Box::pin(builder.handshake::<_, bytes::Bytes>(memory));
    let Poll::Ready(Ok((mut sender, connection))) = handshake.as_mut().poll(cx) else { return seen };
    let mut connection = Box::pin(connection);
    let request = http::Request::get("http://h/").body(()).expect("a request");
    let Ok((response, _)) = sender.send_request(request, true) else { return seen };
    let mut response = Box::pin(response);
    let _ = connection.as_mut().poll(cx);
    is_open.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut body = None;
    for _ in 0..64 {
        let is_over = connection.as_mut().poll(cx).is_ready();
        if body.is_none() {
            match response.as_mut().poll(cx) {
                Poll::Ready(Ok(response)) => {
                    seen.status = response.status().as_u16();
                    let fields = response.headers().iter();
                    seen.fields = fields
                        .map(|(name, value)| {
                            (name.as_str().as_bytes().to_vec(), value.as_bytes().trim_ascii().to_vec())
                        })
                        .collect();
                    seen.fields.sort();
                    body = Some(response.into_body());
                }
                Poll::Ready(Err(_)) => return seen,
                Poll::Pending => {}
            }
        }
        while let Some(stream) = &mut body {
            match stream.poll_data(cx) {
                Poll::Ready(Some(Ok(bytes))) => {
                    let _ = stream.flow_control().release_capacity(bytes.len());
                    seen.body.extend_from_slice(&bytes);
                }
                Poll::Ready(Some(Err(_))) => return seen,
                Poll::Ready(None) => {
                    // Trailers may still turn out to be malformed.
                    seen.is_whole = matches!(stream.poll_trailers(cx), Poll::Ready(Ok(_)));
                    return seen;
                }
                Poll::Pending => break,
            }
        }
        if is_over {
            break;
        }
    }
    seen
}
