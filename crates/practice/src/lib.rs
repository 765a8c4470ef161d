//! Test webs on loopback addresses.
//!
//! A crawler is tested on webs that can be described exactly, that can be slow, large and hostile as needed, and that
//! record all requests with their times. This crate serves such webs:
//!
//! - [`Site`] and [`Response`]: scripted sites, page by page, well-behaved or not;
//! - [`GraphPlan`] and [`Graph`]: generated webs of any size that are never stored, with an oracle for the expected records;
//! - [`PracticeWeb`] and [`RunningWeb`]: the server, over HTTP and HTTPS with its own [`TestAuthority`], and its request log;
//! - [`demo`]: the small web of `argiope demo`;
//! - [`app`]: a single-page application, and pages with hostile scripts;
//! - [`shop`]: a web shop, for tests of extraction; [`members`]: a site with a login; [`audit_sites`]: a site with faults;
//! - [`PracticeProxy`]: an HTTP or SOCKS 5 proxy;
//! - [`hostile`]: a catalogue of hostile server behaviour, case by case;
//! - [`serve_main`], [`spawn_child`]: the server as a program and as a child process, with named families of webs.
//!
//! ```
//! use argiope_practice::{Response, Site, PracticeWeb};
//! use std::io::{Read, Write};
//!
//! # fn main() -> std::io::Result<()> {
//! let site = Site::http("127.0.0.1:0")?.page("/", Response::text("hello").close_after());
//! let address = site.address();
//! let web = PracticeWeb::new().site(site).start()?;
//!
//! let mut client = std::net::TcpStream::connect(address)?;
//! client.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")?;
//! let mut response = String::new();
//! client.read_to_string(&mut response)?;
//!
//! assert!(response.ends_with("\r\n\r\nhello"));
//! assert_eq!(web.log()[0].host, "a.test");
//! web.stop()
//! # }
//! ```
//!
//! Reading order: `response` (description of a response), `script` (the same as steps), `connection` (sends the steps),
//! `server` (the event loop), `graph`.

pub mod app;
mod audit_site;
mod certificate;
mod child;
mod connection;
pub mod demo;
mod family;
mod files;
mod filler;
mod graph;
pub mod hostile;
mod http2;
mod http2_settings;
mod ideal;
mod log;
pub mod members;
mod mix;
mod oracle;
mod pages;
mod proxy;
mod raw;
mod request;
mod response;
mod script;
mod serve;
mod server;
pub mod shop;
mod site;
mod timer;
mod web;
mod web_state;
mod wire;

pub use audit_site::{AUDIT_CASES, AuditCase, audit_sites};
pub use certificate::TestAuthority;
pub use child::{ServerProcess, spawn_child};
pub use family::{Family, OpenedWeb, ServeOptions};
pub use graph::{Graph, GraphPlan, PageId, PageKind, Shape};
pub use ideal::{CrawlerLimits, Ideal};
pub use log::{HostCount, PolitenessLimits, SeenRequest, SiteCount, Stats};
pub use mix::mix;
pub use oracle::{CrawlReach, ExpectedRecord};
pub use proxy::{PracticeProxy, RunningProxy};
pub use response::{Drip, Response, ResponseBody, ResponseEnd, ResponseFraming};
pub use serve::{ReadyLine, serve_main};
pub use site::{CertificateKind, RequestMatch, Site};
pub use web::{PracticeWeb, RunningWeb};
