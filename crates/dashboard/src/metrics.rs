//! `/metrics`: a [`Status`] in Prometheus' text format.
//!
//! Every label has a closed set of values (outcomes, status classes, error kinds, states), so host names and URLs
//! cannot increase the number of time series.

use std::fmt::Write as _;

use argiope_core::crawl::status::{CrawlState, Status};
use argiope_core::{ErrorKind, Outcome};

/// Renders the metrics of a crawl; only `argiope_up` if it is not running.
pub fn render(status: Option<&Status>) -> String {
    let mut text = String::new();
    family(&mut text, "argiope_up", "gauge", "Whether the crawl is running.");
    let _ = writeln!(text, "argiope_up {}", u8::from(status.is_some()));
    family(&mut text, "argiope_build_info", "gauge", "The version of the program.");
    let _ = writeln!(text, "argiope_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    let Some(status) = status else { return text };

    family(&mut text, "argiope_urls_total", "counter", "URLs settled by this run, by outcome.");
    for outcome in Outcome::ALL {
        let _ = writeln!(text, "argiope_urls_total{{outcome=\"{outcome}\"}} {}", status.outcomes.get(*outcome));
    }
    family(&mut text, "argiope_responses_total", "counter", "Responses to page requests, by class of status.");
    for (class, count) in (1..).zip(status.status_classes) {
        let _ = writeln!(text, "argiope_responses_total{{class=\"{class}xx\"}} {count}");
    }
    family(&mut text, "argiope_errors_total", "counter", "URLs that ended with an error, by kind of error.");
    for kind in ErrorKind::ALL {
        let count = status.error_kinds.get(kind).copied().unwrap_or(0);
        let _ = writeln!(text, "argiope_errors_total{{kind=\"{kind}\"}} {count}");
    }
    family(&mut text, "argiope_state", "gauge", "What the crawl is doing: 1 for its state, 0 for the others.");
    for state in CrawlState::ALL {
        let is_current = u8::from(*state == status.state);
        let _ = writeln!(text, "argiope_state{{state=\"{}\"}} {is_current}", state.as_str());
    }
    let mut single = |name: &str, kind: &str, help: &str, value: f64| {
        family(&mut text, name, kind, help);
        let _ = writeln!(text, "{name} {value}");
    };
    #[allow(clippy::cast_precision_loss)]
    let to_f64 = |number: u64| number as f64;
    let seconds = status.elapsed.as_secs_f64();
    single("argiope_received_bytes_total", "counter", "Bytes received from hosts.", to_f64(status.bytes));
    single("argiope_run_seconds_total", "counter", "Time since this run began.", seconds);
    single("argiope_requests_in_flight", "gauge", "Requests in flight.", to_f64(status.in_flight as u64));
    single("argiope_queued_urls", "gauge", "URLs known and not started yet.", to_f64(status.queued));
    single("argiope_known_hosts", "gauge", "Hosts that had work in this run.", to_f64(status.hosts));
    single("argiope_excludes", "gauge", "Patterns excluded while the crawl was running.", status.excludes.len() as f64);
    if let Some(rate) = status.rate {
        single("argiope_rate_limit_pages_per_second", "gauge", "The limit on pages a second.", rate);
    }
    if status.memory_bytes > 0 {
        single("argiope_resident_memory_bytes", "gauge", "Resident memory.", to_f64(status.memory_bytes));
    }
    if let Some(limit) = status.max_memory {
        single("argiope_memory_limit_bytes", "gauge", "The memory limit.", to_f64(limit));
    }
    if status.disk_bytes > 0 {
        single("argiope_directory_bytes", "gauge", "Size of the crawl directory.", to_f64(status.disk_bytes));
    }
    if let Some(fleet) = &status.fleet {
        let count = fleet.processes.len() as f64;
        single("argiope_fleet_processes", "gauge", "Processes that share the crawl.", count);
        let free = to_f64(fleet.free_buckets);
        single("argiope_fleet_free_buckets", "gauge", "Buckets of hosts without an owner.", free);
        single("argiope_fleet_queued_urls", "gauge", "URLs queued in the store.", to_f64(fleet.queued));
        let stalled = fleet.processes.iter().filter(|process| process.stalled.is_some()).count() as f64;
        single("argiope_fleet_stalled", "gauge", "Processes whose results cannot be stored.", stalled);
    }
    if !status.memory_parts.is_empty() {
        family(&mut text, "argiope_memory_part_bytes", "gauge", "Memory in use, by part of the memory budget.");
        for (part, bytes) in &status.memory_parts {
            let _ = writeln!(text, "argiope_memory_part_bytes{{part=\"{}\"}} {bytes}", part.as_str());
        }
    }
    text
}

/// Writes the header lines of a metric.
fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
