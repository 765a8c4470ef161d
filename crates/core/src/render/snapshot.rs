//! Writes the document of a page, as the browser has it, as HTML.
//!
//! The contents of shadow roots stand before the other children of their host, and the contents of a frame after its
//! element. Addresses in frames are made absolute. The work is linear in the document, and the HTML has a limit: escapes
//! would make it several times as long as the document.

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

/// A document as HTML.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Html {
    pub(super) text: String,
    /// Whether its end is missing, because it is longer than allowed.
    pub(super) is_cut: bool,
}

/// The document as HTML of about `limit` bytes at most. `None` if the snapshot has no document.
pub(super) fn to_html(snapshot: Snapshot, limit: usize) -> Option<Html> {
    let writer = Writer { snapshot: &snapshot, limit };
    let main = snapshot.documents.first()?;
    let size: usize = snapshot.strings.iter().map(String::len).sum();
    let mut text = String::with_capacity((size / 2).min(limit));
    text.push_str("<!DOCTYPE html>");
    writer.document(main, 0, &mut text);
    let is_cut = text.len() >= limit;
    Some(Html { text, is_cut })
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
    /// Nothing but ends of elements is added to HTML of this length.
    limit: usize,
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
            if html.len() >= self.limit {
                break;
            }
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
                        Some(parent) if ends_element(value, &parent.name) => {}
                        Some(_) => html.push_str(prefix(value, self.limit - html.len())),
                        None => escape(value, false, self.limit, html),
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
            escape(absolute.as_ref().map_or(value, Url::as_str), true, self.limit, html);
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

/// Whether this text in an element whose content is not escaped would end it: with its end tag, or by hiding that from
/// the parser.
fn ends_element(text: &str, name: &str) -> bool {
    let is_name = |rest: &str| rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let has = |opening: &str| {
        text.match_indices(opening).any(|(at, _)| is_name(text.get(at + opening.len()..).unwrap_or("")))
    };
    has("</") || (name == "script" && text.contains("<!--") && has("<"))
}

/// The beginning of a text: `limit` bytes, or a little more.
fn prefix(text: &str, limit: usize) -> &str {
    text.get(..text.ceil_char_boundary(limit)).unwrap_or(text)
}

fn escape(text: &str, in_attribute: bool, limit: usize, html: &mut String) {
    for letter in text.chars() {
        if html.len() >= limit {
            return;
        }
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' if in_attribute => html.push_str("&quot;"),
            letter => html.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document whose body has one element with one text.
    fn document(element: &str, text: &str) -> Snapshot {
        let snapshot = serde_json::json!({
            "documents": [{
                "baseURL": -1, "documentURL": -1,
                "nodes": {
                    "parentIndex": [-1, 0, 1], "nodeType": [9, 1, 3], "nodeName": [0, 1, 2],
                    "nodeValue": [-1, -1, 3], "attributes": [[], [], []],
                },
            }],
            "strings": ["#document", element, "#text", text],
        });
        serde_json::from_value(snapshot).expect("a snapshot")
    }

    fn html(element: &str, text: &str, limit: usize) -> Html {
        to_html(document(element, text), limit).expect("a document")
    }

    #[test]
    fn a_text_that_would_end_its_element_is_left_out_and_others_with_end_tags_are_not() {
        for (element, text, is_kept) in [
            ("SCRIPT", r#"{"articleBody":"<p>Hi</p>"}"#, true),
            ("SCRIPT", "x = '</div>'", true),
            ("SCRIPT", "x = '</sCript >'", false),
            ("SCRIPT", "<!-- x --> 1 < 2", true),
            ("SCRIPT", "<!-- <script", false),
            ("STYLE", "a::after { content: '</script>' }", true),
            ("STYLE", "</style><script>", false),
        ] {
            let name = element.to_lowercase();
            let kept = if is_kept { text } else { "" };
            let expected = format!("<!DOCTYPE html><{name}>{kept}</{name}>");
            assert_eq!(html(element, text, 10_000), Html { text: expected, is_cut: false }, "{text}");
        }
    }

    #[test]
    fn the_html_of_a_large_document_ends_at_its_limit() {
        for element in ["P", "SCRIPT"] {
            let cut = html(element, &"&".repeat(100_000), 1_000);
            assert!(cut.is_cut && cut.text.len() < 1_050, "{element}: {} bytes", cut.text.len());
        }
        let whole = html("P", &"&".repeat(100), 1_000);
        assert!(!whole.is_cut && whole.text.len() > 500);
    }
}
