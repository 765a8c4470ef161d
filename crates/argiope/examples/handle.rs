//! Fetches the URLs that another thread reads from standard input: `cargo run --example handle -- https://example.com/`

#![allow(clippy::print_stdout)]

use argiope::{Crawl, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "https://example.com/".to_owned());
    let mut crawl = Crawl::builder(root).no_sitemap().follow(|_| false).start().await?;
    let handle = crawl.handle();
    // The crawl waits for more requests until this is dropped.
    let hold = handle.hold()?;
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if let Err(error) = handle.feed([line]) {
                println!("{error}");
            }
        }
        drop(hold);
    });
    while let Some(page) = crawl.next().await {
        println!("{} {}", page.outcome(), page.url());
    }
    crawl.close().await?;
    Ok(())
}
