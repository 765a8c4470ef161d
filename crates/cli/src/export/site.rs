//! Exports a crawl with `--warc` as a folder for offline browsing: pages, styles and images, with relative links
//! between them.
//!
//! The records are read twice: first to assign a file name to every archived URL, then to write the files. References to
//! resources that are not in the archive are replaced by an empty placeholder. Links to pages that are not in the archive
//! become absolute.
//!
//! Invariant: no file of the copy loads anything from elsewhere or runs a script when a browser opens it, from disk or
//! from a web server. Three rules ensure it, for each form of file that browsers interpret (`file_types`):
//! - A copied page or SVG image is written anew and has only elements that were checked (`argiope_content`).
//! - A page begins with a policy ([`HEAD`]), before anything that was sent.
//! - The extension follows the type that was sent. All other types get an extension that browsers do not interpret, and a file
//!   whose content is markup although its type is not stays empty.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use argiope_content::{PageRewriter, ReferenceUse, Replacement, rewrite_css, rewrite_page, rewrite_svg};
use argiope_core::Outcome;
use argiope_core::base::url::Url;
use argiope_core::page::examine::tokenizer::Dialect;
use argiope_core::page::page_budget::PageBudget;
use argiope_core::page::reader::decode;
use argiope_runtime::atomic_file::AtomicFile;

use super::archived::{ArchivedPage, ArchivedPages};
use super::file_names::FileNames;
use super::file_types::{FileForm, FileType};
use super::of_file;
use crate::records::ReadError;
use crate::results::Results;
use crate::wording;

/// The file that lists URLs and files. Its presence shows that the folder was written by an export. It is empty until the
/// export is complete.
const LIST_FILE: &str = "argiope-site.jsonl";
/// The maximum length of a redirect chain that is followed to a file.
const MAX_REDIRECTS: usize = 20;
/// Interval between progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// The start of every page: a policy that lets it load only files of the copy and run no script, and that keeps the
/// browser from resolving the hosts of its links in advance. `file:` is for browsers in which `'self'` does not include
/// the files beside a page on disk.
const HEAD: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
img-src 'self' file: data:; media-src 'self' file: data:; font-src 'self' file: data:; \
style-src 'self' file: data: 'unsafe-inline'; frame-src 'self' file:; form-action 'none'; base-uri 'none'\">\
<meta http-equiv=\"x-dns-prefetch-control\" content=\"off\">";

/// Maps URLs to files.
#[derive(Default)]
pub(super) struct FileMap {
    /// The file of each URL, relative to the folder, with slashes.
    pub(super) files: HashMap<Box<str>, Box<str>>,
    /// The target of each redirect.
    pub(super) redirects: HashMap<Box<str>, Box<str>>,
    /// The URLs of the roots.
    roots: Vec<Box<str>>,
}

impl FileMap {
    /// The file of a URL, after redirects.
    pub(super) fn file(&self, url: &str) -> Option<&str> {
        let mut url = url;
        for _ in 0..MAX_REDIRECTS {
            if let Some(file) = self.files.get(url) {
                return Some(file);
            }
            url = self.redirects.get(url)?;
        }
        None
    }
}

/// Writes the site below `folder`. Returns what the user is told.
pub fn site(results: &Results, folder: &Path) -> Result<String, ReadError> {
    let mut archive = ArchivedPages::open(results)?;
    prepare(folder)?;
    let map = read_map(results)?;
    let mut list = io::BufWriter::new(AtomicFile::create(&folder.join(LIST_FILE))?);
    let (mut files, mut missing) = (0, std::collections::HashSet::new());
    let mut progress = Progress::new();
    results.latest_pages(|record| {
        let file = map.files.get(&*record.url).filter(|_| record.is_plain_get());
        let Some(file) = file else { return Ok(()) };
        let Some(page) = archive.shown_page(record)? else { return Ok(()) };
        let sent = record.content_type.as_deref();
        let content_type = if page.is_rendered { page.content_type.as_deref() } else { sent };
        let file_type = FileType::of(content_type, &page.url);
        let body = rewrite(&page, file_type.form, &map, file, &mut missing);
        let path = folder.join(file.as_ref());
        create_folders(folder, file)?;
        AtomicFile::write_own(&path, body).map_err(|error| of_file(&path, error))?;
        let line = serde_json::json!({"url": record.url, "file": file, "content_type": record.content_type});
        writeln!(list, "{line}")?;
        files += 1;
        progress.show(files, map.files.len() as u64);
        Ok(())
    })?;
    let index = folder.join("index.html");
    AtomicFile::write_own(&index, start_page(&map)).map_err(|error| of_file(&index, error))?;
    list.into_inner().map_err(io::IntoInnerError::into_error)?.rename_into_place()?;
    progress.end();
    let mut message = wording::plural(files, "file");
    let are = match missing.len() {
        0 => return Ok(message),
        1 => "is",
        _ => "are",
    };
    let missing = wording::plural(missing.len() as u64, "resource");
    message.push_str(&format!("; {missing} {are} not in the archive (crawl with --assets to fetch them)"));
    Ok(message)
}

/// Prepares the folder, which must be new, empty, or from an earlier export.
fn prepare(folder: &Path) -> Result<(), ReadError> {
    if folder.exists() && !folder.is_dir() {
        let why = format!("{} is not a folder; --format site writes one: name a new folder", folder.display());
        return Err(ReadError::Usage(why));
    }
    fs::create_dir_all(folder)?;
    let list = folder.join(LIST_FILE);
    if fs::read_dir(folder)?.next().is_none() {
        // The complete list replaces this empty file at the end. Without it, an interrupted export could not be repeated.
        fs::File::create_new(list)?;
    } else if !list.symlink_metadata().is_ok_and(|found| found.is_file()) {
        let why = format!("{} is not empty and not an earlier export: name a new folder", folder.display());
        return Err(ReadError::Usage(why));
    }
    Ok(())
}

/// Creates the parent folders of a file. Refuses symbolic links, which could lead out of the folder.
pub(super) fn create_folders(folder: &Path, file: &str) -> Result<(), ReadError> {
    let mut path = folder.to_owned();
    let parts: Vec<&str> = file.split('/').collect();
    for part in parts.iter().take(parts.len().saturating_sub(1)) {
        path.push(part);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if path.symlink_metadata()?.is_symlink() {
                    return Err(ReadError::Refused(format!("{} is a symbolic link", path.display())));
                }
            }
            result => result?,
        }
    }
    Ok(())
}

/// Reads the records and assigns file names.
fn read_map(results: &Results) -> Result<FileMap, ReadError> {
    let mut map = FileMap::default();
    let mut names = FileNames::beside(&["index.html", LIST_FILE]);
    results.latest_pages(|record| {
        // A link stands for a GET request, not for a sent form.
        if !record.is_plain_get() {
            return Ok(());
        }
        if record.depth() == 0 && record.via.is_none() {
            map.roots.push((*record.url).into());
        }
        if let Some(target) = &record.redirect {
            map.redirects.insert((*record.url).into(), (**target).into());
        }
        let is_archived = matches!(record.outcome, Some(Outcome::Ok | Outcome::NotModified)) && record.warc.is_some();
        if let (true, Ok(url)) = (is_archived, Url::parse(&record.url)) {
            let name = names.assign(&url, FileType::of(record.content_type.as_deref(), &url).extension);
            let name = name.to_str().unwrap_or_default().into();
            map.files.insert((*record.url).into(), name);
        }
        Ok(())
    })?;
    Ok(map)
}

/// The bytes of a file, with its URLs replaced. `form` follows the record, as the name of the file does: an archived
/// response with the same body may have been sent as another type.
fn rewrite(
    page: &ArchivedPage,
    form: FileForm,
    map: &FileMap,
    file: &str,
    missing: &mut std::collections::HashSet<Box<str>>,
) -> Vec<u8> {
    // The queries of links are in the charset of the page. Style sheets always use UTF-8.
    let charset = page.charset.filter(|_| form != FileForm::Css);
    let has_policy = form != FileForm::Svg;
    let base = page.url.clone();
    let budget = PageBudget::for_page(page.body.len());
    let mut rewriter = SiteRewriter { page: page.url.clone(), base, charset, map, file, missing, has_policy, budget };
    let text = match form {
        FileForm::Html => rewrite_page(&page.text(), Dialect::Html, HEAD, &mut rewriter),
        FileForm::Xhtml => rewrite_page(&page.text(), Dialect::Xml, HEAD, &mut rewriter),
        FileForm::Svg => rewrite_svg(&page.text(), &mut rewriter),
        FileForm::Css => rewrite_css(&decode(&page.body, page.charset), |url, use_as| rewriter.replace(url, use_as)),
        FileForm::Text => return page.body.clone(),
        // A web server may send a file without a type if it does not know the extension. Browsers then guess.
        FileForm::Binary if begins_like_markup(&page.body) => return Vec::new(),
        FileForm::Binary => return page.body.clone(),
    };
    // The text is UTF-8 now. A byte order mark says so, and counts more than anything that a server or the page declares.
    let mark = if text.starts_with('\u{feff}') { "" } else { "\u{feff}" };
    [mark.as_bytes(), text.as_bytes()].concat()
}

/// Whether a browser could take bytes without a type for HTML or XML.
fn begins_like_markup(body: &[u8]) -> bool {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start().first() == Some(&b'<')
}

/// Replaces the URLs in one file.
struct SiteRewriter<'a> {
    page: Url,
    /// The URL that relative URLs refer to: that of the page, or of its `<base>`.
    base: Url,
    charset: Option<&'static str>,
    map: &'a FileMap,
    /// The file that is written.
    file: &'a str,
    /// URLs that the page loads and that are not in the archive.
    missing: &'a mut std::collections::HashSet<Box<str>>,
    /// Whether the file carries a policy, or is loaded by a page that does.
    has_policy: bool,
    /// Charged for every URL: a short reference may become a long URL.
    budget: PageBudget,
}

impl SiteRewriter<'_> {
    /// The replacement of a URL, without regard to the budget.
    fn replacement(&mut self, written: &str, use_as: ReferenceUse) -> Replacement {
        let fragment = written.find('#').map_or("", |at| written.get(at..).unwrap_or(""));
        let reference = written.get(..written.len() - fragment.len()).unwrap_or("");
        // A fragment alone stays within the page, unless a `<base>` leads elsewhere. An empty reference loads nothing.
        if reference.is_empty() && (self.base == self.page || use_as != ReferenceUse::Link) {
            return if use_as == ReferenceUse::Refresh { Replacement::Remove } else { Replacement::Keep };
        }
        let Ok(url) = self.base.join_in_charset(reference, self.charset) else {
            return self.replace_other(written, use_as);
        };
        if let Some(target) = self.map.file(url.as_str()) {
            return Replacement::With(format!("{}{fragment}", relative_path(self.file, target)));
        }
        match use_as {
            ReferenceUse::Link | ReferenceUse::Data => Replacement::With(format!("{}{fragment}", url.as_str())),
            ReferenceUse::Refresh => Replacement::Remove,
            _ => {
                self.missing.insert(url.as_str().into());
                placeholder(use_as)
            }
        }
    }

    /// The replacement of a URL that is neither http nor https: `data:` for what a page shows, addresses for links.
    fn replace_other(&self, written: &str, use_as: ReferenceUse) -> Replacement {
        let starts_with =
            |scheme: &str| written.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        match use_as {
            ReferenceUse::Link if starts_with("mailto:") || starts_with("tel:") => Replacement::Keep,
            ReferenceUse::Image if starts_with("data:image/") || starts_with("data:font/") => Replacement::Keep,
            ReferenceUse::Image | ReferenceUse::Media | ReferenceUse::Style
                if self.has_policy && starts_with("data:") =>
            {
                Replacement::Keep
            }
            _ => placeholder(use_as),
        }
    }
}

/// What replaces a URL that is not in the copy.
fn placeholder(use_as: ReferenceUse) -> Replacement {
    let placeholder = match use_as {
        ReferenceUse::Link | ReferenceUse::Data | ReferenceUse::Refresh => return Replacement::Remove,
        ReferenceUse::Frame => "about:blank",
        // A transparent image of one pixel.
        ReferenceUse::Image => "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==",
        ReferenceUse::Style => "data:text/css,",
        ReferenceUse::Media => "data:,",
    };
    Replacement::With(placeholder.to_owned())
}

impl PageRewriter for SiteRewriter<'_> {
    fn replace(&mut self, written: &str, use_as: ReferenceUse) -> Replacement {
        if !self.budget.spend(written.len() + self.base.as_str().len() + self.file.len()) {
            return placeholder(use_as);
        }
        match self.replacement(written, use_as) {
            Replacement::With(new) if !self.budget.hold(new.len()) => placeholder(use_as),
            replacement => replacement,
        }
    }

    fn base(&mut self, href: &str) {
        if let Ok(base) = self.page.join_in_charset(href.trim(), self.charset) {
            self.base = base;
        }
    }
}

/// The relative URL from one file of the folder to another.
pub(super) fn relative_path(from: &str, to: &str) -> String {
    let mut from: Vec<&str> = from.split('/').collect();
    let mut to: Vec<&str> = to.split('/').collect();
    let name = to.pop().unwrap_or("");
    from.pop();
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let mut path = "../".repeat(from.len() - common);
    for part in to.iter().skip(common).chain([&name]) {
        if !path.is_empty() && !path.ends_with('/') {
            path.push('/');
        }
        // File names contain only characters that are valid in URLs. A percent sign must be escaped.
        path.push_str(&part.replace('%', "%25"));
    }
    path
}

/// `index.html` of the folder: lists the roots, and redirects to the root if there is only one.
fn start_page(map: &FileMap) -> String {
    let roots: BTreeMap<&str, &str> = map.roots.iter().filter_map(|root| Some((&**root, map.file(root)?))).collect();
    let first = map.roots.iter().find_map(|root| map.file(root)).map(|file| relative_path("index.html", file));
    let refresh = first.filter(|_| roots.len() == 1);
    let refresh = refresh.map_or_else(String::new, |file| {
        format!("<meta http-equiv=\"refresh\" content=\"0; url={}\">", super::Xml(&file))
    });
    let items: String = roots
        .iter()
        .map(|(url, file)| {
            format!("<li><a href=\"{}\">{}</a>\n", super::Xml(&relative_path("index.html", file)), super::Xml(url))
        })
        .collect();
    format!(
        "<!DOCTYPE html>\n{HEAD}<meta charset=\"utf-8\">{refresh}\n<title>Offline copy</title>\n<ul>\n{items}</ul>\n"
    )
}

/// Shows the progress of the export on a terminal.
struct Progress {
    /// When the next message is due.
    next: Instant,
    is_shown: bool,
}

impl Progress {
    fn new() -> Self {
        Self { next: Instant::now() + PROGRESS_INTERVAL, is_shown: false }
    }

    fn show(&mut self, written: u64, total: u64) {
        if Instant::now() < self.next || !io::stderr().is_terminal() {
            return;
        }
        self.next = Instant::now() + PROGRESS_INTERVAL;
        self.is_shown = true;
        // Ignored: if standard error is closed, the message has no reader.
        let _ = write!(io::stderr(), "\r{written} of {total} files");
    }

    fn end(&self) {
        if self.is_shown {
            let _ = writeln!(io::stderr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_between_files() {
        for (from, to, expected) in [
            ("h/index.html", "h/a.html", "a.html"),
            ("h/a/b.html", "h/index.html", "../index.html"),
            ("h/a/b.html", "k/c/d.png", "../../k/c/d.png"),
            ("h/a.html", "h/a.html", "a.html"),
            ("h/a.html", "h/50%25.png", "50%2525.png"),
            ("index.html", "h/a.html", "h/a.html"),
        ] {
            assert_eq!(relative_path(from, to), expected);
        }
    }
}
