//! Random numbers. A module of its own, because only one file may name both engine and store.

pub use argiope_store::unpredictable;
