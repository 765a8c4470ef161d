//! `argiope robots FILE|URL --agent NAME URL...`: prints `allowed` or `disallowed` per URL, with the deciding line.
//!
//! A robots.txt on the web is fetched as in a crawl, with the same retries, redirects and address checks. The same function
//! as in a crawl interprets the response.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use argiope_core::crawl::rules::{Config, ConfigError, ProgramSettings, RobotsPolicy, Root};
use argiope_core::crawl::schedule::keeper::Settled;
use argiope_core::crawl::settings::ROBOTS;
use argiope_core::crawl::visit::SiteFile;
use argiope_core::crawl::visit::Visit;
use argiope_core::page::robots::{MAX_ROBOTS_BYTES, Robots, RobotsAnswer, product_token, target_of};
use argiope_core::{Outcome, Url};
use argiope_runtime::Error;
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{Clock, CrawlSetup, KeeperHandle, KeeperMessage, MemoryFrontier, VisitConsumer};
use argiope_runtime::writer_thread::OutputTarget;
use clap::Args;

use super::{FAILED, print_error, warn_insecure};
use crate::flags::SettingFlags;
use crate::flags::config_file::UsageError;
use crate::wording;
use argiope_core::base::escape::visible;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  argiope robots robots.txt --agent mybot https://example.com/private/ /public/
  argiope robots https://example.com/ /search?q=x
  curl -s https://example.com/robots.txt | argiope robots - --agent mybot /

Prints one line per URL: verdict, URL and reason. The exit code is 0 whether URLs are allowed or not.
All flags: argiope robots --help")]
pub struct RobotsArgs {
    /// A robots.txt file or URL; - reads standard input
    #[arg(value_name = "FILE|URL")]
    pub source: String,
    /// The name of the crawler, as it is looked up in robots.txt
    #[arg(long, value_name = "NAME", default_value = "argiope")]
    pub agent: String,
    /// URLs or paths to check
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    #[command(flatten)]
    settings: SettingFlags<Config, ROBOTS>,
}

/// The interpreted robots.txt.
struct RobotsFile {
    answer: RobotsAnswer,
    /// Why there are no rules, for the user. Empty if there are rules.
    reason: String,
}

/// Checks URLs against a robots.txt.
pub fn run(args: &RobotsArgs) -> Result<ExitCode, UsageError> {
    if product_token(&args.agent).is_empty() {
        let shown = visible(&args.agent);
        return Err(UsageError(format!("'{shown}' for '--agent': write a product name, such as mybot")));
    }
    // Pairs of a URL as written, and the path and query that the rules apply to.
    let targets: Vec<(&str, String)> = args
        .urls
        .iter()
        .map(|url| target_of(url).map(|target| (url.as_str(), target)))
        .collect::<Option<_>>()
        .ok_or_else(|| UsageError("'<URL>...': one of them cannot be parsed; write URLs or paths".to_owned()))?;
    let file = if args.source.contains("://") {
        match fetch(args) {
            Ok(file) => file,
            Err(NotFetched::Usage(usage)) => return Err(usage),
            Err(NotFetched::Crawl(error)) => {
                print_error(&visible(&error.to_string()));
                return Ok(ExitCode::from(FAILED));
            }
        }
    } else {
        let bytes = read(&args.source).map_err(|error| {
            let shown = visible(&args.source);
            UsageError(format!("the file {shown} cannot be read: {error} (a URL begins with http:// or https://)"))
        })?;
        RobotsFile { answer: RobotsAnswer::Rules(Robots::parse(&bytes, &args.agent)), reason: String::new() }
    };
    let mut text = String::new();
    for (url, target) in targets {
        let (allowed, why) = verdict(&file, &target);
        let word = if allowed { "allowed" } else { "disallowed" };
        text += &format!("{word}\t{}\t{}\n", visible(url), visible(&why));
    }
    Ok(super::standard_output::print_text(&text))
}

/// Whether the target may be fetched, and the reason for the user.
fn verdict(file: &RobotsFile, target: &str) -> (bool, String) {
    match &file.answer {
        RobotsAnswer::Rules(robots) => {
            let verdict = robots.judge(target);
            let why = match verdict.line {
                Some((number, rule)) => format!("line {number}: {rule}"),
                None if target == "/robots.txt" => "robots.txt itself is always allowed".to_owned(),
                None => "no rule matches".to_owned(),
            };
            (verdict.allowed, why)
        }
        answer @ (RobotsAnswer::AllowAll | RobotsAnswer::Unreachable { .. }) => {
            (answer.allows(target), file.reason.clone())
        }
    }
}

/// Reads a file up to one byte more than the maximum size of a robots.txt, so that the parser can tell that a file is too
/// long.
fn read(source: &str) -> std::io::Result<Vec<u8>> {
    let max_bytes = MAX_ROBOTS_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    if source == "-" {
        std::io::stdin().lock().take(max_bytes).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(Path::new(source))?.take(max_bytes).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Why a robots.txt could not be fetched.
enum NotFetched {
    /// The arguments are wrong.
    Usage(UsageError),
    /// The crawl stopped before there was a result.
    Crawl(Error),
}

impl From<UsageError> for NotFetched {
    fn from(usage: UsageError) -> Self {
        Self::Usage(usage)
    }
}

impl From<ConfigError> for NotFetched {
    fn from(error: ConfigError) -> Self {
        Self::Usage(error.into())
    }
}

impl From<Error> for NotFetched {
    fn from(error: Error) -> Self {
        Self::Crawl(error)
    }
}

/// Fetches a robots.txt as a crawl would.
fn fetch(args: &RobotsArgs) -> Result<RobotsFile, NotFetched> {
    let mut config = Config { roots: vec![args.source.clone()], ..Config::default() };
    args.settings.apply_to(&mut config)?;
    config.robots = RobotsPolicy::Obey;
    config.no_sitemap = true;
    // Without roots, the crawl fetches only what the messages below request.
    let program = ProgramSettings { roots: Some(Vec::new()), ..ProgramSettings::default() };
    let rules = argiope_runtime::rules(&config, program)?;
    if config.insecure {
        warn_insecure();
    }
    let root = Root::parse(&args.source, config.max_url)?;
    let Some(url) = root.candidates.first().map(robots_url) else {
        return Err(Error::internal("there is no URL to fetch").into());
    };
    let (sender, visits) = channel();
    let keeper = KeeperHandle::start(CrawlSetup {
        frontier: MemoryFrontier::new(rules.fingerprint_key),
        rules: Arc::new(rules),
        fetchers: Fetchers::engine(config.engine),
        clock: Clock::start(),
        consumer: ForwardVisits(sender),
        target: OutputTarget::default(),
        // Without roots, the crawl would end at once. With this flag it stays open until `EndNow`.
        accepts_links: true,
    })?;
    // If the keeper has ended, no visit will arrive and the loop below ends.
    let _ = keeper.inbox.send(KeeperMessage::Robots(url));
    let mut file = None;
    for visit in &visits {
        // `link.redirects` is the number of redirects that may still be followed.
        let was_followed =
            visit.facts.outcome == Outcome::Redirect && visit.facts.redirect.is_some() && visit.link.redirects > 0;
        if !was_followed {
            file = Some(interpret(&visit, &args.agent));
            break;
        }
    }
    let _ = keeper.inbox.send(KeeperMessage::EndNow);
    keeper.join()?;
    file.ok_or_else(|| Error::internal("the fetch ended without a result").into())
}

/// The URL to fetch: the robots.txt of the site if the argument is a front page, otherwise the argument.
fn robots_url(url: &Url) -> Url {
    if url.target() == "/" { Url::robots_of(&url.origin()) } else { url.clone() }
}

/// Interprets the response to the request for robots.txt.
fn interpret(visit: &Visit, agent: &str) -> RobotsFile {
    let bytes = match visit.for_keeper.site_file() {
        Some(SiteFile::Robots(bytes)) => bytes.as_slice(),
        Some(SiteFile::Sitemap(..)) | None => &[],
    };
    let event = match (visit.facts.status, &visit.facts.error) {
        (_, Some(failure)) => format!("could not be fetched: {}", failure.advised(wording::advice)),
        (Some(300..400), None) => "redirects too often".to_owned(),
        (Some(status), None) => format!("responded with {status}"),
        (None, None) => "did not respond".to_owned(),
    };
    let answer = RobotsAnswer::from_response(&visit.robots_response(bytes), agent);
    let reason = match answer {
        RobotsAnswer::Rules(_) => String::new(),
        RobotsAnswer::AllowAll => format!("{} {event}: no robots.txt, everything is allowed", visit.link.url),
        RobotsAnswer::Unreachable { .. } => {
            format!("{} {event}; nothing is allowed until it can be fetched", visit.link.url)
        }
    };
    RobotsFile { answer, reason }
}

/// Sends the visits of the crawl to [`fetch`].
struct ForwardVisits(Sender<Box<Visit>>);

impl VisitConsumer for ForwardVisits {
    fn take(&mut self, settled: Settled) {
        // An error means that `fetch` already has its result.
        let _ = self.0.send(settled.visit);
    }

    fn flush(&mut self) {}
}
