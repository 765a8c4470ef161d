//! The XML formats: which elements are entries, and what their children mean.
//!
//! Invariant: elements are identified by their local name, because namespaces are often wrong, and by their position: a
//! `loc` inside an image of an entry is not the URL of the entry.

use quick_xml::Reader;
use quick_xml::errors::{Error, SyntaxError};
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::{AllowRelative, Draft, EntryCollector, Fault, SitemapFormat, date};

/// Limit on the nesting of elements. Legitimate documents do not reach it.
const MAX_DEPTH: usize = 64;
/// Limit on the length of an element's name. Legitimate documents do not reach it.
const MAX_NAME: usize = 256;
/// Limit on the length of a value; URLs and dates are shorter.
const MAX_VALUE: usize = 16 << 10;
/// Attributes of one tag that are examined.
const MAX_ATTRIBUTES: usize = 32;
/// Longer names of elements and entities are cut in messages.
const MAX_SHOWN_NAME: usize = 40;

/// The parser state of an XML document.
#[derive(Default)]
pub(super) struct Markup {
    /// The names of the open elements, concatenated.
    names: String,
    /// The start of each open element's name.
    starts: Vec<usize>,
    /// The depth of the open entry, and what was read of it.
    entry: Option<(usize, Draft)>,
    /// The depth of the element whose text is read, and the field that it contains.
    field: Option<(usize, Field)>,
    /// The text of the open field so far. If no field is open, the text directly in the entry.
    value: String,
    /// Whether the value is too long, or contains an entity that is not expanded.
    is_value_unusable: bool,
}

/// A field of an entry or of a feed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Loc,
    /// The identifier of a feed item, which is often its URL.
    Guid,
    Lastmod,
    Priority,
    Changefreq,
    /// The date of the whole feed.
    FeedDate,
}

impl Markup {
    /// Parses the complete tags and texts, and returns their length. With `is_last`, an incomplete rest is a fault.
    pub(super) fn read(&mut self, text: &str, is_last: bool, collector: &mut EntryCollector) -> Result<usize, Fault> {
        // Text is complete only if a `<` follows. The reader detects an incomplete tag itself.
        let end = if is_last { text.len() } else { memchr::memrchr(b'<', text.as_bytes()).unwrap_or(0) };
        let mut reader = Reader::from_str(text.get(..end).unwrap_or(""));
        // The reader sees only a part of the document, so `close` matches end tags. Many URLs contain a bare ampersand.
        let config = reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        let used = loop {
            let event_start = usize::try_from(reader.buffer_position()).unwrap_or(end);
            match reader.read_event() {
                Ok(Event::Eof) => break end,
                Ok(event) => self.handle_event(event, collector)?,
                Err(Error::Syntax(error)) if is_incomplete(&error) => break event_start,
                Err(error) => {
                    self.finish_entry(collector)?;
                    return Err(Fault(format!("broken XML: {error}")));
                }
            }
        };
        if is_last {
            self.finish_document(text.get(used..).unwrap_or(""), collector)?;
        }
        Ok(used)
    }

    /// Handles the end of the document, where `rest` is incomplete markup. Open elements or a rest are a fault.
    fn finish_document(&mut self, rest: &str, collector: &mut EntryCollector) -> Result<(), Fault> {
        if self.starts.is_empty() && rest.trim().is_empty() {
            return Ok(());
        }
        // A value is complete if its end tag has begun.
        if let (Some((_, field)), Some((value, _))) = (self.field, rest.split_once('<')) {
            self.add_text(value);
            self.field = None;
            self.close_field(field, collector)?;
        }
        self.finish_entry(collector)?;
        Err(Fault("the XML is incomplete".to_owned()))
    }

    fn handle_event(&mut self, event: Event<'_>, collector: &mut EntryCollector) -> Result<(), Fault> {
        match event {
            Event::Start(tag) => self.open(&tag, collector),
            Event::Empty(tag) => {
                self.open(&tag, collector)?;
                self.close(tag.name().as_ref(), collector)
            }
            Event::End(tag) => self.close(tag.name().as_ref(), collector),
            Event::Text(text) => {
                self.add_text(&text);
                Ok(())
            }
            Event::CData(text) => {
                self.add_text(&text);
                Ok(())
            }
            Event::GeneralRef(reference) => {
                self.add_reference(&reference, collector);
                Ok(())
            }
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) | Event::DocType(_) | Event::Eof => Ok(()),
        }
    }

    fn open(&mut self, tag: &BytesStart<'_>, collector: &mut EntryCollector) -> Result<(), Fault> {
        let depth = self.starts.len();
        let name = tag.name();
        if depth >= MAX_DEPTH || name.as_ref().len() > MAX_NAME {
            self.finish_entry(collector)?;
            return Err(Fault(format!("elements nested more than {MAX_DEPTH} deep, or with very long names")));
        }
        self.starts.push(self.names.len());
        self.names.push_str(name.as_ref());
        if self.field.is_some() {
            return Ok(()); // markup inside a value: only its text counts
        }
        let local = name.local_name().into_inner().to_ascii_lowercase();
        match (collector.sitemap.format, &self.entry) {
            (None, _) => self.open_root(&local, collector)?,
            (Some(format), None) if is_entry(format, &local) => self.entry = Some((depth, Draft::default())),
            (Some(SitemapFormat::Rss), None) if local == "pubdate" => self.field = Some((depth, Field::FeedDate)),
            (Some(SitemapFormat::Atom), None) if local == "updated" => self.field = Some((depth, Field::FeedDate)),
            (Some(format), Some((entry_depth, _))) if depth == entry_depth + 1 => {
                self.open_child(format, &local, tag, collector)?;
            }
            _ => {}
        }
        if self.field.is_some() {
            self.value.clear();
            self.is_value_unusable = false;
        }
        Ok(())
    }

    /// Detects the format by the name of the root element.
    fn open_root(&mut self, local: &str, collector: &mut EntryCollector) -> Result<(), Fault> {
        collector.sitemap.format = Some(match local {
            "urlset" => SitemapFormat::UrlSet,
            "sitemapindex" if collector.bounds.allows_index => SitemapFormat::Index,
            "sitemapindex" => {
                collector.sitemap.limited = true;
                return Err(Fault("the index is nested too deep: the sitemaps that it lists are not read".to_owned()));
            }
            "rss" | "rdf" => SitemapFormat::Rss,
            "feed" => SitemapFormat::Atom,
            _ => {
                let name = local.get(..MAX_SHOWN_NAME).unwrap_or(local);
                return Err(Fault(format!("a sitemap does not start with the element {name:?}")));
            }
        });
        Ok(())
    }

    /// Handles the start of a child element of an entry.
    fn open_child(
        &mut self,
        format: SitemapFormat,
        local: &str,
        tag: &BytesStart<'_>,
        collector: &mut EntryCollector,
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
        // If the entry already has a URL, its end tag is missing, and a new entry starts here. This does not hold in
        // RSS, where a guid before the link gives the entry a URL too.
        let has_loc = matches!(&self.entry, Some((_, draft)) if draft.loc.is_some());
        if field == Field::Loc && has_loc && format != SitemapFormat::Rss {
            let entry_depth = self.entry.as_ref().map_or(0, |(entry_depth, _)| *entry_depth);
            self.finish_entry(collector)?;
            self.entry = Some((entry_depth, Draft::default()));
        }
        self.field = Some((depth, field));
        Ok(())
    }

    /// Takes the URL of an Atom link, if it is the first one that leads to the page of the entry: other links lead to an
    /// edit form or an attachment.
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

    /// Adds text to the value if it is inside a field, or directly in an entry.
    fn add_text(&mut self, text: &str) {
        let is_in_entry = matches!(&self.entry, Some((entry_depth, _)) if self.starts.len() == entry_depth + 1);
        let is_value = self.field.is_some() || is_in_entry;
        if is_value && self.value.len() + text.len() <= MAX_VALUE {
            self.value.push_str(text);
        } else if is_value {
            self.is_value_unusable = true;
        }
    }

    /// Expands character references and predefined entities. A value with any other entity is dropped.
    fn add_reference(&mut self, reference: &BytesRef<'_>, collector: &mut EntryCollector) {
        match reference.resolve_char_ref() {
            Ok(Some(char)) => self.add_text(char.encode_utf8(&mut [0; 4])),
            _ => match resolve_xml_entity(reference) {
                Some(text) => self.add_text(text),
                None => {
                    self.is_value_unusable = true;
                    let name: String = reference.chars().take(MAX_SHOWN_NAME).collect();
                    // Entities that a document declares itself are not expanded: they can expand to gigabytes.
                    // Only the first fault is stored, and `limited` describes it.
                    collector.sitemap.limited |= collector.sitemap.fault.is_none();
                    collector.set_fault(format!("the entity {name:?} is not predefined in XML and is not expanded"));
                }
            },
        }
    }

    fn close(&mut self, name: &str, collector: &mut EntryCollector) -> Result<(), Fault> {
        let start = self.starts.pop();
        let open = start.and_then(|start| self.names.get(start..)).unwrap_or("");
        if open != name.trim_end() || start.is_none() {
            self.finish_entry(collector)?;
            return Err(Fault("broken XML: an end tag without its start tag".to_owned()));
        }
        self.names.truncate(start.unwrap_or(0));
        let depth = self.starts.len();
        if let Some((field_depth, field)) = self.field
            && field_depth == depth
        {
            self.field = None;
            self.close_field(field, collector)?;
        }
        if matches!(&self.entry, Some((entry_depth, _)) if *entry_depth == depth) {
            self.finish_entry(collector)?;
        }
        Ok(())
    }

    fn close_field(&mut self, field: Field, collector: &mut EntryCollector) -> Result<(), Fault> {
        let value = std::mem::take(&mut self.value);
        if std::mem::take(&mut self.is_value_unusable) || super::trim(&value).is_empty() {
            return Ok(());
        }
        if field == Field::FeedDate {
            collector.sitemap.lastmod = collector.sitemap.lastmod.or_else(|| date::parse(&value));
        } else if let Some((_, draft)) = &mut self.entry {
            let slot = match field {
                Field::Loc | Field::Guid => &mut draft.loc,
                Field::Priority => &mut draft.priority,
                Field::Changefreq => &mut draft.changefreq,
                Field::Lastmod | Field::FeedDate => &mut draft.lastmod,
            };
            // The link of a feed item takes precedence over its guid, which is not always a URL.
            if field != Field::Guid || slot.is_none() {
                *slot = Some(value);
            }
        }
        Ok(())
    }

    /// Adds the open entry to the result, if there is one.
    fn finish_entry(&mut self, collector: &mut EntryCollector) -> Result<(), Fault> {
        let Some((_, mut draft)) = self.entry.take() else { return Ok(()) };
        if self.field.take().is_some() {
            self.value.clear(); // an incomplete URL is dropped: a part of it is another URL
        }
        let entry_text = std::mem::take(&mut self.value);
        if draft.loc.is_none() && !std::mem::take(&mut self.is_value_unusable) && !super::trim(&entry_text).is_empty() {
            draft.loc = Some(entry_text); // the URL is directly in the entry, without a `loc` element
        }
        match collector.sitemap.format {
            Some(SitemapFormat::Index) => collector.add_child(&draft),
            Some(SitemapFormat::Atom) => collector.add_page(draft, AllowRelative::Yes),
            Some(_) => collector.add_page(draft, AllowRelative::No),
            None => Ok(()),
        }
    }
}

/// Whether this element is an entry.
fn is_entry(format: SitemapFormat, local: &str) -> bool {
    match format {
        SitemapFormat::UrlSet => local == "url",
        SitemapFormat::Index => local == "sitemap",
        SitemapFormat::Rss => local == "item",
        SitemapFormat::Atom => local == "entry",
        SitemapFormat::Text => false,
    }
}

/// Whether more input may complete the markup. All syntax errors except one report that an end is missing.
fn is_incomplete(error: &SyntaxError) -> bool {
    !matches!(error, SyntaxError::InvalidBangMarkup)
}
