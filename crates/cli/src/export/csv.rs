//! Pages as CSV (RFC 4180), for spreadsheets.
//!
//! Text comes from untrusted servers, and spreadsheets evaluate text that looks like a formula. Text that begins with `=`,
//! `+`, `-`, `@` (or their full-width forms) therefore gets a leading apostrophe, as OWASP advises, unless `--raw-csv` is
//! given. Control characters are always escaped. JSON and Parquet contain the text unchanged.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use super::columns::{COLUMNS, Value};
use super::data::{self, DataSource};
use crate::records::ReadError;
use argiope_content::Extraction;
use argiope_core::base::escape::visible;

/// How cells are written that a spreadsheet would evaluate as formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formulas {
    /// With a leading apostrophe, so that spreadsheets show them as text.
    Escaped,
    /// Unchanged.
    Raw,
}

impl Formulas {
    /// The choice of the user.
    pub fn from_flag(raw_csv: bool) -> Self {
        if raw_csv { Self::Raw } else { Self::Escaped }
    }
}

/// Writes one row per page of the latest round, in the order in which pages were finished. A page with extracted items has
/// one row per item.
///
/// The table has the columns of extracted data that `expected` names, even if no page has a value for them.
pub fn csv(
    directory: &Path,
    rules: Option<&Extraction>,
    expected: &[String],
    formulas: Formulas,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let mut source = DataSource::new(directory, rules)?.with_columns(expected);
    let extracted = source.columns()?;
    let names = COLUMNS.iter().map(|column| column.name).chain(extracted.iter().map(|column| column.name.as_str()));
    write_row(out, formulas, names.map(|name| Value::Text(Some(name))))?;
    source.pages(|record| {
        for row in 0..data::row_count(record) {
            let texts: Vec<Option<Cow<'_, str>>> =
                extracted.iter().map(|column| column.value(record, row).map(data::text)).collect();
            let values = COLUMNS.iter().map(|column| (column.value)(record));
            write_row(out, formulas, values.chain(texts.iter().map(|text| Value::Text(text.as_deref()))))?;
        }
        Ok(())
    })?;
    Ok(out.flush()?)
}

fn write_row<'a>(out: &mut dyn Write, formulas: Formulas, values: impl Iterator<Item = Value<'a>>) -> io::Result<()> {
    for (number, value) in values.enumerate() {
        if number > 0 {
            out.write_all(b",")?;
        }
        match value {
            Value::Text(_) | Value::Time(_) | Value::List(_) | Value::Map(_) => {
                if let Some(text) = value.text() {
                    write_text(out, formulas, &text)?;
                }
            }
            Value::Number(Some(number)) => write!(out, "{number}")?,
            Value::Flag(true) => out.write_all(b"true")?,
            Value::Flag(false) => out.write_all(b"false")?,
            Value::Number(None) => {}
        }
    }
    out.write_all(b"\r\n")
}

/// Writes a field with untrusted text.
pub fn write_text(out: &mut dyn Write, formulas: Formulas, text: &str) -> io::Result<()> {
    // Spreadsheets ignore white space before a formula.
    let is_escaped =
        formulas == Formulas::Escaped && text.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    let text = &*visible(text);
    let apostrophe = if is_escaped { "'" } else { "" };
    // Fields with a semicolon are quoted too, because some spreadsheets treat it as a separator.
    if is_escaped || text.contains([',', ';', '"']) {
        write!(out, "\"{apostrophe}{}\"", text.replace('"', "\"\""))
    } else {
        out.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_escaped_and_cannot_be_a_formula() {
        for (text, field) in [
            ("plain", "plain"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", "two\\nlines"),
            ("a;=1+1", "\"a;=1+1\""),
            ("a\u{1b}[2J\u{202e}", "a\\x1b[2J\\u{202e}"),
            ("\u{3000}＝1", "\"'\u{3000}＝1\""),
            (" =1", "\"' =1\""),
            ("=1+1", "\"'=1+1\""),
            ("+49", "\"'+49\""),
            ("-x", "\"'-x\""),
            ("@sum", "\"'@sum\""),
            ("\t=x", "\"'\\t=x\""),
            ("\r@x", "\"'\\r@x\""),
            ("a=b", "a=b"),
        ] {
            assert_eq!(field_of(Formulas::Escaped, text), field);
        }
    }

    #[test]
    fn raw_text_may_be_a_formula_but_has_no_control_characters() {
        for (text, field) in [
            ("=1+1", "=1+1"),
            (" ＝1", " ＝1"),
            ("-x", "-x"),
            ("=a,\"b\"", "\"=a,\"\"b\"\"\""),
            ("\t=x\u{1b}[2J\u{202e}", "\\t=x\\x1b[2J\\u{202e}"),
        ] {
            assert_eq!(field_of(Formulas::Raw, text), field);
        }
    }

    fn field_of(formulas: Formulas, text: &str) -> String {
        let mut out = Vec::new();
        write_text(&mut out, formulas, text).unwrap();
        String::from_utf8(out).unwrap()
    }
}
