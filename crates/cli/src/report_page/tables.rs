//! The tables of a report. Cells with numbers have an attribute with the value, by which the script sorts. The size of each
//! table is limited.

use std::fmt::{Display, Write as _};

use super::ReportPage;
use super::charts;
use super::lists::Lists;
use super::markup::{Text, UrlLink};
use crate::report::words::{PLAIN_HTTP, reason_words};
use crate::report::{BrokenLink, BrokenReason, RootProblem};
use crate::wording;

/// Maximum bytes of one table.
const MAX_TABLE_BYTES: usize = 350_000;
/// Maximum rows of a table that has one row per host or section.
const MAX_ROWS: usize = 200;

/// A table with a title. A header that begins with # marks a column of numbers.
struct Table<'a> {
    title: &'a str,
    headers: &'a [&'a str],
    /// The finished rows as HTML.
    rows: String,
    /// Number of rows that are left out.
    omitted: u64,
}

impl<'a> Table<'a> {
    fn new(title: &'a str, headers: &'a [&'a str]) -> Self {
        Self { title, headers, rows: String::new(), omitted: 0 }
    }

    /// Adds a row of cells in HTML, unless the table is full.
    fn add_row(&mut self, cells: &[String]) {
        if self.rows.len() > MAX_TABLE_BYTES {
            self.omitted += 1;
            return;
        }
        self.rows.push_str("<tr>");
        cells.iter().for_each(|cell| self.rows.push_str(cell));
        self.rows.push_str("</tr>\n");
    }

    /// Appends the table to the page, unless it is empty.
    fn append_to(self, html: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        let title = Text(self.title);
        let _ = write!(
            html,
            "<h3>{title}</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table data-sort aria-label=\"{title}\"><thead><tr>"
        );
        for header in self.headers {
            let (class, header) = header.strip_prefix('#').map_or(("", *header), |name| (" class=\"n\"", name));
            if header.is_empty() {
                html.push_str("<td></td>");
            } else {
                let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", Text(header));
            }
        }
        let _ = write!(html, "</tr></thead><tbody>\n{}</tbody></table></div>\n", self.rows);
        if self.omitted > 0 {
            let _ = writeln!(html, "<p class=\"muted\">… and {} more</p>", wording::count(self.omitted));
        }
    }
}

/// A cell. The text must be HTML.
fn cell(text: impl Display) -> String {
    format!("<td>{text}</td>")
}

/// A cell with a number. The text must be HTML.
fn number_cell(value: u64, text: impl Display) -> String {
    format!("<td class=\"n\" data-v=\"{value}\">{text}</td>")
}

/// Renders all tables.
pub fn render(html: &mut String, page: &ReportPage<'_>, lists: &mut Lists<'_>) {
    html.push_str("<h2 id=\"tables\">Tables</h2>\n");
    append_outcomes(html, page, lists);
    append_changes(html, page);
    append_roots(html, page);
    append_cuts(html, page);
    append_broken(html, page);
    append_redirects(html, page);
    append_duplicates(html, page);
    append_groups(html, page, lists, "section", "Sections");
    append_groups(html, page, lists, "host", "Hosts");
    append_extremes(html, page);
    append_types(html, page, lists);
}

fn append_outcomes(html: &mut String, page: &ReportPage<'_>, lists: &mut Lists<'_>) {
    let report = page.report;
    let mut table = Table::new("Outcomes", &["outcome", "#URLs"]);
    for (outcome, count) in report.outcomes.iter() {
        let linked = lists.linked_number(count, &format!("outcome:{outcome}"));
        table.add_row(&[cell(wording::outcome(outcome)), number_cell(count, linked)]);
    }
    table.append_to(html);
    let mut table = Table::new("Statuses", &["status", "#responses"]);
    for (status, count) in &report.statuses {
        let linked = lists.linked_number(*count, &format!("status:{status}"));
        table.add_row(&[
            cell(format_args!("{status} {}", wording::reason_phrase(*status))),
            number_cell(*count, linked),
        ]);
    }
    table.append_to(html);
    let mut table = Table::new("Errors", &["cause", "#URLs", "first"]);
    for (kind, group) in &report.failures {
        let linked = lists.linked_number(group.count, &format!("error:{kind}"));
        let cause = format_args!("{} ({kind})", wording::failure(*kind)).to_string();
        table.add_row(&[cell(cause), number_cell(group.count, linked), urls_cell(&group.urls, group.count)]);
    }
    table.append_to(html);
}

/// A cell with the first URLs of a group, and the number of further ones.
fn urls_cell<U: AsRef<str>>(urls: &[U], total: u64) -> String {
    let mut lines: Vec<String> = urls.iter().map(|url| UrlLink(url.as_ref()).to_string()).collect();
    let hidden = total.saturating_sub(urls.len() as u64);
    if hidden > 0 {
        lines.push(format!("and {} more", wording::count(hidden)));
    }
    cell(lines.join("<br>"))
}

fn append_changes(html: &mut String, page: &ReportPage<'_>) {
    let Some(changes) = &page.report.changes else { return };
    let mut table = Table::new("Changes since the last round", &["change", "#URLs", "first"]);
    for kind in changes.kinds() {
        let first = if kind.name == "unchanged" { cell("") } else { urls_cell(&kind.urls, kind.count) };
        table.add_row(&[cell(kind.name), number_cell(kind.count, wording::count(kind.count)), first]);
    }
    table.append_to(html);
}

fn append_duplicates(html: &mut String, page: &ReportPage<'_>) {
    let duplicates = &page.report.duplicates;
    let mut table = Table::new("Duplicates", &["page", "#copies", "pages with the same body"]);
    for group in &duplicates.groups {
        let copies = number_cell(group.total, wording::count(group.total));
        table.add_row(&[cell(UrlLink(&group.first)), copies, urls_cell(&group.others, group.total)]);
    }
    let listed: u64 = duplicates.groups.iter().map(|group| group.total).sum();
    table.omitted += duplicates.total.saturating_sub(listed);
    table.append_to(html);
}

/// Why a link is broken, as HTML.
fn reason_html(reason: &BrokenReason) -> String {
    Text(&reason_words(reason)).to_string()
}

fn append_roots(html: &mut String, page: &ReportPage<'_>) {
    let mut table = Table::new("Roots", &["root", "result"]);
    for problem in &page.report.roots {
        let (url, result) = match problem {
            RootProblem::Failed { url, reason } | RootProblem::Refused { url, reason } => (url, reason_html(reason)),
            RootProblem::PlainHttp { url, reason } => (url, format!("{}; {PLAIN_HTTP}", reason_html(reason))),
            RootProblem::Disallowed { url } => (url, "disallowed by robots.txt".to_owned()),
            RootProblem::OutOfScope { url, to } => (url, format!("redirects out of scope, to {}", UrlLink(to))),
        };
        table.add_row(&[cell(UrlLink(url)), cell(result)]);
    }
    table.append_to(html);
}

fn append_cuts(html: &mut String, page: &ReportPage<'_>) {
    let mut table = Table::new("Skipped as endless", &["where", "#links", "why", "such as", "to continue"]);
    for cut in &page.report.cuts {
        table.add_row(&[
            cell(Text(&cut.at)),
            number_cell(cut.skipped, wording::count(cut.skipped)),
            cell(Text(cut.rule.description())),
            cell(UrlLink(&cut.example)),
            cell(Text(wording::trap_advice(cut.rule))),
        ]);
    }
    table.append_to(html);
}

fn append_broken(html: &mut String, page: &ReportPage<'_>) {
    let mut table = Table::new("Broken links", &["link", "cause", "#linking pages", "on"]);
    for link in &page.report.broken {
        let BrokenLink { url, reason, on_pages, .. } = link;
        let referrers = number_cell(link.referrers(), wording::count(link.referrers()));
        let pages = if on_pages.is_empty() { cell("given as a root") } else { urls_cell(on_pages, link.referrers()) };
        table.add_row(&[cell(UrlLink(url)), cell(reason_html(reason)), referrers, pages]);
    }
    table.omitted += page.report.broken_total.saturating_sub(page.report.broken.len() as u64);
    table.append_to(html);
}

fn append_redirects(html: &mut String, page: &ReportPage<'_>) {
    let mut table = Table::new("Redirects", &["#status", "from", "to"]);
    for redirect in &page.report.redirects {
        let status = redirect.status.unwrap_or(0);
        let shown = if status > 0 { status.to_string() } else { String::new() };
        table.add_row(&[number_cell(status.into(), shown), cell(UrlLink(&redirect.from)), cell(UrlLink(&redirect.to))]);
    }
    let total = page.report.outcomes.get(argiope_core::Outcome::Redirect);
    table.omitted += total.saturating_sub(page.report.redirects.len() as u64);
    table.append_to(html);
}

/// The table of hosts or of sections: URLs, broken ones, bytes received, mean time, and a bar of the outcomes.
fn append_groups(html: &mut String, page: &ReportPage<'_>, lists: &mut Lists<'_>, family: &str, title: &str) {
    let groups = page.detail.family(family);
    let max_count = groups.first().map_or(1, |(_, group)| group.count);
    let headers = [family, "#URLs", "#broken", "#received", "#mean time", ""];
    let mut table = Table::new(title, &headers);
    for (name, group) in groups.iter().take(MAX_ROWS) {
        let mean = group.time / u32::try_from(group.count.max(1)).unwrap_or(u32::MAX);
        let millis = u64::try_from(mean.as_millis()).unwrap_or(u64::MAX);
        let linked = lists.linked_number(group.count, &format!("{family}:{name}"));
        table.add_row(&[
            cell(Text(name)),
            number_cell(group.count, linked),
            number_cell(group.broken, wording::count(group.broken)),
            number_cell(group.bytes, wording::bytes(group.bytes)),
            number_cell(millis, wording::span(mean)),
            format!("<td class=\"b\">{}</td>", charts::bar(&group.outcomes, max_count)),
        ]);
    }
    table.omitted += groups.len().saturating_sub(MAX_ROWS) as u64;
    table.append_to(html);
}

/// The slowest and the largest pages.
fn append_extremes(html: &mut String, page: &ReportPage<'_>) {
    let mut table = Table::new("Slowest pages", &["#time", "page"]);
    for (time, url) in page.report.slowest.iter() {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        table.add_row(&[number_cell(millis, wording::span(time)), cell(UrlLink(url))]);
    }
    table.append_to(html);
    let mut table = Table::new("Largest pages", &["#size", "page"]);
    for (size, url) in page.report.largest.iter() {
        table.add_row(&[number_cell(size, wording::bytes(size)), cell(UrlLink(url))]);
    }
    table.append_to(html);
}

fn append_types(html: &mut String, page: &ReportPage<'_>, lists: &mut Lists<'_>) {
    let mut table = Table::new("Media types", &["type", "#pages"]);
    for (kind, count) in &page.report.types {
        let linked = lists.linked_number(*count, &format!("type:{kind}"));
        table.add_row(&[cell(Text(kind)), number_cell(*count, linked)]);
    }
    table.append_to(html);
}
