//! Bodies that are written while they arrive, and names that the program looks up.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use argiope::{Crawl, CrawlBuilder, ErrorKind, Outcome, RobotsPolicy};
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};

const LARGE: u64 = 64 << 20;

fn serve(address: &str) -> (RunningWeb, String) {
    let site =
        Site::http(address).expect("a loopback address").page("/", Response::links(["/large", "/packed", "/cut"]));
    let image = |response: Response| response.content_type("application/octet-stream");
    let site = site.page("/large", image(Response::filled("start ", LARGE)));
    let site = site.page("/packed", image(Response::bytes("packed ".repeat(10_000)).gzip()));
    let site = site.page("/cut", image(Response::bytes(vec![7; 10_000])).truncate_at(4_000));
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("the practice web starts"), root)
}

fn builder(root: &str) -> CrawlBuilder {
    Crawl::builder(root).robots(RobotsPolicy::Ignore).max_size(1 << 30).configure(|config| config.max_tries = 1)
}

#[test]
fn a_body_larger_than_what_may_be_held_goes_to_a_file() {
    let (_web, root) = serve("127.5.8.1:0");
    let folder = tempfile::tempdir().expect("a folder");
    let file = |path: &str| -> PathBuf { folder.path().join(path.trim_start_matches('/')) };
    let into = folder.path().to_owned();
    let mut pages = builder(&root)
        .max_memory(48 << 20)
        .stream_body(move |response| {
            let name = response.url().path().trim_start_matches('/');
            let file = std::fs::File::create(into.join(name)).ok().filter(|_| !name.is_empty())?;
            Some(Box::new(io::BufWriter::new(file)))
        })
        .start_blocking()
        .expect("it starts");
    let mut seen = 0;
    for page in pages.by_ref().filter(|page| page.url().path() != "/") {
        let path = page.url().path().to_owned();
        let length = std::fs::metadata(file(&path)).expect("a file").len();
        assert_eq!((length, page.body().len()), (page.facts().bytes_body, 0), "{path}");
        let expected = if path == "/large" { LARGE } else { length };
        assert_eq!((length, page.truncated().is_some()), (expected, path == "/cut"), "{path}");
        assert!(path == "/cut" || page.record().digest.is_some(), "{path}");
        seen += 1;
    }
    assert_eq!(seen, 3);
    assert_eq!(std::fs::read_to_string(file("packed")).expect("a file"), "packed ".repeat(10_000));
    pages.close().expect("it ends");
}

/// A writer that fails after some bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("the disk is full"));
        }
        let count = bytes.len().min(self.0);
        self.0 -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_page_whose_body_cannot_be_written_fails() {
    let (_web, root) = serve("127.5.8.2:0");
    let pages = builder(&root)
        .stream_body(|response| match response.url().path() {
            "/packed" => Some(Box::new(Full(100))),
            "/cut" => panic!("a bug"),
            _ => None,
        })
        .start_blocking()
        .expect("it starts");
    let mut failures: Vec<(String, Outcome, ErrorKind, String)> = pages
        .filter_map(|page| {
            let error = page.error()?;
            Some((page.url().path().to_owned(), page.outcome(), error.kind, error.message.to_string()))
        })
        .filter(|failure| failure.2 == ErrorKind::Hook)
        .collect();
    failures.sort();
    let paths: Vec<&str> = failures.iter().map(|failure| failure.0.as_str()).collect();
    assert!(paths.contains(&"/packed"), "{failures:?}");
    let packed = failures.iter().find(|failure| failure.0 == "/packed").expect("it fails");
    assert_eq!((packed.1, &*packed.3), (Outcome::Failed, "the body cannot be written: the disk is full"));
}

#[test]
fn names_are_looked_up_by_the_program() {
    let site = Site::http("127.5.8.3:0").expect("a loopback address").fallback(Response::html("x"));
    let port = site.address().port();
    let web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let pages = builder(&format!("http://known.example:{port}/"))
        .root(format!("http://gone.example:{port}/"))
        .resolve_with(move |host| {
            log.lock().expect("no panic").push(host.to_owned());
            Some(if host == "known.example" { vec![[127, 5, 8, 3].into()] } else { Vec::new() })
        })
        .start_blocking()
        .expect("it starts");
    for page in pages {
        let kind = page.error().map(|error| error.kind);
        let expected = if page.url().host() == "known.example" { None } else { Some(ErrorKind::DnsNxdomain) };
        assert_eq!(kind, expected, "{}", page.url());
    }
    assert_eq!(web.log()[0].host, "known.example");
    assert!(asked.lock().expect("no panic").len() >= 2);
}
