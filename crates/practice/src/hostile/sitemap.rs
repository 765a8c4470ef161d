//! Sitemaps that are bombs, loops or wrong.

use super::{Case, CaseBuilder, DnsReply, Expect, demand};
use crate::response::Response;
use crate::site::Site;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
const URLSET: &str = "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">";

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("SMP02", "an entity that is a file", Expect::error("parse_limit"), |case| {
            let text = format!(
                "{HEAD}<!DOCTYPE urlset [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>\n{URLSET}<url><loc>&x;</loc></url></urlset>"
            );
            case.check("no output contains text of the file", |report| {
                let has_content = report.records.iter().any(|record| record.to_string().contains("root:"));
                demand(!has_content && !report.stderr.contains("root:"), "the file was read")
            });
            judge_sitemap_response(case, Response::text(text))
        }),
        Case::new("SMP03", "a DTD on another server", Expect::Ok, |case| {
            let connections = Arc::new(AtomicUsize::new(0));
            let dtd_server = {
                let connections = Arc::clone(&connections);
                case.raw(move |conn| {
                    connections.fetch_add(1, SeqCst);
                    conn.wait_until_closed()
                })?
            };
            case.check("the DTD is never fetched", move |_| {
                demand(connections.load(SeqCst) == 0, "a connection was made")
            });
            sitemap_with_one_page(case, |page| {
                format!("{HEAD}<!DOCTYPE urlset SYSTEM \"http://{dtd_server}/x.dtd\">\n{}", urlset(&[page]))
            })
        }),
        Case::new("SMP04", "an XInclude of a file", Expect::Ok, |case| {
            sitemap_with_one_page(case, |page| {
                format!(
                    "{HEAD}<urlset xmlns:xi=\"http://www.w3.org/2001/XInclude\"><url><loc>{page}</loc></url>\
                     <url><loc><xi:include href=\"file:///etc/passwd\" parse=\"text\"/></loc></url></urlset>"
                )
            })
        }),
        Case::new("SMP05", "eighty thousand attributes", Expect::Ok, |case| {
            sitemap_with_one_page(case, |page| {
                let attributes: String = (0..80_000).map(|n| format!(" a{n}=\"\"")).collect();
                format!("{HEAD}{URLSET}<url{attributes}><loc>{page}</loc></url></urlset>")
            })
        }),
        Case::new("SMP07", "an index that lists itself", Expect::Ok, |case| {
            let site = case.site()?;
            let text = index(&[site.url("/map")]);
            case.check("fetched once", |report| demand(report.request_count("/map") == 1, "fetched again"));
            judge_sitemap(case, site.page("/map", Response::text(text)));
            Ok(())
        }),
        Case::new("SMP08", "a hundred indexes in a row", Expect::Ok, |case| {
            let mut site = case.site()?;
            for n in 0..100 {
                let path = if n == 0 { "/map".to_owned() } else { format!("/{n}") };
                let next = index(&[site.url(&format!("/{}", n + 1))]);
                site = site.page(&path, Response::text(next));
            }
            case.check("two levels are followed", |report| {
                demand(
                    report.request_count("/1") == 1 && report.request_count("/3") == 0,
                    "followed too far, or not far enough",
                )
            });
            judge_sitemap(case, site);
            Ok(())
        }),
        Case::new("SMP09", "an index of a million sitemaps", Expect::Ok, |case| {
            // Every entry is the same sitemap, `/child`, which is judged. The index is truncated, and its record says
            // so.
            let site = case.site()?;
            let child = format!("<sitemap><loc>{}</loc></sitemap>\n", site.url("/child"));
            let text = format!("{HEAD}<sitemapindex>{}</sitemapindex>", child.repeat(1_000_000));
            case.expect_at(site.url("/child"));
            let map = site.url("/map");
            case.check("the child is fetched once, and the index is truncated", move |report| {
                demand(
                    report.request_count("/child") == 1,
                    format!("fetched {} times", report.request_count("/child")),
                )?;
                report.judge(&map, Expect::Truncated("length", None))
            });
            let child = Response::text(urlset(&[site.url("/")]));
            add_site_with_sitemap(case, site.page("/map", Response::text(text).gzip()).page("/child", child));
            Ok(())
        }),
        Case::new("SMP10", "a million URLs", Expect::Truncated("length", None), |case| {
            let site = case.site()?;
            let page = site.url("/listed");
            let text = format!("{HEAD}{URLSET}{}</urlset>", entry(&page).repeat(1_000_000));
            case.check("the entries before the limit are used", |report| {
                demand(report.request_count("/listed") == 1, "the page was not requested exactly once")
            });
            let site = site.page("/map", Response::text(text).gzip()).page("/listed", Response::html("here"));
            judge_sitemap(case, site);
            Ok(())
        }),
        Case::new("SMP12", "truncated within a URL", Expect::truncated("decode", "decode"), |case| {
            let site = case.site()?;
            let text = format!("{HEAD}{URLSET}{}<url><loc>{}", entry(&site.url("/whole")), site.url("/cut"));
            case.check("the complete entry is used, and the truncated one is not", |report| {
                demand(
                    report.request_count("/whole") == 1 && report.request_count("/cut") == 0,
                    "/whole was not requested once, or /cut was requested",
                )
            });
            judge_sitemap(case, site.page("/map", Response::text(text)).page("/whole", Response::html("here")));
            Ok(())
        }),
        Case::new("SMP13", "URLs of another host", Expect::Ok, |case| {
            let site = case.site()?;
            let foreign = site.url_as("other.test", "/stolen");
            case.name("other.test", DnsReply::address(site.address().ip()));
            case.set("scope", "any");
            case.set("allow-private", true);
            case.check("URLs of the other host are dropped", |report| {
                demand(
                    report.request_count("/stolen") == 0 && report.request_count("/own") == 1,
                    "/stolen was requested, or /own was not",
                )
            });
            let text = urlset(&[foreign, site.url("/own")]);
            judge_sitemap(case, site.page("/map", Response::text(text)).page("/own", Response::html("here")));
            Ok(())
        }),
        Case::new("SMP14", "other formats", Expect::Ok, |case| {
            let site = case.site()?;
            let url = |name: &str| site.url(&format!("/{name}"));
            let formats = [
                format!("{HEAD}<urlset xmlns=\"urn:wrong\">{}</urlset>", entry(&url("odd"))),
                format!("<rss version=\"2.0\"><channel><item><link>{}</link></item></channel></rss>", url("rss")),
                format!("<feed><entry><link href=\"{}\"/></entry></feed>", url("atom")),
                format!("{}\n", url("text")),
            ];
            let mut robots = String::new();
            let (root, origin) = (site.url("/"), site.url(""));
            let mut site = site;
            for (number, text) in formats.into_iter().enumerate() {
                let path = format!("/map{number}");
                let _ = writeln!(robots, "Sitemap: {origin}{path}");
                case.expect_at(site.url(&path));
                site = site.page(&path, Response::text(text));
            }
            case.check("all formats are understood", |report| {
                let missing: Vec<_> = ["/odd", "/rss", "/atom", "/text"]
                    .into_iter()
                    .filter(|path| report.request_count(path) == 0)
                    .collect();
                demand(missing.is_empty(), format!("{missing:?} were not found"))
            });
            case.root(root);
            case.add_site(site.robots(&robots).fallback(Response::html("here")));
            Ok(())
        }),
        Case::new("SMP15", "invalid dates and numbers", Expect::Ok, |case| {
            sitemap_with_one_page(case, |page| {
                format!(
                    "{HEAD}{URLSET}<url><loc>{page}</loc><lastmod>banana</lastmod><priority>NaN</priority>\
                     <changefreq>on Tuesdays</changefreq></url></urlset>"
                )
            })
        }),
    ]
}

fn entry(url: &str) -> String {
    format!("<url><loc>{url}</loc></url>\n")
}

fn urlset(urls: &[String]) -> String {
    let entries: String = urls.iter().map(|url| entry(url)).collect();
    format!("{HEAD}{URLSET}{entries}</urlset>")
}

fn index(urls: &[String]) -> String {
    let entries: String = urls.iter().map(|url| format!("<sitemap><loc>{url}</loc></sitemap>")).collect();
    format!("{HEAD}<sitemapindex>{entries}</sitemapindex>")
}

/// Adds a site whose robots.txt names the sitemap `/map`, which is judged.
fn judge_sitemap(case: &mut CaseBuilder, site: Site) {
    case.expect_at(site.url("/map"));
    add_site_with_sitemap(case, site);
}

/// Adds a site whose robots.txt names the sitemap `/map`.
fn add_site_with_sitemap(case: &mut CaseBuilder, site: Site) {
    // The largest sitemaps have about fifty megabytes, which take a while in a debug build.
    case.set("idle-timeout", "8s");
    case.root(site.url("/"));
    let robots = format!("Sitemap: {}\n", site.url("/map"));
    case.add_site(site.robots(&robots).page("/", Response::html("front")));
}

/// Adds a site with this response as its sitemap, which is judged.
fn judge_sitemap_response(case: &mut CaseBuilder, map: Response) -> io::Result<()> {
    let site = case.site()?.page("/map", map);
    judge_sitemap(case, site);
    Ok(())
}

/// Adds a site whose sitemap is judged, and checks that the page `/listed` is fetched. `write` makes the sitemap from the
/// URL of that page.
fn sitemap_with_one_page(case: &mut CaseBuilder, write: impl FnOnce(String) -> String) -> io::Result<()> {
    let site = case.site()?;
    let text = write(site.url("/listed"));
    case.check("the listed page is found", |report| {
        demand(report.request_count("/listed") == 1, "it was not requested")
    });
    judge_sitemap(case, site.page("/map", Response::text(text)).page("/listed", Response::html("here")));
    Ok(())
}
