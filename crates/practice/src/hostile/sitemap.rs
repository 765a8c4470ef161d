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
            case.check("nothing of the file is anywhere", |report| {
                let told = report.records.iter().any(|record| record.to_string().contains("root:"));
                demand(!told && !report.words.contains("root:"), "the file was read")
            });
            one(case, Response::text(text))
        }),
        Case::new("SMP03", "a DTD elsewhere", Expect::Ok, |case| {
            let came = Arc::new(AtomicUsize::new(0));
            let elsewhere = {
                let came = Arc::clone(&came);
                case.raw(move |conn| {
                    came.fetch_add(1, SeqCst);
                    conn.wait_for_the_end()
                })?
            };
            case.check("the DTD is never fetched", move |_| demand(came.load(SeqCst) == 0, "somebody came for it"));
            listing(case, |page| {
                format!("{HEAD}<!DOCTYPE urlset SYSTEM \"http://{elsewhere}/x.dtd\">\n{}", urlset(&[page]))
            })
        }),
        Case::new("SMP04", "an XInclude of a file", Expect::Ok, |case| {
            listing(case, |page| {
                format!(
                    "{HEAD}<urlset xmlns:xi=\"http://www.w3.org/2001/XInclude\"><url><loc>{page}</loc></url>\
                     <url><loc><xi:include href=\"file:///etc/passwd\" parse=\"text\"/></loc></url></urlset>"
                )
            })
        }),
        Case::new("SMP05", "eighty thousand attributes", Expect::Ok, |case| {
            listing(case, |page| {
                let attributes: String = (0..80_000).map(|n| format!(" a{n}=\"\"")).collect();
                format!("{HEAD}{URLSET}<url{attributes}><loc>{page}</loc></url></urlset>")
            })
        }),
        Case::new("SMP07", "an index that lists itself", Expect::Ok, |case| {
            let site = case.site()?;
            let text = index(&[site.url("/map")]);
            case.check("fetched once", |report| demand(report.asked("/map") == 1, "fetched again"));
            announced(case, site.page("/map", Response::text(text)));
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
                demand(report.asked("/1") == 1 && report.asked("/3") == 0, "followed too far, or not far enough")
            });
            announced(case, site);
            Ok(())
        }),
        Case::new("SMP09", "an index of a million sitemaps", Expect::Ok, |case| {
            // Every entry is the same sitemap, `/child`, which is judged. The index is truncated, and its record says
            // so.
            let site = case.site()?;
            let child = format!("<sitemap><loc>{}</loc></sitemap>\n", site.url("/child"));
            let text = format!("{HEAD}<sitemapindex>{}</sitemapindex>", child.repeat(1_000_000));
            case.judge(site.url("/child"));
            let map = site.url("/map");
            case.check("the child is fetched once, and the index is cut", move |report| {
                demand(report.asked("/child") == 1, format!("fetched {} times", report.asked("/child")))?;
                report.judge(&map, Expect::Truncated("length", None))
            });
            let child = Response::text(urlset(&[site.url("/")]));
            serve(case, site.page("/map", Response::text(text).gzip()).page("/child", child));
            Ok(())
        }),
        Case::new("SMP10", "a million URLs", Expect::Truncated("length", None), |case| {
            let site = case.site()?;
            let page = site.url("/listed");
            let text = format!("{HEAD}{URLSET}{}</urlset>", entry(&page).repeat(1_000_000));
            case.check("what came before the limit is used", |report| {
                demand(report.asked("/listed") == 1, "the page was not asked for once")
            });
            let site = site.page("/map", Response::text(text).gzip()).page("/listed", Response::html("here"));
            announced(case, site);
            Ok(())
        }),
        Case::new("SMP12", "truncated within a URL", Expect::truncated("decode", "decode"), |case| {
            let site = case.site()?;
            let text = format!("{HEAD}{URLSET}{}<url><loc>{}", entry(&site.url("/whole")), site.url("/cut"));
            case.check("what came before the cut is used, and nothing else", |report| {
                demand(report.asked("/whole") == 1 && report.asked("/cut") == 0, "it is not")
            });
            announced(case, site.page("/map", Response::text(text)).page("/whole", Response::html("here")));
            Ok(())
        }),
        Case::new("SMP13", "URLs of another host", Expect::Ok, |case| {
            let site = case.site()?;
            let foreign = site.url_as("other.test", "/stolen");
            case.name("other.test", DnsReply::address(site.address().ip()));
            case.set("scope", "any");
            case.set("allow-private", true);
            case.check("they are dropped", |report| {
                demand(report.asked("/stolen") == 0 && report.asked("/own") == 1, "they are not")
            });
            let text = urlset(&[foreign, site.url("/own")]);
            announced(case, site.page("/map", Response::text(text)).page("/own", Response::html("here")));
            Ok(())
        }),
        Case::new("SMP14", "other forms", Expect::Ok, |case| {
            let site = case.site()?;
            let url = |name: &str| site.url(&format!("/{name}"));
            let forms = [
                format!("{HEAD}<urlset xmlns=\"urn:wrong\">{}</urlset>", entry(&url("odd"))),
                format!("<rss version=\"2.0\"><channel><item><link>{}</link></item></channel></rss>", url("rss")),
                format!("<feed><entry><link href=\"{}\"/></entry></feed>", url("atom")),
                format!("{}\n", url("text")),
            ];
            let mut robots = String::new();
            let (root, origin) = (site.url("/"), site.url(""));
            let mut site = site;
            for (number, form) in forms.into_iter().enumerate() {
                let path = format!("/map{number}");
                let _ = writeln!(robots, "Sitemap: {origin}{path}");
                case.judge(site.url(&path));
                site = site.page(&path, Response::text(form));
            }
            case.check("all are understood", |report| {
                let missing: Vec<_> =
                    ["/odd", "/rss", "/atom", "/text"].into_iter().filter(|path| report.asked(path) == 0).collect();
                demand(missing.is_empty(), format!("{missing:?} were not found"))
            });
            case.root(root);
            case.open(site.robots(&robots).fallback(Response::html("here")));
            Ok(())
        }),
        Case::new("SMP15", "invalid dates and numbers", Expect::Ok, |case| {
            listing(case, |page| {
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

/// A site whose robots.txt announces `/map`, which is judged.
fn announced(case: &mut CaseBuilder, site: Site) {
    case.judge(site.url("/map"));
    serve(case, site);
}

fn serve(case: &mut CaseBuilder, site: Site) {
    // Fifty megabytes take a while in a debug build.
    case.set("idle-timeout", "8s");
    case.root(site.url("/"));
    let robots = format!("Sitemap: {}\n", site.url("/map"));
    case.open(site.robots(&robots).page("/", Response::html("front")));
}

/// A site with this sitemap, which is judged.
fn one(case: &mut CaseBuilder, map: Response) -> io::Result<()> {
    let site = case.site()?.page("/map", map);
    announced(case, site);
    Ok(())
}

/// A sitemap that lists `/listed`, which must be fetched.
fn listing(case: &mut CaseBuilder, write: impl FnOnce(String) -> String) -> io::Result<()> {
    let site = case.site()?;
    let text = write(site.url("/listed"));
    case.check("the page that it lists is found", |report| demand(report.asked("/listed") == 1, "it is not"));
    announced(case, site.page("/map", Response::text(text)).page("/listed", Response::html("here")));
    Ok(())
}
