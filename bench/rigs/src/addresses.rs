//! [`AddressGenerator`]: generates URLs without storing them.
//!
//! Invariant: generators with the same arguments give the same URLs in the same order, in every process.

use argiope_core::{LinkKind, LinkRef, Url, UrlRef};

/// How many URLs are put together.
pub const BATCH: usize = 64;

/// Generates URLs on a few large and many small hosts. Each URL is offered several times.
pub struct AddressGenerator {
    distinct: u64,
    hosts: u64,
    /// How often a URL is offered on average.
    times: u64,
    via: Url,
}

impl AddressGenerator {
    /// Generates `distinct` URLs on a tenth as many hosts. Each is offered `times` times on average.
    pub fn new(distinct: u64, times: u64) -> Self {
        let via = Url::parse("https://a.page.example/with/links?in=it").expect("a URL");
        Self { distinct, hosts: (distinct / 10).max(1), times, via }
    }

    /// Calls `each` with every URL in order. After each new URL, random earlier ones are offered again.
    pub fn each<E>(&self, mut each: impl FnMut(LinkRef<'_>) -> Result<(), E>) -> Result<(), E> {
        self.batches(|links| links.iter().try_for_each(|link| each(*link)))
    }

    /// Calls `put` with all URLs in order, in batches as a crawl makes them.
    pub fn batches<E>(&self, mut put: impl FnMut(&[LinkRef<'_>]) -> Result<(), E>) -> Result<(), E> {
        let mut texts = vec![String::with_capacity(96); BATCH];
        let mut pages = (0..self.distinct).flat_map(|number| {
            (0..self.times).map(move |repetition| match repetition {
                0 => number,
                _ => below(mix(number * self.times + repetition), number + 1),
            })
        });
        loop {
            let batch: Vec<u64> = pages.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return Ok(());
            }
            batch.iter().zip(&mut texts).for_each(|(page, text)| self.write(*page, text));
            let links: Vec<LinkRef<'_>> = batch.iter().zip(&texts).map(|(page, text)| self.link(*page, text)).collect();
            put(&links)?;
        }
    }

    fn link<'a>(&'a self, page: u64, text: &'a str) -> LinkRef<'a> {
        let url = UrlRef::from_normal(text).expect("a URL");
        let depth = 1 + (page * 4 / self.distinct.max(1)) as u32;
        let via = Some(&self.via);
        LinkRef { url, via, depth, redirects: 10, tries: 0, kind: LinkKind::Anchor, request: None, hash: None }
    }

    /// Writes the URL with this number.
    fn write(&self, page: u64, text: &mut String) {
        let random = mix(page);
        // The host of rank r is chosen in proportion to 1/r.
        let host = (self.hosts as f64).powf((random >> 11) as f64 / (1_u64 << 53) as f64) as u64;
        text.clear();
        text.push_str("https://www.host-");
        push_number(host, text);
        text.push_str(".example/section-");
        push_number(random % 100, text);
        text.push_str("/page-");
        push_number(page, text);
        text.push_str(".html");
    }
}

/// A hash of a number: the SplitMix64 generator seeded with it.
fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Scales a random number to one below `bound`.
fn below(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

/// Appends decimal digits without `format!`, which would take too large a part of the measured time.
fn push_number(number: u64, text: &mut String) {
    text.push_str(itoa::Buffer::new().format(number));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_url_is_offered_and_most_of_them_repeatedly() {
        let (mut offers, mut known) = (0, HashSet::new());
        let each = |link: LinkRef<'_>| -> Result<(), ()> {
            offers += 1;
            known.insert(link.url.as_str().to_owned());
            Ok(())
        };
        assert_eq!(AddressGenerator::new(1000, 10).each(each), Ok(()));
        assert_eq!((offers, known.len()), (10_000, 1000));
        let hosts: HashSet<&str> = known.iter().filter_map(|url| url.split('/').nth(2)).collect();
        assert!((20..=100).contains(&hosts.len()), "{} hosts", hosts.len());
        assert!(known.iter().all(|url| Url::parse(url).is_ok_and(|parsed| parsed.as_str() == url)));
    }
}
