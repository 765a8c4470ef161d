//! [`SharedSettings`]: the settings that the processes of a fleet have in common.
//!
//! Invariant: who can write to the store chooses the shared settings of all processes, and nothing else. The class of a
//! setting in the table decides; a value of another class is neither stored nor read.

use argiope_core::crawl::rules::{Config, Size};
use argiope_core::crawl::settings::{Setting, SettingClass, Settings as _};
use serde_json::{Map, Value};

/// The longest text of settings that is read from a store.
const MAX_TEXT: usize = 8 << 20;
const MAX_ROOTS: usize = 100_000;
/// The maximum number of patterns, parameters or rules of one setting.
const MAX_LIST: usize = 1_000;
const MAX_SIZE: Size = Size(1 << 30);
const MAX_HEAD: Size = Size(16 << 20);
const MAX_URL: usize = 64 << 10;
const MAX_LINKS: usize = 1 << 20;

/// The settings of the process that created the crawl, as far as they are not its own. All others have their defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharedSettings(Config);

/// The settings that the store has.
fn stored() -> impl Iterator<Item = &'static Setting> {
    Config::TABLE.iter().filter(|setting| matches!(setting.class, SettingClass::Shared | SettingClass::Agreed))
}

impl SharedSettings {
    /// The shared part of the settings of a process.
    pub fn of(config: &Config) -> Self {
        let mut shared = Config::default();
        stored().for_each(|setting| shared.copy(setting.name, config));
        Self(shared)
    }

    /// These settings, with those of a process for everything that is not shared.
    pub fn with_own(&self, own: &Config) -> Config {
        let mut joined = own.clone();
        let shared = stored().filter(|setting| setting.class == SettingClass::Shared);
        shared.for_each(|setting| joined.copy(setting.name, &self.0));
        joined
    }

    /// The key of the first setting that a process must have itself, and has not.
    pub fn missing_in(&self, own: &Config) -> Option<&'static str> {
        let mut agreed = stored().filter(|setting| setting.class == SettingClass::Agreed);
        agreed.find(|setting| !self.0.is_same(setting.name, own)).map(|setting| setting.key)
    }

    /// The settings by key.
    pub fn by_key(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut keys)) = serde_json::to_value(&self.0) else { return Map::new() };
        keys.retain(|key, _| stored().any(|setting| setting.key == key));
        keys
    }

    /// The settings with these keys. Keys of other settings are ignored.
    pub fn from_keys(mut keys: Map<String, Value>) -> Result<Self, String> {
        keys.retain(|key, _| stored().any(|setting| setting.key == key));
        serde_json::from_value(keys.into()).map(Self).map_err(|error| error.to_string())
    }

    /// The limits that the store counts for all processes.
    pub fn limits(&self) -> &Config {
        &self.0
    }

    /// Reads the settings in a store. A value above its maximum is an error: memory is never allocated as the store says.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.len() > MAX_TEXT {
            return Err(format!("they have more than {MAX_TEXT} bytes"));
        }
        let settings = Self::from_keys(serde_json::from_str(text).map_err(|error| error.to_string())?)?;
        settings.check().map(|()| settings)
    }

    /// The error about the first setting above the maximum of a fleet.
    pub fn check(&self) -> Result<(), String> {
        let Config { roots, max_url, max_links, max_size, max_head, .. } = &self.0;
        let lists = stored().filter(|setting| setting.is_list && setting.name != "roots");
        let lists = lists.map(|setting| (setting.key, self.0.texts(setting.name).len(), MAX_LIST));
        let counts =
            [("roots", roots.len(), MAX_ROOTS), ("max-url", *max_url, MAX_URL), ("max-links", *max_links, MAX_LINKS)];
        let sizes = [("max-size", *max_size, MAX_SIZE), ("max-head", *max_head, MAX_HEAD)];
        let counts = lists.chain(counts);
        let too_many = counts.filter(|(_, count, max)| count > max).map(|(name, _, max)| (name, max.to_string()));
        let too_large = sizes.into_iter().filter(|(_, size, max)| size > max);
        match too_many.chain(too_large.map(|(name, _, max)| (name, max.to_string()))).next() {
            Some((name, max)) => Err(format!("{name}: a fleet allows at most {max}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_process_are_never_taken_from_the_store() {
        let planted = r#"{"roots":["http://planted.example/"],"depth":3,"resolve":["h.example:80:127.0.0.1"],
            "insecure":true,"allow-private":true,"cookies":"/etc/passwd","dns":"127.0.0.1:53","proxy":"http://127.0.0.1/",
            "ca-cert":"/tmp/ca.pem","cert":"/tmp/c.pem","key":"/tmp/k.pem","jsonl":"/tmp/x","out":"/tmp/y",
            "header":["X-Key: planted"],"user":"a:b","max-memory":"1G","extract-file":"/etc/shadow","engine":"threads"}"#;
        let shared = SharedSettings::read(planted).expect("settings");
        let own = Config { header: vec!["X-Key: own".parse().expect("a header")], ..Config::default() };
        assert_eq!(shared.missing_in(&own), Some("extract-file"));
        let config = shared.with_own(&own);
        let roots = vec!["http://planted.example/".to_owned()];
        assert_eq!(config, Config { roots, depth: Some(3), ..own });
    }

    #[test]
    fn values_of_the_store_have_maxima() {
        for (key, value) in [
            ("max-size", r#""2G""#.to_owned()),
            ("max-head", r#""17M""#.to_owned()),
            ("max-links", u64::MAX.to_string()),
            ("max-url", "1000000".to_owned()),
            ("include", serde_json::to_string(&vec!["x"; 1_001]).expect("JSON")),
            ("roots", serde_json::to_string(&vec!["h"; 100_001]).expect("JSON")),
        ] {
            let refused = SharedSettings::read(&format!(r#"{{"{key}":{value}}}"#)).expect_err("above the maximum");
            assert!(refused.contains(key) && refused.contains("at most"), "{refused}");
        }
        assert!(SharedSettings::read(&" ".repeat(9 << 20)).is_err());
        assert_eq!(SharedSettings::read("{}"), Ok(SharedSettings::default()));
    }
}
