//! `argiope report DIR`, and the text of the report and of the log lines (`-v`, `-vv`) that `argiope crawl` prints.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::report::run_facts;
use crate::report::{
    BrokenLink, BrokenReason, ChangeList, CheckedLinks, CrawlReport, End, HostTotals, LinkFacts, PageSummary,
    RootProblem, RunFacts,
};
use argiope_core::{Outcome, Url};
use clap::Args;

use super::output::Output;
use crate::audit::{Audit, AuditOptions};
use crate::flags::config_file::UsageError;
use crate::formats::Audience;
use crate::records::ReadError;
use crate::report::detail::{self, MAX_GROUP_URLS};
use crate::report::words::{PLAIN_HTTP, headline, reason_words, with_phrase};
use crate::report_page::{self, ReportPage};
use crate::results::Results;
use crate::wording;
use argiope_core::base::escape::{json_line, visible};
use serde_json::{Value, json};

/// Maximum number of entries of the most important lists, unless all are printed (`-vv`, `argiope report`).
const LONG_LIST: usize = 10;
/// The same for the other lists.
const SHORT_LIST: usize = 5;
/// Minimum width of the column of commands in the list of next steps.
const MIN_COMMAND_WIDTH: usize = 48;

/// `argiope report DIR`: prints the report of a crawl directory.
#[derive(Args, Debug, PartialEq, Eq)]
#[command(after_help = "Examples:\n  argiope report ./example.com.crawl --html report.html\n  \
                        argiope report ./example.com.crawl --list status:404\n\n\
                        Groups of --list: outcome:NAME, status:CODE, error:KIND, type:TYPE, depth:N, host:NAME, \
                        section:HOST/FOLDER/, time:NAME, size:NAME, broken, truncated. The HTML report names them all.")]
pub struct ReportArgs {
    /// The crawl directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Write the report as an HTML page to this file (`-` is standard output)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "list"])]
    pub html: Option<PathBuf>,
    /// Print the numbers as JSON instead
    #[arg(long, conflicts_with = "list")]
    pub json: bool,
    /// Print all URLs of one group instead, such as status:404; the groups are listed below
    #[arg(long, value_name = "GROUP")]
    pub list: Option<String>,
}

/// Prints the report, or writes it in another form.
pub fn run(args: &ReportArgs) -> Result<ExitCode, UsageError> {
    if let Some(group) = args.list.as_deref().filter(|group| !detail::is_group(group)) {
        return Err(UsageError(format!("--list {group}: there is no such group; --help lists the groups")));
    }
    let results = Results::at(&args.directory);
    let output = Output::of(args.html.as_deref());
    let audience = match args {
        ReportArgs { html: Some(_), .. } => Audience::Reader,
        ReportArgs { json: true, .. } => Audience::Program,
        _ => Audience::Terminal,
    };
    // The report is complete before a file is created.
    let text = match args {
        ReportArgs { list: Some(_), .. } => Ok(String::new()),
        ReportArgs { html: Some(_), .. } => html_page(&results),
        ReportArgs { json: true, .. } => {
            json_document(&results).map(|document| String::from_utf8_lossy(&json_line(&document)).into_owned())
        }
        _ => report_text(&results),
    };
    let written = text.map_err(|error| output.fault(error)).and_then(|text| {
        output.write(audience, |out| match &args.list {
            Some(group) => print_group(&results, group, out),
            None => Ok(out.write_all(text.as_bytes())?),
        })
    });
    match written {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(fault) => fault.print(),
    }
}

/// The report as text.
fn report_text(results: &Results) -> Result<String, ReadError> {
    let report = CrawlReport::of(results)?;
    let links = LinkFacts::of(results)?;
    let checked = CheckedLinks::of(results)?;
    Ok(render(&report, true) + &render_links(&links) + &render_checked(checked.as_ref()))
}

/// Prints all URLs of a group.
fn print_group(results: &Results, group: &str, out: &mut dyn Write) -> Result<(), ReadError> {
    CrawlReport::urls_of(results, group, |url| Ok(writeln!(out, "{}", visible(url))?))
}

/// Renders the report of a crawl directory as one HTML page.
pub fn html_page(results: &Results) -> Result<String, ReadError> {
    let (report, detail) = CrawlReport::detailed(results)?;
    let audit = Audit::of(results, &AuditOptions { max_listed: MAX_GROUP_URLS, ..AuditOptions::default() })?;
    let run = RunFacts::of(results)?;
    let name = if run.site.is_empty() { crawl_name(results.location()) } else { run.site.clone() };
    let directory = results.location().display().to_string();
    let page =
        ReportPage { report: &report, detail: &detail, audit: &audit, run: &run, name: &name, directory: &directory };
    Ok(report_page::render(&page))
}

/// The figures of the report, and the findings of the audit, as JSON.
fn json_document(results: &Results) -> Result<Value, ReadError> {
    let (report, detail) = CrawlReport::detailed(results)?;
    // Only the numbers of findings, not their pages.
    let audit = Audit::of(results, &AuditOptions { max_listed: 0, ..AuditOptions::default() })?;
    let groups: BTreeMap<&str, Value> = detail
        .groups
        .iter()
        .map(|(name, group)| {
            let outcomes = serde_json::to_value(group.outcomes).unwrap_or_default();
            let mean = group.time.as_secs_f64() / group.count.max(1) as f64;
            let numbers = json!({
                "urls": group.count, "broken": group.broken, "bytes": group.bytes,
                "mean_seconds": mean, "outcomes": outcomes,
            });
            (name.as_str(), numbers)
        })
        .collect();
    Ok(json!({
        "name": crawl_name(results.location()),
        "running": report.is_running,
        "end": report.end.as_str(),
        "seconds": report.elapsed.as_secs_f64(),
        "pages": report.pages,
        "pages_per_second": report.pages_per_second(),
        "queued": report.queued,
        "broken": report.broken_total,
        "broken_links": report.broken.iter().map(broken_value).collect::<Vec<_>>(),
        "failures": failures_value(&report),
        "lost_hosts": report.lost_hosts().map(|(host, totals)| json!({ "host": host, "urls": totals.failed })).collect::<Vec<_>>(),
        "sitemaps_with_faults": sitemaps_value(&report),
        "soft_404s": report.soft_404s,
        "hosts_without_404": report.hosts_without_404,
        "needs_scripts": report.needs_scripts,
        "rendered": report.rendered.to_json(),
        "duplicates": duplicates_value(&report),
        "changes": report.changes.as_ref().map(changes_value),
        "links": links_value(&LinkFacts::of(results)?),
        "check": CheckedLinks::of(results)?.map(|checked| checked.to_json()),
        "bytes_wire": report.bytes_wire,
        "bytes_body": report.bytes_body,
        "outcomes": report.outcomes,
        "groups": groups,
        "audit": super::audit::json_document(&audit),
    }))
}

fn broken_value(link: &BrokenLink) -> Value {
    let mut object = json!({ "url": link.url, "on": link.on_pages, "referrers": link.referrers() });
    if let Some(object) = object.as_object_mut() {
        match &link.reason {
            BrokenReason::Status(status) => object.insert("status".to_owned(), json!(status)),
            BrokenReason::Failure(failure) => {
                object.insert("error".to_owned(), json!({ "kind": failure.kind, "message": failure.message }))
            }
        };
    }
    object
}

fn failures_value(report: &CrawlReport) -> Value {
    let groups = report.failures.iter();
    groups.map(|(kind, group)| (kind.to_string(), json!({ "urls": group.count, "first": group.urls }))).collect()
}

fn sitemaps_value(report: &CrawlReport) -> Value {
    let sitemaps: Vec<Value> = report
        .sitemaps
        .iter()
        .map(|sitemap| json!({ "url": sitemap.url, "fault": sitemap.description(), "used": sitemap.is_used }))
        .collect();
    json!({ "total": report.sitemaps_total, "first": sitemaps })
}

fn duplicates_value(report: &CrawlReport) -> Value {
    let groups = report.duplicates.groups.iter();
    let groups: Vec<Value> =
        groups.map(|group| json!({ "first": group.first, "same": group.others, "total": group.total })).collect();
    json!({ "total": report.duplicates.total, "groups": groups })
}

fn links_value(facts: &LinkFacts) -> Value {
    let most_linked = facts.most_linked.iter().map(|(count, url)| json!({ "url": url, "inlinks": count }));
    json!({
        "links": facts.links,
        "pages_with_links": facts.sources,
        "most_linked": most_linked.collect::<Vec<_>>(),
        "orphans": { "urls": facts.orphans, "first": facts.first_orphans },
    })
}

fn changes_value(changes: &ChangeList) -> Value {
    let kinds = changes.kinds();
    kinds.iter().map(|kind| (kind.name.replace(' ', "_"), json!({ "urls": kind.count, "first": kind.urls }))).collect()
}

/// The name of a crawl: the name of its directory without `.crawl`.
pub fn crawl_name(directory: &Path) -> String {
    let path = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.strip_suffix(".crawl").map(ToOwned::to_owned).unwrap_or(name)
}

/// What a crawl is titled with: the hosts of its roots, or the name of its directory if no root is known.
pub fn crawl_title<'a>(roots: impl IntoIterator<Item = &'a Url>, directory: &Path) -> String {
    let site = run_facts::site(roots.into_iter().map(Url::as_str));
    if site.is_empty() { crawl_name(directory) } else { site }
}

/// Renders the report. With `all`, lists have all entries that the report contains.
pub fn render(report: &CrawlReport, all: bool) -> String {
    let (long_list, short_list) = if all { (usize::MAX, usize::MAX) } else { (LONG_LIST, SHORT_LIST) };
    let mut text = headline(report);
    append_outcomes(&mut text, report);
    append_changes(&mut text, report);
    text += &report.rendered.to_text(all);
    append_roots(&mut text, report);
    append_sitemaps(&mut text, report, long_list);
    append_cuts(&mut text, report, long_list);
    append_lost_hosts(&mut text, report, long_list);
    append_failures(&mut text, report, short_list);
    append_broken(&mut text, report, long_list);
    append_redirects(&mut text, report, short_list);
    append_duplicates(&mut text, report, short_list);
    append_pages(&mut text, report, short_list);
    append_hosts(&mut text, report, short_list);
    text
}

/// Renders the section about the link graph.
fn render_links(facts: &LinkFacts) -> String {
    if facts.links == 0 {
        return String::new();
    }
    let mut text = String::new();
    let (links, pages) = (wording::plural(facts.links, "link"), wording::plural(facts.sources, "page"));
    let _ = writeln!(text, "\nLink graph: {links} on {pages}");
    if !facts.most_linked.is_empty() {
        text.push_str("  linked from most pages\n");
    }
    for (count, url) in facts.most_linked.iter() {
        let _ = writeln!(text, "  {:>8}  {}", wording::count(u64::from(count)), visible(url));
    }
    if facts.orphans > 0 {
        let _ = writeln!(text, "  orphans, linked from no page: {}", wording::count(facts.orphans));
        facts.first_orphans.iter().for_each(|url| {
            let _ = writeln!(text, "      {}", visible(url));
        });
        append_omitted_urls(&mut text, facts.orphans, facts.first_orphans.len());
    }
    text
}

/// What `argiope check -d` found.
fn render_checked(checked: Option<&CheckedLinks>) -> String {
    let Some(checked) = checked else { return String::new() };
    let summary = &checked.summary;
    let (links, external) = (wording::plural(summary.links, "link"), wording::plural(summary.external, "external URL"));
    let mut text = format!("\nChecked links: {links}, {external} requested: {} broken", wording::count(summary.broken));
    let _ = writeln!(text, ", {} unknown", wording::count(summary.unknown));
    for link in checked.broken().take(LONG_LIST) {
        let _ = writeln!(text, "  {}  {}, {}", visible(&link.url), visible(&link.message), visible(&link.places()));
    }
    if summary.broken > LONG_LIST as u64 {
        text.push_str("  all of them: argiope audit, or argiope report --json\n");
    }
    text
}

/// The list of broken links alone.
pub fn render_broken(report: &CrawlReport) -> String {
    let mut text = String::new();
    append_broken(&mut text, report, usize::MAX);
    text
}

/// The list of links that are newly broken since the previous round.
pub fn render_newly_broken(report: &CrawlReport) -> String {
    let Some(changes) = &report.changes else { return String::new() };
    let newly_broken: Vec<&BrokenLink> =
        report.broken.iter().filter(|link| changes.is_newly_broken(&link.url)).collect();
    let mut text = format!("\nNewly broken links ({})\n", wording::count(changes.counts.newly_broken));
    newly_broken.iter().for_each(|link| append_broken_link(&mut text, link));
    append_omitted_entries(&mut text, changes.counts.newly_broken, newly_broken.len());
    text
}

/// The path of the crawl directory, and commands that the user may want to run next.
pub fn next_steps(report: &CrawlReport, directory: &Path) -> String {
    let name = shell_word(&directory.display().to_string());
    let mut steps = Vec::new();
    let mut step = |command: String, what: &'static str| steps.push((command, what));
    let has_lost_hosts = report.lost_hosts().next().is_some();
    match report.end {
        End::Interrupted | End::Stopped => step("run the same command".to_owned(), "to resume"),
        End::MaxPages | End::MaxBytes | End::MaxTime | End::MaxDisk | End::MaxMemory if report.queued > 0 => {
            step("run the same command with a higher limit".to_owned(), "to continue");
        }
        // In a recrawl, the next `--recrawl` requests these URLs again.
        End::Finished if has_lost_hosts && report.changes.is_none() => {
            step("run the same command".to_owned(), "to request the URLs of hosts that stopped responding");
        }
        _ => {}
    }
    if report.outcomes.total() > 0 {
        step(format!("argiope report {name} --html report.html"), "the whole report as a page");
    }
    if report.changes.is_some() {
        step(format!("argiope diff {name}"), "everything that changed");
    }
    if report.broken_total > 0 {
        step(format!("argiope explain {name} URL"), "why a URL failed or was not fetched");
    }
    if report.end == End::Finished && report.queued == 0 && report.has_root_page {
        step("run the same command with --recrawl".to_owned(), "to find out what changes");
    }
    let width = steps.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0).max(MIN_COMMAND_WIDTH);
    let mut text = format!("\nCrawl directory: {name}\n");
    for (command, what) in steps {
        let _ = writeln!(text, "  {command:<width$}  {what}");
    }
    text
}

/// A path, quoted for a shell if it needs quotes.
fn shell_word(text: &str) -> String {
    let needs_no_quotes = |c: char| c.is_ascii_alphanumeric() || "-_./~@%+=:,".contains(c);
    let shown = visible(text);
    if !shown.is_empty() && shown.chars().all(needs_no_quotes) {
        return shown.into_owned();
    }
    format!("'{}'", shown.replace('\'', "'\\''"))
}

fn append_changes(text: &mut String, report: &CrawlReport) {
    let Some(changes) = &report.changes else { return };
    text.push_str("\nChanges since the last round\n");
    for kind in changes.kinds() {
        // These three are printed only if their count is not zero.
        if kind.count == 0 && matches!(kind.name, "newly broken" | "repaired" | "redirected") {
            continue;
        }
        let _ = writeln!(text, "  {:<24}{:>12}", kind.name, wording::count(kind.count));
        for url in &kind.urls {
            let _ = writeln!(text, "      {}", visible(url));
        }
        // URLs of unchanged pages are not listed, so none are omitted.
        if kind.name != "unchanged" {
            append_omitted_urls(text, kind.count, kind.urls.len());
        }
    }
}

/// Pages with the same body.
fn append_duplicates(text: &mut String, report: &CrawlReport, max_entries: usize) {
    let duplicates = &report.duplicates;
    if duplicates.total == 0 {
        return;
    }
    let _ = writeln!(text, "\nDuplicates ({})", wording::count(duplicates.total));
    for group in duplicates.groups.iter().take(max_entries) {
        let _ = writeln!(text, "  {}", visible(&group.first));
        for url in group.others.iter().take(max_entries) {
            let _ = writeln!(text, "      same as {}", visible(url));
        }
        append_omitted_urls(text, group.total, group.others.len().min(max_entries));
    }
    let shown: u64 = duplicates.groups.iter().take(max_entries).map(|group| group.total).sum();
    let hidden = duplicates.total.saturating_sub(shown);
    if hidden > 0 {
        let _ = writeln!(text, "  … and {} more", wording::count(hidden));
    }
}

/// Appends how many URLs are omitted below one entry of a list.
fn append_omitted_urls(text: &mut String, total: u64, shown: usize) {
    let hidden = total.saturating_sub(shown as u64);
    if hidden > 0 {
        let _ = writeln!(text, "      … and {} more", wording::count(hidden));
    }
}

/// Renders one page as a line (`-v`).
pub fn page_line(page: &PageSummary<'_>) -> String {
    let url = visible(page.url);
    let status = page.status.map_or("-".to_owned(), |status| status.to_string());
    if let Some(error) = page.error.filter(|_| page.outcome != Outcome::Ok) {
        return format!("{url} {} {}: {}", page.outcome, error.kind, visible(&error.message));
    }
    if let Some(to) = page.redirect {
        return format!("{url} {status} redirect {}", visible(to));
    }
    match page.outcome {
        Outcome::Robots | Outcome::Refused => format!("{url} {}", page.outcome),
        _ => {
            let kind = visible(page.content_type.unwrap_or("-"));
            let mut line = format!("{url} {status} {kind} {} {}", page.charset.unwrap_or("-"), page.bytes_body);
            if page.outcome == Outcome::Ok {
                // How many links were new, of all links on the page.
                let _ = write!(line, " {}/{}", page.new_links, page.links);
            }
            if let Some(truncated) = page.truncated {
                let _ = write!(line, " truncated:{truncated}");
            }
            line
        }
    }
}

/// Renders a link that is not followed as a line (`-vv`).
pub fn skip_line(url: &str, reason: &str) -> String {
    format!("{} not followed: {reason}", visible(url))
}

fn append_outcomes(text: &mut String, report: &CrawlReport) {
    if report.outcomes.total() == 0 {
        return;
    }
    text.push('\n');
    for (outcome, number) in report.outcomes.iter() {
        let statuses: Vec<String> = report
            .outcome_statuses
            .range((outcome, 0)..=(outcome, u16::MAX))
            .map(|((_, status), number)| format!("{} × {}", wording::count(*number), with_phrase(*status)))
            .collect();
        // If all pages with the outcome `ok` have status 200, the status is omitted.
        let all_are_200 = statuses.len() == 1 && report.outcome_statuses.contains_key(&(Outcome::Ok, 200));
        let statuses = if outcome == Outcome::Ok && all_are_200 { String::new() } else { statuses.join(", ") };
        let line = format!("  {:<24}{:>12}   {statuses}", wording::outcome(outcome), wording::count(number));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for (name, number) in [
        ("truncated", report.truncated),
        ("duplicates", report.duplicates.total),
        ("errors with status 200", report.soft_404s),
        (NO_404, report.hosts_without_404),
        (NEEDS_SCRIPTS, report.needs_scripts),
        ("retries", report.retries),
    ] {
        if number > 0 {
            let advice = match name {
                NO_404 => "   argiope audit lists pages like their answer",
                NEEDS_SCRIPTS if report.rendered.total.pages == 0 => "   --render auto runs their scripts",
                _ => "",
            };
            let _ = writeln!(text, "  {name:<24}{:>12}{advice}", wording::count(number));
        }
    }
}

/// The name of the number of hosts that answer 200 for every path.
const NO_404: &str = "hosts without 404";
/// The name of the number of pages that rendering may help.
const NEEDS_SCRIPTS: &str = "empty without scripts";

fn append_roots(text: &mut String, report: &CrawlReport) {
    if report.roots.is_empty() {
        return;
    }
    text.push_str("\nRoots\n");
    for problem in &report.roots {
        let _ = match problem {
            RootProblem::Failed { url, reason } => writeln!(text, "  {}: {}", visible(url), reason_words(reason)),
            RootProblem::Refused { url, reason } => writeln!(text, "  {}: {}", visible(url), reason_words(reason)),
            RootProblem::Disallowed { url } => writeln!(text, "  {}: disallowed by robots.txt", visible(url)),
            RootProblem::PlainHttp { url, reason } => {
                writeln!(text, "  {}: {}; {PLAIN_HTTP}", visible(url), reason_words(reason))
            }
            RootProblem::OutOfScope { url, to } => writeln!(
                text,
                "  {} redirects to {to}, which is out of scope; to crawl that site: argiope crawl {to}",
                visible(url),
                to = visible(to)
            ),
        };
    }
}

/// Sitemaps that could not be read to their end.
fn append_sitemaps(text: &mut String, report: &CrawlReport, max_entries: usize) {
    if report.sitemaps_total == 0 {
        return;
    }
    let _ = writeln!(text, "\nSitemaps with faults ({})", wording::count(report.sitemaps_total));
    for sitemap in report.sitemaps.iter().take(max_entries) {
        let _ = writeln!(text, "  {}: {}", visible(&sitemap.url), visible(&sitemap.description()));
    }
    append_omitted_entries(text, report.sitemaps_total, report.sitemaps.len().min(max_entries));
}

/// Links that were skipped because they are part of an endless structure, with advice.
fn append_cuts(text: &mut String, report: &CrawlReport, max_entries: usize) {
    if report.cuts.is_empty() {
        return;
    }
    text.push_str("\nSkipped as endless\n");
    for cut in report.cuts.iter().take(max_entries) {
        let links = wording::plural(cut.skipped, "link");
        let _ = writeln!(text, "  {}: {links}, {} ({})", visible(&cut.at), cut.rule.description(), cut.rule.as_str());
        let _ = writeln!(
            text,
            "      for example {}; to follow them: {}",
            visible(&cut.example),
            wording::trap_advice(cut.rule)
        );
    }
    append_omitted_entries(text, report.cuts.len() as u64, report.cuts.len().min(max_entries));
}

/// Hosts that have responded, and could not be reached for at least one URL.
fn append_lost_hosts(text: &mut String, report: &CrawlReport, max_entries: usize) {
    let hosts: Vec<(&str, &HostTotals)> = report.lost_hosts().collect();
    if hosts.is_empty() {
        return;
    }
    text.push_str("\nHosts that stopped responding\n");
    for (host, totals) in hosts.iter().take(max_entries) {
        let _ = writeln!(text, "  {}: {} not fetched", visible(host), wording::plural(totals.failed, "URL"));
    }
    append_omitted_entries(text, hosts.len() as u64, hosts.len().min(max_entries));
}

fn append_failures(text: &mut String, report: &CrawlReport, max_entries: usize) {
    if report.failures.is_empty() {
        return;
    }
    text.push_str("\nFailures\n");
    let mut failures: Vec<_> = report.failures.iter().collect();
    failures.sort_by_key(|(kind, group)| (std::cmp::Reverse(group.count), **kind));
    for (kind, group) in failures {
        let _ = writeln!(text, "  {:>8}  {} ({kind})", wording::count(group.count), wording::failure(*kind));
        for url in group.urls.iter().take(max_entries) {
            let _ = writeln!(text, "            {}", visible(url));
        }
        let hidden = group.count.saturating_sub(group.urls.len().min(max_entries) as u64);
        if hidden > 0 {
            let _ = writeln!(text, "            … and {} more", wording::count(hidden));
        }
    }
}

fn append_broken(text: &mut String, report: &CrawlReport, max_entries: usize) {
    if report.broken_total == 0 {
        return;
    }
    let _ = writeln!(text, "\nBroken links ({})", wording::count(report.broken_total));
    report.broken.iter().take(max_entries).for_each(|link| append_broken_link(text, link));
    append_omitted_entries(text, report.broken_total, report.broken.len().min(max_entries));
}

fn append_broken_link(text: &mut String, link: &BrokenLink) {
    let BrokenLink { url, reason, on_pages, more_pages } = link;
    let _ = writeln!(text, "  {}  {}", visible(url), reason_words(reason));
    for page in on_pages {
        let _ = writeln!(text, "      on {}", visible(page));
    }
    if *more_pages > 0 {
        let more = wording::plural(*more_pages, "more page");
        let _ = writeln!(text, "      and on {more}, {} altogether", wording::count(link.referrers()));
    }
    if on_pages.is_empty() {
        text.push_str("      a root\n");
    }
}

fn append_redirects(text: &mut String, report: &CrawlReport, max_entries: usize) {
    if report.redirects.is_empty() {
        return;
    }
    let total = report.outcomes.get(Outcome::Redirect);
    let _ = writeln!(text, "\nRedirects ({})", wording::count(total));
    for redirect in report.redirects.iter().take(max_entries) {
        let status = redirect.status.map_or("---".to_owned(), |status| status.to_string());
        let _ = writeln!(text, "  {status}  {} → {}", visible(&redirect.from), visible(&redirect.to));
    }
    append_omitted_entries(text, total, report.redirects.len().min(max_entries));
}

/// Appends how many entries of a list are omitted.
fn append_omitted_entries(text: &mut String, total: u64, shown: usize) {
    let hidden = total.saturating_sub(shown as u64);
    if hidden > 0 {
        let _ = writeln!(text, "  … and {} more", wording::count(hidden));
    }
}

fn append_pages(text: &mut String, report: &CrawlReport, max_entries: usize) {
    if !report.slowest.is_empty() {
        text.push_str("\nSlowest pages\n");
        for (time, url) in report.slowest.iter().take(max_entries) {
            let _ = writeln!(text, "  {:>10}  {}", wording::span(time), visible(url));
        }
    }
    if !report.largest.is_empty() {
        text.push_str("\nLargest pages\n");
        for (size, url) in report.largest.iter().take(max_entries) {
            let _ = writeln!(text, "  {:>10}  {}", wording::bytes(size), visible(url));
        }
    }
}

fn append_hosts(text: &mut String, report: &CrawlReport, max_entries: usize) {
    // With one host, the headline has the same numbers.
    if report.hosts.len() < 2 {
        return;
    }
    let mut hosts: Vec<(&str, &HostTotals)> = report.hosts.iter().map(|(host, totals)| (&**host, totals)).collect();
    hosts.sort_by_key(|(host, totals)| (std::cmp::Reverse(totals.pages), *host));
    let _ = writeln!(text, "\nHosts ({})", wording::count(hosts.len() as u64));
    for (host, totals) in hosts.iter().take(max_entries) {
        let mean = totals.time.checked_div(u32::try_from(totals.pages).unwrap_or(u32::MAX));
        let mean = mean.map(|mean| format!(", {} a page", wording::span(mean))).unwrap_or_default();
        let broken =
            if totals.broken > 0 { format!(", {} broken", wording::count(totals.broken)) } else { String::new() };
        let _ = writeln!(
            text,
            "  {:>8}  {}  {}{mean}{broken}",
            wording::count(totals.pages),
            visible(host),
            wording::bytes(totals.bytes),
        );
    }
    append_omitted_entries(text, hosts.len() as u64, hosts.len().min(max_entries));
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
