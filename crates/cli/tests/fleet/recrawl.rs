//! Rounds of a shared crawl: `--recrawl` by many processes.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::Duration;

use argiope_practice::{PracticeWeb, Response, RunningWeb, SeenRequest, Site};
use argiope_testkit::redis_cluster::RedisCluster;
use argiope_testkit::s3_server::S3Server;
use serde_json::Value;

use crate::durable_kit::{GraphWeb, TIMEOUT, wait};
use crate::kit::{Fleet, plan};

/// Number of pages of each host, in addition to its root.
const PAGES: u32 = 12;

/// Hosts whose pages have ETags, so that they answer 304 to a conditional request.
fn hosts(count: u32, delay: Duration) -> (RunningWeb, Vec<String>) {
    let mut site = Site::http("0.0.0.0:0").expect("a port").robots("");
    let port = site.address().port();
    let paths: Vec<String> = (0..PAGES).map(|number| format!("/{number}")).collect();
    for path in &paths {
        site = site.page(path, Response::html(format!("<title>{path}</title>")).etag("v1").delay(delay));
    }
    site = site.page("/", Response::links(&paths).etag("root"));
    let web = PracticeWeb::new().keep_headers().site(site).start().expect("a server");
    let roots = (1..=count).map(|number| format!("http://127.0.0.{number}:{port}/")).collect();
    (web, roots)
}

/// The page records of each round. The results of a fleet have one `run` record with settings per round, not one per
/// process.
fn rounds(records: &[Value]) -> Vec<BTreeMap<String, Value>> {
    let mut rounds: Vec<BTreeMap<String, Value>> = Vec::new();
    for record in records {
        if record["type"] == "run" && record["settings"].is_object() {
            rounds.push(BTreeMap::new());
        } else if record["type"] == "page" {
            let url = record["url"].as_str().expect("a URL").to_owned();
            let twice = rounds.last_mut().expect("a round").insert(url, record.clone());
            assert!(twice.is_none(), "twice in one round: {record}");
        }
    }
    rounds
}

fn is_conditional(seen: &SeenRequest) -> bool {
    seen.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("if-none-match"))
}

#[test]
#[ignore = "needs redis-server"]
fn a_recrawl_sends_conditional_requests_and_survives_kills() {
    let (web, roots) = hosts(12, Duration::from_millis(25));
    let mut fleet = Fleet::new(RedisCluster::start());
    let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
    let processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&roots)).collect();
    fleet.finish(processes);
    let pages = roots.len() * (PAGES as usize + 1);
    let first = web.log().len();
    assert_eq!(rounds(&fleet.records())[0].len(), pages);

    // Two processes start the next round at the same time, a third one joins it, and one is killed.
    let mut again = roots.clone();
    again.push("--recrawl");
    let mut processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&again)).collect();
    assert!(web.wait_requests(first as u64 + 40, TIMEOUT));
    processes.push(fleet.spawn(&[]));
    let mut killed = processes.remove(0);
    killed.kill().expect("the process is killed");
    wait(&mut killed);
    fleet.finish(processes);
    let records = fleet.records();
    let found = rounds(&records);
    assert_eq!(found.len(), 2, "two processes with `--recrawl` began one round together, the second");
    assert_eq!(found[0].keys().collect::<Vec<_>>(), found[1].keys().collect::<Vec<_>>());
    for record in found[1].values() {
        assert_eq!(record["status"], 304, "{record}");
        assert!(record["digest"].is_string() && record["etag"].is_string(), "{record}");
        assert!(record["url"].as_str().is_some_and(|url| url.ends_with('/')) || record["title"].is_string());
    }
    let log = web.log();
    // The second round uses the stored robots.txt, so that all its requests are conditional.
    let second: Vec<&SeenRequest> = log[first..].iter().collect();
    assert!(second.len() >= pages, "{} requests", second.len());
    let plain: Vec<&&SeenRequest> = second.iter().filter(|seen| !is_conditional(seen)).collect();
    assert!(plain.is_empty(), "{plain:?}");

    // Another round can begin from the results alone, after the state of the crawl was removed from Redis.
    let removed = fleet.run(&["fleet", "remove", &fleet.cluster.address(), "--name", "test", "--yes"]);
    assert!(removed.0, "{}", removed.1);
    let third = fleet.spawn(&["--recrawl"]);
    fleet.finish(vec![third]);
    assert_eq!(rounds(&fleet.records()).iter().map(BTreeMap::len).collect::<Vec<_>>(), [pages; 3]);
    assert!(web.log().len() - log.len() >= pages);
    let status = fleet.run(&["fleet", "status", &fleet.cluster.address(), "--name", "test", "--json"]);
    let status: Value = serde_json::from_str(&status.1).expect("JSON");
    assert_eq!((&status["state"], &status["round"]), (&"finished".into(), &3.into()), "{status}");
    // Without `--recrawl`, a process that joins a finished crawl requests nothing.
    let before = web.log().len();
    let joined = fleet.spawn(&roots);
    fleet.finish(vec![joined]);
    assert_eq!(web.log().len(), before);
}

/// Crawls, recrawls, and checks what the commands report. The results are in a folder or in object storage.
fn changes_are_found(mut fleet: Fleet) {
    let site = Site::http("127.0.0.1:0").expect("a port").robots("");
    let hub = |links: &[&str]| Response::links(links.iter().copied());
    let site = site
        .sequence("/", [hub(&["/same", "/changed", "/gone", "/moved"]), hub(&["/same", "/new"])])
        .page("/same", Response::html("<h1>same</h1><a href=\"/deep\">x</a>").etag("v1"))
        .page("/deep", Response::html("<p>deep").etag("v1"))
        .sequence("/changed", [Response::html("<p>one").etag("1"), Response::html("<p>two").etag("2")])
        .sequence("/gone", [Response::html("<p>here"), Response::status(410)])
        .redirect("/moved", "/same", 301)
        .page("/new", Response::html("<p>new"));
    let root = site.url("/");
    let web = PracticeWeb::new().keep_headers().site(site).start().expect("a server");
    // The first round has nothing to compare with, and the refused command does not create the crawl.
    let fail_on_new = ["--warc", "--no-sitemap", "--fail-on", "new-broken"];
    let refused = fleet.command(&[&[&*root], &fail_on_new[..]].concat()).output().expect("the command runs");
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && stderr.contains("compares with an earlier round"), "{stderr}");
    assert!(web.log().is_empty());
    let one = fleet.spawn(&[&root, "--warc", "--no-sitemap"]);
    fleet.finish(vec![one]);
    // `--recrawl` begins a second round. Then the same command without it finds that round.
    for begins_round in [&["--recrawl"][..], &[]] {
        let output = fleet.command(&[&fail_on_new[..], begins_round].concat()).output().expect("the command runs");
        assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let all = fleet.records();
    let found = rounds(&all);
    let outcomes: Vec<(&str, &str)> = found[1]
        .iter()
        .map(|(url, record)| (&url[root.len() - 1..], record["outcome"].as_str().unwrap_or_default()))
        .collect();
    let expected = [
        ("/", "ok"),
        ("/changed", "ok"),
        ("/deep", "not_modified"),
        ("/gone", "http_error"),
        ("/moved", "redirect"),
        ("/new", "ok"),
        ("/same", "not_modified"),
    ];
    assert_eq!(outcomes, expected);
    let out = fleet.out.clone();
    let changed = fleet.run(&["diff", &out]);
    assert!(changed.0 && changed.1.contains("1 new, 2 changed, 1 gone, 3 unchanged; 1 newly broken"), "{}", changed.1);
    let report = fleet.run(&["report", &out]);
    assert!(report.0 && report.1.contains("Changes since the last round"), "{}", report.1);
    let url = format!("{root}deep");
    let explained = fleet.run(&["explain", &out, &url]);
    assert!(explained.0 && explained.1.contains("/same"), "{}", explained.1);
    // The links of a page that was answered with 304 are still known, and its body is still in the archive.
    let links = fleet.run(&["export", &out, "--format", "links"]);
    assert!(links.0 && links.1.contains("/deep") && !links.1.contains("/gone"), "{}", links.1);
    let text = fleet.run(&["export", &out, "--format", "markdown"]);
    assert!(text.0 && text.1.contains("# same"), "{}", text.1);
    let merged = fleet.run(&["merge", &out, "merged.crawl"]);
    assert!(merged.0, "{}", merged.1);
    let of_directory = fleet.run(&["export", "merged.crawl", "--format", "markdown"]);
    assert!(of_directory.0 && of_directory.1.contains("# same"), "{}", of_directory.1);
    let log = web.log();
    let deep: Vec<&SeenRequest> = log.iter().filter(|seen| seen.path == "/deep").collect();
    assert!(deep.len() == 2 && is_conditional(deep[1]), "{deep:?}");
}

#[test]
#[ignore = "needs redis-server"]
fn a_recrawl_in_a_folder_reports_changes() {
    changes_are_found(Fleet::new(RedisCluster::single()));
}

#[test]
#[ignore = "needs redis-server, moto"]
fn a_recrawl_in_object_storage_reports_changes() {
    let server = S3Server::start("crawls");
    let mut fleet = Fleet::new(RedisCluster::single());
    fleet.out = "s3://crawls/again".to_owned();
    fleet.environment = server.environment();
    changes_are_found(fleet);
}

#[test]
#[ignore = "needs redis-server"]
fn an_unfinished_crawl_is_not_recrawled() {
    let practice = GraphWeb::serve_with_headers(plan(21, 6, 6));
    let mut fleet = Fleet::new(RedisCluster::single());
    let mut arguments: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    arguments.extend(["--max-pages", "20"]);
    let first = fleet.spawn(&arguments);
    fleet.finish(vec![first]);
    arguments.push("--recrawl");
    let refused = fleet.command(&arguments).output().expect("the command runs");
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && stderr.contains("a finished crawl can be recrawled"), "{stderr}");
}
