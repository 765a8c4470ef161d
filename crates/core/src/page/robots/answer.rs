//! What the result of fetching a robots.txt means for a site: RFC 9309, section 2.3.1.
//!
//! Invariant: only the response that the file does not exist (4xx except 429) allows everything. A missing response
//! does not.

use super::Robots;
use crate::base::outcome::{ErrorKind, Truncated};

/// How the fetch of a robots.txt ended.
#[derive(Clone, Copy, Debug)]
pub struct RobotsResponse<'a> {
    /// The status; `None` if there was no response.
    pub status: Option<u16>,
    /// What went wrong, if something did.
    pub failure: Option<ErrorKind>,
    /// Why the body is incomplete, if it is.
    pub truncated: Option<Truncated>,
    /// The bytes of the file.
    pub body: &'a [u8],
}

/// The state of a site's rules after fetching its robots.txt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RobotsAnswer {
    /// The file was read: these rules apply.
    Rules(Robots),
    /// There is no file: everything is allowed.
    AllowAll,
    /// The rules are not known, and no page may be fetched until they are. An earlier copy may be used meanwhile.
    Unreachable {
        /// Whether another attempt may succeed.
        retry: bool,
    },
}

impl RobotsAnswer {
    /// The meaning of a finished fetch of a robots.txt. A file that is cut at the size limit is used. A file that is
    /// incomplete for another reason is not.
    pub fn from_response(response: &RobotsResponse<'_>, agent: &str) -> Self {
        let RobotsResponse { status, failure, truncated, body } = *response;
        let is_usable = failure.is_none() || truncated == Some(Truncated::Length);
        match status {
            Some(status) if is_usable || !(200..300).contains(&status) => Self::from_status(status, body, agent),
            _ => Self::from_failure(failure.unwrap_or(ErrorKind::Internal)),
        }
    }

    /// The meaning of a response. The caller follows redirects, so a 3xx here is one that could not be followed.
    ///
    /// | status | meaning |
    /// |---|---|
    /// | 2xx | the rules of the body, whatever its declared type |
    /// | 429, 5xx | unreachable, try again |
    /// | other 4xx | no file: everything is allowed (also for 401 and 403, as the RFC says, and for 408 after its retries) |
    /// | 3xx | a loop, too many hops or no target: unreachable |
    /// | others | unreachable |
    pub fn from_status(status: u16, body: &[u8], agent: &str) -> Self {
        match status {
            200..=299 => Self::Rules(Robots::parse(body, agent)),
            429 | 500..=599 => Self::Unreachable { retry: true },
            400..=499 => Self::AllowAll,
            _ => Self::Unreachable { retry: false },
        }
    }

    /// The meaning of a missing response.
    pub fn from_failure(kind: ErrorKind) -> Self {
        use ErrorKind as E;
        let retry = match kind {
            E::DnsServfail | E::DnsTimeout | E::ConnectRefused | E::ConnectTimeout | E::Unreachable => true,
            E::TimeoutFirstByte | E::TimeoutIdle | E::TimeoutTotal | E::TooSlow | E::Reset | E::EmptyReply => true,
            E::DnsNxdomain | E::DnsInvalid | E::Tls | E::Protocol | E::HeaderTooLarge | E::TooLarge | E::Decode => {
                false
            }
            E::RedirectLimit
            | E::RedirectInvalid
            | E::RedirectBlocked
            | E::RedirectLoop
            | E::PrivateAddress
            | E::BlockedPort => false,
            E::ParseLimit | E::RobotsUnreachable | E::Trap | E::Hook | E::NotRepeated | E::Internal => false,
        };
        Self::Unreachable { retry }
    }

    /// Whether a request target may be fetched now.
    pub fn allows(&self, target: &str) -> bool {
        match self {
            Self::Rules(robots) => robots.allows(target),
            Self::AllowAll => true,
            // The robots.txt itself may always be fetched (RFC 9309, section 2.2.2).
            Self::Unreachable { .. } => target == "/robots.txt",
        }
    }
}
