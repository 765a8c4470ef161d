//! What every layer of the core uses: URLs, links, jobs, outcomes, time and memory.
//!
//! [`url`] and [`link`] are the addresses, and [`link_list`] holds those of one page. [`custom_request`] describes
//! requests that are not a plain GET. A [`job`] is the permission to send one request, and [`quota`] says how many of
//! them must end because they are slow. [`outcome`] is how a request ends. [`time`] and [`budget`] account for time and
//! memory. [`digest`] has the digests of bodies. [`escape`] makes text safe on a terminal and in markup. [`value`] has
//! the types of the values of settings.

pub mod budget;
#[deny(missing_docs)]
pub mod custom_request;
pub mod digest;
pub mod escape;
pub mod job;
#[deny(missing_docs)]
pub mod link;
#[deny(missing_docs)]
pub mod link_list;
pub mod outcome;
pub mod quota;
pub(crate) mod swar;
pub mod time;
#[deny(missing_docs)]
pub mod url;
pub(crate) mod user_code;
#[deny(missing_docs)]
pub mod value;
