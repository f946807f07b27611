//! AWS clients of a deployed function, made once at its start.

use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_s3::error::DisplayErrorContext;

use crate::clock::Clock;
use crate::config::{ConfigError, StoreConfig};
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

/// The text of an object of S3: a setting that is too long for a variable.
pub async fn text(aws: &SdkConfig, bucket: &str, key: &str) -> Result<String, ConfigError> {
    let failed =
        |problem: String| ConfigError::new("TOOLS", format!("names s3://{bucket}/{key}, which {problem}"));
    let object = aws_sdk_s3::Client::new(aws).get_object().bucket(bucket).key(key).send().await;
    let object = object.map_err(|error| failed(format!("cannot be read: {}", DisplayErrorContext(error))))?;
    let bytes = object.body.collect().await.map_err(|_| failed("cannot be read whole".into()))?;
    String::from_utf8(bytes.to_vec()).map_err(|_| failed("is no text".into()))
}
