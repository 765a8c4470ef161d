//! Tests of the rules in ARCHITECTURE.md.

mod module_graph;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use module_graph::{Edge, ModuleGraph};

/// The source folders of the crawler itself, without the servers (practice web, dashboard).
const CRAWLER: [&str; 11] = [
    "crates/core/src",
    "crates/browser/src",
    "crates/engine/src",
    "crates/store/src",
    "crates/fleet/src",
    "crates/content/src",
    "crates/runtime/src",
    "crates/argiope/src",
    "crates/check/src",
    "crates/cli/src",
    "crates/exhibition/src",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Maps each package in the dependency tree of `package` to its licence. The tree includes `package` itself, and not
/// its development dependencies.
fn dependency_tree(package: &str) -> BTreeMap<String, String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--offline",
            "-e",
            "normal,build",
            "--prefix",
            "none",
            "--format",
            "{p}|{l}",
            "-p",
            package,
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    text.lines()
        .filter_map(|line| line.split_once('|'))
        .map(|(package, licence)| {
            let name = package.split(' ').next().unwrap_or_default();
            // Cargo marks a package that it has listed before with ` (*)`.
            (name.to_owned(), licence.trim_end_matches(" (*)").to_owned())
        })
        .collect()
}

/// Every source file below `folder`: its path in the project, and its text.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the project").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("source is UTF-8");
                let name = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
                files.push((name, text));
            }
        }
    }
    files.sort();
    files
}

/// The code of a file without comments and without the items that only tests compile.
///
/// An item ends at the first line that is indented like its attribute and ends with `}`, `;` or `,`. This is true of
/// code that rustfmt has formatted.
fn code(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut kept = Vec::new();
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    while let Some(line) = lines.next() {
        if !["#[cfg(test)]", "#[cfg(all(test,"].iter().any(|attribute| line.trim_start().starts_with(attribute)) {
            kept.push(line);
            continue;
        }
        let is_end = |item: &&str| indent(item) == indent(line) && item.ends_with(['}', ';', ',']);
        lines.by_ref().find(is_end);
    }
    kept.join("\n")
}

/// Every path that the code names, from the crate on. For `use tokio::{net, time};` and a later `net::TcpStream`, these
/// are `tokio::net`, `tokio::time` and `tokio::net::TcpStream`.
fn paths(code: &str) -> BTreeSet<String> {
    let tokens = tokens(code);
    let mut rest = &tokens[..];
    let mut inline = Vec::new();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == "use" {
            imported_paths(&mut rest, &[], &mut Vec::new());
        } else if is_name(first) {
            let mut path = vec![*first];
            while let ["::", name, after @ ..] = rest
                && is_name(name)
            {
                path.push(name);
                rest = after;
            }
            inline.push(path);
        }
    }
    let imports = imports(code);
    let names: BTreeMap<&str, &str> = imports.iter().map(|(name, path)| (*name, path.as_str())).collect();
    let full = inline.into_iter().filter(|path| path.len() > 1).map(|mut path| {
        path[0] = names.get(path[0]).unwrap_or(&path[0]);
        path.join("::")
    });
    full.chain(imports.iter().map(|(_, path)| path.clone())).collect()
}

/// The names that the code imports, each with its path.
fn imports(code: &str) -> Vec<(&str, String)> {
    let tokens = tokens(code);
    let mut rest = &tokens[..];
    let mut imports = Vec::new();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == "use" {
            imported_paths(&mut rest, &[], &mut imports);
        }
    }
    imports
}

/// Reads the tree of one `use` declaration below `prefix`. Adds each imported path with the name that it gets in the
/// file.
fn imported_paths<'a>(tokens: &mut &[&'a str], prefix: &[&'a str], imports: &mut Vec<(&'a str, String)>) {
    let mut path = prefix.to_vec();
    let mut name = None;
    while let Some((token, rest)) = tokens.split_first() {
        match *token {
            "," | "}" | ";" => break,
            "{" => {
                *tokens = rest;
                loop {
                    imported_paths(tokens, &path, imports);
                    let Some((end, rest)) = tokens.split_first() else { return };
                    if *end != ";" {
                        *tokens = rest;
                    }
                    if *end != "," {
                        return;
                    }
                }
            }
            "as" => name = rest.first().copied(),
            "self" if !path.is_empty() => {}
            part if name.is_none() && (is_name(part) || part == "*") => path.push(part),
            _ => {}
        }
        *tokens = rest;
    }
    if let Some(last) = path.last() {
        imports.push((name.unwrap_or(last), path.join("::")));
    }
}

/// The names, the `::` and the other characters of some code, without white space.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let name = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let length = if name > 0 {
            name
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Whether one of the paths is `module` or below it. A glob import above `module` counts too.
fn uses(paths: &BTreeSet<String>, module: &str) -> bool {
    paths.iter().any(|path| {
        let is_below = path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        is_below || path.strip_suffix('*').is_some_and(|above| !above.is_empty() && module.starts_with(above))
    })
}

/// The files below these folders, other than tests and examples, whose code uses this crate or module.
fn files_using(folders: &[&str], module: &str) -> Vec<String> {
    let all = folders.iter().flat_map(|folder| sources(folder));
    let is_test = |name: &str| name.ends_with("tests.rs") || name.contains("/tests/") || name.contains("/examples/");
    all.filter(|(name, text)| !is_test(name) && uses(&paths(&code(text)), module)).map(|(name, _)| name).collect()
}

#[test]
fn paths_are_found_in_any_form_of_use() {
    let found = |code: &str, module: &str| uses(&paths(code), module);
    for code in [
        "use tokio::net::TcpStream;",
        "use tokio::{net::TcpStream, time};",
        "use tokio::{time, net::{self, TcpListener}};",
        "use ::tokio::net as sockets;",
        "use tokio as runtime;\nfn f(s: runtime::net::TcpStream) {}",
        "use tokio::*;",
        "fn f() { tokio::net::lookup_host(\"a\"); }",
    ] {
        assert!(found(code, "tokio::net"), "{code}: {:?}", paths(code));
    }
    for code in
        ["use tokio::{time, task};", "use crate::tokio::net;", "use tokio::network;", "use super::*;", "let tokio = 1;"]
    {
        assert!(!found(code, "tokio::net"), "{code}: {:?}", paths(code));
    }
    let nested = "use rustix::{event::{epoll::{self, Event}, PollFd}, net};\nuse std::io;";
    assert!(found(nested, "rustix::event::epoll") && found(nested, "rustix::net") && found(nested, "std::io"));
}

#[test]
fn only_the_items_of_tests_are_left_out() {
    let text = "#[cfg(test)]\nmod stream_tests;\nuse a::A;\n#[cfg(test)]\n#[allow(unused)]\nfn f(\n    x: u8,\n) -> u8 {\n    \
                x\n}\nimpl A {\n    #[cfg(test)]\n    fn g() {\n        b::c()\n    }\n    fn h() {}\n}\n#[cfg(test)]\nmod tests \
                {\n    use d::E;\n}\nuse e::F;";
    assert_eq!(code(text), "use a::A;\nimpl A {\n    fn h() {}\n}\nuse e::F;");
}

#[test]
fn the_core_has_no_runtime_in_its_dependency_tree() {
    let tree = dependency_tree("argiope-core");
    for banned in ["tokio", "mio", "rustix", "redis", "async-io", "polling", "socket2"] {
        assert!(!tree.contains_key(banned), "argiope-core depends on {banned}");
    }
}

#[test]
fn engine_and_store_do_not_depend_on_each_other() {
    assert!(!dependency_tree("argiope-engine").contains_key("argiope-store"));
    assert!(!dependency_tree("argiope-store").contains_key("argiope-engine"));
    let fleet = dependency_tree("argiope-fleet");
    assert!(fleet.contains_key("argiope-store") && !fleet.contains_key("argiope-engine"), "{fleet:?}");
    let core = dependency_tree("argiope-core");
    assert!(core.keys().all(|name| !name.starts_with("argiope-") || name == "argiope-core"), "{core:?}");
}

/// The layers of the core. Each may use those before it.
const LAYERS: [&str; 5] = ["base", "http", "page", "render", "crawl"];

#[test]
fn each_layer_of_the_core_uses_only_those_below_it() {
    let edges = ModuleGraph::of("crates/core/src/lib.rs").edges();
    let layer = |name: &str| LAYERS.iter().position(|layer| *layer == name).expect("a layer of the core");
    let (upward, downward): (Vec<&Edge>, Vec<&Edge>) =
        edges[""].iter().partition(|edge| layer(&edge.from) < layer(&edge.to));
    assert!(downward.len() > 300, "only {} uses: has the layout changed?", downward.len());
    assert!(upward.is_empty(), "the order of the layers is {LAYERS:?}: {upward:#?}");
}

#[test]
fn no_modules_of_a_crate_use_each_other_in_a_cycle() {
    let mut cycles: Vec<String> = Vec::new();
    for (file, _) in sources("crates").into_iter().chain(sources("bench/rigs")) {
        if !file.ends_with("/src/lib.rs") && !file.ends_with("/src/main.rs") {
            continue;
        }
        for ((parent, group), edges) in ModuleGraph::of(&file).cycles() {
            cycles.push(format!("{file}, {parent}: {group:?}: {edges:#?}"));
        }
    }
    assert!(cycles.is_empty(), "these modules use each other in a cycle:\n{}", cycles.join("\n"));
}

/// `cargo add argiope` brings nothing that only the command and the tests need (docs/decisions/0007).
#[test]
fn the_library_does_not_depend_on_parts_of_the_command() {
    let tree = dependency_tree("argiope");
    assert!(tree.contains_key("argiope-runtime"), "{tree:?}");
    for banned in [
        "clap",
        "parquet",
        "console",
        "signal-hook",
        "axum",
        "rcgen",
        "redis",
        "object_store",
        "argiope-fleet",
        "argiope-cli",
        "argiope-check",
        "argiope-dashboard",
        "argiope-exhibition",
        "argiope-practice",
    ] {
        assert!(!tree.contains_key(banned), "argiope depends on {banned}");
    }
}

#[test]
fn only_the_runtime_uses_both_engine_and_store() {
    let stores = files_using(&CRAWLER, "argiope_store");
    let engines = files_using(&CRAWLER, "argiope_engine");
    let both: Vec<&String> = engines.iter().filter(|name| stores.contains(name)).collect();
    assert!(!both.is_empty() && both.iter().all(|file| file.starts_with("crates/runtime/src/")), "{both:?}");
}

/// A public type name has one definition in the workspace, so that a search finds it. No type that is visible in a
/// crate or a module has the name of a public one.
#[test]
fn a_public_type_name_is_defined_once_in_the_workspace() {
    // Each name with the files that define it, and whether one of them defines it as public.
    let mut places: BTreeMap<String, (Vec<String>, bool)> = BTreeMap::new();
    for (file, text) in sources("crates").into_iter().chain(sources("bench/rigs")) {
        if !file.contains("/src/") || file.ends_with("tests.rs") {
            continue;
        }
        for line in code(&text).lines() {
            let line = line.trim_start();
            let restricted = line.strip_prefix("pub(").and_then(|rest| rest.split_once(") "));
            let Some(item) = line.strip_prefix("pub ").or(restricted.map(|(_, item)| item)) else { continue };
            let mut words = item.split(|c: char| !c.is_alphanumeric() && c != '_');
            if matches!(words.next(), Some("struct" | "enum" | "trait" | "type" | "union"))
                && let Some(name) = words.next().filter(|name| !name.is_empty())
            {
                let (files, has_public) = places.entry(name.to_owned()).or_default();
                files.push(file.clone());
                *has_public |= restricted.is_none();
            }
        }
    }
    assert!(places.len() > 200, "only {} types: has the layout changed?", places.len());
    places.retain(|_, (files, has_public)| *has_public && files.len() > 1);
    assert!(places.is_empty(), "public type names that are defined more than once: {places:#?}");
}

#[test]
fn only_one_folder_uses_rustls() {
    let files = files_using(&CRAWLER, "rustls");
    assert!(
        !files.is_empty() && files.iter().all(|file| file.starts_with("crates/core/src/http/conn/tls/")),
        "{files:?}"
    );
}

#[test]
fn only_one_file_uses_epoll() {
    assert_eq!(files_using(&CRAWLER, "rustix::event::epoll"), ["crates/engine/src/epoll.rs"]);
}

#[test]
fn only_one_file_uses_io_uring() {
    assert_eq!(files_using(&CRAWLER, "a10"), ["crates/engine/src/uring/ring/mod.rs"]);
    assert!(files_using(&CRAWLER, "io_uring").is_empty(), "io_uring is used through the crate a10");
}

#[test]
fn at_most_one_file_uses_the_networking_of_tokio() {
    let files = files_using(&CRAWLER, "tokio::net");
    assert!(files.len() <= 1, "tokio::net is named in {files:?}");
}

#[test]
fn threads_callbacks_and_coroutines_do_not_use_tokio() {
    for (name, text) in sources("crates/engine/src") {
        let is_without_tokio = ["callbacks", "coroutines", "threads"].iter().any(|engine| name.contains(engine));
        assert!(!is_without_tokio || !uses(&paths(&code(&text)), "tokio"), "{name} names tokio");
    }
}

#[test]
fn unsafe_code_is_forbidden_everywhere() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace has a manifest");
    assert!(manifest.contains("unsafe_code = \"forbid\""));
    let (_, list) = manifest.split_once("\nmembers = [").expect("the workspace has members");
    let (list, _) = list.split_once(']').expect("the list ends");
    let members: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(members.contains(&"crates/core") && members.contains(&"bench/rigs"), "{members:?}");
    for member in members {
        let path = root().join(member).join("Cargo.toml");
        let manifest = std::fs::read_to_string(path).expect("a crate has a manifest");
        assert!(manifest.contains("[lints]\nworkspace = true"), "{member} does not use the lints of the workspace");
    }
}

#[test]
fn a_panic_unwinds_instead_of_aborting() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace has a manifest");
    assert!(!manifest.contains("panic = \"abort\""));
}

#[test]
fn no_module_has_a_catch_all_name() {
    for (name, _) in sources("crates") {
        // A folder is a module too.
        for part in Path::new(&name).with_extension("").iter() {
            let part = part.to_string_lossy();
            assert!(!["util", "utils", "common", "helper", "helpers", "misc"].contains(&&*part), "{name}");
        }
    }
}

#[test]
fn no_placeholders_are_left() {
    for (name, text) in sources("crates") {
        if name.ends_with("architecture.rs") {
            continue;
        }
        for banned in ["todo!(", "unimplemented!(", "FIXME"] {
            assert!(!text.contains(banned), "{name} contains {banned}");
        }
    }
}

/// A test may be ignored only if it needs something that not every machine has. `./test` must have a check for it. If
/// the need is met, `./test` runs the test; otherwise it counts the test as skipped.
#[test]
fn ignored_tests_name_needs_that_the_test_script_checks() {
    let script = std::fs::read_to_string(root().join("test")).expect("the script ./test");
    for (name, text) in sources("crates") {
        if name.ends_with("architecture.rs") {
            continue;
        }
        for attribute in text.split("#[ignore").skip(1) {
            let reason = attribute.strip_prefix(" = \"needs ").and_then(|rest| rest.split_once("\"]"));
            let (needs, _) = reason.unwrap_or_else(|| panic!("{name}: write #[ignore = \"needs ...\"]"));
            for need in needs.split(", ") {
                // The checks are branches of a `case`. One may be for all needs of a group, such as `vectors/*`.
                let group = need.split_once('/').map(|(group, _)| format!("{group}/*"));
                let mut names = group.iter().map(String::as_str).chain([need]);
                let has_check = names.any(|name| script.contains(&format!("\n    {name})")));
                assert!(has_check, "{name}: ./test has no check for {need:?}");
            }
        }
    }
}

/// Versions below these have known vulnerabilities or bugs. Not all of these packages are used now.
const MIN_VERSIONS: &[(&str, [u64; 3])] = &[
    ("h2", [0, 4, 16]),
    ("hyper", [1, 11, 0]),
    ("url", [2, 5, 4]),
    ("idna", [1, 0, 3]),
    ("quick-xml", [0, 41, 0]),
    ("tracing-subscriber", [0, 3, 20]),
    ("rustls-webpki", [0, 103, 13]),
    ("hickory-proto", [0, 26, 1]),
    ("hickory-resolver", [0, 26, 1]),
    ("quinn-proto", [0, 11, 15]),
    ("bytes", [1, 11, 1]),
    ("reqwest", [0, 13, 4]),
    ("tar", [0, 4, 45]),
    ("zip", [2, 3, 0]),
];

#[test]
fn dependencies_have_at_least_the_minimum_versions() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock is committed");
    let mut checked = 0;
    for block in lock.split("[[package]]").skip(1) {
        let field = |key: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")));
            line.and_then(|rest| rest.strip_suffix('"')).unwrap_or_default().to_string()
        };
        let (name, version) = (field("name"), field("version"));
        let Some((_, min_version)) = MIN_VERSIONS.iter().find(|(package, _)| *package == name) else {
            continue;
        };
        let numbers = version.split(['.', '-', '+']).map(|part| part.parse::<u64>().unwrap_or(0));
        let numbers: Vec<u64> = numbers.chain([0, 0, 0]).take(3).collect();
        assert!(numbers >= min_version.to_vec(), "{name} {version} is below {min_version:?}");
        checked += 1;
    }
    assert!(checked >= 5, "only {checked} versions were checked: has the format of Cargo.lock changed?");
}

/// The accepted licences of dependencies.
const LICENCES: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    "Unicode-3.0",
    "MPL-2.0",
    "BSL-1.0",
    "CDLA-Permissive-2.0",
    "Unlicense",
    "OpenSSL",
    "Unicode-DFS-2016",
];

/// Dependencies that were considered and rejected.
const BANNED: &[&str] = &["openssl", "openssl-sys", "native-tls", "ring", "reqwest", "async-std"];

#[test]
fn all_licences_are_accepted_and_no_banned_crate_is_used() {
    let tree = dependency_tree("argiope-cli");
    assert!(tree.len() > 50, "only {} packages: has the output of cargo changed?", tree.len());
    for (name, licence) in tree {
        assert!(!BANNED.contains(&name.as_str()), "{name} is banned");
        // Some old manifests write `A/B` for `A OR B`.
        let expression = licence.replace('/', " OR ");
        // Of `A OR B`, one must be accepted; of `A AND B`, both.
        let is_accepted = expression
            .replace(['(', ')'], "")
            .split(" AND ")
            .all(|alternatives| alternatives.split(" OR ").any(|licence| LICENCES.contains(&licence.trim())));
        assert!(is_accepted, "{name} is under {expression:?}");
    }
}

#[test]
fn only_one_folder_uses_the_redis_client() {
    let files = files_using(&CRAWLER, "redis");
    assert!(!files.is_empty() && files.iter().all(|file| file.starts_with("crates/fleet/src/cluster/")), "{files:?}");
}

#[test]
fn only_one_folder_uses_the_object_storage_client() {
    let files = files_using(&CRAWLER, "object_store");
    let is_inside = |file: &String| file.starts_with("crates/fleet/src/segments/objects/");
    assert!(!files.is_empty() && files.iter().all(is_inside), "{files:?}");
}
