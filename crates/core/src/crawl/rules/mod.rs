//! The settings: [`Config`] as the user wrote them, [`Rules`] checked and compiled.
//!
//! Invariant: `Rules` exist only if every setting is valid, so no other code needs to check a setting. They are compiled
//! once from everything that decides about a crawl: the settings ([`Config`]), the machine ([`Environment`]) and the
//! program that runs the crawl ([`ProgramSettings`]). All threads share them.
//!
//! The compiler enforces this. Other modules read the fields of [`RuleValues`] through `Deref`, and cannot assign to
//! them, because `Rules` does not implement `DerefMut`. Only this module can construct or change `Rules`. The alternatives
//! need more text or enforce less: some 60 getters, or `Arc<Rules>` with public fields, which `Arc::get_mut` can change.

mod compile;

use std::net::IpAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{Equivalent, HashMap, HashSet};

use xxhash_rust::xxh3::xxh3_64;

use crate::base::budget::Budget;
use crate::base::job::PartAccess;
use crate::base::link::Link;
use crate::base::outcome::Failure;
use crate::base::url::{Origin, StripParams, Url};
use crate::crawl::hooks::{RequestHook, ResponseHook, RetryHook};
use crate::crawl::lease::Lease;
use crate::crawl::marks::{MarkStore, Marks};
use crate::http::conn::{Limits, TlsSource};
use crate::http::cookies::CookieJar;
use crate::http::proxy::Proxies;
use crate::page::examine::ExamineLimits;
use crate::page::follow::{FollowRules, LinkFilter};
use crate::page::reader::{BodyRules, DeliveredBodies, PageReader};
use crate::page::scope::Scope;
use crate::render::RenderLimits;

pub use crate::base::value::{
    AssetsScope, BadValue, BareNumber, Bearer, ConfigError, Credentials, DigestAlgorithm, EngineName, Follow,
    HeaderLine, HttpVersion, Interact, Login, Only, Pace, Rate, RenderMode, Resolve, RobotsPolicy, ScopeKind,
    SinceDate, Size, Soft404, Span, TrapPolicy, WarcCompression, With,
};
pub use crate::crawl::settings::Config;
#[cfg(test)]
pub(crate) use compile::MAX_HELD_BODIES;
pub use compile::memory_budget;

/// Limit on the attributes of one tag that are examined.
pub(crate) const MAX_ATTRIBUTES: usize = 1_024;

/// The configuration, compiled once. Its values are read as fields: see [`RuleValues`]. They cannot be assigned to:
///
/// ```compile_fail,E0594
/// # let config = argiope_core::crawl::rules::Config { roots: vec!["example.com".into()], ..Default::default() };
/// let mut rules = config.compile(0).unwrap();
/// rules.max_pages = Some(100);
/// ```
#[derive(Clone, Debug)]
pub struct Rules(RuleValues);

/// The values of [`Rules`]. They are only read. Settings that need no other form are those of [`Config`], to which this
/// type dereferences.
#[derive(Clone, Debug)]
pub struct RuleValues {
    /// The checked settings, without secrets and roots.
    pub(crate) settings: Config,

    // Where
    pub roots: Vec<Root>,
    /// Hashes of the https candidates of roots without a scheme. A set, because there may be very many roots.
    pub guesses: HashSet<u64>,

    // Scope
    pub scope_kind: ScopeKind,
    pub scope: Scope,
    /// Decides about links that are in scope.
    pub link_filter: Option<Arc<dyn LinkFilter>>,
    /// Called before a request is sent.
    pub request_hook: Option<Arc<dyn RequestHook>>,
    /// Is asked after every attempt at a page whether to try again.
    pub retry_hook: Option<Arc<dyn RetryHook>>,
    /// Called with the head of a response.
    pub response_hook: Option<Arc<dyn ResponseHook>>,
    /// Limit on received bytes. No fetch starts once it is reached.
    pub max_bytes: Option<u64>,
    /// Limit on the size of the crawl directory in bytes. The crawl ends before it is exceeded.
    pub max_disk: Option<u64>,
    pub max_time: Option<Duration>,
    pub sitemaps: Sitemaps,
    /// Parameters that are removed from the URLs in pages and sitemaps.
    pub strip_params: StripParams,

    // Pace
    /// Limit on requests in flight to one host name: at least 1, at most `concurrency`.
    pub per_host: usize,
    /// Limit on requests in flight to one IP address; `None` is unlimited.
    pub per_ip: Option<usize>,
    /// Minimum time between the starts of two requests to a host.
    pub delay: Duration,
    /// Limit on pages a second, over all hosts.
    pub rate: Option<f64>,
    /// A longer Crawl-delay is shortened to this.
    pub max_crawl_delay: Duration,

    // Fetch
    /// Limit on the time of a whole fetch.
    pub timeout: Duration,
    /// Limit on the time of the DNS lookup, of connecting and of the TLS handshake, each.
    pub connect_timeout: Duration,
    /// Limit on the time without any received byte.
    pub idle_timeout: Duration,
    /// Least rate of a body in bytes a second, over any window of `idle_timeout`.
    pub min_rate: u64,
    /// Wait after the first failure. It doubles with each further one.
    pub retry_wait: Duration,
    /// Limit on the bytes of a decoded body.
    pub max_size: u64,
    /// Limit on the bytes of a response head.
    pub max_head: usize,
    pub user_agent: Box<str>,
    /// The product token of the user agent, which robots.txt rules refer to.
    pub agent_token: Arc<str>,
    /// The agents for single hosts.
    pub host_agents: HashMap<Box<str>, HostAgent>,
    /// Headers for the origins of the roots only: see [`Rules::headers_for`].
    headers: Vec<HeaderLine>,
    /// The origins of the roots. Empty if there are neither headers nor a client certificate.
    root_origins: HashSet<Origin>,
    /// `Authorization` headers for single origins.
    auth: HashMap<Origin, HeaderLine>,
    /// The cookies that the crawl starts with; `None` if cookies are disabled.
    pub cookies: Option<CookieJar>,
    /// The proxies for requests.
    pub proxies: Proxies,
    /// Whether the engine can run several jobs on one connection.
    pub can_multiplex: bool,

    // Trust
    /// Hosts and ports that the user named, and that may therefore be on a private network.
    named_hosts: HashSet<(Box<str>, u16)>,
    /// Whether roots may not be on a private network either.
    pub refuses_private_roots: bool,

    // Keep
    /// Whether records include the response headers.
    pub with_headers: bool,
    /// Whether records include the links of the page.
    pub with_links: bool,
    /// Whether the texts of links are kept.
    pub with_anchors: bool,
    /// Whether requests of rendered pages have records.
    pub with_requests: bool,
    /// How pages are rendered; `None` if they are not.
    pub render: Option<RenderRules>,
    /// Whether pages are requested with HEAD first, and with GET only if HEAD fails. For link checks, which need only the
    /// status.
    pub head_first: bool,
    /// A host that asks for a longer wait is given up on. For link checks, which must end.
    pub longest_wait: Option<Duration>,
    /// Whether visits contain the exact bytes of request and response.
    pub keep_wire: bool,
    /// Whether visits of rendered pages also contain the page without its scripts.
    pub keep_static_pages: bool,
    /// Which bodies are held, and which reader they are passed to.
    pub bodies: BodyRules,
    /// How bodies are digested. A crawl with a directory uses the algorithm of the directory.
    pub digest: DigestAlgorithm,
    /// Whether responses are archived.
    pub archive: bool,
    /// How archives are compressed.
    pub archive_compression: WarcCompression,
    /// No record is added to an archive file of this size or more.
    pub archive_size: u64,
    /// Whether the archive is stored as the segments of a fleet. The store writes the `warcinfo` record of each segment,
    /// and identical payloads are not deduplicated.
    pub archive_segments: bool,
    /// Limit on the memory of the process in bytes.
    pub max_memory: Option<u64>,
    /// How long an interrupted crawl waits for requests in flight.
    pub drain_time: Duration,
    /// Whether visits list skipped links even without records for them.
    pub report_skips: bool,

    /// Limits of a connection on sizes and times.
    pub limits: Arc<Limits>,
    /// The certificates that TLS trusts.
    pub tls: TlsSource,
    /// Whether `tls` has a client certificate.
    pub has_identity: bool,
    /// The memory budget.
    pub budget: Arc<Budget>,
    /// The right to start requests.
    pub lease: Lease,
    /// Which responses are being processed. Set by a crawl with a crawl directory.
    pub marks: Marks,

    /// The secret random key for fingerprints and for the identifiers of archive records. A crawl with a directory or
    /// in a fleet uses the key that is stored there.
    pub fingerprint_key: u64,
}

/// How pages are rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderRules {
    /// Whether all pages are rendered, or those of templates that gain from it.
    pub is_auto: bool,
    /// The program of the browser; `None` to look for one.
    pub browser: Option<PathBuf>,
    /// Whether the browser runs without a sandbox of its own.
    pub has_no_sandbox: bool,
    /// Limit on the data of each process of the browser, in bytes.
    pub memory: u64,
    /// How many pages are rendered at once; `None` for one per core.
    pub tabs: Option<usize>,
    /// The limits of each page.
    pub limits: RenderLimits,
}

/// The agent for one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAgent {
    pub user_agent: Box<str>,
    pub token: Arc<str>,
}

/// What the caller reads from files and the environment for [`Config::compile_in`]. The core itself reads neither.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// A random number that cannot be predicted: see [`RuleValues::fingerprint_key`].
    pub fingerprint_key: u64,
    /// Certificates to trust, and the client certificate.
    pub tls: TlsSource,
    /// Whether `tls` has a client certificate that the settings do not name.
    pub has_identity: bool,
    /// The cookies that the crawl starts with, unless cookies are disabled.
    pub cookies: CookieJar,
    /// Proxies with their addresses resolved; `None` to use the `proxy` setting.
    pub proxies: Option<Proxies>,
    /// The memory limit if the settings have none.
    pub max_memory: Option<u64>,
    /// The account that the crawl shares with others.
    pub shared_budget: Option<Arc<Budget>>,
    /// Reads the pages, if the settings require content of pages.
    pub reader: Option<Arc<dyn PageReader>>,
}

/// What the program that runs the crawl decides, for [`Config::compile_in`]. The user has no settings for it.
#[derive(Clone, Debug, Default)]
pub struct ProgramSettings {
    /// The roots to crawl in place of those of the settings; `None` for those of the settings. The roots of the settings
    /// still determine the scope, and which hosts get headers and may be on a private network.
    pub roots: Option<Vec<Root>>,
    /// The roots that the user of this process has named, if others have chosen those of the settings. Only these get
    /// headers, logins and client certificates, and only these may be on a private network.
    pub named_roots: Option<Vec<Root>>,
    /// Whether roots may not be on a private network either, because strangers name them.
    pub refuse_private_roots: bool,
    /// See [`RuleValues::link_filter`].
    pub link_filter: Option<Arc<dyn LinkFilter>>,
    /// See [`RuleValues::request_hook`].
    pub request_hook: Option<Arc<dyn RequestHook>>,
    /// See [`RuleValues::retry_hook`].
    pub retry_hook: Option<Arc<dyn RetryHook>>,
    /// Values of `User-Agent` for single hosts. Their product names are looked up in the robots.txt of these hosts.
    pub host_agents: Vec<(String, String)>,
    /// See [`RuleValues::response_hook`].
    pub response_hook: Option<Arc<dyn ResponseHook>>,
    /// Bodies that are delivered with visits.
    pub delivered_bodies: DeliveredBodies,
    /// See [`RuleValues::head_first`].
    pub head_first: bool,
    /// See [`RuleValues::longest_wait`].
    pub longest_wait: Option<Duration>,
    /// See [`RuleValues::keep_wire`].
    pub keep_wire: bool,
    /// See [`RuleValues::keep_static_pages`].
    pub keep_static_pages: bool,
    /// See [`RuleValues::report_skips`].
    pub report_skips: bool,
    /// See [`RuleValues::archive_segments`].
    pub archive_segments: bool,
    /// The right to start requests. The default never expires.
    pub lease: Lease,
}

impl Deref for Rules {
    type Target = RuleValues;

    #[inline]
    fn deref(&self) -> &RuleValues {
        &self.0
    }
}

impl Deref for RuleValues {
    type Target = Config;

    #[inline]
    fn deref(&self) -> &Config {
        &self.settings
    }
}

/// A URL to start from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The URLs that it can mean, preferred first: one, or https and http if it has no scheme.
    pub candidates: Vec<Url>,
    /// The requests to send to it; empty for one plain GET.
    pub requests: Vec<Link>,
}

/// Which sitemaps are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sitemaps {
    None,
    /// Sitemaps that robots.txt names.
    Named,
    /// Sitemaps that robots.txt names, and `/sitemap.xml`.
    NamedAndDefault,
}

impl Rules {
    /// Whether this is the https candidate of a root without a scheme. The user did not write that URL.
    pub fn is_guess(&self, url: &str) -> bool {
        !self.guesses.is_empty() && self.guesses.contains(&xxh3_64(url.as_bytes()))
    }

    /// Whether a root without a scheme, whose https URL failed like this, is tried over http. If a proxy makes the
    /// connections, a failure to connect says nothing about the host.
    pub fn allows_plain_http(&self, url: &Url, failure: &Failure) -> bool {
        let has_reached_host = failure.tls.is_some() || self.proxies.of(url.as_ref()).is_none();
        has_reached_host && failure.allows_plain_http()
    }

    /// The user's headers for this URL. They may contain secrets, so they are sent only to the origins of the roots. An
    /// `Authorization` header for a single origin replaces the general one.
    pub fn headers_for(&self, url: &Url) -> Vec<(&str, &str)> {
        if self.headers.is_empty() && self.auth.is_empty() {
            return Vec::new();
        }
        let origin = url.origin();
        let own_auth = self.auth.get(&origin);
        let general = if self.root_origins.contains(&origin) { self.headers.as_slice() } else { &[] };
        let is_kept = |line: &&HeaderLine| own_auth.is_none() || !line.name.eq_ignore_ascii_case("authorization");
        general.iter().filter(is_kept).chain(own_auth).map(|line| (&*line.name, &*line.value)).collect()
    }

    /// The value of `User-Agent` for this host.
    pub fn user_agent_for(&self, host: &str) -> &str {
        self.host_agents.get(host).map_or(&self.user_agent, |agent| &agent.user_agent)
    }

    /// The product name that is looked up in the robots.txt of this host, and in the directives of its pages.
    pub fn agent_token_for(&self, host: &str) -> &Arc<str> {
        self.host_agents.get(host).map_or(&self.agent_token, |agent| &agent.token)
    }

    /// The limits on the links of a page of this host. With `anchors`, the texts of links are kept.
    pub fn examine_limits(&self, host: &str, anchors: bool) -> ExamineLimits {
        ExamineLimits {
            max_links: self.max_links,
            max_url: self.max_url,
            max_attrs: MAX_ATTRIBUTES,
            agent: Arc::clone(self.agent_token_for(host)),
            assets: self.assets,
            anchors,
            digest: self.digest,
        }
    }

    /// What decides about the links of a page.
    pub fn follow_rules(&self) -> FollowRules<'_> {
        FollowRules {
            scope: &self.scope,
            link_filter: self.link_filter.as_deref(),
            strip_params: &self.strip_params,
            follow_nofollow: self.follow_nofollow,
            list_skipped: self.log_skips || self.report_skips,
            max_redirects: self.max_redirects,
            max_url: self.max_url,
            fingerprint_key: self.fingerprint_key,
        }
    }

    /// Whether the client certificate is sent to this origin. It is sent only to the origins of the roots.
    pub fn sends_client_certificate_to(&self, url: &Url) -> bool {
        self.root_origins.contains(&url.origin())
    }

    /// Whether there is a client certificate, and it is sent to this origin.
    pub fn presents_client_certificate_to(&self, url: &Url) -> bool {
        self.has_identity && url.is_https() && self.sends_client_certificate_to(url)
    }

    /// The addresses that `--resolve` gives for this host and port. As in curl, they do not apply to other ports of the
    /// host.
    pub fn given_addresses(&self, host: &str, port: u16) -> Option<&[IpAddr]> {
        let host = host.trim_end_matches('.');
        let mut entries = self.resolve.iter().filter(|entry| entry.port == port);
        let found = entries.find(|entry| entry.host.trim_end_matches('.').eq_ignore_ascii_case(host));
        found.map(|entry| &*entry.addresses)
    }

    /// These rules with the digest of a crawl directory.
    #[must_use]
    pub fn with_digest(mut self, digest: DigestAlgorithm) -> Self {
        self.0.digest = digest;
        self
    }

    /// These rules with the fingerprint key of a crawl directory or fleet, which is known only once that is open. The
    /// frontier then uses the fingerprints that the workers compute.
    #[must_use]
    pub fn with_fingerprint_key(mut self, fingerprint_key: u64) -> Self {
        self.0.fingerprint_key = fingerprint_key;
        self
    }

    /// These rules with the marks of a crawl directory.
    #[must_use]
    pub fn with_marks(mut self, store: Arc<dyn MarkStore>) -> Self {
        self.0.marks = Marks(Some(store));
        self
    }

    /// Changes the pace while the crawl is running, and the limits per host and address that follow from it. If the rules
    /// are shared, this replaces the caller's `Arc`, and the other owners keep the rules without the change.
    pub(crate) fn steer_pace(self: &mut Arc<Self>, pace: Pace) {
        let values = &mut Arc::make_mut(self).0;
        values.settings.pace = pace;
        (values.per_host, values.per_ip) = compile::widths(&values.settings);
    }

    /// These rules with changes that only tests make.
    #[cfg(test)]
    pub(crate) fn edited(mut self, edit: impl FnOnce(&mut RuleValues)) -> Self {
        edit(&mut self.0);
        self
    }

    /// Whether a request to this host and port may go to a private network. That the user named the host is no
    /// permission for the pages of other origins.
    pub fn allows_private(&self, host: &str, port: u16, access: PartAccess) -> bool {
        let is_named = || self.named_hosts.contains(&HostPort(host, port));
        self.allow_private || (access == PartAccess::SameOrigin && is_named())
    }
}

/// A borrowed host and port, to look up an owned one.
#[derive(Hash)]
struct HostPort<'a>(&'a str, u16);

impl Equivalent<(Box<str>, u16)> for HostPort<'_> {
    fn equivalent(&self, (host, port): &(Box<str>, u16)) -> bool {
        *self.0 == **host && self.1 == *port
    }
}

#[cfg(test)]
mod tests;
