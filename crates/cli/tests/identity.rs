//! Cookies, logins and proxies from flags, files and the environment, tested with the built binary. Secrets are not
//! written anywhere.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use argiope_practice::{PracticeProxy, PracticeWeb, Response, RunningWeb, SeenRequest, Site};

/// Removed from the environment of the command, so that the tests do not depend on the machine.
const VARIABLES: [&str; 7] =
    ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"];

fn argiope(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.current_dir(folder).stdin(Stdio::null());
    for name in VARIABLES {
        command.env_remove(name);
    }
    command
}

fn run(command: &mut Command) -> Output {
    let output = command.output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    output
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

fn serve(site: Site) -> RunningWeb {
    PracticeWeb::new().keep_headers().site(site).start().expect("the practice web starts")
}

fn header(seen: &SeenRequest, name: &str) -> Option<String> {
    seen.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
}

/// The values of a header in all requests for pages, in order.
fn header_values(web: &RunningWeb, name: &str) -> Vec<Option<String>> {
    web.log().iter().filter(|seen| seen.path != "/robots.txt").map(|seen| header(seen, name)).collect()
}

fn site(address: &str) -> Site {
    Site::http(&format!("{address}:0")).expect("a loopback address")
}

#[test]
fn cookies_of_a_file_are_sent_and_the_file_is_not_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let site = site("127.6.1.1").page("/", Response::html("x").header("Set-Cookie", "new=1"));
    let root = site.url("/");
    let web = serve(site);
    let file = "127.6.1.1\tFALSE\t/\tFALSE\t0\tid\t7\nother.example\tTRUE\t/\tFALSE\t0\tid\t8\n";
    std::fs::write(folder.path().join("cookies.txt"), file).expect("a cookie file");
    run(argiope(folder.path()).args(["crawl", &root, "--cookies", "cookies.txt"]));
    run(argiope(folder.path()).args(["fetch", &root, "--cookies", "cookies.txt"]));
    run(argiope(folder.path()).args(["fetch", &root, "--no-cookies"]));
    assert_eq!(header_values(&web, "cookie"), [Some("id=7".to_owned()), Some("id=7".to_owned()), None]);
    assert_eq!(std::fs::read_to_string(folder.path().join("cookies.txt")).expect("the file"), file);

    std::fs::write(folder.path().join("bad.txt"), "# a comment\n127.6.1.1 FALSE / FALSE 0 id 7\n").expect("a file");
    let output =
        argiope(folder.path()).args(["crawl", &root, "--cookies", "bad.txt"]).output().expect("the command runs");
    let message = stderr_of(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("bad.txt") && message.contains("line 2"), "{message}");
}

#[test]
fn secrets_are_sent_but_not_written_to_any_output() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let front = Response::links(["/next"]).header("Set-Cookie", "sid=cookie-of-the-host");
    let site =
        site("127.6.1.2").page("/", front).page("/next", Response::html("<a href='//u:link-secret@127.6.1.2/'>x</a>"));
    let (root, origin) = (site.url("/"), site.url(""));
    let web = serve(site);
    let proxy = PracticeProxy::http().login("me", "proxy-secret").start("127.6.1.3").expect("a proxy");
    std::fs::write(folder.path().join("c.txt"), "127.6.1.2\tFALSE\t/\tFALSE\t0\tid\tcookie-secret\n").expect("a file");
    let config = format!(
        "cookies = \"c.txt\"\nheader = [\"X-Key: header-secret\"]\nproxy = \"http://me:proxy-secret@{}\"\n\
         [[auth]]\norigin = \"{origin}\"\nbearer = \"token-secret\"\n",
        proxy.address()
    );
    std::fs::write(folder.path().join("a.toml"), config).expect("a file");
    let arguments =
        ["crawl", &root, "--config", "a.toml", "--warc", "--jsonl", "-", "-vv", "--out", "out", "--with", "links"];
    let output = run(argiope(folder.path()).args(arguments));
    assert_eq!(header_values(&web, "x-key"), vec![Some("header-secret".to_owned()); 2]);
    assert_eq!(header_values(&web, "authorization"), vec![Some("Bearer token-secret".to_owned()); 2]);
    assert_eq!(header_values(&web, "proxy-authorization"), [None, None]);
    let cookie = header_values(&web, "cookie");
    assert_eq!(cookie[1].as_deref(), Some("id=cookie-secret; sid=cookie-of-the-host"), "{cookie:?}");

    let mut outputs = vec![("standard output".to_owned(), output.stdout), ("standard error".to_owned(), output.stderr)];
    let mut folders = vec![folder.path().join("out")];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let mut bytes = std::fs::read(&path).expect("a file");
            if path.extension().is_some_and(|end| end == "gz") {
                let mut text = Vec::new();
                std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(bytes.as_slice()), &mut text)
                    .expect("an archive");
                assert!(String::from_utf8_lossy(&text).contains("GET /next HTTP/1.1"), "requests are archived");
                bytes = text;
            }
            outputs.push((path.display().to_string(), bytes));
        }
    }
    assert!(outputs.len() > 4, "a crawl directory has files");
    for (source, bytes) in outputs {
        let text = String::from_utf8_lossy(&bytes);
        // The last one is the start of the proxy's login in Base64: `me:`.
        for secret in ["header-secret", "token-secret", "proxy-secret", "cookie-secret", "link-secret", "bWU6"] {
            // The contents of a page are archived unchanged.
            let is_page_content = secret == "link-secret" && source.ends_with(".gz");
            assert!(is_page_content || !text.contains(secret), "{secret} in {source}");
        }
    }
}

#[test]
fn settings_with_a_password_are_refused_without_repeating_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for arguments in [
        &["crawl", "http://me:secret@127.6.1.4/"][..],
        &["crawl", "127.6.1.4", "--proxy", "gopher://me:secret@127.0.0.1:1"],
        &["crawl", "127.6.1.4", "--proxy", "http://me:secret@"],
        &["crawl", "127.6.1.4", "-H", "Proxy-Authorization: Basic secret"],
        &["fetch", "127.6.1.4", "-H", "Authorization Basic secret"],
        &["crawl", "127.6.1.4", "-H", "Authorization Basic secret:x"],
    ] {
        let output = argiope(folder.path()).args(arguments).output().expect("the command runs");
        let message = stderr_of(&output);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(!message.contains("secret") && message.starts_with("error: "), "{message}");
    }
}

#[test]
fn proxies_are_read_from_the_environment() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let site = site("127.6.1.5").page("/", Response::html("x"));
    let (root, own) = (site.url_as("far.example", "/"), site.url("/"));
    let address = site.address().ip();
    let web = serve(site);
    let proxy = PracticeProxy::http().name("far.example", address).start("127.6.1.6").expect("a proxy");
    let proxy_url = format!("http://{}", proxy.address());
    // The numbers of requests that the proxy and the server receive.
    let requested = |change: &dyn Fn(&mut Command) -> &mut Command, root: &str| {
        let before = (proxy.requests().len(), web.requests());
        let mut command = argiope(folder.path());
        change(command.args(["fetch", root, "--connect-timeout", "2s"]));
        let code = command.output().expect("the binary runs").status.code();
        let requested = (proxy.requests().len() - before.0, web.requests() - before.1);
        assert_eq!(code, Some(i32::from(requested == (0, 0))), "without a response the exit code is 1");
        requested
    };
    assert_eq!(requested(&|command| command.env("http_proxy", &proxy_url), &root), (1, 1));
    assert_eq!(requested(&|command| command.env("ALL_PROXY", &proxy_url), &root), (1, 1));
    assert_eq!(requested(&|command| command.args(["--proxy", &proxy_url]), &root), (1, 1));
    // The proxy is not used in four cases: HTTP_PROXY names it, which a request header could set in CGI; `no_proxy` names the
    // host; the host is local; `--proxy` is empty.
    assert_eq!(requested(&|command| command.env("HTTP_PROXY", &proxy_url), &own), (0, 1));
    assert_eq!(
        requested(&|command| command.env("all_proxy", &proxy_url).env("no_proxy", "far.example"), &root),
        (0, 0)
    );
    assert_eq!(requested(&|command| command.env("all_proxy", &proxy_url), &own), (0, 1));
    assert_eq!(requested(&|command| command.env("all_proxy", &proxy_url).args(["--proxy", ""]), &own), (0, 1));
}
