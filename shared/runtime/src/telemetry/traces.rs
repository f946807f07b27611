//! Spans of an invocation for an OpenTelemetry collector: `OTEL_EXPORTER_OTLP_ENDPOINT` turns them on.
//!
//! ```text
//! POST <endpoint>/v1/traces
//! {"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "annals-Agent"}}]},
//!   "scopeSpans": [{"scope": {"name": "annals"}, "spans": [{"traceId": "5759e988bd862e3fe1be46a994272793",
//!     "spanId": "…", "parentSpanId": "53995c3f42cd8ad8", "name": "model", "kind": 1, "startTimeUnixNano": "…",
//!     "endTimeUnixNano": "…", "status": {}, "attributes": [{"key": "session", "value": {"stringValue": "telegram-…"}}]}]}]}]}
//! ```
//!
//! If the invocation is in a trace of X-Ray, that trace's id is used, so that both can be viewed together. A span has
//! its name and times, the request's id and the chat's session, and an error status if an error was logged in it. A
//! request of a model and a call of a tool have the names and attributes of the conventions for generative AI: `chat
//! gpt-4.1-mini` with its tokens, `execute_tool search`. The other steps of a turn are `queue`, `context` (reading),
//! `compact`, `deliver` and in it `piece`. No other field is sent: neither prompts nor answers.
//!
//! Source: <https://opentelemetry.io/docs/specs/otlp/#otlphttp>, in its JSON encoding, and
//! <https://github.com/open-telemetry/semantic-conventions/blob/v1.37.0/docs/gen-ai/gen-ai-spans.md>.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use annals_core::settings::{ConfigError, Env};
use annals_io::clock::Clock;
use annals_io::connection::Connection;
use annals_io::{random, tls};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

pub(super) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
pub(super) const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// Time that an invocation waits for the collector.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Fields that are sent, also with the spans inside.
const FIELDS: [&str; 2] = ["requestId", "session"];
/// Fields that are sent with their own span: attributes of the conventions for generative AI.
const GEN_AI: [&str; 7] = [
    OPERATION,
    "gen_ai.provider.name",
    MODEL,
    TOOL,
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "error.type",
];
const OPERATION: &str = "gen_ai.operation.name";
const MODEL: &str = "gen_ai.request.model";
const TOOL: &str = "gen_ai.tool.name";
/// Field with the duration, in milliseconds, of a span that is over when it is made: the time in the queue.
const EARLIER: &str = "earlierMs";
/// Kinds of spans: within a process, and of a request to another service.
const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;
/// Maximum number of spans that are kept for the next flush.
const MAX_SPANS: usize = 2_000;

/// Destination of spans. Clones share it; the default sends nothing.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<Exporter>>);

struct Exporter {
    url: String,
    service: String,
    headers: OnceLock<HeaderMap>,
    http: Connection,
    ended: Mutex<Vec<Value>>,
}

/// Layer that records spans.
pub(super) struct Spans {
    exporter: Arc<Exporter>,
    clock: Clock,
}

/// A span that has begun. A span that is not sent is represented by its parent.
struct Open {
    trace: String,
    id: String,
    parent: Option<String>,
    started: (u128, Instant),
    /// Duration before `started`, of a span that is made when it is over.
    earlier: Duration,
    fields: Vec<(&'static str, Value)>,
    is_error: bool,
}

impl Open {
    fn field(&self, name: &str) -> Option<&Value> {
        self.fields.iter().rfind(|(field, _)| *field == name).map(|(_, value)| value)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.field(name)?["stringValue"].as_str()
    }

    /// Returns the fields that the spans inside have, too.
    fn inherited(&self) -> Vec<(&'static str, Value)> {
        self.fields.iter().filter(|(name, _)| FIELDS.contains(name)).cloned().collect()
    }
}

impl Traces {
    /// Reads the environment. `OTEL_SERVICE_NAME` defaults to the name of the function.
    pub(super) fn of(env: Env<'_>) -> Self {
        Self(env.optional(ENDPOINT).map(|endpoint| {
            let service = ["OTEL_SERVICE_NAME", "AWS_LAMBDA_FUNCTION_NAME"];
            let service = service.into_iter().find_map(|name| env.optional(name));
            Arc::new(Exporter {
                url: format!("{}/v1/traces", endpoint.trim_end_matches('/')),
                service: service.unwrap_or_else(|| "annals".into()),
                headers: OnceLock::new(),
                http: Connection::new(|| tls::client().timeout(TIMEOUT).build()),
                ended: Mutex::default(),
            })
        }))
    }

    /// Sets the headers for the collector, such as a key: `OTEL_EXPORTER_OTLP_HEADERS`, comma-separated `name=value`.
    pub fn authorized(self, env: Env<'_>) -> Result<Self, ConfigError> {
        if let Some(exporter) = &self.0 {
            let given = env.optional(HEADERS).unwrap_or_default();
            let pairs = given.split(',').map(str::trim).filter(|pair| !pair.is_empty());
            let headers = pairs.map(|pair| {
                let (name, value) = pair.split_once('=')?;
                let mut value = HeaderValue::try_from(value.trim()).ok()?;
                value.set_sensitive(true);
                Some((HeaderName::try_from(name.trim()).ok()?, value))
            });
            let headers = headers.collect::<Option<HeaderMap>>();
            let headers =
                headers.ok_or_else(|| ConfigError::new(HEADERS, "must be comma-separated name=value"))?;
            // Set once, at the start.
            exporter.headers.get_or_init(|| headers);
        }
        Ok(self)
    }

    /// Returns the layer that records spans, if they are sent anywhere.
    pub(super) fn spans(&self) -> Option<Spans> {
        let exporter = self.0.clone()?;
        Some(Spans { exporter, clock: Clock::system() })
    }

    /// Sends the spans that have ended, before the process is frozen. If the collector fails, they are lost, and a line
    /// is logged.
    pub async fn flush(&self) {
        let Some(exporter) = &self.0 else { return };
        let spans = std::mem::take(&mut *exporter.ended());
        if !spans.is_empty()
            && let Err(error) = exporter.send(spans).await
        {
            tracing::warn!(error = %error.without_url(), "failed to send spans to the collector; they are lost");
        }
    }
}

impl Exporter {
    fn ended(&self) -> std::sync::MutexGuard<'_, Vec<Value>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, spans: Vec<Value>) -> reqwest::Result<()> {
        let resource = json!({"attributes": [attribute("service.name", &self.service)]});
        let scope = json!({"scope": {"name": "annals"}, "spans": spans});
        let body = json!({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]});
        let headers = self.headers.get().cloned().unwrap_or_default();
        self.http.client()?.post(&self.url).headers(headers).json(&body).send().await?.error_for_status()?;
        Ok(())
    }
}

impl Spans {
    /// Returns true for spans and events of this program, and for the runtime's span that names the invocation.
    pub(super) fn wants(metadata: &Metadata<'_>) -> bool {
        if metadata.is_span() {
            is_ours(metadata) || metadata.target() == super::INVOCATION_TARGET
        } else {
            *metadata.level() == Level::ERROR
        }
    }
}

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut seen = SpanFields::default();
        attributes.record(&mut seen);
        let inherited = span.parent().and_then(|parent| {
            parent
                .extensions()
                .get::<Open>()
                .map(|open| (open.trace.clone(), Some(open.id.clone()), open.inherited()))
        });
        let (trace, parent, mut fields) = inherited.unwrap_or_else(|| {
            let (trace, parent) = seen.x_ray.unwrap_or_else(|| (random::hex::<16>(), None));
            (trace, parent, Vec::new())
        });
        fields.extend(seen.fields);
        let id =
            if is_ours(span.metadata()) { random::hex::<8>() } else { parent.clone().unwrap_or_default() };
        let now = Duration::from_millis(self.clock.now().as_millis().unsigned_abs()).as_nanos();
        let started = (now, Instant::now());
        span.extensions_mut().insert(Open {
            trace,
            id,
            parent,
            started,
            earlier: seen.earlier,
            fields,
            is_error: false,
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            let mut seen = SpanFields::default();
            values.record(&mut seen);
            open.fields.extend(seen.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if let Some(span) = context.event_span(event)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            open.is_error = true;
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id).filter(|span| is_ours(span.metadata())) else { return };
        let Some(ended) = ended(&span) else { return };
        let mut spans = self.exporter.ended();
        if spans.len() < MAX_SPANS {
            spans.push(ended);
        }
    }
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("annals")
}

/// Returns the span in the format of the collector.
fn ended<'a, R: LookupSpan<'a>>(span: &SpanRef<'a, R>) -> Option<Value> {
    let extensions = span.extensions();
    let open = extensions.get::<Open>()?;
    let (began, instant) = open.started;
    let names = FIELDS.iter().chain(&GEN_AI);
    let attributes: Vec<Value> =
        names.filter_map(|name| open.field(name).map(|value| json!({"key": name, "value": value}))).collect();
    // As the conventions name them.
    let of = open.text(MODEL).or_else(|| open.text(TOOL));
    let name = open.text(OPERATION).zip(of).map(|(operation, of)| format!("{operation} {of}"));
    let mut ended = json!({
        "traceId": open.trace,
        "spanId": open.id,
        "name": name.as_deref().unwrap_or(span.name()),
        "kind": if open.text(MODEL).is_some() { CLIENT } else { INTERNAL },
        "startTimeUnixNano": began.saturating_sub(open.earlier.as_nanos()).to_string(),
        "endTimeUnixNano": (began + instant.elapsed().as_nanos()).to_string(),
        "attributes": attributes,
        "status": if open.is_error { json!({"code": 2}) } else { json!({}) },
    });
    if let Some(parent) = open.parent.as_ref().filter(|parent| !parent.is_empty()) {
        ended["parentSpanId"] = json!(parent);
    }
    Some(ended)
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Fields of a span that are sent.
#[derive(Default)]
struct SpanFields {
    fields: Vec<(&'static str, Value)>,
    earlier: Duration,
    x_ray: Option<(String, Option<String>)>,
}

/// Returns the name of `field` if it is sent.
fn sent(field: &Field) -> Option<&'static str> {
    FIELDS.into_iter().chain(GEN_AI).find(|name| *name == field.name())
}

impl Visit for SpanFields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if let Some(name) = sent(field) {
            self.fields.push((name, json!({"intValue": value.to_string()})));
        }
        if field.name() == EARLIER {
            self.earlier = Duration::from_millis(value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(name) = sent(field) {
            self.fields.push((name, json!({"stringValue": value})));
        }
        if field.name() == "xrayTraceId" {
            self.x_ray = x_ray(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if sent(field).is_some() {
            self.record_str(field, &format!("{value:?}"));
        }
    }
}

/// Parses the ids of trace and span from `Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1`.
/// <https://docs.aws.amazon.com/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader>
fn x_ray(header: &str) -> Option<(String, Option<String>)> {
    let part =
        |name: &str| header.split(';').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
    let is_id =
        |id: &str, length: usize| id.len() == length && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let trace: String = part("Root")?.strip_prefix("1-")?.split('-').collect();
    let parent = part("Parent").filter(|parent| is_id(parent, 16)).map(str::to_owned);
    is_id(&trace, 32).then_some((trace, parent))
}

#[cfg(test)]
mod tests;
