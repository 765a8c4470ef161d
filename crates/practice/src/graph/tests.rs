//! Tests of the graph. Its rendered pages agree with its oracle.

use super::*;
use crate::oracle::CrawlReach;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Plans without dead hosts.
fn plans() -> impl Strategy<Value = GraphPlan> {
    let shape = prop_oneof![Just(Shape::Random), Just(Shape::Blog)];
    let zipf = prop_oneof![Just(0.0), Just(1.1)];
    let sizes = (any::<u64>(), shape, 1u32..40, 1u32..120, zipf, 0u64..20_000, 0u32..30, 1u32..50);
    // In thousandths: `cross` is a share of the random links; `missing`, `broken` and `redirects` are shares of the
    // leaves, through which no other page is found.
    let shares = (0u32..600, 0u32..200, 0u32..200, 0u32..200);
    (sizes, shares).prop_map(
        |((seed, shape, hosts, pages, zipf, size, links, root_hosts), (cross, missing, broken, redirects))| GraphPlan {
            seed,
            shape,
            hosts,
            pages,
            zipf,
            size,
            links,
            cross,
            root_hosts,
            missing,
            broken,
            redirects,
            ..GraphPlan::default()
        },
    )
}

/// A graph without TLS.
fn graph(plan: GraphPlan) -> Graph {
    Graph::new(plan, 80, false)
}

fn body(response: &[u8]) -> &str {
    let at = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    std::str::from_utf8(&response[at..]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_page_is_reachable_if_no_host_is_dead(plan in plans()) {
        let graph = Graph::new(plan, 8000, false);
        let found = graph.reachable(graph.roots(), CrawlReach::Everywhere);
        prop_assert_eq!(found.len() as u64, graph.total_pages());
    }

    #[test]
    fn the_rendered_links_agree_with_the_oracle(plan in plans(), host in any::<u32>(), page in any::<u32>()) {
        let graph = Graph::new(plan, 8000, true);
        let host = host % graph.plan().hosts;
        let id = PageId { host, page: page % graph.pages_of(host) };
        let mut response = Vec::new();
        let filler_length = graph.render(id, &mut response);
        prop_assert_eq!(filler_length, 0);
        let text = body(&response);
        let mut rendered = BTreeSet::new();
        for piece in text.split("href=\"").skip(1) {
            let href = piece.split('"').next().unwrap();
            let url = if href.starts_with('/') { format!("https://{}:8000{href}", graph.address_of(host)) } else { href.to_owned() };
            rendered.insert(url);
        }
        let mut expected = BTreeSet::new();
        graph.links(id, |target| { expected.insert(graph.url(target)); });
        prop_assert_eq!(rendered, expected);
        if graph.kind(id) == PageKind::Page {
            prop_assert!(text.len() as u64 >= graph.plan().size);
            let expected_header = format!("Content-Length: {}\r\n", text.len());
            prop_assert!(String::from_utf8_lossy(&response).contains(&expected_header), "no {expected_header}");
        }
    }

    #[test]
    fn the_url_of_a_page_is_found_again(plan in plans(), host in any::<u32>(), page in any::<u32>()) {
        let graph = Graph::new(plan, 8000, false);
        let host = host % graph.plan().hosts;
        let id = PageId { host, page: page % graph.pages_of(host) };
        let url = graph.url(id);
        let path = url.splitn(4, '/').nth(3).map(|rest| format!("/{rest}")).unwrap();
        prop_assert_eq!(graph.page_at(&graph.address_of(host).to_string(), &path), Some(id));
    }
}

#[test]
fn many_hosts_have_distinct_addresses() {
    let graph = graph(GraphPlan { hosts: 200_000, ..GraphPlan::default() });
    let all: BTreeSet<Ipv4Addr> = (0..200_000).map(|host| graph.address_of(host)).collect();
    assert_eq!(all.len(), 200_000);
    assert!((0..200_000).step_by(997).all(|host| graph.host_at(&graph.address_of(host).to_string()) == Some(host)));
    assert_eq!(graph.host_at("127.0.0.1"), None);
    assert_eq!(graph.host_at("example.test"), None);
}

#[test]
fn in_a_blog_archives_link_to_posts_and_posts_to_their_neighbours() {
    let graph = graph(GraphPlan { shape: Shape::Blog, pages: 1500, ..GraphPlan::default() });
    let links = |page| {
        let mut links = Vec::new();
        graph.links(PageId { host: 0, page }, |to| links.push(to.page));
        links
    };
    // Page 0 links to the archives, which are pages 1 to 30. An archive links to 50 posts and to page 0.
    assert_eq!(links(0).len(), 30);
    assert_eq!(links(1).len(), 51);
    // The posts are pages 31 to 1499.
    assert_eq!(links(100), [99, 101, 0]);
    assert_eq!(links(1499), [1498, 0]);
}

#[test]
fn rendering_a_large_page_returns_the_length_of_its_filler() {
    let graph = graph(GraphPlan { size: 100 << 20, ..GraphPlan::default() });
    let mut response = Vec::new();
    let filler_length = graph.render(PageId { host: 0, page: 0 }, &mut response);
    assert_eq!(body(&response).len() as u64 + filler_length, 100 << 20);
    assert!(response.len() < 200_000);
}

#[test]
fn with_zipf_few_hosts_have_most_pages() {
    let graph = graph(GraphPlan { hosts: 1000, pages: 50, zipf: 1.1, ..GraphPlan::default() });
    let total = graph.total_pages();
    assert!((45_000..55_000).contains(&total), "{total}");
    assert!(graph.pages_of(0) > 5_000 && graph.pages_of(999) < 20);
}

#[test]
fn a_share_of_the_hosts_is_dead_but_never_the_first() {
    let graph = graph(GraphPlan { hosts: 2000, dead: 50, root_hosts: 2000, ..GraphPlan::default() });
    let dead = (0..2000).filter(|&host| graph.kind(PageId { host, page: 0 }) == PageKind::Dead).count();
    // 50 thousandths of 2000 are 100.
    assert!((60..140).contains(&dead), "{dead}");
    assert_eq!(graph.kind(PageId { host: 0, page: 5 }), PageKind::Page);
}

#[test]
fn the_oracle_stays_on_the_root_hosts_if_required() {
    // Half of the random links lead to another host.
    let graph = graph(GraphPlan { hosts: 5, cross: 500, pages: 10, ..GraphPlan::default() });
    let found = graph.reachable(graph.roots(), CrawlReach::RootHosts);
    assert_eq!(found.len(), 10);
    assert!(found.keys().all(|url| url.starts_with("http://127.1.0.1:80/")));
}
