//! [`S3Server`]: an S3 server on loopback for the tests of object storage. It runs `moto`, which supports conditional
//! creation (`If-None-Match`).

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The secret key with which the client signs requests. The server accepts any key.
pub const SECRET: &str = "wJalrXUtnFEMI-K7MDENG-bPxRfiCY";

/// A server that runs until this is dropped.
pub struct S3Server {
    child: Child,
    port: u16,
    /// The certificate of the authority; `None` without TLS.
    authority: Option<PathBuf>,
}

/// Certificate, key and authority of a server, as PEM files.
pub struct S3Certificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub authority: PathBuf,
}

impl S3Server {
    /// A server without TLS, with a bucket of this name.
    pub fn start(bucket: &str) -> Self {
        let server = Self::launch(None);
        let reply = server.request("PUT", &format!("/{bucket}"));
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        server
    }

    /// A server with TLS. It has no bucket yet.
    pub fn start_with_tls(files: S3Certificate) -> Self {
        Self::launch(Some(files))
    }

    fn launch(files: Option<S3Certificate>) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let program = std::env::var_os("MOTO_SERVER").unwrap_or_else(|| OsString::from("moto_server"));
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        if let Some(files) = &files {
            command.arg("-c").arg(&files.certificate).arg("-k").arg(&files.key);
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("moto_server starts");
        let server = Self { child, port, authority: files.map(|files| files.authority) };
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "moto_server does not respond");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// The environment variables that make S3 clients use this server.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        let mut variables = vec![
            ("AWS_ENDPOINT_URL", format!("{scheme}://127.0.0.1:{}", self.port)),
            ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ];
        variables.extend(self.authority.iter().map(|path| ("AWS_CA_BUNDLE", path.display().to_string())));
        variables
    }

    /// Sends one request without TLS, and returns the whole response as text.
    pub fn request(&self, method: &str, target: &str) -> String {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("the server accepts connections");
        let text = format!(
            "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            self.port
        );
        socket.write_all(text.as_bytes()).expect("the request is sent");
        let mut reply = Vec::new();
        socket.read_to_end(&mut reply).expect("a response");
        String::from_utf8_lossy(&reply).into_owned()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
