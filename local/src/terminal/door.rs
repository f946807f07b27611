//! The terminal's way into the program that has the data directory: [`Door`].
//!
//! | route | what |
//! | --- | --- |
//! | `POST /say` | `{id, text}`: appends and queues what is said, or does what the command says; then the reply as it is made |
//! | `GET /pending` | the reply that is being made or waited for, from its beginning; 204 where none is |
//! | `GET /history?limit=` | the last messages, as listed |
//!
//! HTTP over the Unix socket `.annals/terminal.sock`, which its owner alone may open.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annals_shared::chat_key::ChatKey;
use annals_shared::clock::Clock;
use annals_shared::command::Command;
use annals_shared::config::ViewConfig;
use annals_shared::history::Position;
use annals_shared::ingress::{Ingress, IngressError};
use annals_shared::live::Live;
use annals_shared::message::{Part, Role, UiMessage};
use annals_shared::record::{Channel, Draft, Kind};
use annals_shared::sort_key::MessageId;
use annals_shared::telemetry;
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
use tokio::sync::mpsc;
use tracing::Instrument;

use super::USER;
use super::follow::{Awaited, Follower};
use super::wire::{Event, Say};
use crate::said::plain;

/// The socket's name in the data directory.
pub(crate) const SOCKET: &str = "terminal.sock";

/// How many pieces wait for a slow terminal.
const WAITING_EVENTS: usize = 256;

/// What the terminal needs of the program.
#[derive(Clone)]
pub struct Door {
    pub(super) ingress: Ingress,
    /// Where the runs of this process are heard.
    live: Live,
    /// What decides a context.
    view: ViewConfig,
    pub(super) clock: Clock,
}

/// The socket of the program that works on `data_dir`.
pub(super) fn socket(data_dir: &Path) -> PathBuf {
    data_dir.join(SOCKET)
}

/// A door that is bound, and not open yet.
pub struct Bound {
    #[cfg(unix)]
    listener: UnixListener,
    #[cfg(unix)]
    router: Router,
}

impl Door {
    /// One to the histories of `ingress`, in whose process `live` is heard.
    pub fn new(ingress: Ingress, live: Live, view: ViewConfig) -> Self {
        let clock = ingress.history().clock().clone();
        Self { ingress, live, view, clock }
    }

    /// Binds the socket of `data_dir`, whose lock the caller holds.
    #[cfg(unix)]
    pub fn bind(self, data_dir: &Path) -> anyhow::Result<Bound> {
        use std::os::unix::fs::PermissionsExt;
        let path = socket(data_dir);
        let cannot = || format!("cannot listen on {}", path.display());
        // Of a program that has ended: nobody else has the lock.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(cannot);
            }
            _ => {}
        }
        let listener = UnixListener::bind(&path).with_context(cannot)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).with_context(cannot)?;
        let router = Router::new()
            .route("/say", post(say))
            .route("/pending", get(pending))
            .route("/history", get(history))
            .with_state(Arc::new(self));
        Ok(Bound { listener, router })
    }

    /// Fails: a system without Unix sockets has no way for the terminal.
    #[cfg(not(unix))]
    pub fn bind(self, _: &Path) -> anyhow::Result<Bound> {
        anyhow::bail!("`annals chat` needs Unix sockets, which this system does not have")
    }
}

impl Bound {
    /// Opens it for as long as the program runs.
    pub async fn serve(self) {
        #[cfg(unix)]
        if let Err(error) = axum::serve(self.listener, self.router).await {
            tracing::error!(%error, "the terminal's socket has closed");
        }
    }
}

/// What went wrong, for the person whose program it is.
struct Failure(String);

impl<E: Into<IngressError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(plain(&error.into().to_string()))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        tracing::error!(error = self.0, "the terminal's request failed");
        (StatusCode::SERVICE_UNAVAILABLE, self.0).into_response()
    }
}

async fn say(State(door): State<Arc<Door>>, Json(Say { id, text }): Json<Say>) -> Result<Response, Failure> {
    let failed = |error: &dyn std::error::Error| Failure(error.to_string());
    let chat = door.chat().map_err(|error| failed(&error))?;
    let id = MessageId::new(id).map_err(|error| failed(&error))?;
    // To its end, also where the terminal is closed between the append and the turn.
    let said = tokio::spawn(Box::pin(door.say(chat, id, text)).in_current_span()).await;
    said.map_err(|error| failed(&error))?
}

async fn pending(State(door): State<Arc<Door>>) -> Result<Response, Failure> {
    let chat = door.chat().map_err(|error| Failure(error.to_string()))?;
    let listener = door.live.listen(&chat);
    let Some(awaited) = door.awaited(&chat).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    Ok(streamed(Follower { door, chat, awaited, listener }, None))
}

#[derive(Deserialize)]
struct Limit {
    limit: usize,
}

async fn history(
    State(door): State<Arc<Door>>,
    Query(Limit { limit }): Query<Limit>,
) -> Result<Json<Vec<UiMessage>>, Failure> {
    let chat = door.chat().map_err(|error| Failure(error.to_string()))?;
    let page = door.ingress.history().page(&chat, &Position::Newest, limit).await?;
    Ok(Json(page.records.iter().map(annals_shared::record::Record::listed).collect()))
}

impl Door {
    /// The chat of the person at the terminal, through every door.
    fn chat(&self) -> Result<ChatKey, annals_shared::chat_key::KeyError> {
        ChatKey::direct(self.ingress.agent_id(), USER)
    }

    async fn say(self: Arc<Self>, chat: ChatKey, id: MessageId, text: String) -> Result<Response, Failure> {
        telemetry::about(&chat);
        // Before the append, so that nothing of its reply is missed.
        let listener = self.live.listen(&chat);
        let history = self.ingress.history();
        // A terminal that does not know whether it was heard says the same once more.
        let ts = history.first_time(&chat, &id, self.clock.now()).await?;
        let draft = Draft {
            chat_id: chat.chat_id().to_owned(),
            chat: chat.clone(),
            channel: Channel::Terminal,
            user_id: USER.to_owned(),
            message_id: id,
            ts,
            form_ts: None,
            role: Role::User,
            kind: Kind::Normal,
            parts: vec![Part::text(&text)],
            metadata: serde_json::Map::new(),
            album: None,
            asks: true,
            opens_session: false,
            person: Some(USER.to_owned()),
        };
        let Some(command) = Command::parse(&text, None) else {
            let base = self.ingress.receive(&draft).await?.base;
            let awaited = Awaited::Answer(base);
            return Ok(streamed(Follower { door: self, chat, awaited, listener }, None));
        };
        let commanded = self.ingress.command(&command, &draft).await?;
        let Some(confirmation) = commanded.confirmation else {
            let awaited = Awaited::Answer(commanded.appended.base);
            return Ok(streamed(Follower { door: self, chat, awaited, listener }, None));
        };
        let told = Event::Told { text: confirmation.text.clone() };
        self.ingress.confirmed(&draft, confirmation).await?;
        let goes_on = match command {
            Command::Approve { .. } | Command::Deny { .. } => self.awaited(&chat).await?,
            _ => None,
        };
        match goes_on {
            Some(awaited) => {
                let follower = Follower { door: self, chat, awaited, listener };
                Ok(streamed(follower, Some(told)))
            }
            None => Ok(line(&told).into_response()),
        }
    }

    /// What is being answered in `chat`, or waits for it.
    async fn awaited(&self, chat: &ChatKey) -> Result<Option<Awaited>, IngressError> {
        let history = self.ingress.history();
        let head = history.head(chat).await?;
        let context = history.context(chat, &head, None, &self.view.policy(0)).await?.context;
        let goes_on = head.turn.as_ref().and_then(|turn| Some(turn.resumes.as_ref()?.reply.clone()));
        if let Some(reply) = goes_on.or_else(|| context.to_resume.into_iter().next_back()) {
            return Ok(Some(Awaited::Reply(reply)));
        }
        let waiting = context.unanswered.into_iter().chain(context.to_compact).max();
        let open = head.turn.and_then(|turn| turn.covers.last().cloned());
        Ok(waiting.or(open).map(Awaited::Answer))
    }
}

fn line(event: &Event) -> String {
    // Every event is plain data.
    serde_json::to_string(event).unwrap_or_default() + "\n"
}

fn streamed(follower: Follower, first: Option<Event>) -> Response {
    let (events, waiting) = mpsc::channel(WAITING_EVENTS);
    let follow = async move {
        if let Some(first) = first
            && events.send(first).await.is_err()
        {
            return;
        }
        follower.follow(events).await;
    };
    tokio::spawn(follow.in_current_span());
    let next = async |mut waiting: mpsc::Receiver<Event>| {
        waiting.recv().await.map(|event| (Ok::<_, Infallible>(line(&event)), waiting))
    };
    let body = Body::from_stream(stream::unfold(waiting, next));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}
