//! The parser of selectors.

use super::{AttributeTest, Combinator, Complex, Compound, SelectError, Selector, Simple, TypeName};
use crate::document::names::Name;

/// Maximum bytes of a selector.
const MAX_SELECTOR_BYTES: usize = 64 * 1024;
/// How many characters of a selector an error message shows.
const MAX_SHOWN: usize = 80;
/// Maximum nesting of `:not(:is(...))`.
const MAX_NESTING: usize = 16;
/// Maximum number of `+` and `~` in a selector, which are matched recursively. The nesting of a page is bounded already.
const MAX_SIBLING_STEPS: usize = 200;

pub(super) fn parse(css: &str) -> Result<Selector, SelectError> {
    let mut parser = Parser { css, at: 0, compounds: 0, regions: 0, sibling_steps: 0 };
    if css.len() > MAX_SELECTOR_BYTES {
        return Err(parser.error(format!("the selector is longer than {MAX_SELECTOR_BYTES} bytes")));
    }
    let list = parser.list(false, 0)?;
    if parser.peek().is_some() {
        return Err(parser.error(format!("unexpected {:?}", parser.peek().unwrap_or(' '))));
    }
    Ok(Selector { alternatives: list, compounds: parser.compounds, regions: parser.regions })
}

struct Parser<'a> {
    css: &'a str,
    /// The position of the next byte.
    at: usize,
    /// The number of compounds so far.
    compounds: usize,
    /// The number of selectors in `:has()`, and of `:contains()`, so far.
    regions: usize,
    /// The number of `+` and `~` so far.
    sibling_steps: usize,
}

impl Parser<'_> {
    fn error(&self, message: impl Into<String>) -> SelectError {
        let position = self.css.get(..self.at).unwrap_or(self.css).chars().count() + 1;
        let selector = if self.css.chars().count() > MAX_SHOWN {
            format!("{}...", self.css.chars().take(MAX_SHOWN).collect::<String>())
        } else {
            self.css.to_owned()
        };
        SelectError { message: message.into(), position, selector }
    }

    fn peek(&self) -> Option<char> {
        self.css.get(self.at..)?.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Skips the next character if it is the expected one. Returns whether it is.
    fn eat(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.at += expected.len_utf8();
        }
        found
    }

    fn expect(&mut self, expected: char) -> Result<(), SelectError> {
        if self.eat(expected) {
            return Ok(());
        }
        let found = self.peek().map_or("the end".to_owned(), |found| format!("{found:?}"));
        Err(self.error(format!("expected {expected:?}, found {found}")))
    }

    /// Skips white space. Returns whether there was any.
    fn skip_space(&mut self) -> bool {
        let before = self.at;
        while self.peek().is_some_and(|next| next.is_ascii_whitespace()) {
            self.take();
        }
        self.at > before
    }

    /// Parses a list of selectors. `is_relative`: each may start with a combinator, as in `:has()`.
    fn list(&mut self, is_relative: bool, depth: usize) -> Result<Vec<Complex>, SelectError> {
        if depth > MAX_NESTING {
            return Err(self.error("too many nested parentheses"));
        }
        let mut list = vec![self.complex(is_relative, depth)?];
        while self.eat(',') {
            list.push(self.complex(is_relative, depth)?);
        }
        Ok(list)
    }

    /// Parses a combinator; `None` at the end of a selector.
    fn combinator(&mut self) -> Option<Combinator> {
        let has_space = self.skip_space();
        let found = match self.peek() {
            Some('>') => Combinator::Child,
            Some('+') => Combinator::NextSibling,
            Some('~') => Combinator::LaterSibling,
            None | Some(',' | ')') => return None,
            Some(_) => return has_space.then_some(Combinator::Descendant),
        };
        self.take();
        self.skip_space();
        Some(found)
    }

    fn complex(&mut self, is_relative: bool, depth: usize) -> Result<Complex, SelectError> {
        self.skip_space();
        let leading = if is_relative { Some(self.combinator().unwrap_or(Combinator::Descendant)) } else { None };
        let mut compounds = vec![(self.compound(depth)?, None)];
        while let Some(combinator) = self.combinator() {
            if matches!(combinator, Combinator::NextSibling | Combinator::LaterSibling) {
                self.sibling_steps += 1;
            }
            if self.sibling_steps > MAX_SIBLING_STEPS {
                return Err(self.error(format!("the selector has more than {MAX_SIBLING_STEPS} times + or ~")));
            }
            compounds.push((self.compound(depth)?, Some(combinator)));
        }
        compounds.reverse();
        let slot = if is_relative { self.next_region() } else { 0 };
        Ok(Complex { compounds, leading, slot })
    }

    /// The number of a new `:has()` or `:contains()`.
    fn next_region(&mut self) -> usize {
        self.regions += 1;
        self.regions - 1
    }

    /// A new compound without conditions.
    fn new_compound(&mut self) -> Compound {
        self.compounds += 1;
        Compound { slot: self.compounds - 1, ..Compound::default() }
    }

    fn compound(&mut self, depth: usize) -> Result<Compound, SelectError> {
        let mut compound = self.new_compound();
        let mut is_empty = true;
        if self.eat('*') {
            is_empty = false;
        } else if self.peek().is_some_and(begins_identifier) {
            let text = self.identifier()?.to_ascii_lowercase();
            compound.name = Some(TypeName { known: Name::known(text.as_bytes()), text: text.into() });
            is_empty = false;
        }
        loop {
            let simple = match self.peek() {
                Some('#') => {
                    self.take();
                    Simple::Id(self.identifier()?.into())
                }
                Some('.') => {
                    self.take();
                    Simple::Class(self.identifier()?.into())
                }
                Some('[') => self.attribute()?,
                Some(':') => self.pseudo(depth)?,
                _ if is_empty => {
                    let found = self.peek().map_or("the end".to_owned(), |found| format!("{found:?}"));
                    return Err(self.error(format!("expected a selector, found {found}")));
                }
                _ => return Ok(compound),
            };
            is_empty = false;
            compound.simple.push(simple);
        }
    }

    fn identifier(&mut self) -> Result<String, SelectError> {
        let mut name = String::new();
        while let Some(next) = self.peek() {
            if next == '\\' {
                self.take();
                name.push(self.escape()?);
            } else if next.is_ascii_alphanumeric() || matches!(next, '-' | '_') || !next.is_ascii() {
                name.push(next);
                self.take();
            } else {
                break;
            }
        }
        if name.is_empty() {
            return Err(self.error("expected a name"));
        }
        Ok(name)
    }

    /// Parses the rest of an escape after the backslash: up to six hexadecimal digits, or the character itself.
    fn escape(&mut self) -> Result<char, SelectError> {
        let mut code = None;
        for _ in 0..6 {
            let Some(digit) = self.peek().and_then(|next| next.to_digit(16)) else { break };
            code = Some(code.unwrap_or(0) * 16 + digit);
            self.take();
        }
        match code {
            Some(code) => {
                if self.peek().is_some_and(|next| next.is_ascii_whitespace()) {
                    self.take();
                }
                Ok(char::from_u32(code).unwrap_or('\u{FFFD}'))
            }
            None => self.take().ok_or_else(|| self.error("nothing follows the backslash")),
        }
    }

    fn string_or_identifier(&mut self) -> Result<String, SelectError> {
        let Some(quote @ ('"' | '\'')) = self.peek() else { return self.identifier() };
        self.take();
        let mut value = String::new();
        loop {
            match self.take() {
                None => return Err(self.error(format!("the string has no closing {quote}"))),
                Some(end) if end == quote => return Ok(value),
                Some('\\') => value.push(self.escape()?),
                Some(other) => value.push(other),
            }
        }
    }

    fn attribute(&mut self) -> Result<Simple, SelectError> {
        self.expect('[')?;
        self.skip_space();
        let name = self.identifier()?.to_ascii_lowercase().into_boxed_str();
        self.skip_space();
        if self.eat(']') {
            return Ok(Simple::Attribute { name, test: AttributeTest::Present, value: "".into(), ignore_case: false });
        }
        let test = match self.take() {
            Some('=') => AttributeTest::Equals,
            Some(operator @ ('~' | '^' | '$' | '*' | '|')) => {
                self.expect('=')?;
                match operator {
                    '~' => AttributeTest::Word,
                    '^' => AttributeTest::Prefix,
                    '$' => AttributeTest::Suffix,
                    '*' => AttributeTest::Substring,
                    _ => AttributeTest::Language,
                }
            }
            _ => return Err(self.error("expected an operator such as = or ^= or a closing ]")),
        };
        self.skip_space();
        let value = self.string_or_identifier()?.into_boxed_str();
        self.skip_space();
        let ignore_case = match self.peek() {
            Some('i' | 'I') => {
                self.take();
                true
            }
            Some('s' | 'S') => {
                self.take();
                false
            }
            // HTML compares the values of these attributes without regard to case.
            _ => matches!(&*name, "type" | "rel" | "lang" | "method" | "media" | "charset" | "http-equiv"),
        };
        self.skip_space();
        self.expect(']')?;
        Ok(Simple::Attribute { name, test, value, ignore_case })
    }

    fn pseudo(&mut self, depth: usize) -> Result<Simple, SelectError> {
        let start = self.at;
        self.expect(':')?;
        if self.eat(':') {
            return Err(self.error("pseudo-elements select nothing; use @ATTRIBUTE, or @html for the markup"));
        }
        let name = self.identifier()?.to_ascii_lowercase();
        let nth = |step, offset, from_end, of_type| Simple::Nth { step, offset, from_end, of_type };
        let simple = match name.as_str() {
            "first-child" => nth(0, 1, false, false),
            "last-child" => nth(0, 1, true, false),
            "first-of-type" => nth(0, 1, false, true),
            "last-of-type" => nth(0, 1, true, true),
            "only-child" => self.only(false),
            "only-of-type" => self.only(true),
            "empty" => Simple::Empty,
            "root" => Simple::Root,
            "nth-child" | "nth-last-child" | "nth-of-type" | "nth-last-of-type" => {
                self.expect('(')?;
                let (step, offset) = self.formula()?;
                self.expect(')')?;
                nth(step, offset, name.contains("last"), name.contains("of-type"))
            }
            "not" | "is" | "where" | "matches" | "any" | "has" => {
                self.expect('(')?;
                let list = self.list(name == "has", depth + 1)?;
                self.skip_space();
                self.expect(')')?;
                match name.as_str() {
                    "has" => Simple::Has(list),
                    "not" => Simple::Is { list, is_negated: true },
                    _ => Simple::Is { list, is_negated: false },
                }
            }
            "contains" | "-soup-contains" => {
                self.expect('(')?;
                self.skip_space();
                let text = if matches!(self.peek(), Some('"' | '\'')) {
                    self.string_or_identifier()?
                } else {
                    let mut text = String::new();
                    while self.peek().is_some_and(|next| next != ')') {
                        text.extend(self.take());
                    }
                    text.trim().to_owned()
                };
                self.skip_space();
                self.expect(')')?;
                Simple::Contains(self.next_region(), text.into())
            }
            _ => {
                self.at = start;
                return Err(self.error(format!("unknown pseudo-class :{name}")));
            }
        };
        Ok(simple)
    }

    /// The test of `:only-child` or `:only-of-type`: the element is the first from both ends.
    fn only(&mut self, of_type: bool) -> Simple {
        let both = [false, true].map(|from_end| Simple::Nth { step: 0, offset: 1, from_end, of_type });
        let compound = Compound { simple: both.into(), ..self.new_compound() };
        Simple::Is {
            list: vec![Complex { compounds: vec![(compound, None)], leading: None, slot: 0 }],
            is_negated: false,
        }
    }

    /// Parses step and offset of a formula: `odd`, `even`, `3`, `2n`, `-n+3`.
    fn formula(&mut self) -> Result<(i32, i32), SelectError> {
        let start = self.at;
        while self.peek().is_some_and(|next| next != ')') {
            self.take();
        }
        let written: String =
            self.css.get(start..self.at).unwrap_or("").chars().filter(|next| !next.is_whitespace()).collect();
        let written = written.to_ascii_lowercase();
        let parsed = match written.as_str() {
            "odd" => Some((2, 1)),
            "even" => Some((2, 0)),
            _ => match written.split_once('n') {
                None => written.parse().ok().map(|offset| (0, offset)),
                Some((step, offset)) => {
                    let step = match step {
                        "" | "+" => Some(1),
                        "-" => Some(-1),
                        _ => step.parse().ok(),
                    };
                    let offset = if offset.is_empty() { Some(0) } else { offset.parse().ok() };
                    step.zip(offset)
                }
            },
        };
        parsed.ok_or_else(|| {
            self.at = start;
            self.error("expected a formula such as 2n+1, odd or 3")
        })
    }
}

fn begins_identifier(next: char) -> bool {
    next.is_ascii_alphabetic() || matches!(next, '_' | '\\' | '-') || !next.is_ascii()
}
