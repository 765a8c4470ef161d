//! A custom output that counts pages by content type: `cargo run --example own_sink -- https://example.com/`

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;

use argiope::{Crawl, CrawlHandle, Error, Page, Sink, SinkError};

#[derive(Default)]
struct Types {
    counts: BTreeMap<String, u64>,
}

impl Sink for Types {
    fn page(&mut self, page: Page, _crawl: &CrawlHandle) -> Result<(), SinkError> {
        let kind = page.content_type().ok_or("a page without a content type")?;
        *self.counts.entry(kind.to_owned()).or_default() += 1;
        Ok(())
    }
}

fn main() -> Result<(), Error> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "https://example.com/".to_owned());
    let mut types = Types::default();
    let summary = Crawl::builder(root).run(&mut types)?;
    println!("{:?}, {} left, {:?}", types.counts, summary.left, summary.end);
    Ok(())
}
