//! Named families of webs with parameters: the arguments of `argiope-practice serve`.
//!
//! Which web is used for which measurement:
//!
//! | question | flags |
//! |---|---|
//! | one host, constant latency | `--family blog --pages 1500 --size 8192 --latency-ms 25` |
//! | real documentation | `--family files --folder DIR` |
//! | throughput | `--hosts 16 --pages 12500 --size 10240 --links 50 --cross 100` |
//! | slow hosts | `--hosts 10000 --seeds 10000 --pages 5 --latency-ms 1000-3000`; the same and `--drip 50:20`; the same and `--dead 50` |
//! | memory per fetch | `--family silent --hosts 100 --pages 100` |
//! | politeness | `--hosts 1000 --pages 50 --zipf 1.1 --seeds 500 --min-gap-ms 100` |
//! | TLS | `--tls good --hosts 5000 --pages 4`; `--tls good --pages 50000`; both also with `--close` |
//! | HTTP/2 | any of these with `--http2` |
//! | large pages | `--family big --pages 16` |
//! | growth | `--pages 10000` to `--pages 10000000` |
//! | extraction | `--family shop` |
//!
//! Every error of a flag names the flag.
//!
//! Invariant: the same flags produce the same web in every process; only the port may differ.

use crate::graph::{Graph, GraphPlan, Shape};
use crate::log::PolitenessLimits;
use crate::response::Response;
use crate::site::{CertificateKind, Site};
use crate::web::PracticeWeb;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What to serve, and how: the flags of `serve`, as `HELP` describes them.
#[derive(Clone, Debug, PartialEq)]
pub struct ServeOptions {
    pub family: Family,
    pub plan: GraphPlan,
    pub port: u16,
    pub threads: usize,
    pub tls: Option<CertificateKind>,
    /// Whether clients can resume TLS sessions.
    pub allows_resumption: bool,
    /// HTTP/2 is served too: with TLS if ALPN selects it, in clear text if the client starts with the HTTP/2 preface.
    pub http2: bool,
    /// The content of robots.txt. If `None`, robots.txt is that of the family, or a 404 if the family has none.
    pub robots: Option<String>,
    pub politeness: PolitenessLimits,
    /// The folder whose files are served.
    pub folder: Option<PathBuf>,
    /// Where to write the authority's certificate.
    pub ca_out: Option<PathBuf>,
    /// Where to write the root URLs, one per line.
    pub roots_out: Option<PathBuf>,
    /// Keep serving when standard input ends.
    pub forever: bool,
}

/// Kinds of webs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Pages and links as the plan says.
    Graph,
    /// Hosts whose first page links to many pages with held responses, for measuring the cost of waiting.
    Silent,
    /// Pages of 1, 10 and 100 MB, plain and gzip.
    Big,
    /// The HTML files of a folder.
    Files,
    /// The built-in web of `argiope demo`.
    Demo,
    /// A web shop, for trying extraction.
    Shop,
}

/// A web ready to start, and its roots.
pub struct OpenedWeb {
    pub web: PracticeWeb,
    pub roots: Vec<String>,
    /// The graph, for [`Family::Graph`]. It computes the records that a crawl must produce
    /// ([`Graph::reachable`]).
    pub graph: Option<Arc<Graph>>,
}

/// The help text.
pub const HELP: &str = "\
A web to practise on, served on loopback addresses.

Usage: argiope-practice serve [FLAGS]
       argiope-practice demo [FLAGS]
       argiope-practice hostile [--list] [--forever] [NAME...]
       argiope-practice ideal [FLAGS]    the least time that a crawl of a graph can take

What is served
  --family graph|blog|silent|big|files|demo|shop   (graph)
  --folder DIR          with --family files: the folder with the HTML files
  --hosts N             hosts, on 127.1.0.1 and the addresses after it (1)
  --pages N             pages on each host; with --zipf their mean (100)
  --zipf S              exponent of Zipf's law for the pages of a host (0: every host has the same number)
  --size BYTES          bytes of a page (2048)
  --links N             links on a page (20)
  --cross N             random links to another host, per 1000 (0)
  --seeds N             hosts whose first pages are roots; the others are found through links (1)
  --latency-ms A[-B]    time before the first byte, or a range of it (0)
  --missing N, --broken N, --redirects N    pages with status 404, 500, 302, per 1000 (0)
  --dead N              hosts that never respond, per 1000 (0)
  --drip BYTES:MS       the last BYTES bytes of a page are sent one at a time, MS milliseconds apart
  --robots TEXT         content of robots.txt (\\n starts a new line)
  --seed N              seed of the random numbers (1)

How it is served
  --tls good|self-signed|expired|not-yet-valid|wrong-name
  --no-resume           TLS sessions cannot be resumed
  --http2               HTTP/2 too: with TLS if ALPN selects it, without TLS if the client starts with its preface
  --close               the connection is closed after every response
  --port N              (0: a free one)
  --threads N           (1)
  --min-gap-ms N, --max-at-once N     minimum time between the starts of two requests to a host, and maximum number
                        of its requests in flight; requests that break a limit are counted as violations
  --ca-out FILE         writes the authority's certificate (PEM)
  --roots-out FILE      writes the root URLs, one per line
  --forever             keeps serving when standard input ends

Limits of a crawler, for `ideal`
  --at-once N, --per-host N      requests in flight, in total and per host (1)
  --delay-ms N          minimum time between the starts of two requests to a host (0)
  --patience-ms N       timeout of a fetch (10000)
  --no-robots           robots.txt is not requested

The first line of output is JSON: pid, addresses, roots, pages, ca. Then the server reads commands from standard input:
\"stats\" prints a line of counters as JSON, \"release\" sends the responses that `--family silent` holds back,
\"stop\" or the end of input stops the server.
";

impl Default for ServeOptions {
    fn default() -> ServeOptions {
        ServeOptions {
            family: Family::Graph,
            plan: GraphPlan::default(),
            port: 0,
            threads: 1,
            tls: None,
            allows_resumption: true,
            http2: false,
            robots: None,
            politeness: PolitenessLimits::default(),
            folder: None,
            ca_out: None,
            roots_out: None,
            forever: false,
        }
    }
}

impl ServeOptions {
    /// Parses the flags after `serve`.
    pub fn parse(flags: impl IntoIterator<Item = String>) -> Result<ServeOptions, String> {
        let mut options = ServeOptions::default();
        let mut flags = flags.into_iter();
        while let Some(flag) = flags.next() {
            // Both `--flag value` and `--flag=value` are accepted.
            let (name, joined_value) = match flag.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (flag, None),
            };
            match name.as_str() {
                "--close" => options.plan.close = true,
                "--no-resume" => options.allows_resumption = false,
                "--http2" => options.http2 = true,
                "--forever" => options.forever = true,
                _ => {
                    let value = joined_value.or_else(|| flags.next()).ok_or_else(|| format!("{name} needs a value"))?;
                    options.set(&name, &value)?;
                }
            }
        }
        options.check()?;
        Ok(options)
    }

    /// Refuses flags about sites if the family is the demo, whose sites are fixed.
    pub(crate) fn check(&self) -> Result<(), String> {
        let unused_by_demo = [
            ("--robots", self.robots.is_some()),
            ("--tls", self.tls.is_some()),
            ("--no-resume", !self.allows_resumption),
            ("--http2", self.http2),
            ("--port", self.port != 0),
        ];
        match unused_by_demo.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) if self.family == Family::Demo => Err(format!("{flag} cannot be used with the demo")),
            _ => Ok(()),
        }
    }

    /// Sets a flag that has a value.
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let plan = &mut self.plan;
        match name {
            "--family" => match value {
                "graph" => self.family = Family::Graph,
                "blog" => {
                    plan.shape = Shape::Blog;
                    self.family = Family::Graph;
                }
                "silent" => self.family = Family::Silent,
                "big" => self.family = Family::Big,
                "files" => self.family = Family::Files,
                "demo" => self.family = Family::Demo,
                "shop" => self.family = Family::Shop,
                _ => return Err(format!("--family {value}: choose graph, blog, silent, big, files, demo or shop")),
            },
            "--hosts" => plan.hosts = number(name, value)?,
            "--pages" => plan.pages = number(name, value)?,
            "--zipf" => plan.zipf = number(name, value)?,
            "--size" => plan.size = number(name, value)?,
            "--links" => plan.links = number(name, value)?,
            "--cross" => plan.cross = number(name, value)?,
            "--seeds" => plan.root_hosts = number(name, value)?,
            "--missing" => plan.missing = number(name, value)?,
            "--broken" => plan.broken = number(name, value)?,
            "--redirects" => plan.redirects = number(name, value)?,
            "--dead" => plan.dead = number(name, value)?,
            "--seed" => plan.seed = number(name, value)?,
            "--latency-ms" => {
                let (min, max) = value.split_once('-').unwrap_or((value, value));
                plan.latency_us = (micros(name, min)?, micros(name, max)?);
            }
            "--drip" => {
                let (bytes, interval) = value.split_once(':').ok_or("--drip: the form is BYTES:MS, as in 50:20")?;
                plan.drip = (number(name, bytes)?, micros(name, interval)?);
            }
            "--robots" => self.robots = Some(value.replace("\\n", "\n")),
            "--tls" => {
                self.tls = Some(match value {
                    "good" => CertificateKind::Good,
                    "self-signed" => CertificateKind::SelfSigned,
                    "expired" => CertificateKind::Expired,
                    "not-yet-valid" => CertificateKind::NotYetValid,
                    "wrong-name" => CertificateKind::WrongName,
                    _ => {
                        return Err(format!(
                            "--tls {value}: choose good, self-signed, expired, not-yet-valid or wrong-name"
                        ));
                    }
                });
            }
            "--port" => self.port = number(name, value)?,
            "--threads" => self.threads = number(name, value)?,
            "--min-gap-ms" => self.politeness.min_gap = Some(Duration::from_micros(micros(name, value)?)),
            "--max-at-once" => self.politeness.max_at_once = Some(number(name, value)?),
            "--folder" => self.folder = Some(value.into()),
            "--ca-out" => self.ca_out = Some(value.into()),
            "--roots-out" => self.roots_out = Some(value.into()),
            _ => return Err(format!("{name}: no such flag; see argiope-practice --help")),
        }
        Ok(())
    }

    /// Binds the listeners. The web responds after [`PracticeWeb::start`].
    pub fn open(&self) -> io::Result<OpenedWeb> {
        let mut opened = match self.family {
            Family::Graph => self.open_graph()?,
            Family::Silent => self.open_silent()?,
            Family::Big => self.open_big()?,
            Family::Files => self.open_files()?,
            Family::Demo => {
                let (web, roots) = crate::demo::web()?;
                OpenedWeb { web, roots, graph: None }
            }
            Family::Shop => {
                let site = self.with_robots(crate::shop::add_pages(self.site()?));
                let roots = vec![site.url("/")];
                OpenedWeb { web: PracticeWeb::new().site(site), roots, graph: None }
            }
        };
        opened.web = opened.web.threads(self.threads).politeness(self.politeness).without_request_log();
        Ok(opened)
    }

    /// A site on every loopback address, at the given port.
    fn site(&self) -> io::Result<Site> {
        let address = format!("0.0.0.0:{}", self.port);
        let mut site = match self.tls {
            None => Site::http(&address)?,
            Some(kind) => Site::https(&address, kind)?,
        };
        if !self.allows_resumption {
            site = site.without_resumption();
        }
        if self.http2 {
            site = site.http2();
        }
        Ok(self.with_robots(site))
    }

    /// Sets the robots.txt that `--robots` gives.
    fn with_robots(&self, site: Site) -> Site {
        match &self.robots {
            Some(text) => site.robots(text),
            None => site,
        }
    }

    fn open_graph(&self) -> io::Result<OpenedWeb> {
        let site = self.site()?;
        let graph = Arc::new(Graph::new(self.plan.clone(), site.address().port(), self.tls.is_some()));
        let roots = graph.roots().map(|id| graph.url(id)).collect();
        Ok(OpenedWeb { web: PracticeWeb::new().site(site.graph(&graph)), roots, graph: Some(graph) })
    }

    fn open_silent(&self) -> io::Result<OpenedWeb> {
        let mut site = self.site()?;
        let graph = Graph::new(self.plan.clone(), site.address().port(), self.tls.is_some());
        if self.robots.is_none() {
            site = site.page("/robots.txt", Response::status(404));
        }
        let site = site
            .page("/", Response::links((1..=self.plan.pages).map(|page| format!("/p{page}"))))
            .fallback(Response::html("<!doctype html>\n<title>Page</title>\n").held());
        let roots = (0..graph.plan().hosts).map(|host| graph.url(crate::graph::PageId { host, page: 0 })).collect();
        Ok(OpenedWeb { web: PracticeWeb::new().site(site), roots, graph: None })
    }

    fn open_files(&self) -> io::Result<OpenedWeb> {
        let folder = self.folder.as_deref().ok_or_else(|| io::Error::other("--family files needs --folder DIR"))?;
        let site = crate::files::add_pages(self.site()?, folder)?;
        let roots = vec![site.url("/")];
        Ok(OpenedWeb { web: PracticeWeb::new().site(site), roots, graph: None })
    }

    fn open_big(&self) -> io::Result<OpenedWeb> {
        let mut site = self.site()?;
        let mut links = Vec::new();
        for megabytes in [1u64, 10, 100] {
            let page = Response::filled(format!("<title>{megabytes} MB</title>\n<p>"), megabytes << 20);
            let plain = format!("/{megabytes}");
            let gzipped = format!("/{megabytes}.gz");
            site = site.page(&format!("{plain}?*"), page.clone()).page(&format!("{gzipped}?*"), page.gzip());
            // Many URLs for the same page, so that a crawl can request it many times.
            for copy in 0..self.plan.pages.max(1) {
                links.push(format!("{plain}?{copy}"));
                links.push(format!("{gzipped}?{copy}"));
            }
        }
        let site = site.page("/", Response::links(links));
        let roots = vec![site.url("/")];
        Ok(OpenedWeb { web: PracticeWeb::new().site(site), roots, graph: None })
    }
}

/// Parses the value of a flag.
fn number<N: std::str::FromStr>(flag: &str, value: &str) -> Result<N, String> {
    value.parse().map_err(|_| format!("{flag} {value}: a number is needed"))
}

/// Milliseconds, with an optional fraction, as microseconds.
fn micros(flag: &str, value: &str) -> Result<u64, String> {
    let millis: f64 = number(flag, value)?;
    if !(0.0..1e9).contains(&millis) {
        return Err(format!("{flag} {value}: milliseconds are needed, as in 25 or 0.5"));
    }
    Ok((millis * 1000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<ServeOptions, String> {
        ServeOptions::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_set_the_options() {
        let options = parse(
            "--family blog --hosts 3 --latency-ms 1000-3000 --drip=50:20 --tls good --close --http2 --min-gap-ms 0.5",
        )
        .unwrap();
        assert_eq!((options.plan.shape, options.plan.hosts, options.plan.close), (Shape::Blog, 3, true));
        assert_eq!((options.plan.latency_us, options.plan.drip), ((1_000_000, 3_000_000), (50, 20_000)));
        assert_eq!((options.tls, options.http2), (Some(CertificateKind::Good), true));
        assert_eq!(options.politeness.min_gap, Some(Duration::from_micros(500)));
    }

    #[test]
    fn errors_name_the_flag() {
        for (line, expected) in [
            ("--hosts many", "--hosts many"),
            ("--hosts", "--hosts needs"),
            ("--family zoo", "choose graph"),
            ("--tls bad", "self-signed"),
            ("--drip 5", "BYTES:MS"),
            ("--latency-ms -1", "--latency-ms"),
            ("--what 1", "--what"),
            ("--family demo --tls good", "--tls"),
            ("--port 8080 --family demo", "--port"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
