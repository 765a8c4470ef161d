//! Targets on the web, which folder checks and site checks share.

use std::collections::HashMap;

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
