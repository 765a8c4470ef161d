#![no_main]

#[path = "../src/state.rs"]
mod state;

libfuzzer_sys::fuzz_target!(|data: &[u8]| state::state(data));
