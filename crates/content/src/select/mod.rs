//! CSS selectors: parsing with error positions, and matching in linear time.

mod bits;
mod matching;
mod parse;
mod query;
mod texts;

pub(crate) use bits::{BitMatcher, MatchState, Subject};

pub use matching::Matches;

/// A parsed CSS selector.
///
/// Supported: types, `*`, `#id`, `.class`, attributes with all operators and the `i` flag, the four combinators, lists,
/// `:first-child`, `:last-child`, `:only-child`, `:nth-child(an+b)`, `:nth-last-child(an+b)` and the same `-of-type`,
/// `:empty`, `:root`, `:not()`, `:is()`, `:where()`, `:has()`, and `:contains("text")`, which is not part of CSS but used
/// by most scraping tools.
#[derive(Clone, Debug)]
pub struct Selector {
    /// The selectors of the list. One of them must match.
    alternatives: Vec<Complex>,
    /// The number of compounds, those in parentheses included.
    compounds: usize,
    /// The number of `:has()` selectors and `:contains()` tests.
    regions: usize,
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
    /// The text is not a selector. The error has the position.
    pub fn parse(css: &str) -> Result<Self, SelectError> {
        parse::parse(css)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combinator {
    /// A space.
    Descendant,
    /// `>`.
    Child,
    /// `+`.
    NextSibling,
    /// `~`.
    LaterSibling,
}

/// A complex selector: compounds from right to left, each with the combinator that connects it to its left neighbour.
#[derive(Clone, Debug)]
struct Complex {
    compounds: Vec<(Compound, Option<Combinator>)>,
    /// In `:has()`, the relation of the leftmost compound to the element.
    leading: Option<Combinator>,
    /// In `:has()`, its number among the `:has()` and `:contains()` of the selector.
    slot: usize,
}

/// A compound selector, such as `a.x[href]`: conditions on one element.
#[derive(Clone, Debug, Default)]
struct Compound {
    name: Option<TypeName>,
    simple: Vec<Simple>,
    /// Its number among the compounds of the selector.
    slot: usize,
}

/// The element name in a compound selector.
#[derive(Clone, Debug)]
struct TypeName {
    /// The number of an HTML name; `None` for a custom name.
    known: Option<crate::document::names::Name>,
    /// The name in lower case.
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
    /// The position among the siblings is `step * n + offset` for some n from 0 on.
    Nth {
        step: i32,
        offset: i32,
        /// Whether positions are counted from the last sibling.
        from_end: bool,
        /// Whether only siblings with the same name are counted.
        of_type: bool,
    },
    Empty,
    Root,
    /// One of the selectors matches, or none of them if `is_negated`.
    Is {
        list: Vec<Complex>,
        is_negated: bool,
    },
    /// One of the selectors matches an element relative to this one.
    Has(Vec<Complex>),
    /// The visible text contains this text. The number is that among the `:has()` and `:contains()` of the selector.
    Contains(usize, Box<str>),
}

/// The operator of an attribute selector.
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

/// Whether `position` is `step * n + offset` for some n from 0 on.
fn is_at(position: i64, step: i32, offset: i32) -> bool {
    let distance = position - i64::from(offset);
    match i64::from(step) {
        0 => distance == 0,
        step => distance % step == 0 && distance / step >= 0,
    }
}
