//! Prints the main text of HTML files, one JSON object per file: `main_text [--markdown] FILE...`.
//!
//! The files are read as UTF-8. Used to measure the quality of main text extraction on public data sets.

#![allow(clippy::print_stdout, reason = "it prints its result")]

use std::path::Path;

use argiope_content::{Article, Document};

fn main() -> std::io::Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let markdown = arguments.first().is_some_and(|first| first == "--markdown");
    if markdown {
        arguments.remove(0);
    }
    for file in arguments {
        let bytes = std::fs::read(&file)?;
        let page = Document::parse(String::from_utf8_lossy(&bytes).into_owned());
        let article = Article::of(&page);
        let text = if markdown { article.markdown() } else { article.text() };
        let name = Path::new(&file).file_stem().and_then(|name| name.to_str()).unwrap_or(&file);
        println!("{}", serde_json::json!({"name": name, "title": article.title, "text": text}));
    }
    Ok(())
}
