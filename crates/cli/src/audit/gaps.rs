//! [`Gaps`]: why the crawl may not have every page, link or sitemap of the site.

use argiope_core::Outcome;
use argiope_core::crawl::rules::{Config, ScopeKind};
use argiope_core::crawl::schedule::run_record::RunRecord;

use crate::records::StoredRecord;
use crate::wording;

/// Why the crawl may not have every page of the site, and so not every link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Whether the last run ended because no work was left.
    pub is_finished: bool,
    /// Whether a setting left out pages: a depth, a filter, a narrow scope, pages per host.
    is_limited: bool,
    /// Whether links were skipped as endless.
    has_cuts: bool,
    unread: UnreadPages,
    /// The number of sitemaps that were not read to their end.
    pub unread_sitemaps: u64,
}

/// The number of pages whose links are not all known, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UnreadPages {
    /// An error, or a status that hides the page.
    failed: u64,
    /// A setting kept them from being requested.
    refused: u64,
    /// The body or the list of links was cut.
    cut: u64,
    /// They look empty without scripts, and were not rendered.
    scripted: u64,
}

impl Gaps {
    /// Applies the first or the last record of a run. The last one has the reason why the run ended.
    pub fn read_run(&mut self, run: &RunRecord<'_>, settings: Option<&Config>) {
        self.is_finished = run.reason.as_deref() == Some("finished");
        self.has_cuts |= !run.traps.is_empty();
        if let Some(config) = settings {
            let has_filter = !config.include.is_empty() || !config.exclude.is_empty();
            let is_narrow = matches!(config.scope, ScopeKind::Page | ScopeKind::Prefix);
            let has_limit = config.depth.is_some() || config.max_pages_per_host.is_some();
            let has_choice = config.only.is_some() || config.since.is_some() || !config.pick.is_empty();
            self.is_limited = has_filter || is_narrow || has_limit || has_choice;
        }
    }

    /// Counts a page whose links are not all known.
    pub fn read_page(&mut self, record: &StoredRecord) {
        let unread = &mut self.unread;
        let count = match record.outcome {
            // A page that does not exist has no links.
            Some(Outcome::HttpError) if matches!(record.status, Some(404 | 410)) => return,
            Some(Outcome::HttpError | Outcome::Failed) => &mut unread.failed,
            Some(Outcome::Refused) => &mut unread.refused,
            Some(Outcome::Ok | Outcome::NotModified) if is_html(record) => {
                if record.truncated.is_some() || record.capped || record.links_cut.is_some() {
                    &mut unread.cut
                } else if record.needs_scripts && record.render.is_none() {
                    &mut unread.scripted
                } else {
                    return;
                }
            }
            _ => return,
        };
        *count += 1;
    }

    /// Why a finding that needs every page and every link cannot be judged; `None` if it can.
    pub fn reason(self) -> Option<String> {
        let reason = if !self.is_finished {
            "the crawl is not finished: a page that was not read may have the link; run the same command again"
        } else if self.is_limited {
            "the crawl left out pages (--depth, --scope, --include, --exclude, --only, --since, --pick or --max-pages-per-host): one of them may have the link"
        } else if self.has_cuts {
            "links were skipped as endless: one of them may lead there; see the report"
        } else {
            return self.unread.reason();
        };
        Some(reason.to_owned())
    }

    /// Why it cannot be judged which pages are in no sitemap; `None` if it can.
    pub fn sitemap_reason(self) -> Option<String> {
        if !self.is_finished {
            Some("the crawl is not finished: not every sitemap was read; run the same command again".to_owned())
        } else if self.unread_sitemaps > 0 {
            let sitemaps = wording::plural(self.unread_sitemaps, "sitemap");
            Some(format!("{sitemaps} could not be read to the end: the pages may be listed there"))
        } else {
            None
        }
    }
}

impl UnreadPages {
    fn reason(self) -> Option<String> {
        let causes = [
            (self.failed, "answered with an error or not at all"),
            (self.refused, "kept out by a setting"),
            (self.cut, "cut, or with more links than --max-links"),
            (self.scripted, "empty without scripts: see --render"),
        ];
        let total = causes.iter().map(|(count, _)| count).sum();
        let causes: Vec<String> = causes
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, cause)| format!("{} {cause}", wording::count(*count)))
            .collect();
        let pages = wording::plural(total, "page");
        (total > 0)
            .then(|| format!("not all links of {pages} are known ({}): one of them may lead there", causes.join("; ")))
    }
}

fn is_html(record: &StoredRecord) -> bool {
    record.content_type.as_deref().is_some_and(|kind| kind.contains("html"))
}
