//! The HTTP client of a connection: [`Http`], which is rmcp's, and reads in a server's answers what rmcp leaves out.
//!
//! - An error without an id, by which servers refuse a request that they could not assign to a session, is the answer to the
//!   request: rmcp would wait for another one.
//! - A tool that can only be called as a task (`execution.taskSupport: "required"`, which rmcp's type of a tool does not have)
//!   is left out of the list.
//! - `notifications/tools/list_changed` is noted before the answer that follows it is passed on.
//!
//! Source: <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::header::{ACCEPT, HeaderName, HeaderValue};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use serde_json::{Value, json};
use sse_stream::Sse;

/// The revision of the protocol that has tasks of tools: neither the one before nor the next has them.
const WITH_TASKS: &str = "2025-11-25";
/// Maximum bytes of a list of tools that is read for tasks, as of one that rmcp reads.
const MAX_LIST_BYTES: usize = 16 * 1024 * 1024;

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
        let again = (uri.clone(), message.clone(), session.clone(), headers.clone());
        Ok(match self.client.post_message(uri, message, session, token, headers).await? {
            Json(JsonRpcMessage::Error(mut error), session) => {
                error.id = id.or(error.id);
                Json(JsonRpcMessage::Error(error), session)
            }
            Json(message, session) => Json(self.without_tasks(message, again).await?, session),
            Sse(events, session) => Sse(read(events, id, &self.has_changed), session),
            accepted => accepted,
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

impl Http {
    /// Returns `message` without the tools that need a task, if it is a list of tools in one piece: of that only rmcp's reading
    /// is left, so the list is asked for once more.
    async fn without_tasks(
        &self,
        mut message: ServerJsonRpcMessage,
        (uri, request, session, headers): (
            Arc<str>,
            ClientJsonRpcMessage,
            Option<Arc<str>>,
            HashMap<HeaderName, HeaderValue>,
        ),
    ) -> Result<ServerJsonRpcMessage, Failure> {
        let version = headers.get(&HeaderName::from_static("mcp-protocol-version"));
        let has_tasks = version.is_some_and(|version| version == WITH_TASKS);
        let asks = matches!(&request, JsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::ListToolsRequest(_)));
        let JsonRpcMessage::Response(answer) = &mut message else { return Ok(message) };
        let ServerResult::ListToolsResult(list) = &mut answer.result else { return Ok(message) };
        if !asks || !has_tasks {
            return Ok(message);
        }
        let accept = "application/json, text/event-stream";
        let mut asked = self.client.post(&*uri).header(ACCEPT, accept).headers(headers.into_iter().collect());
        if let Some(session) = session {
            asked = asked.header("mcp-session-id", &*session);
        }
        let mut response = asked.json(&request).send().await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_LIST_BYTES {
                return Err(Failure::ResponseBodyTooLarge { max_size: MAX_LIST_BYTES });
            }
        }
        let raw: Value = serde_json::from_slice(&body)?;
        let raw = raw["result"]["tools"].as_array();
        let tasks = raw.into_iter().flatten().filter(|tool| needs_task(tool));
        let tasks: HashSet<&str> = tasks.filter_map(|tool| tool["name"].as_str()).collect();
        list.tools.retain(|tool| !tasks.contains(&*tool.name));
        Ok(message)
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
        } else if let Some(tools) = message.pointer_mut("/result/tools").and_then(Value::as_array_mut) {
            tools.retain(|tool| !needs_task(tool));
        } else {
            return data;
        }
        message.to_string()
    };
    events.map(move |event| event.map(|sse| Sse { data: sse.data.map(&read), ..sse })).boxed()
}

/// Returns true if `tool`, as its server lists it, can only be called as a task.
fn needs_task(tool: &Value) -> bool {
    tool["execution"]["taskSupport"] == json!("required")
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::stream;

    use super::*;

    #[test]
    fn an_error_of_a_stream_answers_its_request_and_tools_that_need_a_task_are_left_out() {
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
        let tool = |name: &str, support: &str| json!({"name": name, "execution": {"taskSupport": support}});
        let list = |tools: &[Value]| json!({"id": 7, "result": {"tools": tools}});
        let given = list(&[tool("a", "required"), tool("b", "optional"), json!({"name": "c"})]);
        check(Some(7), given, &list(&[tool("b", "optional"), json!({"name": "c"})]));
        let result = json!({"id": 7, "result": {"content": []}});
        check(Some(7), result.clone(), &result);
        assert!(!has_changed.load(Ordering::Acquire));
        let changed = json!({"method": "notifications/tools/list_changed"});
        check(None, changed.clone(), &changed);
        assert!(has_changed.load(Ordering::Acquire));
    }
}
