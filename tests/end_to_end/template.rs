//! `infra/template.yaml` has the routes, table, alarms and times that the code uses.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use annals_agent::Attempt;
use annals_compactor::function::MARGIN;
use annals_compactor::{PATIENCE, Report, metrics};
use annals_core::sort_key::Timestamp;
use annals_io::metrics::{Metric, NAMESPACE};
use annals_model::ModelChoice;
use annals_store::history::due::{DUE_AT, DUE_SHARD, INDEX};
use annals_test_support::template::{TEMPLATE, properties};
use serde_json::{Value, json};

use crate::settings::functions;

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
            let of_it = ["get", "post", "put", "patch", "delete"].into_iter();
            of_it.filter(|method| methods.contains(&format!("{method}("))).map(|method| route(method, path))
        })
        .collect();
    let events = properties("Http")["Events"].as_object().unwrap().values();
    let (preflights, events): (Vec<&Value>, Vec<&Value>) =
        events.map(|event| &event["Properties"]).partition(|event| event["Method"] == "OPTIONS");
    // The code answers them, by the setting: with a configuration of its own, the API would, and take the code's words off.
    assert_eq!(preflights.iter().map(|event| &event["Path"]).collect::<Vec<_>>(), ["/{proxy+}"]);
    assert!(properties("Api").get("CorsConfiguration").is_none());
    assert!(properties("HttpStreaming")["FunctionUrlConfig"].get("Cors").is_none());
    let deployed: BTreeSet<String> = events
        .into_iter()
        .map(|event| route(event["Method"].as_str().unwrap(), event["Path"].as_str().unwrap()))
        .collect();
    assert!(routed.len() > 10, "{routed:?}");
    assert_eq!(routed, deployed);
}

/// A provider that the pattern leaves out would work locally, and could not be deployed.
#[test]
fn the_model_may_be_of_each_provider() {
    let forms = ModelChoice::forms();
    let names: Vec<&str> = forms.split([',', ' ']).filter_map(|form| form.strip_suffix(":<model>")).collect();
    assert!(names.len() > 2, "{forms}");
    let of_all = format!("({}):.+", names.join("|"));
    let one = format!("({}):[^,]+", names.join("|"));
    let without_echo = forms.strip_prefix("echo, ").unwrap();
    for (parameter, pattern, text) in [
        ("Model", format!("echo|{of_all}"), forms.clone()),
        ("ModelFallback", format!("({of_all})?"), without_echo.to_owned()),
        ("Models", format!("({one}(, *{one})*)?"), format!("{without_echo}, with commas between")),
    ] {
        let parameter = &TEMPLATE["Parameters"][parameter];
        assert_eq!(parameter["AllowedPattern"], pattern);
        assert_eq!(parameter["ConstraintDescription"], format!("must be {text}"));
    }
    let described = TEMPLATE["Parameters"]["Model"]["Description"].as_str().unwrap();
    let missing = names.iter().find(|name| !described.contains(&format!("{name}:<model>")));
    assert_eq!(missing, None);
}

/// Rules, conditions, the agent's secrets and role, the dashboard: a place that leaves a channel out is a silent fault.
#[test]
fn each_channel_is_named_in_the_same_places() {
    fn collect(value: &Value, path: &str, channel: &str, found: &mut BTreeSet<String>) {
        let names = ["", "Secret", "Role", "Logs"].map(|suffix| format!("{channel}{suffix}"));
        let condition = format!("Has{channel}");
        let subs = [format!("${{{channel}}}"), format!("${{{channel}Secret}}")];
        match value {
            Value::String(text) => {
                if names.contains(text) || *text == condition || subs.iter().any(|sub| text.contains(sub)) {
                    found.insert(path.replace(channel, "<C>"));
                }
            }
            Value::Array(items) => {
                for item in items {
                    collect(item, &format!("{path}/*"), channel, found);
                }
            }
            Value::Object(fields) => {
                for (name, of) in fields {
                    collect(of, &format!("{path}/{name}"), channel, found);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let channels = annals_runtime::channels::local();
    // A deployed channel without its line in `channels.rs` would take messages, and its replies would go nowhere.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/channels");
    let crates = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let crates: BTreeSet<String> = crates.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(crates, channels.iter().map(|entry| entry.about.channel.to_string()).collect());
    for about in channels.iter().map(|entry| entry.about) {
        // As scripts and the console, which know the folder alone, name it.
        let folder = about.channel.to_string();
        let title = format!("{}{}", folder[..1].to_uppercase(), &folder[1..]);
        assert_eq!(about.platform(), title);
    }
    let mut places = channels.iter().map(|channel| {
        let mut found = BTreeSet::new();
        collect(&TEMPLATE, "", channel.about.platform(), &mut found);
        // Discord alone has a relay beside its webhook, which costs money and so is off unless an operator wants it.
        let of_relay = ["/Conditions/HasRelay/", "/Rules/Relay", "/Resources/Relay"];
        found.retain(|place| !of_relay.iter().any(|start| place.starts_with(start)));
        found
    });
    let first = places.next().unwrap();
    assert!(first.len() > 10, "{first:?}");
    for (places, channel) in places.zip(&channels[1..]) {
        assert_eq!(places, first, "{} and {}", channel.about.platform(), channels[0].about.platform());
    }
    assert_eq!(TEMPLATE["Parameters"]["DiscordRelay"]["Default"], "off");
    assert_eq!(TEMPLATE["Resources"]["Relay"]["Condition"], "HasRelay");
    let names = |function: &str| properties(function).as_object().unwrap().keys().collect::<Vec<_>>();
    for channel in &channels {
        let about = channel.about;
        assert_eq!(names(about.platform()), names(channels[0].about.platform()));
        assert_eq!(properties(about.platform())["Events"]["Webhook"]["Properties"]["Path"], about.path());
        let address = &TEMPLATE["Outputs"][format!("{}Webhook", about.platform())]["Value"]["Fn::Sub"];
        assert!(address.as_str().unwrap().ends_with(&about.path()), "{address}");
    }
}

#[test]
fn archive_alarms_fire_on_a_metric_of_a_run_or_if_it_is_missing() {
    let line = metrics::embedded(&Report::default(), "annals-t", Duration::from_hours(168), Timestamp::MIN);
    let written = &line["_aws"]["CloudWatchMetrics"][0];
    // The stack's table, or the one restored in its place.
    let table = json!({"Fn::If": ["HasRestoredTable", {"Ref": "RestoredTable"}, {"Ref": "Table"}]});
    let variables = &TEMPLATE["Globals"]["Function"]["Environment"]["Variables"];
    assert_eq!(variables["ANNALS_TABLE"], table);
    // Statistic, seconds of a period, periods, threshold, and the treatment of missing data.
    let [overdue, behind] = ["CompactorOverdue", "ArchiveBehind"].map(|name| {
        let alarm = properties(name);
        assert_eq!(alarm["Namespace"], written["Namespace"]);
        assert_eq!(alarm["MetricName"], "GraceUsed");
        // One dimension, whose value is the name that the function is given.
        let dimension = &alarm["Dimensions"][0];
        assert_eq!(written["Dimensions"], json!([[dimension["Name"]]]));
        assert_eq!((&line["Table"], &dimension["Value"]), (&json!("annals-t"), &table));
        assert_eq!(alarm["Dimensions"].as_array().unwrap().len(), 1);
        assert_eq!(alarm["ComparisonOperator"], "GreaterThanOrEqualToThreshold");
        ["Statistic", "Period", "EvaluationPeriods", "Threshold", "TreatMissingData"]
            .map(|field| alarm[field].clone())
    });
    assert_eq!(overdue, [json!("Maximum"), json!(7200), json!(1), json!(25), json!("breaching")]);
    assert_eq!(behind, [json!("Maximum"), json!(7200), json!(1), json!(75), json!("notBreaching")]);
    // What waits is seen in each period, and so is that nobody looks: runs are far more frequent.
    let schedule = &properties("Compactor")["Events"]["Schedule"]["Properties"]["ScheduleExpression"];
    assert_eq!(*schedule, json!({"Ref": "CompactorSchedule"}));
    assert_eq!(TEMPLATE["Parameters"]["CompactorSchedule"]["Default"], "rate(15 minutes)");
}

/// Each notifies somebody, describes itself, and depends on the resource that it watches.
#[test]
fn each_function_has_its_alarms_and_each_alarm_notifies() {
    let resources = TEMPLATE["Resources"].as_object().unwrap();
    let alarms = || resources.iter().filter(|(_, of)| of["Type"] == "AWS::CloudWatch::Alarm");
    for (name, alarm) in alarms() {
        let told = json!({"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopic"}],
            {"Fn::If": ["HasAlarmEmail", [{"Ref": "Alarms"}], {"Ref": "AWS::NoValue"}]}]});
        assert_eq!(alarm["Properties"]["AlarmActions"], told, "{name}");
        // https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
        let description = alarm["Properties"]["AlarmDescription"].as_str().unwrap();
        assert!((80..=1024).contains(&description.len()), "{name}");
    }
    for function in functions() {
        for metric in ["Errors", "Throttles"] {
            let dimensions = json!([{"Name": "FunctionName", "Value": {"Ref": function}}]);
            let watching = alarms().filter(|(_, of)| {
                let of = &of["Properties"];
                of["Namespace"] == "AWS/Lambda"
                    && of["MetricName"] == metric
                    && of["Dimensions"] == dimensions
            });
            let watching: Vec<_> = watching.collect();
            let [(name, alarm)] = watching[..] else { panic!("{function} {metric}: {watching:?}") };
            assert_eq!(*name, format!("{function}{metric}"));
            assert_eq!(alarm.get("Condition"), resources[function].get("Condition"), "{name}");
        }
    }
}

/// Otherwise its messages would wait for the eight hours until they are dead letters.
#[test]
fn a_single_chat_whose_runs_all_fail_raises_an_alarm() {
    let alarm = properties("RunsFail");
    let period = Duration::from_secs(alarm["Period"].as_u64().unwrap());
    let (mut failures, mut since_first) = (0, Duration::ZERO);
    while since_first < period {
        failures += 1;
        since_first += Attempt(failures).pause();
    }
    assert!(alarm["Threshold"].as_u64().unwrap() < u64::from(failures), "{failures}");
}

/// A bot that answers five times in an hour and may not write any more is noticed.
#[test]
fn failed_deliveries_are_summed_over_an_hour() {
    let metrics = properties("DeliveriesFail")["Metrics"].as_array().unwrap();
    let periods: Vec<_> = metrics.iter().filter_map(|of| of["MetricStat"].get("Period")).collect();
    assert_eq!(periods, [3600, 3600]);
}

/// A metric under a name that nobody writes would look like quiet.
#[test]
fn alarms_and_the_dashboard_show_metrics_that_are_written() {
    let own: BTreeSet<String> = Metric::ALL.iter().map(|metric| metric.name()).collect();
    let line = metrics::embedded(&Report::default(), "annals-t", Duration::from_hours(168), Timestamp::MIN);
    let compactors = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap();
    let written: BTreeSet<String> =
        compactors.iter().map(|metric| metric["Name"].as_str().unwrap().to_owned()).chain(own).collect();

    let resources = TEMPLATE["Resources"].as_object().unwrap().values();
    let alarms = resources.filter(|of| of["Type"] == "AWS::CloudWatch::Alarm").map(|of| &of["Properties"]);
    let plain = alarms.clone().filter(|of| of["Namespace"] == NAMESPACE).map(|of| &of["MetricName"]);
    let computed = alarms.flat_map(|of| of["Metrics"].as_array().into_iter().flatten());
    let computed = computed.map(|of| &of["MetricStat"]["Metric"]);
    let computed = computed.filter(|of| of["Namespace"] == NAMESPACE).map(|of| &of["MetricName"]);
    let watched: BTreeSet<String> =
        plain.chain(computed).map(|name| name.as_str().unwrap().to_owned()).collect();
    assert!(watched.len() > 3 && watched.is_subset(&written), "{watched:?}");

    let body = properties("Dashboard")["DashboardBody"]["Fn::Sub"][0].as_str().unwrap();
    // Its placeholders are in texts.
    let dashboard: Value = serde_json::from_str(body).unwrap();
    let mut shown = BTreeSet::new();
    for metric in dashboard["widgets"].as_array().unwrap().iter().flat_map(|of| {
        let metrics = of["properties"]["metrics"].as_array().unwrap();
        assert_eq!(of["properties"]["region"], "${AWS::Region}");
        let is_own = metrics[0][0] == NAMESPACE;
        metrics.iter().filter(move |metric| match metric[0].as_str() {
            Some("." | "...") => is_own,
            Some(namespace) => namespace == NAMESPACE,
            None => metric[0]["expression"].as_str().unwrap().contains("{Annals,"),
        })
    }) {
        if let Some(search) = metric[0]["expression"].as_str() {
            let (_, name) = search.split_once("MetricName=\"").unwrap();
            shown.insert(name.split('"').next().unwrap().to_owned());
        } else if metric[0] != "..." {
            shown.insert(metric[1].as_str().unwrap().to_owned());
        }
    }
    // What each run of the compactor says in seconds is in `GraceUsed` already.
    let unseen = BTreeSet::from(["OldestOverdue".to_owned()]);
    assert_eq!(shown, written.difference(&unseen).cloned().collect());
}

#[test]
fn the_table_deletes_by_its_records_dates_and_has_the_index() {
    let table = properties("Table");
    assert_eq!(table["TimeToLiveSpecification"], json!({"AttributeName": "expiresAt", "Enabled": true}));
    let index = json!([{
        "IndexName": INDEX,
        "KeySchema": [
            {"AttributeName": DUE_SHARD, "KeyType": "HASH"},
            {"AttributeName": DUE_AT, "KeyType": "RANGE"},
        ],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }]);
    assert_eq!(table["GlobalSecondaryIndexes"], index);
    for (name, of) in [(DUE_SHARD, "S"), (DUE_AT, "N")] {
        let attributes = table["AttributeDefinitions"].as_array().unwrap();
        assert!(attributes.contains(&json!({"AttributeName": name, "AttributeType": of})), "{name}");
    }
}

/// With JSON logs, Lambda drops lines whose level is below one of its own, which is INFO where none is set:
/// <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html>
#[test]
fn only_rust_log_sets_the_log_level() {
    for function in functions() {
        let logging = &properties(function)["LoggingConfig"];
        assert_eq!([&logging["LogFormat"], &logging["ApplicationLogLevel"]], ["JSON", "TRACE"]);
    }
    let variables = &TEMPLATE["Globals"]["Function"]["Environment"]["Variables"];
    assert_eq!(variables["RUST_LOG"], json!({"Ref": "LogLevel"}));
}

/// The engineer on call copies these lines.
#[test]
fn the_runbook_asks_the_stack_for_outputs_that_it_has() {
    const RUNBOOK: &str = include_str!("../../docs/operations.md");
    let named = |before: &'static str, behind: char| {
        RUNBOOK.split(before).skip(1).filter_map(move |rest| rest.split(behind).next())
    };
    let asked: BTreeSet<&str> =
        named("$(output ", ')').chain(named("OutputKey=='", '\'')).filter(|name| *name != "$1").collect();
    assert!(asked.len() > 3, "{asked:?}");
    for output in asked {
        assert!(TEMPLATE["Outputs"].get(output).is_some(), "{output}");
    }
}

/// A stack that was built for one architecture and deployed as another does not start, and one that is deployed with
/// another file's parameters is another bot.
#[test]
fn builds_and_deployments_go_by_one_file() {
    for page in [include_str!("../../README.md"), include_str!("../../docs/operations.md")] {
        let file = |command: &str| -> Vec<&str> {
            let of = |line: &'static str| line.split("--config-file ").nth(1)?.split_whitespace().next();
            let lines = page.lines().flat_map(|line| line.split(" && "));
            let lines = lines.filter(|line| line.starts_with(command));
            lines.map(|line| of(line).unwrap_or_else(|| panic!("no --config-file in {line}"))).collect()
        };
        let (built, deployed) = (file("sam build"), file("sam deploy"));
        assert!(!built.is_empty(), "a page says how to build");
        assert_eq!(built, deployed);
    }
}

/// No gateway is in front of it, and each stream holds a call for minutes.
#[test]
fn the_address_that_streams_has_a_bound_of_its_own() {
    let bound = &properties("HttpStreaming")["ReservedConcurrentExecutions"]["Fn::If"];
    assert_eq!(bound[0], "HasStreamingConcurrency");
    assert_eq!(bound[1], json!({"Ref": "StreamingConcurrency"}));
    let api = &properties("Api")["DefaultRouteSettings"];
    assert_eq!(api["ThrottlingRateLimit"], json!({"Ref": "ApiRateLimit"}));
    assert_eq!(api["ThrottlingBurstLimit"], json!({"Ref": "ApiBurstLimit"}));
}

/// `permissions::check` compares the role of each function with its program. Any other role would be unguarded.
#[test]
fn each_role_is_a_functions() {
    let resources = TEMPLATE["Resources"].as_object().unwrap().iter();
    let roles = resources.filter(|(_, of)| of["Type"] == "AWS::IAM::Role").map(|(name, _)| name.as_str());
    let of_functions = functions().map(|name| properties(name)["Role"]["Fn::GetAtt"][0].as_str().unwrap());
    assert_eq!(roles.collect::<BTreeSet<_>>(), of_functions.collect());
}

/// That test compares the role with the program.
#[test]
fn each_function_has_a_test_of_its_permissions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../functions");
    for function in functions() {
        let build = &TEMPLATE["Resources"][function]["Metadata"]["BuildProperties"];
        let path = folder.join(build["Binary"].as_str().unwrap()).join("tests/permissions.rs");
        let test = std::fs::read_to_string(&path);
        let test = test.unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        let check = format!("permissions!(\"{function}\"");
        assert!(test.contains(&check), "{} does not check {function}", path.display());
    }
}

/// Nothing that holds a history goes with its stack, or lies open.
#[test]
fn a_history_outlives_its_stack() {
    // A first deployment that fails leaves nothing but the table, whose protection would make its rollback fail.
    for name in ["Table", "Bucket", "BucketPolicy", "DeadLetters"] {
        let policy = if name == "Table" { "Retain" } else { "RetainExceptOnCreate" };
        let resource = &TEMPLATE["Resources"][name];
        let policies = [&resource["DeletionPolicy"], &resource["UpdateReplacePolicy"]];
        assert_eq!(policies, [policy, "Retain"], "{name}");
    }
    let table = properties("Table");
    assert_eq!(table["DeletionProtectionEnabled"], true);
    assert_eq!(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true);
    assert_eq!(table["SSESpecification"]["SSEEnabled"], true);
    let bucket = properties("Bucket");
    let public = bucket["PublicAccessBlockConfiguration"].as_object().unwrap();
    assert!(public.len() == 4 && public.values().all(|blocked| *blocked == true), "{public:?}");
    assert_eq!(bucket["VersioningConfiguration"]["Status"], "Enabled");
    // What is read at any time is in no class that must be thawed, and what is current is never deleted.
    for rule in bucket["LifecycleConfiguration"]["Rules"].as_array().unwrap() {
        assert!(rule.get("ExpirationInDays").or(rule.get("ExpirationDate")).is_none(), "{rule}");
        for transition in rule["Transitions"].as_array().into_iter().flatten() {
            assert_eq!(transition["StorageClass"], "INTELLIGENT_TIERING", "{rule}");
        }
    }
}

#[test]
fn a_function_lives_as_long_as_its_code_counts_on() {
    let secs = &TEMPLATE["Mappings"]["Agent"]["Secs"];
    let lease = annals_agent::LEASE.as_secs();
    assert_eq!(properties("Agent")["Timeout"], json!({"Fn::FindInMap": ["Agent", "Secs", "Timeout"]}));
    assert_eq!(secs["Timeout"], lease, "after it no run is alive");
    // It has runs too.
    assert_eq!(properties("HttpStreaming")["Timeout"], properties("Agent")["Timeout"]);
    let visibility = json!({"Fn::FindInMap": ["Agent", "Secs", "Visibility"]});
    assert_eq!(properties("Queue")["VisibilityTimeout"], visibility);
    assert_eq!(secs["Visibility"], lease + 60);

    let timeout = properties("Compactor")["Timeout"].as_u64().unwrap();
    // The last visit that is taken up may take all its time, and there is time for others before it.
    assert!(timeout > (2 * PATIENCE + MARGIN).as_secs(), "{timeout}");
    assert!(timeout < 15 * 60, "so runs do not pile up");
}
