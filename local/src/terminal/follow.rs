//! A reply on its way to the terminal: heard from its run, and in any case looked for in the history, so that it comes
//! also where the run was over before anybody listened. Nothing here makes a reply, or keeps one from being made.

use std::sync::Arc;
use std::time::Duration;

use annals_agent::{FAILURE_NOTICE, NOT_COMPACTED};
use annals_shared::chat_key::ChatKey;
use annals_shared::history::{Fate, HistoryError};
use annals_shared::live::{Begun, Heard, Listener, Said};
use annals_shared::record::{Kind, Record};
use annals_shared::sort_key::SortKey;
use tokio::sync::mpsc;

use super::door::Door;
use super::wire::Event;

/// The first pause between two looks for the reply; each later one is longer, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_millis(1600);
/// How long nothing is said at most, so that both sides know that the other is there.
const MAX_SILENCE: Duration = Duration::from_secs(10);

/// What the terminal waits for.
pub(super) enum Awaited {
    /// What covers or confirms the message of this base.
    Answer(SortKey),
    /// What the reply at this key comes to, behind the answers to what it asks.
    Reply(SortKey),
}

impl Awaited {
    fn is_of(&self, begun: &Begun) -> bool {
        match self {
            Self::Answer(base) => begun.covers.contains(base),
            Self::Reply(reply) => begun.reply == *reply,
        }
    }
}

/// A terminal that waits for a reply.
pub(super) struct Follower {
    pub(super) door: Arc<Door>,
    pub(super) chat: ChatKey,
    pub(super) awaited: Awaited,
    pub(super) listener: Option<Listener>,
}

impl Follower {
    /// Tells all, for as long as somebody listens.
    pub(super) async fn follow(mut self, terminal: mpsc::Sender<Event>) {
        let clock = self.door.clock.clone();
        // It may be there already.
        let (mut pause, mut wake_at) = (FIRST_PAUSE, clock.now());
        let mut is_heard = false;
        loop {
            let event = tokio::select! {
                heard = Listener::next_of(&mut self.listener) => match heard {
                    Heard::Begun(begun) => {
                        is_heard = self.awaited.is_of(&begun);
                        is_heard.then(|| Event::Begin { message_id: begun.message_id.clone() })
                    }
                    Heard::Said(said) => is_heard.then(|| event(said)),
                    Heard::Ended => {
                        if is_heard {
                            pause = FIRST_PAUSE;
                            wake_at = clock.now().plus(pause);
                        }
                        is_heard = false;
                        None
                    }
                },
                // A time, and no pause, since what other runs say wakes it as well.
                () = clock.sleep(wake_at.since(clock.now())) => {
                    let event = if is_heard { Event::Still } else { self.look().await };
                    wake_at = clock.now().plus(pause);
                    pause = (pause * 3 / 2).min(MAX_PAUSE);
                    Some(event)
                }
            };
            let Some(event) = event else { continue };
            if is_heard {
                wake_at = clock.now().plus(MAX_SILENCE);
            }
            let is_over = matches!(event, Event::Done { .. } | Event::Forgotten);
            if terminal.send(event).await.is_err() || is_over {
                return;
            }
        }
    }

    /// Looks into the history.
    async fn look(&self) -> Event {
        match self.stored().await {
            Ok(Fate::Settled(record)) => done(&record),
            Ok(Fate::Forgotten) => Event::Forgotten,
            Ok(Fate::Open) => Event::Still,
            Err(error) => {
                tracing::warn!(%error, "it cannot be seen whether a reply is stored; looking again");
                Event::Still
            }
        }
    }

    /// What is waited for, as it is stored.
    async fn stored(&self) -> Result<Fate, HistoryError> {
        let history = self.door.ingress.history();
        match &self.awaited {
            Awaited::Answer(base) => history.settled_reply_to(&self.chat, base).await,
            Awaited::Reply(reply) => history.settled(&self.chat, reply).await,
        }
    }
}

fn event(said: Said) -> Event {
    match said {
        Said::Text(text) => Event::Text { delta: text.to_string() },
        Said::Reasoning(text) => Event::Reasoning { delta: text.to_string() },
        Said::Void => Event::Void,
        Said::Parts(parts) => Event::Parts { parts: parts.to_vec() },
        Said::Stored(record) => done(&record),
    }
}

fn done(record: &Record) -> Event {
    let text = record.message.plain_text();
    let failed = record.kind == Kind::Notice && (text == FAILURE_NOTICE || text == NOT_COMPACTED);
    Event::Done { message: record.listed(), failed }
}
