//! The corpora of the fuzz targets, run as ordinary tests: what was found once stays found.

#![allow(clippy::disallowed_methods, reason = "tests read files")]

#[path = "../../../fuzz/src/lib.rs"]
mod properties;

use std::path::PathBuf;

/// Runs a property over all files of its corpus; there must be at least this many.
fn run(target: &str, least: usize, property: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files {
        let path = file.expect("the folder can be read").path();
        let data = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        property(&data);
        // Cut anywhere, it must hold as well.
        (0..data.len().min(64)).for_each(|end| property(&data[..end]));
        count += 1;
    }
    assert!(count >= least, "{count} files in {}", folder.display());
}

#[test]
fn robots() {
    run("robots", 11, properties::robots);
}

#[test]
fn sitemap() {
    run("sitemap", 14, properties::sitemap);
}

#[test]
fn url() {
    run("url", 24, properties::url);
}

#[test]
fn tokenizer() {
    run("tokenizer", 16, properties::tokenizer);
}

#[test]
fn charset() {
    run("charset", 11, properties::charset);
}

#[test]
fn answer() {
    run("answer", 13, properties::answer);
}

#[test]
fn coding() {
    run("coding", 13, properties::coding);
}

#[test]
fn cookies() {
    run("cookies", 12, properties::cookies);
}

#[test]
fn conn() {
    run("conn", 10, properties::conn);
}

#[test]
fn head() {
    run("head", 10, properties::head);
}

#[test]
fn body() {
    run("body", 8, properties::body);
}
