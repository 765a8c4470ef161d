//! The objects of a PDF file: values, streams and where they are.
//!
//! The file is searched for objects from its beginning to its end. The table of positions at its end is not read, so a
//! damaged or a lying one has no effect; a later object with the same number replaces an earlier one, as in a file that
//! was changed by appending. Invariant: nesting, the number of objects and the bytes of decoded streams are limited.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;

use argiope_core::page::page_budget::PageBudget;
use flate2::read::ZlibDecoder;

/// How deep arrays and dictionaries may be nested.
const MAX_DEPTH: usize = 32;
/// The maximum number of values within one value.
const MAX_VALUES: usize = 100_000;
/// The maximum number of objects of a file.
const MAX_OBJECTS: usize = 200_000;
/// The most bytes of one decoded stream.
const MAX_STREAM: usize = 16 << 20;
/// How many filters of a stream are applied.
const MAX_FILTERS: usize = 4;
/// How many references in a row are followed.
const MAX_REFERENCES: usize = 8;

/// The entries of a dictionary. The last of several with the same key counts.
pub(super) type Dictionary = HashMap<Vec<u8>, Value>;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Null, and everything that cannot be read.
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
    /// The number of values so far.
    values: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, values: 0 }
    }

    /// The memory of the last value, roughly.
    fn memory(&self) -> usize {
        self.values * 2 * size_of::<Value>()
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
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

    /// The next value; `None` at the end. In a content stream, `12 0 R` is no reference.
    pub(super) fn next(&mut self, has_references: bool) -> Option<Value> {
        self.values = 0;
        self.value(0, has_references)
    }

    fn value(&mut self, depth: usize, has_references: bool) -> Option<Value> {
        self.skip_space();
        let first = self.peek()?;
        self.values += 1;
        if depth > 0 && self.values > MAX_VALUES {
            return None;
        }
        match first {
            b'/' => {
                self.at += 1;
                Some(Value::Name(self.name()))
            }
            b'(' => Some(Value::Text(self.literal())),
            b'<' if self.bytes.get(self.at + 1) == Some(&b'<') => {
                self.at += 2;
                Some(Value::Dictionary(self.dictionary(depth, has_references)))
            }
            b'<' => Some(Value::Text(self.hexadecimal())),
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
            _ => Some(Value::Word(self.word())),
        }
    }

    /// Where ` 0 R` ends, if it follows.
    fn end_of_reference(&self) -> Option<usize> {
        let mut ahead = Lexer::new(self.bytes, self.at);
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
        while self.peek().is_some_and(|byte| !is_space(byte) && !is_delimiter(byte)) {
            self.at += 1;
        }
        self.bytes.get(start..self.at).unwrap_or_default().to_vec()
    }

    fn number_or_word(&mut self) -> Value {
        let word = self.word();
        let parsed = std::str::from_utf8(&word).ok().and_then(|text| text.parse::<f64>().ok());
        parsed.map_or(Value::Word(word), Value::Number)
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
    fn hexadecimal(&mut self) -> Vec<u8> {
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

fn is_space(byte: u8) -> bool {
    matches!(byte, 0 | b'\t' | b'\n' | 12 | b'\r' | b' ')
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%')
}

/// An object: its value, and the bytes of its stream if it has one.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) value: Value,
    stream: Option<Range<usize>>,
}

/// The objects of a file.
pub(super) struct Objects<'a> {
    file: &'a [u8],
    objects: HashMap<u32, Object>,
    /// The dictionaries that end the file, or each of its parts.
    pub(super) trailers: Vec<Dictionary>,
    budget: &'a PageBudget,
}

impl<'a> Objects<'a> {
    /// Finds the objects of a file.
    pub(super) fn of(file: &'a [u8], budget: &'a PageBudget) -> Self {
        let mut found = Self { file, objects: HashMap::new(), trailers: Vec::new(), budget };
        let mut at = 0;
        while let Some(next) = memchr::memmem::find(file.get(at..).unwrap_or_default(), b"obj").map(|next| at + next) {
            if !budget.spend(next - at + 8) || found.objects.len() >= MAX_OBJECTS {
                break;
            }
            at = next + 3;
            let Some(number) = number_before(file, next) else { continue };
            at = found.read(number, at).max(at);
        }
        found.find_trailers();
        let mut packed: Vec<u32> =
            found.objects.iter().filter(|(_, object)| is_type(object, b"ObjStm")).map(|(id, _)| *id).collect();
        packed.sort_unstable();
        for number in packed {
            found.unpack(number);
        }
        found
    }

    /// Reads the object after `obj`. Returns where it ends.
    fn read(&mut self, number: u32, at: usize) -> usize {
        let mut lexer = Lexer::new(self.file, at);
        let value = lexer.next(true);
        let mut end = lexer.at;
        // What cannot be read has cost as much.
        let is_charged = self.budget.spend(end.saturating_sub(at) * 4 + lexer.values * 8);
        let Some(value) = value else { return at };
        if !is_charged || !self.budget.hold(end.saturating_sub(at) + lexer.memory()) {
            return end;
        }
        let mut stream = None;
        if let Value::Dictionary(entries) = &value {
            lexer.skip_space();
            if self.file.get(lexer.at..).is_some_and(|rest| rest.starts_with(b"stream")) {
                let mut start = lexer.at + 6;
                start += usize::from(self.file.get(start) == Some(&b'\r'));
                start += usize::from(self.file.get(start) == Some(&b'\n'));
                let declared = entries.get(&b"Length"[..]).and_then(Value::number).map(|length| length as usize);
                let is_end = |end: &usize| {
                    self.file.get(*end..).is_some_and(|rest| {
                        rest.iter().take(20).skip_while(|byte| is_space(**byte)).take(9).eq(b"endstream")
                    })
                };
                let declared = declared.and_then(|length| start.checked_add(length)).filter(is_end);
                // The length may be another object, or wrong.
                let search =
                    || memchr::memmem::find(self.file.get(start..)?, b"endstream").map(|length| start + length);
                let stop = declared.or_else(search).unwrap_or(self.file.len());
                if !self.budget.spend(stop.saturating_sub(start)) {
                    return self.file.len();
                }
                stream = Some(start.min(stop)..stop);
                end = stop;
            }
        }
        if is_named(&value, b"Type", b"XRef")
            && let Value::Dictionary(entries) = &value
        {
            self.trailers.push(entries.clone());
        }
        self.objects.insert(number, Object { value, stream });
        end
    }

    fn find_trailers(&mut self) {
        let finder = memchr::memmem::Finder::new(b"trailer");
        for at in finder.find_iter(self.file).take(64) {
            let mut lexer = Lexer::new(self.file, at + 7);
            let value = lexer.next(true);
            if !self.budget.spend(lexer.values * 8) || !self.budget.hold(lexer.memory()) {
                break;
            }
            if let Some(Value::Dictionary(entries)) = value {
                self.trailers.push(entries);
            }
        }
    }

    /// Adds the objects within a stream of objects.
    fn unpack(&mut self, number: u32) {
        let Some(object) = self.objects.get(&number).cloned() else { return };
        let Value::Dictionary(entries) = &object.value else { return };
        let entry = |name: &[u8]| entries.get(name).and_then(Value::number).map(|number| number as usize);
        let (Some(count), Some(first)) = (entry(b"N"), entry(b"First")) else { return };
        let bytes = self.decoded(&object);
        let mut header = Lexer::new(&bytes, 0);
        let mut places = Vec::new();
        for _ in 0..count.min(MAX_OBJECTS) {
            let (Some(Value::Number(id)), Some(Value::Number(at))) = (header.next(false), header.next(false)) else {
                break;
            };
            places.push((id as u32, at as usize));
        }
        for (id, at) in places {
            let Some(start) = first.checked_add(at).filter(|_| self.objects.len() < MAX_OBJECTS) else { break };
            let mut lexer = Lexer::new(&bytes, start);
            let value = lexer.next(true);
            let length = lexer.at.saturating_sub(start);
            let is_charged = self.budget.spend(length * 4 + lexer.values * 8);
            let Some(value) = value.filter(|_| is_charged) else { break };
            if !self.budget.hold(length + lexer.memory()) {
                break;
            }
            self.objects.entry(id).or_insert(Object { value, stream: None });
        }
    }

    /// The value that a value stands for, after references.
    pub(super) fn resolve<'s>(&'s self, value: &'s Value) -> &'s Value {
        let mut value = value;
        for _ in 0..MAX_REFERENCES {
            let Value::Reference(number) = value else { return value };
            let Some(object) = self.objects.get(number).filter(|_| self.budget.visit()) else { return &Value::Null };
            value = &object.value;
        }
        &Value::Null
    }

    /// The entry of a dictionary, after references.
    pub(super) fn entry<'s>(&'s self, value: &'s Value, name: &str) -> &'s Value {
        match self.resolve(value) {
            Value::Dictionary(entries) => {
                entries.get(name.as_bytes()).map_or(&Value::Null, |value| self.resolve(value))
            }
            _ => &Value::Null,
        }
    }

    /// The entry of a dictionary as it is written.
    pub(super) fn entry_unresolved<'s>(&'s self, value: &'s Value, name: &str) -> Option<&'s Value> {
        match self.resolve(value) {
            Value::Dictionary(entries) => entries.get(name.as_bytes()),
            _ => None,
        }
    }

    /// Charges work. False: it must not be done.
    pub(super) fn spend(&self, steps: usize) -> bool {
        self.budget.spend(steps)
    }

    /// Charges memory. False: it must not be allocated.
    pub(super) fn hold(&self, bytes: usize) -> bool {
        self.budget.hold(bytes)
    }

    /// The numbers of all objects of a type, for files whose tree of pages is damaged.
    pub(super) fn numbers_of_type(&self, name: &[u8]) -> Vec<u32> {
        let mut numbers: Vec<u32> =
            self.objects.iter().filter(|(_, object)| is_type(object, name)).map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The decoded stream that a value refers to.
    pub(super) fn stream(&self, value: &Value) -> Option<Vec<u8>> {
        let mut value = value;
        for _ in 0..MAX_REFERENCES {
            let Value::Reference(number) = value else { return None };
            let object = self.objects.get(number)?;
            if object.stream.is_some() {
                return Some(self.decoded(object));
            }
            value = &object.value;
        }
        None
    }

    /// The bytes of a stream without its filters. Empty if it has a filter that is not supported.
    fn decoded(&self, object: &Object) -> Vec<u8> {
        let Some(range) = object.stream.clone() else { return Vec::new() };
        let bytes = self.file.get(range).unwrap_or_default();
        if !self.budget.spend(bytes.len()) {
            return Vec::new();
        }
        let mut bytes = bytes.to_vec();
        let filter = self.entry(&object.value, "Filter");
        let filters: Vec<&Value> = match filter {
            Value::Array(filters) => filters.iter().map(|filter| self.resolve(filter)).collect(),
            Value::Null => Vec::new(),
            one => vec![one],
        };
        let parameters = self.entry(&object.value, "DecodeParms");
        for (index, filter) in filters.iter().take(MAX_FILTERS).enumerate() {
            let own = parameters.array().get(index).unwrap_or(parameters);
            bytes = match filter.name() {
                Some(b"FlateDecode" | b"Fl") => self.predicted(self.inflate(&bytes), own),
                Some(b"ASCIIHexDecode" | b"AHx") => Lexer::new(&[b"<", &bytes[..]].concat(), 0).hexadecimal(),
                Some(b"ASCII85Decode" | b"A85") => ascii85(&bytes),
                _ => return Vec::new(),
            };
            if !self.budget.spend(bytes.len() * 2) {
                return Vec::new();
            }
        }
        bytes
    }

    /// Decompresses, as far as the stream is intact and the budget allows.
    fn inflate(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut decoder = ZlibDecoder::new(bytes);
        let mut buffer = [0; 16 << 10];
        while out.len() < MAX_STREAM {
            let Ok(read) = decoder.read(&mut buffer) else { break };
            if read == 0 || !self.budget.spend(read * 2) {
                break;
            }
            out.extend_from_slice(buffer.get(..read).unwrap_or_default());
        }
        out
    }

    /// Undoes the prediction of PNG rows, which streams of positions and objects use.
    fn predicted(&self, bytes: Vec<u8>, parameters: &Value) -> Vec<u8> {
        let number = |name: &str| self.entry(parameters, name).number();
        if number("Predictor").is_none_or(|predictor| predictor < 10.0) {
            return bytes;
        }
        let colors = number("Colors").unwrap_or(1.0).clamp(1.0, 32.0) as usize;
        let bits = number("BitsPerComponent").unwrap_or(8.0).clamp(1.0, 16.0) as usize;
        let pixel = (colors * bits).div_ceil(8);
        let width = (number("Columns").unwrap_or(1.0).clamp(1.0, 1e6) as usize * colors * bits).div_ceil(8);
        let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
        let mut above = vec![0u8; width];
        for row in bytes.chunks(width + 1) {
            let (Some(&kind), Some(data)) = (row.first(), row.get(1..)) else { break };
            let mut line = data.to_vec();
            line.resize(width, 0);
            for index in 0..width {
                let left = index.checked_sub(pixel).and_then(|at| line.get(at)).copied().unwrap_or(0);
                let up = above.get(index).copied().unwrap_or(0);
                let corner = index.checked_sub(pixel).and_then(|at| above.get(at)).copied().unwrap_or(0);
                let predicted = match kind {
                    1 => left,
                    2 => up,
                    3 => u16::midpoint(u16::from(left), u16::from(up)) as u8,
                    4 => paeth(left, up, corner),
                    _ => 0,
                };
                if let Some(byte) = line.get_mut(index) {
                    *byte = byte.wrapping_add(predicted);
                }
            }
            out.extend_from_slice(&line);
            above = line;
        }
        out
    }
}

fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let (a, b, c) = (i16::from(left), i16::from(up), i16::from(corner));
    let estimate = a + b - c;
    let (to_left, to_up, to_corner) = ((estimate - a).abs(), (estimate - b).abs(), (estimate - c).abs());
    if to_left <= to_up && to_left <= to_corner {
        left
    } else if to_up <= to_corner {
        up
    } else {
        corner
    }
}

fn is_named(value: &Value, key: &[u8], name: &[u8]) -> bool {
    matches!(value, Value::Dictionary(entries) if entries.get(key).and_then(Value::name) == Some(name))
}

fn is_type(object: &Object, name: &[u8]) -> bool {
    is_named(&object.value, b"Type", name)
}

/// The number of the object whose `obj` is at this position: `12 0 obj`.
fn number_before(file: &[u8], at: usize) -> Option<u32> {
    let before = file.get(at.saturating_sub(24)..at)?;
    let before = before.trim_ascii_end();
    let generation = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let before = before.get(..before.len() - generation)?;
    let trimmed = before.trim_ascii_end();
    let digits = trimmed.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let is_number = generation > 0 && digits > 0 && trimmed.len() < before.len();
    let number = trimmed.get(trimmed.len() - digits..).filter(|_| is_number)?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Decodes base 85.
fn ascii85(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut group, mut count) = (Vec::new(), 0u32, 0);
    for &byte in bytes {
        match byte {
            b'z' if count == 0 => out.extend([0; 4]),
            b'!'..=b'u' => {
                group = group.wrapping_mul(85).wrapping_add(u32::from(byte - b'!'));
                count += 1;
                if count == 5 {
                    out.extend(group.to_be_bytes());
                    (group, count) = (0, 0);
                }
            }
            b'~' => break,
            _ => {}
        }
    }
    if count > 1 {
        for _ in count..5 {
            group = group.wrapping_mul(85).wrapping_add(84);
        }
        out.extend(group.to_be_bytes().into_iter().take(count - 1));
    }
    out
}
