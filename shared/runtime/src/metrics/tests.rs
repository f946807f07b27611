use annals_core::record::Channel;
use annals_core::sort_key::Timestamp;
use annals_io::metrics::Metric;
use annals_test_support::http::serve;
use axum::routing::get;
use serde_json::json;

use super::*;

const NOW: i64 = 1_795_305_600_000;

fn now() -> Timestamp {
    Timestamp::from_millis(NOW).unwrap()
}

#[test]
fn counts_of_a_table_and_of_a_channel_have_lines_of_their_own() {
    let metrics = Metrics::collected();
    let beside = metrics.clone();
    metrics.count(Metric::Messages, Channel::Telegram);
    beside.count(Metric::Messages, Channel::Telegram);
    metrics.count(Metric::Duplicates, Channel::Http);
    metrics.add(Metric::Turns, 1);
    beside.add(Metric::Turns, 2);
    for latency in [812, 1430] {
        metrics.add(Metric::ModelLatency, latency);
    }
    let directive = |dimensions: Value, metrics: Value| {
        let directive = json!({"Namespace": "Annals", "Dimensions": dimensions, "Metrics": metrics});
        json!({"Timestamp": NOW, "CloudWatchMetrics": [directive]})
    };
    let by_channel = json!([["Table"], ["Table", "Channel"]]);
    let counted = |name: &str| json!([{"Name": name, "Unit": "Count"}]);
    let of_table =
        json!([{"Name": "Turns", "Unit": "Count"}, {"Name": "ModelLatency", "Unit": "Milliseconds"}]);
    let expected = [
        json!({"_aws": directive(json!([["Table"]]), of_table), "Table": "t", "Turns": 3, "ModelLatency": [812, 1430]}),
        json!({"_aws": directive(by_channel.clone(), counted("Messages")), "Table": "t", "Channel": "telegram", "Messages": 2}),
        json!({"_aws": directive(by_channel, counted("Duplicates")), "Table": "t", "Channel": "http", "Duplicates": 1}),
    ];
    assert_eq!(metrics.take("t", now()), expected);
    assert_eq!(beside.take("t", now()), Vec::<Value>::new(), "each is reported once");
}

#[test]
fn no_line_has_more_values_than_cloudwatch_accepts() {
    let metrics = Metrics::collected();
    (0..250).for_each(|tokens| metrics.add(Metric::InputTokens, tokens));
    metrics.add(Metric::Turns, 1);
    let lines = metrics.take("t", now());
    let values = |line: &Value| line["InputTokens"].as_array().unwrap().len();
    assert_eq!(lines.iter().map(values).collect::<Vec<_>>(), [100, 100, 50]);
    let turns: Vec<_> = lines.iter().filter_map(|line| line.get("Turns")).collect();
    assert_eq!(turns, [1], "counted once");
}

#[test]
fn default_metrics_report_nothing() {
    let metrics = Metrics::default();
    metrics.add(Metric::Turns, 1);
    metrics.count(Metric::Messages, Channel::Lark);
    assert!(metrics.take("t", now()).is_empty());
}

#[test]
fn each_metric_has_its_own_name() {
    let names: std::collections::BTreeSet<String> = Metric::ALL.iter().map(|metric| metric.name()).collect();
    assert_eq!(names.len(), Metric::ALL.len());
    assert_eq!(Metric::TurnsGivenUp.name(), "TurnsGivenUp");
}

thread_local! {
    static WRITTEN: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn reporter() -> Reporter {
    Reporter {
        metrics: Metrics::collected(),
        table: "t".into(),
        clock: Clock::manual(now()),
        traces: Traces::default(),
        write: |lines| WRITTEN.with_borrow_mut(|written| written.push(lines.to_owned())),
    }
}

/// Returns the number of turns in each report.
fn reported() -> Vec<u64> {
    let turns = |lines: String| {
        let mut parsed = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let turns = parsed.next().unwrap()["Turns"].as_u64().unwrap();
        assert!(parsed.next().is_none() && lines.ends_with('\n'));
        turns
    };
    WRITTEN.take().into_iter().map(turns).collect()
}

#[tokio::test]
async fn an_invocation_reports_at_its_end_even_if_it_fails_or_runs_concurrently() {
    let reporter = reporter();
    let run = async |result: Result<(), ()>| {
        let _invocation = reporter.invocation();
        reporter.metrics.add(Metric::Turns, 1);
        tokio::task::yield_now().await;
        result
    };
    run(Ok(())).await.unwrap();
    run(Err(())).await.unwrap_err();
    assert_eq!(reported(), [1, 1]);

    drop(reporter.invocation());
    assert!(WRITTEN.take().is_empty(), "nothing was counted");

    let (first, second) = futures::join!(run(Ok(())), run(Err(())));
    assert!(first.is_ok() && second.is_err());
    assert_eq!(reported().iter().sum::<u64>(), 2, "each is counted, and once");

    let metrics = reporter.metrics.clone();
    let invocation = reporter.invocation();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _invocation = invocation;
        metrics.add(Metric::Turns, 1);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(reported(), [1]);
}

#[tokio::test]
async fn a_request_is_an_invocation() {
    let reporter = reporter();
    let metrics = reporter.metrics.clone();
    let router = Router::new().route("/", get(async move || metrics.add(Metric::Turns, 1)));
    // On this thread, whose reports are collected.
    let url = serve(reporter.of_router(router)).await;
    let client = annals_io::tls::loopback_client().build().unwrap();
    for _ in 0..2 {
        client.get(&url).send().await.unwrap();
    }
    assert_eq!(reported(), [1, 1]);
}
