//! The text of the live view: renders a [`Status`] as lines of limited width.

use std::time::Duration;

use argiope_core::Outcome;
use argiope_core::status::{CrawlState, HostStatus, HostWait, OutcomeCounts, Status};

use super::wording;
use argiope_core::output::escape::visible;

/// Hosts shown on one line.
const HOSTS: usize = 3;
/// Below this run time, rates are too noisy for an estimate.
const SETTLED: Duration = Duration::from_secs(3);

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// Renders the lines of the view, each at most `width` columns wide.
pub fn lines(snapshot: &Status, width: usize, colour: bool) -> Vec<String> {
    let paint = |code: &str, text: &str| {
        if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    };
    let label = |name: &str| paint(DIM, &format!("{name:>9}  "));
    let mut lines = Vec::with_capacity(8);

    lines.push(format!(
        "{}{}   {} pages/s   {}/s   {}",
        label(&wording::clock(snapshot.elapsed)),
        paint(BOLD, &wording::plural(snapshot.outcomes.fetched(), "page")),
        wording::rate(snapshot.pages_per_second),
        wording::bytes(whole(snapshot.bytes_per_second)),
        wording::bytes(snapshot.bytes),
    ));
    lines.push(format!(
        "{}{} in flight   {} queued   {}",
        label(state(snapshot.state)),
        wording::count(snapshot.in_flight as u64),
        wording::count(snapshot.queued),
        wording::plural(snapshot.hosts, "host"),
    ));
    let fates = fates(&snapshot.outcomes, &snapshot.status_classes)
        .map(|(outcome, text)| {
            paint(
                match outcome {
                    Outcome::Ok | Outcome::NotModified => GREEN,
                    Outcome::Redirect | Outcome::Robots => YELLOW,
                    Outcome::HttpError | Outcome::Failed | Outcome::Refused => RED,
                },
                &text,
            )
        })
        .collect::<Vec<_>>();
    if !fates.is_empty() {
        lines.push(format!("{}{}", label("so far"), fates.join("   ")));
    }
    if let Some(hosts) = hosts(&snapshot.busiest, busy) {
        lines.push(format!("{}{hosts}", label("busiest")));
    }
    if let Some(hosts) = hosts(&snapshot.slowest, slow) {
        lines.push(format!("{}{hosts}", label("slowest")));
    }
    if let Some(waiting) = &snapshot.waiting {
        lines.push(format!("{}{}", label("waiting"), self::waiting(waiting)));
    }
    if let Some(estimate) = estimate(snapshot) {
        lines.push(format!("{}{estimate}", label("to go")));
    }
    for line in &mut lines {
        if console::measure_text_width(line) > width {
            *line = console::truncate_str(line, width, "…").into_owned();
        }
    }
    lines
}

/// Renders the full status for `argiope ctl DIR status`.
pub fn status(status: &Status) -> String {
    let mut text = lines(status, usize::MAX, false).join("\n");
    let mut line = |name: &str, value: String| text.push_str(&format!("\n{name:>9}  {value}"));
    line("pace", status.pace.to_string());
    line("rate", status.rate.map_or_else(|| "no limit".to_owned(), |rate| format!("{rate} pages/s")));
    line("memory", wording::bytes(status.memory_bytes));
    line("disk", wording::bytes(status.disk_bytes));
    for pattern in &status.excludes {
        line("excluded", visible(pattern).into_owned());
    }
    text + "\n"
}

fn state(state: CrawlState) -> &'static str {
    match state {
        CrawlState::Running => "now",
        CrawlState::Paused => "paused",
        CrawlState::Draining => "draining",
    }
}

/// Renders the status as one line, for a log.
pub fn plain(snapshot: &Status) -> String {
    let fates: Vec<String> = fates(&snapshot.outcomes, &snapshot.status_classes).map(|(_, text)| text).collect();
    let mut line = format!(
        "{}  {}, {}/s, {} in flight, {} queued, {}",
        wording::clock(snapshot.elapsed),
        wording::plural(snapshot.outcomes.fetched(), "page"),
        wording::rate(snapshot.pages_per_second),
        wording::count(snapshot.in_flight as u64),
        wording::count(snapshot.queued),
        wording::bytes(snapshot.bytes),
    );
    if !fates.is_empty() {
        line.push_str(&format!(" ({})", fates.join(", ")));
    }
    if let Some(waiting) = &snapshot.waiting {
        line.push_str(&format!("; waiting {}", self::waiting(waiting)));
    }
    line
}

/// `ok 1,200`, `errors 30 (28 4xx, 2 5xx)`: outcomes with a count above zero.
fn fates(outcomes: &OutcomeCounts, classes: &[u64; 5]) -> impl Iterator<Item = (Outcome, String)> {
    let [.., client, server] = *classes;
    outcomes.iter().map(move |(outcome, number)| {
        let mut text = format!("{} {}", wording::outcome_short(outcome), wording::count(number));
        if outcome == Outcome::HttpError && client > 0 && server > 0 {
            text.push_str(&format!(" ({} 4xx, {} 5xx)", wording::count(client), wording::count(server)));
        }
        (outcome, text)
    })
}

fn hosts(hosts: &[HostStatus], say: fn(&HostStatus) -> String) -> Option<String> {
    let said: Vec<String> = hosts.iter().filter(|host| host.in_flight > 0).take(HOSTS).map(say).collect();
    (!said.is_empty()).then(|| said.join("   "))
}

fn busy(host: &HostStatus) -> String {
    format!("{} {} in flight, {} queued", visible(&host.host), host.in_flight, wording::count(host.queued))
}

fn slow(host: &HostStatus) -> String {
    let typical = host.typical.map_or("no response yet".to_owned(), wording::span);
    format!("{} {typical}", visible(&host.host))
}

fn waiting(waiting: &HostWait) -> String {
    let next = if waiting.next_in.is_zero() {
        String::new()
    } else {
        format!(", next in {:.1} s", waiting.next_in.as_secs_f64())
    };
    format!("for {}: {}{next}", visible(&waiting.host), waiting.reason)
}

/// Estimates the remaining time where that is sound. The queue may still grow, so the queued URLs only give a lower
/// bound; a limit gives an upper one.
fn estimate(snapshot: &Status) -> Option<String> {
    let done = snapshot.outcomes.fetched();
    let open = snapshot.queued + snapshot.in_flight as u64;
    let settled =
        snapshot.elapsed >= SETTLED && snapshot.pages_per_second > 0.0 && snapshot.state == CrawlState::Running;
    #[allow(clippy::cast_precision_loss)]
    let time_for = |pages: u64| Duration::try_from_secs_f64(pages as f64 / snapshot.pages_per_second).ok();
    let time_left = snapshot.max_time.map(|limit| limit.saturating_sub(snapshot.elapsed));
    let within = |time: Duration| time_left.is_none_or(|left| time <= left);

    if let Some(limit) = snapshot.max_pages
        && done + open >= limit
    {
        let pages = limit.saturating_sub(done);
        let time = time_for(pages).filter(|time| settled && within(*time));
        let of = format!("{} of {}", wording::plural(pages, "page"), wording::count(limit));
        return Some(time.map_or(of.clone(), |time| format!("{of}, about {}", wording::span(time))));
    }
    if let Some(left) = time_left {
        return Some(format!("at most {}", wording::span(left)));
    }
    let time = time_for(open).filter(|_| settled && open > 0)?;
    Some(format!("at least {} for the known URLs", wording::span(time)))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(number: f64) -> u64 {
    number.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use argiope_core::status::WaitReason;

    use super::*;

    fn snapshot() -> Status {
        let host = |host: &str, in_flight, queued, millis| HostStatus {
            host: host.into(),
            in_flight,
            queued,
            typical: Some(Duration::from_millis(millis)),
            ..HostStatus::default()
        };
        Status {
            elapsed: Duration::from_secs(75),
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
    fn the_view_says_what_happens() {
        let expected = "     \
     1:15  1,250 pages   103 pages/s   3.8 MB/s   45.1 MB
      now  64 in flight   2,311 queued   3 hosts
   so far  ok 1,200   redirects 20   errors 30 (28 4xx, 2 5xx)   robots 4
  busiest  www.example.org 6 in flight, 2,000 queued   b.example 2 in flight, 311 queued
  slowest  b.example 3.2 s
  waiting  for example.net: Crawl-delay, next in 3.2 s
    to go  at least 23.0 s for the known URLs";
        assert_eq!(lines(&snapshot(), 100, false).join("\n"), expected);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [1, 10, 40, 79] {
            for colour in [false, true] {
                for line in lines(&snapshot(), width, colour) {
                    assert!(console::measure_text_width(&line) <= width, "{line}");
                }
            }
        }
        assert_eq!(lines(&snapshot(), 30, false)[3], "  busiest  www.example.org 6 …");
    }

    #[test]
    fn colours_only_where_they_are_wanted() {
        assert!(!lines(&snapshot(), 100, false).join("").contains('\x1b'));
        let lines = lines(&snapshot(), 100, true);
        assert!(lines[2].contains("\x1b[32mok 1,200\x1b[0m"), "{}", lines[2]);
    }

    #[test]
    fn an_empty_crawl_has_a_short_view() {
        let expected = "     \
     0:00  0 pages   0.0 pages/s   0 B/s   0 B
      now  0 in flight   0 queued   0 hosts";
        assert_eq!(lines(&Status::default(), 80, false).join("\n"), expected);
    }

    #[test]
    fn a_log_gets_one_line() {
        assert_eq!(
            plain(&snapshot()),
            "1:15  1,250 pages, 103/s, 64 in flight, 2,311 queued, 45.1 MB (ok 1,200, redirects 20, \
             errors 30 (28 4xx, 2 5xx), robots 4); waiting for example.net: Crawl-delay, next in 3.2 s"
        );
    }

    #[test]
    fn an_estimate_is_only_given_where_it_is_honest() {
        let of = |change: fn(&mut Status)| {
            let mut snapshot = snapshot();
            change(&mut snapshot);
            estimate(&snapshot)
        };
        assert_eq!(of(|s| s.max_pages = Some(2_000)).unwrap(), "750 pages of 2,000, about 7.3 s");
        // The page limit may never be reached, so it gives no estimate.
        assert_eq!(of(|s| s.max_pages = Some(1_000_000)).unwrap(), "at least 23.0 s for the known URLs");
        assert_eq!(of(|s| s.max_time = Some(Duration::from_secs(100))).unwrap(), "at most 25.0 s");
        assert_eq!(of(|s| s.elapsed = Duration::from_secs(1)), None);
        assert_eq!(of(|s| s.pages_per_second = 0.0), None);
        assert_eq!(of(|s| s.state = CrawlState::Draining), None);
    }

    #[test]
    fn host_names_cannot_act_on_the_terminal() {
        let mut snapshot = snapshot();
        snapshot.busiest[0].host = "evil\x1b[2J".into();
        assert!(!lines(&snapshot, 200, false).join("").contains('\x1b'));
    }
}
