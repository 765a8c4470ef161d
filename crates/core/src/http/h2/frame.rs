//! Frames: their header, their kinds, and the encoding of those that a client sends.
//!
//! Invariant: no encoded frame is longer than the least MAX_FRAME_SIZE that a peer may set.

/// The first bytes that a client sends, before its SETTINGS.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a frame's header.
pub const HEADER: usize = 9;

/// The longest payload that is accepted, and the longest that every peer accepts (RFC 9113, 4.2).
pub const MAX_PAYLOAD: usize = 16_384;

/// Masks the reserved highest bit of stream identifiers and window increments. Also the largest stream identifier.
pub const LOWER_31_BITS: u32 = (1 << 31) - 1;

/// The largest flow-control window (RFC 9113, 6.9.1).
pub const MAX_WINDOW: u32 = (1 << 31) - 1;

/// The window of a connection and of every stream before anything is granted.
pub const DEFAULT_WINDOW: u32 = 65_535;

/// The kinds of frames.
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// The flags of frames.
pub mod flag {
    pub const ACK: u8 = 0x1;
    pub const END_STREAM: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// The settings (RFC 9113, 6.5.2).
pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// The error codes (RFC 9113, 7).
pub mod code {
    pub const NO_ERROR: u32 = 0x0;
    pub const PROTOCOL_ERROR: u32 = 0x1;
    pub const INTERNAL_ERROR: u32 = 0x2;
    pub const FLOW_CONTROL_ERROR: u32 = 0x3;
    pub const FRAME_SIZE_ERROR: u32 = 0x6;
    pub const STREAM_CLOSED: u32 = 0x5;
    pub const REFUSED_STREAM: u32 = 0x7;
    pub const CANCEL: u32 = 0x8;
    pub const COMPRESSION_ERROR: u32 = 0x9;
    pub const ENHANCE_YOUR_CALM: u32 = 0xb;
    pub const HTTP_1_1_REQUIRED: u32 = 0xd;
}

/// The name of an error code.
pub fn code_name(code: u32) -> &'static str {
    match code {
        0x0 => "NO_ERROR",
        0x1 => "PROTOCOL_ERROR",
        0x2 => "INTERNAL_ERROR",
        0x3 => "FLOW_CONTROL_ERROR",
        0x4 => "SETTINGS_TIMEOUT",
        0x5 => "STREAM_CLOSED",
        0x6 => "FRAME_SIZE_ERROR",
        0x7 => "REFUSED_STREAM",
        0x8 => "CANCEL",
        0x9 => "COMPRESSION_ERROR",
        0xa => "CONNECT_ERROR",
        0xb => "ENHANCE_YOUR_CALM",
        0xc => "INADEQUATE_SECURITY",
        0xd => "HTTP_1_1_REQUIRED",
        _ => "an unknown error code",
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    pub length: u32,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl FrameHeader {
    pub fn parse(bytes: [u8; HEADER]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = bytes;
        Self {
            length: u32::from_be_bytes([0, l0, l1, l2]),
            kind,
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & LOWER_31_BITS,
        }
    }

    pub fn encode(self) -> [u8; HEADER] {
        let [_, l0, l1, l2] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, self.kind, self.flags, s0, s1, s2, s3]
    }

    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Writes one frame. The payload must not be longer than [`MAX_PAYLOAD`].
pub fn push(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let header = FrameHeader { length: payload.len() as u32, kind, flags, stream };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(payload);
}

/// Writes a header block as HEADERS and as many CONTINUATION frames as it needs. `ends_stream`: no body follows.
pub fn push_headers(out: &mut Vec<u8>, stream: u32, block: &[u8], ends_stream: bool) {
    let mut kind = kind::HEADERS;
    let mut flags = if ends_stream { flag::END_STREAM } else { 0 };
    let mut rest = block;
    loop {
        let (piece, left) = rest.split_at(rest.len().min(MAX_PAYLOAD));
        if left.is_empty() {
            flags |= flag::END_HEADERS;
        }
        push(out, kind, flags, stream, piece);
        if left.is_empty() {
            return;
        }
        (kind, flags, rest) = (kind::CONTINUATION, 0, left);
    }
}

/// Writes a SETTINGS frame with these pairs of an identifier (see [`setting`]) and a value.
pub fn push_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    let payload: Vec<u8> =
        settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
    push(out, kind::SETTINGS, 0, 0, &payload);
}

pub fn push_reset(out: &mut Vec<u8>, stream: u32, code: u32) {
    push(out, kind::RST_STREAM, 0, stream, &code.to_be_bytes());
}

pub fn push_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    push(out, kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
}

pub fn push_goaway(out: &mut Vec<u8>, code: u32) {
    // The client accepts no streams from the server, so the last stream that it processed is always 0.
    let last_stream = 0_u32;
    push(out, kind::GOAWAY, 0, 0, &[last_stream.to_be_bytes(), code.to_be_bytes()].concat());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = FrameHeader { length: 0x01_02_03, kind: 9, flags: 0x2d, stream: 0x7fff_fffe };
        assert_eq!(header.encode(), [1, 2, 3, 9, 0x2d, 0x7f, 0xff, 0xff, 0xfe]);
        assert_eq!(FrameHeader::parse(header.encode()), header);
        let reserved = [0, 0, 0, 0, 0, 0x80, 0, 0, 1];
        assert_eq!(FrameHeader::parse(reserved).stream, 1, "the reserved bit is ignored");
    }

    #[test]
    fn long_header_blocks_are_continued() {
        let mut out = Vec::new();
        push_headers(&mut out, 5, &vec![7; 2 * MAX_PAYLOAD + 1], true);
        let mut frames = Vec::new();
        let mut at = 0;
        while at < out.len() {
            let header = FrameHeader::parse(out[at..at + HEADER].try_into().unwrap());
            frames.push((header.kind, header.flags, header.length as usize));
            at += HEADER + header.length as usize;
        }
        assert_eq!(
            frames,
            [
                (kind::HEADERS, flag::END_STREAM, MAX_PAYLOAD),
                (kind::CONTINUATION, 0, MAX_PAYLOAD),
                (kind::CONTINUATION, flag::END_HEADERS, 1)
            ]
        );
        let mut out = Vec::new();
        push_headers(&mut out, 1, &[7; MAX_PAYLOAD], false);
        assert_eq!(out.len(), HEADER + MAX_PAYLOAD, "a block that just fits is one frame");
    }
}
