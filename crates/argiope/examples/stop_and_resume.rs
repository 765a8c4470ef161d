//! Stops after a few pages and resumes in the same directory: `cargo run --example stop_and_resume -- URL DIRECTORY`

#![allow(clippy::print_stdout)]

use argiope::{Crawl, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().unwrap_or_else(|| "https://example.com/".to_owned());
    let directory = arguments.next().unwrap_or_else(|| "example.crawl".to_owned());
    for run in 1..=2 {
        let mut crawl = Crawl::builder(&root).directory(&directory).start().await?;
        let mut pages = 0;
        while let Some(_page) = crawl.next().await {
            pages += 1;
            if run == 1 && pages == 5 {
                // Fetches in flight are still delivered; the remaining URLs stay queued in the directory.
                crawl.stop();
            }
        }
        let summary = crawl.close().await?;
        println!("run {run}: {pages} pages, {} left", summary.left);
    }
    Ok(())
}
