//! External tools: MCP servers over streamable HTTP, as `TOOLS` names them.
//!
//! Nothing is done at start. A turn that may call tools requests each server's list, all at once, unless the last one is
//! fresh (`FRESH`); a call opens a connection, which lasts for the turn, since a function is frozen between two. A server
//! that does not answer offers its tools as they were last known, or none; the model is told, and for a while (`PAUSE`) no
//! turn waits for that server.
//!
//! Names, descriptions and results of tools are passed on within bounds.
//!
//! *Invariant:* no header's value, no address, no input and no result of a tool is in an error or a log.

mod listed;
mod result;
mod schema;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_engine::settings::tools::{CallApproval, ServerConfig, ToolsConfig};
use annals_io::clock::Clock;
use annals_io::connection::Connection;
use annals_io::tls;
use annals_store::history::History;
use futures::future::join_all;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams,
};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

pub(crate) use self::listed::External;
use self::listed::external;
use crate::tools::result::Output;

/// Time for which a list of tools is used.
const FRESH: Duration = Duration::from_mins(5);
/// Time for which a server that has failed is not asked again for its list.
const PAUSE: Duration = Duration::from_secs(30);
/// Maximum time that a turn waits for the lists of servers.
const LIST_TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum number of pages of a list, and of tools of one server.
const MAX_PAGES: usize = 20;
const MAX_TOOLS: usize = 64;
/// Maximum number of tools of one server that are remembered as destructive, and maximum length of a name.
const MAX_REMEMBERED: usize = 1024;
const MAX_NAME_BYTES: usize = 256;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The servers of `TOOLS`, with their lists, which all turns of a process share.
pub struct Servers {
    all: Vec<Server>,
    http: Connection,
    clock: Clock,
}

struct Server {
    config: ServerConfig,
    listed: Mutex<Listed>,
}

#[derive(Default)]
struct Listed {
    tools: Option<Arc<[External]>>,
    /// Time of the last request, and true if it was answered.
    asked: Option<(Timestamp, bool)>,
}

/// The tools of all servers as they are known now.
#[derive(Clone, Default)]
pub(crate) struct ServerTools {
    /// The tools, server by server in the order of `TOOLS`, each list in its server's.
    pub(crate) tools: Vec<External>,
    /// The servers that do not answer.
    pub(crate) unreachable: Vec<String>,
}

type ServerConnection = RunningService<RoleClient, ClientConfig>;

impl Servers {
    /// Returns the servers of `config`. Does no work.
    pub fn new(config: ToolsConfig, clock: Clock) -> Self {
        let all =
            config.servers.into_iter().map(|config| Server { config, listed: Mutex::default() }).collect();
        Self { all, http: Connection::new(connect), clock }
    }

    /// Returns the tools of all servers, under names other than the `taken` ones. Never fails, and takes [`LIST_TIMEOUT`] at
    /// most.
    pub(crate) async fn offer(&self, history: &History, taken: &[&str]) -> ServerTools {
        let lists = self.all.iter().enumerate().map(|(at, server)| self.list(at, server, history));
        let lists = join_all(lists).await;
        let mut offer = ServerTools::default();
        let mut taken: HashSet<String> = taken.iter().map(|name| (*name).to_owned()).collect();
        for (server, (tools, answers)) in self.all.iter().zip(lists) {
            for mut tool in tools.iter().flat_map(|tools| tools.iter().cloned()) {
                // A server `memory` may have a `search`.
                if taken.contains(&tool.tool.name) {
                    tool.rename();
                }
                if taken.insert(tool.tool.name.clone()) {
                    offer.tools.push(tool);
                }
            }
            if !answers {
                offer.unreachable.push(server.config.name.clone());
            }
        }
        offer
    }

    /// Returns the tools of one server as far as they are known, and true if it answers.
    async fn list(&self, at: usize, server: &Server, history: &History) -> (Option<Arc<[External]>>, bool) {
        let mut listed = server.listed.lock().await;
        let now = self.clock.now();
        if let Some((when, answered)) = listed.asked
            && now.since(when) < if answered { FRESH } else { PAUSE }
        {
            return (listed.tools.clone(), answered);
        }
        let asked = tokio::select! {
            asked = self.ask_for_list(at, server) => asked,
            () = self.clock.sleep(LIST_TIMEOUT) => Err("no answer in time".to_owned()),
        };
        listed.asked = Some((self.clock.now(), asked.is_ok()));
        match asked {
            Ok(mut tools) => {
                keep_approvals(history, &server.config.name, &mut tools).await;
                listed.tools = Some(tools.into());
                (listed.tools.clone(), true)
            }
            Err(error) => {
                tracing::warn!(
                    server = server.config.name,
                    error,
                    "failed to list the tools of a server of TOOLS; it is asked again later"
                );
                (listed.tools.clone(), false)
            }
        }
    }

    async fn ask_for_list(&self, at: usize, server: &Server) -> Result<Vec<External>, String> {
        let connection = self.connect(server).await?;
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page =
                connection.list_tools(Some(params)).await.map_err(|error| kind_of(&error).to_owned())?;
            let named = page.tools.iter().filter(|tool| tool.name.len() <= MAX_NAME_BYTES);
            tools.extend(named.filter_map(|tool| external(at, &server.config, tool)));
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() >= MAX_TOOLS {
                break;
            }
        }
        if tools.len() > MAX_TOOLS || cursor.is_some() {
            tracing::warn!(server = server.config.name, "a server of TOOLS has more tools than are offered");
            tools.truncate(MAX_TOOLS);
        }
        Ok(tools)
    }

    async fn connect(&self, server: &Server) -> Result<ServerConnection, String> {
        let headers: HashMap<HeaderName, HeaderValue> = server
            .config
            .headers
            .iter()
            .filter_map(|(name, value)| {
                let mut value = HeaderValue::from_str(value.expose_secret()).ok()?;
                value.set_sensitive(true);
                Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
            })
            .collect();
        let config = StreamableHttpClientTransportConfig::with_uri(server.config.url.expose_secret())
            .custom_headers(headers);
        let http = self.http.client().map_err(|_| "no TLS client could be set up")?;
        let transport = StreamableHttpClientTransport::with_client(http.clone(), config);
        let who = Implementation::new("annals", env!("CARGO_PKG_VERSION"));
        let client = ClientConfig::new(ClientCapabilities::default(), who);
        // The error quotes what the server says.
        rmcp::serve_client(client, transport).await.map_err(|_| "no connection".to_owned())
    }
}

fn connect() -> reqwest::Result<reqwest::Client> {
    // A redirect would carry the headers elsewhere.
    tls::client().connect_timeout(CONNECT_TIMEOUT).redirect(reqwest::redirect::Policy::none()).build()
}

/// Requires approval for each tool that its server has ever called destructive: with `approval: destructive` the operator
/// relies on the server's hints at the time of the set-up, and a server that was taken over could change them. If the earlier
/// hints cannot be read, or are too many to store, every tool needs approval for which `TOOLS` has no setting.
async fn keep_approvals(history: &History, server: &str, tools: &mut [External]) {
    if !tools.iter().any(|tool| tool.is_hinted) {
        return;
    }
    let known = match history.destructive_tools(server).await {
        Ok(known) if known.len() < MAX_REMEMBERED => Some(known),
        Ok(_) => {
            tracing::warn!(
                server,
                "a server of TOOLS has named too many tools destructive; all its calls need approval"
            );
            None
        }
        Err(error) => {
            tracing::warn!(server, %error, "failed to read which tools were destructive; all calls of the server need approval");
            None
        }
    };
    let mut new = Vec::new();
    for tool in tools.iter_mut().filter(|tool| tool.is_hinted) {
        let Some(known) = &known else {
            tool.approval = CallApproval::ByAskers;
            continue;
        };
        let needs = tool.approval != CallApproval::NotNeeded;
        if needs && !known.contains(&tool.name) {
            new.push(tool.name.clone());
        } else if !needs && known.contains(&tool.name) {
            tool.approval = CallApproval::ByAskers;
            // Escaped, since the name is the server's own text.
            tracing::warn!(
                server,
                tool = ?tool.name,
                "a tool that was destructive claims to be harmless now; its calls still need approval. If you accept that, \
                 set \"approval\": false for it in TOOLS"
            );
        }
    }
    new.sort_unstable();
    new.dedup();
    if !new.is_empty()
        && let Err(error) = history.add_destructive_tools(server, new).await
    {
        // They need approval now; the next list is stored again.
        tracing::warn!(server, %error, "failed to store which tools are destructive");
    }
}

/// The connections of one turn: its calls open them, and its end closes them.
pub(crate) struct Session<'a> {
    servers: &'a Servers,
    open: Vec<OnceCell<ServerConnection>>,
}

impl<'a> Session<'a> {
    /// Returns a session without connections.
    pub(crate) fn new(servers: &'a Servers) -> Self {
        Self { servers, open: servers.all.iter().map(|_| OnceCell::new()).collect() }
    }

    /// Calls `tool` with `input`, within its server's time.
    pub(crate) async fn call(&self, tool: &External, input: &Value) -> Output {
        let (server, open) = (&self.servers.all[tool.server], &self.open[tool.server]);
        let timeout = server.config.timeout;
        tokio::select! {
            output = self.carry_out(server, open, tool, input) => output,
            () = self.servers.clock.sleep(timeout) => Err(format!(
                "there was no answer within {} seconds. Whether the call was carried out is not known.",
                timeout.as_secs()
            )),
        }
    }

    async fn carry_out(
        &self,
        server: &Server,
        open: &OnceCell<ServerConnection>,
        tool: &External,
        input: &Value,
    ) -> Output {
        let failed = |kind: &str| {
            tracing::warn!(
                server = server.config.name,
                error = kind,
                "failed to call an external tool; the model is told"
            );
        };
        let connection = match open.get_or_try_init(|| self.servers.connect(server)).await {
            Ok(connection) => connection,
            Err(error) => {
                failed(&error);
                return Err("the tool cannot be reached at the moment; nothing was carried out".into());
            }
        };
        let mut params = CallToolRequestParams::new(tool.name.clone());
        params.arguments = input.as_object().cloned();
        match connection.call_tool_once(params).await {
            Ok(CallToolResponse::Complete(result)) => result::output(&result),
            Ok(_) => Err("the tool asks for more than can be given here: it was not completed".into()),
            Err(ServiceError::McpError(error)) => {
                Err(format!("the tool refused the call: {}", error.message))
            }
            Err(error) => {
                failed(kind_of(&error));
                let message = match error {
                    ServiceError::UnexpectedResponse => "the tool gave an answer that cannot be read",
                    _ => {
                        "the tool broke off, or cannot be reached at the moment. Whether the call was carried out is not known."
                    }
                };
                Err(message.into())
            }
        }
    }
}

/// Returns the kind of the error, without the server's own text.
fn kind_of(error: &ServiceError) -> &'static str {
    match error {
        ServiceError::McpError(_) => "an error of the protocol",
        ServiceError::TransportSend(_) => "the request failed",
        ServiceError::TransportClosed => "the connection closed",
        ServiceError::UnexpectedResponse => "an answer of another kind",
        _ => "broken off",
    }
}
