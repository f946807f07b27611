//! Follows a reply while it is made: by its run if that is in this process, else by reading the history. A follower never makes
//! a reply, nor prevents one; it may be dropped at any time.

use std::sync::Arc;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_engine::live::{Listener, LiveEvent, ReplyEvent, ReplyStart};
use annals_store::history::{Fate, History};

/// First pause between two reads of the history; each later one is longer, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_millis(1600);

/// The reply that a client waits for.
#[derive(Clone, Debug)]
pub(crate) enum Awaited {
    /// The reply to the message at this base, or its confirmation; if the id is known, also the reply to a later form of the
    /// message.
    Answer(SortKey, Option<MessageId>),
    /// The reply at this key, continued after its requests for approval are answered.
    Reply(SortKey),
}

impl Awaited {
    /// Returns the base of the message.
    pub(crate) fn base(&self) -> SortKey {
        match self {
            Self::Answer(base, _) => base.clone(),
            Self::Reply(reply) => reply.base(),
        }
    }

    fn is_made_by(&self, begun: &ReplyStart) -> bool {
        match self {
            Self::Answer(base, id) => {
                let is_of = |id: &MessageId| begun.message_id == id.derived("reply").as_str();
                let is_again = begun.reply > base.reply() && id.as_ref().is_some_and(is_of);
                begun.covers.contains(base) || is_again
            }
            Self::Reply(reply) => begun.reply == *reply,
        }
    }
}

/// News of a reply.
#[derive(Debug)]
pub(crate) enum News {
    /// A run makes the reply, from its beginning.
    Started(Arc<ReplyStart>),
    /// A piece of the reply. Nothing follows [`ReplyEvent::Stored`].
    Reply(ReplyEvent),
    /// The history holds no reply yet.
    NotStored,
    /// The chat was forgotten, so no reply will be made. Nothing follows.
    Forgotten,
}

/// A client that follows a reply.
#[derive(Debug)]
pub(crate) struct Follower {
    history: History,
    chat: ChatKey,
    awaited: Awaited,
    listener: Option<Listener>,
    /// True while a run in this process makes the reply.
    is_heard: bool,
    pause: Duration,
    next_read: Timestamp,
}

impl Follower {
    /// Follows `awaited` in `chat`. Reads the history at once if the reply `may_be_stored`.
    pub(crate) fn new(
        history: History,
        chat: ChatKey,
        awaited: Awaited,
        listener: Option<Listener>,
        may_be_stored: bool,
    ) -> Self {
        let now = history.clock().now();
        let next_read = if may_be_stored { now } else { now.plus(FIRST_PAUSE) };
        Self { history, chat, awaited, listener, is_heard: false, pause: FIRST_PAUSE, next_read }
    }

    /// Waits for news until `deadline`; `None` if there are none by then.
    pub(crate) async fn next(&mut self, deadline: Timestamp) -> Option<News> {
        let clock = self.history.clock().clone();
        loop {
            // A time rather than a pause, since other runs of the chat wake it as well.
            let wake_at = if self.is_heard { deadline } else { self.next_read.min(deadline) };
            tokio::select! {
                heard = Listener::next_of(&mut self.listener) => match heard {
                    LiveEvent::Started(begun) => {
                        self.is_heard = self.awaited.is_made_by(&begun);
                        if self.is_heard {
                            return Some(News::Started(begun));
                        }
                    }
                    LiveEvent::Reply(said) if self.is_heard => return Some(News::Reply(said)),
                    LiveEvent::Reply(_) => {}
                    LiveEvent::Ended => {
                        if std::mem::take(&mut self.is_heard) {
                            self.pause = FIRST_PAUSE;
                            self.next_read = clock.now().plus(self.pause);
                        }
                    }
                },
                () = clock.sleep(wake_at.since(clock.now())) => {
                    if !self.is_heard && clock.now() >= self.next_read {
                        let news = self.read().await;
                        self.pause = (self.pause * 3 / 2).min(MAX_PAUSE);
                        self.next_read = clock.now().plus(self.pause);
                        return Some(news);
                    }
                    if clock.now() >= deadline {
                        return None;
                    }
                }
            }
        }
    }

    /// Reads the history.
    async fn read(&self) -> News {
        let fate = match &self.awaited {
            Awaited::Answer(base, _) => self.history.settled_reply_to(&self.chat, base).await,
            Awaited::Reply(reply) => self.history.settled(&self.chat, reply).await,
        };
        match fate {
            Ok(Fate::Settled(record)) => News::Reply(ReplyEvent::Stored(Arc::new(*record))),
            Ok(Fate::Forgotten) => News::Forgotten,
            Ok(Fate::Open) => News::NotStored,
            Err(error) => {
                tracing::warn!(%error, "failed to read whether a reply is stored; reading again");
                News::NotStored
            }
        }
    }
}
