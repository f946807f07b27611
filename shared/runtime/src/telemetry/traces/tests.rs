use annals_core::chat_key::ChatKey;
use annals_core::sort_key::Timestamp;
use annals_io::recorder::Recorder;
use annals_test_support::http::serve;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use tokio::sync::mpsc;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry;

use super::*;
use crate::telemetry::{INVOCATION_TARGET, of_chat};

/// Starts a collector that answers with `status`. Returns its requests with the key that they had.
async fn collector(status: StatusCode) -> (Traces, mpsc::UnboundedReceiver<(String, Value)>) {
    let (sent, received) = mpsc::unbounded_channel();
    let take = async move |headers: HeaderMap, body: String| {
        assert_eq!(headers["content-type"], "application/json");
        let key = headers["x-key"].to_str().unwrap().to_owned();
        sent.send((key, serde_json::from_str(&body).unwrap())).unwrap();
        status
    };
    let endpoint = serve(Router::new().route("/v1/traces", post(take))).await + "/";
    let lookup = move |name: &str| match name {
        ENDPOINT => Some(endpoint.clone()),
        HEADERS => Some("X-Key = hunter2, x-other=1".to_owned()),
        "AWS_LAMBDA_FUNCTION_NAME" => Some("annals-Agent".to_owned()),
        _ => None,
    };
    (Traces::of(Env::new(&lookup)).authorized(Env::new(&lookup)).unwrap(), received)
}

fn subscribed(traces: &Traces) -> tracing::subscriber::DefaultGuard {
    let spans = traces.spans().map(|spans| spans.with_filter(filter_fn(Spans::wants)));
    tracing::subscriber::set_default(registry().with(spans))
}

/// Runs an invocation in which one step fails.
fn invocation(x_ray: &str) {
    let invocation = tracing::info_span!(
        target: INVOCATION_TARGET, "Lambda runtime invoke", requestId = "r-1", xrayTraceId = x_ray
    );
    invocation.in_scope(|| {
        of_chat(&ChatKey::telegram(42, None)).in_scope(|| {
            tracing::info_span!("model", text = "a secret plan", tokens = 3).in_scope(|| {
                tracing::info!("a secret plan");
                tracing::error!("a secret plan failed");
            });
            tracing::info_span!(target: "hyper", "somebody else's").in_scope(|| {
                tracing::info_span!("deliver").in_scope(|| {});
            });
        });
    });
}

#[tokio::test]
async fn spans_have_their_session_and_their_trace_but_no_text() {
    let (traces, mut received) = collector(StatusCode::OK).await;
    let guard = subscribed(&traces);
    invocation("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1");
    traces.flush().await;
    // Nothing more is sent.
    traces.flush().await;
    drop(guard);
    let (key, body) = received.recv().await.unwrap();
    assert!(received.try_recv().is_err());
    assert_eq!(key, "hunter2");
    assert!(!body.to_string().contains("secret plan"), "{body}");

    let [resource] = &body["resourceSpans"].as_array().unwrap()[..] else { panic!("{body}") };
    assert_eq!(resource["resource"]["attributes"], json!([attribute("service.name", "annals-Agent")]));
    let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
    let span =
        |name: &str| spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{body}"));
    assert_eq!(spans.len(), 3, "{body}");
    let (chat, model, deliver) = (span("chat"), span("model"), span("deliver"));
    assert_eq!(chat["parentSpanId"], "53995c3f42cd8ad8");
    assert_eq!((&model["parentSpanId"], &deliver["parentSpanId"]), (&chat["spanId"], &chat["spanId"]));
    assert_eq!((&model["status"], &deliver["status"]), (&json!({"code": 2}), &json!({})));
    let session = ChatKey::telegram(42, None).session_id();
    let attributes = json!([attribute("requestId", "r-1"), attribute("session", session.as_str())]);
    for span in spans {
        assert_eq!(span["traceId"], "5759e988bd862e3fe1be46a994272793");
        assert_eq!(span["attributes"], attributes);
        let time = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
        assert!(time("startTimeUnixNano") > 1_600_000_000_000_000_000, "nanoseconds");
    }
}

/// Beside what every span has, and nothing of what is inside or around.
#[tokio::test]
async fn requests_of_models_and_calls_of_tools_follow_the_conventions_for_generative_ai() {
    let (traces, mut received) = collector(StatusCode::OK).await;
    let guard = subscribed(&traces);
    let model = tracing::info_span!(
        "model",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = "openai",
        gen_ai.request.model = "gpt-4.1-mini",
        gen_ai.usage.input_tokens = tracing::field::Empty,
        gen_ai.input.messages = "a secret plan",
    );
    model.record("gen_ai.usage.input_tokens", 12_u32);
    model.in_scope(|| tracing::info_span!("inside").in_scope(|| {}));
    drop(model);
    let clock = Clock::manual(Timestamp::MIN.plus(Duration::from_secs(7)));
    Recorder::new(&clock, 1, None, None).begin_turn(Timestamp::MIN);
    tracing::info_span!("tool", gen_ai.operation.name = "execute_tool", gen_ai.tool.name = "search")
        .in_scope(|| {});
    traces.flush().await;
    drop(guard);
    let (_, body) = received.recv().await.unwrap();
    assert!(!body.to_string().contains("secret plan"), "{body}");
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let span =
        |name: &str| spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{body}"));
    let (chat, tool) = (span("chat gpt-4.1-mini"), span("execute_tool search"));
    assert_eq!((&chat["kind"], &tool["kind"]), (&json!(3), &json!(1)));
    let wanted = json!([
        attribute("gen_ai.operation.name", "chat"),
        attribute("gen_ai.provider.name", "openai"),
        attribute("gen_ai.request.model", "gpt-4.1-mini"),
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "12"}},
    ]);
    assert_eq!(chat["attributes"], wanted);
    assert_eq!(span("inside")["attributes"], json!([]));
    let queue = span("queue");
    let time = |name: &str| queue[name].as_str().unwrap().parse::<u64>().unwrap();
    let millis = (time("endTimeUnixNano") - time("startTimeUnixNano")) / 1_000_000;
    assert!((7000..8000).contains(&millis), "the time before the run: {queue}");
}

#[tokio::test]
async fn a_failing_collector_breaks_nothing_and_is_not_retried() {
    let (traces, mut received) = collector(StatusCode::SERVICE_UNAVAILABLE).await;
    let _guard = subscribed(&traces);
    invocation("not a trace");
    traces.flush().await;
    traces.flush().await;
    let (_, body) = received.recv().await.unwrap();
    assert!(received.try_recv().is_err());
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let trace = spans[0]["traceId"].as_str().unwrap();
    assert!(trace.len() == 32 && spans.iter().all(|span| span["traceId"] == trace), "{body}");
    let without_parent = spans.iter().filter(|span| span.get("parentSpanId").is_none());
    assert_eq!(without_parent.count(), 1, "the first");
}

#[test]
fn without_an_endpoint_nothing_is_recorded_and_an_invalid_header_is_refused() {
    assert!(Traces::of(Env::new(&|_| None)).spans().is_none());
    let lookup = |name: &str| Some(if name == HEADERS { "hunter2" } else { "http://127.0.0.1:9" }.to_owned());
    let error = Traces::of(Env::new(&lookup)).authorized(Env::new(&lookup)).err().unwrap().to_string();
    assert_eq!(error, "OTEL_EXPORTER_OTLP_HEADERS must be comma-separated name=value");
}

#[test]
fn the_trace_of_x_ray_is_read() {
    let root = "Root=1-5759e988-bd862e3fe1be46a994272793";
    let trace = || "5759e988bd862e3fe1be46a994272793".to_owned();
    assert_eq!(x_ray(root), Some((trace(), None)));
    let parent = Some("53995c3f42cd8ad8".to_owned());
    assert_eq!(
        x_ray(&format!("Sampled=0; {root};Parent=53995c3f42cd8ad8;Lineage=1")),
        Some((trace(), parent))
    );
    assert_eq!(x_ray(&format!("{root};Parent=53995c3f42cd8adg")), Some((trace(), None)));
    for other in ["", "Root=2-x", "Root=1-5759e988", "Root=1-5759e988-bd862e3fe1be46a99427279g"] {
        assert_eq!(x_ray(other), None, "{other}");
    }
}
