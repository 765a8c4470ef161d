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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use argiope_core::base::value::RenderMode;
    use argiope_core::crawl::rules::{RobotsPolicy, ScopeKind};

    use super::*;
    use crate::{Crawl, CrawlBuilder};

    type Set = fn(CrawlBuilder) -> CrawlBuilder;

    /// The methods that set one setting, each with a value that is not the default.
    const METHODS: &[(&str, Set)] = &[
        ("directory", |builder| builder.directory("d.crawl")),
        ("fresh", CrawlBuilder::fresh),
        ("recrawl", CrawlBuilder::recrawl),
        ("scope", |builder| builder.scope(ScopeKind::Any)),
        ("include", |builder| builder.include("a")),
        ("exclude", |builder| builder.exclude("a")),
        ("pick", |builder| builder.pick(".a")),
        ("depth", |builder| builder.depth(3)),
        ("max_pages", |builder| builder.max_pages(7)),
        ("max_time", |builder| builder.max_time(Duration::from_secs(7))),
        ("timeout", |builder| builder.timeout(Duration::from_secs(7))),
        ("max_tries", |builder| builder.max_tries(7)),
        ("max_redirects", |builder| builder.max_redirects(7)),
        ("allow_private", CrawlBuilder::allow_private),
        ("max_size", |builder| builder.max_size(7)),
        ("max_memory", |builder| builder.max_memory(7)),
        ("sitemap", CrawlBuilder::sitemap),
        ("no_sitemap", CrawlBuilder::no_sitemap),
        ("concurrency", |builder| builder.concurrency(7)),
        ("delay", |builder| builder.delay(Duration::from_secs(7))),
        ("pace", |builder| builder.pace(Pace::Full)),
        ("render", |builder| builder.render(RenderMode::Always)),
        ("robots", |builder| builder.robots(RobotsPolicy::Ignore)),
        ("user_agent", |builder| builder.user_agent("me/1")),
    ];

    #[test]
    fn a_method_sets_the_setting_of_its_name_and_no_other() {
        for (name, set) in METHODS {
            let before = Crawl::builder("http://h/");
            let _ = set(before.clone()).configure(|after| {
                let _ = before.configure(|before| {
                    let changed = Config::TABLE.iter().filter(|setting| !after.is_same(setting.name, before));
                    let changed: Vec<&str> = changed.map(|setting| setting_name(setting.key)).collect();
                    assert_eq!(changed, [*name]);
                });
            });
        }
    }

    #[test]
    fn every_method_with_the_name_of_a_setting_is_tested() {
        let settings: BTreeSet<&str> = Config::TABLE.iter().map(|setting| setting_name(setting.key)).collect();
        let methods = include_str!("builder.rs").lines().filter_map(|line| line.strip_prefix("    pub fn "));
        let methods: BTreeSet<&str> = methods.filter_map(|method| method.split(['(', '<']).next()).collect();
        // Headers are kept apart, and roots may be requests: the tests of requests have them. `follow` takes a closure.
        let others = ["header", "roots", "follow"];
        let expected: Vec<&str> =
            methods.intersection(&settings).copied().filter(|name| !others.contains(name)).collect();
        let tested: BTreeSet<&str> = METHODS.iter().map(|(name, _)| *name).collect();
        assert_eq!(tested.into_iter().collect::<Vec<_>>(), expected);
    }
}
