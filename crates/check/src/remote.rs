//! Targets on the web, which folder checks and site checks share.

use std::collections::{HashMap, HashSet};

use crate::finding::Fault;

/// A remote URL that documents reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteTarget {
    /// Normalized, without fragment.
    pub url: String,
    /// The fragment as written, if it names an element.
    pub fragment: Option<String>,
}

/// The faults of remote URLs. URLs without an entry are good or were not requested.
#[derive(Clone, Debug, Default)]
pub struct RemoteFaults {
    pub faults: HashMap<RemoteTarget, Fault>,
    /// The targets that were not requested because a limit was reached.
    pub left_out: HashSet<RemoteTarget>,
    /// Notes for the user about limits and about the network.
    pub notes: Vec<String>,
    /// Whether no external host could be reached. The faults of external URLs are then unknown.
    pub is_network_down: bool,
    /// Distinct external URLs that were requested.
    pub requested: u64,
    /// Distinct external URLs that were not requested, because the cache has them.
    pub cached: u64,
}

impl RemoteTarget {
    /// The URL with its fragment.
    pub fn full_url(&self) -> String {
        match &self.fragment {
            Some(fragment) => format!("{}#{fragment}", self.url),
            None => self.url.clone(),
        }
    }
}
