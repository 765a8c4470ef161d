//! [`OutputHash`]: the hash of an output file, which detects changes to its committed part.

use super::fault::failed;
use super::files::Files;
use argiope_core::StoreError;
use xxhash_rust::xxh3::Xxh3;

/// Number of bytes read at once.
const PIECE: usize = 256 << 10;

/// The hash of a growing output file: XXH3 with 64 bits, seed 0.
#[derive(Clone, Default)]
pub struct OutputHash(Xxh3);

impl std::fmt::Debug for OutputHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutputHash({:016x})", self.value())
    }
}

impl OutputHash {
    /// The hash of the first `length` bytes of a file, or of the whole file if it is shorter.
    pub fn of(files: &dyn Files, name: &str, length: u64) -> Result<Self, StoreError> {
        let error = |error| failed(files, name, "read", error);
        let mut hash = Self::default();
        if length == 0 {
            return Ok(hash);
        }
        let file = files.open(name).map_err(error)?;
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < length {
            let wanted = usize::try_from(length - at).unwrap_or(PIECE).min(PIECE);
            let read = file.read_at(piece.get_mut(..wanted).unwrap_or_default(), at).map_err(error)?;
            if read == 0 {
                break;
            }
            hash.add(piece.get(..read).unwrap_or_default());
            at += read as u64;
        }
        Ok(hash)
    }

    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn value(&self) -> u64 {
        self.0.digest()
    }
}
