//! [`FolderUrls`]: maps the files of a folder to URLs and back.

use std::borrow::Cow;
use std::path::Path;

use argiope_core::Url;
use argiope_core::page::examine::BaseUrl;
use encoding_rs::Encoding;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::target::decoded_path;

/// The URL prefix of files if the user gives no base URL. `.invalid` is reserved (RFC 2606).
const FILE_PREFIX: &str = "https://folder.invalid/";

/// Characters that are percent-encoded when a file path becomes a URL path.
const PATH_ENCODE_SET: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Maps the files of one checked folder to URLs and back.
#[derive(Debug)]
pub(crate) struct FolderUrls {
    /// The URL prefix of files in `folder`; ends with a slash.
    prefix: String,
    /// The folder that `prefix` maps to; ends with a slash.
    folder: String,
    /// The encoded path of the root folder, which is prepended to references with a leading `/`; without a trailing
    /// slash. `None` with a base URL, because such references then resolve as on a web site.
    root: Option<String>,
}

impl FolderUrls {
    pub fn new(root: &Path, base_url: Option<&Url>) -> Self {
        let root = root.to_string_lossy();
        let root = root.trim_end_matches('/');
        match base_url {
            None => Self { prefix: FILE_PREFIX.to_owned(), folder: "/".to_owned(), root: Some(encode(root)) },
            Some(url) => {
                let base = url.as_str();
                let base = base.split('?').next().unwrap_or(base).trim_end_matches('/');
                Self { prefix: format!("{base}/"), folder: format!("{root}/"), root: None }
            }
        }
    }

    /// The URL of a file. With a base URL, a file outside of the root folder still gets the file prefix.
    fn url(&self, path: &str) -> Option<Url> {
        let url = match path.strip_prefix(self.folder.as_str()) {
            Some(rest) => format!("{}{}", self.prefix, encode(rest)),
            None => format!("{FILE_PREFIX}{}", encode(path.trim_start_matches('/'))),
        };
        Url::parse(&url).ok()
    }

    /// The URL that the references of a document are relative to. `base` is the `href` of its `base` element.
    pub fn base_of(&self, path: &str, base: Option<&str>, encoding: &'static Encoding) -> Option<BaseUrl> {
        let page_url = BaseUrl::new(&self.url(path)?);
        let rebased = base.and_then(|base| page_url.rebased(&self.rooted(base), encoding));
        Some(rebased.unwrap_or(page_url))
    }

    /// Prepends the root folder to a reference with a single leading `/` or `\`, unless there is a base URL. In URLs of the
    /// web, both characters have the same meaning.
    pub fn rooted<'a>(&self, href: &'a str) -> Cow<'a, str> {
        let bytes = href.as_bytes();
        match (&self.root, bytes.first()) {
            (Some(root), Some(b'/' | b'\\')) if !matches!(bytes.get(1), Some(b'/' | b'\\')) => {
                Cow::Owned(format!("{root}{}", within_root(href)))
            }
            _ => Cow::Borrowed(href),
        }
    }

    /// The absolute, decoded path of the file that a URL maps to. `None` for other URLs.
    pub fn path<'a>(&self, url: &'a str, out: &'a mut String) -> Option<&'a str> {
        let (folder, rest) = match url.strip_prefix(self.prefix.as_str()) {
            Some(rest) => (self.folder.as_str(), rest),
            None if self.prefix.strip_suffix('/') == Some(url) => (self.folder.as_str(), ""),
            None => ("/", url.strip_prefix(FILE_PREFIX)?),
        };
        out.clear();
        out.push_str(folder);
        out.push_str(&decoded_path(rest));
        Some(out)
    }

    /// The URL of a file on the published site; `None` without a base URL.
    pub fn public_url(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(self.folder.as_str()).filter(|_| self.root.is_none())?;
        // A part with an encoded slash cannot name a file, and was not decoded: see `decoded_path`.
        let has_encoded_slash = |part: &str| part.contains("%2f") || part.contains("%2F");
        let parts = rest.split('/').map(|part| if has_encoded_slash(part) { part.to_owned() } else { encode(part) });
        Some(format!("{}{}", self.prefix, parts.collect::<Vec<_>>().join("/")))
    }
}

/// A reference with a leading slash, without the segments that lead above the root: in a browser, `/../x` is `/x`.
fn within_root(href: &str) -> Cow<'_, str> {
    let end = href.find(['?', '#']).unwrap_or(href.len());
    let (path, rest) = href.split_at(end);
    let is_dots = |segment: &str| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == ".." || plain == "."
    };
    // The parser of URLs removes white space within a URL, such as the tab in `.<TAB>.`.
    let path: Cow<'_, str> = match path.contains(['\t', '\n', '\r']) {
        true => Cow::Owned(path.replace(['\t', '\n', '\r'], "")),
        false => Cow::Borrowed(path),
    };
    let segments: Vec<&str> = path.split(['/', '\\']).skip(1).collect();
    if !segments.iter().any(|segment| is_dots(segment)) {
        return Cow::Borrowed(href);
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in &segments {
        if !is_dots(segment) {
            kept.push(segment);
        } else if segment.len() > 1 && !segment.eq_ignore_ascii_case("%2e") {
            kept.pop();
        }
    }
    // A path that ends with dots means a folder.
    if segments.last().is_some_and(|last| is_dots(last)) {
        kept.push("");
    }
    Cow::Owned(format!("/{}{rest}", kept.join("/")))
}

fn encode(path: &str) -> String {
    utf8_percent_encode(path, PATH_ENCODE_SET).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target_of(urls: &FolderUrls, page: &str, base: Option<&str>, href: &str) -> String {
        let base = urls.base_of(page, base, encoding_rs::UTF_8).expect("a base");
        let (mut url, mut path) = (String::new(), String::new());
        base.resolve(&urls.rooted(href), encoding_rs::UTF_8, &mut url).expect("a URL");
        urls.path(&url, &mut path).map_or_else(|| url.clone(), str::to_owned)
    }

    #[test]
    fn references_are_mapped_to_files() {
        let urls = FolderUrls::new(Path::new("/s/my site"), None);
        let page = "/s/my site/a/b#1.html";
        for (href, path) in [
            ("c.html", "/s/my site/a/c.html"),
            ("../d%20e.html?q=1", "/s/my site/d e.html"),
            ("../../../README.md", "/README.md"),
            ("/", "/s/my site/"),
            ("/x", "/s/my site/x"),
            ("/../../x", "/s/my site/x"),
            ("\\..\\x", "/s/my site/x"),
            ("/%2E./.%2e/y/./../x?q=/../#/..", "/s/my site/x"),
            ("/.\t./x", "/s/my site/x"),
            ("/a/..", "/s/my site/"),
            ("", "/s/my site/a/b#1.html"),
            ("//h.example/x", "https://h.example/x"),
            ("http://h.example", "http://h.example/"),
        ] {
            assert_eq!(target_of(&urls, page, None, href), path, "{href}");
        }
        assert_eq!(target_of(&urls, page, Some("/"), "x"), "/s/my site/x");
        assert_eq!(target_of(&urls, page, Some("https://h.example/y/"), "x"), "https://h.example/y/x");
    }

    #[test]
    fn with_a_base_url_its_urls_are_mapped_to_files() {
        let url = Url::parse("https://h.example/docs").expect("a URL");
        let urls = FolderUrls::new(Path::new("/s"), Some(&url));
        for (href, path) in [
            ("b.html", "/s/b.html"),
            ("/docs/b.html", "/s/b.html"),
            ("https://h.example/docs/c/", "/s/c/"),
            ("https://h.example/docs", "/s/"),
            ("/other", "https://h.example/other"),
            ("../x", "https://h.example/x"),
        ] {
            assert_eq!(target_of(&urls, "/s/a.html", None, href), path, "{href}");
        }
        assert_eq!(urls.public_url("/s/..%2Fetc/a b").as_deref(), Some("https://h.example/docs/..%2Fetc/a%20b"));
        assert_eq!(urls.public_url("/s/a%20b").as_deref(), Some("https://h.example/docs/a%2520b"));
        assert_eq!(urls.public_url("/s/a b.html").as_deref(), Some("https://h.example/docs/a%20b.html"));
    }
}
