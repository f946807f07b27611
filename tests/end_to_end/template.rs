//! `infra/template.yaml` sets the variables that the functions read, and no others; and its table, alarms and times are
//! those that the code goes by.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use annals_compactor::{PATIENCE, Report, metrics};
use annals_shared::config::{
    AgentConfig, ConfigError, Env, LarkConfig, MemoryConfig, StoreConfig, TelegramConfig, ViewConfig,
    agent_id, api_keys, channel_settings, reply_quiet,
};
use annals_shared::history::due::{DUE_AT, DUE_SHARD, INDEX};
use annals_shared::sort_key::Timestamp;

const TEMPLATE: &str = include_str!("../../infra/template.yaml");

/// The names of the environment variables by the function that they are set for; those of all under `Globals`.
fn set_variables() -> BTreeMap<String, BTreeSet<String>> {
    let mut set: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut section, mut variables_at) = (String::new(), None);
    for line in TEMPLATE.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let indent = line.len() - line.trim_start().len();
        let Some((name, _)) = line.trim().split_once(':') else { continue };
        if indent == 0 || indent == 2 {
            section = if line.starts_with("Globals") || section == "Globals" && indent == 2 {
                "Globals".to_owned()
            } else {
                name.to_owned()
            };
        }
        match variables_at {
            _ if name == "Variables" => variables_at = Some(indent),
            Some(at) if indent == at + 2 => {
                set.entry(section.clone()).or_default().insert(name.to_owned());
            }
            Some(at) if indent <= at => variables_at = None,
            _ => {}
        }
    }
    set
}

/// The names that `read` asks for, where everything is set.
fn read_variables(read: impl Fn(Env<'_>) -> Result<(), ConfigError>, of_others: &[&str]) -> BTreeSet<String> {
    let names = RefCell::new(BTreeSet::new());
    let lookup = |name: &str| {
        names.borrow_mut().insert(name.to_owned());
        let value = match name {
            "HTTP_API_KEYS" => "app:s3cret",
            "MODEL" => "echo",
            "TELEGRAM_BOT_TOKEN" => "1:x",
            "ANNALS_TABLE"
            | "ANNALS_BUCKET"
            | "ANNALS_QUEUE_URL"
            | "TELEGRAM_WEBHOOK_SECRET"
            | "LARK_APP_ID"
            | "LARK_APP_SECRET"
            | "LARK_VERIFICATION_TOKEN" => "x",
            _ => return None,
        };
        Some(value.to_owned())
    };
    read(Env::new(&lookup)).unwrap();
    let mut names = names.into_inner();
    for name in of_others {
        assert!(names.remove(*name), "{name} is not read at all");
    }
    names
}

/// Each function's settings, as its `main.rs` reads them.
#[test]
fn each_function_is_given_what_it_reads() {
    let door = |env: Env<'_>| -> Result<(), ConfigError> {
        StoreConfig::from_env(env)?;
        env.required("ANNALS_QUEUE_URL")?;
        channel_settings(env).map(drop)
    };
    let read = [
        (
            "Telegram",
            read_variables(|env| door(env).and_then(|()| TelegramConfig::from_env(env).map(drop)), &[]),
        ),
        (
            "Lark",
            // What was said in a group is fetched by the agent.
            read_variables(
                |env| door(env).and_then(|()| LarkConfig::from_env(env).map(drop)),
                &["LARK_GROUP_CONTEXT"],
            ),
        ),
        (
            "Http",
            read_variables(
                |env| {
                    StoreConfig::from_env(env)?;
                    env.required("ANNALS_QUEUE_URL")?;
                    api_keys(env)?;
                    agent_id(env)?;
                    env.optional("SYSTEM_PROMPT");
                    MemoryConfig::from_env(env)?;
                    ViewConfig::from_env(env).map(drop)
                },
                &[],
            ),
        ),
        (
            "Agent",
            // What is encrypted comes to the webhook.
            read_variables(
                |env| {
                    door(env)?;
                    AgentConfig::from_env(env, None)?;
                    reply_quiet(env)?;
                    TelegramConfig::from_env(env)?;
                    LarkConfig::from_env(env).map(drop)
                },
                &["LARK_ENCRYPT_KEY"],
            ),
        ),
        (
            "Compactor",
            read_variables(
                |env| {
                    StoreConfig::from_env(env)?;
                    AgentConfig::from_env(env, None).map(drop)
                },
                &[],
            ),
        ),
    ];
    let set = set_variables();
    assert_eq!(set.len(), read.len() + 1, "a function has no row here: {:?}", set.keys());
    let globals = &set["Globals"];
    for (function, read) in read {
        let own = &set[function];
        let missing: Vec<_> =
            read.iter().filter(|name| !own.contains(*name) && !globals.contains(*name)).collect();
        assert!(missing.is_empty(), "{function} is not given {missing:?}");
        let unread: Vec<_> = own.difference(&read).collect();
        assert!(unread.is_empty(), "{function} does not read {unread:?}");
    }
}

/// API Gateway passes on what the template names, and answers anything else itself.
#[test]
fn each_route_of_the_http_api_is_deployed() {
    const ROUTER: &str = include_str!("../../functions/http/src/lib.rs");
    // Names of parameters are each side's own.
    let route = |method: &str, path: &str| {
        let parts = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
        format!("{} {}", method.to_uppercase(), parts.collect::<Vec<_>>().join("/"))
    };
    let routed: BTreeSet<String> = ROUTER
        .lines()
        .filter_map(|line| line.trim().strip_prefix(".route(\"")?.split_once('"'))
        .flat_map(|(path, methods)| {
            let of_it = ["get", "post", "put", "delete"].into_iter();
            of_it.filter(|method| methods.contains(&format!("{method}("))).map(|method| route(method, path))
        })
        .collect();
    let (_, http) = TEMPLATE.split_once("\n  Http:\n").unwrap();
    let (http, _) = http.split_once("\n  Agent:\n").unwrap();
    let deployed: BTreeSet<String> = http
        .lines()
        .filter_map(|line| line.split_once("Method: ")?.1.split_once(", Path: "))
        .map(|(method, path)| route(method, path.trim_end_matches(" }").trim_matches('"')))
        .collect();
    assert!(routed.len() > 10, "{routed:?}");
    assert_eq!(routed, deployed);
}

/// What stands under the resource `name:`.
fn resource(name: &str) -> &'static str {
    section(section(TEMPLATE, "Resources", 0), name, 2)
}

/// What stands in `of` under `name:` at this indent.
fn section<'a>(of: &'a str, name: &str, indent: usize) -> &'a str {
    let head = format!("\n{:indent$}{name}:\n", "");
    let (_, rest) = of.split_once(&head).unwrap_or_else(|| panic!("there is no {name}"));
    let is_under = |line: &&str| line.trim().is_empty() || line.len() - line.trim_start().len() > indent;
    &rest[..rest.split_inclusive('\n').take_while(is_under).map(str::len).sum()]
}

/// What a section says behind `name:`, without comments and quotes.
fn value<'a>(section: &'a str, name: &str) -> &'a str {
    let mut lines = section.lines().filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
    let found = lines.next().unwrap_or_else(|| panic!("no {name} in:\n{section}"));
    assert_eq!(lines.next(), None, "{name} is there twice");
    found.split(" #").next().unwrap_or_default().trim().trim_matches('"')
}

#[test]
fn the_alarm_goes_off_by_a_metric_that_a_run_writes_or_when_none_is_written() {
    let alarm = resource("CompactorOverdue");
    let line = metrics::embedded(&Report::default(), "annals-t", Duration::from_hours(168), Timestamp::MIN);
    let written = &line["_aws"]["CloudWatchMetrics"][0];
    assert_eq!(value(alarm, "Namespace"), written["Namespace"]);
    let names: Vec<_> = written["Metrics"].as_array().unwrap().iter().map(|metric| &metric["Name"]).collect();
    assert!(names.iter().any(|name| *name == value(alarm, "MetricName")), "{names:?}");
    assert_eq!(value(alarm, "MetricName"), "GraceUsed");
    // One dimension, whose value is the name that the function is given.
    let dimension = alarm.split_once("- { Name: ").unwrap().1.split_once(" }").unwrap().0;
    let (name, table) = dimension.split_once(", Value: ").unwrap();
    assert_eq!(written["Dimensions"], serde_json::json!([[name]]));
    assert_eq!((line[name].as_str(), table), (Some("annals-t"), "!Ref Table"));
    assert_eq!(value(section(TEMPLATE, "Globals", 0), "ANNALS_TABLE"), table);
    assert_eq!(alarm.matches("- { Name: ").count(), 1);

    let rule = ["Statistic", "ComparisonOperator", "Threshold", "EvaluationPeriods", "TreatMissingData"];
    let rule = rule.map(|name| value(alarm, name));
    assert_eq!(rule, ["Maximum", "GreaterThanOrEqualToThreshold", "25", "1", "breaching"]);
    // What waits is seen in each period, and so is that nobody looks: runs are far more frequent.
    assert_eq!(value(alarm, "Period"), "7200");
    let schedule = value(resource("Compactor"), "ScheduleExpression");
    assert_eq!(schedule, "!Ref CompactorSchedule");
    assert_eq!(value(section(TEMPLATE, "CompactorSchedule", 2), "Default"), "rate(15 minutes)");
}

#[test]
fn the_table_deletes_by_its_records_dates_and_has_the_index() {
    let table = resource("Table");
    assert_eq!(value(table, "TimeToLiveSpecification"), "{ AttributeName: expiresAt, Enabled: true }");
    let index = section(table, "GlobalSecondaryIndexes", 6);
    let keys = [
        format!("- IndexName: {INDEX}"),
        "KeySchema:".to_owned(),
        format!("- {{ AttributeName: {DUE_SHARD}, KeyType: HASH }}"),
        format!("- {{ AttributeName: {DUE_AT}, KeyType: RANGE }}"),
        "Projection: { ProjectionType: KEYS_ONLY }".to_owned(),
    ];
    assert_eq!(index.lines().take(5).map(str::trim).collect::<Vec<_>>(), keys);
    for (name, of) in [(DUE_SHARD, "S"), (DUE_AT, "N")] {
        assert!(table.contains(&format!("- {{ AttributeName: {name}, AttributeType: {of} }}")), "{name}");
    }
    let may_query =
        format!("Action: dynamodb:Query\n                Resource: !Sub \"${{Table.Arn}}/index/{INDEX}\"\n");
    assert!(resource("CompactorRole").contains(&may_query), "{may_query}");
}

#[test]
fn a_function_lives_as_long_as_its_code_counts_on() {
    const AGENT: &str = include_str!("../../functions/agent/src/main.rs");
    const COMPACTOR: &str = include_str!("../../functions/compactor/src/main.rs");
    let number = |source: &str, before: &str| -> u64 {
        let (_, rest) = source.split_once(before).unwrap_or_else(|| panic!("no {before}"));
        rest[..rest.find(')').unwrap()].parse().unwrap()
    };
    let secs = section(TEMPLATE, "Secs", 4);
    let lease = 60 * number(AGENT, "const LEASE: Duration = Duration::from_mins(");
    assert_eq!(value(resource("Agent"), "Timeout"), "!FindInMap [Agent, Secs, Timeout]");
    assert_eq!(value(secs, "Timeout"), lease.to_string(), "after it no run is alive");
    assert_eq!(value(resource("Queue"), "VisibilityTimeout"), "!FindInMap [Agent, Secs, Visibility]");
    assert!(value(secs, "Visibility").parse::<u64>().unwrap() > lease);

    let margin = number(COMPACTOR, "const MARGIN: Duration = Duration::from_secs(");
    let timeout: u64 = value(resource("Compactor"), "Timeout").parse().unwrap();
    // The last visit that is taken up may take all its time, and there is time for others before it.
    assert!(timeout > 2 * PATIENCE.as_secs() + margin, "{timeout}");
    assert!(timeout < 15 * 60, "so runs do not pile up");
}
