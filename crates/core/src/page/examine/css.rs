//! [`CssReader`]: finds the URLs in style sheets: in `url()` and `src()`, in `@import`, and in the strings of
//! `image-set()`.
//!
//! It is fed in chunks, reads every byte once, and buffers only the current URL. Comments, strings and escapes are read
//! by the rules of CSS, also in names: `\75rl(` is `url(`.
//!
//! Invariant: the URLs do not depend on how the style sheet is split.

use std::borrow::Cow;

/// Limit on the bytes of a URL. Longer ones are skipped.
const MAX_CSS_URL: usize = 16 * 1024;
/// A name is cut one byte after this length. No longer name has a meaning here: the longest is `-webkit-image-set`.
const MAX_NAME: usize = 18;

/// The purpose of a URL in a style sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CssUse {
    /// Another style sheet.
    Import,
    /// An image, a font, a cursor.
    Resource,
}

/// A URL of a style sheet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CssUrl<'a> {
    /// As written, without quotes: see [`unescape_css`].
    pub written: &'a [u8],
    pub use_as: CssUse,
    /// The position of its first byte in the style sheet. If it is quoted, this is the quote.
    pub start: usize,
    /// The position after its last byte or its closing quote.
    pub end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Plain,
    /// After a backslash outside of strings and URLs, and this many hexadecimal digits with this value.
    NameEscape {
        digits: u8,
        value: u32,
    },
    /// After a `/` that may begin a comment.
    Slash,
    Comment,
    /// After a `*` that may end a comment.
    CommentStar,
    /// Within a string.
    Quoted {
        quote: u8,
        is_url: bool,
    },
    /// After a backslash within a string.
    QuotedEscape {
        quote: u8,
        is_url: bool,
    },
    /// After `url(` or `src(`.
    UrlStart,
    /// Within the unquoted content of `url()`.
    Bare,
    /// After a backslash within the unquoted content of `url()`.
    BareEscape,
}

/// Reads a style sheet.
#[derive(Debug)]
pub struct CssReader {
    state: State,
    /// Number of bytes read so far.
    position: usize,
    /// The current name in lower case, up to one byte more than [`MAX_NAME`].
    name: Vec<u8>,
    /// Whether the next string or `url()` is a style sheet: true after `@import`.
    is_import: bool,
    /// Number of open parentheses.
    depth: u32,
    /// The depth inside the open `image-set()` or `src()`, if there is one. Strings at this depth are URLs.
    image_set: Option<u32>,
    /// The URL that is being read.
    value: Vec<u8>,
    /// The start of `value` in the style sheet.
    start: usize,
    /// Limit on the bytes of a URL.
    max_url: usize,
}

impl Default for CssReader {
    fn default() -> Self {
        Self {
            state: State::Plain,
            position: 0,
            name: Vec::new(),
            is_import: false,
            depth: 0,
            image_set: None,
            value: Vec::new(),
            start: 0,
            max_url: MAX_CSS_URL,
        }
    }
}

impl CssReader {
    /// A reader without a limit on the length of a URL, for a style sheet that is in memory as a whole.
    pub fn with_whole_urls() -> Self {
        Self { max_url: usize::MAX - 1, ..Self::default() }
    }

    /// Processes bytes. Calls `found` with every URL that ends in them.
    pub fn feed(&mut self, bytes: &[u8], mut found: impl FnMut(CssUrl<'_>)) {
        for &byte in bytes {
            self.step(byte, &mut found);
            self.position += 1;
        }
    }

    /// Ends the style sheet. The end closes an open `url(` or string, unless the last byte is a backslash.
    pub fn finish(&mut self, mut found: impl FnMut(CssUrl<'_>)) {
        match self.state {
            State::Quoted { is_url: true, .. } => self.emit(self.position, &mut found),
            State::Bare => self.emit_bare(&mut found),
            _ => {}
        }
        *self = Self::default();
    }

    fn step(&mut self, byte: u8, found: &mut impl FnMut(CssUrl<'_>)) {
        self.state = match self.state {
            State::Plain => self.read_plain(byte),
            State::NameEscape { digits, value } => self.read_escape(digits, value, byte),
            State::Slash if byte == b'*' => State::Comment,
            State::Slash => self.read_plain(byte),
            State::Comment | State::CommentStar => match (self.state, byte) {
                (State::CommentStar, b'/') => State::Plain,
                (_, b'*') => State::CommentStar,
                _ => State::Comment,
            },
            State::Quoted { quote, is_url } => match byte {
                _ if byte == quote => {
                    if is_url {
                        self.emit(self.position + 1, found);
                    }
                    State::Plain
                }
                b'\\' => {
                    self.push_if(is_url, byte);
                    State::QuotedEscape { quote, is_url }
                }
                // A string with a line feed is invalid, and not a URL.
                b'\n' | b'\r' | 0x0C => State::Plain,
                _ => {
                    self.push_if(is_url, byte);
                    State::Quoted { quote, is_url }
                }
            },
            State::QuotedEscape { quote, is_url } => {
                self.push_if(is_url, byte);
                State::Quoted { quote, is_url }
            }
            State::UrlStart => match byte {
                b'"' | b'\'' => self.begin_string(byte, true),
                b')' => self.close_parenthesis(),
                _ if is_space(byte) => State::UrlStart,
                _ => {
                    self.value.clear();
                    self.start = self.position;
                    self.push(byte);
                    if byte == b'\\' { State::BareEscape } else { State::Bare }
                }
            },
            State::Bare => match byte {
                b')' => {
                    self.emit_bare(found);
                    self.close_parenthesis()
                }
                // The URL is invalid. Browsers ignore it too.
                b'"' | b'\'' | b'(' => State::Plain,
                b'\\' => {
                    self.push(byte);
                    State::BareEscape
                }
                _ => {
                    self.push(byte);
                    State::Bare
                }
            },
            State::BareEscape => {
                self.push(byte);
                State::Bare
            }
        };
    }

    /// Handles a byte outside of comments, strings and URLs.
    fn read_plain(&mut self, byte: u8) -> State {
        if is_name_byte(byte) {
            self.push_name(byte);
            return State::Plain;
        }
        if byte == b'\\' {
            return State::NameEscape { digits: 0, value: 0 };
        }
        if self.name == b"@import" {
            self.is_import = true;
        }
        let state = match byte {
            b'(' => {
                self.depth = self.depth.saturating_add(1);
                match self.name.as_slice() {
                    b"url" => State::UrlStart,
                    b"src" | b"image-set" | b"-webkit-image-set" => {
                        self.image_set = Some(self.depth);
                        State::Plain
                    }
                    _ => State::Plain,
                }
            }
            b')' => self.close_parenthesis(),
            b'"' | b'\'' => {
                let is_url = self.is_import || self.image_set == Some(self.depth);
                self.begin_string(byte, is_url)
            }
            b'/' => State::Slash,
            b';' | b'{' | b'}' => {
                self.is_import = false;
                State::Plain
            }
            _ => State::Plain,
        };
        self.name.clear();
        // `@url(` and `#url(` are not functions.
        if matches!(byte, b'@' | b'#') {
            self.name.push(byte);
        }
        state
    }

    /// Adds a byte to the current name.
    fn push_name(&mut self, byte: u8) {
        if self.name.len() <= MAX_NAME {
            self.name.push(byte.to_ascii_lowercase());
        }
    }

    /// Handles a byte after a backslash in a name: up to six hexadecimal digits and a space, or one other character.
    fn read_escape(&mut self, digits: u8, value: u32, byte: u8) -> State {
        let digit = char::from(byte).to_digit(16).filter(|_| digits < 6);
        match (digit, digits) {
            (Some(digit), _) => State::NameEscape { digits: digits + 1, value: value * 16 + digit },
            // A backslash before a line feed is not an escape.
            (None, 0) if matches!(byte, b'\n' | b'\r' | 0x0C) => self.read_plain(byte),
            (None, 0) => {
                self.push_name(byte);
                State::Plain
            }
            (None, _) => {
                // A character that no name with a meaning has is stored as one byte that is not ASCII.
                self.push_name(u8::try_from(value).unwrap_or(0xFF));
                if is_space(byte) { State::Plain } else { self.read_plain(byte) }
            }
        }
    }

    /// Starts to read a string.
    fn begin_string(&mut self, quote: u8, is_url: bool) -> State {
        self.value.clear();
        self.start = self.position;
        State::Quoted { quote, is_url }
    }

    fn close_parenthesis(&mut self) -> State {
        if self.image_set == Some(self.depth) {
            self.image_set = None;
        }
        self.depth = self.depth.saturating_sub(1);
        State::Plain
    }

    /// Adds a byte to the URL. A URL that is too long is cut one byte after the limit, by which `emit` recognises it.
    fn push(&mut self, byte: u8) {
        if self.value.len() <= self.max_url {
            self.value.push(byte);
        }
    }

    /// Adds a byte of a string, if the string is a URL.
    fn push_if(&mut self, is_url: bool, byte: u8) {
        if is_url {
            self.push(byte);
        }
    }

    /// Reports an unquoted URL, without the white space at its end.
    fn emit_bare(&mut self, found: &mut impl FnMut(CssUrl<'_>)) {
        let kept = self.value.trim_ascii_end().len();
        // A URL that was cut is dropped by `emit`, so its end does not matter.
        let end = if self.value.len() > self.max_url { self.position } else { self.start + kept };
        if self.value.len() <= self.max_url {
            self.value.truncate(kept);
        }
        self.emit(end, found);
    }

    /// Reports the value as a URL, unless it is empty or too long.
    fn emit(&mut self, end: usize, found: &mut impl FnMut(CssUrl<'_>)) {
        let use_as = if self.is_import { CssUse::Import } else { CssUse::Resource };
        self.is_import = false;
        if !self.value.is_empty() && self.value.len() <= self.max_url {
            found(CssUrl { written: &self.value, use_as, start: self.start, end });
        }
        self.value.clear();
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0C)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || byte >= 0x80
}

/// Resolves the escapes of CSS, such as `\26 ` and `\"`.
pub fn unescape_css(written: &str) -> Cow<'_, str> {
    if !written.contains('\\') {
        return Cow::Borrowed(written);
    }
    let mut out = String::with_capacity(written.len());
    let mut rest = written.chars().peekable();
    while let Some(next) = rest.next() {
        if next != '\\' {
            out.push(next);
            continue;
        }
        // Up to six hexadecimal digits, and one white space that separates them from the text after them.
        let (mut value, mut digits) = (0, 0);
        while digits < 6
            && let Some(digit) = rest.peek().and_then(|next| next.to_digit(16))
        {
            value = value * 16 + digit;
            digits += 1;
            rest.next();
        }
        if digits > 0 {
            out.push(char::from_u32(value).filter(|next| *next != '\0').unwrap_or('\u{FFFD}'));
            if rest.peek().is_some_and(char::is_ascii_whitespace) {
                rest.next();
            }
        } else {
            match rest.next() {
                Some('\n') | None => {}
                Some(other) => out.push(other),
            }
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn urls(pieces: &[&[u8]]) -> Vec<(String, CssUse, usize, usize)> {
        let mut reader = CssReader::default();
        let mut found = Vec::new();
        let mut push = |url: CssUrl<'_>| {
            let text = String::from_utf8_lossy(url.written).into_owned();
            found.push((unescape_css(&text).into_owned(), url.use_as, url.start, url.end));
        };
        for piece in pieces {
            reader.feed(piece, &mut push);
        }
        reader.finish(&mut push);
        found
    }

    #[test]
    fn the_urls_of_a_style_sheet_are_found() {
        for (css, expected) in [
            ("a{background:url(x.png)}", vec!["x.png"]),
            ("a{background: URL( 'a b.png' ) no-repeat, url(\"c.png\")}", vec!["a b.png", "c.png"]),
            (
                "@import 'one.css'; @import url(two.css) screen; @IMPORT \"three.css\" layer(x);",
                vec!["one.css", "two.css", "three.css"],
            ),
            ("@font-face{src:local('not this'), url(f.woff2) format('woff2')}", vec!["f.woff2"]),
            ("a{background:image-set('1.png' 1x, url(2.png) 2x)} b{content:'not'}", vec!["1.png", "2.png"]),
            ("/* url(no.png) */ a{content:\"url(no.png)\"}", vec![]),
            ("a{background:url(a\\)b\\26 c.png)}", vec!["a)b&c.png"]),
            ("a{background:url()}", vec![]),
            ("a{background:url( spaced.png )}", vec!["spaced.png"]),
            ("a{background:url(data:image/png;base64,AA==)}", vec!["data:image/png;base64,AA=="]),
            ("@media print{@import 'x.css'}", vec!["x.css"]),
            ("a{b:url(broken'", vec![]),
            ("a{b:curl(x)}", vec![]),
            ("a:hover{cursor:url(c.cur),auto}", vec!["c.cur"]),
            ("a{b:url(open.png", vec!["open.png"]),
            ("a{b:10px/url(c)}", vec!["c"]),
            ("a{content:'broken\n} b{c:url(d)}", vec!["d"]),
            ("a{content:'broken\r} b{c:url(d)}", vec!["d"]),
            ("a{b:u\\72l(c);d:\\000055 RL('e')}@\\69mport 'f'", vec!["c", "e", "f"]),
            ("a{b:#url(x'y);c:\\3a url(x'z);d:src(x 'e')}", vec!["e"]),
        ] {
            let found: Vec<String> = urls(&[css.as_bytes()]).into_iter().map(|(url, ..)| url).collect();
            assert_eq!(found, expected, "{css}");
        }
    }

    #[test]
    fn urls_have_their_use_and_position() {
        let css = "@import url(a.css);b{c:url( \"d\" )}";
        let found = urls(&[css.as_bytes()]);
        let positions: Vec<_> = found.iter().map(|(_, use_as, start, end)| (*use_as, css.get(*start..*end))).collect();
        assert_eq!(positions, [(CssUse::Import, Some("a.css")), (CssUse::Resource, Some("\"d\""))]);
        let long = format!("a{{b:url({})}}c{{d:url(e)}}", "x".repeat(100_000));
        assert_eq!(urls(&[long.as_bytes()]).len(), 1, "a very long URL is omitted");
    }

    proptest! {
        #[test]
        fn the_urls_do_not_depend_on_the_chunks(css in "[a-c@ur l()'\"/*\\\\;{}import,\n.]{0,60}", cut in 0usize..60) {
            let (first, second) = css.as_bytes().split_at(cut.min(css.len()));
            prop_assert_eq!(urls(&[first, second]), urls(&[css.as_bytes()]));
        }
    }
}
