//! Finds the proxies of the settings and the environment, and their IP addresses.

use std::net::{IpAddr, ToSocketAddrs};

use argiope_core::crawl::rules::{Config, ConfigError};
use argiope_core::http::proxy::{Proxies, Proxy, ip_literal};

/// The proxies for these settings. Their names are resolved now, so that a mistake is reported before the crawl starts.
pub fn load(config: &Config) -> Result<Proxies, ConfigError> {
    // A variable that is not UTF-8 cannot name a proxy.
    let mut proxies = Proxies::new(config.proxy.as_deref(), |name| std::env::var(name).ok())?;
    proxies.locate(look_up)?;
    Ok(proxies)
}

/// The addresses of a proxy.
fn look_up(proxy: &Proxy) -> Result<Vec<IpAddr>, ConfigError> {
    if let Some(address) = ip_literal(&proxy.host) {
        return Ok(vec![address]);
    }
    let found = (&*proxy.host, proxy.port).to_socket_addrs();
    let found = found.map(|found| found.map(|address| address.ip()).collect::<Vec<_>>());
    match found {
        Ok(addresses) if !addresses.is_empty() => Ok(addresses),
        _ => Err(ConfigError {
            key: "proxy",
            value: proxy.to_string(),
            problem: "there is no such host; write the proxy's name or address".to_owned(),
        }),
    }
}
