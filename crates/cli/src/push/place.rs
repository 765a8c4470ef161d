//! [`Places`]: up to which record each receiver has the records of a crawl, in the file `push.json` of its directory.
//!
//! The file is replaced as a whole. If it is lost, records are sent again with the same ids.

use std::io;
use std::path::{Path, PathBuf};

use argiope_runtime::atomic_file::AtomicFile;
use argiope_store::disk::PUSH;
use serde::{Deserialize, Serialize};

use crate::records::ReadError;

/// The version of the file.
const VERSION: u32 = 1;

/// Where a receiver continues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverPlace {
    /// The URL of the receiver without a name, a password and a query, for people.
    pub to: String,
    /// A hash of the whole URL without a name and a password, and of the format.
    pub key: String,
    /// The id of the crawl.
    pub crawl: String,
    /// Where reading the log continues.
    pub from: u64,
    /// The receiver has the records up to this position.
    pub after: u64,
    /// A hash of the record at this position.
    pub check: String,
}

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
struct Places {
    argiope_push: u32,
    receivers: Vec<ReceiverPlace>,
}

/// The place of one receiver, and the file that keeps it.
pub struct PlaceFile {
    path: PathBuf,
    pub place: ReceiverPlace,
}

impl PlaceFile {
    /// Reads the place of a receiver. It is at the beginning if the file does not have it.
    pub fn open(directory: &Path, to: &str, key: String) -> Result<Self, ReadError> {
        let path = directory.join(PUSH);
        let known = read(&path)?.receivers.into_iter().find(|place| place.key == key);
        let place = known.unwrap_or_else(|| ReceiverPlace { to: to.to_owned(), key, ..ReceiverPlace::default() });
        Ok(Self { path, place })
    }

    /// Begins again if the records are those of another crawl.
    pub fn belongs_to(&mut self, crawl: u64) {
        let crawl = format!("{crawl:016x}");
        if self.place.crawl != crawl {
            self.place.crawl = crawl;
            self.restart();
        }
    }

    /// Begins with the first record.
    pub fn restart(&mut self) {
        (self.place.from, self.place.after) = (0, 0);
    }

    /// Stores the place, beside those of other receivers.
    pub fn save(&self) -> Result<(), ReadError> {
        let mut places = read(&self.path)?;
        places.argiope_push = VERSION;
        match places.receivers.iter_mut().find(|place| place.key == self.place.key) {
            Some(place) => place.clone_from(&self.place),
            None => places.receivers.push(self.place.clone()),
        }
        let text = serde_json::to_vec(&places).map_err(io::Error::other)?;
        Ok(AtomicFile::write_own(&self.path, text).map_err(|error| named(&self.path, &error))?)
    }
}

fn read(path: &Path) -> Result<Places, ReadError> {
    let places = match std::fs::read(path) {
        Ok(text) => serde_json::from_slice::<Places>(&text).ok().filter(|places| places.argiope_push == VERSION),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Places::default()),
        Err(error) => return Err(named(path, &error).into()),
    };
    let why = || format!("{} is not a file of this version of Argiope; remove it to send all records", path.display());
    places.ok_or_else(|| ReadError::Refused(why()))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
