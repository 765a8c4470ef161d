//! The settings: [`Config`] as the user wrote them, [`Rules`] checked and compiled.
//!
//! Invariant: `Rules` exist only if every setting is valid, so that no other code checks a setting again. They are
//! compiled once and shared read-only.

mod compile;
mod config;
mod value;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{Equivalent, HashMap, HashSet};

use xxhash_rust::xxh3::xxh3_64;

use crate::budget::Budget;
use crate::http::conn::{Limits, TlsSource};
use crate::http::cookies::CookieJar;
use crate::http::hooks::{RequestHook, ResponseHook};
use crate::http::proxy::Proxies;
use crate::lease::Lease;
use crate::page::follow::LinkFilter;
use crate::page::link::Link;
use crate::page::reader::BodyRules;
use crate::page::scope::Scope;
use crate::page::url::{Origin, StripParams, Url};

#[cfg(test)]
pub(crate) use compile::HELD_BODIES;
pub use config::{Config, ConfigError};
pub use value::{
    AssetsScope, BadValue, Bearer, Credentials, EngineName, HeaderLine, HttpVersion, Login, Pace, Rate, Resolve,
    RobotsPolicy, ScopeKind, Size, Span, TrapPolicy, WarcCompression, With,
};

/// The configuration, compiled once.
#[derive(Clone, Debug)]
pub struct Rules {
    // Where
    pub roots: Vec<Root>,
    /// Fingerprints of the https candidates of roots without a scheme. A set, because there may be very many roots.
    pub guesses: HashSet<u64>,

    // Scope
    pub scope_kind: ScopeKind,
    pub scope: Scope,
    /// Decides about links that are in scope.
    pub link_filter: Option<Arc<dyn LinkFilter>>,
    /// Sees requests before they are sent.
    pub request_hook: Option<Arc<dyn RequestHook>>,
    /// Sees the heads of responses.
    pub response_hook: Option<Arc<dyn ResponseHook>>,
    pub max_pages: Option<u64>,
    /// Limit on received bytes: no fetch starts once it is reached.
    pub max_bytes: Option<u64>,
    /// Limit on the size of the crawl directory: the crawl ends before it is exceeded.
    pub max_disk: Option<u64>,
    pub max_time: Option<Duration>,
    pub sitemaps: Sitemaps,
    pub assets: bool,
    /// Parameters that are removed from the URLs in pages and sitemaps.
    pub strip_params: StripParams,
    pub follow_nofollow: bool,
    /// Whether budgets keep the crawl out of endless sites.
    pub traps: TrapPolicy,
    /// The number that all these budgets are derived from: see [`crate::schedule::trap`].
    pub trap_budget: u32,
    /// Limit on the links to one host that enter the frontier.
    pub max_pages_per_host: Option<u64>,

    // Pace
    pub pace: Pace,
    /// Requests in flight, over all hosts. At least 1.
    pub concurrency: usize,
    /// Connections to one host name: at least 1, at most `concurrency`.
    pub per_host: usize,
    /// Connections to one address; `None` is unlimited.
    pub per_ip: Option<usize>,
    /// `--per-host` and `--per-ip` as the user gave them: the defaults depend on the pace.
    given_widths: (Option<usize>, Option<usize>),
    /// Minimum time between the starts of two requests to a host.
    pub delay: Duration,
    /// Pages a second, over all hosts.
    pub rate: Option<f64>,
    pub max_crawl_delay: Duration,

    // Fetch
    /// For a whole fetch.
    pub timeout: Duration,
    /// For the DNS lookup, the connection and the handshake, each.
    pub connect_timeout: Duration,
    pub idle_timeout: Duration,
    /// Bytes a second, over any window of `idle_timeout`.
    pub min_rate: u64,
    /// At least 1.
    pub max_tries: u8,
    /// After the first failure; doubles with each further one.
    pub retry_wait: Duration,
    pub max_redirects: u8,
    /// Limit on the bytes of a decoded body.
    pub max_size: u64,
    pub max_head: usize,
    pub max_url: usize,
    pub max_links: usize,
    pub user_agent: Box<str>,
    /// The product token of the user agent, which robots.txt rules refer to.
    pub agent_token: Arc<str>,
    /// For the roots' origins only: see [`Rules::headers_for`].
    headers: Vec<HeaderLine>,
    /// The origins of the roots. Empty if there are neither headers nor a client certificate.
    seed_origins: HashSet<Origin>,
    /// `Authorization` headers for single origins.
    auth: HashMap<Origin, HeaderLine>,
    /// The cookies that the crawl starts with; `None` if cookies are disabled.
    pub cookies: Option<CookieJar>,
    /// The proxies for requests.
    pub proxies: Proxies,
    pub http: HttpVersion,
    /// Whether the engine can carry several jobs on one connection.
    pub shares_connections: bool,
    pub resolve: Vec<Resolve>,
    pub dns: Option<SocketAddr>,

    // Trust
    pub robots: RobotsPolicy,
    allow_private: bool,
    /// Hosts and ports that the user named, and that may therefore be on a private network.
    named: HashSet<(Box<str>, u16)>,

    // Keep
    pub with_headers: bool,
    pub with_links: bool,
    /// Whether the texts of links are kept.
    pub with_anchors: bool,
    /// Whether pages are requested with HEAD first, and with GET only if HEAD fails: for checks that need the status
    /// alone.
    pub head_first: bool,
    /// Whether visits contain the exact bytes of request and response.
    pub keep_wire: bool,
    /// Which bodies are held, and which reader gets them. Set by the caller that reads pages.
    pub bodies: BodyRules,
    /// Whether responses are archived.
    pub archive: bool,
    /// How archives are compressed.
    pub archive_compression: WarcCompression,
    /// Size limit of one archive file.
    pub archive_size: u64,
    /// Whether the archive is stored as the segments of a fleet. The store writes the `warcinfo` record of each segment,
    /// and identical payloads are not deduplicated.
    pub archive_segments: bool,
    pub max_memory: Option<u64>,
    /// How long an interrupted crawl waits for requests in flight.
    pub drain_time: Duration,
    /// Whether skipped links get a record.
    pub log_skips: bool,
    /// Whether visits list skipped links even if these get no record.
    pub report_skips: bool,

    /// Limits of a connection on sizes and times.
    pub limits: Arc<Limits>,
    /// Certificates are not verified, and records say so.
    pub insecure: bool,
    /// The certificates that TLS trusts.
    pub tls: TlsSource,
    /// The memory budget.
    pub budget: Arc<Budget>,
    /// Until when requests may be started.
    pub lease: Lease,

    /// Secret random key of this run, for fingerprints in memory and for the identifiers of archive records.
    pub fingerprint_key: u64,
}

/// Input from the machine for compiling the settings. The core reads no files and no environment variables itself.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// A random number that cannot be predicted: see [`Rules::fingerprint_key`].
    pub fingerprint_key: u64,
    /// Certificates to trust, and the client certificate.
    pub tls: TlsSource,
    /// The cookies that the crawl starts with, unless cookies are disabled.
    pub cookies: CookieJar,
    /// Proxies with their addresses resolved; `None` takes the `proxy` setting as it is.
    pub proxies: Option<Proxies>,
    /// The memory limit if the settings have none.
    pub max_memory: Option<u64>,
}

/// A URL to start from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The URLs it can mean, preferred first: one, or https and http if no scheme was written.
    pub candidates: Vec<Url>,
    /// The requests to send to it, if they are not one plain GET.
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

    /// The user's headers for this URL. They can hold secrets, so only the origins of the roots get them, and an
    /// origin's own `Authorization` replaces the general one.
    pub fn headers_for(&self, url: &Url) -> Vec<(&str, &str)> {
        if self.headers.is_empty() && self.auth.is_empty() {
            return Vec::new();
        }
        let origin = url.origin();
        let own = self.auth.get(&origin);
        let general = if self.seed_origins.contains(&origin) { self.headers.as_slice() } else { &[] };
        let general = general.iter().filter(|line| own.is_none() || !line.name.eq_ignore_ascii_case("authorization"));
        general.chain(own).map(|line| (&*line.name, &*line.value)).collect()
    }

    /// Whether this origin gets the client certificate: only the origins of the roots do.
    pub fn identifies_to(&self, url: &Url) -> bool {
        self.seed_origins.contains(&url.origin())
    }

    /// The addresses that `--resolve` gives for this host and port. It does not affect other ports of the host, as in
    /// curl.
    pub fn given(&self, host: &str, port: u16) -> Option<&[IpAddr]> {
        let bare = host.trim_end_matches('.');
        let mut given = self.resolve.iter().filter(|given| given.port == port);
        given.find(|given| given.host.trim_end_matches('.').eq_ignore_ascii_case(bare)).map(|given| &*given.addresses)
    }

    /// These rules with another pace, and with the widths that follow from it.
    #[must_use]
    pub fn with_pace(&self, pace: Pace) -> Self {
        let (per_host, per_ip) = compile::widths(pace, self.concurrency, self.given_widths);
        Self { pace, per_host, per_ip, ..self.clone() }
    }

    /// Whether this host and port may be on a private network.
    pub fn allows_private(&self, host: &str, port: u16) -> bool {
        self.allow_private || self.named.contains(&HostPort(host, port))
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
