//! Follows only links that a closure accepts: `cargo run --example link_filter -- https://shop.example/`

#![allow(clippy::print_stdout)]

use argiope::{Crawl, Error, LinkKind};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "https://example.com/".to_owned());
    let crawl = Crawl::builder(root)
        .no_sitemap()
        .follow(|link| link.kind == LinkKind::Rel || (link.depth < 3 && !link.url.path().starts_with("/product/")));
    let mut crawl = crawl.start().await?;
    while let Some(page) = crawl.next().await {
        println!("{} (found on {})", page.url(), page.referrer().map_or("-", |page| page.as_str()));
    }
    crawl.close().await?;
    Ok(())
}
