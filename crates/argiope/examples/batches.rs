//! Writes URL and title of every page to a file, in batches. A batch is acknowledged when it is on disk: after a crash,
//! the same command delivers the pages again that are not in the file.
//! Usage: batches URL DIRECTORY FILE

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use argiope::Crawl;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let (root, directory, file) = (argument("https://example.com/"), argument("batches.crawl"), argument("titles.tsv"));
    let mut table = OpenOptions::new().create(true).append(true).open(file)?;
    let mut crawl = Crawl::builder(root).directory(directory).start_blocking()?;
    while let Some((pages, ack)) = crawl.next_batch(256, Duration::from_secs(1)) {
        let mut rows = String::new();
        for page in &pages {
            rows += &format!("{}\t{}\n", page.url(), page.title().unwrap_or_default());
        }
        table.write_all(rows.as_bytes())?;
        table.sync_data()?;
        ack.done();
    }
    crawl.close()?;
    Ok(())
}
