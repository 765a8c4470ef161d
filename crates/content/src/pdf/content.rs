//! The text of a page of a PDF file, in the order in which it is drawn.

use std::collections::HashMap;
use std::rc::Rc;

use super::fonts::Font;
use super::objects::{Lexer, Objects, Value};

/// How deep drawings may contain other drawings.
const MAX_FORMS: usize = 4;
/// How many operands an operator has at most, and how many states are saved.
const MAX_OPERANDS: usize = 64;
const MAX_SAVED: usize = 64;
/// The most bytes of the operators of a page.
const MAX_CONTENT: usize = 16 << 20;
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
    /// The fonts so far, by the number of their object.
    fonts: HashMap<u32, Rc<Font>>,
    pub(super) pieces: Vec<Piece>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(objects: &'a Objects<'a>) -> Self {
        Self { objects, fonts: HashMap::new(), pieces: Vec::new() }
    }

    /// Reads the streams of a page.
    pub(super) fn page(&mut self, contents: &Value, resources: &Value) {
        let mut bytes = Vec::new();
        let list = match self.objects.resolve(contents) {
            Value::Array(parts) => parts.clone(),
            _ => vec![contents.clone()],
        };
        for part in list.iter().take(10_000) {
            bytes.extend(self.objects.stream(part).unwrap_or_default());
            bytes.push(b'\n');
            if !self.objects.spend(1) || bytes.len() > MAX_CONTENT {
                break;
            }
        }
        self.draw(&bytes, resources, IDENTITY, 0);
    }

    fn draw(&mut self, bytes: &[u8], resources: &Value, matrix: Matrix, depth: usize) {
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
        let (mut text, mut line) = (IDENTITY, IDENTITY);
        let mut operands: Vec<Value> = Vec::new();
        let mut lexer = Lexer::new(bytes, 0);
        loop {
            let before = lexer.at;
            let Some(value) = lexer.next(false) else { break };
            if !self.objects.spend((lexer.at - before) * 4 + 8) {
                break;
            }
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
                b"ID" => {
                    let rest = bytes.get(lexer.at..).unwrap_or_default();
                    lexer.at = memchr::memmem::find(rest, b"EI").map_or(bytes.len(), |at| lexer.at + at + 2);
                }
                _ => {}
            }
            operands.clear();
        }
    }

    /// Reads a drawing that is used by its name.
    fn form(&mut self, resources: &Value, name: &[u8], matrix: &Matrix, depth: usize) {
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

    fn font(&mut self, resources: &Value, name: &[u8]) -> Option<Rc<Font>> {
        let objects = self.objects;
        let Value::Dictionary(fonts) = objects.entry(resources, "Font") else { return None };
        let value = fonts.get(name)?;
        let Value::Reference(number) = value else { return Some(Rc::new(Font::of(objects, value))) };
        if let Some(font) = self.fonts.get(number) {
            return Some(Rc::clone(font));
        }
        if self.fonts.len() >= MAX_FONTS {
            return None;
        }
        let font = Rc::new(Font::of(objects, value));
        self.fonts.insert(*number, Rc::clone(&font));
        Some(font)
    }

    /// Adds a piece of text, and moves behind it.
    fn show(&mut self, shown: &[u8], state: &State, text: &mut Matrix) {
        let Some(font) = &state.font else { return };
        if !self.objects.spend(shown.len() * 4) || !self.objects.hold(shown.len() * 2 + size_of::<Piece>()) {
            return;
        }
        let mut decoded = String::new();
        let (width, count, spaces) = font.decode(shown, &mut decoded);
        let advance = (width / 1000.0 * state.size + state.spacing * count as f64 + state.word_spacing * spaces as f64)
            * state.scale;
        let start = multiply(&[1.0, 0.0, 0.0, 1.0, 0.0, state.rise], &multiply(text, &state.matrix));
        *text = multiply(&[1.0, 0.0, 0.0, 1.0, advance, 0.0], text);
        let end = multiply(text, &state.matrix);
        let size = state.size.abs() * start[2].hypot(start[3]);
        if !decoded.is_empty() && [start[4], start[5], end[4], size].iter().all(|number| number.is_finite()) {
            self.pieces.push(Piece { x: start[4], y: start[5], end: end[4], size, text: decoded });
        }
    }
}
