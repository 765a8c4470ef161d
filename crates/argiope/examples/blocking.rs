//! A crawl without async: `cargo run --example blocking -- https://example.com/`

#![allow(clippy::print_stdout)]

use argiope::{Crawl, Error};

fn main() -> Result<(), Error> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "https://example.com/".to_owned());
    let mut words = 0;
    let mut pages = Crawl::builder(root).max_pages(50).start_blocking()?;
    for page in &mut pages {
        let text = page.text();
        words += text.split_whitespace().count();
        println!("{} {}", page.url(), text.lines().next().unwrap_or_default());
    }
    pages.close()?;
    println!("{words} words");
    Ok(())
}
