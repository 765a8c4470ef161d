//! [`ModuleGraph`]: the modules of a crate, and which module uses which, computed from the sources.
//!
//! A path such as `crate::a::b::Item` is an edge to the module that it leads to, through re-exports. Edges are compared
//! between siblings: an edge from `a::x` to `b::y` makes `a` depend on `b`. A module may use its own parent and its own
//! children.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{code, imports, is_name, paths, root, tokens};

/// The path of a module in its crate; empty for the root.
type ModulePath = Vec<String>;

/// How many re-exports a path may lead through.
const MAX_HOPS: usize = 8;

/// The modules of a crate, and which of them use which.
pub struct ModuleGraph {
    modules: BTreeMap<ModulePath, Module>,
}

struct Module {
    /// The path of the file in the project.
    file: String,
    /// Every path that the code names, with imported names written in full.
    paths: BTreeSet<String>,
    /// The names that the module imports or re-exports, with their paths.
    imports: BTreeMap<String, String>,
}

/// A use of one module by another, between siblings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The name of the sibling that contains the use.
    pub from: String,
    /// The name of the sibling that is used.
    pub to: String,
    /// The file and the path that it names.
    pub place: String,
}

impl ModuleGraph {
    /// The modules that the file `root_file` of a crate declares, except those of tests.
    pub fn of(root_file: &str) -> Self {
        let mut graph = Self { modules: BTreeMap::new() };
        graph.add(root_file, Vec::new());
        graph
    }

    /// Adds a module and those that it declares.
    fn add(&mut self, file: &str, path: ModulePath) {
        let text = std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let code = code(&text);
        for name in declared(&code) {
            let child = [path.as_slice(), &[name]].concat();
            let file = file_of(file, &child);
            self.add(&file, child);
        }
        let imports = imports(&code).into_iter().map(|(name, path)| (name.to_owned(), path)).collect();
        self.modules.insert(path, Module { file: file.to_owned(), paths: paths(&code), imports });
    }

    /// The module that a path leads to, as seen from the module `from`; `None` if it leads out of the crate.
    fn resolve(&self, from: &[String], path: &str, hops: usize) -> Option<ModulePath> {
        let mut parts: Vec<&str> = path.split("::").collect();
        let mut at = from.to_vec();
        match *parts.first()? {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                while parts.get(1) == Some(&"super") {
                    parts.remove(0);
                    at.pop();
                }
                at.pop();
            }
            name if self.child(&at, name).is_some() => parts.insert(0, "self"),
            _ => return None,
        }
        for (index, name) in parts.iter().enumerate().skip(1) {
            if let Some(child) = self.child(&at, name) {
                at = child;
                continue;
            }
            let import = self.modules.get(&at).and_then(|module| module.imports.get(*name));
            if let Some(import) = import.filter(|_| hops < MAX_HOPS) {
                let rest: Vec<&str> =
                    std::iter::once(import.as_str()).chain(parts.iter().skip(index + 1).copied()).collect();
                return self.resolve(&at, &rest.join("::"), hops + 1).or(Some(at));
            }
            break;
        }
        Some(at)
    }

    fn child(&self, module: &[String], name: &str) -> Option<ModulePath> {
        let child = [module, &[name.to_owned()]].concat();
        self.modules.contains_key(&child).then_some(child)
    }

    /// The uses between the children of each module, by the path of that module.
    pub fn edges(&self) -> BTreeMap<String, BTreeSet<Edge>> {
        let mut edges: BTreeMap<String, BTreeSet<Edge>> = BTreeMap::new();
        for (from, module) in &self.modules {
            for path in &module.paths {
                let Some(to) = self.resolve(from, path, 0) else { continue };
                let common = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
                if let (Some(from_name), Some(to_name)) = (from.get(common), to.get(common)) {
                    let place = format!("{} uses {path}", module.file);
                    let edge = Edge { from: from_name.clone(), to: to_name.clone(), place };
                    edges.entry(from[..common].join("::")).or_default().insert(edge);
                }
            }
        }
        edges
    }

    /// The groups of siblings that use each other in a cycle, by the path of their parent.
    pub fn cycles(&self) -> BTreeMap<(String, BTreeSet<String>), BTreeSet<Edge>> {
        let mut cycles = BTreeMap::new();
        for (parent, edges) in self.edges() {
            let names: BTreeSet<&str> = edges.iter().map(|edge| edge.from.as_str()).collect();
            for name in names {
                let reached = reachable(&edges, name, |edge| (&edge.from, &edge.to));
                let reaching = reachable(&edges, name, |edge| (&edge.to, &edge.from));
                let group: BTreeSet<String> = reached.intersection(&reaching).map(|name| (*name).to_owned()).collect();
                if group.len() > 1 {
                    let is_inside = |edge: &&Edge| group.contains(&edge.from) && group.contains(&edge.to);
                    let inside = edges.iter().filter(is_inside).cloned().collect();
                    cycles.insert((parent.clone(), group), inside);
                }
            }
        }
        cycles
    }
}

/// The siblings that can be reached from one of them, itself included.
fn reachable<'a>(
    edges: &'a BTreeSet<Edge>,
    start: &'a str,
    ends: impl Fn(&'a Edge) -> (&'a String, &'a String),
) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::from([start]);
    let mut open = vec![start];
    while let Some(name) = open.pop() {
        for (from, to) in edges.iter().map(&ends) {
            if from == name && reached.insert(to) {
                open.push(to);
            }
        }
    }
    reached
}

/// The names of the modules that some code declares as files of their own.
fn declared(code: &str) -> Vec<String> {
    let tokens = tokens(code);
    let declarations = tokens.windows(3).filter(|window| window[0] == "mod" && is_name(window[1]) && window[2] == ";");
    declarations.map(|window| window[1].to_owned()).collect()
}

/// The file of a module that the file `parent` declares.
fn file_of(parent: &str, path: &[String]) -> String {
    let (folder, stem) = parent.rsplit_once('/').expect("a file in a folder");
    let stem = stem.trim_end_matches(".rs");
    let folder = if ["mod", "lib", "main"].contains(&stem) { folder.to_owned() } else { format!("{folder}/{stem}") };
    let name = path.last().expect("a declared module has a name");
    let file = format!("{folder}/{name}.rs");
    if Path::new(&root().join(&file)).exists() { file } else { format!("{folder}/{name}/mod.rs") }
}
