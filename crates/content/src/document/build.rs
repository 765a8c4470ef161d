//! The tree builder: converts the tokenizer's tags to nodes, which a [`NodeSink`] receives in document order.
//!
//! One sink stores them as a tree. The other matches selectors while the page is tokenized, and stores only the
//! selected texts.
//!
//! It follows the HTML standard where pages depend on it: implied `html`, `head`, `body`, `tbody` and `tr`, optional
//! end tags, void elements, raw text. It differs where the standard rearranges the tree, because that can take
//! quadratic time: misnested formatting elements are closed instead of cloned, and content that is misplaced in a table
//! is left there. Nodes are only appended to the innermost open element, so a subtree is a range of indexes.

use argiope_core::page::examine::tokenizer::{Dialect, Tag, TextMode, TokenHandler, Tokenizer};
use argiope_core::page::page_budget::PageBudget;

use super::names::{self, BARRIER, BLOCK, CustomNames, HEAD, INLINE, Name, RAW, VOID};
use super::{Attribute, Node, NodeId, ParseLimits, Tree};

/// The maximum nesting depth. Deeper elements become siblings at this depth.
const MAX_DEPTH: usize = 512;

/// The steps of tokenizing a byte.
const TOKEN_STEPS: usize = 2;

/// Why a result is incomplete if the budget of the page is used up.
pub const USED_UP: &str = "the page takes more work or memory than pages of its size may take";

/// The maximum number of attributes of one tag that are kept.
pub(crate) const MAX_ATTRIBUTES: usize = 256;

/// Receives the nodes of a page in document order.
pub(crate) trait NodeSink {
    /// An element begins within the innermost open element, and is open until [`NodeSink::close`]. Elements that the
    /// page implies have no tag.
    fn open(&mut self, node: NodeId, name: Name, tag: Option<&Tag<'_>>, names: &CustomNames);
    /// The innermost open element ends. `nodes` is the number of nodes up to here.
    fn close(&mut self, name: Name, nodes: NodeId);
    /// A piece of text from `start` to `end` of the page. With `joined`, it continues the last piece.
    fn text(&mut self, node: NodeId, start: usize, end: usize, joined: bool);
    /// A tag of an element that is already open: of the root (node 0), which is opened without a tag, or of the body.
    /// The attributes of the tag count if the element has none so far.
    fn merge(&mut self, node: NodeId, tag: &Tag<'_>);
    /// Whether the rest of the page is not needed.
    fn is_done(&self) -> bool;
}

/// The part of the page that is parsed, and the reason if it is not all of it.
pub(crate) fn within_limits<'a>(html: &'a str, limits: &ParseLimits) -> (&'a str, Option<&'static str>) {
    if html.len() <= limits.max_bytes {
        return (html, None);
    }
    let mut end = limits.max_bytes;
    while !html.is_char_boundary(end) {
        end -= 1;
    }
    (html.get(..end).unwrap_or(""), Some("the page is longer than what is parsed"))
}

/// Passes the nodes of a page to `sink`. Returns its custom names, and the reason if a limit was reached.
pub(crate) fn walk<S: NodeSink>(
    html: &str,
    max_nodes: usize,
    sink: &mut S,
    budget: &PageBudget,
) -> (CustomNames, Option<&'static str>) {
    let mut builder = Builder {
        html: html.as_bytes(),
        sink,
        budget,
        names: CustomNames::default(),
        open: Vec::with_capacity(64),
        nodes: 0,
        max_nodes,
        is_full: !budget.spend(html.len() * TOKEN_STEPS),
        text_end: None,
        open_paragraphs: 0,
        open_links: 0,
        raw_start: None,
        has_head: false,
        body: None,
    };
    builder.open_implied(names::HTML);
    let mut tokenizer = Tokenizer::within(Dialect::Html, TextMode::Markup, b"");
    tokenizer.feed(html.as_bytes(), &mut builder);
    let reason = match builder.is_full {
        _ if budget.is_used_up() => Some(USED_UP),
        true => Some("the page has more elements than are parsed"),
        false => None,
    };
    builder.finish();
    (builder.names, reason)
}

/// Builds the tree of a page. Also returns the reason if the tree is incomplete.
pub(super) fn build(html: &str, limits: &ParseLimits, budget: &PageBudget) -> (Tree, Option<&'static str>) {
    let (kept, cut_reason) = within_limits(html, limits);
    let tree = Tree::with_capacity(kept.len());
    let mut sink = TreeSink { html: kept.as_bytes(), tree, open: Vec::with_capacity(64), budget };
    let (names, full_reason) = walk(kept, limits.max_nodes, &mut sink, budget);
    sink.tree.names = names;
    (sink.tree, full_reason.or(cut_reason))
}

/// A sink that stores the nodes as a tree.
struct TreeSink<'a> {
    html: &'a [u8],
    tree: Tree,
    /// The open elements, innermost last.
    open: Vec<NodeId>,
    budget: &'a PageBudget,
}

impl TreeSink<'_> {
    /// Charges the memory of a node. If it is refused, the node is the last one: the budget ends the walk.
    fn hold_node(&self) {
        let _is_last = !self.budget.hold(size_of::<Node>());
    }

    /// Stores the attributes of a tag. Returns the index of the first one and their number.
    fn push_attributes(&mut self, tag: Option<&Tag<'_>>) -> (u32, u16) {
        let first = self.tree.attributes.len();
        for (name, value) in tag.into_iter().flat_map(|tag| tag.attributes()) {
            let Some(name_at) = position(self.html, name) else { continue };
            if self.tree.attributes.len() - first >= MAX_ATTRIBUTES || !self.budget.hold(size_of::<Attribute>()) {
                break;
            }
            // An empty value need not be a part of the page.
            let value_at = if value.is_empty() { 0 } else { position(self.html, value).unwrap_or(0) };
            self.tree.attributes.push(Attribute {
                name: (name_at as u32, name.len().min(usize::from(u16::MAX)) as u16),
                value: (value_at as u32, value.len() as u32),
            });
        }
        (first as u32, (self.tree.attributes.len() - first) as u16)
    }
}

impl NodeSink for TreeSink<'_> {
    fn open(&mut self, _node: NodeId, name: Name, tag: Option<&Tag<'_>>, _names: &CustomNames) {
        let attributes = self.push_attributes(tag);
        self.hold_node();
        let parent = self.open.last().copied().unwrap_or(0);
        self.open.push(self.tree.append(parent, Node::element(name, attributes)));
    }

    fn close(&mut self, _name: Name, _nodes: NodeId) {
        if let Some(node) = self.open.pop() {
            self.tree.close(node);
        }
    }

    fn text(&mut self, _node: NodeId, start: usize, end: usize, joined: bool) {
        if joined && let Some(last) = self.tree.nodes.last_mut() {
            last.end = end as u32;
            return;
        }
        self.hold_node();
        let parent = self.open.last().copied().unwrap_or(0);
        self.tree.append(parent, Node::text(start as u32, end as u32));
    }

    fn merge(&mut self, node: NodeId, tag: &Tag<'_>) {
        let attributes = self.push_attributes(Some(tag));
        if let Some(node) = self.tree.nodes.get_mut(node as usize)
            && node.attributes == 0
        {
            node.first = attributes.0;
            node.attributes = attributes.1;
        }
    }

    fn is_done(&self) -> bool {
        false
    }
}

/// The position of a slice of the page; `None` for bytes that the tokenizer generated.
#[inline]
pub(crate) fn position(html: &[u8], slice: &[u8]) -> Option<usize> {
    let offset = (slice.as_ptr() as usize).wrapping_sub(html.as_ptr() as usize);
    (offset <= html.len() && slice.len() <= html.len() - offset).then_some(offset)
}

#[derive(Clone, Copy)]
struct OpenElement {
    node: NodeId,
    name: Name,
    /// Whether the element is one of SVG or MathML.
    is_foreign: bool,
}

/// Converts tags to nodes.
struct Builder<'a, S> {
    html: &'a [u8],
    sink: &'a mut S,
    budget: &'a PageBudget,
    names: CustomNames,
    /// The open elements, innermost last.
    open: Vec<OpenElement>,
    /// The number of nodes so far.
    nodes: NodeId,
    max_nodes: usize,
    /// Whether the maximum number of nodes was reached.
    is_full: bool,
    /// The end of the text that is the last node; `None` if the last node is an element.
    text_end: Option<usize>,
    /// The number of open `p` elements. At zero, the stack need not be searched for one.
    open_paragraphs: u32,
    /// The number of open `a` elements.
    open_links: u32,
    /// The start of raw text whose end tag was not found yet.
    raw_start: Option<usize>,
    /// Whether a `head` was opened.
    has_head: bool,
    /// The `body`, once it was opened.
    body: Option<NodeId>,
}

impl<S: NodeSink> Builder<'_, S> {
    fn position(&self, slice: &[u8]) -> Option<usize> {
        position(self.html, slice)
    }

    /// The name of the innermost open element, and whether it is one of SVG or MathML.
    fn top(&self) -> (Name, bool) {
        self.open.last().map_or((names::HTML, false), |element| (element.name, element.is_foreign))
    }

    fn top_name(&self) -> Name {
        self.top().0
    }

    /// Whether the rest of the page is skipped.
    fn is_ended(&self) -> bool {
        self.is_full || self.budget.is_used_up() || self.sink.is_done()
    }

    /// The number of a new node.
    fn next_node(&mut self) -> NodeId {
        self.is_full |= !self.budget.visit();
        self.text_end = None;
        self.nodes += 1;
        self.nodes - 1
    }

    /// Opens an element. `is_foreign`: it belongs to SVG or MathML.
    fn open_element(&mut self, name: Name, tag: Option<&Tag<'_>>, is_foreign: bool) -> NodeId {
        if self.open.len() >= MAX_DEPTH {
            self.pop();
        }
        let node = self.next_node();
        self.sink.open(node, name, tag, &self.names);
        match name {
            names::P => self.open_paragraphs += 1,
            names::A => self.open_links += 1,
            _ => {}
        }
        self.open.push(OpenElement { node, name, is_foreign });
        node
    }

    /// Opens an HTML element that has no tag.
    fn open_implied(&mut self, name: Name) -> NodeId {
        self.open_element(name, None, false)
    }

    /// Closes the innermost open element, except the root.
    fn pop(&mut self) {
        if self.open.len() > 1 {
            self.pop_any();
        }
    }

    /// Closes the innermost open element.
    fn pop_any(&mut self) {
        let Some(element) = self.open.pop() else { return };
        match element.name {
            names::P => self.open_paragraphs -= 1,
            names::A => self.open_links -= 1,
            _ => {}
        }
        self.text_end = None;
        self.sink.close(element.name, self.nodes);
    }

    /// Closes the elements from `depth` on.
    fn close_from(&mut self, depth: usize) {
        while self.open.len() > depth.max(1) {
            self.pop();
        }
    }

    /// The depth of the innermost open element that matches `wanted`, unless an element inside it matches `stop`.
    fn find_open(&self, wanted: impl Fn(Name) -> bool, stop: impl Fn(Name) -> bool) -> Option<usize> {
        for (depth, element) in self.open.iter().enumerate().rev() {
            if !self.budget.spend(1) {
                return None;
            }
            if wanted(element.name) && !element.is_foreign {
                return Some(depth);
            }
            if stop(element.name) {
                return None;
            }
        }
        None
    }

    /// Closes the element that [`Builder::find_open`] finds, if any.
    fn close_if_open(&mut self, wanted: impl Fn(Name) -> bool, stop: impl Fn(Name) -> bool) {
        if let Some(depth) = self.find_open(wanted, stop) {
            self.close_from(depth);
        }
    }

    /// Opens an implied body unless there is one.
    fn ensure_body(&mut self) {
        if self.body.is_none() {
            self.close_from(1);
            self.body = Some(self.open_implied(names::BODY));
        }
    }

    /// Adds the text from `start` to `end` of the page.
    fn text_range(&mut self, start: usize, end: usize) {
        if start >= end || self.is_full {
            return;
        }
        if self.body.is_none() {
            let name = self.top_name();
            let text = self.html.get(start..end).unwrap_or(&[]);
            if !name.has(RAW) && !matches!(name, names::NOSCRIPT | names::TEMPLATE) {
                if text.iter().all(u8::is_ascii_whitespace) {
                    return;
                }
                self.ensure_body();
            }
        }
        let joined = self.text_end == Some(start);
        if !joined {
            if self.nodes as usize >= self.max_nodes {
                self.is_full = true;
                return;
            }
            self.next_node();
        }
        self.text_end = Some(end);
        self.sink.text(self.nodes - 1, start, end, joined);
    }

    /// The start of the `<` characters right before `at`. They are text, which the tokenizer does not report.
    fn angle_start(&self, at: usize) -> usize {
        let before = self.html.get(..at).unwrap_or(&[]);
        if before.last() != Some(&b'<') {
            return at;
        }
        at - before.iter().rev().take_while(|byte| **byte == b'<').count()
    }

    /// Adds the `<` characters right before `at` as text.
    fn push_angles(&mut self, at: usize) {
        let start = self.angle_start(at);
        if start < at {
            self.text_range(start, at);
        }
    }

    fn name_of(&mut self, written: &[u8]) -> Name {
        Name::known(written).unwrap_or_else(|| self.names.number(written))
    }

    /// Closes and opens the elements that the start tag `name` implies.
    fn imply(&mut self, name: Name) {
        let stops_list =
            |name: Name| matches!(name, names::UL | names::OL | names::MENU | names::DIR) || name.has(BARRIER);
        let stops_table = |name: Name| matches!(name, names::TABLE | names::TEMPLATE | names::HTML);
        match name {
            names::LI => self.close_if_open(|open| open == names::LI, stops_list),
            names::DT | names::DD => {
                let stop = |name: Name| name == names::DL || name.has(BARRIER);
                self.close_if_open(|open| matches!(open, names::DT | names::DD), stop);
            }
            names::OPTION | names::OPTGROUP => {
                if self.top_name() == names::OPTION {
                    self.pop();
                }
                if name == names::OPTGROUP && self.top_name() == names::OPTGROUP {
                    self.pop();
                }
            }
            names::RT | names::RP => {
                if matches!(self.top_name(), names::RT | names::RP) {
                    self.pop();
                }
            }
            names::A if self.open_links == 0 => {}
            names::A | names::BUTTON | names::NOBR => {
                self.close_if_open(|open| open == name, |open| open.has(BARRIER));
            }
            names::TD | names::TH => {
                self.close_if_open(|open| matches!(open, names::TD | names::TH | names::CAPTION), stops_table);
                self.close_to(|open| matches!(open, names::TR | names::TEMPLATE), stops_table);
                if matches!(self.top_name(), names::TBODY | names::THEAD | names::TFOOT) {
                    self.open_implied(names::TR);
                } else if self.top_name() == names::TABLE {
                    self.open_implied(names::TBODY);
                    self.open_implied(names::TR);
                }
            }
            names::TR => {
                self.close_if_open(|open| matches!(open, names::TR | names::CAPTION | names::COLGROUP), stops_table);
                let is_group = |open| matches!(open, names::TBODY | names::THEAD | names::TFOOT | names::TEMPLATE);
                self.close_to(is_group, stops_table);
                if self.top_name() == names::TABLE {
                    self.open_implied(names::TBODY);
                }
            }
            names::TBODY | names::THEAD | names::TFOOT | names::CAPTION | names::COLGROUP => {
                self.close_to(|open| open == names::TABLE, |open| open == names::TEMPLATE);
            }
            _ if name.is_heading() && self.top_name().is_heading() => self.pop(),
            _ => {}
        }
        if self.open_paragraphs > 0 && name.has(BLOCK) && !matches!(name, names::DT | names::DD) {
            self.close_if_open(|open| open == names::P, |open| open.has(BARRIER) || open == names::BUTTON);
        }
    }

    /// Closes the elements within the innermost element that matches `wanted` or `stops_table`.
    fn close_to(&mut self, wanted: impl Fn(Name) -> bool, stops_table: impl Fn(Name) -> bool) {
        if let Some(depth) = self.find_open(|open| wanted(open) || stops_table(open), |_| false)
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
        while !self.open.is_empty() {
            self.pop_any();
        }
    }
}

impl<S: NodeSink> TokenHandler for Builder<'_, S> {
    fn start(&mut self, tag: &Tag<'_>) -> TextMode {
        if self.is_ended() {
            return TextMode::PlainText;
        }
        if let Some(at) = self.position(tag.name) {
            // The tag itself begins one byte before its name.
            self.push_angles(at.saturating_sub(1));
        }
        // A start tag adds at most four nodes: up to three implied elements, and its own.
        if self.nodes as usize + 4 >= self.max_nodes {
            self.is_full = true;
            return TextMode::PlainText;
        }
        let name = self.name_of(tag.name);
        let mut is_in_foreign = self.is_in_foreign();
        if is_in_foreign && (name.has(BLOCK) || breaks_out(name)) {
            // An HTML element closes the SVG or MathML around it.
            let outer = self.open.iter().rposition(|element| !element.is_foreign).unwrap_or(0);
            self.close_from(outer + 1);
            is_in_foreign = false;
        }
        if !is_in_foreign {
            match name {
                names::HTML => {
                    self.sink.merge(0, tag);
                    return TextMode::Markup;
                }
                names::HEAD_ELEMENT => {
                    if !self.has_head && self.body.is_none() {
                        self.has_head = true;
                        self.open_element(name, Some(tag), false);
                    }
                    return TextMode::Markup;
                }
                names::BODY => {
                    match self.body {
                        Some(body) => self.sink.merge(body, tag),
                        None => {
                            self.close_from(1);
                            self.body = Some(self.open_element(names::BODY, Some(tag), false));
                        }
                    }
                    return TextMode::Markup;
                }
                names::FRAMESET => self.close_from(1),
                _ if self.body.is_none() => {
                    // An element that does not belong to the head implies the body, except directly in a `template` or
                    // `frameset`, and directly in a `noscript` within one of these.
                    let is_top_special = matches!(self.top_name(), names::NOSCRIPT | names::TEMPLATE | names::FRAMESET);
                    if name.has(HEAD) || name == names::NOSCRIPT {
                        if !self.has_head {
                            self.has_head = true;
                            self.open_implied(names::HEAD_ELEMENT);
                        }
                    } else if !is_top_special
                        || !self.open.iter().any(|open| matches!(open.name, names::TEMPLATE | names::FRAMESET))
                    {
                        self.ensure_body();
                    }
                }
                _ => {}
            }
            self.imply(name);
        }
        let is_foreign = match name {
            names::SVG | names::MATH => true,
            _ => is_in_foreign,
        };
        let is_void = if is_in_foreign { tag.self_closing } else { name.has(VOID) || (is_foreign && tag.self_closing) };
        if is_void {
            let node = self.next_node();
            self.sink.open(node, name, Some(tag), &self.names);
            self.sink.close(name, node + 1);
            return TextMode::Markup;
        }
        self.open_element(name, Some(tag), is_foreign);
        if is_foreign || !name.has(RAW) {
            return if name == names::PLAINTEXT { TextMode::PlainText } else { TextMode::Markup };
        }
        if !tag.is_cut
            && !matches!(name, names::TITLE | names::TEXTAREA)
            && let Some(start) = self.position(tag.attributes().remainder())
        {
            self.raw_start = Some(start + tag.attributes().remainder().len());
        }
        raw_text_mode(name)
    }

    fn end(&mut self, written: &[u8]) {
        if self.is_ended() {
            return;
        }
        if let Some(at) = self.position(written) {
            // The tag begins with `</`.
            let at = at.saturating_sub(2);
            if let Some(start) = self.raw_start.take() {
                self.text_range(start, at);
            } else {
                self.push_angles(at);
            }
        }
        let name = self.name_of(written);
        match name {
            // Content after the end tag still belongs to the body.
            names::BODY | names::HTML => return,
            names::HEAD_ELEMENT => {
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
                if !self.budget.spend(1) {
                    break;
                }
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
                if stops && !element.is_foreign {
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

    fn visible_text(&mut self, text: &[u8]) {
        if let Some(at) = self.position(text) {
            self.text_range(self.angle_start(at), at + text.len());
        }
    }

    fn cdata(&mut self, text: &[u8]) {
        if let Some(start) = self.position(text) {
            self.text_range(start, start + text.len());
        }
    }

    fn is_in_foreign(&self) -> bool {
        self.open.last().is_some_and(|element| {
            element.is_foreign && !matches!(element.name, names::TITLE) && !self.names.is(element.name, "foreignobject")
        })
    }
}

/// The mode of the text in a raw element.
fn raw_text_mode(name: Name) -> TextMode {
    match name {
        names::TITLE | names::TEXTAREA => TextMode::RcData,
        names::SCRIPT => TextMode::Script,
        _ => TextMode::RawText,
    }
}

/// Whether an element closes SVG and MathML, although it is not a block.
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
