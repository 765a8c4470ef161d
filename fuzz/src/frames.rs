//! Properties of [`H2Conn`] for arbitrary bytes of a server. The client of the crate `h2` must read the same response.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use argiope_core::Time;
use argiope_core::base::url::UrlRef;
use argiope_core::http::conn::request::RequestHead;
use argiope_core::http::conn::{Head, Limits};
use argiope_core::http::h2::{H2Conn, H2Request, StreamEvents, StreamFault, request_block};
use h2::client::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{piece_size, split_control};

/// Any bytes as the output of a server: the connection ends within its limits, with the same result for every split
/// into pieces. If both clients accept a response, they read the same one.
///
/// If the first byte is odd, frames with valid headers are built from the rest. Otherwise the rest is used unchanged.
pub fn frames(data: &[u8]) {
    let (input, control) = split_control(data, 1);
    let wire = match input.split_first() {
        Some((first, rest)) if first % 2 == 1 => structured(rest),
        Some((_, rest)) => rest.to_vec(),
        None => Vec::new(),
    };
    // In half of the cases the receiver needs only the first bytes of the body.
    let needed = control.first().filter(|byte| **byte >= 128).map_or(usize::MAX, |byte| usize::from(*byte - 128));
    let ours = read_with_ours(&mut std::iter::once(&wire[..]), needed);
    let in_pieces = read_with_ours(&mut wire.chunks(piece_size(control)), needed);
    assert_eq!(ours, in_pieces, "in pieces of {}", piece_size(control));
    if !ours.is_complete {
        return;
    }
    let theirs = read_with_h2(&wire);
    if theirs.is_complete {
        assert_eq!((ours.status, &ours.body), (theirs.status, &theirs.body));
        assert_eq!(ours.fields, theirs.fields);
    }
}

/// Builds frames from records of kind, flags, stream, length and payload. A SETTINGS frame is added before them.
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
struct ReceivedResponse {
    status: u16,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
    is_complete: bool,
    fault: Option<StreamFault>,
    /// Whether the stream has ended or failed. No event may follow.
    has_ended: bool,
    /// How many bytes of the body are needed.
    needed: usize,
    /// The size of all frames of the stream.
    wire: u64,
}

/// The key of the stream.
const KEY: u32 = 7;

impl StreamEvents for ReceivedResponse {
    fn head(&mut self, key: u32, head: &Head, _now: Time) {
        assert!(key == KEY && !self.has_ended);
        assert_eq!(head.text().len(), head.size());
        self.status = head.status;
        self.fields = head.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        self.fields.sort();
    }

    fn data(&mut self, key: u32, bytes: &[u8], _now: Time) -> usize {
        assert!(key == KEY && !self.has_ended && !bytes.is_empty());
        self.body.extend_from_slice(bytes);
        self.body.truncate(self.needed);
        bytes.len()
    }

    fn is_satisfied(&mut self, key: u32, wire: u64, _is_complete: bool) -> bool {
        assert!(key == KEY && !self.has_ended);
        if self.body.len() == self.needed {
            (self.has_ended, self.wire) = (true, wire);
        }
        self.has_ended
    }

    fn end(&mut self, key: u32, wire: u64, _now: Time) {
        assert!(key == KEY && !self.has_ended);
        (self.is_complete, self.has_ended, self.wire) = (true, true, wire);
    }

    fn failed(&mut self, key: u32, wire: u64, fault: StreamFault, _now: Time) {
        assert!(key == KEY && !self.has_ended);
        (self.fault, self.has_ended, self.wire) = (Some(fault), true, wire);
    }
}

/// The response as our client reads it.
fn read_with_ours(pieces: &mut dyn Iterator<Item = &[u8]>, needed: usize) -> ReceivedResponse {
    let limits = Limits { max_head: 4_096, max_wire: 1 << 16, ..Limits::default() };
    let window = 1 << 16;
    let mut conn = H2Conn::new(Arc::new(limits), window, Time::ZERO);
    let mut received = ReceivedResponse { needed, ..ReceivedResponse::default() };
    let is_https = false;
    let url = UrlRef::from_normal("http://h/").expect("a normal URL");
    conn.open(KEY, H2Request::plain(request_block(is_https, &RequestHead::get(url, ""))));
    drop(conn.take_output());
    for piece in pieces {
        conn.feed(piece, Time::ZERO, &mut received);
        drop(conn.take_output());
        assert!(conn.heap_bytes() < 1 << 16, "{} bytes", conn.heap_bytes());
    }
    conn.closed(Time::ZERO, &mut received);
    assert!(received.has_ended, "every stream ends");
    received
}

/// A socket from which these bytes can be read once `is_readable` is set. Writes are discarded.
struct Memory<'a> {
    bytes: &'a [u8],
    is_readable: Arc<std::sync::atomic::AtomicBool>,
}

impl AsyncRead for Memory<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.is_readable.load(std::sync::atomic::Ordering::Relaxed) {
            return Poll::Pending;
        }
        let (fitting, rest) = self.bytes.split_at(self.bytes.len().min(into.remaining()));
        into.put_slice(fitting);
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

/// The response as the client of `h2` reads it. `is_complete` is false if the client rejects it.
fn read_with_h2(wire: &[u8]) -> ReceivedResponse {
    let cx = &mut Context::from_waker(Waker::noop());
    let is_readable = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut received = ReceivedResponse::default();
    let memory = Memory { bytes: wire, is_readable: Arc::clone(&is_readable) };
    let mut builder = Builder::new();
    builder.header_table_size(0).enable_push(false).max_header_list_size(4_096);
    let mut handshake = Box::pin(builder.handshake::<_, bytes::Bytes>(memory));
    let Poll::Ready(Ok((mut sender, connection))) = handshake.as_mut().poll(cx) else { return received };
    let mut connection = Box::pin(connection);
    let request = http::Request::get("http://h/").body(()).expect("a request");
    let Ok((response, _)) = sender.send_request(request, true) else { return received };
    let mut response = Box::pin(response);
    let _ = connection.as_mut().poll(cx);
    is_readable.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut body = None;
    for _ in 0..64 {
        let has_ended = connection.as_mut().poll(cx).is_ready();
        if body.is_none() {
            match response.as_mut().poll(cx) {
                Poll::Ready(Ok(response)) => {
                    received.status = response.status().as_u16();
                    let fields = response.headers().iter();
                    received.fields = fields
                        .map(|(name, value)| {
                            (name.as_str().as_bytes().to_vec(), value.as_bytes().trim_ascii().to_vec())
                        })
                        .collect();
                    received.fields.sort();
                    body = Some(response.into_body());
                }
                Poll::Ready(Err(_)) => return received,
                Poll::Pending => {}
            }
        }
        while let Some(stream) = &mut body {
            match stream.poll_data(cx) {
                Poll::Ready(Some(Ok(bytes))) => {
                    let _ = stream.flow_control().release_capacity(bytes.len());
                    received.body.extend_from_slice(&bytes);
                }
                Poll::Ready(Some(Err(_))) => return received,
                Poll::Ready(None) => {
                    // Trailers may still turn out to be malformed.
                    received.is_complete = matches!(stream.poll_trailers(cx), Poll::Ready(Ok(_)));
                    return received;
                }
                Poll::Pending => break,
            }
        }
        if has_ended {
            break;
        }
    }
    received
}
