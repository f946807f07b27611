//! The stream of a reply to a client: [`ReplyStream`].

use std::convert::Infallible;
use std::time::Duration;

use annals_core::record::Record;
use annals_core::sort_key::Timestamp;
use annals_engine::live::ReplyEvent;
use annals_io::clock::Clock;
use axum::body::Body;
use futures::stream;
use tokio::task::JoinHandle;
use tracing::{Instrument, Span};

use super::chunks::{ChunkEncoder, DONE, KEEP_ALIVE, event};
use crate::follow::{Follower, News};

/// Longest silence of a connection: proxies close those that are silent for a minute.
const MAX_SILENCE: Duration = Duration::from_secs(15);

pub(super) struct ReplyStream {
    pub(super) follower: Follower,
    pub(super) encoder: ChunkEncoder,
    /// Longest time that the client waits.
    pub(super) patience: Duration,
    /// The run in this process. The answer does not end before it: a Lambda function is frozen when its answer ends.
    pub(super) run: Option<JoinHandle<()>>,
    pub(super) clock: Clock,
}

impl ReplyStream {
    /// Returns the stream as a body.
    pub(super) fn into_body(self) -> Body {
        let until = self.clock.now().plus(self.patience);
        let span = Span::current();
        let next = move |(mut stream, is_over): (Self, bool)| {
            let next = async move {
                if is_over {
                    if let Some(run) = stream.run {
                        // If it panics, the queued turn answers.
                        drop(run.await);
                    }
                    return None;
                }
                let (events, is_over) = stream.next(until).await;
                Some((Ok::<_, Infallible>(events), (stream, is_over)))
            };
            next.instrument(span.clone())
        };
        Body::from_stream(stream::unfold((self, false), next))
    }

    /// Returns the next events, and true if nothing follows. The client waits until `until`.
    async fn next(&mut self, until: Timestamp) -> (String, bool) {
        let silent_until = self.clock.now().plus(MAX_SILENCE);
        loop {
            let news = self.follower.next(silent_until).await;
            let is_over = self.encode(news, self.clock.now() >= until);
            let mut events: String = self.encoder.take().iter().map(event).collect();
            if is_over {
                events.push_str(DONE);
            } else if events.is_empty() && self.clock.now() >= silent_until {
                events.push_str(KEEP_ALIVE);
            }
            if !events.is_empty() {
                return (events, is_over);
            }
        }
    }

    /// Encodes `news`. Returns true if nothing follows.
    fn encode(&mut self, news: Option<News>, is_late: bool) -> bool {
        match news {
            Some(News::Started(begun)) => self.encoder.begin(&begun.message_id),
            Some(News::Reply(ReplyEvent::Text(text))) => self.encoder.delta(false, &text),
            Some(News::Reply(ReplyEvent::Reasoning(text))) => self.encoder.delta(true, &text),
            Some(News::Reply(ReplyEvent::Void)) => self.encoder.discard(),
            Some(News::Reply(ReplyEvent::Parts(parts))) => self.encoder.parts(&parts),
            Some(News::Reply(ReplyEvent::Stored(record))) => {
                self.end(&record);
                return true;
            }
            Some(News::Forgotten) => {
                self.encoder.error(self.encoder.texts.chat_forgotten());
                return true;
            }
            Some(News::NotStored) if is_late => {
                self.encoder.error(self.encoder.texts.still_answering());
                return true;
            }
            Some(News::NotStored) | None => {}
        }
        false
    }

    fn end(&mut self, record: &Record) {
        if record.stopped_by().is_some() { self.encoder.abort(record) } else { self.encoder.finish(record) }
    }
}
