//! Rewords messages for the users of the library: names of settings in place of flags of the command.

use std::borrow::Cow;

use argiope_runtime::Error;

/// Phrases in messages of the command, and their replacements in messages of the library.
const PHRASES: [(&str, &str); 6] = [
    ("give another --out", "use another `directory`"),
    ("run the same command again", "start the crawl again"),
    ("run the same command", "start the crawl again"),
    ("use --user-agent", "use `user_agent`"),
    ("--user NAME:PASSWORD", "`user`"),
    ("--out", "`directory`"),
];

/// Settings of more than one word whose errors come from the configuration, where they are written with hyphens.
const SETTINGS: [&str; 24] = [
    "allow_private",
    "assets_scope",
    "ca_cert",
    "connect_timeout",
    "drain_time",
    "extract_file",
    "idle_timeout",
    "max_bytes",
    "max_crawl_delay",
    "max_disk",
    "max_head",
    "max_links",
    "max_memory",
    "max_pages",
    "max_pages_per_host",
    "max_redirects",
    "max_size",
    "max_time",
    "max_tries",
    "max_url",
    "per_host",
    "strip_param",
    "trap_budget",
    "user_agent",
];

/// The error in the words of the library.
pub(crate) fn in_library_words(error: Error) -> Error {
    error.reworded(|text| reworded(text).into_owned(), setting)
}

/// The name of a setting in the library.
fn setting(key: &'static str) -> &'static str {
    let same = |name: &&&str| name.len() == key.len() && name.replace('_', "-") == key;
    if key == "out" { "directory" } else { SETTINGS.iter().find(same).copied().unwrap_or(key) }
}

/// A message with the names of settings in place of flags. Text in backquotes is a command line, which is not changed.
pub(crate) fn reworded(text: &str) -> Cow<'_, str> {
    if !text.contains("--") && !text.contains("same command") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for (index, part) in text.split('`').enumerate() {
        if index > 0 {
            out.push('`');
        }
        // Parts with odd indexes are in backquotes.
        if index % 2 == 1 {
            out.push_str(part);
            continue;
        }
        let phrased = PHRASES.iter().fold(part.to_owned(), |part, (from, to)| part.replace(from, to));
        without_flags(&phrased, &mut out);
    }
    Cow::Owned(out)
}

/// Writes `--max-url` as `max_url` in backquotes.
fn without_flags(mut text: &str, out: &mut String) {
    while let Some((before, after)) = text.split_once("--") {
        out.push_str(before);
        let end = after.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(after.len());
        let (flag, rest) = after.split_at(end);
        if flag.is_empty() {
            out.push_str("--");
        } else {
            out.push('`');
            out.push_str(&flag.replace('-', "_"));
            out.push('`');
        }
        text = rest;
    }
    out.push_str(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_settings() {
        for (before, after) in [
            ("longer than --max-url", "longer than `max_url`"),
            ("is a file; give another --out", "is a file; use another `directory`"),
            ("give another --out, or --fresh to start over", "use another `directory`, or `fresh` to start over"),
            (
                "free some space and run the same command to resume",
                "free some space and start the crawl again to resume",
            ),
            ("`argiope export d --format jsonl` gives all", "`argiope export d --format jsonl` gives all"),
            ("give it as --user NAME:PASSWORD", "give it as `user`"),
            ("a -- b", "a -- b"),
            ("nothing to change", "nothing to change"),
        ] {
            assert_eq!(reworded(before), after);
        }
        assert_eq!((setting("max-pages"), setting("out"), setting("rate")), ("max_pages", "directory", "rate"));
    }
}
