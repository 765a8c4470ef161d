//! Records of the requests of rendered pages.

use serde::Serialize;

use super::{Millis, VERSION};
use crate::base::escape::write_json;
use crate::base::job::Purpose;
use crate::base::outcome::{Failure, Outcome};
use crate::base::url::Url;
use crate::crawl::visit::Visit;
use crate::crawl::warc::WarcLocation;

/// The record of a part of a rendered page.
#[derive(Serialize)]
struct PartRecord<'a> {
    v: u8,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<&'a str>,
    url: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
    cached: bool,
    ms: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    warc: Option<&'a WarcLocation>,
}

/// Appends the record of a part of a rendered page, with its line feed.
pub fn encode_part(visit: &Visit, warc: Option<&WarcLocation>, out: &mut Vec<u8>) {
    let Purpose::Part(part) = &visit.purpose else { return };
    let line = PartRecord {
        v: VERSION,
        r#type: "sub",
        page: visit.link.via.as_ref().map(Url::as_str),
        url: visit.link.url.as_str(),
        kind: part.kind,
        status: visit.facts.status,
        outcome: visit.facts.outcome,
        error: visit.facts.error.as_ref(),
        cached: false,
        ms: Millis::from(&visit.facts.timings),
        warc,
    };
    let start = out.len();
    // Writing to a Vec cannot fail. If a line cannot be encoded, nothing is appended.
    match write_json(out, &line) {
        Ok(()) => out.push(b'\n'),
        Err(_) => out.truncate(start),
    }
}
