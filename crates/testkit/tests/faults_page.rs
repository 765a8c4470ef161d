//! Checks that the tests that docs/faults.md names exist.

use std::fs;
use std::path::Path;

#[test]
fn every_test_that_the_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/faults.md")).expect("the page");
    let (mut file, mut source, mut named) = (String::new(), String::new(), 0);
    // The last column of a row holds paths of test files, each followed by the names of its tests.
    for row in page.lines().filter(|line| line.starts_with("| F")) {
        let tests = row.trim_end_matches([' ', '|']).rsplit(" | ").next().expect("a column");
        for quoted in tests.split('`').skip(1).step_by(2) {
            if quoted.ends_with(".rs") {
                file = quoted.to_owned();
                source = fs::read_to_string(root.join(quoted)).unwrap_or_else(|error| panic!("{quoted}: {error}"));
            } else {
                assert!(source.contains(&format!("fn {quoted}(")), "{file} has no test {quoted}");
                named += 1;
            }
        }
    }
    assert!(named > 25, "only {named} tests are named");
}
