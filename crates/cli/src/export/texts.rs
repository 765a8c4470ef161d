//! The main text of pages: as JSON Lines, or one file per page.

use std::borrow::Cow;
use std::fs;
use std::io::Write;
use std::path::Path;

use argiope_content::{
    Declared, Document, PageAbout, PageText, ParseLimits, TextRequest, has_body_text, read_body_text,
};
use argiope_core::base::escape::{json_line, write_json};
use argiope_core::base::url::Url;
use argiope_core::crawl::schedule::keeper::Change;
use argiope_core::page::page_budget::PageBudget;
use argiope_runtime::atomic_file::AtomicFile;
use serde::Serialize;

use super::archived::{ArchivedPage, ArchivedPages};
use super::file_names::FileNames;
use super::site::{FileMap, create_folders, relative_path};
use super::{is_among, of_file};
use crate::records::{ReadError, StoredRecord};
use crate::results::Results;
use crate::ticker::Ticker;

/// The JSON object of a page.
#[derive(Serialize)]
struct TextLine<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    markdown: Option<&'a str>,
    /// The share of the words of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<f32>,
    about: &'a PageAbout,
    /// Why the text is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_limit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fetched: Option<&'a str>,
}

/// Writes one JSON object per page with text of the latest round.
pub fn text_lines(
    results: &Results,
    text: &TextRequest,
    changes: &[Change],
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    text_pages(results, changes, |record, page| {
        let found = text_of(page, text);
        let line = TextLine {
            url: &record.url,
            title: found.title.as_deref(),
            text: found.plain.as_deref(),
            markdown: found.markdown.as_deref(),
            kept: found.kept,
            about: &found.about,
            content_limit: found.limited,
            fetched: record.started.as_deref(),
        };
        let mut bytes = Vec::new();
        write_json(&mut bytes, &line).map_err(std::io::Error::other)?;
        bytes.push(b'\n');
        Ok(out.write_all(&bytes)?)
    })?;
    Ok(out.flush()?)
}

/// Writes one file per page with text of the latest round below `folder`. Links between these pages lead to their files.
/// Pages that are left out because of `changes` keep the names of their files. Returns the number of files.
pub fn text_files(results: &Results, text: &TextRequest, changes: &[Change], folder: &Path) -> Result<u64, ReadError> {
    let extension = if text.markdown { "md" } else { "txt" };
    fs::create_dir_all(folder)?;
    let map = read_map(results, extension)?;
    let mut count = 0;
    text_pages(results, changes, |record, page| {
        let Some(name) = map.files.get(&*record.url) else { return Ok(()) };
        let found = read_text(page, text, &|target: &str| link_within(&map, name, target));
        let front = front_matter(record, &found);
        let content = match (found.limited, found.markdown, found.plain) {
            (None, None, Some(content)) => content,
            (Some(reason), None, Some(content)) => format!("[Incomplete: {reason}]\n\n{content}"),
            (None, Some(content), _) => format!("{front}{content}"),
            (Some(reason), Some(content), _) => format!("{front}<!-- Incomplete: {reason} -->\n\n{content}"),
            (_, None, None) => return Ok(()),
        };
        create_folders(folder, name)?;
        let path = folder.join(&**name);
        AtomicFile::write_output_in_folder(&path, content).map_err(|error| of_file(&path, error))?;
        count += 1;
        Ok(())
    })?;
    Ok(count)
}

/// The block at the beginning of a Markdown file that says where it is from, in YAML. Texts are quoted as in JSON, which
/// YAML reads, so none of them ends the block or becomes something else.
fn front_matter(record: &StoredRecord, found: &PageText) -> String {
    let about = &found.about;
    let value = |declared: &Option<Declared<String>>| declared.as_ref().map(|declared| declared.value.clone().into());
    let texts: [(&str, Option<Cow<'_, str>>); 9] = [
        ("url", Some(record.url.clone())),
        ("title", found.title.clone().map(Into::into)),
        ("date", value(&about.published)),
        ("modified", value(&about.modified)),
        ("author", value(&about.author)),
        ("site", value(&about.site)),
        ("language", value(&about.language)),
        ("canonical", record.canonical.clone()),
        ("fetched", record.started.clone()),
    ];
    let mut out = String::from("---\n");
    for (name, text) in texts {
        let Some(text) = text else { continue };
        out.push_str(&format!("{name}: {}", String::from_utf8_lossy(&json_line(&text))));
    }
    if let Some(crumbs) = &about.breadcrumbs {
        out.push_str(&format!("breadcrumbs: {}", String::from_utf8_lossy(&json_line(&crumbs.value))));
    }
    if let Some(words) = &about.words {
        out.push_str(&format!("words: {}\n", words.value));
    }
    if let Some(kept) = found.kept {
        out.push_str(&format!("kept: {kept}\n"));
    }
    if let Some(status) = record.status {
        out.push_str(&format!("status: {status}\n"));
    }
    out.push_str("---\n\n");
    out
}

/// Assigns a file name to every archived page with text.
fn read_map(results: &Results, extension: &str) -> Result<FileMap, ReadError> {
    let mut map = FileMap::default();
    let mut names = FileNames::default();
    results.latest_pages(|record| {
        if let Some(target) = record.redirect.as_ref().filter(|_| record.is_plain_get()) {
            map.redirects.insert((*record.url).into(), (**target).into());
        }
        if let (true, Ok(url)) = (has_text(record) && record.warc.is_some(), Url::parse(&record.url)) {
            let name = names.assign(&url, extension);
            map.files.entry((*record.url).into()).or_insert_with(|| name.to_string_lossy().into());
        }
        Ok(())
    })?;
    Ok(map)
}

/// The relative URL of a link from a file to the file of another page.
fn link_within(map: &FileMap, from: &str, target: &str) -> Option<String> {
    let (url, fragment) = target.split_once('#').map_or((target, None), |(url, fragment)| (url, Some(fragment)));
    let path = relative_path(from, map.file(url)?);
    Some(fragment.map_or_else(|| path.clone(), |fragment| format!("{path}#{fragment}")))
}

/// The text of a page, with absolute links.
fn text_of(page: &ArchivedPage, text: &TextRequest) -> PageText {
    read_text(page, text, &|_| None)
}

/// The text of a page. `links` gives another target to a link.
fn read_text(page: &ArchivedPage, text: &TextRequest, links: &dyn Fn(&str) -> Option<String>) -> PageText {
    if let Some(content_type) = page.content_type.as_deref().filter(|_| !page.is_html()) {
        return read_body_text(content_type, (&page.body, page.charset), text).unwrap_or_default();
    }
    let html = page.text();
    let budget = PageBudget::for_page(html.len());
    let document = Document::parse_within(html, &ParseLimits::default(), &budget);
    let document = document.with_charset(page.charset).with_url(&page.url);
    PageText::with_links(&document, text, links, &budget)
}

/// Whether a page was fetched that has text.
fn has_text(record: &StoredRecord) -> bool {
    record.is_html_success() || (record.is_success() && record.content_type.as_deref().is_some_and(has_body_text))
}

/// Calls `each` with the archived pages with text of the latest round that have a 2xx response, now or when they last changed.
fn text_pages(
    results: &Results,
    changes: &[Change],
    mut each: impl FnMut(&StoredRecord, &ArchivedPage) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut archive = ArchivedPages::open(results)?;
    let mut ticker = Ticker::start();
    results.latest_pages(|record| {
        ticker.advance();
        if !has_text(record) || !is_among(record.change, changes) {
            return Ok(());
        }
        match archive.shown_page(record)? {
            Some(page) => each(record, &page),
            None => Ok(()),
        }
    })?;
    Ok(())
}
