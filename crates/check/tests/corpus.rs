//! Runs the corpus of the fuzz target for documents as an ordinary test, to prevent regressions.

#[path = "../../../fuzz/src/documents.rs"]
mod documents;

use std::path::PathBuf;

#[test]
fn repeated_parts_of_documents_are_read_in_steps_that_grow_with_the_document() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/documents");
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 7, "{} files in {}", files.len(), folder.display());
    for file in files {
        documents::documents(&std::fs::read(&file).unwrap());
    }
    documents::documents(b"");
}
