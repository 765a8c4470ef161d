//! `argiope audit DIR`: findings about a crawled site.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use argiope_core::base::escape::{json_line, markdown_text, visible};
use argiope_core::crawl::rules::Span;
use clap::Args;
use serde_json::{Value, json};

use super::output::Output;
use super::{FAILED, FINDINGS, print_error};
use crate::audit::{Audit, AuditOptions, AuditedPage, CATALOGUE, Finding, Severity, catalogue};
use crate::export::csv::{self, Formulas};
use crate::flags::config_file::UsageError;
use crate::formats::{self, Audience, Format};
use crate::results::Results;
use crate::wording;

/// Maximum number of pages listed per finding in the text format.
const MAX_TEXT_PAGES: usize = 10;
/// The same for the Markdown format.
const MAX_MARKDOWN_PAGES: usize = 100;

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  argiope audit ./example.com.crawl\n  \
                        argiope audit ./example.com.crawl --format csv --only title-duplicate\n  \
                        argiope audit ./example.com.crawl --fail-on broken-link,redirect-loop --baseline known.json\n\n\
                        A baseline is the output of --format json of an earlier audit: its findings are not reported again.\n\
                        Exit codes: 0 done, 1 the directory cannot be read, 2 bad usage, 3 findings of --fail-on.")]
pub struct AuditArgs {
    /// The crawl directory
    #[arg(value_name = "DIR", required_unless_present = "list")]
    pub directory: Option<PathBuf>,
    /// How to write the findings
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats::parser(FORMATS))]
    format: &'static Format<AuditWriter>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// For csv: write cells that a spreadsheet would run as formulas unchanged
    ///
    /// By default they get a leading apostrophe. Control characters are escaped in any case.
    #[arg(long)]
    pub raw_csv: bool,
    /// Show only these findings, separated by commas
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Exit with code 3 if one of these findings is present; separated by commas
    ///
    /// A severity (error, warning or notice) stands for all findings of this severity or worse.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub fail_on: Vec<String>,
    /// Do not report findings that are in this file, the output of an earlier audit (--format json)
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Pages that take longer than this are slow
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub slow: Span,
    /// List all kinds of findings and exit
    #[arg(long)]
    pub list: bool,
}

/// The findings, and how they are shown.
struct AuditPage<'a> {
    audit: &'a Audit,
    directory: &'a Path,
    formulas: Formulas,
}

type AuditWriter = fn(&AuditPage<'_>) -> Vec<u8>;

/// The formats of `argiope audit`.
const FORMATS: &[Format<AuditWriter>] = &[
    Format {
        audience: Audience::Terminal,
        ..of_program("text", |page| render_text(page.audit, &page.directory.display().to_string()).into_bytes())
    },
    of_program("json", |page| json_line(&json_document(page.audit))),
    Format { flags: &["raw-csv"], ..of_program("csv", |page| render_csv(page.audit, page.formulas)) },
    Format { audience: Audience::Reader, ..of_program("markdown", |page| render_markdown(page.audit).into_bytes()) },
];

const fn of_program(name: &'static str, write: AuditWriter) -> Format<AuditWriter> {
    Format { name, help: "", audience: Audience::Program, flags: &[], write }
}

/// Audits a crawl directory and writes the findings.
pub fn run(args: &AuditArgs) -> Result<ExitCode, UsageError> {
    let is_severity = |id: &str| matches!(id, "error" | "warning" | "notice");
    if let Some(severity) = args.only.iter().find(|id| is_severity(id)) {
        return Err(UsageError(format!(
            "--only {severity}: a severity is for --fail-on; --only needs ids of findings"
        )));
    }
    for id in args.only.iter().chain(&args.fail_on) {
        if catalogue::find(id).is_none() && !is_severity(id) {
            let names: Vec<&str> = CATALOGUE.iter().map(|kind| kind.id).collect();
            return Err(UsageError(format!("unknown finding {id:?}; the known findings are {}", names.join(", "))));
        }
    }
    args.format.check_flags(FORMATS, &[("raw-csv", args.raw_csv)]).map_err(UsageError)?;
    let output = Output::of(args.output.as_deref());
    if args.list {
        let mut text = String::new();
        for kind in CATALOGUE {
            let _ = writeln!(text, "{:<22} {:<8} {}. {} {}", kind.id, kind.severity, kind.title, kind.why, kind.fix);
        }
        return match output.write_all(Audience::Terminal, text.as_bytes()) {
            Ok(_) => Ok(ExitCode::SUCCESS),
            Err(fault) => fault.print(),
        };
    }
    // Always present here: clap requires the directory unless `--list` is given.
    let directory = args.directory.as_deref().unwrap_or(Path::new("."));
    // Formats for programs list all pages of a finding, formats for people only the first ones. To subtract a baseline, all
    // pages are needed in any format.
    let lists_first_pages = args.format.audience.is_people();
    let max_listed =
        if lists_first_pages && args.baseline.is_none() { AuditOptions::default().max_listed } else { usize::MAX };
    let options = AuditOptions { slow_after: args.slow.0, max_listed };
    let mut audit = match Audit::of(&Results::at(directory), &options) {
        Ok(audit) => audit,
        Err(error) => {
            print_error(&visible(&error.to_string()));
            return Ok(ExitCode::from(FAILED));
        }
    };
    if !args.only.is_empty() {
        audit.findings.retain(|finding| args.only.iter().any(|id| id == finding.kind.id));
        audit.unjudged.retain(|unjudged| unjudged.ids.iter().any(|id| args.only.iter().any(|only| only == id)));
    }
    if let Some(file) = &args.baseline {
        let known = match read_baseline(file) {
            Ok(known) => known,
            Err(why) => return Err(UsageError(format!("--baseline: {why}"))),
        };
        for finding in &mut audit.findings {
            finding.pages.retain(|page| !known.contains(&(finding.kind.id.to_owned(), page.url.clone())));
            finding.total = finding.pages.len() as u64;
        }
        audit.findings.retain(|finding| finding.total > 0);
    }
    let page = AuditPage { audit: &audit, directory, formulas: Formulas::from_flag(args.raw_csv) };
    match output.write_all(args.format.audience, &(args.format.write)(&page)) {
        Ok(_) if has_failing_finding(&audit, &args.fail_on) => Ok(ExitCode::from(FINDINGS)),
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(fault) => fault.print(),
    }
}

/// Whether there is a finding that `--fail-on` names, by its id or its severity.
fn has_failing_finding(audit: &Audit, fail_on: &[String]) -> bool {
    let is_named = |finding: &Finding| {
        fail_on.iter().any(|id| match id.as_str() {
            // A worse severity is smaller: `Error` is the smallest, `Notice` is the largest.
            "error" => finding.kind.severity == Severity::Error,
            "warning" => finding.kind.severity <= Severity::Warning,
            "notice" => true,
            id => id == finding.kind.id,
        })
    };
    audit.findings.iter().any(is_named)
}

/// The finding id and URL of every entry of an earlier audit.
fn read_baseline(file: &Path) -> Result<HashSet<(String, String)>, String> {
    let name = file.display();
    let text = std::fs::read(file).map_err(|error| format!("{name} cannot be read: {error}"))?;
    let document: Value = serde_json::from_slice(&text).map_err(|error| format!("{name} is not JSON: {error}"))?;
    let findings = document["findings"].as_array().ok_or_else(|| format!("{name} is not an audit"))?;
    let mut known = HashSet::new();
    for finding in findings {
        let id = finding["id"].as_str().unwrap_or_default();
        for page in finding["pages"].as_array().into_iter().flatten() {
            known.insert((id.to_owned(), page["url"].as_str().unwrap_or_default().to_owned()));
        }
    }
    Ok(known)
}

/// The findings as one JSON document.
pub fn json_document(audit: &Audit) -> Value {
    let findings: Vec<Value> = audit
        .findings
        .iter()
        .map(|Finding { kind, total, pages }| {
            let pages: Vec<Value> =
                pages.iter().map(|page| json!({ "url": page.url, "detail": page.detail })).collect();
            json!({
                "id": kind.id,
                "severity": kind.severity.as_str(),
                "title": kind.title,
                "explanation": kind.why,
                "fix": kind.fix,
                "total": total,
                "pages": pages,
            })
        })
        .collect();
    let unjudged: Vec<Value> =
        audit.unjudged.iter().map(|unjudged| json!({ "ids": unjudged.ids, "reason": unjudged.reason })).collect();
    json!({
        "pages": audit.pages,
        "findings": findings,
        "not_judged": unjudged,
        "summary": {
            "errors": audit.total(Severity::Error),
            "warnings": audit.total(Severity::Warning),
            "notices": audit.total(Severity::Notice),
        },
    })
}

fn summary(audit: &Audit) -> String {
    format!(
        "{} judged: {}, {}, {}",
        wording::plural(audit.pages, "page"),
        wording::plural(audit.total(Severity::Error), "error"),
        wording::plural(audit.total(Severity::Warning), "warning"),
        wording::plural(audit.total(Severity::Notice), "notice"),
    )
}

fn render_text(audit: &Audit, directory: &str) -> String {
    let mut text = summary(audit) + "\n";
    for Finding { kind, total, pages } in &audit.findings {
        let _ = writeln!(text, "\n{} {} ({}): {}", kind.severity, kind.id, wording::count(*total), kind.title);
        let _ = writeln!(text, "  {} {}", kind.why, kind.fix);
        for AuditedPage { url, detail } in pages.iter().take(MAX_TEXT_PAGES) {
            let gap = if detail.is_empty() { "" } else { "  " };
            let _ = writeln!(text, "    {}{gap}{}", visible(url), visible(detail));
        }
        let omitted = total.saturating_sub(MAX_TEXT_PAGES as u64);
        if omitted > 0 {
            let all = format!("argiope audit {} --only {} --format csv", visible(directory), kind.id);
            let _ = writeln!(text, "    ... and {} more: {all}", wording::count(omitted));
        }
    }
    if !audit.unjudged.is_empty() {
        text.push_str("\nNot judged:\n");
        for unjudged in &audit.unjudged {
            let _ = writeln!(text, "  {}: {}", unjudged.ids.join(", "), unjudged.reason);
        }
    }
    text
}

fn render_csv(audit: &Audit, formulas: Formulas) -> Vec<u8> {
    let mut table = b"id,severity,url,detail\n".to_vec();
    for Finding { kind, pages, .. } in &audit.findings {
        for page in pages {
            table.extend(format!("{},{},", kind.id, kind.severity).into_bytes());
            // Ignored: writing to memory cannot fail.
            let _ = csv::write_text(&mut table, formulas, &page.url);
            table.push(b',');
            let _ = csv::write_text(&mut table, formulas, &page.detail);
            table.push(b'\n');
        }
    }
    table
}

fn render_markdown(audit: &Audit) -> String {
    let mut text = format!("# Audit\n\n{}\n", summary(audit));
    for Finding { kind, total, pages } in &audit.findings {
        let _ = write!(text, "\n## {} ({} {}, {})\n\n", kind.title, wording::count(*total), kind.severity, kind.id);
        let _ = write!(text, "{} {}\n\n| page | detail |\n|---|---|\n", kind.why, kind.fix);
        for page in pages.iter().take(MAX_MARKDOWN_PAGES) {
            let _ = writeln!(text, "| {} | {} |", markdown_text(&page.url), markdown_text(&page.detail));
        }
        let omitted = total.saturating_sub(MAX_MARKDOWN_PAGES as u64);
        if omitted > 0 {
            let _ = writeln!(text, "\n... and {} more", wording::count(omitted));
        }
    }
    if !audit.unjudged.is_empty() {
        text.push_str("\n## Not judged\n\n");
        for unjudged in &audit.unjudged {
            let _ = writeln!(text, "- {}: {}", unjudged.ids.join(", "), unjudged.reason);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audit_with(url: &str, detail: &str) -> Audit {
        let page = AuditedPage { url: url.to_owned(), detail: detail.to_owned() };
        let kind = catalogue::find("title-duplicate").expect("a known id");
        Audit { pages: 1, findings: vec![Finding { kind, total: 1, pages: vec![page] }], unjudged: Vec::new() }
    }

    #[test]
    fn cells_of_csv_cannot_be_formulas() {
        for (detail, cell) in [
            ("=cmd|' /C calc'!A0", "\"'=cmd|' /C calc'!A0\""),
            (" =1+1", "\"' =1+1\""),
            ("＝1+1", "\"'＝1+1\""),
            ("a\"b", "\"a\"\"b\""),
        ] {
            let table = String::from_utf8(render_csv(&audit_with("https://h/", detail), Formulas::Escaped)).unwrap();
            assert_eq!(table, format!("id,severity,url,detail\ntitle-duplicate,warning,https://h/,{cell}\n"));
        }
    }

    #[test]
    fn raw_csv_has_the_text_of_formulas() {
        let table = String::from_utf8(render_csv(&audit_with("https://h/", "=1\u{1b}"), Formulas::Raw)).unwrap();
        assert_eq!(table, "id,severity,url,detail\ntitle-duplicate,warning,https://h/,=1\\x1b\n");
    }

    #[test]
    fn text_from_the_web_is_escaped_in_markdown_and_json() {
        let audit = audit_with("https://h/", "<b>|~@user \u{202e}");
        let markdown = render_markdown(&audit);
        assert!(markdown.contains("| https:&#47;/h/ | &lt;b&gt;\\|\\~&#64;user \\\\u{202e} |"), "{markdown}");
        let json = String::from_utf8(json_line(&json_document(&audit))).unwrap();
        assert!(json.contains(r#""detail":"<b>|~@user \u202e""#) && json.ends_with("}\n"), "{json}");
    }
}
