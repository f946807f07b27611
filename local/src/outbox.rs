//! Replies of channels that are not set up: kept in `outbox.jsonl`, one line each, once for each reply.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use annals_shared::delivery::{DeliveryError, Outbox, OutboxEntry};
use anyhow::Context;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// The outbox of a data directory.
#[derive(Debug)]
pub struct FileOutbox {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ids: HashSet<String>,
    entries: Vec<OutboxEntry>,
}

/// One line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    id: String,
    #[serde(flatten)]
    entry: OutboxEntry,
}

impl FileOutbox {
    /// The outbox in `path`, empty where there is no such file.
    pub fn open(path: PathBuf) -> anyhow::Result<Self> {
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let mut state = State::default();
        // A crash may have left half a line at the end: its reply is posted again.
        for line in
            String::from_utf8_lossy(&bytes).lines().filter_map(|line| serde_json::from_str::<Line>(line).ok())
        {
            if state.ids.insert(line.id) {
                state.entries.push(line.entry);
            }
        }
        Ok(Self { path, state: Mutex::new(state) })
    }

    /// Every entry, the oldest first.
    pub fn entries(&self) -> Vec<OutboxEntry> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).entries.clone()
    }

    fn write(&self, id: &str, entry: OutboxEntry) -> anyhow::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.ids.contains(id) {
            return Ok(());
        }
        let line = Line { id: id.to_owned(), entry };
        let mut json = serde_json::to_string(&line)?;
        // In front too, so that half a line left by a crash spoils no other.
        json.insert(0, '\n');
        json.push('\n');
        OpenOptions::new().create(true).append(true).open(&self.path)?.write_all(json.as_bytes())?;
        state.ids.insert(line.id);
        state.entries.push(line.entry);
        Ok(())
    }
}

impl Outbox for FileOutbox {
    fn post<'a>(&'a self, id: &'a str, entry: OutboxEntry) -> BoxFuture<'a, Result<(), DeliveryError>> {
        let written = self.write(id, entry);
        let reason = |error: anyhow::Error| format!("cannot write {}: {error}", self.path.display());
        Box::pin(async move { written.map_err(|error| DeliveryError::Unavailable { reason: reason(error) }) })
    }
}
