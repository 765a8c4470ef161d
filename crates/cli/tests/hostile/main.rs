//! The cases of the hostile web, crawled by the command beside a well-behaved control host. A case with
//! `CaseSetup::Elsewhere` is not crawled here, because another test shows it.
//!
//! Every case has its own expectations. In addition, these hold for every crawled case:
//!
//! - The command ends by itself with exit code 0 and without a panic.
//! - Its memory grows by at most the limit of the catalogue.
//! - No fetch exceeds its time limit.
//! - The control host is crawled completely.
//! - Every URL has exactly one record.
//! - Text from the web is escaped before it is printed.
//!
//! The cases are in `crates/practice/src/hostile`, the catalogue is `hostile.json` beside the test vectors. With
//! `ARGIOPE_LONG` they run on every engine. During development, `ARGIOPE_HOSTILE=RED,H11` selects the cases whose ids
//! begin with RED or H11, and `ARGIOPE_HOSTILE_ENGINES` selects engines by name, or `all`.

mod catalogue;
mod document;
mod run;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use argiope_practice::hostile::{CaseSetup, catalogue as cases};

const ENGINES: [&str; 5] = ["tokio", "coroutines", "callbacks", "threads", "uring"];

/// Number of cases that are crawled concurrently; they mostly wait.
const MAX_AT_ONCE: usize = 16;

fn engines() -> Vec<&'static str> {
    let long = std::env::var_os("ARGIOPE_LONG").is_some();
    let requested = std::env::var("ARGIOPE_HOSTILE_ENGINES").unwrap_or_default();
    let all = long || requested == "all";
    let use_default = requested.is_empty();
    let is_selected =
        |engine: &str| all || requested.split(',').any(|name| name == engine) || use_default && engine == "tokio";
    ENGINES.into_iter().filter(|engine| is_selected(engine)).collect()
}

#[test]
fn every_case_ends_as_expected() {
    let names = std::env::var("ARGIOPE_HOSTILE").unwrap_or_default();
    let is_selected = |id: &str| names.is_empty() || names.split(',').any(|name| id.starts_with(name));
    let control = run::Control::start();
    let mut failures = Vec::new();
    for engine in engines() {
        let baseline = run::crawl_control_only(engine, &control);
        let all: Vec<_> = cases().into_iter().enumerate().filter(|(_, case)| is_selected(case.id)).collect();
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..MAX_AT_ONCE {
                scope.spawn(|| {
                    while let Some((ordinal, case)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let CaseSetup::Here(_) = case.setup
                            && let Err(fault) = run::run_case(engine, *ordinal, case, &control, baseline)
                        {
                            let message = format!("{} on {engine}: {fault}\n", case.id);
                            // Printed at once: the remaining cases may take minutes.
                            let _ = std::io::stderr().write_all(message.as_bytes());
                            failed.lock().unwrap().push(message);
                        }
                    }
                });
            }
        });
        let mut failed = failed.into_inner().unwrap();
        failed.sort();
        failures.extend(failed);
    }
    assert!(failures.is_empty(), "{} cases failed:\n{}", failures.len(), failures.concat());
}

#[test]
fn no_two_cases_have_the_same_id() {
    let all = cases();
    let ids: BTreeSet<&str> = all.iter().map(|case| case.id).collect();
    assert_eq!(ids.len(), all.len());
}
