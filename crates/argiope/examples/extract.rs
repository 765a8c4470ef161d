//! Extracts fields by rules and prints one JSON object per page: `cargo run --example extract -- https://shop.example/`

#![allow(clippy::print_stdout)]

use argiope::{Crawl, Error, Extraction};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "https://example.com/".to_owned());
    let rules = Extraction::from_toml(
        r#"
            urls = "/product/"
            [fields]
            name = "h1"
            price = { select = "jsonld:Product.offers.price", type = "number" }
            stock = { select = ".stock", regex = '(\d+) available', type = "number" }
            since = { select = "time@datetime", type = "date" }
        "#,
        "rules",
    )?;
    let mut crawl = Crawl::builder(root).start().await?;
    while let Some(page) = crawl.next().await {
        let data = page.extract(&rules);
        if !data.is_empty() {
            println!("{}", serde_json::Value::Object(data));
        }
    }
    crawl.close().await?;
    Ok(())
}
