//! Content codings: bombs, broken streams and labels that are not true.

use super::{Case, Expect, Talk, demand};
use crate::answer::Answer;
use crate::hostile::report::archived;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use flate2::{Compress, Compression, FlushCompress, GzBuilder};
use std::io::{self, Write};
use std::time::Duration;

const PAGE: &[u8] = b"<!doctype html><title>coded</title><p>hello</p>";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// A page whose body is these bytes, labelled so.
fn coded(label: &str, bytes: impl Into<Vec<u8>>) -> Answer {
    Answer::html(bytes).content_encoding(label)
}

/// A megabyte of zeros as deflate, made so that it can be repeated: each repetition is a megabyte more.
fn zeros() -> Vec<u8> {
    let mut compress = Compress::new(Compression::best(), false);
    let mut out = Vec::with_capacity(8 << 10);
    let _ = compress.compress_vec(&vec![0; 1 << 20], &mut out, FlushCompress::Full);
    out
}

/// Sends a bomb: its opening, and then a megabyte after the other until the client has had enough.
fn bomb(talk: &mut Talk, label: &str, opening: &[u8], megabyte: &[u8], times: usize) -> io::Result<()> {
    let length = opening.len() + megabyte.len() * times;
    let head = format!("Content-Type: text/html\r\nContent-Encoding: {label}\r\nContent-Length: {length}\r\n");
    talk.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n"))?;
    talk.send(opening)?;
    for _ in 0..times {
        talk.send(megabyte)?;
    }
    Ok(())
}

const GZIP_OPENING: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
const FULL: Expect = Expect::truncated("length", "too_large");

/// 512 MiB as one frame of zstd: blocks of 128 KiB that are one byte each, four bytes a block.
fn zstd_bomb() -> Vec<u8> {
    const BLOCK: u32 = 128 << 10;
    let block = |last: u32| (BLOCK << 3 | 1 << 1 | last).to_le_bytes();
    // The magic, no options, a window of 128 KiB.
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

fn bombs() -> Vec<Case> {
    vec![
        Case::new("ENC01", "a bomb of gzip", FULL, |stage| {
            stage.expensive();
            stage.spoken(|talk, _| bomb(talk, "gzip", GZIP_OPENING, &zeros(), 10_000))
        }),
        Case::new("ENC03", "a bomb of zstd", FULL, |stage| {
            stage.expensive();
            stage.page(coded("zstd", zstd_bomb()))
        }),
        Case::new("ENC04", "a bomb of deflate", FULL, |stage| {
            stage.expensive();
            stage.spoken(|talk, _| bomb(talk, "deflate", &[0x78, 0x9c], &zeros(), 10_000))
        }),
        Case::new("ENC21", "a slow bomb", Expect::truncated("time", "too_slow"), |stage| {
            stage.spoken(|talk, _| {
                talk.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n")?;
                talk.send(GZIP_OPENING)?;
                for byte in zeros().iter().cycle() {
                    talk.send([*byte])?;
                    talk.pause(Duration::from_secs(1))?;
                }
                Ok(())
            })
        }),
    ]
}

fn broken() -> Vec<Case> {
    const DECODE: Expect = Expect::truncated("decode", "decode");
    vec![
        Case::new("ENC08", "garbage after gzip", Expect::Ok, |stage| {
            let garbage: Vec<u8> = (0..100u8).map(|n| n.wrapping_mul(151) | 0x80).collect();
            stage.check("the garbage is no part of the page", |report| {
                let record = report.first_judged();
                demand(record["bytes_body"] == PAGE.len() && record["title"] == "coded", record.to_string())?;
                demand(record["odd"][0] == "coding_garbage", record.to_string())
            });
            stage.page(coded("gzip", [gzip(PAGE), garbage].concat()))
        }),
        Case::new("ENC10", "gzip without its end", DECODE, |stage| {
            let text: Vec<u8> =
                (0..5_000u32).flat_map(|n| format!("{} ", n.wrapping_mul(2_654_435_761)).into_bytes()).collect();
            let whole = gzip(&text);
            stage.check("what could be decoded is kept", |report| {
                demand(report.first_judged()["bytes_body"].as_u64() > Some(1_000), "it is not")
            });
            stage.page(coded("gzip", &whole[..whole.len() - 20]))
        }),
        Case::new("ENC11", "gzip with a wrong checksum", DECODE, |stage| {
            let mut bytes = gzip(PAGE);
            let at = bytes.len() - 8;
            bytes[at] ^= 0xff;
            stage.page(coded("gzip", bytes))
        })
        .choosing("a wrong checksum is a broken body: what was decoded is kept, and the record says so"),
        Case::new("ENC12", "gzip with a broken head", Expect::error("decode"), |stage| {
            let mut bytes = gzip(PAGE);
            bytes[..3].copy_from_slice(&[0x1f, 0x8c, 0x00]);
            stage.set("warc", true);
            let sent = bytes.clone();
            stage.check("the archive has it as it was sent", move |report| {
                let archive = archived(report)?;
                demand(memchr::memmem::find(&archive, &sent).is_some(), "it has not")
            });
            stage.page(coded("gzip", bytes))
        }),
        Case::new("ENC13", "gzip with a huge head", Expect::Ok, |stage| {
            let builder = GzBuilder::new().extra(vec![b'e'; 65_535]).comment(vec![b'c'; 100_000]);
            let mut encoder = builder.write(Vec::new(), Compression::default());
            encoder.write_all(PAGE)?;
            stage.page(coded("gzip", encoder.finish()?))
        }),
        Case::new("ENC14", "deflate with and without a wrapper", Expect::Ok, |stage| {
            let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
            bare.write_all(PAGE)?;
            let mut wrapped = ZlibEncoder::new(Vec::new(), Compression::default());
            wrapped.write_all(PAGE)?;
            stage.check("both are read", |report| {
                demand(report.judged_records().all(|record| record["title"] == "coded"), "one is not")
            });
            stage.pages([("/raw", coded("deflate", bare.finish()?)), ("/zlib", coded("deflate", wrapped.finish()?))])
        }),
    ]
}

fn labels() -> Vec<Case> {
    vec![
        Case::new("ENC15", "plain text labelled gzip", Expect::Ok, |stage| {
            stage.check("it is read as it is", |report| demand(report.first_judged()["title"] == "coded", "it is not"));
            stage.page(coded("gzip", PAGE))
        })
        .choosing("what is plainly text is read as it is, whatever coding its label names"),
        Case::new("ENC16", "a coding that nobody knows", Expect::error("decode"), |stage| {
            stage.set("warc", true);
            stage.check("archived, and not read", |report| {
                let archive = archived(report)?;
                demand(memchr::memmem::find(&archive, b"/secret").is_some(), "not in the archive")?;
                demand(report.asked("/secret") == 0, "its links were followed")
            });
            stage.page(coded("foo", "<a href=/secret>secret</a>"))
        }),
        Case::new("ENC18", "a coding that was not asked for", Expect::Ok, |stage| {
            // Brotli, by hand: one block that is not compressed.
            let brotli = [b"\x0b\x02\x80".as_slice(), b"hello", b"\x03"].concat();
            stage.check("decoded all the same", |report| {
                let asked = report.seen.iter().flat_map(|seen| &seen.headers);
                let unasked = asked.into_iter().all(|(_, value)| !value.contains("x-gzip"));
                demand(unasked, "x-gzip is asked for, and no example any more")?;
                demand(report.judged_records().all(|record| record["bytes_body"] == 5), "one is not decoded")
            });
            stage.pages([("/br", coded("br", brotli)), ("/x-gzip", coded("x-gzip", gzip(b"hello")))])
        })
        .choosing("a coding that is understood is undone, asked for or not (gzip, deflate, br and zstd always are)"),
        Case::new("ENC19", "an empty body labelled gzip", Expect::Ok, |stage| {
            stage.check("an empty body", |report| {
                demand(report.first_judged()["bytes_body"].as_u64().unwrap_or(0) == 0, "it is not")
            });
            stage.page(coded("gzip", ""))
        }),
        Case::new("ENC20", "a sitemap.xml.gz that is labelled gzip", Expect::Ok, |stage| {
            let site = stage.site()?;
            let map =
                |path: &str| gzip(format!("<urlset><url><loc>{}</loc></url></urlset>", site.url(path)).as_bytes());
            let kind = "application/gzip";
            let once = Answer::bytes(map("/once")).content_type(kind).content_encoding("gzip");
            let bare = Answer::bytes(map("/bare")).content_type(kind);
            let twice = Answer::bytes(gzip(&map("/twice"))).content_type(kind).content_encoding("gzip");
            let robots: String = ["once", "bare", "twice"]
                .map(|name| format!("Sitemap: {}\n", site.url(&format!("/{name}.xml.gz"))))
                .concat();
            stage.root(site.url("/"));
            for listed in ["/once", "/bare", "/twice"] {
                stage.judge(site.url(listed));
            }
            let site = site.robots(&robots).fallback(Answer::html("page"));
            stage.open(site.page("/once.xml.gz", once).page("/bare.xml.gz", bare).page("/twice.xml.gz", twice));
            Ok(())
        }),
    ]
}
