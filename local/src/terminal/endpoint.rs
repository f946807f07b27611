//! The program's endpoint for terminals: [`Endpoint`].
//!
//! | route | answer |
//! | --- | --- |
//! | `POST /say` | takes `{id, user, text}`: appends and queues a message, or carries out a command; then streams the reply |
//! | `GET /pending?user=` | the reply that is being made or waited for, from its beginning; 204 if there is none |
//! | `GET /history?limit=&user=` | the last messages, as listed |
//!
//! HTTP over the Unix socket `.annals/terminal.sock`, which only its owner may open. Replies are lines of JSON, an `Event` each.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use annals_agent::is_failure_notice;
use annals_core::agents::Said;
use annals_core::chat_key::ChatKey;
use annals_core::command::Command;
use annals_core::draft::{Draft, Origin};
use annals_core::message::{Part, UiMessage};
use annals_core::record::{Channel, Record};
use annals_core::sort_key::MessageId;
use annals_engine::ingress::people::DirectChat;
use annals_engine::ingress::{Ingress, IngressError};
use annals_engine::live::{Listener, Live, ReplyEvent};
use annals_engine::settings::ViewConfig;
use annals_http::follow::{Awaited, Follower, News};
use annals_runtime::telemetry;
use annals_store::history::Position;
use anyhow::Context;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::stream;
use serde::Deserialize;
#[cfg(unix)]
use tokio::net::UnixListener;
use tracing::{Instrument, Span};

use super::wire::{Event, Say};
use crate::errors::plain;
use crate::stores::files;

/// Longest silence of a stream, so that each side knows that the other is still there.
const MAX_SILENCE: Duration = Duration::from_secs(10);

/// The program's endpoint for terminals.
#[derive(Clone)]
pub(crate) struct Endpoint {
    ingress: Ingress,
    /// Broadcasts the runs of this process.
    live: Live,
    /// Settings of a context.
    view: ViewConfig,
}

/// Returns the path of the socket of the program that uses `data_dir`.
pub(super) fn socket(data_dir: &Path) -> PathBuf {
    data_dir.join(files::TERMINAL_SOCKET)
}

/// An endpoint with its socket bound.
pub(crate) struct BoundEndpoint {
    #[cfg(unix)]
    listener: UnixListener,
    #[cfg(unix)]
    router: Router,
}

impl Endpoint {
    /// Returns the endpoint for the histories of `ingress`, of a process whose runs `live` broadcasts.
    pub(crate) fn new(ingress: Ingress, live: Live, view: ViewConfig) -> Self {
        Self { ingress, live, view }
    }

    /// Binds the socket of `data_dir`, whose lock the caller holds.
    #[cfg(unix)]
    pub(crate) fn bind(self, data_dir: &Path) -> anyhow::Result<BoundEndpoint> {
        use std::os::unix::fs::PermissionsExt;
        let path = socket(data_dir);
        let failed = || format!("failed to listen on {}", path.display());
        // A socket that exists is that of a program that has ended, since the caller holds the lock.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(failed);
            }
            _ => {}
        }
        let listener = UnixListener::bind(&path).with_context(failed)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).with_context(failed)?;
        let router = Router::new()
            .route("/say", post(say))
            .route("/pending", get(pending))
            .route("/history", get(history))
            .with_state(Arc::new(self));
        Ok(BoundEndpoint { listener, router })
    }

    /// Fails: terminals need Unix sockets.
    #[cfg(not(unix))]
    pub(crate) fn bind(self, _: &Path) -> anyhow::Result<BoundEndpoint> {
        anyhow::bail!("`annals chat` needs Unix sockets, which this system does not have")
    }
}

impl BoundEndpoint {
    /// Serves terminals until the process ends.
    pub(crate) async fn serve(self) {
        #[cfg(unix)]
        if let Err(error) = axum::serve(self.listener, self.router).await {
            tracing::error!(%error, "failed to serve the terminal's socket any longer");
        }
    }
}

/// Reason of a failure, for the person at the terminal.
struct Failure(String);

impl<E: Into<IngressError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(plain(&error.into().to_string()))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        tracing::error!(error = self.0, "failed to handle a terminal's request");
        (StatusCode::SERVICE_UNAVAILABLE, self.0).into_response()
    }
}

fn failed(error: impl std::error::Error) -> Failure {
    Failure(error.to_string())
}

async fn say(
    State(endpoint): State<Arc<Endpoint>>,
    Json(Say { id, user, text }): Json<Say>,
) -> Result<Response, Failure> {
    let id = MessageId::new(id).map_err(failed)?;
    // On a task, so that closing the terminal between the append and the turn does not lose the turn.
    let said = async move { Box::pin(endpoint.say(user, id, text)).await };
    tokio::spawn(said.in_current_span()).await.map_err(failed)?
}

#[derive(Deserialize)]
struct Person {
    user: String,
}

async fn pending(
    State(endpoint): State<Arc<Endpoint>>,
    Query(Person { user }): Query<Person>,
) -> Result<Response, Failure> {
    let chat = endpoint.chat(&user).await?;
    let listener = endpoint.live.listen(&chat);
    let Some(awaited) = endpoint.awaited(&chat).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    Ok(endpoint.stream(chat, awaited, listener, None))
}

#[derive(Deserialize)]
struct Newest {
    limit: usize,
    user: String,
}

async fn history(
    State(endpoint): State<Arc<Endpoint>>,
    Query(Newest { limit, user }): Query<Newest>,
) -> Result<Json<Vec<UiMessage>>, Failure> {
    let chat = endpoint.chat(&user).await?;
    let page = endpoint.ingress.history().page(&chat, &Position::Newest, limit).await?;
    Ok(Json(page.records.iter().map(Record::listed_for_admins).collect()))
}

impl Endpoint {
    /// Returns the chat of the person at the terminal.
    async fn chat(&self, user: &str) -> Result<ChatKey, IngressError> {
        let own = ChatKey::direct(self.ingress.agents().default_id(), user)?;
        self.ingress.placed_at(&own, Channel::Terminal, self.ingress.history().clock().now()).await
    }

    async fn say(&self, user: String, id: MessageId, text: String) -> Result<Response, Failure> {
        // A terminal that lost its connection sends the same message again.
        let now = self.ingress.history().clock().now();
        let said = Said { channel: Some(Channel::Terminal), ..Said::default() };
        let direct = self.ingress.direct_chat(&user, Some(&id), now, &said).await?;
        let DirectChat { chat, person, ts } = direct;
        telemetry::about(&chat);
        // Before the append, so that no part of the reply is missed.
        let listener = self.live.listen(&chat);
        let origin =
            Origin { chat_id: user.clone(), chat: chat.clone(), channel: Channel::Terminal, user_id: user };
        let draft =
            Draft::new(origin, id, ts).with_parts(vec![Part::text(&text)]).asking(true).of_person(person);
        let Some(command) = Command::parse(&text, None) else {
            let base = self.ingress.receive(&draft).await?.base;
            return Ok(self.stream(chat, Awaited::Answer(base, None), listener, None));
        };
        let commanded = self.ingress.command(&command, &draft).await?;
        let Some(confirmation) = commanded.confirmation else {
            let awaited = Awaited::Answer(commanded.appended.base, None);
            return Ok(self.stream(chat, awaited, listener, None));
        };
        let confirmed = Event::Confirmed { text: confirmation.text.clone() };
        self.ingress.confirmed(&draft, confirmation).await?;
        let resumed = match command {
            Command::Approve { .. } | Command::Deny { .. } => self.awaited(&chat).await?,
            _ => None,
        };
        Ok(match resumed {
            Some(awaited) => self.stream(chat, awaited, listener, Some(confirmed)),
            None => line(&confirmed).into_response(),
        })
    }

    /// Returns the reply in `chat` that is being made, or that an unanswered message waits for.
    async fn awaited(&self, chat: &ChatKey) -> Result<Option<Awaited>, IngressError> {
        let history = self.ingress.history();
        let head = history.head(chat).await?;
        let context = history.context(chat, &head, None, &self.view.policy(0)).await?.context;
        let resumed = head.turn.as_ref().and_then(|turn| Some(turn.resumes.as_ref()?.reply.clone()));
        if let Some(reply) = resumed.or_else(|| context.to_resume.into_iter().next_back()) {
            return Ok(Some(Awaited::Reply(reply)));
        }
        let unanswered = context.unanswered.into_iter().chain(context.to_compact).max();
        let answering = head.turn.and_then(|turn| turn.covers.last().cloned());
        Ok(unanswered.or(answering).map(|base| Awaited::Answer(base, None)))
    }

    /// Returns an answer that streams `first` and then the reply.
    fn stream(
        &self,
        chat: ChatKey,
        awaited: Awaited,
        listener: Option<Listener>,
        first: Option<Event>,
    ) -> Response {
        let history = self.ingress.history().clone();
        let clock = history.clock().clone();
        let follower = Follower::new(history, chat, awaited, listener, true);
        let span = Span::current();
        let next = move |(mut follower, first, is_over): (Follower, Option<Event>, bool)| {
            let clock = clock.clone();
            let next = async move {
                if is_over {
                    return None;
                }
                let event = match first {
                    Some(first) => first,
                    None => event(follower.next(clock.now().plus(MAX_SILENCE)).await),
                };
                let is_over = matches!(event, Event::Done { .. } | Event::Forgotten);
                Some((Ok::<_, Infallible>(line(&event)), (follower, None, is_over)))
            };
            next.instrument(span.clone())
        };
        let body = Body::from_stream(stream::unfold((follower, first, false), next));
        ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
    }
}

fn event(news: Option<News>) -> Event {
    match news {
        Some(News::Started(begun)) => Event::Begin { message_id: begun.message_id.clone() },
        Some(News::Reply(ReplyEvent::Text(text))) => Event::Text { delta: text.to_string() },
        Some(News::Reply(ReplyEvent::Reasoning(text))) => Event::Reasoning { delta: text.to_string() },
        Some(News::Reply(ReplyEvent::Void)) => Event::Void,
        Some(News::Reply(ReplyEvent::Parts(parts))) => Event::Parts { parts: parts.to_vec() },
        Some(News::Reply(ReplyEvent::Stored(record))) => {
            Event::Done { failed: is_failure_notice(&record), message: record.listed_for_admins() }
        }
        Some(News::Forgotten) => Event::Forgotten,
        Some(News::NotStored) | None => Event::Still,
    }
}

fn line(event: &Event) -> String {
    // Serialization cannot fail: every event is plain data.
    serde_json::to_string(event).unwrap_or_default() + "\n"
}
