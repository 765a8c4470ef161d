#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| argiope_fuzz::frames(data));
