//! The allocator of the command: jemalloc, configured to return freed memory to the system early.
//!
//! The allocator of glibc keeps freed blocks of up to 32 MiB. The peak of resident memory then exceeds what `--max-memory`
//! accounts for (docs/decisions/0012-allocator.md).

use tikv_jemalloc_ctl::{Access, AsName};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Memory pages are returned this many milliseconds after they were freed. The default of jemalloc is ten seconds.
const DECAY_MS: isize = 30;
/// Freed blocks of this size and larger are returned at once. The default of jemalloc is 8 MiB.
const LARGE_BLOCK: usize = 128 << 10;
/// At most this many arenas get the setting for large blocks. A crawl on a few cores has about this many threads.
const MAX_ARENAS: u32 = 16;

/// Makes jemalloc return freed memory early. Called at the start of the process, when there is one thread and one arena.
///
/// Errors are ignored: with the defaults of jemalloc, memory is returned later.
pub fn return_memory_soon() {
    // The arena that exists, and the default for arenas that are created later.
    let settings: [&[u8]; 2] = [b"arena.0.dirty_decay_ms\0", b"arenas.dirty_decay_ms\0"];
    for setting in settings {
        let _ = setting.name().write(DECAY_MS);
    }
    let arenas: u32 = b"opt.narenas\0"[..].name().read().unwrap_or(1);
    // The threshold can be set only for arenas that exist, and jemalloc creates an arena when a thread is bound to it.
    // So this thread is bound to each arena in turn. The loop ends with arena 0, where the thread stays.
    for arena in (0..arenas.min(MAX_ARENAS)).rev() {
        let _ = b"thread.arena\0"[..].name().write(arena);
        let _ = format!("arena.{arena}.oversize_threshold\0").as_bytes().name().write(LARGE_BLOCK);
    }
}
