//! The reply that a run is making, kept outside the run: a `/stop` ends the run, and stores what it has said.

use std::sync::{Mutex, PoisonError};

use annals_core::approval;
use annals_core::language::Language;
use annals_core::message::{Part, UiMessage};
use annals_core::metadata::Notice;
use annals_core::texts::Texts;
use annals_engine::live::Feed;
use annals_store::history::turn::{Head, OpenTurn};

/// Returns true if `message` is in place of a reply that was stopped before its first word.
pub fn is_stopped_unanswered(message: &UiMessage) -> bool {
    // Records of earlier versions have the English text alone.
    message.metadata.notice() == Some(Notice::StoppedUnanswered)
        || (message.metadata.is_stopped()
            && message.plain_text() == Language::En.texts().stopped_unanswered())
}

/// The reply that a run is making, for its drafts, and for the case that the run is stopped.
#[derive(Debug, Default)]
pub(crate) struct Making(Mutex<Option<Unstored>>);

impl Making {
    /// Notes that the run makes the reply of `turn`, which `feed` tells of. Called again if the messages of the turn
    /// change.
    pub(crate) fn begin(&self, turn: &OpenTurn, feed: &Feed) {
        let unstored = Unstored { turn: turn.clone(), feed: feed.clone() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(unstored);
    }

    /// Returns the text of the reply so far; an empty one before it has begun.
    pub(crate) fn text(&self) -> String {
        let unstored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unstored.as_ref().map(|unstored| unstored.feed.so_far().text()).unwrap_or_default()
    }

    /// Takes the reply as far as the run has made it. Returns `None` if it has no content.
    pub(crate) fn take(&self) -> Option<Unstored> {
        let unstored = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        (!unstored.feed.so_far().is_empty()).then_some(unstored)
    }
}

/// A reply that a stopped run has not stored.
#[derive(Clone, Debug)]
pub(crate) struct Unstored {
    turn: OpenTurn,
    /// Its listeners have the reply so far, and are told only that it is stored.
    pub(crate) feed: Feed,
}

impl Unstored {
    /// Returns the part of `turn`, which a `/stop` ends in the chat of `head`, that this reply answers: not messages that came
    /// while it was made, unless they were added to its turn.
    pub(crate) fn answered(&self, head: &Head, turn: &OpenTurn) -> Option<OpenTurn> {
        let continues = |turn: &OpenTurn| turn.resumes.as_ref().map(|resumed| resumed.reply.clone());
        if continues(turn) != continues(&self.turn) {
            return None;
        }
        let own = &self.turn.covers;
        if head.turn.is_some() || turn.resumes.is_some() {
            return (turn.covers == *own).then(|| turn.clone());
        }
        let covers = turn.covers.iter().filter(|base| own.contains(base));
        let covers: Vec<_> = covers.cloned().collect();
        (!covers.is_empty()).then(|| OpenTurn::new(covers))
    }

    /// Returns the reply, as the `/stop` with this id ends it.
    pub(crate) fn message(&self, command_id: &str, texts: &dyn Texts) -> UiMessage {
        let message = self.feed.so_far().into_message();
        let mut message = approval::stopped(&message, command_id).unwrap_or(message);
        if message.plain_text().trim().is_empty() {
            message.parts.extend([Part::step_start(), Part::text(texts.stopped_unanswered())]);
            message.metadata.set_notice(Notice::StoppedUnanswered);
        }
        message
    }
}
