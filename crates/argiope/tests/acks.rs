//! Acknowledged delivery: exactly what was acknowledged is processed.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use argiope::{
    Ack, CannedResponse, CannedWeb, Crawl, CrawlBuilder, CrawlHandle, Delivery, End, Method, Page, Request,
    RobotsPolicy, Sink, SinkError,
};
use argiope_core::crawl::record::page_state::Change;
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use futures_core::Stream;

const PAGES: usize = 60;
const HOST: &str = "https://site.example";
const ROOT: &str = "ARGIOPE_ACKS_ROOT";
const DIRECTORY: &str = "ARGIOPE_ACKS_DIRECTORY";

/// A root and pages that it links to.
fn canned() -> CrawlBuilder {
    let links: String = (1..PAGES).map(|page| format!("<a href=/{page}>")).collect();
    let pages = (1..PAGES).map(|page| (format!("{HOST}/{page}"), CannedResponse::html("x")));
    let web: CannedWeb = pages.chain([(format!("{HOST}/0"), CannedResponse::html(links))]).collect();
    Crawl::builder(format!("{HOST}/0")).with_transport(web)
}

fn number(page: &Page) -> usize {
    page.url().path()[1..].parse().expect("a number")
}

fn all() -> BTreeSet<usize> {
    (0..PAGES).collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(future)
}

/// The pages that the rest of the crawl delivers.
fn rest(builder: CrawlBuilder) -> Vec<usize> {
    let mut pages = builder.start_blocking().expect("it starts");
    let rest = pages.by_ref().map(|page| number(&page)).collect();
    pages.close().expect("it ends");
    rest
}

#[test]
fn a_page_whose_acknowledgement_is_dropped_is_delivered_again() {
    let mut pages = canned().start_blocking().expect("it starts");
    let (mut given_back, mut done) = (BTreeSet::new(), Vec::new());
    while let Some((page, ack)) = pages.next_acked() {
        if number(&page).is_multiple_of(3) && given_back.insert(number(&page)) {
            drop(ack);
        } else {
            done.push(number(&page));
            ack.done();
        }
    }
    assert_eq!(given_back.len(), PAGES / 3);
    assert_eq!((done.len(), done.into_iter().collect()), (PAGES, all()));
    let summary = pages.close().expect("it ends");
    assert_eq!((summary.end, summary.unread), (End::Finished, 0));
}

#[test]
fn an_open_acknowledgement_keeps_the_crawl_open() {
    let mut pages = canned().start_blocking().expect("it starts");
    let handle = pages.handle();
    let mut open = None;
    while open.is_none() {
        let (page, ack) = pages.next_acked().expect("a page");
        match number(&page) {
            7 => open = Some(ack),
            _ => ack.done(),
        }
    }
    // All pages but one are done, and nothing is queued.
    let mut left = loop {
        match pages.next_or_idle() {
            Delivery::Page(_, ack) => ack.done(),
            Delivery::Idle => break open,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(pages.next_or_idle(), Delivery::Idle), "it is still idle");
    handle.feed([format!("{HOST}/late")]).expect("the crawl is open");
    let (page, ack) = pages.next_acked().expect("the page that was fed");
    assert_eq!(page.url().path(), "/late");
    ack.done();
    left.take().into_iter().for_each(Ack::done);
    assert!(pages.next_acked().is_none());
    assert!(handle.feed([format!("{HOST}/later")]).is_err());
}

#[test]
fn a_crawl_without_open_acknowledgements_is_over_and_not_idle() {
    let (_web, root) = serve();
    for _ in 0..20 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut pages = Crawl::builder(&root).directory(folder.path().join("c")).start_blocking().expect("it starts");
        let mut count = 0;
        loop {
            match pages.next_or_idle() {
                Delivery::Page(_, ack) => ack.done(),
                Delivery::Idle => panic!("idle after {count} pages, which are all done"),
                _ => break,
            }
            count += 1;
        }
        assert_eq!(count, PAGES);
    }
}

#[test]
fn an_acknowledgement_may_be_done_on_another_thread_while_the_reader_waits() {
    let mut pages = canned().start_blocking().expect("it starts");
    let (sender, receiver) = std::sync::mpsc::channel::<(Page, Ack)>();
    let handle = pages.handle();
    let worker = std::thread::spawn(move || {
        for (page, ack) in receiver {
            // Every page leads to one that no page links to.
            if number(&page) < PAGES {
                handle.feed([format!("{HOST}/{}", number(&page) + 1_000)]).expect("the crawl is open");
            }
            ack.done();
        }
    });
    let mut count = 0;
    while let Some(delivered) = pages.next_acked() {
        count += 1;
        sender.send(delivered).expect("the worker runs");
    }
    drop(sender);
    worker.join().expect("the worker has ended");
    assert_eq!(count, 2 * PAGES);
}

#[test]
fn batches_have_at_most_the_given_number_of_pages_and_do_not_wait_for_ever() {
    block_on(async {
        let mut crawl = canned().start().await.expect("it starts");
        let mut sizes = Vec::new();
        let mut seen = BTreeSet::new();
        while let Some((pages, ack)) = crawl.next_batch(16, Duration::from_secs(3_600)).await {
            sizes.push(pages.len());
            seen.extend(pages.iter().map(number));
            ack.done();
        }
        assert!(sizes.iter().all(|size| (1..=16).contains(size)), "{sizes:?}");
        assert_eq!(seen, all());
        // The root is alone: its batch is complete when no work is left but the root.
        assert!(sizes.iter().sum::<usize>() == PAGES && sizes.len() >= PAGES / 16, "{sizes:?}");
        crawl.close().await.expect("it ends");
    });
}

#[test]
fn a_batch_whose_future_is_dropped_loses_no_page() {
    block_on(async {
        let (mut crawl, mut seen) = (canned().start().await.expect("it starts"), Vec::new());
        for round in 0.. {
            // Every second batch is cancelled after a moment.
            let patience = if round % 2 == 0 { Duration::from_micros(200) } else { Duration::from_secs(60) };
            match tokio::time::timeout(patience, crawl.next_batch(7, Duration::from_secs(60))).await {
                Ok(Some((pages, ack))) => {
                    seen.extend(pages.iter().map(number));
                    ack.done();
                }
                Ok(None) => break,
                Err(_) => {}
            }
        }
        assert_eq!((seen.len(), seen.into_iter().collect()), (PAGES, all()));
    });
}

#[test]
fn tasks_that_feed_find_the_crawl_open() {
    // Like `for_each_concurrent`: the stream is polled for further pages while pages are processed.
    block_on(async {
        let mut crawl = canned().max_pages(3 * PAGES as u64).start().await.expect("it starts");
        let handle = crawl.handle();
        let mut stream = std::pin::pin!(crawl.acked());
        let mut tasks = tokio::task::JoinSet::new();
        let mut count = 0;
        while let Some((page, ack)) = std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
            count += 1;
            let handle = handle.clone();
            tasks.spawn(async move {
                tokio::task::yield_now().await;
                if number(&page) < PAGES {
                    handle.feed([format!("{HOST}/{}", number(&page) + 500)]).expect("the crawl is open");
                }
                ack.done();
            });
            tokio::task::yield_now().await;
        }
        while let Some(result) = tasks.join_next().await {
            result.expect("no task fails");
        }
        assert_eq!(count, 2 * PAGES);
    });
}

#[test]
fn the_next_run_delivers_exactly_what_was_not_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = || canned().directory(folder.path().join("c"));
    let mut pages = builder().start_blocking().expect("it starts");
    let (mut done, mut open) = (BTreeSet::new(), Vec::new());
    for _ in 0..PAGES {
        let (page, ack) = pages.next_acked().expect("a page");
        if number(&page) % 5 == 2 {
            open.push(ack);
        } else {
            done.insert(number(&page));
            ack.done();
        }
    }
    let summary = pages.close().expect("it ends");
    assert_eq!(summary.unread, open.len() as u64);
    // After the end, an acknowledgement has no effect.
    assert!(open.pop().expect("one is open").done_durably_blocking().is_err());
    let rest = rest(builder());
    assert_eq!((rest.len(), rest.into_iter().collect::<BTreeSet<_>>()), (PAGES - done.len(), &all() - &done));
}

#[test]
fn a_recrawled_page_that_is_delivered_again_is_compared_and_counted_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = || canned().directory(folder.path().join("c")).recrawl();
    assert_eq!(rest(builder()).len(), PAGES);
    // The second round: all pages are fetched, and some are not acknowledged.
    let (mut pages, mut open) = (builder().start_blocking().expect("it starts"), Vec::new());
    for _ in 0..PAGES {
        let (page, ack) = pages.next_acked().expect("a page");
        if number(&page) % 5 == 2 { open.push(ack) } else { ack.done() }
    }
    let changes = pages.close().expect("it ends").changes.expect("it is a recrawl");
    assert_eq!((changes.same, changes.new), (PAGES as u64, 0));
    let mut pages = builder().start_blocking().expect("it starts");
    let again: Vec<_> = pages.by_ref().map(|page| page.record().change).collect();
    assert_eq!(again, vec![Some(Change::Same); PAGES / 5]);
    let changes = pages.close().expect("it ends").changes.expect("it is a recrawl");
    assert_eq!((changes.same, changes.new), (PAGES as u64, 0));
}

#[test]
fn the_limit_on_pages_waits_for_open_acknowledgements() {
    let mut pages = canned().max_pages(10).start_blocking().expect("it starts");
    let mut open: Vec<Ack> = (0..10).map(|_| pages.next_acked().expect("a page").1).collect();
    assert!(matches!(pages.next_or_idle(), Delivery::Idle));
    // One is given back, and comes again.
    drop(open.pop());
    let (_, again) = pages.next_acked().expect("the page that was given back");
    let mut all = again;
    all.extend(open);
    all.done_durably_blocking().expect("a crawl in memory has nothing to store");
    assert!(pages.next_acked().is_none());
    assert_eq!(pages.close().expect("it ends").end, End::MaxPages);
}

#[test]
fn an_ended_crawl_is_idle_although_requests_were_in_flight() {
    let late = CannedResponse::html("late").latency(Duration::from_secs(60));
    let web = CannedWeb::from([
        (format!("{HOST}/0"), CannedResponse::html("<a href=/1><a href=/2>")),
        (format!("{HOST}/1"), CannedResponse::html("x")),
        (format!("{HOST}/2"), late),
    ]);
    let builder = Crawl::builder(format!("{HOST}/0")).with_transport(web).max_time(Duration::from_secs(30));
    let mut pages = builder.start_blocking().expect("it starts");
    // The pages are acknowledged when nothing else is left to be done.
    let mut open = Ack::default();
    loop {
        match pages.next_or_idle() {
            Delivery::Page(_, ack) => open.extend([ack]),
            Delivery::Idle => std::mem::take(&mut open).done(),
            Delivery::End => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(pages.close().expect("it ends").end, End::MaxTime);
}

/// Writes its buffer in `flush`, which fails once.
#[derive(Default)]
struct Table {
    buffer: Vec<usize>,
    rows: Vec<usize>,
    flushes: usize,
    fails_at: usize,
}

impl Sink for Table {
    fn page(&mut self, page: Page, _: &CrawlHandle) -> Result<(), SinkError> {
        self.buffer.push(number(&page));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.flushes += usize::from(!self.buffer.is_empty());
        if self.flushes == self.fails_at {
            return Err("the database is busy".into());
        }
        self.rows.append(&mut self.buffer);
        Ok(())
    }
}

#[test]
fn pages_of_a_sink_are_processed_when_flush_has_returned() {
    for fails_at in 1..4 {
        let folder = tempfile::tempdir().expect("a folder");
        let builder = || canned().directory(folder.path().join("c"));
        let mut table = Table { fails_at, ..Table::default() };
        let failed = builder().run(&mut table);
        // A fast machine may need fewer flushes.
        if let Err(error) = failed {
            assert!(error.is_sink(), "{error}");
            let rows = std::mem::take(&mut table.rows);
            let mut again = Table { rows, fails_at: usize::MAX, ..Table::default() };
            builder().run(&mut again).expect("the database is there");
            table = again;
        }
        assert_eq!((table.rows.len(), table.rows.into_iter().collect()), (PAGES, all()), "flush {fails_at} fails");
    }
}

fn serve() -> (RunningWeb, String) {
    let paths: Vec<String> = (1..PAGES).map(|number| format!("/{number}")).collect();
    let site = Site::http("127.5.4.31:0").expect("a loopback address").page("/0", Response::links(&paths));
    let site = site.fallback(Response::html("<title>x</title>"));
    let root = site.url("/0");
    (PracticeWeb::new().site(site).start().expect("the practice web starts"), root)
}

#[test]
fn a_crawl_that_is_aborted_leaves_the_rest_to_the_next_run() {
    let (_web, root) = serve();
    let folder = tempfile::tempdir().expect("a folder");
    let builder = || Crawl::builder(&root).robots(RobotsPolicy::Ignore).directory(folder.path().join("c"));
    block_on(async {
        let mut crawl = builder().start().await.expect("it starts");
        let (first, ack) = crawl.next_acked().await.expect("a page");
        ack.done();
        let held = crawl.next_acked().await.expect("a page");
        let summary = crawl.abort().await.expect("it ends");
        assert!(summary.unread >= 1, "{summary:?}");
        drop(held);
        let rest = rest(builder());
        let unique: BTreeSet<usize> = rest.iter().copied().collect();
        assert_eq!((rest.len(), unique), (PAGES - 1, &all() - &BTreeSet::from([number(&first)])));
    });
}

/// The child process of the next test, which kills it. Returns at once if the test runner calls it.
#[test]
fn killed_reader() {
    let (Ok(root), Ok(directory)) = (std::env::var(ROOT), std::env::var(DIRECTORY)) else { return };
    let mut pages = Crawl::builder(root)
        .robots(RobotsPolicy::Ignore)
        .directory(directory)
        .start_blocking()
        .expect("the crawl starts");
    let mut held = Vec::new();
    while let Some((page, ack)) = pages.next_acked() {
        let number = number(&page);
        if number % 4 == 1 {
            held.push(ack);
        } else {
            #[allow(clippy::print_stdout)]
            {
                println!("begin {number}");
                ack.done_durably_blocking().expect("the crawl runs");
                println!("acked {number}");
            }
        }
    }
}

#[test]
fn exactly_what_was_acknowledged_survives_a_kill() {
    let (_web, root) = serve();
    let program = std::env::current_exe().expect("this program has a path");
    // The reader is killed after every few lines, so also while an acknowledgement is being stored.
    for lines in (1..90).step_by(8) {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("kill.crawl");
        let mut child = Command::new(&program)
            .args(["--exact", "killed_reader", "--nocapture"])
            .envs([(ROOT, root.as_str()), (DIRECTORY, &directory.display().to_string())])
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program runs");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        // The runner's own words may precede the first line.
        let line_of =
            |line: String| line.find("begin ").or_else(|| line.find("acked ")).map(|at| line[at..].to_owned());
        let mut output = output.lines().map_while(Result::ok).filter_map(line_of);
        let mut printed: Vec<String> = output.by_ref().take(lines).collect();
        child.kill().expect("it can be killed");
        child.wait().expect("it has ended");
        printed.extend(output);
        let with = |word: &str| -> BTreeSet<usize> {
            printed
                .iter()
                .filter_map(|line| line.strip_prefix(word))
                .map(|text| text.parse().expect("a number"))
                .collect()
        };
        let (begun, acked) = (with("begin "), with("acked "));
        assert!(begun.len() - acked.len() <= 1, "{printed:?}");
        let again = rest(Crawl::builder(&root).robots(RobotsPolicy::Ignore).directory(Path::new(&directory)));
        let unique: BTreeSet<usize> = again.iter().copied().collect();
        assert_eq!(unique.len(), again.len(), "each page is delivered once");
        assert!(unique.is_disjoint(&acked), "{lines} lines: what was acknowledged is not delivered again");
        let missing = &all() - &unique;
        assert!(missing.is_superset(&acked) && missing.is_subset(&begun), "{lines}: {missing:?}, {printed:?}");
    }
}

#[test]
fn requests_that_are_not_repeated_still_count_for_the_limit_on_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = || {
        let search = |query: &str| Request::post(&format!("{HOST}/search")).expect("a URL").form([("q", query)]);
        canned().roots([search("orb"), search("web")]).directory(folder.path().join("posts.crawl")).max_pages(3)
    };
    let mut pages = builder().start_blocking().expect("it starts");
    let open: Vec<_> = std::iter::from_fn(|| pages.next_acked()).take(3).collect();
    let posts = open.iter().filter(|(page, _)| page.method() == Method::Post).count();
    assert_eq!((open.len(), posts), (3, 2));
    assert_eq!(pages.close().expect("it ends").unread, 3);
    drop(open);
    assert_eq!(rest(builder()), [0], "the third page of the limit");
}
