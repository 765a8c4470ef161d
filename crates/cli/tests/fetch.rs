//! `argiope fetch` with methods, bodies and redirects, tested with the built binary.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use argiope_practice::{PracticeWeb, Response, RunningWeb, SeenRequest, Site};

fn fetch(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.arg("fetch").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    child.wait_with_output().expect("it ends")
}

fn serve(address: &str) -> (RunningWeb, String) {
    let site = Site::http(&format!("{address}:0"))
        .expect("a loopback address")
        .page("/form", Response::html("received"))
        .page("/login", Response::redirect("/home", 303))
        .page("/again", Response::redirect("/form", 307))
        .page("/home", Response::html("<a href='/form'>a link</a>"));
    let root = site.url("/");
    let web = PracticeWeb::new().keep_headers().site(site).start().expect("the practice web starts");
    (web, root.trim_end_matches('/').to_owned())
}

fn sent(web: &RunningWeb) -> Vec<String> {
    web.log().iter().map(|seen| format!("{} {} {}", seen.method, seen.path, seen.body).trim_end().to_owned()).collect()
}

fn content_type(seen: &SeenRequest) -> Option<&str> {
    seen.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type")).map(|(_, value)| value.as_str())
}

#[test]
fn bodies_are_sent_with_their_type() {
    let (web, root) = serve("127.6.30.1");
    let url = format!("{root}/form");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "p&w\r\n").expect("a file");
    let password = format!("password=@{}", secret.display());
    for arguments in [
        vec!["--data", "a=1"],
        vec!["--data", "@-", "-H", "Content-Type: text/csv"],
        vec!["--json", "{\"q\": 1}"],
        vec!["--form", "user=m e", "--form", &password],
        vec!["-X", "put", "--data", "new"],
        vec!["-X", "DELETE"],
    ] {
        let output = fetch(&[&[&*url], &*arguments].concat(), "from stdin");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(
        sent(&web),
        [
            "POST /form a=1",
            "POST /form from stdin",
            "POST /form {\"q\": 1}",
            "POST /form user=m+e&password=p%26w",
            "PUT /form new",
            "DELETE /form",
        ]
    );
    let form = Some("application/x-www-form-urlencoded");
    let types = [form, Some("text/csv"), Some("application/json"), form, form, None];
    assert_eq!(web.log().iter().map(content_type).collect::<Vec<_>>(), types);
}

#[test]
fn redirects_are_followed_only_if_asked_for_and_links_never() {
    let (web, root) = serve("127.6.30.2");
    let login = format!("{root}/login");
    assert!(fetch(&[&login, "--form", "user=me"], "").status.success());
    assert_eq!(sent(&web), ["POST /login user=me"]);
    let output = fetch(&[&login, "-L", "--form", "user=me"], "");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("> POST /login") && text.contains("> GET /home"), "{text}");
    assert_eq!(sent(&web)[1..], ["POST /login user=me", "GET /home"]);
    assert!(fetch(&[&format!("{root}/again"), "-L", "--data", "x"], "").status.success());
    assert_eq!(sent(&web)[3..], ["POST /again x", "POST /form x"]);
}

#[test]
fn a_request_that_cannot_be_sent_is_refused_before_anything_is_sent() {
    let (web, root) = serve("127.6.30.3");
    let host = root.trim_start_matches("http://");
    for (arguments, part) in [
        (vec![&*root, "--json", "{"], "not JSON"),
        (vec![&*root, "--form", "secret"], "NAME=VALUE"),
        (vec![&*root, "--data", "@/nonexistent"], "cannot be read"),
        (vec![&*root, "-X", "BREW"], "GET, HEAD"),
        (vec![host, "--data", "x"], "https:// or http://"),
        (vec![&*root, "--data", "x", "--json", "1"], "cannot be used with"),
    ] {
        let output = fetch(&arguments, "");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("secret"), "{stderr}");
    }
    assert!(web.log().is_empty());
}
