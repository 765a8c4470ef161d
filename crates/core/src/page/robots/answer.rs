//! What the outcome of fetching robots.txt means: RFC 9309, section 2.3.1, as one function.
//!
//! Invariant: silence is not consent. Only an answer that says there is no file (4xx) allows everything.

use super::Robots;
use crate::outcome::{ErrorKind, Truncated};
use crate::visit::Visit;

/// What is known about a site's wishes after an attempt to fetch its robots.txt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RobotsAnswer {
    /// The file was read: these rules hold.
    Rules(Robots),
    /// There is none: everything is allowed.
    AllowAll,
    /// Nobody knows: nothing may be fetched until somebody does. A copy that was read before may be used meanwhile.
    Unreachable {
        /// Whether another attempt may help.
        retry: bool,
    },
}

impl RobotsAnswer {
    /// What a finished fetch of a robots.txt means: `bytes` are what it brought. One that its size cut is read as far as
    /// it goes; one that was cut otherwise is none.
    pub fn of(visit: &Visit, bytes: &[u8], agent: &str) -> Self {
        let is_whole = visit.facts.error.is_none() || visit.facts.truncated == Some(Truncated::Length);
        match (visit.facts.status, &visit.facts.error) {
            (Some(status), _) if is_whole || !(200..300).contains(&status) => Self::from_status(status, bytes, agent),
            (_, error) => Self::from_failure(error.as_ref().map_or(ErrorKind::Internal, |failure| failure.kind)),
        }
    }

    /// What an answer means. Redirects have been followed: one that is left could not be.
    ///
    /// | status | meaning |
    /// |---|---|
    /// | 2xx | the body's rules, whatever type it claims |
    /// | 4xx | no file: allowed (401 and 403 too, as the RFC says; 408 once its retries are over) |
    /// | 429, 5xx | unreachable, try again |
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

    /// What it means that there was no answer.
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
            E::ParseLimit | E::RobotsUnreachable | E::Internal => false,
        };
        Self::Unreachable { retry }
    }

    /// Whether a request target may be fetched now.
    pub fn allows(&self, target: &str) -> bool {
        match self {
            Self::Rules(robots) => robots.allows(target),
            Self::AllowAll => true,
            Self::Unreachable { .. } => target == "/robots.txt",
        }
    }
}
