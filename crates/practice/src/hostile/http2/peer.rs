//! The server's side of an HTTP/2 connection.

use super::{CONNECTION, DATA, END_HEADERS, END_STREAM, FRAME_HEAD, GOAWAY, HEADERS, HTML, NO_FLAGS, SETTINGS};
use rustls::ServerConnection;
use std::io::{self, Read, Write};

/// The server's side of an HTTP/2 connection, which sends arbitrary frames.
pub(super) struct Peer<'a> {
    pub(super) session: ServerConnection,
    pub(super) socket: &'a std::net::TcpStream,
    /// Decrypted bytes that were not parsed yet.
    pub(super) input: Vec<u8>,
    /// Whether the client's preface was read.
    pub(super) has_preface: bool,
    /// The number of the connection, counted from 0.
    pub(super) number: usize,
}

impl Peer<'_> {
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Peer { session, socket, .. } = self;
        let mut stream = rustls::Stream::new(session, socket);
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Reads some bytes; false at the end of the connection.
    fn read(&mut self) -> io::Result<bool> {
        let Peer { session, socket, input, .. } = self;
        let mut buffer = [0; 4_096];
        let count = rustls::Stream::new(session, socket).read(&mut buffer)?;
        input.extend_from_slice(&buffer[..count]);
        Ok(count > 0)
    }

    /// Sends a frame.
    pub(super) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
        let mut bytes = vec![a, b, c, kind, flags];
        bytes.extend(stream.to_be_bytes());
        bytes.extend_from_slice(payload);
        self.send(&bytes)
    }

    /// Sends SETTINGS with these parameters.
    pub(super) fn settings(&mut self, settings: &[(u16, u32)]) -> io::Result<()> {
        let payload: Vec<u8> =
            settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
        self.frame(SETTINGS, NO_FLAGS, CONNECTION, &payload)
    }

    /// Sends GOAWAY with the last handled stream and an error code.
    pub(super) fn goaway(&mut self, last: u32, code: u32) -> io::Result<()> {
        self.frame(GOAWAY, NO_FLAGS, CONNECTION, &[last.to_be_bytes(), code.to_be_bytes()].concat())
    }

    /// Sends HEADERS with these fields.
    pub(super) fn head(&mut self, stream: u32, flags: u8, fields: &[(&str, &str)]) -> io::Result<()> {
        let block: Vec<u8> = fields.iter().flat_map(|(name, value)| field(name, value)).collect();
        self.frame(HEADERS, flags | END_HEADERS, stream, &block)
    }

    /// Sends an ordinary page.
    pub(super) fn send_page(&mut self, stream: u32) -> io::Result<()> {
        self.head(stream, NO_FLAGS, &HTML)?;
        self.frame(DATA, END_STREAM, stream, b"<title>here</title>")
    }

    /// Sends ordinary pages until the client disconnects.
    pub(super) fn serve_pages(&mut self) -> io::Result<()> {
        self.settings(&[])?;
        while let Some(stream) = self.request()? {
            self.send_page(stream)?;
        }
        Ok(())
    }

    /// Reads frames up to the next request; returns its stream id, or `None` if the client disconnects.
    pub(super) fn request(&mut self) -> io::Result<Option<u32>> {
        loop {
            let used = if !self.has_preface && self.input.len() >= crate::http2_settings::PREFACE.len() {
                self.has_preface = true;
                crate::http2_settings::PREFACE.len()
            } else if let [a, b, c, kind, _, stream @ ..] = &self.input[..]
                && self.has_preface
                && stream.len() >= 4
                && self.input.len() >= FRAME_HEAD + u32::from_be_bytes([0, *a, *b, *c]) as usize
            {
                let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                let id = u32::from_be_bytes([stream[0], stream[1], stream[2], stream[3]]);
                let is_request = *kind == HEADERS;
                self.input.drain(..FRAME_HEAD + length);
                if is_request {
                    return Ok(Some(id));
                }
                continue;
            } else if self.read()? {
                continue;
            } else {
                return Ok(None);
            };
            self.input.drain(..used);
        }
    }

    /// Reads an HTTP/1.1 request.
    pub(super) fn http1_request(&mut self) -> io::Result<()> {
        while !self.input.ends_with(b"\r\n\r\n") {
            if !self.read()? {
                return Ok(());
            }
        }
        self.input.clear();
        Ok(())
    }

    /// Repeats `step` until it fails, as it does when the client has disconnected.
    pub(super) fn forever(&mut self, mut step: impl FnMut(&mut Self) -> io::Result<()>) -> io::Result<()> {
        loop {
            step(self)?;
        }
    }

    /// Reads and discards until the client closes.
    pub(super) fn wait_until_closed(&mut self) -> io::Result<()> {
        while self.read()? {
            self.input.clear();
        }
        Ok(())
    }
}

/// A header field as a literal without indexing.
pub(super) fn field(name: &str, value: &str) -> Vec<u8> {
    [&[0][..], &hpack_string(name), &hpack_string(value)].concat()
}

/// A string in HPACK format, without Huffman coding.
pub(super) fn hpack_string(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A length below 127 fits into seven bits. The excess of a longer one follows, seven bits per byte.
    if text.len() < 127 {
        bytes.push(text.len() as u8);
    } else {
        bytes.push(127);
        let mut rest = text.len() - 127;
        while rest >= 128 {
            bytes.push(0x80 | (rest & 0x7f) as u8);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    bytes.extend_from_slice(text.as_bytes());
    bytes
}
