//! [`WebResults`]: the results of visited URLs, and the verdicts derived from them.

use std::collections::HashSet;

use argiope_core::Outcome;
use argiope_core::outcome::ErrorKind;
use argiope_core::visit::Visit;
use hashbrown::HashMap;

use crate::anchors::{AnchorSet, Fragment, FragmentId};
use crate::finding::{Fault, FaultKind};
use crate::options::CheckOptions;
use crate::remote::RemoteTarget;

/// Maximum number of redirects followed from one URL. The crawler stops earlier.
const MAX_HOPS: usize = 50;

/// The result of one URL.
#[derive(Debug)]
pub(super) struct VisitedUrl {
    outcome: Outcome,
    status: Option<u16>,
    error: Option<(ErrorKind, Box<str>)>,
    redirect: Option<Box<str>>,
    /// The anchors of an HTML page, if its body was requested.
    anchors: Option<AnchorSet>,
    /// Whether the body was truncated.
    is_cut: bool,
    /// Whether the body was requested.
    is_read: bool,
}

/// The results of all visited URLs.
#[derive(Debug, Default)]
pub(super) struct WebResults {
    visited: HashMap<Box<str>, VisitedUrl>,
}

/// The end of a redirect chain.
enum Chain<'a> {
    /// The result of the last URL.
    End(&'a VisitedUrl),
    Loop,
    /// This URL has not been requested.
    Unknown(&'a str),
}

impl WebResults {
    pub fn add(&mut self, visit: &Visit, anchors: Option<AnchorSet>, is_read: bool) {
        let facts = &visit.facts;
        let url = visit.link.url.as_str();
        if !is_read && self.visited.get(url).is_some_and(|known| known.is_read) {
            return; // the anchors are known; this visit came through a redirect
        }
        let visited = VisitedUrl {
            outcome: facts.outcome,
            status: facts.status,
            error: facts.error.as_ref().map(|error| (error.kind, error.message.clone())),
            redirect: facts.redirect.as_ref().map(|url| url.as_str().into()),
            anchors,
            is_cut: facts.truncated.is_some(),
            is_read,
        };
        self.visited.insert(url.into(), visited);
    }

    /// Follows redirects.
    fn chain<'a>(&'a self, url: &'a str) -> Chain<'a> {
        let mut url = url;
        let mut seen = HashSet::new();
        loop {
            let Some(visited) = self.visited.get(url) else { return Chain::Unknown(url) };
            let leads_on = visited.outcome == Outcome::Redirect
                && visited.error.as_ref().is_none_or(|(kind, _)| *kind == ErrorKind::RedirectLoop);
            match &visited.redirect {
                Some(target) if leads_on => {
                    if !seen.insert(url) || seen.len() > MAX_HOPS {
                        return Chain::Loop;
                    }
                    url = target;
                }
                _ => return Chain::End(visited),
            }
        }
    }

    /// The URL that must be requested before the target can be checked.
    pub fn unasked<'a>(&'a self, target: &'a RemoteTarget) -> Option<&'a str> {
        match self.chain(&target.url) {
            Chain::Unknown(url) => Some(url),
            Chain::End(_) | Chain::Loop => None,
        }
    }

    /// The fault of a target; `None` if it is good or was not requested.
    pub fn fault(&self, target: &RemoteTarget, options: &CheckOptions) -> Option<Fault> {
        let first = self.visited.get(target.url.as_str())?;
        if first.status.is_some_and(|status| options.accept.contains(status)) && first.outcome == Outcome::Redirect {
            return None;
        }
        let visited = match self.chain(&target.url) {
            Chain::Unknown(_) => return None,
            Chain::Loop => {
                let fault = Fault::broken(FaultKind::RedirectLoop, "the redirects form a loop");
                return Some(Fault { status: first.status, ..fault });
            }
            Chain::End(visited) => visited,
        };
        let mut fault = visited.fault(options).or_else(|| {
            let Some(Fragment::Element(id)) = target.fragment.as_deref().map(Fragment::parse) else { return None };
            visited.lacks(&id)
        })?;
        if let (Some(301 | 308), Some(moved)) = (first.status, &first.redirect) {
            fault.suggestion = Some(format!("moved permanently to {moved}"));
        }
        Some(fault)
    }

    /// The URLs without faults, for suggestions.
    pub fn good_urls(&self) -> impl Iterator<Item = &str> + Clone {
        self.visited.iter().filter(|(_, visited)| visited.outcome == Outcome::Ok).map(|(url, _)| &**url)
    }
}

impl VisitedUrl {
    fn fault(&self, options: &CheckOptions) -> Option<Fault> {
        if self.status.is_some_and(|status| options.accept.contains(status)) {
            return None;
        }
        let message = self.error.as_ref().map_or("no response", |(_, message)| message);
        let kind = self.error.as_ref().map(|(kind, _)| *kind);
        let fault = match (self.outcome, kind) {
            (Outcome::Robots, Some(_)) => Fault::unknown(FaultKind::Robots, format!("robots.txt: {message}")),
            (Outcome::Robots, None) => Fault::unknown(FaultKind::Robots, "robots.txt disallows the request"),
            (_, Some(ErrorKind::PrivateAddress)) => Fault::unknown(FaultKind::PrivateAddress, message),
            (_, Some(ErrorKind::RedirectLoop)) => Fault::broken(FaultKind::RedirectLoop, message),
            (Outcome::Failed | Outcome::Refused, kind) => {
                let is_unknown = options.timeouts_unknown && kind.is_some_and(is_timeout);
                let message = kind.map_or_else(|| message.to_owned(), |kind| format!("{kind}: {message}"));
                match is_unknown {
                    true => Fault::unknown(FaultKind::Failed, message),
                    false => Fault::broken(FaultKind::Failed, message),
                }
            }
            (Outcome::Redirect, Some(kind)) => Fault::broken(FaultKind::Failed, format!("{kind}: {message}")),
            _ => match self.status {
                Some(status @ (429 | 999)) => {
                    Fault::unknown(FaultKind::HttpError, format!("{status}: the host refuses to be checked now"))
                }
                Some(status) => Fault::broken(FaultKind::HttpError, format!("{status} {}", reason(status)).trim_end()),
                None => Fault::broken(FaultKind::Failed, message),
            },
        };
        Some(Fault { status: self.status, ..fault })
    }

    /// The fault if the page does not contain the element.
    fn lacks(&self, element: &FragmentId<'_>) -> Option<Fault> {
        let anchors = self.anchors.as_ref().filter(|_| self.is_read)?;
        // GitHub prefixes the ids in user content and resolves links to them with a script.
        let prefixed = format!("user-content-{}", element.text());
        let has = |text: &str| matches!(Fragment::parse(text), Fragment::Element(id) if anchors.has(id.hash()));
        if element.is_top() || anchors.has(element.hash()) || has(&prefixed) {
            return None;
        }
        Some(if element.is_route() {
            let message = "scripts of the page interpret this fragment: whether it leads anywhere is not known";
            Fault::unknown(FaultKind::Fragment, message)
        } else if self.is_cut {
            let message = format!("the page was not read to its end; its first part has no id {:?}", element.text());
            Fault::unknown(FaultKind::Fragment, message)
        } else {
            Fault::broken(FaultKind::Fragment, format!("no element has the id {:?}", element.text()))
        })
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DnsTimeout
            | ErrorKind::ConnectTimeout
            | ErrorKind::TimeoutFirstByte
            | ErrorKind::TimeoutIdle
            | ErrorKind::TimeoutTotal
            | ErrorKind::TooSlow
    )
}

/// The standard reason phrase of a status.
fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        410 => "Gone",
        418 => "I'm a teapot",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}
