//! The library of Argiope, a polite, exact and fast web crawler.
//!
//! A crawl is a stream of pages that accepts more links while it runs:
//!
//! ```
//! # async fn run(root: String) -> Result<(), argiope::Error> {
//! let mut crawl = argiope::Crawl::builder(root).max_pages(100).start().await?;
//! while let Some(page) = crawl.next().await {
//!     println!("{} {:?} {:?}", page.url(), page.title(), page.select_text("h1")?);
//! }
//! println!("{} URLs left", crawl.close().await?.left);
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | read fields of a page | [`Page::select`], [`Page::extract`], [`Page::json_ld`], [`Page::json`] |
//! | list its links, and follow some of them | [`Page::links`], [`Crawl::follow`] |
//! | read its text | [`Page::text`], [`Page::markdown`] |
//! | decide which links are followed, and in which order | [`CrawlBuilder::follow`], [`CrawlBuilder::judge`], [`CrawlBuilder::include`], [`CrawlBuilder::scope`] |
//! | fetch addresses that you find yourself | [`Crawl::feed`] with a [`Request`] |
//! | do so from another task or thread | [`Crawl::handle`] |
//! | send forms, headers and priorities, log in | [`Request::form`], [`Request::from_form`], [`Request::header`] |
//! | inspect or change requests and responses | [`CrawlBuilder::on_request`], [`CrawlBuilder::on_response`] |
//! | write bodies to files while they arrive | [`CrawlBuilder::stream_body`] |
//! | look host names up yourself | [`CrawlBuilder::resolve_with`] |
//! | decide what is tried again | [`CrawlBuilder::retry_if`] |
//! | answer requests from a cache | [`CrawlBuilder::answer_with`] |
//! | trust certificates, identify yourself with one | [`CrawlBuilder::trust_certificates`], [`CrawlBuilder::client_certificate`] |
//! | write without async | [`CrawlBuilder::start_blocking`] |
//! | process pages in batches or in parallel, and lose none | [`Crawl::next_batch`], [`Crawl::next_acked`], [`Ack`] |
//! | push pages to an output of your own | [`CrawlBuilder::for_each`], or [`Sink`] and [`CrawlBuilder::run`] |
//! | store URLs yourself | [`Store`] and [`CrawlBuilder::run_with_store`] |
//! | run many crawls in one process | [`Crawler`] |
//! | see and control a running crawl | [`CrawlHandle::status`], [`CrawlHandle::pause`] |
//! | crawl what strangers name | [`CrawlBuilder::refuse_private_roots`] |
//! | resume after an interruption | [`CrawlBuilder::directory`] |
//! | test code that takes pages | [`Page::builder`] |
//! | test a crawl without a network, or repeat an archived one | [`CrawlBuilder::with_transport`], [`CannedWeb`], [`Replay`] |

//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `tracing` | events for the crate `tracing`, with the target `argiope`: start and end of a crawl (info), each page (debug), failed pages (warn) and the error that ended a crawl (error) |

#![deny(missing_docs)]

mod ack;
mod block_on;
mod blocking;
mod builder;
mod builder_hooks;
mod crawl;
mod crawler;
mod ending;
mod events;
mod feed;
mod form;
mod handle;
mod hooks;
mod library_messages;
mod own_answers;
mod own_resolver;
mod page;
mod page_builder;
mod page_links;
mod replay;
mod request;
mod settings;
mod sink;

pub use ack::Ack;
pub use argiope_content::{
    Article, ContentPart, DataPath, Document, Element, Extraction, PageText, RuleError, SelectError, Selector,
    TextRequest,
};
pub use argiope_core::base::custom_request::{CustomRequest, Method};
pub use argiope_core::crawl::canned::{CannedResponse, CannedWeb};
pub use argiope_core::crawl::hooks::{
    BodyWriter, InvalidHeader, InvalidTarget, OutgoingRequest, PageAttempt, ResponseStart, RetryChoice,
};
pub use argiope_core::crawl::rules::{Config, ConfigError, Pace, RenderMode, RobotsPolicy, ScopeKind};
pub use argiope_core::crawl::schedule::keeper::End;
pub use argiope_core::crawl::visit::{Facts, PageFindings, Timings};
pub use argiope_core::page::follow::{LinkVerdict, PageLink};
pub use argiope_core::page::reader::DeliveredBodies;
pub use argiope_core::{
    BadUrl, ErrorKind, FailedPart, Failure, Frontier, Link, LinkKind, Outcome, TlsFault, Truncated, Url,
};
pub use argiope_runtime::keeper_thread::MemoryFrontier;
pub use argiope_runtime::keeper_thread::Summary;
pub use argiope_runtime::{Error, Store};
pub use blocking::Pages;
pub use builder::{CrawlBuilder, Seed};
pub use crawl::{AckedPages, Crawl, Delivery};
pub use crawler::Crawler;
pub use feed::{Fed, FeedReport, Feeding};
pub use handle::{CrawlHandle, CrawlHold};
pub use hooks::LinkingPage;
pub use page::Page;
pub use page_builder::PageBuilder;
pub use page_links::LinkedUrl;
pub use replay::Replay;
pub use request::{IntoRequest, Request};
pub use sink::{Sink, SinkError};

/// The types of the fields of a [`Config`]. Most of them can be parsed from the same text as the flags of the command.
pub mod config {
    // `With`: which optional parts page records have (headers, links, texts of links), as set by `--with`.
    pub use argiope_core::crawl::rules::{
        AssetsScope, BadValue, Bearer, Credentials, DigestAlgorithm, EngineName, Follow, HeaderLine, HttpVersion,
        Login, Only, Rate, Resolve, SinceDate, Size, Span, TrapPolicy, WarcCompression, With,
    };
}

/// The record of a page, see [`Page::record`], and the types of its fields.
pub mod record {
    pub use argiope_core::base::digest::BodyDigest;
    pub use argiope_core::crawl::record::{CrawlRecord, Millis, RecordedLink};
    pub use argiope_core::crawl::rules::DigestAlgorithm;
    pub use argiope_core::crawl::warc::{WarcLocation, WarcPayload};
    pub use argiope_core::page::examine::OpenGraph;
    pub use argiope_core::page::likeness::MinHash;
}

/// The state of a running crawl: the result of [`CrawlHandle::status`].
pub mod status {
    pub use argiope_core::crawl::status::{
        CrawlState, CurrentFetch, HostStatus, HostWait, MemoryPart, OutcomeCounts, RecentError, Status, WaitReason,
        WidthReason,
    };
}

/// The types in the methods of a transport: see [`CrawlBuilder::with_transport`].
pub mod transport {
    pub use argiope_core::base::job::Job;
    pub use argiope_core::base::time::{Time, WallClock};
    pub use argiope_core::crawl::response::WholeResponse;
    pub use argiope_core::crawl::transport::{Transport, placeholder_address};
    pub use argiope_core::http::address::DnsResult;
}

/// The traits of a [`Store`], and the types in their methods. A store of your own implements [`Frontier`];
/// [`History`](store::History) and [`Commits`](store::Commits) have defaults for all methods.
///
/// Unstable: the crawler uses these traits internally, for stores in memory, on disk and on many machines. They may
/// change in any release.
pub mod store {
    pub use argiope_core::base::job::LaneId;
    pub use argiope_core::base::link::{ALREADY_SENT, LinkRef, UrlHash};
    pub use argiope_core::base::url::UrlRef;
    pub use argiope_core::crawl::schedule::frontier::{
        Counts, CrawlEvent, FinalOutcome, FoundEdges, Frontier, FrontierNews, FrontierWaker, History, NewHosts, News,
        Placement, QueuedLane, ReturnTo, SettledSubject, Settlement, Standing, StoreError, StoreErrorKind,
    };
    pub use argiope_core::crawl::schedule::keeper::ArchiveChunk;
    pub use argiope_core::crawl::schedule::store_error::Remedy;
    pub use argiope_core::crawl::warc::WarcLocation;
    pub use argiope_core::{LinkList, Time};
    pub use argiope_runtime::Commits;
}

/// Turns the examples of the README into doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Turns the examples of the book's page on tests into doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/howto/library-tests.md")]
struct LibraryTests;
