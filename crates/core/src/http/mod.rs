//! HTTP: connections, proxies, cookies, and which addresses may be connected to.
//!
//! [`conn`] is the protocol state of one connection, TLS included: a request goes in; head, body and end come out.
//! [`h2`] is HTTP/2. [`race`] decides which of a host's addresses is tried when. [`retry_after`] reads when a host
//! allows the next request. Nothing here knows of crawls: this layer can be used alone.

pub mod address;
pub mod conn;
pub mod cookies;
pub mod h2;
pub mod proxy;
pub mod race;
pub mod retry_after;
