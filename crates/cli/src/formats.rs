//! [`Format`]: a format in which a command writes its data.
//!
//! Each command has one table of its formats. Help, completions, error messages and the rules for `-o` follow from it.

use std::fmt;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Who reads the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A person at a terminal. The text has only characters that the terminal can show.
    Terminal,
    /// A person, in another program.
    Reader,
    /// A program that reads text.
    Program,
    /// A program that reads bytes. They are not written to a terminal.
    BinaryProgram,
}

impl Audience {
    /// Whether long lists are shortened.
    pub fn is_people(self) -> bool {
        matches!(self, Self::Terminal | Self::Reader)
    }
}

/// A row of a table of formats; `W` is how the command writes.
pub struct Format<W: 'static> {
    pub name: &'static str,
    /// What `--help` says about it, if the name does not say it.
    pub help: &'static str,
    pub audience: Audience,
    /// The flags of the command that only some formats use, and this is one of them.
    pub flags: &'static [&'static str],
    pub write: W,
}

impl<W> fmt::Debug for Format<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<W> PartialEq for Format<W> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<W> Eq for Format<W> {}

impl<W> Format<W> {
    /// The format of this name in a table.
    pub fn named(table: &'static [Self], name: &str) -> Option<&'static Self> {
        table.iter().find(|format| format.name == name)
    }

    /// Refuses the first of the flags that was given, but has no effect on this format.
    pub fn check_flags(&self, table: &'static [Self], given: &[(&str, bool)]) -> Result<(), String> {
        let Some((flag, _)) = given.iter().find(|(flag, is_given)| *is_given && !self.flags.contains(flag)) else {
            return Ok(());
        };
        let names: Vec<&str> =
            table.iter().filter(|format| format.flags.contains(flag)).map(|format| format.name).collect();
        let names = match names.split_last() {
            Some((last, first @ [_, ..])) => format!("{} and {last}", first.join(", ")),
            _ => names.concat(),
        };
        Err(format!("--{flag} is for --format {names}"))
    }
}

/// The names in a table.
pub const fn names<W, const N: usize>(table: &'static [Format<W>]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = table[at].name;
        at += 1;
    }
    names
}

/// A parser for `--format`.
pub fn parser<W: Sync>(table: &'static [Format<W>]) -> impl TypedValueParser<Value = &'static Format<W>> {
    let words = table.iter().map(|format| match format.help {
        "" => PossibleValue::new(format.name),
        help => PossibleValue::new(format.name).help(help),
    });
    PossibleValuesParser::new(words).try_map(|name| Format::named(table, &name).ok_or("no such format"))
}
