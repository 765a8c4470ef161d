//! `argiope fetch`: fetches one URL and prints the exchange.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use argiope_core::Failure;
use argiope_core::http::conn::{CertificateSummary, TlsInfo};
use argiope_core::rules::{Config, RobotsPolicy, ScopeKind};
use argiope_core::schedule::keeper::Settled;
use argiope_core::visit::Visit;
use argiope_runtime::engine_kind;
use argiope_runtime::keeper_thread::{Clock, CrawlSetup, KeeperHandle, MemoryFrontier, VisitConsumer};
use argiope_runtime::writer_thread::OutputTarget;

use super::{FAILED, print_error, warn_insecure};
use crate::flags::config_file::UsageError;
use crate::screen::wording;
use argiope_core::output::escape::{pretty_json, visible, visible_bytes};

/// Headers whose values are secret: only their presence is shown.
const SECRET: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "set-cookie"];

/// One exchange, up to the point where it ended.
#[derive(Clone, Debug, Default)]
pub struct ExchangeView {
    pub url: String,
    /// The addresses to show. Only the connected one is known, because a visit does not contain the others.
    pub addresses: Vec<IpAddr>,
    /// The address that the connection was made to.
    pub connected: Option<SocketAddr>,
    /// The negotiated TLS parameters and the server's certificate.
    pub tls_info: Option<TlsInfo>,
    /// The certificate was not verified.
    pub insecure: bool,
    /// The request as sent, fields in the syntax of HTTP/1.1; empty if none was sent.
    pub request: Vec<u8>,
    /// The head of the response as received, in the same syntax.
    pub head: Vec<u8>,
    /// HTTP/2 was spoken.
    pub is_http2: bool,
    pub times: Times,
    pub failure: Option<Failure>,
    /// The record that a crawl would write, without what depends on its scope.
    pub record: serde_json::Value,
}

/// The duration of each phase; `None` if it was not needed or not reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    pub name: Option<Duration>,
    pub connect: Option<Duration>,
    pub tls: Option<Duration>,
    /// From the request to the first byte of the response.
    pub first_byte: Option<Duration>,
    pub total: Option<Duration>,
}

/// Fetches one URL as a crawl would, and prints the exchange.
pub fn run(mut config: Config) -> Result<ExitCode, UsageError> {
    config.scope = ScopeKind::Page;
    config.robots = RobotsPolicy::Ignore;
    config.max_tries = 1;
    config.no_sitemap = true;
    let mut rules = argiope_runtime::rules(&config)?;
    rules.keep_wire = true;
    if config.insecure {
        warn_insecure();
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keeping = KeeperHandle::start(CrawlSetup {
        frontier: MemoryFrontier::new(rules.fingerprint_key),
        rules: Arc::new(rules),
        engine: engine_kind(config.engine),
        clock: Clock::start(),
        consumer: CollectVisits(Arc::clone(&seen)),
        target: OutputTarget::default(),
        open: false,
    });
    let ended = keeping.map_err(|error| error.to_string()).and_then(|k| k.join().map_err(|error| error.to_string()));
    if let Err(why) = ended {
        print_error(&visible(&why));
        return Ok(ExitCode::from(FAILED));
    }
    let mut text = String::new();
    let mut is_answered = false;
    for Settled { visit, line, .. } in seen.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        text += &render(&ExchangeView::of(visit, line));
        is_answered |= visit.facts.status.is_some();
    }
    let code = super::standard_output::print(text.as_bytes());
    Ok(if is_answered { code } else { ExitCode::from(FAILED) })
}

struct CollectVisits(Arc<Mutex<Vec<Settled>>>);

impl VisitConsumer for CollectVisits {
    fn take(&mut self, settled: Settled) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(settled);
    }

    fn flush(&mut self) {}
}

impl ExchangeView {
    fn of(visit: &Visit, line: &[u8]) -> Self {
        let url = &visit.link.url;
        let timings = &visit.facts.timings;
        let setup = timings.connect.unwrap_or_default() + timings.tls.unwrap_or_default();
        let wire = visit.wire.as_deref();
        // Without a connection (and TLS if the URL requires it) no request was sent.
        let ready = if url.is_https() { timings.tls } else { timings.connect };
        let asked = wire.filter(|_| ready.is_some());
        let mut record: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
        if let Some(record) = record.as_object_mut() {
            // They count links in the scope of a crawl, and a fetch has no scope.
            record.remove("links");
            record.remove("new_links");
        }
        Self {
            url: url.to_string(),
            addresses: visit.facts.ip.into_iter().collect(),
            connected: visit.facts.ip.map(|ip| SocketAddr::new(ip, url.port())),
            tls_info: wire.and_then(|wire| wire.tls_info.clone()),
            insecure: visit.facts.insecure,
            request: asked.map(|wire| wire.request.clone()).unwrap_or_default(),
            head: wire.map(|wire| wire.parts().0.to_vec()).unwrap_or_default(),
            is_http2: visit.facts.http == Some("2"),
            times: Times {
                name: timings.dns,
                connect: timings.connect,
                tls: timings.tls,
                first_byte: timings.ttfb.map(|ttfb| ttfb.saturating_sub(setup)),
                total: timings.total,
            },
            failure: visit.facts.error.clone(),
            record,
        }
    }
}

/// Renders the exchange.
pub fn render(exchange: &ExchangeView) -> String {
    let mut text = format!("{}\n\n", visible(&exchange.url));
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<12}{value}");
    };
    if !exchange.addresses.is_empty() {
        let addresses: Vec<String> = exchange.addresses.iter().map(ToString::to_string).collect();
        line("addresses", &addresses.join(", "));
    }
    if let Some(address) = exchange.connected {
        line("connected", &format!("to {address}"));
    }
    if let Some(tls_info) = &exchange.tls_info {
        let resumed = if tls_info.resumed { ", resumed" } else { "" };
        line("secured", &format!("{}, {}{resumed}", tls_info.version, tls_info.cipher));
        for (name, wording) in certificate(&tls_info.certificate, exchange.insecure) {
            line(name, &visible(&wording));
        }
    }
    let times = times(&exchange.times);
    if !times.is_empty() {
        line("times", &times);
    }
    if let Some(failure) = &exchange.failure {
        line("failed", &format!("{} ({})", wording::failure(failure.kind), visible(&failure.message)));
    }
    message(&mut text, "Request", '>', &exchange.request, exchange.is_http2);
    message(&mut text, "Response", '<', &exchange.head, exchange.is_http2);
    if !exchange.record.is_null() {
        text.push_str("\nRecord\n");
        for line in pretty_json(&exchange.record).lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// Describes the server's certificate. Verification happened during the handshake.
fn certificate(certificate: &CertificateSummary, insecure: bool) -> Vec<(&'static str, String)> {
    const SHOWN: usize = 5;
    let unknown = "unknown".to_owned();
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| unknown.clone());
    let names = &certificate.names;
    let mut good_for = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        let _ = write!(good_for, " and {} more", names.len() - SHOWN);
    }
    let mut lines = vec![
        ("certificate", format!("of {}, by {}", or_unknown(&certificate.subject), or_unknown(&certificate.issuer))),
        ("", format!("for {}", if names.is_empty() { "no name" } else { &good_for })),
        ("", format!("from {} to {}", or_unknown(&certificate.not_before), or_unknown(&certificate.not_after))),
    ];
    if insecure {
        lines.push(("", "NOT VERIFIED (--insecure): this may be any server".to_owned()));
    }
    lines
}

fn times(times: &Times) -> String {
    [
        ("name", times.name),
        ("connection", times.connect),
        ("TLS", times.tls),
        ("first byte", times.first_byte),
        ("all", times.total),
    ]
    .into_iter()
    .filter_map(|(name, time)| Some(format!("{name} {}", wording::span(time?))))
    .collect::<Vec<_>>()
    .join(", ")
}

/// Renders a head, with a marker before each line. A head of HTTP/2 is translated to HTTP/1.1 syntax; its first line
/// names the version that was spoken.
fn message(text: &mut String, title: &str, mark: char, head: &[u8], is_http2: bool) {
    if head.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}");
    for (number, line) in head.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let shown = header(line);
        let shown = if is_http2 && number == 0 { name_http2(&shown) } else { shown };
        let _ = writeln!(text, "{mark} {shown}");
    }
}

/// A request line or status line of HTTP/1.1, naming HTTP/2.
fn name_http2(line: &str) -> String {
    match (line.strip_suffix(" HTTP/1.1"), line.strip_prefix("HTTP/1.1 ")) {
        (Some(request), _) => format!("{request} HTTP/2"),
        // HTTP/2 has no reason phrase, so a translated status line ends with a space.
        (None, Some(status)) => format!("HTTP/2 {}", status.trim_end()),
        (None, None) => line.to_owned(),
    }
}

fn header(line: &[u8]) -> String {
    let shown = visible_bytes(line);
    match shown.split_once(':') {
        Some((name, _)) if SECRET.iter().any(|secret| name.eq_ignore_ascii_case(secret)) => format!("{name}: …"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use argiope_core::ErrorKind;

    use super::*;

    #[test]
    fn an_exchange_is_shown_in_full() {
        let exchange = ExchangeView {
            url: "https://example.com/".into(),
            addresses: vec!["2001:db8::1".parse().unwrap(), "192.0.2.7".parse().unwrap()],
            connected: Some("192.0.2.7:443".parse().unwrap()),
            tls_info: Some(TlsInfo {
                version: "TLS 1.3",
                cipher: "TLS13_AES_256_GCM_SHA384",
                resumed: false,
                certificate: CertificateSummary {
                    subject: Some("example\u{1b}[2J".into()),
                    issuer: Some("Somebody".into()),
                    names: vec!["example.com".into(), "*.example.com".into()],
                    not_before: Some("2026-01-02T03:04:05Z".into()),
                    not_after: None,
                },
            }),
            insecure: true,
            request: b"GET / HTTP/1.1\r\nHost: example.com\r\nAuthorization: Basic c2VjcmV0\r\n\r\n".to_vec(),
            head: b"HTTP/1.1 200 OK\r\nServer: caf\xe9\x1b[2J\r\nSet-Cookie: id=secret\r\n\r\n".to_vec(),
            is_http2: false,
            times: Times {
                name: Some(Duration::from_millis(3)),
                connect: Some(Duration::from_millis(11)),
                tls: Some(Duration::from_millis(18)),
                first_byte: Some(Duration::from_millis(90)),
                total: Some(Duration::from_millis(140)),
            },
            failure: None,
            record: serde_json::json!({"outcome": "ok", "title": "a\u{9b}b"}),
        };
        let expected = "\
https://example.com/

addresses   2001:db8::1, 192.0.2.7
connected   to 192.0.2.7:443
secured     TLS 1.3, TLS13_AES_256_GCM_SHA384
certificate of example\\x1b[2J, by Somebody
            for example.com, *.example.com
            from 2026-01-02T03:04:05Z to unknown
            NOT VERIFIED (--insecure): this may be any server
times       name 3 ms, connection 11 ms, TLS 18 ms, first byte 90 ms, all 140 ms

Request
> GET / HTTP/1.1
> Host: example.com
> Authorization: …

Response
< HTTP/1.1 200 OK
< Server: caf\\xe9\\x1b[2J
< Set-Cookie: …

Record
  {
    \"outcome\": \"ok\",
    \"title\": \"a\\u009bb\"
  }
";
        assert_eq!(render(&exchange), expected);
    }

    #[test]
    fn the_first_lines_name_http2() {
        let exchange = ExchangeView {
            url: "https://example.com/HTTP/1.1".into(),
            request: b"GET /HTTP/1.1 HTTP/1.1\r\nHost: example.com\r\n\r\n".to_vec(),
            head: b"HTTP/1.1 200 \r\nserver: HTTP/1.1\r\n\r\n".to_vec(),
            is_http2: true,
            ..ExchangeView::default()
        };
        let expected = "\
https://example.com/HTTP/1.1


Request
> GET /HTTP/1.1 HTTP/2
> Host: example.com

Response
< HTTP/2 200
< server: HTTP/1.1
";
        assert_eq!(render(&exchange), expected);
    }

    #[test]
    fn a_failure_is_told_in_words() {
        let exchange = ExchangeView {
            url: "http://nowhere.example/".into(),
            times: Times { name: Some(Duration::from_millis(40)), ..Times::default() },
            failure: Some(Failure::new(ErrorKind::DnsNxdomain, "no such name: nowhere.example")),
            ..ExchangeView::default()
        };
        let expected = "\
http://nowhere.example/

times       name 40 ms
failed      no such host (no such name: nowhere.example)
";
        assert_eq!(render(&exchange), expected);
    }
}
