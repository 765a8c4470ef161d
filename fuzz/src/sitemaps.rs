//! Sitemaps: the same result for every split, within the limits.

use argiope_core::Url;
use argiope_core::page::sitemap::{Sitemap, SitemapBounds, SitemapReader};

use super::{piece, steered};

/// The result does not depend on the split, keeps the limits, and contains only URLs of the sitemap's site.
pub fn sitemap(data: &[u8]) {
    let (document, steer) = steered(data, 1);
    let Ok(url) = Url::parse("https://www.h.example/maps/sitemap.xml") else { return };
    let bounds = SitemapBounds { max_entries: 20, max_bytes: 1 << 16, ..SitemapBounds::default() };
    let whole = read(&url, &bounds, &[document]);
    let pieces: Vec<&[u8]> = document.chunks(piece(steer)).collect();
    assert_eq!(whole, read(&url, &bounds, &pieces));
    assert!(whole.entries.len() <= 20 && whole.children.len() <= 20);
    for entry in &whole.entries {
        assert_eq!(entry.url.registrable_domain(), Some("h.example"), "{}", entry.url);
    }
}

fn read(url: &Url, bounds: &SitemapBounds, pieces: &[&[u8]]) -> Sitemap {
    let mut reader = SitemapReader::new(url, bounds.clone());
    pieces.iter().for_each(|piece| reader.feed(piece));
    reader.finish()
}
