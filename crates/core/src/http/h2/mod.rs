//! HTTP/2 (RFC 9113), the client's side, without a socket.
//!
//! [`H2Conn`] is one connection. It accepts requests, returns the bytes to be written, processes the bytes that were
//! read, and passes the events of each stream to a [`StreamEvents`]. A head is the same type as in HTTP/1.1, so that
//! all later processing (limits, codings, archives) is the same for both versions.
//!
//! | file | content |
//! |---|---|
//! | `frame` | frame headers, error codes, frames that a client sends |
//! | `hpack` | header compression (RFC 7541) without a dynamic table |
//! | `heads` | header blocks of requests, heads of responses, and what makes a head malformed |
//! | `flow` | receive windows, and the limit on frames without content |
//! | `conn` | the connection: settings, streams, shutdown |
//! | `reader`, `read` | the incremental frame reader of the connection: its state, and what frames do |
//!
//! # Why a header bomb is not possible
//!
//! The client advertises `HEADER_TABLE_SIZE` 0. A server may refer only to the 61 entries of the static table; the
//! longest has 28 bytes, and a reference to anything else is a connection error. So one byte of a header block expands
//! to at most 28 bytes of text, and decoding stops at the first field that exceeds the limit on decoded bytes (each
//! field counts 32 bytes more, as in RFC 9113, 6.5.2). A header block that is too long is not stored: since decoding
//! has no state between blocks, the rest of it can be skipped.

mod conn;
mod flow;
pub mod frame;
mod heads;
pub mod hpack;
mod read;
mod reader;

pub use conn::{H2Conn, H2Request, StreamEvents, StreamFault};
pub use heads::request_block;

#[cfg(test)]
mod tests;
