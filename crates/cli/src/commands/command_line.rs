//! The command line: the commands with their arguments, and how a line is parsed.

use std::ffi::OsString;

use argiope_core::base::escape::visible;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use super::audit::AuditArgs;
use super::check::CheckArgs;
use super::ctl::CtlArgs;
use super::diff::DiffArgs;
#[cfg(feature = "demo")]
use super::exhibition::ExhibitionArgs;
use super::explain::ExplainArgs;
use super::export::ExportArgs;
use super::fleet::{FleetArgs, MergeArgs};
use super::render::RenderArgs;
use super::report::ReportArgs;
use super::robots::RobotsArgs;
use super::serve::ServeArgs;
#[cfg(feature = "demo")]
use crate::flags::DemoArgs;
use crate::flags::{CompletionsArgs, CrawlArgs, FetchArgs, ManArgs};

/// The text of `--version`. It includes the version of the public suffix list, which `--scope domain` depends on.
const LONG_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\npublic suffix list: psl 2.1.246");

#[derive(Parser, Debug)]
#[command(
    name = "argiope",
    version,
    long_version = LONG_VERSION,
    about = "A web crawler: polite, exact, fast",
    after_help = "Try it without a network: argiope demo\n\
                  Common flags of a command: argiope crawl -h; all of them: argiope crawl --help",
    arg_required_else_help = true
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Crawl one or more sites
    Crawl(Box<CrawlArgs>),
    /// Fetch one URL and print request, response and timings
    Fetch(Box<FetchArgs>),
    /// Check URLs against a robots.txt and print the deciding rule
    Robots(Box<RobotsArgs>),
    /// Crawl a built-in demonstration web; needs no network
    #[cfg(feature = "demo")]
    Demo(DemoArgs),
    /// Explain why a URL was or was not fetched
    Explain(ExplainArgs),
    /// Print the report of a crawl directory
    Report(ReportArgs),
    /// Show what changed between two rounds of a crawl, or between two crawls
    Diff(DiffArgs),
    /// Export a crawl as CSV, Parquet, a link graph, a sitemap and more
    Export(ExportArgs),
    /// Find broken links of a site, a folder, or HTML and Markdown files
    Check(Box<CheckArgs>),
    /// List problems of a crawled site: broken links, redirects, titles, orphan pages and more
    Audit(AuditArgs),
    /// Run the scripts of an archived crawl in a browser, without a network
    Render(Box<RenderArgs>),
    /// Show a crawl directory in a browser: live view and report
    Serve(ServeArgs),
    /// Control a running crawl: pause, resume, stop, status, pace, rate, exclude
    Ctl(CtlArgs),
    /// Show or remove a crawl that runs on many machines
    Fleet(FleetArgs),
    /// Merge the results of many machines into one crawl directory
    Merge(MergeArgs),
    /// Compare the engines (--engine) on slow servers
    #[cfg(feature = "demo")]
    Exhibition(ExhibitionArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Print the man page, or write all man pages to a directory
    Man(ManArgs),
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Parses the command line. The error also stands for `--help` and `--version`; it contains the text to print.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(crawl) = parse_crawl_only(&arguments) {
        return Ok(Arguments { command: Command::Crawl(Box::new(crawl)) });
    }
    let parsed = command().try_get_matches_from(&arguments).and_then(|matches| Arguments::from_arg_matches(&matches));
    parsed.map_err(|error| with_valid_commands(error, &arguments))
}

/// Adds the valid commands to the error about an unknown one.
fn with_valid_commands(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let is_command = match error.kind() {
        ErrorKind::InvalidSubcommand => true,
        // After a positional argument, as in `ctl DIR COMMAND`, clap does not say that a command is unknown.
        ErrorKind::UnknownArgument => {
            matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(word)) if !word.starts_with('-'))
        }
        _ => false,
    };
    if !is_command {
        return error;
    }
    if let Some(root) = arguments.get(1).and_then(|first| first.to_str()).filter(|first| looks_like_root(first)) {
        let tip = format!("did you mean `argiope crawl {}`?", visible(root));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        return error;
    }
    let mut command = command();
    for argument in arguments {
        if let Some(inner) = command.find_subcommand(argument) {
            command = inner.clone();
        }
    }
    let names: Vec<&str> =
        command.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name).collect();
    if names.is_empty() {
        return error;
    }
    let tip = format!("the commands are {}", names.join(", "));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Whether a word in place of a command is the URL or the host of a site.
fn looks_like_root(word: &str) -> bool {
    let host = word.split(['/', ':']).next().unwrap_or_default();
    word.contains("://") || host == "localhost" || (host.contains('.') && !host.starts_with('.'))
}

/// Parses a `crawl` command line. Does not build the parsers of the other commands, which takes longer than the rest of the
/// start-up. Returns `None` for other commands, and for help and errors, which need the full parser.
fn parse_crawl_only(arguments: &[OsString]) -> Option<CrawlArgs> {
    let arguments = arguments.get(1..).filter(|rest| rest.first().is_some_and(|first| first == "crawl"))?;
    let matches = CrawlArgs::augment_args(clap::Command::new("crawl")).try_get_matches_from(arguments).ok()?;
    CrawlArgs::from_arg_matches(&matches).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::config_file;
    use crate::flags::settings::CommandSettings;

    #[test]
    fn a_site_in_place_of_a_command_is_answered_with_crawl() {
        for site in ["https://example.com/", "example.com", "localhost:8080", "127.0.0.1/x"] {
            let error = parse(["argiope", site].map(Into::into)).expect_err("no command").to_string();
            assert!(error.contains(&format!("did you mean `argiope crawl {site}`?")), "{error}");
        }
        let error = parse(["argiope", "crwl"].map(Into::into)).expect_err("no command").to_string();
        assert!(!error.contains("did you mean `argiope crawl crwl`"), "{error}");
    }

    #[test]
    fn a_delay_and_a_rate_may_have_no_unit() {
        let line = ["argiope", "crawl", "h.example", "--delay", "5", "--rate", "10"].map(Into::into);
        let Command::Crawl(crawl) = parse(line).expect("a command line").command else { panic!("not a crawl") };
        let settings = config_file::crawl_settings(&crawl).expect("settings").crawl;
        let written = (settings.delay.to_string(), settings.rate.map(|rate| rate.to_string()));
        assert_eq!(written, ("5s".to_owned(), Some("10/s".to_owned())));
    }

    #[test]
    fn clap_accepts_the_definition_of_the_command_line() {
        command().debug_assert();
    }

    #[test]
    fn an_unknown_command_is_answered_with_the_valid_ones() {
        for (arguments, expected) in [
            (&["argiope", "ctl", "d.crawl", "foo"][..], "pause, resume, stop, status, pace, rate, exclude\n"),
            (&["argiope", "fleet", "foo"], "status, "),
            (&["argiope", "foo"], "crawl, "),
        ] {
            let error = parse(arguments.iter().map(Into::into)).unwrap_err().to_string();
            assert!(error.contains(&format!("the commands are {expected}")), "{error}");
        }
    }

    /// The arguments of an example, without pipes and redirections.
    fn split_example(example: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for c in example.chars() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                '|' | '<' | '>' if !is_quoted => break,
                _ => words.last_mut().unwrap().push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn the_examples_of_the_help_parse() {
        let mut command = command();
        command.build();
        let mut examples = 0;
        for sub in command.get_subcommands_mut() {
            let help = format!("{}\n{}", sub.render_help(), sub.render_long_help());
            for line in help.lines().filter(|line| line.starts_with("  ")) {
                // An example is indented by two spaces, or its command comes after a pipe.
                let Some(start) = line.find("argiope ").filter(|start| *start == 2 || line.contains("| argiope"))
                else {
                    continue;
                };
                let words = split_example(&line[start..]);
                let parsed = super::command().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
                examples += 1;
            }
        }
        assert!(examples > 20, "only {examples} examples were found");
    }

    #[test]
    fn every_flag_in_the_limits_of_a_check_exists() {
        let command = command();
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md")).unwrap();
        let section = page.split_once("\n## A check of links\n").unwrap().1.split("\n## ").next().unwrap();
        let check = command.find_subcommand("check").unwrap();
        let flags: Vec<&str> = check.get_arguments().filter_map(clap::Arg::get_long).collect();
        for flag in section.split('`').filter_map(|word| word.strip_prefix("--")) {
            assert!(flags.contains(&flag), "--{flag} is not a flag of check");
        }
    }

    /// Every long flag of `crawl` is a key of the configuration file, and every key is a flag.
    #[test]
    fn flags_and_configuration_keys_match() {
        let command = command();
        let crawl = command.find_subcommand("crawl").unwrap();
        let mut flags: Vec<&str> = crawl
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            // These flags have no key.
            .filter(|long| !matches!(*long, "help" | "config"))
            .collect();
        // Roots are positional arguments, and several logins (`auth`) cannot be given as one flag.
        let has_flag = |key: &&str| !matches!(*key, "roots" | "auth");
        let mut keys: Vec<&str> = CommandSettings::keys().filter(has_flag).collect();
        flags.sort_unstable();
        keys.sort_unstable();
        assert_eq!(flags, keys);
    }

    #[test]
    fn the_fast_path_for_crawl_parses_like_the_full_parser() {
        for (line, is_accepted) in [
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
            let fast = parse_crawl_only(&words).map(|crawl| format!("{:?}", Command::Crawl(Box::new(crawl))));
            assert_eq!(fast.is_some(), is_accepted, "{line}");
            let matches = command().try_get_matches_from(&words).and_then(|found| Arguments::from_arg_matches(&found));
            let full = matches.ok().map(|found| format!("{:?}", found.command));
            assert!(fast.is_none() || fast == full, "{line}: {fast:?} but {full:?}");
        }
    }

    /// Parses the arguments of a subcommand.
    fn parse_args<T: Args>(line: &[&str]) -> Result<T, clap::Error> {
        let matches = T::augment_args(clap::Command::new("x")).try_get_matches_from([&["x"], line].concat())?;
        T::from_arg_matches(&matches)
    }

    #[test]
    fn explain_robots_export_and_report_parse_their_arguments() {
        let explain: ExplainArgs = parse_args(&["d.crawl", "https://h/"]).unwrap();
        assert_eq!((explain.directory.to_str(), explain.url.as_str()), (Some("d.crawl"), "https://h/"));
        let robots: RobotsArgs = parse_args(&["robots.txt", "--agent", "me", "https://h/", "https://h/x"]).unwrap();
        assert_eq!((robots.agent.as_str(), robots.urls.len()), ("me", 2));
        assert!(parse_args::<RobotsArgs>(&["robots.txt"]).is_err());
        for format in ["jsonl", "csv", "parquet", "arrow", "sqlite", "links", "graphml", "sitemap", "cdxj"] {
            let export: ExportArgs = parse_args(&["d.crawl", "--format", format, "-o", "f"]).unwrap();
            assert_eq!(export.format.map(|found| found.name), Some(format));
        }
        let report: ReportArgs = parse_args(&["d.crawl", "--html", "r.html"]).unwrap();
        assert_eq!(report.html.unwrap().to_str(), Some("r.html"));
    }
}
