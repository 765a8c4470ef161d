//! The requests of a page: which are passed on, which are refused, and how the browser gets their answers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::RenderEnd;
use super::super::protocol::{Outbox, Reply, RequestPaused};
use super::super::request::{BrowserAnswer, BrowserRequest, RequestKind, is_for_page, may_be_sent, request_headers};
use super::{HeldRequest, MAX_LINKS, MAX_REQUEST_BYTES, NO_IMAGE, PageLife, Phase};
use crate::base::custom_request::Method;
use crate::base::job::PartAccess;
use crate::base::time::Time;
use crate::base::url::Url;

impl PageLife {
    /// The page wants to request something.
    pub(in super::super) fn request(&mut self, id: u64, paused: RequestPaused, now: Time, out: &mut Outbox) {
        let RequestPaused { request_id: fetch_id, request, frame_id, resource_type } = paused;
        if matches!(self.phase, Phase::Reading | Phase::Picturing | Phase::Over) {
            return self.fail(out, &fetch_id, "AccessDenied", None);
        }
        if !self.is_document_sent && resource_type == "Document" {
            self.is_document_sent = true;
            self.frames.main(&frame_id);
            let headers = std::mem::take(&mut self.input.headers);
            let body = std::mem::take(&mut self.input.body);
            let is_kept = |name: &str| !name.eq_ignore_ascii_case("content-disposition");
            let headers = headers.into_iter().filter(|(name, _)| is_kept(name)).collect();
            self.fulfill(out, &fetch_id, 200, headers, &body, Some(Reply::Step));
            return;
        }
        let method = Method::named(&request.method);
        let is_read = matches!(method, Some(Method::Get | Method::Head));
        if resource_type == "Document" && Some(&frame_id) == self.main_frame.as_ref() {
            if is_read {
                // A form without values adds only the mark.
                self.note_link(request.url.strip_suffix('?').unwrap_or(&request.url).to_owned());
            } else {
                self.note_refused(&request.url);
            }
            return self.fail(out, &fetch_id, "Aborted", None);
        }
        if request.method == "OPTIONS" {
            return self.answer_preflight(out, &fetch_id, &request.headers, now);
        }
        let (kind, url) = (RequestKind::of(&resource_type), Url::parse(&request.url));
        let (Some(method), Some(kind), Ok(url)) = (method, kind, url) else {
            return self.refuse(out, &fetch_id, now);
        };
        match kind {
            RequestKind::Image if !self.limits.with_images => {
                let headers = vec![("Content-Type".into(), "image/gif".into())];
                return self.fulfill(out, &fetch_id, 200, headers, NO_IMAGE, None);
            }
            RequestKind::Media | RequestKind::Font if !self.limits.with_images => {
                return self.fail(out, &fetch_id, "Aborted", None);
            }
            _ => {}
        }
        let body: Vec<u8> =
            request.post_data_entries.iter().filter_map(|part| STANDARD.decode(&part.bytes).ok()).flatten().collect();
        let is_body_lost = request.has_post_data && body.is_empty();
        let is_too_much = self.requests >= self.limits.requests || self.body_bytes + body.len() > MAX_REQUEST_BYTES;
        let is_late = !is_read && (self.screens > 0 || self.is_clicking);
        if is_late {
            self.note_refused(url.as_str());
        }
        if is_too_much || is_body_lost || is_late {
            return self.refuse(out, &fetch_id, now);
        }
        self.requests += 1;
        self.body_bytes += body.len();
        let headers = request_headers(&request.headers);
        let access = PartAccess::Other;
        let request = BrowserRequest { id, url, method, headers, body, kind, access, cookies: Vec::new() };
        let unsent = Some(Box::new((frame_id, request)));
        let is_frame_known = unsent.as_ref().is_some_and(|unsent| self.frames.knows(&unsent.0));
        self.held.push(HeldRequest { id, fetch_id, unsent, answer: None });
        if is_frame_known {
            self.decide(id, out);
        } else {
            // The message about a new frame comes another way. It is there before the answer to this.
            self.command(out, "Runtime.evaluate", json!({ "expression": "0" }), Some(Reply::Frame(id)));
        }
        if self.phase == Phase::Running {
            self.phase = Phase::Stopping;
            self.steps = 0;
            self.step(out, "Emulation.setVirtualTimePolicy", json!({ "policy": "pause" }));
        }
    }

    /// The frame of a request is known: decides what the request may do.
    pub(in super::super) fn decide(&mut self, id: u64, out: &mut Outbox) {
        let Some(held) = self.held.iter_mut().find(|held| held.id == id) else { return };
        let Some(unsent) = &mut held.unsent else { return };
        let (frame, request) = &mut **unsent;
        request.access = self.frames.access(frame, &self.input.url, request);
        if !may_be_sent(request, request.access, &self.input.url) {
            (held.unsent, held.answer) = (None, Some(BrowserAnswer::Refused));
        } else if request.access == PartAccess::Other {
            self.pass_on(id, Vec::new());
        } else {
            let params = json!({ "urls": [request.url.as_str()] });
            self.command(out, "Network.getCookies", params, Some(Reply::Cookies(id)));
        }
    }

    /// The cookies for a request are known: it can be passed on.
    pub(in super::super) fn pass_on(&mut self, id: u64, cookies: Vec<(String, String)>) {
        let held = self.held.iter_mut().find(|held| held.id == id);
        if let Some(unsent) = held.and_then(|held| held.unsent.take()) {
            let (_, mut request) = *unsent;
            request.cookies = cookies;
            self.ready.push(request);
        }
    }

    /// Requests for the caller, since the last call.
    pub(in super::super) fn take_ready(&mut self) -> Vec<BrowserRequest> {
        std::mem::take(&mut self.ready)
    }

    /// Notes where a request would have gone that could change something.
    fn note_refused(&mut self, url: &str) {
        if self.refused_links.len() < MAX_LINKS && !self.refused_links.iter().any(|known| known == url) {
            self.refused_links.push(url.to_owned());
        }
    }

    fn refuse(&mut self, out: &mut Outbox, fetch_id: &str, now: Time) {
        self.refused += 1;
        self.fail(out, fetch_id, "AccessDenied", None);
        if self.refused > self.limits.requests && self.phase != Phase::Loading {
            self.stop(RenderEnd::Requests, now, out);
        }
    }

    /// Answers the question of the browser whether another origin allows a request. The origin itself is not asked:
    /// a request that only reads is sent without logins, so that it needs no consent, and all others are refused.
    /// Whether the page may read the response is decided by the headers of the response.
    fn answer_preflight(
        &mut self,
        out: &mut Outbox,
        fetch_id: &str,
        asked: &serde_json::Map<String, Value>,
        now: Time,
    ) {
        let of = |name: &str| {
            let field = asked.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            field.and_then(|(_, value)| value.as_str()).unwrap_or("*").into()
        };
        let method: Box<str> = of("access-control-request-method");
        if !matches!(&*method, "GET" | "HEAD") {
            return self.refuse(out, fetch_id, now);
        }
        let headers = vec![
            ("Access-Control-Allow-Origin".into(), of("origin")),
            ("Access-Control-Allow-Credentials".into(), "true".into()),
            ("Access-Control-Allow-Methods".into(), method),
            ("Access-Control-Allow-Headers".into(), of("access-control-request-headers")),
        ];
        self.fulfill(out, fetch_id, 204, headers, &[], None);
    }

    pub(super) fn fulfill(
        &self,
        out: &mut Outbox,
        fetch_id: &str,
        status: u16,
        headers: Vec<(Box<str>, Box<str>)>,
        body: &[u8],
        reply: Option<Reply>,
    ) {
        let headers = headers.iter().filter(|(name, _)| is_for_page(name));
        let headers: Vec<_> = headers.map(|(name, value)| json!({ "name": name, "value": value })).collect();
        let params = json!({ "requestId": fetch_id, "responseCode": status, "responseHeaders": headers });
        out.send_with_body(self.tab, self.session.as_deref(), "Fetch.fulfillRequest", params, body, reply);
    }

    /// The caller's answer to a request.
    pub(in super::super) fn answer(&mut self, id: u64, answer: BrowserAnswer, now: Time, out: &mut Outbox) {
        if let Some(held) = self.held.iter_mut().find(|held| held.id == id) {
            self.answer_bytes += answer.bytes();
            held.answer = Some(answer);
        }
        if self.awaits_answers() {
            self.busy_since = now;
            self.wait_for_answers(now, out);
        }
    }
}
