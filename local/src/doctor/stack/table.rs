//! Checks the table.

use annals_aws::SdkConfig;
use annals_channel::finding::Finding;
use annals_channel::words;
use annals_store::history::due::{DUE_AT, DUE_SHARD, INDEX};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    BillingMode, IndexStatus, KeySchemaElement, KeyType, PointInTimeRecoveryStatus, ProjectionType,
    ScalarAttributeType, TableDescription, TableStatus, TimeToLiveStatus,
};

use super::{deploy, unchecked};
use crate::errors::aws_message;

/// Attribute by which records expire.
const EXPIRES_AT: &str = "expiresAt";

/// Checks everything about the table `name`.
pub(super) async fn check(aws: &SdkConfig, name: &str) -> Vec<Finding> {
    let client = Client::new(aws);
    let table = match describe(&client, name).await {
        Ok(table) => table,
        Err(fault) => return vec![fault],
    };
    let mut findings = of_shape(&table, name);
    findings.push(expiry(&client, name).await);
    findings.push(backups(&client, name).await);
    let mode = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
    findings.push(Finding::of(
        "table billing",
        mode == Some(&BillingMode::PayPerRequest),
        words!("on demand", "按需计费"),
        words!(
            "provisioned, so writes are refused beyond it: aws dynamodb update-table --table-name {name} --billing-mode \
             PAY_PER_REQUEST",
            "预置容量，超出后写入会被拒绝：aws dynamodb update-table --table-name {name} --billing-mode PAY_PER_REQUEST"
        ),
    ));
    findings.push(Finding::of(
        "table deletion",
        table.deletion_protection_enabled() == Some(true),
        words!("protected", "已开启删除保护"),
        words!(
            "not protected: aws dynamodb update-table --table-name {name} --deletion-protection-enabled",
            "未开启删除保护：aws dynamodb update-table --table-name {name} --deletion-protection-enabled"
        ),
    ));
    findings
}

/// Checks the keys and the index of the table `name`, which the local table has too.
pub(in crate::doctor) async fn shape(client: &Client, name: &str) -> Vec<Finding> {
    match describe(client, name).await {
        Ok(table) => of_shape(&table, name),
        Err(fault) => vec![fault],
    }
}

async fn describe(client: &Client, name: &str) -> Result<TableDescription, Finding> {
    let check = format!("table {name}");
    match client.describe_table().table_name(name).send().await {
        Ok(described) => described.table.ok_or_else(|| {
            let words = words!(
                "AWS does not describe it: check AWS_ENDPOINT_URL",
                "AWS 没有返回它的描述：请检查 AWS_ENDPOINT_URL"
            );
            Finding::fault(check, words)
        }),
        Err(error) => {
            let error = aws_message(&error);
            let words = words!(
                "{error}; check ANNALS_TABLE, the region and the credentials (dynamodb:DescribeTable)",
                "{error}；请检查 ANNALS_TABLE、区域和凭证（dynamodb:DescribeTable）"
            );
            Err(Finding::fault(check, words))
        }
    }
}

fn of_shape(table: &TableDescription, name: &str) -> Vec<Finding> {
    let types = |attribute: &str| {
        let mut definitions = table.attribute_definitions().iter();
        definitions.find(|it| it.attribute_name() == attribute).map(|it| it.attribute_type().clone())
    };
    let is = |schema: &[KeySchemaElement], wanted: [(&str, KeyType, ScalarAttributeType); 2]| {
        schema.len() == wanted.len()
            && wanted.iter().all(|(name, role, kind)| {
                schema.iter().any(|key| key.attribute_name() == *name && key.key_type() == role)
                    && types(name).as_ref() == Some(kind)
            })
    };
    let text = ScalarAttributeType::S;
    let keys = [("pk", KeyType::Hash, text.clone()), ("sk", KeyType::Range, text.clone())];
    let is_active = table.table_status() == Some(&TableStatus::Active);
    let status = table.table_status().map_or("unknown", TableStatus::as_str);
    let check = format!("table {name}");
    let first = if is(table.key_schema(), keys) {
        let good = words!("active, with pk and sk", "可用，键为 pk 和 sk");
        let bad = words!("is {status}: wait until it is ACTIVE", "状态为 {status}：请等到 ACTIVE");
        Finding::of(&check, is_active, good, bad)
    } else {
        let words = words!(
            "its keys are not pk and sk, both strings: this is no table of Annals, check ANNALS_TABLE",
            "它的键不是字符串 pk 和 sk：这不是 Annals 的表，请检查 ANNALS_TABLE"
        );
        Finding::fault(check, words)
    };
    let due = [(DUE_SHARD, KeyType::Hash, text), (DUE_AT, KeyType::Range, ScalarAttributeType::N)];
    let index = table.global_secondary_indexes().iter().find(|index| index.index_name() == Some(INDEX));
    let projection = index.and_then(|index| index.projection()).and_then(|it| it.projection_type());
    let is_well = index.is_some_and(|index| is(index.key_schema(), due))
        && projection == Some(&ProjectionType::KeysOnly);
    // The local engine does not report a status.
    let is_active = index.and_then(|index| index.index_status()).is_none_or(|it| *it == IndexStatus::Active);
    let second = if is_well {
        let building =
            words!("{INDEX} is being built: wait until it is ACTIVE", "{INDEX} 正在创建：请等到 ACTIVE");
        Finding::of("table index", is_active, words!("{INDEX}, active", "{INDEX}，可用"), building)
    } else {
        let missing = words!(
            "there is no index {INDEX} of {DUE_SHARD} and {DUE_AT}: without it the compactor finds no chat",
            "没有以 {DUE_SHARD} 和 {DUE_AT} 为键的索引 {INDEX}：没有它，压缩函数找不到任何聊天"
        );
        Finding::fault("table index", missing.followed_by(&deploy()))
    };
    vec![first, second]
}

async fn expiry(client: &Client, name: &str) -> Finding {
    const CHECK: &str = "table expiry";
    let described = match client.describe_time_to_live().table_name(name).send().await {
        Ok(described) => described.time_to_live_description,
        Err(error) => return unchecked(CHECK, "dynamodb:DescribeTimeToLive", &error),
    };
    let ttl = described.as_ref();
    let is_on = ttl
        .and_then(|ttl| ttl.time_to_live_status())
        .is_some_and(|status| matches!(status, TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling));
    let attribute = ttl.and_then(|ttl| ttl.attribute_name());
    let remedy = format!(
        "aws dynamodb update-time-to-live --table-name {name} --time-to-live-specification \
         Enabled=true,AttributeName={EXPIRES_AT}"
    );
    match attribute {
        Some(EXPIRES_AT) if is_on => Finding::ok(CHECK, words!("by {EXPIRES_AT}", "按 {EXPIRES_AT}")),
        Some(other) if is_on => Finding::fault(
            CHECK,
            words!("by {other}, not by {EXPIRES_AT}: {remedy}", "按 {other} 而不是 {EXPIRES_AT}：{remedy}"),
        ),
        _ => Finding::fault(
            CHECK,
            words!(
                "off. If an alarm or a restore had you turn it off, leave it until GraceUsed is 0; else \
                 archived records stay and cost: {remedy}",
                "已关闭。如果是因告警或恢复备份而关闭的，请等 GraceUsed 为 0 后再开启；\
                 否则已归档的记录会一直留存并计费：{remedy}"
            ),
        ),
    }
}

async fn backups(client: &Client, name: &str) -> Finding {
    const CHECK: &str = "table backups";
    let described = match client.describe_continuous_backups().table_name(name).send().await {
        Ok(described) => described.continuous_backups_description,
        Err(error) => return unchecked(CHECK, "dynamodb:DescribeContinuousBackups", &error),
    };
    let recovery = described.as_ref().and_then(|it| it.point_in_time_recovery_description());
    let status = recovery.and_then(|it| it.point_in_time_recovery_status());
    let remedy = format!(
        "aws dynamodb update-continuous-backups --table-name {name} --point-in-time-recovery-specification \
         PointInTimeRecoveryEnabled=true"
    );
    Finding::of(
        CHECK,
        status == Some(&PointInTimeRecoveryStatus::Enabled),
        words!("point-in-time recovery", "时间点恢复已开启"),
        words!("point-in-time recovery is off: {remedy}", "时间点恢复已关闭：{remedy}"),
    )
}
