//! Tests of a fleet's Redis scripts: the frontier suite, leases, epochs and fencing. They run on a real cluster of six
//! nodes or on a single server.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use argiope_core::base::custom_request::{CustomRequest, Method};
use argiope_core::base::link::ALREADY_SENT;
use argiope_core::{Link, LinkRef, Url};
use argiope_fleet::cluster::{
    FleetClient, HostNews, LeaseToken, Nodes, QueuedLink, SettleReply, SettleRequest, TakeRequest, TakeResult,
    WireNote, bucket_of,
};
use argiope_testkit::blocking_frontier::BlockingFrontier;
use argiope_testkit::frontier_suite as suite;
use argiope_testkit::redis_cluster::{NODE_TIMEOUT_MS, RedisCluster};

const BUCKETS: u32 = 16;
const LEASE_MS: u64 = 30_000;
const FINGERPRINT_KEY: u64 = 7;
const MAX_REDIRECTS: u8 = 10;
/// A limit on links per host or take that no test reaches.
const MANY: usize = 9;
/// Whether the crawl has a limit on pages, so that a bucket needs quota.
const LIMITED: bool = true;
const UNLIMITED: bool = false;

fn client(cluster: &RedisCluster, name: &str, owner: &str) -> FleetClient {
    FleetClient::new(Nodes::open(&cluster.address(), None).expect("the cluster responds"), name, owner)
}

fn queued_link(address: &str) -> QueuedLink {
    let link = Link::root(Url::parse(address).expect("a URL"), MAX_REDIRECTS);
    QueuedLink::new(LinkRef::from(&link), FINGERPRINT_KEY)
}

/// A function that creates an empty frontier with a new name.
fn frontiers(cluster: &RedisCluster) -> impl Fn(u64) -> BlockingFrontier {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let address = cluster.address();
    move |key| {
        let name = format!("suite{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let nodes = Nodes::open(&address, None).expect("the cluster responds");
        BlockingFrontier::new(FleetClient::new(nodes, &name, "one"), key, BUCKETS)
    }
}

/// Runs the frontier suite. Its tests mostly wait for the servers, so they run concurrently. Every call is a round
/// trip, so without `ARGIOPE_LONG` the longest tests make fewer calls than for other frontiers.
fn run_frontier_suite(cluster: &RedisCluster) {
    let (length, seeds) = if std::env::var_os("ARGIOPE_LONG").is_some() { (20_000, 40) } else { (2_000, 10) };
    std::thread::scope(|scope| {
        scope.spawn(|| suite::a_link_is_new_exactly_once(frontiers(cluster)));
        scope.spawn(|| suite::a_sitemap_file_and_a_page_with_one_url_are_two_links(frontiers(cluster)));
        scope.spawn(|| suite::links_are_taken_breadth_first_and_in_order_of_arrival(frontiers(cluster)));
        scope.spawn(|| suite::lanes_are_host_names(frontiers(cluster)));
        scope.spawn(|| suite::a_taken_link_equals_the_link_that_was_put(frontiers(cluster)));
        scope.spawn(|| suite::requests_with_equal_method_url_and_body_are_one_link(frontiers(cluster)));
        scope.spawn(|| suite::links_of_a_higher_priority_are_taken_first(frontiers(cluster)));
        scope.spawn(|| suite::a_link_that_was_given_back_is_taken_again_with_its_changes(frontiers(cluster)));
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
    run_frontier_suite(&RedisCluster::single());
}

/// All tests that need a cluster run on one, because starting a cluster takes longer than these tests.
#[test]
#[ignore = "needs redis-server"]
fn the_frontier_suite_and_the_scripts_hold_on_a_cluster() {
    let mut cluster = RedisCluster::start();
    leases_epochs_and_fencing(&cluster);
    the_first_of_equal_links_is_queued(&cluster);
    a_quota_is_moved_and_never_exceeded(&cluster);
    the_next_owner_learns_that_a_request_was_sent(&cluster);
    the_next_owner_learns_how_long_to_wait(&cluster);
    a_put_that_no_replica_confirms_in_time_returns_what_is_new(&cluster);
    run_frontier_suite(&cluster);
    a_failover_loses_nothing_that_was_confirmed(&mut cluster);
}

/// A proxy for connections to a server. If `lose_next` is set, it closes the connection instead of delivering the next
/// reply. The server has executed the script then.
struct LosingProxy {
    address: String,
    lose_next: Arc<AtomicBool>,
}

impl LosingProxy {
    fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("redis://{}", listener.local_addr().expect("an address"));
        let server = server.trim_start_matches("redis://").to_owned();
        let lose_next = Arc::new(AtomicBool::new(false));
        let lose_next_reply = Arc::clone(&lose_next);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&server).expect("the server responds");
                let lose_next = Arc::clone(&lose_next_reply);
                std::thread::spawn(move || forward_connection(client, server, &lose_next));
            }
        });
        Self { address, lose_next }
    }
}

fn forward_connection(client: TcpStream, server: TcpStream, lose_next: &AtomicBool) {
    let (mut from, mut to) = (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
    let requests = std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    let (mut server, mut client) = (server, client);
    let mut buffer = [0; 65_536];
    while let Ok(count) = server.read(&mut buffer)
        && count > 0
    {
        if lose_next.swap(false, Ordering::SeqCst) || client.write_all(&buffer[..count]).is_err() {
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
    let nodes = Nodes::open(&proxy.address, None).expect("the server responds");
    let mut client_one = FleetClient::new(nodes, "lost", "one");
    let bucket = bucket_of("h.example", BUCKETS);
    let links =
        |from: u32| (from..from + 3).map(|n| queued_link(&format!("https://h.example/{n}"))).collect::<Vec<_>>();
    // The first call loads the scripts, so that the lost reply is that of the script itself.
    assert_eq!(client_one.put_idempotent(&[(bucket, links(0))]).expect("put")[0].new, [true; 3]);
    proxy.lose_next.store(true, Ordering::SeqCst);
    let repeated = client_one.put_idempotent(&[(bucket, links(2))]).expect("put");
    assert!(!proxy.lose_next.load(Ordering::SeqCst), "a reply was lost");
    assert_eq!(repeated[0].new, [false, true, true], "a repeated put gets the same reply as the first attempt");
    let epoch = client_one.acquire(&[bucket], LEASE_MS, UNLIMITED).expect("acquire")[0].epoch;
    let token = LeaseToken { bucket, epoch };
    let take_request =
        |sequence| TakeRequest { token, sequence, max_links: 2, max_per_other_host: MANY, hosts: Vec::new() };
    let paths = |taken: &[Option<TakeResult>]| -> Vec<String> {
        let hosts = taken[0].iter().flat_map(|taken| &taken.hosts);
        hosts.flat_map(|host| &host.links).map(|taken| taken.link.url.to_string()).collect()
    };
    assert_eq!(
        paths(&client_one.take(&[take_request(1)]).expect("take")),
        ["https://h.example/0", "https://h.example/1"]
    );
    proxy.lose_next.store(true, Ordering::SeqCst);
    let repeated = client_one.take(&[take_request(2)]).expect("take");
    assert!(!proxy.lose_next.load(Ordering::SeqCst), "a reply was lost");
    assert_eq!(
        paths(&repeated),
        ["https://h.example/2", "https://h.example/3"],
        "a repeated take returns the same links"
    );
    assert_eq!(repeated[0].as_ref().map(|taken| (taken.leased, taken.queued, taken.hosts[0].left)), Some((4, 1, 1)));
}

/// The first attempt inserts the links, but for a while no replica confirms it.
fn a_put_that_no_replica_confirms_in_time_returns_what_is_new(cluster: &RedisCluster) {
    let mut client_one = client(cluster, "unconfirmed", "one");
    let replicas: Vec<u32> =
        (0..cluster.len()).filter(|index| !cluster.is_primary(*index)).filter_map(|index| cluster.pid(index)).collect();
    let signal = |name: &str| {
        for pid in &replicas {
            let sent = Command::new("kill").args([name, &pid.to_string()]).status().expect("kill runs");
            assert!(sent.success());
        }
    };
    let links: Vec<QueuedLink> = (0..5).map(|n| queued_link(&format!("https://h.example/{n}"))).collect();
    // The replicas do not respond for a while, but must not count as dead.
    let set_node_timeout = |milliseconds: &str| {
        for index in 0..cluster.len() {
            let reply = cluster.call(index, &["CONFIG", "SET", "cluster-node-timeout", milliseconds]);
            assert_eq!(reply.as_deref(), Some("OK\n"));
        }
    };
    set_node_timeout("60000");
    signal("-STOP");
    let put = std::thread::scope(|scope| {
        let put = scope.spawn(|| client_one.put_idempotent(&[(bucket_of("h.example", BUCKETS), links)]));
        // Longer than one WAIT.
        std::thread::sleep(Duration::from_millis(1_200));
        signal("-CONT");
        put.join().expect("no panic")
    });
    assert_eq!(put.expect("put")[0].new, [true; 5]);
    cluster.wait_until_ready();
    set_node_timeout(NODE_TIMEOUT_MS);
}

fn the_first_of_equal_links_is_queued(cluster: &RedisCluster) {
    let mut client_one = client(cluster, "equal", "one");
    let bucket = bucket_of("h.example", BUCKETS);
    let at_depth = |address: &str, depth| {
        let link = Link { depth, ..Link::root(Url::parse(address).expect("a URL"), MAX_REDIRECTS) };
        QueuedLink::new(LinkRef::from(&link), FINGERPRINT_KEY)
    };
    let links = vec![at_depth("https://h.example/a", 2), at_depth("https://h.example/a", 1)];
    assert_eq!(client_one.put_idempotent(&[(bucket, links)]).expect("put")[0].new, [true, false]);
    let epoch = client_one.acquire(&[bucket], LEASE_MS, UNLIMITED).expect("acquire")[0].epoch;
    let token = LeaseToken { bucket, epoch };
    let take_request = TakeRequest { token, sequence: 1, max_links: MANY, max_per_other_host: MANY, hosts: Vec::new() };
    let taken = client_one.take(&[take_request]).expect("take")[0].clone().expect("the bucket is leased");
    assert_eq!(taken.hosts[0].links.iter().map(|taken| taken.link.depth).collect::<Vec<_>>(), [2]);
}

fn leases_epochs_and_fencing(cluster: &RedisCluster) {
    let (mut client_one, mut client_two) = (client(cluster, "lease", "one"), client(cluster, "lease", "two"));
    let bucket = bucket_of("h.example", BUCKETS);
    let links: Vec<QueuedLink> = (0..5).map(|n| queued_link(&format!("https://h.example/{n}"))).collect();
    client_one.put(&[(bucket, links.clone())]).expect("put");
    let repeated = client_two.put(&[(bucket, links)]).expect("put");
    assert!(repeated[0].new.iter().all(|new| !new), "put is idempotent");
    let token = |epoch| LeaseToken { bucket, epoch };
    let first = client_one.acquire(&[bucket], LEASE_MS, UNLIMITED).expect("acquire")[0].clone();
    assert!(client_two.acquire(&[bucket], LEASE_MS, UNLIMITED).expect("acquire").is_empty(), "a bucket has one owner");
    let take_request = |epoch, sequence| TakeRequest {
        token: token(epoch),
        sequence,
        max_links: 2,
        max_per_other_host: MANY,
        hosts: Vec::new(),
    };
    let taken =
        client_one.take(&[take_request(first.epoch, 1)]).expect("take")[0].clone().expect("the bucket is leased");
    assert_eq!((taken.hosts[0].links.len(), taken.hosts[0].left, taken.leased), (2, 3, 2));
    let fingerprint = |link: &Link| link.fingerprint(FINGERPRINT_KEY);
    let settle = |epoch, sequence, link: &Link| SettleRequest {
        token: token(epoch),
        sequence,
        pages: 1,
        bytes: 100,
        fingerprints: vec![fingerprint(link)],
    };
    let (link_one, link_two) = (&taken.hosts[0].links[0].link, &taken.hosts[0].links[1].link);
    let refused = |why: &str| SettleReply::Refused(why.to_owned());
    let out_of_order = client_one.settle(&[settle(first.epoch, 2, link_one)]).expect("settle");
    assert_eq!(out_of_order, [refused("sequence")], "only the next number settles");
    for _ in 0..2 {
        assert_eq!(
            client_one.settle(&[settle(first.epoch, 1, link_one)]).expect("settle"),
            [SettleReply::Accepted],
            "settling is idempotent"
        );
    }
    assert_eq!(
        client_one.settle(&[settle(first.epoch, 2, link_one)]).expect("settle"),
        [refused("not leased")],
        "a page is settled once"
    );
    // Renewing a lease with a duration of zero ends it at once.
    assert_eq!(client_one.renew(&[(token(first.epoch), 0)], 0).expect("renew"), [true]);
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    let second = loop {
        if let Some(acquired) = client_two.acquire(&[bucket], LEASE_MS, UNLIMITED).expect("acquire").first() {
            break acquired.clone();
        }
        assert!(std::time::Instant::now() < deadline, "an expired lease is not acquired");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(second.epoch > first.epoch);
    assert_eq!(second.queued, 4, "leased links are queued again");
    assert_eq!(client_one.renew(&[(token(first.epoch), 0)], LEASE_MS).expect("renew"), [false]);
    assert!(client_one.take(&[take_request(first.epoch, 2)]).expect("take")[0].is_none());
    assert_eq!(
        client_one.settle(&[settle(first.epoch, 2, link_two)]).expect("settle"),
        [refused("epoch")],
        "an old epoch settles nothing"
    );
    let state = &client_two.confirm(BUCKETS).expect("confirm")[bucket as usize];
    assert_eq!((state.known, state.queued, state.leased, state.settled, state.bytes), (5, 4, 0, 1, 100));
    let positions = client_two.positions(BUCKETS).expect("positions");
    assert_eq!(positions, [(bucket, first.epoch, "one".to_owned(), 1)]);
    client_two.release(&[token(second.epoch)]).expect("release");
    assert_eq!(
        client_one.acquire(&[bucket], LEASE_MS, UNLIMITED).expect("acquire").len(),
        1,
        "a released bucket is free at once"
    );
}

fn the_next_owner_learns_that_a_request_was_sent(cluster: &RedisCluster) {
    let (mut client_one, mut client_two) = (client(cluster, "sent", "one"), client(cluster, "sent", "two"));
    let bucket = bucket_of("h.example", BUCKETS);
    let request = CustomRequest { method: Method::Post, body: b"a".as_slice().into(), ..CustomRequest::default() };
    let url = Url::parse("https://h.example/form").expect("a URL");
    let form = Link { request: Some(Arc::new(request)), ..Link::root(url, MAX_REDIRECTS) };
    let queued_form = QueuedLink::new(LinkRef::from(&form), FINGERPRINT_KEY);
    client_one.put(&[(bucket, vec![queued_form, queued_link("https://h.example/")])]).expect("put");
    let token = |epoch| LeaseToken { bucket, epoch };
    let first = client_one.acquire(&[bucket], LEASE_MS, UNLIMITED).expect("acquire")[0].epoch;
    let take_request = |epoch| TakeRequest {
        token: token(epoch),
        sequence: 1,
        max_links: MANY,
        max_per_other_host: MANY,
        hosts: Vec::new(),
    };
    client_one.take(&[take_request(first)]).expect("take");
    let sent = Link { tries: ALREADY_SENT, ..form.clone() };
    let sent = QueuedLink::new(LinkRef::from(&sent), FINGERPRINT_KEY);
    assert!(client_one.update_leased(token(first), std::slice::from_ref(&sent)).expect("update"));
    client_one.release(&[token(first)]).expect("release");
    assert!(!client_one.update_leased(token(first), &[sent]).expect("update"), "an old epoch updates nothing");
    let second = client_two.acquire(&[bucket], LEASE_MS, UNLIMITED).expect("acquire")[0].epoch;
    let taken = client_two.take(&[take_request(second)]).expect("take")[0].clone().expect("the bucket is leased");
    let mut tries: Vec<(bool, u8)> =
        taken.hosts[0].links.iter().map(|taken| (taken.link.request.is_some(), taken.link.tries)).collect();
    tries.sort_unstable();
    assert_eq!(tries, [(false, 0), (true, ALREADY_SENT)]);
}

/// The news about hosts that a new owner gets with its first take.
fn first_news(client: &mut FleetClient, bucket: u32) -> HostNews {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    let epoch = loop {
        match client.acquire(&[bucket], LEASE_MS, UNLIMITED).as_deref() {
            Ok([acquired]) => break acquired.epoch,
            _ => assert!(std::time::Instant::now() < deadline, "the bucket is not acquired"),
        }
    };
    let token = LeaseToken { bucket, epoch };
    let request = TakeRequest { token, sequence: 1, max_links: MANY, max_per_other_host: MANY, hosts: Vec::new() };
    let taken = client.take(&[request]).expect("take")[0].clone().expect("the bucket is leased");
    taken.hosts[0].news.clone()
}

fn the_next_owner_learns_how_long_to_wait(cluster: &RedisCluster) {
    let (mut client_one, mut client_two) = (client(cluster, "wait", "one"), client(cluster, "wait", "two"));
    let bucket = bucket_of("h.example", BUCKETS);
    client_one.put(&[(bucket, vec![queued_link("https://h.example/")])]).expect("put");
    assert_eq!(first_news(&mut client_one, bucket), HostNews::default(), "the bucket had no owner");
    let token = LeaseToken { bucket, epoch: 1 };
    let note = WireNote { host: "h.example".into(), wait_ms: 90_000, text: b"{\"x\":\"|\n\"}".to_vec() };
    let notes = |token| [(token, vec![note.clone()])];
    assert_eq!(client_one.keep_notes(&notes(token)).expect("kept"), [true]);
    assert_eq!(client_one.keep_notes(&notes(LeaseToken { epoch: 7, ..token })).expect("refused"), [false]);
    client_one.release(&[token]).expect("release");
    let news = first_news(&mut client_two, bucket);
    assert_eq!(news.text, note.text);
    assert!((60_000..=90_000).contains(&news.wait_ms), "{news:?}");
    assert_eq!(news.wait_ms + news.age_ms, 90_000);
    assert!(news.asked_ms.is_some_and(|asked| asked < 30_000), "{news:?}");
    // The next owner did not release the bucket: it may have asked until the end of its lease.
    assert_eq!(client_two.renew(&[(LeaseToken { epoch: 2, ..token }, 0)], 300).expect("renew"), [true]);
    let news = first_news(&mut client_one, bucket);
    assert!(news.asked_ms.is_some_and(|asked| asked < 30_000), "{news:?}");
}

fn a_quota_is_moved_and_never_exceeded(cluster: &RedisCluster) {
    let mut client_one = client(cluster, "quota", "one");
    let pool = client_one.crawl_key("pool");
    client_one.plain_replicated(&pool, &[b"HSET", pool.as_bytes(), b"left", b"3"]).expect("a pool");
    let bucket = bucket_of("h.example", BUCKETS);
    let links = (0..9).map(|n| queued_link(&format!("https://h.example/{n}"))).collect();
    client_one.put(&[(bucket, links)]).expect("put");
    let epoch = client_one.acquire(&[bucket], LEASE_MS, LIMITED).expect("acquire")[0].epoch;
    let token = LeaseToken { bucket, epoch };
    assert_eq!(client_one.grant(bucket, 2).expect("grant"), 2);
    let take_request =
        |sequence| TakeRequest { token, sequence, max_links: MANY, max_per_other_host: MANY, hosts: Vec::new() };
    let taken = client_one.take(&[take_request(1)]).expect("take")[0].clone().expect("the bucket is leased");
    assert_eq!((taken.hosts[0].links.len(), taken.quota), (2, Some(0)));
    assert_eq!((client_one.grant(bucket, 5).expect("grant"), client_one.grant(bucket, 5).expect("grant")), (1, 0));
    assert_eq!(client_one.refund(token).expect("refund"), 0, "a bucket with work keeps its quota");
    assert_eq!(client_one.take(&[take_request(2)]).expect("take")[0].as_ref().map(|taken| taken.leased), Some(3));
    // A settle without links stores only records, such as that of a robots.txt.
    let settle = SettleRequest { token, sequence: 1, pages: 0, bytes: 0, fingerprints: Vec::new() };
    assert_eq!(client_one.settle(&[settle]).expect("settle"), [SettleReply::Accepted]);
}

fn a_failover_loses_nothing_that_was_confirmed(cluster: &mut RedisCluster) {
    let mut client_one = client(cluster, "failover", "one");
    let host = |n: u32| format!("https://h{n}.example/");
    let batch = |from: u32| {
        let mut batches: std::collections::BTreeMap<u32, Vec<QueuedLink>> = std::collections::BTreeMap::new();
        for n in from..from + 50 {
            let bucket = bucket_of(&format!("h{n}.example"), BUCKETS);
            batches.entry(bucket).or_default().push(queued_link(&host(n)));
        }
        batches.into_iter().collect::<Vec<_>>()
    };
    client_one.put(&batch(0)).expect("put");
    // A note and a release on every primary, because any of them may die.
    let buckets: Vec<u32> = batch(0).iter().map(|(bucket, _)| *bucket).collect();
    for acquired in client_one.acquire(&buckets, LEASE_MS, UNLIMITED).expect("acquire") {
        let token = LeaseToken { bucket: acquired.bucket, epoch: acquired.epoch };
        let hosts = (0..50).map(|n| format!("h{n}.example")).filter(|host| bucket_of(host, BUCKETS) == token.bucket);
        let notes = hosts.map(|host| WireNote { host: host.into(), wait_ms: 100_000, text: b"{}".to_vec() });
        assert_eq!(client_one.keep_notes(&[(token, notes.collect())]).expect("kept"), [true]);
        client_one.release(&[token]).expect("release");
    }
    let primary = (0..cluster.len()).find(|index| cluster.is_primary(*index)).expect("a primary");
    cluster.kill_node(primary);
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while client_one.put(&batch(50)).is_err() {
        assert!(std::time::Instant::now() < deadline, "the cluster does not accept writes again");
    }
    let known: u64 = client_one.confirm(BUCKETS).expect("confirm").iter().map(|state| state.known).sum();
    assert_eq!(known, 100);
    // Times of the dead node are not compared with the clock of its successor: waits count again.
    let mut client_two = client(cluster, "failover", "two");
    let news: Vec<HostNews> = buckets.iter().map(|bucket| first_news(&mut client_two, *bucket)).collect();
    let counted_again = |news: &&HostNews| (news.wait_ms, news.asked_ms) == (100_000, Some(0));
    assert!(news.iter().any(|news| counted_again(&news)), "{news:?}");
    assert!(news.iter().all(|news| news.wait_ms > 10_000 && news.asked_ms.is_some()), "{news:?}");
}
