//! The objects of a PDF file: where they are, their values and their streams.
//!
//! The file is searched for objects from its beginning to its end. The table of positions at its end is not read, so a
//! damaged or a lying one has no effect; of objects with the same number the one whose bytes are last in the file counts,
//! as in a file that was changed by appending. An object is read when it is first asked for, and most never are.
//! Invariant: the number of objects and the bytes of decoded streams are limited, and all is charged before it is kept.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use argiope_core::page::page_budget::{PageBudget, VISIT};

use super::filters::{Held, PredictedRows, ascii85, inflate, predicted};
use super::values::{Dictionary, Lexer, Value, is_space};

/// The maximum number of objects of a file.
const MAX_OBJECTS: usize = 200_000;
/// How many filters of a stream are applied.
const MAX_FILTERS: usize = 4;
/// How many references in a row are followed.
const MAX_REFERENCES: usize = 8;
/// How many trailers are read, from the end of the file.
const MAX_TRAILERS: usize = 64;
/// The memory of the place of an object in a table that grows by doubling.
const PLACE_MEMORY: usize = 4 * size_of::<Place>();

/// An object: its value, and where the bytes of its stream are if it has one.
#[derive(Debug)]
struct Object {
    value: Value,
    stream: Option<Range<usize>>,
}

/// Where an object is.
struct Place {
    /// Its position in the file, or that of the stream of objects that holds it.
    position: usize,
    /// The stream of objects that holds it, by its number in the file, and its position there.
    packed: Option<(u32, u32)>,
    /// What is there, once it was read.
    object: OnceCell<Option<Box<Object>>>,
}

impl Place {
    fn new(position: usize, packed: Option<(u32, u32)>) -> Self {
        Self { position, packed, object: OnceCell::new() }
    }
}

/// The entries of the newest trailer that has them.
#[derive(Default)]
pub(super) struct Trailer {
    pub(super) root: Value,
    pub(super) info: Value,
    pub(super) is_encrypted: bool,
}

impl Trailer {
    /// Takes what is missing from an older trailer.
    fn add_older(&mut self, older: &Dictionary) {
        let is_missing = |value: &Value| *value == Value::Null;
        let entry = |name: &[u8]| older.get(name).cloned().unwrap_or_default();
        if is_missing(&self.root) {
            self.root = entry(b"Root");
        }
        if is_missing(&self.info) {
            self.info = entry(b"Info");
        }
        self.is_encrypted |= older.contains_key(&b"Encrypt"[..]);
    }
}

/// The objects of a file.
pub(super) struct Objects<'a> {
    file: &'a [u8],
    places: HashMap<u32, Place>,
    /// The decoded streams of objects.
    packs: Vec<Held<'a>>,
    pub(super) trailer: Trailer,
    pub(super) budget: &'a PageBudget,
}

impl<'a> Objects<'a> {
    /// Finds the objects of a file.
    pub(super) fn of(file: &'a [u8], budget: &'a PageBudget) -> Self {
        let mut found = Self { file, places: HashMap::new(), packs: Vec::new(), trailer: Trailer::default(), budget };
        let mut at = 0;
        // Streams of objects, and streams that have a trailer as their dictionary, with their positions.
        let (mut packs, mut trailers) = (Vec::new(), Vec::new());
        while let Some(next) = memchr::memmem::find(file.get(at..).unwrap_or_default(), b"obj").map(|next| at + next) {
            if !budget.spend(next - at + VISIT) {
                break;
            }
            at = next + 3;
            let Some(number) = number_before(file, next) else { continue };
            let mut lexer = Lexer::new(file, at, budget);
            let Some((object, end)) = found.read(&mut lexer) else {
                lexer.free();
                continue;
            };
            let held = lexer.held();
            found.add(number, Place::new(at, None));
            at = end.max(at);
            if object.stream.is_some() && is_type(&object.value, b"ObjStm") {
                packs.push((next, object));
            } else if is_type(&object.value, b"XRef") {
                trailers.push((next, object.value));
            } else {
                budget.release(held);
            }
        }
        for (position, object) in packs {
            found.unpack(position, &object);
        }
        found.find_trailer(trailers);
        found
    }

    /// Adds an object, unless a newer one has its number.
    fn add(&mut self, number: u32, place: Place) {
        let is_newer = self.places.get(&number).is_none_or(|known| known.position <= place.position);
        if is_newer && self.places.len() < MAX_OBJECTS && self.budget.visit() && self.budget.hold(PLACE_MEMORY) {
            self.places.insert(number, place);
        }
    }

    /// Reads the object after `obj`, and where it ends.
    fn read(&self, lexer: &mut Lexer<'_>) -> Option<(Object, usize)> {
        let value = lexer.next(true)?;
        let mut end = lexer.at;
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
                    return None;
                }
                stream = Some(start.min(stop)..stop);
                end = stop;
            }
        }
        Some((Object { value, stream }, end))
    }

    /// Reads the trailers, the newest first. `streams` are those that are dictionaries of streams, with their positions.
    fn find_trailer(&mut self, mut streams: Vec<(usize, Value)>) {
        for at in memchr::memmem::rfind_iter(self.file, b"trailer").take(MAX_TRAILERS) {
            let mut lexer = Lexer::new(self.file, at + 7, self.budget);
            if let Some(value) = lexer.next(true) {
                streams.push((at, value));
            }
        }
        streams.sort_by_key(|(position, _)| std::cmp::Reverse(*position));
        for (_, value) in streams.iter().take(MAX_TRAILERS) {
            if let Value::Dictionary(entries) = value {
                self.trailer.add_older(entries);
            }
        }
    }

    /// Adds the objects within a stream of objects.
    fn unpack(&mut self, position: usize, object: &Object) {
        let Value::Dictionary(entries) = &object.value else { return };
        let entry = |name: &[u8]| entries.get(name).and_then(Value::number).map(|number| number as usize);
        let (Some(count), Some(first)) = (entry(b"N"), entry(b"First")) else { return };
        let bytes = self.decoded(object);
        let pack = self.packs.len() as u32;
        let mut header = Lexer::new(&bytes, 0, self.budget);
        for _ in 0..count.min(MAX_OBJECTS) {
            let (Some(Value::Number(id)), Some(Value::Number(at))) = (header.next(false), header.next(false)) else {
                break;
            };
            header.free();
            if let Ok(at) = u32::try_from(first.saturating_add(at as usize)) {
                self.add(id as u32, Place::new(position, Some((pack, at))));
            }
        }
        header.free();
        self.packs.push(bytes);
    }

    /// Reads an object at its place. The memory that is charged for it is the second value.
    fn load(&self, place: &Place) -> Option<(Object, usize)> {
        let mut lexer = match place.packed {
            Some((pack, at)) => Lexer::new(self.packs.get(pack as usize)?, at as usize, self.budget),
            None => Lexer::new(self.file, place.position, self.budget),
        };
        let object = match place.packed {
            Some(_) => lexer.next(true).map(|value| Object { value, stream: None }),
            None => self.read(&mut lexer).map(|(object, _)| object),
        };
        if object.is_none() {
            lexer.free();
        }
        object.map(|object| (object, lexer.held()))
    }

    fn object(&self, number: u32) -> Option<&Object> {
        let place = self.places.get(&number).filter(|_| self.budget.visit())?;
        place.object.get_or_init(|| self.load(place).map(|(object, _)| Box::new(object))).as_deref()
    }

    /// Reads the value of an object, and forgets it after use.
    pub(super) fn with<T>(&self, value: &Value, mut read: impl FnMut(&Value) -> T) -> Option<T> {
        let Value::Reference(number) = value else { return Some(read(value)) };
        let place = self.places.get(number).filter(|_| self.budget.visit())?;
        if let Some(known) = place.object.get() {
            return known.as_deref().map(|object| read(&object.value));
        }
        let (object, held) = self.load(place)?;
        let result = read(&object.value);
        self.budget.release(held);
        Some(result)
    }

    /// The value that a value stands for, after references.
    pub(super) fn resolve<'s>(&'s self, value: &'s Value) -> &'s Value {
        let mut value = value;
        for _ in 0..MAX_REFERENCES {
            let Value::Reference(number) = value else { return value };
            let Some(object) = self.object(*number) else { return &Value::Null };
            value = &object.value;
        }
        &Value::Null
    }

    /// The entry of a dictionary, after references.
    pub(super) fn entry<'s>(&'s self, value: &'s Value, name: &str) -> &'s Value {
        self.entry_unresolved(value, name).map_or(&Value::Null, |value| self.resolve(value))
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
        let mut numbers: Vec<u32> = self.places.keys().copied().collect();
        numbers.sort_unstable();
        numbers.retain(|&number| self.with(&Value::Reference(number), |value| is_type(value, name)) == Some(true));
        numbers
    }

    /// The decoded stream that a value refers to.
    pub(super) fn stream(&self, value: &Value) -> Option<Held<'a>> {
        let mut value = value;
        for _ in 0..MAX_REFERENCES {
            let Value::Reference(number) = value else { return None };
            let object = self.object(*number)?;
            if object.stream.is_some() {
                return Some(self.decoded(object));
            }
            value = &object.value;
        }
        None
    }

    /// The bytes of a stream without its filters. Empty if it has a filter that is not supported.
    fn decoded(&self, object: &Object) -> Held<'a> {
        let budget = self.budget;
        let file: &'a [u8] = self.file;
        let bytes = object.stream.clone().and_then(|range| file.get(range)).unwrap_or_default();
        let filter = self.entry(&object.value, "Filter");
        let filters: Vec<&Value> = match filter {
            Value::Array(filters) => filters.iter().take(MAX_FILTERS).map(|filter| self.resolve(filter)).collect(),
            Value::Null => Vec::new(),
            one => vec![one],
        };
        let parameters = self.entry(&object.value, "DecodeParms");
        let mut decoded: Option<Held<'a>> = None;
        for (index, filter) in filters.iter().enumerate() {
            let own = parameters.array().get(index).unwrap_or(parameters);
            let input = decoded.as_deref().unwrap_or(bytes);
            let output = match filter.name() {
                Some(b"FlateDecode" | b"Fl") => {
                    let inflated = inflate(input, budget);
                    match self.rows(own) {
                        Some(rows) => predicted(&inflated, &rows, budget),
                        None => inflated,
                    }
                }
                Some(b"ASCIIHexDecode" | b"AHx") => hexadecimal(input, budget),
                Some(b"ASCII85Decode" | b"A85") => ascii85(input, budget),
                _ => Held::new(budget),
            };
            decoded = Some(output);
        }
        decoded.unwrap_or_else(|| {
            let mut copy = Held::new(budget);
            copy.extend(bytes);
            copy
        })
    }

    /// How the rows of a stream are predicted, if they are.
    fn rows(&self, parameters: &Value) -> Option<PredictedRows> {
        let number = |name: &str| self.entry(parameters, name).number();
        number("Predictor").filter(|&predictor| predictor >= 10.0)?;
        Some(PredictedRows {
            colors: number("Colors").unwrap_or(1.0),
            bits: number("BitsPerComponent").unwrap_or(8.0),
            columns: number("Columns").unwrap_or(1.0),
        })
    }
}

/// Decodes hexadecimal digits, which may have no `<` before them.
fn hexadecimal<'a>(bytes: &[u8], budget: &'a PageBudget) -> Held<'a> {
    let mut out = Held::new(budget);
    if budget.spend(bytes.len() * 4) && budget.hold(bytes.len()) {
        // The first byte of a text is its `<`.
        let text = [b"<", bytes].concat();
        out.extend(&Lexer::new(&text, 0, budget).hexadecimal());
        budget.release(bytes.len());
    }
    out
}

fn is_type(value: &Value, name: &[u8]) -> bool {
    matches!(value, Value::Dictionary(entries) if entries.get(&b"Type"[..]).and_then(Value::name) == Some(name))
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
