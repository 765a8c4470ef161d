//! HTTP/2 with independent servers: nginx and nghttpd. Every page must be recorded once, even if the server limits its
//! streams or closes its connections. Needs the packages nginx-light and nghttp2-server.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use argiope_practice::{PracticeProxy, TestAuthority};
use serde_json::Value;

const PAGES: usize = 60;
const ENGINES: [&str; 5] = ["threads", "callbacks", "coroutines", "tokio", "uring"];

/// A folder with a small site, a certificate, and room for the server's files.
struct ServerFolder {
    folder: tempfile::TempDir,
    ca: PathBuf,
}

impl ServerFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let site = folder.path().join("site");
        std::fs::create_dir(&site).expect("a folder");
        let links: String = (0..PAGES).map(|page| format!("<a href=\"/p{page}.html\">{page}</a>")).collect();
        write(&site.join("index.html"), &links);
        for page in 0..PAGES {
            write(&site.join(format!("p{page}.html")), &format!("<title>{page}</title>{}", "<p>text</p>".repeat(200)));
        }
        let authority = TestAuthority::new().expect("an authority");
        let (certificate, key) = authority.issue(vec!["127.0.0.1".into()]).expect("a certificate");
        write(&folder.path().join("certificate.pem"), &certificate);
        write(&folder.path().join("key.pem"), &key);
        let ca = folder.path().join("ca.pem");
        write(&ca, &authority.pem());
        Self { folder, ca }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts nginx with a server on each of these ports, with these directives. With a master process, the
    /// configuration can be reloaded. nginx ends with the thread that started it (`setpriv --pdeathsig`).
    fn nginx(&self, servers: &[(u16, &str)], has_master: bool) -> Server {
        let folder = self.folder.path().display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {folder}/{kind}; "))
            .collect();
        let servers: String = servers
            .iter()
            .map(|(port, more)| format!("server {{ listen 127.0.0.1:{port} ssl http2; root {folder}/site; {more} }}\n"))
            .collect();
        let master = if has_master { "on" } else { "off" };
        write(
            &self.path("nginx.conf"),
            &format!(
                "daemon off; user root; worker_processes 1; master_process {master}; pid {folder}/pid;\n\
                 error_log {folder}/error.log; events {{}}\n\
                 http {{ include /etc/nginx/mime.types; {temporary}\n\
                 log_format plain '$connection $server_protocol $status $uri'; access_log {folder}/access.log plain;\n\
                 ssl_certificate {folder}/certificate.pem; ssl_certificate_key {folder}/key.pem;\n{servers} }}\n"
            ),
        );
        let nginx = program("nginx");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(nginx).arg("-e").arg(self.path("error.log"));
        command.arg("-c").arg(self.path("nginx.conf"));
        Server::start(command)
    }

    /// The lines of nginx's log: connection, protocol, status, path.
    fn log(&self) -> Vec<(u64, String, u16, String)> {
        let text = std::fs::read_to_string(self.path("access.log")).expect("a log");
        text.lines()
            .filter_map(|line| {
                let mut words = line.split(' ');
                let connection = words.next()?.parse().ok()?;
                Some((connection, words.next()?.into(), words.next()?.parse().ok()?, words.next()?.into()))
            })
            .collect()
    }

    fn crawl(&self, engine: &str, roots: &[String], flags: &[&str]) -> Crawl {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        command.args(["crawl", "-q", "--jsonl", "-", "--pace", "full", "--robots", "ignore", "--engine", engine]);
        command.args(["--retry-wait", "100ms", "--fresh", "-d"]).arg(self.path(&format!("{engine}.crawl")));
        command.arg("--ca-cert").arg(&self.ca).args(flags).args(roots);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Crawl(child.expect("the binary runs"))
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// The path of an installed program.
fn program(name: &str) -> PathBuf {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    let found = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is needed"))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

/// A foreign server.
struct Server(Child);

impl Server {
    fn start(mut command: Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.expect("the server starts"))
    }

    /// Waits until the server accepts connections.
    fn wait_until_ready(self, port: u16) -> Self {
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "the server does not accept connections");
            std::thread::yield_now();
        }
        self
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.0.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Not SIGKILL: a master process must have the chance to end its workers.
        self.signal("-TERM");
        let _ = self.0.wait();
    }
}

/// A crawl in progress.
struct Crawl(Child);

impl Crawl {
    /// Waits for the end of the crawl and returns the records of its pages.
    fn pages(mut self) -> Vec<Value> {
        let mut text = String::new();
        let mut output = self.0.stdout.take().expect("piped");
        output.read_to_string(&mut text).expect("records are UTF-8");
        let output = self.0.wait_with_output().expect("the process ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a record is JSON"));
        records.filter(|record| record["type"] == "page").collect()
    }
}

/// Asserts that every page of the site is recorded once, complete, and fetched over this version of HTTP.
fn assert_complete(pages: &[Value], http: &str, engine: &str) {
    let urls: BTreeSet<&str> = pages.iter().filter_map(|page| page["url"].as_str()).collect();
    assert_eq!((pages.len(), urls.len()), (PAGES + 1, PAGES + 1), "{engine}");
    for page in pages {
        let facts = (&page["outcome"], &page["http"], &page["truncated"]);
        assert_eq!(facts, (&Value::from("ok"), &Value::from(http), &Value::Null), "{engine}: {page}");
    }
}

fn root(port: u16) -> Vec<String> {
    vec![format!("https://127.0.0.1:{port}/")]
}

#[test]
#[ignore = "needs nginx, setpriv"]
fn nginx_that_ends_connections_after_ten_requests() {
    let (server_folder, port) = (ServerFolder::new(), free_port());
    let _server = server_folder.nginx(&[(port, "keepalive_requests 10;")], false).wait_until_ready(port);
    for engine in ENGINES {
        assert_complete(&server_folder.crawl(engine, &root(port), &[]).pages(), "2", engine);
    }
    let log = server_folder.log();
    let connections: BTreeSet<u64> = log.iter().map(|(connection, ..)| *connection).collect();
    // nginx sends GOAWAY with the tenth request and refuses later ones: none is lost, none is answered twice.
    assert!(connections.len() >= ENGINES.len() * PAGES / 10, "{} connections", connections.len());
    assert_eq!(log.len(), ENGINES.len() * (PAGES + 1));
}

#[test]
#[ignore = "needs nginx, setpriv"]
fn nginx_that_allows_one_stream() {
    let (server_folder, port) = (ServerFolder::new(), free_port());
    let _server = server_folder.nginx(&[(port, "http2_max_concurrent_streams 1;")], false).wait_until_ready(port);
    for engine in ENGINES {
        let pages = server_folder.crawl(engine, &root(port), &["--per-host", "6"]).pages();
        assert_complete(&pages, "2", engine);
        assert!(pages.iter().all(|page| page["tries"] == 1), "{engine}: a stream was refused");
    }
}

#[test]
#[ignore = "needs nginx, setpriv"]
fn nginx_that_reloads_while_it_is_crawled() {
    let (server_folder, port) = (ServerFolder::new(), free_port());
    // Each page takes a tenth of a second, so that streams are open whenever a worker is replaced.
    let server = server_folder.nginx(&[(port, "limit_rate 20k; limit_rate_after 200;")], true).wait_until_ready(port);
    for engine in ENGINES {
        let before = std::fs::read_to_string(server_folder.path("access.log")).map_or(0, |text| text.lines().count());
        let crawl = server_folder.crawl(engine, &root(port), &["--per-host", "4"]);
        for pages in [5, 20, 40] {
            let started = Instant::now();
            while server_folder.log().len() < before + pages {
                assert!(started.elapsed() < Duration::from_secs(60), "{engine}: no progress");
                std::thread::sleep(Duration::from_millis(5));
            }
            server.signal("-HUP");
        }
        let pages = crawl.pages();
        assert_complete(&pages, "2", engine);
        assert!(pages.iter().all(|page| page["tries"] == 1), "{engine}: GOAWAY counted as an attempt");
    }
}

#[test]
#[ignore = "needs nginx, setpriv"]
fn nginx_that_misdirects_http2_on_one_of_two_ports() {
    let (server_folder, ports) = (ServerFolder::new(), [free_port(), free_port()]);
    let misdirects = "if ($server_protocol = \"HTTP/2.0\") { return 421; }";
    let _server = server_folder.nginx(&[(ports[0], misdirects), (ports[1], "")], false).wait_until_ready(ports[1]);
    for engine in ENGINES {
        let roots = [root(ports[0]), root(ports[1])].concat();
        let pages = server_folder.crawl(engine, &roots, &[]).pages();
        let pages_of = |port: u16| -> Vec<Value> {
            let origin = format!("https://127.0.0.1:{port}/");
            let is_of_port = |page: &&Value| page["url"].as_str().is_some_and(|url| url.starts_with(&origin));
            pages.iter().filter(is_of_port).cloned().collect()
        };
        assert_complete(&pages_of(ports[0]), "1.1", engine);
        assert_complete(&pages_of(ports[1]), "2", engine);
    }
    let misdirected = server_folder.log().iter().filter(|(_, _, status, _)| *status == 421).count();
    // Requests in flight when the first 421 arrives may be misdirected too, at most twelve in each crawl. Later ones use
    // HTTP/1.1.
    assert!(misdirected <= ENGINES.len() * 12, "{misdirected} requests were misdirected");
}

#[test]
#[ignore = "needs nginx, setpriv"]
fn nginx_through_a_connect_proxy() {
    let (server_folder, port) = (ServerFolder::new(), free_port());
    let _server = server_folder.nginx(&[(port, "")], false).wait_until_ready(port);
    let proxy = PracticeProxy::http().start("127.0.0.1").expect("a proxy");
    let address = format!("http://{}", proxy.address());
    for engine in ENGINES {
        let pages = server_folder.crawl(engine, &root(port), &["--proxy", &address]).pages();
        assert_complete(&pages, "2", engine);
    }
    assert!(!proxy.requests().is_empty());
}

#[test]
#[ignore = "needs nghttpd, setpriv"]
fn nghttpd_with_and_without_tls() {
    let (server_folder, ports) = (ServerFolder::new(), [free_port(), free_port()]);
    let nghttpd = |flags: &[&str], port: u16, tls_files: &[PathBuf]| {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(program("nghttpd"));
        // At most 20 concurrent streams.
        command.args(["-a", "127.0.0.1", "-m", "20", "-d"]);
        command.arg(server_folder.path("site")).args(flags).arg(port.to_string()).args(tls_files);
        Server::start(command).wait_until_ready(port)
    };
    let _plain = nghttpd(&["--no-tls"], ports[0], &[]);
    let _secure = nghttpd(&[], ports[1], &[server_folder.path("key.pem"), server_folder.path("certificate.pem")]);
    for engine in ENGINES {
        let pages = server_folder.crawl(engine, &[format!("http://127.0.0.1:{}/", ports[0])], &["--http", "2"]).pages();
        assert_complete(&pages, "2", engine);
        assert_complete(&server_folder.crawl(engine, &root(ports[1]), &[]).pages(), "2", engine);
    }
}

#[test]
#[ignore = "needs nghttpd, setpriv"]
fn fetch_prints_the_http_version_of_the_exchange() {
    let (server_folder, port) = (ServerFolder::new(), free_port());
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]).arg(program("nghttpd")).args(["-a", "127.0.0.1", "--no-tls", "-d"]);
    command.arg(server_folder.path("site")).arg(port.to_string());
    let _server = Server::start(command).wait_until_ready(port);
    let fetched = Command::new(env!("CARGO_BIN_EXE_argiope"))
        .args(["fetch", "--http", "2", &format!("http://127.0.0.1:{port}/p1.html")])
        .output()
        .expect("the binary runs");
    let text = String::from_utf8_lossy(&fetched.stdout);
    assert!(text.contains("\n> GET /p1.html HTTP/2\n") && text.contains("\n< HTTP/2 200\n"), "{text}");
}
