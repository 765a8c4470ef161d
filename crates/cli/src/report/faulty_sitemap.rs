//! [`FaultySitemap`]: a sitemap that could not be read to its end, for reports and audits.

use argiope_core::crawl::visit::Visit;
use argiope_core::{Failure, Outcome, UrlRef};

use super::BrokenReason;
use crate::records::StoredRecord;
use crate::wording;

/// A sitemap that could not be read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultySitemap {
    pub url: Box<str>,
    pub fault: BrokenReason,
    /// Whether the entries before the fault were used.
    pub is_used: bool,
    /// Whether it is a missing `/sitemap.xml`. With `--sitemap`, this URL is requested even if no robots.txt names it. So the
    /// site may never have claimed to have a sitemap.
    pub may_be_guess: bool,
}

impl FaultySitemap {
    /// The faulty sitemap of a record; `None` if it was read to its end, or if this is not a sitemap.
    pub fn of(record: &StoredRecord) -> Option<Self> {
        let outcome = record.outcome.filter(|_| is_sitemap(record))?;
        Self::new(&record.url, outcome, record.status, record.error.as_deref())
    }

    /// Whether this is a sitemap that robots.txt or a setting kept from being requested.
    pub fn is_forbidden(record: &StoredRecord) -> bool {
        is_sitemap(record) && matches!(record.outcome, Some(Outcome::Robots | Outcome::Refused))
    }

    /// The same for a visit of the crawl that is running.
    pub fn of_visit(visit: &Visit) -> Option<Self> {
        let facts = &visit.facts;
        Self::new(visit.link.url.as_str(), facts.outcome, facts.status, facts.error.as_ref())
    }

    fn new(url: &str, outcome: Outcome, status: Option<u16>, error: Option<&Failure>) -> Option<Self> {
        let fault = match (outcome, error, status) {
            (Outcome::NotModified, ..) | (Outcome::Ok | Outcome::Redirect | Outcome::Robots, None, _) => return None,
            (_, Some(error), _) => BrokenReason::Failure(error.clone()),
            (_, None, status) => BrokenReason::Status(status.unwrap_or_default()),
        };
        let is_missing = outcome == Outcome::HttpError && matches!(status, Some(404 | 410));
        let may_be_guess = is_missing && UrlRef::from_normal(url).is_some_and(|url| url.target() == "/sitemap.xml");
        Some(Self { url: url.into(), fault, is_used: outcome == Outcome::Ok, may_be_guess })
    }

    /// Whether the host says that there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self.fault, BrokenReason::Status(404 | 410))
    }

    /// What is wrong, for the user.
    pub fn description(&self) -> String {
        let fault = match &self.fault {
            BrokenReason::Status(status) => {
                format!("{status} {}", wording::reason_phrase(*status)).trim_end().to_owned()
            }
            BrokenReason::Failure(failure) => failure.message.to_string(),
        };
        if self.is_used { format!("{fault}; the part before it was used") } else { fault }
    }
}

fn is_sitemap(record: &StoredRecord) -> bool {
    record.r#type == "aux" && record.r#for.as_deref() == Some("sitemap")
}
