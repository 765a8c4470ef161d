//! Runs the fuzz corpora as regression tests. Each test has the name of its fuzz target.

#![allow(clippy::disallowed_methods, reason = "tests read files")]

#[path = "../../../fuzz/src/lib.rs"]
mod properties;

use std::path::PathBuf;

/// Runs a property over all files of its corpus; there must be at least this many.
fn run(target: &str, min_files: usize, property: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    // Also with a few random mutations, for systems without a fuzzer.
    let rounds = if std::env::var_os("ARGIOPE_LONG").is_some() { 2_000 } else { 20 };
    let mut count = 0;
    for file in files {
        let path = file.expect("the folder can be read").path();
        let data = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        property(&data);
        // The property also holds for truncated input.
        (0..data.len().min(64)).for_each(|end| property(&data[..end]));
        mutated(&data, rounds).iter().for_each(|data| property(data));
        count += 1;
    }
    assert!(count >= min_files, "{count} files in {}", folder.display());
}

/// Mutated copies of the data, the same in every run.
fn mutated(data: &[u8], rounds: u64) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ data.len() as u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap_or(0) % below.max(1)
    };
    let mut copies = Vec::new();
    for _ in 0..rounds {
        let mut copy = data.to_vec();
        for _ in 0..=random(4) {
            let (position, value) = (random(copy.len() + 1), u8::try_from(random(256)).unwrap_or(0));
            match random(4) {
                0 => copy.insert(position, value),
                1 if position < copy.len() => drop(copy.remove(position)),
                2 => copy.truncate(position),
                _ if position < copy.len() => copy[position] ^= value,
                _ => copy.push(value),
            }
        }
        copies.push(copy);
    }
    copies
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
fn frames() {
    run("frames", 13, properties::frames);
}

#[test]
fn head() {
    run("head", 10, properties::head);
}

#[test]
fn body() {
    run("body", 8, properties::body);
}
