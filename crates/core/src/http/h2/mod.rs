//! HTTP/2 (RFC 9113), the client's side, without a socket.
//!
//! [`H2Conn`] is one connection. It takes requests, says which bytes to write, is fed what was read, and hands what
//! arrives on each stream to a [`StreamEvents`]. Heads are translated to HTTP/1.1 syntax, so that everything behind them
//! (limits, codings, archives) is the same for both versions.
//!
//! | file | content |
//! |---|---|
//! | `frame` | frame headers, error codes, frames that a client sends |
//! | `hpack` | header compression (RFC 7541) without a dynamic table |
//! | `translate` | heads from and to HTTP/1.1 syntax, and what makes a head malformed |
//! | `flow` | receive windows, and the limit on frames that carry nothing |
//! | `conn` | the connection: settings, streams, shutdown |
//! | `read` | the incremental frame reader of the connection |
//!
//! # Why a header bomb cannot happen
//!
//! The client advertises `HEADER_TABLE_SIZE` 0. A server may refer to the 61 entries of the static table only, the
//! longest of which has 28 bytes, and a reference to anything else is a connection error. So one byte of a header block
//! stands for at most 28 bytes of text, and decoding stops at the first field that exceeds the limit on decoded bytes
//! (each field counts 32 bytes more, as RFC 9113, 10.5.1 counts). A header block that is too long is not stored: since
//! decoding has no state between blocks, the rest of it can be skipped.

mod conn;
mod flow;
pub mod frame;
pub mod hpack;
mod read;
mod translate;

pub use conn::{H2Conn, H2Request, StreamEvents, StreamFault};
pub use translate::request_block;

#[cfg(test)]
mod tests;
