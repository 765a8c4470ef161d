//! Prints the main text of HTML files, one JSON object per file: `main_text < LIST`. A line of the list is the name of a
//! file, a tab, and the address of the page.
//!
//! The files are read as UTF-8. `bench/text` uses it to measure the quality of the main text on public data sets.

#![allow(clippy::print_stdout, reason = "it prints its result")]

use argiope_content::{Article, Document};

fn main() -> std::io::Result<()> {
    for line in std::io::stdin().lines() {
        let line = line?;
        let (file, url) = line.split_once('\t').unwrap_or((&line, "http://localhost/"));
        let bytes = std::fs::read(file)?;
        let page = Document::parse(String::from_utf8_lossy(&bytes).into_owned());
        let page = page.with_base(url).map_err(std::io::Error::other)?;
        let article = Article::of(&page);
        let (text, markdown) = (article.text(), article.markdown());
        println!("{}", serde_json::json!({"name": file, "title": article.title, "text": text, "markdown": markdown}));
    }
    Ok(())
}
