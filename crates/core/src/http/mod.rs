//! HTTP: connections, fetches, proxies, cookies, and which addresses may be connected to.
//!
//! [`conn`] is the protocol state of one connection, TLS included. [`fetch`] drives one request over a connection and
//! produces a visit. [`h2`] is HTTP/2. [`session`] is what engines drive: a connection with the jobs it carries.
//! [`race`] decides which of a host's addresses is tried when. [`retry_after`] reads when a host allows the next
//! request. [`hooks`] are traits with which the library's user sees
//! requests and responses.

pub mod address;
pub mod conn;
pub mod cookies;
pub mod fetch;
pub mod h2;
#[deny(missing_docs)]
pub mod hooks;
pub mod proxy;
pub mod race;
pub mod retry_after;
pub mod session;
