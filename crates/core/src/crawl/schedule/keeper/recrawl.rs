//! Recrawling: conditional requests for known pages, and comparison with the previous round.

use crate::base::job::{Conditional, Job, Purpose};
use crate::base::link::Link;
use crate::base::outcome::Outcome;
use crate::base::url::Url;
use crate::crawl::record::CrawlRecord;
use crate::crawl::record::page_state::{Comparison, PageState};
use crate::crawl::schedule::frontier::{History, StoreError};
use crate::crawl::visit::Visit;
use crate::page::examine::{self, PageFacts};

/// Adds the facts of the page's record of the previous round to a visit with status 304, which has no body.
fn complete(visit: &mut Visit, earlier: &CrawlRecord<'_>) {
    let text = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(Box::from);
    let (facts, findings) = (&mut visit.facts, &mut visit.findings);
    facts.etag = facts.etag.take().or_else(|| text(&earlier.etag));
    facts.last_modified = facts.last_modified.take().or_else(|| text(&earlier.last_modified));
    facts.bytes_body = earlier.bytes_body.unwrap_or(facts.bytes_body);
    findings.digest = findings.digest.or(earlier.digest);
    findings.title = text(&earlier.title);
    findings.content_type = text(&earlier.content_type).or(findings.content_type.take());
    findings.links = earlier.links.unwrap_or(0);
    findings.canonical = earlier.canonical.as_deref().and_then(|url| Url::parse(url).ok());
    (findings.noindex, findings.nofollow) = (earlier.noindex, earlier.nofollow);
    (findings.capped, findings.links_cut) = (earlier.capped, earlier.links_cut.unwrap_or(0));
    findings.charset = earlier.charset.as_deref().and_then(examine::charset_name);
    let languages = earlier.hreflang.iter();
    findings.hreflang = languages.filter_map(|(code, url)| Some(((**code).into(), Url::parse(url).ok()?))).collect();
    // Every record of an HTML page has the number of words.
    findings.facts = earlier.words.map(|words| {
        Box::new(PageFacts {
            description: text(&earlier.description),
            h1: text(&earlier.h1),
            h1_count: earlier.h1_count.unwrap_or(0),
            lang: text(&earlier.lang),
            meta_robots: earlier.meta_robots.to_vec(),
            words,
            og: earlier.og.as_deref().cloned().unwrap_or_default(),
            images_without_alt: earlier.images_without_alt.unwrap_or(0),
            needs_scripts: earlier.needs_scripts,
            minhash: earlier.minhash,
        })
    });
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

/// Makes the request conditional if the previous round recorded validators. Only GET requests without a body, whose
/// identity is zero, are made conditional.
pub(super) fn make_conditional(history: &mut impl History, has_archive: bool, job: &mut Job) -> Result<(), StoreError> {
    if job.purpose != Purpose::Page || !history.is_recrawl() || job.link.request_identity(0) != 0 {
        return Ok(());
    }
    let Some(earlier) = earlier_of(history, &job.link)? else { return Ok(()) };
    // A 304 has no body: with an archive, request the page in full unless its body is archived already.
    let has_body = !has_archive || earlier.archived_body().is_some();
    if !has_body || !matches!(earlier.outcome, Some(Outcome::Ok | Outcome::NotModified)) {
        return Ok(());
    }
    let text = |text: Option<std::borrow::Cow<'_, str>>| text.map(|text| text.into_owned().into());
    let (etag, last_modified) = (text(earlier.etag), text(earlier.last_modified));
    if etag.is_some() || last_modified.is_some() {
        job.extras_mut().conditional = Some(Conditional { etag, last_modified });
    }
    Ok(())
}

/// Compares a page with the previous round, if its request was a GET without a body. Facts that a 304 lacks are
/// taken from the previous record, which is returned too.
pub(super) fn compare(
    history: &mut impl History,
    visit: &mut Visit,
) -> Result<(Option<Comparison>, Option<CrawlRecord<'static>>), StoreError> {
    if !visit.is_page() || !history.is_recrawl() || visit.link.request_identity(0) != 0 {
        return Ok((None, None));
    }
    let earlier = earlier_of(history, &visit.link)?;
    let compared = Comparison::of(earlier.as_ref().and_then(CrawlRecord::state).as_ref(), Some(&state_of(visit)));
    let unchanged = earlier.filter(|_| visit.facts.outcome == Outcome::NotModified);
    if let Some(earlier) = &unchanged {
        complete(visit, earlier);
    }
    Ok((Some(compared), unchanged))
}

/// The record of a link from the previous round.
fn earlier_of(history: &mut impl History, link: &Link) -> Result<Option<CrawlRecord<'static>>, StoreError> {
    let record = history.earlier(link.url.as_ref(), link.kind)?;
    // An unreadable record is ignored: the page counts as new.
    Ok(record.and_then(|line| CrawlRecord::read(&line).ok()).filter(|record| record.outcome.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::link::LinkKind;
    use crate::base::time::{Time, WallClock};
    use crate::base::url::UrlRef;
    use crate::crawl::record::page_state::Change;

    /// The records of the previous round.
    struct Round(Vec<u8>);

    impl History for Round {
        fn is_recrawl(&self) -> bool {
            true
        }

        fn earlier(&mut self, _: UrlRef<'_>, _: LinkKind) -> Result<Option<Vec<u8>>, StoreError> {
            Ok(Some(self.0.clone()))
        }
    }

    fn visit(outcome: Outcome) -> Visit {
        let link = Link::root(Url::parse("http://h.example/").expect("a URL"), 5);
        Visit::with_outcome(link, Purpose::Page, outcome, Time::ZERO)
    }

    #[test]
    fn an_unchanged_page_has_the_facts_of_the_previous_round() {
        let mut earlier = visit(Outcome::Ok);
        earlier.findings.title = Some("A page".into());
        let mut line = Vec::new();
        CrawlRecord::of(&earlier, WallClock::default(), 0, None).encode(&mut line);
        let mut round = Round(line);
        let mut unchanged = visit(Outcome::NotModified);
        let (comparison, record) = compare(&mut round, &mut unchanged).expect("no disk");
        assert_eq!(comparison.map(|compared| compared.change), Some(Change::Same));
        assert_eq!((unchanged.findings.title.as_deref(), record.is_some()), (Some("A page"), true));
        let mut failed = visit(Outcome::Failed);
        let (comparison, record) = compare(&mut round, &mut failed).expect("no disk");
        assert_eq!((failed.findings.title, record.is_some()), (None, false));
        assert_eq!(comparison.map(|compared| compared.change), Some(Change::Gone));
    }
}
