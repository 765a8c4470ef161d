//! The lists of URLs that the numbers on the page link to. A list has at most the first hundred URLs, fewer if the URLs
//! are long, and the command that lists all.
//!
//! Invariant: the size of all lists together is limited, so that the page is small even if URLs are long.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::ReportPage;
use super::markup::{Text, UrlLink};
use crate::audit::Finding;
use crate::report::detail::MAX_GROUP_URLS;
use crate::wording;

/// Maximum bytes of all lists together.
const MAX_LISTS_BYTES: usize = 2_600_000;
/// Maximum bytes of one list.
const MAX_LIST_BYTES: usize = 24_000;
/// Maximum characters of the detail of a finding.
const MAX_DETAIL_CHARS: usize = 300;

/// The URL lists that numbers on the page link to.
pub struct Lists<'a> {
    page: &'a ReportPage<'a>,
    /// Groups in the order in which their lists were requested.
    groups: Vec<String>,
    /// The position of each group in `groups`.
    positions: HashMap<String, usize>,
    /// Bytes that the lists may still take.
    bytes_left: usize,
}

impl<'a> Lists<'a> {
    pub fn new(page: &'a ReportPage<'a>) -> Self {
        Self { page, groups: Vec::new(), positions: HashMap::new(), bytes_left: MAX_LISTS_BYTES }
    }

    /// The anchor of the URL list of a group. Requests the list if it was not requested before.
    pub fn anchor(&mut self, group: &str) -> String {
        let next = self.groups.len();
        let position = *self.positions.entry(group.to_owned()).or_insert_with(|| {
            self.groups.push(group.to_owned());
            next
        });
        format!("g{position}")
    }

    /// A number as a link to the list of its URLs.
    pub fn linked_number(&mut self, number: u64, group: &str) -> String {
        let text = wording::count(number);
        if self.page.detail.get(group).is_none() {
            return text;
        }
        format!("<a href=\"#{}\">{text}</a>", self.anchor(group))
    }

    /// Writes the pages of a finding as list items.
    pub fn append_finding(&mut self, html: &mut String, finding: &Finding) {
        let mut items = String::new();
        for page in finding.pages.iter().take(MAX_GROUP_URLS) {
            let gap = if page.detail.is_empty() { "" } else { " · " };
            let detail: String = page.detail.chars().take(MAX_DETAIL_CHARS).collect();
            let item = format!("<li>{}{gap}<span class=\"muted\">{}</span></li>", UrlLink(&page.url), Text(&detail));
            if items.len() + item.len() > MAX_LIST_BYTES.min(self.bytes_left) {
                break;
            }
            items.push_str(&item);
        }
        self.bytes_left = self.bytes_left.saturating_sub(items.len());
        html.push_str(&items);
    }

    /// Writes all lists that were requested.
    pub fn render(mut self, html: &mut String) {
        html.push_str(
            "<h2 id=\"urls\">URLs behind the numbers</h2>\n<p class=\"muted\">At most the first hundred of each; fewer if the URLs are long.</p>\n",
        );
        for (position, group) in self.groups.iter().enumerate() {
            let Some(found) = self.page.detail.get(group) else { continue };
            let mut items = String::new();
            for url in found.urls.iter().take(MAX_GROUP_URLS) {
                let item = format!("<li>{}</li>", UrlLink(url));
                if items.len() + item.len() > MAX_LIST_BYTES.min(self.bytes_left) {
                    break;
                }
                items.push_str(&item);
            }
            self.bytes_left = self.bytes_left.saturating_sub(items.len());
            // Browsers open closed details that contain the target of a link.
            let _ = writeln!(
                html,
                "<details><summary>{}: {}</summary><div id=\"g{position}\"><p class=\"muted\">All of them: <code>argiope report {} --list '{}'</code></p><ol>{items}</ol></div></details>",
                Text(group),
                wording::plural(found.count, "URL"),
                Text(self.page.directory),
                Text(group),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Audit, AuditedPage, CATALOGUE};
    use crate::report::CrawlReport;
    use crate::report::detail::ReportDetail;

    #[test]
    fn the_list_of_a_finding_does_not_exceed_the_limit_on_lists() {
        let (report, detail, audit) = (CrawlReport::default(), ReportDetail::default(), Audit::default());
        let page = ReportPage {
            report: &report,
            detail: &detail,
            audit: &audit,
            run: &crate::report::RunFacts::default(),
            name: "h",
            directory: "d",
        };
        let url = format!("https://h/{}", "x".repeat(1_000));
        let pages = vec![AuditedPage { url, detail: String::new() }; MAX_GROUP_URLS];
        let finding = Finding { kind: &CATALOGUE[0], total: pages.len() as u64, pages };
        let mut html = String::new();
        Lists::new(&page).append_finding(&mut html, &finding);
        assert!(html.contains("<li>") && html.len() <= MAX_LIST_BYTES, "{} bytes", html.len());
    }
}
