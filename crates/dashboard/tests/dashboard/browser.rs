//! A real browser: headless Chromium, driven by chromedriver over the WebDriver protocol.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Timeout for a condition on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// The browser's files, which are deleted at the end.
    _profile: tempfile::TempDir,
}

impl Browser {
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is installed");
        let profile = tempfile::tempdir().expect("a folder");
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let deadline = Instant::now() + TIMEOUT;
        // chromedriver may need some time to start.
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "chromedriver does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        let profile = format!("--user-data-dir={}", browser._profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            &profile,
        ];
        let options = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = browser.send("POST", "/session", &options);
        browser.session = session["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    pub fn open(&self, url: &str) {
        self.command("POST", "/url", &json!({ "url": url }));
    }

    /// Runs a script and returns its result.
    pub fn run(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until a script returns a truthy value.
    pub fn wait(&self, script: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while self.run(&format!("return Boolean({script})")) != json!(true) {
            assert!(
                Instant::now() < deadline,
                "never true: {script}; the page: {}",
                self.run("return document.body.innerText")
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Clicks like a user: fails if another element covers the target.
    pub fn click(&self, selector: &str) {
        let found = self.command("POST", "/element", &json!({ "using": "css selector", "value": selector }));
        let id = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str).expect("an element");
        self.command("POST", &format!("/element/{id}/click"), &json!({}));
    }

    /// Types text into an input.
    pub fn write(&self, selector: &str, text: &str) {
        let found = self.command("POST", "/element", &json!({ "using": "css selector", "value": selector }));
        let id = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str).expect("an element");
        self.command("POST", &format!("/element/{id}/value"), &json!({ "text": text }));
    }

    /// Opens another tab and switches to it.
    pub fn new_tab(&self) {
        let made = self.command("POST", "/window/new", &json!({ "type": "tab" }));
        self.command("POST", "/window", &json!({ "handle": made["handle"] }));
    }

    /// Messages in the browser's log: policy violations, failed requests, uncaught errors.
    pub fn log_messages(&self) -> Vec<String> {
        let log = self.command("POST", "/se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().cloned().unwrap_or_default();
        entries.iter().filter_map(|entry| entry["message"].as_str().map(ToOwned::to_owned)).collect()
    }

    /// Violations that axe-core finds in the current page. The environment variable `AXE_CORE` names its `axe.min.js`.
    pub fn accessibility_violations(&self) -> Vec<String> {
        let path = std::env::var_os("AXE_CORE").expect("AXE_CORE is set");
        let axe = std::fs::read_to_string(path).expect("AXE_CORE names a file");
        let script = format!(
            "{axe}; const done = arguments[arguments.length - 1];
             axe.run(document).then(r => done(r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' | '))))"
        );
        let found = self.command("POST", "/execute/async", &json!({ "script": script, "args": [] }));
        found.as_array().expect("a list").iter().filter_map(|fault| fault.as_str().map(ToOwned::to_owned)).collect()
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        self.send(method, &format!("/session/{}{path}", self.session), body)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("chromedriver listens");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).expect("chromedriver reads");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let mut stream = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).expect("chromedriver answers");
            if let Some((name, value)) =
                line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            {
                length = value.trim().parse().unwrap_or_else(|_| panic!("{name} is a number"));
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        // chromedriver keeps the connection open despite `Connection: close`.
        let mut body = vec![0; length];
        stream.read_exact(&mut body).expect("chromedriver answers");
        let value: Value = serde_json::from_slice(&body).expect("JSON");
        assert!(head.contains(" 200 "), "{path}: {}", value["value"]["message"]);
        value["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.command("DELETE", "", &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
