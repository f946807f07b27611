//! What people see of a run before its reply, from the moment that it knows whom it answers until it is over: "typing…",
//! in private chats of Telegram the answer as it grows (`STREAM_REPLIES`), on Lark a reaction to their message.
//!
//! No run waits for any of it, but for the end of a reaction, which would else stay. A run that dies leaves its reaction.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_shared::chat_key::ChatKey;
use annals_shared::delivery::Drafted;
use annals_shared::live::{Heard, Listener, Said};
use annals_shared::message::{Role, UiMessage};
use annals_shared::record::{Channel, Record};
use annals_shared::sort_key::Timestamp;
use futures::future::pending;
use tokio::sync::watch;

use crate::turn::Agent;

/// How often the typing indicator is shown again: Telegram's lasts five seconds.
const TYPING_INTERVAL: Duration = Duration::from_secs(4);
/// How often a draft is shown at most.
const DRAFT_INTERVAL: Duration = Duration::from_secs(1);
/// When a draft of which nothing more has come is shown again: Telegram's lasts half a minute.
const DRAFT_KEPT: Duration = Duration::from_secs(20);
/// How long a run takes that is worth a reaction.
const REACTION_AFTER: Duration = Duration::from_secs(2);
/// How long a run waits at its end for each call for a reaction.
const REACTION_PATIENCE: Duration = Duration::from_secs(3);

/// What a run lets people see of itself.
#[derive(Debug, Default)]
pub(crate) struct Signs(watch::Sender<Moment>);

#[derive(Clone, Debug, Default)]
struct Moment {
    /// Whom it answers.
    to: Option<Arc<Record>>,
    /// Whether the reply is new, and not one that goes on, of which people have seen a part.
    is_new: bool,
    /// How often a piece of the reply was about to be sent.
    sends: usize,
    is_over: bool,
}

impl Signs {
    /// From now on it is this message that is answered. The first time stands.
    pub(crate) fn begin(&self, to: &Record, is_new: bool) {
        self.0.send_if_modified(|moment| {
            let is_first = moment.to.is_none();
            if is_first {
                (moment.to, moment.is_new) = (Some(Arc::new(to.clone())), is_new);
            }
            is_first
        });
    }

    /// A piece of the reply is about to be sent, so there is nothing to announce for as long as that takes as a rule.
    pub(crate) fn sending(&self) {
        self.0.send_modify(|moment| moment.sends += 1);
    }

    /// The run is over.
    pub(crate) fn end(&self) {
        self.0.send_modify(|moment| moment.is_over = true);
    }

    /// What is to be shown.
    pub(crate) fn seen(&self) -> Seen {
        Seen(self.0.subscribe())
    }
}

/// The other side of [`Signs`].
#[derive(Debug)]
pub(crate) struct Seen(watch::Receiver<Moment>);

impl Seen {
    /// What has changed; waits for it. `None` once the run is over.
    async fn next(&mut self) -> Option<Moment> {
        self.0.changed().await.ok()?;
        let moment = self.0.borrow_and_update().clone();
        (!moment.is_over).then_some(moment)
    }

    async fn end(&mut self) {
        while self.next().await.is_some() {}
    }
}

impl Agent {
    /// Shows the signs of a run, and returns behind its end.
    pub(crate) async fn show(&self, chat: &ChatKey, mut seen: Seen) {
        // Nothing comes before whom it answers.
        let Some(Moment { to: Some(to), is_new, .. }) = seen.next().await else { return };
        match to.channel {
            Channel::Telegram => {
                let grows = self.stream_replies && is_new && self.deliverer.takes_drafts(&to);
                let listener = if grows { self.live.listen(chat) } else { None };
                self.show_on_telegram(&to, listener, seen).await;
            }
            Channel::Lark => self.show_on_lark(&to, seen).await,
            _ => seen.end().await,
        }
    }

    async fn show_on_telegram(&self, to: &Record, mut listener: Option<Listener>, mut seen: Seen) {
        let growing = Growing::default();
        let mut rest = Duration::ZERO;
        loop {
            let is_heard = listener.is_some();
            let changed = tokio::select! {
                biased;
                changed = seen.next() => changed,
                () = hear(&mut listener, &growing) => return,
                () = self.signal(to, &growing, is_heard, rest) => return,
            };
            if changed.is_none() {
                return;
            }
            // What is sent takes the place of what was shown.
            listener = None;
            growing.clear();
            rest = TYPING_INTERVAL;
        }
    }

    /// Shows what there is of the answer, or where there is nothing, that somebody types: behind `rest`, and has no end.
    async fn signal(&self, to: &Record, growing: &Growing, mut is_heard: bool, rest: Duration) {
        self.clock.sleep(rest).await;
        let (mut typed, mut shown): (Option<Timestamp>, Option<(String, Timestamp)>) = (None, None);
        let is_past = |at: Timestamp, interval| self.clock.now().since(at) >= interval;
        loop {
            let text = growing.text();
            if is_heard && !text.is_empty() {
                if shown.as_ref().is_none_or(|(last, at)| *last != text || is_past(*at, DRAFT_KEPT)) {
                    match self.deliverer.show_draft(to, &text).await {
                        Drafted::Shown => shown = Some((text, self.clock.now())),
                        Drafted::NotNow => {}
                        Drafted::Never => is_heard = false,
                    }
                }
            } else if typed.is_none_or(|at| is_past(at, TYPING_INTERVAL)) {
                self.deliverer.show_typing(to).await;
                typed = Some(self.clock.now());
            }
            self.clock.sleep(if is_heard { DRAFT_INTERVAL } else { TYPING_INTERVAL }).await;
        }
    }

    async fn show_on_lark(&self, to: &Record, mut seen: Seen) {
        tokio::select! {
            biased;
            () = seen.end() => return,
            () = self.clock.sleep(REACTION_AFTER) => {}
        }
        // Not given up at the run's end: what has been put must be known to be taken away.
        let mut put = Box::pin(self.deliverer.put_reaction(to));
        let put = tokio::select! {
            biased;
            put = &mut put => {
                seen.end().await;
                put
            }
            () = seen.end() => self.in_time(put).await.flatten(),
        };
        let Some(reaction) = put else { return };
        self.in_time(self.deliverer.take_reaction(to, &reaction)).await;
    }

    async fn in_time<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = what => Some(done),
            () = self.clock.sleep(REACTION_PATIENCE) => None,
        }
    }
}

/// Takes down what the run says; has no end.
async fn hear(listener: &mut Option<Listener>, growing: &Growing) {
    while let Some(listener) = listener {
        growing.hear(&listener.next().await);
    }
    pending::<()>().await;
}

/// An answer, as far as it has come.
#[derive(Debug, Default)]
struct Growing(Mutex<(String, String)>);

impl Growing {
    fn hear(&self, heard: &Heard) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (steps, answer) = &mut *text;
        match heard {
            Heard::Begun(_) => *text = <(String, String)>::default(),
            Heard::Said(Said::Text(more)) => answer.push_str(more),
            Heard::Said(Said::Void) => answer.clear(),
            Heard::Said(Said::Parts(parts)) => {
                *steps = UiMessage::new("", Role::Assistant, parts.to_vec()).plain_text();
                answer.clear();
            }
            Heard::Said(Said::Reasoning(_) | Said::Stored(_)) | Heard::Ended => {}
        }
    }

    fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
    }

    /// As it would be delivered: see [`UiMessage::plain_text`].
    fn text(&self) -> String {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (steps, answer) = &*text;
        let between = if steps.is_empty() || answer.is_empty() { "" } else { "\n" };
        [steps, between, answer].concat()
    }
}

#[cfg(test)]
mod tests {
    use annals_shared::message::Part;

    use super::*;

    #[test]
    fn an_answer_grows_by_steps_and_loses_what_broke_off() {
        let growing = Growing::default();
        let hear = |said| growing.hear(&Heard::Said(said));
        assert_eq!(growing.text(), "");
        hear(Said::Reasoning("hm".into()));
        hear(Said::Text("Let me ".into()));
        hear(Said::Text("look.".into()));
        assert_eq!(growing.text(), "Let me look.");
        hear(Said::Parts([Part::step_start(), Part::text("Let me look.")].into()));
        assert_eq!(growing.text(), "Let me look.");
        hear(Said::Text("Bea".into()));
        assert_eq!(growing.text(), "Let me look.\nBea");
        hear(Said::Void);
        hear(Said::Text("Peas.".into()));
        assert_eq!(growing.text(), "Let me look.\nPeas.");
    }
}
