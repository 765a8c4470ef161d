//! A store and results that an attacker has written: what a process takes from them, and what it never takes.

use std::os::unix::fs::symlink;

use std::process::Command;

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use argiope_testkit::redis_cluster::RedisCluster;
use serde_json::{Value, json};

use crate::kit::Fleet;

/// The header with the secret that the attacker wants.
const SECRET: &str = "Authorization: Bearer s3cr3t";

impl Fleet {
    /// Writes the settings of the crawl into the store, with some changes, before any process starts.
    fn plant(&self, config: &Value, changes: &[(&str, Value)]) {
        let mut settings = json!({
            "version": env!("CARGO_PKG_VERSION"), "key": 7, "round": 1, "buckets": 64, "max_pages": null,
            "max_bytes": null, "rate": null, "per_ip": null, "max_pages_per_host": null, "created": 1,
            "out": self.folder.path().join(&self.out), "config": config.to_string(),
        });
        for (key, value) in changes {
            settings[*key] = value.clone();
        }
        self.cluster.call(0, &["DEL", "{test}meta"]);
        let set = self.cluster.call(0, &["HSET", "{test}meta", "crawl", &settings.to_string()]);
        assert_eq!(set.as_deref(), Some("1\n"));
    }

    /// Runs one process with these arguments, without the usual ones. Returns the exit code and the messages.
    fn join(&self, more: &[&str]) -> (Option<i32>, String) {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"));
        command.current_dir(self.folder.path()).args([
            "crawl",
            "--frontier",
            &self.cluster.address(),
            "--name",
            "test",
        ]);
        command.args(["--out", &self.out, "--lease", "2", "--no-progress"]).args(more);
        let output = command.output().expect("the command runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn serve(address: &str) -> (RunningWeb, u16) {
    let site = Site::http(&format!("{address}:0")).expect("a loopback address").fallback(Response::html("here"));
    let port = site.address().port();
    (PracticeWeb::new().keep_headers().site(site).start().expect("the practice web starts"), port)
}

fn got_secret(web: &RunningWeb) -> bool {
    web.log().iter().any(|seen| seen.headers.iter().any(|(_, value)| value.contains("s3cr3t")))
}

#[test]
#[ignore = "needs redis-server"]
fn planted_addresses_and_trust_are_not_used() {
    let fleet = Fleet::new(RedisCluster::single());
    let (named, port) = serve("127.6.60.1");
    // The attacker listens on the same port of another address.
    let site = Site::http(&format!("127.6.60.2:{port}")).expect("the port is free").fallback(Response::html("stolen"));
    let attacker = PracticeWeb::new().keep_headers().site(site).start().expect("the practice web starts");
    let root = format!("http://named.example:{port}/");
    fleet.plant(
        &json!({
            "roots": [root], "resolve": [format!("named.example:{port}:127.6.60.2")], "insecure": true,
            "allow-private": true, "cookies": "/etc/passwd", "dns": format!("127.6.60.2:{port}"),
            "proxy": format!("http://127.6.60.2:{port}"), "header": ["X-Planted: 1"],
        }),
        &[],
    );
    let resolve = format!("named.example:{port}:127.6.60.1");
    let (code, messages) = fleet.join(&[&root, "--resolve", &resolve, "--header", SECRET]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(got_secret(&named), "the root that this process names gets its header: {messages}");
    assert_eq!(attacker.requests(), 0);
    assert!(!named.log().iter().any(|seen| seen.headers.iter().any(|(name, _)| name == "X-Planted")));
}

#[test]
#[ignore = "needs redis-server"]
fn planted_roots_get_no_secrets_and_open_no_private_network() {
    let fleet = Fleet::new(RedisCluster::single());
    let (attacker, port) = serve("127.6.60.3");
    let planted = json!({ "roots": [format!("http://127.6.60.3:{port}/")], "allow-private": true });
    fleet.plant(&planted, &[]);
    let (code, messages) = fleet.join(&["--header", SECRET]);
    assert_eq!((code, attacker.requests()), (Some(4), 0), "a private address: {messages}");
    assert!(messages.contains("--header is sent only to roots that this process names"), "{messages}");
    let fleet = Fleet::new(RedisCluster::single());
    fleet.plant(&planted, &[]);
    let (code, messages) = fleet.join(&["--header", SECRET, "--allow-private"]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(attacker.requests() > 0 && !got_secret(&attacker), "{messages}");
}

/// The description of a round, as an attacker writes it.
fn planted_results(config: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = json!({
        "version": env!("CARGO_PKG_VERSION"), "key": 7, "round": 1, "buckets": 64, "max_pages": null, "max_bytes": null,
        "rate": null, "per_ip": null, "max_pages_per_host": null, "created": 1, "out": "results",
        "config": config.to_string(),
    });
    let about = json!({ "fleet": "test", "started": "1.000", "settings": settings }).to_string();
    std::fs::create_dir(folder.path().join("results")).expect("created");
    std::fs::write(folder.path().join("results/fleet.json"), about).expect("written");
    folder
}

fn run_in(folder: &std::path::Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    let output = command.args(arguments).current_dir(folder).output().expect("the command runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn merge_opens_no_file_that_the_results_name() {
    for key in ["extract-file", "cookies", "ca-cert", "cert", "key"] {
        // Opening the file would be an error.
        let folder = planted_results(&json!({ "roots": ["http://127.6.60.7/"], key: "absent" }));
        let (code, messages) = run_in(folder.path(), &["merge", "results", "merged.crawl"]);
        assert_eq!(code, Some(0), "{key}: {messages}");
    }
    let folder = planted_results(&json!({ "roots": ["http://127.6.60.7/"], "max-size": "4G" }));
    let (code, messages) = run_in(folder.path(), &["merge", "results", "merged.crawl"]);
    assert!(code == Some(1) && messages.contains("max-size: a fleet allows at most 1G"), "{messages}");
}

#[test]
#[ignore = "needs redis-server"]
fn planted_numbers_and_paths_are_refused() {
    let fleet = Fleet::new(RedisCluster::single());
    let config = json!({ "roots": ["http://127.6.60.4/"] });
    for (key, value) in
        [("buckets", json!(u32::MAX)), ("buckets", json!(0)), ("round", json!(u32::MAX)), ("rate", json!(-1))]
    {
        fleet.plant(&config, &[(key, value.clone())]);
        let (code, messages) = fleet.join(&[]);
        assert!(code == Some(1) && messages.contains("is not a crawl of this program"), "{key} {value}: {messages}");
        let status = fleet.run(&["fleet", "status", &fleet.cluster.address(), "--name", "test"]);
        assert!(!status.0 && status.1.contains("is not a crawl of this program"), "{}", status.1);
    }
    fleet.plant(&json!({ "roots": ["http://127.6.60.4/"], "extract-file": "/dev/zero" }), &[]);
    let (code, messages) = fleet.join(&[]);
    assert!(code == Some(2) && messages.contains("--extract-file"), "{messages}");
}

#[test]
#[ignore = "needs redis-server"]
fn the_status_prints_no_control_characters_of_the_store() {
    let fleet = Fleet::new(RedisCluster::single());
    fleet.plant(&json!({ "roots": ["http://127.6.60.5/"] }), &[("out", json!("/tmp/\u{9b}31mred\u{202e}"))]);
    let member = json!({ "id": "\u{9b}31m\u{7f}", "version": "\u{202e}", "at": u64::MAX, "buckets": usize::MAX });
    fleet.cluster.call(0, &["HSET", "{test}members", "x", &member.to_string()]);
    let address = fleet.cluster.address();
    for more in [&[][..], &["--json"]] {
        let arguments = [&["fleet", "status", &address, "--name", "test"][..], more].concat();
        let (is_success, printed) = fleet.run(&arguments);
        assert!(is_success, "{printed}");
        let is_unsafe = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!printed.contains(is_unsafe), "{printed:?}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn merge_follows_no_symbolic_link() {
    let fleet = Fleet::new(RedisCluster::single());
    let (_web, port) = serve("127.6.60.6");
    let root = format!("http://127.6.60.6:{port}/");
    assert_eq!(fleet.join(&[&root]).0, Some(0));
    let path = |name: &str| fleet.folder.path().join(name);
    let foreign = path("foreign");
    std::fs::create_dir(&foreign).expect("created");
    std::fs::write(foreign.join("keep"), "mine").expect("written");
    symlink(&foreign, path("a.crawl.merging")).expect("linked");
    symlink(path("nowhere"), path("b.crawl")).expect("linked");
    for (target, words) in [("a.crawl", "is a symbolic link"), ("b.crawl", "exists already")] {
        let (is_success, printed) = fleet.run(&["merge", "results", target]);
        assert!(!is_success && printed.contains(words), "{printed}");
    }
    assert_eq!(std::fs::read_dir(&foreign).expect("there").count(), 1);
    // A segment that is a link to a foreign file is not read.
    let records = path("results/records");
    let segment = std::fs::read_dir(&records).expect("there").flatten().next().expect("a segment").path();
    std::fs::rename(&segment, path("moved")).expect("moved");
    symlink(path("moved"), &segment).expect("linked");
    let (is_success, printed) = fleet.run(&["merge", "results", "c.crawl"]);
    assert!(!is_success, "{printed}");
}

#[test]
#[ignore = "needs redis-server"]
fn a_password_comes_from_a_file_or_the_environment() {
    let files = crate::kit::certificate_files();
    let path = |name: &str| files.path().join(name);
    let cluster = RedisCluster::with_tls_and_login(argiope_testkit::redis_cluster::ServerAccess {
        certificate: path("server.pem"),
        key: path("key.pem"),
        authority: path("ca.pem"),
        user: "worker".to_owned(),
        password: "s3cr3t".to_owned(),
    });
    std::fs::write(path("password"), "s3cr3t\n").expect("written");
    let address = format!("rediss://worker@127.0.0.1:{}", cluster.port(0));
    let run = |more: &[&str], password: Option<&str>| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"));
        command.current_dir(files.path()).args(["fleet", "status", &address, "--name", "x", "--ca-cert", "ca.pem"]);
        command.args(more).envs(password.map(|password| ("ARGIOPE_FRONTIER_PASSWORD", password)));
        String::from_utf8_lossy(&command.output().expect("the command runs").stderr).into_owned()
    };
    for (more, password) in [(&[][..], Some("s3cr3t")), (&["--frontier-password-file", "password"], Some("wrong"))] {
        let messages = run(more, password);
        assert!(messages.contains("there is no such crawl"), "{messages}");
    }
    for password in [None, Some("wrong")] {
        let messages = run(&[], password);
        assert!(messages.contains("the store of the fleet") && !messages.contains("wrong"), "{messages}");
    }
}
