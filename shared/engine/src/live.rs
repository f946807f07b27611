//! Live events of a run while it makes a reply, for listeners in the same process: [`Live`].
//!
//! Events are not stored, and no run depends on a listener. Each chat keeps all events of its current turn, so that a
//! late listener gets the turn from its beginning. The events may break off; only [`Said::Stored`] is in the history.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_core::chat_key::ChatKey;
use annals_core::message::Part;
use annals_core::record::Record;
use annals_core::sort_key::SortKey;
use annals_model::Delta;
use tokio::sync::Notify;

/// The current turns of one process. Clones share it; the default has no listeners.
#[derive(Clone, Debug, Default)]
pub struct Live(Option<Arc<Hub>>);

#[derive(Debug, Default)]
struct Hub(Mutex<HashMap<ChatKey, Arc<Room>>>);

/// A chat with a run or a listener.
#[derive(Debug, Default)]
struct Room {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Number of turns that have begun.
    turns: u64,
    /// The last turn that has begun.
    turn: Option<Arc<Begun>>,
    said: Vec<Said>,
    is_open: bool,
}

/// The reply that is being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Bases of the messages that it covers.
    pub covers: Vec<SortKey>,
    /// Key at which it will be stored, or key of the reply that continues.
    pub reply: SortKey,
    /// Its id in the history.
    pub message_id: String,
}

/// A live event of a run.
#[derive(Clone, Debug)]
pub enum Said {
    /// More text.
    Text(Arc<str>),
    /// More of the model's reasoning.
    Reasoning(Arc<str>),
    /// The answer broke off: the events since the last parts are void.
    Void,
    /// The whole reply so far: a step has ended, or a call has a result.
    Parts(Arc<[Part]>),
    /// The stored record: the reply, a later form of it, or the notice in its place.
    Stored(Arc<Record>),
}

/// An event for a listener.
#[derive(Clone, Debug)]
pub enum Heard {
    /// A reply begins.
    Begun(Arc<Begun>),
    /// A part of the reply.
    Said(Said),
    /// The run has ended, with a reply or without.
    Ended,
}

impl Live {
    /// Creates one that has listeners.
    pub fn on() -> Self {
        Self(Some(Arc::default()))
    }

    /// Begins a turn. Its run sends events until the feed is dropped.
    pub fn begin(&self, chat: &ChatKey, begun: Begun) -> Feed {
        let Some(hub) = &self.0 else { return Feed::default() };
        let door = Door::open(hub, chat);
        let turn = door.room.change(|state| {
            *state = State {
                turns: state.turns + 1,
                turn: Some(Arc::new(begun)),
                said: Vec::new(),
                is_open: true,
            };
            state.turns
        });
        Feed(Some(Arc::new(Speaker { door, turn })))
    }

    /// Listens to the turns of `chat` from now on, and to the current one from its beginning. Returns `None` if there
    /// are no live events here.
    pub fn listen(&self, chat: &ChatKey) -> Option<Listener> {
        let door = Door::open(self.0.as_ref()?, chat);
        let (turn, is_open) = {
            let state = door.room.state();
            (state.turns, state.is_open)
        };
        // The listener has yet to get the current turn.
        let turn = if is_open { turn - 1 } else { turn };
        Some(Listener { door, turn, heard: 0, is_over: true })
    }
}

/// The sender of a run's events. Its turn ends when all clones are dropped. The default drops all events.
#[derive(Clone, Debug, Default)]
pub struct Feed(Option<Arc<Speaker>>);

#[derive(Debug)]
struct Speaker {
    door: Door,
    turn: u64,
}

impl Feed {
    /// Sends an event.
    pub fn say(&self, said: Said) {
        if let Some(Speaker { door, turn }) = self.0.as_deref() {
            door.room.change(|state| {
                // Events of a run that another has overtaken are dropped.
                if state.turns == *turn {
                    state.said.push(said);
                }
            });
        }
    }

    /// Sends a piece of an answer. Calls are sent with the parts of their step.
    pub fn hear(&self, delta: Delta<'_>) {
        match delta {
            Delta::Text(text) => self.say(Said::Text(text.into())),
            Delta::Reasoning(text) => self.say(Said::Reasoning(text.into())),
            Delta::Void => self.say(Said::Void),
            Delta::Call(_) => {}
        }
    }

    /// Sends the parts of the reply so far.
    pub fn parts(&self, parts: &[Part]) {
        if self.0.is_some() {
            self.say(Said::Parts(parts.into()));
        }
    }

    /// Sends the stored record.
    pub fn stored(&self, record: &Record) {
        if self.0.is_some() {
            self.say(Said::Stored(Arc::new(record.clone())));
        }
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.door.room.change(|state| {
            if state.turns == self.turn {
                state.is_open = false;
            }
        });
    }
}

/// Receives the events of one chat.
#[derive(Debug)]
pub struct Listener {
    door: Door,
    /// Number of the current turn, or of the last one.
    turn: u64,
    /// Number of its events that have been received.
    heard: usize,
    is_over: bool,
}

impl Listener {
    /// Returns the next event of `listener`; waits for ever if there is no listener.
    pub async fn next_of(listener: &mut Option<Self>) -> Heard {
        match listener {
            Some(listener) => listener.next().await,
            None => std::future::pending().await,
        }
    }

    /// Waits for the next event and returns it. Cancel-safe.
    pub async fn next(&mut self) -> Heard {
        loop {
            let changed = self.door.room.changed.notified();
            tokio::pin!(changed);
            // Registered before the check, so that no event between the two is missed.
            changed.as_mut().enable();
            let heard = {
                let state = self.door.room.state();
                match (&state.turn, state.said.get(self.heard)) {
                    _ if state.turns != self.turn && !self.is_over => {
                        self.is_over = true;
                        Some(Heard::Ended)
                    }
                    (Some(turn), _) if state.turns != self.turn => {
                        (self.turn, self.heard, self.is_over) = (state.turns, 0, false);
                        Some(Heard::Begun(Arc::clone(turn)))
                    }
                    (_, Some(said)) if !self.is_over => {
                        self.heard += 1;
                        Some(Heard::Said(said.clone()))
                    }
                    _ if !state.is_open && !self.is_over => {
                        self.is_over = true;
                        Some(Heard::Ended)
                    }
                    _ => None,
                }
            };
            match heard {
                Some(heard) => return heard,
                None => changed.await,
            }
        }
    }

    /// Returns true if a turn is running, or has ended and is not yet received to its end.
    pub fn is_under_way(&self) -> bool {
        self.door.room.state().is_open || !self.is_over
    }
}

/// A handle of a room. The room exists as long as it has handles.
#[derive(Debug)]
struct Door {
    hub: Arc<Hub>,
    chat: ChatKey,
    room: Arc<Room>,
}

impl Door {
    fn open(hub: &Arc<Hub>, chat: &ChatKey) -> Self {
        let room = Arc::clone(hub.rooms().entry(chat.clone()).or_default());
        Self { hub: Arc::clone(hub), chat: chat.clone(), room }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let mut rooms = self.hub.rooms();
        // The map's reference and this one: the room has no other handle.
        if Arc::strong_count(&self.room) <= 2 {
            rooms.remove(&self.chat);
        }
    }
}

impl Hub {
    fn rooms(&self) -> MutexGuard<'_, HashMap<ChatKey, Arc<Room>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.changed.notify_waiters();
        changed
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn chat() -> ChatKey {
        ChatKey::telegram(42, None)
    }

    fn turn(number: u64) -> Begun {
        let base: SortKey = format!("1763765920000#{number:020}").parse().unwrap();
        Begun { reply: base.reply(), message_id: format!("{number}/reply"), covers: vec![base] }
    }

    /// Returns the events that are ready: `7/reply: ` for a turn, the texts, `.` for its end.
    fn heard(listener: &mut Listener) -> String {
        let next = || listener.next().now_or_never();
        let said = |heard| match heard {
            Heard::Begun(begun) => begun.message_id.clone() + ": ",
            Heard::Said(Said::Text(text)) => text.to_string(),
            Heard::Said(said) => format!("{said:?}"),
            Heard::Ended => ".".to_owned(),
        };
        std::iter::from_fn(next).map(said).collect()
    }

    #[test]
    fn who_comes_in_the_middle_hears_a_turn_from_its_beginning() {
        let live = Live::on();
        let mut early = live.listen(&chat()).unwrap();
        assert!(!early.is_under_way());
        let feed = live.begin(&chat(), turn(7));
        feed.hear(Delta::Text("one "));
        assert_eq!(heard(&mut early), "7/reply: one ");
        let mut late = live.listen(&chat()).unwrap();
        assert!(late.is_under_way());
        feed.hear(Delta::Text("two"));
        drop(feed);
        assert_eq!(heard(&mut early), "two.");
        assert_eq!(heard(&mut late), "7/reply: one two.");
        assert!(!late.is_under_way());
        // A listener gets nothing of a turn that has ended.
        assert_eq!(heard(&mut live.listen(&chat()).unwrap()), "");
    }

    #[test]
    fn an_overtaken_run_is_not_heard_and_ends_nothing() {
        let live = Live::on();
        let mut listener = live.listen(&chat()).unwrap();
        let old = live.begin(&chat(), turn(6));
        old.hear(Delta::Text("old"));
        assert_eq!(heard(&mut listener), "6/reply: old");
        let new = live.begin(&chat(), turn(7));
        old.hear(Delta::Text("late"));
        drop(old);
        new.hear(Delta::Text("new"));
        assert_eq!(heard(&mut listener), ".7/reply: new");
        drop(new);
        assert_eq!(heard(&mut listener), ".");
    }

    #[test]
    fn a_chat_in_which_nobody_is_takes_no_room() {
        let live = Live::on();
        let feed = live.begin(&chat(), turn(7));
        let listener = live.listen(&chat()).unwrap();
        drop(feed);
        assert_eq!(live.0.as_ref().unwrap().rooms().len(), 1);
        drop(listener);
        assert_eq!(live.0.as_ref().unwrap().rooms().len(), 0);
        let off = Live::default();
        off.begin(&chat(), turn(7)).hear(Delta::Text("x"));
        assert!(off.listen(&chat()).is_none());
    }
}
