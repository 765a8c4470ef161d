//! The settings of the command: flags, configuration file, and their types. Arguments that are not settings are with their
//! commands.

mod check_flags;
pub mod config_file;
mod request_flags;
mod setting_flags;
pub mod settings;
pub mod shared_settings;

use std::path::PathBuf;
use std::str::FromStr;

use argiope_core::crawl::rules::{BadValue, Config, ConfigError};
#[cfg(feature = "demo")]
use argiope_core::crawl::settings::DEMO;
use argiope_core::crawl::settings::{CRAWL, FETCH};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap_complete::Shell;

pub use check_flags::{CheckFormat, CheckSettings};
use request_flags::RequestFlags;
pub use setting_flags::SettingFlags;
use settings::{CommandIo, CommandSettings, FleetFlags, MessageSettings};

#[derive(Args, Debug)]
#[command(
    after_help = "All flags, with examples: argiope crawl --help",
    after_long_help = CRAWL_EXAMPLES,
    allow_negative_numbers = true
)]
pub struct CrawlArgs {
    /// Where to start (the roots); a host name without a scheme is tried as https, then http
    #[arg(value_name = "URL")]
    roots: Vec<String>,
    #[command(flatten)]
    crawl: SettingFlags<Config, CRAWL>,
    #[command(flatten)]
    io: SettingFlags<CommandIo, CRAWL>,
    #[command(flatten)]
    messages: SettingFlags<MessageSettings, CRAWL>,
    #[command(flatten)]
    fleet: SettingFlags<FleetFlags, CRAWL>,
    /// Read settings from a TOML file
    ///
    /// Its keys are the long flags of this command. Flags on the command line override it.
    #[arg(long, value_name = "FILE", help_heading = "Input and directory")]
    pub config: Option<PathBuf>,
}

const CRAWL_EXAMPLES: &str = "\
Examples:
  argiope crawl example.com
      a whole site
  argiope crawl https://example.com/docs/ --scope prefix --exclude '\\.pdf$'
      one part of it, without PDFs
  argiope crawl https://shop.example/list --pick .products --next '.pager a' --follow data
      a list page by page, with links that are only in the data of scripts
  argiope crawl example.com --only sitemap --since 2026-01-31
      what the sitemaps list as changed since a date
  argiope crawl -d many.crawl --add-root https://new.example/
      one more site for an existing crawl
  argiope crawl example.com --max-pages 500 --jsonl pages.jsonl
      exactly 500 pages, with a record for each URL
  argiope crawl example.com --jsonl - -q | jq -r 'select(.outcome == \"http_error\") | .url'
      the URLs of broken pages, for a script
  argiope crawl http://localhost:8080 --pace full -c 200 --fail-on broken
      your own server at full speed; exit code 3 if a link is broken

An interrupted crawl is resumed by running the same command again.
Durations are written 500ms, 0.5s, 5m, 1h; sizes 64K, 10M, 1G.
Exit codes: 0 finished or stopped at a limit, 1 could not start or continue, 2 bad usage,
3 broken links (--fail-on), 4 all roots failed, 130 or 143 interrupted.";

impl CrawlArgs {
    /// Applies the flags to the settings of the configuration file, or to the defaults.
    pub fn apply_to(&self, settings: &mut CommandSettings) -> Result<(), ConfigError> {
        if !self.roots.is_empty() {
            settings.crawl.roots.clone_from(&self.roots);
        }
        self.crawl.apply_to(&mut settings.crawl)?;
        self.io.apply_to(&mut settings.io)?;
        self.messages.apply_to(&mut settings.messages)?;
        self.fleet.apply_to(&mut settings.fleet)
    }
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  argiope fetch https://example.com/\n  \
                  argiope fetch https://api.example.com/search --json '{\"q\": \"orb\"}' --body\n  \
                  argiope fetch https://example.com/login -L --form user=me --form password=@secret.txt\n\n\
                  Without -L, redirects are shown, not followed.\n\
                  All flags: argiope fetch --help\n\
                  Exit codes: 0 a response was received, whatever its status; 1 no response; 2 bad usage.",
    allow_negative_numbers = true
)]
pub struct FetchArgs {
    /// The URL to fetch; without a scheme, https is tried, then http
    #[arg(value_name = "URL")]
    url: String,
    /// Also print the body, decoded and with control characters escaped
    #[arg(long)]
    pub body: bool,
    #[command(flatten)]
    pub request: RequestFlags,
    #[command(flatten)]
    settings: SettingFlags<Config, FETCH>,
}

impl FetchArgs {
    pub fn apply_to(&self, config: &mut Config) -> Result<(), ConfigError> {
        config.roots = vec![self.url.clone()];
        self.request.apply_to(config);
        self.settings.apply_to(config)
    }
}

#[cfg(feature = "demo")]
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  argiope demo --jsonl - -q | head -3\n  \
                  argiope demo --web 8000\n\n\
                  All flags: argiope demo --help",
    allow_negative_numbers = true
)]
pub struct DemoArgs {
    /// Crawl nothing: serve the web on this port until Ctrl-C, with a shop and an application, to try commands on
    ///
    /// The hosts are 127.20.0.1 to 127.20.0.10. The tutorials of the book use port 8000.
    #[arg(long, value_name = "PORT", exclusive = true, help_heading = "Input and directory")]
    pub web: Option<u16>,
    #[command(flatten)]
    crawl: SettingFlags<Config, DEMO>,
    #[command(flatten)]
    io: SettingFlags<CommandIo, DEMO>,
    #[command(flatten)]
    messages: SettingFlags<MessageSettings, DEMO>,
}

#[cfg(feature = "demo")]
impl DemoArgs {
    pub fn apply_to(&self, settings: &mut CommandSettings) -> Result<(), ConfigError> {
        self.crawl.apply_to(&mut settings.crawl)?;
        self.io.apply_to(&mut settings.io)?;
        self.messages.apply_to(&mut settings.messages)
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  argiope completions bash > ~/.local/share/bash-completion/completions/argiope")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  argiope man | man -l -\n  argiope man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Write argiope.1, argiope-crawl.1 and so on to this directory
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// A parser for a fixed set of words. Help, completions and error messages list the words.
pub fn one_of<T>(words: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = BadValue> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>())
}
