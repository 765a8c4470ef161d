//! The tour in the book shows code of the sources. These tests fail if a chapter and its source differ.
//!
//! A chapter writes `<!-- code: PATH#NAME -->` above a block of code. The source has `// anchor: NAME` before the code
//! and `// end: NAME` after it. `UPDATE_TOUR=1 cargo nextest run -p argiope-testkit --test tour` refreshes the
//! chapters.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn chapters() -> Vec<PathBuf> {
    let folder = root().join("docs/tour");
    let entries = std::fs::read_dir(folder).expect("the tour").flatten().map(|entry| entry.path());
    let mut chapters: Vec<_> = entries.filter(|path| path.extension().is_some_and(|ext| ext == "md")).collect();
    chapters.sort();
    chapters
}

/// The lines between `// anchor: NAME` and `// end: NAME`, without their common indentation. The comments of nested
/// anchors are left out, and the code between them is kept.
fn snippet(source: &str, name: &str) -> Option<String> {
    let is_mark = |line: &str, mark: &str| line.trim().strip_prefix(mark).is_some_and(|rest| rest.trim() == name);
    let mut inside = source.lines().skip_while(|line| !is_mark(line, "// anchor:")).skip(1).peekable();
    inside.peek()?;
    let mut lines = Vec::new();
    loop {
        let line = inside.next()?;
        if is_mark(line, "// end:") {
            break;
        }
        let trimmed = line.trim_start();
        if !trimmed.starts_with("// anchor:") && !trimmed.starts_with("// end:") {
            lines.push(line);
        }
    }
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let indentation = lines.iter().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
    let unindented: Vec<&str> = lines.iter().map(|line| line.get(indentation..).unwrap_or("")).collect();
    Some(unindented.join("\n") + "\n")
}

/// The chapter with every block of code updated from its source.
fn update_code(chapter: &str, used: &mut BTreeSet<String>) -> String {
    let mut out = String::new();
    let mut lines = chapter.lines();
    while let Some(line) = lines.next() {
        out += line;
        out.push('\n');
        let Some(reference) = line.strip_prefix("<!-- code: ").and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let (path, name) = reference.split_once('#').unwrap_or_else(|| panic!("{reference}: the form is PATH#NAME"));
        let code = snippet(&read(&root().join(path)), name).unwrap_or_else(|| panic!("{path} has no anchor {name}"));
        used.insert(format!("{path}#{name}"));
        assert_eq!(lines.next(), Some("```rust"), "a block of code must follow {reference}");
        assert!(lines.by_ref().any(|line| line == "```"), "the block below {reference} has no end");
        out += &format!("```rust\n{code}```\n");
    }
    out
}

#[test]
fn the_code_in_the_tour_equals_the_sources() {
    let update = std::env::var_os("UPDATE_TOUR").is_some();
    let mut used = BTreeSet::new();
    let mut stale = Vec::new();
    for path in chapters() {
        let text = read(&path);
        let updated = update_code(&text, &mut used);
        if updated != text {
            stale.push(path.clone());
            if update {
                std::fs::write(&path, updated).expect("the chapter can be written");
            }
        }
    }
    assert!(used.len() >= 10, "only {used:?}");
    assert!(stale.is_empty() || update, "{stale:?} differ from the sources: run with UPDATE_TOUR=1, then read them");
}

#[test]
fn every_link_of_the_tour_to_a_file_has_a_target() {
    let mut count = 0;
    for path in chapters() {
        let text = read(&path);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or(link);
            if !file.starts_with("http") && !file.is_empty() {
                let target = path.parent().expect("a folder").join(file);
                assert!(target.exists(), "{}: {link} does not exist", path.display());
                count += 1;
            }
        }
    }
    assert!(count > 20, "only {count} links");
}

/// All source files of the crates, joined.
fn all_sources() -> String {
    let mut sources = String::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the project").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                sources += &read(&path);
            }
        }
    }
    sources
}

/// The chapter without its blocks of code.
fn prose(chapter: &str) -> String {
    let mut is_code = false;
    let lines = chapter.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The texts in backticks.
fn backticked(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Names in the style of the code: `snake_case`, `CamelCase` and paths such as `Type::method`. A single lowercase word
/// is not checked, because it may be a word of another language or a system call.
#[test]
fn every_name_in_the_text_of_the_tour_occurs_in_the_sources() {
    let sources = all_sources();
    let words: BTreeSet<&str> = sources.split(|c| !is_word_char(c)).collect();
    let mut count = 0;
    for path in chapters() {
        let text = prose(&read(&path));
        for name in backticked(&text) {
            let is_name = name.chars().all(|c| is_word_char(c) || c == ':');
            let is_of_code = name.contains("::") || name.contains('_') || name.starts_with(char::is_uppercase);
            if is_name && is_of_code {
                let is_known = name.split("::").all(|part| part == "tests" || words.contains(part));
                assert!(is_known, "{}: the sources do not contain `{name}`", path.display());
                count += 1;
            }
        }
    }
    assert!(count >= 30, "only {count} names");
}

/// Names with the file that defines them, written `` `name` in [file](path) ``.
#[test]
fn every_name_that_the_tour_finds_in_a_file_is_defined_there() {
    let mut count = 0;
    for path in chapters() {
        let text = read(&path);
        for (before, after) in text.match_indices("` in [").map(|(at, _)| text.split_at(at)) {
            let name = before.rsplit(['`', ':']).next().unwrap_or_default();
            let target = after.split("](").nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
            let source = read(&path.parent().expect("a folder").join(target));
            let is_defined = ["fn", "struct", "enum", "trait"].iter().any(|keyword| {
                let definition = format!("{keyword} {name}");
                source
                    .match_indices(&definition)
                    .any(|(at, _)| !source[at + definition.len()..].starts_with(is_word_char))
            });
            assert!(is_defined, "{}: {target} does not define {name}", path.display());
            count += 1;
        }
    }
    assert!(count >= 8, "only {count} names");
}

/// Tests that the tour refers to, written `` `tests::name` ``.
#[test]
fn every_test_that_the_tour_names_exists() {
    let sources = all_sources();
    let mut count = 0;
    for path in chapters() {
        for name in read(&path).split("`tests::").skip(1).filter_map(|rest| rest.split('`').next()) {
            assert!(sources.contains(&format!("fn {name}(")), "{}: no test {name}", path.display());
            count += 1;
        }
    }
    assert!(count >= 8, "only {count} tests are named");
}
