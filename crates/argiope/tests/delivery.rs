//! Delivery in a crawl directory: a page that was not processed is delivered again by the next run.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use argiope::{Crawl, CrawlBuilder, DeliveredBodies, End, Page, Request, RobotsPolicy};
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};

const PAGES: usize = 60;
const ROOT: &str = "ARGIOPE_DELIVERY_ROOT";
const DIRECTORY: &str = "ARGIOPE_DELIVERY_DIRECTORY";

fn serve(address: &str) -> (RunningWeb, String) {
    let paths: Vec<String> = (0..PAGES).map(|number| format!("/{number}")).collect();
    let site = Site::http(address).expect("a loopback address").page("/", Response::links(&paths));
    let site = site.fallback(Response::html("<title>x</title>"));
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("the practice web starts"), root)
}

fn builder(root: &str, directory: &Path) -> CrawlBuilder {
    Crawl::builder(root).robots(RobotsPolicy::Ignore).directory(directory)
}

fn path(page: &Page) -> String {
    assert!(page.is_ok() && !page.body().is_empty(), "{}: whole pages are delivered", page.url());
    page.url().path().to_owned()
}

fn all() -> BTreeSet<String> {
    (0..PAGES).map(|number| format!("/{number}")).chain(["/".to_owned()]).collect()
}

/// Reads `count` pages and closes the crawl when the server has received at least `requests` requests. Returns the
/// paths that were read, and the number of unread pages.
fn read_and_close(web: &RunningWeb, builder: CrawlBuilder, count: usize, requests: u64) -> (Vec<String>, u64) {
    let mut pages = builder.start_blocking().expect("it starts");
    let read: Vec<String> = pages.by_ref().take(count).map(|page| path(&page)).collect();
    assert!(web.wait_until(std::time::Duration::from_secs(20), |web| web.requests() >= requests));
    let summary = pages.close().expect("it ends well");
    assert!(summary.unread == 0 || summary.end != End::Finished, "unread pages are unfinished work");
    (read, summary.unread)
}

#[test]
fn pages_that_were_not_read_before_close_are_delivered_by_the_next_run() {
    let (web, root) = serve("127.5.4.1:0");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("close.crawl");
    let (mut read, unread) = read_and_close(&web, builder(&root, &directory), 5, 30);
    assert!(read.len() == 5 && unread >= 20, "{unread} unread");
    let (more, _) = read_and_close(&web, builder(&root, &directory), 10, 40);
    read.extend(more);
    let rest: Vec<String> =
        builder(&root, &directory).start_blocking().expect("it resumes").map(|page| path(&page)).collect();
    read.extend(rest);
    assert_eq!(read.len(), PAGES + 1, "no page is delivered twice after an orderly end");
    assert_eq!(read.into_iter().collect::<BTreeSet<_>>(), all());
    assert_eq!(builder(&root, &directory).start_blocking().expect("it is finished").count(), 0);
}

#[test]
fn all_pages_of_a_stopped_crawl_can_be_read() {
    let (web, root) = serve("127.5.4.2:0");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("stop.crawl");
    let mut delivered = Vec::new();
    for run in 1..=2 {
        let mut pages = builder(&root, &directory).start_blocking().expect("it starts");
        while let Some(page) = pages.next() {
            delivered.push(path(&page));
            if run == 1 && delivered.len() == 5 {
                pages.stop();
            }
        }
        assert_eq!(pages.close().expect("it ends well").unread, 0);
    }
    assert_eq!((delivered.len(), web.requests()), (PAGES + 1, PAGES as u64 + 1), "each page is fetched once");
}

#[test]
fn the_limit_on_pages_does_not_count_pages_that_are_delivered_again() {
    let (web, root) = serve("127.5.4.3:0");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("limit.crawl");
    let limited = || builder(&root, &directory).max_pages(40);
    let (read, unread) = read_and_close(&web, limited(), 10, 40);
    assert_eq!(unread, 30);
    let rest = limited().start_blocking().expect("it resumes").map(|page| path(&page));
    let all: BTreeSet<String> = read.into_iter().chain(rest).collect();
    assert_eq!(all.len(), 40);
}

/// A form is sent once, even if its response was not read.
#[test]
fn a_form_is_not_repeated_for_delivery() {
    let (web, root) = serve("127.5.4.4:0");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("form.crawl");
    let mut pages = builder(&root, &directory).max_pages(2).follow(|_| false).start_blocking().expect("it starts");
    pages.next().expect("the root");
    pages.feed([Request::post(&format!("{root}post")).expect("a URL").body("x")]).expect("a request");
    let posts = |web: &RunningWeb| web.log().iter().filter(|request| request.method == "POST").count();
    assert!(web.wait_until(std::time::Duration::from_secs(20), |web| posts(web) == 1));
    assert_eq!(pages.close().expect("it ends well").unread, 1);
    let again = builder(&root, &directory).follow(|_| false).start_blocking().expect("it resumes").count();
    assert_eq!((again, posts(&web)), (0, 1));
}

#[test]
fn a_page_that_a_sink_could_not_process_is_delivered_again() {
    let (_web, root) = serve("127.5.4.5:0");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("sink.crawl");
    let mut done = Vec::new();
    let error = builder(&root, &directory).for_each(|page, _| {
        if done.len() == 7 {
            return Err(std::io::Error::other("the database is gone").into());
        }
        done.push(path(&page));
        Ok(())
    });
    let error = error.expect_err("the sink failed");
    assert!(error.is_sink() && error.to_string().contains("the database is gone"), "{error}");
    let source = std::error::Error::source(&error).expect("the error of the sink");
    assert!(source.downcast_ref::<std::io::Error>().is_some(), "{source:?}");
    let rest = builder(&root, &directory).for_each(|page, _| {
        done.push(path(&page));
        Ok(())
    });
    assert_eq!(rest.expect("it ends well").unread, 0);
    assert_eq!((done.len(), done.into_iter().collect::<BTreeSet<_>>()), (PAGES + 1, all()));
}

/// The child process of the next test, which kills it. Returns at once if the test runner calls it.
#[test]
fn killed_reader() {
    let (Ok(root), Ok(directory)) = (std::env::var(ROOT), std::env::var(DIRECTORY)) else { return };
    let pages = builder(&root, Path::new(&directory)).bodies(DeliveredBodies::All).start_blocking();
    for (number, page) in pages.expect("it starts").enumerate() {
        #[allow(clippy::print_stdout)]
        {
            println!("read {}", page.url().path());
        }
        if number == 20 {
            // Waits to be killed while it has a page that is not processed.
            loop {
                std::thread::park();
            }
        }
    }
}

#[test]
fn a_killed_reader_loses_no_page() {
    let (web, root) = serve("127.5.4.6:0");
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("kill.crawl");
    let program = std::env::current_exe().expect("this program has a path");
    let mut child = Command::new(program)
        .args(["--exact", "killed_reader", "--nocapture"])
        .envs([(ROOT, root.as_str()), (DIRECTORY, &directory.display().to_string())])
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let read = lines.filter_map(|line| Some(line.split_once("read ")?.1.to_owned()));
    let read: Vec<String> = read.take(21).collect();
    // All pages are fetched, and most of them wait for the reader.
    assert!(web.wait_until(std::time::Duration::from_secs(20), |web| web.requests() > PAGES as u64));
    child.kill().expect("it can be killed");
    child.wait().expect("it has ended");
    let processed: BTreeSet<String> = read.iter().take(20).cloned().collect();
    let again: Vec<String> =
        builder(&root, &directory).start_blocking().expect("it resumes").map(|page| path(&page)).collect();
    let again_set: BTreeSet<String> = again.iter().cloned().collect();
    assert_eq!(again.len(), again_set.len(), "each page is delivered once by this run");
    assert!(again_set.contains(&read[20]), "the page that the reader had taken last was not processed");
    assert_eq!(processed.union(&again_set).cloned().collect::<BTreeSet<_>>(), all(), "no page is lost");
}
