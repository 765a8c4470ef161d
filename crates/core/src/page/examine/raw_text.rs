//! Raw text elements: where they end, and the special rules of scripts.
//!
//! Within a script, `<!--` begins a section up to `-->`. In this section, a `<script` and its `</script` are text. Pages
//! rely on that, so all three escape levels of the standard are implemented.

use memchr::{memchr, memchr2};

use super::characters::{ends_name, starts_with};

/// Whether `bytes`, from a `<` on, are the end tag of `name`; `None` if there are too few bytes to decide.
pub fn is_end_tag(bytes: &[u8], name: &[u8]) -> Option<bool> {
    is_tag(bytes, b"</", name)
}

/// Whether `bytes` are `open`, then `name`, then a byte that ends a name; `None` if there are too few bytes to decide.
fn is_tag(bytes: &[u8], open: &[u8], name: &[u8]) -> Option<bool> {
    // Without a name there is no matching end tag.
    if name.is_empty() || !starts_with(bytes, open)? {
        return Some(false);
    }
    let rest = bytes.get(open.len()..).unwrap_or(&[]);
    if !starts_with(rest, name)? {
        return Some(false);
    }
    rest.get(name.len()).map(|&byte| ends_name(byte))
}

/// The escape level within a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Level {
    #[default]
    Plain,
    /// After `<!--`.
    Escaped,
    /// After `<!--` and `<script`.
    DoubleEscaped,
}

/// The state within a script.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptState {
    level: Level,
    /// Number of dashes right before this position, at most 2. A `>` after two dashes ends the section.
    dashes: u8,
}

/// The meaning of a `<` within a script.
pub enum ScriptStep {
    EndTag,
    /// Not a tag: the new state and the number of bytes consumed.
    Text(ScriptState, usize),
}

impl ScriptState {
    /// Skips text up to the next `<`, and returns its position.
    pub fn skip_to_less_than(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut index = 0;
        while let Some(&byte) = bytes.get(index) {
            if self.level == Level::Plain {
                return Some(index + memchr(b'<', bytes.get(index..)?)?);
            }
            match byte {
                b'<' => return Some(index),
                b'-' => self.dashes = (self.dashes + 1).min(2),
                b'>' if self.dashes == 2 => *self = Self::default(),
                _ => {
                    self.dashes = 0;
                    index += memchr2(b'<', b'-', bytes.get(index..)?)?;
                    continue;
                }
            }
            index += 1;
        }
        None
    }

    /// Decides about the bytes from a `<` on; `None` if there are too few.
    pub fn decide(self, bytes: &[u8], name: &[u8]) -> Option<ScriptStep> {
        // The new state, and the number of bytes that are consumed.
        let (level, dashes, length) = match self.level {
            Level::Plain => {
                if is_end_tag(bytes, name)? {
                    return Some(ScriptStep::EndTag);
                }
                // The dashes of `<!--` count, because `<!-->` is a complete section.
                if starts_with(bytes, b"<!--")? { (Level::Escaped, 2, b"<!--".len()) } else { (Level::Plain, 0, 1) }
            }
            Level::Escaped => {
                if is_end_tag(bytes, name)? {
                    return Some(ScriptStep::EndTag);
                }
                // The byte that ends the name is consumed too.
                let length = b"<script".len() + 1;
                if is_tag(bytes, b"<", b"script")? { (Level::DoubleEscaped, 0, length) } else { (Level::Escaped, 0, 1) }
            }
            Level::DoubleEscaped => {
                if is_end_tag(bytes, b"script")? {
                    (Level::Escaped, 0, b"</script".len() + 1)
                } else {
                    (Level::DoubleEscaped, 0, 1)
                }
            }
        };
        Some(ScriptStep::Text(Self { level, dashes }, length))
    }
}
