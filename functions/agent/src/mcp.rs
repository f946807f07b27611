//! External tools: MCP servers over streamable HTTP, as `TOOLS` names them.
//!
//! Nothing is done at start. A turn that may call tools requests each server's list, all at once, unless the last one is
//! fresh (`FRESH`); a call opens a connection, which lasts for the turn, since a function is frozen between two, or until a
//! call fails otherwise than by the tool's own result: the server may have lost the session. A server that does not answer
//! offers its tools as they were last known, or none; the model is told, and for a while (`PAUSE`) no turn waits for that
//! server, except one that makes approved calls. If a server says during a turn that its tools have changed, the next request
//! offers what it lists then.
//!
//! Names, descriptions and results of tools are passed on within bounds.
//!
//! *Invariant:* no header's value, no address, no input and no result of a tool is in an error or a log.

mod http;
mod listed;
mod result;
mod schema;
mod session;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_engine::settings::tools::{CallApproval, ServerConfig, ToolsConfig};
use annals_io::clock::Clock;
use annals_io::connection::Connection;
use annals_io::tls;
use annals_store::history::History;
use futures::future::join_all;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams};
use rmcp::service::{ClientInitializeError, RoleClient, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use secrecy::ExposeSecret;
use tokio::sync::Mutex;

use self::http::{Failure, Http};
pub(crate) use self::listed::External;
use self::listed::external;
#[doc(hidden)]
pub use self::schema::plain_object;
pub(crate) use self::session::Session;

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
/// Reasons why a server takes no connection until `TOOLS` has another key for it.
const REFUSALS: [&str; 2] = ["refused: HTTP 401", "refused: HTTP 403"];

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
    pub(crate) unreachable: Vec<String>,
}

impl ServerTools {
    /// Adds `tools`, under names other than the `taken` ones.
    fn add(&mut self, tools: impl IntoIterator<Item = External>, taken: &mut HashSet<String>) {
        for mut tool in tools {
            // A server `memory` may have a `search`.
            if taken.contains(&tool.tool.name) {
                tool.rename();
            }
            if taken.insert(tool.tool.name.clone()) {
                self.tools.push(tool);
            }
        }
    }
}

struct ServerConnection {
    service: RunningService<RoleClient, ClientConfig>,
    /// True if the server has said that its tools have changed, and they have not been listed since.
    has_changed: Arc<AtomicBool>,
}

impl Servers {
    /// Returns the servers of `config`. Does no work.
    pub fn new(config: ToolsConfig, clock: Clock) -> Self {
        let all =
            config.servers.into_iter().map(|config| Server { config, listed: Mutex::default() }).collect();
        Self { all, http: Connection::new(connect), clock }
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.all.iter().map(|server| server.config.name.as_str()).collect()
    }

    /// Returns the tools of all servers, under names other than the `taken` ones. Never fails, and takes [`LIST_TIMEOUT`] at
    /// most.
    pub(crate) async fn offer(&self, history: &History, taken: &[&str]) -> ServerTools {
        let lists = self.all.iter().enumerate().map(|(at, server)| self.list(at, server, history));
        let lists = join_all(lists).await;
        let mut offer = ServerTools::default();
        let mut taken: HashSet<String> = taken.iter().map(|name| (*name).to_owned()).collect();
        for (server, (tools, answers)) in self.all.iter().zip(lists) {
            offer.add(tools.iter().flat_map(|tools| tools.iter().cloned()), &mut taken);
            if !answers {
                offer.unreachable.push(server.config.name.clone());
            }
        }
        offer
    }

    /// Lets the next turn ask those servers for their lists that have failed lately.
    pub(crate) fn ask_again(&self) {
        for server in &self.all {
            // If it is locked, another turn asks already.
            if let Ok(mut listed) = server.listed.try_lock() {
                listed.asked = listed.asked.filter(|(_, is_answered)| *is_answered);
            }
        }
    }

    /// Returns the tools of one server as far as they are known, and true if it answers.
    async fn list(&self, at: usize, server: &Server, history: &History) -> (Option<Arc<[External]>>, bool) {
        let mut listed = server.listed.lock().await;
        if let Some((when, answered)) = listed.asked
            && when.is_fresh(if answered { FRESH } else { PAUSE }, self.clock.now())
        {
            return (listed.tools.clone(), answered);
        }
        let connection = async { self.connect(server).await.map(Arc::new) };
        let asked = Box::pin(self.ask_for_list(at, history, connection)).await;
        listed.asked = Some((self.clock.now(), asked.is_some()));
        let answers = asked.is_some();
        listed.tools = asked.map(Into::into).or(listed.tools.take());
        (listed.tools.clone(), answers)
    }

    /// Asks the server at index `at` for its tools. A failure is only logged: what is known of them stays.
    async fn ask_for_list(
        &self,
        at: usize,
        history: &History,
        connection: impl Future<Output = Result<Arc<ServerConnection>, &'static str>>,
    ) -> Option<Vec<External>> {
        let server = &self.all[at];
        let reading = Box::pin(async { self.read_list(at, server, &*connection.await?).await });
        let asked = self.clock.within(LIST_TIMEOUT, reading).await;
        match asked.unwrap_or(Err("no answer in time")) {
            Ok(mut tools) => {
                keep_approvals(history, &server.config.name, &mut tools).await;
                Some(tools)
            }
            Err(error) if REFUSALS.contains(&error) => {
                tracing::error!(
                    server = server.config.name,
                    error,
                    "a server of TOOLS refuses its headers; renew the key there"
                );
                None
            }
            Err(error) => {
                tracing::warn!(
                    server = server.config.name,
                    error,
                    "failed to list the tools of a server of TOOLS; it is asked again later"
                );
                None
            }
        }
    }

    async fn read_list(
        &self,
        at: usize,
        server: &Server,
        connection: &ServerConnection,
    ) -> Result<Vec<External>, &'static str> {
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = connection.service.list_tools(Some(params)).await;
            let page = page.map_err(|error| kind_of(&error))?;
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

    async fn connect(&self, server: &Server) -> Result<ServerConnection, &'static str> {
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
        let has_changed = Arc::new(AtomicBool::default());
        let http = Http { client: http.clone(), has_changed: has_changed.clone() };
        let transport = StreamableHttpClientTransport::with_client(http, config);
        let who = Implementation::new("annals", env!("CARGO_PKG_VERSION"));
        let client = ClientConfig::new(ClientCapabilities::default(), who);
        // The error quotes what the server says.
        let service = rmcp::serve_client(client, transport).await;
        let service = service.map_err(|error| refusal(&error).unwrap_or("no connection"))?;
        Ok(ServerConnection { service, has_changed })
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
                "a server of TOOLS has too many destructive tools; those without a setting need approval"
            );
            None
        }
        Err(error) => {
            tracing::warn!(
                server, %error, "failed to read which tools were destructive; those without a setting need approval"
            );
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

/// Returns the one of [`REFUSALS`] that `error` is, if it is one.
fn refusal(error: &ClientInitializeError) -> Option<&'static str> {
    let ClientInitializeError::TransportError { error, .. } = error else { return None };
    let [unauthorized, forbidden] = REFUSALS;
    match error.error.downcast_ref::<Failure>()? {
        StreamableHttpError::AuthRequired(_) => Some(unauthorized),
        StreamableHttpError::InsufficientScope(_) => Some(forbidden),
        // Without a `WWW-Authenticate`: the status, and the server's text.
        StreamableHttpError::UnexpectedServerResponse(said) if said.starts_with("HTTP 401") => {
            Some(unauthorized)
        }
        StreamableHttpError::UnexpectedServerResponse(said) if said.starts_with("HTTP 403") => {
            Some(forbidden)
        }
        _ => None,
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
