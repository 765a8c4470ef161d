//! Writes the document of a page, as the browser has it, as HTML.
//!
//! The contents of shadow roots stand before the other children of their host, and the contents of a frame after its
//! element. Addresses in frames are made absolute. The work is linear in the document.

use serde::Deserialize;

use crate::base::url::Url;

/// The result of `DOMSnapshot.captureSnapshot`.
#[derive(Deserialize)]
pub(super) struct Snapshot {
    documents: Vec<SnapshotDocument>,
    strings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotDocument {
    #[serde(rename = "baseURL")]
    base_url: i64,
    #[serde(rename = "documentURL")]
    document_url: i64,
    nodes: Nodes,
}

/// The nodes of a document in document order, by columns. Strings are numbers in the table.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Nodes {
    parent_index: Vec<i64>,
    node_type: Vec<u8>,
    node_name: Vec<i64>,
    node_value: Vec<i64>,
    attributes: Vec<Vec<i64>>,
    content_document_index: Option<Sparse>,
    pseudo_type: Option<Sparse>,
}

#[derive(Deserialize)]
struct Sparse {
    index: Vec<usize>,
    #[serde(default)]
    value: Vec<i64>,
}

const ELEMENT: u8 = 1;
const TEXT: u8 = 3;
const DOCUMENT: u8 = 9;
const FRAGMENT: u8 = 11;
/// Frames in frames in frames: deeper ones are left out.
const MAX_FRAME_DEPTH: usize = 8;
const VOID: [&str; 14] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"];
const RAW_TEXT: [&str; 6] = ["script", "style", "xmp", "iframe", "noembed", "noframes"];
const ADDRESSES: [&str; 5] = ["href", "src", "action", "data", "poster"];

/// The document as HTML. `None` if the snapshot has none.
pub(super) fn to_html(snapshot: Snapshot) -> Option<String> {
    let writer = Writer { snapshot: &snapshot };
    let main = snapshot.documents.first()?;
    let size: usize = snapshot.strings.iter().map(String::len).sum();
    let mut html = String::with_capacity(size / 2);
    html.push_str("<!DOCTYPE html>");
    writer.document(main, 0, &mut html);
    Some(html)
}

/// A node whose children follow.
struct OpenNode {
    node: usize,
    /// In lower case. Empty if there is nothing to close.
    name: String,
    /// Whether it and its children are left out.
    is_hidden: bool,
}

struct Writer<'a> {
    snapshot: &'a Snapshot,
}

impl<'a> Writer<'a> {
    fn text(&self, index: i64) -> &'a str {
        usize::try_from(index).ok().and_then(|index| self.snapshot.strings.get(index)).map_or("", String::as_str)
    }

    fn document(&self, document: &SnapshotDocument, depth: usize, html: &mut String) {
        let nodes = &document.nodes;
        // The address that relative links of the document are joined to, if it is not the one of the page.
        let base = self.text(document.base_url);
        let is_own_base = depth == 0 && base == self.text(document.document_url);
        let base = if is_own_base { None } else { Url::parse(base).ok() };
        let mut frames = vec![None; nodes.node_type.len()];
        if let Some(Sparse { index, value }) = &nodes.content_document_index {
            for (node, frame) in index.iter().zip(value) {
                if let Some(place) = frames.get_mut(*node) {
                    *place = usize::try_from(*frame).ok().and_then(|frame| self.snapshot.documents.get(frame));
                }
            }
        }
        // The nodes that are open. Nodes come in document order, so the parent of each node is one of them.
        let mut open: Vec<OpenNode> = Vec::new();
        let mut pseudo = nodes.pseudo_type.iter().flat_map(|sparse| &sparse.index).copied().peekable();
        for (node, kind) in nodes.node_type.iter().copied().enumerate() {
            let parent = nodes.parent_index.get(node).and_then(|parent| usize::try_from(*parent).ok());
            while open.last().is_some_and(|last| Some(last.node) != parent) {
                open.pop().into_iter().for_each(|last| close(&last.name, html));
            }
            while pseudo.next_if(|index| *index < node).is_some() {}
            let is_pseudo = pseudo.peek() == Some(&node);
            let is_hidden = is_pseudo || open.last().is_some_and(|parent| parent.is_hidden);
            match kind {
                ELEMENT => {
                    let frame = frames.get(node).copied().flatten().filter(|_| depth < MAX_FRAME_DEPTH);
                    open.push(self.element(nodes, node, is_hidden, (depth, base.as_ref(), frame), html));
                }
                TEXT if !is_hidden => {
                    let value = self.text(nodes.node_value.get(node).copied().unwrap_or(-1));
                    match open.last().filter(|parent| RAW_TEXT.contains(&&*parent.name)) {
                        // Scripts can put a text there that would end the element.
                        Some(_) if value.contains("</") => {}
                        Some(_) => html.push_str(value),
                        None => escape(value, false, html),
                    }
                }
                DOCUMENT | FRAGMENT => open.push(OpenNode { node, name: String::new(), is_hidden }),
                _ => {}
            }
        }
        while let Some(last) = open.pop() {
            close(&last.name, html);
        }
    }

    /// Writes the start of an element. A frame is written as a whole.
    fn element(
        &self,
        nodes: &Nodes,
        node: usize,
        is_hidden: bool,
        (depth, base, frame): (usize, Option<&Url>, Option<&SnapshotDocument>),
        html: &mut String,
    ) -> OpenNode {
        let name = self.text(nodes.node_name.get(node).copied().unwrap_or(-1)).to_ascii_lowercase();
        // The content of `noscript` is for browsers without scripts, and that of a template is not in the document.
        let is_left_out = matches!(&*name, "noscript" | "template" | "base") || (depth > 0 && name == "title");
        let is_valid =
            !name.is_empty() && name.bytes().all(|byte| !byte.is_ascii_whitespace() && !b"<>\"'/=".contains(&byte));
        if is_hidden || is_left_out || !is_valid {
            return OpenNode { node, name: String::new(), is_hidden: true };
        }
        if depth > 0 && matches!(&*name, "html" | "head" | "body") {
            return OpenNode { node, name: String::new(), is_hidden: false };
        }
        html.push('<');
        html.push_str(&name);
        self.attributes(nodes.attributes.get(node).map_or(&[][..], Vec::as_slice), base, html);
        html.push('>');
        if let Some(frame) = frame {
            close(&name, html);
            html.push_str("<div>");
            self.document(frame, depth + 1, html);
            html.push_str("</div>");
        }
        let is_closed = frame.is_some() || VOID.contains(&&*name);
        OpenNode { node, name: if is_closed { String::new() } else { name }, is_hidden: false }
    }

    fn attributes(&self, list: &[i64], base: Option<&Url>, html: &mut String) {
        for pair in list.chunks_exact(2) {
            let [name, value] = [pair.first(), pair.get(1)].map(|index| self.text(index.copied().unwrap_or(-1)));
            if name.is_empty() || name.bytes().any(|byte| byte.is_ascii_whitespace() || b"\"'>/=".contains(&byte)) {
                continue;
            }
            html.push(' ');
            html.push_str(name);
            html.push_str("=\"");
            let absolute = base.filter(|_| ADDRESSES.contains(&name)).and_then(|base| base.join(value).ok());
            escape(absolute.as_ref().map_or(value, Url::as_str), true, html);
            html.push('"');
        }
    }
}

/// Ends an element. Void elements and nodes that are no elements have no name.
fn close(name: &str, html: &mut String) {
    if !name.is_empty() {
        html.push_str("</");
        html.push_str(name);
        html.push('>');
    }
}

fn escape(text: &str, in_attribute: bool, html: &mut String) {
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' if in_attribute => html.push_str("&quot;"),
            letter => html.push(letter),
        }
    }
}
