//! Rules files.
//!
//! ```toml
//! urls = ["/catalogue/"]                       # only pages whose URL matches one of these
//!
//! [fields]
//! title = "h1"                                 # the same as `title=h1` on the command line
//! price = { select = ".price", type = "number" }
//! posted = { select = "time@datetime", type = "date" }
//! stock = { select = ".stock", regex = '(\d+) available', type = "number" }
//!
//! [fields.reviews]                             # one row per item
//! select = "li.review"
//! fields.author = ".author"
//! fields.stars = { select = "@data-stars", type = "number" }
//! ```

use regex::Regex;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::coerce::Coercion;
use super::rule::{check_name, parse_source};
use super::{Extraction, Field, RuleError, Source, Take, UrlFilter};

/// Maximum bytes of a rules file.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Maximum memory of a compiled regular expression, in bytes.
const MAX_REGEX_BYTES: usize = 4 << 20;

/// A rules file that is being parsed.
struct Reader<'a> {
    text: &'a str,
    /// The name of the file in error messages.
    name: &'a str,
}

/// A key, its position in the file, and its value.
type Entry<'t> = (&'t str, usize, &'t DeValue<'t>);

/// Parses a rules file. `name` is its name in error messages.
pub(super) fn parse(text: &str, name: &str) -> Result<Extraction, RuleError> {
    let reader = Reader { text, name };
    if text.len() > MAX_FILE_BYTES {
        return Err(reader.error(0, "", format!("a rules file has at most {MAX_FILE_BYTES} bytes")));
    }
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        reader.error(at, "", error.message().to_owned())
    })?;
    let mut extraction = Extraction::default();
    for (key, at, value) in entries(table.get_ref()) {
        match (key, value) {
            ("urls", value) => extraction.urls = reader.patterns(at, "", value)?,
            ("fields", DeValue::Table(fields)) => extraction.fields = reader.fields(fields, "")?,
            ("fields", _) => return Err(reader.error(at, "", "`fields` is a table: [fields]".to_owned())),
            _ => return Err(reader.error(at, "", format!("unknown key `{key}`; known are `urls` and `fields`"))),
        }
    }
    if extraction.fields.is_empty() {
        return Err(reader.error(0, "", "there are no fields; write them below [fields]".to_owned()));
    }
    Ok(extraction)
}

/// The entries of a table, in the order of the file.
fn entries<'t>(table: &'t DeTable<'t>) -> Vec<Entry<'t>> {
    let mut entries: Vec<Entry<'t>> =
        table.iter().map(|(key, value)| (key.get_ref().as_ref(), key.span().start, value.get_ref())).collect();
    entries.sort_by_key(|(_, at, _)| *at);
    entries
}

impl Reader<'_> {
    /// An error at this position of the file. `field` is the name of the field, or empty.
    fn error(&self, at: usize, field: &str, message: String) -> RuleError {
        let line = self.text.get(..at).unwrap_or("").matches('\n').count() + 1;
        let field = if field.is_empty() { String::new() } else { format!(", field `{field}`") };
        RuleError { place: format!("{} line {line}{field}", self.name), message }
    }

    /// Parses the fields of a table. `outer` is the name of the field whose items have these fields, or empty.
    fn fields(&self, table: &DeTable<'_>, outer: &str) -> Result<Vec<Field>, RuleError> {
        let mut fields = Vec::new();
        for (key, at, value) in entries(table) {
            let (name, many) = key.strip_suffix("[]").map_or((key, false), |name| (name, true));
            let full_name = if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") };
            check_name(name).map_err(|message| self.error(at, "", message))?;
            let mut field = self.field(value, at, &full_name, !outer.is_empty())?;
            field.name = name.to_owned();
            field.many |= many;
            fields.push(field);
        }
        Ok(fields)
    }

    /// The text of a value; an error if the value is not a text.
    fn text<'v>(&self, value: &'v DeValue<'_>, at: usize, field: &str, key: &str) -> Result<&'v str, RuleError> {
        match value {
            DeValue::String(text) => Ok(text.as_ref()),
            _ => Err(self.error(at, field, format!("`{key}` is a text in quotes"))),
        }
    }

    /// Parses a field. `is_inner`: it is a field of an item.
    fn field(&self, value: &DeValue<'_>, at: usize, name: &str, is_inner: bool) -> Result<Field, RuleError> {
        let mut field = Field {
            name: String::new(),
            many: false,
            source: Source::Css(None, Take::Text),
            regex: None,
            coercion: Coercion::Text,
            urls: UrlFilter::default(),
        };
        let table = match value {
            DeValue::String(source) => {
                field.source = parse_source(source).map_err(|message| self.error(at, name, message))?;
                return Ok(field);
            }
            DeValue::Table(table) => table,
            _ => {
                return Err(self.error(
                    at,
                    name,
                    "a field is a selector in quotes, or a table with `select`".to_owned(),
                ));
            }
        };
        // Except for `many`, each value has its position in the file, for error messages.
        let (mut select, mut kind, mut format, mut decimal, mut many, mut items) = (None, None, None, None, None, None);
        for (key, at, value) in entries(table) {
            match key {
                "select" => select = Some((self.text(value, at, name, key)?, at)),
                "regex" => {
                    let written = self.text(value, at, name, key)?;
                    field.regex = Some(self.pattern(written, at, name)?);
                }
                "type" => kind = Some((self.text(value, at, name, key)?, at)),
                "format" => format = Some((self.text(value, at, name, key)?.to_owned(), at)),
                "decimal" => match self.text(value, at, name, key)? {
                    "." => decimal = Some(('.', at)),
                    "," => decimal = Some((',', at)),
                    _ => return Err(self.error(at, name, "`decimal` is \".\" or \",\"".to_owned())),
                },
                "many" => match value {
                    DeValue::Boolean(truth) => many = Some(*truth),
                    _ => return Err(self.error(at, name, "`many` is true or false".to_owned())),
                },
                "urls" if !is_inner => field.urls = self.patterns(at, name, value)?,
                "fields" => match value {
                    DeValue::Table(_) if is_inner => {
                        return Err(self.error(at, name, "items within items are not supported".to_owned()));
                    }
                    DeValue::Table(table) => items = Some((self.fields(table, name)?, at)),
                    _ => return Err(self.error(at, name, "`fields` is a table".to_owned())),
                },
                _ => {
                    let known = "select, regex, type, format, decimal, many, urls and fields";
                    return Err(self.error(at, name, format!("unknown key `{key}`; known are {known}")));
                }
            }
        }
        let Some((select, select_at)) = select else {
            return Err(self.error(at, name, "`select` is missing".to_owned()));
        };
        field.source = parse_source(select).map_err(|message| self.error(select_at, name, message))?;
        field.many = many.unwrap_or(items.is_some());
        field.coercion = self.coercion(name, kind, format, decimal)?;
        if let Some((inner, at)) = items {
            if field.regex.is_some() || field.coercion != Coercion::Text {
                return Err(self.error(at, name, "items have no regex and no type of their own".to_owned()));
            }
            field.source = match field.source {
                Source::Css(Some(selector), Take::Text) => Source::Items(selector, inner),
                _ => {
                    return Err(self.error(
                        select_at,
                        name,
                        "items are selected by a CSS selector without @".to_owned(),
                    ));
                }
            };
        }
        Ok(field)
    }

    /// The type of a field's value. `kind`, `format` and `decimal` are the settings of the field with their positions.
    fn coercion(
        &self,
        name: &str,
        kind: Option<(&str, usize)>,
        format: Option<(String, usize)>,
        decimal: Option<(char, usize)>,
    ) -> Result<Coercion, RuleError> {
        let kind_name = kind.map_or("text", |(kind, _)| kind);
        if let Some((_, at)) = &format
            && kind_name != "date"
        {
            return Err(self.error(*at, name, "`format` needs type = \"date\"".to_owned()));
        }
        if let Some((_, at)) = &decimal
            && kind_name != "number"
        {
            return Err(self.error(*at, name, "`decimal` needs type = \"number\"".to_owned()));
        }
        match kind_name {
            "text" => Ok(Coercion::Text),
            "number" => Ok(Coercion::Number(decimal.map(|(decimal, _)| decimal))),
            "date" => Ok(Coercion::Date(format.map(|(format, _)| format))),
            other => {
                let at = kind.map_or(0, |(_, at)| at);
                Err(self.error(at, name, format!("unknown type {other:?}; known are text, number and date")))
            }
        }
    }

    /// Compiles a regular expression.
    fn pattern(&self, written: &str, at: usize, field: &str) -> Result<Regex, RuleError> {
        let built = regex::RegexBuilder::new(written).size_limit(MAX_REGEX_BYTES).build();
        built.map_err(|error| {
            let reason = error.to_string();
            let last = reason.lines().last().unwrap_or("").trim().trim_start_matches("error: ");
            self.error(at, field, format!("the regular expression {written:?} cannot be used: {last}"))
        })
    }

    /// Parses one pattern, or an array of them.
    fn patterns(&self, at: usize, field: &str, value: &DeValue<'_>) -> Result<UrlFilter, RuleError> {
        let patterns = match value {
            DeValue::String(pattern) => vec![self.pattern(pattern, at, field)?],
            DeValue::Array(patterns) => {
                let mut parsed = Vec::new();
                for pattern in patterns.iter() {
                    let at = Spanned::span(pattern).start;
                    parsed.push(self.pattern(self.text(pattern.get_ref(), at, field, "urls")?, at, field)?);
                }
                parsed
            }
            _ => return Err(self.error(at, field, "`urls` is a regular expression or an array of them".to_owned())),
        };
        Ok(UrlFilter::new(patterns))
    }
}
