//! Missing, wrong or invalid charsets and content types.

use super::{Case, CaseReport, CaseVerdict, Expect, demand};
use crate::response::Response;

/// Checks that this field of the first judged URL's record has this value.
fn expect_field(report: &CaseReport, key: &str, value: &str) -> CaseVerdict {
    let record = report.first_judged();
    demand(record[key] == value, format!("{key} is not {value:?}: {record}"))
}

/// Multiplied by 0, 1, 2, ..., this gives pseudo-random numbers (Knuth's multiplicative hash).
const HASH_MULTIPLIER: u32 = 2_654_435_761;

fn utf16le(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A page with these bytes and this Content-Type.
fn page(kind: &str, bytes: impl Into<Vec<u8>>) -> Response {
    Response::bytes(bytes).content_type(kind)
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = charsets();
    cases.extend(types());
    cases
}

/// Charsets.
fn charsets() -> Vec<Case> {
    vec![
        Case::new("CHR01", "the header says one charset, the page another", Expect::Ok, |case| {
            let meta = "<meta charset=windows-1252><title>caf\u{e9}</title>";
            let bom = [b"\xef\xbb\xbf".as_slice(), "<title>caf\u{e9}</title>".as_bytes()].concat();
            case.check("a byte order mark comes first, then the header, then the page", |report| {
                let charsets: Vec<_> = report.judged_records().map(|record| record["charset"].as_str()).collect();
                let titles = report.judged_records().all(|record| record["title"] == "caf\u{e9}");
                let expected = [Some("utf-8"), Some("utf-8"), Some("windows-1252")];
                demand(charsets == expected && titles, format!("{charsets:?}, titles {titles}"))
            });
            case.pages([
                ("/header", page("text/html; charset=utf-8", meta)),
                ("/mark", page("text/html; charset=windows-1252", bom)),
                ("/meta", page("text/html", b"<meta charset=windows-1252><title>caf\xe9</title>".as_slice())),
            ])
        }),
        Case::new("CHR03", "UTF-16 without a byte order mark", Expect::Ok, |case| {
            case.check("little-endian", |report| {
                expect_field(report, "charset", "utf-16le").and_then(|()| expect_field(report, "title", "wide"))
            });
            case.page(page("text/html; charset=utf-16", utf16le("<title>wide</title><a href=/x>x</a>")))
        }),
        Case::new("CHR05", "an unknown charset", Expect::Ok, |case| {
            case.check("the charset is detected from the bytes, and the record says so", |report| {
                expect_field(report, "charset", "utf-8")?;
                expect_field(report, "title", "caf\u{e9}")?;
                demand(report.first_judged()["odd"][0] == "charset_unknown", "the record does not say so")
            });
            case.page(page("text/html; charset=foo-8", "<title>caf\u{e9}</title>"))
        }),
        Case::new("CHR06", "dangerous charsets", Expect::Ok, |case| {
            // In UTF-7, `+ADw-` is `<` and `+AD4-` is `>`.
            let utf7 = "+ADw-script+AD4-<title>seven</title><a href=/shown>x</a>+ADw-a href=/hidden+AD4-";
            case.check("UTF-7 is never decoded, and the replacement charset hides everything", |report| {
                demand(
                    report.request_count("/hidden") == 0 && report.request_count("/shown") == 1,
                    "UTF-7 was decoded",
                )?;
                // The record of `/korean-page`.
                let replaced = report.judged_records().nth(1).map(|record| record["charset"].clone());
                demand(replaced == Some("replacement".into()), format!("{replaced:?}"))?;
                demand(report.request_count("/korean") == 0, "links of the replacement charset were followed")
            });
            case.pages([
                ("/seven", page("text/html; charset=utf-7", utf7)),
                ("/korean-page", page("text/html; charset=iso-2022-kr", "<a href=/korean>x</a>")),
                ("/user", page("text/html; charset=x-user-defined", b"<title>\xff</title>".as_slice())),
            ])
        }),
        Case::new("CHR07", "invalid UTF-8", Expect::Ok, |case| {
            case.raise_timeout();
            // Bytes above 0x7f in random order are hardly ever valid UTF-8.
            let noise: Vec<u8> = (0..20_000u32).map(|n| (n.wrapping_mul(HASH_MULTIPLIER) >> 11) as u8 | 0x80).collect();
            let body = [b"<title>\xff\xfe\xc3(</title>".as_slice(), &noise, b"<a href=/after>x</a>"].concat();
            case.check("read with replacement characters", |report| {
                let title = report.first_judged()["title"].as_str().unwrap_or_default().to_owned();
                demand(title.contains('\u{fffd}'), title)?;
                demand(report.request_count("/after") == 1, "the link after the noise was not found")
            });
            case.page(page("text/html; charset=utf-8", body))
        }),
        Case::new("CHR08", "NULs within HTML", Expect::Ok, |case| {
            case.check("nothing ends at a NUL", |report| {
                demand(report.request_count("/after") == 1, "the link after the NUL was not found")?;
                demand(report.request_count("/x") == 0, "an attribute with a NUL in its name was taken for href")
            });
            case.page(page("text/html", b"<p>\0<a hr\0ef=/x>x</a>\0<a href=/after>y</a>".as_slice()))
        }),
    ]
}

/// Content types.
fn types() -> Vec<Case> {
    vec![
        Case::new("CHR09", "no Content-Type", Expect::Ok, |case| {
            case.check("recognised as HTML", |report| {
                expect_field(report, "content_type", "text/html")?;
                demand(report.request_count("/x") == 1, "its link was not followed")
            });
            case.page(Response::bytes("<!doctype html><title>bare</title><a href=/x>x</a>"))
        }),
        Case::new("CHR10", "an image that is declared as HTML", Expect::Ok, |case| {
            case.raise_timeout();
            let noise = (0..500_000u32).map(|n| (n.wrapping_mul(HASH_MULTIPLIER) >> 9) as u8);
            let image: Vec<u8> = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".iter().copied().chain(noise).collect();
            case.check("no links", |report| {
                let record = report.first_judged();
                demand(record["links"] == 0, record.to_string())
            });
            case.page(page("text/html", image))
        }),
        Case::new("CHR11", "HTML that is declared as an image", Expect::Ok, |case| {
            case.check("not searched for links", |report| {
                demand(report.request_count("/x") == 0, "its link was followed")
            });
            case.page(page("image/png", "<!doctype html><a href=/x>x</a>"))
        })
        .choosing("a body that is declared as an image is not searched for links"),
        Case::new("CHR12", "a Content-Type that is broken", Expect::Ok, |case| {
            case.check("read as HTML nevertheless", |report| {
                demand(report.request_count("/1") == 1 && report.request_count("/2") == 1, "a link was not followed")
            });
            let body = |n| format!("<!doctype html><a href=/{n}>x</a>");
            let pages = [("/empty", page(";;;", body(1))), ("/open", page("text/html;charset=\"", body(2)))];
            case.pages(pages)
        }),
        Case::new("CHR14", "a 200 with an empty body", Expect::Ok, |case| {
            case.check("an empty body", |report| {
                let record = report.first_judged();
                demand(record["bytes_body"] == 0 && record["links"] == 0, record.to_string())
            });
            case.page(Response::html(""))
        }),
        Case::new("CHR15", "fifty megabytes in one line", Expect::truncated("length", "too_large"), |case| {
            case.raise_timeout();
            case.raw_page(|conn, _| {
                conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 52428800\r\n\r\n")?;
                // 50 MiB, in pieces of 64 KiB.
                for _ in 0..800 {
                    conn.send([b'x'; 64 << 10])?;
                }
                Ok(())
            })
        }),
    ]
}
