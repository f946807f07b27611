//! Tells the model of a chat what was said in another one, and moves the memory of that with it: on a link of two
//! identities, on their separation, and when a window of a platform gets another chat by `DM_SCOPE`.
//!
//! 1. **move** the memory entries
//! 2. **ask** the model for a summary of the other chat, and **append** it as an event, create-only, at a key that the
//!    [`Join`] fixes; or, for one identity's part of it, **append** copies of the messages, create-only, at their own keys
//! 3. the caller **removes** the note of the join from the chat's head, under the run's lease
//!
//! A crash between any two is completed by the next run, which finds the note. Nothing is removed from the other chat.

use std::collections::BTreeSet;

use annals_core::chat_key::{ChatKey, Speakers};
use annals_core::compaction::cut::Cut;
use annals_core::compaction::summary::extract;
use annals_core::context::view::SessionView;
use annals_core::draft::{Draft, Origin};
use annals_core::memory::Source;
use annals_core::message::{Part as MessagePart, Role};
use annals_core::person::{Join, Part, windows};
use annals_core::record::{Channel, Kind, Record};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_store::history::turn::Lease;
use annals_store::history::{Cursor, HistoryError, MAX_PAGE, Position};
use annals_store::memory::{Memory, Undoable};

use crate::compaction::{Compaction, CompactionError};

/// Maximum number of pages of the other chat's newest records that are read.
const MAX_PAGES: usize = 5;

impl Compaction {
    /// Carries out `join` in the chat of `lease`, all but the removal of its note. Without `asks`, no model is asked: the
    /// event quotes the beginnings of the messages. Safe to repeat.
    pub async fn join(&self, lease: &Lease, join: &Join, asks: bool) -> Result<(), CompactionError> {
        self.move_memory(join).await?;
        let key = SortKey::message(join.ts, &join.id);
        if !self.history.message(&lease.chat, &key).await?.is_empty() {
            return Ok(());
        }
        let records = join.part.of(self.newest_of(join).await?, join.ts);
        if let Part::Only(identity) = &join.part {
            return Ok(self.copy(&records, &lease.chat, identity).await?);
        }
        let Some(last) = records.iter().rev().find(|record| record.is_interaction()).cloned() else {
            return Ok(());
        };
        let Some(summary) = self.summary_of(records, last.said_at(), asks).await? else { return Ok(()) };
        let (channel, chat_id) = (last.channel, last.chat_id.clone());
        let origin = Origin { chat: lease.chat.clone(), channel, chat_id, user_id: self.agent_id.clone() };
        let mut event = Draft::new(origin, join.id.clone(), join.ts)
            .of_kind(Kind::Event)
            .of_person(lease.chat.person().map(str::to_owned))
            .with_parts(vec![MessagePart::text(told(channel, last.said_at(), &summary))]);
        event.metadata.set_joined(&join.from, &join.from_person, last.said_at());
        self.history.import(&event, &key, 0).await?;
        Ok(())
    }

    /// Appends copies of the messages among `records` to `chat`, which is of `identity` alone. They ask for no answer.
    async fn copy(&self, records: &[Record], chat: &ChatKey, identity: &str) -> Result<(), HistoryError> {
        let is_said = |record: &&Record| {
            matches!(record.kind(), Kind::Normal | Kind::Revision | Kind::Event)
                && !record.message.metadata.is_joined()
        };
        for record in records.iter().filter(is_said) {
            let is_named = record.role() == Role::User && !record.channel.is_platform();
            let copy = Draft { chat: chat.clone(), ..Draft::from(record) }
                .of_person(is_named.then(|| identity.to_owned()));
            self.history.import(&copy, &record.key, record.revision()).await?;
        }
        Ok(())
    }

    /// Reads the newest records of the chat that `join` is about, in order: all that belongs to its last Session, as far
    /// as [`MAX_PAGES`] pages hold it; of what was said to businesses, only the boundaries.
    async fn newest_of(&self, join: &Join) -> Result<Vec<Record>, HistoryError> {
        let mut position = Position::Newest;
        let mut records: Vec<Record> = Vec::new();
        for _ in 0..MAX_PAGES {
            let mut page = self.history.page(&join.from, &position, MAX_PAGE).await?;
            page.records.retain(|record| record.line().is_none() || record.kind() == Kind::Boundary);
            records.splice(0..0, page.records);
            // A summary replaces what is older, if it may be told.
            let is_enough = join.part == Part::All && records.iter().any(|r| r.kind() == Kind::Summary);
            match page.before.filter(|_| !is_enough) {
                Some(before) => position = Position::Before(before),
                None => break,
            }
        }
        Ok(records)
    }

    /// Returns a summary of the Session of `records` in which somebody last spoke `at`; `None` if it shows nothing.
    async fn summary_of(
        &self,
        mut records: Vec<Record>,
        at: Timestamp,
        asks: bool,
    ) -> Result<Option<String>, CompactionError> {
        records.iter_mut().for_each(Record::ask_nothing);
        let (policy, rules) = (self.view.policy(0), self.rules());
        let view = SessionView::of(&records, at, &policy);
        let mut tokens = 0_u32;
        let fitting = view.earlier.iter().rev().take_while(|message| {
            tokens = tokens.saturating_add(view.corrected(message.shown_tokens()));
            tokens <= rules.source_tokens
        });
        let counted = &view.earlier[view.earlier.len() - fitting.count()..];
        let cut = Cut { folded: view.summary, counted, leaves_more: false };
        if counted.is_empty() {
            return Ok(view.summary.map(|summary| summary.message.plain_text()));
        }
        let quoted = || extract(&cut, rules.summary_tokens);
        if !asks {
            return Ok(Some(quoted()));
        }
        match self.summarise(&view, &cut, &rules, None).await {
            // Of a few words there is no shorter summary.
            Err(CompactionError::NoSummary(error)) => {
                tracing::info!(%error, "the messages of another chat are quoted, not summarised");
                Ok(Some(quoted()))
            }
            summary => summary.map(Some),
        }
    }

    /// Moves the entries that `join` is about.
    async fn move_memory(&self, join: &Join) -> Result<(), CompactionError> {
        if join.from_person == join.to_person {
            return Ok(());
        }
        let memory = Memory::beside(&self.history);
        let (from, to) = (self.owner(join.from_person.clone()), self.owner(join.to_person.clone()));
        let overview = memory.overview(&from).await?;
        let undoable = overview.undoable.into_iter().filter(Undoable::is_forgotten);
        let entries: Vec<_> =
            overview.kept.into_iter().chain(undoable.map(|change| change.earlier)).collect();
        let mut numbers = Vec::new();
        for stored in &entries {
            let moves = match (&join.part, &stored.entry.source) {
                (Part::All, _) => true,
                (Part::Only(identity), Some(source)) => self.is_of(source, join, identity).await?,
                (Part::Only(_), None) | (Part::Without(_), _) => false,
            };
            if moves {
                numbers.push(stored.number);
            }
        }
        memory.move_entries(&from, &to, &numbers).await?;
        if join.part == Part::All
            && let Some(time_zone) = overview.time_zone
            && memory.time_zone(&to).await?.is_none()
        {
            memory.set_time_zone(&to, time_zone).await?;
        }
        Ok(())
    }

    /// Returns true if everything that an entry is from was said by `identity`: in a chat of its own, or in the chat of
    /// `join`, in its windows alone. What cannot be told is not.
    async fn is_of(&self, source: &Source, join: &Join, identity: &str) -> Result<bool, HistoryError> {
        if source.chat != join.from {
            return self.is_own(&source.chat, identity).await;
        }
        let before = SortKey::start_of(source.from.ts());
        let mut position = Position::After(Cursor::at(&join.from, &before));
        let mut records = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = self.history.page(&join.from, &position, MAX_PAGE).await?;
            let is_over = page.records.last().is_none_or(|last| last.key.base() > source.to);
            records.extend(page.records);
            match page.after {
                Some(after) if !is_over => position = Position::After(after),
                Some(_) | None => {
                    let in_it = |record: &&Record| {
                        let base = record.key.base();
                        source.from <= base && base <= source.to && record.is_interaction()
                    };
                    let said: Vec<Record> = records.iter().filter(in_it).cloned().collect();
                    let own = windows(&said, &[identity.to_owned()]);
                    let all: BTreeSet<(Channel, String)> =
                        said.iter().map(|record| (record.channel, record.chat_id.clone())).collect();
                    return Ok(!all.is_empty() && all == own);
                }
            }
        }
        Ok(false)
    }

    /// Returns true if `chat` is one of `identity` alone: its direct chat, or its window on a platform.
    async fn is_own(&self, chat: &ChatKey, identity: &str) -> Result<bool, HistoryError> {
        Ok(match chat.speakers() {
            Speakers::One(own) => own == identity,
            Speakers::Untold(_) | Speakers::Callers => {
                let newest = self.history.page(chat, &Position::Newest, MAX_PAGE).await?.records;
                let mut said = newest.iter().filter(|record| record.is_interaction()).peekable();
                said.peek().is_some() && said.all(|record| record.sender() == identity)
            }
            Speakers::Several => false,
        })
    }
}

/// Returns the text of the event: where and when it was said, and what.
fn told(channel: Channel, until: Timestamp, summary: &str) -> String {
    let time = until.rfc3339();
    let minute = time.get(..16).unwrap_or(&time).replace('T', " ");
    format!(
        "The same person's conversation in another chat ({channel}), until {minute} UTC, in summary:\n{summary}"
    )
}
