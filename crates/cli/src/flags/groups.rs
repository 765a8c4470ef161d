//! The flags that commands share, in groups. `apply_to` of a group changes the settings: flags override the configuration
//! file, which overrides the defaults.
//!
//! The first paragraph of a flag's documentation is its text in `-h`; `--help` shows all of it.
//!
//! Invariant: every flag except `--config` sets the configuration key of the same name; validation happens in
//! [`Config::compile`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use argiope_core::crawl::rules::{
    AssetsScope, BadValue, BareNumber as _, Config, ConfigError, EngineName, HeaderLine, HttpVersion, Pace, Rate,
    Resolve, RobotsPolicy, ScopeKind, Size, Span, TrapPolicy, WarcCompression, With,
};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};

use super::settings::{CommandIo, CommandSettings, FailOn};

/// How a flag changes a setting. A flag that is not given changes nothing.
pub(super) trait ApplyFlag<T> {
    fn set(&self, setting: &mut T);
}

impl<T: Clone> ApplyFlag<T> for Option<T> {
    fn set(&self, setting: &mut T) {
        if let Some(value) = self {
            *setting = value.clone();
        }
    }
}

impl<T: Clone> ApplyFlag<Option<T>> for Option<T> {
    fn set(&self, setting: &mut Option<T>) {
        if self.is_some() {
            setting.clone_from(self);
        }
    }
}

/// A list on the command line replaces the one in the file; otherwise an entry could not be removed.
impl<T: Clone> ApplyFlag<Vec<T>> for Vec<T> {
    fn set(&self, setting: &mut Vec<T>) {
        if !self.is_empty() {
            setting.clone_from(self);
        }
    }
}

impl ApplyFlag<bool> for bool {
    fn set(&self, setting: &mut bool) {
        *setting |= *self;
    }
}

/// Applies the flags with these names to the settings of the same names.
macro_rules! set {
    ($flags:expr, $config:expr, $($name:ident)*) => { $($flags.$name.set(&mut $config.$name);)* };
}
pub(super) use set;

/// A parser for a fixed set of words. Help, completions and error messages list the words.
pub fn one_of<T>(words: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = BadValue> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>())
}

/// Parses a whole number.
fn parse_number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| match text.parse::<i128>() {
        Ok(_) => "this number is out of range; write a whole number, such as 10".to_owned(),
        Err(_) => "write a whole number, such as 10".to_owned(),
    })
}

fn parse_socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write ADDR:PORT, such as 192.0.2.53:53 or [2001:db8::53]:53".to_owned())
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Input and directory")]
pub struct DirectoryFlags {
    /// Read roots from a file, one per line (- is standard input)
    ///
    /// Blank lines and lines that start with # are skipped.
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The crawl directory [default: ./HOST.crawl]
    ///
    /// If the first root names a port, the default is ./HOST-PORT.crawl. If the directory exists, the crawl resumes.
    #[arg(short = 'd', long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Start over: remove the results of the earlier crawl in the directory
    #[arg(long)]
    fresh: bool,
    /// Request the pages of a finished crawl again and report what changed
    #[arg(long)]
    recrawl: bool,
    /// Read settings from a TOML file
    ///
    /// Its keys are the long flags of this command. Flags on the command line override it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl DirectoryFlags {
    pub fn apply_to(&self, config: &mut Config, io: &mut CommandIo) {
        set!(self, io, input);
        set!(self, config, out fresh recrawl);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Scope")]
pub struct ScopeFlags {
    /// Which links to follow [default: host]
    ///
    /// page: only the roots. prefix: below the directory of a root. host: on the host of a root, with or without www.
    /// domain: on all hosts of its registrable domain, such as example.com. any: everywhere.
    #[arg(long, value_name = "SCOPE", value_parser = one_of::<ScopeKind>(ScopeKind::WORDS))]
    scope: Option<ScopeKind>,
    /// Follow only URLs that match this regular expression (repeatable: one of them must match)
    #[arg(long, value_name = "RE")]
    include: Vec<String>,
    /// Never follow URLs that match this regular expression (repeatable)
    ///
    /// Takes precedence over all other rules.
    #[arg(long, value_name = "RE")]
    exclude: Vec<String>,
    /// Follow links at most N steps from a root (0: only the roots)
    ///
    /// Redirects do not count as steps.
    #[arg(long, value_name = "N", value_parser = parse_number::<u32>)]
    depth: Option<u32>,
    /// Stop after exactly N pages
    #[arg(long, value_name = "N", value_parser = parse_number::<u64>)]
    max_pages: Option<u64>,
    /// Start no new fetch after this many bytes were received
    #[arg(long, value_name = "SIZE")]
    max_bytes: Option<Size>,
    /// Stop before the crawl directory becomes larger than this
    #[arg(long, value_name = "SIZE")]
    max_disk: Option<Size>,
    /// Stop this run after this time; fetches in flight are aborted and stay queued
    #[arg(long, value_name = "TIME")]
    max_time: Option<Span>,
    /// Also try /sitemap.xml, even if robots.txt does not name it
    #[arg(long, conflicts_with = "no_sitemap")]
    sitemap: bool,
    /// Do not read sitemaps, not even those that robots.txt names
    #[arg(long)]
    no_sitemap: bool,
    /// Also fetch images, scripts, styles and media of pages
    #[arg(long)]
    assets: bool,
    /// Hosts from which --assets fetches: those of the roots, of their domains, or any [default: any]
    #[arg(long, value_name = "SCOPE", value_parser = one_of::<AssetsScope>(AssetsScope::WORDS))]
    assets_scope: Option<AssetsScope>,
    /// Remove this parameter from links (repeatable)
    ///
    /// It is removed from the queries and paths of links and sitemap entries, but not of roots and redirect targets.
    /// @sessions and @tracking stand for lists of well-known parameters. @order sorts the remaining ones.
    #[arg(long, value_name = "NAME")]
    strip_param: Vec<String>,
    /// Follow links that are marked nofollow
    #[arg(long)]
    follow_nofollow: bool,
    /// Whether to avoid endless structures such as calendars and mazes [default: avoid]
    #[arg(long, value_name = "POLICY", value_parser = one_of::<TrapPolicy>(TrapPolicy::WORDS))]
    traps: Option<TrapPolicy>,
    /// Follow at most N links of one URL pattern that lead to nothing new [default: 4096]
    ///
    /// All budgets for endless structures scale with this number.
    #[arg(long, value_name = "N", value_parser = parse_number::<u32>)]
    trap_budget: Option<u32>,
    /// Follow links to at most N pages per host
    ///
    /// Roots and sitemap entries count, but are fetched also beyond N. With --frontier, roots do not count,
    /// and sitemap entries are limited like links.
    #[arg(long, value_name = "N", value_parser = parse_number::<u64>)]
    max_pages_per_host: Option<u64>,
}

impl ScopeFlags {
    pub fn apply_to(&self, config: &mut Config) {
        // `--sitemap` and `--no-sitemap` exclude each other: one on the command line overrides both in the file.
        if self.sitemap || self.no_sitemap {
            (config.sitemap, config.no_sitemap) = (false, false);
        }
        set!(self, config, scope include exclude depth max_pages max_bytes max_disk max_time);
        set!(self, config, sitemap no_sitemap assets assets_scope strip_param follow_nofollow);
        set!(self, config, traps trap_budget max_pages_per_host);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Pace")]
pub struct PaceFlags {
    /// Fetches in flight, over all hosts [default: 256]
    #[arg(short, long, value_name = "N", value_parser = parse_number::<usize>)]
    concurrency: Option<usize>,
    /// At most N connections (HTTP/2: streams) per host [default: 6]
    ///
    /// With --pace full the default is the value of --concurrency.
    #[arg(long, value_name = "N", value_parser = parse_number::<usize>)]
    per_host: Option<usize>,
    /// At most N connections per IP address, for hosts that share one (0: no limit) [default: 12]
    ///
    /// The default is --per-host if that is larger.
    #[arg(long, value_name = "N", value_parser = parse_number::<usize>)]
    per_ip: Option<usize>,
    /// Minimum time between two requests to a host [default: 0s]
    ///
    /// It counts from the sending of one request to the sending of the next. A number without a unit is seconds.
    #[arg(long, value_name = "TIME", value_parser = Span::from_number)]
    delay: Option<Span>,
    /// How fast a host is crawled: gentle, steady or full [default: steady]
    ///
    /// gentle: one connection with long pauses. steady: starts with two connections and adapts to the response times
    /// of the host. full: all allowed connections at once, for servers of your own.
    #[arg(long, value_name = "PACE", value_parser = one_of::<Pace>(Pace::WORDS))]
    pace: Option<Pace>,
    /// At most N pages per second, over all hosts, such as 10/s
    ///
    /// A number without a unit is per second.
    #[arg(long, value_name = "N/s", value_parser = Rate::from_number)]
    rate: Option<Rate>,
    /// Obey a Crawl-delay in robots.txt up to this time [default: 60s]
    #[arg(long, value_name = "TIME")]
    max_crawl_delay: Option<Span>,
}

impl PaceFlags {
    pub fn apply_to(&self, config: &mut Config) {
        set!(self, config, concurrency per_host per_ip delay pace rate max_crawl_delay);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Fetch")]
pub struct FetchFlags {
    /// Time limit for a whole fetch [default: 60s]
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
    /// Time limit for each of DNS, connecting and the TLS handshake [default: 10s]
    #[arg(long, value_name = "TIME")]
    connect_timeout: Option<Span>,
    /// Time limit for the response headers, and for any pause in the body [default: 20s]
    #[arg(long, value_name = "TIME")]
    idle_timeout: Option<Span>,
    /// Abort a body that arrives slower than this many bytes per second [default: 32]
    #[arg(long, value_name = "SIZE")]
    min_rate: Option<Size>,
    /// Attempts per URL, including the first [default: 4]
    #[arg(long, value_name = "N", value_parser = parse_number::<u8>)]
    max_tries: Option<u8>,
    /// Wait before the first retry; the wait doubles with each further one [default: 1s]
    #[arg(long, value_name = "TIME")]
    retry_wait: Option<Span>,
    /// Follow at most N redirects in a row [default: 10]
    #[arg(long, value_name = "N", value_parser = parse_number::<u8>)]
    max_redirects: Option<u8>,
    /// Keep at most this much of a body, after decompression [default: 10M]
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Size>,
    /// Abort responses with larger headers [default: 256K]
    #[arg(long, value_name = "SIZE")]
    max_head: Option<Size>,
    /// Ignore links that are longer than this [default: 4096]
    #[arg(long, value_name = "N", value_parser = parse_number::<usize>)]
    max_url: Option<usize>,
    /// Read at most N links per page [default: 10000]
    #[arg(long, value_name = "N", value_parser = parse_number::<usize>)]
    max_links: Option<usize>,
    /// The User-Agent header; its first word is the name looked up in robots.txt
    #[arg(short = 'A', long, value_name = "TEXT")]
    user_agent: Option<String>,
    /// A URL or mail address for site owners; added to the User-Agent header
    #[arg(long, value_name = "TEXT")]
    contact: Option<String>,
    /// Send this header to the origins of the roots only (repeatable)
    ///
    /// An origin is a scheme, a host and a port. The roots are the URLs that you give.
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Log in at the origins of the roots with a name and password
    #[arg(long, value_name = "NAME:PASSWORD")]
    user: Option<String>,
    /// Do not keep or send cookies
    #[arg(long, conflicts_with = "cookies")]
    no_cookies: bool,
    /// Start with the cookies of this file (Netscape format, as curl and browsers export it)
    #[arg(long, value_name = "FILE")]
    cookies: Option<PathBuf>,
    /// Fetch through this proxy: http://, socks5:// or socks5h://[NAME:PASSWORD@]HOST:PORT
    ///
    /// An empty value disables the proxy that the environment sets.
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
    /// HTTP version [default: auto]
    ///
    /// auto: HTTP/2 if the server offers it over TLS, otherwise HTTP/1.1. 2: HTTP/2 only, without a fallback.
    #[arg(long, value_name = "VERSION", value_parser = one_of::<HttpVersion>(HttpVersion::WORDS))]
    http: Option<HttpVersion>,
    /// Use this address for this host and port, as curl does (repeatable)
    #[arg(long, value_name = "HOST:PORT:ADDR")]
    resolve: Vec<Resolve>,
    /// Use this name server instead of the system's
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_socket_address)]
    dns: Option<SocketAddr>,
}

impl FetchFlags {
    pub fn apply_to(&self, config: &mut Config) -> Result<(), ConfigError> {
        set!(self, config, timeout connect_timeout idle_timeout min_rate max_tries retry_wait max_redirects);
        set!(self, config, max_size max_head max_url max_links user_agent contact);
        set!(self, config, no_cookies cookies proxy http resolve dns);
        let headers: Result<Vec<HeaderLine>, ConfigError> =
            self.header.iter().map(|line| parse_secret("header", line)).collect();
        headers?.set(&mut config.header);
        if let Some(user) = &self.user {
            config.user = Some(parse_secret("user", user)?);
        }
        Ok(())
    }
}

/// Parses a value that may contain a password. Unlike the error of a clap parser, the error does not repeat the value.
fn parse_secret<T: FromStr<Err = BadValue>>(key: &'static str, text: &str) -> Result<T, ConfigError> {
    text.parse().map_err(|bad: BadValue| ConfigError { key, value: "…".to_owned(), problem: bad.to_string() })
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Trust")]
pub struct TrustFlags {
    /// Whether to obey robots.txt; ignore it only on your own sites [default: obey]
    #[arg(long, value_name = "POLICY", value_parser = one_of::<RobotsPolicy>(RobotsPolicy::WORDS))]
    robots: Option<RobotsPolicy>,
    /// Follow links into private networks (a root may always be in one)
    #[arg(long)]
    allow_private: bool,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
    /// Client certificate for the servers of the roots (PEM; needs --key)
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Private key of --cert (PEM)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Do not verify certificates: any server can impersonate any host
    #[arg(short = 'k', long)]
    insecure: bool,
}

impl TrustFlags {
    pub fn apply_to(&self, config: &mut Config) {
        set!(self, config, robots allow_private ca_cert cert key insecure);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Output and resources")]
pub struct OutputFlags {
    /// Write one JSON object per URL to this file (- is standard output)
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,
    /// When the crawl ends, write a table of all pages and extracted fields to this file (- is standard output)
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// With --csv: write cells that a spreadsheet would run as formulas unchanged
    ///
    /// By default they get a leading apostrophe. Control characters are escaped in any case.
    #[arg(long)]
    raw_csv: bool,
    /// Add these parts to page records, separated by commas
    ///
    /// anchors are the texts of links; they are also added to the link graph.
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_parser = one_of::<With>(With::WORDS))]
    with: Vec<With>,
    /// Archive every response as received, in DIR/archive/*.warc.gz
    #[arg(long)]
    warc: bool,
    /// Compression of the archive [default: gzip]
    ///
    /// zstd writes *.warc.zst, which is smaller but which fewer programs read.
    #[arg(long, value_name = "FORMAT", value_parser = one_of::<WarcCompression>(WarcCompression::WORDS))]
    warc_compression: Option<WarcCompression>,
    /// Memory limit [default: a quarter of the machine's memory, or of the cgroup's limit if lower]
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<Size>,
    /// When interrupted, wait this long for fetches in flight [default: 30s]
    #[arg(long, value_name = "TIME")]
    drain_time: Option<Span>,
}

impl OutputFlags {
    pub fn apply_to(&self, config: &mut Config, io: &mut CommandIo) {
        set!(self, io, csv raw_csv);
        set!(self, config, jsonl with warc warc_compression max_memory drain_time);
    }
}

/// Parses an address to listen on. `localhost` is 127.0.0.1.
pub fn parse_listen_address(text: &str) -> Result<SocketAddr, String> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = numeric.as_deref().unwrap_or(text);
    address.parse().map_err(|_| "write ADDR:PORT, such as 127.0.0.1:8642 or [::1]:8642".to_owned())
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Watch")]
pub struct WatchFlags {
    /// Serve a dashboard, /metrics and /api/v1 at this address while the crawl runs
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_listen_address)]
    serve: Option<SocketAddr>,
    /// Ask every client of the dashboard for the token in this file
    ///
    /// Required unless ADDR is a loopback address.
    #[arg(long, value_name = "FILE")]
    serve_token_file: Option<PathBuf>,
}

impl WatchFlags {
    pub fn apply_to(&self, io: &mut CommandIo) {
        set!(self, io, serve serve_token_file);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Extract")]
pub struct ExtractFlags {
    /// Extract a field from every page: price=.price, links[]=a@href, name=jsonld:Product.name (repeatable)
    #[arg(long, value_name = "NAME=SELECTOR")]
    extract: Vec<String>,
    /// Extract fields from pages by the rules in a TOML file
    #[arg(long, value_name = "FILE")]
    extract_file: Option<PathBuf>,
    /// Add the main text to page records
    #[arg(long)]
    text: bool,
    /// Add the main text as Markdown to page records
    #[arg(long)]
    markdown: bool,
    /// The part of a page that --text and --markdown are from: main, full or a CSS selector [default: main]
    ///
    /// `main` is the main content without navigation, footers and banners. `full` is the whole page in reading order,
    /// without scripts and styles. A selector gives the elements that it matches; the element `main` is `:is(main)`.
    #[arg(long, value_name = "PART")]
    content: Option<String>,
}

impl ExtractFlags {
    pub fn apply_to(&self, config: &mut Config) {
        set!(self, config, extract extract_file text markdown content);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Engine")]
pub struct EngineFlags {
    /// How the crawler waits for many servers at once [default: tokio]
    #[arg(long, value_name = "ENGINE", value_parser = one_of::<EngineName>(EngineName::WORDS))]
    engine: Option<EngineName>,
}

impl EngineFlags {
    pub fn apply_to(&self, config: &mut Config) {
        set!(self, config, engine);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Messages")]
pub struct MessageFlags {
    /// Print only errors
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Print a line per page; -vv: also the links that are not followed
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// No live view and no progress lines; the final report stays
    #[arg(long)]
    no_progress: bool,
    /// Print messages as JSON on standard error, one object per line
    #[arg(long)]
    log_json: bool,
    /// Also write links that are not followed to --jsonl, with the reason
    #[arg(long)]
    log_skips: bool,
    /// Exit with code 3 if links are broken
    ///
    /// `broken`: the crawl directory has broken links. `new-broken`, with `--recrawl`: some of them were not broken in the
    /// round before.
    #[arg(long, value_name = "WHAT", value_enum)]
    fail_on: Option<FailOn>,
}

impl MessageFlags {
    pub fn apply_to(&self, settings: &mut CommandSettings) {
        let CommandSettings { crawl, messages, .. } = settings;
        // `--quiet` and `--verbose` exclude each other: one on the command line overrides the other in the file.
        if self.quiet {
            messages.verbose = 0;
        }
        if self.verbose > 0 {
            messages.verbose = self.verbose;
            messages.quiet = false;
        }
        set!(self, messages, quiet no_progress log_json fail_on);
        set!(self, crawl, log_skips);
    }
}
