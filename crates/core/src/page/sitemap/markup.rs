//! The XML formats: which elements are entries, and what their children mean.
//!
//! Invariant: elements are identified by local name (namespaces are often wrong) and position: a `loc` inside an image
//! of an entry is not the entry's.

use quick_xml::Reader;
use quick_xml::errors::{Error, SyntaxError};
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::{Draft, Fault, Found, SitemapFormat, date};

/// Limits that legitimate documents do not reach.
const MAX_DEPTH: usize = 64;
const MAX_NAME: usize = 256;
/// Limit on the length of a value; URLs and dates are shorter.
const MAX_VALUE: usize = 16 << 10;
/// Attributes of one tag that are examined.
const MAX_ATTRIBUTES: usize = 32;

/// The parser state of an XML document.
#[derive(Default)]
pub(super) struct Markup {
    /// The names of the open elements, concatenated, and the start of each.
    names: String,
    starts: Vec<usize>,
    /// The open entry and its depth.
    entry: Option<(usize, Draft)>,
    /// The field that the following text belongs to, and the depth of its element.
    field: Option<(usize, Field)>,
    value: String,
    /// The value is too long, or contains an entity that is not expanded.
    spoiled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Loc,
    Guid,
    Lastmod,
    Priority,
    Changefreq,
    /// The date of the whole feed.
    FeedDate,
}

impl Markup {
    /// Parses the complete part and returns its length. With `last`, an incomplete rest is a fault.
    pub(super) fn read(&mut self, text: &str, last: bool, found: &mut Found) -> Result<usize, Fault> {
        // Text before a `<` is complete; an incomplete tag is recognised as such.
        let end = if last { text.len() } else { memchr::memrchr(b'<', text.as_bytes()).unwrap_or(0) };
        let mut reader = Reader::from_str(text.get(..end).unwrap_or(""));
        let config = reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        let used = loop {
            let before = usize::try_from(reader.buffer_position()).unwrap_or(end);
            match reader.read_event() {
                Ok(Event::Eof) => break end,
                Ok(event) => self.event(event, found)?,
                Err(Error::Syntax(error)) if is_unfinished(&error) => break before,
                Err(error) => {
                    self.flush(found)?;
                    return Err(Fault(format!("broken XML: {error}")));
                }
            }
        };
        if last {
            self.end(text.get(used..).unwrap_or(""), found)?;
        }
        Ok(used)
    }

    /// Handles the rest of the text at the end of the document.
    fn end(&mut self, rest: &str, found: &mut Found) -> Result<(), Fault> {
        if self.starts.is_empty() && rest.trim().is_empty() {
            return Ok(());
        }
        // A value is complete if its end tag has begun.
        if let (Some((_, field)), Some((value, _))) = (self.field, rest.split_once('<')) {
            self.text(value);
            self.field = None;
            self.close_field(field, found)?;
        }
        self.flush(found)?;
        Err(Fault("the XML ends in the middle".to_owned()))
    }

    fn event(&mut self, event: Event<'_>, found: &mut Found) -> Result<(), Fault> {
        match event {
            Event::Start(tag) => self.open(&tag, found),
            Event::Empty(tag) => {
                self.open(&tag, found)?;
                self.close(tag.name().as_ref(), found)
            }
            Event::End(tag) => self.close(tag.name().as_ref(), found),
            Event::Text(text) => {
                self.text(&text);
                Ok(())
            }
            Event::CData(text) => {
                self.text(&text);
                Ok(())
            }
            Event::GeneralRef(reference) => {
                self.reference(&reference, found);
                Ok(())
            }
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) | Event::DocType(_) | Event::Eof => Ok(()),
        }
    }

    fn open(&mut self, tag: &BytesStart<'_>, found: &mut Found) -> Result<(), Fault> {
        let depth = self.starts.len();
        let name = tag.name();
        if depth >= MAX_DEPTH || name.as_ref().len() > MAX_NAME {
            self.flush(found)?;
            return Err(Fault(format!("elements nested more than {MAX_DEPTH} deep, or with endless names")));
        }
        self.starts.push(self.names.len());
        self.names.push_str(name.as_ref());
        if self.field.is_some() {
            return Ok(()); // markup inside a value: only its text counts
        }
        let local = name.local_name().into_inner().to_ascii_lowercase();
        match (found.sitemap.format, &self.entry) {
            (None, _) => self.root(&local, found)?,
            (Some(format), None) if is_entry(format, &local) => self.entry = Some((depth, Draft::default())),
            (Some(SitemapFormat::Rss), None) if local == "pubdate" => self.field = Some((depth, Field::FeedDate)),
            (Some(SitemapFormat::Atom), None) if local == "updated" => self.field = Some((depth, Field::FeedDate)),
            (Some(format), Some((at, _))) if depth == at + 1 => self.child(format, &local, tag, found)?,
            _ => {}
        }
        if self.field.is_some() {
            self.value.clear();
            self.spoiled = false;
        }
        Ok(())
    }

    /// Detects the format by the name of the root element.
    fn root(&mut self, local: &str, found: &mut Found) -> Result<(), Fault> {
        found.sitemap.format = Some(match local {
            "urlset" => SitemapFormat::UrlSet,
            "sitemapindex" if found.bounds.index => SitemapFormat::Index,
            "sitemapindex" => {
                found.sitemap.limited = true;
                return Err(Fault("an index inside an index is not followed".to_owned()));
            }
            "rss" | "rdf" => SitemapFormat::Rss,
            "feed" => SitemapFormat::Atom,
            _ => return Err(Fault(format!("the element {:?} begins no sitemap", local.get(..40).unwrap_or(local)))),
        });
        Ok(())
    }

    /// Handles the start of a child element of an entry.
    fn child(
        &mut self,
        format: SitemapFormat,
        local: &str,
        tag: &BytesStart<'_>,
        found: &mut Found,
    ) -> Result<(), Fault> {
        let depth = self.starts.len() - 1;
        let field = match (format, local) {
            (SitemapFormat::UrlSet | SitemapFormat::Index, "loc") => Field::Loc,
            (SitemapFormat::UrlSet | SitemapFormat::Index, "lastmod") => Field::Lastmod,
            (SitemapFormat::UrlSet, "priority") => Field::Priority,
            (SitemapFormat::UrlSet, "changefreq") => Field::Changefreq,
            (SitemapFormat::Rss, "link") => Field::Loc,
            (SitemapFormat::Rss, "guid") => Field::Guid,
            (SitemapFormat::Rss, "pubdate" | "date") | (SitemapFormat::Atom, "updated") => Field::Lastmod,
            (SitemapFormat::Atom, "link") => {
                self.atom_link(tag);
                return Ok(());
            }
            _ => return Ok(()),
        };
        // A second URL: the end tag of the first entry is missing.
        let full = matches!(&self.entry, Some((_, draft)) if draft.loc.is_some());
        if field == Field::Loc && full && format != SitemapFormat::Rss {
            let at = self.entry.as_ref().map_or(0, |(at, _)| *at);
            self.flush(found)?;
            self.entry = Some((at, Draft::default()));
        }
        self.field = Some((depth, field));
        Ok(())
    }

    /// The first link of an entry that is its page, not its edit form or attachment.
    fn atom_link(&mut self, tag: &BytesStart<'_>) {
        let Some((_, draft)) = &mut self.entry else { return };
        let mut href = None;
        let mut is_page = true;
        for attribute in tag.attributes().with_checks(false).take(MAX_ATTRIBUTES).flatten() {
            let Ok(value) = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0) else { continue };
            match attribute.key.as_ref() {
                "href" => href = Some(value.into_owned()),
                "rel" => is_page = value == "alternate",
                _ => {}
            }
        }
        if is_page && draft.loc.is_none() {
            draft.loc = href;
        }
    }

    fn text(&mut self, text: &str) {
        let inside = self.field.is_some() || matches!(&self.entry, Some((at, _)) if self.starts.len() == at + 1);
        if inside && self.value.len() + text.len() <= MAX_VALUE {
            self.value.push_str(text);
        } else if inside {
            self.spoiled = true;
        }
    }

    /// Expands predefined entities. A value with any other entity is dropped.
    fn reference(&mut self, reference: &BytesRef<'_>, found: &mut Found) {
        match reference.resolve_char_ref() {
            Ok(Some(char)) => self.text(char.encode_utf8(&mut [0; 4])),
            _ => match resolve_xml_entity(reference) {
                Some(text) => self.text(text),
                None => {
                    self.spoiled = true;
                    let name: String = reference.chars().take(40).collect();
                    // Expanding entities that a document declares itself would allow expansion bombs.
                    found.sitemap.limited |= found.sitemap.fault.is_none();
                    found.fault(format!("the entity {name:?} is not one of XML's own, and is not expanded"));
                }
            },
        }
    }

    fn close(&mut self, name: &str, found: &mut Found) -> Result<(), Fault> {
        let start = self.starts.pop();
        let open = start.and_then(|start| self.names.get(start..)).unwrap_or("");
        if open != name.trim_end() || start.is_none() {
            self.flush(found)?;
            return Err(Fault("broken XML: an end tag without its start".to_owned()));
        }
        self.names.truncate(start.unwrap_or(0));
        let depth = self.starts.len();
        if let Some((at, field)) = self.field
            && at == depth
        {
            self.field = None;
            self.close_field(field, found)?;
        }
        if matches!(&self.entry, Some((at, _)) if *at == depth) {
            self.flush(found)?;
        }
        Ok(())
    }

    fn close_field(&mut self, field: Field, found: &mut Found) -> Result<(), Fault> {
        let value = std::mem::take(&mut self.value);
        if std::mem::take(&mut self.spoiled) || super::trim(&value).is_empty() {
            return Ok(());
        }
        if field == Field::FeedDate {
            found.sitemap.lastmod = found.sitemap.lastmod.or_else(|| date::parse(&value));
        } else if let Some((_, draft)) = &mut self.entry {
            let slot = match field {
                Field::Loc | Field::Guid => &mut draft.loc,
                Field::Priority => &mut draft.priority,
                Field::Changefreq => &mut draft.changefreq,
                Field::Lastmod | Field::FeedDate => &mut draft.lastmod,
            };
            // A feed's link takes precedence over its guid, which is only sometimes a URL.
            if field != Field::Guid || slot.is_none() {
                *slot = Some(value);
            }
        }
        Ok(())
    }

    /// Ends the entry.
    fn flush(&mut self, found: &mut Found) -> Result<(), Fault> {
        let Some((_, mut draft)) = self.entry.take() else { return Ok(()) };
        if self.field.take().is_some() {
            self.value.clear(); // cut in the middle: half a URL is another URL
        }
        let direct = std::mem::take(&mut self.value);
        if draft.loc.is_none() && !std::mem::take(&mut self.spoiled) && !super::trim(&direct).is_empty() {
            draft.loc = Some(direct); // the `loc` element is missing
        }
        match found.sitemap.format {
            Some(SitemapFormat::Index) => found.child(&draft),
            Some(format) => found.page(draft, format == SitemapFormat::Atom),
            None => Ok(()),
        }
    }
}

fn is_entry(format: SitemapFormat, local: &str) -> bool {
    match format {
        SitemapFormat::UrlSet => local == "url",
        SitemapFormat::Index => local == "sitemap",
        SitemapFormat::Rss => local == "item",
        SitemapFormat::Atom => local == "entry",
        SitemapFormat::Text => false,
    }
}

/// True if more input may complete the markup.
fn is_unfinished(error: &SyntaxError) -> bool {
    !matches!(error, SyntaxError::InvalidBangMarkup)
}
