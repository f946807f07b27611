//! Stores that fail at a chosen request, as a client's interceptor: [`Faults`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use aws_sdk_s3::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;

/// What happens to requests. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    requests: AtomicUsize,
    plan: Plan,
}

/// Which request fails, and how; they are counted from 1.
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
    /// The program stands still before this request, until it is told to go on.
    Stall(usize, Mutex<(mpsc::Sender<()>, mpsc::Receiver<()>)>),
}

impl Faults {
    /// What goes by `plan`.
    pub(crate) fn new(plan: Plan) -> Self {
        Self(Arc::new(Inner { requests: AtomicUsize::new(0), plan }))
    }

    /// How many requests there have been.
    pub(crate) fn requests(&self) -> usize {
        self.0.requests.load(Ordering::SeqCst)
    }

    /// The requests since the last call of this.
    pub(crate) fn take(&self) -> usize {
        self.0.requests.swap(0, Ordering::SeqCst)
    }
}

impl Intercept for Faults {
    fn name(&self) -> &'static str {
        "Faults"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
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
