//! The server as clients see it: over real sockets, and in a real browser.

mod browser;
mod http;
mod load;
mod page;
mod served;
