//! The server under clients that send half a request, ask for much, or leave early.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::served::{Events, connect, control, get, request, serve};

const TOKEN: &str = "0123456789abcdef0123";

/// Opens connections that each send a login without the end of its body.
fn half_sent_logins(address: std::net::SocketAddr, count: usize) -> Vec<TcpStream> {
    let login = format!(
        "POST /login HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: 500\r\n\r\ntoken="
    );
    let open = |_| {
        let mut stream = connect(address);
        // Ignored: the server may have ended this connection already.
        let _ = stream.write_all(login.as_bytes());
        stream
    };
    (0..count).map(open).collect()
}

#[test]
fn half_sent_logins_do_not_stop_the_server() {
    let (server, _crawl) = serve(Some(TOKEN));
    let bearer = format!("Bearer {TOKEN}");
    let mut events = Events::open_with(&server, &format!("Authorization: {bearer}\r\n"));
    assert_eq!(events.next().0, "start");
    let _held = half_sent_logins(server.address(), 400);
    assert_eq!(get(&server, "/healthz").status, 200);
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let login = request(&server, "POST", "/login", &[form], &format!("token={TOKEN}"));
    assert!(login.header("set-cookie").is_some(), "{}", login.head);
    assert_eq!(request(&server, "GET", "/metrics", &[("Authorization", &bearer)], "").status, 200);
    // A client that has logged in before keeps its connection.
    for _ in 0..3 {
        assert_eq!(events.next().0, "status");
    }
}

#[test]
fn one_report_at_a_time_serves_all_clients_and_nothing_waits_for_it() {
    let (server, crawl) = serve(None);
    let held = crawl.hold_reports.lock().expect("no panic");
    // Clients that ask for the report and leave, and one that stays.
    for _ in 0..20 {
        let mut stream = connect(server.address());
        let head = format!("GET /report HTTP/1.1\r\nHost: {}\r\n\r\n", server.address());
        stream.write_all(head.as_bytes()).expect("a server that reads");
    }
    let server = Arc::new(server);
    let client = Arc::clone(&server);
    let report = std::thread::spawn(move || get(&client, "/report"));
    assert_eq!(get(&server, "/healthz").status, 200);
    assert_eq!(control(&server, r#"{"action":"pause"}"#).status, 200);
    assert_eq!(get(&server, "/api/v1/status").status, 200);
    assert_eq!(get(&server, "/api/v1/explain?url=/a").status, 200);
    drop(held);
    assert_eq!(report.join().expect("no panic").status, 200);
    assert_eq!(get(&server, "/report").status, 200);
    assert_eq!(crawl.reports.load(Ordering::Relaxed), 1);
}

#[test]
fn another_site_can_open_the_report_in_a_tab_but_not_load_it() {
    let (server, crawl) = serve(None);
    let load = |mode: &str, dest: &str| {
        let headers = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", mode), ("Sec-Fetch-Dest", dest)];
        request(&server, "GET", "/report", &headers, "").status
    };
    for (mode, dest) in [("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("no-cors", "script")] {
        assert_eq!(load(mode, dest), 403, "{mode} {dest}");
    }
    assert_eq!(crawl.reports.load(Ordering::Relaxed), 0);
    assert_eq!(load("navigate", "document"), 200);
}

#[test]
fn many_clients_of_an_ended_crawl_share_its_status_too() {
    let (server, crawl) = serve(None);
    crawl.ended.store(true, Ordering::Relaxed);
    let mut clients: Vec<Events> = (0..50).map(|_| Events::open(&server)).collect();
    for client in &mut clients {
        client.next();
    }
    let before = crawl.status_requests.load(Ordering::Relaxed);
    for _ in 0..3 {
        for client in &mut clients {
            client.next();
        }
    }
    let asked = crawl.status_requests.load(Ordering::Relaxed) - before;
    assert!(asked <= 5, "{asked} statuses for 3 rounds of 50 clients");
}
