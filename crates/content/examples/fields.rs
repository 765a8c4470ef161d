//! Prints the fields of HTML files, one JSON object per file:
//! `fields [--repeat N] [--tree] NAME=SELECTOR... -- FILE...`.
//!
//! With `--repeat`, the fields are extracted N times and printed once. With `--tree`, they are extracted from the tree
//! of each page, otherwise while the page is tokenized. Used to measure the cost of extraction, and to compare the two
//! ways on public pages.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints its result")]

use std::error::Error;

use argiope_content::{Document, Extraction};
use argiope_core::base::url::Url;
use argiope_core::page::page_budget::PageBudget;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut repeat = 1;
    if arguments.first().is_some_and(|first| first == "--repeat") && arguments.len() > 1 {
        repeat = arguments.remove(1).parse()?;
        arguments.remove(0);
    }
    let with_tree = arguments.first().is_some_and(|first| first == "--tree");
    if with_tree {
        arguments.remove(0);
    }
    let files = arguments.iter().position(|argument| argument == "--").ok_or("expected -- before the files")?;
    let rules = Extraction::from_rules(&arguments[..files])?;
    let mut tally = rules.tally();
    let mut bytes = 0;
    for file in &arguments[files + 1..] {
        let html = String::from_utf8_lossy(&std::fs::read(file)?).into_owned();
        let url = Url::parse(&format!("http://127.0.0.1{}", file.replace(' ', "%20")))?;
        bytes += html.len();
        let mut data = Default::default();
        for _ in 0..repeat {
            let budget = PageBudget::for_page(html.len());
            data = if with_tree {
                rules.apply(&Document::parse(html.as_str()).with_url(&url), url.as_str(), &budget, &mut tally).data
            } else {
                rules.read(&html, (&url, None), &budget, &mut tally).data
            };
        }
        println!("{}", serde_json::Value::Object(data));
    }
    eprintln!("{bytes} bytes");
    Ok(())
}
