//! [`SettingFlags`]: the flags of a command, made from a table of settings.

use std::ffi::OsString;
use std::marker::PhantomData;

use argiope_core::crawl::rules::{Config, ConfigError};
use argiope_core::crawl::settings::{Commands, Setting, SettingClass, SettingForm, Settings};
use clap::builder::{OsStringValueParser, PossibleValuesParser, StringValueParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::settings::{CommandIo, FleetFlags, MessageSettings};

/// The flags that are settings of `T` and that the command `COMMAND` accepts, as given on the command line.
#[derive(Clone, Debug)]
pub struct SettingFlags<T, const COMMAND: Commands> {
    given: Vec<(&'static Setting, Vec<OsString>)>,
    settings: PhantomData<T>,
}

impl<T: Settings, const COMMAND: Commands> SettingFlags<T, COMMAND> {
    fn table() -> impl Iterator<Item = &'static Setting> {
        T::TABLE.iter().filter(|setting| setting.commands & COMMAND != 0)
    }

    /// Applies the flags to the settings of the configuration file, or to the defaults. A flag that is not given changes
    /// nothing. A list on the command line replaces the one in the file; otherwise an entry could not be removed.
    pub fn apply_to(&self, settings: &mut T) -> Result<(), ConfigError> {
        for (setting, texts) in &self.given {
            // Of two settings that exclude each other, the one on the command line overrides the other in the file.
            let is_excluded =
                |other: &&Setting| other.contradicts == Some(setting.name) || setting.contradicts == Some(other.name);
            T::TABLE.iter().filter(is_excluded).for_each(|other| settings.copy(other.name, &T::default()));
            settings.set(setting, texts)?;
        }
        Ok(())
    }
}

impl<T: Settings, const COMMAND: Commands> FromArgMatches for SettingFlags<T, COMMAND> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let texts = |setting: &Setting| match setting.form {
            _ if setting.is_counted => match matches.get_count(setting.name) {
                0 => Vec::new(),
                count => vec![count.to_string().into()],
            },
            SettingForm::Switch if matches.get_flag(setting.name) => vec!["true".into()],
            SettingForm::Switch => Vec::new(),
            _ => matches.get_many::<OsString>(setting.name).into_iter().flatten().cloned().collect(),
        };
        let given = Self::table().map(|setting| (setting, texts(setting))).filter(|(_, texts)| !texts.is_empty());
        Ok(Self { given: given.collect(), settings: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.given.extend(Self::from_arg_matches(matches)?.given);
        Ok(())
    }
}

impl<T: Settings, const COMMAND: Commands> Args for SettingFlags<T, COMMAND> {
    fn augment_args(command: Command) -> Command {
        let is_flag = |name: &&str| Self::table().any(|setting| setting.name == *name);
        command.args(
            Self::table().map(|setting| flag(setting, COMMAND).conflicts_with_all(setting.contradicts.filter(is_flag))),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The flag of a setting.
fn flag(setting: &'static Setting, command: Commands) -> Arg {
    let paragraphs = setting.paragraphs(command, flag_name);
    let flag = Arg::new(setting.name)
        .long(setting.key)
        .short(setting.short)
        .help_heading((!setting.heading.is_empty()).then_some(setting.heading))
        .help(paragraphs.first().cloned().unwrap_or_default())
        .hide_short_help(setting.common & command == 0)
        .hide(setting.unused & command != 0);
    let flag = if paragraphs.len() > 1 { flag.long_help(paragraphs.join("\n\n")) } else { flag };
    match setting.form {
        _ if setting.is_counted => flag.action(ArgAction::Count),
        SettingForm::Switch => flag.action(ArgAction::SetTrue),
        form => flag
            .value_name(setting.value)
            .value_parser(parser(setting))
            .action(if setting.is_list { ArgAction::Append } else { ArgAction::Set })
            .value_delimiter((setting.is_list && matches!(form, SettingForm::Words(_))).then_some(',')),
    }
}

/// Checks the text of a flag. Help, completions and error messages list the words of a fixed set. The error about a secret
/// must not repeat it, as those of clap do, so a secret is checked later.
fn parser(setting: &'static Setting) -> ValueParser {
    match setting.form {
        SettingForm::Words(words) => PossibleValuesParser::new(words).map(OsString::from).into(),
        SettingForm::Path => OsStringValueParser::new().into(),
        _ if setting.class == SettingClass::Secret => StringValueParser::new().map(OsString::from).into(),
        _ => StringValueParser::new()
            .try_map(|text| {
                let text = OsString::from(text);
                setting.check(std::slice::from_ref(&text)).map(|()| text)
            })
            .into(),
    }
}

/// The flag of the setting with this name, if there is one.
fn flag_name(name: &str) -> Option<String> {
    let tables = [Config::TABLE, CommandIo::TABLE, MessageSettings::TABLE, FleetFlags::TABLE];
    let setting = tables.into_iter().flatten().find(|setting| setting.name == name)?;
    Some(format!("--{}", setting.key))
}

#[cfg(test)]
mod tests {
    use argiope_core::crawl::settings::CRAWL;

    use super::*;
    use crate::flags::CheckSettings;

    fn check_table<T: Settings>() {
        for setting in T::TABLE {
            for other in setting.needs.iter().chain(&setting.contradicts) {
                assert!(T::find(other).is_some(), "{}: {other}", setting.name);
            }
            assert_eq!(setting.key, setting.name.replace('_', "-"));
            assert!(!setting.paragraphs(CRAWL, flag_name).is_empty(), "{} has no help", setting.name);
            assert_eq!((setting.common | setting.unused) & !setting.commands, 0, "{}", setting.name);
            let texts: Vec<OsString> = (setting.default)().into_iter().map(OsString::from).collect();
            let mut settings = T::default();
            settings.set(setting, &texts).expect(setting.name);
            assert!(settings.is_same(setting.name, &T::default()), "the texts of {} are its value", setting.name);
        }
    }

    #[test]
    fn entries_of_tables_agree() {
        check_table::<Config>();
        check_table::<CommandIo>();
        check_table::<MessageSettings>();
        check_table::<FleetFlags>();
        check_table::<CheckSettings>();
    }

    #[test]
    fn an_error_names_the_key_and_repeats_no_secret() {
        let set = |name: &str, text: &str| {
            let setting = Config::find(name).expect("a setting");
            Config::default().set(setting, &[text.into()]).expect_err(text)
        };
        let refused = set("max_size", "x");
        assert_eq!((refused.key, refused.value.as_str()), ("max-size", "x"));
        let refused = set("user", "secret");
        assert!(refused.key == "user" && !refused.to_string().contains("secret"), "{refused}");
    }

    #[test]
    fn help_names_settings_as_flags() {
        let paragraphs = Config::find("per_host").expect("a setting").paragraphs(CRAWL, flag_name);
        assert_eq!(paragraphs[0], "At most N connections (HTTP/2: streams) per host [default: 6]");
        assert!(paragraphs[1].starts_with("With --pace full the default is the value of --concurrency."));
    }
}
