//! Renders elements as text or Markdown.

use crate::document::{Document, Element, Node, TEXT, names};

/// Tables with more cells are rendered as paragraphs.
const MAX_TABLE_CELLS: usize = 50_000;

/// The format of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Markdown,
}

/// Renders the elements `roots`, without the nodes that are flagged in `removed` and without the node `headline`.
pub(super) fn render(
    page: &Document,
    roots: &[u32],
    removed: &[bool],
    headline: Option<u32>,
    format: Format,
) -> String {
    let is_markdown = format == Format::Markdown;
    let mut writer = Writer::new(page, removed, headline, is_markdown);
    for &root in roots {
        writer.element(page.element(root));
        writer.flush();
    }
    // A horizontal rule at the end separates the content from what was omitted.
    while is_markdown && let Some(rest) = writer.out.strip_suffix("\n\n---") {
        writer.out.truncate(rest.len());
    }
    if !writer.out.is_empty() {
        writer.out.push('\n');
    }
    writer.out
}

/// Escapes text so that it has no Markdown markup.
pub(super) fn escape_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_escaped(&mut out, text);
    out
}

struct Writer<'a> {
    page: &'a Document,
    /// A flag for each node that is omitted.
    removed: &'a [bool],
    /// The node of the title, which is omitted.
    headline: Option<u32>,
    is_markdown: bool,
    out: String,
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
    fn new(page: &'a Document, removed: &'a [bool], headline: Option<u32>, is_markdown: bool) -> Self {
        Self {
            page,
            removed,
            headline,
            is_markdown,
            out: String::new(),
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

    /// Ends the line before a paragraph, and adds a blank line unless the paragraph is tight.
    fn begin_block(&mut self) {
        if self.out.is_empty() {
            return;
        }
        self.out.push('\n');
        if !self.is_tight {
            // In a quote, the blank line has the prefixes up to the quote.
            let innermost_quote = self.prefixes.iter().rposition(|prefix| prefix.starts_with('>'));
            if let Some(last) = innermost_quote {
                let quote = self.prefixes.get(..=last).unwrap_or(&[]).concat();
                self.out.push_str(quote.trim_end());
            }
            self.out.push('\n');
        }
    }

    /// Writes lines with the current prefixes.
    fn write_lines(&mut self, text: &str) {
        self.begin_block();
        let marker = self.marker.take();
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                self.out.push('\n');
            }
            match (&marker, index) {
                (Some(marker), 0) => {
                    // A list marker replaces the last prefix. The hashes of a heading do not.
                    let is_list_marker = !marker.starts_with('#');
                    let kept = self.prefixes.len().saturating_sub(usize::from(is_list_marker));
                    self.out.push_str(&self.prefixes.get(..kept).unwrap_or(&[]).concat());
                    self.out.push_str(marker);
                }
                _ if line.is_empty() => self.out.push_str(self.prefixes.concat().trim_end()),
                _ => self.out.push_str(&self.prefixes.concat()),
            }
            self.out.push_str(line);
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
            let Some(node) = self.page.node(id) else { break };
            if node.name == TEXT {
                self.text(node);
            } else {
                self.element(self.page.element(id));
            }
        }
    }

    fn text(&mut self, node: &Node) {
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
        if self.removed.get(element.node as usize) == Some(&true) || Some(element.node) == self.headline {
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
            if let Some(marker) = self.marker.take() {
                self.marker = Some(format!("{marker}{prefix}"));
            }
            self.prefixes.push(prefix);
        }
        self.children(element);
        self.flush();
        if self.is_markdown {
            self.prefixes.pop();
        }
    }

    fn list(&mut self, element: Element<'a>, is_ordered: bool) {
        self.flush();
        let mut number = element.attribute("start").and_then(|start| start.trim().parse::<u32>().ok()).unwrap_or(1);
        let mut is_first = true;
        for id in element.children_nodes() {
            let Some(node) = self.page.node(id) else { break };
            if node.name == TEXT {
                continue;
            }
            let item = self.page.element(id);
            if self.removed.get(id as usize) == Some(&true) {
                continue;
            }
            if node.name != names::LI {
                self.element(item);
                continue;
            }
            let before = self.paragraphs;
            // Items follow each other without blank lines, and so does a list within an item.
            self.is_tight = !is_first || self.prefixes.last().is_some_and(|prefix| prefix.trim().is_empty());
            if self.is_markdown {
                self.marker = Some(if is_ordered { format!("{number}. ") } else { "- ".to_owned() });
                self.prefixes.push(if is_ordered { "   " } else { "  " });
            }
            self.children(item);
            self.flush();
            if self.is_markdown {
                self.prefixes.pop();
                self.marker = None;
            }
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
        self.in_link = true;
        self.inline(element, |inner| format!("[{}]({})", inner.replace('\n', " "), escape_url(&target)));
        self.in_link = false;
    }

    fn image(&mut self, element: Element<'a>) {
        if !self.is_markdown || self.in_code {
            return;
        }
        let alt = element.attribute("alt").unwrap_or_default();
        if let (false, Some(source)) = (alt.trim().is_empty(), element.url("src")) {
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
            id += 1;
            if node.name == TEXT {
                code.push_str(&self.page.text_of(node));
            } else if node.name == names::BR {
                code.push('\n');
            } else if self.removed.get(id as usize - 1) == Some(&true) {
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
        let rows: Vec<Vec<Element<'a>>> = table
            .descendants()
            .filter(|row| row.name_id() == names::TR && table_of(*row) == Some(table))
            .map(|row| {
                row.children().filter(|cell| matches!(cell.name_id(), names::TD | names::TH)).collect::<Vec<_>>()
            })
            .filter(|row| !row.is_empty())
            .collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let cells: usize = rows.iter().map(Vec::len).sum();
        let has_nested_table = table.descendants().any(|inner| inner.name_id() == names::TABLE);
        let blocks = table.descendants().filter(|inner| {
            matches!(inner.name_id(), names::UL | names::OL | names::PRE | names::BLOCKQUOTE)
                || inner.name_id().is_heading()
        });
        if columns < 2 || has_nested_table || cells > MAX_TABLE_CELLS || rows.len() < 2 || blocks.count() > rows.len() {
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
                let missing = columns - texts.len();
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

    /// Renders a cell on one line.
    fn cell(&self, cell: Element<'a>) -> String {
        let mut inner = Writer::new(self.page, self.removed, self.headline, self.is_markdown);
        inner.is_cell = true;
        inner.children(cell);
        inner.flush();
        let text = inner.out.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.is_markdown { text.replace('|', "\\|") } else { text }
    }
}

/// The table that a row belongs to.
fn table_of(row: Element<'_>) -> Option<Element<'_>> {
    std::iter::successors(row.parent(), Element::parent).find(|element| element.name_id() == names::TABLE)
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
        let class = element.attribute("class").unwrap_or_default();
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
        render(&page, &[page.root().node], &removed, None, Format::Markdown)
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
