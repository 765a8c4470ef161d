//! [`Server`]: the listening thread and its routes.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Extension;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::oneshot;

use crate::api::{self, App};
use crate::guard::Access;
use crate::hub::Hub;
use crate::places::Places;
use crate::{CrawlSource, MIN_TOKEN, ServerOptions};

/// Timeout for the head of a request, so that idle connections end.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of threads for requests to the crawl, which block. A status, a report and an explanation take at most one
/// each, so a control command never waits for them.
const MAX_BLOCKING_THREADS: usize = 4;

/// A server that runs until it is dropped.
pub struct Server {
    address: SocketAddr,
    /// Dropping it stops the server.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens and serves on a separate thread.
    ///
    /// An address other than loopback needs a token, and a token needs at least [`MIN_TOKEN`] characters.
    pub fn start(options: ServerOptions, source: Arc<dyn CrawlSource>) -> io::Result<Self> {
        let refuse = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        if options.token.is_none() && !options.address.ip().is_loopback() {
            return refuse(format!("{} is not a loopback address: it needs a token", options.address));
        }
        if options.token.as_ref().is_some_and(|token| token.len() < MIN_TOKEN) {
            return refuse(format!("the token needs at least {MIN_TOKEN} characters"));
        }
        let listener = TcpListener::bind(options.address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(MAX_BLOCKING_THREADS).build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("dashboard".into()).spawn(move || {
            runtime.block_on(async move {
                let hub = Hub::new(source);
                let app = App {
                    hub: Arc::clone(&hub),
                    access: Arc::new(Access::new(options.token)),
                    name: options.name.into(),
                };
                tokio::select! {
                    () = accept(listener, app) => {}
                    () = hub.run() => {}
                    _ = stopped => {}
                }
            });
            // Requests in progress must not delay the end of the crawl.
            runtime.shutdown_background();
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address it listens on, with the actual port if port 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the end of the server, which runs until the process ends.
    pub fn join(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Accepts connections and serves each in its own task.
async fn accept(listener: TcpListener, app: App) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let router = api::router(app);
    let places = Places::default();
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                // The process is probably out of file descriptors, which the crawl needs more than this server.
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        let place = places.enter(peer.ip());
        let id = place.id();
        // The check of access moves the connection to another place.
        let service = TowerToHyperService::new(router.clone().layer(Extension(Arc::new(place))));
        let connection = tokio::spawn(async move {
            let served = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            // This fails if the client has disconnected.
            let _ = served.await;
        });
        places.register(id, connection.abort_handle());
    }
}
