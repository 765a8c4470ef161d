//! Tests of log compaction, without faults and with a fault at each file system call of a compaction.

use argiope_core::crawl::schedule::frontier::{History as _, Settlement, put_all};
use argiope_core::{FinalOutcome, FoundEdges, Frontier, Link, LinkKind, LinkList, Outcome, StoreError, Url};
use argiope_store::Commits as _;
use argiope_store::disk::{
    CrawlSettings, DiskFrontier, Files, GraphRound, HistoryEvent, LinkGraph, LogWriter, history_in, open_in,
};
use argiope_testkit::crash_files::{CrashFiles, InjectedFault};
use std::io::ErrorKind;
use std::sync::Arc;

const PAGES: usize = 12;
const MAX_REDIRECTS: u8 = 5;
/// The output file of the crawl, and its committed length.
const OUTPUT: (&str, u64) = ("pages.jsonl", 7);

fn url(page: usize) -> Url {
    Url::parse(&format!("https://h{}.example/{page}", page % 3)).expect("a URL")
}

fn commit(frontier: &mut DiskFrontier, writer: &mut LogWriter) {
    let batch = frontier.commit(&[OUTPUT]).expect("commits").expect("a batch");
    writer.write(&batch).expect("writes");
    frontier.acknowledge(&batch).expect("acknowledges");
}

/// Begins a round and queues all links again, without a commit.
fn begin_round(frontier: &mut DiskFrontier) {
    assert_eq!(frontier.begin_round().expect("a round"), PAGES as u64);
    while frontier.requeue_portion().expect("queued") {}
}

/// Settles all queued links. After the first round, two of three pages are unchanged, and every third has new links.
fn crawl(frontier: &mut DiskFrontier, writer: &mut LogWriter, round: usize) {
    for lane in frontier.lanes_with_work() {
        for link in frontier.take(lane, 100).expect("takes") {
            let page: usize = link.url.path().trim_start_matches('/').parse().expect("a number");
            let is_same = round > 0 && page % 3 != 1;
            if !is_same {
                let mut links = LinkList::default();
                let nofollow = page.is_multiple_of(2);
                links.push(url((page + round + 1) % PAGES).as_str(), LinkKind::Anchor, nofollow);
                links.push("https://elsewhere.example/", LinkKind::Asset, false);
                let edges = FoundEdges { source: &link.url, is_sitemap: false, links: &links, cut: 0 };
                frontier.keep_edges(&edges).expect("keeps");
            }
            let line = format!("{{\"type\":\"page\",\"url\":\"{}\",\"round\":{round}}}", link.url);
            let outcome = if is_same { Outcome::NotModified } else { Outcome::Ok };
            let final_outcome =
                FinalOutcome { outcome, status: Some(200), record: line.as_bytes(), is_fetched_page: true };
            frontier.settle(&mut [Settlement::of(&link, final_outcome)]).expect("settles");
        }
        frontier.write_note(lane, format!("note of round {round}").as_bytes()).expect("keeps");
    }
    frontier.keep_line(b"{\"type\":\"run\"}").expect("keeps");
    commit(frontier, writer);
}

/// A crawl that has finished this number of rounds.
fn crawl_rounds(files: &CrashFiles, count: usize) -> (DiskFrontier, LogWriter) {
    let opened = open_in(Arc::new(files.clone()), &CrawlSettings::new()).expect("opens");
    let (mut frontier, mut writer) = (opened.frontier, opened.writer);
    // Small, so that the log has several files, of which a compaction can remove some.
    frontier.set_max_file_size(2_000);
    let links: Vec<Link> = (0..PAGES).map(|page| Link::root(url(page), MAX_REDIRECTS)).collect();
    put_all(&mut frontier, &links).expect("put");
    crawl(&mut frontier, &mut writer, 0);
    for round in 1..count {
        begin_round(&mut frontier);
        commit(&mut frontier, &mut writer);
        if let Some(compaction) = frontier.take_compaction() {
            compaction.run().expect("compacts");
        }
        crawl(&mut frontier, &mut writer, round);
    }
    (frontier, writer)
}

/// The data of a crawl: the number of known URLs, and the records and link graphs of the last two rounds.
#[derive(Debug, PartialEq, Eq)]
struct CrawlData {
    known: u64,
    records: Vec<String>,
    graphs: [Vec<String>; 2],
}

/// Reads the data from the log, without opening the frontier.
fn read_crawl(files: &CrashFiles) -> CrawlData {
    let files: Arc<dyn Files> = Arc::new(files.clone());
    // For each round after the first: the number of records before it.
    let mut round_starts = Vec::new();
    let (mut known, mut records) = (0, Vec::new());
    let result = history_in(Arc::clone(&files), |event| {
        match event {
            HistoryEvent::Link { again, .. } => known += u64::from(!again),
            HistoryEvent::FinalOutcome { line, .. } => records.push(String::from_utf8_lossy(line).into_owned()),
            HistoryEvent::Round => round_starts.push(records.len()),
            HistoryEvent::Line { .. } | HistoryEvent::Note { .. } => {}
        }
        Ok::<(), StoreError>(())
    });
    result.expect("a history");
    let second_last = round_starts.len().checked_sub(2);
    let start = second_last.and_then(|round| round_starts.get(round)).copied().unwrap_or(0);
    let graphs = [GraphRound::Previous, GraphRound::Latest].map(|round| {
        let mut edges = Vec::new();
        let mut graph = LinkGraph::open_in(Arc::clone(&files), round).expect("a graph");
        let result = graph.pages(|page| {
            edges.extend(
                page.edges()
                    .map(|edge| format!("{} {} {} {}", page.source, edge.target, edge.kind.as_str(), edge.nofollow)),
            );
            Ok::<(), StoreError>(())
        });
        result.expect("pages");
        let mut targets: Vec<String> = edges.iter().filter_map(|edge| edge.split(' ').nth(1)).map(Into::into).collect();
        targets.sort_unstable();
        targets.dedup();
        // Both ways to look up referrers must agree.
        for (target, mut in_batch) in targets.iter().zip(graph.referrers(&targets, 1_000).expect("reads")) {
            let mut single = graph.referrers_of(target, 1_000).expect("reads");
            single.first.sort_unstable();
            in_batch.first.sort_unstable();
            assert_eq!(single, in_batch, "{target}");
        }
        edges.sort_unstable();
        edges
    });
    CrawlData { known, records: records.split_off(start), graphs }
}

/// Opens the directory, and checks counts, output positions, notes and earlier records.
fn reopen(files: &CrashFiles, queued: u64) -> DiskFrontier {
    let opened = open_in(Arc::new(files.clone()), &CrawlSettings::new()).expect("opens after every fault");
    let mut frontier = opened.frontier;
    let counts = frontier.counts();
    assert_eq!((counts.known, counts.queued, counts.settled), (PAGES as u64, queued, PAGES as u64 - queued));
    assert_eq!(frontier.outputs().get(OUTPUT.0), Some(&OUTPUT.1));
    let lane = frontier.lane_of("h0.example").expect("a lane");
    assert!(frontier.read_note(lane).expect("reads").is_some_and(|note| note.starts_with(b"note of round")));
    assert!(frontier.earlier(url(0).as_ref(), LinkKind::Anchor).expect("reads").is_some());
    frontier
}

fn log_files(files: &CrashFiles) -> Vec<String> {
    let mut names = files.list("log").expect("lists");
    names.sort_unstable();
    names
}

#[test]
fn the_last_two_rounds_are_kept_and_the_log_does_not_grow() {
    let sizes: Vec<usize> = (3..8)
        .map(|count| {
            let files = CrashFiles::default();
            drop(crawl_rounds(&files, count));
            let found = read_crawl(&files);
            assert_eq!((found.known, found.records.len()), (PAGES as u64, 2 * PAGES), "{count} rounds");
            let of_round =
                |round: usize| found.records.iter().filter(|line| line.ends_with(&format!(":{round}}}"))).count();
            assert_eq!((of_round(count - 2), of_round(count - 1)), (PAGES, PAGES));
            assert!(found.graphs.iter().all(|graph| graph.len() == 2 * PAGES), "{:?}", found.graphs);
            let names = log_files(&files);
            names
                .iter()
                .map(|name| files.open(&format!("log/{name}")).expect("opens").length().expect("a length") as usize)
                .sum()
        })
        .collect();
    assert!(sizes.last() <= sizes.first().map(|size| size + size / 10).as_ref(), "{sizes:?}");
}

#[test]
fn a_compaction_may_be_interrupted_at_any_call() {
    let prepare = || {
        let files = CrashFiles::default();
        let (mut frontier, mut writer) = crawl_rounds(&files, 3);
        begin_round(&mut frontier);
        commit(&mut frontier, &mut writer);
        (files, frontier, writer)
    };
    let (files, mut frontier, _writer) = prepare();
    let expected = read_crawl(&files);
    let (calls_before, names_before) = (files.calls(), log_files(&files));
    frontier.take_compaction().expect("one is due").run().expect("compacts");
    assert!(log_files(&files).len() < names_before.len(), "{:?}", log_files(&files));
    assert_eq!(read_crawl(&files), expected);
    let calls = files.calls() - calls_before;
    assert!(calls > 5, "{calls}");

    let faults =
        [InjectedFault::PowerCut, InjectedFault::Once(ErrorKind::StorageFull), InjectedFault::Always(ErrorKind::Other)];
    for (call, fault) in (0..calls).flat_map(|call| faults.map(|fault| (call, fault))) {
        for seed in 0..4 {
            let (files, mut frontier, _writer) = prepare();
            files.plan(files.calls() + call, fault);
            let compacted = frontier.take_compaction().expect("one is due").run();
            assert!(compacted.is_err(), "call {call} fails, and so does the compaction");
            let mut random = seed * 7 + call;
            let remaining = match fault {
                // Random numbers decide which writes reach the disk.
                InjectedFault::PowerCut => files.after_power_cut(|bound| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (random >> 33) % bound.max(1)
                }),
                _ => files.after_kill(),
            };
            assert_eq!(read_crawl(&remaining), expected, "before the directory is opened: call {call}, {fault:?}");
            let mut frontier = reopen(&remaining, PAGES as u64);
            assert_eq!(read_crawl(&remaining), expected, "call {call}, {fault:?}");
            // Compact again, if that is still due.
            if let Some(compaction) = frontier.take_compaction() {
                compaction.run().expect("compacts");
            }
            assert_eq!(read_crawl(&remaining), expected);
            drop(reopen(&remaining, PAGES as u64));
            let names = log_files(&remaining);
            // `base.new` is the unfinished output of an interrupted compaction.
            assert!(names.len() < names_before.len() && !names.contains(&"base.new".to_owned()), "{names:?}");
        }
    }
}

#[test]
fn a_crawl_continues_while_its_log_is_compacted() {
    let files = CrashFiles::default();
    let (mut frontier, mut writer) = crawl_rounds(&files, 3);
    begin_round(&mut frontier);
    commit(&mut frontier, &mut writer);
    let compaction = frontier.take_compaction().expect("one is due");
    crawl(&mut frontier, &mut writer, 3);
    compaction.run().expect("compacts");
    assert!(frontier.earlier(url(1).as_ref(), LinkKind::Anchor).expect("reads").is_some());
    let remaining = files.after_kill();
    let found = read_crawl(&remaining);
    assert_eq!((found.known, found.records.len()), (PAGES as u64, 2 * PAGES));
    let opened = open_in(Arc::new(remaining), &CrawlSettings::new()).expect("opens");
    assert_eq!(opened.frontier.counts().settled, PAGES as u64);
}

/// A finished crawl with more links than one portion of a new round can queue.
fn large_crawl(files: &CrashFiles) -> (DiskFrontier, LogWriter) {
    let opened = open_in(Arc::new(files.clone()), &CrawlSettings::new()).expect("opens");
    let (mut frontier, mut writer) = (opened.frontier, opened.writer);
    let path = "p".repeat(2_000);
    let links = (0..LARGE_CRAWL).map(|page| {
        let url = Url::parse(&format!("https://h{}.example/{path}/{page}", page % 3)).expect("a URL");
        Link::root(url, MAX_REDIRECTS)
    });
    put_all(&mut frontier, &links.collect::<Vec<_>>()).expect("put");
    for lane in frontier.lanes_with_work() {
        for link in frontier.take(lane, LARGE_CRAWL).expect("takes") {
            let final_outcome =
                FinalOutcome { outcome: Outcome::Ok, status: Some(200), record: b"{}", is_fetched_page: true };
            frontier.settle(&mut [Settlement::of(&link, final_outcome)]).expect("settles");
        }
    }
    commit(&mut frontier, &mut writer);
    (frontier, writer)
}

/// The number of links of a large crawl.
const LARGE_CRAWL: usize = 1_500;

#[test]
fn a_round_is_queued_in_small_commits_and_may_be_interrupted_between_them() {
    let files = CrashFiles::default();
    let (mut frontier, mut writer) = large_crawl(&files);
    assert_eq!(frontier.begin_round().expect("a round"), LARGE_CRAWL as u64);
    let mut queued = Vec::new();
    while frontier.requeue_portion().expect("queued") {
        let batch = frontier.commit(&[]).expect("commits").expect("links");
        // A portion ends after 1 MiB of links; a commit also holds a few other records.
        assert!(batch.bytes() < 3 << 19, "a commit of {} bytes", batch.bytes());
        writer.write(&batch).expect("writes");
        frontier.acknowledge(&batch).expect("acknowledges");
        queued.push(frontier.counts().queued);
        // After a crash at this point, the next run queues the remaining links, and no link twice.
        let remaining = files.after_kill();
        let mut reopened = open_in(Arc::new(remaining), &CrawlSettings::new()).expect("opens").frontier;
        assert_eq!(reopened.is_requeueing(), frontier.is_requeueing());
        while reopened.requeue_portion().expect("queued") {}
        let counts = reopened.counts();
        assert_eq!((counts.known, counts.queued, counts.settled), (LARGE_CRAWL as u64, LARGE_CRAWL as u64, 0));
        let first = reopened.take(argiope_core::LaneId(0), 1).expect("takes").pop().expect("a link");
        assert!(reopened.earlier(first.url.as_ref(), first.kind).expect("reads").is_some());
    }
    assert!(queued.len() > 2 && queued.last() == Some(&(LARGE_CRAWL as u64)), "{queued:?}");
    let lanes = frontier.lanes_with_work();
    let taken: usize = lanes.iter().map(|lane| frontier.take(*lane, LARGE_CRAWL).expect("takes").len()).sum();
    assert_eq!(taken, LARGE_CRAWL);
}
