//! [`Places`]: which connections are served at a time.
//!
//! A connection is a stranger until one of its requests passes the access check. Strangers share a few places, with a limit
//! per address; if there is none left, the oldest stranger is disconnected. Clients with access have places of their own,
//! and are never disconnected for others. So half-sent requests cannot keep anyone out, however many there are.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// Places for connections without access yet.
const MAX_STRANGERS: usize = 256;
/// Places for strangers from one address.
const MAX_STRANGERS_PER_ADDRESS: usize = 128;
/// Places for clients with access. Beyond it, they share the places of strangers.
const MAX_CLIENTS: usize = 192;

struct Stranger {
    id: u64,
    address: IpAddr,
    /// Ends the connection. `None` until its task runs.
    connection: Option<AbortHandle>,
}

#[derive(Default)]
struct Taken {
    /// The oldest first.
    strangers: VecDeque<Stranger>,
    /// The numbers of clients with access.
    clients: HashSet<u64>,
    last_id: u64,
}

impl Taken {
    /// Removes the stranger at this index, and disconnects it.
    fn disconnect(&mut self, index: usize) {
        if let Some(Stranger { connection: Some(connection), .. }) = self.strangers.remove(index) {
            connection.abort();
        }
    }
}

/// The places of a server.
#[derive(Clone, Default)]
pub struct Places(Arc<Mutex<Taken>>);

/// The place of one connection. It is free again when this value is dropped.
pub struct HeldPlace {
    places: Places,
    id: u64,
}

impl Places {
    /// Gives a new connection a place, if necessary that of an older stranger.
    pub fn enter(&self, address: IpAddr) -> HeldPlace {
        let mut taken = self.taken();
        let from_there = taken.strangers.iter().filter(|stranger| stranger.address == address).count();
        if from_there >= MAX_STRANGERS_PER_ADDRESS {
            let oldest = taken.strangers.iter().position(|stranger| stranger.address == address);
            taken.disconnect(oldest.unwrap_or(0));
        } else if taken.strangers.len() >= MAX_STRANGERS {
            taken.disconnect(0);
        }
        taken.last_id += 1;
        let id = taken.last_id;
        taken.strangers.push_back(Stranger { id, address, connection: None });
        HeldPlace { places: self.clone(), id }
    }

    /// Registers how to end the connection at the place with this number, which may have ended already.
    pub fn register(&self, id: u64, connection: AbortHandle) {
        if let Some(stranger) = self.taken().strangers.iter_mut().find(|stranger| stranger.id == id) {
            stranger.connection = Some(connection);
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldPlace {
    /// The number of the place.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Moves the connection to the places of clients with access, if there is one left.
    pub fn admit(&self) {
        let mut taken = self.places.taken();
        if taken.clients.len() >= MAX_CLIENTS {
            return;
        }
        if let Some(index) = taken.strangers.iter().position(|stranger| stranger.id == self.id) {
            taken.strangers.remove(index);
            taken.clients.insert(self.id);
        }
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.strangers.retain(|stranger| stranger.id != self.id);
        taken.clients.remove(&self.id);
    }
}
