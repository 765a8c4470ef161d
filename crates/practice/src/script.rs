//! A script: a [`Response`] compiled into the steps that a connection executes.
//!
//! All decisions that do not depend on the request are made here, once, when the web starts: heads are rendered, chunks
//! are split, head and body become one byte sequence if they are sent without a pause. Executing a script does not
//! allocate.
//!
//! Invariant: a script without a closing step leaves the connection ready for the next request.

use crate::response::{Response, ResponseBody, ResponseEnd, ResponseFraming, reason};
use std::sync::Arc;
use std::time::Duration;

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum ResponseStep {
    /// Write these bytes.
    Send(Arc<[u8]>),
    /// Write this many bytes of filler.
    Fill(u64),
    /// Write these bytes in pieces of this size, with this time between them.
    Drip(Arc<[u8]>, usize, Duration),
    /// Wait this long.
    Wait(Duration),
    /// Close, with TLS close_notify.
    Close,
    /// Close without TLS close_notify, so that a client can detect truncation.
    SilentClose,
    /// Close with a reset.
    Reset,
    /// Wait until the client disconnects.
    Hang,
    /// Wait until the test releases the held responses.
    Hold,
}

/// A compiled response, which can be sent any number of times.
#[derive(Debug)]
pub(crate) struct ResponseScript {
    /// 0 if the response has no status.
    pub(crate) status: u16,
    pub(crate) steps: Vec<ResponseStep>,
    /// The steps for a HEAD request: those of the response set by `on_head`, otherwise this response without its body.
    /// Empty if this response is raw and has no `on_head`: HEAD then gets `steps`.
    pub(crate) head: Vec<ResponseStep>,
    /// The status of the response to HEAD.
    pub(crate) head_status: u16,
    /// The steps for a conditional request with a matching validator; empty if the response has no validator.
    pub(crate) unchanged: Vec<ResponseStep>,
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
    /// Whether requests for the page are counted as violations.
    pub(crate) is_violation: bool,
}

impl ResponseScript {
    /// Compiles a response.
    pub(crate) fn of(response: &Response) -> ResponseScript {
        let closing = closing(response);
        let mut steps = Vec::new();
        let mut head = Vec::new();
        if response.held {
            steps.push(ResponseStep::Hold);
        }
        if !response.delay.is_zero() {
            steps.push(ResponseStep::Wait(response.delay));
        }
        if let Some(raw) = &response.raw {
            match response.drip {
                Some(drip) => steps.push(ResponseStep::Drip(Arc::from(&raw[..]), drip.bytes, drip.every)),
                None if raw.is_empty() => {}
                None => steps.push(ResponseStep::Send(Arc::from(&raw[..]))),
            }
        } else {
            let head_bytes = head_bytes(response);
            head.extend(steps.iter().cloned());
            head.push(ResponseStep::Send(Arc::from(&head_bytes[..])));
            head.extend(closing.clone());
            push_bytes(&mut steps, response, head_bytes);
        }
        steps.extend(closing);
        let status = |response: &Response| if response.raw.is_some() { 0 } else { response.status };
        let mut head_status = status(response);
        if let Some(other) = &response.on_head {
            let script = ResponseScript::of(other);
            head_status = script.status;
            head = if other.raw.is_some() { script.steps } else { script.head };
        }
        let unchanged = match (&response.etag, &response.last_modified) {
            (None, None) => Vec::new(),
            _ => unchanged(response),
        };
        ResponseScript {
            status: status(response),
            head_status,
            steps,
            head,
            unchanged,
            etag: response.etag.clone(),
            last_modified: response.last_modified.clone(),
            is_violation: response.is_violation,
        }
    }
}

/// Appends head and framed body as steps, in as few pieces as the timing allows.
fn push_bytes(steps: &mut Vec<ResponseStep>, response: &Response, head: Vec<u8>) {
    let (mut body, mut fill) = framed_body(response);
    if let Some(limit) = response.truncate_at {
        body.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        fill = fill.min(limit.saturating_sub(body.len() as u64));
    }
    let push_timed = |steps: &mut Vec<ResponseStep>, bytes: Vec<u8>| match response.drip {
        Some(drip) => steps.push(ResponseStep::Drip(bytes.into(), drip.bytes, drip.every)),
        None => steps.push(ResponseStep::Send(bytes.into())),
    };
    if response.drip.is_some() && !response.drip_head || !response.body_delay.is_zero() {
        steps.push(ResponseStep::Send(head.into()));
        if !response.body_delay.is_zero() {
            steps.push(ResponseStep::Wait(response.body_delay));
        }
        if !body.is_empty() {
            push_timed(steps, body);
        }
    } else {
        push_timed(steps, [head, body].concat());
    }
    if fill > 0 {
        steps.push(ResponseStep::Fill(fill));
    }
}

fn head_bytes(response: &Response) -> Vec<u8> {
    let phrase = response.reason.as_deref().unwrap_or_else(|| reason(response.status));
    let version = if response.http10 { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut head: Vec<u8> = response.interim.concat();
    head.extend_from_slice(format!("{version} {} {phrase}\r\n", response.status).as_bytes());
    let mut line = |name: &str, value: &[u8]| {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    };
    if let Some(kind) = &response.content_type {
        line("Content-Type", kind.as_bytes());
    }
    match &response.framing {
        // Responses with these statuses have no body, and 1xx and 204 must not declare a length.
        ResponseFraming::Length if matches!(response.status, 100..=199 | 204 | 304) => {}
        ResponseFraming::Length => line("Content-Length", length(&response.body).to_string().as_bytes()),
        ResponseFraming::FalseLength(length) => line("Content-Length", length.to_string().as_bytes()),
        ResponseFraming::Chunked(_) => line("Transfer-Encoding", b"chunked"),
        ResponseFraming::UntilClose => {}
    }
    match response.ending {
        ResponseEnd::Close if !response.http10 => line("Connection", b"close"),
        ResponseEnd::KeepAlive | ResponseEnd::UnannouncedClose if response.http10 => line("Connection", b"keep-alive"),
        ResponseEnd::UnannouncedClose if response.truncate_at.is_none() => line("Connection", b"keep-alive"),
        _ => {}
    }
    for (name, value) in &response.headers {
        line(name, value);
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn length(body: &ResponseBody) -> u64 {
    match body {
        ResponseBody::Bytes(bytes) => bytes.len() as u64,
        ResponseBody::Filled { start, length } => (*length).max(start.len() as u64),
    }
}

/// The body as sent: bytes, and the amount of filler after them.
fn framed_body(response: &Response) -> (Vec<u8>, u64) {
    let (mut bytes, mut fill) = match &response.body {
        ResponseBody::Bytes(bytes) => (bytes.clone(), 0),
        ResponseBody::Filled { start, .. } => (start.clone(), length(&response.body) - start.len() as u64),
    };
    if let ResponseFraming::Chunked(sizes) = &response.framing {
        crate::filler::append(&mut bytes, std::mem::take(&mut fill));
        bytes = chunks(&bytes, sizes);
    }
    (bytes, fill)
}

fn chunks(mut body: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(body.len() + 64);
    let mut sizes = sizes.iter().copied();
    let mut size = body.len();
    while !body.is_empty() {
        size = sizes.next().unwrap_or(size).max(1);
        let (chunk, rest) = body.split_at(size.min(body.len()));
        framed.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        framed.extend_from_slice(chunk);
        framed.extend_from_slice(b"\r\n");
        body = rest;
    }
    framed.extend_from_slice(b"0\r\n\r\n");
    framed
}

fn closing(response: &Response) -> Option<ResponseStep> {
    match response.ending {
        ResponseEnd::KeepAlive => None,
        ResponseEnd::Close => Some(ResponseStep::Close),
        ResponseEnd::UnannouncedClose if response.truncate_at.is_some() || response.raw.is_some() => {
            Some(ResponseStep::SilentClose)
        }
        // The response is complete, so the close must not look like a truncation.
        ResponseEnd::UnannouncedClose => Some(ResponseStep::Close),
        ResponseEnd::Reset => Some(ResponseStep::Reset),
        ResponseEnd::Hang => Some(ResponseStep::Hang),
    }
}

/// The steps of the 304 for a response.
fn unchanged(response: &Response) -> Vec<ResponseStep> {
    let mut not_modified = response.clone();
    not_modified.status = 304;
    not_modified.reason = None;
    not_modified.body = ResponseBody::Bytes(Vec::new());
    not_modified.content_type = None;
    not_modified.framing = ResponseFraming::Length;
    not_modified.etag = None;
    not_modified.last_modified = None;
    ResponseScript::of(&not_modified).steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bytes that a response sends.
    fn sent_bytes(response: &Response) -> Vec<u8> {
        let mut bytes = Vec::new();
        for step in &ResponseScript::of(response).steps {
            match step {
                ResponseStep::Send(piece) | ResponseStep::Drip(piece, ..) => bytes.extend_from_slice(piece),
                ResponseStep::Fill(n) => crate::filler::append(&mut bytes, *n),
                _ => {}
            }
        }
        bytes
    }

    #[test]
    fn a_small_response_is_sent_in_one_piece() {
        let script = ResponseScript::of(&Response::text("hello"));
        assert!(matches!(&script.steps[..], [ResponseStep::Send(_)]));
    }

    #[test]
    fn chunks_have_the_given_sizes_and_the_last_one_repeats() {
        assert_eq!(chunks(b"abcdefg", &[1, 3]), b"1\r\na\r\n3\r\nbcd\r\n3\r\nefg\r\n0\r\n\r\n");
        assert_eq!(chunks(b"", &[4]), b"0\r\n\r\n");
        assert_eq!(chunks(b"ab", &[0]), b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
    }

    #[test]
    fn a_truncated_body_keeps_the_declared_length() {
        let bytes = sent_bytes(&Response::text("0123456789").truncate_at(4));
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("Content-Length: 10\r\n") && text.ends_with("\r\n\r\n0123"), "{text}");
    }

    #[test]
    fn the_declared_length_of_a_page_includes_its_filler() {
        let bytes = sent_bytes(&Response::filled("<p>", 100_000));
        let at = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        assert_eq!(bytes.len() - at, 100_000);
        let head = String::from_utf8_lossy(&bytes[..at]);
        assert!(head.contains("Content-Length: 100000\r\n"), "{head}");
    }

    #[test]
    fn the_304_of_a_page_has_its_entity_tag() {
        let script = ResponseScript::of(&Response::text("x").etag("v1"));
        let Some(ResponseStep::Send(bytes)) = script.unchanged.first() else { panic!("no step") };
        let text = String::from_utf8_lossy(bytes).into_owned();
        assert!(
            text.starts_with("HTTP/1.1 304 ") && text.contains("ETag: \"v1\"") && !text.contains("Length"),
            "{text}"
        );
    }
}
