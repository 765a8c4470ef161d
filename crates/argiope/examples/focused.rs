//! Prints the pages about a topic, and fetches what is likely to be about it first.
//! Usage: focused URL WORD

#![allow(clippy::print_stdout)]

use argiope::LinkVerdict::{Later, With};
use argiope::{Crawl, Error};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().unwrap_or_else(|| "https://example.com/".to_owned());
    let word = arguments.next().unwrap_or_else(|| "spider".to_owned());
    let topic = word.clone();
    let crawl = Crawl::builder(root).max_pages(60).judge(move |link, page| match link.text {
        text if text.contains(&topic) => With(10),
        _ if page.text().contains(&topic) => With(5),
        _ => Later,
    });
    for page in crawl.start_blocking()? {
        if page.text().contains(&word) {
            println!("{} {}", page.url(), page.title().unwrap_or("(no title)"));
        }
    }
    Ok(())
}
