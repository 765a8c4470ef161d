//! What a field of a record is: its name, the kind of its values, and what it describes. `record!` declares the fields of
//! a record once, and makes from them the type that is written and read, [`RecordField`]s for columns, documentation and
//! the JSON Schema, and a reader that decodes only what is asked for.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// A field of a record.
#[derive(Clone, Copy, Debug)]
pub struct RecordField {
    /// The name in the record.
    pub name: &'static str,
    pub kind: FieldKind,
    pub about: About,
    pub section: Section,
    /// What the field is, in Markdown.
    pub doc: &'static str,
}

/// The kind of the values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    Text,
    /// A text from a fixed set.
    Name(&'static [&'static str]),
    /// A time such as `2026-01-02T03:04:05.678Z`.
    Time,
    Integer,
    Float,
    /// `true`, or absent.
    Flag,
    /// A list of values.
    List(&'static FieldKind),
    /// Texts by name.
    TextMap,
    /// An object with these fields, any of which may be absent.
    Object(&'static [(&'static str, FieldKind)]),
    /// Any JSON.
    Json,
}

/// What a field describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The exchange. Every exchange has its own.
    Exchange,
    /// The page. The record of a 304 repeats what the record of the last full response says.
    Page,
}

/// The part of the documentation that explains a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// What kind of record it is. These fields are not in tables, which have one kind of record.
    Kind,
    Url,
    Response,
    Content,
    Links,
}

/// A value of a field, which may be absent from the record.
pub(super) trait FieldValue {
    /// Whether the field is absent from a record with this value.
    fn is_absent(&self) -> bool;
}

impl<T> FieldValue for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl FieldValue for bool {
    fn is_absent(&self) -> bool {
        !self
    }
}

impl FieldValue for u8 {
    fn is_absent(&self) -> bool {
        false
    }
}

impl FieldValue for Cow<'_, str> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<T: Clone> FieldValue for Cow<'_, [T]> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<T> FieldValue for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> FieldValue for BTreeMap<K, V> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// The name of an identifier in a record: without `r#`.
pub(super) const fn plain_name(identifier: &'static str) -> &'static str {
    match identifier.as_bytes() {
        [b'r', b'#', ..] => identifier.split_at(2).1,
        _ => identifier,
    }
}

/// Declares a record: one entry per field, in the order in which they are written, with documentation, name, type, kind,
/// what the field is about, and section. Also declares its lazy reader.
macro_rules! record {
    (
        $(#[$about_record:meta])*
        pub struct $record:ident<$a:lifetime>, $(#[$about_lazy:meta])* $lazy:ident;
        $($(#[doc = $doc:literal])+ $name:ident: $type:ty, $kind:expr, $about:ident, $section:ident;)*
    ) => {
        $(#[$about_record])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        #[non_exhaustive]
        pub struct $record<$a> {
            $($(#[doc = $doc])+ #[serde(skip_serializing_if = "FieldValue::is_absent")] pub $name: $type,)*
        }

        impl $record<'_> {
            /// All fields, in the order in which they are written.
            pub const FIELDS: &'static [RecordField] = &[$(RecordField {
                name: plain_name(stringify!($name)),
                kind: $kind,
                about: About::$about,
                section: Section::$section,
                doc: concat!($($doc),+),
            }),*];

            /// Takes the fields that describe the page from an earlier record, unless this record has them.
            fn take_missing(&mut self, earlier: Self) {
                $(if matches!(About::$about, About::Page) && self.$name.is_absent() {
                    self.$name = earlier.$name;
                })*
            }
        }

        /// The names of the fields, in the order of `FIELDS`.
        #[derive(Clone, Copy, serde::Deserialize)]
        #[serde(field_identifier)]
        #[allow(non_camel_case_types)]
        enum Name {
            $($name,)*
            #[serde(other)]
            unknown,
        }

        $(#[$about_lazy])*
        pub struct $lazy<$a>([Option<&$a RawValue>; Name::unknown as usize]);

        impl<$a> $lazy<$a> {
            $($(#[doc = $doc])+ pub fn $name(&self) -> $type {
                self.value(Name::$name)
            })*
        }
    };
}

/// Declares the record of a part of a page: one entry per field, in the order in which they are written. It is only
/// written, and read as a [`CrawlRecord`](super::CrawlRecord).
macro_rules! part_record {
    (
        $(#[$about_record:meta])*
        struct $record:ident<$a:lifetime>;
        $($(#[doc = $doc:literal])+ $name:ident: $type:ty, $kind:expr;)*
    ) => {
        $(#[$about_record])*
        #[derive(serde::Serialize)]
        pub(super) struct $record<$a> {
            $($(#[doc = $doc])+ #[serde(skip_serializing_if = "FieldValue::is_absent")] $name: $type,)*
        }

        impl $record<'_> {
            /// Name, kind and documentation of all fields, in the order in which they are written.
            #[cfg_attr(not(test), expect(dead_code, reason = "the JSON Schema is made by a test"))]
            pub(super) const FIELDS: &'static [(&'static str, FieldKind, &'static str)] = &[
                $((super::schema::plain_name(stringify!($name)), $kind, concat!($($doc),+)),)*
            ];
        }
    };
}

pub(super) use {part_record, record};
