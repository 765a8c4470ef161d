//! The documentation: every page is in the book, and every relative link leads to a file and a heading that exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Adds all Markdown files below a folder.
fn markdown_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            markdown_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The targets of Markdown links and images outside of code.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        // Code spans are every second piece between backticks.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        for piece in prose.split("](").skip(1) {
            links.extend(piece.split(')').next().map(str::to_owned));
        }
    }
    links
}

/// The anchors of a page's headings, as mdBook and GitHub make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    headings
        .map(|heading| {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn every_page_is_in_the_book() {
    let docs = root().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).expect("SUMMARY.md");
    let listed: BTreeSet<PathBuf> = links(&summary).iter().map(|link| docs.join(link)).collect();
    let mut pages = Vec::new();
    markdown_below(&docs, &mut pages);
    let pages: BTreeSet<PathBuf> = pages.into_iter().filter(|page| !page.ends_with("SUMMARY.md")).collect();
    assert_eq!(pages.difference(&listed).collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "not in SUMMARY.md");
    assert_eq!(
        listed.difference(&pages).collect::<Vec<_>>(),
        Vec::<&PathBuf>::new(),
        "in SUMMARY.md, but the file is missing"
    );
}

#[test]
fn every_relative_link_of_the_documentation_is_valid() {
    let mut pages: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
        .iter()
        .map(|name| root().join(name))
        .collect();
    markdown_below(&root().join("docs"), &mut pages);
    let mut broken = Vec::new();
    for page in &pages {
        let text = std::fs::read_to_string(page).expect("a page");
        for link in links(&text).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { page.clone() } else { page.parent().expect("a folder").join(path) };
            let is_valid = target.exists()
                && (anchor.is_empty()
                    || target.extension().is_none_or(|extension| extension != "md")
                    || anchors(&std::fs::read_to_string(&target).unwrap_or_default()).contains(anchor));
            if !is_valid {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_file_that_the_architecture_page_names_exists() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page");
    let table = page.split("## Where is it?").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the table");
    let paths: Vec<&str> =
        table.split('`').skip(1).step_by(2).filter(|path| path.ends_with(".rs") || path.ends_with(".py")).collect();
    let missing: Vec<&&str> = paths.iter().filter(|path| !root().join("crates").join(path).is_file()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(paths.len() > 80, "only {} files are named", paths.len());
}
