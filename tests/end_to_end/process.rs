//! The real program, as a process of its own: [`Process`], and its commands: [`program`].

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Returns a command of the program with these arguments and variables, and no others. It logs nothing.
pub(crate) fn program(settings: &[(&str, impl AsRef<OsStr>)], arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
    let settings = settings.iter().map(|(name, value)| (*name, value));
    command.env_clear().env("RUST_LOG", "off").envs(settings).args(arguments);
    command
}

/// The binary, answering at `base`.
pub(crate) struct Process {
    child: Child,
    pub(crate) base: String,
    pub(crate) printed: Vec<String>,
}

impl Process {
    pub(crate) fn start(data_dir: &Path, settings: &[(&str, String)]) -> Self {
        Self::start_with(data_dir, settings, &[])
    }

    pub(crate) fn start_with(data_dir: &Path, settings: &[(&str, String)], arguments: &[&str]) -> Self {
        Self::run(program(settings, arguments), data_dir)
    }

    /// In the working directory `folder`, without settings.
    pub(crate) fn start_in(folder: &Path, data_dir: &Path) -> Self {
        let mut command = program(&[] as &[(&str, &str)], &[]);
        command.current_dir(folder);
        Self::run(command, data_dir)
    }

    /// With a limit on the size of its files, in 512 bytes: a write beyond it fails, as on a full disk.
    pub(crate) fn start_limited(data_dir: &Path, settings: &[(&str, String)], blocks: u32) -> Self {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_annals")]);
        command.env_clear().env("RUST_LOG", "off").envs(settings.iter().cloned());
        Self::run(command, data_dir)
    }

    pub(crate) fn start_logged(data_dir: &Path, settings: &[(&str, String)], log: File) -> Self {
        let mut command = program(settings, &[]);
        command.stderr(log);
        Self::run(command, data_dir)
    }

    fn run(mut command: Command, data_dir: &Path) -> Self {
        command.env("ANNALS_DATA_DIR", data_dir).env("ANNALS_PORT", "0").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut printed: Vec<String> = Vec::new();
        while printed.last().is_none_or(|line| !line.starts_with("Stop with")) {
            printed.push(lines.next().expect("the program prints where it answers"));
        }
        let base = printed.iter().find_map(|line| line.strip_prefix("Annals answers at "));
        let base = base.expect("an address").to_owned();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, base, printed }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
