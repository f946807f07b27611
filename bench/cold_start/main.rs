//! Measures each function's time from the start of its process to its first answer, compared with a minimal function,
//! its size, and its memory. See `bench/README.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure ends it with the line that failed")]

mod account;
mod cases;
mod runtime_api;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cases::{Case, World};
use clap::Parser;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use runtime_api::{Launch, launch};

#[derive(Parser)]
#[command(about = "Cold starts of the functions, beside a minimal one")]
struct Arguments {
    /// Folder with <function>/bootstrap or <function> of each, `minimal` included. Default: they are built with
    /// --release.
    #[arg(long)]
    bootstraps: Option<PathBuf>,
    /// Number of starts of each function.
    #[arg(long, default_value_t = 20)]
    rounds: u64,
    /// Only these functions, and the minimal one.
    functions: Vec<String>,
    /// Passed by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let world = World::start().await;
    let wanted = |case: &Case| {
        let names = &arguments.functions;
        case.function == "minimal" || names.is_empty() || names.iter().any(|name| name == case.function)
    };
    let cases: Vec<Case> = world.cases().into_iter().filter(wanted).collect();
    let mut functions: Vec<&str> = cases.iter().map(|case| case.function).collect();
    functions.dedup();
    let folder = arguments.bootstraps.unwrap_or_else(|| build(&functions));
    let mut launches: Vec<Vec<Launch>> = vec![Vec::new(); cases.len()];
    // In turn, so that other load on this machine affects all alike. The first round is not counted; it brings all
    // binaries into the page cache.
    for round in 0..=arguments.rounds {
        for (number, case) in cases.iter().enumerate() {
            // Each event has its own number, and so its own chat or message.
            let first = 10_000 * number as u64 + 2 * round;
            let event = async |second| world.event(case.first, first + second).await;
            let (taken, answers) = launch(&file(&folder, case.function), &case.env, event).await;
            world.check(case.first, &answers, [first, first + 1]).await;
            if round > 0 {
                launches[number].push(taken);
            }
        }
    }
    print(&folder, &functions, &cases, &launches);
}

/// Builds the functions as they are deployed, and returns their folder.
fn build(functions: &[&str]) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    // The folder of this program's profile is in it.
    let own = std::env::current_exe().unwrap();
    let target = own.ancestors().nth(3).unwrap();
    // A function builds by itself: a common build links the features of all into each.
    for function in functions {
        let manifest = match *function {
            "minimal" => "bench/minimal/Cargo.toml".to_owned(),
            function => format!("functions/{function}/Cargo.toml"),
        };
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--release", "--locked", "--manifest-path", &manifest, "--target-dir"])
            .arg(target);
        assert!(cargo.current_dir(workspace).status().unwrap().success(), "{function} does not build");
    }
    target.join("release")
}

fn file(folder: &Path, function: &str) -> PathBuf {
    let inner = folder.join(function).join("bootstrap");
    if inner.is_file() { inner } else { folder.join(function) }
}

fn print(folder: &Path, functions: &[&str], cases: &[Case], launches: &[Vec<Launch>]) {
    println!(
        "| function | event | first answer, ms: median (min–max) | beside minimal | start, ms | second answer, ms \
         | cold, ms | beside minimal | CPU, ms | peak, MB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let base = median(&launches[0], |launch| launch.answered);
    // The cost that a process pays once: the time by which its first answer is slower than the next one to an event of
    // the same kind.
    let cold = |launch: &Launch| launch.answered.saturating_sub(launch.warm);
    let cold_base = median(&launches[0], cold);
    for (case, launches) in cases.iter().zip(launches) {
        let answered =
            |of: fn(std::slice::Iter<'_, Launch>) -> Option<Duration>| millis(of(launches.iter()).unwrap());
        let middle = median(launches, |launch| launch.answered);
        println!(
            "| {} | {} | {} ({}–{}) | {:.2} | {} | {} | {} | {:.2} | {} | {:.1} |",
            case.function,
            case.what,
            millis(middle),
            answered(|launches| launches.map(|launch| launch.answered).min()),
            answered(|launches| launches.map(|launch| launch.answered).max()),
            middle.as_secs_f64() / base.as_secs_f64(),
            millis(median(launches, |launch| launch.ready)),
            millis(median(launches, |launch| launch.warm)),
            millis(median(launches, cold)),
            median(launches, cold).as_secs_f64() / cold_base.as_secs_f64(),
            millis(median(launches, |launch| launch.cpu)),
            megabytes(launches.iter().map(|launch| launch.peak_kb).max().unwrap() * 1024),
        );
    }
    println!("\n| function | binary, MB | zipped, MB |\n|---|---|---|");
    for function in functions {
        let binary = std::fs::read(file(folder, function)).unwrap();
        let mut zip = DeflateEncoder::new(Vec::new(), Compression::best());
        zip.write_all(&binary).unwrap();
        let zipped = zip.finish().unwrap().len() as u64;
        println!("| {function} | {:.1} | {:.1} |", megabytes(binary.len() as u64), megabytes(zipped));
    }
}

fn median(launches: &[Launch], of: fn(&Launch) -> Duration) -> Duration {
    let mut all: Vec<Duration> = launches.iter().map(of).collect();
    all.sort();
    (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2
}

fn millis(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1000.0)
}

#[allow(clippy::cast_precision_loss, reason = "printed with one digit")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
