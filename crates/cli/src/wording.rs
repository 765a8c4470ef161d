//! Wording for users: numbers, sizes, durations, outcomes, failures and HTTP statuses.

use std::time::Duration;

use argiope_core::crawl::schedule::trap::TrapRule;
use argiope_core::crawl::status::{WaitReason, WidthReason};
use argiope_core::page::scope::ScopeRule;
use argiope_core::{Advice, ErrorKind, Outcome, Remedy};
use argiope_fleet::cluster::AccessRemedy;
use argiope_runtime::Error;
use argiope_runtime::fetchers::BrowserError;

/// A number with separators, such as `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun, such as `1 page` or `2,000 pages`.
pub fn plural(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

/// A size, such as `812 B`, `45.1 kB` or `3.2 MB`.
pub fn bytes(number: u64) -> String {
    if number < 1_000 {
        return format!("{number} B");
    }
    #[allow(clippy::cast_precision_loss)]
    let mut value = number as f64;
    let mut unit = "B";
    for larger in ["kB", "MB", "GB", "TB", "PB"] {
        // A value that would round to 1000.0 belongs to the next unit.
        if value < 999.95 {
            break;
        }
        value /= 1_000.0;
        unit = larger;
    }
    format!("{value:.1} {unit}")
}

/// A rate, such as `0.4`, `12.3` or `1,234`: with one decimal digit below 100 and none above.
pub fn rate(per_second: f64) -> String {
    if per_second < 99.95 {
        format!("{per_second:.1}")
    } else {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        count(per_second.round() as u64)
    }
}

/// A duration, such as `85 ms`, `3.2 s`, `4 min 5 s`, `2 h 3 min` or `1 d 1 h`.
pub fn span(duration: Duration) -> String {
    let millis = duration.as_millis();
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{millis} ms"),
        // The next line would print this as 60.0 s.
        1..60 if millis >= 59_950 => "1 min 0 s".to_owned(),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Elapsed time, such as `0:07`, `12:34` or `1:02:03`.
pub fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3_600, seconds % 3_600 / 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// An outcome as a heading.
pub fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Redirect => "redirects",
        Outcome::NotModified => "not modified",
        Outcome::HttpError => "HTTP errors",
        Outcome::Failed => "failed",
        Outcome::Robots => "disallowed by robots.txt",
        Outcome::Refused => "refused",
    }
}

/// An outcome, short enough for a line of counts.
pub fn outcome_short(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::HttpError => "errors",
        Outcome::Robots => "robots",
        Outcome::NotModified => "unchanged",
        other => self::outcome(other),
    }
}

/// What a failure means, for users who do not know the protocols.
pub fn failure(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::DnsNxdomain => "no such host",
        ErrorKind::DnsServfail => "the name servers failed to resolve the host",
        ErrorKind::DnsTimeout => "the name servers did not answer in time",
        ErrorKind::DnsInvalid => "not a valid host name",
        ErrorKind::ConnectRefused => "the host refused the connection",
        ErrorKind::ConnectTimeout => "the host did not accept a connection in time",
        ErrorKind::Unreachable => "there is no route to the host",
        ErrorKind::Tls => "the TLS handshake failed",
        ErrorKind::TimeoutFirstByte => "no response in time",
        ErrorKind::TimeoutIdle => "the response stalled",
        ErrorKind::TimeoutTotal => "the response took too long",
        ErrorKind::TooSlow => "the response was too slow",
        ErrorKind::Reset => "the connection was reset",
        ErrorKind::EmptyReply => "the server closed the connection without a response",
        ErrorKind::Protocol => "the response is not valid HTTP",
        ErrorKind::HeaderTooLarge => "the response headers are too large",
        ErrorKind::TooLarge => "the response is too large",
        ErrorKind::Decode => "the response could not be decompressed",
        ErrorKind::RedirectLoop => "redirects in a loop",
        ErrorKind::RedirectLimit => "too many redirects in a row",
        ErrorKind::RedirectInvalid => "redirects to an invalid URL",
        ErrorKind::RedirectBlocked => "redirects to a URL that is neither http nor https",
        ErrorKind::PrivateAddress => "points into a private network (allow with --allow-private)",
        ErrorKind::BlockedPort => "uses a port that is blocked for web requests",
        ErrorKind::ParseLimit => "the page exceeds a parser limit",
        ErrorKind::RobotsUnreachable => "robots.txt could not be fetched, so no page of this host may be fetched",
        ErrorKind::Trap => "a rendered page requested more hosts than the budgets against traps allow",
        ErrorKind::Hook => "dropped by a request hook of the program, or the hook panicked",
        ErrorKind::NotRepeated => "an earlier run may have sent this form; it is not sent again",
        ErrorKind::Internal => "internal error; please report it",
        // `ErrorKind` is non-exhaustive. A test checks that every kind has a text.
        _ => "",
    }
}

/// The reason phrase of an HTTP status; empty if it is not registered.
pub fn reason_phrase(code: u16) -> &'static str {
    http::StatusCode::from_u16(code).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

/// Why the scope rejects a link.
pub fn scope_rule(rule: ScopeRule) -> &'static str {
    match rule {
        ScopeRule::Exclude => "matches an --exclude pattern",
        ScopeRule::MaxUrl => "longer than --max-url",
        ScopeRule::Name => "on a host whose name is not valid in DNS",
        ScopeRule::Kind => "a kind of link that is not followed",
        ScopeRule::Depth => "deeper than --depth",
        ScopeRule::Page => "not one of the roots (--scope page)",
        ScopeRule::Prefix => "not below the directory of a root (--scope prefix)",
        ScopeRule::Host => "on another host (--scope host)",
        ScopeRule::Domain => "in another domain (--scope domain)",
        ScopeRule::Include => "matches no --include pattern",
        ScopeRule::PathDepth => "its path is very deep, as in a trap",
    }
}

/// How to include a link that the scope rejects.
pub fn scope_advice(rule: ScopeRule) -> &'static str {
    match rule {
        ScopeRule::Exclude => "drop or narrow --exclude",
        ScopeRule::MaxUrl => "raise --max-url",
        ScopeRule::Name => "DNS does not allow this host name",
        ScopeRule::Kind => {
            "use --assets for resources of pages, --follow data for links in scripts; with --only sitemap no links are followed; other kinds are only recorded"
        }
        ScopeRule::Depth => "raise --depth",
        ScopeRule::Page => "use --scope prefix or host",
        ScopeRule::Prefix => "use --scope host, or a root higher up (end a directory with a slash)",
        ScopeRule::Host => "use --scope domain, or give that host as a root",
        ScopeRule::Domain => "give that domain as a root, or use --scope any",
        ScopeRule::Include => "drop or widen --include",
        ScopeRule::PathDepth => "use --traps ignore",
    }
}

/// How to lift a restriction on an endless structure.
pub fn trap_advice(rule: TrapRule) -> &'static str {
    match rule {
        TrapRule::PathDepth => "--traps ignore with --recrawl",
        TrapRule::MaxPagesPerHost => "raise --max-pages-per-host, with --recrawl",
        TrapRule::HostMemory => "raise --max-memory, or use a crawl directory",
        _ => "raise --trap-budget, or --traps ignore, with --recrawl",
    }
}

/// The error in the words of the command.
pub fn error(error: &Error) -> Error {
    error.clone().reworded(|key| key, remedy)
}

/// What the user can do about an error of the store.
pub fn remedy(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::FreeSpace => "what was committed is safe: free some space and run the same command to resume",
        Remedy::MakeWritable => "what was committed is safe: make it writable and run the same command to resume",
        Remedy::RemoveCause => "what was committed is safe: once the cause is removed, run the same command to resume",
        Remedy::Rebuild => "run the same command again: it is rebuilt from the log",
        Remedy::RemoveSnapshot => {
            "remove the file `snapshot`, and run the same command again: it is rebuilt from the log"
        }
        Remedy::RestoreOrStartOver => "restore it from a copy, or start over with --fresh",
        Remedy::OtherDirectory => "give another --out",
        Remedy::WaitOrOtherDirectory => "wait for it, or give another --out",
        Remedy::MoveOrOtherDirectory => "move it, or give another --out",
        Remedy::OtherDirectoryOrStartOver => "give another --out, or --fresh to start over",
        Remedy::ExportOrOtherFile => {
            "name another file; `argiope export DIR --format jsonl` writes all records of the crawl directory"
        }
        Remedy::NewerVersion => "use a newer argiope",
        other => other.as_str(),
    }
}

/// What the user can do about a store of a fleet that cannot be opened, as the end of a message.
pub fn access_remedy(remedy: AccessRemedy) -> &'static str {
    match remedy {
        AccessRemedy::GiveLogin => {
            ": give it with --frontier-password-file FILE, in ARGIOPE_FRONTIER_PASSWORD, or as \
             redis://USER:PASSWORD@HOST"
        }
        AccessRemedy::TrustAuthority => ": name it with --ca-cert FILE",
    }
}

/// What the user can do about a failed fetch.
pub fn advice(advice: Advice) -> &'static str {
    match advice {
        Advice::TrustAuthority => "--ca-cert FILE trusts its authority, -k skips the verification",
        Advice::SkipVerification => "--ca-cert does not help, -k skips the verification",
        Advice::AllowPrivate => "--allow-private allows it",
    }
}

/// Why no browser can be started, and which flag helps.
pub fn browser(error: &BrowserError) -> String {
    match error {
        BrowserError::Missing(_) => format!("{error}, or name one with --browser"),
        BrowserError::NoSandbox => format!("{error}, or give --browser-no-sandbox if the container is the sandbox"),
    }
}

/// Why no request to a host starts now.
pub fn wait_reason(reason: WaitReason) -> String {
    match reason {
        WaitReason::Rate => "limited by --rate".to_owned(),
        other => other.to_string(),
    }
}

/// Why no more requests to a host are in flight.
pub fn width_reason(reason: WidthReason) -> String {
    match reason {
        WidthReason::Limit => "at the limit of --per-host".to_owned(),
        WidthReason::Gentle => "--pace gentle".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_text() {
        let without: Vec<_> = ErrorKind::ALL.iter().filter(|kind| failure(**kind).is_empty()).collect();
        assert!(without.is_empty(), "{without:?}");
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        assert_eq!(plural(1, "page"), "1 page");
        assert_eq!(plural(0, "page"), "0 pages");
    }

    #[test]
    fn sizes_from_one_kilobyte_on_have_one_decimal_digit() {
        for (number, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (45_120, "45.1 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (3_200_000_000, "3.2 GB"),
            (u64::MAX, "18446.7 PB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn rates_and_times_are_rounded_for_people() {
        assert_eq!(
            [rate(0.0), rate(0.44), rate(99.94), rate(99.96), rate(1_234.4)],
            ["0.0", "0.4", "99.9", "100", "1,234"]
        );
        for (millis, text) in [
            (0, "0 ms"),
            (85, "85 ms"),
            (3_200, "3.2 s"),
            (59_970, "1 min 0 s"),
            (245_000, "4 min 5 s"),
            (7_380_000, "2 h 3 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), text);
        }
        assert_eq!(clock(Duration::from_secs(7)), "0:07");
        assert_eq!(clock(Duration::from_secs(3_723)), "1:02:03");
    }
}
