//! Text in which tags do not count: where it ends, and the odd rules of scripts.
//!
//! Within a script, `<!--` begins a part in which `<script` and `</script` nest (once), until `-->`. Pages rely on it,
//! so all three of the standard's levels are here.

use memchr::{memchr, memchr2};

use super::tokenizer::{ends_name, starts};

/// Whether `bytes`, from a `<` on, are the end tag of `name`; `None` where they are too few to tell.
pub fn end_tag(bytes: &[u8], name: &[u8]) -> Option<bool> {
    tag(bytes, b"</", name)
}

fn tag(bytes: &[u8], open: &[u8], name: &[u8]) -> Option<bool> {
    // Without a name, no end tag is the right one.
    if name.is_empty() || !starts(bytes, open)? {
        return Some(false);
    }
    let rest = bytes.get(open.len()..).unwrap_or(&[]);
    if !starts(rest, name)? {
        return Some(false);
    }
    rest.get(name.len()).map(|&byte| ends_name(byte))
}

/// How deep in a script's comments the reading is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Level {
    #[default]
    Plain,
    /// After `<!--`.
    Escaped,
    /// After `<!--` and `<script`.
    DoubleEscaped,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptState {
    level: Level,
    /// Dashes right before, 2 at most: with a `>` they end the comment.
    dashes: u8,
}

/// What a `<` within a script begins.
pub enum ScriptStep {
    EndTag,
    /// No tag; so many bytes are read, and this is where the reading is then.
    Text(ScriptState, usize),
}

impl ScriptState {
    /// Runs over text up to the next `<`.
    pub fn skip(&mut self, bytes: &[u8]) -> Option<usize> {
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

    /// Judges the bytes from a `<` on; `None` where they are too few to tell.
    pub fn decide(self, bytes: &[u8], name: &[u8]) -> Option<ScriptStep> {
        let (level, dashes, length) = match self.level {
            Level::Plain => {
                if end_tag(bytes, name)? {
                    return Some(ScriptStep::EndTag);
                }
                // Two dashes are seen already: `<!-->` is a whole comment.
                if starts(bytes, b"<!--")? { (Level::Escaped, 2, 4) } else { (Level::Plain, 0, 1) }
            }
            Level::Escaped => {
                if end_tag(bytes, name)? {
                    return Some(ScriptStep::EndTag);
                }
                if tag(bytes, b"<", b"script")? { (Level::DoubleEscaped, 0, 8) } else { (Level::Escaped, 0, 1) }
            }
            Level::DoubleEscaped => {
                if end_tag(bytes, b"script")? {
                    (Level::Escaped, 0, 9)
                } else {
                    (Level::DoubleEscaped, 0, 1)
                }
            }
        };
        Some(ScriptStep::Text(Self { level, dashes }, length))
    }
}
