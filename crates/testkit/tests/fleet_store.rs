//! The scripts of a fleet on a real cluster of six nodes: the frontier suite, leases, epochs and fencing.

use std::sync::atomic::{AtomicU64, Ordering};

use argiope_core::{Link, LinkRef, Url};
use argiope_store::cluster::{
    BlockingFrontier, FleetClient, LeaseToken, Nodes, QueuedLink, SettleRequest, TakeRequest, bucket_of,
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

/// Not part of the short run: a put that is repeated because no replica confirmed it in time reports links as known that
/// the first attempt inserted, and the suite asserts on that.
#[test]
#[ignore = "needs long, redis-server"]
fn the_frontier_suite_holds_on_a_cluster_and_on_a_single_server() {
    for cluster in [RedisCluster::start(), RedisCluster::single()] {
        suite::a_link_is_new_exactly_once(frontiers(&cluster));
        suite::a_sitemap_file_and_a_page_at_one_address_are_two(frontiers(&cluster));
        suite::links_are_taken_breadth_first_and_in_order_of_arrival(frontiers(&cluster));
        suite::lanes_are_host_names(frontiers(&cluster));
        suite::a_link_comes_out_as_it_went_in(frontiers(&cluster));
        suite::a_link_given_back_is_taken_again_as_it_was_given_back(frontiers(&cluster));
        suite::a_settled_link_stays_known(frontiers(&cluster));
        suite::only_a_leased_link_can_be_settled_or_given_back(frontiers(&cluster));
        suite::a_long_queue_is_emptied_in_order(frontiers(&cluster));
        suite::random_histories_agree_with_the_model(frontiers(&cluster));
    }
}

#[test]
#[ignore = "needs redis-server"]
fn leases_epochs_and_fences() {
    let cluster = RedisCluster::start();
    let (mut one, mut two) = (client(&cluster, "lease", "one"), client(&cluster, "lease", "two"));
    let bucket = bucket_of("h.example", BUCKETS);
    let links: Vec<QueuedLink> = (0..5).map(|n| stored(&format!("https://h.example/{n}"))).collect();
    one.put(&[(bucket, links.clone())]).expect("put");
    let again = two.put(&[(bucket, links)]).expect("put");
    assert!(again[0].new.iter().all(|new| !new), "put is idempotent");
    let token = |epoch| LeaseToken { bucket, epoch };
    let first = one.acquire(&[bucket], LEASE_MS, false).expect("acquire")[0].clone();
    assert!(!first.had_owner);
    assert!(two.acquire(&[bucket], LEASE_MS, false).expect("acquire").is_empty(), "a bucket has one owner");
    let want = |epoch| TakeRequest { token: token(epoch), room: 2, others: 9, hosts: Vec::new() };
    let taken = one.take(&[want(first.epoch)]).expect("take")[0].clone().expect("held");
    assert_eq!((taken.hosts[0].links.len(), taken.hosts[0].left, taken.leased), (2, 3, 2));
    let fingerprint = |link: &Link| argiope_core::schedule::frontier::seen_key(link.url.as_ref(), link.kind, 7);
    let settle = |epoch, sequence, link: &Link| SettleRequest {
        token: token(epoch),
        sequence,
        pages: 1,
        fingerprints: vec![fingerprint(link)],
        notes: vec![("h.example".into(), b"note".to_vec())],
    };
    let (a, b) = (&taken.hosts[0].links[0], &taken.hosts[0].links[1]);
    let out_of_order = one.settle(&[settle(first.epoch, 2, a)]).expect("settle");
    assert!(out_of_order[0].is_err(), "only the next number settles");
    for _ in 0..2 {
        assert_eq!(one.settle(&[settle(first.epoch, 1, a)]).expect("settle"), [Ok(())], "settling is idempotent");
    }
    assert!(one.settle(&[settle(first.epoch, 2, a)]).expect("settle")[0].is_err(), "a page is settled once");
    // The lease ends at once where it is renewed for no time and the tolerated skew has passed.
    assert_eq!(one.renew(&[token(first.epoch)], 0).expect("renew"), [true]);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let second = loop {
        if let Some(acquired) = two.acquire(&[bucket], LEASE_MS, false).expect("acquire").first() {
            break acquired.clone();
        }
        assert!(std::time::Instant::now() < until, "an ended lease is not taken over");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert!(second.had_owner && second.epoch > first.epoch);
    assert_eq!(second.queued, 4, "what was leased is queued again");
    assert_eq!(one.renew(&[token(first.epoch)], LEASE_MS).expect("renew"), [false]);
    assert!(one.take(&[want(first.epoch)]).expect("take")[0].is_none());
    assert!(one.settle(&[settle(first.epoch, 2, b)]).expect("settle")[0].is_err(), "an old epoch settles nothing");
    assert_eq!(two.notes(&[(bucket, "h.example".into())]).expect("notes"), [Some(b"note".to_vec())]);
    let state = &two.confirm(BUCKETS).expect("confirm")[bucket as usize];
    assert_eq!((state.known, state.queued, state.leased, state.settled), (5, 4, 0, 1));
    let positions = two.positions(BUCKETS).expect("positions");
    assert_eq!(positions, [(bucket, first.epoch, "one".to_owned(), 1)]);
    two.release(&[token(second.epoch)]).expect("release");
    assert_eq!(one.acquire(&[bucket], LEASE_MS, false).expect("acquire").len(), 1, "a released bucket is free at once");
}

#[test]
#[ignore = "needs redis-server"]
fn a_quota_is_moved_and_never_exceeded() {
    let cluster = RedisCluster::start();
    let mut one = client(&cluster, "quota", "one");
    let pool = one.crawl_key("pool");
    one.plain(&pool, &[b"HSET", pool.as_bytes(), b"left", b"3"], true).expect("a pool");
    let bucket = bucket_of("h.example", BUCKETS);
    let links = (0..9).map(|n| stored(&format!("https://h.example/{n}"))).collect();
    one.put(&[(bucket, links)]).expect("put");
    let epoch = one.acquire(&[bucket], LEASE_MS, true).expect("acquire")[0].epoch;
    let token = LeaseToken { bucket, epoch };
    assert_eq!(one.grant(bucket, 2).expect("grant"), 2);
    let want = TakeRequest { token, room: 9, others: 9, hosts: Vec::new() };
    let taken = one.take(std::slice::from_ref(&want)).expect("take")[0].clone().expect("held");
    assert_eq!((taken.hosts[0].links.len(), taken.quota), (2, Some(0)));
    assert_eq!((one.grant(bucket, 5).expect("grant"), one.grant(bucket, 5).expect("grant")), (1, 0));
    assert_eq!(one.refund(token).expect("refund"), 0, "a bucket with work keeps its quota");
    assert_eq!(one.take(&[want]).expect("take")[0].as_ref().map(|taken| taken.leased), Some(3));
}

#[test]
#[ignore = "needs redis-server"]
fn a_failover_loses_nothing_that_was_confirmed() {
    let mut cluster = RedisCluster::start();
    let mut one = client(&cluster, "failover", "one");
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
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while one.put(&batch(50)).is_err() {
        assert!(std::time::Instant::now() < until, "the cluster does not take writes again");
    }
    let known: u64 = one.confirm(BUCKETS).expect("confirm").iter().map(|state| state.known).sum();
    assert_eq!(known, 100);
}
