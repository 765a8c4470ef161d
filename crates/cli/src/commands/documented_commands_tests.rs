//! The commands that the documentation shows are accepted: every `argiope` line in a shell block of README, book and
//! contributing pages, and every example of a help text, is parsed as the program parses it, without running it.

use std::path::{Path, PathBuf};

/// A word of a command line, or a character that ends a command.
#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    End,
}

/// The words of a shell line. Quotes and backslashes work as in a shell; substitutions are kept as text.
fn tokens(line: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\'' | '"' => {
                let quoted: String = characters.by_ref().take_while(|&next| next != character).collect();
                word.get_or_insert_default().push_str(&quoted);
            }
            '\\' => word.get_or_insert_default().extend(characters.next()),
            '#' if word.is_none() => break,
            '|' | ';' | '&' | '(' | ')' | '<' | '>' | ' ' | '\t' | '\n' => {
                // `2>` and the file of a redirection are no arguments.
                if character == '>' && word.as_deref() == Some("2") {
                    word = None;
                }
                tokens.extend(word.take().map(Token::Word));
                if !character.is_whitespace() {
                    tokens.push(Token::End);
                }
            }
            _ => word.get_or_insert_default().push(character),
        }
    }
    tokens.extend(word.map(Token::Word));
    tokens
}

/// The arguments of every `argiope` command in a shell text, the name of the program included.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for line in text.replace("\\\n", " ").lines() {
        let tokens = tokens(line.trim_start().trim_start_matches("$ "));
        for command in tokens.split(|token| *token == Token::End) {
            let words: Vec<&String> = command
                .iter()
                .filter_map(|token| if let Token::Word(word) = token { Some(word) } else { None })
                .collect();
            // Other programs may run it: `sudo argiope`, `VARIABLE=1 argiope`, `podman run ... argiope crawl`.
            let Some(start) = words.iter().position(|word| *word == "argiope") else { continue };
            let is_argument =
                words[..start].iter().any(|word| ["-p", "add", "install", "which", "command"].contains(&word.as_str()));
            if !is_argument {
                found.push(words[start..].iter().map(|word| (*word).clone()).collect());
            }
        }
    }
    found
}

/// The shell blocks of a Markdown page.
fn shell_blocks(page: &str) -> Vec<&str> {
    page.split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.strip_prefix("sh\n").or(block.strip_prefix("console\n")))
        .collect()
}

/// The examples of the help texts, which `docs/commands.md` and `docs/flags.md` repeat.
fn examples(page: &str) -> Vec<&str> {
    page.split("\nExamples:\n").skip(1).filter_map(|rest| rest.split("\n\n").next()).collect()
}

fn pages_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            pages_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

#[test]
fn commands_are_found_in_pipes_substitutions_and_continued_lines() {
    let text =
        "FOO=1 argiope crawl 'a b' \\\n  --csv - -q | head -2 # argiope no\nargiope report x > y && argiope demo\n";
    assert_eq!(
        commands(text),
        [vec!["argiope", "crawl", "a b", "--csv", "-", "-q"], vec!["argiope", "report", "x"], vec!["argiope", "demo"],]
    );
}

#[test]
fn every_command_that_the_documentation_shows_is_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("SECURITY.md")];
    pages_below(&root.join("docs"), &mut pages);
    let (mut refused, mut count) = (Vec::new(), 0);
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for command in shell_blocks(&text).into_iter().chain(examples(&text)).flat_map(commands) {
            count += 1;
            if let Err(error) = super::command_line::command().try_get_matches_from(&command)
                && error.use_stderr()
            {
                let message = error.to_string();
                let reason = message.lines().next().unwrap_or_default();
                refused.push(format!("{}: {}: {reason}", page.display(), command.join(" ")));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(count > 120, "only {count} commands were found");
}
