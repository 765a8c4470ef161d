//! Fetches the front page of every host in a file, and prints status and title as SQL:
//! `cargo run --example many_hosts -- hosts.txt | sqlite3 hosts.db`

#![allow(clippy::print_stdout)]

use std::time::Duration;

use argiope::Crawl;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let list = std::fs::read_to_string(std::env::args().nth(1).ok_or("usage: many_hosts FILE")?)?;
    let mut hosts = list.lines().filter(|line| !line.is_empty());
    let crawl = Crawl::builder(hosts.next().ok_or("the file is empty")?).roots(hosts).depth(0);
    let mut pages = crawl.no_sitemap().start_blocking()?;
    println!("create table if not exists pages (url text, status integer, title text);");
    while let Some((batch, ack)) = pages.next_batch(256, Duration::from_secs(1)) {
        println!("begin;");
        for page in &batch {
            let (url, title) = (quoted(page.url().as_str()), quoted(page.title().unwrap_or_default()));
            println!("insert into pages values ({url}, {}, {title});", page.status().unwrap_or_default());
        }
        println!("commit;");
        ack.done();
    }
    pages.close()?;
    Ok(())
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
