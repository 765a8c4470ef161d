//! [`DocumentKind`]: whether and how a body is examined.

/// The kind of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    Html,
    /// XHTML, feeds, SVG and other XML.
    Xml,
    /// Text without markup: only its charset is determined. If resources are requested, the URLs in style sheets and
    /// web app manifests are found too.
    Text,
    /// A binary format or an unknown type, which is not examined.
    Other,
}

/// Magic numbers of binary formats that servers often send as HTML.
const BINARY: [&[u8]; 12] = [
    b"\x89PNG\r\n\x1A\n",
    b"GIF87a",
    b"GIF89a",
    b"\xFF\xD8\xFF",
    b"%PDF-",
    b"PK\x03\x04",
    b"\x1F\x8B\x08",
    b"RIFF",
    b"OggS\0",
    b"wOFF",
    b"wOF2",
    b"\x7FELF",
];

/// Prefixes of HTML by the MIME sniffing standard. Each must be followed by a byte that ends a tag name.
const HTML: [&[u8]; 16] = [
    b"<!doctype html",
    b"<html",
    b"<head",
    b"<script",
    b"<iframe",
    b"<h1",
    b"<div",
    b"<font",
    b"<table",
    b"<a",
    b"<style",
    b"<title",
    b"<b",
    b"<body",
    b"<br",
    b"<p",
];

impl DocumentKind {
    /// The kind by declared type, or by the first bytes if no type is declared. A declared type is trusted, except for
    /// images and other binary formats that are declared as HTML.
    pub fn of(essence: Option<&str>, opening: &[u8]) -> Self {
        match essence {
            Some("text/html") if BINARY.iter().any(|start| opening.starts_with(start)) => Self::Other,
            Some("text/html") => Self::Html,
            Some("text/xml" | "application/xml") => Self::Xml,
            Some(essence) if essence.ends_with("+xml") => Self::Xml,
            Some(essence) if is_text(essence) => Self::Text,
            Some(_) => Self::Other,
            None => Self::sniff(opening),
        }
    }

    /// The kind by the first bytes.
    fn sniff(opening: &[u8]) -> Self {
        let text = opening.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(opening);
        let is_utf16 = text.starts_with(b"\xFE\xFF") || text.starts_with(b"\xFF\xFE");
        // In UTF-16, ASCII characters have a zero byte each: drop the zeros.
        let start: Vec<u8> =
            text.iter().skip(if is_utf16 { 2 } else { 0 }).filter(|&&byte| !is_utf16 || byte != 0).copied().collect();
        let start = start.trim_ascii_start();
        let starts_with = |word: &[u8]| start.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
        let ends_tag = |length: usize| matches!(start.get(length), Some(b' ' | b'\t' | b'\r' | b'\n' | 0x0C | b'>'));
        if starts_with(b"<!--") || HTML.iter().any(|word| starts_with(word) && ends_tag(word.len())) {
            Self::Html
        } else if starts_with(b"<?xml") {
            Self::Xml
        } else if start.is_empty() || start.iter().any(|&byte| is_binary(byte)) {
            Self::Other
        } else {
            Self::Text
        }
    }

    /// The media type of a body of this kind without a declared type.
    pub fn essence(self) -> Option<&'static str> {
        match self {
            Self::Html => Some("text/html"),
            Self::Xml => Some("text/xml"),
            Self::Text => Some("text/plain"),
            Self::Other => None,
        }
    }
}

fn is_text(essence: &str) -> bool {
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || matches!(essence, "application/json" | "application/javascript" | "application/x-javascript")
}

/// Whether a byte does not occur in text, by the MIME sniffing standard.
fn is_binary(byte: u8) -> bool {
    matches!(byte, 0..=0x08 | 0x0B | 0x0E..=0x1A | 0x1C..=0x1F)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_type_and_first_bytes_determine_the_kind() {
        let cases: [(Option<&str>, &[u8], DocumentKind); 21] = [
            (Some("text/html"), b"", DocumentKind::Html),
            (Some("text/html"), b"anything", DocumentKind::Html),
            (Some("text/html"), b"\x89PNG\r\n\x1A\n\0\0", DocumentKind::Other),
            (Some("application/xhtml+xml"), b"", DocumentKind::Xml),
            (Some("application/rss+xml"), b"", DocumentKind::Xml),
            (Some("text/xml"), b"", DocumentKind::Xml),
            (Some("text/plain"), b"<html>", DocumentKind::Text),
            (Some("application/json"), b"", DocumentKind::Text),
            (Some("image/png"), b"<html>", DocumentKind::Other),
            (None, b" \n<!DOCTYPE HTML>", DocumentKind::Html),
            (None, b"<html lang=en>", DocumentKind::Html),
            (None, b"\xEF\xBB\xBF<p>", DocumentKind::Html),
            (None, b"\xFF\xFE<\0p\0>\0", DocumentKind::Html),
            (None, b"<!--x", DocumentKind::Html),
            (None, b"<pre>", DocumentKind::Text),
            (None, b"<?xml version='1.0'?>", DocumentKind::Xml),
            (None, b"plain", DocumentKind::Text),
            (None, b"\0\x01\x02", DocumentKind::Other),
            (None, b"", DocumentKind::Other),
            (None, b"<p", DocumentKind::Text),
            (None, b"<A HREF=x>", DocumentKind::Html),
        ];
        for (essence, opening, kind) in cases {
            assert_eq!(DocumentKind::of(essence, opening), kind, "{essence:?} {opening:?}");
        }
    }
}
