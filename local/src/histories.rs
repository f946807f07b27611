//! Opens the histories of a data directory: [`open_history`], [`new_history`].

use std::path::Path;

use annals_io::clock::Clock;
use annals_store::history::{History, Retention};
use anyhow::Context;

use crate::stores::{Stores, TABLE, check_writable, make};

/// Opens the histories of a data directory, for commands beside the program.
pub async fn open_history(data_dir: &Path, retention: Retention, clock: Clock) -> anyhow::Result<History> {
    Ok(history(&open_stores(data_dir).await?, retention, clock))
}

/// Opens the stores of a data directory, which exists.
pub(crate) async fn open_stores(data_dir: &Path) -> anyhow::Result<Stores> {
    let is_there = data_dir
        .join("dynamodb.db")
        .try_exists()
        .with_context(|| format!("{} cannot be read by this user", data_dir.display()))?;
    anyhow::ensure!(
        is_there,
        "there is no data in {}: start Annals there first (cargo run), set ANNALS_DATA_DIR, or name another program by --url \
         or --profile",
        data_dir.display()
    );
    Stores::open(data_dir).await
}

/// Opens the histories of a data directory, for commands that write. Creates the directory if it does not exist.
pub async fn new_history(data_dir: &Path, retention: Retention, clock: Clock) -> anyhow::Result<History> {
    make(data_dir)?;
    check_writable(data_dir)?;
    Ok(history(&Stores::open(data_dir).await?, retention, clock))
}

pub(crate) fn history(stores: &Stores, retention: Retention, clock: Clock) -> History {
    History::new(stores.dynamodb.clone(), TABLE.into(), stores.bucket.clone(), clock, retention)
}
