//! [`Robots`]: the rules of one robots.txt for one crawler, according to RFC 9309.
//!
//! Invariant: parsing takes time linear in the length of the file. Judging a target takes time linear in its length and
//! in the number of rules with wildcards. No file can make either fail.
//!
//! Decisions where the RFC is silent or the public test sets disagree (all covered by tests):
//! - A product token may also contain digits (`MJ12bot`). It ends at the first other character, both in the file and in
//!   our user agent.
//! - A user-agent line may name several crawlers, separated by commas.
//! - The longest rule is the one with the most octets in normal form, and wildcards count: `/*` has precedence over `/`.
//! - `Crawl-delay` applies to the last block of user-agent lines before it. It does not end a group: user-agent lines
//!   before and after it share the rules that follow. If several delays apply, the longest one counts.
//! - A line is read up to 16,663 bytes, the file up to 500 KiB. If the limit on the file cuts a line, the line is
//!   dropped.
//! - If the file is an HTML page, its tags are removed. UTF-16 is decoded.

mod answer;
mod lines;
mod pattern;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hashbrown::HashSet;

pub use answer::{RobotsAnswer, RobotsResponse};
#[cfg(test)]
pub(crate) use lines::MAX_LINE;
pub use lines::{MAX_ROBOTS_BYTES, RobotsField, RobotsLine, RobotsLines, prepare};
pub use pattern::RobotsPattern;

use crate::base::url::Url;

/// Limit on the octets of patterns and target that one decision compares. The keeper decides for all hosts, so one host
/// must not take much of its time. A file with 10,000 patterns and a target of 100 octets stays below the limit.
pub(crate) const MAX_MATCH_WORK: usize = 2 << 20;

/// The rules of one robots.txt for one crawler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Robots {
    /// The texts of the rules as received, each followed by its normal form if that differs.
    text: Box<[u8]>,
    /// Rules that are plain prefixes, sorted by pattern, without duplicates.
    plain: Box<[Rule]>,
    /// For each plain rule, the longest other plain rule that is a prefix of it, as index + 1; 0 if there is none.
    parents: Box<[u32]>,
    /// Rules with `*` or `$`, longest first, Allow first among equals.
    wild: Box<[Rule]>,
    delay: Option<Duration>,
    sitemaps: Box<[Box<str>]>,
    /// Whether a group names the crawler itself, not only `*`.
    has_own_group: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    /// Start and end of the value as received, in the `text` of the [`Group`] and then of the [`Robots`].
    received: (u32, u32),
    /// Start and end of its normal form.
    normal: (u32, u32),
    /// The number of its line in the file.
    line: u32,
    /// The length that decides between matching rules: see [`RobotsPattern::octets`].
    octets: u32,
    /// Whether it is an Allow rule, not a Disallow rule.
    allow: bool,
    /// Whether the pattern ends in `$`.
    anchored: bool,
}

/// Whether a target may be fetched, and the deciding line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsVerdict {
    pub allowed: bool,
    /// The number of the deciding line, from 1, and its rule. `None` if no rule matches.
    pub line: Option<(u32, Box<str>)>,
}

/// The product token of a user agent: the name at its start, by which robots.txt files refer to the crawler.
pub fn product_token(user_agent: &str) -> &str {
    let text = user_agent.trim_start();
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).next().unwrap_or(text)
}

/// The request target of a text, which is a URL with or without a scheme, or a path.
pub fn target_of(text: &str) -> Option<String> {
    let target = |url: String| Url::parse(&url).ok().map(|url| url.target().to_owned());
    let head = text.split(['/', '?']).next().unwrap_or(text);
    match text {
        "" => Some("/".to_owned()),
        _ if text.starts_with("//") => target(format!("http:{text}")),
        _ if text.starts_with('/') => target(format!("http://host{text}")),
        // It has a scheme.
        _ if head.ends_with(':') => target(text.to_owned()),
        _ => target(format!("http://{text}")),
    }
}

/// Whether a text is a product token by RFC 9309: letters, `-` and `_`, without the digits that [`product_token`]
/// accepts.
pub fn is_product_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-' || b == b'_')
}

impl Robots {
    /// The rules of a host without a robots.txt: everything is allowed. Shared, because most hosts have none.
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Robots>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }

    /// Parses a file for the crawler `agent` (its user agent, or the token alone).
    pub fn parse(bytes: &[u8], agent: &str) -> Self {
        let mut parser = Parser::new(product_token(agent));
        let text = lines::prepare(bytes);
        for line in RobotsLines::new(&text) {
            parser.read_line(&line);
        }
        parser.finish()
    }

    /// Names (in lower case) and values of the records that apply to the crawler and do not control fetching, such as
    /// `Request-rate` and `Content-Signal`. They are only displayed.
    pub fn other_records(bytes: &[u8], agent: &str) -> Vec<(String, String)> {
        let mut parser = Parser::new(product_token(agent));
        let text = lines::prepare(bytes);
        // Whether the record applies to the crawler by name, whether it applies to `*`, its name and its value.
        let mut records = Vec::new();
        for line in RobotsLines::new(&text) {
            parser.read_line(&line);
            if matches!(line.field, RobotsField::Other | RobotsField::Unknown) {
                // Some records apply to every crawler wherever they occur. The others apply where a Crawl-delay would.
                let is_global = lines::is_global(line.name) || !parser.has_user_agent;
                let (own, star) = (parser.own.is_delay_current, parser.star.is_delay_current);
                let name = lines::canonical_name(line.name);
                let value = String::from_utf8_lossy(line.value).into_owned();
                records.push((is_global || own, is_global || star, name, value));
            }
        }
        let has_own_group = parser.own.exists;
        records.retain(|(own, star, ..)| if has_own_group { *own } else { *star });
        records.into_iter().map(|(_, _, name, value)| (name, value)).collect()
    }

    /// Whether a group names the crawler itself, not only `*`.
    pub fn has_own_group(&self) -> bool {
        self.has_own_group
    }

    /// The number of rules that apply to the crawler, without duplicates.
    pub fn len(&self) -> usize {
        self.plain.len() + self.wild.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Heap bytes of the rules.
    pub fn weight(&self) -> usize {
        let rules = size_of_val(&*self.plain) + size_of_val(&*self.wild) + size_of_val(&*self.parents);
        let sitemaps: usize = self.sitemaps.iter().map(|text| size_of_val(text) + text.len()).sum();
        size_of::<Self>() + self.text.len() + rules + sitemaps
    }

    /// The delay between requests, if the file has one.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.delay
    }

    /// The URLs of sitemaps as received. Relative ones must be resolved against the URL of the file.
    pub fn sitemaps(&self) -> &[Box<str>] {
        &self.sitemaps
    }

    /// Whether a request target (path and query) may be fetched.
    pub fn allows(&self, target: &str) -> bool {
        self.decide(target).is_none_or(|rule| rule.allow)
    }

    /// Like [`allows`](Self::allows), with the deciding line.
    pub fn judge(&self, target: &str) -> RobotsVerdict {
        let rule = self.decide(target);
        RobotsVerdict {
            allowed: rule.is_none_or(|rule| rule.allow),
            line: rule.map(|rule| {
                let name = if rule.allow { "Allow" } else { "Disallow" };
                let value = String::from_utf8_lossy(self.slice(rule.received));
                (rule.line, format!("{name}: {value}").into())
            }),
        }
    }

    /// The rule that decides about a target; `None` if no rule matches.
    fn decide(&self, target: &str) -> Option<&Rule> {
        let path = pattern::normal_target(target);
        // The robots.txt itself is always allowed (RFC 9309, section 2.2.2).
        if matches!(&*path, b"/robots.txt") || path.starts_with(b"/robots.txt?") {
            return None;
        }
        let plain = self.longest_prefix(&path);
        let min_octets = plain.map_or(0, |rule| rule.octets);
        let candidates = self.wild.iter().take_while(|rule| rule.octets >= min_octets);
        let mut wild = None;
        let mut work = 0;
        for rule in candidates {
            let pattern = self.slice(rule.normal);
            work += pattern.len() + path.len();
            if work > MAX_MATCH_WORK {
                // The work limit is reached. To be safe, assume that the longest Disallow rule matches.
                wild = self.wild.iter().find(|rule| !rule.allow);
                break;
            }
            if pattern::matches(pattern, rule.anchored, &path) {
                wild = Some(rule);
                break;
            }
        }
        // Below the work limit, `wild` is at least as long as `plain`. If it is longer, it decides. At equal length, an
        // Allow rule decides. If both are of the same kind, `plain` decides.
        match (plain, wild) {
            (Some(plain), Some(wild)) if wild.octets == plain.octets && (plain.allow || !wild.allow) => Some(plain),
            (plain, wild) => wild.or(plain),
        }
    }

    /// The longest plain rule that is a prefix of the path.
    ///
    /// All prefixes of the path sort before the path. The last rule that sorts before it has the longest common prefix
    /// with it. So the result is that rule or one of its own prefixes.
    fn longest_prefix(&self, path: &[u8]) -> Option<&Rule> {
        let mut index = self.plain.partition_point(|rule| self.slice(rule.normal) <= path);
        let last = self.slice(self.plain.get(index.checked_sub(1)?)?.normal);
        let common_len = last.iter().zip(path).take_while(|(a, b)| a == b).count();
        loop {
            let at = index.checked_sub(1)?;
            let rule = self.plain.get(at)?;
            if self.slice(rule.normal).len() <= common_len {
                return Some(rule);
            }
            index = *self.parents.get(at)? as usize;
        }
    }

    fn slice(&self, (start, end): (u32, u32)) -> &[u8] {
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// The parser state: one set of rules for the crawler's own name, one for `*`.
struct Parser<'a> {
    /// The product token of the crawler.
    agent: &'a str,
    own: Group,
    star: Group,
    /// True until the first rule after a user-agent line. While true, another user-agent line belongs to the same group.
    is_group_open: bool,
    /// Whether there was a user-agent line.
    has_user_agent: bool,
    /// Like `is_group_open`, for Crawl-delay: false after any other line than a user-agent line or a sitemap.
    is_delay_open: bool,
    sitemaps: Vec<Box<str>>,
    /// The same sitemaps, to find duplicates.
    known_sitemaps: HashSet<Box<str>>,
}

/// The rules of all groups in the file that name the same crawler.
#[derive(Default)]
struct Group {
    /// Whether a user-agent line names the crawler.
    exists: bool,
    /// Whether the rules on the current line apply to it.
    is_current: bool,
    /// Whether a Crawl-delay on the current line applies to it.
    is_delay_current: bool,
    delay: Option<Duration>,
    /// See [`Robots::text`].
    text: Vec<u8>,
    rules: Vec<Rule>,
}

impl<'a> Parser<'a> {
    fn new(agent: &'a str) -> Self {
        Self {
            agent,
            own: Group::default(),
            star: Group::default(),
            is_group_open: true,
            has_user_agent: false,
            is_delay_open: true,
            sitemaps: Vec::new(),
            known_sitemaps: HashSet::new(),
        }
    }

    fn read_line(&mut self, line: &RobotsLine<'_>) {
        match line.field {
            RobotsField::UserAgent => self.read_user_agent(line.value),
            RobotsField::Allow | RobotsField::Disallow => {
                self.is_group_open = false;
                self.is_delay_open = false;
                for group in [&mut self.own, &mut self.star] {
                    if group.is_current {
                        group.push(line);
                    }
                }
            }
            RobotsField::CrawlDelay => {
                self.is_delay_open = false;
                if let Some(delay) = parse_delay(line.value) {
                    for group in [&mut self.own, &mut self.star] {
                        if group.is_delay_current {
                            group.delay = group.delay.max(Some(delay));
                        }
                    }
                }
            }
            RobotsField::Sitemap => {
                let value: Box<str> = String::from_utf8_lossy(line.value).into();
                if !value.is_empty() && self.known_sitemaps.insert(value.clone()) {
                    self.sitemaps.push(value);
                }
            }
            RobotsField::Other | RobotsField::Unknown => self.is_delay_open = false,
        }
    }

    fn read_user_agent(&mut self, value: &[u8]) {
        let value = String::from_utf8_lossy(value);
        let mut names = value.split(',').map(str::trim_start);
        let is_star = names.clone().any(|name| name.split_whitespace().next() == Some("*"));
        let is_own = !self.agent.is_empty() && names.any(|name| product_token(name).eq_ignore_ascii_case(self.agent));
        for (group, is_named) in [(&mut self.own, is_own), (&mut self.star, is_star)] {
            group.is_current = is_named || (group.is_current && self.is_group_open);
            group.is_delay_current = is_named || (group.is_delay_current && self.is_delay_open);
            group.exists |= is_named;
        }
        self.has_user_agent = true;
        self.is_group_open = true;
        self.is_delay_open = true;
    }

    fn finish(self) -> Robots {
        let has_own_group = self.own.exists;
        let mut group = if has_own_group { self.own } else { self.star };
        let (mut plain, mut wild): (Vec<Rule>, Vec<Rule>) = std::mem::take(&mut group.rules)
            .into_iter()
            .partition(|rule| !rule.anchored && !group.slice(rule.normal).contains(&b'*'));
        // Of rules with the same pattern, the first Allow rule is kept, or the first Disallow rule if there is none.
        plain.sort_by(|a, b| {
            let texts = group.slice(a.normal).cmp(group.slice(b.normal));
            texts.then(b.allow.cmp(&a.allow)).then(a.line.cmp(&b.line))
        });
        plain.dedup_by(|b, a| group.slice(a.normal) == group.slice(b.normal));
        // Of rules with wildcards, only those of the same kind and pattern are duplicates. This order puts them side by
        // side.
        wild.sort_by(|a, b| {
            let rank = b.octets.cmp(&a.octets).then(b.allow.cmp(&a.allow));
            rank.then_with(|| group.slice(a.normal).cmp(group.slice(b.normal)).then(a.line.cmp(&b.line)))
        });
        wild.dedup_by(|b, a| {
            (a.octets, a.allow, a.anchored) == (b.octets, b.allow, b.anchored)
                && group.slice(a.normal) == group.slice(b.normal)
        });
        // This is the order in which patterns are tried.
        wild.sort_by(|a, b| b.octets.cmp(&a.octets).then(b.allow.cmp(&a.allow)).then(a.line.cmp(&b.line)));
        let parents = find_parents(&plain, &group);
        Robots {
            parents,
            plain: plain.into(),
            wild: wild.into(),
            delay: group.delay,
            sitemaps: self.sitemaps.into(),
            has_own_group,
            text: group.text.into(),
        }
    }
}

/// Computes [`Robots::parents`] from the sorted rules. The stack holds the rules that are prefixes of the
/// current one. The number of a rule is its index + 1.
fn find_parents(plain: &[Rule], group: &Group) -> Box<[u32]> {
    let mut stack: Vec<(u32, &[u8])> = Vec::new();
    (1u32..)
        .zip(plain)
        .map(|(number, rule)| {
            let text = group.slice(rule.normal);
            while stack.last().is_some_and(|(_, top)| !text.starts_with(top)) {
                stack.pop();
            }
            let parent = stack.last().map_or(0, |(number, _)| *number);
            stack.push((number, text));
            parent
        })
        .collect()
}

impl Group {
    fn push(&mut self, line: &RobotsLine<'_>) {
        let RobotsPattern { normal, anchored, octets } = RobotsPattern::new(line.value);
        if line.value.is_empty() {
            return; // an empty rule neither allows nor disallows anything
        }
        let received = self.push_text(line.value);
        let normal = if *normal == *line.value { received } else { self.push_text(&normal) };
        let allow = line.field == RobotsField::Allow;
        self.rules.push(Rule { received, normal, line: line.number, octets, allow, anchored });
    }

    /// Appends to the text, and returns the start and end there.
    fn push_text(&mut self, bytes: &[u8]) -> (u32, u32) {
        // The text is bounded by a few times the limit on files, far below 32 bits.
        let start = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        self.text.extend_from_slice(bytes);
        (start, u32::try_from(self.text.len()).unwrap_or(u32::MAX))
    }

    fn slice(&self, (start, end): (u32, u32)) -> &[u8] {
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// Parses a number of seconds, which may have a fraction after a point or a comma. Text after the number is ignored.
fn parse_delay(value: &[u8]) -> Option<Duration> {
    let end = value.iter().position(|b| !(b.is_ascii_digit() || matches!(b, b'.' | b','))).unwrap_or(value.len());
    let number: Cow<'_, str> = String::from_utf8_lossy(value.get(..end)?);
    let seconds: f64 = number.replace(',', ".").parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
