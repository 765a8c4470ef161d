//! Compares the robots.txt parser with a naive implementation of RFC 9309 that tries every rule.

use argiope_core::page::robots::{Robots, RobotsField, RobotsLines, RobotsPattern, prepare, product_token};

use super::split_control;

const AGENT: &str = "argiope";

/// A file is parsed without a panic, and the verdict is that of the naive implementation.
pub fn robots(data: &[u8]) {
    let (file, control) = split_control(data, 24);
    let robots = Robots::parse(file, AGENT);
    let target = target(control);
    let verdict = robots.judge(&target);
    assert_eq!(verdict.allowed, robots.allows(&target));
    assert!(verdict.allowed || verdict.line.is_some(), "a refusal has a line");
    let _ = (robots.crawl_delay(), robots.sitemaps(), Robots::other_records(file, AGENT));
    assert!(robots.allows("/robots.txt"));

    let text = prepare(file);
    if text.len() < 4096 && target != "/robots.txt" && !target.starts_with("/robots.txt?") {
        let matching = matching_rules(&text, &target);
        let max_octets = matching.iter().map(|rule| rule.octets).max();
        let longest: Vec<&MatchingRule> = matching.iter().filter(|rule| Some(rule.octets) == max_octets).collect();
        let is_allowed = longest.is_empty() || longest.iter().any(|rule| rule.is_allow);
        assert_eq!(verdict.allowed, is_allowed, "{target} {verdict:?} {matching:?}");
        let line = verdict.line.map(|(number, _)| number);
        assert_eq!(line.is_some(), max_octets.is_some());
        let decides = |rule: &&MatchingRule| rule.is_allow == is_allowed && Some(rule.line) == line;
        assert!(line.is_none() || longest.iter().any(decides), "line {line:?} is not among the longest {longest:?}");
    }
}

/// A target (path and query) in normal form, from the control bytes.
fn target(control: &[u8]) -> String {
    let mut target = String::from("/");
    for byte in control {
        match byte {
            b'*' => target.push_str("%2A"),
            b'$' => target.push_str("%24"),
            b'a'..=b'z' | b'/' | b'.' | b'?' | b'=' => target.push(char::from(*byte)),
            _ => target.push(char::from(b'a' + byte % 4)),
        }
    }
    target
}

/// A rule that matches.
#[derive(Debug)]
struct MatchingRule {
    line: u32,
    is_allow: bool,
    /// The length of the pattern, which decides between matching rules.
    octets: u32,
}

/// All rules for this crawler that match. If no group names the crawler, those of the groups for `*`.
fn matching_rules(text: &[u8], target: &str) -> Vec<MatchingRule> {
    let (mut own, mut star, mut is_named) = (Vec::new(), Vec::new(), false);
    let (mut is_own_group, mut is_star_group, mut is_after_rule) = (false, false, false);
    for line in RobotsLines::new(text) {
        match line.field {
            RobotsField::UserAgent => {
                // A user-agent line after a rule starts a new group.
                if is_after_rule {
                    (is_own_group, is_star_group, is_after_rule) = (false, false, false);
                }
                let value = String::from_utf8_lossy(line.value);
                for name in value.split(',').map(str::trim_start) {
                    is_own_group |= product_token(name).eq_ignore_ascii_case(AGENT);
                    is_star_group |= name.starts_with('*') && name.split_whitespace().next() == Some("*");
                }
                is_named |= is_own_group;
            }
            RobotsField::Allow | RobotsField::Disallow => {
                is_after_rule = true;
                let pattern = RobotsPattern::new(line.value);
                if !line.value.is_empty() && matches_pattern(&pattern.normal, pattern.anchored, target.as_bytes()) {
                    let add_rule = |list: &mut Vec<MatchingRule>| {
                        let is_allow = line.field == RobotsField::Allow;
                        list.push(MatchingRule { line: line.number, is_allow, octets: pattern.octets });
                    };
                    if is_own_group {
                        add_rule(&mut own);
                    }
                    if is_star_group {
                        add_rule(&mut star);
                    }
                }
            }
            _ => {}
        }
    }
    if is_named { own } else { star }
}

/// Whether a pattern matches the start of the target; if `is_anchored`, the whole target. Uses dynamic programming:
/// `reached[n]` means that the pattern so far matches the first n bytes.
fn matches_pattern(pattern: &[u8], is_anchored: bool, target: &[u8]) -> bool {
    let mut reached = vec![false; target.len() + 1];
    reached[0] = true;
    for byte in pattern {
        let mut next = vec![false; target.len() + 1];
        for at in 0..=target.len() {
            if *byte == b'*' {
                next[at] = reached[..=at].iter().any(|reached| *reached);
            } else if at > 0 && target[at - 1] == *byte {
                next[at] = reached[at - 1];
            }
        }
        reached = next;
    }
    if is_anchored { reached[target.len()] } else { reached.iter().any(|reached| *reached) }
}
