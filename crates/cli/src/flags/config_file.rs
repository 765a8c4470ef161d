//! The configuration file and the file of roots: reads them, merges them with the flags, and reports errors with line
//! numbers.

use std::io::Read;
use std::path::Path;

use argiope_core::crawl::rules::{Config, ConfigError, Root};
use argiope_runtime::changed_roots::{ChangedRoots, changed_roots};
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::DeTable;

#[cfg(feature = "demo")]
use super::DemoArgs;
use super::settings::{CommandIo, CommandSettings, FleetFlags, MessageSettings};
use super::{CheckSettings, CrawlArgs, FetchArgs};
use argiope_core::base::escape::visible;
use argiope_core::crawl::settings::Settings as _;

/// Bad usage: the message to print before exit code 2.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

/// The settings of a crawl: flags override the configuration file, which overrides the defaults.
pub fn crawl_settings(args: &CrawlArgs) -> Result<CommandSettings, UsageError> {
    let mut settings = match &args.config {
        Some(path) => read_settings(path)?,
        None => CommandSettings::default(),
    };
    args.apply_to(&mut settings).map_err(UsageError::from)?;
    settings.fleet.check()?;
    let config = &mut settings.crawl;
    config.roots.iter().try_for_each(|root| check_not_a_file(root))?;
    if let Some(path) = &settings.io.input {
        config.roots.extend(read_roots(path, config.max_url)?);
    }
    if settings.io.changes_roots() {
        change_roots(&mut settings)?;
    }
    Ok(settings)
}

/// Sets the roots of the crawl in the directory, with those that are added and without those that are removed.
fn change_roots(settings: &mut CommandSettings) -> Result<(), UsageError> {
    let fail = |why: &str| Err(UsageError(format!("--add-root and --remove-root {why}")));
    let CommandSettings { crawl: config, io, fleet, notes, .. } = settings;
    let Some(directory) = &config.out else { return fail("need -d, the directory of the crawl") };
    if fleet.is_set() {
        return fail("cannot be used in a fleet: its processes have agreed on the roots");
    }
    if config.fresh {
        return fail("contradict --fresh, which starts a new crawl; give all its roots");
    }
    if !config.roots.is_empty() {
        return fail("change the roots that the crawl has; leave out the other roots");
    }
    io.add_root = with_files(&io.add_root, config.max_url)?;
    io.remove_root = with_files(&io.remove_root, config.max_url)?;
    let Some(ChangedRoots { roots, unknown }) = changed_roots(directory, &io.add_root, &io.remove_root) else {
        let shown = directory.display().to_string();
        return fail(&format!("need an earlier crawl, and {} has none", visible(&shown)));
    };
    if roots.is_empty() {
        return fail("leave no root; remove the directory instead");
    }
    config.roots = roots;
    let note = |root: String| format!("{} is not a root of this crawl, so it is not removed", visible(&root));
    *notes = unknown.into_iter().map(note).collect();
    Ok(())
}

/// Roots, with those in the files that `@FILE` names.
fn with_files(roots: &[String], max_url: usize) -> Result<Vec<String>, UsageError> {
    let mut all = Vec::new();
    for root in roots {
        match root.strip_prefix('@') {
            Some(path) => all.extend(read_roots(Path::new(path), max_url)?),
            None => {
                check_not_a_file(root)?;
                all.push(root.clone());
            }
        }
    }
    Ok(all)
}

/// The settings of `argiope fetch`: flags override the defaults.
pub fn fetch_settings(args: &FetchArgs) -> Result<Config, UsageError> {
    let mut config = Config::default();
    args.apply_to(&mut config).map_err(UsageError::from)?;
    config.roots.iter().try_for_each(|root| check_not_a_file(root))?;
    Ok(config)
}

/// Rejects a root that is the name of an existing file: with `argiope crawl README.md`, the user most likely does not mean
/// a host called `readme.md`. A folder is rejected only if it is written as a path, such as `./docs`, because a folder called
/// `example.com` may contain a copy of the site with that name.
fn check_not_a_file(root: &str) -> Result<(), UsageError> {
    let path = Path::new(root);
    let is_path = path.is_file() || (root.starts_with(['.', '/']) && path.is_dir());
    if root.contains("://") || !is_path {
        return Ok(());
    }
    let (kind, name) = (if path.is_dir() { "folder" } else { "file" }, visible(root));
    let input_hint = if path.is_dir() { String::new() } else { format!("to crawl the URLs in it: -i {name}; ") };
    Err(UsageError(format!(
        "{name} is a {kind}, not a URL; to check its links: argiope check {name}; {input_hint}to crawl a host of that name: https://{}/",
        name.trim_start_matches(['.', '/'])
    )))
}

/// The settings of `argiope demo`: flags override the defaults.
#[cfg(feature = "demo")]
pub fn demo_settings(args: &DemoArgs) -> Result<CommandSettings, UsageError> {
    let mut settings = CommandSettings::default();
    args.apply_to(&mut settings)?;
    Ok(settings)
}

fn read_settings(path: &Path) -> Result<CommandSettings, UsageError> {
    let (text, shown) = read_text(path)?;
    Ok(parse_settings(&text, &shown, &[])?.0)
}

/// Reads the settings of `argiope check` from a configuration file, which may have the keys of a crawl too.
pub fn check_settings(path: &Path) -> Result<(CommandSettings, CheckSettings), UsageError> {
    let (text, shown) = read_text(path)?;
    let (settings, own_table) = parse_settings(&text, &shown, &CheckSettings::keys())?;
    let own = CheckSettings::deserialize(own_table).map_err(|error| toml_error(&text, &shown, &error))?;
    Ok((settings, own))
}

/// The text of a configuration file, and its name in messages.
fn read_text(path: &Path) -> Result<(String, String), UsageError> {
    let shown = visible(&path.display().to_string()).into_owned();
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((text, shown)),
        Err(error) => Err(UsageError(format!("the configuration file {shown} cannot be read: {error}"))),
    }
}

/// Parses TOML; `name` is the file's name in messages. `own_keys` are keys that only the current command has. They are
/// returned apart.
fn parse_settings<'t>(
    text: &'t str,
    name: &str,
    own_keys: &[&'static str],
) -> Result<(CommandSettings, toml::Deserializer<'t>), UsageError> {
    let describe = |error: toml::de::Error| toml_error(text, name, &error);
    let mut crawl_table = DeTable::parse(text).map_err(describe)?;
    let table = crawl_table.get_mut();
    let known_keys = || CommandSettings::keys().chain(own_keys.iter().copied());
    if let Some(unknown) = table.keys().find(|key| !known_keys().any(|known| known == key.get_ref())) {
        let line = text.get(..unknown.span().start).map(line_after);
        let place = line.map(|line| format!(", line {line}")).unwrap_or_default();
        let unknown = unknown.get_ref();
        let hint = match nearest_key(unknown, known_keys()) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => "the keys are the long flags of `argiope crawl --help`".to_owned(),
        };
        return Err(UsageError(format!("{name}{place}: unknown key `{}`; {hint}", visible(unknown))));
    }
    // The table contains the keys of several structures. Each rejects unknown keys, so each gets a table with its own.
    let mut split_off = |keys: &[&str]| {
        let mut part = DeTable::new();
        part.extend(keys.iter().filter_map(|key| table.remove_entry(*key)));
        part
    };
    let own_table = split_off(own_keys);
    let [io, messages, fleet] =
        [CommandIo::keys(), MessageSettings::keys(), FleetFlags::keys()].map(|keys| split_off(&keys));
    let span = crawl_table.span();
    let deserializer = |table| toml::Deserializer::from(Spanned::new(span.clone(), table));
    let own = deserializer(own_table);
    let settings = CommandSettings {
        crawl: Config::deserialize(toml::Deserializer::from(crawl_table)).map_err(describe)?,
        io: CommandIo::deserialize(deserializer(io)).map_err(describe)?,
        messages: MessageSettings::deserialize(deserializer(messages)).map_err(describe)?,
        fleet: FleetFlags::deserialize(deserializer(fleet)).map_err(describe)?,
        notes: Vec::new(),
    };
    Ok((settings, own))
}

/// The line number, from 1, of the position at the end of this text.
fn line_after(before: &str) -> usize {
    before.matches('\n').count() + 1
}

/// A message for a TOML error, without line breaks: file name, line number, key and problem.
fn toml_error(text: &str, name: &str, error: &toml::de::Error) -> UsageError {
    let message = replace_type_names(error.message().lines().collect::<Vec<_>>().join(" "));
    let before = error.span().and_then(|span| text.get(..span.start));
    let Some(before) = before else { return UsageError(format!("{name}: {}", visible(&message))) };
    let number = line_after(before);
    let line = text.lines().nth(number - 1).unwrap_or_default();
    let key = line.split_once('=').map(|(key, _)| format!("{}: ", key.trim())).unwrap_or_default();
    UsageError(format!("{name}, line {number}: {}{}", visible(&key), visible(&message)))
}

/// Replaces Rust type names in a message with words for users.
fn replace_type_names(message: String) -> String {
    let Some((before, expected)) = message.rsplit_once("expected ") else { return message };
    let plain = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "f32" | "f64" => "a number",
        "path string" => "a path in quotes",
        "a string" => "a text in quotes",
        "a sequence" => "a list in brackets",
        "a boolean" => "true or false",
        _ => return message,
    };
    format!("{before}expected {plain}")
}

/// The known key that is most similar to an unknown one, if it is similar enough.
fn nearest_key(unknown: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let unknown = unknown.to_lowercase().replace('_', "-");
    let distances = known.map(|key| (strsim::osa_distance(&unknown, key), key));
    let (distance, key) = distances.min()?;
    // At most a third of the characters, plus one, may differ.
    (distance <= 1 + unknown.chars().count() / 3).then_some(key)
}

/// Reads roots from a file or, with `-`, from standard input.
fn read_roots(path: &Path, max_url: usize) -> Result<Vec<String>, UsageError> {
    let shown = visible(&path.display().to_string()).into_owned();
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|error| UsageError(format!("the roots in {shown} cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| UsageError(format!("the roots in {shown} are not UTF-8 text")))?;
    parse_roots(&text, &shown, max_url)
}

/// Parses a list of roots, one per line; `name` is the name of the list in messages.
fn parse_roots(text: &str, name: &str, max_url: usize) -> Result<Vec<String>, UsageError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut roots = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        Root::parse(line, max_url).map_err(|error| {
            UsageError(format!("{name}, line {}: '{}': {}", index + 1, visible(&error.value), visible(&error.problem)))
        })?;
        roots.push(line.to_owned());
    }
    Ok(roots)
}

impl From<ConfigError> for UsageError {
    /// Uses clap's wording for invalid values.
    fn from(error: ConfigError) -> Self {
        let problem = visible(&error.problem).into_owned();
        let argument = if error.key == "roots" { "'<URL>...'".to_owned() } else { format!("'--{}'", error.key) };
        Self(if error.value.is_empty() {
            format!("{argument}: {problem}")
        } else {
            format!("invalid value '{}' for {argument}: {problem}", visible(&error.value))
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;
    use crate::flags::settings::{FailOn, PushFormat};
    use crate::records::ANY_FINGERPRINT_KEY;

    fn error_message(text: &str) -> String {
        parse_settings(text, "my.toml", &[]).map(|(settings, _)| settings).expect_err(text).0
    }

    #[test]
    fn a_file_sets_the_settings_of_the_flags() {
        let text = "delay = '0.5s'\nmax-size = '1M'\nexclude = ['a', 'b']\nverbose = 1\nfail-on = 'broken'\n\
                    input = 'roots.txt'\ncsv = 'pages.csv'\nraw-csv = true\nserve = '127.0.0.1:1'\nserve-token-file = 'token'\n\
                    to = 'https://h/'\nto-format = 'bulk'\nto-header = ['X-Key: 1']\n";
        let CommandSettings { crawl: config, io, messages, .. } =
            parse_settings(text, "x", &[]).map(|(settings, _)| settings).unwrap();
        let all = CommandIo {
            input: Some("roots.txt".into()),
            add_root: Vec::new(),
            remove_root: Vec::new(),
            csv: Some("pages.csv".into()),
            raw_csv: true,
            to: Some("https://h/".into()),
            to_format: PushFormat::Bulk,
            to_header: vec!["X-Key: 1".parse().unwrap()],
            serve: Some(([127, 0, 0, 1], 1).into()),
            serve_token_file: Some("token".into()),
        };
        assert_eq!(io, all);
        assert_eq!((messages.verbose, messages.quiet, messages.fail_on), (1, false, Some(FailOn::Broken)));
        assert_eq!(config.delay.to_string(), "500ms");
        assert_eq!(config.exclude.len(), 2);
        assert_eq!(config.concurrency, 256);
    }

    #[test]
    fn the_example_file_has_the_default_settings() {
        let example = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/argiope.toml")).unwrap();
        assert_eq!(
            parse_settings(&example, "argiope.toml", &[]).map(|(settings, _)| settings).unwrap(),
            CommandSettings::default()
        );
    }

    #[test]
    fn the_message_for_an_unknown_key_suggests_a_similar_key() {
        assert_eq!(
            error_message("depth = 1\ndetph = 3\n"),
            "my.toml, line 2: unknown key `detph`; did you mean `depth`?"
        );
        assert_eq!(
            error_message("max_pages = 3"),
            "my.toml, line 1: unknown key `max_pages`; did you mean `max-pages`?"
        );
        assert_eq!(
            error_message("[zebra]\nx=1"),
            "my.toml, line 1: unknown key `zebra`; the keys are the long flags of `argiope crawl --help`"
        );
    }

    #[test]
    fn the_message_for_a_bad_value_names_line_and_key() {
        assert_eq!(
            error_message("depth = 2\ndelay = 'soon'"),
            "my.toml, line 2: delay: \"soon\" is not a duration; write a number and its unit: 500ms, 0.5s, 5m, 1h"
        );
        assert_eq!(
            error_message("pace = 'fast'"),
            "my.toml, line 1: pace: \"fast\" is not known; write one of: gentle steady full"
        );
        assert_eq!(
            error_message("depth = 'x'"),
            "my.toml, line 1: depth: invalid type: string \"x\", expected a whole number, 0 or more"
        );
        assert!(error_message("max-tries = 300").ends_with("expected a whole number from 0 to 255"));
        assert!(error_message("assets = 1").ends_with("expected true or false"));
        assert_eq!(
            error_message("# x\n\nquiet = 1").split(", expected").next(),
            Some("my.toml, line 3: quiet: invalid type: integer `1`")
        );
        assert!(
            error_message("fail-on = 'x'").starts_with("my.toml, line 1: fail-on: "),
            "{}",
            error_message("fail-on = 'x'")
        );
        assert!(error_message("depth = ").starts_with("my.toml, line 1: depth: "));
        assert!(!error_message("delay = 'a\u{1b}[2J'").contains('\u{1b}'));
    }

    #[test]
    fn a_file_of_roots_has_one_root_per_line() {
        let roots = parse_roots("\u{feff}# seeds\n\n https://a.example/ \r\nb.example\n", "seeds", 4096).unwrap();
        assert_eq!(roots, ["https://a.example/", "b.example"]);
        let refusal = parse_roots("a.example\nftp://b.example/", "seeds", 4096).unwrap_err().0;
        assert!(refusal.starts_with("seeds, line 2: 'ftp://b.example/': neither http nor https; write"), "{refusal}");
    }

    #[test]
    fn flags_override_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.toml");
        std::fs::write(
            &path,
            "roots = ['a.example']\ndepth = 3\ndelay = '1s'\nscope = 'page'\nrobots = 'ignore'\nexclude = ['x']\n",
        )
        .unwrap();
        let crawl = |flags: &[&str]| {
            let line = ["crawl", "--config", path.to_str().unwrap()].into_iter().chain(flags.iter().copied());
            let matches = CrawlArgs::augment_args(clap::Command::new("crawl")).get_matches_from(line);
            crawl_settings(&CrawlArgs::from_arg_matches(&matches).unwrap()).unwrap().crawl
        };
        let config = crawl(&[]);
        assert_eq!((config.depth, config.roots.as_slice()), (Some(3), &["a.example".to_owned()][..]));
        let config = crawl(&[
            "b.example",
            "--depth",
            "1",
            "--scope",
            "any",
            "--robots",
            "obey",
            "--exclude",
            "y",
            "--delay",
            "2s",
        ]);
        assert_eq!((config.depth, config.roots.as_slice()), (Some(1), &["b.example".to_owned()][..]));
        assert_eq!((config.exclude.as_slice(), config.delay.to_string()), (&["y".to_owned()][..], "2s".to_owned()));
        let rules = config.compile(ANY_FINGERPRINT_KEY).unwrap();
        assert_eq!(rules.scope_kind.as_str(), "any");
        assert_eq!(rules.robots.as_str(), "obey");
    }
}
