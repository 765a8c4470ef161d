//! Runs every example as a separate program against the practice shop and checks its output.

use std::path::PathBuf;
use std::process::Command;

use argiope_practice::members::{MEMBER, ORDERS, members};
use argiope_practice::shop::{PRODUCTS, price_text, product, shop};
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};

fn start() -> (RunningWeb, String) {
    let site = shop("127.5.0.9:0").expect("a loopback address");
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("the practice web starts"), root)
}

/// The path of an example.
fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("this program has a path");
    let build = tests.parent().and_then(|deps| deps.parent()).expect("tests are in target/PROFILE/deps");
    let program = build.join("examples").join(name);
    if program.exists() {
        return program;
    }
    // With a separate build directory, only programs are in `target`.
    let target = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target");
    target.join(build.file_name().expect("a profile")).join("examples").join(name)
}

/// Runs an example and returns its output.
fn run(name: &str, arguments: &[&str]) -> String {
    let program = program(name);
    let output = Command::new(&program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{} does not run: {error}", program.display()));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("examples print UTF-8")
}

#[test]
fn titles_prints_every_page() {
    let (_web, root) = start();
    let printed = run("titles", &[&root]);
    // Three lists, the products, the guide and the terms.
    assert_eq!(printed.lines().count(), 3 + PRODUCTS + 2, "{printed}");
    assert!(printed.contains("/guide How to hang a web - Practice shop"), "{printed}");
}

#[test]
fn products_prints_names_and_prices() {
    let (_web, root) = start();
    let printed = run("products", &[&root]);
    assert_eq!(printed.lines().count(), 1 + PRODUCTS);
    for number in [1, 9, PRODUCTS] {
        let (name, cents) = product(number);
        let row = format!("\"{name}\",\"{}\",\"{root}product/{number}\"", price_text(cents));
        assert!(printed.lines().any(|line| line == row), "{row} is not in {printed}");
    }
}

#[test]
fn extract_prints_typed_fields() {
    let (_web, root) = start();
    let printed = run("extract", &[&root]);
    assert_eq!(printed.lines().count(), PRODUCTS);
    let (name, cents) = product(5);
    let line = printed.lines().find(|line| line.contains(&name)).expect("the fifth product");
    let data: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let expected = serde_json::json!({"name": name, "price": cents as f64 / 100.0, "stock": 15, "since": "2026-03-06"});
    assert_eq!(data, expected);
}

#[test]
fn link_filter_follows_only_accepted_links() {
    let (_web, root) = start();
    let printed = run("link_filter", &[&root]);
    assert!(printed.contains("/guide") && printed.contains("/page/3"), "{printed}");
    assert!(!printed.contains("/product/"), "{printed}");
}

#[test]
fn login_reads_what_is_behind_the_form() {
    let site = members("127.5.0.9:0").expect("a loopback address");
    let root = site.url("/");
    let web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let (name, password) = MEMBER;
    let printed = run("login", &[&format!("{root}login"), name, password]);
    let expected = [
        format!("GET {root}login Log in"),
        format!("POST {root}session (no title)"),
        format!("GET {root}account Your account"),
    ];
    assert_eq!(printed.lines().take(3).collect::<Vec<_>>(), expected);
    assert_eq!(printed.matches(" Order ").count(), ORDERS, "{printed}");
    // robots.txt, the form, the response to it, the account and its orders.
    assert_eq!(web.requests(), 4 + ORDERS as u64);
}

#[test]
fn hooks_sign_and_abort_requests() {
    let site = shop("127.5.0.9:0").expect("a loopback address");
    let root = site.url("/");
    let web = PracticeWeb::new().site(site).keep_headers().start().expect("the practice web starts");
    let printed = run("hooks", &[&root]);
    assert!(printed.contains(&format!("refused {root}page/2\n")), "{printed}");
    assert!(printed.contains(&format!("ok {root}guide\n")) && !printed.contains("/terms"), "{printed}");
    for request in web.log().iter().filter(|request| request.path != "/robots.txt") {
        let signature = request.headers.iter().find(|(name, _)| name == "X-Signature").map(|(_, value)| value.clone());
        assert_eq!(signature, Some(format!("GET-{}", request.path.len())), "{}", request.path);
    }
}

#[test]
fn sitemap_only_fetches_the_sitemap() {
    let (_web, root) = start();
    let printed = run("sitemap_only", &[&root]);
    assert!(printed.ends_with(&format!("{} pages\n", PRODUCTS + 2)), "{printed}");
    assert!(!printed.contains("/page/"), "{printed}");
}

#[test]
fn markdown_writes_the_main_text_of_a_page() {
    let (_web, root) = start();
    let folder = tempfile::tempdir().expect("a folder");
    run("markdown", &[&root, &folder.path().display().to_string()]);
    let guide = std::fs::read_to_string(folder.path().join("guide.md")).expect("the guide");
    assert!(guide.starts_with("# How to hang a web\n\nA web that hangs"), "{guide}");
    for part in
        ["\n## Tools\n", "- two branches\n- patience\n", "```\nbridge\n  frame\n    radii\n```", "| frame | 5 |"]
    {
        assert!(guide.contains(part), "{part:?} is not in {guide}");
    }
    assert!(guide.contains(&format!("[our first web]({root}product/1)")), "{guide}");
    assert!(!guide.contains("Terms") && !guide.contains("also like"), "{guide}");
}

#[test]
fn blocking_counts_words() {
    let (_web, root) = start();
    let printed = run("blocking", &[&root]);
    assert!(printed.lines().count() > PRODUCTS && printed.ends_with(" words\n"), "{printed}");
}

#[test]
fn own_sink_counts_types() {
    let (_web, root) = start();
    assert_eq!(run("own_sink", &[&root]), format!("{{\"text/html\": {}}}, 0 left, Finished\n", PRODUCTS + 5));
}

#[test]
fn own_frontier_counts_links() {
    let (_web, root) = start();
    let printed = run("own_frontier", &[&root]);
    // The menu of every page links to the guide and the first page.
    assert_eq!(printed.lines().count(), 5);
    assert!(printed.lines().take(3).any(|line| line.ends_with("/guide")), "{printed}");
}

#[test]
fn stop_and_resume_fetches_everything_once() {
    let (web, root) = start();
    let folder = tempfile::tempdir().expect("a folder");
    let printed = run("stop_and_resume", &[&root, &folder.path().join("shop.crawl").display().to_string()]);
    assert!(printed.ends_with("pages, 0 left\n"), "{printed}");
    let pages: Vec<usize> =
        printed.lines().filter_map(|line| line.split_once(": ")?.1.split(' ').next()?.parse().ok()).collect();
    assert_eq!(pages.iter().sum::<usize>(), PRODUCTS + 5, "{printed}");
    // Both runs may request robots.txt and the sitemap, but each page is requested once.
    assert!(web.requests() <= (PRODUCTS + 5 + 4) as u64, "{} requests", web.requests());
}

#[test]
fn batches_writes_every_title_once_in_two_runs() {
    let (_web, root) = start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    for _ in 0..2 {
        run("batches", &[&root, &path("shop.crawl"), &path("titles.tsv")]);
    }
    let table = std::fs::read_to_string(path("titles.tsv")).expect("the table");
    assert_eq!(table.lines().count(), 3 + PRODUCTS + 2, "{table}");
    assert!(table.contains("/guide\tHow to hang a web - Practice shop\n"), "{table}");
}

#[test]
fn focused_prints_pages_about_the_topic() {
    let (_web, root) = start();
    let printed = run("focused", &[&root, "web"]);
    assert!(printed.contains("/guide How to hang a web - Practice shop\n"), "{printed}");
}

#[test]
fn fed_urls_are_one_level_deeper_than_their_page() {
    let (_web, root) = start();
    let printed = run("feed", &[&root]);
    assert!(printed.contains("product/8 depth 1\n"), "{printed}");
    // The root lists the first eight products.
    assert_eq!(printed.matches("depth 1").count(), 8, "{printed}");
}

#[test]
fn handle_fetches_what_another_thread_reads() {
    use std::io::Write as _;
    use std::process::Stdio;

    let (_web, root) = start();
    let mut child = Command::new(program("handle"))
        .arg(&root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example runs");
    let mut input = child.stdin.take().expect("a pipe");
    write!(input, "{root}guide\nnot a URL\n{root}terms\n").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success() && printed.contains("request 1: "), "{printed}");
    assert!(
        printed.contains(&format!("ok {root}guide\n")) && printed.contains(&format!("ok {root}terms\n")),
        "{printed}"
    );
}

#[test]
fn many_hosts_prints_sql() {
    const HOSTS: usize = 20;
    let title = "It's \u{201c}quoted\u{201d}";
    let page = Response::html(format!("<title>{title}</title><a href=/other>x</a>"));
    let mut web = PracticeWeb::new();
    let mut hosts = String::new();
    for number in 0..HOSTS {
        let site =
            Site::http(&format!("127.5.10.{}:0", number + 1)).expect("a loopback address").page("/", page.clone());
        hosts += &format!("{}\n", site.url("/"));
        web = web.site(site.fallback(Response::status(404)));
    }
    let _web = web.start().expect("the practice web starts");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hosts.txt");
    std::fs::write(&file, &hosts).expect("written");
    let printed = run("many_hosts", &[&file.display().to_string()]);
    for host in hosts.lines() {
        let row = format!("insert into pages values ('{host}', 200, 'It''s \u{201c}quoted\u{201d}');");
        assert_eq!(printed.lines().filter(|line| **line == row).count(), 1, "{row} is not in {printed}");
    }
    let count = |line: &str| printed.lines().filter(|printed| *printed == line).count();
    assert_eq!((printed.matches("insert").count(), count("begin;")), (HOSTS, count("commit;")));
}

/// The lines of a program: not empty, and neither comment nor attribute.
fn lines_of(program: &str) -> usize {
    let is_code = |line: &&str| !line.is_empty() && !["//", "#!["].iter().any(|start| line.starts_with(start));
    program.lines().map(str::trim).filter(is_code).count()
}

#[test]
fn the_page_that_compares_programs_has_the_examples_and_their_lines() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/howto/five-programs.md")).expect("the page");
    for name in ["titles", "products", "login", "many_hosts", "focused"] {
        let program = std::fs::read_to_string(root.join(format!("examples/{name}.rs"))).expect("the example");
        let code =
            program.lines().skip_while(|line| line.starts_with("//") || line.starts_with("#![") || line.is_empty());
        let code = code.collect::<Vec<_>>().join("\n");
        assert!(page.contains(&format!("```rust,ignore\n{code}\n```")), "{name} differs from the page");
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}.rs`"))).expect("a row");
        let stated = row.split('|').nth(3).map(str::trim);
        assert_eq!(stated, Some(lines_of(&program).to_string().as_str()), "{row}");
    }
}
