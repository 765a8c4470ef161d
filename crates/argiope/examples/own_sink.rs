//! A custom output that counts pages by content type: `cargo run --example own_sink -- https://example.com/`

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use argiope::{Crawl, Page, Sink};

struct Types {
    counts: BTreeMap<String, u64>,
    done: Sender<BTreeMap<String, u64>>,
}

impl Sink for Types {
    fn page(&mut self, page: Page) {
        let kind = page.findings.content_type.as_deref().unwrap_or("unknown").to_owned();
        *self.counts.entry(kind).or_default() += 1;
    }
}

impl Drop for Types {
    fn drop(&mut self) {
        // The receiver is in `main`, which waits for this message.
        let _ = self.done.send(std::mem::take(&mut self.counts));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "https://example.com/".to_owned());
    let (done, counts) = std::sync::mpsc::channel();
    let summary = Crawl::builder(root).run(Types { counts: BTreeMap::new(), done })?;
    println!("{:?}, {} left, {:?}", counts.recv()?, summary.left, summary.end);
    Ok(())
}
