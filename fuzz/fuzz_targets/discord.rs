#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| annals_hostile::platforms::check_discord(data));
