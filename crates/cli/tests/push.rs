//! `--to`: records are sent to a receiver that fails in many ways, by processes that are killed.

mod readers;
mod receiver;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use argiope_core::crawl::schedule::frontier::{Settlement, put_all};
use argiope_core::{FinalOutcome, Frontier, Link, Outcome, Url};
use argiope_practice::{CertificateKind, PracticeWeb, RequestMatch, Response, RunningWeb, Site};
use argiope_store::disk::{self, CrawlSettings};
use receiver::{Receiver, Reply};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn argiope(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_argiope")).args(arguments).output().expect("the command was built")
}

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command was built")
}

/// Runs a command that must succeed, and returns its messages.
fn succeeds(arguments: &[&str]) -> String {
    let output = argiope(arguments);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {messages}");
    messages
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A site with this number of pages, the root included.
fn site(pages: usize) -> (RunningWeb, String) {
    let links: Vec<String> = (1..pages).map(|number| format!("/{number}")).collect();
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    let mut site = site.page("/", Response::links(links.iter().map(String::as_str)));
    for link in &links {
        site = site.page(link, Response::html(format!("<title>Page {link}</title>")));
    }
    (PracticeWeb::new().site(site.fallback(Response::status(404))).start().expect("the web is served"), root)
}

/// Creates the crawl directory of a finished crawl with this number of pages.
fn create_directory(path: &Path, pages: u32) {
    let opened = disk::open(path, &CrawlSettings::new(), usize::MAX).expect("a directory");
    let disk::OpenedDirectory { mut frontier, mut writer, .. } = opened;
    let urls: Vec<Url> =
        (0..pages).map(|page| Url::parse(&format!("https://large.example/{page}")).expect("an address")).collect();
    put_all(&mut frontier, &urls.iter().map(|url| Link::root(url.clone(), 10)).collect::<Vec<_>>()).expect("put");
    let lane = frontier.lane_of("large.example").expect("a lane");
    for link in frontier.take(lane, pages as usize).expect("taken") {
        let line = format!(r#"{{"v":1,"type":"page","url":"{}","status":200,"outcome":"ok","depth":0}}"#, link.url);
        let record = line.as_bytes();
        let outcome = FinalOutcome { outcome: Outcome::Ok, status: Some(200), record, is_fetched_page: true };
        frontier.settle(&mut [Settlement::of(&link, outcome)]).expect("settled");
    }
    let batch = argiope_store::Commits::commit(&mut frontier, &[], true).expect("sealed").expect("a batch");
    writer.write(&batch).expect("written");
}

fn urls(records: &[Value]) -> BTreeSet<String> {
    records.iter().map(|record| record["url"].as_str().expect("a URL").to_owned()).collect()
}

#[test]
fn a_receiver_that_fails_gets_every_record_once_by_its_id() {
    let (_web, root) = site(40);
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    succeeds(&["crawl", &root, "-d", text(&directory), "-q"]);
    let receiver = Receiver::start([
        Reply::Status(500),
        Reply::CutAfterStoring,
        Reply::Stall,
        // Two halves, of which the second is halved again.
        Reply::Status(413),
        Reply::Accept,
        Reply::Status(413),
        Reply::Status(429),
    ]);
    let export = ["export", text(&directory), "--to", &receiver.url("/in?x=1"), "--idle-timeout", "1s"];
    let messages = succeeds(&export);
    let shown = receiver.url("/in");
    assert!(messages.contains(&format!("sent 40 records to {shown}\n")), "{messages}");
    let requests = receiver.requests();
    assert!(requests.iter().all(|request| request.line == "POST /in?x=1 HTTP/1.1"), "{requests:?}");
    assert!(requests.iter().all(|request| request.header("content-type") == Some("application/x-ndjson")));
    let records = receiver.stored();
    assert_eq!((records.len(), urls(&records).len()), (40, 40), "one record for each id and each URL");
    assert!(receiver.taken() > 40, "some were sent again");
    assert!(succeeds(&export).contains("sent 0 records"), "the receiver has all of them");
    assert_eq!(receiver.requests().len(), requests.len());
    // Another receiver begins with the first record.
    let other = Receiver::start([]);
    succeeds(&["export", text(&directory), "--to", &other.url("/"), "--status", "new"]);
    assert_eq!(other.stored(), records);
    // With `--status`, records may have been left out that are sent now.
    assert!(succeeds(&["export", text(&directory), "--to", &other.url("/")]).contains("sent 40 records"));
    assert_eq!(other.stored(), records);
}

#[test]
fn an_export_that_is_killed_continues_after_the_last_acknowledged_batch() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    create_directory(&directory, 1_700);
    let receiver = Receiver::start([Reply::Accept, Reply::Accept, Reply::Hold]);
    let url = receiver.url("/");
    let export = ["export", text(&directory), "--to", &url];
    let mut process = start(&export);
    receiver.wait_for_requests(3);
    process.kill().expect("killed");
    process.wait().expect("ended");
    let acknowledged = receiver.stored().len();
    assert_eq!(acknowledged, 1_000, "two batches");
    assert!(succeeds(&export).contains("sent 700 records"));
    let records = receiver.stored();
    assert_eq!((records.len(), urls(&records).len(), receiver.taken()), (1_700, 1_700, 1_700), "none was sent twice");
}

#[test]
fn a_crawl_sends_its_records_through_kills_and_rounds() {
    let (_web, root) = site(30);
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let receiver = Receiver::start([Reply::Hold]);
    let url = receiver.url("/");
    let crawl = ["crawl", &root, "-d", text(&directory), "--to", &url];
    let mut process = start(&crawl);
    receiver.wait_for_requests(1);
    process.kill().expect("killed");
    process.wait().expect("ended");
    assert!(receiver.stored().is_empty());
    succeeds(&crawl);
    let first = receiver.stored();
    assert_eq!((first.len(), urls(&first).len()), (30, 30));
    succeeds(&crawl);
    assert_eq!(receiver.taken(), 30, "a finished crawl sends nothing again");
    for round in 2..=4 {
        // The log is compacted after the third round.
        succeeds(&[&crawl[..], &["--recrawl"]].concat());
        assert_eq!(receiver.stored().len(), 30 * round, "round {round}");
    }
    assert_eq!(receiver.taken(), 120, "no record was sent twice");
    // A new crawl has other ids. The file about receivers is removed with the earlier crawl.
    assert!(directory.join("push.json").exists());
    let removed = succeeds(&[&crawl[..], &["--fresh"]].concat());
    assert!(removed.contains("push.json"), "{removed}");
    assert_eq!(receiver.stored().len(), 150);
}

#[test]
fn records_that_a_power_cut_took_back_are_replaced_at_the_receiver() {
    let (_web, root) = site(10);
    let folder = tempfile::tempdir().expect("a folder");
    let [directory, copy] = ["c", "copy"].map(|name| folder.path().join(name));
    let receiver = Receiver::start([]);
    let url = receiver.url("/");
    let crawl = ["crawl", &root, "-d", text(&directory), "--to", &url, "--max-pages"];
    succeeds(&[&crawl[..], &["4"]].concat());
    copy_folder(&directory, &copy);
    succeeds(&[&crawl[..], &["10"]].concat());
    assert_eq!(receiver.taken(), 10);
    // The disk has the directory as it was before, and what the receiver has.
    std::fs::copy(directory.join("push.json"), copy.join("push.json")).expect("copied");
    std::fs::remove_dir_all(&directory).expect("removed");
    std::fs::rename(&copy, &directory).expect("renamed");
    succeeds(&[&crawl[..], &["10"]].concat());
    let stored: BTreeSet<String> = receiver.stored().iter().map(|record| record["started"].to_string()).collect();
    let lines = argiope(&["export", text(&directory), "--format", "jsonl"]).stdout;
    let records = String::from_utf8(lines).expect("UTF-8");
    let records = records.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let pages: Vec<Value> = records.filter(|record| record["type"] == "page").collect();
    assert_eq!(pages.len(), 10);
    assert!(pages.iter().all(|page| stored.contains(&page["started"].to_string())), "the receiver has all of them");
}

/// Copies the files of a crawl directory.
fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("created");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else if entry.path().is_file() {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

#[test]
fn a_crawl_ends_when_the_receiver_refuses_and_the_same_command_sends_the_rest() {
    let (_web, root) = site(10);
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let receiver = Receiver::start([Reply::Status(403)]);
    let url = receiver.url("/");
    let crawl = ["crawl", &root, "-d", text(&directory), "--to", &url];
    let refused = argiope(&crawl);
    let messages = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{messages}");
    assert!(messages.contains("it answered 403; run the same command to send the rest"), "{messages}");
    succeeds(&crawl);
    assert_eq!(urls(&receiver.stored()).len(), 10);
}

#[test]
fn a_crawl_that_is_interrupted_while_it_sends_exits_as_interrupted() {
    let (_web, root) = site(10);
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    // Tried again after more than a minute in all.
    let receiver = Receiver::start([Reply::Status(503); 9]);
    let url = receiver.url("/");
    let mut process = start(&["crawl", &root, "-d", text(&directory), "--to", &url]);
    receiver.wait_for_requests(1);
    kill_process(Pid::from_child(&process), Signal::INT).expect("it runs");
    assert_eq!(process.wait().expect("ended").code(), Some(130));
    assert!(receiver.stored().is_empty());
    let other = Receiver::start([]);
    succeeds(&["crawl", &root, "-d", text(&directory), "--to", &other.url("/")]);
    assert_eq!(urls(&other.stored()).len(), 10);
}

#[test]
fn the_bulk_form_has_ids_in_its_actions_and_its_answer_is_read() {
    let (_web, root) = site(5);
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    succeeds(&["crawl", &root, "-d", text(&directory), "-q"]);
    let busy = r#"{"errors":true,"items":[{"index":{"status":429}}]}"#;
    let receiver = Receiver::start([Reply::Answer(busy), Reply::Answer(r#"{"errors":false,"items":[]}"#)]);
    let to = receiver.url("/pages/_bulk");
    succeeds(&[
        "export",
        text(&directory),
        "--to",
        &to,
        "--to-format",
        "bulk",
        "--to-header",
        "Authorization: ApiKey x",
    ]);
    let requests = receiver.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body, requests[1].body, "the same ids");
    assert_eq!(requests[1].header("authorization"), Some("ApiKey x"));
    let lines: Vec<Value> = requests[1].lines();
    assert_eq!(lines.len(), 10);
    let ids: BTreeSet<&str> = lines.iter().filter_map(|line| line["index"]["_id"].as_str()).collect();
    assert_eq!(ids.len(), 5);
    assert!(lines.iter().skip(1).step_by(2).all(|record| record["type"] == "page" && record.get("id").is_none()));
}

#[test]
fn records_go_through_the_proxy_and_without_the_logins_of_the_site() {
    let (_web, root) = site(3);
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let proxy = Receiver::start([]);
    let to = "http://me:p%20w@receiver.example/in";
    let crawl = ["crawl", &root, "-d", text(&directory), "-q", "--user", "site:secret", "-H", "X-Site: 1"];
    succeeds(&crawl);
    let messages = succeeds(&["export", text(&directory), "--to", to, "--proxy", &proxy.url("/")]);
    assert!(!messages.contains("p%20w"), "{messages}");
    let requests = proxy.requests();
    assert_eq!(requests[0].line, "POST http://receiver.example/in HTTP/1.1");
    assert_eq!(requests[0].header("authorization"), Some("Basic bWU6cCB3"));
    assert_eq!(requests[0].header("x-site"), None);
    assert_eq!(proxy.stored().len(), 3);
    let places = std::fs::read_to_string(directory.join("push.json")).expect("the file about receivers");
    assert!(places.contains("http://receiver.example/in") && !places.contains("p%20w"), "{places}");
    // The site's login stays with the site, also while the crawl runs.
    let receiver = Receiver::start([]);
    let url = receiver.url("/");
    succeeds(&[&crawl[..], &["--recrawl", "--to", &url]].concat());
    let requests = receiver.requests();
    assert!(
        requests.iter().all(|request| request.header("authorization").is_none() && request.header("x-site").is_none())
    );
}

#[test]
fn the_certificate_of_a_receiver_is_verified() {
    let (_web, root) = site(3);
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    succeeds(&["crawl", &root, "-d", text(&directory), "-q"]);
    let secure = Site::https("127.0.0.1:0", CertificateKind::Good).expect("a socket");
    let url = secure.url("/in");
    let secure = secure.when(RequestMatch::post("/in").body("{\"id\":"), Response::html("taken"));
    let secure = PracticeWeb::new().site(secure.fallback(Response::status(404))).start().expect("it is served");
    let refused = argiope(&["export", text(&directory), "--to", &url]);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{message}");
    assert!(message.contains("certificate") && !message.contains("given up after"), "{message}");
    let authority = folder.path().join("ca.pem");
    std::fs::write(&authority, secure.ca_pem()).expect("written");
    let sent = succeeds(&["export", text(&directory), "--to", &url, "--ca-cert", text(&authority)]);
    assert!(sent.contains("sent 3 records"), "{sent}");
}

#[test]
fn flags_that_have_no_effect_on_a_receiver_are_refused() {
    let (_web, root) = site(1);
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    succeeds(&["crawl", &root, "-d", text(&directory), "-q"]);
    for more in [
        &["--to", "ftp://h/"][..],
        &["--to", "h"],
        &["--to", "http://127.0.0.1:1/", "--format", "csv"],
        &["--to", "http://127.0.0.1:1/", "--columns", "url"],
        &["--to", "http://127.0.0.1:1/", "-o", "file"],
        &[],
    ] {
        let refused = argiope(&[&["export", text(&directory)], more].concat());
        assert_eq!(refused.status.code(), Some(2), "{more:?}: {}", String::from_utf8_lossy(&refused.stderr));
    }
    let refused = argiope(&["crawl", &root, "-d", text(&folder.path().join("d")), "--to", "ftp://h/"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(!folder.path().join("d").exists(), "nothing was created");
}

#[test]
#[ignore = "needs python"]
fn the_receiver_of_the_book_keeps_every_record_once() {
    let (_web, root) = site(20);
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/howto/push.md");
    let page = std::fs::read_to_string(page).expect("the page of the book");
    let program = page.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```")).expect("a program").0;
    let script = folder.path().join("receiver.py");
    std::fs::write(&script, program).expect("written");
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let mut running = readers::start(&script, folder.path(), &[&port.to_string()]);
    // Until it listens, requests are refused and tried again.
    let crawl = ["crawl", &root, "-d", text(&directory), "--to", &format!("http://127.0.0.1:{port}/")];
    succeeds(&crawl);
    // All records are sent a second time.
    std::fs::remove_file(directory.join("push.json")).expect("removed");
    assert!(succeeds(&crawl).contains("sent 20 records"));
    running.kill().expect("killed");
    running.wait().expect("ended");
    let jsonl = folder.path().join("records.jsonl");
    succeeds(&["export", text(&directory), "--format", "jsonl", "-o", text(&jsonl)]);
    readers::run("received.py", &[&folder.path().join("records.duckdb"), &jsonl]);
}
