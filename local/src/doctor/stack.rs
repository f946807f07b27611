//! Checks a deployed stack: the table, the bucket and the queues of `infra/template.yaml`.

mod bucket;
mod queue;
mod table;

use std::error::Error;

use annals_aws::SdkConfig;
use annals_channel::finding::{Finding, Words};
use annals_channel::words;
use annals_core::settings::Env;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;

pub(super) use table::shape as table_shape;

use crate::errors::aws_message;

/// Settings that name the parts of the stack.
pub(super) const NAMES: [&str; 3] = ["ANNALS_TABLE", "ANNALS_BUCKET", "ANNALS_QUEUE_URL"];

/// Returns the remedy for a part that is not as the template has it.
fn deploy() -> Words {
    words!("deploy infra/template.yaml", "请部署 infra/template.yaml")
}

/// Reports on each part that is named.
pub(super) async fn check(
    env: Env<'_>,
    aws: &SdkConfig,
    report: &mut impl FnMut(Vec<Finding>) -> std::io::Result<()>,
) -> std::io::Result<()> {
    if let Some(name) = env.optional("ANNALS_TABLE") {
        report(table::check(aws, &name).await)?;
    }
    if let Some(name) = env.optional("ANNALS_BUCKET") {
        report(bucket::check(aws, &name).await)?;
    }
    if let Some(url) = env.optional("ANNALS_QUEUE_URL") {
        report(queue::check(aws, &url).await)?;
    }
    Ok(())
}

/// Returns the finding of a request that failed; `action` is what the caller needs permission for.
fn unchecked(
    check: &'static str,
    action: &'static str,
    error: &(impl ProvideErrorMetadata + Error),
) -> Finding {
    let error = aws_message(error);
    let words = words!(
        "could not be checked: {error} (the credentials need {action})",
        "无法检查：{error}（凭证需要 {action}）"
    );
    Finding::fault(check, words)
}
