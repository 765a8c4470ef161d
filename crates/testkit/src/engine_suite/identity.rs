//! Cases about identity: which hosts receive cookies, credentials and proxy headers.

use std::net::IpAddr;

use argiope_core::crawl::rules::{Config, EngineName, Login};
use argiope_core::{ErrorKind, Outcome};
use argiope_practice::{
    CertificateKind, PracticeProxy, PracticeWeb, Response, RunningProxy, RunningWeb, SeenRequest, Site,
};

use super::site;
use crate::crawling::{config, crawl, trust};

fn serve(sites: impl IntoIterator<Item = Site>) -> RunningWeb {
    sites
        .into_iter()
        .fold(PracticeWeb::new().keep_headers(), PracticeWeb::site)
        .start()
        .expect("the practice web starts")
}

fn header<'a>(request: &'a SeenRequest, name: &str) -> Option<&'a str> {
    request.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// The value of a header in the last request for this path.
fn sent_header(web: &RunningWeb, path: &str, name: &str) -> Option<String> {
    let log = web.log();
    let request =
        log.iter().rfind(|request| request.path == path).unwrap_or_else(|| panic!("{path} was not requested"));
    header(request, name).map(str::to_owned)
}

pub fn cookies_are_kept_and_sent(engine: EngineName) {
    let other = site("127.6.0.2").page("/", Response::html("x"));
    let front =
        Response::links(["/a/b", &other.url("/")]).header("Set-Cookie", "s=1").header("Set-Cookie", "p=2; Path=/a");
    let home = site("127.6.0.1").page("/", front).page("/a/b", Response::links(["/c"])).page("/c", Response::html("x"));
    let root = home.url("/");
    let other_root = other.url("/");
    let web = serve([home, other]);
    let mut config = config(engine, &[&root, &other_root]);
    config.per_host = Some(1);
    assert_eq!(crawl(&config).pages.len(), 4);
    let log = web.log();
    let of = |host: &str, path: &str| {
        log.iter().find(|request| request.host == host && request.path == path).expect("a request")
    };
    let cookie = |host: &str, path: &str| header(of(host, path), "cookie").map(str::to_owned);
    assert_eq!(cookie("127.6.0.1", "/"), None);
    assert_eq!(cookie("127.6.0.1", "/a/b").as_deref(), Some("p=2; s=1"));
    assert_eq!(cookie("127.6.0.1", "/c").as_deref(), Some("s=1"));
    assert_eq!(cookie("127.6.0.2", "/"), None);
    config.no_cookies = true;
    crawl(&config);
    assert_eq!(sent_header(&web, "/c", "cookie"), None);
}

pub fn a_redirect_with_a_new_cookie_is_followed(engine: EngineName) {
    let redirect_with_cookie = || Response::redirect("/", 302).header("Set-Cookie", "seen=1");
    let home = site("127.6.0.3").sequence("/", [redirect_with_cookie(), Response::html("<title>in</title>")]);
    let root = home.url("/");
    let web = serve([home]);
    let crawled = crawl(&config(engine, &[&root]));
    assert_eq!((crawled.pages.len(), crawled.pages[0].findings.title.as_deref()), (1, Some("in")));
    assert_eq!(sent_header(&web, "/", "cookie").as_deref(), Some("seen=1"));
    // If every redirect sets another cookie, the limit on redirects applies. Without a new cookie, the page is requested
    // once.
    let endless = (0..40).map(|n| Response::redirect("/", 302).header("Set-Cookie", format!("n={n}")));
    let home = site("127.6.0.4").sequence("/", endless).page("/same", Response::redirect("/same", 302));
    let (root, same) = (home.url("/"), home.url("/same"));
    let web = serve([home]);
    let mut config = config(engine, &[&root, &same]);
    config.max_redirects = 3;
    let crawled = crawl(&config);
    let failure = crawled.page(&root).facts.error.as_ref().map(|failure| failure.kind);
    let same_failure = crawled.page(&same).facts.error.as_ref().map(|failure| failure.kind);
    assert_eq!((failure, same_failure), (Some(ErrorKind::RedirectLimit), Some(ErrorKind::RedirectLoop)));
    let requests = |path: &str| web.log().iter().filter(|request| request.path == path).count();
    assert_eq!((requests("/"), requests("/same")), (4, 1));
}

pub fn logins_are_for_their_origin(engine: EngineName) {
    let away = site("127.6.0.6").page("/", Response::html("x"));
    let guarded = site("127.6.0.7").page("/", Response::html("x"));
    let home = site("127.6.0.5").page("/", Response::links([away.url("/"), guarded.url("/"), "/deep".to_owned()]));
    let home = home.redirect("/deep", &away.url("/moved"), 302);
    let (root, guarded_origin) = (home.url("/"), guarded.url(""));
    let web = serve([home, away, guarded]);
    let mut config = config(engine, &[&root]);
    config.scope = argiope_core::crawl::rules::ScopeKind::Any;
    config.allow_private = true;
    config.user = Some("me:pw".parse().expect("credentials"));
    config.header = vec!["X-Key: 1".parse().expect("a header")];
    config.auth = vec![Login { origin: guarded_origin, bearer: Some("t0k".parse().expect("a token")), user: None }];
    assert_eq!(crawl(&config).pages.len(), 5);
    for request in web.log() {
        let expected = match request.host.as_str() {
            // `me:pw` in Base64.
            "127.6.0.5" => (Some("Basic bWU6cHc="), Some("1")),
            "127.6.0.7" => (Some("Bearer t0k"), None),
            _ => (None, None),
        };
        assert_eq!(
            (header(&request, "authorization"), header(&request, "x-key")),
            expected,
            "{}{}",
            request.host,
            request.path
        );
        assert_eq!(header(&request, "referer"), None);
    }
}

/// Settings for a crawl through a proxy.
fn config_with_proxy(engine: EngineName, root: &str, scheme: &str, proxy: &RunningProxy) -> Config {
    let mut config = config(engine, &[root]);
    config.proxy = Some(format!("{scheme}://{}", proxy.address()));
    config
}

/// A site whose name `far.example` only the proxy can resolve, over https with this certificate, or over http.
fn far_site(certificate: Option<CertificateKind>) -> (Site, IpAddr) {
    let address_text = "127.6.0.8:0";
    let site = match certificate {
        Some(certificate) => Site::https(address_text, certificate).expect("a loopback address").name("far.example"),
        None => Site::http(address_text).expect("a loopback address"),
    };
    let address = site.address().ip();
    (site.page("/", Response::links(["/a", "/b"])).fallback(Response::html("<title>far</title>")), address)
}

/// Crawls the site of [`far_site`] through a proxy with a login, and returns the requests that the proxy received.
fn crawl_far(
    engine: EngineName,
    scheme: &str,
    proxy: PracticeProxy,
    certificate: Option<CertificateKind>,
) -> Vec<String> {
    let (site, address) = far_site(certificate);
    let root = site.url_as("far.example", "/");
    let web = serve([site]);
    let proxy = proxy.login("me", "p@ss").name("far.example", address).start("127.6.0.9").expect("a proxy");
    let mut config = config(engine, &[&root]);
    config.proxy = Some(format!("{scheme}://me:p%40ss@{}", proxy.address()));
    let _ca = trust(&mut config, &web);
    let crawled = crawl(&config);
    assert_eq!(crawled.pages.len(), 3);
    for page in &crawled.pages {
        // The crawler does not learn the address, because the proxy resolves the name.
        assert_eq!(
            (page.facts.outcome, page.facts.ip, &page.facts.error),
            (Outcome::Ok, None, &None),
            "{}",
            page.link.url
        );
    }
    for request in web.log() {
        assert!(request.path.starts_with('/') && request.host == "far.example", "{request:?}");
        assert!(!request.headers.iter().any(|(name, _)| name.to_lowercase().starts_with("proxy-")), "{request:?}");
    }
    proxy.requests()
}

pub fn an_http_proxy(engine: EngineName) {
    let requests = crawl_far(engine, "http", PracticeProxy::http(), None);
    assert!(requests.iter().all(|head| head.starts_with("GET http://far.example:")), "{requests:?}");
    let requests = crawl_far(engine, "http", PracticeProxy::http(), Some(CertificateKind::Good));
    assert!(
        requests.iter().all(|head| head.starts_with("CONNECT far.example:") && !head.contains("User-Agent")),
        "{requests:?}"
    );
}

pub fn a_socks_proxy(engine: EngineName) {
    for certificate in [None, Some(CertificateKind::Good)] {
        let requests = crawl_far(engine, "socks5h", PracticeProxy::socks5(), certificate);
        assert!(requests.iter().all(|target| target.starts_with("SOCKS far.example:")), "{requests:?}");
    }
    // With `socks5` (not `socks5h`), the crawler resolves the name and sends the address.
    let (site, address) = far_site(None);
    let port = site.address().port();
    let root = site.url_as("near.example", "/");
    let _web = serve([site]);
    let proxy = PracticeProxy::socks5().start("127.6.0.9").expect("a proxy");
    let mut config = config_with_proxy(engine, &root, "socks5", &proxy);
    config.resolve = vec![format!("near.example:{port}:{address}").parse().expect("a mapping")];
    let crawled = crawl(&config);
    assert!(crawled.pages.iter().all(|page| (page.facts.outcome, page.facts.ip) == (Outcome::Ok, Some(address))));
    assert!(
        proxy.requests().iter().all(|target| *target == format!("SOCKS {address}:{port}")),
        "{:?}",
        proxy.requests()
    );
}

pub fn proxies_that_fail(engine: EngineName) {
    // Scheme of the URL, scheme of the proxy, the proxy, the expected error, and a part of its message.
    let cases: [(&str, &str, PracticeProxy, ErrorKind, &str); 9] = [
        ("http", "http", PracticeProxy::http().login("me", "pw"), ErrorKind::Protocol, "407"),
        ("https", "http", PracticeProxy::http().login("me", "pw"), ErrorKind::Protocol, "407"),
        ("https", "http", PracticeProxy::http(), ErrorKind::Unreachable, "502"),
        (
            "https",
            "http",
            PracticeProxy::http().always_responding("HTTP/1.1 403 No\r\n\r\n"),
            ErrorKind::Protocol,
            "403",
        ),
        ("https", "http", PracticeProxy::http().always_responding("SSH-2.0-x\r\n"), ErrorKind::Protocol, "not HTTP"),
        ("https", "http", PracticeProxy::http().always_responding(""), ErrorKind::Reset, "the proxy closed"),
        (
            "https",
            "http",
            PracticeProxy::http().always_responding(format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(20_000))),
            ErrorKind::Protocol,
            "16 KiB",
        ),
        ("http", "socks5h", PracticeProxy::socks5().login("me", "pw"), ErrorKind::Protocol, "user name and password"),
        (
            "http",
            "socks5h",
            PracticeProxy::socks5().always_responding("HTTP/1.1 400 Bad\r\n\r\n"),
            ErrorKind::Protocol,
            "SOCKS 5",
        ),
    ];
    for (scheme, proxy_scheme, proxy, expected, expected_message) in cases {
        let proxy = proxy.start("127.6.0.10").expect("a proxy");
        let mut config = config_with_proxy(engine, &format!("{scheme}://nowhere.example/"), proxy_scheme, &proxy);
        config.max_tries = 1;
        let crawled = crawl(&config);
        let failure = crawled.pages[0].facts.error.as_ref().expect("a failure");
        assert_eq!(
            (crawled.pages[0].facts.outcome, failure.kind),
            (Outcome::Failed, expected),
            "{expected_message}: {failure}"
        );
        assert!(failure.message.contains(expected_message), "{failure}");
    }
    // Nothing listens at the address of the proxy.
    let gone = PracticeProxy::http().start("127.6.0.10").expect("a proxy").address();
    let mut config = config(engine, &["http://nowhere.example/"]);
    (config.proxy, config.max_tries) = (Some(gone.to_string()), 1);
    let crawled = crawl(&config);
    let failure = crawled.pages[0].facts.error.as_ref().expect("a failure");
    assert!(failure.kind == ErrorKind::ConnectRefused && failure.message.contains("the proxy http://"), "{failure}");
}

pub fn a_proxy_does_not_open_private_addresses(engine: EngineName) {
    let private_urls = [
        "http://127.6.0.12/",
        "http://localhost/",
        "http://[::1]/",
        "http://10.0.0.1/",
        "http://x.internal/",
        "https://localhost/",
    ];
    for (scheme, proxy) in [("http", PracticeProxy::http()), ("socks5h", PracticeProxy::socks5())] {
        let (site, address) = far_site(None);
        let site = site.page("/", Response::links(private_urls));
        let root = site.url_as("far.example", "/");
        let _web = serve([site]);
        let proxy = proxy.name("far.example", address).start("127.6.0.11").expect("a proxy");
        let mut config = config_with_proxy(engine, &root, scheme, &proxy);
        config.scope = argiope_core::crawl::rules::ScopeKind::Any;
        let crawled = crawl(&config);
        for url in private_urls {
            let page = crawled.page(url);
            let kind = page.facts.error.as_ref().map(|failure| failure.kind);
            assert_eq!((page.facts.outcome, kind), (Outcome::Refused, Some(ErrorKind::PrivateAddress)), "{url}");
        }
        assert_eq!(proxy.requests().len(), 1, "{:?}", proxy.requests());
    }
}

/// Crawls of one origin share neither connections nor TLS sessions, under different identities or the same one.
pub fn crawls_share_nothing(engine: EngineName) {
    let (site, _) = far_site(Some(CertificateKind::Good));
    let root = site.url("/");
    let web = serve([site]);
    for user in ["one:pw", "two:pw", "one:pw"] {
        let mut config = config(engine, &[&root]);
        config.per_host = Some(1);
        config.user = Some(user.parse().expect("credentials"));
        let _ca = trust(&mut config, &web);
        assert_eq!(crawl(&config).pages.len(), 3);
    }
    let stats = web.stats();
    assert_eq!((stats.connections, stats.handshakes_full), (3, 3));
    let log = web.log();
    for request in &log {
        let same_connection = log.iter().filter(|other| other.connection == request.connection);
        let login = header(request, "authorization");
        assert!(same_connection.into_iter().all(|other| header(other, "authorization") == login));
    }
}
