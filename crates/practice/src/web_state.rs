//! [`WebState`]: what the threads of a running web share.

use crate::certificate::SiteTls;
use crate::http2_settings::Http2;
use crate::log::RequestLog;
use crate::site::SiteContent;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::watch;

/// State shared by all threads of a web.
pub(crate) struct WebState {
    pub(crate) sites: Vec<OpenSite>,
    pub(crate) log: Arc<RequestLog>,
    pub(crate) stop: AtomicBool,
    /// Whether responses are held no longer.
    pub(crate) released: watch::Sender<bool>,
}

/// A site that is being served.
pub(crate) struct OpenSite {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) content: SiteContent,
    pub(crate) tls: Option<SiteTls>,
    pub(crate) http2: Option<Http2>,
}
