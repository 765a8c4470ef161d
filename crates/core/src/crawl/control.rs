//! [`Control`]: a change that a person makes to a running crawl. [`CrawlSource`]: the interface of a crawl for those who
//! watch and control it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::crawl::rules::{Pace, Rate};
use crate::crawl::status::{HostStatus, Status};

/// A change to a running crawl, from `argiope ctl` or the dashboard.
///
/// Pace, rate and excludes are durable: a resumed crawl keeps them. A pause is not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum Control {
    /// Start no new requests until `Resume`, except those of pages that are being rendered.
    Pause,
    Resume,
    /// End the crawl when requests in flight have ended; the same command resumes it.
    Stop,
    Pace {
        pace: Pace,
    },
    /// Limit on pages a second over all hosts; `None` removes the limit.
    Rate {
        rate: Option<Rate>,
    },
    /// Fetch no URL that matches this regular expression from now on.
    Exclude {
        pattern: String,
    },
    /// Fetch nothing from this host name from now on, on any port.
    ExcludeHost {
        host: String,
    },
}

/// A crawl that is watched and controlled: by the dashboard, or through the control socket of its directory.
///
/// Methods may block for a moment.
pub trait CrawlSource: Send + Sync + 'static {
    /// The state of the crawl; none if it is not running.
    fn status(&self) -> Option<Status>;

    /// The state of one host; none if the crawl is not running or has nothing to do there now.
    fn host(&self, _name: &str) -> Option<HostStatus> {
        None
    }

    /// Makes a change. The text of an error is for people.
    fn control(&self, control: Control) -> Result<(), String>;

    /// Why a URL was or was not fetched, as text for people.
    fn explain(&self, url: &str) -> Result<String, String>;

    /// The report so far, as a complete HTML page.
    fn report(&self) -> Result<String, String>;
}

/// Whether a change was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlVerdict {
    Done,
    /// Not made, for this reason.
    Refused(String),
}

impl ControlVerdict {
    /// The reason of a refusal becomes the error.
    pub fn into_result(self) -> Result<(), String> {
        match self {
            Self::Done => Ok(()),
            Self::Refused(why) => Err(why),
        }
    }
}

impl Control {
    /// The pattern to exclude; none for other changes.
    pub fn exclude_pattern(&self) -> Option<String> {
        match self {
            Self::Exclude { pattern } => Some(pattern.clone()),
            Self::ExcludeHost { host } => Some(format!("^https?://{}(:[0-9]+)?/", regex::escape(host))),
            _ => None,
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pause => f.write_str("paused"),
            Self::Resume => f.write_str("resumed"),
            Self::Stop => f.write_str("stopping"),
            Self::Pace { pace } => write!(f, "pace {pace}"),
            Self::Rate { rate: Some(rate) } => write!(f, "rate {rate}"),
            Self::Rate { rate: None } => f.write_str("rate unlimited"),
            Self::Exclude { pattern } => write!(f, "excluded {pattern}"),
            Self::ExcludeHost { host } => write!(f, "excluded the host {host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_parsed_from_json_and_invalid_ones_are_refused() {
        let read = serde_json::from_str::<Control>;
        assert_eq!(read(r#"{"action":"pause"}"#).expect("a control"), Control::Pause);
        assert_eq!(
            read(r#"{"action":"pace","pace":"gentle"}"#).expect("a control"),
            Control::Pace { pace: Pace::Gentle }
        );
        assert_eq!(read(r#"{"action":"rate","rate":null}"#).expect("a control"), Control::Rate { rate: None });
        assert!(matches!(read(r#"{"action":"rate","rate":"5/s"}"#), Ok(Control::Rate { rate: Some(_) })));
        for wrong in [r#"{"action":"format"}"#, r#"{"action":"pace","pace":"fast"}"#, r#"{"action":"rate","rate":"x"}"#]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn excluding_a_host_leaves_hosts_with_similar_names_alone() {
        let pattern = Control::ExcludeHost { host: "a.example".into() }.exclude_pattern().expect("a pattern");
        let pattern = regex::Regex::new(&pattern).expect("a valid pattern");
        assert!(pattern.is_match("https://a.example/x") && pattern.is_match("http://a.example:8080/"));
        assert!(!pattern.is_match("https://b.a.example/") && !pattern.is_match("https://aXexample/"));
        assert!(!pattern.is_match("https://h/?to=https://a.example/"));
    }
}
