//! The main text of pages: as JSON Lines, or one file per page.

use std::fs;
use std::io::Write;
use std::path::Path;

use argiope_content::{Article, Document, MainText, ParseLimits, TEXT_CUT, TextFormat};
use argiope_core::base::escape::write_json;
use argiope_core::page::page_budget::PageBudget;
use argiope_runtime::atomic_file::AtomicFile;
use serde::Serialize;

use super::archived::{ArchivedPage, ArchivedPages};
use super::file_names::FileNames;
use super::of_file;
use super::site::create_folders;
use crate::records::{self, ReadError, StoredRecord};

/// Plain text or Markdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextForm {
    Text,
    Markdown,
}

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
    /// Why the text is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_limit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fetched: Option<&'a str>,
}

/// Writes one JSON object per HTML page of the latest round.
pub fn text_lines(directory: &Path, form: TextForm, out: &mut dyn Write) -> Result<(), ReadError> {
    html_pages(directory, |record, page| {
        let found = title_and_text(page, form);
        let (text, markdown) = match form {
            TextForm::Text => (Some(found.text.as_str()), None),
            TextForm::Markdown => (None, Some(found.text.as_str())),
        };
        let line = TextLine {
            url: &record.url,
            title: found.title.as_deref(),
            text,
            markdown,
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

/// Writes one file per HTML page of the latest round below `folder`. Returns the number of files.
pub fn text_files(directory: &Path, form: TextForm, folder: &Path) -> Result<u64, ReadError> {
    let extension = match form {
        TextForm::Text => "txt",
        TextForm::Markdown => "md",
    };
    let mut names = FileNames::default();
    let mut count = 0;
    fs::create_dir_all(folder)?;
    html_pages(directory, |_, page| {
        let found = title_and_text(page, form);
        let content = match (found.limited, form) {
            (None, _) => found.text,
            (Some(reason), TextForm::Text) => format!("[Incomplete: {reason}]\n\n{}", found.text),
            (Some(reason), TextForm::Markdown) => format!("<!-- Incomplete: {reason} -->\n\n{}", found.text),
        };
        let name = names.assign(&page.url, extension);
        create_folders(folder, &name.to_string_lossy())?;
        let path = folder.join(name);
        AtomicFile::write_output_in_folder(&path, content).map_err(|error| of_file(&path, error))?;
        count += 1;
        Ok(())
    })?;
    Ok(count)
}

/// The main text of a page.
struct FoundText {
    title: Option<String>,
    text: String,
    /// Why the text is incomplete.
    limited: Option<&'static str>,
}

/// Title and main text of a page. Control characters are removed from the text.
fn title_and_text(page: &ArchivedPage, form: TextForm) -> FoundText {
    let html = page.text();
    let budget = PageBudget::for_page(html.len());
    let document = Document::parse_within(html, &ParseLimits::default(), &budget);
    let document = document.with_charset(page.charset).with_url(&page.url);
    let article = Article::within(&document, &budget);
    let format = match form {
        TextForm::Text => TextFormat::Plain,
        TextForm::Markdown => TextFormat::Markdown,
    };
    let MainText { text, is_cut } = article.render(format, &budget);
    let limited = document.truncated().or(is_cut.then_some(TEXT_CUT));
    FoundText { title: article.title.clone(), text: super::without_control_characters(&text), limited }
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
