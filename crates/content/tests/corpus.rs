//! Runs the corpora of the fuzz targets for the work on a page as ordinary tests, to prevent regressions.

#[path = "../../../fuzz/src/work.rs"]
mod work;

use std::path::PathBuf;

fn run(target: &str, property: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 5, "{} files in {}", files.len(), folder.display());
    for file in files {
        property(&std::fs::read(&file).unwrap());
    }
    property(b"");
}

#[test]
fn text_and_markdown_of_repeated_parts_grow_with_the_page() {
    run("text", work::text);
}

#[test]
fn selectors_on_repeated_parts_grow_with_the_page() {
    run("selectors", work::selectors);
}

#[test]
fn fields_of_repeated_parts_grow_with_the_page() {
    run("fields", work::fields);
}

#[test]
fn structured_data_of_repeated_parts_grows_with_the_page() {
    run("structured", work::structured);
}

#[test]
fn copies_of_repeated_parts_grow_with_the_page() {
    run("rewrite", work::rewrite);
}
