//! Rewords messages for the users of the library: names of settings in place of flags of the command.

use std::borrow::Cow;

use argiope_core::{Failure, Remedy, TlsFault};
use argiope_runtime::Error;

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
    error.reworded(|text| reworded(text).into_owned(), setting, remedy_words)
}

/// A remedy in the words of the library.
fn remedy_words(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::FreeSpace => "what was committed is safe: free some space and start the crawl again to resume",
        Remedy::MakeWritable => "what was committed is safe: make it writable and start the crawl again to resume",
        Remedy::RemoveCause => "what was committed is safe: once the cause is removed, start the crawl again to resume",
        Remedy::Rebuild => "start the crawl again: it is rebuilt from the log",
        Remedy::RemoveSnapshot => "remove the file `snapshot`, and start the crawl again: it is rebuilt from the log",
        Remedy::RestoreOrStartOver => "restore it from a copy, or start over with `fresh`",
        Remedy::OtherDirectory => "use another `directory`",
        Remedy::WaitOrOtherDirectory => "wait for it, or use another `directory`",
        Remedy::MoveOrOtherDirectory => "move it, or use another `directory`",
        Remedy::OtherDirectoryOrStartOver => "use another `directory`, or `fresh` to start over",
        Remedy::RemoveOrOtherFile => "remove it or name another file",
        Remedy::OtherFile => "name another file",
        Remedy::NewerVersion => "use a newer version of the library",
    }
}

/// The name of a setting in the library.
fn setting(key: &'static str) -> &'static str {
    let same = |name: &&&str| name.len() == key.len() && name.replace('_', "-") == key;
    if key == "out" { "directory" } else { SETTINGS.iter().find(same).copied().unwrap_or(key) }
}

/// The message of a failed page, with what a program can do about it.
pub(crate) fn failure_message(failure: &Failure) -> String {
    let advice = match failure.tls {
        Some(TlsFault::Untrusted) => "; `ca_cert` trusts its authority, `insecure` skips the verification",
        Some(TlsFault::Invalid) => "; `ca_cert` does not help, `insecure` skips the verification",
        _ => "",
    };
    format!("{}{advice}", reworded(&failure.message))
}

/// A message with the names of settings in place of flags. Text in backquotes is a command line, which is not changed.
pub(crate) fn reworded(text: &str) -> Cow<'_, str> {
    if !text.contains("--") {
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
        without_flags(part, &mut out);
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
            ("`argiope export d --format jsonl` gives all", "`argiope export d --format jsonl` gives all"),
            ("give it with --user", "give it with `user`"),
            ("a -- b", "a -- b"),
            ("nothing to change", "nothing to change"),
        ] {
            assert_eq!(reworded(before), after);
        }
        assert_eq!((setting("max-pages"), setting("out"), setting("rate")), ("max_pages", "directory", "rate"));
    }

    #[test]
    fn every_remedy_has_words_without_flags() {
        for remedy in Remedy::ALL {
            let (command, library) = (remedy.as_str(), remedy_words(remedy));
            assert!(!command.is_empty() && !library.is_empty(), "{remedy:?}");
            assert!(!library.contains("--") && !library.contains("command"), "{library}");
            // Where the command has words of its own, the library does too.
            let is_specific = command.contains("--") || command.contains("command");
            assert!(!is_specific || command != library, "{library}");
        }
    }
}
