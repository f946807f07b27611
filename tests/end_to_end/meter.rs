//! The capacity that the processes of a world consume, as DynamoDB reports it with each answer.

use std::sync::{Arc, Mutex};

use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use serde_json::Value;

/// Consumed capacity, that of the index included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Consumed {
    pub(crate) read_units: f64,
    pub(crate) write_units: f64,
    pub(crate) calls: u32,
}

/// A sum of consumed capacity. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<Mutex<Consumed>>);

impl Meter {
    /// Returns what was consumed since the last call, and starts again from zero.
    pub(crate) fn take(&self) -> Consumed {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// Adds what a request consumed whose operation [`measure`] returned.
    pub(crate) fn count(&self, operation: &str, answer: &HttpResponse) {
        let body: Value = serde_json::from_slice(answer.body().bytes().unwrap()).unwrap();
        let units = match body["__type"].as_str().and_then(|kind| kind.rsplit('#').next()) {
            // DynamoDB bills one unit per KB of the item, but reports no figure.
            Some("ConditionalCheckFailedException" | "TransactionCanceledException") => 1.0,
            Some(_) => return,
            None => {
                let of = &body["ConsumedCapacity"];
                of.get(0).unwrap_or(of)["CapacityUnits"].as_f64().unwrap_or_default()
            }
        };
        let mut total = self.0.lock().unwrap();
        total.calls += 1;
        if matches!(operation, "GetItem" | "BatchGetItem" | "Query") {
            total.read_units += units;
        } else {
            total.write_units += units;
        }
    }
}

/// Makes a request to DynamoDB ask what it consumes; returns its operation. `None` for a request to S3.
pub(crate) fn measure(request: &mut HttpRequest) -> Option<String> {
    let operation = request.headers().get("x-amz-target")?.rsplit('.').next()?.to_owned();
    let mut body: Value = serde_json::from_slice(request.body().bytes()?).unwrap();
    body["ReturnConsumedCapacity"] = "TOTAL".into();
    *request.body_mut() = SdkBody::from(body.to_string());
    Some(operation)
}
