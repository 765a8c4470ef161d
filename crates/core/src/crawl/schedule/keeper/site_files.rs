//! [`SiteFiles`]: what follows from the contents of robots.txt files and sitemaps: rules for the origin, and links for the
//! frontier.

use std::sync::Arc;

use jiff::Timestamp;

use super::Keeper;
use crate::base::job::Purpose;
use crate::base::link::{Link, LinkKind};
use crate::base::link_list::LinkList;
use crate::base::outcome::{ErrorKind, Failure, Outcome, Truncated};
use crate::base::time::Time;
use crate::base::url::{Origin, Url};
use crate::crawl::rules::{Rules, Sitemaps};
use crate::crawl::schedule::frontier::{Frontier, History, StoreError};
use crate::crawl::schedule::lane::RobotsState;
use crate::crawl::schedule::workbench;
use crate::crawl::visit::Visit;
use crate::page::robots::{Robots, RobotsAnswer};
use crate::page::scope::{self, ScopeVerdict};
use crate::page::sitemap::Sitemap;

/// Reads site files.
pub(super) struct SiteFiles {
    rules: Arc<Rules>,
}

impl SiteFiles {
    pub fn new(rules: &Arc<Rules>) -> Self {
        Self { rules: Arc::clone(rules) }
    }

    /// The request that follows the redirect of a robots.txt, if it is one that may be followed.
    fn robots_redirect(visit: &Visit) -> Option<Link> {
        let (Some(target), Outcome::Redirect) = (&visit.facts.redirect, visit.facts.outcome) else { return None };
        let redirects = visit.link.redirects.checked_sub(1)?;
        let via = Some(visit.link.url.clone());
        Some(Link { kind: LinkKind::Other, via, ..Link::root(target.clone(), redirects) })
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
        match RobotsAnswer::from_response(&visit.robots_response(bytes), self.rules.agent_token_for(&origin.host)) {
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

    /// The sitemaps that robots.txt names, and `/sitemap.xml` with `--sitemap`.
    fn sitemaps_of(&self, origin: &Origin, robots: &Robots) -> Vec<Link> {
        if self.rules.sitemaps == Sitemaps::None {
            return Vec::new();
        }
        let page = Url::robots_of(origin);
        let default = (self.rules.sitemaps == Sitemaps::NamedAndDefault).then_some("/sitemap.xml");
        let named = robots.sitemaps().iter().map(|text| &**text);
        let urls = named.chain(default).filter_map(|text| page.join(text).ok());
        urls.filter_map(|url| self.sitemap_link(url, &page, 0, self.rules.max_redirects)).collect()
    }

    /// The entries of a sitemap as links, and its children as sitemaps.
    fn links_of(&self, visit: &Visit, sitemap: &Sitemap) -> Vec<Link> {
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
        let depth = visit.link.depth.saturating_add(1);
        let children = sitemap.children.iter().filter(|child| is_new(child.lastmod)).map(|child| child.url.clone());
        links.extend(children.filter_map(|url| self.sitemap_link(url, via, depth, redirects)));
        links
    }

    /// The target of a sitemap's redirect, if it may be followed.
    fn sitemap_redirect(&self, visit: &Visit) -> Option<Link> {
        let Link { url: via, depth, redirects, .. } = &visit.link;
        let target = visit.facts.redirect.clone()?;
        self.sitemap_link(target, via, *depth, redirects.checked_sub(1)?)
    }

    /// A link to a sitemap file; `None` if it is out of scope.
    fn sitemap_link(&self, url: Url, via: &Url, depth: u32, redirects: u8) -> Option<Link> {
        let kind = LinkKind::SitemapFile;
        let is_in_scope = self.rules.scope.judge(url.as_ref(), depth, kind) == ScopeVerdict::Follow;
        is_in_scope.then(|| Link { url, via: Some(via.clone()), depth, redirects, tries: 0, kind, request: None })
    }

    /// Writes what a sitemap contains, and what is wrong with it, into its visit.
    fn describe(&self, visit: &mut Visit, sitemap: Sitemap) {
        let mut list = LinkList::default();
        // `foreign` are entries of other sites. They are not followed, but they are links of the sitemap.
        let pages = sitemap.entries.iter().map(|entry| &entry.url).chain(&sitemap.foreign);
        let files = sitemap.children.iter().map(|child| &child.url);
        let all = pages.map(|url| (url, LinkKind::Sitemap)).chain(files.map(|url| (url, LinkKind::SitemapFile)));
        // The last argument: no entry of a sitemap is `nofollow`.
        all.for_each(|(url, kind)| list.push(url.as_str(), kind, false));
        let list = Box::new(list);
        visit.findings.all_links = self.rules.with_links.then(|| list.clone());
        visit.for_keeper.edges = Some(list);
        if sitemap.cut {
            let cause = if sitemap.limited { Truncated::Length } else { Truncated::Decode };
            visit.facts.truncated.get_or_insert(cause);
        }
        if sitemap.fault.is_some() && sitemap.entries.is_empty() && sitemap.children.is_empty() {
            // No part of the sitemap was usable.
            (visit.facts.outcome, visit.facts.truncated) = (Outcome::Failed, None);
        }
        if let (Some(fault), None) = (sitemap.fault, &visit.facts.error) {
            let kind = if sitemap.limited { ErrorKind::ParseLimit } else { ErrorKind::Decode };
            visit.facts.error = Some(Failure::new(kind, fault));
        }
    }
}

impl<F: Frontier + History> Keeper<F> {
    /// Applies a fetched robots.txt to the origin that waits for it.
    pub(super) fn read_robots(&mut self, visit: &Visit, bytes: &[u8], now: Time) -> Result<(), StoreError> {
        let Purpose::Robots(origin) = &visit.purpose else {
            return Ok(());
        };
        if let Some(link) = SiteFiles::robots_redirect(visit) {
            let lane = self.frontier.lane_of(link.url.host())?;
            self.bench.add_site_file(lane, link, visit.purpose.clone(), now);
            return Ok(());
        }
        let mut state = self.site_files.robots_state(visit, origin, bytes, now);
        if let RobotsState::Rules { rules, .. } = &state {
            let rules = Arc::clone(rules);
            self.put_sitemaps(origin, &rules, now)?;
        }
        let lane = self.frontier.lane_of(&origin.host)?;
        self.note_robots(lane, origin, &mut state, (visit, bytes))?;
        self.bench.robots_known(lane, origin, state, now);
        Ok(())
    }

    /// Adds the sitemaps of an origin.
    pub(super) fn put_sitemaps(&mut self, origin: &Origin, robots: &Robots, now: Time) -> Result<(), StoreError> {
        self.put_from_sitemap(&origin.host, self.site_files.sitemaps_of(origin, robots), now)
    }

    /// Adds sitemaps, or the entries of a sitemap of `host`, within the budgets of its site.
    fn put_from_sitemap(&mut self, host: &str, mut links: Vec<Link>, now: Time) -> Result<(), StoreError> {
        self.admission.traps.limit_sitemap(host, &mut links);
        let new = self.put_all(&links, now)?;
        let new = links.iter().zip(new).filter(|(_, new)| *new).map(|(link, _)| link);
        self.admission.traps.charge_sitemap(host, new);
        Ok(())
    }

    /// Adds what a sitemap lists, and describes it in its visit.
    pub(super) fn read_sitemap(&mut self, visit: &mut Visit, sitemap: Sitemap, now: Time) -> Result<(), StoreError> {
        let host = visit.link.url.host();
        let links = self.site_files.links_of(visit, &sitemap);
        // The body may be a gzip file, which is shorter than its text: charge at least 64 bytes for each listed URL.
        let listed = (sitemap.entries.len() + sitemap.children.len()) as u64;
        let bytes = visit.facts.bytes_body.max(listed * 64);
        if self.admission.traps.charge_sitemap_bytes(host, bytes, &sitemap) {
            self.drop_sitemaps(host, now)?;
        }
        self.put_from_sitemap(host, links, now)?;
        self.site_files.describe(visit, sitemap);
        Ok(())
    }

    /// Follows the redirect of a sitemap.
    pub(super) fn follow_sitemap(&mut self, visit: &Visit, now: Time) -> Result<(), StoreError> {
        let links = self.site_files.sitemap_redirect(visit).into_iter().collect();
        self.put_from_sitemap(visit.link.url.host(), links, now)
    }

    /// Drops the sitemap files of a site whose budget for them is spent. Those on the workbench are dropped now, those
    /// in the frontier when they are taken.
    fn drop_sitemaps(&mut self, host: &str, now: Time) -> Result<(), StoreError> {
        let site = scope::domain_key(host);
        let is_of_site = |link: &Link| link.kind == LinkKind::SitemapFile && scope::domain_key(link.url.host()) == site;
        for link in self.bench.remove(is_of_site, now) {
            let rule = self.admission.traps.drop_sitemap(link.url.as_ref());
            self.skip(&link, rule.as_str())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::rules::Config;
    use crate::page::sitemap::{SitemapBounds, SitemapReader};

    fn site_files() -> SiteFiles {
        let config = Config { roots: vec!["http://h.example/".into()], ..Config::default() };
        SiteFiles::new(&Arc::new(config.compile(0).expect("valid settings")))
    }

    fn visit(path: &str, purpose: Purpose, outcome: Outcome) -> Visit {
        let url = Url::parse(&format!("http://h.example/{path}")).expect("a URL");
        Visit::with_outcome(Link::root(url, 1), purpose, outcome, Time::ZERO)
    }

    #[test]
    fn a_robots_txt_is_followed_while_redirects_are_left_and_then_it_is_unreachable() {
        let files = site_files();
        let page = visit("", Purpose::Page, Outcome::Ok);
        let origin = page.link.url.origin();
        let mut visit = visit("robots.txt", Purpose::Robots(Box::new(origin.clone())), Outcome::Redirect);
        visit.facts.redirect = Some(page.link.url.clone());
        let next = SiteFiles::robots_redirect(&visit).expect("one redirect is left");
        assert_eq!((next.url, next.redirects, next.via), (page.link.url, 0, Some(visit.link.url.clone())));
        visit.link.redirects = 0;
        assert!(SiteFiles::robots_redirect(&visit).is_none());
        let RobotsState::Failed { failure, outcome, .. } = files.robots_state(&visit, &origin, b"", Time::ZERO) else {
            panic!("no rules are known")
        };
        assert_eq!((failure.kind, outcome), (ErrorKind::RobotsUnreachable, Outcome::Robots));
    }

    #[test]
    fn the_links_of_a_sitemap_are_those_in_scope_and_its_children() {
        let files = site_files();
        let mut visit = visit("sitemap.xml", Purpose::Sitemap, Outcome::Ok);
        let mut links = |depth, xml: &str| {
            visit.link.depth = depth;
            let mut reader = SitemapReader::new(&visit.link.url, SitemapBounds::default());
            reader.feed(xml.as_bytes());
            let sitemap = reader.finish();
            let links = files.links_of(&visit, &sitemap);
            links.iter().map(|link| (link.url.path().to_owned(), link.kind, link.depth)).collect::<Vec<_>>()
        };
        let entries =
            "<urlset><url><loc>http://h.example/a</loc></url><url><loc>http://other.example/</loc></url></urlset>";
        assert_eq!(links(0, entries), [("/a".to_owned(), LinkKind::Sitemap, 1)]);
        let index = "<sitemapindex><sitemap><loc>http://h.example/b.xml</loc></sitemap></sitemapindex>";
        assert_eq!(links(1, index), [("/b.xml".to_owned(), LinkKind::SitemapFile, 2)]);
    }

    #[test]
    fn a_sitemap_without_a_usable_part_is_a_failure_and_one_that_was_cut_is_truncated() {
        let files = site_files();
        let mut visit = visit("sitemap.xml", Purpose::Sitemap, Outcome::Ok);
        files.describe(&mut visit, Sitemap { cut: true, limited: true, ..Sitemap::default() });
        assert_eq!((visit.facts.outcome, visit.facts.truncated), (Outcome::Ok, Some(Truncated::Length)));
        files.describe(&mut visit, Sitemap { fault: Some("no XML".into()), ..Sitemap::default() });
        assert_eq!((visit.facts.outcome, visit.facts.truncated), (Outcome::Failed, None));
        assert_eq!(visit.facts.error.map(|failure| failure.kind), Some(ErrorKind::Decode));
    }
}
