//! Content codings: decompression bombs, broken streams and wrong labels.

use super::{Case, Expect, RawConnection, demand};
use crate::hostile::report::archived;
use crate::response::Response;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use flate2::{Compress, Compression, FlushCompress, GzBuilder};
use std::io::{self, Write};
use std::time::Duration;

const PAGE: &[u8] = b"<!doctype html><title>coded</title><p>hello</p>";

/// These bytes, compressed with gzip.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// A page with this body and this Content-Encoding.
fn encoded_page(label: &str, bytes: impl Into<Vec<u8>>) -> Response {
    Response::html(bytes).content_encoding(label)
}

/// A megabyte of zeros, compressed to deflate blocks that can be repeated.
fn compressed_megabyte() -> Vec<u8> {
    let has_zlib_header = false;
    let mut compress = Compress::new(Compression::best(), has_zlib_header);
    let mut out = Vec::with_capacity(8 << 10);
    let _ = compress.compress_vec(&vec![0; 1 << 20], &mut out, FlushCompress::Full);
    out
}

/// Sends a decompression bomb: the header of its format, then a compressed megabyte `times` times. Fails when the client
/// disconnects.
fn bomb(conn: &mut RawConnection, label: &str, header: &[u8], megabyte: &[u8], times: usize) -> io::Result<()> {
    let length = header.len() + megabyte.len() * times;
    let head = format!("Content-Type: text/html\r\nContent-Encoding: {label}\r\nContent-Length: {length}\r\n");
    conn.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n"))?;
    conn.send(header)?;
    for _ in 0..times {
        conn.send(megabyte)?;
    }
    Ok(())
}

const GZIP_HEADER: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
const ZLIB_HEADER: &[u8] = &[0x78, 0x9c];
/// The page is truncated at the size limit.
const TOO_LARGE: Expect = Expect::truncated("length", "too_large");

/// 512 MiB as one zstd frame: RLE blocks of 128 KiB, four bytes each.
fn zstd_bomb() -> Vec<u8> {
    const BLOCK: u32 = 128 << 10;
    // The header of an RLE block: size, type 1, and whether it is the last.
    let block = |last: u32| (BLOCK << 3 | 1 << 1 | last).to_le_bytes();
    // The magic number, no options, a window of 128 KiB.
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    for n in 0..4096 {
        bytes.extend_from_slice(&block(u32::from(n == 4095))[..3]);
        bytes.push(b'0');
    }
    bytes
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = bombs();
    cases.extend(broken());
    cases.extend(labels());
    cases
}

/// Decompression bombs.
fn bombs() -> Vec<Case> {
    vec![
        Case::new("ENC01", "a bomb of gzip", TOO_LARGE, |case| {
            case.raise_timeout();
            case.raw_page(|conn, _| bomb(conn, "gzip", GZIP_HEADER, &compressed_megabyte(), 10_000))
        }),
        Case::new("ENC03", "a bomb of zstd", TOO_LARGE, |case| {
            case.raise_timeout();
            case.page(encoded_page("zstd", zstd_bomb()))
        }),
        Case::new("ENC04", "a bomb of deflate", TOO_LARGE, |case| {
            case.raise_timeout();
            case.raw_page(|conn, _| bomb(conn, "deflate", ZLIB_HEADER, &compressed_megabyte(), 10_000))
        }),
        Case::new("ENC21", "a slow bomb", Expect::truncated("time", "too_slow"), |case| {
            case.raw_page(|conn, _| {
                conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n")?;
                conn.send(GZIP_HEADER)?;
                for byte in compressed_megabyte().iter().cycle() {
                    conn.send([*byte])?;
                    conn.pause(Duration::from_secs(1))?;
                }
                Ok(())
            })
        }),
    ]
}

/// Broken compressed streams.
fn broken() -> Vec<Case> {
    /// The body ends where decoding fails. The part that was decoded before is kept.
    const DECODE: Expect = Expect::truncated("decode", "decode");
    vec![
        Case::new("ENC08", "garbage after gzip", Expect::Ok, |case| {
            let garbage: Vec<u8> = (0..100u8).map(|n| n.wrapping_mul(151) | 0x80).collect();
            case.check("the garbage is not part of the page", |report| {
                let record = report.first_judged();
                demand(record["bytes_body"] == PAGE.len() && record["title"] == "coded", record.to_string())?;
                demand(record["odd"][0] == "coding_garbage", record.to_string())
            });
            case.page(encoded_page("gzip", [gzip(PAGE), garbage].concat()))
        }),
        Case::new("ENC10", "gzip without its end", DECODE, |case| {
            // Pseudo-random numbers, because they compress badly.
            let text: Vec<u8> =
                (0..5_000u32).flat_map(|n| format!("{} ", n.wrapping_mul(2_654_435_761)).into_bytes()).collect();
            let complete = gzip(&text);
            case.check("the decoded part is kept", |report| {
                demand(report.first_judged()["bytes_body"].as_u64() > Some(1_000), "it is not kept")
            });
            case.page(encoded_page("gzip", &complete[..complete.len() - 20]))
        }),
        Case::new("ENC11", "gzip with a wrong checksum", DECODE, |case| {
            let mut bytes = gzip(PAGE);
            // The last eight bytes are the checksum and the length.
            let checksum = bytes.len() - 8;
            bytes[checksum] ^= 0xff;
            case.page(encoded_page("gzip", bytes))
        })
        .choosing("a wrong checksum is a broken body: the decoded part is kept, and the record says so"),
        Case::new("ENC12", "gzip with a broken head", Expect::error("decode"), |case| {
            let mut bytes = gzip(PAGE);
            // The second byte of the magic number is wrong, and the compression method does not exist.
            bytes[..3].copy_from_slice(&[0x1f, 0x8c, 0x00]);
            case.set("warc", true);
            let sent = bytes.clone();
            case.check("the archive has the bytes that were sent", move |report| {
                let archive = archived(report)?;
                demand(memchr::memmem::find(&archive, &sent).is_some(), "the archive does not have them")
            });
            case.page(encoded_page("gzip", bytes))
        }),
        Case::new("ENC13", "gzip with a huge head", Expect::Ok, |case| {
            let builder = GzBuilder::new().extra(vec![b'e'; 65_535]).comment(vec![b'c'; 100_000]);
            let mut encoder = builder.write(Vec::new(), Compression::default());
            encoder.write_all(PAGE)?;
            case.page(encoded_page("gzip", encoder.finish()?))
        }),
        Case::new("ENC14", "deflate with and without a wrapper", Expect::Ok, |case| {
            let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
            bare.write_all(PAGE)?;
            let mut wrapped = ZlibEncoder::new(Vec::new(), Compression::default());
            wrapped.write_all(PAGE)?;
            case.check("both are decoded", |report| {
                demand(report.judged_records().all(|record| record["title"] == "coded"), "one is not decoded")
            });
            case.pages([
                ("/raw", encoded_page("deflate", bare.finish()?)),
                ("/zlib", encoded_page("deflate", wrapped.finish()?)),
            ])
        }),
    ]
}

/// Wrong values of Content-Encoding.
fn labels() -> Vec<Case> {
    vec![
        Case::new("ENC15", "plain text labelled gzip", Expect::Ok, |case| {
            case.check("it is read unchanged", |report| demand(report.first_judged()["title"] == "coded", "no title"));
            case.page(encoded_page("gzip", PAGE))
        })
        .choosing("a body that is obviously plain text is not decoded, with any Content-Encoding"),
        Case::new("ENC16", "an unknown coding", Expect::error("decode"), |case| {
            case.set("warc", true);
            case.check("archived, and not searched for links", |report| {
                let archive = archived(report)?;
                demand(memchr::memmem::find(&archive, b"/secret").is_some(), "not in the archive")?;
                demand(report.request_count("/secret") == 0, "its links were followed")
            });
            case.page(encoded_page("foo", "<a href=/secret>secret</a>"))
        }),
        Case::new("ENC18", "a coding that was not requested", Expect::Ok, |case| {
            // Hand-written Brotli: one uncompressed block.
            let brotli = [b"\x0b\x02\x80".as_slice(), b"hello", b"\x03"].concat();
            case.check("decoded nevertheless", |report| {
                let sent = report.requests.iter().flat_map(|request| &request.headers);
                let is_not_requested = sent.into_iter().all(|(_, value)| !value.contains("x-gzip"));
                demand(is_not_requested, "x-gzip is requested, so this case tests nothing")?;
                demand(report.judged_records().all(|record| record["bytes_body"] == 5), "one is not decoded")
            });
            case.pages([("/br", encoded_page("br", brotli)), ("/x-gzip", encoded_page("x-gzip", gzip(b"hello")))])
        })
        .choosing("supported codings (gzip, deflate, br, zstd) are always decoded, requested or not"),
        Case::new("ENC19", "an empty body labelled gzip", Expect::Ok, |case| {
            case.check("an empty body", |report| {
                demand(report.first_judged()["bytes_body"].as_u64().unwrap_or(0) == 0, "the body is not empty")
            });
            case.page(encoded_page("gzip", ""))
        }),
        Case::new("ENC20", "a sitemap.xml.gz that is labelled gzip", Expect::Ok, |case| {
            let site = case.site()?;
            let sitemap =
                |path: &str| gzip(format!("<urlset><url><loc>{}</loc></url></urlset>", site.url(path)).as_bytes());
            let kind = "application/gzip";
            // Compressed once and labelled; once and not labelled; twice and labelled.
            let once = Response::bytes(sitemap("/once")).content_type(kind).content_encoding("gzip");
            let bare = Response::bytes(sitemap("/bare")).content_type(kind);
            let twice = Response::bytes(gzip(&sitemap("/twice"))).content_type(kind).content_encoding("gzip");
            let robots: String = ["once", "bare", "twice"]
                .map(|name| format!("Sitemap: {}\n", site.url(&format!("/{name}.xml.gz"))))
                .concat();
            case.root(site.url("/"));
            for listed in ["/once", "/bare", "/twice"] {
                case.expect_at(site.url(listed));
            }
            let site = site.robots(&robots).fallback(Response::html("page"));
            case.add_site(site.page("/once.xml.gz", once).page("/bare.xml.gz", bare).page("/twice.xml.gz", twice));
            Ok(())
        }),
    ]
}
