//! Attacks on output files and terminals.

use super::report::{CaseReport, CaseVerdict};
use super::{Case, CaseBuilder, Expect, demand};
use crate::response::Response;
use std::io::{self, Read};
use std::path::Path;

/// Terminal control sequences. The first two begin with ESC, a C0 character: they set the window title and clear the
/// screen. The third begins with CSI, a C1 character, and changes the colour. The last reverses the direction of text.
const CONTROL_SEQUENCES: &str = "\u{1b}]0;pwned\u{7}\u{1b}[2J\u{9b}31m\u{202e}txt.exe";

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("OUT01", "paths with .. segments", Expect::Ok, |case| {
            let paths = ["/..%2f..%2f..%2fetc%2fcron.d%2fx", "/%2e%2e/%2e%2e/x", "/..\\..\\y", "/a/../../z"];
            case.set("warc", true);
            check_writes_inside(case);
            let site = case.site()?.page("/", Response::links(paths));
            // The normalized URLs: dot segments are removed, and an encoded slash does not end a segment.
            for path in ["/", "/..%2f..%2f..%2fetc%2fcron.d%2fx", "/x", "/y", "/z"] {
                case.expect_at(site.url(path));
            }
            case.root(site.url("/"));
            case.add_site(site.fallback(Response::html("here")));
            Ok(())
        }),
        Case::new("OUT02", "file names with .. segments", Expect::Ok, |case| {
            case.set("warc", true);
            check_writes_inside(case);
            let with_file_name =
                |name: &str| Response::bytes("here").header("Content-Disposition", format!("attachment; {name}"));
            case.pages([
                ("/a", with_file_name("filename=\"../../../../tmp/evil\"")),
                ("/b", with_file_name("filename*=UTF-8''..%2f..%2fx")),
                ("/c", with_file_name("filename=\"/etc/cron.d/x\"")),
            ])
        }),
        Case::new("OUT04", "names that are reserved on some systems", Expect::Ok, |case| {
            let long = format!("/{}", "n".repeat(300));
            let paths = ["/CON", "/NUL.txt", "/a.", "/a%20", "/a:b", &long, "/%00", "/.bashrc", "/-rf"];
            case.set("warc", true);
            check_writes_inside(case);
            check_requested_once(case, &paths)
        }),
        Case::new("OUT07", "one letter in two Unicode forms", Expect::Ok, |case| {
            check_writes_inside(case);
            check_requested_once(case, &["/%C3%A9", "/e%CC%81"])
        }),
        Case::new("OUT08", "terminal control characters in text", Expect::Ok, |case| {
            let site = case.site()?;
            let page = format!(
                "<title>{CONTROL_SEQUENCES}</title><a href=\"/gone{CONTROL_SEQUENCES}\">x</a><a href=\"/moved\">y</a><a href=/odd>z</a>"
            );
            let root = site.url("/");
            case.root(root.as_str());
            case.expect_at(root.as_str());
            case.set("with", vec!["headers", "links"]);
            let odd = Response::html(page).header("X-Odd", "a\u{9b}31m\u{202e}").header("Server", b"\xff\x9b".to_vec());
            let site = site
                .page("/", odd)
                .page("/moved", Response::redirect("http://[\u{9b}31m\u{202e}", 302))
                .page("/odd", Response::raw("HTTP/1.1 200 \u{1b}[2J\r\nX: \u{1b}\r\n\r\n"));
            case.add_site(site);
            case.check("no output contains these characters unescaped", move |report| {
                let folder = report.directory.to_string_lossy().into_owned();
                for arguments in [
                    vec!["report", &folder],
                    vec!["report", &folder, "--html", "-"],
                    vec!["explain", &folder, &root],
                    vec!["export", &folder, "--format", "jsonl"],
                    vec!["export", &folder, "--format", "csv"],
                    vec!["export", &folder, "--format", "links"],
                    vec!["export", &folder, "--format", "graphml"],
                    vec!["export", &folder, "--format", "sitemap"],
                    vec!["fetch", &root],
                ] {
                    let output = report.run(&arguments).map_err(|error| error.to_string())?;
                    for shown in [output.stdout, output.stderr] {
                        let shown = String::from_utf8(shown).map_err(|_| format!("{arguments:?}: not UTF-8"))?;
                        let is_unescaped = |c: char| c.is_control() && !"\n\r\t".contains(c) || c == '\u{202e}';
                        demand(
                            !shown.contains(is_unescaped),
                            format!("{arguments:?} at {:?}", shown.find(is_unescaped)),
                        )?;
                    }
                }
                Ok(())
            });
            Ok(())
        }),
        Case::new("OUT10", "titles that are formulas", Expect::Ok, |case| {
            let titles = ["=HYPERLINK(\"http://evil\",\"x\")", "+cmd|' /C calc'!A0", "-1+1", "@SUM(1+1)"];
            let site = case.site()?;
            let pages: Vec<String> = (0..titles.len()).map(|n| format!("/{n}")).collect();
            let mut site = site.page("/", Response::links(&pages));
            for (path, title) in pages.iter().zip(titles) {
                site = site.page(path, Response::html(format!("<title>{title}</title>")));
                case.expect_at(site.url(path));
            }
            case.root(site.url("/"));
            case.add_site(site);
            case.check("the CSV table has no formula, and the records have all titles", move |report| {
                for title in titles {
                    demand(report.pages().any(|page| page["title"] == title), format!("{title} is not in a record"))?;
                }
                let folder = report.directory.to_string_lossy();
                let table = report.run(&["export", &folder, "--format", "csv"]).map_err(|error| error.to_string())?;
                let table = String::from_utf8_lossy(&table.stdout).into_owned();
                let is_formula = |field: &str| field.trim_start_matches('"').starts_with(['=', '+', '-', '@']);
                let fields = table.lines().flat_map(|line| line.split(','));
                let found: Vec<&str> = fields.filter(|field| is_formula(field)).collect();
                demand(found.is_empty(), format!("{found:?}"))?;
                demand(table.contains("'=HYPERLINK") && table.contains("'@SUM"), "the escaped titles are missing")
            });
            Ok(())
        }),
        Case::new("OUT11", "markup for the report", Expect::Ok, |case| {
            let hostile = "<img src=x onerror=alert(1)>";
            let site = case.site()?;
            let page =
                format!("<title>{hostile}</title><a href='/\"><script>alert(1)</script>'>x</a><a href=/moved>y</a>");
            case.root(site.url("/"));
            case.expect_at(site.url("/"));
            let site = site
                .page("/", Response::html(page).content_type("text/html;<script>alert(1)</script>"))
                .page("/moved", Response::redirect("javascript:alert(1)", 302));
            case.add_site(site);
            case.check("the HTML report contains no markup of the site", |report| {
                let folder = report.directory.to_string_lossy();
                let page = report.run(&["report", &folder, "--html", "-"]).map_err(|error| error.to_string())?;
                let page = String::from_utf8_lossy(&page.stdout).into_owned();
                let has = |text: &str| page.contains(text);
                // The report contains one script, for sorting and filtering.
                let is_clean = page.matches("<script").count() <= 1 && !has("<script>alert");
                demand(
                    is_clean && !has("<img") && !has("href=\"javascript:"),
                    "the report contains markup of the site",
                )?;
                demand(
                    has("Content-Security-Policy") && has("default-src 'none'"),
                    "the report has no Content-Security-Policy",
                )
            });
            Ok(())
        }),
        Case::new("OUT13", "archives within archives", Expect::Ok, |case| {
            let record = "WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n\r\n\r\n";
            case.set("warc", true);
            let site = case.site()?;
            let crlf = "/a%0d%0aWARC-Type:%20metadata%0d%0a";
            let site = site
                .page("/", Response::links([crlf, "/body"]))
                .page(crlf, Response::html("here").header("X-Odd", "WARC/1.1"))
                .page("/body", Response::bytes(format!("\r\n\r\n{record}{record}")));
            case.root(site.url("/"));
            for path in ["/", "/body", crlf] {
                case.expect_at(site.url(path));
            }
            case.add_site(site);
            case.check("the archive has one response for each record with an archive position", |report| {
                let in_archive = count_responses(&report.directory.join("archive"))?;
                let in_records = report.records.iter().filter(|record| record["warc"].is_object()).count();
                // At least the three pages and robots.txt.
                demand(
                    in_archive == in_records && in_records > 3,
                    format!("{in_archive} responses in the archive, {in_records} in the records"),
                )
            });
            Ok(())
        }),
        Case::new("OUT14", "binary data", Expect::Ok, |case| {
            case.set("with", vec!["headers", "links"]);
            let odd = |bytes: &[u8]| bytes.to_vec();
            // The test runner parses every line of the output.
            case.page(
                Response::html(odd(b"<title>\xff\xfe\xed\xa0\x80</title><a href=\"/\xff\">x</a>"))
                    .header("X-Odd", odd(b"\xff\xed\xa0\x80"))
                    .header("ETag", odd(b"\"\xff\""))
                    .header("Last-Modified", odd(b"\xc3\x28")),
            )
        }),
        Case::elsewhere(
            "OUT15",
            "the crawl directory is renamed during the crawl",
            Expect::error("internal"),
            "crates/cli/tests/directory_faults.rs",
            "a_crawl_directory_that_is_renamed_stops_the_crawl",
        ),
    ]
}

/// A page with links to these paths. Checks that each is requested once, unchanged.
fn check_requested_once(case: &mut CaseBuilder, paths: &[&str]) -> io::Result<()> {
    let site = case.site()?.page("/", Response::links(paths));
    case.root(site.url("/"));
    for path in paths {
        case.expect_at(site.url(path));
    }
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    case.check("each is requested once", move |report| {
        let wrong: Vec<_> = paths.iter().filter(|path| report.request_count(path) != 1).collect();
        demand(wrong.is_empty(), format!("{wrong:?} were not"))
    });
    case.add_site(site.fallback(Response::html("here")));
    Ok(())
}

/// Checks that the crawl created nothing next to its directory, and no file within it that is named after web content.
fn check_writes_inside(case: &mut CaseBuilder) {
    case.check("the crawl writes only its own files", |report: &CaseReport| -> CaseVerdict {
        let parent = report.directory.parent().ok_or("no parent folder")?;
        let names = |folder: &Path| -> Result<Vec<String>, String> {
            let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
            Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        };
        // The test runner has written `argiope.toml` and `ca.pem`. `crawl` is the crawl directory.
        let outside: Vec<String> = names(parent)?
            .into_iter()
            .filter(|name| !["argiope.toml", "ca.pem", "crawl"].contains(&name.as_str()))
            .collect();
        demand(outside.is_empty(), format!("outside: {outside:?}"))?;
        let is_own = |name: &String| {
            let known = [
                "crawl.json",
                "lock",
                "log",
                "archive",
                "processing",
                "report.txt",
                "snapshot",
                "queue",
                "seen",
                "records",
            ];
            known.iter().any(|known| name.starts_with(known))
        };
        let inside: Vec<String> = names(&report.directory)?.into_iter().filter(|name| !is_own(name)).collect();
        demand(inside.is_empty(), format!("inside: {inside:?}"))
    });
}

/// The number of responses in the archives of a folder, revisits included. The reader is independent of the crawler's
/// code.
fn count_responses(folder: &Path) -> Result<usize, String> {
    let mut in_archive = 0;
    for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())?.flatten() {
        let file = std::fs::File::open(entry.path()).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let end = rest.windows(4).position(|four| four == b"\r\n\r\n").ok_or("a record without an end")?;
            let head = String::from_utf8_lossy(&rest[..end]).into_owned();
            demand(head.starts_with("WARC/1.1\r\n"), format!("a record does not start with WARC/1.1: {head:?}"))?;
            let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            let length: usize = field("Content-Length:").and_then(|text| text.parse().ok()).ok_or("no length")?;
            in_archive += usize::from(matches!(field("WARC-Type:"), Some("response" | "revisit")));
            let after = rest.get(end + 4 + length..).ok_or("a truncated record")?;
            rest = after.strip_prefix(b"\r\n\r\n").ok_or("a record with a wrong length")?;
        }
    }
    Ok(in_archive)
}
