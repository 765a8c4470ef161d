//! The fonts of a PDF file: which characters the codes of a text stand for, and how wide they are.

use argiope_core::page::page_budget::{PageBudget, VISIT};

use super::objects::Objects;
use super::values::{Lexer, Value};

/// The most entries of a table.
const MAX_ENTRIES: usize = 65_536;
/// The most bytes of the text of a code.
const MAX_TARGET: usize = 32;
/// The maximum number of ranges that are looked at for a code. Only ranges that overlap need more than one.
const MAX_OVERLAPS: usize = 4;
/// The width of a character that has none, in thousandths of the size.
const DEFAULT_WIDTH: f64 = 500.0;

/// Values of ranges of codes. Of several ranges with a code the one that begins last counts, then the last one.
#[derive(Debug)]
struct Table<T> {
    ranges: Vec<(u32, u32, T)>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { ranges: Vec::new() }
    }
}

impl<T> Table<T> {
    /// Adds a range, if the budget allows. `memory` is what the value needs.
    fn add(&mut self, (first, last): (u32, u32), value: T, memory: usize, budget: &PageBudget) -> bool {
        let fits = self.ranges.len() < MAX_ENTRIES
            && budget.spend(2 * VISIT)
            && budget.hold(memory + 2 * size_of::<(u32, u32, T)>());
        if fits {
            self.ranges.push((first, last, value));
        }
        fits
    }

    /// Makes the table ready for use.
    fn sort(&mut self, budget: &PageBudget) {
        let count = self.ranges.len();
        if !self.ranges.is_sorted_by_key(|range| range.0) && budget.spend(count * VISIT * count.ilog2() as usize) {
            self.ranges.sort_by_key(|range| range.0);
        }
    }

    /// The value of a code, and how far the code is from the beginning of its range.
    fn get(&self, code: u32) -> Option<(&T, u32)> {
        let end = self.ranges.partition_point(|range| range.0 <= code);
        let nearest = self.ranges.get(..end)?.iter().rev().take(MAX_OVERLAPS);
        nearest.filter(|range| code <= range.1).map(|(first, _, value)| (value, code - first)).next()
    }
}

/// How texts in a font are read.
#[derive(Debug, Default)]
pub(super) struct Font {
    /// Whether a code has two bytes.
    is_wide: bool,
    /// The text of the first code of a range. Those of the others differ in their last character.
    characters: Table<String>,
    widths: Table<f64>,
    default_width: f64,
    /// Whether codes without a character stand for those of windows-1252.
    has_latin: bool,
}

/// What a text of a page says.
#[derive(Default)]
pub(super) struct Decoded {
    pub(super) text: String,
    /// In thousandths of the size of the font.
    pub(super) width: f64,
    /// The number of characters, and of spaces of one byte.
    pub(super) count: usize,
    pub(super) spaces: usize,
    /// The memory that is charged for the text.
    pub(super) held: usize,
}

impl Font {
    pub(super) fn of<'a>(objects: &'a Objects<'_>, font: &'a Value) -> Self {
        let is_wide = objects.entry(font, "Subtype").name() == Some(b"Type0");
        let mut found = Self { is_wide, default_width: DEFAULT_WIDTH, has_latin: !is_wide, ..Self::default() };
        if is_wide {
            if let Some(inner) = objects.entry(font, "DescendantFonts").array().first() {
                found.default_width = objects.entry(inner, "DW").number().unwrap_or(1000.0);
                if let Some(list) = objects.entry_unresolved(inner, "W") {
                    objects.with(list, |list| found.read_wide_widths(objects, list));
                }
            }
        } else {
            let first = objects.entry(font, "FirstChar").number().unwrap_or(0.0) as u32;
            if let Some(list) = objects.entry_unresolved(font, "Widths") {
                objects.with(list, |list| found.add_widths(objects, first, list));
            }
            found.read_encoding(objects, objects.entry(font, "Encoding"));
        }
        if let Some(map) = objects.entry_unresolved(font, "ToUnicode").and_then(|map| objects.stream(map)) {
            found.read_map(&map, objects.budget);
        }
        found.characters.sort(objects.budget);
        found.widths.sort(objects.budget);
        found
    }

    /// Reads `c [w1 w2]` and `first last w`.
    fn read_wide_widths(&mut self, objects: &Objects<'_>, list: &Value) {
        let values = list.array();
        let mut at = 0;
        while let Some(first) = values.get(at).and_then(|value| objects.resolve(value).number()) {
            let first = first as u32;
            match values.get(at + 1).map(|value| objects.resolve(value)) {
                Some(widths @ Value::Array(_)) => {
                    self.add_widths(objects, first, widths);
                    at += 2;
                }
                Some(Value::Number(last)) => {
                    let width =
                        values.get(at + 2).and_then(|value| objects.resolve(value).number()).unwrap_or(DEFAULT_WIDTH);
                    if !self.widths.add((first, *last as u32), width, 0, objects.budget) {
                        break;
                    }
                    at += 3;
                }
                _ => break,
            }
        }
    }

    /// Adds the widths of codes in a row.
    fn add_widths(&mut self, objects: &Objects<'_>, first: u32, widths: &Value) {
        for (code, width) in (first..=u32::MAX).zip(widths.array()) {
            if let Some(width) = objects.resolve(width).number()
                && !self.widths.add((code, code), width, 0, objects.budget)
            {
                break;
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
                self.insert((code.into(), code.into()), text, objects.budget);
            }
        }
        let mut code = 0;
        for value in objects.entry(encoding, "Differences").array().iter().take(1024) {
            match objects.resolve(value) {
                Value::Number(number) => code = *number as u32,
                Value::Name(name) => {
                    // The tables of names are searched.
                    if !objects.spend(NAMES.len()) {
                        break;
                    }
                    if let Some(text) = character_named(name) {
                        self.insert((code, code), text, objects.budget);
                    }
                    code = code.saturating_add(1);
                }
                _ => {}
            }
        }
    }

    /// Reads a table of the characters of codes.
    fn read_map(&mut self, map: &[u8], budget: &PageBudget) {
        let mut lexer = Lexer::new(map, 0, budget);
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
                            let code = code_of(code);
                            self.insert((code, code), target(text), budget);
                        }
                    }
                }
                b"endbfrange" => {
                    for range in texts.chunks(3) {
                        self.insert_range(range, budget);
                    }
                }
                _ => {}
            }
            texts.clear();
            lexer.free();
        }
        lexer.free();
        if code_bytes == Some(1) {
            self.is_wide = false;
        }
    }

    fn insert(&mut self, range: (u32, u32), text: String, budget: &PageBudget) -> bool {
        let memory = text.capacity();
        self.characters.add(range, text, memory, budget)
    }

    fn insert_range(&mut self, range: &[Value], budget: &PageBudget) {
        let [Value::Text(first), Value::Text(last), targets] = range else { return };
        let (first, last) = (code_of(first), code_of(last));
        match targets {
            Value::Text(text) => {
                self.insert((first, last), target(text), budget);
            }
            Value::Array(texts) => {
                for (code, text) in (first..=last).zip(texts) {
                    if let Value::Text(text) = text
                        && !self.insert((code, code), target(text), budget)
                    {
                        break;
                    }
                }
            }
            _ => {}
        }
    }

    /// Reads the characters of a text. `None`: the work or the memory is refused.
    pub(super) fn decode(&self, text: &[u8], budget: &PageBudget) -> Option<Decoded> {
        let mut found = Decoded::default();
        for bytes in text.chunks(if self.is_wide { 2 } else { 1 }) {
            let code = code_of(bytes);
            found.width += self.widths.get(code).map_or(self.default_width, |(width, _)| *width);
            found.count += 1;
            found.spaces += usize::from(!self.is_wide && code == 32);
            let character = self.characters.get(code);
            // A text grows by doubling, and one byte of windows-1252 has at most three.
            let memory = 2 * character.map_or(0, |(first, _)| first.len()).max(3);
            if !budget.spend(2 * VISIT + memory) || !budget.hold(memory) {
                budget.release(found.held);
                return None;
            }
            found.held += memory;
            match character {
                Some((first, offset)) => push_shifted(&mut found.text, first, offset),
                None if self.has_latin => {
                    found.text.push_str(&encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes).0);
                }
                None => {}
            }
        }
        Some(found)
    }
}

/// Appends a text whose last character is moved by an offset.
fn push_shifted(out: &mut String, text: &str, offset: u32) {
    let mut rest = text.chars();
    let last = rest.next_back().and_then(|last| char::from_u32(u32::from(last).saturating_add(offset)));
    rest.chain(last).for_each(|next| push_letters(out, next));
}

/// The text of a code in a table of characters.
fn target(text: &[u8]) -> String {
    utf16(text.get(..MAX_TARGET).unwrap_or(text))
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
