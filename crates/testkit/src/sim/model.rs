//! [`WebModel`]: a small random web with realistic faults, and an oracle of the records of a correct crawl.
//!
//! It has hosts with several origins, on shared addresses; names that fail to resolve for a while or permanently;
//! private addresses; hosts that never respond; robots.txt in every state; sitemaps; redirect chains, loops and invalid
//! redirects; responses that fail a few times before they succeed; overload with and without Retry-After.
//!
//! Invariant: the reply to a request depends only on its URL and on the number of earlier requests for it, never on
//! time or order. Therefore exactly one set of records is correct, for any pace, concurrency and order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use argiope_core::base::job::Job;
use argiope_core::crawl::rules::{RobotsPolicy, Rules};
use argiope_core::page::scope::ScopeVerdict;
use argiope_core::page::sitemap::{Sitemap, SitemapEntry};
use argiope_core::{ErrorKind, Failure, LinkKind, LinkList, Origin, Outcome, Time, Url};

use super::rng::SimRng;
use super::{Arrival, ResolveResult, SimReply, SimResponse, SimWeb};

/// Parameters of a generated web.
#[derive(Clone, Debug)]
pub struct WebPlan {
    pub seed: u64,
    pub hosts: usize,
    /// Maximum number of pages per host.
    pub pages: usize,
    /// Number of addresses that the hosts share.
    pub addresses: usize,
    /// How likely faults are, in percent.
    pub fault_percent: u64,
}

/// A small random web.
pub struct WebModel {
    plan: WebPlan,
    hosts: HashMap<Box<str>, ModelHost>,
    robots: HashMap<Origin, ModelRobots>,
    pages: HashMap<Url, ModelPageScript>,
    roots: Vec<Url>,
    /// How often each URL was requested, and each name resolved.
    request_counts: HashMap<Box<str>, u32>,
    rng: SimRng,
}

/// A host of the model.
struct ModelHost {
    addresses: Vec<IpAddr>,
    /// How often and with which error the name fails to resolve before it succeeds.
    dns: Failing<ErrorKind>,
    /// How long the addresses may be cached.
    ttl: Duration,
    /// If the host never responds: how requests fail.
    dead: Option<ErrorKind>,
    /// Minimum response time in milliseconds.
    latency: u64,
    /// How many more failures without a response may be generated for the host. The crawl gives up on a host after too
    /// many of them in a row, which the oracle does not model.
    failures_left: u32,
}

/// A number of failures, followed by success.
#[derive(Clone, Copy)]
struct Failing<T> {
    times: u32,
    kind: T,
}

/// A failed attempt: no response, or a status with the seconds of its Retry-After.
#[derive(Clone, Copy)]
enum FailedAttempt {
    NoResponse(ErrorKind),
    Status(u16, Option<u64>),
}

/// A robots.txt of the model.
struct ModelRobots {
    failing: Failing<FailedAttempt>,
    behaviour: RobotsBehaviour,
}

/// The behaviour of a robots.txt after its failures.
#[derive(Clone)]
enum RobotsBehaviour {
    /// A robots.txt with these rules.
    Rules {
        /// Whether `/no` is disallowed.
        forbids: bool,
        /// In seconds.
        crawl_delay: Option<u64>,
        /// The pages that the sitemap lists; without pages there is no sitemap.
        sitemap: Vec<Url>,
    },
    /// A 404.
    Missing,
    /// A chain of redirects, starting at this URL.
    Hops(Url),
}

/// A page of the model.
struct ModelPageScript {
    failing: Failing<FailedAttempt>,
    behaviour: PageBehaviour,
    /// Its size on the wire.
    bytes: u64,
}

/// The behaviour of a page after its failures.
enum PageBehaviour {
    Links(LinkList),
    Status(u16),
    Redirect(String),
}

/// The expected result of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedResult {
    pub outcome: Outcome,
    pub error: Option<ErrorKind>,
    /// Whether the host receives a request for the URL.
    pub is_requested: bool,
}

/// The initial value of [`ModelHost::failures_left`]. The crawl gives up on a host after ten failures in a row.
const MAX_FAILURES_PER_HOST: u32 = 9;
/// A number of failures that never ends.
const FOREVER: u32 = u32::MAX;
/// URLs that contain this are out of scope: see [`WebModel::exclude`].
const EXCLUDED_PATH: &str = "/outside/";

impl WebModel {
    /// Generates a web. `max_tries` is the setting of the crawl: a failure either ends within that number of attempts,
    /// or never.
    pub fn new(plan: WebPlan, max_tries: u8) -> Self {
        let mut rng = SimRng::new(plan.seed);
        let mut model = Self {
            hosts: HashMap::new(),
            robots: HashMap::new(),
            pages: HashMap::new(),
            roots: Vec::new(),
            request_counts: HashMap::new(),
            // For latencies and the choice of addresses, which do not affect the records.
            rng: SimRng::new(plan.seed ^ 1),
            plan,
        };
        let origins = model.make_hosts(&mut rng, max_tries);
        let mut urls = Vec::new();
        for origin in &origins {
            let is_dead = model.hosts.get(&*origin.host).is_some_and(|host| host.dead.is_some());
            // The crawl would give up on a large dead host before it has requested all pages.
            let max_pages = if is_dead { 2 } else { model.plan.pages };
            for number in 0..1 + rng.below(max_pages) {
                // Some robots.txt disallow `/no`, and `/outside` is out of scope.
                let folder = rng.one_of(&["", "", "", "", "/no", "/outside"]).unwrap_or_default();
                urls.push(url(&format!("{origin}{folder}/p{number}")));
            }
        }
        for origin in &origins {
            let robots = model.make_robots(&mut rng, max_tries, origin, &urls);
            model.robots.insert(origin.clone(), robots);
        }
        for page_url in &urls {
            let page = model.make_page(&mut rng, max_tries, page_url, &urls);
            model.pages.insert(page_url.clone(), page);
        }
        // `/p0` may be missing. Then the first root has the status 404.
        let first = origins.first().map(|origin| url(&format!("{origin}/p0")));
        model.roots.extend(first);
        // Up to three other origins have a root too.
        for origin in origins.iter().take(4).skip(1) {
            if rng.chance(50) {
                model.roots.extend(urls.iter().find(|page_url| page_url.origin() == *origin).cloned());
            }
        }
        // All roots get public addresses. A private address is allowed for a root, which the oracle does not model.
        for root in &model.roots {
            if let Some(host) = model.hosts.get_mut(root.host()) {
                host.addresses.iter_mut().for_each(|ip| *ip = public(*ip));
            }
        }
        model
    }

    /// Makes all hosts, and returns their origins.
    fn make_hosts(&mut self, rng: &mut SimRng, max_tries: u8) -> Vec<Origin> {
        let fault_percent = self.plan.fault_percent;
        let mut origins = Vec::new();
        for number in 0..self.plan.hosts.max(1) {
            let name: Box<str> = format!("h{number}.example").into();
            let address = |rng: &mut SimRng, count: usize| {
                let number = rng.below(count.max(1)) as u8;
                IpAddr::V4(Ipv4Addr::new(93, 184, 216, number))
            };
            let mut addresses = vec![address(rng, self.plan.addresses)];
            if rng.chance(20) {
                addresses.push(address(rng, self.plan.addresses));
                addresses.dedup();
            }
            // A private address, which the crawl refuses.
            if rng.chance(fault_percent / 6) {
                addresses = vec![IpAddr::V4(Ipv4Addr::new(10, 0, 0, number as u8))];
            }
            let kind = rng.one_of(&[ErrorKind::DnsServfail, ErrorKind::DnsTimeout]).unwrap_or(ErrorKind::DnsServfail);
            let dns = match rng.below(4) {
                0 if rng.chance(fault_percent) => Failing { times: FOREVER, kind: ErrorKind::DnsNxdomain },
                1 if rng.chance(fault_percent) => Failing { times: FOREVER, kind },
                2 if rng.chance(fault_percent) => Failing { times: rng.below(max_tries.into()) as u32, kind },
                _ => Failing { times: 0, kind },
            };
            let dead = rng.chance(fault_percent / 4).then(|| {
                rng.one_of(&[ErrorKind::ConnectRefused, ErrorKind::Tls, ErrorKind::TimeoutFirstByte])
                    .unwrap_or(ErrorKind::ConnectRefused)
            });
            let ttl = Duration::from_secs(rng.one_of(&[0, 1, 300]).unwrap_or(300));
            let latency = rng.between(1, 400);
            origins.push(url(&format!("http://{name}/")).origin());
            // The crawl refuses port 25.
            let others = [(50, "https://", ""), (20, "http://", ":8080"), (fault_percent / 6, "http://", ":25")];
            for (percent, scheme, port) in others {
                // A host that never responds must be small, so it has only one origin.
                if rng.chance(percent) && dead.is_none() {
                    origins.push(url(&format!("{scheme}{name}{port}/")).origin());
                }
            }
            self.hosts
                .insert(name, ModelHost { addresses, dns, ttl, dead, latency, failures_left: MAX_FAILURES_PER_HOST });
        }
        origins
    }

    /// Failures of a robots.txt or a page: mostly none.
    fn make_failing(&mut self, rng: &mut SimRng, max_tries: u8, host: &str) -> Failing<FailedAttempt> {
        let mut kind = match rng.below(3) {
            0 => {
                let kinds =
                    [ErrorKind::Reset, ErrorKind::TimeoutIdle, ErrorKind::EmptyReply, ErrorKind::ConnectTimeout];
                FailedAttempt::NoResponse(rng.one_of(&kinds).unwrap_or(ErrorKind::Reset))
            }
            1 => FailedAttempt::Status(rng.one_of(&[500, 502, 408]).unwrap_or(500), None),
            _ => {
                let retry_after = rng.one_of(&[None, Some(0), Some(2), Some(90), Some(100_000)]).flatten();
                FailedAttempt::Status(rng.one_of(&[429, 503]).unwrap_or(503), retry_after)
            }
        };
        let mut times = 0;
        if rng.chance(self.plan.fault_percent) {
            times = if rng.chance(30) { FOREVER } else { rng.below(max_tries.into()) as u32 };
        }
        if let (FailedAttempt::NoResponse(_), Some(host)) = (kind, self.hosts.get_mut(host)) {
            let attempts = times.min(max_tries.into());
            if attempts > host.failures_left {
                // The host has had its failures without a response: this one is a status.
                kind = FailedAttempt::Status(500, None);
            } else {
                host.failures_left -= attempts;
            }
        }
        Failing { times, kind }
    }

    fn make_robots(&mut self, rng: &mut SimRng, max_tries: u8, origin: &Origin, urls: &[Url]) -> ModelRobots {
        let failing = self.make_failing(rng, max_tries, &origin.host);
        let behaviour = match rng.below(10) {
            0..3 => RobotsBehaviour::Missing,
            3 => {
                let target = rng.below(urls.len());
                let target_origin = urls.get(target).map_or_else(|| origin.clone(), Url::origin);
                RobotsBehaviour::Hops(url(&format!("{target_origin}/hops/{}", rng.below(8))))
            }
            _ => {
                let listed = (0..rng.below(4)).filter_map(|_| urls.get(rng.below(urls.len())).cloned()).collect();
                RobotsBehaviour::Rules {
                    forbids: rng.chance(60),
                    crawl_delay: rng.chance(15).then(|| rng.between(1, 3)),
                    sitemap: if rng.chance(40) { listed } else { Vec::new() },
                }
            }
        };
        ModelRobots { failing, behaviour }
    }

    fn make_page(&mut self, rng: &mut SimRng, max_tries: u8, page_url: &Url, urls: &[Url]) -> ModelPageScript {
        let failing = self.make_failing(rng, max_tries, page_url.host());
        let target = |rng: &mut SimRng| urls.get(rng.below(urls.len())).map_or("/", Url::as_str).to_owned();
        let behaviour = match rng.below(20) {
            0 => PageBehaviour::Status(404),
            1 => PageBehaviour::Status(418),
            2..4 => PageBehaviour::Redirect(target(rng)),
            4 if rng.chance(30) => PageBehaviour::Redirect("mailto:a@b".into()),
            _ => {
                let mut links = LinkList::default();
                for _ in 0..rng.below(6) {
                    links.push(&target(rng), LinkKind::Anchor, rng.chance(5));
                }
                PageBehaviour::Links(links)
            }
        };
        ModelPageScript { failing, behaviour, bytes: rng.between(200, 5_000) }
    }

    pub fn roots(&self) -> Vec<String> {
        self.roots.iter().map(ToString::to_string).collect()
    }

    /// The value of `--exclude`.
    pub fn exclude() -> Vec<String> {
        vec![EXCLUDED_PATH.into()]
    }

    /// The expected record of every page that a correct crawl finds.
    pub fn oracle(&self, rules: &Rules) -> HashMap<Url, ExpectedResult> {
        let mut expected = HashMap::new();
        let mut known: HashSet<Url> = self.roots.iter().cloned().collect();
        let mut queue: VecDeque<Url> = self.roots.iter().cloned().collect();
        let mut origins = HashSet::new();
        while let Some(page_url) = queue.pop_front() {
            let mut found = Vec::new();
            if origins.insert(page_url.origin()) && rules.robots == RobotsPolicy::Obey {
                found.extend(self.sitemap_pages(&page_url.origin()));
            }
            let (result, links) = self.expected_result(&page_url, rules);
            expected.insert(page_url.clone(), result);
            found.extend(links);
            for link in found {
                // The crawl has no limit on depth, so any depth of a link will do.
                let depth = 1;
                let verdict = rules.scope.judge(link.as_ref(), depth, LinkKind::Anchor);
                if verdict == ScopeVerdict::Follow && known.insert(link.clone()) {
                    queue.push_back(link);
                }
            }
        }
        expected
    }

    /// The expected result of a URL, and the links on its page.
    fn expected_result(&self, page_url: &Url, rules: &Rules) -> (ExpectedResult, Vec<Url>) {
        let not_requested = |outcome, error| (ExpectedResult { outcome, error, is_requested: false }, Vec::new());
        if let Some((outcome, kind)) = self.out_of_reach(page_url) {
            return not_requested(outcome, Some(kind));
        }
        if rules.robots == RobotsPolicy::Obey {
            match self.robots_result(&page_url.origin()) {
                Err((outcome, kind)) => return not_requested(outcome, Some(kind)),
                Ok(RobotsBehaviour::Rules { forbids: true, .. }) if page_url.path().starts_with("/no") => {
                    return not_requested(Outcome::Robots, None);
                }
                Ok(_) => {}
            }
        }
        let requested = |outcome, error| ExpectedResult { outcome, error, is_requested: true };
        if let Some(kind) = self.hosts.get(page_url.host()).and_then(|host| host.dead) {
            return (requested(Outcome::Failed, Some(kind)), Vec::new());
        }
        let Some(page) = self.pages.get(page_url) else {
            return (requested(Outcome::HttpError, None), Vec::new());
        };
        match (page.failing, &page.behaviour) {
            (Failing { times: FOREVER, kind: FailedAttempt::NoResponse(kind) }, _) => {
                (requested(Outcome::Failed, Some(kind)), Vec::new())
            }
            (Failing { times: FOREVER, .. }, _) => (requested(Outcome::HttpError, None), Vec::new()),
            (_, PageBehaviour::Status(_)) => (requested(Outcome::HttpError, None), Vec::new()),
            (_, PageBehaviour::Redirect(to)) => match Url::parse(to) {
                Ok(to) => (requested(Outcome::Redirect, None), vec![to]),
                Err(_) => (requested(Outcome::Redirect, Some(ErrorKind::RedirectBlocked)), Vec::new()),
            },
            (_, PageBehaviour::Links(links)) => {
                let found = links.iter().filter(|link| !link.nofollow).map(|link| link.url.to_url()).collect();
                (requested(Outcome::Ok, None), found)
            }
        }
    }

    /// The reason why no request can reach this URL, if there is one.
    fn out_of_reach(&self, page_url: &Url) -> Option<(Outcome, ErrorKind)> {
        if page_url.port() == 25 {
            return Some((Outcome::Refused, ErrorKind::BlockedPort));
        }
        let Some(host) = self.hosts.get(page_url.host()) else {
            return Some((Outcome::Failed, ErrorKind::DnsNxdomain));
        };
        if host.dns.times == FOREVER {
            return Some((Outcome::Failed, host.dns.kind));
        }
        let is_private = host.addresses.iter().any(|ip| *ip != public(*ip));
        is_private.then_some((Outcome::Refused, ErrorKind::PrivateAddress))
    }

    /// The result of fetching the robots.txt of an origin. `Err` is the outcome of all its pages.
    fn robots_result(&self, origin: &Origin) -> Result<RobotsBehaviour, (Outcome, ErrorKind)> {
        let unreachable = (Outcome::Robots, ErrorKind::RobotsUnreachable);
        if let Some(kind) = self.hosts.get(&*origin.host).and_then(|host| host.dead) {
            return Err((Outcome::Failed, kind));
        }
        let Some(robots) = self.robots.get(origin) else {
            return Ok(RobotsBehaviour::Missing);
        };
        match robots.failing {
            Failing { times: FOREVER, kind: FailedAttempt::NoResponse(kind) } => return Err((Outcome::Failed, kind)),
            // After the last try, a robots.txt with status 408 counts as missing, like most of 4xx.
            Failing { times: FOREVER, kind: FailedAttempt::Status(408, _) } => return Ok(RobotsBehaviour::Missing),
            Failing { times: FOREVER, .. } => return Err(unreachable),
            _ => {}
        }
        let RobotsBehaviour::Hops(to) = &robots.behaviour else {
            return Ok(robots.behaviour.clone());
        };
        match self.out_of_reach(to) {
            Some((Outcome::Refused, _)) => return Err(unreachable),
            Some(result) => return Err(result),
            None => {}
        }
        if let Some(kind) = self.hosts.get(to.host()).and_then(|host| host.dead) {
            return Err((Outcome::Failed, kind));
        }
        // Five redirects are allowed. The first leads to /hops/n, from where n more follow.
        if hops_left(to) > 4 { Err(unreachable) } else { Ok(hops_end()) }
    }

    /// The pages that the sitemap of an origin lists.
    fn sitemap_pages(&self, origin: &Origin) -> Vec<Url> {
        if self.out_of_reach(&Url::robots_of(origin)).is_some() {
            return Vec::new();
        }
        match self.robots_result(origin) {
            Ok(RobotsBehaviour::Rules { sitemap, .. }) => sitemap,
            _ => Vec::new(),
        }
    }

    /// The reply to the next request for a URL: its content, its Retry-After in seconds, and its size on the wire. Replies
    /// other than pages have fixed sizes.
    fn next_response(&mut self, page_url: &Url) -> (SimResponse, Option<u64>, u64) {
        let count = self.request_counts.entry(page_url.as_str().into()).or_default();
        let earlier_requests = *count;
        *count += 1;
        if let Some(kind) = self.hosts.get(page_url.host()).and_then(|host| host.dead) {
            return (SimResponse::Nothing(kind), None, 0);
        }
        if page_url.path().starts_with("/hops/") {
            return (hop(page_url), None, 300);
        }
        let failure_reply = |failing: Failing<FailedAttempt>| match failing.kind {
            _ if earlier_requests >= failing.times => None,
            FailedAttempt::NoResponse(kind) => Some((SimResponse::Nothing(kind), None, 0)),
            FailedAttempt::Status(status, retry_after) => Some((SimResponse::Status(status), retry_after, 150)),
        };
        let origin = page_url.origin();
        let robots = self.robots.get(&origin);
        if page_url.path() == "/robots.txt" {
            let Some(robots) = robots else {
                return (SimResponse::Status(404), None, 100);
            };
            return failure_reply(robots.failing).unwrap_or_else(|| (robots.behaviour.response(), None, 200));
        }
        if let ("/sitemap.xml", Some(ModelRobots { behaviour: RobotsBehaviour::Rules { sitemap, .. }, .. })) =
            (page_url.path(), robots)
        {
            let entries = sitemap
                .iter()
                .map(|url| SitemapEntry { url: url.clone(), lastmod: None, priority: None, changefreq: None })
                .collect();
            return (SimResponse::Sitemap(Sitemap { entries, ..Sitemap::default() }), None, 400);
        }
        let Some(page) = self.pages.get(page_url) else {
            return (SimResponse::Status(404), None, 100);
        };
        failure_reply(page.failing).unwrap_or_else(|| {
            let response = match &page.behaviour {
                PageBehaviour::Links(links) => SimResponse::Page(links.clone()),
                PageBehaviour::Status(status) => SimResponse::Status(*status),
                PageBehaviour::Redirect(to) => SimResponse::Redirect(to.clone()),
            };
            (response, None, page.bytes)
        })
    }
}

impl SimWeb for WebModel {
    fn resolve(&mut self, host: &str, _now: Time) -> (Duration, ResolveResult) {
        let took = Duration::from_millis(self.rng.between(0, 50));
        let count = self.request_counts.entry(host.into()).or_default();
        *count += 1;
        let resolved = match self.hosts.get(host) {
            None => Err(Failure::new(ErrorKind::DnsNxdomain, "no such name")),
            Some(host) if *count <= host.dns.times => Err(Failure::new(host.dns.kind, "not now")),
            Some(host) => Ok((host.addresses.clone(), host.ttl)),
        };
        (took, resolved)
    }

    fn reply(&mut self, job: &Job, _now: Time) -> SimReply {
        let page_url = &job.link.url;
        let latency = self.hosts.get(page_url.host()).map_or(1, |host| host.latency);
        let after = Duration::from_millis(latency + self.rng.between(0, latency));
        let ip = self.rng.one_of(&job.addresses);
        let (response, retry_after, bytes) = self.next_response(page_url);
        SimReply {
            after,
            ip,
            response,
            retry_after: retry_after.map(Duration::from_secs),
            bytes,
            arrival: Arrival::Whole,
        }
    }
}

impl RobotsBehaviour {
    fn response(&self) -> SimResponse {
        match self {
            Self::Missing => SimResponse::Status(404),
            Self::Hops(to) => SimResponse::Redirect(to.to_string()),
            Self::Rules { forbids, crawl_delay, sitemap } => {
                let mut text = String::from("User-agent: *\n");
                if *forbids {
                    text.push_str("Disallow: /no\n");
                }
                if let Some(delay) = crawl_delay {
                    text.push_str(&format!("Crawl-delay: {delay}\n"));
                }
                if !sitemap.is_empty() {
                    text.push_str("Sitemap: /sitemap.xml\n");
                }
                SimResponse::Robots(text.into_bytes())
            }
        }
    }
}

/// The number of redirects that follow `/hops/n`.
fn hops_left(page_url: &Url) -> u32 {
    page_url.path().rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The robots.txt at the end of a chain of redirects.
fn hops_end() -> RobotsBehaviour {
    RobotsBehaviour::Rules { forbids: true, crawl_delay: None, sitemap: Vec::new() }
}

/// `/hops/3` leads to `/hops/2`, and so on; `/hops/0` is a robots.txt.
fn hop(page_url: &Url) -> SimResponse {
    match hops_left(page_url) {
        0 => hops_end().response(),
        left => SimResponse::Redirect(format!("/hops/{}", left - 1)),
    }
}

/// Maps a private address of the model to a public one, and leaves others unchanged.
fn public(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(v4) if v4.octets()[0] == 10 => IpAddr::V4(Ipv4Addr::new(93, 184, 217, v4.octets()[3])),
        ip => ip,
    }
}

fn url(text: &str) -> Url {
    Url::parse(text).expect("a valid URL")
}
