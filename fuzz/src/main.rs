//! Runs one target under libFuzzer: the one that the environment variable `FUZZ_TARGET` names.

#![no_main]

use std::sync::OnceLock;

use fuzz::{Target, find};

static TARGET: OnceLock<&Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
        TARGET.get_or_init(|| find(&name).expect("a known target"));
    },
    |data: &[u8]| (TARGET.get().expect("init has run").check)(data)
);
