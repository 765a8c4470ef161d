//! The link graph, as CSV and as GraphML.
//!
//! If the crawl kept all links of its pages (`--with links`), these are the edges. Otherwise the log contains, for each URL,
//! only the page on which it was first found: then the edges form a tree from the roots. Redirects are edges in both
//! cases.

use std::io::{self, Write};
use std::path::Path;

use argiope_core::LinkKind;
use argiope_store::disk::HistoryEvent;

use super::Xml;
use super::csv::write_text;
use super::sorted::Sorted;
use crate::records::{self, ReadError, StoredRecord};

struct Edge<'a> {
    from: &'a str,
    to: &'a str,
    kind: LinkKind,
    nofollow: bool,
}

/// One row per edge.
pub fn links(directory: &Path, out: &mut dyn Write) -> Result<(), ReadError> {
    out.write_all(b"source,target,kind,nofollow\r\n")?;
    edges(directory, |edge| {
        write_text(out, edge.from)?;
        out.write_all(b",")?;
        write_text(out, edge.to)?;
        write!(out, ",{},{}\r\n", edge.kind.as_str(), edge.nofollow)
    })?;
    Ok(out.flush()?)
}

/// GraphML: all nodes, each once, then the edges.
pub fn graphml(directory: &Path, out: &mut dyn Write) -> Result<(), ReadError> {
    out.write_all(
        b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
          <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
          <key id=\"kind\" for=\"edge\" attr.name=\"kind\" attr.type=\"string\"/>\n\
          <key id=\"nofollow\" for=\"edge\" attr.name=\"nofollow\" attr.type=\"boolean\"/>\n\
          <graph edgedefault=\"directed\">\n",
    )?;
    let mut nodes = Sorted::default();
    records::walk(directory, |event| match event {
        HistoryEvent::Link { url, .. } => Ok(nodes.push(url.as_bytes())?),
        _ => Ok(()),
    })?;
    edges(directory, |edge| {
        nodes.push(edge.from.as_bytes())?;
        nodes.push(edge.to.as_bytes())
    })?;
    let mut last: Option<Vec<u8>> = None;
    nodes.each(|node| {
        if last.as_deref() != Some(node) {
            writeln!(out, "<node id=\"{}\"/>", Xml(&String::from_utf8_lossy(node)))?;
            last = Some(node.to_vec());
        }
        Ok::<_, ReadError>(())
    })?;
    edges(directory, |edge| {
        write!(out, "<edge source=\"{}\" target=\"{}\">", Xml(edge.from), Xml(edge.to))?;
        write!(out, "<data key=\"kind\">{}</data>", edge.kind.as_str())?;
        if edge.nofollow {
            out.write_all(b"<data key=\"nofollow\">true</data>")?;
        }
        out.write_all(b"</edge>\n")
    })?;
    out.write_all(b"</graph>\n</graphml>\n")?;
    Ok(out.flush()?)
}

/// A newly found link, held until the record of its page shows whether all links of that page are known.
struct Found {
    from: String,
    to: String,
    kind: LinkKind,
}

/// Calls `each` with every edge. The log contains a page's new links before its record, so only one page's links are held.
fn edges(directory: &Path, mut each: impl FnMut(Edge<'_>) -> io::Result<()>) -> Result<(), ReadError> {
    let mut found: Vec<Found> = Vec::new();
    records::walk(directory, |event| {
        match event {
            HistoryEvent::Link { url, via: Some(via), kind, again: false, .. } => {
                found.push(Found { from: via.to_owned(), to: url.to_owned(), kind });
            }
            HistoryEvent::Link { .. } | HistoryEvent::Note { .. } | HistoryEvent::Round => {}
            HistoryEvent::Fate { line, .. } | HistoryEvent::Line { line } => {
                let line = StoredRecord::read(line)?;
                let all_known = line.link_list.is_some();
                for link in found.drain(..).filter(|link| !(all_known && link.from == line.url)) {
                    // Redirects come from the record, whether their target was new or not.
                    if link.kind != LinkKind::Redirect {
                        each(Edge { from: &link.from, to: &link.to, kind: link.kind, nofollow: false })?;
                    }
                }
                for link in line.link_list.iter().flatten() {
                    each(Edge { from: &line.url, to: &link.url, kind: link.kind, nofollow: link.nofollow })?;
                }
                if let Some(to) = &line.redirect {
                    each(Edge { from: &line.url, to, kind: LinkKind::Redirect, nofollow: false })?;
                }
            }
        }
        Ok(())
    })?;
    Ok(())
}
