//! `argiope fetch`: fetches one URL and prints the exchange.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use argiope_core::Failure;
use argiope_core::crawl::rules::{Config, ProgramSettings, RenderMode, RobotsPolicy, Root};
use argiope_core::crawl::schedule::keeper::Settled;
use argiope_core::crawl::visit::Visit;
use argiope_core::http::conn::{CertificateSummary, TlsInfo};
use argiope_core::page::reader::{DeliveredBodies, decode};
use argiope_runtime::fetchers::Fetchers;

use super::{FAILED, print_error, warn_insecure};
use crate::flags::config_file::UsageError;
use crate::single_request;
use crate::wording;
use argiope_core::base::escape::{pretty_json, visible, visible_bytes};

/// Headers whose values are not printed.
const SECRET_HEADERS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "set-cookie"];

/// What is printed about one exchange. Fields that the exchange did not reach are empty.
#[derive(Clone, Debug, Default)]
pub struct ExchangeView {
    pub url: String,
    /// The addresses of the host. At most one, the connected one, because a visit does not contain the others.
    pub addresses: Vec<IpAddr>,
    /// The address that the connection was made to.
    pub connected: Option<SocketAddr>,
    /// The negotiated TLS parameters and the server's certificate.
    pub tls_info: Option<TlsInfo>,
    /// Whether the certificate was accepted without verification (`--insecure`).
    pub insecure: bool,
    /// Request line and header as sent, in the syntax of HTTP/1.1; empty if no request was sent.
    pub request: Vec<u8>,
    /// Status line and header of the response, in the same syntax; empty if there was no response.
    pub head: Vec<u8>,
    /// Whether the exchange used HTTP/2.
    pub is_http2: bool,
    /// The decoded body as text with control characters escaped, if the user asked for it and there is one.
    pub body: Option<String>,
    pub times: Times,
    pub failure: Option<Failure>,
    /// The record that a crawl would write, without the fields that depend on the scope of a crawl.
    pub record: serde_json::Value,
}

/// The duration of each phase; `None` if the phase was not needed or not reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    pub dns: Option<Duration>,
    pub connect: Option<Duration>,
    pub tls: Option<Duration>,
    /// From the request to the first byte of the response.
    pub first_byte: Option<Duration>,
    pub total: Option<Duration>,
}

/// Fetches one URL as a crawl would, and prints its exchanges, with bodies if `shows_body`. `roots` has the request if it
/// is no plain GET.
pub fn run(mut config: Config, roots: Option<Vec<Root>>, shows_body: bool) -> Result<ExitCode, UsageError> {
    // Only this URL is requested: no robots.txt, no sitemap, no links, no retry. If it has no scheme, https is tried,
    // then http. A page that is rendered makes requests of its own choice, so robots.txt is obeyed then.
    if config.render == RenderMode::Never {
        config.robots = RobotsPolicy::Ignore;
    }
    config.max_tries = 1;
    config.no_sitemap = true;
    let delivered_bodies = if shows_body { DeliveredBodies::All } else { DeliveredBodies::None };
    let program = ProgramSettings { roots, keep_wire: true, delivered_bodies, ..ProgramSettings::default() };
    let rules = argiope_runtime::rules(&config, program)?;
    let fetchers =
        Fetchers::engine(config.engine).with_browser(&rules).map_err(|why| UsageError(wording::browser(&why)))?;
    if config.insecure {
        warn_insecure();
    }
    let visits = match single_request::send(rules, fetchers) {
        Ok(visits) => visits,
        Err(error) => {
            print_error(&visible(&error.to_string()));
            return Ok(ExitCode::from(FAILED));
        }
    };
    let mut text = String::new();
    let mut has_response = false;
    for Settled { visit, line, .. } in &visits {
        text += &render(&ExchangeView::of(visit, line));
        has_response |= visit.facts.status.is_some();
    }
    let code = super::standard_output::print_text(&text);
    Ok(if has_response { code } else { ExitCode::from(FAILED) })
}

impl ExchangeView {
    fn of(visit: &Visit, line: &[u8]) -> Self {
        let url = &visit.link.url;
        let timings = &visit.facts.timings;
        // `ttfb` counts from the start of the connection.
        let setup = timings.connect.unwrap_or_default() + timings.tls.unwrap_or_default();
        let wire = visit.wire.as_deref();
        // The request in `wire` was sent only if the connection was established, including TLS if the URL requires it. A
        // response shows it for a connection that was used before, which has no such times.
        let established = if url.is_https() { timings.tls } else { timings.connect };
        let sent = wire.filter(|_| established.is_some() || visit.facts.status.is_some());
        let mut record: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
        if let Some(record) = record.as_object_mut() {
            // These fields count links in the scope of a crawl, and a fetch has no scope.
            record.remove("links");
            record.remove("new_links");
        }
        Self {
            url: url.to_string(),
            addresses: visit.facts.ip.into_iter().collect(),
            connected: visit.facts.ip.map(|ip| SocketAddr::new(ip, url.port())),
            tls_info: wire.and_then(|wire| wire.tls_info.clone()),
            insecure: visit.facts.insecure,
            request: sent.map(|wire| wire.request.clone()).unwrap_or_default(),
            head: wire.map(|wire| wire.parts()).map(|(head, _body)| head.to_vec()).unwrap_or_default(),
            is_http2: visit.facts.http == Some("2"),
            body: visit.body.as_ref().map(|body| visible_body(&body.bytes, visit.findings.charset)),
            times: Times {
                dns: timings.dns,
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

/// Renders the exchange as text.
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
        for (name, value) in certificate_lines(&tls_info.certificate, exchange.insecure) {
            line(name, &visible(&value));
        }
    }
    let times = render_times(&exchange.times);
    if !times.is_empty() {
        line("times", &times);
    }
    if let Some(failure) = &exchange.failure {
        line("failed", &format!("{} ({})", wording::failure(failure.kind), visible(&failure.advised(wording::advice))));
    }
    render_head(&mut text, "Request", '>', &exchange.request, exchange.is_http2);
    render_head(&mut text, "Response", '<', &exchange.head, exchange.is_http2);
    if let Some(body) = exchange.body.as_ref().filter(|body| !body.is_empty()) {
        text.push_str("\nBody\n");
        for line in body.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    if !exchange.record.is_null() {
        text.push_str("\nRecord\n");
        for line in pretty_json(&exchange.record).lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// A body as text for a terminal. Line breaks and tabs stay. A body without a charset, such as an image, has escaped bytes.
fn visible_body(bytes: &[u8], charset: Option<&str>) -> String {
    let decoded = charset.map(|charset| decode(bytes, Some(charset)).into_owned().into_bytes());
    let bytes = decoded.as_deref().unwrap_or(bytes);
    let line = |line: &[u8]| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        line.split(|byte| *byte == b'\t').map(visible_bytes).collect::<Vec<_>>().join("\t")
    };
    bytes.split(|byte| *byte == b'\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Describes the server's certificate, as lines of name and value. The handshake has verified it, unless `insecure`.
fn certificate_lines(certificate: &CertificateSummary, insecure: bool) -> Vec<(&'static str, String)> {
    const MAX_NAMES: usize = 5;
    let unknown = "unknown".to_owned();
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| unknown.clone());
    let names = &certificate.names;
    let mut valid_for = names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > MAX_NAMES {
        let _ = write!(valid_for, " and {} more", names.len() - MAX_NAMES);
    }
    let mut lines = vec![
        ("certificate", format!("of {}, by {}", or_unknown(&certificate.subject), or_unknown(&certificate.issuer))),
        ("", format!("for {}", if names.is_empty() { "no name" } else { &valid_for })),
        ("", format!("from {} to {}", or_unknown(&certificate.not_before), or_unknown(&certificate.not_after))),
    ];
    if insecure {
        lines.push(("", "NOT VERIFIED (--insecure): this may be any server".to_owned()));
    }
    lines
}

fn render_times(times: &Times) -> String {
    [
        ("DNS", times.dns),
        ("connection", times.connect),
        ("TLS", times.tls),
        ("first byte", times.first_byte),
        ("total", times.total),
    ]
    .into_iter()
    .filter_map(|(name, time)| Some(format!("{name} {}", wording::span(time?))))
    .collect::<Vec<_>>()
    .join(", ")
}

/// Renders the first line and the header of a message, with `mark` before each line. `head` is in the syntax of HTTP/1.1,
/// also for HTTP/2; the first line is changed to name HTTP/2.
fn render_head(text: &mut String, title: &str, mark: char, head: &[u8], is_http2: bool) {
    if head.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}");
    for (number, line) in head.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let shown = redact_header(line);
        let shown = if is_http2 && number == 0 { name_http2(&shown) } else { shown };
        let _ = writeln!(text, "{mark} {shown}");
    }
}

/// Replaces HTTP/1.1 by HTTP/2 in a request line or status line.
fn name_http2(line: &str) -> String {
    match (line.strip_suffix(" HTTP/1.1"), line.strip_prefix("HTTP/1.1 ")) {
        (Some(request), _) => format!("{request} HTTP/2"),
        // HTTP/2 has no reason phrase, so a translated status line ends with a space.
        (None, Some(status)) => format!("HTTP/2 {}", status.trim_end()),
        (None, None) => line.to_owned(),
    }
}

/// Escapes a header line, and omits its value if it is secret.
fn redact_header(line: &[u8]) -> String {
    let shown = visible_bytes(line);
    match shown.split_once(':') {
        Some((name, _)) if SECRET_HEADERS.iter().any(|secret| name.eq_ignore_ascii_case(secret)) => {
            format!("{name}: …")
        }
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use argiope_core::ErrorKind;

    use super::*;

    #[test]
    fn a_rendered_exchange_has_all_parts() {
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
                    issuer: Some("Example CA".into()),
                    names: vec!["example.com".into(), "*.example.com".into()],
                    not_before: Some("2026-01-02T03:04:05Z".into()),
                    not_after: None,
                },
            }),
            insecure: true,
            request: b"GET / HTTP/1.1\r\nHost: example.com\r\nAuthorization: Basic c2VjcmV0\r\n\r\n".to_vec(),
            head: b"HTTP/1.1 200 OK\r\nServer: caf\xe9\x1b[2J\r\nSet-Cookie: id=secret\r\n\r\n".to_vec(),
            is_http2: false,
            body: Some(visible_body(b"<p>\ta\r\n\x1b[2J\xe9\n", Some("windows-1252"))),
            times: Times {
                dns: Some(Duration::from_millis(3)),
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
certificate of example\\x1b[2J, by Example CA
            for example.com, *.example.com
            from 2026-01-02T03:04:05Z to unknown
            NOT VERIFIED (--insecure): this may be any server
times       DNS 3 ms, connection 11 ms, TLS 18 ms, first byte 90 ms, total 140 ms

Request
> GET / HTTP/1.1
> Host: example.com
> Authorization: …

Response
< HTTP/1.1 200 OK
< Server: caf\\xe9\\x1b[2J
< Set-Cookie: …

Body
  <p>\ta
  \\x1b[2Jé

Record
  {
    \"outcome\": \"ok\",
    \"title\": \"a\\u009bb\"
  }
";
        assert_eq!(render(&exchange), expected);
    }

    #[test]
    fn the_bytes_of_a_body_without_a_charset_are_escaped() {
        assert_eq!(visible_body(b"\x89PNG\r\n\x1a\n\xff", None), "\\x89PNG\n\\x1a\n\\xff");
    }

    #[test]
    fn the_request_line_and_the_status_line_name_http2() {
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
    fn a_failure_is_described_in_words() {
        let exchange = ExchangeView {
            url: "http://nowhere.example/".into(),
            times: Times { dns: Some(Duration::from_millis(40)), ..Times::default() },
            failure: Some(Failure::new(ErrorKind::DnsNxdomain, "no such name: nowhere.example")),
            ..ExchangeView::default()
        };
        let expected = "\
http://nowhere.example/

times       DNS 40 ms
failed      no such host (no such name: nowhere.example)
";
        assert_eq!(render(&exchange), expected);
    }
}
