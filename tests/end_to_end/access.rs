//! Permissions of the files in the data directory, and the files that a start creates.
#![cfg(unix)]

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::process::Process;

/// `nobody`, to whom nothing belongs.
const NOBODY: u32 = 65534;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_start_that_cannot_listen_creates_no_file_and_names_the_setting() {
    let (dir, taken) = (tempfile::tempdir().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let data = dir.path().join("data");
    let start = |settings: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
        command.env_clear().env("ANNALS_DATA_DIR", &data).envs(settings.iter().copied());
        let Output { status, stderr, .. } = command.output().unwrap();
        (status.code().unwrap(), String::from_utf8(stderr).unwrap())
    };
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, error) = start(&[("ANNALS_PORT", &port)]);
    assert!(code == 1 && error.contains("set ANNALS_PORT to a free port"), "{error}");
    // Of a network for documentation, so no machine's.
    let own = [("ANNALS_HOST", "192.0.2.1"), ("HTTP_API_KEYS", "a:0123456789abcdef")];
    let telegram = [("TELEGRAM_BOT_TOKEN", "1:x"), ("TELEGRAM_WEBHOOK_SECRET", "s")];
    let lark = [("LARK_APP_ID", "cli_1"), ("LARK_APP_SECRET", "s"), ("LARK_VERIFICATION_TOKEN", "t")];
    let (code, error) = start(&[&own[..], &telegram, &lark].concat());
    assert!(code == 1 && error.contains("set ANNALS_HOST to an address of this machine"), "{error}");
    assert!(!error.contains("ANNALS_PORT"), "{error}");
    assert!(!data.exists());
}

/// Data of somebody else's: this user may read them, and write nothing.
struct Foreign {
    dir: tempfile::TempDir,
    program: PathBuf,
    /// If the tests run as root, whom no mode keeps out, the program runs as nobody.
    is_root: bool,
}

impl Foreign {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let is_root = std::fs::metadata(dir.path()).unwrap().uid() == 0;
        let mut program = PathBuf::from(env!("CARGO_BIN_EXE_annals"));
        if is_root {
            set_mode(dir.path(), 0o755);
            // Where it was built others may not go.
            let copy = dir.path().join("annals");
            if std::fs::hard_link(&program, &copy).is_err() {
                std::fs::copy(&program, &copy).unwrap();
            }
            program = copy;
        }
        let talk = r#"{"id":"a","role":"user","parts":[{"type":"text","text":"hi"}]}"#;
        std::fs::write(dir.path().join("talk.jsonl"), talk).unwrap();
        let foreign = Self { dir, program, is_root };
        let mut import = foreign.command(&foreign.import());
        assert!(import.output().unwrap().status.success());
        foreign
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn import(&self) -> Vec<String> {
        let talk = self.dir.path().join("talk.jsonl").to_str().unwrap().to_owned();
        ["import", "--chat", "http:chat:dev:talk", &talk].map(str::to_owned).to_vec()
    }

    fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("RUST_LOG", "off").env("ANNALS_DATA_DIR", self.data());
        command.env("ANNALS_PORT", "0").args(arguments);
        command
    }

    /// Everything of the data for reading alone, or nothing of it at all.
    fn open_for_reading(&self, is_open: bool) {
        let (folder, file) = if self.is_root { (0o755, 0o644) } else { (0o555, 0o444) };
        set_mode(&self.data(), 0o755);
        for entry in std::fs::read_dir(self.data()).unwrap() {
            let entry = entry.unwrap();
            set_mode(&entry.path(), if entry.file_type().unwrap().is_dir() { folder } else { file });
        }
        set_mode(&self.data(), if is_open { folder } else { 0 });
    }

    /// Returns the error of a command.
    fn refused(&self, arguments: &[String]) -> String {
        let mut command = self.command(arguments);
        if self.is_root {
            command.uid(NOBODY);
        }
        let Output { status, stderr, stdout } = command.output().unwrap();
        assert_eq!(status.code(), Some(1), "{arguments:?}: {}", String::from_utf8_lossy(&stdout));
        String::from_utf8(stderr).unwrap()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        set_mode(&self.data(), 0o755);
    }
}

#[test]
fn data_that_this_user_may_not_write_are_said_to_be() {
    let foreign = Foreign::new();
    foreign.open_for_reading(true);
    let shown = foreign.data().display().to_string();
    let wanted = format!("annals: {shown} cannot be written by this user: Permission denied (os error 13)\n");
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let commands = ["chat hello", "history http:chat:dev:talk", "memory forget x"].map(words);
    for arguments in [foreign.import(), vec![]].into_iter().chain(commands) {
        assert_eq!(foreign.refused(&arguments), wanted, "{arguments:?}");
    }
    foreign.open_for_reading(false);
    let wanted = format!("annals: {shown} cannot be read by this user: Permission denied (os error 13)\n");
    for command in ["history http:chat:dev:talk", "context http:chat:dev:talk"] {
        assert_eq!(foreign.refused(&words(command)), wanted);
    }
}

/// Beside the program that serves, reading works; what is stored would not be.
#[test]
fn a_doctor_who_may_only_read_does_not_say_that_all_can_be_stored() {
    let foreign = Foreign::new();
    if !foreign.is_root {
        // The program that serves would be kept out as well.
        return;
    }
    let process = Process::start(&foreign.data(), &[]);
    foreign.open_for_reading(true);
    let mut doctor = foreign.command(&["doctor".to_owned()]);
    doctor.env("ANNALS_PORT", process.base.rsplit(':').next().unwrap()).uid(NOBODY);
    let Output { status, stdout, .. } = doctor.output().unwrap();
    let out = String::from_utf8(stdout).unwrap();
    let fault =
        format!("fault  data                 {} cannot be written by this user", foreign.data().display());
    assert!(status.code() == Some(1) && out.lines().any(|line| line.starts_with(&fault)), "{out}");
    assert!(!out.contains("can be stored") && out.contains("ok     program"), "{out}");
}
