//! Checks the bucket.

use annals_channel::finding::{Finding, Words};
use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::types::{ServerSideEncryptionByDefault, ServerSideEncryptionConfiguration};

use super::unchecked;
use crate::errors::aws_message;

pub(super) async fn check(aws: &SdkConfig, name: &str) -> Vec<Finding> {
    // As in the functions: an endpoint other than AWS has no host name for each bucket.
    let path_style = aws.endpoint_url().is_some();
    let config = aws_sdk_s3::config::Builder::from(aws).force_path_style(path_style).build();
    let client = Client::from_conf(config);
    if let Err(error) = client.head_bucket().bucket(name).send().await {
        // The answer to HEAD has no message.
        let status = error.raw_response().map(|answer| answer.status().as_u16());
        let words = match status {
            Some(404) => Words::BucketMissing,
            Some(403) => Words::BucketForbidden,
            Some(301) => Words::BucketElsewhere,
            _ => Words::BucketFailed { error: aws_message(&error) },
        };
        return vec![Finding::fault(format!("bucket {name}"), words)];
    }
    vec![
        Finding::ok(format!("bucket {name}"), Words::BucketOk),
        public_access(&client, name).await,
        encryption(&client, name).await,
    ]
}

async fn public_access(client: &Client, name: &str) -> Finding {
    const CHECK: &str = "bucket access";
    let remedy = format!(
        "aws s3api put-public-access-block --bucket {name} --public-access-block-configuration \
         BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true"
    );
    match client.get_public_access_block().bucket(name).send().await {
        Ok(answer) => {
            let is_blocked = answer.public_access_block_configuration().is_some_and(|block| {
                [
                    block.block_public_acls(),
                    block.ignore_public_acls(),
                    block.block_public_policy(),
                    block.restrict_public_buckets(),
                ]
                .iter()
                .all(|is_on| *is_on == Some(true))
            });
            Finding::of(CHECK, is_blocked, Words::BucketPrivate, Words::BucketPublic { remedy })
        }
        Err(error) if error.raw_response().is_some_and(|answer| answer.status().as_u16() == 404) => {
            Finding::fault(CHECK, Words::BucketPublic { remedy })
        }
        Err(error) => unchecked(CHECK, "s3:GetBucketPublicAccessBlock", &error),
    }
}

async fn encryption(client: &Client, name: &str) -> Finding {
    const CHECK: &str = "bucket encryption";
    match client.get_bucket_encryption().bucket(name).send().await {
        Ok(answer) => {
            let rules = answer
                .server_side_encryption_configuration()
                .map(ServerSideEncryptionConfiguration::rules)
                .unwrap_or_default();
            let algorithm = rules
                .iter()
                .find_map(|rule| rule.apply_server_side_encryption_by_default())
                .map(ServerSideEncryptionByDefault::sse_algorithm);
            match algorithm {
                Some(algorithm) => Finding::ok(CHECK, Words::Value(algorithm.as_str().to_owned())),
                None => Finding::fault(CHECK, Words::BucketUnencrypted),
            }
        }
        Err(error) if error.raw_response().is_some_and(|answer| answer.status().as_u16() == 404) => {
            Finding::fault(CHECK, Words::BucketUnencrypted)
        }
        Err(error) => unchecked(CHECK, "s3:GetEncryptionConfiguration", &error),
    }
}
