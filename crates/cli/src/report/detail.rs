//! [`ReportDetail`]: the URLs of a crawl in groups, such as by status or by host, with counts and the first URLs of each.
//!
//! Invariant: memory is bounded. The number of groups is limited; the counts of the groups that are kept are exact.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::Duration;

use argiope_core::crawl::status::OutcomeCounts;
use argiope_core::{ErrorKind, Outcome};

use super::{LoopMember, PageSummary};

/// How many URLs of a group are kept.
pub const MAX_GROUP_URLS: usize = 100;
/// How many groups are counted separately.
const MAX_GROUPS: usize = 20_000;
/// How many groups keep their first URLs.
const MAX_LISTED: usize = 4_000;
/// Maximum number of columns of the timeline.
const MAX_COLUMNS: usize = 120;
/// The time that a column of the timeline covers at the start.
const FIRST_COLUMN_WIDTH: Duration = Duration::from_millis(100);
/// Maximum number of nodes of the site's tree.
const MAX_NODES: usize = 4_000;
/// How many levels of folders below a host are in the tree.
const TREE_DEPTH: usize = 3;
/// URLs that are deeper than this are counted at this depth.
pub const MAX_DEPTH: u32 = 20;

/// Upper bounds of response times in milliseconds, with the name of each group.
pub const TIMES: &[(u64, &str)] = &[
    (10, "10 ms"),
    (20, "20 ms"),
    (50, "50 ms"),
    (100, "100 ms"),
    (200, "200 ms"),
    (500, "500 ms"),
    (1_000, "1 s"),
    (2_000, "2 s"),
    (5_000, "5 s"),
    (10_000, "10 s"),
    (u64::MAX, "more"),
];
/// Upper bounds of body sizes in bytes, with the name of each group.
pub const SIZES: &[(u64, &str)] = &[
    (1_000, "1 KB"),
    (5_000, "5 KB"),
    (10_000, "10 KB"),
    (25_000, "25 KB"),
    (50_000, "50 KB"),
    (100_000, "100 KB"),
    (250_000, "250 KB"),
    (500_000, "500 KB"),
    (1_000_000, "1 MB"),
    (5_000_000, "5 MB"),
    (u64::MAX, "more"),
];

/// URLs that are counted together in the report, for example all with status 404.
#[derive(Clone, Debug, Default)]
pub struct UrlGroup {
    pub count: u64,
    pub outcomes: OutcomeCounts,
    /// How many of the URLs are broken.
    pub broken: u64,
    /// Bytes received.
    pub bytes: u64,
    /// The sum of the response times.
    pub time: Duration,
    /// The first URLs of the group.
    pub urls: Vec<Box<str>>,
}

/// The groups of a crawl, its timeline, and its folders.
#[derive(Debug, Default)]
pub struct ReportDetail {
    /// By name, such as `status:404` or `section:h.example/docs/`.
    pub groups: HashMap<String, UrlGroup>,
    pub timeline: Timeline,
    pub tree: SiteTree,
    /// A buffer for names of groups.
    scratch: String,
}

/// Calls `each` with the name of every group that a page belongs to. `link_depth` is the number of links from a root
/// to the page. The names are built in `scratch`, which is reused so that they need no allocation.
pub fn each_group(page: &PageSummary<'_>, link_depth: u32, scratch: &mut String, mut each: impl FnMut(&str)) {
    let mut emit = |arguments: std::fmt::Arguments<'_>| {
        scratch.clear();
        let _ = scratch.write_fmt(arguments);
        each(scratch);
    };
    emit(format_args!("outcome:{}", page.outcome));
    if let Some(status) = page.status {
        emit(format_args!("status:{status}"));
    }
    if let Some(error) = page.error {
        emit(format_args!("error:{}", error.kind));
    }
    if page.is_broken() {
        emit(format_args!("broken"));
    }
    if page.truncated.is_some() {
        emit(format_args!("truncated"));
    }
    if let Some(kind) = page.content_type.filter(|_| page.bytes_body > 0) {
        emit(format_args!("type:{kind}"));
    }
    emit(format_args!("depth:{}", link_depth.min(MAX_DEPTH)));
    emit(format_args!("host:{}", page.host));
    emit(format_args!("section:{}{}", page.host, section(page.url)));
    if let Some(total) = page.total {
        let millis = u64::try_from(total.as_millis()).unwrap_or(u64::MAX);
        emit(format_args!("time:{}", group_name(TIMES, millis)));
    }
    if page.bytes_body > 0 {
        emit(format_args!("size:{}", group_name(SIZES, page.bytes_body)));
    }
}

/// Whether this can be the name of a group. The part after a colon is checked only for outcomes and errors.
pub fn is_group(name: &str) -> bool {
    match name.split_once(':') {
        None => matches!(name, "broken" | "truncated"),
        Some(("outcome", outcome)) => Outcome::from_name(outcome).is_some(),
        Some(("error", kind)) => ErrorKind::from_name(kind).is_some(),
        Some((kind, _)) => ["status", "type", "depth", "host", "section", "time", "size"].contains(&kind),
    }
}

/// The name of the first group whose upper bound is not below the value.
fn group_name(bounds: &[(u64, &'static str)], value: u64) -> &'static str {
    bounds.iter().find(|(bound, _)| value <= *bound).map_or("more", |(_, name)| name)
}

/// The path of a URL, without query.
fn path(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').map_or("/", |slash| rest.get(slash..).unwrap_or("/"));
    path.split(['?', '#']).next().unwrap_or("/")
}

/// The first folder of a URL's path: `/docs/`, or `/`.
pub fn section(url: &str) -> &str {
    let path = path(url);
    match path.get(1..).and_then(|rest| rest.find('/')) {
        Some(end) => path.get(..end + 2).unwrap_or("/"),
        None => "/",
    }
}

impl ReportDetail {
    /// Adds one URL. `depth` is the number of links from a root to it. `since_start` is the time of its request since the start
    /// of the crawl.
    pub fn add(&mut self, page: &PageSummary<'_>, depth: u32, since_start: Option<Duration>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        each_group(page, depth, &mut scratch, |name| {
            let has_room = self.groups.len() < MAX_GROUPS;
            let may_list = self.groups.len() < MAX_LISTED;
            let group = match self.groups.get_mut(name) {
                Some(group) => group,
                None if has_room => self.groups.entry(name.to_owned()).or_default(),
                None => return,
            };
            group.count += 1;
            group.outcomes.add(page.outcome);
            group.broken += u64::from(page.is_broken());
            group.bytes += page.bytes_wire;
            group.time += page.total.unwrap_or_default();
            // A group that lists URLs continues to do so, even if there are more than `MAX_LISTED` groups now.
            if group.urls.len() < MAX_GROUP_URLS && (may_list || !group.urls.is_empty()) {
                group.urls.push(page.url.into());
            }
        });
        self.scratch = scratch;
        if let Some(since_start) = since_start {
            self.timeline.add(since_start, page);
        }
        self.tree.add(page);
    }

    /// Counts a member of a redirect loop as broken. The page itself was added before, when the loop was not known.
    pub fn add_loop_member(&mut self, member: &LoopMember) {
        let page = member.summary();
        let mut scratch = std::mem::take(&mut self.scratch);
        each_group(&page, page.depth, &mut scratch, |name| match name {
            "broken" => {
                let group = self.groups.entry(name.to_owned()).or_default();
                group.count += 1;
                group.broken += 1;
                group.outcomes.add(page.outcome);
                if group.urls.len() < MAX_GROUP_URLS {
                    group.urls.push(page.url.into());
                }
            }
            // The record of the member has no error, so the groups of errors do not count it.
            _ if name.starts_with("error:") => {}
            _ => {
                if let Some(group) = self.groups.get_mut(name) {
                    group.broken += 1;
                }
            }
        });
        self.scratch = scratch;
        self.tree.add_broken(&page);
    }

    /// The group with this name.
    pub fn get(&self, name: &str) -> Option<&UrlGroup> {
        self.groups.get(name)
    }

    /// The groups whose names begin with `family` and a colon, such as `host`, largest first. The names are returned without
    /// that prefix.
    pub fn family(&self, family: &str) -> Vec<(&str, &UrlGroup)> {
        let prefix = format!("{family}:");
        let mut groups: Vec<(&str, &UrlGroup)> =
            self.groups.iter().filter_map(|(name, group)| Some((name.strip_prefix(&prefix)?, group))).collect();
        groups.sort_by(|(a, one), (b, other)| other.count.cmp(&one.count).then(a.cmp(b)));
        groups
    }
}

/// Outcomes over time. If there are too many columns, pairs of columns are merged.
#[derive(Debug)]
pub struct Timeline {
    /// The time that one column covers.
    pub width: Duration,
    pub columns: Vec<OutcomeCounts>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { width: FIRST_COLUMN_WIDTH, columns: Vec::new() }
    }
}

impl Timeline {
    fn add(&mut self, since_start: Duration, page: &PageSummary<'_>) {
        let mut column = column(since_start, self.width);
        while column >= MAX_COLUMNS {
            self.width *= 2;
            let merged =
                self.columns.chunks(2).map(|pair| pair.iter().flat_map(OutcomeCounts::iter).collect::<OutcomeCounts>());
            self.columns = merged.collect();
            column = self::column(since_start, self.width);
        }
        if self.columns.len() <= column {
            self.columns.resize(column + 1, OutcomeCounts::default());
        }
        if let Some(counts) = self.columns.get_mut(column) {
            counts.add(page.outcome);
        }
    }
}

/// The number of the column that contains a time.
fn column(since_start: Duration, width: Duration) -> usize {
    usize::try_from(since_start.as_millis() / width.as_millis().max(1)).unwrap_or(usize::MAX)
}

/// The site by hosts and folders, with how many pages and broken links are in each.
#[derive(Debug, Default)]
pub struct SiteTree {
    /// The first node is the root, above all hosts.
    pub nodes: Vec<TreeNode>,
}

/// A host or a folder. The counts include the folders below it.
#[derive(Debug, Default)]
pub struct TreeNode {
    pub name: Box<str>,
    pub pages: u64,
    pub broken: u64,
    /// The numbers of the child nodes, by name.
    pub children: BTreeMap<Box<str>, usize>,
}

/// The names of the nodes of a page below the root of the tree: its host, then its first folders.
fn node_names<'a>(page: &PageSummary<'a>) -> Vec<&'a str> {
    let mut folders: Vec<&str> = path(page.url).split('/').skip(1).collect();
    // The last segment is the page itself.
    folders.pop();
    std::iter::once(page.host).chain(folders.into_iter().take(TREE_DEPTH)).collect()
}

impl SiteTree {
    fn add(&mut self, page: &PageSummary<'_>) {
        if self.nodes.is_empty() {
            self.nodes.push(TreeNode::default());
        }
        let broken = u64::from(page.is_broken());
        let mut current = 0;
        self.count(current, broken);
        for name in node_names(page) {
            let has_room = self.nodes.len() < MAX_NODES;
            let next = match self.nodes.get(current).and_then(|node| node.children.get(name)) {
                Some(next) => *next,
                None if has_room => {
                    let next = self.nodes.len();
                    self.nodes.push(TreeNode { name: name.into(), ..TreeNode::default() });
                    if let Some(node) = self.nodes.get_mut(current) {
                        node.children.insert(name.into(), next);
                    }
                    next
                }
                None => return,
            };
            self.count(next, broken);
            current = next;
        }
    }

    /// Counts a page that was added before as broken.
    fn add_broken(&mut self, page: &PageSummary<'_>) {
        let mut current = Some(0);
        let mut names = node_names(page).into_iter();
        while let Some(node) = current.and_then(|number| self.nodes.get_mut(number)) {
            node.broken += 1;
            current = names.next().and_then(|name| node.children.get(name).copied());
        }
    }

    /// Counts one page in a node.
    fn count(&mut self, node: usize, broken: u64) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.pages += 1;
            node.broken += broken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_the_first_folder() {
        for (url, expected) in [
            ("https://h/", "/"),
            ("https://h/page", "/"),
            ("https://h/docs/", "/docs/"),
            ("https://h/docs/a/b?x=/y/", "/docs/"),
            ("https://h", "/"),
            ("https://h/?q=/a/", "/"),
        ] {
            assert_eq!(section(url), expected, "{url}");
        }
    }

    #[test]
    fn a_value_belongs_to_the_group_of_the_next_upper_bound() {
        assert_eq!(
            (group_name(TIMES, 10), group_name(TIMES, 11), group_name(TIMES, 1 << 40)),
            ("10 ms", "20 ms", "more")
        );
    }
}
