//! A shop for tests of extraction: list pages with products, a page per product with JSON-LD and microdata, a guide and
//! a sitemap.

use std::io;

use crate::response::Response;
use crate::site::Site;

/// Number of products.
pub const PRODUCTS: usize = 24;
/// Products on a list page.
const PER_PAGE: usize = 8;

const KINDS: [&str; 6] = ["Orb web", "Funnel web", "Sheet web", "Triangle web", "Ladder web", "Tangle web"];

/// The name of a product and its price in pence. Numbers start at 1.
pub fn product(number: usize) -> (String, u64) {
    let kind = KINDS.get(number % KINDS.len()).copied().unwrap_or("Web");
    (format!("{kind} No. {number}"), 500 + (number as u64 * 1_237) % 200_000)
}

/// A price in the format of the shop's pages: `£1,299.00`.
pub fn price_text(total_pence: u64) -> String {
    let (pounds, pence) = (total_pence / 100, total_pence % 100);
    if pounds < 1_000 {
        format!("£{pounds}.{pence:02}")
    } else {
        format!("£{},{:03}.{pence:02}", pounds / 1_000, pounds % 1_000)
    }
}

const MENU: &str = "<header><nav><ul><li><a href=\"/\">Shop</a><li><a href=\"/guide\">Guide</a></ul></nav></header>";
const FOOTER: &str = "<footer><p>The practice shop. <a href=\"/terms\">Terms</a></p></footer>";

/// The shop, on a loopback address such as `127.0.0.1:0`.
pub fn shop(address: &str) -> io::Result<Site> {
    Site::http(address).map(add_pages)
}

/// Adds the pages of the shop.
pub(crate) fn add_pages(mut site: Site) -> Site {
    let pages = PRODUCTS / PER_PAGE;
    let mut in_sitemap = vec![site.url("/"), site.url("/guide")];
    for page in 1..=pages {
        let path = if page == 1 { "/".to_owned() } else { format!("/page/{page}") };
        site = site.page(&path, html(&list_page(page, pages)));
    }
    for number in 1..=PRODUCTS {
        in_sitemap.push(site.url(&format!("/product/{number}")));
        site = site.page(&format!("/product/{number}"), html(&product_page(number)));
    }
    let entries: String = in_sitemap.iter().map(|url| format!("<url><loc>{url}</loc></url>")).collect();
    let sitemap = format!(
        "<?xml version=\"1.0\"?><urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">{entries}</urlset>"
    );
    let robots = format!("User-agent: *\nAllow: /\nSitemap: {}\n", site.url("/sitemap.xml"));
    site.robots(&robots)
        .page("/sitemap.xml", Response::text(sitemap).content_type("application/xml"))
        .page("/guide", html(&guide()))
        .page("/terms", html(&format!("<title>Terms</title>{MENU}<main><h1>Terms</h1><p>None.</p></main>{FOOTER}")))
}

fn html(body: &str) -> Response {
    Response::html(format!("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">{body}"))
}

fn list_page(page: usize, pages: usize) -> String {
    let mut items = String::new();
    for number in (page - 1) * PER_PAGE + 1..=page * PER_PAGE {
        let (name, pence) = product(number);
        items += &format!(
            "<li class=\"product\" data-id=\"{number}\"><h3><a href=\"/product/{number}\">{name}</a></h3>\
             <p class=\"price\">{}</p></li>",
            price_text(pence)
        );
    }
    let next =
        if page < pages { format!("<a rel=\"next\" href=\"/page/{}\">Next page</a>", page + 1) } else { String::new() };
    format!(
        "<title>Webs, page {page} of {pages}</title><meta name=\"description\" content=\"All webs of the practice shop\">\
         {MENU}<main><h1>Webs</h1><ol class=\"products\">{items}</ol><div class=\"pager\">{next}</div></main>{FOOTER}"
    )
}

fn product_page(number: usize) -> String {
    let (name, pence) = product(number);
    let price = format!("{}.{:02}", pence / 100, pence % 100);
    format!(
        "<title>{name} - Practice shop</title><meta property=\"og:title\" content=\"{name}\">\
         <meta property=\"og:image\" content=\"/image/{number}.png\"><link rel=\"canonical\" href=\"/product/{number}\">\
         <script type=\"application/ld+json\">{{\"@context\":\"https://schema.org\",\"@type\":\"Product\",\"name\":\"{name}\",\
         \"offers\":{{\"@type\":\"Offer\",\"price\":\"{price}\",\"priceCurrency\":\"GBP\"}}}}</script>{MENU}\
         <main itemscope itemtype=\"https://schema.org/Product\"><h1 itemprop=\"name\">{name}</h1>\
         <p class=\"price\">{}</p><p class=\"stock\">In stock ({} available)</p><time datetime=\"2026-03-{:02}\"></time>\
         <p itemprop=\"description\">Spun at night, delivered in the morning, and taken down before it rains.</p></main>{FOOTER}",
        price_text(pence),
        number * 3,
        number % 28 + 1,
    )
}

fn guide() -> String {
    let paragraph = "A web that hangs between two branches moves with them, so its anchor threads are made longer than the \
                     distance that they span, and the spider tightens them in the evening, when the wind has gone down.";
    format!(
        "<title>How to hang a web - Practice shop</title>{MENU}<main><article><h1>How to hang a web</h1><p>{paragraph}</p>\
         <h2>Tools</h2><ul><li>two branches<li>patience</ul><p>{paragraph}</p><h2>Steps</h2>\
         <pre><code class=\"language-text\">bridge\n  frame\n    radii</code></pre>\
         <table><tr><th>Part<th>Threads<tr><td>frame<td>5<tr><td>radii<td>30</table>\
         <p>{paragraph} See <a href=\"/product/1\">our first web</a>.</p></article></main>\
         <aside class=\"related\"><a href=\"/product/2\">You may also like</a></aside>{FOOTER}"
    )
}
