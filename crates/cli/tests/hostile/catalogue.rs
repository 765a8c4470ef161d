//! Compares the cases with the catalogue (`hostile.json`): same ids, same expectations.

use std::collections::BTreeMap;
use std::path::PathBuf;

use argiope_practice::hostile::{CaseSetup, Expect, catalogue};
use serde_json::Value;

/// Number of cases in the catalogue.
const CASES: usize = 228;

/// The prefix of the ids of implemented cases that are not in the catalogue.
const OWN_CASE_PREFIX: &str = "H2X";

/// The cases of the catalogue by id. `hostile.json` is beside the folder of test vectors.
fn catalogue_cases() -> BTreeMap<String, Value> {
    let folder = std::env::var_os("ARGIOPE_VECTORS").expect("ARGIOPE_VECTORS names the folder of the test vectors");
    let text = std::fs::read_to_string(PathBuf::from(folder).join("../hostile.json")).expect("hostile.json");
    let document: Value = serde_json::from_str(&text).expect("hostile.json is JSON");
    let cases = document["cases"].as_array().expect("a list of cases").iter();
    cases.map(|case| (case["id"].as_str().expect("a name").to_owned(), case.clone())).collect()
}

#[test]
fn tests_named_by_cases_exist() {
    for case in catalogue() {
        let other_test = if let CaseSetup::Elsewhere { file, test } = case.setup { Some((file, test)) } else { None };
        for (file, test) in other_test.into_iter().chain(case.also) {
            let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {file}: {error}", case.id));
            assert!(text.contains(&format!("fn {test}(")), "{}: {file} has no test {test}", case.id);
        }
    }
}

#[test]
#[ignore = "needs vectors"]
fn the_cases_are_those_of_the_catalogue() {
    let catalogue_cases = catalogue_cases();
    let implemented: Vec<_> = catalogue().into_iter().filter(|case| !case.id.starts_with(OWN_CASE_PREFIX)).collect();
    for case in &implemented {
        let expected = catalogue_cases.get(case.id).unwrap_or_else(|| panic!("{} is not in the catalogue", case.id));
        assert_eq!(expected["category"], case.category.name(), "{}", case.id);
        let is_choice = expected["expect"]["policy_choice"] == true;
        assert_eq!(is_choice, case.choice.is_some(), "{}: a choice must be explained", case.id);
        if is_choice {
            continue;
        }
        assert_eq!(expected["expect"]["class"], case.expect.class(), "{}", case.id);
        match case.expect {
            // If an error does not belong to a URL, the catalogue does not name its kind.
            Expect::Error(kind) if !expected["expect"]["error"].is_null() => {
                assert_eq!(expected["expect"]["error"], kind, "{}", case.id)
            }
            Expect::Truncated(how, _) => assert_eq!(expected["expect"]["truncated"], how, "{}", case.id),
            _ => {}
        }
    }
    for id in catalogue_cases.keys() {
        assert!(implemented.iter().any(|case| case.id == id), "{id} is missing");
    }
    assert_eq!((catalogue_cases.len(), implemented.len()), (CASES, CASES));
}
