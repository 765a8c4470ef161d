//! The report as one HTML page. The page loads no other files, all text from the web is escaped, and the script only sorts
//! and filters tables.

mod charts;
mod lists;
mod markup;
mod tables;
mod treemap;

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};

use crate::audit::{Audit, Severity};
use crate::report::detail::{MAX_DEPTH, SIZES, TIMES};
use crate::report::words::headline;
use crate::report::{CrawlReport, ReportDetail, RunFacts};
use crate::wording;
use charts::ChartColumn;
use lists::Lists;
use markup::Text;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The content of a report page.
pub struct ReportPage<'a> {
    pub report: &'a CrawlReport,
    pub detail: &'a ReportDetail,
    pub audit: &'a Audit,
    pub run: &'a RunFacts,
    /// The site.
    pub name: &'a str,
    /// The crawl directory, as written in commands.
    pub directory: &'a str,
}

/// Renders the whole page.
pub fn render(page: &ReportPage<'_>) -> String {
    let ReportPage { report, detail, name, .. } = *page;
    let mut lists = Lists::new(page);
    let mut html = String::with_capacity(256 << 10);
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"robots\" content=\"noindex\">\
         <title>Crawl of {name}</title><style>{STYLE}</style></head>\n<body>\n<header><h1>Crawl of {name}</h1>\n<p>{}</p>\n<p>{}</p>\n\
         <nav aria-label=\"Sections\"><a href=\"#findings\">Findings</a><a href=\"#pictures\">Charts</a><a href=\"#tables\">Tables</a><a href=\"#urls\">URLs</a></nav></header>\n<main>\n",
        csp_hash(STYLE),
        csp_hash(SCRIPT),
        Text(&headline(report).trim_end().replace('\n', "; ")),
        Text(&provenance(page.run)),
        name = Text(name),
    );
    append_tiles(&mut html, page, &mut lists);
    append_findings(&mut html, page, &mut lists);
    append_charts(&mut html, detail, report, &mut lists);
    tables::render(&mut html, page, &mut lists);
    lists.render(&mut html);
    let _ = write!(
        html,
        "</main>\n<footer><p class=\"muted\">Made by argiope {}</p></footer>\n",
        env!("CARGO_PKG_VERSION")
    );
    let _ = writeln!(html, "<script>{SCRIPT}</script></body></html>");
    html
}

/// When the crawl started, with which version and settings.
fn provenance(run: &RunFacts) -> String {
    let started = run.started.as_deref().map_or_else(String::new, |started| format!("Started {started}"));
    let version = run.version.as_deref().map_or_else(String::new, |version| format!("with argiope {version}"));
    let settings = if run.settings.is_empty() { "default settings".to_owned() } else { run.settings.join(" ") };
    let facts = [started, version].into_iter().filter(|fact| !fact.is_empty()).collect::<Vec<_>>().join(" ");
    if facts.is_empty() { facts } else { format!("{facts}, {settings}") }
}

/// The hash of an inline style or script, as the Content-Security-Policy needs it to allow exactly this text.
fn csp_hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

fn append_tiles(html: &mut String, page: &ReportPage<'_>, lists: &mut Lists<'_>) {
    let ReportPage { report, detail, audit, .. } = *page;
    html.push_str("<section class=\"tiles\" aria-label=\"Numbers\">\n");
    let mut tile = |number: String, label: &str, group: Option<&str>| {
        let anchor = group.filter(|group| detail.get(group).is_some()).map(|group| lists.anchor(group));
        let number = match anchor {
            Some(anchor) => format!("<a href=\"#{anchor}\">{number}</a>"),
            None => number,
        };
        let _ = writeln!(html, "<div><b>{number}</b><span>{label}</span></div>");
    };
    let count = wording::count;
    tile(count(report.pages), "pages fetched", Some("outcome:ok"));
    tile(count(report.broken_total), "broken links", Some("broken"));
    tile(count(report.outcomes.get(argiope_core::Outcome::Redirect)), "redirects", Some("outcome:redirect"));
    let errors = audit.total(Severity::Error);
    tile(format!("<a href=\"#findings\">{}</a>", count(errors)), "errors found", None);
    tile(format!("<a href=\"#findings\">{}</a>", count(audit.total(Severity::Warning))), "warnings", None);
    let hosts = report.hosts.len() as u64;
    tile(count(hosts), if hosts == 1 { "host" } else { "hosts" }, None);
    tile(wording::bytes(report.bytes_wire), "received", None);
    tile(wording::clock(report.elapsed), "time", None);
    tile(wording::rate(report.pages_per_second()), "pages a second", None);
    tile(count(report.queued), "still queued", None);
    html.push_str("</section>\n");
}

fn append_findings(html: &mut String, page: &ReportPage<'_>, lists: &mut Lists<'_>) {
    let audit = page.audit;
    html.push_str("<h2 id=\"findings\">Findings</h2>\n");
    if audit.findings.is_empty() {
        html.push_str("<p>None of the faults that were looked for was found.</p>\n");
    }
    for finding in &audit.findings {
        let severity = finding.kind.severity;
        let _ = write!(
            html,
            "<details><summary><span class=\"badge {severity}\">{severity}</span> {}: <b>{}</b></summary>\
             <p>{} {}</p><p class=\"muted\">All of them: <code>argiope audit {} --only {} --format csv</code></p><ol>",
            Text(finding.kind.title),
            wording::count(finding.total),
            Text(finding.kind.why),
            Text(finding.kind.fix),
            Text(page.directory),
            finding.kind.id,
        );
        lists.append_finding(html, finding);
        html.push_str("</ol></details>\n");
    }
    if !audit.unjudged.is_empty() {
        html.push_str("<details><summary>What could not be judged</summary><ul>");
        for unjudged in &audit.unjudged {
            let _ = write!(html, "<li>{}: {}</li>", Text(&unjudged.ids.join(", ")), Text(&unjudged.reason));
        }
        html.push_str("</ul></details>\n");
    }
}

fn append_charts(html: &mut String, detail: &ReportDetail, report: &CrawlReport, lists: &mut Lists<'_>) {
    html.push_str("<h2 id=\"pictures\">Charts</h2>\n");
    html.push_str(&charts::legend(&report.outcomes));
    html.push_str("<div class=\"cards\">\n");
    let mut card = |title: &str, chart: &str| {
        if !chart.is_empty() {
            let _ = writeln!(html, "<section class=\"card\"><h3>{title}</h3>{chart}</section>");
        }
    };
    if !detail.timeline.columns.is_empty() {
        card("Outcomes over time", &charts::timeline(&detail.timeline));
    }
    let mut chart_columns = |family: &str, names: &[&str]| -> Vec<ChartColumn> {
        let columns = names.iter().map(|name| {
            let group = format!("{family}:{name}");
            let counts = detail.get(&group).map(|found| found.outcomes).unwrap_or_default();
            let anchor = (counts.total() > 0).then(|| lists.anchor(&group));
            ChartColumn { label: (*name).to_owned(), counts, anchor }
        });
        columns.collect()
    };
    let names = |bounds: &[(u64, &'static str)]| bounds.iter().map(|(_, name)| *name).collect::<Vec<_>>();
    let times = chart_columns("time", &names(TIMES));
    card("Response times (up to)", &charts::columns("URLs by response time", &times));
    let deepest = (0..=MAX_DEPTH).rev().find(|depth| detail.get(&format!("depth:{depth}")).is_some()).unwrap_or(0);
    let depths: Vec<String> = (0..=deepest).map(|depth| depth.to_string()).collect();
    let depths = chart_columns("depth", &depths.iter().map(String::as_str).collect::<Vec<_>>());
    card("Clicks from a root", &charts::columns("URLs by depth", &depths));
    let sizes = chart_columns("size", &names(SIZES));
    card("Body sizes (up to)", &charts::columns("URLs by size of the body", &sizes));
    html.push_str("</div>\n");
    // The style sheet shows one of the two maps, depending on the width of the window.
    let wide = treemap::render(&detail.tree, 1_200.0, 420.0, "map wide");
    if !wide.is_empty() {
        let narrow = treemap::render(&detail.tree, 380.0, 480.0, "map narrow");
        let _ = writeln!(
            html,
            "<h3>Structure</h3><p class=\"muted\">Folders by their number of pages; the warmer the colour, the more of them are broken.</p>\
             <section class=\"card\">{wide}{narrow}</section>"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::PageSummary;
    use argiope_core::Outcome;

    fn summary<'a>(url: &'a str, host: &'a str, outcome: Outcome, status: u16) -> PageSummary<'a> {
        PageSummary {
            url,
            host,
            via: Some("https://h/<via>"),
            is_root: false,
            depth: 1,
            is_guess: false,
            outcome,
            status: Some(status),
            error: None,
            redirect: None,
            redirect_in_scope: true,
            content_type: Some("text/<html>"),
            charset: None,
            bytes_wire: 1_000,
            bytes_body: 900,
            truncated: None,
            needs_scripts: false,
            render: None,
            is_soft_404: false,
            digest: None,
            links: 0,
            new_links: 0,
            tries: 1,
            total: Some(std::time::Duration::from_millis(30)),
        }
    }

    fn render_pages(pages: &[PageSummary<'_>]) -> String {
        let (mut report, mut detail) = (CrawlReport::default(), ReportDetail::default());
        for page in pages {
            report.add(page);
            detail.add(page, 1, Some(std::time::Duration::from_secs(1)));
        }
        let audit = Audit::default();
        render(&ReportPage {
            report: &report,
            detail: &detail,
            audit: &audit,
            run: &RunFacts::default(),
            name: "<b>",
            directory: "d'<i>.crawl",
        })
    }

    #[test]
    fn text_from_the_web_cannot_become_markup() {
        let url = "https://h/a\"onmouseover='x'&/<script>alert(1)</script>/\u{202e}";
        let html = render_pages(&[
            summary(url, "h<img src=x>", Outcome::Ok, 200),
            summary("javascript:alert(1)", "", Outcome::HttpError, 404),
        ]);
        assert_eq!(html.matches("<script").count(), 1, "{html}");
        assert!(!html.contains("<b>d") && !html.contains("<i>") && !html.contains("<img") && !html.contains("<via>"));
        assert!(!html.contains("href=\"javascript:") && !html.contains('\u{202e}') && !html.contains("\"onmouse"));
        assert!(
            !html.contains(" style=") && !html.contains(" on"),
            "the Content-Security-Policy allows neither inline styles nor event handlers"
        );
    }

    #[test]
    fn the_page_of_a_crawl_with_long_urls_is_smaller_than_five_megabytes() {
        let (mut report, mut detail) = (CrawlReport::default(), ReportDetail::default());
        let long = "x".repeat(1_500);
        for number in 0..60_000_u32 {
            let host = format!("h{}.example", number % 700);
            let url = format!("https://{host}/s{}/{}/{number}?q={long}", number % 90, number % 13);
            let outcome = if number % 7 == 0 { Outcome::HttpError } else { Outcome::Ok };
            let page = PageSummary {
                url: &url,
                ..summary(&url, &host, outcome, 200 + u16::try_from(number % 300).unwrap_or(0))
            };
            report.add(&page);
            detail.add(&page, number % 25, Some(std::time::Duration::from_millis(u64::from(number))));
        }
        let audit = Audit::default();
        let html = render(&ReportPage {
            report: &report,
            detail: &detail,
            audit: &audit,
            run: &RunFacts::default(),
            name: "h",
            directory: "d",
        });
        assert!(html.len() < 5_000_000, "{} bytes", html.len());
    }
}
