//! Runs one case: starts its servers, crawls it with the command, checks the result.
//!
//! Invariant: each case has its own process, so that a crash, a leak or a hang is attributed to its case.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use argiope_practice::hostile::{Case, CaseReport, CaseVerdict, demand};
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use serde_json::{Value, json};

/// The limits of the catalogue as settings. One size limit applies to the body on the wire and to the decoded body.
const CATALOGUE_LIMITS: &[(&str, &str)] = &[
    ("connect-timeout", "2s"),
    ("idle-timeout", "2s"),
    ("timeout", "8s"),
    ("min-rate", "64"),
    ("max-head", "64K"),
    ("max-size", "4M"),
    ("retry-wait", "100ms"),
];

/// Time limit of a fetch: twice the timeout, because the machine may be busy.
const MAX_FETCH_TIME: Duration = Duration::from_secs(16);
/// Time limit of a fetch in cases that need much CPU and have a longer timeout.
const MAX_EXPENSIVE_FETCH_TIME: Duration = Duration::from_secs(90);

/// Time limit of the command: several times the duration of the slowest case.
const TIMEOUT: Duration = Duration::from_secs(120);

/// KiB by which a case may raise peak memory over a crawl of the control host alone.
const MAX_GROWTH_KIB: u64 = 64 << 10;

/// A well-behaved host that is crawled together with every case.
pub struct Control {
    root: String,
    _web: RunningWeb,
}

const CONTROL_PAGES: usize = 20;

impl Control {
    pub fn start() -> Control {
        let mut site = Site::http("127.99.0.1:0").expect("a loopback address");
        for page in 0..CONTROL_PAGES {
            let next = format!("/{}", page + 1);
            let links: &[&str] = if page + 1 < CONTROL_PAGES { &[&next] } else { &[] };
            site = site.page(&format!("/{page}"), Response::links(links));
        }
        let root = site.url("/0");
        Control { root, _web: PracticeWeb::new().site(site).start().expect("the control host starts") }
    }

    /// Checks that all pages of the control host were fetched.
    fn check_complete(&self, report: &CaseReport) -> CaseVerdict {
        let origin = self.root.trim_end_matches('0');
        let found = report
            .pages()
            .filter(|page| page["url"].as_str().is_some_and(|url| url.starts_with(origin)) && page["outcome"] == "ok");
        let count = found.count();
        demand(count == CONTROL_PAGES, format!("the control host has {count} pages of {CONTROL_PAGES}"))
    }
}

/// Crawls only the control host; returns the peak memory in KiB.
pub fn crawl_control_only(engine: &str, control: &Control) -> u64 {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = write_config(folder.path(), BTreeMap::new());
    let (report, peak) = crawl(engine, &[], control, &config, folder.path()).expect("the control host is crawled");
    control.check_complete(&report).expect("the control host alone");
    peak
}

/// Crawls one case and reports what is wrong. `ordinal` is its position in the catalogue, on which its addresses
/// depend. `baseline` is the result of [`crawl_control_only`].
pub fn run_case(engine: &str, ordinal: usize, case: &Case, control: &Control, baseline: u64) -> CaseVerdict {
    let describe = |error: std::io::Error| error.to_string();
    let Some(builder) = case.builder(ordinal).map_err(describe)? else { return Ok(()) };
    let running = builder.start().map_err(describe)?;
    let folder = tempfile::tempdir().map_err(describe)?;
    let mut settings: BTreeMap<&str, Value> = BTreeMap::new();
    if let Some(address) = running.dns() {
        settings.insert("dns", address.to_string().into());
    }
    if running.roots.iter().any(|root| root.starts_with("https:")) {
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, running.ca_pem()).map_err(describe)?;
        settings.insert("ca-cert", json!(file));
    }
    settings.extend(running.settings.iter().cloned());
    let config = write_config(folder.path(), settings);
    let (mut report, peak) = crawl(engine, &running.roots, control, &config, folder.path())?;
    report.requests = running.requests();
    report.queried_names = running.queried_names();
    report.judged.clone_from(&running.judged);
    for url in &running.judged {
        report.judge(url, case.expect)?;
    }
    for check in &running.checks {
        (check.verify)(&report).map_err(|fault| format!("{}: {fault}", check.title))?;
    }
    demand(report.exit == Some(0), format!("exit code {:?}: {}", report.exit, report.stderr))?;
    control.check_complete(&report)?;
    let is_expensive = running.settings.iter().any(|(key, _)| *key == "timeout");
    check_invariants(&report, if is_expensive { MAX_EXPENSIVE_FETCH_TIME } else { MAX_FETCH_TIME })?;
    demand(peak <= baseline + MAX_GROWTH_KIB, format!("memory grew from {baseline} to {peak} KiB"))
}

/// Checks that apply to every crawl.
fn check_invariants(report: &CaseReport, max_fetch_time: Duration) -> CaseVerdict {
    let mut urls = BTreeSet::new();
    for page in report.pages() {
        let url = page["url"].as_str().unwrap_or_default();
        demand(urls.insert(url), format!("{url} has two records"))?;
        let fetch_time = Duration::from_millis(page["ms"]["total"].as_u64().unwrap_or_default());
        demand(fetch_time <= max_fetch_time, format!("{url} took {fetch_time:?}"))?;
    }
    demand(!report.stderr.contains("panicked"), format!("a panic: {}", report.stderr))?;
    // Text from the web may contain control characters, which must be escaped.
    let raw = report.stderr.chars().find(|c| c.is_control() && *c != '\n');
    demand(raw.is_none(), format!("{raw:?} on the terminal: {:?}", report.stderr))
}

/// Writes a configuration file with the limits of the catalogue and these settings. Returns its path.
fn write_config(folder: &Path, settings: BTreeMap<&str, Value>) -> PathBuf {
    let mut all: BTreeMap<&str, Value> = CATALOGUE_LIMITS.iter().map(|(key, value)| (*key, json!(value))).collect();
    all.insert("max-tries", 2.into());
    all.extend(settings);
    // Strings, numbers, booleans and lists of them are the same in TOML and JSON.
    let text: String = all.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let file = folder.join("argiope.toml");
    std::fs::write(&file, text).expect("the settings are written");
    file
}

/// Crawls these roots and the control host. Returns the result and the peak memory in KiB.
fn crawl(
    engine: &str,
    roots: &[String],
    control: &Control,
    config: &Path,
    folder: &Path,
) -> Result<(CaseReport, u64), String> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_argiope"));
    let directory = folder.join("crawl");
    let mut child = Command::new(&program)
        .arg("crawl")
        .args(roots)
        .arg(&control.root)
        .args(["--jsonl", "-", "--no-progress", "-v", "--engine", engine])
        .arg("--config")
        .arg(config)
        .arg("--out")
        .arg(&directory)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut errors = child.stderr.take().ok_or("no standard error")?;
    let output = BufReader::new(child.stdout.take().ok_or("no standard output")?);
    let stderr_reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = errors.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let (deadline, mut peak, mut records) = (Instant::now() + TIMEOUT, 0, Vec::new());
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                // The peak never decreases, so the value at the last line covers the whole run.
                peak = peak_of(child.id()).unwrap_or(0).max(peak);
                // Records may be printed on a terminal.
                let raw = line.chars().find(|c| c.is_control());
                demand(raw.is_none(), format!("{raw:?} on standard output: {line:?}"))?;
                records.push(serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))?);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("not over after {TIMEOUT:?}; the last record: {:?}", records.last()));
            }
        }
    }
    let exit = child.wait().map_err(|error| error.to_string())?.code();
    let _ = reader.join();
    let stderr = stderr_reader.join().map_err(|_| "the reader of standard error panicked")?;
    Ok((CaseReport { records, stderr, exit, directory, program, ..CaseReport::default() }, peak))
}

/// The peak memory of a running process, in KiB.
fn peak_of(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
