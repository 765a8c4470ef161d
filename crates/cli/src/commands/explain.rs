//! `argiope explain DIR URL`: explains why a URL was or was not fetched.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::explain::{DiscoveryStep, ExplainError, Explanation, RedirectPath, RobotsExplanation, UrlState, explain};
use crate::records::StoredRecord;
use crate::report::words::end_words;
use crate::results::Results;
use argiope_core::LinkKind;
use argiope_core::crawl::render_facts::RenderFacts;
use argiope_core::render::RenderReason;
use argiope_store::disk::Referrers;
use clap::Args;

use super::control_socket::{self, ControlRequest};
use super::{FAILED, print_error};
use crate::flags::config_file::UsageError;
use crate::wording;
use argiope_core::base::escape::visible;

#[derive(Args, Debug, PartialEq, Eq)]
#[command(after_help = "Example:\n  argiope explain ./example.com.crawl https://example.com/missing")]
pub struct ExplainArgs {
    /// The crawl directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The URL; a path such as /about is taken on the host of the first root
    #[arg(value_name = "URL")]
    pub url: String,
}

/// Prints everything that is known about the URL.
pub fn run(args: &ExplainArgs) -> Result<ExitCode, UsageError> {
    match explain(&Results::at(&args.directory), &args.url) {
        Ok(explanation) => {
            let mut text = render(&explanation);
            if explanation.crawled_by.is_some() {
                text += &pace_line(&args.directory, explanation.url.host()).unwrap_or_default();
            }
            Ok(super::standard_output::print_text(&text))
        }
        Err(ExplainError::Url(..)) if args.url.is_empty() => Err(UsageError("the URL is empty".into())),
        Err(error @ ExplainError::Url(..)) => Err(UsageError(visible(&error.to_string()).into_owned())),
        Err(ExplainError::Records(error)) => {
            print_error(&visible(&error.to_string()));
            Ok(ExitCode::from(FAILED))
        }
    }
}

/// The line about the pace of a host in the running crawl: requests in flight, their limit, and the reason for the limit.
/// `None` if the crawl does not respond or the host is idle.
fn pace_line(directory: &Path, host: &str) -> Option<String> {
    let host = control_socket::request(directory, &ControlRequest::Host(host.into())).ok()?.host?;
    let mut text = format!(
        "{:<12}{} of {} in flight: {}",
        "pace",
        host.in_flight,
        wording::plural(host.width as u64, "request"),
        wording::width_reason(host.width_reason)
    );
    if let Some(cap) = host.rate_cap {
        let _ = write!(text, "; at most {} a second, because the host refused more", wording::rate(cap));
    }
    if let Some(mean_ttfb) = host.mean_ttfb {
        let _ = write!(text, "; first byte after {}", wording::span(mean_ttfb));
    }
    if let Some(reason) = host.reason {
        let _ = write!(text, "; waiting: {}", wording::wait_reason(reason));
    }
    Some(text + "\n")
}

/// Renders the explanation, one line per part.
pub fn render(explanation: &Explanation) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12}{value}");
    };
    line("url", visible(explanation.url.as_str()).into_owned());
    line("verdict", explanation.verdict());
    let again = if explanation.is_requested_again { "; run the same command to request it again" } else { "" };
    line("state", format!("{}{}{again}", state(&explanation.url_state), limit(explanation)));
    if let Some(path) = redirects(&explanation.redirects) {
        line("redirects", path);
    }
    line("scope", scope(explanation));
    if let UrlState::Settled(record, _) = &explanation.url_state
        && let Some(facts) = &record.render
    {
        line("rendered", rendered(facts));
    }
    for cut in &explanation.cuts {
        let place = format!("{}, rule {}: {}", visible(&cut.at), cut.rule.as_str(), cut.rule.description());
        line(
            "endless",
            format!("similar links were skipped: {place}; to follow them: {}", wording::trap_advice(cut.rule)),
        );
    }
    for reason in &explanation.unfollowed {
        line("links", format!("not followed: {}", reason.description()));
    }
    if explanation.cut_pages.count > 0 {
        let pages = wording::plural(explanation.cut_pages.count, "page");
        line("links", format!("{pages} with more links than --max-links allows; one of those links may lead here:"));
        explanation.cut_pages.first.iter().for_each(|page| line("", visible(page).into_owned()));
    }
    line("robots", robots(explanation));
    line("host", host(explanation));
    for (number, step) in explanation.chain.iter().enumerate() {
        line(if number == 0 { "found" } else { "" }, found(step, explanation.chain.get(number + 1)));
    }
    let Referrers { count, first } = &explanation.referrers;
    if *count > 0 {
        line("linked from", wording::plural(*count, "page"));
        first.iter().for_each(|page| line("", visible(page).into_owned()));
    }
    if let Some(holder) = &explanation.crawled_by {
        line(
            "note",
            format!("{} is crawling this directory now; this is the state of the last commit", visible(holder)),
        );
    }
    text
}

/// The limit that kept a queued URL from being requested, as far as the last run tells.
fn limit(explanation: &Explanation) -> String {
    match (&explanation.url_state, explanation.last_end, &explanation.crawled_by) {
        (UrlState::Queued { .. }, Some(end), None) => {
            format!("; the last run ended: {}", end_words(end).to_lowercase())
        }
        _ => String::new(),
    }
}

/// Why a page was rendered, and what that has gained.
fn rendered(facts: &RenderFacts) -> String {
    let why = match facts.reason {
        RenderReason::Always => "--render always",
        RenderReason::Sample => "a sample of the pages with such addresses",
        RenderReason::Template => "samples of the pages with such addresses gained links or text",
        RenderReason::Empty => "it is empty without its scripts",
    };
    let gain = format!("{} and {}", wording::plural(facts.links.into(), "link"), wording::plural(facts.words, "word"));
    format!("{why}; {gain} more; ended: {} after {} ms", facts.end.as_str(), facts.virtual_ms)
}

fn state(state: &UrlState) -> String {
    match state {
        UrlState::NeverSeen => {
            "never seen: it is not a root, and no fetched page has a link to it that is followed".into()
        }
        UrlState::Queued { tries: 0 } => "queued: found, not requested yet".into(),
        UrlState::Queued { tries } => format!("queued: requested {}, to be retried", times((*tries).into())),
        UrlState::Settled(record, _) if record.is_skip() => match record.reason.as_deref() {
            None | Some("exclude") => "excluded while the crawl was running: found, not fetched".into(),
            Some(rule) => format!("found, not fetched: out of scope since the settings were changed (rule {rule})"),
        },
        UrlState::Settled(record, count) => {
            let mut text = settled(record);
            if *count > 1 {
                let _ = write!(text, "; the last of {count} records");
            }
            text
        }
    }
}

/// The URLs to which the redirects of the URL lead, and whether they form a loop. `None` without a redirect, and for a
/// single redirect that is not a loop: the state of the URL already names its target.
fn redirects(path: &RedirectPath) -> Option<String> {
    let urls: Vec<_> = path.urls.iter().map(|url| visible(url)).collect();
    match &path.back_to {
        Some(back) if urls.is_empty() => Some(format!("to itself, {}: a loop, which counts as broken", visible(back))),
        Some(back) => {
            let all = urls.join(", then to ");
            Some(format!("to {all}, and back to {}: a loop, which counts as broken", visible(back)))
        }
        None if urls.len() > 1 => Some(format!("to {}", urls.join(", then to "))),
        None => None,
    }
}

/// The outcome of a finished URL.
fn settled(record: &StoredRecord) -> String {
    let mut text = record.outcome.map_or_else(String::new, |outcome| wording::outcome(outcome).to_owned());
    if let Some(status) = record.status {
        let _ = write!(text, ", {status} {}", wording::reason_phrase(status));
    }
    if let Some(to) = &record.redirect {
        let _ = write!(text, " to {}", visible(to));
    }
    if let Some(error) = &record.error {
        let _ = write!(text, " ({}: {})", error.kind, visible(&error.advised(wording::advice)));
    }
    if let Some(truncated) = record.truncated {
        let _ = write!(text, ", truncated ({truncated})");
    }
    if record.tries() > 0 {
        let _ = write!(text, "; requested {}", times(record.tries().into()));
    }
    if let Some(started) = &record.started {
        let _ = write!(text, ", last at {}", visible(started));
    }
    text
}

fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{} times", wording::count(number)) }
}

fn scope(explanation: &Explanation) -> String {
    let scope = &explanation.scope;
    let pattern = scope.pattern.as_deref().map(|pattern| format!(": {}", visible(pattern))).unwrap_or_default();
    match scope.rejected {
        // Roots are always in scope, and so are URLs that a program with the library adds.
        None if scope.kind == LinkKind::Root => "in scope: it is a root".into(),
        None if scope.pattern.is_some() => format!("in scope (--scope {}), by --include{pattern}", scope.scope_kind),
        None => format!("in scope (--scope {})", scope.scope_kind),
        Some(rule) => format!(
            "out of scope, rule {}: {}{pattern}; {}",
            rule.as_str(),
            wording::scope_rule(rule),
            wording::scope_advice(rule)
        ),
    }
}

fn robots(explanation: &Explanation) -> String {
    match &explanation.robots {
        RobotsExplanation::Ignored => "ignored by this crawl (--robots ignore)".into(),
        RobotsExplanation::Unknown => "the robots.txt of this host is not known".into(),
        RobotsExplanation::NoRules => "allowed: no robots.txt, or no rules for this crawler".into(),
        RobotsExplanation::Judged(verdict) => {
            let word = if verdict.allowed { "allowed" } else { "disallowed" };
            match &verdict.line {
                Some((number, rule)) => format!("{word} by line {number}: {}", visible(rule)),
                None => format!("{word}: no rule matches"),
            }
        }
    }
}

fn host(explanation: &Explanation) -> String {
    let host = &explanation.host;
    // A host without a lane has no known URLs. Only deferred links to it are queued.
    if host.known == 0 && matches!(explanation.url_state, UrlState::Queued { .. }) {
        return format!("{}: waits until memory has room for more hosts (--max-memory)", visible(&host.host));
    }
    if host.known == 0 {
        return format!("{}: this host was never seen", visible(&host.host));
    }
    let queued = host.known.saturating_sub(host.settled);
    let mut text = format!(
        "{}: {} known, {} finished, {} queued",
        visible(&host.host),
        wording::plural(host.known, "URL"),
        wording::count(host.settled),
        wording::count(queued)
    );
    if let Some(delay) = host.crawl_delay {
        let _ = write!(text, "; Crawl-delay {}", wording::span(delay));
    }
    if let Some(backoff_end) = host.backoff_until.and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok())
        && queued > 0
    {
        let _ = write!(text, "; paused until {backoff_end:.0}");
        let wait = backoff_end.duration_since(jiff::Timestamp::now()).as_secs();
        if let Ok(wait @ 1..) = u64::try_from(wait) {
            let _ = write!(text, " ({} more)", wording::span(Duration::from_secs(wait)));
        }
    }
    text
}

/// Describes one step of the path on which a URL was found: a page, and how it links to the next page.
fn found(step: &DiscoveryStep, next: Option<&DiscoveryStep>) -> String {
    let root = match step.kind {
        LinkKind::Root => "a root, ".to_owned(),
        _ => String::new(),
    };
    let link = match next.map(|next| next.kind) {
        None => "this URL".to_owned(),
        Some(LinkKind::Redirect) => "redirects to".to_owned(),
        Some(LinkKind::Sitemap) => "lists".to_owned(),
        Some(LinkKind::SitemapFile) => "names the sitemap".to_owned(),
        Some(kind) => format!("links ({}) to", kind.as_str()),
    };
    format!("{}: {root}{link}", visible(&step.url))
}
