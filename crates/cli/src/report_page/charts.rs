//! Charts of a report as inline SVG. Shapes have classes, so that the style sheet sets their colours for light and dark mode.

use std::fmt::Write as _;

use argiope_core::Outcome;
use argiope_core::crawl::status::OutcomeCounts;

use super::markup::Text;
use crate::report::detail::Timeline;
use crate::wording;

// The size of a chart, and the edges of the area in which columns are drawn, in SVG units.
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 206.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 412.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 160.0;

/// A column of a chart.
pub struct ChartColumn {
    pub label: String,
    pub counts: OutcomeCounts,
    /// The anchor of its list of URLs on the page.
    pub anchor: Option<String>,
}

/// Begins a chart; `role` is `group` if it contains links.
fn begin_chart(svg: &mut String, label: &str, role: &str) {
    let _ = write!(svg, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"{role}\" aria-label=\"{}\">", Text(label));
}

/// Draws three horizontal lines with their values: 0, half of the maximum, and the maximum.
fn draw_axis(svg: &mut String, max_count: u64) {
    for (share, y) in [(0.0, BOTTOM), (0.5, (TOP + BOTTOM) / 2.0), (1.0, TOP)] {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let value = (max_count as f64 * share).round() as u64;
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y}\" y2=\"{y}\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 5.0,
            y + 4.0,
            axis_label(value)
        );
    }
}

/// A number short enough for an axis label.
fn axis_label(number: u64) -> String {
    match number {
        0..10_000 => wording::count(number),
        10_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// Draws one segment for each outcome, stacked from bottom to top.
fn draw_stack(svg: &mut String, counts: &OutcomeCounts, x: f64, width: f64, max_count: u64) {
    let mut y = BOTTOM;
    for (outcome, count) in counts.iter() {
        let height = (BOTTOM - TOP) * count as f64 / max_count.max(1) as f64;
        y -= height;
        let _ = write!(
            svg,
            "<rect class=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>",
            outcome.as_str()
        );
    }
}

/// One column for each group, stacked by outcome.
pub fn columns(label: &str, columns: &[ChartColumn]) -> String {
    let mut svg = String::new();
    begin_chart(&mut svg, label, "group");
    let max_count = columns.iter().map(|column| column.counts.total()).max().unwrap_or(0).max(1);
    draw_axis(&mut svg, max_count);
    let step = (RIGHT - LEFT) / columns.len().max(1) as f64;
    for (number, column) in columns.iter().enumerate() {
        let x = LEFT + step * number as f64;
        let total = wording::plural(column.counts.total(), "URL");
        if let Some(anchor) = &column.anchor {
            let _ = write!(svg, "<a href=\"#{anchor}\">");
        }
        let _ = write!(svg, "<g><title>{}: {total}</title>", Text(&column.label));
        // An invisible rectangle makes the whole height of the column a link, even if its bar is small.
        let _ = write!(
            svg,
            "<rect class=\"hit\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{step:.1}\" height=\"{:.1}\"/>",
            BOTTOM - TOP
        );
        // A tenth of the width is left free on both sides.
        draw_stack(&mut svg, &column.counts, x + step * 0.1, step * 0.8, max_count);
        svg.push_str("</g>");
        if column.anchor.is_some() {
            svg.push_str("</a>");
        }
        // Short labels are horizontal. Longer ones are rotated, or, with many columns, written under every fifth column.
        if columns.iter().all(|column| column.label.len() < 3) {
            let (x, y) = (x + step * 0.5, BOTTOM + 15.0);
            let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", Text(&column.label));
        } else if columns.len() <= 12 {
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"end\" transform=\"rotate(-35 {:.1} {})\">{}</text>",
                x + step * 0.7,
                BOTTOM + 12.0,
                x + step * 0.7,
                BOTTOM + 12.0,
                Text(&column.label)
            );
        } else if number % 5 == 0 {
            let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{}\">{}</text>", BOTTOM + 15.0, Text(&column.label));
        }
    }
    svg.push_str("</svg>");
    svg
}

/// Outcomes over time.
pub fn timeline(timeline: &Timeline) -> String {
    let mut svg = String::new();
    begin_chart(&mut svg, "URLs by outcome over time", "img");
    let max_count = timeline.columns.iter().map(OutcomeCounts::total).max().unwrap_or(0).max(1);
    draw_axis(&mut svg, max_count);
    let step = (RIGHT - LEFT) / timeline.columns.len().max(1) as f64;
    for (number, counts) in timeline.columns.iter().enumerate() {
        // Narrower columns would be hardly visible.
        draw_stack(&mut svg, counts, LEFT + step * number as f64, step.max(0.6), max_count);
    }
    let span = timeline.width * u32::try_from(timeline.columns.len()).unwrap_or(u32::MAX);
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{y}\">0:00</text><text x=\"{RIGHT}\" y=\"{y}\" text-anchor=\"end\">{}</text>",
        wording::clock(span),
        y = BOTTOM + 15.0
    );
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">a column is {}</text></svg>",
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 15.0,
        wording::span(timeline.width)
    );
    svg
}

/// One horizontal bar, stacked by outcome, for a cell of a table.
pub fn bar(counts: &OutcomeCounts, max_count: u64) -> String {
    // The bar is 200 units wide, and is stretched to the width of the cell.
    let mut svg =
        "<svg class=\"bar\" viewBox=\"0 0 200 12\" preserveAspectRatio=\"none\" aria-hidden=\"true\">".to_owned();
    let mut x = 0.0;
    for (outcome, count) in counts.iter() {
        let width = 200.0 * count as f64 / max_count.max(1) as f64;
        let _ = write!(
            svg,
            "<rect class=\"{}\" x=\"{x:.1}\" y=\"0\" width=\"{width:.1}\" height=\"12\"/>",
            outcome.as_str()
        );
        x += width;
    }
    svg.push_str("</svg>");
    svg
}

/// The legend of the colours.
pub fn legend(counts: &OutcomeCounts) -> String {
    let mut html = "<ul class=\"legend\">".to_owned();
    for outcome in Outcome::ALL.iter().filter(|outcome| counts.get(**outcome) > 0) {
        let _ = write!(
            html,
            "<li><svg class=\"swatch\" viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect class=\"{}\" width=\"1\" height=\"1\"/></svg>{}</li>",
            outcome.as_str(),
            wording::outcome_short(*outcome)
        );
    }
    html.push_str("</ul>");
    html
}
