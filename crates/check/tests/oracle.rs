//! Real documentation is checked by this crate and by an independent oracle: html5ever builds a tree of each page, the
//! `url` crate resolves its references, and the file system shows which files exist. Both must find the same faults.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use argiope_check::{CheckOptions, CheckProgress, FolderCheck, RemoteFaults, Verdict};
use html5ever::interface::{ElemName, ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{Attribute, LocalName, Namespace, ParseOpts, QualName, parse_document};
use url::Url;

/// Page, kind and target of a fault.
type OracleFault = (String, &'static str, String);

/// The name of an element as a copy, because a `RefCell` cannot lend it.
#[derive(Debug)]
struct OwnedName(QualName);

impl ElemName for OwnedName {
    fn ns(&self) -> &Namespace {
        &self.0.ns
    }

    fn local_name(&self) -> &LocalName {
        &self.0.local
    }
}

struct Node {
    name: QualName,
    attributes: HashMap<String, String>,
    parent: Option<usize>,
    /// Every node that was ever a child. Nodes that were moved are still here; their `parent` differs.
    children: Vec<usize>,
    /// The root of a template's content, which has no parent.
    content: Option<usize>,
}

/// A tree of elements, without text and comments.
#[derive(Default)]
struct Tree(RefCell<Vec<Node>>);

impl Tree {
    fn add(&self, name: QualName, attributes: HashMap<String, String>) -> usize {
        let mut nodes = self.0.borrow_mut();
        nodes.push(Node { name, attributes, parent: None, children: Vec::new(), content: None });
        nodes.len() - 1
    }

    /// Adds a node without a name: the document, the content of a template, or a comment.
    fn nameless(&self) -> usize {
        self.add(QualName::new(None, Namespace::from(""), LocalName::from("")), HashMap::new())
    }

    fn set_parent(&self, child: NodeOrText<usize>, parent: Option<usize>) {
        if let NodeOrText::AppendNode(child) = child {
            let mut nodes = self.0.borrow_mut();
            nodes[child].parent = parent;
            if let Some(parent) = parent {
                nodes[parent].children.push(child);
            }
        }
    }
}

/// Attributes by name, with the prefix of the namespace.
fn attribute_map(attributes: Vec<Attribute>) -> HashMap<String, String> {
    let name = |attribute: &Attribute| match &attribute.name.prefix {
        Some(prefix) => format!("{prefix}:{}", attribute.name.local),
        None => attribute.name.local.to_string(),
    };
    attributes.into_iter().map(|attribute| (name(&attribute), attribute.value.to_string())).collect()
}

impl TreeSink for Tree {
    type Handle = usize;
    type Output = Vec<Node>;
    type ElemName<'a> = OwnedName;

    fn finish(self) -> Vec<Node> {
        self.0.into_inner()
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> usize {
        if self.0.borrow().is_empty() {
            self.nameless();
        }
        0
    }

    fn elem_name<'a>(&'a self, target: &'a usize) -> OwnedName {
        OwnedName(self.0.borrow()[*target].name.clone())
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, flags: ElementFlags) -> usize {
        self.get_document();
        let node = self.add(name, attribute_map(attributes));
        if flags.template {
            let content = self.nameless();
            self.0.borrow_mut()[node].content = Some(content);
        }
        node
    }

    fn create_comment(&self, _: StrTendril) -> usize {
        self.get_document();
        self.nameless()
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> usize {
        self.get_document();
        self.nameless()
    }

    fn append(&self, parent: &usize, child: NodeOrText<usize>) {
        self.set_parent(child, Some(*parent));
    }

    fn append_based_on_parent_node(&self, element: &usize, before: &usize, child: NodeOrText<usize>) {
        let parent = self.0.borrow()[*element].parent.unwrap_or(*before);
        self.set_parent(child, Some(parent));
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &usize) -> usize {
        self.0.borrow()[*target].content.unwrap_or(*target)
    }

    fn same_node(&self, x: &usize, y: &usize) -> bool {
        x == y
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &usize, node: NodeOrText<usize>) {
        let parent = self.0.borrow()[*sibling].parent;
        self.set_parent(node, parent);
    }

    fn add_attrs_if_missing(&self, target: &usize, attributes: Vec<Attribute>) {
        let node = &mut self.0.borrow_mut()[*target];
        for (name, value) in attribute_map(attributes) {
            node.attributes.entry(name).or_insert(value);
        }
    }

    fn remove_from_parent(&self, target: &usize) {
        self.0.borrow_mut()[*target].parent = None;
    }

    fn reparent_children(&self, node: &usize, parent: &usize) {
        let mut nodes = self.0.borrow_mut();
        let mut children = std::mem::take(&mut nodes[*node].children);
        children.retain(|child| nodes[*child].parent == Some(*node));
        for child in &children {
            nodes[*child].parent = Some(*parent);
        }
        nodes[*parent].children.append(&mut children);
    }
}

/// The oracle's view of a page.
#[derive(Default)]
struct OraclePage {
    ids: BTreeSet<String>,
    references: Vec<String>,
    base: Option<String>,
}

impl OraclePage {
    fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).expect("a page");
        let options = ParseOpts {
            tree_builder: html5ever::tree_builder::TreeBuilderOpts { scripting_enabled: false, ..Default::default() },
            ..ParseOpts::default()
        };
        let nodes = parse_document(Tree::default(), options).one(StrTendril::from(&*String::from_utf8_lossy(&bytes)));
        let mut is_in_document = vec![false; nodes.len()];
        let mut todo = vec![0];
        while let Some(node) = todo.pop() {
            is_in_document[node] = true;
            todo.extend(nodes[node].children.iter().filter(|child| nodes[**child].parent == Some(node)));
        }
        let mut page = Self::default();
        for (node, is_in_document) in nodes.iter().zip(is_in_document) {
            if is_in_document {
                page.add(&node.name.local, &node.attributes);
            }
        }
        page
    }

    fn add(&mut self, element: &str, attributes: &HashMap<String, String>) {
        let value = |name: &str| attributes.get(name).cloned();
        let not_blank = |name: &str| value(name).filter(|value| !value.trim().is_empty());
        self.ids.extend(value("id").filter(|id| !id.is_empty()));
        if element == "a" {
            self.ids.extend(value("name").filter(|name| !name.is_empty()));
        }
        let rel = value("rel").unwrap_or_default().to_lowercase();
        let references = match element {
            "a" | "area" => vec![value("href").or_else(|| value("xlink:href"))],
            "link" if rel.split_whitespace().any(|word| word == "preconnect" || word == "dns-prefetch") => vec![],
            "link" => vec![not_blank("href")],
            "img" | "source" => vec![not_blank("src"), not_blank("data-src")],
            "script" | "iframe" | "frame" | "embed" | "audio" | "track" => {
                vec![not_blank("src"), not_blank("data-src")]
            }
            "video" => vec![not_blank("src"), not_blank("poster")],
            "object" => vec![not_blank("data")],
            "input" if value("type").is_some_and(|kind| kind.eq_ignore_ascii_case("image")) => vec![not_blank("src")],
            "body" => vec![not_blank("background")],
            "use" | "image" | "feImage" => vec![not_blank("href").or_else(|| not_blank("xlink:href"))],
            "meta" if value("http-equiv").is_some_and(|pragma| pragma.eq_ignore_ascii_case("refresh")) => {
                let content = value("content").unwrap_or_default();
                // `0; url=page` or `0; page`.
                let target = content.split_once([';', ',']).map(|(_, target)| {
                    let target = target.trim();
                    let named = target.split_once('=').filter(|(name, _)| name.trim().eq_ignore_ascii_case("url"));
                    named.map_or(target, |(_, target)| target).trim().trim_matches(['"', '\'']).to_owned()
                });
                vec![target]
            }
            "base" if self.base.is_none() => {
                self.base = value("href");
                vec![]
            }
            _ => vec![],
        };
        self.references.extend(references.into_iter().flatten());
        for set in [value("srcset"), value("data-srcset"), value("imagesrcset")].into_iter().flatten() {
            let sources = set.split(',').filter_map(|source| source.split_whitespace().next());
            self.references.extend(sources.map(str::to_owned));
        }
    }
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if path.is_dir() {
                todo.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "html" || extension == "htm")
}

/// Whether a path is a folder, and the page that it leads to.
fn page_of(path: &Path, has_slash: bool) -> (bool, Option<PathBuf>) {
    let with = |end: &&str| PathBuf::from(format!("{}{end}", path.display()));
    let is_folder = path.is_dir();
    let ends: &[&str] = match (is_folder, has_slash) {
        (true, _) => &["/index.html", "/index.htm", "/index.xhtml"],
        (false, false) => &["", ".html", ".htm"],
        (false, true) => &[],
    };
    (is_folder, ends.iter().map(with).find(|path| path.is_file()))
}

/// The faults that the oracle finds in a folder, and the number of references in each of its subfolders.
fn oracle(folder: &Path) -> (BTreeSet<OracleFault>, BTreeMap<PathBuf, u64>) {
    let paths: Vec<PathBuf> = files(folder).into_iter().filter(|path| is_page(path)).collect();
    let pages: HashMap<PathBuf, OraclePage> = paths.iter().map(|path| (path.clone(), OraclePage::read(path))).collect();
    let mut path_targets: HashMap<String, (bool, Option<PathBuf>)> = HashMap::new();
    let mut faults = BTreeSet::new();
    let mut counts = BTreeMap::new();
    for (path, page) in &pages {
        *counts.entry(path.parent().expect("a folder").to_owned()).or_default() += page.references.len() as u64;
        let own = Url::from_file_path(path).expect("an absolute path");
        // The checked folder is the root of the site.
        let rooted = |href: &str| match href.strip_prefix('/') {
            Some(rest) if !rest.starts_with('/') => format!("{}/{rest}", folder.display()),
            _ => href.to_owned(),
        };
        let base = page.base.as_ref().and_then(|base| own.join(&rooted(base)).ok()).unwrap_or_else(|| own.clone());
        for href in &page.references {
            let name = path.display().to_string();
            let has_scheme = href.trim().split_once(':').is_some_and(|(scheme, _)| {
                scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                    && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            });
            if has_scheme || href.trim().starts_with("//") {
                let is_web = href.trim().starts_with("http") || href.trim().starts_with("//");
                let absolute = href.trim().replace("//", "https://");
                let target =
                    if href.trim().starts_with("//") { Url::parse(&absolute) } else { Url::parse(href.trim()) };
                if (is_web && target.is_err()) || href.trim().starts_with("file:") {
                    faults.insert((name, "malformed", href.trim().to_owned()));
                }
                continue;
            }
            let Ok(mut target) = base.join(rooted(href.trim()).as_str()) else {
                faults.insert((name, "malformed", href.trim().to_owned()));
                continue;
            };
            if target.scheme() != "file" {
                continue;
            }
            let fragment = target.fragment().map(str::to_owned);
            target.set_fragment(None);
            target.set_query(None);
            let file = target.to_file_path().expect("a path");
            let slash = if target.path().ends_with('/') && !file.to_string_lossy().ends_with('/') { "/" } else { "" };
            let shown = format!("{}{slash}", file.display());
            let (is_folder, found) =
                path_targets.entry(shown.clone()).or_insert_with(|| page_of(&file, !slash.is_empty()));
            match (found.as_ref(), fragment) {
                (None, _) if *is_folder => {}
                (None, _) => {
                    faults.insert((name, "missing_file", shown));
                }
                (Some(found), Some(fragment)) => {
                    let fragment = fragment.split(":~:").next().unwrap_or_default();
                    let decoded = percent_encoding::percent_decode_str(fragment).decode_utf8_lossy().into_owned();
                    let Some(page) = pages.get(found) else { continue };
                    let is_good = fragment.is_empty()
                        || decoded.eq_ignore_ascii_case("top")
                        || page.ids.contains(fragment)
                        || page.ids.contains(&decoded);
                    if !is_good && !decoded.starts_with(['/', '!']) {
                        faults.insert((name, "fragment", format!("{shown}#{decoded}")));
                    }
                }
                (Some(_), None) => {}
            }
        }
    }
    (faults, counts)
}

/// Checks a folder, and asserts that the result is that of the oracle.
fn compare(folder: &str) {
    let folder = std::fs::canonicalize(folder).expect("the documentation is installed");
    let (expected, counts) = oracle(&folder);
    let options = CheckOptions { external: false, ..CheckOptions::default() };
    let check = FolderCheck::scan(&[folder], &options, &CheckProgress::default()).expect("a folder");
    let report = check.finish(&RemoteFaults::default());
    // An incomplete installation has fewer pages.
    assert!(report.summary.pages > 100, "{:?}", report.summary);
    let found: BTreeSet<OracleFault> = report
        .findings
        .iter()
        .filter(|finding| finding.fault.verdict == Verdict::Broken)
        // The syntax of mail addresses has its own tests.
        .filter(|finding| !finding.url.starts_with("mailto:"))
        .flat_map(|finding| {
            finding.on.iter().map(|on| (on.page.clone(), finding.fault.kind.as_str(), finding.url.clone()))
        })
        .collect();
    let missed: Vec<_> = expected.difference(&found).take(20).collect();
    let unexpected: Vec<_> = found.difference(&expected).take(20).collect();
    assert!(missed.is_empty() && unexpected.is_empty(), "missed: {missed:#?}\ninvented: {unexpected:#?}");
    if report.summary.links == counts.values().sum::<u64>() {
        return;
    }
    // The totals differ: find a page on which the check and the oracle count a different number of references.
    for (folder, count) in counts {
        let pages = std::fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path());
        let pages: Vec<PathBuf> = pages.filter(|path| path.is_file() && is_page(path)).collect();
        let links = |pages: &[PathBuf]| {
            let options = CheckOptions { external: false, fragments: false, ..CheckOptions::default() };
            FolderCheck::scan(pages, &options, &CheckProgress::default()).expect("a folder").links()
        };
        if links(&pages) != count {
            for page in pages {
                let (seen, expected) = (links(std::slice::from_ref(&page)), OraclePage::read(&page).references.len());
                assert_eq!(seen, expected as u64, "references of {}", page.display());
            }
        }
    }
    panic!("the numbers of references differ");
}

#[test]
#[ignore = "needs python-doc"]
fn the_check_of_the_python_documentation_agrees_with_the_oracle() {
    compare("/usr/share/doc/python3-doc/html");
}

#[test]
#[ignore = "needs cmake-doc"]
fn the_check_of_the_cmake_documentation_agrees_with_the_oracle() {
    compare("/usr/share/doc/cmake-doc/html");
}

#[test]
#[ignore = "needs postgresql-doc"]
fn the_check_of_the_postgresql_documentation_agrees_with_the_oracle() {
    let folder =
        std::fs::read_dir("/usr/share/doc").expect("a folder").flatten().map(|entry| entry.path().join("html"));
    let mut folders = folder.filter(|path| path.display().to_string().contains("/postgresql-doc-") && path.is_dir());
    compare(&folders.next().expect("the documentation is installed").display().to_string());
}

#[test]
#[ignore = "needs openjdk-doc, long"]
fn the_check_of_the_openjdk_documentation_agrees_with_the_oracle() {
    compare("/usr/share/doc/openjdk-17-doc/api");
}
