//! The allocator of the command: jemalloc, set to return freed memory to the system soon.
//!
//! glibc keeps freed blocks of up to 32 MiB in its arenas, so that the peak of resident memory exceeds what
//! `--max-memory` accounts for (docs/decisions/0012-allocator.md).

use tikv_jemalloc_ctl::{Access, AsName};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Freed pages are returned this many milliseconds after they were freed. The default of jemalloc is ten seconds.
const DECAY: isize = 30;

/// Sets the decay time for all arenas. Called at the start, when there is one thread and one arena.
pub fn set_decay() {
    let settings: [&[u8]; 2] = [b"arena.0.dirty_decay_ms\0", b"arenas.dirty_decay_ms\0"];
    for setting in settings {
        // An error leaves the default: memory is returned later.
        let _ = setting.name().write(DECAY);
    }
}
