//! [`CookieJar`]: the cookies of a crawl, stored and sent according to RFC 6265bis.
//!
//! A crawl has one jar, owned by the keeper. Workers parse `Set-Cookie` lines ([`SetCookie::parse`]). The keeper stores
//! the results and writes the `Cookie` header of each job. Every request counts as top-level navigation by the user, so
//! `SameSite` is only checked for validity. Decisions that the RFC leaves open:
//!
//! | question | answer |
//! |---|---|
//! | host names | compared in lower case; `a.test.` is another host than `a.test`, as in browsers |
//! | IP addresses | match only themselves, never a suffix |
//! | public suffixes | the list with its private section; a cookie for a suffix is stored only if the host of that name sets it |
//! | too many cookies of a domain or site | evicted: expired, then not `Secure`, then any; least recently used first |
//! | lifetime | 400 days at most, except for cookies from a file |
//!
//! Invariants: a cookie is sent only to hosts within its domain, and a `Secure` one never over http. Whatever servers
//! send, the jar takes at most [`MAX_JAR_BYTES`] and a header at most `MAX_HEADER`. Hosts without cookies need no
//! memory.

mod date;
mod file;
mod set_cookie;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::Ipv4Addr;

use hashbrown::HashMap;

use crate::base::job::CookieHeader;
use crate::base::url::{UrlRef, registrable_domain};

pub use date::parse as parse_date;
pub use file::BadCookieLine;
pub use set_cookie::{MAX_PER_RESPONSE, SetCookie};

use set_cookie::{CookieExpiry, CookiePath};
#[cfg(test)]
pub(crate) use set_cookie::{MAX_ATTRIBUTE, MAX_COOKIE};

/// Limit on the cookies of a domain.
pub(crate) const MAX_PER_DOMAIN: usize = 50;
/// Limit on the cookies of a registrable domain, including all host names below it.
pub(crate) const MAX_PER_SITE: usize = 1_000;
/// Limit on the bytes of all cookies. [`CookieJar::set_capacity`] can set a lower one.
pub const MAX_JAR_BYTES: usize = 16 << 20;
/// Limit on the bytes of `Cookie: ` and its value, as in curl. Servers refuse larger headers.
pub(crate) const MAX_HEADER: usize = 8_190;
/// Maximum lifetime of a cookie in seconds: 400 days.
pub(crate) const MAX_LIFETIME: i64 = 400 * 86_400;
/// Size of a cookie without its texts: the struct, spare capacity of the list, and the overhead of four allocations.
const COOKIE_OVERHEAD: usize = size_of::<Cookie>() * 3 / 2 + 4 * 16;

/// The cookies of a crawl. Times are seconds since the Unix epoch.
#[derive(Clone, Default)]
pub struct CookieJar {
    /// The cookies by registrable domain, or by host if that is a public suffix or an address.
    sites: HashMap<Box<str>, Vec<Cookie>>,
    /// The size of all cookies.
    bytes: usize,
    /// A logical clock that orders creations and uses.
    ticks: u64,
    /// A limit in bytes below [`MAX_JAR_BYTES`]; zero if none was set.
    capacity: usize,
}

#[derive(Clone)]
struct Cookie {
    name: Box<[u8]>,
    value: Box<[u8]>,
    domain: Box<str>,
    path: Box<str>,
    /// `i64::MAX` for a session cookie, which lasts as long as the crawl.
    expires: i64,
    /// The ticks of the jar's logical clock when the cookie was created and when it was last sent.
    created: u64,
    used: u64,
    /// Sent only to the host that is its domain, not to hosts below it.
    host_only: bool,
    /// Sent only over https.
    secure: bool,
}

/// The target of a request, in the terms of the RFC.
struct Request<'a> {
    host: String,
    is_address: bool,
    path: &'a str,
    secure: bool,
}

impl CookieJar {
    /// Limits the jar to this many bytes, if that is less than its usual limit.
    pub fn set_capacity(&mut self, bytes: usize) {
        self.capacity = bytes.max(1);
    }

    /// Memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn limit(&self) -> usize {
        if self.capacity == 0 { MAX_JAR_BYTES } else { self.capacity.min(MAX_JAR_BYTES) }
    }

    /// Stores a cookie that a response set. Returns true if this adds a cookie or changes the value of one, and false
    /// if it only removes one.
    pub fn store(&mut self, set: &SetCookie, url: UrlRef<'_>, now: i64) -> bool {
        let request = Request::of(url);
        let Some((domain, host_only)) = request.domain_of(set) else { return false };
        let path = match &set.path {
            CookiePath::Given(path) => path.clone(),
            CookiePath::Default => default_path(request.path).into(),
        };
        let cookie = Cookie {
            name: set.name.clone(),
            value: set.value.clone(),
            domain,
            path,
            expires: set.expiry.at(now),
            created: self.next_tick(),
            used: self.ticks,
            host_only,
            secure: set.secure,
        };
        // `Secure` cookies must come over https. `SameSite=None` requires `Secure`.
        let has_valid_attributes = if cookie.secure { request.secure } else { !set.same_site_none };
        let is_valid = has_valid_attributes && satisfies_name_prefix(&cookie, set.path != CookiePath::Default);
        let shadows_secure = !request.secure && self.would_shadow(&cookie);
        is_valid && !shadows_secure && self.insert(cookie, now)
    }

    /// The value of the `Cookie` header of a request; `None` if no cookie is sent. Longer paths come first, then older
    /// cookies.
    pub fn header(&mut self, url: UrlRef<'_>, now: i64) -> Option<CookieHeader> {
        if self.sites.is_empty() {
            return None;
        }
        let request = Request::of(url);
        let tick = self.next_tick();
        let site = self.sites.get_mut(site_of(&request.host))?;
        let mut matching: Vec<&mut Cookie> = site.iter_mut().filter(|cookie| cookie.is_for(&request, now)).collect();
        matching.sort_by_key(|cookie| (std::cmp::Reverse(cookie.path.len()), cookie.created));
        let mut value = Vec::new();
        for cookie in matching {
            let separator: &[u8] = if value.is_empty() { b"" } else { b"; " };
            let equals: &[u8] = if cookie.name.is_empty() { b"" } else { b"=" };
            let parts = [separator, &*cookie.name, equals, &*cookie.value];
            if "Cookie: ".len() + value.len() + parts.iter().map(|part| part.len()).sum::<usize>() > MAX_HEADER {
                break;
            }
            parts.iter().for_each(|part| value.extend_from_slice(part));
            cookie.used = tick;
        }
        (!value.is_empty()).then(|| CookieHeader::new(value))
    }

    pub fn len(&self) -> usize {
        self.sites.values().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    fn next_tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    /// True if a cookie set over http would be sent in place of a `Secure` one of the same name.
    fn would_shadow(&self, new: &Cookie) -> bool {
        let site = self.sites.get(site_of(&new.domain)).map(Vec::as_slice).unwrap_or_default();
        site.iter().any(|old| {
            let is_related = is_within(&old.domain, &new.domain) || is_within(&new.domain, &old.domain);
            old.secure && old.name == new.name && is_related && path_matches(&new.path, &old.path)
        })
    }

    /// Inserts a cookie in place of an earlier one with the same identity. An expired cookie only removes the earlier
    /// one. Then evicts cookies down to the limits. Returns true if the cookie is stored and its value is new.
    fn insert(&mut self, mut cookie: Cookie, now: i64) -> bool {
        let key = site_of(&cookie.domain);
        let site = self.sites.entry_ref(key).or_default();
        let mut is_new = true;
        if let Some(index) = site.iter().position(|old| old.has_same_identity(&cookie)) {
            let old = site.swap_remove(index);
            self.bytes -= old.weight();
            cookie.created = old.created;
            is_new = old.value != cookie.value;
        }
        let is_stored = cookie.expires > now;
        let domain = cookie.domain.clone();
        if is_stored {
            self.bytes += cookie.weight();
            site.push(cookie);
        }
        let in_domain = |cookie: &Cookie| cookie.domain == domain;
        if site.iter().filter(|cookie| in_domain(cookie)).count() > MAX_PER_DOMAIN {
            self.bytes -= evict(site, in_domain, MAX_PER_DOMAIN, now);
        }
        if site.len() > MAX_PER_SITE {
            self.bytes -= evict(site, |_| true, MAX_PER_SITE, now);
        }
        if site.is_empty() {
            let key: Box<str> = site_of(&domain).into();
            self.sites.remove(&key);
        }
        if self.bytes > self.limit() {
            self.shrink(now);
        }
        is_new && is_stored
    }

    /// Shrinks a full jar: expired cookies first, then the least recently used sites.
    fn shrink(&mut self, now: i64) {
        for site in self.sites.values_mut() {
            site.retain(|cookie| cookie.expires > now);
        }
        let last_used = |site: &Vec<Cookie>| site.iter().map(|cookie| cookie.used).max().unwrap_or(0);
        let weight = |site: &Vec<Cookie>| site.iter().map(Cookie::weight).sum::<usize>();
        let mut by_last_use: Vec<(u64, usize)> =
            self.sites.values().map(|site| (last_used(site), weight(site))).collect();
        by_last_use.sort_unstable();
        self.bytes = by_last_use.iter().map(|(_, weight)| weight).sum();
        let mut last_evicted = 0;
        // Evicts more than necessary, so that this is rare.
        let target_bytes = self.limit() / 8 * 7;
        for (used, weight) in by_last_use {
            if self.bytes <= target_bytes {
                break;
            }
            self.bytes -= weight;
            last_evicted = used;
        }
        // No two sites were used in the same tick.
        self.sites.retain(|_, site| last_used(site) > last_evicted);
    }
}

impl fmt::Debug for CookieJar {
    /// Cookies are secrets and stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CookieJar({} cookies)", self.len())
    }
}

impl<'a> Request<'a> {
    fn of(url: UrlRef<'a>) -> Self {
        let host = lowercase_host(url.host());
        Self { is_address: is_address(&host), host, path: url.path(), secure: url.is_https() }
    }

    /// The domain of a cookie, and whether it is host-only. `None` if the host must not set a cookie for this domain.
    fn domain_of(&self, set: &SetCookie) -> Option<(Box<str>, bool)> {
        let domain = lowercase_host(&set.domain);
        // The operator of a public suffix may set host-only cookies for the host of that name.
        let host_only = domain.is_empty() || (domain == self.host && (self.is_address || is_public_suffix(&domain)));
        if host_only {
            return Some((self.host.as_str().into(), host_only));
        }
        let is_allowed = !self.is_address && !is_public_suffix(&domain) && is_within(&self.host, &domain);
        is_allowed.then(|| (domain.into(), host_only))
    }
}

impl Cookie {
    /// Whether one of the two cookies replaces the other.
    fn has_same_identity(&self, other: &Self) -> bool {
        self.name == other.name
            && self.domain == other.domain
            && self.host_only == other.host_only
            && self.path == other.path
    }

    /// Whether the cookie is sent with this request.
    fn is_for(&self, request: &Request<'_>, now: i64) -> bool {
        let is_host = *self.domain == *request.host;
        let in_domain = !self.host_only && !request.is_address && is_within(&request.host, &self.domain);
        (is_host || in_domain)
            && self.expires > now
            && (request.secure || !self.secure)
            && path_matches(request.path, &self.path)
    }

    /// Size in bytes, heap included.
    fn weight(&self) -> usize {
        COOKIE_OVERHEAD + self.name.len() + self.value.len() + self.domain.len() + self.path.len()
    }
}

/// Evicts expired cookies, then those that `is_candidate` selects, in the RFC's order, until at most `max` candidates
/// are left. Returns the bytes freed.
fn evict(site: &mut Vec<Cookie>, is_candidate: impl Fn(&Cookie) -> bool, max: usize, now: i64) -> usize {
    let mut freed = 0;
    site.retain(|cookie| {
        let is_valid = cookie.expires > now;
        freed += if is_valid { 0 } else { cookie.weight() };
        is_valid
    });
    while site.iter().filter(|cookie| is_candidate(cookie)).count() > max {
        let candidates = site.iter().enumerate().filter(|(_, cookie)| is_candidate(cookie));
        let Some((index, _)) = candidates.min_by_key(|(_, cookie)| (cookie.secure, cookie.used)) else { break };
        freed += site.swap_remove(index).weight();
    }
    freed
}

/// True if a cookie has the attributes that its name prefix requires (RFC 6265bis, 4.1.3). `has_path`: the server gave
/// a path.
fn satisfies_name_prefix(cookie: &Cookie, has_path: bool) -> bool {
    let has_prefix = |text: &[u8], prefix: &str| {
        text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    let (secure, host) = ("__Secure-", "__Host-");
    if cookie.name.is_empty() {
        // Without a name, the value is sent alone and would look like a name.
        return !has_prefix(&cookie.value, secure) && !has_prefix(&cookie.value, host);
    }
    let is_bound_to_host = cookie.secure && cookie.host_only && has_path && *cookie.path == *"/";
    (!has_prefix(&cookie.name, secure) || cookie.secure) && (!has_prefix(&cookie.name, host) || is_bound_to_host)
}

/// A host name in the form that is compared. A trailing dot is kept, because servers and certificates distinguish the
/// two forms.
fn lowercase_host(host: &str) -> String {
    host.to_ascii_lowercase()
}

fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok()
}

fn is_public_suffix(domain: &str) -> bool {
    let name = domain.strip_suffix('.').unwrap_or(domain);
    psl::suffix_str(name) == Some(name)
}

/// The key of the list that holds a domain's cookies. All domains that can share cookies have the same key.
fn site_of(domain: &str) -> &str {
    registrable_domain(domain).unwrap_or(domain)
}

/// True if a host is this domain or a name below it.
fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The directory of a path (RFC 6265bis, 5.1.4).
fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => path.get(..at).unwrap_or("/"),
    }
}

/// True if a cookie with `cookie_path` is sent for this path (RFC 6265bis, 5.1.4).
fn path_matches(path: &str, cookie_path: &str) -> bool {
    path.strip_prefix(cookie_path)
        .is_some_and(|rest| rest.is_empty() || cookie_path.ends_with('/') || rest.starts_with('/'))
}

impl CookieExpiry {
    /// When the cookie expires, given the current time.
    fn at(self, now: i64) -> i64 {
        match self {
            Self::Never => i64::MAX,
            Self::At(time) => time.min(now.saturating_add(MAX_LIFETIME)),
            Self::After(seconds) if seconds <= 0 => i64::MIN,
            Self::After(seconds) => now.saturating_add(seconds.min(MAX_LIFETIME)),
        }
    }
}
