//! The Unix socket in a crawl directory, through which `argiope ctl` and `argiope serve` reach the running crawl.
//!
//! A client sends one line with a JSON object and receives one. Only the user who runs the crawl can connect: the socket
//! has mode 0600 before it is renamed into place.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use argiope_core::crawl::control::{Control, CrawlSource};
use argiope_core::crawl::status::{HostStatus, Status};
use argiope_store::disk::{SOCKET, SOCKET_FOLDER};
use serde::{Deserialize, Serialize};

/// Maximum bytes of a request.
const MAX_REQUEST: u64 = 64 << 10;
/// Maximum bytes of a response.
const MAX_RESPONSE: u64 = 16 << 20;
/// Timeout of reads and writes. Requests are served one after the other, so a silent client would block the others.
const IO_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest path, in bytes, that is used as a socket address. The system allows 107 bytes.
const MAX_PATH: usize = 100;

/// A request from a client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlRequest {
    Status,
    /// The state of the host with this name.
    Host(Box<str>),
    Control(Control),
}

/// The response to a client.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ControlResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostStatus>,
}

/// The control socket of the crawl directory with this path. Dropping it removes the socket.
pub struct ControlSocket(PathBuf);

impl ControlSocket {
    /// Creates the socket in a crawl directory that this process has locked, and serves requests on its own thread.
    pub fn serve(directory: &Path, source: Arc<dyn CrawlSource>) -> io::Result<Self> {
        // Removes the leftovers of a killed process. Safe because this process holds the directory's lock.
        remove(directory);
        let private_folder = directory.join(SOCKET_FOLDER);
        DirBuilder::new().mode(0o700).create(&private_folder)?;
        let bound = bind(&private_folder.join(SOCKET)).and_then(|listener| {
            // The folder has mode 0700, so no other user can connect before the mode of the socket is set.
            std::fs::set_permissions(private_folder.join(SOCKET), Permissions::from_mode(0o600))?;
            std::fs::rename(private_folder.join(SOCKET), directory.join(SOCKET))?;
            Ok(listener)
        });
        let _ = std::fs::remove_dir(&private_folder);
        let listener = bound?;
        let socket = Self(directory.to_owned());
        std::thread::Builder::new().name("control".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                // An error means that the client has disconnected or is silent.
                let _ = serve_client(stream, &*source);
            }
        })?;
        Ok(socket)
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes the socket, and the folder in which it is created, if they exist.
fn remove(directory: &Path) {
    let _ = std::fs::remove_file(directory.join(SOCKET));
    let _ = std::fs::remove_file(directory.join(SOCKET_FOLDER).join(SOCKET));
    let _ = std::fs::remove_dir(directory.join(SOCKET_FOLDER));
}

/// Calls `use_path` with `path`. If `path` is too long for a socket address, calls it with a short path to the same
/// file, through the file descriptor of the folder.
fn with_short_path<T>(path: &Path, use_path: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= MAX_PATH {
        return use_path(path);
    }
    let folder = File::open(path.parent().unwrap_or(Path::new(".")))?;
    let name = path.file_name().unwrap_or_default();
    use_path(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    with_short_path(path, |path| UnixListener::bind(path))
}

/// Reads one request and sends the response.
fn serve_client(mut stream: UnixStream, source: &dyn CrawlSource) -> io::Result<()> {
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new((&stream).take(MAX_REQUEST)).read_line(&mut line)?;
    let response = match serde_json::from_str(&line) {
        Ok(ControlRequest::Status) => ControlResponse { status: source.status(), ..ControlResponse::default() },
        Ok(ControlRequest::Host(name)) => ControlResponse { host: source.host(&name), ..ControlResponse::default() },
        Ok(ControlRequest::Control(control)) => {
            ControlResponse { error: source.control(control).err(), ..ControlResponse::default() }
        }
        Err(error) => {
            let error = Some(format!("the request cannot be read: {error}"));
            ControlResponse { error, ..ControlResponse::default() }
        }
    };
    let mut text = serde_json::to_vec(&response)?;
    text.push(b'\n');
    stream.write_all(&text)
}

/// Sends a request to the crawl that runs in a directory. The error is a message for the user.
pub fn request(directory: &Path, request: &ControlRequest) -> Result<ControlResponse, String> {
    let describe = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!("no crawl is running in {}", directory.display())
        }
        _ => format!("the crawl in {} cannot be reached: {error}", directory.display()),
    };
    let response = exchange(directory, request).map_err(|error| describe(&error))?;
    match response.error {
        Some(error) => Err(error),
        None => Ok(response),
    }
}

fn exchange(directory: &Path, request: &ControlRequest) -> io::Result<ControlResponse> {
    let mut stream = with_short_path(&directory.join(SOCKET), |path| UnixStream::connect(path))?;
    // The crawl serves one client after the other. Before this one, it may wait `IO_TIMEOUT` for a silent client.
    stream.set_read_timeout(Some(2 * IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    stream.write_all(&text)?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_RESPONSE)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct TestSource(Mutex<Vec<Control>>);

    impl CrawlSource for TestSource {
        fn status(&self) -> Option<Status> {
            Some(Status { queued: 7, ..Status::default() })
        }

        fn control(&self, control: Control) -> Result<(), String> {
            self.0.lock().unwrap().push(control);
            Ok(())
        }

        fn explain(&self, _: &str) -> Result<String, String> {
            Err(String::new())
        }

        fn report(&self) -> Result<String, String> {
            Err(String::new())
        }
    }

    /// Sends requests to a control socket in the directory, and checks that dropping it removes all files.
    fn check_socket_in(directory: &Path) {
        let source = Arc::new(TestSource::default());
        let socket = ControlSocket::serve(directory, Arc::clone(&source) as Arc<dyn CrawlSource>).unwrap();
        let mode = std::fs::metadata(directory.join(SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(request(directory, &ControlRequest::Status).unwrap().status.unwrap().queued, 7);
        request(directory, &ControlRequest::Control(Control::Pause)).unwrap();
        assert_eq!(*source.0.lock().unwrap(), [Control::Pause]);
        drop(socket);
        assert!(request(directory, &ControlRequest::Status).unwrap_err().contains("no crawl is running"));
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
    }

    #[test]
    fn a_crawl_responds_on_its_socket() {
        check_socket_in(tempfile::tempdir().unwrap().path());
    }

    #[test]
    fn a_directory_path_longer_than_a_socket_address_works() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(120)).join("e".repeat(120));
        std::fs::create_dir_all(&deep).unwrap();
        check_socket_in(&deep);
    }

    #[test]
    fn leftovers_of_a_killed_process_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(folder.path().join(SOCKET)).unwrap());
        std::fs::create_dir(folder.path().join(SOCKET_FOLDER)).unwrap();
        assert!(request(folder.path(), &ControlRequest::Status).unwrap_err().contains("no crawl is running"));
        check_socket_in(folder.path());
    }

    #[test]
    fn the_response_to_a_malformed_request_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let _socket = ControlSocket::serve(folder.path(), Arc::new(TestSource::default())).unwrap();
        let mut stream = UnixStream::connect(folder.path().join(SOCKET)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.contains("cannot be read"), "{response}");
    }
}
