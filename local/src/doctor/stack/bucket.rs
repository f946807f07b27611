//! Checks the bucket.

use annals_channel::finding::Finding;
use annals_channel::words;
use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::types::{ServerSideEncryptionByDefault, ServerSideEncryptionConfiguration};

use super::{deploy, unchecked};
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
            Some(404) => words!(
                "no bucket has this name: check ANNALS_BUCKET",
                "没有这个名称的存储桶：请检查 ANNALS_BUCKET"
            ),
            Some(403) => words!(
                "the credentials may not see it (s3:ListBucket), or it is another account's",
                "凭证无权查看它（s3:ListBucket），或它属于另一个账户"
            ),
            Some(301) => words!(
                "it is in another region: set AWS_REGION to the stack's",
                "它在另一个区域：请把 AWS_REGION 设为部署所在的区域"
            ),
            _ => {
                let error = aws_message(&error);
                words!(
                    "{error}; check ANNALS_BUCKET, the region and the credentials",
                    "{error}；请检查 ANNALS_BUCKET、区域和凭证"
                )
            }
        };
        return vec![Finding::fault(format!("bucket {name}"), words)];
    }
    vec![
        Finding::ok(format!("bucket {name}"), words!("can be reached", "可以访问")),
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
    let bad = words!("may be opened to the public: {remedy}", "可能会被公开：{remedy}");
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
            Finding::of(CHECK, is_blocked, words!("public access is blocked", "已阻止公开访问"), bad)
        }
        Err(error) if error.raw_response().is_some_and(|answer| answer.status().as_u16() == 404) => {
            Finding::fault(CHECK, bad)
        }
        Err(error) => unchecked(CHECK, "s3:GetBucketPublicAccessBlock", &error),
    }
}

async fn encryption(client: &Client, name: &str) -> Finding {
    const CHECK: &str = "bucket encryption";
    let off = || Finding::fault(CHECK, words!("off", "已关闭").followed_by(&deploy()));
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
                Some(algorithm) => Finding::ok(CHECK, algorithm.as_str().to_owned()),
                None => off(),
            }
        }
        Err(error) if error.raw_response().is_some_and(|answer| answer.status().as_u16() == 404) => off(),
        Err(error) => unchecked(CHECK, "s3:GetEncryptionConfiguration", &error),
    }
}
