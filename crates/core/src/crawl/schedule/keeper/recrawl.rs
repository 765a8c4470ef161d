//! Recrawling: conditional requests for known pages, and comparison with the previous round.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Keeper;
use crate::base::job::{Conditional, Job, Purpose};
use crate::base::outcome::Outcome;
use crate::base::url::Url;
use crate::crawl::record::carried;
use crate::crawl::schedule::frontier::{Frontier, StoreError};
use crate::crawl::schedule::page_state::{Comparison, PageState, digest_bytes};
use crate::crawl::visit::Visit;
use crate::page::examine::{self, PageFacts};

/// The fields of a record of the previous round that are needed for the comparison and for a 304. They have the names of
/// the record's fields.
#[derive(Deserialize)]
struct EarlierRecord {
    status: Option<u16>,
    outcome: Outcome,
    error: Option<IgnoredAny>,
    etag: Option<Box<str>>,
    last_modified: Option<Box<str>>,
    digest: Option<Box<str>>,
    redirect: Option<Box<str>>,
    title: Option<Box<str>>,
    content_type: Option<Box<str>>,
    bytes_body: Option<u64>,
    links: Option<u32>,
    canonical: Option<Box<str>>,
    #[serde(default)]
    noindex: bool,
    #[serde(default)]
    nofollow: bool,
    #[serde(default)]
    capped: bool,
    #[serde(default)]
    links_cut: u32,
    /// The whole record.
    #[serde(skip)]
    line: Vec<u8>,
}

/// Further facts in the previous record. They are read only for a 304, which has no body.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EarlierFacts {
    charset: Option<Box<str>>,
    hreflang: BTreeMap<Box<str>, Box<str>>,
    /// Present for HTML pages.
    words: Option<u64>,
    #[serde(flatten)]
    facts: PageFacts,
}

impl EarlierRecord {
    fn state(&self) -> PageState<'_> {
        PageState {
            outcome: self.outcome,
            status: self.status,
            has_error: self.error.is_some(),
            digest: self.digest.as_deref().and_then(digest_bytes),
            redirect: self.redirect.as_deref(),
        }
    }

    /// Adds the facts of this record to a visit with status 304. Returns the record.
    fn complete(self, visit: &mut Visit) -> Vec<u8> {
        let (facts, findings) = (&mut visit.facts, &mut visit.findings);
        facts.etag = facts.etag.take().or(self.etag);
        facts.last_modified = facts.last_modified.take().or(self.last_modified);
        facts.bytes_body = self.bytes_body.unwrap_or(facts.bytes_body);
        findings.digest = findings.digest.or_else(|| self.digest.as_deref().and_then(digest_bytes));
        findings.title = self.title;
        findings.content_type = self.content_type.or(findings.content_type.take());
        findings.links = self.links.unwrap_or(0);
        findings.canonical = self.canonical.and_then(|url| Url::parse(&url).ok());
        (findings.noindex, findings.nofollow) = (self.noindex, self.nofollow);
        (findings.capped, findings.links_cut) = (self.capped, self.links_cut);
        let EarlierFacts { charset, hreflang, words, facts } = serde_json::from_slice(&self.line).unwrap_or_default();
        findings.charset = charset.and_then(|charset| examine::charset_name(&charset));
        let languages = hreflang.into_iter();
        findings.hreflang = languages.filter_map(|(code, url)| Some((code, Url::parse(&url).ok()?))).collect();
        findings.facts = words.map(|words| Box::new(PageFacts { words, ..facts }));
        self.line
    }
}

/// The state of a URL according to a visit.
fn state_of(visit: &Visit) -> PageState<'_> {
    PageState {
        outcome: visit.facts.outcome,
        status: visit.facts.status,
        has_error: visit.facts.error.is_some(),
        digest: visit.findings.digest,
        redirect: visit.facts.redirect.as_ref().map(|url| url.as_str()),
    }
}

impl<F: Frontier> Keeper<F> {
    /// Makes the request conditional if the previous round recorded validators. Only GET requests without a body, whose
    /// identity is zero, are made conditional.
    pub(super) fn make_conditional(&mut self, job: &mut Job) -> Result<(), StoreError> {
        if job.purpose != Purpose::Page || !self.frontier.is_recrawl() || job.link.request_identity(0) != 0 {
            return Ok(());
        }
        let Some(EarlierRecord { outcome, etag, last_modified, line, .. }) =
            self.earlier_of(&job.link.url, job.link.kind)?
        else {
            return Ok(());
        };
        // A 304 has no body: with an archive, request the page in full unless its body is archived already.
        let has_body = !self.rules.archive || carried::archived_body(&line).is_some();
        if !has_body || !matches!(outcome, Outcome::Ok | Outcome::NotModified) {
            return Ok(());
        }
        if etag.is_some() || last_modified.is_some() {
            job.extras_mut().conditional = Some(Conditional { etag, last_modified });
        }
        Ok(())
    }

    /// Compares a page with the previous round, if its request was a GET without a body. Facts that a 304 lacks are
    /// taken from the previous record, which is returned too.
    pub(super) fn compare(&mut self, visit: &mut Visit) -> Result<(Option<Comparison>, Option<Vec<u8>>), StoreError> {
        if !visit.is_page() || !self.frontier.is_recrawl() || visit.link.request_identity(0) != 0 {
            return Ok((None, None));
        }
        let earlier = self.earlier_of(&visit.link.url, visit.link.kind)?;
        let compared = Comparison::of(earlier.as_ref().map(EarlierRecord::state).as_ref(), Some(&state_of(visit)));
        self.progress.changes.get_or_insert_default().count(compared);
        let unchanged = earlier.filter(|_| visit.facts.outcome == Outcome::NotModified);
        Ok((Some(compared), unchanged.map(|earlier| earlier.complete(visit))))
    }

    /// The record of a URL from the previous round.
    fn earlier_of(
        &mut self,
        url: &Url,
        kind: crate::base::link::LinkKind,
    ) -> Result<Option<EarlierRecord>, StoreError> {
        let record = self.frontier.earlier(url.as_ref(), kind)?;
        // An unreadable record is ignored: the page counts as new.
        Ok(record.and_then(|line| {
            let earlier = serde_json::from_slice(&line).ok()?;
            Some(EarlierRecord { line, ..earlier })
        }))
    }
}
