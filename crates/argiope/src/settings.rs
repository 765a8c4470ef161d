//! Settings that would have no effect or contradict each other are errors, before the first request.

use argiope_core::crawl::rules::{Config, ConfigError, Pace};
use argiope_core::crawl::settings::Settings as _;

use crate::Error;
use crate::library_messages::setting_name;

/// The error for a setting that would have no effect or contradicts another one.
pub(crate) fn no_effect(key: &'static str, value: impl ToString, why: &str) -> Error {
    Error::from(ConfigError { key, value: value.to_string(), problem: why.to_owned() })
}

/// Rejects settings that would have no effect in the library or contradict each other.
pub(crate) fn check(config: &Config) -> Result<(), Error> {
    let is_set = |name: &&str| !config.is_same(name, &Config::default());
    for setting in Config::TABLE.iter().filter(|setting| is_set(&setting.name)) {
        if let Some(needed) = setting.needs.filter(|needed| !is_set(needed)) {
            let why = match setting_name(needed) {
                "directory" => "it has an effect only with a crawl directory: set `directory` too".to_owned(),
                needed => format!("it has an effect only with `{needed}`"),
            };
            return Err(no_effect(setting.name, "", &why));
        }
        if let Some(other) = setting.contradicts.filter(is_set) {
            return Err(no_effect(setting.name, "", &format!("contradicts `{other}`; set one of them")));
        }
    }
    if let Some(per_host) = config.per_host.filter(|count| config.pace == Pace::Gentle && *count > 1) {
        let why = "the pace `gentle` uses one connection for each host; leave one of the two settings out";
        return Err(no_effect("per_host", per_host, why));
    }
    Ok(())
}
