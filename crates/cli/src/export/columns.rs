//! The columns of the page tables: one list for all tabular formats.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::records::StoredRecord;

/// The value of one column in one record.
pub enum Value<'a> {
    Text(Option<&'a str>),
    /// Words, written as one text with commas.
    List(&'a [String]),
    /// Texts by name, written as a JSON object.
    Map(&'a BTreeMap<String, String>),
    Number(Option<u64>),
    Flag(bool),
    /// A time such as `2026-01-02T03:04:05.678Z`.
    Time(Option<&'a str>),
}

impl<'a> Value<'a> {
    /// The value as text; `None` for numbers and flags.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) | Self::Time(text) => text.map(Cow::Borrowed),
            Self::List(words) => (!words.is_empty()).then(|| words.join(", ").into()),
            Self::Map(texts) => (!texts.is_empty()).then(|| serde_json::json!(texts).to_string().into()),
            Self::Number(_) | Self::Flag(_) => None,
        }
    }
}

/// A column of the page tables.
pub struct Column {
    pub name: &'static str,
    /// Gets the value from a record. Its variant is the same for all records.
    pub value: fn(&StoredRecord) -> Value<'_>,
}

/// Defines [`COLUMNS`]: name, type and value of each column.
macro_rules! columns {
    ($($name:literal $kind:ident $record:ident => $value:expr;)*) => {
        /// All columns, in order.
        pub const COLUMNS: &[Column] = &[$(Column { name: $name, value: |$record| Value::$kind($value) },)*];
    };
}

columns! {
    "url" Text record => Some(&record.url);
    "status" Number record => record.status.map(u64::from);
    "outcome" Text record => record.outcome.map(|outcome| outcome.as_str());
    "error_kind" Text record => record.error.as_ref().map(|error| error.kind.as_str());
    "error_message" Text record => record.error.as_ref().map(|error| &*error.message);
    "redirect" Text record => record.redirect.as_deref();
    "via" Text record => record.via.as_deref();
    "depth" Number record => Some(record.depth.into());
    "tries" Number record => Some(record.tries.into());
    "content_type" Text record => record.content_type.as_deref();
    "charset" Text record => record.charset.as_deref();
    "title" Text record => record.title.as_deref();
    "bytes_wire" Number record => record.bytes_wire;
    "bytes_body" Number record => record.bytes_body;
    "truncated" Text record => record.truncated.map(|truncated| truncated.as_str());
    "links" Number record => record.links.map(u64::from);
    "new_links" Number record => record.new_links.map(u64::from);
    "noindex" Flag record => record.noindex;
    "nofollow" Flag record => record.nofollow;
    "canonical" Text record => record.canonical.as_deref();
    "ms_dns" Number record => record.ms.dns;
    "ms_connect" Number record => record.ms.connect;
    "ms_tls" Number record => record.ms.tls;
    "ms_ttfb" Number record => record.ms.ttfb;
    "ms_total" Number record => record.ms.total;
    "started" Time record => record.started.as_deref();
    "ip" Text record => record.ip.as_deref();
    "http" Text record => record.http.as_deref();
    "digest" Text record => record.digest.as_deref();
    "etag" Text record => record.etag.as_deref();
    "last_modified" Text record => record.last_modified.as_deref();
    "warc_file" Text record => record.warc.as_ref().map(|location| &*location.file);
    "warc_offset" Number record => record.warc.as_ref().map(|location| location.offset);
    "warc_length" Number record => record.warc.as_ref().map(|location| location.length);
    "method" Text record => Some(record.method.as_deref().unwrap_or("GET"));
    "request_id" Text record => record.request_id.as_deref();
    "description" Text record => record.description.as_deref();
    "h1" Text record => record.h1.as_deref();
    "h1_count" Number record => record.h1_count.map(u64::from);
    "lang" Text record => record.lang.as_deref();
    "meta_robots" List record => &record.meta_robots;
    "hreflang" Map record => &record.hreflang;
    "words" Number record => record.words;
    "og_title" Text record => record.og.title.as_deref();
    "og_image" Text record => record.og.image.as_deref();
    "images_without_alt" Number record => record.images_without_alt.map(u64::from);
    "needs_scripts" Flag record => record.needs_scripts;
    "insecure" Flag record => record.insecure;
    "minhash" Text record => record.minhash.as_deref();
    "inlinks" Number record => record.inlinks.map(u64::from);
}
