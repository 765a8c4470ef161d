//! A non-blocking socket, with or without TLS.
//!
//! Invariant: no call blocks. If a call sends fewer bytes than given, the socket's buffer is full or the TLS handshake
//! is in progress.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustls::{HandshakeKind, ServerConnection};
use std::io::{self, Read, Write};
use std::time::Duration;

/// The stream of one accepted connection.
pub(crate) struct ClientStream {
    socket: OwnedFd,
    tls: Option<Box<ServerConnection>>,
    /// Whether the TLS handshake is in progress.
    is_handshaking: bool,
}

/// The result of a read.
pub(crate) enum Received {
    /// The number of plain bytes in the buffer.
    Plain(usize),
    /// Bytes were decrypted and appended to `decrypted`.
    Decrypted,
    /// No bytes for the application have arrived.
    Nothing,
    /// The client has disconnected or violated the protocol.
    Gone,
}

/// The result of a TLS handshake, reported once.
pub(crate) enum Handshake {
    Full,
    Resumed,
    Failed,
}

impl ClientStream {
    pub(crate) fn new(socket: OwnedFd, tls: Option<ServerConnection>) -> ClientStream {
        let is_handshaking = tls.is_some();
        ClientStream { socket, tls: tls.map(Box::new), is_handshaking }
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether the handshake is complete and negotiated HTTP/2.
    pub(crate) fn has_negotiated_http2(&self) -> bool {
        !self.is_handshaking && self.tls.as_ref().is_some_and(|tls| tls.alpn_protocol() == Some(b"h2"))
    }

    /// The socket and the session, for another owner.
    pub(crate) fn into_parts(self) -> (OwnedFd, Option<Box<ServerConnection>>) {
        (self.socket, self.tls)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads once. Epoll is level-triggered, so it reports remaining bytes again. Also returns the result of the TLS
    /// handshake, in the call in which the handshake ends.
    pub(crate) fn receive(&mut self, buffer: &mut [u8], decrypted: &mut Vec<u8>) -> (Received, Option<Handshake>) {
        let count = match rustix::io::read(&self.socket, &mut *buffer) {
            Ok(0) => return (Received::Gone, None),
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return (Received::Nothing, None),
            Err(_) => return (Received::Gone, None),
        };
        let Some(tls) = &mut self.tls else { return (Received::Plain(count), None) };
        let mut bytes = &buffer[..count];
        let mut piece = [0; 4096];
        let mut is_closed = false;
        while !bytes.is_empty() {
            // Invalid input ends the connection; rustls may have queued an alert.
            let result = tls.read_tls(&mut bytes).and_then(|_| tls.process_new_packets().map_err(io::Error::other));
            if result.is_err() {
                let _ = self.flush();
                let failed = std::mem::take(&mut self.is_handshaking).then_some(Handshake::Failed);
                return (Received::Gone, failed);
            }
            // Read all decrypted bytes now: the session's buffer has room for a few records only.
            is_closed = loop {
                match tls.reader().read(&mut piece) {
                    Ok(0) => break true,
                    Ok(count) => decrypted.extend_from_slice(&piece[..count]),
                    Err(_) => break false,
                }
            };
        }
        let mut handshake = None;
        if self.is_handshaking && !tls.is_handshaking() {
            self.is_handshaking = false;
            handshake = Some(match tls.handshake_kind() {
                Some(HandshakeKind::Resumed) => Handshake::Resumed,
                _ => Handshake::Full,
            });
        }
        if self.flush().is_err() || is_closed && decrypted.is_empty() {
            return (Received::Gone, handshake);
        }
        (if decrypted.is_empty() { Received::Nothing } else { Received::Decrypted }, handshake)
    }

    /// Sends as many bytes as the socket accepts now, and returns their number. With TLS, this number includes bytes that
    /// wait in the session for [`ClientStream::flush`].
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            if let Some(tls) = &mut self.tls {
                if self.is_handshaking {
                    break;
                }
                sent += tls.writer().write(&bytes[sent..])?;
                if !self.flush()? {
                    break;
                }
                continue;
            }
            match rustix::io::write(&self.socket, &bytes[sent..]) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(sent)
    }

    /// Flushes pending TLS records; `true` when none are left.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            match tls.write_tls(&mut Socket(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// With TLS, sends close_notify. Without TLS there is nothing to send before closing.
    pub(crate) fn close_gracefully(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // Ignored: the client may have disconnected.
            let _ = self.flush();
        }
    }

    /// Makes closing send a TCP RST and discard unsent data.
    pub(crate) fn make_reset(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }
}

/// The socket as a writer for rustls.
struct Socket<'a>(&'a OwnedFd);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
