//! Writes the seeds of each parser: `cargo run -p annals-hostile --bin seeds -- fuzz/corpus`.

use std::path::PathBuf;

use annals_hostile::TARGETS;

fn main() -> std::io::Result<()> {
    let corpus = std::env::args_os().nth(1).map_or_else(|| "fuzz/corpus".into(), PathBuf::from);
    for target in &TARGETS {
        let folder = corpus.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number:04}")), seed)?;
        }
    }
    Ok(())
}
