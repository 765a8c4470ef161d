//! Cookie files in the Netscape format of browsers and curl: seven fields per line, separated by tabs.

use super::set_cookie::{MAX_COOKIE, is_control};
use super::{Cookie, CookieJar, is_address, is_public_suffix, lowercase_host, satisfies_name_prefix};

/// A line that is not a cookie.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct BadCookieLine {
    /// Counted from 1.
    pub line: usize,
    pub problem: &'static str,
}

impl CookieJar {
    /// Parses a cookie file. Expired cookies are left out.
    pub fn from_netscape(file: &[u8], now: i64) -> Result<Self, BadCookieLine> {
        let mut jar = Self::default();
        for (index, line) in file.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let line = match line.strip_prefix(b"#HttpOnly_") {
                Some(cookie) => cookie,
                None if line.trim_ascii().is_empty() || line.starts_with(b"#") => continue,
                None => line,
            };
            let mut cookie = parse_line(line).map_err(|problem| BadCookieLine { line: index + 1, problem })?;
            // Ticks of the jar's logical clock, unlike `now`.
            cookie.created = jar.next_tick();
            cookie.used = cookie.created;
            jar.insert(cookie, now);
        }
        Ok(jar)
    }
}

fn parse_line(line: &[u8]) -> Result<Cookie, &'static str> {
    const FIELDS: &str = "a cookie has seven fields with tabs between them: domain, TRUE or FALSE (subdomains too), \
                          path, TRUE or FALSE (https only), time of expiry, name, value";
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b'\t').collect();
    // An empty value and the tab before it may be missing.
    let (domain, subdomains, path, secure, expires, name, value) = match *fields.as_slice() {
        [domain, subdomains, path, secure, expires, name, value] => {
            (domain, subdomains, path, secure, expires, name, value)
        }
        [domain, subdomains, path, secure, expires, name] => (domain, subdomains, path, secure, expires, name, &[][..]),
        _ => return Err(FIELDS),
    };
    let domain = std::str::from_utf8(domain).ok().filter(|domain| domain.is_ascii());
    let domain = domain.ok_or("the first field is not a host name")?;
    let domain = lowercase_host(domain.strip_prefix('.').unwrap_or(domain));
    let path = std::str::from_utf8(path).ok().filter(|path| path.starts_with('/'));
    let expires: u64 = std::str::from_utf8(expires)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or("the fifth field is not a number of seconds since 1970")?;
    if domain.is_empty() {
        return Err("the first field is not a host name");
    }
    if name.is_empty() && value.is_empty() {
        return Err("there is neither a name nor a value");
    }
    if name.len() + value.len() > MAX_COOKIE {
        return Err("name and value together are longer than 4096 bytes");
    }
    if name.iter().chain(value).copied().any(|byte| is_control(byte) || byte == b';') || name.contains(&b'=') {
        return Err("name or value has characters that cookies may not have");
    }
    let includes_subdomains = flag(subdomains).ok_or("the second field is neither TRUE nor FALSE")?;
    // Every name without a dot, such as `localhost`, counts as a public suffix. Its cookies are accepted, but only for
    // the host of that name (see `host_only`).
    if includes_subdomains && is_public_suffix(&domain) && domain.contains('.') {
        return Err("the domain is a public suffix: the cookie would be sent to every site below it");
    }
    let cookie = Cookie {
        name: name.into(),
        value: value.into(),
        host_only: !includes_subdomains || is_address(&domain) || is_public_suffix(&domain),
        domain: domain.into(),
        path: path.ok_or("the third field is not a path")?.into(),
        // 0 stands for a session cookie.
        expires: if expires == 0 { i64::MAX } else { i64::try_from(expires).unwrap_or(i64::MAX) },
        created: 0,
        used: 0,
        secure: flag(secure).ok_or("the fourth field is neither TRUE nor FALSE")?,
    };
    // Every line has a path, while `Set-Cookie` may lack it.
    let has_path = true;
    if satisfies_name_prefix(&cookie, has_path) {
        Ok(cookie)
    } else {
        Err("the cookie does not have the attributes that its name prefix, __Secure- or __Host-, requires")
    }
}

fn flag(field: &[u8]) -> Option<bool> {
    [(true, b"TRUE".as_slice()), (false, b"FALSE")]
        .into_iter()
        .find(|(_, word)| field.eq_ignore_ascii_case(word))
        .map(|(flag, _)| flag)
}
