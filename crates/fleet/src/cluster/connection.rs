//! Connections to the nodes of a Redis or Valkey cluster, or to a single server.
//!
//! Commands are grouped into one pipeline per node, and all pipelines are sent before the first reply is read. `WAIT`,
//! which waits for replication, follows the writes on the same connection. Redirections, unknown scripts and failovers
//! are handled here. If a command has no answer after [`Nodes::MAX_RETRY_TIME`], its result is [`Unreachable`].

use std::collections::HashMap;
use std::time::{Duration, Instant};

use redis::{Client, Cmd, Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsCertificates, Value};
use sha1::{Digest, Sha1};

/// How long a node may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// The connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// How long to cache the fact that a node has no replica.
const NO_REPLICA_TTL: Duration = Duration::from_secs(1);
/// How long one `WAIT` waits for a replica, in milliseconds.
const WAIT_MS: u64 = 500;
/// How many times `WAIT` is sent before the writes are sent again.
const MAX_WAITS: usize = 4;
/// Number of hash slots in a Redis cluster.
const SLOTS: usize = 16_384;

/// A Lua script with its digest.
#[derive(Clone)]
pub struct Script {
    source: String,
    /// The SHA-1 of the source, by which Redis identifies a script.
    digest: String,
}

impl Script {
    pub fn new(source: String) -> Self {
        let digest = Sha1::digest(source.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { source, digest }
    }
}

/// One command, and the key whose slot decides which node gets it. Every command may be sent again when its reply was
/// lost: the scripts are idempotent.
#[derive(Clone)]
pub struct StoreCommand<'a> {
    pub key: String,
    pub kind: Kind<'a>,
}

/// The kinds of commands: a plain command with its arguments, or a call of a script.
#[derive(Clone)]
pub enum Kind<'a> {
    Plain(Vec<Vec<u8>>),
    Script { script: &'a Script, keys: Vec<String>, arguments: Vec<Vec<u8>> },
}

impl StoreCommand<'_> {
    /// The bytes of the command. A script is sent with its source if `with_source` is set, otherwise by its digest.
    fn packed(&self, with_source: bool) -> Vec<u8> {
        match &self.kind {
            Kind::Plain(parts) => {
                let mut command = Cmd::new();
                for part in parts {
                    command.arg(part.as_slice());
                }
                command.get_packed_command()
            }
            Kind::Script { script, keys, arguments } => {
                let mut command = redis::cmd(if with_source { "EVAL" } else { "EVALSHA" });
                command.arg(if with_source { script.source.as_str() } else { script.digest.as_str() });
                command.arg(keys.len());
                for key in keys {
                    command.arg(key.as_str());
                }
                for argument in arguments {
                    command.arg(argument.as_slice());
                }
                command.get_packed_command()
            }
        }
    }
}

/// The store did not answer, or refused permanently.
#[derive(Clone, Debug)]
pub struct Unreachable {
    pub message: String,
    /// Whether a retry cannot help, for example because of a wrong password.
    pub is_final: bool,
    /// What the user can do, unless the message says it.
    pub remedy: Option<AccessRemedy>,
}

/// What the user can do about a store that cannot be opened. The command has the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRemedy {
    /// Give a login.
    GiveLogin,
    /// Trust the authority of its certificate.
    TrustAuthority,
}

impl Unreachable {
    /// The store does not hold the crawl any more, in whole or in part.
    pub(super) fn lost() -> Self {
        let message = "the store has lost this crawl: it was emptied or replaced, or the crawl was removed";
        Self::permanent(message)
    }

    /// An error that a retry cannot fix.
    pub(super) fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_final: true, remedy: None }
    }

    /// An error that a retry may fix.
    fn temporary(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_final: false, remedy: None }
    }
}

/// The host and port of a node.
type NodeAddress = (String, u16);

/// The result of one command.
pub type Answer = Result<Value, Unreachable>;

/// Counts of the work done through these connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub commands: u64,
    pub round_trips: u64,
    pub bytes_out: u64,
}

/// The nodes of a cluster, or one server.
pub struct Nodes {
    /// The addresses that the user gave.
    seeds: Vec<ConnectionInfo>,
    /// The open connections, by host and port.
    by_address: HashMap<NodeAddress, Connection>,
    /// The node of each slot. For a single server, one entry with its address.
    slots: Vec<Option<NodeAddress>>,
    is_cluster: bool,
    pub traffic: Traffic,
    /// Whether the node of the last write has no replica.
    pub single_copy: bool,
    /// Nodes that have no replica, and when that was checked.
    without_replica: HashMap<NodeAddress, Instant>,
}

impl Nodes {
    /// How long commands are retried before an error is returned.
    pub const MAX_RETRY_TIME: Duration = Duration::from_secs(5);

    /// Reads `redis://[user:password@]host:port[,host:port...]` (or `rediss://`) and finds the topology. `authority` is
    /// the certificate authority for `rediss`, in PEM format.
    pub fn open(address: &str, authority: Option<&[u8]>) -> Result<Self, Unreachable> {
        let seeds = seeds(address, authority)?;
        let mut nodes = Self {
            seeds,
            by_address: HashMap::new(),
            slots: Vec::new(),
            is_cluster: false,
            traffic: Traffic::default(),
            single_copy: false,
            without_replica: HashMap::new(),
        };
        nodes.find_topology()?;
        Ok(nodes)
    }

    pub fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    /// Reads the slots of all nodes from the first node that answers.
    fn find_topology(&mut self) -> Result<(), Unreachable> {
        let known = self.slots.iter().flatten().cloned().collect::<std::collections::BTreeSet<_>>();
        let seeds: Vec<NodeAddress> = self.seeds.iter().filter_map(|seed| host_port(seed.addr())).collect();
        let mut fault = Unreachable::temporary("no address was given");
        for address in known.into_iter().chain(seeds) {
            match self.read_topology(&address) {
                Ok(()) => return Ok(()),
                Err(found) => {
                    self.by_address.remove(&address);
                    fault = found;
                }
            }
            if fault.is_final {
                break;
            }
        }
        Err(fault)
    }

    /// Reads the slots of all nodes from one node.
    fn read_topology(&mut self, address: &NodeAddress) -> Result<(), Unreachable> {
        let info = self.call(address, &redis::cmd("INFO").arg("cluster").get_packed_command())?;
        let text = match &info {
            Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
            Value::VerbatimString { text, .. } => text.clone(),
            other => return Err(Unreachable::temporary(format!("{}:{}: {other:?}", address.0, address.1))),
        };
        self.is_cluster = text.contains("cluster_enabled:1");
        if !self.is_cluster {
            self.slots = vec![Some(address.clone())];
            return Ok(());
        }
        let shards = self.call(address, &redis::cmd("CLUSTER").arg("SLOTS").get_packed_command())?;
        let Value::Array(ranges) = shards else { return Err(Unreachable::temporary("CLUSTER SLOTS was not answered")) };
        let mut slots = vec![None; SLOTS];
        for range in ranges {
            let Value::Array(range) = range else { continue };
            let (Some(Value::Int(first)), Some(Value::Int(last)), Some(Value::Array(primary))) =
                (range.first(), range.get(1), range.get(2))
            else {
                continue;
            };
            let (Some(Value::BulkString(host)), Some(Value::Int(port))) = (primary.first(), primary.get(1)) else {
                continue;
            };
            let host = if host.is_empty() { address.0.clone() } else { String::from_utf8_lossy(host).into_owned() };
            for slot in *first..=*last {
                if let Some(node) = usize::try_from(slot).ok().and_then(|slot| slots.get_mut(slot)) {
                    *node = Some((host.clone(), *port as u16));
                }
            }
        }
        if slots.iter().any(Option::is_none) {
            return Err(Unreachable::temporary("some slots of the cluster have no node"));
        }
        self.slots = slots;
        Ok(())
    }

    /// Sends one command to one node.
    fn call(&mut self, address: &NodeAddress, packed: &[u8]) -> Result<Value, Unreachable> {
        let fail = |error: redis::RedisError| Unreachable::temporary(format!("{}:{}: {error}", address.0, address.1));
        let connection = self.connect(address)?;
        connection.send_packed_command(packed).map_err(fail)?;
        match connection.recv_response().map_err(fail)? {
            Value::ServerError(error) => {
                let is_final = matches!(error.code(), "NOAUTH" | "WRONGPASS" | "NOPERM");
                Err(Unreachable { is_final, ..refused(address, &error) })
            }
            value => Ok(value),
        }
    }

    /// The connection to a node, which is opened if there is none.
    fn connect(&mut self, address: &NodeAddress) -> Result<&mut Connection, Unreachable> {
        if !self.by_address.contains_key(address) {
            let Some(seed) = self.seeds.first() else { return Err(Unreachable::temporary("no address was given")) };
            let target = match seed.addr() {
                ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                    host: address.0.clone(),
                    port: address.1,
                    insecure: *insecure,
                    tls_params: tls_params.clone(),
                },
                _ => ConnectionAddr::Tcp(address.0.clone(), address.1),
            };
            let is_tls = matches!(target, ConnectionAddr::TcpTls { .. });
            let fail = |error: redis::RedisError| unconnected(address, is_tls, &error);
            let client = Client::open(seed.clone().set_addr(target)).map_err(fail)?;
            let connection = client.get_connection_with_timeout(CONNECT_TIMEOUT).map_err(fail)?;
            connection.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(fail)?;
            connection.set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(fail)?;
            self.by_address.insert(address.clone(), connection);
        }
        self.by_address.get_mut(address).ok_or_else(|| Unreachable::temporary("no connection"))
    }

    /// The node that holds a key.
    fn node_of(&self, key: &str) -> Option<NodeAddress> {
        if self.is_cluster { self.slots.get(slot_of(key))?.clone() } else { self.slots.first()?.clone() }
    }

    /// Runs all commands, without waiting for replication.
    pub fn run(&mut self, commands: &[StoreCommand<'_>]) -> Vec<Answer> {
        self.run_with_retries(commands, false)
    }

    /// Runs all commands. Waits until a replica has each write, unless the node has no replica.
    pub fn run_replicated(&mut self, commands: &[StoreCommand<'_>]) -> Vec<Answer> {
        self.run_with_retries(commands, true)
    }

    /// Runs all commands, and repeats those that fail temporarily.
    fn run_with_retries(&mut self, commands: &[StoreCommand<'_>], replicate: bool) -> Vec<Answer> {
        let mut answers: Vec<Option<Answer>> = commands.iter().map(|_| None).collect();
        let mut attempt = Attempt { with_source: false, ask_redirects: HashMap::new() };
        let deadline = Instant::now() + Self::MAX_RETRY_TIME;
        let mut last_error = String::new();
        loop {
            let unanswered: Vec<usize> = (0..commands.len()).filter(|index| answers[*index].is_none()).collect();
            if unanswered.is_empty() {
                break;
            }
            if Instant::now() >= deadline {
                for index in unanswered {
                    answers[index] = Some(Err(Unreachable::temporary(last_error.clone())));
                }
                break;
            }
            self.attempt(commands, &unanswered, &mut answers, &mut attempt, replicate, &mut last_error);
        }
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(Unreachable::temporary("lost")))).collect()
    }

    /// Sends the commands that have no answer yet, and stores the answers. Commands to retry stay without an answer.
    fn attempt(
        &mut self,
        commands: &[StoreCommand<'_>],
        unanswered: &[usize],
        answers: &mut [Option<Answer>],
        attempt: &mut Attempt,
        replicate: bool,
        last_error: &mut String,
    ) {
        let mut groups: HashMap<NodeAddress, Vec<usize>> = HashMap::new();
        for index in unanswered {
            let node = attempt.ask_redirects.get(index).cloned().or_else(|| self.node_of(&commands[*index].key));
            if let Some(node) = node {
                groups.entry(node).or_default().push(*index);
            }
        }
        // Whether the topology must be read again, because it may have changed.
        let mut is_stale = groups.is_empty();
        let mut sent = Vec::new();
        for (node, indexes) in groups {
            let mut bytes = Vec::new();
            for index in &indexes {
                if attempt.ask_redirects.contains_key(index) {
                    bytes.extend(redis::cmd("ASKING").get_packed_command());
                }
                bytes.extend(commands[*index].packed(attempt.with_source));
            }
            let should_wait = replicate && !self.is_without_replica(&node);
            if should_wait {
                bytes.extend(wait_command());
            }
            self.traffic.commands += indexes.len() as u64;
            self.traffic.round_trips += 1;
            self.traffic.bytes_out += bytes.len() as u64;
            let written = self.connect(&node).and_then(|connection| {
                connection.send_packed_command(&bytes).map_err(|error| Unreachable::temporary(error.to_string()))
            });
            match written {
                Ok(()) => sent.push((node, indexes, should_wait)),
                Err(error) => {
                    *last_error = error.message;
                    self.by_address.remove(&node);
                    is_stale = true;
                }
            }
        }
        let redirected = std::mem::take(&mut attempt.ask_redirects);
        let mut should_pause = is_stale;
        attempt.with_source = false;
        for (node, indexes, should_wait) in sent {
            match self.receive(&node, &indexes, &redirected, should_wait) {
                Ok((values, is_replicated)) => {
                    for (index, value) in indexes.into_iter().zip(values) {
                        match value {
                            Value::ServerError(error) => match error.code() {
                                "NOSCRIPT" => attempt.with_source = true,
                                "ASK" => {
                                    attempt
                                        .ask_redirects
                                        .extend(redirect_target(error.details()).map(|node| (index, node)));
                                }
                                "MOVED" => is_stale = true,
                                "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "READONLY" | "MASTERDOWN" | "BUSY" | "OOM"
                                | "NOREPLICAS" | "MISCONF" => {
                                    *last_error = format!(
                                        "{}:{}: {} {}",
                                        node.0,
                                        node.1,
                                        error.code(),
                                        error.details().unwrap_or("")
                                    );
                                    should_pause = true;
                                    is_stale |= error.code() != "TRYAGAIN";
                                }
                                _ => answers[index] = Some(Err(refused(&node, &error))),
                            },
                            _ if replicate && !is_replicated => {
                                *last_error = format!("{}:{}: no replica confirms writes", node.0, node.1);
                                (is_stale, should_pause) = (true, true);
                            }
                            value => answers[index] = Some(Ok(value)),
                        }
                    }
                }
                Err(error) => {
                    *last_error = error.message;
                    self.by_address.remove(&node);
                    // It is unknown whether these commands were executed: send them again.
                    (is_stale, should_pause) = (true, true);
                }
            }
        }
        if should_pause {
            std::thread::sleep(RETRY_PAUSE);
        }
        if is_stale && self.find_topology().is_err() {
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    /// Reads the replies of one node, and waits for replication if `replicate` is set. `redirected` are the commands
    /// that were sent after `ASKING`. Returns the replies, and whether the writes are replicated.
    fn receive(
        &mut self,
        node: &NodeAddress,
        indexes: &[usize],
        redirected: &HashMap<usize, NodeAddress>,
        replicate: bool,
    ) -> Result<(Vec<Value>, bool), Unreachable> {
        let fail = |error: redis::RedisError| Unreachable::temporary(format!("{}:{}: {error}", node.0, node.1));
        let connection = self.connect(node)?;
        let mut values = Vec::with_capacity(indexes.len());
        for index in indexes {
            if redirected.contains_key(index) {
                // The reply to `ASKING`.
                connection.recv_response().map_err(fail)?;
            }
            values.push(connection.recv_response().map_err(fail)?);
        }
        if !replicate {
            return Ok((values, true));
        }
        // Repeat only `WAIT`, not the commands, which this node has executed.
        for _ in 0..MAX_WAITS {
            match self.connect(node)?.recv_response().map_err(fail)? {
                Value::Int(count) if count >= 1 => {
                    self.single_copy = false;
                    return Ok((values, true));
                }
                Value::Int(_) => {}
                // The node became a replica: another node has its slots now.
                _ => break,
            }
            // Without a live replica, a write on this node alone is enough. But if the cluster does not consider the
            // replica failed, the replica may have taken over already, so keep waiting.
            if self.has_no_replica(node)? {
                self.single_copy = true;
                self.without_replica.insert(node.clone(), Instant::now());
                return Ok((values, true));
            }
            self.connect(node)?.send_packed_command(&wait_command()).map_err(fail)?;
        }
        // Drop the connection: a late reply may still arrive on it.
        self.by_address.remove(node);
        Ok((values, false))
    }

    /// Whether a node is known to have no replica, so that `WAIT` would only cost time.
    fn is_without_replica(&mut self, node: &NodeAddress) -> bool {
        match self.without_replica.get(node) {
            // In a cluster, `receive` finds such nodes when a `WAIT` fails. A single server often has no replica, so it
            // is asked before the first `WAIT`.
            Some(checked) if checked.elapsed() < NO_REPLICA_TTL => return true,
            None if self.is_cluster => return false,
            _ => {}
        }
        let without_replica = self.has_no_replica(node).unwrap_or(false);
        if without_replica {
            self.single_copy = true;
            self.without_replica.insert(node.clone(), Instant::now());
        } else {
            self.without_replica.remove(node);
        }
        without_replica
    }

    /// Whether a node has no replica, or only failed ones. Sends a command to the node.
    fn has_no_replica(&mut self, node: &NodeAddress) -> Result<bool, Unreachable> {
        if !self.is_cluster {
            let Value::Array(role) = self.call(node, &redis::cmd("ROLE").get_packed_command())? else {
                return Ok(false);
            };
            // The reply of a primary: its role, its replication offset, its replicas.
            return Ok(matches!(role.get(2), Some(Value::Array(replicas)) if replicas.is_empty()));
        }
        let id = match self.call(node, &redis::cmd("CLUSTER").arg("MYID").get_packed_command())? {
            Value::BulkString(id) => id,
            _ => return Ok(false),
        };
        let replicas = redis::cmd("CLUSTER").arg("REPLICAS").arg(id.as_slice()).get_packed_command();
        let Value::Array(lines) = self.call(node, &replicas)? else { return Ok(false) };
        Ok(lines.iter().all(|line| match line {
            Value::BulkString(line) => {
                // The fields of a line: id, address, flags and others.
                let line = String::from_utf8_lossy(line);
                line.split(' ').nth(2).is_some_and(|flags| flags.split(',').any(|flag| flag == "fail"))
            }
            _ => false,
        }))
    }
}

/// The error for a reply that refuses a command: what the server said, and what to do.
fn refused(node: &NodeAddress, error: &redis::ServerError) -> Unreachable {
    let (host, port) = node;
    let details = error.details().unwrap_or_default();
    let message = match error.code() {
        "LOST" => return Unreachable::lost(),
        "NOAUTH" => format!("{host}:{port} needs a password"),
        "WRONGPASS" => format!("{host}:{port} refuses the user name or the password"),
        "NOPERM" => format!(
            "{host}:{port} does not allow this user what a crawl needs ({details}): docs/fleet/operations.md has the \
             rule (ACL) to set"
        ),
        code => format!("{host}:{port}: {code} {details}"),
    };
    let remedy = matches!(error.code(), "NOAUTH" | "WRONGPASS").then_some(AccessRemedy::GiveLogin);
    Unreachable { remedy, ..Unreachable::permanent(message) }
}

/// The error for a connection that could not be opened: the reason, and what to do.
fn unconnected(node: &NodeAddress, is_tls: bool, error: &redis::RedisError) -> Unreachable {
    let text = error.to_string();
    let refuses_login = error.kind() == redis::ErrorKind::AuthenticationFailed
        || ["WRONGPASS", "NOAUTH", "invalid password"].iter().any(|word| text.contains(word));
    // The name of the error in rustls, which the client passes on as text.
    let has_bad_certificate = text.contains("invalid peer certificate");
    let mut remedy = None;
    let (why, is_final) = if refuses_login {
        remedy = Some(AccessRemedy::GiveLogin);
        ("refuses the user name or the password".to_owned(), true)
    } else if has_bad_certificate && text.contains("UnknownIssuer") {
        remedy = Some(AccessRemedy::TrustAuthority);
        ("has a certificate of an authority that is not known here".to_owned(), true)
    } else if has_bad_certificate {
        (format!("has a certificate that is not valid for this address ({text})"), true)
    } else if is_tls && !error.is_connection_refusal() {
        (format!("gives no TLS answer ({text}): for a server without TLS, write redis:// instead of rediss://"), false)
    } else if error.is_connection_dropped() {
        (format!("ends the connection ({text}): for a server with TLS, write rediss:// instead of redis://"), false)
    } else {
        (format!("cannot be reached ({text})"), false)
    };
    Unreachable { message: format!("{}:{} {why}", node.0, node.1), is_final, remedy }
}

/// State that one attempt passes on to the next.
struct Attempt {
    /// Whether to send scripts with their source, because a node did not know the digest.
    with_source: bool,
    /// The node that an `ASK` redirection named, by the index of the command. Its slot is being migrated.
    ask_redirects: HashMap<usize, NodeAddress>,
}

/// `WAIT` for one replica.
fn wait_command() -> Vec<u8> {
    redis::cmd("WAIT").arg(1).arg(WAIT_MS).get_packed_command()
}

/// The node in the details of a redirection: `SLOT HOST:PORT`.
fn redirect_target(details: Option<&str>) -> Option<NodeAddress> {
    let (host, port) = details?.split_whitespace().next_back()?.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}

fn host_port(address: &ConnectionAddr) -> Option<NodeAddress> {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => Some((host.clone(), *port)),
        _ => None,
    }
}

/// The slot of a key: CRC16 of its hash tag, the part between the first braces.
pub fn slot_of(key: &str) -> usize {
    let tag = match key.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
        Some((tag, _)) if !tag.is_empty() => tag,
        _ => key,
    };
    let mut crc: u16 = 0;
    for byte in tag.bytes() {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    usize::from(crc) % SLOTS
}

/// Parses the servers of an address. User and password apply to all of them. `authority` is the certificate authority
/// for `rediss`, in PEM format.
fn seeds(address: &str, authority: Option<&[u8]>) -> Result<Vec<ConnectionInfo>, Unreachable> {
    let invalid = |message: String| Unreachable::permanent(message);
    let (scheme, rest) =
        address.split_once("://").ok_or_else(|| invalid("an address such as redis://host:6379 is needed".into()))?;
    let (login, hosts) = rest.rsplit_once('@').map_or(("", rest), |(login, hosts)| (login, hosts));
    let mut seeds = Vec::new();
    for host in hosts.trim_end_matches('/').split(',') {
        let at = if login.is_empty() { "" } else { "@" };
        let text = format!("{scheme}://{login}{at}{host}");
        // The original error contains the address with the password, so it is not shown.
        let mut info = text
            .as_str()
            .into_connection_info()
            .map_err(|error| invalid(format!("{scheme}://{host}: {}", error.category())))?;
        if let (true, Some(authority)) = (scheme == "rediss", authority) {
            let certificates = TlsCertificates { client_tls: None, root_cert: Some(authority.to_vec()) };
            let client =
                Client::build_with_tls(info, certificates).map_err(|error| invalid(error.category().into()))?;
            info = client.get_connection_info().clone();
        }
        seeds.push(info);
    }
    Ok(seeds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_agree_with_the_cluster_specification() {
        assert_eq!(slot_of("123456789"), 0x31C3);
        assert_eq!(slot_of("{user1000}.following"), slot_of("{user1000}.followers"));
        assert_ne!(slot_of("foo{}{bar}"), slot_of("bar"));
    }

    #[test]
    fn an_address_may_list_several_servers_with_one_login() {
        let seeds = seeds("redis://user:secret@a:1,b:2", None).expect("an address");
        let hosts: Vec<_> = seeds.iter().filter_map(|seed| host_port(seed.addr())).collect();
        assert_eq!(hosts, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
        assert_eq!(seeds[1].redis_settings().username(), Some("user"));
        assert!(super::seeds("nowhere", None).is_err());
    }
}
