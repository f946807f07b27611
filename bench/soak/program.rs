//! The real program, killed and started again: `SIGKILL`, so that nothing of it gets to run.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::world::World;

/// What was killed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Killed {
    pub(crate) times: u64,
    /// Requests to the model that were under way then: of as many runs.
    pub(crate) at_the_model: usize,
}

/// The program and who kills it.
pub(crate) struct Program {
    handle: Handle,
    spared: Arc<AtomicBool>,
    supervisor: JoinHandle<(Killed, Running)>,
}

/// How the program is reached, wherever it is now.
#[derive(Clone)]
pub(crate) struct Handle {
    client: reqwest::Client,
    base: watch::Receiver<Option<String>>,
    again: Arc<AtomicU64>,
}

impl Handle {
    /// Posts once the program runs; whether it was acknowledged.
    pub(crate) async fn post(&self, path: &str, (name, value): (&str, &str), body: &Value) -> bool {
        let base = self.base().await;
        let sent = self.client.post(format!("{base}{path}")).header(name, value).json(body).send().await;
        let acknowledged = sent.is_ok_and(|response| {
            let status = response.status();
            assert!(!status.is_client_error(), "{path} is refused: {status}");
            status.is_success()
        });
        if !acknowledged {
            self.again.fetch_add(1, Ordering::Relaxed);
        }
        acknowledged
    }

    /// Deletes a chat, however often that takes.
    pub(crate) async fn delete(&self, chat: &str) {
        loop {
            let base = self.base().await;
            let sent = self.client.delete(format!("{base}/v1/chats/{chat}")).bearer_auth("dev").send().await;
            if sent.is_ok_and(|response| response.status().is_success()) {
                return;
            }
            self.again.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn base(&self) -> String {
        let mut base = self.base.clone();
        base.wait_for(Option::is_some).await.unwrap().clone().unwrap()
    }

    /// Whether nothing waits for an answer.
    async fn is_at_rest(&self) -> bool {
        let mut before = String::new();
        loop {
            let base = self.base().await;
            let page =
                self.client.get(format!("{base}/v1/chats?limit=100{before}")).bearer_auth("dev").send().await;
            let page: Value = page.unwrap().error_for_status().unwrap().json().await.unwrap();
            if page["chats"].as_array().unwrap().iter().any(|chat| !chat["pendingTurn"].is_null()) {
                return false;
            }
            let Some(cursor) = page["before"].as_str() else { return true };
            before = format!("&before={cursor}");
        }
    }
}

impl Program {
    /// Starts it, and kills it again and again: it lives for `life` on average, up to twice that, as `seed` has it.
    pub(crate) fn start(
        program: PathBuf,
        data: &Path,
        world: &Arc<World>,
        life: Duration,
        seed: u64,
    ) -> Self {
        let (told, base) = watch::channel(None);
        let handle = Handle { client: reqwest::Client::new(), base, again: Arc::default() };
        let spared = Arc::new(AtomicBool::new(false));
        let supervisor = Supervisor {
            program,
            data: data.to_owned(),
            world: Arc::clone(world),
            told,
            spared: Arc::clone(&spared),
            life,
            rng: fastrand::Rng::with_seed(seed),
        };
        Self { handle, spared, supervisor: tokio::spawn(supervisor.supervise()) }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Kills it no more, waits until every turn is done, and ends it.
    pub(crate) async fn come_to_rest(self, world: &World, patience: Duration) -> Report {
        self.spared.store(true, Ordering::Relaxed);
        let (killed, _running) = self.supervisor.await.unwrap();
        let deadline = Instant::now() + patience;
        // Twice, since a turn that waits in the queue of the program alone shows in neither.
        let mut times = 0;
        while times < 2 {
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert!(Instant::now() < deadline, "turns still wait after {patience:?}");
            let rests = world.model.running() == 0 && self.handle.is_at_rest().await;
            times = if rests { times + 1 } else { 0 };
        }
        Report { killed, again: self.handle.again.load(Ordering::Relaxed) }
    }
}

/// What came to pass.
pub(crate) struct Report {
    pub(crate) killed: Killed,
    /// Posts that were not acknowledged, and came again.
    pub(crate) again: u64,
}

struct Supervisor {
    program: PathBuf,
    data: PathBuf,
    world: Arc<World>,
    told: watch::Sender<Option<String>>,
    spared: Arc<AtomicBool>,
    life: Duration,
    rng: fastrand::Rng,
}

/// The process; killed with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Supervisor {
    async fn supervise(mut self) -> (Killed, Running) {
        let mut killed = Killed::default();
        loop {
            let running = self.launch();
            let ends = Instant::now() + self.life.mul_f64(2.0 * self.rng.f64());
            while Instant::now() < ends {
                if self.spared.load(Ordering::Relaxed) {
                    return (killed, running);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            killed.at_the_model += self.world.model.running();
            drop(running);
            self.told.send(None).unwrap();
            killed.times += 1;
        }
    }

    /// Returns once the program answers, a fraction of a second later.
    fn launch(&self) -> Running {
        let log = std::fs::File::options().create(true).append(true).open(self.data.join("log")).unwrap();
        let mut child = Command::new(&self.program)
            .env_clear()
            .env("ANNALS_DATA_DIR", self.data.join("stores"))
            .env("ANNALS_PORT", "0")
            .env("RUST_LOG", "warn")
            .envs(self.world.settings())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let base = lines.find_map(|line| line.strip_prefix("Annals answers at ").map(str::to_owned));
        let base = base.expect("the program says where it answers, or in the log why it does not");
        std::thread::spawn(move || lines.for_each(drop));
        self.told.send(Some(base)).unwrap();
        Running(child)
    }
}
