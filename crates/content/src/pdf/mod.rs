//! [`PdfText`]: the text of a PDF file.
//!
//! Only what text needs is read: objects, fonts and the operators that draw text. The text is in the order in which it
//! is drawn, which programs that write documents keep. Pictures, forms and signatures are not read, and an encrypted file
//! has no text. All work and all memory is charged to a budget, so a hostile file costs no more than a page of its size.

use std::collections::HashSet;

use argiope_core::base::url::{MAX_URL_LEN, Url};
use argiope_core::page::page_budget::{PageBudget, VISIT};

use content::{Piece, Reader};
use objects::Objects;
use values::Value;

mod content;
mod filters;
mod fonts;
mod objects;
mod values;

/// How many times its size a file has at least when it is not compressed, as a rule.
const PACKED: usize = 4;
/// The maximum number of pages that are read, and how deep their tree may be.
const MAX_PAGES: usize = 10_000;
const MAX_TREE: usize = 32;
/// Steps of visiting a node of the tree of pages.
const STEPS_OF_NODE: usize = 64;
/// The maximum number of links.
const MAX_LINKS: usize = 10_000;
/// The steps and the memory for each byte of a text until it is written: lines, paragraphs, words, text and Markdown. They
/// are charged when a page is added, so what was added is written even if the budget is used up.
const STEPS_OF_TEXT: usize = 24;
const MEMORY_OF_TEXT: usize = 8;
/// A line whose font is larger than that of the text by this factor is a heading.
const HEADING: f64 = 1.15;
/// Stands for a hyphen at the end of a line, until it is known whether it belongs to the word.
const LINE_HYPHEN: char = '\u{ad}';
/// A longer line is not a heading.
const MAX_HEADING: usize = 200;
/// The number of sizes of headings.
const MAX_RANKS: usize = 4;

/// Why the text of a PDF file is missing.
pub const PDF_ENCRYPTED: &str = "the PDF file is encrypted";

/// The text of a PDF file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PdfText {
    /// The title that the file declares.
    pub title: Option<String>,
    /// The number of pages.
    pub pages: usize,
    /// The text: paragraphs, separated by blank lines.
    pub plain: String,
    /// The same as Markdown, with headings by the size of their font.
    pub markdown: String,
    /// The targets of the links to other documents, each once: absolute URLs of the web.
    pub links: Vec<String>,
    /// Why something is missing.
    pub limited: Option<&'static str>,
}

/// The links of a file.
#[derive(Default)]
struct Links {
    known: HashSet<String>,
    list: Vec<String>,
}

impl Links {
    /// Adds the links of a page.
    fn add(&mut self, objects: &Objects<'_>, page: &Value) {
        let Some(annotations) = objects.entry_unresolved(page, "Annots") else { return };
        objects.with(annotations, |annotations| {
            for annotation in annotations.array() {
                if self.list.len() >= MAX_LINKS || !objects.spend(VISIT) {
                    break;
                }
                objects.with(annotation, |annotation| {
                    let Some(action) = annotation.get("A") else { return };
                    objects.with(action, |action| {
                        let Some(target) = action.get("URI") else { return };
                        objects.with(target, |target| self.add_target(objects, target));
                    });
                });
            }
        });
    }

    fn add_target(&mut self, objects: &Objects<'_>, target: &Value) {
        let Value::Text(target) = target else { return };
        // The text is decoded, parsed and compared.
        if target.len() > MAX_URL_LEN || !objects.spend(target.len() * 8) {
            return;
        }
        let Ok(url) = Url::parse(decoded(target).trim()) else { return };
        if !self.known.contains(url.as_str()) && objects.hold(url.as_str().len() * 2 + 4 * size_of::<String>()) {
            self.known.insert(url.as_str().to_owned());
            self.list.push(url.as_str().to_owned());
        }
    }
}

/// A paragraph or a heading.
struct Block {
    text: String,
    size: f64,
}

impl PdfText {
    /// The budget for a file. What a file says is compressed, so it may cost as much as a page of `PACKED` times its
    /// size.
    pub fn budget(file: &[u8]) -> PageBudget {
        PageBudget::for_page(file.len().saturating_mul(PACKED))
    }

    /// Reads a file.
    pub fn of(file: &[u8], budget: &PageBudget) -> Self {
        let objects = Objects::of(file, budget);
        let mut found = Self::default();
        if objects.trailer.is_encrypted {
            found.limited = Some(PDF_ENCRYPTED);
            return found;
        }
        found.title = match objects.entry(&objects.trailer.info, "Title") {
            Value::Text(title) if objects.spend(title.len() * 4) => {
                Some(text_of(title)).filter(|title| !title.is_empty())
            }
            _ => None,
        };
        let mut pages: Vec<(&Value, &Value)> = Vec::new();
        if let Some(tree) = objects.entry_unresolved(&objects.trailer.root, "Pages") {
            collect_pages(&objects, (tree, &Value::Null), 0, &mut pages);
        }
        let numbers: Vec<Value>;
        if pages.is_empty() {
            numbers = objects.numbers_of_type(b"Page").into_iter().map(Value::Reference).collect();
            pages = numbers.iter().take(MAX_PAGES).map(|page| (page, &Value::Null)).collect();
        }
        found.pages = pages.len();
        let mut reader = Reader::new(&objects);
        let mut blocks = Vec::new();
        let mut links = Links::default();
        for (page, inherited) in pages {
            let own = objects.entry(page, "Resources");
            let resources = if *own == Value::Null { inherited } else { own };
            let contents = objects.entry_unresolved(page, "Contents").unwrap_or(&Value::Null);
            reader.page(contents, resources);
            append_blocks(&reader.pieces, &mut blocks, budget);
            reader.clear();
            links.add(&objects, page);
        }
        found.links = links.list;
        settle_hyphens(&mut blocks);
        found.write(&blocks);
        if budget.is_used_up() {
            found.limited = Some(crate::document::USED_UP);
        }
        found
    }

    /// Writes the blocks as text and as Markdown.
    fn write(&mut self, blocks: &[Block]) {
        let body = body_size(blocks);
        let is_heading = |block: &Block| block.size >= body * HEADING && block.text.chars().count() <= MAX_HEADING;
        let mut sizes: Vec<i64> =
            blocks.iter().filter(|block| is_heading(block)).map(|block| tenths(block.size)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.reverse();
        for block in blocks {
            if !self.plain.is_empty() {
                self.plain.push('\n');
                self.markdown.push('\n');
            }
            self.plain.push_str(&block.text);
            self.plain.push('\n');
            if is_heading(block) {
                let rank = sizes.iter().position(|&size| size == tenths(block.size)).unwrap_or(0).min(MAX_RANKS - 1);
                self.markdown.push_str(&"#".repeat(rank + 1));
                self.markdown.push(' ');
            }
            self.markdown.push_str(&crate::main_text::escape_paragraph(&block.text));
            self.markdown.push('\n');
        }
    }
}

/// Removes the hyphens at the ends of lines from words that the file has without one elsewhere. Other hyphens belong to
/// their words.
fn settle_hyphens(blocks: &mut [Block]) {
    let is_break = |next: char| !next.is_alphanumeric() && next != LINE_HYPHEN;
    let words: HashSet<&str> = blocks.iter().flat_map(|block| block.text.split(is_break)).collect();
    let texts: Vec<String> = blocks.iter().map(|block| settled(&block.text, &words, is_break)).collect();
    drop(words);
    for (block, text) in blocks.iter_mut().zip(texts) {
        block.text = text;
    }
}

/// A text with its hyphens at the ends of lines removed or kept.
fn settled(text: &str, words: &HashSet<&str>, is_break: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for part in text.split_inclusive(&is_break) {
        let word = part.trim_end_matches(&is_break);
        let whole = word.replace(LINE_HYPHEN, "");
        let is_word = word.contains(LINE_HYPHEN) && words.contains(whole.as_str());
        out.push_str(&part.replace(LINE_HYPHEN, if is_word { "" } else { "-" }));
    }
    out
}

fn tenths(size: f64) -> i64 {
    (size * 10.0).round() as i64
}

/// The size of the font that most characters have.
fn body_size(blocks: &[Block]) -> f64 {
    let mut counts: std::collections::BTreeMap<i64, usize> = std::collections::BTreeMap::new();
    for block in blocks {
        *counts.entry(tenths(block.size)).or_default() += block.text.len();
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map_or(1.0, |(size, _)| size as f64 / 10.0)
}

/// A text of the file, in one line.
fn text_of(bytes: &[u8]) -> String {
    crate::main_text::without_invisible(&decoded(bytes)).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text of the file: UTF-16 with a mark, UTF-8 with a mark, or windows-1252.
fn decoded(bytes: &[u8]) -> String {
    match bytes {
        [0xFE, 0xFF, rest @ ..] => fonts::utf16(rest),
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes).0.into_owned(),
    }
}

/// Collects the pages of a tree with the resources that they inherit. Returns whether the walk continues: every visit is
/// charged, also one below the deepest level, because a node may name itself any number of times.
fn collect_pages<'o>(
    objects: &'o Objects<'_>,
    (node, inherited): (&'o Value, &'o Value),
    depth: usize,
    pages: &mut Vec<(&'o Value, &'o Value)>,
) -> bool {
    if pages.len() >= MAX_PAGES || !objects.spend(STEPS_OF_NODE) {
        return false;
    }
    if depth > MAX_TREE {
        return true;
    }
    let own = objects.entry(node, "Resources");
    let resources = if *own == Value::Null { inherited } else { own };
    let kids = objects.entry(node, "Kids");
    if let Value::Array(kids) = kids {
        return kids.iter().all(|kid| collect_pages(objects, (kid, resources), depth + 1, pages));
    }
    if *objects.resolve(node) != Value::Null && objects.hold(2 * size_of::<(&Value, &Value)>()) {
        pages.push((node, resources));
    }
    true
}

/// Joins the pieces of a page to lines, and lines to paragraphs.
fn append_blocks(pieces: &[Piece], blocks: &mut Vec<Block>, budget: &PageBudget) {
    let length: usize = pieces.iter().map(|piece| piece.text.len()).sum();
    let steps = length * STEPS_OF_TEXT + pieces.len() * 4 * VISIT;
    let lines = length * 2 + pieces.len() * 2 * size_of::<Line>();
    if !budget.spend(steps) || !budget.hold(length * MEMORY_OF_TEXT) || !budget.hold(lines) {
        return;
    }
    budget.release(lines);
    let mut lines: Vec<Line> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if line.is_continued_by(piece) => line.add(piece),
            _ => lines.push(Line::of(piece)),
        }
    }
    let mut last: Option<Line> = None;
    for line in lines {
        if line.text.trim().is_empty() {
            continue;
        }
        let text = crate::main_text::without_invisible(&line.text);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let joins = last.as_ref().is_some_and(|last| last.is_followed_by(&line));
        match blocks.last_mut().filter(|_| joins) {
            Some(block) => {
                let is_broken = block.text.ends_with('-') && text.starts_with(char::is_lowercase);
                if is_broken {
                    block.text.pop();
                    block.text.push(LINE_HYPHEN);
                } else {
                    block.text.push(' ');
                }
                block.text.push_str(&text);
            }
            None => blocks.push(Block { text, size: line.size }),
        }
        last = Some(line);
    }
}

/// A line of a page.
struct Line {
    y: f64,
    end: f64,
    size: f64,
    text: String,
}

impl Line {
    fn of(piece: &Piece) -> Self {
        Self { y: piece.y, end: piece.end, size: piece.size, text: piece.text.clone() }
    }

    fn is_continued_by(&self, piece: &Piece) -> bool {
        let size = self.size.max(piece.size).max(0.1);
        (self.y - piece.y).abs() < size * 0.5 && piece.x > self.end - size * 2.0
    }

    fn add(&mut self, piece: &Piece) {
        let is_apart = piece.x - self.end > piece.size * 0.15;
        if is_apart && !self.text.ends_with(' ') && !piece.text.starts_with(' ') {
            self.text.push(' ');
        }
        self.text.push_str(&piece.text);
        self.end = self.end.max(piece.end);
        self.size = self.size.max(piece.size);
    }

    /// Whether the next line belongs to the same paragraph.
    fn is_followed_by(&self, next: &Self) -> bool {
        let drop = self.y - next.y;
        (self.size - next.size).abs() < 0.5 && drop > 0.0 && drop < self.size * 1.45
    }
}
