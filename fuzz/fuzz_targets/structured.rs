#![no_main]

#[path = "../src/work.rs"]
#[allow(dead_code, reason = "each target calls one of the functions")]
mod work;

libfuzzer_sys::fuzz_target!(|data: &[u8]| work::structured(data));
