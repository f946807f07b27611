//! Reads request bodies, each only after its handler has checked everything that the headers can prove: [`BodyReader`].
//!
//! The memory for bodies is limited for all senders together. A body of up to [`SMALL_BYTES`] is simply read; a larger one
//! needs a share of [`LARGE_BYTES`] for the bytes that have arrived, and holds it until it is dropped. Parsed JSON
//! takes up to about 65 times as much memory, so a handler parses only bodies of verified callers. If a body gets no
//! share within [`PATIENCE`], or no further share at once, the answer is a 503 with `Retry-After`; nothing is lost,
//! since nothing was acknowledged and platforms deliver again. Small bodies never wait, so the large bodies of a
//! stranger do not keep ordinary events out. If a body takes longer than [`READ_TIMEOUT`], the answer is a 408.
//!
//! Each router has its own reader: `/lark` must read a body to check its signature, so a stranger can use up its
//! memory, but not that of `/telegram` and of the API, which check headers first.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use annals_io::clock::Clock;
use axum::body::Body;
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;

/// Maximum size of a body that needs no share. Updates and events of platforms are smaller.
pub const SMALL_BYTES: usize = 64 * 1024;
/// Maximum memory of all large bodies of a reader.
pub const LARGE_BYTES: usize = 24 * 1024 * 1024;
/// Time that a large body waits for its share: less than Lark waits for an answer.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Time in which a body must arrive.
pub const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Unit of shares, in bytes.
const UNIT: usize = 1024;
/// Step by which a share grows, in bytes.
const STEP: usize = 64 * UNIT;

/// Reads the bodies of one router's requests. Clones share the memory.
#[derive(Clone, Debug)]
pub struct BodyReader(Arc<Semaphore>);

impl Default for BodyReader {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LARGE_BYTES / UNIT)))
    }
}

/// A request's body in memory. Returns its share when it is dropped.
#[derive(Debug)]
pub struct ReadBody {
    bytes: Vec<u8>,
    _share: Option<OwnedSemaphorePermit>,
}

impl Deref for ReadBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body could not be read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is larger than its route accepts.
    #[error("the body is larger than the route accepts")]
    TooLarge,
    /// It ends early, or is not a valid HTTP body.
    #[error("the body ends early")]
    Broken,
    /// It did not arrive within [`READ_TIMEOUT`].
    #[error("the body took too long to arrive")]
    TooSlow,
    /// Other bodies use up the memory for large ones.
    #[error("too many large bodies are being read")]
    Overloaded,
}

impl BodyError {
    /// Returns the answer for the caller. `limit` names the maximum size of the route.
    pub fn problem(self, limit: &str) -> Problem {
        match self {
            Self::TooLarge => Problem::too_large(limit),
            Self::Broken => Problem::bad_request(
                "bad-body",
                "The body is unreadable",
                "it ends early, or is not a valid HTTP body",
            ),
            Self::TooSlow => Problem::too_slow(),
            Self::Overloaded => Problem::overloaded(),
        }
    }
}

impl BodyReader {
    /// Reads `body`, of at most `limit` bytes, with timeouts by `clock`.
    pub async fn read(&self, body: Body, limit: usize, clock: &Clock) -> Result<ReadBody, BodyError> {
        clock.within(READ_TIMEOUT, self.read_all(body, limit, clock)).await.unwrap_or(Err(BodyError::TooSlow))
    }

    async fn read_all(&self, body: Body, limit: usize, clock: &Clock) -> Result<ReadBody, BodyError> {
        let (mut chunks, mut bytes, mut share) =
            (body.into_data_stream(), Vec::new(), None::<OwnedSemaphorePermit>);
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| BodyError::Broken)?;
            let len = bytes.len() + chunk.len();
            if len > limit {
                return Err(BodyError::TooLarge);
            }
            if len > SMALL_BYTES {
                self.grow(&mut share, len, clock).await?;
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(ReadBody { bytes, _share: share })
    }

    /// Extends `share` to `len` bytes. The first step waits; later ones do not, so that two half-read bodies cannot
    /// wait for each other.
    async fn grow(
        &self,
        share: &mut Option<OwnedSemaphorePermit>,
        len: usize,
        clock: &Clock,
    ) -> Result<(), BodyError> {
        let wanted = len.div_ceil(STEP) * (STEP / UNIT);
        let held = share.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Some(more) = wanted.checked_sub(held).filter(|more| *more > 0) else { return Ok(()) };
        let more = u32::try_from(more).map_err(|_| BodyError::TooLarge)?;
        let all = Arc::clone(&self.0);
        if let Some(share) = share {
            share.merge(all.try_acquire_many_owned(more).map_err(|_| BodyError::Overloaded)?);
            return Ok(());
        }
        let first = clock.within(PATIENCE, all.acquire_many_owned(more)).await.and_then(Result::ok);
        *share = Some(first.ok_or(BodyError::Overloaded)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::channel::mpsc;
    use tokio::task::JoinHandle;

    use super::*;
    use annals_core::sort_key::Timestamp;

    const LIMIT: usize = 6 * 1024 * 1024;

    fn reader() -> (BodyReader, Clock) {
        (BodyReader::default(), Clock::manual(Timestamp::MIN))
    }

    /// Returns a body whose sender stops after `bytes`, until the sender is dropped.
    fn stalled(bytes: usize) -> (mpsc::UnboundedSender<Result<Bytes, std::io::Error>>, Body) {
        let (sender, chunks) = mpsc::unbounded();
        sender.unbounded_send(Ok(Bytes::from(vec![b'x'; bytes]))).unwrap();
        (sender, Body::from_stream(chunks))
    }

    /// Starts to read `body`.
    fn reading(reader: &BodyReader, clock: &Clock, body: Body) -> JoinHandle<Result<ReadBody, BodyError>> {
        let (reader, clock) = (reader.clone(), clock.clone());
        tokio::spawn(async move { reader.read(body, LIMIT, &clock).await })
    }

    async fn yields() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn large_bodies_share_a_limit_and_small_ones_never_wait() {
        let (reader, clock) = reader();
        let mut held = Vec::new();
        for _ in 0..LARGE_BYTES / LIMIT {
            let (sender, body) = stalled(LIMIT);
            held.push((sender, reading(&reader, &clock, body)));
        }
        yields().await;
        let another = || reading(&reader, &clock, Body::from(vec![b'x'; SMALL_BYTES + 1]));
        let waiting = another();
        yields().await;
        assert!(!waiting.is_finished());
        assert_eq!(
            reader.read(Body::from(vec![b'x'; SMALL_BYTES]), LIMIT, &clock).await.unwrap().len(),
            SMALL_BYTES
        );
        clock.advance(PATIENCE);
        assert_eq!(waiting.await.unwrap().unwrap_err(), BodyError::Overloaded);

        // A body that has arrived keeps its share while it is held; a dropped one returns it.
        let (sender, read) = held.pop().unwrap();
        drop(sender);
        let read = read.await.unwrap().unwrap();
        let waiting = another();
        yields().await;
        assert!(!waiting.is_finished());
        drop(read);
        assert_eq!(waiting.await.unwrap().unwrap().len(), SMALL_BYTES + 1);
    }

    /// A body takes memory for the bytes that have arrived, not for those that may follow: a few connections cannot
    /// keep others out.
    #[tokio::test]
    async fn bodies_that_stall_early_hold_little() {
        let (reader, clock) = reader();
        let mut held = Vec::new();
        for _ in 0..40 {
            let (sender, body) = stalled(SMALL_BYTES + 1);
            held.push((sender, reading(&reader, &clock, body)));
        }
        yields().await;
        assert_eq!(reader.read(Body::from(vec![b'x'; LIMIT]), LIMIT, &clock).await.unwrap().len(), LIMIT);
    }

    #[tokio::test]
    async fn a_slow_body_gives_its_share_back() {
        let (reader, clock) = reader();
        let (_sender, body) = stalled(SMALL_BYTES + 1);
        let slow = reading(&reader, &clock, body);
        yields().await;
        assert!(reader.0.available_permits() < LARGE_BYTES / UNIT);
        clock.advance(READ_TIMEOUT);
        assert_eq!(slow.await.unwrap().unwrap_err(), BodyError::TooSlow);
        assert_eq!(reader.0.available_permits(), LARGE_BYTES / UNIT);
    }

    #[tokio::test]
    async fn a_body_is_read_completely_or_not_at_all() {
        let (reader, clock) = reader();
        assert_eq!(&*reader.read(Body::from("hello"), 5, &clock).await.unwrap(), b"hello");
        assert_eq!(reader.read(Body::from("hello"), 4, &clock).await.unwrap_err(), BodyError::TooLarge);
        let (sender, body) = stalled(5);
        sender.unbounded_send(Err(std::io::Error::other("gone"))).unwrap();
        assert_eq!(reader.read(body, LIMIT, &clock).await.unwrap_err(), BodyError::Broken);
    }
}
