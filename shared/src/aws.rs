//! AWS clients of a deployed function, made once at its start.

use aws_config::{BehaviorVersion, SdkConfig};

use crate::clock::Clock;
use crate::config::StoreConfig;
use crate::history::History;
use crate::queue::Sqs;

/// What the SDK takes from a function's environment: region, credentials, `AWS_ENDPOINT_URL`.
pub async fn sdk_config() -> SdkConfig {
    aws_config::load_defaults(BehaviorVersion::latest()).await
}

/// The histories in a deployed table and bucket.
pub fn history(aws: &SdkConfig, store: StoreConfig, clock: Clock) -> History {
    let (dynamodb, s3) = (aws_sdk_dynamodb::Client::new(aws), aws_sdk_s3::Client::new(aws));
    History::new(dynamodb, store.table, s3, store.bucket, clock, store.retention)
}

/// The deployed queue at `url`.
pub fn queue(aws: &SdkConfig, url: String) -> Sqs {
    Sqs::new(aws_sdk_sqs::Client::new(aws), url)
}
