//! Pages that are generated from the tables of settings and the definition of the command line: docs/commands.md, the
//! reference of all commands but `crawl`; docs/flags.md, that of `crawl`; docs/argiope.toml, a configuration file with
//! all defaults; docs/argiope.schema.json, the JSON Schema of that file.

use std::fmt::Write;

use argiope_core::crawl::rules::Config;
use argiope_core::crawl::settings::{CRAWL, Resume, Setting, SettingForm, Settings};
use clap::{Arg, Command};
use serde_json::{Map, Value, json};

use super::command_line;
use crate::flags::CheckSettings;
use crate::flags::settings::{CommandIo, FleetFlags, MessageSettings};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

const OPENING: &str = "\
# The other commands

This page lists the arguments and flags of every command except `crawl`, which has [a page of its own](flags.md).
The page is generated from the help texts of the program.
";

#[test]
fn the_reference_of_commands_is_current() {
    let mut command = command_line::command();
    command.build();
    let mut page = OPENING.to_owned();
    for sub in command.get_subcommands().filter(|sub| !["crawl", "help"].contains(&sub.get_name())) {
        describe(&mut page, sub, "argiope", 2);
    }
    check_page("commands.md", &page);
}

/// Compares a page with the generated text, or writes it.
fn check_page(name: &str, text: &str) {
    let path = format!("{DOCS}/{name}");
    if std::env::var_os("UPDATE_COMMANDS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(current == text, "docs/{name} is not current: run the tests `reference` with UPDATE_COMMANDS=1");
}

/// The settings of `crawl` that users see.
fn crawl_settings() -> impl Iterator<Item = &'static Setting> {
    let tables = [Config::TABLE, CommandIo::TABLE, MessageSettings::TABLE, FleetFlags::TABLE];
    tables.into_iter().flatten().filter(|setting| setting.unused & CRAWL == 0)
}

/// The keys of settings that must satisfy a condition, as flags.
fn flag_list(is_listed: impl Fn(&Setting) -> bool) -> String {
    let flags = crawl_settings().filter(|setting| setting.commands & CRAWL != 0 && is_listed(setting));
    let mut flags: Vec<String> = flags.map(|setting| format!("`--{}`", setting.key)).collect();
    let last = flags.pop().unwrap_or_default();
    format!("{} and {last}", flags.join(", "))
}

#[test]
fn the_reference_of_flags_is_current() {
    let mut command = command_line::command();
    command.build();
    let mut page = format!(
        "\
# Commands and flags

This page lists all commands, and all flags of `argiope crawl`. It is generated from the help texts of the program.

- `argiope COMMAND -h` shows the common flags of a command. `argiope COMMAND --help` shows all of them with explanations.
- `argiope man DIR` writes man pages.
- Every long flag of `crawl` is also a key of the [configuration file](argiope.toml), except `--config`. Editors that know \
JSON Schema can check the file with [its schema](argiope.schema.json).
- A **size** is written `64K`, `10M` or `1G`, a **time** `500ms`, `0.5s`, `5m`, `1h` or `1d`. **RE** is a regular expression.

The *roots* are the URLs that you give. [Introduction](introduction.md#terms) explains other terms.

## Flags when a crawl resumes

A crawl resumes if its crawl directory exists. Its flags may differ from those of the run before, with these rules:

- The roots, {} must be the same. Otherwise the command names the difference and exits with code 2. Give another \
directory (`-d`), or start over with `--fresh`. `--add-root` and `--remove-root` change the roots.
- {} may change. The new values are applied to all known links: links that are in scope now are queued, and queued links \
that are out of scope now are not fetched. Fetched pages stay.
- All other flags may change. The new values apply to this run.
- Headers, logins, cookies and proxies are not stored. Give them again.

## Commands

| command | |
|---|---|
",
        flag_list(|setting| setting.resume == Resume::Fixed),
        flag_list(|setting| setting.resume == Resume::Rejudged)
    );
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let _ = writeln!(page, "| `argiope {}` | {} |", sub.get_name(), sub.get_about().cloned().unwrap_or_default());
    }
    page += "\n## Flags of `crawl`\n";
    let crawl = command.find_subcommand("crawl").unwrap();
    let flags: Vec<&Arg> = crawl
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && arg.get_id().as_str() != "help" && !arg.is_positional())
        .collect();
    let mut headings: Vec<&str> = flags.iter().filter_map(|flag| flag.get_help_heading()).collect();
    let mut known = std::collections::HashSet::new();
    headings.retain(|heading| known.insert(*heading));
    for heading in headings {
        let _ = writeln!(page, "\n### {heading}\n\n| flag | |\n|---|---|");
        for flag in flags.iter().filter(|flag| flag.get_help_heading() == Some(heading)) {
            let setting = crawl_settings().find(|setting| flag.get_id() == setting.name);
            let see = setting.and_then(|setting| setting.page);
            let see = see.map(|page| format!(" [More]({page}).")).unwrap_or_default();
            let _ = writeln!(page, "| {} | {}{see} |", argument_names(flag), help_cell(flag));
        }
    }
    check_page("flags.md", &page);
}

const FILE_OPENING: &str = "\
# A configuration file for `argiope crawl --config FILE`. It is generated from the help texts of the program.
#
# - Every long flag is a key here, except --config. Flags on the command line override the file.
# - The values below are the defaults. Lines that begin with `#` and a key show keys without a fixed default, with an
#   example value.
# - Durations are written 500ms, 0.5s, 5m, 1h; sizes 64K, 10M, 1G.
# - \"Roots\" are the URLs where the crawl begins. An \"origin\" is a scheme, a host and a port.
";

#[test]
fn the_reference_configuration_file_is_current() {
    let mut file = FILE_OPENING.to_owned();
    let mut settings: Vec<&Setting> = crawl_settings().collect();
    let position = |setting: &Setting| crawl_settings().position(|other| other.heading == setting.heading);
    settings.sort_by_key(|setting| position(setting));
    let mut heading = "";
    for setting in settings {
        if std::mem::replace(&mut heading, setting.heading) != setting.heading {
            let _ = writeln!(file, "\n# {heading}");
        }
        let default = (setting.default)();
        let line = match setting.form {
            _ if setting.is_list => format!("{} = []", setting.key),
            SettingForm::Switch | SettingForm::Number(_) if !default.is_empty() => {
                format!("{} = {}", setting.key, default[0])
            }
            _ if !default.is_empty() => format!("{} = {:?}", setting.key, default_text(setting)),
            _ => format!("#{} = {}", setting.key, example(setting)),
        };
        let help = setting.paragraphs(CRAWL, |name| Some(name.replace('_', "-"))).swap_remove(0);
        let help = help.split(" [default: ").next().unwrap_or_default();
        let words = match setting.form {
            SettingForm::Words(words) => format!(" ({})", words.join(", ")),
            _ => String::new(),
        };
        let _ = writeln!(file, "{line:<39} # {help}{words}");
    }
    file += "#auth = [{ origin = \"https://example.com\", user = \"name:password\" }, \
             { origin = \"https://api.example.com\", bearer = \"token\" }]\n";
    check_page("argiope.toml", &file);
}

fn default_text(setting: &Setting) -> String {
    setting.shown_default().unwrap_or_default()
}

/// A value for a setting without a default, in TOML.
fn example(setting: &Setting) -> &'static str {
    match setting.value {
        "N" => "10",
        "SIZE" => "\"10G\"",
        "TIME" => "\"1h\"",
        "N/s" => "\"10/s\"",
        "DIR" => "\"folder\"",
        "FILE" => "\"file\"",
        "PATH" => "\"browser\"",
        "URL" => "\"http://proxy.example:3128\"",
        "TEXT" | "NAME" => "\"text\"",
        "ALGORITHM" => "\"sha256\"",
        "ADDR:PORT" => "\"127.0.0.1:8642\"",
        "ADDRESS" => "\"redis://10.0.0.1:6379,10.0.0.2:6379\"",
        "NAME:PASSWORD" => "\"name:password\"",
        "WHAT" => "\"broken\"",
        "DATE" => "\"2026-01-31\"",
        "PAGES" => "\"sitemap\"",
        other => panic!("an example for {other} is missing"),
    }
}

#[test]
fn the_reference_schema_of_the_configuration_file_is_current() {
    let mut properties = Map::new();
    for setting in crawl_settings().chain(CheckSettings::TABLE) {
        let own = schema(setting);
        match properties.get_mut(setting.key) {
            // `check` has a setting of the same name.
            Some(other) => *other = json!({ "anyOf": [other.take(), own] }),
            None => drop(properties.insert(setting.key.to_owned(), own)),
        }
    }
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The configuration file of argiope crawl and argiope check",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    check_page("argiope.schema.json", &format!("{schema:#}\n"));
}

/// The JSON Schema of one setting.
fn schema(setting: &Setting) -> Value {
    let value = match setting.form {
        SettingForm::Switch => json!({ "type": "boolean" }),
        SettingForm::Number(max) if max <= u32::MAX.into() => {
            json!({ "type": "integer", "minimum": 0, "maximum": max })
        }
        SettingForm::Number(_) => json!({ "type": "integer", "minimum": 0 }),
        SettingForm::Words(words) => json!({ "enum": words }),
        SettingForm::Text | SettingForm::Path => json!({ "type": "string" }),
        SettingForm::TextOrNumber if setting.unit.is_empty() => json!({ "type": ["string", "integer"] }),
        SettingForm::TextOrNumber => json!({ "type": ["string", "number"] }),
        SettingForm::Table => json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["origin"],
            "properties": { "origin": { "type": "string" }, "user": { "type": "string" }, "bearer": { "type": "string" } },
        }),
    };
    let mut value = if setting.is_list { json!({ "type": "array", "items": value }) } else { value };
    value["description"] = setting.paragraphs(CRAWL, |name| Some(name.replace('_', "-"))).join(" ").into();
    value
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
