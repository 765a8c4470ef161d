//! [`CookieJar`]: the cookies of a crawl, stored and sent according to RFC 6265bis.
//!
//! A crawl has one jar, owned by the keeper: workers parse `Set-Cookie` lines ([`SetCookie::parse`]), the keeper stores
//! the results and writes the `Cookie` header of each job. Every request counts as top-level navigation by the user, so
//! `SameSite` is only checked for validity. Decisions that the RFC leaves open:
//!
//! | question | answer |
//! |---|---|
//! | host names | compared in lower case; `a.test.` is another host than `a.test`, as in browsers |
//! | IP addresses | match only themselves, never a suffix |
//! | public suffixes | by the list with its private section: a cookie for a suffix is kept only for the host of the same name, else rejected |
//! | too many cookies | evicted in the RFC's order: expired, then not `Secure`, then any; least recently used first |
//! | lifetime | 400 days at most, except for cookies from a file |
//!
//! Invariants: a cookie is sent only to hosts within its domain, and a `Secure` one never over http. Whatever servers
//! send, the jar stays below [`MAX_JAR_BYTES`] and a header below `MAX_HEADER`. Hosts without cookies cost nothing.

mod date;
mod file;
mod set_cookie;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::Ipv4Addr;

use hashbrown::HashMap;

use crate::page::url::{UrlRef, registrable_domain};

pub use date::parse as parse_date;
pub use file::BadCookieLine;
pub use set_cookie::{MAX_PER_RESPONSE, SetCookie};

use set_cookie::{CookieExpiry, CookiePath};
#[cfg(test)]
pub(crate) use set_cookie::{MAX_ATTRIBUTE, MAX_COOKIE};

/// Cookies per domain.
pub(crate) const MAX_PER_DOMAIN: usize = 50;
/// Cookies per registrable domain, all host names below it included.
pub(crate) const MAX_PER_SITE: usize = 1_000;
/// Bytes of all cookies, unless the jar is given less room.
pub const MAX_JAR_BYTES: usize = 16 << 20;
/// Bytes of `Cookie: ` and its value. As in curl: servers refuse larger headers.
pub(crate) const MAX_HEADER: usize = 8_190;
/// Maximum lifetime of a cookie in seconds: 400 days.
pub(crate) const MAX_LIFETIME: i64 = 400 * 86_400;
/// Size of a cookie without its texts: the struct, spare capacity of the list, and the overhead of four allocations.
const WEIGHT: usize = size_of::<Cookie>() * 3 / 2 + 4 * 16;

/// The cookies of a crawl. Times are seconds since the Unix epoch.
#[derive(Clone, Default)]
pub struct CookieJar {
    /// By registrable domain, or by host if there is none.
    sites: HashMap<Box<str>, Vec<Cookie>>,
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
    /// The ticks of the jar's logical clock when it was created and when it was last sent.
    created: u64,
    used: u64,
    host_only: bool,
    secure: bool,
}

/// The value of a `Cookie` header.
#[derive(Clone, PartialEq, Eq)]
pub struct CookieHeader(Box<[u8]>);

impl CookieHeader {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for CookieHeader {
    /// Cookies are secrets and stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
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

    /// Stores a cookie that a response set. Returns true if that changed the jar.
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
            expires: set.expiry.moment(now),
            created: self.tick(),
            used: self.ticks,
            host_only,
            secure: set.secure,
        };
        let is_secure = if cookie.secure { request.secure } else { !set.same_site_none };
        let is_valid = is_secure && has_prefix_attributes(&cookie, set.path != CookiePath::Default);
        let shadows_secure = !request.secure && self.would_shadow(&cookie);
        is_valid && !shadows_secure && self.insert(cookie, now)
    }

    /// The value of the `Cookie` header of a request.
    pub fn header(&mut self, url: UrlRef<'_>, now: i64) -> Option<CookieHeader> {
        if self.sites.is_empty() {
            return None;
        }
        let request = Request::of(url);
        let tick = self.tick();
        let site = self.sites.get_mut(site_of(&request.host))?;
        let mut chosen: Vec<&mut Cookie> = site.iter_mut().filter(|cookie| cookie.is_for(&request, now)).collect();
        chosen.sort_by_key(|cookie| (std::cmp::Reverse(cookie.path.len()), cookie.created));
        let mut value = Vec::new();
        for cookie in chosen {
            let separator: &[u8] = if value.is_empty() { b"" } else { b"; " };
            let equals: &[u8] = if cookie.name.is_empty() { b"" } else { b"=" };
            let parts = [separator, &*cookie.name, equals, &*cookie.value];
            if "Cookie: ".len() + value.len() + parts.iter().map(|part| part.len()).sum::<usize>() > MAX_HEADER {
                break;
            }
            parts.iter().for_each(|part| value.extend_from_slice(part));
            cookie.used = tick;
        }
        (!value.is_empty()).then(|| CookieHeader(value.into_boxed_slice()))
    }

    pub fn len(&self) -> usize {
        self.sites.values().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    /// True if a cookie set over http would shadow one that only https may set.
    fn would_shadow(&self, new: &Cookie) -> bool {
        let site = self.sites.get(site_of(&new.domain)).map(Vec::as_slice).unwrap_or_default();
        site.iter().any(|old| {
            let is_related = is_within(&old.domain, &new.domain) || is_within(&new.domain, &old.domain);
            old.secure && old.name == new.name && is_related && path_matches(&new.path, &old.path)
        })
    }

    fn insert(&mut self, mut cookie: Cookie, now: i64) -> bool {
        let key = site_of(&cookie.domain);
        let site = self.sites.entry_ref(key).or_default();
        let mut is_new = true;
        if let Some(at) = site.iter().position(|old| old.is_same(&cookie)) {
            let old = site.swap_remove(at);
            self.bytes -= old.weight();
            cookie.created = old.created;
            is_new = old.value != cookie.value;
        }
        let is_kept = cookie.expires > now;
        let domain = cookie.domain.clone();
        if is_kept {
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
        is_new && is_kept
    }

    /// Shrinks a full jar: expired cookies first, then the least recently used sites.
    fn shrink(&mut self, now: i64) {
        for site in self.sites.values_mut() {
            site.retain(|cookie| cookie.expires > now);
        }
        let last_used = |site: &Vec<Cookie>| site.iter().map(|cookie| cookie.used).max().unwrap_or(0);
        let weight = |site: &Vec<Cookie>| site.iter().map(Cookie::weight).sum::<usize>();
        let mut order: Vec<(u64, usize)> = self.sites.values().map(|site| (last_used(site), weight(site))).collect();
        order.sort_unstable();
        self.bytes = order.iter().map(|(_, weight)| weight).sum();
        let mut oldest = 0;
        // Evicts more than necessary, so that this is rare.
        let low_water = self.limit() / 8 * 7;
        for (used, weight) in order {
            if self.bytes <= low_water {
                break;
            }
            self.bytes -= weight;
            oldest = used;
        }
        // No two sites were used in the same tick.
        self.sites.retain(|_, site| last_used(site) > oldest);
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
        let host = canonical(url.host());
        Self { is_address: is_address(&host), host, path: url.path(), secure: url.is_https() }
    }

    /// The domain of a cookie, and whether it is host-only. `None` if the host must not set it.
    fn domain_of(&self, set: &SetCookie) -> Option<(Box<str>, bool)> {
        let asked = canonical(&set.domain);
        // The operator of a public suffix may set host-only cookies for the host of that name.
        let is_own = asked.is_empty() || (asked == self.host && (self.is_address || is_public_suffix(&asked)));
        if is_own {
            return Some((self.host.as_str().into(), true));
        }
        let may = !self.is_address && !is_public_suffix(&asked) && is_within(&self.host, &asked);
        may.then(|| (asked.into(), false))
    }
}

impl Cookie {
    fn is_same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.domain == other.domain
            && self.host_only == other.host_only
            && self.path == other.path
    }

    fn is_for(&self, request: &Request<'_>, now: i64) -> bool {
        let is_host = *self.domain == *request.host;
        let in_domain = !self.host_only && !request.is_address && is_within(&request.host, &self.domain);
        (is_host || in_domain)
            && self.expires > now
            && (request.secure || !self.secure)
            && path_matches(request.path, &self.path)
    }

    fn weight(&self) -> usize {
        WEIGHT + self.name.len() + self.value.len() + self.domain.len() + self.path.len()
    }
}

/// Evicts cookies of a kind in the RFC's order until at most `most` are left. Returns the bytes freed.
fn evict(site: &mut Vec<Cookie>, kind: impl Fn(&Cookie) -> bool, most: usize, now: i64) -> usize {
    let mut weight = 0;
    site.retain(|cookie| {
        let keep = cookie.expires > now;
        weight += if keep { 0 } else { cookie.weight() };
        keep
    });
    while site.iter().filter(|cookie| kind(cookie)).count() > most {
        let of_kind = site.iter().enumerate().filter(|(_, cookie)| kind(cookie));
        let Some((at, _)) = of_kind.min_by_key(|(_, cookie)| (cookie.secure, cookie.used)) else { break };
        weight += site.swap_remove(at).weight();
    }
    weight
}

/// True if a cookie has the attributes that its name prefix requires (RFC 6265bis, 4.1.3).
fn has_prefix_attributes(cookie: &Cookie, path_given: bool) -> bool {
    let says = |text: &[u8], prefix: &str| {
        text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    let (secure, host) = ("__Secure-", "__Host-");
    if cookie.name.is_empty() {
        // Without a name, the value is sent alone and would look like a name.
        return !says(&cookie.value, secure) && !says(&cookie.value, host);
    }
    (!says(&cookie.name, secure) || cookie.secure)
        && (!says(&cookie.name, host) || (cookie.secure && cookie.host_only && path_given && *cookie.path == *"/"))
}

/// A host name in the form that is compared. A trailing dot stays: servers and certificates distinguish the two forms.
fn canonical(host: &str) -> String {
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

fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => path.get(..at).unwrap_or("/"),
    }
}

fn path_matches(path: &str, cookie: &str) -> bool {
    path.strip_prefix(cookie).is_some_and(|rest| rest.is_empty() || cookie.ends_with('/') || rest.starts_with('/'))
}

impl CookieExpiry {
    /// The absolute expiry, given the current time.
    fn moment(self, now: i64) -> i64 {
        match self {
            Self::Never => i64::MAX,
            Self::At(moment) => moment.min(now.saturating_add(MAX_LIFETIME)),
            Self::After(seconds) if seconds <= 0 => i64::MIN,
            Self::After(seconds) => now.saturating_add(seconds.min(MAX_LIFETIME)),
        }
    }
}
