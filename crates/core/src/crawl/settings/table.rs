//! [`Config`]: the settings of a crawl as the user writes them. `Config::compile` checks them and returns
//! [`Rules`](crate::crawl::rules::Rules).
//!
//! Invariant: the keys are the long flags of the command, plus `roots` and `auth`. Settings that only the command needs
//! are not here: its messages, its exit code, its file of roots, its table of pages and its dashboard. A missing key has
//! the documented default.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{CHECK, CRAWL, DEMO, EXPORT, FETCH, RENDER, ROBOTS, agreed, local, secret, shared};
use crate::base::value::{
    AssetsScope, Credentials, DigestAlgorithm, EngineName, Follow, HeaderLine, HttpVersion, Interact, Login, Only,
    Pace, Rate, RenderMode, Resolve, RobotsPolicy, ScopeKind, SinceDate, Size, Soft404, Span, TrapPolicy,
    WarcCompression, With, bare_number, optional_bare_number,
};

crate::settings! {
    /// All settings of a crawl. Build it in code, or read it from a file:
    ///
    /// ```
    /// use argiope_core::crawl::rules::{Config, Span};
    ///
    /// let config = Config { roots: vec!["https://example.com/".into()], delay: Span::from_millis(500), ..Config::default() };
    /// // The argument is the key of fingerprints. A real crawl uses a random number.
    /// let rules = config.compile(0).unwrap();
    /// assert_eq!(rules.roots[0].candidates[0].host(), "example.com");
    /// ```
    pub struct Config {
        "Input and directory" in 0 => {
            /// URLs to start from, or host names (tried as https, then http)
            roots: Vec<String> = Vec::new() => shared("URL").fixed();
            /// The crawl directory
            ///
            /// If the first root names a port, the default is ./HOST-PORT.crawl. If the directory exists, the crawl
            /// resumes.
            out: Option<PathBuf> = None => local("DIR").also(CRAWL | CHECK | RENDER).short('d')
                .common(CRAWL | CHECK | RENDER).default_is("./HOST.crawl").texts(&[
                    (CHECK, "For sites: keep the crawl in this directory, for audit, report and export"),
                    (RENDER, "The new crawl directory [default: DIR with .rendered in its name]"),
                ]);
            /// Start over: remove the results of the earlier crawl in the directory
            fresh: bool = false => local("").also(CRAWL | CHECK | RENDER).common(CRAWL).needs("out")
                .texts(&[(CHECK, "For sites: start over if the directory has an earlier crawl")]);
            /// Request the pages of a finished crawl again and report what changed
            recrawl: bool = false => local("").also(CRAWL).common(CRAWL).needs("out").contradicts("fresh");
        }
        "Scope" in CRAWL => {
            /// Which links to follow
            ///
            /// page: only the roots. prefix: below the directory of a root. host: on the host of a root, with or without
            /// www. domain: on all hosts of its registrable domain, such as example.com. any: everywhere.
            scope: ScopeKind = ScopeKind::Host => shared("SCOPE").rejudged().common(CRAWL).also(CHECK)
                .page("urls.md#registrable-domains").texts(&[(CHECK, "For sites: which pages are read")]);
            /// Follow only URLs that match this regular expression (repeatable: one of them must match)
            include: Vec<String> = Vec::new() => shared("RE").rejudged().common(CRAWL).also(CHECK).texts(&[
                (CHECK, "For sites: read only pages whose URL matches this regular expression (repeatable)"),
            ]);
            /// Never follow URLs that match this regular expression (repeatable)
            ///
            /// Takes precedence over all other rules.
            exclude: Vec<String> = Vec::new() => shared("RE").rejudged().common(CRAWL).also(CHECK).texts(&[(
                CHECK,
                "For sites: do not read pages whose URL matches this regular expression (repeatable); links to them \
                 are checked",
            )]);
            /// Fetch pages whose URL matches this regular expression first (repeatable: the first that matches counts)
            ///
            /// URLs that match an earlier pattern come before those that match a later one, and these before all others.
            /// It applies to the links of pages. It does not change which pages are fetched, unless a limit ends the
            /// crawl.
            prefer: Vec<String> = Vec::new() => shared("RE");
            /// Follow links at most N steps from a root (0: only the roots)
            ///
            /// Redirects do not count as steps.
            depth: Option<u32> = None => shared("N").rejudged().common(CRAWL).also(CHECK)
                .texts(&[(CHECK, "For sites: read pages at most N links from the root")]);
            /// Stop after exactly N pages
            max_pages: Option<u64> = None => local("N").common(CRAWL).also(CHECK)
                .texts(&[(CHECK, "For sites: read at most N pages")]);
            /// Start no new fetch after this many bytes were received
            max_bytes: Option<Size> = None => shared("SIZE");
            /// Stop before the crawl directory becomes larger than this
            max_disk: Option<Size> = None => local("SIZE").needs("out");
            /// Stop this run after this time; fetches in flight are aborted and stay queued
            max_time: Option<Span> = None => shared("TIME");
            /// Also try /sitemap.xml, even if robots.txt does not name it
            sitemap: bool = false => shared("").fixed().contradicts("no_sitemap").also(CHECK)
                .texts(&[(CHECK, "For sites: also read the pages that /sitemap.xml lists")]);
            /// Do not read sitemaps, not even those that robots.txt names
            no_sitemap: bool = false => shared("").fixed();
            /// Fetch only the roots and the pages that sitemaps list, and follow no links: sitemap
            ///
            /// /sitemap.xml is tried too, even if robots.txt does not name it.
            only: Option<Only> = None => shared("PAGES").rejudged().contradicts("no_sitemap")
                .page("howto/recrawl.md#only-what-is-new");
            /// Leave out entries of sitemaps that changed last before this date, such as 2026-01-31
            ///
            /// The field `lastmod` decides. Entries without it are fetched. A recrawl requests all known pages.
            since: Option<SinceDate> = None => shared("DATE").contradicts("no_sitemap")
                .page("howto/recrawl.md#only-what-is-new");
            /// Also fetch images, scripts, styles and media of pages
            assets: bool = false => shared("").fixed();
            /// Hosts from which `assets` fetches: those of the roots, of their domains, or any
            assets_scope: AssetsScope = AssetsScope::Any => shared("SCOPE").fixed().needs("assets");
            /// Remove this parameter from links (repeatable)
            ///
            /// It is removed from the queries and paths of links and sitemap entries, but not of roots and redirect
            /// targets. @sessions and @tracking stand for lists of well-known parameters. @order sorts the remaining
            /// ones.
            strip_param: Vec<String> = Vec::new() => shared("NAME").fixed().page("urls.md#removing-parameters");
            /// Also follow links of these kinds, separated by commas
            ///
            /// data: addresses in the data that scripts of a page contain, as frameworks write it.
            follow: Vec<Follow> = Vec::new() => shared("KINDS").rejudged().page("urls.md#links-in-the-data-of-scripts");
            /// On pages that this CSS selector matches, follow only the links in matching elements (repeatable)
            ///
            /// Pages without a match are not limited. To follow nothing on a page, match an element without links.
            pick: Vec<String> = Vec::new() => shared("SELECTOR").fixed().page("howto/one-section.md#only-some-links-of-a-page");
            /// Also follow the links in elements that this CSS selector matches, from one page of a list to the next (repeatable)
            ///
            /// They are followed although `pick` does not choose them, up to `max_next` links from a root.
            next: Vec<String> = Vec::new() => shared("SELECTOR").fixed().page("howto/one-section.md#only-some-links-of-a-page");
            /// Follow links of `next` at most N links from a root
            max_next: u32 = 100 => shared("N").fixed().needs("next");
            /// Follow links that are marked nofollow
            follow_nofollow: bool = false => shared("").fixed();
            /// Ask a host for a page that does not exist, once in a run, to find error pages with status 200
            ///
            /// auto asks hosts on which three pages have nearly the same text and two of them the same title, always all
            /// hosts with an HTML page.
            soft_404: Soft404 = Soft404::Auto => shared("WHEN").page("audit.md#error-pages-with-status-200");
            /// Whether to avoid endless structures such as calendars and mazes
            traps: TrapPolicy = TrapPolicy::Avoid => shared("POLICY").page("traps.md");
            /// Follow at most N links of one URL pattern that lead to nothing new
            ///
            /// All budgets for endless structures scale with this number.
            trap_budget: u32 = 4_096 => shared("N").page("traps.md");
            /// Follow links to at most N pages per host
            ///
            /// Roots and sitemap entries count, but are fetched also beyond N. With `frontier`, roots do not count, and
            /// sitemap entries are limited like links.
            max_pages_per_host: Option<u64> = None => shared("N").page("fleet/README.md#limits");
        }
        "Pace" in CRAWL | DEMO | CHECK => {
            /// Fetches in flight, over all hosts
            concurrency: usize = 256 => local("N").short('c').common(CRAWL | DEMO);
            /// At most N connections (HTTP/2: streams) per host
            ///
            /// With `pace` full the default is the value of `concurrency`. With `pace` gentle it is always 1.
            per_host: Option<usize> = None => shared("N").default_is("6").common(DEMO);
            /// At most N connections per IP address, for hosts that share one (0: no limit)
            ///
            /// The default is `per_host` if that is larger.
            per_ip: Option<usize> = None => shared("N").default_is("12");
            /// Minimum time between two requests to a host
            ///
            /// It counts from the sending of one request to the sending of the next. A number without a unit is seconds.
            #[serde(deserialize_with = "bare_number")]
            delay: Span = Span::from_secs(0) => shared("TIME").unit("s").common(CRAWL | DEMO);
            /// How fast a host is crawled: gentle, steady or full
            ///
            /// gentle: one connection with long pauses. steady: starts with two connections and adapts to the response
            /// times of the host. full: all allowed connections at once, for servers of your own.
            pace: Pace = Pace::Steady => shared("PACE").common(CRAWL | DEMO).page("pace.md");
            /// At most N pages per second, over all hosts, such as 10/s
            ///
            /// A number without a unit is per second.
            #[serde(deserialize_with = "optional_bare_number")]
            rate: Option<Rate> = None => shared("N/s").unit("/s").common(DEMO);
            /// Obey a Crawl-delay in robots.txt up to this time
            max_crawl_delay: Span = Span::from_secs(60) => shared("TIME");
        }
        "Fetch" in CRAWL | FETCH | ROBOTS | CHECK => {
            /// Time limit for a whole fetch
            timeout: Span = Span::from_secs(60) => shared("TIME").common(FETCH | ROBOTS).also(EXPORT)
                .texts(&[(EXPORT, "With `to`: time limit for sending a batch")]);
            /// Time limit for each of DNS, connecting and the TLS handshake
            connect_timeout: Span = Span::from_secs(10) => shared("TIME");
            /// Time limit for the response headers, and for any pause in the body
            idle_timeout: Span = Span::from_secs(20) => shared("TIME").also(EXPORT)
                .texts(&[(EXPORT, "With `to`: time limit for the answer of the receiver")]);
            /// Abort a body that arrives slower than this many bytes per second
            min_rate: Size = Size(32) => shared("SIZE");
            /// Attempts per URL, including the first
            max_tries: u8 = 4 => shared("N").unused(FETCH);
            /// Wait before the first retry; the wait doubles with each further one
            retry_wait: Span = Span::from_secs(1) => shared("TIME").unused(FETCH);
            /// Follow at most N redirects in a row
            max_redirects: u8 = 10 => shared("N").unused(FETCH);
            /// Keep at most this much of a body, after decompression
            max_size: Size = Size(10 << 20) => shared("SIZE").common(FETCH);
            /// Abort responses with larger headers
            max_head: Size = Size(256 << 10) => shared("SIZE");
            /// Ignore links that are longer than this
            max_url: usize = 4096 => shared("N").texts(&[
                (FETCH, "Refuse a URL that is longer than this"),
                (ROBOTS, "Refuse the robots.txt if its own URL is longer than this"),
            ]);
            /// Read at most N links per page
            max_links: usize = 10_000 => shared("N").unused(FETCH | ROBOTS);
            /// The User-Agent header; its first word is the name looked up in robots.txt
            user_agent: Option<String> = None => shared("TEXT").short('A').common(FETCH | ROBOTS).texts(&[
                (FETCH, "The User-Agent header"),
                (ROBOTS, "The User-Agent header of the request; --agent decides which rules apply"),
            ]);
            /// A URL or mail address for site owners; added to the User-Agent header
            contact: Option<String> = None => shared("TEXT");
            /// Send this header to the origins of the roots only (repeatable)
            ///
            /// An origin is a scheme, a host and a port. The roots are the URLs that you give.
            header: Vec<HeaderLine> = Vec::new() => secret("NAME: VALUE").short('H').common(CRAWL | FETCH | ROBOTS)
                .texts(&[
                    (FETCH, "Send this header (repeatable)"),
                    (ROBOTS, "Send this header to the origin of the robots.txt (repeatable)"),
                ]);
            /// Log in at the origins of the roots with a name and password
            user: Option<Credentials> = None => secret("NAME:PASSWORD").common(FETCH | ROBOTS).texts(&[
                (FETCH, "Log in with a name and password"),
                (ROBOTS, "Log in at the origin of the robots.txt with a name and password"),
            ]);
            /// Do not keep or send cookies
            no_cookies: bool = false => shared("").unused(FETCH);
            /// Start with the cookies of this file (Netscape format, as curl and browsers export it)
            cookies: Option<PathBuf> = None => local("FILE").common(FETCH).contradicts("no_cookies").texts(&[(
                FETCH,
                "Send the cookies of this file (Netscape format, as curl and browsers export it)",
            )]);
            /// Fetch through this proxy: http://, socks5:// or socks5h://[NAME:PASSWORD@]HOST:PORT
            ///
            /// An empty value disables the proxy that the environment sets.
            proxy: Option<String> = None => secret("URL").common(FETCH | ROBOTS).also(EXPORT)
                .texts(&[(EXPORT, "With `to`: send through this proxy: http://, socks5:// or socks5h://[NAME:PASSWORD@]HOST:PORT")]);
            /// HTTP version
            ///
            /// auto: HTTP/2 if the server offers it over TLS, otherwise HTTP/1.1. 2: HTTP/2 only, without a fallback.
            http: HttpVersion = HttpVersion::Auto => shared("VERSION").common(FETCH | ROBOTS).page("http2.md");
            /// Use this address for this host and port, as curl does (repeatable)
            resolve: Vec<Resolve> = Vec::new() => local("HOST:PORT:ADDR").common(FETCH | ROBOTS);
            /// Use this name server instead of the system's
            dns: Option<SocketAddr> = None => local("ADDR:PORT");
        }
        "Trust" in CRAWL | FETCH | ROBOTS | CHECK => {
            /// Whether to obey robots.txt; ignore it only on your own sites
            robots: RobotsPolicy = RobotsPolicy::Obey => shared("POLICY").fixed().common(CRAWL).unused(FETCH | ROBOTS);
            /// Follow links into private networks (a root may always be in one)
            allow_private: bool = false => local("").unused(FETCH).texts(&[(
                ROBOTS,
                "Follow redirects into private networks (the robots.txt may always be in one)",
            )]);
            /// Also trust the certificate authorities in this PEM file
            ca_cert: Option<PathBuf> = None => local("FILE").common(FETCH | ROBOTS).also(EXPORT)
                .texts(&[(EXPORT, "With `to`: also trust the certificate authorities in this PEM file")]);
            /// Client certificate for the servers of the roots (PEM; needs `key`)
            cert: Option<PathBuf> = None => local("FILE").texts(&[
                (FETCH, "Client certificate (PEM; needs `key`)"),
                (ROBOTS, "Client certificate for the server of the robots.txt (PEM; needs `key`)"),
            ]);
            /// Private key of `cert` (PEM)
            key: Option<PathBuf> = None => local("FILE");
            /// Do not verify certificates: any server can impersonate any host
            insecure: bool = false => local("").short('k').common(FETCH | ROBOTS).also(EXPORT)
                .texts(&[(EXPORT, "With `to`: do not verify the certificate of the receiver: it may be any server")]);
        }
        "Output and resources" in CRAWL | DEMO => {
            /// Write one JSON object per URL to this file (- is standard output)
            jsonl: Option<PathBuf> = None => local("FILE").common(CRAWL | DEMO).needs("out");
            /// Add these parts to page records, separated by commas
            ///
            /// anchors are the texts of links; they are also added to the link graph.
            with: Vec<With> = Vec::new() => shared("PARTS").common(DEMO).needs("out");
            /// Archive every response as received, in DIR/archive/*.warc.gz
            warc: bool = false => shared("").common(CRAWL).unused(DEMO).needs("out");
            /// Compression of the archive
            ///
            /// zstd writes *.warc.zst, which is smaller but which fewer programs read.
            warc_compression: WarcCompression = WarcCompression::Gzip => shared("FORMAT").unused(DEMO).needs("warc");
            /// Digest of bodies in records
            ///
            /// xxh3 is faster. A crawl directory keeps its digest.
            digest: Option<DigestAlgorithm> = None => shared("ALGORITHM").unused(DEMO)
                .default_is("sha256 with --warc, otherwise xxh3");
            /// Memory limit
            max_memory: Option<Size> = None => local("SIZE").also(CHECK)
                .default_is("a quarter of the machine's memory, or of the cgroup's limit if lower");
            /// When interrupted, wait this long for fetches in flight
            drain_time: Span = Span::from_secs(30) => local("TIME");
        }
        "Extract" in CRAWL | FETCH => {
            /// Extract a field from every page: price=.price, links[]=a@href, name=jsonld:Product.name (repeatable)
            extract: Vec<String> = Vec::new() => shared("NAME=SELECTOR").common(FETCH).texts(&[(
                FETCH,
                "Extract a field: price=.price, links[]=a@href, name=jsonld:Product.name (repeatable)",
            )]);
            /// Extract fields from pages by the rules in a TOML file
            extract_file: Option<PathBuf> = None => agreed("FILE").common(FETCH)
                .texts(&[(FETCH, "Extract fields by the rules in a TOML file")]);
            /// Add the main text to page records
            text: bool = false => shared("").common(FETCH).texts(&[(FETCH, "Add the main text to the record")]);
            /// Add the main text as Markdown to page records
            markdown: bool = false => shared("").common(FETCH)
                .texts(&[(FETCH, "Add the main text as Markdown to the record")]);
            /// The part of a page that `text` and `markdown` are from: main, full or a CSS selector
            ///
            /// `main` is the main content without navigation, footers and banners. `full` is the whole page in reading
            /// order, without scripts and styles. A selector gives the elements that it matches; the element `main` is
            /// `:is(main)`.
            content: String = "main".to_owned() => shared("PART").common(FETCH);
        }
        "Rendering" in CRAWL | FETCH | CHECK | RENDER => {
            /// Run the scripts of pages in a headless browser
            ///
            /// auto renders samples of each kind of page, and the others where the samples gained links or text. The
            /// browser has no network: all its requests are requests of the crawl, with the same rules.
            render: RenderMode = RenderMode::Never => agreed("WHEN").unused(RENDER).page("howto/rendering.md");
            /// The browser to use
            ///
            /// If none of the default ones is on the path, the variable ARGIOPE_BROWSER names it.
            browser: Option<PathBuf> = None => local("PATH")
                .default_is("the first of chromium-headless-shell, chrome-headless-shell, chromium, google-chrome");
            /// Virtual time that a rendered page gets: its timers pass without waiting
            render_time: Span = Span::from_secs(10) => agreed("TIME");
            /// Time that a rendered page may compute, without its waits for responses
            render_timeout: Span = Span::from_secs(30) => local("TIME");
            /// Requests that a rendered page may make
            render_requests: u32 = 1_000 => agreed("N");
            /// Memory of each process of the browser
            render_memory: Size = Size(1 << 30) => local("SIZE");
            /// Run the browser without its sandbox, as root in a container that is the sandbox
            browser_no_sandbox: bool = false => local("");
            /// Render this many pages at once
            render_tabs: Option<usize> = None => local("N").default_is("number of cores");
            /// What to do after the load of a rendered page to find more
            interact: Interact = Interact::Scroll => agreed("HOW");
            /// Archive a picture of every rendered page (PNG); needs `warc`
            ///
            /// Images and fonts are then requested too. argiope export --format screenshots writes the pictures as files.
            screenshot: bool = false => agreed("").needs("warc").unused(FETCH | CHECK)
                .texts(&[(RENDER, "Archive a picture of every rendered page (PNG)")]);
        }
        "Engine" in CRAWL | DEMO | CHECK => {
            /// How the crawler waits for many servers at once
            engine: EngineName = EngineName::Tokio => local("ENGINE").common(DEMO);
        }
        "Messages" in CRAWL | DEMO => {
            /// Also write links that are not followed to `jsonl`, with the reason
            log_skips: bool = false => local("").needs("out");
        }
        "Logins" in 0 => {
            /// Logins for single origins, each with a name and a password, or a token
            auth: Vec<Login> = Vec::new() => secret("");
        }
    }
}
