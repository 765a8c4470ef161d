//! `argiope serve DIR` and `crawl --serve`: the dashboard's server.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use argiope_core::crawl::control::CrawlSource;
use argiope_core::crawl::settings::parse_address;
#[cfg(feature = "dashboard")]
use argiope_dashboard::{Server, ServerOptions};
use clap::Args;

use super::source::DirectorySource;
use super::{FAILED, print_error, report};
use crate::flags::config_file::UsageError;
use crate::results::Results;
use argiope_core::base::escape::visible;

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  argiope serve ./example.com.crawl\n\n\
                        The page shows the live view while a crawl runs in the directory, and its report otherwise.")]
pub struct ServeArgs {
    /// The crawl directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The address to listen at; port 0 chooses a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8642", value_parser = parse_address)]
    pub address: SocketAddr,
    /// Ask every client for the token in this file; required unless ADDR is loopback
    #[arg(long, value_name = "FILE")]
    pub serve_token_file: Option<PathBuf>,
}

/// Serves a crawl directory until the process is terminated.
pub fn run(args: &ServeArgs) -> Result<ExitCode, UsageError> {
    if let Err(error) = Results::at(&args.directory).directory() {
        print_error(&visible(&error.to_string()));
        return Ok(ExitCode::from(FAILED));
    }
    let source = Arc::new(DirectorySource(args.directory.clone()));
    let roots = Results::at(&args.directory).tracer().and_then(|tracer| tracer.first_roots()).unwrap_or_default();
    let name = report::crawl_title(&roots, &args.directory);
    match start(args.address, args.serve_token_file.as_deref(), &name, source) {
        Ok(server) => {
            let _ = writeln!(std::io::stderr(), "{}; Ctrl-C ends it", address_line(&server));
            server.join();
            Ok(ExitCode::SUCCESS)
        }
        Err(ServeError::Usage(error)) => Err(error),
        Err(ServeError::Failed(why)) => {
            print_error(&visible(&why));
            Ok(ExitCode::from(FAILED))
        }
    }
}

/// The message with the dashboard's URL.
pub fn address_line(server: &Server) -> String {
    format!("serving http://{}/", server.address())
}

/// Why the dashboard could not be started, as a message for the user.
#[cfg_attr(not(feature = "dashboard"), allow(dead_code))]
pub enum ServeError {
    Usage(UsageError),
    Failed(String),
}

/// Replaces `Server` in a build without the dashboard. It has no values, because `start` always fails.
#[cfg(not(feature = "dashboard"))]
pub enum NoServer {}

#[cfg(not(feature = "dashboard"))]
use NoServer as Server;

// The real server stops on drop. This type implements `Drop` too, so that callers compile the same way.
#[cfg(not(feature = "dashboard"))]
impl Drop for NoServer {
    fn drop(&mut self) {}
}

#[cfg(not(feature = "dashboard"))]
impl NoServer {
    fn address(&self) -> SocketAddr {
        match *self {}
    }

    fn join(self) {
        match self {}
    }
}

/// Fails: this build has no dashboard.
#[cfg(not(feature = "dashboard"))]
pub fn start(
    _address: SocketAddr,
    _token_file: Option<&Path>,
    _name: &str,
    _source: Arc<dyn CrawlSource>,
) -> Result<Server, ServeError> {
    let why = "this program was built without the dashboard; build it with the cargo feature `dashboard`";
    Err(ServeError::Usage(UsageError(why.to_owned())))
}

/// Starts the dashboard's server.
#[cfg(feature = "dashboard")]
pub fn start(
    address: SocketAddr,
    token_file: Option<&Path>,
    name: &str,
    source: Arc<dyn CrawlSource>,
) -> Result<Server, ServeError> {
    let token = match token_file {
        None => None,
        Some(file) => match std::fs::read_to_string(file) {
            Ok(text) => Some(text.trim().to_owned()),
            Err(error) => {
                let file = file.display().to_string();
                let why = format!("--serve-token-file: {} cannot be read: {error}", visible(&file));
                return Err(ServeError::Usage(UsageError(why)));
            }
        },
    };
    let options = ServerOptions { address, token, name: name.to_owned() };
    Server::start(options, source).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => ServeError::Usage(UsageError(format!("{error}; see --serve-token-file"))),
        _ => ServeError::Failed(format!("the dashboard cannot be served at {address}: {error}")),
    })
}
