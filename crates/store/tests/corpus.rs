//! Runs the corpus of the fuzz target for state files as an ordinary test, to prevent regressions.

#[path = "../../../fuzz/src/state.rs"]
mod property;

use std::path::PathBuf;

#[test]
fn changed_state_files_are_recovered_or_refused_and_never_wrong() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/state");
    let mut count = 0;
    for file in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let data = std::fs::read(file.expect("the folder can be read").path()).expect("a file can be read");
        property::state(&data);
        count += 1;
    }
    assert!(count >= 8, "{count} files in {}", folder.display());
    // One byte of each file at a time, at a few hundred positions: changed, or truncated there.
    for which in 0..8 {
        for place in (0u16..2_000).step_by(37) {
            let [high, low] = place.to_be_bytes();
            property::state(&[which, 0, high, low, 0x40]);
            property::state(&[which, 1, high, low, 0]);
        }
    }
}
