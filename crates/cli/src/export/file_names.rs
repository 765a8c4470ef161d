//! File names for URLs: valid on every file system, and distinct on file systems that ignore case.
//!
//! Invariant: a name has one dot, before the extension that the export gave it, and does not begin with a dot or a
//! hyphen. So a server or a desktop sees no other extension (`shell.php.html`), and no settings (`.htaccess`).

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use argiope_core::base::url::Url;
use argiope_runtime::directory::hash_for_name;

/// Maximum bytes of a file name or folder name that is made from one segment of a URL.
const MAX_PART_BYTES: usize = 100;
/// Maximum number of folders in a path; deeper folders are dropped and the file name gets a hash.
const MAX_FOLDERS: usize = 20;
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
    /// Names beside files of the export itself.
    pub fn beside(own: &[&str]) -> Self {
        Self { files: own.iter().map(|name| (*name).to_owned()).collect(), ..Self::default() }
    }

    /// Assigns a path to a URL, relative to the folder of the export, with this extension.
    pub fn assign(&mut self, url: &Url, extension: &str) -> PathBuf {
        let mut folder = self.add_folder(&valid_name(&url.authority().replace(':', "_")));
        let mut segments: Vec<&str> = url.path().split('/').skip(1).collect();
        let last = segments.pop().unwrap_or("");
        let is_too_deep = segments.len() > MAX_FOLDERS;
        for segment in segments.iter().take(MAX_FOLDERS) {
            if !segment.is_empty() {
                folder = self.add_folder(&format!("{folder}/{}", valid_name(segment)));
            }
        }
        let mut base = stem(last, url.query(), extension);
        let full_path = |base: &str| format!("{folder}/{base}.{extension}");
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

/// The name of a file without its extension: `a.html` becomes `a`, and `a.php` becomes `a_php`.
fn stem(last: &str, query: Option<&str>, extension: &str) -> String {
    let pages = ["html", "htm", "xhtml", "xht"];
    let is_same = |ending: &str| {
        ending.eq_ignore_ascii_case(extension) || pages.iter().any(|page| ending.eq_ignore_ascii_case(page))
    };
    let name = match last.rsplit_once('.') {
        _ if last.is_empty() => "index",
        Some((base, ending)) if !base.is_empty() && is_same(ending) => base,
        _ => last,
    };
    let query = query.map_or_else(String::new, |query| format!("@{}", valid_name(query)));
    format!("{}{query}", valid_name(name)).replace('.', "_")
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
        name.truncate(floor_char_boundary(&name, MAX_PART_BYTES - SUFFIX_BYTES));
        name.push_str(&format!("~{hash:08x}"));
    }
    // A leading dot hides a file or makes it a file of settings. A leading hyphen makes it an option of commands.
    if name.starts_with(['.', '-']) {
        name.replace_range(..1, "_");
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

    fn names(urls: &[&str], extension: &str) -> Vec<String> {
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
                "html"
            ),
            ["h/index.html", "h/a.html", "h/a/index.html", "h/a/b.html", "h_81/x@q=1_r=2.html", "h/p_php.html"]
        );
        assert_eq!(names(&["http://h/a.html", "http://h/b.tar.gz"], "md"), ["h/a.md", "h/b_tar_gz.md"]);
    }

    #[test]
    fn a_name_has_one_extension_and_is_not_a_file_of_settings() {
        let urls = [
            "http://h/.htaccess",
            "http://h/shell.php",
            "http://h/.git/config",
            "http://h/-rf",
            "http://h/autorun.inf",
        ];
        let expected = ["h/_htaccess.txt", "h/shell_php.txt", "h/_git/config.txt", "h/_rf.txt", "h/autorun_inf.txt"];
        assert_eq!(names(&urls, "txt"), expected);
        let mut beside = FileNames::beside(&["index.html"]);
        let path = beside.assign(&Url::parse("http://index.html/").unwrap(), "html");
        assert_eq!(path, PathBuf::from("index.html~d/index.html"));
    }

    #[test]
    fn names_are_valid_on_windows_and_differ_if_case_is_ignored() {
        let all = names(&["http://h/A", "http://h/a", "http://h/CON", "http://h/a%2Fb", "http://h/x./y"], "html");
        assert_eq!(all[0], "h/A.html");
        assert!(all[1].starts_with("h/a~") && all[1].ends_with(".html"), "{all:?}");
        assert_eq!(all[2], "h/_CON.html");
        assert!(!all.iter().any(|name| name.contains("..") || name.contains("x./")), "{all:?}");
    }

    #[test]
    fn a_folder_and_a_file_get_different_paths() {
        let before = names(&["http://h/data", "http://h/data.css/x"], "css");
        assert_eq!(before, ["h/data.css", "h/data.css~d/x.css"]);
        let after = names(&["http://h/data.css/x", "http://h/data"], "css");
        assert!(after[1].starts_with("h/data~"), "{after:?}");
    }

    #[test]
    fn long_urls_get_short_names() {
        let long = format!("http://h/{}/{}.png?{}", "a".repeat(300), "b".repeat(300), "c".repeat(3000));
        let name = names(&[&long], "png").remove(0);
        // Most file systems allow 255 bytes.
        assert!(name.split('/').all(|part| part.len() <= 240), "{name}");
    }
}
