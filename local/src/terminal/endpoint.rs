//! The program's endpoint for terminals, on the Unix socket `.annals/terminal.sock`, which only its owner may open.
//!
//! | route | answer |
//! | --- | --- |
//! | `POST /api/chat`, `GET /api/chat/{id}/stream` | as browsers use them; each room is the direct chat of its user |
//! | `GET /messages/{user}?limit=` | `{messages}`: the last messages of that chat, as listed |

use std::path::{Path, PathBuf};

use annals_core::chat_key::ChatKey;
use annals_core::message::UiMessage;
use annals_core::record::{Channel, Record};
use annals_engine::ingress::{Ingress, IngressError};
use annals_engine::profiles::Profiles;
use annals_engine::settings::{MemoryConfig, ViewConfig};
use annals_http::chat::Web;
use annals_http::settings::{ApiKey, HttpConfig};
use annals_http::{Cause, Http, conversation};
use annals_runtime::problem::Problem;
use annals_store::history::Position;
use anyhow::Context;
use axum::extract::{self, Query, State};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::errors::plain;
use crate::stores::files;

/// Secret of the endpoint's key. What protects the endpoint are the permissions of its socket.
pub(crate) const KEY: &str = "terminal";

/// Returns the path of the socket of the program that uses `data_dir`.
pub(super) fn socket(data_dir: &Path) -> PathBuf {
    data_dir.join(files::TERMINAL_SOCKET)
}

/// Returns the routes for the terminals of a program whose rooms `web` serves.
pub(crate) fn routes(web: Web, view: ViewConfig) -> Router {
    let key = ApiKey { name: "terminal".into(), secret: KEY.into(), admin: true };
    let (ingress, web) = (web.ingress.clone(), Web { channel: Channel::Terminal, ..web });
    let documents = (MemoryConfig::default(), Profiles::default());
    let config = HttpConfig { keys: vec![key], ..HttpConfig::default() };
    let http = Http::new(config, ingress.clone(), web, view, documents);
    let listing = Router::new().route("/messages/{user}", get(messages)).with_state(ingress);
    conversation(http).merge(listing).layer(map_response(with_cause))
}

/// Binds the socket of `data_dir`, whose lock the caller holds. Returns the work of serving `routes` there.
#[cfg(unix)]
pub(crate) fn bind(routes: Router, data_dir: &Path) -> anyhow::Result<BoxFuture<'static, ()>> {
    use std::os::unix::fs::PermissionsExt;
    let path = socket(data_dir);
    let failed = || format!("failed to listen on {}", path.display());
    // A socket that exists is that of a program that has ended, since the caller holds the lock.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).with_context(failed),
        _ => {}
    }
    let listener = tokio::net::UnixListener::bind(&path).with_context(failed)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).with_context(failed)?;
    Ok(Box::pin(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "failed to serve the terminal's socket any longer");
        }
    }))
}

/// Fails: terminals need Unix sockets.
#[cfg(not(unix))]
pub(crate) fn bind(_: Router, _: &Path) -> anyhow::Result<BoxFuture<'static, ()>> {
    anyhow::bail!("`annals chat` needs Unix sockets, which this system does not have")
}

/// Tells the person at the terminal, who runs the program, why a request failed.
async fn with_cause(mut response: Response) -> Response {
    match response.extensions_mut().remove::<Cause>() {
        Some(Cause(cause)) => failed(&cause).into_response(),
        None => response,
    }
}

fn failed(cause: &str) -> Problem {
    Problem { detail: plain(cause), ..Problem::internal() }
}

#[derive(Deserialize)]
struct Newest {
    limit: usize,
}

async fn messages(
    State(ingress): State<Ingress>,
    extract::Path(user): extract::Path<String>,
    Query(Newest { limit }): Query<Newest>,
) -> Result<Json<Value>, Problem> {
    let messages = newest(&ingress, &user, limit).await;
    Ok(Json(json!({"messages": messages.map_err(|error| failed(&error.to_string()))?})))
}

/// Returns the last `limit` messages of the direct chat of `user`.
async fn newest(ingress: &Ingress, user: &str, limit: usize) -> Result<Vec<UiMessage>, IngressError> {
    let history = ingress.history();
    let own = ChatKey::direct(ingress.agents().default_id(), user)?;
    let chat = ingress.placed_at(&own, Channel::Terminal, history.clock().now()).await?;
    let page = history.page(&chat, &Position::Newest, limit).await?;
    Ok(page.records.iter().map(Record::listed_for_admins).collect())
}
