//! The table in docs/conformance.md: this test writes it if `UPDATE_CONFORMANCE` is set, and compares it otherwise.

use std::fmt::Write as _;
use std::path::PathBuf;

use argiope_practice::hostile::{Case, CaseSetup, Category, catalogue};

const BEGIN: &str =
    "<!-- hostile web: written by `UPDATE_CONFORMANCE=1 cargo test -p argiope-cli --test hostile document` -->\n";
const END: &str = "<!-- end of hostile web -->\n";

#[test]
fn the_table_in_the_documentation_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    let document = std::fs::read_to_string(&path).expect("docs/conformance.md");
    let (before, rest) = document.split_once(BEGIN).expect("the begin mark in docs/conformance.md");
    let (_, after) = rest.split_once(END).expect("the end mark in docs/conformance.md");
    let current = format!("{before}{BEGIN}{}{END}{after}", render(&catalogue()));
    if std::env::var_os("UPDATE_CONFORMANCE").is_some() {
        std::fs::write(&path, current).expect("docs/conformance.md can be written");
    } else {
        assert!(document == current, "docs/conformance.md is out of date: run with UPDATE_CONFORMANCE=1");
    }
}

fn render(cases: &[Case]) -> String {
    let mut text = String::from("\n| category | crawled | shown by another test | cases |\n|---|---|---|---|\n");
    let mut row = |name: &str, is_counted: &dyn Fn(&Case) -> bool| {
        let total = cases.iter().filter(|case| is_counted(case)).count();
        let crawled = cases.iter().filter(|case| is_counted(case) && matches!(case.setup, CaseSetup::Here(_))).count();
        writeln!(text, "| {name} | {crawled} | {} | {total} |", total - crawled).expect("text");
    };
    for category in Category::ALL {
        row(category.name(), &|case| case.category == category);
    }
    row("all", &|_| true);
    text.push_str("\n**What one crawl cannot show, or not all of**\n\n");
    for case in cases {
        if let CaseSetup::Elsewhere { file, test } = case.setup {
            writeln!(text, "- {} ({}): `{test}` in `{file}`", case.id, case.title).expect("text");
        }
        if let Some((file, test)) = case.also {
            writeln!(text, "- {} ({}), in part: `{test}` in `{file}`", case.id, case.title).expect("text");
        }
    }
    text.push_str("\n**Choices**: where two behaviours are defensible\n\n");
    for case in cases {
        if let Some(choice) = case.choice {
            writeln!(text, "- {} ({}): {choice}", case.id, case.title).expect("text");
        }
    }
    text.push('\n');
    text
}
