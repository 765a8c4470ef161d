//! The hostile web: what servers, name servers and certificates can do to a crawler, one [`Case`] per behaviour.
//!
//! Most cases come from a catalogue of hostile behaviour that is not part of this repository. It gives each behaviour a
//! name (CON02, H110, RED04, ...) and the allowed classes of results. Here, a case describes the behaviour of the server
//! and the expected result, in terms of Argiope's records. It does not use the crawler's types, so that
//! `argiope-practice hostile` can serve all cases to any crawler.
//!
//! # Adding a case
//!
//! Each category is a module with one function `cases()`. A case is a name, a title, the expectation, and a function that
//! builds its servers:
//!
//! ```text
//! // One site whose front page sends this response. It is the root and the judged URL.
//! Case::new("CON05", "accept and silence", Expect::error("timeout_first_byte"), |case| case.page(Response::hang())),
//!
//! // Several pages. The expectation applies to the judged URL, which is not the root. A setting, and an additional check.
//! Case::new("RED17", "redirect into a disallowed path", Expect::NotFetched, |case| {
//!     let site = case.site()?.robots("User-agent: *\nDisallow: /private\n").redirect("/", "/private", 302);
//!     case.root(site.url("/"));
//!     case.expect_at(site.url("/private"));
//!     case.add_site(site);
//!     case.set("max-redirects", 5);
//!     case.check("the private page is never requested", |report| {
//!         demand(report.request_count("/private") == 0, "it was requested")
//!     });
//!     Ok(())
//! }),
//!
//! // Raw bytes: the function runs in its own thread for every connection.
//! Case::new("CON17", "half-close before the request is read", Expect::error("empty_reply"), |case| {
//!     let address = case.raw(|conn| { conn.close_sending()?; conn.request().map(|_| ()) })?;
//!     case.set("robots", "ignore");
//!     case.root(format!("http://{address}/"));
//!     Ok(())
//! }),
//!
//! // Names: the case has its own name server, which `--dns` points to.
//! Case::new("NET01", "no such name", Expect::error("dns_nxdomain"), |case| {
//!     case.name("gone.test", DnsReply::NoSuchName);
//!     case.root("http://gone.test/");
//!     Ok(())
//! }),
//!
//! // A behaviour that a crawl cannot test: name the test that does. That test must exist. Case::elsewhere("ROB24",
//! "robots.txt grows old", Expect::NotFetched, "crates/testkit/tests/sim_scenarios.rs", "robots_..."),
//! ```
//!
//! `.also("file", "test")` names a test for a part of a case.
//!
//! If the catalogue allows several behaviours, `.choosing("what we do and why")` documents the choice.
//! docs/conformance.md lists all choices.
//!
//! The test `crates/cli/tests/hostile` runs all cases. With every case it crawls a well-behaved host too, the control
//! host, which must not be affected. `ARGIOPE_HOSTILE=RED,H11` runs only the cases whose names begin with `RED` or `H11`.
//! `ARGIOPE_HOSTILE_ENGINES=all` (or `threads,tokio`) chooses engines.
//!
//! Invariant: cases share nothing. Every case has its own addresses, threads, log and name server.

mod builder;
mod charset_type;
mod coding;
mod connection;
mod cookie_auth;
mod dns;
mod html;
mod http1;
mod http2;
mod output;
mod redirect;
mod report;
mod robots;
mod serve;
mod sitemap;
mod ssrf_dns;
mod status;
mod tls;
mod trap;

pub use crate::raw::RawConnection;
pub use builder::{CaseBuilder, Check, RunningCase};
pub use dns::{DnsReply, NameServer, Zone};
pub use report::{CaseReport, CaseVerdict, demand};
pub use serve::{HELP, serve};

use std::io;

/// A group of cases, as in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    Connection,
    Http1,
    Http2,
    Redirect,
    CookieAuth,
    SsrfDns,
    Coding,
    CharsetType,
    Html,
    Robots,
    Sitemap,
    Trap,
    Output,
    Tls,
    Status,
}

impl Category {
    /// Every category that is served, in the order of the catalogue.
    pub const ALL: [Category; 15] = [
        Category::Connection,
        Category::Http1,
        Category::Http2,
        Category::Redirect,
        Category::CookieAuth,
        Category::SsrfDns,
        Category::Coding,
        Category::CharsetType,
        Category::Html,
        Category::Robots,
        Category::Sitemap,
        Category::Trap,
        Category::Output,
        Category::Tls,
        Category::Status,
    ];

    /// The name in the catalogue.
    pub fn name(self) -> &'static str {
        match self {
            Category::Connection => "connection",
            Category::Http1 => "http1",
            Category::Http2 => "http2",
            Category::Redirect => "redirect",
            Category::CookieAuth => "cookie_auth",
            Category::SsrfDns => "ssrf_dns",
            Category::Coding => "coding",
            Category::CharsetType => "charset_type",
            Category::Html => "html",
            Category::Robots => "robots",
            Category::Sitemap => "sitemap",
            Category::Trap => "trap",
            Category::Output => "output",
            Category::Tls => "tls",
            Category::Status => "status",
        }
    }

    fn cases(self) -> Vec<Case> {
        match self {
            Category::Connection => connection::cases(),
            Category::Http1 => http1::cases(),
            Category::Http2 => http2::cases(),
            Category::Redirect => redirect::cases(),
            Category::CookieAuth => cookie_auth::cases(),
            Category::SsrfDns => ssrf_dns::cases(),
            Category::Coding => coding::cases(),
            Category::CharsetType => charset_type::cases(),
            Category::Html => html::cases(),
            Category::Robots => robots::cases(),
            Category::Sitemap => sitemap::cases(),
            Category::Trap => trap::cases(),
            Category::Output => output::cases(),
            Category::Tls => tls::cases(),
            Category::Status => status::cases(),
        }
    }
}

/// The expected result of a case, in the classes of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Outcome `ok` with the complete body.
    Ok,
    /// Outcome `ok` with this value of `truncated`, and this `error.kind` if one is given.
    Truncated(&'static str, Option<&'static str>),
    /// Outcome `robots` or `refused`, or no record at all.
    NotFetched,
    /// Outcome `failed`, `redirect` or `refused` with this `error.kind`.
    Error(&'static str),
    /// The response is the result: outcome `http_error` or `redirect`.
    HttpErrorOrRedirect,
}

impl Expect {
    pub const fn error(kind: &'static str) -> Expect {
        Expect::Error(kind)
    }

    pub const fn truncated(how: &'static str, cause: &'static str) -> Expect {
        Expect::Truncated(how, Some(cause))
    }

    /// The name of the class in the catalogue.
    pub fn class(self) -> &'static str {
        match self {
            Expect::Ok => "ok",
            Expect::Truncated(..) => "ok_truncated",
            Expect::NotFetched => "skip",
            Expect::Error(_) => "error",
            Expect::HttpErrorOrRedirect => "status",
        }
    }
}

impl std::fmt::Display for Expect {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Expect::Error(kind) => write!(out, "error:{kind}"),
            Expect::Truncated(how, _) => write!(out, "ok_truncated:{how}"),
            other => out.write_str(other.class()),
        }
    }
}

/// How a case is tested.
#[derive(Clone, Copy)]
pub enum CaseSetup {
    /// By a crawl of the servers that this function builds.
    Here(fn(&mut CaseBuilder) -> io::Result<()>),
    /// By another test: its file, relative to the repository, and its function.
    Elsewhere { file: &'static str, test: &'static str },
}

/// One hostile behaviour and the expected result.
#[derive(Clone, Copy)]
pub struct Case {
    pub id: &'static str,
    pub category: Category,
    pub title: &'static str,
    pub expect: Expect,
    pub setup: CaseSetup,
    /// If the catalogue allows several behaviours: the chosen one and the reason.
    pub choice: Option<&'static str>,
    /// Another test (file and function) for the part that a crawl cannot test.
    pub also: Option<(&'static str, &'static str)>,
}

impl Case {
    fn new(
        id: &'static str,
        title: &'static str,
        expect: Expect,
        build: fn(&mut CaseBuilder) -> io::Result<()>,
    ) -> Case {
        // `catalogue` replaces the category.
        Case {
            id,
            category: Category::Connection,
            title,
            expect,
            setup: CaseSetup::Here(build),
            choice: None,
            also: None,
        }
    }

    /// A case that another test covers.
    fn elsewhere(
        id: &'static str,
        title: &'static str,
        expect: Expect,
        file: &'static str,
        test: &'static str,
    ) -> Case {
        let setup = CaseSetup::Elsewhere { file, test };
        Case { id, category: Category::Connection, title, expect, setup, choice: None, also: None }
    }

    /// Documents the chosen behaviour, if the catalogue allows several.
    fn choosing(mut self, choice: &'static str) -> Case {
        self.choice = Some(choice);
        self
    }

    /// Names another test for the part that a crawl cannot test.
    fn also(mut self, file: &'static str, test: &'static str) -> Case {
        self.also = Some((file, test));
        self
    }

    /// Builds the servers; `None` if another test covers the case. The addresses depend on `ordinal`, the position in the
    /// catalogue.
    pub fn builder(&self, ordinal: usize) -> io::Result<Option<CaseBuilder>> {
        let CaseSetup::Here(build) = self.setup else { return Ok(None) };
        let mut case = CaseBuilder::new(ordinal);
        build(&mut case)?;
        Ok(Some(case))
    }
}

/// All cases, by category.
pub fn catalogue() -> Vec<Case> {
    let cases_of = |category: Category| category.cases().into_iter().map(move |case| Case { category, ..case });
    Category::ALL.into_iter().flat_map(cases_of).collect()
}
