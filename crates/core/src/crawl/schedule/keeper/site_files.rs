//! Applies the contents of robots.txt files and sitemaps: rules for the origin, and links for the frontier.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Keeper, MAX_SITEMAP_DEPTH};
use crate::base::job::Purpose;
use crate::base::link::{Link, LinkKind};
use crate::base::outcome::{ErrorKind, Failure, Outcome};
use crate::base::time::Time;
use crate::base::url::{Origin, Url};
use crate::crawl::rules::Sitemaps;
use crate::crawl::schedule::frontier::{Frontier, History, StoreError};
use crate::crawl::schedule::lane::RobotsState;
use crate::crawl::schedule::workbench;
use crate::crawl::visit::Visit;
use crate::page::robots::{Robots, RobotsAnswer};
use crate::page::scope::ScopeVerdict;
use crate::page::sitemap::Sitemap;

impl<F: Frontier + History> Keeper<F> {
    /// Applies a fetched robots.txt to the origin that waits for it.
    pub(super) fn read_robots(&mut self, visit: &Visit, bytes: &[u8], now: Time) -> Result<(), StoreError> {
        let Purpose::Robots(origin) = &visit.purpose else {
            return Ok(());
        };
        if let (Some(target), Outcome::Redirect) = (&visit.facts.redirect, visit.facts.outcome)
            && visit.link.redirects > 0
        {
            let mut link = Link::root(target.clone(), visit.link.redirects - 1);
            link.kind = LinkKind::Other;
            link.via = Some(visit.link.url.clone());
            let lane = self.frontier.lane_of(target.host())?;
            self.bench.add_site_file(lane, link, visit.purpose.clone(), now);
            return Ok(());
        }
        let mut state = self.robots_state(visit, origin, bytes, now);
        if let RobotsState::Rules { rules, .. } = &state {
            let rules = Arc::clone(rules);
            self.put_sitemaps(origin, &rules, now)?;
        }
        let lane = self.frontier.lane_of(&origin.host)?;
        self.note_robots(lane, origin, &mut state, (visit, bytes))?;
        self.bench.robots_known(lane, origin, state, now);
        Ok(())
    }

    /// The state of an origin's robots.txt after its fetch.
    ///
    /// | result of the fetch | outcome of the origin's links |
    /// |---|---|
    /// | 2xx, read up to the size limit | as the rules say |
    /// | 4xx, but not 429 | allowed: there is no file |
    /// | 429, 5xx and other responses, too many redirects or one to a refused address | `robots` with the error `robots_unreachable` |
    /// | no response, or an incomplete one | `failed` with the error of the fetch (`refused` if the host itself is refused) |
    fn robots_state(&self, visit: &Visit, origin: &Origin, bytes: &[u8], now: Time) -> RobotsState {
        let tries = visit.link.tries;
        let unreachable = |why: String| {
            workbench::robots_failed(Failure::new(ErrorKind::RobotsUnreachable, why), Outcome::Robots, tries, now)
        };
        match RobotsAnswer::from_response(&visit.robots_response(bytes), &self.rules.agent_token) {
            RobotsAnswer::Rules(rules) => return workbench::robots_rules(rules, now),
            RobotsAnswer::AllowAll => return workbench::robots_rules(Robots::none(), now),
            RobotsAnswer::Unreachable { .. } => {}
        }
        match (visit.facts.outcome, visit.facts.status) {
            (Outcome::Redirect, _) => unreachable(match &visit.facts.error {
                Some(failure) => {
                    format!("{origin}/robots.txt has a redirect that cannot be followed: {}", failure.message)
                }
                None => format!("{origin}/robots.txt redirects without end"),
            }),
            (Outcome::HttpError | Outcome::NotModified, Some(status)) => {
                unreachable(format!("{origin}/robots.txt answered {status}"))
            }
            (Outcome::Refused, _) if visit.link.url.origin() != *origin => {
                unreachable(format!("{origin}/robots.txt leads to a refused address"))
            }
            (outcome, _) => {
                let unknown = || Failure::new(ErrorKind::Internal, "the cause is unknown");
                let failure = visit.facts.error.clone().unwrap_or_else(unknown);
                match outcome {
                    Outcome::Refused => workbench::robots_failed(failure, outcome, tries, now),
                    _ => workbench::robots_failed(failure.of_robots(), Outcome::Failed, tries, now),
                }
            }
        }
    }

    /// Adds the sitemaps that robots.txt names, and `/sitemap.xml` with `--sitemap`.
    pub(super) fn put_sitemaps(&mut self, origin: &Origin, robots: &Robots, now: Time) -> Result<(), StoreError> {
        if self.rules.sitemaps == Sitemaps::None {
            return Ok(());
        }
        let page = Url::robots_of(origin);
        let default = (self.rules.sitemaps == Sitemaps::NamedAndDefault).then_some("/sitemap.xml");
        let named = robots.sitemaps().iter().map(|text| &**text);
        let urls = named.chain(default).filter_map(|text| page.join(text).ok());
        let links = urls.filter_map(|url| self.sitemap_link(url, &page, 0, self.rules.max_redirects)).collect();
        self.put_from_sitemap(&origin.host, links, now)
    }

    /// Adds sitemaps, or the entries of a sitemap of `host`, within the budgets of its site.
    fn put_from_sitemap(&mut self, host: &str, mut links: Vec<Link>, now: Time) -> Result<(), StoreError> {
        self.admission.traps.limit_sitemap(host, &mut links);
        let new = self.put_all(&links, now)?;
        let new = links.iter().zip(new).filter(|(_, new)| *new).map(|(link, _)| link);
        self.admission.traps.charge_sitemap(host, new);
        Ok(())
    }

    /// Adds a sitemap's entries as links, and its children as sitemaps.
    pub(super) fn read_sitemap(&mut self, visit: &Visit, sitemap: &Sitemap, now: Time) -> Result<(), StoreError> {
        let via = &visit.link.url;
        let redirects = self.rules.max_redirects;
        let mut links = Vec::new();
        let since = self.rules.since;
        let is_new = |time: Option<Timestamp>| since.zip(time).is_none_or(|(since, time)| time >= since.0);
        for entry in sitemap.entries.iter().filter(|entry| is_new(entry.lastmod)) {
            let kind = LinkKind::Sitemap;
            let url = self.rules.strip_params.strip(entry.url.as_ref()).unwrap_or_else(|| entry.url.clone());
            if self.rules.scope.judge(url.as_ref(), 1, kind) == ScopeVerdict::Follow {
                links.push(Link { url, via: Some(via.clone()), depth: 1, redirects, tries: 0, kind, request: None });
            }
        }
        if visit.link.depth < MAX_SITEMAP_DEPTH {
            let depth = visit.link.depth + 1;
            let children = sitemap.children.iter().filter(|child| is_new(child.lastmod)).map(|child| child.url.clone());
            links.extend(children.filter_map(|url| self.sitemap_link(url, via, depth, redirects)));
        }
        let host = visit.link.url.host();
        // The body may be a gzip file, which is shorter than its text: charge at least 64 bytes for each listed URL.
        let listed = (sitemap.entries.len() + sitemap.children.len()) as u64;
        let is_spent =
            self.admission.traps.charge_sitemap_bytes(host, visit.facts.bytes_body.max(listed * 64), sitemap);
        if is_spent {
            self.drop_sitemaps(host, now)?;
        }
        self.put_from_sitemap(host, links, now)
    }

    /// Follows the redirect of a sitemap.
    pub(super) fn follow_sitemap(&mut self, visit: &Visit, now: Time) -> Result<(), StoreError> {
        let Link { url: via, depth, redirects, .. } = &visit.link;
        let (Some(target), Some(redirects)) = (&visit.facts.redirect, redirects.checked_sub(1)) else {
            return Ok(());
        };
        let links = self.sitemap_link(target.clone(), via, *depth, redirects).into_iter().collect();
        self.put_from_sitemap(via.host(), links, now)
    }

    /// A link to a sitemap file; `None` if it is out of scope.
    fn sitemap_link(&self, url: Url, via: &Url, depth: u32, redirects: u8) -> Option<Link> {
        let kind = LinkKind::SitemapFile;
        let is_in_scope = self.rules.scope.judge(url.as_ref(), depth, kind) == ScopeVerdict::Follow;
        is_in_scope.then(|| Link { url, via: Some(via.clone()), depth, redirects, tries: 0, kind, request: None })
    }
}
