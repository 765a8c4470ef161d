//! Settings that would have no effect or contradict each other are errors, before the first request.

use argiope_core::crawl::rules::{AssetsScope, Config, ConfigError, Pace, WarcCompression};

use crate::Error;

/// The error for a setting that would have no effect or contradicts another one.
pub(crate) fn no_effect(key: &'static str, value: impl ToString, why: &str) -> Error {
    Error::from(ConfigError { key, value: value.to_string(), problem: why.to_owned() })
}

/// Rejects settings that would have no effect in the library or contradict each other.
pub(crate) fn check(config: &Config) -> Result<(), Error> {
    let needs_directory = "it has an effect only with a crawl directory: set `directory` too";
    let needs_warc = "it has an effect only with `warc`";
    let needs_assets = "it has an effect only with `assets`";
    let is_in_memory = config.out.is_none();
    for (is_wrong, key, why) in [
        (is_in_memory && config.fresh, "fresh", needs_directory),
        (is_in_memory && config.recrawl, "recrawl", needs_directory),
        (is_in_memory && config.jsonl.is_some(), "jsonl", needs_directory),
        (is_in_memory && config.warc, "warc", needs_directory),
        (is_in_memory && config.max_disk.is_some(), "max_disk", needs_directory),
        (is_in_memory && config.log_skips, "log_skips", needs_directory),
        (is_in_memory && !config.with.is_empty(), "with", needs_directory),
        (!config.warc && config.warc_compression != WarcCompression::default(), "warc_compression", needs_warc),
        (!config.assets && config.assets_scope != AssetsScope::default(), "assets_scope", needs_assets),
        (
            config.fresh && config.recrawl,
            "recrawl",
            "contradicts `fresh`: a crawl that starts over has no pages to request again",
        ),
        (config.no_cookies && config.cookies.is_some(), "cookies", "contradicts `no_cookies`; set one of them"),
    ] {
        if is_wrong {
            return Err(no_effect(key, "", why));
        }
    }
    if let Some(per_host) = config.per_host.filter(|count| config.pace == Pace::Gentle && *count > 1) {
        let why = "the pace `gentle` uses one connection for each host; leave one of the two settings out";
        return Err(no_effect("per_host", per_host, why));
    }
    Ok(())
}
