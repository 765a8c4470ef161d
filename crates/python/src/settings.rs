//! Keyword arguments as settings: those of the table of settings of the crawler, under their names.

use std::ffi::OsString;
use std::path::PathBuf;

use argiope::{Config, Crawl, CrawlBuilder, DeliveredBodies};
use argiope_core::crawl::settings::{CRAWL, Setting, SettingForm, Settings as _};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyDeltaAccess, PyDict, PyFloat, PyInt, PyMapping, PyString};

use crate::errors::setting_error;
use crate::request::PyRequest;

/// Settings that have another name than in the table, or are none: `out` is called `directory`, roots are arguments,
/// and `follow` is Python's own.
const DIRECTORY: &str = "directory";
const NOT_SETTINGS: [&str; 4] = ["out", "roots", "with", "follow"];
/// A keyword argument cannot be called `with`, which is a word of the language.
const RENAMED: [(&str, &str); 3] = [("out", DIRECTORY), ("with", "with_"), ("follow", "follow_kinds")];
/// Placeholders of values that are times.
const TIME: &str = "TIME";

/// A crawl of these roots with these settings, not started.
pub fn builder(roots: &[Bound<'_, PyAny>], settings: &Bound<'_, PyDict>) -> PyResult<CrawlBuilder> {
    let (first, others) = roots.split_first().ok_or_else(|| setting_error("roots: give at least one URL".into()))?;
    let mut builder = match root(first)? {
        Root::Text(text) => Crawl::builder(text),
        Root::Request(request) => Crawl::builder(request),
    };
    for other in others {
        builder = match root(other)? {
            Root::Text(text) => builder.root(text),
            Root::Request(request) => builder.root(request),
        };
    }
    for (key, value) in settings {
        builder = set(builder, &key.extract::<String>()?, &value)?;
    }
    Ok(builder)
}

enum Root {
    Text(String),
    Request(argiope::Request),
}

fn root(object: &Bound<'_, PyAny>) -> PyResult<Root> {
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Root::Text(text.to_cow()?.into_owned()));
    }
    PyRequest::of(object).map(Root::Request)
}

/// Applies one keyword argument.
fn set(builder: CrawlBuilder, name: &str, value: &Bound<'_, PyAny>) -> PyResult<CrawlBuilder> {
    match name {
        // Python's own: see `argiope/_crawl.py`.
        "follow" => return follow(builder, value),
        "bodies" => return Ok(builder.bodies(bodies(value)?)),
        "refuse_private_roots" => return Ok(if value.is_truthy()? { builder.refuse_private_roots() } else { builder }),
        _ => {}
    }
    let table_name = RENAMED.iter().find(|(_, keyword)| *keyword == name).map_or(name, |(name, _)| *name);
    let setting = Config::find(table_name).filter(|_| !NOT_SETTINGS.contains(&name));
    let setting = setting.ok_or_else(|| unknown(name))?;
    if value.is_none() {
        return Ok(builder);
    }
    let texts = texts(setting, value)?;
    let mut result = Ok(());
    let builder = builder.configure(|config| result = config.set(setting, &texts));
    result.map_err(|error| setting_error(format!("{name}: {:?}: {}", error.value, error.problem)))?;
    Ok(builder)
}

/// The exception for a keyword that is not a setting, with the most similar name.
fn unknown(name: &str) -> PyErr {
    let names = keywords();
    let similar = names.iter().find(|known| is_similar(known, name));
    let hint = similar.map(|similar| format!("; did you mean {similar:?}?")).unwrap_or_default();
    PyTypeError::new_err(format!("crawl() got an unexpected keyword argument {name:?}{hint}"))
}

/// The names of all keyword arguments.
pub fn keywords() -> Vec<&'static str> {
    let settings = Config::TABLE.iter().map(|setting| setting.name).filter(|name| !NOT_SETTINGS.contains(name));
    settings.chain([DIRECTORY, "with_", "follow_kinds", "follow", "bodies", "refuse_private_roots"]).collect()
}

/// The settings of the table: name, kind of value, whether it is a list, words, and the first paragraph of the help.
pub fn described() -> Vec<(&'static str, &'static str, bool, Vec<&'static str>, String)> {
    let settings = Config::TABLE.iter().filter(|setting| setting.name != "roots");
    let keyword = |name: &'static str| RENAMED.iter().find(|(known, _)| *known == name).map_or(name, |(_, word)| *word);
    let describe = |setting: &Setting| {
        let (kind, words): (_, &[&'static str]) = match setting.form {
            SettingForm::Switch => ("bool", &[]),
            SettingForm::Number(_) => ("int", &[]),
            SettingForm::Words(words) => ("word", words),
            SettingForm::TextOrNumber if setting.value == TIME => ("time", &[]),
            SettingForm::TextOrNumber => ("number", &[]),
            SettingForm::Path => ("path", &[]),
            SettingForm::Text | SettingForm::Table => ("text", &[]),
        };
        let word = |name: &str| Config::find(name).map(|setting| format!("`{}`", keyword(setting.name)));
        let help = setting.paragraphs(CRAWL, word).into_iter().next().unwrap_or_default();
        (keyword(setting.name), kind, setting.is_list, words.to_vec(), help)
    };
    settings.filter(|setting| setting.form != SettingForm::Table).map(describe).collect()
}

/// Whether two names have the same letters, or differ in one that is added, missing or exchanged.
fn is_similar(known: &str, name: &str) -> bool {
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().filter(|letter| letter.is_alphanumeric()).collect();
        letters.sort_unstable();
        letters
    };
    let (one, other) = (sorted(known), sorted(name));
    let common = one.iter().filter(|letter| other.contains(letter)).count();
    one == other
        || (one.len().abs_diff(other.len()) <= 1
            && common + 1 >= one.len()
            && known.starts_with(&name[..name.len().min(1)]))
}

/// Which links are followed: `"all"` or `"none"`.
fn follow(builder: CrawlBuilder, value: &Bound<'_, PyAny>) -> PyResult<CrawlBuilder> {
    match value.extract::<&str>() {
        Ok("all") => Ok(builder),
        Ok("none") => Ok(builder.follow(|_| false).configure(|config| config.no_sitemap = !config.sitemap)),
        _ => Err(setting_error("follow: write \"all\" or \"none\", or pass a function".into())),
    }
}

fn bodies(value: &Bound<'_, PyAny>) -> PyResult<DeliveredBodies> {
    match value.extract::<&str>() {
        Ok("html") => Ok(DeliveredBodies::Html),
        Ok("text") => Ok(DeliveredBodies::Text),
        Ok("all") => Ok(DeliveredBodies::All),
        Ok("none") => Ok(DeliveredBodies::None),
        _ => Err(setting_error("bodies: write one of: html text all none".into())),
    }
}

/// The texts that the table of settings reads.
fn texts(setting: &Setting, value: &Bound<'_, PyAny>) -> PyResult<Vec<OsString>> {
    if !setting.is_list {
        return Ok(vec![text(setting, value)?]);
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let pairs = mapping.items()?;
        return pairs.iter().map(|pair| header_line(&pair)).collect();
    }
    if value.is_instance_of::<PyString>() {
        return Ok(vec![text(setting, value)?]);
    }
    let item = |item: PyResult<Bound<'_, PyAny>>| {
        let item = item?;
        if setting.name == "header" && !item.is_instance_of::<PyString>() {
            header_line(&item)
        } else {
            text(setting, &item)
        }
    };
    value.try_iter()?.map(item).collect()
}

/// A pair of name and value as a line.
fn header_line(pair: &Bound<'_, PyAny>) -> PyResult<OsString> {
    let (name, value): (String, String) = pair.extract()?;
    Ok(format!("{name}: {value}").into())
}

/// One value as text.
fn text(setting: &Setting, value: &Bound<'_, PyAny>) -> PyResult<OsString> {
    let seconds = |seconds: f64| Ok(format!("{seconds}s").into());
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(if flag.is_true() { "true" } else { "false" }.into());
    }
    if let Ok(delta) = value.cast::<PyDelta>() {
        let days = f64::from(delta.get_days()) * 86_400.0;
        return seconds(days + f64::from(delta.get_seconds()) + f64::from(delta.get_microseconds()) / 1e6);
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        let is_time = setting.form == SettingForm::TextOrNumber && setting.value == TIME;
        return if is_time { seconds(value.extract()?) } else { Ok(value.str()?.to_cow()?.into_owned().into()) };
    }
    if setting.form == SettingForm::Path {
        return value.extract::<PathBuf>().map(PathBuf::into_os_string);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_cow()?.into_owned().into());
    }
    let name = value.get_type().name()?;
    Err(setting_error(format!("{}: a value of type {name} is not one of its values", setting.name)))
}
