//! The settings of the command: those of the crawl, and those of messages and exit code, which are not part of the
//! library.

use argiope_core::rules::{Config, ConfigError, Rules};
use serde::{Deserialize, Serialize};

/// All settings of `argiope crawl`, as the flags and the configuration file give them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CommandSettings {
    #[serde(flatten)]
    pub crawl: Config,
    #[serde(flatten)]
    pub messages: MessageSettings,
}

/// The configuration keys that select a shared crawl. They are not written to records, because the address may contain
/// a password.
pub const FLEET_KEYS: [&str; 2] = ["frontier", "name"];

/// What the command prints on standard error, and when it exits with code 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct MessageSettings {
    pub quiet: bool,
    pub verbose: u8,
    pub no_progress: bool,
    pub log_json: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_on: Option<FailOn>,
}

/// What makes a finished crawl exit with code 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FailOn {
    // A broken link: an error status or a failure. Not a doc comment, which clap would add to the help of the flag.
    Broken,
    // A broken link that was not broken in the round before (`--recrawl`).
    NewBroken,
}

impl MessageSettings {
    /// The keys of a configuration file that are parsed here instead of in [`Config`].
    pub const KEYS: [&'static str; 5] = ["quiet", "verbose", "no-progress", "log-json", "fail-on"];
}

impl CommandSettings {
    /// Compiles the settings of the crawl, including the options that the messages need.
    pub fn rules(&self) -> Result<Rules, ConfigError> {
        let mut rules = argiope_runtime::rules(&self.crawl)?;
        rules.report_skips = self.messages.verbose > 1;
        Ok(rules)
    }

    /// Every key that a configuration file may have.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        Config::keys().iter().copied().chain(MessageSettings::KEYS).chain(FLEET_KEYS)
    }
}

/// The settings of the crawl in a `run` record. `None` if they cannot be read.
pub fn of_record(mut settings: serde_json::Map<String, serde_json::Value>) -> Option<Config> {
    settings.retain(|key, _| !MessageSettings::KEYS.contains(&key.as_str()));
    serde_json::from_value(settings.into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> CommandSettings {
        let messages = MessageSettings {
            quiet: true,
            verbose: 2,
            no_progress: true,
            log_json: true,
            fail_on: Some(FailOn::Broken),
        };
        CommandSettings { crawl: Config { roots: vec!["h".into()], depth: Some(3), ..Config::default() }, messages }
    }

    #[test]
    fn the_keys_are_the_fields() {
        let written = serde_json::to_value(all().messages).unwrap();
        let mut keys: Vec<&str> = written.as_object().unwrap().keys().map(String::as_str).collect();
        let mut listed = MessageSettings::KEYS;
        keys.sort_unstable();
        listed.sort_unstable();
        assert_eq!(keys, listed);
        assert!(Config::keys().iter().all(|key| !listed.contains(key)));
    }

    #[test]
    fn a_record_holds_all_settings_and_gives_back_those_of_the_crawl() {
        let serde_json::Value::Object(written) = serde_json::to_value(all()).unwrap() else { panic!("an object") };
        assert_eq!(
            (&written["verbose"], &written["fail-on"], &written["depth"]),
            (&2.into(), &"broken".into(), &3.into())
        );
        assert_eq!(of_record(written), Some(all().crawl));
    }
}
