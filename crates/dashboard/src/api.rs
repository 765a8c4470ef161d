//! The routes of the server: the files of the page, `/api/v1`, `/metrics`, `/healthz`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::crawl::control::Control;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Form, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use futures_util::stream::{self, Stream};
use serde::Deserialize;
use serde_json::json;

use crate::guard::{self, Access, problem};
use crate::hub::Hub;
use crate::metrics;

/// Maximum age of a status that is served without requesting a new one from the crawl.
const MAX_STATUS_AGE: Duration = Duration::from_millis(400);
/// Maximum bytes of a pattern or a URL.
const MAX_TEXT: usize = 8 << 10;
/// Interval of the comments that keep an idle event stream open.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// State shared by all handlers.
#[derive(Clone)]
pub struct App {
    pub hub: Arc<Hub>,
    pub access: Arc<Access>,
    /// The name of the crawl.
    pub name: Arc<str>,
}

pub fn router(app: App) -> Router {
    Router::new()
        .route("/", get(home))
        .route("/live", get(|| async { file("text/html; charset=utf-8", include_str!("../page/index.html")) }))
        .route("/app.js", get(|| async { file("text/javascript", include_str!("../page/app.js")) }))
        .route("/stream.js", get(|| async { file("text/javascript", include_str!("../page/stream.js")) }))
        .route("/app.css", get(|| async { file("text/css", include_str!("../page/app.css")) }))
        .route("/icon.svg", get(|| async { file("image/svg+xml", include_str!("../page/icon.svg")) }))
        .route("/login", get(login_page).post(login))
        .route("/report", get(report))
        .route("/api/v1/openapi.json", get(|| async { file("application/json", include_str!("../openapi.json")) }))
        .route("/api/v1/status", get(status))
        .route("/api/v1/history", get(history))
        .route("/api/v1/events", get(events))
        .route("/api/v1/explain", get(explain))
        .route("/api/v1/control", post(control))
        .route("/metrics", get(prometheus))
        .route("/healthz", get(|| async { "ok\n" }))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "there is no such page") })
        .layer(middleware::from_fn_with_state(Arc::clone(&app.access), guard::check))
        .with_state(app)
}

/// A response with a file of this crate.
fn file(content_type: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))], text).into_response()
}

/// Redirects to the live page while the crawl runs, otherwise to its report.
async fn home(State(app): State<App>) -> Response {
    let is_running = app.hub.status_within(MAX_STATUS_AGE).await.status.is_some();
    Redirect::to(if is_running { "/live" } else { "/report" }).into_response()
}

async fn report(State(app): State<App>) -> Response {
    match app.hub.report().await {
        // The report contains its own content security policy, which allows its inline style and script by their
        // digests.
        Ok(page) => {
            let content_type = HeaderValue::from_static("text/html; charset=utf-8");
            let policy = HeaderValue::from_static("frame-ancestors 'none'");
            ([(header::CONTENT_TYPE, content_type), (header::CONTENT_SECURITY_POLICY, policy)], page.to_string())
                .into_response()
        }
        Err(why) => problem(StatusCode::SERVICE_UNAVAILABLE, &why),
    }
}

async fn login_page() -> Response {
    file("text/html; charset=utf-8", include_str!("../page/login.html"))
}

#[derive(Deserialize)]
struct LoginForm {
    token: String,
}

async fn login(State(app): State<App>, Form(form): Form<LoginForm>) -> Response {
    if !app.access.accepts(form.token.trim()) {
        // Slows down guessing of the token. The number of connections is limited, so parallel guesses do not help much.
        tokio::time::sleep(Duration::from_secs(1)).await;
        return Redirect::to("/login?wrong").into_response();
    }
    let mut response = Redirect::to("/").into_response();
    if let Ok(cookie) = app.access.set_cookie().parse() {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

async fn status(State(app): State<App>) -> Response {
    let latest = app.hub.status_within(MAX_STATUS_AGE).await;
    let body = format!("{{\"name\":{},\"status\":{}}}\n", json!(&*app.name), latest.json);
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

async fn history(State(app): State<App>) -> Response {
    Json(json!({ "samples": app.hub.history() })).into_response()
}

/// Server-sent events: first the history, then every new status. A slow client misses some statuses and gets the newest
/// one.
async fn events(State(app): State<App>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let version = env!("CARGO_PKG_VERSION");
    let first = json!({ "name": &*app.name, "version": version, "samples": app.hub.history() }).to_string();
    let mut statuses = app.hub.subscribe();
    // The current status is sent too.
    statuses.mark_changed();
    let start = Event::default().event("start").data(first);
    let events = stream::unfold((Some(start), statuses), |(start, mut statuses)| async move {
        if let Some(start) = start {
            return Some((Ok(start), (None, statuses)));
        }
        statuses.changed().await.ok()?;
        let json = Arc::clone(&statuses.borrow_and_update().json);
        Some((Ok(Event::default().event("status").data(json)), (None, statuses)))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL))
}

#[derive(Deserialize)]
struct ExplainQuery {
    #[serde(default)]
    url: String,
}

async fn explain(State(app): State<App>, Query(ExplainQuery { url }): Query<ExplainQuery>) -> Response {
    if url.is_empty() {
        return problem(StatusCode::BAD_REQUEST, "give a URL or a path: /api/v1/explain?url=/page");
    }
    if url.len() > MAX_TEXT {
        return problem(StatusCode::BAD_REQUEST, "the URL is too long");
    }
    match app.hub.explain(url.clone()).await {
        Ok(text) => Json(json!({ "url": url, "text": text })).into_response(),
        Err(why) => problem(StatusCode::NOT_FOUND, &why),
    }
}

async fn control(State(app): State<App>, control: Result<Json<Control>, JsonRejection>) -> Response {
    let control = match control {
        Ok(Json(control)) => control,
        Err(rejection) => return problem(rejection.status(), &rejection.body_text()),
    };
    if control.exclude_pattern().is_some_and(|pattern| pattern.len() > MAX_TEXT || pattern.is_empty()) {
        return problem(StatusCode::BAD_REQUEST, "the pattern is empty or too long");
    }
    let done = control.to_string();
    match app.hub.control(control).await {
        Ok(()) => Json(json!({ "done": done })).into_response(),
        Err(why) => problem(StatusCode::CONFLICT, &why),
    }
}

async fn prometheus(State(app): State<App>) -> Response {
    let latest = app.hub.status_within(MAX_STATUS_AGE).await;
    let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, content_type)], metrics::render(latest.status.as_deref())).into_response()
}
