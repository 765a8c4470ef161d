//! The event loop: one thread, one epoll instance, any number of connections.
//!
//! Every thread watches all listeners (with `EPOLLEXCLUSIVE`, so that a new client does not wake all threads) and keeps
//! the connections that it accepted. Threads share the log, the pages and the TLS configurations.
//!
//! Invariant: a thread blocks only in `epoll_wait`.

use crate::connection::{ClientConnection, ConnectionContext, Disposition};
use crate::http2_settings::HandedOver;
use crate::timer::DeadlineQueue;
use crate::web_state::WebState;
use crate::wire::ClientStream;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use slab::Slab;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

// Tokens of epoll events and deadlines. The token of a connection consists of its generation and its slot.

/// Token of the eventfd that wakes all threads.
const WAKE: u64 = u64::MAX;
/// Token of the system timer.
const TIMER: u64 = u64::MAX - 1;
/// Token of the deadline that ends a pause in accepting.
const RELISTEN: u64 = u64::MAX - 2;
/// The highest bit is set in the tokens of listeners. The other bits are the index of the site. The tokens above have this
/// bit too, so they are compared first.
const LISTENER: u64 = 1 << 63;

/// One thread of a web.
pub(crate) struct ServerThread {
    shared: Arc<WebState>,
    epoll: OwnedFd,
    timers: DeadlineQueue,
    slots: Slab<Slot>,
    /// Incremented per connection, so that a late event cannot reach the next owner of a slot.
    generation: u32,
    /// Takes connections that use HTTP/2; `None` if no site offers it.
    to_http2: Option<UnboundedSender<HandedOver>>,
}

struct Slot {
    connection: ClientConnection,
    generation: u32,
    /// The deadline that is set in `timers`.
    deadline: Option<Instant>,
    /// The events that epoll reports.
    watched: EventFlags,
}

impl ServerThread {
    pub(crate) fn new(
        shared: &Arc<WebState>,
        wake: &OwnedFd,
        to_http2: Option<UnboundedSender<HandedOver>>,
    ) -> io::Result<ServerThread> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timers = DeadlineQueue::new()?;
        // Edge-triggered, because the eventfd is never read. It is written when the web is released and when it is stopped.
        epoll::add(&epoll, wake, EventData::new_u64(WAKE), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, timers.timer(), EventData::new_u64(TIMER), EventFlags::IN)?;
        let server =
            ServerThread { shared: Arc::clone(shared), epoll, timers, slots: Slab::new(), generation: 0, to_http2 };
        server.listen()?;
        Ok(server)
    }

    /// Watches all listeners.
    fn listen(&self) -> io::Result<()> {
        for (index, site) in self.shared.sites.iter().enumerate() {
            let data = EventData::new_u64(LISTENER | index as u64);
            match epoll::add(&self.epoll, &site.listener, data, EventFlags::IN | EventFlags::EXCLUSIVE) {
                // EXIST: the listener is watched already.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Serves until the web is stopped.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let mut events = Vec::with_capacity(1024);
        let mut buffer = vec![0; 1 << 16];
        let mut page = Vec::with_capacity(1 << 14);
        loop {
            self.timers.arm()?;
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let mut context =
                ConnectionContext { shared: &shared, now: Instant::now(), buffer: &mut buffer, page: &mut page };
            for event in &events {
                match event.data.u64() {
                    WAKE if shared.stop.load(SeqCst) => return Ok(()),
                    WAKE => self.release(&mut context),
                    TIMER => self.timers.timer_expired(),
                    listener if listener & LISTENER != 0 => self.accept((listener & !LISTENER) as usize, &mut context),
                    token => self.on_event(token, event.flags, &mut context),
                }
            }
            while let Some(token) = self.timers.pop(context.now) {
                match token {
                    RELISTEN => self.listen()?,
                    token => self.timer_expired(token, &mut context),
                }
            }
        }
    }

    fn accept(&mut self, index: usize, context: &mut ConnectionContext<'_>) {
        let shared = Arc::clone(&self.shared);
        let Some(site) = shared.sites.get(index) else { return };
        loop {
            match rustix::net::acceptfrom_with(&site.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((socket, peer)) => {
                    let peer = peer.and_then(|address| SocketAddr::try_from(address).ok());
                    if peer.is_none_or(|peer| peer.ip().to_canonical().is_loopback()) {
                        // A client that disconnected before it was accepted is not an error.
                        let _ = self.add_connection(socket, index, context);
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // No file descriptor or memory is free: pause accepting instead of spinning.
                    for site in &shared.sites {
                        let _ = epoll::delete(&self.epoll, &site.listener);
                    }
                    self.timers.set(context.now + Duration::from_millis(10), RELISTEN);
                    return;
                }
                // The client has disconnected, or the call was interrupted: other clients may be waiting.
                Err(_) => {}
            }
        }
    }

    /// Adds an accepted connection to the site with this index.
    fn add_connection(&mut self, socket: OwnedFd, index: usize, context: &mut ConnectionContext<'_>) -> io::Result<()> {
        rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
        let site = &context.shared.sites[index];
        let tls = match &site.tls {
            None => None,
            Some(tls) => {
                let local = rustix::net::getsockname(&socket)?;
                let ip = SocketAddr::try_from(local).map_or(site.address.ip(), |address| address.ip());
                let ip: IpAddr = ip.to_canonical();
                Some(rustls::ServerConnection::new(tls.config(ip)?).map_err(io::Error::other)?)
            }
        };
        // The highest bit of a token is reserved for listeners.
        self.generation = (self.generation + 1) & 0x7fff_ffff;
        let entry = self.slots.vacant_entry();
        let token = token(self.generation, entry.key());
        epoll::add(&self.epoll, &socket, EventData::new_u64(token), EventFlags::IN)?;
        let connection = ClientConnection::new(ClientStream::new(socket, tls), index, &context.shared.log);
        entry.insert(Slot { connection, generation: self.generation, deadline: None, watched: EventFlags::IN });
        // Most clients have already sent their request. If not, epoll reports it later.
        self.run_connection(token, context, |connection, context| connection.on_readable(context));
        Ok(())
    }

    /// Handles the event of a connection.
    fn on_event(&mut self, token: u64, flags: EventFlags, context: &mut ConnectionContext<'_>) {
        if flags.intersects(EventFlags::OUT) {
            self.run_connection(token, context, |connection, context| connection.on_writable(context));
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            self.run_connection(token, context, |connection, context| connection.on_readable(context));
        }
    }

    fn release(&mut self, context: &mut ConnectionContext<'_>) {
        let tokens: Vec<_> = self.slots.iter().map(|(key, slot)| token(slot.generation, key)).collect();
        for token in tokens {
            self.run_connection(token, context, |connection, context| connection.on_released(context));
        }
    }

    fn timer_expired(&mut self, token: u64, context: &mut ConnectionContext<'_>) {
        if let Some(slot) = self.slots.get_mut(slot_of(token)) {
            slot.deadline = None;
        }
        self.run_connection(token, context, |connection, context| connection.on_timer(context));
    }

    /// Calls `work` with a connection, then registers what the connection waits for, or drops it.
    fn run_connection(
        &mut self,
        token: u64,
        context: &mut ConnectionContext<'_>,
        work: impl FnOnce(&mut ClientConnection, &mut ConnectionContext<'_>) -> Disposition,
    ) {
        let key = slot_of(token);
        let Some(slot) = self.slots.get_mut(key).filter(|slot| u64::from(slot.generation) == token >> 32) else {
            return;
        };
        let mut disposition = work(&mut slot.connection, context);
        if disposition == Disposition::HandOver {
            let mut slot = self.slots.remove(key);
            if let Some(due) = slot.deadline {
                self.timers.cancel(due, token);
            }
            if let Some(stream) = slot.connection.stream() {
                let _ = epoll::delete(&self.epoll, stream.fd());
            }
            if let (Some(connection), Some(to_http2)) = (slot.connection.hand_over(), &self.to_http2) {
                // The receiver ends only with the whole web, so an error needs no handling.
                let _ = to_http2.send(connection);
            }
            return;
        }
        let wanted = match slot.connection.is_blocked {
            true => EventFlags::IN | EventFlags::OUT,
            false => EventFlags::IN,
        };
        if disposition == Disposition::Keep && wanted != slot.watched {
            slot.watched = wanted;
            let is_watched = slot.connection.stream().is_some_and(|stream| {
                epoll::modify(&self.epoll, stream.fd(), EventData::new_u64(token), wanted).is_ok()
            });
            if !is_watched {
                disposition = Disposition::Drop;
            }
        }
        let deadline = slot.connection.wake_at.filter(|_| disposition == Disposition::Keep);
        if deadline != slot.deadline {
            if let Some(due) = slot.deadline {
                self.timers.cancel(due, token);
            }
            if let Some(due) = deadline {
                self.timers.set(due, token);
            }
            slot.deadline = deadline;
        }
        if disposition == Disposition::Drop {
            self.slots.remove(key);
        }
    }
}

fn token(generation: u32, key: usize) -> u64 {
    u64::from(generation) << 32 | key as u64 & 0xffff_ffff
}

fn slot_of(token: u64) -> usize {
    (token & 0xffff_ffff) as usize
}
