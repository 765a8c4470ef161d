//! Extracts names and prices of a shop to CSV with CSS selectors:
//! `cargo run --example products -- https://shop.example/`

#![allow(clippy::print_stdout)]

use argiope::{Crawl, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "https://example.com/".to_owned());
    let mut crawl = Crawl::builder(root).start().await?;
    println!("name,price,url");
    while let Some(page) = crawl.next().await {
        for product in page.select("li.product")? {
            let link = product.select_first("a")?.and_then(|link| link.url("href"));
            let row = [product.select_text("h3")?, product.select_text(".price")?, link];
            let row = row.map(|cell| quoted(&cell.unwrap_or_default()));
            println!("{}", row.join(","));
        }
    }
    crawl.close().await?;
    Ok(())
}

fn quoted(cell: &str) -> String {
    format!("\"{}\"", cell.replace('"', "\"\""))
}
