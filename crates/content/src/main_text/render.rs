//! Renders elements as text or Markdown.

use crate::document::{Document, Element, Node, TEXT, names};

/// Tables with more cells are rendered as paragraphs.
const MAX_TABLE_CELLS: usize = 50_000;

pub(super) fn render(
    page: &Document,
    roots: &[u32],
    removed: &[bool],
    headline: Option<u32>,
    markdown: bool,
) -> String {
    let mut writer = Writer::new(page, removed, headline, markdown);
    for &root in roots {
        writer.element(page.element(root));
        writer.flush();
    }
    // A rule at the end separates the content from what was left out.
    while markdown && let Some(rest) = writer.out.strip_suffix("\n\n---") {
        writer.out.truncate(rest.len());
    }
    if !writer.out.is_empty() {
        writer.out.push('\n');
    }
    writer.out
}

/// Escapes text so that it stays on one line and is not Markdown markup.
pub(super) fn escape_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_escaped(&mut out, text);
    out
}

struct Writer<'a> {
    page: &'a Document,
    removed: &'a [bool],
    headline: Option<u32>,
    markdown: bool,
    out: String,
    /// The paragraph that is being collected; `\n` is a line break.
    line: String,
    /// The prefixes of each line, for quotes and lists.
    prefix: Vec<&'static str>,
    /// The marker of the next paragraph, which replaces the last prefix on its first line.
    marker: Option<String>,
    /// The next paragraph follows without a blank line.
    tight: bool,
    /// The number of paragraphs written.
    flushes: usize,
    in_code: bool,
    in_link: bool,
}

impl<'a> Writer<'a> {
    fn new(page: &'a Document, removed: &'a [bool], headline: Option<u32>, markdown: bool) -> Self {
        Self {
            page,
            removed,
            headline,
            markdown,
            out: String::new(),
            line: String::new(),
            prefix: Vec::new(),
            marker: None,
            tight: false,
            flushes: 0,
            in_code: false,
            in_link: false,
        }
    }

    fn begin_block(&mut self) {
        if self.out.is_empty() {
            return;
        }
        self.out.push('\n');
        if !self.tight {
            let quoted = self.prefix.iter().rposition(|prefix| prefix.starts_with('>'));
            if let Some(last) = quoted {
                let quote = self.prefix.get(..=last).unwrap_or(&[]).concat();
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
                    let outer = self.prefix.len().saturating_sub(usize::from(!marker.starts_with('#')));
                    self.out.push_str(&self.prefix.get(..outer).unwrap_or(&[]).concat());
                    self.out.push_str(marker);
                }
                _ if line.is_empty() => self.out.push_str(self.prefix.concat().trim_end()),
                _ => self.out.push_str(&self.prefix.concat()),
            }
            self.out.push_str(line);
        }
        self.tight = false;
        self.flushes += 1;
    }

    /// Ends the paragraph.
    fn flush(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = line.trim();
        if text.is_empty() {
            return;
        }
        if !self.markdown {
            self.write_lines(text);
            return;
        }
        let mut lines = String::with_capacity(text.len() + 8);
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                lines.push_str("  \n");
            }
            let line = line.trim();
            if begins_block(line) {
                lines.push('\\');
            }
            lines.push_str(line);
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
        let ends = self.line.is_empty() || self.line.ends_with([' ', '\n']);
        if !ends {
            // A placeholder, so that leading white space collapses to one space.
            collapsed.push('x');
        }
        crate::document::push_collapsed(&mut collapsed, &text);
        let new = if ends { collapsed.as_str() } else { collapsed.get(1..).unwrap_or("") };
        if self.markdown && !self.in_code {
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
                if self.markdown && !self.out.is_empty() {
                    self.write_lines("---");
                }
            }
            names::IMG => self.image(element),
            names::PRE => self.listing(element),
            names::UL | names::OL | names::MENU => self.list(element, name == names::OL),
            names::BLOCKQUOTE => self.within("> ", element),
            names::TABLE => self.table(element),
            names::A => self.link(element),
            names::STRONG | names::B => self.wrapped("**", element),
            names::EM | names::I | names::CITE => self.wrapped("*", element),
            names::DEL | names::S | names::STRIKE => self.wrapped("~~", element),
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
        let outer = self.marker.take();
        if self.markdown {
            self.marker = Some(format!("{}{} ", outer.as_deref().unwrap_or(""), "#".repeat(level)));
        }
        self.children(element);
        self.line = self.line.replace('\n', " ");
        self.flush();
        if self.out.len() == before {
            self.marker = outer;
        }
    }

    /// Renders the children with this prefix before each line.
    fn within(&mut self, prefix: &'static str, element: Element<'a>) {
        self.flush();
        if self.markdown {
            // A list marker comes before the quote.
            if let Some(marker) = self.marker.take() {
                self.marker = Some(format!("{marker}{prefix}"));
            }
            self.prefix.push(prefix);
        }
        self.children(element);
        self.flush();
        if self.markdown {
            self.prefix.pop();
        }
    }

    fn list(&mut self, element: Element<'a>, ordered: bool) {
        self.flush();
        let mut number = element.attribute("start").and_then(|start| start.trim().parse::<u32>().ok()).unwrap_or(1);
        let mut first = true;
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
            let before = self.flushes;
            // Items follow each other without blank lines, and so does a list within an item.
            self.tight = !first || self.prefix.last().is_some_and(|prefix| prefix.trim().is_empty());
            if self.markdown {
                self.marker = Some(if ordered { format!("{number}. ") } else { "- ".to_owned() });
                self.prefix.push(if ordered { "   " } else { "  " });
            }
            self.children(item);
            self.flush();
            if self.markdown {
                self.prefix.pop();
                self.marker = None;
            }
            if self.flushes > before {
                first = false;
                number = number.saturating_add(1);
            }
            self.tight = false;
        }
    }

    /// Renders the children, then replaces their text with the result of `finish`, if they did not start a new
    /// paragraph.
    fn inline(&mut self, element: Element<'a>, finish: impl FnOnce(&str) -> String) {
        let (start, flushes) = (self.line.len(), self.flushes);
        self.children(element);
        if self.flushes != flushes {
            return;
        }
        let Some(inner) = self.line.get(start..) else { return };
        let trimmed = inner.trim();
        if trimmed.is_empty() {
            return;
        }
        let (lead, trail) = (inner.starts_with([' ', '\n']), inner.ends_with([' ', '\n']));
        let made = finish(trimmed);
        self.line.truncate(start);
        if lead {
            self.line.push(' ');
        }
        self.line.push_str(&made);
        if trail {
            self.line.push(' ');
        }
    }

    /// Renders the children between two marks, such as `**`.
    fn wrapped(&mut self, mark: &str, element: Element<'a>) {
        if !self.markdown || self.in_code {
            return self.children(element);
        }
        self.inline(element, |inner| {
            if inner.contains('\n') || inner.starts_with('*') {
                inner.to_owned()
            } else {
                format!("{mark}{inner}{mark}")
            }
        });
    }

    fn inline_code(&mut self, element: Element<'a>) {
        if !self.markdown || self.in_code {
            return self.children(element);
        }
        self.in_code = true;
        self.inline(element, |inner| {
            let fence = "`".repeat(longest_run(inner) + 1);
            let space = if inner.starts_with('`') || inner.ends_with('`') { " " } else { "" };
            format!("{fence}{space}{}{space}{fence}", inner.replace('\n', " "))
        });
        self.in_code = false;
    }

    fn link(&mut self, element: Element<'a>) {
        let target = if self.markdown && !self.in_link { element.url("href") } else { None };
        let Some(target) = target else { return self.children(element) };
        self.in_link = true;
        self.inline(element, |inner| format!("[{}]({})", inner.replace('\n', " "), address(&target)));
        self.in_link = false;
    }

    fn image(&mut self, element: Element<'a>) {
        if !self.markdown || self.in_code {
            return;
        }
        let alt = element.attribute("alt").unwrap_or_default();
        if let (false, Some(source)) = (alt.trim().is_empty(), element.url("src")) {
            self.line.push_str("![");
            push_escaped(&mut self.line, &alt.split_whitespace().collect::<Vec<_>>().join(" "));
            self.line.push_str(&format!("]({})", address(&source)));
        }
    }

    /// Preformatted text, as a fenced block.
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
        if !self.markdown {
            return self.write_lines(code);
        }
        let fence = "`".repeat(longest_run(code).max(2) + 1);
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
        let nested = table.descendants().any(|inner| inner.name_id() == names::TABLE);
        let blocks = table.descendants().filter(|inner| {
            matches!(inner.name_id(), names::UL | names::OL | names::PRE | names::BLOCKQUOTE)
                || inner.name_id().is_heading()
        });
        if columns < 2 || nested || cells > MAX_TABLE_CELLS || rows.len() < 2 || blocks.count() > rows.len() {
            // A layout table: render its cells as blocks.
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
            if self.markdown {
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

    /// A cell on one line.
    fn cell(&self, cell: Element<'a>) -> String {
        let mut inner = Writer::new(self.page, self.removed, self.headline, self.markdown);
        inner.children(cell);
        inner.flush();
        let text = inner.out.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.markdown { text.replace('|', "\\|") } else { text }
    }
}

/// The table that a row belongs to.
fn table_of(row: Element<'_>) -> Option<Element<'_>> {
    std::iter::successors(row.parent(), Element::parent).find(|element| element.name_id() == names::TABLE)
}

/// Escapes characters of a URL that would end it in Markdown.
fn address(url: &str) -> String {
    url.replace('(', "%28").replace(')', "%29").replace(' ', "%20")
}

fn push_escaped(out: &mut String, text: &str) {
    let mut previous = out.chars().next_back().unwrap_or(' ');
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let special = match character {
            '\\' | '*' | '`' | '[' | ']' => true,
            '<' => rest.peek().is_some_and(|next| next.is_ascii_alphabetic() || matches!(next, '/' | '!')),
            // Within a word, an underscore is not markup.
            '_' => !(previous.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric())),
            _ => false,
        };
        if special {
            out.push('\\');
        }
        out.push(character);
        previous = character;
    }
}

/// Whether Markdown would parse a line of text as a heading, a list or a quote.
fn begins_block(line: &str) -> bool {
    let after = |mark: &str| line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    if line.starts_with('>') || after("-") || after("+") || line.starts_with("---") || line.starts_with("===") {
        return true;
    }
    let hashes = line.len() - line.trim_start_matches('#').len();
    (1..=6).contains(&hashes) && line.get(hashes..).is_some_and(|rest| rest.starts_with(' '))
}

/// The length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}

/// The language of a listing, from the class of the element or of one close to it: `language-rust`, `highlight-python3`.
fn language(element: Element<'_>) -> String {
    let near = std::iter::successors(Some(element), Element::parent).take(3).chain(element.children().take(1));
    for element in near {
        let class = element.attribute("class").unwrap_or_default();
        for word in class.split_ascii_whitespace() {
            let named = ["language-", "lang-", "highlight-source-", "highlight-", "brush:"];
            let Some(name) = named.iter().find_map(|prefix| word.strip_prefix(prefix)) else { continue };
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
