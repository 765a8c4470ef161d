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
    fn stored_settings_have_the_keys_of_the_configuration() {
        let stored = serde_json::to_value(SharedSettings::default()).expect("JSON");
        let keys = stored.as_object().expect("an object").keys();
        assert!(keys.clone().count() > 40);
        keys.for_each(|key| assert!(Config::keys().contains(&key.as_str()), "{key}"));
    }
}
