//! Runs the corpus of the fuzz target for state files as an ordinary test, to prevent regressions.

#[path = "../../../fuzz/src/state.rs"]
mod property;

use std::path::PathBuf;

#[test]
fn changed_state_files_are_recovered_or_refused() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/state");
    let mut count = 0;
    for file in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let data = std::fs::read(file.expect("the folder can be read").path()).expect("a file can be read");
        property::state(&data);
        count += 1;
    }
    assert!(count >= 8, "{count} files in {}", folder.display());
    // For each file, at many positions: one byte changed, or the file truncated there. The input of `state` is the
    // number of the file, the kind of change, the position (two bytes), and the bits to change.
    let names = property::file_names();
    assert!(names.iter().any(|name| name == "snapshot"), "{names:?}");
    for file in 0..u8::try_from(names.len()).expect("few files") {
        for position in (0u16..2_000).step_by(37) {
            let [high, low] = position.to_be_bytes();
            property::state(&[file, 0, high, low, 0x40]);
            property::state(&[file, 1, high, low, 0]);
        }
    }
}
