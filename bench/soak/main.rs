//! The soak: many chats of three platforms send messages to the real program in bursts, while it is killed, the network to
//! its model and the platforms fails, and the platforms deliver twice. Records live for minutes; people edit and repeat messages
//! that were archived long ago, and delete whole chats. Then the histories are checked: every message since the chat's
//! last deletion is there once, with its edits, and covered by exactly one reply, and no earlier message is there. See
//! `bench/README.md`.
//!
//! ```sh
//! cargo bench --profile dev --bench soak
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure ends it with the line that failed")]
#![allow(
    clippy::disallowed_methods,
    reason = "the program under test is a process of its own, on the system's clock"
)]

mod handle;
mod program;
mod verdict;
mod world;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use program::Program;
use world::{Channel, Lived, Speaker, World};

/// Maximum time until the program is idle, after the last message and the last kill.
const REST: Duration = Duration::from_mins(10);

/// Chats that send bursts of messages to a program that is killed.
#[derive(Parser)]
struct Arguments {
    /// Number of chats: half on Telegram, a quarter on Lark, a quarter over HTTP
    #[arg(long, default_value_t = 200)]
    chats: u64,
    /// Number of messages in all
    #[arg(long, default_value_t = 20_000)]
    messages: u64,
    /// Duration of the messages in minutes, roughly
    #[arg(long, default_value_t = 25)]
    minutes: u64,
    /// Average time in seconds until the program is killed
    #[arg(long, default_value_t = 20)]
    life: u64,
    /// `SESSION_STALE_AFTER` in seconds; `ARCHIVE_GRACE` is twice as long
    #[arg(long, default_value_t = 120)]
    stale: u64,
    /// Seed of the bursts, pauses, repeats, edits, deletions and kills
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for the program's data and log; emptied first
    #[arg(long, default_value = "target/soak")]
    data: PathBuf,
    /// The program, if it is not the one that cargo has built
    #[arg(long, default_value = env!("CARGO_BIN_EXE_annals"))]
    program: PathBuf,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let began = Instant::now();
    drop(std::fs::remove_dir_all(&arguments.data));
    std::fs::create_dir_all(&arguments.data).unwrap();
    let world = Arc::new(World::start(arguments.stale, arguments.seed).await);
    let life = Duration::from_secs(arguments.life);
    let program = Program::start(arguments.program, &arguments.data, &world, life, arguments.seed);
    let per_chat = arguments.messages / arguments.chats;
    let span = Duration::from_secs(arguments.minutes * 60);
    let speakers = (1..=arguments.chats).map(|number| Speaker {
        channel: Channel::of(number),
        number,
        messages: per_chat,
        span,
        rng: fastrand::Rng::with_seed(arguments.seed.wrapping_mul(1_000_003) ^ number),
        program: program.handle(),
        said: HashMap::new(),
        lived: Lived::default(),
    });
    let speaking: Vec<_> = speakers.map(|speaker| tokio::spawn(speaker.speak())).collect();
    let mut lived = Vec::new();
    for speaker in speaking {
        lived.push(speaker.await.unwrap());
    }
    println!("all has been said after {} s", began.elapsed().as_secs());
    let report = program.come_to_rest(&world, REST).await;
    println!("all is at rest after {} s", began.elapsed().as_secs());
    let verdict = verdict::of(&arguments.data, &world, &lived, per_chat).await;
    verdict.print(&report, &lived, &world);
    if verdict.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
