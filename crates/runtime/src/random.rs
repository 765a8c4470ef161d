//! Random numbers. They have their own module, because only `keeper_thread/mod.rs` may use both engine and store.

pub use argiope_store::unpredictable;
