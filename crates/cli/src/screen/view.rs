//! The text of the live view: renders a [`Status`] as lines of limited width.

use std::time::Duration;

use argiope_core::Outcome;
use argiope_core::crawl::status::{CrawlState, HostStatus, HostWait, OutcomeCounts, Status};

use crate::wording;
use argiope_core::base::escape::visible;

/// How many hosts are shown on one line.
const MAX_HOSTS: usize = 3;
/// How many parts of the accounted memory are shown.
const MAX_MEMORY_PARTS: usize = 4;
/// The remaining time is estimated only after the crawl has run for this time. Before that, rates vary too much.
const MIN_ESTIMATE_TIME: Duration = Duration::from_secs(3);

// Parameters of the escape sequence that sets colours (SGR).
const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// Columns of the progress bar.
const BAR_WIDTH: usize = 40;
/// How many errors are listed.
const MAX_ERRORS: usize = 3;
/// How many requests in flight are listed.
const MAX_CURRENT: usize = 5;
/// The minimum height of the view for a progress bar and for lists of errors and requests.
const TALL_SCREEN: usize = 12;

/// How many columns and lines the view may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenSize {
    pub width: usize,
    pub height: usize,
}

/// Renders the lines of the view within `size`.
pub fn lines(status: &Status, size: ScreenSize, colour: bool) -> Vec<String> {
    let ScreenSize { width, height } = size;
    let paint = |code: &str, text: &str| {
        if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    };
    let label = |name: &str| paint(DIM, &format!("{name:>9}  "));
    let mut lines = Vec::with_capacity(16);

    lines.push(format!(
        "{}{}   {} pages/s   {}/s   {}",
        label(&wording::clock(status.elapsed)),
        paint(BOLD, &wording::plural(status.pages, "page")),
        wording::rate(status.pages_per_second),
        wording::bytes(to_whole(status.bytes_per_second)),
        wording::bytes(status.bytes),
    ));
    lines.push(format!(
        "{}{} in flight   {} queued   {}",
        label(state_label(status.state)),
        wording::count(status.in_flight as u64),
        wording::count(status.queued),
        wording::plural(status.hosts, "host"),
    ));
    let outcome_texts = outcome_texts(&status.outcomes, &status.status_classes)
        .map(|(outcome, text)| paint(outcome_colour(outcome), &text))
        .collect::<Vec<_>>();
    if !outcome_texts.is_empty() {
        if height >= TALL_SCREEN {
            lines.push(format!("{}{}", label("known"), bar(status, paint)));
        }
        lines.push(format!("{}{}", label("so far"), outcome_texts.join("   ")));
    }
    if let Some(hosts) = hosts(&status.busiest, busy_host) {
        lines.push(format!("{}{hosts}", label("busiest")));
    }
    if let Some(hosts) = hosts(&status.slowest, slow_host) {
        lines.push(format!("{}{hosts}", label("slowest")));
    }
    if let Some(waiting) = &status.waiting {
        lines.push(format!("{}{}", label("waiting"), self::waiting(waiting)));
    }
    if is_memory_high(status) {
        lines.push(format!("{}{}", label("memory"), memory(status)));
    }
    if let Some(estimate) = estimate(status) {
        lines.push(format!("{}{estimate}", label("to go")));
    }
    if height >= TALL_SCREEN {
        let lines_left = |lines: &Vec<String>| height.saturating_sub(lines.len());
        for (number, error) in status.errors.iter().take(MAX_ERRORS.min(lines_left(&lines))).enumerate() {
            let cause = match (error.kind, error.status) {
                (Some(kind), _) => kind.to_string(),
                (None, Some(status)) => status.to_string(),
                (None, None) => error.outcome.to_string(),
            };
            let name = if number == 0 { "errors" } else { "" };
            lines.push(format!("{}{} {}", label(name), paint(RED, &cause), visible(&error.url)));
        }
        for (number, fetch) in status.current.iter().take(MAX_CURRENT.min(lines_left(&lines))).enumerate() {
            let name = if number == 0 { "fetching" } else { "" };
            let line = format!("{}{:>7} {}", label(name), wording::span(fetch.elapsed), visible(&fetch.url));
            lines.push(line);
        }
    }
    lines.truncate(height);
    for line in &mut lines {
        if console::measure_text_width(line) > width {
            *line = console::truncate_str(line, width, "…").into_owned();
        }
    }
    lines
}

fn outcome_colour(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok | Outcome::NotModified => GREEN,
        Outcome::Redirect | Outcome::Robots => YELLOW,
        Outcome::HttpError | Outcome::Failed | Outcome::Refused => RED,
    }
}

/// A progress bar of the known URLs, or of the page limit if that is lower: the finished URLs in the colours of their
/// outcomes, then the unfinished ones.
fn bar(status: &Status, paint: impl Fn(&str, &str) -> String) -> String {
    let finished = status.outcomes.total();
    let known = finished + status.queued + status.in_flight as u64;
    // More URLs than the limit may be finished, because the limit counts only pages.
    let total = status.max_pages.map_or(known, |limit| known.min(limit.max(finished))).max(1);
    let mut bar = String::new();
    let (mut counted, mut drawn) = (0, 0);
    for colour in [GREEN, YELLOW, RED] {
        let has_colour = |outcome: &Outcome| outcome_colour(*outcome) == colour;
        let count: u64 =
            status.outcomes.iter().filter(|(outcome, _)| has_colour(outcome)).map(|(_, count)| count).sum();
        counted += count;
        let end = usize::try_from(u128::from(counted) * BAR_WIDTH as u128 / u128::from(total)).unwrap_or(BAR_WIDTH);
        // Every colour with a count gets at least one column.
        let end = end.max(drawn + usize::from(count > 0)).min(BAR_WIDTH);
        if end > drawn {
            bar += &paint(colour, &"█".repeat(end - drawn));
            drawn = end;
        }
    }
    bar += &paint(DIM, &"░".repeat(BAR_WIDTH - drawn));
    format!("{bar}  {} of {}", wording::count(finished), wording::plural(total, "URL"))
}

/// Renders the full status for `argiope ctl DIR status`.
pub fn status(status: &Status) -> String {
    let mut text = lines(status, ScreenSize { width: usize::MAX, height: usize::MAX }, false).join("\n");
    let mut line = |name: &str, value: String| text.push_str(&format!("\n{name:>9}  {value}"));
    line("pace", status.pace.to_string());
    line("rate", status.rate.map_or_else(|| "no limit".to_owned(), |rate| format!("{rate} pages/s")));
    line("memory", memory(status));
    line("disk", wording::bytes(status.disk_bytes));
    for pattern in &status.excludes {
        line("excluded", visible(pattern).into_owned());
    }
    text + "\n"
}

/// Whether the accounted memory has reached half of the limit, so that the live view shows its parts.
fn is_memory_high(status: &Status) -> bool {
    let used: u64 = status.memory_parts.values().sum();
    status.max_memory.is_some_and(|limit| used >= limit / 2)
}

/// Resident memory, its limit, and the largest parts of the accounted memory.
fn memory(status: &Status) -> String {
    let mut text = wording::bytes(status.memory_bytes);
    if let Some(limit) = status.max_memory {
        text.push_str(&format!(" of {}", wording::bytes(limit)));
    }
    let mut parts: Vec<_> = status.memory_parts.iter().map(|(part, bytes)| (*bytes, part.as_str())).collect();
    parts.sort_unstable_by(|a, b| b.cmp(a));
    let parts: Vec<String> = parts
        .into_iter()
        .take(MAX_MEMORY_PARTS)
        .map(|(bytes, part)| format!("{part} {}", wording::bytes(bytes)))
        .collect();
    if !parts.is_empty() {
        text.push_str(&format!(" ({})", parts.join(", ")));
    }
    text
}

fn state_label(state: CrawlState) -> &'static str {
    match state {
        CrawlState::Running => "now",
        CrawlState::Paused => "paused",
        CrawlState::Draining => "draining",
    }
}

/// Renders the status as one line, for a log.
pub fn plain(status: &Status) -> String {
    let outcome_texts: Vec<String> =
        outcome_texts(&status.outcomes, &status.status_classes).map(|(_, text)| text).collect();
    let mut line = format!(
        "{}  {}, {}/s, {} in flight, {} queued, {}",
        wording::clock(status.elapsed),
        wording::plural(status.pages, "page"),
        wording::rate(status.pages_per_second),
        wording::count(status.in_flight as u64),
        wording::count(status.queued),
        wording::bytes(status.bytes),
    );
    if !outcome_texts.is_empty() {
        line.push_str(&format!(" ({})", outcome_texts.join(", ")));
    }
    match (&status.state, &status.waiting) {
        (CrawlState::Paused, _) => line.push_str("; paused"),
        (_, Some(waiting)) => line.push_str(&format!("; waiting {}", self::waiting(waiting))),
        (_, None) => {}
    }
    line
}

/// The outcomes with a count above zero, such as `ok 1,200` and `errors 30 (28 4xx, 2 5xx)`. `classes` are the counts of
/// statuses from 1xx to 5xx.
fn outcome_texts(outcomes: &OutcomeCounts, classes: &[u64; 5]) -> impl Iterator<Item = (Outcome, String)> {
    let [.., client_errors, server_errors] = *classes;
    outcomes.iter().map(move |(outcome, number)| {
        let mut text = format!("{} {}", wording::outcome_short(outcome), wording::count(number));
        if outcome == Outcome::HttpError && client_errors > 0 && server_errors > 0 {
            text.push_str(&format!(" ({} 4xx, {} 5xx)", wording::count(client_errors), wording::count(server_errors)));
        }
        (outcome, text)
    })
}

/// The first hosts with requests in flight, each rendered by `render`. `None` if there are none.
fn hosts(hosts: &[HostStatus], render: fn(&HostStatus) -> String) -> Option<String> {
    let texts: Vec<String> = hosts.iter().filter(|host| host.in_flight > 0).take(MAX_HOSTS).map(render).collect();
    (!texts.is_empty()).then(|| texts.join("   "))
}

/// A busy host, such as `h.example 6 of 6 in flight (at the limit of --per-host), 2,000 queued`.
fn busy_host(host: &HostStatus) -> String {
    let cap = host.rate_cap.map(|cap| format!("at most {}/s", wording::rate(cap)));
    let cap = cap.map_or_else(String::new, |cap| format!(", {cap}"));
    let reasons = format!(" ({}{cap})", wording::width_reason(host.width_reason));
    let (in_flight, queued) = (host.in_flight, wording::count(host.queued));
    format!("{} {in_flight} of {} in flight{reasons}, {queued} queued", visible(&host.host), host.width)
}

/// A slow host with its mean time to the first byte.
fn slow_host(host: &HostStatus) -> String {
    let mean_ttfb = host.mean_ttfb.map_or("no response yet".to_owned(), wording::span);
    format!("{} {mean_ttfb}", visible(&host.host))
}

fn waiting(waiting: &HostWait) -> String {
    let next = if waiting.next_in.is_zero() {
        String::new()
    } else {
        format!(", next in {:.1} s", waiting.next_in.as_secs_f64())
    };
    format!("for {}: {}{next}", visible(&waiting.host), wording::wait_reason(waiting.reason))
}

/// Estimates the remaining time, if possible. New links may still be found, so the known URLs give only a lower bound. A
/// limit gives an upper bound.
fn estimate(status: &Status) -> Option<String> {
    let finished = status.pages;
    let unfinished = status.queued + status.in_flight as u64;
    let is_reliable = status.elapsed >= MIN_ESTIMATE_TIME && status.state == CrawlState::Running;
    let time_left = status.max_time.map(|limit| limit.saturating_sub(status.elapsed));
    let is_within_limit = |time: Duration| time_left.is_none_or(|left| time <= left);

    if let Some(limit) = status.max_pages
        && finished + unfinished >= limit
    {
        let pages = limit.saturating_sub(finished);
        let time = least_time(status, pages).filter(|time| is_reliable && is_within_limit(*time));
        let pages_left = format!("{} of {}", wording::plural(pages, "page"), wording::count(limit));
        return Some(time.map_or(pages_left.clone(), |time| format!("{pages_left}, about {}", wording::span(time))));
    }
    if let Some(left) = time_left {
        return Some(format!("at most {}", wording::span(left)));
    }
    let time = least_time(status, unfinished).filter(|_| is_reliable && unfinished > 0)?;
    Some(format!("at least {} for the known URLs", wording::span(time)))
}

/// A lower bound for the time that this many pages take. The maximum of three times: at the current speed, at the limit
/// `--rate`, and at the pace of the busiest and slowest hosts. `None` if all are unknown.
fn least_time(status: &Status, pages: u64) -> Option<Duration> {
    #[allow(clippy::cast_precision_loss)]
    let at_speed = |speed: f64| Duration::try_from_secs_f64(pages as f64 / speed).ok();
    let by_speed = at_speed(status.pages_per_second).filter(|_| status.pages_per_second > 0.0);
    let by_rate = status.rate.filter(|rate| *rate > 0.0).and_then(at_speed);
    let unfinished = status.queued + status.in_flight as u64;
    let by_host = status.busiest.iter().chain(&status.slowest).filter_map(|host| {
        // The unfinished URLs of other hosts. If they are fewer than `pages`, the remaining pages must come from this host.
        let elsewhere = unfinished.saturating_sub(host.queued + host.in_flight as u64);
        let queued = host.queued.min(pages.saturating_sub(elsewhere));
        let queued = u32::try_from(queued).unwrap_or(u32::MAX);
        let is_busy = pages > elsewhere && (queued > 0 || host.in_flight > 0);
        let wait = if queued > 0 { host.next_in } else { Duration::ZERO };
        // Add the response time of the last request.
        let last = host.mean_ttfb.unwrap_or_default();
        is_busy.then(|| host.spacing.saturating_mul(queued).saturating_add(last).saturating_add(wait))
    });
    let time = by_speed.into_iter().chain(by_rate).chain(by_host).max()?;
    (!time.is_zero()).then_some(time)
}

/// Drops the fraction; negative numbers become 0.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn to_whole(number: f64) -> u64 {
    number.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use argiope_core::crawl::status::{CurrentFetch, RecentError, WaitReason, WidthReason};

    use super::*;

    /// Wide enough for all texts, but not high enough for the bar and the lists.
    const WIDE: ScreenSize = ScreenSize { width: 200, height: 9 };

    fn sample_status() -> Status {
        let host = |host: &str, in_flight, queued, millis| HostStatus {
            host: host.into(),
            in_flight,
            width: 6,
            width_reason: WidthReason::Limit,
            queued,
            mean_ttfb: Some(Duration::from_millis(millis)),
            ..HostStatus::default()
        };
        Status {
            elapsed: Duration::from_secs(75),
            pages: 1_250,
            outcomes: [(Outcome::Ok, 1_200), (Outcome::Redirect, 20), (Outcome::HttpError, 30), (Outcome::Robots, 4)]
                .into_iter()
                .collect(),
            status_classes: [0, 1_200, 20, 28, 2],
            in_flight: 64,
            queued: 2_311,
            bytes: 45_100_000,
            pages_per_second: 103.24,
            bytes_per_second: 3_800_000.0,
            hosts: 3,
            busiest: vec![host("www.example.org", 6, 2_000, 45), host("b.example", 2, 311, 90)],
            slowest: vec![host("b.example", 2, 311, 3_240)],
            waiting: Some(HostWait {
                host: "example.net".into(),
                reason: WaitReason::CrawlDelay,
                next_in: Duration::from_millis(3_200),
            }),
            ..Status::default()
        }
    }

    #[test]
    fn the_view_shows_counts_rates_hosts_and_an_estimate() {
        let expected = "     \
     1:15  1,250 pages   103 pages/s   3.8 MB/s   45.1 MB
      now  64 in flight   2,311 queued   3 hosts
   so far  ok 1,200   redirects 20   errors 30 (28 4xx, 2 5xx)   robots 4
  busiest  www.example.org 6 of 6 in flight (at the limit of --per-host), 2,000 queued   b.example 2 of 6 in flight (at the limit of --per-host), 311 queued
  slowest  b.example 3.2 s
  waiting  for example.net: Crawl-delay, next in 3.2 s
    to go  at least 23.0 s for the known URLs";
        assert_eq!(lines(&sample_status(), WIDE, false).join("\n"), expected);
    }

    fn status_with_errors() -> Status {
        Status {
            errors: vec![RecentError {
                url: "http://b.example/gone\x1b[2J".into(),
                outcome: Outcome::HttpError,
                status: Some(404),
                kind: None,
                at: Duration::from_secs(70),
            }],
            current: vec![CurrentFetch { url: "http://b.example/slow".into(), elapsed: Duration::from_millis(3_240) }],
            ..sample_status()
        }
    }

    #[test]
    fn a_tall_terminal_shows_a_bar_errors_and_requests_in_flight() {
        let shown = lines(&status_with_errors(), ScreenSize { width: 100, height: 14 }, false);
        let bar = format!("    known  {}{}  1,254 of 3,629 URLs", "█".repeat(15), "░".repeat(25));
        assert_eq!(shown[2], bar);
        assert_eq!(shown[8], "   errors  404 http://b.example/gone\\x1b[2J");
        assert_eq!(shown[9], " fetching    3.2 s http://b.example/slow");
        let coloured = lines(&status_with_errors(), ScreenSize { width: 100, height: 14 }, true);
        assert!(coloured[2].contains("\x1b[32m█") && coloured[2].contains("\x1b[31m█"), "{}", coloured[2]);
    }

    #[test]
    fn an_estimate_is_at_least_the_time_of_the_slowest_host() {
        let mut status = sample_status();
        // One host with 36 pages of four seconds, one after the other.
        status.busiest = vec![HostStatus {
            in_flight: 1,
            width: 1,
            queued: 36,
            mean_ttfb: Some(Duration::from_secs(4)),
            spacing: Duration::from_secs(4),
            ..HostStatus::default()
        }];
        (status.queued, status.in_flight) = (36, 1);
        assert_eq!(estimate(&status).unwrap(), "at least 2 min 28 s for the known URLs");
        // `--rate` of 0.1 pages per second takes longer than the host.
        (status.rate, status.queued) = (Some(0.1), 36);
        assert_eq!(estimate(&status).unwrap(), "at least 6 min 10 s for the known URLs");
        // The other hosts have enough queued pages to reach the page limit.
        (status.rate, status.queued, status.max_pages) = (None, 10_036, Some(1_260));
        assert_eq!(estimate(&status).unwrap(), "10 pages of 1,260, about 96 ms");
    }

    #[test]
    fn the_view_fits_any_width_and_height() {
        for width in [1, 10, 40, 79] {
            for colour in [false, true] {
                for height in [0, 3, 9, 14, 100] {
                    let lines = lines(&status_with_errors(), ScreenSize { width, height }, colour);
                    assert!(lines.len() <= height);
                    for line in lines {
                        assert!(console::measure_text_width(&line) <= width, "{line}");
                    }
                }
            }
        }
        assert_eq!(
            lines(&sample_status(), ScreenSize { width: 30, height: 9 }, false)[3],
            "  busiest  www.example.org 6 …"
        );
    }

    #[test]
    fn lines_have_colours_only_if_requested() {
        assert!(!lines(&status_with_errors(), ScreenSize { width: 100, height: 40 }, false).join("").contains('\x1b'));
        let lines = lines(&sample_status(), WIDE, true);
        assert!(lines[2].contains("\x1b[32mok 1,200\x1b[0m"), "{}", lines[2]);
    }

    #[test]
    fn an_empty_crawl_has_a_short_view() {
        let expected = "     \
     0:00  0 pages   0.0 pages/s   0 B/s   0 B
      now  0 in flight   0 queued   0 hosts";
        assert_eq!(lines(&Status::default(), WIDE, false).join("\n"), expected);
    }

    #[test]
    fn a_plain_status_is_one_line() {
        assert_eq!(
            plain(&sample_status()),
            "1:15  1,250 pages, 103/s, 64 in flight, 2,311 queued, 45.1 MB (ok 1,200, redirects 20, \
             errors 30 (28 4xx, 2 5xx), robots 4); waiting for example.net: Crawl-delay, next in 3.2 s"
        );
        let paused = Status { state: CrawlState::Paused, ..sample_status() };
        assert!(plain(&paused).ends_with("robots 4); paused"), "{}", plain(&paused));
    }

    #[test]
    fn an_estimate_needs_a_running_crawl_and_a_known_speed() {
        let of = |change: fn(&mut Status)| {
            let mut status = sample_status();
            change(&mut status);
            estimate(&status)
        };
        assert_eq!(of(|s| s.max_pages = Some(2_000)).unwrap(), "750 pages of 2,000, about 7.3 s");
        // The page limit may never be reached, so it gives no estimate.
        assert_eq!(of(|s| s.max_pages = Some(1_000_000)).unwrap(), "at least 23.0 s for the known URLs");
        assert_eq!(of(|s| s.max_time = Some(Duration::from_secs(100))).unwrap(), "at most 25.0 s");
        assert_eq!(of(|s| s.elapsed = Duration::from_secs(1)), None);
        assert_eq!(
            of(|s| {
                s.pages_per_second = 0.0;
                s.busiest.clear();
                s.slowest.clear();
            }),
            None
        );
        assert_eq!(of(|s| s.state = CrawlState::Draining), None);
    }

    #[test]
    fn control_characters_in_host_names_are_escaped() {
        let mut status = sample_status();
        status.busiest[0].host = "evil\x1b[2J".into();
        assert!(!lines(&status, WIDE, false).join("").contains('\x1b'));
    }
}
