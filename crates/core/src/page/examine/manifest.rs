//! [`ManifestReader`]: the images that a web app manifest names.

use serde::Deserialize;

/// A longer manifest is not read.
const MAX_MANIFEST: usize = 256 * 1024;
/// Limit on the images of a manifest.
const MAX_IMAGES: usize = 200;

/// Buffers a manifest, which is small, and parses it at its end.
#[derive(Debug, Default)]
pub struct ManifestReader {
    bytes: Vec<u8>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Manifest {
    icons: Vec<Image>,
    screenshots: Vec<Image>,
    shortcuts: Vec<Shortcut>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Image {
    src: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Shortcut {
    icons: Vec<Image>,
}

impl ManifestReader {
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.bytes.len() <= MAX_MANIFEST {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The URLs of its images, as written.
    pub fn finish(self) -> Vec<String> {
        if self.bytes.len() > MAX_MANIFEST {
            return Vec::new();
        }
        let manifest: Manifest = serde_json::from_slice(&self.bytes).unwrap_or_default();
        let shortcuts = manifest.shortcuts.into_iter().flat_map(|shortcut| shortcut.icons);
        let images = manifest.icons.into_iter().chain(manifest.screenshots).chain(shortcuts);
        images.map(|image| image.src).filter(|source| !source.is_empty()).take(MAX_IMAGES).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_images_of_a_manifest_are_found() {
        let read = |text: &str| {
            let mut reader = ManifestReader::default();
            reader.feed(text.as_bytes());
            reader.finish()
        };
        let manifest = r#"{"name":"x","icons":[{"src":"a.png","sizes":"1x1"},{}],"screenshots":[{"src":"b.png"}],
            "shortcuts":[{"name":"s","icons":[{"src":"c.png"}]}]}"#;
        assert_eq!(read(manifest), ["a.png", "b.png", "c.png"]);
        assert!(read("not JSON").is_empty());
        assert!(read(&format!("{{\"icons\":[{{\"src\":\"{}\"}}]}}", "x".repeat(MAX_MANIFEST))).is_empty());
    }
}
