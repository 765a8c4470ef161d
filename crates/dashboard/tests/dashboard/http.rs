//! The server over real sockets: responses and refused requests.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crate::served::{Events, control, get, request, serve};
use argiope_core::crawl::control::Control;
use argiope_core::crawl::status::{FleetStatus, ProcessStatus};
use argiope_dashboard::{CrawlSource as _, Server, ServerOptions};

const TOKEN: &str = "0123456789abcdef0123";

#[test]
fn the_status_is_served_as_json() {
    let (server, _crawl) = serve(None);
    let answer: serde_json::Value = serde_json::from_str(&get(&server, "/api/v1/status").body).expect("JSON");
    assert_eq!(answer["name"], "h.example");
    assert_eq!(answer["status"]["queued"], 1_234);
    assert_eq!(answer["status"]["busiest"][0]["reason"], "responses");
}

#[test]
fn the_event_stream_sends_new_statuses() {
    let (server, _crawl) = serve(None);
    let mut events = Events::open(&server);
    assert_eq!(events.next().0, "start");
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        let (name, status) = events.next();
        assert_eq!(name, "status");
        seen.insert(status["outcomes"]["ok"].as_u64());
    }
    assert!(seen.len() >= 3, "{seen:?}");
}

#[test]
fn many_clients_share_the_requested_statuses() {
    let (server, crawl) = serve(None);
    let mut clients: Vec<Events> = (0..50).map(|_| Events::open(&server)).collect();
    for client in &mut clients {
        client.next();
    }
    let before = crawl.status_requests.load(Ordering::Relaxed);
    let mut rounds = 0;
    for _ in 0..4 {
        for client in &mut clients {
            client.next();
        }
        rounds += 1;
    }
    let status_requests = crawl.status_requests.load(Ordering::Relaxed) - before;
    // One status per round, and two more because the clients are not in step.
    assert!(status_requests <= rounds + 2, "{status_requests} statuses for {rounds} rounds of 50 clients");
}

#[test]
fn controls_reach_the_crawl_and_invalid_ones_are_explained() {
    let (server, crawl) = serve(None);
    assert_eq!(control(&server, r#"{"action":"pause"}"#).status, 200);
    assert_eq!(control(&server, r#"{"action":"rate","rate":"30/m"}"#).status, 200);
    assert_eq!(control(&server, r#"{"action":"exclude_host","host":"h.example"}"#).status, 200);
    assert_eq!(crawl.controls.lock().expect("no panic").len(), 3);
    assert_eq!(crawl.controls.lock().expect("no panic").first(), Some(&Control::Pause));
    let invalid =
        [r#"{"action":"exclude","pattern":"("}"#, r#"{"action":"exclude","pattern":""}"#, r#"{"action":"burn"}"#, "{"];
    for body in invalid {
        let answer = control(&server, body);
        assert!((400..500).contains(&answer.status), "{body}: {}", answer.status);
        assert!(answer.body.contains("\"error\""), "{body}: {}", answer.body);
    }
    assert_eq!(crawl.controls.lock().expect("no panic").len(), 3);
}

#[test]
fn a_host_header_with_a_foreign_name_is_refused() {
    let (server, _crawl) = serve(None);
    for host in ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example"] {
        assert_eq!(request(&server, "GET", "/api/v1/status", &[("Host", host)], "").status, 421, "{host}");
    }
    for host in ["localhost", "127.0.0.1:1", "[::1]:9"] {
        assert_eq!(request(&server, "GET", "/api/v1/status", &[("Host", host)], "").status, 200, "{host}");
    }
}

#[test]
fn pages_of_other_sites_can_neither_read_nor_change_anything() {
    let (server, crawl) = serve(None);
    let own = format!("http://{}", server.address());
    let body = r#"{"action":"stop"}"#;
    let json = ("Content-Type", "application/json");
    let post = |headers: &[(&str, &str)]| request(&server, "POST", "/api/v1/control", headers, body).status;
    assert_eq!(post(&[json, ("Origin", "https://evil.example")]), 403);
    assert_eq!(post(&[json, ("Origin", "null")]), 403);
    assert_eq!(post(&[json, ("Sec-Fetch-Site", "cross-site")]), 403);
    // Requests that a form can send without a preflight.
    assert_eq!(post(&[("Content-Type", "text/plain")]), 415);
    assert!(crawl.controls.lock().expect("no panic").is_empty());
    assert_eq!(post(&[json, ("Origin", &own), ("Sec-Fetch-Site", "same-origin")]), 200);
    let read = request(&server, "GET", "/metrics", &[("Sec-Fetch-Site", "cross-site")], "");
    assert_eq!(read.status, 403);
    // A link from another site to the page is allowed.
    assert_eq!(request(&server, "GET", "/live", &[("Sec-Fetch-Site", "cross-site")], "").status, 200);
}

#[test]
fn everything_except_the_health_check_and_the_login_page_needs_the_token() {
    let (server, _crawl) = serve(Some(TOKEN));
    assert_eq!(get(&server, "/healthz").status, 200);
    for path in ["/api/v1/status", "/metrics", "/api/v1/events", "/api/v1/openapi.json", "/app.js"] {
        assert_eq!(get(&server, path).status, 401, "{path}");
    }
    let page = get(&server, "/live");
    assert_eq!((page.status, page.header("location")), (303, Some("/login")));
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(request(&server, "GET", "/metrics", &[("Authorization", &bearer)], "").status, 200);
    assert_eq!(request(&server, "GET", "/metrics", &[("Authorization", "Bearer wrong")], "").status, 401);
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    assert_eq!(request(&server, "POST", "/login", &[form], "token=wrong").header("location"), Some("/login?wrong"));
    let login = request(&server, "POST", "/login", &[form], &format!("token={TOKEN}"));
    let cookie = login.header("set-cookie").expect("a cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains(TOKEN), "{cookie}");
    let pair = cookie.split(';').next().expect("a pair");
    assert_eq!(request(&server, "GET", "/live", &[("Cookie", pair)], "").status, 200);
}

#[test]
fn addresses_beyond_loopback_need_a_long_token() {
    let start = |address: &str, token: Option<&str>| {
        let options = ServerOptions {
            address: address.parse().expect("an address"),
            token: token.map(ToOwned::to_owned),
            name: String::new(),
        };
        Server::start(options, std::sync::Arc::<crate::served::FakeCrawl>::default())
            .map(drop)
            .map_err(|error| error.kind())
    };
    let refused = Err(std::io::ErrorKind::InvalidInput);
    assert_eq!(start("0.0.0.0:0", None), refused);
    assert_eq!(start("[::]:0", None), refused);
    assert_eq!(start("0.0.0.0:0", Some("short")), refused);
    assert_eq!(start("127.0.0.1:0", None), Ok(()));
}

#[test]
fn metrics_follow_the_conventions() {
    let (server, crawl) = serve(None);
    let text = get(&server, "/metrics").body;
    let mut names = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        names.insert(series.split('{').next().expect("a name").to_owned());
    }
    for name in &names {
        let declared = text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} ")));
        assert_eq!(declared == Some("counter"), name.ends_with("_total"), "{name}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
    }
    assert!(text.contains("argiope_urls_total{outcome=\"robots\"} 2\n"), "{text}");
    assert!(text.contains("argiope_errors_total{kind=\"reset\"} 3\n"), "{text}");
    // Text from the web never becomes a label.
    assert!(!text.contains("example"), "{text}");
    crawl.ended.store(true, Ordering::Relaxed);
    while get(&server, "/metrics").body.contains("argiope_up 1") {}

    let grafana = include_str!("../../grafana.json");
    let used: BTreeSet<String> = regex::Regex::new(r"argiope_[a-z_]+")
        .expect("a pattern")
        .find_iter(grafana)
        .map(|found| found.as_str().to_owned())
        .collect();
    let unknown: Vec<_> = used.difference(&names).collect();
    assert!(unknown.is_empty(), "the Grafana dashboard uses {unknown:?}");
}

#[test]
fn the_openapi_document_matches_the_served_routes() {
    let (server, crawl) = serve(None);
    let document: serde_json::Value = serde_json::from_str(&get(&server, "/api/v1/openapi.json").body).expect("JSON");
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys().filter(|_| !path.ends_with("/events")) {
            let query = if path.ends_with("/explain") { "?url=http://h.example/" } else { "" };
            let answer = request(&server, &method.to_uppercase(), &format!("{path}{query}"), &[], "");
            assert!(!matches!(answer.status, 404 | 405), "{method} {path}: {}", answer.status);
        }
    }
    let keys =
        |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<BTreeSet<_>>();
    let described = keys(&document["components"]["schemas"]["Status"]["properties"]);
    let mut status = crawl.status().expect("it runs");
    let process = ProcessStatus { stalled: Some("why".into()), ..ProcessStatus::default() };
    status.fleet = Some(FleetStatus { processes: vec![process], ..FleetStatus::default() });
    status.rate = Some(1.0);
    status.max_pages = Some(1);
    status.max_memory = Some(1);
    status.max_time = Some(std::time::Duration::from_secs(1));
    status.waiting = Some(argiope_core::crawl::status::HostWait {
        host: "h".into(),
        reason: argiope_core::crawl::status::WaitReason::Dns,
        next_in: std::time::Duration::ZERO,
    });
    let status = serde_json::to_value(&status).expect("plain data");
    assert_eq!(keys(&status), described);
    let fleet = &document["components"]["schemas"]["Status"]["properties"]["fleet"]["properties"];
    assert_eq!(keys(&status["fleet"]), keys(fleet));
    assert_eq!(keys(&status["fleet"]["processes"][0]), keys(&fleet["processes"]["items"]["properties"]));
}

#[test]
fn every_response_has_the_policy_and_no_page_loads_from_other_hosts() {
    let (server, _crawl) = serve(None);
    for path in ["/live", "/app.js", "/stream.js", "/app.css", "/login", "/icon.svg", "/nothing"] {
        let answer = get(&server, path);
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        // An XML namespace and a placeholder are not loaded.
        let loadable = answer.body.replace("http://www.w3.org/2000/svg", "").replace("https://example.com/page", "");
        assert!(!loadable.contains("http://") && !loadable.contains("https://"), "{path}");
    }
    let script = get(&server, "/app.js").body;
    for call in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMParser"] {
        assert!(!script.contains(call), "the page uses {call}");
    }
}

#[test]
fn the_first_page_is_the_live_view_or_the_report() {
    let (server, crawl) = serve(None);
    assert_eq!(get(&server, "/").header("location"), Some("/live"));
    assert!(get(&server, "/api/v1/explain?url=http%3A%2F%2Fh.example%2Fx").body.contains("fetched"));
    assert_eq!(get(&server, "/api/v1/explain?url=unknown").status, 404);
    crawl.ended.store(true, Ordering::Relaxed);
    // A recent status is served for up to 400 ms after the end.
    while get(&server, "/").header("location") != Some("/report") {}
    assert!(get(&server, "/report").body.contains("Report"));
}

#[test]
fn dropping_the_server_ends_it_despite_connected_clients() {
    let (server, _crawl) = serve(None);
    let mut events = Events::open(&server);
    events.next();
    let address = server.address();
    drop(server);
    assert!(std::net::TcpStream::connect(address).is_err());
}
