//! The main text of pages: as JSON Lines, or one file per page.

use std::fs;
use std::io::Write;
use std::path::Path;

use argiope_content::{Document, PageText, ParseLimits, TextRequest};
use argiope_core::base::escape::write_json;
use argiope_core::base::url::Url;
use argiope_core::page::page_budget::PageBudget;
use argiope_runtime::atomic_file::AtomicFile;
use serde::Serialize;

use super::archived::{ArchivedPage, ArchivedPages};
use super::file_names::FileNames;
use super::of_file;
use super::site::{FileMap, create_folders, relative_path};
use crate::records::{self, ReadError, StoredRecord};

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
    /// Why the text is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_limit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fetched: Option<&'a str>,
}

/// Writes one JSON object per HTML page of the latest round.
pub fn text_lines(directory: &Path, text: &TextRequest, out: &mut dyn Write) -> Result<(), ReadError> {
    html_pages(directory, |record, page| {
        let found = text_of(page, text);
        let line = TextLine {
            url: &record.url,
            title: found.title.as_deref(),
            text: found.plain.as_deref(),
            markdown: found.markdown.as_deref(),
            kept: found.kept,
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

/// Writes one file per HTML page of the latest round below `folder`. Links between these pages lead to their files.
/// Returns the number of files.
pub fn text_files(directory: &Path, text: &TextRequest, folder: &Path) -> Result<u64, ReadError> {
    let extension = if text.markdown { "md" } else { "txt" };
    fs::create_dir_all(folder)?;
    let map = read_map(directory, extension)?;
    let mut count = 0;
    html_pages(directory, |record, page| {
        let Some(name) = map.files.get(&*record.url) else { return Ok(()) };
        let found = read_text(page, text, &|target: &str| link_within(&map, name, target));
        let content = match (found.limited, found.markdown, found.plain) {
            (None, Some(content), _) | (None, None, Some(content)) => content,
            (Some(reason), Some(content), _) => format!("<!-- Incomplete: {reason} -->\n\n{content}"),
            (Some(reason), None, Some(content)) => format!("[Incomplete: {reason}]\n\n{content}"),
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

/// Assigns a file name to every archived HTML page.
fn read_map(directory: &Path, extension: &str) -> Result<FileMap, ReadError> {
    let mut map = FileMap::default();
    let mut names = FileNames::default();
    records::latest_pages(directory, |record| {
        if let Some(target) = record.redirect.as_ref().filter(|_| record.is_plain_get()) {
            map.redirects.insert((*record.url).into(), (**target).into());
        }
        if let (true, Ok(url)) = (record.is_html_success() && record.warc.is_some(), Url::parse(&record.url)) {
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
    let html = page.text();
    let budget = PageBudget::for_page(html.len());
    let document = Document::parse_within(html, &ParseLimits::default(), &budget);
    let document = document.with_charset(page.charset).with_url(&page.url);
    PageText::with_links(&document, text, links, &budget)
}

/// Calls `each` with the archived HTML pages of the latest round that have a 2xx response, now or when they last changed.
pub(super) fn html_pages(
    directory: &Path,
    mut each: impl FnMut(&StoredRecord, &ArchivedPage) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut archive = ArchivedPages::open(directory)?;
    records::latest_pages(directory, |record| {
        if !record.is_html_success() {
            return Ok(());
        }
        match archive.page(record)? {
            Some(page) => each(record, &page),
            None => Ok(()),
        }
    })?;
    Ok(())
}
