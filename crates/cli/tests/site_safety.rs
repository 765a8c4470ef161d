//! What a hostile site can put into a copy (`export --format site`): nothing that loads or acts when Chromium opens it.
//!
//! Each case is a response that asks the browser for a request to the listener, or to run a script. The copy is opened
//! file by file, from disk and from a web server that guesses types by extension. Chromium's own network log and the
//! listener must stay empty, and no script may leave its mark in the page.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};

/// Accepts connections and counts them.
struct Listener {
    address: SocketAddr,
    count: Arc<AtomicUsize>,
}

impl Listener {
    fn start() -> Self {
        let listener = TcpListener::bind("127.5.9.66:0").expect("a socket");
        let address = listener.local_addr().expect("an address");
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                let Ok(mut connection) = connection else { continue };
                // Ignored: the browser may have closed the connection.
                let _ = connection.read(&mut [0; 4096]);
                let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
            }
        });
        Self { address, count }
    }
}

/// A script that leaves a mark, written so that the mark is not in its source, and that leaves the page.
fn script(evil: &str) -> String {
    format!("document.documentElement.setAttribute('class','MARK'+'ED');location='{evil}/script'")
}

/// Path, type and body of each hostile response. `E` stands for the listener, `S` for the script.
#[rustfmt::skip]
const CASES: &[(&str, &str, &str)] = &[
    ("/script-before-head", "text/html", "<script>S</script><html><head></head><body>x"),
    ("/doctype-hides-policy", "text/html", "<!doctype a <script>S</script>><p>x"),
    ("/comment-hides-policy", "text/html", "<!--><script>S</script>--><!doctype html><p>x"),
    ("/comment-end", "text/html", "<!--a--!><script>S</script><img src=E/a>-->"),
    ("/bogus-comment", "text/html", "<?x <script>S</script> ?><!x><img src=E/a></ ><p>x"),
    ("/utf7", "text/html; charset=utf-7", "+ADw-script+AD4-S+ADw-/script+AD4-<p>x"),
    ("/jis", "text/html; charset=iso-2022-jp", "<p title=\"\x1b$B\">x</p><p title=\"\x1b(B><script>S</script>\">"),
    ("/meta-charset", "text/html", "<meta charset=utf-16le><script>S</script>"),
    ("/handlers", "text/html", "<body onload=\"S\"><img src=data:, onerror='S'><svg onload=S></svg><input autofocus onfocus=S><details open ontoggle=S>"),
    ("/slash-attributes", "text/html", "<img/src=E/a/onerror=S><svg/onload=S><iframe/src=E/b>"),
    ("/javascript-frame", "text/html", "<iframe src=\"java&#10;script:S\"></iframe><iframe src='data:text/html,<script>S</script>'></iframe>"),
    ("/srcdoc", "text/html", "<iframe srcdoc=\"<script>top.S</script><meta http-equiv=refresh content='0;url=E/a'><img src=E/b><iframe srcdoc='&lt;img src=E/c>'></iframe>\"></iframe>"),
    ("/refresh", "text/html", "<meta http-equiv=refresh content='0; url=E/refresh'>"),
    ("/refresh-entity", "text/html", "<meta http-equiv=\"&#82;efresh\" content='0;E/refresh'><meta http-equiv=refresh content='0;url=javascript:S'>"),
    ("/refresh-in-title-of-svg", "text/html", "<svg><title><style></title></svg><meta http-equiv=refresh content='0;url=E/r'></style>"),
    ("/refresh-in-style-of-math", "text/html", "<math><mi><style></mi><meta http-equiv=refresh content='0;url=E/r'></style></math>"),
    ("/refresh-in-cdata", "text/html", "<svg></p><![CDATA[><meta http-equiv=refresh content='0;url=E/r'>]]></svg>"),
    ("/refresh-in-noscript", "text/html", "<noscript><p title=\"</noscript><meta http-equiv=refresh content='0;url=E/r'>\"></noscript>"),
    ("/refresh-in-select", "text/html", "<select><iframe></select><meta http-equiv=refresh content='0;url=E/r'></iframe><template><meta http-equiv=refresh content='0;url=E/r'>"),
    ("/refresh-after-plaintext", "text/html", "<table><plaintext></table><meta http-equiv=refresh content='0;url=E/r'>"),
    ("/refresh-odd-case", "text/html", "<META HTTP-EQUIV=REFRESH CONTENT=0;URL=E/a><meta/http-equiv=refresh/content=0;E/b><meta http-equiv=' refresh ' content='0;url=E/c'>"),
    ("/refresh-doubled", "text/html", "<meta http-equiv=refresh http-equiv=x content='0;E/a'><meta name=x http-equiv=refresh content='.0,E/b'>"),
    ("/refresh-in-annotation", "text/html", "<math><annotation-xml encoding='text/html'><meta http-equiv=refresh content='0;E/a'></annotation-xml></math><svg><desc><meta http-equiv=refresh content='0;E/b'></desc></svg>"),
    ("/refresh-in-glyph", "text/html", "<form><math><mtext></form><form><mglyph><style></math><meta http-equiv=refresh content='0;E/a'></style>"),
    ("/refresh-in-attribute-of-svg", "text/html", "<svg><p><style><g title=\"</style><meta http-equiv=refresh content='0;E/a'>\">"),
    ("/refresh-with-nul", "text/html", "<meta http-equiv=ref\0resh content='0;E/a'><meta http-equiv=refresh\0 content='0;E/b'><scr\0ipt>S</scr\0ipt>"),
    ("/own-policy", "text/html", "<meta http-equiv=content-security-policy content=\"default-src *; script-src 'unsafe-inline'; report-uri E/csp\"><meta http-equiv=content-security-policy-report-only content='default-src none; report-uri E/only'><script>S</script><img src=x.png>"),
    ("/nested-srcdoc", "text/html", "<iframe srcdoc=\"&lt;iframe srcdoc='&amp;lt;script&amp;gt;top.S&amp;lt;/script&amp;gt;&amp;lt;img src=E/a&amp;gt;'&gt;\"></iframe><iframe sandbox='allow-scripts allow-top-navigation' srcdoc='<script>top.S</script><base href=E/><img src=b>'></iframe>"),
    ("/odd-urls", "text/html", "<img src='//127.5.9.66/a'><img src='\\\\127.5.9.66\\b'><img src='http:127.5.9.66/c'><img src='ht\ntp://127.5.9.66/d'><img src='http://2131036482/e'><img src='file://127.5.9.66/f'><img src='ftp://127.5.9.66/g'><link rel=stylesheet href='wss://127.5.9.66/h'>"),
    ("/marked-as-utf-16", "text/html; charset=utf-16le", "\u{feff}<script>S</script><img src=E/a>"),
    ("/css-functions", "text/html", "<style>@import'E/a'layer(x)screen;@counter-style q{system:cyclic;symbols:url(E/b)}@property --z{syntax:'<image>';inherits:true;initial-value:url(E/c)}p{background:src('E/d'),image('E/e');filter:url(E/f#x);offset-path:url(E/g#x);shape-outside:url(E/h);&{content:url(E/i)}}@container(width>0){p{background:cross-fade(url(E/j),url(E/k))}}@starting-style{p{background:url(E/l)}}</style><p>x"),
    ("/hints", "text/html", "<link rel=preconnect href=E><link rel=dns-prefetch href=//hint.evil.test><link rel=prefetch href=E/p><link rel=modulepreload href=E/m><link rel=preload as=image href=E/l imagesrcset=E/s><link rel='icon prerender' href=E/i><link rel='stylesheet preconnect' href=E/s crossorigin>"),
    ("/links-resolved", "text/html", "<meta http-equiv=x-dns-prefetch-control content=on><a href=http://link.evil.test/>x</a>"),
    ("/speculation", "text/html", "<script type=speculationrules>{\"prefetch\":[{\"source\":\"list\",\"urls\":[\"E/s\"],\"eagerness\":\"immediate\"}]}</script><script type=importmap>{\"imports\":{\"a\":\"E/a\"}}</script><script type=module>import 'E/m'</script>"),
    ("/base", "text/html", "<base href=E/><link rel=stylesheet href=s.css><img src=a.png><script src=a.js></script>"),
    ("/old", "text/html", "<body background=E/a><table background=E/b><td background=E/c></table><img dynsrc=E/d lowsrc=E/e><bgsound src=E/f><applet code=E/g></applet><embed src=E/h><object data=E/i></object><object classid=E/j codebase=E/></object>"),
    ("/media", "text/html", "<video src=E/a poster=E/b autoplay></video><audio src=E/c autoplay></audio><video><source src=E/d><track default src=E/e></video><picture><source srcset='E/f 1x'><img srcset='E/g 2x,E/h 1x'></picture><input type=image src=E/i>"),
    ("/css", "text/html", "<style>@import 'E/a';@import url(E/b);@\\69mport 'E/c';a{}@font-face{font-family:f;src:url(E/d)}p{font-family:f;background:url(E/e),u\\72l(E/f),image-set('E/g' 1x)}</style><style>p{--x:'E/h';background-image:image-set(var(--x) 1x)}p::before{content:url('E/i')}</style><p style='cursor:url(E/j),auto;border-image:url(E/k)'>x"),
    ("/frames", "text/html", "<frameset><frame src=E/a><frame src=javascript:S></frameset>"),
    ("/portal", "text/html", "<portal src=E/a></portal><fencedframe src=E/b></fencedframe><img attributionsrc=E/c src=data:,><a ping=E/d href=#>x</a><html manifest=E/m>"),
    ("/shadow", "text/html", "<div><template shadowrootmode=open><img src=E/a><link rel=stylesheet href=E/b><meta http-equiv=refresh content='0;url=E/r'></template></div>"),
    ("/svg-in-page", "text/html", "<svg><script>S</script><script href=E/a /><image href=E/b /><use href='E/c#a'/><feImage href=E/d /><rect fill='url(E/e#a)' filter='url(E/f#a)'/><style>rect{mask:url(E/g)}</style><foreignObject><iframe src=E/h></iframe></foreignObject></svg>"),
    ("/page.xhtml", "application/xhtml+xml", "<?xml version='1.0'?><?xml-stylesheet href='E/a.css'?><!DOCTYPE html [<!ENTITY e '<h:script xmlns:h=\"http://www.w3.org/1999/xhtml\">S</h:script>'>]><html xmlns='http://www.w3.org/1999/xhtml'><script>S</script><head><title>x</title></head><body onload='S'>&e;<![CDATA[<meta http-equiv=refresh content='0;url=E/r'><img src=E/b>]]><img src='E/c'/></body></html>"),
    ("/image.svg", "image/svg+xml", "<?xml-stylesheet href='E/a.css'?><!DOCTYPE svg [<!ENTITY e '<script>S</script>'>]><svg xmlns='http://www.w3.org/2000/svg' xmlns:x='http://www.w3.org/1999/xlink' xmlns:h='http://www.w3.org/1999/xhtml' onload='S'>&e;<script>S</script><x:script/><h:script>S</h:script><h:meta http-equiv='refresh' content='0;url=E/m'/><h:iframe src='E/f'/><h:link rel='stylesheet' href='E/l'/><image x:href='E/b' width='9' height='9'/><use x:href='E/c#a'/><rect fill='url(E/d#a)' width='9' height='9' style='mask:url(E/e)'/><style>@import 'E/g';svg{background:url(E/h);--x:'E/i'}rect{mask-image:image-set(var(--x) 1x)}</style><foreignObject width='9' height='9'><h:img src='E/j'/></foreignObject><set attributeName='onload' to='S'/></svg>"),
    ("/image.svgz", "image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'><a><set attributeName='href' to='javascript:S'/></a><script>S</script></svg>"),
    ("/data.xml", "application/xml", "<?xml version='1.0'?><?xml-stylesheet type='text/xsl' href='/style.xsl'?><a><script xmlns='http://www.w3.org/1999/xhtml'>S</script></a>"),
    ("/style.xsl", "text/xsl", "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform'><x:template match='/'><html><script>S</script><x:copy-of select=\"document('E/x')\"/></html></x:template></x:stylesheet>"),
    ("/feed.rss", "application/rss+xml", "<rss><script xmlns='http://www.w3.org/1999/xhtml'>S</script></rss>"),
    ("/math.mml", "application/mathml+xml", "<math xmlns='http://www.w3.org/1998/Math/MathML'><script xmlns='http://www.w3.org/1999/xhtml'>S</script></math>"),
    ("/text.html", "text/plain", "<script>S</script><img src=E/a>"),
    ("/text.xht", "text/plain", "<html xmlns='http://www.w3.org/1999/xhtml'><script>S</script></html>"),
    ("/picture.html", "image/png", "<script>S</script><img src=E/a>"),
    ("/picture.avif", "image/avif", " \n<html><script>S</script><img src=E/a>"),
    ("/source.map", "application/json", "<!doctype html><script>S</script>"),
    ("/binary.svg", "application/octet-stream", "<svg xmlns='http://www.w3.org/2000/svg'><script>S</script></svg>"),
    ("/untyped", "application/x-unknown", "<html><script>S</script>"),
    ("/archive.mhtml", "multipart/related", "MIME-Version: 1.0\r\nContent-Type: text/html\r\n\r\n<script>S</script>"),
    ("/page.shtml", "text/html", "<!--#include virtual='/etc/passwd'--><?php system('id') ?><% x %><script>S</script>"),
    ("/shell.php", "text/plain", "<script>S</script>"),
    ("/.htaccess", "text/plain", "AddType text/html .txt"),
    ("/web.config", "text/xml", "<configuration><script xmlns='http://www.w3.org/1999/xhtml'>S</script></configuration>"),
    ("/autorun.inf", "application/octet-stream", "[autorun]\nopen=x"),
    ("/link.url", "application/octet-stream", "[InternetShortcut]\nURL=E/u"),
    ("/app.desktop", "application/octet-stream", "[Desktop Entry]\nExec=x"),
    ("/con.html", "text/html", "<script>S</script>"),
    ("/script.js", "text/javascript", "S"),
    ("/same-body.txt", "text/plain", "<script>S</script><img src=E/same>"),
    ("/same-body.html", "text/html", "<script>S</script><img src=E/same>"),
];

/// Serves the cases, crawls them and exports the copy.
fn copy_of_cases(folder: &Path, listener: &Listener) -> (RunningWeb, String, PathBuf) {
    let site = Site::http("127.5.9.67:0").expect("a socket");
    let root = site.url("/");
    let evil = format!("http://{}", listener.address);
    let fill = |body: &str| {
        // `E` before a slash, a blank, a `>` or a quote is the listener; `S` alone is the script.
        let body = body
            .replace("E/", &format!("{evil}/"))
            .replace("=E>", &format!("={evil}>"))
            .replace("=E/>", &format!("={evil}/>"));
        let mut filled = String::new();
        let bytes: Vec<char> = body.chars().collect();
        for (at, &next) in bytes.iter().enumerate() {
            let is_alone = |other: Option<&char>| other.is_none_or(|other| !other.is_ascii_alphanumeric());
            if next == 'S' && is_alone(at.checked_sub(1).and_then(|at| bytes.get(at))) && is_alone(bytes.get(at + 1)) {
                filled.push_str(&script(&evil));
            } else {
                filled.push(next);
            }
        }
        filled
    };
    let site = CASES.iter().fold(site, |site, (path, content_type, body)| {
        site.page(path, Response::bytes(fill(body)).content_type(*content_type))
    });
    let site = site.page("/", Response::links(CASES.iter().map(|(path, ..)| *path)));
    let web = PracticeWeb::new().site(site).start().expect("the web is served");
    let (directory, out) = (folder.join("c"), folder.join("copy"));
    let run = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_argiope")).args(arguments).output().expect("the command was built");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let [directory, target] = [&directory, &out].map(|path| path.to_str().expect("UTF-8"));
    run(&["crawl", &root, "-d", directory, "-q", "--allow-private", "--warc"]);
    run(&["export", directory, "--format", "site", "-o", target]);
    (web, root, out)
}

/// All files of the copy but its list, relative to it.
fn files(folder: &Path) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(folder).expect("in it").to_str().expect("UTF-8").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The type that common web servers give a file by its extension; `None` if they give none.
fn guessed_type(file: &str) -> Option<&'static str> {
    Some(match file.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" | "htm" | "shtml" => "text/html",
        "xhtml" | "xht" => "application/xhtml+xml",
        "svg" | "svgz" => "image/svg+xml",
        "xml" | "xsl" | "rss" | "mml" => "text/xml",
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "txt" => "text/plain",
        "png" => "image/png",
        "mhtml" | "mht" => "message/rfc822",
        "bin" => "application/octet-stream",
        // As Apache does: no type, so that the browser guesses.
        _ => return None,
    })
}

/// Whether a browser shows a file. It saves other files and shows nothing, so it would not end.
fn is_shown(file: &&String) -> bool {
    guessed_type(file) != Some("application/octet-stream")
}

/// Opens a URL in Chromium. Returns the document after its scripts, and the network log.
fn open(url: &str, profile: &Path) -> (String, String) {
    let log = profile.join("net.json");
    let output = Command::new("chromium")
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--virtual-time-budget=1000",
            "--timeout=8000",
            "--dump-dom",
        ])
        .arg("--host-resolver-rules=MAP *.test ~NOTFOUND")
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--log-net-log={}", log.display()))
        .arg(url)
        .output()
        .expect("Chromium runs");
    (String::from_utf8_lossy(&output.stdout).into_owned(), std::fs::read_to_string(log).unwrap_or_default())
}

#[test]
fn a_file_of_a_copy_has_one_harmless_extension() {
    let listener = Listener::start();
    let folder = tempfile::tempdir().expect("a folder");
    let (_web, _, out) = copy_of_cases(folder.path(), &listener);
    let all = files(&out);
    assert_eq!(all.len(), CASES.len() + 3, "one file for each case, the root, the start page and the list: {all:?}");
    for file in all.iter().filter(|file| *file != "argiope-site.jsonl") {
        let name = file.rsplit('/').next().unwrap_or("");
        assert_eq!(name.matches('.').count(), 1, "{file}");
        let extension = name.rsplit('.').next().unwrap_or("");
        assert!(
            ["html", "svg", "txt", "png", "avif", "json", "bin"].contains(&extension) && !name.starts_with('.'),
            "{file}"
        );
        let content = String::from_utf8_lossy(&std::fs::read(out.join(file)).expect("a file")).into_owned();
        let lower = content.to_lowercase();
        if extension == "html" {
            let policy = lower.find("<meta http-equiv=\"content-security-policy\"").expect("a policy");
            let before = lower[..policy].trim_start_matches('\u{feff}');
            assert!(
                before.is_empty() || before.starts_with("<!doctype") && before.matches('<').count() == 1,
                "{file}: {content}"
            );
        }
        if ["html", "svg"].contains(&extension) {
            for active in ["<script", "<!--", "<?", "onload=", "<base", "preconnect"] {
                assert!(!lower.contains(active), "{file}: {content}");
            }
        }
    }
}

/// How many browsers run at a time: they mostly wait.
const BROWSERS: usize = 8;

/// Opens all URLs, and returns what each of them did that a copy must not do.
fn faults(urls: &[String], listener: &Listener) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..BROWSERS {
            scope.spawn(|| {
                let profile = tempfile::tempdir().expect("a folder");
                while let Some(url) = urls.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let (page, log) = open(url, profile.path());
                    let asked = ["127.5.9.66", "evil.test"].iter().find_map(|name| log.find(name));
                    if page.contains("MARKED") || asked.is_some() {
                        let place = asked.map_or("", |at| log.get(at.saturating_sub(300)..at + 100).unwrap_or(""));
                        found.lock().expect("no panic").push(format!("{url}: {place} {page}"));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no panic");
    let requests = listener.count.swap(0, Ordering::SeqCst);
    if requests > 0 {
        found.push(format!("{requests} requests"));
    }
    found
}

#[test]
#[ignore = "needs chromium"]
fn chromium_opens_every_file_of_a_hostile_copy_on_disk_without_a_request_or_a_script() {
    let listener = Listener::start();
    let folder = tempfile::tempdir().expect("a folder");
    let (_web, root, out) = copy_of_cases(folder.path(), &listener);
    // The originals do what the copies must not do, so the listener, the page and the log would show it.
    for path in ["refresh", "handlers", "image.svg", "css"] {
        assert!(!faults(&[format!("{root}{path}")], &listener).is_empty(), "{path} did nothing");
    }
    let all = files(&out);
    let urls: Vec<String> =
        all.iter().filter(is_shown).map(|file| format!("file://{}/{file}", out.display())).collect();
    let faults = faults(&urls, &listener);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
#[ignore = "needs chromium"]
fn chromium_opens_every_file_of_a_hostile_copy_on_a_server_without_a_request_or_a_script() {
    let listener = Listener::start();
    let folder = tempfile::tempdir().expect("a folder");
    let (_web, _, out) = copy_of_cases(folder.path(), &listener);
    let all = files(&out);
    let server = Site::http("127.5.9.68:0").expect("a socket");
    let base = server.url("/");
    let server = all.iter().fold(server, |server, file| {
        let body = std::fs::read(out.join(file)).expect("a file");
        server.page(&format!("/{file}"), Response::bytes(body).content_type(guessed_type(file)))
    });
    let _server = PracticeWeb::new().site(server).start().expect("the copy is served");
    let urls: Vec<String> = all.iter().filter(is_shown).map(|file| format!("{base}{file}")).collect();
    let faults = faults(&urls, &listener);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
