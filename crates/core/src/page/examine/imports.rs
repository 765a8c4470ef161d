//! [`ImportReader`]: finds the modules that a script imports. [`import_map`]: those that an import map names.
//!
//! The reader is fed in chunks and reads every byte once. It knows comments, strings, templates and regular expressions
//! well enough to find `import x from "./a.js"`, `export … from`, `import "./a.js"` and `import("./a.js")`. A `/` after a
//! name or a closing bracket is taken for a division. Names that an import map resolves are in that map.
//!
//! Invariant: the result does not depend on how the script is split.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Longer specifiers are not read.
const MAX_SPECIFIER: usize = 4_096;
/// The longest name with a meaning is `import`, `export` or `return`.
const MAX_NAME: usize = 8;
/// How deep templates within templates are read.
const MAX_TEMPLATES: usize = 16;
/// A longer import map is not read.
pub const MAX_IMPORT_MAP: usize = 256 * 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Plain,
    Name,
    /// After a `/` that may begin a comment; `true` if it may also begin a regular expression.
    Slash(bool),
    LineComment,
    BlockComment,
    /// After a `*` in a comment.
    CommentStar,
    String(u8),
    StringEscape(u8),
    Template,
    TemplateEscape,
    /// After a `$` in a template.
    TemplateDollar,
    /// Within a regular expression; `true` within a class.
    Regex(bool),
    RegexEscape(bool),
}

/// The last token, as far as it decides about the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    /// The beginning, or an operator or an opening bracket: a `/` begins a regular expression.
    #[default]
    Operator,
    /// A dot: the next name is that of a property.
    Dot,
    /// A name, a number, a string or a closing bracket.
    Operand,
    /// `import` or `from`: a string that follows is a module.
    Import,
    From,
    /// `import(`.
    ImportCall,
    /// The string after it, which is a module if it is the whole argument.
    Argument,
}

/// Reads a script.
#[derive(Debug, Default)]
pub struct ImportReader {
    state: State,
    last: Last,
    /// The current name, up to one byte more than [`MAX_NAME`].
    name: Vec<u8>,
    /// The current string, if it may be a module.
    string: Vec<u8>,
    /// The number of open braces within each open template.
    templates: Vec<u32>,
}

impl ImportReader {
    /// Reads a chunk. Calls `found` with the specifiers of modules that are URLs.
    pub fn feed(&mut self, bytes: &[u8], mut found: impl FnMut(&str)) {
        for &byte in bytes {
            self.read(byte, &mut found);
        }
    }

    fn read(&mut self, byte: u8, found: &mut impl FnMut(&str)) {
        match self.state {
            State::Plain => self.read_plain(byte, found),
            State::Name if is_name(byte) => {
                if self.name.len() <= MAX_NAME {
                    self.name.push(byte);
                }
            }
            State::Name => {
                self.end_name();
                self.state = State::Plain;
                self.read_plain(byte, found);
            }
            State::Slash(_) if byte == b'/' => self.state = State::LineComment,
            State::Slash(_) if byte == b'*' => self.state = State::BlockComment,
            State::Slash(true) => {
                self.state = State::Regex(false);
                self.read(byte, found);
            }
            State::Slash(false) => {
                (self.state, self.last) = (State::Plain, Last::Operator);
                self.read_plain(byte, found);
            }
            State::LineComment if matches!(byte, b'\n' | b'\r') => self.state = State::Plain,
            State::LineComment => {}
            State::BlockComment | State::CommentStar => {
                self.state = match (self.state, byte) {
                    (State::CommentStar, b'/') => State::Plain,
                    (_, b'*') => State::CommentStar,
                    _ => State::BlockComment,
                };
            }
            State::String(quote) if byte == quote => self.end_string(found),
            State::String(quote) if byte == b'\\' => self.state = State::StringEscape(quote),
            // A string does not span lines.
            State::String(_) if byte == b'\n' => (self.state, self.last) = (State::Plain, Last::Operand),
            State::StringEscape(quote) => {
                // `\/` is a slash. Other escapes do not occur in names of modules.
                self.push_string(if byte == b'/' { byte } else { b'\\' });
                self.state = State::String(quote);
            }
            State::String(_) => self.push_string(byte),
            State::Template | State::TemplateEscape | State::TemplateDollar => self.read_template(byte),
            State::Regex(in_class) => match byte {
                b'\\' => self.state = State::RegexEscape(in_class),
                b'[' => self.state = State::Regex(true),
                b']' => self.state = State::Regex(false),
                b'/' if !in_class => (self.state, self.last) = (State::Plain, Last::Operand),
                // It was none.
                b'\n' => (self.state, self.last) = (State::Plain, Last::Operator),
                _ => {}
            },
            State::RegexEscape(in_class) => self.state = State::Regex(in_class),
        }
    }

    fn read_plain(&mut self, byte: u8, found: &mut impl FnMut(&str)) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b')' | b',' if self.last == Last::Argument => {
                self.report(found);
                self.last = Last::Operand;
            }
            b'/' => self.state = State::Slash(matches!(self.last, Last::Operator)),
            b'"' | b'\'' => {
                self.string.clear();
                self.state = State::String(byte);
            }
            b'`' => self.state = State::Template,
            b'{' => {
                self.templates.last_mut().into_iter().for_each(|depth| *depth = depth.saturating_add(1));
                self.last = Last::Operator;
            }
            b'}' => match self.templates.last_mut() {
                Some(0) => {
                    self.templates.pop();
                    self.state = State::Template;
                }
                Some(depth) => (*depth, self.last) = (*depth - 1, Last::Operator),
                None => self.last = Last::Operator,
            },
            b')' | b']' => self.last = Last::Operand,
            b'.' => self.last = Last::Dot,
            b'(' if self.last == Last::Import => self.last = Last::ImportCall,
            _ if is_name(byte) => {
                self.name.clear();
                self.name.push(byte);
                self.state = State::Name;
            }
            _ => self.last = Last::Operator,
        }
    }

    fn read_template(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::TemplateEscape, _) => State::Template,
            (State::TemplateDollar, b'{') if self.templates.len() < MAX_TEMPLATES => {
                self.templates.push(0);
                self.last = Last::Operator;
                State::Plain
            }
            (_, b'`') => {
                self.last = Last::Operand;
                State::Plain
            }
            (_, b'\\') => State::TemplateEscape,
            (_, b'$') => State::TemplateDollar,
            _ => State::Template,
        };
    }

    fn end_name(&mut self) {
        let is_property = self.last == Last::Dot;
        self.last = match &*self.name {
            _ if is_property => Last::Operand,
            b"import" => Last::Import,
            b"from" => Last::From,
            b"return" | b"typeof" | b"case" | b"in" | b"of" | b"else" | b"do" | b"void" | b"delete" | b"throw"
            | b"new" | b"yield" | b"await" => Last::Operator,
            _ => Last::Operand,
        };
    }

    fn push_string(&mut self, byte: u8) {
        let may_be_module = matches!(self.last, Last::Import | Last::From | Last::ImportCall);
        if may_be_module && self.string.len() <= MAX_SPECIFIER {
            self.string.push(byte);
        }
    }

    fn end_string(&mut self, found: &mut impl FnMut(&str)) {
        self.state = State::Plain;
        if self.last == Last::ImportCall {
            self.last = Last::Argument;
            return;
        }
        if matches!(self.last, Last::Import | Last::From) {
            self.report(found);
        }
        self.last = Last::Operand;
    }

    /// Reports the last string, if it is a URL.
    fn report(&self, found: &mut impl FnMut(&str)) {
        if let Some(specifier) = std::str::from_utf8(&self.string).ok().filter(|specifier| is_url(specifier)) {
            found(specifier);
        }
    }
}

/// Whether a byte belongs to a name or a number. Bytes beyond ASCII do.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'#') || byte >= 0x80
}

/// Whether a specifier is a URL, and not a name that an import map resolves.
fn is_url(specifier: &str) -> bool {
    let starts = ["/", "./", "../", "http://", "https://"];
    specifier.len() <= MAX_SPECIFIER
        && !specifier.contains('\\')
        && starts.iter().any(|start| specifier.starts_with(start))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ImportMap {
    imports: BTreeMap<String, Option<String>>,
    scopes: BTreeMap<String, BTreeMap<String, Option<String>>>,
}

/// The URLs of modules that an import map names. Those of folders, which end in a slash, are left out.
pub fn import_map(text: &[u8]) -> Vec<String> {
    let map: ImportMap = serde_json::from_slice(text).unwrap_or_default();
    let scoped = map.scopes.into_values().flatten();
    let urls = map.imports.into_iter().chain(scoped).filter_map(|(_, url)| url);
    urls.filter(|url| is_url(url) && !url.ends_with('/')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(script: &str) -> Vec<String> {
        let mut found = Vec::new();
        ImportReader::default().feed(script.as_bytes(), |url| found.push(url.to_owned()));
        let mut split = Vec::new();
        let mut reader = ImportReader::default();
        script.as_bytes().chunks(1).for_each(|byte| reader.feed(byte, |url| split.push(url.to_owned())));
        assert_eq!(found, split, "{script}");
        found
    }

    #[test]
    fn imported_modules_are_found() {
        for (script, expected) in [
            ("import a from './a.js'; import {b} from \"/b.js\";import'./c.js'", &["./a.js", "/b.js", "./c.js"][..]),
            ("export * from '../d.js'\nexport{x}from'https://h/e.js'", &["../d.js", "https://h/e.js"]),
            ("const x = await import('./f.js').then(import(/* why */ './g.js'))", &["./f.js", "./g.js"]),
            ("import a from './a.js' with {type: 'json'}", &["./a.js"]),
            ("import react from 'react'; import('./' + name); import(`./x.js`)", &[]),
            ("// import './x.js'\n/* import './x.js' **/ import './y.js'", &["./y.js"]),
            ("x = \"import './x.js'\"; y = `import './x.js' ${import('./z.js')} from './x.js'`", &["./z.js"]),
            ("a = /import '.\\/x.js/; b = /[/]import '.x/; import './y.js'", &["./y.js"]),
            ("a.import('./x.js'); Array.from('./x.js'); from('./x.js'); a / b; import './y.js'", &["./y.js"]),
            ("import '.\\/y.js'; import './\\u0061.js'", &["./y.js"]),
            ("`${`${{}}`}` ; import './y.js'", &["./y.js"]),
            ("", &[]),
        ] {
            assert_eq!(imports(script), expected, "{script}");
        }
    }

    #[test]
    fn the_modules_of_an_import_map_are_found() {
        let map = br#"{"imports": {"a": "./a.js", "b/": "/b/", "c": null, "d": "bare"},
            "scopes": {"/x/": {"a": "https://h/x.js"}}, "integrity": {}}"#;
        assert_eq!(import_map(map), ["./a.js", "https://h/x.js"]);
        assert!(import_map(b"no JSON").is_empty());
    }
}
