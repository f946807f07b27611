//! Checks the queue, and its dead-letter queue.

use annals_channel::finding::Finding;
use std::collections::HashMap;

use annals_agent::LEASE;
use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;

use crate::errors::aws_message;

type Attributes = HashMap<QueueAttributeName, String>;

pub(super) async fn check(aws: &SdkConfig, url: &str) -> Vec<Finding> {
    let client = Client::new(aws);
    let name = url.rsplit('/').next().unwrap_or(url);
    let queue = format!("queue {name}");
    let attributes = match attributes(&client, url).await {
        Ok(attributes) => attributes,
        Err(error) => {
            let remedy = "check ANNALS_QUEUE_URL, the region and the credentials (sqs:GetQueueAttributes)";
            return vec![Finding::fault(queue, format!("{error}; {remedy}"))];
        }
    };
    let of = |name: &QueueAttributeName| attributes.get(name).map(String::as_str);
    let waiting = of(&QueueAttributeName::ApproximateNumberOfMessages).unwrap_or("0");
    let running = of(&QueueAttributeName::ApproximateNumberOfMessagesNotVisible).unwrap_or("0");
    let mut findings = vec![Finding::of(
        &queue,
        of(&QueueAttributeName::FifoQueue) == Some("true"),
        format!("FIFO; {waiting} turns wait, {running} run"),
        "not FIFO, so two runs of a chat may meet: check ANNALS_QUEUE_URL, its name ends in .fifo",
    )];
    let is_high = of(&QueueAttributeName::DeduplicationScope) == Some("messageGroup")
        && of(&QueueAttributeName::FifoThroughputLimit) == Some("perMessageGroupId");
    let remedy = "deploy infra/template.yaml";
    findings.push(Finding::of(
        "queue throughput",
        is_high,
        "high: limits count for each chat",
        format!("limits count for all chats together, 300 turns a second: {remedy}"),
    ));
    let visibility = of(&QueueAttributeName::VisibilityTimeout).and_then(|secs| secs.parse::<u64>().ok());
    let (visibility, lease) = (visibility.unwrap_or_default(), LEASE.as_secs());
    findings.push(Finding::of(
        "queue visibility",
        visibility > lease,
        format!("{visibility} s, over the agent's {lease} s"),
        format!(
            "{visibility} s, and a run may take {lease} s, so turns are delivered while they run: aws sqs \
             set-queue-attributes --queue-url {url} --attributes VisibilityTimeout={}",
            lease + 60
        ),
    ));
    findings.push(dead_letters(&client, of(&QueueAttributeName::RedrivePolicy)).await);
    findings
}

async fn dead_letters(client: &Client, policy: Option<&str>) -> Finding {
    const CHECK: &str = "queue dead letters";
    let policy: Option<Value> = policy.and_then(|policy| serde_json::from_str(policy).ok());
    let arn = policy.as_ref().and_then(|policy| policy["deadLetterTargetArn"].as_str());
    let Some(arn) = arn else {
        let words = "there is no queue for them, so what cannot be read is tried for two weeks: deploy infra/template.yaml";
        return Finding::fault(CHECK, words);
    };
    // arn:aws:sqs:<region>:<account>:<name>
    let (account, name) = match arn.split(':').collect::<Vec<_>>()[..] {
        [.., account, name] => (account, name),
        _ => ("", arn),
    };
    let found = client.get_queue_url().queue_name(name).queue_owner_aws_account_id(account).send().await;
    let url = match found {
        Ok(found) => found.queue_url.unwrap_or_default(),
        Err(error) => {
            return Finding::fault(CHECK, format!("{name}: {} (sqs:GetQueueUrl)", aws_message(&error)));
        }
    };
    match attributes(client, &url).await {
        Ok(attributes) => {
            let count =
                attributes.get(&QueueAttributeName::ApproximateNumberOfMessages).map_or("0", String::as_str);
            let most =
                policy.as_ref().map(|policy| policy["maxReceiveCount"].to_string()).unwrap_or_default();
            let most = most.trim_matches('"');
            let words = format!("none, of what failed {most} times");
            let bad = format!(
                "{count} turns that failed {most} times: find the cause in the agent's log, then aws sqs \
                 start-message-move-task --source-arn {arn}"
            );
            Finding::of(CHECK, count == "0", words, bad)
        }
        Err(error) => Finding::fault(CHECK, format!("{name}: {error} (sqs:GetQueueAttributes)")),
    }
}

async fn attributes(client: &Client, url: &str) -> Result<Attributes, String> {
    let request = client.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
    request
        .send()
        .await
        .map(|answer| answer.attributes.unwrap_or_default())
        .map_err(|error| aws_message(&error))
}
