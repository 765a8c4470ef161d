//! Decisions that concern a single lane: which link is next, and what a visit indicates about the load of the host.
//!
//! Invariant: unless robots.txt files are ignored, a page is picked only if the rules of its origin's robots.txt are
//! known, have not expired, and allow it.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::base::job::{PartAccess, Purpose};
use crate::base::link::{Link, LinkKind};
use crate::base::outcome::{ErrorKind, Failure, Outcome};
use crate::base::time::Time;
use crate::base::url::{Origin, Url};
use crate::crawl::rules::{RobotsPolicy, Rules};
use crate::crawl::schedule::lane::{Addresses, Lane, LoadSignal, RobotsState, page_kind};
use crate::crawl::visit::Visit;
use crate::http::address;
use crate::http::retry_after::MAX_RETRY_AFTER;

/// How far into a queue to search for a link whose origin does not wait for its robots.txt.
const LOOK_AHEAD: usize = 32;

/// The next link of a lane, according to robots.txt and retries.
pub(super) enum Pick {
    /// Request this link.
    Take(Link, Purpose),
    /// Get the robots.txt of this origin first.
    AskRobots(Origin),
    /// This link ends without a request.
    End(Box<Visit>),
    /// No link can be picked before this time; [`Time::NEVER`]: not before the lane changes, for example because its
    /// robots.txt arrives.
    Nothing(Time),
}

/// The decision of robots.txt about a link.
enum RobotsDecision {
    Allowed,
    /// robots.txt must be fetched first.
    Unknown(Origin),
    /// robots.txt is being fetched.
    Pending,
    Denied(Denial),
}

/// How a link ends that robots.txt does not allow.
struct Denial {
    outcome: Outcome,
    /// Why robots.txt could not be fetched, if it could not.
    failure: Option<Failure>,
    /// The number of its tries.
    tries: u8,
}

/// Which links of a lane may be picked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Startable {
    /// Those in `site_files`, first attempts and retries.
    SiteFiles,
    /// Also pages that were tried before.
    Begun,
    All,
}

/// Picks the next link.
pub(super) fn pick(lane: &mut Lane, startable: Startable, rules: &Rules, now: Time) -> Pick {
    if let Some(picked) = pick_site_file(lane, rules, now) {
        return picked;
    }
    // A page to retry is checked like any other, because the robots.txt may have changed.
    while lane.retries.peek().is_some_and(|Reverse(retry)| retry.due <= now) {
        if let Some(Reverse(retry)) = lane.retries.pop() {
            match retry.purpose {
                Purpose::Robots(_) => return Pick::Take(retry.link, retry.purpose),
                Purpose::Page | Purpose::Sitemap => lane.queue.push_front(retry.link),
                Purpose::Part(_) | Purpose::Probe => lane.site_files.push_back(retry.link, retry.purpose),
            }
        }
    }
    if let Some(picked) = pick_site_file(lane, rules, now) {
        return picked;
    }
    let mut index = 0;
    let look_ahead = if startable == Startable::SiteFiles { 0 } else { LOOK_AHEAD };
    while let Some(link) = lane.queue.get(index).filter(|_| index < look_ahead) {
        // A link with tries is not new. Most of these links are retries that the loop above moved to the queue.
        if startable == Startable::Begun && link.tries == 0 {
            index += 1;
            continue;
        }
        match robots_decision(lane, link, rules, now) {
            RobotsDecision::Pending => index += 1,
            RobotsDecision::Unknown(origin) => return Pick::AskRobots(origin),
            RobotsDecision::Allowed => {
                if let Some(link) = lane.queue.remove(index) {
                    let purpose = purpose_of(&link);
                    return Pick::Take(link, purpose);
                }
            }
            RobotsDecision::Denied(denial) => {
                if let Some(link) = lane.queue.remove(index) {
                    return Pick::End(ended(link, denial, now));
                }
            }
        }
    }
    Pick::Nothing(lane.retries.peek().map_or(Time::NEVER, |Reverse(retry)| retry.due))
}

/// Picks from the robots.txt files, the parts of rendered pages and the probes. The last two obey robots.txt; those that
/// wait for it keep their order.
fn pick_site_file(lane: &mut Lane, rules: &Rules, now: Time) -> Option<Pick> {
    for _ in 0..lane.site_files.len() {
        let (link, purpose) = lane.site_files.pop_front()?;
        if matches!(purpose, Purpose::Robots(_)) {
            return Some(Pick::Take(link, purpose));
        }
        match robots_decision(lane, &link, rules, now) {
            RobotsDecision::Allowed => return Some(Pick::Take(link, purpose)),
            RobotsDecision::Pending => lane.site_files.push_back(link, purpose),
            RobotsDecision::Unknown(origin) => {
                lane.site_files.push_front(link, purpose);
                return Some(Pick::AskRobots(origin));
            }
            RobotsDecision::Denied(denial) => {
                let mut visit = ended(link, denial, now);
                visit.purpose = purpose;
                return Some(Pick::End(visit));
            }
        }
    }
    None
}

/// A change to a lane. Only links that the change affects are checked again.
#[derive(Clone, Copy)]
pub(super) enum Update<'a> {
    /// Links from this index on are new in its queue.
    Links(usize),
    SiteFiles,
    Addresses,
    Robots(&'a Origin),
}

/// Moves the links that end without a request because of the update from the lane to `decided`. Matching against a
/// hostile robots.txt can take a millisecond per link, so links that the update does not affect are not checked again.
pub(super) fn move_decided(
    lane: &mut Lane,
    update: Update<'_>,
    rules: &Rules,
    now: Time,
    decided: &mut VecDeque<Box<Visit>>,
) {
    let list = match &lane.addresses {
        Addresses::Known { list, .. } => Arc::clone(list),
        _ => Arc::default(),
    };
    if matches!(update, Update::SiteFiles | Update::Addresses) {
        for (link, purpose) in lane.site_files.take() {
            match permitted(rules, &link.url, purpose.access(), &list) {
                Ok(_) => lane.site_files.push_back(link, purpose),
                Err(failure) => decided.push_back(refused(link, purpose, failure, now)),
            }
        }
    }
    let first = match update {
        Update::SiteFiles => return,
        Update::Links(first) => first.min(lane.queue.len()),
        Update::Addresses | Update::Robots(_) => 0,
    };
    let affected = lane.queue.split_off(first);
    for link in affected {
        let permission = match update {
            Update::Links(_) | Update::Addresses => {
                permitted(rules, &link.url, PartAccess::SameOrigin, &list).map(drop)
            }
            Update::SiteFiles | Update::Robots(_) => Ok(()),
        };
        if let Err(failure) = permission {
            let purpose = purpose_of(&link);
            decided.push_back(refused(link, purpose, failure, now));
            continue;
        }
        let decision = match update {
            Update::Links(_) => robots_decision(lane, &link, rules, now),
            Update::Robots(origin) if link.url.has_origin(origin) => robots_decision(lane, &link, rules, now),
            Update::Robots(_) | Update::SiteFiles | Update::Addresses => RobotsDecision::Allowed,
        };
        match decision {
            RobotsDecision::Denied(denial) => decided.push_back(ended(link, denial, now)),
            RobotsDecision::Allowed | RobotsDecision::Unknown(_) | RobotsDecision::Pending => {
                lane.queue.push_back(link)
            }
        }
    }
}

/// Applies the robots.txt of its origin to a link.
fn robots_decision(lane: &Lane, link: &Link, rules: &Rules, now: Time) -> RobotsDecision {
    if rules.robots == RobotsPolicy::Ignore {
        return RobotsDecision::Allowed;
    }
    let origin = link.url.origin();
    match lane.robots_of(&origin) {
        None | Some(RobotsState::Evicted) => RobotsDecision::Unknown(origin),
        Some(RobotsState::Requested { .. }) => RobotsDecision::Pending,
        Some(RobotsState::Rules { until, .. } | RobotsState::Failed { until, .. }) if *until <= now => {
            RobotsDecision::Unknown(origin)
        }
        Some(RobotsState::Failed { failure, outcome, tries, .. }) => {
            RobotsDecision::Denied(Denial { outcome: *outcome, failure: Some(failure.clone()), tries: *tries })
        }
        Some(RobotsState::Rules { rules, .. }) if rules.allows(link.url.target()) => RobotsDecision::Allowed,
        Some(RobotsState::Rules { .. }) => {
            RobotsDecision::Denied(Denial { outcome: Outcome::Robots, failure: None, tries: 0 })
        }
    }
}

/// The visit of a link that ends without a request.
fn ended(link: Link, denial: Denial, now: Time) -> Box<Visit> {
    let mut visit = Visit::not_fetched(link, denial.outcome, denial.failure, now);
    visit.link.tries = visit.link.tries.max(denial.tries);
    Box::new(visit)
}

/// The visit of a link that is refused for safety: because of a private address or a blocked port.
pub(super) fn refused(link: Link, purpose: Purpose, failure: Failure, now: Time) -> Box<Visit> {
    let mut visit = Visit::with_outcome(link, purpose, Outcome::Refused, now);
    visit.facts.error = Some(failure);
    Box::new(visit)
}

fn purpose_of(link: &Link) -> Purpose {
    if link.kind == LinkKind::SitemapFile { Purpose::Sitemap } else { Purpose::Page }
}

/// Undoes [`Pick::Take`].
pub(super) fn put_back(lane: &mut Lane, link: Link, purpose: Purpose) {
    match purpose {
        Purpose::Robots(_) | Purpose::Part(_) | Purpose::Probe => lane.site_files.push_front(link, purpose),
        Purpose::Page | Purpose::Sitemap => lane.queue.push_front(link),
    }
}

/// Whether `--resolve` gives the addresses of every waiting link, so that no DNS lookup is needed.
pub(super) fn has_given_addresses(lane: &Lane, rules: &Rules) -> bool {
    if rules.resolve.is_empty() {
        return false;
    }
    let queued = lane.queue.iter().chain(lane.site_files.links());
    let mut links = queued.chain(lane.retries.iter().map(|Reverse(retry)| &retry.link)).peekable();
    links.peek().is_some() && links.all(|link| rules.given_addresses(link.url.host(), link.url.port()).is_some())
}

/// The addresses in `list` that are safe to connect to for this URL. If a proxy resolves the name, the list is empty
/// and only port and name are checked; refusing private addresses is left to the proxy.
pub(super) fn permitted(
    rules: &Rules,
    url: &Url,
    access: PartAccess,
    list: &Arc<[IpAddr]>,
) -> Result<Arc<[IpAddr]>, Failure> {
    if address::is_blocked_port(url.port()) {
        let message = format!("port {} is blocked: it belongs to another protocol", url.port());
        return Err(Failure::new(ErrorKind::BlockedPort, message));
    }
    if access != PartAccess::SameOrigin && rules.presents_client_certificate_to(url) {
        let message = "the page of another origin must not use the client certificate";
        return Err(Failure::new(ErrorKind::PrivateAddress, message));
    }
    if rules.allows_private(url.host(), url.port(), access) {
        return Ok(Arc::clone(list));
    }
    if let Some(why) = address::name_refusal(url.host()) {
        let message = format!("{} is a {why} name", url.host());
        return Err(Failure::new(ErrorKind::PrivateAddress, message));
    }
    let refusal = list.iter().find_map(|ip| address::refusal(*ip).map(|why| (ip, why)));
    let Some((ip, why)) = refusal else {
        return Ok(Arc::clone(list));
    };
    let public: Arc<[IpAddr]> = list.iter().copied().filter(|ip| address::refusal(*ip).is_none()).collect();
    if public.is_empty() {
        let message = format!("{} is at {ip}, a {why} address", url.host());
        return Err(Failure::new(ErrorKind::PrivateAddress, message));
    }
    Ok(public)
}

/// Whether all requests of a lane go through proxies that resolve its name themselves.
pub(super) fn is_resolved_by_proxies(lane: &Lane, rules: &Rules) -> bool {
    let mut urls = lane.queue.iter().map(|link| &link.url);
    let mut site_files = lane.site_files.links().map(|link| &link.url);
    let mut retries = lane.retries.iter().map(|Reverse(retry)| &retry.link.url);
    let has_resolving_proxy = |url: &Url| rules.proxies.of(url.as_ref()).is_some_and(|proxy| proxy.resolves());
    match rules.proxies.resolves_name(&lane.name) {
        Some(is_resolved_by_proxy) => is_resolved_by_proxy,
        // It depends on the scheme of each URL.
        None => {
            urls.all(has_resolving_proxy) && site_files.all(has_resolving_proxy) && retries.all(has_resolving_proxy)
        }
    }
}

/// When the request of a visit was sent. If the visit opened a connection, that is after the TCP and TLS handshakes.
pub(super) fn sent_at(visit: &Visit) -> Time {
    let timings = &visit.facts.timings;
    visit.facts.started + timings.connect.unwrap_or_default() + timings.tls.unwrap_or_default()
}

/// The signal that a visit gives about the load of its host. `taken` is the time since its slot was taken.
pub(super) fn load_signal(visit: &Visit, taken: Duration) -> LoadSignal {
    use ErrorKind as K;
    if let Some(429 | 503) = visit.facts.status {
        return LoadSignal::Overload(visit.for_keeper.retry_after.map(|wait| wait.min(MAX_RETRY_AFTER)));
    }
    // If a response was cut off, the host accepted the connection and responded. So the reset does not indicate
    // overload.
    let has_response = visit.facts.status.is_some();
    match visit.facts.error.as_ref().map(|failure| failure.kind) {
        Some(K::Reset) if !has_response => LoadSignal::NoResponse,
        Some(
            K::EmptyReply
            | K::TimeoutFirstByte
            | K::TimeoutIdle
            | K::TimeoutTotal
            | K::TooSlow
            | K::ConnectRefused
            | K::ConnectTimeout
            | K::Unreachable,
        ) => LoadSignal::NoResponse,
        _ => {
            let timings = &visit.facts.timings;
            let setup = timings.connect.unwrap_or_default() + timings.tls.unwrap_or_default();
            let whole = timings.total.unwrap_or_default().saturating_sub(setup);
            let first = timings.ttfb.map_or(whole, |ttfb| ttfb.saturating_sub(setup));
            let local_wait = taken.saturating_sub(visit.facts.ended - visit.facts.started);
            // Redirects, errors, 304, robots.txt and sitemaps cost the host less work than a page, so their latencies
            // are not compared. Latencies of pages are compared within a kind: pages with similar URLs.
            let is_page = visit.purpose == Purpose::Page && visit.facts.status.is_some_and(|status| status / 100 == 2);
            let kind = is_page.then(|| page_kind(visit.link.url.target()));
            LoadSignal::Answer { first, whole, local_wait, kind }
        }
    }
}
