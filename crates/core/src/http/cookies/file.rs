//! Cookie files in the Netscape format of browsers and curl: seven fields per line, separated by tabs.

use super::set_cookie::{MAX_COOKIE, is_control};
use super::{Cookie, CookieJar, canonical, has_prefix_attributes, is_address, is_public_suffix};

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
            let mut cookie = read(line).map_err(|problem| BadCookieLine { line: index + 1, problem })?;
            cookie.created = jar.tick();
            cookie.used = cookie.created;
            jar.insert(cookie, now);
        }
        Ok(jar)
    }
}

fn read(line: &[u8]) -> Result<Cookie, &'static str> {
    const FIELDS: &str = "a cookie has seven fields with tabs between them: domain, TRUE or FALSE (names below it too), \
                          path, TRUE or FALSE (https only), when it ends, name, value";
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b'\t').collect();
    let (domain, below, path, secure, expires, name, value) = match *fields.as_slice() {
        [domain, below, path, secure, expires, name, value] => (domain, below, path, secure, expires, name, value),
        [domain, below, path, secure, expires, name] => (domain, below, path, secure, expires, name, &[][..]),
        _ => return Err(FIELDS),
    };
    let domain = std::str::from_utf8(domain).ok().filter(|domain| domain.is_ascii());
    let domain = domain.ok_or("the first field is not a host name")?;
    let domain = canonical(domain.strip_prefix('.').unwrap_or(domain));
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
        return Err("there are characters in it that no cookie may have");
    }
    let below = flag(below).ok_or("the second field is neither TRUE nor FALSE")?;
    if below && is_public_suffix(&domain) && domain.contains('.') {
        return Err("its domain is a public suffix: it would go to every site below it");
    }
    let cookie = Cookie {
        name: name.into(),
        value: value.into(),
        host_only: !below || is_address(&domain) || is_public_suffix(&domain),
        domain: domain.into(),
        path: path.ok_or("the third field is not a path")?.into(),
        expires: if expires == 0 { i64::MAX } else { i64::try_from(expires).unwrap_or(i64::MAX) },
        created: 0,
        used: 0,
        secure: flag(secure).ok_or("the fourth field is neither TRUE nor FALSE")?,
    };
    if has_prefix_attributes(&cookie, true) {
        Ok(cookie)
    } else {
        Err("the cookie is not what its __Secure- or __Host- says")
    }
}

fn flag(field: &[u8]) -> Option<bool> {
    [(true, b"TRUE".as_slice()), (false, b"FALSE")]
        .into_iter()
        .find(|(_, word)| field.eq_ignore_ascii_case(word))
        .map(|(flag, _)| flag)
}
