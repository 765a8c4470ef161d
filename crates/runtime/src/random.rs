//! Random numbers. `lib.rs` cannot re-export them from the store itself: it uses the engine, and only
//! `keeper_thread/mod.rs` may use both engine and store.

pub use argiope_store::unpredictable;
