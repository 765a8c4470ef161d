//! Signs requests, aborts some, and does not read bodies that are not HTML:
//! `cargo run --example hooks -- https://example.com/`

#![allow(clippy::print_stdout)]

use argiope::{Crawl, Error};

fn main() -> Result<(), Error> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "https://example.com/".to_owned());
    let crawl = Crawl::builder(root)
        .max_pages(100)
        .follow(|link| link.text != "Terms")
        .on_request(|request| {
            if request.url().path().starts_with("/page/") {
                request.abort("no lists");
            }
            // A real signature would be computed from method, URL and body here.
            let signature = format!("{}-{}", request.method().as_str(), request.url().path().len());
            if let Err(error) = request.set_header("X-Signature", &signature) {
                request.abort(&error.to_string());
            }
        })
        .on_response(|response| response.header("content-type").is_some_and(|kind| kind.starts_with("text/html")));
    for page in crawl.start_blocking()? {
        println!("{} {}", page.outcome(), page.url());
    }
    Ok(())
}
