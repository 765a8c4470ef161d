//! The columns of the page tables: one list for all tabular formats.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::records::StoredRecord;

/// The value of one field.
pub enum Value<'a> {
    Text(Option<&'a str>),
    /// Words, joined with commas.
    List(&'a [String]),
    /// Texts by name, as a JSON object.
    Map(&'a BTreeMap<String, String>),
    Number(Option<u64>),
    Flag(bool),
    /// `2026-01-02T03:04:05.678Z`.
    Moment(Option<&'a str>),
}

impl<'a> Value<'a> {
    /// The value as text, if it is text.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) | Self::Moment(text) => text.map(Cow::Borrowed),
            Self::List(words) => (!words.is_empty()).then(|| words.join(", ").into()),
            Self::Map(texts) => (!texts.is_empty()).then(|| serde_json::json!(texts).to_string().into()),
            Self::Number(_) | Self::Flag(_) => None,
        }
    }
}

pub struct Column {
    pub name: &'static str,
    pub value: fn(&StoredRecord) -> Value<'_>,
}

macro_rules! columns {
    ($($name:literal $kind:ident $line:ident => $value:expr;)*) => {
        /// All columns, in order.
        pub const COLUMNS: &[Column] = &[$(Column { name: $name, value: |$line| Value::$kind($value) },)*];
    };
}

columns! {
    "url" Text line => Some(&line.url);
    "status" Number line => line.status.map(u64::from);
    "outcome" Text line => line.outcome.map(|outcome| outcome.as_str());
    "error_kind" Text line => line.error.as_ref().map(|error| error.kind.as_str());
    "error_message" Text line => line.error.as_ref().map(|error| &*error.message);
    "redirect" Text line => line.redirect.as_deref();
    "via" Text line => line.via.as_deref();
    "depth" Number line => Some(line.depth.into());
    "tries" Number line => Some(line.tries.into());
    "content_type" Text line => line.content_type.as_deref();
    "charset" Text line => line.charset.as_deref();
    "title" Text line => line.title.as_deref();
    "bytes_wire" Number line => line.bytes_wire;
    "bytes_body" Number line => line.bytes_body;
    "truncated" Text line => line.truncated.map(|truncated| truncated.as_str());
    "links" Number line => line.links.map(u64::from);
    "new_links" Number line => line.new_links.map(u64::from);
    "noindex" Flag line => line.noindex;
    "nofollow" Flag line => line.nofollow;
    "canonical" Text line => line.canonical.as_deref();
    "ms_dns" Number line => line.ms.dns;
    "ms_connect" Number line => line.ms.connect;
    "ms_tls" Number line => line.ms.tls;
    "ms_ttfb" Number line => line.ms.ttfb;
    "ms_total" Number line => line.ms.total;
    "started" Moment line => line.started.as_deref();
    "ip" Text line => line.ip.as_deref();
    "http" Text line => line.http.as_deref();
    "digest" Text line => line.digest.as_deref();
    "etag" Text line => line.etag.as_deref();
    "last_modified" Text line => line.last_modified.as_deref();
    "warc_file" Text line => line.warc.as_ref().map(|place| &*place.file);
    "warc_offset" Number line => line.warc.as_ref().map(|place| place.offset);
    "warc_length" Number line => line.warc.as_ref().map(|place| place.length);
    "method" Text line => Some(line.method.as_deref().unwrap_or("GET"));
    "request_id" Text line => line.request_id.as_deref();
    "description" Text line => line.description.as_deref();
    "h1" Text line => line.h1.as_deref();
    "h1_count" Number line => line.h1_count.map(u64::from);
    "lang" Text line => line.lang.as_deref();
    "meta_robots" List line => &line.meta_robots;
    "hreflang" Map line => &line.hreflang;
    "words" Number line => line.words;
    "og_title" Text line => line.og.title.as_deref();
    "og_image" Text line => line.og.image.as_deref();
    "images_without_alt" Number line => line.images_without_alt.map(u64::from);
    "insecure" Flag line => line.insecure;
    "minhash" Text line => line.minhash.as_deref();
    "inlinks" Number line => line.inlinks.map(u64::from);
}
