//! Checks the queue, and its dead-letter queue.

use annals_channel::finding::{Finding, Words};
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
        Err(error) => return vec![Finding::fault(queue, Words::QueueFailed { error })],
    };
    let of = |name: &QueueAttributeName| attributes.get(name).map(String::as_str);
    let waiting = of(&QueueAttributeName::ApproximateNumberOfMessages).unwrap_or("0").to_owned();
    let running = of(&QueueAttributeName::ApproximateNumberOfMessagesNotVisible).unwrap_or("0").to_owned();
    let mut findings = vec![Finding::of(
        &queue,
        of(&QueueAttributeName::FifoQueue) == Some("true"),
        Words::QueueOk { waiting, running },
        Words::QueueNotFifo,
    )];
    let is_high = of(&QueueAttributeName::DeduplicationScope) == Some("messageGroup")
        && of(&QueueAttributeName::FifoThroughputLimit) == Some("perMessageGroupId");
    findings.push(Finding::of("queue throughput", is_high, Words::ThroughputHigh, Words::ThroughputLow));
    let visibility = of(&QueueAttributeName::VisibilityTimeout).and_then(|secs| secs.parse::<u64>().ok());
    let (secs, lease) = (visibility.unwrap_or_default(), LEASE.as_secs());
    let remedy = format!(
        "aws sqs set-queue-attributes --queue-url {url} --attributes VisibilityTimeout={}",
        lease + 60
    );
    findings.push(Finding::of(
        "queue visibility",
        secs > lease,
        Words::VisibilityOk { secs, lease },
        Words::VisibilityShort { secs, lease, remedy },
    ));
    findings.push(dead_letters(&client, of(&QueueAttributeName::RedrivePolicy)).await);
    findings
}

async fn dead_letters(client: &Client, policy: Option<&str>) -> Finding {
    const CHECK: &str = "queue dead letters";
    let policy: Option<Value> = policy.and_then(|policy| serde_json::from_str(policy).ok());
    let arn = policy.as_ref().and_then(|policy| policy["deadLetterTargetArn"].as_str());
    let Some(arn) = arn else {
        return Finding::fault(CHECK, Words::NoDeadLetters);
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
            let error = format!("{name}: {} (sqs:GetQueueUrl)", aws_message(&error));
            return Finding::fault(CHECK, Words::Error(error));
        }
    };
    match attributes(client, &url).await {
        Ok(attributes) => {
            let count =
                attributes.get(&QueueAttributeName::ApproximateNumberOfMessages).map_or("0", String::as_str);
            let most =
                policy.as_ref().map(|policy| policy["maxReceiveCount"].to_string()).unwrap_or_default();
            let most = most.trim_matches('"').to_owned();
            let some =
                Words::DeadLetters { count: count.to_owned(), most: most.clone(), arn: arn.to_owned() };
            Finding::of(CHECK, count == "0", Words::DeadLettersNone { most }, some)
        }
        Err(error) => {
            Finding::fault(CHECK, Words::Error(format!("{name}: {error} (sqs:GetQueueAttributes)")))
        }
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
