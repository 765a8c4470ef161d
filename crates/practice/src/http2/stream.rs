//! A socket, with or without an established TLS session, as a tokio stream.

use crate::log::RequestLog;
use rustix::fd::OwnedFd;
use rustls::ServerConnection;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection that another thread accepted and handed over to the HTTP/2 thread.
pub(super) struct TlsOrPlain {
    socket: TcpStream,
    tls: Option<Box<ServerConnection>>,
    /// Plaintext that was received before the connection was handed over.
    input: Vec<u8>,
    log: Arc<RequestLog>,
}

impl TlsOrPlain {
    pub(super) fn new(
        socket: OwnedFd,
        tls: Option<Box<ServerConnection>>,
        input: Vec<u8>,
        log: Arc<RequestLog>,
    ) -> io::Result<TlsOrPlain> {
        let socket = TcpStream::from_std(std::net::TcpStream::from(socket))?;
        Ok(TlsOrPlain { socket, tls, input, log })
    }

    /// Writes ciphertext until all is written or the socket is full.
    fn poll_write_ciphertext(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(tls) = &mut self.tls else { return Poll::Ready(Ok(())) };
        while tls.wants_write() {
            ready!(self.socket.poll_write_ready(cx))?;
            match tls.write_tls(&mut TryWrite(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The socket as a writer for rustls.
struct TryWrite<'a>(&'a TcpStream);

impl Write for TryWrite<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncRead for TlsOrPlain {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.input.is_empty() {
            let count = this.input.len().min(into.remaining());
            into.put_slice(&this.input[..count]);
            this.input.drain(..count);
            return Poll::Ready(Ok(()));
        }
        let Some(tls) = &mut this.tls else { return Pin::new(&mut this.socket).poll_read(cx, into) };
        loop {
            match tls.reader().read(into.initialize_unfilled()) {
                Ok(count) => {
                    into.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            let mut buffer = [0; 16 << 10];
            let mut read_buf = ReadBuf::new(&mut buffer);
            ready!(Pin::new(&mut this.socket).poll_read(cx, &mut read_buf))?;
            let mut bytes = read_buf.filled();
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
            while !bytes.is_empty() {
                tls.read_tls(&mut bytes)?;
                tls.process_new_packets().map_err(io::Error::other)?;
            }
        }
    }
}

impl AsyncWrite for TlsOrPlain {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.tls.is_none() {
            let count = ready!(Pin::new(&mut this.socket).poll_write(cx, bytes))?;
            this.log.bytes_sent.fetch_add(count as u64, Relaxed);
            return Poll::Ready(Ok(count));
        }
        // Pending data goes first, so that the session's buffer stays bounded.
        ready!(this.poll_write_ciphertext(cx))?;
        let Some(tls) = &mut this.tls else { return Poll::Ready(Ok(0)) };
        let count = tls.writer().write(bytes)?;
        this.log.bytes_sent.fetch_add(count as u64, Relaxed);
        // If the socket is full, the rest is written at the next call or flush.
        if let Poll::Ready(Err(error)) = this.poll_write_ciphertext(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_ciphertext(cx))?;
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        ready!(self.poll_write_ciphertext(cx))?;
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
