//! The flags that only `argiope check` has, and the same settings in a configuration file.

use std::path::PathBuf;
use std::time::Duration;

use argiope_check::{CheckLimits, StatusRanges};
use argiope_core::crawl::rules::Span;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Deserializer};

use super::groups::{ApplyFlag as _, set};

/// What is checked, and how the findings are written.
#[derive(Args, Debug, Clone, Default)]
pub struct CheckFlags {
    /// Check URLs outside of the site or folder, once each [default: yes]
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    external: Option<bool>,
    /// Check fragments: that the target page has the element that #fragment names [default: yes]
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    fragments: Option<bool>,
    /// Check images, styles, scripts and media [default: yes]
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    assets: Option<bool>,
    /// Status codes that count as good, such as 200-299,403 [default: 200..=299]
    ///
    /// Numbers and ranges, separated by commas.
    #[arg(long, value_name = "CODES")]
    accept: Option<StatusRanges>,
    /// Ignore links that match this regular expression (repeatable); .argiopeignore may have more, one per line
    #[arg(long, value_name = "RE")]
    ignore: Vec<String>,
    /// Count a timeout after all attempts as unknown, not as broken
    #[arg(long)]
    timeouts_unknown: bool,
    /// Reuse good external results for this time; failed URLs are requested again
    #[arg(long, value_name = "TIME")]
    cache: Option<Span>,
    /// The file of --cache [default: .argiopecache]
    #[arg(long, value_name = "FILE")]
    cache_file: Option<PathBuf>,
    /// How to write the findings [default: text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<CheckFormat>,
    /// With --format text: list every target and every place, not only a screen or two
    #[arg(long)]
    all: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// For folders: the folder to which links that begin with / are relative [default: the folder itself; for files the
    /// current folder]
    #[arg(long, value_name = "DIR")]
    root_dir: Option<PathBuf>,
    /// For folders: the URL under which the folder will be published; links to it are looked up in the folder
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Request at most N URLs of other hosts [default: 100000]
    #[arg(long, value_name = "N")]
    max_external: Option<usize>,
    /// Request at most N URLs of one other host [default: 1000]
    #[arg(long, value_name = "N")]
    max_external_per_host: Option<usize>,
}

/// The values of [`CheckFlags`].
#[derive(Clone, Debug, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct CheckSettings {
    #[serde(deserialize_with = "switch")]
    pub external: bool,
    #[serde(deserialize_with = "switch")]
    pub fragments: bool,
    #[serde(deserialize_with = "switch")]
    pub assets: bool,
    #[serde(deserialize_with = "status_ranges")]
    pub accept: StatusRanges,
    pub ignore: Vec<String>,
    pub timeouts_unknown: bool,
    pub cache: Option<Span>,
    pub cache_file: PathBuf,
    pub format: CheckFormat,
    pub all: bool,
    pub output: Option<PathBuf>,
    pub root_dir: Option<PathBuf>,
    pub base_url: Option<String>,
    pub max_external: usize,
    pub max_external_per_host: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckFormat {
    #[default]
    Text,
    Json,
    Jsonl,
    Junit,
    Github,
    Sarif,
    Markdown,
}

impl Default for CheckSettings {
    fn default() -> Self {
        let limits = CheckLimits::default();
        Self {
            external: true,
            fragments: true,
            assets: true,
            accept: StatusRanges::default(),
            ignore: Vec::new(),
            timeouts_unknown: false,
            cache: None,
            cache_file: PathBuf::from(".argiopecache"),
            format: CheckFormat::Text,
            all: false,
            output: None,
            root_dir: None,
            base_url: None,
            max_external: limits.external_urls,
            max_external_per_host: limits.host_urls,
        }
    }
}

impl CheckSettings {
    /// The keys in the configuration file.
    pub const KEYS: [&'static str; 15] = [
        "external",
        "fragments",
        "assets",
        "accept",
        "ignore",
        "timeouts-unknown",
        "cache",
        "cache-file",
        "format",
        "all",
        "output",
        "root-dir",
        "base-url",
        "max-external",
        "max-external-per-host",
    ];

    /// How long good external results are reused, if they are.
    pub fn cache_lifetime(&self) -> Option<Duration> {
        self.cache.map(|Span(lifetime)| lifetime)
    }
}

impl CheckFlags {
    /// Applies the flags to the settings of the configuration file, or to the defaults.
    pub fn apply_to(&self, settings: &mut CheckSettings) {
        set!(self, settings, external fragments assets accept ignore timeouts_unknown cache cache_file format all);
        set!(self, settings, output root_dir base_url max_external max_external_per_host);
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    }
}

/// A switch in the file: `true`, `false`, or the words of the flag.
fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Switch {
        Bool(bool),
        Word(String),
    }
    match Switch::deserialize(deserializer)? {
        Switch::Bool(value) => Ok(value),
        Switch::Word(word) => yes_or_no(&word).map_err(serde::de::Error::custom),
    }
}

fn status_ranges<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StatusRanges, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}
