//! The histories in AWS, with clients that are created once, at the start of a process.

use annals_aws::SdkConfig;
use annals_aws::bucket::Bucket;
use annals_io::clock::Clock;
use annals_store::history::History;
use annals_store::settings::StoreConfig;

/// Returns the histories in a deployed table and bucket.
pub fn history(aws: &SdkConfig, store: StoreConfig, clock: Clock) -> History {
    let (dynamodb, bucket) = (aws_sdk_dynamodb::Client::new(aws), Bucket::new(aws, &store.bucket));
    History::new(dynamodb, store.table, bucket, clock, store.retention)
}
