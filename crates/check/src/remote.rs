//! Targets on the web, as folders and sites ask for them.

use std::collections::HashMap;

use crate::finding::Fault;

/// An address on the web that documents point to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteTarget {
    /// In normal form, without fragment.
    pub url: String,
    /// The fragment as written, where it names an element.
    pub fragment: Option<String>,
}

/// What is wrong with addresses on the web. Those that are not in it are good, or were not asked.
#[derive(Clone, Debug, Default)]
pub struct RemoteFaults {
    pub faults: HashMap<RemoteTarget, Fault>,
    /// Distinct URLs that were asked or found in the cache.
    pub asked: u64,
}

impl RemoteTarget {
    /// The whole address.
    pub fn address(&self) -> String {
        match &self.fragment {
            Some(fragment) => format!("{}#{fragment}", self.url),
            None => self.url.clone(),
        }
    }
}
