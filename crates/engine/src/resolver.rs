//! The resolver: looks up the addresses of host names, on its own thread or on one that crawls share.
//!
//! Invariant: every query gets exactly one answer. IP literals are answered immediately. Names given with `--resolve`
//! are not passed to the resolver. The thread, its runtime and the DNS library (hickory) start with the first
//! name that needs a name server.
//!
//! Whether an address may be connected to is decided in the core (`address`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use argiope_core::base::job::LaneId;
use argiope_core::crawl::rules::Rules;
pub use argiope_core::http::address::DnsResult;
use argiope_core::{ErrorKind, Failure};
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

/// Bounds of an answer's time to live. With a shorter time, every page would need a query. With a longer time,
/// addresses would be outdated.
const MIN_TTL: Duration = Duration::from_secs(5);
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How long to wait for the second address family once the first has answered (the delay of RFC 8305, section 3).
const SECOND_FAMILY_DELAY: Duration = Duration::from_millis(50);

/// How many names are resolved at the same time. Each needs two sockets. Further names wait.
const MAX_IN_FLIGHT: usize = 1_000;

/// The settings of name lookups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResolverSettings {
    /// The limit for one name (`--connect-timeout`).
    pub timeout: Duration,
    /// The name server to use instead of the system's (`--dns`).
    pub server: Option<SocketAddr>,
}

impl ResolverSettings {
    /// The settings of a crawl.
    pub fn of(rules: &Rules) -> Self {
        Self { timeout: rules.connect_timeout, server: rules.dns }
    }
}

/// The host name of a lane, to be resolved.
#[derive(Clone, Debug)]
pub struct DnsQuery {
    pub lane: LaneId,
    pub host: Arc<str>,
}

/// The answer to one [`DnsQuery`].
#[derive(Clone, Debug)]
pub struct DnsAnswer {
    pub lane: LaneId,
    pub result: DnsResult,
}

/// Accepts queries. Dropping it ends the thread, unless others share it.
pub struct Resolver {
    settings: ResolverSettings,
    /// Receives the answers.
    on_answer: Arc<OnAnswer>,
    thread: ResolverThread,
}

/// A function that receives answers.
type OnAnswer = dyn Fn(DnsAnswer) + Send + Sync;

/// The sender to a thread that looks names up, once it runs. A clone is the same thread. All its users have the same
/// settings.
#[derive(Clone, Default)]
pub struct ResolverThread(Arc<Mutex<Option<mpsc::UnboundedSender<PendingQuery>>>>);

/// A query of a lane, and what receives the answer.
struct PendingQuery {
    query: DnsQuery,
    on_answer: Arc<OnAnswer>,
}

impl Resolver {
    /// `on_answer` is called on the resolver's thread. For IP literals, and if that thread cannot be started, it is
    /// called on the caller's thread. `shared` is a thread that others with the same settings use too.
    pub fn start(
        rules: &Rules,
        shared: Option<ResolverThread>,
        on_answer: impl Fn(DnsAnswer) + Send + Sync + 'static,
    ) -> Self {
        let own = Self::with_settings(ResolverSettings::of(rules), on_answer);
        Self { thread: shared.unwrap_or_default(), ..own }
    }

    /// A resolver with these settings and a thread of its own.
    pub fn with_settings(settings: ResolverSettings, on_answer: impl Fn(DnsAnswer) + Send + Sync + 'static) -> Self {
        Self { settings, on_answer: Arc::new(on_answer), thread: ResolverThread::default() }
    }

    /// Starts to resolve a name. The answer is passed to `on_answer`.
    pub fn query(&self, query: DnsQuery) {
        match Self::parse_literal(&query.host) {
            Some(found) => (self.on_answer)(DnsAnswer { lane: query.lane, result: Ok(found) }),
            None => self.send_to_thread(query),
        }
    }

    /// The address of an IP literal, with an unlimited time to live; `None` for a name.
    pub fn parse_literal(host: &str) -> Option<(Vec<IpAddr>, Duration)> {
        let literal = without_trailing_dot(host).trim_start_matches('[').trim_end_matches(']');
        literal.parse().ok().map(|address| (vec![address], Duration::MAX))
    }

    /// Sends a query to the resolver's thread, which is started if it does not run.
    fn send_to_thread(&self, query: DnsQuery) {
        let mut pending = PendingQuery { query, on_answer: Arc::clone(&self.on_answer) };
        let mut thread_sender = self.thread.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*thread_sender {
            match sender.send(pending) {
                Ok(()) => return,
                Err(mpsc::error::SendError(unsent)) => pending = unsent,
            }
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        let settings = self.settings.clone();
        let serve = move || serve(&settings, receiver);
        match thread::Builder::new().name("resolver".to_owned()).spawn(serve) {
            Ok(_) => {
                // The receiver lives as long as the thread, which has just started.
                let _ = sender.send(pending);
                *thread_sender = Some(sender);
            }
            Err(error) => pending.answer(Err(cannot_start(&error))),
        }
    }
}

impl PendingQuery {
    fn answer(&self, result: DnsResult) {
        (self.on_answer)(DnsAnswer { lane: self.query.lane, result });
    }
}

impl DnsQuery {
    fn name(&self) -> &str {
        without_trailing_dot(&self.host)
    }
}

/// The host without the trailing dot of a fully qualified name.
fn without_trailing_dot(host: &str) -> &str {
    host.trim_end_matches('.')
}

fn cannot_start(error: &std::io::Error) -> Failure {
    Failure::new(ErrorKind::Internal, format!("the resolver cannot be started: {error}"))
}

/// The resolver's thread. It resolves many names at once on one current-thread runtime.
fn serve(settings: &ResolverSettings, mut queries: mpsc::UnboundedReceiver<PendingQuery>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            while let Some(query) = queries.blocking_recv() {
                query.answer(Err(cannot_start(&error)));
            }
            return;
        }
    };
    LocalSet::new().block_on(&runtime, async move {
        let sources = Rc::new(NameSources::open(settings));
        let waiting = WaitingQueries::default();
        let permits = Rc::new(Semaphore::new(MAX_IN_FLIGHT));
        while let Some(query) = queries.recv().await {
            let name: Box<str> = query.query.name().to_ascii_lowercase().into();
            if let Some(others) = waiting.borrow_mut().get_mut(&name) {
                others.push(query);
                continue;
            }
            waiting.borrow_mut().insert(name.clone(), vec![query]);
            let pending = PendingName { name, waiting: Rc::clone(&waiting), result: None };
            let (sources, permits) = (Rc::clone(&sources), Rc::clone(&permits));
            tokio::task::spawn_local(async move {
                let _permit = permits.acquire().await;
                let result = sources.look_up(&pending.name).await;
                pending.finish(result);
            });
        }
    });
}

/// The queries that wait for each name. A second query for a name that is being resolved is only added.
type WaitingQueries = Rc<RefCell<HashMap<Box<str>, Vec<PendingQuery>>>>;

/// One name being resolved. Dropping it sends the answer. So even after a panic in a library no lane waits forever.
struct PendingName {
    name: Box<str>,
    waiting: WaitingQueries,
    /// `None` until the lookup has ended.
    result: Option<DnsResult>,
}

impl PendingName {
    /// Sends the result.
    fn finish(mut self, result: DnsResult) {
        self.result = Some(result);
    }
}

impl Drop for PendingName {
    fn drop(&mut self) {
        let result = self.result.take();
        let result =
            result.unwrap_or_else(|| Err(Failure::new(ErrorKind::Internal, "the lookup ended without a result")));
        let queries = self.waiting.borrow_mut().remove(&self.name);
        queries.unwrap_or_default().iter().for_each(|query| query.answer(result.clone()));
    }
}

/// The hosts file and the name servers.
struct NameSources {
    timeout: Duration,
    hosts: Hosts,
    /// The client for the name servers; an error if it could not be created.
    client: Result<TokioResolver, NetError>,
}

impl NameSources {
    fn open(settings: &ResolverSettings) -> Self {
        let hosts = Hosts::from_system().unwrap_or_default();
        Self { timeout: settings.timeout, hosts, client: dns_client(settings) }
    }

    /// Resolves a name with the hosts file. If the name is not there, uses the name servers.
    async fn look_up(&self, host: &str) -> DnsResult {
        let failed = |kind, message: String| Err(Failure::new(kind, message));
        let name = match parse_name(host) {
            Ok(name) => name,
            Err(error) => return failed(ErrorKind::DnsInvalid, format!("{host} is not a valid name: {error}")),
        };
        // For a name in the hosts file, name servers are not used, as in the system's resolver.
        let listed: Vec<_> = [RecordType::AAAA, RecordType::A]
            .into_iter()
            .filter_map(|kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind)))
            .collect();
        if let Some(found) = combine(&listed) {
            return Ok(found);
        }
        let client = match &self.client {
            Ok(client) => client,
            Err(error) => return failed(ErrorKind::DnsServfail, format!("no name server: {error}")),
        };
        match timeout(self.timeout, look_up_both_families(client, name.clone())).await {
            Ok(Ok(lookups)) => match combine(&lookups) {
                Some(found) => Ok(found),
                None => failed(ErrorKind::DnsNxdomain, format!("{host} has no address")),
            },
            Ok(Err(error)) if has_endless_aliases(client, &name, &error, self.timeout).await => {
                failed(ErrorKind::DnsInvalid, format!("{host} has an endless chain of aliases (CNAME)"))
            }
            Ok(Err(error)) => {
                let (kind, message) = kind_and_message(&error);
                failed(kind, format!("{host} {message}"))
            }
            Err(_) => failed(ErrorKind::DnsTimeout, format!("no answer about {host} in {:?}", self.timeout)),
        }
    }
}

/// Whether a name has no address because its aliases (CNAME) form an endless chain. The resolver follows a chain to a
/// limited length. If the chain is endless, the last name that it reached is an alias too.
async fn has_endless_aliases(client: &TokioResolver, name: &Name, error: &NetError, limit: Duration) -> bool {
    let NetError::Dns(DnsError::NoRecordsFound(no_records)) = error else { return false };
    let last_name = no_records.query.name();
    if error.is_nx_domain() || last_name == name {
        return false;
    }
    let alias = timeout(limit, client.lookup(last_name.clone(), RecordType::CNAME)).await;
    alias.is_ok_and(|found| found.is_ok_and(|found| !found.answers().is_empty()))
}

/// The addresses of several lookups, and the shortest time to live, within its bounds. `None` without an address.
fn combine(lookups: &[Lookup]) -> Option<(Vec<IpAddr>, Duration)> {
    let records = lookups.iter().flat_map(|lookup| lookup.answers());
    let addresses: Vec<IpAddr> = records.filter_map(|record| record.data.ip_addr()).collect();
    if addresses.is_empty() {
        return None;
    }
    let now = Instant::now();
    let ttl = lookups.iter().map(|lookup| lookup.valid_until().saturating_duration_since(now)).min();
    Some((addresses, ttl.unwrap_or(MIN_TTL).clamp(MIN_TTL, MAX_TTL)))
}

/// Parses a host name. A name with a dot is fully qualified. Only single labels use the system's search list: a crawl
/// must not query `example.com.my.office` if the lookup of example.com fails.
fn parse_name(host: &str) -> Result<Name, NetError> {
    let mut name = Name::from_ascii(host)?;
    name.set_fqdn(host.contains('.'));
    Ok(name)
}

/// The client for the name servers of the settings or of the system.
fn dns_client(settings: &ResolverSettings) -> Result<TokioResolver, NetError> {
    let (config, mut options) = match settings.server {
        Some(address) => (ResolverConfig::from_name_servers(vec![name_server(address)]), ResolverOpts::default()),
        // Without a readable resolv.conf, localhost is used, as in the system's resolver.
        None => hickory_resolver::system_conf::read_system_conf().unwrap_or_else(|_| {
            let local = name_server(SocketAddr::from((Ipv4Addr::LOCALHOST, 53)));
            (ResolverConfig::from_name_servers(vec![local]), ResolverOpts::default())
        }),
    };
    // Leaves time to repeat a query whose packet was lost.
    options.timeout = options.timeout.min(settings.timeout / 2);
    options.max_active_requests = MAX_IN_FLIGHT;
    // Only the addresses are needed, not the aliases (CNAME) that lead to them.
    options.preserve_intermediates = false;
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    builder.build()
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()]
        .into_iter()
        .map(|mut connection| {
            connection.port = address.port();
            connection
        })
        .collect();
    let trust_negative_responses = true;
    NameServerConfig::new(address.ip(), trust_negative_responses, connections)
}

/// Queries IPv6 and IPv4 addresses in parallel. A family that fails, or is much slower than the other, is left out.
async fn look_up_both_families(client: &TokioResolver, name: Name) -> Result<Vec<Lookup>, NetError> {
    let mut ipv6 = std::pin::pin!(client.lookup(name.clone(), RecordType::AAAA));
    let mut ipv4 = std::pin::pin!(client.lookup(name, RecordType::A));
    // After a success, the other family has a short time. After a failure, it is awaited.
    let (first, second) = tokio::select! {
        first = &mut ipv6 => match first {
            Ok(found) => (Ok(found), result_in_time(&mut ipv4).await),
            Err(error) => (Err(error), Some(ipv4.await)),
        },
        first = &mut ipv4 => match first {
            Ok(found) => (Ok(found), result_in_time(&mut ipv6).await),
            Err(error) => (Err(error), Some(ipv6.await)),
        },
    };
    match (first, second) {
        (Ok(first), Some(Ok(second))) => {
            let mut both = vec![first, second];
            both.sort_by_key(|lookup| lookup.query().query_type() != RecordType::AAAA);
            Ok(both)
        }
        (Ok(one), _) | (Err(_), Some(Ok(one))) => Ok(vec![one]),
        (Err(first), Some(Err(second))) => Err(if severity(&second) > severity(&first) { second } else { first }),
        (Err(error), None) => Err(error),
    }
}

/// The result of a future, or `None` if it takes longer than [`SECOND_FAMILY_DELAY`].
async fn result_in_time<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = future => Some(done),
        () = sleep(SECOND_FAMILY_DELAY) => None,
    }
}

/// If the families fail differently, the error with the higher severity is reported. A temporary failure outranks
/// NXDOMAIN: as long as one family could not be looked up, it is not known that the name has no address.
fn severity(error: &NetError) -> u8 {
    match kind_and_message(error).0 {
        ErrorKind::DnsServfail => 4,
        ErrorKind::DnsTimeout => 3,
        ErrorKind::DnsInvalid => 2,
        ErrorKind::DnsNxdomain if error.is_nx_domain() => 1,
        _ => 0,
    }
}

/// The kind of a DNS error, and a message that follows the host name.
fn kind_and_message(error: &NetError) -> (ErrorKind, String) {
    match error {
        error if error.is_nx_domain() => (ErrorKind::DnsNxdomain, "does not exist".to_owned()),
        NetError::Dns(DnsError::NoRecordsFound(no_records)) if no_records.response_code == ResponseCode::NoError => {
            (ErrorKind::DnsNxdomain, "has no address".to_owned())
        }
        NetError::Dns(DnsError::ResponseCode(ResponseCode::FormErr | ResponseCode::BADNAME)) | NetError::Proto(_) => {
            (ErrorKind::DnsInvalid, format!("cannot be looked up: {error}"))
        }
        NetError::Timeout => (ErrorKind::DnsTimeout, "could not be looked up: no name server answered".to_owned()),
        _ => (ErrorKind::DnsServfail, format!("could not be looked up: {error}")),
    }
}
