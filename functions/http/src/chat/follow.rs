//! A reply on its way to a client: heard from the run where that is in this process, else read from the history once it is
//! stored. Nothing here makes a reply, or keeps one from being made: who follows may go away at any time.

use std::sync::Arc;
use std::time::Duration;

use annals_shared::chat_key::ChatKey;
use annals_shared::history::{Fate, HistoryError};
use annals_shared::live::{Begun, Heard, Listener, Said};
use annals_shared::record::Record;
use annals_shared::sort_key::{MessageId, SortKey};
use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::Instrument;

use super::chunks::{DONE, STILL_THERE, Teller, event};
use crate::Http;

/// The first pause between two looks for the reply; each later one is longer, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_millis(1600);
/// How long a connection is silent at most: proxies close those that are for a minute.
const MAX_SILENCE: Duration = Duration::from_secs(15);
/// How many chunks wait for a slow client.
const WAITING_CHUNKS: usize = 64;
/// What a client is told whose reply takes longer than it may wait here.
const STILL_MADE: &str = "The answer is still being made: resume the stream, or load the conversation later.";
/// What a client is told whose reply will not be made.
const FORGOTTEN: &str = "The chat was forgotten.";

/// What a client waits for.
#[derive(Clone, Debug)]
pub(crate) enum Awaited {
    /// What covers or confirms the message of this base and id, or the same message said again.
    Answer(SortKey, MessageId),
    /// What the reply at this key comes to, behind the answers to what it asks.
    Reply(SortKey),
}

impl Awaited {
    /// The message that it is about.
    pub(crate) fn base(&self) -> SortKey {
        match self {
            Self::Answer(base, _) => base.clone(),
            Self::Reply(reply) => reply.base(),
        }
    }

    fn is_of(&self, begun: &Begun) -> bool {
        match self {
            Self::Answer(base, id) => {
                let is_again = begun.message_id == id.derived("reply").as_str() && begun.reply > base.reply();
                begun.covers.contains(base) || is_again
            }
            Self::Reply(reply) => begun.reply == *reply,
        }
    }
}

/// A client that follows a reply.
pub(crate) struct Follower {
    pub(crate) http: Arc<Http>,
    pub(crate) chat: ChatKey,
    pub(crate) awaited: Awaited,
    pub(crate) listener: Option<Listener>,
    pub(crate) teller: Teller,
    /// Whether the history may hold it already.
    pub(crate) may_be_there: bool,
    /// The run in this process, which must be over before the answer to the request is: what runs behind that stands still
    /// in a Lambda function.
    pub(crate) run: Option<JoinHandle<()>>,
}

impl Follower {
    /// The stream, as a body.
    pub(crate) fn into_body(self) -> Body {
        let (chunks, waiting) = mpsc::channel(WAITING_CHUNKS);
        tokio::spawn(self.follow(chunks).in_current_span());
        let chunk = async |mut waiting: mpsc::Receiver<Bytes>| {
            waiting.recv().await.map(|chunk| (Ok::<_, std::convert::Infallible>(chunk), waiting))
        };
        Body::from_stream(stream::unfold(waiting, chunk))
    }

    async fn follow(mut self, client: mpsc::Sender<Bytes>) {
        let run = self.run.take();
        self.tell(&client).await;
        if let Some(run) = run {
            // A panic in there is the run's own failure; the queued turn is still there.
            drop(run.await);
        }
    }

    /// Tells all, or as much as the client takes.
    async fn tell(&mut self, client: &mpsc::Sender<Bytes>) {
        let clock = self.http.clock.clone();
        let mut sent_at = clock.now();
        let until = sent_at.plus(self.http.web.patience);
        let mut pause = FIRST_PAUSE;
        let mut look_at = if self.may_be_there { sent_at } else { sent_at.plus(pause) };
        let mut is_heard = false;
        loop {
            // Times, and no pauses, since what other runs say wakes it as well.
            let speak_at = sent_at.plus(MAX_SILENCE);
            let wake_at = if is_heard { speak_at } else { look_at.min(speak_at) };
            let is_over = tokio::select! {
                () = client.closed() => return,
                heard = Listener::next_of(&mut self.listener) => match heard {
                    Heard::Begun(begun) => {
                        is_heard = self.awaited.is_of(&begun);
                        if is_heard {
                            self.teller.begin(&begun.message_id);
                        }
                        false
                    }
                    Heard::Said(said) => is_heard && self.say(said),
                    Heard::Ended => {
                        if is_heard {
                            pause = FIRST_PAUSE;
                            look_at = clock.now().plus(pause);
                        }
                        is_heard = false;
                        false
                    }
                },
                () = clock.sleep(wake_at.since(clock.now())) => {
                    if is_heard || clock.now() < look_at {
                        false
                    } else {
                        let is_over = self.look().await || self.give_up(clock.now() >= until);
                        pause = (pause * 3 / 2).min(MAX_PAUSE);
                        look_at = clock.now().plus(pause);
                        is_over
                    }
                }
            };
            for chunk in self.teller.take() {
                if client.send(event(&chunk)).await.is_err() {
                    return;
                }
                sent_at = clock.now();
            }
            if !is_over && clock.now() >= sent_at.plus(MAX_SILENCE) {
                if client.send(Bytes::from_static(STILL_THERE)).await.is_err() {
                    return;
                }
                sent_at = clock.now();
            }
            if is_over {
                drop(client.send(Bytes::from_static(DONE)).await);
                return;
            }
        }
    }

    /// Passes on what a run says; answers whether that was all.
    fn say(&mut self, said: Said) -> bool {
        match said {
            Said::Text(text) => self.teller.words(false, &text),
            Said::Reasoning(text) => self.teller.words(true, &text),
            Said::Void => self.teller.void(),
            Said::Parts(parts) => self.teller.parts(&parts),
            Said::Stored(record) => {
                self.end(&record);
                return true;
            }
        }
        false
    }

    /// Looks into the history; answers whether all is told.
    async fn look(&mut self) -> bool {
        match self.stored().await {
            Ok(Fate::Settled(record)) => self.end(&record),
            Ok(Fate::Forgotten) => self.teller.error(FORGOTTEN),
            Ok(Fate::Open) => return false,
            Err(error) => {
                tracing::warn!(%error, "a stream cannot see whether its reply is stored; looking again");
                return false;
            }
        }
        true
    }

    /// What is waited for, as it is stored.
    async fn stored(&self) -> Result<Fate, HistoryError> {
        let history = self.http.web.ingress.history();
        match &self.awaited {
            Awaited::Answer(base, _) => history.settled_reply_to(&self.chat, base).await,
            Awaited::Reply(reply) => history.settled(&self.chat, reply).await,
        }
    }

    fn end(&mut self, record: &Record) {
        if record.stopped_by().is_some() { self.teller.abort() } else { self.teller.finish(record) }
    }

    fn give_up(&mut self, is_late: bool) -> bool {
        if is_late {
            self.teller.error(STILL_MADE);
        }
        is_late
    }
}
