//! An MCP server over streamable HTTP on a loopback port, for end-to-end tests.
//!
//! It refuses what the protocol says is refused, and is asserted by what it stores: [`McpServer::carried_out`],
//! [`McpServer::refusals`], [`McpServer::lists`].
//!
//! ```text
//! POST /mcp   Accept: application/json, text/event-stream   Authorization: Bearer <TOKEN>
//! {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", …}}
//! 200  Mcp-Session-Id: s-1   {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-06-18", …}}
//! ```
//!
//! Its tools: `lookup {order}` (read-only, structured), `refund {order, amount}`, `fail {}` (`isError`), `slow {}` (until
//! [`McpServer::release`]), `picture {}` (an image and a link), `long {}` (a very long text), `old {}` (an error of the
//! protocol). The list has two of them a page, and calls are answered as an event stream. A session that it has lost is refused
//! as the official reference server does: with 400 and an error without an id.
//!
//! Source: <https://modelcontextprotocol.io/specification/2025-06-18/basic/transports>.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::json::with;
use crate::server::Server;

/// The token that it requires: `Authorization: Bearer <TOKEN>`.
pub const TOKEN: &str = "mcp-test-token";

/// The revision of the protocol.
const REVISION: &str = "2025-06-18";
const PAGE: usize = 2;

/// The running server; it stops when dropped.
pub struct McpServer {
    shared: Arc<Shared>,
    server: Server,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Stored>,
    is_released: watch::Sender<bool>,
}

/// The server's state.
#[derive(Default)]
pub struct Stored {
    sessions: usize,
    lists: usize,
    carried_out: Vec<(String, Value)>,
    refusals: Vec<String>,
    /// Answers everything with 503.
    pub is_down: bool,
    /// Answers everything with 401, as after the end of its token.
    pub has_expired: bool,
    more: Vec<Value>,
    /// The `annotations` of these tools, in place of the usual ones.
    pub hints: Vec<(String, Value)>,
    /// Redirects everything to this address.
    pub moved_to: Option<String>,
    /// The newest session that was lost.
    lost_to: usize,
    /// Number of calls after which all sessions are lost.
    pub loses_after: Option<usize>,
    /// The tool whose call adds the other to the list. Before its result it says that the list has changed.
    pub adds: Option<(String, Value)>,
}

impl McpServer {
    /// Starts one on a free port.
    pub async fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let router = Router::new().route("/mcp", post(message).delete(async || StatusCode::OK));
        Self { server: Server::start(0, router.with_state(shared.clone())).await, shared }
    }

    /// Returns its address.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.server.url)
    }

    /// `TOOLS` with this server as `shop`, with these `fields` beside or in place of its address.
    pub fn tools(&self, fields: &Value) -> String {
        let shop = json!({"url": self.url(), "headers": {"Authorization": "Bearer ${SHOP_TOKEN}"}});
        json!({"mcpServers": {"shop": with(shop, fields.clone())}}).to_string()
    }

    /// The calls that were carried out, `(tool, arguments)`, in order.
    pub fn carried_out(&self) -> Vec<(String, Value)> {
        self.state().carried_out.clone()
    }

    /// Returns the reasons of refused requests: none if all followed the protocol.
    pub fn refusals(&self) -> Vec<String> {
        self.state().refusals.clone()
    }

    /// Returns the number of listings from the first page on.
    pub fn lists(&self) -> usize {
        self.state().lists
    }

    /// Returns the number of sessions.
    pub fn sessions(&self) -> usize {
        self.state().sessions
    }

    /// Changes what it holds and does.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Stored) -> T) -> T {
        change(&mut self.state())
    }

    /// Lists this tool too, after its own. Its calls are answered with `done`.
    pub fn offer(&self, tool: Value) {
        self.state().more.push(tool);
    }

    /// Lets `slow` go on.
    pub fn release(&self) {
        self.shared.is_released.send_replace(true);
    }

    fn state(&self) -> MutexGuard<'_, Stored> {
        self.shared.state()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Stored> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, status: StatusCode, why: impl Into<String>) -> Response {
        let why = why.into();
        self.state().refusals.push(why.clone());
        (status, why).into_response()
    }
}

/// The tools in the order of their list.
fn tools() -> Vec<Value> {
    let order = json!({"order": {"type": "string"}});
    let tool = |name: &str, description: &str, properties: &Value, required: &[&str], hints: Value| {
        json!({"name": name, "description": description, "annotations": hints,
            "inputSchema": {"type": "object", "properties": properties, "required": required}})
    };
    let none = json!({});
    vec![
        tool("lookup", "Looks an order up.", &order, &["order"], json!({"readOnlyHint": true})),
        tool(
            "refund",
            "Pays an order back.",
            &json!({"order": {"type": "string"}, "amount": {"type": "number"}}),
            &["order"],
            json!({"destructiveHint": true}),
        ),
        tool("fail", "Fails.", &none, &[], json!({"readOnlyHint": true})),
        tool("slow", "Takes long.", &none, &[], json!({"readOnlyHint": true})),
        tool("picture", "Draws.", &none, &[], json!({"readOnlyHint": true})),
        tool("long", "Tells a long story.", &none, &[], json!({"readOnlyHint": true})),
        tool("old", "Is no longer there.", &none, &[], json!({"readOnlyHint": true})),
    ]
}

async fn message(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    if shared.state().is_down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if shared.state().has_expired {
        return (StatusCode::UNAUTHORIZED, "the token has expired").into_response();
    }
    if let Some(other) = shared.state().moved_to.clone() {
        return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, other)]).into_response();
    }
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if header("authorization") != format!("Bearer {TOKEN}") {
        return shared.refuse(StatusCode::UNAUTHORIZED, "no token");
    }
    let accept = header("accept");
    if !accept.contains("application/json") || !accept.contains("text/event-stream") {
        return shared.refuse(StatusCode::NOT_ACCEPTABLE, format!("accept {accept}"));
    }
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return shared.refuse(StatusCode::BAD_REQUEST, "no JSON");
    };
    let method = request["method"].as_str().unwrap_or_default();
    if method == "initialize" {
        let session = {
            let mut state = shared.state();
            state.sessions += 1;
            format!("s-{}", state.sessions)
        };
        let result = json!({
            "protocolVersion": REVISION, "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "shop", "version": "1"},
        });
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
        let headers = [("mcp-session-id", session), ("content-type", "application/json".to_owned())];
        return (headers, answer).into_response();
    }
    let Some(session) = header("mcp-session-id").strip_prefix("s-").and_then(|id| id.parse::<usize>().ok())
    else {
        return shared.refuse(StatusCode::BAD_REQUEST, format!("{method} without a session"));
    };
    if session <= shared.state().lost_to {
        let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
        let answer = json!({"jsonrpc": "2.0", "error": error}).to_string();
        return (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "application/json")], answer)
            .into_response();
    }
    if header("mcp-protocol-version") != REVISION {
        return shared.refuse(StatusCode::BAD_REQUEST, format!("{method} without the version"));
    }
    match method {
        "notifications/initialized" | "notifications/cancelled" => StatusCode::ACCEPTED.into_response(),
        "tools/list" => {
            let from = request["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap_or(99));
            if from == 0 {
                shared.state().lists += 1;
            }
            let mut tools = tools();
            tools.extend(shared.state().more.clone());
            for (name, annotations) in &shared.state().hints {
                for tool in tools.iter_mut().filter(|tool| tool["name"] == **name) {
                    tool["annotations"] = annotations.clone();
                }
            }
            let page: Vec<&Value> = tools.iter().skip(from).take(PAGE).collect();
            let mut result = json!({ "tools": page });
            if from + PAGE < tools.len() {
                result["nextCursor"] = (from + PAGE).to_string().into();
            }
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
            ([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
        }
        "tools/call" => {
            let answer = call(&shared, &request["params"]).await;
            let mut message = json!({"jsonrpc": "2.0", "id": request["id"]});
            match answer {
                Ok(result) => message["result"] = result,
                Err(error) => message["error"] = error,
            }
            let mut event = format!("event: message\ndata: {message}\n\n");
            let added = shared.state().adds.take_if(|(by, _)| request["params"]["name"] == **by);
            if let Some((_, tool)) = added {
                shared.state().more.push(tool);
                let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                event.insert_str(0, &format!("event: message\ndata: {changed}\n\n"));
            }
            ([(header::CONTENT_TYPE, "text/event-stream")], event).into_response()
        }
        _ => shared.refuse(StatusCode::BAD_REQUEST, format!("unknown method {method}")),
    }
}

async fn call(shared: &Arc<Shared>, params: &Value) -> Result<Value, Value> {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let (name, input) = (params["name"].as_str().unwrap_or_default(), params["arguments"].clone());
    {
        let mut state = shared.state();
        state.carried_out.push((name.to_owned(), input.clone()));
        if state.loses_after == Some(state.carried_out.len()) {
            state.lost_to = state.sessions;
        }
    }
    Ok(match name {
        "lookup" => {
            let found = json!({"order": input["order"], "total": 12.5});
            json!({"content": text(&found.to_string()), "structuredContent": found})
        }
        "refund" => json!({"content": text(&format!("refunded {}", input["order"].as_str().unwrap_or("?")))}),
        "fail" => json!({"content": text("the till is broken"), "isError": true}),
        "slow" => {
            let _ = shared.is_released.subscribe().wait_for(|is_released| *is_released).await;
            json!({"content": text("at last")})
        }
        "picture" => json!({"content": [
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
            {"type": "resource_link", "name": "plan", "uri": "https://shop.example/plan"},
        ]}),
        "long" => json!({"content": text(&format!("BEGIN {} END", "lorem ipsum dolor ".repeat(10_000)))}),
        name if shared.state().more.iter().any(|tool| tool["name"] == name) => {
            json!({"content": text("done")})
        }
        _ => return Err(json!({"code": -32602, "message": format!("Unknown tool: {name}")})),
    })
}
