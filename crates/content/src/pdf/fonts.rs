//! The fonts of a PDF file: which characters the codes of a text stand for, and how wide they are.

use std::collections::HashMap;

use super::objects::{Lexer, Objects, Value};

/// The most entries of a table of characters.
const MAX_ENTRIES: usize = 65_536;
/// The width of a character that has none, in thousandths of the size.
const DEFAULT_WIDTH: f64 = 500.0;

/// How texts in a font are read.
#[derive(Debug, Default)]
pub(super) struct Font {
    /// Whether a code has two bytes.
    is_wide: bool,
    characters: HashMap<u32, String>,
    widths: HashMap<u32, f64>,
    default_width: f64,
    /// Whether codes without a character stand for those of windows-1252.
    has_latin: bool,
}

impl Font {
    pub(super) fn of(objects: &Objects<'_>, font: &Value) -> Self {
        let is_wide = objects.entry(font, "Subtype").name() == Some(b"Type0");
        let mut found = Self { is_wide, default_width: DEFAULT_WIDTH, has_latin: !is_wide, ..Self::default() };
        if is_wide {
            let inner = objects.entry(font, "DescendantFonts").array().first().cloned().unwrap_or(Value::Null);
            found.default_width = objects.entry(&inner, "DW").number().unwrap_or(1000.0);
            found.read_wide_widths(objects, objects.entry(&inner, "W"));
        } else {
            let first = objects.entry(font, "FirstChar").number().unwrap_or(0.0) as u32;
            for (index, width) in objects.entry(font, "Widths").array().iter().take(256).enumerate() {
                if let Some(width) = objects.resolve(width).number() {
                    found.widths.insert(first.saturating_add(index as u32), width);
                }
            }
            found.read_encoding(objects, objects.entry(font, "Encoding"));
        }
        let map = match objects.entry_unresolved(font, "ToUnicode") {
            Some(reference) => objects.stream(reference),
            None => None,
        };
        if let Some(map) = map {
            found.read_map(&map);
        }
        // After a refusal nothing more is drawn.
        let entries = found.characters.len() + found.widths.len();
        if !objects.spend(entries * 16) || !objects.hold(entries * 64) {
            return Self::default();
        }
        found
    }

    /// Reads `c [w1 w2]` and `first last w`.
    fn read_wide_widths(&mut self, objects: &Objects<'_>, list: &Value) {
        let values = list.array();
        let mut at = 0;
        while let Some(first) = values.get(at).and_then(|value| objects.resolve(value).number()) {
            match values.get(at + 1).map(|value| objects.resolve(value)) {
                Some(Value::Array(widths)) => {
                    for (index, width) in widths.iter().take(MAX_ENTRIES).enumerate() {
                        if let Some(width) = objects.resolve(width).number().filter(|_| self.widths.len() < MAX_ENTRIES)
                        {
                            self.widths.insert(first as u32 + index as u32, width);
                        }
                    }
                    at += 2;
                }
                Some(Value::Number(last)) => {
                    let width =
                        values.get(at + 2).and_then(|value| objects.resolve(value).number()).unwrap_or(DEFAULT_WIDTH);
                    for code in first as u32..=(*last as u32).min(0xFFFF) {
                        if self.widths.len() >= MAX_ENTRIES {
                            break;
                        }
                        self.widths.insert(code, width);
                    }
                    at += 3;
                }
                _ => break,
            }
        }
    }

    /// Reads the names of characters that differ from the base encoding.
    fn read_encoding(&mut self, objects: &Objects<'_>, encoding: &Value) {
        let mut base = encoding.name();
        base = base.or_else(|| objects.entry(encoding, "BaseEncoding").name());
        if base == Some(b"MacRomanEncoding") {
            for code in 128..=255u8 {
                let text = encoding_rs::MACINTOSH.decode_without_bom_handling(&[code]).0.into_owned();
                self.characters.insert(u32::from(code), text);
            }
        }
        let mut code = 0;
        for value in objects.entry(encoding, "Differences").array().iter().take(1024) {
            match objects.resolve(value) {
                Value::Number(number) => code = *number as u32,
                Value::Name(name) => {
                    if let Some(text) = character_named(name) {
                        self.characters.insert(code, text);
                    }
                    code = code.saturating_add(1);
                }
                _ => {}
            }
        }
    }

    /// Reads a table of the characters of codes.
    fn read_map(&mut self, map: &[u8]) {
        let mut lexer = Lexer::new(map, 0);
        let mut texts: Vec<Value> = Vec::new();
        let mut code_bytes = None;
        while let Some(value) = lexer.next(false) {
            let Value::Word(word) = &value else {
                if texts.len() < MAX_ENTRIES {
                    texts.push(value);
                }
                continue;
            };
            match &word[..] {
                b"endcodespacerange" => {
                    if let Some(Value::Text(first)) = texts.first() {
                        code_bytes = code_bytes.or(Some(first.len()));
                    }
                }
                b"endbfchar" => {
                    for pair in texts.chunks(2) {
                        if let [Value::Text(code), Value::Text(text)] = pair {
                            self.insert(code_of(code), utf16(text));
                        }
                    }
                }
                b"endbfrange" => {
                    for range in texts.chunks(3) {
                        self.insert_range(range);
                    }
                }
                _ => {}
            }
            texts.clear();
        }
        if code_bytes == Some(1) {
            self.is_wide = false;
        }
    }

    fn insert(&mut self, code: u32, text: String) {
        if self.characters.len() < MAX_ENTRIES {
            self.characters.insert(code, text);
        }
    }

    fn insert_range(&mut self, range: &[Value]) {
        let [Value::Text(first), Value::Text(last), target] = range else { return };
        let (first, last) = (code_of(first), code_of(last).min(0xFFFF));
        match target {
            Value::Text(text) => {
                let start = utf16(text);
                let Some(end) = start.chars().next_back() else { return };
                let before = start.get(..start.len() - end.len_utf8()).unwrap_or_default().to_owned();
                for (offset, code) in (first..=last).enumerate() {
                    let Some(next) = char::from_u32(u32::from(end).saturating_add(offset as u32)) else { break };
                    self.insert(code, format!("{before}{next}"));
                }
            }
            Value::Array(texts) => {
                for (code, text) in (first..=last).zip(texts) {
                    if let Value::Text(text) = text {
                        self.insert(code, utf16(text));
                    }
                }
            }
            _ => {}
        }
    }

    /// Appends the characters of a text. Returns how wide they are, in thousandths of the size, the number of
    /// characters, and the number of spaces of one byte.
    pub(super) fn decode(&self, text: &[u8], out: &mut String) -> (f64, usize, usize) {
        let (mut width, mut count, mut spaces) = (0.0, 0, 0);
        for bytes in text.chunks(if self.is_wide { 2 } else { 1 }) {
            let code = code_of(bytes);
            width += self.widths.get(&code).copied().unwrap_or(self.default_width);
            count += 1;
            spaces += usize::from(!self.is_wide && code == 32);
            match self.characters.get(&code) {
                Some(text) => text.chars().for_each(|next| push_letters(out, next)),
                None if self.has_latin => out.push_str(&encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes).0),
                None => {}
            }
        }
        (width, count, spaces)
    }
}

/// Appends a character. A ligature is written as its letters.
fn push_letters(out: &mut String, character: char) {
    match character {
        '\u{fb00}' => out.push_str("ff"),
        '\u{fb01}' => out.push_str("fi"),
        '\u{fb02}' => out.push_str("fl"),
        '\u{fb03}' => out.push_str("ffi"),
        '\u{fb04}' => out.push_str("ffl"),
        '\u{fb05}' | '\u{fb06}' => out.push_str("st"),
        other => out.push(other),
    }
}

fn code_of(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |code, &byte| (code << 8) | u32::from(byte))
}

/// A text of a table of characters: UTF-16.
pub(super) fn utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks(2).map(code_of).map(|unit| unit as u16);
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).filter(|&c| c != '\0').collect()
}

/// The character with a name of the Adobe Glyph List, as far as Latin texts need it.
fn character_named(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    let name = name.split('.').next().filter(|name| !name.is_empty())?;
    if name.chars().count() == 1 {
        return Some(name.to_owned());
    }
    let hexadecimal = name.strip_prefix("uni").or_else(|| name.strip_prefix('u')).filter(|digits| digits.len() >= 4);
    if let Some(character) = hexadecimal.and_then(|digits| u32::from_str_radix(digits.get(..4)?, 16).ok()) {
        return char::from_u32(character).map(String::from);
    }
    let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    if let Some(text) = found {
        return Some(text.to_owned());
    }
    // An accented letter: `eacute`.
    let letter = name.chars().next()?;
    let accents = ACCENTED.iter().find(|(accent, ..)| name.get(1..) == Some(*accent))?;
    let at = accents.1.chars().position(|plain| plain == letter)?;
    accents.2.chars().nth(at).map(String::from)
}

/// Accents, the letters that have them, and these letters with them.
const ACCENTED: &[(&str, &str, &str)] = &[
    ("acute", "aeiouyAEIOUYcnszCNSZ", "áéíóúýÁÉÍÓÚÝćńśźĆŃŚŹ"),
    ("grave", "aeiouAEIOU", "àèìòùÀÈÌÒÙ"),
    ("circumflex", "aeiouAEIOU", "âêîôûÂÊÎÔÛ"),
    ("dieresis", "aeiouyAEIOU", "äëïöüÿÄËÏÖÜ"),
    ("tilde", "anoANO", "ãñõÃÑÕ"),
    ("ring", "auAU", "åůÅŮ"),
    ("cedilla", "csCS", "çşÇŞ"),
    ("caron", "cdenrstzCDENRSTZ", "čďěňřšťžČĎĚŇŘŠŤŽ"),
    ("ogonek", "aeAE", "ąęĄĘ"),
    ("slash", "oO", "øØ"),
];

#[rustfmt::skip]
const NAMES: &[(&str, &str)] = &[
    ("space", " "), ("exclam", "!"), ("quotedbl", "\""), ("numbersign", "#"), ("dollar", "$"), ("percent", "%"),
    ("ampersand", "&"), ("quotesingle", "'"), ("quoteright", "\u{2019}"), ("quoteleft", "\u{2018}"), ("parenleft", "("),
    ("parenright", ")"), ("asterisk", "*"), ("plus", "+"), ("comma", ","), ("hyphen", "-"), ("period", "."),
    ("slash", "/"), ("zero", "0"), ("one", "1"), ("two", "2"), ("three", "3"), ("four", "4"), ("five", "5"),
    ("six", "6"), ("seven", "7"), ("eight", "8"), ("nine", "9"), ("colon", ":"), ("semicolon", ";"), ("less", "<"),
    ("equal", "="), ("greater", ">"), ("question", "?"), ("at", "@"), ("bracketleft", "["), ("backslash", "\\"),
    ("bracketright", "]"), ("asciicircum", "^"), ("underscore", "_"), ("grave", "`"), ("braceleft", "{"), ("bar", "|"),
    ("braceright", "}"), ("asciitilde", "~"), ("endash", "\u{2013}"), ("emdash", "\u{2014}"), ("bullet", "\u{2022}"),
    ("quotedblleft", "\u{201c}"), ("quotedblright", "\u{201d}"), ("quotesinglbase", "\u{201a}"),
    ("quotedblbase", "\u{201e}"), ("ellipsis", "\u{2026}"), ("dagger", "\u{2020}"), ("daggerdbl", "\u{2021}"),
    ("fi", "fi"), ("fl", "fl"), ("ff", "ff"), ("ffi", "ffi"), ("ffl", "ffl"), ("germandbls", "\u{df}"), ("ae", "\u{e6}"),
    ("AE", "\u{c6}"), ("oe", "\u{153}"), ("OE", "\u{152}"), ("dotlessi", "\u{131}"), ("lslash", "\u{142}"),
    ("Lslash", "\u{141}"), ("copyright", "\u{a9}"), ("registered", "\u{ae}"), ("trademark", "\u{2122}"),
    ("section", "\u{a7}"), ("paragraph", "\u{b6}"), ("degree", "\u{b0}"), ("plusminus", "\u{b1}"), ("multiply", "\u{d7}"),
    ("divide", "\u{f7}"), ("minus", "\u{2212}"), ("mu", "\u{b5}"), ("Euro", "\u{20ac}"), ("sterling", "\u{a3}"),
    ("yen", "\u{a5}"), ("cent", "\u{a2}"), ("guillemotleft", "\u{ab}"), ("guillemotright", "\u{bb}"),
    ("guilsinglleft", "\u{2039}"), ("guilsinglright", "\u{203a}"), ("periodcentered", "\u{b7}"),
    ("questiondown", "\u{bf}"), ("exclamdown", "\u{a1}"), ("onehalf", "\u{bd}"), ("eth", "\u{f0}"), ("thorn", "\u{fe}"),
];
