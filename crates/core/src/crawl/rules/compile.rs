//! Compiles [`Config`] to [`Rules`], and checks the settings. Settings that name files, such as certificates and cookies,
//! are checked where the files are read.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use xxhash_rust::xxh3::xxh3_64;

use super::{
    Config, ConfigError, Environment, HostAgent, HostPort, ProgramSettings, RenderRules, Root, RuleValues, Rules,
    Sitemaps,
};
use crate::base::budget::Budget;
use crate::base::url::{self, BadUrl, Origin, StripParams, Url, without_user_info};
use crate::base::value::{
    DigestAlgorithm, EngineName, HeaderLine, Pace, RenderMode, ScopeKind, Size, Span, TrapPolicy,
};
use crate::crawl::marks::Marks;
use crate::crawl::settings::{Setting, SettingClass, Settings as _};
use crate::http::conn::Limits;
use crate::http::proxy::Proxies;
use crate::page::follow::LinkFilter;
use crate::page::prefer::PreferringFilter;
use crate::page::reader::BodyRules;
use crate::page::robots::product_token;
use crate::page::scope::{Scope, pattern_fault};
use crate::render::RenderLimits;

/// The default of `--per-host` with pace `steady`.
const DEFAULT_PER_HOST: usize = 6;
/// Limit on the bodies in memory, in bytes, unless `--max-memory` allows less.
pub(crate) const MAX_HELD_BODIES: u64 = 256 << 20;
/// The limit of the memory budget without `--max-memory`.
const UNLIMITED_BUDGET: u64 = 1 << 40;

/// Memory of the process that does not grow: code, stacks, buffers of fixed size.
const FIXED_MEMORY: u64 = 12 << 20;

/// The default of `--per-ip`.
const DEFAULT_PER_IP: usize = 12;
/// No record is added to an archive file of this size or more.
const MAX_ARCHIVE_FILE: u64 = 1 << 30;
/// The largest `--concurrency`. Sums of such numbers do not overflow, and a machine has fewer ports than this.
const MAX_CONCURRENCY: usize = 2_000_000;
/// The largest `--per-host`: slots have 16-bit numbers.
const MAX_PER_HOST: usize = u16::MAX as usize;
/// The least value of `--max-head`. Legitimate response heads can be this large.
const MIN_HEAD: u64 = 512;
/// The least value of `--max-url`. A shorter limit would reject nearly all URLs.
const MIN_URL: usize = 16;
/// The least value of `--max-memory`. The state of a single host needs this much memory.
const MIN_MEMORY: u64 = 32 << 10;

/// The memory budget. An eighth of the limit, and at least `FIXED_MEMORY`, is left to the allocator and to memory that
/// does not grow. But the budget is at least half of the limit.
pub fn memory_budget(max_memory: Option<u64>) -> Arc<Budget> {
    let usable = |limit: u64| (limit / 8 * 7).min(limit.saturating_sub(FIXED_MEMORY)).max(limit / 2);
    let limit = max_memory.map_or(UNLIMITED_BUDGET, usable);
    Budget::with_response_limit(limit, MAX_HELD_BODIES.min(limit))
}

fn check_plain_text(key: &'static str, text: &str) -> Result<(), ConfigError> {
    if text.trim().is_empty() || text.chars().any(|c| !c.is_ascii() || c.is_ascii_control()) {
        let problem = "write plain ASCII text, such as mybot/1.0 or mailto:me@example.com";
        return Err(ConfigError::new(key, text, problem));
    }
    Ok(())
}

fn check_product_token(agent: &str) -> Result<(), ConfigError> {
    if product_token(agent).is_empty() {
        let problem = "a robots.txt could not name it; begin with a product name, such as mybot/1.0";
        return Err(ConfigError::new("user-agent", agent, problem));
    }
    Ok(())
}

/// The agents for single hosts, which are names as in a URL.
fn compile_host_agents(agents: Vec<(String, String)>) -> Result<HashMap<Box<str>, HostAgent>, ConfigError> {
    let compile = |(host, agent): (String, String)| {
        let url =
            Url::parse(&format!("http://{host}/")).ok().filter(|url| url.as_str() == format!("http://{}/", url.host()));
        let url = url.ok_or_else(|| ConfigError::new("user-agent", &host, "write a host name, such as example.com"))?;
        check_plain_text("user-agent", &agent)?;
        check_product_token(&agent)?;
        let token = product_token(&agent).into();
        Ok((url.host().into(), HostAgent { user_agent: agent.into(), token }))
    };
    agents.into_iter().map(compile).collect()
}

impl Config {
    /// Checks and compiles every setting, without input from files, environment variables and the program.
    pub fn compile(&self, fingerprint_key: u64) -> Result<Rules, ConfigError> {
        let environment = Environment { fingerprint_key, ..Environment::default() };
        self.compile_in(environment, ProgramSettings::default())
    }

    /// Checks and compiles every setting.
    pub fn compile_in(&self, environment: Environment, program: ProgramSettings) -> Result<Rules, ConfigError> {
        self.check_paths()?;
        let scope_kind = self.scope;
        let (per_host, per_ip) = self.widths()?;
        self.check_limits()?;
        for (key, patterns) in [("include", &self.include), ("exclude", &self.exclude), ("prefer", &self.prefer)] {
            for pattern in patterns {
                check_pattern(key, pattern)?;
            }
        }

        let roots = self.compile_roots()?;
        let scope = self.compile_scope(&roots, scope_kind)?;
        let user_agent = self.compile_user_agent()?;
        let agent_token = product_token(&user_agent).into();
        let mut headers = self.header.clone();
        headers.extend(self.user.as_ref().map(|user| HeaderLine::authorization(user.basic())));
        // There may be very many roots, so their origins are stored only if they are needed.
        let has_identity = environment.has_identity || self.cert.is_some();
        let has_secrets = !headers.is_empty() || has_identity;
        // Only the preferred URL of a root counts: a password for https must not be sent over the http fallback.
        let named_roots = program.named_roots.as_deref().unwrap_or(&roots);
        let preferred = named_roots.iter().filter_map(|root| root.candidates.first()).filter(|_| has_secrets);
        let root_origins = preferred.map(Url::origin).collect();
        let private_roots = if program.refuse_private_roots { &[] } else { named_roots };
        let root_hosts = private_roots.iter().flat_map(|root| &root.candidates).map(|url| (url.host(), url.port()));
        let resolve_hosts = self.resolve.iter().map(|resolve| (&*resolve.host, resolve.port));
        let mut named_hosts = HashSet::new();
        // With `allow_private` the set is not needed.
        for (host, port) in root_hosts.chain(resolve_hosts).filter(|_| !self.allow_private) {
            named_hosts.get_or_insert_with(&HostPort(host, port), |_| (host.into(), port));
        }

        let roots = program.roots.unwrap_or(roots);
        let budget = memory_budget(self.max_memory.map(|size| size.0).or(environment.max_memory));
        let budget = match environment.shared_budget {
            Some(shared) => budget.within(shared),
            None => budget,
        };
        Ok(Rules(RuleValues {
            settings: self.without_secrets(),
            guesses: guesses(&roots),
            roots,
            scope_kind,
            scope,
            max_bytes: self.max_bytes.map(|size| size.0),
            max_disk: self.max_disk.map(|size| size.0),
            max_time: self.max_time.map(|span| span.0),
            sitemaps: self.sitemaps()?,
            strip_params: self.strip_params()?,
            per_host,
            per_ip,
            delay: self.delay.0,
            rate: self.rate.map(|rate| rate.per_second),
            max_crawl_delay: self.max_crawl_delay.0,
            timeout: self.timeout.0,
            connect_timeout: self.connect_timeout.0,
            idle_timeout: self.idle_timeout.0,
            min_rate: self.min_rate.0,
            retry_wait: self.retry_wait.0,
            max_size: self.max_size.0,
            max_head: usize::try_from(self.max_head.0).unwrap_or(usize::MAX),
            user_agent,
            agent_token,
            host_agents: compile_host_agents(program.host_agents)?,
            headers,
            root_origins,
            cookies: (!self.no_cookies).then_some(environment.cookies),
            auth: self.compile_auth()?,
            can_multiplex: self.engine != EngineName::Threads,
            proxies: match environment.proxies {
                Some(proxies) => proxies,
                // Without environment variables.
                None => Proxies::new(self.proxy.as_deref(), |_| None)?,
            },
            named_hosts,
            refuses_private_roots: program.refuse_private_roots,
            with_headers: self.with.contains(&super::With::Headers),
            with_links: self.with.contains(&super::With::Links),
            with_anchors: self.with.contains(&super::With::Anchors),
            with_requests: self.with.contains(&super::With::Requests),
            render: self.compile_render(&budget),
            head_first: program.head_first,
            longest_wait: program.longest_wait,
            keep_wire: program.keep_wire,
            keep_static_pages: program.keep_static_pages,
            link_filter: preferring(&self.prefer, program.link_filter)?,
            request_hook: program.request_hook,
            retry_hook: program.retry_hook,
            response_hook: program.response_hook,
            bodies: BodyRules {
                delivered: program.delivered_bodies,
                rendered: self.render != RenderMode::Never,
                picked: !self.pick.is_empty() || !self.next.is_empty(),
                reader: environment.reader,
            },
            digest: self.digest.unwrap_or(if self.warc { DigestAlgorithm::Sha256 } else { DigestAlgorithm::Xxh3 }),
            archive: self.warc,
            archive_compression: self.warc_compression,
            archive_size: MAX_ARCHIVE_FILE,
            archive_segments: program.archive_segments,
            max_memory: self.max_memory.map(|size| size.0).or(environment.max_memory),
            drain_time: self.drain_time.0,
            report_skips: program.report_skips,
            limits: self.compile_limits(),
            tls: environment.tls,
            has_identity,
            budget,
            lease: program.lease,
            marks: Marks::default(),
            fingerprint_key: environment.fingerprint_key,
        }))
    }

    fn compile_render(&self, budget: &Budget) -> Option<RenderRules> {
        (self.render != RenderMode::Never).then(|| RenderRules {
            is_auto: self.render == RenderMode::Auto,
            browser: self.browser.clone(),
            has_no_sandbox: self.browser_no_sandbox,
            memory: self.render_memory.0,
            tabs: self.render_tabs,
            limits: RenderLimits {
                virtual_time: self.render_time.0,
                busy_time: self.render_timeout.0,
                requests: self.render_requests,
                interact: self.interact,
                with_images: self.assets || self.screenshot,
                screenshot: self.screenshot && self.warc,
                document: usize::try_from(self.max_size.0.min(budget.max_held_body())).unwrap_or(usize::MAX),
            },
        })
    }

    fn compile_limits(&self) -> Arc<Limits> {
        Arc::new(Limits {
            max_head: usize::try_from(self.max_head.0).unwrap_or(usize::MAX),
            max_body: self.max_size.0,
            max_wire: self.max_size.0,
            idle: self.idle_timeout.0,
            connect: self.connect_timeout.0,
            total: self.timeout.0,
            min_rate: u32::try_from(self.min_rate.0).unwrap_or(u32::MAX),
            ..Limits::default()
        })
    }

    fn compile_scope(&self, roots: &[Root], scope_kind: ScopeKind) -> Result<Scope, ConfigError> {
        let urls: Vec<Url> = roots.iter().flat_map(|root| root.candidates.iter().cloned()).collect();
        Scope::new(&urls, scope_kind, &self.include, &self.exclude, self.depth, self.max_url)
            .map(|scope| {
                scope
                    .with_assets(self.assets.then_some(self.assets_scope), &urls)
                    .with_only_sitemaps(self.only == Some(super::Only::Sitemap))
                    .with_data(self.follow.contains(&super::Follow::Data))
                    .avoiding_traps(self.traps == TrapPolicy::Avoid)
            })
            .map_err(|bad| ConfigError::new("include or exclude", bad.pattern, bad.reason))
    }

    fn sitemaps(&self) -> Result<Sitemaps, ConfigError> {
        match (self.sitemap || self.only == Some(super::Only::Sitemap), self.no_sitemap) {
            (true, true) => Err(ConfigError::new("sitemap", true, "contradicts no-sitemap; give one of them")),
            (true, false) => Ok(Sitemaps::NamedAndDefault),
            (false, true) => Ok(Sitemaps::None),
            (false, false) => Ok(Sitemaps::Named),
        }
    }

    /// The settings without secrets, and without the roots, of which there may be very many.
    fn without_secrets(&self) -> Self {
        let mut kept = Self::default();
        let is_kept = |setting: &&Setting| setting.class != SettingClass::Secret && setting.name != "roots";
        Self::TABLE.iter().filter(is_kept).for_each(|setting| kept.copy(setting.name, self));
        kept
    }

    /// Limits on requests in flight: per host, and per address.
    fn widths(&self) -> Result<(usize, Option<usize>), ConfigError> {
        if !(1..=MAX_CONCURRENCY).contains(&self.concurrency) {
            let problem = format!("write a whole number from 1 to {MAX_CONCURRENCY}");
            return Err(ConfigError::new("concurrency", self.concurrency, problem));
        }
        if self.per_host == Some(0) {
            return Err(ConfigError::new("per-host", 0, "write a whole number from 1 on"));
        }
        Ok(widths(self))
    }

    fn check_limits(&self) -> Result<(), ConfigError> {
        let spans = [
            ("timeout", self.timeout),
            ("connect-timeout", self.connect_timeout),
            ("idle-timeout", self.idle_timeout),
            // If it is not set, any valid value will do.
            ("max-time", self.max_time.unwrap_or(Span::from_secs(1))),
        ];
        for (key, span) in spans {
            if span.0.is_zero() {
                return Err(ConfigError::new(
                    key,
                    span,
                    "zero is not allowed; write a duration such as 500ms, 30s or 5m",
                ));
            }
        }
        for (key, size, least) in [("max-size", self.max_size, 1), ("max-head", self.max_head, MIN_HEAD)] {
            if size.0 < least {
                let problem = format!("write a size from {} on, such as 64K or 10M", Size(least));
                return Err(ConfigError::new(key, size, problem));
            }
        }
        if self.max_tries == 0 {
            return Err(ConfigError::new("max-tries", 0, "write a whole number from 1 on (1 means no second try)"));
        }
        let counts = [
            ("max-pages", self.max_pages),
            ("max-pages-per-host", self.max_pages_per_host),
            ("trap-budget", Some(self.trap_budget.into())),
        ];
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| *count == Some(0)) {
            return Err(ConfigError::new(key, 0, "write a whole number from 1 on"));
        }
        if let Some(size) = self.max_memory.filter(|size| size.0 < MIN_MEMORY) {
            let problem = format!("too little for any crawl; write a size from {} on, such as 1G", Size(MIN_MEMORY));
            return Err(ConfigError::new("max-memory", size, problem));
        }
        if self.max_bytes == Some(Size(0)) {
            return Err(ConfigError::new("max-bytes", 0, "write a size such as 500K, 10M or 1G"));
        }
        if !(MIN_URL..=url::MAX_URL_LEN).contains(&self.max_url) {
            return Err(ConfigError::new(
                "max-url",
                self.max_url,
                format!("write a number from {MIN_URL} to {}", url::MAX_URL_LEN),
            ));
        }
        if self.cert.is_some() != self.key.is_some() {
            let (key, path) = if self.cert.is_some() { ("cert", &self.cert) } else { ("key", &self.key) };
            let value = path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
            return Err(ConfigError::new(key, value, "cert and key go together: give both files"));
        }
        Ok(())
    }

    fn strip_params(&self) -> Result<StripParams, ConfigError> {
        for name in &self.strip_param {
            if name.is_empty() || name.contains(['=', '&', '?', '#']) {
                return Err(ConfigError::new(
                    "strip-param",
                    name,
                    "write the name of one parameter, such as utm_source",
                ));
            }
            if name.starts_with('@') && !StripParams::GROUPS.contains(&name.as_str()) {
                let problem = format!("this group is unknown; the groups are {}", StripParams::GROUPS.join(", "));
                return Err(ConfigError::new("strip-param", name, problem));
            }
        }
        Ok(StripParams::new(&self.strip_param))
    }

    /// The `User-Agent` header.
    fn compile_user_agent(&self) -> Result<Box<str>, ConfigError> {
        for (key, text) in [("user-agent", &self.user_agent), ("contact", &self.contact)] {
            let Some(text) = text else { continue };
            check_plain_text(key, text)?;
        }
        self.user_agent.iter().try_for_each(|agent| check_product_token(agent))?;
        Ok(match (&self.user_agent, &self.contact) {
            (Some(agent), None) => agent.as_str().into(),
            (Some(agent), Some(contact)) => format!("{agent} (+{contact})").into(),
            (None, contact) => {
                let contact = contact.as_deref().unwrap_or(env!("CARGO_PKG_REPOSITORY"));
                format!("argiope/{} (+{contact})", env!("CARGO_PKG_VERSION")).into()
            }
        })
    }

    /// The `Authorization` headers for single origins.
    fn compile_auth(&self) -> Result<HashMap<Origin, HeaderLine>, ConfigError> {
        let mut all = HashMap::new();
        for login in &self.auth {
            let bad = |problem: &str| ConfigError::new("auth", &login.origin, problem.to_owned());
            let url = Url::parse(&login.origin).map_err(|_| bad("write an origin such as https://example.com"))?;
            if url.target() != "/" || login.origin.contains('@') {
                return Err(bad("an origin has only a scheme, a host and a port"));
            }
            let value = match (&login.user, &login.bearer) {
                (Some(user), None) => user.basic(),
                (None, Some(bearer)) => bearer.authorization(),
                _ => return Err(bad("give either user = \"NAME:PASSWORD\" or bearer = \"TOKEN\"")),
            };
            if all.insert(url.origin(), HeaderLine::authorization(value)).is_some() {
                return Err(bad("this origin is given twice"));
            }
        }
        Ok(all)
    }

    fn compile_roots(&self) -> Result<Vec<Root>, ConfigError> {
        let roots = Root::parse_all(&self.roots, self.max_url)?;
        if roots.is_empty() {
            return Err(ConfigError::new(
                "roots",
                "",
                "give at least one URL to begin with, such as https://example.com/",
            ));
        }
        Ok(roots)
    }
}

impl Root {
    /// Parses roots. A root whose preferred URL was given before is left out.
    pub fn parse_all(texts: &[String], max_url: usize) -> Result<Vec<Self>, ConfigError> {
        let mut roots: Vec<Self> = Vec::with_capacity(texts.len());
        let mut known = HashSet::new();
        for text in texts {
            let root = Self::parse(text, max_url)?;
            if root.candidates.first().is_some_and(|first| known.insert(first.clone())) {
                roots.push(root);
            }
        }
        Ok(roots)
    }

    /// Parses a root, with or without a scheme: `https://example.com/docs`, `example.com`, `localhost:8080`.
    pub fn parse(text: &str, max_url: usize) -> Result<Self, ConfigError> {
        const FORM: &str = "write an http or https URL such as https://example.com/, or a host name";
        let bad = |problem: &str| ConfigError::new("roots", without_user_info(text), format!("{problem}; {FORM}"));
        let trimmed = text.trim();
        let candidates: Vec<Result<Url, BadUrl>> = if has_scheme(trimmed) {
            vec![Url::parse(trimmed)]
        } else {
            let rest = trimmed.strip_prefix("//").unwrap_or(trimmed);
            if rest.is_empty() || rest.starts_with(['/', '?', '#', '.']) {
                return Err(bad("the host is missing"));
            }
            vec![Url::parse(&format!("https://{rest}")), Url::parse(&format!("http://{rest}"))]
        };
        let candidates = candidates
            .into_iter()
            .collect::<Result<Vec<Url>, BadUrl>>()
            .map_err(|problem| bad(&problem.to_string()))?;
        if candidates.iter().any(|url| url.as_str().len() > max_url) {
            return Err(bad(&format!("longer than max-url ({max_url})")));
        }
        let authority =
            trimmed.split("://").last().unwrap_or(trimmed).split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            // Parsing would drop the password silently, and the crawl would not be logged in.
            let problem = "a name or password inside a URL is not used; give it in the setting user";
            let stripped = candidates.first().map(ToString::to_string).unwrap_or_default();
            return Err(ConfigError::new("roots", stripped, problem));
        }
        Ok(Self { candidates, requests: Vec::new() })
    }
}

/// Whether the text has a scheme. In `example.com:8080` and `localhost:8080/x`, the colon precedes a port.
fn has_scheme(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_name = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let port = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_port = !port.is_empty() && port.chars().all(|c| c.is_ascii_digit());
    is_name && !is_port
}

/// Computes [`RuleValues::guesses`].
fn guesses(roots: &[Root]) -> HashSet<u64> {
    let several = roots.iter().filter(|root| root.candidates.len() > 1);
    several.filter_map(|root| root.candidates.first()).map(|url| xxh3_64(url.as_str().as_bytes())).collect()
}

fn check_pattern(key: &'static str, pattern: &str) -> Result<(), ConfigError> {
    match regex::Regex::new(pattern) {
        Ok(_) => Ok(()),
        Err(regex::Error::CompiledTooBig(_)) => Err(ConfigError::new(key, pattern, "this pattern is too large")),
        Err(error) => {
            let reason = pattern_fault(&error);
            let problem = format!("not a regular expression: {reason}; write one such as '/docs/' or '\\.pdf$'");
            Err(ConfigError::new(key, pattern, problem))
        }
    }
}

/// The limits on requests in flight to one host and to one address.
pub(super) fn widths(settings: &Config) -> (usize, Option<usize>) {
    let Config { pace, concurrency, per_host, per_ip, .. } = *settings;
    let per_host = match pace {
        Pace::Gentle => 1,
        Pace::Steady => per_host.unwrap_or(DEFAULT_PER_HOST),
        Pace::Full => per_host.unwrap_or(concurrency),
    };
    let per_host = per_host.min(concurrency).min(MAX_PER_HOST);
    let per_ip = match per_ip {
        Some(0) => None,
        Some(limit) => Some(limit),
        // The limit of an address is at least that of a host.
        None => Some(DEFAULT_PER_IP.max(per_host)),
    };
    (per_host, per_ip)
}

/// The filter of the program, with the priorities of `prefer`.
fn preferring(
    patterns: &[String],
    program: Option<Arc<dyn LinkFilter>>,
) -> Result<Option<Arc<dyn LinkFilter>>, ConfigError> {
    if patterns.is_empty() {
        return Ok(program);
    }
    let filter = PreferringFilter::new(patterns, program);
    let filter = filter.map_err(|bad| ConfigError::new("prefer", bad.pattern, bad.reason))?;
    Ok(Some(Arc::new(filter)))
}
