use super::*;
use crate::crawl::settings::Settings;

fn rules(config: Config) -> Rules {
    config.compile(7).expect("a good configuration")
}

fn config() -> Config {
    Config { roots: vec!["https://example.com/".into()], ..Config::default() }
}

fn error_message(config: Config) -> String {
    config.compile(7).expect_err("a bad configuration").to_string()
}

#[test]
fn durations_are_numbers_with_units() {
    for (text, micros) in [
        ("0", 0),
        ("0s", 0),
        ("500ms", 500_000),
        ("0.5s", 500_000),
        ("1s", 1_000_000),
        ("1.5s", 1_500_000),
        ("0.25ms", 250),
        ("5m", 300_000_000),
        ("1h", 3_600_000_000),
        ("1h30m", 5_400_000_000),
        ("1m0.5s", 60_500_000),
        ("2d", 172_800_000_000),
    ] {
        let span: Span = text.parse().unwrap();
        assert_eq!(span.0.as_micros(), micros, "{text}");
        assert_eq!(span.to_string().parse::<Span>().unwrap(), span, "{text} written as {span}");
    }
    for text in [
        "",
        " ",
        "s",
        "5",
        "-1s",
        "1e3s",
        "infs",
        "NaNs",
        "1.s",
        ".5s",
        "1..5s",
        "5 s",
        "5x",
        "1s ",
        "1/s",
        "9999999999h",
        "١s",
    ] {
        let message = text.parse::<Span>().expect_err(text).to_string();
        assert!(message.contains(&format!("{text:?}")) && message.contains("500ms, 0.5s, 5m, 1h"), "{message}");
    }
    assert_eq!(
        "5".parse::<Span>().unwrap_err().to_string(),
        "\"5\" is a duration without a unit; write a number and its unit: 500ms, 0.5s, 5m, 1h"
    );
    assert_eq!(
        "10x".parse::<Span>().unwrap_err().to_string(),
        "\"10x\" is not a duration: the unit \"x\" is unknown; write a number and its unit: 500ms, 0.5s, 5m, 1h"
    );
}

#[test]
#[allow(clippy::float_cmp)]
fn a_delay_and_a_rate_may_be_bare_numbers() {
    for (text, millis) in [("5", 5_000), ("0.5", 500), ("0", 0), ("500ms", 500), ("5m", 300_000)] {
        assert_eq!(Span::from_number(text).unwrap().0.as_millis(), millis, "{text}");
    }
    for (text, per_second) in [("10", 10.0), ("0.5", 0.5), ("30/m", 0.5)] {
        assert_eq!(Rate::from_number(text).unwrap().per_second, per_second, "{text}");
    }
    for text in ["", ".", "-1", "1e3", "1..5", "NaN"] {
        assert!(Span::from_number(text).is_err() && Rate::from_number(text).is_err(), "{text}");
    }
    for text in [r#"{"delay":5,"rate":10}"#, r#"{"delay":"5","rate":"10"}"#, r#"{"delay":5.0,"rate":"10/s"}"#] {
        let config: Config = serde_json::from_str(text).unwrap();
        assert_eq!((config.delay, config.rate.unwrap().per_second), (Span::from_secs(5), 10.0), "{text}");
    }
    assert_eq!(serde_json::from_str::<Config>(r#"{"rate":null}"#).unwrap().rate, None);
    assert!(serde_json::from_str::<Config>(r#"{"timeout":5}"#).is_err());
}

#[test]
fn sizes_are_bytes_or_have_a_letter() {
    for (text, bytes) in [
        ("0", 0),
        ("32", 32),
        ("64K", 65_536),
        ("64k", 65_536),
        ("64KB", 65_536),
        ("64KiB", 65_536),
        ("10M", 10 << 20),
        ("1.5M", 3 << 19),
        ("1G", 1 << 30),
        ("2T", 2 << 40),
        ("7B", 7),
    ] {
        let size: Size = text.parse().unwrap();
        assert_eq!(size.0, bytes, "{text}");
        assert_eq!(size.to_string().parse::<Size>().unwrap(), size);
    }
    for text in ["", "M", "-1", "1 M", "10X", "10Mi5", "1M2K", "9999999T", "1,5M", "i", "KK"] {
        let message = text.parse::<Size>().expect_err(text).to_string();
        assert!(message.contains(&format!("{text:?}")) && message.contains("64K, 10M, 1G"), "{message}");
    }
    assert_eq!(Size(10 << 20).to_string(), "10M");
    assert_eq!(Size(1000).to_string(), "1000");
}

#[test]
#[allow(clippy::float_cmp)]
fn rates_are_pages_over_time() {
    assert_eq!("10/s".parse::<Rate>().unwrap().per_second, 10.0);
    assert_eq!("0.5/s".parse::<Rate>().unwrap().per_second, 0.5);
    assert_eq!("30/m".parse::<Rate>().unwrap().per_second, 0.5);
    for text in ["", "10", "10s", "0/s", "-1/s", "10/x", "10/s/s", "10/ss", "/s"] {
        let message = text.parse::<Rate>().expect_err(text).to_string();
        assert!(message.contains("10/s, 30/m"), "{message}");
    }
}

#[test]
fn headers_are_checked_and_debug_output_omits_their_values() {
    let line: HeaderLine = "X-Key:  secret ".parse().unwrap();
    assert_eq!((&*line.name, &*line.value), ("X-Key", "secret"));
    assert_eq!(format!("{line:?}"), "X-Key: …");
    for text in ["X-Key", ": v", "a b: c", "X: a\r\nY: b", "Host: x", "content-length: 3", "User-Agent: me", "Ä: b"] {
        assert!(text.parse::<HeaderLine>().is_err(), "{text}");
    }
}

#[test]
fn resolve_has_the_syntax_of_curl() {
    let one: Resolve = "Example.COM:443:192.0.2.7".parse().unwrap();
    assert_eq!((&*one.host, one.port, one.addresses.len()), ("example.com", 443, 1));
    let two: Resolve = "h:80:192.0.2.7,[2001:db8::1]".parse().unwrap();
    assert_eq!(two.addresses.len(), 2);
    assert_eq!(two.to_string().parse::<Resolve>().unwrap(), two);
    assert!("h:80:2001:db8::1".parse::<Resolve>().is_ok());
    for text in [
        "",
        "h",
        "h:80",
        "h:80:",
        "h:0:192.0.2.7",
        "h:99999:192.0.2.7",
        "h:x:192.0.2.7",
        "a b:80:192.0.2.7",
        "h:80:name",
    ] {
        let message = text.parse::<Resolve>().expect_err(text).to_string();
        assert!(message.contains("HOST:PORT:ADDR"), "{message}");
    }
}

#[test]
fn the_message_about_an_unknown_word_lists_the_valid_ones() {
    assert_eq!(
        "fast".parse::<Pace>().unwrap_err().to_string(),
        "\"fast\" is not known; write one of: gentle steady full"
    );
    for word in ScopeKind::WORDS {
        assert_eq!(word.parse::<ScopeKind>().unwrap().as_str(), *word);
    }
}

#[test]
fn roots_may_omit_the_scheme() {
    let cases: &[(&str, &[&str])] = &[
        ("https://example.com", &["https://example.com/"]),
        ("HTTP://Example.com:80/a#b", &["http://example.com/a"]),
        (" example.com ", &["https://example.com/", "http://example.com/"]),
        ("example.com/docs?x=1", &["https://example.com/docs?x=1", "http://example.com/docs?x=1"]),
        ("localhost:8080/x", &["https://localhost:8080/x", "http://localhost:8080/x"]),
        ("[::1]:8080", &["https://[::1]:8080/", "http://[::1]:8080/"]),
        ("//example.com/", &["https://example.com/", "http://example.com/"]),
        ("bücher.example", &["https://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"]),
    ];
    for (text, expected) in cases {
        let root = Root::parse(text, 4096).unwrap();
        let candidates: Vec<&str> = root.candidates.iter().map(Url::as_str).collect();
        assert_eq!(&candidates, expected, "{text}");
    }
    for text in [
        "",
        "  ",
        "/path",
        "ftp://example.com/",
        "mailto:me@example.com",
        "htp://x",
        "http://",
        "not a url",
        "http://[::1",
        "example.com:99999",
        "?q",
        "javascript:alert(1)",
        "./file.html",
    ] {
        let error = Root::parse(text, 4096).expect_err(text);
        assert_eq!((error.key, error.value.as_str()), ("roots", text));
        assert!(error.problem.contains("https://example.com/"), "{error}");
    }
}

#[test]
fn a_password_in_a_root_is_refused_and_not_repeated() {
    let error = Root::parse("https://me:secret@example.com/a", 4096).unwrap_err();
    assert!(error.problem.contains("the setting user"));
    assert!(!error.to_string().contains("secret"), "{error}");
    assert!(Root::parse("https://example.com/@me", 4096).is_ok());
}

#[test]
fn defaults_are_the_documented_ones() {
    let rules = rules(config());
    assert_eq!((rules.scope_kind, rules.pace, rules.robots), (ScopeKind::Host, Pace::Steady, RobotsPolicy::Obey));
    assert_eq!((rules.concurrency, rules.per_host, rules.per_ip), (256, 6, Some(12)));
    assert_eq!((rules.max_tries, rules.max_redirects, rules.max_url, rules.max_links), (4, 10, 4096, 10_000));
    assert_eq!((rules.max_size, rules.max_head, rules.min_rate), (10 << 20, 256 << 10, 32));
    let seconds = [
        rules.timeout,
        rules.connect_timeout,
        rules.idle_timeout,
        rules.retry_wait,
        rules.max_crawl_delay,
        rules.drain_time,
    ];
    assert_eq!(seconds.map(|span| span.as_secs()), [60, 10, 20, 1, 60, 30]);
    assert_eq!(rules.sitemaps, Sitemaps::Named);
    assert!(
        rules.user_agent.starts_with("argiope/") && rules.user_agent.contains("(+https://"),
        "{}",
        rules.user_agent
    );
    assert_eq!(&*rules.agent_token, "argiope");
    assert_eq!(rules.fingerprint_key, 7);
}

#[test]
fn connection_limits_depend_on_the_pace() {
    let widths = |pace, concurrency, per_host, per_ip| {
        let rules = rules(Config { pace, concurrency, per_host, per_ip, ..config() });
        (rules.per_host, rules.per_ip)
    };
    assert_eq!(widths(Pace::Full, 200, None, None), (200, Some(200)));
    assert_eq!(widths(Pace::Full, 200, Some(9), None), (9, Some(12)));
    assert_eq!(widths(Pace::Steady, 3, None, None), (3, Some(12)));
    assert_eq!(widths(Pace::Steady, 256, Some(40), Some(0)), (40, None));
    assert_eq!(widths(Pace::Gentle, 256, Some(40), Some(5)), (1, Some(5)));
}

#[test]
fn contradictory_and_invalid_settings_are_refused() {
    let refused: Vec<(&str, Config)> = vec![
        ("roots", Config::default()),
        ("sitemap", Config { sitemap: true, no_sitemap: true, ..config() }),
        ("concurrency", Config { concurrency: 0, ..config() }),
        ("per-host", Config { per_host: Some(0), ..config() }),
        ("max-tries", Config { max_tries: 0, ..config() }),
        ("max-pages", Config { max_pages: Some(0), ..config() }),
        ("max-pages-per-host", Config { max_pages_per_host: Some(0), ..config() }),
        ("trap-budget", Config { trap_budget: 0, ..config() }),
        ("max-memory", Config { max_memory: Some(Size(1 << 10)), ..config() }),
        ("max-time", Config { max_time: Some(Span::default()), ..config() }),
        ("timeout", Config { timeout: Span::default(), ..config() }),
        ("max-head", Config { max_head: Size(10), ..config() }),
        ("max-url", Config { max_url: 70_000, ..config() }),
        ("cert", Config { cert: Some("a.pem".into()), ..config() }),
        ("key", Config { key: Some("a.pem".into()), ..config() }),
        ("proxy", Config { proxy: Some("ftp://nonsense".into()), ..config() }),
        ("user-agent", Config { user_agent: Some("a\r\nb".into()), ..config() }),
        ("user-agent", Config { user_agent: Some("(nameless)".into()), ..config() }),
        ("contact", Config { contact: Some(String::new()), ..config() }),
        ("strip-param", Config { strip_param: vec!["a=b".into()], ..config() }),
        ("strip-param", Config { strip_param: vec!["@order".into(), "@foo".into()], ..config() }),
        ("exclude", Config { exclude: vec!["ok".into(), "(".into()], ..config() }),
        ("include", Config { include: vec!["a{1000}{1000}{1000}".into()], ..config() }),
    ];
    for (key, config) in refused {
        let error = config.compile(0).expect_err(key);
        assert_eq!(error.key, key, "{error}");
        assert!(!error.problem.contains('\n'), "one line: {error}");
    }
    assert_eq!(
        error_message(Config { max_memory: Some(Size(1 << 10)), ..config() }),
        "max-memory \"1K\": too little for any crawl; write a size from 32K on, such as 1G"
    );
    assert_eq!(
        error_message(Config { strip_param: vec!["@foo".into()], ..config() }),
        "strip-param \"@foo\": this group is unknown; the groups are @sessions, @tracking, @order"
    );
    assert_eq!(
        error_message(Config { include: vec!["a(b".into()], ..config() }),
        r#"include "a(b": not a regular expression: unclosed group; write one such as '/docs/' or '\.pdf$'"#
    );
}

#[test]
fn secrets_are_sent_only_to_the_origins_of_roots() {
    let rules = rules(Config {
        roots: vec!["https://example.com:8443/".into(), "bare.example".into()],
        header: vec!["X-Key: 1".parse().unwrap()],
        user: Some("me:pass".parse().unwrap()),
        ..Config::default()
    });
    let headers = |url: &str| rules.headers_for(&Url::parse(url).unwrap()).len();
    assert_eq!(headers("https://example.com:8443/deep"), 2);
    assert_eq!(headers("https://bare.example/"), 2);
    for other in ["https://example.com/", "http://example.com:8443/", "https://other.example/", "http://bare.example/"]
    {
        assert_eq!(headers(other), 0, "{other}");
    }
    let seen = rules.headers_for(&Url::parse("https://bare.example/").unwrap());
    assert!(seen.contains(&("Authorization", "Basic bWU6cGFzcw==")));
    assert!(!format!("{rules:?}").contains("bWU6cGFzcw"), "a secret in debug output");
}

#[test]
fn a_login_for_one_origin_replaces_the_general_one() {
    let login =
        |origin: &str, bearer: &str| Login { origin: origin.into(), user: None, bearer: Some(bearer.parse().unwrap()) };
    let config = Config {
        roots: vec!["https://example.com/".into()],
        header: vec!["authorization: general".parse().unwrap(), "X-Key: 1".parse().unwrap()],
        auth: vec![login("https://example.com", "a"), login("http://other.example:81/", "b")],
        ..Config::default()
    };
    let rules = rules(config.clone());
    let headers = |url: &str| rules.headers_for(&Url::parse(url).unwrap());
    assert_eq!(headers("https://example.com/x"), [("X-Key", "1"), ("Authorization", "Bearer a")]);
    assert_eq!(headers("http://other.example:81/"), [("Authorization", "Bearer b")]);
    assert!(headers("http://other.example/").is_empty() && headers("http://example.com/").is_empty());
    assert!(!format!("{config:?}{rules:?}").contains("Bearer"));
    assert!(!serde_json::to_string(&config).unwrap().contains("other.example"));
    let bad = |auth: Vec<Login>| {
        let config = Config { auth, ..config.clone() };
        assert_eq!(config.compile(0).expect_err("no login").key, "auth");
    };
    bad(vec![login("example.com", "a")]);
    bad(vec![login("https://example.com/path", "a")]);
    bad(vec![login("https://a", "a"), login("https://a:443", "b")]);
    bad(vec![Login { origin: "https://a".into(), ..Login::default() }]);
    bad(vec![Login { user: Some("a:b".parse().unwrap()), ..login("https://a", "a") }]);
    assert!("a b".parse::<Bearer>().is_err() && "".parse::<Bearer>().is_err());
}

#[test]
fn private_addresses_are_allowed_only_for_named_hosts() {
    let config = Config {
        roots: vec!["http://127.0.0.1:8080/".into(), "intranet".into()],
        resolve: vec!["a.example:81:10.0.0.1".parse().unwrap()],
        ..Config::default()
    };
    let some = rules(config.clone());
    for (host, port) in [("127.0.0.1", 8080), ("intranet", 443), ("intranet", 80), ("a.example", 81)] {
        assert!(some.allows_private(host, port, PartAccess::SameOrigin), "{host}:{port}");
    }
    for (host, port) in [("127.0.0.1", 80), ("intranet", 8080), ("a.example", 80), ("b.example", 81)] {
        assert!(!some.allows_private(host, port, PartAccess::SameOrigin), "{host}:{port}");
    }
    assert!(!some.allows_private("b.example", 80, PartAccess::Other), "a page of another origin is not the user");
    assert!(rules(Config { allow_private: true, ..config }).allows_private("b.example", 81, PartAccess::Other));
}

#[test]
fn the_user_agent_has_a_name_and_a_contact() {
    let agent = |user_agent: Option<&str>, contact: Option<&str>| {
        let config = Config { user_agent: user_agent.map(Into::into), contact: contact.map(Into::into), ..config() };
        let rules = rules(config);
        (rules.user_agent.to_string(), rules.agent_token.to_string())
    };
    assert!(agent(None, Some("mailto:me@x.example")).0.ends_with(" (+mailto:me@x.example)"));
    assert_eq!(agent(Some("mybot/2.0 (hello)"), None), ("mybot/2.0 (hello)".into(), "mybot".into()));
    assert_eq!(agent(Some("mybot"), Some("c")), ("mybot (+c)".into(), "mybot".into()));
}

#[test]
fn equal_roots_are_merged() {
    let config = Config { roots: vec!["http://a.example".into(), "http://a.example/#x".into()], ..Config::default() };
    assert_eq!(rules(config).roots.len(), 1);
}

#[test]
fn keys_are_the_flags_and_unknown_ones_are_refused() {
    let keys = <Config as Settings>::keys();
    for key in ["roots", "max-pages", "delay", "concurrency", "robots", "per-host", "user", "log-skips"] {
        assert!(keys.contains(&key), "{key} is missing in {keys:?}");
    }
    let text = r#"{"delay":"0.5s","max-size":"1M","max-head":4096,"rate":"10/s","with":["links"],"pace":"full","concurrency":9}"#;
    let config: Config = serde_json::from_str(text).unwrap();
    assert_eq!((config.delay, config.max_size, config.max_head), (Span::from_millis(500), Size(1 << 20), Size(4096)));
    assert_eq!((config.with.as_slice(), config.pace, config.concurrency), (&[With::Links][..], Pace::Full, 9));
    assert!(serde_json::from_str::<Config>(r#"{"detph":3}"#).is_err());
    let error = serde_json::from_str::<Config>(r#"{"delay":"soon"}"#).unwrap_err().to_string();
    assert!(error.contains("\"soon\" is not a duration"), "{error}");
}

#[test]
fn settings_can_be_written_and_read_back_without_secrets() {
    let config = Config {
        user: Some("me:pass".parse().unwrap()),
        header: vec!["X-Key: pass".parse().unwrap()],
        resolve: vec!["h:80:[::1]".parse().unwrap()],
        rate: Some("10/s".parse().unwrap()),
        with: vec![With::Links],
        depth: Some(3),
        ..config()
    };
    let text = serde_json::to_string(&config).unwrap();
    assert!(!text.contains("pass"), "{text}");
    let back: Config = serde_json::from_str(&text).unwrap();
    assert_eq!(back, Config { user: None, header: Vec::new(), ..config });
}

#[test]
fn only_named_roots_get_secrets_and_may_be_private() {
    let config = Config {
        roots: vec!["http://planted.example/".into(), "http://10.0.0.1/".into(), "https://named.example/".into()],
        header: vec!["X-Key: secret".parse().unwrap()],
        cert: Some("cert.pem".into()),
        key: Some("key.pem".into()),
        ..Config::default()
    };
    let compile = |named: Option<&[&str]>| {
        let parse = |root: &&str| super::Root::parse(root, 4_096).unwrap();
        let named_roots = named.map(|roots| roots.iter().map(parse).collect());
        let program = super::ProgramSettings { named_roots, ..Default::default() };
        config.compile_in(super::Environment::default(), program).unwrap()
    };
    let url = |text| Url::parse(text).unwrap();
    let (planted, named) = (url("http://planted.example/"), url("https://named.example/"));
    let rules = compile(Some(&["https://named.example/"]));
    assert!(rules.headers_for(&planted).is_empty() && !rules.sends_client_certificate_to(&planted));
    assert!(!rules.headers_for(&named).is_empty() && rules.sends_client_certificate_to(&named));
    assert!(
        !rules.allows_private("10.0.0.1", 80, PartAccess::SameOrigin)
            && rules.allows_private("named.example", 443, PartAccess::SameOrigin)
    );
    assert_eq!(rules.roots.len(), 3, "all are crawled");
    let rules = compile(Some(&[]));
    assert!(rules.headers_for(&named).is_empty());
    let rules = compile(None);
    assert!(!rules.headers_for(&planted).is_empty() && rules.allows_private("10.0.0.1", 80, PartAccess::SameOrigin));
}
