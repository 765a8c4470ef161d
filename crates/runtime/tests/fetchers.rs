//! A crawl with a second fetcher besides its engine: the choice is made for each job, and a page of one fetcher can be
//! continued by the other.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use argiope_core::Time;
use argiope_core::base::job::Job;
use argiope_core::crawl::fetcher::{Fetcher, FetcherContext, StopMode};
use argiope_core::crawl::response::WholeResponse;
use argiope_core::crawl::rules::{Config, EngineName, ProgramSettings};
use argiope_core::crawl::schedule::keeper::Settled;
use argiope_core::crawl::visit::Visit;
use argiope_core::page::reader::DeliveredBodies;
use argiope_engine::Clock;
use argiope_practice::{PracticeWeb, Response as Page, Site};
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{CrawlSetup, KeeperHandle, VisitConsumer};
use argiope_runtime::writer_thread::OutputTarget;
use argiope_store::MemoryFrontier;

/// Answers the pages below `/local/` itself, and leaves all other jobs to the engine.
#[derive(Default)]
struct LocalPages(Option<FetcherContext>);

impl Fetcher for LocalPages {
    fn start(&mut self, crawl: &FetcherContext) -> io::Result<()> {
        self.0 = Some(crawl.clone());
        Ok(())
    }

    fn accept(&mut self, job: Job, now: Time) -> Result<(), Job> {
        if !job.link.url.path().starts_with("/local/") {
            return Err(job);
        }
        let crawl = self.0.as_mut().expect("it was started");
        let (head, body) = (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n".to_vec(), b"<a href=/end>".to_vec());
        let response = WholeResponse { head, body, started: now, arrived: now, ended: now, ..WholeResponse::default() };
        crawl.visits.push(response.into_visit(job, &crawl.rules));
        Ok(())
    }

    fn flush(&mut self) {
        self.0.as_mut().expect("it was started").visits.send();
    }

    fn stop(&mut self, _: StopMode) {}
}

/// Continues every HTML page on a thread of its own, after a while, as a browser would: reads the page again with a link
/// that only a script would have added.
#[derive(Default)]
struct SlowRenderer {
    crawl: Option<FetcherContext>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Fetcher for SlowRenderer {
    fn start(&mut self, crawl: &FetcherContext) -> io::Result<()> {
        self.crawl = Some(crawl.clone());
        Ok(())
    }

    fn accept(&mut self, job: Job, _now: Time) -> Result<(), Job> {
        Err(job)
    }

    fn resume(&mut self, visit: Box<Visit>, now: Time) -> Result<(), Box<Visit>> {
        if visit.findings.content_type.as_deref() != Some("text/html") || visit.body.is_none() {
            return Err(visit);
        }
        let FetcherContext { rules, mut visits, .. } = self.crawl.clone().expect("it was started");
        self.threads.push(std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            let mut visit = visit;
            let static_body = visit.body.take().expect("checked above").bytes;
            let body = [&static_body[..], b"<a href=/scripted>"].concat();
            let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n".to_vec();
            let response =
                WholeResponse { head, body, started: now, arrived: now, ended: now, ..WholeResponse::default() };
            assert!(response.replace_page_of(&mut visit, &rules), "the document can be read");
            visits.push(visit);
            visits.send();
        }));
        Ok(())
    }

    fn stop(&mut self, _: StopMode) {}

    fn join(&mut self) {
        self.threads.drain(..).for_each(|thread| thread.join().expect("it does not panic"));
    }
}

/// Collects the settled pages: path, and number of links that are followed.
#[derive(Clone, Default)]
struct Pages(Arc<Mutex<BTreeMap<String, u32>>>);

impl VisitConsumer for Pages {
    fn take(&mut self, settled: Settled) {
        if settled.visit.is_page() {
            let (path, links) = (settled.visit.link.url.path().to_owned(), settled.visit.findings.links);
            let earlier = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path, links);
            assert_eq!(earlier, None, "a page is settled once");
        }
    }

    fn flush(&mut self) {}
}

/// Crawls a site whose root links to `/local/page` and `/missing`, with this fetcher before the engine. Returns the
/// pages, and the requests that the site received.
fn crawl(fetcher: impl Fetcher + 'static, max_pages: Option<u64>) -> (BTreeMap<String, u32>, Vec<String>) {
    let site = Site::http("127.0.0.1:0").expect("a loopback address");
    let site = site.page("/", Page::links(["/local/page", "/missing"])).page("/end", Page::html("end"));
    let site = site.page("/scripted", Page::html("only scripts link here"));
    let root = site.url("/");
    let web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let config = Config { roots: vec![root], max_pages, ..Config::default() };
    let program = ProgramSettings { delivered_bodies: DeliveredBodies::Html, ..ProgramSettings::default() };
    let rules = Arc::new(argiope_runtime::rules(&config, program).expect("the settings are valid"));
    let pages = Pages::default();
    let keeper = KeeperHandle::start(CrawlSetup {
        frontier: MemoryFrontier::new(rules.fingerprint_key),
        fetchers: Fetchers::engine(EngineName::Tokio).preceded_by(Box::new(fetcher)),
        rules,
        clock: Clock::start(),
        consumer: pages.clone(),
        target: OutputTarget::default(),
        accepts_links: false,
    });
    keeper.expect("the engine starts").join().expect("the crawl ends");
    let requests = web.log().into_iter().map(|request| request.path).collect();
    let pages = pages.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (pages, requests)
}

fn expected<const N: usize>(pages: [(&str, u32); N]) -> BTreeMap<String, u32> {
    pages.map(|(path, links)| (path.to_owned(), links)).into()
}

#[test]
fn a_job_is_fetched_by_the_first_fetcher_that_accepts_it() {
    let (pages, requests) = crawl(LocalPages::default(), None);
    assert_eq!(pages, expected([("/", 2), ("/local/page", 1), ("/end", 0), ("/missing", 0)]));
    assert!(requests.contains(&"/end".to_owned()), "the link that the other fetcher found is fetched by the engine");
    assert!(!requests.contains(&"/local/page".to_owned()), "{requests:?}");
}

#[test]
fn a_page_of_the_engine_is_continued_by_another_fetcher_and_settled_once() {
    let (pages, requests) = crawl(SlowRenderer::default(), None);
    assert_eq!(pages.get("/"), Some(&3), "two static links, and one of the renderer");
    assert!(pages.contains_key("/scripted"), "{pages:?}");
    let root_requests = requests.iter().filter(|path| *path == "/").count();
    assert_eq!(root_requests, 1, "the second fetcher gets the response of the first: {requests:?}");
}

#[test]
fn a_limited_crawl_waits_for_the_pages_that_are_continued() {
    let (pages, _) = crawl(SlowRenderer::default(), Some(1));
    assert_eq!(pages, expected([("/", 3)]));
}
