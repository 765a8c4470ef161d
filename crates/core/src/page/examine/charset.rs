//! Detection of a page's charset by byte order mark, header, declarations in the page, UTF-8 validity and statistics, in
//! this order.
//!
//! Invariant: a wrong declaration does not make the links of a page unreadable; at worst some text is garbled. If
//! UTF-16 is declared and the bytes cannot be UTF-16, the declaration is ignored. The exceptions are the charsets that
//! the standard forbids to decode, such as ISO-2022-KR.

use encoding_rs::{Encoding, ISO_2022_JP, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};
use memchr::memchr;
use memchr::memmem;

use super::characters::is_space;
use super::tokenizer::Attributes;

/// Bytes searched for a declaration within the page.
pub const PRESCAN_BYTES: usize = 1024;
/// Limit on the bytes that are passed to statistical detection, which is slow and which more input does not improve.
const MAX_SAMPLE: usize = 16 * 1024;

/// The encoding that the first bytes or the header declare, and the length of the byte order mark.
///
/// `label` is the charset of the header. `is_markup`: the page is HTML or XML, which may contain a declaration.
pub fn declared(opening: &[u8], label: Option<&str>, is_markup: bool) -> Option<(&'static Encoding, usize)> {
    if let Some((encoding, length)) = Encoding::for_bom(opening) {
        return Some((encoding, length));
    }
    let by_header = label
        .and_then(|label| Encoding::for_label(label.as_bytes()))
        .and_then(|encoding| if is_markup { plausible(encoding, opening) } else { Some(encoding) });
    if by_header.is_some() || !is_markup {
        return by_header.map(|encoding| (encoding, 0));
    }
    prescan(opening).map(|encoding| (encoding, 0))
}

/// The encoding of a whole page without headers, and the length of its byte order mark.
pub fn of_page(bytes: &[u8]) -> (&'static Encoding, usize) {
    declared(bytes.get(..PRESCAN_BYTES).unwrap_or(bytes), None, true).unwrap_or_else(|| {
        let mut utf8_check = Utf8Check::default();
        utf8_check.feed(bytes);
        (utf8_check.decide(""), 0)
    })
}

/// The declared encoding. `None` if it is UTF-16 and the bytes cannot be UTF-16, in which every `<` has a zero byte. If
/// the position of the zeros shows the other byte order, UTF-16 in that order.
fn plausible(encoding: &'static Encoding, opening: &[u8]) -> Option<&'static Encoding> {
    if encoding != UTF_16LE && encoding != UTF_16BE {
        return Some(encoding);
    }
    let zeros = |parity: usize| opening.iter().skip(parity).step_by(2).filter(|&&byte| byte == 0).count();
    match (zeros(0), zeros(1)) {
        (0, 0) if opening.is_empty() => Some(encoding),
        (0, 0) => None,
        (even, odd) if even > odd => Some(UTF_16BE),
        (even, odd) if even < odd => Some(UTF_16LE),
        _ => Some(encoding),
    }
}

/// Whether the page must be decoded before tokenizing, because not every `<` byte means `<`. In the replacement
/// encoding, none does.
pub fn hides_markup(encoding: &'static Encoding) -> bool {
    [UTF_16LE, UTF_16BE, ISO_2022_JP, REPLACEMENT].contains(&encoding)
}

/// The charset that the page declares: "prescan a byte stream to determine its encoding" of the HTML standard.
pub fn prescan(opening: &[u8]) -> Option<&'static Encoding> {
    let bytes = opening.get(..PRESCAN_BYTES).unwrap_or(opening);
    if bytes.starts_with(b"<\0?\0x\0") {
        return Some(UTF_16LE);
    }
    if bytes.starts_with(b"\0<\0?\0x") {
        return Some(UTF_16BE);
    }
    prescan_meta(bytes).or_else(|| xml_declaration(bytes))
}

fn prescan_meta(bytes: &[u8]) -> Option<&'static Encoding> {
    let mut rest = bytes;
    loop {
        rest = rest.get(memchr(b'<', rest)?..)?;
        if rest.starts_with(b"<!--") {
            // The dashes may be shared: `<!-->` is a complete comment.
            rest = rest.get(2..)?;
            rest = rest.get(memmem::find(rest, b"-->")? + b"-->".len()..)?;
            continue;
        }
        let (closing, name_start) = if rest.get(1) == Some(&b'/') { (true, 2) } else { (false, 1) };
        match rest.get(name_start)? {
            byte if byte.is_ascii_alphabetic() => {
                let name = rest.get(name_start..)?;
                let is_meta = !closing
                    && name.get(..4).is_some_and(|name| name.eq_ignore_ascii_case(b"meta"))
                    && name.get(4).is_some_and(|&byte| is_space(byte) || byte == b'/');
                let end = if is_meta { 4 } else { name.iter().position(|&byte| is_space(byte) || byte == b'>')? };
                let mut attributes = Attributes::over(name.get(end..)?);
                let declared = meta_charset(&mut attributes);
                // Skip the tag. An attribute that is cut off ends the search.
                rest = attributes.remainder();
                rest = rest.get(rest.iter().position(|&byte| !is_space(byte) && byte != b'/')?..)?;
                if rest.first() != Some(&b'>') {
                    return None;
                }
                if is_meta && declared.is_some() {
                    return declared;
                }
            }
            b'!' | b'?' => rest = rest.get(memchr(b'>', rest)?..)?,
            _ if closing => rest = rest.get(memchr(b'>', rest)?..)?,
            _ => rest = rest.get(1..)?,
        }
    }
}

/// The charset that a meta element declares: in `charset`, or in `content` together with `http-equiv=content-type` (the
/// pragma).
pub fn meta_charset(attributes: &mut Attributes<'_>) -> Option<&'static Encoding> {
    let (mut has_pragma, mut seen) = (false, Seen::default());
    // The inner option of `charset` is `None` if the label is unknown.
    let (mut charset, mut needs_pragma) = (None, None);
    for (name, value) in attributes {
        if name.eq_ignore_ascii_case(b"http-equiv") && seen.insert(Seen::HTTP_EQUIV) {
            has_pragma = value.eq_ignore_ascii_case(b"content-type");
        } else if name.eq_ignore_ascii_case(b"content") && seen.insert(Seen::CONTENT) {
            if let (None, Some(found)) = (charset, charset_in_content(value)) {
                charset = Some(Some(found));
                needs_pragma = Some(true);
            }
        } else if name.eq_ignore_ascii_case(b"charset") && seen.insert(Seen::CHARSET) {
            charset = Some(Encoding::for_label(value));
            needs_pragma = Some(false);
        }
    }
    if needs_pragma? && !has_pragma {
        return None;
    }
    charset?.map(as_declared_in_page)
}

/// The encoding that a declaration in the page stands for, by the rules of the standard. UTF-16 is replaced by UTF-8,
/// because a declaration that was found byte by byte is not in UTF-16. `x-user-defined` is replaced by windows-1252.
fn as_declared_in_page(encoding: &'static Encoding) -> &'static Encoding {
    if encoding == UTF_16LE || encoding == UTF_16BE {
        UTF_8
    } else if encoding == X_USER_DEFINED {
        WINDOWS_1252
    } else {
        encoding
    }
}

/// The attributes seen so far: of duplicates, the first counts.
#[derive(Default)]
struct Seen(u8);

impl Seen {
    const HTTP_EQUIV: u8 = 1;
    const CONTENT: u8 = 2;
    const CHARSET: u8 = 4;

    /// Adds an attribute. Returns whether it is new.
    fn insert(&mut self, attribute: u8) -> bool {
        let is_new = self.0 & attribute == 0;
        self.0 |= attribute;
        is_new
    }
}

/// The charset in `text/html; charset=...`: "extracting a character encoding from a meta element" of the HTML standard.
fn charset_in_content(content: &[u8]) -> Option<&'static Encoding> {
    const WORD: &[u8] = b"charset";
    let mut rest = content;
    loop {
        let at = rest.windows(WORD.len()).position(|window| window.eq_ignore_ascii_case(WORD))?;
        rest = rest.get(at + WORD.len()..)?.trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            let value = value.trim_ascii_start();
            let label = match value.first()? {
                quote @ (b'"' | b'\'') => value.get(1..1 + memchr(*quote, value.get(1..)?)?)?,
                _ => value.split(|&byte| is_space(byte) || byte == b';').next()?,
            };
            return Encoding::for_label(label);
        }
    }
}

/// The encoding in `<?xml version="1.0" encoding="..."?>`.
fn xml_declaration(bytes: &[u8]) -> Option<&'static Encoding> {
    if !bytes.starts_with(b"<?xml") {
        return None;
    }
    let declaration = bytes.get(..memchr(b'>', bytes)?)?;
    let rest = declaration.get(memmem::find(declaration, b"encoding")? + b"encoding".len()..)?;
    let rest = rest.get(rest.iter().position(|&byte| byte > b' ')?..)?.strip_prefix(b"=")?;
    let rest = rest.get(rest.iter().position(|&byte| byte > b' ')?..)?;
    let quote = rest.first().copied().filter(|byte| matches!(byte, b'"' | b'\''))?;
    let rest = rest.get(1..)?;
    let label = rest.get(..memchr(quote, rest)?)?;
    if label.iter().any(|&byte| byte <= b' ') {
        return None;
    }
    Encoding::for_label(label).map(as_declared_in_page)
}

/// Checks whether the bytes of a page without declaration are valid UTF-8, and keeps a sample for detection.
#[derive(Default)]
pub struct Utf8Check {
    is_invalid: bool,
    /// Whether there was a complete multi-byte character.
    has_multibyte: bool,
    /// The incomplete character at the end of the last chunk.
    incomplete: Vec<u8>,
    /// The bytes from the first non-ASCII byte on, up to [`MAX_SAMPLE`].
    sample: Vec<u8>,
}

impl Utf8Check {
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if self.sample.is_empty() {
            rest = rest.get(Encoding::ascii_valid_up_to(rest)..).unwrap_or(&[]);
        }
        let room = MAX_SAMPLE - self.sample.len().min(MAX_SAMPLE);
        self.sample.extend_from_slice(rest.get(..room).unwrap_or(rest));
        if !self.is_invalid {
            self.validate(rest);
        }
    }

    fn validate(&mut self, mut rest: &[u8]) {
        while !self.incomplete.is_empty() {
            let Some((&byte, after)) = rest.split_first() else { return };
            rest = after;
            self.incomplete.push(byte);
            match std::str::from_utf8(&self.incomplete) {
                Ok(_) => {
                    self.has_multibyte = true;
                    self.incomplete.clear();
                }
                Err(error) if error.error_len().is_some() => {
                    self.is_invalid = true;
                    return;
                }
                Err(_) => {}
            }
        }
        match std::str::from_utf8(rest) {
            Ok(_) => self.has_multibyte |= !rest.is_ascii(),
            Err(error) if error.error_len().is_some() => self.is_invalid = true,
            Err(error) => {
                let (valid, incomplete) = rest.split_at(error.valid_up_to());
                self.has_multibyte |= !valid.is_ascii();
                self.incomplete.extend_from_slice(incomplete);
            }
        }
    }

    /// The charset: UTF-8 if all bytes are valid, otherwise the result of statistical detection. The detection uses the
    /// top-level domain of the host as a hint.
    pub fn decide(self, host: &str) -> &'static Encoding {
        // A body may be cut within a character. But if there is no complete multi-byte character, the incomplete one
        // more likely belongs to another charset.
        if !self.is_invalid && (self.incomplete.is_empty() || self.has_multibyte) {
            return UTF_8;
        }
        let tld = host.rsplit('.').next().filter(|tld| tld.bytes().all(|byte| byte.is_ascii_lowercase()));
        // ISO-2022-JP need not be detected: its bytes are ASCII, so they are valid UTF-8.
        let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Deny);
        let is_whole = self.sample.len() < MAX_SAMPLE;
        detector.feed(&self.sample, is_whole);
        detector.guess(tld.map(str::as_bytes), chardetng::Utf8Detection::Allow)
    }
}

/// The WHATWG name of an encoding in lower case.
pub fn name(encoding: &'static Encoding) -> &'static str {
    match encoding.name() {
        "UTF-8" => "utf-8",
        "UTF-16LE" => "utf-16le",
        "UTF-16BE" => "utf-16be",
        "IBM866" => "ibm866",
        "ISO-8859-2" => "iso-8859-2",
        "ISO-8859-3" => "iso-8859-3",
        "ISO-8859-4" => "iso-8859-4",
        "ISO-8859-5" => "iso-8859-5",
        "ISO-8859-6" => "iso-8859-6",
        "ISO-8859-7" => "iso-8859-7",
        "ISO-8859-8" => "iso-8859-8",
        "ISO-8859-8-I" => "iso-8859-8-i",
        "ISO-8859-10" => "iso-8859-10",
        "ISO-8859-13" => "iso-8859-13",
        "ISO-8859-14" => "iso-8859-14",
        "ISO-8859-15" => "iso-8859-15",
        "ISO-8859-16" => "iso-8859-16",
        "KOI8-R" => "koi8-r",
        "KOI8-U" => "koi8-u",
        "GBK" => "gbk",
        "Big5" => "big5",
        "EUC-JP" => "euc-jp",
        "ISO-2022-JP" => "iso-2022-jp",
        "Shift_JIS" => "shift_jis",
        "EUC-KR" => "euc-kr",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(opening: &[u8], label: Option<&str>) -> Option<&'static str> {
        declared(opening, label, true).map(|(encoding, _)| name(encoding))
    }

    #[test]
    fn names_are_lower_case() {
        for label in [
            "utf-8",
            "ibm866",
            "latin2",
            "latin3",
            "latin4",
            "cyrillic",
            "arabic",
            "greek",
            "hebrew",
            "logical",
            "latin6",
            "iso-8859-13",
            "iso-8859-14",
            "iso-8859-15",
            "iso-8859-16",
            "koi8-r",
            "koi8-u",
            "macintosh",
            "windows-874",
            "cp1250",
            "cp1251",
            "ascii",
            "cp1253",
            "cp1254",
            "cp1255",
            "cp1256",
            "cp1257",
            "cp1258",
            "x-mac-cyrillic",
            "gb2312",
            "gb18030",
            "big5",
            "euc-jp",
            "iso-2022-jp",
            "sjis",
            "euc-kr",
            "iso-2022-kr",
            "utf-16be",
            "utf-16",
            "x-user-defined",
        ] {
            let encoding = Encoding::for_label(label.as_bytes()).expect("a label of the standard");
            assert_eq!(name(encoding), encoding.name().to_ascii_lowercase(), "{label}");
        }
    }

    #[test]
    fn byte_order_mark_precedes_header_and_header_precedes_page() {
        let meta = b"<meta charset=windows-1251>";
        assert_eq!(found(meta, None), Some("windows-1251"));
        assert_eq!(found(meta, Some("utf-8")), Some("utf-8"));
        assert_eq!(found(meta, Some("foo-8")), Some("windows-1251"));
        assert_eq!(found(meta, Some("utf-7")), Some("windows-1251"));
        assert_eq!(found(b"\xEF\xBB\xBF<meta charset=gbk>", Some("koi8-r")), Some("utf-8"));
        assert_eq!(found(b"\xFE\xFF\0<", Some("koi8-r")), Some("utf-16be"));
        assert_eq!(found(b"<p>", None), None);
        assert_eq!(found(b"<?xml version='1.0' encoding='koi8-r'?><a/>", None), Some("koi8-r"));
        assert_eq!(found(b"<meta charset=utf-16>", None), Some("utf-8"));
        assert_eq!(found(b"<meta charset=x-user-defined>", None), Some("windows-1252"));
        assert_eq!(found(b"<p>", Some("iso-2022-kr")), Some("replacement"));
        assert_eq!(declared(meta, None, false), None);
    }

    #[test]
    fn declared_utf_16_requires_zero_bytes() {
        assert_eq!(found(b"<\0p\0>\0", Some("utf-16")), Some("utf-16le"));
        assert_eq!(found(b"\0<\0p\0>", Some("utf-16")), Some("utf-16be"));
        assert_eq!(found(b"<p>plain", Some("utf-16")), None);
        assert_eq!(found(b"<meta charset=utf-8>", Some("utf-16")), Some("utf-8"));
    }

    #[test]
    fn undeclared_pages_are_utf_8_if_valid_and_detected_otherwise() {
        let decide = |chunks: &[&[u8]], host: &str| {
            let mut utf8_check = Utf8Check::default();
            chunks.iter().for_each(|chunk| utf8_check.feed(chunk));
            name(utf8_check.decide(host))
        };
        assert_eq!(decide(&[b"plain"], "h"), "utf-8");
        assert_eq!(decide(&[], "h"), "utf-8");
        assert_eq!(decide(&["grüße".as_bytes()], "h"), "utf-8");
        assert_eq!(decide(&[b"gr\xC3", b"\xBC\xC3", b"\x9Fe"], "h"), "utf-8");
        assert_eq!(decide(&[b"gr\xC3\xBC\xC3"], "h"), "utf-8");
        assert_eq!(decide(&[b"Das Caf\xE9 ist sch\xF6n und gro\xDF"], "example.de"), "windows-1252");
        assert_eq!(decide(&[b"Das Caf\xE9"], "example.de"), "windows-1252");
        let russian = encoding_rs::WINDOWS_1251.encode("Съешь же ещё этих мягких французских булок, да выпей чаю").0;
        assert_eq!(decide(&[&russian], "example.ru"), "windows-1251");
        let (first, second) = russian.split_at(7);
        assert_eq!(decide(&[first, second], "example.ru"), "windows-1251");
    }
}
