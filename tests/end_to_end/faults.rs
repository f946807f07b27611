//! Stores that fail at a chosen request: [`Faults`], which stands before an HTTP client.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;

use crate::meter::{Meter, measure};

/// Makes requests fail. Clones count together.
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
    /// Returns the faults of `plan`.
    pub(crate) fn new(plan: Plan) -> Self {
        Self(Arc::new(Inner { requests: AtomicUsize::new(0), plan }))
    }

    /// Returns faults that stall before request `number`, until the test lets it go on. The test needs a runtime of
    /// several threads.
    pub(crate) fn stalling(number: usize) -> (Self, Stall) {
        let ((stalled, has_stalled), (go, goes)) = (mpsc::channel(), mpsc::channel());
        (Self::new(Plan::Stall(number, Mutex::new((stalled, goes)))), Stall { has_stalled, go })
    }

    /// Returns `aws` with these faults before its HTTP client, counted by `meter`. No request is repeated.
    pub(crate) fn before(self, aws: &SdkConfig, meter: &Meter) -> SdkConfig {
        let http = Failing { faults: self, meter: meter.clone(), http: aws.http_client().unwrap() };
        aws.to_builder().http_client(http).retry_config(RetryConfig::disabled()).build()
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

#[derive(Debug)]
struct Failing<T> {
    faults: Faults,
    meter: Meter,
    http: T,
}

impl HttpClient for Failing<SharedHttpClient> {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let http = self.http.http_connector(settings, components);
        SharedHttpConnector::new(Failing { faults: self.faults.clone(), meter: self.meter.clone(), http })
    }
}

impl HttpConnector for Failing<SharedHttpConnector> {
    fn call(&self, mut request: HttpRequest) -> HttpConnectorFuture {
        let fault = |what: &str| ConnectorError::other(what.into(), None);
        let number = self.faults.0.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let refused = match &self.faults.0.plan {
            Plan::Before(last) => (number >= *last).then_some("dead"),
            Plan::After(last) => (number > *last).then_some("dead"),
            Plan::NoSegments => puts(&request, "/segments/").then_some("no space"),
            Plan::NoMedia => puts(&request, "/media/").then_some("no space"),
            _ => None,
        };
        if let Some(what) = refused {
            return HttpConnectorFuture::ready(Err(fault(what)));
        }
        match &self.faults.0.plan {
            Plan::Stall(at, gate) if number == *at => {
                let gate = gate.lock().unwrap();
                gate.0.send(()).unwrap();
                tokio::task::block_in_place(|| gate.1.recv().unwrap());
            }
            Plan::Altered(alter) if puts(&request, "/segments/") => {
                let mut bytes = request.body().bytes().unwrap().to_vec();
                alter(&mut bytes);
                *request.body_mut() = SdkBody::from(bytes);
            }
            _ => {}
        }
        let operation = measure(&mut request);
        let (answer, faults, meter) = (self.http.call(request), self.faults.clone(), self.meter.clone());
        HttpConnectorFuture::new(async move {
            let answer = answer.await;
            match &faults.0.plan {
                Plan::After(last) if faults.requests() >= *last => Err(fault("dead")),
                Plan::Lost(lost) if faults.requests() == *lost => Err(fault("lost")),
                _ => answer.inspect(|answer| {
                    if let Some(operation) = operation {
                        meter.count(&operation, answer);
                    }
                }),
            }
        })
    }
}

fn puts(request: &HttpRequest, folder: &str) -> bool {
    request.method() == "PUT" && request.uri().contains(folder)
}
