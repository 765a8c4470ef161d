//! `argiope diff DIR [DIR]`: what changed between the last two rounds of a crawl, or between two crawls.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use argiope_core::Outcome;
use argiope_core::base::escape::{visible, write_json};
use argiope_core::crawl::schedule::keeper::{Change, ChangeNote, Changes};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::FINDINGS;
use super::output::Output;
use crate::diff::{Diff, DiffEntry, DiffTotals, RecordState};
use crate::flags::config_file::UsageError;
use crate::formats::{self, Audience, Format};
use crate::records::ReadError;
use crate::results::Results;
use crate::ticker::Ticker;
use crate::wording;

/// `argiope diff`: what changed.
#[derive(Args, Debug, PartialEq, Eq)]
#[command(after_help = "Examples:
  argiope diff ./example.com.crawl
      what changed with the last --recrawl
  argiope diff ./monday.crawl ./tuesday.crawl --format json
      two crawls of the same site, as one JSON document
  argiope diff ./example.com.crawl --format json -o changes.json
      the same for the last two rounds, into a file
  argiope diff ./example.com.crawl --fail-on new-broken
      exit code 3 if a link is broken now that was not before

Every URL is new, changed, gone or unchanged. Some are also newly broken, repaired or redirected.
Exit codes: 0 done, 1 a directory cannot be read, 2 bad usage, 3 newly broken links (--fail-on).")]
pub struct DiffArgs {
    /// The crawl directory; with a second one, the earlier crawl
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The later crawl
    #[arg(value_name = "LATER_DIR")]
    pub later: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats::parser(FORMATS))]
    format: &'static Format<DiffWriter>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Exit with code 3 if there are newly broken links
    #[arg(long, value_name = "WHAT")]
    pub fail_on: Option<DiffFailOn>,
}

type DiffWriter = fn(&DiffArgs, &mut Diff, &mut dyn Write) -> Result<DiffTotals, ReadError>;

/// The formats of `argiope diff`.
const FORMATS: &[Format<DiffWriter>] = &[
    Format {
        name: "text",
        help: "One line per URL, then the totals",
        audience: Audience::Terminal,
        flags: &[],
        write: |_, diff, out| write_text(diff, out),
    },
    Format { name: "json", help: "One JSON document", audience: Audience::Program, flags: &[], write: write_document },
];

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffFailOn {
    /// A broken link that was not broken before
    NewBroken,
}

/// Compares, and writes the differences.
pub fn run(args: &DiffArgs) -> Result<ExitCode, UsageError> {
    let output = Output::of(args.output.as_deref());
    match output.write(args.format.audience, |out| write(args, out)) {
        Ok(Some(totals)) if args.fail_on.is_some() && totals.changes.newly_broken > 0 => Ok(ExitCode::from(FINDINGS)),
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(fault) => fault.print(),
    }
}

/// Compares the rounds or directories, with a progress message, and writes the differences.
fn write(args: &DiffArgs, out: &mut dyn Write) -> Result<DiffTotals, ReadError> {
    let mut ticker = Ticker::start();
    let mut progress = |count| ticker.tick(count);
    let mut diff = match &args.later {
        Some(later) => Diff::of_crawls(&Results::at(&args.directory), &Results::at(later), &mut progress)?,
        None => Diff::of_rounds(&Results::at(&args.directory), &mut progress)?.ok_or_else(|| {
            ReadError::Usage(format!(
                "{} has been crawled once; run the crawl again with --recrawl, or name a second crawl directory",
                visible(&args.directory.display().to_string())
            ))
        })?,
    };
    drop(ticker);
    (args.format.write)(args, &mut diff, out)
}

fn write_text(diff: &mut Diff, out: &mut dyn Write) -> Result<DiffTotals, ReadError> {
    let totals = diff.each(|entry| Ok(writeln!(out, "{}", text_line(&entry))?))?;
    let Changes { new, changed, gone, same, newly_broken, repaired, redirected } = totals.changes;
    // An empty line separates the totals from the lines about URLs, if there are any.
    if new + changed + gone + newly_broken + repaired + redirected > 0 {
        writeln!(out)?;
    }
    let count = wording::count;
    writeln!(
        out,
        "{} new, {} changed, {} gone, {} unchanged; {} newly broken, {} repaired, {} redirected",
        count(new),
        count(changed),
        count(gone),
        count(same),
        count(newly_broken),
        count(repaired),
        count(redirected)
    )?;
    if totals.unvisited > 0 {
        writeln!(out, "{} not visited again yet", wording::plural(totals.unvisited, "URL"))?;
    }
    Ok(totals)
}

/// One URL as a line, such as `gone, newly broken     https://h/x  404 Not Found, was 200 OK`.
fn text_line(entry: &DiffEntry<'_>) -> String {
    let mut words = vec![match entry.comparison.change {
        Change::New => "new",
        Change::Changed => "changed",
        Change::Gone => "gone",
        Change::Same => "unchanged",
    }];
    words.extend(entry.comparison.note.map(|note| match note {
        ChangeNote::NewlyBroken => "newly broken",
        ChangeNote::Repaired => "repaired",
        ChangeNote::Redirected => "redirected",
    }));
    let (before, after) = (entry.before.map(state_words), entry.after.map(state_words));
    let states = match (before, after) {
        (Some(before), Some(after)) if before != after => format!("  {after}, was {before}"),
        (None, Some(after)) if entry.comparison.note.is_some() => format!("  {after}"),
        (Some(before), None) => format!("  was {before}"),
        _ => String::new(),
    };
    // The longest words, `changed, newly broken`, have 21 characters.
    format!("{:<21}  {}{states}", words.join(", "), visible(entry.url))
}

/// The state of a URL in words, such as `200 OK`, `301 Moved Permanently to https://h/` or `connect_refused`.
fn state_words(state: &RecordState) -> String {
    let status =
        state.status.map(|status| format!("{status} {}", wording::reason_phrase(status)).trim_end().to_owned());
    let what = match (&state.error, status) {
        // A response 304 means that the page has not changed since its response 200.
        _ if state.outcome == Outcome::NotModified => "200 OK".to_owned(),
        (Some(error), Some(status)) => format!("{status} ({error})"),
        (Some(error), None) => error.to_string(),
        (None, Some(status)) => status,
        (None, None) => state.outcome.to_string(),
    };
    match &state.redirect {
        Some(to) => format!("{what} to {}", visible(to)),
        None => what,
    }
}

/// A URL in the JSON document.
#[derive(Serialize)]
struct ChangedUrl<'a> {
    url: &'a str,
    change: Change,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<ChangeNote>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<&'a RecordState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a RecordState>,
}

/// The totals in the JSON document.
#[derive(Serialize)]
struct DiffSummary {
    #[serde(flatten)]
    changes: Changes,
    /// URLs that the later round has not visited yet.
    unvisited: u64,
}

/// Writes a value as JSON. Characters that control a terminal are escaped.
fn write_escaped_json(out: &mut dyn Write, value: &impl Serialize) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    write_json(&mut bytes, value)?;
    out.write_all(&bytes)
}

/// Writes the JSON document piece by piece, because it may be larger than memory.
fn write_document(args: &DiffArgs, diff: &mut Diff, out: &mut dyn Write) -> Result<DiffTotals, ReadError> {
    let name = |path: &Path| path.display().to_string();
    out.write_all(b"{\"before\":")?;
    write_escaped_json(out, &name(&args.directory))?;
    out.write_all(b",\"after\":")?;
    write_escaped_json(out, &name(args.later.as_deref().unwrap_or(&args.directory)))?;
    out.write_all(b",\"changes\":[")?;
    let mut is_first = true;
    let totals = diff.each(|entry| {
        out.write_all(if is_first { b"\n" } else { b",\n" })?;
        is_first = false;
        let DiffEntry { url, comparison, before, after } = entry;
        let entry = ChangedUrl { url, change: comparison.change, note: comparison.note, before, after };
        Ok(write_escaped_json(out, &entry)?)
    })?;
    out.write_all(b"],\n\"summary\":")?;
    write_escaped_json(out, &DiffSummary { changes: totals.changes, unvisited: totals.unvisited })?;
    out.write_all(b"}\n")?;
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use argiope_core::ErrorKind;
    use argiope_core::crawl::schedule::keeper::Comparison;

    use super::*;

    fn state(outcome: Outcome, status: u16) -> RecordState {
        RecordState { outcome, status: Some(status), error: None, redirect: None, digest: None }
    }

    #[test]
    fn a_line_has_the_new_state_and_the_previous_one() {
        let (page, gone) = (state(Outcome::Ok, 200), state(Outcome::HttpError, 404));
        let moved = RecordState { redirect: Some("https://h/\u{1b}[2J".into()), ..state(Outcome::Redirect, 301) };
        let refused = RecordState { error: Some(ErrorKind::ConnectRefused), status: None, ..state(Outcome::Failed, 0) };
        let line = |change, note, before, after| {
            text_line(&DiffEntry { url: "https://h/", comparison: Comparison { change, note }, before, after })
        };
        let broken = Some(ChangeNote::NewlyBroken);
        assert_eq!(line(Change::New, None, None, Some(&page)), "new                    https://h/");
        assert_eq!(
            line(Change::Gone, broken, Some(&page), Some(&gone)),
            "gone, newly broken     https://h/  404 Not Found, was 200 OK"
        );
        assert_eq!(
            line(Change::New, broken, None, Some(&refused)),
            "new, newly broken      https://h/  connect_refused"
        );
        assert_eq!(
            line(Change::Changed, Some(ChangeNote::Redirected), Some(&page), Some(&moved)),
            "changed, redirected    https://h/  301 Moved Permanently to https://h/\\x1b[2J, was 200 OK"
        );
        assert_eq!(line(Change::Changed, None, Some(&page), Some(&page)), "changed                https://h/");
        assert_eq!(line(Change::Gone, None, Some(&page), None), "gone                   https://h/  was 200 OK");
    }
}
