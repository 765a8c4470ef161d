//! The settings of the command: those of the crawl, and those that the library does not have.

use std::net::SocketAddr;
use std::path::PathBuf;

use argiope_core::crawl::rules::{Config, ConfigError, ProgramSettings, Rules};
use serde::{Deserialize, Serialize};

/// All settings of `argiope crawl`, as the flags and the configuration file give them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CommandSettings {
    #[serde(flatten)]
    pub crawl: Config,
    #[serde(flatten)]
    pub io: CommandIo,
    #[serde(flatten)]
    pub messages: MessageSettings,
}

/// The configuration keys that select a shared crawl. They are not written to records, because the address may contain
/// a password.
pub const FLEET_KEYS: [&str; 3] = ["frontier", "frontier-password-file", "name"];

/// What the command reads before the crawl, writes after it, and serves meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct CommandIo {
    /// A file of roots, one per line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<PathBuf>,
    /// A table of all pages is written here when the crawl ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csv: Option<PathBuf>,
    /// The table has cells that a spreadsheet would run as formulas.
    pub raw_csv: bool,
    /// The address that the dashboard listens on.
    #[serde(skip_serializing)]
    pub serve: Option<SocketAddr>,
    /// The file with the token that clients of the dashboard need.
    #[serde(skip_serializing)]
    pub serve_token_file: Option<PathBuf>,
}

/// What the command prints on standard error, and when it exits with code 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct MessageSettings {
    /// Only errors are printed.
    pub quiet: bool,
    /// 1: a line per page. 2 or more: also the links that are not followed.
    pub verbose: u8,
    /// No live view and no progress lines.
    pub no_progress: bool,
    /// Messages are JSON objects.
    pub log_json: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_on: Option<FailOn>,
}

/// Findings that cause exit code 3 at the end of a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FailOn {
    // A broken link: an error status or a failure. Not a doc comment, which clap would add to the help of the flag.
    Broken,
    // A broken link that was not broken in the round before (`--recrawl`).
    NewBroken,
}

impl CommandIo {
    /// The keys of a configuration file that belong to this structure and not to [`Config`].
    pub const KEYS: [&'static str; 5] = ["input", "csv", "raw-csv", "serve", "serve-token-file"];

    /// Checks that all paths can be stored with the settings.
    fn check_paths(&self) -> Result<(), ConfigError> {
        let paths = [&self.input, &self.csv, &self.serve_token_file];
        let mut named = ["input", "csv", "serve-token-file"].into_iter().zip(paths);
        named.try_for_each(|(key, path)| ConfigError::check_path(key, path.as_deref()))
    }
}

impl MessageSettings {
    /// The keys of a configuration file that belong to this structure and not to [`Config`].
    pub const KEYS: [&'static str; 5] = ["quiet", "verbose", "no-progress", "log-json", "fail-on"];
}

impl CommandSettings {
    /// Checks all settings, and compiles those of the crawl. With `-vv`, pages also report the links that are not
    /// followed.
    pub fn rules(&self, program: ProgramSettings) -> Result<Rules, ConfigError> {
        self.io.check_paths()?;
        let report_skips = self.messages.verbose > 1;
        argiope_runtime::rules(&self.crawl, ProgramSettings { report_skips, ..program })
    }

    /// Every key that a configuration file may have.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        Config::keys().iter().copied().chain(CommandIo::KEYS).chain(MessageSettings::KEYS).chain(FLEET_KEYS)
    }
}

/// The settings of the crawl among stored settings. `run` records contain all settings of the command.
pub fn crawl_settings_of_stored(
    mut settings: serde_json::Map<String, serde_json::Value>,
) -> Result<Config, serde_json::Error> {
    settings
        .retain(|key, _| !CommandIo::KEYS.contains(&key.as_str()) && !MessageSettings::KEYS.contains(&key.as_str()));
    serde_json::from_value(settings.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn custom_settings() -> CommandSettings {
        let messages = MessageSettings {
            quiet: true,
            verbose: 2,
            no_progress: true,
            log_json: true,
            fail_on: Some(FailOn::Broken),
        };
        let io = CommandIo { input: Some("roots.txt".into()), csv: Some("pages.csv".into()), ..CommandIo::default() };
        CommandSettings { crawl: Config { roots: vec!["h".into()], depth: Some(3), ..Config::default() }, io, messages }
    }

    #[test]
    fn settings_without_a_value_are_not_written() {
        let written = serde_json::to_string(&CommandSettings::default()).unwrap();
        assert!(!written.contains("null"), "{written}");
    }

    #[test]
    fn the_listed_keys_of_messages_are_the_serialized_fields() {
        let written = serde_json::to_value(custom_settings().messages).unwrap();
        let mut keys: Vec<&str> = written.as_object().unwrap().keys().map(String::as_str).collect();
        let mut listed = MessageSettings::KEYS;
        keys.sort_unstable();
        listed.sort_unstable();
        assert_eq!(keys, listed);
        assert!(Config::keys().iter().all(|key| !listed.contains(key)));
    }

    #[test]
    fn the_settings_of_the_crawl_can_be_read_from_a_record_of_all_settings() {
        let serde_json::Value::Object(written) = serde_json::to_value(custom_settings()).unwrap() else {
            panic!("expected an object")
        };
        assert_eq!(
            (&written["verbose"], &written["csv"], &written["depth"]),
            (&2.into(), &"pages.csv".into(), &3.into())
        );
        assert_eq!(crawl_settings_of_stored(written).unwrap(), custom_settings().crawl);
    }
}
