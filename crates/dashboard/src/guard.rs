//! Access control: checks of Host, Origin and token, and the headers of every response.
//!
//! - Without a token the server listens on loopback only, and `Host` must be an IP address or `localhost`. This stops
//!   DNS rebinding: in such an attack, the browser sends the name of the attacking site as `Host`.
//! - With a token every request needs it, as `Authorization: Bearer` or as the cookie that the login page sets. Only
//!   the health check and the login page are public.
//! - Requests that a browser sends on behalf of another site are refused (`Origin`, `Sec-Fetch-Site`), except that it may
//!   open a page in a tab (`Sec-Fetch-Mode: navigate`). Control commands also require a JSON content type, which an HTML
//!   form cannot send.
//! - A body must arrive within [`BODY_TIMEOUT`].

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::places::HeldPlace;

/// The session cookie of a browser that has logged in with the token.
const COOKIE: &str = "argiope_session";
/// Maximum bytes of a request's body.
const MAX_BODY: usize = 64 << 10;
/// How long the body of a request may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Lifetime of the session cookie: thirty days.
const COOKIE_SECONDS: u32 = 30 * 24 * 60 * 60;
/// Allows only files of this server: no inline code or style, no frames.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The credentials that a client must present.
#[derive(Clone, Debug)]
pub struct Access {
    token: Option<String>,
    /// The value of the session cookie. It is a hash of the token, so that the browser does not store the token itself.
    session: String,
}

impl Access {
    pub fn new(token: Option<String>) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"argiope dashboard session\0");
        hash.update(token.as_deref().unwrap_or_default());
        let session = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { token, session }
    }

    /// Whether this is the token.
    pub fn accepts(&self, token: &str) -> bool {
        self.token.as_deref().is_some_and(|own| is_equal(own, token))
    }

    /// The `Set-Cookie` header that logs a browser in.
    pub fn set_cookie(&self) -> String {
        format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={COOKIE_SECONDS}", self.session)
    }

    /// Whether a request with these headers has the token, or the server has none.
    fn is_allowed(&self, headers: &HeaderMap) -> bool {
        if self.token.is_none() {
            return true;
        }
        let bearer = text(headers, header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        if bearer.is_some_and(|token| self.accepts(token.trim())) {
            return true;
        }
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == COOKIE && is_equal(&self.session, value))
    }
}

/// Compares in constant time.
fn is_equal(own: &str, given: &str) -> bool {
    let difference = own.bytes().zip(given.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    own.len() == given.len() && difference == 0
}

/// The value of a header as text.
fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a `Host` header is an IP address or `localhost`. In a DNS rebinding attack, it is the name of the attacker.
fn is_ip_or_localhost(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// Whether a request comes from a page of this server, or from a client that is not a web page.
fn is_same_site(headers: &HeaderMap, host: &str) -> bool {
    let is_own_origin = match headers.get(header::ORIGIN).map(HeaderValue::to_str) {
        None => true,
        Some(Ok(origin)) => {
            let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
        }
        Some(Err(_)) => false,
    };
    let fetch_site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    is_own_origin && fetch_site.is_none_or(|site| matches!(site, "same-origin" | "none"))
}

/// Whether a browser opens a page in a tab, or the client is not a browser.
fn is_navigation(headers: &HeaderMap) -> bool {
    let is = |name: &str, expected: &str| {
        headers.get(name).is_none_or(|value| value.as_bytes().eq_ignore_ascii_case(expected.as_bytes()))
    };
    is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
}

/// An error response as JSON.
pub fn problem(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "error": message }))).into_response()
}

/// The request with its whole body; an error response if the body is too long or too slow.
async fn with_body(request: Request<Body>) -> Result<Request<Body>, Response> {
    let (head, body) = request.into_parts();
    let too_slow = || problem(StatusCode::REQUEST_TIMEOUT, "the body of the request did not arrive in time");
    let bytes =
        tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, MAX_BODY)).await.map_err(|_| too_slow())?;
    let bytes = bytes.map_err(|_| problem(StatusCode::PAYLOAD_TOO_LARGE, "the body of the request is too long"))?;
    Ok(Request::from_parts(head, Body::from(bytes)))
}

/// Checks a request before it reaches a handler.
pub async fn check(State(access): State<Arc<Access>>, request: Request<Body>, next: Next) -> Response {
    let path = request.uri().path();
    let headers = request.headers();
    let host = text(headers, header::HOST).unwrap_or_default();
    let is_page = matches!(path, "/" | "/live" | "/report" | "/login");
    // The health check, and the login page with its style.
    let is_public = matches!(path, "/healthz" | "/login" | "/app.css");
    let mut response = if access.token.is_none() && !is_ip_or_localhost(host) {
        problem(StatusCode::MISDIRECTED_REQUEST, "this server answers to localhost and to IP addresses only")
    } else if !is_same_site(headers, host) && (request.method() != Method::GET || !is_page || !is_navigation(headers)) {
        // Another site may link here, but its scripts, forms and images may not send requests.
        problem(StatusCode::FORBIDDEN, "requests from other sites are refused")
    } else if !is_public && !access.is_allowed(headers) {
        if is_page {
            Redirect::to("/login").into_response()
        } else {
            let mut refused = problem(StatusCode::UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN");
            refused.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            refused
        }
    } else {
        if let Some(place) = request.extensions().get::<Arc<HeldPlace>>().filter(|_| !is_public) {
            place.admit();
        }
        match with_body(request).await {
            Ok(request) => next.run(request).await,
            Err(response) => response,
        }
    };
    let headers = response.headers_mut();
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("x-frame-options", "DENY"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ip_addresses_and_localhost_are_accepted_as_host() {
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:80", "[::1]:9000", "192.168.1.5"] {
            assert!(is_ip_or_localhost(host), "{host}");
        }
        for host in ["", "evil.example:8080", "localhost.evil.example", "127.0.0.1.nip.io", "[::1", "a:b"] {
            assert!(!is_ip_or_localhost(host), "{host}");
        }
    }

    #[test]
    fn the_session_cookie_does_not_contain_the_token() {
        let access = Access::new(Some("a token that is long".into()));
        assert!(access.accepts("a token that is long") && !access.accepts("a token that is lonG"));
        assert!(!access.set_cookie().contains("a token"));
        assert!(!Access::new(None).accepts(""));
    }
}
