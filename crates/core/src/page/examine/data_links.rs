//! [`DataReader`]: addresses of pages in the data that scripts of a page contain.
//!
//! Pages of frameworks carry their data in JSON: in `script` elements of a JSON type, in object literals that are
//! assigned to a variable, and in strings that contain JSON. A string that is a URL or an absolute path, and whose key is
//! named like `href`, `url`, `path`, `slug`, `link` or `permalink`, is a link of the kind `data`.
//!
//! A script is read once, byte by byte. In code, only literals count that consist of values alone: one with a call, a
//! function or an operator is dropped, because its strings are more likely requests of the program. Nuxt writes an array
//! in which keys refer to strings by their index: such references are resolved when the script ends.
//!
//! Invariant: the result does not depend on how the script is split. What is kept is bounded, whatever the script is.

use super::characters::is_space;
use super::entities;

/// Limit on the links of a page.
const MAX_DATA_LINKS: usize = 1_000;
/// Longer strings are not links.
const MAX_VALUE: usize = 2_048;
/// Longer names have no meaning.
const MAX_NAME: usize = 64;
/// Limit on the references to strings by their index.
const MAX_REFERENCES: usize = 10_000;

/// The words that end the names of links.
const LINK_WORDS: [&str; 6] = ["permalink", "href", "url", "path", "slug", "link"];
/// Words in names of what is not a page: files, and prefixes that a program completes.
const OTHER_WORDS: [&str; 18] = [
    "image", "img", "thumb", "avatar", "icon", "logo", "photo", "picture", "poster", "video", "audio", "asset",
    "static", "api", "base", "font", "script", "style",
];
/// Extensions of files that are not pages.
const OTHER_EXTENSIONS: [&str; 34] = [
    "avif",
    "bmp",
    "css",
    "eot",
    "gif",
    "ico",
    "jpeg",
    "jpg",
    "js",
    "json",
    "jsx",
    "less",
    "m4a",
    "map",
    "mjs",
    "mp3",
    "mp4",
    "ogg",
    "otf",
    "png",
    "scss",
    "svelte",
    "svg",
    "ts",
    "tsx",
    "ttf",
    "vue",
    "wasm",
    "wav",
    "webm",
    "webmanifest",
    "webp",
    "woff",
    "woff2",
];
/// First segments of paths that programs request.
const PROGRAM_FOLDERS: [&str; 4] = ["api", "graphql", "wp-json", "cdn-cgi"];

/// What a script contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptForm {
    /// Data alone: every object counts.
    Json,
    /// Code: the object literals that consist of values alone count.
    Code,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Plain,
    /// Within a name, a number or a word such as `true`.
    Word,
    String(u8),
    Escape(u8),
    /// After `\u` or `\x`: the quote, the digits that are missing, and their value so far.
    Unicode(u8, u8, u32),
    Template,
    TemplateEscape,
    /// After a `/` in code.
    Slash,
    LineComment,
    BlockComment,
    /// After a `*` in a comment.
    CommentStar,
    /// Within a regular expression; `true` within a class.
    Regex(bool),
    RegexEscape(bool),
}

/// The last token of a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// An opening bracket or a comma.
    Open,
    /// A colon after a key.
    Colon,
    /// A value, or a key before its colon.
    Operand,
}

/// Reads the scripts of a page one after the other.
#[derive(Debug)]
pub struct DataReader {
    form: ScriptForm,
    state: State,
    last: Last,
    /// The previous byte of code that is not white space: it decides whether a `/` begins a regular expression.
    previous: u8,
    /// The number of open brackets of the literal.
    depth: u32,
    /// The last string or word, up to a limit. Characters that are not ASCII, if escaped, are references.
    token: Vec<u8>,
    /// Whether the last string or word is longer than what is kept.
    is_cut: bool,
    /// Whether the key before the last colon is named like a link.
    is_link_key: bool,
    found: FoundData,
    indexed: IndexedStrings,
    /// Reads a string that contains data.
    nested: Option<Box<DataReader>>,
    /// Whether the open string contains quotes, so that `nested` reads it.
    is_nested_open: bool,
    /// Whether it reads a string. It then has no reader of its own.
    is_nested: bool,
}

/// The links found, one after the other.
#[derive(Debug, Default)]
struct FoundData {
    text: Vec<u8>,
    ends: Vec<usize>,
    /// How many of them belong to literals that are complete.
    complete: usize,
    /// Whether there are more than are kept.
    is_capped: bool,
}

/// An array whose objects refer to its strings by index.
#[derive(Debug, Default)]
struct IndexedStrings {
    /// Whether the script is such an array: its first bracket is `[`.
    is_array: bool,
    /// The index of the current element.
    index: u32,
    /// Elements that may be links.
    strings: Vec<(u32, Box<[u8]>)>,
    /// The indices to which keys named like links refer.
    references: Vec<u32>,
}

impl Default for DataReader {
    fn default() -> Self {
        Self::new(false)
    }
}

impl DataReader {
    fn new(is_nested: bool) -> Self {
        Self {
            form: ScriptForm::Json,
            state: State::Plain,
            last: Last::Open,
            previous: b';',
            depth: 0,
            token: Vec::new(),
            is_cut: false,
            is_link_key: false,
            found: FoundData::default(),
            indexed: IndexedStrings::default(),
            nested: None,
            is_nested_open: false,
            is_nested,
        }
    }

    /// Starts to read a script.
    pub fn begin(&mut self, form: ScriptForm) {
        (self.form, self.state, self.last, self.previous) = (form, State::Plain, Last::Open, b';');
        (self.depth, self.is_cut, self.is_link_key, self.is_nested_open) = (0, false, false, false);
        self.token.clear();
        self.indexed = IndexedStrings::default();
    }

    /// Reads a part of a script.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.is_outside() {
                let skipped = rest.iter().position(|&byte| STARTS_TOKEN[usize::from(byte)]).unwrap_or(rest.len());
                let (code, next) = rest.split_at(skipped);
                self.previous = code.iter().rfind(|byte| !is_space(**byte)).copied().unwrap_or(self.previous);
                if skipped > 0 {
                    rest = next;
                    continue;
                }
            }
            self.read(byte);
            rest = after;
        }
    }

    /// Ends a script.
    pub fn end(&mut self) {
        match self.form {
            ScriptForm::Json => {
                let IndexedStrings { strings, mut references, .. } = std::mem::take(&mut self.indexed);
                references.sort_unstable();
                for (_, text) in strings.iter().filter(|(index, _)| references.binary_search(index).is_ok()) {
                    self.found.push(text);
                }
                self.found.complete();
            }
            ScriptForm::Code => self.found.drop_incomplete(),
        }
    }

    /// The links of all scripts that ended, as received: character references in them are to be resolved.
    pub fn links(&self) -> impl Iterator<Item = &[u8]> {
        let own = self.found.iter();
        own.chain(self.nested.iter().flat_map(|nested| nested.found.iter()))
    }

    /// Whether there are more links than are kept.
    pub fn is_capped(&self) -> bool {
        self.found.is_capped || self.nested.as_ref().is_some_and(|nested| nested.found.is_capped)
    }

    /// Heap bytes.
    pub fn weight(&self) -> usize {
        let IndexedStrings { strings, references, .. } = &self.indexed;
        let strings: usize = strings.iter().map(|(_, text)| text.len() + size_of::<(u32, Box<[u8]>)>()).sum();
        self.found.text.capacity()
            + self.found.ends.capacity() * size_of::<usize>()
            + strings
            + references.capacity() * size_of::<u32>()
            + self.nested.as_ref().map_or(0, |nested| nested.weight())
    }

    /// Whether it reads code outside of literals.
    fn is_outside(&self) -> bool {
        self.state == State::Plain && self.depth == 0 && self.form == ScriptForm::Code
    }

    fn read(&mut self, byte: u8) {
        match self.state {
            State::Plain => self.read_plain(byte),
            State::Word if is_word(byte) => self.push_token(byte, MAX_NAME),
            State::Word => {
                self.end_word();
                self.state = State::Plain;
                self.read_plain(byte);
            }
            State::String(quote) if byte == quote => self.end_string(),
            State::String(quote) if byte == b'\\' => self.state = State::Escape(quote),
            State::String(_) if byte == b'\n' => {
                // A string does not span lines, so this quote did not begin one.
                (self.state, self.is_cut) = (State::Plain, true);
                self.close_nested();
                self.reject();
            }
            State::String(_) => self.push_string(byte),
            State::Escape(quote) => self.read_escape(quote, byte),
            State::Unicode(quote, missing, value) => self.read_unicode(quote, missing, value, byte),
            State::Template | State::TemplateEscape => {
                self.state = match (self.state, byte) {
                    (State::Template, b'`') => State::Plain,
                    (State::Template, b'\\') => State::TemplateEscape,
                    _ => State::Template,
                };
            }
            _ => self.read_slash(byte),
        }
    }

    /// Reads a byte of a comment, of a regular expression, or after a slash.
    fn read_slash(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::Slash, b'/') => State::LineComment,
            (State::Slash, b'*') => State::BlockComment,
            (State::Slash, _) => {
                let ends_operand = is_word(self.previous) || matches!(self.previous, b')' | b']' | b'}' | b'"' | b'\'');
                self.previous = b'/';
                self.state = if ends_operand { State::Plain } else { State::Regex(false) };
                self.reject();
                return self.read(byte);
            }
            (State::LineComment, b'\n' | b'\r') | (State::CommentStar, b'/') => State::Plain,
            (State::LineComment, _) => State::LineComment,
            (State::BlockComment | State::CommentStar, b'*') => State::CommentStar,
            (State::BlockComment | State::CommentStar, _) => State::BlockComment,
            (State::Regex(in_class), b'\\') => State::RegexEscape(in_class),
            (State::Regex(_), b'[') => State::Regex(true),
            (State::Regex(_), b']') => State::Regex(false),
            (State::Regex(false), b'/') | (State::Regex(_), b'\n') => State::Plain,
            (State::RegexEscape(in_class), _) => State::Regex(in_class),
            (state, _) => state,
        };
    }

    fn read_plain(&mut self, byte: u8) {
        let is_code = self.form == ScriptForm::Code;
        match byte {
            _ if is_space(byte) => return,
            b'"' => self.begin_string(byte),
            b'\'' if is_code => self.begin_string(byte),
            b'`' if is_code => {
                self.add_operand();
                self.state = State::Template;
            }
            // `previous` stays what is before the slash.
            b'/' if is_code => {
                self.state = State::Slash;
                return;
            }
            b'{' | b'[' => self.open(byte),
            b'}' | b']' => self.close(),
            b',' if self.depth > 0 => {
                if self.depth == 1 {
                    self.indexed.index = self.indexed.index.saturating_add(1);
                }
                (self.last, self.is_link_key) = (Last::Open, false);
            }
            b':' if self.depth > 0 && self.last == Last::Operand => {
                self.is_link_key = !self.is_cut && is_link_name(&self.token);
                self.last = Last::Colon;
            }
            // `!0` and `!1` are how minifiers write true and false.
            b'!' if self.depth > 0 => {}
            _ if is_word(byte) && self.depth > 0 => {
                self.token.clear();
                self.is_cut = false;
                self.push_token(byte, MAX_NAME);
                self.state = State::Word;
            }
            _ => self.reject(),
        }
        self.previous = byte;
    }

    fn open(&mut self, byte: u8) {
        if self.last == Last::Operand && self.depth > 0 {
            self.reject();
        }
        if self.depth == 0 && self.form == ScriptForm::Json {
            self.indexed.is_array = byte == b'[';
        }
        self.depth = self.depth.saturating_add(1);
        (self.last, self.is_link_key) = (Last::Open, false);
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        (self.last, self.is_link_key) = (Last::Operand, false);
        // A closed value is not a key.
        self.is_cut = true;
        if self.depth == 0 {
            self.found.complete();
        }
    }

    /// What was read is not a literal of values alone.
    fn reject(&mut self) {
        (self.last, self.is_link_key) = (Last::Open, false);
        if self.form == ScriptForm::Code {
            self.depth = 0;
            self.found.drop_incomplete();
        }
    }

    /// Two values in a row are code.
    fn add_operand(&mut self) {
        if self.last == Last::Operand {
            self.reject();
        }
        self.last = Last::Operand;
    }

    fn end_word(&mut self) {
        if &*self.token == b"void" {
            return;
        }
        let is_reference = self.last == Last::Colon && self.is_link_key && self.depth == 2 && self.indexed.is_array;
        self.add_operand();
        if is_reference
            && let Some(index) = std::str::from_utf8(&self.token).ok().and_then(|text| text.parse().ok())
            && self.indexed.references.len() < MAX_REFERENCES
        {
            self.indexed.references.push(index);
        }
    }

    fn begin_string(&mut self, quote: u8) {
        self.token.clear();
        self.is_cut = false;
        self.state = State::String(quote);
    }

    fn end_string(&mut self) {
        self.state = State::Plain;
        self.close_nested();
        if self.depth == 0 && self.form == ScriptForm::Code {
            return;
        }
        let is_value = self.last == Last::Colon && self.is_link_key;
        let is_element = self.last == Last::Open && self.depth == 1 && self.indexed.is_array;
        self.add_operand();
        if self.is_cut || !(is_value || is_element) || !is_page_address(&self.token) {
            return;
        }
        if is_value {
            self.found.push(&self.token);
        } else if self.indexed.strings.len() < MAX_DATA_LINKS {
            self.indexed.strings.push((self.indexed.index, (&*self.token).into()));
        }
    }

    fn read_escape(&mut self, quote: u8, byte: u8) {
        self.state = match byte {
            b'u' => State::Unicode(quote, 4, 0),
            b'x' => State::Unicode(quote, 2, 0),
            _ => State::String(quote),
        };
        match byte {
            b'u' | b'x' => {}
            b'n' | b'r' | b't' | b'b' | b'f' | b'v' => self.push_string(if byte == b'n' { b'\n' } else { b' ' }),
            _ => self.push_string(byte),
        }
    }

    fn read_unicode(&mut self, quote: u8, missing: u8, value: u32, byte: u8) {
        let Some(digit) = char::from(byte).to_digit(16) else {
            (self.state, self.is_cut) = (State::String(quote), true);
            return self.read(byte);
        };
        let value = value * 16 + digit;
        if missing > 1 {
            self.state = State::Unicode(quote, missing - 1, value);
            return;
        }
        self.state = State::String(quote);
        match u8::try_from(value) {
            Ok(byte) if byte.is_ascii() => self.push_string(byte),
            // Half of a pair is not a character.
            _ => match char::from_u32(value) {
                Some(char) if self.token.len() < MAX_VALUE => entities::push_as_reference(&mut self.token, char),
                _ => self.is_cut = true,
            },
        }
    }

    /// Adds a byte of a string, with escapes resolved.
    fn push_string(&mut self, byte: u8) {
        if byte == b'"' && !self.is_nested_open && !self.is_nested {
            // What comes before the first quote: brackets, and the beginning of a literal.
            let nested = self.nested.get_or_insert_with(|| Box::new(Self::new(true)));
            nested.begin(ScriptForm::Json);
            nested.feed(&self.token);
            self.is_nested_open = true;
        }
        if let Some(nested) = self.nested.as_mut().filter(|_| self.is_nested_open) {
            nested.read(byte);
        }
        if byte == b'&' {
            b"&amp;".iter().for_each(|&byte| self.push_token(byte, MAX_VALUE));
        } else {
            self.push_token(byte, MAX_VALUE);
        }
    }

    fn close_nested(&mut self) {
        if let Some(nested) = self.nested.as_mut().filter(|_| self.is_nested_open) {
            nested.end();
        }
        self.is_nested_open = false;
    }

    fn push_token(&mut self, byte: u8, max: usize) {
        if self.token.len() < max {
            self.token.push(byte);
        } else {
            self.is_cut = true;
        }
    }
}

impl FoundData {
    fn push(&mut self, text: &[u8]) {
        if self.ends.len() >= MAX_DATA_LINKS {
            self.is_capped = true;
            return;
        }
        self.text.extend_from_slice(text);
        self.ends.push(self.text.len());
    }

    fn complete(&mut self) {
        self.complete = self.ends.len();
    }

    fn drop_incomplete(&mut self) {
        self.ends.truncate(self.complete);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, &end)| self.text.get(start..end))
    }
}

/// The bytes of code that begin a literal, a string, a template, a comment or a regular expression.
const STARTS_TOKEN: [bool; 256] = {
    let mut starts = [false; 256];
    let tokens = b"{[\"'`/";
    let mut index = 0;
    while index < tokens.len() {
        starts[tokens[index] as usize] = true;
        index += 1;
    }
    starts
};

/// Whether a byte may be in a name, a number or a word such as `true`.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | b'-') || byte >= 0x80
}

/// Whether a key is named like a link: its last word is one of [`LINK_WORDS`], and no word names something else.
fn is_link_name(name: &[u8]) -> bool {
    let Some(name) = std::str::from_utf8(name).ok().filter(|name| name.len() <= MAX_NAME) else { return false };
    let lower = name.to_ascii_lowercase();
    let Some(word) = LINK_WORDS.iter().find(|word| lower.ends_with(**word)) else { return false };
    let (before, after) = name.split_at(name.len() - word.len());
    let starts_word = !before.ends_with(|last: char| last.is_ascii_alphanumeric())
        || (after.starts_with(|first: char| first.is_ascii_uppercase())
            && !before.ends_with(|last: char| last.is_ascii_uppercase()));
    starts_word && !OTHER_WORDS.iter().any(|word| lower.contains(word))
}

/// Whether a string may be the address of a page: a URL or an absolute path, not a pattern and not a file of a program.
fn is_page_address(text: &[u8]) -> bool {
    let is_pattern = |byte: &u8| *byte <= b' ' || b"{}[]<>*^\\|\"".contains(byte);
    if text.iter().any(is_pattern) {
        return false;
    }
    let Some(path) = path_of(text) else { return false };
    let path = path.split(|&byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
    let first = path.split(|&byte| byte == b'/').next().unwrap_or_default();
    let is_program = first.starts_with(b"_") || PROGRAM_FOLDERS.iter().any(|name| first == name.as_bytes());
    let is_parameter = path.split(|&byte| byte == b'/').any(|segment| segment.starts_with(b":"));
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let extension = file.rsplitn(2, |&byte| byte == b'.').next().filter(|end| end.len() < file.len());
    let is_other = |end: &[u8]| OTHER_EXTENSIONS.iter().any(|name| end.eq_ignore_ascii_case(name.as_bytes()));
    !is_program && !is_parameter && !extension.is_some_and(is_other)
}

/// The path of a URL or of an absolute path, without its first slash; `None` if the text is neither.
fn path_of(text: &[u8]) -> Option<&[u8]> {
    let scheme = [b"https://".as_slice(), b"http://", b"//"].into_iter().find_map(|start| text.strip_prefix(start));
    let Some(rest) = scheme else { return text.strip_prefix(b"/") };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let is_host = host.first().is_some_and(u8::is_ascii_alphanumeric) && (host.contains(&b'.') || host.contains(&b':'));
    is_host.then(|| path.strip_prefix(b"/").unwrap_or(path))
}

#[cfg(test)]
#[path = "data_links_tests.rs"]
mod tests;
