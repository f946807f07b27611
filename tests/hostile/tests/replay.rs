//! Calls each target with its seeds, and with seeds changed at random, in their bytes and in their JSON: without a fuzzer
//! and without a nightly compiler.

use std::panic::{AssertUnwindSafe, catch_unwind};

use annals_core::record::Channel;
use annals_hostile::{TARGETS, Target};
use fastrand::Rng;
use serde_json::Value;

/// Number of changed inputs of each target, and as many again if its seeds are JSON.
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

/// Returns one of `seeds` with other values at one to three places: of another seed, or one at the edges.
fn replanted(seeds: &[Value], rng: &mut Rng) -> Vec<u8> {
    let any = |rng: &mut Rng| &seeds[rng.usize(..seeds.len())];
    let mut input = any(rng).clone();
    for _ in 0..rng.usize(1..=3) {
        let edge = serde_json::from_slice(EDGES[rng.usize(..EDGES.len())]);
        let value = edge.ok().filter(|_| rng.bool());
        let value = value.unwrap_or_else(|| branch(any(rng), rng).clone());
        plant(&mut input, value, rng);
    }
    input.to_string().into_bytes()
}

/// Returns a value inside `tree`, or all of it.
fn branch<'a>(tree: &'a Value, rng: &mut Rng) -> &'a Value {
    let inner: Vec<&Value> = match tree {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    if inner.is_empty() || rng.u8(..5) == 0 { tree } else { branch(inner[rng.usize(..inner.len())], rng) }
}

/// Puts `value` at a place inside `tree`, or in place of it.
fn plant(tree: &mut Value, value: Value, rng: &mut Rng) {
    let mut inner: Vec<&mut Value> = match tree {
        Value::Object(fields) => fields.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        _ => Vec::new(),
    };
    if inner.is_empty() || rng.u8(..8) == 0 {
        *tree = value;
    } else {
        let at = rng.usize(..inner.len());
        plant(inner.swap_remove(at), value, rng);
    }
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
        let documents: Vec<Value> =
            seeds.iter().filter_map(|seed| serde_json::from_slice(seed).ok()).collect();
        let rounds = if documents.is_empty() { 0 } else { CHANGED };
        for _ in 0..rounds {
            check(target, &replanted(&documents, &mut rng));
        }
    }
}

#[test]
fn every_platform_has_a_target() {
    for platform in Channel::platforms() {
        assert!(TARGETS.iter().any(|target| target.name == platform.as_str()), "{platform}");
    }
}
