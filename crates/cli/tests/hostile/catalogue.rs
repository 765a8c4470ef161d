//! Compares the cases with the catalogue (`hostile.json`): same ids, same expectations.

use std::collections::BTreeMap;
use std::path::PathBuf;

use argiope_practice::hostile::{CaseSetup, Expect, catalogue};
use serde_json::Value;

/// Number of cases in the catalogue.
const CASES: usize = 228;

/// The prefix of cases that are not in the catalogue.
const OWN: &str = "H2X";

/// `hostile.json`, beside the folder of test vectors.
fn published() -> BTreeMap<String, Value> {
    let folder = std::env::var_os("ARGIOPE_VECTORS").expect("ARGIOPE_VECTORS names the folder of the test vectors");
    let text = std::fs::read_to_string(PathBuf::from(folder).join("../hostile.json")).expect("hostile.json");
    let document: Value = serde_json::from_str(&text).expect("hostile.json is JSON");
    let cases = document["cases"].as_array().expect("a list of cases").iter();
    cases.map(|case| (case["id"].as_str().expect("a name").to_owned(), case.clone())).collect()
}

#[test]
fn tests_named_by_cases_exist() {
    for case in catalogue() {
        let whole = if let CaseSetup::Elsewhere { file, test } = case.setup { Some((file, test)) } else { None };
        for (file, test) in whole.into_iter().chain(case.also) {
            let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {file}: {error}", case.id));
            assert!(text.contains(&format!("fn {test}(")), "{}: {file} has no test {test}", case.id);
        }
    }
}

#[test]
#[ignore = "needs vectors"]
fn the_cases_are_those_of_the_catalogue() {
    let published = published();
    let ours: Vec<_> = catalogue().into_iter().filter(|case| !case.id.starts_with(OWN)).collect();
    for case in &ours {
        let theirs = published.get(case.id).unwrap_or_else(|| panic!("{} is not in the catalogue", case.id));
        assert_eq!(theirs["category"], case.category.name(), "{}", case.id);
        let choice = theirs["expect"]["policy_choice"] == true;
        assert_eq!(choice, case.choice.is_some(), "{}: a choice has to be written down", case.id);
        if choice {
            continue;
        }
        assert_eq!(theirs["expect"]["class"], case.expect.class(), "{}", case.id);
        match case.expect {
            // Some errors of the catalogue do not belong to a URL.
            Expect::Error(kind) if !theirs["expect"]["error"].is_null() => {
                assert_eq!(theirs["expect"]["error"], kind, "{}", case.id)
            }
            Expect::Truncated(how, _) => assert_eq!(theirs["expect"]["truncated"], how, "{}", case.id),
            _ => {}
        }
    }
    for id in published.keys() {
        assert!(ours.iter().any(|case| case.id == id), "{id} is missing");
    }
    assert_eq!((published.len(), ours.len()), (CASES, CASES));
}
