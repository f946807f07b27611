//! The stream of a reply to a client: [`ReplyStream`].

use std::convert::Infallible;
use std::time::Duration;

use annals_core::record::Record;
use annals_engine::live::ReplyEvent;
use annals_io::clock::Clock;
use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::Instrument;

use super::chunks::{ChunkEncoder, DONE, KEEP_ALIVE, event};
use crate::follow::{Follower, News};

/// Longest silence of a connection: proxies close those that are silent for a minute.
const MAX_SILENCE: Duration = Duration::from_secs(15);
/// Number of chunks that wait for a slow client.
const QUEUED_CHUNKS: usize = 64;

/// The stream of a reply to a client.
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
    /// Starts the stream, and returns it as a body.
    pub(super) fn into_body(self) -> Body {
        let (chunks, queued) = mpsc::channel(QUEUED_CHUNKS);
        tokio::spawn(self.run(chunks).in_current_span());
        let chunk = async |mut queued: mpsc::Receiver<Bytes>| {
            queued.recv().await.map(|chunk| (Ok::<_, Infallible>(chunk), queued))
        };
        Body::from_stream(stream::unfold(queued, chunk))
    }

    async fn run(mut self, client: mpsc::Sender<Bytes>) {
        let run = self.run.take();
        self.send_all(&client).await;
        if let Some(run) = run {
            // If it panics, the queued turn answers.
            drop(run.await);
        }
    }

    /// Sends the whole reply, or as much as the client takes.
    async fn send_all(&mut self, client: &mpsc::Sender<Bytes>) {
        let mut sent_at = self.clock.now();
        let until = sent_at.plus(self.patience);
        loop {
            let news = tokio::select! {
                () = client.closed() => return,
                news = self.follower.next(sent_at.plus(MAX_SILENCE)) => news,
            };
            let is_over = self.encode(news, self.clock.now() >= until);
            for chunk in self.encoder.take() {
                if client.send(event(&chunk)).await.is_err() {
                    return;
                }
                sent_at = self.clock.now();
            }
            if is_over {
                drop(client.send(Bytes::from_static(DONE)).await);
                return;
            }
            if self.clock.now() >= sent_at.plus(MAX_SILENCE) {
                if client.send(Bytes::from_static(KEEP_ALIVE)).await.is_err() {
                    return;
                }
                sent_at = self.clock.now();
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
