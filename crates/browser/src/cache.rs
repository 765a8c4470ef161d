//! [`ResponseCache`]: the cacheable responses of a crawl, shared by the pages of a site.
//!
//! A site's scripts and styles are requested once, not once a page. RFC 9111 says what may be kept and for how long. The
//! cache has a partition for each site, as in browsers: what one site has loaded is not visible to another. Its bytes are
//! charged to the memory account and bounded; the oldest responses leave first. A response that is not fresh is asked for
//! with its validators, and used again if the server says that it has not changed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::budget::{Budget, BudgetCharge};
use argiope_core::base::custom_request::Method;
use argiope_core::base::job::PartAccess;
use argiope_core::http::retry_after::http_date;
use argiope_core::render::{BrowserAnswer, BrowserRequest, RequestKind};
use argiope_core::{Time, Url};

/// The cache may use the memory limit divided by this, and at most [`MAX_BYTES`].
const MEMORY_DIVISOR: u64 = 16;
const MAX_BYTES: u64 = 128 << 20;
/// How long a script, a style or a picture that does not say it is kept.
const DEFAULT_LIFE: Duration = Duration::from_secs(600);
/// No response is kept longer.
const MAX_LIFE: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The estimated size of an entry without its body and its header fields.
const ENTRY_BYTES: usize = 1_024;

/// What a cached response is found by: the site of the page, the address, and whether the request had logins and cookies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    site: Box<str>,
    url: Url,
    access: PartAccess,
}

/// Responses that may be used again.
#[derive(Debug)]
pub(crate) struct ResponseCache {
    entries: HashMap<CacheKey, Cached>,
    /// The keys with the number of their entry, oldest first.
    order: VecDeque<(u64, CacheKey)>,
    last: u64,
    limit: u64,
    charge: BudgetCharge,
    bytes: u64,
}

#[derive(Debug)]
struct Cached {
    number: u64,
    until: Time,
    answer: BrowserAnswer,
    bytes: u64,
}

impl ResponseCache {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        let limit = (budget.limit() / MEMORY_DIVISOR).min(MAX_BYTES);
        let (entries, order) = (HashMap::new(), VecDeque::new());
        Self { entries, order, last: 0, limit, charge: budget.hold(), bytes: 0 }
    }

    /// The key of a request on this page. `None` if its response must not be shared.
    pub(crate) fn key(page: &Url, request: &BrowserRequest) -> Option<CacheKey> {
        let is_private = request.headers.iter().any(|(name, _)| {
            ["authorization", "range", "cache-control"].iter().any(|other| name.eq_ignore_ascii_case(other))
        });
        if request.method != Method::Get
            || !request.body.is_empty()
            || is_private
            || request.kind == RequestKind::Document
        {
            return None;
        }
        let site = page.registrable_domain().unwrap_or(page.host()).into();
        Some(CacheKey { site, url: request.url.clone(), access: request.access })
    }

    /// The response, if it is fresh.
    pub(crate) fn get(&self, key: &CacheKey, now: Time) -> Option<&BrowserAnswer> {
        self.entries.get(key).filter(|cached| cached.until > now).map(|cached| &cached.answer)
    }

    /// Keeps a response if it may be used again. Returns whether it is kept.
    pub(crate) fn put(&mut self, key: CacheKey, kind: RequestKind, answer: &BrowserAnswer, now: Time) -> bool {
        let BrowserAnswer::Response { status, headers, .. } = answer else { return false };
        let Some(life) = life(*status, headers, kind) else { return false };
        let bytes = (answer.bytes() + ENTRY_BYTES) as u64;
        if bytes > self.limit / 4 {
            return false;
        }
        while self.bytes + bytes > self.limit {
            let Some((number, oldest)) = self.order.pop_front() else { break };
            if self.entries.get(&oldest).is_some_and(|cached| cached.number == number) {
                self.remove(&oldest);
            }
        }
        self.remove(&key);
        // The places of entries that were replaced.
        if self.order.len() > 2 * self.entries.len() + 100 {
            let entries = &self.entries;
            self.order.retain(|(number, key)| entries.get(key).is_some_and(|cached| cached.number == *number));
        }
        self.last += 1;
        self.bytes += bytes;
        self.order.push_back((self.last, key.clone()));
        self.entries.insert(key, Cached { number: self.last, until: now + life, answer: answer.clone(), bytes });
        self.charge.resize(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        true
    }

    /// The header fields of a request that ask whether the response has changed.
    pub(crate) fn validators(&self, key: &CacheKey) -> Vec<(Box<str>, Box<str>)> {
        let Some(Cached { answer: BrowserAnswer::Response { headers, .. }, .. }) = self.entries.get(key) else {
            return Vec::new();
        };
        let pairs = [("etag", "If-None-Match"), ("last-modified", "If-Modified-Since")];
        let found = pairs.into_iter().filter_map(|(validator, condition)| {
            let field = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(validator));
            field.map(|(_, value)| (condition.into(), value.clone()))
        });
        found.collect()
    }

    /// The response that the server has confirmed with this answer. It is fresh again.
    pub(crate) fn confirmed(
        &mut self,
        key: &CacheKey,
        kind: RequestKind,
        answer: &BrowserAnswer,
        now: Time,
    ) -> Option<BrowserAnswer> {
        let BrowserAnswer::Response { status: 304, headers: newer, .. } = answer else { return None };
        let cached = self.entries.get_mut(key)?;
        let BrowserAnswer::Response { status, headers, .. } = &cached.answer else { return None };
        // What says how long it is fresh is that of the newer response, if it says so.
        let says = |name: &str| newer.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let older = headers.iter().filter(|(name, _)| !says(name) && !name.eq_ignore_ascii_case("age"));
        let joined: Vec<_> = newer.iter().chain(older).cloned().collect();
        cached.until = now + life(*status, &joined, kind).unwrap_or_default();
        Some(cached.answer.clone())
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(cached) = self.entries.remove(key) {
            self.bytes -= cached.bytes;
        }
    }
}

/// How long a response may be used again (RFC 9111). `None` if it must not be kept.
fn life(status: u16, headers: &[(Box<str>, Box<str>)], kind: RequestKind) -> Option<Duration> {
    if !matches!(status, 200 | 203 | 301 | 308 | 404 | 410) {
        return None;
    }
    let all = |name: &'static str| {
        headers.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    };
    let directives: Vec<String> = all("cache-control")
        .flat_map(|value| value.split(','))
        .map(|directive| directive.trim().to_ascii_lowercase())
        .collect();
    let has =
        |name: &str| directives.iter().any(|directive| directive == name || directive.starts_with(&format!("{name}=")));
    // The coding is removed, and the origin is the same for all pages of a site in almost all cases.
    let varies = all("vary")
        .flat_map(|value| value.split(','))
        .any(|field| !["", "accept-encoding", "origin"].iter().any(|known| field.trim().eq_ignore_ascii_case(known)));
    if has("no-store") || has("no-cache") || has("private") || varies || all("set-cookie").next().is_some() {
        return None;
    }
    let max_age = directives.iter().find_map(|directive| directive.strip_prefix("max-age="));
    if let Some(seconds) = max_age {
        let seconds = seconds.trim_matches('"').parse::<u64>().unwrap_or(0);
        let age = all("age").next().and_then(|age| age.trim().parse::<u64>().ok()).unwrap_or(0);
        let left = Duration::from_secs(seconds.saturating_sub(age)).min(MAX_LIFE);
        return (!left.is_zero()).then_some(left);
    }
    if let Some(expires) = all("expires").next() {
        // Without a date of the server, it is not known how long that is.
        let (until, from) = (http_date(expires)?, all("date").next().and_then(http_date)?);
        let left = Duration::from_secs(u64::try_from(until - from).unwrap_or(0)).min(MAX_LIFE);
        return (!left.is_zero()).then_some(left);
    }
    let is_resource = matches!(kind, RequestKind::Script | RequestKind::Style | RequestKind::Font | RequestKind::Image);
    (is_resource || all("last-modified").next().is_some()).then_some(DEFAULT_LIFE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(headers: &[(&str, &str)]) -> BrowserAnswer {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        BrowserAnswer::Response { status: 200, headers, body: vec![b'x'; 1_000] }
    }

    fn request(url: &str, kind: RequestKind) -> BrowserRequest {
        BrowserRequest {
            id: 1,
            url: Url::parse(url).expect("a URL"),
            method: Method::Get,
            headers: Vec::new(),
            body: Vec::new(),
            kind,
            access: PartAccess::SameOrigin,
            cookies: Vec::new(),
        }
    }

    #[test]
    fn the_headers_of_a_response_decide_whether_and_how_long_it_is_shared() {
        let seconds = |headers: &[(&str, &str)], kind| {
            let BrowserAnswer::Response { headers, .. } = answer(headers) else { panic!("a response") };
            life(200, &headers, kind).map(|life| life.as_secs())
        };
        let (script, xhr) = (RequestKind::Script, RequestKind::Xhr);
        assert_eq!(seconds(&[], script), Some(600));
        assert_eq!(seconds(&[], xhr), None);
        assert_eq!(seconds(&[("Cache-Control", "public, max-age=60")], xhr), Some(60));
        assert_eq!(seconds(&[("cache-control", "max-age=60"), ("age", "59")], script), Some(1));
        assert_eq!(seconds(&[("cache-control", "max-age=0")], script), None);
        for forbidden in ["no-store", "no-cache", "private, max-age=60"] {
            assert_eq!(seconds(&[("Cache-Control", forbidden)], script), None, "{forbidden}");
        }
        assert_eq!(seconds(&[("vary", "Accept-Encoding")], script), Some(600));
        assert_eq!(seconds(&[("vary", "Cookie")], script), None);
        assert_eq!(seconds(&[("set-cookie", "a=1")], script), None);
        let date = ("date", "Thu, 19 Nov 2026 12:00:00 GMT");
        assert_eq!(seconds(&[("expires", "Thu, 19 Nov 2026 12:01:00 GMT"), date], xhr), Some(60));
        for past in ["Sat, 01 Jan 2000 00:00:00 GMT", "Thu, 19 Nov 2026 12:00:00 GMT", "0", "-1"] {
            assert_eq!(seconds(&[("expires", past), date], script), None, "{past}");
        }
    }

    #[test]
    fn a_stale_response_is_used_again_if_the_server_confirms_it() {
        let mut cache = ResponseCache::new(&Budget::new(16 << 20));
        let page = Url::parse("http://h.example/").expect("a URL");
        let kind = RequestKind::Script;
        let key = ResponseCache::key(&page, &request("http://h.example/a.js", kind)).expect("it may be shared");
        assert_eq!(cache.validators(&key), []);
        let first = answer(&[("ETag", "\"1\""), ("Cache-Control", "max-age=60")]);
        assert!(cache.put(key.clone(), kind, &first, Time::ZERO));
        let later = Time::ZERO + Duration::from_secs(60);
        assert_eq!(cache.get(&key, later), None);
        assert_eq!(cache.validators(&key), [("If-None-Match".into(), "\"1\"".into())]);
        let not_modified = BrowserAnswer::Response {
            status: 304,
            headers: vec![("Cache-Control".into(), "max-age=10".into())],
            body: Vec::new(),
        };
        assert_eq!(cache.confirmed(&key, kind, &not_modified, later), Some(first.clone()));
        assert_eq!(cache.get(&key, later + Duration::from_secs(9)), Some(&first));
        assert_eq!(cache.get(&key, later + Duration::from_secs(10)), None);
        assert_eq!(cache.confirmed(&key, kind, &first, later), None, "it is another response");
    }

    #[test]
    fn a_response_that_is_replaced_again_and_again_takes_one_place() {
        let mut cache = ResponseCache::new(&Budget::new(16 << 20));
        let page = Url::parse("http://h.example/").expect("a URL");
        let key = ResponseCache::key(&page, &request("http://h.example/a.js", RequestKind::Script));
        let key = key.expect("it may be shared");
        for _ in 0..10_000 {
            assert!(cache.put(key.clone(), RequestKind::Script, &answer(&[]), Time::ZERO));
        }
        assert!(cache.order.len() < 200, "{} places", cache.order.len());
    }

    #[test]
    fn sites_do_not_share_and_the_cache_stays_within_its_limit() {
        let budget = Budget::new(16 * 100_000);
        let mut cache = ResponseCache::new(&budget);
        let page = |host: &str| Url::parse(&format!("http://{host}/")).expect("a URL");
        let request = |n: u32| request(&format!("http://cdn.example/{n}.js"), RequestKind::Script);
        for n in 0..200 {
            let key = ResponseCache::key(&page("www.one.example"), &request(n)).expect("it may be shared");
            assert!(cache.put(key, RequestKind::Script, &answer(&[]), Time::ZERO));
            assert!(cache.bytes <= 100_000);
        }
        let last = |host: &str| ResponseCache::key(&page(host), &request(199)).expect("it may be shared");
        assert!(cache.get(&last("sub.one.example"), Time::ZERO).is_some());
        assert!(cache.get(&last("two.example"), Time::ZERO).is_none());
        assert!(cache.get(&last("one.example"), Time::ZERO + DEFAULT_LIFE).is_none(), "it is not fresh any more");
        assert_eq!(budget.response_bytes(), cache.bytes);
    }
}
