//! Compares our robots.txt parser with a naive implementation of RFC 9309 that tries every rule and every way to match.

use argiope_core::page::robots::{Robots, RobotsField, RobotsLines, RobotsPattern, prepare, product_token};

use super::steered;

const AGENT: &str = "argiope";

/// A file is parsed without a panic, and the verdict is that of the naive implementation.
pub fn robots(data: &[u8]) {
    let (file, steer) = steered(data, 24);
    let robots = Robots::parse(file, AGENT);
    let target = target(steer);
    let verdict = robots.judge(&target);
    assert_eq!(verdict.allowed, robots.allows(&target));
    assert!(verdict.allowed || verdict.line.is_some(), "a ban without a line");
    let _ = (robots.crawl_delay(), robots.sitemaps(), Robots::other_records(file, AGENT));
    assert!(robots.allows("/robots.txt"));

    let text = prepare(file);
    if text.len() < 4096 && target != "/robots.txt" && !target.starts_with("/robots.txt?") {
        let matching = plain_reading(&text, &target);
        let best = matching.iter().map(|rule| rule.octets).max();
        let longest: Vec<&Match> = matching.iter().filter(|rule| Some(rule.octets) == best).collect();
        let allowed = longest.is_empty() || longest.iter().any(|rule| rule.allow);
        assert_eq!(verdict.allowed, allowed, "{target} {verdict:?} {matching:?}");
        let line = verdict.line.map(|(number, _)| number);
        assert_eq!(line.is_some(), best.is_some());
        let decides = |rule: &&Match| rule.allow == allowed && Some(rule.line) == line;
        assert!(line.is_none() || longest.iter().any(decides), "line {line:?} is none of the longest {longest:?}");
    }
}

/// A target in normal form.
fn target(steer: &[u8]) -> String {
    let mut target = String::from("/");
    for byte in steer {
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
struct Match {
    line: u32,
    allow: bool,
    octets: u32,
}

/// All rules for this crawler that match.
fn plain_reading(text: &[u8], target: &str) -> Vec<Match> {
    let (mut own, mut star, mut named) = (Vec::new(), Vec::new(), false);
    let (mut to_own, mut to_star, mut after_rule) = (false, false, false);
    for line in RobotsLines::new(text) {
        match line.field {
            RobotsField::UserAgent => {
                if after_rule {
                    (to_own, to_star, after_rule) = (false, false, false);
                }
                let value = String::from_utf8_lossy(line.value);
                for name in value.split(',').map(str::trim_start) {
                    to_own |= product_token(name).eq_ignore_ascii_case(AGENT);
                    to_star |= name.starts_with('*') && name.split_whitespace().next() == Some("*");
                }
                named |= to_own;
            }
            RobotsField::Allow | RobotsField::Disallow => {
                after_rule = true;
                let pattern = RobotsPattern::new(line.value);
                if !line.value.is_empty() && fits(&pattern.normal, pattern.anchored, target.as_bytes()) {
                    let rule = |list: &mut Vec<Match>| {
                        let allow = line.field == RobotsField::Allow;
                        list.push(Match { line: line.number, allow, octets: pattern.octets });
                    };
                    if to_own {
                        rule(&mut own);
                    }
                    if to_star {
                        rule(&mut star);
                    }
                }
            }
            _ => {}
        }
    }
    if named { own } else { star }
}

/// Whether a pattern matches from the start, by dynamic programming.
fn fits(pattern: &[u8], anchored: bool, target: &[u8]) -> bool {
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
    if anchored { reached[target.len()] } else { reached.iter().any(|reached| *reached) }
}
