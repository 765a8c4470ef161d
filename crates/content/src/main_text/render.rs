//! Renders elements as text or Markdown.
//!
//! Invariant: the result has at most [`MAX_GROWTH`] times the bytes of the page, and the URLs of the links. Repeated
//! prefixes of nested quotes and lists are what could make it longer.

use argiope_core::page::page_budget::{PageBudget, VISIT};

use crate::document::{Document, Element, Node, TEXT, names};

/// Tables with more cells are rendered as paragraphs.
const MAX_TABLE_CELLS: usize = 50_000;

/// Why a text is incomplete.
pub const TEXT_CUT: &str = "the text of the page is longer than four times the page, or takes too much work";
/// The most bytes of the result for each byte of the page, without the URLs of links.
const MAX_GROWTH: usize = 4;
/// A figure with more elements is not only a picture.
const MAX_PICTURE_ELEMENTS: usize = 40;
/// Quotes and lists that are nested more deeply are written at this depth.
const MAX_PREFIXES: usize = 32;
/// How many bytes of a class are searched for a language.
const MAX_CLASS: usize = 1000;

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

/// Escapes text so that it has no Markdown markup.
pub(super) fn escape_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_escaped(&mut out, text);
    out
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
    in_link: bool,
    /// Whether the text is that of a table cell.
    is_cell: bool,
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
            in_link: false,
            is_cell: false,
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
        let is_omitted = self.is_removed(element.node) || Some(element.node) == self.selection.headline;
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
            names::FIGURE if !self.is_markdown && self.selection.is_article && is_picture(element, self.budget) => {}
            names::UL | names::OL | names::MENU => self.list(element, name == names::OL),
            names::BLOCKQUOTE => self.with_prefix("> ", element),
            names::TABLE => self.table(element),
            names::A => self.link(element),
            names::STRONG | names::B => self.emphasis("**", element),
            names::EM | names::I | names::CITE => self.emphasis("*", element),
            names::DEL | names::S | names::STRIKE => self.emphasis("~~", element),
            names::CODE | names::KBD | names::SAMP | names::TT => self.inline_code(element),
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

    /// Renders the children, then replaces their text with the result of `finish`, if they did not start a new
    /// paragraph.
    fn inline(&mut self, element: Element<'a>, finish: impl FnOnce(&str) -> String) {
        let (start, paragraphs) = (self.line.len(), self.paragraphs);
        self.children(element);
        if self.paragraphs != paragraphs {
            return;
        }
        let inner_length = self.line.len().saturating_sub(start);
        self.is_cut |= !self.budget.spend(inner_length);
        if self.is_cut {
            return;
        }
        let Some(inner) = self.line.get(start..) else { return };
        let trimmed = inner.trim();
        if trimmed.is_empty() {
            return;
        }
        let (has_leading, has_trailing) = (inner.starts_with([' ', '\n']), inner.ends_with([' ', '\n']));
        let finished = finish(trimmed);
        self.line.truncate(start);
        if has_leading {
            self.line.push(' ');
        }
        self.line.push_str(&finished);
        if has_trailing {
            self.line.push(' ');
        }
    }

    /// Renders the children between two marks, such as `**`.
    fn emphasis(&mut self, mark: &str, element: Element<'a>) {
        if !self.is_markdown || self.in_code {
            return self.children(element);
        }
        self.inline(element, |inner| {
            // Marks are omitted around several lines and around other emphasis.
            if inner.contains('\n') || inner.starts_with('*') {
                inner.to_owned()
            } else {
                format!("{mark}{inner}{mark}")
            }
        });
    }

    fn inline_code(&mut self, element: Element<'a>) {
        if !self.is_markdown || self.in_code {
            return self.children(element);
        }
        self.in_code = true;
        self.inline(element, |inner| {
            let fence = "`".repeat(longest_backtick_run(inner) + 1);
            let space = if inner.starts_with('`') || inner.ends_with('`') { " " } else { "" };
            format!("{fence}{space}{}{space}{fence}", inner.replace('\n', " "))
        });
        self.in_code = false;
    }

    fn link(&mut self, element: Element<'a>) {
        let target = if self.is_markdown && !self.in_link { element.url("href") } else { None };
        let Some(target) = target else { return self.children(element) };
        if !self.may_add(target.len() * 2) {
            return;
        }
        self.max_out += escape_url(&target).len();
        self.in_link = true;
        self.inline(element, |inner| format!("[{}]({})", inner.replace('\n', " "), escape_url(&target)));
        self.in_link = false;
    }

    fn image(&mut self, element: Element<'a>) {
        if !self.is_markdown || self.in_code {
            return;
        }
        let alt = element.attribute("alt").unwrap_or_default();
        if let (false, Some(source)) = (alt.trim().is_empty(), element.url("src"))
            && self.may_add(alt.len() + source.len() * 2)
        {
            self.max_out += escape_url(&source).len();
            self.line.push_str("![");
            push_escaped(&mut self.line, &alt.split_whitespace().collect::<Vec<_>>().join(" "));
            self.line.push_str(&format!("]({})", escape_url(&source)));
        }
    }

    /// Renders preformatted text. In Markdown it is a fenced block.
    fn listing(&mut self, element: Element<'a>) {
        self.flush();
        let mut code = String::new();
        let mut id = element.node + 1;
        while id < element.end() {
            let Some(node) = self.page.node(id) else { break };
            if !self.may_add(if node.name == TEXT { self.page.raw_text(node).len() } else { 0 }) {
                break;
            }
            id += 1;
            if node.name == TEXT {
                code.push_str(&self.page.text_of(node));
            } else if node.name == names::BR {
                code.push('\n');
            } else if self.is_removed(id - 1) {
                id = self.page.element(id - 1).end().max(id);
            }
        }
        let code = code.replace("\r\n", "\n");
        let code = code.trim_matches('\n').trim_end();
        if code.trim().is_empty() {
            return;
        }
        if !self.is_markdown {
            return self.write_lines(code);
        }
        let fence = "`".repeat(longest_backtick_run(code).max(2) + 1);
        self.write_lines(&format!("{fence}{}\n{code}\n{fence}", language(element)));
    }

    fn table(&mut self, table: Element<'a>) {
        self.flush();
        let rows = self.rows(table);
        if self.is_cut {
            return;
        }
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let cells: usize = rows.iter().map(Vec::len).sum();
        if columns < 2 || cells > MAX_TABLE_CELLS || rows.len() < 2 || !self.has_flat_cells(table, rows.len()) {
            // The table is used for layout, or is very large. Its cells are rendered as blocks.
            for row in rows {
                for cell in row {
                    self.children(cell);
                    self.flush();
                }
            }
            return;
        }
        for caption in table.children().filter(|child| child.name_id() == names::CAPTION) {
            self.children(caption);
            self.flush();
        }
        let mut lines: Vec<String> = Vec::new();
        for row in &rows {
            let texts: Vec<String> = row.iter().map(|cell| self.cell(*cell)).collect();
            if texts.iter().all(String::is_empty) {
                continue;
            }
            if self.is_markdown {
                // Markdown adds the missing cells of a row, except those of the first one.
                let missing = if lines.is_empty() { columns - texts.len() } else { 0 };
                lines.push(format!("| {} |{}", texts.join(" | "), "  |".repeat(missing)));
                if lines.len() == 1 {
                    lines.push(format!("|{}", " --- |".repeat(columns)));
                }
            } else {
                lines.push(texts.join("\t"));
            }
        }
        if !lines.is_empty() {
            self.write_lines(&lines.join("\n"));
        }
    }

    /// The cells of each row of a table that has any.
    fn rows(&mut self, table: Element<'a>) -> Vec<Vec<Element<'a>>> {
        let mut rows = Vec::new();
        let is_group = |name| matches!(name, names::TBODY | names::THEAD | names::TFOOT);
        // The tree builder puts each row into a group, and each group into its table.
        for row in table.children().filter(|child| is_group(child.name_id())).flat_map(|group| group.children()) {
            if row.name_id() != names::TR {
                continue;
            }
            let cells = row.children().filter(|cell| matches!(cell.name_id(), names::TD | names::TH));
            let cells: Vec<Element<'a>> = cells.take_while(|_| self.may_add(size_of::<Element<'_>>())).collect();
            if !cells.is_empty() {
                rows.push(cells);
            }
        }
        rows
    }

    /// Whether a table has no table within it, and at most as many blocks (lists, listings, headings) as rows.
    fn has_flat_cells(&mut self, table: Element<'a>, rows: usize) -> bool {
        let is_block = |name: names::Name| {
            matches!(name, names::UL | names::OL | names::PRE | names::BLOCKQUOTE) || name.is_heading()
        };
        let mut blocks = 0;
        for inner in table.descendants() {
            blocks += usize::from(is_block(inner.name_id()));
            if inner.name_id() == names::TABLE || blocks > rows || !self.may_add(0) {
                return false;
            }
        }
        true
    }

    /// Renders a cell on one line.
    fn cell(&mut self, cell: Element<'a>) -> String {
        let mut inner = Writer::new(self.selection, self.is_markdown, self.budget);
        inner.is_cell = true;
        inner.children(cell);
        inner.flush();
        self.max_out += inner.max_out - self.page.html_len() * MAX_GROWTH;
        self.is_cut |= inner.is_cut || !self.budget.spend(inner.out.len());
        let text = inner.out.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.is_markdown { text.replace('|', "\\|") } else { text }
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

/// Escapes characters of a URL that would end it in Markdown.
fn escape_url(url: &str) -> String {
    url.replace('(', "%28").replace(')', "%29").replace(' ', "%20")
}

/// Appends text with its Markdown markup escaped.
fn push_escaped(out: &mut String, text: &str) {
    let mut previous = out.chars().next_back().unwrap_or(' ');
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let is_markup = match character {
            '\\' | '*' | '`' | '[' | ']' => true,
            '<' => rest.peek().is_some_and(|next| next.is_ascii_alphabetic() || matches!(next, '/' | '!')),
            // Within a word, an underscore is not markup.
            '_' => !(previous.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric())),
            _ => false,
        };
        if is_markup {
            out.push('\\');
        }
        out.push(character);
        previous = character;
    }
}

/// Where to put a backslash if Markdown would parse a line of text as a heading, a list, a rule, a quote or a listing.
fn block_mark(line: &str) -> Option<usize> {
    let is_end = |rest: &str| rest.is_empty() || rest.starts_with(' ');
    let after = |mark: &str| line.strip_prefix(mark).is_some_and(is_end);
    // A line of these characters makes the text above it a heading.
    let is_underline =
        !line.is_empty() && (line.bytes().all(|byte| byte == b'=') || line.bytes().all(|byte| byte == b'-'));
    let begins = |mark: &str| line.starts_with(mark);
    if begins(">") || after("-") || after("+") || begins("---") || begins("===") || begins("~~~") || is_underline {
        return Some(0);
    }
    // An ordered list has up to nine digits. A backslash before a digit would be text, so it goes before the next mark.
    let digits = line.len() - line.trim_start_matches(|next: char| next.is_ascii_digit()).len();
    if (1..=9).contains(&digits) {
        let rest = line.get(digits..).unwrap_or("");
        return rest.strip_prefix(['.', ')']).is_some_and(is_end).then_some(digits);
    }
    let hashes = line.len() - line.trim_start_matches('#').len();
    let is_heading = (1..=6).contains(&hashes) && line.get(hashes..).is_some_and(|rest| rest.starts_with(' '));
    is_heading.then_some(0)
}

/// The length of the longest run of backticks.
fn longest_backtick_run(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}

/// The language of a listing, from the class of the element or of one close to it: `language-rust`, `highlight-python3`.
fn language(element: Element<'_>) -> String {
    let near = std::iter::successors(Some(element), Element::parent).take(3).chain(element.children().take(1));
    for element in near {
        let class = element.raw_attribute("class").unwrap_or_default();
        let class = class.get(..class.floor_char_boundary(MAX_CLASS)).unwrap_or_default();
        for word in class.split_ascii_whitespace() {
            let prefixes = ["language-", "lang-", "highlight-source-", "highlight-", "brush:"];
            let Some(name) = prefixes.iter().find_map(|prefix| word.strip_prefix(prefix)) else { continue };
            if !name.is_empty()
                && name.len() <= 20
                && name.chars().all(|next| next.is_ascii_alphanumeric() || "+#-".contains(next))
            {
                return if matches!(name, "default" | "none" | "text") { String::new() } else { name.to_owned() };
            }
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn markdown(html: &str) -> String {
        let page = Document::parse(html);
        let removed = vec![false; page.len()];
        let selection =
            Selection { page: &page, roots: &[page.root().node], removed: &removed, headline: None, is_article: false };
        render(selection, TextFormat::Markdown, &PageBudget::for_page(html.len())).text
    }

    #[test]
    fn lines_that_look_like_a_listing_or_an_underline_are_escaped() {
        assert_eq!(markdown("<p>~~~<p>~~~ text<p>~~"), "\\~~~\n\n\\~~~ text\n\n~~\n");
        assert_eq!(markdown("<p>a<br>==<p>b<br>--"), "a  \n\\==\n\nb  \n\\--\n");
    }

    #[test]
    fn paragraphs_that_begin_like_an_ordered_list_are_escaped() {
        let html = "<p>1986. A great year<p>3) third<p>7.<p>2.5 metres<p>1234567890. ten digits<p>No. 1. end";
        let expected =
            "1986\\. A great year\n\n3\\) third\n\n7\\.\n\n2.5 metres\n\n1234567890. ten digits\n\nNo. 1. end\n";
        assert_eq!(markdown(html), expected);
        assert_eq!(markdown("<p>a<br>1. b<ol><li>1. c</ol>"), "a  \n1\\. b\n\n1. 1\\. c\n");
    }

    #[test]
    fn headings_and_cells_cannot_begin_a_list() {
        assert_eq!(markdown("<h2>1. Webs</h2><ol><li><h3>2. Silk</h3></ol>"), "## 1. Webs\n\n1. ### 2. Silk\n");
        let table = "<table><tr><th>Rank<th>Name<tr><td>1.<td>Orb</table>";
        assert_eq!(markdown(table), "| Rank | Name |\n| --- | --- |\n| 1. | Orb |\n");
    }
}
