//! Real sites: nginx serves the documentation of Python, and with `ARGIOPE_LONG` that of OpenJDK and PostgreSQL. The built
//! binary crawls it with default settings. The result is compared with the links that html5ever finds in the files. Each
//! engine also crawls the documentation of Python over HTTP/2. Needs the packages nginx-light, python3-doc, openjdk-17-doc
//! and postgresql-doc.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use argiope_practice::TestAuthority;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use serde_json::Value;
use url::Url;

/// The links of a page according to the tokenizer of html5ever.
#[derive(Default)]
struct LinkSink(RefCell<Vec<String>>);

impl TokenSink for LinkSink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
        if tag.kind != TagKind::StartTag {
            return TokenSinkResult::Continue;
        }
        let value =
            |name: &str| tag.attrs.iter().find(|attr| &*attr.name.local == name).map(|attr| attr.value.to_string());
        let rel = value("rel").unwrap_or_default().to_lowercase();
        let has_rel = |word: &str| rel.split_ascii_whitespace().any(|one| one == word);
        let target_url = match &*tag.name {
            "a" | "area" if !has_rel("nofollow") => value("href"),
            "frame" | "iframe" => value("src"),
            "link" if has_rel("next") || has_rel("prev") => value("href"),
            _ => None,
        };
        self.0.borrow_mut().extend(target_url);
        TokenSinkResult::Continue
    }
}

fn links_of(page: &str) -> Vec<String> {
    let tokenizer = Tokenizer::new(LinkSink::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(page));
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.take()
}

/// Every URL that can be reached from the root, computed from the files.
fn reachable(root: &Url, folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::from([root.to_string()]);
    let mut todo = VecDeque::from([root.clone()]);
    while let Some(url) = todo.pop_front() {
        let index = if url.path().ends_with('/') { "index.html" } else { "" };
        let Ok(file) = Url::parse(&format!("file://{}{}{index}", folder.display(), url.path())) else { continue };
        let Ok(file) = file.to_file_path() else { continue };
        if file.extension().is_none_or(|extension| extension != "html") {
            continue;
        }
        let Ok(page) = std::fs::read(&file) else { continue };
        for link in links_of(&String::from_utf8_lossy(&page)) {
            let Ok(mut target) = url.join(&link) else { continue };
            target.set_fragment(None);
            if matches!(target.scheme(), "http" | "https")
                && target.host() == root.host()
                && found.insert(target.to_string())
            {
                todo.push_back(target);
            }
        }
    }
    found
}

/// An nginx without worker processes, so that killing this process leaves none behind.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves `folder` over HTTP, or over HTTPS with HTTP/2. The certificate is signed by the authority that is written to
/// `ca.pem` in the folder `state`.
fn serve(folder: &Path, state: &Path, is_http2: bool) -> Option<(Server, u16)> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let (state, root) = (state.display(), folder.display());
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {state}/{kind};\n"))
        .collect();
    let (kind, secure) = if is_http2 {
        let authority = TestAuthority::new().ok()?;
        let (certificate, key) = authority.issue(vec!["127.0.0.1".into()]).ok()?;
        for (name, pem) in [("ca", authority.pem()), ("certificate", certificate), ("key", key)] {
            std::fs::write(format!("{state}/{name}.pem"), pem).ok()?;
        }
        (" ssl http2", format!("ssl_certificate {state}/certificate.pem; ssl_certificate_key {state}/key.pem;"))
    } else {
        ("", String::new())
    };
    let settings = format!(
        "daemon off; master_process off; pid {state}/pid; error_log {state}/error.log; events {{}}\n\
         http {{ access_log off; include /etc/nginx/mime.types; {temporary}\
         {secure} server {{ listen 127.0.0.1:{port}{kind}; root {root}; }} }}\n"
    );
    let path = format!("{state}/nginx.conf");
    std::fs::File::create(&path).and_then(|mut file| file.write_all(settings.as_bytes())).expect("settings");
    let nginx = ["/usr/sbin/nginx", "/usr/bin/nginx"].into_iter().find(|path| Path::new(path).exists())?;
    let child = Command::new(nginx).args(["-c", &path]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let server = Server(child);
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(started.elapsed() < Duration::from_secs(60), "nginx does not accept connections");
        std::thread::yield_now();
    }
    Some((server, port))
}

/// The first folder `/usr/share/doc/PACKAGE*/FRONT` that contains an `index.html`. `front` is the name of FRONT.
fn documentation(package: &str, front: &str) -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir("/usr/share/doc").ok()?.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    let is_of_package =
        |folder: &PathBuf| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(package));
    folders
        .into_iter()
        .filter(is_of_package)
        .map(|folder| folder.join(front))
        .find(|html| html.join("index.html").exists())
}

/// A site that nginx serves.
struct ServedDocs {
    folder: PathBuf,
    root: Url,
    state: tempfile::TempDir,
    _server: Server,
}

impl ServedDocs {
    fn start(package: &str, front: &str, is_http2: bool) -> Self {
        let state = tempfile::tempdir().expect("a folder");
        let folder = documentation(package, front);
        let served = folder.and_then(|folder| serve(&folder, state.path(), is_http2).map(|served| (folder, served)));
        let (folder, (_server, port)) = served.unwrap_or_else(|| panic!("nginx and the package {package}* are needed"));
        let scheme = if is_http2 { "https" } else { "http" };
        let root = Url::parse(&format!("{scheme}://127.0.0.1:{port}/")).expect("an address");
        Self { folder, root, state, _server }
    }

    /// Crawls with these flags and returns the recorded URLs. Asserts that each is recorded once and that no links were
    /// skipped as a trap. With `http`, every page must have been fetched over that version at the first attempt.
    fn crawl(&self, flags: &[&str], http: Option<&str>) -> BTreeSet<String> {
        let output = Command::new(env!("CARGO_BIN_EXE_argiope"))
            .args(["crawl", self.root.as_str(), "--jsonl", "-", "-q", "--fresh"])
            .args(flags)
            .current_dir(self.state.path())
            .output()
            .expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let records = String::from_utf8(output.stdout).expect("records are UTF-8");
        let records: Vec<Value> =
            records.lines().map(|line| serde_json::from_str(line).expect("a record is JSON")).collect();
        let pages: Vec<&Value> = records.iter().filter(|record| record["type"] == "page").collect();
        if let Some(http) = http {
            let other = pages.iter().find(|page| page["http"] != http || page["tries"] != 1);
            assert!(other.is_none(), "{flags:?}: not over HTTP/{http} at the first attempt: {other:?}");
        }
        let distinct: BTreeSet<String> =
            pages.iter().filter_map(|record| record["url"].as_str().map(str::to_owned)).collect();
        assert_eq!(distinct.len(), pages.len(), "{flags:?}: a page was recorded twice");
        let with_traps: Vec<_> = records.iter().filter(|record| !record["traps"].is_null()).collect();
        assert!(with_traps.is_empty(), "{flags:?}: links were skipped as a trap: {with_traps:?}");
        distinct
    }
}

fn assert_same(found: &BTreeSet<String>, expected: &BTreeSet<String>, what: &str) {
    let missing: Vec<_> = expected.difference(found).take(5).collect();
    let extra: Vec<_> = found.difference(expected).take(5).collect();
    assert!(missing.is_empty() && extra.is_empty(), "{what}: missing {missing:?}, too many {extra:?}");
}

/// Crawls a site with default settings and asserts that exactly the reachable pages are recorded, each once.
fn crawl(package: &str, front: &str, at_least: usize) {
    let served = ServedDocs::start(package, front, false);
    let expected = reachable(&served.root, &served.folder);
    assert!(expected.len() > at_least, "{} pages", expected.len());
    assert_same(&served.crawl(&[], None), &expected, package);
}

#[test]
#[ignore = "needs nginx, python-doc"]
fn every_reachable_page_is_recorded_once_and_no_other() {
    crawl("python3.", "html", 500);
}

#[test]
#[ignore = "needs long, nginx, postgresql-doc, openjdk-doc"]
fn large_sites_are_crawled_completely() {
    crawl("postgresql-doc-", "html", 1_000);
    // Only the folder `api`: the front page above it is a refresh, which `reachable` does not follow.
    crawl("openjdk-17-doc", "api", 10_000);
}

#[test]
#[ignore = "needs nginx, python-doc"]
fn documentation_over_http2_with_each_engine() {
    let served = ServedDocs::start("python3.", "html", true);
    let expected = reachable(&served.root, &served.folder);
    for engine in ["threads", "callbacks", "coroutines", "tokio"] {
        let found = served.crawl(&["--engine", engine, "--ca-cert", "ca.pem"], Some("2"));
        assert_same(&found, &expected, engine);
    }
}

#[test]
#[ignore = "needs nginx, python-doc, io_uring"]
fn documentation_over_http2_with_uring() {
    let served = ServedDocs::start("python3.", "html", true);
    let expected = served.crawl(&["--ca-cert", "ca.pem", "--http", "1.1"], Some("1.1"));
    let found = served.crawl(&["--engine", "uring", "--ca-cert", "ca.pem"], Some("2"));
    assert_same(&found, &expected, "uring");
}
