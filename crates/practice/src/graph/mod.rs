//! Webs of any size that are never stored: every page is a pure function of the plan, the host and the page's number.
//!
//! A [`GraphPlan`] sets the number of hosts and pages, their size and latency, and how they are linked. A [`Graph`] is
//! a plan with a port: it computes every page's URL, links, bytes and latency, with or without a server.
//!
//! The pages of a host form a tree: a page links to its children, so that all pages can be reached from page 0. Further
//! links lead to random pages of this or other hosts. The hosts form trees too, with the first `root_hosts` hosts as
//! roots. The page with the middle number of a host links to page 0 of the child hosts, so that these are found late.
//!
//! Invariant: pages that fail or redirect are leaves of their host's tree, so that no other page depends on them. Only
//! dead hosts can make other pages unreachable.

use crate::filler;
use crate::mix::mix;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::time::Duration;

/// How pages are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// A tree of pages with additional random links.
    Random,
    /// A blog: the first page links to archive pages, which link to 50 posts each; a post links to the previous one,
    /// the next one and the first page.
    Blog,
}

/// The description of a generated web. A share is a number of thousandths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct GraphPlan {
    /// The seed of the random numbers. Plans that differ only in it give different webs with the same properties.
    pub seed: u64,
    pub shape: Shape,
    pub hosts: u32,
    /// Pages on each host; with `zipf`, the mean.
    pub pages: u32,
    /// Exponent of Zipf's law for the number of pages of a host; 0 gives every host the same number.
    pub zipf: f64,
    /// Bytes of a page's body, or more if its links need more.
    pub size: u64,
    /// Links on a page.
    pub links: u32,
    /// Share of the random links that lead to another host.
    pub cross: u32,
    /// Number of hosts whose page 0 is a root of the crawl; the others are found through links.
    #[serde(rename = "seeds")]
    pub root_hosts: u32,
    /// Minimum and maximum latency of a page, in microseconds.
    pub latency_us: (u64, u64),
    /// Shares of the leaves of the trees with status 404, 500, or a redirect.
    pub missing: u32,
    pub broken: u32,
    pub redirects: u32,
    /// Share of hosts that accept connections and never respond (never the first host).
    pub dead: u32,
    /// Number of bytes at the end of a page that are sent one at a time (0 for none), and the microseconds between them.
    pub drip: (u32, u64),
    /// Close the connection after every response.
    pub close: bool,
}

impl Default for GraphPlan {
    fn default() -> GraphPlan {
        GraphPlan {
            seed: 1,
            shape: Shape::Random,
            hosts: 1,
            pages: 100,
            zipf: 0.0,
            size: 2048,
            links: 20,
            cross: 0,
            root_hosts: 1,
            latency_us: (0, 0),
            missing: 0,
            broken: 0,
            redirects: 0,
            dead: 0,
            drip: (0, 0),
            close: false,
        }
    }
}

/// A page, identified by its host and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId {
    pub host: u32,
    pub page: u32,
}

/// The page number that stands for robots.txt.
pub(crate) const ROBOTS: u32 = u32::MAX;

/// The behaviour of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// An HTML page with links.
    Page,
    /// 404 or 500.
    Error(u16),
    /// A 302 to a page of the same host.
    Redirect(PageId),
    /// No response: the host is dead.
    Dead,
}

/// A web that is generated from a plan and a port.
#[derive(Clone, Debug)]
pub struct Graph {
    plan: GraphPlan,
    port: u16,
    tls: bool,
    /// Pages of each host; empty if all have the same number.
    counts: Vec<u32>,
}

/// A number below `bound` from 64 random bits (bound 0 gives 0).
fn below(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

/// Links to posts on an archive page of a blog.
const POSTS_PER_ARCHIVE: u32 = 50;
/// Number of child hosts that one host links to.
const HOST_FANOUT: u32 = 10;

impl Graph {
    /// A graph whose URLs have this port, and the scheme `https` if `tls` is set.
    pub fn new(mut plan: GraphPlan, port: u16, tls: bool) -> Graph {
        // 254 * 256 * 254 is the number of addresses that `address_of` can give.
        plan.hosts = plan.hosts.clamp(1, 254 * 256 * 254);
        plan.pages = plan.pages.clamp(1, u32::MAX / 2);
        plan.root_hosts = plan.root_hosts.clamp(1, plan.hosts);
        plan.latency_us.1 = plan.latency_us.1.max(plan.latency_us.0);
        let counts = if plan.zipf > 0.0 { zipf(plan.hosts, plan.pages, plan.zipf) } else { Vec::new() };
        Graph { plan, port, tls, counts }
    }

    pub fn plan(&self) -> &GraphPlan {
        &self.plan
    }

    /// The number of pages of a host.
    pub fn pages_of(&self, host: u32) -> u32 {
        self.counts.get(host as usize).copied().unwrap_or(self.plan.pages)
    }

    /// The number of all pages.
    pub fn total_pages(&self) -> u64 {
        if self.counts.is_empty() {
            return u64::from(self.plan.hosts) * u64::from(self.plan.pages);
        }
        self.counts.iter().map(|&n| u64::from(n)).sum()
    }

    /// The pages that a crawl starts with.
    pub fn roots(&self) -> impl Iterator<Item = PageId> + use<> {
        (0..self.plan.root_hosts).map(|host| PageId { host, page: 0 })
    }

    /// A host's loopback address: 127.1.0.1, 127.1.0.2 and so on, without .0 and .255 at the end.
    pub fn address_of(&self, host: u32) -> Ipv4Addr {
        let (high, low) = (host / 254, host % 254 + 1);
        Ipv4Addr::new(127, (1 + high / 256) as u8, (high % 256) as u8, low as u8)
    }

    /// The host with this address: the inverse of [`Graph::address_of`].
    fn host_at(&self, name: &str) -> Option<u32> {
        let [_, a, b, c] = name.parse::<Ipv4Addr>().ok().filter(Ipv4Addr::is_loopback)?.octets();
        let high = u32::from(a).checked_sub(1)? * 256 + u32::from(b);
        let host = high * 254 + u32::from(c).checked_sub(1)?;
        (host < self.plan.hosts && c < 255).then_some(host)
    }

    /// The page for this host name and target, or robots.txt; `None` if there is none.
    pub(crate) fn page_at(&self, host: &str, target: &str) -> Option<PageId> {
        let host = self.host_at(host)?;
        let page = match target {
            "/" => 0,
            "/robots.txt" => return Some(PageId { host, page: ROBOTS }),
            // Other spellings of the number, such as `/p01`, are not found.
            _ => target.strip_prefix("/p").filter(|n| !n.starts_with(['0', '+']))?.parse().ok()?,
        };
        (page < self.pages_of(host)).then_some(PageId { host, page })
    }

    /// A page's URL.
    pub fn url(&self, id: PageId) -> String {
        let mut url = Vec::with_capacity(40);
        self.push_origin(id.host, &mut url);
        push_path(id.page, &mut url);
        String::from_utf8_lossy(&url).into_owned()
    }

    fn push_origin(&self, host: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.tls { b"https://" } else { b"http://" });
        for (nth, octet) in self.address_of(host).octets().into_iter().enumerate() {
            if nth > 0 {
                out.push(b'.');
            }
            push_number(octet.into(), out);
        }
        out.push(b':');
        push_number(self.port.into(), out);
    }

    /// A random number that depends on the page and the purpose. Every use in this file has its own purpose.
    fn random(&self, id: PageId, purpose: u64) -> u64 {
        mix(mix(mix(self.plan.seed ^ (u64::from(id.host) << 32 | u64::from(id.page)))).wrapping_add(purpose))
    }

    /// The robots.txt of a host: a 404 with the latency of a page.
    pub fn robots_of(&self, host: u32) -> PageId {
        PageId { host, page: ROBOTS }
    }

    /// The delay before the first byte of a page.
    pub fn latency(&self, id: PageId) -> Duration {
        let (least, greatest) = self.plan.latency_us;
        Duration::from_micros(least + below(self.random(id, 1), greatest - least + 1))
    }

    /// Maximum number of children of a page in its host's tree.
    fn arity(&self) -> u32 {
        (self.plan.links / 4).max(2)
    }

    /// The behaviour of a page.
    pub fn kind(&self, id: PageId) -> PageKind {
        let plan = &self.plan;
        if plan.dead > 0
            && id.host > 0
            && below(self.random(PageId { host: id.host, page: 0 }, 2), 1000) < plan.dead.into()
        {
            return PageKind::Dead;
        }
        let (missing, broken, redirects): (u64, u64, u64) =
            (plan.missing.into(), plan.broken.into(), plan.redirects.into());
        if missing + broken + redirects == 0 || !self.is_leaf(id) {
            return PageKind::Page;
        }
        let roll = below(self.random(id, 3), 1000);
        if roll < missing {
            PageKind::Error(404)
        } else if roll < missing + broken {
            PageKind::Error(500)
        } else if roll < missing + broken + redirects {
            // Parents are not leaves, so a redirect never leads to another redirect.
            let page = if plan.shape == Shape::Random { (id.page - 1) / self.arity() } else { 0 };
            PageKind::Redirect(PageId { host: id.host, page })
        } else {
            PageKind::Page
        }
    }

    /// Whether no other page is found only through this one.
    fn is_leaf(&self, PageId { host, page }: PageId) -> bool {
        let pages = self.pages_of(host);
        // Page 0 is the root of the tree. `page >= pages` is robots.txt. The middle page links to the child hosts.
        if page == 0 || page >= pages || page == pages / 2 {
            return false;
        }
        match self.plan.shape {
            Shape::Random => u64::from(page) * u64::from(self.arity()) + 1 >= u64::from(pages),
            Shape::Blog => page > archives(pages),
        }
    }

    /// Calls `each` for every link of a page, in the order of the page. Links may repeat.
    pub fn links(&self, id: PageId, mut each: impl FnMut(PageId)) {
        if self.kind(id) != PageKind::Page {
            return;
        }
        let PageId { host, page } = id;
        let pages = self.pages_of(host);
        let same_host = |page| PageId { host, page };
        if page == pages / 2 {
            self.child_hosts(host).for_each(|child| each(PageId { host: child, page: 0 }));
        }
        match self.plan.shape {
            Shape::Blog => blog_links(page, pages, |page| each(same_host(page))),
            Shape::Random => {
                let arity = u64::from(self.arity());
                let first = (u64::from(page) * arity + 1).min(pages.into());
                let end = (first + arity).min(pages.into());
                (first..end).for_each(|child| each(same_host(child as u32)));
                let random_links = u64::from(self.plan.links).saturating_sub(end - first);
                let mut state = self.random(id, 4);
                for _ in 0..random_links {
                    state = mix(state);
                    let target = if below(state, 1000) < self.plan.cross.into() {
                        below(mix(state ^ 1), self.plan.hosts.into()) as u32
                    } else {
                        host
                    };
                    let page = below(mix(state ^ 2), self.pages_of(target).into()) as u32;
                    each(PageId { host: target, page });
                }
            }
        }
    }

    /// The hosts that are found through this host.
    fn child_hosts(&self, host: u32) -> impl Iterator<Item = u32> + use<> {
        let hosts = u64::from(self.plan.hosts);
        let first = (u64::from(self.plan.root_hosts) + u64::from(host) * u64::from(HOST_FANOUT)).min(hosts);
        let end = (first + u64::from(HOST_FANOUT)).min(hosts);
        (first..end).map(|child| child as u32)
    }

    /// Appends the response for a page to `out`, and returns the number of filler bytes that must follow.
    ///
    /// Filler of up to 64 KiB is appended too, and the result is 0. Longer filler is left to the caller, who sends it
    /// from the shared block.
    pub(crate) fn render(&self, id: PageId, out: &mut Vec<u8>) -> u64 {
        match self.kind(id) {
            _ if id.page == ROBOTS => self.render_head(404, "", 0, out),
            PageKind::Page => return self.render_page(id, out),
            PageKind::Error(status) => self.render_head(status, "", 0, out),
            PageKind::Redirect(to) => {
                let location = format!("Location: {}\r\n", self.url(to));
                self.render_head(302, &location, 0, out);
            }
            PageKind::Dead => {}
        }
        0
    }

    fn render_head(&self, status: u16, extra: &str, length: u64, out: &mut Vec<u8>) {
        let close = if self.plan.close { "Connection: close\r\n" } else { "" };
        let reason = crate::response::reason(status);
        // Writing into a Vec cannot fail.
        let _ = write!(
            out,
            "HTTP/1.1 {status} {reason}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n{close}{extra}\r\n"
        );
    }

    fn render_page(&self, id: PageId, out: &mut Vec<u8>) -> u64 {
        let start = out.len();
        self.render_head(200, "", self.plan.size, out);
        let mut length = self.plan.size;
        let mut written = self.render_body(id, out);
        if written > length {
            // The links alone exceed the planned size: render again, with the actual length in the head.
            length = written;
            out.truncate(start);
            self.render_head(200, "", length, out);
            written = self.render_body(id, out);
        }
        let fill = length - written;
        if fill <= filler::BLOCK as u64 {
            filler::append(out, fill);
            return 0;
        }
        fill
    }

    /// Writes title and links, with text between them as far as the planned size allows (at most 64 KiB). Returns the
    /// number of bytes written. The caller adds filler up to the planned size.
    fn render_body(&self, id: PageId, out: &mut Vec<u8>) -> u64 {
        let start = out.len();
        let links = match self.plan.shape {
            Shape::Random => self.plan.links.max(1).into(),
            Shape::Blog => {
                // Starts at 1, because it is a divisor below.
                let mut links = 1;
                self.links(id, |_| links += 1);
                links
            }
        };
        // About 200 bytes are needed for head and title, and 48 for the markup of each link.
        let text_per_link = self.plan.size.saturating_sub(200 + links * 48).min(filler::BLOCK as u64) / links;
        out.extend_from_slice(b"<!doctype html>\n<html><head><title>Page ");
        push_number(id.page, out);
        out.extend_from_slice(b" of ");
        push_number(id.host, out);
        out.extend_from_slice(b"</title></head><body>\n");
        // The texts of different pages and links start at different places of the filler.
        let mut text_start = self.random(id, 5) % 1024;
        self.links(id, |target| {
            text_start += 1;
            out.extend_from_slice(b"<p>");
            out.extend_from_slice(filler::slice_at(text_start * 7, text_per_link));
            out.extend_from_slice(b"<a href=\"");
            if target.host != id.host {
                self.push_origin(target.host, out);
            }
            push_path(target.page, out);
            out.extend_from_slice(b"\">");
            push_number(target.page, out);
            out.extend_from_slice(b"</a></p>\n");
        });
        out.extend_from_slice(b"<p>");
        (out.len() - start) as u64
    }
}

/// Appends the path of a page: `/` for the first, `/p17` for the others.
fn push_path(page: u32, out: &mut Vec<u8>) {
    if page == 0 {
        out.push(b'/');
    } else {
        out.extend_from_slice(b"/p");
        push_number(page, out);
    }
}

/// Appends a number in decimal. `format!` would take most of the time of rendering a page.
fn push_number(number: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The number of archive pages of a blog. Their page numbers are 1 up to this number.
fn archives(pages: u32) -> u32 {
    // All pages but the first are archives and posts. An archive and its posts are POSTS_PER_ARCHIVE + 1 pages.
    (pages - 1).div_ceil(POSTS_PER_ARCHIVE + 1)
}

/// Calls `each` for every link of a page of a blog.
fn blog_links(page: u32, pages: u32, mut each: impl FnMut(u32)) {
    let archives = archives(pages);
    let first_post = archives + 1;
    if page == 0 {
        (1..first_post).for_each(each);
    } else if page < first_post {
        let from = first_post + (page - 1) * POSTS_PER_ARCHIVE;
        (from..(from + POSTS_PER_ARCHIVE).min(pages)).for_each(&mut each);
        each(0);
    } else {
        if page > first_post {
            each(page - 1);
        }
        if page + 1 < pages {
            each(page + 1);
        }
        each(0);
    }
}

/// The number of pages of each host by Zipf's law with this mean; at least one.
fn zipf(hosts: u32, mean: u32, exponent: f64) -> Vec<u32> {
    let weight = |host: u32| 1.0 / f64::from(host + 1).powf(exponent);
    let sum: f64 = (0..hosts).map(weight).sum();
    let total = f64::from(hosts) * f64::from(mean);
    (0..hosts).map(|host| ((weight(host) / sum * total).round() as u32).max(1)).collect()
}

#[cfg(test)]
mod tests;
