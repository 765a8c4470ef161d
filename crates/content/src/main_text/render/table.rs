//! Tables.

use super::{MAX_GROWTH, Writer};
use crate::document::{Element, names};

/// Tables with more cells are rendered as paragraphs.
const MAX_TABLE_CELLS: usize = 50_000;
/// A cell covers at most this many rows and columns.
const MAX_SPAN: u32 = 20;

impl<'a> Writer<'a> {
    pub(super) fn table(&mut self, table: Element<'a>) {
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
        let mut spans = Spans::default();
        let mut columns = columns;
        for row in &rows {
            let mut texts: Vec<String> = Vec::new();
            for cell in row {
                let text = self.cell(*cell);
                spans.place(*cell, text, &mut texts);
            }
            spans.end_row(&mut texts);
            if texts.iter().all(String::is_empty) {
                continue;
            }
            if self.is_markdown {
                if lines.is_empty() {
                    columns = columns.max(texts.len());
                }
                // Markdown adds the missing cells of a row, except those of the first one.
                let missing = if lines.is_empty() { columns - texts.len() } else { 0 };
                // Cells beyond those of the first row would be lost.
                if texts.len() > columns {
                    let rest = texts.split_off(columns).join(" ");
                    texts.last_mut().into_iter().for_each(|last| last.extend([" ", rest.trim()]));
                }
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

/// The cells of earlier rows that reach into the next ones.
#[derive(Default)]
struct Spans {
    /// How many more rows each column is covered.
    rows: Vec<u32>,
}

impl Spans {
    /// Adds a cell to a row, after an empty cell for each column that is covered by a cell above. A cell over several
    /// columns has an empty cell for each further one.
    fn place(&mut self, cell: Element<'_>, text: String, row: &mut Vec<String>) {
        self.skip_covered(row);
        let span = |name: &str| {
            let value = cell.raw_attribute(name).and_then(|value| value.trim().parse::<u32>().ok());
            value.unwrap_or(1).clamp(1, MAX_SPAN)
        };
        let (columns, rows) = (span("colspan"), span("rowspan"));
        let mut text = Some(text);
        for _ in 0..columns {
            if rows > 1 {
                if self.rows.len() <= row.len() {
                    self.rows.resize(row.len() + 1, 0);
                }
                // This row is counted too.
                self.rows.get_mut(row.len()).into_iter().for_each(|left| *left = rows);
            }
            row.push(text.take().unwrap_or_default());
        }
    }

    fn skip_covered(&self, row: &mut Vec<String>) {
        while self.rows.get(row.len()).is_some_and(|&left| left > 0) {
            row.push(String::new());
        }
    }

    /// Ends a row.
    fn end_row(&mut self, row: &mut Vec<String>) {
        self.skip_covered(row);
        self.rows.iter_mut().for_each(|left| *left = left.saturating_sub(1));
    }
}
