//! The `coroutines` engine, and the executor, reactor and queue that it is made of.

pub mod executor;
pub mod queue;
pub mod reactor;
#[cfg(test)]
mod tests;
