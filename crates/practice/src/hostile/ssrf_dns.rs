//! Names and addresses that lead into private networks, or nowhere.

use super::{Case, CaseBuilder, DnsReply, Expect, demand, trap};
use crate::proxy::PracticeProxy;
use crate::response::Response;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const PRIVATE: Expect = Expect::error("private_address");

/// URLs with private addresses in various spellings: as written in a link, and as normalized by the crawler.
const SPELLINGS: &[(&str, &str)] = &[
    ("http://127.0.0.1/", "http://127.0.0.1/"),
    ("http://127.255.255.254/", "http://127.255.255.254/"),
    ("http://0.0.0.0/", "http://0.0.0.0/"),
    ("http://10.0.0.1/", "http://10.0.0.1/"),
    ("http://172.31.255.255/", "http://172.31.255.255/"),
    ("http://192.168.0.1/", "http://192.168.0.1/"),
    ("http://100.64.0.1/", "http://100.64.0.1/"),
    ("http://169.254.169.254/latest/meta-data/", "http://169.254.169.254/latest/meta-data/"),
    ("http://192.0.0.192/", "http://192.0.0.192/"),
    ("http://198.18.0.1/", "http://198.18.0.1/"),
    ("http://224.0.0.1/", "http://224.0.0.1/"),
    ("http://255.255.255.255/", "http://255.255.255.255/"),
    ("http://168.63.129.16/", "http://168.63.129.16/"),
    ("http://2130706433/decimal", "http://127.0.0.1/decimal"),
    ("http://0x7f000001/hex", "http://127.0.0.1/hex"),
    ("http://0x7f.1/mixed", "http://127.0.0.1/mixed"),
    ("http://0177.0.0.1/octal", "http://127.0.0.1/octal"),
    ("http://127.1/two", "http://127.0.0.1/two"),
    ("http://127.0.0.1./dot", "http://127.0.0.1/dot"),
    ("http://0/zero", "http://0.0.0.0/zero"),
    ("http://%31%32%37.0.0.1/percent", "http://127.0.0.1/percent"),
    ("http://\u{2460}\u{2461}\u{2466}.\u{24ea}.\u{24ea}.\u{2460}/enclosed", "http://127.0.0.1/enclosed"),
    ("http://127\u{3002}0\u{3002}0\u{3002}1/ideographic", "http://127.0.0.1/ideographic"),
    ("http://\u{ff11}\u{ff12}\u{ff17}.0.0.1/wide", "http://127.0.0.1/wide"),
    ("http://127.0.0.1\\@example.com/backslash", "http://127.0.0.1/@example.com/backslash"),
    ("http://0xA9FEA9FE/metadata", "http://169.254.169.254/metadata"),
    ("http://[::1]/", "http://[::1]/"),
    ("http://[::]/", "http://[::]/"),
    ("http://[0:0:0:0:0:0:0:1]/long", "http://[::1]/long"),
    ("http://[fe80::1]/", "http://[fe80::1]/"),
    ("http://[fd00:ec2::254]/", "http://[fd00:ec2::254]/"),
    ("http://[fec0::1]/", "http://[fec0::1]/"),
    ("http://[ff02::1]/", "http://[ff02::1]/"),
    ("http://[2001:db8::1]/", "http://[2001:db8::1]/"),
    ("http://localhost/", "http://localhost/"),
    ("http://LOCALHOST./", "http://localhost./"),
    ("http://printer.local/", "http://printer.local/"),
    ("http://metadata.google.internal/", "http://metadata.google.internal/"),
];

/// The same for IPv6 addresses that contain private IPv4 addresses.
const EMBEDDED_IPV4: &[(&str, &str)] = &[
    ("http://[::ffff:169.254.169.254]/", "http://[::ffff:a9fe:a9fe]/"),
    ("http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b::a9fe:a9fe]/"),
    ("http://[2002:a9fe:a9fe::]/", "http://[2002:a9fe:a9fe::]/"),
    ("http://[::a9fe:a9fe]/", "http://[::a9fe:a9fe]/"),
    ("http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
    ("http://[64:ff9b:1::7f00:1]/", "http://[64:ff9b:1::7f00:1]/"),
    ("http://[2001:0:7f00:1::1]/", "http://[2001:0:7f00:1::1]/"),
];

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("NET01", "no such name", Expect::error("dns_nxdomain"), |case| {
            case.name("gone.test", DnsReply::NoSuchName);
            case.root("http://gone.test/");
            case.root("http://gone.test/again");
            case.check("queried once for each address family", |report| {
                let count = report.queried_names.iter().filter(|name| *name == "gone.test").count();
                demand(count <= 2, format!("queried {count} times"))
            });
            Ok(())
        }),
        Case::new("NET02", "a name server that fails", Expect::error("dns_servfail"), |case| {
            case.name("broken.test", DnsReply::Failure);
            case.root("http://broken.test/");
            Ok(())
        }),
        Case::new("NET03", "a name server that does not reply", Expect::error("dns_timeout"), |case| {
            case.name("silent.test", DnsReply::Silence);
            let site = case.site()?.page("/", Response::html("here"));
            case.name("other.test", DnsReply::address(site.address().ip()));
            let other = site.url_as("other.test", "/");
            case.root("http://silent.test/");
            case.root(other.as_str());
            case.expect_at("http://silent.test/");
            case.add_site(site);
            case.check("other names do not wait for it", move |report| report.judge(&other, Expect::Ok));
            Ok(())
        }),
        Case::new("NET05", "two CNAME records in a loop", Expect::error("dns_invalid"), |case| {
            case.name("a.test", DnsReply::Alias("b.test".to_owned()));
            case.name("b.test", DnsReply::Alias("a.test".to_owned()));
            case.root("http://a.test/");
            Ok(())
        }),
        Case::new("NET06", "a chain of sixty-four CNAME records", Expect::error("dns_invalid"), |case| {
            for n in 0..64 {
                case.name(&format!("n{n}.test"), DnsReply::Alias(format!("n{}.test", n + 1)));
            }
            case.name("n64.test", DnsReply::address([127, 0, 0, 1]));
            case.root("http://n0.test/");
            Ok(())
        })
        .choosing("at most eight CNAME records are followed; longer chains are mistakes or attacks"),
        Case::new("NET07", "a thousand addresses", Expect::Ok, |case| {
            let site = case.site()?.page("/", Response::html("here"));
            let good = site.address().ip();
            // Nothing listens at the other addresses.
            let dead = |n: u32| IpAddr::from((0x7f63_0000 + 2 + n).to_be_bytes()); // from 127.99.0.2 on
            let addresses = [dead(0), dead(1), good].into_iter().chain((2..999).map(dead)).collect();
            case.name("many.test", DnsReply::Addresses(addresses));
            case.root(site.url_as("many.test", "/"));
            case.add_site(site);
            Ok(())
        }),
        Case::new("NET08", "invalid DNS packets", Expect::error("dns_invalid"), |case| {
            // A record that ends after its type: class, TTL and address are missing.
            case.name("loop.test", DnsReply::Packet(|question| packet(question, &[0xc0, 12, 0xc0, 12])));
            // An A record that announces four bytes of address and has one.
            case.name(
                "short.test",
                DnsReply::Packet(|question| packet(question, &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 127])),
            );
            case.root("http://loop.test/");
            case.root("http://short.test/");
            Ok(())
        }),
        Case::new("NET09", "one address family is unreachable", Expect::Ok, |case| {
            let site = case.site()?.page("/", Response::html("here"));
            // 100::1, in a prefix whose packets are discarded (RFC 6666).
            let nowhere: IpAddr = [0x100, 0, 0, 0, 0, 0, 0, 1].into();
            case.name("both.test", DnsReply::Addresses(vec![nowhere, site.address().ip()]));
            case.root(site.url_as("both.test", "/"));
            case.add_site(site);
            Ok(())
        }),
        Case::elsewhere(
            "NET12",
            "a name that changes between check and connect",
            PRIVATE,
            "crates/core/src/crawl/schedule/workbench/tests.rs",
            "a_job_contains_only_the_addresses_that_were_checked",
        ),
        Case::new("NET13", "private addresses in every spelling", Expect::NotFetched, |case| {
            links_to_private_addresses(case, SPELLINGS)
        }),
        Case::new("NET14", "private addresses inside IPv6", Expect::NotFetched, |case| {
            links_to_private_addresses(case, EMBEDDED_IPV4)
        }),
        Case::new("NET16", "robots.txt redirects to a private address", PRIVATE, |case| {
            let inside = "http://169.254.169.254/latest/meta-data/";
            let site = case.site()?.redirect("/robots.txt", inside, 302).page("/", Response::html("here"));
            let root = site.url("/");
            case.root(root.as_str());
            case.expect_at(inside);
            case.add_site(site);
            case.check("the page is not requested", move |report| {
                demand(report.request_count("/") == 0, "it was requested")?;
                report.judge(&root, Expect::NotFetched)
            });
            Ok(())
        }),
        Case::new("NET18", "private targets through a proxy", Expect::NotFetched, |case| {
            let site = case.site()?;
            let inside =
                [site.url("/inside"), site.url_as("localhost", "/inside"), site.url_as("db.internal", "/inside")];
            let proxy = PracticeProxy::http().name("far.test", site.address().ip());
            let proxy = case.raw(move |conn| proxy.serve(conn, |_| {}))?;
            case.set("proxy", format!("http://{proxy}"));
            case.set("scope", "any");
            case.root(site.url_as("far.test", "/"));
            case.add_site(site.page("/", Response::links(&inside)).fallback(Response::html("a secret")));
            inside.into_iter().for_each(|url| case.expect_at(url));
            case.check("the proxy is used, but not for private targets", |report| {
                demand(
                    report.request_count("/") > 0 && report.request_count("/inside") == 0,
                    "a private target was requested",
                )
            });
            Ok(())
        }),
        Case::new("NET19", "ports of other protocols", Expect::NotFetched, |case| {
            let links = ["http://www.test:22/", "http://www.test:25/", "http://www.test:6667/"];
            case.name("www.test", DnsReply::address([127, 0, 0, 1]));
            case.set("scope", "any");
            let site = case.site()?.page("/", Response::links(links));
            case.root(site.url("/"));
            case.add_site(site);
            for link in links {
                case.expect_at(link);
            }
            case.check("refused because of their port, without a DNS lookup", move |report| {
                let kinds = links.map(|link| report.record(link).map(|record| record["error"]["kind"].clone()));
                let blocked =
                    |kind: &Option<serde_json::Value>| kind.as_ref().is_some_and(|kind| kind == "blocked_port");
                demand(kinds.iter().all(blocked), format!("{kinds:?}"))?;
                demand(report.queried_names.is_empty(), "the name was looked up")
            });
            Ok(())
        })
        .choosing("the ports that browsers refuse are refused (WHATWG Fetch); 6379 is not one of them"),
        Case::new("NET22", "names that are too long", Expect::NotFetched, |case| {
            // A label has at most 63 bytes, a name at most 253.
            let label = format!("http://{}.test/", "a".repeat(64));
            let name = format!("http://{}test/", "abcdefghi.".repeat(26));
            // With a name, the case has a name server, which counts queries.
            case.name("test", DnsReply::NoSuchName);
            case.set("scope", "any");
            let site = case.site()?.page("/", Response::links([&label, &name]));
            case.root(site.url("/"));
            case.expect_at(label);
            case.expect_at(name);
            case.add_site(site);
            case.check("they are not looked up", |report| {
                demand(report.queried_names.is_empty(), "a name was looked up")
            });
            Ok(())
        }),
        Case::new("NET23", "wildcard DNS", Expect::Ok, |case| {
            case.set("scope", "domain");
            case.set("allow-private", true);
            // A domain may have one host per 64 of the budget, besides the root host.
            case.set("trap-budget", 64 * 8);
            let address = trap::add_wildcard_hosts(case, 10)?;
            case.root(format!("http://trap.test:{}/", address.port()));
            trap::check_hosts_at_most(case, 1 + 8);
            Ok(())
        }),
    ]
}

/// A reply packet for this query with one record of these bytes.
fn packet(question: &[u8], record: &[u8]) -> Vec<u8> {
    // The question ends after the empty label, the type and the class.
    let end = 12 + question.get(12..).and_then(|rest| rest.iter().position(|byte| *byte == 0)).unwrap_or(0) + 5;
    let mut packet = question.get(..end).unwrap_or(question).to_vec();
    if let Some(flags) = packet.get_mut(2..12) {
        // An authoritative reply with recursion available, one question, one record.
        flags.copy_from_slice(&[0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    }
    packet.extend_from_slice(record);
    packet
}

/// A page with links to private addresses. Checks that each link has a record, and that no connection is made. `targets`:
/// a link as written, and as normalized.
fn links_to_private_addresses(
    case: &mut CaseBuilder,
    targets: &'static [(&'static str, &'static str)],
) -> io::Result<()> {
    let connections = Arc::new(AtomicUsize::new(0));
    let private_server = {
        let connections = Arc::clone(&connections);
        case.raw(move |conn| {
            connections.fetch_add(1, SeqCst);
            conn.wait_until_closed()
        })?
    };
    case.name("inside.test", DnsReply::address(private_server.ip()));
    let private_url = format!("http://inside.test:{}/", private_server.port());
    let links = targets.iter().map(|(link, _)| *link).chain([private_url.as_str()]);
    let site = case.site()?.page("/", Response::links(links));
    case.set("scope", "any");
    case.root(site.url("/"));
    case.add_site(site);
    let urls: Vec<String> = targets.iter().map(|(_, url)| (*url).to_owned()).chain([private_url]).collect();
    for url in &urls {
        case.expect_at(url.as_str());
    }
    case.check("each is refused because of its address, and no connection is made", move |report| {
        for url in &urls {
            let record = report.record(url).ok_or_else(|| format!("{url} has no record"))?;
            demand(record["error"]["kind"] == "private_address", record.to_string())?;
        }
        demand(connections.load(SeqCst) == 0, "a connection was made")?;
        demand(report.queried_names.iter().all(|name| name == "inside.test"), format!("{:?}", report.queried_names))
    });
    Ok(())
}
