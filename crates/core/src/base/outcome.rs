//! [`Outcome`]: the final state of a URL, a closed set with stable names.
//!
//! Invariant: the names are those of the record format, and scripts rely on them.

use std::borrow::Cow;
use std::fmt;

/// Defines an enum whose variants have fixed names in records.
macro_rules! names {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All variants, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The names of all variants, in order.
            pub const NAMES: &'static [&'static str] = &[$($text,)*];

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
                let name = <Cow<'de, str>>::deserialize(deserializer)?;
                Self::from_name(&name).ok_or_else(|| serde::de::Error::custom(format!("unknown name {name:?}")))
            }
        }
    };
}

names! {
    /// The final state of a URL.
    Outcome {
        /// A 2xx response; `truncated` is set if the body is incomplete.
        Ok = "ok",
        /// A 3xx response with a Location.
        Redirect = "redirect",
        /// 304 to a conditional request.
        NotModified = "not_modified",
        /// Any other status.
        HttpError = "http_error",
        /// No readable response.
        Failed = "failed",
        /// Not fetched, because robots.txt forbids it or could not be read.
        Robots = "robots",
        /// Not requested, and not because of robots.txt: a private address, a blocked port, an excluded link, a request
        /// that must not be repeated, or the request hook.
        Refused = "refused",
    }
}

names! {
    /// Why there was no usable response, or why it is incomplete.
    #[non_exhaustive]
    ErrorKind {
        DnsNxdomain = "dns_nxdomain",
        DnsServfail = "dns_servfail",
        DnsTimeout = "dns_timeout",
        /// The host name or the DNS answer is malformed.
        DnsInvalid = "dns_invalid",
        ConnectRefused = "connect_refused",
        ConnectTimeout = "connect_timeout",
        /// There is no route to the host, or it has no address, or the proxy could not connect to it.
        Unreachable = "unreachable",
        Tls = "tls",
        TimeoutFirstByte = "timeout_first_byte",
        TimeoutIdle = "timeout_idle",
        TimeoutTotal = "timeout_total",
        /// The body arrived below the minimum rate.
        TooSlow = "too_slow",
        /// The connection broke before the response was complete.
        Reset = "reset",
        /// The connection was closed before the first byte of a response.
        EmptyReply = "empty_reply",
        /// The response is not valid HTTP.
        Protocol = "protocol",
        HeaderTooLarge = "header_too_large",
        /// The body exceeds the limit on its size.
        TooLarge = "too_large",
        /// The compressed data is invalid.
        Decode = "decode",
        RedirectLimit = "redirect_limit",
        /// The target of a redirect is not a valid URL.
        RedirectInvalid = "redirect_invalid",
        /// The target of a redirect is neither http nor https.
        RedirectBlocked = "redirect_blocked",
        RedirectLoop = "redirect_loop",
        PrivateAddress = "private_address",
        BlockedPort = "blocked_port",
        /// A sitemap exceeds a limit, or uses XML entities that are not predefined.
        ParseLimit = "parse_limit",
        /// The robots.txt of the host could not be fetched, so no page of the host may be fetched.
        RobotsUnreachable = "robots_unreachable",
        /// A request of a rendered page would add a host, and the budgets against crawler traps or the memory allow no more.
        Trap = "trap",
        /// A request hook of the library's user aborted the request, or a closure of the user panicked.
        Hook = "hook",
        /// An earlier run may have sent a form. Its result is not known, and the form is not sent again.
        NotRepeated = "not_repeated",
        /// A bug in Argiope.
        Internal = "internal",
    }
}

names! {
    /// Why a body is incomplete; the part that arrived is kept.
    #[non_exhaustive]
    Truncated {
        /// A limit on size.
        Length = "length",
        /// A deadline.
        Time = "time",
        /// The host closed the connection.
        Disconnect = "disconnect",
        /// The content coding was invalid.
        Decode = "decode",
        /// A response hook of the library's user stopped the download.
        Hook = "hook",
    }
}

names! {
    /// What failed, as far as a URL is concerned.
    #[non_exhaustive]
    FailedPart {
        /// The request for the URL itself.
        Request = "request",
        /// The host: it stopped responding, and its queued URLs were given up.
        Host = "host",
        /// The request for the robots.txt of the host.
        Robots = "robots",
    }
}

names! {
    /// How the TLS handshake failed.
    #[non_exhaustive]
    TlsFault {
        /// What answers does not speak TLS, or has sent nothing when the connection ended.
        Absent = "absent",
        /// The certificate does not lead to a trusted authority.
        Untrusted = "untrusted",
        /// The certificate is not valid: it has expired, is for another name, or has another fault.
        Invalid = "invalid",
        /// The handshake was refused, broke off or took too long, or there is no common version.
        Handshake = "handshake",
    }
}

/// The settings with which a user can change that something fails. The command and the library each have words for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// `ca_cert` trusts the authority of the certificate, `insecure` skips the verification.
    TrustAuthority,
    /// `ca_cert` does not help, `insecure` skips the verification.
    SkipVerification,
    /// `allow_private` allows addresses of private networks.
    AllowPrivate,
}

impl Advice {
    /// Words without settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TrustAuthority => "trust its authority, or skip the verification",
            Self::SkipVerification => "only without the verification",
            Self::AllowPrivate => "private addresses are not allowed",
        }
    }
}

/// Maximum length of a failure's message in bytes.
pub(crate) const MAX_MESSAGE: usize = 1_000;

/// What went wrong: `kind` and `part` for scripts, `message` for people.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Failure {
    pub kind: ErrorKind,
    pub message: Box<str>,
    /// What failed. Records omit it for the request itself.
    #[serde(default, skip_serializing_if = "FailedPart::is_request")]
    pub part: FailedPart,
    /// How the TLS handshake failed; `None` if it did not fail, or was not begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFault>,
}

impl Failure {
    /// A failure with a message for people. Long messages are cut, because they may quote what a server sent.
    pub fn new(kind: ErrorKind, message: impl Into<Box<str>>) -> Self {
        let message = message.into();
        if message.len() <= MAX_MESSAGE {
            return Self { kind, message, part: FailedPart::Request, tls: None };
        }
        let cut = message.get(..message.floor_char_boundary(MAX_MESSAGE)).unwrap_or_default();
        Self { kind, message: format!("{cut}…").into(), part: FailedPart::Request, tls: None }
    }

    /// The failure of a TLS handshake.
    #[must_use]
    pub(crate) fn with_tls(self, fault: TlsFault) -> Self {
        Self { tls: Some(fault), ..self }
    }

    /// The failure of the other URLs of a host that stopped responding. `last` is the last failure of the host.
    pub(crate) fn given_up(last: &Self) -> Self {
        Self {
            part: FailedPart::Host,
            tls: last.tls,
            ..Self::new(last.kind, format!("the host was given up on: {}", last.message))
        }
    }

    /// The failure of all URLs of an origin whose robots.txt could not be fetched. `self` is the failure of that fetch.
    #[must_use]
    pub(crate) fn of_robots(self) -> Self {
        let message = format!("robots.txt could not be fetched: {}", self.message).into();
        Self { message, part: FailedPart::Robots, ..self }
    }

    /// Whether the URL failed because its host could not be reached for now, and not because of the URL itself.
    pub fn concerns_host(&self) -> bool {
        self.part != FailedPart::Request
            || matches!(self.kind, ErrorKind::DnsServfail | ErrorKind::DnsTimeout | ErrorKind::RobotsUnreachable)
    }

    /// Whether the attempt ended before there was a connection to the host, so that it received no request.
    pub fn is_before_connection(&self) -> bool {
        use ErrorKind as K;
        match self.kind {
            K::DnsNxdomain | K::DnsServfail | K::DnsTimeout | K::DnsInvalid => true,
            K::ConnectRefused | K::ConnectTimeout | K::PrivateAddress | K::BlockedPort => true,
            // A host that is given up because of its responses has this kind too.
            K::Unreachable => self.part != FailedPart::Host,
            _ => false,
        }
    }

    /// Whether a URL with this failure, of which no request was sent last, may have been requested before: an earlier
    /// attempt failed, and then its host was given up on, or a hook dropped the repetition.
    fn ends_repetitions(&self) -> bool {
        self.is_given_up() || self.kind == ErrorKind::Hook
    }

    /// What the user can do about the failure.
    pub fn advice(&self) -> Option<Advice> {
        match self.tls {
            Some(TlsFault::Untrusted) => Some(Advice::TrustAuthority),
            Some(TlsFault::Invalid) => Some(Advice::SkipVerification),
            _ if self.kind == ErrorKind::PrivateAddress => Some(Advice::AllowPrivate),
            _ => None,
        }
    }

    /// The message, and what the user can do about the failure, in these words.
    pub fn advised(&self, words: fn(Advice) -> &'static str) -> Cow<'_, str> {
        match self.advice() {
            Some(advice) => format!("{}; {}", self.message, words(advice)).into(),
            None => Cow::Borrowed(&self.message),
        }
    }

    /// Whether a root without a scheme, whose https URL failed like this, is tried over http: the port is closed, or
    /// what answers there does not speak TLS. A bad certificate is never a reason for http.
    pub fn allows_plain_http(&self) -> bool {
        match (self.tls, self.kind) {
            (Some(fault), _) => fault == TlsFault::Absent,
            (None, ErrorKind::ConnectRefused | ErrorKind::ConnectTimeout) => true,
            // A host that is given up because of its responses has this kind too.
            (None, ErrorKind::Unreachable) => self.part != FailedPart::Host,
            _ => false,
        }
    }

    /// Whether the URL failed because its host stopped responding.
    pub fn is_given_up(&self) -> bool {
        self.part == FailedPart::Host
    }
}

// The macro of names derives no default.
#[allow(clippy::derivable_impls)]
impl Default for FailedPart {
    fn default() -> Self {
        Self::Request
    }
}

impl FailedPart {
    fn is_request(&self) -> bool {
        *self == Self::Request
    }
}

/// Whether a URL was requested from its host. `--max-pages` counts the pages for which this is true, and so do reports.
/// `was_sent`: its last attempt was made, with `failure` as its result. `tries` are all its attempts.
///
/// An attempt that ends before there is a connection is not a request, and a page whose last attempt was one of these
/// is not counted. Visits and their records call this function, so both always agree.
pub fn is_requested(was_sent: bool, tries: u8, failure: Option<&Failure>) -> bool {
    match failure {
        Some(failure) if failure.is_before_connection() => false,
        Some(failure) if !was_sent => tries > 0 && failure.ends_repetitions(),
        _ => was_sent,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(record: &str) -> Failure {
        serde_json::from_str(record).expect("a failure")
    }

    #[test]
    fn records_say_what_failed_unless_it_is_the_request() {
        let reset = Failure::new(ErrorKind::Reset, "gone");
        assert_eq!(serde_json::to_string(&reset).expect("JSON"), r#"{"kind":"reset","message":"gone"}"#);
        assert!(!reset.concerns_host() && !reset.is_given_up());
        let given_up = Failure::given_up(&reset);
        assert!(given_up.concerns_host() && given_up.is_given_up());
        let robots = reset.clone().of_robots();
        assert!(robots.concerns_host() && !robots.is_given_up());
        let certificate = Failure::new(ErrorKind::Tls, "expired").with_tls(TlsFault::Invalid);
        assert_eq!(
            serde_json::to_string(&certificate).expect("JSON"),
            r#"{"kind":"tls","message":"expired","tls":"invalid"}"#
        );
        assert_eq!(certificate.advice(), Some(Advice::SkipVerification));
        assert_eq!(certificate.advised(|_| "do x"), "expired; do x");
        assert_eq!(reset.advised(|_| "do x"), "gone");
        assert_eq!(Failure::given_up(&certificate).tls, certificate.tls);
        for failure in [reset, given_up, robots, certificate] {
            assert_eq!(read(&serde_json::to_string(&failure).expect("JSON")), failure);
        }
        // The message has no effect if the record says what failed.
        let record = r#"{"kind":"reset","message":"robots.txt could not be fetched: gone","part":"request"}"#;
        assert!(!read(record).concerns_host());
    }

    #[test]
    fn a_page_counts_as_requested_unless_its_last_attempt_found_no_connection() {
        let of = |kind| Failure::new(kind, "why");
        assert!(is_requested(true, 1, None) && !is_requested(false, 0, None));
        for kind in
            [ErrorKind::ConnectRefused, ErrorKind::ConnectTimeout, ErrorKind::DnsTimeout, ErrorKind::Unreachable]
        {
            assert!(!is_requested(true, 3, Some(&of(kind))), "{kind}");
        }
        assert!(is_requested(true, 1, Some(&of(ErrorKind::Reset))) && is_requested(true, 1, Some(&of(ErrorKind::Tls))));
        let given_up = Failure::given_up(&of(ErrorKind::Reset));
        assert!(is_requested(false, 1, Some(&given_up)) && !is_requested(false, 0, Some(&given_up)));
        assert!(!is_requested(false, 1, Some(&Failure::given_up(&of(ErrorKind::ConnectRefused)))));
        let by_status = Failure::given_up(&of(ErrorKind::Unreachable));
        assert!(is_requested(false, 2, Some(&by_status)), "the host has answered");
        assert!(!is_requested(false, 2, Some(&of(ErrorKind::Internal))));
    }

    #[test]
    fn only_closed_ports_and_servers_without_tls_allow_plain_http() {
        let of = |kind, fault: Option<TlsFault>| Failure { tls: fault, ..Failure::new(kind, "why") };
        for kind in [ErrorKind::ConnectRefused, ErrorKind::ConnectTimeout, ErrorKind::Unreachable] {
            assert!(of(kind, None).allows_plain_http() && of(kind, None).of_robots().allows_plain_http(), "{kind}");
            assert!(!of(kind, Some(TlsFault::Handshake)).allows_plain_http(), "{kind}");
        }
        for kind in [ErrorKind::Tls, ErrorKind::Reset, ErrorKind::DnsNxdomain, ErrorKind::TimeoutFirstByte] {
            assert!(!of(kind, None).allows_plain_http(), "{kind}");
            assert!(of(kind, Some(TlsFault::Absent)).allows_plain_http(), "{kind}");
        }
        for fault in [TlsFault::Untrusted, TlsFault::Invalid, TlsFault::Handshake] {
            assert!(!of(ErrorKind::Tls, Some(fault)).allows_plain_http(), "{fault}");
        }
        assert!(!Failure::given_up(&of(ErrorKind::Unreachable, None)).allows_plain_http());
    }
}
