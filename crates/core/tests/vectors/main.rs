//! The public test vectors, run case by case, and the table of docs/conformance.md that comes from them.
//!
//! The files are not part of this repository: `ARGIOPE_VECTORS` names their folder, and `release/vectors` makes one with
//! some of the sets. `./test` skips the tests of sets that are not there. The other tests of the crate have cases for
//! every rule.

#![allow(clippy::disallowed_methods, reason = "tests read files")]

mod address;
mod conformance;
#[path = "../conn_kit/mod.rs"]
mod conn_kit;
mod html;
mod http1;
mod robots;
mod sitemap;
mod tally;
#[path = "../tokens/mod.rs"]
mod tokens;
mod url;

use std::path::PathBuf;

use serde_json::Value;

/// Reads a vector file.
fn read(file: &str) -> Value {
    serde_json::from_slice(&read_bytes(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn read_bytes(file: &str) -> Vec<u8> {
    let folder = std::env::var_os("ARGIOPE_VECTORS").expect("ARGIOPE_VECTORS names the folder of the test vectors");
    let path = PathBuf::from(folder).join(file);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cases of one part of a vector file.
fn cases<'a>(vectors: &'a Value, part: &str) -> &'a [Value] {
    vectors[part].as_array().unwrap_or_else(|| panic!("no list {part}"))
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or_else(|| panic!("no text {key} in {case}"))
}

/// A text, or bytes in Base64 under the same key with the suffix `_b64`.
fn bytes(case: &Value, key: &str) -> Vec<u8> {
    use base64::Engine as _;
    match case[key].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => base64::engine::general_purpose::STANDARD.decode(text(case, &format!("{key}_b64"))).unwrap(),
    }
}
