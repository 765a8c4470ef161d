//! Selection of a lane's next request. [`super::pick`] selects a link. This file checks what may block it: the host
//! name, the robots.txt, the limit of an address or the rate. The visits of links that end without a request are added
//! to `decided`.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;

use super::pick::{self, Pick, Startable, Update};
use super::steering::MayStart;
use super::{ROBOTS_REDIRECTS, Workbench};
use crate::base::job::{LaneId, Purpose};
use crate::base::link::{Link, LinkKind};
use crate::base::outcome::Outcome;
use crate::base::time::Time;
use crate::base::url::{Origin, Url};
use crate::crawl::schedule::lane::{Addresses, RobotsState};
use crate::crawl::visit::Visit;
use crate::http::proxy;

/// The next action of a lane.
pub(super) enum Selection {
    /// Request this link at one of these addresses.
    Go { link: Link, purpose: Purpose, addresses: Arc<[IpAddr]> },
    /// Blocked until this time; [`Time::NEVER`]: until an event.
    Blocked(Time),
    /// All slots of this address are in use.
    Full(IpAddr),
    /// `--rate` allows no page now.
    RateLimited,
    /// Memory for robots rules is full.
    NoRobotsRoom,
}

impl Workbench {
    /// Selects the next action of this lane. The visits of links that end without a request are added to `decided`.
    pub(super) fn select(&mut self, id: LaneId, now: Time) -> Selection {
        let startable = match self.holds.may_start() {
            MayStart::Nothing | MayStart::Parts => Startable::SiteFiles,
            MayStart::All if self.pages.may_start() => Startable::All,
            MayStart::All => Startable::Begun,
        };
        // The lane may have changed since it was queued.
        let due = self.lanes.get(id).map_or(Time::NEVER, |entry| entry.lane.due(startable == Startable::All));
        if due > now {
            return Selection::Blocked(due);
        }
        let known = match self.addresses_of(id, now) {
            Ok(known) => known,
            Err(until) => return Selection::Blocked(until),
        };
        let Some(lane) = self.lanes.lane_mut(id) else {
            return Selection::Blocked(Time::NEVER);
        };
        loop {
            let (link, purpose) = match pick::pick(lane, startable, &self.rules, now) {
                Pick::Take(link, purpose) => (link, purpose),
                Pick::AskRobots(origin) => {
                    let is_evicted = matches!(lane.robots_of(&origin), Some(RobotsState::Evicted));
                    if lane.robots_of(&origin).is_none() && self.robots.is_full() {
                        return Selection::NoRobotsRoom;
                    }
                    // The rules of another origin of this lane may be evicted for it.
                    self.robots.change(lane, |lane| lane.ask_robots(&origin));
                    if is_evicted {
                        self.robots.request_recall(id, origin);
                        continue;
                    }
                    (robots_link(&origin), Purpose::Robots(Box::new(origin)))
                }
                Pick::End(visit) => {
                    self.decided.push_back(visit);
                    continue;
                }
                Pick::Nothing(until) => return Selection::Blocked(until),
            };
            let given = self.rules.given_addresses(link.url.host(), link.url.port()).map(Arc::from);
            let list = given.as_ref().unwrap_or(&known);
            let addresses = match pick::permitted(&self.rules, &link.url, purpose.access(), list) {
                Ok(addresses) => addresses,
                Err(failure) => {
                    self.decided.push_back(pick::refused(link, purpose, failure, now));
                    continue;
                }
            };
            if purpose.is_rated() && now < self.pages.next_start() {
                pick::put_back(lane, link, purpose);
                return Selection::RateLimited;
            }
            // The connection may use any of the addresses, so the request counts towards all of them.
            if let Some(ip) = self.addresses.find_full(&addresses) {
                pick::put_back(lane, link, purpose);
                return Selection::Full(ip);
            }
            return Selection::Go { link, purpose, addresses };
        }
    }

    /// The addresses of a lane for its next request. If they are not known, requests a lookup where one is needed, and
    /// returns until when the lane is blocked.
    fn addresses_of(&mut self, id: LaneId, now: Time) -> Result<Arc<[IpAddr]>, Time> {
        let rules = &self.rules;
        let Some(lane) = self.lanes.lane_mut(id) else { return Err(Time::NEVER) };
        match &lane.addresses {
            // If `took` is known, no job has used the addresses. Then the first job may use expired ones.
            Addresses::Known { list, until, took } if *until > now || took.is_known() => Ok(Arc::clone(list)),
            addresses if pick::has_given_addresses(lane, rules) && !is_dead(addresses, now) => Ok(Arc::default()),
            Addresses::Resolving { .. } => Err(Time::NEVER),
            Addresses::RetryAt { at, .. } if *at > now => Err(*at),
            Addresses::Failed { until, .. } if *until > now => {
                self.fail_all(id, now);
                let lane = self.lanes.lane(id);
                let is_given = lane.is_some_and(|lane| pick::has_given_addresses(lane, &self.rules));
                if is_given { self.addresses_of(id, now) } else { Err(Time::NEVER) }
            }
            // A proxy resolves the name. If the host is an IP address, the address is known and is checked below.
            _ if pick::is_resolved_by_proxies(lane, rules) => Ok(proxy::ip_literal(&lane.name).into_iter().collect()),
            stale => {
                // Links with a refused name or port ended on arrival. If no other link is left, the name is not looked
                // up, because the lookup would leak it.
                let tries = if let Addresses::RetryAt { tries, .. } = stale { *tries } else { 0 };
                if lane.has_work() {
                    lane.addresses = Addresses::Resolving { since: now, tries };
                    self.to_resolve.push_back(id);
                }
                Err(Time::NEVER)
            }
        }
    }

    /// Moves the links of a lane that end without a request because of the update to `decided`.
    pub(super) fn move_decided(&mut self, id: LaneId, update: Update<'_>, now: Time) {
        if let Some(entry) = self.lanes.get_mut(id) {
            pick::move_decided(&mut entry.lane, update, &self.rules, now, &mut self.decided);
        }
    }

    /// Ends every link of an unreachable host with the host's failure: adds their visits to `decided`.
    pub(super) fn fail_all(&mut self, id: LaneId, now: Time) {
        let Some(lane) = self.lanes.lane_mut(id) else { return };
        let (failure, tries) = match &lane.addresses {
            Addresses::Failed { failure, tries, until } if *until > now => (failure.clone(), *tries),
            _ => return,
        };
        let queued = lane.queue.drain(..).map(|link| (link, None));
        let site_files = lane.site_files.take().into_iter().map(|(link, purpose)| (link, Some(purpose)));
        let retries = lane.retries.drain().map(|Reverse(retry)| (retry.link, Some(retry.purpose)));
        let is_dns_failure = !is_dead(&lane.addresses, now);
        let links: Vec<_> = queued.chain(site_files).chain(retries).collect();
        for (link, purpose) in links {
            // An address given with --resolve is used although DNS has failed.
            if is_dns_failure && self.rules.given_addresses(link.url.host(), link.url.port()).is_some() {
                // Links without a purpose come from the queue of pages and sitemaps, and return to it.
                pick::put_back(lane, link, purpose.unwrap_or(Purpose::Page));
                continue;
            }
            let mut visit = Visit::not_fetched(link, Outcome::Failed, Some(failure.clone()), now);
            visit.link.tries = visit.link.tries.max(tries);
            if let Some(purpose) = purpose {
                visit.purpose = purpose;
            }
            self.decided.push_back(Box::new(visit));
        }
    }
}

/// The link to an origin's robots.txt.
fn robots_link(origin: &Origin) -> Link {
    let mut link = Link::root(Url::robots_of(origin), ROBOTS_REDIRECTS);
    link.kind = LinkKind::Other;
    link
}

/// Whether a host is unreachable because of its servers, as opposed to a DNS failure.
fn is_dead(addresses: &Addresses, now: Time) -> bool {
    use crate::base::outcome::ErrorKind as E;
    let is_dns = |kind| matches!(kind, E::DnsNxdomain | E::DnsServfail | E::DnsTimeout | E::DnsInvalid);
    matches!(addresses, Addresses::Failed { failure, until, .. } if *until > now && !is_dns(failure.kind))
}
