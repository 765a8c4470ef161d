//! [`Config`]: the settings as the user writes them. [`Config::compile`] checks them and returns [`Rules`](super::Rules).
//!
//! Invariant: the keys are the long flags of the command line, plus `roots` and `auth`. Flags that only the command needs
//! are not here: its messages, its exit code, its file of roots, its table of pages and its dashboard. A missing key has
//! the documented default. Contradictory settings are rejected.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::base::value::{
    AssetsScope, Credentials, EngineName, HeaderLine, HttpVersion, Login, Pace, Rate, Resolve, RobotsPolicy, ScopeKind,
    Size, Span, TrapPolicy, WarcCompression, With, bare_number, optional_bare_number,
};

/// All settings of a crawl. `docs/flags.md` describes each of them. Build it in code, or read it from a file:
///
/// ```
/// use argiope_core::crawl::rules::{Config, Span};
///
/// let config = Config { roots: vec!["https://example.com/".into()], delay: Span::from_millis(500), ..Config::default() };
/// // The argument is the key of fingerprints. A real crawl uses a random number.
/// let rules = config.compile(0).unwrap();
/// assert_eq!(rules.roots[0].candidates[0].host(), "example.com");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Config {
    /// URLs to start from, or host names (tried as https, then http).
    pub roots: Vec<String>,

    // Where
    /// The crawl directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<PathBuf>,
    /// Removes the results of an earlier crawl in the directory.
    pub fresh: bool,
    /// Requests the pages of a finished crawl again.
    pub recrawl: bool,

    // Scope
    /// Which links are followed.
    pub scope: ScopeKind,
    /// Regular expressions. If there are any, only URLs that match one of them are followed.
    pub include: Vec<String>,
    /// Regular expressions. URLs that match one of them are not followed. They take precedence over all other rules.
    pub exclude: Vec<String>,
    /// How many links from a root are followed in a row; 0 for only the roots. Redirects do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The crawl ends after exactly this many pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pages: Option<u64>,
    /// No fetch starts after this many bytes were received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<Size>,
    /// The crawl ends before the crawl directory becomes larger than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_disk: Option<Size>,
    /// The run ends after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Span>,
    /// Also reads `/sitemap.xml`, which robots.txt need not name.
    pub sitemap: bool,
    /// Reads no sitemaps, not even those that robots.txt names.
    pub no_sitemap: bool,
    /// Also fetches images, scripts, styles and media of pages.
    pub assets: bool,
    /// The hosts from which `assets` fetches.
    pub assets_scope: AssetsScope,
    /// Names of parameters that are removed from the URLs in pages and sitemaps. `@sessions` and `@tracking` stand for
    /// lists of well-known parameters. `@order` sorts the remaining ones.
    pub strip_param: Vec<String>,
    /// Follows links that are marked nofollow.
    pub follow_nofollow: bool,
    /// Whether endless structures such as calendars and mazes are avoided.
    pub traps: TrapPolicy,
    /// How many links of one pattern are followed while they lead to nothing new. All budgets for endless structures
    /// scale with this number.
    pub trap_budget: u32,
    /// The number of pages that are fetched from one host at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pages_per_host: Option<u64>,

    // Pace
    /// Limit on fetches in flight, over all hosts.
    pub concurrency: usize,
    /// Limit on fetches in flight to one host. Default: 6, or `concurrency` with pace `full`. With pace `gentle` it is
    /// always 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_host: Option<usize>,
    /// Limit on fetches in flight to one IP address. Default: 12, or `per_host` if that is more. 0 is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_ip: Option<usize>,
    /// Minimum time between two requests to a host, from the sending of one to the sending of the next.
    #[serde(deserialize_with = "bare_number")]
    pub delay: Span,
    /// How fast requests are sent to one host.
    pub pace: Pace,
    /// Limit on pages a second, over all hosts.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_bare_number")]
    pub rate: Option<Rate>,
    /// A longer Crawl-delay is shortened to this.
    pub max_crawl_delay: Span,

    // Fetch
    /// Time limit for a whole fetch.
    pub timeout: Span,
    /// Time limit for the DNS lookup, for connecting and for the TLS handshake, each.
    pub connect_timeout: Span,
    /// Time limit for the response headers, and for any pause in the body.
    pub idle_timeout: Span,
    /// A fetch ends if its body arrives slower than this many bytes a second.
    pub min_rate: Size,
    /// Attempts per URL, including the first.
    pub max_tries: u8,
    /// Wait before the first retry. It doubles with each further one.
    pub retry_wait: Span,
    /// Limit on the redirects that are followed in a row.
    pub max_redirects: u8,
    /// Limit on the bytes that are kept of a body, after decompression.
    pub max_size: Size,
    /// Limit on the bytes of the response headers. A response with more fails.
    pub max_head: Size,
    /// Limit on the bytes of a URL. Longer links are not followed.
    pub max_url: usize,
    /// Limit on the links that are read from a page.
    pub max_links: usize,
    /// The `User-Agent` header. robots.txt rules refer to its first word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// A URL or mail address for site owners, added to the `User-Agent` header.
    pub contact: Option<String>,
    // Secrets are read but never written, because settings are stored in records and crawl directories.
    /// Headers that are sent to the origins of the roots only.
    #[serde(skip_serializing)]
    pub header: Vec<HeaderLine>,
    /// Name and password for the origins of the roots.
    #[serde(skip_serializing)]
    pub user: Option<Credentials>,
    /// Logins for single origins. There is no flag for them.
    #[serde(skip_serializing)]
    pub auth: Vec<Login>,
    /// Cookies are neither kept nor sent.
    pub no_cookies: bool,
    /// A file of cookies to start with, in Netscape format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookies: Option<PathBuf>,
    /// The URL of a proxy for all requests. An empty value disables the proxy that the environment sets.
    #[serde(skip_serializing)]
    pub proxy: Option<String>,
    /// Which version of HTTP is used.
    pub http: HttpVersion,
    /// Addresses to use for hosts in place of a DNS lookup.
    pub resolve: Vec<Resolve>,
    /// The name server to use in place of that of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<SocketAddr>,

    // Trust
    /// Whether robots.txt is obeyed.
    pub robots: RobotsPolicy,
    /// Follows links into private networks. A root may always be in one.
    pub allow_private: bool,
    /// A PEM file of certificate authorities to trust in addition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_cert: Option<PathBuf>,
    /// A PEM file with the client certificate for the servers of the roots. Needs `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// A PEM file with the private key of `cert`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Certificates are not verified, so any server can impersonate any host.
    pub insecure: bool,

    // Keep
    /// The file that gets one JSON object per URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jsonl: Option<PathBuf>,
    /// Parts that are added to page records.
    pub with: Vec<With>,
    /// Archives every response as received, in the folder `archive` of the crawl directory.
    pub warc: bool,
    /// How the archive is compressed.
    pub warc_compression: WarcCompression,

    // Extract
    /// Fields to extract from pages: `NAME=SELECTOR`.
    pub extract: Vec<String>,
    /// A file of rules for extraction, which can also have types and items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract_file: Option<PathBuf>,
    /// Records include the main text of the page.
    pub text: bool,
    /// Records include the main text of the page as Markdown.
    pub markdown: bool,
    /// The part of the page that the text is from: `main`, `full` or a CSS selector.
    pub content: String,

    /// Memory limit. Default: a quarter of the memory of the machine, or of the limit of the cgroup if that is lower.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory: Option<Size>,
    /// How long an interrupted crawl waits for requests in flight.
    pub drain_time: Span,

    // Engine
    /// How the crawler waits for sockets.
    pub engine: EngineName,

    /// A record is written for each link that is not followed.
    pub log_skips: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            out: None,
            fresh: false,
            recrawl: false,
            scope: ScopeKind::Host,
            include: Vec::new(),
            exclude: Vec::new(),
            depth: None,
            max_pages: None,
            max_bytes: None,
            max_disk: None,
            max_time: None,
            sitemap: false,
            no_sitemap: false,
            assets: false,
            assets_scope: AssetsScope::default(),
            strip_param: Vec::new(),
            follow_nofollow: false,
            traps: TrapPolicy::Avoid,
            trap_budget: 4_096,
            max_pages_per_host: None,
            concurrency: 256,
            per_host: None,
            per_ip: None,
            delay: Span::default(),
            pace: Pace::Steady,
            rate: None,
            max_crawl_delay: Span::from_secs(60),
            timeout: Span::from_secs(60),
            connect_timeout: Span::from_secs(10),
            idle_timeout: Span::from_secs(20),
            min_rate: Size(32),
            max_tries: 4,
            retry_wait: Span::from_secs(1),
            max_redirects: 10,
            max_size: Size(10 << 20),
            max_head: Size(256 << 10),
            max_url: 4096,
            max_links: 10_000,
            user_agent: None,
            contact: None,
            header: Vec::new(),
            user: None,
            auth: Vec::new(),
            no_cookies: false,
            cookies: None,
            proxy: None,
            http: HttpVersion::Auto,
            resolve: Vec::new(),
            dns: None,
            robots: RobotsPolicy::Obey,
            allow_private: false,
            ca_cert: None,
            cert: None,
            key: None,
            insecure: false,
            jsonl: None,
            with: Vec::new(),
            warc: false,
            warc_compression: WarcCompression::default(),
            extract: Vec::new(),
            extract_file: None,
            text: false,
            markdown: false,
            content: "main".to_owned(),
            max_memory: None,
            drain_time: Span::from_secs(30),
            engine: EngineName::Tokio,
            log_skips: false,
        }
    }
}

impl Config {
    /// Every key that a configuration file may have, aliases included.
    pub fn keys() -> &'static [&'static str] {
        let mut keys: &'static [&'static str] = &[];
        // The derived code passes the field names to the deserializer, which records them and fails.
        let _ = Self::deserialize(FieldRecorder { fields: &mut keys });
        keys
    }
}

/// A deserializer that records the field names of a struct and fails.
struct FieldRecorder<'a> {
    fields: &'a mut &'static [&'static str],
}

impl<'de> serde::Deserializer<'de> for FieldRecorder<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_struct<V: serde::de::Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.fields = fields;
        Err(serde::de::Error::custom("only the field names are needed"))
    }

    fn deserialize_any<V: serde::de::Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("only the field names are needed"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
