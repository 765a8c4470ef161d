//! Settings with a fixed set of values.

use crate::words;

words! {
    /// How fast requests are sent to one host.
    #[derive(Default)]
    Pace {
        /// One connection. After each response, a pause of 1 s, or of five times the response time if that is longer.
        Gentle = "gentle",
        /// As many connections as the host serves without becoming slower. The number is found by experiment.
        #[default]
        Steady = "steady",
        /// All allowed connections at once.
        Full = "full",
    }

    /// Which version of HTTP is used.
    #[derive(Default)]
    HttpVersion {
        /// HTTP/2 if TLS negotiates it, otherwise HTTP/1.1.
        #[default]
        Auto = "auto",
        /// HTTP/1.1 only.
        Http1 = "1.1",
        /// HTTP/2 without fallback. Over http, it starts with prior knowledge (RFC 9113, 3.3).
        Http2 = "2",
    }

    /// Whether robots.txt is obeyed.
    #[derive(Default)]
    RobotsPolicy {
        /// Pages that robots.txt disallows are not fetched.
        #[default]
        Obey = "obey",
        /// Pages are fetched whatever robots.txt says.
        Ignore = "ignore",
    }

    /// Whether the crawl avoids endless sites.
    #[derive(Default)]
    TrapPolicy {
        /// Budgets limit what is fetched from endless structures.
        #[default]
        Avoid = "avoid",
        /// There are no such budgets.
        Ignore = "ignore",
    }

    /// A kind of link that is followed only if it is asked for.
    Follow {
        /// Addresses in the data that scripts of a page contain.
        Data = "data",
    }

    /// What a crawl is limited to.
    Only {
        /// The roots and the pages that sitemaps list.
        Sitemap = "sitemap",
    }

    /// An optional part of page records and of the link graph, as set by `--with`.
    With {
        /// The response headers.
        Headers = "headers",
        /// The links that were found.
        Links = "links",
        /// The texts of links: in the link graph, and in records that list links.
        Anchors = "anchors",
        /// A record for each request of a rendered page.
        Requests = "requests",
    }

    /// Which hosts are asked for a page that does not exist.
    #[derive(Default)]
    Soft404 {
        /// Those with two pages of nearly the same text.
        #[default]
        Auto = "auto",
        /// Those with an HTML page.
        Always = "always",
        /// None.
        Never = "never",
    }

    /// Which pages are rendered in a browser.
    #[derive(Default)]
    RenderMode {
        /// None.
        #[default]
        Never = "never",
        /// Those of templates where samples show that it adds links or text.
        Auto = "auto",
        /// All HTML pages.
        Always = "always",
    }

    /// What is done with a rendered page after the load to find more.
    #[derive(Default)]
    Interact {
        /// Nothing.
        None = "none",
        /// The page is scrolled until nothing new appears, at most five screens.
        #[default]
        Scroll = "scroll",
        /// It is scrolled, and then elements that act on a click are clicked, at most fifty.
        Click = "click",
    }

    /// The engine: how the crawler waits for sockets.
    #[derive(Default)]
    EngineName {
        /// Coroutines on the tokio runtime.
        #[default]
        Tokio = "tokio",
        /// Coroutines on an executor of the crawler.
        Coroutines = "coroutines",
        /// An event loop that calls a function for each event of a socket.
        Callbacks = "callbacks",
        /// One thread per fetch in flight, with blocking sockets.
        Threads = "threads",
        /// io_uring; Linux only.
        Uring = "uring",
    }
}

words! {
    /// How the records of an archive are compressed.
    #[derive(Default)]
    WarcCompression {
        /// Gzip, which every reader of archives supports.
        #[default]
        Gzip = "gzip",
        /// Zstandard, which is smaller and faster, and which fewer programs read.
        Zstd = "zstd",
    }

    /// How bodies are digested. All records of a crawl directory use the same algorithm.
    #[derive(Default)]
    DigestAlgorithm {
        /// XXH3 with 128 bits: fast, and sufficient to recognise pages that have not changed.
        #[default]
        Xxh3 = "xxh3",
        /// SHA-256. Nobody can make two bodies with the same digest, so an archive can store a body once.
        Sha256 = "sha256",
    }

    /// Which hosts resources of pages are fetched from.
    #[derive(Default)]
    AssetsScope {
        /// The hosts of the roots.
        Host = "host",
        /// All hosts of the registrable domains of the roots.
        Domain = "domain",
        /// All hosts.
        #[default]
        Any = "any",
    }
}

words! {
    /// How far from the roots links are followed.
    #[derive(Default)]
    ScopeKind {
        /// The roots only.
        Page = "page",
        /// URLs below a root's directory.
        Prefix = "prefix",
        /// The same host name, with or without `www.`, on any port and scheme.
        #[default]
        Host = "host",
        /// The same registrable domain.
        Domain = "domain",
        /// Everything.
        Any = "any",
    }
}
