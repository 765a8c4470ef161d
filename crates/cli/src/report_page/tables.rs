//! The tables of a report. Cells with numbers carry the value for sorting; each table has a byte limit.

use std::fmt::{Display, Write as _};

use super::ReportPage;
use super::charts;
use super::lists::Lists;
use super::markup::{Text, UrlLink};
use crate::commands::report::reason_words;
use crate::report::{BrokenLink, BrokenReason, RootNote};
use crate::screen::wording;

/// Maximum bytes of one table.
const ONE_TABLE: usize = 350_000;
/// Maximum rows of a table that has one row per host or section.
const ROWS: usize = 200;

/// A table with a title. Headers that begin with # mark columns of numbers.
struct Table<'a> {
    title: &'a str,
    heads: &'a [&'a str],
    rows: String,
    hidden: u64,
}

impl<'a> Table<'a> {
    fn new(title: &'a str, heads: &'a [&'a str]) -> Self {
        Self { title, heads, rows: String::new(), hidden: 0 }
    }

    /// Adds a row of finished cells, unless the table is full.
    fn row(&mut self, cells: &[String]) {
        if self.rows.len() > ONE_TABLE {
            self.hidden += 1;
            return;
        }
        self.rows.push_str("<tr>");
        cells.iter().for_each(|cell| self.rows.push_str(cell));
        self.rows.push_str("</tr>\n");
    }

    fn write(self, html: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        let title = Text(self.title);
        let _ = write!(
            html,
            "<h3>{title}</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table data-sort aria-label=\"{title}\"><thead><tr>"
        );
        for head in self.heads {
            let (class, head) = head.strip_prefix('#').map_or(("", *head), |head| (" class=\"n\"", head));
            if head.is_empty() {
                html.push_str("<td></td>");
            } else {
                let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", Text(head));
            }
        }
        let _ = write!(html, "</tr></thead><tbody>\n{}</tbody></table></div>\n", self.rows);
        if self.hidden > 0 {
            let _ = writeln!(html, "<p class=\"muted\">… and {} more</p>", wording::count(self.hidden));
        }
    }
}

fn cell(text: impl Display) -> String {
    format!("<td>{text}</td>")
}

fn number(value: u64, text: impl Display) -> String {
    format!("<td class=\"n\" data-v=\"{value}\">{text}</td>")
}

/// Renders all tables.
pub fn render(html: &mut String, page: &ReportPage<'_>, lists: &mut Lists<'_>) {
    html.push_str("<h2 id=\"tables\">Tables</h2>\n");
    outcomes(html, page, lists);
    changes(html, page);
    roots(html, page);
    cuts(html, page);
    broken(html, page);
    redirects(html, page);
    duplicates(html, page);
    groups(html, page, lists, "section", "Sections");
    groups(html, page, lists, "host", "Hosts");
    extremes(html, page);
    types(html, page, lists);
}

fn outcomes(html: &mut String, page: &ReportPage<'_>, lists: &mut Lists<'_>) {
    let report = page.report;
    let mut table = Table::new("Outcomes", &["outcome", "#URLs"]);
    for (outcome, count) in report.outcomes.iter() {
        let linked = lists.number(count, &format!("outcome:{outcome}"));
        table.row(&[cell(wording::outcome(outcome)), number(count, linked)]);
    }
    table.write(html);
    let mut table = Table::new("Statuses", &["status", "#responses"]);
    for (status, count) in &report.statuses {
        let linked = lists.number(*count, &format!("status:{status}"));
        table.row(&[cell(format_args!("{status} {}", wording::reason_phrase(*status))), number(*count, linked)]);
    }
    table.write(html);
    let mut table = Table::new("Errors", &["cause", "#URLs", "first"]);
    for (kind, group) in &report.failures {
        let linked = lists.number(group.count, &format!("error:{kind}"));
        let cause = format_args!("{} ({kind})", wording::failure(*kind)).to_string();
        table.row(&[cell(cause), number(group.count, linked), urls(&group.urls, group.count)]);
    }
    table.write(html);
}

/// A cell with the first URLs of a group, and the number of further ones.
fn urls<U: AsRef<str>>(urls: &[U], total: u64) -> String {
    let mut lines: Vec<String> = urls.iter().map(|url| UrlLink(url.as_ref()).to_string()).collect();
    let hidden = total.saturating_sub(urls.len() as u64);
    if hidden > 0 {
        lines.push(format!("and {} more", wording::count(hidden)));
    }
    cell(lines.join("<br>"))
}

fn changes(html: &mut String, page: &ReportPage<'_>) {
    let Some(changes) = &page.report.changes else { return };
    let mut table = Table::new("Changes since the last round", &["change", "#URLs", "first"]);
    for kind in changes.kinds() {
        let first = if kind.name == "unchanged" { cell("") } else { urls(&kind.urls, kind.count) };
        table.row(&[cell(kind.name), number(kind.count, wording::count(kind.count)), first]);
    }
    table.write(html);
}

fn duplicates(html: &mut String, page: &ReportPage<'_>) {
    let duplicates = &page.report.duplicates;
    let mut table = Table::new("Duplicates", &["page", "#copies", "pages with the same body"]);
    for group in &duplicates.groups {
        let copies = number(group.total, wording::count(group.total));
        table.row(&[cell(UrlLink(&group.first)), copies, urls(&group.others, group.total)]);
    }
    let listed: u64 = duplicates.groups.iter().map(|group| group.total).sum();
    table.hidden += duplicates.total.saturating_sub(listed);
    table.write(html);
}

fn cause(fault: &BrokenReason) -> String {
    Text(&reason_words(fault)).to_string()
}

fn roots(html: &mut String, page: &ReportPage<'_>) {
    let mut table = Table::new("Roots", &["root", "result"]);
    for note in &page.report.roots {
        let (url, words) = match note {
            RootNote::Dead { url, fault } | RootNote::Refused { url, fault } => (url, cause(fault)),
            RootNote::Forbidden { url } => (url, "robots.txt forbids it".to_owned()),
            RootNote::Elsewhere { url, to } => (url, format!("leads out of scope, to {}", UrlLink(to))),
        };
        table.row(&[cell(UrlLink(url)), cell(words)]);
    }
    table.write(html);
}

fn cuts(html: &mut String, page: &ReportPage<'_>) {
    let mut table = Table::new("Skipped as endless", &["where", "#links", "why", "such as", "to continue"]);
    for cut in &page.report.cuts {
        table.row(&[
            cell(Text(&cut.at)),
            number(cut.left, wording::count(cut.left)),
            cell(Text(cut.rule.words())),
            cell(UrlLink(&cut.example)),
            cell(Text(cut.rule.advice())),
        ]);
    }
    table.write(html);
}

fn broken(html: &mut String, page: &ReportPage<'_>) {
    let mut table = Table::new("Broken links", &["link", "cause", "#linking pages", "on"]);
    for link in &page.report.broken {
        let BrokenLink { url, fault, on, .. } = link;
        let referrers = number(link.referrers(), wording::count(link.referrers()));
        let pages = if on.is_empty() { cell("given as a root") } else { urls(on, link.referrers()) };
        table.row(&[cell(UrlLink(url)), cell(cause(fault)), referrers, pages]);
    }
    table.hidden += page.report.broken_total.saturating_sub(page.report.broken.len() as u64);
    table.write(html);
}

fn redirects(html: &mut String, page: &ReportPage<'_>) {
    let mut table = Table::new("Redirects", &["#status", "from", "to"]);
    for redirect in &page.report.redirects {
        let status = redirect.status.unwrap_or(0);
        let shown = if status > 0 { status.to_string() } else { String::new() };
        table.row(&[number(status.into(), shown), cell(UrlLink(&redirect.from)), cell(UrlLink(&redirect.to))]);
    }
    let total = page.report.outcomes.get(argiope_core::Outcome::Redirect);
    table.hidden += total.saturating_sub(page.report.redirects.len() as u64);
    table.write(html);
}

/// Hosts or sections: number of URLs, outcomes, size and speed.
fn groups(html: &mut String, page: &ReportPage<'_>, lists: &mut Lists<'_>, family: &str, title: &str) {
    let groups = page.detail.family(family);
    let most = groups.first().map_or(1, |(_, group)| group.count);
    let heads = [family, "#URLs", "#broken", "#received", "#mean time", ""];
    let mut table = Table::new(title, &heads);
    for (name, group) in groups.iter().take(ROWS) {
        let mean = group.time / u32::try_from(group.count.max(1)).unwrap_or(u32::MAX);
        let millis = u64::try_from(mean.as_millis()).unwrap_or(u64::MAX);
        let linked = lists.number(group.count, &format!("{family}:{name}"));
        table.row(&[
            cell(Text(name)),
            number(group.count, linked),
            number(group.broken, wording::count(group.broken)),
            number(group.bytes, wording::bytes(group.bytes)),
            number(millis, wording::span(mean)),
            format!("<td class=\"b\">{}</td>", charts::bar(&group.outcomes, most)),
        ]);
    }
    table.hidden += groups.len().saturating_sub(ROWS) as u64;
    table.write(html);
}

/// The slowest and the largest pages.
fn extremes(html: &mut String, page: &ReportPage<'_>) {
    let mut table = Table::new("Slowest pages", &["#time", "page"]);
    for (time, url) in page.report.slowest.iter() {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        table.row(&[number(millis, wording::span(time)), cell(UrlLink(url))]);
    }
    table.write(html);
    let mut table = Table::new("Largest pages", &["#size", "page"]);
    for (size, url) in page.report.largest.iter() {
        table.row(&[number(size, wording::bytes(size)), cell(UrlLink(url))]);
    }
    table.write(html);
}

fn types(html: &mut String, page: &ReportPage<'_>, lists: &mut Lists<'_>) {
    let mut table = Table::new("Media types", &["type", "#pages"]);
    for (kind, count) in &page.report.types {
        let linked = lists.number(*count, &format!("type:{kind}"));
        table.row(&[cell(Text(kind)), number(*count, linked)]);
    }
    table.write(html);
}
