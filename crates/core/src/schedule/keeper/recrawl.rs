//! Recrawling: conditional requests for known pages, and comparison with the previous crawl.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Keeper;
use crate::outcome::Outcome;
use crate::page::examine::{self, PageFacts};
use crate::page::url::Url;
use crate::schedule::frontier::{Frontier, StoreError};
use crate::schedule::job::{Conditional, Job, Purpose};
use crate::visit::Visit;

/// How a page compares with the previous crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    New,
    Changed,
    /// It had a usable response before and has none now.
    Gone,
    Same,
}

/// Numbers of new, changed, gone and unchanged pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    pub new: u64,
    pub changed: u64,
    pub gone: u64,
    pub same: u64,
}

impl Changes {
    pub fn count(&mut self, change: Change) {
        match change {
            Change::New => self.new += 1,
            Change::Changed => self.changed += 1,
            Change::Gone => self.gone += 1,
            Change::Same => self.same += 1,
        }
    }
}

/// The fields of the previous record that matter for the comparison.
#[derive(Deserialize)]
struct Earlier {
    status: Option<u16>,
    outcome: Box<str>,
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

/// What else the previous record says of the page. It is read only for a 304, which has no body to find it in.
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

impl Earlier {
    fn was(&self, outcome: Outcome) -> bool {
        *self.outcome == *outcome.as_str()
    }

    /// Gives a visit that was answered with 304 the facts of the last full answer. Returns that answer's record.
    fn complete(self, visit: &mut Visit) -> Vec<u8> {
        let (facts, findings) = (&mut visit.facts, &mut visit.findings);
        facts.etag = facts.etag.take().or(self.etag);
        facts.last_modified = facts.last_modified.take().or(self.last_modified);
        facts.bytes_body = self.bytes_body.unwrap_or(facts.bytes_body);
        findings.digest = findings.digest.or_else(|| self.digest.as_deref().and_then(digest));
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

    /// Whether the previous response was usable.
    fn answered(&self) -> bool {
        [Outcome::Ok, Outcome::NotModified, Outcome::Redirect].into_iter().any(|outcome| self.was(outcome))
    }
}

impl<F: Frontier> Keeper<F> {
    /// Makes the request conditional if the previous crawl recorded validators.
    pub(super) fn make_conditional(&mut self, job: &mut Job) -> Result<(), StoreError> {
        if job.purpose != Purpose::Page || !self.frontier.is_again() {
            return Ok(());
        }
        let Some(Earlier { etag, last_modified, .. }) = self.earlier_of(&job.link.url, job.link.kind)? else {
            return Ok(());
        };
        if etag.is_some() || last_modified.is_some() {
            job.rare_mut().conditional = Some(Conditional { etag, last_modified });
        }
        Ok(())
    }

    /// Compares a page with the previous crawl. Facts that a 304 lacks are taken from the previous record, which is
    /// returned too.
    pub(super) fn compare(&mut self, visit: &mut Visit) -> Result<(Option<Change>, Option<Vec<u8>>), StoreError> {
        if !visit.is_page() || !self.frontier.is_again() {
            return Ok((None, None));
        }
        let earlier = self.earlier_of(&visit.link.url, visit.link.kind)?;
        let change = match &earlier {
            None => Change::New,
            Some(earlier) => change(earlier, visit),
        };
        self.progress.changes.get_or_insert_default().count(change);
        let unchanged = earlier.filter(|_| visit.facts.outcome == Outcome::NotModified);
        Ok((Some(change), unchanged.map(|earlier| earlier.complete(visit))))
    }

    fn earlier_of(&mut self, url: &Url, kind: crate::page::link::LinkKind) -> Result<Option<Earlier>, StoreError> {
        let record = self.frontier.earlier(url.as_ref(), kind)?;
        // An unreadable record is ignored: the page counts as new.
        Ok(record.and_then(|line| {
            let earlier = serde_json::from_slice(&line).ok()?;
            Some(Earlier { line, ..earlier })
        }))
    }
}

fn change(earlier: &Earlier, visit: &Visit) -> Change {
    match visit.facts.outcome {
        Outcome::NotModified => Change::Same,
        Outcome::Ok | Outcome::Redirect => {
            let digest = earlier.digest.as_deref().and_then(digest);
            let redirect = visit.facts.redirect.as_ref().map(|url| url.as_str());
            let was_ok = earlier.was(Outcome::Ok) || earlier.was(Outcome::NotModified);
            let is_same = if visit.facts.outcome == Outcome::Ok {
                was_ok && digest == visit.findings.digest
            } else {
                earlier.status == visit.facts.status && earlier.redirect.as_deref() == redirect
            };
            if is_same { Change::Same } else { Change::Changed }
        }
        _ if earlier.answered() => Change::Gone,
        _ => Change::Same,
    }
}

/// `sha256:` and 64 hexadecimal digits.
fn digest(text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("sha256:")?;
    let mut digest = [0; 32];
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    for (index, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, Time};

    fn earlier(record: &str) -> Earlier {
        serde_json::from_str(record).expect("a record")
    }

    fn visit(outcome: Outcome, status: u16) -> Visit {
        let link = Link::root(Url::parse("https://h/").expect("an address"), 10);
        let mut visit = Visit::unasked(link, outcome, None, Time::ZERO);
        visit.facts.status = Some(status);
        visit
    }

    #[test]
    fn pages_are_compared_by_what_they_are() {
        let hex = "ab".repeat(32);
        let ok = earlier(&format!(r#"{{"status":200,"outcome":"ok","digest":"sha256:{hex}","etag":"x"}}"#));
        let with = |digest| {
            let mut visit = visit(Outcome::Ok, 200);
            visit.findings.digest = Some(digest);
            visit
        };
        assert_eq!(change(&ok, &with([0xAB; 32])), Change::Same);
        assert_eq!(change(&ok, &with([0xAC; 32])), Change::Changed);
        assert_eq!(change(&ok, &visit(Outcome::NotModified, 304)), Change::Same);
        assert_eq!(change(&ok, &visit(Outcome::HttpError, 404)), Change::Gone);
        assert_eq!(change(&ok, &visit(Outcome::Redirect, 301)), Change::Changed);
        let missing = earlier(r#"{"status":404,"outcome":"http_error"}"#);
        assert_eq!(change(&missing, &visit(Outcome::HttpError, 410)), Change::Same);
        assert_eq!(change(&missing, &with([0; 32])), Change::Changed);
        let moved = earlier(r#"{"status":301,"outcome":"redirect","redirect":"https://h/b"}"#);
        let to = |url| {
            let mut visit = visit(Outcome::Redirect, 301);
            visit.facts.redirect = Url::parse(url).ok();
            visit
        };
        assert_eq!(change(&moved, &to("https://h/b")), Change::Same);
        assert_eq!(change(&moved, &to("https://h/c")), Change::Changed);
    }

    #[test]
    fn a_digest_is_read_or_is_none() {
        assert_eq!(digest(&format!("sha256:{}", "0f".repeat(32))), Some([15; 32]));
        for bad in ["", "sha256:", "sha256:0f", "md5:0f", &format!("sha256:{}", "é".repeat(32)), &"0f".repeat(32)] {
            assert_eq!(digest(bad), None, "{bad}");
        }
    }
}
