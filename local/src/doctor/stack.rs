//! A deployed stack: the table, the bucket and the queues, as `infra/template.yaml` makes them.

mod bucket;
mod queue;
mod table;

use annals_shared::config::Env;
use aws_config::SdkConfig;

use super::finding::Finding;

pub(super) use table::shape as table_shape;

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
