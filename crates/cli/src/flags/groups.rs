//! The flags, in groups. Each group can lay itself over a [`Config`]: what was said on the command line wins over the
//! configuration file, what was said there over the defaults.
//!
//! Invariant: every flag fills the key of the same name; nothing is checked here that [`Config::compile`] checks.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use argiope_core::rules::{
    BadValue, Breadth, Config, ConfigError, EngineName, FailOn, HeaderLine, Pace, Rate, Resolve, RobotsPolicy, Size,
    Span, TrapPolicy, With,
};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};

/// How one flag changes one setting.
trait ApplyFlag<T> {
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

/// A list on the command line replaces that of the file: otherwise there would be no way to leave something out.
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

macro_rules! lay {
    ($flags:expr, $config:expr, $($name:ident)*) => { $($flags.$name.set(&mut $config.$name);)* };
}

/// A parser for a closed set of words, so that help, completions and messages know them.
pub fn one_of<T>(words: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = BadValue> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>())
}

/// Whole numbers, with a message that says so.
fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| match text.parse::<i128>() {
        Ok(_) => "this number is out of range; write a whole number, such as 10".to_owned(),
        Err(_) => "write a whole number, such as 10".to_owned(),
    })
}

fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write ADDR:PORT, such as 192.0.2.53:53 or [2001:db8::53]:53".to_owned())
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Where")]
pub struct DirectoryFlags {
    /// Read roots from a file, one a line (`-` is standard input; blank lines and # comments are skipped)
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The crawl directory [default: ./HOST.crawl, or ./HOST-PORT.crawl where the first root names a port]
    #[arg(short = 'd', long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Start over: remove what an earlier crawl left in the directory
    #[arg(long)]
    fresh: bool,
    /// Ask again for the pages of a finished crawl, to see what has changed
    #[arg(long)]
    recrawl: bool,
    /// Read settings from a TOML file; its keys are these long flags, and flags given here win
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl DirectoryFlags {
    pub fn apply_to(&self, config: &mut Config) {
        lay!(self, config, input out fresh recrawl);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Scope")]
pub struct ScopeFlags {
    /// How far links are followed: only the roots; below their directory; on their host (www. counts as equal);
    /// on their registrable domain; anywhere [default: host]
    #[arg(long, value_name = "SCOPE", value_parser = one_of::<Breadth>(Breadth::WORDS))]
    scope: Option<Breadth>,
    /// Stay on the roots' hosts: --scope host
    #[arg(long, conflicts_with_all = ["scope", "lenient"])]
    strict: bool,
    /// Follow links to other hosts of the same domain: --scope domain
    #[arg(long, conflicts_with = "scope")]
    lenient: bool,
    /// Follow only links whose URL matches this regular expression, or another one given so (repeatable)
    #[arg(long, value_name = "RE")]
    include: Vec<String>,
    /// Never follow links whose URL matches this regular expression (repeatable; wins over everything)
    #[arg(long, value_name = "RE")]
    exclude: Vec<String>,
    /// Follow links at most N steps from a root (0 is the roots alone; redirects cost nothing)
    #[arg(long, value_name = "N", value_parser = number::<u32>)]
    depth: Option<u32>,
    /// Fetch exactly N pages and no more
    #[arg(long, value_name = "N", value_parser = number::<u64>)]
    max_pages: Option<u64>,
    /// Start no fetch once this much has come over the wire
    #[arg(long, value_name = "SIZE")]
    max_bytes: Option<Size>,
    /// Stop after this time; what is in flight stays queued
    #[arg(long, value_name = "TIME")]
    max_time: Option<Span>,
    /// Also try /sitemap.xml where robots.txt names no sitemap
    #[arg(long, conflicts_with = "no_sitemap")]
    sitemap: bool,
    /// Read no sitemaps, not even those that robots.txt names
    #[arg(long)]
    no_sitemap: bool,
    /// Also fetch what pages are made of: images, scripts, styles, media
    #[arg(long)]
    assets: bool,
    /// Take this parameter out of the query of every URL (repeatable); @sessions and @tracking stand for well-known
    /// ones, @order sorts what is left
    #[arg(long, value_name = "NAME")]
    strip_param: Vec<String>,
    /// Follow links that are marked nofollow
    #[arg(long)]
    follow_nofollow: bool,
    /// Whether budgets keep the crawl out of what has no end: calendars, facets, mazes [default: avoid]
    #[arg(long, value_name = "POLICY", value_parser = one_of::<TrapPolicy>(TrapPolicy::WORDS))]
    traps: Option<TrapPolicy>,
    /// How many links may be followed of one pattern that bring nothing new; all budgets grow with it [default: 4096]
    #[arg(long, value_name = "N", value_parser = number::<u32>)]
    trap_budget: Option<u32>,
    /// Take up at most N pages of one host
    #[arg(long, value_name = "N", value_parser = number::<u64>)]
    max_pages_per_host: Option<u64>,
}

impl ScopeFlags {
    pub fn apply_to(&self, config: &mut Config) {
        // One of these settles it, whichever the file had.
        if self.scope.is_some() || self.strict || self.lenient {
            (config.strict, config.lenient) = (false, false);
        }
        if self.sitemap || self.no_sitemap {
            (config.sitemap, config.no_sitemap) = (false, false);
        }
        lay!(self, config, scope strict lenient include exclude depth max_pages max_bytes max_time);
        lay!(self, config, sitemap no_sitemap assets strip_param follow_nofollow);
        lay!(self, config, traps trap_budget max_pages_per_host);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Pace")]
pub struct PaceFlags {
    /// Fetches in flight, over all hosts [default: 256]
    #[arg(short, long, visible_alias = "max-tasks", value_name = "N", value_parser = number::<usize>)]
    concurrency: Option<usize>,
    /// Connections to one host at most [default: 6; with --pace full as many as --concurrency]
    #[arg(long, value_name = "N", value_parser = number::<usize>)]
    per_host: Option<usize>,
    /// Connections to one IP address at most, however many hosts it serves (0 is no cap) [default: 12, or --per-host
    /// where that is more]
    #[arg(long, value_name = "N", value_parser = number::<usize>)]
    per_ip: Option<usize>,
    /// Time from the start of one request to a host to the start of the next [default: 0s]
    #[arg(long, visible_alias = "wait", value_name = "TIME")]
    delay: Option<Span>,
    /// How hard a host is asked. gentle: one connection, with long pauses. steady: two connections, more while the host
    /// stays quick, fewer when it does not. full: as many as allowed at once, for servers of your own
    /// [default: steady]
    #[arg(long, value_name = "PACE", value_parser = one_of::<Pace>(Pace::WORDS))]
    pace: Option<Pace>,
    /// Pages a second at most, over all hosts, such as 10/s
    #[arg(long, value_name = "N/s")]
    rate: Option<Rate>,
    /// Obey a Crawl-delay in robots.txt up to this [default: 60s]
    #[arg(long, value_name = "TIME")]
    max_crawl_delay: Option<Span>,
}

impl PaceFlags {
    pub fn apply_to(&self, config: &mut Config) {
        lay!(self, config, concurrency per_host per_ip delay pace rate max_crawl_delay);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Fetch")]
pub struct FetchFlags {
    /// Give up a fetch that takes longer than this [default: 60s]
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
    /// Time for finding the address, for connecting and for the TLS handshake, each [default: 10s]
    #[arg(long, value_name = "TIME")]
    connect_timeout: Option<Span>,
    /// Time for the head of an answer, and for any pause in its body [default: 20s]
    #[arg(long, value_name = "TIME")]
    idle_timeout: Option<Span>,
    /// Give up a body that comes in slower than this many bytes a second [default: 32]
    #[arg(long, value_name = "SIZE")]
    min_rate: Option<Size>,
    /// Attempts at one URL, the first included [default: 4]
    #[arg(long, value_name = "N", value_parser = number::<u8>)]
    max_tries: Option<u8>,
    /// Wait before the second attempt; doubles with every further one [default: 1s]
    #[arg(long, value_name = "TIME")]
    retry_wait: Option<Span>,
    /// Redirects in a row that are followed [default: 10]
    #[arg(long, value_name = "N", value_parser = number::<u8>)]
    max_redirects: Option<u8>,
    /// Keep at most this much of a body, after decompression [default: 10M]
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Size>,
    /// Give up answers with a larger head [default: 256K]
    #[arg(long, value_name = "SIZE")]
    max_head: Option<Size>,
    /// Ignore links that are longer than this [default: 4096]
    #[arg(long, value_name = "N", value_parser = number::<usize>)]
    max_url: Option<usize>,
    /// Read at most this many links of a page [default: 10000]
    #[arg(long, value_name = "N", value_parser = number::<usize>)]
    max_links: Option<usize>,
    /// The User-Agent header; its first word is the name that robots.txt is searched for
    #[arg(short = 'A', long, value_name = "TEXT")]
    user_agent: Option<String>,
    /// Where site owners can reach you, a URL or mail address: goes into the User-Agent header
    #[arg(long, value_name = "TEXT")]
    contact: Option<String>,
    /// Send this header to the roots' own origins, and to nobody else (repeatable)
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    header: Vec<HeaderLine>,
    /// Log in at the roots' own origins with a name and password
    #[arg(long, value_name = "NAME:PASSWORD")]
    user: Option<String>,
    /// Neither keep nor send cookies
    #[arg(long, conflicts_with = "cookies")]
    no_cookies: bool,
    /// Start with the cookies of this file (as browsers and curl export them)
    #[arg(long, value_name = "FILE")]
    cookies: Option<PathBuf>,
    /// Fetch through this proxy: http://, socks5:// or socks5h://[NAME:PASSWORD@]HOST:PORT; empty is none, whatever the
    /// environment says
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
    /// Use this address for this host and port instead of looking it up, as with curl (repeatable)
    #[arg(long, value_name = "HOST:PORT:ADDR")]
    resolve: Vec<Resolve>,
    /// Ask this name server instead of the system's
    #[arg(long, value_name = "ADDR:PORT", value_parser = socket)]
    dns: Option<SocketAddr>,
}

impl FetchFlags {
    pub fn apply_to(&self, config: &mut Config) -> Result<(), ConfigError> {
        lay!(self, config, timeout connect_timeout idle_timeout min_rate max_tries retry_wait max_redirects);
        lay!(self, config, max_size max_head max_url max_links user_agent contact header);
        lay!(self, config, no_cookies cookies proxy resolve dns);
        if let Some(user) = &self.user {
            // Read here, so that a message about it does not repeat a password.
            let credentials = user.parse().map_err(|bad: BadValue| ConfigError {
                key: "user",
                value: "…".to_owned(),
                problem: bad.to_string(),
            })?;
            config.user = Some(credentials);
        }
        Ok(())
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Trust")]
pub struct TrustFlags {
    /// Whether robots.txt is obeyed; ignore it only on sites of your own [default: obey]
    #[arg(long, value_name = "POLICY", value_parser = one_of::<RobotsPolicy>(RobotsPolicy::WORDS))]
    robots: Option<RobotsPolicy>,
    /// Ignore robots.txt: --robots ignore
    #[arg(long, conflicts_with = "robots")]
    no_robots: bool,
    /// Follow links into private networks too (a root that you name may always be there)
    #[arg(long)]
    allow_private: bool,
    /// Trust the certificate authorities of this PEM file as well
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
    /// Show this client certificate to the roots' own servers, where they ask for one (PEM; with --key)
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// The private key of --cert (PEM)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Accept any certificate: no protection against anyone in between
    #[arg(short = 'k', long)]
    insecure: bool,
}

impl TrustFlags {
    pub fn apply_to(&self, config: &mut Config) {
        if self.robots.is_some() {
            config.no_robots = false;
        }
        lay!(self, config, robots no_robots allow_private ca_cert cert key insecure);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Keep")]
pub struct OutputFlags {
    /// Write one JSON object a line for every page (`-` is standard output)
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,
    /// Add these to page records
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_parser = one_of::<With>(With::WORDS))]
    with: Vec<With>,
    /// Archive every answer as it came over the wire, in DIR/archive/*.warc.gz
    #[arg(long)]
    warc: bool,
    /// Stay below this much memory [default: a quarter of the machine's]
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<Size>,
    /// When interrupted, wait this long for fetches in flight [default: 30s]
    #[arg(long, value_name = "TIME")]
    drain_time: Option<Span>,
}

impl OutputFlags {
    pub fn apply_to(&self, config: &mut Config) {
        lay!(self, config, jsonl with warc max_memory drain_time);
    }
}

/// An address to listen at. `localhost` is 127.0.0.1.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = numeric.as_deref().unwrap_or(text);
    address.parse().map_err(|_| "write ADDR:PORT, such as 127.0.0.1:8642 or [::1]:8642".to_owned())
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Watch")]
pub struct WatchFlags {
    /// Serve a dashboard, /metrics and /api/v1 at this address while the crawl runs
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen)]
    serve: Option<SocketAddr>,
    /// Ask every client of the dashboard for the token in this file; required unless ADDR is loopback
    #[arg(long, value_name = "FILE")]
    serve_token_file: Option<PathBuf>,
}

impl WatchFlags {
    pub fn apply_to(&self, config: &mut Config) {
        lay!(self, config, serve serve_token_file);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Extract")]
pub struct ExtractFlags {
    /// Take a field out of every page: price=.price, links[]=a@href, name=jsonld:Product.name (repeatable)
    #[arg(long, value_name = "NAME=SELECTOR")]
    extract: Vec<String>,
    /// Take fields out of pages by a file of rules (TOML)
    #[arg(long, value_name = "FILE")]
    extract_file: Option<PathBuf>,
    /// Add the main text to page records
    #[arg(long)]
    text: bool,
    /// Add the main text as Markdown to page records
    #[arg(long)]
    markdown: bool,
}

impl ExtractFlags {
    pub fn apply_to(&self, config: &mut Config) {
        lay!(self, config, extract extract_file text markdown);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Engine")]
pub struct EngineFlags {
    /// The way of waiting for many servers at once [default: tokio]
    #[arg(long, value_name = "ENGINE", value_parser = one_of::<EngineName>(EngineName::WORDS))]
    engine: Option<EngineName>,
}

impl EngineFlags {
    pub fn apply_to(&self, config: &mut Config) {
        lay!(self, config, engine);
    }
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Tell")]
pub struct MessageFlags {
    /// Say nothing but errors
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more: a line for every page; twice for what was skipped as well
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// No live view and no progress lines; the report at the end stays
    #[arg(long)]
    no_progress: bool,
    /// Write what is said as JSON, one object a line, on standard error
    #[arg(long)]
    log_json: bool,
    /// Record the links that were not followed too, with the reason
    #[arg(long)]
    log_skips: bool,
    /// End with exit code 3 where broken links were found
    #[arg(long, value_name = "WHAT", value_parser = one_of::<FailOn>(FailOn::WORDS))]
    fail_on: Option<FailOn>,
}

impl MessageFlags {
    pub fn apply_to(&self, config: &mut Config) {
        if self.quiet {
            config.verbose = 0;
        }
        if self.verbose > 0 {
            config.verbose = self.verbose;
            config.quiet = false;
        }
        lay!(self, config, quiet no_progress log_json log_skips fail_on);
    }
}
