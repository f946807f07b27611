#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| annals_hostile::messages::check_ui_message(data));
