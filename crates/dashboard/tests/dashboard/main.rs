//! The server as clients see it: over real sockets, and in a real browser.

mod browser;
mod http;
mod page;
mod served;
