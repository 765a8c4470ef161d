//! Conversions between replies of the store and Rust values.

use redis::Value;

/// The largest count that is read: with 65,536 buckets, the sum is below 2^63.
const MAX_COUNT: u64 = 1 << 46;

/// A number as an argument of a script.
pub(super) fn number(value: impl Into<u64>) -> Vec<u8> {
    value.into().to_string().into_bytes()
}

/// The fields and values of a hash.
pub(super) fn pairs(value: Value) -> Vec<(Vec<u8>, Vec<u8>)> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(field, value)| (bytes(field), bytes(value))).collect(),
        other => {
            array(other).chunks(2).map(|pair| (bytes(&pair[0]), pair.get(1).map(bytes).unwrap_or_default())).collect()
        }
    }
}

/// The elements of an array or set; empty for any other reply.
pub(in super::super) fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) | Value::Set(values) => values,
        _ => Vec::new(),
    }
}

/// A number that is not negative; 0 for any other reply.
pub(super) fn integer(value: &Value) -> u64 {
    match value {
        Value::Int(number) => u64::try_from(*number).unwrap_or(0),
        Value::BulkString(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0),
        _ => 0,
    }
}

/// A count of links, pages or bytes. It is capped, so that the sum over all buckets does not overflow.
pub(super) fn count(value: &Value) -> u64 {
    integer(value).min(MAX_COUNT)
}

/// The bytes of a reply.
pub(in super::super) fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes.clone(),
        Value::SimpleString(text) => text.clone().into_bytes(),
        Value::Int(number) => number.to_string().into_bytes(),
        _ => Vec::new(),
    }
}
