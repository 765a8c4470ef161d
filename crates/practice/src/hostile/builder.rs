//! The case of one case: sites, raw servers and names, where a crawl begins, and what is looked at afterwards.
//!
//! Invariant: a [`RunningCase`] answers from the moment it is made until it is dropped, and then leaves nothing behind.

use super::dns::{DnsReply, NameServer, Zone};
use super::raw::{RawConnection, RawServer};
use super::report::{CaseReport, CaseVerdict};
use crate::certificate::CertificateKind;
use crate::log::SeenRequest;
use crate::response::Response;
use crate::site::Site;
use crate::web::{PracticeWeb, RunningWeb};
use serde_json::Value;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// A check of a case's own: what it is about, and the function that decides.
pub struct Check {
    pub what: &'static str,
    pub decide: Box<dyn Fn(&CaseReport) -> CaseVerdict + Send + Sync>,
}

/// What a case is made of, while it is being set up.
pub struct CaseBuilder {
    ordinal: usize,
    addresses: u8,
    sites: Vec<Site>,
    raw: Vec<RawServer>,
    zone: Zone,
    trusted: String,
    roots: Vec<String>,
    judged: Vec<String>,
    settings: Vec<(&'static str, Value)>,
    checks: Vec<Check>,
    kept: Vec<Box<dyn Send>>,
}

impl CaseBuilder {
    /// An empty case. Stages with different numbers have different addresses.
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
            kept: Vec::new(),
        }
    }

    /// The simplest case: one site whose front page answers so. It is the root, and what is judged.
    pub fn page(&mut self, answer: Response) -> io::Result<()> {
        self.pages([("/", answer)])
    }

    /// One site with these pages. All of them are roots, and all of them are judged.
    pub fn pages<'a>(&mut self, pages: impl IntoIterator<Item = (&'a str, Response)>) -> io::Result<()> {
        let mut site = self.site()?;
        for (path, answer) in pages {
            self.root(site.url(path));
            site = site.page(path, answer);
        }
        self.open(site);
        Ok(())
    }

    /// A loopback address that no other site has.
    pub fn address(&mut self) -> Ipv4Addr {
        self.addresses += 1;
        let [.., high, low] = (self.ordinal as u32 + 1).to_be_bytes();
        Ipv4Addr::new(127, 100 + self.addresses, high, low)
    }

    /// A new HTTP site on an address of its own. Give it back with [`CaseBuilder::open`] when it is complete.
    pub fn site(&mut self) -> io::Result<Site> {
        Site::http(&format!("{}:0", self.address()))
    }

    /// The same over TLS.
    pub fn secure_site(&mut self, certificate: CertificateKind) -> io::Result<Site> {
        Site::https(&format!("{}:0", self.address()), certificate)
    }

    /// This site is part of the case.
    pub fn open(&mut self, site: Site) {
        self.sites.push(site);
    }

    /// A server that speaks by hand, on an address of its own.
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

    /// An authority to trust, as PEM, beside that of the sites.
    pub fn trust(&mut self, pem: String) {
        self.trusted.push_str(&pem);
    }

    /// A server that speaks by hand, except that it says politely that there is no robots.txt. Its front page is the
    /// root; the behaviour is told the path that was asked for, and the connection ends with it.
    pub fn spoken(
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

    /// The case costs work and not waiting, which on a busy machine may take longer than the usual time-out.
    pub fn expensive(&mut self) {
        self.set("timeout", "60s");
    }

    /// Something that must live as long as the case.
    pub fn keep(&mut self, thing: impl Send + 'static) {
        self.kept.push(Box::new(thing));
    }

    /// What the name server says about a name. The first name switches the name server on.
    pub fn name(&mut self, name: &str, reply: DnsReply) {
        self.zone.name(name, reply);
    }

    /// A crawl begins here. The roots are what is judged, unless [`CaseBuilder::judge`] names others.
    pub fn root(&mut self, url: impl Into<String>) {
        self.roots.push(url.into());
    }

    /// The expectation is about this URL, and not about the roots.
    pub fn judge(&mut self, url: impl Into<String>) {
        self.judged.push(url.into());
    }

    /// A setting of the crawl: a key of the configuration file, and its value as JSON.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.settings.push((key, value.into()));
    }

    /// Something more that must be true afterwards.
    pub fn check(&mut self, what: &'static str, decide: impl Fn(&CaseReport) -> CaseVerdict + Send + Sync + 'static) {
        self.checks.push(Check { what, decide: Box::new(decide) });
    }

    /// Curtain up.
    pub fn start(self) -> io::Result<RunningCase> {
        let web = self.sites.into_iter().fold(PracticeWeb::new().keep_headers(), PracticeWeb::site).start()?;
        let names = if self.zone.is_empty() { None } else { Some(NameServer::start(self.zone)?) };
        let judged = if self.judged.is_empty() { self.roots.clone() } else { self.judged };
        let trusted = web.ca_pem() + &self.trusted;
        Ok(RunningCase {
            web,
            trusted,
            raw: self.raw,
            names,
            roots: self.roots,
            judged,
            settings: self.settings,
            checks: self.checks,
            _kept: self.kept,
        })
    }
}

/// A case that is being served.
pub struct RunningCase {
    web: RunningWeb,
    raw: Vec<RawServer>,
    names: Option<NameServer>,
    trusted: String,
    pub roots: Vec<String>,
    pub judged: Vec<String>,
    pub settings: Vec<(&'static str, Value)>,
    pub checks: Vec<Check>,
    _kept: Vec<Box<dyn Send>>,
}

impl RunningCase {
    /// Where the name server is, if the case has one.
    pub fn dns(&self) -> Option<SocketAddr> {
        self.names.as_ref().map(NameServer::address)
    }

    /// The names that were asked for.
    pub fn names_asked(&self) -> Vec<String> {
        self.names.as_ref().map(NameServer::asked).unwrap_or_default()
    }

    /// The authorities to trust, as PEM.
    pub fn ca_pem(&self) -> &str {
        &self.trusted
    }

    /// Every request so far: those of the sites, then those of the raw servers.
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.web.log().into_iter().chain(self.raw.iter().flat_map(RawServer::seen)).collect()
    }
}
