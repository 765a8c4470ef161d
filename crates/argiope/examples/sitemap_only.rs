//! Fetches the URLs of the sitemap and follows no links: `cargo run --example sitemap_only -- https://example.com/`

#![allow(clippy::print_stdout)]

use argiope::{Crawl, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "https://example.com/".to_owned());
    let mut crawl = Crawl::builder(root).sitemap().follow(|_| false).start().await?;
    let mut pages = 0;
    while let Some(page) = crawl.next().await {
        println!("{}", page.url());
        pages += 1;
    }
    println!("{pages} pages");
    crawl.close().await?;
    Ok(())
}
