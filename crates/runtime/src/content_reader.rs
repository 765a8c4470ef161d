//! [`ContentReader`]: extracts fields, main text and Markdown from pages while they are crawled.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use argiope_content::{
    ContentPart, Document, Extraction, FieldCount, PageText, ParseLimits, SelectError, Tally, TextRequest,
    has_body_text, read_body_text,
};
use argiope_core::base::url::Url;
use argiope_core::crawl::rules::{Config, ConfigError};
use argiope_core::page::page_budget::PageBudget;
use argiope_core::page::reader::{PageContent, PageReader};

/// Extracts fields and text from pages, on the worker that fetched them.
#[derive(Debug)]
pub struct ContentReader {
    extraction: Extraction,
    /// How often each field was found.
    tally: Mutex<Tally>,
    /// Which text is read.
    text: TextRequest,
}

impl ContentReader {
    /// A reader that extracts these fields and this text.
    pub fn new(extraction: Extraction, text: TextRequest) -> Self {
        let tally = Mutex::new(extraction.tally());
        Self { extraction, tally, text }
    }

    /// The reader for these settings; `None` if they request no content.
    pub fn of(config: &Config) -> Result<Option<Self>, ConfigError> {
        let extraction = extraction(&config.extract, config.extract_file.as_deref())?;
        let part = content_part(&config.content)?;
        let text = TextRequest { part, plain: config.text, markdown: config.markdown };
        let has_output = !extraction.is_empty() || text.plain || text.markdown;
        Ok(has_output.then(|| Self::new(extraction, text)))
    }

    /// Whether a text is wanted.
    fn wants_text(&self) -> bool {
        self.text.plain || self.text.markdown
    }

    /// Reads the text of a page.
    fn read_text(&self, page: &Document, budget: &PageBudget, content: &mut PageContent) {
        *content = content_of(PageText::of(page, &self.text, budget));
    }
}

/// A text as the content of a record.
fn content_of(text: PageText) -> PageContent {
    let PageText { plain, markdown, kept, about, limited, .. } = text;
    let (text, markdown) = (plain.map(Into::into), markdown.map(Into::into));
    PageContent { text, markdown, kept, about: about.to_map(), limited, ..PageContent::default() }
}

/// The part of a page that `--content` names.
pub fn content_part(text: &str) -> Result<ContentPart, ConfigError> {
    let error = |error: SelectError| ConfigError { key: "content", value: text.to_owned(), problem: error.to_string() };
    ContentPart::parse(text).map_err(error)
}

/// The extraction rules of the command line and of a file together.
pub fn extraction(rules: &[String], file: Option<&Path>) -> Result<Extraction, ConfigError> {
    let config_error = |key, value: String, problem: String| ConfigError { key, value, problem };
    let mut all = Extraction::default();
    for rule in rules {
        let parsed = Extraction::from_rules([rule]).and_then(|parsed| all.merge(parsed));
        parsed.map_err(|error| config_error("extract", rule.clone(), error.message))?;
    }
    if let Some(path) = file {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| config_error("extract-file", name.clone(), format!("the file cannot be read: {error}")))?;
        let parsed = Extraction::from_toml(&text, &name).and_then(|parsed| all.merge(parsed));
        parsed.map_err(|error| config_error("extract-file", name, error.to_string()))?;
    }
    Ok(all)
}

impl PageReader for ContentReader {
    fn should_read(&self, url: &Url) -> bool {
        self.wants_text() || self.extraction.applies_to(url.as_str())
    }

    fn read(&self, url: &Url, html: &str, charset: Option<&str>) -> PageContent {
        let mut content = PageContent::default();
        // Everything is charged to one budget. The texts take a bounded part of it, so they are written first.
        let budget = PageBudget::for_page(html.len());
        // Parse the document only for the main text. Extracting fields usually does not need the tree.
        let page = self.wants_text().then(|| {
            Document::parse_within(html, &ParseLimits::default(), &budget).with_charset(charset).with_url(url)
        });
        if let Some(page) = &page {
            self.read_text(page, &budget, &mut content);
        }
        if self.extraction.applies_to(url.as_str()) {
            let mut tally = self.extraction.tally();
            let extracted = match &page {
                Some(page) => self.extraction.apply(page, url.as_str(), &budget, &mut tally),
                None => self.extraction.read(html, (url, charset), &budget, &mut tally),
            };
            self.tally.lock().unwrap_or_else(PoisonError::into_inner).add(&tally);
            content.limited = content.limited.or(extracted.limited);
            content.data = Some(extracted.data).filter(|data| !data.is_empty());
        }
        content
    }

    fn reads_type(&self, content_type: &str) -> bool {
        self.wants_text() && has_body_text(content_type)
    }

    fn read_body(&self, content_type: &str, body: &[u8], charset: Option<&str>) -> PageContent {
        let text = read_body_text(content_type, (body, charset), &self.text);
        text.map(content_of).unwrap_or_default()
    }

    fn counts(&self) -> Vec<FieldCount> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).fields.clone()
    }
}
