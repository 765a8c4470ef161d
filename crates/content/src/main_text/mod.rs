//! The main content of a page as text and Markdown: the article without navigation, footers and banners.
//!
//! Three steps over one tree: `boilerplate` marks what surrounds the content, `choose` and `segments` find the elements that
//! contain it, `prune` removes what is certainly not content from them, `render` writes them. `measure` counts characters for the first two. The rules are heuristics (common class names,
//! link density, numbers of commas), and so are their numbers. None is specific to a site.

use argiope_core::page::page_budget::PageBudget;

use crate::document::{Document, Element, names};

mod boilerplate;
mod choose;
mod comments;
mod evidence;
mod measure;
mod noscript;
mod page_text;
mod part;
mod prune;
mod render;
mod segments;

use boilerplate::MarkingNames;
use evidence::ContentKind;
use measure::Measure;
pub use page_text::{PageText, TextRequest};
pub use part::ContentPart;
use part::WordShare;
pub(crate) use part::count_words;
use render::Selection;
pub use render::{LinkTargets, MainText, TEXT_CUT, TextFormat};
pub(crate) use render::{escape_paragraph, without_invisible};

/// The main content of a page.
///
/// ```
/// use argiope_content::{Article, Document};
///
/// let page = Document::parse("<title>Orb weavers</title><nav><a href=/>Home</a></nav><main><h1>Orb weavers</h1>
///     <p>They build <a href=/web>webs</a>.</p><ul><li>sticky<li>round</ul></main><footer>2026</footer>")
///     .with_base("https://example.com/").unwrap();
/// let article = Article::of(&page);
/// assert_eq!(article.title.as_deref(), Some("Orb weavers"));
/// assert_eq!(article.markdown(), "# Orb weavers\n\nThey build [webs](https://example.com/web).\n\n- sticky\n- round\n");
/// assert_eq!(article.text(), "They build webs.\n\nsticky\nround\n");
/// ```
#[derive(Debug)]
pub struct Article<'a> {
    page: &'a Document,
    /// The main heading of the page, or its title.
    pub title: Option<String>,
    /// The nodes of the elements with the content.
    roots: Vec<u32>,
    /// A flag for each node. The subtree of a flagged node is omitted.
    removed: Vec<bool>,
    /// The node of the heading that is used as the title.
    headline: Option<u32>,
    /// Whether the page is one article.
    is_article: bool,
    /// Whether the content was chosen, so that the Markdown begins with the title.
    is_chosen: bool,
}

impl<'a> Article<'a> {
    /// Finds the main content of a page.
    pub fn of(page: &'a Document) -> Self {
        Self::within(page, &PageBudget::for_page(page.html_len()))
    }

    /// Like [`Article::of`], for a part of the page, with a budget that other work on the page shares.
    pub fn of_part(page: &'a Document, part: &ContentPart, budget: &PageBudget) -> Self {
        let roots = match part {
            ContentPart::Main => return Self::within(page, budget),
            ContentPart::Full => vec![part::body(page)],
            ContentPart::Selected(selector) => part::selected(page, selector, budget),
        };
        let mut removed = if budget.hold(page.len()) { vec![false; page.len()] } else { Vec::new() };
        part::flag_code(page, &mut removed, budget);
        let (title, _) = title(page, &roots, budget);
        Self { page, title, roots, removed, headline: None, is_article: false, is_chosen: false }
    }

    /// Like [`Article::of`], with a budget that other work on the page shares.
    pub fn within(page: &'a Document, budget: &PageBudget) -> Self {
        let kind = ContentKind::of(page, budget);
        let names = if kind == ContentKind::Plain { MarkingNames::OfAnyPage } else { MarkingNames::OfArticles };
        let (mut roots, mut removed) = select_content(page, (kind, names), budget);
        let mut found = text_length(page, &roots, &removed, budget);
        // Class names can mislead: some sites call the wrapper of an article `modal` or `overlay`. What is tried next
        // must have more prose.
        for (names, enough) in [(MarkingNames::OfAnyPage, MIN_LENGTH), (MarkingNames::None, MIN_LENGTH / 4)] {
            if found >= enough {
                break;
            }
            let (other_roots, other_removed) = select_content(page, (ContentKind::Plain, names), budget);
            let measure = Measure::of(page, &other_removed, budget);
            budget.release(measure.memory());
            let is_prose = other_roots.iter().all(|&root| measure.link_density(page.element(root)) < 0.3);
            let other = text_length(page, &other_roots, &other_removed, budget);
            if is_prose && other >= MIN_LENGTH.max(found * 3) {
                (roots, removed, found) = (other_roots, other_removed, other);
            }
        }
        if found == 0 {
            // Something is better than nothing.
            (roots, removed) = (vec![part::body(page)], vec![false; removed.len()]);
            part::flag_code(page, &mut removed, budget);
        }
        let (title, headline) = title(page, &roots, budget);
        Self { page, title, roots, removed, headline, is_article: kind != ContentKind::Plain, is_chosen: true }
    }

    /// The share of the words of the whole page that are in the content or in its title, from 0 to 1 with two decimals.
    /// `None` on a page without words.
    pub fn kept(&self, budget: &PageBudget) -> Option<f32> {
        self.word_share(budget).rounded()
    }

    fn word_share(&self, budget: &PageBudget) -> WordShare {
        WordShare::of(self.page, &self.roots, &self.removed, budget)
    }

    /// The content as plain text, one line per block, without the heading that is the title.
    pub fn text(&self) -> String {
        self.render(TextFormat::Plain, &PageBudget::for_page(self.page.html_len())).text
    }

    /// The content as Markdown, the title as its first heading. Links are absolute.
    pub fn markdown(&self) -> String {
        self.render(TextFormat::Markdown, &PageBudget::for_page(self.page.html_len())).text
    }

    /// The content in this format, within a budget that other work on the page shares. It has at most four times the
    /// bytes of the page, and the URLs of its links; what is longer is cut.
    pub fn render(&self, format: TextFormat, budget: &PageBudget) -> MainText {
        self.render_with(format, &|_| None, budget)
    }

    fn render_with(&self, format: TextFormat, links: LinkTargets<'_>, budget: &PageBudget) -> MainText {
        let Self { page, roots, removed, headline, is_article, is_chosen, .. } = self;
        let (headline, is_article, has_readings) = (*headline, *is_article, !is_chosen);
        let selection = Selection { page, roots, removed, headline, is_article, has_readings, links };
        let mut rendered = render::render(selection, format, budget);
        if let (TextFormat::Markdown, Some(title), true) = (format, &self.title, self.is_chosen) {
            rendered.text.insert_str(0, &format!("# {}\n\n", render::escape_line(title)));
        }
        rendered
    }
}

/// If the content has fewer characters, a second selection is tried, in which no class name marks boilerplate.
const MIN_LENGTH: u32 = 250;

/// How many `h1` elements of a page may be its title.
const MAX_HEADINGS: usize = 20;
/// A heading of more bytes is not a title.
const MAX_TITLE_BYTES: usize = 300;

/// The elements with the content, and a flag for each node, as in [`Article`].
fn select_content(
    page: &Document,
    (kind, names): (ContentKind, MarkingNames),
    budget: &PageBudget,
) -> (Vec<u32>, Vec<bool>) {
    if !budget.hold(page.len()) {
        return (Vec::new(), Vec::new());
    }
    let mut removed = vec![false; page.len()];
    boilerplate::mark(page, names, &mut removed, budget);
    let measure = Measure::of(page, &removed, budget);
    let roots = choose::choose(page, kind, &measure, (&mut removed, budget));
    budget.release(measure.memory());
    (roots, removed)
}

/// The number of characters in these elements.
fn text_length(page: &Document, roots: &[u32], removed: &[bool], budget: &PageBudget) -> u32 {
    let measure = Measure::of(page, removed, budget);
    budget.release(measure.memory());
    roots.iter().map(|&root| measure.text(page.element(root))).sum()
}

/// The title and the node of the heading that it comes from. That is the first `h1` whose text is a part of the `title`
/// element, else the first `h1` within the content, else the only `h1`. Without such a heading, the `title` element is
/// used.
fn title(page: &Document, roots: &[u32], budget: &PageBudget) -> (Option<String>, Option<u32>) {
    let title_element = page.title();
    let headings: Vec<_> =
        page.elements().filter(|element| budget.visit() && element.name_id() == names::H1).take(MAX_HEADINGS).collect();
    let is_in_content = |id: u32| roots.iter().any(|&root| id >= root && id < page.element(root).end());
    let is_in_title = |text: &str| title_element.as_ref().is_some_and(|title| title.contains(text));
    let text = |heading: &Element<'_>| {
        // Without the symbols that link to the heading itself.
        heading.text_within(MAX_TITLE_BYTES, budget).trim_end_matches(['\u{b6}', '\u{1f517}', ' ']).to_owned()
    };
    let with_text: Vec<(u32, String)> =
        headings.iter().map(|heading| (heading.node, text(heading))).filter(|(_, text)| !text.is_empty()).collect();
    let chosen = with_text
        .iter()
        .find(|(_, text)| is_in_title(text))
        .or_else(|| with_text.iter().find(|(id, _)| is_in_content(*id)))
        .or(if with_text.len() == 1 { with_text.first() } else { None });
    match chosen {
        Some((id, text)) if text.len() <= MAX_TITLE_BYTES => (Some(text.clone()), Some(*id)),
        _ => (title_element, None),
    }
}
