//! [`RedisCluster`]: real Redis servers on loopback for fleet tests, each with its own data folder.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A cluster of servers, or one server without cluster mode. They run until this is dropped.
pub struct RedisCluster {
    servers: Vec<Server>,
    folder: tempfile::TempDir,
    is_cluster: bool,
    /// TLS files and login, if the server requires them.
    access: Option<ServerAccess>,
}

/// The TLS files of a server, and the login that it requires.
pub struct ServerAccess {
    /// Files with the certificate, its key and the authority, as PEM.
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub authority: PathBuf,
    pub user: String,
    pub password: String,
}

/// Time after which a silent node of a cluster counts as dead, in milliseconds. A short one keeps the tests short.
pub const NODE_TIMEOUT_MS: &str = "2000";

/// A server process.
struct Server {
    port: u16,
    /// `None` while it is stopped.
    child: Option<Child>,
}

impl RedisCluster {
    /// Three primaries with one replica each.
    pub fn start() -> Self {
        let is_cluster = true;
        let cluster = Self::launch(6, is_cluster, None);
        // `redis-cli --cluster create` does the same and takes several seconds longer.
        for index in 0..6 {
            cluster.call_until_ok(index, &["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        for server in &cluster.servers[1..] {
            cluster.call_until_ok(0, &["CLUSTER", "MEET", "127.0.0.1", &server.port.to_string()]);
        }
        // Each primary gets a third of the 16,384 hash slots.
        for (index, (first, last)) in [("0", "5460"), ("5461", "10922"), ("10923", "16383")].into_iter().enumerate() {
            cluster.call_until_ok(index, &["CLUSTER", "ADDSLOTSRANGE", first, last]);
        }
        for index in 0..3 {
            let id = cluster.call(index, &["CLUSTER", "MYID"]).expect("a reply");
            cluster.call_until_ok(index + 3, &["CLUSTER", "REPLICATE", id.trim()]);
        }
        cluster.wait_until_ready();
        cluster
    }

    /// Repeats a command until the reply is OK. Some commands fail until the server has contacted the others.
    fn call_until_ok(&self, index: usize, parts: &[&str]) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let reply = self.call(index, parts).unwrap_or_default();
            if reply.starts_with("OK") {
                return;
            }
            assert!(Instant::now() < deadline, "{parts:?}: {reply}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// One server without cluster mode.
    pub fn single() -> Self {
        let is_cluster = false;
        Self::launch(1, is_cluster, None)
    }

    /// One server that accepts only TLS connections with this login.
    pub fn with_tls_and_login(access: ServerAccess) -> Self {
        let is_cluster = false;
        Self::launch(1, is_cluster, Some(access))
    }

    fn launch(count: usize, is_cluster: bool, access: Option<ServerAccess>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let servers = free_ports(count).into_iter().map(|port| Server { port, child: None }).collect();
        let mut cluster = Self { servers, folder, is_cluster, access };
        for index in 0..count {
            cluster.spawn_node(index);
        }
        for index in 0..count {
            cluster.wait_for_node(index);
        }
        cluster
    }

    /// The port of a server.
    pub fn port(&self, index: usize) -> u16 {
        self.servers[index].port
    }

    /// `redis://host:port,...` with all servers.
    pub fn address(&self) -> String {
        let servers: Vec<String> = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        format!("redis://{}", servers.join(","))
    }

    pub fn len(&self) -> usize {
        self.servers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Starts a server, with its earlier data if it ran before.
    pub fn start_node(&mut self, index: usize) {
        self.spawn_node(index);
        self.wait_for_node(index);
    }

    fn spawn_node(&mut self, index: usize) {
        let port = self.servers[index].port;
        let folder = self.folder.path().join(port.to_string());
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
        match &self.access {
            None => command.args(["--port", &port.to_string()]),
            Some(ServerAccess { certificate, key, authority, user, password }) => command
                .args(["--port", "0", "--tls-auth-clients", "no", "--tls-port", &port.to_string()])
                .arg("--tls-cert-file")
                .arg(certificate)
                .arg("--tls-key-file")
                .arg(key)
                .arg("--tls-ca-cert-file")
                .arg(authority)
                .args(["--user", "default", "off", "--user", user, "on", &format!(">{password}"), "~*", "&*", "+@all"]),
        };
        command.arg("--dir").arg(&folder).args(["--logfile", "log", "--repl-diskless-sync-delay", "0"]);
        if self.is_cluster {
            command.args(["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT_MS]);
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("redis-server starts");
        self.servers[index].child = Some(child);
    }

    fn wait_for_node(&self, index: usize) {
        let port = self.servers[index].port;
        let deadline = Instant::now() + Duration::from_secs(20);
        // A server with TLS and login does not reply to a plain PING, so only connect to it.
        let is_up = || match self.access {
            None => self.call(index, &["PING"]).is_some(),
            Some(_) => TcpStream::connect(("127.0.0.1", port)).is_ok(),
        };
        while !is_up() {
            assert!(Instant::now() < deadline, "redis-server on port {port} does not respond");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills a server.
    pub fn kill_node(&mut self, index: usize) {
        if let Some(mut child) = self.servers[index].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The process id of a server, for signals.
    pub fn pid(&self, index: usize) -> Option<u32> {
        self.servers[index].child.as_ref().map(Child::id)
    }

    /// Whether a server is currently a primary.
    pub fn is_primary(&self, index: usize) -> bool {
        self.call(index, &["ROLE"]).is_some_and(|reply| reply.contains("master"))
    }

    /// Whether every slot accepts writes and every primary has a replica.
    pub fn is_ready(&self) -> bool {
        !self.is_cluster
            || (0..self.len()).all(|index| {
                let state = self.call(index, &["CLUSTER", "INFO"]).unwrap_or_default();
                let replication = self.call(index, &["INFO", "replication"]).unwrap_or_default();
                let is_linked = if replication.contains("role:master") {
                    replication.contains("connected_slaves:1")
                } else {
                    replication.contains("master_link_status:up")
                };
                state.contains("cluster_state:ok") && is_linked
            })
    }

    pub fn wait_until_ready(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.is_ready() {
            assert!(Instant::now() < deadline, "the cluster does not become ready");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends one command to one server; `None` if it does not respond.
    pub fn call(&self, index: usize, parts: &[&str]) -> Option<String> {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], self.servers[index].port));
        let mut socket = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        let mut request = format!("*{}\r\n", parts.len());
        for part in parts {
            request += &format!("${}\r\n{part}\r\n", part.len());
        }
        socket.write_all(request.as_bytes()).ok()?;
        let mut reader = BufReader::new(socket);
        let mut text = String::new();
        read_reply(&mut reader, &mut text)?;
        Some(text)
    }
}

/// Reads one reply as text, with its parts separated by line feeds.
fn read_reply(reader: &mut impl BufRead, text: &mut String) -> Option<()> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let line = line.trim_end();
    match line.split_at_checked(1)? {
        ("*", count) => {
            for _ in 0..count.parse::<i64>().ok()?.max(0) {
                read_reply(reader, text)?;
            }
        }
        ("$", length) => {
            // A length of -1 stands for null.
            let Ok(length) = length.parse::<usize>() else { return Some(()) };
            // The string and its line end.
            let mut bytes = vec![0; length + 2];
            reader.read_exact(&mut bytes).ok()?;
            text.push_str(&String::from_utf8_lossy(&bytes[..length]));
            text.push('\n');
        }
        (_, rest) => {
            text.push_str(rest);
            text.push('\n');
        }
    }
    Some(())
}

/// Ports that are currently free, together with their cluster bus ports, which are 10,000 higher.
fn free_ports(count: usize) -> Vec<u16> {
    // Keeps the ports in use until all are found.
    let mut listeners = Vec::new();
    let mut ports = Vec::new();
    // Test processes that run in parallel start at different ports.
    let start = 20_000 + (std::process::id() % 2_000) as u16 * 10;
    for port in (start..45_000).chain(20_000..start) {
        if ports.len() == count {
            break;
        }
        let both = [port, port + 10_000].map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
        if both.iter().all(Option::is_some) {
            ports.push(port);
            listeners.push(both);
        }
    }
    ports
}

impl Drop for RedisCluster {
    fn drop(&mut self) {
        for index in 0..self.len() {
            self.kill_node(index);
        }
    }
}
