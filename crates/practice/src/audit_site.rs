//! A site with a page for every problem that an audit finds, each next to a page that must not be reported.

use std::io;
use std::time::Duration;

use crate::{CertificateKind, Response, Site};

/// One kind of finding, the pages that have it, and similar pages that do not.
#[derive(Clone, Copy, Debug)]
pub struct AuditCase {
    /// The id of the finding.
    pub id: &'static str,
    /// Paths of the https site for which it must be reported.
    pub faulty: &'static [&'static str],
    /// Paths of the https site for which this finding must not be reported.
    pub clean: &'static [&'static str],
}

/// All cases.
pub const AUDIT_CASES: &[AuditCase] = &[
    AuditCase { id: "broken-link", faulty: &["/broken-link/gone"], clean: &["/broken-link/here"] },
    AuditCase { id: "broken-resource", faulty: &["/img/gone.png"], clean: &["/img/small.png"] },
    AuditCase {
        id: "redirect-loop",
        faulty: &["/redirect-loop/a", "/redirect-loop/b"],
        clean: &["/redirect-loop/fine"],
    },
    AuditCase { id: "redirect-broken", faulty: &["/redirect-broken/bad"], clean: &["/redirect-loop/fine"] },
    AuditCase { id: "redirect-chain", faulty: &["/redirect-chain/one"], clean: &["/redirect-chain/two"] },
    AuditCase { id: "redirect-to-http", faulty: &["/redirect-to-http/bad"], clean: &["/redirect-chain/two"] },
    AuditCase { id: "mixed-content", faulty: &["/mixed-content/bad"], clean: &["/mixed-content/good"] },
    AuditCase { id: "insecure-link", faulty: &["/insecure-link/bad"], clean: &["/insecure-link/good"] },
    AuditCase { id: "canonical-broken", faulty: &["/canonical-broken/bad"], clean: &["/canonical-broken/good"] },
    AuditCase { id: "canonical-chain", faulty: &["/canonical-chain/bad"], clean: &["/canonical-chain/middle"] },
    AuditCase { id: "canonical-conflict", faulty: &["/canonical-conflict/bad"], clean: &["/canonical-broken/good"] },
    AuditCase { id: "sitemap-error", faulty: &["/sitemap-error/gone"], clean: &["/sitemap-error/here"] },
    AuditCase { id: "sitemap-fault", faulty: &["/sitemap-cut.xml", "/sitemap-gone.xml"], clean: &["/sitemap.xml"] },
    AuditCase { id: "sitemap-noindex", faulty: &["/sitemap-noindex/bad"], clean: &["/sitemap-noindex/good"] },
    AuditCase { id: "sitemap-canonical", faulty: &["/sitemap-canonical/bad"], clean: &["/sitemap-error/here"] },
    AuditCase { id: "orphan", faulty: &["/orphan/lonely"], clean: &["/orphan/linked"] },
    AuditCase { id: "sitemap-missing", faulty: &["/broken-link/here"], clean: &["/sitemap-error/here"] },
    AuditCase { id: "robots-fault", faulty: &["/robots.txt"], clean: &[] },
    AuditCase { id: "soft-404", faulty: &["/soft-404/bad"], clean: &["/soft-404/good"] },
    AuditCase { id: "needs-scripts", faulty: &["/needs-scripts/bad"], clean: &["/needs-scripts/good"] },
    AuditCase { id: "title-missing", faulty: &["/title-missing/bad"], clean: &["/title-missing/good"] },
    AuditCase {
        id: "title-duplicate",
        faulty: &["/title-duplicate/a", "/title-duplicate/b"],
        clean: &["/title-missing/good"],
    },
    AuditCase { id: "title-long", faulty: &["/title-long/bad"], clean: &["/title-long/good"] },
    AuditCase { id: "title-short", faulty: &["/title-short/bad"], clean: &["/title-long/good"] },
    AuditCase { id: "hreflang-no-return", faulty: &["/hreflang/en"], clean: &["/hreflang/fr", "/hreflang/it"] },
    AuditCase { id: "hreflang-code", faulty: &["/hreflang-code/bad"], clean: &["/hreflang/fr"] },
    AuditCase { id: "image-large", faulty: &["/img/large.png"], clean: &["/img/small.png"] },
    AuditCase {
        id: "duplicate-body",
        faulty: &["/duplicate-body/a", "/duplicate-body/b"],
        clean: &["/title-missing/good"],
    },
    AuditCase {
        id: "near-duplicate",
        faulty: &["/near-duplicate/a", "/near-duplicate/b"],
        clean: &["/near-duplicate/other", "/duplicate-body/a"],
    },
    AuditCase { id: "slow-page", faulty: &["/slow-page/bad"], clean: &["/title-missing/good"] },
    AuditCase { id: "deep-page", faulty: &["/deep/6"], clean: &["/deep/5"] },
    AuditCase { id: "description-missing", faulty: &["/description/missing"], clean: &["/description/good"] },
    AuditCase {
        id: "description-duplicate",
        faulty: &["/description/a", "/description/b"],
        clean: &["/description/good"],
    },
    AuditCase { id: "description-long", faulty: &["/description/long"], clean: &["/description/good"] },
    AuditCase { id: "description-short", faulty: &["/description/short"], clean: &["/description/good"] },
    AuditCase { id: "h1-missing", faulty: &["/h1/missing"], clean: &["/h1/one"] },
    AuditCase { id: "h1-multiple", faulty: &["/h1/two"], clean: &["/h1/one"] },
    AuditCase { id: "image-alt", faulty: &["/alt/missing"], clean: &["/alt/given"] },
];

/// A description of the length that search engines show.
const DESCRIPTION: &str = "This sentence describes the page in about as many words as a search result shows.";

/// Forty paragraphs about `hero`, and a last one that mentions `other`. Two stories about one hero are near duplicates.
fn story(hero: &str, other: &str) -> String {
    let paragraph =
        |n: usize| format!("<p>{n}: the {hero} {} over the fence and came home late.</p>", "jumped ".repeat(5 + n));
    let text: String = (0..40).map(paragraph).collect();
    format!("{text}<p>In the end there was {other}.</p>")
}

/// An https site with all cases, and an http site on the same host, to which some of its links and redirects lead.
pub fn audit_sites() -> io::Result<[Site; 2]> {
    let http_site = Site::http("127.0.0.1:0")?;
    let http_url = http_site.url("/plain");
    let http_site = http_site
        .page("/plain", page("A page over plain http", "", "plain"))
        .robots("User-agent: *\nDisallow: /private/\n");
    let mut site = Site::https("127.0.0.1:0", CertificateKind::Good)?;
    let url = |path: &str| site.url(path);
    let canonical = |path: &str| format!("<link rel=canonical href=\"{}\">", url(path));
    let alternate = |code: &str, path: &str| format!("<link rel=alternate hreflang={code} href=\"{}\">", url(path));
    let noindex = "<meta name=robots content=noindex>";
    let sitemap_paths = [
        "/sitemap-error/gone",
        "/sitemap-error/here",
        "/sitemap-noindex/bad",
        "/sitemap-noindex/good",
        "/sitemap-canonical/bad",
        "/orphan/lonely",
        "/orphan/linked",
    ];
    let entries: String = sitemap_paths.iter().map(|path| format!("<url><loc>{}</loc></url>", url(path))).collect();
    let sitemap = format!("<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">{entries}</urlset>");
    let truncated_sitemap = format!("<urlset><url><loc>{}</loc></url><url><loc>", url("/orphan/linked"));
    let sitemaps: String = ["/sitemap.xml", "/sitemap-cut.xml", "/sitemap-gone.xml"]
        .iter()
        .map(|path| format!("Sitemap: {}\n", url(path)))
        .collect();
    // The misspelled directive is the fault of `robots-fault`.
    let robots = format!("User-agent: *\nDissalow: /typo\n{sitemaps}");
    let long_title = "A title that goes on and on, far beyond what any search result has room for on its line";

    let mut pages: Vec<(&'static str, Response)> = vec![
        ("/broken-link/here", page("The page that is not broken", "", "here")),
        ("/redirect-loop/fine", Response::redirect("/broken-link/here", 301)),
        ("/redirect-loop/a", Response::redirect("/redirect-loop/b", 302)),
        ("/redirect-loop/b", Response::redirect("/redirect-loop/a", 302)),
        ("/redirect-broken/bad", Response::redirect("/broken-link/gone", 301)),
        ("/redirect-chain/one", Response::redirect("/redirect-chain/two", 301)),
        ("/redirect-chain/two", Response::redirect("/broken-link/here", 301)),
        ("/redirect-to-http/bad", Response::redirect(&http_url, 301)),
        ("/mixed-content/bad", page("A page with mixed content", "", &format!("<img src=\"{http_url}\">"))),
        ("/mixed-content/good", page("A page without mixed content", "", "<img src=/img/small.png alt=x>")),
        ("/insecure-link/bad", page("A page with an insecure link", "", &format!("<a href=\"{http_url}\">plain</a>"))),
        ("/insecure-link/good", page("A page with a secure link", "", "<a href=/>home</a>")),
        ("/canonical-broken/bad", page("Its canonical is broken", &canonical("/broken-link/gone"), "cb")),
        ("/canonical-broken/good", page("Its canonical is fine", &canonical("/broken-link/here"), "cg")),
        ("/canonical-chain/bad", page("The canonical's canonical", &canonical("/canonical-chain/middle"), "cc")),
        ("/canonical-chain/middle", page("The middle of the chain", &canonical("/broken-link/here"), "cm")),
        (
            "/canonical-conflict/bad",
            page("It contradicts itself", &(canonical("/broken-link/here") + noindex), "conflict"),
        ),
        ("/sitemap-error/here", page("A page of the sitemap", "", "sitemap")),
        ("/sitemap-noindex/bad", page("A page with noindex", noindex, "noindex")),
        ("/sitemap-noindex/good", page("A page to be indexed", "", "index")),
        ("/sitemap-canonical/bad", page("Another one is canonical", &canonical("/sitemap-error/here"), "sc")),
        ("/orphan/lonely", page("A page without friends", "", "lonely")),
        ("/orphan/linked", page("A page with friends", "", "linked")),
        ("/soft-404/bad", page("Sorry, this page does not exist", "", "Try the search.")),
        ("/soft-404/good", page("All about the Peugeot 404", "", "cars")),
        ("/needs-scripts/bad", page("An application", "", "<div id=app></div><script>start()</script>")),
        ("/needs-scripts/good", page("A page with a script", "", "<p>text</p><script>count()</script>")),
        ("/title-missing/bad", Response::html("<p>no title</p>")),
        ("/title-missing/good", page("A page with a title", "", "title")),
        ("/title-duplicate/a", page("The same title twice", "", "first")),
        ("/title-duplicate/b", page("The same title twice", "", "second")),
        ("/title-long/bad", page(long_title, "", "long")),
        ("/title-long/good", page("A title of ordinary length", "", "ordinary")),
        ("/title-short/bad", page("Short", "", "short")),
        ("/hreflang/en", page("English, not returned", &alternate("de", "/hreflang/de"), "en")),
        ("/hreflang/de", page("German without a return", "", "de")),
        ("/hreflang/fr", page("French with a return", &alternate("it", "/hreflang/it"), "fr")),
        ("/hreflang/it", page("Italian with a return", &alternate("fr", "/hreflang/fr"), "it")),
        ("/hreflang-code/bad", page("English of the wrong country", &alternate("en-UK", "/"), "uk")),
        ("/duplicate-body/a", page("Exactly the same twice", "", "same")),
        ("/duplicate-body/b", page("Exactly the same twice", "", "same")),
        ("/near-duplicate/a", page("A long story", "", &story("brown fox", "a lazy dog"))),
        ("/near-duplicate/b", page("The same long story", "", &story("brown fox", "two lazy dogs"))),
        ("/near-duplicate/other", page("Another long story", "", &story("grey wolf", "a busy cat"))),
        // The test calls pages slow after 600 ms.
        ("/slow-page/bad", page("A page that takes its time", "", "slow").delay(Duration::from_millis(700))),
        ("/description/missing", Response::html("<title>No description here</title><h1>x</h1>one")),
        ("/description/good", page_with_description("A good description", DESCRIPTION)),
        ("/description/a", page_with_description("The first of two", &format!("{DESCRIPTION} Again."))),
        ("/description/b", page_with_description("The second of two", &format!("{DESCRIPTION} Again."))),
        ("/description/long", page_with_description("A long description", &DESCRIPTION.repeat(3))),
        ("/description/short", page_with_description("A short description", "Too short.")),
        ("/h1/missing", Response::html("<title>No heading at all</title><p>two</p>")),
        ("/h1/one", page("One heading only", "", "one")),
        ("/h1/two", page("Two main headings", "", "<h1>again</h1>")),
        ("/alt/missing", page("An image without alt", "", "<img src=/img/small.png>")),
        ("/alt/given", page("An image with its alt", "", "<img src=/img/small.png alt=\"a dot\"> given")),
        ("/img/small.png", Response::bytes(vec![7; 100]).content_type("image/png")),
        // An image is large above 500,000 bytes.
        ("/img/large.png", Response::bytes(vec![7; 600_000]).content_type("image/png")),
    ];
    // Images are embedded instead: by pages above, or by `images` below.
    let is_linked = |path: &str| !path.starts_with("/orphan/lonely") && !path.starts_with("/img/");
    let links: String = pages
        .iter()
        .map(|(path, _)| *path)
        .chain(["/broken-link/gone", "/deep/1"])
        .filter(|path| is_linked(path))
        .map(|path| format!("<a href=\"{path}\">{path}</a> "))
        .collect();
    let images = "<img src=/img/gone.png alt=x><img src=/img/large.png alt=x>";
    pages.push(("/", page("The root of the audited site", "", &format!("{links}{images}"))));
    const DEEP: [&str; 6] = ["/deep/1", "/deep/2", "/deep/3", "/deep/4", "/deep/5", "/deep/6"];
    for (number, path) in DEEP.iter().enumerate() {
        let next = DEEP.get(number + 1).map_or(String::new(), |next| format!("<a href=\"{next}\">deeper</a>"));
        pages.push((path, page(&format!("Page number {} on the way down", number + 1), "", &next)));
    }
    site = site
        .robots(&robots)
        .page("/sitemap-cut.xml", Response::bytes(truncated_sitemap.into_bytes()).content_type("application/xml"))
        .page("/sitemap.xml", Response::bytes(sitemap.into_bytes()).content_type("application/xml"));
    for (path, response) in pages {
        site = site.page(path, response);
    }
    Ok([site, http_site])
}

/// A page with a title, a description and one heading. `head` and `body` are additional HTML.
fn page(title: &str, head: &str, body: &str) -> Response {
    Response::html(format!(
        "<!doctype html><html lang=en><title>{title}</title><meta name=description content=\"{title}: {DESCRIPTION}\">{head}<h1>{title}</h1>{body}"
    ))
}

/// A page with this description.
fn page_with_description(title: &str, description: &str) -> Response {
    Response::html(format!(
        "<!doctype html><title>{title}</title><meta name=description content=\"{description}\"><h1>{title}</h1>"
    ))
}
