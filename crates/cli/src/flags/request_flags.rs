//! [`RequestFlags`]: the flags of `argiope fetch` that make another request than a plain GET.

use std::io::Read as _;

use argiope_core::Link;
use argiope_core::base::custom_request::{CustomRequest, MAX_REQUEST_BODY, Method};
use argiope_core::base::link::LinkKind;
use argiope_core::crawl::rules::{Config, Root, ScopeKind};
use clap::Args;
use url::form_urlencoded;

use super::config_file::UsageError;

const HEADING: &str = "Request";
const FORM_TYPE: &str = "application/x-www-form-urlencoded";

/// What is sent in place of a GET request, and whether redirects are followed.
#[derive(Args, Debug, Default)]
pub struct RequestFlags {
    /// Send this method: GET, HEAD, POST, PUT, PATCH or DELETE. The default is POST if there is a body, else GET
    #[arg(short = 'X', long, value_name = "METHOD", help_heading = HEADING)]
    method: Option<String>,
    /// Send this body; @FILE is the content of a file, @- standard input. Its Content-Type is that of a form
    /// (application/x-www-form-urlencoded), unless -H names another
    #[arg(long, value_name = "TEXT|@FILE", help_heading = HEADING, conflicts_with_all = ["json", "form"])]
    data: Option<String>,
    /// Send this JSON; @FILE is the content of a file, @- standard input
    #[arg(long, value_name = "JSON|@FILE", help_heading = HEADING, conflicts_with = "form")]
    json: Option<String>,
    /// Send a field of a form as a browser does (repeatable); the value @FILE is the content of a file, without its last
    /// line break
    #[arg(long, value_name = "NAME=VALUE", help_heading = HEADING)]
    form: Vec<String>,
    /// Follow redirects, at most 10, and print each exchange. After 303, and after 301 or 302 to a POST, the next request
    /// is a GET without the body
    #[arg(short = 'L', long, help_heading = HEADING)]
    location: bool,
}

impl RequestFlags {
    /// Lets redirects be followed, if that is asked for. They may lead to any public host; links are not followed.
    pub fn apply_to(&self, config: &mut Config) {
        config.scope = if self.location { ScopeKind::Any } else { ScopeKind::Page };
        config.depth = Some(0);
    }

    /// The root with the request; `None` if it is a plain GET.
    pub fn root(&self, config: &Config) -> Result<Option<Vec<Root>>, UsageError> {
        let (body, content_type) = self.body()?;
        let method = match &self.method {
            Some(name) => method(name)?,
            None if content_type.is_some() => Method::Post,
            None => Method::Get,
        };
        if method == Method::Get && content_type.is_none() {
            return Ok(None);
        }
        let mut custom = CustomRequest { method, body: body.into(), ..CustomRequest::default() };
        let has_type = config.header.iter().any(|header| header.name.eq_ignore_ascii_case("content-type"));
        if let Some(content_type) = content_type.filter(|_| !has_type) {
            custom.headers.push(("Content-Type".into(), content_type.into()));
        }
        let mut roots = Root::parse_all(&config.roots, config.max_url).map_err(UsageError::from)?;
        for root in &mut roots {
            let [url] = root.candidates.as_slice() else {
                return Err(UsageError(
                    "a request with a method or a body needs a URL with https:// or http://".into(),
                ));
            };
            let link = Link::root(url.clone(), config.max_redirects);
            root.requests = vec![Link { kind: LinkKind::Root, request: Some(custom.clone().into()), ..link }];
        }
        Ok(Some(roots))
    }

    /// The body and its type; no type if there is no body.
    fn body(&self) -> Result<(Vec<u8>, Option<&'static str>), UsageError> {
        let (body, content_type) = if let Some(data) = &self.data {
            (read_value("--data", data)?, FORM_TYPE)
        } else if let Some(json) = &self.json {
            let body = read_value("--json", json)?;
            serde_json::from_slice::<serde::de::IgnoredAny>(&body)
                .map_err(|error| UsageError(format!("--json: this is not JSON: {error}")))?;
            (body, "application/json")
        } else if !self.form.is_empty() {
            (encode_form(&self.form)?, FORM_TYPE)
        } else {
            return Ok((Vec::new(), None));
        };
        if body.len() > MAX_REQUEST_BODY {
            return Err(UsageError("the body of a request has at most 16 MiB".into()));
        }
        Ok((body, Some(content_type)))
    }
}

fn method(name: &str) -> Result<Method, UsageError> {
    let known = [Method::Get, Method::Head, Method::Post, Method::Put, Method::Patch, Method::Delete];
    let found = known.into_iter().find(|method| method.as_str().eq_ignore_ascii_case(name));
    found.ok_or_else(|| UsageError("--method is one of GET, HEAD, POST, PUT, PATCH and DELETE".into()))
}

/// The text of a flag, or the content of the file that it names with `@`.
fn read_value(flag: &str, value: &str) -> Result<Vec<u8>, UsageError> {
    let Some(name) = value.strip_prefix('@') else { return Ok(value.as_bytes().to_vec()) };
    let mut body = Vec::new();
    // One byte more than the limit shows that the content is too long.
    let limit = MAX_REQUEST_BODY as u64 + 1;
    let read = if name == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut body)
    } else {
        std::fs::File::open(name).and_then(|file| file.take(limit).read_to_end(&mut body))
    };
    read.map_err(|error| UsageError(format!("{flag}: {value} cannot be read: {error}")))?;
    Ok(body)
}

/// The fields as `application/x-www-form-urlencoded`.
fn encode_form(fields: &[String]) -> Result<Vec<u8>, UsageError> {
    let mut encoded = form_urlencoded::Serializer::new(String::new());
    for field in fields {
        // The field is not repeated in the message, because it may be a secret.
        let (name, value) =
            field.split_once('=').ok_or_else(|| UsageError("--form is written NAME=VALUE or NAME=@FILE".into()))?;
        let mut value = read_value("--form", value)?;
        if field[name.len() + 1..].starts_with('@') {
            value.truncate(value.strip_suffix(b"\n").unwrap_or(&value).len());
            value.truncate(value.strip_suffix(b"\r").unwrap_or(&value).len());
        }
        let value = String::from_utf8(value).map_err(|_| UsageError("--form: the value is not UTF-8".into()))?;
        encoded.append_pair(name, &value);
    }
    Ok(encoded.finish().into_bytes())
}
