//! The report as one page for a browser: no scripts, nothing loaded from anywhere, everything from the web escaped.

use std::fmt::{self, Display, Write as _};

use crate::report::{BrokenLink, BrokenReason, CrawlReport, RootNote};
use argiope_core::Outcome;
use argiope_core::output::escape::acts;

use super::report::{headline, in_words};
use crate::screen::wording;

const STYLE: &str = "\
:root{color-scheme:light dark;font:16px/1.45 system-ui,sans-serif}\
body{max-width:70rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}\
table{border-collapse:collapse;width:100%}\
th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8884;overflow-wrap:anywhere}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
.small{font-size:.85rem;opacity:.75}.bar{display:inline-block;height:.7rem;background:#b58900;border-radius:2px}";

/// Text that cannot become markup.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Characters that turn the direction of writing would make an address look like another.
                c if acts(c) => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// An address as a link: addresses in a report are http or https, and nothing else becomes one.
struct Link<'a>(&'a str);

impl Display for Link<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Text(self.0);
        if self.0.starts_with("https://") || self.0.starts_with("http://") {
            write!(f, "<a rel=\"noreferrer noopener\" href=\"{text}\">{text}</a>")
        } else {
            text.fmt(f)
        }
    }
}

/// The whole page.
pub fn page(report: &CrawlReport, name: &str) -> String {
    let mut html = String::new();
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\
         <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"robots\" content=\"noindex\">\
         <title>Crawl of {name}</title><style>{STYLE}</style></head>\n<body><h1>Crawl of {name}</h1>\n<p>{}</p>\n",
        Text(headline(report).trim_end()),
        name = Text(name),
    );
    outcomes(&mut html, report);
    roots(&mut html, report);
    cuts(&mut html, report);
    failures(&mut html, report);
    broken(&mut html, report);
    redirects(&mut html, report);
    extremes(&mut html, report);
    hosts(&mut html, report);
    types(&mut html, report);
    html.push_str("</body></html>\n");
    html
}

/// A table with a title; rows are written by `rows`. `hidden` is how many the list leaves out.
fn table(html: &mut String, title: &str, heads: &[&str], hidden: u64, rows: impl FnOnce(&mut String)) {
    let _ = write!(html, "<h2>{}</h2>\n<table><tr>", Text(title));
    for head in heads {
        // A head that begins with # is one of numbers.
        let (class, head) = head.strip_prefix('#').map_or(("", *head), |head| (" class=\"n\"", head));
        let _ = write!(html, "<th{class}>{}</th>", Text(head));
    }
    html.push_str("</tr>\n");
    rows(html);
    html.push_str("</table>\n");
    if hidden > 0 {
        let _ = writeln!(html, "<p class=\"small\">… and {} more</p>", wording::count(hidden));
    }
}

fn outcomes(html: &mut String, report: &CrawlReport) {
    let total = report.outcomes.total().max(1);
    table(html, "Outcomes", &["outcome", "#URLs", ""], 0, |html| {
        for (outcome, number) in report.outcomes.iter() {
            let width = number.saturating_mul(100).div_ceil(total);
            let _ = writeln!(
                html,
                "<tr><td>{}</td><td class=\"n\">{}</td><td style=\"width:50%\"><span class=\"bar\" style=\"width:{width}%\"></span></td></tr>",
                wording::outcome(outcome),
                wording::count(number)
            );
        }
    });
    if !report.statuses.is_empty() {
        table(html, "Statuses", &["status", "#answers"], 0, |html| {
            for (status, number) in &report.statuses {
                let phrase = wording::status(*status);
                let _ = writeln!(
                    html,
                    "<tr><td>{status} {phrase}</td><td class=\"n\">{}</td></tr>",
                    wording::count(*number)
                );
            }
        });
    }
}

fn roots(html: &mut String, report: &CrawlReport) {
    if report.roots.is_empty() {
        return;
    }
    table(html, "Roots", &["root", ""], 0, |html| {
        for note in &report.roots {
            let (url, words) = match note {
                RootNote::Dead { url, fault } | RootNote::Refused { url, fault } => (url, cause(fault)),
                RootNote::Forbidden { url } => (url, "robots.txt forbids it".to_owned()),
                RootNote::Elsewhere { url, to } => (url, format!("leads out of scope, to {}", Link(to))),
            };
            let _ = writeln!(html, "<tr><td>{}</td><td>{words}</td></tr>", Link(url));
        }
    });
}

fn cuts(html: &mut String, report: &CrawlReport) {
    if report.cuts.is_empty() {
        return;
    }
    table(html, "Left out as endless", &["where", "#links", "why", "such as", "to go on"], 0, |html| {
        for cut in &report.cuts {
            let _ = writeln!(
                html,
                "<tr><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                Text(&cut.at),
                wording::count(cut.left),
                Text(cut.rule.words()),
                Link(&cut.example),
                Text(cut.rule.advice()),
            );
        }
    });
}

fn cause(fault: &BrokenReason) -> String {
    Text(&in_words(fault)).to_string()
}

fn failures(html: &mut String, report: &CrawlReport) {
    if report.failures.is_empty() {
        return;
    }
    table(html, "What went wrong", &["cause", "#URLs"], 0, |html| {
        for (kind, number) in &report.failures {
            let (words, number) = (wording::failure(*kind), wording::count(*number));
            let _ = writeln!(html, "<tr><td>{words} ({kind})</td><td class=\"n\">{number}</td></tr>");
        }
    });
}

fn broken(html: &mut String, report: &CrawlReport) {
    if report.broken_total == 0 {
        return;
    }
    let hidden = report.broken_total.saturating_sub(report.broken.len() as u64);
    let title = format!("Broken links ({})", wording::count(report.broken_total));
    table(html, &title, &["link", "cause", "on"], hidden, |html| {
        for BrokenLink { url, fault, on, more } in &report.broken {
            let mut pages: Vec<String> = on.iter().map(|page| Link(page).to_string()).collect();
            if on.is_empty() {
                pages.push("given as a root".to_owned());
            }
            if *more > 0 {
                pages.push(format!("and {}", wording::plural(*more, "more page")));
            }
            let _ = writeln!(
                html,
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
                Link(url),
                cause(fault),
                pages.join("<br>")
            );
        }
    });
}

fn redirects(html: &mut String, report: &CrawlReport) {
    if report.redirects.is_empty() {
        return;
    }
    let total = report.outcomes.get(Outcome::Redirect);
    let hidden = total.saturating_sub(report.redirects.len() as u64);
    table(html, &format!("Redirects ({})", wording::count(total)), &["#status", "from", "to"], hidden, |html| {
        for redirect in &report.redirects {
            let status = redirect.status.map_or(String::new(), |status| status.to_string());
            let (from, to) = (Link(&redirect.from), Link(&redirect.to));
            let _ = writeln!(html, "<tr><td class=\"n\">{status}</td><td>{from}</td><td>{to}</td></tr>");
        }
    });
}

fn extremes(html: &mut String, report: &CrawlReport) {
    if !report.slowest.is_empty() {
        table(html, "Slowest pages", &["#time", "page"], 0, |html| {
            for (time, url) in report.slowest.iter() {
                let _ = writeln!(html, "<tr><td class=\"n\">{}</td><td>{}</td></tr>", wording::span(time), Link(url));
            }
        });
    }
    if !report.largest.is_empty() {
        table(html, "Largest pages", &["#size", "page"], 0, |html| {
            for (size, url) in report.largest.iter() {
                let _ = writeln!(html, "<tr><td class=\"n\">{}</td><td>{}</td></tr>", wording::bytes(size), Link(url));
            }
        });
    }
}

fn hosts(html: &mut String, report: &CrawlReport) {
    let hidden = report.other_hosts.pages;
    table(html, "Hosts", &["host", "#pages", "#bytes", "#broken"], 0, |html| {
        for (host, sum) in &report.hosts {
            let (pages, broken) = (wording::count(sum.pages), wording::count(sum.broken));
            let _ = writeln!(
                html,
                "<tr><td>{}</td><td class=\"n\">{pages}</td><td class=\"n\">{}</td><td class=\"n\">{broken}</td></tr>",
                Text(host),
                wording::bytes(sum.bytes),
            );
        }
    });
    if hidden > 0 {
        let _ = writeln!(html, "<p class=\"small\">… and {} of other hosts</p>", wording::plural(hidden, "page"));
    }
}

fn types(html: &mut String, report: &CrawlReport) {
    if report.types.is_empty() {
        return;
    }
    table(html, "Media types", &["type", "#pages"], 0, |html| {
        for (kind, number) in &report.types {
            let _ = writeln!(html, "<tr><td>{}</td><td class=\"n\">{}</td></tr>", Text(kind), wording::count(*number));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_the_web_becomes_markup() {
        let mut report = CrawlReport::default();
        report.types.insert("text/<script>alert(1)</script>".into(), 1);
        report.redirects.push(crate::report::Redirected {
            from: "javascript:alert(1)".into(),
            to: "https://h/?\"onmouseover='x'&\u{202e}".into(),
            status: Some(301),
            on: None,
        });
        let html = page(&report, "<b>");
        assert!(!html.contains("<script") && !html.contains("<b>") && !html.contains("\"onmouse"), "{html}");
        assert!(!html.contains("href=\"javascript:") && !html.contains('\u{202e}'), "{html}");
        assert!(html.contains("https://h/?&quot;onmouseover=&#39;x&#39;&amp;\u{fffd}"), "{html}");
    }
}
