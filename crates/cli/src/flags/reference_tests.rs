//! docs/commands.md, the reference of all commands but `crawl`, is generated from the definition of the command line.

use std::fmt::Write;

use clap::{Arg, Command};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");

const OPENING: &str = "\
# The other commands

This page lists the arguments and flags of every command except `crawl`, which has [a page of its own](flags.md).
The page is generated from the help texts of the program.
";

#[test]
fn the_reference_of_commands_is_current() {
    let mut command = super::command();
    command.build();
    let mut page = OPENING.to_owned();
    for sub in command.get_subcommands().filter(|sub| !["crawl", "help"].contains(&sub.get_name())) {
        describe(&mut page, sub, "argiope", 2);
    }
    if std::env::var_os("UPDATE_COMMANDS").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let current = std::fs::read_to_string(PAGE).unwrap();
    assert!(current == page, "docs/commands.md is not current: run this test with UPDATE_COMMANDS=1");
}

/// Adds a section for `command`, and one below it for each of its subcommands.
fn describe(page: &mut String, command: &Command, parent: &str, level: usize) {
    let name = format!("{parent} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(page, "\n{} `{name}`\n\n{}", "#".repeat(level), with_period(&about));
    let arguments: Vec<&Arg> =
        command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id().as_str() != "help").collect();
    if !arguments.is_empty() {
        page.push_str("\n| argument | |\n|---|---|\n");
    }
    for argument in arguments {
        let _ = writeln!(page, "| {} | {} |", argument_names(argument).replace('|', "\\|"), help_cell(argument));
    }
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        let _ = writeln!(page, "\n```text\n{}\n```", after.to_string().trim_end());
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        describe(page, sub, &name, level + 1);
    }
}

/// `-o`, `--out FILE` for a flag, `FILE...` for a positional argument.
fn argument_names(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default().iter().map(|name| name.as_str());
    let takes_value = argument.get_action().takes_values();
    let value = if takes_value { names.collect::<Vec<_>>().join(" ") } else { String::new() };
    if argument.is_positional() {
        let is_list = argument.get_num_args().is_some_and(|count| count.max_values() > 1);
        return format!("`{value}{}`", if is_list { "..." } else { "" });
    }
    let short = argument.get_short().map(|short| format!("`-{short}`"));
    let long = argument.get_long().map(|long| format!("`{}`", format!("--{long} {value}").trim_end()));
    short.into_iter().chain(long).collect::<Vec<_>>().join(", ")
}

/// The long help, or the short one if there is no long help, then the possible values and the default, as in `--help`.
fn help_cell(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let paragraphs = help.split("\n\n").map(|paragraph| with_period(&paragraph.replace('\n', " ")));
    let mut text = paragraphs.collect::<Vec<_>>().join(" ");
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set() && argument.get_action().takes_values())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() && !argument.is_hide_possible_values_set() {
        let _ = write!(text, " Values: {}.", values.join(", "));
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if argument.get_action().takes_values() && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        let _ = write!(text, " Default: {}.", defaults.join(", "));
    }
    // `|` would end the cell, and `<` would start an HTML tag.
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// Adds a period unless the text ends with one or with a colon.
fn with_period(text: &str) -> String {
    if text.ends_with(['.', ':']) { text.to_owned() } else { format!("{text}.") }
}
