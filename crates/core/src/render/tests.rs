//! Tests against a recorded conversation with a browser, in virtual time.
//!
//! The page of the recording has a script, which loads data, waits 300 ms, and then adds a link, a closed shadow root and
//! a frame with a link each, asks for a frame, pushes a route and throws an error.

use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::base::time::Time;
use crate::base::url::Url;

/// One message a line: `>` to the browser, `<` from it. Events that are not used are left out.
const RECORDED: &str = include_str!("recorded.txt");

fn from_browser() -> impl Iterator<Item = &'static str> {
    RECORDED.lines().filter_map(|line| line.strip_prefix("< "))
}

fn input() -> PageInput {
    PageInput {
        url: Url::parse("http://site.example/").expect("a URL"),
        headers: vec![("Content-Type".into(), "text/html".into())],
        body: b"<title>t</title><div id=r></div><script src=/a.js></script>".to_vec(),
        wall_seconds: 1_795_046_400,
        seed: 7,
    }
}

/// A crawl that answers every request at once, or never.
struct Player {
    client: DevTools,
    answers: bool,
    sent: Vec<Value>,
    done: Vec<RenderedPage>,
    requests: Vec<BrowserRequest>,
    tabs: Vec<TabId>,
}

impl Player {
    fn new(answers: bool) -> Self {
        let limits = RenderLimits { interact: Interact::None, ..RenderLimits::default() };
        Self {
            client: DevTools::new(limits),
            answers,
            sent: Vec::new(),
            done: Vec::new(),
            requests: Vec::new(),
            tabs: Vec::new(),
        }
    }

    fn feed(&mut self, message: &[u8], now: Time) {
        self.client.feed(message, now);
        self.client.feed(&[0], now);
        self.work(now);
        if self.client.is_ready() && self.client.open_pages() + self.done.len() == 0 {
            self.tabs.push(self.client.open(input(), now));
        }
        self.work(now);
    }

    fn work(&mut self, now: Time) {
        while let Some(event) = self.client.next_event() {
            match event {
                RenderEvent::Request(tab, request) => {
                    if self.answers {
                        let headers = vec![("Content-Type".into(), "text/plain".into())];
                        let answer = BrowserAnswer::Response { status: 200, headers, body: b"{}".to_vec() };
                        self.client.answer(tab, request.id, answer, now);
                    }
                    self.requests.push(request);
                }
                RenderEvent::Done(_, page) => self.done.push(*page),
            }
        }
        let bytes = self.client.take();
        let messages = bytes.split(|byte| *byte == 0).filter(|message| !message.is_empty());
        self.sent.extend(messages.map(|message| serde_json::from_slice::<Value>(message).expect("JSON")));
    }

    fn methods(&self) -> Vec<&str> {
        self.sent.iter().filter_map(|message| message["method"].as_str()).collect()
    }
}

#[test]
fn the_recorded_page_is_rendered_with_the_recorded_commands() {
    let mut player = Player::new(true);
    from_browser().for_each(|message| player.feed(message.as_bytes(), Time::ZERO));
    let recorded: Vec<Value> = RECORDED
        .lines()
        .filter_map(|line| line.strip_prefix("> "))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let shape = |message: &Value| {
        let policy = message["params"]["policy"].as_str().unwrap_or_default().to_owned();
        (message["method"].as_str().unwrap_or_default().to_owned(), policy, message["params"]["budget"].as_u64())
    };
    let sent: Vec<_> = player.sent.iter().map(shape).collect();
    assert_eq!(sent, recorded.iter().map(shape).collect::<Vec<_>>());
    let [page] = &player.done[..] else { panic!("one page") };
    assert_eq!((page.end, page.requests, page.refused), (RenderEnd::Idle, 2, 0));
    assert_eq!(page.errors, ["TypeError: oops"]);
    assert_eq!(page.links, ["http://site.example/route"]);
    let document = page.document.as_deref().expect("a document");
    for part in ["<title>drawn ", "href=\"/7\"", "href=\"/shadow\"", "/frame\""] {
        assert!(document.contains(part), "{part} is missing in {document}");
    }
    assert!(!document.contains("/no"), "noscript does not count: {document}");
    let urls: Vec<_> = player.requests.iter().map(|request| (request.url.target(), request.kind)).collect();
    assert_eq!(urls, [("/a.js", RequestKind::Script), ("/d", RequestKind::Xhr)]);
    assert_eq!(player.client.deadline(), Time::NEVER, "nothing is left");
}

#[test]
fn no_script_runs_before_the_doors_are_closed() {
    let mut player = Player::new(true);
    for message in from_browser() {
        player.feed(message.as_bytes(), Time::ZERO);
        if !player.methods().contains(&"Page.navigate") {
            continue;
        }
        let prepared = ["Page.addScriptToEvaluateOnNewDocument", "Fetch.enable", "Target.setAutoAttach"];
        let ids = player.sent.iter().filter(|sent| prepared.iter().any(|name| sent["method"] == *name));
        for id in ids.map(|sent| sent["id"].as_u64().expect("an id")) {
            let is_answered = from_browser()
                .take_while(|line| *line != message)
                .any(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"] == id);
            assert!(is_answered || serde_json::from_str::<Value>(message).expect("JSON")["id"] == id);
        }
        return;
    }
    panic!("the page was not loaded");
}

#[test]
fn a_page_whose_requests_are_not_answered_ends_with_what_is_there() {
    let mut player = Player::new(false);
    let snapshot = from_browser().find(|line| line.contains("\"documents\"")).expect("a snapshot");
    for message in from_browser() {
        player.feed(message.as_bytes(), Time::ZERO);
        if !player.requests.is_empty() && player.client.deadline() > Time::ZERO + Duration::from_secs(60) {
            break;
        }
    }
    let deadline = player.client.deadline();
    assert_eq!(deadline, Time::ZERO + Duration::from_secs(300), "waiting is not computing");
    player.client.expire(deadline);
    player.work(deadline);
    assert_eq!(player.sent.last().expect("a command")["method"], "DOMSnapshot.captureSnapshot");
    assert!(player.methods().contains(&"Runtime.terminateExecution"));
    let mut answer: Value = serde_json::from_str(snapshot).expect("JSON");
    answer["id"] = player.sent.last().expect("a command")["id"].clone();
    player.feed(answer.to_string().as_bytes(), deadline);
    let [page] = &player.done[..] else { panic!("one page") };
    assert_eq!((page.end, page.document.is_some()), (RenderEnd::Timeout, true));
    assert!(!player.client.is_broken());
}

#[test]
fn a_browser_that_does_not_answer_is_ended_and_the_page_stays_static() {
    let mut player = Player::new(true);
    let until = from_browser().position(|line| line.contains("virtualTimeBudgetExpired")).expect("a slice");
    from_browser().take(until).for_each(|message| player.feed(message.as_bytes(), Time::ZERO));
    let computing = player.client.deadline();
    assert_eq!(computing, Time::ZERO + Duration::from_secs(30));
    player.client.expire(computing);
    let reading = player.client.deadline();
    assert_eq!(reading, computing + Duration::from_secs(3));
    player.client.expire(reading);
    player.work(reading);
    let [page] = &player.done[..] else { panic!("one page") };
    assert_eq!((page.end, page.document.is_some()), (RenderEnd::Timeout, false));
    // The tab is closed first: other pages of the browser continue.
    assert!(!player.client.is_broken());
    assert_eq!(player.sent.last().expect("a command")["method"], "Target.disposeBrowserContext");
    let closing = player.client.deadline();
    assert_eq!(closing, reading + Duration::from_secs(10));
    player.client.expire(closing);
    assert!(player.client.is_broken(), "the browser does not answer at all");
}

#[test]
fn an_answer_for_a_browser_that_has_ended_reaches_no_page_of_the_next_one() {
    let mut player = Player::new(false);
    for message in from_browser() {
        player.feed(message.as_bytes(), Time::ZERO);
        if !player.requests.is_empty() {
            break;
        }
    }
    let (first_tab, first_request) = (player.tabs[0], player.requests[0].id);
    player.client.closed(Time::ZERO);
    player.work(Time::ZERO);
    player.client.restart();
    assert!(!player.client.is_ready() && !player.client.is_broken());
    let tab = player.client.open(input(), Time::ZERO);
    player.requests.clear();
    for message in from_browser() {
        player.feed(message.as_bytes(), Time::ZERO);
        if !player.requests.is_empty() {
            break;
        }
    }
    assert_ne!(tab, first_tab);
    assert_ne!(player.requests[0].id, first_request);
    player.sent.clear();
    let late = BrowserAnswer::Response { status: 200, headers: Vec::new(), body: b"of another page".to_vec() };
    player.client.answer(first_tab, first_request, late, Time::ZERO);
    player.work(Time::ZERO);
    assert_eq!(player.methods(), [""; 0]);
}

#[test]
fn a_document_that_is_too_large_ends_its_own_page_only() {
    let mut player = Player::new(true);
    for message in from_browser() {
        if message.contains("\"documents\"") {
            let huge = message.replacen("\"strings\":[", &format!("\"strings\":[\"{}\",", "x".repeat(70 << 20)), 1);
            player.feed(huge.as_bytes(), Time::ZERO);
            break;
        }
        player.feed(message.as_bytes(), Time::ZERO);
    }
    let [page] = &player.done[..] else { panic!("one page") };
    assert_eq!((page.end, page.document.is_some()), (RenderEnd::Memory, false));
    assert!(!player.client.is_broken());
    assert!(player.client.bytes() < 1 << 20, "{} bytes are held", player.client.bytes());
}

#[test]
fn a_document_beyond_the_limit_is_cut_off() {
    let limits = RenderLimits { interact: Interact::None, document: 200, ..RenderLimits::default() };
    let mut player = Player { client: DevTools::new(limits), ..Player::new(true) };
    from_browser().for_each(|message| player.feed(message.as_bytes(), Time::ZERO));
    let [page] = &player.done[..] else { panic!("one page") };
    assert_eq!(page.end, RenderEnd::Memory);
    let length = page.document.as_deref().map_or(0, str::len);
    assert!((200..400).contains(&length), "{length} bytes");
}

#[test]
fn every_page_ends_exactly_once_wherever_the_browser_ends_or_lies() {
    let messages: Vec<&str> = from_browser().collect();
    for end in 0..messages.len() {
        let mut player = Player::new(true);
        messages[..end].iter().for_each(|message| player.feed(message.as_bytes(), Time::ZERO));
        let opened = player.client.open_pages() + player.done.len();
        player.client.closed(Time::ZERO);
        player.work(Time::ZERO);
        assert_eq!(player.done.len(), opened, "the browser ended before message {end}");
    }
    // Messages are lost, doubled, or have another form.
    for fault in 0..messages.len() {
        for kind in 0..3 {
            let mut player = Player::new(true);
            for (index, message) in messages.iter().enumerate() {
                match kind {
                    _ if index != fault => player.feed(message.as_bytes(), Time::ZERO),
                    0 => {}
                    1 => (0..2).for_each(|_| player.feed(message.as_bytes(), Time::ZERO)),
                    _ => player.feed(&message.as_bytes()[..message.len() / 2], Time::ZERO),
                }
            }
            player.client.closed(Time::ZERO);
            player.work(Time::ZERO);
            assert!(player.done.len() <= 1 && player.client.open_pages() == 0, "message {fault}, fault {kind}");
        }
    }
}
