//! The allocator of the command: jemalloc, set to return freed memory to the system soon.
//!
//! glibc keeps freed blocks of up to 32 MiB in its arenas, so that the peak of resident memory exceeds what
//! `--max-memory` accounts for (docs/decisions/0012-allocator.md).

use tikv_jemalloc_ctl::{Access, AsName};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Freed pages are returned this many milliseconds after they were freed. The default of jemalloc is ten seconds.
const DECAY: isize = 30;
/// Freed blocks of this size and larger are returned at once. The default of jemalloc is 8 MiB.
const LARGE_BLOCK: usize = 128 << 10;
/// How many arenas get the setting for large blocks: about one for each thread of a crawl on a few cores.
const MAX_ARENAS: u32 = 16;

/// Sets how soon freed memory is returned, for all arenas. Called at the start, when there is one thread and one arena.
///
/// An error leaves the default: memory is returned later.
pub fn return_memory_soon() {
    let settings: [&[u8]; 2] = [b"arena.0.dirty_decay_ms\0", b"arenas.dirty_decay_ms\0"];
    for setting in settings {
        let _ = setting.name().write(DECAY);
    }
    let arenas: u32 = b"opt.narenas\0"[..].name().read().unwrap_or(1);
    // Arenas are created when a thread is bound to them, and only those that exist can be set. The first one is the last
    // that this thread is bound to.
    for arena in (0..arenas.min(MAX_ARENAS)).rev() {
        let _ = b"thread.arena\0"[..].name().write(arena);
        let _ = format!("arena.{arena}.oversize_threshold\0").as_bytes().name().write(LARGE_BLOCK);
    }
}
