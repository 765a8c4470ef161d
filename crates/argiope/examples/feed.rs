//! Adds URLs that no page links to, built from product numbers: `cargo run --example feed -- https://shop.example/`

#![allow(clippy::print_stdout)]

use argiope::{Crawl, Error, Request};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "https://example.com/".to_owned());
    let mut crawl = Crawl::builder(&root).no_sitemap().follow(|_| false).start().await?;
    while let Some(page) = crawl.next().await {
        println!("{} depth {}", page.url(), page.depth());
        for product in page.select("[data-id]")? {
            let number = product.attribute("data-id").unwrap_or_default();
            crawl.feed([Request::get(&format!("{root}product/{number}"))?.found_on(&page)])?;
        }
    }
    crawl.close().await?;
    Ok(())
}
