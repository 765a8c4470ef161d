//! [`FileType`]: how a response is written to a file of a copy, by the type with which it was sent.
//!
//! Invariant: a file has an extension of a form that browsers interpret only if it was rewritten as that form.

use argiope_core::base::url::Url;

/// How the bytes of a file are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileForm {
    Html,
    /// XHTML is written as HTML.
    Xhtml,
    Svg,
    Css,
    /// As they were sent: text that every program shows as text.
    Text,
    /// As they were sent, unless they are markup.
    Binary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileType {
    pub form: FileForm,
    pub extension: &'static str,
}

/// The extensions of files that browsers show without interpreting markup or scripts, with the types that they are sent
/// as. The first extension of a type is that of a file whose URL has another one.
const AS_SENT: &[(&str, &[&str])] = &[
    ("image/png", &["png"]),
    ("image/apng", &["png"]),
    ("image/jpeg", &["jpg", "jpeg"]),
    ("image/jpg", &["jpg", "jpeg"]),
    ("image/gif", &["gif"]),
    ("image/webp", &["webp"]),
    ("image/avif", &["avif"]),
    ("image/bmp", &["bmp"]),
    ("image/tiff", &["tiff", "tif"]),
    ("image/x-icon", &["ico"]),
    ("image/vnd.microsoft.icon", &["ico"]),
    ("video/mp4", &["mp4", "m4v"]),
    ("video/webm", &["webm"]),
    ("video/ogg", &["ogv", "ogg"]),
    ("video/quicktime", &["mov"]),
    ("audio/mpeg", &["mp3"]),
    ("audio/mp4", &["m4a"]),
    ("audio/ogg", &["ogg", "oga"]),
    ("audio/wav", &["wav"]),
    ("audio/x-wav", &["wav"]),
    ("audio/flac", &["flac"]),
    ("font/woff2", &["woff2"]),
    ("font/woff", &["woff"]),
    ("application/font-woff", &["woff"]),
    ("application/font-woff2", &["woff2"]),
    ("font/ttf", &["ttf"]),
    ("font/otf", &["otf"]),
    ("application/vnd.ms-fontobject", &["eot"]),
    ("application/json", &["json"]),
    ("application/manifest+json", &["json"]),
    ("application/pdf", &["pdf"]),
    ("application/epub+zip", &["epub"]),
    ("application/zip", &["zip"]),
    ("application/gzip", &["gz", "tgz"]),
    ("application/x-gzip", &["gz", "tgz"]),
    ("application/x-tar", &["tar"]),
    ("application/x-7z-compressed", &["7z"]),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", &["docx"]),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", &["xlsx"]),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", &["pptx"]),
    ("application/vnd.oasis.opendocument.text", &["odt"]),
    ("application/vnd.oasis.opendocument.spreadsheet", &["ods"]),
    ("application/vnd.oasis.opendocument.presentation", &["odp"]),
    ("text/csv", &["csv"]),
];

/// The extension of text that is only shown: scripts and XML too, because XML can load style sheets and hold scripts.
const TEXT: &str = "txt";
/// The extension of what no program opens by itself.
const OTHER: &str = "bin";

impl FileType {
    /// The type of the file of a URL that was sent as this type.
    pub fn of(content_type: Option<&str>, url: &Url) -> Self {
        let (form, extension) = match content_type.unwrap_or("") {
            "text/html" => (FileForm::Html, "html"),
            "application/xhtml+xml" => (FileForm::Xhtml, "html"),
            "image/svg+xml" => (FileForm::Svg, "svg"),
            "text/css" => (FileForm::Css, "css"),
            other => {
                let extension = as_sent(other, &url_extension(url));
                (if matches!(extension, TEXT | "csv") { FileForm::Text } else { FileForm::Binary }, extension)
            }
        };
        Self { form, extension }
    }
}

/// The extension of a file that is written as it was sent.
fn as_sent(content_type: &str, url_extension: &str) -> &'static str {
    let of_url = |known: &[&'static str]| known.iter().find(|known| **known == url_extension).copied();
    if let Some((_, known)) = AS_SENT.iter().find(|(known, _)| *known == content_type) {
        return of_url(known).or_else(|| known.first().copied()).unwrap_or(OTHER);
    }
    let is_text = content_type.starts_with("text/")
        || content_type.ends_with("xml")
        || content_type.ends_with("json")
        || content_type.ends_with("javascript")
        || content_type.ends_with("ecmascript");
    // Fonts and media are often sent without a type of their own.
    let is_unspecific = matches!(content_type, "" | "application/octet-stream" | "binary/octet-stream");
    let is_passive =
        |kind: &str| ["image/", "audio/", "video/", "font/"].iter().any(|passive| kind.starts_with(passive));
    let passive = AS_SENT.iter().filter(|(kind, _)| is_passive(kind)).find_map(|(_, known)| of_url(known));
    match passive.filter(|_| is_unspecific) {
        Some(extension) => extension,
        None if is_text => TEXT,
        None => OTHER,
    }
}

/// The extension of the last segment of a URL, in lower case.
fn url_extension(url: &Url) -> String {
    let name = url.path().rsplit('/').next().unwrap_or("");
    name.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_follows_the_type_that_was_sent() {
        for (url, content_type, expected) in [
            ("http://h/a", "text/html", "html"),
            ("http://h/a.htm", "text/html", "html"),
            ("http://h/a.php", "text/html", "html"),
            ("http://h/a.html", "text/plain", "txt"),
            ("http://h/a.html", "image/png", "png"),
            ("http://h/a.xhtml", "application/xhtml+xml", "html"),
            ("http://h/s.css?v=1", "text/css", "css"),
            ("http://h/i.jpeg", "image/jpeg", "jpeg"),
            ("http://h/i", "image/jpeg", "jpg"),
            ("http://h/f.woff2", "application/octet-stream", "woff2"),
            ("http://h/f.svg", "application/octet-stream", "bin"),
            ("http://h/f.html", "", "bin"),
            ("http://h/f.js", "text/javascript", "txt"),
            ("http://h/f.xsl", "text/xsl", "txt"),
            ("http://h/feed.xml", "application/rss+xml", "txt"),
            ("http://h/a.mhtml", "multipart/related", "bin"),
            ("http://h/a.shtml", "text/x-server-parsed-html", "txt"),
        ] {
            assert_eq!(FileType::of(Some(content_type), &Url::parse(url).unwrap()).extension, expected, "{url}");
        }
    }
}
