//! The tree builder: converts the tokenizer's tags to nodes.
//!
//! It follows the HTML standard where pages depend on it: implied `html`, `head`, `body`, `tbody` and `tr`, optional
//! end tags, void elements, raw text. It differs where the standard rearranges the tree, because that can take
//! quadratic time: misnested formatting elements are closed instead of cloned, and content that is misplaced in a table
//! stays there. Nodes are only ever appended to the innermost open element, so a subtree is a range of indices.

use argiope_core::page::examine::tokenizer::{Dialect, Tag, TextMode, TokenHandler, Tokenizer};

use super::names::{self, BARRIER, BLOCK, HEAD, INLINE, Name, RAW, VOID};
use super::{Attribute, Node, NodeId, ParseLimits, TEXT, Tree};

/// The maximum nesting depth. Deeper elements become siblings at this depth.
const MAX_DEPTH: usize = 512;

/// The maximum number of distinct custom names. Further elements get the last name.
const MAX_OWN_NAMES: usize = 4096;

pub(super) fn build(html: &str, limits: &ParseLimits) -> (Tree, Option<&'static str>) {
    let (kept, mut reason) = if html.len() > limits.max_bytes {
        let mut end = limits.max_bytes;
        while !html.is_char_boundary(end) {
            end -= 1;
        }
        (html.get(..end).unwrap_or(""), Some("the page is longer than what is parsed"))
    } else {
        (html, None)
    };
    let mut builder = Builder {
        html: kept.as_bytes(),
        tree: Tree::with_capacity(kept.len()),
        open: Vec::with_capacity(64),
        max_nodes: limits.max_nodes,
        full: false,
        raw_start: None,
        head: false,
        body: None,
    };
    builder.open_element(names::HTML, (0, 0), false);
    let mut tokenizer = Tokenizer::within(Dialect::Html, TextMode::Markup, b"");
    tokenizer.feed(kept.as_bytes(), &mut builder);
    if builder.full {
        reason = Some("the page has more elements than are parsed");
    }
    builder.finish();
    (builder.tree, reason)
}

struct OpenElement {
    node: NodeId,
    name: Name,
    /// The element is one of SVG or MathML.
    foreign: bool,
}

struct Builder<'a> {
    html: &'a [u8],
    tree: Tree,
    open: Vec<OpenElement>,
    max_nodes: usize,
    full: bool,
    /// The start of raw text whose end tag was not found yet.
    raw_start: Option<usize>,
    head: bool,
    body: Option<NodeId>,
}

impl Builder<'_> {
    /// The position of a slice of the page; `None` for bytes that the tokenizer generated.
    fn position(&self, slice: &[u8]) -> Option<usize> {
        let offset = (slice.as_ptr() as usize).wrapping_sub(self.html.as_ptr() as usize);
        (offset <= self.html.len() && slice.len() <= self.html.len() - offset).then_some(offset)
    }

    fn top(&self) -> (NodeId, Name, bool) {
        self.open.last().map_or((0, names::HTML, false), |element| (element.node, element.name, element.foreign))
    }

    fn append(&mut self, node: Node) -> NodeId {
        let parent = self.top().0;
        self.tree.append(parent, node)
    }

    fn open_element(&mut self, name: Name, attributes: (u32, u16), foreign: bool) -> NodeId {
        if self.open.len() >= MAX_DEPTH {
            self.pop();
        }
        let node = self.append(Node::element(name, attributes));
        self.open.push(OpenElement { node, name, foreign });
        node
    }

    fn pop(&mut self) {
        if self.open.len() > 1
            && let Some(element) = self.open.pop()
        {
            self.tree.close(element.node);
        }
    }

    /// Closes the elements from `depth` on.
    fn close_from(&mut self, depth: usize) {
        while self.open.len() > depth.max(1) {
            self.pop();
        }
    }

    /// The innermost open element that matches `wanted`, unless an element further in matches `stop`.
    fn find_open(&self, wanted: impl Fn(Name) -> bool, stop: impl Fn(Name) -> bool) -> Option<usize> {
        for (depth, element) in self.open.iter().enumerate().rev() {
            if wanted(element.name) && !element.foreign {
                return Some(depth);
            }
            if stop(element.name) {
                return None;
            }
        }
        None
    }

    fn close_if_open(&mut self, wanted: impl Fn(Name) -> bool, stop: impl Fn(Name) -> bool) {
        if let Some(depth) = self.find_open(wanted, stop) {
            self.close_from(depth);
        }
    }

    /// Opens an implied body before content.
    fn need_body(&mut self) {
        if self.body.is_none() {
            self.close_from(1);
            self.body = Some(self.open_element(names::BODY, (0, 0), false));
        }
    }

    fn text_range(&mut self, start: usize, end: usize) {
        if start >= end || self.full {
            return;
        }
        let (_, name, _) = self.top();
        let in_head = self.body.is_none();
        if in_head && !name.has(RAW) && !matches!(name, names::NOSCRIPT | names::TEMPLATE) {
            let text = self.html.get(start..end).unwrap_or(&[]);
            if text.iter().all(u8::is_ascii_whitespace) {
                return;
            }
            self.need_body();
        }
        let parent = self.top().0;
        if let Some(last) = self.tree.last_child(parent)
            && let Some(node) = self.tree.nodes.get_mut(last as usize)
            && node.name == TEXT
            && node.b as usize == start
        {
            node.b = end as u32;
            return;
        }
        if self.tree.nodes.len() >= self.max_nodes {
            self.full = true;
            return;
        }
        self.append(Node::text(start as u32, end as u32));
    }

    /// The start of a run of `<` that ends at `at`. The tokenizer does not report `<` characters that are text.
    fn angle_start(&self, at: usize) -> usize {
        let before = self.html.get(..at).unwrap_or(&[]);
        at - before.iter().rev().take_while(|byte| **byte == b'<').count()
    }

    /// Adds the `<` that are text before the tag whose `<` is at `at`.
    fn flush_angles(&mut self, at: usize) {
        let start = self.angle_start(at);
        self.text_range(start, at);
    }

    fn name_of(&mut self, written: &[u8]) -> Name {
        let mut lower = [0u8; 16];
        if let Some(lower) = lower.get_mut(..written.len()) {
            lower.copy_from_slice(written);
            lower.make_ascii_lowercase();
            if let Some(name) = Name::known(lower) {
                return name;
            }
        }
        self.tree.own_name(written, MAX_OWN_NAMES)
    }

    fn attributes_of(&mut self, tag: &Tag<'_>) -> (u32, u16) {
        let first = self.tree.attributes.len();
        for (name, value) in tag.attributes() {
            let (Some(name_at), Some(value_at)) = (self.position(name), self.position(value).or(Some(0))) else {
                continue;
            };
            if self.tree.attributes.len() - first >= 256 {
                break;
            }
            let value_at = if value.is_empty() { 0 } else { value_at };
            self.tree.attributes.push(Attribute {
                name: (name_at as u32, name.len().min(usize::from(u16::MAX)) as u16),
                value: (value_at as u32, value.len() as u32),
            });
        }
        (first as u32, (self.tree.attributes.len() - first) as u16)
    }

    /// Closes and opens the elements that the start tag `name` implies.
    fn imply(&mut self, name: Name) {
        let list = |name: Name| matches!(name, names::UL | names::OL | names::MENU | names::DIR) || name.has(BARRIER);
        let table = |name: Name| matches!(name, names::TABLE | names::TEMPLATE | names::HTML);
        match name {
            names::LI => self.close_if_open(|open| open == names::LI, list),
            names::DT | names::DD => {
                let stop = |name: Name| name == names::DL || name.has(BARRIER);
                self.close_if_open(|open| matches!(open, names::DT | names::DD), stop);
            }
            names::OPTION | names::OPTGROUP => {
                if self.top().1 == names::OPTION {
                    self.pop();
                }
                if name == names::OPTGROUP && self.top().1 == names::OPTGROUP {
                    self.pop();
                }
            }
            names::RT | names::RP => {
                if matches!(self.top().1, names::RT | names::RP) {
                    self.pop();
                }
            }
            names::A | names::BUTTON | names::NOBR => {
                self.close_if_open(|open| open == name, |open| open.has(BARRIER));
            }
            names::TD | names::TH => {
                self.close_if_open(|open| matches!(open, names::TD | names::TH | names::CAPTION), table);
                self.close_to(|open| matches!(open, names::TR | names::TEMPLATE), table);
                if matches!(self.top().1, names::TBODY | names::THEAD | names::TFOOT) {
                    self.open_element(names::TR, (0, 0), false);
                } else if self.top().1 == names::TABLE {
                    self.open_element(names::TBODY, (0, 0), false);
                    self.open_element(names::TR, (0, 0), false);
                }
            }
            names::TR => {
                self.close_if_open(|open| matches!(open, names::TR | names::CAPTION | names::COLGROUP), table);
                let group = |open| matches!(open, names::TBODY | names::THEAD | names::TFOOT | names::TEMPLATE);
                self.close_to(group, table);
                if self.top().1 == names::TABLE {
                    self.open_element(names::TBODY, (0, 0), false);
                }
            }
            names::TBODY | names::THEAD | names::TFOOT | names::CAPTION | names::COLGROUP => {
                self.close_to(|open| open == names::TABLE, |open| open == names::TEMPLATE);
            }
            _ if name.is_heading() && self.top().1.is_heading() => self.pop(),
            _ => {}
        }
        if name.has(BLOCK) && !matches!(name, names::LI | names::DT | names::DD) || name == names::LI {
            self.close_if_open(|open| open == names::P, |open| open.has(BARRIER) || open == names::BUTTON);
        }
    }

    /// Closes the elements within the innermost element that matches `wanted`, or within the surrounding table.
    fn close_to(&mut self, wanted: impl Fn(Name) -> bool, table: impl Fn(Name) -> bool) {
        if let Some(depth) = self.find_open(|open| wanted(open) || table(open), |_| false)
            && depth > 0
        {
            self.close_from(depth + 1);
        }
    }

    fn finish(&mut self) {
        if let Some(start) = self.raw_start.take() {
            let end = self.html.len();
            self.text_range(start, end);
        }
        while let Some(element) = self.open.pop() {
            self.tree.close(element.node);
        }
    }

    /// Merges the attributes of a second `html` or `body` tag into the element that is open.
    fn merge(&mut self, node: NodeId, attributes: (u32, u16)) {
        if let Some(node) = self.tree.nodes.get_mut(node as usize)
            && node.attributes == 0
        {
            node.a = attributes.0;
            node.attributes = attributes.1;
        }
    }
}

impl TokenHandler for Builder<'_> {
    fn start(&mut self, tag: &Tag<'_>) -> TextMode {
        if self.full {
            return TextMode::PlainText;
        }
        if let Some(at) = self.position(tag.name) {
            self.flush_angles(at.saturating_sub(1));
        }
        if self.tree.nodes.len() + 4 >= self.max_nodes {
            self.full = true;
            return TextMode::PlainText;
        }
        let name = self.name_of(tag.name);
        let attributes = self.attributes_of(tag);
        let mut foreign = self.in_foreign();
        if foreign && (name.has(BLOCK) || breaks_out(name)) {
            // An HTML element closes the SVG or MathML around it.
            let outer = self.open.iter().rposition(|element| !element.foreign).unwrap_or(0);
            self.close_from(outer + 1);
            foreign = false;
        }
        if !foreign {
            match name {
                names::HTML => {
                    self.merge(0, attributes);
                    return TextMode::Markup;
                }
                names::HEAD_ => {
                    if !self.head && self.body.is_none() {
                        self.head = true;
                        self.open_element(name, attributes, false);
                    }
                    return TextMode::Markup;
                }
                names::BODY => {
                    self.need_body();
                    if let Some(body) = self.body {
                        self.merge(body, attributes);
                    }
                    return TextMode::Markup;
                }
                names::FRAMESET => self.close_from(1),
                _ if self.body.is_none() => {
                    let inside = matches!(self.top().1, names::NOSCRIPT | names::TEMPLATE | names::FRAMESET);
                    if name.has(HEAD) || name == names::NOSCRIPT {
                        if !self.head {
                            self.head = true;
                            self.open_element(names::HEAD_, (0, 0), false);
                        }
                    } else if !inside
                        || !self.open.iter().any(|open| matches!(open.name, names::TEMPLATE | names::FRAMESET))
                    {
                        self.need_body();
                    }
                }
                _ => {}
            }
            self.imply(name);
        }
        let is_foreign = match name {
            names::SVG | names::MATH => true,
            _ => foreign,
        };
        let void = if foreign { tag.self_closing } else { name.has(VOID) || (is_foreign && tag.self_closing) };
        if void {
            let node = self.append(Node::element(name, attributes));
            self.tree.close(node);
            return TextMode::Markup;
        }
        self.open_element(name, attributes, is_foreign);
        if is_foreign || !name.has(RAW) {
            return if name == names::PLAINTEXT { TextMode::PlainText } else { TextMode::Markup };
        }
        if !tag.cut
            && !matches!(name, names::TITLE | names::TEXTAREA)
            && let Some(start) = self.position(tag.attributes().remainder())
        {
            self.raw_start = Some(start + tag.attributes().remainder().len());
        }
        raw_content(name)
    }

    fn end(&mut self, written: &[u8]) {
        if self.full {
            return;
        }
        if let Some(at) = self.position(written) {
            let at = at.saturating_sub(2);
            if let Some(start) = self.raw_start.take() {
                self.text_range(start, at);
            } else {
                self.flush_angles(at);
            }
        }
        let name = self.name_of(written);
        match name {
            // Content after the end tag still belongs to the body.
            names::BODY | names::HTML => return,
            names::HEAD_ => {
                if self.body.is_none() {
                    self.close_from(1);
                }
                return;
            }
            _ => {}
        }
        let found = if name.is_heading() {
            self.find_open(Name::is_heading, |open| open.has(BARRIER))
        } else {
            let mut found = None;
            for (depth, element) in self.open.iter().enumerate().rev() {
                if element.name == name {
                    found = Some(depth);
                    break;
                }
                let stops = if name.has(INLINE) {
                    element.name.has(BLOCK | BARRIER)
                } else if matches!(name, names::TABLE | names::TBODY | names::THEAD | names::TFOOT | names::TR) {
                    matches!(element.name, names::TABLE | names::TEMPLATE)
                } else {
                    element.name.has(BARRIER)
                };
                if stops && !element.foreign {
                    break;
                }
            }
            found
        };
        if let Some(depth) = found
            && depth > 0
            && self.open.get(depth).is_some_and(|element| Some(element.node) != self.body)
        {
            self.close_from(depth);
        }
    }

    fn text(&mut self, _text: &[u8]) {}

    fn shown(&mut self, text: &[u8]) {
        if let Some(at) = self.position(text) {
            self.text_range(self.angle_start(at), at + text.len());
        }
    }

    fn cdata(&mut self, text: &[u8]) {
        if let Some(start) = self.position(text) {
            self.text_range(start, start + text.len());
        }
    }

    fn in_foreign(&self) -> bool {
        self.open.last().is_some_and(|element| {
            element.foreign && !matches!(element.name, names::TITLE) && !self.tree.is_own(element.name, "foreignobject")
        })
    }
}

fn raw_content(name: Name) -> TextMode {
    match name {
        names::TITLE | names::TEXTAREA => TextMode::RcData,
        names::SCRIPT => TextMode::Script,
        _ => TextMode::RawText,
    }
}

/// Elements, in addition to blocks, that close SVG and MathML.
fn breaks_out(name: Name) -> bool {
    matches!(
        name,
        names::B
            | names::BR
            | names::CODE
            | names::EM
            | names::I
            | names::IMG
            | names::SPAN
            | names::STRONG
            | names::BODY
    )
}
