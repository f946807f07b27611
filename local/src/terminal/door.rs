//! The terminal's way into the program that has the data directory: [`Door`].
//!
//! | route | what |
//! | --- | --- |
//! | `POST /say` | `{id, text}`: appends and queues what is said, or does what the command says; then the reply as it is made |
//! | `GET /pending` | the reply that is being made or waited for, from its beginning; 204 where none is |
//! | `GET /history?limit=` | the last messages, as listed |
//!
//! `.annals/terminal.json`, for its owner alone: `{"url": "http://127.0.0.1:41873", "token": "<64 hex digits>"}`.

use std::convert::Infallible;
use std::net::Ipv4Addr;
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
use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::stream;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tracing::Instrument;

use super::USER;
use super::follow::{Awaited, Follower};
use super::wire::{Event, Say};
use crate::said::plain;
use crate::stores::random_hex;

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

/// Where a door is, and what it opens by.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Address {
    pub(super) url: String,
    pub(super) token: String,
}

impl Address {
    fn path(data_dir: &Path) -> PathBuf {
        data_dir.join("terminal.json")
    }

    /// The address that the program of `data_dir` has left, if it is whole.
    pub(super) fn read(data_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(Self::path(data_dir)).ok()?).ok()
    }

    /// Leaves it for the owner of `data_dir` alone, whole or not at all.
    fn write(&self, data_dir: &Path) -> anyhow::Result<()> {
        let (path, new) = (Self::path(data_dir), data_dir.join("terminal.json.new"));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // What a crash has left may be another's.
        drop(std::fs::remove_file(&new));
        let file = options.open(&new).with_context(|| format!("cannot write {}", new.display()))?;
        serde_json::to_writer(file, self)?;
        std::fs::rename(&new, &path).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// A door that is bound, and not open yet.
pub struct Bound {
    listener: TcpListener,
    address: Address,
    data_dir: PathBuf,
    router: Router,
}

impl Door {
    /// One to the histories of `ingress`, in whose process `live` is heard.
    pub fn new(ingress: Ingress, live: Live, view: ViewConfig) -> Self {
        let clock = ingress.history().clock().clone();
        Self { ingress, live, view, clock }
    }

    /// Binds it on a free loopback port. Nobody knows where before [`Bound::serve`].
    pub async fn bind(self, data_dir: &Path) -> anyhow::Result<Bound> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no free port on 127.0.0.1")?;
        let address =
            Address { url: format!("http://{}", listener.local_addr()?), token: random_hex::<32>()? };
        let token: Arc<str> = format!("Bearer {}", address.token).into();
        let router = Router::new()
            .route("/say", post(say))
            .route("/pending", get(pending))
            .route("/history", get(history))
            .with_state(Arc::new(self))
            .layer(from_fn_with_state(token, only_with_token));
        Ok(Bound { listener, address, data_dir: data_dir.to_owned(), router })
    }
}

impl Bound {
    /// Opens it for as long as the program runs.
    pub async fn serve(self) {
        if let Err(error) = self.address.write(&self.data_dir) {
            tracing::warn!(error = format!("{error:#}"), "`annals chat` will not find this program");
        }
        if let Err(error) = axum::serve(self.listener, self.router).await {
            tracing::error!(%error, "the terminal's door has closed");
        }
    }
}

async fn only_with_token(
    State(token): State<Arc<str>>,
    headers: HeaderMap,
    request: Request,
    next: Next,
) -> Response {
    let given = headers.get(header::AUTHORIZATION).map_or(&b""[..], |value| value.as_bytes());
    match verify_slices_are_equal(given, token.as_bytes()) {
        Ok(()) => next.run(request).await,
        Err(_) => StatusCode::UNAUTHORIZED.into_response(),
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
