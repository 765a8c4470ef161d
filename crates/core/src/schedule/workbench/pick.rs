//! What a lane does next, and what an answer tells about its host: the decisions of the workbench that concern one lane
//! only.
//!
//! Invariant: a page is taken only while its origin's robots.txt is known, not older than a day, and allows it.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::http::address;
use crate::outcome::{ErrorKind, Failure, Outcome};
use crate::page::link::{Link, LinkKind};
use crate::page::url::{Origin, Url};
use crate::rules::{RobotsPolicy, Rules};
use crate::schedule::job::Purpose;
use crate::schedule::lane::{Addresses, Lane, RobotsState, Sign, page_kind};
use crate::schedule::retry;
use crate::time::Time;
use crate::visit::Visit;

/// How far into a queue to look for a link whose origin is not waiting for its robots.txt.
const LOOK_AHEAD: usize = 32;

/// The next link of a lane, as far as robots.txt and retries decide.
pub(super) enum Pick {
    Take(Link, Purpose),
    AskRobots(Origin),
    /// This link ends without being asked for.
    End(Box<Visit>),
    /// Nothing before then; never means: when an event comes.
    Nothing(Time),
}

/// What robots.txt says to a link.
enum Leave {
    Granted,
    /// It must be fetched first.
    Unknown(Origin),
    /// It is being fetched.
    Pending,
    Denied(Outcome, Option<Failure>, u8),
}

/// Picks what to ask for next. `pages`: whether pages may be asked for that were never asked for before.
pub(super) fn pick(lane: &mut Lane, pages: bool, rules: &Rules, now: Time) -> Pick {
    if let Some((link, purpose)) = lane.errands.pop_front() {
        return Pick::Take(link, purpose);
    }
    // A page that is to be tried again is judged like any other: its robots.txt may have changed meanwhile.
    while lane.retries.peek().is_some_and(|Reverse(retry)| retry.due <= now) {
        if let Some(Reverse(retry)) = lane.retries.pop() {
            match retry.purpose {
                Purpose::Robots(_) => return Pick::Take(retry.link, retry.purpose),
                Purpose::Page | Purpose::Sitemap => lane.queue.push_front(retry.link),
            }
        }
    }
    let mut index = 0;
    while let Some(link) = lane.queue.get(index).filter(|_| index < LOOK_AHEAD) {
        if !pages && link.tries == 0 {
            index += 1;
            continue;
        }
        match leave(lane, link, rules, now) {
            Leave::Pending => index += 1,
            Leave::Unknown(origin) => return Pick::AskRobots(origin),
            Leave::Granted => {
                if let Some(link) = lane.queue.remove(index) {
                    let purpose = purpose_of(&link);
                    return Pick::Take(link, purpose);
                }
            }
            Leave::Denied(outcome, failure, tries) => {
                if let Some(link) = lane.queue.remove(index) {
                    return Pick::End(ended(link, outcome, failure, tries, now));
                }
            }
        }
    }
    Pick::Nothing(lane.retries.peek().map_or(Time::NEVER, |Reverse(retry)| retry.due))
}

/// What is news about a lane: whatever else is on its bench was judged when it came.
#[derive(Clone, Copy)]
pub(super) enum News<'a> {
    /// Links from here on are new in its queue.
    Links(usize),
    Errands,
    Addresses,
    Robots(&'a Origin),
}

/// Takes the links off the bench that end without being asked for, as far as the news decides it. A judgement can cost
/// a millisecond where a robots.txt was made for that, so none is repeated here.
pub(super) fn sweep(lane: &mut Lane, news: News<'_>, rules: &Rules, now: Time, swept: &mut VecDeque<Box<Visit>>) {
    let list = match &lane.addresses {
        Addresses::Known { list, .. } => Arc::clone(list),
        _ => Arc::default(),
    };
    if matches!(news, News::Errands | News::Addresses) {
        for (link, purpose) in std::mem::take(&mut lane.errands) {
            match permitted(rules, &link.url, &list) {
                Ok(_) => lane.errands.push_back((link, purpose)),
                Err(failure) => swept.push_back(refused(link, purpose, failure, now)),
            }
        }
    }
    let first = match news {
        News::Errands => return,
        News::Links(first) => first.min(lane.queue.len()),
        News::Addresses | News::Robots(_) => 0,
    };
    let judged = lane.queue.split_off(first);
    for link in judged {
        let is_permitted = match news {
            News::Links(_) | News::Addresses => permitted(rules, &link.url, &list).map(drop),
            News::Errands | News::Robots(_) => Ok(()),
        };
        if let Err(failure) = is_permitted {
            let purpose = purpose_of(&link);
            swept.push_back(refused(link, purpose, failure, now));
            continue;
        }
        let leave = match news {
            News::Links(_) => leave(lane, &link, rules, now),
            News::Robots(origin) if link.url.is_of(origin) => leave(lane, &link, rules, now),
            News::Robots(_) | News::Errands | News::Addresses => Leave::Granted,
        };
        match leave {
            Leave::Denied(outcome, failure, tries) => swept.push_back(ended(link, outcome, failure, tries, now)),
            Leave::Granted | Leave::Unknown(_) | Leave::Pending => lane.queue.push_back(link),
        }
    }
}

fn leave(lane: &Lane, link: &Link, rules: &Rules, now: Time) -> Leave {
    if rules.robots == RobotsPolicy::Ignore {
        return Leave::Granted;
    }
    let origin = link.url.origin();
    match lane.robots_of(&origin) {
        None | Some(RobotsState::Away) => Leave::Unknown(origin),
        Some(RobotsState::Asked { .. }) => Leave::Pending,
        Some(RobotsState::Rules { until, .. } | RobotsState::Failed { until, .. }) if *until <= now => {
            Leave::Unknown(origin)
        }
        Some(RobotsState::Failed { failure, outcome, tries, .. }) => {
            Leave::Denied(*outcome, Some(failure.clone()), *tries)
        }
        Some(RobotsState::Rules { rules, .. }) if rules.allows(link.url.target()) => Leave::Granted,
        Some(RobotsState::Rules { .. }) => Leave::Denied(Outcome::Robots, None, 0),
    }
}

fn ended(link: Link, outcome: Outcome, failure: Option<Failure>, tries: u8, now: Time) -> Box<Visit> {
    let mut visit = Visit::unasked(link, outcome, failure, now);
    visit.link.tries = visit.link.tries.max(tries);
    Box::new(visit)
}

/// A link that we do not ask for, for the safety of others.
pub(super) fn refused(link: Link, purpose: Purpose, failure: Failure, now: Time) -> Box<Visit> {
    let mut visit = Visit::bare(link, purpose, Outcome::Refused, now);
    visit.facts.error = Some(failure);
    Box::new(visit)
}

fn purpose_of(link: &Link) -> Purpose {
    if link.kind == LinkKind::SitemapFile { Purpose::Sitemap } else { Purpose::Page }
}

/// Undoes [`Pick::Take`].
pub(super) fn put_back(lane: &mut Lane, link: Link, purpose: Purpose) {
    match purpose {
        Purpose::Robots(_) => lane.errands.push_front((link, purpose)),
        Purpose::Page | Purpose::Sitemap => lane.queue.push_front(link),
    }
}

/// Whether the user gave the addresses of every link that waits: then nobody is asked for the name.
pub(super) fn is_given(lane: &Lane, rules: &Rules) -> bool {
    if rules.resolve.is_empty() {
        return false;
    }
    let queued = lane.queue.iter().chain(lane.errands.iter().map(|(link, _)| link));
    let mut links = queued.chain(lane.retries.iter().map(|Reverse(retry)| &retry.link)).peekable();
    links.peek().is_some() && links.all(|link| rules.given(link.url.host(), link.url.port()).is_some())
}

/// The addresses of a link's host that may be connected to. Where a proxy resolves the name there are none to judge: then
/// the name is judged, and the rest is the proxy's to refuse.
pub(super) fn permitted(rules: &Rules, url: &Url, list: &Arc<[IpAddr]>) -> Result<Arc<[IpAddr]>, Failure> {
    if address::is_blocked_port(url.port()) {
        let message = format!("port {} is blocked: it belongs to another protocol", url.port());
        return Err(Failure::new(ErrorKind::BlockedPort, message));
    }
    if rules.allows_private(url.host(), url.port()) {
        return Ok(Arc::clone(list));
    }
    if let Some(why) = address::name_refusal(url.host()) {
        let message = format!("{} is a {why} name; --allow-private allows it", url.host());
        return Err(Failure::new(ErrorKind::PrivateAddress, message));
    }
    let refusal = list.iter().find_map(|ip| address::refusal(*ip).map(|why| (ip, why)));
    let Some((ip, why)) = refusal else {
        return Ok(Arc::clone(list));
    };
    let public: Arc<[IpAddr]> = list.iter().copied().filter(|ip| address::refusal(*ip).is_none()).collect();
    if public.is_empty() {
        let message = format!("{} is at {ip}, a {why} address; --allow-private allows it", url.host());
        return Err(Failure::new(ErrorKind::PrivateAddress, message));
    }
    Ok(public)
}

/// Whether all that a lane wants to ask for goes through proxies that resolve its name themselves.
pub(super) fn is_for_proxies_to_resolve(lane: &Lane, rules: &Rules) -> bool {
    let mut urls = lane.queue.iter().map(|link| &link.url);
    let mut errands = lane.errands.iter().map(|(link, _)| &link.url);
    let mut retries = lane.retries.iter().map(|Reverse(retry)| &retry.link.url);
    let is_remote = |url: &Url| rules.proxies.of(url.as_ref()).is_some_and(|proxy| proxy.resolves());
    match rules.proxies.resolve(&lane.name) {
        Some(answer) => answer,
        None => urls.all(is_remote) && errands.all(is_remote) && retries.all(is_remote),
    }
}

/// What a visit tells about how its host feels. All of it took so long, from the moment its slot was taken.
pub(super) fn sign(visit: &Visit, taken: Duration) -> Sign {
    use ErrorKind as K;
    if let Some(429 | 503) = visit.facts.status {
        return Sign::Overload(visit.message.retry_after.map(|asked| asked.min(retry::LONGEST_RETRY_AFTER)));
    }
    match visit.facts.error.as_ref().map(|failure| failure.kind) {
        Some(
            K::Reset
            | K::EmptyReply
            | K::TimeoutFirstByte
            | K::TimeoutIdle
            | K::TimeoutTotal
            | K::TooSlow
            | K::ConnectRefused
            | K::ConnectTimeout
            | K::Unreachable,
        ) => Sign::Trouble,
        _ => {
            let timings = &visit.facts.timings;
            let setup = timings.connect.unwrap_or_default() + timings.tls.unwrap_or_default();
            let whole = timings.total.unwrap_or_default().saturating_sub(setup);
            let first = timings.ttfb.map_or(whole, |ttfb| ttfb.saturating_sub(setup));
            let waited = taken.saturating_sub(visit.facts.ended - visit.facts.started);
            // Redirects, errors, 304 and the crawl's own requests are answered without the work that a page takes.
            let is_page = visit.purpose == Purpose::Page && visit.facts.status.is_some_and(|status| status / 100 == 2);
            let kind = is_page.then(|| page_kind(visit.link.url.target()));
            Sign::Answer { first, whole, waited, kind }
        }
    }
}
