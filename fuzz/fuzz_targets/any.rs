//! Calls the property of the parser that the variable `PARSER` names with what libFuzzer finds.
#![no_main]

use std::sync::LazyLock;

use annals_hostile::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let parser = std::env::var("PARSER").expect("PARSER names a parser");
    TARGETS.iter().find(|target| target.name == parser).expect("PARSER is one of `TARGETS`")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.check)(data));
