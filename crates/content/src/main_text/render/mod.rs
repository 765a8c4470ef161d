//! Renders elements as text or Markdown.
//!
//! Invariant: the result has at most [`MAX_GROWTH`] times the bytes of the page, and the URLs of the links. Repeated
//! prefixes of nested quotes and lists are what could make it longer.

use std::borrow::Cow;

use argiope_core::base::escape::is_unsafe_char;
use argiope_core::page::page_budget::{PageBudget, VISIT};

use crate::document::{Document, Element, Node, TEXT, names};
use escape::{block_mark, escape_url, push_escaped};

/// Gives the target of a link of a text, by its absolute URL; `None` leaves it absolute.
pub type LinkTargets<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(super) use escape::escape_line;
pub(crate) use escape::escape_paragraph;

mod escape;
mod inline;
mod listing;
mod math;
mod structure;
mod table;

/// Why a text is incomplete.
pub const TEXT_CUT: &str = "the text of the page is longer than four times the page, or takes too much work";
/// The most bytes of the result for each byte of the page, without the URLs of links.
const MAX_GROWTH: usize = 4;
/// A figure with more elements is not only a picture.
const MAX_PICTURE_ELEMENTS: usize = 40;
/// Quotes and lists that are nested more deeply are written at this depth.
const MAX_PREFIXES: usize = 32;

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// One line per block, without markup.
    Plain,
    /// Markdown with absolute links.
    Markdown,
}

/// The main content of a page as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MainText {
    /// The text.
    pub text: String,
    /// Whether the end is missing, because a limit was reached.
    pub is_cut: bool,
}

/// The nodes that are rendered.
#[derive(Clone, Copy)]
pub(super) struct Selection<'a> {
    pub(super) page: &'a Document,
    /// The nodes of the elements that are rendered.
    pub(super) roots: &'a [u32],
    /// A flag for each node that is omitted.
    pub(super) removed: &'a [bool],
    /// The node of the title, which is omitted.
    pub(super) headline: Option<u32>,
    /// Whether the page is one article. Its text is without the captions of pictures.
    pub(super) is_article: bool,
    /// Whether the readings of ruby text are written.
    pub(super) has_readings: bool,
    /// Gives other targets to links.
    pub(super) links: LinkTargets<'a>,
}

impl Selection<'_> {
    /// The URL of a link.
    fn link_target(&self, link: Element<'_>) -> Option<String> {
        let url = link.url("href")?;
        (self.links)(&url).or(Some(url))
    }
}

/// Renders a selection.
pub(super) fn render(selection: Selection<'_>, format: TextFormat, budget: &PageBudget) -> MainText {
    let is_markdown = format == TextFormat::Markdown;
    let mut writer = Writer::new(selection, is_markdown, budget);
    for &root in selection.roots {
        writer.element(selection.page.element(root));
        writer.flush();
    }
    // A horizontal rule at the end separates the content from what was omitted.
    while is_markdown && let Some(rest) = writer.out.strip_suffix("\n\n---") {
        writer.out.truncate(rest.len());
    }
    if !writer.out.is_empty() {
        writer.out.push('\n');
    }
    MainText { text: writer.out, is_cut: writer.is_cut }
}

struct Writer<'a> {
    page: &'a Document,
    selection: Selection<'a>,
    budget: &'a PageBudget,
    is_markdown: bool,
    out: String,
    /// The most bytes of `out`. The URL of each link adds its length.
    max_out: usize,
    /// Whether a limit was reached. Then nothing more is written.
    is_cut: bool,
    /// The paragraph that is being collected; `\n` is a line break.
    line: String,
    /// The prefixes of each line, for quotes and lists, outermost first.
    prefixes: Vec<&'static str>,
    /// The list marker or the hashes of a heading for the first line of the next paragraph. A list marker replaces the
    /// last prefix there.
    marker: Option<String>,
    /// Whether the next paragraph follows without a blank line.
    is_tight: bool,
    /// The number of paragraphs written.
    paragraphs: usize,
    in_code: bool,
    /// Where the current code begins in the line.
    code_start: usize,
    /// The start, the mark and the end of the emphasis that ends the line, if its closing mark needs a space after it.
    open_mark: Option<(usize, &'static str, usize)>,
    in_link: bool,
    /// Whether the text is that of a table cell.
    is_cell: bool,
    /// Whether the text is that of a figure.
    in_figure: bool,
}

impl<'a> Writer<'a> {
    fn new(selection: Selection<'a>, is_markdown: bool, budget: &'a PageBudget) -> Self {
        Self {
            page: selection.page,
            selection,
            budget,
            is_markdown,
            out: String::new(),
            max_out: selection.page.html_len() * MAX_GROWTH,
            is_cut: false,
            line: String::new(),
            prefixes: Vec::new(),
            marker: None,
            is_tight: false,
            paragraphs: 0,
            in_code: false,
            code_start: 0,
            open_mark: None,
            in_link: false,
            is_cell: false,
            in_figure: false,
        }
    }

    /// Charges the memory and the work of `bytes` more bytes of text. False: they must not be added.
    fn may_add(&mut self, bytes: usize) -> bool {
        self.is_cut = self.is_cut || !self.budget.spend(bytes + VISIT) || !self.budget.hold(bytes);
        !self.is_cut
    }

    /// Appends to the result, within its limit.
    fn push(&mut self, text: &str) {
        self.is_cut |= self.out.len() + text.len() > self.max_out;
        if self.may_add(text.len()) {
            self.out.push_str(text);
        }
    }

    fn is_removed(&self, node: u32) -> bool {
        self.selection.removed.get(node as usize) == Some(&true)
    }

    /// Starts a prefix of all lines. Returns whether [`Writer::pop_prefix`] must end it.
    fn push_prefix(&mut self, prefix: &'static str) -> bool {
        let is_pushed = self.is_markdown && self.prefixes.len() < MAX_PREFIXES;
        if is_pushed {
            self.prefixes.push(prefix);
        }
        is_pushed
    }

    fn pop_prefix(&mut self, is_pushed: bool) {
        if is_pushed {
            self.prefixes.pop();
        }
    }

    /// Ends the line before a paragraph, and adds a blank line unless the paragraph is tight.
    fn begin_block(&mut self) {
        if self.out.is_empty() {
            return;
        }
        self.push("\n");
        if !self.is_tight {
            // In a quote, the blank line has the prefixes up to the quote.
            let innermost_quote = self.prefixes.iter().rposition(|prefix| prefix.starts_with('>'));
            if let Some(last) = innermost_quote {
                let quote = self.prefixes.get(..=last).unwrap_or(&[]).concat();
                self.push(quote.trim_end());
            }
            self.push("\n");
        }
    }

    /// Writes lines with the current prefixes.
    fn write_lines(&mut self, text: &str) {
        self.begin_block();
        let marker = self.marker.take();
        let prefix = self.prefixes.concat();
        for (index, line) in text.split('\n').enumerate() {
            if self.is_cut {
                break;
            }
            if index > 0 {
                self.push("\n");
            }
            match (&marker, index) {
                (Some(marker), 0) => {
                    // A list marker replaces the last prefix. The hashes of a heading do not.
                    let is_list_marker = !marker.starts_with('#');
                    let kept = self.prefixes.len().saturating_sub(usize::from(is_list_marker));
                    self.push(&self.prefixes.get(..kept).unwrap_or(&[]).concat());
                    self.push(marker);
                }
                _ if line.is_empty() => self.push(prefix.trim_end()),
                _ => self.push(&prefix),
            }
            self.push(line);
        }
        self.is_tight = false;
        self.paragraphs += 1;
    }

    /// Writes the collected paragraph, if it is not empty.
    fn flush(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = line.trim();
        if text.is_empty() {
            return;
        }
        if !self.is_markdown {
            self.write_lines(text);
            return;
        }
        let is_heading = self.marker.as_ref().is_some_and(|marker| marker.ends_with("# "));
        let may_begin_block = !is_heading && !self.is_cell;
        let mut lines = String::with_capacity(text.len() + 8);
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                // Two spaces before a line feed are a line break in Markdown.
                lines.push_str("  \n");
            }
            let line = line.trim();
            match block_mark(line).filter(|_| may_begin_block).and_then(|at| line.split_at_checked(at)) {
                Some((before, after)) => lines.extend([before, "\\", after]),
                None => lines.push_str(line),
            }
        }
        self.write_lines(&lines);
    }

    fn children(&mut self, element: Element<'a>) {
        for id in element.children_nodes() {
            let Some(node) = self.page.node(id).filter(|_| !self.is_cut) else { break };
            if node.name == TEXT {
                self.text(node);
            } else {
                self.element(self.page.element(id));
            }
        }
    }

    fn text(&mut self, node: &Node) {
        if !self.may_add(self.page.raw_text(node).len()) {
            return;
        }
        let text = self.page.text_of(node);
        let text = without_invisible(&text);
        self.settle_mark(&text);
        let mut collapsed = String::new();
        let is_after_space = self.line.is_empty() || self.line.ends_with([' ', '\n']);
        if !is_after_space {
            // A placeholder, so that leading white space collapses to one space.
            collapsed.push('x');
        }
        crate::document::push_collapsed(&mut collapsed, &text);
        let new = if is_after_space { collapsed.as_str() } else { collapsed.get(1..).unwrap_or("") };
        if self.is_markdown && !self.in_code {
            push_escaped(&mut self.line, new);
        } else {
            self.line.push_str(new);
        }
    }

    fn element(&mut self, element: Element<'a>) {
        let is_omitted = self.is_removed(element.node)
            || Some(element.node) == self.selection.headline
            || math::is_shown_formula(element);
        if is_omitted || !self.may_add(0) {
            return;
        }
        let name = element.name_id();
        match name {
            names::BR => {
                while self.line.ends_with(' ') {
                    self.line.pop();
                }
                self.line.push('\n');
            }
            names::HR => {
                self.flush();
                if self.is_markdown && !self.out.is_empty() {
                    self.write_lines("---");
                }
            }
            names::IMG => self.image(element),
            names::PRE => self.listing(element),
            names::UL | names::OL | names::MENU => self.list(element, name == names::OL),
            names::BLOCKQUOTE => self.with_prefix("> ", element),
            names::TABLE => self.table(element),
            names::A => self.link(element),
            names::STRONG | names::B => self.emphasis("**", element),
            names::EM | names::I | names::CITE => self.emphasis("*", element),
            names::DEL | names::S | names::STRIKE => self.emphasis("~~", element),
            names::CODE | names::KBD | names::SAMP | names::TT => self.inline_code(element),
            names::RT | names::RP => self.reading(element, name),
            names::MATH => self.formula(element),
            names::DL => self.definitions(element),
            names::FIGURE => self.figure(element),
            _ if self.is_markdown && structure::is_admonition(element) => self.admonition(element),
            _ if name.is_heading() => self.heading(element),
            _ if name.is_block() => {
                self.flush();
                self.children(element);
                self.flush();
            }
            _ => self.children(element),
        }
    }

    fn heading(&mut self, element: Element<'a>) {
        self.flush();
        let level = element.name().get(1..).and_then(|digit| digit.parse::<usize>().ok()).unwrap_or(2);
        let before = self.out.len();
        let list_marker = self.marker.take();
        if self.is_markdown {
            self.marker = Some(format!("{}{} ", list_marker.as_deref().unwrap_or(""), "#".repeat(level)));
        }
        self.children(element);
        self.line = self.line.replace('\n', " ");
        self.flush();
        if self.out.len() == before {
            // The heading is empty, so the marker belongs to the next paragraph.
            self.marker = list_marker;
        }
    }

    /// Renders the children with this prefix before each line.
    fn with_prefix(&mut self, prefix: &'static str, element: Element<'a>) {
        self.flush();
        if self.is_markdown {
            // A list marker comes before the quote.
            if let Some(marker) = self.marker.take_if(|_| self.prefixes.len() < MAX_PREFIXES) {
                self.marker = Some(format!("{marker}{prefix}"));
            }
        }
        let is_pushed = self.push_prefix(prefix);
        self.children(element);
        self.flush();
        self.pop_prefix(is_pushed);
    }

    fn list(&mut self, element: Element<'a>, is_ordered: bool) {
        self.flush();
        let mut number = element.attribute("start").and_then(|start| start.trim().parse::<u32>().ok()).unwrap_or(1);
        let mut is_first = true;
        for id in element.children_nodes() {
            let Some(node) = self.page.node(id).filter(|_| !self.is_cut) else { break };
            if node.name == TEXT || self.is_removed(id) {
                continue;
            }
            let item = self.page.element(id);
            if node.name != names::LI {
                self.element(item);
                continue;
            }
            let before = self.paragraphs;
            // Items follow each other without blank lines, and so does a list within an item.
            self.is_tight = !is_first || self.prefixes.last().is_some_and(|prefix| prefix.trim().is_empty());
            let is_pushed = self.push_prefix(if is_ordered { "   " } else { "  " });
            if is_pushed {
                self.marker = Some(if is_ordered { format!("{number}. ") } else { "- ".to_owned() });
            }
            self.children(item);
            self.flush();
            self.pop_prefix(is_pushed);
            self.marker.take_if(|_| is_pushed);
            if self.paragraphs > before {
                is_first = false;
                number = number.saturating_add(1);
            }
            self.is_tight = false;
        }
    }

    fn image(&mut self, element: Element<'a>) {
        if !self.is_markdown || self.in_code {
            return;
        }
        let alt = element.attribute("alt").unwrap_or_default();
        // An image without a description is a decoration, but in a figure.
        let is_shown = self.in_figure || !alt.trim().is_empty();
        if let (true, Some(source)) = (is_shown, element.url("src"))
            && self.may_add(alt.len() + source.len() * 2)
        {
            self.max_out += escape_url(&source).len();
            self.line.push_str("![");
            push_escaped(&mut self.line, &alt.split_whitespace().collect::<Vec<_>>().join(" "));
            self.line.push_str(&format!("]({})", escape_url(&source)));
        }
    }
}

/// Whether a figure has only pictures and their caption.
fn is_picture(figure: Element<'_>, budget: &PageBudget) -> bool {
    let mut caption_end = 0;
    for (index, inner) in figure.descendants().take_while(|_| budget.visit()).enumerate() {
        if inner.name_id() == names::FIGCAPTION {
            caption_end = inner.end().max(caption_end);
        }
        let is_content = matches!(
            inner.name_id(),
            names::PRE | names::TABLE | names::BLOCKQUOTE | names::CODE | names::P | names::FIGURE
        );
        if index > MAX_PICTURE_ELEMENTS || (is_content && inner.node >= caption_end) {
            return false;
        }
    }
    true
}

/// The text without soft hyphens and without characters that control a terminal or are invisible. The joiners of Arabic
/// and Indic scripts stay.
pub(crate) fn without_invisible(text: &str) -> Cow<'_, str> {
    let is_kept = |c: char| matches!(c, '\n' | '\t' | '\r' | '\u{c}' | '\u{200c}' | '\u{200d}') || !is_unsafe_char(c);
    if text.chars().all(is_kept) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|&c| is_kept(c)).collect())
}

#[cfg(test)]
mod tests;
