//! Compression of WARC records: each record is a gzip member or a zstd frame of its own.
//!
//! Each thread reuses one compressor for all its records. Creating one for each record would take a fifth to a quarter of
//! the time of compression, because most of a compressor is memory that must be allocated and cleared.

use std::cell::RefCell;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use crate::crawl::rules::WarcCompression;

/// The level of gzip. Most bodies are compressed already. For the others, the output is at most two percent larger than
/// at the default level. At level 1 it would be forty percent larger.
const GZIP_LEVEL: u32 = 3;
/// The default level of zstd.
const ZSTD_LEVEL: i32 = 3;

/// The head of a gzip member: deflate, no name, no time, unknown system.
const GZIP_HEAD: [u8; 10] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF];

thread_local! {
    // Without the header of zlib: gzip has its own, `GZIP_HEAD`.
    static DEFLATE: RefCell<Compress> = RefCell::new(Compress::new(Compression::new(GZIP_LEVEL), false));
    static ZSTD: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// Compresses the concatenated pieces.
pub fn compressed(pieces: &[&[u8]], compression: WarcCompression) -> Vec<u8> {
    match compression {
        WarcCompression::Gzip => gzip(pieces),
        // Without memory for a zstd compressor, the record is a gzip member. Readers distinguish the two by their first
        // bytes.
        WarcCompression::Zstd => zstd(pieces).unwrap_or_else(|| gzip(pieces)),
    }
}

fn gzip(pieces: &[&[u8]]) -> Vec<u8> {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    // An estimate of the compressed size.
    let mut out = Vec::with_capacity(512 + length / 3);
    out.extend_from_slice(&GZIP_HEAD);
    let mut crc = Crc::new();
    DEFLATE.with_borrow_mut(|state| {
        state.reset();
        for piece in pieces {
            crc.update(piece);
            deflate(state, piece, &mut out, FlushCompress::None);
        }
        deflate(state, &[], &mut out, FlushCompress::Finish);
    });
    out.extend_from_slice(&crc.sum().to_le_bytes());
    // The length modulo 2^32, as the format requires.
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out
}

fn deflate(state: &mut Compress, mut input: &[u8], out: &mut Vec<u8>, flush: FlushCompress) {
    loop {
        // With too little room, a call would make almost no progress.
        if out.capacity() - out.len() < 64 {
            out.reserve((out.len() / 2).max(4096));
        }
        let before = state.total_in();
        // This cannot fail: the state is valid, and the output is memory.
        let Ok(status) = state.compress_vec(input, out, flush) else { return };
        let read = usize::try_from(state.total_in() - before).unwrap_or(input.len());
        input = input.get(read..).unwrap_or(&[]);
        let is_done = match flush {
            FlushCompress::Finish => status == Status::StreamEnd,
            _ => input.is_empty(),
        };
        if is_done {
            return;
        }
    }
}

fn zstd(pieces: &[&[u8]]) -> Option<Vec<u8>> {
    ZSTD.with_borrow_mut(|state| {
        if state.is_none() {
            let mut compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok()?;
            // Lets readers detect damage.
            compressor.include_checksum(true).ok()?;
            *state = Some(compressor);
        }
        state.as_mut()?.compress(&pieces.concat()).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let next = |state: &mut u32| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (*state >> 24) as u8
        };
        (0..length).map(|_| next(&mut state)).collect()
    }

    #[test]
    fn every_record_can_be_decompressed_alone() {
        let (noise, text) = (noise(300_000), b"the same words again and again ".repeat(20_000));
        for pieces in [&[b"a".as_slice(), b"", b"b"][..], &[&noise[..]], &[&text[..], &noise[..]], &[]] {
            let whole = pieces.concat();
            let mut read = Vec::new();
            flate2::read::GzDecoder::new(gzip(pieces).as_slice()).read_to_end(&mut read).expect("gzip");
            assert!(read == whole);
            assert!(zstd::decode_all(compressed(pieces, WarcCompression::Zstd).as_slice()).expect("zstd") == whole);
        }
    }

    #[test]
    fn a_record_does_not_depend_on_earlier_records() {
        let first = gzip(&[b"hello"]);
        gzip(&[&noise(100_000)]);
        assert_eq!(gzip(&[b"hello"]), first);
    }
}
