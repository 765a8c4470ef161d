//! The commands and what they take. The flags themselves are in [`groups`].

pub mod config_file;
mod groups;

use std::ffi::OsString;

use argiope_core::rules::{Config, ConfigError};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::audit::AuditArgs;
use crate::commands::ctl::CtlArgs;
use crate::commands::exhibition::ExhibitionArgs;
use crate::commands::explain::ExplainArgs;
use crate::commands::export::ExportArgs;
use crate::commands::fleet::{FleetArgs, FleetFlags, MergeArgs};
use crate::commands::report::ReportArgs;
use crate::commands::robots::RobotsArgs;
use crate::commands::serve::ServeArgs;
pub use groups::{
    DirectoryFlags, EngineFlags, ExtractFlags, FetchFlags, MessageFlags, OutputFlags, PaceFlags, ScopeFlags,
    TrustFlags, WatchFlags, listen, one_of,
};

/// The release of the public suffix list that scope `domain` goes by: it is part of what a crawl means.
const LONG_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\npublic suffix list: psl 2.1.246");

#[derive(Parser, Debug)]
#[command(
    name = "argiope",
    version,
    long_version = LONG_VERSION,
    about = "A web crawler: polite, exact, fast",
    after_help = "Try it without a network: argiope demo\n\
                  All flags of a command: argiope crawl --help",
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Crawl sites from one or more roots
    Crawl(Box<CrawlArgs>),
    /// Fetch one URL and show the exchange in full
    Fetch(Box<FetchArgs>),
    /// Judge URLs by a robots.txt, with the line that decides
    Robots(Box<RobotsArgs>),
    /// Crawl the built-in practice web; needs no network
    Demo(DemoArgs),
    /// Say why a URL was or was not fetched
    Explain(ExplainArgs),
    /// Tell the summary of a crawl again
    Report(ReportArgs),
    /// Write a crawl in a form that other programs read
    Export(ExportArgs),
    /// Findings about a crawled site: titles, redirects, canonicals, orphans, broken links
    Audit(AuditArgs),
    /// Watch a crawl directory in a browser: live view and report
    Serve(ServeArgs),
    /// Control a running crawl: pause, resume, stop, status, pace, rate, exclude
    Ctl(CtlArgs),
    /// Look after a crawl that runs on many machines
    Fleet(FleetArgs),
    /// Turn the results of many machines into one crawl directory
    Merge(MergeArgs),
    /// See what waiting costs: chess, and four engines on slow servers
    Exhibition(ExhibitionArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

#[derive(Args, Debug)]
#[command(
    after_help = CRAWL_EXAMPLES,
    allow_negative_numbers = true
)]
pub struct CrawlArgs {
    /// Where to begin; a host name alone is tried as https, then http
    #[arg(value_name = "URL")]
    roots: Vec<String>,
    #[command(flatten)]
    pub place: DirectoryFlags,
    #[command(flatten)]
    pub fleet: FleetFlags,
    #[command(flatten)]
    scope: ScopeFlags,
    #[command(flatten)]
    pace: PaceFlags,
    #[command(flatten)]
    exchange: FetchFlags,
    #[command(flatten)]
    trust: TrustFlags,
    #[command(flatten)]
    keep: OutputFlags,
    #[command(flatten)]
    watch: WatchFlags,
    #[command(flatten)]
    extract: ExtractFlags,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    tell: MessageFlags,
}

const CRAWL_EXAMPLES: &str = "\
Examples:
  argiope crawl example.com
      a whole site
  argiope crawl https://example.com/docs/ --scope prefix --exclude '\\.pdf$'
      one part of it, without PDFs
  argiope crawl example.com --max-pages 500 --jsonl pages.jsonl
      500 pages, and a record of each
  argiope crawl example.com --jsonl - -q | jq -r 'select(.outcome == \"http_error\") | .url'
      broken pages, for a script
  argiope crawl http://localhost:8080 --pace full -c 200 --fail-on broken
      your own server, as fast as it can; exit code 3 where a link is broken

Durations are written 500ms, 0.5s, 5m, 1h; sizes 64K, 10M, 1G.
Exit codes: 0 finished, 1 could not start or go on, 2 bad usage, 3 broken links (--fail-on), 130 or 143 interrupted.";

impl CrawlArgs {
    /// Lays what was said on the command line over the settings of a file (or the defaults).
    pub fn apply_to(&self, config: &mut Config) -> Result<(), ConfigError> {
        if !self.roots.is_empty() {
            config.roots.clone_from(&self.roots);
        }
        self.place.apply_to(config);
        self.scope.apply_to(config);
        self.pace.apply_to(config);
        self.exchange.apply_to(config)?;
        self.trust.apply_to(config);
        self.keep.apply_to(config);
        self.watch.apply_to(config);
        self.extract.apply_to(config);
        self.engine.apply_to(config);
        self.tell.apply_to(config);
        Ok(())
    }
}

#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  argiope fetch https://example.com/\n\n\
                  Redirects are shown, not followed.\n\
                  Exit codes: 0 there was an answer, whatever its status; 1 there was none; 2 bad usage.",
    allow_negative_numbers = true,
    mut_args = |arg| hide(arg, &["robots", "no_robots", "max_tries", "retry_wait", "max_redirects"])
)]
pub struct FetchArgs {
    /// What to fetch; without a scheme it is https
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    exchange: FetchFlags,
    #[command(flatten)]
    trust: TrustFlags,
    #[command(flatten)]
    extract: ExtractFlags,
}

/// Leaves out of a command's help what has no effect there. Scripts that share flags among commands go on working.
pub fn hide(arg: clap::Arg, idle: &[&str]) -> clap::Arg {
    let is_idle = idle.contains(&arg.get_id().as_str());
    arg.hide(is_idle)
}

impl FetchArgs {
    pub fn apply_to(&self, config: &mut Config) -> Result<(), ConfigError> {
        config.roots = vec![self.url.clone()];
        self.exchange.apply_to(config)?;
        self.trust.apply_to(config);
        self.extract.apply_to(config);
        Ok(())
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  argiope demo --jsonl - -q | head -3", allow_negative_numbers = true)]
pub struct DemoArgs {
    #[command(flatten)]
    pace: PaceFlags,
    #[command(flatten)]
    keep: OutputFlags,
    #[command(flatten)]
    watch: WatchFlags,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    tell: MessageFlags,
}

impl DemoArgs {
    pub fn apply_to(&self, config: &mut Config) {
        self.pace.apply_to(config);
        self.keep.apply_to(config);
        self.watch.apply_to(config);
        self.engine.apply_to(config);
        self.tell.apply_to(config);
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  argiope completions bash > ~/.local/share/bash-completion/completions/argiope")]
pub struct CompletionsArgs {
    /// Which shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// The command line as it is documented.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Reads the command line. Bad usage, `--help` and `--version` are clap's to print.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(crawl) = crawl_alone(&arguments) {
        return Ok(Arguments { command: Command::Crawl(Box::new(crawl)) });
    }
    let matches = command().try_get_matches_from(arguments)?;
    Arguments::from_arg_matches(&matches)
}

/// Reads a crawl without putting together the flags of all other commands, which takes longer than the rest of the
/// start. Help, and what is wrong, are the whole command line's to tell: then there is nothing.
fn crawl_alone(arguments: &[OsString]) -> Option<CrawlArgs> {
    let words = arguments.get(1..).filter(|words| words.first().is_some_and(|word| word == "crawl"))?;
    let matches = CrawlArgs::augment_args(clap::Command::new("crawl")).try_get_matches_from(words).ok()?;
    CrawlArgs::from_arg_matches(&matches).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    /// Every long flag of `crawl` is a key of the configuration file, and every key is a flag.
    #[test]
    fn flags_and_keys_are_the_same() {
        let command = command();
        let crawl = command.find_subcommand("crawl").unwrap();
        let mut flags: Vec<&str> = crawl
            .get_arguments()
            .flat_map(|arg| arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default()))
            .filter(|long| !matches!(*long, "help" | "config"))
            .collect();
        // Several logins are more than a line of flags can say.
        let in_files_only = |key: &&str| !matches!(*key, "roots" | "auth");
        let mut keys: Vec<&str> = Config::keys().iter().copied().filter(in_files_only).collect();
        flags.sort_unstable();
        keys.sort_unstable();
        assert_eq!(flags, keys);
    }

    #[test]
    fn a_crawl_is_read_alone_as_it_is_among_the_others() {
        for (line, is_right) in [
            ("argiope crawl h -q -c 7 --delay 1s --jsonl - -d x.crawl", true),
            ("argiope crawl --exclude a --exclude b -vv -- -h", true),
            ("argiope crawl", true),
            ("argiope crawl --help", false),
            ("argiope crawl h --depth x", false),
            ("argiope crawl h --colour", false),
            ("argiope fetch h", false),
            ("argiope", false),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let alone = crawl_alone(&words).map(|crawl| format!("{:?}", Command::Crawl(Box::new(crawl))));
            assert_eq!(alone.is_some(), is_right, "{line}");
            let matches = command().try_get_matches_from(&words).and_then(|found| Arguments::from_arg_matches(&found));
            let among = matches.ok().map(|found| format!("{:?}", found.command));
            assert!(alone.is_none() || alone == among, "{line}: {alone:?} but {among:?}");
        }
    }

    fn read<T: Args>(line: &[&str]) -> Result<T, clap::Error> {
        let matches = T::augment_args(clap::Command::new("x")).try_get_matches_from([&["x"], line].concat())?;
        T::from_arg_matches(&matches)
    }

    #[test]
    fn commands_to_come_read_what_is_documented() {
        let explain: ExplainArgs = read(&["d.crawl", "https://h/"]).unwrap();
        assert_eq!((explain.directory.to_str(), explain.url.as_str()), (Some("d.crawl"), "https://h/"));
        let robots: RobotsArgs = read(&["robots.txt", "--agent", "me", "https://h/", "https://h/x"]).unwrap();
        assert_eq!((robots.agent.as_str(), robots.urls.len()), ("me", 2));
        assert!(read::<RobotsArgs>(&["robots.txt"]).is_err());
        for format in ["jsonl", "csv", "parquet", "links", "graphml", "sitemap", "cdxj"] {
            let export: ExportArgs = read(&["d.crawl", "--format", format, "-o", "f"]).unwrap();
            assert_eq!(clap::ValueEnum::to_possible_value(&export.format).unwrap().get_name(), format);
        }
        let report: ReportArgs = read(&["d.crawl", "--html", "r.html"]).unwrap();
        assert_eq!(report.html.unwrap().to_str(), Some("r.html"));
    }
}
