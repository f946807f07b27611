//! The real program, killed with `SIGKILL`, so that it cannot clean up, and started again.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::handle::Handle;
use crate::world::World;

/// Counts of the kills.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Killed {
    pub(crate) times: u64,
    /// Requests to the model that were running at a kill, each of another run.
    pub(crate) at_the_model: usize,
}

/// The program, and the task that kills it.
pub(crate) struct Program {
    handle: Handle,
    spared: Arc<AtomicBool>,
    supervisor: JoinHandle<(Killed, Running)>,
}

impl Program {
    /// Starts the program, and kills and restarts it repeatedly. Its lifetime is `life` on average and at most twice
    /// that; `seed` determines it.
    pub(crate) fn start(
        program: PathBuf,
        data: &Path,
        world: &Arc<World>,
        life: Duration,
        seed: u64,
    ) -> Self {
        let (told, base) = watch::channel(None);
        let handle = Handle::new(base);
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

    /// Stops killing, waits until every turn is done, and ends the program.
    pub(crate) async fn come_to_rest(self, world: &World, patience: Duration) -> Report {
        self.spared.store(true, Ordering::Relaxed);
        let (killed, _running) = self.supervisor.await.unwrap();
        let deadline = Instant::now() + patience;
        // Checks twice, since neither check sees a turn that is only in the program's queue.
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

/// Counts of what happened during the soak.
pub(crate) struct Report {
    pub(crate) killed: Killed,
    /// Posts that were not acknowledged, and were repeated.
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
