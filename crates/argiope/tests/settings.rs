//! No setting is silently ignored, and messages use the names of the library.

use argiope::{Config, Crawl, CrawlBuilder, Outcome, Pace, RobotsPolicy, TlsFault};
use argiope_practice::{CertificateKind, PracticeWeb, Response, RunningWeb, Site};

fn serve(address: &str) -> (RunningWeb, String) {
    let site = Site::http(address).expect("a loopback address").page("/", Response::links(["/a"]));
    let site = site.page("/a", Response::html("a"));
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("the practice web starts"), root)
}

#[test]
fn settings_that_are_invalid_or_have_no_effect_are_errors() {
    type Set = fn(CrawlBuilder) -> CrawlBuilder;
    let cases: [(&str, Set); 14] = [
        ("fresh", |builder| builder.fresh()),
        ("recrawl", |builder| builder.recrawl()),
        ("jsonl", |builder| builder.configure(|config| config.jsonl = Some("out.jsonl".into()))),
        ("warc", |builder| builder.configure(|config| config.warc = true)),
        ("max_disk", |builder| builder.configure(|config| config.max_disk = Some(argiope::config::Size(1 << 30)))),
        ("log_skips", |builder| builder.configure(|config| config.log_skips = true)),
        ("recrawl", |builder| builder.directory("never.crawl").fresh().recrawl()),
        ("per_host", |builder| builder.pace(Pace::Gentle).configure(|config| config.per_host = Some(2))),
        ("cookies", |builder| {
            builder.configure(|config| (config.no_cookies, config.cookies) = (true, Some("c.txt".into())))
        }),
        ("sitemap", |builder| builder.sitemap().no_sitemap()),
        ("max_pages", |builder| builder.max_pages(0)),
        ("roots", |builder| builder.root("https://me:secret@example.com/")),
        ("header", |builder| builder.header("User-Agent", "x")),
        ("max_memory", |builder| builder.max_memory(1)),
    ];
    for (key, set) in cases {
        let error = set(Crawl::builder("http://127.5.1.9/")).start_blocking().expect_err(key);
        assert!(error.is_config(), "{key}: {error}");
        assert_eq!(error.as_config().map(|error| error.key), Some(key), "{error}");
        assert!(!error.to_string().contains("--"), "{key}: names of flags: {error}");
    }
    assert!(!std::path::Path::new("never.crawl").exists(), "settings are checked before the directory is created");
}

#[test]
fn settings_that_agree_are_accepted() {
    let (_web, root) = serve("127.5.3.1:0");
    let set = |config: &mut Config| (config.pace, config.per_host) = (Pace::Gentle, Some(1));
    Crawl::builder(&root).max_pages(1).configure(set).start_blocking().expect("settings that agree").count();
}

/// The same program can run every day: first a new directory, then a finished crawl.
#[test]
fn with_recrawl_the_first_run_crawls_and_later_runs_request_all_pages_again() {
    let (web, root) = serve("127.5.3.2:0");
    let folder = tempfile::tempdir().expect("a folder");
    let daily = |recrawl: bool| {
        let builder = Crawl::builder(&root).robots(RobotsPolicy::Ignore).directory(folder.path().join("daily.crawl"));
        let builder = if recrawl { builder.recrawl() } else { builder };
        let mut pages = builder.start_blocking().expect("it starts");
        let count = pages.by_ref().count();
        pages.close().expect("it ends well");
        count
    };
    assert_eq!([daily(true), daily(true), daily(false)], [2, 2, 0]);
    assert_eq!(web.requests(), 4);
}

/// As the command does: while no root has led to a page, every run requests the failed roots again.
#[test]
fn a_failed_root_is_requested_again_until_it_leads_to_a_page() {
    let site = Site::http("127.5.3.4:0").expect("a loopback address");
    let site = site.fail_times("/", 1, Response::status(404), Response::html("a page"));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let folder = tempfile::tempdir().expect("a folder");
    let run = || {
        let builder = Crawl::builder(&root).robots(RobotsPolicy::Ignore).directory(folder.path().join("d.crawl"));
        let mut pages = builder.start_blocking().expect("it starts");
        let found: Vec<_> = pages.by_ref().map(|page| page.status()).collect();
        pages.close().expect("it ends well");
        found
    };
    assert_eq!([run(), run(), run()], [vec![Some(404)], vec![Some(200)], vec![]]);
}

#[test]
fn messages_name_methods_of_the_builder_in_place_of_flags() {
    let (_web, root) = serve("127.5.3.3:0");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "x").expect("it can be written");
    let error = Crawl::builder(&root).directory(&file).start_blocking().expect_err("a file");
    assert!(error.is_store() && error.to_string().ends_with("use another `directory`"), "{error}");
    let directory = folder.path().join("d.crawl");
    let start = |policy| Crawl::builder(&root).robots(policy).directory(&directory).start_blocking();
    let mut pages = start(RobotsPolicy::Ignore).expect("it starts");
    let locked = start(RobotsPolicy::Ignore).expect_err("another crawl uses it");
    assert!(locked.is_store() && !locked.to_string().contains("--"), "{locked}");
    pages.by_ref().count();
    pages.close().expect("it ends well");
    let other = start(RobotsPolicy::Obey).expect_err("another policy").to_string();
    assert!(other.contains("use another `directory`, or `fresh` to start over"), "{other}");
    let mut private = Crawl::builder(&root).bodies(argiope::DeliveredBodies::None).start_blocking().expect("it starts");
    private.feed(["http://10.0.0.1/"]).expect("a URL");
    let refused = private.find(|page| page.url().as_str() == "http://10.0.0.1/").expect("a page");
    let message = refused.error().map(|failure| failure.message.to_string()).unwrap_or_default();
    assert!(message.contains("`allow_private`"), "{message}");
}

#[test]
fn a_root_without_a_scheme_fails_with_its_certificate_in_the_words_of_the_library() {
    let site = Site::https("127.5.1.30:0", CertificateKind::SelfSigned).expect("a loopback address");
    let root = site.address().to_string();
    let web = PracticeWeb::new().site(site.page("/", Response::html("x"))).start().expect("the practice web starts");
    let pages: Vec<_> = Crawl::builder(&root).start_blocking().expect("the crawl starts").collect();
    let [page] = &pages[..] else { panic!("expected no page over http: {}", pages.len()) };
    let failure = page.error().expect("a failure").clone();
    assert_eq!(page.outcome(), Outcome::Failed);
    assert_eq!(failure.tls, Some(TlsFault::Untrusted));
    assert!(failure.message.contains("`ca_cert` trusts its authority, `insecure` skips"), "{failure}");
    assert_eq!(web.requests(), 0);
}
