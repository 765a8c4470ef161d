//! Properties of the sitemap reader for arbitrary documents.

use argiope_core::Url;
use argiope_core::page::sitemap::{Sitemap, SitemapBounds, SitemapReader};

use super::{piece_size, split_control};

/// The result does not depend on the split into pieces and is within the limits. Its entries are URLs of the sitemap's
/// site.
pub fn sitemap(data: &[u8]) {
    let (document, control) = split_control(data, 1);
    let Ok(url) = Url::parse("https://www.h.example/maps/sitemap.xml") else { return };
    let bounds = SitemapBounds { max_entries: 20, max_bytes: 1 << 16, ..SitemapBounds::default() };
    let sitemap = read(&url, &bounds, &[document]);
    let pieces: Vec<&[u8]> = document.chunks(piece_size(control)).collect();
    assert_eq!(sitemap, read(&url, &bounds, &pieces));
    assert!(sitemap.entries.len() <= 20 && sitemap.children.len() <= 20);
    for entry in &sitemap.entries {
        assert_eq!(entry.url.registrable_domain(), Some("h.example"), "{}", entry.url);
    }
}

fn read(url: &Url, bounds: &SitemapBounds, pieces: &[&[u8]]) -> Sitemap {
    let mut reader = SitemapReader::new(url, bounds.clone());
    pieces.iter().for_each(|piece| reader.feed(piece));
    reader.finish()
}
