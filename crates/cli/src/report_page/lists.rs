//! The URLs behind the numbers: the first hundred for each number, and the command that lists all.
//!
//! Invariant: all lists together stay within a budget, so that the page stays small even if URLs are long.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::ReportPage;
use super::markup::{Text, UrlLink};
use crate::audit::Finding;
use crate::report::detail::FIRST_URLS;
use crate::screen::wording;

/// Maximum bytes of all lists together.
const BUDGET: usize = 2_600_000;
/// Maximum bytes of one list.
const ONE_LIST: usize = 24_000;

/// The URL lists that numbers on the page link to.
pub struct Lists<'a> {
    page: &'a ReportPage<'a>,
    /// Groups in the order in which they were requested.
    wanted: Vec<String>,
    places: HashMap<String, usize>,
    left: usize,
}

impl<'a> Lists<'a> {
    pub fn new(page: &'a ReportPage<'a>) -> Self {
        Self { page, wanted: Vec::new(), places: HashMap::new(), left: BUDGET }
    }

    /// The anchor of the URL list of a group.
    pub fn target(&mut self, group: &str) -> String {
        let next = self.wanted.len();
        let place = *self.places.entry(group.to_owned()).or_insert_with(|| {
            self.wanted.push(group.to_owned());
            next
        });
        format!("g{place}")
    }

    /// A number that links to its URLs.
    pub fn number(&mut self, number: u64, group: &str) -> String {
        let text = wording::count(number);
        if self.page.detail.get(group).is_none() {
            return text;
        }
        format!("<a href=\"#{}\">{text}</a>", self.target(group))
    }

    /// Writes the pages of a finding as list items.
    pub fn finding(&mut self, html: &mut String, finding: &Finding) {
        let mut items = String::new();
        for page in finding.pages.iter().take(FIRST_URLS) {
            let gap = if page.detail.is_empty() { "" } else { " · " };
            let detail: String = page.detail.chars().take(300).collect();
            let _ = write!(items, "<li>{}{gap}<span class=\"muted\">{}</span></li>", UrlLink(&page.url), Text(&detail));
            if items.len() > ONE_LIST.min(self.left) {
                break;
            }
        }
        self.left = self.left.saturating_sub(items.len());
        html.push_str(&items);
    }

    /// Writes all lists that were requested.
    pub fn render(mut self, html: &mut String) {
        html.push_str(
            "<h2 id=\"urls\">URLs behind the numbers</h2>\n<p class=\"muted\">The first hundred of each.</p>\n",
        );
        for (place, group) in self.wanted.iter().enumerate() {
            let Some(found) = self.page.detail.get(group) else { continue };
            let mut items = String::new();
            for url in found.urls.iter().take(FIRST_URLS) {
                let item = format!("<li>{}</li>", UrlLink(url));
                if items.len() + item.len() > ONE_LIST.min(self.left) {
                    break;
                }
                items.push_str(&item);
            }
            self.left = self.left.saturating_sub(items.len());
            // Browsers open closed details that contain the target of a link.
            let _ = writeln!(
                html,
                "<details><summary>{}: {}</summary><div id=\"g{place}\"><p class=\"muted\">All of them: <code>argiope report {} --list '{}'</code></p><ol>{items}</ol></div></details>",
                Text(group),
                wording::plural(found.count, "URL"),
                Text(self.page.directory),
                Text(group),
            );
        }
    }
}
