//! The built command without a network: help, version, completions, and messages about bad input.

use std::process::{Command, Output};

fn argiope(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_argiope")).args(arguments).output().expect("the command was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Runs the command, expects exit code 2 and an empty standard output, and returns the error message.
fn usage_error(arguments: &[&str]) -> String {
    let output = argiope(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert!(message.starts_with("error: "), "{arguments:?}: {message}");
    message
}

#[test]
fn help_goes_to_standard_output() {
    let output = argiope(&["--help"]);
    assert!(output.status.success() && output.stderr.is_empty());
    let help = text(&output.stdout);
    for command in
        ["crawl", "fetch", "robots", "demo", "exhibition", "explain", "report", "export", "completions", "man"]
    {
        assert!(help.contains(&format!("\n  {command} ")), "{command} is missing:\n{help}");
    }
}

#[test]
fn help_on_crawl_has_groups_and_examples() {
    let output = argiope(&["crawl", "--help"]);
    assert!(output.status.success());
    let help = text(&output.stdout);
    for part in [
        "Input and directory:",
        "Scope:",
        "Pace:",
        "Fetch:",
        "Trust:",
        "Output and resources:",
        "Messages:",
        "Examples:",
        "--max-pages <N>",
    ] {
        assert!(help.contains(part), "{part} is missing:\n{help}");
    }
}

#[test]
fn the_help_command_shows_the_help_of_a_command() {
    let (help, flag) = (argiope(&["help", "crawl"]), argiope(&["crawl", "--help"]));
    assert!(help.status.success() && help.stderr.is_empty());
    assert_eq!(text(&help.stdout), text(&flag.stdout));
}

#[test]
fn man_pages_are_printed_or_written_to_a_folder() {
    let page = argiope(&["man"]);
    assert!(page.status.success() && text(&page.stdout).contains(".TH argiope 1"), "{}", text(&page.stdout));
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man1");
    let output = argiope(&["man", pages.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for command in ["argiope", "argiope-crawl", "argiope-export", "argiope-man"] {
        let page = std::fs::read_to_string(pages.join(format!("{command}.1"))).expect(command);
        assert!(page.contains(&format!(".TH {command} 1")), "{page}");
    }
    let crawl = std::fs::read_to_string(pages.join("argiope-crawl.1")).expect("a page");
    assert!(crawl.contains("max\\-pages"), "{crawl}");
}

#[test]
fn no_command_shows_the_help_and_is_bad_usage() {
    let output = argiope(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Usage: argiope"));
}

#[test]
fn the_version_names_the_public_suffix_list_that_is_built_in() {
    let output = argiope(&["--version"]);
    assert!(output.status.success());
    let lock =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).expect("the lock file");
    let (_, psl) = lock.split_once("name = \"psl\"\nversion = \"").expect("psl is locked");
    let psl = psl.split('"').next().unwrap_or_default();
    assert_eq!(
        text(&output.stdout),
        format!("argiope {}\npublic suffix list: psl {psl}\n", env!("CARGO_PKG_VERSION")),
        "after an update of psl, change the constant in cli/src/flags/mod.rs"
    );
}

#[test]
fn completions_are_printed_for_bash_zsh_and_fish() {
    for (shell, marker) in [("bash", "complete -F"), ("zsh", "#compdef argiope"), ("fish", "complete -c argiope")] {
        let output = argiope(&["completions", shell]);
        assert!(output.status.success(), "{shell}");
        let script = text(&output.stdout);
        assert!(script.contains(marker) && script.contains("max-pages"), "{shell}:\n{script}");
    }
    assert!(usage_error(&["completions", "cobol"]).contains("'cobol'"));
}

#[test]
fn the_message_for_a_bad_value_names_flag_value_and_syntax() {
    let url = "https://example.com/";
    for (arguments, parts) in [
        (vec!["crawl", url, "--delay", "5x"], vec!["'--delay <TIME>'", "5x", "500ms, 0.5s, 5m, 1h"]),
        (vec!["crawl", url, "--delay", "soon"], vec!["\"soon\" is not a duration"]),
        (vec!["crawl", url, "--max-size", "10X"], vec!["'--max-size <SIZE>'", "10X", "64K, 10M, 1G"]),
        (vec!["crawl", url, "--rate", "10x"], vec!["'--rate <N/s>'", "10/s"]),
        (vec!["crawl", url, "--depth", "-1"], vec!["'--depth <N>'", "'-1'", "whole number"]),
        (vec!["crawl", url, "--max-pages", "many"], vec!["'--max-pages <N>'", "'many'", "whole number"]),
        (vec!["crawl", url, "--pace", "fast"], vec!["'--pace <PACE>'", "'fast'", "gentle, steady, full"]),
        (vec!["crawl", url, "--include", "("], vec!["'--include'", "'('", "unclosed group"]),
        (vec!["crawl", url, "--resolve", "h:80"], vec!["'--resolve <HOST:PORT:ADDR>'", "h:80"]),
        (vec!["crawl", url, "--dns", "there"], vec!["'--dns <ADDR:PORT>'", "192.0.2.53:53"]),
        (vec!["crawl", url, "-H", "nonsense"], vec!["--header", "'Name: value'"]),
        (vec!["crawl", url, "--concurrency", "0"], vec!["'--concurrency'", "from 1"]),
        (vec!["crawl", url, "--sitemap", "--no-sitemap"], vec!["--sitemap", "--no-sitemap"]),
        (vec!["crawl", url, "--detph", "3"], vec!["'--detph'", "'--depth'"]),
        (vec!["crawl"], vec!["<URL>", "https://example.com/"]),
        (vec!["crawl", "ftp://example.com/"], vec!["'ftp://example.com/'", "neither http nor https"]),
        (vec!["crawl", "not a url"], vec!["'not a url'", "https://example.com/"]),
        (vec!["fetch", "http://"], vec!["'http://'"]),
        (vec!["crawl", url, "-i", "/nonexistent/seeds"], vec!["/nonexistent/seeds", "cannot be read"]),
        (vec!["crwl", url], vec!["'crwl'", "'crawl'"]),
    ] {
        let message = usage_error(&arguments);
        for part in parts {
            assert!(message.contains(part), "{arguments:?}: {part} is missing in:\n{message}");
        }
    }
}

#[test]
fn error_messages_do_not_contain_passwords() {
    for arguments in [
        ["fetch", "https://example.com/", "--user", "hunter2"],
        ["fetch", "https://me:hunter2@example.com/", "--max-tries", "1"],
    ] {
        assert!(!usage_error(&arguments).contains("hunter2"), "{arguments:?}");
    }
}

#[test]
fn error_messages_escape_control_characters() {
    for arguments in [["crawl", "http://\u{1b}[2J/"], ["crawl", "http://h/ --include"]] {
        let output = argiope(&arguments);
        assert!(!text(&output.stderr).contains('\u{1b}'), "{arguments:?}");
    }
}

#[test]
fn the_message_for_a_bad_configuration_file_names_the_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("crawl.toml");
    let path = path.to_str().expect("UTF-8");
    for (content, parts) in [
        ("detph = 3\n", ["line 1", "unknown key `detph`; did you mean `depth`?"]),
        ("depth = 3\ndelay = 'soon'\n", ["line 2: delay", "\"soon\" is not a duration"]),
        ("exclude = ['(']\n", ["'--exclude'", "unclosed group"]),
        ("depth =\n", ["line 1", "depth"]),
    ] {
        std::fs::write(path, content).expect("written");
        let message = usage_error(&["crawl", "https://example.com/", "--config", path]);
        for part in parts {
            assert!(message.contains(part), "{content}: {part} is missing in:\n{message}");
        }
    }
    assert!(usage_error(&["crawl", "x.example", "--config", "/nonexistent.toml"]).contains("/nonexistent.toml"));
}

/// The example in `docs` contains every key; its uncommented values are the defaults, and its commented values are
/// valid.
#[test]
fn the_example_configuration_has_every_key_and_the_defaults() {
    use argiope_core::crawl::rules::Config;
    use argiope_core::crawl::settings::Settings as _;

    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/argiope.toml");
    let example = std::fs::read_to_string(path).expect("the example");
    let parse_settings = |text: &str| -> Config {
        let mut table: toml::Table = toml::from_str(text).expect(text);
        table.retain(|key, _| Config::keys().contains(&key));
        table.try_into().expect(text)
    };
    assert_eq!(parse_settings(&example), Config::default());

    let commented: Vec<&str> = example
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect();
    for line in &commented {
        // The other keys belong to the command and not to `Config`.
        if line.split_once(" = ").is_some_and(|(key, _)| Config::keys().contains(&key)) {
            assert_ne!(parse_settings(line), Config::default(), "{line}");
        }
    }
    let help = text(&argiope(&["crawl", "--help"]).stdout);
    let keys = example.lines().filter_map(|line| line.trim_start_matches('#').split_once(" = ")).map(|(key, _)| key);
    let keys: Vec<&str> = keys.collect();
    for flag in help.split_whitespace().filter_map(|word| word.strip_prefix("--")) {
        let flag = flag.trim_end_matches(|c: char| !c.is_ascii_lowercase());
        let is_command_key = matches!(
            flag,
            "quiet"
                | "verbose"
                | "no-progress"
                | "log-json"
                | "fail-on"
                | "input"
                | "csv"
                | "serve"
                | "serve-token-file"
        );
        if is_command_key || Config::keys().contains(&flag) {
            assert!(keys.contains(&flag), "{flag} is missing in docs/argiope.toml");
        }
    }
}

#[test]
fn an_invalid_port_has_its_own_message() {
    for root in ["http://example.com:99999/", "example.com:99999"] {
        let stderr = usage_error(&["crawl", root]);
        assert!(stderr.contains("the port is not a number from 0 to 65535"), "{stderr}");
    }
}

#[test]
fn a_root_that_is_the_name_of_a_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("README.md"), "text").expect("a file");
    for command in ["crawl", "fetch"] {
        let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"));
        let output = run.args([command, "README.md"]).current_dir(folder.path()).output().expect("the binary runs");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("README.md is a file, not a URL"), "{stderr}");
        assert!(stderr.contains("https://README.md/"), "{stderr}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1, "nothing was created");
}

#[test]
fn a_long_line_of_an_input_file_is_shortened_in_the_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let roots = folder.path().join("roots.txt");
    std::fs::write(&roots, format!("http://h/{}\n", "a".repeat(10_000_000))).expect("a file");
    let stderr = usage_error(&["crawl", "-i", roots.to_str().expect("UTF-8")]);
    assert!(stderr.contains("line 1: 'http://h/aaa") && stderr.contains("longer than"), "{stderr:.500}");
    assert!(stderr.len() < 1_000, "{} bytes", stderr.len());
}
