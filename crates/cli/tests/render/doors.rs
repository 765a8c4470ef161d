//! Each way out of a page, alone: what the crawl sends is in the log of the server, and the browser sends nothing.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use argiope_practice::{PracticeWeb, Response, Site};
use serde_json::Value;

use super::{descendants, wait_until};

/// A way out: its name, a script that tries it, and whether the crawl makes a request of it. `OUT` is its own address.
const DOORS: &[(&str, &str, bool)] = &[
    ("fetch", "await fetch('OUT')", true),
    ("fetch-keepalive", "await fetch('OUT', { keepalive: true })", true),
    (
        "xhr",
        "const x = new XMLHttpRequest(); x.open('GET', 'OUT'); x.send(); await new Promise((done) => x.onload = done)",
        true,
    ),
    ("script", "const s = document.createElement('script'); s.src = 'OUT'; document.body.append(s)", true),
    ("frame", "const f = document.createElement('iframe'); f.src = 'OUT'; document.body.append(f)", true),
    ("websocket", "new WebSocket('ws://' + location.host + 'OUT')", false),
    ("eventsource", "new EventSource('OUT')", false),
    ("beacon", "navigator.sendBeacon('OUT', 'x')", false),
    (
        "ping",
        "document.body.innerHTML = '<a href=\"#x\" ping=\"OUT\">x</a>'; document.querySelector('a').click()",
        false,
    ),
    (
        "webrtc",
        "const p = new RTCPeerConnection({ iceServers: [{ urls: 'stun:' + location.host }] }); \
         p.createDataChannel('x'); await p.setLocalDescription(await p.createOffer())",
        false,
    ),
    ("webtransport", "await new WebTransport('https://' + location.host + 'OUT').ready", false),
    ("worker", "new Worker('OUT')", false),
    ("blob-worker", "new Worker(URL.createObjectURL(new Blob([`fetch('${location.origin}OUT')`])))", false),
    ("shared-worker", "new SharedWorker('OUT')", false),
    ("service-worker", "await navigator.serviceWorker.register('OUT')", false),
    ("worklet", "await CSS.paintWorklet.addModule('OUT')", true),
    ("dns-prefetch", "document.head.innerHTML += '<link rel=dns-prefetch href=//out.invalid>'", false),
    ("preconnect", "document.head.innerHTML += `<link rel=preconnect href=${location.origin}>`", false),
    ("prefetch", "document.head.innerHTML += '<link rel=prefetch href=OUT>'", true),
    (
        "speculation",
        "const s = document.createElement('script'); s.type = 'speculationrules'; \
         s.textContent = '{\"prerender\":[{\"urls\":[\"OUT\"]}]}'; document.head.append(s)",
        false,
    ),
    ("popup", "open('OUT')", false),
    (
        "form-popup",
        "document.body.innerHTML = '<form action=OUT target=_blank></form>'; document.forms[0].submit()",
        false,
    ),
    ("download", "document.body.innerHTML = '<a href=OUT download>x</a>'; document.querySelector('a').click()", false),
    ("location", "location = 'OUT'", false),
    ("print", "print()", false),
    ("notification", "await Notification.requestPermission()", false),
    (
        "file",
        "const text = await (await fetch('file:///etc/passwd')).text(); document.title = 'leaked ' + text.length; throw 0",
        false,
    ),
    (
        "file-frame",
        "const f = document.createElement('iframe'); f.src = 'file:///etc/passwd'; document.body.append(f)",
        false,
    ),
    ("chrome", "await fetch('chrome://version/'); document.title = 'leaked'; throw 0", false),
];

fn page(script: &str, out: &str) -> Response {
    let script = script.replace("OUT", out);
    Response::html(format!(
        "<!doctype html><title>begun</title><body><script>(async () => {{ try {{ {script}; }} catch {{}}\n\
         if (!document.title.startsWith('leaked')) document.title = 'done'; }})();\n\
         setTimeout(() => {{ if (document.title === 'begun') document.title = 'waits'; }}, 3000);</script>"
    ))
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "needs headless-shell"]
fn each_way_out_of_a_page_is_a_request_of_the_crawl_or_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut site = Site::http("127.0.0.1:0").expect("a socket").robots("User-agent: *\nDisallow:\n");
    let root = site.url("/");
    for (name, script, _) in DOORS {
        site = site.page(&format!("/door/{name}"), page(script, &format!("/out/{name}")));
        site = site.page(&format!("/out/{name}"), Response::text("1").content_type("text/javascript"));
    }
    let site = site.page("/loop", Response::html("<title>loop</title><script>while (true);</script>"));
    let web = PracticeWeb::new().site(site).start().expect("a server");
    let urls = DOORS.iter().map(|(name, ..)| format!("{root}door/{name}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.current_dir(folder.path()).arg("crawl").args(urls).arg(format!("{root}loop"));
    command.args(["--jsonl", "-", "-q", "-d", "a.crawl", "--depth", "0", "--per-host", "1", "--render", "always"]);
    command.args(["--render-tabs", "1", "--render-timeout", "5s", "--render-time", "4s"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command was built");
    // The pages are rendered one after the other. While the last one computes, all others are done.
    let counters = || {
        let browser = descendants(child.id()).into_iter().find(|(_, line)| line.contains("--remote-debugging-pipe"));
        browser.and_then(|(number, _)| std::fs::read_to_string(format!("/proc/{number}/net/dev")).ok())
    };
    wait_until("the last page is requested", || web.log().iter().any(|request| request.path == "/loop"));
    wait_until("the browser has a network namespace of its own", || counters().is_some_and(|text| !text.is_empty()));
    let interfaces = counters().expect("it runs");
    // Two lines of headings, then a line for each interface: its name, received bytes, packets and so on, sent bytes, packets.
    for line in interfaces.lines().skip(2) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((fields[0], fields[2], fields[10]), ("lo:", "0", "0"), "packets of the browser: {interfaces}");
    }
    let output = child.wait_with_output().expect("it ends");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    let seen: BTreeSet<String> = web.log().iter().map(|request| request.path.clone()).collect();
    for (name, _, is_sent) in DOORS {
        assert_eq!(seen.contains(&format!("/out/{name}")), *is_sent, "{name}: {seen:?}");
    }
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (name, ..) in DOORS {
        let url = format!("{root}door/{name}");
        let record = records.iter().find(|record| record["url"] == *url).expect("a record");
        let title = record["title"].as_str().unwrap_or_default();
        assert!(["done", "waits"].contains(&title), "{name}: {record}");
        assert!(["idle", "budget"].contains(&record["render"]["end"].as_str().unwrap_or_default()), "{name}: {record}");
    }
}
