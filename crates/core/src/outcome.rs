//! [`Outcome`]: the fate of an address, a closed set with stable names.
//!
//! Invariant: the names are those of the record format; scripts rely on them.

use std::fmt;

macro_rules! names {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in records, logs and reports.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)* _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::from_name(&name).ok_or_else(|| serde::de::Error::custom(format!("unknown name {name:?}")))
            }
        }
    };
}

names! {
    /// What became of an address.
    Outcome {
        /// A 2xx answer; with `truncated` where the body is not whole.
        Ok = "ok",
        /// A 3xx answer with a Location.
        Redirect = "redirect",
        /// 304 to a conditional request.
        NotModified = "not_modified",
        /// Every other status.
        HttpError = "http_error",
        /// No answer that could be read.
        Failed = "failed",
        /// robots.txt forbids it, or could not be read.
        Robots = "robots",
        /// Refused by us: a private address or a blocked port.
        Refused = "refused",
    }
}

names! {
    /// Why there was no usable answer, or why it is not whole.
    ErrorKind {
        DnsNxdomain = "dns_nxdomain",
        DnsServfail = "dns_servfail",
        DnsTimeout = "dns_timeout",
        DnsInvalid = "dns_invalid",
        ConnectRefused = "connect_refused",
        ConnectTimeout = "connect_timeout",
        Unreachable = "unreachable",
        Tls = "tls",
        TimeoutFirstByte = "timeout_first_byte",
        TimeoutIdle = "timeout_idle",
        TimeoutTotal = "timeout_total",
        TooSlow = "too_slow",
        Reset = "reset",
        EmptyReply = "empty_reply",
        Protocol = "protocol",
        HeaderTooLarge = "header_too_large",
        TooLarge = "too_large",
        Decode = "decode",
        RedirectLimit = "redirect_limit",
        RedirectInvalid = "redirect_invalid",
        RedirectBlocked = "redirect_blocked",
        PrivateAddress = "private_address",
        BlockedPort = "blocked_port",
        ParseLimit = "parse_limit",
        RobotsUnreachable = "robots_unreachable",
        Internal = "internal",
    }
}

names! {
    /// What cut a body short; it was kept up to there.
    Truncated {
        /// A limit on size.
        Length = "length",
        /// A deadline.
        Time = "time",
        /// The other side left.
        Disconnect = "disconnect",
        /// The coding was broken.
        Decode = "decode",
    }
}

/// What went wrong, for a script (`kind`) and for a person (`message`).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Failure {
    pub kind: ErrorKind,
    pub message: Box<str>,
}

impl Failure {
    pub fn new(kind: ErrorKind, message: impl Into<Box<str>>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}
