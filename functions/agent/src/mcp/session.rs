//! The connections of one turn: [`Session`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use annals_store::history::History;
use futures::future::join_all;
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::ServiceError;
use serde_json::Value;
use tokio::sync::Mutex;

use super::{External, REFUSALS, ServerConnection, ServerTools, Servers, kind_of, result};
use crate::tools::result::Output;

/// The connections of one turn: its calls open them, and its end closes them, or a call that fails.
pub(crate) struct Session<'a> {
    servers: &'a Servers,
    open: Vec<Mutex<Option<Arc<ServerConnection>>>>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(servers: &'a Servers) -> Self {
        Self { servers, open: servers.all.iter().map(|_| Mutex::default()).collect() }
    }

    /// Calls `tool` with `input`, within its server's time.
    pub(crate) async fn call(&self, tool: &External, input: &Value) -> Output {
        let config = &self.servers.all[tool.server].config;
        let carrying_out = Box::pin(self.carry_out(tool, input));
        let failure = match self.servers.clock.within(config.timeout, carrying_out).await {
            Some(Ok(output)) => return output,
            Some(Err(failure)) => failure,
            None => Failure {
                kind: "timed out",
                told: format!(
                    "there was no answer within {} seconds. Whether the call was carried out is not known.",
                    config.timeout.as_secs()
                ),
            },
        };
        // Escaped, since the name is the server's own text.
        tracing::warn!(
            server = config.name,
            tool = ?tool.name,
            error = failure.kind,
            "failed to call an external tool; the model is told, and the next call opens a new connection"
        );
        // If it is locked, another call opens a new one already.
        if let Ok(mut open) = self.open[tool.server].try_lock() {
            *open = None;
        }
        Err(failure.told)
    }

    async fn carry_out(&self, tool: &External, input: &Value) -> Result<Output, Failure> {
        let connection = self.connection(tool.server).await.map_err(|kind| Failure {
            kind,
            told: if REFUSALS.contains(&kind) {
                "the tool refused the call; nothing was carried out".into()
            } else {
                "the tool cannot be reached at the moment; nothing was carried out".into()
            },
        })?;
        let mut params = CallToolRequestParams::new(tool.name.clone());
        params.arguments = input.as_object().cloned();
        match connection.service.call_tool_once(params).await {
            Ok(CallToolResponse::Complete(result)) => Ok(result::output(&result)),
            Ok(_) => Ok(Err("the tool asks for more than can be given here: it was not completed".into())),
            Err(error) => Err(Failure {
                kind: kind_of(&error),
                told: match error {
                    ServiceError::McpError(error) => format!("the tool refused the call: {}", error.message),
                    ServiceError::UnexpectedResponse => "the tool gave an answer that cannot be read".into(),
                    _ => "the tool broke off, or cannot be reached at the moment. Whether the call was carried out is \
                          not known."
                        .into(),
                },
            }),
        }
    }

    async fn connection(&self, at: usize) -> Result<Arc<ServerConnection>, &'static str> {
        let mut open = self.open[at].lock().await;
        if let Some(connection) = &*open {
            return Ok(connection.clone());
        }
        let connection = Arc::new(self.servers.connect(&self.servers.all[at]).await?);
        Ok(open.insert(connection).clone())
    }

    /// Lists the tools of the servers again that have said, over connections of this turn, that they have changed. Returns
    /// true if `known`, the tools of all servers, was listed again; they are under names other than the `taken` ones.
    pub(crate) async fn relist(&self, known: &mut ServerTools, history: &History, taken: &[&str]) -> bool {
        let lists = self.open.iter().enumerate().map(async |(at, open)| {
            let open = open.lock().await.clone();
            let open = open.filter(|open| open.has_changed.swap(false, Ordering::AcqRel))?;
            let list = self.servers.ask_for_list(at, history, async { Ok(open) }).await?;
            // Other turns list the tools by connections of their own.
            if let Ok(mut listed) = self.servers.all[at].listed.try_lock() {
                listed.asked = None;
            }
            Some((at, list))
        });
        let mut lists: HashMap<usize, Vec<External>> = join_all(lists).await.into_iter().flatten().collect();
        if lists.is_empty() {
            return false;
        }
        let mut taken = taken.iter().map(|name| (*name).to_owned()).collect();
        let before = std::mem::take(&mut known.tools);
        for at in 0..self.open.len() {
            match lists.remove(&at) {
                Some(list) => known.add(list, &mut taken),
                None => known.add(before.iter().filter(|tool| tool.server == at).cloned(), &mut taken),
            }
        }
        true
    }
}

/// A call that has no result.
struct Failure {
    kind: &'static str,
    told: String,
}
