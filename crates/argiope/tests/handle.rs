//! Handles: requests from other threads, and crawls that are held open.

use std::sync::mpsc;

use argiope::{Crawl, CrawlBuilder, CrawlHandle, End, Page, RobotsPolicy, Sink, SinkError};
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};

fn serve(address: &str) -> (RunningWeb, String) {
    let site = Site::http(address).expect("a loopback address").fallback(Response::html("x"));
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("the practice web starts"), root)
}

fn builder(root: &str) -> CrawlBuilder {
    Crawl::builder(root).robots(RobotsPolicy::Ignore)
}

#[test]
fn a_held_crawl_waits_for_requests_of_other_threads() {
    let (web, root) = serve("127.5.5.1:0");
    let mut pages = builder(&root).start_blocking().expect("it starts");
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let (handle, root) = (pages.handle(), root.clone());
            let hold = handle.hold().expect("it runs");
            let (sender, read) = mpsc::channel::<String>();
            let feeder = std::thread::spawn(move || {
                // Each request is made when the page before it was read: in between there is nothing to crawl.
                for number in 0..10 {
                    let url = format!("{root}{thread}/{number}");
                    handle.feed([&url]).expect("the crawl is held open");
                    assert_eq!(read.recv().expect("the reader"), url);
                }
                drop(hold);
            });
            (feeder, sender)
        })
        .collect();
    let mut count = 0;
    for page in &mut pages {
        count += 1;
        let thread = page.url().path().split('/').nth(1).and_then(|number| number.parse::<usize>().ok());
        if let Some((_, sender)) = thread.and_then(|thread| threads.get(thread)) {
            sender.send(page.url().to_string()).expect("the feeder");
        }
    }
    for (feeder, _) in threads {
        feeder.join().expect("all its requests were read");
    }
    let handle = pages.handle();
    assert!(handle.feed(["http://127.5.5.1/late"]).expect_err("it has ended").is_input());
    assert!(handle.hold().is_err());
    // The root, and ten pages for each of the four threads.
    assert_eq!((count, pages.close().expect("it ends well").end), (41, End::Finished));
    assert_eq!(web.requests(), 41);
}

#[test]
fn a_held_crawl_can_be_stopped_and_closed() {
    let (_web, root) = serve("127.5.5.2:0");
    let mut pages = builder(&root).start_blocking().expect("it starts");
    let handle = pages.handle();
    let hold = handle.hold().expect("it runs");
    pages.next().expect("the root");
    std::thread::spawn(move || handle.stop());
    assert!(pages.next().is_none(), "stopped though it is held open");
    assert_eq!(pages.close().expect("it ends well").end, End::Interrupted);
    drop(hold);
    let pages = builder(&root).start_blocking().expect("it starts");
    let _hold = pages.handle().hold().expect("it runs");
    pages.close().expect("closed though it is held open");
}

/// Feeds the next link while it has the page, and counts what it sees.
struct Chain {
    root: String,
    pages: usize,
    flushes: usize,
}

impl Sink for Chain {
    fn page(&mut self, page: Page, crawl: &CrawlHandle) -> Result<(), SinkError> {
        assert!(page.is_ok());
        self.pages += 1;
        if self.pages < 20 {
            crawl.feed([format!("{}{}", self.root, self.pages)])?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.flushes += 1;
        Ok(())
    }
}

#[test]
fn a_sink_feeds_links_and_keeps_its_state() {
    let (web, root) = serve("127.5.5.3:0");
    let mut chain = Chain { root: root.clone(), pages: 0, flushes: 0 };
    let summary = builder(&root).run(&mut chain).expect("it ends well");
    assert_eq!((chain.pages, summary.end, web.requests()), (20, End::Finished, 20));
    assert!(chain.flushes >= 20, "flushed {} times: before each pause and at the end", chain.flushes);
    let failed = builder(&root).run(&mut Failing).expect_err("its flush fails");
    assert!(failed.is_sink() && failed.to_string() == "the sink failed to flush: no space", "{failed}");
}

struct Failing;

impl Sink for Failing {
    fn page(&mut self, _page: Page, _crawl: &CrawlHandle) -> Result<(), SinkError> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Err("no space".into())
    }
}

#[test]
fn a_panic_of_a_sink_continues_in_the_caller() {
    let (web, root) = serve("127.5.5.4:0");
    let run = || builder(&root).for_each(|page, _| panic!("a bug at {}", page.url().path()));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).expect_err("the sink panicked");
    assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some("a bug at /"));
    assert!(web.wait_open(0, std::time::Duration::from_secs(20)), "the crawl has ended");
}
