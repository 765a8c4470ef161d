//! Results in object storage.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command};

use argiope_testkit::redis_cluster::RedisCluster;
use argiope_testkit::s3_server::{S3Certificate, S3Server, SECRET};

use crate::durable_kit::{GraphWeb, TIMEOUT, records, wait};
use crate::kit::{Fleet, certificate_files, plan};

#[test]
#[ignore = "needs redis-server, moto"]
fn results_go_to_object_storage_and_are_read_from_there() {
    let server = S3Server::start("crawls");
    let practice = GraphWeb::serve_with_headers(plan(11, 20, 10));
    let mut fleet = Fleet::new(RedisCluster::single());
    fleet.out = "s3://crawls/a/first".to_owned();
    fleet.environment = server.environment();
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let mut processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&roots)).collect();
    assert!(practice.web.wait_requests(60, TIMEOUT));
    let mut killed = std::mem::replace(&mut processes[0], fleet.spawn(&roots));
    killed.kill().expect("the process is killed");
    wait(&mut killed);
    fleet.finish(processes);
    practice.check(&fleet.records());
    let root = practice.roots[0].as_str();
    for arguments in [&["report", &fleet.out][..], &["explain", &fleet.out, root], &["audit", &fleet.out]] {
        let done = fleet.run(arguments);
        assert!(!done.1.contains("error: ") && done.1.len() > 100, "{arguments:?}: {}", done.1);
    }
    let merged = fleet.run(&["merge", &fleet.out, "merged.crawl"]);
    assert!(merged.0, "{}", merged.1);
    let exported = fleet.run(&["export", "merged.crawl", "--format", "jsonl", "-o", "merged.jsonl"]);
    assert!(exported.0, "{}", exported.1);
    practice.check(&records(&fleet.folder.path().join("merged.jsonl")));
    // Credentials appear neither in the messages of the processes nor in the objects.
    let listed = server.request("GET", "/crawls?list-type=2&prefix=a/first");
    assert!(listed.contains("a/first/fleet.json") && listed.contains("a/first/settled/final.json"), "{listed}");
    let about = server.request("GET", "/crawls/a/first/fleet.json");
    for text in [&fleet.logs(), &about, &merged.1] {
        // Key ids begin with AKIA.
        assert!(!text.contains(SECRET) && !text.contains("AKIA"), "{text}");
    }
    // No multipart upload is left incomplete.
    let uploads = server.request("GET", "/crawls?uploads");
    assert!(uploads.starts_with("HTTP/1.1 200") && !uploads.contains("<UploadId>"), "{uploads}");
    // A prefix without results, and a bucket that does not exist, are named.
    for place in ["s3://crawls/none", "s3://absent/none"] {
        let none = fleet.run(&["report", place]);
        assert!(!none.0 && none.1.contains(place) && none.1.contains("no such object"), "{}", none.1);
    }
}

#[test]
#[ignore = "needs moto"]
fn object_storage_is_reached_over_tls_with_a_private_authority() {
    let files = certificate_files();
    let path = |name: &str| files.path().join(name);
    let (certificate, key, authority) = (path("server.pem"), path("key.pem"), path("ca.pem"));
    let server = S3Server::start_with_tls(S3Certificate { certificate, key, authority });
    let report = |environment: Vec<(&str, String)>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        let output = command.args(["report", "s3://absent/x"]).envs(environment).output().expect("the command runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let trusted = report(server.environment());
    assert!(trusted.contains("no such object"), "{trusted}");
    let mut environment = server.environment();
    environment.retain(|(name, _)| *name != "AWS_CA_BUNDLE");
    let untrusted = report(environment);
    assert!(untrusted.contains("certificate") && !untrusted.contains("no such object"), "{untrusted}");
}

/// The size of an object that is larger than any JSON file of a fleet.
const LARGE: usize = 40 << 20;

#[test]
fn an_object_that_is_too_large_is_not_read_whole() {
    let listener = TcpListener::bind("127.6.60.8:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = vec![0; 16 << 10];
            let length = stream.read(&mut request).unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..length]).to_lowercase();
            let range = request.lines().find_map(|line| line.strip_prefix("range: bytes=0-"));
            let last = range.and_then(|last| last.trim().parse().ok()).unwrap_or(LARGE - 1);
            let status = match range {
                Some(_) => format!("206 Partial Content\r\nContent-Range: bytes 0-{last}/{LARGE}"),
                None => "200 OK".to_owned(),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"x\"\r\n\
                 Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\nConnection: close\r\n\r\n",
                last + 1
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&vec![b' '; last + 1]);
        }
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.args(["report", "s3://bucket/x"]).envs([
        ("AWS_ENDPOINT_URL", format!("http://{address}")),
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
    ]);
    let messages = String::from_utf8_lossy(&command.output().expect("the command runs").stderr).into_owned();
    assert!(messages.contains("fleet.json has 41943040 bytes, more than Argiope writes"), "{messages}");
}
