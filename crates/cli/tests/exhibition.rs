//! The built command `argiope exhibition`: small runs, and messages about bad input.

use std::process::{Command, Output};

fn exhibition(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_argiope");
    Command::new(program).arg("exhibition").args(arguments).output().expect("the command was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The flags of a short run.
const SMALL: [&str; 8] = ["--hosts", "10", "--pages", "3", "--latency", "5ms-15ms", "--concurrency", "10"];

#[test]
fn all_engines_are_compared_and_fetch_every_page() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("race.svg");
    let output = exhibition(&[&SMALL[..], &["--json", "--svg", picture.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let racers = figures["racers"].as_array().unwrap();
    let names: Vec<_> = racers.iter().map(|racer| racer["engine"].as_str().unwrap()).collect();
    // The fifth engine runs if the system allows io_uring.
    assert_eq!(names[..4], ["threads", "callbacks", "coroutines", "tokio"]);
    assert!(matches!(names[4..], [] | ["uring"]), "{names:?}");
    for racer in racers {
        assert_eq!((racer["cost"]["pages"].as_u64(), racer["cost"]["failed"].as_u64()), (Some(30), Some(0)), "{racer}");
        let (wall, ideal) = (racer["cost"]["wall"].as_f64().unwrap(), racer["ideal"].as_f64().unwrap());
        // With robots.txt, each host sends four responses. Ten at a time, with 5 ms or more each, they take at least 20
        // ms.
        assert!(wall >= ideal && ideal >= 0.02, "faster than the servers' delays allow: {racer}");
        assert!(racer["cost"]["cpu"].as_f64().unwrap() > 0.0 && racer["threads"].as_u64().unwrap() > 0);
        assert!(racer["memory"]["many"][1].as_u64() > racer["memory"]["few"][1].as_u64(), "{racer}");
    }
    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(svg.starts_with("<svg") && names.iter().all(|name| svg.contains(name)));
}

#[test]
fn the_output_contains_the_chess_exhibition() {
    let output = exhibition(&[&SMALL[..], &["--engine", "callbacks", "--tls"]].concat());
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for words in ["12 h 00 min", "1 h 00 min", "30 min 00 s", "callbacks", "the ideal", "over HTTPS"] {
        assert!(shown.contains(words), "{words}:\n{shown}");
    }
    assert!(!shown.contains("\ntokio"), "{shown}");
}

/// The flag `--svg` shows whether the comparison went on: the chart is written after it.
#[test]
fn a_closed_pipe_ends_the_exhibition_silently() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("race.svg");
    for arguments in [&["--svg", picture.to_str().unwrap()][..], &["--trace"], &["--memory", "--runs", "1"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        let output = command.arg("exhibition").args(SMALL).args(arguments).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{arguments:?}");
        assert!(!picture.exists(), "the comparison went on without a reader");
    }
}

#[test]
fn the_trace_shows_two_interleaved_fetches() {
    let output = exhibition(&["--trace"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let at = |words: &str| shown.find(words).unwrap_or_else(|| panic!("{words}:\n{shown}"));
    assert!(at("enter fetch 1") < at("enter fetch 2"), "the first begins first:\n{shown}");
    assert!(at("event: bytes for fetch 2") < at("event: bytes for fetch 1"), "and ends last:\n{shown}");
    assert!(at("sleeps in epoll_wait") < at("event: bytes for fetch 2"));
    assert!(shown.trim_end().ends_with("the run is over"));
}

#[test]
fn many_fetches_are_spread_over_processes() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("crowd.svg");
    let svg = picture.to_str().unwrap();
    let output = exhibition(&["--crowd", "400", "--engine", "coroutines", "--json", "--svg", svg]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures[0]["in_flight"], 400);
    // 100 hosts with a first page and four others.
    assert_eq!((figures[0]["pages"].as_u64(), figures[0]["missing"].as_u64()), (Some(500), Some(0)));
    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("400 fetches") && svg.contains("coroutines"), "{svg}");
}

#[test]
fn bad_input_is_refused_with_a_message() {
    for wrong in [
        &["--hosts", "0"][..],
        &["--hosts", "many"],
        &["--pages", "-1"],
        &["--concurrency", "99999999999999999999"],
        &["--latency", "soon"],
        &["--latency", "3s-1s"],
        &["--engine", "steam"],
        &["--trace", "--json"],
        &["--what"],
    ] {
        let output = exhibition(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty() && text(&output.stderr).starts_with("error: "), "{wrong:?}");
    }
    let output = exhibition(&[&SMALL[..], &["--engine", "callbacks", "--svg", "/nowhere/race.svg"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/nowhere/race.svg cannot be written"));
}

#[test]
fn a_hidden_subcommand_called_by_hand_does_not_crash() {
    for words in [&["exhibition-crawler"][..], &["exhibition-crawler", "{}"], &["exhibition-server", "--what"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_argiope")).args(words).output().unwrap();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{words:?}: {:?}", output.status);
    }
}
