//! The command line of Annals on this machine: `cargo run`.

use std::process::ExitCode;

fn main() -> ExitCode {
    annals_local::commands::run()
}
