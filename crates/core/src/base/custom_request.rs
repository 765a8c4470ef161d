//! [`CustomRequest`]: how a request differs from a plain GET, and user data that is returned with the page.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Limit on the body of a request, in bytes.
pub const MAX_REQUEST_BODY: usize = 16 << 20;
/// Limit on headers and user data (as JSON) together, in bytes.
pub const MAX_REQUEST_EXTRAS: usize = 1 << 20;

/// The method of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Method {
    /// Request a page.
    #[default]
    Get,
    /// Send a form. Not repeated unless the request is marked as idempotent.
    Post,
    /// Replace a resource.
    Put,
    /// Change a resource. Not repeated unless the request is marked as idempotent.
    Patch,
    /// Remove a resource.
    Delete,
    /// Request the head of a response only.
    Head,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 6] = [Self::Get, Self::Post, Self::Put, Self::Patch, Self::Delete, Self::Head];

    /// The name, as sent.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Head => "HEAD",
        }
    }

    /// The method of this name, as sent.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == name)
    }

    /// Whether sending it twice has the effect of sending it once (RFC 9110, 9.2.2).
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Self::Post | Self::Patch)
    }
}

/// How a request differs from a plain GET.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CustomRequest {
    /// The method.
    pub method: Method,
    /// Headers to send. They replace headers of the crawl that have the same name.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The body; empty if the request has none.
    pub body: Box<[u8]>,
    /// Links of a higher priority are taken first, whatever their depth. The default is 0.
    pub priority: i16,
    /// User data that is returned with the page. Null if there is none.
    pub data: Value,
    /// Whether the user allows that the request is sent twice.
    pub is_idempotent: bool,
    /// Makes the request distinct from others for the same URL. Empty if it is not.
    pub key: Box<str>,
}

impl fmt::Debug for CustomRequest {
    /// Values of headers, the body and user data may be secrets: they are not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("CustomRequest")
            .field("method", &self.method)
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

impl CustomRequest {
    /// Whether the request may be sent again although the server may have processed it.
    pub fn is_repeatable(&self) -> bool {
        self.is_idempotent || self.method.is_idempotent()
    }

    /// A hash of what distinguishes it from other requests for the same URL: method, body and key. Zero for a GET without
    /// a body and a key.
    pub fn identity(&self, key: u64) -> u64 {
        if self.method == Method::Get && self.body.is_empty() && self.key.is_empty() {
            return 0;
        }
        let method_hash = xxh3_64_with_seed(self.method.as_str().as_bytes(), key);
        let body_hash = xxh3_64_with_seed(&self.body, key ^ method_hash);
        let key_hash = if self.key.is_empty() { 0 } else { xxh3_64_with_seed(self.key.as_bytes(), key ^ body_hash) };
        // The lowest bit is set, because zero stands for a plain GET.
        (body_hash ^ key_hash) | 1
    }

    /// Whether its method and URL do not identify it.
    pub fn is_one_of_several(&self) -> bool {
        !self.body.is_empty() || !self.key.is_empty()
    }

    /// The request of a link that a page contains, if it has a priority.
    pub fn of_priority(priority: i16) -> Option<Arc<Self>> {
        (priority != 0).then(|| Arc::new(Self { priority, ..Self::default() }))
    }

    /// The request for the target of a redirect with this status; `None` if it is a plain GET.
    ///
    /// The body is dropped after 303, and after 301 or 302 if the method is POST (RFC 9110, 15.4). `Content-` headers are
    /// kept if the body is. Other headers are kept only within the same origin.
    ///
    /// The target of a request that may have changed something, such as a login form, is fetched even if its URL was
    /// fetched before: it gets a key, unless the request has one.
    pub fn redirected(&self, status: u16, is_same_origin: bool) -> Option<Arc<Self>> {
        let drops_body = status == 303 || (matches!(status, 301 | 302) && self.method == Method::Post);
        let headers = self.headers.iter().filter(|(name, _)| {
            let describes_body = name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("content-"));
            if describes_body { !drops_body } else { is_same_origin }
        });
        let request = Self {
            method: if drops_body && self.method != Method::Head { Method::Get } else { self.method },
            headers: headers.cloned().collect(),
            body: if drops_body { Box::default() } else { self.body.clone() },
            priority: self.priority,
            data: self.data.clone(),
            is_idempotent: self.is_idempotent,
            key: match self.method {
                Method::Get | Method::Head => self.key.clone(),
                _ if !drops_body || !self.key.is_empty() => self.key.clone(),
                _ => format!("after {:016x}", self.identity(0)).into(),
            },
        };
        let is_plain = request.identity(0) == 0
            && request.headers.is_empty()
            && request.priority == 0
            && request.data == Value::Null;
        (!is_plain).then(|| Arc::new(request))
    }

    /// Heap bytes: body, headers and user data.
    pub fn bytes(&self) -> usize {
        let entry_size = size_of::<(Box<str>, Box<str>)>();
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + entry_size).sum();
        let data = size_of_value(&self.data) - size_of::<Value>();
        self.body.len() + headers + data + self.key.len()
    }

    /// The bytes that frontiers store.
    ///
    /// In this order, with sizes in bytes: method (1; its highest bit means "marked as idempotent", the next one "has a
    /// key"), priority (2), length of the user data (4), user data as JSON, number of headers (2), the headers, the key
    /// if there is one, the body. A header is the length of its name (4), its name, the length of its value (4) and its
    /// value. A key is its length (4) and its text. Numbers are little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let data = if self.data == Value::Null { Vec::new() } else { self.data.to_string().into_bytes() };
        let mut out = Vec::with_capacity(16 + data.len() + self.bytes());
        out.push(self.method as u8 | (u8::from(self.is_idempotent) << 7) | (u8::from(!self.key.is_empty()) << 6));
        out.extend(self.priority.to_le_bytes());
        push_bytes(&mut out, &data);
        let headers = u16::try_from(self.headers.len()).unwrap_or(u16::MAX);
        out.extend(headers.to_le_bytes());
        for (name, value) in self.headers.iter().take(usize::from(headers)) {
            push_bytes(&mut out, name.as_bytes());
            push_bytes(&mut out, value.as_bytes());
        }
        if !self.key.is_empty() {
            push_bytes(&mut out, self.key.as_bytes());
        }
        out.extend_from_slice(&self.body);
        out
    }

    /// Reads what [`CustomRequest::encode`] wrote; `None` for other bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[flags, p0, p1], mut rest) = bytes.split_first_chunk::<3>()?;
        let data = take_bytes(&mut rest)?;
        let data = if data.is_empty() { Value::Null } else { serde_json::from_slice(data).ok()? };
        let (count, mut rest) = rest.split_first_chunk::<2>()?;
        let mut headers = Vec::new();
        for _ in 0..u16::from_le_bytes(*count) {
            let name = std::str::from_utf8(take_bytes(&mut rest)?).ok()?;
            let value = std::str::from_utf8(take_bytes(&mut rest)?).ok()?;
            headers.push((name.into(), value.into()));
        }
        let key = if flags & 0x40 == 0 { "" } else { std::str::from_utf8(take_bytes(&mut rest)?).ok()? };
        Some(Self {
            method: *Method::ALL.get(usize::from(flags & 0x3F))?,
            key: key.into(),
            headers,
            body: rest.into(),
            priority: i16::from_le_bytes([p0, p1]),
            data,
            is_idempotent: flags & 0x80 != 0,
        })
    }
}

/// The order in which the links of a lane are taken: the smallest first. Without a priority it is the depth.
pub fn rank(depth: u32, priority: i16) -> i32 {
    /// One step of priority outweighs any difference of depth below this number.
    const DEPTHS_PER_PRIORITY: i32 = 1 << 16;
    let depth = i32::try_from(depth).unwrap_or(i32::MAX);
    if priority == 0 {
        return depth;
    }
    depth.min(DEPTHS_PER_PRIORITY - 1).saturating_sub(i32::from(priority).saturating_mul(DEPTHS_PER_PRIORITY))
}

/// The rank of a link by its depth and the encoded form of its request.
pub fn rank_of_encoded(depth: u32, encoded: Option<&[u8]>) -> i32 {
    // In the encoded form, the priority follows the method.
    let priority = encoded.and_then(|bytes| bytes.get(1..3)).and_then(|bytes| bytes.try_into().ok());
    rank(depth, priority.map_or(0, i16::from_le_bytes))
}

/// Appends the length of the bytes, and the bytes.
fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Removes from the start of `rest` what [`push_bytes`] wrote; `None` if it is incomplete.
fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (bytes, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    Some(bytes)
}

/// The approximate memory use of a JSON value in bytes.
pub(crate) fn size_of_value(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(size_of_value).sum(),
            Value::Object(object) => object.iter().map(|(key, value)| key.len() + size_of_value(value)).sum(),
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> CustomRequest {
        CustomRequest {
            method: Method::Post,
            headers: vec![("Content-Type".into(), "text/plain".into()), ("X-Token".into(), "é".into())],
            body: b"name=spider\0\xff".as_slice().into(),
            priority: -7,
            data: serde_json::json!({"page": [1, null]}),
            is_idempotent: false,
            key: Box::default(),
        }
    }

    #[test]
    fn decoding_restores_the_request() {
        let keyed = CustomRequest { is_idempotent: true, key: "é".into(), ..login() };
        for request in [login(), CustomRequest::default(), CustomRequest { is_idempotent: true, ..login() }, keyed] {
            let encoded = request.encode();
            assert_eq!(CustomRequest::decode(&encoded).as_ref(), Some(&request));
            assert_eq!(rank_of_encoded(3, Some(&encoded)), rank(3, request.priority));
        }
        let encoded = login().encode();
        for end in 0..encoded.len() - login().body.len() {
            assert_eq!(CustomRequest::decode(&encoded[..end]), None, "{end} bytes");
        }
    }

    #[test]
    fn only_method_body_and_key_determine_the_identity() {
        let get = CustomRequest { data: 7.into(), priority: 9, ..CustomRequest::default() };
        assert_eq!(get.identity(5), 0);
        let other_body = CustomRequest { body: b"name=fly".as_slice().into(), ..login() };
        let put = CustomRequest { method: Method::Put, ..login() };
        let other_data = CustomRequest { data: Value::Null, headers: Vec::new(), ..login() };
        assert_eq!(login().identity(5), other_data.identity(5));
        let keyed = CustomRequest { key: "2".into(), ..login() };
        assert_ne!(CustomRequest { key: "2".into(), ..get.clone() }.identity(5), 0);
        for other in [&other_body, &put, &get, &keyed] {
            assert_ne!(login().identity(5), other.identity(5));
        }
        assert_ne!(login().identity(5), login().identity(6));
    }

    #[test]
    fn a_redirect_keeps_the_body_only_if_its_status_requires_that() {
        let after = |status, same| login().redirected(status, same).expect("the user data is kept");
        for status in [301, 302, 303] {
            let request = after(status, true);
            assert_eq!((request.method, request.body.len(), &request.data), (Method::Get, 0, &login().data));
            assert_eq!(request.headers, [("X-Token".into(), "é".into())]);
        }
        assert_eq!(&*after(307, true), &login());
        let elsewhere = after(308, false);
        assert_eq!((&elsewhere.body, &*elsewhere.headers), (&login().body, &login().headers[..1]), "no token");
        let head = CustomRequest { method: Method::Head, body: Box::default(), ..login() };
        assert_eq!(head.redirected(303, true).map(|request| request.method), Some(Method::Head));
        let put = CustomRequest { method: Method::Put, ..login() };
        assert_eq!(put.redirected(302, true).map(|request| request.method), Some(Method::Put));
        let plain = CustomRequest { data: Value::Null, priority: 0, ..login() };
        let target = plain.redirected(303, false).expect("it is fetched even if its URL is known");
        assert!(target.identity(5) != 0 && target.redirected(302, true).as_ref() == Some(&target), "{target:?}");
        let get = CustomRequest { method: Method::Get, body: Box::default(), ..plain };
        assert_eq!(get.redirected(303, false), None, "nothing is left that differs from a plain GET");
    }

    #[test]
    fn user_data_counts_as_heap_bytes() {
        let plain = login();
        let data = Value::Array(vec![Value::String("x".repeat(1_000)); 100]);
        let with_data = CustomRequest { data, ..login() };
        assert!(with_data.bytes() > plain.bytes() + 100_000, "{} and {}", plain.bytes(), with_data.bytes());
    }

    #[test]
    fn numbers_in_user_data_are_restored_bit_for_bit() {
        // Among these numbers are some that a parser reads inexactly if it rounds twice.
        let mut bits = 0x3FB9_9999_9999_999A_u64;
        for _ in 0..5_000 {
            bits = bits.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let number = f64::from_bits(bits >> 2);
            let request = CustomRequest { data: Value::from(number), ..login() };
            let back = CustomRequest::decode(&request.encode()).expect("a request");
            assert_eq!(back.data.as_f64().map(f64::to_bits), Some(number.to_bits()), "{number:e}");
        }
    }

    #[test]
    fn debug_output_omits_secrets() {
        let shown = format!("{:?}", login());
        assert!(shown.contains("Content-Type") && shown.contains("Post"), "{shown}");
        for secret in ["text/plain", "é", "spider", "page"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
    }

    #[test]
    fn priority_outweighs_depth() {
        let order = [rank(9, 2), rank(0, 1), rank(70_000, 1), rank(0, 0), rank(1, 0), rank(65_535, 0), rank(0, -1)];
        assert!(order.is_sorted_by(|one, other| one < other), "{order:?}");
        assert_eq!((rank(u32::MAX, 0), rank(0, i16::MIN), rank(0, i16::MAX)), (i32::MAX, i32::MAX, -0x7FFF_0000));
    }
}
