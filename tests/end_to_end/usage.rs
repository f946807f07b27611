//! Tokens and money: `/usage`, and `GET /v1/usage`.

use std::time::Duration;

use annals_engine::usage::start_of_day;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, OPS_KEY, TestApp};
use crate::turns::assert_has;
use crate::updates::{START, group, private};

const PRICES: &str = "openai:test=2/8/0.5";

async fn usage(app: &TestApp, query: &str) -> Value {
    let answer = app.call(Method::GET, &format!("/v1/usage?{query}"), OPS_KEY).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// Returns the rows, as name, replies and if they cost something.
fn rows(usage: &Value) -> Vec<(Option<String>, u64, bool)> {
    let row = |row: &Value| {
        let name = row["name"].as_str().map(str::to_owned);
        (name, row["replies"].as_u64().unwrap(), row["cost"].as_f64().is_some_and(|cost| cost > 0.0))
    };
    usage["rows"].as_array().unwrap().iter().map(row).collect()
}

fn named(name: &str, replies: u64) -> (Option<String>, u64, bool) {
    (Some(name.to_owned()), replies, true)
}

async fn priced() -> TestApp {
    TestApp::builder().set("MODEL_PRICES", PRICES).telegram().model().start().await
}

#[tokio::test]
async fn usage_is_summed_by_chat_person_key_model_and_day() {
    let app = priced().await;
    app.handle(private(42, 1, "hello")).await;
    app.handle(private(42, 2, "hello again")).await;
    app.say("c1", &json!({"userId": "ada", "text": "hello"})).await;
    app.idle().await;
    let now = app.clock().now();
    let day = now.rfc3339()[..10].to_owned();
    let by = async |by: &str| rows(&usage(&app, &format!("by={by}")).await);
    assert_eq!(by("chat").await, [named("http:chat:app:c1", 1), named("telegram:chat:42", 2)]);
    assert_eq!(by("person").await, [named("app/ada", 1), named("telegram-42", 2)]);
    assert_eq!(by("key").await, [(None, 2, true), named("app", 1)]);
    assert_eq!(by("model").await, [named("openai:test", 3)]);
    assert_eq!(by("day").await, [named(&day, 3)]);

    // The sums are those of the replies.
    let mut wanted = (0, 0, 0.0);
    for chat in ["telegram:chat:42", "http:chat:app:c1"] {
        for message in app.history(chat).await {
            let used = &message["metadata"]["usage"];
            let tokens = |name: &str| used[name].as_u64().unwrap_or_default();
            let (input, output, cached) =
                (tokens("inputTokens"), tokens("outputTokens"), tokens("cachedInputTokens"));
            #[allow(clippy::cast_precision_loss, reason = "they are few")]
            let cost = ((input - cached) as f64 * 2.0 + cached as f64 * 0.5 + output as f64 * 8.0) / 1e6;
            wanted = (wanted.0 + input, wanted.1 + output, wanted.2 + cost);
        }
    }
    let total = &usage(&app, "by=model").await["rows"][0];
    assert!(wanted.0 > 0 && wanted.1 > 0);
    assert_eq!((&total["inputTokens"], &total["outputTokens"]), (&json!(wanted.0), &json!(wanted.1)));
    assert!((total["cost"].as_f64().unwrap() - wanted.2).abs() < 1e-6, "{total} {wanted:?}");

    // By range.
    assert_eq!(rows(&usage(&app, &format!("from={day}&to={day}")).await), [named(&day, 3)]);
    assert_eq!(rows(&usage(&app, "to=2026-01-01").await), []);
    let tomorrow = now.plus(Duration::from_hours(24)).as_millis();
    assert_eq!(rows(&usage(&app, &format!("from={tomorrow}&to={}", tomorrow + 1)).await), []);

    // By pages.
    let first = usage(&app, "by=chat&limit=1").await;
    let before = first["before"].as_str().unwrap();
    let second = usage(&app, &format!("by=chat&limit=1&before={before}")).await;
    let mut both = [rows(&first), rows(&second)].concat();
    both.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(both, by("chat").await);
    assert_eq!(second["before"], Value::Null);

    app.call(Method::GET, "/v1/usage", APP_KEY).await.assert_problem(403, "forbidden");
    app.call(Method::GET, "/v1/usage?from=yesterday", OPS_KEY).await.assert_problem(400, "bad-range");
    let csv = app.request(Method::GET, "/v1/usage?by=chat").bearer_auth(OPS_KEY).header("accept", "text/csv");
    let csv = csv.send().await.unwrap().text().await.unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "name,replies,inputTokens,outputTokens,cachedInputTokens,cost,unpricedReplies");
    assert!(lines.len() == 3 && lines[2].starts_with("\"telegram:chat:42\",2,"), "{csv}");
    app.finish().await;
}

/// Tokens stay counted when their records have left the table.
#[tokio::test]
async fn usage_command_tells_of_today_and_of_thirty_days() {
    let app = priced().await;
    app.handle(private(42, 1, "hello")).await;
    app.leave_the_table("telegram:chat:42").await;
    // The next morning, so that no day ends meanwhile.
    let now = app.clock().now();
    let morning = start_of_day(now).plus(Duration::from_hours(25));
    app.clock().advance(morning.since(now));
    let at = morning.as_millis() / 1000 - START;
    app.handle_as_time_passes(private(42, 2, "hello").at(at)).await;
    app.handle_as_time_passes(private(42, 3, "/usage").command().at(at + 1)).await;
    let told = app.last_sent().text;
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(
        lines[0].starts_with("This conversation today: 1 reply, ") && lines[0].contains(", cost 0."),
        "{told}"
    );
    assert!(lines[1].starts_with("In the last 30 days: 2 replies, "), "{told}");
    app.finish().await;
}

#[tokio::test]
async fn in_a_group_people_see_their_own_share_and_without_prices_no_cost() {
    let app = TestApp::builder().set("GROUP_ACTIVATION", "always").telegram().model().start().await;
    // In the morning, so that no day ends meanwhile.
    app.clock().advance(Duration::from_hours(4));
    for (id, user) in [(1, 42), (2, 43)] {
        app.handle_as_time_passes(group(-7, id, "hello").by(user).at(4 * 3600 + id)).await;
    }
    app.handle_as_time_passes(group(-7, 3, "/usage").by(43).command().at(4 * 3600 + 3)).await;
    let told = app.last_sent().text;
    assert_eq!(told.lines().count(), 4, "{told}");
    assert_has(&told, &["This conversation today: 2 replies, ", "Yours today: 1 reply, "]);
    assert!(!told.contains("cost"), "{told}");
    let row = usage(&app, "by=model").await["rows"][0].take();
    assert_eq!((&row["cost"], &row["unpricedReplies"]), (&Value::Null, &json!(2)));
    app.finish().await;
}
