//! The practice web over HTTP/2, with the client of the crate `h2`.

use std::sync::Arc;
use std::time::Duration;

use argiope_practice::{Graph, GraphPlan, PracticeWeb, Response, Site};
use bytes::Bytes;
use http::Request;

/// Limit on every wait.
const TIMEOUT: Duration = Duration::from_secs(10);

type Client = h2::client::SendRequest<Bytes>;

/// Runs `exchange` over one connection without TLS.
fn with_client<T>(address: std::net::SocketAddr, exchange: impl AsyncFnOnce(&mut Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let (mut client, connection) = h2::client::handshake(socket).await.unwrap();
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                drop(tokio::task::spawn_local(connection));
                exchange(&mut client).await
            })
            .await
    })
}

/// Requests a path of the host `h.test`. Returns status, content type and body.
async fn get(client: &mut Client, path: &str) -> Result<(u16, Option<String>, Vec<u8>), h2::Error> {
    get_from(client, "h.test", path).await
}

/// Requests a path of a host. Returns status, content type and body.
async fn get_from(client: &mut Client, host: &str, path: &str) -> Result<(u16, Option<String>, Vec<u8>), h2::Error> {
    let request = Request::get(format!("http://{host}{path}")).body(()).unwrap();
    *client = client.clone().ready().await?;
    let (response, _) = client.send_request(request, true)?;
    let response = response.await?;
    let status = response.status().as_u16();
    let kind = response.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        bytes.extend_from_slice(&piece);
    }
    Ok((status, kind, bytes))
}

#[test]
fn scripted_pages_are_served_on_one_connection() {
    let site = Site::http("127.0.0.1:0")
        .unwrap()
        .http2()
        .page("/", Response::html("front"))
        .page("/chunked", Response::html("0123456789".repeat(100)).chunked([7, 300]))
        .page("/large", Response::filled("start", 500_000))
        .page("/slow", Response::html("slow").delay(Duration::from_millis(20)).drip(1, Duration::from_millis(1)))
        .page("/hints", Response::html("hints").interim(103, &[("link", "</a>")]))
        .page("/cut", Response::html("a page").truncate_at(3))
        .page("/gone", Response::status(410));
    let address = site.address();
    let web = PracticeWeb::new().site(site).start().unwrap();
    with_client(address, async |client| {
        let html = Some("text/html; charset=utf-8".to_owned());
        assert_eq!(get(client, "/").await.unwrap(), (200, html, b"front".to_vec()));
        assert_eq!(get(client, "/chunked").await.unwrap().2, b"0123456789".repeat(100));
        assert_eq!(get(client, "/large").await.unwrap().2.len(), 500_000);
        assert_eq!(get(client, "/slow").await.unwrap().2, b"slow");
        assert_eq!(get(client, "/hints").await.unwrap().2, b"hints");
        assert_eq!(get(client, "/gone").await.unwrap().0, 410);
        assert!(get(client, "/cut").await.is_err(), "a truncated body resets the stream");
        assert_eq!(get(client, "/missing").await.unwrap().0, 404, "the connection can still be used");
    });
    let stats = web.stats();
    assert_eq!((stats.connections, stats.requests), (1, 8));
    assert!(web.wait_open(0, TIMEOUT), "the connection is closed");
    assert_eq!(web.log()[0].host, "h.test");
}

#[test]
fn a_request_that_the_client_abandons_is_not_answered() {
    let site = Site::http("127.0.0.1:0")
        .unwrap()
        .http2()
        .page("/", Response::html("front"))
        .page("/hang", Response::hang())
        .page("/held", Response::html("held").held());
    let address = site.address();
    let web = PracticeWeb::new().site(site).start().unwrap();
    with_client(address, async |client| {
        for (path, number) in [("/hang", 1), ("/held", 2)] {
            let request = Request::get(format!("http://h.test{path}")).body(()).unwrap();
            *client = client.clone().ready().await.unwrap();
            let (response, _) = client.send_request(request, true).unwrap();
            while web.requests() < number {
                tokio::task::yield_now().await;
            }
            // This resets the stream.
            drop(response);
        }
        // The server handles this request after the two resets.
        assert_eq!(get(client, "/").await.unwrap().2, b"front");
    });
    assert!(web.wait_answered(1, TIMEOUT));
    assert_eq!(web.stats().answered, 1);
    let has_end: Vec<bool> = web.log().iter().map(|request| request.end.is_some()).collect();
    assert_eq!(has_end, [false, false, true]);
}

#[test]
fn held_responses_are_sent_when_the_web_is_released() {
    let site = Site::http("127.0.0.1:0").unwrap().http2().page("/", Response::html("held").held());
    let address = site.address();
    let web = PracticeWeb::new().site(site).start().unwrap();
    with_client(address, async |client| {
        let mut first_client = client.clone();
        let first = tokio::task::spawn_local(async move { get(&mut first_client, "/").await });
        while web.requests() < 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(web.stats().answered, 0);
        web.release().unwrap();
        let response = tokio::time::timeout(TIMEOUT, first).await.expect("the response is released").unwrap();
        assert_eq!(response.unwrap().2, b"held");
        let later = tokio::time::timeout(TIMEOUT, get(client, "/")).await.expect("later responses are not held");
        assert_eq!(later.unwrap().2, b"held");
    });
}

#[test]
fn a_large_dripping_page_has_the_same_bytes_as_one_that_does_not_drip() {
    let body = |drip: (u32, u64)| {
        let site = Site::http("0.0.0.0:0").unwrap().http2();
        let port = site.address().port();
        let is_https = false;
        let plan = GraphPlan { size: 200_000, drip, ..GraphPlan::default() };
        let graph = Arc::new(Graph::new(plan, port, is_https));
        let address = graph.address_of(0);
        let _web = PracticeWeb::new().site(site.graph(&graph)).start().unwrap();
        with_client((address, port).into(), async |client| get_from(client, &address.to_string(), "/").await.unwrap().2)
    };
    let expected = body((0, 0));
    assert_eq!(expected.len(), 200_000);
    assert!(body((20, 100)) == expected);
}

#[test]
fn a_site_with_http2_serves_http1_too() {
    use std::io::{Read, Write};
    let site = Site::http("127.0.0.1:0").unwrap().http2().page("/", Response::html("front").close_after());
    let address = site.address();
    let _web = PracticeWeb::new().site(site).start().unwrap();
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK") && text.ends_with("front"), "{text}");
}
