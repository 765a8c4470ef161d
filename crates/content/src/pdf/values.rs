//! The values of a PDF file, and [`Lexer`], which reads them from bytes.
//!
//! Invariants: nesting is limited; each value is charged before it is kept, and after a refusal there are no more values.

use std::collections::HashMap;

use argiope_core::page::page_budget::{PageBudget, VISIT};

/// How deep arrays and dictionaries may be nested.
const MAX_DEPTH: usize = 32;
/// The maximum number of values within one value.
const MAX_VALUES: usize = 100_000;
/// The steps for each byte of a value.
const STEPS_PER_BYTE: usize = 2;
/// The memory of a value in an array or a dictionary, which grow by doubling.
const VALUE_MEMORY: usize = 2 * size_of::<Value>();
/// What an entry of a dictionary needs beside its value.
const KEY_MEMORY: usize = 3 * size_of::<Vec<u8>>();

/// The entries of a dictionary. The last of several with the same key counts.
pub(super) type Dictionary = HashMap<Vec<u8>, Value>;

/// A value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Value {
    /// Null, and everything that cannot be read.
    #[default]
    Null,
    Number(f64),
    Name(Vec<u8>),
    Text(Vec<u8>),
    Array(Vec<Value>),
    Dictionary(Dictionary),
    /// The number of another object.
    Reference(u32),
    /// A boolean or an operator.
    Word(Vec<u8>),
}

impl Value {
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) if number.is_finite() => Some(*number),
            _ => None,
        }
    }

    pub(super) fn name(&self) -> Option<&[u8]> {
        match self {
            Self::Name(name) => Some(name),
            _ => None,
        }
    }

    /// The entry of a dictionary, as it is written.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Dictionary(entries) => entries.get(key.as_bytes()),
            _ => None,
        }
    }

    pub(super) fn array(&self) -> &[Value] {
        match self {
            Self::Array(values) => values,
            _ => &[],
        }
    }
}

/// Reads values from bytes.
pub(super) struct Lexer<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    /// Where the bytes end that are charged.
    charged: usize,
    /// The number of values within the current one.
    values: usize,
    /// The memory that is charged for values.
    held: usize,
    budget: &'a PageBudget,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize, budget: &'a PageBudget) -> Self {
        Self { bytes, at, charged: at, values: 0, held: 0, budget }
    }

    /// The memory that is charged for the values so far.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Gives back the memory of the values so far, which are no longer used.
    pub(super) fn free(&mut self) {
        self.budget.release(self.held);
        self.held = 0;
    }

    fn hold(&mut self, bytes: usize) -> bool {
        let fits = self.budget.hold(bytes);
        self.held += if fits { bytes } else { 0 };
        fits
    }

    /// Charges the bytes that were read since the last charge.
    fn charge(&mut self) -> bool {
        let read = self.at.saturating_sub(self.charged);
        self.charged = self.at;
        self.budget.spend(read * STEPS_PER_BYTE + 2 * VISIT)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn skip_space(&mut self) {
        while let Some(byte) = self.peek() {
            if byte == b'%' {
                while self.peek().is_some_and(|byte| byte != b'\n' && byte != b'\r') {
                    self.at += 1;
                }
            } else if is_space(byte) {
                self.at += 1;
            } else {
                break;
            }
        }
    }

    /// The next value; `None` at the end, or if there was a refusal. In a content stream, `12 0 R` is no reference.
    pub(super) fn next(&mut self, has_references: bool) -> Option<Value> {
        self.values = 0;
        self.charged = self.at;
        let value = self.value(0, has_references);
        let is_charged = self.charge();
        value.filter(|_| is_charged)
    }

    fn value(&mut self, depth: usize, has_references: bool) -> Option<Value> {
        self.skip_space();
        let first = self.peek()?;
        self.values += 1;
        if (depth > 0 && self.values > MAX_VALUES) || !self.charge() || !self.hold(VALUE_MEMORY) {
            return None;
        }
        match first {
            b'/' => {
                self.at += 1;
                let name = self.name();
                self.hold(name.len()).then_some(Value::Name(name))
            }
            b'(' => {
                let text = self.literal();
                self.hold(text.capacity()).then_some(Value::Text(text))
            }
            b'<' if self.bytes.get(self.at + 1) == Some(&b'<') => {
                self.at += 2;
                Some(Value::Dictionary(self.dictionary(depth, has_references)))
            }
            b'<' => {
                let text = self.hexadecimal();
                self.hold(text.capacity()).then_some(Value::Text(text))
            }
            b'[' => {
                self.at += 1;
                let mut values = Vec::new();
                if depth >= MAX_DEPTH {
                    return Some(Value::Array(values));
                }
                loop {
                    self.skip_space();
                    match self.peek() {
                        None => break,
                        Some(b']') => {
                            self.at += 1;
                            break;
                        }
                        Some(_) => values.push(self.value(depth + 1, has_references)?),
                    }
                }
                Some(Value::Array(values))
            }
            b'0'..=b'9' | b'+' | b'-' | b'.' => {
                let number = self.number_or_word();
                if let (true, Value::Number(number)) = (has_references, &number)
                    && *number >= 0.0
                    && number.fract() == 0.0
                    && let Some(end) = self.end_of_reference()
                {
                    self.at = end;
                    return Some(Value::Reference(*number as u32));
                }
                Some(number)
            }
            b')' | b'>' | b']' | b'{' | b'}' => {
                self.at += 1;
                Some(Value::Null)
            }
            _ => {
                let word = self.word();
                self.hold(word.len()).then_some(Value::Word(word))
            }
        }
    }

    /// Where ` 0 R` ends, if it follows.
    fn end_of_reference(&self) -> Option<usize> {
        let mut ahead = Lexer::new(self.bytes, self.at, self.budget);
        ahead.skip_space();
        let digits = ahead.bytes.get(ahead.at..)?.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
        ahead.at += digits;
        ahead.skip_space();
        let is_end = |byte: Option<&u8>| byte.is_none_or(|&byte| is_space(byte) || is_delimiter(byte));
        let is_reference = digits > 0 && ahead.peek() == Some(b'R') && is_end(self.bytes.get(ahead.at + 1));
        is_reference.then_some(ahead.at + 1)
    }

    fn dictionary(&mut self, depth: usize, has_references: bool) -> Dictionary {
        let mut entries = Dictionary::new();
        if depth >= MAX_DEPTH {
            return entries;
        }
        loop {
            self.skip_space();
            match self.peek() {
                None => break,
                Some(b'>') => {
                    self.at += if self.bytes.get(self.at + 1) == Some(&b'>') { 2 } else { 1 };
                    break;
                }
                Some(b'/') => {
                    self.at += 1;
                    let key = self.name();
                    if !self.hold(key.len() + KEY_MEMORY) {
                        break;
                    }
                    let Some(value) = self.value(depth + 1, has_references) else { break };
                    entries.insert(key, value);
                }
                Some(_) => {
                    if self.value(depth + 1, has_references).is_none() {
                        break;
                    }
                }
            }
        }
        entries
    }

    fn name(&mut self) -> Vec<u8> {
        let mut name = Vec::new();
        while let Some(byte) = self.peek().filter(|&byte| !is_space(byte) && !is_delimiter(byte)) {
            self.at += 1;
            let code = self.bytes.get(self.at..self.at + 2).and_then(hex_pair).filter(|_| byte == b'#');
            match code {
                Some(code) => {
                    self.at += 2;
                    name.push(code);
                }
                None => name.push(byte),
            }
        }
        name
    }

    fn word(&mut self) -> Vec<u8> {
        let start = self.at;
        self.skip_word();
        self.bytes.get(start..self.at).unwrap_or_default().to_vec()
    }

    fn skip_word(&mut self) {
        while self.peek().is_some_and(|byte| !is_space(byte) && !is_delimiter(byte)) {
            self.at += 1;
        }
    }

    fn number_or_word(&mut self) -> Value {
        let start = self.at;
        self.skip_word();
        let word = self.bytes.get(start..self.at).unwrap_or_default();
        let parsed = std::str::from_utf8(word).ok().and_then(|text| text.parse::<f64>().ok());
        parsed.map_or_else(|| Value::Word(word.to_vec()), Value::Number)
    }

    /// A text in parentheses.
    fn literal(&mut self) -> Vec<u8> {
        self.at += 1;
        let (mut text, mut depth) = (Vec::new(), 1);
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'(' => depth += 1,
                b')' => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                b'\\' => {
                    let Some(escaped) = self.peek() else { break };
                    self.at += 1;
                    match escaped {
                        b'n' => text.push(b'\n'),
                        b'r' => text.push(b'\r'),
                        b't' => text.push(b'\t'),
                        b'b' => text.push(8),
                        b'f' => text.push(12),
                        b'\r' => self.at += usize::from(self.peek() == Some(b'\n')),
                        b'\n' => {}
                        b'0'..=b'7' => {
                            let mut code = u32::from(escaped - b'0');
                            for _ in 0..2 {
                                let Some(digit) = self.peek().filter(|digit| matches!(digit, b'0'..=b'7')) else {
                                    break;
                                };
                                code = code * 8 + u32::from(digit - b'0');
                                self.at += 1;
                            }
                            text.push(code as u8);
                        }
                        other => text.push(other),
                    }
                    continue;
                }
                _ => {}
            }
            text.push(byte);
        }
        text
    }

    /// A text in hexadecimal digits.
    pub(super) fn hexadecimal(&mut self) -> Vec<u8> {
        self.at += 1;
        let (mut text, mut half) = (Vec::new(), None);
        while let Some(byte) = self.peek() {
            self.at += 1;
            if byte == b'>' {
                break;
            }
            let Some(digit) = char::from(byte).to_digit(16) else { continue };
            match half.take() {
                None => half = Some(digit),
                Some(high) => text.push((high * 16 + digit) as u8),
            }
        }
        text.extend(half.map(|high| (high * 16) as u8));
        text
    }
}

fn hex_pair(pair: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let (high, low) = (pair.first().and_then(digit)?, pair.get(1).and_then(digit)?);
    Some((high * 16 + low) as u8)
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, 0 | b'\t' | b'\n' | 12 | b'\r' | b' ')
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%')
}
