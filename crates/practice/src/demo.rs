//! The web of `argiope demo`: eight small hosts with typical problems.
//!
//! The hosts have about three hundred pages: a journal, a field guide, a library over HTTPS, a meadow of slow pages, a
//! museum of old encodings, an attic of errors (some of them temporary), a monastery with a Crawl-delay (also over
//! HTTPS), and a warehouse of large pages. A polite crawl takes about ten seconds.
//!
//! Invariant: every page can be reached from the journal's first page. Every link leads to a scripted page, except the
//! `mailto:` link and the links to the paths in [`MISSING`].

use crate::mix::mix;
use crate::response::Response;
use crate::site::{CertificateKind, Site};
use crate::web::PracticeWeb;
use std::io;
use std::time::Duration;

/// Paths that are linked to and respond with 404 on purpose.
pub const MISSING: [&str; 4] = ["/attic/lost-letter", "/attic/lost-map", "/family/unknown-spider", "/post/0"];

/// The demo web and its roots: the front pages of all hosts. The first one is the journal, from which every page can be
/// reached.
pub fn web() -> io::Result<(PracticeWeb, Vec<String>)> {
    let sites = sites(0)?;
    let roots = sites.iter().map(|site| site.url("/")).collect();
    Ok((sites.into_iter().fold(PracticeWeb::new(), PracticeWeb::site), roots))
}

/// The demo web with a shop and a single-page application, all on one port, and the front page and a description of each
/// host. With port 0 each host has a free port of its own.
pub fn web_to_try(port: u16) -> io::Result<(PracticeWeb, Vec<(String, &'static str)>)> {
    let mut sites = sites(port)?;
    sites.push(crate::shop::shop(&format!("127.20.0.9:{port}"))?);
    sites.push(crate::app::app(&format!("127.20.0.10:{port}"))?);
    let others = ["A shop with 24 products", "An application whose pages are made by scripts"];
    let descriptions = DESCRIPTIONS.into_iter().chain(others);
    let list = sites.iter().map(|site| site.url("/")).zip(descriptions).collect();
    Ok((sites.into_iter().fold(PracticeWeb::new(), PracticeWeb::site), list))
}

/// What is on the hosts, in their order.
const DESCRIPTIONS: [&str; HOSTS] = [
    "A journal of sixty entries, with links to all hosts but the last two",
    "A field guide, with redirects and a broken link",
    "A library over HTTPS, with a certificate of its own authority (-k)",
    "Slow pages",
    "Old encodings",
    "Errors of many kinds, some of them temporary",
    "A Crawl-delay and disallowed pages, over HTTPS (-k)",
    "Large pages",
];

/// Number of hosts.
const HOSTS: usize = 8;

// Positions of hosts among the roots.
const JOURNAL: usize = 0;
const FIELD_GUIDE: usize = 1;
const MONASTERY: usize = 6;

fn sites(port: u16) -> io::Result<Vec<Site>> {
    let mut sites = Vec::new();
    for host in 1..=HOSTS {
        let address = format!("127.20.0.{host}:{port}");
        sites.push(match host {
            // The library and the monastery.
            3 | 7 => Site::https(&address, CertificateKind::Good)?,
            _ => Site::http(&address)?,
        });
    }
    let roots: Vec<String> = sites.iter().map(|site| site.url("/")).collect();
    let build: [fn(Site, &[String]) -> Site; HOSTS] =
        [journal, field_guide, library, meadow, museum, attic, monastery, warehouse];
    Ok(sites.into_iter().zip(build).map(|(site, build)| build(site, &roots)).collect())
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A number from `least` to `most` that depends only on host and page.
fn pick(host: &str, page: u64, least: u64, most: u64) -> u64 {
    let hash = host.bytes().fold(7, |sum, byte| mix(sum ^ u64::from(byte)));
    least + mix(hash ^ page) % (most - least + 1)
}

const OPENINGS: [&str; 8] = [
    "The dew was still on the threads when",
    "Nobody had asked the spider, but",
    "Between the gate and the old pear tree,",
    "It is said in the village that",
    "On the third day of rain,",
    "A wheel of forty spokes takes an hour, and",
    "Long before the first train,",
    "Seen from the side,",
];
const MIDDLES: [&str; 8] = [
    "the web was already finished",
    "a leaf had been taken for a fly",
    "the silk held more than its weight in gold",
    "every strand had its own small song",
    "waiting turned out to be the work",
    "the middle was empty, and everything led there",
    "one anchor was worth ten spirals",
    "a single pull told her where to go",
];
const ENDS: [&str; 8] = [
    "and it was not even noon.",
    "which is how the story is usually told.",
    "so she stayed exactly where she was.",
    "and the grasshopper knew it, too.",
    "as if time were an argument and not a clock.",
    "and in the evening it was eaten and begun anew.",
    "to the great relief of everybody but the moths.",
    "because nothing is lost that is still attached.",
];

/// Sentences of three parts each. A hash of `host` and `page` chooses the parts, so pages of a host with the same
/// number have the same text.
fn prose(host: &str, page: u64, sentences: u64) -> String {
    // With `u64::MAX`, the size of the range would overflow in `pick`.
    let hash = pick(host, page, 0, u64::MAX - 1);
    let part = |list: &[&'static str; 8], bits: u64| list[(hash.rotate_left(bits as u32) % 8) as usize];
    let sentence =
        |n: u64| format!("{} {} {}", part(&OPENINGS, 3 * n), part(&MIDDLES, 5 * n + 1), part(&ENDS, 7 * n + 2));
    (1..=sentences).map(sentence).collect::<Vec<_>>().join(" ")
}

/// The HTML of a page. A link is an href and a label.
fn page(title: &str, text: &str, links: &[(String, String)]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>body{{font:18px/1.6 Georgia,serif;max-width:38em;margin:3em auto;color:#333;background:#fdfbf5}}\
         a{{color:#946c00}}h1{{font-weight:normal;border-bottom:3px double #d8b100}}</style></head>\n\
         <body><h1>{title}</h1>\n<p>{text}</p>\n<ul>\n"
    );
    for (href, label) in links {
        html.push_str(&format!("<li><a href=\"{href}\">{label}</a></li>\n"));
    }
    html.push_str("</ul></body></html>\n");
    html
}

fn link(href: impl Into<String>, label: impl Into<String>) -> (String, String) {
    (href.into(), label.into())
}

fn home() -> (String, String) {
    link("/", "Home")
}

/// Sixty posts, listed by month. A post links to the previous and the next one.
fn journal(mut site: Site, roots: &[String]) -> Site {
    const NAME: &str = "The Orb Weaver's Journal";
    // The names of all hosts. The first is that of the journal itself, which is not listed.
    let names = [
        "",
        "A Field Guide",
        "The Library of Silk",
        "The Slow Meadow",
        "The Museum of Old Encodings",
        "The Attic",
        "The Quiet Monastery",
        "The Warehouse",
    ];
    let mut links: Vec<_> = (1..=6).map(|month| link(format!("/month/{month}"), format!("Month {month}"))).collect();
    links.extend(roots.iter().zip(names).skip(1).map(|(root, name)| link(root.as_str(), name)));
    links.push(link("mailto:weaver@journal.test", "Write to the weaver"));
    site = site.page("/", Response::html(page(NAME, &prose(NAME, 0, 4), &links)).delay(millis(60)));
    for month in 1..=6 {
        let posts: Vec<_> = (0..10)
            .map(|n| month * 10 - n)
            .map(|post| link(format!("/post/{post}"), format!("Entry {post}")))
            .collect();
        let html =
            page(&format!("{NAME}: month {month}"), &prose(NAME, 900 + month, 2), &[posts, vec![home()]].concat());
        site = site.page(&format!("/month/{month}"), Response::html(html).delay(millis(50)));
    }
    for post in 1..=60u64 {
        let mut links = vec![link(format!("/post/{}", post - 1), "Before"), home()];
        if post < 60 {
            links.push(link(format!("/post/{}", post + 1), "After"));
        }
        if post % 12 == 0 {
            links.push(link(format!("/?from={post}#top"), "Home, by another way"));
            site = site.redirect(&format!("/?from={post}"), "/", 302);
        }
        let html = page(&format!("Entry {post}"), &prose(NAME, post, 6), &links);
        site = site.page(&format!("/post/{post}"), Response::html(html).delay(millis(pick(NAME, post, 30, 120))));
    }
    site
}

/// Families and their species. A chain of two redirects leads to every family.
fn field_guide(mut site: Site, roots: &[String]) -> Site {
    const NAME: &str = "A Field Guide to Patient Animals";
    let families = ["orb-weavers", "jumping-spiders", "wolf-spiders", "crab-spiders", "water-spiders", "herons"];
    let mut links: Vec<_> = families.iter().map(|family| link(format!("/family/{family}"), *family)).collect();
    links.push(link("/family/unknown-spider", "unknown"));
    links.push(link("/plate.png", "The coloured plate"));
    links.push(link(roots[JOURNAL].as_str(), "The journal that began it all"));
    site = site.page("/", Response::html(page(NAME, &prose(NAME, 0, 3), &links)).delay(millis(40)));
    site = site.page("/plate.png", Response::bytes(PIXEL).content_type("image/png").delay(millis(30)));
    for (f, family) in families.iter().enumerate() {
        let species: Vec<_> =
            (1..=9).map(|n| link(format!("/species/{family}-{n}"), format!("{family}, no. {n}"))).collect();
        let old = link(format!("/old/{family}"), "An earlier version of this page");
        let html = page(family, &prose(NAME, 100 + f as u64, 2), &[species, vec![old, home()]].concat());
        site = site
            .page(&format!("/family/{family}"), Response::html(html).delay(millis(60)))
            .redirect(&format!("/old/{family}"), &format!("/older/{family}"), 301)
            .redirect(&format!("/older/{family}"), &format!("/family/{family}"), 301);
        for n in 1..=9u64 {
            let key = f as u64 * 10 + n;
            let neighbour = format!("/species/{}-{}", families[(f + 1) % families.len()], 10 - n);
            let links =
                [link(format!("/family/{family}"), "The family"), link(neighbour, "Often confused with"), home()];
            let html = page(&format!("{family}, no. {n}"), &prose(NAME, 200 + key, 5), &links);
            site = site
                .page(&format!("/species/{family}-{n}"), Response::html(html).delay(millis(pick(NAME, key, 20, 140))));
        }
    }
    site
}

/// Shelves and books, over HTTPS, chunked and compressed.
fn library(mut site: Site, roots: &[String]) -> Site {
    const NAME: &str = "The Library of Silk";
    let mut links: Vec<_> = (1..=5).map(|shelf| link(format!("/shelf/{shelf}"), format!("Shelf {shelf}"))).collect();
    links.push(link(roots[MONASTERY].as_str(), "The monastery, where the oldest volumes are"));
    site = site.page("/", Response::html(page(NAME, &prose(NAME, 0, 3), &links)).delay(millis(70)));
    for shelf in 1..=5u64 {
        let books: Vec<_> =
            (1..=8).map(|book| link(format!("/book/{shelf}-{book}"), format!("Volume {shelf}.{book}"))).collect();
        let html = page(&format!("Shelf {shelf}"), &prose(NAME, shelf, 2), &[books, vec![home()]].concat());
        site = site.page(&format!("/shelf/{shelf}"), Response::html(html).chunked([100, 1000]).delay(millis(50)));
        for book in 1..=8u64 {
            let key = shelf * 10 + book;
            let html = page(
                &format!("Volume {shelf}.{book}"),
                &prose(NAME, key, 40),
                &[link(format!("/shelf/{shelf}"), "Back to the shelf")],
            );
            site = site.page(
                &format!("/book/{shelf}-{book}"),
                Response::html(html).gzip().delay(millis(pick(NAME, key, 40, 160))),
            );
        }
    }
    site
}

/// Slow pages.
fn meadow(mut site: Site, _roots: &[String]) -> Site {
    const NAME: &str = "The Slow Meadow";
    let mut links: Vec<_> = (1..=18).map(|blade| link(format!("/blade/{blade}"), format!("Blade {blade}"))).collect();
    links.push(link("/snail", "The snail"));
    links.push(link("/drops", "Dew, drop by drop"));
    site = site.page("/", Response::html(page(NAME, &prose(NAME, 0, 3), &links)).delay(millis(300)));
    for blade in 1..=18 {
        let html = page(&format!("Blade {blade}"), &prose(NAME, blade, 3), &[home()]);
        site = site.page(&format!("/blade/{blade}"), Response::html(html).delay(millis(pick(NAME, blade, 300, 900))));
    }
    let drops = page("Dew, drop by drop", &prose(NAME, 99, 4), &[home()]);
    site.page("/snail", Response::html(page("The snail", "It arrived.", &[home()])).delay(millis(3000)))
        .page("/drops", Response::html(drops).drip(64, millis(60)))
}

/// Short texts in many languages and encodings.
fn museum(mut site: Site, _roots: &[String]) -> Site {
    let rooms = [
        ("iso-8859-1", "Grüße aus der Spinnenstube: Fäden, Öl und Übermut"),
        ("windows-1252", "“Curly quotes” – and a dash, once thought to be enough…"),
        ("iso-8859-2", "Pająk czeka w środku sieci"),
        ("windows-1251", "Паук ждёт в середине паутины"),
        ("koi8-r", "Терпение и труд всё перетрут"),
        ("iso-8859-7", "Η αράχνη περιμένει στη μέση του ιστού"),
        ("windows-1254", "Örümcek ağın ortasında bekler"),
        ("shift_jis", "蜘蛛は巣の真ん中で待つ"),
        ("euc-jp", "朝露の糸"),
        ("iso-2022-jp", "静かな庭"),
        ("euc-kr", "거미는 기다린다"),
        ("gbk", "蜘蛛在网中央等待"),
        ("big5", "蜘蛛在網中央等待"),
        ("windows-1255", "העכביש מחכה באמצע הקורים"),
        ("utf-8", "🕷 and at last, room for everybody"),
    ];
    let links: Vec<_> =
        rooms.iter().map(|(label, _)| link(format!("/room/{label}"), format!("Room {label}"))).collect();
    site = site.page(
        "/",
        Response::html(page("The Museum of Old Encodings", &prose("museum", 0, 3), &links)).delay(millis(50)),
    );
    for (n, (label, text)) in rooms.iter().enumerate() {
        let html = page(text, text, &[home()]);
        // Every third room declares its encoding in the page instead of the header.
        let response = if n % 3 == 2 {
            Response::html(html.replacen("<head>", &format!("<head><meta charset=\"{label}\">"), 1))
                .encoded(label)
                .content_type("text/html")
        } else {
            Response::html(html).encoded(label)
        };
        site = site.page(&format!("/room/{label}"), response.delay(millis(pick("museum", n as u64, 40, 150))));
    }
    site
}

/// Errors of many kinds, some temporary.
fn attic(mut site: Site, _roots: &[String]) -> Site {
    let ok = |title: &str| Response::html(page(title, &prose("attic", title.len() as u64, 3), &[home()]));
    let mut links: Vec<_> = (1..=20).map(|box_| link(format!("/box/{box_}"), format!("Box {box_}"))).collect();
    for (path, label) in [
        ("/attic/lost-letter", "A letter that was lost"),
        ("/attic/lost-map", "A map that was lost"),
        ("/attic/gone", "Sold years ago"),
        ("/attic/locked", "A locked chest"),
        ("/attic/mirror/left", "Two mirrors, face to face"),
        ("/attic/stairs/1", "Many stairs"),
        ("/attic/loose-board", "A loose board (steady after two steps)"),
        ("/attic/old-bulb", "An old bulb (flickers, then burns)"),
        ("/attic/cold-engine", "A cold engine (slow to start)"),
        ("/attic/broken-clock", "A broken clock"),
        ("/attic/torn-page", "A torn page"),
        ("/attic/note.txt", "A note"),
    ] {
        links.push(link(path, label));
    }
    site = site.page("/", Response::html(page("The Attic", &prose("attic", 0, 3), &links)).delay(millis(60)));
    for box_ in 1..=20u64 {
        let response = ok(&format!("Box {box_}")).delay(millis(pick("attic", box_, 30, 200)));
        site = site.page(&format!("/box/{box_}"), response);
    }
    for stair in 1..=4 {
        site = site.redirect(&format!("/attic/stairs/{stair}"), &format!("/attic/stairs/{}", stair + 1), 302);
    }
    site.page("/attic/stairs/5", ok("The top of the stairs"))
        .redirect("/attic/mirror/left", "/attic/mirror/right", 302)
        .redirect("/attic/mirror/right", "/attic/mirror/left", 302)
        .page("/attic/gone", Response::status(410))
        .page("/attic/locked", Response::status(403))
        .fail_times("/attic/loose-board", 2, Response::reset(), ok("A loose board"))
        .fail_times("/attic/old-bulb", 1, Response::status(503).header("Retry-After", "1"), ok("An old bulb"))
        .fail_times("/attic/cold-engine", 1, Response::status(504).delay(millis(1500)), ok("A cold engine"))
        .page("/attic/broken-clock", Response::status(500).delay(millis(100)))
        .page("/attic/torn-page", ok("A torn page, of which half is").truncate_at(300))
        .page("/attic/note.txt", Response::text("Turn off the light.\n"))
}

/// A Crawl-delay of a quarter of a second, and disallowed paths.
fn monastery(mut site: Site, _roots: &[String]) -> Site {
    const NAME: &str = "The Quiet Monastery";
    let mut links: Vec<_> = (1..=18).map(|hour| link(format!("/hour/{hour}"), format!("Hour {hour}"))).collect();
    links.extend((1..=6).map(|cell| link(format!("/cells/{cell}"), format!("Cell {cell}"))));
    links.push(link("/cells/garden", "The garden"));
    site = site
        .robots("# Silence, please.\nUser-agent: *\nCrawl-delay: 0.25\nDisallow: /cells/\nAllow: /cells/garden$\n")
        .page("/", Response::html(page(NAME, &prose(NAME, 0, 3), &links)).delay(millis(40)))
        .page("/cells/garden", Response::html(page("The garden", &prose(NAME, 77, 3), &[home()])));
    for hour in 1..=18 {
        let html = page(
            &format!("Hour {hour}"),
            &prose(NAME, hour, 3),
            &[home(), link(format!("/hour/{}", hour % 18 + 1), "The next hour")],
        );
        site = site.page(&format!("/hour/{hour}"), Response::html(html).delay(millis(pick(NAME, hour, 30, 90))));
    }
    for cell in 1..=6 {
        site = site.page(
            &format!("/cells/{cell}"),
            Response::html(page("A cell", "Somebody is sleeping.", &[])).counts_as_violation(),
        );
    }
    site
}

/// Large pages.
fn warehouse(mut site: Site, roots: &[String]) -> Site {
    const NAME: &str = "The Warehouse";
    let mut links: Vec<_> = (1..=40)
        .map(|crate_| link(format!("/crate/{crate_}?aisle={}", crate_ % 7), format!("Crate {crate_}")))
        .collect();
    links.push(link("/bale", "A bale of three megabytes"));
    links.push(link("/rope", "A rope that ends where it ends"));
    links.push(link("/list.json", "The list"));
    links.push(link(roots[FIELD_GUIDE].as_str(), "What lives between the crates"));
    site = site.page("/", Response::html(page(NAME, &prose(NAME, 0, 3), &links)).delay(millis(50)));
    for crate_ in 1..=40 {
        let html = page(&format!("Crate {crate_}"), &prose(NAME, crate_, 150), &[home()]);
        let response = Response::html(html).delay(millis(pick(NAME, crate_, 40, 160)));
        site = site.page(&format!("/crate/{crate_}?aisle={}", crate_ % 7), response);
    }
    site.page("/bale", Response::filled(page("A bale", "It goes on and on.", &[home()]), 3 << 20).delay(millis(100)))
        .page("/rope", Response::html(page("A rope", &prose(NAME, 50, 30), &[home()])).until_close().delay(millis(80)))
        .page("/list.json", Response::text("{\"crates\":40}\n").content_type("application/json"))
}

/// An image of one yellow pixel.
const PIXEL: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\x9cc\xb8\xb1\x91\x01\x00\x03\xee\x01\x8aO\x9b\xdeO\x00\x00\x00\x00IEND\xaeB`\x82";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Follows all links from the journal's first page.
    #[test]
    fn every_link_has_a_target_and_every_page_is_linked() {
        let sites = sites(0).unwrap();
        let mut pages: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for site in &sites {
            for (path, hrefs) in site.hrefs() {
                let absolute = |href: String| if href.starts_with('/') { site.url(&href) } else { href };
                let hrefs = hrefs.into_iter().filter(|href| !href.starts_with("mailto:"));
                let hrefs = hrefs.map(absolute).map(|href| href.split('#').next().unwrap_or_default().to_owned());
                pages.insert(site.url(&path), hrefs.collect());
            }
        }
        let mut reached = BTreeSet::new();
        let mut missing = BTreeSet::new();
        let mut queue = vec![sites[0].url("/")];
        while let Some(url) = queue.pop() {
            match pages.get(&url) {
                None => {
                    let path = format!("/{}", url.splitn(4, '/').nth(3).unwrap_or_default());
                    assert!(MISSING.contains(&path.as_str()), "{url} is linked to but does not exist");
                    missing.insert(path);
                }
                Some(hrefs) => {
                    if reached.insert(url) {
                        queue.extend(hrefs.iter().cloned());
                    }
                }
            }
        }
        assert_eq!(missing.len(), MISSING.len(), "every path in MISSING is linked to");
        let unreached: Vec<_> =
            pages.keys().filter(|url| !reached.contains(*url) && !url.ends_with("/robots.txt")).collect();
        assert!(unreached.is_empty(), "pages that no page links to: {unreached:?}");
        assert!((280..=400).contains(&reached.len()), "{}", reached.len());
    }
}
