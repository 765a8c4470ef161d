//! [`Document`]: a page parsed into a tree of elements, in linear time and bounded memory.

use std::borrow::Cow;
use std::fmt::Write as _;

use argiope_core::base::url::{MAX_URL_LEN, Url};
use argiope_core::page::examine::{BaseUrl, TextContext, decode_character_references};
use argiope_core::page::page_budget::PageBudget;
use encoding_rs::{Encoding, UTF_8};

pub(crate) mod build;
pub(crate) mod names;
mod serialize;

pub use build::USED_UP;
use names::{CustomNames, Name};
pub(crate) use serialize::{breaks_words, is_hidden, push_collapsed};

/// The index of a node in document order.
pub(crate) type NodeId = u32;
/// Stands for a missing parent, child or sibling.
pub(crate) const NONE: NodeId = u32::MAX;
/// The name of text nodes.
pub(crate) const TEXT: Name = Name(u16::MAX);

/// Limits of parsing. Content beyond them is dropped, and [`Document::truncated`] returns the reason.
#[derive(Clone, Debug)]
pub struct ParseLimits {
    /// The maximum number of bytes of the page.
    pub max_bytes: usize,
    /// The maximum number of elements and text nodes.
    pub max_nodes: usize,
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self { max_bytes: 16 << 20, max_nodes: 500_000 }
    }
}

/// Name and value of an attribute, each as position and length in the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attribute {
    name: (u32, u16),
    value: (u32, u32),
}

/// An element or a piece of text. A subtree is the range from a node to its `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) parent: NodeId,
    /// The previous sibling.
    pub(crate) previous: NodeId,
    /// The next sibling.
    pub(crate) next: NodeId,
    last_child: NodeId,
    pub(crate) name: Name,
    /// The number of attributes.
    attributes: u16,
    /// Element: the index of its first attribute. Text: where it begins in the page.
    first: u32,
    /// Element: the node after its subtree. Text: where it ends in the page.
    end: u32,
}

impl Node {
    /// An element. `attributes` are the index of its first attribute and their number.
    fn element(name: Name, attributes: (u32, u16)) -> Self {
        Self {
            parent: NONE,
            previous: NONE,
            next: NONE,
            last_child: NONE,
            name,
            attributes: attributes.1,
            first: attributes.0,
            end: 0,
        }
    }

    fn text(start: u32, end: u32) -> Self {
        Self {
            parent: NONE,
            previous: NONE,
            next: NONE,
            last_child: NONE,
            name: TEXT,
            attributes: 0,
            first: start,
            end,
        }
    }
}

/// The nodes of a page in document order.
#[derive(Debug)]
struct Tree {
    nodes: Vec<Node>,
    attributes: Vec<Attribute>,
    names: CustomNames,
}

impl Tree {
    fn with_capacity(bytes: usize) -> Self {
        // A typical page has about one node per 40 bytes.
        let nodes = (bytes / 40).clamp(16, 16 * 1024);
        Self {
            nodes: Vec::with_capacity(nodes),
            attributes: Vec::with_capacity(nodes / 2),
            names: CustomNames::default(),
        }
    }

    /// Adds a node as the last child of `parent`. The first node, the root, has no parent.
    fn append(&mut self, parent: NodeId, mut node: Node) -> NodeId {
        let id = self.nodes.len() as NodeId;
        if id > 0
            && let Some(parent_node) = self.nodes.get_mut(parent as usize)
        {
            node.parent = parent;
            node.previous = parent_node.last_child;
            parent_node.last_child = id;
            let previous = node.previous;
            if let Some(previous) = self.nodes.get_mut(previous as usize) {
                previous.next = id;
            }
        }
        self.nodes.push(node);
        id
    }

    /// Ends the subtree of an element after the last node.
    fn close(&mut self, node: NodeId) {
        let end = self.nodes.len() as u32;
        if let Some(node) = self.nodes.get_mut(node as usize) {
            node.end = end;
        }
    }
}

/// A parsed HTML page.
///
/// Parsing takes one pass. Selectors, structured data, text and Markdown all read the same tree.
///
/// ```
/// use argiope_content::{Document, Selector};
///
/// let page = Document::parse("<h1>Orb <b>weavers</b></h1><p><a href=/more>More</a>")
///     .with_base("https://example.com/spiders/").unwrap();
/// let heading = page.first(&Selector::parse("h1").unwrap()).unwrap();
/// assert_eq!(heading.text(), "Orb weavers");
/// let link = page.first(&Selector::parse("p > a").unwrap()).unwrap();
/// assert_eq!(link.url("href").unwrap(), "https://example.com/more");
/// ```
#[derive(Debug)]
pub struct Document {
    html: Box<str>,
    tree: Tree,
    /// See [`Document::truncated`].
    truncated: Option<&'static str>,
    /// The URL against which references are resolved, if it is known.
    base: Option<Url>,
    encoding: &'static Encoding,
}

impl Document {
    /// Parses a page with the default limits.
    pub fn parse(html: impl Into<Box<str>>) -> Self {
        let html = html.into();
        let budget = PageBudget::for_page(html.len());
        Self::parse_within(html, &ParseLimits::default(), &budget)
    }

    /// Parses a page, up to `limits`, with a budget that other work on the page shares.
    pub fn parse_within(html: impl Into<Box<str>>, limits: &ParseLimits, budget: &PageBudget) -> Self {
        let html = html.into();
        let (tree, truncated) = build::build(&html, limits, budget);
        Self { html, tree, truncated, base: None, encoding: UTF_8 }
    }

    /// Sets the charset of the page, which is used for the queries of its references. The default is UTF-8. Must be
    /// called before [`Document::with_url`].
    pub fn with_charset(mut self, charset: Option<&str>) -> Self {
        self.encoding = encoding_of(charset);
        self
    }

    /// Sets the URL of the page, against which its references are resolved. A `base` element changes it.
    ///
    /// # Errors
    ///
    /// `address` is not an http or https URL.
    pub fn with_base(self, address: &str) -> Result<Self, argiope_core::base::url::BadUrl> {
        Ok(self.with_url(&Url::parse(address)?))
    }

    /// Like [`Document::with_base`], for a parsed URL.
    pub fn with_url(mut self, page: &Url) -> Self {
        let declared =
            self.elements().find(|element| element.name_id() == names::BASE && element.attribute("href").is_some());
        let charset = Some(self.encoding.name());
        let base = declared.and_then(|base| page.join_in_charset(base.attribute("href")?.trim(), charset).ok());
        self.base = Some(base.unwrap_or_else(|| page.clone()));
        self
    }

    /// Why the tree is incomplete; `None` if it contains the whole page.
    pub fn truncated(&self) -> Option<&'static str> {
        self.truncated
    }

    /// The `html` element.
    pub fn root(&self) -> Element<'_> {
        Element { document: self, node: 0 }
    }

    /// All elements in the order of the page, without the contents of `template`.
    pub fn elements(&self) -> impl Iterator<Item = Element<'_>> {
        std::iter::once(self.root()).chain(self.root().descendants())
    }

    /// The content of `title`, with white space collapsed.
    pub fn title(&self) -> Option<String> {
        // The end of the SVG images so far. Their titles are not that of the page.
        let mut image_end = 0;
        let title = self.elements().find(|element| {
            if element.name_id() == names::SVG {
                image_end = element.end().max(image_end);
            }
            element.name_id() == names::TITLE && element.node >= image_end
        })?;
        Some(title.text()).filter(|text| !text.is_empty())
    }

    /// Resolves a reference of the page. `None` unless the result is an http or https URL.
    pub fn resolve(&self, reference: &str) -> Option<Url> {
        self.base.as_ref()?.join_in_charset(reference.trim(), Some(self.encoding.name())).ok()
    }

    /// The number of bytes of the page.
    pub(crate) fn html_len(&self) -> usize {
        self.html.len()
    }

    /// The budget of one call that reads this page, where the caller has none.
    pub(crate) fn budget(&self) -> PageBudget {
        PageBudget::for_page(self.html.len())
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.tree.nodes.get(id as usize)
    }

    pub(crate) fn len(&self) -> usize {
        self.tree.nodes.len()
    }

    /// The element with this [`Element::index`]. A number that is not the index of an element gives an empty element.
    pub fn element(&self, id: u32) -> Element<'_> {
        Element { document: self, node: id }
    }

    /// The raw text of a text node, with its character references.
    pub(crate) fn raw_text(&self, node: &Node) -> &str {
        self.html.get(node.first as usize..node.end as usize).unwrap_or("")
    }

    /// The text of a text node.
    pub(crate) fn text_of(&self, node: &Node) -> Cow<'_, str> {
        decode_character_references(self.raw_text(node), TextContext::Text)
    }

    pub(crate) fn name_text(&self, name: Name) -> &str {
        self.tree.names.text(name)
    }
}

/// The encoding with this label; UTF-8 if there is none.
pub(crate) fn encoding_of(charset: Option<&str>) -> &'static Encoding {
    charset.and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(UTF_8)
}

/// The absolute URL of a reference in a page of this encoding, with its fragment. `None` unless it is http or https.
pub(crate) fn resolve_with(base: &BaseUrl, reference: &str, encoding: &'static Encoding) -> Option<String> {
    let reference = reference.trim();
    let mut out = String::new();
    if reference.len() > MAX_URL_LEN || base.resolve(reference, encoding, &mut out).is_err() {
        return None;
    }
    if let Some((_, fragment)) = reference.split_once('#') {
        push_fragment(&mut out, fragment);
    }
    Some(out)
}

/// Appends a fragment, percent-encoded as in the URL standard. The core does not do this, because it drops fragments.
fn push_fragment(out: &mut String, fragment: &str) {
    out.push('#');
    for byte in fragment.bytes() {
        match byte {
            b'\t' | b'\n' | b'\r' => {}
            b'"' | b'<' | b'>' | b'`' | ..=b' ' | 0x7F.. => {
                let _ = write!(out, "%{byte:02X}");
            }
            _ => out.push(char::from(byte)),
        }
    }
}

/// An element of a [`Document`].
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    pub(crate) document: &'a Document,
    pub(crate) node: NodeId,
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node && std::ptr::eq(self.document, other.document)
    }
}

impl<'a> Element<'a> {
    /// A number that stands for the element in its document: see [`Document::element`].
    pub fn index(&self) -> u32 {
        self.node
    }

    /// The name in lower case.
    pub fn name(&self) -> &'a str {
        self.document.name_text(self.name_id())
    }

    /// The name as a number.
    pub(crate) fn name_id(&self) -> Name {
        self.document.node(self.node).map_or(TEXT, |node| node.name)
    }

    /// The attributes, as positions in the page.
    fn raw_attributes(&self) -> &'a [Attribute] {
        let Some(node) = self.document.node(self.node) else { return &[] };
        let first = node.first as usize;
        self.document.tree.attributes.get(first..first + usize::from(node.attributes)).unwrap_or(&[])
    }

    /// The bytes of the attributes, or of the text of a text node.
    pub(crate) fn source_len(&self) -> usize {
        let length = |attribute: &Attribute| usize::from(attribute.name.1) + attribute.value.1 as usize;
        match self.document.node(self.node) {
            Some(node) if node.name == TEXT => self.document.raw_text(node).len(),
            _ => self.raw_attributes().iter().map(length).sum(),
        }
    }

    /// A part of the page by position and length.
    fn slice(&self, (start, length): (u32, u32)) -> &'a str {
        let start = start as usize;
        self.document.html.get(start..start.saturating_add(length as usize)).unwrap_or("")
    }

    /// The value of an attribute as it is written, with its character references.
    pub(crate) fn raw_attribute(&self, name: &str) -> Option<&'a str> {
        let found = self.raw_attributes().iter().find(|attribute| {
            usize::from(attribute.name.1) == name.len()
                && self.slice((attribute.name.0, attribute.name.1.into())).eq_ignore_ascii_case(name)
        })?;
        Some(self.slice(found.value))
    }

    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        self.raw_attribute(name).map(|value| decode_character_references(value, TextContext::Attribute))
    }

    /// Names (as written) and values of all attributes.
    pub fn attributes(&self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> {
        let element = *self;
        self.raw_attributes().iter().map(move |attribute| {
            let name = element.slice((attribute.name.0, attribute.name.1.into()));
            (name, decode_character_references(element.slice(attribute.value), TextContext::Attribute))
        })
    }

    /// The absolute URL of an attribute, resolved against the page, with its fragment. `None` if the attribute is missing
    /// or the URL is neither http nor https.
    pub fn url(&self, name: &str) -> Option<String> {
        let value = self.attribute(name)?;
        resolve_with(&BaseUrl::new(self.document.base.as_ref()?), &value, self.document.encoding)
    }

    /// The visible text: white space is collapsed, blocks are separated by a space, scripts and styles are omitted.
    pub fn text(&self) -> String {
        serialize::text(*self, usize::MAX, &PageBudget::unlimited())
    }

    /// The first `max_bytes` of the visible text, or a few more. Shorter if the budget is used up.
    pub(crate) fn text_within(&self, max_bytes: usize, budget: &PageBudget) -> String {
        serialize::text(*self, max_bytes, budget)
    }

    /// All text in the element as it is in the page: white space is kept, and so are scripts and styles.
    pub fn text_content(&self) -> String {
        let nodes = (self.node + 1..self.end()).filter_map(|id| self.document.node(id));
        nodes.filter(|node| node.name == TEXT).map(|node| self.document.text_of(node)).collect()
    }

    /// The element as HTML.
    pub fn html(&self) -> String {
        serialize::html(*self, usize::MAX, &PageBudget::unlimited())
    }

    /// The first `max_bytes` of the HTML, or some more. Shorter if the budget is used up.
    pub(crate) fn html_within(&self, max_bytes: usize, budget: &PageBudget) -> String {
        serialize::html(*self, max_bytes, budget)
    }

    /// The text as it is in the page, for raw elements such as `script`.
    pub(crate) fn raw(&self) -> Cow<'a, str> {
        let mut pieces = self.children_nodes().filter_map(|id| self.document.node(id));
        match (pieces.next(), pieces.next()) {
            (Some(only), None) if only.name == TEXT => Cow::Borrowed(self.document.raw_text(only)),
            _ => Cow::Borrowed(""),
        }
    }

    /// The parent element.
    pub fn parent(&self) -> Option<Element<'a>> {
        let parent = self.document.node(self.node)?.parent;
        (parent != NONE).then_some(Element { document: self.document, node: parent })
    }

    /// The child elements.
    pub fn children(&self) -> impl Iterator<Item = Element<'a>> + use<'a> {
        let document = self.document;
        self.children_nodes().map(move |node| Element { document, node }).filter(|element| element.name_id() != TEXT)
    }

    pub(crate) fn children_nodes(&self) -> impl Iterator<Item = NodeId> + use<'a> {
        let document = self.document;
        let first = self.node + 1;
        let has_child = document.node(first).is_some_and(|node| node.parent == self.node);
        std::iter::successors(has_child.then_some(first), move |&id| {
            let next = document.node(id)?.next;
            (next != NONE).then_some(next)
        })
    }

    /// The node after the subtree.
    pub(crate) fn end(&self) -> NodeId {
        self.document.node(self.node).map_or(0, |node| node.end)
    }

    /// All descendants in document order, without the contents of `template`.
    pub fn descendants(&self) -> impl Iterator<Item = Element<'a>> + use<'a> {
        let document = self.document;
        let mut next = self.node + 1;
        let end = self.end();
        std::iter::from_fn(move || {
            while next < end {
                let id = next;
                let node = document.node(id)?;
                next += 1;
                if node.name == TEXT {
                    continue;
                }
                if node.name == names::TEMPLATE {
                    next = node.end.max(next);
                }
                return Some(Element { document, node: id });
            }
            None
        })
    }
}
