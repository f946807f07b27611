//! Stores replies of channels that are not set up in `outbox.jsonl`: one line for each reply.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use annals_channel::delivery::{DeliveryError, Outbox, OutboxEntry};
use annals_core::chat_key::ChatKey;
use annals_core::sort_key::SortKey;
use anyhow::Context;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// The outbox of a data directory.
#[derive(Debug)]
pub(crate) struct FileOutbox {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ids: HashSet<String>,
    entries: Vec<OutboxEntry>,
}

impl State {
    /// Adds an entry; returns false if it is there already.
    fn add(&mut self, Line { id, entry }: Line) -> bool {
        let is_new = self.ids.insert(id);
        self.entries.extend(is_new.then_some(entry));
        is_new
    }
}

/// One line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    id: String,
    #[serde(flatten)]
    entry: OutboxEntry,
}

impl FileOutbox {
    /// Reads the outbox in `path`, empty if the file does not exist.
    pub(crate) fn open(path: PathBuf) -> anyhow::Result<Self> {
        let mut state = State::default();
        for line in lines(&path)?.into_iter().flatten() {
            state.add(line);
        }
        Ok(Self { path, state: Mutex::new(state) })
    }

    /// Returns all entries, oldest first.
    pub(crate) fn entries(&self) -> Vec<OutboxEntry> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).entries.clone()
    }

    /// Removes the replies to the chat of these names. Rewrites the file.
    pub(crate) fn forget(&self, names: &[ChatKey]) -> anyhow::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // `<ChatKey> <sort key>`
        let own: Vec<String> = names.iter().map(|name| format!("{name} ")).collect();
        let is_reply = |id: &str, own: &String| {
            id.strip_prefix(own.as_str()).is_some_and(|key| key.parse::<SortKey>().is_ok())
        };
        let is_of_chat = |line: &Line| own.iter().any(|own| is_reply(&line.id, own));
        let Some(lines) = lines(&self.path)? else { return Ok(()) };
        let (mut kept, mut left) = (String::new(), State::default());
        for line in lines.into_iter().filter(|line| !is_of_chat(line)) {
            let json = serde_json::to_string(&line)?;
            if left.add(line) {
                kept.push_str(&json);
                kept.push('\n');
            }
        }
        let new = self.path.with_extension("jsonl.new");
        std::fs::write(&new, kept).with_context(|| format!("failed to write {}", new.display()))?;
        std::fs::rename(&new, &self.path)
            .with_context(|| format!("failed to write {}", self.path.display()))?;
        *state = left;
        Ok(())
    }

    fn write(&self, id: &str, entry: OutboxEntry) -> anyhow::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.ids.contains(id) {
            return Ok(());
        }
        let line = Line { id: id.to_owned(), entry };
        let mut json = serde_json::to_string(&line)?;
        // Starts with a line break too, in case a crash has left an incomplete line.
        json.insert(0, '\n');
        json.push('\n');
        OpenOptions::new().create(true).append(true).open(&self.path)?.write_all(json.as_bytes())?;
        state.add(line);
        Ok(())
    }
}

/// Returns the lines of the outbox in `path`; `None` if there is none. A crash may have left an incomplete last line, whose
/// reply is posted again.
fn lines(path: &Path) -> anyhow::Result<Option<Vec<Line>>> {
    match std::fs::read(path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            Ok(Some(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

impl Outbox for FileOutbox {
    fn post<'a>(&'a self, id: &'a str, entry: OutboxEntry) -> BoxFuture<'a, Result<(), DeliveryError>> {
        let written = self.write(id, entry);
        let reason = |error: anyhow::Error| format!("failed to write {}: {error}", self.path.display());
        Box::pin(async move { written.map_err(|error| DeliveryError::Unavailable { reason: reason(error) }) })
    }
}

#[cfg(test)]
mod tests {
    use annals_core::record::Channel;
    use annals_core::sort_key::Timestamp;

    use super::*;

    fn entry(text: &str) -> OutboxEntry {
        OutboxEntry {
            channel: Channel::Telegram,
            chat_id: "42".into(),
            text: text.into(),
            ts: Timestamp::MIN,
        }
    }

    fn texts(outbox: &FileOutbox) -> Vec<String> {
        outbox.entries().into_iter().map(|entry| entry.text).collect()
    }

    async fn post(outbox: &FileOutbox, id: &str, text: &str) {
        outbox.post(id, entry(text)).await.unwrap();
    }

    #[tokio::test]
    async fn a_reply_is_stored_once_even_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("outbox.jsonl");
        let outbox = FileOutbox::open(path.clone()).unwrap();
        assert_eq!(texts(&outbox), [""; 0]);
        for (id, text) in [("1", "one"), ("2", "two\nlines \u{2028} 🌱"), ("1", "one"), ("1", "another one")]
        {
            post(&outbox, id, text).await;
        }
        let kept = ["one", "two\nlines \u{2028} 🌱"];
        assert_eq!(texts(&outbox), kept);
        assert_eq!(texts(&FileOutbox::open(path).unwrap()), kept);
    }

    /// A crash may cut a line anywhere, even within a character. All replies before and after it are kept, and the cut one is
    /// posted again.
    #[tokio::test]
    async fn an_incomplete_line_does_not_damage_others() {
        let dir = tempfile::tempdir().unwrap();
        let whole = dir.path().join("whole.jsonl");
        let outbox = FileOutbox::open(whole.clone()).unwrap();
        post(&outbox, "1", "one").await;
        let first = std::fs::read(&whole).unwrap().len();
        post(&outbox, "2", "bean 🌱").await;
        let bytes = std::fs::read(&whole).unwrap();
        assert!(bytes.len() > first);

        for cut in first..bytes.len() {
            let path = dir.path().join(format!("cut-{cut}.jsonl"));
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let outbox = FileOutbox::open(path.clone()).unwrap();
            // The line is complete if only its line break is missing.
            let left = if cut == bytes.len() - 1 { 2 } else { 1 };
            assert_eq!(texts(&outbox), ["one", "bean 🌱"][..left], "cut at {cut}");
            post(&outbox, "2", "bean 🌱").await;
            post(&outbox, "3", "three").await;
            let outbox = FileOutbox::open(path).unwrap();
            assert_eq!(texts(&outbox), ["one", "bean 🌱", "three"], "cut at {cut}");
        }
    }

    #[test]
    fn an_unreadable_outbox_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let error = FileOutbox::open(dir.path().to_owned()).unwrap_err();
        assert!(error.to_string().starts_with("cannot read"), "{error}");
    }
}
