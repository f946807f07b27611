//! The local program: the handlers of every function over the stores of one data directory.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use annals_agent::Agent;
use annals_agent::mcp::Servers;
use annals_agent::surroundings::Surroundings;
use annals_compactor::Compactor;
use annals_http::auth::caller;
use annals_http::chat::Web;
use annals_http::limit::Limits;
use annals_http::{AfterForgetting, Http, random_id};
use annals_lark::Lark;
use annals_shared::aws;
use annals_shared::channel::lark::client::{APP_PACE, Client as LarkClient};
use annals_shared::channel::settings::Settings;
use annals_shared::channel::telegram::client::{BOT_PACE, Client};
use annals_shared::chat_key::ChatKey;
use annals_shared::clock::Clock;
use annals_shared::config::{ApiKey, DeliveryConfig, LarkConfig, TelegramConfig, ToolsSetting};
use annals_shared::delivery::Deliverer;
use annals_shared::history::{History, Retention};
use annals_shared::ingress::{Approvers, Ingress};
use annals_shared::live::Live;
use annals_shared::metrics::Metrics;
use annals_shared::model::{Model, ModelSettings};
use annals_shared::problem::Problem;
use annals_shared::telemetry;
use annals_shared::upkeep::Upkeep;
use annals_telegram::{Identity, Telegram, WEBHOOK_PATIENCE};
use anyhow::Context;
use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::sync::broadcast;

use crate::aws::{Gateway, Plan};
use crate::config::LocalConfig;
use crate::guard::{Guard, only_local};
use crate::outbox::FileOutbox;
use crate::queue::{Failed, LocalQueue, Ready};
use crate::server::{self, HEADER_TIMEOUT};
use crate::stores::{BUCKET, DataLock, Stores, TABLE, check_writable, lock, make};
use crate::terminal::door::{Bound, Door};
use crate::upkeep::keep_up;

/// The bot that stands in where Telegram is not set up: `@annals_bot`, with an id that Telegram gives nobody.
const LOCAL_BOT: (i64, &str) = (1, "annals_bot");

/// The bot that stands in where Lark is not set up, as mentions name it.
const LOCAL_LARK_BOT: &str = "ou_annals";

/// How long a run may hold a chat: longer than any lasts, since no other process is there to take it over.
const LEASE: Duration = Duration::from_hours(1);

/// How long requests under way may still take at the end.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

/// A program that is ready to serve.
pub struct Program {
    /// The port of the routes; `None` for a terminal's own program.
    listener: Option<TcpListener>,
    router: Router,
    queue: LocalQueue,
    ready: Ready,
    agent: Agent,
    compactor: Compactor,
    stores: Stores,
    /// The terminal's socket, or the reason why there is none.
    terminal: anyhow::Result<Bound>,
    gateway: Option<Gateway>,
    _lock: DataLock,
}

impl Program {
    /// Opens the data directory and binds the address.
    pub async fn start(config: LocalConfig, clock: Clock) -> anyhow::Result<Self> {
        // Before a data directory is made, which a start that fails should not leave behind. Where one is, whoever works on it
        // mostly has the address too, and is to be named.
        let is_new = !config.data_dir.exists();
        let address = SocketAddr::new(config.host, config.port);
        let listener = if is_new { Some(bind(address).await?) } else { None };
        let data_lock = lock(&config.data_dir)?;
        let mut program = Box::pin(Self::start_with(config, clock, data_lock)).await?;
        program.listener = Some(match listener {
            Some(listener) => listener,
            None => bind(address).await?,
        });
        Ok(program)
    }

    /// The program of a terminal, which has the data directory's lock: it listens on no port.
    pub async fn start_locked(
        config: LocalConfig,
        clock: Clock,
        data_lock: DataLock,
    ) -> anyhow::Result<Self> {
        let program = Box::pin(Self::start_with(config, clock, data_lock)).await?;
        Ok(Self { terminal: Ok(program.terminal?), ..program })
    }

    #[allow(clippy::too_many_lines, reason = "wiring, one thing after the other")]
    async fn start_with(config: LocalConfig, clock: Clock, data_lock: DataLock) -> anyhow::Result<Self> {
        let config = config.with_key()?;
        let stores = Stores::open(&config.data_dir).await?;
        let history = history(&stores, config.retention.clone(), clock.clone());
        let (queue, ready) = LocalQueue::open(stores.dynamodb.clone(), clock.clone()).await?;
        free(&queue, &history).await?;

        let guard = Arc::new(Guard::of(&config));
        let outbox_keys = config.outbox_keys();
        let (lark_token, telegram_secret) = (config.lark_token(), config.telegram_secret());
        let api_keys = config.api_keys();
        let of_lark = OfLark::new(config.lark, &config.channel_settings, config.delivery, &clock)?;
        let (identity, client) = telegram(config.telegram, config.delivery, &clock)?;
        let outbox = Arc::new(FileOutbox::open(config.data_dir.join("outbox.jsonl"))?);
        let deliverer = Deliverer::new(client.clone(), of_lark.client.clone(), Some(outbox.clone()))
            .with_paces(config.delivery.is_paced);
        let confirmer = Deliverer::new(
            client.map(|client| client.with_patience(WEBHOOK_PATIENCE)),
            of_lark.client.map(|client| client.with_patience(annals_lark::WEBHOOK_PATIENCE)),
            Some(outbox.clone()),
        );
        let approvers = Approvers { admins: config.admins.into(), platforms: Some(confirmer.clone()) };
        let ingress = Ingress::new(history.clone(), Arc::new(queue.clone()), config.agent.agent_id.clone())
            .with_approvers(approvers)
            .with_access(config.access.clone())
            .with_memory(config.agent.memory.is_on);
        let model = model(&config.agent.model, &clock).await?;
        let upkeep =
            Upkeep { access: config.access, ..Upkeep::new(history.clone(), model.clone(), &config.agent) };
        let compactor = Compactor::new(history.clone(), upkeep);
        let agent = Agent {
            history,
            model,
            deliverer,
            surroundings: of_lark.surroundings,
            servers: servers(config.tools, clock.clone())?,
            memory: config.agent.memory,
            view: config.agent.view,
            system_prompt: config.agent.system_prompt.clone(),
            agent_id: config.agent.agent_id.clone(),
            metrics: Metrics::default(),
            live: Live::on(),
            stream_replies: config.delivery.stream_replies,
            lease: LEASE,
            quiet: config.reply_quiet,
            clock: clock.clone(),
        };
        let terminal = Door::new(ingress.clone(), agent.live.clone(), config.agent.view);
        let terminal = terminal.bind(&config.data_dir);
        let telegram = annals_telegram::router(Telegram {
            ingress: ingress.clone(),
            deliverer: confirmer.clone(),
            settings: config.channel_settings.clone(),
            secret: telegram_secret,
            identity,
            clock: clock.clone(),
        });
        let lark = annals_lark::router(Lark {
            ingress: ingress.clone(),
            deliverer: confirmer,
            settings: config.channel_settings,
            verification_token: lark_token,
            encrypt_key: of_lark.encrypt_key,
            identity: of_lark.identity,
            clock: clock.clone(),
        });
        let http = annals_http::router(Http {
            after_forgetting: Some(after_forgetting(stores.clone(), outbox.clone())),
            // A stream is as long as its run, which goes on until it is over.
            web: Web { ingress: ingress.clone(), live: agent.live.clone(), run: None, patience: LEASE },
            ingress,
            keys: api_keys,
            view: config.agent.view,
            memory: config.agent.memory,
            system_prompt: config.agent.system_prompt,
            cors_origins: config.cors_origins,
            console: config.console,
            limits: Limits::new(config.rate_limit),
            new_id: random_id,
            clock,
        });
        let mut router = telegram.merge(lark).merge(http).layer(middleware::from_fn(to_the_end));
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
            stores,
            terminal,
            gateway: None,
            _lock: data_lock,
        })
    }

    /// The same, with AWS's services too.
    pub async fn with_aws(mut self, plan: Plan) -> anyhow::Result<Self> {
        let clock = self.agent.clock.clone();
        self.gateway = Some(Gateway::bind(plan, &self.stores, self.queue.clone(), clock).await?);
        Ok(self)
    }

    /// AWS's services, if there are.
    pub fn gateway(&self) -> Option<&Gateway> {
        self.gateway.as_ref()
    }

    /// The runs that fail from now on.
    pub fn failures(&self) -> broadcast::Receiver<Failed> {
        self.queue.failures()
    }

    /// The address of the routes.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        let listener = self.listener.as_ref().context("a terminal's program listens on no port")?;
        listener.local_addr().context("the listener has no address")
    }

    /// Serves until `shutdown`, then ends what is under way; turns that still wait run at the next start.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send + 'static) -> anyhow::Result<()> {
        let clock = self.agent.clock.clone();
        let turns = tokio::spawn(self.queue.run(self.agent, self.ready));
        let upkeep = tokio::spawn(keep_up(self.compactor, self.stores.dynamodb));
        let terminal = match self.terminal {
            Ok(terminal) => Some(tokio::spawn(terminal.serve())),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(
                    error,
                    "`annals chat` will not find this program: set ANNALS_DATA_DIR to another path"
                );
                None
            }
        };
        let gateway = self.gateway.map(|gateway| tokio::spawn(gateway.serve()));
        let (stopping, stopped) = tokio::sync::oneshot::channel();
        let shutdown = async move {
            shutdown.await;
            // Its receiver lives until this server ends.
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
            // A request may wait for a reply that takes longer than people wait for Ctrl-C.
            () = async { drop(stopped.await); clock.sleep(SHUTDOWN_GRACE).await } => {}
        }
        turns.abort();
        upkeep.abort();
        for task in [terminal, gateway].into_iter().flatten() {
            task.abort();
        }
        Ok(())
    }
}

/// What the program has of Lark.
struct OfLark {
    identity: annals_lark::Identity,
    client: Option<LarkClient>,
    encrypt_key: Option<SecretString>,
    surroundings: Option<Surroundings>,
}

impl OfLark {
    fn new(
        lark: Option<LarkConfig>,
        settings: &Settings,
        delivery: DeliveryConfig,
        clock: &Clock,
    ) -> anyhow::Result<Self> {
        let Some(lark) = lark else {
            let identity = annals_lark::Identity::local(LOCAL_LARK_BOT);
            return Ok(Self { identity, client: None, encrypt_key: None, surroundings: None });
        };
        let client = LarkClient::new(&lark.api_base, lark.app_id.clone(), lark.app_secret, clock.clone())?
            .with_pace(delivery.share(APP_PACE));
        let surroundings =
            Surroundings::new(client.clone(), lark.app_id.clone(), settings.clone(), lark.group_context);
        let asking = client.clone().with_patience(annals_lark::WEBHOOK_PATIENCE);
        let identity = annals_lark::Identity::asked_for(lark.app_id, asking);
        Ok(Self { identity, client: Some(client), encrypt_key: lark.encrypt_key, surroundings })
    }
}

/// Frees what the last process had: nobody else works on this directory, so a run that still has its chat died with it.
async fn free(queue: &LocalQueue, history: &History) -> anyhow::Result<()> {
    for chat in queue.pending() {
        history.free(&chat).await?;
    }
    Ok(())
}

/// Removes what this program keeps of a forgotten chat beside the tables and the bucket: what the outbox has of it, and the
/// deleted text in the database file.
fn after_forgetting(stores: Stores, outbox: Arc<FileOutbox>) -> AfterForgetting {
    Arc::new(move |names: Vec<ChatKey>| {
        let (stores, outbox) = (stores.clone(), outbox.clone());
        Box::pin(async move {
            let removed = async {
                outbox.forget(&names)?;
                stores.purge().await
            };
            removed.await.map_err(|error| format!("{error:#}"))
        })
    })
}

/// The replies in the outbox, for whoever has one of `keys` that is an admin's; for anyone if there are no keys.
fn read_outbox(outbox: &FileOutbox, keys: &[ApiKey], headers: &HeaderMap) -> Result<Response, Problem> {
    let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    if keys.is_empty() || caller(given, keys).is_some_and(|caller| caller.admin) {
        return Ok(Json(outbox.entries()).into_response());
    }
    Err(Problem::unauthorized("the outbox needs an admin's API key, as 'Authorization: Bearer <key>'"))
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

/// Lets a handler end what it has begun, also where its caller hangs up: between the append and the queueing of a turn
/// nobody else would go on. A Lambda function has no callers that can hang up.
async fn to_the_end(request: Request, next: Next) -> Response {
    // It ends otherwise by a panic alone.
    tokio::spawn(next.run(request)).await.unwrap_or_else(|_| Problem::internal().into_response())
}

/// Who the bot of Telegram is, and its line there if it has one.
fn telegram(
    config: Option<TelegramConfig>,
    delivery: DeliveryConfig,
    clock: &Clock,
) -> anyhow::Result<(Identity, Option<Client>)> {
    let Some(config) = config else { return Ok((Identity::local(LOCAL_BOT.0, LOCAL_BOT.1), None)) };
    let client =
        Client::new(&config.api_base, config.token, clock.clone())?.with_pace(delivery.share(BOT_PACE));
    Ok((Identity::asked_for(config.bot_id, client.clone()), Some(client)))
}

/// The model, which may be one that is asked as whom this machine is signed in to AWS.
async fn model(settings: &ModelSettings, clock: &Clock) -> anyhow::Result<Model> {
    let aws = if settings.needs_aws() { Some(Box::pin(aws::sdk_config()).await) } else { None };
    Ok(Model::new(settings, clock, aws.as_ref())?)
}

/// The servers of `TOOLS`.
fn servers(tools: Option<ToolsSetting>, clock: Clock) -> anyhow::Result<Option<Arc<Servers>>> {
    match tools {
        None => Ok(None),
        Some(ToolsSetting::Given(tools)) => Ok(Some(Arc::new(Servers::new(tools, clock)))),
        Some(ToolsSetting::Stored { .. }) => {
            anyhow::bail!(
                "TOOLS names an object of S3, which only a deployed agent reads: give the document itself"
            )
        }
    }
}

/// The histories of a data directory, for commands that only read.
pub async fn open_history(data_dir: &Path, retention: Retention, clock: Clock) -> anyhow::Result<History> {
    let is_there = data_dir
        .join("dynamodb.db")
        .try_exists()
        .with_context(|| format!("{} cannot be read by this user", data_dir.display()))?;
    anyhow::ensure!(
        is_there,
        "there is no data in {}: start Annals there first (cargo run), or set ANNALS_DATA_DIR",
        data_dir.display()
    );
    Ok(history(&Stores::open(data_dir).await?, retention, clock))
}

/// The same for commands that write, also in a data directory in which there is nothing yet.
pub async fn new_history(data_dir: &Path, retention: Retention, clock: Clock) -> anyhow::Result<History> {
    make(data_dir)?;
    check_writable(data_dir)?;
    Ok(history(&Stores::open(data_dir).await?, retention, clock))
}

fn history(stores: &Stores, retention: Retention, clock: Clock) -> History {
    History::new(stores.dynamodb.clone(), TABLE.into(), stores.s3.clone(), BUCKET.into(), clock, retention)
}
