//! [`Proxies`]: which proxy a request uses, from `--proxy` and the environment, with curl's rules.
//!
//! | variable | for |
//! |---|---|
//! | `http_proxy` | http; lower case only, because a CGI program receives the header `Proxy` as `HTTP_PROXY` |
//! | `https_proxy`, `HTTPS_PROXY` | https |
//! | `all_proxy`, `ALL_PROXY` | schemes without a variable of their own |
//! | `no_proxy`, `NO_PROXY` | hosts that are contacted directly, even with `--proxy` |
//!
//! `--proxy` applies to both schemes and replaces all these variables except `no_proxy`. With an empty value, no proxy
//! is used. Unlike in curl, proxies from the environment are not used for `localhost` and loopback addresses: the proxy
//! would contact its own machine.
//!
//! Invariant: the proxy of a request depends only on its origin. Pooled connections are keyed by origin, so a
//! connection through one proxy is never used for another. A proxy's login is sent to that proxy only.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use base64::Engine as _;

use crate::base::url::{Url, UrlRef};
use crate::base::value::ConfigError;

/// Default port, as in curl.
const DEFAULT_PORT: u16 = 1080;
/// The end of every message about an invalid proxy.
const EXPECTED_FORM: &str = "write http://HOST:PORT, socks5://HOST:PORT or socks5h://HOST:PORT, with NAME:PASSWORD@ \
                             before the host if the proxy requires a login";

/// One proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub kind: ProxyKind,
    pub host: Box<str>,
    pub port: u16,
    pub login: Option<ProxyLogin>,
    /// The addresses of the host. The core does not resolve names: see [`Proxies::locate`].
    pub addresses: Arc<[IpAddr]>,
}

/// The protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// HTTP: the proxy forwards whole requests for http, and makes tunnels for https (`CONNECT`). It resolves names.
    Http,
    /// SOCKS 5 with addresses: names are resolved locally.
    Socks5,
    /// SOCKS 5 with names: the proxy resolves them.
    Socks5h,
}

/// User name and password for a proxy, decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyLogin {
    pub name: Box<[u8]>,
    pub password: Box<[u8]>,
}

/// The proxies of a crawl.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    http: Option<Arc<Proxy>>,
    https: Option<Arc<Proxy>>,
    is_from_environment: bool,
    exceptions: Exceptions,
}

/// Hosts that are contacted directly.
#[derive(Clone, Debug, Default)]
struct Exceptions {
    includes_all: bool,
    /// Each is an IP address, a network, or a host name, which also stands for its subdomains.
    patterns: Vec<Box<str>>,
}

impl Proxies {
    /// `given` is the value of `--proxy`; `variable` reads the environment.
    pub fn new(given: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        // The proxy in the first of these variables that is set and not empty.
        let first_set = |names: &[&'static str]| {
            let found = names.iter().find_map(|name| Some((*name, variable(name).filter(|text| !text.is_empty())?)));
            found.map(|(name, text)| Proxy::parse(&text, Some(name)).map(Arc::new)).transpose()
        };
        let exceptions = ["no_proxy", "NO_PROXY"].into_iter().find_map(&variable).unwrap_or_default();
        let exceptions = Exceptions::parse(&exceptions);
        let (http, https) = match given {
            Some("") => (None, None),
            Some(text) => {
                let proxy = Arc::new(Proxy::parse(text, None)?);
                (Some(Arc::clone(&proxy)), Some(proxy))
            }
            None => (
                first_set(&["http_proxy", "all_proxy", "ALL_PROXY"])?,
                first_set(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])?,
            ),
        };
        Ok(Self { http, https, is_from_environment: given.is_none(), exceptions })
    }

    /// The proxy for a URL; `None` if the host is contacted directly.
    pub fn of(&self, url: UrlRef<'_>) -> Option<&Arc<Proxy>> {
        self.for_scheme(url.is_https(), url.host())
    }

    /// Whether the proxy resolves this host name; `None` if that differs between http and https.
    pub fn resolves_name(&self, host: &str) -> Option<bool> {
        let [http, https] =
            [false, true].map(|https| self.for_scheme(https, host).is_some_and(|proxy| proxy.resolves()));
        (http == https).then_some(http)
    }

    /// Fills in the addresses of the proxies with `look_up`.
    pub fn locate<E>(&mut self, look_up: impl Fn(&Proxy) -> Result<Vec<IpAddr>, E>) -> Result<(), E> {
        let is_same = self.http == self.https;
        for proxy in [&mut self.http, &mut self.https].into_iter().flatten() {
            let addresses = look_up(proxy)?.into();
            Arc::make_mut(proxy).addresses = addresses;
        }
        if is_same {
            // Share one value, as before.
            self.https.clone_from(&self.http);
        }
        Ok(())
    }

    fn for_scheme(&self, is_https: bool, host: &str) -> Option<&Arc<Proxy>> {
        let proxy = if is_https { &self.https } else { &self.http };
        let proxy = proxy.as_ref()?;
        let is_direct = self.exceptions.contains(host) || (self.is_from_environment && is_loopback(host));
        (!is_direct).then_some(proxy)
    }
}

impl Proxy {
    /// `variable` names the environment variable the text comes from; `None` for `--proxy`.
    fn parse(text: &str, variable: Option<&'static str>) -> Result<Self, ConfigError> {
        let bad = |problem: &str| {
            let from = variable.map(|name| format!("in the environment variable {name}: ")).unwrap_or_default();
            ConfigError {
                key: "proxy",
                value: without_login(text),
                problem: format!("{from}{problem}; {EXPECTED_FORM}"),
            }
        };
        let text = text.trim();
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let kind = match scheme.to_ascii_lowercase().as_str() {
            "http" => ProxyKind::Http,
            "socks5" => ProxyKind::Socks5,
            "socks5h" => ProxyKind::Socks5h,
            _ => return Err(bad("this kind of proxy is not supported")),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (login, host_and_port) = match authority.rsplit_once('@') {
            Some((login, host_and_port)) => (Some(login), host_and_port),
            None => (None, authority),
        };
        let url = Url::parse(&format!("http://{host_and_port}/")).map_err(|_| bad("the host is missing"))?;
        let has_port = host_and_port.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let login = login.map(|login| {
            let (name, password) = login.split_once(':').unwrap_or((login, ""));
            ProxyLogin { name: decode(name), password: decode(password) }
        });
        let fits_socks = |login: &ProxyLogin| (1..=255).contains(&login.name.len()) && login.password.len() <= 255;
        if kind != ProxyKind::Http && !login.as_ref().is_none_or(fits_socks) {
            return Err(bad("SOCKS requires a name and a password of at most 255 bytes"));
        }
        let host = url.host();
        let port = if has_port { url.port() } else { DEFAULT_PORT };
        Ok(Self { kind, host: host.into(), port, login, addresses: ip_literal(host).into_iter().collect() })
    }

    /// True if the proxy resolves names.
    pub fn resolves(&self) -> bool {
        self.kind != ProxyKind::Socks5
    }

    /// True if the proxy forwards whole requests for this URL, without a tunnel.
    pub fn relays(&self, url: UrlRef<'_>) -> bool {
        self.kind == ProxyKind::Http && !url.is_https()
    }

    /// The value of `Proxy-Authorization`.
    pub fn authorization(&self) -> Option<String> {
        let login = self.login.as_ref()?;
        let plain = [&*login.name, b":", &*login.password].concat();
        Some(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(plain)))
    }
}

impl fmt::Display for Proxy {
    /// Without user name and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            ProxyKind::Http => "http",
            ProxyKind::Socks5 => "socks5",
            ProxyKind::Socks5h => "socks5h",
        };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Exceptions {
    fn parse(text: &str) -> Self {
        if text == "*" {
            return Self { includes_all: true, patterns: Vec::new() };
        }
        let mut patterns = Vec::new();
        for part in text.split(',') {
            // As in curl, the list ends at the first blank within an entry.
            let mut words = part.split([' ', '\t']).filter(|word| !word.is_empty());
            patterns.extend(words.next().map(Box::from));
            if words.next().is_some() {
                break;
            }
        }
        Self { includes_all: false, patterns }
    }

    fn contains(&self, host: &str) -> bool {
        let address = ip_literal(host);
        let name = host.strip_suffix('.').unwrap_or(host);
        let is_match = |pattern: &str| match address {
            Some(address) => in_network(address, pattern),
            None => {
                let pattern = pattern.strip_suffix('.').unwrap_or(pattern);
                let pattern = pattern.strip_prefix('.').unwrap_or(pattern).to_ascii_lowercase();
                let rest = name.strip_suffix(pattern.as_str());
                !pattern.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
        };
        self.includes_all || self.patterns.iter().any(|pattern| is_match(pattern))
    }
}

/// True if `address` is this address or within this network, as in `10.0.0.0/8`. As in curl, a missing prefix length
/// and 0 mean all bits.
fn in_network(address: IpAddr, pattern: &str) -> bool {
    let (network, bits) = pattern.split_once('/').unwrap_or((pattern, "0"));
    let network = network.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(network);
    let Ok(bits) = bits.parse::<u32>() else { return false };
    let has_same_prefix = |one: u128, other: u128, width: u32| match bits {
        0 => one == other,
        bits if bits <= width => (one ^ other) >> (width - bits) == 0,
        _ => false,
    };
    match (address, network.parse()) {
        (IpAddr::V4(one), Ok(IpAddr::V4(other))) => has_same_prefix(one.to_bits().into(), other.to_bits().into(), 32),
        (IpAddr::V6(one), Ok(IpAddr::V6(other))) => has_same_prefix(one.to_bits(), other.to_bits(), 128),
        _ => false,
    }
}

/// The IP address that the host part of a URL is; `None` for a name.
pub fn ip_literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(ipv6) => ipv6.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

fn is_loopback(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host);
    ip_literal(host).is_some_and(|address| address.is_loopback()) || name == "localhost" || name.ends_with(".localhost")
}

/// The proxy URL for messages, without user name and password.
fn without_login(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host_and_port)| host_and_port);
    if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") }
}

/// Decodes percent-encoding.
fn decode(text: &str) -> Box<[u8]> {
    percent_encoding::percent_decode_str(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(given: Option<&str>, variables: &[(&str, &str)]) -> Proxies {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        Proxies::new(given, variable).expect("valid proxies")
    }

    /// The proxy for a URL; empty if there is none.
    fn proxy_for(proxies: &Proxies, url: &str) -> String {
        let url = Url::parse(url).expect("a valid URL");
        proxies.of(url.as_ref()).map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn environment_variables_are_read_as_in_curl() {
        let (plain, secure) = ("http://h.example/", "https://h.example/");
        // Variables, then the proxy for http and for https.
        type Variables = &'static [(&'static str, &'static str)];
        let cases: &[(Variables, &str, &str)] = &[
            (&[("http_proxy", "http://p:1")], "http://p:1", ""),
            (&[("HTTP_PROXY", "http://p:1")], "", ""),
            (&[("https_proxy", "p:2")], "", "http://p:2"),
            (&[("HTTPS_PROXY", "p:2")], "", "http://p:2"),
            (&[("https_proxy", "p:2"), ("HTTPS_PROXY", "p:3")], "", "http://p:2"),
            (&[("all_proxy", "socks5h://p")], "socks5h://p:1080", "socks5h://p:1080"),
            (&[("ALL_PROXY", "socks5://p:9"), ("http_proxy", "q:1")], "http://q:1", "socks5://p:9"),
            (&[("all_proxy", "p:1"), ("no_proxy", "*")], "", ""),
            (&[("all_proxy", "p:1"), ("NO_PROXY", "h.example")], "", ""),
            (&[("all_proxy", "")], "", ""),
        ];
        for (variables, http, https) in cases {
            let proxies = proxies(None, variables);
            assert_eq!(
                (proxy_for(&proxies, plain).as_str(), proxy_for(&proxies, secure).as_str()),
                (*http, *https),
                "{variables:?}"
            );
        }
        let given = proxies(Some("http://mine:3"), &[("http_proxy", "p:1"), ("no_proxy", "other.example")]);
        assert_eq!(
            (proxy_for(&given, plain).as_str(), proxy_for(&given, "http://other.example/").as_str()),
            ("http://mine:3", "")
        );
        assert_eq!(proxy_for(&proxies(Some(""), &[("all_proxy", "p:1")]), plain), "");
    }

    #[test]
    fn exceptions_match_subdomains_addresses_and_networks() {
        let cases = [
            ("example.org", "example.org", true),
            ("example.org", "www.example.org", true),
            (".example.org", "example.org", true),
            ("EXAMPLE.org.", "www.example.org.", true),
            ("example.org", "notexample.org", false),
            ("a,,b , example.org", "example.org", true),
            ("a b,example.org", "example.org", false),
            ("*,example.org", "other.org", false),
            (".", "example.org", false),
            ("192.168.0.0/16", "192.168.7.1", true),
            ("192.168.0.0/16", "192.169.0.1", false),
            ("192.168.7.1", "192.168.7.1", true),
            ("192.168.7.0/0", "192.168.7.1", false),
            ("192.168.7.1/33", "192.168.7.1", false),
            ("192.168.7.0/x", "192.168.7.1", false),
            ("168.7.1", "192.168.7.1", false),
            ("[2001:db8::1]", "[2001:db8::1]", true),
            ("2001:db8::/32", "[2001:db8::1]", true),
            ("2001:db8::/32", "[2001:db9::1]", false),
        ];
        for (list, host, expected) in cases {
            assert_eq!(Exceptions::parse(list).contains(host), expected, "{list} {host}");
        }
    }

    #[test]
    fn loopback_hosts_bypass_proxies_of_the_environment() {
        for host in ["localhost", "x.localhost.", "127.0.0.1", "[::1]"] {
            let url = format!("http://{host}/");
            assert_eq!(proxy_for(&proxies(None, &[("http_proxy", "p:1")]), &url), "");
            assert_eq!(proxy_for(&proxies(Some("p:1"), &[]), &url), "http://p:1");
        }
    }

    #[test]
    fn a_login_is_decoded_and_never_shown() {
        let proxy = Proxy::parse("http://us%40er:p%3Aw:d@[::1]:80", None).expect("a proxy");
        let login = proxy.login.as_ref().expect("a login");
        assert_eq!((&*login.name, &*login.password), (&b"us@er"[..], &b"p:w:d"[..]));
        assert_eq!(proxy.authorization().as_deref(), Some("Basic dXNAZXI6cDp3OmQ="));
        assert_eq!((format!("{proxy:?}").as_str(), proxy.addresses.len()), ("http://[::1]:80", 1));
        for text in
            ["https://me:secret@p:1", "ftp://me:secret@p", "socks4://p", "http://me:secret@", "socks5://:secret@p"]
        {
            let bad = Proxy::parse(text, Some("https_proxy")).expect_err(text).to_string();
            assert!(!bad.contains("secret") && bad.contains("https_proxy"), "{bad}");
        }
    }

    #[test]
    fn proxies_resolve_names_unless_they_are_socks5() {
        assert_eq!(proxies(Some("http://p:1"), &[]).resolves_name("h.example"), Some(true));
        assert_eq!(proxies(Some("socks5h://p:1"), &[]).resolves_name("h.example"), Some(true));
        assert_eq!(proxies(Some("socks5://p:1"), &[]).resolves_name("h.example"), Some(false));
        assert_eq!(proxies(None, &[("http_proxy", "p:1")]).resolves_name("h.example"), None);
        assert_eq!(proxies(Some("http://p:1"), &[("no_proxy", "h.example")]).resolves_name("h.example"), Some(false));
    }
}
