//! Checks the queue, and its dead-letter queue.

use annals_agent::LEASE;
use annals_aws::SdkConfig;
use annals_aws::service::Service;
use annals_channel::finding::Finding;
use annals_channel::words;
use serde_json::{Value, json};

use super::deploy;
use crate::errors::aws_message;

pub(super) async fn check(aws: &SdkConfig, url: &str) -> Vec<Finding> {
    let client = Service::sqs(aws);
    let name = url.rsplit('/').next().unwrap_or(url);
    let queue = format!("queue {name}");
    let attributes = match attributes(&client, url).await {
        Ok(attributes) => attributes,
        Err(error) => {
            let words = words!(
                "{error}; check ANNALS_QUEUE_URL, the region and the credentials (sqs:GetQueueAttributes)",
                "{error}；请检查 ANNALS_QUEUE_URL、区域和凭证（sqs:GetQueueAttributes）"
            );
            return vec![Finding::fault(queue, words)];
        }
    };
    let of = |name: &str| attributes[name].as_str();
    let waiting = of("ApproximateNumberOfMessages").unwrap_or("0");
    let running = of("ApproximateNumberOfMessagesNotVisible").unwrap_or("0");
    let mut findings = vec![Finding::of(
        &queue,
        of("FifoQueue") == Some("true"),
        words!("FIFO; {waiting} turns wait, {running} run", "FIFO；{waiting} 个任务等待，{running} 个在运行"),
        words!(
            "not FIFO, so two runs of a chat may meet: check ANNALS_QUEUE_URL, its name ends in .fifo",
            "不是 FIFO 队列，同一聊天可能有两个任务同时运行：请检查 ANNALS_QUEUE_URL，名称应以 .fifo 结尾"
        ),
    )];
    let is_high = of("DeduplicationScope") == Some("messageGroup")
        && of("FifoThroughputLimit") == Some("perMessageGroupId");
    let high = words!("high: limits count for each chat", "高吞吐：限制按聊天计算");
    let low = words!(
        "limits count for all chats together, 300 turns a second",
        "所有聊天共用限制，每秒 300 个任务"
    );
    findings.push(Finding::of("queue throughput", is_high, high, low.followed_by(&deploy())));
    let visibility = of("VisibilityTimeout").and_then(|secs| secs.parse::<u64>().ok());
    let (secs, lease) = (visibility.unwrap_or_default(), LEASE.as_secs());
    let remedy = format!(
        "aws sqs set-queue-attributes --queue-url {url} --attributes VisibilityTimeout={}",
        lease + 60
    );
    findings.push(Finding::of(
        "queue visibility",
        secs > lease,
        words!("{secs} s, over the agent's {lease} s", "{secs} 秒，长于智能体的 {lease} 秒"),
        words!(
            "{secs} s, and a run may take {lease} s, so turns are delivered while they run: {remedy}",
            "{secs} 秒，而一次运行最长 {lease} 秒，因此任务在运行时会被再次投递：{remedy}"
        ),
    ));
    findings.push(dead_letters(&client, of("RedrivePolicy")).await);
    findings
}

async fn dead_letters(client: &Service, policy: Option<&str>) -> Finding {
    const CHECK: &str = "queue dead letters";
    let policy: Option<Value> = policy.and_then(|policy| serde_json::from_str(policy).ok());
    let arn = policy.as_ref().and_then(|policy| policy["deadLetterTargetArn"].as_str());
    let Some(arn) = arn else {
        let words = words!(
            "there is no queue for them, so what cannot be read is tried for two weeks",
            "没有死信队列，无法读取的任务会被重试两周"
        );
        return Finding::fault(CHECK, words.followed_by(&deploy()));
    };
    // arn:aws:sqs:<region>:<account>:<name>
    let (account, name) = match arn.split(':').collect::<Vec<_>>()[..] {
        [.., account, name] => (account, name),
        _ => ("", arn),
    };
    let input = json!({"QueueName": name, "QueueOwnerAWSAccountId": account});
    let found = client.call("AmazonSQS.GetQueueUrl", &input).await;
    let url = match found {
        Ok(found) => found["QueueUrl"].as_str().unwrap_or_default().to_owned(),
        Err(error) => {
            let error = aws_message(&error);
            let words = words!(
                "{name}: {error}; check the credentials (sqs:GetQueueUrl), or deploy infra/template.yaml",
                "{name}：{error}；请检查凭证（sqs:GetQueueUrl），或部署 infra/template.yaml"
            );
            return Finding::fault(CHECK, words);
        }
    };
    match attributes(client, &url).await {
        Ok(attributes) => {
            let count = attributes["ApproximateNumberOfMessages"].as_str().unwrap_or("0");
            let most =
                policy.as_ref().map(|policy| policy["maxReceiveCount"].to_string()).unwrap_or_default();
            let most = most.trim_matches('"');
            let none = words!("no turn has failed {most} times", "没有失败 {most} 次的任务");
            let some = words!(
                "{count} turns that failed {most} times: find the cause in the agent's log, then aws sqs \
                 start-message-move-task --source-arn {arn}",
                "{count} 个任务失败了 {most} 次：请在智能体的日志中查找原因，然后运行 aws sqs start-message-move-task \
                 --source-arn {arn}"
            );
            Finding::of(CHECK, count == "0", none, some)
        }
        Err(error) => {
            let words = words!(
                "{name}: {error}; check the credentials (sqs:GetQueueAttributes)",
                "{name}：{error}；请检查凭证（sqs:GetQueueAttributes）"
            );
            Finding::fault(CHECK, words)
        }
    }
}

async fn attributes(client: &Service, url: &str) -> Result<Value, String> {
    let input = json!({"QueueUrl": url, "AttributeNames": ["All"]});
    let answer = client.call("AmazonSQS.GetQueueAttributes", &input).await;
    let answer = answer.map_err(|error| aws_message(&error))?;
    Ok(answer.get("Attributes").cloned().unwrap_or_default())
}
