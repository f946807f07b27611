//! The local program: the handlers of every function over the stores of one data directory.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use annals_agent::Agent;
use annals_agent::mcp::Servers;
use annals_channel::channel::Clients;
use annals_compactor::Compactor;
use annals_core::chat_key::ChatKey;
use annals_core::language::Language;
use annals_discord_relay::{DiscordHost, relay};
use annals_engine::delivery::Deliverer;
use annals_engine::ingress::Ingress;
use annals_engine::live::Live;
use annals_engine::scheduling::Scheduling;
use annals_engine::upkeep::Upkeep;
use annals_http::auth::caller;
use annals_http::chat::Web;
use annals_http::settings::{ApiKey, HttpConfig};
use annals_http::{AfterForgetting, Http};
use annals_io::clock::Clock;
use annals_io::metrics::Metrics;
use annals_model::{ModelSettings, Models};
use annals_relay::Relay;
use annals_runtime::problem::Problem;
use annals_runtime::telemetry;
use annals_store::history::{History, HistoryError};
use annals_store::queue::Turn;
use anyhow::{Context, anyhow};
use axum::extract::Request;
use axum::http::header::{ACCEPT_LANGUAGE, AUTHORIZATION};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::aws::Gateway;
use crate::config::LocalConfig;
use crate::guard::{Guard, only_local};
use crate::histories::history;
use crate::outbox::FileOutbox;
use crate::queue::{Failed, LocalQueue, Ready};
use crate::server::{self, HEADER_TIMEOUT};
use crate::status::Status;
use crate::stores::{DataLock, Stores, files, lock};
use crate::terminal::endpoint;
use crate::upkeep::{keep_clean, keep_schedules, keep_up};

/// Longest time that a run may hold a chat: longer than any run, since no other process could continue it.
const LEASE: Duration = Duration::from_hours(1);

/// Time for requests to complete at the end.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

/// A program that is ready to serve.
pub struct Program {
    /// Listener of the routes; `None` for a terminal's own program.
    listener: Option<TcpListener>,
    router: Router,
    queue: LocalQueue,
    ready: Ready,
    agent: Agent,
    compactor: Compactor,
    scheduling: Scheduling,
    stores: Stores,
    /// The future that serves terminals, or the error of their socket.
    terminal: anyhow::Result<BoxFuture<'static, ()>>,
    gateway: Option<Gateway>,
    relay: Option<Relay<DiscordHost>>,
    _lock: DataLock,
}

impl Program {
    /// Opens the data directory and binds the address.
    pub async fn start(config: LocalConfig, clock: Clock) -> anyhow::Result<Self> {
        Self::start_through(config, clock, |stores| stores).await
    }

    /// Like [`Program::start`], with the clients of the stores that `through` returns: tests put a proxy in front of the stores.
    pub async fn start_through(
        config: LocalConfig,
        clock: Clock,
        through: impl FnOnce(Stores) -> Stores,
    ) -> anyhow::Result<Self> {
        // Binds before it creates a data directory, which a failed start should not leave behind. If the directory
        // exists, a program that uses it probably has the address too, and the error of the lock names that program.
        let is_new = !config.data_dir.exists();
        let address = SocketAddr::new(config.host, config.port);
        let listener = if is_new { Some(bind(address).await?) } else { None };
        let data_lock = lock(&config.data_dir)?;
        let stores = through(Stores::open(&config.data_dir).await?);
        let mut program = Box::pin(Self::start_with(config, clock, data_lock, stores)).await?;
        program.listener = Some(match listener {
            Some(listener) => listener,
            None => bind(address).await?,
        });
        Ok(program)
    }

    /// Starts the program of a terminal that holds the lock of the data directory. It listens on no port.
    pub async fn start_locked(
        config: LocalConfig,
        clock: Clock,
        data_lock: DataLock,
    ) -> anyhow::Result<Self> {
        let stores = Stores::open(&config.data_dir).await?;
        let program = Box::pin(Self::start_with(config, clock, data_lock, stores)).await?;
        Ok(Self { terminal: Ok(program.terminal?), ..program })
    }

    #[allow(clippy::too_many_lines, reason = "wiring, one thing after the other")]
    async fn start_with(
        config: LocalConfig,
        clock: Clock,
        data_lock: DataLock,
        stores: Stores,
    ) -> anyhow::Result<Self> {
        let config = config.with_key()?;
        let history = history(&stores, config.retention.clone(), clock.clone());
        let (queue, ready) = LocalQueue::open(&config.data_dir, clock.clone())?;
        queue.take_over(&stores.dynamodb).await?;
        free(&queue, &stores, &history).await?;

        let guard = Arc::new(Guard::of(&config));
        let status = Arc::new(Status::new(clock.clone(), stores.clone()));
        let outbox_keys = config.outbox_keys();
        let api_keys = config.api_keys();
        let status_keys = api_keys.clone();
        let (mut platforms, mut confirming, mut webhooks) = (Vec::new(), Vec::new(), Vec::new());
        for channel in &config.channels {
            let served = channel.serve(config.key(), &config.channel_settings, &config.delivery, &clock);
            let (clients, route) = served.map_err(|error| anyhow!(error))?;
            webhooks.push(route);
            if let Some(Clients { agent, webhook }) = clients {
                platforms.push(agent);
                confirming.push(webhook);
            }
        }
        let outbox = Arc::new(FileOutbox::open(config.data_dir.join("outbox.jsonl"))?);
        let deliverer =
            Deliverer::new(platforms, Some(outbox.clone())).with_rate_limits(config.delivery.is_rate_limited);
        let (access, usage) = (config.ingress.access.clone(), Arc::clone(&config.ingress.usage));
        let ingress = Ingress::new(history.clone(), Arc::new(queue.clone()), config.ingress)
            .with_deliverer(Deliverer::new(confirming, Some(outbox.clone())));
        let models = models(&config.agent.model, &clock).await?;
        let upkeep = Upkeep { access, ..Upkeep::new(history.clone(), models.main().clone(), &config.agent) };
        let compactor = Compactor::new(history.clone(), upkeep);
        let scheduling = ingress.scheduling();
        let agent = Agent {
            deliverer,
            servers: config.tools.map(|tools| Arc::new(Servers::new(tools, clock.clone()))),
            live: Live::on(),
            stream_replies: config.delivery.stream_replies,
            lease: LEASE,
            quiet: config.reply_quiet,
            usage,
            outgoing: Some(ingress.clone()),
            ..Agent::new(history, models, &config.agent)
        };
        let agent = agent.with_profiles(config.profiles.clone())?;
        // A stream lasts as long as its run.
        let web = Web { live: agent.live.clone(), patience: LEASE, ..Web::buffered(ingress.clone()) };
        let terminal = endpoint::routes(web.clone(), config.agent.view);
        let terminal = endpoint::bind(terminal.layer(middleware::from_fn(to_the_end)), &config.data_dir);
        let channels =
            webhooks.into_iter().fold(Router::new(), |all, route| all.merge(route(ingress.clone())));
        let discord = config.relayed.as_ref();
        let relay = discord.map(|discord| relay(discord, &config.channel_settings, ingress.clone()));
        let http = HttpConfig {
            keys: api_keys,
            models: config.agent.model.names(),
            system_prompt: config.agent.system_prompt,
            cors_origins: config.cors_origins,
            console: config.console,
            rate_limit: config.rate_limit,
        };
        let documents = (config.agent.memory, config.profiles);
        let http = annals_http::router(Http {
            after_forgetting: Some(after_forgetting(stores.clone(), outbox.clone(), config.data_dir.clone())),
            ..Http::new(http, ingress, web, config.agent.view, documents)
        });
        let mut router = channels.merge(http).layer(middleware::from_fn(to_the_end));
        let status = get(async move |headers: HeaderMap| read_status(&status, &status_keys, &headers).await);
        router = router.route("/local/status", status.fallback(async || Problem::method_not_allowed()));
        if config.host.is_loopback() {
            let outbox = get(async move |headers: HeaderMap| read_outbox(&outbox, &outbox_keys, &headers));
            router = router
                .route("/local/outbox", outbox.fallback(async || Problem::method_not_allowed()))
                .layer(middleware::from_fn_with_state(guard, only_local));
        }
        let router = router.layer(middleware::from_fn(telemetry::with_request_id));

        Ok(Self {
            listener: None,
            router,
            queue,
            ready,
            agent,
            compactor,
            scheduling,
            stores,
            terminal,
            gateway: None,
            // Of two processes only one holds the lock, so the lease of one that died is free.
            relay: relay.transpose()?.map(|relay| relay.with_holder("local")),
            _lock: data_lock,
        })
    }

    /// Adds AWS's services at `address`, with the secrets of `config`.
    pub async fn with_aws(mut self, address: SocketAddr, config: &LocalConfig) -> anyhow::Result<Self> {
        let clock = self.agent.clock.clone();
        let gateway = Gateway::bind(address, config, &self.stores, self.queue.clone(), clock);
        self.gateway = Some(gateway.await?);
        Ok(self)
    }

    /// Returns AWS's services, if they are served.
    pub fn gateway(&self) -> Option<&Gateway> {
        self.gateway.as_ref()
    }

    /// Subscribes to failed runs.
    pub fn failures(&self) -> broadcast::Receiver<Failed> {
        self.queue.failures()
    }

    /// Returns the address of the routes.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        let listener = self.listener.as_ref().context("a terminal's program listens on no port")?;
        listener.local_addr().context("the listener has no address")
    }

    /// Serves until `shutdown`, then completes its requests. Pending turns run at the next start.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send + 'static) -> anyhow::Result<()> {
        let clock = self.agent.clock.clone();
        let turns = tokio::spawn(self.queue.run(self.agent, self.ready));
        // Ends its tasks when it is dropped.
        let mut others = JoinSet::new();
        others.spawn(keep_clean(self.stores.clone(), clock.clone()));
        others.spawn(keep_up(self.compactor, self.stores.dynamodb));
        others.spawn(keep_schedules(self.scheduling));
        match self.terminal {
            Ok(terminal) => drop(others.spawn(terminal)),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(
                    error,
                    "`annals chat` will not find this program: set ANNALS_DATA_DIR to another path"
                );
            }
        }
        if let Some(gateway) = self.gateway {
            others.spawn(gateway.serve());
        }
        // Not from a terminal's own program: the other channels do not receive there either.
        if let Some(relay) = self.relay.filter(|_| self.listener.is_some()) {
            others.spawn(run_relay(relay));
        }
        let (stopping, stopped) = tokio::sync::oneshot::channel();
        let shutdown = async move {
            shutdown.await;
            // The receiver lives until this server ends.
            let _ = stopping.send(());
        };
        let served = async {
            match self.listener {
                Some(listener) => server::serve(listener, self.router, HEADER_TIMEOUT, shutdown).await,
                None => shutdown.await,
            }
        };
        tokio::select! {
            () = served => {}
            // A request may wait for its reply longer than a person waits after Ctrl-C.
            () = async { drop(stopped.await); clock.sleep(SHUTDOWN_GRACE).await } => {}
        }
        turns.abort();
        // A terminal may open the directory again, which releases the chats of runs that have ended.
        drop(turns.await);
        Ok(())
    }
}

/// Relays Discord's gateway until it is aborted, which is as good as a crash: nothing is lost by it.
async fn run_relay(relay: Relay<DiscordHost>) {
    if let Err(error) = relay.run(std::future::pending()).await {
        tracing::error!(%error, "the relay of Discord's gateway has stopped; start Annals again after the repair");
    }
}

/// Releases the chats of the last process, and queues the turns that it has committed to. No other process uses this directory,
/// so its runs have ended with it. The queue does not name all of their chats: after a power cut it may be older or newer than
/// the table.
async fn free(queue: &LocalQueue, stores: &Stores, history: &History) -> anyhow::Result<()> {
    let pending = queue.pending();
    for chat in stores.chats().await? {
        let (head, is_running) = match history.head_and_run(&chat).await {
            Err(HistoryError::Head(error)) => {
                tracing::error!(%error, "failed to release a chat; its messages wait for the repair");
                continue;
            }
            head => head?,
        };
        if is_running {
            history.free(&chat).await?;
        }
        let committed = head.turn.and_then(|turn| turn.covers.into_iter().next());
        if let Some(from) = committed.filter(|_| !pending.contains(&chat)) {
            queue.send(&Turn { chat, from, at: None }).await?;
        }
    }
    Ok(())
}

/// Returns a function that removes the data of a forgotten chat outside the table and the bucket: its replies in the
/// outbox, for a direct chat what was typed into `annals chat` in `data_dir`, and the deleted text in the database files.
fn after_forgetting(stores: Stores, outbox: Arc<FileOutbox>, data_dir: PathBuf) -> AfterForgetting {
    Arc::new(move |names: Vec<ChatKey>| {
        let (stores, outbox, typed) =
            (stores.clone(), outbox.clone(), data_dir.join(files::TERMINAL_HISTORY));
        Box::pin(async move {
            let removed = async {
                outbox.forget(&names)?;
                stores.purge().await?;
                // Emptied, not deleted: a prompt that is open would write all its lines again.
                if names.iter().any(|name| name.person().is_some())
                    && let Err(error) = OpenOptions::new().write(true).truncate(true).open(&typed)
                    && error.kind() != ErrorKind::NotFound
                {
                    return Err(error).with_context(|| format!("failed to empty {}", typed.display()));
                }
                Ok(())
            };
            removed.await.map_err(|error| format!("{error:#}"))
        })
    })
}

/// Returns the replies in the outbox to a caller with an admin key of `keys`, or to any caller if there are no keys.
fn read_outbox(outbox: &FileOutbox, keys: &[ApiKey], headers: &HeaderMap) -> Result<Response, Problem> {
    if keys.is_empty() || is_admin(keys, headers) {
        return Ok(Json(outbox.entries()).into_response());
    }
    Err(Problem::unauthorized("the outbox needs an admin's API key, as 'Authorization: Bearer <key>'"))
}

/// Returns the results of the checks of `doctor`, in the language of `Accept-Language`, to a caller with an admin key of `keys`.
async fn read_status(status: &Status, keys: &[ApiKey], headers: &HeaderMap) -> Result<Response, Problem> {
    if is_admin(keys, headers) {
        let wanted = headers.get(ACCEPT_LANGUAGE).and_then(|header| header.to_str().ok());
        let wanted = wanted.and_then(Language::most_wanted).and_then(Language::of_tag);
        return Ok(Json(status.read(wanted.unwrap_or(Language::En)).await).into_response());
    }
    Err(Problem::unauthorized("the status needs an admin's API key, as 'Authorization: Bearer <key>'"))
}

fn is_admin(keys: &[ApiKey], headers: &HeaderMap) -> bool {
    let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    caller(given, keys).is_some_and(|caller| caller.admin)
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::AddrNotAvailable => "set ANNALS_HOST to an address of this machine",
            _ => "set ANNALS_PORT to a free port, or to 0 for any",
        };
        anyhow::Error::new(error).context(format!("cannot listen on {address}: {remedy}"))
    })
}

/// Completes a handler even if its caller disconnects: between the append and the queueing of a turn, nothing else
/// would continue it. Callers of a Lambda function cannot disconnect.
async fn to_the_end(request: Request, next: Next) -> Response {
    // The task can only fail by a panic.
    tokio::spawn(next.run(request)).await.unwrap_or_else(|_| Problem::internal().into_response())
}

/// Returns the models, with this machine's AWS credentials if they need them.
async fn models(settings: &ModelSettings, clock: &Clock) -> anyhow::Result<Models> {
    let aws = if settings.needs_aws() { Some(Box::pin(annals_aws::config::anywhere()).await) } else { None };
    Ok(Models::new(settings, clock, aws.as_ref(), &Metrics::default())?)
}
