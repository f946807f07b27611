//! The HTTP client of a connection: [`Http`], which is rmcp's, and reads in a server's answers what rmcp leaves out.
//!
//! - An error without an id, by which servers refuse a request that they could not assign to a session, is the answer to the
//!   request: rmcp would wait for another one.
//! - `notifications/tools/list_changed` is noted before the answer that follows it is passed on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use serde_json::Value;
use sse_stream::Sse;

pub(super) type Failure = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// The HTTP client of one connection.
#[derive(Clone)]
pub(super) struct Http {
    pub(super) client: reqwest::Client,
    /// True once the server has said that its tools have changed.
    pub(super) has_changed: Arc<AtomicBool>,
}

impl StreamableHttpClient for Http {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        use StreamableHttpPostResponse::{Json, Sse};
        let id = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        Ok(match self.client.post_message(uri, message, session, token, headers).await? {
            Json(JsonRpcMessage::Error(mut error), session) => {
                error.id = id.or(error.id);
                Json(JsonRpcMessage::Error(error), session)
            }
            Sse(events, session) => Sse(read(events, id, &self.has_changed), session),
            answer => answer,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        self.client.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Failure> {
        let events = self.client.get_stream(uri, session, last_event, token, headers).await?;
        Ok(read(events, None, &self.has_changed))
    }
}

/// Reads a stream of messages; `id` is that of the request that it answers.
fn read(events: Events, id: Option<RequestId>, has_changed: &Arc<AtomicBool>) -> Events {
    let has_changed = has_changed.clone();
    let id = id.and_then(|id| serde_json::to_value(id).ok());
    let read = move |data: String| {
        let Ok(mut message) = serde_json::from_str::<Value>(&data) else { return data };
        if message["method"] == "notifications/tools/list_changed" {
            has_changed.store(true, Ordering::Release);
        }
        if let Some(id) = id.as_ref().filter(|_| message["error"].is_object()) {
            message["id"] = id.clone();
            return message.to_string();
        }
        data
    };
    events.map(move |event| event.map(|sse| Sse { data: sse.data.map(&read), ..sse })).boxed()
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::stream;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_of_a_stream_answers_its_request() {
        let has_changed = Arc::default();
        let check = |id: Option<i64>, given: Value, wanted: &Value| {
            let sse = Sse { event: None, data: Some(given.to_string()), id: None, retry: None };
            let events = stream::iter([Ok(sse)]).boxed();
            let mut read: Vec<_> = block_on(read(events, id.map(RequestId::Number), &has_changed).collect());
            let data = read.remove(0).unwrap().data.unwrap();
            assert_eq!(serde_json::from_str::<Value>(&data).unwrap(), *wanted, "{given}");
        };
        let error =
            |id: Value| json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": "no"}, "id": id});
        check(Some(7), error(Value::Null), &error(json!(7)));
        check(Some(7), error(json!("server-error")), &error(json!(7)));
        // The stream that answers no request tells of no failed one.
        check(None, error(Value::Null), &error(Value::Null));
        let result = json!({"id": 7, "result": {"content": []}});
        check(Some(7), result.clone(), &result);
        assert!(!has_changed.load(Ordering::Acquire));
        let changed = json!({"method": "notifications/tools/list_changed"});
        check(None, changed.clone(), &changed);
        assert!(has_changed.load(Ordering::Acquire));
    }
}
