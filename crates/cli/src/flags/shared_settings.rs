//! [`SharedSettings`]: the settings that the processes of a fleet have in common.
//!
//! Invariant: every setting has one class. Who can write to the store chooses the shared settings of all processes, and
//! nothing else: a value of another class has no place in [`SharedSettings`], and none is read. A new field of
//! [`Config`] does not compile until it has a class here.

use std::path::PathBuf;

use argiope_core::crawl::rules::{
    AssetsScope, Config, HttpVersion, Pace, Rate, RobotsPolicy, ScopeKind, Size, Span, TrapPolicy, WarcCompression,
    With,
};
use serde::{Deserialize, Serialize};

/// The longest text of settings that is read from a store.
const MAX_TEXT: usize = 8 << 20;
const MAX_ROOTS: usize = 100_000;
/// The maximum number of patterns, parameters or rules of one setting.
const MAX_LIST: usize = 1_000;
const MAX_SIZE: Size = Size(1 << 30);
const MAX_HEAD: Size = Size(16 << 20);
const MAX_URL: usize = 64 << 10;
const MAX_LINKS: usize = 1 << 20;

/// Gives every field of [`Config`] its class.
macro_rules! classes {
    (
        shared { $($shared:ident: $shared_type:ty,)* }
        agreed { $($agreed:ident: $agreed_type:ty,)* }
        own { $($own:ident,)* }
    ) => {
        /// The settings of the process that created the crawl, as far as they are not its own.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, rename_all = "kebab-case")]
        pub struct SharedSettings {
            $(pub $shared: $shared_type,)*
            $(pub $agreed: $agreed_type,)*
        }

        impl SharedSettings {
            /// The shared part of the settings of a process.
            pub fn of(config: &Config) -> Self {
                let Config { $($shared,)* $($agreed,)* $($own: _,)* } = config.clone();
                Self { $($shared,)* $($agreed,)* }
            }

            /// These settings, with those of a process for everything that is not shared.
            pub fn with_own(self, own: &Config) -> Config {
                let Self { $($shared,)* $($agreed: _,)* } = self;
                let Config { $($agreed,)* $($own,)* $($shared: _,)* } = own.clone();
                Config { $($shared,)* $($agreed,)* $($own,)* }
            }

            /// The first setting that a process must have itself, and has not.
            pub fn missing_in(&self, own: &Config) -> Option<&'static str> {
                [$((stringify!($agreed), self.$agreed == own.$agreed),)*]
                    .into_iter()
                    .find_map(|(name, is_equal)| (!is_equal).then_some(name))
            }
        }
    };
}

classes! {
    // Those of the process that created the crawl hold for all processes.
    shared {
        roots: Vec<String>,
        scope: ScopeKind,
        include: Vec<String>,
        exclude: Vec<String>,
        depth: Option<u32>,
        max_bytes: Option<Size>,
        max_time: Option<Span>,
        sitemap: bool,
        no_sitemap: bool,
        assets: bool,
        assets_scope: AssetsScope,
        strip_param: Vec<String>,
        follow_nofollow: bool,
        traps: TrapPolicy,
        trap_budget: u32,
        max_pages_per_host: Option<u64>,
        per_host: Option<usize>,
        per_ip: Option<usize>,
        delay: Span,
        pace: Pace,
        rate: Option<Rate>,
        max_crawl_delay: Span,
        timeout: Span,
        connect_timeout: Span,
        idle_timeout: Span,
        min_rate: Size,
        max_tries: u8,
        retry_wait: Span,
        max_redirects: u8,
        max_size: Size,
        max_head: Size,
        max_url: usize,
        max_links: usize,
        user_agent: Option<String>,
        contact: Option<String>,
        no_cookies: bool,
        http: HttpVersion,
        robots: RobotsPolicy,
        with: Vec<With>,
        warc: bool,
        warc_compression: WarcCompression,
        extract: Vec<String>,
        text: bool,
        markdown: bool,
        content: String,
    }
    // They must be the same in all processes, but each process must be given them: a path of one machine is not taken
    // from the store.
    agreed {
        extract_file: Option<PathBuf>,
    }
    // Each process has its own: secrets, files, addresses, trust, and what depends on the machine.
    own {
        out,
        fresh,
        recrawl,
        // Compared when a process joins.
        max_pages,
        max_disk,
        concurrency,
        header,
        user,
        auth,
        cookies,
        proxy,
        resolve,
        dns,
        allow_private,
        ca_cert,
        cert,
        key,
        insecure,
        jsonl,
        max_memory,
        drain_time,
        engine,
        log_skips,
    }
}

impl SharedSettings {
    /// Reads the settings in a store. A value above its maximum is an error: memory is never allocated as the store says.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.len() > MAX_TEXT {
            return Err(format!("they have more than {MAX_TEXT} bytes"));
        }
        let settings: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        settings.check().map(|()| settings)
    }

    /// The error about the first setting above the maximum of a fleet.
    pub fn check(&self) -> Result<(), String> {
        let lists = [
            ("include", self.include.len()),
            ("exclude", self.exclude.len()),
            ("strip-param", self.strip_param.len()),
            ("extract", self.extract.len()),
            ("with", self.with.len()),
        ];
        let counts = [
            ("roots", self.roots.len(), MAX_ROOTS),
            ("max-url", self.max_url, MAX_URL),
            ("max-links", self.max_links, MAX_LINKS),
        ];
        let sizes = [("max-size", self.max_size, MAX_SIZE), ("max-head", self.max_head, MAX_HEAD)];
        let counts = lists.map(|(name, count)| (name, count, MAX_LIST)).into_iter().chain(counts);
        let too_many = counts.filter(|(_, count, max)| count > max).map(|(name, _, max)| (name, max.to_string()));
        let too_large = sizes.into_iter().filter(|(_, size, max)| size > max);
        match too_many.chain(too_large.map(|(name, _, max)| (name, max.to_string()))).next() {
            Some((name, max)) => Err(format!("{name}: a fleet allows at most {max}")),
            None => Ok(()),
        }
    }
}

impl Default for SharedSettings {
    fn default() -> Self {
        Self::of(&Config::default())
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
        let shared: SharedSettings = serde_json::from_str(planted).expect("settings");
        let own = Config { header: vec!["X-Key: own".parse().expect("a header")], ..Config::default() };
        assert_eq!(shared.missing_in(&own), Some("extract_file"));
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

    #[test]
    fn stored_settings_have_the_keys_of_the_configuration() {
        let stored = serde_json::to_value(SharedSettings::default()).expect("JSON");
        let keys = stored.as_object().expect("an object").keys();
        assert!(keys.clone().count() > 40);
        keys.for_each(|key| assert!(Config::keys().contains(&key.as_str()), "{key}"));
    }
}
