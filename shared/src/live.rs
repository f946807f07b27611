//! What a run says while it makes a reply, for whoever listens in the same process: [`Live`].
//!
//! Nothing of it is stored, and no run depends on a listener. Each chat has the turn that is under way, with all that was
//! said of it so far, so that whoever comes in the middle hears it from its beginning. What is heard may break off; only
//! [`Said::Stored`] is the history's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::chat_key::ChatKey;
use crate::message::Part;
use crate::model::Delta;
use crate::record::Record;
use crate::sort_key::SortKey;

/// The turns under way of one process. Clones share it; the default has no room for anybody.
#[derive(Clone, Debug, Default)]
pub struct Live(Option<Arc<Hub>>);

#[derive(Debug, Default)]
struct Hub(Mutex<HashMap<ChatKey, Arc<Room>>>);

/// A chat that somebody speaks or listens in.
#[derive(Debug, Default)]
struct Room {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How many turns have begun.
    turns: u64,
    /// The last that has.
    turn: Option<Arc<Begun>>,
    said: Vec<Said>,
    is_open: bool,
}

/// Which reply is being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The bases of the messages that it covers.
    pub covers: Vec<SortKey>,
    /// Where it will stand, or where the reply stands that goes on.
    pub reply: SortKey,
    /// The id that it has in the history.
    pub message_id: String,
}

/// A piece of what a run says.
#[derive(Clone, Debug)]
pub enum Said {
    /// The text goes on.
    Text(Arc<str>),
    /// What the model thinks goes on.
    Reasoning(Arc<str>),
    /// The answer broke off: what came of it since the last parts is void.
    Void,
    /// The reply so far, whole: a step is over, or a call has come to something.
    Parts(Arc<[Part]>),
    /// What is stored now: the reply, a later form of it, or the notice in its place.
    Stored(Arc<Record>),
}

/// What a listener hears.
#[derive(Clone, Debug)]
pub enum Heard {
    /// A reply begins.
    Begun(Arc<Begun>),
    /// A piece of it.
    Said(Said),
    /// Its run is over, with a reply or without.
    Ended,
}

impl Live {
    /// One in which runs are heard.
    pub fn on() -> Self {
        Self(Some(Arc::default()))
    }

    /// Where the run of `begun` speaks, until that is dropped.
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

    /// Hears the turns of `chat` from now on, the one under way from its beginning. `None` where nobody speaks here.
    pub fn listen(&self, chat: &ChatKey) -> Option<Listener> {
        let door = Door::open(self.0.as_ref()?, chat);
        let (turn, is_open) = {
            let state = door.room.state();
            (state.turns, state.is_open)
        };
        // The turn under way is still to be heard of.
        let turn = if is_open { turn - 1 } else { turn };
        Some(Listener { door, turn, heard: 0, is_over: true })
    }
}

/// Where a run speaks; once all of its clones are dropped, its turn is over. The default is not heard.
#[derive(Clone, Debug, Default)]
pub struct Feed(Option<Arc<Speaker>>);

#[derive(Debug)]
struct Speaker {
    door: Door,
    turn: u64,
}

impl Feed {
    /// Says a piece.
    pub fn say(&self, said: Said) {
        if let Some(Speaker { door, turn }) = self.0.as_deref() {
            door.room.change(|state| {
                // A run that another has overtaken is not heard any more.
                if state.turns == *turn {
                    state.said.push(said);
                }
            });
        }
    }

    /// Says what comes of an answer. Calls are said with the parts of their step.
    pub fn hear(&self, delta: Delta<'_>) {
        match delta {
            Delta::Text(text) => self.say(Said::Text(text.into())),
            Delta::Reasoning(text) => self.say(Said::Reasoning(text.into())),
            Delta::Void => self.say(Said::Void),
            Delta::Call(_) => {}
        }
    }

    /// Says the parts of the reply so far.
    pub fn parts(&self, parts: &[Part]) {
        if self.0.is_some() {
            self.say(Said::Parts(parts.into()));
        }
    }

    /// Says what is stored.
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

/// Hears the turns of one chat.
#[derive(Debug)]
pub struct Listener {
    door: Door,
    /// The number of the turn that is heard, or was last.
    turn: u64,
    /// How many pieces of it have been heard.
    heard: usize,
    is_over: bool,
}

impl Listener {
    /// The next that `listener` is to hear; waits for ever where there is none.
    pub async fn next_of(listener: &mut Option<Self>) -> Heard {
        match listener {
            Some(listener) => listener.next().await,
            None => std::future::pending().await,
        }
    }

    /// The next that is to be heard; waits for it. Safe to give up and to call again.
    pub async fn next(&mut self) -> Heard {
        loop {
            let changed = self.door.room.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that nothing is said between the two.
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

    /// Whether a turn is under way that is not heard to its end.
    pub fn is_under_way(&self) -> bool {
        self.door.room.state().is_open || !self.is_over
    }
}

/// A way into a room, which is there for as long as anybody has one.
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
        // The map's and this one: nobody else is in.
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

    /// What is heard at once: `7/reply: ` a turn, the texts, `.` its end.
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
        // And nobody hears what is over.
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
