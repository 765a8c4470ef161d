//! A web to practise on.
//!
//! A crawler has to be tried on a web that can be described exactly, that can be as slow, as large and as hostile as one
//! likes, and that remembers who asked for what and when. This crate serves such webs on loopback addresses:
//!
//! - [`Site`] and [`Response`]: scripted sites, page by page, good manners and bad ones;
//! - [`GraphPlan`] and [`Graph`]: webs of any size that are never stored, with an oracle of what a crawl must find;
//! - [`PracticeWeb`] and [`RunningWeb`]: the server, over HTTP and HTTPS with its own [`TestAuthority`], and what it saw;
//! - [`demo`]: a small web worth looking at, for `argiope demo`;
//! - [`shop`]: a shop to extract from;
//! - [`hostile`]: a web that does to a crawler what can be done to one, case by case;
//! - [`serve_main`], [`spawn_child`]: the server as a program and as a child process, with families of webs by name.
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
//! let mut answer = String::new();
//! client.read_to_string(&mut answer)?;
//!
//! assert!(answer.ends_with("\r\n\r\nhello"));
//! assert_eq!(web.log()[0].host, "a.test");
//! web.stop()
//! # }
//! ```
//!
//! Reading order: `response` (what is said), `script` (as steps), `connection` (playing them), `server` (the loop), `graph`.

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
mod ideal;
mod log;
mod oracle;
mod pages;
mod proxy;
mod request;
mod response;
mod script;
mod serve;
mod server;
pub mod shop;
mod site;
mod timer;
mod web;
mod wire;

pub use audit_site::{AUDIT_CASES, AuditCase, audit_sites};
pub use certificate::{CertificateKind, TestAuthority};
pub use child::{ServerProcess, spawn_child};
pub use family::{Family, OpenedWeb, ServeOptions};
pub use graph::{Graph, GraphPlan, PageId, PageKind, Shape};
pub use ideal::{Allowance, Ideal};
pub use log::{HostCount, PolitenessLimits, SeenRequest, SiteCount, Stats};
pub use oracle::{CrawlReach, ExpectedRecord};
pub use proxy::{PracticeProxy, RunningProxy};
pub use response::{BodyFraming, Drip, Response, ResponseBody, ResponseEnd};
pub use serve::{ReadyLine, serve_main};
pub use site::Site;
pub use web::{PracticeWeb, RunningWeb};
