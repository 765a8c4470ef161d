//! Tests of a fleet's Redis scripts on a real cluster of six nodes: the frontier suite, leases, epochs and fencing.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use argiope_core::page::custom_request::{CustomRequest, Method};
use argiope_core::schedule::frontier::ALREADY_SENT;
use argiope_core::{Link, LinkRef, Url};
use argiope_store::cluster::{
    BlockingFrontier, FleetClient, LeaseToken, Nodes, QueuedLink, SettleRequest, TakeRequest, TakeResult, bucket_of,
};
use argiope_testkit::frontier_suite as suite;
use argiope_testkit::redis_cluster::RedisCluster;

const BUCKETS: u32 = 16;
const LEASE_MS: u64 = 30_000;

fn client(cluster: &RedisCluster, name: &str, owner: &str) -> FleetClient {
    FleetClient::new(Nodes::open(&cluster.address(), None).expect("the cluster answers"), name, owner)
}

fn stored(address: &str) -> QueuedLink {
    let link = Link::root(Url::parse(address).expect("an address"), 10);
    QueuedLink::new(LinkRef::from(&link), 7)
}

fn frontiers(cluster: &RedisCluster) -> impl Fn(u64) -> BlockingFrontier {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let address = cluster.address();
    move |key| {
        let name = format!("suite{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let nodes = Nodes::open(&address, None).expect("the cluster answers");
        BlockingFrontier::new(FleetClient::new(nodes, &name, "one"), key, BUCKETS)
    }
}

/// Runs the frontier suite. Its parts mostly wait for the servers, so they run concurrently. Every call is a round
/// trip, so without `ARGIOPE_LONG` the longest parts are shorter than for frontiers in memory.
fn frontier_suite_holds(cluster: &RedisCluster) {
    let (length, seeds) = if std::env::var_os("ARGIOPE_LONG").is_some() { (20_000, 40) } else { (2_000, 10) };
    std::thread::scope(|scope| {
        scope.spawn(|| suite::a_link_is_new_exactly_once(frontiers(cluster)));
        scope.spawn(|| suite::a_sitemap_file_and_a_page_at_one_address_are_two(frontiers(cluster)));
        scope.spawn(|| suite::links_are_taken_breadth_first_and_in_order_of_arrival(frontiers(cluster)));
        scope.spawn(|| suite::lanes_are_host_names(frontiers(cluster)));
        scope.spawn(|| suite::a_link_comes_out_as_it_went_in(frontiers(cluster)));
        scope.spawn(|| suite::a_request_is_its_method_address_and_body(frontiers(cluster)));
        scope.spawn(|| suite::links_of_a_higher_priority_are_taken_first(frontiers(cluster)));
        scope.spawn(|| suite::a_link_given_back_is_taken_again_as_it_was_given_back(frontiers(cluster)));
        scope.spawn(|| suite::a_settled_link_stays_known(frontiers(cluster)));
        scope.spawn(|| suite::only_a_leased_link_can_be_settled_or_given_back(frontiers(cluster)));
        scope.spawn(move || suite::a_queue_is_emptied_in_order(frontiers(cluster), length));
        for start in (0..seeds).step_by(5) {
            scope.spawn(move || suite::histories_agree_with_the_model(frontiers(cluster), start..start + 5));
        }
    });
}

#[test]
#[ignore = "needs redis-server"]
fn the_frontier_suite_holds_on_a_single_server() {
    frontier_suite_holds(&RedisCluster::single());
}

/// All tests that need a cluster run on one, because starting a cluster takes longer than these tests.
#[test]
#[ignore = "needs redis-server"]
fn the_frontier_suite_and_the_scripts_hold_on_a_cluster() {
    let mut cluster = RedisCluster::start();
    leases_epochs_and_fences(&cluster);
    the_first_of_equal_links_counts(&cluster);
    a_quota_is_moved_and_never_exceeded(&cluster);
    the_next_owner_learns_that_a_request_was_sent(&cluster);
    a_put_that_no_replica_confirms_in_time_says_what_is_new(&cluster);
    frontier_suite_holds(&cluster);
    a_failover_loses_nothing_that_was_confirmed(&mut cluster);
}

/// Forwards connections to a server. If `lose_next` is set, it closes the connection instead of delivering the next
/// reply, when the script has already run.
struct LosingProxy {
    address: String,
    lose_next: Arc<AtomicBool>,
}

impl LosingProxy {
    fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("redis://{}", listener.local_addr().expect("bound"));
        let server = server.trim_start_matches("redis://").to_owned();
        let lose_next = Arc::new(AtomicBool::new(false));
        let lose = Arc::clone(&lose_next);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&server).expect("the server answers");
                let lose = Arc::clone(&lose);
                std::thread::spawn(move || forward(client, server, &lose));
            }
        });
        Self { address, lose_next }
    }
}

fn forward(client: TcpStream, server: TcpStream, lose: &AtomicBool) {
    let (mut from, mut to) = (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
    let requests = std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    let (mut server, mut client) = (server, client);
    let mut buffer = [0; 65_536];
    while let Ok(count) = server.read(&mut buffer)
        && count > 0
    {
        // At this point the script has run.
        if lose.swap(false, Ordering::SeqCst) || client.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
    let _ = requests.join();
}

#[test]
#[ignore = "needs redis-server"]
fn a_lost_reply_changes_neither_new_nor_leased_links() {
    let server = RedisCluster::single();
    let proxy = LosingProxy::start(&server.address());
    let nodes = Nodes::open(&proxy.address, None).expect("the server answers");
    let mut one = FleetClient::new(nodes, "lost", "one");
    let bucket = bucket_of("h.example", BUCKETS);
    let links = |from: u32| (from..from + 3).map(|n| stored(&format!("https://h.example/{n}"))).collect::<Vec<_>>();
    // The first call loads the scripts, so that the lost reply is that of the script itself.
    assert_eq!(one.put_exactly(&[(bucket, links(0))]).expect("put")[0].new, [true; 3]);
    proxy.lose_next.store(true, Ordering::SeqCst);
    let repeated = one.put_exactly(&[(bucket, links(2))]).expect("put");
    assert!(!proxy.lose_next.load(Ordering::SeqCst), "a reply was lost");
    assert_eq!(repeated[0].new, [false, true, true], "a repeated put gets the same reply as the first attempt");
    let epoch = one.acquire(&[bucket], LEASE_MS, false).expect("acquire")[0].epoch;
    let token = LeaseToken { bucket, epoch };
    let want = |number| TakeRequest { token, number, max_links: 2, per_other_host: 9, hosts: Vec::new() };
    let paths = |taken: &[Option<TakeResult>]| -> Vec<String> {
        let hosts = taken[0].iter().flat_map(|taken| &taken.hosts);
        hosts.flat_map(|host| &host.links).map(|taken| taken.link.url.to_string()).collect()
    };
    assert_eq!(paths(&one.take(&[want(1)]).expect("take")), ["https://h.example/0", "https://h.example/1"]);
    proxy.lose_next.store(true, Ordering::SeqCst);
    let repeated = one.take(&[want(2)]).expect("take");
    assert!(!proxy.lose_next.load(Ordering::SeqCst), "a reply was lost");
    assert_eq!(
        paths(&repeated),
        ["https://h.example/2", "https://h.example/3"],
        "a repeated take returns the same links"
    );
    assert_eq!(repeated[0].as_ref().map(|taken| (taken.leased, taken.queued, taken.hosts[0].left)), Some((4, 1, 1)));
}

/// The first attempt inserts the links, but for a while no replica confirms it.
fn a_put_that_no_replica_confirms_in_time_says_what_is_new(cluster: &RedisCluster) {
    let mut one = client(cluster, "unconfirmed", "one");
    let replicas: Vec<u32> =
        (0..cluster.len()).filter(|index| !cluster.is_primary(*index)).filter_map(|index| cluster.pid(index)).collect();
    let signal = |name: &str| {
        for pid in &replicas {
            let sent = Command::new("kill").args([name, &pid.to_string()]).status().expect("kill is there");
            assert!(sent.success());
        }
    };
    let links: Vec<QueuedLink> = (0..5).map(|n| stored(&format!("https://h.example/{n}"))).collect();
    signal("-STOP");
    let put = std::thread::scope(|scope| {
        let put = scope.spawn(|| one.put_exactly(&[(bucket_of("h.example", BUCKETS), links)]));
        // Longer than one WAIT, shorter than the timeout after which a replica counts as dead.
        std::thread::sleep(Duration::from_millis(1_200));
        signal("-CONT");
        put.join().expect("it does not panic")
    });
    assert_eq!(put.expect("put")[0].new, [true; 5]);
    cluster.wait_until_ready();
}

fn the_first_of_equal_links_counts(cluster: &RedisCluster) {
    let mut one = client(cluster, "equal", "one");
    let bucket = bucket_of("h.example", BUCKETS);
    let at_depth = |address: &str, rank| QueuedLink { rank, ..stored(address) };
    let links = vec![at_depth("https://h.example/a", 2), at_depth("https://h.example/a", 1)];
    assert_eq!(one.put_exactly(&[(bucket, links)]).expect("put")[0].new, [true, false]);
    let epoch = one.acquire(&[bucket], LEASE_MS, false).expect("acquire")[0].epoch;
    let token = LeaseToken { bucket, epoch };
    let want = TakeRequest { token, number: 1, max_links: 9, per_other_host: 9, hosts: Vec::new() };
    let taken = one.take(&[want]).expect("take")[0].clone().expect("held");
    assert_eq!(taken.hosts[0].links.iter().map(|taken| taken.link.depth).collect::<Vec<_>>(), [2]);
}

fn leases_epochs_and_fences(cluster: &RedisCluster) {
    let (mut one, mut two) = (client(cluster, "lease", "one"), client(cluster, "lease", "two"));
    let bucket = bucket_of("h.example", BUCKETS);
    let links: Vec<QueuedLink> = (0..5).map(|n| stored(&format!("https://h.example/{n}"))).collect();
    one.put(&[(bucket, links.clone())]).expect("put");
    let again = two.put(&[(bucket, links)]).expect("put");
    assert!(again[0].new.iter().all(|new| !new), "put is idempotent");
    let token = |epoch| LeaseToken { bucket, epoch };
    let first = one.acquire(&[bucket], LEASE_MS, false).expect("acquire")[0].clone();
    assert!(!first.had_owner);
    assert!(two.acquire(&[bucket], LEASE_MS, false).expect("acquire").is_empty(), "a bucket has one owner");
    let want =
        |epoch, number| TakeRequest { token: token(epoch), number, max_links: 2, per_other_host: 9, hosts: Vec::new() };
    let taken = one.take(&[want(first.epoch, 1)]).expect("take")[0].clone().expect("held");
    assert_eq!((taken.hosts[0].links.len(), taken.hosts[0].left, taken.leased), (2, 3, 2));
    let fingerprint = |link: &Link| link.fingerprint(7);
    let settle = |epoch, sequence, link: &Link| SettleRequest {
        token: token(epoch),
        sequence,
        pages: 1,
        bytes: 100,
        fingerprints: vec![fingerprint(link)],
        notes: vec![("h.example".into(), b"note".to_vec())],
    };
    let (a, b) = (&taken.hosts[0].links[0].link, &taken.hosts[0].links[1].link);
    let out_of_order = one.settle(&[settle(first.epoch, 2, a)]).expect("settle");
    assert!(out_of_order[0].is_err(), "only the next number settles");
    for _ in 0..2 {
        assert_eq!(one.settle(&[settle(first.epoch, 1, a)]).expect("settle"), [Ok(())], "settling is idempotent");
    }
    assert!(one.settle(&[settle(first.epoch, 2, a)]).expect("settle")[0].is_err(), "a page is settled once");
    // Renewing a lease with a duration of zero ends it at once.
    assert_eq!(one.renew(&[token(first.epoch)], 0).expect("renew"), [true]);
    let until = std::time::Instant::now() + Duration::from_secs(10);
    let second = loop {
        if let Some(acquired) = two.acquire(&[bucket], LEASE_MS, false).expect("acquire").first() {
            break acquired.clone();
        }
        assert!(std::time::Instant::now() < until, "an ended lease is not taken over");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(second.had_owner && second.epoch > first.epoch);
    assert_eq!(second.queued, 4, "leased links are queued again");
    assert_eq!(one.renew(&[token(first.epoch)], LEASE_MS).expect("renew"), [false]);
    assert!(one.take(&[want(first.epoch, 2)]).expect("take")[0].is_none());
    assert!(one.settle(&[settle(first.epoch, 2, b)]).expect("settle")[0].is_err(), "an old epoch settles nothing");
    assert_eq!(two.notes(&[(bucket, "h.example".into())]).expect("notes"), [Some(b"note".to_vec())]);
    let state = &two.confirm(BUCKETS).expect("confirm")[bucket as usize];
    assert_eq!((state.known, state.queued, state.leased, state.settled, state.bytes), (5, 4, 0, 1, 100));
    let positions = two.positions(BUCKETS).expect("positions");
    assert_eq!(positions, [(bucket, first.epoch, "one".to_owned(), 1)]);
    two.release(&[token(second.epoch)]).expect("release");
    assert_eq!(one.acquire(&[bucket], LEASE_MS, false).expect("acquire").len(), 1, "a released bucket is free at once");
}

fn the_next_owner_learns_that_a_request_was_sent(cluster: &RedisCluster) {
    let (mut one, mut two) = (client(cluster, "sent", "one"), client(cluster, "sent", "two"));
    let bucket = bucket_of("h.example", BUCKETS);
    let request = CustomRequest { method: Method::Post, body: b"a".as_slice().into(), ..CustomRequest::default() };
    let url = Url::parse("https://h.example/form").expect("an address");
    let form = Link { request: Some(Arc::new(request)), ..Link::root(url, 10) };
    one.put(&[(bucket, vec![QueuedLink::new(LinkRef::from(&form), 7), stored("https://h.example/")])]).expect("put");
    let token = |epoch| LeaseToken { bucket, epoch };
    let first = one.acquire(&[bucket], LEASE_MS, false).expect("acquire")[0].epoch;
    let want =
        |epoch| TakeRequest { token: token(epoch), number: 1, max_links: 9, per_other_host: 9, hosts: Vec::new() };
    one.take(&[want(first)]).expect("take");
    let sent = Link { tries: ALREADY_SENT, ..form.clone() };
    let sent = QueuedLink::new(LinkRef::from(&sent), 7);
    assert!(one.mark(token(first), std::slice::from_ref(&sent)).expect("mark"));
    one.release(&[token(first)]).expect("release");
    assert!(!one.mark(token(first), &[sent]).expect("mark"), "an old epoch marks nothing");
    let second = two.acquire(&[bucket], LEASE_MS, false).expect("acquire")[0].epoch;
    let taken = two.take(&[want(second)]).expect("take")[0].clone().expect("held");
    let mut tries: Vec<(bool, u8)> =
        taken.hosts[0].links.iter().map(|taken| (taken.link.request.is_some(), taken.link.tries)).collect();
    tries.sort_unstable();
    assert_eq!(tries, [(false, 0), (true, ALREADY_SENT)]);
}

fn a_quota_is_moved_and_never_exceeded(cluster: &RedisCluster) {
    let mut one = client(cluster, "quota", "one");
    let pool = one.crawl_key("pool");
    one.plain_replicated(&pool, &[b"HSET", pool.as_bytes(), b"left", b"3"]).expect("a pool");
    let bucket = bucket_of("h.example", BUCKETS);
    let links = (0..9).map(|n| stored(&format!("https://h.example/{n}"))).collect();
    one.put(&[(bucket, links)]).expect("put");
    let epoch = one.acquire(&[bucket], LEASE_MS, true).expect("acquire")[0].epoch;
    let token = LeaseToken { bucket, epoch };
    assert_eq!(one.grant(bucket, 2).expect("grant"), 2);
    let want = |number| TakeRequest { token, number, max_links: 9, per_other_host: 9, hosts: Vec::new() };
    let taken = one.take(&[want(1)]).expect("take")[0].clone().expect("held");
    assert_eq!((taken.hosts[0].links.len(), taken.quota), (2, Some(0)));
    assert_eq!((one.grant(bucket, 5).expect("grant"), one.grant(bucket, 5).expect("grant")), (1, 0));
    assert_eq!(one.refund(token).expect("refund"), 0, "a bucket with work keeps its quota");
    assert_eq!(one.take(&[want(2)]).expect("take")[0].as_ref().map(|taken| taken.leased), Some(3));
    // A settle with no links, only records such as that of a robots.txt.
    let settle = SettleRequest { token, sequence: 1, pages: 0, bytes: 0, fingerprints: Vec::new(), notes: Vec::new() };
    assert_eq!(one.settle(&[settle]).expect("settle"), [Ok(())]);
}

fn a_failover_loses_nothing_that_was_confirmed(cluster: &mut RedisCluster) {
    let mut one = client(cluster, "failover", "one");
    let host = |n: u32| format!("https://h{n}.example/");
    let batch = |from: u32| {
        let mut batches: std::collections::BTreeMap<u32, Vec<QueuedLink>> = std::collections::BTreeMap::new();
        for n in from..from + 50 {
            let bucket = bucket_of(&format!("h{n}.example"), BUCKETS);
            batches.entry(bucket).or_default().push(stored(&host(n)));
        }
        batches.into_iter().collect::<Vec<_>>()
    };
    one.put(&batch(0)).expect("put");
    let primary = (0..cluster.len()).find(|index| cluster.is_primary(*index)).expect("a primary");
    cluster.kill_node(primary);
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while one.put(&batch(50)).is_err() {
        assert!(std::time::Instant::now() < until, "the cluster does not take writes again");
    }
    let known: u64 = one.confirm(BUCKETS).expect("confirm").iter().map(|state| state.known).sum();
    assert_eq!(known, 100);
}
