//! Checks the bucket.

use annals_aws::SdkConfig;
use annals_aws::bucket::{Bucket, status};
use annals_channel::finding::Finding;
use annals_channel::words;

use super::unchecked;
use crate::errors::aws_message;

pub(super) async fn check(aws: &SdkConfig, name: &str) -> Vec<Finding> {
    let bucket = Bucket::new(aws, name);
    if let Err(error) = bucket.about("list-type=2&max-keys=1").await {
        let words = match status(&error) {
            Some(404) => words!(
                "no bucket has this name: check ANNALS_BUCKET",
                "没有这个名称的存储桶：请检查 ANNALS_BUCKET"
            ),
            Some(403) => words!(
                "the credentials may not see it (s3:ListBucket), or it is another account's: check ANNALS_BUCKET and \
                 the credentials",
                "凭证无权查看它（s3:ListBucket），或它属于另一个账户：请检查 ANNALS_BUCKET 和凭证"
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
        public_access(&bucket, name).await,
    ]
}

async fn public_access(bucket: &Bucket, name: &str) -> Finding {
    const CHECK: &str = "bucket access";
    let remedy = format!(
        "aws s3api put-public-access-block --bucket {name} --public-access-block-configuration \
         BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true"
    );
    let bad = words!("may be opened to the public: {remedy}", "可能会被公开：{remedy}");
    match bucket.about("publicAccessBlock").await {
        Ok(answer) => {
            // <PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls>…
            let is_blocked =
                ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"]
                    .iter()
                    .all(|part| answer.contains(&format!("<{part}>true<")));
            Finding::of(CHECK, is_blocked, words!("public access is blocked", "已阻止公开访问"), bad)
        }
        Err(error) if status(&error) == Some(404) => Finding::fault(CHECK, bad),
        Err(error) => unchecked(CHECK, "s3:GetBucketPublicAccessBlock", &error),
    }
}
