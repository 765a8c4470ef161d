//! Writes the main text of every page to a Markdown file:
//! `cargo run --example markdown -- https://example.com/docs/ FOLDER`

#![allow(clippy::print_stdout)]

use std::path::PathBuf;

use argiope::{Crawl, ScopeKind};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().unwrap_or_else(|| "https://example.com/".to_owned());
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "pages".to_owned()));
    std::fs::create_dir_all(&folder)?;
    let mut crawl = Crawl::builder(root).scope(ScopeKind::Prefix).start().await?;
    while let Some(page) = crawl.next().await {
        if page.is_ok() && !page.body().is_empty() {
            let name = page.url().path().trim_matches('/').replace('/', "-");
            let name = if name.is_empty() { "index" } else { &name };
            std::fs::write(folder.join(format!("{name}.md")), page.markdown())?;
        }
    }
    crawl.close().await?;
    Ok(())
}
