//! What a lane can do now: [`super::pick`] says what it would ask for next, and here is what stands in the way, be it a
//! name, a robots.txt, an address or the rate. Links that need no asking end on the way.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;

use super::pick::{self, News, Pick};
use super::{ROBOTS_REDIRECTS, Workbench};
use crate::http::proxy;
use crate::outcome::Outcome;
use crate::page::link::{Link, LinkKind};
use crate::page::url::{Origin, Url};
use crate::schedule::job::{LaneId, Purpose};
use crate::schedule::lane::{Addresses, RobotsState};
use crate::time::Time;
use crate::visit::Visit;

/// What a lane can do now.
pub(super) enum Choice {
    Go(Link, Purpose, Arc<[IpAddr]>),
    /// Not before then; never means: when an event comes.
    Blocked(Time),
    /// When a slot is free at this address.
    Full(IpAddr),
    /// When the rate allows a page.
    TooFast,
    /// When there is room for the rules of one more robots.txt.
    Crowded,
}

impl Workbench {
    /// What this lane can do now. Links that need no asking end here.
    pub(super) fn choose(&mut self, id: LaneId, now: Time) -> Choice {
        let rules = Arc::clone(&self.rules);
        let pages = self.pages_left > 0;
        let Some(entry) = self.lanes.get_mut(&id) else {
            return Choice::Blocked(Time::NEVER);
        };
        let lane = &mut entry.lane;
        // Much may have happened since the lane was seated.
        let due = lane.due(pages);
        if due > now {
            return Choice::Blocked(due);
        }
        let list = match &lane.addresses {
            Addresses::Known { list, until, took } if *until > now || took.is_some() => Arc::clone(list),
            addresses if pick::is_given(lane, &rules) && !is_dead(addresses, now) => Arc::default(),
            Addresses::Asked { .. } => return Choice::Blocked(Time::NEVER),
            Addresses::Again { at, .. } if *at > now => return Choice::Blocked(*at),
            Addresses::Failed { until, .. } if *until > now => {
                self.fail_all(id, now);
                let is_left = self.lanes.get(&id).is_some_and(|entry| pick::is_given(&entry.lane, &rules));
                return if is_left { self.choose(id, now) } else { Choice::Blocked(Time::NEVER) };
            }
            // Nobody here need know where it is.
            _ if pick::is_for_proxies_to_resolve(lane, &rules) => proxy::literal(&lane.name).into_iter().collect(),
            stale => {
                // What its name or its port forbids ended when it came, and is not looked up: others would learn of it.
                let tries = if let Addresses::Again { tries, .. } = stale { *tries } else { 0 };
                if lane.queue.is_empty() && lane.errands.is_empty() && lane.retries.is_empty() {
                    return Choice::Blocked(Time::NEVER);
                }
                lane.addresses = Addresses::Asked { since: now, tries };
                self.names.push_back(id);
                return Choice::Blocked(Time::NEVER);
            }
        };
        loop {
            let (link, purpose) = match pick::pick(lane, pages, &rules, now) {
                Pick::Take(link, purpose) => (link, purpose),
                Pick::AskRobots(origin) if matches!(lane.robots_of(&origin), Some(RobotsState::Away)) => {
                    let before = lane.robots_weight();
                    lane.ask_robots(&origin);
                    self.spare.weighs(before, lane.robots_weight());
                    self.recalls.push_back((id, origin));
                    continue;
                }
                Pick::AskRobots(origin) if lane.robots_of(&origin).is_none() && self.spare.is_full() => {
                    return Choice::Crowded;
                }
                Pick::AskRobots(origin) => {
                    // What is known of another origin may go for it.
                    let before = lane.robots_weight();
                    lane.ask_robots(&origin);
                    self.spare.weighs(before, lane.robots_weight());
                    self.held += 1;
                    (robots_link(&origin), Purpose::Robots(Box::new(origin)))
                }
                Pick::End(visit) => {
                    self.verdicts.push_back(visit);
                    continue;
                }
                Pick::Nothing(until) => return Choice::Blocked(until),
            };
            let given = rules.given(link.url.host(), link.url.port()).map(Arc::from);
            let addresses = match pick::permitted(&rules, &link.url, given.as_ref().unwrap_or(&list)) {
                Ok(addresses) => addresses,
                Err(failure) => {
                    self.verdicts.push_back(pick::refused(link, purpose, failure, now));
                    continue;
                }
            };
            if purpose == Purpose::Page && now < self.next_start {
                pick::put_back(lane, link, purpose);
                return Choice::TooFast;
            }
            // Whoever connects may take any of them: the request counts at all.
            let full = |ip: &&IpAddr| {
                let under_way = self.by_ip.get(*ip).map_or(0, |shared| shared.in_flight);
                rules.per_ip.is_some_and(|cap| under_way >= cap)
            };
            if let Some(ip) = addresses.iter().find(full).copied() {
                pick::put_back(lane, link, purpose);
                return Choice::Full(ip);
            }
            return Choice::Go(link, purpose, addresses);
        }
    }

    /// Ends the links of a lane that need no asking.
    pub(super) fn sweep(&mut self, id: LaneId, news: News<'_>, now: Time) {
        if let Some(entry) = self.lanes.get_mut(&id) {
            pick::sweep(&mut entry.lane, news, &self.rules, now, &mut self.verdicts);
        }
    }

    /// Every link of a lane that was given up on ends like it.
    pub(super) fn fail_all(&mut self, id: LaneId, now: Time) {
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        let lane = &mut entry.lane;
        let (failure, tries) = match &lane.addresses {
            Addresses::Failed { failure, tries, until } if *until > now => (failure.clone(), *tries),
            _ => return,
        };
        let queued = lane.queue.drain(..).map(|link| (link, None));
        let errands = lane.errands.drain(..).map(|(link, purpose)| (link, Some(purpose)));
        let retries = lane.retries.drain().map(|Reverse(retry)| (retry.link, Some(retry.purpose)));
        let is_named = !is_dead(&lane.addresses, now);
        let all: Vec<_> = queued.chain(errands).chain(retries).collect();
        for (link, purpose) in all {
            // Where the user said where it is, nobody's answer counts.
            if is_named && self.rules.given(link.url.host(), link.url.port()).is_some() {
                pick::put_back(lane, link, purpose.unwrap_or(Purpose::Page));
                continue;
            }
            let mut visit = Visit::unasked(link, Outcome::Failed, Some(failure.clone()), now);
            visit.link.tries = visit.link.tries.max(tries);
            if let Some(purpose) = purpose {
                visit.purpose = purpose;
            }
            self.verdicts.push_back(Box::new(visit));
        }
    }
}

/// The link to an origin's robots.txt.
fn robots_link(origin: &Origin) -> Link {
    let mut link = Link::root(Url::robots_of(origin), ROBOTS_REDIRECTS);
    link.kind = LinkKind::Other;
    link
}

/// Whether a host was given up on for what its servers do, and not for what name servers say.
fn is_dead(addresses: &Addresses, now: Time) -> bool {
    use crate::outcome::ErrorKind as E;
    let about_name = |kind| matches!(kind, E::DnsNxdomain | E::DnsServfail | E::DnsTimeout | E::DnsInvalid);
    matches!(addresses, Addresses::Failed { failure, until, .. } if *until > now && !about_name(failure.kind))
}
