//! Fills in a login form and reads the pages behind it:
//! `cargo run --example login -- https://example.com/login NAME PASSWORD`

#![allow(clippy::print_stdout)]

use argiope::{Crawl, Request};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [login, name, password] = [1, 2, 3].map(|at| std::env::args().nth(at).unwrap_or_default());
    let mut crawl = Crawl::builder(login).max_pages(100).start().await?;
    while let Some(page) = crawl.next().await {
        println!("{} {} {}", page.method().as_str(), page.url(), page.title().unwrap_or("(no title)"));
        if page.depth() == 0 && page.user_data().is_null() {
            // Hidden fields of the form, such as a token, are sent too. Cookies are kept for the whole crawl.
            let fields = [("name", name.as_str()), ("password", password.as_str())];
            crawl.feed([Request::from_form(&page, "form", fields)?.user_data("login")])?;
        } else if page.user_data() == "login" && page.status() >= Some(400) {
            return Err(format!("the login failed: {}", page.title().unwrap_or_default()).into());
        }
    }
    crawl.close().await?;
    Ok(())
}
