//! [`Robots`]: the rules of one robots.txt for one crawler, according to RFC 9309.
//!
//! Invariant: parsing takes time linear in the file; judging a target is linear in the target and in the number of
//! rules with wildcards. No file can make either fail.
//!
//! Decisions where the RFC is silent or the public test sets disagree (all covered by tests):
//! - A product token may also contain digits (`MJ12bot`). It ends at the first other character, both in the file and in
//!   our user agent.
//! - A user-agent line may name several crawlers, separated by commas.
//! - The longest rule is the one with the most octets as written, wildcards counted: `/*` beats `/`.
//! - `Crawl-delay` applies to the user-agent lines right before it; it does not end a group. Of several, the longest
//!   applies.
//! - A line is read up to 16,663 bytes, the file up to 500 KiB; if this cuts the last line, that line is dropped.
//! - If the file is an HTML page, its tags are removed; UTF-16 is decoded.

mod answer;
mod lines;
mod pattern;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hashbrown::HashSet;

pub use answer::RobotsAnswer;
#[cfg(test)]
pub(crate) use lines::MAX_LINE;
pub use lines::{MAX_ROBOTS_BYTES, RobotsField, RobotsLine, RobotsLines, prepare};
pub use pattern::RobotsPattern;

use crate::page::url::Url;

/// Limit on octets of patterns and target that one decision compares, because the keeper decides for all hosts. A file
/// with 10,000 patterns and a target of 100 octets stays below.
pub(crate) const MAX_MATCH_WORK: usize = 2 << 20;

/// The rules of one robots.txt for one crawler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Robots {
    /// The texts of the rules as received, each followed by its normal form if that differs.
    text: Box<[u8]>,
    /// Rules that are plain prefixes, sorted by pattern, without duplicates.
    plain: Box<[Rule]>,
    /// For each plain rule the nearest preceding one that is a prefix of it, as index + 1; 0 if there is none.
    shorter: Box<[u32]>,
    /// Rules with `*` or `$`, longest first, Allow first among equals.
    wild: Box<[Rule]>,
    delay: Option<Duration>,
    sitemaps: Box<[Box<str>]>,
    /// Whether a group names the crawler itself.
    named: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    /// The position of the value as received, and of its normal form.
    written: (u32, u32),
    normal: (u32, u32),
    line: u32,
    octets: u32,
    allow: bool,
    anchored: bool,
}

/// Whether a target may be fetched, and the deciding line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsVerdict {
    pub allowed: bool,
    /// The number of the deciding line, from 1, and its rule. `None` if no rule matches.
    pub line: Option<(u32, Box<str>)>,
}

/// The product token of a user agent: its first name, which robots.txt files use.
pub fn product_token(user_agent: &str) -> &str {
    let text = user_agent.trim_start();
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).next().unwrap_or(text)
}

/// The request target of a URL, with or without scheme, or of a path.
pub fn target_of(text: &str) -> Option<String> {
    let target = |url: String| Url::parse(&url).ok().map(|url| url.target().to_owned());
    let head = text.split(['/', '?']).next().unwrap_or(text);
    match text {
        "" => Some("/".to_owned()),
        _ if text.starts_with("//") => target(format!("http:{text}")),
        _ if text.starts_with('/') => target(format!("http://host{text}")),
        _ if head.ends_with(':') => target(text.to_owned()),
        _ => target(format!("http://{text}")),
    }
}

/// True if a text is a product token by RFC 9309: letters, `-` and `_`.
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
        let mut reading = Reading::new(product_token(agent));
        let text = lines::prepare(bytes);
        for line in RobotsLines::new(&text) {
            reading.line(&line);
        }
        reading.finish()
    }

    /// Other records of a file that apply to the crawler and do not control fetching (`Request-rate`, `Content-Signal`,
    /// ...), names in lower case. They are only displayed.
    pub fn others(bytes: &[u8], agent: &str) -> Vec<(String, String)> {
        let mut reading = Reading::new(product_token(agent));
        let text = lines::prepare(bytes);
        let mut records = Vec::new();
        for line in RobotsLines::new(&text) {
            reading.line(&line);
            if matches!(line.field, RobotsField::Other | RobotsField::Unknown) {
                // Some apply to every crawler wherever they occur; the others follow the rules of Crawl-delay.
                let global = lines::is_global(line.name) || !reading.started;
                let (own, star) = (reading.own.delay_current, reading.star.delay_current);
                let name = lines::canonical_name(line.name);
                records.push((global || own, global || star, name, String::from_utf8_lossy(line.value).into_owned()));
            }
        }
        let named = reading.own.exists;
        records.retain(|(own, star, ..)| if named { *own } else { *star });
        records.into_iter().map(|(_, _, name, value)| (name, value)).collect()
    }

    /// True if a group names the crawler itself, not only `*`.
    pub fn is_named(&self) -> bool {
        self.named
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
        let rules = size_of_val(&*self.plain) + size_of_val(&*self.wild) + size_of_val(&*self.shorter);
        let sitemaps: usize = self.sitemaps.iter().map(|text| size_of_val(text) + text.len()).sum();
        size_of::<Self>() + self.text.len() + rules + sitemaps
    }

    /// The delay between requests, if the file has one.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.delay
    }

    /// The URLs of sitemaps as received; relative ones must be resolved against the URL of the file.
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
                let value = String::from_utf8_lossy(self.slice(rule.written));
                (rule.line, format!("{name}: {value}").into())
            }),
        }
    }

    fn decide(&self, target: &str) -> Option<&Rule> {
        let path = pattern::normal_target(target);
        if matches!(&*path, b"/robots.txt") || path.starts_with(b"/robots.txt?") {
            return None;
        }
        let plain = self.longest_prefix(&path);
        let least = plain.map_or(0, |rule| rule.octets);
        let candidates = self.wild.iter().take_while(|rule| rule.octets >= least);
        let mut wild = None;
        let mut work = 0;
        for rule in candidates {
            let pattern = self.slice(rule.normal);
            work += pattern.len() + path.len();
            if work > MAX_MATCH_WORK {
                // The work limit is reached: treat the target as forbidden.
                wild = self.wild.iter().find(|rule| !rule.allow);
                break;
            }
            if pattern::matches(pattern, rule.anchored, &path) {
                wild = Some(rule);
                break;
            }
        }
        match (plain, wild) {
            (Some(plain), Some(wild)) if wild.octets == plain.octets && (plain.allow || !wild.allow) => Some(plain),
            (plain, wild) => wild.or(plain),
        }
    }

    /// The longest plain rule that is a prefix of the path.
    ///
    /// Every prefix of the path sorts before it, and the last rule before it shares with the path the longest common
    /// prefix. So the answer is that rule or one of its own prefixes.
    fn longest_prefix(&self, path: &[u8]) -> Option<&Rule> {
        let mut index = self.plain.partition_point(|rule| self.slice(rule.normal) <= path);
        let last = self.slice(self.plain.get(index.checked_sub(1)?)?.normal);
        let common = last.iter().zip(path).take_while(|(a, b)| a == b).count();
        loop {
            let at = index.checked_sub(1)?;
            let rule = self.plain.get(at)?;
            if self.slice(rule.normal).len() <= common {
                return Some(rule);
            }
            index = *self.shorter.get(at)? as usize;
        }
    }

    fn slice(&self, (start, end): (u32, u32)) -> &[u8] {
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// The parser state: one set of rules for the crawler's own name, one for `*`.
struct Reading<'a> {
    agent: &'a str,
    own: Group,
    star: Group,
    /// No rule since the last user-agent line: the next user-agent line belongs to the same group.
    open: bool,
    /// A user-agent line was seen.
    started: bool,
    /// Like `open`, for Crawl-delay: no other line since the last user-agent line, except sitemaps.
    delay_open: bool,
    sitemaps: Vec<Box<str>>,
    /// The same sitemaps, to find duplicates.
    known: HashSet<Box<str>>,
}

#[derive(Default)]
struct Group {
    exists: bool,
    /// The current rules apply to it.
    current: bool,
    /// A Crawl-delay on the current line applies to it.
    delay_current: bool,
    delay: Option<Duration>,
    text: Vec<u8>,
    rules: Vec<Rule>,
}

impl<'a> Reading<'a> {
    fn new(agent: &'a str) -> Self {
        Self {
            agent,
            own: Group::default(),
            star: Group::default(),
            open: true,
            started: false,
            delay_open: true,
            sitemaps: Vec::new(),
            known: HashSet::new(),
        }
    }

    fn line(&mut self, line: &RobotsLine<'_>) {
        match line.field {
            RobotsField::UserAgent => self.user_agent(line.value),
            RobotsField::Allow | RobotsField::Disallow => {
                self.open = false;
                self.delay_open = false;
                for group in [&mut self.own, &mut self.star] {
                    if group.current {
                        group.push(line);
                    }
                }
            }
            RobotsField::CrawlDelay => {
                self.delay_open = false;
                if let Some(delay) = parse_delay(line.value) {
                    for group in [&mut self.own, &mut self.star] {
                        if group.delay_current {
                            group.delay = group.delay.max(Some(delay));
                        }
                    }
                }
            }
            RobotsField::Sitemap => {
                let value: Box<str> = String::from_utf8_lossy(line.value).into();
                if !value.is_empty() && self.known.insert(value.clone()) {
                    self.sitemaps.push(value);
                }
            }
            RobotsField::Other | RobotsField::Unknown => self.delay_open = false,
        }
    }

    fn user_agent(&mut self, value: &[u8]) {
        let value = String::from_utf8_lossy(value);
        let mut names = value.split(',').map(str::trim_start);
        let is_star = names.clone().any(|name| name.starts_with('*') && name.split_whitespace().next() == Some("*"));
        let is_own = !self.agent.is_empty() && names.any(|name| product_token(name).eq_ignore_ascii_case(self.agent));
        for (group, meant) in [(&mut self.own, is_own), (&mut self.star, is_star)] {
            group.current = meant || (group.current && self.open);
            group.delay_current = meant || (group.delay_current && self.delay_open);
            group.exists |= meant;
        }
        self.started = true;
        self.open = true;
        self.delay_open = true;
    }

    fn finish(self) -> Robots {
        let named = self.own.exists;
        let mut group = if named { self.own } else { self.star };
        let (mut plain, mut wild): (Vec<Rule>, Vec<Rule>) = std::mem::take(&mut group.rules)
            .into_iter()
            .partition(|rule| !rule.anchored && !group.slice(rule.normal).contains(&b'*'));
        // Of equal rules, Allow is kept, and the first of its kind.
        plain.sort_by(|a, b| {
            let texts = group.slice(a.normal).cmp(group.slice(b.normal));
            texts.then(b.allow.cmp(&a.allow)).then(a.line.cmp(&b.line))
        });
        plain.dedup_by(|b, a| group.slice(a.normal) == group.slice(b.normal));
        wild.sort_by(|a, b| {
            let rank = b.octets.cmp(&a.octets).then(b.allow.cmp(&a.allow));
            rank.then_with(|| group.slice(a.normal).cmp(group.slice(b.normal)).then(a.line.cmp(&b.line)))
        });
        wild.dedup_by(|b, a| {
            (a.octets, a.allow, a.anchored) == (b.octets, b.allow, b.anchored)
                && group.slice(a.normal) == group.slice(b.normal)
        });
        wild.sort_by(|a, b| b.octets.cmp(&a.octets).then(b.allow.cmp(&a.allow)).then(a.line.cmp(&b.line)));
        let shorter = shorter_prefixes(&plain, &group);
        Robots {
            shorter,
            plain: plain.into(),
            wild: wild.into(),
            delay: group.delay,
            sitemaps: self.sitemaps.into(),
            named,
            text: group.text.into(),
        }
    }
}

/// For each of the sorted rules, the nearest preceding one that is its prefix (index + 1, or 0). The prefixes of the
/// current rule are on a stack, like parent directories in a walk.
fn shorter_prefixes(plain: &[Rule], group: &Group) -> Box<[u32]> {
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
        let written = self.keep(line.value);
        let normal = if *normal == *line.value { written } else { self.keep(&normal) };
        let allow = line.field == RobotsField::Allow;
        self.rules.push(Rule { written, normal, line: line.number, octets, allow, anchored });
    }

    fn keep(&mut self, bytes: &[u8]) -> (u32, u32) {
        // The text is bounded by a few times the limit on files, far below 32 bits.
        let start = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        self.text.extend_from_slice(bytes);
        (start, u32::try_from(self.text.len()).unwrap_or(u32::MAX))
    }

    fn slice(&self, (start, end): (u32, u32)) -> &[u8] {
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// Seconds, optionally with a fraction; text after the number is ignored.
fn parse_delay(value: &[u8]) -> Option<Duration> {
    let end = value.iter().position(|b| !(b.is_ascii_digit() || matches!(b, b'.' | b','))).unwrap_or(value.len());
    let number: Cow<'_, str> = String::from_utf8_lossy(value.get(..end)?);
    let seconds: f64 = number.replace(',', ".").parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
