//! The table of settings: each setting is declared once, with its type, default, help and class.
//!
//! [`settings!`](crate::settings) makes a struct and a table ([`Settings::TABLE`]) of the same entries: [`Config`] is
//! the one of a crawl. The command makes tables of its own in the same way. Everything else is derived from the tables:
//! flags, keys of the configuration file and its JSON Schema, stored settings, what a fleet shares, what must be the
//! same when a crawl resumes, and pages of the documentation. CONTRIBUTING.md says how to add a setting.
//!
//! Invariant: every setting has one [`SettingClass`], because an entry begins with it.

#[deny(missing_docs)]
mod table;
mod value;

use std::ffi::OsString;

use crate::base::value::ConfigError;

pub use table::Config;
pub use value::{SettingForm, SettingValue, parse_address, parse_text, single_text};

/// A set of commands, one bit each.
pub type Commands = u8;
/// `argiope crawl`.
pub const CRAWL: Commands = 1;
/// `argiope fetch`.
pub const FETCH: Commands = 2;
/// `argiope robots`.
pub const ROBOTS: Commands = 4;
/// `argiope demo`.
pub const DEMO: Commands = 8;
/// `argiope check`.
pub const CHECK: Commands = 16;
/// `argiope render`.
pub const RENDER: Commands = 32;
/// `argiope export`.
pub const EXPORT: Commands = 64;

/// Who chooses a setting in a fleet, and whether it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingClass {
    /// The process that creates a crawl chooses it for all processes.
    Shared,
    /// It must be the same in all processes, but each process must be given it: a path of one machine is not taken from
    /// a store.
    Agreed,
    /// Each process has its own: files, addresses, trust, and what depends on the machine.
    Local,
    /// As [`Local`](Self::Local), and neither stored nor repeated in messages.
    Secret,
}

/// Whether a setting may differ when a crawl resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// The new value applies to this run.
    Free,
    /// The new value applies to all known links.
    Rejudged,
    /// It must be the same: it is a part of the identity of the crawl.
    Fixed,
}

/// What is known about a setting. The functions [`shared`], [`agreed`], [`local`] and [`secret`] begin one.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name of its field.
    pub name: &'static str,
    /// Its key in a file, and its long flag: the name with hyphens.
    pub key: &'static str,
    /// Its help: the first paragraph is the short one. Names of settings are in backquotes.
    pub doc: &'static str,
    /// The heading of its flag.
    pub heading: &'static str,
    /// The commands that accept it as a flag.
    pub commands: Commands,
    pub class: SettingClass,
    /// Whether it is written to records and crawl directories.
    pub is_stored: bool,
    pub resume: Resume,
    /// The placeholder of its value in the help.
    pub value: &'static str,
    pub form: SettingForm,
    pub is_list: bool,
    /// Whether the value is how often the flag is given.
    pub is_counted: bool,
    /// The default as texts: none for a setting without a value.
    pub default: fn() -> Vec<String>,
    /// Says whether texts are a value.
    pub parse: fn(&[OsString]) -> Result<(), String>,
    /// The default in the help, where the program computes it.
    pub computed_default: Option<&'static str>,
    pub short: Option<char>,
    /// The unit of a number without one.
    pub unit: &'static str,
    /// The commands whose `-h` shows it.
    pub common: Commands,
    /// The commands that accept it without effect, so that scripts can pass the same flags to several commands.
    pub unused: Commands,
    /// The help of commands for which it differs.
    pub texts: &'static [(Commands, &'static str)],
    /// The setting without which this one has no effect.
    pub needs: Option<&'static str>,
    /// The setting that cannot be combined with this one.
    pub contradicts: Option<&'static str>,
    /// The page of the documentation that says more.
    pub page: Option<&'static str>,
}

const fn setting(class: SettingClass, value: &'static str) -> Setting {
    Setting {
        name: "",
        key: "",
        doc: "",
        heading: "",
        commands: 0,
        class,
        is_stored: !matches!(class, SettingClass::Secret),
        resume: Resume::Free,
        value,
        form: SettingForm::Text,
        is_list: false,
        is_counted: false,
        default: Vec::new,
        parse: |_| Ok(()),
        computed_default: None,
        short: None,
        unit: "",
        common: 0,
        unused: 0,
        texts: &[],
        needs: None,
        contradicts: None,
        page: None,
    }
}

/// A setting of the class [`SettingClass::Shared`]. `value` is the placeholder of its value, empty for a switch.
pub const fn shared(value: &'static str) -> Setting {
    setting(SettingClass::Shared, value)
}

/// A setting of the class [`SettingClass::Agreed`].
pub const fn agreed(value: &'static str) -> Setting {
    setting(SettingClass::Agreed, value)
}

/// A setting of the class [`SettingClass::Local`].
pub const fn local(value: &'static str) -> Setting {
    setting(SettingClass::Local, value)
}

/// A setting of the class [`SettingClass::Secret`].
pub const fn secret(value: &'static str) -> Setting {
    setting(SettingClass::Secret, value)
}

impl Setting {
    /// Read but never written.
    pub const fn unstored(self) -> Self {
        Self { is_stored: false, ..self }
    }

    /// A part of the identity of the crawl.
    pub const fn fixed(self) -> Self {
        Self { resume: Resume::Fixed, ..self }
    }

    /// May change when a crawl resumes; the new value applies to all known links.
    pub const fn rejudged(self) -> Self {
        Self { resume: Resume::Rejudged, ..self }
    }

    pub const fn short(self, short: char) -> Self {
        Self { short: Some(short), ..self }
    }

    /// The value is how often the flag is given.
    pub const fn counted(self) -> Self {
        Self { is_counted: true, ..self }
    }

    /// A number without a unit has this one.
    pub const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// In the `-h` of these commands.
    pub const fn common(self, common: Commands) -> Self {
        Self { common, ..self }
    }

    /// Accepted without effect by these commands.
    pub const fn unused(self, unused: Commands) -> Self {
        Self { unused, ..self }
    }

    /// Also a flag of these commands, which do not have all flags of the heading.
    pub const fn also(self, commands: Commands) -> Self {
        Self { commands: self.commands | commands, ..self }
    }

    /// The help of some commands.
    pub const fn texts(self, texts: &'static [(Commands, &'static str)]) -> Self {
        Self { texts, ..self }
    }

    /// The default that the program computes, in words.
    pub const fn default_is(self, words: &'static str) -> Self {
        Self { computed_default: Some(words), ..self }
    }

    /// Has no effect without the setting of this name.
    pub const fn needs(self, name: &'static str) -> Self {
        Self { needs: Some(name), ..self }
    }

    /// Cannot be combined with the setting of this name.
    pub const fn contradicts(self, name: &'static str) -> Self {
        Self { contradicts: Some(name), ..self }
    }

    pub const fn page(self, page: &'static str) -> Self {
        Self { page: Some(page), ..self }
    }

    /// The paragraphs of the help, each on one line, for a command. `word` is how settings are named there.
    pub fn paragraphs(&self, command: Commands, word: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let own = self.own_text(command);
        let lines: Vec<&str> = own.unwrap_or(self.doc).lines().map(str::trim).collect();
        let mut paragraphs: Vec<String> = lines.split(|line| line.is_empty()).map(|part| part.join(" ")).collect();
        paragraphs.retain(|paragraph| !paragraph.is_empty());
        for paragraph in &mut paragraphs {
            let parts = paragraph.split('`').enumerate();
            // Parts with odd indexes are in backquotes.
            *paragraph = parts
                .map(|(index, part)| match (index % 2 == 1).then(|| word(part)) {
                    None => part.to_owned(),
                    Some(Some(word)) => word,
                    Some(None) => format!("`{part}`"),
                })
                .collect();
        }
        if let Some(first) = paragraphs.first_mut() {
            first.truncate(first.trim_end_matches('.').len());
            // A text for one command says itself what the program computes there.
            let is_shown = own.is_none() || self.computed_default.is_none();
            if let Some(default) = self.shown_default().filter(|_| is_shown) {
                *first += &format!(" [default: {default}]");
            }
        }
        paragraphs
    }

    /// The help that only this command has.
    fn own_text(&self, command: Commands) -> Option<&'static str> {
        self.texts.iter().find(|(commands, _)| commands & command != 0).map(|(_, text)| *text)
    }

    /// The default, if the help names one.
    pub fn shown_default(&self) -> Option<String> {
        let is_shown = self.form != SettingForm::Switch && !self.is_list && !self.is_counted;
        let value = is_shown.then(self.default);
        self.computed_default.map(str::to_owned).or_else(|| value?.pop())
    }

    /// Whether these texts are a value. The error is the problem, for the user.
    pub fn check(&self, texts: &[OsString]) -> Result<(), String> {
        (self.parse)(&texts.iter().map(|text| self.with_unit(text)).collect::<Vec<_>>())
    }

    /// A text with the unit that a number without one has.
    fn with_unit(&self, text: &OsString) -> OsString {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let mut text = text.clone();
        if !self.unit.is_empty() && text.to_str().is_some_and(is_number) {
            text.push(self.unit);
        }
        text
    }
}

/// A struct of settings, made with [`settings!`](crate::settings).
pub trait Settings: Clone + Default + 'static {
    /// The settings in the order of the fields.
    const TABLE: &'static [Setting];

    /// Sets a setting to the value of these texts, of which there is one unless it is a list. An unknown name changes
    /// nothing.
    fn set_texts(&mut self, name: &str, texts: &[OsString]) -> Result<(), String>;

    /// The value of a setting as texts: none for a setting without a value.
    fn texts(&self, name: &str) -> Vec<String>;

    /// Gives a setting the value that it has in `from`.
    fn copy(&mut self, name: &str, from: &Self);

    /// Whether a setting has the same value in both.
    fn is_same(&self, name: &str, other: &Self) -> bool;

    /// The setting with this name.
    fn find(name: &str) -> Option<&'static Setting> {
        Self::TABLE.iter().find(|setting| setting.name == name)
    }

    /// Every key that a configuration file may have.
    fn keys() -> Vec<&'static str> {
        Self::TABLE.iter().map(|setting| setting.key).collect()
    }

    /// Sets a setting as [`set_texts`](Self::set_texts), with the unit that a number without one has. The error does not
    /// repeat a secret.
    fn set(&mut self, setting: &Setting, texts: &[OsString]) -> Result<(), ConfigError> {
        let with_units: Vec<OsString> = texts.iter().map(|text| setting.with_unit(text)).collect();
        self.set_texts(setting.name, &with_units).map_err(|problem| {
            let is_secret = setting.class == SettingClass::Secret;
            let value = texts.first().filter(|_| !is_secret).map_or("…".into(), |text| text.to_string_lossy());
            ConfigError::new(setting.key, value, problem)
        })
    }

    /// Checks that all paths are UTF-8, because they are stored with the settings as text.
    fn check_paths(&self) -> Result<(), ConfigError> {
        let mut paths = Self::TABLE.iter().filter(|setting| setting.form == SettingForm::Path);
        match paths.find_map(|setting| Some((setting.key, self.bad_path(setting.name)?))) {
            Some((key, path)) => Err(ConfigError::new(key, path, "its name is not UTF-8; rename it")),
            None => Ok(()),
        }
    }

    /// The path of a setting if it is not UTF-8, made readable.
    fn bad_path(&self, name: &str) -> Option<String>;
}

/// The name of a field as the key of a file: hyphens in place of underscores. `N` is its length.
pub const fn hyphenated<const N: usize>(name: &str) -> [u8; N] {
    let (mut key, mut index) = ([b'-'; N], 0);
    while index < N {
        if name.as_bytes()[index] != b'_' {
            key[index] = name.as_bytes()[index];
        }
        index += 1;
    }
    key
}

/// Declares settings: a struct with one field for each, its defaults, how it is read and written, and its table
/// ([`Settings::TABLE`]). A heading says under which commands its flags are. An entry is
///
/// ```text
/// /// What the flag does, without a period
/// ///
/// /// More, for `--help`. Other settings are named as `max_pages`.
/// name: Type = default => class("VALUE");
/// ```
///
/// where the class is [`shared`], [`agreed`], [`local`] or [`secret`], and methods of [`Setting`] say more. `Type` is a
/// [`SettingValue`].
#[macro_export]
macro_rules! settings {
    (@key $name:ident) => {{
        const KEY: [u8; stringify!($name).len()] = $crate::crawl::settings::hyphenated(stringify!($name));
        match std::str::from_utf8(&KEY) {
            Ok(key) => key,
            Err(_) => stringify!($name),
        }
    }};
    (
        $(#[$meta:meta])*
        pub struct $table:ident {
            $($heading:literal in $commands:expr => {
                $(
                    $(#[doc = $doc:literal])*
                    $(#[serde($($serde:tt)*)])?
                    $name:ident: $type:ty = $default:expr => $about:expr;
                )*
            })*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize)]
        #[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
        pub struct $table {
            $($(
                $(#[doc = $doc])*
                $(#[serde($($serde)*)])?
                pub $name: $type,
            )*)*
        }

        impl Default for $table {
            fn default() -> Self {
                Self { $($($name: $default,)*)* }
            }
        }

        /// Writes the settings that have a value and are no secrets.
        impl serde::Serialize for $table {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use $crate::crawl::settings::SettingValue;
                let mut map = serializer.serialize_map(None)?;
                $($(
                    if $about.is_stored && !SettingValue::is_absent(&self.$name) {
                        serde::ser::SerializeMap::serialize_entry(&mut map, $crate::settings!(@key $name), &self.$name)?;
                    }
                )*)*
                serde::ser::SerializeMap::end(map)
            }
        }

        impl $crate::crawl::settings::Settings for $table {
            const TABLE: &'static [$crate::crawl::settings::Setting] = {
                use $crate::crawl::settings::{Setting, SettingValue};
                &[$($(Setting {
                    name: stringify!($name),
                    key: $crate::settings!(@key $name),
                    doc: concat!($($doc, "\n",)*),
                    heading: $heading,
                    form: <$type as SettingValue>::FORM,
                    is_list: <$type as SettingValue>::IS_LIST,
                    default: || <$type as SettingValue>::texts(&$default),
                    parse: |texts| <$type as SettingValue>::from_texts(texts).map(drop),
                    ..$about.also($commands)
                },)*)*]
            };

            fn set_texts(&mut self, name: &str, texts: &[std::ffi::OsString]) -> Result<(), String> {
                match name {
                    $($(stringify!($name) => self.$name = $crate::crawl::settings::SettingValue::from_texts(texts)?,)*)*
                    _ => {}
                }
                Ok(())
            }

            fn texts(&self, name: &str) -> Vec<String> {
                match name {
                    $($(stringify!($name) => $crate::crawl::settings::SettingValue::texts(&self.$name),)*)*
                    _ => Vec::new(),
                }
            }

            fn copy(&mut self, name: &str, from: &Self) {
                match name {
                    $($(stringify!($name) => self.$name.clone_from(&from.$name),)*)*
                    _ => {}
                }
            }

            fn is_same(&self, name: &str, other: &Self) -> bool {
                match name {
                    $($(stringify!($name) => self.$name == other.$name,)*)*
                    _ => true,
                }
            }

            fn bad_path(&self, name: &str) -> Option<String> {
                match name {
                    $($(stringify!($name) => $crate::crawl::settings::SettingValue::bad_path(&self.$name),)*)*
                    _ => None,
                }
            }
        }
    };
}
