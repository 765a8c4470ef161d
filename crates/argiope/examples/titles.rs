//! Prints URL, status and title of every page: `cargo run --example titles -- https://example.com/`

#![allow(clippy::print_stdout)]

use argiope::{Crawl, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "https://example.com/".to_owned());
    let mut crawl = Crawl::builder(root).max_pages(100).start().await?;
    while let Some(page) = crawl.next().await {
        println!("{:?} {} {}", page.status(), page.url(), page.title().unwrap_or("(no title)"));
    }
    crawl.close().await?;
    Ok(())
}
