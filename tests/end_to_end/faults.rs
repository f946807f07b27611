//! Stores that fail at a chosen request, as a client's interceptor: [`Faults`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use aws_sdk_s3::config::http::HttpRequest;
use aws_sdk_s3::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeSerializationInterceptorContextMut,
    BeforeTransmitInterceptorContextRef,
};
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_sdk_s3::operation::put_object::PutObjectInput;
use aws_sdk_s3::primitives::ByteStream;

/// An interceptor that makes requests fail. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    requests: AtomicUsize,
    plan: Plan,
}

/// The request that fails, counted from 1, and its failure.
#[derive(Debug, Default)]
pub(crate) enum Plan {
    #[default]
    None,
    /// The program dies before this request is sent.
    Before(usize),
    /// The program dies when this request has been carried out.
    After(usize),
    /// The answer to this request is lost, though it has been carried out. The program lives on.
    Lost(usize),
    /// The program stalls before this request, until it is told to continue.
    Stall(usize, Mutex<(mpsc::Sender<()>, mpsc::Receiver<()>)>),
    /// S3 takes no segment; everything else works, and the program lives on.
    NoSegments,
    /// S3 takes no image; everything else works, and the program lives on.
    NoMedia,
    /// S3 stores each segment with this done to it.
    Altered(fn(&mut [u8])),
}

impl Faults {
    /// Returns an interceptor that follows `plan`.
    pub(crate) fn new(plan: Plan) -> Self {
        Self(Arc::new(Inner { requests: AtomicUsize::new(0), plan }))
    }

    /// Returns an interceptor that stalls before request `number`, until the test lets it go on. The test needs a runtime of
    /// several threads.
    pub(crate) fn stalling(number: usize) -> (Self, Stall) {
        let ((stalled, has_stalled), (go, goes)) = (mpsc::channel(), mpsc::channel());
        (Self::new(Plan::Stall(number, Mutex::new((stalled, goes)))), Stall { has_stalled, go })
    }

    /// Returns the number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.0.requests.load(Ordering::SeqCst)
    }

    /// The requests since the last call of this.
    pub(crate) fn take(&self) -> usize {
        self.0.requests.swap(0, Ordering::SeqCst)
    }
}

/// The other end of [`Faults::stalling`].
pub(crate) struct Stall {
    has_stalled: mpsc::Receiver<()>,
    go: mpsc::Sender<()>,
}

impl Stall {
    /// Waits until the process stalls.
    pub(crate) fn reached(&self) {
        tokio::task::block_in_place(|| self.has_stalled.recv().unwrap());
    }

    pub(crate) fn go_on(self) {
        self.go.send(()).unwrap();
    }
}

impl Intercept for Faults {
    fn name(&self) -> &'static str {
        "Faults"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Plan::Altered(alter) = self.0.plan
            && let Some(put) = context.input_mut().downcast_mut::<PutObjectInput>()
            && put.key().is_some_and(|key| key.starts_with("segments/"))
        {
            let mut bytes = put.body().bytes().unwrap().to_vec();
            alter(&mut bytes);
            put.body = ByteStream::from(bytes);
        }
        Ok(())
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let number = self.0.requests.fetch_add(1, Ordering::SeqCst) + 1;
        match &self.0.plan {
            Plan::Before(last) if number >= *last => Err("dead".into()),
            Plan::After(last) if number > *last => Err("dead".into()),
            Plan::Stall(at, gate) if number == *at => {
                let gate = gate.lock().unwrap();
                gate.0.send(()).unwrap();
                tokio::task::block_in_place(|| gate.1.recv().unwrap());
                Ok(())
            }
            Plan::NoSegments if puts(context.request(), "/segments/") => Err("no space".into()),
            Plan::NoMedia if puts(context.request(), "/media/") => Err("no space".into()),
            _ => Ok(()),
        }
    }

    fn read_before_deserialization(
        &self,
        _: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        match &self.0.plan {
            Plan::After(last) if self.requests() >= *last => Err("dead".into()),
            Plan::Lost(lost) if self.requests() == *lost => Err("lost".into()),
            _ => Ok(()),
        }
    }
}

fn puts(request: &HttpRequest, folder: &str) -> bool {
    request.method() == "PUT" && request.uri().contains(folder)
}
