//! Requests with methods, headers, bodies, priorities and user data, on every engine and over every version of HTTP.

use std::path::Path;
use std::time::Duration;

use argiope::{Config, Crawl, CrawlBuilder, Method, Outcome, Page, Request};
use argiope_core::ErrorKind;
use argiope_core::crawl::rules::{EngineName, HttpVersion, RobotsPolicy, Span};
use argiope_practice::members::{MEMBER, ORDERS, members, with_pages};
use argiope_practice::{CertificateKind, PracticeWeb, RequestMatch, Response, RunningWeb, SeenRequest, Site};
use serde_json::json;

const ENGINES: [EngineName; 5] =
    [EngineName::Threads, EngineName::Callbacks, EngineName::Coroutines, EngineName::Tokio, EngineName::Uring];

fn serve(site: Site) -> (RunningWeb, String) {
    let root = site.url("/");
    (PracticeWeb::new().site(site).keep_headers().start().expect("the practice web starts"), root)
}

/// A crawl that ignores robots.txt and waits only 1 ms before a retry.
fn quiet(root: &str) -> CrawlBuilder {
    Crawl::builder(root)
        .robots(RobotsPolicy::Ignore)
        .configure(|config| config.retry_wait = Span(Duration::from_millis(1)))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime without I/O").block_on(future)
}

/// Feeds requests after the root has been delivered, and returns all pages but the root.
fn fetch(builder: CrawlBuilder, requests: Vec<Request>) -> Vec<Page> {
    block_on(async {
        let mut crawl = builder.start().await.expect("it starts");
        crawl.next().await.expect("the root");
        crawl.feed(requests).expect("requests that can be sent");
        let mut pages = Vec::new();
        while let Some(page) = crawl.next().await {
            pages.push(page);
        }
        crawl.close().await.expect("it ends well");
        pages
    })
}

fn posts(web: &RunningWeb) -> Vec<SeenRequest> {
    web.log().into_iter().filter(|request| request.method == "POST").collect()
}

fn log_in(builder: CrawlBuilder) -> Vec<Page> {
    block_on(async {
        let mut crawl = builder.start().await.expect("it starts");
        let mut pages = Vec::new();
        while let Some(page) = crawl.next().await {
            if page.title() == Some("Log in") {
                let fields = [("name", MEMBER.0), ("password", MEMBER.1)];
                let login = Request::from_form(&page, "form", fields).expect("a form");
                crawl.feed([login.user_data(json!({"step": 1})).header("X-Step", "login")]).expect("it can be sent");
            }
            pages.push(page);
        }
        pages
    })
}

fn check_login(pages: &[Page], web: &RunningWeb, what: &str) {
    assert_eq!(
        pages.iter().filter(|page| page.title().is_some_and(|title| title.starts_with("Order"))).count(),
        ORDERS
    );
    let account = pages.iter().find(|page| page.title() == Some("Your account")).expect("the account");
    assert_eq!(
        (account.user_data(), account.method(), account.depth()),
        (&json!({"step": 1}), Method::Get, 2),
        "{what}"
    );
    let order = pages.last().expect("an order");
    assert!(order.user_data().is_null(), "{what}: user data belongs to one request and its redirects");
    let sent = posts(web);
    let [form] = sent.as_slice() else { panic!("{what}: {sent:?}") };
    assert_eq!(form.body, "token=t0k3n&name=argiope&password=orb+%26+web", "{what}");
    let header = |request: &SeenRequest, name: &str| {
        request.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    };
    assert_eq!(header(form, "content-type").as_deref(), Some("application/x-www-form-urlencoded"), "{what}");
    let seen = web.log();
    let account = seen.iter().find(|request| request.path == "/account").expect("a request");
    assert_eq!(
        (header(account, "x-step").as_deref(), header(account, "content-type")),
        (Some("login"), None),
        "{what}"
    );
}

#[test]
fn a_login_works_with_every_engine() {
    for engine in ENGINES {
        let (web, root) = serve(members("127.5.1.1:0").expect("a loopback address"));
        let pages = log_in(quiet(&root).configure(|config| config.engine = engine));
        check_login(&pages, &web, &format!("{engine:?}"));
    }
}

#[test]
fn a_login_works_over_tls_and_http2_with_every_engine() {
    for (engine, http) in
        ENGINES.into_iter().flat_map(|engine| [(engine, HttpVersion::Http1), (engine, HttpVersion::Auto)])
    {
        let site = Site::https("127.5.1.2:0", CertificateKind::Good).expect("a loopback address").http2();
        let (web, root) = serve(with_pages(site));
        let folder = tempfile::tempdir().expect("a folder");
        let authority = folder.path().join("ca.pem");
        std::fs::write(&authority, web.ca_pem()).expect("it can be written");
        let pages = log_in(quiet(&root).configure(|config| {
            (config.engine, config.http, config.ca_cert) = (engine, http, Some(authority));
        }));
        check_login(&pages, &web, &format!("{engine:?} {http:?}"));
        let version = pages.iter().find_map(|page| page.facts().http);
        assert_eq!(version, Some(if http == HttpVersion::Auto { "2" } else { "1.1" }), "{engine:?}");
    }
}

#[test]
fn a_long_body_arrives_whole_over_every_version() {
    let body: Vec<u8> = (0..600_000_u32).map(|at| b'a' + (at % 23) as u8).collect();
    for http in [None, Some(HttpVersion::Http1), Some(HttpVersion::Auto)] {
        let site = match http {
            None => Site::http("127.5.1.3:0"),
            Some(_) => Site::https("127.5.1.3:0", CertificateKind::Good).map(Site::http2),
        };
        let site = site.expect("a loopback address").page("/", Response::html("x")).page("/big", Response::html("y"));
        let (web, root) = serve(site);
        let folder = tempfile::tempdir().expect("a folder");
        let authority = folder.path().join("ca.pem");
        std::fs::write(&authority, web.ca_pem()).expect("it can be written");
        let builder = quiet(&root).configure(|config| {
            if let Some(http) = http {
                (config.http, config.ca_cert) = (http, Some(authority));
            }
        });
        let request = Request::post(&format!("{root}big")).expect("a URL").body(body.clone());
        let pages = fetch(builder, vec![request]);
        assert!(pages.iter().all(Page::is_ok) && pages.len() == 1, "{http:?}: {:?}", pages[0].error());
        assert!(posts(&web)[0].body.as_bytes() == body, "{http:?}: {} bytes arrived", posts(&web)[0].body.len());
    }
}

#[test]
fn method_address_and_body_are_the_identity_of_a_request() {
    let site = Site::http("127.5.1.4:0").expect("a loopback address").fallback(Response::html("x"));
    let (web, root) = serve(site);
    let url = format!("{root}form");
    let form = |text: &str| Request::post(&url).expect("a URL").form([("q", text)]);
    let requests = vec![
        form("a"),
        form("b"),
        form("a").user_data("other data is the same request"),
        Request::get(&url).expect("a URL"),
        Request::get(&url).expect("a URL").priority(3),
        Request::get(&url).expect("a URL").method(Method::Put).body("q=a"),
        Request::get(&url).expect("a URL").method(Method::Delete),
        Request::get(&url).expect("a URL").method(Method::Head),
    ];
    let pages = fetch(quiet(&root), requests);
    let mut methods: Vec<String> =
        web.log().into_iter().skip(1).map(|seen| format!("{} {}", seen.method, seen.body)).collect();
    methods.sort();
    assert_eq!(methods, ["DELETE ", "GET ", "HEAD ", "POST q=a", "POST q=b", "PUT q=a"]);
    assert_eq!(pages.len(), 6);
    assert!(pages.iter().all(Page::is_ok));
}

#[test]
fn a_post_is_not_retried_unless_it_is_marked_idempotent() {
    for engine in ENGINES {
        let site = Site::http("127.5.1.5:0").expect("a loopback address").page("/", Response::html("x"));
        let site = site.page("/reset", Response::reset()).page("/busy", Response::status(503));
        let (web, root) = serve(site);
        let post = |path: &str, body: &str| Request::post(&format!("{root}{path}")).expect("a URL").body(body);
        let requests = vec![post("reset", "once"), post("busy", "once"), post("reset", "often").idempotent()];
        let builder = quiet(&root).configure(|config| (config.engine, config.max_tries) = (engine, 3));
        let pages = fetch(builder, requests);
        let sent = posts(&web);
        let count = |body: &str| sent.iter().filter(|request| request.body == body).count();
        assert_eq!((count("once"), count("often")), (2, 3), "{engine:?}");
        assert_eq!(pages.iter().filter(|page| page.outcome() == Outcome::Failed).count(), 2, "{engine:?}");
    }
}

/// The server offers keep-alive and then closes the connection. A POST sent on such a connection would be lost, and
/// could not be retried.
#[test]
fn a_post_gets_a_connection_of_its_own() {
    for engine in ENGINES {
        let site = Site::http("127.5.1.6:0")
            .expect("a loopback address")
            .page("/", Response::html("x").keep_alive_then_close());
        let (web, root) = serve(site.page("/post", Response::html("y")));
        let builder = quiet(&root).configure(|config| config.engine = engine);
        let pages = fetch(builder, vec![Request::post(&format!("{root}post")).expect("a URL").body("x")]);
        assert!(pages[0].is_ok(), "{engine:?}: {:?}", pages[0].error());
        assert_eq!(posts(&web).len(), 1, "{engine:?}");
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a file");
        }
    }
}

#[test]
fn a_post_that_was_sent_before_a_crash_is_not_sent_again() {
    let site = Site::http("127.5.1.7:0").expect("a loopback address").page("/", Response::html("x"));
    let (web, root) =
        serve(site.when(RequestMatch::post("/hang").body("first"), Response::hang()).fallback(Response::html("y")));
    let folder = tempfile::tempdir().expect("a folder");
    let (before, after) = (folder.path().join("before.crawl"), folder.path().join("after.crawl"));
    let hang = format!("{root}hang");
    block_on(async {
        let mut crawl = quiet(&root).directory(&before).start().await.expect("it starts");
        let _hold = crawl.handle().hold().expect("it runs");
        crawl.next().await.expect("the root");
        // Requesting the next page reports that the root is processed.
        {
            let mut next = std::pin::pin!(crawl.next());
            let polled = std::future::poll_fn(|context| std::task::Poll::Ready(next.as_mut().poll(context))).await;
            assert!(polled.is_pending(), "there is nothing else to read");
        }
        let post = Request::post(&hang).expect("a URL").user_data(json!({"order": 7}));
        crawl.feed([post.clone().body("first"), post.body("first, but marked").idempotent()]).expect("requests");
        assert!(web.wait_until(Duration::from_secs(20), |web| posts(web).len() == 2), "both are sent");
        // The files as they are now are what a crash would leave.
        copy(&before, &after);
    });
    // This run ends before it reaches the requests. It must not lose the fact that they were sent.
    block_on(async {
        let mut crawl = quiet(&root).directory(&after).max_pages(1).start().await.expect("it resumes");
        while crawl.next().await.is_some() {}
        crawl.close().await.expect("it ends well");
    });
    let pages = block_on(async {
        let mut crawl = quiet(&root)
            .directory(&after)
            .configure(|config| (config.timeout, config.max_tries) = (Span(Duration::from_secs(1)), 1))
            .start()
            .await
            .expect("it resumes");
        let mut pages = Vec::new();
        while let Some(page) = crawl.next().await {
            pages.push(page);
        }
        crawl.close().await.expect("it ends well");
        pages
    });
    let states: Vec<_> = pages.iter().map(|page| (page.outcome(), page.error().cloned())).collect();
    let refused = pages
        .iter()
        .find(|page| page.outcome() == Outcome::Refused)
        .unwrap_or_else(|| panic!("the request that was not repeated: {states:?}"));
    assert_eq!(refused.error().map(|failure| failure.kind), Some(ErrorKind::NotRepeated));
    assert_eq!((refused.user_data(), refused.method()), (&json!({"order": 7}), Method::Post));
    let sent = posts(&web);
    assert_eq!(sent.iter().filter(|request| request.body == "first").count(), 1, "{sent:?}");
    assert!(sent.iter().filter(|request| request.body == "first, but marked").count() > 1, "{sent:?}");
}

#[test]
fn priority_and_user_data_survive_a_resumed_crawl() {
    let site = Site::http("127.5.1.8:0").expect("a loopback address").fallback(Response::html("x"));
    let (web, root) = serve(site);
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("queue.crawl");
    // The first run may fetch one page only, so all fed requests are still queued when the second run starts.
    block_on(async {
        let mut crawl = quiet(&root).directory(&directory).max_pages(1).start().await.expect("it starts");
        let requests: Vec<Request> = (0..20_i16)
            .map(|number| {
                let request = Request::get(&format!("{root}{number}")).expect("a URL");
                request.priority(number % 3 - 1).depth(9 - number as u32 % 2).user_data(json!([number]))
            })
            .collect();
        crawl.feed(requests).expect("requests");
        crawl.next().await.expect("the root");
        crawl.close().await.expect("it ends well");
    });
    let pages = block_on(async {
        let one = |config: &mut Config| (config.per_host, config.concurrency) = (Some(1), 1);
        let mut crawl = quiet(&root).directory(&directory).configure(one).start().await.expect("it resumes");
        let mut pages = Vec::new();
        while let Some(page) = crawl.next().await {
            pages.push(page);
        }
        pages
    });
    let order: Vec<i64> = pages.iter().map(|page| page.user_data()[0].as_i64().expect("the number")).collect();
    // By priority, then by depth, then in the order in which they were fed.
    let mut expected: Vec<i64> = (0..20).collect();
    expected.sort_by_key(|number| (-(number % 3 - 1), 9 - number % 2, *number));
    assert_eq!(order, expected);
    assert_eq!(web.requests(), 21);
}

#[test]
fn requests_that_cannot_be_sent_are_errors() {
    let (_web, root) = serve(Site::http("127.5.1.9:0").expect("a loopback address").page("/", Response::html("x")));
    block_on(async {
        let crawl = quiet(&root).start().await.expect("it starts");
        let request = || Request::get(&root).expect("a URL");
        for (request, word) in [
            (request().header("X Y", "1"), "X Y"),
            (request().header("X-Y", "1\r\nX-Z: 2"), "X-Y"),
            (request().header("Content-Length", "5"), "frames"),
            (request().body(vec![0; (16 << 20) + 1]), "16 MiB"),
            (request().user_data("x".repeat(1 << 20)), "1 MiB"),
        ] {
            let error = crawl.feed([request]).expect_err("it cannot be sent");
            assert!(error.is_input() && error.to_string().contains(word), "{error}");
        }
    });
}

#[test]
fn hooks_see_requests_and_responses() {
    let site = Site::http("127.5.1.10:0").expect("a loopback address");
    let page = "<a href=/a>  Read\n <b>more</b></a><a href=/b rel='nofollow tag'><img alt='A &amp; B' src=/i></a><a href=/c>Log out</a>\
                <a href=/big>Big</a>";
    let site = site.page("/", Response::html(page)).page("/big", Response::filled("<title>big</title>", 3 << 20));
    let (web, root) = serve(site.fallback(Response::html("x")));
    let (seen, texts) = std::sync::mpsc::channel();
    let pages: Vec<Page> = quiet(&root)
        .configure(|config| config.follow_nofollow = true)
        .follow(move |link| {
            seen.send((link.text.to_owned(), link.rel.to_owned())).expect("a receiver");
            link.text != "Log out"
        })
        .on_request(|request| match request.url().path() {
            "/b" => request.abort("not this one"),
            "/a" => panic!("a bug in the closure"),
            _ => request.set_header("User-Agent", "hooked").expect("a header"),
        })
        // Not the body of `/big`, which has 3 MiB.
        .on_response(|response| response.header("content-length") != Some("3145728"))
        .start_blocking()
        .expect("it starts")
        .collect();
    let texts: Vec<(String, String)> = texts.iter().collect();
    assert_eq!(
        texts,
        [("Read more", ""), ("A & B", "nofollow tag"), ("Log out", ""), ("Big", "")]
            .map(|(text, rel)| (text.into(), rel.into()))
    );
    let of = |path: &str| pages.iter().find(|page| page.url().path() == path).expect("a page");
    let reason = |path: &str| of(path).error().map(|failure| failure.message.to_string());
    assert_eq!(reason("/b").as_deref(), Some("not this one"));
    assert_eq!(reason("/a").as_deref(), Some("the closure on_request panicked: a bug in the closure"));
    assert_eq!((of("/a").outcome(), of("/b").outcome()), (Outcome::Refused, Outcome::Refused));
    let big = of("/big");
    assert_eq!((big.is_ok(), big.facts().bytes_body, big.title()), (true, 0, None));
    assert_eq!(big.truncated(), Some(argiope_core::Truncated::Hook));
    let requests = web.log();
    assert_eq!(requests.iter().map(|request| &*request.path).collect::<Vec<_>>(), ["/", "/big"]);
    assert!(requests.iter().all(|request| request.user_agent == "hooked"), "{requests:?}");
}

#[test]
fn requests_that_a_hook_drops_do_not_count_as_pages() {
    let links = "<a href=/drop/1><a href=/drop/2><a href=/keep/1><a href=/keep/2><a href=/keep/3>";
    let site = Site::http("127.5.1.27:0").expect("a loopback address").page("/", Response::html(links));
    let (web, root) = serve(site.fallback(Response::html("x")));
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("drops.crawl");
    let run = |max_pages| {
        let pages: Vec<Page> = quiet(&root)
            .directory(&directory)
            .max_pages(max_pages)
            .on_request(|request| {
                if request.url().path().starts_with("/drop") {
                    request.abort("not this one");
                }
            })
            .start_blocking()
            .expect("it starts")
            .collect();
        pages
    };
    let first = run(2);
    assert_eq!(web.log().len(), 2, "{:?}", web.log());
    let dropped: Vec<&Page> = first.iter().filter(|page| page.outcome() == Outcome::Refused).collect();
    assert_eq!(dropped.len(), 2, "the dropped links come first");
    assert!(dropped.iter().all(|page| page.facts().timings.total.is_none()));
    run(3);
    assert_eq!(web.log().len(), 3, "the next run does not count them either: {:?}", web.log());
}

#[test]
fn a_form_sends_what_a_browser_would() {
    let form = "<form action=/to method=post>\
                <select name=many multiple><option value=a selected>A<option value=b selected>B<option value=c>C</select>\
                <select name=one><option>x<option selected>y</select><input name=tag value=old>\
                <textarea name=long>\n  first &amp; second\n\n  third</textarea></form>";
    let site = Site::http("127.5.2.31:0").expect("an address").page("/", Response::html(form));
    let (web, root) = serve(site.page("/to", Response::html("x")));
    block_on(async {
        let mut crawl = quiet(&root).start().await.expect("it starts");
        let page = crawl.next().await.expect("the root");
        let request = Request::from_form(&page, "form", [("tag", "1"), ("tag", "2")]).expect("a form");
        crawl.feed([request]).expect("it can be sent");
        crawl.next().await.expect("the response");
    });
    let long = "++first+%26+second%0D%0A%0D%0A++third";
    assert_eq!(posts(&web)[0].body, format!("many=a&many=b&one=y&long={long}&tag=1&tag=2"));
}

#[test]
fn requests_after_the_end_are_refused() {
    let (_web, root) = serve(Site::http("127.5.2.32:0").expect("an address").page("/", Response::html("<p>x")));
    block_on(async {
        let mut crawl = quiet(&root).start().await.expect("it starts");
        while crawl.next().await.is_some() {}
        let error = crawl.feed([format!("{root}late")]).expect_err("the crawl has ended");
        assert!(error.is_input(), "{error}");
        crawl.close().await.expect("it ends well");
    });
}

#[test]
fn the_error_names_the_request_that_is_not_absolute() {
    let (_web, root) = serve(Site::http("127.5.2.39:0").expect("an address").page("/", Response::html("<p>x")));
    block_on(async {
        let crawl = quiet(&root).start().await.expect("it starts");
        let error = crawl.feed([&*root, "/relative"]).expect_err("not absolute");
        assert!(error.to_string().starts_with("request 2: "), "{error}");
    });
}

#[test]
fn a_multipart_form_is_sent_as_a_browser_would() {
    let form = "<form action=/to method=POST enctype=multipart/form-data><input name='a\"b' value='----argiope-form-0'>\
                <textarea name=text>one\ntwo</textarea><input type=file name=upload></form>\
                <form id=plain method=post enctype=text/plain></form>";
    let site = Site::http("127.5.2.33:0").expect("an address").page("/", Response::html(form));
    let (web, root) = serve(site.page("/to", Response::html("x")));
    block_on(async {
        let mut crawl = quiet(&root).start().await.expect("it starts");
        let page = crawl.next().await.expect("the root");
        let error = Request::from_form(&page, "#plain", []).expect_err("text/plain");
        assert!(error.is_input() && error.to_string().contains("text/plain"), "{error}");
        crawl.feed([Request::from_form(&page, "form", []).expect("a form")]).expect("it can be sent");
        crawl.next().await.expect("the response");
    });
    let sent = &posts(&web)[0];
    let kind = sent.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    assert_eq!(kind.map(|(_, value)| &**value), Some("multipart/form-data; boundary=----argiope-form-1"));
    let part = |head: &str, value: &str| {
        format!("------argiope-form-1\r\nContent-Disposition: form-data; {head}\r\n\r\n{value}\r\n")
    };
    let file = "name=\"upload\"; filename=\"\"\r\nContent-Type: application/octet-stream";
    let body = part("name=\"a%22b\"", "----argiope-form-0") + &part("name=\"text\"", "one\r\ntwo") + &part(file, "");
    assert_eq!(sent.body, body + "------argiope-form-1--\r\n");
}

#[test]
fn roots_can_be_requests() {
    let site = Site::http("127.5.2.34:0").expect("an address").fallback(Response::html("<a href=/next>x</a>"));
    let (web, root) = serve(site);
    let post = |body: &str| Request::post(&format!("{root}search")).expect("a URL").body(body);
    let folder = tempfile::tempdir().expect("a folder");
    let start = || {
        let builder = Crawl::builder(post("first").user_data(json!({"page": 1})).header("X-Token", "t"));
        let builder = builder.root(post("second").priority(3)).root(format!("{root}search")).root(root.as_str());
        builder.robots(RobotsPolicy::Ignore).directory(folder.path().join("roots.crawl")).start_blocking()
    };
    let pages: Vec<Page> = start().expect("it starts").collect();
    let mut seen: Vec<String> =
        web.log().iter().map(|request| format!("{} {} {}", request.method, request.path, request.body)).collect();
    seen.sort();
    assert_eq!(seen, ["GET / ", "GET /next ", "GET /search ", "POST /search first", "POST /search second"]);
    let first = pages.iter().find(|page| !page.user_data().is_null()).expect("user data comes back");
    assert_eq!((first.user_data(), first.method(), first.depth()), (&json!({"page": 1}), Method::Post, 0));
    let token = |request: &&SeenRequest| request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("x-token"));
    assert_eq!(web.log().iter().filter(token).count(), 1);
    assert_eq!(start().expect("it resumes").count(), 0, "all roots are known");
    let bad = Crawl::builder(post("x").header("Host", "y"))
        .start_blocking()
        .expect_err("the crawler sets the header Host itself");
    assert!(bad.is_input(), "{bad}");
}

#[test]
fn json_is_read_with_positions_of_errors() {
    let json = |text: &str| Response::html(text).content_type("application/json");
    let site = Site::http("127.5.2.35:0").expect("an address").page("/", Response::links(["/good", "/bad"]));
    let site = site.page("/good", json("\u{feff}{\"orb\": [7]}")).page("/bad", json("{\"orb\":\n 7]"));
    let (_web, root) = serve(site);
    let read = |bodies| -> Vec<Page> { quiet(&root).bodies(bodies).start_blocking().expect("it starts").collect() };
    let pages = read(argiope::DeliveredBodies::Text);
    let of = |path: &str| pages.iter().find(|page| page.url().path() == path).expect("a page");
    let good: std::collections::HashMap<String, Vec<u8>> = of("/good").json().expect("JSON");
    assert_eq!(good["orb"], [7]);
    let error = of("/bad").json::<serde_json::Value>().expect_err("broken JSON");
    assert!(error.is_input() && std::error::Error::source(&error).is_some());
    let message = error.to_string();
    assert!(message.contains("/bad") && message.contains("line 2 column 3"), "{message}");
    let pages = read(argiope::DeliveredBodies::Html);
    let page = pages.iter().find(|page| page.url().path() == "/good").expect("a page");
    let error = page.json::<serde_json::Value>().expect_err("the body was not kept");
    assert!(error.to_string().contains("DeliveredBodies::Text"), "{error}");
}

#[test]
fn a_panic_of_a_closure_is_reported_with_its_name() {
    let links = "<a href=/a>a</a><a href=/bad>bad</a><a href=/c>c</a>";
    let site = Site::http("127.5.2.36:0").expect("an address").page("/", Response::html(links));
    let (_web, root) = serve(site.fallback(Response::html("x")));
    for engine in ENGINES {
        let pages: Vec<Page> = quiet(&root)
            .configure(|config| config.engine = engine)
            .follow(|link| if link.text == "bad" { panic!("a bug in the filter") } else { true })
            .on_response(|response| if response.url().path() == "/a" { panic!("a bug in the hook") } else { true })
            .start_blocking()
            .expect("it starts")
            .collect();
        let failure = |path: &str| {
            let page = pages.iter().find(|page| page.url().path() == path).expect("a page");
            let error = page.error().unwrap_or_else(|| panic!("{engine:?} {path}"));
            (page.outcome(), error.kind, error.message.to_string())
        };
        let message = format!("the closure follow panicked: a bug in the filter (at the link to {root}bad)");
        assert_eq!(failure("/"), (Outcome::Failed, ErrorKind::Hook, message), "{engine:?}");
        let message = "the closure on_response panicked: a bug in the hook".to_owned();
        assert_eq!(failure("/a"), (Outcome::Failed, ErrorKind::Hook, message), "{engine:?}");
        assert_eq!(pages.len(), 2, "{engine:?}: links before the panic are followed");
    }
    let mut pages = quiet(&root).judge(|_, _| panic!("a bug")).start_blocking().expect("it starts");
    let error = pages.next().expect("the root").error().map(|error| error.message.to_string());
    assert_eq!(error, Some(format!("the closure judge panicked: a bug (at the link to {root}a)")));
}

#[test]
fn disabled_and_distant_fields_of_a_form_are_treated_as_in_a_browser() {
    let form = "<input name=before form=f value=1><input name=foreign form=g value=1><form id=f action=/to>\
                <select name=hint><option value='' disabled selected>Choose<option value=x>X</select>\
                <select name=first><option disabled>no<optgroup disabled><option>no</optgroup><option value=yes>Yes</select>\
                <select name=list size=4><option>a<option>b</select>\
                <select name=many multiple><option selected disabled>a<option selected>b</select>\
                <fieldset disabled><legend><input name=legend value=1></legend><input name=off value=1></fieldset>\
                <input name=other form=g value=1><datalist><input name=data value=1></datalist>\
                <input type=hidden name=lines value='a&#10;b'><input name=typed></form>";
    let site = Site::http("127.5.2.37:0").expect("an address").page("/", Response::html(form));
    let (_web, root) = serve(site);
    let page = quiet(&root).start_blocking().expect("it starts").next().expect("the root");
    let request = Request::from_form(&page, "form", [("typed", "c\nd")]).expect("a form");
    let expected = "to?before=1&first=yes&many=b&legend=1&lines=a%0D%0Ab&typed=c%0D%0Ad";
    assert_eq!(request.url().as_str(), format!("{root}{expected}"));
}
