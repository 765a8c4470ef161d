//! Values that identify a crawl to servers, or say where these are: headers, logins, and addresses of hosts.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::BadValue;
use crate::base::url::Url;

/// A request header: `Name: value`.
#[derive(Clone, PartialEq, Eq)]
pub struct HeaderLine {
    /// The name of the header.
    pub name: Box<str>,
    /// The value of the header.
    pub value: Box<str>,
}

impl HeaderLine {
    const FORM: &'static str = "write 'Name: value'";
    /// Headers that only the crawler may set, because they belong to the protocol.
    const RESERVED: [&'static str; 12] = [
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
}

impl HeaderLine {
    /// An `Authorization` header.
    pub(crate) fn authorization(value: String) -> Self {
        Self { name: "Authorization".into(), value: value.into() }
    }
}

impl FromStr for HeaderLine {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = |problem: String| BadValue::new(problem, Self::FORM);
        // The text is not repeated, because it may contain a password.
        let (name, value) = text.split_once(':').ok_or_else(|| bad("the header has no colon".to_owned()))?;
        let value = value.trim_matches([' ', '\t']);
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            return Err(bad("the part before the colon is not a header name".to_owned()));
        }
        if value.chars().any(|c| c.is_control() && c != '\t') {
            return Err(bad(format!("the value of {name} has control characters")));
        }
        if name.eq_ignore_ascii_case("user-agent") {
            return Err(BadValue::new(
                "User-Agent applies to all hosts, not only to the roots",
                "use the setting for it",
            ));
        }
        if Self::RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
            return Err(BadValue::new(format!("{name} is set by the crawler itself"), "leave it out"));
        }
        Ok(Self { name: name.into(), value: value.into() })
    }
}

impl fmt::Display for HeaderLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
    }
}

impl fmt::Debug for HeaderLine {
    /// Values are often secrets, so logs omit them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: …", self.name)
    }
}

/// A name and a password: `NAME:PASSWORD`.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    name: Box<str>,
    password: Box<str>,
}

impl Credentials {
    /// The value of an `Authorization` header.
    pub fn basic(&self) -> String {
        use base64::Engine as _;
        let plain = format!("{}:{}", self.name, self.password);
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(plain))
    }
}

impl FromStr for Credentials {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        // The message omits the text, which is likely to be a password.
        let (name, password) =
            text.split_once(':').ok_or_else(|| BadValue::new("the colon is missing", "write NAME:PASSWORD"))?;
        if text.chars().any(char::is_control) {
            return Err(BadValue::new("it has control characters", "write NAME:PASSWORD"));
        }
        Ok(Self { name: name.into(), password: password.into() })
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.password)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:…", self.name)
    }
}

/// A bearer token.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer(Box<str>);

impl Bearer {
    /// The value of an `Authorization` header.
    pub fn authorization(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl FromStr for Bearer {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        // RFC 6750, section 2.1. The message omits the text.
        let is_token = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
        if text.is_empty() || !text.chars().all(is_token) {
            return Err(BadValue::new("it has characters that a token cannot have", "write the token alone"));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// A login for one origin: a name and a password, or a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Login {
    /// Scheme, host and port: `https://example.com:8443`.
    pub origin: String,
    /// The name and password, for Basic authentication.
    pub user: Option<Credentials>,
    /// The token, for Bearer authentication.
    pub bearer: Option<Bearer>,
}

/// Addresses to use for a host name instead of a DNS lookup: `HOST:PORT:ADDR` or `HOST:PORT:ADDR,ADDR`, as in curl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolve {
    /// In normal form, as in a [`Url`].
    pub host: Box<str>,
    /// The port of the host. The addresses do not apply to other ports.
    pub port: u16,
    /// At least one, in the order in which they are tried.
    pub addresses: Vec<IpAddr>,
}

impl FromStr for Resolve {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = |problem: &str| {
            BadValue::new(
                format!("{text:?}: {problem}"),
                "write HOST:PORT:ADDR, as in example.com:443:192.0.2.7 or example.com:443:[2001:db8::1]",
            )
        };
        let (host, rest) = text.split_once(':').ok_or_else(|| bad("the port is missing"))?;
        let (port, addresses) = rest.split_once(':').ok_or_else(|| bad("the address is missing"))?;
        let url = Url::parse(&format!("http://{host}/")).map_err(|_| bad("this is not a host name"))?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(|| bad("this is not a port"))?;
        let addresses = addresses
            .split(',')
            .map(|address| address.trim_start_matches('[').trim_end_matches(']').parse().ok())
            .collect::<Option<Vec<IpAddr>>>()
            .ok_or_else(|| bad("this is not an IP address"))?;
        Ok(Self { host: url.host().into(), port, addresses })
    }
}

impl fmt::Display for Resolve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.host, self.port)?;
        for (index, address) in self.addresses.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match address {
                IpAddr::V4(v4) => write!(f, "{comma}{v4}")?,
                IpAddr::V6(v6) => write!(f, "{comma}[{v6}]")?,
            }
        }
        Ok(())
    }
}
