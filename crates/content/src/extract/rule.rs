//! Rules in command-line syntax: `NAME=SELECTOR`, `NAME[]=SELECTOR`.

use super::coerce::Coercion;
use super::{Field, RuleError, Source, Take, UrlFilter};
use crate::select::Selector;
use crate::structured::DataPath;

/// Limit on the bytes of a field name.
const MAX_NAME: usize = 100;
/// Limit on the characters of a rule in an error message.
const MAX_SHOWN: usize = 100;

/// Parses a rule.
pub(super) fn parse_rule(rule: &str) -> Result<Field, RuleError> {
    let shown: String = rule.chars().take(MAX_SHOWN).collect();
    let error = |message: String| RuleError { place: format!("rule {shown:?}"), message };
    let Some((name, source)) = rule.split_once('=') else {
        return Err(error("expected NAME=SELECTOR, such as price=.price".to_owned()));
    };
    let (name, many) = name.trim().strip_suffix("[]").map_or((name.trim(), false), |name| (name, true));
    check_name(name).map_err(error)?;
    let source = parse_source(source).map_err(error)?;
    Ok(Field { name: name.to_owned(), many, source, regex: None, coercion: Coercion::Text, urls: UrlFilter::default() })
}

/// Checks the name of a field. The error is a message.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let is_valid = |next: char| next.is_alphanumeric() || matches!(next, '_' | '-');
    if name.is_empty() || !name.chars().all(is_valid) || name.len() > MAX_NAME {
        return Err(format!("{name:?} is not a field name: letters, digits, _ and - are allowed"));
    }
    Ok(())
}

/// Parses the part to the right of the `=`.
pub(super) fn parse_source(source: &str) -> Result<Source, String> {
    let source = source.trim();
    let path = |path: &str| DataPath::parse(path.trim());
    if let Some(rest) = source.strip_prefix("jsonld:") {
        return path(rest).map(Source::JsonLd);
    }
    if let Some(rest) = source.strip_prefix("microdata:") {
        return path(rest).map(Source::Microdata);
    }
    for (prefix, property) in [("meta:", ""), ("og:", "og:")] {
        if let Some(rest) = source.strip_prefix(prefix) {
            let rest = rest.trim();
            if rest.is_empty() {
                return Err(format!("a name is missing after {prefix}"));
            }
            return Ok(Source::Meta(format!("{property}{rest}")));
        }
    }
    let (css, take) = split_take(source)?;
    let selector = match css.trim() {
        "" if matches!(take, Take::Text) => return Err("the selector is empty".to_owned()),
        "" => None,
        css => Some(Selector::parse(css).map_err(|error| error.to_string())?),
    };
    Ok(Source::Css(selector, take))
}

/// Splits `SELECTOR@ATTRIBUTE` at the last `@` outside of brackets and quotes.
fn split_take(source: &str) -> Result<(&str, Take), String> {
    let (mut brackets, mut quote, mut last) = (0i32, None, None);
    for (at, next) in source.char_indices() {
        match (quote, next) {
            (Some(open), _) if open == next => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(next),
            (None, '[' | '(') => brackets += 1,
            (None, ']' | ')') => brackets -= 1,
            (None, '@') if brackets == 0 => last = Some(at),
            _ => {}
        }
    }
    let Some(at) = last else { return Ok((source, Take::Text)) };
    let (css, attribute) = source.split_at(at);
    let attribute = attribute.get(1..).unwrap_or("").trim();
    let is_valid = |next: char| next.is_ascii_alphanumeric() || matches!(next, '-' | '_' | ':' | '.');
    match attribute {
        "html" => Ok((css, Take::Html)),
        "text" => Ok((css, Take::Text)),
        "" => Err("an attribute name is missing after @".to_owned()),
        name if name.chars().all(is_valid) => Ok((css, Take::Attribute(name.to_ascii_lowercase()))),
        name => Err(format!("{name:?} after @ is not an attribute name")),
    }
}
