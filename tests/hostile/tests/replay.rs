//! Calls each target with its seeds, and with seeds changed at random: without a fuzzer and without a nightly compiler.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use annals_hostile::{TARGETS, Target};
use fastrand::Rng;

/// Number of changed inputs of each target.
const CHANGED: usize = 600;
/// Maximum length of a changed input in bytes.
const MAX_BYTES: usize = 16 * 1024;
/// Values at the edges of numbers, lengths, encodings and syntax.
const EDGES: [&[u8]; 20] = [
    b"9223372036854775808",
    b"-1",
    b"1e400",
    b"0.1",
    b"null",
    b"\"\"",
    b"[]",
    b"{}",
    b"\\ud800",
    b"\\u0000",
    b"\xff",
    b"\xf0\x9f\x98\x80",
    b"\xe2\x80\x8d",
    b"\x00",
    b"%",
    b":",
    b"#",
    b"\n",
    b"`",
    b"|",
];

fn check(target: &Target, input: &[u8]) {
    let found = catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    assert!(found.is_ok(), "{} fails for b\"{}\"", target.name, input.escape_ascii());
}

/// Returns one of `seeds`, changed at one to four places.
fn changed(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut input = seeds[rng.usize(..seeds.len())].clone();
    for _ in 0..rng.usize(1..=4) {
        let at = rng.usize(..=input.len());
        let end = input.len().min(at + rng.usize(..24));
        let piece = match rng.u8(..5) {
            0 => Vec::new(),
            1 => EDGES[rng.usize(..EDGES.len())].to_vec(),
            2 => vec![rng.u8(..)],
            3 => input[at..end].repeat(rng.usize(2..40)),
            _ => {
                let other = &seeds[rng.usize(..seeds.len())];
                let from = rng.usize(..=other.len());
                other[from..other.len().min(from + rng.usize(..200))].to_vec()
            }
        };
        let end = if rng.bool() { at } else { end };
        input.splice(at..end, piece);
    }
    input.truncate(MAX_BYTES);
    input
}

#[test]
fn every_property_holds_for_seeds_and_changed_seeds() {
    for target in &TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{}", target.name);
        for seed in &seeds {
            check(target, seed);
        }
        let mut rng = Rng::with_seed(18);
        for _ in 0..CHANGED {
            check(target, &changed(&seeds, &mut rng));
        }
    }
}

#[test]
fn every_property_has_a_fuzz_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for target in &TARGETS {
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
        let body = fs::read_to_string(fuzz.join(format!("fuzz_targets/{}.rs", target.name))).unwrap();
        assert!(body.contains("annals_hostile::"), "{}", target.name);
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}
