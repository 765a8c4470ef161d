//! The text of a page of a PDF file, in the order in which it is drawn.

use std::collections::HashMap;
use std::ptr::from_ref;
use std::rc::Rc;

use super::filters::Held;
use super::fonts::Font;
use super::objects::Objects;
use super::values::{Lexer, Value, is_space};

/// How deep drawings may contain other drawings.
const MAX_FORMS: usize = 4;
/// How many operands an operator has at most, and how many states are saved.
const MAX_OPERANDS: usize = 64;
const MAX_SAVED: usize = 64;
/// The maximum number of streams of a page.
const MAX_STREAMS: usize = 10_000;
/// How many bytes behind the end of a picture are looked at.
const AFTER_PICTURE: usize = 16;
/// The maximum number of fonts of a file.
const MAX_FONTS: usize = 1_000;

/// A piece of text on a page.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Where it ends.
    pub(super) end: f64,
    /// The size of its font on the page.
    pub(super) size: f64,
    pub(super) text: String,
}

/// A transformation of coordinates.
type Matrix = [f64; 6];

const IDENTITY: Matrix = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];

fn multiply(a: &Matrix, b: &Matrix) -> Matrix {
    [
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
        a[4] * b[0] + a[5] * b[2] + b[4],
        a[4] * b[1] + a[5] * b[3] + b[5],
    ]
}

#[derive(Clone)]
struct State {
    matrix: Matrix,
    font: Option<Rc<Font>>,
    size: f64,
    spacing: f64,
    word_spacing: f64,
    scale: f64,
    leading: f64,
    rise: f64,
}

/// Reads the texts of pages.
pub(super) struct Reader<'a> {
    pub(super) objects: &'a Objects<'a>,
    /// The fonts so far, by the address of their value, which stays where it is.
    fonts: HashMap<usize, Rc<Font>>,
    /// The texts of the page.
    pub(super) pieces: Vec<Piece>,
    /// The memory that is charged for them.
    held: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(objects: &'a Objects<'a>) -> Self {
        Self { objects, fonts: HashMap::new(), pieces: Vec::new(), held: 0 }
    }

    /// Forgets the texts of the page.
    pub(super) fn clear(&mut self) {
        self.pieces = Vec::new();
        self.objects.budget.release(std::mem::take(&mut self.held));
    }

    /// Reads the streams of a page.
    pub(super) fn page(&mut self, contents: &'a Value, resources: &'a Value) {
        let list = match self.objects.resolve(contents) {
            Value::Array(parts) => parts.as_slice(),
            _ => std::slice::from_ref(contents),
        };
        let mut bytes = Held::new(self.objects.budget);
        for part in list.iter().take(MAX_STREAMS) {
            let Some(stream) = self.objects.stream(part) else { continue };
            if !bytes.extend(&stream) || !bytes.extend(b"\n") {
                break;
            }
        }
        self.draw(&bytes, resources, IDENTITY, 0);
    }

    fn draw(&mut self, bytes: &[u8], resources: &'a Value, matrix: Matrix, depth: usize) {
        let mut state = State {
            matrix,
            font: None,
            size: 1.0,
            spacing: 0.0,
            word_spacing: 0.0,
            scale: 1.0,
            leading: 0.0,
            rise: 0.0,
        };
        let mut saved: Vec<State> = Vec::new();
        // The number of states that were to be saved and were not.
        let mut unsaved = 0usize;
        let (mut text, mut line) = (IDENTITY, IDENTITY);
        let mut operands: Vec<Value> = Vec::new();
        let mut lexer = Lexer::new(bytes, 0, self.objects.budget);
        while let Some(value) = lexer.next(false) {
            let Value::Word(operator) = &value else {
                if operands.len() < MAX_OPERANDS {
                    operands.push(value);
                }
                continue;
            };
            let number = |at: usize| operands.get(at).and_then(Value::number).unwrap_or(0.0);
            let six = || [number(0), number(1), number(2), number(3), number(4), number(5)];
            match &operator[..] {
                b"q" if saved.len() < MAX_SAVED => saved.push(state.clone()),
                b"q" => unsaved += 1,
                b"Q" if unsaved > 0 => unsaved -= 1,
                b"Q" => state = saved.pop().unwrap_or(state),
                b"cm" => state.matrix = multiply(&six(), &state.matrix),
                b"BT" => (text, line) = (IDENTITY, IDENTITY),
                b"Tf" => {
                    state.size = number(1);
                    if let Some(name) = operands.first().and_then(Value::name) {
                        state.font = self.font(resources, name);
                    }
                }
                b"Tc" => state.spacing = number(0),
                b"Tw" => state.word_spacing = number(0),
                b"Tz" => state.scale = number(0) / 100.0,
                b"TL" => state.leading = number(0),
                b"Ts" => state.rise = number(0),
                b"Tm" => (text, line) = (six(), six()),
                b"Td" | b"TD" => {
                    if operator == b"TD" {
                        state.leading = -number(1);
                    }
                    line = multiply(&[1.0, 0.0, 0.0, 1.0, number(0), number(1)], &line);
                    text = line;
                }
                b"T*" | b"'" | b"\"" => {
                    if operator == b"\"" {
                        (state.word_spacing, state.spacing) = (number(0), number(1));
                    }
                    line = multiply(&[1.0, 0.0, 0.0, 1.0, 0.0, -state.leading], &line);
                    text = line;
                    if let Some(Value::Text(shown)) = operands.last() {
                        self.show(shown, &state, &mut text);
                    }
                }
                b"Tj" => {
                    if let Some(Value::Text(shown)) = operands.first() {
                        self.show(shown, &state, &mut text);
                    }
                }
                b"TJ" => {
                    for part in operands.first().map(Value::array).unwrap_or_default() {
                        match part {
                            Value::Text(shown) => self.show(shown, &state, &mut text),
                            Value::Number(kern) => {
                                let shift = -kern / 1000.0 * state.size * state.scale;
                                text = multiply(&[1.0, 0.0, 0.0, 1.0, shift, 0.0], &text);
                            }
                            _ => {}
                        }
                    }
                }
                b"Do" if depth < MAX_FORMS => {
                    if let Some(name) = operands.first().and_then(Value::name) {
                        self.form(resources, name, &state.matrix, depth);
                    }
                }
                // The bytes of a picture follow.
                b"ID" => lexer.at = end_of_picture(bytes, lexer.at, &operands),
                _ => {}
            }
            operands.clear();
            lexer.free();
        }
        lexer.free();
    }

    /// Reads a drawing that is used by its name.
    fn form(&mut self, resources: &'a Value, name: &[u8], matrix: &Matrix, depth: usize) {
        let objects = self.objects;
        let Value::Dictionary(drawings) = objects.entry(resources, "XObject") else { return };
        let Some(reference) = drawings.get(name) else { return };
        if objects.entry(reference, "Subtype").name() != Some(b"Form") {
            return;
        }
        let Some(bytes) = objects.stream(reference) else { return };
        let own = objects.entry(reference, "Matrix").array();
        let own: Vec<f64> = own.iter().filter_map(|value| objects.resolve(value).number()).collect();
        let own = Matrix::try_from(own).unwrap_or(IDENTITY);
        let inner = objects.entry(reference, "Resources");
        let inner = if *inner == Value::Null { resources } else { inner };
        self.draw(&bytes, inner, multiply(&own, matrix), depth + 1);
    }

    fn font(&mut self, resources: &'a Value, name: &[u8]) -> Option<Rc<Font>> {
        let objects = self.objects;
        let Value::Dictionary(fonts) = objects.entry(resources, "Font") else { return None };
        let value = objects.resolve(fonts.get(name)?);
        let key = from_ref(value).addr();
        if let Some(font) = self.fonts.get(&key) {
            return Some(Rc::clone(font));
        }
        if self.fonts.len() >= MAX_FONTS {
            return None;
        }
        let font = Rc::new(Font::of(objects, value));
        self.fonts.insert(key, Rc::clone(&font));
        Some(font)
    }

    /// Adds a piece of text, and moves behind it.
    fn show(&mut self, shown: &[u8], state: &State, text: &mut Matrix) {
        let Some(font) = &state.font else { return };
        let Some(decoded) = font.decode(shown, self.objects.budget) else { return };
        self.held += decoded.held;
        if !self.objects.hold(2 * size_of::<Piece>()) {
            return;
        }
        self.held += 2 * size_of::<Piece>();
        let spacing = state.spacing * decoded.count as f64 + state.word_spacing * decoded.spaces as f64;
        let advance = (decoded.width / 1000.0 * state.size + spacing) * state.scale;
        let start = multiply(&[1.0, 0.0, 0.0, 1.0, 0.0, state.rise], &multiply(text, &state.matrix));
        *text = multiply(&[1.0, 0.0, 0.0, 1.0, advance, 0.0], text);
        let end = multiply(text, &state.matrix);
        let size = state.size.abs() * start[2].hypot(start[3]);
        if !decoded.text.is_empty() && [start[4], start[5], end[4], size].iter().all(|number| number.is_finite()) {
            self.pieces.push(Piece { x: start[4], y: start[5], end: end[4], size, text: decoded.text });
        }
    }
}

/// Where a picture within a content stream ends, whose data begins after `ID`. `operands` describe it.
fn end_of_picture(bytes: &[u8], at: usize, operands: &[Value]) -> usize {
    let entry = |names: [&[u8]; 2]| {
        let mut pairs = operands
            .chunks(2)
            .filter(|pair| pair.first().and_then(Value::name).is_some_and(|name| names.contains(&name)));
        pairs.next().and_then(|pair| pair.get(1))
    };
    let number = |names| entry(names).and_then(Value::number).map(|number| number as usize);
    let is_end = |at: usize| {
        let rest = bytes.get(at..).unwrap_or_default();
        let after = rest.get(2..).unwrap_or_default();
        let is_text = |byte: &u8| is_space(*byte) && *byte != 0 || (32..127).contains(byte);
        rest.starts_with(b"EI")
            && after.first().is_none_or(|&byte| is_space(byte))
            && after.iter().take(AFTER_PICTURE).all(is_text)
    };
    // Without a filter the length follows from the size.
    let components = match entry([b"CS", b"ColorSpace"]).and_then(Value::name) {
        Some(b"RGB" | b"DeviceRGB") => 3,
        Some(b"CMYK" | b"DeviceCMYK") => 4,
        _ => 1,
    };
    let bits = number([b"BPC", b"BitsPerComponent"]).unwrap_or(1).saturating_mul(components);
    let row = number([b"W", b"Width"]).unwrap_or(0).saturating_mul(bits).div_ceil(8);
    let plain = row.saturating_mul(number([b"H", b"Height"]).unwrap_or(0));
    let declared = number([b"L", b"Length"]).or((entry([b"F", b"Filter"]).is_none()).then_some(plain));
    if let Some(declared) = declared.filter(|&length| length > 0) {
        let end = at.saturating_add(1).saturating_add(declared);
        let gap = bytes
            .get(end.min(bytes.len())..)
            .unwrap_or_default()
            .iter()
            .take(4)
            .take_while(|byte| is_space(**byte))
            .count();
        if is_end(end.saturating_add(gap)) {
            return end + gap + 2;
        }
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let mut ends = memchr::memmem::find_iter(rest, b"EI").map(|found| at + found);
    let is_apart =
        |end: &usize| end.checked_sub(1).and_then(|before| bytes.get(before)).is_some_and(|&byte| is_space(byte));
    ends.find(|end| is_apart(end) && is_end(*end)).map_or(bytes.len(), |end| end + 2)
}
