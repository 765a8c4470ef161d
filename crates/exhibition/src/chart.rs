//! The comparison of the engines as an SVG bar chart, readable in light and dark mode.
//!
//! Invariant: bars start at zero and their length is proportional to the figure.

use std::fmt::Write as _;

use argiope_core::crawl::rules::EngineName;

use super::comparison::{EngineComparison, EngineResult};
use super::memory::CrowdResult;

const WIDTH: f64 = 720.0;
/// Where the bars begin.
const BARS_LEFT: f64 = 110.0;
/// The length of the longest bar.
const MAX_BAR_LENGTH: f64 = 430.0;
/// The height of a bar.
const BAR_HEIGHT: f64 = 16.0;
/// The distance between the tops of two bars.
const ROW_HEIGHT: f64 = 22.0;
/// The height of the title and the note above the groups.
const TITLE_HEIGHT: f64 = 56.0;
/// The margin below the last group.
const BOTTOM_MARGIN: f64 = 14.0;
/// The height of a heading.
const HEADING_HEIGHT: f64 = 34.0;

const STYLE: &str = "
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 17px; font-weight: 600 }
  .heading { font-weight: 600 }
  .note { fill: #59636e }
  .bar { fill: #0969da }
  .ideal { stroke: #cf222e; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .note { fill: #9198a1 } .bar { fill: #4493f8 } .ideal { stroke: #ff7b72 }
  }";

/// One group of bars.
struct BarGroup {
    heading: &'static str,
    /// For each engine: its name, its figure, and the label of the bar.
    bars: Vec<(&'static str, f64, String)>,
    /// The figure at which a reference line is drawn.
    ideal: Option<f64>,
}

/// Draws the comparison of the engines.
pub fn svg(comparison: &EngineComparison, results: &[EngineResult]) -> String {
    let web = format!(
        "{} hosts, {} pages each, {:.1} to {:.1} s for an answer, {} fetches in flight",
        comparison.web.hosts,
        comparison.web.pages,
        comparison.web.latency.0.as_secs_f64(),
        comparison.web.latency.1.as_secs_f64(),
        comparison.concurrency,
    );
    let (label, title) = match results.len() {
        1 => ("One engine on a slow web".to_owned(), "One way to wait".to_owned()),
        count => (format!("{count} engines on the same slow web"), format!("{count} ways to wait")),
    };
    chart(&label, &title, &web, &groups(results))
}

/// Draws the results of `--crowd`: many fetches that wait at the same time.
pub fn crowd_svg(crowds: &[(EngineName, CrowdResult)]) -> String {
    let per_fetch = |bytes: u64, crowd: &CrowdResult| bytes as f64 / crowd.in_flight.max(1) as f64;
    let group = |heading, figure: &dyn Fn(&CrowdResult) -> (f64, String)| {
        let bar = |(engine, crowd): &(EngineName, CrowdResult)| {
            let (length, label) = figure(crowd);
            (engine.as_str(), length, label)
        };
        BarGroup { heading, bars: crowds.iter().map(bar).collect(), ideal: None }
    };
    let mut groups = vec![
        group("Processes", &|crowd| (crowd.processes as f64, crowd.processes.to_string())),
        group("Memory of the processes for a fetch", &|crowd| {
            let bytes = per_fetch(crowd.bytes, crowd);
            (bytes, format!("{bytes:.0} bytes"))
        }),
        group("Memory of the kernel for a fetch, both ends of its connection", &|crowd| {
            let bytes = per_fetch(crowd.kernel_bytes, crowd);
            (bytes, format!("{:.1} KB", bytes / 1e3))
        }),
        group("Time until all requests were sent", &|crowd| (crowd.opened, format!("{:.1} s", crowd.opened))),
        group("Time until all responses were read", &|crowd| (crowd.answered, format!("{:.1} s", crowd.answered))),
        group("Processor time for a fetch", &|crowd| {
            let micros = crowd.cpu * 1e6 / crowd.in_flight.max(1) as f64;
            (micros, format!("{micros:.0} µs"))
        }),
    ];
    groups.retain(|group| !group.bars.is_empty());
    let fetches = crowds.iter().map(|(_, crowd)| crowd.in_flight).max().unwrap_or(0);
    let note = format!("{fetches} fetches wait at the same time, then all of them are answered");
    chart("Engines with many waiting fetches", "Many waiting fetches", &note, &groups)
}

/// The SVG of these groups of bars.
fn chart(aria_label: &str, title: &str, note: &str, groups: &[BarGroup]) -> String {
    let group_height = |group: &BarGroup| HEADING_HEIGHT + group.bars.len() as f64 * ROW_HEIGHT;
    let height = TITLE_HEIGHT + groups.iter().map(group_height).sum::<f64>() + BOTTOM_MARGIN;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{aria_label}\">\n<style>{STYLE}\n</style>\n\
         <text class=\"title\" x=\"16\" y=\"28\">{title}</text>\n\
         <text class=\"note\" x=\"16\" y=\"48\">{note}</text>\n",
    );
    let mut top = TITLE_HEIGHT;
    for group in groups {
        draw_group(group, top, &mut out);
        top += group_height(group);
    }
    out.push_str("</svg>\n");
    out
}

/// The groups of bars of the comparison.
fn groups(results: &[EngineResult]) -> Vec<BarGroup> {
    let group = |heading, figure: &dyn Fn(&EngineResult) -> Option<(f64, String)>| BarGroup {
        heading,
        bars: results
            .iter()
            .filter_map(|result| figure(result).map(|(length, label)| (result.engine.as_str(), length, label)))
            .collect(),
        ideal: None,
    };
    let mut groups = vec![
        group("Time (the red line is the ideal)", &|result| {
            Some((result.cost.wall, format!("{:.2} s, {:.2} of the ideal", result.cost.wall, result.ratio())))
        }),
        group("Processor time for a page", &|result| {
            let micros = result.cpu_per_page() * 1e6;
            Some((micros, format!("{micros:.0} µs")))
        }),
        group("Memory for one more fetch in flight", &|result| {
            let bytes = result.memory?.bytes();
            Some((bytes as f64, format!("{bytes} bytes")))
        }),
        group("Threads", &|result| Some((result.threads as f64, result.threads.to_string()))),
        group("Context switches for a page", &|result| {
            let switches = result.switches_per_page();
            Some((switches, format!("{switches:.2}")))
        }),
    ];
    if let Some(first) = groups.first_mut() {
        first.ideal = results.iter().map(|result| result.ideal).reduce(f64::min);
    }
    groups.retain(|group| !group.bars.is_empty());
    groups
}

/// Draws a group whose top is at this height.
fn draw_group(group: &BarGroup, top: f64, out: &mut String) {
    let max = group.bars.iter().map(|(_, length, _)| *length).chain(group.ideal).fold(0.0, f64::max);
    let scale = if max > 0.0 && max.is_finite() { MAX_BAR_LENGTH / max } else { 0.0 };
    let _ = writeln!(out, "<text class=\"heading\" x=\"16\" y=\"{}\">{}</text>", top + 24.0, group.heading);
    let first = top + HEADING_HEIGHT;
    for (index, (name, length, label)) in group.bars.iter().enumerate() {
        let y = first + index as f64 * ROW_HEIGHT;
        let bar_length = (length * scale).max(1.0);
        let _ = writeln!(
            out,
            "<text x=\"16\" y=\"{baseline}\">{name}</text><rect class=\"bar\" x=\"{BARS_LEFT}\" y=\"{y}\" width=\"{bar_length:.1}\" \
             height=\"{BAR_HEIGHT}\" rx=\"2\"/><text x=\"{after:.1}\" y=\"{baseline}\">{label}</text>",
            baseline = y + 13.0,
            after = BARS_LEFT + bar_length + 8.0,
        );
    }
    if let Some(ideal) = group.ideal {
        let x = BARS_LEFT + ideal * scale;
        // The line begins 3 units above the first bar and ends 3 units below the last.
        let bottom = first + group.bars.len() as f64 * ROW_HEIGHT - (ROW_HEIGHT - BAR_HEIGHT) + 3.0;
        let _ =
            writeln!(out, "<line class=\"ideal\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom}\"/>", first - 3.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::CrawlCost;
    use crate::web::SlowWeb;
    use std::time::Duration;

    #[test]
    fn a_chart_is_valid_for_extreme_figures() {
        let latency = (Duration::ZERO, Duration::ZERO);
        let web = SlowWeb { hosts: 1, pages: 1, latency, tls: false };
        let comparison = EngineComparison { web, concurrency: 1, per_host: 1, memory_fetches: None };
        let result = EngineResult {
            engine: EngineName::Threads,
            concurrency: 1,
            ideal: 0.0,
            cost: CrawlCost::default(),
            threads: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
            memory: None,
        };
        let both = [EngineName::Threads, EngineName::Uring].map(|engine| EngineResult { engine, ..result.clone() });
        for (results, words) in [(&both[..], ["2 engines", "2 ways"]), (&both[..1], ["One engine ", "One way "])] {
            let text = svg(&comparison, results);
            assert!(words.iter().all(|words| text.contains(words)), "{text}");
        }
        let crowd = (EngineName::Uring, CrowdResult::default());
        let charts = [svg(&comparison, &[]), svg(&comparison, &[result]), crowd_svg(&[]), crowd_svg(&[crowd])];
        for text in charts {
            assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
            assert!(!text.contains("width=\"NaN\"") && !text.contains("inf"), "{text}");
        }
    }
}
