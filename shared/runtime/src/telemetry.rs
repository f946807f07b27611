//! Structured logs, one line each. They name the invocation by its request id and chats by their [session
//! id](annals_core::chat_key::SessionId), and never contain a text or a secret.
//!
//! ```json
//! {"timestamp": "2026-11-22T06:31:40.120Z", "level": "INFO", "message": "message", "outcome": "Stored", "asks": true,
//!  "requestId": "6bc28136-xmpl-4365-b021-0ce6b2e64ab0", "xrayTraceId": "Root=1-5e22…",
//!  "session": "telegram-14b939505d456e7b24cefa3a", "name": "request"}
//! ```
//!
//! The fields of the invocation and of the chat come from the spans around a line: that of the Lambda runtime, of a
//! [request](of_request) and of a [chat](of_chat); `name` is that of the innermost span. So no event names its chat
//! itself.

mod traces;

use std::error::Error;
use std::panic;
use std::process::ExitCode;

use annals_core::settings::{ConfigError, Env, Setting};
use annals_io::environment::process_env;
use annals_io::errors::chain;
use annals_io::random;
pub use annals_io::spans::{about, of_chat};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use json_subscriber::JsonLayer;
pub use traces::Traces;
use traces::{ENDPOINT, HEADERS, Spans};
use tracing::field::Empty;
use tracing::{Instrument, Level};
use tracing_subscriber::filter::{LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry;
use tracing_subscriber::registry::LookupSpan;

/// Settings of logs and traces.
pub const SETTINGS: [Setting; 3] = [
    Setting::optional(
        ENDPOINT,
        "deployed only: the URL of an OpenTelemetry collector that takes OTLP over HTTP, for the spans of each call",
    ),
    Setting::optional(
        HEADERS,
        "deployed only, in a secret; this and `OTEL_SERVICE_NAME` are as OpenTelemetry defines them",
    ),
    Setting::described(
        FILTER,
        "`info` deployed; locally `warn`, and `info` for Annals, on standard error",
        "levels of logs, comma-separated: one for all and others by the start of a target, such as \
         `warn,annals_engine=debug`. An invalid list is ignored, locally with a warning",
    ),
];

/// The setting that selects what is logged, as other programs in Rust name it.
const FILTER: &str = "RUST_LOG";

/// Target of the span with which the Lambda runtime names the request.
const INVOCATION_TARGET: &str = "lambda_runtime::layers::trace";

/// Writes JSON lines to standard output, as CloudWatch reads them. Spans go to the returned [`Traces`]. `RUST_LOG`
/// selects what is logged.
pub fn init_json() -> Traces {
    let traces = Traces::of(Env::new(&process_env));
    let lines = json_lines(std::io::stdout).with_filter(with_invocation(filter("info")));
    let spans = traces.spans().map(|spans| spans.with_filter(filter_fn(Spans::wants)));
    // A second call (in tests) keeps the first subscriber.
    drop(registry().with(lines).with(spans).try_init());
    panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        // Without the message, which may quote a text.
        tracing::error!(location, "the code panicked");
    }));
    traces
}

/// Writes lines for people to standard error; if `silent`, only those that `RUST_LOG` selects.
pub fn init_terminal(silent: bool, colours: bool) {
    // The embedded DynamoDB engine warns of each failed condition, which is the normal way of finding a duplicate; the
    // SDK warns of errors that are handled elsewhere.
    let filter = filter(if silent { "off" } else { "warn,annals=info,dynoxide=error,aws_config=error" });
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    drop(registry().with(lines.with_target(false).with_filter(filter)).try_init());
    if selected().is_some_and(|levels| without_quotes(&levels).is_none()) {
        tracing::warn!("{FILTER} is not a list of levels such as warn,annals_engine=debug; it is ignored");
    }
}

/// Header with the id of a request, in the response, in its problem and in its log lines. The caller's id is used if it
/// is valid.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of a caller's id, in bytes.
const MAX_REQUEST_ID_BYTES: usize = 128;

tokio::task_local! {
    static CURRENT_REQUEST: HeaderValue;
}

/// Layer of a router: runs a request in a span with its id, to which [`about`] adds the chat.
pub async fn of_request(request: Request, next: Next) -> Response {
    let id = id_of(&request);
    let span = tracing::error_span!("request", xRequestId = id.to_str().unwrap_or_default(), session = Empty);
    identified(id, request, next).instrument(span).await
}

/// Layer around such routers, for responses that are made outside them; they use the same id.
pub async fn with_request_id(mut request: Request, next: Next) -> Response {
    let id = id_of(&request);
    request.headers_mut().insert(REQUEST_ID, id.clone());
    identified(id, request, next).await
}

async fn identified(id: HeaderValue, request: Request, next: Next) -> Response {
    let mut response = CURRENT_REQUEST.scope(id.clone(), next.run(request)).await;
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Returns the id of the current request, if there is one.
pub fn request_id() -> Option<String> {
    CURRENT_REQUEST.try_with(|id| id.to_str().unwrap_or_default().to_owned()).ok()
}

/// Returns true if a caller's id may be logged and returned: an opaque name, not a text.
fn is_fit(id: &HeaderValue) -> bool {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:=/+".contains(b);
    (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()) && id.as_bytes().iter().all(is_part)
}

/// Returns the caller's id of `request` if it is valid, or else a new one.
fn id_of(request: &Request) -> HeaderValue {
    request.headers().get(REQUEST_ID).filter(|id| is_fit(id)).cloned().unwrap_or_else(|| {
        let id = format!("req_{}", random::hex::<12>());
        HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("req_"))
    })
}

/// Logs how the process of a function ended: one line with the reason why it did not start or go on.
pub fn ended(result: Result<(), Box<dyn Error + Send + Sync>>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if let Some(ConfigError { variable, problem }) = error.downcast_ref() {
        tracing::error!(variable, problem, "the function cannot start: {variable} {problem}");
    } else {
        tracing::error!(error = %chain(&*error), "the function has stopped");
    }
    ExitCode::FAILURE
}

/// Builds the layer that writes the fields of an event and of its spans side by side.
fn json_lines<S, W>(writer: W) -> JsonLayer<S, W>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + 'static,
{
    let mut lines = JsonLayer::new(writer);
    lines.with_timer("timestamp", SystemTime).with_level("level");
    lines.with_flattened_event().with_top_level_flattened_span_list();
    lines
}

/// Adds the span that names the request to `filter`, whatever it leaves out.
fn with_invocation(filter: Targets) -> Targets {
    filter.with_target(INVOCATION_TARGET, LevelFilter::INFO)
}

/// Returns `RUST_LOG`, if it is set.
fn selected() -> Option<String> {
    process_env(FILTER).filter(|value| !value.trim().is_empty())
}

fn filter(default: &str) -> Targets {
    selected()
        .and_then(|levels| without_quotes(&levels))
        .or_else(|| without_quotes(default))
        .unwrap_or_default()
}

/// Parses a list of levels. Turns off what quotes messages, unless `levels` name it: `rmcp` those of servers, below
/// `info` the SDK all that it reads and writes, and below `debug` the Lambda runtime whole requests. Returns `None` if
/// the list is invalid.
fn without_quotes(levels: &str) -> Option<Targets> {
    let filter: Targets = levels.parse().ok()?;
    // Of each crate the level at which it quotes, and the one above.
    let quoting = [
        ("rmcp", Level::ERROR, LevelFilter::OFF),
        ("aws_smithy_runtime", Level::DEBUG, LevelFilter::INFO),
        ("lambda_runtime", Level::TRACE, LevelFilter::DEBUG),
    ];
    Some(quoting.into_iter().fold(filter, |filter, (name, quotes, bound)| {
        let may_quote = filter.would_enable(name, &quotes) && !levels.contains(name);
        if may_quote { filter.with_target(name, bound) } else { filter }
    }))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use serde_json::Value;

    use super::*;
    use annals_core::chat_key::ChatKey;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        /// Returns each line without its time, which must be present.
        fn lines(&self) -> Vec<Value> {
            let written = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            let line = |line: &str| {
                let mut line: Value = serde_json::from_str(line).unwrap();
                let time = line.as_object_mut().unwrap().remove("timestamp");
                assert!(time.is_some_and(|time| time.is_string()));
                line
            };
            written.lines().map(line).collect()
        }
    }

    /// Collects what is written at this level and above.
    fn subscribed(level: &str) -> (Written, tracing::subscriber::DefaultGuard) {
        let written = Written::default();
        let writer = written.clone();
        let lines = json_lines(move || writer.clone());
        let subscriber = registry().with(lines.with_filter(with_invocation(without_quotes(level).unwrap())));
        (written, tracing::subscriber::set_default(subscriber))
    }

    #[test]
    fn a_line_has_its_fields_its_invocation_and_its_chat() {
        let (written, _guard) = subscribed("warn");
        let chat = ChatKey::telegram(42, None);
        let invocation = tracing::info_span!(
            target: INVOCATION_TARGET, "Lambda runtime invoke",
            requestId = "r-1", xrayTraceId = "Root=1-2"
        );
        invocation.in_scope(|| {
            of_chat(&chat).in_scope(|| {
                tracing::warn!(tries = 2, error = %"\"quoted\"\nline", "no answer");
                tracing::info!("not of this level");
            });
            tracing::error!("of no chat");
        });
        let session = chat.session_id().to_string();
        let expected = serde_json::json!([
            {"level": "WARN", "name": "chat", "message": "no answer", "tries": 2, "error": "\"quoted\"\nline",
             "requestId": "r-1", "xrayTraceId": "Root=1-2", "session": session},
            {"level": "ERROR", "name": "Lambda runtime invoke", "message": "of no chat", "requestId": "r-1", "xrayTraceId": "Root=1-2"},
        ]);
        assert_eq!(Value::from(written.lines()), expected);
    }

    #[test]
    fn messages_of_tool_servers_are_logged_only_if_requested() {
        for (level, lines) in [("info", 1), ("debug", 1), ("info,rmcp=warn", 2)] {
            let (written, _guard) = subscribed(level);
            tracing::warn!(target: "rmcp::service", "quoted");
            tracing::warn!("own");
            assert_eq!(written.lines().len(), lines, "{level}");
        }
    }

    #[test]
    fn whole_requests_are_logged_only_if_requested() {
        for (level, lines) in [("trace", 1), ("warn,annals=trace", 1), ("trace,lambda_runtime=trace", 2)] {
            let (written, _guard) = subscribed(level);
            tracing::trace!(target: "lambda_runtime::layers::api_response", body = "quoted");
            tracing::trace!("own");
            assert_eq!(written.lines().len(), lines, "{level}");
        }
    }

    #[test]
    fn an_invalid_list_of_levels_counts_as_not_set() {
        for levels in ["info", "off", "warn,annals=info,dynoxide=error", " debug , hyper=off"] {
            assert!(without_quotes(levels).is_some(), "{levels}");
        }
        for levels in ["annals=loud", "[span{field=1}]=info=debug"] {
            assert!(without_quotes(levels).is_none(), "{levels}");
        }
    }
}
