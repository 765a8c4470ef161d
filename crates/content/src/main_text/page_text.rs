//! [`PageText`]: what a page says, in the formats that are wanted. Every command and the library read pages with it, so
//! the same page has the same text everywhere.

use argiope_core::page::page_budget::PageBudget;

use super::{Article, ContentPart, LinkTargets, MainText, TEXT_CUT, TextFormat};
use crate::about::{AboutSource, Declared, PageAbout};
use crate::document::Document;

/// Which text of a page is wanted.
#[derive(Clone, Debug, Default)]
pub struct TextRequest {
    /// The part of the page.
    pub part: ContentPart,
    /// Whether as plain text.
    pub plain: bool,
    /// Whether as Markdown.
    pub markdown: bool,
}

/// What a page says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageText {
    /// The main heading of the page, or its title.
    pub title: Option<String>,
    /// The text, one line per block.
    pub plain: Option<String>,
    /// The text as Markdown, with absolute links.
    pub markdown: Option<String>,
    /// The share of the words of the whole page that are in the text or in the title, from 0 to 1.
    pub kept: Option<f32>,
    /// What the page declares about itself.
    pub about: PageAbout,
    /// Why something is missing.
    pub limited: Option<&'static str>,
}

impl PageText {
    /// Reads a page, with absolute links.
    pub fn of(page: &Document, request: &TextRequest, budget: &PageBudget) -> Self {
        Self::with_links(page, request, &|_| None, budget)
    }

    /// Reads a page. `links` is asked for another target of each link. Finding the content is charged to `budget`, and each format to a budget of its own, so that no
    /// format depends on another one.
    pub fn with_links(page: &Document, request: &TextRequest, links: LinkTargets<'_>, budget: &PageBudget) -> Self {
        let article = Article::of_part(page, &request.part, budget);
        let mut limited = page.truncated();
        let mut read = |is_wanted: bool, format| {
            let own = PageBudget::for_page(page.html_len());
            let MainText { text, is_cut } = is_wanted.then(|| article.render_with(format, links, &own))?;
            limited = limited.or(is_cut.then_some(TEXT_CUT));
            Some(text)
        };
        let plain = read(request.plain, TextFormat::Plain);
        let markdown = read(request.markdown, TextFormat::Markdown);
        let share = article.word_share(budget);
        let text = plain.as_deref().or(markdown.as_deref()).unwrap_or_default();
        // What is declared is read by a budget of its own, for the same reason.
        let own = PageBudget::for_page(page.html_len());
        let mut about = PageAbout::of(page, text, &own);
        let limited = limited.or(own.cut());
        about.words = Some(Declared { value: share.kept, source: AboutSource::Text });
        Self { title: article.title.clone(), plain, markdown, kept: share.rounded(), about, limited }
    }
}
