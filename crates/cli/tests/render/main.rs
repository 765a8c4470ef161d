//! `crawl --render`: the practice application and pages with hostile scripts, in a real browser.

mod archive;
mod doors;
#[path = "../readers/mod.rs"]
mod readers;
mod without_scripts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use argiope_practice::app::{SPIDERS, app, hostile_paths};
use argiope_practice::{PracticeWeb, Response, RunningWeb, SeenRequest, Site};
use serde_json::Value;

fn argiope(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.current_dir(folder).args(arguments).output().expect("the command was built")
}

fn start() -> (RunningWeb, String) {
    let site = app("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("a server"), root)
}

/// Crawls with `--render always` unless `more` says otherwise. Returns the records by path, and the output.
fn crawl(folder: &Path, more: &[&str]) -> (BTreeMap<String, Value>, Output) {
    let usual = ["crawl", "--jsonl", "-", "-q", "--with", "links,requests"];
    let output = argiope(folder, &[&usual, more].concat());
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let pages = records.filter(|record| record["type"] == "page").map(|record| {
        let url = record["url"].as_str().expect("a URL");
        let path = url.splitn(4, '/').nth(3).unwrap_or_default();
        (format!("/{path}"), record)
    });
    (pages.collect(), output)
}

#[test]
#[ignore = "needs headless-shell"]
fn an_application_is_crawled_as_a_person_sees_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (web, root) = start();
    let (plain, _) = crawl(folder.path(), &[&root, "-d", "plain.crawl"]);
    assert_eq!(plain.len(), 1, "without scripts there is nothing to follow");
    let requests_before = web.log().len();
    let begun = Instant::now();
    let (pages, output) = crawl(folder.path(), &[&root, "-d", "a.crawl", "--render", "always"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut expected: BTreeSet<String> = (1..=SPIDERS).map(|number| format!("/spider/{number}")).collect();
    expected.extend(["/".to_owned(), "/from-shadow".to_owned()]);
    assert_eq!(pages.keys().cloned().collect::<BTreeSet<_>>(), expected);
    for number in 1..=SPIDERS {
        let page = &pages[&format!("/spider/{number}")];
        assert_eq!(
            page["title"],
            format!("Spider No. {number}").as_str(),
            "the title after three seconds of virtual time"
        );
        assert_eq!(page["render"]["end"], "idle");
        assert!(page["render"]["virtual_ms"].as_u64() >= Some(3_000));
    }
    // Thirty-six seconds of timers took much less.
    assert!(begun.elapsed() < Duration::from_secs(30));
    let from_script = pages["/"]["link_list"].as_array().expect("links").iter().filter(|link| link["kind"] == "script");
    assert_eq!(from_script.count(), SPIDERS);
    // One request a URL: the page is not requested again for the browser, and scripts are shared.
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let log = web.log();
    // Without the question for a page that does not exist.
    let of_pages = log[requests_before..].iter().filter(|request| !request.path.contains("/argiope-"));
    of_pages.for_each(|request| *counts.entry(request.path.clone()).or_default() += 1);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    assert_eq!(counts.len(), 2 * SPIDERS + 6, "{counts:?}");
    // Two crawls of the same pages give the same documents.
    let (again, _) = crawl(folder.path(), &[&root, "-d", "b.crawl", "--render", "always", "--text"]);
    let shown = |page: &Value| (page["title"].clone(), page["words"].clone(), page["link_list"].clone());
    for (path, page) in &pages {
        assert_eq!(shown(page), shown(&again[path]), "{path}");
    }
}

#[test]
#[ignore = "needs headless-shell"]
fn auto_renders_what_is_empty_and_samples_of_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_web, root) = start();
    let (pages, _) = crawl(folder.path(), &[&root, "-d", "a.crawl", "--render", "auto"]);
    assert_eq!(pages.len(), SPIDERS + 2);
    let reason = |path: &str| pages[path]["render"]["reason"].as_str().map(str::to_owned);
    assert_eq!(reason("/from-shadow").as_deref(), Some("sample"), "a static page is a sample of its template");
    let spiders = (1..=SPIDERS).filter_map(|number| reason(&format!("/spider/{number}")));
    assert_eq!(spiders.count(), SPIDERS);
    // The same response is sent for all pages of the application. It is not their content.
    let text = |arguments: &[&str]| String::from_utf8(argiope(folder.path(), arguments).stdout).expect("UTF-8");
    let audit = text(&["audit", "a.crawl"]);
    assert!(audit.contains("needs-scripts ("), "{audit}");
    assert!(!audit.contains("duplicate-body"), "{audit}");
    let report = text(&["report", "a.crawl"]);
    assert!(report.contains("empty without scripts"), "{report}");
    assert!(!report.contains("Duplicates"), "{report}");
    assert!(!report.contains("--render auto"), "{report}");
}

#[test]
#[ignore = "needs headless-shell"]
fn hostile_scripts_cost_their_own_page_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let (web, root) = start();
    let urls: Vec<String> = hostile_paths().map(|path| root.trim_end_matches('/').to_owned() + path).collect();
    let mut arguments: Vec<&str> = urls.iter().map(String::as_str).collect();
    let limits = ["-d", "a.crawl", "--depth", "0", "--render", "always", "--render-timeout", "3s"];
    arguments.extend(limits.iter().chain(&["--render-requests", "20", "--render-memory", "700M"]));
    let (pages, output) = crawl(folder.path(), &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for path in hostile_paths() {
        assert_eq!(pages[path]["outcome"], "ok", "{path}");
        assert!(pages[path]["render"]["end"].is_string(), "{path}");
    }
    assert_eq!(pages["/hostile/loop"]["render"]["end"], "timeout");
    // A page whose process ends costs itself only, and the browser continues.
    for (path, page) in pages.iter().filter(|(path, _)| !["/hostile/path", "/hostile/memory"].contains(&path.as_str()))
    {
        assert_ne!(page["render"]["end"], "crash", "{path}");
    }
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!message.contains("not rendered any more"), "{message}");
    assert_eq!(pages["/hostile/requests"]["render"]["end"], "requests");
    let links = |path: &str| pages[path]["link_list"].to_string();
    assert!(links("/hostile/away").contains("/away-by-script"), "{}", links("/hostile/away"));
    assert!(links("/hostile/windows").contains("/window/2"));
    assert!(pages["/hostile/doors"]["render"]["refused"].as_u64() >= Some(8), "{}", pages["/hostile/doors"]);
    let seen: BTreeSet<String> = web.log().iter().map(|request| request.path.clone()).collect();
    for closed in ["/events", "/worker.js", "/beacon", "/window/1", "/away-by-script"] {
        assert!(!seen.contains(closed), "{closed} was requested");
    }
}

#[test]
#[ignore = "needs headless-shell"]
fn clicks_find_links_and_requests_and_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (web, root) = start();
    let page = format!("{root}clicks");
    let links = |name: &str, how: &str| {
        let (pages, output) =
            crawl(folder.path(), &[&page, "-d", name, "--depth", "0", "--render", "always", "--interact", how]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let list = pages["/clicks"]["link_list"].as_array().expect("links").clone();
        let path = |link: &Value| link["url"].as_str().and_then(|url| url.splitn(4, '/').nth(3)).map(str::to_owned);
        (list.iter().filter_map(path).collect::<BTreeSet<String>>(), pages["/clicks"].clone())
    };
    let (scrolled, _) = links("scroll.crawl", "scroll");
    assert!(!scrolled.contains("in-tab") && !scrolled.contains("in-route"), "{scrolled:?}");
    let (clicked, record) = links("click.crawl", "click");
    for path in ["from-shadow", "in-tab", "in-route"] {
        assert!(clicked.contains(path), "{path} is missing in {clicked:?}");
    }
    assert_eq!(record["title"], "Clicks", "the document is the one before the clicks: {record}");
    let seen: BTreeSet<String> = web.log().iter().map(|request| request.path.clone()).collect();
    assert!(seen.contains("/asked-by-click"), "{seen:?}");
    for path in ["/changed-by-click", "/form", "/sent"] {
        assert!(!seen.contains(path), "{path} was requested");
    }
    // A form with GET leads to a page. What could change something is recorded, and not followed.
    let list = record["link_list"].as_array().expect("links");
    let kinds = |path: &str| {
        let url = format!("{root}{path}");
        list.iter().filter(|link| link["url"] == *url).map(|link| link["kind"].clone()).collect::<Vec<Value>>()
    };
    assert!(kinds("form").contains(&"script".into()), "{list:?}");
    assert_eq!((kinds("changed-by-click"), kinds("sent")), (vec!["form".into()], vec!["form".into()]));
    let explained = argiope(folder.path(), &["explain", "click.crawl", &page]);
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(text.contains("rendered    --render always; "), "{text}");
    let report = argiope(folder.path(), &["report", "click.crawl"]);
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(text.contains("Rendered pages: 1 page, "), "{text}");
}

/// A page whose script asks `other` in all ways, and the path `/own` of its own site.
fn asking_page(other: &str) -> String {
    format!(
        "<!doctype html><title>asks</title><script>(async () => {{\n\
         const ask = (url, options) => fetch(url, options).catch(() => 0);\n\
         for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) await ask('{other}/' + method, {{ method }});\n\
         await ask('{other}/json', {{ method: 'POST', headers: {{ 'Content-Type': 'application/json' }}, body: '{{}}' }});\n\
         await ask('{other}/read', {{ mode: 'no-cors', credentials: 'include' }});\n\
         await ask('{other}/read-with-field', {{ headers: {{ 'X-Field': '1' }} }});\n\
         await ask('/own', {{ method: 'POST', body: 'x' }});\n\
         document.title = 'asked'; }})();</script>"
    )
}

#[test]
#[ignore = "needs headless-shell"]
fn a_page_cannot_act_with_the_logins_that_the_crawl_has_for_another_site() {
    let folder = tempfile::tempdir().expect("a folder");
    let wiki = Site::http("127.0.0.2:0").expect("a socket");
    let wiki_url = wiki.url("/").trim_end_matches('/').to_owned();
    let wiki = wiki
        .page("/", Response::html("<title>wiki</title>").header("Set-Cookie", "session=wiki"))
        .page("/own.js", Response::text("").content_type("text/javascript"))
        .robots("User-agent: *\nDisallow:\n")
        .fallback(Response::text("answer").header("Set-Cookie", "session=taken"));
    let evil = Site::http("127.0.0.3:0").expect("a socket");
    let evil_root = evil.url("/");
    // A frame of the attacker in a page of the wiki must not act in the name of the wiki either.
    let wiki = wiki.page(
        "/framed",
        Response::html(format!(
            "<title>framed</title><iframe src=\"{evil_root}frame\"></iframe><script src=/own.js></script>"
        )),
    );
    let frame = format!(
        "<script>fetch('{wiki_url}/from-frame', {{ mode: 'no-cors', credentials: 'include' }});\n\
         fetch('{wiki_url}/post-from-frame', {{ method: 'POST', mode: 'no-cors' }});\n\
         document.body.append(document.createElement('iframe'));\n\
         frames[0].fetch('{wiki_url}/from-inner-frame', {{ mode: 'no-cors' }});</script>"
    );
    let evil = evil
        .page("/", Response::html(asking_page(&wiki_url)))
        .page("/frame", Response::html(format!("<body>{frame}")))
        .fallback(Response::text("own"));
    let web = PracticeWeb::new().site(wiki).site(evil).keep_headers().start().expect("a server");
    let framed = format!("{wiki_url}/framed");
    let roots = [&format!("{wiki_url}/"), &evil_root, &framed];
    let secret = ["--header", "X-Token: secret", "--depth", "0", "--render", "always", "--per-host", "1"];
    let arguments: Vec<&str> = roots.iter().map(|root| root.as_str()).chain(secret).collect();
    let ask = |name: &str, more: &[&str]| {
        let begun = web.log().len();
        let (pages, output) = crawl(folder.path(), &[&arguments[..], &["-d", name], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(pages.values().any(|page| page["title"] == "asked"));
        web.log()[begun..].to_vec()
    };
    let has =
        |request: &SeenRequest, name: &str| request.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    // A private address that the user named is not one that every page may use.
    let log = ask("refused.crawl", &[]);
    let of_wiki: BTreeSet<&str> =
        log.iter().filter(|request| request.site == 0).map(|request| request.path.as_str()).collect();
    assert_eq!(of_wiki, BTreeSet::from(["/", "/framed", "/own.js", "/robots.txt"]));
    // With a wider permission, other sites can be read, and nothing more.
    let log = ask("private.crawl", &["--allow-private"]);
    for request in log.iter().filter(|request| request.site == 0 && request.path != "/robots.txt") {
        let is_own = ["/", "/framed", "/own.js"].contains(&&*request.path);
        assert_eq!(request.method, "GET", "{}", request.path);
        assert_eq!(has(request, "X-Token"), is_own, "{}", request.path);
        assert!(is_own || !has(request, "Cookie"), "{}", request.path);
        let session = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("cookie"));
        assert!(session.is_none_or(|(_, value)| value == "session=wiki"), "{session:?}");
    }
    let asked = |path: &str| log.iter().any(|request| request.path == path);
    for path in ["/read", "/read-with-field", "/from-frame", "/from-inner-frame"] {
        assert!(asked(path), "{path}");
    }
    let own = log.iter().find(|request| request.path == "/own").expect("it was sent");
    assert_eq!((own.method.as_str(), own.body.as_str()), ("POST", "x"));
}

/// A page that asks for `/data` and `/moved`, which are also pages, and sends a form.
fn crawl_with_requests(folder: &Path) -> String {
    let ask = "Promise.all([fetch('/data'), fetch('/moved'), fetch('/form', { method: 'POST', body: 'x' })])";
    let html = format!("<title>asking</title><a href=/data>d</a><script>{ask}</script>");
    let site = Site::http("127.0.0.1:0").expect("a socket").page("/", Response::html(html));
    let site = site.page("/data", Response::html("<title>data</title>")).page("/form", Response::text("taken"));
    let site = site.page("/moved", Response::redirect("/data", 301)).robots("User-agent: *\nDisallow:\n");
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    let moved = format!("{root}moved");
    let flags = ["-d", "a.crawl", "--render", "always", "--warc", "--jsonl", "a.jsonl", "--with", "requests", "-q"];
    let output = argiope(folder, &[&["crawl", &*root, &*moved][..], &flags].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    root
}

#[test]
#[ignore = "needs headless-shell"]
fn requests_of_pages_are_no_records_of_urls_and_only_their_gets_are_indexed() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = crawl_with_requests(folder.path());
    let text = std::fs::read_to_string(folder.path().join("a.jsonl")).expect("records");
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let part = |path: &str| {
        let url = format!("{root}{path}");
        records.iter().find(|record| record["type"] == "sub" && record["url"] == *url).expect("a record of a request")
    };
    assert_eq!((&part("form")["method"], &part("data")["method"]), (&"POST".into(), &Value::Null));
    let run = |arguments: &[&str]| {
        let output = argiope(folder.path(), arguments);
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"), stderr)
    };
    let (_, index, _) = run(&["export", "a.crawl", "--format", "cdxj"]);
    assert!(index.contains("/data"), "{index}");
    assert!(!index.contains("/form"), "{index}");
    let explained = |path: &str| run(&["explain", "a.crawl", &format!("{root}{path}")]);
    let (_, form, _) = explained("form");
    assert!(form.contains("never seen"), "{form}");
    let (_, moved, _) = explained("moved");
    assert!(moved.contains("redirect"), "{moved}");
    let (_, _, message) = run(&["export", "a.crawl", "--format", "text"]);
    assert_eq!(message, "", "the archive has the rendered documents");
    let (_, _, message) = run(&["export", "a.crawl", "--format", "csv"]);
    assert_eq!(message, "");
}

#[test]
#[ignore = "needs headless-shell, python"]
fn other_programs_read_the_records_of_rendered_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    crawl_with_requests(folder.path());
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records.schema.json");
    readers::run("records.py", &[&schema, Path::new("run,page,aux,sub"), &folder.path().join("a.jsonl")]);
}

#[test]
#[ignore = "needs headless-shell"]
fn a_script_whose_response_was_cut_does_not_run_and_is_not_shared() {
    let folder = tempfile::tempdir().expect("a folder");
    let html = || Response::html("<title>page</title><script src=/large.js></script><script src=/half.js></script>");
    let script = |name: &str| {
        let text = format!("document.title += ' {name}';//{}", "x".repeat(4_000));
        Response::text(text).content_type("text/javascript").header("Cache-Control", "max-age=9999")
    };
    let site = Site::http("127.0.0.1:0").expect("a socket");
    let site = site.page("/1", html()).page("/2", html()).page("/large.js", script("large"));
    let site = site.page("/half.js", script("half").truncate_at(1_000));
    let roots = [site.url("/1"), site.url("/2")];
    let web = PracticeWeb::new().site(site).start().expect("a server");
    let flags = ["-d", "a.crawl", "--depth", "0", "--render", "always", "--max-size", "2K", "--max-tries", "1"];
    let (pages, output) = crawl(folder.path(), &[&[&*roots[0], &*roots[1]][..], &flags].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for path in ["/1", "/2"] {
        assert_eq!((&pages[path]["title"], &pages[path]["render"]["cached"]), (&"page".into(), &0.into()), "{path}");
    }
    for path in ["/large.js", "/half.js"] {
        assert_eq!(web.log().iter().filter(|request| request.path == path).count(), 2, "{path}");
    }
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "needs headless-shell"]
fn no_process_of_the_browser_survives_a_killed_crawl() {
    let folder = tempfile::tempdir().expect("a folder");
    let (web, root) = start();
    let page = root.trim_end_matches('/').to_owned() + "/hostile/loop";
    // The lock files and profiles of the browser are below this folder, so its processes are known by it.
    let profiles = folder.path().join("profiles");
    std::fs::create_dir(&profiles).expect("a folder");
    let crawl = |timeout: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        command.current_dir(folder.path()).env("TMPDIR", &profiles);
        command.args(["crawl", &page, "-q", "-d", "a.crawl", "--render", "always", "--render-timeout", timeout]);
        command
    };
    let mut first = crawl("1m").spawn().expect("the command was built");
    wait_until("the page is requested", || web.log().iter().any(|request| request.path == "/hostile/loop"));
    wait_until("the browser runs", || !processes_naming(&profiles).is_empty());
    first.kill().expect("it runs");
    first.wait().expect("it has ended");
    wait_until("all processes have ended", || processes_naming(&profiles).is_empty());
    // The next start removes what is left on the disk.
    let mut second = crawl("1s").spawn().expect("the command was built");
    assert!(second.wait().expect("it ends").success());
    assert_eq!(processes_naming(&profiles).len(), 0);
    let own_folder = std::fs::read_dir(&profiles).expect("a folder").flatten().next().expect("the browsers' folder");
    assert_eq!(std::fs::read_dir(own_folder.path()).expect("a folder").count(), 0);
}

/// Renders a page that computes without end and two others, one after the other. While the first one computes, sends a
/// signal to a process of the browser whose command line contains `word`. Returns the records and the messages.
#[cfg(target_os = "linux")]
fn crawl_with_signal(signal: &str, word: &str) -> (BTreeMap<String, Value>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let (web, root) = start();
    let profiles = folder.path().join("profiles");
    std::fs::create_dir(&profiles).expect("a folder");
    let urls = ["hostile/loop", "spider/1", "spider/2"].map(|path| format!("{root}{path}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.current_dir(folder.path()).env("TMPDIR", &profiles).arg("crawl").args(&urls);
    command.args(["--jsonl", "-", "-q", "-d", "a.crawl", "--depth", "0", "--per-host", "1", "--render", "always"]);
    command.args(["--render-tabs", "1", "--render-timeout", "5s"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command was built");
    wait_until("the page is requested", || web.log().iter().any(|request| request.path == "/hostile/loop"));
    let found = || descendants(child.id()).into_iter().find(|(_, line)| line.contains(word));
    wait_until("the process runs", || found().is_some());
    let (number, _) = found().expect("it runs");
    let number = number.to_string();
    assert!(Command::new("kill").args([signal, &number]).status().expect("it exists").success());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert_eq!(processes_naming(&profiles).len(), 0, "nothing is left running");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let pages = records.filter(|record| record["type"] == "page").map(|record| {
        (record["url"].as_str().expect("a URL").rsplit_once("//").map_or("", |(_, rest)| rest).to_owned(), record)
    });
    let by_path = pages.map(|(url, record)| (url.split_once('/').map_or("", |(_, path)| path).to_owned(), record));
    (by_path.collect(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "needs headless-shell"]
fn a_browser_or_renderer_that_is_killed_or_hangs_costs_no_other_page_its_document() {
    for (signal, word, expected) in [
        ("-KILL", "--type=renderer", &["crash", "timeout"][..]),
        ("-STOP", "--type=renderer", &["timeout"]),
        // The page is rendered a second time.
        ("-KILL", "--remote-debugging-pipe", &["timeout"]),
    ] {
        let (pages, messages) = crawl_with_signal(signal, word);
        let what = format!("{signal} {word}: {messages}");
        assert!(!messages.contains("not rendered any more"), "{what}");
        let end = |path: &str| pages[path]["render"]["end"].as_str().unwrap_or_default().to_owned();
        assert!(expected.contains(&&*end("hostile/loop")), "{what} {}", pages["hostile/loop"]);
        for number in 1..=2 {
            let path = format!("spider/{number}");
            assert_eq!(
                (&*end(&path), &pages[&path]["title"]),
                ("idle", &format!("Spider No. {number}").into()),
                "{what}"
            );
        }
    }
}

/// The processes that this process has started, and those that they have started: numbers and command lines.
#[cfg(target_os = "linux")]
fn descendants(ancestor: u32) -> Vec<(u32, String)> {
    let folders = std::fs::read_dir("/proc").expect("a folder").flatten();
    let numbers = folders.filter_map(|entry| entry.file_name().into_string().ok()?.parse::<u32>().ok());
    let read = |number: u32, file: &str| std::fs::read(format!("/proc/{number}/{file}")).unwrap_or_default();
    let parent = |number: u32| {
        let stat = String::from_utf8_lossy(&read(number, "stat")).into_owned();
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok())
    };
    let is_descendant = |number: &u32| {
        std::iter::successors(Some(*number), |number| parent(*number)).skip(1).any(|number| number == ancestor)
    };
    let found = numbers.filter(is_descendant);
    found.map(|number| (number, String::from_utf8_lossy(&read(number, "cmdline")).into_owned())).collect()
}

/// The processes whose command line contains this path: numbers and command lines.
#[cfg(target_os = "linux")]
fn processes_naming(path: &Path) -> Vec<(String, String)> {
    let text = path.to_str().expect("UTF-8");
    let folders = std::fs::read_dir("/proc").expect("a folder").flatten();
    let processes = folders.filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some((entry.file_name().into_string().ok()?, String::from_utf8_lossy(&line).into_owned()))
    });
    processes.filter(|(_, line)| line.contains(text)).collect()
}

#[cfg(target_os = "linux")]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: not within 30 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_missing_browser_is_an_error_of_usage_and_nothing_is_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments =
        ["crawl", "http://127.0.0.1:1/", "--render", "always", "--browser", "/nonexistent", "-d", "a.crawl"];
    let output = argiope(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("/nonexistent is not a program") && message.contains("install"), "{message}");
    assert!(!folder.path().join("a.crawl").exists());
}
