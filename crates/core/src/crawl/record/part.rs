//! Records of the requests of rendered pages.

use std::borrow::Cow;

use super::fields::{ERROR, MILLIS, PART, WARC};
use super::schema::{FieldKind, FieldValue, part_record};
use super::{Millis, VERSION};
use crate::base::escape::write_json;
use crate::base::job::Purpose;
use crate::base::outcome::{Failure, Outcome};
use crate::base::url::Url;
use crate::crawl::visit::Visit;
use crate::crawl::warc::WarcLocation;
use crate::render::RequestKind;

part_record! {
    /// The record of a part of a rendered page.
    struct PartRecord<'a>;

    /// 1, the version of this format
    v: u8, FieldKind::Integer;
    /// `sub`
    r#type: Cow<'a, str>, FieldKind::Name(&[PART]);
    /// the page that made the request
    page: Option<&'a str>, FieldKind::Text;
    /// the URL in its [normal form](urls.md)
    url: Cow<'a, str>, FieldKind::Text;
    /// what the request is for
    kind: Cow<'a, str>, FieldKind::Name(RequestKind::NAMES);
    /// the method, if it is not GET
    method: Option<&'a str>, FieldKind::Text;
    /// HTTP status of the response
    status: Option<u16>, FieldKind::Integer;
    /// as in the record of a page
    outcome: Option<Outcome>, FieldKind::Name(Outcome::NAMES);
    /// likewise
    error: Option<&'a Failure>, ERROR;
    /// likewise
    ms: Option<Millis>, MILLIS;
    /// likewise
    warc: Option<&'a WarcLocation>, WARC;
}

/// Appends the record of a part of a rendered page, with its line feed.
pub fn encode_part(visit: &Visit, warc: Option<&WarcLocation>, out: &mut Vec<u8>) {
    let Purpose::Part(part) = &visit.purpose else { return };
    let method = visit.link.request.as_ref().map(|request| request.method.as_str());
    let line = PartRecord {
        v: VERSION,
        r#type: PART.into(),
        page: visit.link.via.as_ref().map(Url::as_str),
        url: visit.link.url.as_str().into(),
        kind: part.kind.into(),
        method: method.filter(|name| *name != "GET"),
        status: visit.facts.status,
        outcome: Some(visit.facts.outcome),
        error: visit.facts.error.as_ref(),
        ms: Some(Millis::from(&visit.facts.timings)),
        warc,
    };
    let start = out.len();
    // Writing to a Vec cannot fail. If a line cannot be encoded, nothing is appended.
    match write_json(out, &line) {
        Ok(()) => out.push(b'\n'),
        Err(_) => out.truncate(start),
    }
}
