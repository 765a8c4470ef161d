//! File names for URLs: valid on every file system, and distinct on file systems that ignore case.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use argiope_core::base::url::Url;
use argiope_runtime::directory::hash_for_name;

/// Maximum bytes of a file name or folder name that is made from one segment of a URL.
const MAX_PART_BYTES: usize = 100;
/// Maximum number of folders in a path; deeper folders are dropped and the file name gets a hash.
const MAX_FOLDERS: usize = 20;
/// Maximum bytes of what counts as an extension.
const MAX_EXTENSION_BYTES: usize = 8;
/// Room in a name for the hash and the extension.
const SUFFIX_BYTES: usize = 20;

/// Names that Windows reserves, with any extension.
const RESERVED: &[&str] = &[
    "con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9", "lpt1", "lpt2",
    "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
];

/// The names assigned so far.
#[derive(Debug, Default)]
pub struct FileNames {
    /// Paths of files, in lower case.
    files: HashSet<String>,
    /// Paths of folders, in lower case.
    folders: HashSet<String>,
    /// Folders that were renamed because a file has their path. The key is the original path in lower case.
    renamed: HashMap<String, String>,
}

impl FileNames {
    /// Assigns a path to a URL, relative to the folder of the export. It gets `extension`, unless the URL already ends with it.
    pub fn assign(&mut self, url: &Url, extension: Option<&str>) -> PathBuf {
        let mut folder = valid_name(&url.authority().replace(':', "_"));
        self.folders.insert(folder.to_lowercase());
        let mut segments: Vec<&str> = url.path().split('/').skip(1).collect();
        let last = segments.pop().unwrap_or("");
        let is_too_deep = segments.len() > MAX_FOLDERS;
        for segment in segments.iter().take(MAX_FOLDERS) {
            if !segment.is_empty() {
                folder = self.add_folder(&format!("{folder}/{}", valid_name(segment)));
            }
        }
        let mut stem = if last.is_empty() { "index".to_owned() } else { valid_name(last) };
        if let Some(query) = url.query() {
            stem = format!("{stem}@{}", valid_name(query));
        }
        // An ending with an `@` contains the query, so it is not an extension.
        let (mut base, mut ending) = match stem.rsplit_once('.') {
            Some((base, ending))
                if !base.is_empty() && ending.len() <= MAX_EXTENSION_BYTES && !ending.contains('@') =>
            {
                (base.to_owned(), ending.to_owned())
            }
            _ => (stem.clone(), String::new()),
        };
        if let Some(extension) = extension
            && !ending.eq_ignore_ascii_case(extension)
            && !(extension == "html" && ending.eq_ignore_ascii_case("htm"))
        {
            // A page `a.php` becomes `a.php.html`; the text of `a.html` becomes `a.md`.
            base = if ending.is_empty() || matches!(ending.as_str(), "html" | "htm") {
                base
            } else {
                format!("{base}.{ending}")
            };
            ending = extension.to_owned();
        }
        let full_path = |base: &str| {
            if ending.is_empty() { format!("{folder}/{base}") } else { format!("{folder}/{base}.{ending}") }
        };
        let mut path = full_path(&base);
        let is_taken =
            |path: &str| self.files.contains(&path.to_lowercase()) || self.folders.contains(&path.to_lowercase());
        if is_too_deep || is_taken(&path) || base.len() > MAX_PART_BYTES + SUFFIX_BYTES {
            base.truncate(floor_char_boundary(&base, MAX_PART_BYTES));
            path = full_path(&format!("{base}~{:08x}", hash_for_name(url.as_str()) as u32));
            let mut number = 2;
            while is_taken(&path) {
                path = full_path(&format!("{base}~{:08x}-{number}", hash_for_name(url.as_str()) as u32));
                number += 1;
            }
        }
        self.files.insert(path.to_lowercase());
        PathBuf::from(path)
    }

    /// Registers a folder with this path. If a file already has this path, the folder gets the suffix `~d`, with a number if
    /// necessary. Returns the path of the folder.
    fn add_folder(&mut self, path: &str) -> String {
        let lower = path.to_lowercase();
        if let Some(renamed) = self.renamed.get(&lower) {
            return renamed.clone();
        }
        if !self.files.contains(&lower) {
            self.folders.insert(lower);
            return path.to_owned();
        }
        let mut number = 1;
        let mut other = format!("{path}~d");
        while self.files.contains(&other.to_lowercase()) {
            number += 1;
            other = format!("{path}~d{number}");
        }
        self.folders.insert(other.to_lowercase());
        self.renamed.insert(lower, other.clone());
        other
    }
}

/// The last character boundary at or before a byte position.
fn floor_char_boundary(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A segment of a URL as a valid file name.
fn valid_name(text: &str) -> String {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_.~+,=@%".contains(c);
    let mut name: String = text.chars().map(|c| if is_valid(c) { c } else { '_' }).collect();
    if name.len() > MAX_PART_BYTES {
        let hash = hash_for_name(text) as u32;
        // The extension is kept, so that programs recognise the file type.
        let extension = name
            .rsplit_once('.')
            .map(|(_, extension)| extension.to_owned())
            .filter(|extension| extension.len() <= MAX_EXTENSION_BYTES);
        name.truncate(floor_char_boundary(&name, MAX_PART_BYTES - SUFFIX_BYTES));
        name = format!("{name}~{hash:08x}{}", extension.map_or_else(String::new, |extension| format!(".{extension}")));
    }
    // Windows drops dots and spaces at the end of a name.
    let length = name.trim_end_matches(['.', ' ']).len();
    name.truncate(length);
    if name.is_empty() {
        name.push('_');
    }
    let stem = name.split('.').next().unwrap_or("").to_lowercase();
    if RESERVED.contains(&stem.as_str()) {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(urls: &[&str], extension: Option<&str>) -> Vec<String> {
        let mut names = FileNames::default();
        urls.iter().map(|url| names.assign(&Url::parse(url).unwrap(), extension).display().to_string()).collect()
    }

    #[test]
    fn a_path_follows_the_url() {
        assert_eq!(
            names(
                &[
                    "http://h/",
                    "http://h/a",
                    "http://h/a/",
                    "http://h/a/b.html",
                    "http://h:81/x?q=1&r=2",
                    "http://h/p.php"
                ],
                Some("html")
            ),
            ["h/index.html", "h/a.html", "h/a/index.html", "h/a/b.html", "h_81/x@q=1_r=2.html", "h/p.php.html"]
        );
        assert_eq!(names(&["http://h/a.html", "http://h/b.tar.gz"], Some("md")), ["h/a.md", "h/b.tar.gz.md"]);
        assert_eq!(names(&["http://h/style.css", "http://h/data"], None), ["h/style.css", "h/data"]);
    }

    #[test]
    fn names_are_valid_on_windows_and_differ_if_case_is_ignored() {
        let all = names(&["http://h/A", "http://h/a", "http://h/CON", "http://h/a%2Fb", "http://h/x./y"], Some("html"));
        assert_eq!(all[0], "h/A.html");
        assert!(all[1].starts_with("h/a~") && all[1].ends_with(".html"), "{all:?}");
        assert_eq!(all[2], "h/_CON.html");
        assert!(!all.iter().any(|name| name.contains("..") || name.contains("x./")), "{all:?}");
    }

    #[test]
    fn a_folder_and_a_file_get_different_paths() {
        assert_eq!(names(&["http://h/data", "http://h/data/x.css"], None), ["h/data", "h/data~d/x.css"]);
        let after = names(&["http://h/data/x.css", "http://h/data"], None);
        assert!(after[1].starts_with("h/data~"), "{after:?}");
    }

    #[test]
    fn long_urls_get_short_names() {
        let long = format!("http://h/{}/{}.png?{}", "a".repeat(300), "b".repeat(300), "c".repeat(3000));
        let name = names(&[&long], None).remove(0);
        // Most file systems allow 255 bytes.
        assert!(name.split('/').all(|part| part.len() <= 240), "{name}");
    }
}
