//! Builds one case: its sites, raw servers and names, the roots of the crawl, and the checks afterwards.
//!
//! Invariant: a [`RunningCase`] responds from its creation until it is dropped. Then all its threads have ended.

use super::dns::{DnsReply, NameServer, Zone};
use super::report::{CaseReport, CaseVerdict};
use crate::log::SeenRequest;
use crate::raw::{RawConnection, RawServer};
use crate::response::Response;
use crate::site::CertificateKind;
use crate::site::Site;
use crate::web::{PracticeWeb, RunningWeb};
use serde_json::Value;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// An additional check of a case.
pub struct Check {
    /// What must be true, for error messages.
    pub title: &'static str,
    pub verify: Box<dyn Fn(&CaseReport) -> CaseVerdict + Send + Sync>,
}

/// A case that is being built.
pub struct CaseBuilder {
    ordinal: usize,
    /// Number of addresses in use.
    addresses: u8,
    sites: Vec<Site>,
    raw: Vec<RawServer>,
    zone: Zone,
    /// Additional authorities to trust, as PEM.
    trusted: String,
    roots: Vec<String>,
    /// The URLs that the expectation applies to; empty for the roots.
    judged: Vec<String>,
    /// Keys and values of the crawl's configuration file.
    settings: Vec<(&'static str, Value)>,
    checks: Vec<Check>,
    /// Values that live as long as the case.
    kept_alive: Vec<Box<dyn Send>>,
}

impl CaseBuilder {
    /// An empty case. Cases with different numbers have different addresses.
    pub fn new(ordinal: usize) -> CaseBuilder {
        CaseBuilder {
            ordinal,
            addresses: 0,
            sites: Vec::new(),
            raw: Vec::new(),
            zone: Zone::default(),
            trusted: String::new(),
            roots: Vec::new(),
            judged: Vec::new(),
            settings: Vec::new(),
            checks: Vec::new(),
            kept_alive: Vec::new(),
        }
    }

    /// The simplest case: one site whose front page sends this response. It is the root and the judged URL.
    pub fn page(&mut self, response: Response) -> io::Result<()> {
        self.pages([("/", response)])
    }

    /// One site with these pages. All of them are roots and judged URLs.
    pub fn pages<'a>(&mut self, pages: impl IntoIterator<Item = (&'a str, Response)>) -> io::Result<()> {
        let mut site = self.site()?;
        for (path, response) in pages {
            self.root(site.url(path));
            site = site.page(path, response);
        }
        self.add_site(site);
        Ok(())
    }

    /// A loopback address that no other server uses.
    pub fn address(&mut self) -> Ipv4Addr {
        self.addresses += 1;
        // The second byte counts the addresses of the case. The last two bytes are the number of the case.
        let [.., high, low] = (self.ordinal as u32 + 1).to_be_bytes();
        Ipv4Addr::new(127, 100 + self.addresses, high, low)
    }

    /// A new HTTP site on its own address. When it is complete, add it with [`CaseBuilder::add_site`].
    pub fn site(&mut self) -> io::Result<Site> {
        Site::http(&format!("{}:0", self.address()))
    }

    /// A new HTTPS site on its own address.
    pub fn secure_site(&mut self, certificate: CertificateKind) -> io::Result<Site> {
        Site::https(&format!("{}:0", self.address()), certificate)
    }

    /// Adds a site to the case.
    pub fn add_site(&mut self, site: Site) {
        self.sites.push(site);
    }

    /// Starts a raw server on its own address. `behaviour` runs for every connection.
    pub fn raw(
        &mut self,
        behaviour: impl Fn(&mut RawConnection) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((self.address(), 0))?;
        let server = RawServer::start(listener, behaviour)?;
        let address = server.address;
        self.raw.push(server);
        Ok(address)
    }

    /// An additional authority to trust, as PEM.
    pub fn trust(&mut self, pem: String) {
        self.trusted.push_str(&pem);
    }

    /// Starts a raw server that sends a 404 for robots.txt. Its front page is the root. Any other request calls
    /// `behaviour` with the path; when that returns, the connection ends.
    pub fn raw_page(
        &mut self,
        behaviour: impl Fn(&mut RawConnection, &str) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<()> {
        let address = self.raw(move |conn| {
            while let Some(path) = conn.request()? {
                if path != "/robots.txt" {
                    return behaviour(conn, &path);
                }
                conn.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
            }
            Ok(())
        })?;
        self.root(format!("http://{address}/"));
        Ok(())
    }

    /// Raises the timeout, for a case that needs more CPU time than the usual timeout allows on a busy machine.
    pub fn raise_timeout(&mut self) {
        self.set("timeout", "60s");
    }

    /// Keeps a value alive as long as the case.
    pub fn keep(&mut self, value: impl Send + 'static) {
        self.kept_alive.push(Box::new(value));
    }

    /// Sets the reply of the name server for a name. A case without names has no name server.
    pub fn name(&mut self, name: &str, reply: DnsReply) {
        self.zone.name(name, reply);
    }

    /// Adds a root. The roots are judged unless [`CaseBuilder::expect_at`] names other URLs.
    pub fn root(&mut self, url: impl Into<String>) {
        self.roots.push(url.into());
    }

    /// Applies the expectation to this URL instead of the roots.
    pub fn expect_at(&mut self, url: impl Into<String>) {
        self.judged.push(url.into());
    }

    /// Adds a setting of the crawl: a key of the configuration file and its value as JSON.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.settings.push((key, value.into()));
    }

    /// Adds a check.
    pub fn check(&mut self, title: &'static str, verify: impl Fn(&CaseReport) -> CaseVerdict + Send + Sync + 'static) {
        self.checks.push(Check { title, verify: Box::new(verify) });
    }

    /// Starts all servers.
    pub fn start(self) -> io::Result<RunningCase> {
        let web = self.sites.into_iter().fold(PracticeWeb::new().keep_headers(), PracticeWeb::site).start()?;
        let name_server = if self.zone.is_empty() { None } else { Some(NameServer::start(self.zone)?) };
        let judged = if self.judged.is_empty() { self.roots.clone() } else { self.judged };
        let trusted = web.ca_pem() + &self.trusted;
        Ok(RunningCase {
            web,
            trusted,
            raw: self.raw,
            name_server,
            roots: self.roots,
            judged,
            settings: self.settings,
            checks: self.checks,
            _kept_alive: self.kept_alive,
        })
    }
}

/// A case that is being served.
pub struct RunningCase {
    web: RunningWeb,
    raw: Vec<RawServer>,
    name_server: Option<NameServer>,
    trusted: String,
    pub roots: Vec<String>,
    pub judged: Vec<String>,
    pub settings: Vec<(&'static str, Value)>,
    pub checks: Vec<Check>,
    _kept_alive: Vec<Box<dyn Send>>,
}

impl RunningCase {
    /// The address of the name server, if the case has one.
    pub fn dns(&self) -> Option<SocketAddr> {
        self.name_server.as_ref().map(NameServer::address)
    }

    /// The names that were looked up.
    pub fn queried_names(&self) -> Vec<String> {
        self.name_server.as_ref().map(NameServer::queried_names).unwrap_or_default()
    }

    /// The authorities to trust, as PEM.
    pub fn ca_pem(&self) -> &str {
        &self.trusted
    }

    /// Every request so far: those of the sites, then those of the raw servers.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.web.log().into_iter().chain(self.raw.iter().flat_map(RawServer::requests)).collect()
    }
}
