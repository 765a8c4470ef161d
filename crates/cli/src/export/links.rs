//! The link graph, as CSV and as GraphML.

use std::io::Write;

use argiope_store::disk::{GraphRound, HistoryEvent, LinkGraph};

use super::Xml;
use super::csv::{Formulas, write_text};
use crate::records::{ReadError, StoredRecord};
use crate::results::Results;
use crate::sorted::Sorted;
use crate::ticker::Ticker;

/// Writes one CSV row per edge.
pub fn links(results: &Results, formulas: Formulas, out: &mut dyn Write) -> Result<(), ReadError> {
    let mut graph = results.graph(GraphRound::Latest)?;
    let mut has_anchors = false;
    graph.pages(|page| {
        has_anchors |= page.edges().any(|edge| edge.anchor.is_some());
        Ok::<(), ReadError>(())
    })?;
    out.write_all(if has_anchors {
        b"source,target,kind,nofollow,anchor\r\n"
    } else {
        b"source,target,kind,nofollow\r\n"
    })?;
    let mut ticker = Ticker::start();
    graph.pages(|page| {
        ticker.advance();
        for edge in page.edges() {
            write_text(out, formulas, page.source)?;
            out.write_all(b",")?;
            write_text(out, formulas, edge.target)?;
            write!(out, ",{},{}", edge.kind.as_str(), edge.nofollow)?;
            if has_anchors {
                out.write_all(b",")?;
                write_text(out, formulas, edge.anchor.unwrap_or_default())?;
            }
            out.write_all(b"\r\n")?;
        }
        Ok::<(), ReadError>(())
    })?;
    Ok(out.flush()?)
}

/// Writes GraphML: all nodes, each once, then the edges.
pub fn graphml(results: &Results, out: &mut dyn Write) -> Result<(), ReadError> {
    out.write_all(
        b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
          <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
          <key id=\"status\" for=\"node\" attr.name=\"status\" attr.type=\"int\"/>\n\
          <key id=\"depth\" for=\"node\" attr.name=\"depth\" attr.type=\"int\"/>\n\
          <key id=\"title\" for=\"node\" attr.name=\"title\" attr.type=\"string\"/>\n\
          <key id=\"kind\" for=\"edge\" attr.name=\"kind\" attr.type=\"string\"/>\n\
          <key id=\"nofollow\" for=\"edge\" attr.name=\"nofollow\" attr.type=\"boolean\"/>\n\
          <key id=\"anchor\" for=\"edge\" attr.name=\"anchor\" attr.type=\"string\"/>\n\
          <graph edgedefault=\"directed\">\n",
    )?;
    let mut graph = results.graph(GraphRound::Latest)?;
    write_nodes(results, &mut graph, out)?;
    let mut ticker = Ticker::start();
    graph.pages(|page| {
        ticker.advance();
        for edge in page.edges() {
            write!(out, "<edge source=\"{}\" target=\"{}\">", Xml(page.source), Xml(edge.target))?;
            write!(out, "<data key=\"kind\">{}</data>", edge.kind.as_str())?;
            if edge.nofollow {
                out.write_all(b"<data key=\"nofollow\">true</data>")?;
            }
            if let Some(text) = edge.anchor {
                write!(out, "<data key=\"anchor\">{}</data>", Xml(text))?;
            }
            out.write_all(b"</edge>\n")?;
        }
        Ok::<(), ReadError>(())
    })?;
    out.write_all(b"</graph>\n</graphml>\n")?;
    Ok(out.flush()?)
}

/// Writes every URL that is known or linked to, sorted, with the fields of its record.
///
/// Nodes are sorted as lines of a URL alone, or of URL, depth, status and title, separated by tabs. If a URL has several
/// lines, the last one with fields is used.
fn write_nodes(results: &Results, graph: &mut LinkGraph, out: &mut dyn Write) -> Result<(), ReadError> {
    let mut nodes = Sorted::default();
    let mut add_page = |record: &StoredRecord| {
        let status = record.status.map_or(String::new(), |status| status.to_string());
        let title = record.title.as_deref().unwrap_or_default();
        nodes.push(format!("{}\t{}\t{status}\t{title}", record.url, record.depth()).as_bytes())
    };
    results.latest_pages(|record| if record.is_plain_get() { Ok(add_page(record)?) } else { Ok(()) })?;
    results.walk(|event| match event {
        HistoryEvent::Link { url, .. } => Ok(nodes.push(url.as_bytes())?),
        _ => Ok(()),
    })?;
    graph.pages(|page| {
        nodes.push(page.source.as_bytes())?;
        page.edges().try_for_each(|edge| Ok::<(), ReadError>(nodes.push(edge.target.as_bytes())?))
    })?;
    let mut last = String::new();
    nodes.each(|line| {
        let line = String::from_utf8_lossy(line);
        if url_of(&line) != url_of(&last) {
            write_node(&last, out)?;
        }
        let has_fields = line.len() > url_of(&line).len();
        if url_of(&line) != url_of(&last) || has_fields {
            last = line.into_owned();
        }
        Ok::<_, ReadError>(())
    })?;
    write_node(&last, out)
}

/// The URL of a node line.
fn url_of(line: &str) -> &str {
    line.split('\t').next().unwrap_or_default()
}

/// Writes the node of a line, unless the line is empty.
fn write_node(line: &str, out: &mut dyn Write) -> Result<(), ReadError> {
    let mut fields = line.splitn(4, '\t');
    let Some(url) = fields.next().filter(|url| !url.is_empty()) else { return Ok(()) };
    write!(out, "<node id=\"{}\"", Xml(url))?;
    let data: Vec<(&str, &str)> =
        ["depth", "status", "title"].into_iter().zip(fields).filter(|(_, value)| !value.is_empty()).collect();
    if data.is_empty() {
        return Ok(out.write_all(b"/>\n")?);
    }
    out.write_all(b">")?;
    for (key, value) in data {
        write!(out, "<data key=\"{key}\">{}</data>", Xml(value))?;
    }
    Ok(out.write_all(b"</node>\n")?)
}
