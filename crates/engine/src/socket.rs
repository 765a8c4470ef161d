//! Socket functions for all engines: non-blocking connect, and the translation of system errors to failures.
//!
//! Invariant: `EINPROGRESS` is not an error. It is the usual result of a non-blocking connect.

use std::io::{self, ErrorKind as Io};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use argiope_core::{ErrorKind, Failure, Race, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, connect, recv, socket_with, sockopt};

// anchor: begin-connect
/// Starts to connect and returns at once; the socket is non-blocking. It becomes writable when the attempt has ended.
/// Then [`connected`] returns the result.
pub fn begin_connect(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // A request is written in one piece, so Nagle's algorithm would only delay it.
    sockopt::set_tcp_nodelay(&socket, true)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}
// end: begin-connect

/// Reads available bytes without waiting, regardless of any cached readiness.
pub fn read_now(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = recv(socket, buffer, RecvFlags::DONTWAIT)?;
    Ok(count)
}

/// The state of a connection attempt: `Ok(true)` connected, `Ok(false)` in progress, `Err` failed.
pub fn connected(socket: &TcpStream) -> io::Result<bool> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    match socket.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == Io::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

/// The connection attempts of one race. Usually there is only one, which needs no allocation.
pub struct Attempts<S> {
    latest: Option<(SocketAddr, S)>,
    earlier: Vec<(SocketAddr, S)>,
}

impl<S> Default for Attempts<S> {
    fn default() -> Self {
        Self { latest: None, earlier: Vec::new() }
    }
}

impl<S> Attempts<S> {
    pub fn push(&mut self, address: SocketAddr, socket: S) {
        if let Some(before) = self.latest.replace((address, socket)) {
            self.earlier.push(before);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.latest.is_none()
    }

    pub fn sockets(&self) -> impl Iterator<Item = &S> {
        self.latest.iter().chain(&self.earlier).map(|(_, socket)| socket)
    }

    /// Removes and returns an attempt that has succeeded, if any. Failed attempts are removed and reported to the race.
    pub fn take_winner(
        &mut self,
        race: &mut Race,
        now: Time,
        connected: impl Fn(&S) -> io::Result<bool>,
    ) -> Option<(SocketAddr, S)> {
        let attempts = std::mem::take(self);
        let mut winner = None;
        for (address, socket) in attempts.latest.into_iter().chain(attempts.earlier) {
            // Once there is a winner, the other attempts are not checked.
            match if winner.is_none() { connected(&socket) } else { Ok(false) } {
                Ok(true) => winner = Some((address, socket)),
                Ok(false) => self.push(address, socket),
                Err(error) => race.failed(address, connect_failure(address, &error), now),
            }
        }
        winner
    }
}

/// Blocks until one of the sockets is writable, for `timeout` at most.
pub fn wait_writable<'a>(sockets: impl Iterator<Item = &'a TcpStream>, timeout: Duration) -> io::Result<()> {
    let mut fds: Vec<_> = sockets.map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::OUT)).collect();
    // A timeout too long for the kernel's type means no timeout.
    match poll(&mut fds, Timespec::try_from(timeout).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether an idle connection can be used again: neither bytes nor the end of the stream have arrived.
pub fn is_reusable(socket: impl AsFd) -> bool {
    recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT).is_err_and(|error| error == Errno::WOULDBLOCK)
}

/// Whether the system ran out of a resource that our other connections use, usually file descriptors. The fetch is then
/// postponed and does not fail.
pub fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    shortages.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// The failure of an attempt to connect.
pub fn connect_failure(address: SocketAddr, error: &io::Error) -> Failure {
    let (kind, message) = match error.kind() {
        Io::ConnectionRefused => (ErrorKind::ConnectRefused, "refused the connection"),
        Io::TimedOut => (ErrorKind::ConnectTimeout, "did not answer"),
        Io::ConnectionReset | Io::ConnectionAborted => (ErrorKind::Reset, "reset the connection"),
        _ => return Failure::new(ErrorKind::Unreachable, format!("{address} cannot be reached: {error}")),
    };
    Failure::new(kind, format!("{address} {message}"))
}

/// The failure of an established connection.
pub fn io_failure(error: &io::Error) -> Failure {
    let message = match error.kind() {
        Io::ConnectionReset | Io::ConnectionAborted => "the peer reset the connection".to_owned(),
        Io::BrokenPipe => "the peer closed the connection while the request was being sent".to_owned(),
        _ => format!("the connection broke: {error}"),
    };
    Failure::new(ErrorKind::Reset, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn a_non_blocking_connect_succeeds() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = begin_connect(listener.local_addr().unwrap()).unwrap();
        wait_writable([&socket].into_iter(), Duration::from_secs(5)).unwrap();
        assert!(connected(&socket).unwrap());
        assert!(is_reusable(&socket));
        let mut peer = listener.accept().unwrap().0;
        peer.write_all(b"!").unwrap();
        socket.set_nonblocking(false).unwrap();
        socket.peek(&mut [0]).unwrap();
        assert!(!is_reusable(&socket));
    }

    #[test]
    fn the_winner_is_found_among_attempts_that_fail_or_wait() {
        let address = |port| SocketAddr::from(([192, 0, 2, 1], port));
        for order in [[1, 2, 3], [3, 2, 1], [2, 3, 1], [1, 3, 2]] {
            let mut race = Race::new([address(0).ip(); 4].into(), 0, Time::ZERO, Duration::from_secs(1));
            let mut attempts = Attempts::default();
            for number in order {
                attempts.push(address(number), number);
            }
            let state = |number: &u16| match number {
                1 => Ok(false),
                2 => Err(Io::ConnectionRefused.into()),
                _ => Ok(true),
            };
            assert_eq!(attempts.take_winner(&mut race, Time::ZERO, state), Some((address(3), 3)));
            assert_eq!(attempts.take_winner(&mut race, Time::ZERO, state), None);
            assert!(attempts.sockets().all(|number| *number == 1));
            assert_eq!(attempts.sockets().count(), 1);
        }
        let mut none = Attempts::<u16>::default();
        let mut race = Race::new([].into(), 0, Time::ZERO, Duration::from_secs(1));
        assert!(none.is_empty() && none.take_winner(&mut race, Time::ZERO, |_| Ok(true)).is_none());
    }

    #[test]
    fn a_closed_port_refuses_the_connection() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let failure = match begin_connect(address) {
            Err(error) => connect_failure(address, &error),
            Ok(socket) => {
                wait_writable([&socket].into_iter(), Duration::from_secs(5)).unwrap();
                connect_failure(address, &connected(&socket).unwrap_err())
            }
        };
        assert_eq!(failure.kind, ErrorKind::ConnectRefused);
    }

    #[test]
    fn a_connection_that_the_peer_closed_is_not_reusable() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        socket.peek(&mut [0]).unwrap();
        assert!(!is_reusable(&socket));
    }

    #[test]
    fn running_out_of_file_descriptors_is_a_shortage() {
        assert!(is_shortage(&Errno::MFILE.into()));
        assert!(!is_shortage(&Errno::CONNREFUSED.into()));
    }
}
