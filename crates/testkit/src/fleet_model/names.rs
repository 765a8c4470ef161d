//! What all parts of the model call pages, processes and leases.

/// A page of the simulated web.
pub type ModelPage = u32;
/// A process, numbered in the order of start.
pub type ProcessId = u32;

/// The identity of a lease: the epoch, and the process that acquired it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelToken {
    pub epoch: u32,
    pub owner: ProcessId,
}
