//! Live events of a run while it makes a reply, for listeners in the same process: [`Live`].
//!
//! Events are not stored, and no run depends on a listener. Each chat keeps all events of its current turn, so that a
//! late listener gets the turn from its beginning. The events may break off; only [`ReplyEvent::Stored`] is in the history.
//!
//! A feed keeps the reply so far also if there are no listeners, for a run that is stopped and for the drafts that a platform
//! shows: [`Feed::so_far`].

mod so_far;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_core::chat_key::ChatKey;
use annals_core::message::Part;
use annals_core::record::Record;
use annals_core::sort_key::SortKey;
use annals_model::{Delta, Usage};
use tokio::sync::watch;

pub use so_far::ReplySoFar;

/// The current turns of one process. Clones share it; the default has no listeners.
#[derive(Clone, Debug, Default)]
pub struct Live(Option<Arc<Hub>>);

/// The state of each chat with a run or a listener.
#[derive(Debug, Default)]
struct Hub(Mutex<HashMap<ChatKey, watch::Sender<State>>>);

#[derive(Debug, Default)]
struct State {
    turns: u64,
    /// The last turn that has begun.
    turn: Option<Arc<ReplyStart>>,
    events: Vec<ReplyEvent>,
    is_open: bool,
}

/// The reply that is being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyStart {
    /// Bases of the messages that it covers.
    pub covers: Vec<SortKey>,
    /// Key at which it will be stored, or key of the reply that continues.
    pub reply: SortKey,
    pub message_id: String,
}

/// A live event of a run.
#[derive(Clone, Debug)]
pub enum ReplyEvent {
    Text(Arc<str>),
    Reasoning(Arc<str>),
    /// The answer broke off: the events since the last parts are void.
    Void,
    /// The whole reply so far: a step has ended, or a call has a result.
    Parts(Arc<[Part]>),
    /// The stored record: the reply, a later form of it, or the notice in its place.
    Stored(Arc<Record>),
}

#[derive(Clone, Debug)]
pub enum LiveEvent {
    Started(Arc<ReplyStart>),
    Reply(ReplyEvent),
    /// The run has ended, with a reply or without.
    Ended,
}

impl Live {
    /// Creates one for listeners.
    pub fn on() -> Self {
        Self(Some(Arc::default()))
    }

    /// Begins a turn. Its run sends events until the feed is dropped.
    pub fn begin(&self, chat: &ChatKey, begun: ReplyStart) -> Feed {
        let Some(hub) = &self.0 else { return Feed::default() };
        let handle = TopicHandle::open(hub, chat);
        let mut turn = 0;
        handle.topic.send_modify(|state| {
            turn = state.turns + 1;
            *state = State { turns: turn, turn: Some(Arc::new(begun)), events: Vec::new(), is_open: true };
        });
        Feed { publisher: Some(Arc::new(Publisher { handle, turn: turn.into() })), ..Feed::default() }
    }

    /// Listens to the turns of `chat` from now on, and to the current one from its beginning. Returns `None` if there
    /// are no live events here.
    pub fn listen(&self, chat: &ChatKey) -> Option<Listener> {
        let handle = TopicHandle::open(self.0.as_ref()?, chat);
        let state = handle.topic.subscribe();
        let turn = {
            let state = state.borrow();
            // The listener has yet to get the current turn.
            state.turns - u64::from(state.is_open)
        };
        Some(Listener { _handle: handle, state, turn, received: 0, is_over: true })
    }
}

/// The sender of a run's events. Its turn ends when all clones are dropped. The default has no listeners.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    publisher: Option<Arc<Publisher>>,
    so_far: Arc<Mutex<ReplySoFar>>,
}

#[derive(Debug)]
struct Publisher {
    handle: TopicHandle,
    /// Number of the turn; a turn that covers more messages has another.
    turn: AtomicU64,
}

impl Publisher {
    /// Changes the state, unless the run was overtaken: then nothing of it is told.
    fn change(&self, change: impl FnOnce(&mut State)) {
        self.handle.topic.send_if_modified(|state| {
            let is_current = state.turns == self.turn.load(Ordering::Acquire);
            if is_current {
                change(state);
                self.turn.store(state.turns, Ordering::Release);
            }
            is_current
        });
    }
}

impl Feed {
    pub fn so_far(&self) -> ReplySoFar {
        self.state().clone()
    }

    fn tell(&self, event: ReplyEvent) {
        if let Some(publisher) = self.publisher.as_deref() {
            publisher.change(|state| state.events.push(event));
        }
    }

    /// Tells that messages were added to the turn, so that its reply is `begun`: listeners get it from its beginning again.
    pub fn extend(&self, begun: ReplyStart) {
        let so_far: Arc<[Part]> = self.state().steps.as_slice().into();
        if let Some(publisher) = self.publisher.as_deref() {
            publisher.change(|state| {
                *state = State {
                    turns: state.turns + 1,
                    turn: Some(Arc::new(begun)),
                    events: vec![ReplyEvent::Parts(so_far)],
                    is_open: true,
                };
            });
        }
    }

    /// Sends a piece of an answer. Its calls are sent with the parts of their step.
    pub fn publish_delta(&self, delta: Delta<'_>) {
        self.state().add(delta);
        match delta {
            Delta::Text(text) => self.tell(ReplyEvent::Text(text.into())),
            Delta::Reasoning(text) => self.tell(ReplyEvent::Reasoning(text.into())),
            Delta::Void => self.tell(ReplyEvent::Void),
        }
    }

    /// Sends the parts of the reply so far.
    pub fn parts(&self, parts: &[Part]) {
        self.state().set_steps(parts);
        if self.publisher.is_some() {
            self.tell(ReplyEvent::Parts(parts.into()));
        }
    }

    /// Notes the model that is asked now. Listeners are not told.
    pub fn asked(&self, model: Option<String>) {
        self.state().model = model;
    }

    /// Notes the tokens of the reply so far. Listeners are not told.
    pub fn used(&self, usage: Option<Usage>) {
        self.state().usage = usage;
    }

    pub fn stored(&self, record: &Record) {
        if self.publisher.is_some() {
            self.tell(ReplyEvent::Stored(Arc::new(record.clone())));
        }
    }

    fn state(&self) -> MutexGuard<'_, ReplySoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.change(|state| state.is_open = false);
    }
}

/// Receives the events of one chat.
#[derive(Debug)]
pub struct Listener {
    _handle: TopicHandle,
    state: watch::Receiver<State>,
    /// Number of the current turn, or of the last one.
    turn: u64,
    /// Number of its events that have been received.
    received: usize,
    is_over: bool,
}

impl Listener {
    /// Returns the next event of `listener`; waits for ever if there is no listener.
    pub async fn next_of(listener: &mut Option<Self>) -> LiveEvent {
        match listener {
            Some(listener) => listener.next().await,
            None => std::future::pending().await,
        }
    }

    /// Waits for the next event and returns it. Cancel-safe.
    pub async fn next(&mut self) -> LiveEvent {
        loop {
            let event = {
                let state = self.state.borrow_and_update();
                match (&state.turn, state.events.get(self.received)) {
                    _ if state.turns != self.turn && !self.is_over => {
                        self.is_over = true;
                        Some(LiveEvent::Ended)
                    }
                    (Some(turn), _) if state.turns != self.turn => {
                        (self.turn, self.received, self.is_over) = (state.turns, 0, false);
                        Some(LiveEvent::Started(Arc::clone(turn)))
                    }
                    (_, Some(event)) if !self.is_over => {
                        self.received += 1;
                        Some(LiveEvent::Reply(event.clone()))
                    }
                    _ if !state.is_open && !self.is_over => {
                        self.is_over = true;
                        Some(LiveEvent::Ended)
                    }
                    _ => None,
                }
            };
            if let Some(event) = event {
                return event;
            }
            // Does not fail, since the handle has a sender.
            let _ = self.state.changed().await;
        }
    }
}

/// A handle of a topic. The topic exists as long as it has handles.
#[derive(Debug)]
struct TopicHandle {
    hub: Arc<Hub>,
    chat: ChatKey,
    topic: watch::Sender<State>,
}

impl TopicHandle {
    fn open(hub: &Arc<Hub>, chat: &ChatKey) -> Self {
        let topic = hub.topics().entry(chat.clone()).or_default().clone();
        Self { hub: Arc::clone(hub), chat: chat.clone(), topic }
    }
}

impl Drop for TopicHandle {
    fn drop(&mut self) {
        let mut topics = self.hub.topics();
        // Dropped under the lock: if two handles are dropped at once, the second finds only the map's sender.
        drop(std::mem::take(&mut self.topic));
        if topics.get(&self.chat).is_some_and(|topic| topic.sender_count() == 1) {
            topics.remove(&self.chat);
        }
    }
}

impl Hub {
    fn topics(&self) -> MutexGuard<'_, HashMap<ChatKey, watch::Sender<State>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn chat() -> ChatKey {
        ChatKey::telegram(42, None)
    }

    fn turn(number: u64) -> ReplyStart {
        let base: SortKey = format!("1763765920000#{number:020}").parse().unwrap();
        ReplyStart { reply: base.reply(), message_id: format!("{number}/reply"), covers: vec![base] }
    }

    /// Returns the events that are ready: `7/reply: ` for a turn, the texts, `.` for its end.
    fn heard(listener: &mut Listener) -> String {
        let next = || listener.next().now_or_never();
        let said = |heard| match heard {
            LiveEvent::Started(begun) => begun.message_id.clone() + ": ",
            LiveEvent::Reply(ReplyEvent::Text(text)) => text.to_string(),
            LiveEvent::Reply(said) => format!("{said:?}"),
            LiveEvent::Ended => ".".to_owned(),
        };
        std::iter::from_fn(next).map(said).collect()
    }

    #[test]
    fn a_late_listener_gets_a_turn_from_its_beginning() {
        let live = Live::on();
        let mut early = live.listen(&chat()).unwrap();
        let feed = live.begin(&chat(), turn(7));
        feed.publish_delta(Delta::Text("one "));
        assert_eq!(heard(&mut early), "7/reply: one ");
        let mut late = live.listen(&chat()).unwrap();
        feed.publish_delta(Delta::Text("two"));
        drop(feed);
        assert_eq!(heard(&mut early), "two.");
        assert_eq!(heard(&mut late), "7/reply: one two.");
        // A listener gets nothing of a turn that has ended.
        assert_eq!(heard(&mut live.listen(&chat()).unwrap()), "");
    }

    #[test]
    fn a_turn_that_covers_more_is_told_again_from_its_beginning() {
        let live = Live::on();
        let mut listener = live.listen(&chat()).unwrap();
        let feed = live.begin(&chat(), turn(7));
        feed.publish_delta(Delta::Text("let me see"));
        feed.parts(&[Part::text("let me see")]);
        heard(&mut listener);
        feed.extend(turn(8));
        feed.publish_delta(Delta::Text("there"));
        let told = heard(&mut listener);
        assert!(told.starts_with(".8/reply: Parts(") && told.ends_with("there"), "{told}");
        let late = heard(&mut live.listen(&chat()).unwrap());
        assert!(late.starts_with("8/reply: Parts("), "{late}");
        drop(feed);
        assert_eq!(heard(&mut listener), ".");
    }

    #[test]
    fn an_overtaken_run_publishes_and_ends_nothing() {
        let live = Live::on();
        let mut listener = live.listen(&chat()).unwrap();
        let old = live.begin(&chat(), turn(6));
        old.publish_delta(Delta::Text("old"));
        assert_eq!(heard(&mut listener), "6/reply: old");
        let new = live.begin(&chat(), turn(7));
        old.publish_delta(Delta::Text("late"));
        drop(old);
        new.publish_delta(Delta::Text("new"));
        assert_eq!(heard(&mut listener), ".7/reply: new");
        drop(new);
        assert_eq!(heard(&mut listener), ".");
    }

    #[test]
    fn a_chat_without_handles_takes_no_memory() {
        let live = Live::on();
        let feed = live.begin(&chat(), turn(7));
        let listener = live.listen(&chat()).unwrap();
        drop(feed);
        assert_eq!(live.0.as_ref().unwrap().topics().len(), 1);
        drop(listener);
        assert_eq!(live.0.as_ref().unwrap().topics().len(), 0);
        let off = Live::default();
        off.begin(&chat(), turn(7)).publish_delta(Delta::Text("x"));
        assert!(off.listen(&chat()).is_none());
    }
}
