//! The configuration file and the file of roots: reading, merging with the flags, and error messages with line numbers.

use std::io::Read;
use std::path::Path;

use argiope_core::rules::{Config, ConfigError, Root};
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::DeTable;

#[cfg(feature = "demo")]
use super::DemoArgs;
use super::settings::{CommandSettings, FLEET_KEYS, MessageSettings};
use super::{CrawlArgs, FetchArgs};
use crate::commands::fleet::FleetFlags;
use argiope_core::output::escape::visible;

/// Bad usage: the message to print before exit code 2.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

/// The settings of a crawl: flags override the configuration file, which overrides the defaults.
pub fn of_crawl(args: &CrawlArgs) -> Result<CommandSettings, UsageError> {
    let mut settings = match &args.place.config {
        Some(path) => from_file(path)?,
        None => CommandSettings::default(),
    };
    args.apply_to(&mut settings).map_err(UsageError::from)?;
    let config = &mut settings.crawl;
    config.roots.iter().try_for_each(|root| check_not_a_file(root))?;
    if let Some(path) = config.input.clone() {
        config.roots.extend(roots_from(&path, config.max_url)?);
    }
    Ok(settings)
}

pub fn of_fetch(args: &FetchArgs) -> Result<Config, UsageError> {
    let mut config = Config::default();
    args.apply_to(&mut config).map_err(UsageError::from)?;
    config.roots.iter().try_for_each(|root| check_not_a_file(root))?;
    Ok(config)
}

/// Rejects a root that is the name of an existing file: `argiope crawl README.md` hardly means a host called
/// `readme.md`.
fn check_not_a_file(root: &str) -> Result<(), UsageError> {
    let path = Path::new(root);
    let is_path = path.is_file() || (root.starts_with(['.', '/']) && path.is_dir());
    if root.contains("://") || !is_path {
        return Ok(());
    }
    let (what, name) = (if path.is_dir() { "folder" } else { "file" }, visible(root));
    let roots = if path.is_dir() { String::new() } else { format!("to crawl the URLs in it: -i {name}; ") };
    Err(UsageError(format!(
        "{name} is a {what}, not a URL; to check its links: argiope check {name}; {roots}to crawl a host of that name: https://{}/",
        name.trim_start_matches(['.', '/'])
    )))
}

#[cfg(feature = "demo")]
pub fn of_demo(args: &DemoArgs) -> CommandSettings {
    let mut settings = CommandSettings::default();
    args.apply_to(&mut settings);
    settings
}

fn from_file(path: &Path) -> Result<CommandSettings, UsageError> {
    let shown = visible(&path.display().to_string()).into_owned();
    let text = std::fs::read_to_string(path)
        .map_err(|error| UsageError(format!("the configuration file {shown} cannot be read: {error}")))?;
    from_text(&text, &shown)
}

/// The shared crawl that this process joins, if any: flags override the configuration file.
pub fn fleet_of(args: &CrawlArgs) -> Result<FleetFlags, UsageError> {
    let mut flags = args.fleet.clone();
    if let Some(path) = &args.place.config {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // Ignored: `of_crawl` has already reported a file that cannot be parsed.
        let table: toml::Table = toml::from_str(&text).unwrap_or_default();
        for key in FLEET_KEYS {
            match table.get(key) {
                None => {}
                Some(toml::Value::String(value)) => flags.set_default(key, value),
                Some(_) => {
                    let shown = visible(&path.display().to_string()).into_owned();
                    return Err(UsageError(format!("{shown}: {key}: expected a text in quotes")));
                }
            }
        }
    }
    flags.check()?;
    Ok(flags)
}

/// Parses TOML; `name` is the file's name in messages.
fn from_text(text: &str, name: &str) -> Result<CommandSettings, UsageError> {
    let complain = |error: toml::de::Error| complaint(text, name, &error);
    let mut of_crawl = DeTable::parse(text).map_err(complain)?;
    let table = of_crawl.get_mut();
    if let Some(unknown) = table.keys().find(|key| !CommandSettings::keys().any(|known| known == key.get_ref())) {
        let line = text.get(..unknown.span().start).map(line_after);
        let at = line.map(|line| format!(", line {line}")).unwrap_or_default();
        let unknown = unknown.get_ref();
        let hint = match nearest(unknown) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "the keys are the long flags of `argiope crawl --help`".to_owned(),
        };
        return Err(UsageError(format!("{name}{at}: unknown key `{}`; {hint}", visible(unknown))));
    }
    for key in FLEET_KEYS {
        table.remove(key);
    }
    // Two structures share the table. Each rejects unknown keys, so each receives only its own.
    let mut of_messages = DeTable::new();
    of_messages.extend(MessageSettings::KEYS.into_iter().filter_map(|key| table.remove_entry(key)));
    let of_messages = Spanned::new(of_crawl.span(), of_messages);
    Ok(CommandSettings {
        crawl: Config::deserialize(toml::Deserializer::from(of_crawl)).map_err(complain)?,
        messages: MessageSettings::deserialize(toml::Deserializer::from(of_messages)).map_err(complain)?,
    })
}

/// The line number, from 1, of the position at the end of this text.
fn line_after(before: &str) -> usize {
    before.matches('\n').count() + 1
}

/// A message for a TOML error, without line breaks: file name, line number, key and problem.
fn complaint(text: &str, name: &str, error: &toml::de::Error) -> UsageError {
    let message = in_plain_words(error.message().lines().collect::<Vec<_>>().join(" "));
    let before = error.span().and_then(|span| text.get(..span.start));
    let Some(before) = before else { return UsageError(format!("{name}: {}", visible(&message))) };
    let number = line_after(before);
    let line = text.lines().nth(number - 1).unwrap_or_default();
    let key = line.split_once('=').map(|(key, _)| format!("{}: ", key.trim())).unwrap_or_default();
    UsageError(format!("{name}, line {number}: {}{}", visible(&key), visible(&message)))
}

/// Replaces Rust type names in a message with words for users.
fn in_plain_words(message: String) -> String {
    let Some((before, wanted)) = message.rsplit_once("expected ") else { return message };
    let plain = match wanted {
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

/// The most similar known key.
fn nearest(unknown: &str) -> Option<&'static str> {
    let unknown = unknown.to_lowercase().replace('_', "-");
    let distances = CommandSettings::keys().map(|key| (strsim::osa_distance(&unknown, key), key));
    let (distance, key) = distances.min()?;
    // If more than a third of the characters differ, nothing is suggested.
    (distance <= 1 + unknown.chars().count() / 3).then_some(key)
}

/// Reads roots from a file or, with `-`, from standard input.
fn roots_from(path: &Path, max_url: usize) -> Result<Vec<String>, UsageError> {
    let shown = visible(&path.display().to_string()).into_owned();
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|error| UsageError(format!("the roots in {shown} cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| UsageError(format!("the roots in {shown} are not UTF-8 text")))?;
    roots_in(&text, &shown, max_url)
}

fn roots_in(text: &str, name: &str, max_url: usize) -> Result<Vec<String>, UsageError> {
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
        let what = if error.key == "roots" { "'<URL>...'".to_owned() } else { format!("'--{}'", error.key) };
        Self(if error.value.is_empty() {
            format!("{what}: {problem}")
        } else {
            format!("invalid value '{}' for {what}: {problem}", visible(&error.value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags as args;
    use crate::flags::settings::FailOn;

    fn refusal(text: &str) -> String {
        from_text(text, "my.toml").expect_err(text).0
    }

    #[test]
    fn a_file_says_what_flags_say() {
        let text = "delay = '0.5s'\nmax-size = '1M'\nexclude = ['a', 'b']\nverbose = 1\nfail-on = 'broken'\n";
        let CommandSettings { crawl: config, messages } = from_text(text, "x").unwrap();
        assert_eq!((messages.verbose, messages.quiet, messages.fail_on), (1, false, Some(FailOn::Broken)));
        assert_eq!(config.delay.to_string(), "500ms");
        assert_eq!(config.exclude.len(), 2);
        assert_eq!(config.concurrency, 256);
    }

    #[test]
    fn the_example_shows_the_defaults() {
        let example = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/argiope.toml")).unwrap();
        assert_eq!(from_text(&example, "argiope.toml").unwrap(), CommandSettings::default());
    }

    #[test]
    fn an_unknown_key_is_named_with_its_neighbour() {
        assert_eq!(refusal("depth = 1\ndetph = 3\n"), "my.toml, line 2: unknown key `detph`; did you mean `depth`?");
        assert_eq!(refusal("max_pages = 3"), "my.toml, line 1: unknown key `max_pages`; did you mean `max-pages`?");
        assert_eq!(
            refusal("[zebra]\nx=1"),
            "my.toml, line 1: unknown key `zebra`; the keys are the long flags of `argiope crawl --help`"
        );
    }

    #[test]
    fn a_bad_value_is_named_with_its_line() {
        assert_eq!(
            refusal("depth = 2\ndelay = 'soon'"),
            "my.toml, line 2: delay: \"soon\" is not a duration; write a number and its unit: 500ms, 0.5s, 5m, 1h"
        );
        assert_eq!(
            refusal("pace = 'fast'"),
            "my.toml, line 1: pace: \"fast\" is not known; write one of: gentle steady full"
        );
        assert_eq!(
            refusal("depth = 'x'"),
            "my.toml, line 1: depth: invalid type: string \"x\", expected a whole number, 0 or more"
        );
        assert!(refusal("max-tries = 300").ends_with("expected a whole number from 0 to 255"));
        assert!(refusal("assets = 1").ends_with("expected true or false"));
        assert_eq!(
            refusal("# x\n\nquiet = 1").split(", expected").next(),
            Some("my.toml, line 3: quiet: invalid type: integer `1`")
        );
        assert!(refusal("fail-on = 'x'").starts_with("my.toml, line 1: fail-on: "), "{}", refusal("fail-on = 'x'"));
        assert!(refusal("depth = ").starts_with("my.toml, line 1: depth: "));
        assert!(!refusal("delay = 'a\u{1b}[2J'").contains('\u{1b}'));
    }

    #[test]
    fn roots_come_one_a_line() {
        let roots = roots_in("\u{feff}# seeds\n\n https://a.example/ \r\nb.example\n", "seeds", 4096).unwrap();
        assert_eq!(roots, ["https://a.example/", "b.example"]);
        let refusal = roots_in("a.example\nftp://b.example/", "seeds", 4096).unwrap_err().0;
        assert!(refusal.starts_with("seeds, line 2: 'ftp://b.example/': neither http nor https; write"), "{refusal}");
    }

    #[test]
    fn flags_win_over_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.toml");
        std::fs::write(
            &path,
            "roots = ['a.example']\ndepth = 3\ndelay = '1s'\nstrict = true\nno-robots = true\nexclude = ['x']\n",
        )
        .unwrap();
        let crawl = |more: &[&str]| {
            let line = ["argiope", "crawl", "--config", path.to_str().unwrap()]
                .into_iter()
                .chain(more.iter().copied())
                .map(Into::into);
            match args::parse(line).unwrap().command {
                args::Command::Crawl(args) => of_crawl(&args).unwrap().crawl,
                other => panic!("{other:?}"),
            }
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
            "--wait",
            "2s",
        ]);
        assert_eq!((config.depth, config.roots.as_slice()), (Some(1), &["b.example".to_owned()][..]));
        assert_eq!((config.exclude.as_slice(), config.delay.to_string()), (&["y".to_owned()][..], "2s".to_owned()));
        let rules = config.compile(0).unwrap();
        assert_eq!(rules.scope_kind.as_str(), "any");
        assert_eq!(rules.robots.as_str(), "obey");
    }
}
