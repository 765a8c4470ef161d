//! Builds the report of a crawl from its records.

use std::cell::RefCell;
use std::time::Duration;

use argiope_core::base::digest::BodyDigest;
use argiope_core::crawl::rules::Rules;
use argiope_core::crawl::schedule::run_record::RunRecord;
use argiope_core::page::scope::ScopeVerdict;
use argiope_core::{LinkKind, Outcome, UrlRef};
use argiope_store::disk::HistoryEvent;

use super::detail::{self, ReportDetail};
use super::{ChangeList, CrawlReport, End, FaultySitemap, LoopMember, PageSummary, RedirectLoops};
use crate::records::{self, ANY_FINGERPRINT_KEY, ReadError, StoredRecord};
use crate::results::Results;
use crate::soft_404::{ErrorAnswers, says_not_found};

/// One run of the crawl, according to its records.
#[derive(Default)]
struct Run {
    /// How the run ended; `None` if it has no final record.
    end: Option<End>,
    /// The duration according to the final record.
    seconds: f64,
    /// When the run began, in milliseconds since the Unix epoch.
    began: Option<i64>,
    /// When its latest page was requested, in the same unit.
    latest: Option<i64>,
}

impl Run {
    /// The duration of the run. Without a final record, the time until its latest page was requested.
    fn elapsed(&self) -> Duration {
        if self.end.is_some() {
            return Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
        }
        let millis = self.began.zip(self.latest).map_or(0, |(began, latest)| latest.saturating_sub(began));
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}

impl CrawlReport {
    /// The report of a crawl: all committed runs since the last `--recrawl`.
    pub fn of(results: &Results) -> Result<Self, ReadError> {
        let (ignore_page, ignore_round) = (|_: &PageSummary<'_>, _: Option<Duration>, _: &[LoopMember]| (), || ());
        Self::build(results, ignore_page, ignore_round)
    }

    /// Like [`Self::of`], with groups of URLs.
    pub fn detailed(results: &Results) -> Result<(Self, ReportDetail), ReadError> {
        let detail = RefCell::new(ReportDetail::default());
        let add = |page: &PageSummary<'_>, since_start: Option<Duration>, members: &[LoopMember]| {
            let mut detail = detail.borrow_mut();
            detail.add(page, page.depth, since_start);
            members.iter().for_each(|member| detail.add_loop_member(member));
        };
        // Each round replaces the details of the one before.
        let report = Self::build(results, add, || drop(detail.take()))?;
        Ok((report, detail.into_inner()))
    }

    /// Calls `each` with all URLs of a group, such as `status:404`.
    pub fn urls_of(
        results: &Results,
        group: &str,
        mut each: impl FnMut(&str) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let mut scratch = String::new();
        // The settings of the last run.
        let mut rules: Option<Rules> = None;
        results.walk(|event| {
            if let HistoryEvent::Line { line } = event {
                rules = RunRecord::read(line)
                    .and_then(|run| records::settings_of(&run))
                    .and_then(|settings| settings.compile(ANY_FINGERPRINT_KEY).ok())
                    .or(rules.take());
            }
            Ok(())
        })?;
        let mut loops = RedirectLoops::default();
        results.latest_pages(|record| {
            let page = page_summary(record, rules.as_ref());
            let mut is_member = false;
            if page.is_guess {
                return Ok(());
            }
            detail::each_group(&page, record.depth(), &mut scratch, |name| is_member |= name == group);
            if is_member {
                each(page.url)?;
            }
            let members = loops.add(&page);
            if group == "broken" {
                members.iter().try_for_each(|member| each(member.summary().url))?;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Builds the report. Calls `add` for each page, with the time of its request since the start of the crawl, and with the
    /// other members of the redirect loop if the page closes one. Calls `reset` at the start of each round but the first.
    fn build(
        results: &Results,
        mut add: impl FnMut(&PageSummary<'_>, Option<Duration>, &[LoopMember]),
        mut reset: impl FnMut(),
    ) -> Result<Self, ReadError> {
        let mut report = Self::default();
        let mut runs: Vec<Run> = Vec::new();
        let mut rules: Option<Rules> = None;
        let (mut known, mut settled) = (0u64, 0u64);
        let mut has_rounds = false;
        results.walk_latest(|event| {
            let record = match event {
                HistoryEvent::Link { again, .. } => {
                    known += u64::from(!again);
                    return Ok(());
                }
                HistoryEvent::Note { .. } => return Ok(()),
                // In a new round, all URLs stay known, and none is settled.
                HistoryEvent::Round => {
                    (report, settled) = (Self::default(), 0);
                    has_rounds = true;
                    reset();
                    runs.clear();
                    return Ok(());
                }
                HistoryEvent::FinalOutcome { line, .. } => {
                    settled += 1;
                    records::read(line)?
                }
                HistoryEvent::Line { line } => {
                    if let Some(record) = RunRecord::read(line) {
                        // The first record of a run has the settings, the final one the reason of the end.
                        if record.settings.is_some() {
                            let began = started_millis(record.started.as_deref());
                            runs.push(Run { began, ..Run::default() });
                            // If settings of another version cannot be read, every redirect counts as in scope.
                            rules = records::settings_of(&record)
                                .and_then(|settings| settings.compile(ANY_FINGERPRINT_KEY).ok());
                        } else if let Some(run) = runs.last_mut() {
                            run.end = record.reason.as_deref().and_then(End::from_name);
                            run.seconds = record.seconds.unwrap_or_default();
                            report.add_cuts(record.traps);
                        }
                        return Ok(());
                    }
                    records::read(line)?
                }
            };
            match &*record.r#type {
                "page" => {
                    if let Some(run) = runs.last_mut() {
                        run.latest = run.latest.max(started_millis(record.started.as_deref()));
                    }
                    let page = page_summary(&record, rules.as_ref());
                    let members = report.add(&page);
                    if page.is_guess {
                        return Ok(());
                    }
                    let earlier_runs: Duration = runs.iter().rev().skip(1).map(Run::elapsed).sum();
                    let began = runs.last().and_then(|run| run.began);
                    let millis = began
                        .zip(started_millis(record.started.as_deref()))
                        .and_then(|(began, at)| u64::try_from(at - began).ok());
                    add(&page, millis.map(|millis| earlier_runs + Duration::from_millis(millis)), &members);
                }
                "aux" if ErrorAnswers::is_error_answer(&record) => report.hosts_without_404 += 1,
                "aux" => FaultySitemap::of(&record).into_iter().for_each(|sitemap| report.add_sitemap(sitemap)),
                _ => {}
            }
            Ok(())
        })?;
        let elapsed = runs.iter().map(Run::elapsed).sum();
        let end = runs.last().and_then(|run| run.end).unwrap_or(End::Interrupted);
        report.close(elapsed, known.saturating_sub(settled), end);
        report.name_referrers(results)?;
        if has_rounds {
            report.changes = ChangeList::of(results)?;
        }
        report.is_running = results.is_running()?;
        Ok(report)
    }
}

/// When the run or the request started, in milliseconds since the Unix epoch.
fn started_millis(started: Option<&str>) -> Option<i64> {
    started?.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

/// Converts a record to the report's view of a page.
fn page_summary<'a>(record: &'a StoredRecord, rules: Option<&Rules>) -> PageSummary<'a> {
    let in_scope = |to: &str| {
        let to = UrlRef::from_normal(to);
        rules
            .zip(to)
            .is_none_or(|(rules, to)| rules.scope.judge(to, record.depth(), LinkKind::Redirect) == ScopeVerdict::Follow)
    };
    PageSummary {
        url: &record.url,
        host: UrlRef::from_normal(&record.url).map_or("", |url| url.host()),
        via: record.via.as_deref(),
        is_root: record.via.is_none(),
        depth: record.depth(),
        is_guess: record.via.is_none()
            && rules.is_some_and(|rules| {
                let outcome = record.outcome.unwrap_or(Outcome::Failed);
                super::is_guess(outcome, record.error.as_deref(), &record.url, rules)
            }),
        outcome: record.outcome.unwrap_or(Outcome::Failed),
        status: record.status,
        error: record.error.as_deref(),
        redirect: record.redirect.as_deref(),
        redirect_in_scope: record.redirect.as_deref().is_none_or(in_scope),
        content_type: record.content_type.as_deref(),
        charset: record.charset.as_deref(),
        bytes_wire: record.bytes_wire.unwrap_or(0),
        bytes_body: record.bytes_body.unwrap_or(0),
        truncated: record.truncated,
        needs_scripts: record.needs_scripts,
        render: record.render.as_deref(),
        is_soft_404: record.status == Some(200)
            && says_not_found(record.title.as_deref(), record.h1.as_deref(), record.words),
        digest: record.digest.as_ref().map(BodyDigest::short),
        links: record.links.unwrap_or(0),
        new_links: record.new_links.unwrap_or(0),
        tries: record.tries(),
        total: record.ms.unwrap_or_default().total.map(Duration::from_millis),
    }
}
