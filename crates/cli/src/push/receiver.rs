//! [`RecordReceiver`]: the server that gets records. Sends a body to it, and interprets the answer.

use std::time::Duration;

use argiope_core::base::custom_request::{CustomRequest, Method};
use argiope_core::crawl::rules::{Config, HeaderLine, ProgramSettings, RobotsPolicy, Root, ScopeKind};
use argiope_core::page::reader::DeliveredBodies;
use argiope_core::{ErrorKind, Link};
use argiope_runtime::fetchers::Fetchers;
use base64::Engine as _;
use serde::Deserialize;
use url::Url;

use crate::flags::config_file::UsageError;
use crate::flags::settings::PushFormat;
use crate::single_request;
use crate::wording;

/// A server that gets records.
pub struct RecordReceiver {
    /// The settings of the connection. The only root is the URL of the receiver, without a name and a password.
    config: Config,
    headers: Vec<(Box<str>, Box<str>)>,
    format: PushFormat,
}

/// What the receiver answered.
#[derive(Debug, PartialEq, Eq)]
pub enum ReceiverAnswer {
    /// It has the records.
    Accepted,
    /// It may accept the records later, in the given time if it said so.
    Later(String, Option<Duration>),
    /// The body is too large for it.
    TooLarge,
    /// It will not accept the records, for this reason.
    Refused(String),
}

impl RecordReceiver {
    /// The receiver at a URL. Of the settings of the crawl, only those of the network apply: logins, headers and cookies
    /// are for the sites.
    pub fn new(url: &str, format: PushFormat, headers: &[HeaderLine], crawl: &Config) -> Result<Self, UsageError> {
        let bad = |why: &str| UsageError(format!("--to: {why}; write http://HOST/PATH or https://HOST/PATH"));
        let mut url = Url::parse(url).map_err(|error| bad(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("records are sent over HTTP"));
        }
        let mut own: Vec<(Box<str>, Box<str>)> = vec![("Content-Type".into(), "application/x-ndjson".into())];
        if !url.username().is_empty() {
            let plain = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
            let login = format!("{}:{}", plain(url.username()), plain(url.password().unwrap_or_default()));
            let login = base64::engine::general_purpose::STANDARD.encode(login);
            own.push(("Authorization".into(), format!("Basic {login}").into()));
            // Both succeed for a URL with a host.
            let _ = (url.set_username(""), url.set_password(None));
        }
        for HeaderLine { name, value } in headers {
            own.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            own.push((name.clone(), value.clone()));
        }
        let config = Config {
            roots: vec![url.into()],
            robots: RobotsPolicy::Ignore,
            scope: ScopeKind::Page,
            depth: Some(0),
            max_tries: 1,
            max_redirects: 0,
            no_sitemap: true,
            no_cookies: true,
            engine: crawl.engine,
            user_agent: crawl.user_agent.clone(),
            contact: crawl.contact.clone(),
            timeout: crawl.timeout,
            connect_timeout: crawl.connect_timeout,
            idle_timeout: crawl.idle_timeout,
            proxy: crawl.proxy.clone(),
            http: crawl.http,
            resolve: crawl.resolve.clone(),
            dns: crawl.dns,
            ca_cert: crawl.ca_cert.clone(),
            insecure: crawl.insecure,
            ..Config::default()
        };
        let receiver = Self { config, headers: own, format };
        // Shows bad settings before anything is sent.
        receiver.program(Vec::new()).and_then(|program| Ok(argiope_runtime::rules(&receiver.config, program)?))?;
        Ok(receiver)
    }

    /// Its URL, without a name and a password.
    pub fn url(&self) -> &str {
        self.config.roots.first().map_or("", String::as_str)
    }

    /// Sends a body once.
    pub fn post(&self, body: Vec<u8>) -> Result<ReceiverAnswer, UsageError> {
        let rules = argiope_runtime::rules(&self.config, self.program(body)?)?;
        let sent = single_request::send(rules, Fetchers::engine(self.config.engine));
        let visit = match sent {
            Ok(visits) => visits.into_iter().next_back().map(|settled| settled.visit),
            Err(error) => return Ok(ReceiverAnswer::Later(error.to_string(), None)),
        };
        let Some(visit) = visit else { return Ok(ReceiverAnswer::Later("no request was sent".to_owned(), None)) };
        let failure = visit.facts.error.as_ref();
        let Some(status) = visit.facts.status else {
            let why = failure.map(|failure| failure.advised(wording::advice).into_owned());
            let why = why.unwrap_or_else(|| "there was no answer".to_owned());
            return Ok(match failure.map(|failure| failure.kind) {
                // A certificate or an address that is not accepted now is not accepted later either.
                Some(ErrorKind::Tls | ErrorKind::PrivateAddress | ErrorKind::BlockedPort) => {
                    ReceiverAnswer::Refused(why)
                }
                _ => ReceiverAnswer::Later(why, None),
            });
        };
        let text = visit.body.as_ref().map(|body| body.bytes.as_slice()).unwrap_or_default();
        Ok(match status {
            // Without the end of the answer, it is not known what it says.
            200..=299 if visit.facts.truncated.is_some() => {
                ReceiverAnswer::Later("its answer was cut off".to_owned(), None)
            }
            200..=299 => self.format.read_answer(text),
            408 | 425 | 429 | 500..=599 => {
                ReceiverAnswer::Later(format!("it answered {status}"), visit.for_keeper.retry_after())
            }
            413 => ReceiverAnswer::TooLarge,
            300..=399 => {
                ReceiverAnswer::Refused(format!("it answered {status}, a redirect; give the URL that it leads to"))
            }
            _ => ReceiverAnswer::Refused(format!("it answered {status}{}", first_line(text))),
        })
    }

    fn program(&self, body: Vec<u8>) -> Result<ProgramSettings, UsageError> {
        let mut roots = Root::parse_all(&self.config.roots, self.config.max_url)?;
        let request = CustomRequest {
            method: Method::Post,
            headers: self.headers.clone(),
            body: body.into(),
            ..CustomRequest::default()
        };
        for root in &mut roots {
            let request = std::sync::Arc::new(request.clone());
            root.requests = root
                .candidates
                .iter()
                .map(|url| Link { request: Some(request.clone()), ..Link::root(url.clone(), 0) })
                .collect();
        }
        Ok(ProgramSettings { roots: Some(roots), delivered_bodies: DeliveredBodies::All, ..ProgramSettings::default() })
    }
}

/// The first line of a text, to be added to a message. Empty if there is none.
fn first_line(text: &[u8]) -> String {
    const MAX_CHARS: usize = 200;
    let text = String::from_utf8_lossy(text);
    match text.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => format!(": {}", line.chars().take(MAX_CHARS).collect::<String>()),
        None => String::new(),
    }
}

/// The answer of the bulk interface of Elasticsearch.
#[derive(Deserialize)]
struct BulkAnswer {
    errors: bool,
    #[serde(default)]
    items: Vec<std::collections::BTreeMap<String, BulkItem>>,
}

#[derive(Deserialize)]
struct BulkItem {
    status: u16,
    #[serde(default)]
    error: serde_json::Value,
}

impl PushFormat {
    /// What a 2xx answer with this body says.
    fn read_answer(self, text: &[u8]) -> ReceiverAnswer {
        if self == Self::Ndjson {
            return ReceiverAnswer::Accepted;
        }
        let Ok(answer) = serde_json::from_slice::<BulkAnswer>(text) else {
            return ReceiverAnswer::Refused(format!(
                "it does not answer as the bulk interface of Elasticsearch{}",
                first_line(text)
            ));
        };
        if !answer.errors {
            return ReceiverAnswer::Accepted;
        }
        let is_temporary = |item: &&BulkItem| matches!(item.status, 429 | 500..=599);
        let failed: Vec<&BulkItem> =
            answer.items.iter().flat_map(|item| item.values()).filter(|item| item.status >= 300).collect();
        match failed.iter().copied().find(|item| !is_temporary(item)) {
            Some(item) => ReceiverAnswer::Refused(format!("it refused a record with {}: {}", item.status, item.error)),
            None => ReceiverAnswer::Later(
                format!("it did not take {}", wording::plural(failed.len() as u64, "record")),
                None,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_a_bulk_request_is_read_and_not_its_status_alone() {
        let read = |text: &str| PushFormat::Bulk.read_answer(text.as_bytes());
        assert_eq!(read(r#"{"took":3,"errors":false,"items":[]}"#), ReceiverAnswer::Accepted);
        let busy = r#"{"errors":true,"items":[{"index":{"status":201}},{"index":{"status":429}}]}"#;
        assert_eq!(read(busy), ReceiverAnswer::Later("it did not take 1 record".to_owned(), None));
        let bad = r#"{"errors":true,"items":[{"index":{"status":400,"error":{"type":"x"}}},{"index":{"status":429}}]}"#;
        assert_eq!(read(bad), ReceiverAnswer::Refused(r#"it refused a record with 400: {"type":"x"}"#.to_owned()));
        assert!(matches!(read("<html>"), ReceiverAnswer::Refused(_)));
        assert_eq!(PushFormat::Ndjson.read_answer(b"<html>"), ReceiverAnswer::Accepted);
    }
}
