//! Times the comparison of secrets with wrong guesses, as dudect does: each guess is wrong in its first byte or in its last, at
//! random, and is made before it is timed. Prints Welch's t of the two classes. See `bench/README.md`.
//!
//! Source: Reparaz, Balasch, Verbauwhede, "Dude, is my code constant time?", <https://eprint.iacr.org/2016/1123>.

use std::hint::black_box;
use std::iter::repeat_with;
use std::time::Instant;

use annals_core::secret::is_same;

const BATCHES: usize = 200;
const BATCH: usize = 10_000;

/// Shares of the samples, in thousandths, of which t is computed. The slowest ones are interrupts.
const FASTEST: [usize; 6] = [1000, 999, 990, 900, 750, 500];

/// A time in nanoseconds, and true if the guess was wrong in its last byte.
type Sample = (u32, bool);

fn main() {
    println!("| comparison | bytes | samples | median, ns | t |\n|---|---|---|---|---|");
    for length in [16, 32, 64, 128] {
        print("`is_same`", length, is_same);
    }
    print("one that stops at the first difference", 64, stops_early);
}

fn stops_early(given: &[u8], secret: &[u8]) -> bool {
    given.len() == secret.len() && given.iter().zip(secret).all(|(given, known)| black_box(given) == known)
}

fn print(name: &str, length: usize, compare: fn(&[u8], &[u8]) -> bool) {
    let samples = measure(length, compare);
    let median = samples[samples.len() / 2].0;
    println!("| {name} | {length} | {} | {median} | {:.1} |", samples.len(), largest_t(&samples));
}

/// Returns the samples, the fastest first.
fn measure(length: usize, compare: fn(&[u8], &[u8]) -> bool) -> Vec<Sample> {
    let secret: Vec<u8> = repeat_with(|| fastrand::u8(..)).take(length).collect();
    let guess = || {
        let (is_last, mut guess) = (fastrand::bool(), secret.clone());
        guess[if is_last { length - 1 } else { 0 }] ^= 1;
        (is_last, guess)
    };
    let mut samples = Vec::with_capacity(BATCHES * BATCH);
    for _ in 0..BATCHES {
        let guesses: Vec<(bool, Vec<u8>)> = repeat_with(guess).take(BATCH).collect();
        for (is_last, guess) in &guesses {
            let start = Instant::now();
            black_box(compare(black_box(guess), black_box(&secret)));
            let nanos = start.elapsed().as_nanos();
            samples.push((u32::try_from(nanos).unwrap_or(u32::MAX), *is_last));
        }
    }
    samples.sort_unstable_by_key(|(nanos, _)| *nanos);
    samples
}

/// Returns the t that is farthest from 0, over all [`FASTEST`].
fn largest_t(samples: &[Sample]) -> f64 {
    let fastest = FASTEST.map(|share| {
        // Up to a time, so that equal times are in or out together.
        let limit = samples.get(samples.len() * share / 1000).map_or(u32::MAX, |(nanos, _)| *nanos);
        t(&samples[..samples.partition_point(|(nanos, _)| *nanos < limit)])
    });
    fastest.into_iter().filter(|t| t.is_finite()).max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0)
}

/// Returns Welch's t of the two classes: the difference of their means, in units of its standard error.
fn t(samples: &[Sample]) -> f64 {
    let [first, last] = [false, true].map(|class| {
        let times =
            samples.iter().filter(|(_, is_last)| *is_last == class).map(|(nanos, _)| f64::from(*nanos));
        let (count, sum) = times.clone().fold((0.0, 0.0), |(count, sum), time| (count + 1.0, sum + time));
        let mean = sum / count;
        let variance = times.map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, variance / count)
    });
    (last.0 - first.0) / (first.1 + last.1).sqrt()
}
