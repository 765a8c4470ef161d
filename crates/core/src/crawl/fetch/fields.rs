//! Header fields that decide how a response is read.

use crate::http::conn::Head;

/// The values of `Location` that are not empty.
pub(super) fn locations(head: &Head) -> impl Iterator<Item = &[u8]> {
    head.get_all("location").map(<[u8]>::trim_ascii).filter(|value| !value.is_empty())
}

pub(super) fn is_redirect(head: &Head) -> bool {
    (300..400).contains(&head.status) && head.status != 304 && locations(head).next().is_some()
}

/// The value of a header, trimmed.
pub(super) fn text(value: Option<&[u8]>) -> Option<Box<str>> {
    value.map(|bytes| String::from_utf8_lossy(bytes.trim_ascii()).into_owned().into_boxed_str())
}
