//! Raw servers: one thread per connection, blocking sockets, arbitrary bytes.
//!
//! Use a scripted [`Site`](crate::Site) if possible. Raw servers are for what a site cannot do: closing before the request,
//! endless streams, behaviour that depends on the connection.
//!
//! Invariant: when a server is dropped, all of its threads have ended, whatever they were waiting for.

use crate::log::SeenRequest;
use crate::request::{ParsedRequest, parse};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a server does with each connection.
type Behaviour = dyn Fn(&mut RawConnection) -> io::Result<()> + Send + Sync;

/// One client connection. It is closed when the behaviour returns.
pub struct RawConnection {
    /// The only strong reference, so that dropping it closes the connection. The server keeps a weak one.
    stream: Arc<TcpStream>,
    number: usize,
    shared: Arc<RawServerState>,
    /// Received bytes that were not parsed yet.
    input: Vec<u8>,
}

impl RawConnection {
    /// The number of the connection, counted from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Reads one request and returns its path; `None` if the client disconnects first.
    pub fn request(&mut self) -> io::Result<Option<String>> {
        let mut buffer = [0; 4096];
        loop {
            if let ParsedRequest::Whole(request, used) = parse(&self.input) {
                let path = request.target.to_owned();
                locked(&self.shared.requests).push(SeenRequest {
                    body: String::new(),
                    connection: self.number as u64,
                    // A raw server is not a site of the web.
                    site: usize::MAX,
                    method: request.method.to_owned(),
                    host: request.host_name().to_owned(),
                    path: path.clone(),
                    user_agent: request.user_agent.to_owned(),
                    headers: request.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
                    status: 0,
                    start: self.shared.started.elapsed(),
                    end: None,
                });
                self.input.drain(..used);
                return Ok(Some(path));
            }
            match (&*self.stream).read(&mut buffer)? {
                0 => return Ok(None),
                n => self.input.extend_from_slice(&buffer[..n]),
            }
        }
    }

    /// A header of the last request.
    pub fn header(&self, name: &str) -> Option<String> {
        let requests = locked(&self.shared.requests);
        let last = requests.iter().rev().find(|request| request.connection == self.number as u64)?;
        last.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        (&*self.stream).write_all(bytes.as_ref())
    }

    /// Sends these bytes repeatedly until the client disconnects.
    pub fn send_forever(&mut self, bytes: &[u8]) -> io::Result<()> {
        loop {
            self.send(bytes)?;
        }
    }

    /// Waits. Returns an error, which ends the behaviour, if the server is being stopped.
    pub fn pause(&mut self, duration: Duration) -> io::Result<()> {
        let deadline = Instant::now() + duration;
        let mut open = locked(&self.shared.open);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if open.is_none() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if left.is_zero() {
                return Ok(());
            }
            open = self.shared.stopped.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Closes the sending side only.
    pub fn close_sending(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// Makes closing this connection send a reset (TCP RST).
    pub fn reset(&mut self) -> io::Result<()> {
        Ok(rustix::net::sockopt::set_socket_linger(&*self.stream, Some(Duration::ZERO))?)
    }

    /// Reads and discards until the client closes.
    pub fn wait_until_closed(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        while (&*self.stream).read(&mut buffer)? > 0 {}
        Ok(())
    }

    /// The socket, for everything else.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

/// A connection and its thread.
type OpenConnection = (Weak<TcpStream>, JoinHandle<()>);

struct RawServerState {
    behaviour: Box<Behaviour>,
    started: Instant,
    requests: Mutex<Vec<SeenRequest>>,
    /// Every connection and its thread; `None` while the server is being stopped.
    open: Mutex<Option<Vec<OpenConnection>>>,
    /// Notified when the server is being stopped.
    stopped: Condvar,
}

/// A server with a behaviour.
pub(crate) struct RawServer {
    pub(crate) address: SocketAddr,
    shared: Arc<RawServerState>,
    acceptor: Option<JoinHandle<()>>,
}

impl RawServer {
    pub(crate) fn start(
        listener: TcpListener,
        behaviour: impl Fn(&mut RawConnection) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<RawServer> {
        let address = listener.local_addr()?;
        let shared = Arc::new(RawServerState {
            behaviour: Box::new(behaviour),
            started: Instant::now(),
            requests: Mutex::default(),
            open: Mutex::new(Some(Vec::new())),
            stopped: Condvar::new(),
        });
        let acceptor = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name("hostile".to_owned()).spawn(move || accept(&listener, &shared))?
        };
        Ok(RawServer { address, shared, acceptor: Some(acceptor) })
    }

    pub(super) fn requests(&self) -> Vec<SeenRequest> {
        locked(&self.shared.requests).clone()
    }
}

fn accept(listener: &TcpListener, shared: &Arc<RawServerState>) {
    for number in 0.. {
        let Ok((stream, _)) = listener.accept() else { return };
        let mut open = locked(&shared.open);
        let Some(open) = &mut *open else { return };
        let stream = Arc::new(stream);
        let handle = Arc::downgrade(&stream);
        let mut conn = RawConnection { stream, number, shared: Arc::clone(shared), input: Vec::new() };
        let serve = move || {
            let shared = Arc::clone(&conn.shared);
            // Errors are ignored: most behaviours end when the client disconnects.
            let _ = (shared.behaviour)(&mut conn);
        };
        if let Ok(thread) = std::thread::Builder::new().name("hostile".to_owned()).spawn(serve) {
            open.push((handle, thread));
        }
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        let open = locked(&self.shared.open).take().unwrap_or_default();
        self.shared.stopped.notify_all();
        for (handle, _) in &open {
            // Blocked reads and writes return with an error.
            let _ = handle.upgrade().map(|stream| stream.shutdown(Shutdown::Both));
        }
        // One more connection wakes the acceptor, which returns because `open` is `None`.
        let _ = TcpStream::connect(self.address);
        for thread in open.into_iter().map(|(_, thread)| thread).chain(self.acceptor.take()) {
            let _ = thread.join();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
