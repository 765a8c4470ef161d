//! [`FileTree`]: the files that references can point to.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;

use hashbrown::HashMap;

use crate::document::DocumentType;

/// The longest ending that the search for a file appends to a path.
const LONGEST_INDEX_PAGE: &str = "/index.xhtml";

/// Maximum size of a document.
pub(super) const MAX_DOCUMENT: u64 = 64 << 20;

/// The number of a file: its index in [`FileTree::entries`], continued in [`FileTree::outside`].
pub(crate) type FileId = u32;

/// One file.
#[derive(Debug)]
pub(crate) struct FileEntry {
    /// Absolute, without `.` and `..`. Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The path to open, if it differs from `path` because it is not UTF-8.
    pub raw_path: Option<PathBuf>,
    /// `None` for files that are not parsed.
    pub kind: Option<DocumentType>,
    pub size: u64,
    /// The index of the given path below which the file was found; 0 for files outside of the given paths.
    pub source: usize,
    /// Why the document is not read, although its name is that of a document.
    pub refusal: Option<&'static str>,
}

/// The files of the checked folders, and referenced files outside of them.
pub(crate) struct FileTree {
    entries: Vec<FileEntry>,
    /// The number of each file, by path.
    index: HashMap<Box<str>, FileId>,
    folders: HashSet<Box<str>>,
    /// Files that walking did not find: hidden files, and files outside of the folders.
    outside: Mutex<OutsideFiles>,
    /// Folders that were not read because a symbolic link leads out of the given paths, each with the index of its path.
    pub refused_folders: Vec<(String, usize)>,
    /// Notes for the user about files and folders that were not read.
    pub unreadable: Vec<String>,
}

/// The results of lookups in the file system.
#[derive(Default)]
struct OutsideFiles {
    entries: Vec<FileEntry>,
    /// The number of each file, by path.
    index: HashMap<Box<str>, FileId>,
    /// The targets of paths in references; `None` if there is none. The second map is for references in Markdown, because
    /// these can have other targets.
    targets: [HashMap<Box<str>, Option<PathTarget>>; 2],
}

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathTarget {
    File(FileId),
    /// A folder without an index page.
    Folder,
}

impl FileTree {
    /// Walks folders and adds single files. All paths are absolute. Symbolic links are followed only to targets below
    /// the paths and below `root_dir`.
    pub fn walk(paths: &[PathBuf], root_dir: Option<&Path>) -> Self {
        let allowed = AllowedPaths::new(paths.iter().map(PathBuf::as_path).chain(root_dir));
        let mut tree = Self {
            entries: Vec::new(),
            index: HashMap::new(),
            folders: HashSet::new(),
            outside: Mutex::default(),
            refused_folders: Vec::new(),
            unreadable: Vec::new(),
        };
        for (source, path) in paths.iter().enumerate() {
            match fs::metadata(path) {
                Ok(metadata) if metadata.is_dir() => tree.add_folder(path, source, &allowed),
                Ok(metadata) => {
                    let name = path.to_string_lossy();
                    if DocumentType::of_name(&name).is_none() {
                        tree.unreadable.push(format!(
                            "{name}: neither HTML nor Markdown by its name; not read. A list of URLs is read with: \
                             argiope check - < FILE"
                        ));
                    }
                    tree.add_file(path, &metadata, source, true);
                }
                Err(error) => tree.unreadable.push(format!("{}: {error}", path.display())),
            }
        }
        tree
    }

    /// Adds all files below a folder, except hidden ones and `node_modules`.
    fn add_folder(&mut self, top: &Path, source: usize, allowed: &AllowedPaths) {
        let mut todo = vec![top.to_path_buf()];
        // Device and inode of each folder, because symbolic links may form loops.
        let mut visited = HashSet::new();
        while let Some(folder) = todo.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    self.unreadable.push(format!("{}: {error}", folder.display()));
                    continue;
                }
            };
            self.folders.insert(folder.to_string_lossy().into());
            for entry in entries.flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if name.starts_with('.') || name == "node_modules" {
                    continue;
                }
                let path = entry.path();
                let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
                let is_inside = !is_link || allowed.contains(&path);
                // Metadata of the target if it is a symbolic link.
                match fs::metadata(&path) {
                    Ok(metadata) if metadata.is_dir() => {
                        if !is_inside {
                            self.refused_folders.push((path.to_string_lossy().into_owned(), source));
                        } else if visited.insert((metadata.dev(), metadata.ino())) {
                            todo.push(path);
                        }
                    }
                    Ok(metadata) => self.add_file(&path, &metadata, source, is_inside),
                    // A dangling symbolic link: references to it are reported as missing.
                    Err(_) => {}
                }
            }
        }
    }

    /// Adds a file. `is_inside`: it is not a symbolic link that leads out of the given paths.
    fn add_file(&mut self, path: &Path, metadata: &fs::Metadata, source: usize, is_inside: bool) {
        let raw_path = path.to_str().is_none().then(|| path.to_path_buf());
        let path = path.to_string_lossy().into_owned();
        let name_kind = DocumentType::of_name(&path);
        let refusal = name_kind.and_then(|_| refusal(metadata, is_inside));
        let (kind, size) = (name_kind.filter(|_| refusal.is_none()), metadata.len());
        let Ok(id) = FileId::try_from(self.entries.len()) else { return };
        if let hashbrown::hash_map::Entry::Vacant(vacant) = self.index.entry(path.as_str().into()) {
            vacant.insert(id);
            self.entries.push(FileEntry { path, raw_path, kind, size, source, refusal });
        }
    }

    /// The files that were found by walking.
    pub fn entries(&self) -> &[FileEntry] {
        &self.entries
    }

    /// Referenced files that were not found by walking. Their numbers follow those of [`FileTree::entries`].
    pub fn outside(&mut self) -> &[FileEntry] {
        &self.outside.get_mut().unwrap_or_else(PoisonError::into_inner).entries
    }

    /// The paths of all files that were found by walking and whose names are UTF-8.
    pub fn paths(&self) -> impl Iterator<Item = &str> + Clone {
        self.entries.iter().filter(|entry| entry.raw_path.is_none()).map(|entry| entry.path.as_str())
    }

    /// The target of an absolute path: the file itself, the index page of a folder, or `page.html` for `page`. References in
    /// Markdown (`from_markdown`) may also mean `page.md` or the `README.md` of a folder.
    pub fn find(&self, path: &str, from_markdown: bool) -> Option<PathTarget> {
        if let Some(&id) = self.index.get(path) {
            return Some(PathTarget::File(id));
        }
        self.find_clean(path, from_markdown).or_else(|| self.find_outside(path, from_markdown))
    }

    /// Finds the file of a clean URL (without `.html` or `index.html`) among the files that were found by walking.
    fn find_clean(&self, path: &str, from_markdown: bool) -> Option<PathTarget> {
        let folder = path.trim_end_matches('/');
        let mut name = String::with_capacity(path.len() + LONGEST_INDEX_PAGE.len());
        let mut file = |base: &str, ending: &str| {
            name.clear();
            name.push_str(base);
            name.push_str(ending);
            self.index.get(name.as_str()).copied()
        };
        let page =
            if path.ends_with('/') { None } else { extensions(from_markdown).find_map(|ending| file(path, ending)) };
        if !self.folders.contains(folder) {
            return page.map(PathTarget::File);
        }
        let index = index_pages(from_markdown).find_map(|ending| file(folder, ending));
        Some(index.or(page).map_or(PathTarget::Folder, PathTarget::File))
    }

    /// Looks a path up in the file system, once per path and kind of document.
    fn find_outside(&self, path: &str, from_markdown: bool) -> Option<PathTarget> {
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = outside.targets[usize::from(from_markdown)].get(path) {
            return *known;
        }
        let target = self.find_on_disk(path, from_markdown, &mut outside);
        outside.targets[usize::from(from_markdown)].insert(path.into(), target);
        target
    }

    /// Finds the file of a path, which may be a clean URL, in the file system.
    fn find_on_disk(&self, path: &str, from_markdown: bool, outside: &mut OutsideFiles) -> Option<PathTarget> {
        let metadata = fs::metadata(path).ok();
        if let Some(metadata) = &metadata
            && metadata.is_file()
        {
            return self.add_outside(path, metadata.len(), outside);
        }
        let is_folder = metadata.is_some_and(|metadata| metadata.is_dir());
        let folder = path.trim_end_matches('/');
        let candidates: Vec<String> = if is_folder {
            index_pages(from_markdown).map(|ending| format!("{folder}{ending}")).collect()
        } else if path.ends_with('/') {
            Vec::new()
        } else {
            extensions(from_markdown).map(|ending| format!("{path}{ending}")).collect()
        };
        let file = candidates.iter().find_map(|candidate| {
            let metadata = fs::metadata(candidate).ok().filter(fs::Metadata::is_file)?;
            self.add_outside(candidate, metadata.len(), outside)
        });
        file.or(is_folder.then_some(PathTarget::Folder))
    }

    /// Adds a file that walking did not find, unless it is known.
    fn add_outside(&self, path: &str, size: u64, outside: &mut OutsideFiles) -> Option<PathTarget> {
        if let Some(&id) = self.index.get(path) {
            return Some(PathTarget::File(id));
        }
        if let Some(&id) = outside.index.get(path) {
            return Some(PathTarget::File(id));
        }
        let id = FileId::try_from(self.entries.len() + outside.entries.len()).ok()?;
        // A file that is reached through a refused folder is not read either.
        let is_below = |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let is_refused = self.refused_folders.iter().any(|(folder, _)| is_below(folder));
        let kind = DocumentType::of_name(path).filter(|_| !is_refused);
        let path_copy = path.to_owned();
        outside.entries.push(FileEntry { path: path_copy, raw_path: None, kind, size, source: 0, refusal: None });
        outside.index.insert(path.into(), id);
        Some(PathTarget::File(id))
    }
}

/// The folders that symbolic links may lead to, without symbolic links in their own paths.
struct AllowedPaths(Vec<PathBuf>);

impl AllowedPaths {
    fn new<'a>(paths: impl Iterator<Item = &'a Path>) -> Self {
        Self(paths.filter_map(|path| path.canonicalize().ok()).collect())
    }

    /// Whether a path leads to a file or folder below one of the allowed paths.
    fn contains(&self, path: &Path) -> bool {
        path.canonicalize().is_ok_and(|target| self.0.iter().any(|allowed| target.starts_with(allowed)))
    }
}

/// Why a document must not be read; `None` if it may be.
pub(super) fn refusal(metadata: &fs::Metadata, is_inside: bool) -> Option<&'static str> {
    if !is_inside {
        Some("not read: the symbolic link leads out of the folder")
    } else if !metadata.is_file() {
        Some("not read: it is not a regular file")
    } else if metadata.len() > MAX_DOCUMENT {
        Some("not read: it is larger than 64 MiB")
    } else {
        None
    }
}

/// The extensions that clean URLs omit.
fn extensions(from_markdown: bool) -> impl Iterator<Item = &'static str> {
    let markdown: &[&str] = if from_markdown { &[".md"] } else { &[] };
    [".html", ".htm"].into_iter().chain(markdown.iter().copied())
}

/// The index pages of a folder.
fn index_pages(from_markdown: bool) -> impl Iterator<Item = &'static str> {
    let markdown: &[&str] = if from_markdown { &["/README.md", "/index.md", "/_index.md"] } else { &[] };
    ["/index.html", "/index.htm", LONGEST_INDEX_PAGE].into_iter().chain(markdown.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_url_is_found_as_a_page_or_an_index_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("public");
        for file in ["public/index.html", "public/page.html", "public/dir/index.html", "public/empty/x.png", "out.html"]
        {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "x").expect("a file");
        }
        let mut tree = FileTree::walk(std::slice::from_ref(&root), None);
        assert_eq!(tree.entries().len(), 4);
        let name = |target: Option<PathTarget>| match target {
            None => "missing".to_owned(),
            Some(PathTarget::Folder) => "folder".to_owned(),
            Some(PathTarget::File(id)) => match tree.entries().get(id as usize) {
                Some(entry) => entry.path.rsplit('/').take(2).collect::<Vec<_>>().join(" of "),
                None => "outside".to_owned(),
            },
        };
        let find = |path: &str| name(tree.find(&format!("{}{path}", root.display()), false));
        assert_eq!(find(""), "index.html of public");
        assert_eq!(find("/"), "index.html of public");
        assert_eq!(find("/page"), "page.html of public");
        assert_eq!(find("/page.html"), "page.html of public");
        assert_eq!(find("/page/"), "missing");
        assert_eq!(find("/dir"), "index.html of dir");
        assert_eq!(find("/dir/"), "index.html of dir");
        assert_eq!(find("/empty/"), "folder");
        assert_eq!(find("/PAGE.html"), "missing");
        assert_eq!(name(tree.find(&format!("{}/out.html", folder.path().display()), false)), "outside");
        assert_eq!(tree.outside().len(), 1);
    }

    #[test]
    fn a_path_outside_is_looked_up_separately_for_html_and_markdown() {
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["public/index.html", "docs/README.md", "page.md"] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "x").expect("a file");
        }
        // The answers must not depend on which kind of document asks first.
        for order in [[false, true], [true, false]] {
            let mut tree = FileTree::walk(&[folder.path().join("public")], None);
            for from_markdown in order {
                let find = |path: &str| tree.find(&format!("{}/{path}", folder.path().display()), from_markdown);
                let (page, docs) = (find("page"), find("docs"));
                if from_markdown {
                    assert!(matches!(page, Some(PathTarget::File(_))), "{page:?}");
                    assert!(matches!(docs, Some(PathTarget::File(_))), "{docs:?}");
                    assert_eq!((page, docs), (find("page.md"), find("docs/README.md")));
                } else {
                    assert_eq!((page, docs), (None, Some(PathTarget::Folder)));
                }
            }
            assert_eq!(tree.outside().len(), 2);
        }
    }
}
