//! The table of docs/conformance.md. If `UPDATE_CONFORMANCE` is set, the test writes it, otherwise it compares it.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::tally::Tally;
use crate::{address, html, http1, robots, sitemap, url};

const BEGIN: &str =
    "<!-- core vectors: written by `UPDATE_CONFORMANCE=1 cargo test -p argiope-core --test vectors` -->\n";
const END: &str = "<!-- end of core vectors -->\n";

#[test]
#[ignore = "needs vectors"]
fn the_table_in_the_documentation_is_current() {
    let runs: [fn() -> Tally; 13] = [
        robots::checklist,
        robots::google,
        robots::commons,
        robots::conflicts,
        sitemap::commons,
        url::wpt,
        url::toascii,
        url::commons,
        url::psl,
        address::ssrf,
        html::tokenizer,
        html::encoding,
        http1::wpt,
    ];
    let tallies: Vec<Tally> = runs.into_iter().map(|run| run()).collect();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    let document = std::fs::read_to_string(&path).expect("docs/conformance.md");
    let (before, rest) = document.split_once(BEGIN).expect("the begin mark in docs/conformance.md");
    let (_, after) = rest.split_once(END).expect("the end mark in docs/conformance.md");
    let current = format!("{before}{BEGIN}{}{END}{after}", render(&tallies));
    if std::env::var_os("UPDATE_CONFORMANCE").is_some() {
        std::fs::write(&path, current).expect("docs/conformance.md can be written");
    } else {
        assert!(document == current, "docs/conformance.md is out of date: run with UPDATE_CONFORMANCE=1");
    }
}

fn render(tallies: &[Tally]) -> String {
    let mut text = String::from("\n| file | passed / total | deviations |\n|---|---|---|\n");
    for tally in tallies {
        let deviations = tally.total - tally.passed;
        writeln!(text, "| {} | {} / {} | {deviations} |", tally.file, tally.passed, tally.total).unwrap();
    }
    for tally in tallies.iter().filter(|tally| !tally.deviations.is_empty()) {
        writeln!(text, "\n**{}**\n", tally.file).unwrap();
        for (reason, ids) in tally.deviations {
            let ids: Vec<String> = ids.iter().map(|id| code(id)).collect();
            writeln!(text, "- {reason}: {}", ids.join(", ")).unwrap();
        }
    }
    text.push('\n');
    text
}

/// The name of a case as Markdown code, with any characters.
fn code(id: &str) -> String {
    if id.contains('`') { format!("`` {id} ``") } else { format!("`{id}`") }
}
