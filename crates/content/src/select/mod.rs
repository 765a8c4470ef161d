//! CSS selectors: parsing with error positions, and matching in bounded time.

mod bits;
mod matching;
mod parse;

pub(crate) use bits::{BitMatcher, MatchState, Subject};

pub use matching::{Matches, Steps};

/// A parsed CSS selector.
///
/// Supported: types, `*`, `#id`, `.class`, attributes with all operators and the `i` flag, the four combinators, lists,
/// `:first-child` and its relatives, `:nth-child(an+b)` and its relatives, `:empty`, `:root`, `:not()`, `:is()`,
/// `:where()`, `:has()`, and `:contains("text")`, which is not part of CSS but used by most scraping tools.
#[derive(Clone, Debug)]
pub struct Selector {
    alternatives: Vec<Complex>,
}

/// A selector that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at character {position} of the selector {selector:?}")]
#[non_exhaustive]
pub struct SelectError {
    /// What is wrong.
    pub message: String,
    /// The position of the character where the error was detected, counted from 1.
    pub position: usize,
    /// The selector, truncated if it is long.
    pub selector: String,
}

impl Selector {
    /// Parses a selector, or a list of selectors separated by commas.
    ///
    /// # Errors
    ///
    /// The text is not a selector; the error says where.
    pub fn parse(css: &str) -> Result<Self, SelectError> {
        Ok(Self { alternatives: parse::parse(css)? })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combinator {
    Descendant,
    Child,
    NextSibling,
    LaterSibling,
}

/// A complex selector: compounds from right to left, each with the combinator that connects it to its left neighbour.
#[derive(Clone, Debug)]
struct Complex {
    compounds: Vec<(Compound, Option<Combinator>)>,
    /// In `:has()`, the relation of the leftmost compound to the element.
    leading: Option<Combinator>,
}

/// A compound selector, such as `a.x[href]`: conditions on one element.
#[derive(Clone, Debug, Default)]
struct Compound {
    name: Option<TypeName>,
    simple: Vec<Simple>,
}

#[derive(Clone, Debug)]
struct TypeName {
    known: Option<crate::document::names::Name>,
    text: Box<str>,
}

/// A condition on one element, other than its name.
#[derive(Clone, Debug)]
enum Simple {
    Id(Box<str>),
    Class(Box<str>),
    Attribute {
        name: Box<str>,
        test: AttributeTest,
        value: Box<str>,
        ignore_case: bool,
    },
    Nth {
        step: i32,
        offset: i32,
        from_end: bool,
        of_type: bool,
    },
    Empty,
    Root,
    /// Matches if one of the selectors does; if the flag is set, matches if none does.
    Is(Vec<Complex>, bool),
    Has(Vec<Complex>),
    Contains(Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttributeTest {
    Present,
    Equals,
    Word,
    Prefix,
    Suffix,
    Substring,
    /// Equal to the value, or begins with the value and a hyphen.
    Language,
}
