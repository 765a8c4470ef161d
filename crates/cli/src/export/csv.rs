//! Pages as CSV (RFC 4180), for spreadsheets.
//!
//! Text comes from untrusted servers, and spreadsheets evaluate text that looks like a formula. Text that begins with `=`,
//! `+`, `-`, `@` (or their full-width forms) therefore gets a leading apostrophe, as OWASP advises, unless `--raw-csv` is
//! given. Control characters are always escaped. JSON and Parquet contain the text unchanged.

use std::io::{self, Write};

use super::columns::CellKind;
use super::data::PageTable;
use crate::records::ReadError;
use argiope_core::base::escape::visible;
use serde_json::Value;

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

/// Writes the rows of a table, in the order in which pages were finished.
pub fn csv(mut table: PageTable<'_>, formulas: Formulas, out: &mut dyn Write) -> Result<(), ReadError> {
    let kinds: Vec<CellKind> = table.columns.iter().map(|column| column.kind.clone()).collect();
    write_row(out, table.columns.iter(), |out, column| write_text(out, formulas, &column.name))?;
    table.rows(|values| {
        Ok(write_row(out, kinds.iter().zip(values), |out, (kind, value)| {
            write_cell(out, formulas, kind, value.as_ref())
        })?)
    })?;
    Ok(out.flush()?)
}

/// Writes a row, one cell with each call of `write`.
fn write_row<T>(
    out: &mut dyn Write,
    cells: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut dyn Write, T) -> io::Result<()>,
) -> io::Result<()> {
    for (number, cell) in cells.enumerate() {
        if number > 0 {
            out.write_all(b",")?;
        }
        write(out, cell)?;
    }
    out.write_all(b"\r\n")
}

/// Writes a value: lists and objects as JSON.
fn write_cell(out: &mut dyn Write, formulas: Formulas, kind: &CellKind, value: Option<&Value>) -> io::Result<()> {
    match value {
        None | Some(Value::Null) if *kind == CellKind::Flag => out.write_all(b"false"),
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(text)) => write_text(out, formulas, text),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => write!(out, "{value}"),
        Some(value) => write_text(out, formulas, &value.to_string()),
    }
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
