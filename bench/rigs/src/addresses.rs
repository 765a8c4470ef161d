//! [`AddressGenerator`]: generates URLs without storing them.
//!
//! Invariant: generators with the same arguments give the same URLs in the same order, in every process.

use argiope_core::{LinkKind, LinkRef, Url, UrlRef};

/// Generates URLs on a few large and many small hosts. Each URL is offered several times.
pub struct AddressGenerator {
    distinct: u64,
    hosts: u64,
    /// How often a URL is offered on average.
    times: u64,
    via: Url,
}

impl AddressGenerator {
    /// Generates `distinct` URLs, each `times` times on average, on a tenth as many hosts.
    pub fn new(distinct: u64, times: u64) -> Self {
        let via = Url::parse("https://a.page.example/with/links?in=it").expect("an address");
        Self { distinct, hosts: (distinct / 10).max(1), times, via }
    }

    /// Offers every URL once, in order, and earlier ones again in between.
    pub fn each<E>(&self, mut offer: impl FnMut(LinkRef<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut text = String::with_capacity(96);
        for number in 0..self.distinct {
            for again in 0..self.times {
                let which = match again {
                    0 => number,
                    _ => below(mix(number * self.times + again), number + 1),
                };
                self.write(which, &mut text);
                let url = UrlRef::from_normal(&text).expect("an address");
                let depth = 1 + (which * 4 / self.distinct.max(1)) as u32;
                let kind = LinkKind::Anchor;
                offer(LinkRef { url, via: Some(&self.via), depth, redirects: 10, tries: 0, kind, request: None })?;
            }
        }
        Ok(())
    }

    fn write(&self, which: u64, text: &mut String) {
        let random = mix(which);
        // The host of rank r is chosen in proportion to 1/r.
        let host = (self.hosts as f64).powf((random >> 11) as f64 / (1_u64 << 53) as f64) as u64;
        text.clear();
        text.push_str("https://www.host-");
        push_number(host, text);
        text.push_str(".example/section-");
        push_number(random % 100, text);
        text.push_str("/page-");
        push_number(which, text);
        text.push_str(".html");
    }
}

/// SplitMix64's last step.
fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

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
    fn all_addresses_are_offered_and_most_of_them_again() {
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
