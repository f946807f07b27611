//! AWS clients of a deployed function, made once at its start.

use aws_config::{BehaviorVersion, SdkConfig};

use crate::clock::Clock;
use crate::config::{ConfigError, Settings, StoreConfig, process_env};
use crate::history::History;
use crate::queue::Sqs;

/// What the SDK takes from a function's environment: region, credentials, `AWS_ENDPOINT_URL`.
pub async fn sdk_config() -> SdkConfig {
    aws_config::load_defaults(BehaviorVersion::latest()).await
}

/// The settings of the process: its environment, and the secrets that it names.
pub async fn settings(aws: &SdkConfig) -> Result<Settings, ConfigError> {
    Settings::read(process_env, aws).await
}

/// The histories in a deployed table and bucket.
pub fn history(aws: &SdkConfig, store: StoreConfig, clock: Clock) -> History {
    let dynamodb = aws_sdk_dynamodb::Client::new(aws);
    // An endpoint of one's own, an emulator's, has no name for each bucket.
    let path_style = aws.endpoint_url().is_some();
    let s3 = aws_sdk_s3::config::Builder::from(aws).force_path_style(path_style).build();
    let s3 = aws_sdk_s3::Client::from_conf(s3);
    History::new(dynamodb, store.table, s3, store.bucket, clock, store.retention)
}

/// The deployed queue at `url`.
pub fn queue(aws: &SdkConfig, url: String) -> Sqs {
    Sqs::new(aws_sdk_sqs::Client::new(aws), url)
}
